# SPDX-License-Identifier: Apache-2.0
"""ipoib on a kernel without InfiniBand: ADD fails with one clear error and leaves nothing. tests/vm/cases/ipoib.sh tests ipoib with
InfiniBand."""
import pytest
from lab import link_names, state

STATIC = {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}


def conf(ipam=None, version="1.0.0", **more):
    c = {"cniVersion": version, "name": "ib", "type": "ipoib", "master": "rail0", **more}
    return {**c, "ipam": ipam or STATIC}


@pytest.mark.parametrize("more,code,contains", [
    ({}, 50, ["create ipoib: Operation not supported (EOPNOTSUPP)", "load module ib_ipoib"]),
    ({"master": ""}, 7, ["host master interface is missing"]),
    ({"master": 7}, 7, ["master"]),
    ({"pkey": "0x8000"}, 7, ['conf.pkey is ']),
    ({"pkey": 65536}, 7, ["conf.pkey is 65536"]),
    ({"mode": "x"}, 7, ["conf.mode is 'x', expected datagram or connected"]),
    ({"mtu": -1}, 7, ["mtu"]),
    ({"ipam": {"type": "dhcp"}}, 2, ["ipam dhcp type is not supported"]),
])
def test_add_fails_on_a_kernel_without_ipoib_and_changes_nothing(lab, more, code, contains):
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", {**conf(), **more}, pod, code=code, contains=contains)
    assert (state(lab.node), pod.state()) == before


def test_status_fails_on_a_kernel_without_ipoib(lab):
    lab.fail("STATUS", conf(version="1.1.0"), lab.pod(), code=50, contains=["load module ib_ipoib"])


@pytest.mark.parametrize("more", [{}, {"master": ""}, {"pkey": "x"}])
def test_del_without_state_succeeds(lab, more):
    pod = lab.pod()
    lab.delete({**conf(), **more}, pod)
    lab.delete({**conf(), **more}, pod)
    assert link_names(pod.ns) == ["lo"]


def test_del_without_a_namespace_succeeds(lab):
    """The original's DEL fails: `failed to open netns ""`."""
    pod = lab.pod()
    pod.netns = ""
    lab.delete(conf(), pod)
