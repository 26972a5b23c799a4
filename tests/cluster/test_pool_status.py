# SPDX-License-Identifier: Apache-2.0
"""The controller writes a pool's status from the SpiderEndpoints that agents write and from records that Spiderpool wrote."""
import ipaddress
import json
import time

import pytest

from agents import MERGE, SPIDER, Agent, Nodes, addresses, elapsed, install_crds
from cluster import wait
from controllers import Controller

POOLS = f"{SPIDER}/spiderippools"
ADOPTED = "unirail.io/adopted"
FINALIZER = "spiderpool.spidernet.io"


@pytest.fixture(scope="module")
def nodes(cluster):
    install_crds(cluster)
    return Nodes(cluster)


@pytest.fixture
def leader(cluster, ns, closing, tmp_path, nodes):
    def make(*more, name="c", config=None):
        return closing(Controller(tmp_path / name, config or cluster.admin_config(), ns, name)).start(
            "--gc-grace", "1s", "--gc-interval", "3s", *more).leads()
    return make


@pytest.fixture
def agent(cluster, closing, tmp_path, nodes):
    def make(node):
        nodes.node(node)
        ready(cluster, node)
        return closing(Agent(tmp_path / node, cluster.admin_config(), node)).start("--pre-allocate", "1", "--reuse-delay", "0s")
    return make


def ready(cluster, node, yes=True):
    cluster.ok("PATCH", f"/api/v1/nodes/{node}/status",
               {"status": {"conditions": [{"type": "Ready", "status": "True" if yes else "Unknown"}]}}, type=MERGE)


def pool(cluster, name):
    return cluster.ok("GET", f"{POOLS}/{name}")


def status(cluster, name):
    return pool(cluster, name).get("status", {})


def text(records):
    """The text of allocatedIPs in a pool's status, as Go's json.Marshal prints it."""
    return json.dumps({ip: {"pod": f"{p['metadata']['namespace']}/{p['metadata']['name']}",
                            "podUid": p["metadata"]["uid"]} for ip, p in sorted(records.items())},
                      separators=(",", ":"))


def has(cluster, name, total, records):
    s = status(cluster, name)
    want = {"totalIPCount": total, "allocatedIPCount": len(records)}
    if records:
        want["allocatedIPs"] = text(records)
    assert s == want, (s, want)
    return True


def test_pool_status_follows_pods(cluster, ns, nodes, leader, agent):
    nodes.pool("count-a", "172.20.1.0/24", ["172.20.1.9-172.20.1.12", "172.20.1.100-172.20.1.105"],
               excludeIPs=["172.20.1.12"])
    nodes.pool("count-b", "172.20.2.0/24")
    c = leader()
    wait(lambda: has(cluster, "count-a", 9, {}) and has(cluster, "count-b", 241, {}), "the pools' status has no address")
    assert pool(cluster, "count-a")["metadata"]["finalizers"] == [FINALIZER]
    one = agent("count-n1")
    pods = [nodes.pod(ns, "count-n1") for _ in range(3)]
    got = [addresses(one.plan(p, "count-a", "count-b")[1]) for p in pods]
    wait(lambda: has(cluster, "count-a", 9, {a["net1"]: p for a, p in zip(got, pods)}),
         "the status of pool count-a has the pods' addresses")
    wait(lambda: has(cluster, "count-b", 241, {a["net2"]: p for a, p in zip(got, pods)}),
         "the status of pool count-b has the pods' addresses")
    # Without a change nothing is written.
    time.sleep(1.5)
    before, writes = pool(cluster, "count-a")["metadata"]["resourceVersion"], c.metrics()["unirail_pool_writes_total"]
    time.sleep(3)
    assert pool(cluster, "count-a")["metadata"]["resourceVersion"] == before
    assert c.metrics()["unirail_pool_writes_total"] == writes
    assert c.metrics()['spiderpool_debug_ippool_available_ip_counts{SpiderIPPool="count-a"}'] == 6
    one.release(pods[0])
    nodes.remove_pod(pods[0])
    wait(lambda: has(cluster, "count-a", 9, {a["net1"]: p for a, p in zip(got[1:], pods[1:])}),
         "the status of pool count-a has no address of the deleted pod")
    # Changes by other clients are reverted.
    cluster.ok("PATCH", f"{POOLS}/count-a/status", {"status": {"allocatedIPCount": 7, "allocatedIPs": None}}, type=MERGE)
    wait(lambda: has(cluster, "count-a", 9, {a["net1"]: p for a, p in zip(got[1:], pods[1:])}),
         "the status of pool count-a is restored")
    # A pool that is being deleted is removed once its last address is released.
    cluster.ok("DELETE", f"{POOLS}/count-a")
    time.sleep(2)
    assert pool(cluster, "count-a")["metadata"]["deletionTimestamp"]
    for p in pods[1:]:
        one.release(p)
        nodes.remove_pod(p)
    wait(lambda: cluster.request("GET", f"{POOLS}/count-a")[0] == 404, "pool count-a is deleted")
    wait(lambda: has(cluster, "count-b", 241, {}), "the status of pool count-b has no address")
    assert not c.logged("failed to update a pool's status")


