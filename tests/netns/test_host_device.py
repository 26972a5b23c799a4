# SPDX-License-Identifier: Apache-2.0
"""host-device with veth ends as NICs: compared with Debian's plugin, and cases in which Debian's plugin fails."""
import json
import pathlib

import lab as lab_module
import pytest
from lab import (REFERENCE, VERSIONS, addresses, has_address, ip, ip_json, link, link_names, ns_del, ping, routes,
                 rules, same, same_shape, state, sysctl)

STATIC4 = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
           "routes": [{"dst": "0.0.0.0/0"}, {"dst": "172.20.0.0/16", "gw": "172.16.1.7"}]}
STATIC6 = {"type": "static", "addresses": [{"address": "fd00:16:1::20/64", "gateway": "fd00:16:1::1"}],
           "routes": [{"dst": "::/0"}]}
DUAL = {"type": "static", "addresses": STATIC4["addresses"] + STATIC6["addresses"],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
PCI = "0000:5e:00.1"
GROUP = "1918986604"  # "rail" in ASCII: the group of the links that DEL deletes together


def conf(ipam=None, version="1.0.0", device="rail0", **more):
    c = {"cniVersion": version, "name": "hd", "type": "host-device", **more}
    if device:
        c["device"] = device
    return {**c, "ipam": ipam} if ipam else c


def host_local(lab, **more):
    return {"type": "host-local", "dataDir": str(lab.tmp / "networks"),
            "ranges": [[{"subnet": "172.16.1.0/24", "rangeStart": "172.16.1.50"}]], **more}


def files(lab):
    return sorted(f.name for f in (lab.tmp / "networks").glob("hd/172.*"))


def bare(lab, nic="rail0"):
    """Removes the addresses of a NIC of the node, as a NIC for pods should have none; returns the link."""
    ip(lab.node, "addr", "flush", "dev", nic)
    return link(lab.node, nic)


def restored(lab, nic="rail0"):
    k = link(lab.node, nic)
    assert k, link_names(lab.node)
    assert "ifalias" not in k, k
    return k


def shape(st):
    for k in st["links"]:
        k.pop("txqlen", None)
    return same_shape(st)


@pytest.mark.parametrize("v6,ipam", [(False, STATIC4), (True, STATIC6), (True, DUAL), (False, None)],
                         ids=["ipv4", "ipv6", "dual", "no ipam"])
@pytest.mark.parametrize("by", ["device", "hwaddr"])
def test_state_and_result_equal_debians(make_lab, v6, ipam, by):
    lab = make_lab(v6=v6)
    results, states = [], []
    for plugins in (lab.plugins, REFERENCE):
        pod = lab.pod()
        mac = bare(lab)["address"]
        before = shape(state(lab.node))
        c = conf(ipam) if by == "device" else conf(ipam, device=None, hwaddr=mac)
        result = lab.add(c, pod, plugins=plugins)
        assert "rail0" not in link_names(lab.node)
        assert link(pod.ns, "net1")["ifalias"] == "rail0"
        assert result["interfaces"] == [{"name": "net1", "mac": mac, "sandbox": pod.netns}]
        states.append(shape(pod.state()))
        result["interfaces"][0]["sandbox"] = "pod"
        result.pop("dns", None)
        results.append(result)
        lab.delete(c, pod, plugins=plugins)
        assert link_names(pod.ns) == ["lo"]
        if plugins == REFERENCE:  # Debian's plugin leaves the link down
            ip(lab.node, "link", "set", "rail0", "up", "alias", "")
        same(before, shape(state(lab.node)), "the node after DEL")
    assert results[0] == results[1]
    same(*states, "the pod")


@pytest.mark.parametrize("maker,deleter", [("candidate", "reference"), ("reference", "candidate")])
def test_pods_added_by_one_plugin_are_deleted_by_the_other(lab, maker, deleter):
    """The only record that both host-device plugins use is the device's alias: the name that the device had on the node."""
    where = {"candidate": lab.plugins, "reference": REFERENCE}
    pod, c = lab.pod(), conf(host_local(lab), "0.4.0")
    bare(lab)
    result = lab.add(c, pod, plugins=where[maker])
    assert has_address(pod.ns, "net1", "172.16.1.50/24")
    lab.ok("CHECK", {**c, "prevResult": result}, pod, plugins=where[deleter])
    lab.delete({**c, "prevResult": result}, pod, plugins=where[deleter])
    assert link_names(pod.ns) == ["lo"] and "rail0" in link_names(lab.node) and files(lab) == []
    if deleter == "candidate":
        restored(lab)


@pytest.mark.parametrize("version", VERSIONS)
def test_result_is_printed_in_every_cni_version(lab, version):
    pod = lab.pod()
    mac = bare(lab)["address"]
    got = lab.add(conf(STATIC4, version), pod)
    assert got["cniVersion"] == version
    if version >= "0.3.0":
        assert got["interfaces"] == [{"name": "net1", "mac": mac, "sandbox": pod.netns}]
        assert [i["address"] for i in got["ips"]] == ["172.16.1.20/24"]
    else:
        assert got["ip4"]["ip"] == "172.16.1.20/24"
    lab.delete(conf(STATIC4, version), pod)


@pytest.mark.parametrize("v6", [False, True])
def test_packets_reach_the_gateway_from_the_moved_device(make_lab, v6):
    lab = make_lab(v6=v6)
    pod = lab.pod()
    lab.add(conf(DUAL if v6 else STATIC4), pod)
    assert ping(pod.ns, "net1", "172.16.1.1")
    assert not v6 or ping(pod.ns, "net1", "fd00:16:1::1")
    assert sysctl(pod.ns, "net/ipv4/conf/net1/arp_notify") == "1"


def test_link_names_of_node_and_pod_are_independent(lab):
    """The pod already has a link rail0, the node a link net1: ADD and DEL succeed."""
    pod = lab.pod()
    mac = bare(lab)["address"]
    ip(pod.ns, "link", "add", "rail0", "type", "veth", "peer", "name", "x")
    ip(lab.node, "link", "add", "net1", "type", "veth", "peer", "name", "y")
    lab.add(conf(), pod)
    assert link(pod.ns, "net1")["address"] == mac
    lab.delete(conf(), pod)
    assert restored(lab)["address"] == mac
    assert sorted(link_names(pod.ns)) == ["lo", "rail0", "x"]


def test_group_of_a_device_is_unchanged(lab):
    pod = lab.pod()
    ip(lab.node, "link", "set", "rail0", "group", "77")
    lab.add(conf(), pod)
    assert link(pod.ns, "net1")["group"] == "77"
    lab.delete(conf(), pod)
    assert restored(lab)["group"] == "77"


def altnames(ns, nic):
    return sorted(link(ns, nic).get("altnames", []))


@pytest.mark.parametrize("ifname", ["net1", "nic-0"])
def test_altname_in_use_in_the_pod_is_restored_by_del(lab, ifname):
    """If an altname of the device is in use in the pod, the original's ADD fails, because the kernel refuses the move (EEXIST).
    unirail's ADD renames the altname, and DEL restores it. ADD does not change the device's other altnames."""
    pod = lab.pod()
    bare(lab)
    ip(pod.ns, "link", "add", "other", "type", "veth", "peer", "name", "x")
    for name in ("net1", "nic-0", "other"):
        ip(lab.node, "link", "property", "add", "dev", "rail0", "altname", name)
    for c in (conf(STATIC4), conf(STATIC4, device="net1")):
        lab.add(c, pod, ifname=ifname)
        assert set(altnames(pod.ns, ifname)) > {"net1", "nic-0"} - {ifname}
        lab.delete(c, pod, ifname=ifname)
        restored(lab)
        assert altnames(lab.node, "rail0") == ["net1", "nic-0", "other"]


# --- DEL restores the device's state from before ADD ---

RECORDS = pathlib.Path("/var/lib/cni/host-device")


@pytest.fixture(autouse=True)
def no_record_left(monkeypatch):
    """Removes the records of the test's pods. A record remains if the original's DEL removed the device from the pod, or if the device
    was deleted with its namespace."""
    ids = []

    class Pod(lab_module.Pod):
        def __init__(self, *a):
            super().__init__(*a)
            ids.append(self.id)

    monkeypatch.setattr(lab_module, "Pod", Pod)
    yield
    for p in RECORDS.glob("*") if RECORDS.exists() else []:
        if p.name.split("-")[0] in ids:
            p.unlink(missing_ok=True)


@pytest.fixture
def dual(make_lab):
    return make_lab(v6=True)


@pytest.fixture
def record():
    """A function that returns the path of the record of a pod's device."""
    return lambda pod, ifname="net1": RECORDS / f"{pod.id}-{ifname}"


def in_use(lab, nic="rail0"):
    """Sets an MTU, an alias and addresses on a NIC, as on one that the node uses. Returns its state."""
    ip(lab.node, "link", "set", nic, "mtu", "1450", "alias", "port 7")
    ip(lab.node, "addr", "add", "192.0.2.7/24", "dev", nic)
    ip(lab.node, "addr", "add", "192.0.2.77/32", "dev", nic, "noprefixroute")
    ip(lab.node, "addr", "add", "fd00:77::7/64", "dev", nic, "nodad")
    ip(lab.node, "addr", "add", "192.0.2.200/24", "dev", nic, "valid_lft", "3000", "preferred_lft", "3000")
    return as_is(lab, nic)


def as_is(lab, nic="rail0"):
    k = link(lab.node, nic)
    lasting = sorted(a["address"] for a in addresses(lab.node)
                     if a["dev"] == nic and not a["address"].startswith(("fe80", "192.0.2.200")))
    connected = sorted(r for r in routes(lab.node, "main") if f"dev {nic}" in r and r.startswith(("192.0.2.", "fd00:77")))
    return {**{f: k.get(f) for f in ("address", "mtu", "ifalias", "ifname")}, "up": "UP" in k["flags"]}, lasting, connected


def test_del_restores_the_settings_of_a_device_that_the_node_uses(dual, record):
    """The original leaves the device down and without addresses; unirail restores the static addresses. It does not restore addresses with
    a lifetime, which a DHCP client adds again."""
    lab = dual
    pod, c = lab.pod(), conf(STATIC4)
    before = in_use(lab)
    chain = [c, {"type": "tuning", "mac": "0a:00:00:00:00:42", "mtu": 1400, "dataDir": str(lab.tmp / "tuning")}]
    prev = lab.chain("ADD", chain, pod)
    assert record(pod).exists() and record(pod).stat().st_mode & 0o777 == 0o600
    assert link(pod.ns, "net1")["mtu"] == 1400
    ip(pod.ns, "link", "set", "net1", "mtu", "1300")
    lab.chain("DEL", chain, pod, prev=prev)
    assert as_is(lab) == before and not record(pod).exists()
    assert not has_address(lab.node, "rail0", "192.0.2.200/24")
    ip(lab.node, "link", "set", "rail0", "down")
    down = as_is(lab)
    lab.add(c, pod)
    lab.delete(c, pod)
    assert as_is(lab) == down and not down[0]["up"] and not record(pod).exists()


def test_failed_add_restores_the_settings_of_a_device_that_the_node_uses(dual, record):
    lab = dual
    pod = lab.pod()
    before = in_use(lab)
    ipam, word = FAILS["unreachable gateway"]
    lab.fail("ADD", conf(ipam), pod, contains=word)
    assert as_is(lab) == before and not record(pod).exists()


def test_next_del_completes_the_restore_of_a_killed_del(dual, tmp_path, record):
    """DEL is killed at its n-th request to the kernel, for every n; the next DEL completes the restore."""
    lab = dual
    c, before = conf(), in_use(lab)
    for n in range(1, 40):
        pod = lab.pod()
        lab.add(c, pod)
        p = lab.popen("DEL", c, pod, plugins=injected(lab, tmp_path, "sendto:signal=KILL", n))
        p.communicate(timeout=60)
        lab.delete(c, pod)
        assert as_is(lab) == before and not record(pod).exists(), n
        ip(lab.node, "addr", "replace", "192.0.2.200/24", "dev", "rail0", "valid_lft", "3000", "preferred_lft", "3000")
        if p.returncode == 0:
            break
    assert 3 < n < 39


@pytest.mark.parametrize("how", ["DEL", "GC"])
def test_device_of_a_deleted_namespace_is_restored(dual, how, record):
    """The device is on the node with a new name, down and without addresses, as after the kernel returned a physical device."""
    lab = dual
    pod, other, c = lab.pod(), lab.pod("b"), conf(None, "1.1.0")
    before = in_use(lab)
    lab.add(c, pod)
    ip(pod.ns, "link", "set", "net1", "netns", lab.node, "name", "dev4711")
    valid = [{"containerID": i, "ifname": "net1"} for i in (pod.id, other.id)]
    if how == "DEL":
        lab.delete(c, pod, netns="")
    else:
        record(other).write_text(record(pod).read_text().replace(pod.id, other.id).replace("1450", "1200"))
        lab.ok("GC", {**c, "cni.dev/valid-attachments": valid[1:]}, pod)
        assert record(other).exists(), "GC retains the record of a listed attachment"
    assert as_is(lab) == before and not record(pod).exists()


@pytest.mark.parametrize("damage", ["of another device", "of another boot", "malformed", "of another version", "missing"])
def test_del_ignores_a_record_that_is_invalid_or_of_another_device(dual, damage, record):
    """DEL restores only the device's name, as without a record."""
    lab = dual
    pod, c = lab.pod(), conf()
    in_use(lab)
    lab.add(c, pod)
    r = json.loads(record(pod).read_text())
    changes = {"of another device": {"mac": "02:00:00:00:00:99"}, "of another boot": {"boot": "b"}, "of another version": {"version": 2}}
    record(pod).write_text("{" if damage == "malformed" else json.dumps({**r, **changes.get(damage, {})}))
    if damage == "missing":
        record(pod).unlink()
    lab.delete(c, pod)
    now, lasting, _ = as_is(lab)
    assert now["ifname"] == "rail0" and not now["up"] and lasting == []
    lab.add(c, pod)
    lab.delete(c, pod)
    assert not record(pod).exists(), "DEL uses the record of the next ADD and removes it"


# --- DEL ---


def test_repeated_del_succeeds(lab):
    """The original fails: `failed to find "net1"`."""
    pod, c = lab.pod(), conf(host_local(lab))
    lab.delete(c, pod)  # before ADD
    lab.add(c, pod)
    for _ in range(3):
        lab.delete(c, pod)
    assert link_names(pod.ns) == ["lo"] and files(lab) == []
    restored(lab)


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-not-there"])
def test_del_without_namespace_frees_the_address(lab, netns):
    """If CNI_NETNS is empty, the original's DEL does not release the address (cni#1167); if the file of the namespace does not exist,
    the original's DEL fails."""
    pod, c = lab.pod(), conf(host_local(lab))
    lab.add(c, pod)
    assert files(lab)
    lab.delete(c, pod, netns=netns)
    assert files(lab) == []


def test_del_succeeds_after_the_device_was_deleted(lab):
    """A veth is deleted with its namespace. The next ADD reports that the device does not exist."""
    pod, c = lab.pod(), conf(host_local(lab))
    lab.add(c, pod)
    ns_del(pod.ns)
    lab.delete(c, pod)
    assert files(lab) == []
    lab.fail("ADD", c, lab.pod(), code=50, contains=["failed to find host device", "rail0", "Link not found"])


@pytest.mark.parametrize("name", ["net1", "dev4711"])
@pytest.mark.parametrize("by", ["device", "hwaddr"])
@pytest.mark.parametrize("up", [False, True])
def test_del_restores_a_device_that_the_kernel_returned(lab, name, by, up):
    """When the pod's namespace is deleted, the kernel returns a physical NIC to the node, with the name that it had in the pod or with a
    new name such as dev4711."""
    mac = bare(lab)["address"]
    ip(lab.node, "link", "set", "rail0", "down", "alias", "rail0")
    ip(lab.node, "link", "set", "rail0", "name", name)
    if up:
        ip(lab.node, "link", "set", name, "up")
    c = conf() if by == "device" else conf(device=None, hwaddr=mac)
    lab.delete(c, lab.pod(), netns="/run/netns/unirail-test-not-there")
    assert restored(lab)["address"] == mac and name not in link_names(lab.node)


@pytest.mark.parametrize("alias,reason", [("rail0", "the node has a link with this name"), ("other", "the alias is not the configured device"),
                                       ("no name!", "the alias is not an interface name")])
def test_del_changes_no_link_of_the_node_that_is_not_the_device(lab, alias, reason):
    ip(lab.node, "link", "add", "net1", "type", "veth", "peer", "name", "x")
    ip(lab.node, "link", "set", "net1", "alias", alias)
    before = state(lab.node)
    lab.delete(conf(), lab.pod(), netns="")
    assert state(lab.node) == before, reason
    assert link(lab.node, "net1")["ifalias"] == alias


def test_del_changes_no_link_without_an_alias(lab):
    """DEL is called after an ADD that failed because the pod already had a link net1; DEL leaves it. The original's DEL fails each
    time."""
    pod = lab.pod()
    ip(pod.ns, "link", "add", "net1", "type", "veth", "peer", "name", "x")
    before = pod.state()
    lab.fail("ADD", conf(), pod, contains=["net1", "File exists (EEXIST)"])
    lab.delete(conf(), pod)
    assert pod.state() == before
    restored(lab)


def test_device_stays_in_the_pod_while_its_name_is_in_use(lab):
    """Another link of the node has the name of the device: DEL fails, and the device stays in the pod until the name is free."""
    pod, c = lab.pod(), conf(host_local(lab))
    lab.add(c, pod)
    ip(lab.node, "link", "add", "rail0", "type", "veth", "peer", "name", "x")
    before = pod.state()
    lab.fail("DEL", c, pod, contains=["net1", "'rail0'", "File exists (EEXIST)"])
    assert pod.state() == before and files(lab)
    ip(lab.node, "link", "del", "rail0")
    lab.delete(c, pod)
    assert files(lab) == []
    restored(lab)


def test_del_succeeds_with_a_configuration_that_add_refuses(lab):
    pod = lab.pod()
    lab.add(conf(), pod)
    lab.delete(conf(device=None), pod)
    restored(lab)


# --- ADD that fails ---


def injected(lab, tmp_path, what, n):
    """Returns a directory with a host-device that runs under strace. `what` names a system call and the error or signal of its n-th
    call, for example sendto:error=EIO."""
    folder = tmp_path / f"strace{n}"
    folder.mkdir()
    (folder / "host-device").write_text(
        "#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\nexec strace -qq -o /dev/null -e trace=sendto,recvmsg "
        f"-e inject={what}:when={n} {lab.plugins}/host-device\n")
    (folder / "host-device").chmod(0o755)
    return folder


@pytest.mark.parametrize("call", ["sendto", "recvmsg"])
def test_add_is_undone_after_any_failed_kernel_request(lab, tmp_path, call):
    """strace injects EIO. An error in sendto prevents the request; an error in recvmsg loses the answer to a request that the kernel has
    executed."""
    c, pod = conf(host_local(lab)), lab.pod()
    bare(lab)
    ip(lab.node, "link", "property", "add", "dev", "rail0", "altname", "net1")
    before = state(lab.node), pod.state()
    for n in range(1, 40):
        call_result = lab.cni("ADD", c, pod, plugins=injected(lab, tmp_path, f"{call}:error=EIO", n))
        if call_result.status == 0:
            break
        assert "EIO" in call_result.json["msg"] and files(lab) == [], (n, call_result)
        restored(lab)
        assert (state(lab.node), pod.state()) == before, (n, call_result)
    assert 3 < n < 39


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_del_restores_the_device_after_a_kill_at_any_request(lab, tmp_path, verb):
    """ADD or DEL is killed at its n-th request to the kernel, for every n; the next DEL restores the device."""
    c = conf(host_local(lab))
    bare(lab)
    ip(lab.node, "link", "property", "add", "dev", "rail0", "altname", "net1")
    for n in range(1, 40):
        pod = lab.pod()
        if verb == "DEL":
            lab.add(c, pod)
        p = lab.popen(verb, c, pod, plugins=injected(lab, tmp_path, "sendto:signal=KILL", n))
        p.communicate(timeout=60)
        lab.delete(c, pod)
        assert link_names(pod.ns) == ["lo"] and files(lab) == []
        restored(lab)
        assert altnames(lab.node, "rail0") == ["net1"]
        if p.returncode == 0:
            break
    assert 3 < n < 39


FAILS = {
    "IPAM plugin fails": ({"type": "host-local", "ranges": [[{"subnet": "172.16.1.0/33"}]]}, "172.16.1.0/33"),
    "no address": ({"type": "static", "addresses": []}, "IPAM plugin returned missing IP config"),
    "unreachable gateway": ({"type": "static", "addresses": [{"address": "172.16.1.20/24"}],
                             "routes": [{"dst": "172.30.0.0/16", "gw": "192.168.99.1"}]}, "failed to add route"),
}


@pytest.mark.parametrize("how", FAILS)
@pytest.mark.parametrize("up", ["up", "down"])
def test_failed_add_restores_the_device(lab, how, up):
    """After a failed ADD the original leaves the device in the pod."""
    ipam, word = FAILS[how]
    pod = lab.pod()
    bare(lab)
    ip(lab.node, "link", "set", "rail0", up, "alias", "my NIC")
    before = state(lab.node), pod.state()
    lab.fail("ADD", conf(ipam), pod, contains=word)
    assert (state(lab.node), pod.state()) == before
    assert link(lab.node, "rail0")["ifalias"] == "my NIC"


def test_failed_add_frees_the_address(lab):
    pod = lab.pod()
    c = conf(host_local(lab, routes=[{"dst": "172.30.0.0/16", "gw": "192.168.99.1"}]))
    lab.fail("ADD", c, pod, contains="failed to add route")
    assert files(lab) == []
    restored(lab)


@pytest.mark.parametrize("more,code,contains", [
    ({"device": "nic9"}, 50, ["failed to find host device", "nic9", "Link not found"]),
    ({"device": ""}, 7, ['specify either "device", "hwaddr", "kernelpath" or "pciBusID"']),
    ({"device": "", "hwaddr": "zz"}, 7, ["failed to parse MAC address", "zz"]),
    ({"device": "", "hwaddr": "02:00:00:00:00:77"}, 50, ["failed to find host device", "02:00:00:00:00:77"]),
    ({"device": "", "kernelpath": "/etc/passwd"}, 7, ["must be absolute and begin with /sys/devices/"]),
    ({"device": "", "kernelpath": "/sys/devices/../../etc"}, 7, ["/sys/devices/"]),
    ({"device": "", "kernelpath": "/sys/devices/none"}, 50, ["/sys/devices/none"]),
    ({"device": "", "pciBusID": "0000:ff:ff.7"}, 50, ["0000:ff:ff.7"]),
    ({"device": "", "pciBusID": "../../../etc"}, 50, ["../../../etc"]),
    ({"device": "", "runtimeConfig": {"deviceID": "mlx5_core.sf.9"}}, 50,
     ["runtime config DeviceID mlx5_core.sf.9 not found or unsupported"]),
    ({"device": 7}, 7, ["device"]),
    ({"device": "lo"}, 7, ["'lo'", "loopback"]),
    ({"device": "br9"}, None, ["br9", "cannot leave their namespace"]),
])
def test_invalid_configuration_changes_nothing(lab, more, code, contains):
    pod = lab.pod()
    ip(lab.node, "link", "add", "br9", "type", "bridge")
    before = state(lab.node), pod.state()
    lab.fail("ADD", {**conf(), **more}, pod, code=code, contains=contains)
    assert (state(lab.node), pod.state()) == before


# --- CHECK ---


DAMAGE = {
    "address removed": ("addr del 172.16.1.20/24 dev net1", "172.16.1.20"),
    "route removed": ("route del 172.20.0.0/16", "172.20.0.0/16"),
    "mac changed": ("link set net1 address 0a:00:00:00:00:99", "0a:00:00:00:00:99"),
    "renamed": ("link set net1 down name net7", "net1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_fails_if_address_route_mac_or_name_of_the_device_changed(lab, damage):
    pod, c = lab.pod(), conf(STATIC4)
    c["prevResult"] = lab.add(c, pod)
    lab.ok("CHECK", c, pod)
    command, word = DAMAGE[damage]
    ip(pod.ns, *command.split())
    lab.fail("CHECK", c, pod, contains=["net1", word])


def test_check_succeeds_after_sbr_and_tuning(lab):
    """sbr moves the routes out of main, tuning changes the MAC: the original's CHECK then fails."""
    pod = lab.pod()
    chain = [conf(STATIC4), {"type": "tuning", "mac": "0a:00:00:00:00:42", "mtu": 4200,
                             "dataDir": str(lab.tmp / "tuning")}, {"type": "sbr"}]
    mac = link(lab.node, "rail0")["address"]
    prev = lab.chain("ADD", chain, pod)
    assert routes(pod.ns, "main") == []
    lab.chain("CHECK", chain, pod, prev=prev)
    lab.chain("DEL", chain, pod, prev=prev)
    k = restored(lab)
    assert k["address"] == mac and k["mtu"] == 9000


def test_check_without_prev_result_is_refused(lab):
    lab.fail("CHECK", conf(), lab.pod(), contains="prevResult")


# --- GC and STATUS ---


def test_gc_restores_devices_of_unlisted_pods(lab):
    """GC releases the addresses of pods that the runtime no longer lists, and restores a device whose namespace was deleted."""
    pod, c = lab.pod(), conf(host_local(lab), "1.1.0")
    lab.add(c, pod)
    lab.ok("GC", {**c, "cni.dev/valid-attachments": [{"containerID": pod.id, "ifname": "net1"}]}, pod)
    assert files(lab) == ["172.16.1.50"]
    ip(pod.ns, "link", "set", "net1", "netns", lab.node, "name", "dev9")
    lab.ok("GC", {**c, "cni.dev/valid-attachments": []}, pod)
    assert files(lab) == []
    restored(lab)


def test_gc_restores_recorded_devices_if_the_configured_device_is_missing(dual, record):
    """The configuration names none of the recorded devices, as in a network whose devices a device plugin allocates."""
    lab = dual
    pod, before = lab.pod(), in_use(lab)
    lab.add(conf(None, "1.1.0"), pod)
    ip(pod.ns, "link", "set", "net1", "mtu", "1300")
    ip(pod.ns, "link", "set", "net1", "netns", lab.node, "name", "rail0", "alias", "")
    lab.ok("GC", {**conf(None, "1.1.0", device=None, pciBusID=PCI), "cni.dev/valid-attachments": []}, pod)
    assert as_is(lab) == before and not record(pod).exists()


def test_status_reports_an_unusable_device(lab, tree):
    """STATUS succeeds while a pod has the device, and fails if no device has the PCI address or if the IPAM plugin does not exist."""
    pod, c = lab.pod(), conf(STATIC4, "1.1.0")
    lab.ok("STATUS", c, pod)
    lab.add(c, pod)
    lab.ok("STATUS", c, pod)
    p = conf(None, "1.1.0", device=None, pciBusID=PCI)
    lab.fail("STATUS", p, pod, code=50, contains=PCI)
    lab.ok("STATUS", p, pod, UNIRAIL_ROOT=str(tree(PCI)))
    lab.fail("STATUS", {**c, "ipam": {"type": "nosuch-ipam"}}, pod, contains="nosuch-ipam")


# --- sysfs ---


@pytest.fixture
def tree(tmp_path):
    """A function that creates a /sys with one PCI or auxiliary device, its driver and its netdevs; it returns the root."""
    def make(pci=None, names=(), driver="mlx5_core", below="", aux=None):
        top = tmp_path / "root"
        where = top / "sys/devices/pci0000:5d" / (pci or aux)
        where.mkdir(parents=True)
        bus = top / "sys/bus" / ("pci" if pci else "auxiliary") / "devices"
        bus.mkdir(parents=True)
        (bus / (pci or aux)).symlink_to(f"../../../devices/pci0000:5d/{pci or aux}")
        if driver:
            drivers = top / "sys/bus/pci/drivers" / driver
            drivers.mkdir(parents=True)
            (where / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        for n in names:
            (where / below / "net" / n).mkdir(parents=True)
        return top

    return make


@pytest.mark.parametrize("how,more", [
    ("pciBusID", {"pciBusID": PCI}), ("deviceID", {"runtimeConfig": {"deviceID": PCI}}),
    ("deviceID before pciBusID", {"pciBusID": "0000:00:00.0", "runtimeConfig": {"deviceID": PCI}}),
    ("kernelpath", {"kernelpath": f"/sys/devices/pci0000:5d/{PCI}"}),
    ("virtio", {"pciBusID": PCI}), ("aux", {"runtimeConfig": {"deviceID": "mlx5_core.sf.4"}})])
def test_device_is_found_in_sysfs(lab, tree, how, more):
    """If sysfs lists several netdevs of the device, the first that is a link of the node is used."""
    aux = "mlx5_core.sf.4" if how == "aux" else None
    root = tree(None if aux else PCI, ["nothere", "rail1"], below="virtio3" if how == "virtio" else "", aux=aux)
    pod, c = lab.pod(), conf(STATIC4, device=None, **more)
    lab.add(c, pod, UNIRAIL_ROOT=str(root))
    assert link(pod.ns, "net1")["ifalias"] == "rail1" and "rail1" not in link_names(lab.node)
    lab.delete(c, pod, UNIRAIL_ROOT=str(root))
    restored(lab, "rail1")


def test_device_of_a_deleted_namespace_is_found_by_its_pci_address(lab, tree):
    ip(lab.node, "link", "set", "rail1", "down", "alias", "rail1", "name", "net1")
    lab.delete(conf(device=None, pciBusID=PCI), lab.pod(), netns="", UNIRAIL_ROOT=str(tree(PCI, ["net1"])))
    restored(lab, "rail1")


def test_key_device_has_precedence_over_other_keys(lab, tree):
    pod = lab.pod()
    lab.add(conf(pciBusID=PCI), pod, UNIRAIL_ROOT=str(tree(PCI, ["rail1"])))
    assert link(pod.ns, "net1")["ifalias"] == "rail0"


@pytest.mark.parametrize("driver", ["vfio-pci", "uio_pci_generic", "igb_uio"])
@pytest.mark.parametrize("ipam", [None, STATIC4], ids=["no ipam", "ipam"])
def test_result_of_a_device_with_a_dpdk_driver_has_name_sandbox_and_addresses(lab, tree, driver, ipam):
    """With ipam, the result also has the addresses. ADD, CHECK and DEL change neither the pod nor the node."""
    root, pod = tree(PCI, driver=driver), lab.pod()
    c = conf(ipam, device=None, pciBusID=PCI)
    before = state(lab.node), pod.state()
    result = lab.add(c, pod, UNIRAIL_ROOT=str(root))
    assert result["interfaces"] == [{"name": "net1", "sandbox": pod.netns}]
    assert [i["address"] for i in result.get("ips", [])] == (["172.16.1.20/24"] if ipam else [])
    c["prevResult"] = result
    lab.ok("CHECK", c, pod, UNIRAIL_ROOT=str(root))
    lab.delete(c, pod, UNIRAIL_ROOT=str(root))
    lab.delete(c, pod)  # without the device in /sys, as after the hardware was removed
    assert (state(lab.node), pod.state()) == before


def test_pci_device_without_a_link_is_refused(lab, tree):
    lab.fail("ADD", conf(device=None, pciBusID=PCI), lab.pod(), code=50,
             contains=["failed to find host device", PCI], UNIRAIL_ROOT=str(tree(PCI, driver=None)))


# --- in unirail-cni ---


def rails(lab, coordinator=None, **more):
    """The networks of a pod: macvlans on eth0 and rail1, and the device rail0 itself."""
    nets = lab.all_networks(coordinator=coordinator or {"mode": "underlay"})
    main = nets[1]["plugins"][0]
    nets[1]["plugins"][0] = {"type": "host-device", "device": "rail0", "ipam": main["ipam"], **more}
    return nets


def test_unirail_cni_creates_the_same_state_as_the_plugin_chain(make_lab):
    seen = []
    for way in ("chain", "unirail-cni"):
        lab = make_lab()
        lab.rail_pools()
        bare(lab)
        before = shape(state(lab.node))
        nets, pod = rails(lab), lab.pod()
        prev = {}
        if way == "chain":
            for n in nets:
                prev[n["name"]] = lab.chain("ADD", n["plugins"], pod, name=n["name"], ifname=n["ifname"])
        else:
            prev = lab.add(lab.rails(nets), pod, ifname="eth0")
            lab.ok("CHECK", lab.rails(nets, prevResult=prev), pod, ifname="eth0")
        for i, ifname in enumerate(("eth0", "net1", "net2")):
            assert ping(pod.ns, ifname, f"172.16.{i}.1")
        st = pod.state()
        pairs = [(pod.host_veth, "VETH"), (lab.node, "NODE"), (pod.ns, "POD")]
        seen.append(same_shape(st, *pairs))
        assert link(pod.ns, "net1")["ifalias"] == "rail0"
        if way == "chain":
            for n in reversed(nets):
                lab.chain("DEL", n["plugins"], pod, name=n["name"], ifname=n["ifname"], prev=prev[n["name"]])
        else:
            lab.delete(lab.rails(nets, prevResult=prev), pod, ifname="eth0")
        assert link_names(pod.ns) == ["lo"] and lab.used() == {}
        restored(lab)
        ip(lab.node, "link", "set", "rail0", "up")
        same(before, shape(state(lab.node)), "the node")
    same(*seen, "the pod")


def test_deletion_by_group_deletes_no_moved_device(lab):
    """DEL deletes all links of unirail's group with one request, but not a device that was in this group before ADD, as on a node that
    is itself a pod."""
    lab.rail_pools()
    ip(lab.node, "link", "set", "rail0", "group", GROUP)
    c, pod = lab.rails(rails(lab)), lab.pod()
    lab.add(c, pod, ifname="eth0")
    assert link(pod.ns, "net1")["group"] == GROUP == link(pod.ns, "net2")["group"]
    lab.delete(c, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo"] and restored(lab)["group"] == GROUP


@pytest.mark.parametrize("break_it", ["unknown master", "invalid table of sbr"])
def test_failed_add_of_another_rail_restores_the_device(lab, break_it):
    lab.rail_pools()
    bare(lab)
    ip(lab.node, "link", "set", "rail0", "group", GROUP)
    c, pod = lab.rails(rails(lab, coordinator={"mode": "underlay", "podMACPrefix": "0a:58"})), lab.pod()
    if break_it == "unknown master":
        c["networks"][2]["plugins"][0]["master"] = "nic9"
    else:
        c["networks"][2]["plugins"].append({"type": "sbr", "table": "x"})
    before = state(lab.node), pod.state()
    lab.fail("ADD", c, pod, ifname="eth0", contains="rail 'net2' (rail1)")
    assert state(lab.node) == before[0] and link_names(pod.ns) == ["lo"] and lab.used() == {}
    restored(lab)


@pytest.mark.parametrize("other", ["host-device", "macvlan"])
def test_device_in_two_networks_is_refused(lab, other):
    lab.rail_pools()
    nets = rails(lab)
    main = nets[2]["plugins"][0]
    main.update(type=other, master="rail0", device="rail0")
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", code=7,
             contains=["rail 'net2' (rail1)", "'rail0' is already used by 'net1'"])
    assert (state(lab.node), pod.state()) == before and lab.used() == {}


def test_unirail_cni_restores_a_device_that_the_kernel_returned(lab):
    lab.rail_pools()
    c, pod = lab.rails(rails(lab)), lab.pod()
    lab.add(c, pod, ifname="eth0")
    ip(pod.ns, "link", "set", "net1", "netns", lab.node)
    ns_del(pod.ns)
    lab.delete(c, pod, ifname="eth0")
    assert lab.used() == {} and pod.host_veth not in link_names(lab.node)
    restored(lab)


def test_no_route_to_addresses_of_the_moved_device_is_added(lab):
    """The coordinator adds a route to every address of the node, except those of the device."""
    lab.rail_pools()
    assert has_address(lab.node, "rail0", "172.16.1.2/24")
    c, pod = lab.rails(rails(lab)), lab.pod()
    lab.add(c, pod, ifname="eth0")
    table = json.dumps(routes(pod.ns, "main"))
    assert "172.16.0.2 " in table and "172.16.2.2 " in table and "172.16.1.2 " not in table
    assert [r[1] for r in rules(pod.ns) if r[1] != "all"]
    assert not [a for a in addresses(pod.ns) if a["address"] == "172.16.1.2/24"]
    assert len(ip_json(pod.ns, "link", "show")) == 5
