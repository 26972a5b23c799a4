# SPDX-License-Identifier: Apache-2.0
"""Leftovers of deleted nodes and pods are released, and nothing that a pod may still use is released."""
import json
import time

import pytest

import cluster as clusters
from agents import BLOCKS, MERGE, SPIDER, Agent, Nodes, addresses, install_crds
from cluster import wait
from controllers import Controller
from test_coordinators import define
from test_pool_status import ready, status

GRACE = ("--gc-grace", "2s", "--gc-interval", "4s")
LEASE = ("--lease", "3s", "--lease-renew", "2s", "--lease-retry", "500ms")


@pytest.fixture(scope="module")
def mine():
    one = clusters.Cluster()
    install_crds(one)
    one.namespace("t")
    yield one
    one.close()


@pytest.fixture(scope="module")
def nodes(mine):
    return Nodes(mine)


@pytest.fixture
def leader(mine, closing, tmp_path, request):
    ns = mine.namespace(request.node.name.replace("_", "-")[:60].rstrip("-"))

    def make(name="c", *more):
        return closing(Controller(tmp_path / name, mine.admin_config(), ns, name)).start(*GRACE, *LEASE, *more)
    return make


@pytest.fixture
def agent(mine, nodes, closing, tmp_path):
    def make(node, *more, folder=None):
        nodes.node(node)
        ready(mine, node)
        return closing(Agent(tmp_path / (folder or node), mine.admin_config(), node)).start(
            "--pre-allocate", "1", "--reuse-delay", "0s", *more)
    return make


def blocks(nodes, pool):
    """{block: (node that owns it, its `released` entries)}"""
    return {b["metadata"]["name"]: (b["spec"]["node"], b["spec"]["released"]) for b in nodes.blocks(pool)}


def endpoints(mine):
    return [e["metadata"]["name"] for e in mine.ok("GET", f"{SPIDER}/spiderendpoints")["items"]]


def delete_node(mine, name):
    mine.ok("DELETE", f"/api/v1/nodes/{name}")


