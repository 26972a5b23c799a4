# SPDX-License-Identifier: Apache-2.0
"""The rdma plugin without a suitable RDMA device: ADD fails with one clear error and changes nothing; DEL succeeds.
tests/vm/cases/rdma_plugin.sh tests the plugin with RDMA."""
import json
import pathlib
import subprocess

import pytest
from lab import BINARY
from chained_lab import conf, chained_plugins, prev  # noqa: F401

STATES = pathlib.Path("/var/lib/cni/rdma")
IPS = [("172.16.1.20/24", None)]
VF = "0000:3d:00.2"


@pytest.fixture
def call(lab, chained_plugins):  # noqa: F811
    (chained_plugins / "rdma").exists() or (chained_plugins / "rdma").symlink_to(BINARY)
    pod = lab.pod()

    def run(verb, with_prev=True, **more):
        c = conf("rdma", **more)
        if with_prev:
            c["prevResult"] = prev(pod, IPS)
        return lab.cni(verb, c, pod, plugins=chained_plugins)

    before = sorted(STATES.glob("*"))
    yield run
    assert sorted(STATES.glob("*")) == before


def refused(c, code, contains):
    assert c.status == 1, c
    assert c.json["code"] == code, c
    assert contains in c.json["msg"], c


def has_rdma():
    return json.loads(subprocess.run([BINARY, "rdma", "mode", "-o", "json"], capture_output=True,
                                     check=True).stdout)["supported"]


def test_rdma_plugin_outside_a_plugin_chain_is_refused(call):
    refused(call("ADD", with_prev=False, deviceID=VF), 7, "RDMA-CNI is expected to be called as part of a plugin chain")


def test_debug_argument_must_be_a_bool(call):
    refused(call("ADD", deviceID=VF, args={"cni": {"debug": "yes"}}), 7, "conf.args.cni.debug")


def test_missing_rdma_is_reported(call):
    assert not has_rdma(), "this test needs a kernel without RDMA; tests/vm/cases/rdma_plugin.sh tests with RDMA"
    refused(call("ADD", deviceID=VF), 50, "failed to get RDMA subsystem namespace awareness mode: ")
    refused(call("CHECK", deviceID=VF), 50, "failed to get RDMA subsystem namespace awareness mode: ")
    refused(call("STATUS", version="1.1.0"), 50, "failed to get RDMA subsystem namespace awareness mode: ")


@pytest.mark.parametrize("more", [{"deviceID": VF}, {}, {"deviceID": "../x"}, {"deviceID": 7},
                                  {"args": {"cni": {"debug": 7}}}])
def test_del_without_state_succeeds(call, more):
    c = call("DEL", **more)
    assert c.status == 0 and c.out == "", c


@pytest.mark.parametrize("text", ["", "{", '{"sandboxRdmaDevName": "a/b"}'])
def test_del_succeeds_with_an_invalid_state_file(lab, chained_plugins, text):  # noqa: F811
    (chained_plugins / "rdma").symlink_to(BINARY)
    pod = lab.pod()
    STATES.mkdir(parents=True, exist_ok=True)
    state = STATES / f"net-{pod.id}-net1"
    state.write_text(text)
    try:
        c = lab.cni("DEL", conf("rdma", deviceID=VF), pod, plugins=chained_plugins)
        assert c.status == 0, c
        assert not state.exists()
    finally:
        state.unlink(missing_ok=True)
