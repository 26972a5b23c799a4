# SPDX-License-Identifier: Apache-2.0
"""`unirail doctor` as a process: exit status, options, snapshots, root directories other than /, and some findings. tests/unit and
tests/vm test the other findings."""
import json
import os
import pathlib
import stat
import subprocess

import pytest
from lab import BINARY

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "hosts"


def doctor(*args):
    return subprocess.run([BINARY, "doctor", *args], capture_output=True, text=True, timeout=60)


@pytest.fixture
def paths(tmp_path):
    """Options that name temporary directories instead of this machine's default directories."""
    return ["--cni-bin", str(tmp_path / "bin"), "--cni-conf", str(tmp_path / "conf"), "--pool-dir",
            str(tmp_path / "pools"), "--state-dir", str(tmp_path / "state")]


def leftovers():
    return [n for n in os.listdir("/tmp") if n.startswith("unirail-doctor.")]


def test_faults_of_a_recorded_host_are_found():
    tree = str(HOSTS / "vm_ailing.tree")
    p = doctor("--root", tree, "-o", "json")
    outcome = json.loads(p.stdout)
    assert p.returncode == 1 and p.stderr == "" and not outcome["ok"]
    assert (outcome["kernel"], outcome["rdmaMode"], outcome["rdmaDevices"], outcome["pfs"], outcome["vfs"]) == (
        "6.12.95+deb12-amd64", "shared", 3, 2, 2)
    assert {f["check"] for f in outcome["findings"]} >= {"rdma-ports", "vf-pfs", "pools", "leftover-links"}
    text = doctor("--root", tree)
    assert text.returncode == 1
    for f in outcome["findings"]:
        assert f"{f['level']:7}  {f['subject']}: {f['what']}: {f['remedy']}\n" in text.stdout
    assert leftovers() == []


def test_snapshot_can_be_unpacked_and_checked(tmp_path):
    tree = str(HOSTS / "vm_ailing.tree")
    p = doctor("--root", tree, "--unpack", str(tmp_path / "host"))
    assert p.returncode == 0, p.stderr
    assert doctor("--root", str(tmp_path / "host")).stdout == doctor("--root", tree).stdout
    assert (tmp_path / "host/proc/sys/kernel/osrelease").read_text() == "6.12.95+deb12-amd64\n"
    again = doctor("--root", tree, "--unpack", str(tmp_path / "host"))
    assert again.returncode == 1 and "File exists (EEXIST)" in again.stderr


def test_snapshot_of_this_host_is_taken(tmp_path, paths):
    file = tmp_path / "me.tree"
    p = doctor("--snapshot", str(file))
    assert p.returncode == 0 and p.stderr == "" and "but no secrets" in p.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"/proc/sys/kernel/osrelease = {os.uname().release}\n" in file.read_text()
    here, there = (json.loads(doctor(*paths, "-o", "json", *more).stdout) for more in ([], ["--root", str(file)]))
    assert here == there


