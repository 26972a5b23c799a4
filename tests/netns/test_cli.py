# SPDX-License-Identifier: Apache-2.0
"""demo, install, pool, help, completion, man: the tools as users run them."""
import json
import os
import pty
import signal
import subprocess

import pytest
from lab import BINARY, PLUGINS, run
from report import wait


def unirail(*args, check=False, **kw):
    return run([BINARY, *args], check=check, **kw)


def traces():
    """Namespaces, files and directories whose names begin with unirail-demo, which a demo could leave behind."""
    return [sorted(n for n in os.listdir(d) if n.startswith("unirail-demo")) for d in ("/tmp", "/run", "/run/netns")
            if os.path.isdir(d)]


@pytest.mark.parametrize("plan", ["shared", "exclusive"])
def test_demo_attaches_two_pods_and_pings_on_every_rail(plan):
    before = traces()
    p = unirail("demo", "--plan", plan, timeout=60)
    assert p.returncode == 0, p.stdout + p.stderr
    assert p.stderr == "" and "nothing" in p.stdout and "NOT AS" not in p.stdout
    for word in ("net8", "172.16.8.1", "pod-2", "lookup 101", "default via 172.16.1.1 dev net1"):
        assert word in p.stdout
    assert max(len(k) for k in p.stdout.splitlines()) <= 80
    assert p.stdout.splitlines()[-1] == "demo passed: 2 pods on 8 rails, 36 of 36 pings answered, nothing left behind"
    assert traces() == before


def test_demo_prints_its_outcome_as_json():
    p = unirail("demo", "-o", "json", "--rails", "2", timeout=60)
    d = json.loads(p.stdout)
    assert p.returncode == 0 and d["ok"] and d["leftovers"] == 0 and d["problems"] == []
    assert len(d["pings"]) == 2 * 3 * 2 and all(k["ms"] is not None for k in d["pings"])
    for pod in d["pods"]:
        assert [i["name"] for i in pod["interfaces"] if i["kind"] == "macvlan"] == ["eth0", "net1", "net2"]
        assert pod["attach"]["cpu_ms"] > 0


def test_output_of_a_demo_of_64_rails_fits_80_columns():
    p = unirail("demo", "--rails", "64", timeout=120)
    assert p.returncode == 0 and max(len(k) for k in p.stdout.splitlines()) <= 80
    assert "260 of 260 pings answered" in p.stdout.splitlines()[-1]


@pytest.mark.parametrize("reader", ["true", "head -n 1"])
def test_demo_whose_output_pipe_is_closed_leaves_no_namespaces_or_files(tmp_path, reader):
    """The namespaces are removed in any case; the exit status is that of a program that SIGPIPE ended."""
    before = traces()
    script = f"{BINARY} demo -n 1 2>{tmp_path}/err | {reader} >/dev/null; echo ${{PIPESTATUS[0]}}"
    p = run(["bash", "-c", script])
    # A demo may write all its output into the pipe's buffer before the reader of one line ends: its exit status is then 0.
    assert p.stdout in (["141\n"] if reader == "true" else ["141\n", "0\n"])
    assert (tmp_path / "err").read_text() == "" and p.stderr == ""
    assert traces() == before


