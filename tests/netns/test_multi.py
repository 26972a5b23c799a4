# SPDX-License-Identifier: Apache-2.0
"""unirail-cni attaches every network of a pod in one process and leaves the same kernel state as the chain of
plugins."""
import json
import os
import re

import pytest
from lab import (has_address, ip, link, link_names, ping, routes, rules, run, same, same_shape, state)

CO = {"mode": "underlay", "hijackCIDR": ["169.254.0.0/16"]}


@pytest.fixture
def eight(make_lab):
    lab = make_lab(rails=8)
    lab.rail_pools()
    return lab


def one_by_one(lab, pod, networks):
    """Calls each plugin of each network separately, as Multus does."""
    results = []
    for net in networks:
        results.append(lab.chain("ADD", net["plugins"], pod, name=net["name"], ifname=net["ifname"],
                                 version="1.0.0"))
    return results


def remove_one_by_one(lab, pod, networks, results):
    for net, prev in reversed(list(zip(networks, results))):
        lab.chain("DEL", net["plugins"], pod, name=net["name"], ifname=net["ifname"], prev=prev)


def shapes(lab, pod):
    cut = [(pod.host_veth, "VETH"), (pod.ns, "POD"), (pod.id, "ID")]
    return same_shape(pod.state(), *cut), same_shape(state(lab.node), *cut)


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "dual"])
def test_unirail_cni_creates_the_same_state_as_the_plugin_chain(make_lab, v6):
    seen = []
    for way in ("chain", "unirail-cni"):
        lab = make_lab(rails=3, v6=v6)
        lab.rail_pools(v6=v6)
        nets = [lab.network(nic, "eth0" if i == 0 else f"net{i}", coordinator=CO,
                            ipam=lab.ipam(nic, v6=[nic + "-v6"] if v6 else ()))
                for i, nic in enumerate(lab.nics)]
        pod = lab.pod()
        before = shapes(lab, pod)
        if way == "chain":
            results = one_by_one(lab, pod, nets)
        else:
            prev = lab.add(lab.rails(nets), pod, ifname="eth0")
        seen.append(shapes(lab, pod))
        if way == "chain":
            remove_one_by_one(lab, pod, nets, results)
        else:
            lab.delete(lab.rails(nets, prevResult=prev), pod, ifname="eth0")
        after = shapes(lab, pod)
        same(before[0], after[0], "the pod after DEL")
        same(before[1], after[1], "the node after DEL")
    same(seen[0][0], seen[1][0], "the pod")
    same(seen[0][1], seen[1][1], "the node")


@pytest.mark.parametrize("maker", ["chain", "unirail-cni"])
def test_pod_added_by_a_plugin_chain_is_deleted_by_unirail_cni_and_vice_versa(lab, maker):
    lab.rail_pools()
    nets = lab.all_networks(coordinator=CO)
    pod = lab.pod()
    conf = lab.rails(nets)
    if maker == "chain":
        one_by_one(lab, pod, nets)
        lab.delete(conf, pod, ifname="eth0")
    else:
        lab.add(conf, pod, ifname="eth0")
        remove_one_by_one(lab, pod, nets, [None] * len(nets))
    assert link_names(pod.ns) == ["lo"]
    assert pod.host_veth not in link_names(lab.node) and lab.used() == {}


def test_eight_rails_are_attached_and_deleted(eight):
    lab, pod = eight, eight.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    result = lab.add(conf, pod, ifname="eth0")
    names = ["eth0"] + [f"net{i}" for i in range(1, 9)]
    assert sorted(link_names(pod.ns)) == sorted(names + ["lo", "veth0"])
    assert [i["name"] for i in result["interfaces"]][:1] == ["eth0"]
    assert len(rules(pod.ns)) == 3 + 1 + 8
    for i, name in enumerate(names):
        assert has_address(pod.ns, name, f"172.16.{i}.10/24")
        if i:
            assert f"default via 172.16.{i}.1 dev {name}" in routes(pod.ns, 100 + i)
        assert ping(pod.ns, name, f"172.16.{i}.1")
    assert len(lab.used()) == 9


def test_every_interface_and_address_is_in_the_result(eight):
    lab, pod = eight, eight.pod()
    result = lab.add(lab.rails(lab.all_networks(coordinator=CO)), pod, ifname="eth0")
    got = {}
    for a in result["ips"]:
        i = result["interfaces"][a["interface"]]
        assert i["sandbox"] == pod.netns and i["mac"] == link(pod.ns, i["name"])["address"]
        got[i["name"]] = a["address"]
    assert got["eth0"] == "172.16.0.10/24"
    for name, address in got.items():
        assert has_address(pod.ns, name, address)


