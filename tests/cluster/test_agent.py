# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` on a real API server, with the requests of Spiderpool's plugin and of unirail's."""
import concurrent.futures
import json
import time
import uuid

import pytest

import cluster as clusters
import policies
from agents import MERGE, SPIDER, addresses, by_name, elapsed, install_crds
from cluster import wait


@pytest.fixture(scope="module")
def mine():
    """A cluster whose CRDs the first test installs."""
    one = clusters.Cluster()
    if policies.POLICIES:
        policies.install(one)
    yield one
    one.close()


def test_agent_waits_for_missing_crds(mine, nodes, agent):
    """Runs before the other tests: the agent logs one line with the remedy, and continues once the CRDs are installed."""
    one = agent(ready=False)
    logged_lines = one.wait_logged("install their CRDs")
    assert len(logged_lines) == 1 and "deploy/crds" in logged_lines[0]["msg"], logged_lines
    assert "spiderippools.spiderpool.spidernet.io" in logged_lines[0]["kinds"], logged_lines
    assert one.get(one.health, "/healthz") == (200, "ok\n")
    status, text = one.get(one.health, "/readyz")
    assert status == 503 and "spiderippools" in text, text
    assert one.get(one.health, "/v1/runtime/liveness")[0] == 200
    assert one.get(one.health, "/v1/runtime/readiness")[0] == 503
    install_crds(mine)
    one.ready(60)
    assert len(one.logged("install their CRDs")) == 1
    assert one.stop() == 0


def test_pod_gets_addresses_of_eight_rails(nodes, agent, rails):
    one = agent()
    pod, other = nodes.pod("t", "n1"), nodes.pod("t", "n1")
    status, answer = one.plan(pod, *rails)
    assert status == 200, answer
    got = addresses(answer)
    assert [a.rsplit(".", 1)[0] for a in got.values()] == [f"172.16.{i}" for i in range(1, 9)]
    assert all(r["newlyAllocated"] for r in answer["rails"])
    again = one.plan(pod, *rails)[1]
    assert addresses(again) == got and not any(r["newlyAllocated"] for r in again["rails"])
    assert not set(addresses(one.plan(other, *rails)[1]).values()) & set(got.values())
    blocks = nodes.blocks()
    assert sorted(b["spec"]["pool"] for b in blocks) == rails
    assert {b["spec"]["node"] for b in blocks} == {"n1"}
    assert one.release(pod) == 8 and one.release(pod) == 0
    assert one.metrics()['unirail_ippool_used_ips{pool="rail3"}'] == 1


def test_status_reports_the_agents_state(mine, nodes, agent, rails):
    """`unirail status` prints the state of a node as text and as JSON."""
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), *rails[:2])[0] == 200
    r = mine.unirail("status", "--socket", one.socket)
    assert r.returncode == 0 and r.stdout.startswith("node n1: ready\n2 blocks owned by this node"), r
    rows = {line.split()[0]: line.split()[1:] for line in r.stdout.splitlines() if line.startswith("rail")}
    assert {name: (used, total) for name, (used, _, total) in rows.items()} == {
        "rail1": ("1", "241"), "rail2": ("1", "241")}, r.stdout
    got = json.loads(mine.unirail("status", "--socket", one.socket, "-o", "json").stdout)
    assert got["ready"] and got["pending"] == 0 and [k["reason"] for k in got["kinds"]] == [""] * 7, got
    assert got["unconfined"] == "" and one.confined() or "AddressSanitizer" in got["unconfined"], got
    mine.stop_apiserver()
    try:
        wait(lambda: "namespaces are not in sync: " in mine.unirail("status", "--socket", one.socket).stdout,
             "unirail status reports that namespaces are not in sync")
    finally:
        mine.start_apiserver()
    one.stop()
    r = mine.unirail("status", "--socket", one.socket)
    assert r.returncode == 1 and r.stderr.startswith("unirail status: query the agent (is 'unirail agent' running on this node?): "), r


