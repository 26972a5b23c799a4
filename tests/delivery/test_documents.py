# SPDX-License-Identifier: Apache-2.0
"""Man pages, and the commands in README.md and deploy/README.md and in the README.md of images/, deploy/bundle, deploy/debian and
tests/delivery/versions: the tests run some of the commands, with test files in place of the files that the commands name, and check
for the other commands that the files, objects, units and subcommands that these name exist."""
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml
from conftest import BINARY, TOP, run
from test_bundle import bundle  # noqa: F401
from test_image import both, one  # noqa: F401

APPLETS = json.loads(subprocess.run([BINARY, "version", "-o", "json"], capture_output=True, check=True).stdout)["applets"]
TOPICS = ("netconf", "settings", "metrics")


def commands(page):
    """Lines of the indented blocks, without comments."""
    found = [line.split(" #")[0].strip() for line in re.findall(r"(?m)^    (\S.*)$", (TOP / page).read_text())]
    assert found, page
    return found


# --- man pages ---


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    run(BINARY, "man", "--all", folder)
    return folder


def test_each_applet_and_topic_has_a_page(pages):
    wanted = {"unirail.1"} | {(a if a.startswith("unirail-") else f"unirail-{a}") + ".1" for a in [*APPLETS, *TOPICS]}
    assert {p.name for p in pages.iterdir()} == wanted


def test_pages_are_valid_roff(pages):
    for page in sorted(pages.iterdir()):
        p = run("groff", "-man", "-Tutf8", "-ww", "-z", page)
        assert p.stderr == "", p.stderr
        text = page.read_text()
        assert re.search(r"^\.SH NAME\n\S.* \\- \S", text, re.M), page
        assert page.name == "unirail.1" or ".SH SYNOPSIS\n" in text or page.stem.partition("-")[2] in TOPICS, page


@pytest.mark.parametrize("applet", APPLETS)
def test_page_has_every_command_and_option_of_the_help(pages, applet):
    page = (pages / ((applet if applet.startswith("unirail-") else f"unirail-{applet}") + ".1")).read_text()
    page = page.replace("\\-", "-")
    usage = run(BINARY, applet, "--help").stdout
    part = usage.partition("\ncommands:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  ([a-z][a-z0-9-]*)", part, re.M)
    helps = [usage] + [run(BINARY, applet, name, "--help").stdout for name in names]
    for name in names:
        assert re.search(rf"\b{re.escape(name)}\b", page), (applet, name)
    for text in helps:
        for option in re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", text, re.M):
            assert option in page or option == "--help", (applet, option)


# --- commands of the pages ---


def test_commands_of_the_images_page_work(containerd, dockerd, both, one, tmp_path):  # noqa: F811
    env = os.environ | dockerd.env | {"CONTAINERD_ADDRESS": str(containerd.socket)}
    seen = set()
    for line in commands("images/README.md"):
        args = [w.replace("build/image/unirail-VERSION-image-amd64.tar", str(one))
                 .replace("build/image/unirail-VERSION-image.tar", str(both))
                 .replace("docker://REGISTRY/unirail:VERSION", f"dir:{tmp_path / 'registry'}") for w in shlex.split(line)]
        seen.add(args[0])
        if args[0] == "make":
            assert args == ["make", "image"]
            continue  # not run: fixtures have built the images with images/archive
        if args[:2] == ["skopeo", "copy"]:
            args.insert(1, "--insecure-policy")
        run(*args, env=env)
    assert seen == {"make", "ctr", "docker", "skopeo"} and containerd.images() == ["docker.io/library/unirail:latest"]
    assert "unirail:latest" in dockerd.images()


def test_commands_of_the_bundle_page_work(containerd, bundle, tmp_path):  # noqa: F811
    for path in bundle.parent.glob("*bundle.tar*"):
        shutil.copy(path, tmp_path)
    seen = set()
    for line in commands("deploy/bundle/README.md"):
        args = [w.replace("docker://REGISTRY/unirail:VERSION", f"dir:{tmp_path / 'registry'}").replace("VERSION", "1.2.3")
                 for w in shlex.split(line)]
        seen.add(args[0])
        if args[0] == "kubectl":  # tests/cluster runs these commands on deploy/; this test checks that the files exist
            for path in [w for before, w in zip(args, args[1:]) if before == "-f"]:
                assert list((tmp_path / path).glob("*.yaml")), path
            continue
        if args[:2] == ["skopeo", "copy"]:
            args.insert(1, "--insecure-policy")
        if "/" in args[0]:
            args[0] = tmp_path / args[0]
        run(*args, cwd=tmp_path, env=os.environ | {"CONTAINERD_ADDRESS": str(containerd.socket)})
    assert seen == {"sha256sum", "tar", "unirail-VERSION/load".replace("VERSION", "1.2.3"), "kubectl", "skopeo"}
    assert containerd.images() == ["docker.io/library/unirail:1.2.3"]


