# SPDX-License-Identifier: Apache-2.0
"""Migration with running pods: unirail deletes pods that Debian's plugins, libcni and Multus added, and these delete
pods that unirail added."""
import base64
import json
import pathlib
import re

import pytest
from lab import BINARY, REFERENCE, ip, link, link_names, ns_path, rules
from multus_lab import Multus, chain, delegate

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "hosts"
CANDIDATE = ["macvlan", "host-device", "tuning", "sbr", "host-local", "static", "unirail-cni", "coordinator"]


@pytest.fixture
def where(tmp_path):
    folder = tmp_path / "candidate"
    folder.mkdir()
    for name in CANDIDATE:
        (folder / name).symlink_to(BINARY)
    return {"candidate": folder, "reference": REFERENCE}


# --- each chain of plugins: added by unirail and deleted by Debian's plugins, and the reverse ---


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
    "host-local, tuning and sbr": lambda lab: [macvlan(host_local(lab, "172.16.1.0/24")), tuning(lab), {"type": "sbr"}],
    "host-device's alias": lambda lab: [host_device(lab)],
    "host-device and tuning": lambda lab: [host_device(lab), tuning(lab)],
}


def held(lab):
    """Addresses that host-local has allocated."""
    return sorted(p.name for p in (lab.tmp / "networks").glob("*/*") if re.match(r"[0-9a-f]+[.:]", p.name))


def nothing_is_left(lab, pod, before):
    assert link_names(pod.ns) == ["lo"]
    assert [r for f in ("-4", "-6") for r in rules(pod.ns, f) if r[0] not in (0, 32766, 32767)] == []
    assert held(lab) == [] and list((lab.tmp / "tuning").glob("*")) == []
    assert set(link_names(lab.node)) == before


@pytest.mark.parametrize("version", ["0.3.1", "1.0.0"])
@pytest.mark.parametrize("maker,deleter", [("reference", "candidate"), ("candidate", "reference")])
@pytest.mark.parametrize("name", FORMATS)
def test_chains_added_by_one_plugin_are_deleted_by_the_other(make_lab, where, name, maker, deleter, version):
    """In version 0.3.1 the runtime passes no prevResult to DEL."""
    lab = make_lab(v6=True)
    plugins, pod, before = FORMATS[name](lab), lab.pod(), set(link_names(lab.node))
    prev = chain("ADD", lab, plugins, pod, where[maker], version=version)
    assert held(lab)
    chain("DEL", lab, plugins, pod, where[deleter], version=version, prev=prev if version >= "0.4.0" else None)
    nothing_is_left(lab, pod, before)
    if "host-device" in name:
        dev = link(lab.node, "dev0")
        assert (dev["address"], dev["mtu"], dev.get("ifalias", "dev0")) == ("02:00:00:00:05:01", 1450, "dev0")


@pytest.mark.parametrize("maker,deleter", [("reference", "candidate"), ("candidate", "reference")])
def test_pods_of_both_plugins_have_distinct_addresses(lab, where, maker, deleter):
    """Each plugin allocates the address after the last one of the other. DEL of a pod by the other plugin releases only that pod's
    address."""
    conf, one, two = [macvlan(host_local(lab, "172.16.1.0/24"))], lab.pod("one"), lab.pod("two")
    chain("ADD", lab, conf, one, where[maker])
    chain("ADD", lab, conf, two, where[deleter])
    assert held(lab) == ["172.16.1.2", "172.16.1.3"]
    chain("DEL", lab, conf, one, where[deleter])
    assert held(lab) == ["172.16.1.3"] and link(two.ns, "net1")


@pytest.mark.parametrize("maker,deleter", [("reference", "candidate"), ("candidate", "reference")])
def test_del_succeeds_after_the_namespace_was_deleted(lab, where, maker, deleter):
    pod = lab.pod()
    conf = macvlan(host_local(lab, "172.16.1.0/24"), cniVersion="1.0.0", name="net")
    lab.add(conf, pod, plugins=where[maker])
    lab.delete(conf, pod, plugins=where[deleter], netns=ns_path("unirail-test-none"))
    assert held(lab) == []


# --- recorded files of libcni's cache ---


