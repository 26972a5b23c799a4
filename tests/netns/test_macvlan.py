# SPDX-License-Identifier: Apache-2.0
"""macvlan as a single plugin. States and results are compared with those of Debian's plugin."""
import json

import pytest
from lab import (REFERENCE, VERSIONS, addresses, has_address, ip, ip_json, link, link_names, ping, routes, same,
                 same_shape, state, sysctl)

STATIC4 = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
           "routes": [{"dst": "0.0.0.0/0"}, {"dst": "172.20.0.0/16", "gw": "172.16.1.7"}]}
STATIC6 = {"type": "static", "addresses": [{"address": "fd00:16:1::20/64", "gateway": "fd00:16:1::1"}],
           "routes": [{"dst": "::/0"}]}
DUAL = {"type": "static", "addresses": STATIC4["addresses"] + STATIC6["addresses"],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
ONLY_LINK = {}


def shape(st):
    """The state without the group, which unirail sets so that one message can delete all links, and without the queue length, which
    Debian's plugin sets to 0 since its library is older. The current library leaves the kernel's default, 1000."""
    for k in st["links"]:
        k.pop("group", None)
        k.pop("txqlen", None)
    return same_shape(st)


@pytest.mark.parametrize("v6,ipam", [(False, STATIC4), (True, STATIC6), (True, DUAL), (False, None)],
                         ids=["ipv4", "ipv6", "dual", "no ipam"])
@pytest.mark.parametrize("more", [{}, {"mode": "private", "mtu": 4200, "mac": "0a:58:00:00:00:07"}],
                         ids=["defaults", "options"])
def test_state_and_result_equal_debians(make_lab, v6, ipam, more):
    lab = make_lab(v6=v6)
    conf = lab.macvlan("rail0", ipam, **more)
    results, states = [], []
    for plugins in (lab.plugins, REFERENCE):
        pod = lab.pod()
        before = shape(state(lab.node))
        result = lab.add(conf, pod, plugins=plugins)
        assert result["interfaces"][0]["mac"] == link(pod.ns, "net1")["address"]
        states.append(shape(pod.state()))
        for i in result["interfaces"]:
            i["mac"] = i["mac"] if "mac" in more else "MAC"
            i["sandbox"] = "pod"
        result.pop("dns", None)
        results.append(result)
        lab.delete(conf, pod, plugins=plugins)
        assert link_names(pod.ns) == ["lo"]
        same(before, shape(state(lab.node)), "the node after DEL")
    assert results[0] == results[1]
    same(*states, "the pod")


@pytest.mark.parametrize("version", VERSIONS)
def test_result_is_printed_in_every_cni_version(lab, version):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4, version)
    if version != "1.1.0":
        reference = lab.pod()
        want = lab.add(conf, reference, plugins=REFERENCE)
        lab.delete(conf, reference, plugins=REFERENCE)
    got = lab.add(conf, pod)
    mac = link(pod.ns, "net1")["address"]
    if version >= "0.3.0":
        assert got["interfaces"] == [{"name": "net1", "mac": mac, "sandbox": pod.netns}]
    if version == "1.1.0":
        assert got["ips"] == [{"address": "172.16.1.20/24", "gateway": "172.16.1.1", "interface": 0}]
    else:
        for r in (got, want):
            r.pop("interfaces", None)
            if version == "1.0.0":
                r.pop("dns", None)
        assert got == want
    lab.delete(conf, pod)


