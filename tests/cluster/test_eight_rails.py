# SPDX-License-Identifier: Apache-2.0
"""Pods of eight rails on two nodes: one annotation requests their networks and resources, the agents' device plugins count the devices
of a recorded host. The pods need all devices of a node, so that the next pod stays Pending if a device is not released."""
import json

import pytest

from agents import SPIDER
from cluster import BINARY, wait
from test_kubelet import INJECT, NETWORKS, addresses, status, workload
from whole import Whole

RAILS = tuple(f"rail{i}" for i in range(1, 9))
NETS = tuple(f"net{i}" for i in range(1, 9))
MEMLOCK = 1 << 20  # bytes; root may set this limit without CAP_SYS_RESOURCE
PODS = 100
MAP = "/api/v1/namespaces/unirail/configmaps/rdma-devices"
POOLS = f"{SPIDER}/spiderippools"


def resource(rail):
    return f"spidernet.io/{rail}"


def devices(per_node):
    """A device configuration with one resource per rail; each resource has one HCA, shared by `per_node` devices."""
    return {"config.json": json.dumps({"configList": [
        {"resourcePrefix": "spidernet.io", "resourceName": rail, "rdmaHcaMax": per_node, "selectors": {"ifNames": [f"ens{i}np0"]}}
        for i, rail in enumerate(RAILS, 1)]})}


@pytest.fixture(scope="module")
def whole():
    one = Whole(nri=True, rails=RAILS, nodes=2, host="eight_rails.tree",
                settings=f"device-configmap = rdma-devices\nrdma-memlock = {MEMLOCK}\n")
    try:
        one.cluster.config_map("unirail", "rdma-devices", devices(4))
        one.cluster.namespace("nets")
        for i, rail in enumerate(RAILS, 1):
            one.apply("nets", *network(i, rail))
        one.ready("unirail", "app.kubernetes.io/name=unirail-agent", 2)
        wait(lambda: one.cluster.namespace("ai"), "namespace ai is created")
        yield one
    finally:
        one.close()


def network(i, rail):
    return ({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": rail},
             "spec": {"subnet": f"172.16.{i}.0/24", "ips": [f"172.16.{i}.10-172.16.{i}.250"], "gateway": f"172.16.{i}.1"}},
            {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
             "metadata": {"name": rail, "namespace": "nets", "annotations": {INJECT: "rails"}},
             "spec": {"cniType": "macvlan", "macvlan": {"master": [rail], "ippools": {"ipv4": [rail]},
                                                        "rdmaResourceName": resource(rail)}}})


def training(replicas):
    made = workload("Deployment", "ai", replicas, {INJECT: "rails"})
    made["spec"]["template"]["spec"] |= {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False}
    return made


def counted(whole, per_node):
    for node in whole.nodes:
        have = whole.cluster.ok("GET", f"/api/v1/nodes/{node.name}")["status"]["allocatable"]
        assert {have.get(resource(rail)) for rail in RAILS} == {str(per_node)}, have
    return True


def allocated(node):
    """{pod: {resource: [device]}} of PodResources."""
    pods = {}
    for row in json.loads(node.run(BINARY, "device", "pods", "-o", "json").stdout):
        pods.setdefault(row["pod"], {})[row["resource"]] = row["devices"]
    return pods


def in_namespaces(node):
    """[{interface: address}] of each network namespace that a container runtime made on the node."""
    lines = node.run("sh", "-c", "cd /run/netns && for n in *; do [ ! -e $n ] || { echo $n; nsenter --net=$n ip -o -4 addr; }; done").stdout
    found = []
    for fields in map(str.split, lines.splitlines()):
        if len(fields) == 1:
            found.append({})
        elif fields[1] != "lo":
            assert fields[1] not in found[-1], lines
            found[-1][fields[1]] = fields[3].split("/")[0]
    return found


def links(node):
    """The node's links except cni0, which the bridge plugin does not delete."""
    lines = node.run("ip", "-o", "link").stdout.splitlines()
    return sorted(line.split()[1].split("@")[0].rstrip(":") for line in lines if ": cni0:" not in line)


def are_whole(whole, pods):
    """Interfaces, addresses, endpoints and device IDs of the pods agree with the kernel, the pools and the kubelets. No two pods have the
    same address or device ID, and no namespace or endpoint of a deleted pod is left."""
    by_name = {p["metadata"]["name"]: p for p in pods}
    for p in pods:
        assert [n["name"] for n in json.loads(p["metadata"]["annotations"][NETWORKS])] == list(RAILS)
        have = addresses(p)
        assert sorted(have) == ["eth0", *NETS] and have["eth0"] == p["status"]["podIP"]
        assert all(have[net].startswith(f"172.16.{i}.") for i, net in enumerate(NETS, 1)), have
    for net in ("eth0", *NETS):
        assert len({addresses(p)[net] for p in pods}) == len(pods), net
    for node in whole.nodes:
        here = [p for p in pods if p["spec"]["nodeName"] == node.name]
        order = lambda found: sorted(found, key=lambda a: a.get("net1", ""))
        assert order(in_namespaces(node)) == order(map(addresses, here))
        given = {name: a for name, a in allocated(node).items() if name in by_name}
        assert set(given) == {p["metadata"]["name"] for p in here}
        assert all(sorted(a) == sorted(map(resource, RAILS)) for a in given.values()), given
        for rail in RAILS:
            ids = [i for a in given.values() for i in a[resource(rail)]]
            assert len(ids) == len(set(ids)) == len(here), (rail, ids)
    endpoints = {e["metadata"]["name"]: e for e in whole.cluster.ok("GET", f"{SPIDER}/namespaces/ai/spiderendpoints")["items"]}
    assert set(endpoints) == set(by_name)
    for name, p in by_name.items():
        ips = {i["interface"]: i["ipv4"].split("/")[0] for i in endpoints[name]["status"]["current"]["ips"]}
        assert ips == {net: addresses(p)[net] for net in NETS}


