# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` on a real API server, asked as Spiderpool's plugin and ours ask it."""
import concurrent.futures
import json
import signal
import subprocess
import time
import uuid

import pytest
import yaml

import cluster as clusters
from agents import CRDS, MERGE, SPIDER, Agent, Nodes, addresses, elapsed, install_crds
from cluster import BINARY, wait

RAILS = [f"rail{i}" for i in range(1, 9)]


@pytest.fixture(scope="module")
def mine():
    """A cluster of this module: here the API server is stopped, and the definitions come late."""
    one = clusters.Cluster()
    yield one
    one.close()


@pytest.fixture(scope="module")
def nodes(mine):
    nodes = Nodes(mine)
    for name in ("n1", "n2"):
        nodes.node(name)
    mine.namespace("t")
    return nodes


@pytest.fixture
def agent(mine, nodes, closing, tmp_path):
    def start(node="n1", kubeconfig=None, name=None, args=(), ready=True, **env):
        one = Agent(tmp_path / (name or node), kubeconfig or mine.admin_config(), node, **env)
        return closing(one).start(*args, ready=ready)
    return start


@pytest.fixture
def pools(mine, nodes):
    """Pools and blocks of a test; those of the test before are gone."""
    for b in nodes.blocks():
        mine.request("DELETE", f"/apis/unirail.io/v1/spideripblocks/{b['metadata']['name']}")
    for p in mine.ok("GET", f"{SPIDER}/spiderippools")["items"]:
        mine.request("DELETE", f"{SPIDER}/spiderippools/{p['metadata']['name']}")
    return nodes.pool


@pytest.fixture
def rails(pools):
    for i, name in enumerate(RAILS):
        pools(name, f"172.16.{i + 1}.0/24")
    return RAILS


def test_definitions_that_are_not_installed(mine, nodes, agent):
    """The first test: one line says what to do, and the agent goes on when it is done."""
    one = agent(ready=False)
    said = wait(lambda: one.said("install their definitions"))
    assert len(said) == 1 and "deploy/crds" in said[0]["msg"], said
    assert "spiderippools.spiderpool.spidernet.io" in said[0]["kinds"], said
    assert one.get(one.health, "/healthz") == (200, "ok\n")
    status, text = one.get(one.health, "/readyz")
    assert status == 503 and "spiderippools" in text, text
    assert one.get(one.health, "/v1/runtime/liveness")[0] == 200
    assert one.get(one.health, "/v1/runtime/readiness")[0] == 503
    install_crds(mine)
    one.ready(60)
    assert len(one.said("install their definitions")) == 1
    assert one.stop() == 0


def test_eight_rails(nodes, agent, rails):
    one = agent()
    pod, other = nodes.pod("t", "n1"), nodes.pod("t", "n1")
    status, answer = one.plan(pod, *rails)
    assert status == 200, answer
    got = addresses(answer)
    assert [a.rsplit(".", 1)[0] for a in got.values()] == [f"172.16.{i}" for i in range(1, 9)]
    assert all(r["fresh"] for r in answer["rails"])
    again = one.plan(pod, *rails)[1]
    assert addresses(again) == got and not any(r["fresh"] for r in again["rails"])
    assert not set(addresses(one.plan(other, *rails)[1]).values()) & set(got.values())
    blocks = nodes.blocks()
    assert sorted(b["spec"]["pool"] for b in blocks) == rails
    assert {b["spec"]["node"] for b in blocks} == {"n1"}
    assert one.release(pod) == 8 and one.release(pod) == 0
    assert one.metrics()['unirail_ippool_used_ips{pool="rail3"}'] == 1


def test_status(mine, nodes, agent, rails):
    """How a node stands, for people and programs."""
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), *rails[:2])[0] == 200
    r = mine.unirail("status", "--socket", one.socket)
    assert r.returncode == 0 and r.stdout.startswith("node n1: ready\n2 blocks of its own"), r
    rows = {line.split()[0]: line.split()[1:] for line in r.stdout.splitlines() if line.startswith("rail")}
    assert {name: (used, total) for name, (used, _, total) in rows.items()} == {
        "rail1": ("1", "241"), "rail2": ("1", "241")}, r.stdout
    got = json.loads(mine.unirail("status", "--socket", one.socket, "-o", "json").stdout)
    assert got["ready"] and got["waiting"] == 0 and [k["why"] for k in got["kinds"]] == [""] * 7, got
    mine.stop_apiserver()
    try:
        wait(lambda: "namespaces are not known: " in mine.unirail("status", "--socket", one.socket).stdout)
    finally:
        mine.start_apiserver()
    one.stop()
    r = mine.unirail("status", "--socket", one.socket)
    assert r.returncode == 1 and r.stderr.startswith("unirail status: ask the agent (is 'unirail agent' running on this node?): "), r


