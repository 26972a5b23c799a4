# SPDX-License-Identifier: Apache-2.0
"""sbr: the same rules, tables and routes as Debian's plugin, and cases in which Debian's plugin fails."""
import json
import os
import pathlib

import pytest
from lab import ip, ping, routes, rules, same_shape
from chained_lab import REFERENCE, conf, chained_plugins, prev  # noqa: F401

V4 = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
      "routes": [{"dst": "0.0.0.0/0"}, {"dst": "172.20.0.0/16", "gw": "172.16.1.7"}]}
TWO = {"type": "static", "addresses": V4["addresses"] + [{"address": "172.16.1.21/24"},
                                                         {"address": "10.9.0.5/16", "gateway": "10.9.0.1"}]}
ALONE = {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}
V6 = {"type": "static", "addresses": [{"address": "fd00:16:1::20/64", "gateway": "fd00:16:1::1"}],
      "routes": [{"dst": "::/0"}]}
DUAL = {"type": "static", "addresses": V4["addresses"] + V6["addresses"],
        "routes": V4["routes"] + V6["routes"]}


def added(lab, chained_plugins, pod, ipam, ifname="net1", master="rail0", by=None, version="1.0.0", **more):
    """Runs unirail's macvlan, then sbr; returns the result."""
    result = lab.add(lab.macvlan(master, ipam, version), pod, plugins=lab.plugins, ifname=ifname)
    return lab.add(conf("sbr", version, prevResult=result, **more), pod, plugins=by or chained_plugins,
                   ifname=ifname)


@pytest.mark.parametrize("v6,ipam", [(False, V4), (False, TWO), (False, ALONE), (True, V6), (True, DUAL)],
                         ids=["ipv4", "two addresses", "no gateway", "ipv6", "dual"])
def test_state_and_result_equal_debians(make_lab, chained_plugins, v6, ipam):
    lab = make_lab(v6=v6)
    states, results = [], []
    for by in (chained_plugins, REFERENCE):
        pod = lab.pod()
        result = added(lab, chained_plugins, pod, ipam, by=by)
        result["interfaces"][0].update(mac="MAC", sandbox="pod")
        result.pop("dns", None)
        results.append(result)
        states.append(same_shape(pod.state()))
        lab.delete(conf("sbr", prevResult=result), pod, plugins=by)
        states.append(same_shape(pod.state()))
        ip(pod.ns, "link", "del", "net1")  # duplicate address detection would detect that both pods have the address
    assert results[0] == results[1]
    assert states[0] == states[2]
    assert states[1] == states[3]


def test_configured_table_gets_rules_only(lab, chained_plugins):
    """With a configured table, sbr creates only the rules: the routes of that table belong to another program."""
    pod = lab.pod()
    added(lab, chained_plugins, pod, TWO, table=300)
    assert [(r[1], r[3]) for r in rules(pod.ns) if r[1] != "all"] == [
        ("10.9.0.5", "300"), ("172.16.1.21", "300"), ("172.16.1.20", "300")]
    assert "172.16.1.0/24 dev net1 src 172.16.1.20" in routes(pod.ns, "main")


def test_tables_are_numbered_from_100(lab, chained_plugins):
    """Two rails have rules without a configured priority: the kernel places the newest rule first."""
    pod = lab.pod()
    for i in (1, 2):
        ipam = json.loads(json.dumps(V4).replace("172.16.1.", f"172.16.{i}."))
        added(lab, chained_plugins, pod, ipam, ifname=f"net{i}", master=f"rail{i - 1}")
    assert [r for r in rules(pod.ns) if r[1] != "all"] == [
        (32764, "172.16.2.20", None, "101"), (32765, "172.16.1.20", None, "100")]
    assert set(routes(pod.ns, 100)) == {"default via 172.16.1.1 dev net1",
                                        "172.16.1.0/24 dev net1 src 172.16.1.20",
                                        "172.20.0.0/16 via 172.16.1.7 dev net1"}
    assert routes(pod.ns, "main") == []
    assert ping(pod.ns, "172.16.1.20", "172.16.1.1") and ping(pod.ns, "172.16.2.20", "172.16.2.1")


def test_table_with_routes_and_no_rule_is_not_used(lab, chained_plugins):
    """The original adds its routes to the table, although another program uses it."""
    pod = lab.pod()
    ip(pod.ns, "route", "add", "10.1.0.0/16", "dev", "lo", "table", "100")
    added(lab, chained_plugins, pod, V4)
    assert routes(pod.ns, 100) == ["10.1.0.0/16 dev lo"]
    assert "default via 172.16.1.1 dev net1" in routes(pod.ns, 101)