def pools_count(whole, n):
    def do():
        for rail in RAILS:
            s = whole.cluster.ok("GET", f"{POOLS}/{rail}")["status"]
            assert s["allocatedIPCount"] == n and len(json.loads(s.get("allocatedIPs") or "{}")) == n, s
        return True
    wait(do, f"the status of each pool has {n} addresses", 120, 0.5)


def nothing_left(whole, before):
    def nothing_remains():
        assert not whole.pods("ai")
        assert not whole.cluster.ok("GET", f"{SPIDER}/namespaces/ai/spiderendpoints")["items"]
        for node in whole.nodes:
            assert not node.run("ls", "/run/netns").stdout and links(node) == before[node.name]
            assert not allocated(node)
            assert not node.run("find", "/run/unirail/pods", "-mindepth", "1", check=False).stdout
        return True
    wait(nothing_remains, "nothing of the pods is left", 180, 1)
    pools_count(whole, 0)


def running(whole):
    return [p for p in whole.pods("ai") if p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp")]


def noted(whole, n):
    """Waits until n pods are ready and have their network-status; returns them."""
    return wait(lambda: (lambda pods: all(map(status, pods)) and pods)(whole.ready("ai", "app=ai", n, 600)),
                f"{n} pods have a network-status", 60, 1)


def test_pods_beyond_the_number_of_devices_stay_pending(whole):
    """With four devices per rail and node, eight pods have all devices, and the ninth waits. Pods of both nodes reach each other on each
    rail."""
    before = {node.name: links(node) for node in whole.nodes}
    wait(lambda: counted(whole, 4), "each node has four devices of each resource", 60, 0.5)
    whole.apply("ai", training(9))
    pods = whole.ready("ai", "app=ai", 8, 240)

    def waiting():
        return [c["message"] for p in whole.pods("ai") if p["status"]["phase"] == "Pending" for c in p["status"]["conditions"]
                if f"Insufficient {resource('rail1')}" in c.get("message", "")]
    wait(waiting, "a pod is Pending because no device is free", 30)
    pods = noted(whole, 8)
    assert sorted(p["spec"]["nodeName"] for p in pods) == ["n1"] * 4 + ["n2"] * 4
    assert not any(c["restartCount"] for p in pods for c in p["status"]["containerStatuses"])
    are_whole(whole, pods)
    pools_count(whole, 8)
    one, other = (next(p for p in pods if p["spec"]["nodeName"] == node.name) for node in whole.nodes)
    for a, b in ((one, other), (other, one)):
        assert {f"uverbs{i}" for i in range(8)} | {"rdma_cm"} <= set(whole.exec(a, "ls", "/dev/infiniband").split())
        limits = whole.exec(a, "cat", "/proc/1/limits").splitlines()
        assert [x.split()[3:5] for x in limits if x.startswith("Max locked memory")] == [[str(MEMLOCK)] * 2]
        for net in NETS:
            whole.exec(a, "ping", "-c", "1", "-W", "5", "-I", net, addresses(b)[net])
    # A change of the ConfigMap alone adds devices.
    whole.cluster.ok("PATCH", MAP, {"data": devices(5)}, type="application/merge-patch+json")
    noted(whole, 9)
    whole.kubectl("delete", "-n", "ai", "deployment/ai")
    nothing_left(whole, before)


def kill_all(whole, count, at):
    """Kills kubelet, containerd and agent of each node, and the API server, each when count() reaches the next number in `at`."""
    def kill(node, name):
        return lambda: node.kill(name)

    def restart_apiserver():
        whole.cluster.stop_apiserver()
        whole.cluster.start_apiserver()

    steps = [(f"{name} of {node.name}", kill(node, name)) for name in ("kubelet", "containerd", "unirail agent") for node in whole.nodes]
    did = []
    for n, (name, step) in zip(at, [*steps, ("API server", restart_apiserver)], strict=True):
        wait(lambda: count() >= n if at.step > 0 else count() <= n, f"the count of pods reaches {n}", 600, 0.2)
        did.append((name, count()))
        step()
    return did


def test_burst_of_pods_succeeds_while_every_process_is_killed(whole):
    """100 pods are created at once, and deleted at once; meanwhile kubelet, containerd and agent of each node and the API server are
    killed. If the runtime ends while it starts a container, the kubelet starts the container again."""
    before = {node.name: links(node) for node in whole.nodes}
    whole.cluster.ok("PATCH", MAP, {"data": devices(PODS // 2)}, type="application/merge-patch+json")
    wait(lambda: counted(whole, PODS // 2), f"each node has {PODS // 2} devices of each resource", 60, 0.5)
    whole.apply("ai", training(PODS))
    did = kill_all(whole, lambda: len(running(whole)), range(5, PODS, 14))
    print("killed while pods are made (pods that run):", did)
    are_whole(whole, noted(whole, PODS))
    pools_count(whole, PODS)
    whole.kubectl("delete", "-n", "ai", "deployment/ai", "--wait=false")
    did = kill_all(whole, lambda: len(whole.pods("ai")), range(PODS - 5, 0, -14))
    print("killed while pods are deleted (pods that are left):", did)
    nothing_left(whole, before)
