# SPDX-License-Identifier: Apache-2.0
"""tuning: result, interface, sysctls and the file for DEL equal those of Debian's plugin, and each plugin's DEL uses the file of the
other plugin. Further tests: cases in which the original fails."""
import json
import subprocess

import pytest
from lab import VERSIONS, enter, ip, link, ns_path, run, same_shape, sysctl
from chained_lab import REFERENCE, conf, chained_plugins, prev  # noqa: F401

MAC, OLD = "0a:58:00:00:00:07", "0a:58:00:00:00:01"
NOTIFY = {"net.ipv4.conf.IFNAME.arp_notify": "1"}
PROXY = "net/ipv4/conf/net1/proxy_arp"
IPS = [("172.16.1.20/24", "172.16.1.1")]


class Setup:
    """A pod with net1, and a directory for tuning's files."""

    def __init__(self, lab, chained_plugins):
        self.lab, self.chained_plugins, self.data = lab, chained_plugins, lab.tmp / "tuning"
        self.pod = self.new()

    def new(self, ifname="net1"):
        pod = self.lab.pod()
        ip(pod.ns, "link", "add", ifname, "type", "veth", "peer", "name", "far1")
        ip(pod.ns, "link", "set", ifname, "address", OLD, "up")
        return pod

    def conf(self, version="1.0.0", pod=None, ifname="net1", **more):
        return conf("tuning", version, dataDir=str(self.data),
                    prevResult=prev(pod or self.pod, IPS, ifname, OLD), **more)

    def call(self, verb, pod=None, by=None, ifname="net1", cni_args=None, version="1.0.0", **more):
        pod = pod or self.pod
        return self.lab.cni(verb, self.conf(version, pod, ifname, **more), pod, plugins=by or self.chained_plugins,
                            ifname=ifname, args=cni_args)

    def ok(self, verb, **kw):
        c = self.call(verb, **kw)
        assert c.status == 0, c
        return c

    def fail(self, verb, code, contains, **kw):
        c = self.call(verb, **kw)
        assert c.status == 1, c
        assert c.json["code"] == code, c
        assert contains in c.json["msg"], c

    def files(self, pod=None):
        """The tuning files of the pod: {name without the container ID: text}."""
        found = {}
        for f in sorted(self.data.glob("*")) if self.data.is_dir() else []:
            assert f.name.startswith((pod or self.pod).id + "_"), f
            assert f.stat().st_mode & 0o7777 == 0o600
            found[f.name[len((pod or self.pod).id) + 1:]] = f.read_text()
        return found

    def link(self, pod=None, ifname="net1"):
        k = link((pod or self.pod).ns, ifname)
        return {"mac": k["address"], "mtu": k["mtu"], "txqlen": k["txqlen"],
                "promisc": "PROMISC" in k["flags"], "allmulti": "ALLMULTI" in k["flags"]}


@pytest.fixture
def t(lab, chained_plugins):
    return Setup(lab, chained_plugins)


REQUESTS = {
    "sysctls": ({"sysctl": {**NOTIFY, "net/ipv4/ip_forward": "0", "net.core.somaxconn": "512"}}, None),
    "mac": ({"mac": MAC.upper()}, None),
    "every attribute": ({"mac": MAC, "mtu": 1400, "promisc": True, "allmulti": True, "sysctl": NOTIFY}, None),
    "allmulti off": ({"allmulti": False}, None),
    "runtimeConfig before CNI_ARGS": ({"mac": OLD, "runtimeConfig": {"mac": MAC}, "capabilities": {"mac": True}},
                "IgnoreUnknown=1;MAC=0a:58:00:00:00:09"),
    "CNI_ARGS": ({"mac": OLD}, f"IgnoreUnknown=1;MAC={MAC}"),
    "args before all others": ({"sysctl": {**NOTIFY, "net.ipv4.conf.IFNAME.proxy_arp": "0"}, "mac": OLD, "mtu": 1500,
              "promisc": True, "args": {"cni": {"sysctl": {"net.ipv4.conf.IFNAME.proxy_arp": "1"},
                                                "mac": MAC, "mtu": 1400, "promisc": False,
                                                "allmulti": True}}},
             f"IgnoreUnknown=1;MAC={OLD}"),
    "keys in another case": ({"MTU": 1400, "SysCtl": NOTIFY, "Mac": MAC}, None),
    "no attribute": ({}, None),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_results_and_state_equal_debians(t, request_):
    more, args = REQUESTS[request_]
    seen = []
    for by in (t.chained_plugins, REFERENCE):
        pod = t.new()
        result = t.ok("ADD", pod=pod, by=by, cni_args=args, **more).json
        result["interfaces"][0]["sandbox"] = "pod"
        result.pop("dns", None)
        keys = [sysctl(pod.ns, f"net/ipv4/conf/net1/{k}") for k in ("arp_notify", "proxy_arp")]
        shape = same_shape(pod.state(), (ns_path(pod.ns), "netns"))
        seen.append((result, t.link(pod), t.files(pod), keys, shape, sysctl(pod.ns, "net/core/somaxconn")))
        assert t.ok("DEL", pod=pod, by=by, cni_args=args, **more).out == ""
        assert t.files(pod) == {}
        seen.append((t.link(pod), same_shape(pod.state(), (ns_path(pod.ns), "netns"))))
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]


