# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` as a process, the requests of a container runtime to it, and the objects that it needs."""
import contextlib
import json
import pathlib
import time
import uuid

import yaml

from cluster import Cluster, wait
from daemons import Daemon
from lab import UnixConnection
from report import wait_started

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
CRDS = [DEPLOY / "crd.yaml", *sorted((DEPLOY / "crds").glob("*.yaml"))]  # the kind of unirail; the kinds of Multus and Spiderpool
SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
BLOCKS = "/apis/unirail.io/v1/spideripblocks"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


def cluster_with_crds():
    """For a fixture: yields a cluster, and stops it when the fixture ends."""
    one = Cluster()
    install_crds(one)
    yield one
    one.close()


def install_crds(cluster, only=lambda name: True):
    for f in CRDS:
        crd = yaml.safe_load(f.read_text())
        if only(crd["metadata"]["name"]):
            cluster.request("POST", CRD_PATH, crd)
    for f in CRDS:
        crd = yaml.safe_load(f.read_text())
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        if only(crd["metadata"]["name"]):
            wait(lambda: cluster.request("GET", path)[0] == 200, f"the API server serves {path}")


class Agent(Daemon):
    """`unirail agent` for the node `node`, with its files in one directory."""

    def __init__(self, folder, kubeconfig, node, **env):
        super().__init__(f"agent {node}", folder, kubeconfig, NODE_NAME=node, **env)
        self.node, self.socket, self.state = node, self.folder / "sock", self.folder / "state"

    def start(self, *more, ready=True):
        (self.folder / "agent.conf").touch()
        self.launch("agent", "--config", self.folder / "agent.conf", "--socket", self.socket, "--state-dir", self.state,
                    "--hostlocal-dir", self.folder / "networks", "--cni-cache-dir", self.folder / "cni", *more)
        wait_started(self.process, self.answers, f"{self.title} answers on its socket", self.log)
        if ready:
            self.ready()
        return self

    def answers(self):
        with contextlib.suppress(OSError):
            return self.request("GET", "/v1/ipam/healthy")[0] == 200
        return False

    def request(self, method, target, body=None, timeout=60):
        c = UnixConnection(self.socket, timeout)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            c.request(method, target, None if body is None else json.dumps(body), headers)
            r = c.getresponse()
            text = r.read()
            return r.status, json.loads(text) if text else None
        finally:
            c.close()

    def ok(self, *args, **kw):
        status, answer = self.request(*args, **kw)
        assert status == 200, (status, answer, self.log.read_text()[-3000:])
        return answer

    # --- requests of a container runtime ---

    def add(self, pod, ifname="eth0", container=None, timeout=60, **more):
        """Sends the request of Spiderpool's plugin for one interface."""
        meta = pod["metadata"]
        return self.request("POST", "/v1/ipam/ip", {
            "containerID": container or meta["uid"][:12], "ifName": ifname, "netNamespace": "/var/run/netns/x",
            "podNamespace": meta["namespace"], "podName": meta["name"], "podUID": meta["uid"], **more},
            timeout=timeout)

    def delete(self, pod, ifname="eth0", container=None):
        meta = pod["metadata"]
        return self.ok("DELETE", "/v1/ipam/ip", {
            "containerID": container or meta["uid"][:12], "ifName": ifname, "netNamespace": "",
            "podNamespace": meta["namespace"], "podName": meta["name"], "podUID": meta["uid"]})

    def plan(self, pod, *pools, container=None, timeout=60, **more):
        """Sends the request of unirail's plugin for all rails."""
        meta = pod["metadata"]
        return self.request("POST", "/v1/unirail/pods/plan", {
            "containerID": container or meta["uid"][:12], "netNamespace": "/var/run/netns/x",
            "podNamespace": meta["namespace"], "podName": meta["name"], "podUID": meta["uid"],
            "rails": [{"ifName": f"net{i + 1}", "defaultIPv4IPPool": [p] if isinstance(p, str) else p}
                      for i, p in enumerate(pools)], **more}, timeout=timeout)

    def release(self, pod, container=None):
        return self.ok("POST", "/v1/unirail/pods/release",
                       {"containerID": container or pod["metadata"]["uid"][:12]})["released"]


def addresses(answer):
    """The addresses in an answer: {interface: address} for all rails, [address] for one interface."""
    if "rails" in answer:
        return {r["ifName"]: r["ips"][0]["address"].split("/")[0] for r in answer["rails"]}
    return [x["address"].split("/")[0] for x in answer["ips"]]


def by_name(agent, pod, pool, *ips):
    """Sends the request of unirail's plugin for these addresses of a pool."""
    meta = pod["metadata"]
    return agent.request("POST", "/v1/unirail/pods/plan", {
        "containerID": meta["uid"][:12], "netNamespace": "/var/run/netns/x", "podNamespace": meta["namespace"],
        "podName": meta["name"], "podUID": meta["uid"],
        "rails": [{"ifName": "net1", "defaultIPv4IPPool": [pool], "addresses": ips}]})


class Nodes:
    """Objects of one test module: nodes, pods, pools."""

    def __init__(self, cluster):
        self.cluster = cluster

    def node(self, name, **labels):
        self.cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        return self.cluster.ok("GET", f"/api/v1/nodes/{name}")

    def pod(self, ns, node, name=None, owner=None, annotations=None, labels=None):
        name = name or f"pod-{uuid.uuid4().hex[:8]}"
        meta = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
        if owner:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "uid": str(uuid.uuid4()), "controller": True,
                                        **owner}]
        return self.cluster.ok("POST", f"/api/v1/namespaces/{ns}/pods", {
            "metadata": meta, "spec": {"nodeName": node, "automountServiceAccountToken": False,
                                       "terminationGracePeriodSeconds": 0,
                                       "containers": [{"name": "c", "image": "i"}]}})

    def remove_pod(self, pod):
        meta = pod["metadata"]
        self.cluster.request("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                             {"gracePeriodSeconds": 0})

    def pool(self, name, subnet, ips=None, **spec):
        path = f"{SPIDER}/spiderippools"
        base = subnet.rsplit(".", 1)[0]
        self.cluster.request("DELETE", f"{path}/{name}")
        return self.cluster.ok("POST", path, {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
            "spec": {"subnet": subnet, "ips": ips or [f"{base}.10-{base}.250"], "gateway": f"{base}.1", **spec}})

    def blocks(self, pool=None):
        items = self.cluster.ok("GET", BLOCKS)["items"]
        return [b for b in items if pool in (None, b["spec"]["pool"])]

    def endpoint(self, ns, name):
        status, answer = self.cluster.request("GET", f"{SPIDER}/namespaces/{ns}/spiderendpoints/{name}")
        return answer if status == 200 else None


def elapsed(what):
    began = time.monotonic()
    got = what()
    return time.monotonic() - began, got