def test_result_has_the_bytes_of_the_original(lab):
    """The JSON has sorted keys, an indentation of four spaces and no newline at its end, as recorded from the current original."""
    pod = lab.pod()
    conf = lab.macvlan("rail0", {"type": "static", "addresses": STATIC4["addresses"]},
                       mac="a6:a5:43:44:2e:f3")
    c = lab.cni("ADD", conf, pod)
    assert c.out == json.dumps({
        "cniVersion": "1.0.0",
        "interfaces": [{"mac": "a6:a5:43:44:2e:f3", "name": "net1", "sandbox": pod.netns}],
        "ips": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1", "interface": 0}]}, indent=4)


@pytest.mark.parametrize("mode,flag", [("bridge", "bridge"), ("private", "private"), ("vepa", "vepa"),
                                       ("passthru", "passthru"), ("", "bridge")])
def test_each_macvlan_mode_is_set(lab, mode, flag):
    pod = lab.pod()
    lab.add(lab.macvlan("rail0", **{"mode": mode}), pod)
    found = link(pod.ns, "net1")
    assert found["linkinfo"]["info_data"]["mode"] == flag and "UP" in found["flags"]


def test_default_mtu_is_that_of_the_master(lab):
    pod = lab.pod()
    lab.add(lab.macvlan("rail0"), pod)
    assert link(pod.ns, "net1")["mtu"] == 9000


@pytest.mark.parametrize("source", ["runtime", "args", "conf"])
def test_mac_of_runtime_config_precedes_cni_args_and_configuration(lab, source):
    pod = lab.pod()
    more, args = {"mac": "0a:00:00:00:00:01"}, None
    if source != "conf":
        args = "IgnoreUnknown=1;MAC=0a:00:00:00:00:02"
    if source == "runtime":
        more.update(runtimeConfig={"mac": "0a:00:00:00:00:03"}, capabilities={"mac": True})
    want = {"conf": "0a:00:00:00:00:01", "args": "0a:00:00:00:00:02", "runtime": "0a:00:00:00:00:03"}
    result = lab.add(lab.macvlan("rail0", **more), pod, args=args)
    assert result["interfaces"][0]["mac"] == link(pod.ns, "net1")["address"] == want[source]


def test_default_master_is_the_device_of_the_default_route(lab):
    pod = lab.pod()
    conf = lab.macvlan("rail0")
    del conf["master"]
    lab.add(conf, pod)
    assert link(pod.ns, "net1")["mtu"] == 1500  # eth0's


def test_master_may_be_in_the_container(lab):
    pod = lab.pod()
    ip(pod.ns, "link", "add", "inner0", "type", "veth", "peer", "name", "inner1")
    ip(pod.ns, "link", "set", "inner0", "up")
    lab.add(lab.macvlan("inner0", linkInContainer=True), pod)
    assert link(pod.ns, "net1")["link"] == "inner0"


@pytest.mark.parametrize("v6", [False, True])
def test_packets_reach_the_gateway(make_lab, v6):
    lab = make_lab(v6=v6)
    a, b = lab.pod("a"), lab.pod("b")
    text = json.dumps(DUAL if v6 else STATIC4)
    for pod, host in ((a, "20"), (b, "21")):
        ipam = json.loads(text.replace(".1.20/", f".1.{host}/").replace("::20/", f"::{host}/"))
        lab.add(lab.macvlan("rail0", ipam), pod)
    assert ping(a.ns, "net1", "172.16.1.1") and ping(a.ns, "net1", "172.16.1.21")
    if v6:
        assert ping(a.ns, "net1", "fd00:16:1::1") and ping(a.ns, "net1", "fd00:16:1::21")


def test_arp_notify_is_set(lab):
    pod = lab.pod()
    lab.add(lab.macvlan("rail0", STATIC4), pod)
    assert sysctl(pod.ns, "net/ipv4/conf/net1/arp_notify") == "1"


# --- DEL ---


def test_repeated_del_succeeds(lab):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4)
    lab.delete(conf, pod)  # before ADD
    lab.add(conf, pod)
    for _ in range(3):
        lab.delete(conf, pod)
    assert link_names(pod.ns) == ["lo"]


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-test-not-there"])
def test_del_without_a_namespace_succeeds(lab, netns):
    lab.delete(lab.macvlan("rail0", STATIC4), lab.pod(), netns=netns)


def test_del_without_the_master_succeeds(lab):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4)
    lab.add(conf, pod)
    ip(lab.node, "link", "del", "rail0")
    lab.delete(conf, pod)
    assert link_names(pod.ns) == ["lo"]