def test_nobody_is_asked_while_there_is_room(nodes, agent, rails):
    """Once a node has its blocks, addresses cost no request about blocks."""
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    time.sleep(1)
    before = one.metrics()["unirail_block_requests_total"]
    for _ in range(4):
        assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    m = one.metrics()
    assert m["unirail_block_requests_total"] == before
    assert m["spiderpool_ipam_allocation_counts_total"] == 5
    assert m['unirail_ipam_phase_duration_seconds_count{phase="blocks"}'] == 1


def test_spiderpools_own_requests(nodes, agent, pools):
    pools("p4", "10.6.0.0/16", ["10.6.0.2-10.6.0.9"], routes=[{"dst": "10.7.0.0/16", "gw": "10.6.0.1"}])
    one = agent()
    pod = nodes.pod("t", "n1")
    name = pod["metadata"]["name"]
    status, answer = one.add(pod, defaultIPv4IPPool=["p4"], defaultIPv6IPPool=None, cleanGateway=False,
                             matchMasterSubnet=False)
    assert (status, answer) == (200, {
        "ips": [{"address": "10.6.0.2/16", "gateway": "10.6.0.1", "ipPool": "p4", "nic": "eth0", "version": 4}],
        "routes": [{"dst": "10.7.0.0/16", "gw": "10.6.0.1", "ifName": "eth0"},
                   {"dst": "0.0.0.0/0", "gw": "10.6.0.1", "ifName": "eth0"}]})
    assert one.add(pod, "net1", defaultIPv4IPPool=["p4"])[1]["ips"][0]["address"] == "10.6.0.3/16"
    found = one.ok("GET", f"/v1/workloadendpoint?podNamespace=t&podName={name}")
    assert found["node"] == "n1" and found["podUID"] == pod["metadata"]["uid"]
    assert [(x["interface"], x["ipv4"], x["ipv4Pool"]) for x in found["interfaces"]] == [
        ("eth0", "10.6.0.2/16", "p4"), ("net1", "10.6.0.3/16", "p4")]
    assert one.ok("GET", "/v1/ipam/healthy") is None
    assert one.delete(pod) is None
    assert one.ok("DELETE", "/v1/ipam/ips", {
        "containerID": pod["metadata"]["uid"][:12], "netNamespace": "", "podName": name, "podNamespace": "t",
        "podUID": pod["metadata"]["uid"], "isReleaseConflictIPs": False}) is None
    assert one.ask("GET", f"/v1/workloadendpoint?podNamespace=t&podName={name}")[0] == 404
    assert one.ask("POST", "/v1/ipam/ip", {})[0] == 422


def test_pods_that_cannot_be(mine, nodes, agent, rails):
    one = agent()
    pod = nodes.pod("t", "n1")

    def refused(pod, ns="t", **meta):
        status, text = one.add({"metadata": {**pod["metadata"], **meta}}, defaultIPv4IPPool=["rail1"])
        assert status == 500, text
        return text

    gone = {"metadata": {"namespace": "t", "name": "gone", "uid": str(uuid.uuid4())}}
    assert "pod 't/gone' does not exist (any more)" in refused(gone)
    text = refused(pod, uid="other-uid")
    assert pod["metadata"]["uid"] in text and "another pod of that name took its place" in text
    elsewhere = nodes.pod("t", "n2")
    assert "is of node 'n2', and this is 'n1'" in refused(elsewhere)
    assert "K8S_POD_NAMESPACE" in refused(pod, name="")
    # The runtime of old passes no UID: the API server's is taken.
    status, answer = one.add({"metadata": {**pod["metadata"], "uid": ""}}, container="c1",
                             defaultIPv4IPPool=["rail1"])
    assert status == 200, answer
    found = one.ok("GET", f"/v1/workloadendpoint?podNamespace=t&podName={pod['metadata']['name']}")
    assert found["podUID"] == pod["metadata"]["uid"]
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{pod['metadata']['name']}/status", {"status": {"phase": "Failed"}},
            type=MERGE)
    wait(lambda: "dead Pod t/" in refused(pod, uid=pod["metadata"]["uid"]))
    nodes.remove_pod(pod)


def test_a_pod_that_the_watch_has_not_shown_yet(nodes, agent, rails):
    """Made and asked for at once: found by one request."""
    one = agent()
    for _ in range(5):
        pod = nodes.pod("t", "n1")
        status, answer = one.plan(pod, "rail1", "rail2")
        assert status == 200, answer


