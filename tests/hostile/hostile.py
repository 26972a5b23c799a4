# SPDX-License-Identifier: Apache-2.0
"""Shared by the attacks: crowds of hostile connections in separate processes, honest requests beside them, the memory of the server."""
import contextlib
import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import time

ANYBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
ANYBODY.check_hostname, ANYBODY.verify_mode = False, ssl.CERT_NONE
HERE = pathlib.Path(__file__).resolve().parent
ONE = ["127.0.0.7"]
MANY = [f"127.0.{i}.{j}" for i in range(1, 5) for j in range(1, 51)]


@contextlib.contextmanager
def crowd(port, kind, n=2000, rate=200, sources=ONE, path=""):
    """Keeps n hostile connections while the block runs."""
    p = subprocess.Popen([sys.executable, HERE / "attack.py", str(port), kind, str(n), str(rate), *sources],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "ATTACK_PATH": path})
    try:
        assert p.stdout.readline() == "ready\n"
        yield p
        assert p.poll() is None
    finally:
        p.stdin.close()
        p.stdout.close()
        p.kill()
        p.wait()


def get(port, path, tls=False, timeout=10, source="127.0.0.1"):
    """Sends a request on a new connection, like a kubelet's probe; returns (status, text)."""
    c = (http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, source_address=(source, 0), context=ANYBODY) if tls
         else http.client.HTTPConnection("127.0.0.1", port, timeout=timeout, source_address=(source, 0)))
    try:
        c.request("GET", path)
        r = c.getresponse()
        status, text = r.status, r.read().decode()
        if c.sock:  # closes without TIME_WAIT: a thousand connections would otherwise use up the ports of later tests
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return status, text
    finally:
        c.close()


def honest(n, port, path, **kw):
    """Sends n requests, one after the other; returns (the failures, the duration of the longest request in seconds)."""
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    failed, worst = [], 0.0
    for _ in range(n):
        began = time.monotonic()
        try:
            status, text = get(port, path, **kw)
            if status != 200:
                failed.append(f"{status} {text}")
        except OSError as e:
            failed.append(repr(e))
        except http.client.HTTPException as e:
            failed.append(repr(e))
        worst = max(worst, time.monotonic() - began)
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    return failed, worst


def held(pid):
    """Returns (KiB of private memory, number of open descriptors) of a process. Mapped pages of the binary are not counted: they depend on
    the page cache, and are 1,600 to 2,500 KiB for the same process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    own = sum(int(status.split(f"{part}:")[1].split()[0]) for part in ("RssAnon", "RssShmem"))
    return own, len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
