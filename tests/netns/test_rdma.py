# SPDX-License-Identifier: Apache-2.0
"""`unirail rdma` on this kernel, with or without RDMA; with RDMA the output is compared with iproute2's `rdma`."""
import errno
import json
import os
import pathlib
import socket
import subprocess

UNIRAIL = os.environ.get("UNIRAIL") or str(pathlib.Path(__file__).parents[2] / "build" / "unirail")
NETLINK_RDMA = 20


def rdma(*args):
    done = subprocess.run([UNIRAIL, "rdma", *args], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def kernel_has_rdma():
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
    except OSError as e:
        assert e.errno == errno.EPROTONOSUPPORT
        return False
    return True


def peer(*args):
    return json.loads(subprocess.run(["rdma", "-j", *args], capture_output=True, check=True).stdout)


def test_dev():
    listed = json.loads(rdma("dev", "-o", "json"))
    if not kernel_has_rdma():
        assert listed == []
        assert rdma("dev").startswith("the kernel has no RDMA")
        return
    assert sorted(d["name"] for d in listed) == sorted(d["ifname"] for d in peer("dev"))
    for d in listed:
        assert d["inVerbs"] or d["notUsableByVerbs"]
    text = rdma("dev")
    for d in listed:
        assert d["name"] in text


def test_mode():
    mode = json.loads(rdma("mode", "-o", "json"))
    if not kernel_has_rdma():
        assert mode == {"supported": False, "mode": None}
        assert rdma("mode").startswith("the kernel has no RDMA")
        return
    assert mode == {"supported": True, "mode": peer("system")[0]["netns"]}
    assert rdma("mode").startswith(mode["mode"])


def test_iproute2_words():
    assert rdma("link") == rdma("link", "show") == rdma("dev")
    assert rdma("system") == rdma("system", "show") == rdma("mode", "show")
    p = subprocess.run([UNIRAIL, "rdma", "system", "set"], capture_output=True, text=True, timeout=30)
    assert p.returncode == 2 and p.stderr == "unirail rdma: system: unknown operand 'set', expected 'show'\n"
