# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` after it lost its disk, its permissions or the API server, after it missed a pod's DEL, and after it was killed."""
import base64
import json
import shutil
import time
import uuid

import pytest
import yaml

from agents import DEPLOY, MERGE, SPIDER, addresses, elapsed
from cluster import wait


def test_addresses_of_pods_without_del_are_released(mine, nodes, agent, rails, tmp_path):
    """Pods are deleted, finish or are replaced, and the agent gets no DEL for them: their addresses are released after the grace time,
    but not before the pod's network namespace file is removed. Addresses of other pods stay."""
    one = agent(UNIRAIL_GC_GRACE="1s")
    pods = {what: nodes.pod("t", "n1") for what in ("lives", "gone", "finished", "held", "ends")}
    for what, pod in pods.items():
        netns = tmp_path / what
        if what in ("held", "ends"):
            netns.touch()
        assert one.plan(pod, "rail1", "rail2", netNamespace=str(netns))[0] == 200
    replaced = nodes.pod("t", "n1", "r-0")
    static = nodes.pod("t", "n1", "s-0", annotations={"kubernetes.io/config.source": "file"})
    for pod in (replaced, static):
        assert one.plan(pod, "rail1", "rail2")[0] == 200
    used = lambda: one.metrics().get('unirail_ippool_used_ips{pool="rail1"}')  # noqa: E731
    assert used() == 7
    # The object of pod `ends` stays (because of a finalizer); the pod's addresses stay as long as its containers may run.
    path = f"/api/v1/namespaces/t/pods/{pods['ends']['metadata']['name']}"
    mine.ok("PATCH", path, {"metadata": {"finalizers": ["x.io/y"]}}, type=MERGE)
    mine.ok("DELETE", path, {"gracePeriodSeconds": 2})
    for pod in (pods["gone"], pods["held"], replaced, static):
        nodes.remove_pod(pod)
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{pods['finished']['metadata']['name']}/status",
            {"status": {"phase": "Succeeded"}}, type=MERGE)
    wait(lambda: nodes.pod("t", "n1", "r-0"), "the pod r-0 is created again")
    # The kubelet recreates the mirror pod with another UID; the static pod's container still runs.
    wait(lambda: nodes.pod("t", "n1", "s-0", annotations={"kubernetes.io/config.source": "file"}),
         "the mirror pod s-0 is created again")
    wait(lambda: used() == 4, "four addresses are in use", 60)
    freed = {x["pod"]: x["reason"] for x in one.logged("released addresses of a deleted pod")}
    assert freed == {pods["gone"]["metadata"]["name"]: "the pod does not exist",
                     pods["finished"]["metadata"]["name"]: "the pod has finished",
                     "r-0": "the pod was replaced by another of the same name"}
    assert one.metrics()["spiderpool_ip_gc_counts_total"] == 6
    (tmp_path / "held").unlink()
    wait(lambda: used() == 3, "three addresses are in use", 60)
    (tmp_path / "ends").unlink()
    wait(lambda: used() == 2, "two addresses are in use", 60)
    assert [x["reason"] for x in one.logged("released addresses of a deleted pod") if x["pod"] == path.split("/")[-1]] == [
        "the pod's deletion is overdue and its containers do not exist"]
    assert mine.ok("GET", path)["metadata"]["deletionTimestamp"]
    mine.ok("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
    assert one.release(pods["lives"]) == 2 and one.release(static) == 2


def test_agent_with_a_new_disk_allocates_no_used_address(mine, nodes, agent, rails):
    """An agent that lost its journal allocates no address of the node's existing blocks until it knows the addresses of every pod of the
    node. Afterwards every pod still has its address, and no two pods have the same address."""
    for pod in mine.ok("GET", "/api/v1/pods")["items"]:
        nodes.remove_pod(pod)
    one = agent(UNIRAIL_GC_GRACE="1s")
    pods = [nodes.pod("t", "n1") for _ in range(3)]
    before = [addresses(one.plan(p, *rails[:2])[1]) for p in pods]
    for pod in pods[:2]:
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    name = pods[2]["metadata"]["name"]
    wait(lambda: nodes.endpoint("t", name), "the pod's SpiderEndpoint is created")
    one.kill()
    # The third pod's SpiderEndpoint is deleted: no other object names the pod's addresses; they are only in the ranges of the node's
    # blocks.
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{name}")
    shutil.rmtree(one.state)
    one.start()
    logged_lines = one.wait_logged("no network-status or SpiderEndpoint")
    assert f"t/{name}" in logged_lines[0]["pods"] and pods[0]["metadata"]["name"] not in logged_lines[0]["pods"], logged_lines
    assert not one.logged("adopted")
    new_pod = nodes.pod("t", "n1")
    got = addresses(one.plan(new_pod, *rails[:2])[1])
    status = json.dumps([{"name": "t/rail", "interface": i, "ips": [a]} for i, a in before[2].items()])
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{name}",
            {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": status}}}, type=MERGE)
    one.wait_logged("adopting blocks of a lost log", 30)
    wait(lambda: one.metrics()["unirail_blocks_unadopted"] == 0, "no block waits for adoption", 30)
    many = [addresses(one.plan(nodes.pod("t", "n1"), *rails[:2])[1]) for _ in range(8)]
    all_of_them = [a for v in [*before, got, *many] for a in v.values()]
    assert len(set(all_of_them)) == len(all_of_them)
    assert nodes.endpoint("t", pods[0]["metadata"]["name"])["status"]["current"]["uid"] == pods[0]["metadata"]["uid"]
    used = one.metrics()['unirail_ippool_used_ips{pool="rail1"}']
    nodes.remove_pod(pods[0])
    wait(lambda: one.metrics()['unirail_ippool_used_ips{pool="rail1"}'] == used - 1,
         f"{used - 1} addresses of pool rail1 are in use", 60)


def cut_first_line(text):
    return text[:text.index(b"\n") + 1]


def cut_last_line(text):
    return text[:text[:-1].rindex(b"\n") + 1]


def damage_middle(text):
    at = text.index(b"\n") + 20
    return text[:at] + b"\xff" + text[at + 1:]


@pytest.mark.parametrize("what", ["disk", cut_first_line, cut_last_line, damage_middle, lambda text: b"", None],
                         ids=["lost-disk", "first-line", "last-line", "damaged-line", "empty", "no-journal"])
def test_agent_with_a_lost_or_damaged_journal_allocates_no_used_address(what, mine, nodes, agent, rails, request):
    """Pods have addresses of the node's blocks and of peers' blocks. These addresses are not allocated again, and are released when the
    pods are deleted."""
    case = request.node.callspec.id
    here, there = f"{case}-1", f"{case}-2"
    for name in (here, there):
        nodes.node(name)
    small = f"small-{case}"
    # one block, which node `there` owns: node `here` has to borrow its addresses
    nodes.pool(small, "172.16.77.0/28", ["172.16.77.2-172.16.77.7"])
    one, other = agent(here, UNIRAIL_GC_GRACE="1s", UNIRAIL_WAIT="3s"), agent(there, UNIRAIL_WAIT="3s")
    first = nodes.pod("t", there)
    wait(lambda: other.plan(first, small)[0] == 200, f"the other node gets an address of pool {small}", 60)
    reference = addresses(other.plan(first, small)[1])["net1"]
    pods = [nodes.pod("t", here) for _ in range(3)]
    for pod in pods:
        wait(lambda: one.plan(pod, small, rails[0])[0] == 200, f"the pod gets addresses of pools {small} and {rails[0]}", 60)
    before = [addresses(one.plan(p, small, rails[0])[1]) for p in pods]
    for pod in pods:
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    wait(lambda: sum(to.startswith(here + "/") for b in nodes.blocks(small) for to in b["spec"]["released"].values()) == 3,
         "the blocks have three borrowed addresses")
    one.kill()
    journal = one.state / "journal"
    text = journal.read_bytes()
    if what == "disk":
        shutil.rmtree(one.state)
    elif what:
        journal.write_bytes(what(text))
    else:
        journal.unlink()
    one.start(ready=False)
    if what != "disk":
        aside, = one.logged("journal damaged and renamed")
        saved = [f.read_bytes() for f in one.state.glob("journal.damaged-*") if f.suffix != ".anchor"]
        assert saved == ([what(text)] if what else []) and aside["file"].startswith(str(journal)), aside
        wait(lambda: [e for e in mine.ok("GET", "/api/v1/events")["items"]
                      if e["reason"] == "JournalDamaged" and e["involvedObject"]["name"] == here],
             "an event JournalDamaged is created for the node")
    one.ready()
    used = {reference, *(a for v in before for a in v.values())}
    got = addresses(one.plan(nodes.pod("t", here), rails[0])[1])["net1"]
    assert got not in used
    used.add(got)
    one.wait_logged("adopting blocks of a lost log", 60)
    no_cache, = one.logged("no CNI result cache found")  # logged once, although the agent repeats its inventory of the pods' addresses
    assert no_cache["directory"] == str(one.folder / "cni"), no_cache
    wait(lambda: one.metrics()["unirail_blocks_unadopted"] == 0, "no block waits for adoption", 30)
    # Both nodes request the remaining addresses of the small pool.
    for _ in range(2):
        for a, node in ((one, here), (other, there)):
            status, answer = a.plan(nodes.pod("t", node), small, timeout=120)
            got = set(addresses(answer).values()) if status == 200 else set()
            assert not got & used, (case, got, used)
            used |= got
    for pod in pods:
        assert one.release(pod) == 0  # the agent has no record with the pod's container ID
        nodes.remove_pod(pod)
    mine_now = lambda: one.metrics()[f'unirail_ippool_used_ips{{pool="{rails[0]}"}}']  # noqa: E731
    wait(lambda: mine_now() == 1, f"one address of pool {rails[0]} is in use", 60)


def cache_result(agent, pod, container, ifname, address, args=True):
    """Writes the file that unirail-cni writes for each attachment before ADD returns; returns its path."""
    meta = pod["metadata"]
    conf = {"cniVersion": "1.0.0", "name": "rail", "plugins": [{"type": "macvlan", "ipam": {"type": "spiderpool"}}]}
    file = agent.folder / "cni" / "multus" / "results" / f"rail-{container}-{ifname}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({
        "kind": "cniCacheV1", "containerId": container, "config": base64.b64encode(json.dumps(conf).encode()).decode(),
        "ifName": ifname, "networkName": "rail", "netns": "/var/run/netns/x",
        "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", meta["namespace"]], ["K8S_POD_NAME", meta["name"]],
                    ["K8S_POD_UID", meta["uid"]]] if args else [],
        "result": {"cniVersion": "1.0.0", "interfaces": [{"name": ifname, "sandbox": "/var/run/netns/x"}],
                   "ips": [{"interface": 0, "address": address + "/28"}]}}))
    return file


