#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rdma_mlx5.nl, rdma_rxe.nl, rdma_view.nl, rdma_stat.nl and rdma_users*.nl beside this file: what Linux 6.12 (in
rdma_users_hidden.nl and rdma_users_none.nl: a kernel that does not list contexts) answers on hosts that were not at hand.

Composed from include/uapi/rdma/rdma_netlink.h and drivers/infiniband/core/nldev.c (which attributes, in which
order), not recorded. Replace them by `unirail doctor --snapshot` of real hosts when there are any.
"""
import pathlib
import struct

from nlmsg import DONE, MULTI, attr, message, nest, text, u8, u32, u64

HERE = pathlib.Path(__file__).parent
GET, PORT_GET, SYS_GET, QP_GET, GET_CHARDEV, STAT_GET, CTX_GET = 1, 5, 6, 10, 15, 17, 22
REQUEST, DUMP = 1, 0x300
DEV_INDEX, DEV_NAME, PORT_INDEX, CAP_FLAGS, FW, NODE_GUID, SYS_GUID, PREFIX, LID, SM_LID, LMC, STATE, PHYS, TYPE = \
    range(1, 15)
NDEV_INDEX, NDEV_NAME, NETNS_MODE, PROTOCOL = 50, 51, 66, 67
QP, QP_ENTRY, LQPN, RES_TYPE, RES_STATE, PID, KERN_NAME = 19, 20, 21, 26, 27, 28, 29
CTX, CTX_ENTRY, CTXN = 86, 87, 64
CHARDEV_TYPE, CHARDEV_NAME, CHARDEV_ABI, CHARDEV, DRIVER_ID, DIM = 69, 70, 71, 72, 73, 84
MR, MR_ENTRY, MRN = 40, 41, 62
STAT_MODE, STAT_RES, AUTO_MASK, STAT, STAT_ENTRY, STAT_ID = range(74, 80)
COUNTERS, COUNTER, COUNTER_NAME, COUNTER_VALUE, COPY_ON_FORK = 80, 81, 82, 83, 93
MLX5, RXE = 1, 14


def nldev(cmd, flags, body):
    return message(5 << 10 | cmd, flags, body)


class Host:
    def __init__(self, what):
        self.lines = ["# protocol rdma", f"# {what}; composed by make_rdma.py, not recorded"]

    def query(self, data):
        self.lines.append("> " + data.hex())

    def answer(self, data):
        self.lines.append("< " + data.hex())

    def write(self, name):
        (HERE / name).write_text("\n".join(self.lines) + "\n")

    def devices(self, devs, mode=True):
        self.query(nldev(GET, REQUEST | DUMP, b""))
        self.answer(b"".join(nldev(GET, MULTI, self.device(d)) for d in devs))
        self.answer(DONE)
        for d in devs:
            self.query(nldev(PORT_GET, REQUEST | DUMP, u32(DEV_INDEX, d["index"])))
            self.answer(nldev(PORT_GET, MULTI, self.port(d)))
            self.answer(DONE)
            self.query(nldev(GET_CHARDEV, REQUEST, u32(DEV_INDEX, d["index"]) + text(CHARDEV_TYPE, "uverbs")))
            self.answer(nldev(GET_CHARDEV, 0, self.chardev(d)))
        if not mode:
            return
        self.query(nldev(SYS_GET, REQUEST, b""))
        self.answer(nldev(SYS_GET, 0, u8(NETNS_MODE, 1)))

    def objects(self, cmd, index, *answers):
        self.query(nldev(cmd, REQUEST | DUMP, u32(DEV_INDEX, index)))
        for a in answers:
            self.answer(nldev(cmd, MULTI, u32(DEV_INDEX, index) + a))
        self.answer(DONE)

    def qps(self, index, *owners):
        """The queue pairs of a device in two messages, as the kernel sends a list that does not fit into one. owners, one for each queue
        pair: the PID of a process, the name of a kernel module, or None for a process that the kernel does not show."""
        v = [nest(QP_ENTRY, u32(LQPN, 16 + i), u8(RES_TYPE, 2), u8(RES_STATE, 3),
                  text(KERN_NAME, o) if isinstance(o, str) else u32(PID, o) if o else b"") for i, o in enumerate(owners)]
        self.objects(QP_GET, index, nest(QP, *v[:1]), nest(QP, *v[1:]))

    def contexts(self, index, *pids):
        if pids == (None,):  # before Linux 5.13
            query = nldev(CTX_GET, REQUEST | DUMP, u32(DEV_INDEX, index))
            self.query(query)
            self.answer(struct.pack("<IHHIIi", 20 + len(query), 2, 0, 0, 0, -95) + query)
        else:
            self.objects(CTX_GET, index, nest(CTX, *[nest(CTX_ENTRY, u32(CTXN, i), u32(PID, pid)) for i, pid in enumerate(pids)]))

    def views(self, devs):
        """The requests of `unirail rdma dev`, `link`, `system` and `statistic`, and the kernel's answers."""
        self.query(nldev(GET, REQUEST | DUMP, b""))
        self.answer(b"".join(nldev(GET, MULTI, self.device(d)) for d in devs))
        self.answer(DONE)
        for d in devs:
            self.query(nldev(PORT_GET, REQUEST | DUMP, u32(DEV_INDEX, d["index"])))
            self.answer(nldev(PORT_GET, MULTI, self.port(d)))
            self.answer(DONE)
        self.query(nldev(SYS_GET, REQUEST, b""))
        self.answer(nldev(SYS_GET, 0, u8(NETNS_MODE, 0) + u8(COPY_ON_FORK, 1)))
        self.query(nldev(STAT_GET, REQUEST, u32(DEV_INDEX, 0) + u32(PORT_INDEX, 1)))
        counters = b"".join(attr(COUNTER, text(COUNTER_NAME, name) + u64(COUNTER_VALUE, value))
                            for name, value in (("out_of_sequence", 7), ("rx_write_requests", 1 << 40)))
        self.answer(nldev(STAT_GET, 0, self.handle(devs[0]) + u32(PORT_INDEX, 1) + attr(COUNTERS, counters)))

    def statistic(self, kind, index, port, *answers, mode=None):
        """Counters of queue pairs or of memory regions, or, if mode is given, the criterion by which the port assigns queue pairs to
        counters."""
        place = u32(DEV_INDEX, index) + (u32(PORT_INDEX, port) if port else b"")
        more = u32(STAT_MODE, 2) if mode is not None else b""
        self.query(nldev(STAT_GET, REQUEST | (DUMP if mode is None else 0), place + more + u32(STAT_RES, kind)))
        flags = MULTI if mode is None else 0
        for a in answers if mode is None else [u32(PORT_INDEX, port) + mode]:
            self.answer(nldev(STAT_GET, flags, u32(DEV_INDEX, index) + text(DEV_NAME, f"mlx5_{index}") + a))
        if mode is None:
            self.answer(DONE)

    def counters(self, **values):
        return nest(COUNTERS, *[nest(COUNTER, text(COUNTER_NAME, name), u64(COUNTER_VALUE, v)) for name, v in values.items()])

    def handle(self, d):
        return u32(DEV_INDEX, d["index"]) + text(DEV_NAME, d["name"])

    def device(self, d):
        return (self.handle(d) + u32(PORT_INDEX, 1) + u64(CAP_FLAGS, 0x1925051636) +
                (text(FW, d["fw"]) if d["fw"] else b"") + u64(NODE_GUID, d["guid"]) + u64(SYS_GUID, d["guid"]) +
                u8(TYPE, 1) + u8(DIM, 1) + text(PROTOCOL, d["protocol"]))

    def port(self, d):
        ib = b""
        if d["protocol"] == "ib":
            ib = u64(CAP_FLAGS, 0x2659e848) + u64(PREFIX, 0xFE80 << 48) + u32(LID, d["lid"]) + u32(SM_LID, 1) + u8(LMC, 0)
        netdev = u32(NDEV_INDEX, d["ifindex"]) + text(NDEV_NAME, d["netdev"]) if d["netdev"] else b""
        return self.handle(d) + u32(PORT_INDEX, 1) + ib + u8(STATE, d["state"]) + u8(PHYS, d["phys"]) + netdev

    def chardev(self, d):
        return (u32(DRIVER_ID, d["driver"]) + u64(CHARDEV, 231 << 8 | 192 + d["index"]) + u64(CHARDEV_ABI, 1) +
                text(CHARDEV_NAME, f"uverbs{d['index']}"))