def endpoint(cluster, ns, name, pool, ip, uid="u", candidate=True, **meta):
    labels = {"unirail.io/node": "count-n1"} if candidate else {}
    return cluster.ok("POST", f"{SPIDER}/namespaces/{ns}/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": name, "labels": labels, **meta},
        "status": {"current": {"uid": uid, "node": "count-n1", "ips": [
            {"interface": "eth0", "ipv4": f"{ip}/16", "ipv4Pool": pool, "vlan": 0}]},
            "ownerControllerType": "Pod", "ownerControllerName": name}})


def test_pool_status_is_written_at_most_once_a_second(cluster, ns, nodes, leader):
    nodes.node("count-n1")
    nodes.pool("count-storm", "172.21.0.0/16", ["172.21.0.3-172.21.255.254"])
    c = leader("--max-allocated-ips", "5")
    wait(lambda: has(cluster, "count-storm", 65532, {}), "the status of pool count-storm has no address")
    before, began = c.metrics()["unirail_pool_writes_total"], time.monotonic()
    for i in range(150):
        endpoint(cluster, ns, f"storm-{i}", "count-storm", f"172.21.1.{i + 1}")
    wait(lambda: status(cluster, "count-storm")["allocatedIPCount"] == 150, "the status of pool count-storm has 150 addresses")
    took = time.monotonic() - began
    assert c.metrics()["unirail_pool_writes_total"] - before <= took + 2
    # allocatedIPCount is exact; allocatedIPs has at most --max-allocated-ips addresses.
    assert len(json.loads(status(cluster, "count-storm")["allocatedIPs"])) == 5
    cluster.ok("DELETE", f"{SPIDER}/namespaces/{ns}/spiderendpoints")
    wait(lambda: has(cluster, "count-storm", 65532, {}), "the status of pool count-storm has no address")