def test_recreated_sandbox_keeps_its_address_with_a_truncated_journal(mine, nodes, agent):
    """While the API server is unavailable, recreated sandboxes get new addresses, which are recorded only at the end of the journal and
    in the CNI result cache. The test then cuts off the end of the journal. No new pod gets these addresses. While a cache file cannot
    be read, the agent allocates no address of the node's blocks."""
    name, node = "again", "again-1"
    nodes.node(node)
    nodes.pool(name, "172.16.78.0/28", ["172.16.78.2-172.16.78.7"])
    for pod in mine.ok("GET", "/api/v1/pods")["items"]:
        nodes.remove_pod(pod)
    one = agent(node, UNIRAIL_GC_GRACE="1s", UNIRAIL_WAIT="3s")
    pods = [nodes.pod("t", node) for _ in range(2)]
    for pod in pods:
        wait(lambda: one.plan(pod, name)[0] == 200, f"the pod gets an address of pool {name}", 60)
    before = [addresses(one.plan(p, name)[1])["net1"] for p in pods]
    for pod in pods:
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    mine.stop_apiserver()
    try:
        saved = len((one.state / "journal").read_bytes())
        after = []
        for i, pod in enumerate(pods):
            assert one.release(pod) == 1
            status, answer = one.plan(pod, name, container=f"again{i}")
            assert status == 200, answer
            after.append(addresses(answer)["net1"])
            cache_result(one, pod, f"again{i}", "net1", after[-1])
        assert not set(before) & set(after)
        one.kill()
    finally:
        mine.start_apiserver()
    assert [nodes.endpoint("t", p["metadata"]["name"])["status"]["current"]["ips"][0]["ipv4"].split("/")[0] for p in pods] == before
    journal = one.state / "journal"
    journal.write_bytes(journal.read_bytes()[:saved])
    unknown = cache_result(one, pods[0], "unknown-container", "net1", after[0], args=False)
    broken = unknown.with_name("rail-broken-net1")
    broken.write_text('{"kind": "cniCacheV1", "resu')
    one.start(ready=False)
    assert one.logged("journal damaged and renamed")
    one.ready(60)
    for file in (broken, unknown):
        logged_lines = wait(lambda: [x for x in one.logged("CNI result cache cannot be read") if str(file) in x["error"]],
                    f"the agent reports that {file} cannot be read", 60)
        assert len(logged_lines) == 1 and not one.logged("adopting blocks of a lost log"), logged_lines
        new_pod = nodes.pod("t", node)
        assert one.plan(new_pod, name)[0] == 500
        nodes.remove_pod(new_pod)  # otherwise this pod without a record would also prevent allocations
        file.unlink()
    one.wait_logged("adopting blocks of a lost log", 60)
    wait(lambda: one.metrics()["unirail_blocks_unadopted"] == 0, "no block waits for adoption", 30)
    got = []
    for pod in (nodes.pod("t", node) for _ in range(7)):
        status, answer = one.plan(pod, name)
        if status != 200:
            break
        got.append(addresses(answer)["net1"])
    # The pods keep four of the pool's six addresses: two that their SpiderEndpoints record, and two that the CNI result cache records.
    assert len(got) == 2 and not set(got) & {*before, *after}, (before, after, got)
    for pod in pods:
        nodes.remove_pod(pod)
    wait(lambda: one.metrics()[f'unirail_ippool_used_ips{{pool="{name}"}}'] == len(got),
         f"{len(got)} addresses of pool {name} are in use", 60)


