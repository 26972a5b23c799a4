# SPDX-License-Identifier: Apache-2.0
"""The memlock limit, set by a container runtime with CDI and without NRI: the agent on a recorded host writes the hook into its CDI
specifications, a real kubelet names the devices, containerd runs the hook. The limit is low enough for root to set it without
CAP_SYS_RESOURCE, a capability that a CI machine may lack."""
import json
import pathlib
import subprocess

import pytest

from cluster import BINARY, OLD, die_with_parent, wait
from report import follow
from whole import BRIDGE, Whole

HOSTS = pathlib.Path(__file__).parents[1] / "hosts"
RESOURCE = "rdma/hca_shared"
SHARED = {"configList": [{"resourceName": "hca_shared", "resourcePrefix": "rdma", "rdmaHcaMax": 4, "selectors": {"ifNames": ["ens1np0"]}}]}
SPEC = "/var/run/cdi/nvidia.com_hca_shared.yaml"
# Mounts the recorded /sys over the node's /sys, for the agent only.
MOUNTS = 'mount --rbind "$1" /sys; shift; exec "$@"'
SETTINGS = "[agent]\nuse-cdi = yes\nmemlock-hook = {binary}\nrdma-memlock = {limit}\nnri = no\n"


@pytest.fixture(scope="module")
def whole():
    one = Whole({"50-bridge.conflist": BRIDGE}, images=("busybox",), deploy=False, cdi=True)
    wait(lambda: one.cluster.namespace("cdi"), "namespace cdi is created")
    yield one
    one.close()


def settings(whole, limit):
    new = whole.cluster.folder / "agent.conf.new"
    new.write_text(SETTINGS.format(binary=BINARY, limit=limit))
    new.rename(whole.cluster.folder / "agent.conf")


@pytest.fixture(scope="module")
def agent(whole):
    folder = whole.cluster.folder
    subprocess.run([BINARY, "doctor", "--root", HOSTS / "eight_rails.tree", "--unpack", folder / "host"], check=True,
                   capture_output=True)
    (folder / "devices").mkdir()
    (folder / "devices/config.json").write_text(json.dumps(SHARED))
    settings(whole, 1 << 20)
    args = ["nsenter", "-t", str(whole.node.pid()), "-m", "-p", "--", "unshare", "-m", "sh", "-ec", MOUNTS, "sh", folder / "host/sys",
            BINARY, "agent", "--config", folder / "agent.conf", "--node", whole.node.name, "--kubeconfig",
            whole.cluster.admin_config(), "--socket", folder / "agent.sock", "--state-dir", folder / "agent", "--health-port", "0",
            "--metrics-port", "0", "--cni-conf-name", "", "--device-config", folder / "devices"]
    follow("agent", folder / "agent.log")
    with open(folder / "agent.log", "w") as log:
        p = subprocess.Popen([str(a) for a in args], stdout=log, stderr=log, preexec_fn=die_with_parent)
    yield p
    p.kill()
    p.wait()


def spec(whole):
    return whole.node.run("cat", SPEC, check=False).stdout


def pod(whole, name):
    container = {"name": "c", "image": "registry.local/busybox:1", "command": ["sleep", "100000"],
                 "securityContext": {"runAsUser": 1000}, "resources": {"limits": {RESOURCE: 1}}}
    whole.apply("cdi", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [container]}})
    return whole.ready("cdi", f"app={name}", 1)[0]


def limit(whole, p):
    line, = [x for x in whole.exec(p, "cat", "/proc/1/limits").splitlines() if x.startswith("Max locked memory")]
    return line.split()[3:5]


def registered(whole):
    status = whole.cluster.ok("GET", f"/api/v1/nodes/{whole.node.name}")["status"]
    assert status["allocatable"].get(RESOURCE) == "4", (whole.cluster.folder / "agent.log").read_text()[-3000:]
    return True


def has_limit(whole, p, n):
    """Asserts that the container has device nodes and the limit n. On 1.20 it must have neither: a kubelet before 1.28 does not pass names
    of CDI devices to the runtime."""
    if OLD:
        assert whole.exec(p, "ls", "/dev/infiniband", check=False) == "" and limit(whole, p) != [str(n)] * 2
    else:
        assert {"uverbs0", "rdma_cm"} <= set(whole.exec(p, "ls", "/dev/infiniband").split())
        assert limit(whole, p) == [str(n)] * 2


def test_container_without_root_gets_the_memlock_limit(whole, agent):
    wait(lambda: registered(whole), "the node has four allocatable devices", 60)
    assert str(BINARY) in spec(whole)
    has_limit(whole, pod(whole, "first"), 1 << 20)


def test_changed_memlock_setting_applies_to_new_containers(whole, agent):
    settings(whole, 1 << 21)
    wait(lambda: str(1 << 21) in spec(whole), "the CDI specification has the new memlock limit")
    has_limit(whole, pod(whole, "second"), 1 << 21)
    settings(whole, "no")
    wait(lambda: "memlock-hook" not in spec(whole), "the CDI specification has no memlock hook")
    assert "uverbs0" in spec(whole)


def test_uninstall_removes_only_the_cdi_specifications_of_unirail(whole, agent):
    whole.node.run("pkill", "-TERM", "-f", "agent --config")
    assert agent.wait(20) == 0
    assert "uverbs0" in spec(whole)
    whole.node.run("sh", "-c", "echo 'kind: nvidia.com/net-rdma' >/var/run/cdi/other.yaml")
    whole.node.run(BINARY, "install", "--uninstall", "--socket", whole.cluster.folder / "agent.sock", "--cni-conf-dir",
                   "/etc/cni/net.d", "/opt/cni/bin")
    assert whole.node.run("ls", "/var/run/cdi").stdout.split() == ["other.yaml"]