def test_records_of_spiderpool_are_adopted_and_released(cluster, ns, nodes, leader, agent):
    """A cluster migrates from Spiderpool, with its records, endpoints and finalizers."""
    one = agent("count-n1")
    nodes.pool("count-old", "172.22.0.0/24", ["172.22.0.2-172.22.0.99"])
    lives = nodes.pod(ns, "count-n1", "lives")
    deleted = {"metadata": {"namespace": ns, "name": "gone", "uid": "0b1f"}}
    records = {"172.22.0.5": lives, "172.22.0.6": deleted}
    cluster.ok("PATCH", f"{POOLS}/count-old/status", {"status": {
        "allocatedIPs": text(records), "allocatedIPCount": 2, "totalIPCount": 98}}, type=MERGE)
    for p, ip in ((lives, "172.22.0.5"), (deleted, "172.22.0.6")):
        meta = p["metadata"]
        endpoint(cluster, ns, meta["name"], "count-old", ip, meta["uid"], candidate=False, finalizers=[FINALIZER, "x.io/y"],
                 ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}])
    c = leader()
    wait(lambda: json.loads(pool(cluster, "count-old")["metadata"]["annotations"][ADOPTED]).keys() == {"172.22.0.5"},
         "pool count-old has the adopted record of 172.22.0.5")
    wait(lambda: has(cluster, "count-old", 98, {"172.22.0.5": lives}), "the status of pool count-old has the running pod only")
    # Spiderpool's finalizer is removed; that of another program stays and keeps the object.
    path = f"{SPIDER}/namespaces/{ns}/spiderendpoints/gone"
    wait(lambda: cluster.ok("GET", path)["metadata"].get("deletionTimestamp"), "SpiderEndpoint gone is being deleted", 60)
    assert cluster.ok("GET", path)["metadata"]["finalizers"] == ["x.io/y"]
    assert cluster.ok("GET", path.replace("gone", "lives"))["metadata"]["finalizers"] == [FINALIZER, "x.io/y"]
    m = c.metrics()
    assert m["spiderpool_ip_gc_counts_total"] == 1  # 172.22.0.6, which a record and an endpoint had, is counted once
    assert m["unirail_gc_finalizers_total"] == 1
    events = cluster.ok("GET", "/api/v1/events?fieldSelector=involvedObject.name=count-old")["items"]
    assert [e["message"] for e in events if e["reason"] == "AddressFreed"] == [
        f"172.22.0.6 is released: pod '{ns}/gone' (UID 0b1f) was deleted or has finished"]
    # The running pod of Spiderpool's record gets its address again; another pod does not get this address.
    other = nodes.pod(ns, "count-n1", "other")
    assert addresses(one.plan(other, "count-old")[1])["net1"] != "172.22.0.5"
    got = addresses(one.plan(lives, "count-old")[1])["net1"]
    assert got == "172.22.0.5"
    wait(lambda: status(cluster, "count-old")["allocatedIPCount"] == 2, "the status of pool count-old has two addresses")
    for p in (lives, other):
        one.release(p)
        nodes.remove_pod(p)
    wait(lambda: has(cluster, "count-old", 98, {}), "the status of pool count-old has no address", 60)
    assert pool(cluster, "count-old")["metadata"]["annotations"][ADOPTED] == "{}"
    cluster.ok("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)


def test_old_records_beyond_the_lookup_limit_are_released(cluster, ns, nodes, leader, proxy, tmp_path):
    """The controller releases a record when one lookup confirms that the pod is deleted, and another that no StatefulSet or virtual
    machine will create a pod of this name. It sends the requests of both lookups together, so that neither answer expires (after 15
    s) before the other one arrives, and no record waits forever."""
    records = {f"172.28.{i // 250}.{i % 250 + 2}": {"metadata": {"namespace": ns, "name": f"gone-{i}", "uid": "0b1f"}}
               for i in range(300)}
    nodes.pool("count-slow", "172.28.0.0/16", ["172.28.0.2-172.28.9.99"])
    cluster.ok("PATCH", f"{POOLS}/count-slow/status", {"status": {"allocatedIPs": text(records)}}, type=MERGE)
    proxy.delay = 0.1
    leader(config=cluster.through(proxy, tmp_path / "slow.conf"))
    wait(lambda: len(pool(cluster, "count-slow")["metadata"]["annotations"][ADOPTED]) > 10000,
         "the annotation of pool count-slow is longer than 10,000 characters", 60)
    wait(lambda: pool(cluster, "count-slow")["metadata"]["annotations"][ADOPTED] == "{}",
         "pool count-slow has no adopted records", 150, 1)


def test_old_address_in_another_nodes_block_is_requested_from_its_owner(cluster, ns, nodes, agent):
    """The address that Spiderpool allocated to a pod is in a block of another node. The pod's node requests the address from that node;
    if that node does not answer, the pod gets another address, and the log reports the reason."""
    nodes.pool("count-far", "172.27.0.0/27", ["172.27.0.2-172.27.0.30"])
    had = {f"172.27.0.{i}": nodes.pod(ns, "count-n1") for i in (5, 6, 20, 21)}
    cluster.ok("PATCH", f"{POOLS}/count-far/status", {"status": {"allocatedIPs": text(had)}}, type=MERGE)
    two = agent("count-n2")
    assert two.plan(nodes.pod(ns, "count-n2"), "count-far")[0] == 200
    block, = nodes.blocks("count-far")
    far = [a for a in had if ipaddress.ip_address(a) in ipaddress.ip_network(block["spec"]["cidr"])]
    one = agent("count-n1")
    assert addresses(one.plan(had[far[0]], "count-far")[1])["net1"] == far[0]
    two.kill()
    took, got = elapsed(lambda: addresses(one.plan(had[far[1]], "count-far")[1])["net1"])
    assert got not in had and 4 < took < 20
    line, = one.logged("the pod's former address was not available in time")
    # The log gives another reason if the agent reads the block again when the wait ends.
    assert line["ip"] == far[1] and any(contains in line["reason"] for contains in (
        "the address was requested from node 'count-n2', which has not responded", "the address's block is being read")), line


def test_old_records_of_a_disconnected_node_stay(cluster, ns, nodes, leader):
    nodes.node("count-n1")
    ready(cluster, "count-n1", False)
    nodes.pool("count-cut", "172.23.0.0/24", ["172.23.0.2-172.23.0.99"])
    deleted = {"metadata": {"namespace": ns, "name": "gone", "uid": "0b1f"}}
    cluster.ok("PATCH", f"{POOLS}/count-cut/status", {"status": {
        "allocatedIPs": text({"172.23.0.6": deleted}), "allocatedIPCount": 1}}, type=MERGE)
    endpoint(cluster, ns, "gone", "count-cut", "172.23.0.6", "0b1f", candidate=False)
    leader()
    wait(lambda: has(cluster, "count-cut", 98, {"172.23.0.6": deleted}), "the status of pool count-cut has the deleted pod's address")
    time.sleep(5)
    assert has(cluster, "count-cut", 98, {"172.23.0.6": deleted})
    assert nodes.endpoint(ns, "gone")
    ready(cluster, "count-n1")
    wait(lambda: has(cluster, "count-cut", 98, {}), "the status of pool count-cut has no address", 60)
    wait(lambda: not nodes.endpoint(ns, "gone"), "the SpiderEndpoint gone is deleted", 60)


def test_old_records_beyond_the_annotations_size_are_released(cluster, ns, nodes, leader):
    nodes.pool("count-many", "172.24.0.0/16", ["172.24.0.3-172.24.255.254"])
    lives = nodes.pod(ns, "count-n1", "lives-long")
    deleted = {"metadata": {"namespace": ns, "name": "gone-" + "x" * 40, "uid": "0b1f" * 9}}
    records = {f"172.24.{i // 250 + 1}.{i % 250 + 1}": deleted for i in range(2000)} | {"172.24.99.1": lives}
    assert len(text(records)) > 200 << 10
    cluster.ok("PATCH", f"{POOLS}/count-many/status", {"status": {"allocatedIPs": text(records)}}, type=MERGE)
    c = leader()
    wait(lambda: has(cluster, "count-many", 65532, {"172.24.99.1": lives}),
         "the status of pool count-many has the running pod only", 90)
    wait(lambda: json.loads(pool(cluster, "count-many")["metadata"]["annotations"][ADOPTED]).keys() == {"172.24.99.1"},
         "pool count-many has one adopted record")
    assert c.metrics()["spiderpool_ip_gc_counts_total"] == 2000


def test_unreadable_records_stay(cluster, nodes, leader):
    nodes.pool("count-bad", "172.25.0.0/24", ["172.25.0.2-172.25.0.99"])
    cluster.ok("PATCH", f"{POOLS}/count-bad/status", {"status": {"allocatedIPs": "{\"10.0.0\":{}}"}}, type=MERGE)
    c = leader()
    c.wait_logged("'10.0.0' is not an address")
    time.sleep(2)
    assert status(cluster, "count-bad") == {"allocatedIPs": "{\"10.0.0\":{}}"}
    assert len(c.logged("failed to update a pool's status")) == 1
    cluster.ok("DELETE", f"{POOLS}/count-bad")
