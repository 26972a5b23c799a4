# SPDX-License-Identifier: Apache-2.0
"""whereabouts on the node's own store: with macvlan of unirail and of Debian, in one process with all rails, and after
crashes and restarts of the node."""
import os
import pathlib
import re
import signal

import pytest
from lab import (BINARY, PLUGINS, REFERENCE, VERSIONS, age, counter, filled, has_address, ip, link_names, ping, run,
                 small_disk, state)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    for name in PLUGINS:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(BINARY)
    return folder


class Caller:
    """A pod for calls of the IPAM plugin alone, which does not open the pod's network namespace: the namespace does not exist."""

    def __init__(self, name):
        self.name, self.netns = name, "/run/netns/unirail-test-not-there"
        self.id = f"{next(counter):04x}{os.urandom(30).hex()}"

    @property
    def args(self):
        return f"IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME={self.name};K8S_POD_UID=uid-{self.name}"


def wb(lab, where="172.16.1.0/24", **more):
    return {"type": "whereabouts", "range": where, "state_dir": str(lab.state_dir), **more}


def conf(lab, ipam, nic="rail0", version="1.1.0", **more):
    return lab.macvlan(nic, ipam, version, **more)


def alone(lab, command, ipam, pod, version="1.1.0", **kw):
    return lab.cni(command, conf(lab, ipam, version=version), pod, plugin="whereabouts", **kw)


def got(call):
    assert call.status == 0, call
    return [i["address"].split("/")[0] for i in call.json["ips"]]


def held(lab):
    """(directory, address) -> container id, from the journals."""
    found = {}
    for journal in (lab.state_dir / "whereabouts").glob("*/journal"):
        for line in journal.read_text().splitlines()[1:]:
            last = {}
            for word in line.split():
                key, _, value = word.partition("=")
                if word in ("allocate", "release"):
                    last = {"word": word}
                elif key == "ip" and last["word"] == "allocate":
                    found[journal.parent.name, value] = last["id"]
                elif key == "ip":
                    found.pop((journal.parent.name, value), None)
                else:
                    last[key] = value
    return found


# --- on a link ---


def test_macvlan_gets_an_address_of_its_range(make_lab):
    lab = make_lab(v6=True)
    a, b = lab.pod("a"), lab.pod("b")
    c = conf(lab, wb(lab, exclude=["172.16.1.1", "172.16.1.2/31"], gateway="172.16.1.1",
                     ipRanges=[{"range": "fd00:16:1::10-fd00:16:1::19/64"}], routes=[{"dst": "10.9.0.0/16"}]))
    empty = a.state()
    prev = lab.add(c, a)
    assert prev["ips"] == [{"address": "172.16.1.4/24", "gateway": "172.16.1.1", "interface": 0},
                           {"address": "fd00:16:1::10/64", "interface": 0}]
    assert has_address(a.ns, "net1", "172.16.1.4/24") and has_address(a.ns, "net1", "fd00:16:1::10/64")
    assert "10.9.0.0/16 via 172.16.1.1" in ip(a.ns, "route")
    lab.add(c, b)
    assert ping(a.ns, "net1", "172.16.1.5") and ping(a.ns, "net1", "172.16.1.1")
    lab.ok("CHECK", {**c, "prevResult": prev}, a)
    lab.delete(c, a)
    lab.delete(c, a)
    assert a.state() == empty
    assert set(held(lab)) == {("172.16.1.0-24", "172.16.1.5/24"), ("fd00:16:1::-64", "fd00:16:1::11/64")}


@pytest.mark.parametrize("version", VERSIONS[:-1])  # Debian's plugin does not support 1.1.0
def test_whereabouts_runs_under_debians_macvlan(lab, tmp_path, plugins, version):
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "macvlan").symlink_to(REFERENCE / "macvlan")
    (mixed / "whereabouts").symlink_to(BINARY)
    pod = lab.pod()
    c = conf(lab, wb(lab, "172.16.1.9-172.16.1.9/24"), version=version)
    lab.add(c, pod, plugins=mixed)
    assert has_address(pod.ns, "net1", "172.16.1.9/24")
    lab.fail("ADD", c, lab.pod("late"), plugins=mixed,
             contains="error at storage engine: Could not allocate IP in range: ip: 172.16.1.9 / - 172.16.1.9")
    lab.delete(c, pod, plugins=mixed)
    assert held(lab) == {} and link_names(pod.ns) == ["lo"]


