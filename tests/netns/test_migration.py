# SPDX-License-Identifier: Apache-2.0
"""Change over with pods running: what Debian's plugins, libcni and Multus left of a pod is deleted by
ours, and what ours left by Debian's."""
import base64
import json
import pathlib
import re

import pytest
from lab import BINARY, THEIRS, ip, link, link_names, ns_path, rules
from multus_lab import Multus, chain, delegate

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "hosts"
OURS = ["macvlan", "host-device", "tuning", "sbr", "host-local", "static", "unirail-cni", "coordinator"]


@pytest.fixture
def where(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    for name in OURS:
        (folder / name).symlink_to(BINARY)
    return {"ours": folder, "theirs": THEIRS}


# --- each format there is a program for, made by one and deleted by the other ---


def host_local(lab, *nets, **more):
    return {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": n}] for n in nets], **more}


def tuning(lab, **more):
    return {"type": "tuning", "dataDir": str(lab.tmp / "tuning"), "mtu": 1400, "promisc": True, "allmulti": True,
            "mac": "02:00:00:00:01:07", **more}


def macvlan(ipam, **more):
    return {"type": "macvlan", "master": "rail0", "mode": "bridge", "ipam": ipam, **more}


def host_device(lab, name="dev0"):
    ip(lab.node, "link", "add", name, "address", "02:00:00:00:05:01", "type", "veth", "peer", "name", "far-" + name)
    ip(lab.node, "link", "set", name, "mtu", "1450", "up")
    return {"type": "host-device", "device": name, "ipam": host_local(lab, "172.16.5.0/24")}


FORMATS = {
    "host-local": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24"))],
    "host-local, two families": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24", "fd16:1::/64"))],
    "tuning's file": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24")), tuning(lab)],
    "sbr": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24", routes=[{"dst": "0.0.0.0/0"}])), {"type": "sbr"}],
    "all": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24")), tuning(lab), {"type": "sbr"}],
    "host-device's alias": lambda lab: [host_device(lab)],
    "host-device and tuning": lambda lab: [host_device(lab), tuning(lab)],
}


def held(lab):
    """Addresses that host-local has given out."""
    return sorted(p.name for p in (lab.tmp / "networks").glob("*/*") if re.match(r"[0-9a-f]+[.:]", p.name))


def nothing_is_left(lab, pod, before):
    assert link_names(pod.ns) == ["lo"]
    assert [r for f in ("-4", "-6") for r in rules(pod.ns, f) if r[0] not in (0, 32766, 32767)] == []
    assert held(lab) == [] and list((lab.tmp / "tuning").glob("*")) == []
    assert set(link_names(lab.node)) == before


@pytest.mark.parametrize("version", ["0.3.1", "1.0.0"])
@pytest.mark.parametrize("maker,deleter", [("theirs", "ours"), ("ours", "theirs")])
@pytest.mark.parametrize("name", FORMATS)
def test_made_by_one_deleted_by_the_other(make_lab, where, name, maker, deleter, version):
    """0.3.1: DEL comes without prevResult."""
    lab = make_lab(v6=True)
    plugins, pod, before = FORMATS[name](lab), lab.pod(), set(link_names(lab.node))
    prev = chain("ADD", lab, plugins, pod, where[maker], version=version)
    assert held(lab)
    chain("DEL", lab, plugins, pod, where[deleter], version=version, prev=prev if version >= "0.4.0" else None)
    nothing_is_left(lab, pod, before)
    if "host-device" in name:
        dev = link(lab.node, "dev0")
        assert (dev["address"], dev["mtu"], dev.get("ifalias", "dev0")) == ("02:00:00:00:05:01", 1450, "dev0")


@pytest.mark.parametrize("maker,deleter", [("theirs", "ours"), ("ours", "theirs")])
def test_pods_of_both_side_by_side(lab, where, maker, deleter):
    """One goes on where the other stopped, and neither frees what is the other pod's."""
    conf, one, two = [macvlan(host_local(lab, "172.16.1.0/24"))], lab.pod("one"), lab.pod("two")
    chain("ADD", lab, conf, one, where[maker])
    chain("ADD", lab, conf, two, where[deleter])
    assert held(lab) == ["172.16.1.2", "172.16.1.3"]
    chain("DEL", lab, conf, one, where[deleter])
    assert held(lab) == ["172.16.1.3"] and link(two.ns, "net1")


@pytest.mark.parametrize("maker,deleter", [("theirs", "ours"), ("ours", "theirs")])
def test_namespace_gone(lab, where, maker, deleter):
    pod = lab.pod()
    conf = macvlan(host_local(lab, "172.16.1.0/24"), cniVersion="1.0.0", name="net")
    lab.add(conf, pod, plugins=where[maker])
    lab.delete(conf, pod, plugins=where[deleter], netns=ns_path("unirail-test-none"))
    assert held(lab) == []


# --- libcni's cache, recorded ---


@pytest.mark.parametrize("path", sorted((HOSTS / "libcni-1.3.0").glob("*")), ids=lambda p: p.name[:11])
def test_prev_result_from_libcnis_cache(make_lab, where, path):
    """The runtime's file of a pod that the originals made: CHECK and DEL take its result."""
    lab = make_lab(v6=True)
    pod = lab.pod()
    cached = json.loads(path.read_text().replace("/run/netns/unirail-recorded", pod.netns))
    conf = json.loads(base64.b64decode(cached["config"]))
    version, plugins = conf["cniVersion"], conf["plugins"]
    plugins[1]["dataDir"] = str(lab.tmp / "tuning")
    prev = chain("ADD", lab, plugins, pod, THEIRS, conf["name"], version)
    assert {k: v for k, v in prev.items() if v} == {k: v for k, v in cached["result"].items() if v}
    handed_on = lab.add({"cniVersion": version, "name": "n", "type": "tuning", "dataDir": str(lab.tmp / "none"),
                         "prevResult": cached["result"]}, pod, plugins=where["ours"])
    assert handed_on == cached["result"], "what libcni hands on comes back as it was"
    if version >= "0.4.0":
        chain("CHECK", lab, plugins, pod, where["ours"], conf["name"], version, prev=cached["result"])
    chain("DEL", lab, plugins, pod, where["ours"], conf["name"], version,
          prev=cached["result"] if version >= "0.4.0" else None)
    assert link_names(pod.ns) == ["lo"] and list((lab.tmp / "tuning").glob("*")) == []


# --- Multus ---


class Migrated:
    """A pod that Multus attached: the default network's foreign plugin, a rail with a chain, a rail of
    one plugin, a moved NIC."""

    def __init__(self, lab, where, head=False):
        self.lab, self.ours, self.pod = lab, where["ours"], lab.pod()
        self.multus = Multus(lab, lab.tmp / "multus", head)
        pool = lambda net: host_local(lab, net)  # noqa: E731
        self.confs = [
            {"cniVersion": "1.0.0", "name": "podnet", "plugins": [{"type": "ptp", "ipam": pool("10.244.0.0/24")}]},
            {"cniVersion": "1.0.0", "name": "rail0", "plugins": [macvlan(pool("172.16.1.0/24")), tuning(lab), {"type": "sbr"}]},
            {"cniVersion": "0.3.1", "name": "rail1", **macvlan(pool("172.16.2.0/24"), master="rail1")},
            {"cniVersion": "1.0.0", "name": "moved", **host_device(lab)}]
        self.before = set(link_names(lab.node))
        self.requests = {2: {"ifnameRequest": "rdma1"}}

    def add(self):
        self.multus.add(self.pod, *self.confs, requests=self.requests)
        assert sorted(link_names(self.pod.ns)) == ["eth0", "lo", "net1", "net3", "rdma1"] and len(held(self.lab)) == 4

    def conf(self, **more):
        """unirail-cni's own, which knows nothing of the pod."""
        nets = [{"name": "other", "plugins": [macvlan(host_local(self.lab, "172.16.7.0/24"))]}]
        return self.lab.rails(nets, multusCniDir=str(self.multus.folder), **more)

    def call(self, pod=None, conf=None, path=None, **kw):
        return self.lab.cni("DEL", conf or self.conf(), pod or self.pod, ifname="eth0", plugins=self.ours,
                            CNI_PATH=path or f"{self.ours}:{THEIRS}", **kw)

    def ok(self, **kw):
        c = self.call(**kw)
        assert (c.status, c.out) == (0, ""), c
        return c

    def gone(self, pod=True):
        if pod:
            nothing_is_left(self.lab, self.pod, self.before)
        assert held(self.lab) == [] and self.multus.files(self.pod) == []


@pytest.fixture
def m(lab, where):
    return Migrated(lab, where)


@pytest.mark.parametrize("head", [False, True], ids=["4.3.0", "HEAD"])
def test_multus_pod(lab, where, head):
    m = Migrated(lab, where, head)
    m.add()
    assert m.ok().err == ""
    m.gone()
    assert link(lab.node, "dev0")["mtu"] == 1450
    m.ok()  # again: nothing to do


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-none"])
def test_multus_pod_without_namespace(m, netns):
    """As after a reboot. The NIC is with the namespace; its plugin and ours say nothing of it."""
    m.confs.pop()
    m.multus.add(m.pod, *m.confs, requests=m.requests)
    m.ok(netns=netns)
    m.gone(pod=False)


def test_delegates_go_backwards_with_what_libcni_gave_them(m):
    """A foreign plugin sees: the interface, CNI_ARGS, its keys, prevResult and runtimeConfig."""
    log = m.lab.tmp / "log"
    script = m.ours / "foreign"
    script.write_text(f'#!/bin/sh\nprintf "%s %s %s %s\\n" "$CNI_COMMAND" "$CNI_IFNAME" "$CNI_ARGS" "$(cat)" >>{log}\n')
    script.chmod(0o755)
    confs = [{"name": f"n{i}", "cniVersion": "1.0.0", "plugins": [
        {"type": "foreign", "key": i, "capabilities": {"mac": True}}, {"type": "foreign", "last": True}]} for i in range(3)]
    m.multus.add(m.pod, *confs, run=False)
    result = {"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": m.pod.netns}], "ips": [{"address": "10.9.8.7/24"}]}
    m.multus.cached(m.pod, "n1", "net1").write_text(json.dumps(
        {"kind": "cniCacheV1", "containerId": m.pod.id, "config": "", "ifName": "net1", "networkName": "n1",
         "capabilityArgs": {"mac": "02:00:00:00:00:09", "ips": ["10.9.8.7"]}, "result": result}))
    m.ok()
    calls = [line.split(" ", 3) for line in log.read_text().splitlines()]
    confs = [json.loads(c[3]) for c in calls]
    assert [(c[0], c[1]) for c in calls] == [("DEL", i) for i in ("net2", "net2", "net1", "net1", "eth0", "eth0")]
    assert all("IgnoreUnknown=true" in c[2] and "K8S_POD_NAME=pod" in c[2] for c in calls)
    assert [c.get("last", False) for c in confs] == [True, False] * 3 and [c["name"] for c in confs[::2]] == ["n2", "n1", "n0"]
    assert confs[3]["prevResult"] == result and confs[3]["runtimeConfig"] == {"mac": "02:00:00:00:00:09"}
    assert confs[3]["key"] == 1 and "prevResult" not in confs[5] and "runtimeConfig" not in confs[2]


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_scratch_file_cut_by_a_power_loss(m, keep):
    m.add()
    scratch = m.multus.scratch(m.pod)
    scratch.write_bytes(scratch.read_bytes()[:int(scratch.stat().st_size * keep)])
    c = m.ok()
    assert "Multus' file cannot be read" in c.err and str(scratch) in c.err
    m.gone()


