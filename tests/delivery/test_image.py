# SPDX-License-Identifier: Apache-2.0
"""images/archive: its archives as containerd, skopeo and `docker load` read them."""
import hashlib
import json
import os
import platform
import re
import subprocess

import pytest
from conftest import BINARY, TOP, blobs, loads, run

ARCHIVE = TOP / "images" / "archive"
NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
ARCHES = ("amd64", "arm64")
LABELS = {"org.opencontainers.image.title": "unirail", "org.opencontainers.image.version": "1.2.3",
          "org.opencontainers.image.revision": "0123456789ab", "org.opencontainers.image.created": "1970-01-02T00:00:00Z",
          "org.opencontainers.image.licenses": "Apache-2.0"}

# The environment without the variables by which a `make` that a test starts would act as a sub-make of the `make` that runs the tests.
ALONE = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def make(out, programs, sboms, arches=ARCHES, **env):
    args = [w for a in arches for w in ("--sbom", sboms[a])] + [programs[a] for a in arches]
    run(ARCHIVE, "--version", "1.2.3", "--commit", "0123456789ab", *args, out,
        env=os.environ | {"SOURCE_DATE_EPOCH": "86400"} | env)
    return out


@pytest.fixture(scope="session")
def both(tmp_path_factory, programs, sboms):
    return make(tmp_path_factory.mktemp("both") / "both.tar", programs, sboms)


@pytest.fixture(scope="session")
def one(tmp_path_factory, programs, sboms):
    return make(tmp_path_factory.mktemp("one") / "one.tar", programs, sboms, (NATIVE,))


