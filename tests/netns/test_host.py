# SPDX-License-Identifier: Apache-2.0
"""unirail host plans, applies and undoes steps, and undoes them also if apply is killed at any system call that syncs, writes, renames
or sends a request to the kernel. The host is a network namespace and a directory of files with this kernel's boot_id, so that it
counts as the running host."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from lab import BINARY, enter, ip, ns_add, ns_del, run, sysctl
from report import wait

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
HOSTS = pathlib.Path(__file__).resolve().parents[1] / "hosts"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
TO_ADD = "not from all to 172.16.0.0/16 lookup main"


def veth(ns):
    """Creates ens1 and its peer far1, without link-local addresses, which the kernel adds and removes by itself."""
    ip(ns, "link", "add", "ens1", "type", "veth", "peer", "name", "far1")
    ip(ns, "link", "set", "ens1", "addrgenmode", "none")
    ip(ns, "link", "set", "far1", "addrgenmode", "none", "up")


class Host:
    def __init__(self, tmp):
        self.ns, self.root = ns_add("host"), tmp / "root"
        self.put(BOOT_ID, pathlib.Path(BOOT_ID).read_text())
        self.put("/proc/sys/net/ipv4/tcp_ecn", "2\n")
        veth(self.ns)

    def put(self, path, text):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def call(self, *args, env=None, wrap=(), root=True):
        more = ["--root", self.root] if root else []
        return run([*wrap, BINARY, "host", *args, *more], ns=self.ns, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})})

    def ok(self, *args, status=0, **kw):
        p = self.call(*args, **kw)
        assert p.returncode == status, (args, p.returncode, p.stdout, p.stderr)
        return p.stdout

    def refused(self, contains, *args, status=1, **kw):
        """The command fails with one line on stderr and changes nothing."""
        before = self.state()
        p = self.call(*args, **kw)
        assert p.returncode == status, (args, p.returncode, p.stdout, p.stderr)
        assert contains in p.stderr, p.stderr
        assert len(p.stderr.splitlines()) == 1, p.stderr
        assert self.state() == before

    def steps(self, *args, **kw):
        p = self.call(*args, "-o", "json", **kw)
        assert p.returncode in (0, 3), (p.returncode, p.stderr)
        return json.loads(p.stdout)["steps"]

    def files(self):
        keep = {}
        for f in sorted(self.root.rglob("*")):
            if f.is_symlink():
                keep[str(f)] = str(f.readlink())
            elif f.is_file() and "var/lib/unirail" not in str(f):
                keep[str(f)] = (f.read_text(), f.stat().st_mode)
        return keep

    def kernel(self):
        return {
            # leaves out the routes of far1: they have the flag linkdown while ens1 is down
            **{" ".join(args): "\n".join(k for k in ip(self.ns, *args).splitlines() if "far1" not in k) for args in
               [("rule",), ("-6", "rule"), ("route", "show", "table", "all"), ("-6", "route", "show", "table", "all")]},
            "addr": [(k["ifname"], k["mtu"], "UP" in k["flags"], sorted((a["local"], a["prefixlen"]) for a in k["addr_info"]
                                                                       if a["scope"] == "global"))
                     for k in json.loads(ip(self.ns, "-j", "addr"))],
        }

    def state(self):
        return self.kernel(), self.files()

    def rules(self):
        return ip(self.ns, "rule")


@pytest.fixture
def host(tmp_path):
    h = Host(tmp_path)
    yield h
    ns_del(h.ns)


def killed_everywhere(host, *args, env=None):
    """Applies, and kills the process at its n-th call of one kind, for every n and each kind: sync, request to the kernel, write,
    rename. Each time, undo must restore the earlier state; for every third n, a second apply completes the killed one before the
    undo."""
    before = host.state()
    for call in ("fsync", "sendto,sendmsg", "write,writev", "rename,renameat,renameat2"):
        for n in range(1, 200):
            wrap = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={n}"]
            p = host.call(*args, env=env, wrap=wrap)
            complete = p.returncode == 0
            if not complete and n % 3 == 0:
                host.ok(*args, env=env)  # completes the killed apply
                assert host.call(*args, "--dry-run", env=env).returncode == 0
            host.ok("undo")
            assert host.state() == before, (call, n)
            if complete:
                break
        assert complete and n > 1, (call, n)


# --- rule ---


def test_rule_equals_that_of_the_original_script(host):
    before = host.state()
    host.ok("rule", env={"RDMA_CIDR": "172.16.0.0/16"})
    # runs the command of setRdmaRule.sh, `ip rule add not to 172.16.0.0/16 table main priority 2000`, in another namespace
    other = ns_add("script")
    try:
        ip(other, "rule", "add", "not", "to", "172.16.0.0/16", "table", "main", "priority", "2000")
        assert ip(other, "rule") == host.rules()
    finally:
        ns_del(other)
    assert f"2000:\t{TO_ADD}" in host.rules()
    assert host.ok("rule", "172.16.0.0/16") == "nothing to do\n"
    assert host.ok("apply") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before
    assert host.ok("undo") == "nothing to do\n"


def test_rule_of_another_cidr_is_replaced_and_restored(host):
    ip(host.ns, "rule", "add", "not", "to", "172.17.0.0/16", "table", "main", "priority", "2000")
    before = host.state()
    host.ok("rule", "172.16.0.0/16")
    assert "172.17" not in host.rules() and TO_ADD in host.rules()
    host.ok("undo")
    assert host.state() == before


def test_rule_whose_priority_is_taken_is_refused(host):
    ip(host.ns, "rule", "add", "from", "10.0.0.1", "lookup", "100", "priority", "2000")
    host.refused("priority 2000 is taken by rule 'from 10.0.0.1 lookup 100'", "rule", "172.16.0.0/16")


def test_rule_is_undone_after_a_kill_at_any_system_call(host):
    killed_everywhere(host, "rule", "172.16.0.0/16")


def test_second_concurrent_apply_is_refused(host):
    lock = host.root / "var/lib/unirail/host/lock"
    lock.parent.mkdir(parents=True)
    host.refused("another 'unirail host' is changing this host", "rule", "172.16.0.0/16",
                 wrap=["flock", lock])


# --- addr ---

SCRIPT = {"INTERFACE": "ens1", "IPV4_IP": "172.16.1.10/24", "IPV4_GATEWAY": "172.16.1.1", "MTU": "4200", "ENABLE_POLICY_ROUTE": "true"}
BOTH = ["--ipv4-ip", "172.16.1.10/24", "--ipv4-gateway", "172.16.1.1", "--ipv6-ip", "fd00:16:1::10/64", "--ipv6-gateway", "fd00:16:1::1",
        "--policy-route", "--rdma-default-route", "--rdma-subnet", "172.16.0.0/16,fd00:16::/32", "--mtu", "4200"]
V4 = ["--ipv4-ip", "172.16.1.10/24", "--ipv4-gateway", "172.16.1.1", "--policy-route", "--mtu", "4200"]


def by_hand(host):
    """The state that the nmcli branch of setNicAddr.sh leaves, created by the same `ip` commands in another namespace."""
    ns = ns_add("script")
    veth(ns)
    ip(ns, "link", "set", "ens1", "mtu", "4200", "up")
    ip(ns, "addr", "add", "172.16.1.10/24", "dev", "ens1")
    ip(ns, "route", "add", "default", "via", "172.16.1.1", "dev", "ens1", "table", "151")
    ip(ns, "rule", "add", "from", "172.16.1.10", "table", "151")
    return ns


def test_addr_with_the_variables_of_the_original_script_creates_the_same_state(host):
    before = host.state()
    host.ok("addr", env=SCRIPT)
    other = by_hand(host)
    try:
        for args in (("rule",), ("route", "show", "table", "151"), ("route", "show", "table", "main")):
            assert ip(other, *args) == ip(host.ns, *args)
        assert "mtu 4200" in ip(host.ns, "link", "show", "ens1")
    finally:
        ns_del(other)
    assert host.ok("addr", env=SCRIPT) == "nothing to do\n"
    assert host.ok("apply") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before


def test_addr_of_both_families_is_set_and_undone(host):
    before = host.state()
    host.ok("addr", "ens1", *BOTH)
    state = host.kernel()
    assert "32765:\tfrom 172.16.1.10 lookup 151" in state["rule"]
    assert "32765:\tfrom fd00:16:1::10 lookup 151" in state["-6 rule"]
    assert "default via fd00:16:1::1 dev ens1 table 151" in state["-6 route show table all"]
    assert "172.16.0.0/16 via 172.16.1.1 dev ens1 onlink" in state["route show table all"]
    assert host.ok("addr", "ens1", *BOTH) == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before


def test_addr_is_undone_after_a_kill_at_any_system_call(host):
    killed_everywhere(host, "addr", "ens1", *V4)


def test_addr_repairs_manual_changes(host):
    host.ok("addr", "ens1", *V4)
    want = host.state()
    ip(host.ns, "rule", "del", "from", "172.16.1.10")
    ip(host.ns, "link", "set", "ens1", "mtu", "1500")
    assert host.call("plan").returncode == 3
    host.ok("apply")
    assert host.state() == want


def test_addr_clean_removes_everything_of_the_interface(host):
    host.ok("addr", "ens1", *V4, "--persist", "netplan")
    host.ok("addr", env={"INTERFACE": "ens1", "mode": "clean"})
    assert "ens1" not in ip(host.ns, "-4", "route", "show", "table", "all")
    assert "172.16" not in host.rules()
    assert not (host.root / "etc/netplan/12-ens1.yaml").exists()
    assert not list((host.root / "etc/unirail/host.d").glob("*"))
    assert host.ok("apply") == "nothing to do\n"


@pytest.mark.parametrize("contains, args", [
    ("interface 'ens2' does not exist; did you mean 'ens1'?", ["ens2", "--ipv4-ip", "172.16.1.10/24"]),
    ("ipv4-ip '172.16.1.10' is not an address with a prefix length", ["ens1", "--ipv4-ip", "172.16.1.10"]),
    ("ipv4-gateway 172.16.2.1 is outside 172.16.1.10/24", ["ens1", "--ipv4-ip", "172.16.1.10/24", "--ipv4-gateway", "172.16.2.1"]),
    ("policy-route needs ipv4-ip with ipv4-gateway", ["ens1", "--ipv4-ip", "172.16.1.10/24", "--policy-route"]),
    ("table 77 is taken by route '10.9.0.0/16 dev far1 table 77'", ["ens1", *V4, "--table", "77"]),
    ("address 172.16.9.9 is taken by interface 'far1'", ["ens1", "--ipv4-ip", "172.16.9.9/24"]),
    ("rdma-default-route needs rdma-subnet", ["ens1", *V4, "--rdma-default-route"]),
])
def test_invalid_input_gives_one_error_line_and_changes_nothing(host, contains, args):
    ip(host.ns, "addr", "add", "172.16.9.9/24", "dev", "far1")
    ip(host.ns, "route", "add", "10.9.0.0/16", "dev", "far1", "table", "77")
    p = host.call("addr", *args)
    host.refused(contains, "addr", *args, status=p.returncode)
    assert p.returncode in (1, 2)


def test_error_of_an_unknown_key_names_its_line_and_a_similar_key(host):
    host.put("/etc/unirail/host.conf", "[interface ens1]\nipv4-ip = 172.16.1.10/24\nipv4-gatway = 172.16.1.1\n")
    host.refused("host.conf:3: key 'ipv4-gatway' is unknown in section 'interface'; did you mean 'ipv4-gateway'?", "apply")


def test_read_only_etc_is_refused_before_the_first_change(host):
    (host.root / "etc").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o ro none {host.root}/etc && exec \"$@\""
    host.refused("Read-only file system (EROFS)", "rule", "172.16.0.0/16", wrap=["unshare", "-m", "sh", "-c", mount, "sh"])


@pytest.mark.parametrize("contains, args, env", [
    ("modules rdma_ucm: loaded: modprobe is not on this host: install kmod", ["modules", "rdma_ucm"], {}),
    ("install mstflint (mstconfig) or NVIDIA's MFT (mlxconfig)", ["link-type"], {"RDMA_MODE": "infiniband"}),
    ("DHCP needs netplan, NetworkManager or systemd-networkd; none of them is on this host", ["addr"],
     {"INTERFACE": "ens1", "DHCP4": "true"}),
], ids=["no modprobe", "no mlxconfig", "no program for DHCP"])
def test_missing_program_gives_one_error_line_and_changes_nothing(host, tmp_path, contains, args, env):
    run([BINARY, "doctor", "--root", HOSTS / "hw_eight_ofed.tree", "--unpack", tmp_path / "recorded"])
    (tmp_path / "recorded/sys").rename(host.root / "sys")
    host.refused(contains, *args, env=env)
    # an apply of all sections still applies the sections that need no missing program
    host.put("/etc/unirail/host.conf", "[modules]\nload = rdma_ucm\n[link-type]\nall = infiniband\n[rule]\ncidr = 172.16.0.0/16\n")
    p = host.call("apply")
    assert p.returncode == 3 and TO_ADD in host.rules(), (p.stdout, p.stderr)
    assert "modprobe is not on this host" in p.stderr and "install mstflint" in p.stderr, p.stderr


# mlxconfig for cards whose running and stored link types are files. It logs each `set`.
MLXCONFIG = """#!/bin/sh
[ "$1" != -e ] || shift
dir=/firmware/$2
[ -d "$dir" ] || { echo "-E- Failed to open device $2"; exit 1; }
if [ "$3" = q ]; then
    echo "Configurations:    Default    Current    Next Boot"
    for port in P1 P2; do
        [ ! -e "$dir/$port" ] || echo "*  LINK_TYPE_$port    IB(1)    $(cat "$dir/$port.running")    $(cat "$dir/$port")"
    done
    exit 0
