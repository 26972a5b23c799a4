# SPDX-License-Identifier: Apache-2.0
"""RDMA devices of pods: the device plugin at a real kubelet, and the memlock limit and environment variables that a container gets by
NRI.

The memlock limit is low enough for root to set it without CAP_SYS_RESOURCE, a capability that a CI machine may lack."""
import json
import pathlib
import subprocess

import pytest

from cluster import BINARY, die_with_parent, wait
from whole import Whole

RAILS = {"version": 1, "rails": [
    {"ifname": f"net{i}", "device": f"mlx5_{i}", "port": 1, "gidIndex": 3, "gid": f"::ffff:172.16.{i}.20", "network": f"rail{i}",
     "containerID": "x"} for i in (1, 2)]}


MEMLOCK = str(1 << 20)
HOSTS = pathlib.Path(__file__).parents[1] / "hosts"
RESOURCE = "rdma/hca_shared"
SHARED = {"configList": [{"resourceName": "hca_shared", "resourcePrefix": "rdma", "rdmaHcaMax": 3,
                          "selectors": {"ifNames": ["ens1np0"]}}]}


@pytest.fixture(scope="module")
def whole():
    one = Whole(nri=True)
    settings = one.cluster.ok("GET", "/api/v1/namespaces/unirail/configmaps/unirail-agent")["data"]["agent.conf"]
    change = {"data": {"agent.conf": settings + f"rdma-memlock = {MEMLOCK}\n"}}
    one.kubectl("patch", "-n", "unirail", "configmap/unirail-agent", "-p", json.dumps(change))
    one.kubectl("rollout", "restart", "-n", "unirail", "daemonset/unirail-agent")
    one.kubectl("rollout", "status", "-n", "unirail", "daemonset/unirail-agent", "--timeout=100s")
    yield one
    one.close()


@pytest.fixture(scope="module")
def ns(whole):
    wait(lambda: whole.cluster.namespace("nri"), "namespace nri is created")
    return "nri"


def registered(whole, times=1):
    log = whole.node.run("sh", "-c", "cat /var/log/pods/unirail_unirail-agent*/agent/*.log").stdout
    return log.count("NRI plugin registered") >= times


def pod(whole, ns, name, privileged, **context):
    """A pod whose container starts once the pod's rails.json exists, as after a CNI ADD of networks with RDMA devices."""
    containers = [{"name": "c", "image": "registry.local/busybox:1", "command": ["sleep", "100000"],
                   "env": [{"name": "UCX_NET_DEVICES", "value": "mine"}], "securityContext": {"privileged": privileged, **context}}]
    waits = [{"name": "first", "image": "registry.local/busybox:1", "command": ["sh", "-c", "until [ -e /pods/$UID_/rails.json ]; "
                                                                               "do sleep 0.1; done"],
              "env": [{"name": "UID_", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
              "volumeMounts": [{"name": "pods", "mountPath": "/pods"}]}]
    whole.apply(ns, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0, "initContainers": waits, "containers": containers,
        "volumes": [{"name": "pods", "hostPath": {"path": "/run/unirail/pods"}}]}})
    uid = whole.pods(ns, f"app={name}")[0]["metadata"]["uid"]
    where = f"/run/unirail/pods/{uid}"
    whole.node.run("sh", "-c", f"mkdir -p {where} && cat >{where}/new && mv {where}/new {where}/rails.json", text=json.dumps(RAILS))
    return whole.ready(ns, f"app={name}", 1)[0]


def limit(whole, p):
    return [line for line in whole.exec(p, "cat", "/proc/1/limits").splitlines() if line.startswith("Max locked memory")][0].split()[3:5]


def variables(whole, p):
    text = whole.exec(p, "cat", "/proc/1/environ")
    return dict(v.split("=", 1) for v in text.split("\0") if v)