def test_scratch_file_lost(m):
    m.add()
    m.multus.scratch(m.pod).unlink()
    m.ok()
    m.gone()


def test_cache_lost_or_cut(m):
    """The scratch file is enough."""
    m.add()
    m.multus.cached(m.pod, "rail0", "net1").write_text('{"kind":"cniCac')
    m.multus.cached(m.pod, "podnet", "eth0").unlink()
    m.ok()
    m.gone()


def test_a_delegate_that_cannot_be_read(m):
    """Its place counts, and its cache file tells what it was."""
    m.add()
    scratch = m.multus.scratch(m.pod)
    delegates = json.loads(scratch.read_text())
    delegates[1]["Bytes"] = "not base64"
    scratch.write_text(json.dumps(delegates))
    m.ok()
    m.gone()


def test_a_failing_delegate_stops_nothing_and_is_tried_again(m):
    m.add()
    c = m.call(path=str(m.ours))  # ptp is not found
    assert c.status == 1 and "podnet" in c.json["msg"] and "eth0" in c.json["msg"] and 'find plugin "ptp"' in c.json["msg"], c
    assert sorted(link_names(m.pod.ns)) == ["eth0", "lo"] and m.multus.files(m.pod) == [f"podnet-{m.pod.id}-eth0"]
    m.ok()
    m.gone()


