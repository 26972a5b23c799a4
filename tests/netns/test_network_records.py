# SPDX-License-Identifier: Apache-2.0
"""unirail records the networks that pods of this node got from the agent, so that GC releases addresses of a network without
cache entries (src/cni/cluster/network_record.h)."""
import json

import pytest
from lab import REFERENCE
from pod_agent import agent  # noqa: F401

from test_multus import conf, leases
from test_multus_delegates import lose_cache_entries, rail_1_1, recorder, valid  # noqa: F401
from test_whereabouts import held


def folder(lab):
    return lab.tmp / "multus" / "unirail" / "networks"


def records(lab):
    return sorted(p.name for p in folder(lab).iterdir()) if folder(lab).is_dir() else []


def macvlan(nic, ipam):
    return {"cniVersion": "1.1.0", "name": f"net-{nic}", "plugins": [{"type": "macvlan", "master": nic, "mode": "bridge", "ipam": ipam}]}


def used(lab):
    """The used addresses of all stores of the lab."""
    return sorted([*leases(lab), *(ip for _, ip in held(lab)), *lab.used()])


IPAM = {
    "host-local": lambda lab: ("kube-system", {"type": "host-local", "dataDir": str(lab.tmp / "networks"),
                                               "ranges": [[{"subnet": "172.16.9.0/24"}]]}),
    "static": lambda lab: ("team", {"type": "static", "addresses": [{"address": "172.16.9.7/24"}]}),
    "spiderpool": lambda lab: ("team", {"type": "spiderpool", "default_ipv4_ippool": ["rail0"]}),
    "whereabouts": lambda lab: ("kube-system", {"type": "whereabouts", "range": "172.16.1.0/24", "state_dir": str(lab.state_dir)}),
}


def gc(lab, c, pod, *alive, **env):
    call = lab.cni("GC", {**c, "cni.dev/valid-attachments": valid(*alive)}, pod, ifname="", **env)
    assert call.status == 0 and call.out == "", call
    return call


@pytest.mark.parametrize("ipam", IPAM)
def test_gc_releases_addresses_of_a_network_without_cache_entries(lab, agent, ipam):
    """The address that a container got in the same network through a netconf of another name stays: that container's cache entry exists."""
    ns, what = IPAM[ipam](lab)
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    lost, other, running = lab.pod("lost"), lab.pod("other"), lab.pod("kept")
    agent.networks((f"{ns}/rail0", "eth0", macvlan("rail0", what), {"trusted": ns == "kube-system"}))
    lab.add(c, lost, ifname="eth0")
    if ipam != "static":
        lab.add({**c, "name": "another"}, other, ifname="eth0")
    before = used(lab)
    agent.networks(("team/rail1", "eth0", macvlan("rail1", {"type": "static", "addresses": [{"address": "172.16.2.9/24"}]})))
    lab.add(c, running, ifname="eth0")
    assert used(lab) == before and len(before) == (0 if ipam == "static" else 2)
    mine = [r for r in records(lab) if json.loads((folder(lab) / r).read_text())["network"] == c["name"]]
    modes = [p.stat().st_mode & 0o777 for p in folder(lab).parent.rglob("*")]
    lose_cache_entries(lab, lost)
    agent.stop()
    gc(lab, c, running, running)
    assert len(used(lab)) == len(before) // 2 and set(used(lab)) < set(before) | {"none"}
    assert [r.rsplit("-", 1)[0] for r in mine] == sorted([f"{ns}_rail0", "team_rail1"])
    assert sorted(set(modes)) == [0o600, 0o700]
    # records of used networks stay, others are removed
    left = [r for r in records(lab) if json.loads((folder(lab) / r).read_text())["network"] == c["name"]]
    assert [r.rsplit("-", 1)[0] for r in left] == ["team_rail1"]
    lab.delete(c, running, ifname="eth0")
    if ipam != "static":
        lab.delete({**c, "name": "another"}, other, ifname="eth0")
    assert used(lab) == []
    gc(lab, c, running)
    gc(lab, {**c, "name": "another"}, running)
    assert records(lab) == []


def test_network_is_recorded_once(lab, agent, recorder):  # noqa: F811
    """A network is recorded once, even if the requested MAC, addresses or cni-args differ between pods."""
    agent.networks(("kube-system/rail0", "eth0", rail_1_1(lab)))
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    for i, more in enumerate([{}, {"mac": "02:00:5e:10:00:09", "cniArgs": {"k": "v"}}, {"mac": "", "ips": ["172.16.9.77"]}]):
        agent.answer["networks"][0].update(more)
        lab.add(c, lab.pod(f"p{i}"), ifname="eth0", CNI_PATH=str(recorder.bin))
    assert len(records(lab)) == 1
    agent.networks(("kube-system/rail0", "eth0", rail_1_1(lab, more="changed")))
    lab.add(c, lab.pod("p3"), ifname="eth0", CNI_PATH=str(recorder.bin))
    assert len(records(lab)) == 2


