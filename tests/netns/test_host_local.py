# SPDX-License-Identifier: Apache-2.0
"""host-local: results and state files equal those of Debian's plugin, and each plugin uses the files of the other."""
import json
import pathlib
import subprocess

import pytest
from lab import REFERENCE, age, cni_env, filled, small_disk

RANGES = [[{"subnet": "10.7.0.0/29"}], [{"subnet": "fd07::/120", "rangeStart": "fd07::10"}]]


class Store:
    """A data directory and the plugin that uses it."""

    def __init__(self, folder, where, **ipam):
        self.folder, self.where = folder, where
        self.ipam = {"type": "host-local", "dataDir": str(folder), "ranges": RANGES, **ipam}

    def call(self, command, container, ifname="net1", args=None, version="0.4.0", **more):
        conf = {"cniVersion": version, "name": "rails", "type": "macvlan", "ipam": self.ipam, **more}
        return subprocess.run([str(self.where / "host-local")], input=json.dumps(conf), text=True,
                              capture_output=True, timeout=30,
                              env=cni_env(command, container, "/nonexistent", ifname, args, self.where))

    def files(self):
        out = {}
        for p in sorted((self.folder / "rails").glob("*")):
            out[p.name] = p.read_bytes()
        return out


@pytest.fixture
def stores(tmp_path, plugins):
    return Store(tmp_path / "candidate", plugins), Store(tmp_path / "reference", REFERENCE)


SCRIPT = [
    ("ADD", "c1", "net1", None), ("ADD", "c1", "net2", None), ("ADD", "c2", "net1", None),
    ("ADD", "c2", "net1", None),  # the second ADD fails
    ("DEL", "c1", "net1", None), ("DEL", "c1", "net1", None),  # the second DEL succeeds
    ("ADD", "c3", "net1", None), ("ADD", "c4", "net1", "IP=10.7.0.6"), ("ADD", "c5", "net1", "IP=10.7.0.1"),
    ("ADD", "c5", "net1", "IP=10.7.0.6"), ("ADD", "c6", "net1", None), ("ADD", "c7", "net1", None),
    ("ADD", "c8", "net1", None), ("CHECK", "c2", "net1", None), ("CHECK", "zz", "net1", None),
    ("DEL", "c6", "net1", None), ("ADD", "c9", "net1", None),
]


def test_results_and_files_equal_debians(stores):
    candidate, reference = stores
    for step in SCRIPT:
        command, container, ifname, args = step
        a, b = (s.call(command, container, ifname, args) for s in (candidate, reference))
        assert a.returncode == b.returncode, (step, a.stdout, b.stdout)
        if a.returncode == 0:
            assert a.stdout == b.stdout, step
        else:
            assert json.loads(a.stdout)["msg"] == json.loads(b.stdout)["msg"], step
        assert candidate.files() == reference.files(), step


@pytest.mark.parametrize("version", ["0.2.0", "0.3.1", "1.0.0"])
def test_result_of_every_cni_version_equals_debians(stores, version):
    a, b = (s.call("ADD", "c1", version=version) for s in stores)
    assert a.returncode == b.returncode == 0, a
    a, b = json.loads(a.stdout), json.loads(b.stdout)
    if version == "1.0.0":
        b.pop("dns")  # Debian's older JSON encoder writes an empty object
    assert a == b


def test_address_of_the_original_is_released_by_unirail(tmp_path, plugins):
    reference, candidate = Store(tmp_path / "d", REFERENCE), Store(tmp_path / "d", plugins)
    for c in ("c1", "c2"):
        assert reference.call("ADD", c).returncode == 0
    assert candidate.call("CHECK", "c1").returncode == 0
    assert candidate.call("DEL", "c1").returncode == 0
    assert "10.7.0.2" not in candidate.files() and "10.7.0.3" in candidate.files()
    assert candidate.call("CHECK", "c1").returncode == 1


def test_address_of_unirail_is_released_by_the_original(tmp_path, plugins):
    reference, candidate = Store(tmp_path / "d", REFERENCE), Store(tmp_path / "d", plugins)
    assert candidate.call("ADD", "c1").returncode == 0
    assert reference.call("CHECK", "c1").returncode == 0
    assert reference.call("DEL", "c1").returncode == 0
    assert set(candidate.files()) <= {"lock", "last_reserved_ip.0", "last_reserved_ip.1"}


def test_each_plugin_allocates_after_the_last_address_of_the_other(tmp_path, plugins):
    reference, candidate = Store(tmp_path / "d", REFERENCE), Store(tmp_path / "d", plugins)
    got = [json.loads(s.call("ADD", f"c{i}").stdout)["ips"][0]["address"]
           for i, s in enumerate((reference, candidate, reference, candidate))]
    assert got == ["10.7.0.2/29", "10.7.0.3/29", "10.7.0.4/29", "10.7.0.5/29"]


