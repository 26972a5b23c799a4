# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md and deploy/README.md in a new cluster, and checks which objects and files are left after the last one."""
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml
from test_networks import RAILS as EIGHT
from test_networks import agent, lab, link_names, mine, nodes, ping, pools, team, node_with_agent  # noqa: F401

import cluster as clusters
from cluster import BINARY, wait
from whole import BRIDGE, RAILS, Whole

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = "0-unirail.conflist"
SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions"
KINDS = ("/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
         "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
         "/apis/apps/v1/daemonsets", "/apis/apps/v1/deployments",
         "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")


def commands(file, section):
    """The commands of a section's first indented block, without comments."""
    text = re.search(rf"(?ms)^#+ {section}\n(.*?)(?=^#|\Z)", (TOP / file).read_text()).group(1)
    block = re.search(r"(?m)(^    .*\n)+", text).group(0)
    return [line.split(" #")[0].strip() for line in block.splitlines()]


def others_objects(cluster):
    """Creates objects of other programs, as a cluster has them before unirail is installed."""
    for name in ("team", "kube-system"):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    cluster.ok("POST", NADS.format("team"), {
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "theirs"},
        "spec": {"config": '{"cniVersion":"1.0.0","type":"bridge"}'}})
    cluster.ok("POST", f"{SPIDER}/spiderippools", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "theirs"},
        "spec": {"ipVersion": 4, "subnet": "10.9.0.0/24", "ips": ["10.9.0.5-10.9.0.9"]}})


def are_there(cluster):
    assert cluster.ok("GET", f"{NADS.format('team')}/theirs")["metadata"].get("deletionTimestamp") is None
    assert cluster.ok("GET", f"{SPIDER}/spiderippools/theirs")["metadata"].get("deletionTimestamp") is None


def names(cluster):
    return {(kind, o["metadata"]["name"]) for kind in KINDS for o in cluster.ok("GET", kind)["items"]
            if not o["metadata"].get("deletionTimestamp")}