def test_commands_of_the_package_page_exist():
    """test_deb installs, enables and removes the package on a new Debian with equivalent commands; this test checks that the units and
    subcommands named by the page exist."""
    for line in commands("deploy/debian/README.md"):
        args = shlex.split(line)
        if args[0] == "systemctl":
            assert (TOP / "deploy/debian" / args[-1]).exists(), line
        elif args[0] == "unirail":
            run(BINARY, args[1], "--help")
        else:
            assert args[0] == "apt-get" and args[-1] in ("./build/unirail_VERSION_amd64.deb", "unirail"), line


def test_commands_of_the_versions_page_work(tmp_path):
    line, other = commands("tests/delivery/versions/README.md")
    name = re.search("K=([a-z_]+)", other).group(1)
    assert "UNIRAIL_RECORD" in (TOP / "tests/cluster" / f"{name}.py").read_text() and other.split()[1:] == ["make", "test-cluster", f"K={name}"]
    assert line == "UNIRAIL=build/unirail tests/delivery/versions/machine record tests/delivery/versions/VERSION"
    run("tests/delivery/versions/machine", "record", tmp_path / "v", cwd=TOP, env=os.environ | {"UNIRAIL": str(BINARY)})
    there = {p.name for p in (tmp_path / "v").iterdir()}
    assert there == {"lib", "pools", "crds", "annotations", "exchange.json", "result.json"}


def manifests():
    """{(kind, namespace, name): object} of deploy/ without the chart."""
    return {(o["kind"].lower(), o["metadata"].get("namespace"), o["metadata"]["name"]): o for path in (TOP / "deploy").rglob("*.yaml")
            if "/chart/" not in str(path) for o in yaml.safe_load_all(path.read_text()) if o}


@pytest.mark.parametrize("page", ["README.md", "deploy/README.md"])
def test_commands_of_the_guides_name_existing_files_and_objects(page):
    """tests/cluster runs the commands that install, upgrade and remove; tests/netns tests the options of `unirail`; this test checks
    that files, objects, kinds and ports exist."""
    objects = manifests()
    names = {n for (kind, _, _), o in objects.items() if kind == "customresourcedefinition"
             for n in [o["spec"]["names"]["plural"], *o["spec"]["names"].get("shortNames", [])]}
    known, seen = targets(), set()
    lines = [line.removeprefix("$ ").strip() for line in commands(page)]
    for line in lines:
        arguments = line.split()
        if arguments[0] not in ("kubectl", "ctr", "cp", "make", "curl", "helm", "for", "images/archive"):
            continue
        seen.add(arguments[0])
        for path in re.findall(r"(?<!\S)(?:deploy|configs|images)/\S*", line):
            assert (TOP / path.rstrip(";")).exists(), line
        namespace = re.search(r"(?:-n|--namespace) (\S+)", line)
        for kind, name in re.findall(r"\b(daemonset|deployment)/(\S+)", line):
            assert (kind, namespace.group(1), name) in objects, line
        if arguments[:2] == ["kubectl", "get"]:
            assert arguments[2] in names, line
        elif arguments[0] == "make":
            assert len(arguments) == 1 or arguments[1] in known, line
        for port in re.findall(r"localhost:(\d+)", line):
            assert f"port: {port}\n" in (TOP / "deploy/agent.yaml").read_text(), line
    assert {"kubectl", "ctr"} <= seen


def targets():
    """The targets of make, as `make help` lists them."""
    return set(re.findall(r"(?m)^## ([a-z-]+):", "".join(p.read_text() for p in [TOP / "Makefile", *TOP.glob("tools/build/*.mk")])))


@pytest.mark.parametrize("page", ["README.md", "src/README.md", "tools/README.md", "images/README.md", "deploy/bundle/README.md", "deploy/debian/README.md", "deploy/README.md",
                                  "tests/README.md", "deploy/CHANGELOG.md"])
def test_make_targets_named_by_the_pages_exist(page):
    known = targets()
    for target in re.findall(r"`make ([a-z-]+)", (TOP / page).read_text()):
        assert target in known, target
