# SPDX-License-Identifier: Apache-2.0
"""ib-sriov on a node without InfiniBand: ADD succeeds only for a PF bound to vfio-pci; otherwise it fails with one clear error and
changes nothing. DEL succeeds. tests/vm/cases/ib_sriov.sh tests ib-sriov with InfiniBand."""
import subprocess

import pytest
from lab import link_names, state

MISSING = "0000:ff:1f.7"
STATIC = {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}


def conf(version="1.0.0", **more):
    return {"cniVersion": version, "name": "ib", "type": "ib-sriov", "deviceID": MISSING, "ipam": STATIC, **more}


@pytest.mark.parametrize("more,code,contains", [
    ({}, 50, ["failed to get VF device information", MISSING]),
    ({"deviceID": ""}, 7, ["deviceID is required"]),
    ({"deviceID": "x"}, 7, ["conf.deviceID is 'x', expected a VF's PCI address"]),
    ({"deviceID": 7}, 7, ["deviceID"]),
    ({"link_state": "up"}, 7, ["invalid link_state value: up"]),
    ({"pkey": 1000}, 7, ["pkey"]),
    ({"guidPool": "x"}, 7, ["conf.guidPool is 'x'"]),
    ({"vfioPciMode": True}, 7, ["vfioPciMode is enabled but device " + MISSING + " is not bound"]),
    ({"ibKubernetesEnabled": True}, 11, ['is not "configured" please check mellanox ib-kubernetes']),
    ({"runtimeConfig": {"infinibandGUID": "00:00:00:00:00:00:00:00"}}, 7, ["invalid guid 00:00:00:00:00:00:00:00"]),
    ({"ipam": {"type": "dhcp"}}, 2, ["ipam type dhcp is not supported"]),
])
def test_invalid_input_changes_nothing(lab, more, code, contains):
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", {**conf(), **more}, pod, code=code, contains=contains)
    assert (state(lab.node), pod.state()) == before


@pytest.fixture
def recorded(tmp_path):
    """Returns unpack(NAME), which unpacks a recorded host of tests/hosts and returns the environment of a plugin call on this
    host."""
    def unpack(name):
        top = tmp_path / name
        subprocess.run(["build/unirail", "doctor", "--root", f"tests/hosts/{name}.tree", "--unpack", top], check=True,
                       capture_output=True)
        return {"UNIRAIL_ROOT": str(top)}
    return unpack


def test_pf_bound_to_vfio_gets_addresses_only(lab, recorded):
    """A device for a virtual machine: ADD allocates addresses and returns a result, but neither configures nor moves the device."""
    pod, at, c = lab.pod(), recorded("mlx5_vfio"), conf(deviceID="0000:c1:00.0")
    before = state(lab.node)
    for more in ({}, {"vfioPciMode": True}):
        result = lab.add({**c, **more}, pod, **at)
        assert result["interfaces"] == [{"name": "net1", "sandbox": pod.netns}]
        assert [i["address"] for i in result["ips"]] == ["172.16.1.20/24"]
        lab.ok("CHECK", {**c, **more, "prevResult": result}, pod, **at)
        lab.delete({**c, **more}, pod, **at)
    assert state(lab.node) == before and link_names(pod.ns) == ["lo"]
    lab.ok("STATUS", conf("1.1.0", deviceID="0000:c1:00.0"), pod, **at)
    lab.fail("ADD", conf(deviceID="0000:81:00.0"), pod, code=7, contains=["PF device 0000:81:00.0 requires vfioPciMode"],
             **recorded("mlx5_switchdev"))


def test_vf_bound_to_vfio_requires_its_pf(lab, recorded):
    """The GUID of a VF with vfio-pci must be set through the PF's netdev, which does not exist here."""
    pod = lab.pod()
    lab.fail("ADD", conf(deviceID="0000:c1:00.3"), pod, code=50, contains=["PF network device not found", "0000:c1:00.0"],
             **recorded("mlx5_vfio"))
    lab.ok("STATUS", conf("1.1.0", deviceID="0000:19:00.2"), pod, **recorded("mlx5_ib_vfio"))


def test_status_reports_that_the_rdma_mode_cannot_be_read(lab):
    lab.fail("STATUS", conf("1.1.0", rdmaIsolation=True), lab.pod(), code=50,
             contains=["failed to get RDMA subsystem namespace awareness mode"])


@pytest.mark.parametrize("more", [{}, {"deviceID": ""}, {"deviceID": 7}, {"pkey": 1}, {"link_state": "x"}])
def test_del_without_state_succeeds(lab, more):
    pod = lab.pod()
    lab.delete({**conf(), **more}, pod)
    assert link_names(pod.ns) == ["lo"]


def test_del_without_a_namespace_succeeds(lab):
    pod = lab.pod()
    pod.netns = ""
    lab.delete(conf(), pod)