@pytest.mark.parametrize("version", VERSIONS)
def test_result_is_printed_in_every_cni_version(t, version):
    if version < "0.3.0":
        before = {"cniVersion": version, "ip4": {"ip": "172.16.1.20/24", "gateway": "172.16.1.1"}}
    else:
        before = prev(t.pod, IPS, mac=OLD, version=version)
        if version < "1.0.0":
            before["ips"][0]["version"] = "4"
    c = conf("tuning", version, dataDir=str(t.data), mac=MAC, prevResult=before)
    got = t.lab.add(c, t.pod, plugins=t.chained_plugins)
    want = json.loads(json.dumps(before).replace(OLD, MAC))
    got.pop("dns", None)
    assert got == want


@pytest.mark.parametrize("makes,deletes", [("candidate", "reference"), ("reference", "candidate")])
def test_tuning_file_of_one_plugin_is_used_by_the_other(t, makes, deletes):
    by = {"candidate": t.chained_plugins, "reference": REFERENCE}
    before = t.link()
    more = {"mac": MAC, "mtu": 1400, "promisc": True, "allmulti": True}
    t.ok("ADD", by=by[makes], **more)
    assert t.link() != before
    assert t.files() == {"net1.json": f'{{\n "mac": "{OLD}",\n "promisc": false,\n "mtu": 1500,\n'
                                      ' "allmulti": false\n}'}
    t.ok("DEL", by=by[deletes], **more)
    assert t.link() == before and t.files() == {}


def test_queue_length_is_set_and_restored(t):
    """Debian's plugin does not have the key txQLen yet; the file has the format of the current original."""
    t.ok("ADD", txQLen=77)
    assert t.link()["txqlen"] == 77 and t.files() == {"net1.json": '{\n "txQLen": 1000\n}'}
    t.ok("CHECK", txQLen=77)
    t.fail("CHECK", 999, "Transmit Queue Length of net1 is 0, current value is 77", txQLen=0)
    t.ok("DEL", txQLen=77)
    assert t.link()["txqlen"] == 1000


def test_interface_name_may_contain_dots(t):
    pod = t.new("net1.100")
    t.ok("ADD", pod=pod, ifname="net1.100", sysctl=NOTIFY, mtu=1400)
    assert sysctl(pod.ns, "net/ipv4/conf/net1.100/arp_notify") == "1"
    t.ok("CHECK", pod=pod, ifname="net1.100", sysctl=NOTIFY, mtu=1400)
    t.ok("DEL", pod=pod, ifname="net1.100")


def test_result_has_the_new_mac_for_the_pods_interface_only(t):
    """In the result of the original, the host's interface of the same name gets the new MAC as well."""
    before = prev(t.pod, IPS, mac=OLD)
    before["interfaces"].append({"name": "net1", "mac": "0a:58:00:00:00:99"})
    got = t.lab.add(conf("tuning", dataDir=str(t.data), mac=MAC, prevResult=before), t.pod,
                    plugins=t.chained_plugins)
    assert [i["mac"] for i in got["interfaces"]] == [MAC, "0a:58:00:00:00:99"]


# --- defects of the original ---


def test_sysctls_given_only_in_args_are_set(t):
    """The original panics if only args have sysctls."""
    t.ok("ADD", args={"cni": {"sysctl": {"net.ipv4.conf.IFNAME.proxy_arp": "1"}}})
    assert sysctl(t.pod.ns, PROXY) == "1"