@pytest.mark.parametrize("path", sorted((HOSTS / "libcni-1.3.0").glob("*")), ids=lambda p: p.name[:11])
def test_prev_result_is_read_from_libcnis_cache(make_lab, where, path):
    """CHECK and DEL use the result in the runtime's cache file of a pod that the original plugins attached."""
    lab = make_lab(v6=True)
    pod = lab.pod()
    cached = json.loads(path.read_text().replace("/run/netns/unirail-recorded", pod.netns))
    conf = json.loads(base64.b64decode(cached["config"]))
    version, plugins = conf["cniVersion"], conf["plugins"]
    plugins[1]["dataDir"] = str(lab.tmp / "tuning")
    prev = chain("ADD", lab, plugins, pod, REFERENCE, conf["name"], version)
    assert {k: v for k, v in prev.items() if v} == {k: v for k, v in cached["result"].items() if v}
    handed_on = lab.add({"cniVersion": version, "name": "n", "type": "tuning", "dataDir": str(lab.tmp / "none"),
                         "prevResult": cached["result"]}, pod, plugins=where["candidate"])
    assert handed_on == cached["result"], "the result that libcni passes is returned unchanged"
    if version >= "0.4.0":
        chain("CHECK", lab, plugins, pod, where["candidate"], conf["name"], version, prev=cached["result"])
    chain("DEL", lab, plugins, pod, where["candidate"], conf["name"], version,
          prev=cached["result"] if version >= "0.4.0" else None)
    assert link_names(pod.ns) == ["lo"] and list((lab.tmp / "tuning").glob("*")) == []


# --- Multus ---


class Migrated:
    """A pod that Multus attached: a default network by a plugin that unirail does not have, a rail by a chain of plugins, a rail by one
    plugin, a NIC that was moved into the pod."""

    def __init__(self, lab, where, head=False):
        self.lab, self.candidate, self.pod = lab, where["candidate"], lab.pod()
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
        """The node's configuration of unirail-cni, which does not have the pod's networks."""
        nets = [{"name": "other", "plugins": [macvlan(host_local(self.lab, "172.16.7.0/24"))]}]
        return self.lab.rails(nets, multusCniDir=str(self.multus.folder), **more)

    def call(self, pod=None, conf=None, path=None, **kw):
        return self.lab.cni("DEL", conf or self.conf(), pod or self.pod, ifname="eth0", plugins=self.candidate,
                            CNI_PATH=path or f"{self.candidate}:{REFERENCE}", **kw)

    def ok(self, **kw):
        c = self.call(**kw)
        assert (c.status, c.out) == (0, ""), c
        return c

    def check_removed(self, pod=True):
        if pod:
            nothing_is_left(self.lab, self.pod, self.before)
        assert held(self.lab) == [] and self.multus.files(self.pod) == []


@pytest.fixture
def m(lab, where):
    return Migrated(lab, where)


@pytest.mark.parametrize("head", [False, True], ids=["4.3.0", "HEAD"])
def test_pod_that_multus_attached_is_deleted(lab, where, head):
    m = Migrated(lab, where, head)
    m.add()
    assert m.ok().err == ""
    m.check_removed()
    assert link(lab.node, "dev0")["mtu"] == 1450
    m.ok()  # a second DEL has no effect


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-none"])
def test_pod_that_multus_attached_is_deleted_without_a_namespace(m, netns):
    """DEL gets an empty namespace path, or one that does not exist, as after a reboot. The pod has no moved NIC, which would be deleted
    with the namespace."""
    m.confs.pop()
    m.multus.add(m.pod, *m.confs, requests=m.requests)
    m.ok(netns=netns)
    m.check_removed(pod=False)


def test_delegates_are_deleted_in_reverse_with_cached_inputs(m):
    """DEL passes to a plugin of another project the interface name, CNI_ARGS, the keys of its configuration, prevResult and
    runtimeConfig."""
    log = m.lab.tmp / "log"
    script = m.candidate / "foreign"
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
def test_truncated_scratch_file_does_not_fail_del(m, keep):
    m.add()
    scratch = m.multus.scratch(m.pod)
    scratch.write_bytes(scratch.read_bytes()[:int(scratch.stat().st_size * keep)])
    c = m.ok()
    assert "Multus' file cannot be read" in c.err and str(scratch) in c.err
    m.check_removed()