def test_documented_deletion_leaves_objects_of_others(closing):
    one = closing(clusters.Cluster())
    one.kubectl("apply", "-f", TOP / "deploy/crds")
    wait(lambda: one.request("GET", f"{SPIDER}/spiderippools")[0] == 200 and one.request(
        "GET", NADS.format("default"))[0] == 200, "the API server serves the kinds")
    others_objects(one)
    before = names(one)
    install = [c for c in commands("deploy/README.md", "Install") if c.startswith("kubectl apply")]
    uninstall = [c for c in commands("deploy/README.md", "Uninstall") if c.endswith("-f deploy/")]
    assert len(install) == len(uninstall) == 1
    one.kubectl(*paths(install[0])[1:])
    assert len(names(one)) > len(before) + 6
    one.kubectl(*paths(uninstall[0])[1:], "--wait=false")  # no controller deletes namespaces here
    wait(lambda: names(one) == before, "only the objects of others are left")
    are_there(one)
    # The DaemonSet that removes the files runs only on nodes with its label, and without a service account's token.
    one.kubectl("apply", "-f", TOP / "deploy/uninstall")
    spec = one.ok("GET", "/apis/apps/v1/namespaces/unirail-uninstall/daemonsets/node")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"unirail.io/uninstall": "yes"} and spec["automountServiceAccountToken"] is False
    first, = spec["initContainers"]
    assert first["args"][:2] == ["install", "--uninstall"] and first["securityContext"]["capabilities"] == {
        "drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
    one.kubectl("delete", "--wait=false", "-f", TOP / "deploy/uninstall")
    wait(lambda: names(one) == before, "only the objects of others are left")


def test_manifests_printed_by_the_program_equal_those_of_deploy(closing, tmp_path):
    """Runs the commands of deploy/README.md unchanged: `unirail manifests` prints the objects that kubectl creates from the files of
    deploy/."""
    one = closing(clusters.Cluster())
    (tmp_path / "unirail").symlink_to(BINARY)
    (tmp_path / "values.yaml").write_text("ipam: {enableGatewayDetection: true}\n")

    def shell(command):
        p = subprocess.run(["sh", "-ec", command], cwd=tmp_path, capture_output=True, text=True, timeout=120, env={
            **os.environ, "PATH": f"{tmp_path}:{one.bin}:{os.environ['PATH']}", "KUBECONFIG": str(one.admin_config())})
        assert p.returncode == 0 and "error" not in p.stderr, (p.stdout, p.stderr)
        return p.stdout.splitlines()

    apply, write = re.findall(r"(?m)^    (unirail manifests .*)$", (TOP / "deploy/README.md").read_text())
    assert apply.endswith("| kubectl apply -f -")
    assert {line.split()[-1] for line in shell(apply)} <= {"created", "unchanged"}  # "unchanged": two files contain the same Namespace
    install, = [c for c in commands("deploy/README.md", "Install") if c.startswith("kubectl apply")]
    again = one.kubectl(*paths(install)[1:]).splitlines()
    assert len(again) > 20 and all(line.endswith(" unchanged") for line in again), again
    # The second documented command writes manifests with values.yaml, for namespace spiderpool.
    shell(write)
    shell("kubectl apply -f unirail.yaml")
    conf = one.ok("GET", "/api/v1/namespaces/spiderpool/configmaps/unirail-agent")["data"]["agent.conf"]
    assert "enable-ipv6 = no" in conf and "gateway-detection = yes" in conf
    assert one.ok("GET", "/apis/apps/v1/namespaces/spiderpool/daemonsets/unirail-agent")


def paths(command):
    """The arguments of a command, with paths of this source tree."""
    return [str(TOP / w) + ("/" if w.endswith("/") else "") if re.match("(deploy|configs|images|build)/", w) else w
            for w in shlex.split(command)]


def test_generated_configuration_attaches_a_pod(node_with_agent, closing):
    """The init container writes the configuration. The runtime selects it, since it is the first file of the directory, beside the files
    of two other CNIs."""
    w, lab = node_with_agent, node_with_agent.lab
    net_d = lab.tmp / "net.d"
    net_d.mkdir()
    (net_d / "10-podnet.conflist").write_text(json.dumps(w.podnet()))
    (net_d / "20-second.conf").write_text('{"cniVersion": "1.0.0", "name": "second", "type": "ptp"}')
    before = {p.name: p.read_bytes() for p in net_d.iterdir()}
    p = subprocess.run([BINARY, "install", "--cni-conf-dir", net_d, "--socket", w.agent.socket, lab.tmp / "bin"],
                       capture_output=True, text=True)
    assert p.returncode == 0 and p.stderr == "", p
    first = sorted(net_d.iterdir())[0]
    assert first.name == NAME
    whole = json.loads(first.read_text())
    plugin, = whole["plugins"]
    pod, box = w.pod(",".join(EIGHT)), lab.pod()
    w.networks(pod, 8, clusterNetwork=None, netconfNetworks=1)
    # The configuration as libcni passes it, with the directories of this test.
    conf = {**plugin, "cniVersion": whole["cniVersion"], "name": whole["name"], "cniDir": str(lab.tmp / "multus"),
            "binDir": "/usr/lib/cni"}
    conf.pop("capabilities", None)
    result = lab.add(conf, box, ifname="eth0", args=w.args(pod))
    assert sorted(link_names(box.ns)) == sorted(["lo", "eth0"] + [f"net{i}" for i in range(1, 9)])
    assert ping(box.ns, "eth0", "10.233.70.1") and ping(box.ns, "net8", "172.16.8.1")
    status = json.loads(wait(lambda: w.annotation(pod), "the pod's network-status is written"))
    assert status[0]["name"] == "podnet" and status[0]["default"], status[0]
    lab.delete({**conf, "prevResult": result}, box, ifname="eth0", args=w.args(pod))
    assert link_names(box.ns) == ["lo"]
    assert {p.name: p.read_bytes() for p in net_d.iterdir() if p.name != NAME} == before


# --- all steps on a node ---


SECOND = '{"cniVersion": "1.0.0", "name": "second", "type": "ptp"}\n'
MASTERS = dict(zip(("rail0", "rail1"), RAILS))


@pytest.fixture(scope="module")
def bare_cluster():
    """A cluster of one node that has two CNIs' configurations and no image of unirail."""
    one = Whole(files={"50-bridge.conflist": BRIDGE, "60-second.conf": SECOND}, images=("busybox",), deploy=False)
    yield one
    one.close()


class Steps:
    """Runs the commands of a document: those of ctr on the node, all others except make on the test's machine. Files of configs/cluster
    are edited for this cluster (two rails and their masters, an image that the node has)."""

    def __init__(self, whole):
        self.whole, self.folder = whole, whole.cluster.folder / "steps"
        self.folder.mkdir()

    def edited(self, path):
        text = (TOP / path).read_text()
        to = self.folder / pathlib.Path(path).name
        if to.name == "job.yaml":
            text = re.sub("image: .*", "image: registry.local/busybox:1", text)
        else:
            every = yaml.safe_load(text)
            every["items"] = [o for o in every["items"] if o["metadata"]["name"] in MASTERS]
            for o in every["items"]:
                if "macvlan" in o["spec"]:
                    o["spec"]["macvlan"]["master"] = [MASTERS[o["metadata"]["name"]]]
            text = yaml.safe_dump(every)
        to.write_text(text)
        return to

    def run(self, command):
        args = paths(re.sub(r"configs/cluster/\S+", lambda m: str(self.edited(m.group(0))), command))
        args = [str(self.folder / w) if w == "unirail.tar" else w for w in args]
        if args[0] == "ctr":
            self.whole.node.run(*args)
        elif args[0] == "kubectl":
            return self.whole.kubectl(*args[1:], timeout=300)
        elif args[0] != "make":  # make is not run: the test uses the existing binary
            args = [str(BINARY) if w == str(TOP / "build/unirail") else w for w in args]
            subprocess.run(args, check=True, cwd=TOP)


def node_files(whole):
    """{path: digest} of the CNI files on the node."""
    out = whole.node.run("sh", "-c", "cd / && find etc/cni/net.d opt/cni/bin ! -type d -exec sha256sum {} +").stdout
    return {line.split(None, 1)[1].strip(): line.split()[0] for line in out.splitlines()}


def test_documented_steps_install_use_and_uninstall(bare_cluster):
    """Install, a workload with its rails, uninstall; objects and files of other programs stay unchanged."""
    w, steps = bare_cluster, Steps(bare_cluster)
    info = w.cluster.ok("GET", "/api/v1/nodes/n1")["status"]["nodeInfo"]
    assert info["kubeletVersion"].startswith(f"v{clusters.KUBE}.") and info["containerRuntimeVersion"].startswith("containerd://"), info
    before = node_files(w)
    # The Node's status gets the capacity of extended resources, as with a device plugin.
    assert w.cluster.request("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": {
        f"spidernet.io/shared_{r}": "8" for r in MASTERS}}}, type="application/merge-patch+json")[0] == 200
    todo = commands("README.md", "In a cluster")
    assert any(c.startswith("ctr ") for c in todo) and any("rollout status" in c for c in todo)
    for command in todo:
        steps.run(command)
        if command.startswith("kubectl apply") and command.endswith("deploy/"):
            service = w.cluster.ok("GET", "/api/v1/namespaces/unirail/services/unirail-controller")
            w.net.address(service["spec"]["clusterIP"])  # no kube-proxy runs here
    candidate = json.loads(w.node.run("cat", f"/etc/cni/net.d/{NAME}").stdout)
    assert candidate["plugins"][0]["clusterNetwork"] == "/etc/cni/net.d/50-bridge.conflist"
    wait(lambda: [p["status"]["phase"] for p in w.pods("default", "app=rails")] == ["Succeeded"] * 2 or w.describe("default") and False,
         "both pods succeed",
         120)
    for p in w.pods("default", "app=rails"):
        output = w.kubectl("logs", p["metadata"]["name"])
        assert "inet 172.16.1." in output and "inet 172.16.2." in output and "inet 10.244.1." in output, output
    header = w.kubectl("get", "spideripblocks").splitlines()[0]
    assert header.split().count("NODE") == 1
    after = node_files(w)
    assert {k: v for k, v in after.items() if k in before} == before
    # The commands that uninstall unirail.
    others_objects(w.cluster)
    for command in commands("deploy/README.md", "Uninstall"):
        steps.run(command)
    assert node_files(w) == before
    assert w.node.run("sh", "-c", "for d in /var/lib/unirail /run/unirail /var/run/spidernet; do [ ! -e $d ] || ls -A $d; done").stdout == ""
    are_there(w.cluster)
    assert not [n for n in names(w.cluster) if "unirail" in n[1]]
    w.kubectl("run", "plain", "--image=registry.local/busybox:1", "--restart=Never", "--", "sleep", "1000")
    pod, = w.ready("default", "run=plain", 1)
    assert "net1" not in w.exec(pod, "ip", "address") and pod["status"]["podIP"].startswith("10.244.1.")
