# SPDX-License-Identifier: Apache-2.0
"""deploy/ on a node with a real kubelet and containerd: pods created by controllers get their rails, and leave nothing when they are
deleted."""
import json
import time

import pytest

from agents import SPIDER
from cluster import wait
from whole import RAILS, Whole

INJECT = "cni.spidernet.io/network-resource-inject"
STATUS = "k8s.v1.cni.cncf.io/network-status"
NETWORKS = "k8s.v1.cni.cncf.io/networks"


@pytest.fixture(scope="module")
def whole():
    one = Whole()
    yield one
    one.close()


@pytest.fixture(scope="module")
def rails(whole):
    """Creates a pool and a network for each rail. A pod whose annotation INJECT has the value `rails` gets all these networks. Returns
    the networks' namespace."""
    whole.cluster.namespace("nets")
    objects = []
    for i, rail in enumerate(RAILS, 1):
        objects += [
            {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": rail},
             "spec": {"subnet": f"172.16.{i}.0/24", "ips": [f"172.16.{i}.10-172.16.{i}.99"], "gateway": f"172.16.{i}.1"}},
            {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
             "metadata": {"name": rail, "namespace": "nets", "annotations": {INJECT: "rails"}},
             "spec": {"cniType": "macvlan", "macvlan": {"master": [rail], "ippools": {"ipv4": [rail]}}}}]
    whole.apply("nets", *objects)
    return "nets"


@pytest.fixture
def ns(whole, rails):
    name = f"k{time.monotonic_ns() % 10**9}"
    wait(lambda: whole.cluster.namespace(name), f"namespace {name} is created")
    yield name
    whole.kubectl("delete", "ns", name)


def workload(kind, name, replicas, annotations, **more):
    labels = {"app": name}
    pod = {"metadata": {"labels": labels, "annotations": annotations},
           "spec": {"terminationGracePeriodSeconds": 0, "containers": [
               {"name": "c", "image": "registry.local/busybox:1", "command": ["sleep", "100000"]}]}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod, **more}}


def status(pod):
    return json.loads(pod["metadata"]["annotations"].get(STATUS, "[]"))


def addresses(pod):
    """Returns {interface: address} from the pod's network-status."""
    return {s["interface"]: s["ips"][0] for s in status(pod) if s.get("ips")}


def shown(whole, pod, ifname):
    return whole.exec(pod, "ip", "-o", "-4", "addr", "show", "dev", ifname)


def up(whole, ns, app, n):
    """Waits until the workload's pods are ready and have their network-status; returns them."""
    return wait(lambda: [p for p in whole.ready(ns, f"app={app}", n) if status(p)] if all(
        status(p) for p in whole.ready(ns, f"app={app}", n)) else None, f"{n} pods of {app} have a network-status")


def have_rails(whole, pods):
    """Checks that each pod has an address of each pool, in its network-status and on its rail's interface, and that all pods reach each
    other on each rail."""
    for p in pods:
        have = addresses(p)
        for i, ifname in enumerate(("net1", "net2"), 1):
            assert have[ifname].startswith(f"172.16.{i}."), have
            assert f"inet {have[ifname]}/24" in shown(whole, p, ifname)
        assert have["eth0"] == p["status"]["podIP"]
    for p in pods:
        for other in pods:
            for ifname in ("net1", "net2") if p is not other else ():
                whole.exec(p, "ping", "-c", "1", "-W", "5", "-I", ifname, addresses(other)[ifname])
    assert len({addresses(p)[i] for p in pods for i in ("net1", "net2")}) == 2 * len(pods)


def nothing_left(whole, ns):
    """Waits until nothing of the pods is left, neither in the cluster nor on the node."""
    def nothing_remains():
        assert not whole.pods(ns)
        assert not whole.cluster.ok("GET", f"{SPIDER}/namespaces/{ns}/spiderendpoints")["items"]
        for rail in RAILS:
            s = whole.cluster.ok("GET", f"{SPIDER}/spiderippools/{rail}")["status"]
            assert s["allocatedIPCount"] == 0 and ns not in s.get("allocatedIPs", ""), s
        links = whole.node.run("ip", "-o", "link", "show", "type", "veth").stdout
        assert "master cni0" not in links and not whole.node.run("ls", "/run/netns").stdout, links
        return True
    wait(nothing_remains, f"nothing of the pods of namespace {ns} is left", 90, 0.5)