def test_addresses_of_other_interfaces_get_no_rules(lab, chained_plugins):
    pod = lab.pod()
    result = lab.add(lab.macvlan("rail0", V4), pod, plugins=lab.plugins)
    result["interfaces"].append({"name": "net2", "sandbox": pod.netns})
    result["ips"].append({"interface": 1, "address": "10.9.0.5/16"})
    lab.add(conf("sbr", prevResult=result), pod, plugins=chained_plugins)
    assert [r[1] for r in rules(pod.ns)] == ["all", "172.16.1.20", "all", "all"]


def test_add_for_an_interface_without_an_address_fails_and_changes_nothing(lab, chained_plugins):
    """The original removes all routes if every address belongs to another interface."""
    pod = lab.pod()
    result = lab.add(lab.macvlan("rail0", V4), pod, plugins=lab.plugins)
    before = pod.state()
    result["interfaces"][0]["name"] = "net2"
    for broken in (result, {**result, "ips": []}):
        lab.fail("ADD", conf("sbr", prevResult=broken), pod, 7, plugins=chained_plugins,
                 contains="No IP addresses supplied on interface: net1")
    assert pod.state() == before


def test_configured_gateways_replace_those_of_the_result(make_lab, chained_plugins):
    lab = make_lab(v6=True)
    pod = lab.pod()
    added(lab, chained_plugins, pod, DUAL, gateways=["172.16.1.9", "fd00:16:1::9"])
    found = routes(pod.ns, 100) + routes(pod.ns, 101, "-6")
    assert [r for r in found if r.startswith("default")] == ["default via 172.16.1.9 dev net1",
                                                             "default via fd00:16:1::9 dev net1"]
    assert "172.20.0.0/16 via 172.16.1.7 dev net1" in found


def test_subnet_route_stays_in_main_with_source_hints(lab, chained_plugins):
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4, addSourceHints=True)
    assert routes(pod.ns, "main") == ["172.16.1.0/24 dev net1 src 172.16.1.20"]
    assert "default via 172.16.1.1 dev net1" in routes(pod.ns, 100)
    lab.ok("CHECK", conf("sbr", addSourceHints=True, prevResult=result), pod, plugins=chained_plugins)


def test_failed_add_reverts_all_changes(lab, chained_plugins):
    """The gateway of the second address is unreachable: the original leaves its earlier changes."""
    pod = lab.pod()
    result = lab.add(lab.macvlan("rail0", V4), pod, plugins=lab.plugins)
    ip(pod.ns, "route", "del", "default")
    before = pod.state()
    result["ips"].append({"interface": 0, "address": "198.51.100.7/24", "gateway": "198.51.100.1"})
    lab.fail("ADD", conf("sbr", prevResult=result), pod, plugins=chained_plugins,
             contains="Failed to add default route to 198.51.100.1")
    assert pod.state() == before


# --- DEL ---


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-not-there"])
def test_del_without_a_namespace_succeeds(lab, chained_plugins, netns):
    """The original fails, and creates an empty file at the namespace's path."""
    pod = lab.pod()
    lab.delete(conf("sbr"), pod, plugins=chained_plugins, netns=netns)
    assert not os.path.exists("/run/netns/unirail-not-there")


def test_add_creates_no_file_for_a_missing_namespace(lab, chained_plugins):
    path = pathlib.Path("/run/netns") / "unirail-not-there"
    pod = lab.pod()
    e = lab.fail("ADD", conf("sbr", prevResult=prev(pod, [("10.0.0.2/24", "10.0.0.1")])), pod, 8,
                 plugins=chained_plugins, netns=str(path))
    assert f'failed to Statfs "{path}": no such file or directory' in e["msg"]
    assert not path.exists()


def test_del_succeeds_twice_and_without_the_link(lab, chained_plugins):
    """The original's DEL leaves the rules if the link was deleted before."""
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4)
    ip(pod.ns, "link", "del", "net1")
    for _ in range(2):
        lab.delete(conf("sbr", prevResult=result), pod, plugins=chained_plugins)
        assert [r[1] for r in rules(pod.ns)] == ["all"] * 3


def test_del_deletes_only_rules_that_sbr_may_have_added(lab, chained_plugins):
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4, table=300)
    ip(pod.ns, "rule", "add", "from", "172.16.1.20", "table", "77")
    ip(pod.ns, "rule", "add", "from", "172.16.1.0/24", "table", "78")
    ip(pod.ns, "rule", "add", "from", "172.16.1.20", "ipproto", "tcp", "dport", "80", "table", "79")
    lab.delete(conf("sbr", prevResult=result, table=300), pod, plugins=chained_plugins)
    assert {r[3] for r in rules(pod.ns)} >= {"77", "78", "79"} and "300" not in {r[3] for r in rules(pod.ns)}
    lab.delete(conf("sbr", prevResult=result), pod, plugins=chained_plugins)
    left = {r[3] for r in rules(pod.ns)}
    assert "77" not in left and left >= {"78", "79"}