def test_del_deletes_no_other_links(lab):
    """DEL of one attachment must not delete the links of the pod's other attachments, which are in the same link group."""
    pod = lab.pod()
    for n in ("net1", "net2", "net3"):
        lab.add(lab.macvlan("rail0"), pod, ifname=n)
    lab.delete(lab.macvlan("rail0"), pod, ifname="net2")
    assert link_names(pod.ns) == ["lo", "net1", "net3"]


@pytest.mark.parametrize("maker,deleter", [("candidate", "reference"), ("reference", "candidate")])
def test_pods_added_by_one_plugin_are_deleted_by_the_other(lab, tmp_path, maker, deleter):
    """Migration to unirail and back: host-local's files are the only state."""
    where = {"candidate": lab.plugins, "reference": REFERENCE}
    pod = lab.pod()
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "networks"),
            "ranges": [[{"subnet": "172.16.1.0/24", "rangeStart": "172.16.1.50"}]]}
    conf = lab.macvlan("rail0", ipam, "0.4.0")
    result = lab.add(conf, pod, plugins=where[maker])
    assert has_address(pod.ns, "net1", "172.16.1.50/24")
    lab.ok("CHECK", {**conf, "prevResult": result}, pod, plugins=where[deleter])
    lab.delete({**conf, "prevResult": result}, pod, plugins=where[deleter])
    assert link_names(pod.ns) == ["lo"]
    assert not list((tmp_path / "networks" / "rail0").glob("172.*"))


# --- CHECK ---


DAMAGE = {
    "address removed": ("addr del 172.16.1.20/24 dev net1", "172.16.1.20"),
    "route removed": ("route del 172.20.0.0/16", "172.20.0.0/16"),
    "default route removed": ("route del default", "0.0.0.0/0"),
    "link removed": ("link del net1", "net1"),
    "mac changed": ("link set net1 address 0a:00:00:00:00:99", "0a:00:00:00:00:99"),
    "mode changed": ("link set net1 type macvlan mode private", "private"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_fails_if_address_route_mac_or_mode_changed_or_the_link_is_missing(lab, damage):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4)
    conf["prevResult"] = lab.add(conf, pod)
    lab.ok("CHECK", conf, pod)
    command, word = DAMAGE[damage]
    ip(pod.ns, *command.split())
    e = lab.fail("CHECK", conf, pod, contains=word)
    assert "net1" in e["msg"], e


def test_check_fails_for_a_link_of_another_kind(lab):
    pod = lab.pod()
    conf = lab.macvlan("rail0")
    conf["prevResult"] = lab.add(conf, pod)
    ip(pod.ns, "link", "del", "net1")
    ip(pod.ns, "link", "add", "net1", "type", "veth", "peer", "name", "x")
    lab.fail("CHECK", conf, pod, contains=["macvlan", "net1"])


def test_check_without_prev_result_is_refused(lab):
    lab.fail("CHECK", lab.macvlan("rail0"), lab.pod(), contains="prevResult")


# --- refusals: one clear line, the right code, nothing changed ---


@pytest.mark.parametrize("more,code,contains", [
    ({"master": "nic9"}, None, ["Link not found", "nic9"]),
    ({"mtu": 9001}, None, ["invalid MTU 9001, must be [0, master MTU(9000)]"]),
    ({"mtu": -1}, None, ["mtu"]),
    ({"mtu": "big"}, None, ["mtu"]),
    ({"mode": "brigde"}, None, ["unknown macvlan mode", "brigde"]),
    ({"mac": "0a:00:00"}, None, ["0a:00:00"]),
    ({"ipam": {"type": "nosuch-ipam"}}, None, ["nosuch-ipam"]),
    ({"ipam": {"type": "static", "addresses": []}}, None, ["IPAM plugin returned missing IP config"]),
    ({"ipam": {"type": "static", "addresses": [{"address": "x"}]}}, None, ["address", "'x'"]),
])
def test_invalid_configuration_changes_nothing(lab, more, code, contains):
    pod = lab.pod()
    conf = {**lab.macvlan("rail0"), **more}
    before = state(lab.node), pod.state()
    lab.fail("ADD", conf, pod, code=code, contains=contains)
    assert (state(lab.node), pod.state()) == before


def test_interface_name_in_use_is_refused(lab):
    pod = lab.pod()
    ip(pod.ns, "link", "add", "net1", "type", "veth", "peer", "name", "x")
    before = pod.state()
    lab.fail("ADD", lab.macvlan("rail0", STATIC4), pod, contains=["net1", "exist"])
    assert pod.state() == before


@pytest.mark.parametrize("netns,contains", [("/run/netns/unirail-test-not-there", "no such file or directory"),
                                         ("/etc/passwd", "unknown FS magic")])
def test_invalid_namespace_is_refused(lab, netns, contains):
    before = state(lab.node)
    lab.fail("ADD", lab.macvlan("rail0", STATIC4), lab.pod(), netns=netns, contains=contains)
    assert state(lab.node) == before


def test_missing_cap_net_admin_is_reported(lab, tmp_path):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4)
    wrapped = tmp_path / "wrapped"
    wrapped.mkdir()
    script = wrapped / "macvlan"
    script.write_text("#!/bin/sh\nexec setpriv --bounding-set -net_admin,-sys_admin --inh-caps "
                      f"-net_admin,-sys_admin {lab.plugins}/macvlan\n")
    script.chmod(0o755)
    before = pod.state()
    e = lab.fail("ADD", conf, pod, plugins=wrapped, contains="Operation not permitted (EPERM)")
    assert pod.state() == before and "\n" not in e["msg"]


