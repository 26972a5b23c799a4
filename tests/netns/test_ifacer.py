# SPDX-License-Identifier: Apache-2.0
"""ifacer on this kernel, which supports neither VLAN interfaces nor bonds: refusals, results, and that nothing is left.
tests/unit/cni/plugins/test_ifacer.c tests the requests to the kernel."""
import pytest
from lab import ip, link, same_shape, state
from chained_lab import conf, chained_plugins, prev  # noqa: F401

NIC = {"interfaces": ["rail0"]}
BOND = {"interfaces": ["rail0", "rail1"], "bond": {"name": "bond0", "mode": 1, "options": "miimon=100"}}


def unchanged(lab, before):
    assert same_shape(state(lab.node)) == before


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
@pytest.mark.parametrize("more", [NIC, {"interfaces": ["rail0", "rail1"]}, {"interfaces": ["a", "b"], "vlanID": 7},
                                  {**NIC, "bond": {"mode": 1}}])
def test_bond_of_one_interface_and_vlan_of_two_create_nothing(lab, chained_plugins, version, more):
    """The result is empty; ifacer does not check that the interfaces exist."""
    before = same_shape(state(lab.node))
    pod = lab.pod()
    got = lab.add(conf("ifacer", version, **more), pod, plugins=chained_plugins)
    assert got.pop("dns", {}) == {} and got == {"cniVersion": version}
    if version >= "0.4.0":
        lab.ok("CHECK", conf("ifacer", version, **more), pod, plugins=chained_plugins)
    lab.delete(conf("ifacer", version, **more), pod, plugins=chained_plugins)
    unchanged(lab, before)


def test_prev_result_is_passed_on(lab, chained_plugins):
    """The original omits prevResult from its result."""
    pod = lab.pod()
    before = prev(pod, [("172.16.1.20/24", "172.16.1.1")])
    assert lab.add(conf("ifacer", prevResult=before, **NIC), pod, plugins=chained_plugins) == before


def test_add_and_del_succeed_without_the_pods_namespace(lab, chained_plugins):
    pod = lab.pod()
    lab.add(conf("ifacer", **NIC), pod, plugins=chained_plugins, netns="/run/netns/unirail-not-there")
    lab.delete(conf("ifacer", **NIC), pod, plugins=chained_plugins, netns="")


def test_old_cni_versions_are_refused_before_a_link_is_created(lab, chained_plugins):
    for version in ("0.1.0", "0.2.0"):
        lab.fail("ADD", conf("ifacer", version, vlanID=5, **NIC), lab.pod(), 7,
                 "cannot convert: no valid IP addresses", plugins=chained_plugins)


@pytest.mark.parametrize("more,contains", [
    ({}, "invalid config: interfaces have at least one interface"),
    ({"interfaces": []}, "invalid config: interfaces have at least one interface"),
    ({**NIC, "vlanID": 4095}, "invalid vlanID 4095: vlanID must be in range [0,4094]"),
    ({**NIC, "vlanID": -1}, "invalid vlanID -1"),
    ({"interfaces": ["a", "b"], "bond": {"mode": 7}}, "unknown bond mode: 7, available mode: [0,6]"),
    ({"interfaces": ["a", "a"], "bond": {}}, "conf.interfaces has 'a' twice"),
    ({"interfaces": ["a", "b"], "bond": {"name": "a"}}, "conf.interfaces[0] is 'a', the same as conf.bond.name"),
    ({"interfaces": ["a/b"]}, "conf.interfaces[0] is 'a/b'"),
    ({"interfaces": ["enp175s0f0np0"], "vlanID": 1000}, "name of more than 15 bytes"),
    ({"interfaces": ["a", "b"], "bond": {"options": "miimon=fast"}}, "conf.bond.options: miimon is 'fast'"),
    ({"interfaces": ["a", "b"], "bond": {"options": "miimon=100;;lacp_rate=3"}}, "lacp_rate is '3', expected 0 to 1"),
    ({"interfaces": ["a", "b"], "bond": {"options": "arp_ip_target=[\"x\"]"}}, "expected IPv4 addresses"),
    ({"interfaces": ["a", "b"], "bond": {"options": "primary=c"}},
     "conf.bond.options: primary is 'c', which is not in conf.interfaces"),
    ({"interfaces": ["a", "b"], "bond": "bond0"}, "conf.bond is string, expected an object"),
])
def test_invalid_configurations_are_refused(lab, chained_plugins, more, contains):
    before = same_shape(state(lab.node))
    for verb in ("ADD", "CHECK", "STATUS"):
        lab.fail(verb, conf("ifacer", "1.1.0" if verb == "STATUS" else "1.0.0", **more), lab.pod(), 7, contains,
                 plugins=chained_plugins)
    lab.delete(conf("ifacer", **more), lab.pod(), plugins=chained_plugins)
    unchanged(lab, before)


