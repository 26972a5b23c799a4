# SPDX-License-Identifier: Apache-2.0
"""The agent limits the RDMA objects of pods on a recorded host, whose control groups are ordinary directories and files. The test serves
the PodResources API by Python's grpc; the pod's UID comes from the API server."""
import json
import pathlib
import subprocess

import pytest

import agents
from cluster import BINARY, wait
from kubelet import Plugin, PodResources
from test_devices_api import event_messages

HOSTS = pathlib.Path(__file__).parents[1] / "hosts"
SHARED = {"configList": [{"resourceName": "all", "resourcePrefix": "rdma", "rdmaHcaMax": 3, "selectors": {"ifNames": ["ens1np0"]}}]}
LIMITS = ("--rdma-max-handles", "4", "--rdma-max-objects", "1000")
# In the agent's mount namespace, the recorded /sys replaces the real one, and /var/lib/kubelet has the test's PodResources socket.
MOUNTS = """set -e
mount --rbind "$1" /sys
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/kubelet/pod-resources
mount --bind "$2" /var/lib/kubelet/pod-resources
shift 2
exec "$@"
"""


class Node:
    def __init__(self, tmp, closing):
        self.root, self.registry = tmp / "host", tmp / "registry"
        self.config, self.sockets = tmp / "config", tmp / "podres"
        for folder in (self.registry, self.config, self.sockets):
            folder.mkdir()
        subprocess.run([BINARY, "doctor", "--root", HOSTS / "eight_rails.tree", "--unpack", self.root], check=True, capture_output=True)
        (self.config / "shared.json").write_text(json.dumps(SHARED))
        self.cgroup = self.root / "sys/fs/cgroup"
        self.cgroup.mkdir(parents=True)
        self.pods = closing(PodResources(self.sockets / "kubelet.sock"))
        self.args = ("--device-registry-dir", self.registry, "--device-config", self.config, "--cni-conf-name", "", "--nri", "no")
        self.before = ("unshare", "-m", "sh", "-c", MOUNTS, "sh", self.root / "sys", self.sockets)

    def group(self, uid, devices=("mlx5_0",)):
        folder = self.cgroup / f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        folder.mkdir(parents=True)
        (folder / "rdma.max").write_text("".join(f"{d} hca_handle=max hca_object=max\n" for d in devices))
        return folder / "rdma.max"


@pytest.fixture
def node(tmp_path, closing):
    return Node(tmp_path, closing)


@pytest.fixture
def agent(mine, nodes, node, tmp_path, closing):
    def start(*args):
        one = closing(agents.Agent(tmp_path / "agent", mine.admin_config(), "n1"))
        one.before = node.before
        return one.start(*node.args, *args)
    return start


def test_pod_has_its_limit_after_allocate(mine, nodes, agent, node, closing):
    (node.cgroup / "cgroup.controllers").write_text("cpu io rdma\n")
    a = agent(*LIMITS)
    wait((node.registry / "all.sock").exists, "the resource's socket is in the registry")
    plugin = closing(Plugin(node.registry / "all.sock"))
    plugin.watch().devices()
    uid = nodes.pod("t", "n1", "limited")["metadata"]["uid"]
    plugin.allocate(["0", "1"])
    node.pods.pods = {"limited": {"c": {"rdma/all": ["0", "1"]}}}
    file = node.group(uid)
    wait(lambda: file.read_text() == "mlx5_0 hca_handle=8 hca_object=2000", "the pod's control group has its limit")
    assert a.logged("set the limits of an RDMA device")
    asked = node.pods.requests
    # A restarted agent also limits a pod that was created before the start.
    a.stop()
    file.write_text("mlx5_0 hca_handle=max hca_object=max\n")
    agent(*LIMITS)
    wait(lambda: file.read_text() == "mlx5_0 hca_handle=8 hca_object=2000", "the pod's control group has its limit again")
    assert node.pods.requests > asked and not event_messages(mine, "cannot limit")


def test_kernel_without_the_rdma_controller_is_reported(mine, nodes, agent, node):
    (node.cgroup / "cgroup.controllers").write_text("cpu io\n")
    file = node.group(nodes.pod("t", "n1", "unlimited")["metadata"]["uid"])
    node.pods.pods = {"unlimited": {"c": {"rdma/all": ["0"]}}}
    agent(*LIMITS)
    wait(lambda: event_messages(mine, "the cgroup controller rdma is not mounted"), "an event reports the missing cgroup controller")
    assert len(event_messages(mine, "use a kernel with CONFIG_CGROUP_RDMA")) == 1
    assert file.read_text() == "mlx5_0 hca_handle=max hca_object=max\n"


def test_agent_without_rdma_limits_sends_no_request_to_the_kubelet(nodes, agent, node):
    (node.cgroup / "cgroup.controllers").write_text("cpu io rdma\n")
    file = node.group(nodes.pod("t", "n1", "free")["metadata"]["uid"])
    node.pods.pods = {"free": {"c": {"rdma/all": ["0"]}}}
    a = agent()
    wait((node.registry / "all.sock").exists, "the resource's socket is in the registry")
    a.ready()
    assert node.pods.requests == 0 and file.read_text() == "mlx5_0 hca_handle=max hca_object=max\n"


def test_kernel_without_rdma_netlink_is_logged_once(mine, nodes, agent, node):
    """The machine's kernel has no RDMA netlink: the agent logs one line and creates no event, although the container (its start is in
    the pod's status) has run longer than --queue-pair-wait."""
    pod = nodes.pod("t", "n1", "idle")["metadata"]
    node.pods.pods = {"idle": {"c": {"rdma/all": ["0"]}}}
    status = {"phase": "Running", "containerStatuses": [{
        "name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "containerID": "containerd://5f2b",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{pod['name']}/status", {"status": status}, type="application/merge-patch+json")
    a = agent("--queue-pair-wait", "1s")
    a.wait_logged("cannot inspect queue pairs of containers")
    asked = node.pods.requests
    wait(lambda: node.pods.requests > asked + 2, "the agent sends more requests to PodResources")
    line, = a.logged("cannot inspect queue pairs of containers")
    assert "EPROTONOSUPPORT" in str(line)
    events = mine.ok("GET", "/api/v1/namespaces/t/events")["items"]
    assert not [e for e in events if e["reason"] == "NoQueuePair"]
