# SPDX-License-Identifier: Apache-2.0
"""ib-sriov on a node without InfiniBand: one clear line, nothing changed; DEL succeeds. What it does where there is some is
in tests/vm/cases/ib_sriov.sh."""
import pytest
from lab import link_names, state

GONE = "0000:ff:1f.7"
STATIC = {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}


def conf(version="1.0.0", **more):
    return {"cniVersion": version, "name": "ib", "type": "ib-sriov", "deviceID": GONE, "ipam": STATIC, **more}


@pytest.mark.parametrize("more,code,words", [
    ({}, 50, ["failed to get VF device information", GONE]),
    ({"deviceID": ""}, 7, ["deviceID is required"]),
    ({"deviceID": "x"}, 7, ["conf.deviceID is 'x', wants a VF's PCI address"]),
    ({"deviceID": 7}, 7, ["deviceID"]),
    ({"link_state": "up"}, 7, ["invalid link_state value: up"]),
    ({"pkey": 1000}, 7, ["pkey"]),
    ({"guidPool": "x"}, 7, ["conf.guidPool is 'x'"]),
    ({"vfioPciMode": True}, 7, ["vfioPciMode is enabled but device " + GONE + " is not bound"]),
    ({"ibKubernetesEnabled": True}, 11, ['is not "configured" please check mellanox ib-kubernetes']),
    ({"runtimeConfig": {"infinibandGUID": "00:00:00:00:00:00:00:00"}}, 7, ["invalid guid 00:00:00:00:00:00:00:00"]),
    ({"ipam": {"type": "dhcp"}}, 2, ["ipam type dhcp is not supported"]),
])
def test_refused(lab, more, code, words):
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", {**conf(), **more}, pod, code=code, words=words)
    assert (state(lab.node), pod.state()) == before


def test_status_with_isolation(lab):
    lab.fail("STATUS", conf("1.1.0", rdmaIsolation=True), lab.pod(), code=50,
             words=["failed to get RDMA subsystem namespace awareness mode"])


@pytest.mark.parametrize("more", [{}, {"deviceID": ""}, {"deviceID": 7}, {"pkey": 1}, {"link_state": "x"}])
def test_del_without_anything(lab, more):
    pod = lab.pod()
    lab.delete({**conf(), **more}, pod)
    assert link_names(pod.ns) == ["lo"]


def test_del_without_namespace(lab):
    pod = lab.pod()
    pod.netns = ""
    lab.delete(conf(), pod)