@pytest.mark.parametrize("more,contains", [
    ({"interfaces": ["gone"], "vlanID": 5}, "failed to createVlanDevice: interface 'gone': Link not found"),
    ({"interfaces": ["rail0", "gone"], "bond": {}}, "failed to createBondDevice: interface 'gone': Link not found"),
])
def test_missing_interfaces_are_refused(lab, chained_plugins, more, contains):
    before = same_shape(state(lab.node))
    for verb, version in (("ADD", "1.0.0"), ("STATUS", "1.1.0")):
        lab.fail(verb, conf("ifacer", version, **more), lab.pod(), 50, contains, plugins=chained_plugins)
    unchanged(lab, before)


def test_interface_name_in_use_is_refused(lab, chained_plugins):
    ip(lab.node, "link", "add", "bond0", "type", "bridge")
    ip(lab.node, "link", "add", "rail0.5", "type", "bridge")
    before = same_shape(state(lab.node))
    lab.fail("ADD", conf("ifacer", **BOND), lab.pod(), 7,
             "a non-bond type interface named bond0 already exists on the host", plugins=chained_plugins)
    lab.fail("ADD", conf("ifacer", vlanID=5, **NIC), lab.pod(), 7, "'rail0.5' exists and is not VLAN 5 of 'rail0'",
             plugins=chained_plugins)
    unchanged(lab, before)


def test_interface_with_another_master_is_refused(lab, chained_plugins):
    ip(lab.node, "link", "add", "br9", "type", "bridge")
    ip(lab.node, "link", "set", "rail1", "master", "br9")
    lab.fail("ADD", conf("ifacer", **BOND), lab.pod(), 7, "interface 'rail1' is already a port of 'br9'", plugins=chained_plugins)
    assert link(lab.node, "rail1")["master"] == "br9"


@pytest.mark.parametrize("more,kind,module", [({**NIC, "vlanID": 5}, "vlan", "8021q"), (BOND, "bond", "bonding")])
def test_failed_add_on_a_kernel_without_vlan_or_bond_is_undone(lab, chained_plugins, more, kind, module):
    """The original continues with a link that it could not create. unirail fails, and sets the parent down again if it was down before."""
    ip(lab.node, "link", "set", "rail0", "down")
    before = same_shape(state(lab.node))
    lab.fail("ADD", conf("ifacer", **more), lab.pod(), 50, [f"create {kind}", "Operation not supported (EOPNOTSUPP)", "load the kernel module"],
             plugins=chained_plugins)
    lab.fail("STATUS", conf("ifacer", "1.1.0", **more), lab.pod(), 50,
             f"this kernel makes no links of kind '{kind}': modprobe {module}", plugins=chained_plugins)
    lab.fail("CHECK", conf("ifacer", **more), lab.pod(), 50, "Link not found", plugins=chained_plugins)
    lab.delete(conf("ifacer", **more), lab.pod(), plugins=chained_plugins)
    unchanged(lab, before)


def test_unknown_options_are_logged(lab, chained_plugins):
    """ifacer logs and ignores an unknown bond option, which the original ignores too, and a malformed first option, which the original
    refuses."""
    bond = {**BOND, "bond": {"options": "nonsense;;x=1;miimon=100"}}
    c = lab.cni("ADD", conf("ifacer", **bond), lab.pod(), plugins=chained_plugins)
    assert "Operation not supported (EOPNOTSUPP)" in c.json["msg"] and "nonsense" in c.err and "option=x" in c.err


def test_chain_of_ifacer_and_macvlan_succeeds(lab, chained_plugins):
    """The controller writes this order of plugins for a SpiderMultusConfig. With one interface and no VLAN, ifacer creates nothing."""
    pod = lab.pod()
    lab.plugins = chained_plugins
    plugins = [{"type": "ifacer", **NIC}, {"type": "macvlan", "master": "rail0"}]
    result = lab.chain("ADD", plugins, pod, version="0.4.0")
    lab.chain("CHECK", plugins, pod, version="0.4.0", prev=result)
    lab.chain("DEL", plugins, pod, version="0.4.0", prev=result)
    assert link(pod.ns, "net1") is None