def rails(lab, **more):
    """eth0 and two rails, each with its own range."""
    nets = [lab.network(nic, "eth0" if i == 0 else f"net{i}",
                        ipam=wb(lab, f"172.16.{i}.0/24", range_start=f"172.16.{i}.10", **more))
            for i, nic in enumerate(lab.nics)]
    return lab.rails(nets)


def test_all_rails_get_addresses_in_one_process(lab):
    pods = [lab.pod(f"p{i}") for i in range(2)]
    c = rails(lab)
    prev = [lab.add(c, p, ifname="eth0") for p in pods]
    for i, p in enumerate(pods):
        lab.ok("CHECK", {**c, "prevResult": prev[i]}, p, ifname="eth0")
        for k, dev in enumerate(("eth0", "net1", "net2")):
            assert has_address(p.ns, dev, f"172.16.{k}.{10 + i}/24")
    assert len(held(lab)) == 6
    lab.delete(c, pods[0], ifname="eth0")
    assert {a for _, a in held(lab)} == {f"172.16.{k}.11/24" for k in range(3)}
    # The list of the first GC has one attachment of the pod: the pod's addresses on all three interfaces stay. The second list is empty.
    lab.ok("GC", {**c, "cni.dev/valid-attachments": [{"containerID": pods[1].id, "ifname": "eth0"}]}, pods[1])
    assert len(held(lab)) == 3
    lab.ok("GC", {**c, "cni.dev/valid-attachments": []}, pods[1])
    assert held(lab) == {}


def test_add_undoes_all_rails_when_the_range_of_the_last_rail_is_exhausted(lab):
    c = rails(lab)
    c["networks"][2]["plugins"][0]["ipam"]["range_end"] = "172.16.2.10"
    first, second = lab.pod("first"), lab.pod("second")
    lab.add(c, first, ifname="eth0")
    before = held(lab), second.state(), state(lab.node)
    lab.fail("ADD", c, second, code=11, contains="Could not allocate IP in range", ifname="eth0")
    assert (held(lab), second.state(), state(lab.node)) == before


# --- concurrent calls ---


def test_fifty_concurrent_pods_get_distinct_addresses(lab):
    """Two overlapping ranges, and fifty pods: each pod requests an address of the narrow range, every second pod also an address of the
    wide range."""
    wide, narrow = wb(lab, "172.16.0.0/16", range_start="172.16.1.1"), wb(lab, "172.16.1.0/24")
    callers = [Caller(f"p{i}") for i in range(50)]
    started = []
    for i, p in enumerate(callers):
        started.append((p, "net1", wide if i % 2 else narrow))
        if i % 2:
            started.append((p, "net2", narrow))

    def all_at_once(command):
        processes = [lab.popen(command, conf(lab, ipam), p, ifname=name, plugin="whereabouts")
                     for p, name, ipam in started]
        out = []
        for p in processes:
            text, err = p.communicate(timeout=120)
            assert p.returncode == 0, (text, err)
            out.append(text)
        return out

    texts = all_at_once("ADD")
    addresses = [t.split('"address": "')[1].split("/")[0] for t in texts]
    # 75 addresses from 172.16.1.1 on, each once: the lowest that were free.
    assert sorted(addresses, key=lambda a: int(a.split(".")[3])) == [f"172.16.1.{i}" for i in range(1, 76)]
    assert all_at_once("ADD") == texts
    assert len(held(lab)) == 75
    all_at_once("DEL")
    assert held(lab) == {}