def fence(mine, name):
    mine.ok("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}}, type=MERGE)


def stays(what, seconds=7):
    """Asserts that what() stays true for `seconds`; by default these are more than two grace periods, and at least one full scan begins."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert what()
        time.sleep(0.3)


def test_blocks_of_a_deleted_node_are_released(mine, nodes, leader, agent):
    """After the node's pods are deleted, its blocks are released and its endpoints are deleted; an address that another node borrowed stays
        with that node."""
    nodes.pool("gone-1", "172.30.1.0/24")
    nodes.pool("gone-2", "172.30.2.0/28", ["172.30.2.2-172.30.2.9"])  # one block
    one, two = agent("gone-n1"), agent("gone-n2")
    pods = [nodes.pod("t", "gone-n1") for _ in range(3)]
    for p in pods:
        assert one.plan(p, "gone-1", "gone-2")[0] == 200
    borrower = nodes.pod("t", "gone-n2")
    status_, answer = two.plan(borrower, "gone-2")
    assert status_ == 200, answer
    borrowed = addresses(answer)["net1"]
    wait(lambda: len(endpoints(mine)) == 4, "four SpiderEndpoints exist")
    c = leader().leads()
    one.kill()
    block, = nodes.blocks("gone-1")
    delete_node(mine, "gone-n1")
    # Pods that are bound to the deleted node may still run.
    stays(lambda: [n for n, _ in blocks(nodes, "gone-1").values()] == ["gone-n1"])
    for p in pods:
        nodes.remove_pod(p)
    wait(lambda: not blocks(nodes, "gone-1"), "no block belongs to the deleted node", 60)
    wait(lambda: endpoints(mine) == [borrower["metadata"]["name"]], "only the SpiderEndpoint of the borrower exists", 60)
    (owner, entries), = blocks(nodes, "gone-2").values()
    assert owner == "-" and entries.keys() >= {borrowed} and entries[borrowed].startswith("gone-n2/")

    def counted():  # the controller counts when the API server answers, possibly after the watch event
        m = c.metrics()
        return (m["unirail_gc_blocks_total"], m["unirail_gc_endpoints_total"], m["spiderpool_ip_gc_counts_total"]) == (2, 3, 6)
    wait(counted, "the controller counts 2 blocks, 3 endpoints and 6 addresses")
    events = mine.ok("GET", "/api/v1/events?fieldSelector=involvedObject.name=gone-1")["items"]
    assert [e["message"] for e in events if e["reason"] == "BlockReleased"] == [
        f"block '{block['metadata']['name']}' ({block['spec']['cidr']}) is released: node 'gone-n1' was deleted or recreated, or is out of service"]
    # All other addresses of the block can be allocated.
    more = [nodes.pod("t", "gone-n2") for _ in range(7)]
    assert all(two.plan(p, "gone-2")[0] == 200 for p in more)
    for p in more + [borrower]:
        two.release(p)
        nodes.remove_pod(p)
    wait(lambda: not endpoints(mine), "no SpiderEndpoints are left", 60)


def test_node_that_is_not_ready_keeps_its_addresses(mine, nodes, leader, agent):
    """A node that is not Ready keeps its blocks and addresses, even the address of a pod that is deleted meanwhile. When the node is
    Ready again, its agent releases this address, and the node still owns its blocks."""
    nodes.pool("lost-1", "172.31.1.0/24")
    one = agent("lost-n1")
    pod = nodes.pod("t", "lost-n1")
    address = addresses(one.plan(pod, "lost-1")[1])["net1"]
    wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    before = blocks(nodes, "lost-1")
    c = leader().leads()
    one.kill()
    ready(mine, "lost-n1", False)
    stays(lambda: blocks(nodes, "lost-1") == before)
    # The node's pods are deleted by force; the node does not see the deletion.
    nodes.remove_pod(pod)
    stays(lambda: blocks(nodes, "lost-1") == before and nodes.endpoint("t", pod["metadata"]["name"]))
    assert json.loads(status(mine, "lost-1")["allocatedIPs"]).keys() == {address}
    ready(mine, "lost-n1")
    one.start("--pre-allocate", "1", "--reuse-delay", "0s", "--gc-grace", "1s")
    one.wait_logged("released addresses of a deleted pod", 60)
    wait(lambda: not nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is deleted", 60)
    assert blocks(nodes, "lost-1") == before
    wait(lambda: status(mine, "lost-1")["allocatedIPCount"] == 0, "the status of pool lost-1 has no address")
    assert c.metrics()["unirail_gc_blocks_total"] == 0 == c.metrics()["spiderpool_ip_gc_counts_total"]


def test_addresses_of_a_fenced_node_are_allocated_on_other_nodes(mine, nodes, leader, agent):
    """The taint out-of-service states that the node does not run, so its addresses are released; when the node returns, other nodes own
    them."""
    nodes.pool("fence-1", "172.32.1.0/28", ["172.32.1.2-172.32.1.9"])
    one = agent("fence-n1")
    pod = nodes.pod("t", "fence-n1")
    address = addresses(one.plan(pod, "fence-1")[1])["net1"]
    wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    leader().leads()
    one.kill()
    fence(mine, "fence-n1")
    stays(lambda: blocks(nodes, "fence-1"))  # the node is Ready, so the taint alone does not release addresses
    ready(mine, "fence-n1", False)
    nodes.remove_pod(pod)
    wait(lambda: not blocks(nodes, "fence-1"), "no block of pool fence-1 is left", 60)
    two = agent("fence-n2")
    pods = [nodes.pod("t", "fence-n2") for _ in range(8)]
    got = [addresses(two.plan(p, "fence-1")[1])["net1"] for p in pods]
    assert address in got and len(set(got)) == 8
    mine.ok("PATCH", "/api/v1/nodes/fence-n1", {"spec": {"taints": None}}, type=MERGE)
    ready(mine, "fence-n1")
    one.start("--pre-allocate", "1", "--reuse-delay", "0s", "--gc-grace", "1s", "--wait", "2s")
    late = nodes.pod("t", "fence-n1")
    # Pods of fence-n2 have all addresses, including that of the former pod of fence-n1. When fence-n1 is back, its agent records again that
    # the former pod has this address (it asserts the address), and releases the address because that pod was deleted, even while another
    # pod of fence-n1 waits for an address.
    stays(lambda: one.plan(late, "fence-1")[0] == 500, 10)
    two.release(pods[0])
    nodes.remove_pod(pods[0])
    wait(lambda: one.plan(late, "fence-1")[0] == 200, "the node gets an address of pool fence-1 again", 60)


def test_disconnected_fenced_node_loses_its_free_addresses(mine, nodes, leader, agent, closing, tmp_path):
    """The node's agent and containers continued to run. When the node is connected again, other nodes keep the addresses that they got
    meanwhile, and the node's remaining addresses are released with its pods."""
    nodes.pool("wrong-1", "172.29.6.0/28", ["172.29.6.2-172.29.6.9"])
    nodes.node("wrong-n1")
    ready(mine, "wrong-n1")
    proxy = closing(clusters.Proxy(mine.port))
    one = closing(Agent(tmp_path / "wrong-n1", mine.through(proxy, tmp_path / "wrong.conf"), "wrong-n1")).start(
        "--pre-allocate", "1", "--reuse-delay", "0s", "--gc-grace", "1s", "--wait", "2s")
    pod, netns = nodes.pod("t", "wrong-n1"), tmp_path / "netns"
    netns.touch()
    address = addresses(one.plan(pod, "wrong-1", netNamespace=str(netns))[1])["net1"]
    wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    leader().leads()
    proxy.cut()
    fence(mine, "wrong-n1")
    ready(mine, "wrong-n1", False)
    nodes.remove_pod(pod)
    wait(lambda: not blocks(nodes, "wrong-1"), "no block of pool wrong-1 is left", 60)
    two = agent("wrong-n2", "--wait", "2s")
    pods = [nodes.pod("t", "wrong-n2") for _ in range(8)]
    got = [addresses(two.plan(p, "wrong-1")[1])["net1"] for p in pods]
    assert address in got and len(set(got)) == 8
    proxy.mend()
    ready(mine, "wrong-n1")
    assert one.wait_logged("or this node was fenced", 60)
    late = nodes.pod("t", "wrong-n1")
    stays(lambda: one.plan(late, "wrong-1")[0] == 500, 8)
    assert [addresses(two.plan(p, "wrong-1")[1])["net1"] for p in pods] == got
    netns.unlink()
    one.wait_logged("released addresses of a deleted pod", 60)
    wait(lambda: not [to for _, entries in blocks(nodes, "wrong-1").values() for to in entries.values()],
         "no block of pool wrong-1 has a released address", 90)
    assert one.plan(late, "wrong-1")[0] == 500
    two.release(pods[0])
    nodes.remove_pod(pods[0])
    wait(lambda: one.plan(late, "wrong-1")[0] == 200, "the node gets an address of pool wrong-1 again", 60)


def daemon(mine, node, name, **spec):
    """A pod that tolerates every taint: it is not evicted from a fenced node."""
    return mine.ok("POST", "/api/v1/namespaces/t/pods", {"metadata": {"name": name}, "spec": {
        "nodeName": node, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "i"}], **spec}})