def test_failed_add_reverts_all_changes(t):
    """The kernel refuses the MTU: the original leaves the changed sysctl, MAC and promiscuous mode, and its file."""
    before, keys = t.link(), sysctl(t.pod.ns, PROXY)
    more = {"sysctl": {"net.ipv4.conf.IFNAME.proxy_arp": "1"}, "mac": MAC, "mtu": 99999999,
            "promisc": True, "allmulti": True}
    t.fail("ADD", 7, "set link 'net1' mtu 99999999: Invalid argument (EINVAL)", **more)
    assert t.link() == before and sysctl(t.pod.ns, PROXY) == keys and t.files() == {}


def test_failed_sysctl_reverts_earlier_ones(t):
    keys = sysctl(t.pod.ns, PROXY)
    t.fail("ADD", 7, "set sysctl 'net.ipv4.no_such' to '1'", mtu=1400,
           sysctl={"net.ipv4.conf.IFNAME.proxy_arp": "1", "net.ipv4.no_such": "1"})
    assert sysctl(t.pod.ns, PROXY) == keys and t.files() == {} and t.link()["mtu"] == 1500
    t.fail("ADD", 7, "set sysctl 'net.ipv4.ip_forward' to 'maybe'",
           sysctl={"net.ipv4.conf.IFNAME.proxy_arp": "1", "net.ipv4.ip_forward": "maybe"})
    assert sysctl(t.pod.ns, PROXY) == keys


def test_missing_interface_changes_nothing(t):
    ip(t.pod.ns, "link", "del", "net1")
    forward = sysctl(t.pod.ns, "net/ipv4/ip_forward")
    t.fail("ADD", 999, "Link not found", mtu=1400, sysctl={"net.ipv4.ip_forward": "1"})
    assert sysctl(t.pod.ns, "net/ipv4/ip_forward") == forward and t.files() == {}


def test_two_tunings_in_a_chain_restore_the_first_values(t):
    """In a chain of two tuning plugins of the original, the second overwrites the values that the first saved."""
    before = t.link()
    t.ok("ADD", mac=MAC)
    t.ok("ADD", mtu=1400, mac="0a:58:00:00:00:08")
    assert t.files() == {"net1.json": f'{{\n "mac": "{OLD}",\n "mtu": 1500\n}}'}
    t.ok("DEL", mtu=1400)
    t.ok("DEL", mac=MAC)
    assert t.link() == before and t.files() == {}


def test_failing_second_tuning_retains_the_first_file(t):
    t.ok("ADD", mac=MAC)
    files = t.files()
    t.fail("ADD", 7, "mtu 99999999", mtu=99999999)
    assert t.files() == files and t.link()["mac"] == MAC


def test_del_without_the_link_removes_its_file(t):
    """The original never removes the attachment's file if the link does not exist."""
    t.ok("ADD", mtu=1400)
    ip(t.pod.ns, "link", "del", "net1")
    t.ok("DEL")
    assert t.files() == {}


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-not-there"])
def test_del_without_a_namespace_succeeds(t, netns):
    t.ok("ADD", mtu=1400)
    for _ in range(2):
        t.lab.delete(t.conf(mtu=1400), t.pod, plugins=t.chained_plugins, netns=netns)
        assert t.files() == {}


@pytest.mark.parametrize("text", ["", "{", '{"mac": "zz"}', '{"mtu": -1}', "[]"])
def test_del_with_an_invalid_state_file_succeeds(t, text):
    t.ok("ADD", mtu=1400)
    (t.data / f"{t.pod.id}_net1.json").write_text(text)
    c = t.ok("DEL")
    assert "cannot use the backup of the link's attributes" in c.err and t.files() == {}


def test_del_succeeds_with_a_configuration_that_add_refuses(t):
    t.ok("ADD", mtu=1400)
    t.ok("DEL", mac="zz", cni_args="MAC=;x", sysctl={"kernel.panic": "1"})
    assert t.link()["mtu"] == 1500 and t.files() == {}


def test_del_retains_the_file_if_the_restore_fails(t):
    t.ok("ADD", mtu=1400)
    (t.data / f"{t.pod.id}_net1.json").write_text('{\n "mtu": 99999999\n}')
    c = t.ok("DEL")
    assert "cannot restore the state of the interface" in c.err and "net1.json" in t.files()


# --- refusals ---