def test_concurrent_adds_and_dels_lose_no_address(lab):
    """Ten concurrent DELs, then ten concurrent ADDs, in a range that is large enough only if no address is lost."""
    ipam = wb(lab, "172.16.1.1-172.16.1.20/24")
    here = [Caller(f"a{i}") for i in range(20)]
    for p in here:
        got(alone(lab, "ADD", ipam, p))
    for n in range(4):
        new = [Caller(f"b{n}-{i}") for i in range(10)]
        deleted, here = here[:10], here[10:]
        dels = [lab.popen("DEL", conf(lab, ipam), p, plugin="whereabouts") for p in deleted]
        assert [p.wait(60) for p in dels] == [0] * 10
        adds = [lab.popen("ADD", conf(lab, ipam), p, plugin="whereabouts") for p in new]
        assert [p.wait(60) for p in adds] == [0] * 10
        here += new
        assert len(held(lab)) == 20
    assert sorted(held(lab).values()) == sorted(p.id for p in here)


# --- restarts and crashes of a node ---


def test_recreated_sandbox_gets_the_address_of_its_pod(lab):
    """The pod keeps its address; the late DEL of the old sandbox releases no address of the new one."""
    ipam = wb(lab)
    old, new = Caller("p"), Caller("p")
    assert got(alone(lab, "ADD", ipam, old)) == got(alone(lab, "ADD", ipam, new)) == ["172.16.1.1"]
    assert alone(lab, "DEL", ipam, old).status == 0
    assert list(held(lab).values()) == [new.id]
    assert got(alone(lab, "ADD", ipam, Caller("q"))) == ["172.16.1.2"]


def test_gc_releases_addresses_after_a_restart_of_the_node(lab):
    """After a restart of the node the namespaces are deleted, the runtime lists only some pods, and the journal
    remains."""
    ipam = wb(lab)
    pods = [Caller(f"p{i}") for i in range(5)]
    for p in pods:
        got(alone(lab, "ADD", ipam, p))
    assert got(alone(lab, "ADD", ipam, Caller("late"))) == ["172.16.1.6"]
    valid = [{"containerID": pods[i].id, "ifname": "net1"} for i in (1, 3)]
    lab.ok("GC", {**conf(lab, ipam), "cni.dev/valid-attachments": valid}, pods[0], plugin="whereabouts")
    assert set(held(lab).values()) == {pods[1].id, pods[3].id}
    # GC also works in one process with macvlan; a DEL without a namespace succeeds afterwards.
    assert lab.cni("GC", {**conf(lab, ipam), "cni.dev/valid-attachments": valid[:1]}, pods[0]).status == 0
    assert set(held(lab).values()) == {pods[1].id}
    lab.delete(conf(lab, ipam), pods[1], netns="")
    assert held(lab) == {}


def killed(lab, tmp_path, command, ipam, pod, call, n):
    """Kills the plugin at its n-th system call of the name `call`. Returns False if the plugin makes fewer such calls."""
    folder = tmp_path / f"traced{next(counter)}"
    folder.mkdir()
    (folder / "whereabouts").write_text(
        f"#!/bin/sh\nexec strace -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={n} "
        f"{lab.plugins}/whereabouts\n")
    (folder / "whereabouts").chmod(0o755)
    p = lab.popen(command, conf(lab, ipam), pod, plugins=folder, plugin="whereabouts")
    p.communicate(timeout=60)
    return p.returncode == -signal.SIGKILL


CALLS = ["openat", "flock", "pwrite64", "write", "fdatasync", "fsync", "renameat", "mkdirat", "close"]


@pytest.mark.parametrize("call", CALLS)
def test_kill_at_any_call_loses_and_duplicates_no_address(lab, tmp_path, call):
    """kill -9 at each system call of a kind, in ADD and in DEL, for two ranges: no address is ever used by two pods, and none is lost after
    the runtime's DEL."""
    ipam = wb(lab, ipRanges=[{"range": "172.16.2.0/24"}])
    moments, creates_journal = 0, call in ("mkdirat", "fsync", "renameat", "write")  # these calls are made only for a new journal
    first = Caller("first")
    got(alone(lab, "ADD", ipam, first))
    assert alone(lab, "DEL", ipam, first).status == 0
    for n in range(1, 60):
        other = Caller("other")
        pod = Caller(f"p{n}")
        if creates_journal:
            run(["rm", "-rf", lab.state_dir])
        if not killed(lab, tmp_path, "ADD", ipam, pod, call, n):
            alone(lab, "DEL", ipam, pod)
            break
        moments += 1
        reference = got(alone(lab, "ADD", ipam, other))
        candidate = got(alone(lab, "ADD", ipam, pod))
        assert not set(reference) & set(candidate), (call, n)
        killed(lab, tmp_path, "DEL", ipam, pod, call, n)
        assert alone(lab, "DEL", ipam, pod).status == 0
        assert set(held(lab).values()) == {other.id}, (call, n)
        assert alone(lab, "DEL", ipam, other).status == 0
        assert held(lab) == {} and got(alone(lab, "ADD", ipam, pod)) == ["172.16.1.1", "172.16.2.1"]
        assert alone(lab, "DEL", ipam, pod).status == 0
    assert moments, f"ADD makes no system call {call}"