def test_daemons_on_a_fenced_node_do_not_delay_the_release(mine, nodes, leader, agent):
    """Pods of the host network, such as the agent, and pods without unirail's addresses do not delay the release."""
    nodes.pool("daemon-1", "172.29.4.0/28", ["172.29.4.2-172.29.4.9"])
    one = agent("daemon-n1")
    pods = [daemon(mine, "daemon-n1", "daemon-host", hostNetwork=True), daemon(mine, "daemon-n1", "daemon-csi")]
    rails = daemon(mine, "daemon-n1", "daemon-rails")
    assert one.plan(rails, "daemon-1")[0] == 200
    wait(lambda: nodes.endpoint("t", "daemon-rails"), "the DaemonSet pod's SpiderEndpoint is created")
    c = leader().leads()
    one.kill()
    fence(mine, "daemon-n1")
    ready(mine, "daemon-n1", False)
    logged_lines = c.wait_logged("a pod is still bound to it", 60)
    assert [(x["node"], x["pod"]) for x in logged_lines] == [("daemon-n1", "t/daemon-rails")]
    assert blocks(nodes, "daemon-1")
    nodes.remove_pod(rails)
    wait(lambda: not blocks(nodes, "daemon-1"), "no block of pool daemon-1 is left", 60)
    wait(lambda: not nodes.endpoint("t", "daemon-rails"), "the DaemonSet pod's SpiderEndpoint is deleted", 60)
    assert len(c.logged("a pod is still bound to it")) == 1
    for p in pods:
        nodes.remove_pod(p)
    delete_node(mine, "daemon-n1")


