# SPDX-License-Identifier: Apache-2.0
"""Plugins of unirail and of other projects in one pod: the state of a cluster during migration."""
import json

import pytest
from lab import (REFERENCE, VERSIONS, has_address, ip, link_names, nft, ping, routes, rules, same,
                 same_shape, state, sysctl)

STATIC = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
          "routes": [{"dst": "0.0.0.0/0"}]}


def path(lab):
    return f"{lab.plugins}:{REFERENCE}"


def bridge(lab):
    """A default network of another plugin: eth0 is a veth on a bridge of the node."""
    return {"name": "podnet", "plugins": [
        {"type": "bridge", "bridge": "cbr0", "isGateway": True,
         "ipam": {"type": "host-local", "dataDir": str(lab.tmp / "networks"),
                  "ranges": [[{"subnet": "10.233.70.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}


def mixed(lab):
    nets = [bridge(lab), lab.network("rail0", coordinator={}), lab.network("rail1", coordinator={})]
    lab.rail_pools()
    return lab.rails(nets, "1.0.0")


def test_default_network_of_another_plugin_is_executed(lab):
    """`bridge` is executed from CNI_PATH, the rails are unirail's; the coordinator uses bridge's eth0."""
    conf, pod = mixed(lab), lab.pod()
    result = lab.add(conf, pod, ifname="eth0", CNI_PATH=path(lab))
    names = [i["name"] for i in result["interfaces"]]
    assert names[-2:] == ["net1", "net2"] and "eth0" in names and "cbr0" in names
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1", "net2"]
    assert "default via 10.233.70.1 dev eth0" in routes(pod.ns, "main")
    assert "default via 172.16.1.1 dev net1" in routes(pod.ns, 101)
    assert "default via 172.16.2.1 dev net2" in routes(pod.ns, 102)
    assert {r[1] for r in rules(pod.ns)} >= {"172.16.1.10", "172.16.2.10", "10.233.70.2"}
    for dev, target in (("eth0", "10.233.70.1"), ("net1", "172.16.1.1"), ("net2", "172.16.2.1")):
        assert ping(pod.ns, dev, target)
    conf["prevResult"] = result
    lab.delete(conf, pod, ifname="eth0", CNI_PATH=path(lab))
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}
    assert not list((lab.tmp / "networks" / "podnet").glob("10.*"))
    assert lab.state_dir.exists()


def test_default_network_is_deleted_if_a_rail_fails(lab):
    conf, pod = mixed(lab), lab.pod()
    conf["networks"][2]["plugins"][0]["master"] = "nic9"
    e = lab.fail("ADD", conf, pod, ifname="eth0", CNI_PATH=path(lab), contains="nic9")
    assert "\n" not in e["msg"] and link_names(pod.ns) == ["lo"]
    assert not list((lab.tmp / "networks").glob("podnet/10.*"))


def test_missing_plugin_is_reported(lab):
    conf, pod = mixed(lab), lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", conf, pod, ifname="eth0", contains=["bridge", str(lab.plugins)])
    assert (state(lab.node), pod.state()) == before and lab.used() == {}


def test_rails_with_tuning_between_macvlan_and_coordinator_are_attached(lab):
    """Each rail is a chain of macvlan, tuning and coordinator, all of which unirail-cni runs in its own process."""
    lab.rail_pools()
    nets = lab.all_networks(coordinator={"mode": "underlay"})
    for n in nets:
        n["plugins"].insert(1, {"type": "tuning", "sysctl": {f"net.ipv4.conf.{n['ifname']}.rp_filter": "2"},
                                "dataDir": str(lab.tmp / "tuning")})
    conf, pod = lab.rails(nets, "1.0.0"), lab.pod()
    conf["prevResult"] = lab.add(conf, pod, ifname="eth0", CNI_PATH=path(lab))
    for dev in ("eth0", "net1", "net2"):
        assert sysctl(pod.ns, f"net/ipv4/conf/{dev}/rp_filter") == "2"
    assert "default via 172.16.2.1 dev net2" in routes(pod.ns, 102)
    lab.ok("CHECK", conf, pod, ifname="eth0", CNI_PATH=path(lab))
    lab.delete(conf, pod, ifname="eth0", CNI_PATH=path(lab))
    assert link_names(pod.ns) == ["lo"]


def test_coordinator_adds_rules_and_routes_after_debians_macvlan(lab):
    """A partly migrated chain: macvlan and host-local are Debian's, the coordinator is unirail's."""
    pod = lab.pod()
    results = []
    for i, (nic, ifname) in enumerate(zip(lab.nics, ("eth0", "net1", "net2"))):
        ipam = {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "routes": [{"dst": "0.0.0.0/0"}],
                "ranges": [[{"subnet": f"172.16.{i}.0/24", "rangeStart": f"172.16.{i}.30"}]]}
        prev = lab.add(lab.macvlan(nic, ipam), pod, ifname=ifname, plugins=REFERENCE)
        results.append(lab.add(lab.coordinator(nic, prev=prev, mode="underlay"), pod, ifname=ifname))
    assert rules(pod.ns)[1:4] == [(998, "172.16.2.30", None, "102"), (999, "172.16.1.30", None, "101"),
                                  (1000, "all", "0x1", "100")]
    for i, ifname in enumerate(("eth0", "net1", "net2")):
        assert ping(pod.ns, ifname, f"172.16.{i}.1")
        lab.ok("CHECK", lab.coordinator(prev=results[i], mode="underlay"), pod, ifname=ifname)


@pytest.mark.parametrize("version", VERSIONS)
def test_coordinator_returns_the_result_unchanged(lab, version):
    """The coordinator prints prevResult unchanged, in the configuration's version."""
    pod = lab.pod()
    prev = lab.add(lab.macvlan("eth0", {**STATIC, "addresses": [{"address": "172.16.0.20/24"}]}, version), pod,
                   ifname="eth0")
    got = lab.add(lab.coordinator("net", version, prev, mode="underlay"), pod, ifname="eth0")
    assert got == prev


def test_ipv6_only_pod_is_attached(make_lab):
    lab = make_lab(v6=True)
    lab.rail_pools(v6=True)
    nets = []
    for i, nic in enumerate(lab.nics):
        nets.append(lab.network(nic, "eth0" if i == 0 else f"net{i}", coordinator={"mode": "underlay"},
                                ipam=lab.ipam(v6=[nic + "-v6"])))
    conf, pod = lab.rails(nets), lab.pod()
    before = state(lab.node)
    conf["prevResult"] = lab.add(conf, pod, ifname="eth0")
    for i, dev in enumerate(("eth0", "net1", "net2")):
        address = f"fd00:16:{i}::10" if i else "fd00:16::10"
        assert has_address(pod.ns, dev, address + "/64")
        assert ping(pod.ns, dev, f"fd00:16:{i}::1")
    assert [r[1:] for r in rules(pod.ns, "-6")][1:3] == [("fd00:16:2::10", None, "102"),
                                                        ("fd00:16:1::10", None, "101")]
    assert [r[1] for r in rules(pod.ns)] == ["all"] * 3  # IPv4 has only the kernel's three default rules
    lab.ok("CHECK", conf, pod, ifname="eth0")
    lab.delete(conf, pod, ifname="eth0")
    same(same_shape(before), same_shape(state(lab.node)), "the node")
    assert nft(pod.ns) == []


def test_gc_restores_the_node(lab):
    """GC deletes the veth pair and the node's routes of a pod that the runtime does not list and for which it called no DEL."""
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator={"mode": "underlay"}))
    lost, live = lab.pod(), lab.pod()
    for p in (lost, live):
        lab.add(conf, p, ifname="eth0")
    valid = [{"containerID": live.id, "ifname": "eth0"}]
    lab.ok("GC", {**conf, "cni.dev/valid-attachments": valid}, live, ifname="eth0")
    assert lost.host_veth not in link_names(lab.node) and live.host_veth in link_names(lab.node)
    assert [r.split()[0] for r in routes(lab.node, 500)] == [f"172.16.{i}.11" for i in range(3)]
    assert ping(lab.node, live.host_veth, "172.16.0.11")


def test_second_add_succeeds_after_a_change_of_the_nodes_address(lab):
    """The node gets another address between the ADDs of two pods. The second ADD succeeds although the routes that the first ADD created
    still exist."""
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator={"mode": "underlay"}))
    first, second = lab.pod(), lab.pod()
    lab.add(conf, first, ifname="eth0")
    ip(lab.node, "addr", "add", "172.16.1.3/24", "dev", "rail0")
    lab.add(conf, second, ifname="eth0")
    assert [r for r in routes(second.ns, "main") if r.startswith("172.16.1.3 ")]
    for p in (first, second):
        lab.delete(conf, p, ifname="eth0")


def test_ipam_of_another_project_gets_the_networks_name_and_version(lab):
    """unirail-cni passes the network's name and CNI version to an IPAM plugin that it executes, as libcni does. The plugin dhcp, for
    example, identifies a lease by the network's name."""
    folder = lab.tmp / "bin"
    folder.mkdir()
    answer = {"cniVersion": "1.0.0", "ips": [{"address": "172.16.1.77/24"}]}
    (folder / "lease").write_text(f"#!/bin/sh\ncat >{folder}/$CNI_COMMAND\n[ $CNI_COMMAND != ADD ] || echo '{json.dumps(answer)}'\n")
    (folder / "lease").chmod(0o755)
    ipam = {"type": "lease", "Name": "own", "keys": [1, 2.5, {"deep": None}]}
    conf, pod = lab.rails([lab.network("rail0", "net1", ipam=ipam, coordinator=False)], "1.1.0"), lab.pod()
    calls = f"{lab.plugins}:{folder}"
    result = lab.add(conf, pod, ifname="eth0", CNI_PATH=calls)
    valid = [{"containerID": pod.id, "ifname": "eth0"}]
    lab.ok("CHECK", {**conf, "prevResult": result}, pod, ifname="eth0", CNI_PATH=calls)
    lab.ok("GC", {**conf, "cni.dev/valid-attachments": valid}, pod, ifname="eth0", CNI_PATH=calls)
    lab.ok("STATUS", conf, pod, ifname="eth0", CNI_PATH=calls)
    lab.delete(conf, pod, ifname="eth0", CNI_PATH=calls)
    for command in ("ADD", "CHECK", "GC", "STATUS", "DEL"):
        given = json.loads((folder / command).read_text())
        assert (given["cniVersion"], given["name"], given["ipam"]) == ("1.1.0", "rail0", ipam), (command, given)
        assert given["type"] == "macvlan" and given["master"] == "rail0"
        if command == "GC":
            assert [v["containerID"] for v in given["cni.dev/valid-attachments"]] == [pod.id]
            assert given["cni.dev/attachments"] == given["cni.dev/valid-attachments"]