def test_missing_scratch_file_does_not_fail_del(m):
    m.add()
    m.multus.scratch(m.pod).unlink()
    m.ok()
    m.check_removed()


def test_missing_or_truncated_cache_does_not_fail_del(m):
    """The scratch file alone is sufficient for DEL."""
    m.add()
    m.multus.cached(m.pod, "rail0", "net1").write_text('{"kind":"cniCac')
    m.multus.cached(m.pod, "podnet", "eth0").unlink()
    m.ok()
    m.check_removed()


def test_unreadable_delegate_is_deleted_from_its_cache_file(m):
    """DEL knows the interface of an unreadable delegate from its position in the list, and its configuration from libcni's cache file."""
    m.add()
    scratch = m.multus.scratch(m.pod)
    delegates = json.loads(scratch.read_text())
    delegates[1]["Bytes"] = "not base64"
    scratch.write_text(json.dumps(delegates))
    m.ok()
    m.check_removed()


def test_failing_delegate_is_retried_and_others_are_deleted(m):
    m.add()
    c = m.call(path=str(m.candidate))  # ptp is not found
    assert c.status == 1 and "podnet" in c.json["msg"] and "eth0" in c.json["msg"] and 'find plugin "ptp"' in c.json["msg"], c
    assert sorted(link_names(m.pod.ns)) == ["eth0", "lo"] and m.multus.files(m.pod) == [f"podnet-{m.pod.id}-eth0"]
    m.ok()
    m.check_removed()


def test_scratch_file_stays_until_a_failing_delegate_is_deleted(m):
    m.add()
    m.multus.cached(m.pod, "podnet", "eth0").unlink()
    assert m.call(path=str(m.candidate)).status == 1
    assert m.multus.files(m.pod) == [m.pod.id]
    m.ok()
    m.check_removed()


def test_files_of_other_pods_stay(m):
    """The ID of the other pod contains the ID of the deleted pod."""
    m.add()
    other = m.lab.pod("other")
    other.id = f"x-{m.pod.id}-net1"
    m.multus.add(other, {"cniVersion": "1.0.0", "name": "rail9", **macvlan(host_local(m.lab, "172.16.9.0/24"))})
    m.ok()
    assert held(m.lab) == ["172.16.9.2"] and link(other.ns, "eth0")
    assert len(m.multus.files(other)) == 2
    m.ok(pod=other)
    m.check_removed()


def test_del_of_a_pod_that_unirail_attached_leaves_files_of_multus(m):
    """DEL of a pod that unirail attached leaves the files that Multus wrote for other pods of the node."""
    m.add()
    own = m.lab.pod("own")
    m.lab.add(m.conf(), own, ifname="eth0", plugins=m.candidate)
    m.ok(pod=own)
    assert link_names(own.ns) == ["lo"] and len(m.multus.files(m.pod)) == 5 and len(held(m.lab)) == 4


def test_unirail_as_delegate_leaves_the_scratch_file_of_multus(m):
    """unirail-cni, a delegate of Multus, leaves Multus' scratch file, from which Multus deletes its other delegates."""
    conf, pod = m.conf(), m.pod
    m.lab.add(conf, pod, ifname="net1", plugins=m.candidate)
    m.multus.add(pod, m.confs[0], conf, run=False)
    c = m.lab.cni("DEL", conf, pod, ifname="net1", plugins=m.candidate, CNI_PATH=str(m.candidate))  # a call of ptp would fail, since the plugin does not exist
    assert c.status == 0 and link_names(pod.ns) == ["lo"] and m.multus.files(pod) == [pod.id], c


def test_unirail_cni_deletes_a_pod_that_multus_attached_with_unirail_as_delegate(m):
    """Multus attached the pod with unirail-cni as one of its delegates; then the node migrates, and the runtime calls unirail-cni
    instead of Multus."""
    conf, pod = m.conf(), m.pod
    m.lab.add(conf, pod, ifname="net1", plugins=m.candidate)
    m.multus.add(pod, m.confs[2], conf, run=False)
    m.multus.add_one(pod, m.confs[2], "eth0")
    m.ok(conf={**conf, "name": "the-nodes-own"})
    assert link_names(pod.ns) == ["lo"] and held(m.lab) == [] and m.multus.files(pod) == []


