# SPDX-License-Identifier: Apache-2.0
"""`unirail verify` with an unsuitable peer, and without RDMA. tests/vm tests `unirail verify` with RDMA."""
import contextlib
import itertools
import json
import signal
import socket
import subprocess

import pytest
from lab import BINARY

HELLO = (b"unirail-verify/1 hello op=write size=64 depth=4 ethernet=1 qpn=17 psn=1 mtu=1024 reads=1 rkey=1 addr=1 "
         b"len=4096 gid=00000000000000000000ffff7f000001 at=127.0.0.9\n")


@contextlib.contextmanager
def server(*options):
    """A `unirail verify` server on a port that the kernel has just reported as free."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    p = subprocess.Popen([BINARY, "verify", "--listen", f"127.0.0.1:{port}", *options], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert p.stderr.readline() == f"listening on port {port}\n"
        yield p, port
    finally:
        p.kill()
        p.communicate()


def say(port, data):
    """Sends these bytes and returns the server's whole response."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return s.makefile("rb").read().decode()


@pytest.mark.parametrize("data, contains", [
    (b"GET / HTTP/1.1\r\n\r\n", "the peer is not 'unirail verify'"),
    (b"\n", "the peer is not 'unirail verify'"),
    (b"unirail-verify/2 hello\n", "version 2 of the protocol, this side 1: use the same version of unirail"),
    (b"unirail-verify/1 step step=check\n", "the peer sent 'step', expected 'hello'"),
    (b"unirail-verify/1  hello\n", "sent an unknown message"),
    (b"unirail-verify/1 hello size=x\n", "the peer sent an invalid value of 'size': 'x'"),
    ((b"unirail-verify/1 hello " + b"k=v " * 1000)[:1024], "longer than 1024 bytes"),
    (HELLO.replace(b"size=64", b"size=4294967295"), "4 messages of 4294967295 bytes exceeds the limits"),
    (HELLO.replace(b"size=64 ", b""), "of 0 bytes exceeds the limits"),
    (HELLO.replace(b"depth=4", b"depth=65"), "65 messages of 64 bytes exceeds the limits"),
    (HELLO.replace(b"op=write", b"op=atomic"), "a test by 'atomic'"),
    (HELLO, "RDMA"),
], ids=itertools.count())
def test_message_that_the_server_cannot_serve_is_refused(data, contains):
    with server() as (p, port):
        for _ in range(2):
            answer = say(port, data)
            assert answer.startswith("unirail-verify/1 fail text=") and contains in answer
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=10)
        assert p.returncode == 0 and err.count(contains) == 2 and err.count("\n") == 2


def test_connection_without_a_request_is_ignored():
    """A connection without data, e.g. of a port scan, is not an error, and a server with --once still waits for its one test."""
    with server("--once") as (p, port):
        assert say(port, b"") == ""
        assert p.poll() is None
        assert "fail" in say(port, HELLO)
        out, err = p.communicate(timeout=10)
        assert p.returncode == 1 and out == "" and err.startswith("unirail verify: 127.0.0.1: ")


def test_server_answers_the_request_for_rails():
    with server() as (_, port):
        assert say(port, b"unirail-verify/1 rails\n").endswith("unirail-verify/1 done\n")


def client(*args):
    return subprocess.run([BINARY, "verify", *args], capture_output=True, text=True, timeout=60)


def test_missing_server_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    p = client(f"127.0.0.1:{port}")
    assert p.returncode == 1 and p.stdout == ""
    assert p.stderr == (f"unirail verify: connect to '127.0.0.1' port {port} (is 'unirail verify --listen' running "
                        "there?): Connection refused (ECONNREFUSED)\n")


def test_missing_device_is_reported_as_json():
    with server() as (_, port):
        p = client(f"127.0.0.1:{port}", "-o", "json")
    outcome = json.loads(p.stdout)
    assert p.returncode == 1 and p.stderr == ""
    assert not outcome["ok"] and "RDMA" in outcome["rails"][0]["error"]


@pytest.mark.parametrize("args, says", [
    ([], "no peer given"),
    (["--listen", "--send"], "has no test options"),
    (["--once", "127.0.0.1"], "--once needs --listen"),
    (["--send", "--read", "127.0.0.1"], "exclude each other"),
    (["--all", "-d", "mlx5_0", "127.0.0.1"], "--all selects devices"),
    (["127.0.0.1:0"], "expected HOST, HOST:PORT or [IPV6]:PORT"),
    (["-s", "0", "127.0.0.1"], "'0'"),
    (["-s", "8388609", "127.0.0.1"], "'8388609'"),
    (["a", "b"], "'b'"),
])
def test_usage_errors_exit_with_2(args, says):
    p = client(*args)
    assert p.returncode == 2 and p.stdout == "" and says in p.stderr and p.stderr.count("\n") == 1


def test_port_in_use_is_reported():
    with server() as (_, port):
        p = client("--listen", f"127.0.0.1:{port}")
        assert p.returncode == 1 and p.stderr.endswith(f"listen on '127.0.0.1' port {port}: Address already in use (EADDRINUSE)\n")
