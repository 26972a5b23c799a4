#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes hw_*.tree beside this file: nodes before `unirail host` prepared them, composed from the kernel's documented sysfs, PCI Express
and include/uapi/linux/dcbnl.h. hw_*.steps has the steps that they need (tests/unit/host/test_host_hw.c)."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "replay"))
from make_dcb import GET, IEEE_GET, apps, attr, buffers, ets, maxrate, nest, pfc, text, u8  # noqa: E402
from make_vf import REQUEST, Talk, ack, message  # noqa: E402

CX7, CX7_VF, BF3, MLX, NVIDIA = 0x1021, 0x101E, 0xA2DC, 0x15B3, 0x10DE


def config(acs=None, devctl=0x2930):
    """Configuration space: PCI Express at 0x60, ACS at 0x100."""
    p = bytearray(0x110)
    p[0x06], p[0x34] = 0x10, 0x60
    p[0x60] = 0x10
    struct.pack_into("<H", p, 0x68, devctl)
    if acs is not None:
        struct.pack_into("<HHHH", p, 0x100, 0x000D, 0x0001, 0x005F, acs)
    return bytes(p)


class Host:
    def __init__(self, what, release="6.8.0-85-generic"):
        self.lines = [f"# {what}; composed by make_hw.py, not recorded"]
        self.dcb = Talk("route", "DCB of each port, by PCI address")
        self.file("/unirail/about", "composed by make_hw.py")
        self.file("/proc/sys/kernel/osrelease", release)
        self.bridges = set()

    def file(self, path, value):
        self.lines.append(f"{path} = {value}")

    def binary(self, path, value):
        self.lines.append(f"{path} = " + "".join(chr(c) if 0x20 < c < 0x7F and c != 0x5C else f"\\x{c:02x}" for c in value) + "\\c")

    def link(self, path, target):
        self.lines.append(f"{path} -> {target}")

    def text(self, path, lines):
        self.lines.append(f"{path} :")
        self.lines += [f"\t{line}" for line in lines]

    def function(self, chain, driver, device, klass, vendor=MLX, **attributes):
        bdf, at = chain.rsplit("/", 1)[1], f"/sys/devices/{chain}"
        self.link(f"/sys/bus/pci/devices/{bdf}", f"../../../devices/{chain}")
        for name, value in {"vendor": f"0x{vendor:04x}", "device": f"0x{device:04x}", "class": f"0x{klass:06x}", **attributes}.items():
            self.file(f"{at}/{name}", value)
        if driver:
            self.link(f"{at}/driver", "../" * (chain.count("/") + 2) + f"bus/pci/drivers/{driver}")
        return at

    def bridge(self, chain, acs):
        if chain not in self.bridges:
            self.bridges.add(chain)
            self.binary(self.function(chain, "pcieport", 0xC030, 0x060400, 0x1000) + "/config", config(acs))

    def netdev(self, at, name, **attributes):
        for key, value in attributes.items():
            self.file(f"{at}/net/{name}/{key}", value)
        self.link(f"{at}/net/{name}/device", "../../../" + at.rsplit('/', 1)[1])
        self.link(f"/sys/class/net/{name}", f"../..{at[4:]}/net/{name}")

    def rdma(self, at, name, layer="Ethernet", guid="a088:c203:0000:0001"):
        self.link(f"{at}/infiniband/{name}/device", "../../../" + at.rsplit('/', 1)[1])
        self.file(f"{at}/infiniband/{name}/ports/1/link_layer", layer)
        self.file(f"{at}/infiniband/{name}/node_guid", guid)
        self.link(f"/sys/class/infiniband/{name}", f"../..{at[4:]}/infiniband/{name}")

    def modules(self, *loaded, available=("ib_umad", "rdma_ucm", "ib_ipoib"), release="6.8.0-85-generic"):
        for name in loaded:
            self.file(f"/sys/module/{name}/refcnt", 0)
        self.text(f"/lib/modules/{release}/modules.dep", [f"kernel/drivers/infiniband/{m.replace('_', '-')}.ko.zst:" for m in available])

    def port_dcb(self, name, enabled=0, dscp=(), peer=None, dcbx=9):
        def request(flags, *attrs):
            return message(GET, flags, struct.pack("<BBH", 0, IEEE_GET, 0) + text(1, name) + b"".join(attrs))
        self.dcb.query(request(REQUEST))
        answer = [ets([0] * 8, [255] * 8, range(8)), maxrate(*[0] * 8), pfc(enabled), apps([(5, p, d) for d, p in dscp]),
                  buffers([0] * 8, [163840, 98176] + [0] * 6)]
        if peer is not None:
            answer.append(attr(5, pfc(peer)[4:]))
        self.dcb.answer(request(0, nest(13, *answer), u8(14, dcbx)))

    def no_dcb(self, name):
        request = message(GET, REQUEST, struct.pack("<BBH", 0, IEEE_GET, 0) + text(1, name))
        self.dcb.query(request)
        self.dcb.answer(ack(request, -95))

    def write(self, name):
        if len(self.dcb.lines) > 2:
            self.text("/unirail/netlink/dcb.nl", self.dcb.lines)
        (HERE / f"hw_{name}.tree").write_text("\n".join(self.lines) + "\n")