def test_killed_agent_loses_no_address(nodes, agent, rails):
    """An agent that was killed and restarted returns the same addresses for the same pods."""
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


def test_pods_are_served_while_the_api_server_is_unavailable(mine, nodes, agent, rails):
    """While the API server is down, the agent serves ADD and DEL, and does so again after its restart."""
    one = agent()
    pods = [nodes.pod("t", "n1") for _ in range(4)]
    wait(lambda: one.plan(pods[0], *rails)[0] == 200, "the pod gets an address of each rail")
    time.sleep(1)  # time in which the agent's watch reports the other pods, and the agent claims blocks for its pre-allocation
    mine.stop_apiserver()
    try:
        took, (status, answer) = elapsed(lambda: one.plan(pods[1], *rails))
        assert status == 200 and took < 2, (took, answer)
        first = addresses(answer)
        assert one.release(pods[0]) == 8
        one.kill()
        one.start(ready=False)
        assert one.logged("using saved pools")
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
    wait(lambda: one.metrics()['unirail_watch_stale_seconds{kind="pods"}'] == 0, "the watch of pods is synced", 60)
    assert one.plan(pods[3], *rails)[0] == 200


def test_replaced_token_is_used(mine, nodes, agent, rails, tmp_path):
    """The old token is invalid once its account is deleted; the new token is in the same file."""
    path = "/api/v1/namespaces/t/serviceaccounts/rotating"
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    token = tmp_path / "token"
    token.write_text(mine.account("t", "rotating", everything))
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"tokenFile": token}))
    assert one.plan(nodes.pod("t", "n1"), *rails)[0] == 200
    mine.ok("DELETE", path)
    mine.ok("POST", "/api/v1/namespaces/t/serviceaccounts", {"metadata": {"name": "rotating"}})
    token.write_text(mine.token("t", "rotating"))
    # The watch has not reported the pod yet, so the agent reads it from the API server.
    status, answer = one.plan(nodes.pod("t", "n1"), *rails)
    assert status == 200, answer