def test_who_comes_first_waits_least(nodes, agent, pools):
    """A pool of few addresses, all with another node: they come one by one, in the order of asking; a pod that asks
    another pool does not wait."""
    pools("few", "10.8.0.0/24", ["10.8.0.10-10.8.0.12"])
    pools("many", "10.9.0.0/24")
    two, one = agent("n2", UNIRAIL_REST="0s"), agent("n1", UNIRAIL_REST="0s")
    holders = [nodes.pod("t", "n2") for _ in range(3)]
    for pod in holders:
        assert two.plan(pod, "few")[0] == 200
    waiting = [nodes.pod("t", "n1") for _ in range(2)]
    order = []

    def ask(i):
        status, answer = one.plan(waiting[i], "few", timeout=90)
        order.append(i)
        return status, answer

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = []
        for i in range(2):
            futures.append(pool.submit(ask, i))
            time.sleep(0.5)
        took, (status, _) = elapsed(lambda: one.plan(nodes.pod("t", "n1"), "many"))
        assert status == 200 and took < 5, took
        assert not any(f.done() for f in futures)
        two.release(holders[0])
        wait(lambda: len(order) == 1, 20)
        two.release(holders[1])
        got = [f.result() for f in futures]
    assert [s for s, _ in got] == [200, 200], (got, one.log.read_text()[-2000:])
    assert order == [0, 1]


def test_a_pool_that_is_used_up(nodes, agent, pools):
    """The error names the pool, who has its addresses, and what was tried; a backup pool is for this."""
    pools("few", "10.8.0.0/24", ["10.8.0.10"])
    pools("backup", "10.9.0.0/24")
    two, one = agent("n2"), agent("n1", UNIRAIL_WAIT="3s")
    assert two.plan(nodes.pod("t", "n2"), "few")[0] == 200
    took, (status, answer) = elapsed(lambda: one.plan(nodes.pod("t", "n1"), "few"))
    assert status == 500 and answer["code"] == 11 and took > 2, (took, answer)
    assert "all IP addresses used out" in answer["message"] and "pool 'few'" in answer["message"]
    status, answer = one.plan(nodes.pod("t", "n1"), ["few", "backup"])
    assert status == 200 and answer["rails"][0]["ips"][0]["ipPool"] == "backup", answer
    assert one.metrics()["spiderpool_ipam_allocation_err_ip_used_out_counts_total"] == 1


def test_first_choice_before_backup(nodes, agent, pools):
    """That this node has none of the first pool yet is no reason to take one of the backup."""
    pools("first", "10.8.0.0/24")
    pools("backup", "10.9.0.0/24")
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), "backup")[0] == 200
    answer = one.plan(nodes.pod("t", "n1"), ["first", "backup"])[1]
    assert answer["rails"][0]["ips"][0]["ipPool"] == "first"


def pool_names(answer):
    return [r["ips"][0]["ipPool"] for r in answer["rails"]]


def test_what_annotations_ask_for(mine, nodes, agent, rails):
    """They come before the network's configuration, and mistakes are told with their place."""
    one = agent()
    both = json.dumps([{"interface": "net1", "ipv4": ["rail3"]}, {"interface": "net2", "ipv4": ["rail4"]}])
    pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/ippools": both})
    assert pool_names(one.plan(pod, "rail1", "rail2")[1]) == ["rail3", "rail4"]
    # One after the other, by their order.
    unnamed = json.dumps([{"ipv4": ["rail5"]}, {"ipv4": ["rail6"]}])
    pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/ippools": unnamed})
    got = [one.add(pod, i, defaultIPv4IPPool=["rail1"])[1]["ips"][0]["ipPool"] for i in ("eth0", "net1")]
    assert got == ["rail5", "rail6"]
    routes = json.dumps([{"dst": "10.99.0.0/16", "gw": "172.16.2.254"}])
    pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/routes": routes})
    answer = one.plan(pod, "rail1", "rail2")[1]
    assert [r["routes"][0]["dst"] for r in answer["rails"]] == ["0.0.0.0/0", "10.99.0.0/16"]
    pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/ippool": "{"})
    status, answer = one.plan(pod, "rail1")
    assert status == 500 and answer["code"] == 7, answer
    assert pod["metadata"]["name"] in answer["message"] and "ipam.spidernet.io/ippool" in answer["message"]
    mine.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": {
        "ipam.spidernet.io/default-ipv4-ippool": '["rail7"]'}}})
    wait(lambda: pool_names(one.plan(nodes.pod("team", "n1"), "rail1")[1]) == ["rail7"])


