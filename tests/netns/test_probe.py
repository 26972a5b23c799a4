# SPDX-License-Identifier: Apache-2.0
"""Conflict detection, gateway detection and announcements: the packets on the wire."""
import ctypes
import ipaddress
import json
import os
import socket
import struct
import time

import pytest
from lab import CLONE_NEWNET, enter, ip, libc, link, link_names, state
from report import wait


class Sniffer:
    """Records every frame on a link of a namespace, from the creation of the object on."""

    def __init__(self, ns, dev):
        host_ns = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            enter(ns)()
            self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.s.bind((dev, 0))
        finally:
            back(host_ns)
        self.s.setblocking(False)
        self.seen = []

    def frames(self):
        while True:
            try:
                self.seen.append(self.s.recv(4096))
            except BlockingIOError:
                return self.seen

    def arps(self):
        """(sender ip, target ip, sender mac, op) of each ARP packet."""
        out = []
        for f in self.frames():
            if f[12:14] == b"\x08\x06":
                op, = struct.unpack("!H", f[20:22])
                out.append((socket.inet_ntoa(f[28:32]), socket.inet_ntoa(f[38:42]), f[22:28].hex(":"), op))
        return out

    def icmp6(self, kind):
        """(source, target, source mac) of each neighbour solicitation (135) or advertisement (136)."""
        out = []
        for f in self.frames():
            if f[12:14] == b"\x86\xdd" and f[20] == 58 and f[54] == kind:
                out.append((socket.inet_ntop(socket.AF_INET6, f[22:38]),
                            socket.inet_ntop(socket.AF_INET6, f[62:78]), f[6:12].hex(":")))
        return out

    def close(self):
        self.s.close()


def back(fd):
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


@pytest.fixture
def sniff():
    made = []

    def make(ns, dev):
        made.append(Sniffer(ns, dev))
        return made[-1]

    yield make
    for s in made:
        s.close()


DETECT = {"enable_gateway_detection": True, "enable_ip_conflict_detection": True}


def squat(lab, nic, address, v6=False):
    """Creates another host on the rail, which uses the address; returns the host's namespace."""
    ns = lab.new_ns("squatter")
    ip(lab.fabric, "link", "add", f"sq-{nic}", "master", f"br-{nic}", "type", "veth", "peer", "name",
       "sq0", "netns", ns)
    ip(lab.fabric, "link", "set", f"sq-{nic}", "up")
    ip(ns, "link", "set", "sq0", "up")
    ip(ns, "addr", "add", address, "dev", "sq0", *(["nodad"] if v6 else []))
    return ns


def test_address_in_conflict_is_quarantined(lab):
    lab.rail_pools()
    other = squat(lab, "rail0", "172.16.1.10/24")
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0", **DETECT))
    assert lab.add(conf, pod)["ips"][0]["address"] == "172.16.1.11/24"
    records = lab.records()
    assert records["172.16.1.10"]["state"] == "quarantined", records
    assert records["172.16.1.11"]["containerId"] == pod.id
    assert link(other, "sq0")
    assert lab.add(conf, lab.pod())["ips"][0]["address"] == "172.16.1.12/24"


def test_conflicts_are_not_detected_when_disabled(lab):
    lab.rail_pools()
    squat(lab, "rail0", "172.16.1.10/24")
    assert lab.add(lab.macvlan("rail0", lab.ipam("rail0")), lab.pod())["ips"][0]["address"] == "172.16.1.10/24"


def test_add_fails_if_every_address_is_in_conflict(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.8\ngateway=172.16.1.1\n")
    other = squat(lab, "rail0", "172.16.1.8/24")
    pod = lab.pod()
    before = pod.state()
    e = lab.fail("ADD", lab.macvlan("rail0", lab.ipam("p", **DETECT)), pod, code=11, contains="172.16.1.8")
    assert link(other, "sq0")["address"] in e["msg"] + e.get("details", "")
    assert pod.state() == before


def test_add_with_an_unreachable_gateway_fails_and_leaves_nothing(lab):
    lab.rail_pools()
    ip(lab.fabric, "addr", "del", "172.16.1.1/24", "dev", "br-rail0")
    pod = lab.pod()
    before = state(lab.node), pod.state()
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("rail0", **DETECT)), pod, contains=["172.16.1.1", "unreachable"])
    assert (state(lab.node), pod.state()) == before
    assert lab.used() == {}


def test_ipv6_conflicts_and_gateways_are_detected(make_lab):
    lab = make_lab(v6=True)
    lab.rail_pools(v6=True)
    squat(lab, "rail0", "fd00:16:1::10/64", v6=True)
    conf = lab.macvlan("rail0", lab.ipam(v6=["rail0-v6"], **DETECT))
    conf["ipam"].pop("default_ipv4_ippool", None)
    assert lab.add(conf, lab.pod())["ips"][0]["address"] == "fd00:16:1::11/64"
    ip(lab.fabric, "addr", "del", "fd00:16:1::1/64", "dev", "br-rail0")
    pod = lab.pod()
    lab.fail("ADD", conf, pod, contains=["fd00:16:1::1", "unreachable"])
    assert link_names(pod.ns) == ["lo"]