def test_gc_trusts_a_recorded_definition_that_was_trusted_at_add(lab, agent, recorder):  # noqa: F811
    """The record says that the agent trusted a definition of a tenant's namespace: GC executes its plugins without a check, although the
    cache entries are lost and no agent runs."""
    agent.networks(("team/rail0", "eth0", rail_1_1(lab), {"trusted": True}))
    c, pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod()
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    agent.stop()
    call = gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert call.err == "" and recorder.called("GC") != [] and leases(lab) == [] and records(lab) == []


@pytest.mark.parametrize("ns", ["team", "kube-system"])
def test_gc_checks_a_recorded_definition_that_was_untrusted_at_add(lab, agent, recorder, ns):  # noqa: F811
    """A definition that was untrusted at its ADD is checked at GC as well, even if its namespace is trusted by default: at the ADD an
    annotation may have declared the namespace untrusted."""
    net = macvlan("rail0", {"type": "static", "addresses": [{"address": "172.16.9.7/24"}]})
    net["plugins"].append({"type": "chained"})
    agent.networks((f"{ns}/rail0", "eth0", net, {"trusted": False}))
    c, pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0", multusNamespace=ns), lab.pod()
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    (recorder.bin / "chained").chmod(0o777)
    call = gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert "can be changed by others than root" in call.err and f"{ns}_rail0-" in call.err, call
    assert recorder.called("GC") == [] and len(records(lab)) == 1
    (recorder.bin / "chained").chmod(0o755)
    gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert recorder.called("GC") != [] and records(lab) == []


def test_changed_trust_creates_another_record(lab, agent, recorder):  # noqa: F811
    net = macvlan("rail0", {"type": "static", "addresses": [{"address": "172.16.9.7/24"}]})
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    for i, trusted in enumerate([True, False, True]):
        agent.networks(("team/rail0", "eth0", net, {"trusted": trusted}))
        pod = lab.pod(f"p{i}")
        lab.add(c, pod, ifname="eth0")
        lab.delete(c, pod, ifname="eth0")
    assert sorted(json.loads((folder(lab) / r).read_text()).get("trusted", False) for r in records(lab)) == [False, True]
    gc(lab, c, pod)
    assert records(lab) == []


def spoil_content(at, lab):
    one, = at.iterdir()
    one.write_text(one.read_text().replace('"chained"', '"link"'))


def spoil_end(at, lab):
    one, = at.iterdir()
    one.write_text(one.read_text()[:100])


def spoil_link(at, lab):
    one, = at.iterdir()
    one.rename(lab.tmp / "elsewhere")
    one.symlink_to(lab.tmp / "elsewhere")


def spoil_owner(at, lab):
    at.chmod(0o777)


def spoil_folder(at, lab):
    at.rename(lab.tmp / "elsewhere")
    at.symlink_to(lab.tmp / "elsewhere")


@pytest.mark.parametrize("spoil, written_again", [(spoil_content, False), (spoil_end, True), (spoil_link, True), (spoil_owner, False),
                                                  (spoil_folder, False)])
def test_damaged_record_is_not_executed(lab, agent, recorder, spoil, written_again):  # noqa: F811
    """Neither GC nor the next ADD fails because of the damaged record."""
    agent.networks(("kube-system/rail0", "eth0", rail_1_1(lab)))
    c, pod, next_pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod(), lab.pod("next")
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    spoil(folder(lab), lab)
    call = gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert "recorded network" in call.err, call
    assert recorder.called("GC") == [] and len(leases(lab)) == 1
    lab.add(c, next_pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, next_pod)
    gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert (leases(lab) == []) == (written_again or spoil is spoil_content)


def test_number_of_records_of_each_namespace_is_limited(lab, agent):
    """A namespace has at most 64 records: an ADD beyond the limit succeeds without a record, and other namespaces have their own limit."""
    folder(lab).mkdir(parents=True, mode=0o700)
    for i in range(64):
        (folder(lab) / f"team_n{i}-{i:032x}.json").write_text("{}")
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    static = {"type": "static", "addresses": [{"address": "172.16.2.9/24"}]}
    for ns, n in (("team", 64), ("teams", 65), ("tea", 66)):
        agent.networks((f"{ns}/rail1", "eth0", macvlan("rail1", static)))
        pod = lab.pod(ns)
        call = lab.cni("ADD", c, pod, ifname="eth0")
        assert call.status == 0 and len(records(lab)) == n, call
        assert ("64 records of the namespace" in call.err) == (ns == "team")
        lab.delete(c, pod, ifname="eth0")
    agent.networks(("big/rail1", "eth0", {**macvlan("rail1", static), "padding": "x" * (64 << 10)}))
    call = lab.cni("ADD", c, lab.pod("big"), ifname="eth0")
    assert call.status == 0 and "65536 bytes" in call.err and len(records(lab)) == 66
    gc(lab, c, pod)
    assert records(lab) == [], "GC also removes a record that does not match its digest"