def test_pools_that_are_not_for_everybody(mine, nodes, agent, pools):
    """Affinities and networks of pools, held against pod, namespace, node and network."""
    mine.ok("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"zone": "a"}}}, type=MERGE)
    pools("zone-b", "10.8.0.0/24", nodeAffinity={"matchLabels": {"zone": "b"}})
    pools("zone-a", "10.9.0.0/24", nodeAffinity={"matchLabels": {"zone": "a"}})
    pools("app", "10.10.0.0/24", podAffinity={"matchLabels": {"app": "x"}})
    pools("net", "10.11.0.0/24", multusName=["t/rail9"])
    one = agent()
    assert pool_names(one.plan(nodes.pod("t", "n1"), ["zone-b", "zone-a"])[1]) == ["zone-a"]
    status, answer = one.plan(nodes.pod("t", "n1"), "app")
    assert status == 500 and answer["code"] == 7 and "app" in answer["message"]
    assert one.plan(nodes.pod("t", "n1", labels={"app": "x"}), "app")[0] == 200
    assert one.plan(nodes.pod("t", "n1"), "net")[0] == 500
    pod = nodes.pod("t", "n1", annotations={"k8s.v1.cni.cncf.io/networks": "t/rail8,rail9"})
    assert pool_names(one.plan(pod, "zone-a", "net")[1]) == ["zone-a", "net"]


def test_statefulset(nodes, agent, rails):
    """Its pods keep their addresses under their names."""
    one = agent()
    owner = {"kind": "StatefulSet", "name": "web"}
    pod = nodes.pod("t", "n1", "web-0", owner)
    first = addresses(one.plan(pod, *rails)[1])
    assert one.release(pod) == 8
    others = [addresses(one.plan(nodes.pod("t", "n1"), *rails)[1]) for _ in range(2)]
    nodes.remove_pod(pod)
    again = wait(lambda: nodes.pod("t", "n1", "web-0", owner))
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    assert addresses(one.plan(again, *rails)[1]) == first
    assert not any(set(o.values()) & set(first.values()) for o in others)
    nodes.remove_pod(again)


def moved(nodes, pod, node):
    """The pod of the same name that its set makes on another node."""
    meta = pod["metadata"]
    nodes.remove_pod(pod)
    owner = {"kind": "StatefulSet", "name": meta["name"].rsplit("-", 1)[0]}
    return wait(lambda: nodes.pod("t", node, meta["name"], owner))


def shown(nodes, pod):
    """Its addresses are in its endpoint, and nobody asks for them."""
    meta = pod["metadata"]

    def look():
        have = nodes.endpoint("t", meta["name"])
        assert have and have["status"]["current"]["uid"] == meta["uid"], have
        assert "unirail.io/wanted-from" not in have["metadata"]["labels"], have
        assert "unirail.io/wanted-by" not in have["metadata"].get("annotations", {}), have
        return have["status"]["current"]

    return wait(look, 20)


def test_statefulset_on_another_node(nodes, agent, rails):
    """Its pod keeps its addresses wherever it goes, there and back."""
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
        assert len(wait(lambda: len(here.said("a kept address went to another node")) % 8 == 0
                        and here.said("a kept address went to another node"))) >= 8
        assert there.release(pod) == 8


def test_statefulset_interface_by_interface(nodes, agent, rails):
    """Spiderpool's plugin asks for one at a time."""
    one, two = agent(), agent("n2")
    pod = nodes.pod("t", "n1", "single-0", {"kind": "StatefulSet", "name": "single"})
    first = [addresses(one.add(pod, f"net{i}", defaultIPv4IPPool=[f"rail{i}"])[1]) for i in range(1, 4)]
    wait(lambda: len(shown(nodes, pod)["ips"]) == 3)
    assert one.release(pod) == 3
    pod = moved(nodes, pod, "n2")
    for i in range(1, 4):
        status, answer = two.add(pod, f"net{i}", defaultIPv4IPPool=[f"rail{i}"])
        assert status == 200 and addresses(answer) == first[i - 1], answer
        time.sleep(0.5)  # the endpoint is written between them
    two.release(pod)
    nodes.remove_pod(pod)


def test_statefulset_whose_container_lives_on(nodes, agent, rails):
    """An address is with one at a time: the pod waits for its forerunner's end."""
    one, two = agent(), agent("n2", args=("--wait", "3s"))
    pod = nodes.pod("t", "n1", "late-0", {"kind": "StatefulSet", "name": "late"})
    first = addresses(one.plan(pod, *rails)[1])
    shown(nodes, pod)
    follower = moved(nodes, pod, "n2")
    status, answer = two.plan(follower, *rails)
    assert status == 500 and "is kept on node 'n1', which has not given it up" in answer["message"], answer
    assert one.release(pod) == 8
    status, answer = wait(lambda: (lambda r: r if r[0] == 200 else None)(two.plan(follower, *rails)), 30)
    assert addresses(answer) == first
    two.release(follower)
    nodes.remove_pod(follower)


def test_statefulset_whose_node_does_not_answer(mine, nodes, agent, rails):
    """Its addresses may be in use there: an error, until the agent is back, or the node's blocks are nobody's."""
    one, two = agent(), agent("n2", args=("--wait", "2s"))
    pod = nodes.pod("t", "n1", "dead-0", {"kind": "StatefulSet", "name": "dead"})
    first = addresses(one.plan(pod, *rails)[1])
    shown(nodes, pod)
    assert one.release(pod) == 8
    one.kill()
    pod = moved(nodes, pod, "n2")
    took, (status, answer) = elapsed(lambda: two.plan(pod, *rails))
    assert status == 500 and "is that node's agent running?" in answer["message"], answer
    assert took < 10, took
    one.start()
    status, answer = wait(lambda: (lambda r: r if r[0] == 200 else None)(two.plan(pod, *rails)), 30)
    assert addresses(answer) == first
    two.release(pod)
    nodes.remove_pod(pod)


def test_endpoints(mine, nodes, agent, rails):
    """One SpiderEndpoint a pod, as Spiderpool writes it; it goes with the addresses."""
    one = agent()
    labels = {"pod-template-hash": "9dc78fb9"}
    pod = nodes.pod("t", "n1", owner={"kind": "ReplicaSet", "name": "app-9dc78fb9"}, labels=labels)
    name = pod["metadata"]["name"]
    got = addresses(one.plan(pod, *rails)[1])
    have = wait(lambda: nodes.endpoint("t", name))
    status = have["status"]
    assert (status["ownerControllerType"], status["ownerControllerName"]) == ("Deployment", "app")
    current = status["current"]
    assert (current["uid"], current["node"]) == (pod["metadata"]["uid"], "n1")
    assert [(x["interface"], x["ipv4"], x["ipv4Pool"], x["ipv4Gateway"], x["vlan"]) for x in current["ips"]] == [
        (f"net{i}", got[f"net{i}"] + "/24", f"rail{i}", f"172.16.{i}.1", 0) for i in range(1, 9)]
    assert [(x["kind"], x["uid"]) for x in have["metadata"]["ownerReferences"]] == [("Pod", pod["metadata"]["uid"])]
    time.sleep(1)
    assert one.metrics()["unirail_endpoint_writes_total"] == 1
    # A sandbox that is made anew.
    one.release(pod)
    again = addresses(one.plan(pod, *rails, container="second")[1])
    wait(lambda: nodes.endpoint("t", name)["status"]["current"]["ips"][0]["ipv4"].split("/")[0] == again["net1"])
    assert nodes.endpoint("t", name)["metadata"]["uid"] == have["metadata"]["uid"]
    # Deleted by somebody, and changed.
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{name}")
    wait(lambda: nodes.endpoint("t", name))
    one.release(pod, container="second")
    wait(lambda: nodes.endpoint("t", name) is None, 20)


def test_endpoints_of_others(mine, nodes, agent, rails):
    """One that Spiderpool left behind is taken over; what was missed while the agent was down is made good for."""
    pods = [nodes.pod("t", "n1") for _ in range(2)]
    name = pods[0]["metadata"]["name"]
    mine.ok("POST", f"{SPIDER}/namespaces/t/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
        "status": {"current": {"uid": "old", "node": "n9", "ips": [{"interface": "eth0"}]},
                   "ownerControllerType": "Pod", "ownerControllerName": name}})
    one = agent()
    for pod in pods:
        assert one.plan(pod, "rail1")[0] == 200
    wait(lambda: nodes.endpoint("t", name)["status"]["current"]["uid"] == pods[0]["metadata"]["uid"])
    assert "finalizers" not in nodes.endpoint("t", name)["metadata"]
    other = pods[1]["metadata"]["name"]
    wait(lambda: nodes.endpoint("t", other))
    one.kill()
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{other}")
    one.start()
    wait(lambda: nodes.endpoint("t", other))
    for pod in pods:
        one.release(pod)
    wait(lambda: nodes.endpoint("t", name) is None and nodes.endpoint("t", other) is None, 20)