def test_two_builds_of_the_image_are_identical(both, programs, sboms, tmp_path):
    """The second build has another umask, time zone and locale, and its input files have other times."""
    elsewhere = {}
    for arch, path in programs.items():
        elsewhere[arch] = tmp_path / "of" / "another" / arch
        elsewhere[arch].parent.mkdir(parents=True, exist_ok=True)
        elsewhere[arch].write_bytes(path.read_bytes())
        os.utime(elsewhere[arch], (1, 1))
    old = os.umask(0o077)
    try:
        again = make(tmp_path / "again.tar", elsewhere, sboms, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    finally:
        os.umask(old)
    assert again.read_bytes() == both.read_bytes()


def test_image_archive_has_the_oci_layout(both, programs, sboms):
    files = blobs(both)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    top, = json.loads(files["index.json"])["manifests"]
    assert top["annotations"]["io.containerd.image.name"] == "docker.io/library/unirail:latest"
    index = loads(files, top)
    images, documents = index["manifests"][:2], index["manifests"][2:]
    assert [i["platform"]["architecture"] for i in images] == list(ARCHES)
    assert images[1]["platform"]["variant"] == "v8"
    for arch, image, document in zip(ARCHES, images, documents):
        manifest = loads(files, image)
        config = loads(files, manifest["config"])
        assert config["config"]["Labels"].items() >= LABELS.items() and manifest["annotations"].items() >= LABELS.items()
        assert config["architecture"] == arch and config["created"] == "1970-01-02T00:00:00Z"
        # The attestation manifest has the digest of the image that it describes; its SBOM has the digest of the program.
        assert document["annotations"] == {"vnd.docker.reference.digest": image["digest"],
                                           "vnd.docker.reference.type": "attestation-manifest"}
        attestation = loads(files, document)
        assert attestation["subject"]["digest"] == image["digest"] and attestation["artifactType"]
        statement = loads(files, attestation["layers"][0])
        assert statement["subject"][0]["digest"]["sha256"] == image["digest"].partition(":")[2]
        assert statement["predicateType"] == "https://spdx.dev/Document"
        assert statement["predicate"] == json.loads(sboms[arch].read_text())
        sums = statement["predicate"]["packages"][0]["checksums"]
        assert sums[0]["checksumValue"] == hashlib.sha256(programs[arch].read_bytes()).hexdigest()


def test_containerd_imports_and_starts_the_image(containerd, both):
    containerd.ctr("images", "import", both)
    assert containerd.images() == ["docker.io/library/unirail:latest"]
    name = f"unirail-test-{os.getpid()}"
    p = containerd.ctr("run", "--rm", "--net-host", "docker.io/library/unirail:latest", name, "/unirail", "version", "-o", "json")
    assert json.loads(p.stdout) == json.loads(run(BINARY, "version", "-o", "json").stdout)


def test_containerd_imports_both_architectures_on_request(containerd, both):
    containerd.ctr("images", "import", "--all-platforms", both)
    assert containerd.images() == ["docker.io/library/unirail:latest"]
    listed = containerd.ctr("images", "list").stdout
    assert "linux/amd64" in listed and "linux/arm64" in listed


def test_containerd_imports_the_archive_of_one_architecture(containerd, one):
    containerd.ctr("images", "import", one)
    assert containerd.images() == ["docker.io/library/unirail:latest"]


def test_docker_loads_and_starts_the_image(dockerd, one, both):
    assert "Loaded image: unirail:latest" in dockerd.docker("load", "--input", one).stdout
    assert dockerd.images() == ["unirail:1.2.3", "unirail:latest"]
    about, = json.loads(dockerd.docker("image", "inspect", "unirail:1.2.3").stdout)
    assert about["Architecture"] == NATIVE and about["Config"]["Labels"].items() >= LABELS.items()
    p = dockerd.docker("run", "--rm", "--network", "none", "unirail:1.2.3", "version", "-o", "json")
    assert json.loads(p.stdout) == json.loads(run(BINARY, "version", "-o", "json").stdout)
    # In the archive of both architectures each image has a separate name.
    dockerd.clear()
    dockerd.docker("load", "--input", both)
    assert dockerd.images() == ["unirail:1.2.3-amd64", "unirail:1.2.3-arm64"]
    for arch in ARCHES:
        about, = json.loads(dockerd.docker("image", "inspect", f"unirail:1.2.3-{arch}").stdout)
        assert about["Architecture"] == arch and about["Config"]["Labels"].items() >= LABELS.items()


@pytest.mark.parametrize("arch", ARCHES)
def test_skopeo_inspects_and_copies_each_architecture(both, programs, tmp_path, arch):
    about = json.loads(run("skopeo", "inspect", f"--override-arch={arch}", f"oci-archive:{both}").stdout)
    assert about["Architecture"] == arch and about["Labels"].items() >= LABELS.items()
    run("skopeo", "--insecure-policy", "copy", f"--override-arch={arch}", f"oci-archive:{both}", f"dir:{tmp_path / 'd'}")
    layer = about["Layers"][0].partition(":")[2]
    files = tmp_path / "files"
    files.mkdir()
    run("tar", "-C", files, "-xf", tmp_path / "d" / layer)
    assert (files / "unirail").read_bytes() == programs[arch].read_bytes() and os.access(files / "unirail", os.X_OK)
    assert [f.name for f in files.iterdir()] == ["unirail"]


def test_skopeo_copies_all_images_with_their_digests(both, tmp_path):
    """skopeo copies every blob of the archive, thus also the SBOMs, as in a copy to a registry."""
    run("skopeo", "--insecure-policy", "copy", "--all", "--preserve-digests", f"oci-archive:{both}", f"dir:{tmp_path / 'copy'}")
    copied = {hashlib.sha256(p.read_bytes()).hexdigest() for p in (tmp_path / "copy").iterdir()}
    assert {name.rpartition("/")[2] for name in blobs(both) if name.startswith("blobs/")} <= copied


def test_archive_has_the_list_that_docker_load_reads(both, one):
    """skopeo reads manifest.json and the layers as `docker load` does."""
    for archive, tag, arch in ((both, "unirail:1.2.3-amd64", "amd64"), (both, "unirail:1.2.3-arm64", "arm64"),
                               (one, "unirail:latest", NATIVE), (one, "unirail:1.2.3", NATIVE)):
        about = json.loads(run("skopeo", "inspect", f"--override-arch={arch}", f"docker-archive:{archive}:{tag}").stdout)
        assert about["Architecture"] == arch and about["Labels"].items() >= LABELS.items(), tag


@pytest.mark.parametrize("target", ["all", "image", "bundle", "dist", "deb", "check", "unit", "test", "fuzz", "reproducible"])
def test_dry_run_of_make_builds_nothing(target, tmp_path):
    """The scripts that call make are printed, not run."""
    p = run("make", "-n", f"B={tmp_path / 'build'}", target, cwd=TOP, env=ALONE)
    assert p.stderr == "" and list(tmp_path.iterdir()) == []
    assert target in ("all", "bundle") or re.search(rf"^[^\n]*tools/({target}|check)\b", p.stdout, re.M), p.stdout[-500:]


@pytest.mark.parametrize("machine, arch, compiler, package", [
    ("x86_64", "arm64", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"), ("aarch64", "amd64", "x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu")])
def test_machine_of_each_architecture_builds_for_the_other(machine, arch, compiler, package, tmp_path):
    """On a machine of either architecture, make selects the compiler for the other one, and tools/need lists this compiler's package."""
    (tmp_path / "uname").write_text(f'#!/bin/sh\n[ "$*" = -m ] && echo {machine} || exec /bin/uname "$@"\n')
    (tmp_path / "uname").chmod(0o755)
    p = run("make", "-n", f"ARCH={arch}", f"B={tmp_path / 'build'}", "all", cwd=TOP,
            env=ALONE | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert f"{compiler.removesuffix('gcc')}strip -s {tmp_path}/build/{arch}/unirail.dbg" in p.stdout, p.stdout[-1000:]
    assert run(TOP / "tools/need", "--list", arch).stdout.split() == [package]


def test_version_is_the_images_tag(programs, tmp_path):
    run(ARCHIVE, "--version", "1.2.3+dirty", programs[NATIVE], tmp_path / "t.tar")
    assert json.loads(blobs(tmp_path / "t.tar")["manifest.json"])[0]["RepoTags"] == ["unirail:1.2.3_dirty", "unirail:latest"]


def test_usage_errors_are_refused(programs, sboms, tmp_path):
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "empty").write_text("")
    for args, says in (([tmp_path / "text", tmp_path / "o"], "text is not a program for x86_64 or arm64"),
                        ([tmp_path / "empty", tmp_path / "o"], "empty is no program"),
                        ([tmp_path / "missing", tmp_path / "o"], "missing"),
                        ([programs["amd64"], programs["amd64"], tmp_path / "o"], "is the second program for amd64"),
                        ([programs["amd64"], tmp_path / "no" / "o"], "No such file or directory"),
                        (["--sbom", tmp_path / "text", programs["amd64"], tmp_path / "o"], "images/archive: "),
                        ([programs["amd64"], "/dev/full/o"], "images/archive: ")):
        p = run(ARCHIVE, *args, check=False)
        assert p.returncode == 1 and says in p.stderr and p.stderr.count("\n") == 1, (args, p.stderr)
    p = run(ARCHIVE, "--sbom", sboms["amd64"], *programs.values(), tmp_path / "o", check=False)
    assert p.returncode == 2 and "pass one for each" in p.stderr
    assert sorted(f.name for f in tmp_path.iterdir()) == ["empty", "text"]


def test_full_disk_leaves_no_archive(programs, tmp_path):
    """RLIMIT_FSIZE emulates the full disk."""
    p = subprocess.run(["prlimit", "--fsize=1000000", ARCHIVE, programs["amd64"], tmp_path / "o"], capture_output=True, text=True)
    assert p.returncode == 1 and p.stderr.startswith("images/archive: ") and p.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