def test_pods_of_a_deployment_get_their_rails(whole, ns):
    whole.apply(ns, workload("Deployment", "ai", 2, {INJECT: "rails"}))
    pods = up(whole, ns, "ai", 2)
    for p in pods:
        assert [n["name"] for n in json.loads(p["metadata"]["annotations"][NETWORKS])] == list(RAILS)
        assert [(s["name"], s["interface"], s.get("default", False)) for s in status(p)] == [
            ("k8s-pod-network", "eth0", True), ("nets/rail1", "net1", False), ("nets/rail2", "net2", False)]
    have_rails(whole, pods)
    whole.kubectl("scale", "-n", ns, "deployment/ai", "--replicas=4")
    have_rails(whole, up(whole, ns, "ai", 4))
    wait(lambda: all(whole.cluster.ok("GET", f"{SPIDER}/spiderippools/{r}")["status"]["allocatedIPCount"] == 4 for r in RAILS),
         "the status of each pool has four addresses")
    whole.kubectl("delete", "-n", ns, "deployment/ai")
    nothing_left(whole, ns)


def test_pods_survive_killed_daemons(whole, ns):
    """kubelet, containerd and agent are killed: running pods stay unchanged, and new pods start."""
    whole.apply(ns, workload("Deployment", "ai", 2, {INJECT: "rails"}))
    before = {p["metadata"]["name"]: addresses(p) for p in up(whole, ns, "ai", 2)}
    for n, what in enumerate(("kubelet", "containerd", "unirail agent"), 3):
        whole.node.kill(what)
        whole.kubectl("scale", "-n", ns, "deployment/ai", f"--replicas={n}")
        pods = up(whole, ns, "ai", n)
        have_rails(whole, pods)
        remaining = [p for p in pods if p["metadata"]["name"] in before]
        assert {p["metadata"]["name"]: addresses(p) for p in remaining} == before
        assert all(c["restartCount"] == 0 for p in pods for c in p["status"]["containerStatuses"])
    whole.kubectl("delete", "-n", ns, "deployment/ai")
    nothing_left(whole, ns)


def test_without_an_agent_pods_are_deleted_and_new_pods_wait(whole, ns):
    """While no agent runs, pods can be deleted; their addresses are released once an agent runs again. The events of a new pod name the
    reason of its wait."""
    whole.apply(ns, workload("Deployment", "ai", 2, {INJECT: "rails"}))
    up(whole, ns, "ai", 2)
    where = {"spec": {"template": {"spec": {"nodeSelector": {"not": "here"}}}}}
    whole.kubectl("patch", "-n", "unirail", "daemonset/unirail-agent", "-p", json.dumps(where))
    wait(lambda: not whole.pods("unirail", "app.kubernetes.io/name=unirail-agent"), "the agent's pod is deleted", 60)
    whole.kubectl("scale", "-n", ns, "deployment/ai", "--replicas=0")
    wait(lambda: not whole.pods(ns), f"no pods are left in namespace {ns}", 60)
    whole.kubectl("scale", "-n", ns, "deployment/ai", "--replicas=1")

    def sandbox_failures():
        return [e["message"] for e in whole.cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]
                if e["reason"] == "FailedCreatePodSandBox" and "spiderpool.sock" in e["message"]]
    wait(sandbox_failures, "an event reports that the agent's socket does not answer", 120)  # the plugin waits 30 s for an agent that restarts
    where["spec"]["template"]["spec"]["nodeSelector"]["not"] = None
    whole.kubectl("patch", "-n", "unirail", "daemonset/unirail-agent", "-p", json.dumps(where))
    have_rails(whole, up(whole, ns, "ai", 1))
    wait(lambda: all(whole.cluster.ok("GET", f"{SPIDER}/spiderippools/{r}")["status"]["allocatedIPCount"] == 1 for r in RAILS),
         "the status of each pool has one address")
    whole.kubectl("delete", "-n", ns, "deployment/ai")
    nothing_left(whole, ns)