def test_last_attempt_quarantines_the_conflicts_of_both_families(make_lab):
    lab = make_lab(v6=True)
    lab.rail_pools(v6=True)
    other, taken = squat(lab, "rail0", "192.0.2.1/24"), []
    for last in (10, 11, 12):
        ip(other, "addr", "add", f"172.16.1.{last}/24", "dev", "sq0")
        ip(other, "addr", "add", f"fd00:16:1::{last}/64", "dev", "sq0", "nodad")
        taken += [f"172.16.1.{last}", f"fd00:16:1::{last}"]
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("rail0", v6=["rail0-v6"], **DETECT)), lab.pod(), code=11, contains="172.16.1.12")
    assert sorted(a for a, r in lab.records().items() if r["state"] == "quarantined") == sorted(taken)


def test_probe_changes_no_neighbour_cache(lab, sniff):
    """Probes have sender 0.0.0.0: no host learns an address in conflict from unirail."""
    lab.rail_pools()
    squat(lab, "rail0", "172.16.1.10/24")
    wire = sniff(lab.fabric, "br-rail0")
    pod = lab.pod()
    lab.add(lab.macvlan("rail0", lab.ipam("rail0", **DETECT)), pod)
    mac = link(pod.ns, "net1")["address"]
    candidate = [a for a in wire.arps() if a[2] == mac]
    assert ("0.0.0.0", "172.16.1.10") in [a[:2] for a in candidate]
    assert not [a for a in candidate if a[0] == "172.16.1.10"]
    assert ("172.16.1.11", "172.16.1.1") in [a[:2] for a in candidate]


@pytest.mark.parametrize("detect", [{}, DETECT], ids=["without detection", "with detection"])
def test_each_nic_announces_only_its_own_addresses(make_lab, sniff, detect):
    """The original announces every NIC's addresses on each NIC."""
    lab = make_lab(v6=True)
    lab.rail_pools(v6=True)
    pod = lab.pod()
    wires = {nic: sniff(lab.fabric, f"br-{nic}") for nic in lab.nics}
    nets = [lab.network(nic, "eth0" if i == 0 else f"net{i}", ipam=lab.ipam(nic, v6=[nic + "-v6"], **detect))
            for i, nic in enumerate(lab.nics)]
    lab.add(lab.rails(nets), pod, ifname="eth0")
    for i, nic in enumerate(lab.nics):
        own4, own6 = f"172.16.{i}.10", str(ipaddress.ip_address(f"fd00:16:{i}::10"))
        wait(lambda: (own4, own4) in [a[:2] for a in wires[nic].arps()], f"{nic} announces {own4}")
        wait(lambda: own6 in [a[1] for a in wires[nic].icmp6(136)], f"{nic} announces {own6}")
        mac = link(pod.ns, "eth0" if i == 0 else f"net{i}")["address"]
        for sender, _, target_mac, _ in wires[nic].arps():
            if target_mac == mac:
                assert sender in (own4, "0.0.0.0"), (nic, sender)
        assert {t for _, t, target_mac in wires[nic].icmp6(136) if target_mac == mac} <= {own6} | {
            t for _, t, target_mac in wires[nic].icmp6(136) if t.startswith("fe80")}


def test_silent_gateways_of_all_rails_fail_add_and_leave_nothing(make_lab):
    """ADD of five networks, of which no gateway answers, fails with an error of one line; no link and no address is left."""
    lab = make_lab(rails=4)
    lab.rail_pools()
    for i, nic in enumerate(lab.nics):
        ip(lab.fabric, "addr", "del", f"172.16.{i}.1/24", "dev", f"br-{nic}")
    pod = lab.pod()
    nets = [lab.network(n, f"net{i}" if i else "eth0", ipam=lab.ipam(n, **DETECT))
            for i, n in enumerate(lab.nics)]
    e = lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", contains="unreachable")
    assert link_names(pod.ns) == ["lo"] and "\n" not in e["msg"]
    assert lab.used() == {}


def test_missing_carrier_is_reported_for_its_rail(lab):
    """A link without carrier is distinguished from a silent gateway and from errors of other rails."""
    lab.rail_pools()
    ip(lab.fabric, "link", "set", "sw-rail0", "down")
    pod = lab.pod()
    ipam = lab.ipam("rail0", **DETECT, detect={"carrier_ms": 300})
    e = lab.fail("ADD", lab.macvlan("rail0", ipam), pod, code=11, contains="no carrier on 'net1' after 300 ms (cable, ")
    assert "unreachable" not in e["msg"] and "\n" not in e["msg"]
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}
    nets = [lab.network(n, f"net{i}" if i else "eth0", ipam=lab.ipam(n, **DETECT, detect={"carrier_ms": 300}))
            for i, n in enumerate(lab.nics)]
    lab.fail("ADD", lab.rails(nets), pod, ifname="eth0", code=11,
             contains=["rail 'net1' (rail0): no carrier on 'net1' after 300 ms (cable, "])
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}


def test_detection_waits_for_a_late_carrier(lab):
    """A link may take longer than total_ms to get carrier: total_ms, the limit of conflict and gateway detection, is counted from the
    time at which the link has carrier."""
    lab.rail_pools()
    ip(lab.fabric, "link", "set", "sw-rail0", "down")
    pod = lab.pod()
    p = lab.popen("ADD", lab.macvlan("rail0", lab.ipam("rail0", **DETECT, detect={"total_ms": 500})), pod)
    wait(lambda: link(pod.ns, "net1"), "the pod has the interface")
    time.sleep(1.2)
    assert p.poll() is None
    ip(lab.fabric, "link", "set", "sw-rail0", "up")
    out, _ = p.communicate(timeout=20)
    assert p.returncode == 0 and json.loads(out)["ips"][0]["address"] == "172.16.1.10/24", out
