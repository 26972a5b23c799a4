# SPDX-License-Identifier: Apache-2.0
"""Retained addresses that follow their pod's name from node to node."""
import time

from agents import addresses, elapsed
from cluster import wait


def moved(nodes, pod, node):
    """Replaces the pod by one of the same name on another node, as its StatefulSet does; returns the new pod."""
    meta = pod["metadata"]
    nodes.remove_pod(pod)
    owner = {"kind": "StatefulSet", "name": meta["name"].rsplit("-", 1)[0]}
    return wait(lambda: nodes.pod("t", node, meta["name"], owner), f"pod {meta['name']} is created on node {node}")


def shown(nodes, pod):
    """Waits until the pod's SpiderEndpoint has the pod's UID and no node requests its addresses; returns its status.current."""
    meta = pod["metadata"]

    def inspect():
        have = nodes.endpoint("t", meta["name"])
        assert have and have["status"]["current"]["uid"] == meta["uid"], have
        assert "unirail.io/requested-from" not in have["metadata"]["labels"], have
        assert "unirail.io/requested-by" not in have["metadata"].get("annotations", {}), have
        return have["status"]["current"]

    return wait(inspect, "the SpiderEndpoint has the pod's UID and no open request", 20)


def test_statefulset_pod_gets_its_addresses_again(nodes, agent, rails):
    """The addresses of a StatefulSet's pod are retained under the pod's name."""
    one = agent()
    owner = {"kind": "StatefulSet", "name": "web"}
    pod = nodes.pod("t", "n1", "web-0", owner)
    first = addresses(one.plan(pod, *rails)[1])
    assert one.release(pod) == 8
    others = [addresses(one.plan(nodes.pod("t", "n1"), *rails)[1]) for _ in range(2)]
    nodes.remove_pod(pod)
    again = wait(lambda: nodes.pod("t", "n1", "web-0", owner), "pod web-0 is created again")
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    assert addresses(one.plan(again, *rails)[1]) == first
    assert not any(set(o.values()) & set(first.values()) for o in others)
    nodes.remove_pod(again)


def test_statefulset_pod_gets_its_addresses_on_another_node(nodes, agent, rails):
    """The pod keeps its addresses when it is recreated on another node, and when it is recreated on its first node again."""
    one, two = agent(), agent("n2")
    pod = nodes.pod("t", "n1", "far-0", {"kind": "StatefulSet", "name": "far"})
    first = addresses(one.plan(pod, *rails)[1])
    shown(nodes, pod)
    assert one.release(pod) == 8
    for here, there in ((one, two), (two, one), (one, two)):
        pod = moved(nodes, pod, there.node)
        took, (status, answer) = elapsed(lambda: there.plan(pod, *rails))
        assert status == 200, (answer, here.log.read_text()[-3000:], there.log.read_text()[-3000:])
        assert addresses(answer) == first
        assert took < 10, took
        others = addresses(here.plan(nodes.pod("t", here.node), *rails)[1])
        assert not set(others.values()) & set(first.values())
        current = shown(nodes, pod)
        assert current["node"] == there.node
        assert [x["ipv4"].split("/")[0] for x in current["ips"]] == list(first.values())
        assert len(wait(lambda: len(here.logged("exported a retained address to another node")) % 8 == 0
                        and here.logged("exported a retained address to another node"), "all addresses of the pod are exported")) >= 8
        assert there.release(pod) == 8


def test_statefulset_pod_gets_its_addresses_interface_by_interface(nodes, agent, rails):
    """Spiderpool's plugin requests the addresses of one interface at a time."""
    one, two = agent(), agent("n2")
    pod = nodes.pod("t", "n1", "single-0", {"kind": "StatefulSet", "name": "single"})
    first = [addresses(one.add(pod, f"net{i}", defaultIPv4IPPool=[f"rail{i}"])[1]) for i in range(1, 4)]
    wait(lambda: len(shown(nodes, pod)["ips"]) == 3, "the SpiderEndpoint has three interfaces")
    assert one.release(pod) == 3
    pod = moved(nodes, pod, "n2")
    for i in range(1, 4):
        status, answer = two.add(pod, f"net{i}", defaultIPv4IPPool=[f"rail{i}"])
        assert status == 200 and addresses(answer) == first[i - 1], answer
        time.sleep(0.5)  # meanwhile the agent writes the SpiderEndpoint
    two.release(pod)
    nodes.remove_pod(pod)


def test_statefulset_pod_waits_for_its_former_container(nodes, agent, rails):
    """An address belongs to one container at a time: the new pod waits until the former pod's container has released the addresses."""
    one, two = agent(), agent("n2", args=("--wait", "3s"))
    pod = nodes.pod("t", "n1", "late-0", {"kind": "StatefulSet", "name": "late"})
    first = addresses(one.plan(pod, *rails)[1])
    shown(nodes, pod)
    follower = moved(nodes, pod, "n2")
    status, answer = two.plan(follower, *rails)
    assert status == 500 and "is retained on node 'n1' and not released yet" in answer["message"], answer
    assert one.release(pod) == 8
    status, answer = wait(lambda: (lambda r: r if r[0] == 200 else None)(two.plan(follower, *rails)),
                          "the second node gets the addresses", 30)
    assert addresses(answer) == first
    two.release(follower)
    nodes.remove_pod(follower)


def test_statefulset_pod_of_an_unavailable_node_is_refused(mine, nodes, agent, rails):
    """The addresses may be in use on the unavailable node: the request fails until that node's agent answers again or that node's blocks
    have no owner."""
    one, two = agent(), agent("n2", args=("--wait", "2s"))
    pod = nodes.pod("t", "n1", "dead-0", {"kind": "StatefulSet", "name": "dead"})
    first = addresses(one.plan(pod, *rails)[1])
    shown(nodes, pod)
    assert one.release(pod) == 8
    one.kill()
    pod = moved(nodes, pod, "n2")
    took, (status, answer) = elapsed(lambda: two.plan(pod, *rails))
    assert status == 500 and "is its agent running?" in answer["message"], answer
    assert took < 10, took
    one.start()
    status, answer = wait(lambda: (lambda r: r if r[0] == 200 else None)(two.plan(pod, *rails)),
                          "the second node gets the addresses", 30)
    assert addresses(answer) == first
    two.release(pod)
    nodes.remove_pod(pod)
