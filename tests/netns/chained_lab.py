# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the chained plugins (tuning, sbr, loopback, ifacer, rdma)."""
import os
import pathlib

import pytest
from lab import BINARY, REFERENCE, run

CHAINED = ["tuning", "sbr", "loopback", "ifacer"]


@pytest.fixture
def chained_plugins(tmp_path):
    """A directory with unirail's plugins. UNIRAIL_PLUGINS names another directory (Debian's plugins, to check the tests)."""
    if "UNIRAIL_PLUGINS" in os.environ:
        return pathlib.Path(os.environ["UNIRAIL_PLUGINS"])
    folder = tmp_path / "chained_plugins"
    folder.mkdir()
    for name in CHAINED + ["macvlan", "static", "coordinator"]:
        (folder / name).symlink_to(BINARY)
    return folder


def prev(pod, ips=(), ifname="net1", mac="0a:58:00:00:00:01", version="1.0.0", **more):
    """A prevResult of one interface."""
    return {"cniVersion": version,
            "interfaces": [{"name": ifname, "mac": mac, "sandbox": pod.netns}],
            "ips": [{"interface": 0, "address": a, **({"gateway": g} if g else {})} for a, g in ips],
            **more}


def conf(kind, version="1.0.0", **more):
    return {"cniVersion": version, "name": "net", "type": kind, **more}


def in_ns(ns, *command):
    return run(list(command), ns=ns).stdout.strip()


__all__ = ["CHAINED", "REFERENCE", "conf", "in_ns", "chained_plugins", "prev"]