def test_container_with_rdma_devices_gets_limit_and_variables(whole, ns):
    wait(lambda: registered(whole), "the agent is registered at the runtime", 60)
    p = pod(whole, ns, "train", True)
    assert limit(whole, p) == [MEMLOCK, MEMLOCK]
    env = variables(whole, p)
    assert env["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_2:1"
    assert (env["NCCL_IB_GID_INDEX"], env["NCCL_SOCKET_IFNAME"]) == ("3", "=eth0")
    assert env["UCX_NET_DEVICES"] == "mine"


def test_container_without_root_gets_the_memlock_limit(whole, ns):
    p = pod(whole, ns, "user", True, runAsUser=1000)
    assert "Uid:\t1000\t" in whole.exec(p, "cat", "/proc/1/status")
    assert limit(whole, p) == [MEMLOCK, MEMLOCK]


def test_container_without_rdma_devices_is_unchanged(whole, ns):
    p = pod(whole, ns, "plain", False)
    assert limit(whole, p) != [MEMLOCK, MEMLOCK]
    assert "NCCL_IB_HCA" not in variables(whole, p)


def test_container_gets_its_limit_after_a_runtime_restart(whole, ns):
    whole.node.kill("containerd")
    wait(lambda: registered(whole, 2), "the agent is registered at the runtime again", 60)
    assert limit(whole, pod(whole, ns, "again", True)) == [MEMLOCK, MEMLOCK]


@pytest.fixture(scope="module")
def plugin(whole):
    """The device plugin on a recorded host with eight rails, registered at the node's kubelet."""
    host = whole.cluster.folder / "host"
    subprocess.run([BINARY, "doctor", "--root", HOSTS / "eight_rails.tree", "--unpack", host], check=True, capture_output=True)
    (host / "etc/resources").mkdir(parents=True)
    (host / "etc/resources/config.json").write_text(json.dumps(SHARED))
    with open(whole.cluster.folder / "plugin.log", "w") as log:
        p = subprocess.Popen(["nsenter", "-t", str(whole.node.pid()), "-m", "-p", "--", BINARY, "device-plugin", "--root", host,
                              "/etc/resources"], stdout=log, stderr=log, preexec_fn=die_with_parent)
    yield p
    p.kill()
    p.wait()


def capacity(whole, n):
    node = whole.cluster.ok("GET", f"/api/v1/nodes/{whole.node.name}")["status"]
    assert node["allocatable"].get(RESOURCE) == str(n), (node["allocatable"], (whole.cluster.folder / "plugin.log").read_text())
    return True


def workers(whole, ns, replicas):
    labels = {"app": "workers"}
    container = {"name": "c", "image": "registry.local/busybox:1", "command": ["sleep", "100000"],
                 "resources": {"limits": {RESOURCE: 1}}}
    whole.apply(ns, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "workers"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [container]}}}})


def test_devices_are_counted_and_allocated(whole, ns, plugin):
    """Three pods have all devices; the fourth stays Pending."""
    wait(lambda: capacity(whole, 3), "the node has a capacity of three devices", 60)
    workers(whole, ns, 4)
    running = whole.ready(ns, "app=workers", 3)
    for p in running:
        assert {"uverbs0", "rdma_cm"} <= set(whole.exec(p, "ls", "/dev/infiniband").split())
        assert limit(whole, p) == [MEMLOCK, MEMLOCK]

    def waiting():
        pending = [p for p in whole.pods(ns, "app=workers") if p["status"]["phase"] == "Pending"]
        return [c["message"] for p in pending for c in p["status"].get("conditions", []) if f"Insufficient {RESOURCE}" in
                c.get("message", "")]
    wait(waiting, "a pod is Pending because no device is free", 30)
    whole.kubectl("scale", "-n", ns, "deployment/workers", "--replicas=3")
    whole.ready(ns, "app=workers", 3)


def test_devices_are_allocated_after_a_kubelet_restart(whole, ns, plugin):
    """A restarted kubelet knows no device plugin: the plugin registers again, and pods keep their devices."""
    before = {p["metadata"]["uid"] for p in whole.ready(ns, "app=workers", 3)}
    whole.node.kill("kubelet")
    wait(lambda: capacity(whole, 3), "the node has a capacity of three devices", 60)
    assert {p["metadata"]["uid"] for p in whole.ready(ns, "app=workers", 3)} == before
    whole.kubectl("delete", "pod", "-n", ns, sorted(p["metadata"]["name"] for p in whole.pods(ns, "app=workers"))[0])
    wait(lambda: {p["metadata"]["uid"] for p in whole.ready(ns, "app=workers", 3)} != before, "three pods are ready, one of them new", 60)
    for p in whole.ready(ns, "app=workers", 3):
        assert "uverbs0" in whole.exec(p, "ls", "/dev/infiniband").split()


def test_node_has_no_allocatable_device_after_the_plugin_stops(whole, ns, plugin):
    whole.node.run("pkill", "-TERM", "-f", "device-plugin --root")
    assert plugin.wait(20) == 0
    wait(lambda: capacity(whole, 0), "the node has no capacity of the resource", 60)
