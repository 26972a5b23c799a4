# SPDX-License-Identifier: Apache-2.0
"""loopback: states and results of version 1.0.0 equal those of Debian's plugin; unirail prints the result in every CNI version."""
import pytest
from lab import VERSIONS, addresses, ip, link, run, same_shape
from chained_lab import REFERENCE, conf, chained_plugins, prev  # noqa: F401


@pytest.fixture
def pod(lab):
    pod = lab.pod()
    ip(pod.ns, "link", "set", "lo", "down")
    return pod


def lo(pod, version="1.0.0"):
    return {"cniVersion": version,
            "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": pod.netns}],
            "ips": [{"address": "127.0.0.1/8", "interface": 0}, {"address": "::1/128", "interface": 0}]}


def call(lab, verb, pod, by, version="1.0.0", **more):
    return lab.cni(verb, conf("loopback", version, **more), pod, plugins=by)


@pytest.mark.parametrize("v6", [False, True])
def test_results_equal_debians(make_lab, chained_plugins, v6):
    lab = make_lab(v6=v6)
    seen = []
    for by in (chained_plugins, REFERENCE):
        pod = lab.pod()
        ip(pod.ns, "link", "set", "lo", "down")
        if not v6:
            run(["sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"], ns=pod.ns)
        c = call(lab, "ADD", pod, by=by)
        assert c.status == 0, c
        got = c.json
        got.pop("dns", None)
        got["interfaces"][0]["sandbox"] = "pod"
        seen.append((got, same_shape(pod.state()), call(lab, "CHECK", pod, by=by).out))
        c = call(lab, "DEL", pod, by=by)
        assert (c.status, c.out) == (0, "")
        seen.append((same_shape(pod.state()), call(lab, "CHECK", pod, by=by).json))
    assert seen[0] == seen[2] and seen[1] == seen[3]


@pytest.mark.parametrize("version", VERSIONS)
def test_result_is_printed_in_every_cni_version(lab, chained_plugins, pod, version):
    """The original prints the format of 1.0.0 for every version, so an older runtime finds no address."""
    got = lab.add(conf("loopback", version), pod, plugins=chained_plugins)
    got.pop("dns", None)
    if version < "0.3.0":
        assert got == {"cniVersion": version, "ip4": {"ip": "127.0.0.1/8"}, "ip6": {"ip": "::1/128"}}
        return
    want = lo(pod, version)
    if version < "1.0.0":
        want["ips"][0]["version"], want["ips"][1]["version"] = "4", "6"
    assert got == want


def test_prev_result_is_passed_on(lab, chained_plugins, pod):
    before = prev(pod, [("172.16.1.20/24", "172.16.1.1")], routes=[{"dst": "0.0.0.0/0"}])
    got = lab.add(conf("loopback", prevResult=before), pod, plugins=chained_plugins)
    assert got == before
    assert "UP" in link(pod.ns, "lo")["flags"]
    lab.ok("CHECK", conf("loopback", prevResult=before), pod, plugins=chained_plugins)


def test_repeated_add_and_repeated_del_succeed(lab, chained_plugins, pod):
    for _ in range(2):
        assert lab.add(conf("loopback"), pod, plugins=chained_plugins) == lo(pod)
    for _ in range(2):
        lab.delete(conf("loopback"), pod, plugins=chained_plugins)
    assert "UP" not in link(pod.ns, "lo")["flags"]


def test_loopback_with_another_address_is_refused(lab, chained_plugins, pod):
    """The original sets lo up before it checks the address."""
    ip(pod.ns, "addr", "add", "10.0.0.9/24", "dev", "lo")
    lab.fail("ADD", conf("loopback"), pod, contains='loopback interface found with non-loopback address "10.0.0.9"',
             plugins=chained_plugins)
    assert "UP" not in link(pod.ns, "lo")["flags"]
    ip(pod.ns, "link", "set", "lo", "up")
    lab.fail("CHECK", conf("loopback"), pod, contains='non-loopback address "10.0.0.9"', plugins=chained_plugins)


def test_check_requires_a_loopback_that_is_up_with_its_address(lab, chained_plugins, pod):
    result = lab.add(conf("loopback"), pod, plugins=chained_plugins)
    lab.ok("CHECK", conf("loopback", prevResult=result), pod, plugins=chained_plugins)
    ip(pod.ns, "addr", "del", "127.0.0.1/8", "dev", "lo")
    lab.fail("CHECK", conf("loopback", prevResult=result), pod, plugins=chained_plugins,
             contains="Failed to match addr 127.0.0.1/8 on interface lo")
    ip(pod.ns, "link", "set", "lo", "down")
    lab.fail("CHECK", conf("loopback", prevResult=result), pod, contains="loopback interface is down", plugins=chained_plugins)
    assert addresses(pod.ns) == []


@pytest.mark.parametrize("netns", ["", "/run/netns/unirail-not-there"])
def test_del_without_a_namespace_succeeds(lab, chained_plugins, pod, netns):
    lab.delete(conf("loopback"), pod, plugins=chained_plugins, netns=netns)


def test_add_without_a_namespace_is_refused(lab, chained_plugins, pod):
    lab.fail("ADD", conf("loopback"), pod, 8, 'failed to Statfs "/run/netns/unirail-not-there"', plugins=chained_plugins,
             netns="/run/netns/unirail-not-there")


def test_status_and_gc_succeed(lab, chained_plugins, pod):
    lab.ok("STATUS", conf("loopback", "1.1.0"), pod, plugins=chained_plugins)
    lab.ok("GC", conf("loopback", "1.1.0", **{"cni.dev/valid-attachments": []}), pod, plugins=chained_plugins)