def mlx5(i):
    """Device i of eight with one port each: 0 to 5 are RoCE and up, 6 is InfiniBand, 7 has no cable and its netdev is in a pod."""
    d = {"index": i, "name": f"mlx5_{i}", "fw": "28.39.3560", "guid": 0xA088C20300E00000 + i, "driver": MLX5,
         "protocol": "roce", "state": 4, "phys": 5, "netdev": f"ens{i}f0np0", "ifindex": 10 + i, "lid": 0}
    if i == 6:
        d.update(protocol="ib", netdev=None, lid=37)
    if i == 7:
        d.update(state=1, phys=3, netdev=None)
    return d


host = Host("eight ConnectX-7")
host.devices([mlx5(i) for i in range(8)])
host.write("rdma_mlx5.nl")


def rxe(i, **more):
    return {"index": i, "name": f"rxe{i}", "fw": "", "guid": 0x505400FFFE123400 + i, "driver": RXE, "protocol": "roce", "state": 4,
            "phys": 5, "netdev": f"eth{i}", "ifindex": 2 + i, **more}


host = Host("two soft-RoCE devices")
host.devices([rxe(0), rxe(1)])
host.write("rdma_rxe.nl")

host = Host("queue pairs of the kernel and of processes 101 and 202, devices opened by these, 303 and 404")
host.devices([rxe(0), rxe(1, state=1, phys=3)], mode=False)
host.qps(0, "ib_core", 202, 101, 101)
host.qps(1, 101)
host.contexts(0, 101, 202, 303)
host.contexts(1, 404)
host.write("rdma_users.nl")

