# SPDX-License-Identifier: Apache-2.0
"""The hook of CDI specifications with a real runc, without a cluster: the memlock limit (RLIMIT_MEMLOCK) also applies in a container
that does not run as root."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from cluster import BINARY, HERE

MEMLOCK = 1 << 20  # in bytes; root may set this limit without CAP_SYS_RESOURCE


@pytest.fixture
def bundle(tmp_path):
    """A busybox container that runs as user 1000 and prints its memlock limit. As with containerd, its configuration sets no limits."""
    node = pathlib.Path(subprocess.run([HERE / "fetch-node"], check=True, capture_output=True, text=True).stdout.strip())
    runc = node / "usr/sbin/runc"
    (tmp_path / "rootfs/bin").mkdir(parents=True)
    shutil.copy(node / "bin/busybox", tmp_path / "rootfs/bin/busybox")
    subprocess.run([runc, "spec", "--bundle", tmp_path], check=True)
    spec = json.loads((tmp_path / "config.json").read_text())
    spec["process"] |= {"terminal": False, "args": ["/bin/busybox", "sh", "-c", "ulimit -l; id -u"],
                        "user": {"uid": 1000, "gid": 1000}}
    del spec["process"]["rlimits"]
    name = f"unirail-hook-{os.getpid()}"

    def run(**hooks):
        (tmp_path / "config.json").write_text(json.dumps({**spec, "hooks": hooks}))
        return subprocess.run([runc, "--root", tmp_path / "state", "run", "--bundle", tmp_path, name], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)

    yield run
    subprocess.run([runc, "--root", tmp_path / "state", "delete", "--force", name], capture_output=True)


def test_container_that_is_not_root_has_the_limit(bundle):
    hook = {"path": str(BINARY), "args": ["unirail", "memlock-hook", str(MEMLOCK)]}
    p = bundle(createRuntime=[hook])
    assert p.returncode == 0, p.stderr
    assert p.stdout.split() == [str(MEMLOCK // 1024), "1000"]
    p = bundle(createRuntime=[{**hook, "args": ["unirail", "memlock-hook", "much"]}])
    assert p.returncode != 0 and "'much' is not a limit" in p.stderr


def test_container_without_the_hook_has_the_runtimes_limit(bundle):
    p = bundle()
    assert p.returncode == 0, p.stderr
    assert p.stdout.split()[0] != str(MEMLOCK // 1024)
