# SPDX-License-Identifier: Apache-2.0
"""The first build from the source tree: libraries, packages, the last lines of `make test`, the build context of the image."""
import os
import shutil
import signal
import subprocess

import pytest
from lab import TOP, run
from report import wait


def caches():
    return os.environ.get("UNIRAIL_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "unirail")


def test_build_of_libraries_without_a_network_names_the_remedy(tmp_path):
    """The build downloads all sources before it builds the first library."""
    p = run(["unshare", "-n", TOP / "vendor/build", "x86_64", "musl"], check=False,
            env={**os.environ, "UNIRAIL_CACHE": str(tmp_path)})
    last = p.stderr.splitlines()[-1]
    assert p.returncode == 1 and p.stdout == "" and "[1/" not in p.stderr
    assert "requires a network" in last and "UNIRAIL_DEBIAN" in last and str(tmp_path / "src") in last


def test_build_of_libraries_prints_progress(tmp_path):
    (tmp_path / "src").symlink_to(os.path.join(caches(), "src"))
    log = tmp_path / "log"
    with open(log, "w") as f:
        p = subprocess.Popen([TOP / "vendor/build", "x86_64", "musl"], stdout=subprocess.DEVNULL, stderr=f,
                             env={**os.environ, "UNIRAIL_CACHE": str(tmp_path)}, start_new_session=True)
    try:
        wait(lambda: "[1/11] musl 1." in log.read_text(), "the build of the first library begins", 60)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    assert "11 libraries" in log.read_text() and "minutes" in log.read_text()


def test_tools_need_lists_the_packages_of_the_given_groups():
    names = run([TOP / "tools/need", "--list", "build", "check", "test"]).stdout.split()
    assert len(names) == len(set(names)) and {"gcc", "python3-pytest", "python3-yaml", "clang-format-14"} <= set(names)


def test_missing_packages_are_reported_to_a_user_without_root():
    """PATH has only the shell, env and the programs that tools/need calls, and the user is not root."""
    script = """set -e
        mount -t tmpfs tmpfs /mnt && mkdir /mnt/bin && chmod 755 /mnt /mnt/bin
        for f in sh env grep id cat; do cp "$(command -v $f)" /mnt/bin; done
        exec setpriv --reuid 65534 --regid 65534 --clear-groups env PATH=/mnt/bin sh -s cluster"""
    p = run(["unshare", "-m", "sh", "-c", script], stdin=open(TOP / "tools/need"), check=False)
    assert p.returncode == 1 and p.stderr.count("\n") == 1, p.stderr
    assert "as root: apt-get install dpkg-dev" in p.stderr


PARTS = """#!/bin/sh
case $* in
*check*) echo '  ok     something'; echo '7 passed, %(unit)d failed'; exit %(unit)d ;;
*test-fault*) echo '500 schedules of 9 steps in 1 s, seeds 1 to 500: 0 failed'
	echo '90 points in 1 s, %(fault)d failed; 8 error texts do not name the errno'; exit %(fault)d ;;
*netns*) echo '= %(netns)d failed, 4 passed in 1.25s ='; exit %(netns)d ;;
esac
"""


@pytest.mark.parametrize("part", [None, "unit", "netns", "fault"])
def test_make_test_ends_with_a_line_for_each_part(tmp_path, part):
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "tools/test", tmp_path / "tools")
    failed = {name: int(name == part) for name in ("unit", "netns", "fault")}
    for name in ("make", "tools/pytest"):
        (tmp_path / name).write_text(PARTS % failed)
        (tmp_path / name).chmod(0o755)
    p = run([tmp_path / "tools/test"], check=False, env={**os.environ, "MAKE": str(tmp_path / "make")})
    assert p.returncode == (1 if part else 0) and p.stderr == ""
    assert p.stdout.splitlines()[-4:] == [
        f"unit:  7 passed, {failed['unit']} failed", f"netns: 4 passed, {failed['netns']} failed",
        f"fault: {590 - failed['fault']} passed, {failed['fault']} failed",
        f"{601 - failed['fault']} passed, {int(bool(part))} failed"]


def test_make_test_counts_a_part_that_ran_nothing_as_failed(tmp_path):
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "tools/test", tmp_path / "tools")
    (tmp_path / "tools/pytest").write_text("#!/bin/sh\n")
    (tmp_path / "tools/pytest").chmod(0o755)
    p = run([tmp_path / "tools/test"], check=False, env={**os.environ, "MAKE": "/bin/false"})
    assert p.returncode == 1 and p.stdout.splitlines()[-1] == "0 passed, 3 failed"


def test_build_context_of_the_image_has_only_the_binary():
    """Docker's rules: the last matching pattern decides, and `!` includes a file again."""
    lines = [k for k in (TOP / ".dockerignore").read_text().splitlines() if k and not k.startswith("#")]
    copied = [k.split()[1] for k in (TOP / "images/Dockerfile").read_text().splitlines() if k.startswith("COPY")]
    assert lines[0] == "*" and all("!" + name in lines for name in copied)
    assert all(k.startswith("!build/") and k.endswith("unirail") for k in lines[1:])