fi
port=${5#LINK_TYPE_} port=${port%=*}
case ${5#*=} in
1 | IB) type='IB(1)' ;;
2 | ETH) type='ETH(2)' ;;
*) exit 1 ;;
esac
echo "$2 $port $type" >>/firmware/sets
echo "$type" >"$dir/$port"
"""

# Does what setNicRdmaMode.sh does with its list of PFs: `mlxconfig q`, and `mlxconfig set` for each port whose type is not $type.
LINK_TYPE_SCRIPT = """set -e
for dev in $devices; do
    for port in P1 P2; do
        now=$(mlxconfig -d "$dev" q | sed -n "s/.*LINK_TYPE_$port.* //p")
        case $now in '' | "$type"*) continue ;; esac
        mlxconfig -d "$dev" -y set "LINK_TYPE_$port=$type"
    done
done
"""


class Cards:
    """Adds the /sys of a recorded host, the programs of this system and MLXCONFIG to the host's root."""

    def __init__(self, host, tmp_path):
        self.host = host
        run([BINARY, "doctor", "--root", HOSTS / "hw_eight_ofed.tree", "--unpack", tmp_path / "recorded"])
        (tmp_path / "recorded/sys").rename(host.root / "sys")
        for name in ("usr", "dev"):
            (host.root / name).mkdir()
        for name in ("bin", "lib", "lib64"):
            (host.root / name).symlink_to(f"usr/{name}")
        host.put("/sbin/mlxconfig", MLXCONFIG)
        (host.root / "sbin/mlxconfig").chmod(0o755)
        devices = sorted((host.root / "sys/bus/pci/devices").iterdir())
        self.all = [d.name for d in devices if (d / "vendor").read_text() == "0x15b3\n" and (d / "class").read_text().startswith("0x02")
                    and not (d / "physfn").exists()]
        self.mounts = ["unshare", "-m", "sh", "-c", f'mount --bind /usr {host.root}/usr && mount --bind /dev {host.root}/dev && exec "$@"', "sh"]

    def fill(self, types):
        """Sets the running and stored link types of each card. A card that is not in `types` has no LINK_TYPE, like a ConnectX-6 Lx."""
        shutil.rmtree(self.host.root / "firmware", ignore_errors=True)
        for bdf in self.all:
            self.host.put(f"/firmware/{bdf}/id", "")
            for port, t in zip(("P1", "P2"), types.get(bdf, ())):
                self.host.put(f"/firmware/{bdf}/{port}", t + "\n")
                self.host.put(f"/firmware/{bdf}/{port}.running", t + "\n")

    def stored(self):
        return {str(f.relative_to(self.host.root)): f.read_text() for f in (self.host.root / "firmware").rglob("P?")}

    def sets(self):
        log = self.host.root / "firmware/sets"
        return sorted(log.read_text().splitlines()) if log.exists() else []

    def script(self, devices, mode):
        run([*self.mounts, "chroot", self.host.root, "sh", "-c", LINK_TYPE_SCRIPT],
            env={"PATH": "/sbin:/usr/bin:/bin", "devices": " ".join(devices), "type": "IB" if mode == "infiniband" else "ETH"})