def test_failures_are_events(mine, nodes, agent, rails):
    one = agent()
    pod = nodes.pod("t", "n1")
    assert one.plan(pod, "no-such-pool")[0] == 500

    def event():
        items = mine.ok("GET", "/api/v1/namespaces/t/events")["items"]
        return [e for e in items if e["involvedObject"].get("uid") == pod["metadata"]["uid"]]
    (found,) = wait(event)
    assert found["type"] == "Warning" and found["reason"] == "FailedAllocateIPs", found
    assert "no pool 'no-such-pool'" in found["message"] and found["source"]["component"] == "unirail-agent"


def test_pods_that_are_gone(mine, nodes, agent, rails, tmp_path):
    """Whose DEL never came: theirs go back, after a while; nobody else's does, nor anything while the API is away."""
    one = agent(UNIRAIL_GC_GRACE="1s")
    pods = {what: nodes.pod("t", "n1") for what in ("lives", "gone", "finished", "held")}
    for what, pod in pods.items():
        netns = tmp_path / what
        if what == "held":
            netns.touch()
        assert one.plan(pod, "rail1", "rail2", netNamespace=str(netns))[0] == 200
    replaced = nodes.pod("t", "n1", "r-0")
    static = nodes.pod("t", "n1", "s-0", annotations={"kubernetes.io/config.source": "file"})
    for pod in (replaced, static):
        assert one.plan(pod, "rail1", "rail2")[0] == 200
    used = lambda: one.metrics().get('unirail_ippool_used_ips{pool="rail1"}')  # noqa: E731
    assert used() == 6
    for pod in (pods["gone"], pods["held"], replaced, static):
        nodes.remove_pod(pod)
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{pods['finished']['metadata']['name']}/status",
            {"status": {"phase": "Succeeded"}}, type=MERGE)
    wait(lambda: nodes.pod("t", "n1", "r-0"))
    # The kubelet writes its own pod's object anew, under another UID; its container runs on.
    wait(lambda: nodes.pod("t", "n1", "s-0", annotations={"kubernetes.io/config.source": "file"}))
    wait(lambda: used() == 3, 60)
    freed = {x["pod"]: x["why"] for x in one.said("addresses freed of a pod that is gone")}
    assert freed == {pods["gone"]["metadata"]["name"]: "the pod does not exist",
                     pods["finished"]["metadata"]["name"]: "the pod has finished",
                     "r-0": "another pod of that name took its place"}
    assert one.metrics()["spiderpool_ip_gc_counts_total"] == 6
    (tmp_path / "held").unlink()
    wait(lambda: used() == 2, 60)
    assert one.release(pods["lives"]) == 2 and one.release(static) == 2