def test_address_files_have_mode_0600(tmp_path, plugins):
    candidate = Store(tmp_path / "d", plugins)
    candidate.call("ADD", "c1")
    assert {oct(p.stat().st_mode & 0o777) for p in (tmp_path / "d" / "rails").glob("10.*")} == {"0o600"}


def test_configuration_with_a_single_range_is_accepted(tmp_path, plugins):
    a, b = (Store(tmp_path / n, w) for n, w in (("o", plugins), ("t", REFERENCE)))
    for s in (a, b):
        s.ipam = {"type": "host-local", "dataDir": str(s.folder), "subnet": "10.8.0.0/24",
                  "rangeStart": "10.8.0.100", "rangeEnd": "10.8.0.101", "gateway": "10.8.0.254",
                  "routes": [{"dst": "0.0.0.0/0"}]}
    for c in ("c1", "c2", "c3"):
        x, y = (json.loads(s.call("ADD", c).stdout) for s in (a, b))
        for r in (x, y):
            r.pop("code", None)  # the codes differ: unirail's error for an exhausted range has code 11, so that a runtime may try again
        assert x == y
    assert a.files() == b.files()


def test_dns_is_read_from_resolv_conf(tmp_path, plugins):
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("# a comment\nnameserver 10.0.0.9\ndomain a.b\nsearch c.d e.f\noptions ndots:2\n")
    a, b = (Store(tmp_path / n, w, resolvConf=str(resolv)) for n, w in (("o", plugins), ("t", REFERENCE)))
    assert a.call("ADD", "c1").stdout == b.call("ADD", "c1").stdout


@pytest.mark.parametrize("ipam", [
    {"ranges": []}, {"ranges": [[]]}, {"ranges": [[{"subnet": "10.7.0.1/29"}]]},
    {"ranges": [[{"subnet": "10.7.0.0/32"}]]},
    {"ranges": [[{"subnet": "10.7.0.0/29"}, {"subnet": "fd07::/120"}]]},
    {"ranges": [[{"subnet": "10.7.0.0/29", "rangeStart": "10.9.0.1"}]]},
    {"ranges": [[{"subnet": "10.7.0.0/29"}], [{"subnet": "10.7.0.0/28"}]]},
])
def test_errors_for_invalid_ranges_equal_debians(tmp_path, plugins, ipam):
    candidate, reference = (Store(tmp_path / n, w, **ipam) for n, w in (("o", plugins), ("t", REFERENCE)))
    a, b = candidate.call("ADD", "c1"), reference.call("ADD", "c1")
    assert a.returncode == b.returncode == 1
    assert json.loads(a.stdout)["msg"] == json.loads(b.stdout)["msg"]
    assert not list(pathlib.Path(tmp_path).glob("o/rails/10.*"))


def test_gc_releases_addresses_of_unlisted_attachments(tmp_path, plugins):
    s = Store(tmp_path / "d", plugins)
    for c in ("c1", "c2", "c3"):
        assert s.call("ADD", c, version="1.1.0").returncode == 0
    keep = [{"containerID": "c2", "ifname": "net1"}]
    p = s.call("GC", "c1", version="1.1.0", **{"cni.dev/valid-attachments": keep})
    assert p.returncode == 0, p.stdout
    assert {n for n in s.files() if n.startswith(("10.", "fd07"))} == {"10.7.0.3", "fd07::11"}


def test_del_releases_addresses_on_a_full_disk(tmp_path, plugins):
    """The disk has no byte and no inode left: an ADD fails and leaves nothing, a DEL releases the addresses of its pod."""
    with small_disk(tmp_path / "small") as disk:
        s = Store(disk / "d", plugins)
        for c in ("c1", "c2"):
            assert s.call("ADD", c).returncode == 0
        before = set(s.files())
        with filled(disk):
            p = s.call("ADD", "c3")
            assert p.returncode == 1 and "No space left on device (ENOSPC)" in json.loads(p.stdout)["msg"], p
            assert set(s.files()) == before
            for c in ("c1", "c1", "never"):
                p = s.call("DEL", c)
                assert p.returncode == 0, p
            assert set(s.files()) == before - {"10.7.0.2", "fd07::10"}
        assert s.call("CHECK", "c2").returncode == 0
        assert s.call("ADD", "c3").returncode == 0


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_temporary_files_of_a_killed_add_are_removed(tmp_path, plugins, command):
    s = Store(tmp_path / "d", plugins)
    assert s.call("ADD", "c1").returncode == 0
    folder = s.folder / "rails"
    halves = [folder / n for n in (".10.7.0.5.0123abcd.tmp", ".fd07::15.0123abcd.tmp")]
    others = [folder / n for n in (".note.0123abcd.tmp", "10.7.0.5.tmp", ".10.7.0.5.0123abcd.txt", ".10.7.0.5.tmp")]
    for path in halves + others:
        age(path)
    assert s.call(command, "c2").returncode == 0
    assert [p for p in halves + others if p.exists()] == others
