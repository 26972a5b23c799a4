# SPDX-License-Identifier: Apache-2.0
"""Concurrent calls of plugins, and calls that are killed."""
import shutil
import signal

import pytest
from lab import counter, link_names, run, state
from report import wait

COUNT = 200


def finish(procs):
    """Returns the stdout of each call; all calls must succeed."""
    out = []
    for p in procs:
        stdout, stderr = p.communicate(timeout=120)
        assert p.returncode == 0, stdout + stderr
        out.append(stdout)
    return out


class Container:
    """One of many pods that share a namespace: an IPAM plugin only checks whether the namespace exists."""

    def __init__(self, lab, i):
        if not hasattr(lab, "shared"):
            lab.shared = lab.pod("shared")
        self.id, self.netns, self.args = f"load-{i}", lab.shared.netns, ""


def test_200_concurrent_adds_use_up_a_pool_of_200(lab):
    """No address is lost or allocated twice; then all are released and allocated again."""
    lab.pools(f"[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.10-172.16.1.{9 + COUNT}\n")
    conf = lab.macvlan("rail0", lab.ipam("p"))
    pods = [Container(lab, i) for i in range(COUNT)]

    def all_at_once(command):
        return finish([lab.popen(command, conf, p, plugin="spiderpool") for p in pods])

    for _ in range(2):
        all_at_once("ADD")
        used = lab.used()
        assert len(used) == COUNT
        assert {r["containerId"] for r in used.values()} == {p.id for p in pods}
        lab.fail("ADD", conf, Container(lab, "late"), plugin="spiderpool", code=11, contains="'p'")
        all_at_once("DEL")
        assert lab.used() == {}


def test_concurrent_adds_and_dels_lose_no_address(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.10-172.16.1.109\n")
    conf = lab.macvlan("rail0", lab.ipam("p"))
    first = [Container(lab, f"a{i}") for i in range(100)]
    finish([lab.popen("ADD", conf, p, plugin="spiderpool") for p in first])
    second = [Container(lab, f"b{i}") for i in range(50)]
    # The pool has no free address for an ADD until the first half is released.
    finish([lab.popen("DEL", conf, old, plugin="spiderpool") for old in first[:50]])
    procs = []
    for old, new in zip(first[50:], second):
        procs.append(lab.popen("DEL", conf, old, plugin="spiderpool"))
        procs.append(lab.popen("ADD", conf, new, plugin="spiderpool"))
    finish(procs)
    used = lab.used()
    assert {r["containerId"] for r in used.values()} == {p.id for p in second} and len(used) == 50


def test_concurrent_adds_with_host_local_get_distinct_addresses(lab, tmp_path):
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "n"),
            "ranges": [[{"subnet": "172.16.1.0/24", "rangeStart": "172.16.1.10", "rangeEnd": "172.16.1.109"}]]}
    conf = lab.macvlan("rail0", ipam)
    pods = [Container(lab, i) for i in range(100)]
    finish([lab.popen("ADD", conf, p, plugin="host-local") for p in pods])
    held = [f for f in (tmp_path / "n" / "rail0").glob("172.*")]
    assert len(held) == 100
    assert {f.read_bytes().split(b"\r\n")[0].decode() for f in held} == {p.id for p in pods}
    finish([lab.popen("DEL", conf, p, plugin="host-local") for p in pods])
    assert not list((tmp_path / "n" / "rail0").glob("172.*"))


def test_concurrent_pods_do_not_affect_each_other(make_lab):
    """ADD and DEL of whole pods run concurrently: the links and rules of one pod, and its links and routes on the node, do not affect
    another pod."""
    lab = make_lab(rails=2)
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator={"mode": "underlay"}))
    before = state(lab.node)
    pods = [lab.pod() for _ in range(12)]
    finish([lab.popen("ADD", conf, p, ifname="eth0") for p in pods])
    for p in pods:
        assert sorted(link_names(p.ns)) == ["eth0", "lo", "net1", "net2", "veth0"]
    assert len(lab.used()) == 36
    finish([lab.popen("DEL", conf, p, ifname="eth0") for p in pods])
    assert state(lab.node) == before and lab.used() == {}


# --- kill -9 ---