def test_a_lost_disk(mine, nodes, agent, rails):
    """Blocks of a journal that is lost are unused until every pod of the node is accounted for; then nobody has lost
    his address, and nobody has got it twice."""
    for pod in mine.ok("GET", "/api/v1/pods")["items"]:
        nodes.remove_pod(pod)
    one = agent(UNIRAIL_GC_GRACE="1s")
    pods = [nodes.pod("t", "n1") for _ in range(3)]
    before = [addresses(one.plan(p, *rails[:2])[1]) for p in pods]
    for pod in pods[:2]:
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]))
    # The third left another trace.
    name = pods[2]["metadata"]["name"]
    wait(lambda: nodes.endpoint("t", name))
    one.kill()
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{name}")
    for f in one.state.iterdir():
        f.unlink()
    one.start()
    said = wait(lambda: one.said("neither a network-status nor a SpiderEndpoint"))
    assert f"t/{name}" in said[0]["pods"] and pods[0]["metadata"]["name"] not in said[0]["pods"], said
    assert not one.said("adopted")
    fresh = nodes.pod("t", "n1")
    got = addresses(one.plan(fresh, *rails[:2])[1])
    status = json.dumps([{"name": "t/rail", "interface": i, "ips": [a]} for i, a in before[2].items()])
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{name}",
            {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": status}}}, type=MERGE)
    wait(lambda: one.said("are adopted"), 30)
    wait(lambda: one.metrics()["unirail_blocks_foreign"] == 0, 30)
    many = [addresses(one.plan(nodes.pod("t", "n1"), *rails[:2])[1]) for _ in range(8)]
    all_of_them = [a for v in [*before, got, *many] for a in v.values()]
    assert len(set(all_of_them)) == len(all_of_them)
    assert nodes.endpoint("t", pods[0]["metadata"]["name"])["status"]["current"]["uid"] == pods[0]["metadata"]["uid"]
    used = one.metrics()['unirail_ippool_used_ips{pool="rail1"}']
    nodes.remove_pod(pods[0])
    wait(lambda: one.metrics()['unirail_ippool_used_ips{pool="rail1"}'] == used - 1, 60)


def test_killed_anywhere(nodes, agent, rails):
    """What was answered is remembered, and what was not is not lost."""
    one = agent()
    pods = [nodes.pod("t", "n1") for _ in range(4)]
    known = {}
    for i in range(4):
        for k, pod in enumerate(pods[:i + 1]):
            status, answer = one.plan(pod, *rails)
            assert status == 200, answer
            assert known.setdefault(k, addresses(answer)) == addresses(answer)
        one.kill()
        one.start()
    all_of_them = [a for v in known.values() for a in v.values()]
    assert len(set(all_of_them)) == len(all_of_them)
    for pod in pods:
        assert one.release(pod) == 8


def test_the_api_server_is_away(mine, nodes, agent, rails):
    """Pods come and go, and the agent may be started anew meanwhile."""
    one = agent()
    pods = [nodes.pod("t", "n1") for _ in range(4)]
    wait(lambda: one.plan(pods[0], *rails)[0] == 200)
    time.sleep(1)  # the watch shows the other pods, blocks their reserve
    mine.stop_apiserver()
    try:
        took, (status, answer) = elapsed(lambda: one.plan(pods[1], *rails))
        assert status == 200 and took < 2, (took, answer)
        first = addresses(answer)
        assert one.release(pods[0]) == 8
        one.kill()
        one.start(ready=False)
        assert one.said("pools as last seen")
        one.ready(30)
        assert addresses(one.plan(pods[1], *rails)[1]) == first
        status, answer = one.plan(pods[2], *rails)
        assert status == 200 and not set(addresses(answer).values()) & set(first.values()), answer
        assert one.release(pods[1]) == 8
        unknown = {"metadata": {"namespace": "t", "name": "x", "uid": ""}}
        assert one.plan(unknown, "rail1", container="c")[0] == 500
    finally:
        mine.start_apiserver()
    one.ready(60)
    wait(lambda: one.metrics()['unirail_watch_behind_seconds{kind="pods"}'] == 0, 60)
    assert one.plan(pods[3], *rails)[0] == 200


def test_pool_deleted_in_use(mine, nodes, agent, pools):
    """Who has addresses keeps them; nobody gets more, and the words say why; they can be given back."""
    pools("p", "10.8.0.0/24")
    pools("q", "10.9.0.0/24")
    one = agent()
    pod = nodes.pod("t", "n1")
    got = addresses(one.plan(pod, "p")[1])
    mine.ok("DELETE", f"{SPIDER}/spiderippools/p")
    wait(lambda: one.plan(nodes.pod("t", "n1"), "p")[0] == 500)
    answer = one.plan(nodes.pod("t", "n1"), "p")[1]
    assert answer["code"] == 7 and "no pool 'p'" in answer["message"], answer
    check = one.ok("POST", "/v1/unirail/pods/check", {"containerID": pod["metadata"]["uid"][:12]})
    assert addresses(check) == got
    assert one.release(pod) == 1


def test_permissions_that_are_missing(mine, nodes, agent, rails, tmp_path):
    """Verb and resource are named, in the log and to who asks."""
    rules = [{"apiGroups": ["", "spiderpool.spidernet.io", "unirail.io", "k8s.cni.cncf.io"],
              "resources": ["nodes", "namespaces", "spiderippools", "spiderreservedips", "spideripblocks",
                            "spidercoordinators", "network-attachment-definitions"],
              "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]
    token = mine.account("t", f"a{uuid.uuid4().hex[:6]}", rules)
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"token": token}))
    said = wait(lambda: one.said("may not read pods"))
    assert len(said) == 1 and "'list' and 'watch'" in said[0]["msg"], said
    status, answer = one.plan(nodes.pod("t", "n1"), "rail1")
    assert status == 500 and 'cannot get resource "pods"' in answer["message"], answer