def test_pool_command_reads_the_cluster(mine, nodes, agent, rails, tmp_path):
    """`unirail pool release` frees an address; the other `unirail pool` commands only read the cluster's objects and an agent's state."""
    one, two = agent("n1"), agent("n2")
    assert one.plan(nodes.pod("t", "n1"), *rails[:2])[0] == two.plan(nodes.pod("t", "n2"), rails[0])[0] == 200

    def show(*args, status=0):
        r = mine.unirail("pool", *args)
        assert r.returncode == status, r
        return r.stdout if status == 0 else r.stdout + r.stderr

    def rows(text):
        return {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    config = ("--kubeconfig", mine.admin_config())
    got = rows(show("list", *config))
    assert set(got) == set(rails) and got["rail1"][:4] == ["4", "172.16.1.0/24", "241", "2"], got
    assert got["rail2"][3] == "1" and got["rail3"][3] == "0", got
    assert sorted(r[1] for r in rows(show("show", "rail1", *config)).values()) == ["n1", "n2"]
    blocks = json.loads(show("show", "rail1", "-o", "json", *config))["pools"][0]["blocks"]
    assert sorted(b["node"] for b in blocks) == ["n1", "n2"]
    assert show("check", *config) == f"checked {len(rails)} SpiderIPPools and 3 SpiderIPBlocks of all nodes: nothing found\n"
    assert "no SpiderIPPool 'none'" in show("show", "none", *config, status=1)
    assert "run this command there" in show("release", "172.16.1.10", "--yes", *config, status=1)
    mine.ok("DELETE", f"{SPIDER}/spiderippools/rail2")
    assert "belongs to pool 'rail2', which does not exist" in show("check", *config, status=1)
    at = ("--socket", one.socket)
    assert rows(show("list", *at))["rail1"][:4] == ["4", "172.16.1.0/24", "1", "241"]
    # `release` on the node of an address removes the address from the journal; the running agent sees the change, because it reads the
    # journal before each batch.
    pod = nodes.pod("t", "n1")
    assert by_name(one, pod, "rail3", "172.16.3.77")[0] == 200
    assert f"t/{pod['metadata']['name']} " in show("owner", "172.16.3.77", "--state-dir", one.state)
    assert "released 172.16.3.77" in show("release", "172.16.3.77", "--yes", "--state-dir", one.state)
    assert by_name(one, nodes.pod("t", "n1"), "rail3", "172.16.3.77")[0] == 200
    # The same commands with the agent's socket.
    held = addresses(one.plan(pod, "rail1", container="c1")[1])["net1"]
    reference = addresses(two.plan(nodes.pod("t", "n2"), "rail1")[1])["net1"]
    owner = f"t/{pod['metadata']['name']}"
    assert rows(show("show", "rail1", *at))[held][:2] == ["used", owner]
    record, = (r for r in json.loads(show("show", "rail1", "-o", "json", *at))["records"] if r["address"] == held)
    assert (record["pod"], record["interface"], record["pool"]) == (pod["metadata"]["name"], "net1", "rail1")
    assert json.loads(show("owner", held, "-o", "json", *at)) == record
    assert held not in show("free", "rail1", "3", *at) and len(show("free", "rail1", "3", *at).splitlines()) == 3
    assert "is free in pool" in show("owner", show("free", "rail1", "1", *at).strip(), *at, status=1)
    assert "this node does not own that part" in show("owner", reference, *at, status=1)
    assert f"{held} (" in show("check", *at, status=1)  # the pod's network namespace does not exist
    assert "no pool 'none'" in show("show", "none", *at, status=1)
    assert "'xyz' is not an address" in show("owner", "xyz", *at, status=2)
    assert "repeat with --yes" in show("release", held, *at, status=1)
    assert f"would release {held} (used by {owner} net1)" in show("release", held, "--dry-run", *at)
    assert held in rows(show("show", "rail1", *at))
    assert f"released {held}" in show("release", held, "--yes", *at)
    assert held not in show("show", "rail1", *at)
    assert "is 'unirail agent' running on this node?" in show("list", "--socket", tmp_path / "none", status=1)


def test_allocation_from_a_local_block_sends_no_request(nodes, agent, pools):
    """Once a node has its blocks, an allocation sends no request about blocks. (The pools of this test begin and end at block
    boundaries: with a partial block the agent might claim a block for its pre-allocation during the test.)"""
    rails = [f"room{i}" for i in range(1, 9)]
    for i, name in enumerate(rails):
        pools(name, f"172.16.{i}.0/24", [f"172.16.{i}.16-172.16.{i}.239"])
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    before = one.metrics()["unirail_block_requests_total"]
    assert before >= 8
    for _ in range(7):
        assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    time.sleep(2)
    m = one.metrics()
    assert m["unirail_block_requests_total"] == before
    assert m["spiderpool_ipam_allocation_counts_total"] == 8
    assert m['unirail_ipam_phase_duration_seconds_count{phase="blocks"}'] == 1


def test_pools_are_prefetched_for_a_scheduled_pod(mine, nodes, agent, pools):
    """When a pod is scheduled to the node, the agent claims blocks of the pools of the pod's networks: the pod's ADD sends no block
    request."""
    for k in range(3):
        pools(f"ahead{k}", f"10.5.{k}.0/24")
    nads = "/apis/k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions"
    for k, ipam in enumerate(({"default_ipv4_ippool": ["ahead0"]}, {"default_ipv4_ippool": ["none", "ahead1"]}, {})):
        conf = {"cniVersion": "1.0.0", "plugins": [{"type": "macvlan", "ipam": {"type": "spiderpool", **ipam}}]}
        mine.request("DELETE", f"{nads}/ahead{k}")
        mine.ok("POST", nads, {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                               "metadata": {"name": f"ahead{k}"}, "spec": {"config": json.dumps(conf)}})
    one = agent()
    wait(lambda: one.metrics()["unirail_block_requests_total"] == 0, "the agent has sent no block request")
    nodes.pod("t", "n1", annotations={"k8s.v1.cni.cncf.io/networks": "ahead0"})
    wait(lambda: {b["spec"]["pool"] for b in nodes.blocks()} == {"ahead0"}, "all blocks are of pool ahead0")
    requested = json.dumps([{"interface": "net1", "ipv4": ["ahead1"]}, {"interface": "net2", "ipv4": ["ahead2"]}])
    pod = nodes.pod("t", "n1", annotations={"k8s.v1.cni.cncf.io/networks": "ahead0, ahead2",
                                            "ipam.spidernet.io/ippools": requested})
    wait(lambda: {b["spec"]["pool"] for b in nodes.blocks()} == {"ahead0", "ahead1", "ahead2"}, "each of the three pools has a block")
    before = one.metrics()["unirail_block_requests_total"]
    assert one.plan(pod, "ahead1", "ahead2")[0] == 200
    assert one.metrics()["unirail_block_requests_total"] == before
    # The agent requests as many addresses in advance as pods are scheduled.
    pods = [nodes.pod("t", "n1", annotations={"k8s.v1.cni.cncf.io/networks": "ahead0"}) for _ in range(30)]
    wait(lambda: len(nodes.blocks("ahead0")) == 3, "pool ahead0 has three blocks")
    before = one.metrics()["unirail_block_requests_total"]
    assert all(one.plan(p, "ahead0")[0] == 200 for p in pods)
    assert one.metrics()["unirail_block_requests_total"] == before


def test_requests_of_spiderpools_plugin_are_served(nodes, agent, pools):
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
    assert one.request("GET", f"/v1/workloadendpoint?podNamespace=t&podName={name}")[0] == 404
    assert one.request("POST", "/v1/ipam/ip", {})[0] == 422


def test_requests_for_missing_replaced_or_remote_pods_are_refused(mine, nodes, agent, rails):
    one = agent()
    pod = nodes.pod("t", "n1")

    def refused(pod, ns="t", **meta):
        status, text = one.add({"metadata": {**pod["metadata"], **meta}}, defaultIPv4IPPool=["rail1"])
        assert status == 500, text
        return text

    deleted = {"metadata": {"namespace": "t", "name": "gone", "uid": str(uuid.uuid4())}}
    assert "pod 't/gone' does not exist" in refused(deleted)
    text = refused(pod, uid="other-uid")
    assert pod["metadata"]["uid"] in text and "the pod was replaced by another of the same name" in text
    elsewhere = nodes.pod("t", "n2")
    assert "is on node 'n2', and this agent's node is 'n1'" in refused(elsewhere)
    assert "K8S_POD_NAMESPACE" in refused(pod, name="")
    # An old runtime passes no UID: the UID from the API server is used.
    status, answer = one.add({"metadata": {**pod["metadata"], "uid": ""}}, container="c1",
                             defaultIPv4IPPool=["rail1"])
    assert status == 200, answer
    found = one.ok("GET", f"/v1/workloadendpoint?podNamespace=t&podName={pod['metadata']['name']}")
    assert found["podUID"] == pod["metadata"]["uid"]
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{pod['metadata']['name']}/status", {"status": {"phase": "Failed"}},
            type=MERGE)
    wait(lambda: "dead Pod t/" in refused(pod, uid=pod["metadata"]["uid"]), "the agent refuses the pod of phase Failed as dead")
    nodes.remove_pod(pod)


