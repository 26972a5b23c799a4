#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes net_*.tree beside this file: nodes before `unirail host` applied their host.conf. Each tree has a host.conf and a file of the
program that owns the node's interfaces. Composed from include/uapi/linux/rtnetlink.h and rdma_netlink.h. net_*.steps has the steps
that they need (tests/unit/host/test_host_hw.c)."""
import ipaddress
import struct

from make_hw import HERE, Host
from make_vf import DONE, MULTI, attr, message, text, u8, u32

NEWLINK, NEWADDR, NEWROUTE, NEWRULE, ETHER, INFINIBAND, UP = 16, 20, 24, 32, 1, 32, 0x11043
REQUESTS = {
    "links": "280000001200010300000000000000000000000000000000000000000000000008001d0008000000",
    "addresses": "180000001600010300000000000000000000000000000000",
    "routes": "1c0000001a0001030000000000000000000000000000000000000000",
    "rules": "1c000000220001030000000000000000000000000000000000000000",
}
MODE = ["# protocol rdma", "> 10000000061401000000000000000000",
        "< 3000000006140000000000000000000005004200010000000500600000000000050067000100000005005d0001000000"]


class Net(Host):
    def __init__(self, what, conf):
        super().__init__(what)
        self.lines = [line.replace("make_hw.py", "make_net.py") for line in self.lines]
        self.parts = {name: [] for name in REQUESTS}
        for priority, table in ((0, 255), (32766, 254), (32767, 253)):
            for family in (2, 10) if table != 253 else (2,):
                self.rule(family, priority, table)
        self.link_dev(1, "lo", kind=772, mtu=65536)
        self.link_dev(2, "eth0")
        self.address(2, "10.0.0.11/24")
        self.route(2, "0.0.0.0/0", "10.0.0.1")
        self.text("/etc/unirail/host.conf", conf.strip().splitlines())

    def add(self, part, kind, body):
        self.parts[part].append(message(kind, MULTI, body))

    def link_dev(self, index, name, kind=ETHER, mtu=1500, flags=UP):
        mac = bytes([2, 0, 0, 0, 0, index]) if kind != INFINIBAND else bytes(12) + bytes([0, 2, 0xc9, 3, 0, 0, 0, index])
        self.add("links", NEWLINK, struct.pack("<BxHiII", 0, kind, index, flags, 0) + text(3, name) + u32(4, mtu) + u8(16, 6) + attr(1, mac))

    def address(self, index, cidr):
        a = ipaddress.ip_interface(cidr)
        self.add("addresses", NEWADDR, struct.pack("<BBBBI", 2 if a.version == 4 else 10, a.network.prefixlen, 0x80, 0, index)
                 + attr(1, a.ip.packed) + attr(2, a.ip.packed) + u32(8, 0x80))

    def route(self, index, dst, gateway, table=254):
        d = ipaddress.ip_network(dst)
        body = struct.pack("<BBBBBBBBI", 2 if d.version == 4 else 10, d.prefixlen, 0, 0, table, 3, 0, 1, 0) + u32(15, table)
        if d.prefixlen:
            body += attr(1, d.network_address.packed)
        self.add("routes", NEWROUTE, body + attr(5, ipaddress.ip_address(gateway).packed) + u32(4, index))

    def rule(self, family, priority, table):
        self.add("rules", NEWRULE, struct.pack("<BBBBBBBBI", family, 0, 0, 0, table, 0, 0, 1, 0) + u32(15, table) + u32(14, 0xffffffff)
                 + (u32(6, priority) if priority else b""))

    def write(self, name):
        for part, messages in self.parts.items():
            self.text(f"/unirail/netlink/{part}.nl", ["# protocol route", f"> {REQUESTS[part]}", "< " + b"".join(messages).hex(),
                                                      "< " + DONE.hex()])
        (HERE / f"net_{name}.tree").write_text("\n".join(self.lines) + "\n")


def networkd():
    h = Net("eight rails under systemd-networkd; the last has its address and MTU", """
[rdma]
mode = shared
[rails]
cidr = 172.16.0.0/16
interfaces = ens1np0,ens2np0,ens3np0,ens4np0,ens5np0,ens6np0,ens7np0,ens8np0
nodes = node1,node2
mtu = 4200
[rule]
cidr = 172.16.0.0/16
""")
    h.file("/etc/hostname", "node2")
    for i in range(8):
        h.link_dev(3 + i, f"ens{i + 1}np0", mtu=4200 if i == 7 else 1500)
        h.text(f"/run/systemd/netif/links/{3 + i}", ["# This is private data. Do not parse.", "ADMIN_STATE=configured", "OPER_STATE=routable"])
    h.address(10, "172.16.7.34/27")
    h.text("/unirail/netlink/mode.nl", MODE)
    h.write("networkd")


def networkmanager():
    h = Net("two rails under NetworkManager, with IPv4 and IPv6; the second has a default route of its own", """
[interface ens1np0]
ipv4-ip = 172.16.1.10/24
ipv4-gateway = 172.16.1.1
ipv6-ip = fd00:16:1::10/64
ipv6-gateway = fd00:16:1::1
policy-route = yes
mtu = 4200
[interface ens2np0]
ipv4-ip = 172.16.2.10/24
ipv4-gateway = 172.16.2.1
rdma-default-route = yes
rdma-subnet = 172.16.0.0/16
""")
    for i in range(2):
        h.link_dev(3 + i, f"ens{i + 1}np0", flags=UP if i else 0x1002)
        h.text(f"/run/NetworkManager/devices/{3 + i}", ["[device]", "managed=true"])
    h.write("networkmanager")


def netplan():
    h = Net("two rails under netplan; the first has its address with another prefix length, the second is to be cleaned", """
[interface ens1np0]
ipv4-ip = 172.16.1.10/24
ipv4-gateway = 172.16.1.1
policy-route = yes
[interface ens2np0]
mode = clean
""")
    h.file("/usr/sbin/netplan", "\\c")
    for i in range(2):
        h.link_dev(3 + i, f"ens{i + 1}np0")
    h.address(3, "172.16.1.10/16")
    h.address(4, "172.16.2.10/24")
    h.text("/etc/netplan/12-ens2np0.yaml", ["network:", "  version: 2"])
    h.write("netplan")


def ipoib():
    h = Net("an InfiniBand HCA with IPoIB, under NetworkManager; RDMA devices are shared", """
[rdma]
mode = exclusive
[interface ibs1]
ipv4-ip = 172.16.1.10/24
ipv4-gateway = 172.16.1.1
policy-route = yes
mtu = 4092
""")
    h.link_dev(3, "ibs1", kind=INFINIBAND, mtu=2044)
    h.text("/run/NetworkManager/devices/3", ["[device]", "managed=true"])
    h.file("/etc/initramfs-tools/modules", "# none")
    h.text("/unirail/netlink/mode.nl", MODE)
    h.write("ipoib")


if __name__ == "__main__":
    for make in (networkd, networkmanager, netplan, ipoib):
        make()
