# SPDX-License-Identifier: Apache-2.0
"""deploy/agent.yaml, applied by kubectl: the agent works with its permissions, and uses all of them."""
import pytest

from agents import SPIDER, Agent, Nodes, addresses, by_name
from audit import Audited
from cluster import wait


@pytest.fixture(scope="module")
def agents():
    one = Audited("unirail-agent", "agent.yaml")
    one.apply()
    yield one
    one.close()


def use_applications(cluster, nodes, agent):
    """The agent reads the owner of a pod. If the controller does not watch the owner's kind, the agent creates an empty pool, which the
    controller fills."""
    cluster.ok("POST", f"{SPIDER}/spidersubnets", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "metadata": {"name": "s"},
        "spec": {"subnet": "10.6.0.0/24", "ips": ["10.6.0.2-10.6.0.9"]}})
    annotations = {"ipam.spidernet.io/subnet": '{"ipv4":["s"]}', "ipam.spidernet.io/ippool-ip-number": "2"}
    for kind, api in (("ReplicaSet", "apps/v1"), ("Job", "batch/v1"), ("CloneSet", "apps.kruise.io/v1alpha1")):
        pod = nodes.pod("t", "n1", owner={"kind": kind, "apiVersion": api, "name": "x"}, annotations=annotations)
        assert agent.add(pod)[0] == 500
    wait(lambda: cluster.request("GET", f"{SPIDER}/spiderippools?labelSelector="
                                 "ipam.spidernet.io/owner-application-kind=CloneSet")[1]["items"], "a pool of the CloneSet is created")


def test_agent_works_with_its_deployed_permissions(agents, closing, tmp_path):
    audited = agents.cluster
    nodes = Nodes(audited)
    nodes.node("n1")
    nodes.node("n2")
    audited.namespace("t")
    conf = agents.config(tmp_path / "conf")
    one, other = (closing(Agent(tmp_path / n, conf, n)) for n in ("n1", "n2"))
    for i in range(1, 3):
        wait(lambda: nodes.pool(f"rail{i}", f"172.16.{i}.0/24"), f"pool rail{i} is created")
    nodes.pool("narrow", "172.16.9.0/28", ["172.16.9.2-172.16.9.5"])  # one block: the second node has to borrow
    args = ("--block-idle", "1s", "--pre-allocate", "1", "--reuse-delay", "1s", "--device-configmap", "unirail/rdma-devices",
            "--device-sweep", "1s", "--device-sweep-prefixes", "rdma")
    audited.ok("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": {"rdma/gone": "0"}}}, type="application/merge-patch+json")
    for agent in (one, other):
        agent.start(*args)
    pods = {}
    for agent in (one, other):
        pods[agent] = [nodes.pod("t", agent.node) for _ in range(2)]
        for pod in pods[agent]:
            status, answer = agent.plan(pod, "rail1", "rail2", "narrow")
            assert status == 200, (answer, agent.log.read_text()[-3000:])
    # For a requested address that a pod of another node has, the agent reads the pool's status, which may name the pod.
    stranger = nodes.pod("t", "n1")
    status, refused = by_name(one, stranger, "rail1", addresses(answer)["net1"])
    assert status == 500 and "node 'n2' has the address" in refused["message"], refused
    nodes.remove_pod(stranger)
    meta = pods[one][0]["metadata"]
    for i in range(2):  # a repeated event increments the count
        one.request("POST", "/v1/unirail/pods/report", {
            "containerID": "c1", "podNamespace": "t", "podName": meta["name"], "podUID": meta["uid"],
            "networkStatus": f'[{{"name":"n{i}"}}]', "message": "Added eth0"})
        wait(lambda: f"n{i}" in audited.ok("GET", f"/api/v1/namespaces/t/pods/{meta['name']}")["metadata"]
             ["annotations"].get("k8s.v1.cni.cncf.io/network-status", ""), f"network-status of the pod has n{i}")
    wait(lambda: nodes.endpoint("t", meta["name"]), "the pod's SpiderEndpoint is created")
    assert one.add(pods[one][0], "net9", defaultIPv4IPPool=["rail1"])[0] == 200
    wait(lambda: len(nodes.endpoint("t", meta["name"])["status"]["current"]["ips"]) == 4, "the SpiderEndpoint has four interfaces")
    other.stop()
    other.start(*args)  # the agent reads the block of its borrowed address with a GET of this block
    for agent in (other, one):
        for pod in pods[agent]:
            agent.release(pod)
            nodes.remove_pod(pod)
    # For a pod that is not in its cache the agent sends a GET; this pod does not exist.
    deleted = {"metadata": {"namespace": "t", "name": "gone", "uid": "0b1f"}}
    assert one.plan(deleted, "rail1")[0] == 500

    def given_back():
        """Asserts that no block has an owner or a borrowed address."""
        left = [b for b in nodes.blocks() if b["spec"]["node"] != "-" or b["spec"].get("released")]
        assert not left, left
        return True

    wait(given_back, "no block has an owner or a borrowed address", 60)
    wait(lambda: not nodes.endpoint("t", meta["name"]), "the pod's SpiderEndpoint is deleted")
    # The audit log contains a watch only once the watch has ended.
    assert one.stop() == 0 and other.stop() == 0
    # Before the agent releases a retained address, it reads the StatefulSet, or the virtual machine, that may own the pod's name.
    one.start(*args, "--gc-grace", "1s")
    retained = nodes.pod("t", "n1", "web-0", {"kind": "StatefulSet", "name": "web"})
    assert one.plan(retained, "rail1")[0] == 200
    assert one.release(retained) == 1
    nodes.remove_pod(retained)
    one.wait_logged("released a retained address")
    assert one.stop() == 0
    use_applications(audited, nodes, one.start(*args, "--wait", "1s"))
    assert one.stop() == 0
    agents.check()


def test_daemon_set_of_the_agent_has_only_privileges_to_open_files(agents):
    """The object stored by the API server has no privilege except to open files."""
    spec = agents.cluster.ok("GET", "/apis/apps/v1/namespaces/unirail/daemonsets/unirail-agent")["spec"]["template"]["spec"]
    assert spec["hostNetwork"] and not spec.get("hostPID")
    for c in spec["containers"] + spec["initContainers"]:
        may = c["securityContext"]
        assert not may.get("privileged") and not may["allowPrivilegeEscalation"]
        assert may["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
        assert may["seccompProfile"] == {"type": "RuntimeDefault"} and may["readOnlyRootFilesystem"]