def test_del_after_a_killed_add_releases_its_addresses(lab, tmp_path):
    """After an ADD that was killed, the runtime calls DEL and nothing else."""
    ipam = wb(lab, ipRanges=[{"range": "172.16.2.0/24"}])
    got(alone(lab, "ADD", ipam, Caller("first")))
    before = held(lab)
    for n in range(1, 9):
        pod = Caller("p")
        killed(lab, tmp_path, "ADD", ipam, pod, "fdatasync", n)
        assert alone(lab, "DEL", ipam, pod).status == 0
        assert held(lab) == before


def test_damaged_journal_is_reported(lab):
    """Unlike this plugin, the original whereabouts reports success for a DEL after any failure, and never releases the address."""
    ipam = wb(lab)
    pod = Caller("p")
    got(alone(lab, "ADD", ipam, pod))
    journal = lab.state_dir / "whereabouts" / "172.16.1.0-24" / "journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"allocate", b"alocate") + b"\n")
    for command in ("ADD", "DEL", "CHECK"):
        lab.fail(command, conf(lab, ipam), pod, code=5, plugin="whereabouts",
                 contains=[f"--state-dir {journal.parent}", "line 2 is damaged"])
    lab.fail("STATUS", conf(lab, ipam), pod, code=50, plugin="whereabouts", contains="is damaged")
    # Runs the command that the error names as the remedy.
    p = run([BINARY, "pool", "check", "--repair", "--state-dir", journal.parent])
    assert "172.16.1.1/24" in p.stdout, p
    # The repair also reserves the addresses of other network namespaces of this machine, and names them.
    reserved = set(re.findall(r"\b172\.16\.1\.\d+", p.stdout))
    free = next(ip for ip in (f"172.16.1.{n}" for n in range(1, 255)) if ip not in reserved)
    assert got(alone(lab, "ADD", ipam, Caller("q"))) == [free]
    run([BINARY, "pool", "release", "172.16.1.1", "--yes", "--state-dir", journal.parent])
    assert got(alone(lab, "ADD", ipam, pod)) == ["172.16.1.1"]


def test_truncated_last_line_of_the_journal_is_dropped(lab):
    ipam = wb(lab)
    a, b = Caller("a"), Caller("b")
    got(alone(lab, "ADD", ipam, a))
    journal = lab.state_dir / "whereabouts" / "172.16.1.0-24" / "journal"
    size = journal.stat().st_size
    anchor = journal.with_name("journal.anchor")
    before = anchor.read_bytes()
    got(alone(lab, "ADD", ipam, b))
    with open(journal, "r+b") as f:
        f.truncate(size + 20)
    anchor.write_bytes(before)  # as after a crash of the second ADD before it updated the anchor: its caller got no result
    assert got(alone(lab, "ADD", ipam, b)) == ["172.16.1.2"]
    assert set(held(lab).values()) == {a.id, b.id}


