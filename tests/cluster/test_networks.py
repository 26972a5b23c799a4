# SPDX-License-Identifier: Apache-2.0
"""All networks of a pod from a real API server: `multus` and `unirail-cni` in separate network namespaces, `unirail agent` between them
and the cluster, Debian's bridge as the default network, eight macvlan rails."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import stat
import time

import pytest
from lab import BINARY, PLUGINS, REFERENCE, Lab, addresses, has_address, link, link_names, ping, routes, run
from test_podres import container, devices, kubelet
from test_podres import pod as podres_pod

import cluster as clusters
import daemons
from agents import Agent, Nodes, install_crds
from cluster import wait

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces"
RAILS = [f"rail{i}" for i in range(8)]
STATUS = "k8s.v1.cni.cncf.io/network-status"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
FIRST = "v1.multus-cni.io/default-network"


@pytest.fixture(scope="module")
def mine():
    one = clusters.Cluster()
    install_crds(one)
    one.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    yield one
    one.close()


@pytest.fixture(scope="module")
def nodes(mine):
    nodes = Nodes(mine)
    nodes.node("n1")
    return nodes


@pytest.fixture
def team(mine, request):
    return mine.namespace("t-" + str(abs(hash(request.node.nodeid)) % 10 ** 8))


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name in PLUGINS:
        (folder / name).symlink_to(BINARY)
    one = Lab.__new__(Lab)
    one.namespaces = []
    try:
        (tmp_path / "lab").mkdir()
        one.__init__(tmp_path / "lab", folder, rails=8)
        yield one
    finally:
        one.close()


@pytest.fixture
def pools(mine, nodes):
    """One pool for each rail; blocks of the previous test are deleted first."""
    for b in nodes.blocks():
        mine.request("DELETE", f"/apis/unirail.io/v1/spideripblocks/{b['metadata']['name']}")
    for i, name in enumerate(RAILS):
        nodes.pool(name, f"172.16.{i + 1}.0/24")


@pytest.fixture
def agent(mine, nodes, pools, closing, tmp_path):
    one = closing(Agent(tmp_path / "agent", mine.admin_config(), "n1"))
    return one.start()


class NodeWithAgent:
    """A node with its agent, and the NetworkAttachmentDefinitions and pods that the tests create in the cluster."""

    def __init__(self, mine, nodes, team, lab, agent):
        self.mine, self.nodes, self.team, self.lab, self.agent = mine, nodes, team, lab, agent
        self.nad("kube-system", "podnet", self.podnet())
        for name in RAILS:
            self.nad(team, name, self.rail(name))

    def podnet(self):
        return {"cniVersion": "1.0.0", "name": "podnet", "plugins": [
            {"type": "bridge", "bridge": "cbr0", "isGateway": True,
             "ipam": {"type": "host-local", "dataDir": str(self.lab.tmp / "networks"),
                      "ranges": [[{"subnet": "10.233.70.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}

    def rail(self, nic):
        """The configuration of a NetworkAttachmentDefinition as Spiderpool's controller writes it."""
        return {"cniVersion": "0.3.1", "name": nic, "plugins": [
            {"type": "macvlan", "master": nic, "mode": "bridge", "mtu": 0,
             "ipam": {"type": "spiderpool", "default_ipv4_ippool": [nic]}},
            {"txQueueLen": 0, "tunePodRoutes": True, "mode": "auto", "type": "coordinator"}]}

    def nad(self, ns, name, config, resource=None):
        meta = {"name": name, "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {}}
        path = f"{NADS}/{ns}/network-attachment-definitions"
        self.mine.request("DELETE", f"{path}/{name}")
        text = config if isinstance(config, str) or config is None else json.dumps(config, separators=(",", ":"))
        self.mine.ok("POST", path, {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                                    "metadata": meta, "spec": {} if text is None else {"config": text}})

    def pod(self, annotation=None, ns=None, **annotations):
        more = {NETWORKS: annotation} if annotation else {}
        return self.nodes.pod(ns or self.team, "n1", annotations={**more, **annotations})

    def question(self, pod, **more):
        meta = pod["metadata"]
        return {"containerID": "c" * 64, "podNamespace": meta["namespace"], "podName": meta["name"],
                "podUID": meta["uid"], "ifName": "eth0", "netconfNetworks": 0, "clusterNetwork": "podnet", **more}

    def request_networks(self, pod, **more):
        return self.agent.request("POST", "/v1/unirail/pods/networks", self.question(pod, **more))

    def networks(self, pod, n, **more):
        """Requests the pod's networks until the answer has n of them, because the agent's watch may report new objects only after the
        first request."""
        def inspect():
            status, answer = self.request_networks(pod, **more)
            return status == 200 and len(answer["networks"]) == n and answer
        return wait(inspect, f"the agent answers with {n} networks", 20)

    def conf(self, type="multus", **more):
        return {"cniVersion": "1.0.0", "name": "multus-cni-network", "type": type, "agent": str(self.agent.socket),
                "clusterNetwork": "podnet", "cniDir": str(self.lab.tmp / "multus"), "binDir": str(REFERENCE),
                "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig", **more}

    def args(self, pod):
        meta = pod["metadata"]
        return (f"IgnoreUnknown=1;K8S_POD_NAMESPACE={meta['namespace']};K8S_POD_NAME={meta['name']};"
                f"K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID={meta['uid']}")

    def annotation(self, pod):
        meta = pod["metadata"]
        now = self.mine.ok("GET", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")
        return now["metadata"].get("annotations", {}).get(STATUS)

    def events(self, pod, reason):
        items = self.mine.ok("GET", f"/api/v1/namespaces/{pod['metadata']['namespace']}/events")["items"]
        return [e for e in items if e["involvedObject"].get("uid") == pod["metadata"]["uid"] and e["reason"] == reason]

    def warm(self, pod, *pools):
        """Allocates an address of each pool and releases it, so that the node has blocks of the pools; returns the addresses."""
        status, answer = self.agent.plan(pod, *pools, container="warm")
        assert status == 200, answer
        self.agent.release(pod, container="warm")
        return [r["ips"][0]["address"].split("/")[0] for r in answer["rails"]]

    def held(self, container):
        return self.agent.ok("POST", "/v1/unirail/pods/check", {"containerID": container})["rails"]

    def cache_entries(self):
        top = self.lab.tmp / "multus"  # its subdirectory `unirail` has records of networks, not cache entries
        return sorted(p.name for p in top.rglob("*") if p.is_file() and p.relative_to(top).parts[0] != "unirail")


@pytest.fixture
def node_with_agent(mine, nodes, team, lab, agent):
    return NodeWithAgent(mine, nodes, team, lab, agent)


def text_of(entries):
    """Formats the entries of the network-status annotation as Multus does."""
    return "[" + ",".join(json.dumps(e, indent=4).replace("<", "\\u003c").replace(">", "\\u003e") for e in entries) + "]"


def expected(pod, ifaces):
    entries = []
    for i, (name, dev, gateway) in enumerate(ifaces):
        found = link(pod.ns, dev)
        entries.append({"name": name, "interface": dev, "ips": addresses_of(pod.ns, dev), "mac": found["address"],
                        **({"default": True} if i == 0 else {}), "dns": {}, "gateway": [gateway]})
    return text_of(entries)


def addresses_of(ns, dev):
    return [a["address"].split("/")[0] for a in addresses(ns) if a["dev"] == dev]


@pytest.mark.parametrize("type", ["multus", "unirail-cni"])
def test_pod_gets_eight_rails(node_with_agent, type):
    """Links are up, the network-status is as Multus writes it, and one event is created; DEL succeeds without agent and API server."""
    w, lab = node_with_agent, node_with_agent.lab
    pod = w.pod(",".join(RAILS))
    w.networks(pod, 9)
    box, c = lab.pod(), w.conf(type)
    result = lab.add(c, box, ifname="eth0", args=w.args(pod))
    assert sorted(link_names(box.ns)) == sorted(["lo", "eth0"] + [f"net{i}" for i in range(1, 9)])
    for i in range(1, 9):
        assert ping(box.ns, f"net{i}", f"172.16.{i}.1")
        assert f"default via 172.16.{i}.1 dev net{i}" in routes(box.ns, 100 + i)
    assert ping(box.ns, "eth0", "10.233.70.1")
    assert len(w.held(box.id)) == 8
    text = wait(lambda: w.annotation(pod), "the pod's network-status is written")
    assert text == expected(box, [("kube-system/podnet", "eth0", "<nil>")] + [
        (f"{w.team}/rail{i}", f"net{i + 1}", f"172.16.{i + 1}.1") for i in range(8)])
    event, = wait(lambda: w.events(pod, "AddedInterface"), "an event AddedInterface is created for the pod")
    assert event["message"].startswith("Add eth0 [10.233.70.2/24] from kube-system/podnet, net1 [172.16.1.")
    assert event["message"].endswith(f"from {w.team}/rail7") and event["type"] == "Normal"
    names = {i["name"] for i in result["interfaces"] if i.get("sandbox")}
    assert len(names) == (1 if type == "multus" else 9)
    lab.ok("CHECK", {**c, "prevResult": result}, box, ifname="eth0", args=w.args(pod))

    w.agent.kill()
    w.mine.stop_apiserver()
    try:
        lab.delete({**c, "prevResult": result}, box, ifname="eth0", args=w.args(pod))
        assert link_names(box.ns) == ["lo"] and w.cache_entries() == [] and box.host_veth not in link_names(lab.node)
        lab.delete({**c, "prevResult": result}, box, ifname="eth0", args=w.args(pod))
    finally:
        w.mine.start_apiserver()
    w.agent.start()
    assert w.held(box.id) == []


@pytest.mark.parametrize("name", ["00-multus.conf", "10-unirail.conflist"])
def test_networks_of_the_examples_are_attached(node_with_agent, name):
    """A pod gets its networks with each CNI configuration of configs/cluster. In the configuration, the test replaces the paths of the
    directories and of the agent's socket, and removes the kubeconfig."""
    w, lab = node_with_agent, node_with_agent.lab
    example = json.loads((CONFIGS / "cluster" / name).read_text())
    plugin = {**example, **example.get("plugins", [{}])[0]}
    plugin.pop("plugins", None)
    plugin.pop("kubeconfig", None)
    folder = lab.tmp / "net.d"
    folder.mkdir()
    (folder / name).write_text((CONFIGS / "cluster" / name).read_text())
    (folder / "10-calico.conflist").write_text(json.dumps({**w.podnet(), "name": "k8s-pod-network"}))
    c = {**plugin, "agent": str(w.agent.socket), "confDir": str(folder), "binDir": str(REFERENCE),
         "cniDir": str(lab.tmp / "multus"), "runtimeConfig": {"portMappings": []}}
    pod, box = w.pod("rail0"), lab.pod()
    w.networks(pod, 2)
    lab.add(c, box, ifname="eth0", args=w.args(pod))
    assert [s["name"] for s in json.loads(wait(lambda: w.annotation(pod),
                                               "the pod's network-status is written"))] == ["k8s-pod-network", f"{w.team}/rail0"]
    lab.delete(c, box, ifname="eth0", args=w.args(pod))
    assert link_names(box.ns) == ["lo"] and w.cache_entries() == []


@contextlib.contextmanager
def without_server(w, *networks):
    """Stops the API server, runs ADD for two pods, and yields (pod, pod, [container, container]). At the end of the `with` block the API
    server is started again."""
    pods = [w.pod(n) for n in networks]
    for one in pods:
        w.networks(one, 2)
    w.warm(pods[0], *(n.split("@")[0] for n in networks))
    w.mine.stop_apiserver()
    boxes = [w.lab.pod("a"), w.lab.pod("b")]
    try:
        for box, one in zip(boxes, pods):
            w.lab.add(w.conf(), box, ifname="eth0", args=w.args(one))
        yield (*pods, boxes)
    finally:
        w.mine.start_apiserver()


def test_network_status_is_written_when_the_api_server_is_available_again(node_with_agent):
    """ADD uses the cached objects; the annotation is written later, but not for a deleted pod."""
    w, lab = node_with_agent, node_with_agent.lab
    with without_server(w, "rail0", "rail1@rdma0") as (pod, other, boxes):
        assert sorted(link_names(boxes[1].ns)) == ["eth0", "lo", "rdma0"]
    text = wait(lambda: w.annotation(pod), "the pod's network-status is written", 60)
    assert [s["name"] for s in json.loads(text)] == ["kube-system/podnet", f"{w.team}/rail0"]
    assert [s["interface"] for s in json.loads(wait(lambda: w.annotation(other),
                                                    "the other pod's network-status is written", 60))] == ["eth0", "rdma0"]
    w.nodes.remove_pod(other)
    wait(lambda: w.request_networks(other)[0] == 500, "the agent refuses the deleted pod")
    w.agent.request("POST", "/v1/unirail/pods/report", {
        "containerID": "x", "podNamespace": w.team, "podName": other["metadata"]["name"],
        "podUID": other["metadata"]["uid"], "networkStatus": "[]"})
    w.agent.wait_logged("the pod was deleted")
    for box, one in zip(boxes, (pod, other)):
        lab.delete(w.conf(), box, ifname="eth0", args=w.args(one))


def left(w):
    """Returns the IDs of the containers whose network-status is not written to the pod yet."""
    return sorted(p.name for p in (w.agent.state / "status").iterdir())


def test_network_status_is_written_by_the_successor_of_a_killed_agent(node_with_agent):
    """The agent is killed after it has answered the request for the pod's networks and before the plugin sends its report: the next
    agent writes the status."""
    w, lab = node_with_agent, node_with_agent.lab
    pod = w.pod()
    w.networks(pod, 1)
    folder = lab.tmp / "deadly"
    folder.mkdir()
    for p in REFERENCE.iterdir():
        (folder / p.name).symlink_to(p)
    (folder / "bridge").unlink()
    (folder / "bridge").write_text(f"#!/bin/sh\n[ $CNI_COMMAND = DEL ] || kill -9 {w.agent.process.pid}\n"
                                   f"exec {REFERENCE / 'bridge'}\n")
    (folder / "bridge").chmod(0o755)
    box, conf = lab.pod(), w.conf(binDir=str(folder))
    lab.add(conf, box, ifname="eth0", args=w.args(pod))
    w.agent.process.wait(10)
    assert left(w) == [box.id] and w.annotation(pod) is None
    w.agent.start()
    assert wait(lambda: w.annotation(pod),
                "the pod's network-status is written") == expected(box, [("kube-system/podnet", "eth0", "<nil>")])
    assert len(wait(lambda: w.events(pod, "AddedInterface"), "an event AddedInterface is created for the pod")) == 1
    wait(lambda: left(w) == [], "no report is left in the agent's state")
    lab.delete(conf, box, ifname="eth0", args=w.args(pod))


def test_unwritten_network_status_outlives_the_agent(node_with_agent):
    """The agent could not write the status while the API server was unavailable: the next agent writes it. The next agent drops the status
    of a deleted pod, and an old truncated file."""
    w, lab = node_with_agent, node_with_agent.lab
    with without_server(w, "rail0", "rail1") as (pod, other, boxes):
        assert w.agent.stop() == 0 and left(w) == sorted(b.id for b in boxes)
        assert w.agent.logged("will be written after the restart")[0]["pods"] == 2
    w.nodes.remove_pod(other)
    half, young = w.agent.state / "status" / "half", w.agent.state / "status" / "young"
    for f in (half, young):
        f.write_text('{"containerID":"h')
    os.utime(half, (1, 1))
    w.agent.start()
    text = wait(lambda: w.annotation(pod), "the pod's network-status is written")
    assert [s["name"] for s in json.loads(text)] == ["kube-system/podnet", f"{w.team}/rail0"]
    wait(lambda: left(w) == ["young"], "only the incomplete report 'young' is left")
    assert "half" in w.agent.logged("cannot recover a pod's network-status")[0]["file"]
    for box, one in zip(boxes, (pod, other)):
        lab.delete(w.conf(), box, ifname="eth0", args=w.args(one))


def test_network_status_of_another_pod_of_the_same_name_is_not_written(node_with_agent):
    """A StatefulSet recreates a pod under its name: a report about the former pod is not written to the new one."""
    w = node_with_agent
    pod = w.pod("rail0")
    w.networks(pod, 2)
    w.agent.ok("POST", "/v1/unirail/pods/report", {
        "containerID": "x", "podNamespace": w.team, "podName": pod["metadata"]["name"], "podUID": "another",
        "networkStatus": "[]"})
    w.agent.wait_logged("the pod was deleted")
    assert w.annotation(pod) is None


def test_static_pod_gets_its_networks(node_with_agent):
    """The UID that the API server has for a static pod's mirror pod is not the UID that the runtime passes."""
    w, lab = node_with_agent, node_with_agent.lab
    pod = w.pod("rail0", **{"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "hash"})
    w.networks(pod, 2)
    box, args = lab.pod(), w.args(pod).replace(pod["metadata"]["uid"], "hash")
    lab.add(w.conf(), box, ifname="eth0", args=args)
    assert [s["name"] for s in json.loads(wait(lambda: w.annotation(pod),
                                               "the static pod's network-status is written"))] == ["kube-system/podnet", f"{w.team}/rail0"]
    lab.delete(w.conf(), box, ifname="eth0", args=args)
    assert link_names(box.ns) == ["lo"] and w.held(box.id) == []


def test_networks_annotation_in_json_is_accepted(node_with_agent):
    w, lab = node_with_agent, node_with_agent.lab
    mine, = w.warm(w.pod(), "rail0")
    request_networks = [{"name": "rail0", "interface": "rdma0", "mac": "02:00:5e:10:00:07", "ips": [mine]},
           {"name": "rail1", "namespace": w.team, "default-route": ["172.16.2.1"]}, {"name": "rail0"}]
    pod = w.pod(json.dumps(request_networks))
    w.networks(pod, 4)
    box, c = lab.pod(), w.conf()
    lab.add(c, box, ifname="eth0", args=w.args(pod))
    assert sorted(link_names(box.ns)) == ["eth0", "lo", "net2", "net3", "rdma0"]
    assert link(box.ns, "rdma0")["address"] == "02:00:5e:10:00:07" and has_address(box.ns, "rdma0", f"{mine}/24")
    assert [r for r in routes(box.ns, "main") if r.startswith("default")] == ["default via 172.16.2.1 dev net2"]
    status = json.loads(wait(lambda: w.annotation(pod), "the pod's network-status is written"))
    assert [(s["name"], s["interface"]) for s in status] == [
        ("kube-system/podnet", "eth0"), (f"{w.team}/rail0", "rdma0"), (f"{w.team}/rail1", "net2"), (f"{w.team}/rail0", "net3")]
    lab.delete(c, box, ifname="eth0", args=w.args(pod))
    assert link_names(box.ns) == ["lo"] and w.held(box.id) == [] and w.cache_entries() == []


def test_default_networks_precede_requested_ones(node_with_agent):
    w = node_with_agent
    w.nad("kube-system", "more", w.rail("rail7"))
    names = lambda answer: [(n.get("nad", n["name"]), n.get("ifname")) for n in answer["networks"]]
    pod = w.pod("rail0")
    assert names(w.networks(pod, 3, defaultNetworks=["more"])) == [
        ("kube-system/podnet", None), ("kube-system/more", "net1"), (f"{w.team}/rail0", "net2")]
    assert names(w.networks(pod, 2, clusterNetwork="calico")) == [("calico", None), (f"{w.team}/rail0", "net1")]
    system = w.pod(ns="kube-system")
    assert names(w.networks(system, 1, defaultNetworks=["more"])) == [("kube-system/podnet", None)]
    first = w.pod(**{FIRST: f"{w.team}/rail3"})
    answer = w.networks(first, 1, netconfNetworks=1, clusterNetwork="")
    assert names(answer) == [(f"{w.team}/rail3", None)] and answer["replacesFirst"] is True
    assert answer["stateDir"] == str(w.agent.state) and answer["coordinator"]["mode"] == "auto"
    w.nodes.remove_pod(system)


def test_invalid_annotations_are_refused(node_with_agent):
    """Each invalid annotation causes an error of one line, and no network is attached."""
    w, lab = node_with_agent, node_with_agent.lab
    w.nad(w.team, "broken", '{"type":')
    w.nad(w.team, "list", "[]")
    w.nad("default", "shared", w.rail("rail0"))
    before = set(link_names(lab.node))

    def refused(contains, annotation, code=7, conf=None, args=None, pod=None):
        pod = pod or w.pod(annotation)
        box = lab.pod("r")
        wait(lambda: "read pod" not in w.request_networks(pod)[1].get("message", ""), "the agent knows the pod")
        e = lab.fail("ADD", {**w.conf(), **(conf or {})}, box, code, ifname="eth0", contains=contains, args=args or w.args(pod))
        assert link_names(box.ns) == ["lo"] and set(link_names(lab.node)) == before and w.cache_entries() == []
        return pod, e

    probe = w.pod("rail0,broken,list,default/shared")
    wait(lambda: "broken" in w.request_networks(probe)[1]["message"] and "cannot find" not in w.request_networks(probe)[1]["message"],
         "the agent knows all named networks and refuses network broken")
    name = lambda pod: f"pod '{w.team}/{pod['metadata']['name']}'"
    pod, e = refused([f"network '{w.team}/none' (annotation {NETWORKS})",
                      f"cannot find a network-attachment-definition (none) in namespace ({w.team})"], "rail0,none")
    assert name(pod) in e["msg"]
    event, = wait(lambda: w.events(pod, "NoNetworkFound"), "an event NoNetworkFound is created for the pod")
    assert event["type"] == "Warning" and "(none)" in event["message"]
    refused([f"network '{w.team}/broken'", "spec.config of the network-attachment-definition is not JSON"], "broken")
    refused([f"network '{w.team}/list'", "expected an object"], "list")
    refused(["interface 'net2' is used twice", "rail0", "rail1"], "rail0@net2,rail1")
    refused(["parsePodNetworkObjectName", "mismatch @ 'Rail0'"], "Rail0")
    isolated = {"namespaceIsolation": True, "globalNamespaces": "infra"}
    refused("namespace isolation enabled, annotation violates permission", "default/shared", conf=isolated)
    mixed = w.pod("rail0")
    refused(['expected pod UID "other" but got', mixed["metadata"]["uid"]], None, 11, pod=mixed,
            args=w.args(mixed).replace(mixed["metadata"]["uid"], "other"))
    missing = {"metadata": {"namespace": w.team, "name": "missing", "uid": "u"}}
    box = lab.pod("n")
    lab.fail("ADD", w.conf(), box, ifname="eth0", contains=f"pod '{w.team}/missing' does not exist", args=w.args(missing))
    assert w.agent.metrics() and link_names(box.ns) == ["lo"]
    status, answer = w.agent.request("POST", "/v1/unirail/pods/networks", {"podNamespace": "x", "podName": "y", "more": 1})
    assert status == 400 and "more" in answer["message"]
    status, answer = w.agent.request("POST", "/v1/unirail/pods/networks", {"podNamespace": "x"})
    assert status == 422 and "podName" in answer["message"]


def test_full_disk_fails_add_without_damage(node_with_agent):
    """The disk has no space for the agent's record: ADD fails without an allocated address or an attached network; the next ADD with
    space succeeds."""
    w, lab = node_with_agent, node_with_agent.lab
    pods = [w.pod("rail0,rail1") for _ in range(3)]
    for pod in pods:
        w.networks(pod, 3)
    w.warm(pods[0], "rail0", "rail1")
    w.agent.stop()
    saved = {f.name: f.read_bytes() for f in w.agent.state.iterdir() if f.is_file()}
    run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", w.agent.state])
    try:
        for name, data in saved.items():
            (w.agent.state / name).write_bytes(data)
        w.agent.start()
        boxes = [lab.pod(f"d{i}") for i in range(3)]
        lab.add(w.conf(), boxes[0], ifname="eth0", args=w.args(pods[0]))
        wait(lambda: w.annotation(pods[0]), "the first pod's network-status is written")
        before = set(link_names(lab.node))
        filler = w.agent.state / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
            while f.write(b"x" * 512):
                pass
        # The first requests may succeed, because the last page of the journal may still have space.
        for _ in range(200):
            status, answer = w.agent.plan(pods[2], "rail0", container="fill")
            if status != 200:
                break
            w.agent.request("POST", "/v1/unirail/pods/release", {"containerID": "fill"})
        assert status == 500 and answer["code"] == 5 and "No space left on device (ENOSPC)" in answer["message"], answer
        e = lab.fail("ADD", w.conf(), boxes[1], 5, ifname="eth0", contains=["No space left on device (ENOSPC)", "free space"], args=w.args(pods[1]))
        assert "\n" not in e["msg"].strip() and w.held(boxes[1].id) == []
        assert link_names(boxes[1].ns) == ["lo"] and set(link_names(lab.node)) == before
        filler.unlink()
        lab.add(w.conf(), boxes[1], ifname="eth0", args=w.args(pods[1]))
        assert len(wait(lambda: json.loads(w.annotation(pods[1])), "the second pod's network-status is written")) == 3
        for box, pod in zip(boxes, pods[:2]):
            lab.delete(w.conf(), box, ifname="eth0", args=w.args(pod))
            assert w.held(box.id) == []
        w.agent.stop()
    finally:
        w.agent.close()
        run(["umount", w.agent.state])


@pytest.fixture
def kubelet_node(mine, nodes, closing, tmp_path, monkeypatch):
    """An agent with its own /var/lib/kubelet, in its own mount namespace."""
    folder = tmp_path / "kubelet"
    (folder / "pod-resources").mkdir(parents=True)
    (folder / "device-plugins").mkdir()
    wrapper = tmp_path / "agent-in-its-own-var"
    wrapper.write_text(f"""#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && mount --bind {folder} /var/lib/kubelet && exec "$@"' sh {BINARY} "$@"
""")
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(daemons, "BINARY", wrapper)
    one = closing(Agent(tmp_path / "agent2", mine.admin_config(), "n1"))
    return one.start(), folder


def test_annotation_attaches_only_devices_allocated_to_the_pod(mine, nodes, team, lab, kubelet_node):
    """Attack: a tenant's annotation names the node's NIC, or another pod's VF."""
    agent, folder = kubelet_node
    w = NodeWithAgent(mine, nodes, team, lab, agent)
    w.nad(team, "any", {"type": "host-device", "capabilities": {"deviceID": True}})
    w.nad(team, "vf", {"type": "host-device", "capabilities": {"deviceID": True}}, "x/vf")
    pods = {net: w.pod(json.dumps([{"name": net, "deviceID": "0000:3b:00.0"}])) for net in ("any", "vf")}
    uid = {net: p["metadata"]["uid"] for net, p in pods.items()}

    def asked(net):
        answer = w.request_networks(pods[net])[1]
        element, = [n for n in answer["networks"] if n["name"] == net]
        return element.get("deviceID"), element.get("requestedDeviceID"), answer["warnings"]

    def allocated(entries):
        (folder / "device-plugins" / "kubelet_internal_checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": [
            {"PodUID": u, "ContainerName": "a", "ResourceName": r, "DeviceIDs": {"0": [i]}} for u, r, i in entries]}}))

    assert w.networks(pods["any"], 2)
    for entries in ([], [("other", "x/vf", "0000:3b:00.0")], [(u, "x/other", "0000:3b:00.1") for u in uid.values()]):
        allocated(entries)
        for net in pods:
            device, requested, warnings = asked(net)
            assert device is requested is None
            assert f"network '{team}/{net}': ignoring deviceID '0000:3b:00.0' of the pod's annotation" in warnings[0]
    allocated([(u, "x/vf", "0000:3b:00.0") for u in uid.values()])
    assert asked("any") == (None, "0000:3b:00.0", []) and asked("vf") == ("0000:3b:00.0", None, [])


def test_networks_get_the_allocated_devices(mine, nodes, team, lab, kubelet_node):
    """The devices are read from PodResources or, without it, from the kubelet's checkpoint: the n-th network of a resource gets the n-th
    device."""
    agent, folder = kubelet_node
    w = NodeWithAgent(mine, nodes, team, lab, agent)
    w.nad(team, "vf", {"type": "sriov"}, "x/vf")
    w.nad(team, "other", {"type": "sriov"}, "x/other")
    pod = w.pod("vf,rail0,vf,other,vf")
    meta = pod["metadata"]
    ids = lambda: [n.get("deviceID") for n in w.request_networks(pod)[1]["networks"]]
    assert w.networks(pod, 6) and ids() == [None] * 6
    warnings = w.request_networks(pod)[1]["warnings"]
    assert len(warnings) == 4 and "no device of resource 'x/vf' left" in warnings[0]
    (folder / "device-plugins" / "kubelet_internal_checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": [
        {"PodUID": meta["uid"], "ContainerName": "b", "ResourceName": "x/vf", "DeviceIDs": {"1": ["0000:5e:00.2"], "0": ["0000:3b:0a.1"]}},
        {"PodUID": meta["uid"], "ContainerName": "a", "ResourceName": "x/other", "DeviceIDs": ["gpu-1"]},
        {"PodUID": "other", "ContainerName": "a", "ResourceName": "x/vf", "DeviceIDs": ["0000:00:00.0"]},
    ], "RegisteredDevices": {}}, "Checksum": 1}))
    assert ids() == [None, "0000:3b:0a.1", None, "0000:5e:00.2", "gpu-1", None]
    answer = b"".join([podres_pod("other", meta["name"], container("c", devices("x/vf", ["0000:00:00.0"]))),
                       podres_pod(team, meta["name"], container("c", devices("x/vf", ["0000:5e:00.3"], 1), devices("x/other", ["gpu-2"])),
                                  container("d", devices("x/vf", ["0000:3b:02.7", "0000:3b:10.0"], 0)))])
    sock = folder / "pod-resources" / "kubelet.sock"
    with kubelet(str(sock), answer):
        assert ids() == [None, "0000:3b:02.7", None, "0000:3b:10.0", "gpu-2", "0000:5e:00.3"]
    calls = []

    def slow(context):
        calls.append(1)
        time.sleep(0.3)
        return answer

    with kubelet(str(sock), slow), concurrent.futures.ThreadPoolExecutor(24) as pool:
        others = [w.pod("vf") for _ in range(3)]
        wait(lambda: all(w.request_networks(p)[0] == 200 for p in others), "the agent returns the networks of each of the three other pods")
        calls.clear()
        got = list(pool.map(lambda i: w.request_networks(pod if i % 2 else others[i % 3]), range(24)))
    assert [s for s, _ in got] == [200] * 24 and len(calls) < 8, "the agent sends few requests at once: a kubelet refuses more than ten"
    for i, (_, a) in enumerate(got):
        assert [n.get("deviceID") for n in a["networks"]][1] == ("0000:3b:02.7" if i % 2 else None)
    if not sock.exists():
        sock.touch()
    status, answer = w.request_networks(pod)
    assert status == 500 and answer["code"] == 11 and "read its devices" in answer["message"], answer
    assert f"pod '{team}/{meta['name']}'" in answer["message"] and "kubelet" in answer["message"]
    assert w.networks(w.pod("rail0"), 2), "pods without device resources get their networks while the kubelet does not answer"
