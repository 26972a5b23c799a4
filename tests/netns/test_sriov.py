# SPDX-License-Identifier: Apache-2.0
"""sriov on a machine without virtual functions: invalid input, and the move of a netdev into the pod and back. In a simulated /sys a
veth end is the netdev of a VF. Its PF is bound to vfio-pci and has no netdev to set the VF's attributes, so only the move is tested.
tests/vm tests the attributes."""
import json
import os
import signal

import pytest
from lab import addresses, ip, ip_json, link, link_names, ns_del, run
from report import wait

VF, PF, OTHER = "0000:5e:00.2", "0000:5e:00.0", "0000:5e:00.3"
STATIC = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}]}
RECORDS = "var/lib/cni/sriov"


def conf(vf=VF, version="1.1.0", **more):
    c = {"cniVersion": version, "name": "rail", "type": "sriov", "ipam": STATIC, **more}
    return {**c, "deviceID": vf} if vf else c


@pytest.fixture
def root(tmp_path):
    """A PF with two VFs, whose netdevs are rail0 and rail1."""
    top = tmp_path / "root"
    devices, bus = top / "sys/devices/pci0000:5d", top / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for name, driver in ((PF, "vfio-pci"), (VF, "mlx5_core"), (OTHER, "mlx5_core")):
        (devices / name).mkdir(parents=True)
        (bus / name).symlink_to(f"../../../devices/pci0000:5d/{name}")
        (top / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (devices / name / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    (devices / PF / "sriov_totalvfs").write_text("2\n")
    (devices / PF / "sriov_numvfs").write_text("2\n")
    for i, vf in enumerate((VF, OTHER)):
        (devices / PF / f"virtfn{i}").symlink_to(f"../{vf}")
        (devices / vf / "physfn").symlink_to(f"../{PF}")
        (devices / vf / "net" / f"rail{i}").mkdir(parents=True)
    return top


@pytest.fixture
def at(root):
    return {"UNIRAIL_ROOT": str(root)}


def files(root):
    top = root / RECORDS
    return sorted(str(f.relative_to(top)) for f in top.rglob("*") if f.is_file() and not f.name.endswith(".lock"))


def shape(lab, nic="rail0"):
    [k] = ip_json(lab.node, "link", "show", nic)
    return {**{key: k.get(key) for key in ("ifname", "address", "mtu", "ifalias")}, "altnames": sorted(k.get("altnames", []))}


def record(root, pod):
    return json.loads((root / RECORDS / f"{pod.id}-net1").read_text())


def test_vf_is_moved_and_restored(lab, root, at):
    pod, c = lab.pod(), conf()
    ip(lab.node, "link", "set", "rail0", "alias", "uplink one", "mtu", "8000")
    ip(lab.node, "link", "property", "add", "dev", "rail0", "altname", "net1")
    ip(lab.node, "link", "property", "add", "dev", "rail0", "altname", "enp94s0v0")
    before = shape(lab)
    result = lab.add({**c, "mtu": 1400}, pod, **at)
    assert result["interfaces"] == [{"name": "net1", "mac": before["address"], "mtu": 1400, "sandbox": pod.netns}]
    assert link(pod.ns, "net1")["ifalias"] == "rail0" and "rail0" not in link_names(lab.node)
    assert [a["address"] for a in addresses(pod.ns) if a["dev"] == "net1"] == ["172.16.1.20/24"]
    assert files(root) == [f"{pod.id}-net1", f"pci/{VF}"]
    assert (root / RECORDS / "pci" / VF).read_text() == pod.netns
    seen = record(root, pod)
    assert seen["OrigVfState"]["HostIFName"] == "rail0" and seen["OrigVfState"]["MTU"] == 8000 and seen["MTU"] == 1400
    assert seen["unirail"]["pod"] == "team/pod" and seen["name"] == "rail" and seen["ipam"] == {"type": "static"}
    assert list(seen) == sorted(seen)
    lab.ok("CHECK", {**c, "prevResult": result}, pod, **at)
    lab.delete(c, pod, **at)
    assert shape(lab) == before and link_names(pod.ns) == ["lo"] and files(root) == []
    lab.delete(c, pod, **at)
    lab.add(c, pod, **at)


def test_add_with_vf_attributes_fails_if_the_pf_has_no_netdev(lab, root, at):
    before = shape(lab)
    for more in ({"vlan": 7}, {"trust": "on"}, {"mac": "02:00:00:00:07:01"}, {"max_tx_rate": 1}):
        lab.fail("ADD", conf(**more), lab.pod(), code=50, contains=["PF network device not found", PF, "vfio-pci"], **at)
    assert shape(lab) == before and files(root) == []


@pytest.mark.parametrize("more,code,contains", [
    ({"deviceID": None}, 7, "VF pci addr is required"),
    ({"deviceID": "rail0"}, 7, ["conf.deviceID is 'rail0'", "PCI address"]),
    ({"deviceID": PF}, 7, ["is not a VF", PF]),
    ({"deviceID": "0000:5e:00.7"}, 50, "0000:5e:00.7"),
    ({"vlan": 4095}, 7, "vlan id 4095 invalid: value must be in the range 0-4094"),
    ({"vlanQoS": 3}, 7, "vlan id must be configured"),
    ({"min_tx_rate": 2, "max_tx_rate": 1}, 7, ["conf.min_tx_rate", "conf.max_tx_rate"]),
    ({"link_state": "up"}, 7, "invalid link_state value: up"),
    ({"mtu": 20}, 7, "conf.mtu is 20"),
    ({"runtimeConfig": {"mac": "zz"}}, 7, "runtimeConfig.mac"),
    ({"ipam": {"type": "nosuch-ipam"}}, None, "nosuch-ipam"),
])
def test_invalid_input_is_refused(lab, root, at, more, code, contains):
    before = shape(lab)
    lab.fail("ADD", {**conf(), **more}, lab.pod(), code=code, contains=contains, **at)
    assert shape(lab) == before and files(root) == []


def test_vf_without_a_netdev_or_without_a_driver_is_refused(lab, root, at):
    for f in (root / "sys/devices/pci0000:5d" / VF).glob("net/*"):
        f.rmdir()
    lab.fail("ADD", conf(), lab.pod(), code=50, contains="does not have a interface name or a dpdk driver", **at)
    (root / "sys/devices/pci0000:5d" / VF / "driver").unlink()
    lab.fail("STATUS", conf(), lab.pod(), code=50, contains="has no driver", **at)
    lab.ok("STATUS", conf(None), lab.pod(), **at)
    lab.fail("STATUS", conf(None), lab.pod(), code=50, contains="the node has no VF", UNIRAIL_ROOT=str(root / "sys"))


def test_vf_with_a_dpdk_driver_gets_addresses_only(lab, root, at):
    """ADD allocates addresses, returns a result and writes its files, but moves no link. The original's DEL requires a link and fails."""
    folder = root / "sys/devices/pci0000:5d" / VF
    (folder / "net/rail0").rmdir()
    (folder / "driver").unlink()
    (folder / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    pod = lab.pod()
    result = lab.add(conf(), pod, **at)
    assert result["interfaces"] == [{"name": "net1", "sandbox": pod.netns}] and len(result["ips"]) == 1
    assert files(root) == [f"{pod.id}-net1", f"pci/{VF}"] and link_names(pod.ns) == ["lo"]
    lab.ok("CHECK", {**conf(), "prevResult": result}, pod, **at)
    lab.fail("ADD", conf(), lab.pod("second"), code=11, contains="is already allocated", **at)
    lab.delete(conf(), pod, **at)
    assert files(root) == []


def test_vfs_of_a_pf_bound_to_vfio_on_a_recorded_host_are_attached(lab, tmp_path):
    """ADD and DEL of a VF bound to vfio-pci, whose PF has vfio-pci too, and of a VF of the same PF with a kernel driver."""
    top = tmp_path / "host"
    run(["build/unirail", "doctor", "--root", "tests/hosts/mlx5_vfio.tree", "--unpack", top])
    at, pod, before = {"UNIRAIL_ROOT": str(top)}, lab.pod(), shape(lab)
    c = conf("0000:c1:00.3")
    result = lab.add(c, pod, **at)
    assert result["interfaces"] == [{"name": "net1", "sandbox": pod.netns}] and len(result["ips"]) == 1
    assert record(top, pod)["unirail"]["dpdk"] is True
    lab.ok("CHECK", {**c, "prevResult": result}, pod, **at)
    lab.delete(c, pod, **at)
    assert files(top) == []
    lab.fail("ADD", {**c, "vlan": 7}, pod, code=50, contains=["PF network device not found", "0000:c1:00.0"], **at)
    lab.add(conf("0000:c1:00.2"), pod, **at)
    assert "net1" in link_names(pod.ns)
    lab.delete(conf("0000:c1:00.2"), pod, **at)
    assert files(top) == [] and shape(lab) == before


def test_vf_in_use_is_refused(lab, root, at):
    first, second = lab.pod("first"), lab.pod("second")
    lab.add(conf(), first, **at)
    lab.fail("ADD", conf(), second, code=11, contains=[f"pci address {VF} is already allocated", "team/first", first.id], **at)
    lab.delete(conf(), second, **at)
    assert link(first.ns, "net1") and files(root) == [f"{first.id}-net1", f"pci/{VF}"]


def test_vf_stays_in_the_pod_while_its_name_is_in_use(lab, root, at):
    """DEL fails with one line that names the reason, and succeeds once the name is free."""
    pod, before = lab.pod(), shape(lab)
    lab.add(conf(), pod, **at)
    ip(lab.node, "link", "add", "rail0", "type", "bridge")
    lab.fail("DEL", conf(), pod, contains=["failed to rename link net1 to host name rail0", "File exists (EEXIST)"], **at)
    assert link(pod.ns, "net1") and files(root)
    ip(lab.node, "link", "del", "rail0")
    lab.delete(conf(), pod, **at)
    assert shape(lab) == before and files(root) == []


def test_del_without_cni_netns_restores_the_vf(lab, root, at):
    """DEL reads the pod's namespace from the record that ADD wrote. The original leaves the VF in that namespace."""
    pod, before = lab.pod(), shape(lab)
    lab.add(conf(), pod, **at)
    lab.delete(conf(), pod, netns="", **at)
    assert shape(lab) == before and files(root) == []


def test_gc_restores_vfs_of_unlisted_pods(lab, root, at):
    pod, before = lab.pod(), shape(lab)
    lab.add(conf(), pod, **at)
    keep = [{"containerID": pod.id, "ifname": "net1"}]
    lab.ok("GC", {**conf(None), "cni.dev/valid-attachments": keep}, pod, **at)
    lab.ok("GC", {**conf(None), "name": "another", "cni.dev/valid-attachments": []}, pod, **at)
    lab.ok("GC", conf(None), pod, **at)
    assert link(pod.ns, "net1")
    lab.ok("GC", {**conf(None), "cni.dev/valid-attachments": []}, pod, **at)
    assert shape(lab) == before and files(root) == []


def test_failed_add_restores_the_vf(lab, root, at):
    """ADD fails after it moved the VF into the pod: the kernel refuses the route."""
    pod, before = lab.pod(), shape(lab)
    bad = conf(ipam={**STATIC, "routes": [{"dst": "10.0.0.0/8", "gw": "192.0.2.1"}]})
    lab.fail("ADD", bad, pod, contains="192.0.2.1", **at)
    assert shape(lab) == before and files(root) == [] and link_names(pod.ns) == ["lo"]
    assert "UP" in link(lab.node, "rail0")["flags"]


def rails(*vfs, **more):
    return {"cniVersion": "1.1.0", "name": "rails", "type": "unirail-cni", "networks": [
        {"name": f"rail{i}", "ifname": f"net{i}", "type": "sriov", "deviceID": vf,
         "ipam": {"type": "static", "addresses": [{"address": f"172.16.{i}.20/24"}]}, **more} for i, vf in enumerate(vfs, 1)]}


def test_two_vfs_are_attached_in_one_process(lab, root, at):
    pod, before = lab.pod(), [shape(lab), shape(lab, "rail1")]
    # the second VF has the alternative name net1, which the first VF gets as its name in the pod
    ip(lab.node, "link", "property", "add", "dev", "rail1", "altname", "net1")
    lab.add(rails(VF, OTHER), pod, **at)
    assert link_names(pod.ns) == ["lo", "net1", "net2"]
    lab.ok("GC", {**rails(VF, OTHER), "cni.dev/valid-attachments": [{"containerID": pod.id, "ifname": "eth0"}]}, pod, **at)
    assert link_names(pod.ns) == ["lo", "net1", "net2"]
    lab.delete(rails(VF, OTHER), pod, **at)
    assert shape(lab, "rail1")["altnames"] == ["net1"] and files(root) == []
    ip(lab.node, "link", "property", "del", "dev", "rail1", "altname", "net1")
    assert [shape(lab), shape(lab, "rail1")] == before
    lab.fail("ADD", rails(VF, VF), pod, code=7, contains=[VF, "another network of this pod"], **at)
    lab.fail("ADD", rails(VF, "0000:5e:00.7"), pod, code=50, contains="rail 'net2'", **at)
    assert [shape(lab), shape(lab, "rail1")] == before and files(root) == []


@pytest.mark.parametrize("n", range(5, 400, 13))
def test_del_restores_the_vf_after_a_killed_add(lab, root, at, n):
    """kill -9 at the n-th system call of an ADD: DEL leaves nothing, and the next ADD succeeds."""
    pod, before = lab.pod(), shape(lab)
    env = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": pod.id, "CNI_NETNS": pod.netns, "CNI_IFNAME": "net1",
           "CNI_PATH": str(lab.plugins), "PATH": os.environ["PATH"], "CNI_ARGS": pod.args, **at}
    run(["strace", "-qq", "-o", "/dev/null", "-e", f"inject=all:signal={signal.SIGKILL.value}:when={n}", lab.plugins / "sriov"],
        ns=lab.node, check=False, input=json.dumps(conf(mtu=1400)), env=env)
    lab.delete(conf(), pod, **at)
    assert shape(lab) == before and files(root) == [] and link_names(pod.ns) == ["lo"]
    lab.add(conf(), pod, **at)


def test_next_pod_gets_the_vf_of_a_pod_that_was_deleted_without_del(lab, root, at):
    """The pod was deleted without a DEL: its VF is restored before the next pod gets it."""
    pod, before = lab.pod(), shape(lab)
    lab.add(conf(mtu=1400), pod, **at)
    # the kernel deletes a veth end with its namespace, whereas it moves a real VF back to the node
    ip(pod.ns, "link", "set", "net1", "netns", lab.node)
    ns_del(pod.ns)
    wait(lambda: not os.path.exists(pod.netns), "the namespace is deleted")
    second = lab.pod("second")
    lab.add(conf(), second, **at)
    assert files(root) == [f"{second.id}-net1", f"pci/{VF}"]
    assert record(root, second)["OrigVfState"]["HostIFName"] == "rail0"
    assert link(second.ns, "net1")["mtu"] == before["mtu"]
    lab.delete(conf(), pod, **at)
    assert link(second.ns, "net1")
    lab.delete(conf(), second, **at)
    assert shape(lab) == before and files(root) == []