def test_failed_ipam_leaves_no_link(lab, tmp_path):
    """The original leaves the link when the IPAM fails."""
    pod = lab.pod()
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "n"),
            "ranges": [[{"subnet": "172.16.1.0/30"}]]}
    conf = lab.macvlan("rail0", ipam)
    lab.add(conf, pod, ifname="net1")
    lab.fail("ADD", conf, pod, ifname="net2", contains="no IP addresses available in range set")
    assert link_names(pod.ns) == ["lo", "net1"]


def strace(lab, tmp_path, *options):
    """A directory of plugins whose macvlan runs under strace."""
    folder = tmp_path / f"strace{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    (folder / "macvlan").write_text("#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\nexec strace -qq "
                                    + " ".join(options) + f" {lab.plugins}/macvlan\n")
    (folder / "macvlan").chmod(0o755)
    return folder


@pytest.mark.parametrize("ifname,final", [("eth0", False), ("net1", True)])
def test_interface_name_that_exists_on_the_node_is_accepted(lab, tmp_path, ifname, final):
    """Before Linux 6.15 the kernel searches the new link's name in the node's namespace, from which the request comes, and fails with
    EEXIST if the node has such a link. So the plugin creates a link eth0 under a temporary name, and renames it in the pod."""
    pod, log = lab.pod(), tmp_path / "log"
    lab.add(lab.macvlan("rail0", STATIC4), pod, ifname=ifname,
            plugins=strace(lab, tmp_path, "-e", "trace=sendto,sendmsg", "-v", "-s", "999", "-o", str(log)))
    made = [k for k in log.read_text().splitlines() if "RTM_NEWLINK" in k]
    assert len(made) == 1 and (f'"{ifname}"' in made[0]) == final, made
    assert sorted(link_names(pod.ns)) == sorted(["lo", ifname])
    lab.delete(lab.macvlan("rail0", STATIC4), pod, ifname=ifname)
    assert link_names(pod.ns) == ["lo"]


