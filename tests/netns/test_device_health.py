# SPDX-License-Identifier: Apache-2.0
"""When a link goes down, the agent reports the devices of that link as unhealthy, to the kubelet and to `unirail device list`. The agent
runs on a recorded host, in a network namespace where the PF's netdev is a real link; the kubelet is a Python server of grpc."""
import json
import pathlib
import signal
import subprocess

import pytest

import lab as labs
from kubelet import Kubelet
from report import follow, wait

HOSTS = pathlib.Path(__file__).parents[1] / "hosts"
PF = "ens1np0"
BDF = "0000:13:00.0"
DOWN = "the link is down or was down recently"
SHARED = {"configList": [{"resourceName": "hca", "rdmaHcaMax": 3, "selectors": {"ifNames": [PF]}},
                         {"resourceName": "other", "rdmaHcaMax": 3, "selectors": {"ifNames": ["ens2np0"]}}]}
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
"""
# Adds the namespace's links to the recorded /sys, which replaces the real one.
MOUNTS = """set -e
mount --bind /sys/class/net "$1/sys/class/net"
mount --rbind /sys/devices/virtual "$1/sys/devices/virtual"
mount --rbind "$1/sys" /sys
mount -t tmpfs tmpfs /run
shift
exec "$@"
"""


class Node:
    def __init__(self, tmp, ns):
        self.ns, self.root, self.plugins, self.log = ns, tmp / "host", tmp / "plugins", tmp / "log"
        subprocess.run([labs.BINARY, "doctor", "--root", HOSTS / "eight_rails.tree", "--unpack", self.root], check=True,
                       capture_output=True)
        (self.root / "sys/devices/virtual").mkdir(parents=True)
        self.plugins.mkdir()
        config = tmp / "config"
        config.mkdir()
        (config / "shared.json").write_text(json.dumps(SHARED))
        (tmp / "kubeconfig").write_text(KUBECONFIG)
        (tmp / "agent.conf").write_text("")
        self.socket = tmp / "agent.sock"
        self.args = [str(a) for a in (
            labs.BINARY, "agent", "--config", tmp / "agent.conf", "--node", "n", "--kubeconfig", tmp / "kubeconfig",
            "--socket", self.socket, "--state-dir", tmp / "state", "--health-port", 0, "--metrics-port", 0, "--nri", "no",
            "--cni-conf-name", "", "--device-plugin-dir", self.plugins, "--device-registry-dir", tmp / "none",
            "--device-config", config)]

    def start(self):
        follow("agent", self.log)
        with open(self.log, "w") as log:
            self.run = subprocess.Popen(["ip", "netns", "exec", self.ns, "sh", "-c", MOUNTS, "sh", str(self.root), *self.args],
                                        stdout=log, stderr=log)
        return self

    def listed(self):
        p = subprocess.run([labs.BINARY, "device", "list", "--root", self.root, "--agent", self.socket, "-o", "json"],
                           check=True, capture_output=True, text=True)
        return {d["address"]: (d["health"], d["healthReason"]) for d in json.loads(p.stdout) if "health" in d}

    def lines(self, *contains):
        return [x for x in self.log.read_text().splitlines() if all(w in x for w in contains)]

    def end(self):
        if self.run.poll() is None:
            self.run.send_signal(signal.SIGTERM)
            assert self.run.wait(10) == 0, self.log.read_text()


@pytest.fixture
def ns():
    name = labs.ns_add("node")
    yield name
    labs.ns_del(name)


@pytest.fixture(params=["veth", "macvlan"])
def node(request, ns, tmp_path):
    """The PF's netdev has a carrier while the link `cable` is up."""
    if request.param == "veth":
        labs.ip(ns, "link", "add", PF, "type", "veth", "peer", "name", "cable")
    else:
        labs.ip(ns, "link", "add", "cable", "type", "veth", "peer", "name", "far")
        labs.ip(ns, "link", "set", "far", "up")
        labs.ip(ns, "link", "add", "link", "cable", "name", PF, "type", "macvlan", "mode", "bridge")
    labs.ip(ns, "link", "set", "cable", "up")
    labs.ip(ns, "link", "set", PF, "up")
    one = Node(tmp_path, ns)
    yield one
    if hasattr(one, "run"):
        one.run.kill()
        one.run.wait()


def health(plugin):
    return {d[0] for d in plugin.devices().values()}


def test_devices_are_unhealthy_while_their_link_is_down(node):
    with Kubelet(node.plugins) as kubelet:
        node.start()
        hca, other = kubelet.plugin("rdma/hca"), kubelet.plugin("rdma/other")
        wait(lambda: health(hca) == {"Healthy"}, "all devices are healthy")
        assert node.listed()[BDF] == ("healthy", None)
        for link in ("cable", PF):
            labs.ip(node.ns, "link", "set", link, "down")
            wait(lambda: health(hca) == {"Unhealthy"}, f"all devices are unhealthy after {link} is down")
            assert node.listed()[BDF] == ("unhealthy", DOWN)
            assert node.lines(f"device {BDF}", "is unhealthy", DOWN)
            before = len(hca.lists)
            labs.ip(node.ns, "link", "set", link, "up")
            wait(lambda: health(hca) == {"Healthy"}, f"all devices are healthy after {link} is up")
            assert node.listed()[BDF] == ("healthy", None)
            assert len(hca.lists) == before + 1
        # The devices of other rails stay healthy, and the kubelet's stream stays open.
        assert health(other) == {"Healthy"} and not hca.ended.is_set()
        node.end()


def test_devices_of_a_flapping_link_stay_unhealthy(node):
    """After six losses of the link, each within ten minutes of the previous one, the devices stay unhealthy until the link has been up for
    64 s. Until then the kubelet gets no new list."""
    with Kubelet(node.plugins) as kubelet:
        node.start()
        hca = kubelet.plugin("rdma/hca")
        wait(lambda: health(hca) == {"Healthy"}, "all devices are healthy")
        for n in range(20):
            if n == 6:
                before = len(hca.lists)
            labs.ip(node.ns, "link", "set", "cable", "down")
            wait(lambda: health(hca) == {"Unhealthy"}, "all devices are unhealthy")
            labs.ip(node.ns, "link", "set", "cable", "up")
        assert len(hca.lists) == before and health(hca) == {"Unhealthy"}, hca.lists[before:]
        node.end()