def test_add_succeeds_where_records_cannot_be_written(lab, agent):
    (lab.tmp / "multus").mkdir()
    (lab.tmp / "multus" / "unirail").write_text("a file")
    agent.networks(("team/rail0", "eth0", macvlan("rail0", {"type": "spiderpool", "default_ipv4_ippool": ["rail0"]})))
    c, pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod()
    call = lab.cni("ADD", c, pod, ifname="eth0")
    assert call.status == 0 and "ENOTDIR" in call.err and len(lab.used()) == 1
    gc(lab, c, pod)
    assert lab.used() == {}


def test_add_succeeds_on_a_full_disk_without_a_record(lab, agent, tmp_path):
    agent.networks(("team/rail0", "eth0", macvlan("rail0", {"type": "spiderpool", "default_ipv4_ippool": ["rail0"]})))
    c, pod, full = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod(), tmp_path / "full"
    full.mkdir()
    (full / "multus").write_text(
        "#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\nexec strace -qq -o /dev/null -e trace=write -e inject=write:error=ENOSPC "
        f"-P {folder(lab)}/.new.tmp {lab.plugins}/multus\n")
    (full / "multus").chmod(0o755)
    call = lab.cni("ADD", c, pod, ifname="eth0", plugins=full)
    assert call.status == 0 and "ENOSPC" in call.err and "network is not recorded" in call.err, call
    assert records(lab) == [] and len(lab.used()) == 1
    lab.delete(c, pod, ifname="eth0")
    lab.add(c, pod, ifname="eth0")
    assert len(records(lab)) == 1, "the next ADD writes the record"


def test_gc_retains_the_record_of_a_network_to_which_a_pod_is_added_meanwhile(lab, agent, recorder):  # noqa: F811
    """An ADD that runs during the GC may find the record and therefore write none, so the GC must not remove it."""
    agent.networks(("kube-system/rail0", "eth0", rail_1_1(lab)))
    c, pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod()
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    new = lab.tmp / "multus" / "newcomer"
    (recorder.bin / "chained").write_text(f"#!/bin/sh\ncat >/dev/null\necho [] >{new}\n")
    gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert new.exists() and leases(lab) == [] and len(records(lab)) == 1
    (recorder.bin / "chained").write_text("#!/bin/sh\ncat >/dev/null\n")
    new.unlink()
    gc(lab, c, pod, CNI_PATH=str(recorder.bin))
    assert records(lab) == []


@pytest.mark.parametrize("ns, status", [("team", 0), ("kube-system", 1)])
def test_failing_network_of_a_tenant_does_not_fail_gc(lab, agent, recorder, ns, status):  # noqa: F811
    """The network's plugin fails each GC: the error is logged, and is returned to the runtime only if the network is an
    administrator's."""
    net = macvlan("rail0", {"type": "static", "addresses": [{"address": "172.16.9.7/24"}]})
    net["plugins"].append({"type": "chained"})
    agent.networks((f"{ns}/rail0", "eth0", net, {"trusted": ns != "team"}))
    c, pod = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0"), lab.pod()
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    (recorder.bin / "chained").write_text(
        '#!/bin/sh\ncat >/dev/null\necho \'{"cniVersion": "1.1.0", "code": 100, "msg": "refuses GC"}\'\nexit 1\n')
    for _ in range(2):
        call = lab.cni("GC", {**c, "cni.dev/valid-attachments": []}, pod, ifname="", CNI_PATH=str(recorder.bin))
        assert call.status == status and "refuses GC" in call.err and len(records(lab)) == 1, call


def test_gc_refuses_a_list_of_more_than_16384_attachments(lab, agent):
    c, pod = conf(lab, agent, delegates=[rail_1_1(lab)], cniVersion="1.1.0", binDir=str(REFERENCE)), lab.pod()
    many = [{"containerID": f"{i:064x}", "ifname": "eth0"} for i in range((16 << 10) + 1)]
    lab.fail("GC", {**c, "cni.dev/valid-attachments": many}, pod, 7, ifname="",
             contains="conf.cni.dev/valid-attachments has 16385 attachments, the limit is 16384")
