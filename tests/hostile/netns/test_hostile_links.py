# SPDX-License-Identifier: Apache-2.0
"""Directories that a netconf names, in which another user of the node has created a symbolic link or a FIFO.

In an earlier version, root's files were created wherever the link led, and a lock or log could be a FIFO.
"""
import os

import pytest
from lab import link_names

UID = 1000


@pytest.fixture
def disk(tmp_path):
    tmp_path.chmod(0o755)
    for name in ("real", "secret"):
        (tmp_path / name).mkdir()
    return tmp_path


def link(path, target, owner):
    path.symlink_to(target)
    os.lchown(path, owner, owner)


def local(folder, **keys):
    ipam = {"type": "host-local", "dataDir": str(folder), "ranges": [[{"subnet": "10.9.0.0/24"}]], **keys}
    return {"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "master": "rail0", "ipam": ipam}


def refused(lab, conf, *contains):
    pod = lab.pod()
    lab.fail("ADD", conf, pod, contains=["is a symbolic link that users other than root can change", *contains])
    assert link_names(pod.ns) == ["lo"]


def test_data_dir_below_a_link_of_another_user_is_refused(lab, disk):
    link(disk / "theirs", disk / "secret", UID)
    for folder in (disk / "theirs", disk / "theirs" / "below"):
        refused(lab, local(folder), f"'{disk}/theirs'")
    assert list((disk / "secret").iterdir()) == []


def test_network_directory_that_is_a_link_is_refused(lab, disk):
    link(disk / "real" / "net", disk / "secret", UID)
    refused(lab, local(disk / "real"), f"'{disk}/real/net'")
    assert list((disk / "secret").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_data_dir_below_a_link_in_a_directory_that_others_can_write_is_refused(lab, disk, mode):
    (disk / "open").mkdir()
    (disk / "open").chmod(mode)
    link(disk / "open" / "link", disk / "secret", 0)
    refused(lab, local(disk / "open" / "link"), f"'{disk}/open/link'")
    (disk / "open").chmod(0o755)
    pod, conf = lab.pod(), local(disk / "open" / "link")
    lab.add(conf, pod)
    lab.delete(conf, pod)


def test_data_dir_below_the_administrators_link_is_used(lab, disk):
    """For example, the administrator's link leads to another disk."""
    link(disk / "admin", "real", 0)
    pod, conf = lab.pod(), local(disk / "admin" / "networks")
    lab.add(conf, pod)
    assert (disk / "real" / "networks" / "net" / "10.9.0.2").exists()
    lab.delete(conf, pod)
    assert not (disk / "real" / "networks" / "net" / "10.9.0.2").exists()


def test_state_dir_below_a_link_of_another_user_is_refused(lab, disk):
    link(disk / "theirs", disk / "secret", UID)
    conf = {"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "master": "rail0",
            "ipam": {"type": "whereabouts", "range": "10.9.0.0/24", "state_dir": str(disk / "theirs" / "state")}}
    refused(lab, conf, f"'{disk}/theirs'")
    assert list((disk / "secret").iterdir()) == []


def test_tuning_data_dir_below_a_link_of_another_user_is_refused(lab, disk):
    link(disk / "theirs", disk / "secret", UID)
    pod, conf = lab.pod(), local(disk / "real")
    prev = lab.add(conf, pod)
    tuning = {"cniVersion": "1.0.0", "name": "net", "type": "tuning", "mtu": 1400, "dataDir": str(disk / "theirs"),
              "prevResult": prev}
    lab.fail("ADD", tuning, pod, contains=[f"'{disk}/theirs' is a symbolic link that users other than root can change"])
    assert list((disk / "secret").iterdir()) == []
    lab.delete(conf, pod)


def test_log_file_that_is_a_link_of_another_user_is_not_written(lab, disk):
    link(disk / "log", disk / "secret" / "log", UID)
    pod = lab.pod()
    conf = local(disk / "real")
    conf["ipam"] = {**lab.ipam("rail0"), "log_level": "debug", "log_file_path": str(disk / "log")}
    for command in ("ADD", "DEL"):
        lab.cni(command, conf, pod, plugin="spiderpool")
    assert list((disk / "secret").iterdir()) == []


def test_lock_that_is_a_fifo_is_refused(lab, disk):
    (disk / "real" / "net").mkdir()
    os.mkfifo(disk / "real" / "net" / "lock")
    lab.fail("ADD", local(disk / "real"), lab.pod(), contains=[f"'{disk}/real/net/lock' is a FIFO, expected a regular file"])