@pytest.mark.parametrize("env", [{"RDMA_MODE": "infiniband"}, {"RDMA_MODE": "roce"},
                                 {"GPU_RDMA_MODE": "infiniband", "OTHER_RDMA_MODE": "roce"}], ids=["infiniband", "roce", "infiniband near GPUs"])
def test_link_type_sets_the_firmware_as_the_original_script_does(host, tmp_path, env):
    cards = Cards(host, tmp_path)
    assert len(cards.all) >= 8
    rows = json.loads(host.ok("link-type", "q", "-o", "json", wrap=cards.mounts))
    gpu = sorted({r["subject"] for r in rows if r["property"] == "link-type" and ", gpu" in r["value"]})
    assert gpu and set(gpu) < set(cards.all)
    types = {bdf: [("IB(1)", "ETH(2)")[i % 2]] for i, bdf in enumerate(cards.all)}
    types[cards.all[0]] = ["IB(1)", "ETH(2)"]  # two ports
    del types[cards.all[1]]
    cards.fill(types)
    if "RDMA_MODE" in env:
        cards.script(cards.all, env["RDMA_MODE"])
    else:
        cards.script(gpu, env["GPU_RDMA_MODE"])
        cards.script([d for d in cards.all if d not in gpu], env["OTHER_RDMA_MODE"])
    by_script = cards.stored(), cards.sets()
    assert by_script[1]
    cards.fill(types)
    first = cards.stored()
    host.ok("link-type", env=env, wrap=cards.mounts)
    assert (cards.stored(), cards.sets()) == by_script
    p = host.call("link-type", env=env, wrap=cards.mounts)
    assert (p.returncode, cards.sets()) == (0, by_script[1]), p.stderr  # a second run sets nothing
    host.ok("undo", wrap=cards.mounts)
    assert cards.stored() == first


