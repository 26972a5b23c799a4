# SPDX-License-Identifier: Apache-2.0
"""ipvlan on this machine, whose kernel has no ipvlan: ADD fails with one clear error and leaves nothing; CHECK, DEL and GC, which create
no link, work. tests/vm has a kernel with ipvlan."""
import pytest
from lab import REFERENCE, ip, link_names, state

STATIC4 = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
           "routes": [{"dst": "0.0.0.0/0"}]}
LACKS = "create ipvlan: Operation not supported (EOPNOTSUPP): the kernel lacks ipvlan: load module ipvlan"


def conf(ipam=None, version="1.0.0", **more):
    c = {"cniVersion": version, "name": "iv", "type": "ipvlan", "master": "rail0", **more}
    return {**c, "ipam": ipam} if ipam else c


def host_local(lab):
    return {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": "172.16.1.0/24"}]]}


def files(lab):
    return [f.name for f in (lab.tmp / "networks").glob("*/172.*")]


@pytest.mark.parametrize("more", [{}, {"mode": "l3"}, {"linkInContainer": True, "master": "inner0"}],
                         ids=["l2", "l3", "master in the pod"])
def test_kernel_without_ipvlan_is_reported_before_any_change(lab, more):
    """ADD returns the kernel's error before it changes anything. The original's error is `failed to rename ipvlan`, about a link in the
    pod, and hides the kernel's error."""
    pod = lab.pod()
    ip(pod.ns, "link", "add", "inner0", "type", "veth", "peer", "name", "inner1")
    before = state(lab.node), pod.state()
    e = lab.fail("ADD", conf(host_local(lab), **more), pod, code=50)
    assert e["msg"] == LACKS
    assert (state(lab.node), pod.state()) == before and files(lab) == []


def test_status_fails_on_a_kernel_without_ipvlan(lab):
    pod = lab.pod()
    e = lab.fail("STATUS", conf(STATIC4, "1.1.0"), pod, code=50)
    assert e["msg"] == LACKS


@pytest.mark.parametrize("more,contains", [
    ({"mode": "l4"}, ['unknown ipvlan mode: "l4"', "l2, l3 or l3s"]),
    ({"mtu": -1}, ["mtu"]),
    ({"mtu": "big"}, ["mtu"]),
    ({"master": 7}, ["master"]),
])
def test_invalid_configuration_is_refused(lab, more, contains):
    lab.fail("ADD", {**conf(STATIC4), **more}, lab.pod(), code=7, contains=contains)


def test_two_interfaces_in_prev_result_without_a_master_are_refused(lab):
    """Without `master` the only interface of prevResult would be the master; with two interfaces the master is ambiguous."""
    pod = lab.pod()
    c = conf()
    del c["master"]
    prev = {"cniVersion": "1.0.0", "interfaces": [{"name": "rail0"}, {"name": "rail1"}]}
    lab.fail("ADD", {**c, "prevResult": prev}, pod, code=7,
             contains="chained master failure. PrevResult lacks a single named interface")


def test_unknown_cni_args_are_ignored(lab):
    """ipvlan, like the original, does not read CNI_ARGS, so it ignores arguments that macvlan rejects."""
    lab.fail("ADD", conf(STATIC4), lab.pod(), args="FOO=bar", contains="Operation not supported (EOPNOTSUPP)")


@pytest.mark.parametrize("netns", [None, "", "/run/netns/unirail-test-not-there"])
def test_del_succeeds_without_the_master(lab, netns):
    """If the configuration has no master, the original's DEL fails, since it searches for the device of the default route, and this test
    deletes that route."""
    pod, c = lab.pod(), conf(host_local(lab))
    del c["master"]
    lab.add({**c, "type": "macvlan", "master": "rail0"}, pod)  # the DEL of ipvlan deletes the link net1 whatever its kind is
    assert files(lab)
    ip(lab.node, "route", "del", "default")
    lab.delete(c, pod, netns=netns)
    assert files(lab) == []
    if netns is None:
        assert link_names(pod.ns) == ["lo"]


def test_check_refuses_a_link_of_another_kind(lab):
    pod = lab.pod()
    prev = lab.add({**conf(STATIC4), "type": "macvlan"}, pod)
    for plugins in (lab.plugins, REFERENCE):
        lab.fail("CHECK", conf(STATIC4, prevResult=prev), pod, plugins=plugins,
                 contains="Error: Container interface net1 not of type ipvlan")


def test_gc_releases_addresses_of_unlisted_containers(lab):
    pod, c = lab.pod(), conf(host_local(lab), "1.1.0")
    lab.add({**c, "type": "macvlan"}, pod)
    lab.ok("GC", {**c, "cni.dev/valid-attachments": []}, pod)
    assert files(lab) == []


def test_unirail_cni_with_an_ipvlan_rail_fails_before_it_attaches_any_network(lab):
    """unirail-cni reports the missing ipvlan before it executes the plugin of another project, `bridge`."""
    lab.rail_pools()
    nets = lab.all_networks()
    nets[0]["plugins"] = [{"type": "bridge", "bridge": "cbr0", "ipam": host_local(lab)}]
    nets[2]["plugins"][0].update(type="ipvlan", mode="l2")
    pod = lab.pod()
    before = state(lab.node), pod.state()
    e = lab.fail("ADD", lab.rails(nets, "1.0.0"), pod, ifname="eth0", code=50, CNI_PATH=f"{lab.plugins}:{REFERENCE}")
    assert e["msg"] == f"rail 'net2' (rail1): {LACKS}"
    assert (state(lab.node), pod.state()) == before and lab.used() == {} and files(lab) == []
    e = lab.fail("STATUS", lab.rails(nets), pod, ifname="eth0", code=50,
                 CNI_PATH=f"{lab.plugins}:{REFERENCE}")
    assert LACKS in e["msg"]