def test_what_it_may(mine, nodes, agent, rails, tmp_path):
    """The rules of deploy/agent.yaml are enough for all that it does."""
    objects = yaml.safe_load_all((CRDS.parent / "agent.yaml").read_text())
    (rules,) = [o["rules"] for o in objects if o["kind"] == "ClusterRole"]
    token = mine.account("t", f"a{uuid.uuid4().hex[:6]}", rules)
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"token": token}), UNIRAIL_GC_GRACE="1s",
                UNIRAIL_BLOCK_IDLE="2s")
    pods = [nodes.pod("t", "n1") for _ in range(3)]
    for pod in pods:
        assert one.plan(pod, *rails)[0] == 200
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]))
    assert one.plan(pods[0], "no-such-pool", container="x")[0] == 500
    nodes.remove_pod(pods[2])
    wait(lambda: one.said("addresses freed of a pod that is gone"), 60)
    for pod in pods[:2]:
        one.release(pod)
    wait(lambda: nodes.endpoint("t", pods[0]["metadata"]["name"]) is None, 20)
    wait(lambda: len(mine.ok("GET", "/api/v1/namespaces/t/events")["items"]) > 0)
    assert not [x for x in one.lines() if "orbidden" in json.dumps(x)], one.log.read_text()


def test_a_token_that_is_replaced(mine, nodes, agent, rails, tmp_path):
    """The old one ends with its account; the new one lies in the same file."""
    path = "/api/v1/namespaces/t/serviceaccounts/rotating"
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    token = tmp_path / "token"
    token.write_text(mine.account("t", "rotating", everything))
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"tokenFile": token}))
    assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    mine.ok("DELETE", path)
    mine.ok("POST", "/api/v1/namespaces/t/serviceaccounts", {"metadata": {"name": "rotating"}})
    token.write_text(mine.token("t", "rotating"))
    # Not to be had from the watch, so by a request of its own.
    status, answer = one.plan(nodes.pod("t", "n1"), *rails)
    assert status == 200, answer