def test_address_that_no_program_persists_is_reported(host):
    host.put("/usr/local/bin/unirail", "")
    assert "run 'unirail host persist'" in host.call("addr", "ens1", *V4).stderr
    host.ok("persist")
    assert host.call("addr", "far1", "--ipv4-ip", "172.16.2.10/24").stderr == ""


def test_qos_reads_the_variables_of_the_original_script(host):
    """A variable of rdma-qos.sh that is not set has the default that the script's documentation names."""
    assert "qos.conf" in host.call("qos", "--dry-run", env={"GPU_RDMA_PRIORITY": "5", "GPU_CNP_PRIORITY": "6"}).stdout
    assert host.call("qos", "--dry-run").returncode == 0
    assert host.ok("qos", "q", "-o", "json", env={"GPU_RDMA_PRIORITY": "5"}) == "[]\n"


def test_failure_after_some_steps_names_the_step_and_undo(host):
    before = host.state()
    sysctl(host.ns, "net/ipv6/conf/ens1/disable_ipv6", 1)
    p = host.call("addr", "ens1", "--mtu", "1400", "--ipv4-ip", "172.16.1.10/24", "--ipv6-ip", "fd00:16::1/64")
    assert p.returncode == 1, (p.stdout, p.stderr)
    remark, line = p.stderr.splitlines()
    assert "run 'unirail host persist'" in remark, remark
    assert re.match(r"unirail host: (\d+) of \d+ steps are done \('unirail host undo' reverts them\): "
                    r"addr ens1: address fd00:16::1/64: .*\(EACCES\)", line), line
    assert f"steps: {line.split()[2]} done, 0 blocked, " in p.stdout, p.stdout
    host.ok("undo")
    sysctl(host.ns, "net/ipv6/conf/ens1/disable_ipv6", 0)
    assert host.state() == before