def ecn(h, name, enabled=(), cnp_dscp=46):
    at = f"/sys/class/net/{name}/ecn"
    for point in ("roce_np", "roce_rp"):
        for prio in range(8):
            h.file(f"{at}/{point}/enable/{prio}", int(prio in enabled))
    h.file(f"{at}/roce_np/cnp_dscp", cnp_dscp)
    h.file(f"{at}/roce_np/cnp_802p_prio", 6)


def rail(h, i, switch, gpu=True, device=CX7, **more):
    """A switch with two downstream ports: a NIC below the first and, if gpu is true, a GPU below the second."""
    h.bridge(f"{switch}", 0x0000)
    for port in ("02:04.0", "02:08.0"):
        h.bridge(f"{switch}/{bdf_at(i, port)}", 0x001D)
    nic = h.function(f"{switch}/{bdf_at(i, '02:04.0')}/{bdf_at(i, '03:00.0')}", "mlx5_core", device, 0x020000, sriov_totalvfs=16,
                     sriov_numvfs=0, **more)
    h.binary(f"{nic}/config", config())
    if gpu:
        at = h.function(f"{switch}/{bdf_at(i, '02:08.0')}/{bdf_at(i, '04:00.0')}", "nvidia", 0x2330, 0x030200, NVIDIA)
        h.text(f"{at}/resource", ["0x0000000000000000 0x0000000000ffffff 0x0000000000040200",
                                  "0x0000100000000000 0x0000101fffffffff 0x000000000014220c"])
    return nic


def bdf_at(i, rest):
    bus, slot = rest.split(":")
    return f"0000:{0x10 * (i + 1) + int(bus, 16):02x}:{slot}"


def eight_ofed():
    h = Host("eight rails with RoCE and NVIDIA's driver, a GPU each; a storage NIC elsewhere")
    h.file("/proc/sys/net/ipv4/tcp_ecn", 2)
    h.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15")
    h.file("/sys/kernel/iommu_groups/7/type", "identity")
    h.modules("nvidia", "ib_umad", available=("ib_umad", "rdma_ucm", "ib_ipoib", "nvidia_peermem"))
    for i in range(8):
        nic = rail(h, i, f"pci0000:{0x10 * (i + 1):02x}/{bdf_at(i, '01:00.0')}")
        h.netdev(nic, f"ens{i + 1}np0")
        h.rdma(nic, f"mlx5_{i}", guid=f"a088:c203:0000:000{i}")
        ecn(h, f"ens{i + 1}np0", enabled=(5,) if i == 7 else (), cnp_dscp=48 if i == 7 else 46)
        h.file(f"/sys/class/net/ens{i + 1}np0/qos/trust", "dscp" if i == 7 else "pcp")
        h.file(f"{nic}/infiniband/mlx5_{i}/tc/1/traffic_class", "Global tclass=160" if i == 7 else "\\c")
        h.port_dcb(f"ens{i + 1}np0", enabled=1 << 5 if i == 7 else 0)
    store = h.function("pci0000:00/0000:00:03.0/0000:05:00.0", "mlx5_core", CX7, 0x020000)
    h.binary(f"{store}/config", config(devctl=0x5930))
    h.netdev(store, "ens9np0")
    h.rdma(store, "mlx5_8")
    ecn(h, "ens9np0")
    h.file(f"{store}/infiniband/mlx5_8/tc/1/traffic_class", "\\c")
    h.file("/sys/class/net/ens9np0/qos/trust", "pcp")
    # the requests are recorded in the order of PCI addresses, so those for the storage NIC come first
    h.dcb.lines[2:] = [line for line in _storage_dcb()] + h.dcb.lines[2:]
    h.write("eight_ofed")


def _storage_dcb():
    h = Host("")
    h.port_dcb("ens9np0")
    return h.dcb.lines[2:]


def inbox():
    h = Host("two rails with RoCE and the kernel's own driver, ECN by debugfs where it has it", "6.12.57+deb12-amd64")
    h.file("/proc/sys/net/ipv4/tcp_ecn", 1)
    h.file("/proc/1822/comm", "lldpad")
    h.modules("ib_umad", release="6.12.57+deb12-amd64", available=("ib_umad", "ib_ipoib"))
    for i in range(2):
        nic = rail(h, i, f"pci0000:{0x10 * (i + 1):02x}/{bdf_at(i, '01:00.0')}", gpu=False)
        h.netdev(nic, f"ens{i + 1}f0np0")
        h.rdma(nic, f"mlx5_{i}")
        h.file(f"/sys/kernel/debug/mlx5/{bdf_at(i, '03:00.0')}/cc_params/np_cnp_dscp", 48)
        h.file(f"/sys/kernel/config/rdma_cm/mlx5_{i}/ports/1/default_roce_mode", "IB/RoCE v1" if i else "RoCE v2")
        h.file(f"/sys/kernel/config/rdma_cm/mlx5_{i}/ports/1/default_roce_tos", 0 if i else 160)
        # the first NIC has the intended QoS settings, except that DSCP 40 has the wrong priority and that the switch announces PFC for
        # another priority; the firmware of the second runs DCBX
        h.port_dcb(f"ens{i + 1}f0np0", enabled=0 if i else 1 << 5, dcbx=0 if i else 9, peer=None if i else 1 << 3,
                   dscp=() if i else [(d, 2 if d == 40 else d >> 3) for d in range(64)])
    h.write("inbox")