def test_del_releases_addresses_on_a_full_disk(lab, tmp_path):
    """The range is read from whereabouts.conf, the flat file; the journal of the range and the log file are on the full disk."""
    with small_disk(tmp_path / "small") as disk:
        flat = tmp_path / "whereabouts.conf"
        flat.write_text(f'{{"range": "172.16.1.0/24", "log_file": "{disk}/log", "log_level": "debug"}}')
        ipam = {"type": "whereabouts", "state_dir": str(disk), "configuration_path": str(flat)}
        pods = [Caller(f"p{i}") for i in range(4)]
        for p in pods:
            got(alone(lab, "ADD", ipam, p))
        with filled(disk):
            for p in pods[:3] + pods[:1]:
                c = alone(lab, "DEL", ipam, p)
                assert c.status == 0, c
        # the addresses of the three deleted pods are free again
        assert [got(alone(lab, "ADD", ipam, Caller(f"q{i}")))[0] for i in range(4)] == [
            "172.16.1.1", "172.16.1.2", "172.16.1.3", "172.16.1.5"]


def test_temporary_files_of_a_killed_add_are_removed(lab):
    ipam, pod = wb(lab), Caller("a")
    got(alone(lab, "ADD", ipam, pod))
    folder = lab.state_dir / "whereabouts" / "172.16.1.0-24"
    other = age(folder / ".note.0123abcd.tmp")
    for command in ("ADD", "DEL"):
        half = age(folder / ".journal.0123abcd.tmp")
        assert alone(lab, command, ipam, pod).status == 0
        assert not half.exists() and other.exists(), command


# --- configuration ---


def test_cluster_store_is_refused(lab, tmp_path):
    flat = tmp_path / "whereabouts.conf"
    flat.write_text('{"kubernetes": {"kubeconfig": "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"}}')
    ipam = wb(lab, configuration_path=str(flat))
    pod = lab.pod()
    for command in ("ADD", "CHECK", "GC", "STATUS"):
        lab.fail(command, {**conf(lab, ipam), "cni.dev/valid-attachments": []}, pod, code=50,
                 contains=["whereabouts.kubeconfig", f"in '{flat}'"], plugin="whereabouts")
    lab.fail("ADD", conf(lab, ipam), pod, code=50, contains="whereabouts.kubeconfig")
    assert link_names(pod.ns) == ["lo"]
    c = alone(lab, "DEL", ipam, pod)
    assert c.status == 0 and "releases no address in the cluster" in c.err
    lab.fail("ADD", conf(lab, wb(lab, kubernetes={"kubeconfig": "/k"})), pod, code=7,
             contains="config file not found", plugin="whereabouts")


def test_range_of_a_node_is_read_from_the_flat_file(lab, tmp_path):
    flat, log = tmp_path / "whereabouts.conf", tmp_path / "whereabouts.log"
    flat.write_text(f'{{"range": "172.16.1.0/24", "range_start": "172.16.1.64", "range_end": "172.16.1.95", '
                    f'"log_file": "{log}", "log_level": "debug"}}')
    ipam = {"type": "whereabouts", "state_dir": str(lab.state_dir), "configuration_path": str(flat)}
    pod = lab.pod()
    lab.add(conf(lab, ipam), pod)
    assert has_address(pod.ns, "net1", "172.16.1.64/24")
    lab.delete(conf(lab, ipam), pod)
    # ADD succeeds if kubeconfig is empty, and if the log file cannot be written.
    assert got(alone(lab, "ADD", {**ipam, "kubernetes": {"kubeconfig": ""}}, pod)) == ["172.16.1.64"]
    assert got(alone(lab, "ADD", {**ipam, "log_file": "/proc/none/log"}, pod)) == ["172.16.1.64"]


def test_status_reports_an_exhausted_range(lab):
    ipam = wb(lab, "172.16.1.9-172.16.1.9/24")
    pod = Caller("p")
    lab.ok("STATUS", conf(lab, ipam), pod, plugin="whereabouts")
    got(alone(lab, "ADD", ipam, pod))
    lab.fail("STATUS", conf(lab, ipam), pod, code=50, contains=["Could not allocate IP in range", "team/p net1"],
             plugin="whereabouts")


def test_whereabouts_is_installed_as_an_applet(tmp_path):
    assert run([BINARY, "install", tmp_path]).returncode == 0
    assert pathlib.Path(tmp_path, "whereabouts").is_symlink()
    assert "whereabouts" in run([BINARY, "--help"]).stdout