def test_removed_sections_are_reported_until_they_are_undone(host):
    both = "[interface ens1]\nipv4-ip = 172.16.1.10/24\n[interface far1]\nipv4-ip = 172.16.2.10/24\n[rule]\ncidr = 172.16.0.0/16\n"
    host.put("/etc/unirail/host.conf", both)
    before = host.state()
    host.ok("apply")
    assert host.ok("plan") == "nothing to do\n"
    host.put("/etc/unirail/host.conf", "[interface far1]\nipv4-ip = 172.16.2.10/24\n")
    assert host.ok("plan") == (
        "note: rule host: no section requests this state any more; undo with 'unirail host undo rule'\n"
        "note: addr ens1: no section requests this state any more; undo with 'unirail host undo addr', then 'unirail host apply'\n"
        "nothing to do\n")
    host.ok("undo", "rule")
    host.ok("undo", "addr")
    host.ok("apply")
    assert host.ok("plan") == "nothing to do\n"
    host.ok("undo")
    host.put("/etc/unirail/host.conf", both)
    assert host.state() == before


def test_interface_with_mode_clean_is_not_reported_as_removed_section(host):
    host.ok("addr", "ens1", "--ipv4-ip", "172.16.1.10/24")
    host.ok("addr", "ens1", "--mode", "clean")
    assert host.ok("plan") == "nothing to do\n"


