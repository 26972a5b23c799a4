# SPDX-License-Identifier: Apache-2.0
"""make dist: the content of the archive. The archive contains the source of libnl, and its recipient can link the program again with
another version of libnl."""
import hashlib
import json
import shutil

import pytest
from conftest import BINARY, TOP, run
from test_image import ALONE


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """The unpacked archive that `make dist` builds from the objects of an earlier `make`, so nothing is compiled."""
    path = TOP / run("make", "-s", "dist", cwd=TOP, env=ALONE).stdout.split()[-1]
    folder = tmp_path_factory.mktemp("dist")
    run("tar", "-C", folder, "-xf", path)
    top, = folder.iterdir()
    return top


def test_archive_contains_the_program_and_man_pages_and_licences(unpacked):
    for path in ("bin/unirail", "share/man/man1/unirail.1", "licences/libnl/COPYING", "licences/unirail", "licences/libgcc", "links"):
        assert (unpacked / path).is_file(), path
    parts = {p["name"] for p in json.loads((unpacked / "sbom.spdx.json").read_text())["packages"]}
    assert {"libnl", "musl", "mbedtls"} <= parts


def test_source_of_lgpl_parts_is_in_the_archive(unpacked):
    rows = [line.split() for line in (TOP / "vendor/manifest").read_text().splitlines() if line and line[0] != "#"]
    rows = [row for row in rows if row[1] == "link" and "LGPL" in row[6]]
    assert [row[0] for row in rows] == ["libnl"]
    for name, _, _, file, digest, *_ in rows:
        assert hashlib.sha256((unpacked / "relink/source" / file).read_bytes()).hexdigest() == digest
        assert (unpacked / "relink/source" / name / "build").is_file()


def test_program_is_linked_again_with_another_libnl(unpacked, tmp_path):
    other = tmp_path / "other.a"
    shutil.copy(unpacked / "relink/lib/libnl.a", other)
    (unpacked / "relink/lib/libnl.a").rename(tmp_path / "libnl.a")
    try:
        run("./relink", tmp_path / "unirail", other, cwd=unpacked / "relink")
    finally:
        (tmp_path / "libnl.a").rename(unpacked / "relink/lib/libnl.a")
    assert run(tmp_path / "unirail", "version").stdout == run(unpacked / "bin/unirail", "version").stdout
    assert (unpacked / "bin/unirail").read_bytes() == BINARY.read_bytes()