def test_missing_permissions_are_reported(mine, nodes, agent, rails, tmp_path):
    """The log and the error that the caller gets name the verb and the resource of the refused request."""
    rules = [{"apiGroups": ["", "spiderpool.spidernet.io", "unirail.io", "k8s.cni.cncf.io"],
              "resources": ["nodes", "namespaces", "spiderippools", "spiderreservedips", "spideripblocks",
                            "spidercoordinators", "network-attachment-definitions"],
              "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]
    token = mine.account("t", f"a{uuid.uuid4().hex[:6]}", rules)
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"token": token}))
    logged_lines = one.wait_logged("may not read pods")
    assert len(logged_lines) == 1 and "'list' and 'watch'" in logged_lines[0]["msg"], logged_lines
    status, answer = one.plan(nodes.pod("t", "n1"), "rail1")
    assert status == 500 and 'cannot get resource "pods"' in answer["message"], answer


def test_rules_of_the_manifest_are_sufficient(mine, nodes, agent, rails, tmp_path):
    """The rules of deploy/agent.yaml permit every request of the agent."""
    objects = yaml.safe_load_all((DEPLOY / "agent.yaml").read_text())
    rules = [rule for o in objects if o["kind"] == "ClusterRole" for rule in o["rules"]]
    token = mine.account("t", f"a{uuid.uuid4().hex[:6]}", rules)
    one = agent(kubeconfig=mine.kubeconfig(tmp_path / "conf", {"token": token}), UNIRAIL_GC_GRACE="1s",
                UNIRAIL_BLOCK_IDLE="2s")
    pods = [nodes.pod("t", "n1") for _ in range(3)]
    for pod in pods:
        assert one.plan(pod, *rails)[0] == 200
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]), "the pod's SpiderEndpoint is created")
    assert one.plan(pods[0], "no-such-pool", container="x")[0] == 500
    nodes.remove_pod(pods[2])
    one.wait_logged("released addresses of a deleted pod", 60)
    for pod in pods[:2]:
        one.release(pod)
    wait(lambda: nodes.endpoint("t", pods[0]["metadata"]["name"]) is None, "the pod's SpiderEndpoint is deleted", 20)
    wait(lambda: len(mine.ok("GET", "/api/v1/namespaces/t/events")["items"]) > 0, "an event is created in namespace t")
    assert not [x for x in one.lines() if "orbidden" in json.dumps(x)], one.log.read_text()