@pytest.mark.parametrize("folder,contains", [("", ""), ("var/lib", "absolute path")])
def test_del_without_a_valid_multus_cni_dir_succeeds_and_removes_no_file(m, folder, contains):
    m.add()
    c = m.ok(conf={**m.conf(), "multusCniDir": folder})
    assert contains in c.err and len(m.multus.files(m.pod)) == 5


def test_del_succeeds_without_the_directory_of_multus(m):
    m.ok(conf={**m.conf(), "multusCniDir": "/nonexistent"})


def test_device_file_of_multus_is_removed(m):
    """Multus stores a device file for each delegate with a device."""
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


# --- back to Multus ---


def back(m, **more):
    """unirail-cni's configuration of the same networks, on a node that may migrate back to Multus."""
    nets = [{**c, **({"ifname": m.requests[i]["ifnameRequest"]} if i in m.requests else {})} for i, c in enumerate(m.confs)]
    return m.lab.rails(nets, **{"version": "1.0.0", "cniDir": str(m.multus.folder), **more})


def attach(m, pod=None, conf=None, **kw):
    return m.lab.add(conf or back(m), pod or m.pod, ifname="eth0", plugins=m.candidate, CNI_PATH=f"{m.candidate}:{REFERENCE}", **kw)


def test_pods_of_unirails_single_plugins_are_deleted_by_multus(m):
    """Multus adds the pods with unirail's plugins in Multus' plugin directory, and deletes them with the original plugins (after a
    rollback) or with unirail's."""
    m.multus.by = m.lab.tmp / "mixed"
    m.multus.by.mkdir()
    for path in [*REFERENCE.iterdir(), *m.candidate.iterdir()]:
        link_to = m.multus.by / path.name
        link_to.unlink(missing_ok=True)
        link_to.symlink_to(path)
    m.add()
    assert len(m.multus.delete(m.pod, REFERENCE)) == 4
    m.check_removed()
    assert link(m.lab.node, "dev0")["mtu"] == 1450
    m.add()
    m.multus.delete(m.pod, m.multus.by)
    m.check_removed()


@pytest.mark.parametrize("version", ["0.3.1", "1.0.0"])
def test_multus_deletes_pods_of_unirail(m, version):
    result = attach(m, conf=back(m, version=version))
    assert sorted(link_names(m.pod.ns)) == ["eth0", "lo", "net1", "net3", "rdma1"] and len(held(m.lab)) == 4
    modes = {p: p.stat().st_mode & 0o777 for p in [m.multus.folder, m.multus.scratch(m.pod), m.multus.cached(m.pod, "rail0", "net1")]}
    assert list(modes.values())[1:] == [0o600, 0o600]
    own = json.loads(m.multus.cached(m.pod, "rail0", "net1").read_text())["result"]
    assert own["cniVersion"] == version
    assert [i["address"] for i in own["ips"]] == [i["address"] for i in result["ips"] if i["address"].startswith("172.16.1.")]
    assert m.multus.delete(m.pod, REFERENCE) == [
        ("moved", "net3", ["host-device"]), ("rail1", "rdma1", ["macvlan"]),
        ("rail0", "net1", ["macvlan", "tuning", "sbr"]), ("podnet", "eth0", ["ptp"])]
    m.check_removed()
    assert link(m.lab.node, "dev0")["mtu"] == 1450


def test_multus_deletes_pods_of_unirail_without_a_namespace(m):
    m.confs.pop()
    m.confs[1]["plugins"].pop()  # the original sbr always fails without a namespace
    attach(m)
    m.multus.delete(m.pod, REFERENCE, netns="")
    m.check_removed(pod=False)