host = Host("queue pairs of processes of another PID namespace; a kernel that does not list contexts")
host.devices([rxe(0)], mode=False)
host.qps(0, "ib_core", None, 101)
host.contexts(0, None)
host.write("rdma_users_hidden.nl")

host = Host("the kernel's own queue pairs only; a kernel that does not list contexts")
host.devices([rxe(0)], mode=False)
host.qps(0, "ib_core")
host.contexts(0, None)
host.write("rdma_users_none.nl")

host = Host("three of eight ConnectX-7, exclusive mode")
host.views([mlx5(i) for i in (0, 6, 7)])
host.write("rdma_view.nl")

# iproute2 6.1's rdma printed these answers as tests/unit/cli/test_rdma_show.c expects.
host = Host("counters of queue pairs and of memory regions of a ConnectX-7 with two ports")
hardware = host.counters(rx_write_requests=1 << 40, out_of_sequence=7)


def counted(number, *qps, by=b""):
    return nest(STAT_ENTRY, u32(PORT_INDEX, 1), u32(STAT_ID, number), by,
                nest(QP, *[nest(QP_ENTRY, u32(LQPN, n)) for n in qps]), hardware)


host.statistic(QP, 0, 1, nest(STAT, counted(4, 178, 179, by=u32(PID, 101) + u8(RES_TYPE, 2))),
               nest(STAT, counted(5, by=text(KERN_NAME, "ib_core")), counted(6, 178, by=u8(RES_TYPE, 15))))
host.statistic(QP, 0, 2, nest(STAT))
host.statistic(QP, 0, 1, mode=u32(STAT_MODE, 1) + u32(AUTO_MASK, 3))
host.statistic(QP, 0, 2, mode=u32(STAT_MODE, 2))
host.statistic(MR, 0, 0, nest(MR, nest(MR_ENTRY, u32(MRN, 3), hardware), nest(MR_ENTRY, u32(MRN, 4))))
host.write("rdma_stat.nl")