def test_unirail_cni_prints_the_result_in_the_cni_version_of_the_netconf(lab):
    lab.rail_pools()
    for version in ("0.3.1", "0.4.0", "1.0.0"):
        pod = lab.pod()
        conf = lab.rails(lab.all_networks(coordinator=CO), version)
        result = lab.add(conf, pod, ifname="eth0")
        assert result["cniVersion"] == version
        assert ("version" in result["ips"][0]) == (version < "1")
        lab.delete(conf, pod, ifname="eth0")
        assert link_names(pod.ns) == ["lo"]


def test_networks_without_ifname_get_the_names_eth0_net1_net2(lab):
    lab.rail_pools()
    nets = lab.all_networks(coordinator=CO)
    for n in nets:
        del n["ifname"]
    pod = lab.pod()
    lab.add(lab.rails(nets), pod, ifname="eth0")
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1", "net2", "veth0"]


def test_rails_are_added_beside_an_eth0_of_another_plugin(lab):
    lab.rail_pools()
    pod = lab.pod()
    ip(lab.node, "link", "add", "cali0", "type", "veth", "peer", "name", "eth0", "netns", pod.ns)
    ip(lab.node, "link", "set", "cali0", "up")
    ip(pod.ns, "addr", "add", "10.233.70.5/32", "dev", "eth0")
    ip(pod.ns, "link", "set", "eth0", "up")
    ip(pod.ns, "route", "add", "169.254.1.1", "dev", "eth0", "scope", "link")
    ip(pod.ns, "route", "add", "default", "via", "169.254.1.1", "dev", "eth0")
    nets = [lab.network("rail0", "net1", coordinator={}), lab.network("rail1", "net2", coordinator={})]
    lab.add(lab.rails(nets), pod, ifname="net1")
    assert "default via 172.16.2.1 dev net2" in routes(pod.ns, 102)
    assert "default via 169.254.1.1 dev eth0" in routes(pod.ns, "main")
    lab.delete(lab.rails(nets), pod, ifname="net1")
    assert sorted(link_names(pod.ns)) == ["eth0", "lo"]


def test_several_rails_get_addresses_from_one_pool(lab):
    lab.pools("[pool flat]\nsubnet=172.16.0.0/16\nips=172.16.100.1-172.16.100.200\ngateway=172.16.0.1\n")
    nets = [lab.network(nic, ipam=lab.ipam("flat"), coordinator=CO) for nic in lab.nics]
    lab.add(lab.rails(nets), lab.pod(), ifname="eth0")
    assert sorted(lab.used()) == ["172.16.100.1", "172.16.100.2", "172.16.100.3"]


# --- DEL ---