def test_recreated_sandbox_gets_its_addresses(whole, ns):
    """The kubelet creates another sandbox for the same pod: on the rails the new sandbox gets exactly the addresses of the former one."""
    whole.apply(ns, workload("StatefulSet", "ai", 1, {INJECT: "rails"}, serviceName="x"))
    pod, = up(whole, ns, "ai", 1)
    had = addresses(pod)
    sandbox = whole.node.run("ctr", "--namespace", "k8s.io", "containers", "ls").stdout
    sandbox = [line.split()[0] for line in sandbox.splitlines() if "busybox" in line]
    owners = {i: json.loads(whole.node.run("ctr", "--namespace", "k8s.io", "containers", "info", i).stdout)["Labels"]
              for i in sandbox}
    mine, = [i for i, labels in owners.items() if labels.get("io.kubernetes.pod.uid") == pod["metadata"]["uid"]
             and labels.get("io.cri-containerd.kind") == "sandbox"]
    whole.node.run("ctr", "--namespace", "k8s.io", "task", "kill", "--signal", "9", mine)
    wait(lambda: whole.pods(ns)[0]["status"]["containerStatuses"][0]["restartCount"] > 0, "the container is restarted", 60)
    again = wait(lambda: [p for p in up(whole, ns, "ai", 1) if addresses(p).get("eth0") != had["eth0"]],
                 "the recreated sandbox has another address on eth0")
    assert {k: v for k, v in addresses(again[0]).items() if k != "eth0"} == {k: v for k, v in had.items() if k != "eth0"}
    have_rails(whole, again)
    # A new pod with the same name also gets the same addresses on the rails.
    whole.kubectl("delete", "pod", "-n", ns, "ai-0")
    new = wait(lambda: [p for p in up(whole, ns, "ai", 1) if p["metadata"]["uid"] != pod["metadata"]["uid"]],
               "the pod is replaced by another")
    assert {k: v for k, v in addresses(new[0]).items() if k != "eth0"} == {k: v for k, v in had.items() if k != "eth0"}
    whole.kubectl("delete", "-n", ns, "statefulset/ai")
    nothing_left(whole, ns)


def test_pods_run_with_the_configuration_of_multus(whole, ns):
    """The node has a configuration of Multus, and the pods have an annotation in Multus' format."""
    whole.configure("00-multus.conf")
    try:
        whole.apply(ns, workload("Deployment", "ai", 2, {NETWORKS: "nets/rail2@data,nets/rail1"}))
        pods = up(whole, ns, "ai", 2)
        for p in pods:
            assert [s["interface"] for s in status(p)] == ["eth0", "data", "net2"]
            assert addresses(p)["data"].startswith("172.16.2.") and addresses(p)["net2"].startswith("172.16.1.")
        whole.exec(pods[0], "ping", "-c", "1", "-W", "5", "-I", "data", addresses(pods[1])["data"])
        whole.kubectl("delete", "-n", ns, "deployment/ai")
        nothing_left(whole, ns)
    finally:
        whole.configure("10-unirail.conflist")


def test_pods_of_a_job_get_their_rails(whole, ns):
    """A completed job releases its addresses while its pod objects still exist."""
    whole.apply(ns, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "completions": 3, "parallelism": 3, "template": {
            "metadata": {"labels": {"app": "j"}, "annotations": {INJECT: "rails"}},
            "spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "registry.local/busybox:1", "command": ["ip", "-o", "addr"]}]}}}})
    wait(lambda: [p["status"]["phase"] for p in whole.pods(ns)] == ["Succeeded"] * 3, "all three pods succeed", 60)
    for p in whole.pods(ns):
        output = whole.kubectl("logs", "-n", ns, p["metadata"]["name"])
        assert "net1" in output and "inet 172.16.1." in output and "inet 172.16.2." in output

    def given_back():
        return all(whole.cluster.ok("GET", f"{SPIDER}/spiderippools/{r}")["status"]["allocatedIPCount"] == 0 for r in RAILS)
    wait(given_back, "the status of no pool has an address", 60)
    assert len(whole.pods(ns)) == 3


def test_pod_waits_for_a_network_that_does_not_exist_yet(whole, ns):
    """The pod's events name the network; the pod starts once the network exists."""
    whole.apply(ns, workload("Deployment", "ai", 1, {NETWORKS: "late"}))

    def sandbox_failures():
        return [e for e in whole.cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]
                if e["reason"] == "FailedCreatePodSandBox" and f"{ns}/late" in e["message"]]
    wait(sandbox_failures, "an event names the missing network", 60)
    whole.apply(ns, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
                     "metadata": {"name": "late", "namespace": ns},
                     "spec": {"cniType": "macvlan", "macvlan": {"master": ["rail1"], "ippools": {"ipv4": ["rail1"]}}}})
    pod, = up(whole, ns, "ai", 1)
    assert addresses(pod)["net1"].startswith("172.16.1.")
    whole.kubectl("delete", "-n", ns, "deployment/ai")
    nothing_left(whole, ns)
