# SPDX-License-Identifier: Apache-2.0
"""vlan on this machine, whose kernel has no VLAN links: ADD fails with one clear error and leaves nothing; what needs no VLAN link works.
tests/vm has a kernel with VLAN links."""
import pytest
from lab import REFERENCE, ip, link_names, state

STATIC4 = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}]}
LACKS = "create vlan: Operation not supported (EOPNOTSUPP): the kernel lacks vlan: load module 8021q"


def conf(ipam=None, version="1.0.0", **more):
    c = {"cniVersion": version, "name": "vl", "type": "vlan", "master": "rail0", "vlanId": 100, **more}
    return {**c, "ipam": ipam} if ipam else c


def host_local(lab):
    return {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": "172.16.1.0/24"}]]}


def files(lab):
    return [f.name for f in (lab.tmp / "networks").glob("*/172.*")]


@pytest.mark.parametrize("more", [{}, {"vlanMode": "manual", "vlanId": 4094}, {"linkInContainer": True}])
def test_kernel_without_vlan_is_reported_before_any_change(lab, more):
    pod = lab.pod()
    before = state(lab.node), pod.state()
    e = lab.fail("ADD", conf(host_local(lab), **more), pod, code=50)
    assert e["msg"] == LACKS
    assert (state(lab.node), pod.state()) == before and files(lab) == []
    if "linkInContainer" not in more:
        assert lab.fail("STATUS", conf(None, "1.1.0", **more), pod, code=50)["msg"] == LACKS


@pytest.mark.parametrize("more,code,contains", [
    ({"vlanId": -1}, 7, ["invalid VLAN ID -1", "0 and 4094"]),
    ({"vlanId": 4095}, 7, ["invalid VLAN ID 4095", "0 and 4094"]),
    ({"vlanId": "100"}, 7, ["vlanId"]),
    ({"master": ""}, 7, ['"master" field is required']),
    ({"mtu": -1}, 7, ["invalid MTU -1"]),
    ({"vlanMode": "auto"}, 2, ["conf.vlanMode is 'auto'", "IaaS provider", "conf.vlanId"]),
    ({"vlanMode": "automatic"}, 7, ["conf.vlanMode is 'automatic'", "manual"]),
])
def test_invalid_configuration_is_refused(lab, more, code, contains):
    lab.fail("ADD", {**conf(STATIC4), **more}, lab.pod(), code=code, contains=contains)


@pytest.mark.parametrize("netns", [None, "", "/run/netns/unirail-test-not-there"])
@pytest.mark.parametrize("missing", ["master", "field"])
def test_del_succeeds_without_the_master(lab, netns, missing):
    """The original's DEL fails in both cases: it requires the field, and it reads the MTU of the master."""
    pod, c = lab.pod(), conf(host_local(lab))
    # this kernel has no VLAN links, so macvlan creates the link; vlan's DEL deletes the link by its name
    lab.add({**c, "type": "macvlan"}, pod)
    if missing == "master":
        ip(lab.node, "link", "del", "rail0")
    else:
        del c["master"]
    lab.delete(c, pod, netns=netns)
    assert files(lab) == []
    if netns is None:
        assert link_names(pod.ns) == ["lo"]


def test_check_refuses_a_link_of_another_kind(lab):
    pod = lab.pod()
    prev = lab.add({**conf(STATIC4), "type": "macvlan"}, pod)
    for plugins in (lab.plugins, REFERENCE):
        lab.fail("CHECK", conf(STATIC4, prevResult=prev), pod, plugins=plugins,
                 contains="Error: Container interface net1 not of type vlan")


def test_add_with_a_vlan_rail_fails_before_other_networks_are_attached(lab):
    lab.rail_pools()
    nets = lab.all_networks()
    nets[1]["plugins"][0].update(type="vlan", vlanId=7)
    pod = lab.pod()
    before = state(lab.node), pod.state()
    e = lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", code=50)
    assert e["msg"] == f"rail 'net1' (rail0): {LACKS}"
    assert (state(lab.node), pod.state()) == before and lab.used() == {}