def infiniband():
    h = Host("an InfiniBand HCA with two VFs, one of them in a pod")
    h.modules("ib_umad", "rdma_ucm")
    h.file("/etc/machine-id", "5b9e4a3d1c0f4e2a8d7c6b5a49382716")
    switch = "pci0000:17/0000:17:00.0"
    h.bridge(switch, 0x001D)
    pf = h.function(f"{switch}/0000:18:00.0", "mlx5_core", CX7, 0x020700, sriov_totalvfs=8, sriov_numvfs=2)
    h.binary(f"{pf}/config", config())
    h.netdev(pf, "ibs1")
    h.rdma(pf, "mlx5_0", "InfiniBand", "a088:c203:0016:051c")
    for i in (1, 2):
        at = h.function(f"{switch}/0000:18:00.{i}", "mlx5_core", CX7_VF, 0x020700)
        h.link(f"{at}/physfn", "../0000:18:00.0")
        h.link(f"{pf}/virtfn{i - 1}", f"../0000:18:00.{i}")
        if i == 1:
            h.netdev(at, "ibs1v0")
            h.rdma(at, "mlx5_1", "InfiniBand", "0000:0000:0000:0000")
    h.text("/unirail/firmware/0000:18:00.0", ["LINK_TYPE_P1    IB(1)    IB(1)    IB(1)"])
    h.file("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
           '{"Data":{"PodDeviceEntries":[{"PodUID":"3c9f","ContainerName":"c","ResourceName":"unirail.io/ib",'
           '"DeviceIDs":{"0":["0000:18:00.2"]},"AllocResp":""}],"RegisteredDevices":{}},"Checksum":1}')
    h.write("infiniband")


def bluefield():
    h = Host("a BlueField-3 with two ports, one still InfiniBand, and a card whose change waits for a power cycle")
    h.modules("ib_umad", "rdma_ucm")
    switch = "pci0000:80/0000:80:01.0"
    h.bridge(switch, 0)
    for port in (0, 1):
        pf = h.function(f"{switch}/0000:81:00.{port}", "mlx5_core", BF3, 0x020000 if port == 0 else 0x020700)
        h.binary(f"{pf}/config", config(devctl=0x5920))
        h.netdev(pf, "ens3f0np0" if port == 0 else "ibs3f1")
        h.rdma(pf, f"mlx5_{port}", "Ethernet" if port == 0 else "InfiniBand")
    h.port_dcb("ens3f0np0", dscp=[(26, 3)])
    h.text("/unirail/firmware/0000:81:00.0", ["LINK_TYPE_P1    IB(1)    ETH(2)    ETH(2)", "LINK_TYPE_P2    IB(1)    IB(1)    IB(1)"])
    pf = h.function("pci0000:90/0000:90:01.0/0000:91:00.0", "mlx5_core", CX7, 0x020700)
    h.rdma(pf, "mlx5_2", "InfiniBand")
    h.text("/unirail/firmware/0000:91:00.0", ["LINK_TYPE_P1    IB(1)    IB(1)    ETH(2)"])
    h.write("bluefield")


def bond():
    h = Host("two ports of one card in a bond: one RDMA device, on the first port")
    h.modules("ib_umad", "rdma_ucm")
    switch = "pci0000:3a/0000:3a:01.0"
    h.bridge(switch, 0x0001)
    for port in (0, 1):
        pf = h.function(f"{switch}/0000:3b:00.{port}", "mlx5_core", CX7, 0x020000)
        h.binary(f"{pf}/config", config(devctl=0x5930))
        h.netdev(pf, f"ens1f{port}np{port}")
        h.link(f"/sys/devices/{switch}/0000:3b:00.{port}/net/ens1f{port}np{port}/master", "../../../../../../virtual/net/bond0")
        if port == 0:
            h.rdma(pf, "mlx5_bond_0")
        h.port_dcb(f"ens1f{port}np{port}", enabled=1 << 5, dscp=[(d, d >> 3) for d in range(64)])
    h.write("bond")


def vm():
    h = Host("a virtual machine without RDMA", "6.1.0-40-amd64")
    at = h.function("pci0000:00/0000:00:03.0", "virtio-pci", 0x1000, 0x020000, 0x1AF4)
    h.binary(f"{at}/config", config()[:0x100])
    h.write("vm")


if __name__ == "__main__":
    for make in (eight_ofed, inbox, infiniband, bluefield, bond, vm):
        make()
