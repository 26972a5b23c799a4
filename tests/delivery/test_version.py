# SPDX-License-Identifier: Apache-2.0
"""The Makefile, the binary, the CustomResourceDefinitions, the changelog and the chart have the same version."""
import json
import os
import shutil

import pytest
import yaml
from conftest import BINARY, TOP, run


def release(tree, *args, check=True):
    return run(TOP / "tools/release", *args, check=check, env=os.environ | {"UNIRAIL_TREE": str(tree)})


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that tools/release reads and writes, with a chart."""
    shutil.copytree(TOP / "deploy", tmp_path / "deploy", symlinks=True)
    shutil.copy(TOP / "Makefile", tmp_path)
    (tmp_path / "deploy/chart").mkdir(exist_ok=True)
    (tmp_path / "deploy/chart/Chart.yaml").write_text(
        f"apiVersion: v2\nname: unirail\nversion: {version()}\nappVersion: \"{version()}\"\n")
    return tmp_path


def version():
    return release(TOP).stdout.strip()


def definitions(tree):
    for path in [tree / "deploy/crd.yaml", *(tree / "deploy/crds").glob("*.yaml")]:
        yield from filter(None, yaml.safe_load_all(path.read_text()))


def test_every_file_has_the_same_version():
    assert json.loads(run(BINARY, "version", "-o", "json").stdout)["version"] == version()
    found = [d["metadata"]["annotations"]["unirail.io/version"] for d in definitions(TOP)]
    assert found == [version()] * 8


def test_release_sets_the_version_in_every_file(tree):
    p = release(tree, "2.3.4-rc.1", check=False)
    assert p.returncode == 1 and "write one for 2.3.4-rc.1 first" in p.stderr and p.stderr.count("\n") == 1
    log = tree / "deploy/CHANGELOG.md"
    log.write_text(log.read_text().replace("\n## ", "\n## 2.3.4-rc.1\n\n- x\n\n## ", 1))
    p = release(tree, check=False)
    assert p.returncode == 1 and "deploy/CHANGELOG.md: the newest section is '2.3.4-rc.1'" in p.stderr
    assert release(tree, "2.3.4-rc.1").stdout == "2.3.4-rc.1\n" == release(tree).stdout
    assert {d["metadata"]["annotations"]["unirail.io/version"] for d in definitions(tree)} == {"2.3.4-rc.1"}
    chart = yaml.safe_load((tree / "deploy/chart/Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == "2.3.4-rc.1"
    assert "VERSION ?= 2.3.4-rc.1\n" in (tree / "Makefile").read_text()


@pytest.mark.parametrize("word", ["1.2", "v1.2.3", "1.2.3-", "01.2.3", "1.2.3/x", ""])
def test_invalid_version_is_refused(tree, word):
    before = (tree / "Makefile").read_text()
    p = release(tree, word, check=False)
    assert p.returncode == 1 and f"'{word}' is not a semantic version" in p.stderr and p.stderr.count("\n") == 1
    assert (tree / "Makefile").read_text() == before


@pytest.mark.parametrize("path", ["deploy/crd.yaml", "deploy/crds/spiderippools.yaml", "deploy/chart/Chart.yaml"])
def test_file_with_another_version_is_reported(tree, path):
    path = tree / path
    path.write_text(path.read_text().replace(version(), "9.9.9"))
    p = release(tree, check=False)
    assert p.returncode == 1 and f"{path.relative_to(tree)}: version is '9.9.9'" in p.stderr and "tools/release" in p.stderr