def test_cache_entry_has_the_whole_configuration(m):
    """Each network of the entry has the defaults and the common coordinator. Its plugins are in the order in which ADD calls them."""
    log = m.lab.tmp / "log"
    for name in ("macvlan", "coordinator"):
        script = m.lab.tmp / name
        script.write_text(f'#!/bin/sh\nprintf "%s %s " $CNI_COMMAND {name} >>{log}; cat >>{log}; echo >>{log}\n')
        script.chmod(0o755)
    ipam = host_local(m.lab, "172.16.1.0/24")
    conf = m.lab.rails([{"name": "pod", "type": "macvlan", "master": "eth0", "ipam": host_local(m.lab, "172.16.0.0/24")},
                        {"name": "rail0", "ifname": "net7", "type": "macvlan", "master": "rail0"}],
                       version="1.1.0", cniDir=str(m.multus.folder), coordinator={"hostRuleTable": 600},
                       defaults={"mode": "bridge", "mtu": 1400, "master": "none", "ipam": ipam})
    attach(m, conf=conf)
    first, delegate = json.loads(m.multus.scratch(m.pod).read_text())
    assert "ifnameRequest" not in first and delegate["ifnameRequest"] == "net7" and delegate["unirail"] == "rails"
    assert delegate["ConfList"] == {"cniVersion": "1.0.0", "name": "rail0", "plugins": [
        {"type": "macvlan", "ipam": {"type": "host-local"}, "dns": {}}, {"type": "coordinator", "ipam": {}, "dns": {}}]}
    prev = json.loads(m.multus.cached(m.pod, "rail0", "net7").read_text())["result"]
    m.multus.delete(m.pod, m.lab.tmp)
    calls = [line.split(" ", 2) for line in log.read_text().splitlines()]
    assert [c[:2] for c in calls] == [["DEL", "coordinator"], ["DEL", "macvlan"]] * 2
    assert json.loads(calls[0][2]) == {"cniVersion": "1.0.0", "name": "rail0", "type": "coordinator", "hostRuleTable": 600,
                                       "prevResult": prev}
    assert json.loads(calls[1][2]) == {"cniVersion": "1.0.0", "name": "rail0", "type": "macvlan", "master": "rail0",
                                       "mode": "bridge", "mtu": 1400, "ipam": ipam, "prevResult": prev}
    assert prev["ips"][0]["address"] == "172.16.1.2/24" and "net7" in [i["name"] for i in prev["interfaces"]]
    m.lab.delete(conf, m.pod, ifname="eth0", plugins=m.candidate)


def test_cache_entry_of_unirail_is_removed_with_the_pod(m):
    """One DEL by unirail-cni deletes all networks of the pod, and then its cache entry."""
    attach(m)
    other = m.lab.pod("other")
    attach(m, pod=other, conf=m.lab.rails([{"name": "only", "plugins": [macvlan(host_local(m.lab, "172.16.9.0/24"))]}],
                                          cniDir=str(m.multus.folder)))
    assert m.ok(conf=back(m)).err == ""
    assert link_names(m.pod.ns) == ["lo"] and m.multus.files(m.pod) == [] and len(m.multus.files(other)) == 2
    m.ok(conf=back(m))


def test_cache_entry_of_unirail_stays_until_all_networks_are_deleted(m):
    attach(m)
    c = m.call(conf=back(m), path=str(m.candidate))  # ptp is not found
    assert c.status == 1 and 'find plugin "ptp"' in c.json["msg"] and len(m.multus.files(m.pod)) == 5
    m.ok(conf=back(m))
    m.check_removed()


def test_del_with_a_netconf_of_another_name_deletes_the_networks_of_the_cache_entry(m):
    """DEL with a netconf of the same name as the one in the cache entry deletes the networks of the netconf passed to DEL. DEL with a
    netconf of another name deletes the networks of the cache entry."""
    attach(m)
    m.ok()  # same name: this DEL deletes the networks of its netconf, not those of the cache entry
    m.ok(conf={**m.conf(cniDir=str(m.multus.folder)), "name": "new"})
    m.check_removed()


def test_failed_add_leaves_no_cache_entry(m):
    conf = back(m)
    conf["networks"].append({"name": "bad", "plugins": [macvlan(host_local(m.lab, "172.16.3.0/24"), master="none")]})
    m.lab.fail("ADD", conf, m.pod, ifname="eth0", plugins=m.candidate, CNI_PATH=f"{m.candidate}:{REFERENCE}", contains="none")
    m.check_removed()


