# SPDX-License-Identifier: Apache-2.0
"""`unirail migrate` on a real kubelet: Multus (built from its Go modules) attaches pods with Debian's plugins, and unirail detaches
them, for which it reads Multus' state files. After undo Multus detaches pods that unirail attached. Spiderpool's objects are the
original ones, but their containers run no program of Spiderpool."""
import json
import re
import subprocess

import pytest
import yaml

import image
from cluster import HERE, wait
from spiderpool import WORKLOADS, Spiderpool, running
from test_kubelet import NETWORKS, addresses, up, workload
from whole import BRIDGE, Whole

NET_D = "/etc/cni/net.d"
NAD = {"cniVersion": "1.0.0", "name": "rail1", "type": "macvlan", "master": "rail1", "mode": "bridge",
       "ipam": {"type": "host-local", "subnet": "172.16.1.0/24", "rangeStart": "172.16.1.50", "rangeEnd": "172.16.1.90"}}
STAY = b"#!/bin/sh\ntrap 'exit 0' TERM\nsleep 1000000 &\nwait\n"


def stand_in(busybox):
    """An image whose programs run until they get SIGTERM."""
    def fill(tar):
        for folder in ("bin", "home", "usr", "usr/bin", "tmp", "proc", "sys", "dev", "etc"):
            image.add(tar, folder)
        image.add(tar, "bin/busybox", busybox.read_bytes())
        for name in image.SHELL:
            image.add(tar, f"bin/{name}", link="busybox")
        for name in ("usr/bin/spiderpool-agent", "home/entrypoint.sh", "bin/stay"):
            image.add(tar, name, STAY)
    return image.made.image("registry.local/original:1", fill, Env=["PATH=/bin"], Cmd=["/bin/stay"])


class Migration:
    def __init__(self, whole, multus):
        self.whole, self.node, self.cluster = whole, whole.node, whole.cluster
        self.add_images()
        self.node.run("cp", multus, "/opt/cni/bin/multus")
        conf = {"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus", "kubeconfig": str(self.cluster.admin_config()),
                "clusterNetwork": f"{NET_D}/50-bridge.conflist", "confDir": NET_D, "binDir": "/opt/cni/bin",
                "capabilities": {"portMappings": True}}
        self.node.run("sh", "-c", f"cat >{NET_D}/.new && mv {NET_D}/.new {NET_D}/00-multus.conf", text=json.dumps(conf))
        Spiderpool(self.cluster, nodes=("n1",))
        self.cluster.ok("POST", "/apis/k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions", {
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "rail1"},
            "spec": {"config": json.dumps(NAD)}})
        self.originals(1)

    def add_images(self):
        path = self.node.folder / "original"
        path.write_bytes(stand_in(self.node.root / "bin/busybox"))
        ctr = ("ctr", "--namespace", "k8s.io", "images")
        self.node.run(*ctr, "import", path)
        for o in yaml.safe_load_all(WORKLOADS):
            for name in {c["image"] for c in o["spec"]["template"]["spec"]["containers"]}:
                self.node.run(*ctr, "tag", "--force", "registry.local/original:1", name)

    def originals(self, n):
        for name in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin", "spiderpool-controller"):
            running(self.cluster, name, n)

    def migrate(self, *args):
        p = self.cluster.unirail("migrate", *args, "--wait", "120s", timeout=400)
        assert p.returncode == 0, (p.stdout, p.stderr, self.whole.describe("unirail"))
        return p.stdout

    def files(self, path):
        return self.node.run("sh", "-c", f"[ ! -e {path} ] || ls {path}").stdout.split()

    def state(self):
        """The addresses of host-local as {address: container}, and the containers in Multus' files."""
        held = {ip: self.node.run("head", "-n", "1", f"/var/lib/cni/networks/rail1/{ip}").stdout.strip()
                for ip in self.files("/var/lib/cni/networks/rail1") if ip.startswith("172.")}
        return held, {name for name in self.files("/var/lib/cni/multus") if re.fullmatch("[0-9a-f]{64}", name)}

    def reach(self, pods):
        for p in pods:
            for other in pods:
                if p is not other:
                    self.whole.exec(p, "ping", "-c", "1", "-W", "5", "-I", "net1", addresses(other)["net1"])

    def delete(self, pod):
        meta = pod["metadata"]
        self.whole.kubectl("delete", "pod", "-n", "t", meta["name"])


@pytest.fixture(scope="module")
def node():
    # Builds Multus before the cluster's network namespace exists, since no program in that namespace can reach the Go module proxy.
    multus = subprocess.run([HERE / "fetch-multus"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    one = Whole(files={"50-bridge.conflist": BRIDGE}, deploy=False)
    try:
        yield Migration(one, multus)
    finally:
        one.close()


def test_pods_of_multus_migrate_and_return(node):
    w = node.whole
    w.apply("t", workload("Deployment", "job", 2, {NETWORKS: "rail1"}))
    old = up(w, "t", "job", 2)
    node.reach(old)
    held, records = node.state()
    assert set(held) == {addresses(p)["net1"] for p in old} and len(records) == 2
    node.migrate("apply")
    # The running pods, and the files of Multus and host-local about them, are unchanged.
    node.originals(0)
    running(node.cluster, "unirail-agent", 1)
    assert {p["metadata"]["uid"] for p in up(w, "t", "job", 2)} == {p["metadata"]["uid"] for p in old}
    assert node.state() == (held, records)
    assert "0-unirail.conflist" in node.files(NET_D) and "00-multus.conf" in node.files(NET_D)
    # unirail attaches a new pod with a free address, and detaches a pod that Multus attached.
    w.kubectl("scale", "-n", "t", "deployment/job", "--replicas=3")
    pods = up(w, "t", "job", 3)
    node.reach(pods)
    assert len({addresses(p)["net1"] for p in pods}) == 3
    node.delete(old[0])
    containers = {c for ip, c in held.items() if ip == addresses(old[0])["net1"]}
    wait(lambda: not containers & (set(node.state()[0].values()) | node.state()[1]),
         "the node has no state of the migrated containers", 60)
    new = [p for p in up(w, "t", "job", 3) if p["metadata"]["uid"] not in {o["metadata"]["uid"] for o in old}]
    assert len(new) == 2
    # After `unirail migrate undo`, Multus detaches pods that Multus or unirail attached, and attaches new ones.
    node.migrate("undo")
    node.originals(1)
    assert "0-unirail.conflist" not in node.files(NET_D) and "00-multus.conf" in node.files(NET_D)
    node.reach(up(w, "t", "job", 3))
    deleted = addresses(new[0])["net1"], addresses(old[1])["net1"]
    containers = {node.state()[0][ip] for ip in deleted}
    node.delete(new[0])
    node.delete(old[1])
    wait(lambda: not containers & (set(node.state()[0].values()) | node.state()[1]),
         "the node has no state of the migrated containers", 60)
    node.reach(up(w, "t", "job", 3))
    w.kubectl("delete", "-n", "t", "deployment/job")
    wait(lambda: not w.pods("t") and node.state() == ({}, set()), "no pods and no state of containers are left", 90)
    assert "master cni0" not in node.node.run("ip", "-o", "link", "show", "type", "veth").stdout