def test_retained_address_outlives_its_node(mine, nodes, leader, agent):
    """A StatefulSet's pod gets its address again on another node, although pods of a third node have the other addresses of the block."""
    mine.ok("POST", "/apis/apps/v1/namespaces/t/statefulsets", {"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    nodes.pool("kept-1", "172.33.1.0/28", ["172.33.1.2-172.33.1.9"])
    one = agent("kept-n1")
    had = {}
    for name in ("web-0", "web-1"):
        pod = nodes.pod("t", "kept-n1", name, {"kind": "StatefulSet", "name": "web"})
        had[name] = addresses(one.plan(pod, "kept-1")[1])["net1"]
        wait(lambda: nodes.endpoint("t", name), "the pod's SpiderEndpoint is created")
        nodes.remove_pod(pod)
    leader().leads()
    one.kill()
    delete_node(mine, "kept-n1")
    wait(lambda: blocks(nodes, "kept-1") == {"kept-1-0": ("-", {a: "@-" for a in had.values()})},
         "the block without owner has the retained addresses", 60)
    two = agent("kept-n2", "--wait", "3s")
    others = [nodes.pod("t", "kept-n2") for _ in range(7)]
    got = [two.plan(p, "kept-1") for p in others]
    assert [s for s, _ in got] == [200] * 6 + [500]
    assert not set(had.values()) & {addresses(a)["net1"] for s, a in got if s == 200}
    three = agent("kept-n3")
    pod = nodes.pod("t", "kept-n3", "web-0", {"kind": "StatefulSet", "name": "web"})
    wait(lambda: three.plan(pod, "kept-1")[0] == 200, "the node gets the retained address", 60)
    assert addresses(three.plan(pod, "kept-1")[1])["net1"] == had["web-0"]
    # The StatefulSet is scaled down: the address of the removed pod web-1 is released.
    mine.ok("PATCH", "/apis/apps/v1/namespaces/t/statefulsets/web", {"spec": {"replicas": 1}}, type=MERGE)
    wait(lambda: blocks(nodes, "kept-1")["kept-1-0"][1].get(had["web-1"]) != "@-", "the retained address of web-1 is released", 60)
    wait(lambda: two.plan(others[-1], "kept-1")[0] == 200, "the other node gets an address of pool kept-1", 60)


def test_gc_continues_after_a_killed_leader(mine, nodes, leader):
    """40 blocks belong to nodes that do not exist. The leader is killed while it releases them: another replica releases the remaining
    blocks, and no block twice."""
    nodes.pool("mid-1", "172.34.0.0/16", ["172.34.0.2-172.34.255.250"])
    for i in range(40):
        block(mine, f"mid-1-{i:x}", "mid-1", f"172.34.{i // 16}.{i % 16 * 16}/28", f"mid-n{i % 40}")
    a, b = leader("a").leads(), leader("b")
    wait(lambda: len(nodes.blocks("mid-1")) < 30, "the controller releases blocks of pool mid-1", 60, 0.01)
    a.kill()
    b.leads()
    wait(lambda: not nodes.blocks("mid-1"), "all blocks of pool mid-1 are released", 60)
    events = mine.ok("GET", "/api/v1/events?fieldSelector=involvedObject.name=mid-1")["items"]
    assert all(e["count"] == 1 for e in events if "combined" not in e["message"])
    assert b.metrics()["spiderpool_ip_gc_failure_counts_total"] == 0


def block(mine, name, pool, cidr, node, uid="u", released=None):
    label = {} if node == "-" else {"unirail.io/node": node}
    return mine.ok("POST", BLOCKS, {
        "apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock",
        "metadata": {"name": name, "labels": {**label, "unirail.io/pool": pool}},
        "spec": {"pool": pool, "cidr": cidr, "node": node, "nodeUID": uid, "claim": "log-1" if label else "-",
                 "released": released or {}, "requested": {}}})


def test_unreferenced_blocks_and_addresses_are_released(mine, nodes, leader):
    """A block without an owner is deleted, unless a node borrows an address of it. An entry of a block is removed if it names a deleted
    node, has no known owner ("?"), or retains an address for a pod name ("@-") although no SpiderEndpoint has the address."""
    node = nodes.node("rest-n1")
    ready(mine, "rest-n1")
    uid = node["metadata"]["uid"]
    for n in mine.ok("GET", "/api/v1/nodes")["items"]:
        if n["metadata"]["name"] != "rest-n1":
            mine.ok("DELETE", f"/api/v1/nodes/{n['metadata']['name']}")
    nodes.pool("rest-1", "172.35.0.0/16", ["172.35.0.2-172.35.255.250"])
    block(mine, "rest-1-0", "rest-1", "172.35.0.0/28", "-", released={"172.35.0.2": "*"})
    block(mine, "rest-1-1", "rest-1", "172.35.0.16/28", "-", released={"172.35.0.17": "rest-n1/x"})
    block(mine, "rest-1-2", "rest-1", "172.35.0.32/28", "rest-n1", uid,
          {"172.35.0.33": "?", "172.35.0.34": "rest-gone/x", "172.35.0.35": "@rest-gone", "172.35.0.36": "@-",
           "172.35.0.37": "*", "172.35.0.38": "@rest-n1"})
    block(mine, "other-0", "other", "172.35.1.0/28", "-")  # of a deleted pool
    leader().leads()
    wait(lambda: blocks(nodes, "rest-1") == {
        "rest-1-1": ("-", {"172.35.0.17": "rest-n1/x"}),
        "rest-1-2": ("rest-n1", {"172.35.0.37": "*", "172.35.0.38": "@rest-n1"})},
         "the unreferenced entries of pool rest-1 are released", 60)
    wait(lambda: not nodes.blocks("other"), "no block of pool other is left")


def test_many_unreferenced_addresses_are_released(mine, nodes, leader):
    """14 addresses of a block have no known owner, and another block has the UID of a former node. Requests of other nodes change both
    blocks, but do not restart the time after which the controller releases the addresses and the second block. A metric counts the
    addresses without a known owner."""
    for n in mine.ok("GET", "/api/v1/nodes")["items"]:
        delete_node(mine, n["metadata"]["name"])
    uid = nodes.node("many-n1")["metadata"]["uid"]
    ready(mine, "many-n1")
    nodes.node("many-n2")
    ready(mine, "many-n2", False)
    nodes.pool("many-1", "172.29.5.0/24")
    block(mine, "many-1-0", "many-1", "172.29.5.0/28", "many-n1", uid, {f"172.29.5.{i}": "?" for i in range(14)})
    block(mine, "many-1-1", "many-1", "172.29.5.16/28", "many-n1", "another-uid")
    c = leader().leads()
    logged_lines = c.wait_logged("without a known owner", 30)
    assert (logged_lines[0]["node"], logged_lines[0]["addresses"]) == ("many-n2", 14)
    wait(lambda: c.metrics()["unirail_gc_addresses_unknown"] == 14, "the metric reports 14 addresses without a known owner")
    stays(lambda: len(blocks(nodes, "many-1")["many-1-0"][1]) == 14, 9)
    fence(mine, "many-n2")  # a node that is not Ready delays the release unless it is fenced
    began, asked = time.monotonic(), 0

    def change():
        nonlocal asked
        asked += 1
        for name in blocks(nodes, "many-1"):
            mine.ok("PATCH", f"{BLOCKS}/{name}", {"spec": {"requested": {"x@*": asked}}}, type=MERGE)
        return blocks(nodes, "many-1") == {"many-1-0": ("many-n1", {})}
    wait(change, "all unreferenced addresses of pool many-1 are released", 60, 0.5)
    assert time.monotonic() - began < 60, asked
    wait(lambda: c.metrics()["unirail_gc_addresses_unknown"] == 0, "the metric reports no address without a known owner", 30)


def test_recreated_node_renews_its_blocks(mine, nodes, leader, agent):
    """The node is recreated with the same name and pods: its agent writes the new UID into its blocks, and the controller releases none."""
    nodes.pool("recreated-1", "172.36.1.0/24")
    one = agent("recreated-n1")
    pod = nodes.pod("t", "recreated-n1")
    address = addresses(one.plan(pod, "recreated-1")[1])["net1"]
    before = list(blocks(nodes, "recreated-1"))
    leader().leads()
    delete_node(mine, "recreated-n1")
    node = nodes.node("recreated-n1")
    ready(mine, "recreated-n1")

    def renewed():
        return {b["spec"]["nodeUID"] for b in nodes.blocks("recreated-1")} == {node["metadata"]["uid"]}
    wait(renewed, "the blocks have the UID of the recreated node", 60)
    assert set(before) <= set(blocks(nodes, "recreated-1"))  # the agent may have claimed a block for its pre-allocation meanwhile
    assert addresses(one.plan(pod, "recreated-1")[1])["net1"] == address


def test_blocks_of_a_recreated_node_without_renewal_are_released(mine, nodes, leader):
    """No agent runs on the recreated node: after ten grace periods a block with the former node's UID is deleted, unless a pod of the node
    has one of its addresses."""
    node = nodes.node("recreated-n2")
    ready(mine, "recreated-n2")
    nodes.pool("recreated-2", "172.36.2.0/24")
    pod = nodes.pod("t", "recreated-n2", "recreated-used")
    mine.ok("POST", f"{SPIDER}/namespaces/t/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": "recreated-used", "labels": {"unirail.io/node": "recreated-n2"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "recreated-used", "uid": pod["metadata"]["uid"]}]},
        "status": {"current": {"uid": pod["metadata"]["uid"], "node": "recreated-n2", "ips": [
            {"interface": "eth0", "ipv4": "172.36.2.17/24", "ipv4Pool": "recreated-2", "vlan": 0}]},
            "ownerControllerType": "Pod", "ownerControllerName": "recreated-used"}})
    block(mine, "recreated-2-0", "recreated-2", "172.36.2.0/28", "recreated-n2", "another-uid")
    block(mine, "recreated-2-1", "recreated-2", "172.36.2.16/28", "recreated-n2", "another-uid")
    block(mine, "recreated-2-2", "recreated-2", "172.36.2.32/28", "recreated-n2", node["metadata"]["uid"])
    leader().leads()
    stays(lambda: len(blocks(nodes, "recreated-2")) == 3, 10)
    wait(lambda: set(blocks(nodes, "recreated-2")) == {"recreated-2-1", "recreated-2-2"}, "pool recreated-2 has two blocks", 60)
    stays(lambda: len(blocks(nodes, "recreated-2")) == 2)
    nodes.remove_pod(pod)
    wait(lambda: not nodes.endpoint("t", "recreated-used"), "the SpiderEndpoint recreated-used is deleted", 60)
    wait(lambda: set(blocks(nodes, "recreated-2")) == {"recreated-2-2"}, "pool recreated-2 has one block", 60)


