# SPDX-License-Identifier: Apache-2.0
"""Fixtures. If something that the tests need is missing, pytest ends with an error; no test is skipped."""
import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import lab as labs  # noqa: E402
from report import pytest_make_parametrize_id, pytest_runtest_logstart, pytest_runtest_makereport  # noqa: E402,F401


def pytest_sessionstart(session):
    problems = []
    if os.geteuid() != 0:
        problems.append("not root")
    if not labs.BINARY.exists():
        problems.append(f"{labs.BINARY} is missing (make, or UNIRAIL=path)")
    if not (labs.REFERENCE / "macvlan").exists():
        problems.append("containernetworking-plugins is missing")
    for tool in ("ip", "nft", "ping", "strace", "setpriv", "unshare"):
        if not shutil.which(tool):
            problems.append(f"{tool} is missing")
    if problems:
        pytest.exit("these tests cannot run: " + "; ".join(problems), 1)
    labs.sweep()


@pytest.fixture(scope="session")
def plugins(tmp_path_factory):
    """The directory of CNI plugins: symlinks to the unirail binary. UNIRAIL_PLUGINS names another directory (Debian's
    plugins, to check the tests)."""
    if "UNIRAIL_PLUGINS" in os.environ:
        return pathlib.Path(os.environ["UNIRAIL_PLUGINS"])
    folder = tmp_path_factory.mktemp("plugins")
    for name in labs.PLUGINS:
        (folder / name).symlink_to(labs.BINARY)
    return folder


@pytest.fixture
def make_lab(tmp_path, plugins):
    made = []

    def make(**kw):
        tmp = tmp_path / f"lab{len(made)}"
        tmp.mkdir()
        one = labs.Lab.__new__(labs.Lab)
        one.namespaces = []
        made.append(one)  # registered before the lab is built, so that a partial lab is removed as well
        one.__init__(tmp, plugins, **kw)
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def lab(make_lab):
    return make_lab()
