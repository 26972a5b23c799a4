# SPDX-License-Identifier: Apache-2.0
"""coordinator: ADD creates the same tables, priorities, routes, neighbours and marks as the original (Spiderpool's
coordinator), and DEL leaves nothing behind."""
import json
import threading

import pytest
from lab import (addresses, ip, ip_json, link, link_names, nft, ping, routes, rules, run, state, sysctl)


def static(host, nic, v6=False, default=True):
    ipam = {"type": "static", "addresses": [{"address": f"172.16.{nic}.{host}/24",
                                              "gateway": f"172.16.{nic}.1"}]}
    ipam["routes"] = [{"dst": "0.0.0.0/0"}] if default else []
    if v6:
        ipam["addresses"].append({"address": f"fd00:16:{nic}::{host}/64", "gateway": f"fd00:16:{nic}::1"})
        ipam["routes"] += [{"dst": "::/0"}] if default else []
    return ipam


class Stack:
    """A pod to which the runtime adds NIC after NIC, each by a chain of macvlan and coordinator."""

    def __init__(self, lab, v6=False, host=20):
        self.lab, self.v6, self.host, self.pod, self.done = lab, v6, host, lab.pod(), []

    def plugins(self, nic, **coordinator):
        master = self.lab.nics[nic]
        return [{"type": "macvlan", "master": master, "mode": "bridge",
                 "ipam": static(self.host, nic, self.v6)},
                {"type": "coordinator", **coordinator}]

    def add(self, nic, ifname, **coordinator):
        chain = self.plugins(nic, **coordinator)
        result = self.lab.chain("ADD", chain, self.pod, ifname=ifname)
        self.done.append((chain, ifname, result))
        return result

    def delete(self):
        for chain, ifname, result in reversed(self.done):
            self.lab.chain("DEL", chain, self.pod, ifname=ifname, prev=result)


def neighbours(ns):
    return {(n["dst"], n["dev"]): n["lladdr"] for n in ip_json(ns, "neigh", "show", "nud", "permanent")}


HOST_IPS = ["172.16.0.2", "172.16.1.2", "172.16.2.2"]


def host_routes(src):
    return {f"{h} dev veth0 src {src}" for h in HOST_IPS}


def test_first_underlay_nic_gets_rules_and_routes(lab):
    """In the pod: the rules and the tables main, 100 and 101. On the node: the rule, table 500 and the neighbours."""
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay", overlayPodCIDR=["10.233.64.0/18"], serviceCIDR=["10.233.0.0/18"],
          hijackCIDR=["169.254.0.0/16"])
    pod = s.pod.ns
    veth = s.pod.host_veth
    assert sorted(link_names(pod)) == ["eth0", "lo", "veth0"]
    assert link(pod, "veth0")["mtu"] == 1500 and "UP" in link(pod, "veth0")["flags"]
    assert rules(pod) == [(0, "all", None, "local"), (1000, "all", "0x1", "100"),
                          (32766, "all", None, "main"), (32767, "all", None, "default")]
    src = "172.16.0.20"
    main = set(routes(pod, "main"))
    assert main == {"default via 172.16.0.1 dev eth0", f"172.16.0.0/24 dev eth0 src {src}",
                    f"10.233.64.0/18 via 172.16.0.2 dev veth0 src {src}",
                    f"10.233.0.0/18 via 172.16.0.2 dev veth0 src {src}",
                    f"169.254.0.0/16 via 172.16.0.2 dev veth0 src {src}"} | host_routes(src)
    assert routes(pod, 100) == [f"default via 172.16.0.2 dev veth0 src {src}"]
    assert set(routes(pod, 101)) == host_routes(src)
    # the node
    assert (1000, "all", None, "500") in rules(lab.node)
    assert routes(lab.node, 500) == [f"{src} dev {veth}"]
    assert neighbours(lab.node) == {(src, veth): link(pod, "veth0")["address"]}
    host_mac = link(lab.node, veth)["address"]
    assert neighbours(pod) == {(h, "veth0"): host_mac for h in HOST_IPS}
    assert ping(pod, "veth0", "172.16.0.2") and ping(lab.node, veth, src)


