#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vf_*.nl, ipoib.nl, devlink*.nl, rdma_set.nl, rdma_res.nl and rdma_held.nl beside this file: what Linux 6.12 (for CTX_GET in
rdma_held.nl and the last request of devlink_health.nl: an older kernel) answers on hosts with SR-IOV and InfiniBand, which were not
available. Composed from the UAPI headers, net/core/rtnetlink.c, net/devlink/ and drivers/infiniband/core/nldev.c, not recorded."""
import pathlib
import struct
import sys

from nlmsg import DONE, MULTI, attr, message, nest, text, u8, u16, u32, u64

HERE = pathlib.Path(__file__).parent
REQUEST, ACK, DUMP, CREATE, EXCL, CAPPED = 1, 4, 0x300, 0x400, 0x200, 0x100
NEWLINK, GETLINK, SETLINK = 16, 18, 19
PF = 7
PID = 31337


def ack(request, code=0):
    return message(2, CAPPED, struct.pack("<i", code) + request[:16], struct.unpack_from("<I", request, 8)[0])


class Talk:
    def __init__(self, protocol, what):
        self.lines = [f"# protocol {protocol}", f"# {what}; composed by {pathlib.Path(sys.argv[0]).name}, not recorded"]

    def query(self, *messages):
        self.lines.append("> " + b"".join(messages).hex())

    def answer(self, *messages):
        self.lines.append("< " + b"".join(messages).hex())

    def write(self, name):
        (HERE / name).write_text("\n".join(self.lines) + "\n")


def ifinfo(index, kind=1):
    return struct.pack("<BxHiII", 0, kind, index, 0, 0)


def vf(i, *more, mac=None):
    return nest(1, attr(1, struct.pack("<I", i) + (mac or bytes([2, 0, 0, 0, 0, i])).ljust(32, b"\0")), *more)


def eth_vf(i):
    return vf(i, attr(2, struct.pack("<III", i, 100 + i, 5)), attr(6, struct.pack("<III", i, 100, 2000)), attr(3, struct.pack("<II", i, 2000)),
              attr(4, struct.pack("<II", i, 1)), attr(5, struct.pack("<II", i, 2)), attr(9, struct.pack("<II", i, 0xffffffff)),
              nest(12, attr(1, struct.pack("<IIIHxx", i, 100 + i, 5, 0xa888))))


def query_vfs(t):
    t.query(message(GETLINK, REQUEST, ifinfo(PF, 0) + u32(29, 1 | 8)))


def pf_link(number, *vfs, mac=bytes(6)):
    body = ifinfo(PF) + text(3, "pf0") + attr(1, mac) + u32(21, number)
    return message(NEWLINK, 0, body + (nest(22, *vfs) if vfs else b""))


t = Talk("route", "80 VFs of an Ethernet PF, last first")
query_vfs(t)
t.answer(pf_link(80, *[eth_vf(i) for i in reversed(range(80))]))
t.write("vf_list.nl")

t = Talk("route", "two VFs of an InfiniBand PF, requested twice")
for _ in range(2):
    query_vfs(t)
    t.answer(pf_link(2, *[vf(i, attr(10, struct.pack("<IxxxxQ", i, 0x0c42a1030016051c)), attr(11, struct.pack("<IxxxxQ", i, 0x0c42a1030016051d)),
                             mac=bytes(20)) for i in range(2)], mac=bytes(range(20))))
t.write("vf_ib.nl")

t = Talk("route", "a truncated list, three times, then a driver that reports nothing")
for _ in range(3):
    query_vfs(t)
    t.answer(pf_link(300, eth_vf(0), eth_vf(1)))
query_vfs(t)
t.answer(pf_link(8))
t.write("vf_cut.nl")

t = Talk("route", "every attribute of VF 3; the driver has no trust")
values = [nest(12, attr(1, struct.pack("<IIIHxx", 3, 103, 5, 0xa888))), attr(1, struct.pack("<I", 3) + bytes([2, 0, 0, 0, 0, 3]).ljust(32, b"\0")),
          attr(6, struct.pack("<III", 3, 100, 2000)), attr(4, struct.pack("<II", 3, 1)), attr(9, struct.pack("<II", 3, 0)),
          attr(5, struct.pack("<II", 3, 2)), attr(10, struct.pack("<IxxxxQ", 3, 0x0c42a1030016051c)),
          attr(11, struct.pack("<IxxxxQ", 3, 0x0c42a1030016051d))]
sets = [message(SETLINK, REQUEST | ACK, ifinfo(PF, 0) + nest(22, nest(1, v)), i) for i, v in enumerate(values)]
t.query(*sets)
for i, s in enumerate(sets):
    t.answer(ack(s, -95 if i == 4 else 0))
t.write("vf_set.nl")

# ---- attributes of VFs that ADD and DEL set, with drivers that behave differently ----
FREE, PODS = bytes([2, 0, 0, 0, 0, 3]), bytes([2, 0, 0, 0, 7, 1])


def set_vf(seq, what):
    return message(SETLINK, REQUEST | ACK, ifinfo(PF, 0) + nest(22, nest(1, what)), seq)


def set_mac(seq, mac):
    return set_vf(seq, attr(1, struct.pack("<I", 3) + mac.ljust(32, b"\0")))


def set_trust(seq, on):
    return set_vf(seq, attr(9, struct.pack("<II", 3, on)))


def sets_are(t, *pairs):
    t.query(*[m for m, _ in pairs])
    for m, code in pairs:
        t.answer(ack(m, code))


def reads(t, mac, trust, vlan=0):
    query_vfs(t)
    t.answer(pf_link(4, vf(3, attr(2, struct.pack("<III", 3, vlan, 0)), attr(9, struct.pack("<II", 3, trust)), mac=mac)))


t = Talk("route", "MAC and trust: the driver is busy once, then accepts the MAC twice before it reports it")
sets_are(t, (set_mac(0, PODS), -16), (set_trust(1, 1), 0))
reads(t, FREE, 1)
sets_are(t, (set_mac(0, PODS), 0))
reads(t, FREE, 1)
sets_are(t, (set_mac(0, PODS), 0))
reads(t, PODS, 1)
t.write("vf_apply_late.nl")

t = Talk("route", "MAC and trust: the driver has no trust")
sets_are(t, (set_mac(0, PODS), -16), (set_trust(1, 1), -95))
t.write("vf_apply_cannot.nl")

t = Talk("route", "the MAC is to be cleared, which the driver refuses: the previous MAC is set instead")
sets_are(t, (set_mac(0, bytes(6)), -22))
reads(t, PODS, 0)
sets_are(t, (set_mac(0, FREE), 0))
reads(t, FREE, 0)
t.write("vf_apply_zero.nl")

t = Talk("route", "trust, which the driver applies but does not report; each time the MAC is set the driver is busy")
sets_are(t, (set_trust(0, 1), 0))
reads(t, FREE, 0xffffffff)
for _ in range(20):
    sets_are(t, (set_mac(0, PODS), -16))
    reads(t, FREE, 0xffffffff)
t.write("vf_apply_busy.nl")

t = Talk("route", "removal of a rate limit: the driver refuses it twice, since the port has no carrier, and accepts it the third time")
rate = message(SETLINK, REQUEST | ACK, ifinfo(PF, 0) + nest(22, nest(1, attr(6, struct.pack("<III", 0, 0, 0)))))
for code in (-22, -22, 0):
    t.query(message(GETLINK, REQUEST, ifinfo(0, 0) + u32(29, 8) + text(3, "eth1")))
    t.answer(message(NEWLINK, 0, ifinfo(PF) + text(3, "eth1") + attr(1, FREE)))
    for limit in (100, 0)[:1 if code else 2]:
        if limit == 0:
            sets_are(t, (rate, code))
        query_vfs(t)
        t.answer(pf_link(2, vf(0, attr(6, struct.pack("<III", 0, 0, limit)), mac=FREE), mac=FREE))
    if code:
        sets_are(t, (rate, code))
t.write("vf_home_rate.nl")

t = Talk("route", "an IPoIB child with PKey 0x8005 is created and read back")
info = nest(18, text(1, "ipoib"), nest(2, u16(1, 0x8005), u16(2, 1), u16(3, 1)))
make = message(NEWLINK, REQUEST | ACK | CREATE | EXCL, ifinfo(0, 0) + text(3, "net1") + u32(5, PF) + info)
t.query(make)
t.answer(ack(make))
t.query(message(GETLINK, REQUEST, ifinfo(0, 0) + u32(29, 8) + text(3, "net1")))
t.answer(message(NEWLINK, 0, ifinfo(9, 32) + text(3, "net1") + attr(1, bytes(range(20))) + u32(5, PF) + info))
t.write("ipoib.nl")

# ---- devlink ----
FAMILY, BDF = 0x15, "0000:3b:00.0"


def genl(kind, cmd, flags, *parts):
    return message(kind, flags, struct.pack("<BBxx", cmd, 1) + b"".join(parts))


HANDLE = text(1, "pci") + text(2, BDF)
t = Talk("generic", "a ConnectX-6 in legacy mode goes to switchdev: busy once")
t.query(genl(16, 3, REQUEST, text(2, "devlink")))
t.answer(genl(16, 1, 0, text(2, "devlink") + u16(1, FAMILY) + u32(3, 1)))
t.query(genl(FAMILY, 29, REQUEST, HANDLE))
t.answer(genl(FAMILY, 29, 0, HANDLE + u16(25, 0) + u8(26, 1)))
change = genl(FAMILY, 30, REQUEST | ACK, HANDLE + u16(25, 1))
for code in (-16, 0, -95):
    t.query(change)
    t.answer(ack(change, code))
t.write("devlink.nl")

t = Talk("generic", "an ice function's DDP package, and enable_rdma of a VF that is in a pod and of a scalable function without it")
t.query(genl(16, 3, REQUEST, text(2, "devlink")))
t.answer(genl(16, 1, 0, text(2, "devlink") + u16(1, FAMILY) + u32(3, 1)))
info = b"".join(nest(101, text(103, name), text(104, value)) for name, value in
                (("fw.mgmt", "6.2.9"), ("fw.app.name", "ICE OS Default Package"), ("fw.app", "1.3.30.0")))
for _ in range(2):
    t.query(genl(FAMILY, 51, REQUEST, HANDLE))
    t.answer(genl(FAMILY, 51, 0, HANDLE + text(98, "ice") + info + nest(102, text(103, "fw.app.name"), text(104, "stored"))))


def enable_rdma(device, *values):
    t.query(genl(FAMILY, 38, REQUEST, device + text(81, "enable_rdma")))
    t.answer(genl(FAMILY, 38, 0, device + nest(80, text(81, "enable_rdma"), attr(82, b""), u8(83, 6), nest(84, *values))))


enable_rdma(HANDLE, nest(85, attr(86, b""), u8(87, 1)), nest(85, u8(87, 0)))
enable_rdma(text(1, "auxiliary") + text(2, "mlx5_core.sf.4"), nest(85, u8(87, 1)))
query = genl(FAMILY, 38, REQUEST, HANDLE + text(81, "none"))
t.query(query)
t.answer(ack(query, -22))
t.write("devlink_info.nl")

t = Talk("generic", "reporters of two mlx5 PFs: the firmware of the second is dead, a queue of the first is; fw cannot be recovered; "
         "then a kernel without them")
t.query(genl(16, 3, REQUEST, text(2, "devlink")))
t.answer(genl(16, 1, 0, text(2, "devlink") + u16(1, FAMILY) + u32(3, 1) +
              nest(7, nest(1, text(1, "other"), u32(2, 9)), nest(2, text(1, "config"), u32(2, 6)))))


def reporter(cmd, flags, dev, port, name, state, can_recover=True):
    head = text(1, "pci") + text(2, dev) + (u32(3, port) if port is not None else b"")
    ends = [u64(120, 60000), u8(121, 1)] if can_recover else []
    # devlink writes this nest without NLA_F_NESTED.
    return genl(FAMILY, cmd, flags, head + attr(114, b"".join([text(115, name), u8(116, state), u64(117, state), u64(118, 0), *ends])))


t.query(genl(FAMILY, 52, REQUEST | DUMP))
t.answer(reporter(52, MULTI, BDF, None, "fw", 1, False), reporter(52, MULTI, BDF, None, "fw_fatal", 0),
         reporter(52, MULTI, "0000:3b:00.1", None, "fw_fatal", 1))
t.answer(reporter(52, MULTI, BDF, 1, "tx", 1), reporter(52, MULTI, BDF, 1, "rx", 0), DONE)
old = genl(FAMILY, 52, REQUEST | DUMP)
t.query(old)
t.answer(ack(old, -95))
t.write("devlink_health.nl")

# ---- RDMA: changes, use and counters ----
GET, SET, SYS_GET, SYS_SET, QP_GET, STAT_GET = 1, 2, 6, 7, 10, 17
CQ_GET, MR_GET, CTX_GET = 12, 13, 22


def rdma(cmd, flags, *parts):
    return message(5 << 10 | cmd, flags, b"".join(parts))


def refuse(t, request, code=0):
    t.query(request)
    t.answer(ack(request, code))


def mode(t, value):
    t.query(rdma(SYS_GET, REQUEST))
    t.answer(rdma(SYS_GET, 0, u8(66, value)))


t = Talk("rdma", "mode set twice, a device found, moved four times, renamed")
exclusive = rdma(SYS_SET, REQUEST | ACK, u8(66, 0))
refuse(t, exclusive, -16)
refuse(t, exclusive)
for _ in range(2):
    t.query(rdma(GET, REQUEST | DUMP))
    t.answer(rdma(GET, MULTI, u32(1, 0), text(2, "mlx5_0")), rdma(GET, MULTI, u32(1, 5), text(2, "mlx5_5")))
    t.answer(DONE)
move = rdma(SET, REQUEST | ACK, u32(1, 5), u32(68, 33))
refuse(t, move)
refuse(t, move, -16)
refuse(t, move, -95)
mode(t, 1)
refuse(t, move, -95)
mode(t, 0)
refuse(t, rdma(SET, REQUEST | ACK, u32(1, 5), text(2, "rail5")))
refuse(t, rdma(SET, REQUEST | ACK, u32(1, 5), text(2, "mlx5_0")), -17)
t.write("rdma_set.nl")

t = Talk("rdma", "QPs, counters")
t.query(rdma(QP_GET, REQUEST | DUMP, u32(1, 5)))
t.answer(rdma(QP_GET, MULTI, u32(1, 5), text(2, "mlx5_5"),
              nest(19, nest(20, u32(3, 1), u32(21, 1), u8(26, 1), u8(27, 3), text(29, "ib_core")),
                   nest(20, u32(21, 4242), u8(26, 2), u8(27, 3), u32(28, 31337)))))
t.answer(DONE)
t.query(rdma(STAT_GET, REQUEST, u32(1, 5), u32(3, 1)))
t.answer(rdma(STAT_GET, 0, u32(1, 5), u32(3, 1), nest(80, nest(81, text(82, "out_of_sequence"), u64(83, 7)), nest(81, text(82, "rp_cnp_handled"), u64(83, 1 << 40)))))
refuse(t, rdma(STAT_GET, REQUEST, u32(1, 5), u32(3, 2)), -22)
t.write("rdma_res.nl")

t = Talk("rdma", "a device that stays in use, and the query of its users; then one that is released at the second attempt")
find = rdma(GET, REQUEST | DUMP)
for tries in (3, 2):
    t.query(find)
    t.answer(rdma(GET, MULTI, u32(1, 5), text(2, "mlx5_5")))
    t.answer(DONE)
    for i in range(tries):
        refuse(t, move, -16 if tries == 3 or i == 0 else 0)
    if tries != 3:
        continue
    pid, core = u32(28, PID), text(29, "ib_core")
    t.query(rdma(QP_GET, REQUEST | DUMP, u32(1, 5)))
    t.answer(rdma(QP_GET, MULTI, u32(1, 5), nest(19, nest(20, u32(21, 1), core), nest(20, u32(21, 77), pid), nest(20, u32(21, 78), pid))))
    t.answer(DONE)
    t.query(rdma(CQ_GET, REQUEST | DUMP, u32(1, 5)))
    t.answer(rdma(CQ_GET, MULTI, u32(1, 5), nest(35, nest(36, text(29, "rpcrdma")), nest(36, pid))))
    t.answer(DONE)
    t.query(rdma(MR_GET, REQUEST | DUMP, u32(1, 5)))
    t.answer(DONE)
    refuse(t, rdma(CTX_GET, REQUEST | DUMP, u32(1, 5)), -95)
t.write("rdma_held.nl")
