# SPDX-License-Identifier: Apache-2.0
"""tuning, sbr and ifacer within the process of unirail-cni, which does not execute them: the kernel state equals that of a chain of
executed plugins, and a failed ADD undoes the changes of these plugins."""
import os

import pytest
from lab import REFERENCE, has_address, ip, link, link_names, ping, routes, rules, same, same_shape, state, sysctl

NOWHERE = "/nonexistent/cni"


def tuning(lab, **more):
    return {"type": "tuning", "dataDir": str(lab.tmp / "tuning"), **more}


def nets_of(lab, coordinator=None, **where):
    """eth0 and two rails; `where` is {"rail0": [plugins before, plugins after the coordinator]}."""
    nets = lab.all_networks(coordinator={"mode": "underlay"} if coordinator is None else coordinator)
    for n in nets:
        before, after = where.get(n["name"], ([], []))
        n["plugins"][1:1] = before
        n["plugins"] += after
    return nets


def full(lab, coordinator=None):
    more = {"sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "2"}, "mtu": 4200, "mac": "0a:00:00:00:00:42", "allmulti": True}
    return nets_of(lab, coordinator, rail0=([tuning(lab, **more)], [{"type": "sbr"}]),
                   rail1=([], [tuning(lab, txQLen=77)]))


def backups(lab):
    return sorted(os.listdir(lab.tmp / "tuning")) if (lab.tmp / "tuning").exists() else []


def test_plugins_in_process_create_the_same_state_as_the_chain(make_lab):
    seen = []
    for way in ("chain", "unirail-cni"):
        lab = make_lab()
        lab.rail_pools()
        nets, pod, prev = full(lab), lab.pod(), {}
        if way == "chain":
            # unirail-cni runs plugins after the coordinator only when all coordinators have run
            for n in nets:
                at = [p["type"] for p in n["plugins"]].index("coordinator") + 1
                n["head"], n["tail"] = n["plugins"][:at], n["plugins"][at:]
                prev[n["name"]] = lab.chain("ADD", n["head"], pod, name=n["name"], ifname=n["ifname"])
            for n in nets:
                prev[n["name"]] = lab.chain("ADD", n["tail"], pod, name=n["name"], ifname=n["ifname"],
                                            prev=prev[n["name"]])
        else:
            prev = lab.add(lab.rails(nets), pod, ifname="eth0", CNI_PATH=NOWHERE)
            assert [i["mac"] for i in prev["interfaces"] if i["name"] == "net1"] == ["0a:00:00:00:00:42"]
        k = link(pod.ns, "net1")
        assert (k["mtu"], k["address"]) == (4200, "0a:00:00:00:00:42") and "ALLMULTI" in k["flags"]
        assert link(pod.ns, "net2")["txqlen"] == 77
        assert sysctl(pod.ns, "net/ipv4/conf/net1/rp_filter") == "2"
        assert backups(lab) == [f"{pod.id}_net1.json", f"{pod.id}_net2.json"]
        seen.append(same_shape(pod.state(), (pod.host_veth, "VETH")))
    same(*seen, "the pod")


def test_check_and_del_run_plugins_in_process(lab):
    lab.rail_pools()
    before = state(lab.node)
    c, pod = lab.rails(full(lab, coordinator=False)), lab.pod()
    c["prevResult"] = lab.add(c, pod, ifname="eth0", CNI_PATH=NOWHERE)
    lab.ok("CHECK", c, pod, ifname="eth0", CNI_PATH=NOWHERE)
    ip(pod.ns, "link", "set", "net1", "mtu", "1400")
    lab.fail("CHECK", c, pod, ifname="eth0", contains=["rail 'net1' (rail0): plugin 'tuning'", "1400"])
    lab.delete(c, pod, ifname="eth0", CNI_PATH=NOWHERE)
    assert link_names(pod.ns) == ["lo"] and backups(lab) == [] and lab.used() == {}
    assert [r[1] for r in rules(pod.ns)] == ["all"] * 3
    assert state(lab.node) == before
    lab.delete(c, pod, ifname="eth0", netns="")


def test_check_succeeds_with_sbr_after_the_coordinator(lab):
    """sbr and the coordinator each add a rule and a table for the address; CHECK does not depend on the order of these rules."""
    lab.rail_pools()
    c, pod = lab.rails(nets_of(lab, rail0=([], [{"type": "sbr"}]))), lab.pod()
    c["prevResult"] = lab.add(c, pod, ifname="eth0")
    own = [r for r in rules(pod.ns) if r[1] == "172.16.1.10"]
    assert len(own) == 2
    lab.ok("CHECK", c, pod, ifname="eth0")
    for rule in own:
        ip(pod.ns, "route", "flush", "table", rule[3], "dev", "net1")
    lab.fail("CHECK", c, pod, ifname="eth0", contains=["rail 'net1' (rail0)", "172.16.1.10", "default route through 'net1'"])


def test_check_finds_damaged_rules_of_sbr(lab):
    lab.rail_pools()
    c, pod = lab.rails(nets_of(lab, coordinator=False, rail0=([{"type": "sbr"}], []))), lab.pod()
    c["prevResult"] = lab.add(c, pod, ifname="eth0")
    assert [(r[1], r[3]) for r in rules(pod.ns) if r[1] != "all"] == [("172.16.1.10", "100")]
    lab.ok("CHECK", c, pod, ifname="eth0")
    ip(pod.ns, "rule", "del", "table", "100")
    lab.fail("CHECK", c, pod, ifname="eth0", contains=["rail 'net1' (rail0): plugin 'sbr'", "172.16.1.10"])


@pytest.mark.parametrize("last", [{"type": "sbr", "gateways": ["x"]}, {"type": "nosuch"}, {"type": "false"}],
                         ids=["plugin in process", "missing plugin", "executed plugin"])
def test_failed_add_reverts_the_changes_of_all_plugins(lab, tmp_path, last):
    """A plugin after all coordinators fails: the changes of tuning and sbr to a device of the node are reverted with
    the rest."""
    lab.rail_pools()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "false").write_text("#!/bin/sh\necho '{\"code\": 7, \"msg\": \"will not\"}'\nexit 1\n")
    (folder / "false").chmod(0o755)
    ip(lab.node, "addr", "flush", "dev", "rail0")
    nets = nets_of(lab, rail0=([tuning(lab, mtu=4200, mac="0a:00:00:00:00:42", promisc=True)], [{"type": "sbr"}]),
                   rail1=([], [last]))
    nets[1]["plugins"][0].update(type="host-device", device="rail0")
    before = state(lab.node)
    pod = lab.pod()
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", contains=["rail 'net2' (rail1)", last["type"]],
             CNI_PATH=str(folder))
    same(same_shape(before), same_shape(state(lab.node)), "the node")
    assert state(lab.node) == before
    assert link_names(pod.ns) == ["lo"] and backups(lab) == [] and lab.used() == {}
    assert [r[1] for r in rules(pod.ns)] == ["all"] * 3 and routes(pod.ns, "main") == []


