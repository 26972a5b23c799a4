# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node as its users have it: API server, controllers, scheduler, kubelet, and deploy/ applied by kubectl."""
import os
import subprocess

import yaml

import cluster as clusters
from audit import DEPLOY
from cluster import HERE, OLD, die_with_parent, free_port, wait
from managers import NO_HTTP, WORKLOADS, Manager
from node import IMAGES, Node
from ownnet import OwnNet

CLUSTER = ("serviceaccount", "root-ca-cert-publisher", "namespace", "endpointslice", "podgc", "nodelifecycle",
           *(["serviceaccount-token"] if OLD else []))  # older Kubernetes stored a pod's token in a Secret
CONFIGS = HERE.parent.parent / "configs" / "cluster"
RAILS = ("rail1", "rail2")
NET_D = "cni/net.d/"
# Of the cluster's own network: Debian's bridge plugin.
BRIDGE = """{"cniVersion": "1.0.0", "name": "k8s-pod-network", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
"""


class Whole:
    """All of it in one network namespace; Services' addresses are on its loopback, rails lead to a fabric in another."""

    ADDRESS = "10.200.0.11"

    def __init__(self, files=None, images=IMAGES, deploy=True, nri=False, cdi=False):
        """files: {name: text} of the node's CNI configurations; with deploy=False nothing of unirail is there yet."""
        self.files = files or {"50-bridge.conflist": BRIDGE,
                               "10-unirail.conflist": (CONFIGS / "10-unirail.conflist").read_text()}
        self.images, self.deploys, self.nri, self.cdi = images, deploy, nri, cdi
        self.parts, self.scheduler, self.fabric = [], None, None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        clusters.programs(node=True)
        self.net = self.part(OwnNet())
        self.lay_cables()
        self.cluster = self.part(clusters.Cluster(443, (
            "--bind-address=0.0.0.0", "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=pki/ca.crt",
            "--kubelet-client-certificate=pki/admin.crt", "--kubelet-client-key=pki/admin.key")))
        self.net.address("10.96.0.1")  # where pods look for the API server
        self.part(Manager(self.cluster, controllers=WORKLOADS + CLUSTER))
        self.scheduler = self.cluster.spawn(
            "kube-scheduler", f"--kubeconfig={self.cluster.admin_config()}", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", "--leader-elect=false", "--authentication-skip-lookup=true", *NO_HTTP)
        self.node = self.part(Node(self.cluster, self.ADDRESS, {NET_D + name: text for name, text in self.files.items()},
                                   images=self.images, nri=self.nri, cdi=self.cdi))
        if self.deploys:
            self.deploy()

    def part(self, one):
        self.parts.append(one)
        return one

    def lay_cables(self):
        ip = self.net.ip
        ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0-peer")
        ip("link", "set", "eth0-peer", "up")
        ip("link", "set", "eth0", "up")
        ip("addr", "add", f"{self.ADDRESS}/24", "dev", "eth0")
        self.fabric = subprocess.Popen(["unshare", "--net", "sleep", "1000000"], preexec_fn=die_with_parent)
        mine = os.readlink("/proc/thread-self/ns/net")
        wait(lambda: os.readlink(f"/proc/{self.fabric.pid}/ns/net") != mine)
        there = lambda *args: subprocess.run(["nsenter", "-t", str(self.fabric.pid), "-n", "ip", *args], check=True)
        for i, rail in enumerate(RAILS, 1):
            ip("link", "add", rail, "type", "veth", "peer", "name", f"sw{i}", "netns", str(self.fabric.pid))
            ip("link", "set", rail, "up")
            ip("addr", "add", f"172.16.{i}.2/24", "dev", rail)
            there("link", "set", f"sw{i}", "up")
            there("addr", "add", f"172.16.{i}.1/24", "dev", f"sw{i}")

    def configure(self, name):
        """The node's CNI configuration from now on: this file of configs/, beside the cluster's own network."""
        self.node.run("sh", "-c", f"cat >/etc/{NET_D}.new && rm -f /etc/{NET_D}[01]* && mv /etc/{NET_D}.new /etc/{NET_D}{name}",
                      text=(CONFIGS / name).read_text())

    def deploy(self):
        """With the CNI configuration written by hand: configure()."""
        self.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml", "-f", DEPLOY / "controller.yaml")
        agent = (DEPLOY / "agent.yaml").read_text()
        assert "value: 0-unirail.conflist" in agent
        self.kubectl("apply", "-f", "-", text=agent.replace("value: 0-unirail.conflist", 'value: ""'))
        service = self.cluster.ok("GET", "/api/v1/namespaces/unirail/services/unirail-controller")
        self.net.address(service["spec"]["clusterIP"])
        for app in ("unirail-agent", "unirail-controller"):
            self.ready("unirail", f"app.kubernetes.io/name={app}", 1)

    def kubectl(self, *args, text=None, check=True, timeout=120):
        r = subprocess.run([self.cluster.bin / "kubectl", "--kubeconfig", self.cluster.admin_config(), *map(str, args)],
                           input=text, capture_output=True, text=True, timeout=timeout)
        assert not check or r.returncode == 0, (args, r.stdout, r.stderr)
        return r.stdout

    def apply(self, ns, *objects):
        """Until it is taken: a webhook may not be known to the API server yet."""
        text = yaml.safe_dump_all(objects)
        wait(lambda: self.kubectl("apply", "-n", ns, "-f", "-", text=text), 60, 0.5)

    def pods(self, ns, selector=""):
        return self.cluster.ok("GET", f"/api/v1/namespaces/{ns}/pods?labelSelector={selector.replace('=', '%3D')}")["items"]

    def ready(self, ns, selector, n, seconds=120):
        """The n pods that are ready, when there are; else why not."""
        found = []

        def are():
            found[:] = [p for p in self.pods(ns, selector) if not p["metadata"].get("deletionTimestamp") and any(
                c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]
            return len(found) == n
        try:
            wait(are, seconds, 0.3)
        except AssertionError as e:
            raise AssertionError(self.why(ns)) from e
        return found

    def why(self, ns):
        events = self.cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]
        said = [f"{e['involvedObject']['name']}: {e['reason']}: {e['message']}" for e in events if e["type"] == "Warning"]
        pods = [(p["metadata"]["name"], p["status"].get("phase")) for p in self.pods(ns)]
        return [*pods, *said[-12:], self.node.tail("init.log", 500),
                self.kubectl("logs", "-n", "unirail", "--tail=15", "daemonset/unirail-agent", check=False)]

    def exec(self, pod, *args, check=True):
        meta = pod["metadata"]
        return self.kubectl("exec", "-n", meta["namespace"], meta["name"], "--", *args, check=check)

    def close(self):
        for process in filter(None, (self.scheduler, self.fabric)):
            process.kill()
            process.wait()
        for part in reversed(self.parts):
            part.close()