def test_add_with_an_existing_rule_succeeds(lab, chained_plugins):
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4, table=300)
    lab.add(conf("sbr", prevResult=result, table=300), pod, plugins=chained_plugins)
    assert len([r for r in rules(pod.ns) if r[3] == "300"]) == 1


# --- CHECK ---


@pytest.mark.parametrize("v6,ipam", [(False, V4), (False, TWO), (True, DUAL)])
def test_check_of_sbr_and_macvlan_succeeds_after_add(make_lab, chained_plugins, v6, ipam):
    lab = make_lab(v6=v6)
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, ipam)
    lab.ok("CHECK", conf("sbr", prevResult=result), pod, plugins=chained_plugins)
    # CHECK of macvlan, which ran before sbr, succeeds as well; the original's fails because it reads table main only
    lab.ok("CHECK", {**lab.macvlan("rail0", ipam), "prevResult": result}, pod, plugins=lab.plugins)


@pytest.mark.parametrize("broken,contains", [
    (["rule", "del", "from", "172.16.1.20"], "rule 'from 172.16.1.20' is missing"),
    (["route", "del", "default", "table", "100"], "table 100 has no default route via 172.16.1.1"),
    (["route", "del", "172.16.1.0/24", "table", "100"], "table 100 has no route to 172.16.1.0/24"),
    (["link", "del", "net1"], "Link not found"),
])
def test_check_finds_each_kind_of_damage(lab, chained_plugins, broken, contains):
    """The original's CHECK always succeeds."""
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4)
    ip(pod.ns, *broken)
    lab.fail("CHECK", conf("sbr", prevResult=result), pod, plugins=chained_plugins, contains=contains)


def test_check_finds_a_missing_rule_of_the_configured_table(lab, chained_plugins):
    pod = lab.pod()
    result = added(lab, chained_plugins, pod, V4, table=300)
    lab.ok("CHECK", conf("sbr", prevResult=result, table=300), pod, plugins=chained_plugins)
    lab.fail("CHECK", conf("sbr", prevResult=result, table=301), pod, plugins=chained_plugins,
             contains="rule 'from 172.16.1.20 lookup 301' is missing")


# --- configuration, STATUS, concurrency ---


@pytest.mark.parametrize("more,contains", [
    ({"table": 0}, "conf.table is 0"), ({"table": "x"}, "conf.table"),
    ({"gateways": ["10.0.0.300"]}, "conf.gateways[0] is '10.0.0.300'"),
    ({"gateways": ["10.0.0.1", "10.0.0.2"]}, "multiple IPv4 addresses"),
])
def test_invalid_configurations_are_refused(lab, chained_plugins, more, contains):
    pod = lab.pod()
    before = pod.state()
    for verb, extra in (("ADD", {}), ("CHECK", {}), ("STATUS", {"version": "1.1.0"})):
        c = conf("sbr", extra.get("version", "1.0.0"),
                 prevResult=prev(pod, [("10.0.0.2/24", "10.0.0.1")]), **more)
        lab.fail(verb, c, pod, 7, contains, plugins=chained_plugins)
    assert pod.state() == before
    lab.delete(conf("sbr", **more), pod, plugins=chained_plugins)


def test_missing_prev_result_is_refused(lab, chained_plugins):
    lab.fail("ADD", conf("sbr"), lab.pod(), 7, "This plugin must be called as chained plugin",
             plugins=chained_plugins)


def test_status_and_gc_succeed(lab, chained_plugins):
    lab.ok("STATUS", conf("sbr", "1.1.0"), lab.pod(), plugins=chained_plugins)
    lab.ok("GC", conf("sbr", "1.1.0", **{"cni.dev/valid-attachments": []}), lab.pod(), plugins=chained_plugins)


def test_concurrent_adds_use_different_tables(lab, chained_plugins):
    """unirail's and Debian's plugin lock the same file, the namespace, so they do not choose the same table when they run concurrently."""
    pod = lab.pod()
    calls = []
    for i, by in ((1, chained_plugins), (2, REFERENCE)):
        ipam = json.loads(json.dumps(V4).replace("172.16.1.", f"172.16.{i}."))
        result = lab.add(lab.macvlan(f"rail{i - 1}", ipam), pod, plugins=lab.plugins, ifname=f"net{i}")
        calls.append((conf("sbr", prevResult=result), f"net{i}", by))
    running = [lab.popen("ADD", c, pod, plugins=by, ifname=name) for c, name, by in calls]
    for p in running:
        out, err = p.communicate(timeout=30)
        assert p.returncode == 0, out + err
    assert {r[3] for r in rules(pod.ns) if r[1] != "all"} == {"100", "101"}


def test_sbr_logs_nothing(lab, chained_plugins):
    """The original writes a page of log for each call."""
    pod = lab.pod()
    result = lab.add(lab.macvlan("rail0", V4), pod, plugins=lab.plugins)
    assert lab.cni("ADD", conf("sbr", prevResult=result), pod, plugins=chained_plugins).err == ""
