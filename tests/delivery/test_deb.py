# SPDX-License-Identifier: Apache-2.0
"""make deb: the package as lintian, dpkg and systemd see it, and installed on a new Debian 12."""
import hashlib
import os
import shutil
import subprocess

import pytest
from conftest import BINARY, TOP, run

UNITS = ("unirail-host.service", "unirail-ipam.service")


def make(folder, **env):
    libdir = run("make", "-s", "libs", cwd=TOP).stdout.split()[-1]
    version = run(TOP / "tools/release").stdout.strip()
    return run(TOP / "tools/deb", BINARY, libdir, os.uname().machine, folder, cwd=TOP, env=os.environ | {
        "VERSION": version, "COMMIT": "0123456789ab", "CROSS": "", "RUN": "", "CONFIGS": "configs deploy",
        "MAINTAINER": "A & B Builder/Team <builder@unirail.io>"} | env).stdout.strip()


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    return make(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="session")
def unpacked(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "-R", deb, folder)
    return folder


def test_lintian_reports_nothing(deb):
    p = run("lintian", "--allow-root", "--fail-on=error,warning", deb, check=False)
    assert p.returncode == 0 and p.stdout == "", p.stdout + p.stderr


def test_two_builds_of_the_package_are_identical(deb, tmp_path):
    again = make(tmp_path, TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
    assert hashlib.sha256(open(again, "rb").read()).digest() == hashlib.sha256(open(deb, "rb").read()).digest()


def test_release_candidate_sorts_before_its_release(tmp_path):
    path = make(tmp_path, VERSION="1.2.3-rc.1")
    version = run("dpkg-deb", "--field", path, "Version").stdout.strip()
    assert version == "1.2.3~rc.1"
    run("dpkg", "--compare-versions", version, "lt", "1.2.3")


def test_maintainer_comes_from_the_environment_and_needs_a_name_and_an_address(tmp_path):
    def field(**env):
        return run("dpkg-deb", "--field", make(tmp_path, **env), "Maintainer").stdout.strip()

    assert field() == "A & B Builder/Team <builder@unirail.io>"
    assert field(MAINTAINER="", DEBFULLNAME="Ann Other", DEBEMAIL="ann@unirail.io") == "Ann Other <ann@unirail.io>"
    for name, mail in (("", "ann@unirail.io"), ("Ann", ""), ("Ann", "ann"), ("Ann", "a b@unirail.io")):
        with pytest.raises(AssertionError, match="expected 'Name <address>': set MAINTAINER, or DEBFULLNAME and DEBEMAIL"):
            make(tmp_path, MAINTAINER="", DEBFULLNAME=name, DEBEMAIL=mail, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                 GIT_CONFIG_COUNT="2", GIT_CONFIG_KEY_0="user.name", GIT_CONFIG_VALUE_0="", GIT_CONFIG_KEY_1="user.email",
                 GIT_CONFIG_VALUE_1="")


def test_package_contains_the_program_and_man_pages_and_licences(unpacked):
    share = unpacked / "usr/share"
    assert (unpacked / "usr/bin/unirail").read_bytes() == BINARY.read_bytes()
    run(BINARY, "man", "--all", unpacked.parent)
    pages = {p.name + ".gz" for p in unpacked.parent.glob("*.1")}
    assert pages and {p.name for p in (share / "man/man1").iterdir()} == pages
    for path in ("bash-completion/completions/unirail", "zsh/vendor-completions/_unirail", "doc/unirail/NEWS.md",
                 "fish/vendor_completions.d/unirail.fish", "doc/unirail/sbom.spdx.json", "doc/unirail/examples/deploy/agent.yaml",
                 "doc/unirail/examples/configs/host.conf"):
        assert (share / path).is_file(), path
    copyright = (share / "doc/unirail/copyright").read_text()
    for part in ("musl", "libnl", "mbedtls", "rdma-core", "libgcc"):
        assert part in copyright
    assert not list(unpacked.glob("etc*")) and not list(unpacked.glob("var*"))


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_valid_and_name_commands_that_exist(unpacked, unit, tmp_path):
    text = (unpacked / "usr/lib/systemd/system" / unit).read_text()
    command = next(line for line in text.splitlines() if line.startswith("ExecStart=")).partition("=")[2].split()
    assert command[0] == "/usr/bin/unirail"
    run(BINARY, *command[1:], "--help")
    assert "Before=kubelet.service" in text and "WantedBy=multi-user.target" in text
    # The program and the man page are not installed here.
    (tmp_path / unit).write_text(text.replace("/usr/bin/unirail", str(BINARY)).replace("Documentation=", "X-Documentation="))
    p = run("systemd-analyze", "verify", "--man=no", tmp_path / unit, check=False)
    assert unit not in p.stderr, p.stderr


def test_package_is_installed_upgraded_and_purged_on_a_new_debian(deb):
    """The package enables no service; a purge disables a service that a user enabled."""
    wants = "/etc/systemd/system/multi-user.target.wants"
    p = run(TOP / "tools/fresh", "--file", deb, "bookworm", "cd /root", "dpkg -i unirail_*.deb", "unirail version | head -n 1",
            "test -e /usr/share/bash-completion/completions/unirail", f"test ! -e {wants}/unirail-host.service",
            f"test ! -e {wants}/unirail-ipam.service", "unirail host plan", "mkdir -p /opt/cni/bin && unirail install /opt/cni/bin",
            # as `systemctl enable` does
            f"mkdir -p {wants} && ln -s /lib/systemd/system/unirail-host.service {wants}/", f"test -e {wants}/unirail-host.service",
            "mkdir -p /var/lib/unirail && echo x >/var/lib/unirail/x", "dpkg -i unirail_*.deb", f"test -e {wants}/unirail-host.service",
            "dpkg -r unirail", "test ! -e /usr/bin/unirail", "dpkg -P unirail",
            "test -e /var/lib/unirail/x -a -e /opt/cni/bin/unirail",
            "find / -xdev -name '*unirail*' ! -path '/root/*' ! -path '/var/lib/unirail' ! -path '/opt/*' ! -path '/proc/*' >left",
            "cat left", "test ! -s left", check=False)
    assert p.returncode == 0, p.stdout[-3000:] + p.stderr[-3000:]
    assert f"unirail {run(TOP / 'tools/release').stdout.strip()}" in p.stdout


def test_missing_dpkg_deb_is_reported(tmp_path):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for tool in ("dirname", "env", "bash"):
        (bin_ / tool).symlink_to(shutil.which(tool))
    p = subprocess.run([TOP / "tools/deb", BINARY, "/", "x86_64", tmp_path], capture_output=True, text=True, env={"PATH": str(bin_)})
    assert p.returncode == 1 and p.stderr == "tools/deb: dpkg-deb is missing: install dpkg\n"