def test_user_without_root_is_refused(host):
    host.refused("changes need root", "rule", "172.16.0.0/16", wrap=["setpriv", "--reuid", "65534", "--clear-groups"], root=False)


# --- deploy/host ---


def test_manifest_prepares_a_host_with_its_capabilities_only(host):
    """The container runs `host watch`. The test runs `host apply` and `plan` with the container's arguments and capabilities, and `undo`
    with its capabilities; the test's root directory has the ConfigMap's file at the path where the container mounts it."""
    docs = {d["kind"]: d for d in yaml.safe_load_all((DEPLOY / "host/host.yaml").read_text())}
    pod = docs["DaemonSet"]["spec"]["template"]["spec"]
    (box,) = pod["containers"]
    mounts = {m["name"]: m["mountPath"] for m in box["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}
    args = box["args"]
    assert pod["hostNetwork"] and volumes["root"]["hostPath"]["path"] == "/" and args[:4] == ["host", "watch", "--root", mounts["root"]]
    assert mounts["root"] + args[5] == mounts["conf"] + "/host.conf" and args[4] == "--conf"
    conf = docs["ConfigMap"]["data"]["host.conf"]
    # activates the example sections of the manifest, for the two interfaces of the test host
    conf = conf.replace("; ", "").replace("rail0,rail1,rail2,rail3,rail4,rail5,rail6,rail7", "ens1,far1")
    host.put(args[5], conf)
    host.put("/etc/hostname", "node2\n")
    before = host.state()
    caps = box["securityContext"]["capabilities"]
    assert caps["drop"] == ["ALL"]
    wrap = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all," + ",".join("+" + c.lower() for c in caps["add"])]
    host.ok("apply", *args[4:], "rails", "rule", wrap=wrap)
    assert "172.16.0.34" in ip(host.ns, "addr", "show", "ens1") and TO_ADD in host.rules()
    assert host.ok("plan", *args[4:], "rails", "rule", wrap=wrap) == "nothing to do\n"
    host.ok("undo", wrap=wrap)
    assert host.state() == before


def test_readme_has_a_row_of_capabilities_for_each_command_that_configures_the_host():
    table = re.findall(r"(?m)^\| `([a-z-]+)` \|", (DEPLOY / "README.md").read_text().split("## Host preparation")[1].split("## Upgrade")[0])
    commands = re.findall(r"(?m)^  ([a-z-]+) ", run([BINARY, "host", "--help"]).stdout)
    assert table == [c for c in commands if c not in ("show", "plan", "apply", "watch", "undo")], (table, commands)


# --- files and parameters ---


def test_sysctl_is_written_to_the_kernel_and_to_etc(host):
    before = host.state()
    host.ok("sysctl", "net.ipv4.tcp_ecn=1")
    assert (host.root / "proc/sys/net/ipv4/tcp_ecn").read_text().strip() == "1"
    assert "net.ipv4.tcp_ecn = 1\n" in (host.root / "etc/sysctl.d/90-unirail.conf").read_text()
    (host.root / "proc/sys/net/ipv4/tcp_ecn").write_text("1\n")  # procfs returns the value with a newline
    assert host.ok("apply") == "nothing to do\n"
    host.ok("undo")
    (host.root / "proc/sys/net/ipv4/tcp_ecn").write_text("2\n")
    assert host.state() == before
    host.refused("sysctl 'net.ipv4.nothing' does not exist on this kernel", "sysctl", "net.ipv4.nothing=1")


def test_interface_names_are_written_to_systemd_link_files(host):
    host.put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n")
    before = host.state()
    steps = host.steps("names", "rail0=0000:3b:00.0", "--dry-run")
    assert [s["effect"] for s in steps] == ["now", "reboot"]  # the file in host.d takes effect now, the .link file at the reboot
    host.ok("names", "rail0=0000:3b:00.0")
    text = (host.root / "etc/systemd/network/70-unirail-rail0.link").read_text()
    assert "[Match]\nPath=pci-0000:3b:00.0\n\n[Link]\nName=rail0\n" in text
    assert host.ok("apply") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before
    host.refused("PCI device 0000:3b:00.1 does not exist", "names", "rail0=0000:3b:00.1")
    host.refused("name 'ens1' is taken by a device without PCI address", "names", "ens1=0000:3b:00.0")
    host.refused("'3b:00.0' is not a PCI address", "names", "rail0=3b:00.0", status=2)


def test_network_manager_ignores_the_interfaces(host):
    (host.root / "etc/NetworkManager").mkdir(parents=True)
    host.ok("nm-ignore", "veth*,rail*")
    text = (host.root / "etc/NetworkManager/conf.d/90-unirail.conf").read_text()
    assert text.endswith("[keyfile]\nunmanaged-devices+=interface-name:veth*;interface-name:rail*\n")
    host.ok("undo")
    assert not (host.root / "etc/NetworkManager/conf.d/90-unirail.conf").exists()


def test_rdma_mode_is_persisted_for_the_next_boot(host):
    file = host.root / "etc/modprobe.d/unirail-rdma.conf"
    host.call("rdma-mode", "exclusive")
    assert "options ib_core netns_mode=0\n" in file.read_text()
    host.call("rdma-mode", "shared")
    assert "options ib_core netns_mode=1\n" in file.read_text()
    host.ok("undo")
    assert not file.exists()
    host.refused("'exclusiv'", "rdma-mode", "exclusiv", status=2)


def test_persist_installs_the_systemd_unit(host):
    host.refused("program '/usr/local/bin/unirail' does not exist on the host", "persist")
    host.put("/usr/local/bin/unirail", "")
    before = host.state()
    host.ok("persist")
    unit = host.root / "etc/systemd/system/unirail-host.service"
    assert "ExecStart=/usr/local/bin/unirail host apply\n" in unit.read_text()
    assert (unit.parent / "multi-user.target.wants/unirail-host.service").readlink() == pathlib.Path("../unirail-host.service")
    assert host.ok("persist") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before


@pytest.mark.parametrize("owner, marker, file, text", [
    ("netplan", "/usr/sbin/netplan", "/etc/netplan/12-ens1.yaml",
     '      addresses:\n        - "172.16.1.10/24"\n      routes:\n        - to: "0.0.0.0/0"\n          via: "172.16.1.1"\n          table: 151\n'
     '      routing-policy:\n        - from: "172.16.1.10"\n          table: 151\n          priority: 32765\n'),
    ("NetworkManager", "/usr/sbin/NetworkManager", "/etc/NetworkManager/system-connections/unirail-ens1.nmconnection",
     "method=manual\naddress1=172.16.1.10/24\nroute1=0.0.0.0/0,172.16.1.1,0\nroute1_options=table=151\n"
     "routing-rule1=priority 32765 from 172.16.1.10/32 table 151\n"),
    ("networkd", "/lib/systemd/systemd-networkd", "/etc/systemd/network/10-unirail-ens1.network",
     "[Route]\nGateway=172.16.1.1\nTable=151\n\n[RoutingPolicyRule]\nFrom=172.16.1.10\nTable=151\nPriority=32765\n"),
])
def test_addr_is_persisted_by_the_manager_of_the_interface(host, owner, marker, file, text):
    host.put(marker, "")
    before = host.state()
    host.ok("addr", "ens1", *V4)
    assert text in (host.root / file.lstrip("/")).read_text(), owner
    assert host.ok("addr", "ens1", *V4) == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before


# --- rails ---

PLAN = """[rails]
cidr = 172.16.0.0/16
first-rail = 1
interfaces = ens1,far1
nodes = node0,node1,node2
mtu = 4200
"""


def test_rails_of_a_node_are_read_from_the_clusters_plan(host, tmp_path):
    plan = tmp_path / "rails.conf"
    plan.write_text(PLAN)
    before = host.state()
    host.ok("rails", "--plan", plan, "--node", "node2")
    state = host.kernel()
    assert "32765:\tfrom 172.16.1.66 lookup 151" in state["rule"] and "32764:\tfrom 172.16.2.66 lookup 152" in state["rule"]
    assert "default via 172.16.1.65 dev ens1 table 151" in state["route show table all"]
    assert host.ok("rails", "--plan", plan, "--node", "node2") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before


def test_host_rails_prints_the_pools_of_the_plan(host, tmp_path):
    plan = tmp_path / "rails.conf"
    plan.write_text(PLAN)
    docs = host.ok("rails", "--plan", plan, "--pools").split("---\n")[1:]
    assert len(docs) == 2 * 3
    assert docs[5] == ("apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: rail1-node2}\n"
                       'spec: {subnet: "172.16.2.64/27", ips: ["172.16.2.67-172.16.2.94"], gateway: "172.16.2.65"}\n')


@pytest.mark.parametrize("line, contains", [
    ("node-prefix = 25", "the plan is too small: 2 nodes of /25 fit into a rail of /24, the plan has 3"),
    ("rail-prefix = 17", "the plan is too small: 2 rails of /17 fit into 172.16.0.0/16, first-rail and interfaces need 3"),
    ("cird = 172.16.0.0/16", "key 'cird' is unknown in section 'rails'; did you mean 'cidr'?"),
    ("node = node7", "node 'node7' is not one of the plan's nodes"),
])
def test_invalid_plan_is_refused(host, tmp_path, line, contains):
    plan = tmp_path / "rails.conf"
    plan.write_text(PLAN + line + "\n")
    p = host.call("rails", "--plan", plan)
    host.refused(contains, "rails", "--plan", plan, status=p.returncode)
    assert p.returncode in (1, 2)


# --- memlock ---


def test_memlock_of_each_runtime_is_raised(host):
    host.refused("neither containerd nor CRI-O is on this host", "memlock", "unlimited")
    host.put("/etc/crio/crio.conf", "")
    host.put("/etc/containerd/config.toml", '[plugins.x]\n  base_runtime_spec = "/etc/containerd/base.json"\n')
    spec = {"ociVersion": "1.1.0", "process": {"user": {"uid": 0}, "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]},
            "linux": {"maskedPaths": ["/proc/kcore"]}}
    host.put("/etc/containerd/base.json", json.dumps(spec))
    host.put("/proc/77/cgroup", "0::/kubepods.slice/x\n")
    host.put("/proc/77/comm", "train\n")
    host.put("/proc/77/limits", "Max locked memory         8388608              8388608              bytes\n")
    before = host.state()
    remarks = json.loads(host.ok("memlock", "unlimited", "--dry-run", "-o", "json", status=3))["notes"]
    assert any("1 processes of pods have a lower limit until their pods are recreated: 77 (train)" in n["text"] for n in remarks)
    host.ok("memlock", "unlimited")
    etc = host.root / "etc"
    assert "LimitMEMLOCK=infinity\n" in (etc / "systemd/system/containerd.service.d/90-unirail-memlock.conf").read_text()
    assert 'default_ulimits = ["memlock=-1:-1"]\n' in (etc / "crio/crio.conf.d/90-unirail-memlock.conf").read_text()
    spec["process"]["rlimits"].append({"type": "RLIMIT_MEMLOCK", "hard": 2**64 - 1, "soft": 2**64 - 1})
    assert json.loads((etc / "containerd/base.json").read_text()) == spec
    assert host.ok("memlock", "unlimited") == "nothing to do\n"
    host.ok("undo")
    assert host.state() == before
    host.refused("limit is 'much', expected unlimited or a number of bytes", "memlock", "much", status=2)


# --- watch ---


def test_watch_repairs_drift_and_reports_it(host):
    host.ok("addr", "ens1", *V4)
    want = host.state()
    report = pathlib.Path(f"{host.root}/var/lib/unirail/host/drift.json")
    with subprocess.Popen([BINARY, "host", "watch", "--root", host.root], stderr=subprocess.PIPE, text=True,
                          preexec_fn=enter(host.ns)) as p:
        try:
            ip(host.ns, "rule", "del", "from", "172.16.1.10")
            wait(lambda: host.state() == want, "the rule is restored")
            ip(host.ns, "addr", "del", "172.16.1.10/24", "dev", "ens1")  # the kernel deletes the routes with the address
            wait(lambda: host.state() == want, "the address is restored", 15)
            wait(report.exists, "the report for the agent exists")
        finally:
            p.terminate()
            log = p.communicate()[1]
    assert p.returncode == 0 and not report.exists()
    assert 'msg="host drifted" kind=addr subject=ens1' in log and "172.16.1.10 lookup 151" in log
    host.ok("undo")