def test_a_failing_delegate_without_cache_file_keeps_the_scratch_file(m):
    m.add()
    m.multus.cached(m.pod, "podnet", "eth0").unlink()
    assert m.call(path=str(m.ours)).status == 1
    assert m.multus.files(m.pod) == [m.pod.id]
    m.ok()
    m.gone()


def test_other_pods_are_left_alone(m):
    """Also one whose id holds this one's."""
    m.add()
    other = m.lab.pod("other")
    other.id = f"x-{m.pod.id}-net1"
    m.multus.add(other, {"cniVersion": "1.0.0", "name": "rail9", **macvlan(host_local(m.lab, "172.16.9.0/24"))})
    m.ok()
    assert held(m.lab) == ["172.16.9.2"] and link(other.ns, "eth0")
    assert len(m.multus.files(other)) == 2
    m.ok(pod=other)
    m.gone()


def test_own_pod(m):
    """A pod that we attached, on a node with Multus' files of others."""
    m.add()
    own = m.lab.pod("own")
    m.lab.add(m.conf(), own, ifname="eth0", plugins=m.ours)
    m.ok(pod=own)
    assert link_names(own.ns) == ["lo"] and len(m.multus.files(m.pod)) == 5 and len(held(m.lab)) == 4


def test_called_by_multus_as_its_delegate(m):
    """Multus' file is there until its delegates are deleted: the others are its own to delete."""
    conf, pod = m.conf(), m.pod
    m.lab.add(conf, pod, ifname="net1", plugins=m.ours)
    m.multus.add(pod, m.confs[0], conf, run=False)
    c = m.lab.cni("DEL", conf, pod, ifname="net1", plugins=m.ours, CNI_PATH=str(m.ours))  # ptp would not be found
    assert c.status == 0 and link_names(pod.ns) == ["lo"] and m.multus.files(pod) == [pod.id], c


