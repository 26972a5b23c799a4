# SPDX-License-Identifier: Apache-2.0
"""make bundle: the content of the bundle, and its loader with containerd, with a fake and a real docker, and in failures."""
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess

import pytest
import yaml
from conftest import BINARY, TOP, Containerd, blobs, run

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
NAME = "docker.io/library/unirail:1.2.3"
# The programs of a minimal node: besides ctr or docker the loader may use no other program.
TOOLS = ("sh", "sha256sum", "sed", "uname", "mktemp", "dirname", "rm", "cat")
# A fake of Docker's client, for the loader: `load` reads the configurations and layers that the archive's manifest.json lists, and adds the
# names of its images to a file.
DOCKER = """#!/usr/bin/python3
import json, os, pathlib, sys, tarfile
names, args = pathlib.Path(os.environ["STATE"]), sys.argv[1:]
if os.environ.get("DOWN"):
    sys.exit("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
there = names.read_text().split() if names.exists() else []
if args[:2] == ["load", "--input"]:
    with tarfile.open(args[2]) as tar:
        for image in json.load(tar.extractfile("manifest.json")):
            assert all(tar.extractfile(p).read() for p in [image["Config"], *image["Layers"]])
            there += image["RepoTags"]
    names.write_text(" ".join(there))
    if os.environ.get("FULL"):
        sys.exit("Error processing tar file(exit status 1): write /unirail: no space left on device")
elif args[:2] == ["image", "inspect"]:
    sys.exit(args[2] not in there)
elif args[:2] == ["image", "rm"]:
    there.remove(args[2])
    names.write_text(" ".join(there))
elif args != ["version"]:
    sys.exit(f"unknown args {args}")
"""


def pack(folder, programs, sboms, **env):
    """Runs tools/bundle on the programs; returns the bundle's path."""
    images = folder / "image"
    (images / "programs").mkdir(parents=True)
    for arch, program in programs.items():
        shutil.copy(program, images / "programs" / arch)
        shutil.copy(sboms[arch], images / f"unirail-1.2.3-{arch}.spdx.json")
    run(TOP / "tools/bundle", images, folder, cwd=TOP,
        env=os.environ | {"VERSION": "1.2.3", "COMMIT": "0123456789ab", "SOURCE_DATE_EPOCH": "86400"} | env)
    return folder / "unirail-1.2.3-bundle.tar"


@pytest.fixture(scope="session")
def bundle(tmp_path_factory, programs, sboms):
    return pack(tmp_path_factory.mktemp("bundle"), programs, sboms)


@pytest.fixture
def unpacked(bundle, tmp_path):
    run("sha256sum", "--check", bundle.name + ".sha256", cwd=bundle.parent)
    run("tar", "-C", tmp_path, "-xf", bundle)
    return tmp_path / "unirail-1.2.3"