def test_del_deletes_the_link_of_an_add_killed_before_the_rename(lab, tmp_path):
    """ADD is killed at each of its requests to the kernel; DEL also finds a link that still has its temporary name."""
    for n in range(1, 30):
        pod = lab.pod()
        p = lab.popen("ADD", lab.macvlan("rail0"), pod, ifname="eth0",
                      plugins=strace(lab, tmp_path, "-o", "/dev/null", "-e", "trace=sendto", "-e",
                                     f"inject=sendto:signal=KILL:when={n}"))
        p.communicate(timeout=60)
        if p.returncode == 0:
            break
        lab.delete(lab.macvlan("rail0"), pod, ifname="eth0")
        assert link_names(pod.ns) == ["lo"], n
    assert 4 < n < 29


@pytest.mark.parametrize("call", ["sendto", "recvmsg"])
def test_add_is_undone_after_any_failed_kernel_request(lab, tmp_path, call):
    """strace injects EIO. An error in sendto prevents the request; an error in recvmsg loses the answer to a request that the kernel has
    executed."""
    pod = lab.pod()
    before = state(lab.node), pod.state()
    for n in range(1, 30):
        c = lab.cni("ADD", lab.macvlan("rail0", STATIC4), pod, ifname="eth0",
                    plugins=strace(lab, tmp_path, "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                   f"inject={call}:error=EIO:when={n}"))
        if c.status == 0:
            break
        assert "EIO" in c.json["msg"] and (state(lab.node), pod.state()) == before, (n, c)
    assert 4 < n < 29


def test_unreachable_route_leaves_nothing(lab, tmp_path):
    pod = lab.pod()
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "n"),
            "ranges": [[{"subnet": "172.16.1.0/24"}]],
            "routes": [{"dst": "172.30.0.0/16", "gw": "192.168.99.1"}]}
    lab.fail("ADD", lab.macvlan("rail0", ipam), pod, contains="failed to add route '172.30.0.0/16 via 192.168.99.1 dev net1 table 254'")
    assert link_names(pod.ns) == ["lo"]
    assert not list((tmp_path / "n").glob("*/172.*"))


def test_unknown_ipam_plugin_is_executed(lab, tmp_path):
    """An IPAM type that unirail does not have is executed from CNI_PATH, with the whole netconf and the environment."""
    other = tmp_path / "bin"
    other.mkdir()
    (other / "macvlan").symlink_to(lab.plugins / "macvlan")
    (other / "theirs").symlink_to(REFERENCE / "static")
    pod = lab.pod()
    conf = lab.macvlan("rail0", {**STATIC4, "type": "theirs"})
    lab.add(conf, pod, plugins=other)
    assert addresses(pod.ns)[-1]["address"] == "172.16.1.20/24" or \
        has_address(pod.ns, "net1", "172.16.1.20/24")
    assert "default via 172.16.1.1 dev net1" in routes(pod.ns, "main")
    lab.delete(conf, pod, plugins=other)


def test_status_and_gc_are_forwarded_to_the_ipam(lab):
    pod = lab.pod()
    conf = lab.macvlan("rail0", STATIC4, "1.1.0")
    lab.ok("STATUS", conf, pod)
    lab.ok("GC", {**conf, "cni.dev/valid-attachments": []}, pod)
    lab.fail("STATUS", {**conf, "ipam": {"type": "nosuch-ipam"}}, pod, contains="nosuch-ipam")


def test_ipv6_addresses_are_usable_when_add_returns(make_lab):
    """No address may still be tentative when ADD returns."""
    lab = make_lab(v6=True)
    pod = lab.pod()
    lab.add(lab.macvlan("rail0", DUAL), pod)
    for k in ip_json(pod.ns, "addr", "show", "dev", "net1"):
        for a in k.get("addr_info", []):
            if a.get("local", "").startswith("fd"):
                assert not a.get("tentative"), a
