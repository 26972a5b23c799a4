# SPDX-License-Identifier: Apache-2.0
"""Unauthorized clients at the agent's health and metrics ports: crowds of slow connections beside the requests of a kubelet.

In an earlier version, 40 connections that had begun a request and not ended it made every probe fail (503, or no answer at all).
"""
import contextlib
import os
import random
import socket
import subprocess

import pytest
from h2_server import Pki
from hostile import MANY, ONE, get, crowd, held, honest
from lab import BINARY
from report import follow, wait, wait_started

# KiB of private memory of the agent, whatever clients do; together with 1,700 KiB of mapped pages of the binary this is 4,000 KiB
OWN_MEMORY_MAX = 2300
KINDS = ["silent", "head", "body", "idle", "unread"]


def free_port():
    """A free port below the range of ephemeral ports, of which the attackers' connections leave thousands in use."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket(socket.AF_INET6) as s, contextlib.suppress(OSError):
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(("::", port))
            return port


class Daemon:
    """An agent or a controller without an API server: its ports answer nevertheless."""

    def __init__(self, folder, applet, *more):
        self.health, self.metrics, self.log = free_port(), free_port(), folder / "log"
        (folder / "none.conf").touch()
        conf = folder / "kubeconfig"
        conf.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', "
                        f"certificate-authority: '{Pki(folder / 'pki').ca}'}}}}]\n"
                        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
                        "current-context: c\n")
        follow(applet, self.log)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(a) for a in [
                "nice", "-n", "-10",
                BINARY, applet, "--kubeconfig", conf, "--config", folder / "none.conf", "--health-port", self.health,
                "--metrics-port", self.metrics, *more]], stderr=log, cwd=folder)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            wait_started(self.process, self.answers, f"the {applet} answers", self.log)
            stack.pop_all()

    def answers(self):
        with contextlib.suppress(OSError):
            return get(self.health, "/healthz")[0] == 200

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def agent(tmp_path):
    one = Daemon(tmp_path, "agent", "--node", "n1", "--socket", tmp_path / "sock", "--state-dir", tmp_path / "state",
                 "--hostlocal-dir", tmp_path / "networks")
    yield one
    one.close()


def beside(daemon, kind, sources, port, n, path):
    """n honest requests beside 2,000 hostile connections: each is answered within a second, and the agent uses less
    than OWN_MEMORY_MAX."""
    before = held(daemon.process.pid)
    with crowd(port, kind, sources=sources):
        # At first the 2,000 connections arrive at once, and the server may refuse a few honest requests with 503.
        wait(lambda: get(port, path)[0] == 200, f"{path} answers beside the hostile connections")
        failed, worst = honest(n, port, path)
        after = held(daemon.process.pid)
    assert (failed, worst < 1.0) == ([], True), f"{len(failed)} of {n} failed ({failed[:3]}), the longest took {worst:.2f} s"
    # The server has at most 384 connections, and 16 more that it is refusing.
    assert after[0] < OWN_MEMORY_MAX and after[1] <= before[1] + 400, (before, after)


@pytest.mark.parametrize("sources", [ONE, ["127.0.0.1"], MANY], ids=["one-address", "local-address", "many-addresses"])
@pytest.mark.parametrize("kind", KINDS)
def test_probes_are_answered_beside_2000_hostile_connections(agent, kind, sources):
    """2,000 hostile connections of each kind: from one address, from the kubelet's address, from 200 addresses."""
    beside(agent, kind, sources, agent.health, 1000, "/healthz")


@pytest.mark.parametrize("kind", ["heads", "byte", "chunk", "pipeline"])
def test_probes_are_answered_beside_connections_that_fill_buffers(agent, kind):
    """Each connection holds as much of the agent's memory as it can. In an earlier version, 384 requests without the last byte of
    their body blocked every probe, and heads of 16 KiB took 8 MB."""
    beside(agent, kind, MANY, agent.health, 1000, "/healthz")


def test_scrapes_are_answered_beside_clients_that_do_not_read(agent):
    """The clients request answers of many kilobytes and read none. In an earlier version, the agent held a copy of the answer for each
    connection."""
    beside(agent, "unread", MANY, agent.metrics, 300, "/metrics")


# In a separate network namespace, adds an address that is not a loopback address, and starts a daemon. The namespace ends with the daemon.
ELSEWHERE = "ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "


def test_remote_caller_of_the_health_port_gets_no_object_names(tmp_path):
    """The message of an agent that is not ready names objects and paths: only callers with a loopback address get this
    message."""
    (tmp_path / "none.conf").touch()
    conf = tmp_path / "kubeconfig"
    conf.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', "
                    f"certificate-authority: '{Pki(tmp_path / 'pki').ca}'}}}}]\n"
                    "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
                    "current-context: c\n")
    log = open(tmp_path / "log", "w")
    follow("agent", tmp_path / "log")
    agent = subprocess.Popen(["unshare", "-n", "sh", "-c", ELSEWHERE + '"$@"', "sh", *map(str, [
        BINARY, "agent", "--kubeconfig", conf, "--config", tmp_path / "none.conf", "--health-port", 7777, "--metrics-port", 0,
        "--health-listen", "0.0.0.0", "--node", "n1", "--socket", tmp_path / "sock", "--state-dir", tmp_path / "state",
        "--hostlocal-dir", tmp_path / "networks"])], cwd=tmp_path, stderr=log)

    def answer(address, path):
        r = subprocess.run(["nsenter", "-n", "-t", str(agent.pid), "curl", "-s", "--max-time", "5", "-w", " %{http_code}",
                            f"http://{address}:7777{path}"], capture_output=True, text=True)
        return r.stdout if r.returncode == 0 else ""
    try:
        wait(lambda: os.readlink(f"/proc/{agent.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "the agent is in its network namespace")
        wait(lambda: answer("127.0.0.1", "/healthz") == "ok\n 200", "the agent answers")
        reason = answer("127.0.0.1", "/readyz")
        assert reason.endswith(" 503") and "log has the reason" not in reason
        assert answer("192.0.2.1", "/readyz") == "not ready: the daemon's log has the reason\n 503"
        for path in ("/metrics", "/v1/ipam", "/" + "x" * 50, "//etc/passwd"):
            assert answer("192.0.2.1", path) == "unknown path: expected /healthz, /readyz or, on the metrics port, /metrics\n 404"
    finally:
        agent.kill()
        agent.wait()
