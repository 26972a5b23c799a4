# SPDX-License-Identifier: Apache-2.0
"""A complete cluster: API server, controller manager, scheduler, kubelets, and deploy/ applied by kubectl."""
import os
import subprocess

import yaml

import cluster as clusters
from audit import DEPLOY
from cluster import HERE, OLD, die_with_parent, free_port, wait
from managers import NO_HTTP, WORKLOADS, Manager
from node import IMAGES, Node, runtime
from ownnet import OwnNet

CLUSTER = ("serviceaccount", "root-ca-cert-publisher", "namespace", "endpointslice", "podgc", "nodelifecycle",
           *(["serviceaccount-token"] if OLD else []))  # older Kubernetes stored a pod's token in a Secret
CONFIGS = HERE.parent.parent / "configs" / "cluster"
HOSTS = HERE.parent / "hosts"
RAILS = ("rail1", "rail2")
NET_D = "cni/net.d/"
# The CNI configuration of the cluster's own network, with Debian's bridge plugin.
BRIDGE = """{"cniVersion": "1.0.0", "name": "k8s-pod-network", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
"""


class Whole:
    """Control plane and node n1 share a network namespace with the Services' addresses on its loopback; each further node has a separate
    network namespace. Rails, and the network of the nodes' eth0, are bridges in a namespace that stands for the fabric."""

    ADDRESS = "10.200.0.11"

    def __init__(self, files=None, images=IMAGES, deploy=True, nri=False, cdi=False, rails=RAILS, nodes=1, settings="", host=None, server=()):
        """files: {name: text} of the nodes' CNI configurations. deploy: whether unirail is installed. settings: more lines of agent.conf.
        host: name of the recording in tests/hosts whose /sys the agents see. server: more options of the API server."""
        self.files = files or {"50-bridge.conflist": BRIDGE,
                               "10-unirail.conflist": (CONFIGS / "10-unirail.conflist").read_text()}
        self.images, self.deploys, self.nri, self.cdi = images, deploy, nri, cdi
        self.rails, self.settings, self.host, self.server = rails, settings, host, server
        self.parts, self.nodes, self.scheduler, self.fabric, self.sites = [], [], None, None, []
        try:
            self.start(nodes)
        except BaseException:
            self.close()
            raise

    def start(self, nodes):
        # Fetches programs first: the cluster's network namespace has no route to the outside.
        clusters.programs(node=True)
        runtime(self.nri or self.cdi)
        self.net = self.part(OwnNet())
        self.fabric = self.namespace()
        self.lay_fabric()
        self.lay_cables(self.net.ip, 1)
        self.cluster = self.part(clusters.Cluster(443, (
            "--bind-address=0.0.0.0", "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=pki/ca.crt",
            "--kubelet-client-certificate=pki/admin.crt", "--kubelet-client-key=pki/admin.key", *self.server)))
        self.net.address("10.96.0.1")  # the address at which pods reach the API server
        self.part(Manager(self.cluster, controllers=WORKLOADS + CLUSTER))
        self.scheduler = self.cluster.spawn(
            "kube-scheduler", f"--kubeconfig={self.cluster.admin_config()}", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", "--leader-elect=false", "--authentication-skip-lookup=true", *NO_HTTP)
        self.node = self.join(1)
        if self.deploys:
            self.deploy()
        for n in range(2, nodes + 1):
            self.join(n)

    def join(self, n):
        """Starts node n. In the cluster's own network each node has a separate range of pod addresses."""
        net = None
        if n > 1:
            net = self.namespace().pid
            self.lay_cables(lambda *args: self.inside(net, *args), n)
            self.inside(net, "route", "add", "10.96.0.0/16", "via", self.ADDRESS)
        files = {NET_D + name: text.replace("10.244.1.", f"10.244.{n}.") for name, text in self.files.items()}
        self.nodes.append(self.part(Node(self.cluster, self.address(n), files, name=f"n{n}", images=self.images, nri=self.nri,
                                         cdi=self.cdi, net=net, server="https://10.96.0.1" if net else None)))
        return self.nodes[-1]

    def address(self, n):
        return f"10.200.0.{10 + n}"

    def part(self, one):
        self.parts.append(one)
        return one

    def namespace(self):
        """Starts a process in a new network namespace; returns the process."""
        process = subprocess.Popen(["unshare", "--net", "sleep", "1000000"], preexec_fn=die_with_parent)
        self.sites.append(process)
        own = os.readlink("/proc/thread-self/ns/net")
        wait(lambda: os.readlink(f"/proc/{process.pid}/ns/net") != own, "unshare has moved its process to a new network namespace")
        self.inside(process.pid, "link", "set", "lo", "up")
        return process

    @staticmethod
    def inside(pid, *args):
        return subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *args], check=True, capture_output=True, text=True).stdout

    def lay_fabric(self):
        for i, bridge in enumerate(("lan", *self.rails)):
            self.inside(self.fabric.pid, "link", "add", bridge, "type", "bridge")
            self.inside(self.fabric.pid, "link", "set", bridge, "up")
            if i:
                self.inside(self.fabric.pid, "addr", "add", f"172.16.{i}.1/24", "dev", bridge)

    def lay_cables(self, ip, n):
        """Connects node n to the fabric."""
        for i, bridge in enumerate(("lan", *self.rails)):
            name, port = bridge if i else "eth0", f"{bridge}-{n}"
            ip("link", "add", name, "type", "veth", "peer", "name", port, "netns", str(self.fabric.pid))
            ip("link", "set", name, "up")
            ip("addr", "add", f"172.16.{i}.{1 + n}/24" if i else f"{self.address(n)}/24", "dev", name)
            self.inside(self.fabric.pid, "link", "set", port, "up", "master", bridge)

    def configure(self, name):
        """Replaces unirail's CNI configuration on node n1 by the file `name` of configs/cluster; the configuration of the cluster's own
        network stays."""
        self.node.run("sh", "-c", f"cat >/etc/{NET_D}.new && rm -f /etc/{NET_D}[01]* && mv /etc/{NET_D}.new /etc/{NET_D}{name}",
                      text=(CONFIGS / name).read_text())

    def deploy(self):
        """Deploys unirail with agents that do not generate a CNI configuration; the nodes have the configurations of `files`, or of
        configure()."""
        self.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml", "-f", DEPLOY / "controller.yaml")
        self.kubectl("apply", "-f", "-", text=self.agent())
        service = self.cluster.ok("GET", "/api/v1/namespaces/unirail/services/unirail-controller")
        self.net.address(service["spec"]["clusterIP"])
        for app in ("unirail-agent", "unirail-controller"):
            self.ready("unirail", f"app.kubernetes.io/name={app}", 1)

    def agent(self):
        text = (DEPLOY / "agent.yaml").read_text()
        for old, new in (("value: 0-unirail.conflist", 'value: ""'), ("log-format = json\n", "log-format = json\n" + "".join(
                f"    {line}\n" for line in self.settings.splitlines()))):
            assert old in text
            text = text.replace(old, new)
        if not self.host:
            return text
        objects = list(yaml.safe_load_all(text))
        pod, = (o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet")
        pod["volumes"].append({"name": "host", "hostPath": {"path": str(self.unpack_host()), "type": "Directory"}})
        container, = pod["containers"]
        container["volumeMounts"].append({"name": "host", "mountPath": "/sys"})
        return yaml.safe_dump_all(objects)

    def unpack_host(self):
        """Unpacks the recorded host; returns its /sys, which has a directory on which cgroups can be mounted."""
        folder = self.cluster.folder / "host"
        subprocess.run([clusters.BINARY, "doctor", "--root", HOSTS / self.host, "--unpack", folder], check=True, capture_output=True)
        (folder / "sys/fs/cgroup").mkdir(parents=True)
        return folder / "sys"

    def kubectl(self, *args, text=None, check=True, timeout=120):
        r = subprocess.run([self.cluster.bin / "kubectl", "--kubeconfig", self.cluster.admin_config(), *map(str, args)],
                           input=text, capture_output=True, text=True, timeout=timeout)
        assert not check or r.returncode == 0, (args, r.stdout, r.stderr)
        return r.stdout

    def apply(self, ns, *objects):
        """Applies the objects, and retries until the API server accepts them: it may not reach a webhook yet."""
        text = yaml.safe_dump_all(objects)
        wait(lambda: self.kubectl("apply", "-n", ns, "-f", "-", text=text), "the API server admits the objects", 60, 0.5)

    def pods(self, ns, selector=""):
        return self.cluster.ok("GET", f"/api/v1/namespaces/{ns}/pods?labelSelector={selector.replace('=', '%3D')}")["items"]

    def ready(self, ns, selector, n, seconds=120):
        """Waits until exactly n pods are ready and returns them; a failure reports describe(ns)."""
        found = []

        def are():
            found[:] = [p for p in self.pods(ns, selector) if not p["metadata"].get("deletionTimestamp") and any(
                c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]
            return len(found) == n
        try:
            wait(are, f"{n} pods of {selector or ns} are ready", seconds, 0.3)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.describe(ns)}") from e
        return found

    def describe(self, ns):
        """Pods of the namespace, their last warnings, and the end of an agent's log."""
        events = self.cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]
        warnings = [f"{e['involvedObject']['name']}: {e['reason']}: {e['message']}" for e in events if e["type"] == "Warning"]
        pods = [(p["metadata"]["name"], p["status"].get("phase")) for p in self.pods(ns)]
        return [*pods, *warnings[-12:], self.kubectl("logs", "-n", "unirail", "--tail=15", "daemonset/unirail-agent", check=False)]

    def exec(self, pod, *args, check=True):
        meta = pod["metadata"]
        return self.kubectl("exec", "-n", meta["namespace"], meta["name"], "--", *args, check=check)

    def close(self):
        if self.scheduler:
            self.end(self.scheduler)
        for part in reversed(self.parts):
            part.close()
        for process in self.sites:
            self.end(process)

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