def test_all_in_one_among_the_delegates(m):
    """Ours takes over from Multus, of which an all-in-one was a delegate."""
    conf, pod = m.conf(), m.pod
    m.lab.add(conf, pod, ifname="net1", plugins=m.ours)
    m.multus.add(pod, m.confs[2], conf, run=False)
    m.multus.add_one(pod, m.confs[2], "eth0")
    m.ok(conf={**conf, "name": "the-nodes-own"})
    assert link_names(pod.ns) == ["lo"] and held(m.lab) == [] and m.multus.files(pod) == []


@pytest.mark.parametrize("folder,words", [("", ""), ("var/lib", "absolute path")])
def test_multus_is_not_looked_for(m, folder, words):
    m.add()
    c = m.ok(conf={**m.conf(), "multusCniDir": folder})
    assert words in c.err and len(m.multus.files(m.pod)) == 5


def test_no_folder_of_multus(m):
    m.ok(conf={**m.conf(), "multusCniDir": "/nonexistent"})


def test_device_file(m):
    """Multus keeps one for each delegate with a device."""
    folder = pathlib.Path("/var/run/k8s.cni.cncf.io/devinfo/cni")
    folder.mkdir(parents=True, exist_ok=True)
    conf = {"cniVersion": "1.0.0", "name": "rail0", **macvlan(host_local(m.lab, "172.16.1.0/24"))}
    m.multus.add(m.pod, conf)
    m.multus.scratch(m.pod).write_text(json.dumps([{**delegate(conf, deviceID="0000:3b:02.0"), "Name": "team/rail0"}]))
    path = folder / f"team-rail0-{m.pod.id}_eth0"
    path.write_text("{}")
    try:
        m.ok()
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