@pytest.mark.parametrize("more,contains", [
    ({"sysctl": {"kernel.panic": "1"}}, 'invalid net sysctl key: "kernel/panic"'),
    ({"sysctl": {"net": "1"}}, 'invalid net sysctl key: "net"'),
    ({"sysctl": {"net.ipv4.ip_forward": 1}}, "conf.sysctl.net.ipv4.ip_forward is number"),
    ({"sysctl": ["net"]}, "conf.sysctl is array, expected an object"),
    ({"sysctl": {"net.ipv4.ip_forward": "1", "net/ipv4/ip_forward": "0"}},
     "duplicated sysctl keys are not allowed"),
    ({"mac": "zz"}, "invalid args zz for MAC addr: address zz: invalid MAC address"),
    ({"mtu": -1}, "conf.mtu is -1"), ({"mtu": "9000"}, "conf.mtu"),
    ({"txQLen": -1}, "conf.txQLen is -1"), ({"promisc": "yes"}, "conf.promisc"),
    ({"dataDir": "here"}, "conf.dataDir is 'here'"),
])
def test_invalid_configurations_are_refused(t, more, contains):
    before = t.pod.state()
    for verb in ("ADD", "CHECK"):
        c = {**t.conf(), **more}
        t.lab.fail(verb, c, t.pod, 7, contains, plugins=t.chained_plugins)
    assert t.pod.state() == before and t.files() == {}


def test_duplicate_sysctls_are_refused(t):
    text = json.dumps(t.conf(sysctl={"net.ipv4.ip_forward": "1"})).replace(
        '"net.ipv4.ip_forward": "1"', '"net.ipv4.ip_forward": "1", "net.ipv4.ip_forward": "1"')
    t.lab.fail("ADD", text, t.pod, 7, "duplicated sysctl keys are not allowed", plugins=t.chained_plugins,
               plugin="tuning")


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_missing_prev_result_is_refused(t, verb):
    c = conf("tuning", dataDir=str(t.data), mtu=1400)
    t.lab.fail(verb, c, t.pod, 7, "Required prevResult missing", plugins=t.chained_plugins)


def test_invalid_cni_args_are_refused(t):
    t.fail("ADD", 4, 'ARGS: invalid pair "x"', cni_args="x", mtu=1400)


# --- CHECK ---


def test_check_finds_attributes_that_differ_from_the_configuration(t):
    more = {"mac": MAC.upper(), "mtu": 1400, "promisc": True, "allmulti": True, "txQLen": 500,
            "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456"}}
    t.ok("ADD", **more)
    # CHECK of the original compares texts, so it fails on upper-case letters in a MAC, or on a tab instead of a blank
    t.ok("CHECK", **more)
    for key, value, contains in (
            ("mac", OLD, f"Ethernet of net1 is {OLD}, current value is {MAC}"),
            ("mtu", 1500, "MTU of net1 is 1500, current value is 1400"),
            ("promisc", False, "link net1 configured promisc is false, current value is 1"),
            ("allmulti", False, "all-multicast mode of net1 is false, current value is true"),
            ("txQLen", 7, "Transmit Queue Length of net1 is 7, current value is 500"),
            ("sysctl", {"net.ipv4.conf.IFNAME.arp_notify": "0"},
             "value of /proc/sys/net/ipv4/conf/net1/arp_notify is 0, current value is 1")):
        t.fail("CHECK", 999, "Error: Tuning ", **{**more, key: value})
        t.fail("CHECK", 999, contains, **{**more, key: value})
    ip(t.pod.ns, "link", "del", "net1")
    t.fail("CHECK", 999, "Cannot find container link net1", mtu=1400)


def test_check_succeeds_while_tcpdump_runs(t):
    """A packet socket sets promiscuous mode, as tcpdump does. The mode is not in the configuration, and the original's CHECK fails."""
    t.ok("ADD", mtu=1400)
    code = ("import socket, struct, sys; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3);"
            "s.setsockopt(263, 1, struct.pack('iHH8s', socket.if_nametoindex('net1'), 1, 0, b''));"
            "print('on', flush=True); sys.stdin.read()")
    with subprocess.Popen(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE, preexec_fn=enter(t.pod.ns)) as p:
        assert p.stdout.readline() == "on\n"
        assert link(t.pod.ns, "net1")["promiscuity"] == 1
        t.ok("CHECK", mtu=1400)
        p.stdin.close()


# --- allowlist ---


@pytest.fixture
def allow(t, tmp_path):
    """Returns make(text), which creates a directory of plugins whose tuning plugin has an allowlist with this text."""
    def make(text, of=t.chained_plugins):
        folder = tmp_path / f"allow-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "list").write_text(text)
        script = folder / "tuning"
        script.write_text("#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /etc && "
                          "mkdir -p /etc/cni/tuning && "
                          f"cat {folder}/list >/etc/cni/tuning/allowlist.conf && exec {of}/tuning'\n")
        script.chmod(0o755)
        return folder
    return make