def test_pod_unknown_to_the_watch_is_read_from_the_server(nodes, agent, rails):
    """ADD is called right after the creation of the pod: the agent reads the pod with one request."""
    one = agent()
    for _ in range(5):
        pod = nodes.pod("t", "n1")
        status, answer = one.plan(pod, "rail1", "rail2")
        assert status == 200, answer


def test_pending_requests_are_served_in_order_of_arrival(nodes, agent, pools):
    """A peer has allocated all addresses of the pool. Waiting requests get the addresses that the peer releases, in order of arrival. A pod
    that requests another pool does not wait."""
    pools("few", "10.8.0.0/24", ["10.8.0.10-10.8.0.12"])
    pools("many", "10.9.0.0/24")
    two, one = agent("n2", UNIRAIL_REUSE_DELAY="0s"), agent("n1", UNIRAIL_REUSE_DELAY="0s")
    owners = [nodes.pod("t", "n2") for _ in range(3)]
    for pod in owners:
        assert two.plan(pod, "few")[0] == 200
    waiting = [nodes.pod("t", "n1") for _ in range(2)]
    order = []

    def request(i):
        status, answer = one.plan(waiting[i], "few", timeout=90)
        order.append(i)
        return status, answer

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = []
        for i in range(2):
            futures.append(pool.submit(request, i))
            time.sleep(0.5)
        took, (status, _) = elapsed(lambda: one.plan(nodes.pod("t", "n1"), "many"))
        assert status == 200 and took < 5, took
        assert not any(f.done() for f in futures)
        two.release(owners[0])
        wait(lambda: len(order) == 1, "the first request is answered", 20)
        two.release(owners[1])
        got = [f.result() for f in futures]
    assert [s for s, _ in got] == [200, 200], (got, one.log.read_text()[-2000:])
    assert order == [0, 1]


