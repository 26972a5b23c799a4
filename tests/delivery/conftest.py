# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a separate containerd and dockerd for this test run, and the programs from which images are made. If a program that the tests
need is missing, pytest ends with an error; no test is skipped."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests" / "netns"))
from report import follow, pytest_runtest_logstart, pytest_runtest_makereport, wait_started  # noqa: E402,F401

BINARY = pathlib.Path(os.environ.get("UNIRAIL", TOP / "build" / "unirail")).resolve()
TOOLS = ("containerd", "ctr", "skopeo", "runc", "dpkg-deb", "lintian", "tar", "sha256sum", "mount", "unshare", "groff",
         "systemd-analyze")
CONTAINERD = """
version = 2
root = "{0}/root"
state = "{0}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{0}/containerd.sock"
[ttrpc]
  address = "{0}/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{0}/opt"
"""


def pytest_sessionstart(session):
    problems = ["not root"] if os.geteuid() != 0 else []
    if not BINARY.exists():
        problems.append(f"{BINARY} is missing (make, or UNIRAIL=path)")
    problems += [f"{tool} is missing" for tool in TOOLS if not shutil.which(tool)]
    if problems:
        pytest.exit("these tests cannot run: " + "; ".join(problems), 1)


def run(*args, check=True, **kw):
    p = subprocess.run([str(a) for a in args], text=True, capture_output=True, timeout=300, **kw)
    assert not check or p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
    return p


class Containerd:
    def __init__(self, folder, size=None):
        """Starts a containerd. size: the size of a tmpfs for its images; without size the images are in `folder`."""
        self.folder = folder
        self.socket = folder / "containerd.sock"
        (folder / "config.toml").write_text(CONTAINERD.format(folder))
        mount = f"mount -t tmpfs -o size={size} none {folder}/root;" if size else ""
        follow("containerd", folder / "log")
        with open(folder / "log", "w") as log:
            # The mounts of this containerd end with its process.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                 "sh", "-ec", f"mkdir -p {folder}/root; {mount} exec containerd --config {folder}/config.toml"],
                stdout=log, stderr=log)
        wait_started(self.process, lambda: self.ctr("version", check=False).returncode == 0, "containerd answers", folder / "log", 60)

    def ctr(self, *args, check=True):
        return run("ctr", "--address", self.socket, "--namespace", "k8s.io", *args, check=check)

    def images(self):
        return sorted(self.ctr("images", "list", "--quiet").stdout.split())

    def clear(self):
        for name in self.images():
            self.ctr("images", "remove", "--sync", name)

    def close(self):
        self.process.kill()  # unshare ignores SIGTERM
        self.process.wait()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    # The directory has a short name, because the path of a Unix socket has at most 107 bytes.
    folder = pathlib.Path(tmp_path_factory.mktemp("c"))
    one = Containerd(folder)
    yield one
    one.close()


@pytest.fixture
def containerd(daemon):
    yield daemon
    daemon.clear()


class Dockerd:
    """The dockerd that fetch-docker provides, without a network, and with storage driver vfs, which requires no feature of the kernel."""

    def __init__(self, folder):
        there = pathlib.Path(run(pathlib.Path(__file__).parent / "fetch-docker").stdout.strip())
        self.env = {"PATH": f"{there}/usr/sbin:{there}/usr/bin:{os.environ['PATH']}", "DOCKER_HOST": f"unix://{folder}/sock",
                    "LD_LIBRARY_PATH": ":".join(map(str, (there / "lib").iterdir())), "HOME": str(folder)}
        (folder / "daemon.json").write_text("{}")
        follow("dockerd", folder / "log")
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc",
                 "sh", "-ec", "mount -t tmpfs tmpfs /run; exec dockerd --config-file $HOME/daemon.json --data-root $HOME/root "
                 "--host $DOCKER_HOST --storage-driver vfs --bridge none --iptables=false"], stdout=log, stderr=log, env=self.env)
        wait_started(self.process, lambda: self.docker("version", check=False).returncode == 0, "dockerd answers", folder / "log", 60)

    def docker(self, *args, check=True):
        return run("docker", *args, check=check, env=self.env)

    def images(self):
        return sorted(self.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split())

    def clear(self):
        for name in self.images():
            self.docker("image", "rm", name)

    def close(self):
        self.process.kill()  # unshare ignores SIGTERM
        self.process.wait()


@pytest.fixture(scope="session")
def docker_daemon(tmp_path_factory):
    one = Dockerd(pathlib.Path(tmp_path_factory.mktemp("d")))
    yield one
    one.close()


@pytest.fixture
def dockerd(docker_daemon):
    yield docker_daemon
    docker_daemon.clear()


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """A program for each architecture: the program for this machine can be run; the program for the other architecture is a copy with
    that architecture's e_machine in the ELF header."""
    folder = tmp_path_factory.mktemp("programs")
    data = bytearray(BINARY.read_bytes())
    made = {}
    for arch, machine in (("amd64", 62), ("arm64", 183)):
        data[18:20] = machine.to_bytes(2, "little")
        made[arch] = folder / arch
        made[arch].write_bytes(data)
    return made


@pytest.fixture(scope="session")
def sboms(programs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sboms")
    for arch, program in programs.items():
        (folder / arch).write_text(run(TOP / "tools/sbom", program, arch, "12.2.0",
                                       env=os.environ | {"VERSION": "1.2.3", "SOURCE_DATE_EPOCH": "86400"}).stdout)
    return {arch: folder / arch for arch in programs}


def blobs(archive):
    """{name: content} of an archive's files; asserts that the digest of each file in blobs/ is its name."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + hashlib.sha256(data).hexdigest()
    return files


def loads(files, descriptor):
    data = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert len(data) == descriptor["size"]
    return json.loads(data)