def test_unknown_plugin_types_are_executed(lab, tmp_path):
    """unirail-cni executes an unknown plugin from CNI_PATH. The prevResult is the result of the plugins before it, which run in process."""
    lab.rail_pools()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "theirs").symlink_to(REFERENCE / "tuning")
    nets = nets_of(lab, rail0=([tuning(lab, mtu=4200), {"type": "theirs", "dataDir": str(tmp_path / "d"),
                                                        "sysctl": {"net.ipv4.conf.net1.rp_filter": "2"}}], []))
    c, pod = lab.rails(nets, "1.0.0"), lab.pod()
    c["prevResult"] = lab.add(c, pod, ifname="eth0", CNI_PATH=str(folder))
    assert sysctl(pod.ns, "net/ipv4/conf/net1/rp_filter") == "2" and link(pod.ns, "net1")["mtu"] == 4200
    lab.ok("CHECK", c, pod, ifname="eth0", CNI_PATH=str(folder))
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(folder))


def test_runtime_config_goes_only_to_the_plugins_of_the_first_network(lab):
    lab.rail_pools()
    mac = "0a:00:00:00:00:55"
    nets = nets_of(lab, eth0=([tuning(lab, capabilities={"mac": True}, mtu=1400)], []))
    c, pod = lab.rails(nets, runtimeConfig={"mac": mac}), lab.pod()
    result = lab.add(c, pod, ifname="eth0")
    assert link(pod.ns, "eth0")["address"] == result["interfaces"][0]["mac"] == mac
    assert link(pod.ns, "net1")["address"] != mac