def test_repeated_del_and_del_before_add_succeed(eight):
    lab, pod = eight, eight.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    lab.delete(conf, pod, ifname="eth0")
    lab.add(conf, pod, ifname="eth0")
    for _ in range(3):
        lab.delete(conf, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-not-there"])
def test_del_succeeds_without_a_namespace(lab, netns):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    lab.add(conf, pod, ifname="eth0")
    lab.delete(conf, pod, ifname="eth0", netns=netns)
    assert lab.used() == {} and pod.host_veth not in link_names(lab.node)


def test_del_succeeds_without_masters_pools_and_prev_result(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    lab.add(conf, pod, ifname="eth0")
    for nic in lab.nics:
        ip(lab.fabric, "link", "del", f"sw-{nic}")
    (lab.pool_dir / "rails.conf").unlink()
    lab.delete(conf, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo"]
    lab.rail_pools()
    assert lab.used() == {}


def test_del_leaves_links_of_other_networks(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    lab.add(conf, pod, ifname="eth0")
    lab.add(lab.macvlan("rail0"), pod, ifname="extra")
    lab.delete(conf, pod, ifname="eth0")
    assert sorted(link_names(pod.ns)) == ["extra", "lo"]


# --- ADD that fails leaves nothing ---


def test_failure_on_the_last_rail_undoes_the_others(eight):
    lab, pod = eight, eight.pod()
    nets = lab.all_networks(coordinator=CO)
    nets[-1]["plugins"][0]["ipam"]["default_ipv4_ippool"] = ["nope"]
    before = state(lab.node), pod.state()
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", contains=["'nope'", "net8"])
    assert lab.used() == {}
    assert (state(lab.node), pod.state()) == before


@pytest.mark.parametrize("spoil,contains", [
    (lambda n: n[2]["plugins"][0].update(master="nic9"), ["nic9", "net2"]),
    (lambda n: n[2]["plugins"][0].update(mtu=9001), ["9001", "net2"]),
    (lambda n: n[2].update(ifname="net1"), ["net1"]),
    (lambda n: n[2].update(ifname="a/b"), ["a/b"]),
    (lambda n: n[2]["plugins"][1].update(podDefaultRouteNic="net9"), ["net9"]),
    (lambda n: n[2]["plugins"][1].update(mode="overlay"), ["overlay"]),
    (lambda n: n[2].update(plugins=[]), ["plugins"]),
    (lambda n: n[2]["plugins"].insert(0, {"type": "sriov"}), ["sriov"]),
    (lambda n: n.clear(), ["networks"]),
], ids=["unknown master", "mtu above the limit", "interface name twice", "invalid interface name",
        "unknown podDefaultRouteNic", "mode overlay on underlay", "no plugins", "a second link plugin", "no networks"])
def test_invalid_configuration_changes_nothing(lab, spoil, contains):
    lab.rail_pools()
    nets = lab.all_networks(coordinator=CO)
    spoil(nets)
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", contains=contains)
    after = state(lab.node), pod.state()
    assert after == before
    assert lab.used() == {}


def test_add_with_an_interface_name_in_use_fails_and_changes_nothing(lab):
    lab.rail_pools()
    pod = lab.pod()
    ip(pod.ns, "link", "add", "net2", "type", "veth", "peer", "name", "x")
    before = state(lab.node), pod.state()
    lab.fail("ADD", lab.rails(lab.all_networks(coordinator=CO)), pod, ifname="eth0", contains=["net2", "exist"])
    assert (state(lab.node), pod.state()) == before and lab.used() == {}


# --- CHECK, STATUS, GC ---

DAMAGE = {
    "address removed": (lambda lab, p: ip(p.ns, "addr", "del", "172.16.1.10/24", "dev", "net1"), "net1"),
    "table's default removed": (lambda lab, p: ip(p.ns, "route", "del", "default", "table", "101"), "101"),
    "rule removed": (lambda lab, p: ip(p.ns, "rule", "del", "from", "172.16.2.10"), "172.16.2.10"),
    "link removed": (lambda lab, p: ip(p.ns, "link", "del", "net2"), "net2"),
    "veth removed": (lambda lab, p: ip(p.ns, "link", "del", "veth0"), "veth0"),
    "marks flushed": (lambda lab, p: run(["nft", "flush", "ruleset"], ns=p.ns), ""),
    "node's route removed": (lambda lab, p: ip(lab.node, "route", "flush", "table", "500"), ""),
    "address released": (lambda lab, p: lab.pool("release", "--yes", "172.16.2.10"), "net2"),
}


@pytest.mark.parametrize("damage", [None, *DAMAGE])
def test_check_finds_each_kind_of_damage(lab, damage):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    conf["prevResult"] = lab.add(conf, pod, ifname="eth0")
    if damage is None:
        lab.ok("CHECK", conf, pod, ifname="eth0")
        return
    do, word = DAMAGE[damage]
    do(lab, pod)
    lab.fail("CHECK", conf, pod, ifname="eth0", contains=word)


def test_check_finds_a_link_of_another_kind(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    conf["prevResult"] = lab.add(conf, pod, ifname="eth0")
    mac = link(pod.ns, "net2")["address"]
    ip(pod.ns, "link", "del", "net2")
    ip(pod.ns, "link", "add", "net2", "address", mac, "type", "veth", "peer", "name", "x")
    lab.fail("CHECK", conf, pod, ifname="eth0", contains=["net2", "macvlan"])


def test_status_reports_an_invalid_pools_file(lab):
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    lab.ok("STATUS", conf, lab.pod(), ifname="eth0")
    lab.pools("nonsense\n", "zz.conf")
    lab.fail("STATUS", conf, lab.pod(), ifname="eth0", contains="zz.conf:1")


def test_gc_deletes_networks_of_unlisted_containers(lab):
    lab.rail_pools()
    conf = lab.rails(lab.all_networks(coordinator=CO))
    pods = [lab.pod() for _ in range(3)]
    for p in pods:
        lab.add(conf, p, ifname="eth0")
    assert len(lab.used()) == 9
    valid = [{"containerID": pods[1].id, "ifname": "eth0"}]
    lab.ok("GC", {**conf, "cni.dev/valid-attachments": valid}, pods[0], ifname="eth0")
    assert {r["containerId"] for r in lab.used().values()} == {pods[1].id} and len(lab.used()) == 3
    conf["prevResult"] = None
    for p in pods:
        lab.delete(conf, p, ifname="eth0")
    assert lab.used() == {}


def use_plan(lab, plan, number):
    """Returns the netconf of a plan of configs/ and writes its pool files, so that this host is node `number` of the plan. Only
    directories and node names are changed: the node `number` gets this host's name, and each other node a name that no host has."""
    from lab import TOP
    here = os.uname().nodename
    for src in (TOP / "configs" / plan).glob("pools/*.conf"):
        lab.pools(re.sub(r"(?m)^(node *=) node(\d+)$",
                         lambda m: f"{m[1]} {here if int(m[2]) == number else f'not-{here}-{m[2]}'}", src.read_text()), src.name)
    text = next((TOP / "configs" / plan).glob("*.conf*")).read_text()
    conf = json.loads(text.replace("/etc/unirail/pools", str(lab.pool_dir)).replace(
        "/var/lib/unirail/ipam", str(lab.state_dir)))
    assert conf["cniVersion"] == "1.0.0"  # containerd 1.x refuses newer versions
    return {**conf["plugins"][0], "cniVersion": conf["cniVersion"], "name": conf["name"]}


def test_example_configurations_attach_a_pod_to_eight_rails(make_lab):
    """Users copy the files of configs/ and change directories and node names; the files must work without further changes."""
    for plan in ("shared", "exclusive"):
        lab = make_lab(rails=8, exclusive=plan == "exclusive")
        if plan == "exclusive":
            ip(lab.node, "addr", "del", "172.16.0.2/27", "dev", "eth0")
            ip(lab.node, "addr", "add", "172.16.0.2/24", "dev", "eth0")
        plugin = use_plan(lab, plan, 1)
        pod = lab.pod()
        lab.add(plugin, pod, ifname="eth0")
        for i in range(1, 9):
            assert ping(pod.ns, f"net{i}", f"172.16.{i}.1"), (plan, i)
        lab.delete(plugin, pod, ifname="eth0")
        assert link_names(pod.ns) == ["lo"] and lab.used() == {}


def test_example_configurations_on_two_nodes_share_no_address(make_lab):
    """With the same files on two nodes no address is allocated twice; a node that the files do not name allocates none."""
    given = []
    for number in (1, 2):
        lab = make_lab(rails=8)
        lab.add(use_plan(lab, "shared", number), lab.pod(), ifname="eth0")
        given.append(set(lab.used()))
    assert len(given[0]) == len(given[1]) == 9 and not given[0] & given[1], given
    lab = make_lab(rails=8)
    lab.fail("ADD", use_plan(lab, "shared", 3), lab.pod(), ifname="eth0")
    assert lab.used() == {}


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "dual"])
def test_default_route_belongs_to_the_network_that_requests_it(make_lab, v6):
    """If one network has Multus' default-route with an IPv4 gateway, only this network has an IPv4 default route in the pod; the IPv6
    default routes do not change. CHECK and DEL succeed."""
    lab = make_lab(rails=2, v6=v6)
    lab.rail_pools(v6=v6)
    nets = lab.all_networks(ipam=None)
    for i, net in enumerate(nets):
        net["plugins"][0]["ipam"] = lab.ipam(lab.nics[i], v6=[lab.nics[i] + "-v6"] if v6 else ())
    plain, asked = lab.pod("plain"), lab.pod("asked")
    lab.add(lab.rails(nets), plain, ifname="eth0")
    before = routes(plain.ns, "main", "-6")
    nets[2]["defaultRoute"] = ["172.16.2.1"]
    conf = lab.rails(nets)
    result = lab.add(conf, asked, ifname="eth0")
    assert [r for r in routes(asked.ns, "main") if r.startswith("default")] == ["default via 172.16.2.1 dev net2"]
    assert [r for r in routes(plain.ns, "main") if r.startswith("default")] != []
    defaults = lambda contains: [r.split()[2:5] for r in contains if r.startswith("default")]
    assert defaults(routes(asked.ns, "main", "-6")) == defaults(before)
    assert [r["gw"] for r in result["routes"] if r["dst"] == "0.0.0.0/0"] == ["172.16.2.1"]
    lab.ok("CHECK", lab.rails(nets, prevResult=result), asked, ifname="eth0")
    lab.delete(lab.rails(nets, prevResult=result), asked, ifname="eth0")
    assert link_names(asked.ns) == ["lo"]


def test_add_with_an_unreachable_default_route_fails_and_leaves_nothing(lab):
    lab.rail_pools()
    nets = lab.all_networks()
    nets[1]["defaultRoute"] = ["192.0.2.1"]
    pod = lab.pod()
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", contains=["default-route", "net1"])
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}