def test_add_fails_if_its_cache_entry_cannot_be_written(m):
    conf = back(m)
    conf["cniDir"] = str(m.lab.tmp / "file")
    (m.lab.tmp / "file").write_text("")
    m.lab.fail("ADD", conf, m.pod, ifname="eth0", plugins=m.candidate, CNI_PATH=f"{m.candidate}:{REFERENCE}",
               contains=["save the pod's entry for Multus in", "conf.cniDir", "Not a directory (ENOTDIR)"])
    m.check_removed()
    conf["cniDir"] = "var/lib"
    m.lab.fail("ADD", conf, m.pod, code=7, ifname="eth0", plugins=m.candidate, contains="conf.cniDir is 'var/lib', expected an absolute path")


def test_scratch_file_of_multus_in_the_cni_dir_of_unirail_stays(m):
    """unirail-cni is a delegate of Multus and has the same cniDir: it writes no cache entry, and changes no file of Multus."""
    conf = m.lab.rails([{"name": "rail0", "plugins": [macvlan(host_local(m.lab, "172.16.1.0/24"))]}], cniDir=str(m.multus.folder))
    m.multus.add(m.pod, m.confs[0], conf, run=False)
    before = m.multus.scratch(m.pod).read_bytes()
    m.lab.add(conf, m.pod, ifname="net1", plugins=m.candidate)
    assert m.multus.scratch(m.pod).read_bytes() == before and m.multus.files(m.pod) == [m.pod.id]
    m.lab.delete(conf, m.pod, ifname="net1", plugins=m.candidate)
    assert m.multus.files(m.pod) == [m.pod.id] and link_names(m.pod.ns) == ["lo"]


def test_gc_removes_cache_entries_of_deleted_pods(m):
    """GC removes entries of its own network; entries of Multus and of other networks stay."""
    net = [{"name": "rail0", "plugins": [macvlan(host_local(m.lab, "172.16.1.0/24"))]}]
    conf = m.lab.rails(net, cniDir=str(m.multus.folder))
    pods = [m.lab.pod(f"p{i}") for i in range(4)]
    for pod in pods[:3]:
        attach(m, pod=pod, conf={**conf, "name": "other"} if pod is pods[2] else conf)
    m.multus.add(pods[3], m.confs[0], run=False)
    gc = {**conf, "cni.dev/valid-attachments": [{"containerID": pods[0].id, "ifname": "eth0"}]}
    m.lab.ok("GC", gc, pods[0], plugins=m.candidate)
    assert [len(m.multus.files(p)) for p in pods] == [2, 0, 2, 1]
    m.lab.ok("GC", conf, pods[0], plugins=m.candidate)  # GC without cni.dev/valid-attachments removes nothing
    assert [len(m.multus.files(p)) for p in pods] == [2, 0, 2, 1]
    for pod in pods[:3]:
        m.lab.delete({**conf, "name": "other"} if pod is pods[2] else conf, pod, ifname="eth0", plugins=m.candidate)


def test_multus_plugin_directory_has_precedence(m):
    """Multus' directory of plugins (binDir) precedes the directories of CNI_PATH, for unirail and for the plugins that it executes."""
    folder = m.lab.tmp / "bin"
    folder.mkdir()
    log = m.lab.tmp / "log"
    (folder / "ptp").write_text(f'#!/bin/sh\necho $CNI_COMMAND $CNI_PATH >>{log}\nexec {REFERENCE}/ptp\n')
    (folder / "ptp").chmod(0o755)
    (folder / "host-local").symlink_to(REFERENCE / "host-local")
    conf = m.lab.rails([m.confs[0]], version="1.0.0", binDir=str(folder))
    m.lab.add(conf, m.pod, ifname="eth0", plugins=m.candidate, CNI_PATH=str(m.candidate))
    m.lab.delete(conf, m.pod, ifname="eth0", plugins=m.candidate, CNI_PATH=str(m.candidate))
    assert log.read_text().splitlines() == [f"{v} {folder}:{m.candidate}" for v in ("ADD", "DEL")]
    # The same directory is used for the delegates of a pod that Multus attached.
    m.multus.add(m.pod, m.confs[0])
    m.ok(conf=m.conf(binDir=str(folder)), path=str(m.candidate))
    m.check_removed()
    m.lab.fail("ADD", {**conf, "binDir": "bin"}, m.pod, code=7, plugins=m.candidate, contains="conf.binDir is 'bin', expected an absolute path")