@pytest.mark.parametrize("text,ok", [
    ("", False), ("\n  \n", False),
    ("net.ipv4.ip_forward\n", True), ("^net\\.ipv4\\.ip_[a-z]+$\n", True), ("forw", True),
    ("^net\\.core\\..*$\n^net\\.ipv4\\.ip_forward$", True), ("^net\\.core\\.", False),
    ("^(?:net|kernel)\\.ipv\\d\\.\\w+$", True), ("^net\\.ipv4\\.[^\\W\\d]+?$", True),
    ("  net.ipv4.ip_forward  ", True), ("ip_forwar{2}d", False), ("NET", False),
])
def test_sysctls_must_match_the_allowlist(t, allow, text, ok):
    """The error text is that of the current original; Debian's plugin is older than the allowlist."""
    c = t.call("ADD", by=allow(text), sysctl={"net.ipv4.ip_forward": "1"})
    assert (c.status == 0) == ok, c
    if not ok:
        lines = " ".join(line.strip() for line in text.split("\n") if line.strip())
        assert c.json["msg"].startswith(
            "Sysctl net.ipv4.ip_forward is not allowed. Only the following sysctls are allowed: "
            f"[{lines}]"), c


def test_unsupported_allowlist_pattern_is_refused(t, allow):
    t.fail("ADD", 7, "/etc/cni/tuning/allowlist.conf:2: '(?i)x': flags, look-around and unterminated group names are not supported",
           by=allow("net.core\n(?i)x\n"), sysctl={"net.ipv4.ip_forward": "1"})


# --- STATUS, GC ---


def test_status_checks_the_configuration(t, allow):
    t.ok("STATUS", version="1.1.0", mtu=1400, sysctl=NOTIFY)
    t.fail("STATUS", 7, "is not allowed", version="1.1.0", sysctl=NOTIFY, by=allow("none"))
    t.data.rmdir()
    t.data.write_text("a file")
    t.fail("STATUS", 50, "Not a directory (ENOTDIR)", version="1.1.0", mtu=1400)
    t.ok("STATUS", version="1.1.0", sysctl=NOTIFY)  # without attributes to restore, tuning needs no directory


def test_status_reports_an_unreadable_allowlist(t, tmp_path):
    folder = tmp_path / "unreadable"
    folder.mkdir()
    script = folder / "tuning"
    script.write_text("#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /etc && "
                      f"mkdir -p /etc/cni/tuning/allowlist.conf && exec {t.chained_plugins}/tuning'\n")
    script.chmod(0o755)
    t.fail("STATUS", 50, "read the allowlist of sysctls", version="1.1.0", by=folder)
    t.fail("ADD", 50, "read the allowlist of sysctls", by=folder)


def test_gc_removes_no_file_of_tuning(t):
    t.ok("ADD", mtu=1400)
    c = {**t.conf("1.1.0"), "cni.dev/valid-attachments": []}
    t.lab.ok("GC", c, t.pod, plugins=t.chained_plugins)
    assert "net1.json" in t.files()


def test_unwritable_data_directory_is_reported(t):
    t.data.write_text("a file")
    before = t.link()
    t.fail("ADD", 5, "save the state of the interface (conf.dataDir)", mtu=1400)
    t.data.unlink()
    assert t.link() == before


# --- in a chain ---


def test_check_and_del_succeed_in_a_chain_with_macvlan_and_sbr(t):
    """CHECK and DEL of all three plugins succeed; CHECK of the originals fails."""
    pod = t.lab.pod()
    ipam = {"type": "static", "addresses": [{"address": "172.16.1.20/24", "gateway": "172.16.1.1"}],
            "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [{"type": "macvlan", "master": "rail0", "ipam": ipam},
               {"type": "tuning", "dataDir": str(t.data), "mtu": 4200, "sysctl": NOTIFY},
               {"type": "sbr"}]
    t.lab.plugins = t.chained_plugins
    chain = t.lab.chain
    result = chain("ADD", plugins, pod)
    assert link(pod.ns, "net1")["mtu"] == 4200
    chain("CHECK", plugins, pod, prev=result)
    chain("DEL", plugins, pod, prev=result)
    assert t.files(pod) == {} and link(pod.ns, "net1") is None
    assert run(["ip", "-n", pod.ns, "rule", "show"]).stdout.count("lookup") == 3
