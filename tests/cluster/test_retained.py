# SPDX-License-Identifier: Apache-2.0
"""Addresses that are retained for a pod's name, and their release."""
import pytest

from agents import MERGE, SPIDER, Agent, Nodes, addresses
from cluster import wait

SETS = "/apis/apps/v1/namespaces/t/statefulsets"


@pytest.fixture(scope="module")
def nodes(mine):
    nodes = Nodes(mine)
    for name in ("n1", "n2"):
        nodes.node(name)
    mine.namespace("t")
    nodes.pool("rail1", "172.16.1.0/24")
    return nodes


@pytest.fixture
def agent(mine, nodes, closing, tmp_path):
    def start(node, kubeconfig=None):
        return closing(Agent(tmp_path / node, kubeconfig or mine.admin_config(), node)).start("--gc-grace", "1s")
    return start


def stateful_set(mine, name, replicas):
    return mine.ok("POST", SETS, {"metadata": {"name": name}, "spec": {
        "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}}}})


def retain_address(nodes, one, name):
    """Allocates an address to a pod and deletes the pod; returns the address, which the agent's node retains for the pod's name."""
    pod = nodes.pod("t", one.node, name, {"kind": "StatefulSet", "name": name.rsplit("-", 1)[0]})
    address = addresses(one.plan(pod, "rail1")[1])["net1"]
    assert one.release(pod) == 1
    nodes.remove_pod(pod)
    return address


def released(one, address):
    return [x for x in one.logged("released a retained address") if x["address"] == address]


def test_retained_addresses_are_released_by_scale_down_and_deletion(mine, nodes, agent):
    stateful_set(mine, "web", 2)
    one = agent("n1")
    first, second, unowned = (retain_address(nodes, one, name) for name in ("web-0", "web-1", "other-0"))
    # The StatefulSet of other-0 does not exist, so the agent releases the address.
    logged_lines = wait(lambda: released(one, unowned), f"{unowned} is released", 30)
    assert logged_lines[0]["reason"] == "no StatefulSet or KubeVirt machine retains addresses for that name" and logged_lines[0]["name"] == "other-0", logged_lines
    mine.ok("PATCH", f"{SETS}/web", {"spec": {"replicas": 1}}, type=MERGE)
    wait(lambda: released(one, second), f"{second} is released", 40)
    assert not released(one, first)
    # The StatefulSet's pod is recreated and has the address again.
    pod = nodes.pod("t", "n1", "web-0", {"kind": "StatefulSet", "name": "web"})
    assert addresses(one.plan(pod, "rail1")[1]) == {"net1": first}
    assert one.release(pod) == 1
    nodes.remove_pod(pod)
    mine.ok("DELETE", f"{SETS}/web")
    wait(lambda: released(one, first), f"{first} is released", 40)
    assert one.stop() == 0


def test_retained_address_is_released_if_its_pod_has_another_address_on_another_node(mine, nodes, agent):
    """The former node releases the addresses that it retains for the pod's name."""
    stateful_set(mine, "db", 1)
    one, two = agent("n1"), agent("n2")
    old = retain_address(nodes, one, "db-0")
    # Without the SpiderEndpoint the agent of n2 cannot learn which addresses are retained for the name.
    one.stop()
    mine.request("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/db-0")
    pod = wait(lambda: nodes.pod("t", "n2", "db-0", {"kind": "StatefulSet", "name": "db"}), "pod db-0 is created on node n2")
    new = addresses(two.plan(pod, "rail1")[1])["net1"]
    assert new != old
    wait(lambda: nodes.endpoint("t", "db-0")["status"]["current"]["node"] == "n2", "the SpiderEndpoint of db-0 is of node n2", 20)
    one.start("--gc-grace", "1s")
    logged_lines = wait(lambda: released(one, old), f"{old} is released", 40)
    assert logged_lines[0]["reason"] == "the pod has other addresses on another node", logged_lines
    assert not released(two, new)


def test_retained_addresses_stay_while_their_owner_cannot_be_checked(mine, nodes, agent):
    """While the API server is unavailable, addresses stay retained, and the agent logs that it cannot check their owner."""
    one = agent("n1")
    stateful_set(mine, "api", 1)
    address = retain_address(nodes, one, "api-0")
    mine.stop_apiserver()
    try:
        one.wait_logged("cannot check owner or SpiderEndpoint of retained addresses", 90)
    finally:
        mine.start_apiserver()
    assert not released(one, address)
    mine.ok("DELETE", f"{SETS}/api")
    wait(lambda: released(one, address), f"{address} is released", 90)