def test_settings_are_read_anew(nodes, agent, rails):
    one = agent()
    conf = one.folder / "agent.conf"
    conf.write_text("[agent]\nrest = 1h\nlog-level = debug\n")
    one.process.send_signal(signal.SIGHUP)
    wait(lambda: one.said("settings read"))
    conf.write_text("[agent]\nrest = soon\n")
    one.process.send_signal(signal.SIGHUP)
    said = wait(lambda: one.said("settings are not valid"))
    assert "agent.conf:2: rest is 'soon'" in said[0]["error"]
    conf.write_text("[agent]\nreserve = 9\n[coordinator]\nmode = underlay\n")
    wait(lambda: one.said("changes with the next start only"), 20)  # nobody told it
    assert one.ok("GET", "/v1/coordinator/config", {"podName": "a", "podNamespace": "t"})["mode"] == "underlay"
    assert one.plan(nodes.pod("t", "n1"), "rail1")[0] == 200


def test_settings_that_are_wrong(mine, nodes, tmp_path):
    """One line with the place, and the status of a wrong command."""
    conf = tmp_path / "agent.conf"
    conf.write_text("[agent]\nhealth-port = 99999\n")
    r = mine.unirail("agent", "--config", conf)
    assert r.returncode == 2 and "agent.conf:2: health-port is '99999', wants 0 to 65535" in r.stderr, r
    r = mine.unirail("agent", "--rset", "1")
    assert r.returncode == 2 and "did you mean '--rest'" in r.stderr, r
    r = subprocess.run([BINARY, "agent", "--socket", tmp_path / "s", "--state-dir", tmp_path / "state",
                        "--kubeconfig", "/none", "--health-port", "0", "--metrics-port", "0"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "/none" in r.stderr, r


def test_two_of_them(nodes, agent, rails):
    """On one socket, or one state folder: the second says who is there and ends."""
    one = agent()
    for more in (["--socket", one.socket], ["--state-dir", one.state]):
        r = subprocess.run([BINARY, "agent", "--socket", one.folder / "s2", "--state-dir", one.folder / "state2",
                            "--kubeconfig", one.kubeconfig, "--node", "n1", "--health-port", "0", "--metrics-port", "0",
                            *more], capture_output=True, text=True, timeout=30)
        assert r.returncode == 1 and r.stderr.count("\n") >= 1, r
        assert "another" in r.stderr, r
    r = subprocess.run([BINARY, "agent", "--socket", one.folder / "s2", "--state-dir", one.folder / "state2",
                        "--kubeconfig", one.kubeconfig, "--listen", "127.0.0.1", "--health-port", str(one.health)],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and f"port {one.health} is in use" in r.stderr, r


def test_coordinator(mine, nodes, agent, rails):
    path = f"{SPIDER}/spidercoordinators"
    one = agent()
    ask = lambda: one.ok("GET", "/v1/coordinator/config", {"podName": "a", "podNamespace": "t"})  # noqa: E731
    assert ask()["mode"] == "auto"
    mine.ok("POST", path, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
                           "metadata": {"name": "default"}, "spec": {"mode": "overlay", "podCIDRType": "none",
                                                                     "hijackCIDR": ["169.254.25.10"]}})
    try:
        wait(lambda: ask()["mode"] == "overlay")
        assert ask()["hijackCIDR"] == ["169.254.25.10/32"] and ask()["serviceCIDR"] == []
        mine.ok("PATCH", f"{path}/default/status", {"status": {
            "phase": "Synced", "overlayPodCIDR": ["10.244.0.0/16"], "serviceCIDR": ["10.96.0.0/12"]}},
            type=MERGE)
        wait(lambda: ask()["serviceCIDR"] == ["10.96.0.0/12"])
        pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/default-route-nic": "net1"})
        wait(lambda: one.ok("GET", "/v1/coordinator/config", {
            "podName": pod["metadata"]["name"], "podNamespace": "t"}).get("podDefaultRouteNIC") == "net1")
    finally:
        mine.ok("DELETE", f"{path}/default")
    wait(lambda: ask()["mode"] == "auto")


def test_end(nodes, agent, rails):
    """Who waits is answered before the end."""
    one = agent()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        nodes.pool("tiny", "10.8.0.0/24", ["10.8.0.10"])
        wait(lambda: one.plan(nodes.pod("t", "n1"), "tiny")[0] == 200)
        waiting = threads.submit(one.plan, nodes.pod("t", "n1"), "tiny")
        time.sleep(0.5)
        assert not waiting.done()
        took, status = elapsed(one.stop)
        assert status == 0 and took < 5, took
        assert waiting.result()[0] == 500