@pytest.fixture
def node(tmp_path):
    """A PATH with the tools of a minimal node, without a program that loads images."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    return folder


@pytest.fixture
def docker(node, tmp_path):
    (node / "docker").write_text(DOCKER)
    (node / "docker").chmod(0o755)
    return tmp_path / "docker-images"


def load(unpacked, node, *args, **env):
    return run(unpacked / "load", *args, check=False, cwd="/", env={"PATH": str(node)} | {k: str(v) for k, v in env.items()})


def fails(p, *says):
    assert p.returncode == 1 and p.stdout == "" and p.stderr.startswith("load: ") and p.stderr.count("\n") == 1, p
    for text in says:
        assert text in p.stderr, p.stderr


def with_ctr(node):
    (node / "ctr").symlink_to(shutil.which("ctr"))


def test_two_builds_of_the_bundle_are_identical(bundle, programs, sboms, tmp_path):
    again = pack(tmp_path, programs, sboms, TZ="Asia/Tokyo", LC_ALL="C")
    assert again.read_bytes() == bundle.read_bytes()


def test_bundle_has_its_files_with_their_checksums(unpacked):
    sums = dict(reversed(line.split("  ")) for line in (unpacked / "SHA256SUMS").read_text().splitlines())
    files = {str(p.relative_to(unpacked)) for p in unpacked.rglob("*") if p.is_file()} - {"SHA256SUMS"}
    assert set(sums) == files
    for path, digest in sums.items():
        assert hashlib.sha256((unpacked / path).read_bytes()).hexdigest() == digest
    assert not [p for p in unpacked.rglob("*") if p.is_symlink()]
    for path in ("deploy/crds/spiderippools.yaml", "deploy/crd.yaml", "deploy/chart/Chart.yaml", "configs/cluster/job.yaml",
                 "images/unirail-amd64.spdx.json", "README.md", "deploy/CHANGELOG.md"):
        assert path in files, path
    assert (unpacked / "VERSION").read_text() == "1.2.3\n"


def test_manifests_name_the_image_of_the_bundle(unpacked):
    found = []

    def walk(value):
        if isinstance(value, dict):
            found.extend(v for k, v in value.items() if k == "image" and isinstance(v, str) and v.startswith("unirail"))
            value = list(value.values())
        for one in value if isinstance(value, list) else []:
            walk(one)

    for path in (unpacked / "deploy").rglob("*.yaml"):
        if "/chart/" not in str(path):
            walk(list(yaml.safe_load_all(path.read_text())))
    assert len(found) >= 6 and set(found) == {"unirail:1.2.3"}
    # The chart's copies of the manifests have the tag latest, which the chart replaces with its value image.tag.
    chart = unpacked / "deploy/chart"
    assert yaml.safe_load((chart / "values.yaml").read_text())["image"]["tag"] == "1.2.3"
    assert "image: unirail:latest" in (chart / "files/agent.yaml").read_text()


def test_images_are_loaded_into_containerd(containerd, unpacked, node):
    with_ctr(node)
    for _ in range(2):
        p = load(unpacked, node, CONTAINERD_ADDRESS=containerd.socket)
        assert p.returncode == 0 and p.stderr == "", p.stderr
        assert p.stdout == f"loaded unirail:1.2.3 ({ARCH}) into containerd, namespace k8s.io\n"
        assert containerd.images() == [NAME]
    out = containerd.ctr("run", "--rm", "--net-host", NAME, f"unirail-test-{os.getpid()}", "/unirail", "version").stdout
    assert out == run(BINARY, "version").stdout


def test_loader_runs_the_command_of_variable_ctr_with_its_argument(containerd, unpacked, node):
    """CTR='k3s ctr', as on a node with K3s."""
    (node / "k3s").write_text(f'#!/bin/sh\n[ "$1" = ctr ] && shift && exec {shutil.which("ctr")} "$@"\n')
    (node / "k3s").chmod(0o755)
    p = load(unpacked, node, CTR="k3s ctr", CONTAINERD_ADDRESS=containerd.socket)
    assert p.returncode == 0 and containerd.images() == [NAME], p.stderr


@pytest.mark.parametrize("args", [(), ("docker",)])
def test_images_are_loaded_into_docker(unpacked, node, docker, args):
    p = load(unpacked, node, *args, STATE=docker)
    assert p.returncode == 0 and p.stdout == f"loaded unirail:1.2.3 ({ARCH}) into docker\n", p.stderr
    assert docker.read_text() == "unirail:1.2.3"


def test_images_are_loaded_into_a_real_docker(dockerd, unpacked):
    for _ in range(2):
        p = run(unpacked / "load", "docker", env=dockerd.env)
        assert p.stdout == f"loaded unirail:1.2.3 ({ARCH}) into docker\n" and p.stderr == ""
        assert dockerd.images() == ["unirail:1.2.3"]
    out = dockerd.docker("run", "--rm", "--network", "none", "unirail:1.2.3", "version").stdout
    assert out == run(BINARY, "version").stdout


@pytest.mark.parametrize("path", ["images/unirail-amd64.tar", "images/unirail.tar", "deploy/agent.yaml", "load", "VERSION"])
def test_damaged_file_is_named_and_nothing_is_loaded(containerd, unpacked, node, path):
    with_ctr(node)
    with open(unpacked / path, "ab") as f:
        f.write(b"\n#\n")
    fails(load(unpacked, node, CONTAINERD_ADDRESS=containerd.socket), f"/unirail-1.2.3/{path}' is damaged or missing", "again")
    assert containerd.images() == []


@pytest.mark.parametrize("path", ["images/unirail-arm64.tar", "SHA256SUMS"])
def test_error_names_a_missing_file(containerd, unpacked, node, path):
    with_ctr(node)
    (unpacked / path).unlink()
    fails(load(unpacked, node, CONTAINERD_ADDRESS=containerd.socket), path, "extract")
    assert containerd.images() == []


def test_truncated_list_of_checksums_is_refused(containerd, unpacked, node):
    with_ctr(node)
    (unpacked / "SHA256SUMS").write_text("")
    fails(load(unpacked, node, CONTAINERD_ADDRESS=containerd.socket), "SHA256SUMS' is damaged")


def test_error_names_a_missing_tool(unpacked, node, docker):
    fails(load(unpacked, node, "ctr"), "'ctr' is missing", "CTR='k3s ctr'")
    fails(load(unpacked, node, "ctr", CTR="k3s ctr"), "'k3s' is missing")
    (node / "sha256sum").unlink()
    fails(load(unpacked, node, STATE=docker), "'sha256sum' is missing")
    (node / "docker").unlink()
    fails(load(unpacked, node), "neither ctr nor docker is in PATH")
    fails(load(unpacked, node, "docker"), "'docker' is missing")


def test_unavailable_daemon_is_reported(unpacked, node, docker, tmp_path):
    fails(load(unpacked, node, STATE=docker, DOWN=1), "docker cannot reach its daemon: Cannot connect to the Docker daemon")
    with_ctr(node)
    fails(load(unpacked, node, CONTAINERD_ADDRESS=tmp_path / "none"), "ctr cannot reach its daemon: ", "run this as root")


def test_full_disk_of_docker_leaves_no_image(unpacked, node, docker):
    fails(load(unpacked, node, STATE=docker, FULL=1), "no space left on device: nothing is loaded")
    assert docker.read_text() == ""


@pytest.mark.parametrize("size", ["2m", "4m"])
def test_full_disk_of_containerd_leaves_no_image(unpacked, node, tmp_path_factory, size):
    """On a disk of 2 MB the archive does not fit; on one of 4 MB it fits, but its unpacked files do not."""
    with_ctr(node)
    one = Containerd(pathlib.Path(tmp_path_factory.mktemp("f")), size)
    try:
        fails(load(unpacked, node, CONTAINERD_ADDRESS=one.socket), "no space left on device", "nothing is loaded")
        assert one.images() == []
    finally:
        one.close()


def test_missing_tmpdir_is_reported(unpacked, node, docker, tmp_path):
    missing = tmp_path / "missing"
    fails(load(unpacked, node, STATE=docker, TMPDIR=str(missing)), f"cannot write to '{missing}'")


def test_usage_errors_are_refused(unpacked, node):
    for args in (("podman",), ("ctr", "docker"), ("--help",)):
        p = load(unpacked, node, *args)
        assert p.returncode == 2 and "usage: ./load [ctr | docker]" in p.stderr and p.stderr.count("\n") == 1


def test_missing_images_of_the_bundle_are_reported(tmp_path):
    p = subprocess.run([TOP / "tools/bundle", tmp_path / "none", tmp_path], capture_output=True, text=True,
                       env=os.environ | {"VERSION": "1.2.3", "COMMIT": "x"})
    assert p.returncode == 1 and "run make image" in p.stderr and p.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_blobs_of_the_archives_have_their_digests_as_names(unpacked):
    for path in (unpacked / "images").glob("*.tar"):
        blobs(path)
