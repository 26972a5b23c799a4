# SPDX-License-Identifier: Apache-2.0
"""Strangers at the ports of agent and controller: crowds of slow connections beside the requests of a kubelet.

Before: 40 connections that had begun a request and not ended it made every probe fail (503, or no answer at all).
"""
import contextlib
import random
import socket
import subprocess

import pytest
from h2_server import Pki
from hostile import MANY, ONE, ask, crowd, held, honest
from lab import BINARY, wait_for

KINDS = ["silent", "head", "body", "idle", "unread"]


def free_port():
    """Outside the range that connections are given, of which crowds leave thousands behind."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket(socket.AF_INET6) as s, contextlib.suppress(OSError):
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(("::", port))
            return port


class Daemon:
    """An agent or a controller whose API server is away: its ports answer all the same."""

    def __init__(self, folder, applet, *more):
        self.health, self.metrics, self.log = free_port(), free_port(), folder / "log"
        (folder / "none.conf").touch()
        conf = folder / "kubeconfig"
        conf.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', "
                        f"certificate-authority: '{Pki(folder / 'pki').ca}'}}}}]\n"
                        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
                        "current-context: c\n")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(a) for a in [
                "nice", "-n", "-10",
                BINARY, applet, "--kubeconfig", conf, "--config", folder / "none.conf", "--health-port", self.health,
                "--metrics-port", self.metrics, *more]], stderr=log, cwd=folder)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            wait_for(self.answers, "the daemon: " + self.log.read_text())
            stack.pop_all()

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return ask(self.health, "/healthz")[0] == 200

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def agent(tmp_path):
    one = Daemon(tmp_path, "agent", "--node", "n1", "--socket", tmp_path / "sock", "--state-dir", tmp_path / "state",
                 "--hostlocal-dir", tmp_path / "networks")
    yield one
    one.close()


@pytest.mark.parametrize("sources", [ONE, ["127.0.0.1"], MANY], ids=["one", "own", "many"])
@pytest.mark.parametrize("kind", KINDS)
def test_probes_beside_a_crowd(agent, kind, sources):
    """2,000 hostile connections a kind, from one address, from the kubelet's own, from 200."""
    before = held(agent.process.pid)
    with crowd(agent.health, kind, sources=sources):
        failed, worst = honest(1000, agent.health, "/healthz")
        after = held(agent.process.pid)
    assert (failed, worst < 1.0) == ([], True), f"{len(failed)} of 1,000 failed ({failed[:3]}), the longest took {worst:.2f} s"
    # 384 connections at most, and what one holds: 9 KiB of buffers and state; 256 KiB for the allocator.
    assert after[0] < before[0] + 384 * 9 + 256 and after[1] <= before[1] + 384, (before, after)