def test_exhausted_pool_is_reported(nodes, agent, pools):
    """The error has Spiderpool's code and text and names the pool. A request that lists a second pool gets an address of that pool."""
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


def test_requested_addresses_are_allocated_or_refused(mine, nodes, agent, pools):
    """Pods request an address of a block without an owner, one of a peer's block, and one that another pod has."""
    pools("named", "10.8.0.0/24")
    one, two = agent("n1"), agent("n2")
    first = nodes.pod("t", "n1")
    took, (status, answer) = elapsed(lambda: by_name(one, first, "named", "10.8.0.77"))
    assert status == 200 and addresses(answer) == {"net1": "10.8.0.77"}, (answer, one.log.read_text()[-2000:])
    assert took < 2, took
    # A pod on n2 requests another address of n1's block: n1 releases the address to n2.
    took, (status, answer) = elapsed(lambda: by_name(two, nodes.pod("t", "n2"), "named", "10.8.0.70"))
    assert status == 200 and addresses(answer) == {"net1": "10.8.0.70"}, (answer, two.log.read_text()[-2000:])
    assert took < 3, took
    took, (status, answer) = elapsed(lambda: by_name(two, nodes.pod("t", "n2"), "named", "10.8.0.77"))
    assert status == 500 and "node 'n1' has the address" in answer["message"] and took < 5, (took, answer)
    assert "10.8.0.77" in answer["message"] and "pool 'named'" in answer["message"]
    # The error takes the pod's name from the status of the pool, which the controller writes.
    has = {"10.8.0.76": {"pod": "t/other"}, "10.8.0.77": {"pod": f"t/{first['metadata']['name']}", "podUid": "u"}}
    mine.ok("PATCH", f"{SPIDER}/spiderippools/named", {"metadata": {"annotations": {"unirail.io/adopted": "{}"}}}, type=MERGE)
    mine.ok("PATCH", f"{SPIDER}/spiderippools/named/status", {"status": {"allocatedIPs": json.dumps(has)}}, type=MERGE)
    three = agent("n2", name="again")  # a new agent, with an empty cache
    status, answer = by_name(three, nodes.pod("t", "n2"), "named", "10.8.0.77")
    assert status == 500 and f"node 'n1' has the address, for pod 't/{first['metadata']['name']}'" in answer["message"], answer
    three.kill()
    # The owner of the block knows which node has borrowed an address of it.
    status, answer = by_name(one, nodes.pod("t", "n1"), "named", "10.8.0.70")
    assert status == 500 and "node 'n2' has borrowed the address" in answer["message"], answer
    status, answer = by_name(one, nodes.pod("t", "n1"), "named", "10.8.1.70")
    assert status == 500 and "none of its pools" in answer["message"], answer