def test_demo_reports_a_full_disk():
    with open("/dev/full", "w") as full:
        p = subprocess.run([BINARY, "demo", "-n", "1"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and "stdout" in p.stderr


@pytest.mark.parametrize("args", [["--help"]] + [["help", *a.split()] for a in (
    "demo", "pool", "install", "device", "unirail-cni", "agent", "controller", "doctor", "verify", "rdma", "kube", "ipam")])
def test_help_fits_80_columns(args):
    p = unirail(*args, check=True)
    assert max(len(k) for k in p.stdout.splitlines()) <= 80, p.stdout


KEEP = """
set -e
mount -t tmpfs run /run
unirail() { %s "$@"; }
unirail demo --keep -n 2 >/run/output
awk 'length > 80 { exit 1 }' /run/output
tail -n 1 /run/output | grep -q '^demo passed: .* 12 of 12 pings answered$'
rm /run/output
ip -n unirail-demo-pod-1 -br address
echo --- again
unirail demo --keep -n 2 2>&1 && exit 1
ip -n unirail-demo-pod-1 -br address
echo --- clean
unirail demo --clean
echo --- left
ls /run/netns
ls /run
""" % BINARY


def test_demo_with_option_keep_is_removed_by_option_clean():
    """The commands run in a mount namespace with a separate /run, because every demo with --keep uses the same names."""
    out = run(["unshare", "-m", "sh", "-c", KEEP]).stdout
    plan_file, rest = out.split("--- again\n")
    again, rest = rest.split("--- clean\n")
    _, left = rest.split("--- left\n")
    assert "net2" in plan_file and "--clean" in again and "net2" in again
    assert left.split() == ["netns"]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("delay", ["start", "attached"])
def test_interrupted_demo_leaves_no_namespaces_or_files(sig, delay):
    before = traces()
    # If the tests run in the background, the demo inherits that SIGINT is ignored, and loses a signal that arrives early.
    p = subprocess.Popen([BINARY, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(sig, signal.SIG_DFL) if sig != signal.SIGKILL else None)
    spaces = set()
    if delay == "attached":
        spaces = wait(lambda: len(held_by(p.pid)) >= 4 and held_by(p.pid), "the demo holds four namespaces")
        wait(lambda: children(p.pid), "the demo attaches a pod")
    p.send_signal(sig)
    p.communicate(timeout=30)
    assert p.returncode in (-sig, 128 + sig)
    wait(lambda: not spaces & namespaces(), "the demo's namespaces are deleted")
    assert traces() == before


def test_demo_stopped_by_ctrl_c_reports_only_the_signal():
    """Ctrl-C also ends the plugin that the demo executes; the demo does not report the plugin's error."""
    p = subprocess.Popen([BINARY, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                         text=True)
    wait(lambda: children(p.pid), "the demo attaches a pod")
    os.killpg(p.pid, signal.SIGINT)
    _, errors = p.communicate(timeout=30)
    assert p.returncode == 128 + signal.SIGINT and errors == "unirail demo: stopped by signal 2\n"


AS_OTHER_USER = """
set -e
mount -t tmpfs -o mode=755 var /var/lib
mkdir -p -m 700 /var/lib/cni/multus
# The tree may be in a directory that only root may enter, such as /root.
cp %s /var/lib/unirail
exec setpriv --reuid 65534 --regid 65534 --clear-groups unshare -Urn /var/lib/unirail demo -n 1
""" % BINARY


def test_demo_runs_without_root_on_a_node_with_multus():
    """The demo runs in a user namespace, and accesses no directory that only root may enter."""
    p = run(["unshare", "-m", "sh", "-c", AS_OTHER_USER])
    assert p.stderr == "" and "nothing" in p.stdout


def held_by(pid):
    """Network namespaces that a process has open or is in, except the namespace of this test."""
    found = set()
    try:
        found.add(os.readlink(f"/proc/{pid}/ns/net"))
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("net:["):
                found.add(target)
    except OSError:
        pass
    return found - {os.readlink("/proc/self/ns/net")}


def namespaces():
    return set().union(*(held_by(p) for p in os.listdir("/proc") if p.isdigit()))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return f.read().split()
    except OSError:
        return []


def test_demo_without_cap_net_admin_is_refused():
    p = run(["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", BINARY, "demo"], check=False)
    assert p.returncode == 1 and p.stdout == ""
    assert p.stderr.count("\n") == 1 and "CAP_NET_ADMIN" in p.stderr


def test_demo_shows_progress_on_a_terminal():
    leader, follower = pty.openpty()
    p = subprocess.Popen([BINARY, "demo", "-n", "1"], stdout=subprocess.DEVNULL, stderr=follower)
    os.close(follower)
    text = b""
    try:
        while True:
            text += os.read(leader, 4096)
    except OSError:
        pass
    os.close(leader)
    assert p.wait(timeout=30) == 0
    assert b"[1/7]" in text and b"[7/7]" in text and text.endswith(b"\r\x1b[K")


@pytest.mark.parametrize("args", [["--rails", "0"], ["--rails", "65"], ["--plan", "both"], ["--frobnicate"], ["x"]])
def test_usage_errors_of_the_demo_are_refused(args):
    p = unirail("demo", *args)
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and args[-1].lstrip("-") in p.stderr


# --- install ---


def test_plugins_are_installed(tmp_path):
    target = tmp_path / "bin"
    target.mkdir()
    p = unirail("install", target)
    assert p.returncode == 0, p.stderr
    for name in PLUGINS:
        assert (target / name).resolve() == (target / "unirail").resolve(), name
        out = run([target / name], env={"CNI_COMMAND": "VERSION", "CNI_PATH": "x"}, input="{}").stdout
        assert "1.1.0" in json.loads(out)["supportedVersions"]
    again = unirail("install", target)
    assert again.returncode == 0, again.stderr


def test_install_replaces_a_plugin_on_request_and_uninstall_restores_it(tmp_path):
    target = tmp_path / "bin"
    target.mkdir()
    (target / "macvlan").write_text("somebody else's\n")
    p = unirail("install", target)
    assert p.returncode != 0 and "macvlan" in p.stderr
    assert (target / "macvlan").read_text() == "somebody else's\n"
    p = unirail("install", "--replace", target)
    assert p.returncode == 0 and (target / "macvlan").is_symlink(), p.stderr
    p = unirail("install", "--uninstall", target)
    assert p.returncode == 0, p.stderr
    assert (target / "macvlan").read_text() == "somebody else's\n"
    assert not (target / "unirail").exists() and not (target / "coordinator").exists()


def test_dry_run_of_install_changes_nothing(tmp_path):
    p = unirail("install", "--dry-run", tmp_path)
    assert p.returncode == 0 and "coordinator" in p.stdout and list(tmp_path.iterdir()) == []


# --- help, version, completion, man pages and some errors ---


def applets():
    out = unirail("--help").stdout
    return [a for a in ("unirail-cni", "macvlan", "coordinator", "spiderpool", "host-local", "static", "demo", "pool",
                        "install", "version", "help", "man", "completion") if a in out]


def test_install_creates_missing_cni_directories(tmp_path):
    """`unirail install` creates the directories. Its message names the file that unirail will write when the cluster's network has a
    CNI configuration."""
    net_d = tmp_path / "etc/cni/net.d"
    p = unirail("install", "--cni-conf-dir", net_d, "--socket", "/run/x.sock", tmp_path / "opt/cni/bin")
    assert p.returncode == 0 and (tmp_path / "opt/cni/bin/unirail-cni").is_symlink() and list(net_d.iterdir()) == []
    assert p.stderr == (f"unirail install: '{net_d}' has no CNI configuration of the cluster's network: '0-unirail.conflist' is written "
                        "as soon as there is one\n")


def test_unirail_help_with_a_command_prints_the_same_as_option_help_of_the_command():
    assert len(applets()) == 13
    for name in ("demo", "pool", "install", "version", "completion", "man"):
        p = unirail(name, "--help")
        assert p.returncode == 0 and p.stderr == "" and name in p.stdout
        assert unirail("help", name).stdout == p.stdout


def test_unknown_command_is_refused_with_a_suggestion():
    p = unirail("dmeo")
    assert p.returncode == 127 and p.stderr.count("\n") == 1 and "demo" in p.stderr


def test_version_is_printed():
    p = unirail("version")
    assert p.returncode == 0 and p.stdout.startswith("unirail ")


def test_pool_list_without_permission_reports_the_remedy(tmp_path):
    p = run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", BINARY, "pool", "list",
             "--pool-dir", "/nowhere", "--state-dir", tmp_path / "state"], check=False)
    assert p.returncode == 1 and "Permission denied (EACCES): run as root, or set" in p.stderr and p.stderr.count("\n") == 1


def test_full_disk_at_stdout_is_reported(tmp_path):
    (tmp_path / "a.conf").write_text("[pool a]\nsubnet = 10.0.0.0/24\n")
    for args in (["version"], ["pool", "list", "--pool-dir", tmp_path, "--state-dir", tmp_path / "state"]):
        with open("/dev/full", "w") as full:
            p = subprocess.run([BINARY, *args], stdout=full, stderr=subprocess.PIPE, text=True)
        assert p.returncode == 1 and "write to stdout" in p.stderr and p.stderr.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell, tmp_path):
    script = unirail("completion", shell).stdout
    assert "demo" in script and "rails" in script
    if shell == "bash":
        f = tmp_path / "c"
        f.write_text(script + '\nCOMP_WORDS=(unirail demo --pl); COMP_CWORD=2\n'
                     'fn=$(complete -p unirail | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $fn\n'
                     'printf "%s\\n" "${COMPREPLY[@]}"\n')
        assert "--plan" in run(["bash", f]).stdout


def test_man_pages_are_printed(tmp_path):
    page = unirail("man", "demo").stdout
    assert page.startswith(".") and "rails" in page


# --- unirail pool, with the state of attached pods ---


@pytest.fixture
def two(lab):
    lab.rail_pools()
    pods = [lab.pod("anna"), lab.pod("bert")]
    for p in pods:
        lab.add(lab.rails(lab.all_networks(coordinator={"mode": "underlay"})), p, ifname="eth0")
    lab.running = pods
    return lab


def test_pools_and_addresses_are_listed(two):
    text = two.pool("list").stdout
    assert "rail0" in text and "rail1" in text
    text = two.pool("show", "rail0").stdout
    for word in ("172.16.1.10", "172.16.1.11", "anna", "bert", "net1"):
        assert word in text


def test_pool_show_prints_records_as_json(two):
    used = two.used()
    assert len(used) == 6
    r = used["172.16.1.10"]
    assert (r["pool"], r["state"], r["interface"]) == ("rail0", "used", "net1")
    assert (r["namespace"], r["pod"]) == ("team", "anna")


def test_address_is_released_after_confirmation(two):
    p = two.pool("release", "172.16.1.10", check=False)
    assert "172.16.1.10" in two.used() and "--yes" in p.stderr  # not confirmed: not released
    assert two.pool("release", "--yes", "172.16.1.10").returncode == 0
    assert "172.16.1.10" not in two.used()
    p = two.pool("release", "--yes", "172.16.1.99", check=False)
    assert p.returncode == 1 and "172.16.1.99" in p.stderr and p.stderr.count("\n") == 1


def test_pool_check_succeeds_on_an_intact_store(two):
    p = two.pool("check", check=False)
    assert p.returncode == 0, p.stdout + p.stderr


def test_pool_show_refuses_an_unknown_pool(two):
    p = two.pool("show", "nope", check=False)
    assert p.returncode != 0 and "nope" in p.stderr and p.stderr.count("\n") == 1


# --- device list ---


def test_devices_of_a_recorded_host_are_listed(tmp_path):
    top = tmp_path / "host"
    assert unirail("doctor", "--root", "tests/hosts/mlx5_switchdev.tree", "--unpack", top).returncode == 0
    records = top / "var/lib/cni/ib-sriov"
    records.mkdir(parents=True)
    (records / "c1-net1").write_text(json.dumps({"deviceID": "0000:81:00.5", "name": "n", "unirail": {
        "container": "c1", "ifname": "net1", "netns": "/proc/self/ns/net", "pod": "team/p"}}))
    listed = {f["address"]: f for f in json.loads(unirail("device", "list", "--root", top, "-o", "json").stdout)}
    pf, vf = listed["0000:81:00.0"], listed["0000:81:00.5"]
    assert (pf["role"], pf["numVfs"], pf["totalVfs"], [d["name"] for d in pf["netdevs"]]) == ("pf", 4, 8, ["ens2f0np0"])
    assert pf["rdma"][0]["ports"][0]["gids"][-1] == {
        "index": 10, "gid": "0000:0000:0000:0000:0000:ffff:ac10:0102", "type": "RoCE v2", "netdev": "ens2f0np0"}
    assert (vf["pf"], vf["vf"], vf["representor"], vf["inOtherNetns"], vf["pod"]) == ("0000:81:00.0", 3, "ens2f0_3", True, "team/p")
    assert any(line.split()[:3] == ["0000:81:00.5", "VF", "3"] and line.endswith("team/p")
               for line in unirail("device", "list", "--root", top).stdout.splitlines())
    missing = unirail("device", "list", "--root", tmp_path / "none")
    assert missing.returncode == 1 and "No such file or directory (ENOENT)" in missing.stderr and missing.stdout == ""


def test_device_plan_prints_a_configuration_that_device_explain_reads(tmp_path):
    top, plan_file = tmp_path / "host", tmp_path / "kept.json"
    assert unirail("doctor", "--root", "tests/hosts/eight_named.tree", "--unpack", top).returncode == 0
    plan_file.write_text(unirail("device", "plan", "--root", top).stdout)
    assert [r["resourceName"] for r in json.loads(plan_file.read_text())["configList"]][:8] == [f"shared_rail{i}" for i in range(8)]
    without = json.loads(unirail("device", "explain", "--root", top, "-o", "json").stdout)
    assert json.loads(unirail("device", "explain", "--root", top, "-o", "json", plan_file).stdout) == without
    rail = next(d for d in without["devices"] if d["netdev"] == "rail3")
    assert rail["resources"] == ["spidernet.io/shared_rail3"] and len(rail["others"]) == 8
    assert rail["others"][0] == {"resource": "spidernet.io/shared_rail0", "selector": "ifNames",
                                 "reason": "ifNames requires rail0, the device has rail3"}
    bad = tmp_path / "bad.json"
    bad.write_text('{"resourceList": [{"resourceName": "a", "selectors": {"vendor": ["15b3"], "pfNames": ["rail0"]}}]}')
    explained = unirail("device", "explain", "--root", top, bad)
    assert explained.returncode == 0 and "did you mean 'vendors'?" in explained.stdout
    assert "no devices in device pool" in explained.stdout
    bad.write_text('{"resourceList": [')
    explained = unirail("device", "explain", "--root", top, bad)
    assert explained.returncode == 1 and "error: " in explained.stdout and "unexpected end of JSON input" in explained.stdout