def test_later_underlay_nics_get_separate_tables(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.add(1, "net1", mode="underlay")
    s.add(2, "net2", mode="underlay", hijackCIDR=["169.254.0.0/16"])
    pod, src = s.pod.ns, "172.16.0.20"
    assert rules(pod) == [(0, "all", None, "local"), (998, "172.16.2.20", None, "102"),
                          (999, "172.16.1.20", None, "101"), (1000, "all", "0x1", "100"),
                          (32766, "all", None, "main"), (32767, "all", None, "default")]
    assert set(routes(pod, "main")) == {
        "default via 172.16.0.1 dev eth0", f"172.16.0.0/24 dev eth0 src {src}",
        "172.16.1.0/24 dev net1 src 172.16.1.20", "172.16.2.0/24 dev net2 src 172.16.2.20",
    } | host_routes(src)
    # tables 101 and 102 also have host_routes(): the routes through veth0 to the node's addresses, with the address of the first NIC as
    # source
    assert set(routes(pod, 101)) == {"default via 172.16.1.1 dev net1",
                                     "172.16.1.0/24 dev net1 src 172.16.1.20"} | host_routes(src)
    assert set(routes(pod, 102)) == {
        "default via 172.16.2.1 dev net2", "172.16.2.0/24 dev net2 src 172.16.2.20",
        f"169.254.0.0/16 via 172.16.0.2 dev veth0 src {src}"} | host_routes(src)
    assert sorted(routes(lab.node, 500)) == sorted(
        f"172.16.{i}.20 dev {s.pod.host_veth}" for i in range(3))
    for i, dev in enumerate(("eth0", "net1", "net2")):
        assert ping(pod, dev, f"172.16.{i}.1")


def test_mode_auto_acts_as_underlay_for_eth0_and_for_later_nics_if_veth0_exists(lab):
    a, b = Stack(lab, host=20), Stack(lab, host=30)
    for s, mode in ((a, "auto"), (b, "underlay")):
        s.add(0, "eth0", mode=mode)
        s.add(1, "net1", mode=mode)
    text = [json.dumps([rules(s.pod.ns), [routes(s.pod.ns, t) for t in ("main", 100, 101)]]).replace(
        ".30", ".20") for s in (a, b)]
    assert text[0] == text[1]


def overlay_pod(lab, v6=False):
    """A pod whose eth0 an overlay network created: a veth pair to the node, an address with /32, the default route."""
    s = Stack(lab, v6)
    pod, node = s.pod.ns, lab.node
    ip(node, "link", "add", "cali0", "type", "veth", "peer", "name", "eth0", "netns", pod)
    ip(node, "link", "set", "cali0", "up")
    ip(pod, "addr", "add", "10.233.70.5/32", "dev", "eth0")
    ip(pod, "link", "set", "eth0", "up")
    ip(pod, "route", "add", "169.254.1.1", "dev", "eth0", "scope", "link")
    ip(pod, "route", "add", "default", "via", "169.254.1.1", "dev", "eth0")
    ip(node, "route", "add", "10.233.70.5/32", "dev", "cali0", "scope", "link")
    return s


@pytest.mark.parametrize("mode", ["overlay", "auto"])
def test_nic_of_an_overlay_pod_gets_rules_and_routes(lab, mode):
    s = overlay_pod(lab)
    s.add(1, "net1", mode=mode)
    s.add(2, "net2", mode=mode)
    pod = s.pod.ns
    assert sorted(link_names(pod)) == ["eth0", "lo", "net1", "net2"]
    got = rules(pod)
    assert {r[1:] for r in got[1:-2]} == {("172.16.1.20", None, "101"), ("10.233.70.5", None, "100"),
                                          ("172.16.2.20", None, "102")}
    priorities = [r[0] for r in got[1:-2]]
    assert priorities == [32763, 32764, 32765]
    assert "default via 169.254.1.1 dev eth0" in routes(pod, "main")
    assert not [r for r in routes(pod, "main") if r.startswith("default") and "net" in r]
    assert "default via 169.254.1.1 dev eth0" in routes(pod, 100)
    assert "default via 172.16.1.1 dev net1" in routes(pod, 101)
    assert "default via 172.16.2.1 dev net2" in routes(pod, 102)
    for table in ("main", 101, 102):
        for h in HOST_IPS:
            assert [r for r in routes(pod, table) if r.startswith(f"{h} dev eth0")], (table, h)
    assert nft(pod) == []
    assert {r.split()[0] for r in routes(lab.node, 500)} >= {"172.16.1.20", "172.16.2.20"}


def test_dual_stack_overlay_pod_gets_routes_of_both_families(make_lab):
    """The kernel merges two IPv6 default routes into one multipath route. Table 100 must have only the default route of eth0."""
    lab = make_lab(v6=True)
    s = overlay_pod(lab, v6=True)
    pod, node = s.pod.ns, lab.node
    ip(pod, "-6", "addr", "add", "fd00:70::5/64", "dev", "eth0", "nodad")
    ip(node, "-6", "addr", "add", "fd00:70::1/64", "dev", "cali0", "nodad")
    ip(pod, "-6", "route", "add", "default", "via", "fd00:70::1", "dev", "eth0")
    s.add(1, "net1", mode="overlay")
    assert "default via fd00:70::1 dev eth0" in routes(pod, 100, "-6")
    assert "default via 169.254.1.1 dev eth0" in routes(pod, 100)
    assert "default via fd00:16:1::1 dev net1" in routes(pod, 101, "-6")
    assert [r for r in routes(pod, "main", "-6") if r.startswith("default")] == ["default via fd00:70::1 dev eth0"]
    assert ("fd00:70::5", None, "100") in {r[1:] for r in rules(pod, "-6")}
    assert ping(pod, "net1", "fd00:16:1::1")
    s.delete()


@pytest.mark.parametrize("mode", ["disabled", "disable"])
def test_disabled_coordinator_changes_nothing(lab, mode):
    """The original's plugin knows only 'disable', although its SpiderCoordinator accepts 'disabled'."""
    s = Stack(lab)
    chain = s.plugins(1, mode=mode)
    prev = lab.chain("ADD", chain[:1], s.pod)
    before = state(lab.node), s.pod.state()
    result = lab.add({**chain[1], "cniVersion": "1.0.0", "name": "net", "prevResult": prev}, s.pod)
    assert result == prev
    assert (state(lab.node), s.pod.state()) == before


def test_replies_leave_by_the_interface_of_the_request(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    text = json.dumps(nft(s.pod.ns))
    tables = {t["table"]["name"] for t in nft(s.pod.ns) if "table" in t}
    assert tables == {"unirail"}
    for word in ('"veth0"', "prerouting", "output", '"ct"', '"mark"'):
        assert word in text
    # a reply leaves through veth0 if its request arrived through veth0, whatever routes table main has
    node_ip = "172.16.9.9"
    ip(lab.node, "addr", "add", f"{node_ip}/32", "dev", "lo")
    p = run(["ping", "-n", "-c", "1", "-W", "2", "-I", node_ip, "172.16.0.20"], ns=lab.node, check=False)
    assert p.returncode == 0, p.stdout


def test_dual_stack_underlay_pod_gets_routes_of_both_families(make_lab):
    lab = make_lab(v6=True)
    s = Stack(lab, v6=True)
    s.add(0, "eth0", mode="underlay", hijackCIDR=["10.9.0.0/16", "fd09::/64"])
    s.add(1, "net1", mode="underlay")
    pod = s.pod.ns
    assert [r[1:] for r in rules(pod, "-6")] == [
        ("all", None, "local"), ("fd00:16:1::20", None, "101"), ("all", "0x1", "100"),
        ("all", None, "main")]
    assert "default via fd00:16::1 dev eth0" in routes(pod, "main", "-6")
    assert "default via fd00:16:1::1 dev net1" in routes(pod, 101, "-6")
    assert "default via fd00:16:1::1 dev net1" not in routes(pod, "main", "-6")
    assert "default via fd00:16::2 dev veth0" in routes(pod, 100, "-6")
    assert "fd09::/64 via fd00:16::2 dev veth0" in routes(pod, "main", "-6")  # this route has no source address
    assert ("172.16.0.20", s.pod.host_veth) in neighbours(lab.node)
    assert ("fd00:16::20", s.pod.host_veth) in neighbours(lab.node)
    assert (1000, "all", None, "500") in rules(lab.node, "-6")
    assert f"fd00:16::20 dev {s.pod.host_veth}" in routes(lab.node, 500, "-6")
    assert ping(pod, "net1", "fd00:16:1::1") and ping(pod, "net1", "172.16.1.1")
    s.delete()
    assert s.pod.host_veth not in link_names(lab.node) and neighbours(lab.node) == {}
    assert routes(lab.node, 500, "-6") == []


def test_default_route_moves_to_the_selected_nic(lab):
    """podDefaultRouteNic names the NIC that is being added: its default route goes to table main, and the default route of the first NIC
    moves to a separate table."""
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.add(1, "net1", mode="underlay", podDefaultRouteNic="net1")
    pod = s.pod.ns
    assert "default via 172.16.1.1 dev net1" in routes(pod, "main")
    assert not [r for r in routes(pod, "main") if r.startswith("default") and "eth0" in r]
    assert "default via 172.16.0.1 dev eth0" in routes(pod, 101)
    assert (999, "172.16.0.20", None, "101") in rules(pod)


def test_later_nic_with_tune_pod_routes_false_adds_no_rule(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.add(1, "net1", mode="underlay", tunePodRoutes=False)
    assert len(rules(s.pod.ns)) == 4
    assert [r for r in routes(s.pod.ns, "main") if r.startswith("default")]


def test_policy_routes_are_added(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay", policyRoutes=[{"dst": "10.50.0.0/16", "gw": "172.16.0.99"}])
    s.add(1, "net1", mode="underlay", policyRoutes=[{"dst": "10.60.0.0/16", "gw": "172.16.1.99"}])
    assert "10.50.0.0/16 via 172.16.0.99 dev eth0" in routes(s.pod.ns, "main")
    assert "10.60.0.0/16 via 172.16.1.99 dev net1" in routes(s.pod.ns, 101)


def test_error_of_a_failed_route_names_its_device(lab):
    """The error names the device: an index is useless once the pod is deleted."""
    s = Stack(lab)
    main, coordinator = s.plugins(0, mode="underlay", policyRoutes=[{"dst": "10.50.0.0/16", "gw": "192.168.99.1"}])
    prev = lab.chain("ADD", [main], s.pod, ifname="eth0")
    lab.fail("ADD", {**coordinator, "cniVersion": "1.0.0", "name": "net", "prevResult": prev}, s.pod, ifname="eth0",
             contains="failed to add route '10.50.0.0/16 via 192.168.99.1 dev eth0 table 254': Network is unreachable (ENETUNREACH)")


def test_mac_is_derived_from_the_prefix_and_address(lab):
    s = Stack(lab, host=33)
    result = s.add(0, "eth0", mode="underlay", podMACPrefix="0a:1b")
    assert link(s.pod.ns, "eth0")["address"] == "0a:1b:ac:10:00:21"
    assert result["interfaces"][0]["name"] == "eth0"


def test_txqueuelen_is_set_in_the_pod(lab):
    """The original sets txQueueLen on the host's link instead."""
    before = link(lab.node, "eth0")["txqlen"]
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay", txQueueLen=4321)
    assert link(s.pod.ns, "eth0")["txqlen"] == 4321
    assert link(lab.node, "eth0")["txqlen"] == before != 4321


@pytest.mark.parametrize("value,want", [(2, "2"), (0, "0")])
def test_rp_filter_is_set(lab, value, want):
    s = Stack(lab)
    sysctl(s.pod.ns, "net/ipv4/conf/all/rp_filter", "1")
    s.add(0, "eth0", mode="underlay", podRPFilter=value)
    assert sysctl(s.pod.ns, "net/ipv4/conf/all/rp_filter") == want


def test_negative_rp_filter_changes_nothing(lab):
    s = Stack(lab)
    sysctl(s.pod.ns, "net/ipv4/conf/all/rp_filter", "1")
    s.add(0, "eth0", mode="underlay", podRPFilter=-1)
    assert sysctl(s.pod.ns, "net/ipv4/conf/all/rp_filter") == "1"


def test_veth_mtu_and_address_are_set(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay", vethLinkAddress="169.254.200.1", vethMTU=1400, hostRuleTable=700)
    assert link(s.pod.ns, "veth0")["mtu"] == 1400
    assert {"dev": "veth0", "address": "169.254.200.1/32"}.items() <= [
        a for a in addresses(s.pod.ns) if a["dev"] == "veth0"][0].items()
    assert routes(lab.node, 700) == [f"172.16.0.20 dev {s.pod.host_veth}"]
    assert (1000, "all", None, "700") in rules(lab.node)


def test_stale_neighbour_on_the_node_is_replaced(lab):
    """With the neighbour entry of a former pod of this address, every packet to the pod would be lost."""
    ip(lab.node, "link", "add", "old0", "type", "veth", "peer", "name", "old1")
    ip(lab.node, "link", "set", "old0", "up")
    ip(lab.node, "neigh", "add", "172.16.0.20", "lladdr", "0a:00:00:00:00:01", "dev", "old0", "nud",
       "permanent")
    ip(lab.node, "route", "add", "172.16.0.20", "dev", "old0", "table", "500")
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    assert list(neighbours(lab.node)) == [("172.16.0.20", s.pod.host_veth)]
    assert routes(lab.node, 500) == [f"172.16.0.20 dev {s.pod.host_veth}"]


# --- refusals ---


def add_second(lab, s, **coordinator):
    chain = s.plugins(1, **coordinator)
    prev = lab.chain("ADD", chain[:1], s.pod)
    conf = {**chain[1], "cniVersion": "1.0.0", "name": "net", "prevResult": prev}
    before = state(lab.node), s.pod.state()

    def fails(**kw):
        e = lab.fail("ADD", conf, s.pod, **kw)
        assert (state(lab.node), s.pod.state()) == before
        return e

    return fails


def test_later_underlay_nic_requires_veth0(lab):
    add_second(lab, Stack(lab), mode="underlay")(contains=["veth0"])


def test_mode_overlay_refuses_a_pod_of_mode_underlay(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    add_second(lab, s, mode="overlay")(contains=["veth0"])


@pytest.mark.parametrize("conf,contains", [
    ({"mode": "sideways"}, ["mode", "sideways"]),
    ({"podMACPrefix": "0b:xx"}, ["podMACPrefix", "0b:xx"]),
    ({"podMACPrefix": "01:00"}, ["podMACPrefix", "unicast"]),
    ({"podRPFilter": 3}, ["podRPFilter"]),
    ({"vethMTU": 0}, ["vethMTU"]),
    ({"hijackCIDR": ["10.0.0.0/40"]}, ["hijackCIDR", "10.0.0.0/40"]),
    ({"policyRoutes": [{"dst": "10.0.0.0/8", "gw": "fd00::1"}]}, ["policyRoutes"]),
    ({"policyRoutes": [{"dst": "10.0.0.0/8", "gw": "10.0.0"}]}, ["policyRoutes", "10.0.0"]),
])
def test_refusal_of_a_configuration_names_the_field(lab, conf, contains):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    add_second(lab, s, **conf)(contains=contains)


def test_missing_default_route_nic_is_refused(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    add_second(lab, s, mode="underlay", podDefaultRouteNic="net7")(contains=["net7"])


def test_missing_prev_result_is_refused(lab):
    lab.fail("ADD", lab.coordinator(), lab.pod(), contains="prevResult")


def test_nic_without_address_is_refused(lab):
    s = Stack(lab)
    prev = lab.add(lab.macvlan("rail0"), s.pod)
    lab.fail("ADD", lab.coordinator(prev=prev), s.pod, contains=["net1", "address"])


def test_interface_name_in_use_on_the_node_is_refused(lab):
    """The kernel continues a batch after a message that fails: the next messages must not change the link that has the name."""
    s = Stack(lab)
    ip(lab.node, "link", "add", s.pod.host_veth, "type", "veth", "peer", "name", "other")
    chain = s.plugins(0, mode="underlay")
    prev = lab.chain("ADD", chain[:1], s.pod, ifname="eth0")
    before = ip_json(lab.node, "link"), s.pod.state()
    conf = {**chain[1], "cniVersion": "1.0.0", "name": "net", "prevResult": prev}
    lab.fail("ADD", conf, s.pod, ifname="eth0", contains=[s.pod.host_veth, "File exists (EEXIST)", "ip link del"])
    assert (ip_json(lab.node, "link"), s.pod.state()) == before


# --- DEL ---


def test_del_restores_the_state_of_the_node(lab):
    before = state(lab.node)
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.add(1, "net1", mode="underlay")
    s.delete()
    assert state(lab.node) == before
    assert link_names(s.pod.ns) == ["lo"]


def test_node_rule_is_deleted_with_the_last_pod(lab):
    """The original never removes `from all lookup 500`."""
    first, second = Stack(lab), Stack(lab, host=21)
    for s in (first, second):
        s.add(0, "eth0", mode="underlay")
    first.delete()
    assert (1000, "all", None, "500") in rules(lab.node)
    second.delete()
    assert (1000, "all", None, "500") not in rules(lab.node)


def test_node_rule_stays_when_a_pod_is_added_during_a_del(lab):
    """ADD and DEL do not lock the rule. In whatever order they run, the rule exists for the remaining pod."""
    for turn in range(10):
        first, second = Stack(lab), Stack(lab, host=21)
        first.add(0, "eth0", mode="underlay")
        calls = [threading.Thread(target=first.delete),
                 threading.Thread(target=second.add, args=(0, "eth0"), kwargs={"mode": "underlay"})]
        for c in calls[::1 if turn % 2 else -1]:
            c.start()
        for c in calls:
            c.join()
        assert (1000, "all", None, "500") in rules(lab.node)
        second.delete()
        assert (1000, "all", None, "500") not in rules(lab.node)


def test_node_rule_that_the_user_added_stays(lab):
    ip(lab.node, "rule", "add", "from", "10.9.8.7", "lookup", "500", "pref", "1000")
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.delete()
    assert [r for r in rules(lab.node) if r[0] == 1000] == [(1000, "10.9.8.7", None, "500")]


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-not-there"])
def test_del_without_a_namespace_restores_the_node(lab, netns):
    """Without the namespace, the original's DEL returns before it deletes the veth pair."""
    s = Stack(lab)
    result = s.add(0, "eth0", mode="underlay")
    assert s.pod.host_veth in link_names(lab.node)
    lab.delete(lab.coordinator(prev=result), s.pod, ifname="eth0", netns=netns)
    assert s.pod.host_veth not in link_names(lab.node)
    assert routes(lab.node, 500) == [] and neighbours(lab.node) == {}


def test_repeated_del_succeeds_without_prev_result(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    for _ in range(3):
        lab.delete(lab.coordinator(), s.pod, ifname="eth0")
    assert s.pod.host_veth not in link_names(lab.node)
    assert routes(lab.node, 500) == [] and neighbours(lab.node) == {}


def test_del_succeeds_for_a_pod_that_was_never_added(lab):
    before = state(lab.node)
    lab.delete(lab.coordinator(), lab.pod())
    assert state(lab.node) == before


def test_node_rule_stays_until_both_of_two_pods_are_deleted(lab):
    a, b = Stack(lab, host=20), Stack(lab, host=21)
    for s in (a, b):
        s.add(0, "eth0", mode="underlay")
    rule = (1000, "all", None, "500")
    a.delete()
    assert rule in rules(lab.node)
    b.delete()
    assert rule not in rules(lab.node)


def test_del_of_one_pod_keeps_routes_to_the_other(lab):
    a, b = Stack(lab, host=20), Stack(lab, host=21)
    for s in (a, b):
        s.add(0, "eth0", mode="underlay")
    a.delete()
    assert routes(lab.node, 500) == [f"172.16.0.21 dev {b.pod.host_veth}"]
    assert ping(lab.node, b.pod.host_veth, "172.16.0.21")


# --- CHECK ---

DAMAGE = {
    "rule removed": lambda s: ip(s.pod.ns, "rule", "del", "from", "172.16.1.20"),
    "mark rule removed": lambda s: ip(s.pod.ns, "rule", "del", "fwmark", "1", "lookup", "100"),
    "table's default removed": lambda s: ip(s.pod.ns, "route", "del", "default", "table", "101"),
    "host route removed": lambda s: ip(s.pod.ns, "route", "del", "172.16.0.2", "table", "101"),
    "neighbour removed": lambda s: ip(s.pod.ns, "neigh", "del", "172.16.0.2", "dev", "veth0"),
    "veth removed": lambda s: ip(s.pod.ns, "link", "del", "veth0"),
    "veth down": lambda s: ip(s.pod.ns, "link", "set", "veth0", "down"),
    "marks flushed": lambda s: run(["nft", "flush", "ruleset"], ns=s.pod.ns),
    "node's route removed": lambda s: ip(s.lab.node, "route", "del", "172.16.1.20", "table", "500"),
    "node's rule removed": lambda s: ip(s.lab.node, "rule", "del", "lookup", "500"),
    "node's neighbour removed": lambda s: ip(s.lab.node, "neigh", "del", "172.16.1.20", "dev",
                                             s.pod.host_veth),
}


@pytest.fixture
def attached(lab):
    s = Stack(lab)
    s.add(0, "eth0", mode="underlay")
    s.add(1, "net1", mode="underlay")
    return s


def check(s, nic):
    """Calls CHECK of every plugin of one NIC; returns the error messages."""
    chain, ifname, result = s.done[nic]
    errors = []
    for p in chain:
        c = s.lab.cni("CHECK", {**p, "cniVersion": "1.0.0", "name": "net", "prevResult": result}, s.pod,
                      ifname=ifname)
        if c.status:
            errors.append(c.json["msg"])
    return errors


def test_check_succeeds_after_add(attached):
    assert check(attached, 0) == [] and check(attached, 1) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_finds_each_missing_rule_route_neighbour_and_link(attached, damage):
    DAMAGE[damage](attached)
    errors = check(attached, 0) + check(attached, 1)
    assert errors and all("\n" not in e for e in errors)