def test_snapshot_contains_no_secret(tmp_path):
    """doctor runs in a mount namespace whose /etc has only test files."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "10-a.conflist").write_text('{"plugins": [{"type": "a", "apiToken": "hunter2"}]}')
    (conf / "b.kubeconfig").write_text("token: hunter2\n")
    (conf / "c.conf").write_text('{"password": "hunter2"')
    (conf / "multus.d").mkdir()
    (conf / "multus.d" / "x.conf").write_text('{"a": "hunter2"}')
    script = (f"mount -t tmpfs etc /etc && mkdir /etc/cni && cp -r {conf} /etc/cni/net.d && "
              f"{BINARY} doctor --snapshot {tmp_path}/x.tree")
    subprocess.run(["unshare", "-m", "sh", "-c", script], check=True, timeout=60, capture_output=True)
    text = (tmp_path / "x.tree").read_text()
    assert "hunter2" not in text and "apiToken" in text
    assert "# /etc/cni/net.d/c.conf: left out: no JSON\n" in text


def findings(*args):
    p = doctor(*args, "-o", "json")
    assert p.stderr == "", p.stderr
    return json.loads(p.stdout)["findings"]


def conf_file(folder, plugins, name="10-rails.conflist"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"cniVersion": "1.0.0", "name": "rails", "plugins": plugins}))
    return str(folder / name)


def test_text_and_json_list_name_the_same_checks():
    p = doctor("--list")
    names = [line.split()[0] for line in p.stdout.splitlines()]
    assert p.returncode == 0 and {"cni-conf", "cni-masters", "pools"} <= set(names)
    rows = json.loads(doctor("--list", "-o", "json").stdout)
    assert [r["check"] for r in rows] == names and all(r["description"] in p.stdout for r in rows)


def test_missing_master_is_reported(tmp_path, paths):
    """doctor reports the missing master of a plugin in a list, and of a network of unirail-cni, but no master that exists or is in a
    pod."""
    inner = {"name": "rail0", "plugins": [{"type": "macvlan", "master": "lo0"}]}
    file = conf_file(tmp_path / "conf", [
        {"type": "unirail-cni", "networks": [inner]}, {"type": "vlan", "master": "nosuch", "vlanId": 1},
        {"type": "macvlan", "master": "lo"}, {"type": "macvlan", "master": "inpod", "linkInContainer": True},
        {"type": "bridge", "master": "other"}])
    found = [(f["subject"], f["what"], f["remedy"]) for f in findings(*paths) if f["check"] == "cni-masters"]
    assert [f[:2] for f in found] == [(file, "master 'lo0' of plugin 'macvlan' is not a link of this host"),
                                      (file, "master 'nosuch' of plugin 'vlan' is not a link of this host")]
    assert found[0][2].startswith("did you mean 'lo'?")


def test_missing_pools_are_reported_if_a_configuration_allocates_from_them(tmp_path, paths):
    spiderpool = {"type": "macvlan", "master": "lo", "ipam": {"type": "spiderpool"}}
    file = conf_file(tmp_path / "conf", [spiderpool])
    what = f"there are no pools, but '{file}' allocates from them"
    where = (str(tmp_path / "pools"), what)
    assert where in [(f["subject"], f["what"]) for f in findings(*paths)]
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "a.conf").write_text("[pool a]\nsubnet = 172.16.1.0/24\n")
    assert what not in [f["what"] for f in findings(*paths)]
    (tmp_path / "pools" / "a.conf").unlink()
    spiderpool["ipam"]["ipam_unix_socket_path"] = "/var/run/spidernet/spiderpool.sock"
    conf_file(tmp_path / "conf", [spiderpool])
    assert what not in [f["what"] for f in findings(*paths)]


def test_skipped_checks_are_reported_with_their_reason(tmp_path):
    """doctor runs as a user without permission to read configurations and addresses."""
    conf_file(tmp_path / "conf", [{"type": "a"}])
    for name in ("bin", "pools", "state"):
        (tmp_path / name).mkdir()
    script = "set -e; mount -t tmpfs t /mnt; cp {b} /mnt/unirail; cp -r {t}/* /mnt; chmod 0 /mnt/*/; chmod 755 /mnt; " \
             "exec setpriv --reuid 65534 --clear-groups /mnt/unirail doctor --cni-bin /mnt/bin --cni-conf /mnt/conf " \
             "--pool-dir /mnt/pools --state-dir /mnt/state/ipam".format(b=BINARY, t=tmp_path)
    p = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p
    for name in ("bin", "conf", "pools", "state/ipam"):
        assert f"skipped  /mnt/{name}: Permission denied (EACCES): run as root\n" in p.stdout, p.stdout
    assert p.stdout.endswith("problems, 0 notes, 4 skipped\n")


@pytest.mark.parametrize("args, status, says", [
    (["--snapshot", "x", "--root", "/tmp"], 2, "--snapshot describes this host"),
    (["--unpack", "x"], 2, "--unpack needs --root with the file of a snapshot"),
    (["--root", "/nonexistent"], 1, "open snapshot '/nonexistent': No such file or directory (ENOENT)"),
    (["--snapshot", "/nonexistent/x"], 1, "write snapshot"),
    (["--root", __file__], 1, "test_doctor.py:2: expected an absolute path"),
    (["what"], 2, "'what'"),
])
def test_invalid_arguments_of_doctor_give_one_error_line(args, status, says):
    p = doctor(*args)
    assert p.returncode == status and says in p.stderr and p.stdout == "" and p.stderr.count("\n") == 1
    assert leftovers() == []


def test_fix_prints_the_repair_commands_of_a_snapshot(tmp_path):
    tree = (HOSTS / "vm_ailing.tree").read_text()
    (tmp_path / "h.tree").write_text(tree + "/etc/unirail/host.conf :\n\t[sysctl]\n\tnet.ipv4.conf.ra.rp_filter = 2\n")
    p = doctor("--root", str(tmp_path / "h.tree"), "--fix")
    assert "unirail host apply sysctl\n" in p.stdout and "unirail host rdma-mode exclusive\n" in p.stdout
    assert "sysctl -w" in p.stdout or "net.ipv4.conf.ra.rp_filter" in p.stdout
    assert p.returncode == 1 and leftovers() == []


def test_invalid_combinations_of_options_of_doctor_are_refused():
    for args, text in ((["--dry-run"], "--dry-run needs --fix"), (["--fix", "-o", "json"], "use it without"),
                       (["--with", "x"], "--with needs --would-run")):
        p = doctor(*args)
        assert p.returncode == 2 and p.stdout == "" and text in p.stderr


def test_node_object_is_part_of_a_snapshot(tmp_path):
    (tmp_path / "node.json").write_text(json.dumps({"kind": "Node", "metadata": {"name": "n1", "labels": {
        "network.nvidia.com/operator.mofed.wait": "true"}, "annotations": {"some-token": "hunter2"}}}))
    p = doctor("--snapshot", str(tmp_path / "me.tree"), "--node-file", str(tmp_path / "node.json"))
    assert p.returncode == 0, p.stderr
    assert "hunter2" not in (tmp_path / "me.tree").read_text()
    found = json.loads(doctor("--root", str(tmp_path / "me.tree"), "-o", "json").stdout)["findings"]
    assert [f["subject"] for f in found if f["check"] == "node-drivers"] == ["network.nvidia.com/operator.mofed.wait"]
    (tmp_path / "node.json").write_text(json.dumps({"kind": "Pod", "metadata": {"name": "n1"}}))
    p = doctor("--snapshot", str(tmp_path / "no.tree"), "--node-file", str(tmp_path / "node.json"))
    assert p.returncode == 1 and "is not one object of kind Node" in p.stderr and not (tmp_path / "no.tree").exists()