def test_address_of_an_unavailable_node_is_refused(nodes, agent, pools):
    pools("named", "10.8.0.0/24")
    one, two = agent("n1"), agent("n2", UNIRAIL_WAIT="3s")
    assert by_name(one, nodes.pod("t", "n1"), "named", "10.8.0.77")[0] == 200
    one.kill()
    status, answer = by_name(two, nodes.pod("t", "n2"), "named", "10.8.0.70")
    assert status == 500 and "the address was requested from node 'n1', which has not responded" in answer["message"], answer
    one.start()
    status, answer = by_name(two, nodes.pod("t", "n2"), "named", "10.8.0.70")
    assert status == 200, answer


def test_first_pool_is_used_before_the_backup(nodes, agent, pools):
    """A node without a block of the first pool claims a block of that pool instead of using the backup pool."""
    pools("first", "10.8.0.0/24")
    pools("backup", "10.9.0.0/24")
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), "backup")[0] == 200
    answer = one.plan(nodes.pod("t", "n1"), ["first", "backup"])[1]
    assert answer["rails"][0]["ips"][0]["ipPool"] == "first"


def pool_names(answer):
    return [r["ips"][0]["ipPool"] for r in answer["rails"]]


def test_pools_requested_by_annotations_are_used(mine, nodes, agent, rails):
    """The annotations take precedence over the network's configuration; an error names the pod and the invalid annotation."""
    one = agent()
    both = json.dumps([{"interface": "net1", "ipv4": ["rail3"]}, {"interface": "net2", "ipv4": ["rail4"]}])
    pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/ippools": both})
    assert pool_names(one.plan(pod, "rail1", "rail2")[1]) == ["rail3", "rail4"]
    # Entries without an interface are used one after the other, in the order of the list.
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
    wait(lambda: pool_names(one.plan(nodes.pod("team", "n1"), "rail1")[1]) == ["rail7"],
         "the annotation of the namespace selects pool rail7")


def test_pools_are_selected_by_their_affinities(mine, nodes, agent, pools):
    """A pool is used only if its affinities match the labels of the pod and of the node, and its multusName the pod's network."""
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