def trace(lab, tmp_path, options):
    """A directory of plugins whose unirail-cni runs under strace with these options."""
    folder = tmp_path / f"traced{next(counter)}"
    folder.mkdir()
    f = folder / "unirail-cni"
    # under strace the leak checker of FLAVOUR=asan fails
    f.write_text("#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\nexec strace -qq " + " ".join(options) + f" {lab.plugins}/unirail-cni\n")
    f.chmod(0o755)
    return folder


def new_pod(lab, call):
    """Removes the journal and returns a pod, so that the n-th system call of each pod's ADD is the same. For fdatasync() the journal stays:
    ADD calls fdatasync() only on an existing journal."""
    if call != "fdatasync":
        shutil.rmtree(lab.state_dir, ignore_errors=True)
    return lab.pod()


def calls_of(lab, conf, call, tmp_path):
    """Returns the number of times that one ADD makes the system call `call`."""
    log = tmp_path / "strace"
    pod = new_pod(lab, call)
    lab.add(conf, pod, plugins=trace(lab, tmp_path, ["-o", str(log), "-e", f"trace={call}"]), ifname="eth0")
    lab.delete(conf, pod, ifname="eth0")
    return sum(k.startswith(call + "(") for k in log.read_text().splitlines())


MOMENTS = ["sendto", "fsync", "fdatasync", "write", "setns", "recvmsg", "renameat", "openat", "close"]


@pytest.mark.parametrize("call", MOMENTS)
def test_del_and_add_succeed_after_an_add_killed_at_a_system_call(lab, tmp_path, call):
    """strace kills ADD with SIGKILL at up to six of its system calls of one kind, at regular distances up to the last; the runtime's DEL
    then leaves nothing, and the next ADD succeeds."""
    lab.rail_pools(reuse_delay="0s")
    conf = lab.rails(lab.all_networks(coordinator={"mode": "underlay"}))
    before = state(lab.node)
    first = lab.pod()  # creates the journal: ADD calls fdatasync() only on an existing one
    lab.add(conf, first, ifname="eth0")
    lab.delete(conf, first, ifname="eth0")
    total = calls_of(lab, conf, call, tmp_path)
    assert total, f"ADD makes no system call {call}"
    for n in sorted({max(1, total * k // 6) for k in range(1, 7)}):
        pod = new_pod(lab, call)
        empty = pod.state()
        wrapper = trace(lab, tmp_path, ["-o", "/dev/null", "-e", f"trace={call}", "-e",
                                        f"inject={call}:signal=KILL:when={n}"])
        p = lab.popen("ADD", conf, pod, ifname="eth0", plugins=wrapper)
        p.communicate(timeout=60)
        assert p.returncode == -signal.SIGKILL, (call, n, total)
        lab.delete(conf, pod, ifname="eth0")
        assert (state(lab.node), pod.state()) == (before, empty), (call, n, total)
        assert lab.used() == {}, (call, n, total)
    prev = lab.add(conf, pod, ifname="eth0")
    lab.ok("CHECK", {**conf, "prevResult": prev}, pod, ifname="eth0")
    lab.delete(conf, pod, ifname="eth0")


def test_del_succeeds_after_a_killed_del(lab, tmp_path):
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator={"mode": "underlay"}))
    for n in (1, 2, 4, 6):
        pod = lab.pod()
        lab.add(conf, pod, ifname="eth0")
        wrapper = trace(lab, tmp_path, ["-o", "/dev/null", "-e", "trace=sendto", "-e",
                                        f"inject=sendto:signal=KILL:when={n}"])
        p = lab.popen("DEL", conf, pod, ifname="eth0", plugins=wrapper)
        p.communicate(timeout=60)
        assert p.returncode == -signal.SIGKILL
        lab.delete(conf, pod, ifname="eth0")
        assert link_names(pod.ns) == ["lo"] and lab.used() == {}


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_del_succeeds_after_an_add_killed_while_it_waits_for_the_gateway(lab, sig):
    """The wait for the gateway is the longest wait of an ADD, so the runtime's timeout is likely to expire during this wait."""
    lab.rail_pools()
    run(["ip", "-n", lab.fabric, "addr", "flush", "dev", "br-rail0"])
    conf = lab.rails([lab.network("rail0", "net1", coordinator=False,
                                  ipam=lab.ipam("rail0", enable_gateway_detection=True))])
    pod = lab.pod()
    p = lab.popen("ADD", conf, pod)
    wait(lambda: "net1" in link_names(pod.ns), "the pod has the link")
    p.send_signal(sig)
    p.communicate(timeout=30)
    lab.delete(conf, pod)
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}