def test_address_of_a_virtual_machine_outlives_its_node(mine, nodes, leader, agent):
    """KubeVirt: the address moves with the virtual machine from pod to pod. It is retained while the VirtualMachine object exists, and is
    released when that object is deleted."""
    at = "/apis/kubevirt.io/v1/namespaces/t"
    kinds = {"virtualmachines": "VirtualMachine", "virtualmachineinstances": "VirtualMachineInstance"}
    for plural, kind in kinds.items():
        define(mine, "kubevirt.io", "v1", plural, kind, "Namespaced")
        for name in ("vm-a", "vm-b"):
            mine.ok("POST", f"{at}/{plural}", {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": {"name": name}})

    def launcher(name, node):
        return nodes.pod("t", node, f"virt-launcher-{name}-{node}", {
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name})
    nodes.pool("vm-1", "172.29.2.0/28", ["172.29.2.2-172.29.2.9"])
    one, had = agent("vm-n1"), {}
    for name in ("vm-a", "vm-b"):
        pod = launcher(name, "vm-n1")
        had[name] = addresses(one.plan(pod, "vm-1")[1])["net1"]
        wait(lambda: nodes.endpoint("t", name), "the virtual machine's SpiderEndpoint is created")
        nodes.remove_pod(pod)
    leader().leads()
    one.kill()
    delete_node(mine, "vm-n1")
    wait(lambda: blocks(nodes, "vm-1") == {"vm-1-0": ("-", {a: "@-" for a in had.values()})},
         "the block without owner has the retained addresses", 60)
    two, pod = agent("vm-n2"), launcher("vm-a", "vm-n2")
    wait(lambda: two.plan(pod, "vm-1")[0] == 200, "the other node gets the retained address", 60)
    assert addresses(two.plan(pod, "vm-1")[1])["net1"] == had["vm-a"]
    # The virtual machine is stopped; its VirtualMachine object still exists, so it can be started again.
    mine.ok("DELETE", f"{at}/virtualmachineinstances/vm-b")
    stays(lambda: blocks(nodes, "vm-1")["vm-1-0"][1].get(had["vm-b"]) == "@-" and nodes.endpoint("t", "vm-b"))
    mine.ok("DELETE", f"{at}/virtualmachines/vm-b")
    wait(lambda: not nodes.endpoint("t", "vm-b"), "the SpiderEndpoint of vm-b is deleted", 60)
    wait(lambda: blocks(nodes, "vm-1")["vm-1-0"][1].get(had["vm-b"]) != "@-", "the retained address of vm-b is released", 60)
    assert addresses(two.plan(pod, "vm-1")[1])["net1"] == had["vm-a"]


def test_gc_continues_after_an_api_server_restart(mine, nodes, leader, agent):
    """The API server restarts while blocks of a deleted node are due for release: the controller releases them after the restart, once its
    cache is synced."""
    nodes.pool("again-1", "172.37.1.0/24")
    one = agent("again-n1")
    pod = nodes.pod("t", "again-n1")
    assert one.plan(pod, "again-1")[0] == 200
    wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    c = leader().leads()
    one.kill()
    nodes.remove_pod(pod)
    delete_node(mine, "again-n1")
    mine.stop_apiserver()
    time.sleep(4)
    mine.start_apiserver()
    wait(lambda: not blocks(nodes, "again-1"), "no block of pool again-1 is left", 90)
    wait(lambda: not nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is deleted", 60)
    wait(lambda: status(mine, "again-1")["allocatedIPCount"] == 0, "the status of pool again-1 has no address", 60)
    assert c.process.poll() is None


def test_scan_reports_entries_that_it_may_not_release(mine, nodes, leader, agent):
    nodes.pool("scan-1", "172.38.1.0/24")
    one = agent("scan-n1")
    pod, other = nodes.pod("t", "scan-n1", "scan-a"), nodes.pod("t", "scan-n2", "scan-b")
    address = addresses(one.plan(pod, "scan-1")[1])["net1"]
    c = leader().leads()
    mine.ok("POST", f"{SPIDER}/namespaces/t/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": "scan-b", "labels": {"unirail.io/node": "scan-n2"}},
        "status": {"current": {"uid": other["metadata"]["uid"], "node": "scan-n2", "ips": [
            {"interface": "eth0", "ipv4": f"{address}/24", "ipv4Pool": "scan-1", "vlan": 0}]},
            "ownerControllerType": "Pod", "ownerControllerName": "scan-b"}})
    nodes.node("scan-n2")
    wait(lambda: c.metrics()["unirail_gc_addresses_with_two_pods"] == 1, "the controller counts an address with two pods", 60)
    wait(lambda: c.metrics()["unirail_gc_addresses_without_block"] == 1, "the controller counts an address without a block", 60)
    assert c.logged("two pods have the same address")[0]["address"] == address
    assert c.logged("that its node neither owns nor borrows")[0]["pod"] == "t/scan-b"
    assert nodes.endpoint("t", "scan-b") and nodes.endpoint("t", "scan-a")
    # An administrator deletes the second pod and its SpiderEndpoint: the scan no longer reports the address, and the metric is 0 for later
    # tests.
    nodes.remove_pod(other)
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/scan-b")
    wait(lambda: c.metrics()["unirail_gc_addresses_with_two_pods"] == 0, "the controller counts no address with two pods", 60)


def test_gc_waits_after_a_restore_of_etcd(mine, nodes, leader):
    """For ten minutes after a restore of etcd the controller releases no block, since the restored data may lack nodes and pods that
    still run."""
    nodes.pool("back-1", "172.39.1.0/24")
    c = leader().leads()
    mine.back_up()
    for i in range(200):  # so that the resource versions after the restore are lower than those that the controller has seen
        mine.config_map("t", f"later-{i}")
    wait(lambda: c.metrics()["unirail_controller_leader"] == 1, "the controller leads", 60)
    mine.restore()
    block(mine, "back-1-0", "back-1", "172.39.1.0/28", "back-n1")
    wait(lambda: c.metrics()["unirail_controller_leader"] == 1 and c.logged("etcd was restored from a backup"),
         "the controller leads and reports the restore", 90)
    stays(lambda: [n for n, _ in blocks(nodes, "back-1").values()] == ["back-n1"], 10)


def test_controller_started_after_a_restore_waits_for_a_report(mine, nodes, leader, agent):
    """The controller's watches began after the restore, so the controller learns of the restore only from an agent's annotation on a
    block. It releases no block before that, nor for ten minutes after the restore."""
    nodes.pool("word-1", "172.29.1.0/24")
    one = agent("word-n1")
    pods = [nodes.pod("t", "word-n1", f"word-{i}") for i in range(3)]
    assert one.plan(pods[0], "word-1")[0] == 200
    wait(lambda: nodes.endpoint("t", pods[0]["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    mine.back_up()
    wait(lambda: [x for x in one.logged("kube: watching again") if x["kind"] == "spideripblocks"], "the agent watches blocks again", 60)
    for p in pods[1:]:
        assert one.plan(p, "word-1")[0] == 200
    wait(lambda: all(nodes.endpoint("t", p["metadata"]["name"]) for p in pods), "each pod's SpiderEndpoint is created again")
    for i in range(200):  # raises the resource version above that of the server after its restart
        mine.config_map("t", f"word-{i}")
    names = blocks(nodes, "word-1")
    other = next(i for i in range(16) if f"word-1-{i}" not in names)
    mine.ok("PATCH", f"{BLOCKS}/{min(names)}", {"metadata": {"annotations": {"a": "b"}}}, type=MERGE)
    time.sleep(2)  # the agent's watch has reported the change
    mine.restore()
    # Creates a block of node word-n2; no Node has this name after the restore.
    block(mine, f"word-1-{other}", "word-1", f"172.29.1.{16 * other}/28", "word-n2")
    c = leader("c", "--leader-grace", "60s").leads()
    assert c.logged("no replica led for a while")
    c.wait_logged("etcd was restored from a backup", 60)
    assert any("unirail.io/etcd-restored" in b["metadata"].get("annotations", {}) for b in nodes.blocks("word-1"))
    counts = set()

    def counted():
        counts.add((status(mine, "word-1") or {}).get("allocatedIPCount"))
        return counts - {None}
    wait(counted, "the pool's status has allocatedIPCount", 90, 0.2)
    assert counts == {None, 3}, counts
    stays(lambda: blocks(nodes, "word-1")[f"word-1-{other}"][0] == "word-n2")
    assert c.metrics()["unirail_gc_blocks_total"] == 0
    # Without the annotation, the ten minutes without releases after a restore do not affect later tests.
    for b in nodes.blocks("word-1"):
        mine.ok("PATCH", f"{BLOCKS}/{b['metadata']['name']}", {"metadata": {"annotations": {"unirail.io/etcd-restored": None}}},
                type=MERGE)


class Churn:
    """Pods with 8 rails on real agents, in batches; some end without a DEL."""

    RAILS = [f"churn-{i}" for i in range(8)]

    def __init__(self, mine, nodes, agents):
        self.mine, self.nodes, self.agents, self.done = mine, nodes, agents, 0
        self.alive, self.names = [], set()  # alive: (agent, pod, addresses)

    def add(self, count):
        for i in range(count):
            a = self.agents[i % len(self.agents)]
            pod = self.nodes.pod("t", a.node)
            status_, answer = a.plan(pod, *self.RAILS)
            assert status_ == 200, answer
            self.alive.append((a, pod, set(addresses(answer).values())))
            self.names.add(pod["metadata"]["name"])
            self.done += 1

    def end(self, count, lost=0):
        """Deletes the `count` oldest pods; the agents get no DEL for the first `lost` of them."""
        for i in range(count):
            a, pod, _ = self.alive.pop(0)
            if i >= lost:
                assert a.release(pod) == 8
            self.nodes.remove_pod(pod)

    def unique(self):
        have = [x for _, _, v in self.alive for x in v]
        assert len(have) == len(set(have)) == 8 * len(self.alive)


def test_churn_of_2000_pods_leaves_no_address(mine, nodes, leader, agent):
    """The pods have 8 rails each. Meanwhile a node is deleted and the leader is killed; in the end no address is allocated."""
    for i, name in enumerate(Churn.RAILS):
        nodes.pool(name, f"172.{40 + i}.0.0/20", [f"172.{40 + i}.0.2-172.{40 + i}.3.250"])
    agents = [agent(f"churn-n{i}", "--gc-grace", "1s", "--block-idle", "2s") for i in range(4)]
    a, b = leader("a").leads(), leader("b")
    churn = Churn(mine, nodes, agents)
    for batch in range(10):
        churn.add(200)
        churn.unique()
        if batch == 4:
            a.kill()
        if batch == 6:  # a node is deleted with its pods
            dead = churn.agents.pop()
            dead.kill()
            delete_node(mine, dead.node)
            for _, pod, _ in [x for x in churn.alive if x[0] is dead]:
                nodes.remove_pod(pod)
            churn.alive = [x for x in churn.alive if x[0] is not dead]
        churn.end(min(180, len(churn.alive)), lost=10)
    assert churn.done == 2000
    b.leads()
    used = {name: len(churn.alive) for name in Churn.RAILS}
    wait(lambda: {n: status(mine, n)["allocatedIPCount"] for n in used} == used, f"the pools' allocatedIPCount is {used}", 120)
    churn.end(len(churn.alive))
    wait(lambda: not churn.names & set(endpoints(mine)), "no SpiderEndpoint of the churn is left", 120)
    wait(lambda: all(status(mine, n)["allocatedIPCount"] == 0 and "allocatedIPs" not in status(mine, n) for n in used),
         "the pools' status has no address", 60)
    for one in churn.agents:
        one.stop()
        delete_node(mine, one.node)
    wait(lambda: not [x for x in nodes.blocks() if x["spec"]["pool"] in used], "no block of the pools is left", 120)
    assert b.metrics()["unirail_gc_addresses_with_two_pods"] == 0