def test_addresses_of_a_deleted_pool_stay_with_their_pods(mine, nodes, agent, pools):
    """Pods keep their addresses and can release them; new requests fail, and the error names the reason."""
    pools("p", "10.8.0.0/24")
    pools("q", "10.9.0.0/24")
    one = agent()
    pod = nodes.pod("t", "n1")
    got = addresses(one.plan(pod, "p")[1])
    mine.ok("DELETE", f"{SPIDER}/spiderippools/p")
    wait(lambda: one.plan(nodes.pod("t", "n1"), "p")[0] == 500, "no address of the deleted pool is allocated")
    answer = one.plan(nodes.pod("t", "n1"), "p")[1]
    assert answer["code"] == 7 and "no pool 'p'" in answer["message"], answer
    check = one.ok("POST", "/v1/unirail/pods/check", {"containerID": pod["metadata"]["uid"][:12]})
    assert addresses(check) == got
    assert one.release(pod) == 1


def test_coordinator_settings_follow_the_default_spidercoordinator(mine, nodes, agent, rails):
    path = f"{SPIDER}/spidercoordinators"
    one = agent()
    request = lambda: one.ok("GET", "/v1/coordinator/config", {"podName": "a", "podNamespace": "t"})  # noqa: E731
    assert request()["mode"] == "auto"
    mine.ok("POST", path, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
                           "metadata": {"name": "default"}, "spec": {"mode": "overlay", "podCIDRType": "none",
                                                                     "hijackCIDR": ["169.254.25.10"]}})
    try:
        wait(lambda: request()["mode"] == "overlay", "the coordinator's mode is overlay")
        assert request()["hijackCIDR"] == ["169.254.25.10/32"] and request()["serviceCIDR"] == []
        mine.ok("PATCH", f"{path}/default/status", {"status": {
            "phase": "Synced", "overlayPodCIDR": ["10.244.0.0/16"], "serviceCIDR": ["10.96.0.0/12"]}},
            type=MERGE)
        wait(lambda: request()["serviceCIDR"] == ["10.96.0.0/12"], "the coordinator's service CIDR is 10.96.0.0/12")
        pod = nodes.pod("t", "n1", annotations={"ipam.spidernet.io/default-route-nic": "net1"})
        wait(lambda: one.ok("GET", "/v1/coordinator/config", {
            "podName": pod["metadata"]["name"], "podNamespace": "t"}).get("podDefaultRouteNIC") == "net1",
             "the pod's default route NIC is net1")
    finally:
        mine.ok("DELETE", f"{path}/default")
    wait(lambda: request()["mode"] == "auto", "the coordinator's mode is auto")


def test_agent_completes_requests_before_it_exits(nodes, agent, rails):
    """A request that waits for an address of an exhausted pool gets an error as its answer, and the agent ends within 5 s."""
    one = agent()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        nodes.pool("tiny", "10.8.0.0/24", ["10.8.0.10"])
        wait(lambda: one.plan(nodes.pod("t", "n1"), "tiny")[0] == 200, "pool tiny has a free address")
        waiting = threads.submit(one.plan, nodes.pod("t", "n1"), "tiny")
        time.sleep(0.5)
        assert not waiting.done()
        took, status = elapsed(one.stop)
        assert status == 0 and took < 5, took
        assert waiting.result()[0] == 500


def test_restore_of_etcd_that_changed_no_block_is_detected(mine, nodes, agent, rails):
    """The resource versions of blocks do not show the restore; those of pods, which the agent also watches, show it."""
    one = agent()
    assert one.plan(nodes.pod("t", "n1"), rails[0])[0] == 200
    mine.back_up()
    for i in range(200):
        mine.config_map("t", f"later-{i}")
    pod = nodes.pod("t", "n1")
    assert one.plan(pod, rails[0])[0] == 200
    mine.restore()
    one.wait_logged("blocks: etcd was restored from a backup", 60)
