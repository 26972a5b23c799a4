# SPDX-License-Identifier: Apache-2.0
"""static: the results equal those of Debian's plugin."""
import json
import subprocess

import pytest
from lab import REFERENCE, cni_env

BASE = {"cniVersion": "0.4.0", "name": "net", "type": "macvlan"}

CASES = [
    ({"addresses": [{"address": "10.1.2.3/24"}]}, {}, ""),
    ({"addresses": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"}, {"address": "10.9.0.1/8"}]}, {}, ""),
    ({"addresses": [{"address": "fd00::5/64", "gateway": "fd00::1"}]}, {}, ""),
    ({"addresses": [{"address": "10.1.2.3/24"}], "dns": {"nameservers": ["10.0.0.9"], "domain": "a.b",
                                                        "search": ["c.d"], "options": ["ndots:2"]}}, {}, ""),
    ({"addresses": [{"address": "10.1.2.3/24"}], "routes": [{"dst": "10.0.0.0/8", "gw": "10.1.2.9"}]}, {}, ""),
    ({"addresses": [{"address": "10.1.2.3/24"}]}, {}, "IP=10.1.2.77/24,fd00::9/64;GATEWAY=10.1.2.1"),
    ({}, {"args": {"cni": {"ips": ["10.4.4.4/16"]}}}, ""),
    ({}, {"runtimeConfig": {"ips": ["10.5.5.5/16", "fd05::5/64"]}, "capabilities": {"ips": True}}, ""),
    ({"addresses": [{"address": "10.1.2.3/24"}]}, {"runtimeConfig": {"ips": ["10.5.5.5/16"]}}, "IP=10.6.6.6/24"),
    ({}, {}, ""),
    # the original's Go struct has a field for "address" and a field for "Address"; a key sets the field whose name it matches exactly
    ({"addresses": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "Address": {"IP": "", "Mask": None}, "Version": ""}]},
     {}, ""),
    ({"addresses": [{"Address": {"IP": "10.1.2.3", "Mask": "////AA=="}, "address": "10.1.2.3/24", "Version": "4"}]}, {}, ""),
]


def call(where, command, ipam, more, args):
    conf = {**BASE, "ipam": {"type": "static", **ipam}, **more}
    return subprocess.run([str(where / "static")], input=json.dumps(conf), text=True,
                          env=cni_env(command, "c1", "/nonexistent", "eth0", args or None, where),
                          capture_output=True, timeout=30)


@pytest.mark.parametrize("ipam,more,args", CASES)
def test_results_equal_debians(plugins, ipam, more, args):
    candidate, reference = (call(w, "ADD", ipam, more, args) for w in (plugins, REFERENCE))
    assert (candidate.returncode, candidate.stdout) == (reference.returncode, reference.stdout)


@pytest.mark.parametrize("ipam,contains", [
    ({"addresses": [{"address": "10.1.2.3"}]}, ["address", "10.1.2.3", "CIDR"]),
    ({"addresses": [{"address": "10.1.2.3/33"}]}, ["10.1.2.3/33"]),
    ({"addresses": [{"address": "10.1.2.3/24", "gateway": "10.1.2"}]}, ["10.1.2"]),
    ({"addresses": {"address": "10.1.2.3/24"}}, ["addresses"]),
])
def test_errors_name_the_invalid_value(plugins, ipam, contains):
    candidate, reference = (call(w, "ADD", ipam, {}, "") for w in (plugins, REFERENCE))
    assert candidate.returncode == reference.returncode == 1
    for w in contains:
        assert w in json.loads(candidate.stdout)["msg"]


def test_del_succeeds_with_any_configuration(plugins):
    p = call(plugins, "DEL", {"addresses": "nonsense"}, {}, "")
    assert (p.returncode, p.stdout) == (0, "")
