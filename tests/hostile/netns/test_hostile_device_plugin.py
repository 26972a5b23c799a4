# SPDX-License-Identifier: Apache-2.0
"""Hostile local processes at a device plugin's socket: the kubelet's stream stays open, its calls are answered, and the device
plugin uses little memory."""
import contextlib
import json
import pathlib
import signal
import subprocess
import sys

import pytest

import lab as labs  # conftest.py adds tests/netns to sys.path
from kubelet import Kubelet
from report import follow, wait

HERE = pathlib.Path(__file__).resolve().parent
RESOURCE = {"configList": [{"resourceName": "hca", "rdmaHcaMax": 500, "selectors": {"ifNames": ["ens1np0"]}}]}
CONNS_MAX = 32  # GRPC_LIMITS_INIT
MEMORY_MAX = 24 << 10  # KiB; 4 MiB of incomplete requests is the ceiling of one connection


@pytest.fixture
def plugin(tmp_path):
    root, sockets, log = tmp_path / "host", tmp_path / "plugins", tmp_path / "log"
    subprocess.run([labs.BINARY, "doctor", "--root", HERE.parents[1] / "hosts/eight_rails.tree", "--unpack", root], check=True,
                   capture_output=True)
    sockets.mkdir()
    (root / "conf.json").write_text(json.dumps(RESOURCE))
    follow("device-plugin", log)
    with open(log, "w") as text:
        run = subprocess.Popen(["unshare", "-n", labs.BINARY, "device-plugin", "--root", root, "--plugins-dir", sockets,
                                "--registry-dir", "", "/conf.json"], stdout=text, stderr=text)
    run.log, run.sockets = log, sockets
    yield run
    run.kill()
    run.wait()


@contextlib.contextmanager
def crowd(path, kind, n):
    p = subprocess.Popen([sys.executable, HERE.parent / "attack_unix.py", path, kind, str(n)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        yield
        assert p.poll() is None
    finally:
        p.kill()
        p.wait()
        p.stdin.close()
        p.stdout.close()


def memory(run):
    text = pathlib.Path(f"/proc/{run.pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))


def descriptors(run):
    return len(list(pathlib.Path(f"/proc/{run.pid}/fd").iterdir()))


@pytest.mark.parametrize("kind, n", [("silent", 3000), ("slow", 500), ("huge", 100), ("unknown", 100), ("padding", 100),
                                     ("pings", 100), ("half", 300)])
def test_kubelet_is_served_beside_many_hostile_connections(plugin, kind, n):
    with Kubelet(plugin.sockets) as kubelet:
        hca = kubelet.plugin("rdma/hca")
        assert len(hca.devices()) == 500
        before = descriptors(plugin)
        with crowd(plugin.sockets / "hca.sock", kind, n):
            for i in range(30):
                assert hca.allocate([str(i)])[0]["devices"]
                assert descriptors(plugin) <= before + CONNS_MAX
            assert memory(plugin) <= MEMORY_MAX
        assert not hca.ended.is_set() and len(hca.devices()) == 500
        wait(lambda: descriptors(plugin) <= before + 1, "the plugin closes the hostile connections")
        # The plugin has not registered again.
        assert len(kubelet.requests) == 1
        plugin.send_signal(signal.SIGTERM)
        assert plugin.wait(10) == 0, plugin.log.read_text()