def test_loopback_is_accepted_as_a_network(lab):
    pod = lab.pod()
    ip(pod.ns, "link", "set", "lo", "down")
    c = lab.rails([{"name": "lo", "type": "loopback", "ifname": "lo"},
                   {"name": "rail0", "type": "macvlan", "master": "rail0",
                    "ipam": {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}}])
    result = lab.add(c, pod, ifname="lo", CNI_PATH=NOWHERE)
    assert [i["name"] for i in result["interfaces"]] == ["lo", "net1"]
    assert "UP" in link(pod.ns, "lo")["flags"] and has_address(pod.ns, "net1", "172.16.1.20/24")


# --- ifacer, before the plugin that makes the interface ---


def with_ifacer(lab, **more):
    nets = lab.all_networks(coordinator={"mode": "underlay"})
    nets[1]["plugins"].insert(0, {"type": "ifacer", **more})
    return nets


def test_ifacer_is_accepted_before_the_plugin_that_makes_the_interface(lab):
    """ifacer is the first plugin in Spiderpool's conflists. With one interface and no VLAN it creates nothing."""
    lab.rail_pools()
    c, pod = lab.rails(with_ifacer(lab, interfaces=["rail0"])), lab.pod()
    c["prevResult"] = lab.add(c, pod, ifname="eth0", CNI_PATH=NOWHERE)
    assert ping(pod.ns, "net1", "172.16.1.1")
    for verb in ("CHECK", "STATUS", "DEL"):
        lab.ok(verb, c, pod, ifname="eth0", CNI_PATH=NOWHERE)


def test_ifacer_that_fails_changes_nothing(lab):
    """The kernel of the test machine does not support VLAN interfaces, so ifacer fails. ADD returns this error, not an error about
    macvlan's missing master."""
    lab.rail_pools()
    nets = with_ifacer(lab, interfaces=["rail0"], vlanID=100)
    nets[1]["plugins"][1]["master"] = "rail0.100"
    pod = lab.pod()
    before = state(lab.node), pod.state()
    e = lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", code=50, contains=["rail 'net1' (rail0)", "'ifacer'"])
    assert "Link not found" not in e["msg"]
    assert (state(lab.node), pod.state()) == before and lab.used() == {}


def test_ifacer_alone_is_refused_as_a_network(lab):
    lab.fail("ADD", lab.rails([{"name": "a", "plugins": [{"type": "ifacer"}]}]), lab.pod(), code=7,
             contains="conf.networks[0] has no plugin that makes an interface")
    lab.fail("ADD", lab.rails([{"name": "a", "type": "ifacer"}]), lab.pod(), code=7,
             contains="conf.networks[0] has no plugin that makes an interface")


def test_wrong_order_of_plugins_in_a_network_is_refused(lab):
    nets = [{"name": "a", "plugins": [{"type": "macvlan"}, {"type": "host-device", "device": "rail0"}]}]
    lab.fail("ADD", lab.rails(nets), lab.pod(), code=7,
             contains="conf.networks[0].plugins[1] is 'host-device', which can only be the first plugin of a network")
