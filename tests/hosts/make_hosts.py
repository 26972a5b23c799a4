#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes mlx5_*, qemu_igb, eight_*, multi_port, no_rdma and vfs.tree beside this file: hosts that were not available for recording,
composed from the kernel's documentation of sysfs."""
import pathlib

HERE = pathlib.Path(__file__).parent


class Host:
    def __init__(self, what):
        self.lines = [f"# {what}; composed by make_hosts.py, not recorded"]

    def file(self, path, text):
        self.lines.append(f"{path} = {text}")

    def link(self, path, target):
        self.lines.append(f"{path} -> {target}")

    def function(self, chain, driver, ids, klass, numa=0, group=None):
        bdf = chain.rsplit("/", 1)[1]
        at = f"/sys/devices/{chain}"
        self.link(f"/sys/bus/pci/devices/{bdf}", f"../../../devices/{chain}")
        for name, value in zip(("vendor", "device", "subsystem_vendor", "subsystem_device"), ids):
            self.file(f"{at}/{name}", f"0x{value:04x}")
        self.file(f"{at}/class", f"0x{klass:06x}")
        self.file(f"{at}/numa_node", numa)
        self.file(f"{at}/driver_override", "(null)")
        if driver:
            up = "../" * (chain.count("/") + 2)
            self.link(f"{at}/driver", f"{up}bus/pci/drivers/{driver}")
        if group is not None:
            self.link(f"{at}/iommu_group", f"/sys/kernel/iommu_groups/{group}")
        return at

    def netdev(self, at, name, **attributes):
        for key, value in attributes.items():
            self.file(f"{at}/net/{name}/{key}", value)
        self.link(f"{at}/net/{name}/device", "../../../" + at.rsplit('/', 1)[1])
        self.link(f"/sys/class/net/{name}", f"../..{at[4:]}/net/{name}")

    def rdma(self, at, name, uverbs, umad=None, layer="Ethernet"):
        self.link(f"{at}/infiniband/{name}/device", "../../../" + at.rsplit('/', 1)[1])
        self.file(f"{at}/infiniband/{name}/ports/1/link_layer", layer)
        self.link(f"/sys/class/infiniband/{name}", f"../..{at[4:]}/infiniband/{name}")
        self.file(f"{at}/infiniband_verbs/{uverbs}/ibdev", name)
        self.link(f"/sys/class/infiniband_verbs/{uverbs}", f"../..{at[4:]}/infiniband_verbs/{uverbs}")
        if umad:
            self.file(f"{at}/infiniband_mad/{umad}/ibdev", name)

    def port(self, at, name, state, rate, *gids):
        """gids: (index, GID, type, netdev)"""
        port = f"{at}/infiniband/{name}/ports/1"
        self.file(f"{port}/state", state)
        self.file(f"{port}/rate", rate)
        for index, gid, kind, netdev in gids:
            self.file(f"{port}/gids/{index}", gid)
            if kind:
                self.file(f"{port}/gid_attrs/types/{index}", kind)
                self.file(f"{port}/gid_attrs/ndevs/{index}", netdev)

    def pf(self, at, total, vfs):
        self.file(f"{at}/sriov_totalvfs", total)
        self.file(f"{at}/sriov_numvfs", len(vfs))
        for i, vf in enumerate(vfs):
            self.link(f"{at}/virtfn{i}", f"../{vf}")

    def bus(self, *drivers):
        self.file("/sys/bus/pci/drivers_probe", "")
        for d in drivers:
            self.file(f"/sys/bus/pci/drivers/{d}/bind", "")
            self.file(f"/sys/bus/pci/drivers/{d}/unbind", "")

    def write(self, name):
        (HERE / name).write_text("\n".join(self.lines) + "\n")


CX7, CX7_VF, MLX = 0x1021, 0x101E, 0x15B3

# Two ports of a ConnectX-7 behind a PCIe switch; 12 VFs on the first (virtfn10 sorts before virtfn2), one of them bound to vfio-pci.
h = Host("dual-port ConnectX-7 with RoCE")
h.bus("mlx5_core", "vfio-pci")
switch = "pci0000:3a/0000:3a:01.0/0000:3b:00.0/0000:3c:04.0"
pf0 = h.function(f"{switch}/0000:3d:00.0", "mlx5_core", (MLX, CX7, MLX, 0x0041), 0x020000, 1, 40)
pf1 = h.function(f"{switch}/0000:3d:00.1", "mlx5_core", (MLX, CX7, MLX, 0x0041), 0x020000, 1, 41)
vfs = [f"0000:3d:{i // 8:02x}.{i % 8}" for i in range(2, 14)]
h.pf(pf0, 16, vfs)
h.pf(pf1, 16, [])
h.netdev(pf0, "ens1f0np0")
h.netdev(pf1, "ens1f1np1")
h.rdma(pf0, "mlx5_0", "uverbs0", "umad0")
h.rdma(pf1, "mlx5_1", "uverbs1", "umad1")
for i, vf in enumerate(vfs):
    at = h.function(f"{switch}/{vf}", "vfio-pci" if i == 3 else "mlx5_core", (MLX, CX7_VF, MLX, 0x0041), 0x020000, 1, 50 + i)
    h.link(f"{at}/physfn", "../0000:3d:00.0")
    if i != 3:
        h.netdev(at, f"ens1f0v{i}")
        h.rdma(at, f"mlx5_{2 + i}", f"uverbs{2 + i}")
# Two auxiliary devices: a scalable function, which has a netdev below, and one that only drives RDMA.
for aux in ("mlx5_core.sf.4", "mlx5_core.rdma.0"):
    h.link(f"/sys/bus/auxiliary/devices/{aux}", f"../../../devices/{switch}/0000:3d:00.0/{aux}")
h.netdev(f"{pf0}/mlx5_core.sf.4", "ens1f0s4")
h.file(f"{pf0}/mlx5_core.rdma.0/uevent", "")
# A GPU below the same switch, and a disk elsewhere, to test proximity.
h.function("pci0000:3a/0000:3a:01.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0", "nvidia", (0x10DE, 0x2330, 0x10DE, 0x16C1), 0x030200, 1)
h.function("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", "nvme", (0x144D, 0xA80A, 0x144D, 0xA801), 0x010802, -1)
h.write("mlx5_roce.tree")

h = Host("ConnectX-6 with InfiniBand and two VFs")
h.bus("mlx5_core")
pf = h.function("pci0000:17/0000:17:00.0/0000:18:00.0", "mlx5_core", (MLX, 0x101B, MLX, 0x0007), 0x020700)
h.pf(pf, 8, ["0000:18:00.1", "0000:18:00.2"])
h.netdev(pf, "ibs1")
h.rdma(pf, "mlx5_0", "uverbs0", "umad0", "InfiniBand")
for i in (1, 2):
    at = h.function(f"pci0000:17/0000:17:00.0/0000:18:00.{i}", "mlx5_core", (MLX, 0x101C, MLX, 0x0007), 0x020700)
    h.link(f"{at}/physfn", "../0000:18:00.0")
    h.netdev(at, f"ibs1v{i - 1}")
    h.rdma(at, f"mlx5_{i}", f"uverbs{i}", f"umad{i}", "InfiniBand")
h.write("mlx5_ib.tree")

# q35 with pcie-root-port and igb, as QEMU 10 shows it: no IOMMU, no NUMA node.
h = Host("igb of QEMU with two VFs")
h.bus("igb", "igbvf", "vfio-pci")
pf = h.function("pci0000:00/0000:00:02.0/0000:01:00.0", "igb", (0x8086, 0x10C9, 0x8086, 0xA03C), 0x020000, -1)
h.pf(pf, 7, ["0000:01:10.0", "0000:01:10.2"])
h.netdev(pf, "eth1")
for i, vf in enumerate(("0000:01:10.0", "0000:01:10.2")):
    at = h.function(f"pci0000:00/0000:00:02.0/{vf}", "igbvf" if i == 0 else None, (0x8086, 0x10CA, 0x8086, 0xA03C), 0x020000, -1)
    h.link(f"{at}/physfn", "../0000:01:00.0")
    if i == 0:
        h.netdev(at, "eth2")
h.write("qemu_igb.tree")

# switchdev mode (Documentation/networking/representors.rst): the PF's directory lists the ports of its switch, including p0, and the other
# ports sort before p0; the netdevs of VFs are in the VFs' directories. One VF is bound to vfio-pci, one is in a pod.
h = Host("ConnectX-6 Dx in switchdev mode")
h.bus("mlx5_core", "vfio-pci")
bridge = "pci0000:80/0000:80:02.0"
pf = h.function(f"{bridge}/0000:81:00.0", "mlx5_core", (MLX, 0x101D, MLX, 0x0016), 0x020000, 0, 70)
vfs = [f"0000:81:00.{i}" for i in (2, 3, 4, 5)]
h.pf(pf, 8, vfs)
switch_id = {"phys_switch_id": "08c0eb0300a1c3b4"}
h.netdev(pf, "ens2f0np0", address="b8:ce:f6:a1:c3:b4", mtu=9000, flags="0x1003", operstate="up", ifalias="", phys_port_name="p0", **switch_id)
for i in range(4):
    h.netdev(pf, f"ens2f0{'_' if i else 'a'}{i}", address=f"02:00:00:00:00:1{i}", mtu=1500, flags="0x1002", operstate="down",
             phys_port_name=f"pf0vf{i}", **switch_id)
h.rdma(pf, "mlx5_0", "uverbs0", "umad0")
h.file(f"{pf}/infiniband/mlx5_0/node_guid", "b8ce:f603:00a1:c3b4")
mapped, local = "0000:0000:0000:0000:0000:ffff:ac10:0102", "fe80:0000:0000:0000:bace:f6ff:fea1:c3b4"
h.port(pf, "mlx5_0", "4: ACTIVE", "100 Gb/sec (4X EDR)", (0, local, "IB/RoCE v1", "ens2f0np0"), (1, local, "RoCE v2", "ens2f0np0"),
       (2, mapped, "IB/RoCE v1", "ens2f0np0"), (10, mapped, "RoCE v2", "ens2f0np0"),
       (3, "0000:0000:0000:0000:0000:0000:0000:0000", None, None), (4, "fe80:0000:0000:0000:0000:0000:0000:0000", None, None))
for i, vf in enumerate(vfs):
    at = h.function(f"{bridge}/{vf}", "vfio-pci" if i == 2 else "mlx5_core", (MLX, 0x101E, MLX, 0x0016), 0x020000, 0, 71 + i)
    h.link(f"{at}/physfn", "../0000:81:00.0")
    if i < 2:
        h.netdev(at, f"ens2f0v{i}", address=f"02:00:00:00:00:2{i}", mtu=1500, flags="0x1003", operstate="up", phys_switch_id="")
        h.rdma(at, f"mlx5_{1 + i}", f"uverbs{1 + i}")
        h.port(at, f"mlx5_{1 + i}", "4: ACTIVE", "100 Gb/sec (4X EDR)")
h.write("mlx5_switchdev.tree")

# The PF itself is bound to vfio-pci: it has neither netdev nor RDMA device, but still has the links virtfnN, which number its VFs.
h = Host("ConnectX-6 Dx whose PF is with vfio-pci")
h.bus("mlx5_core", "vfio-pci")
pf = h.function("pci0000:c0/0000:c0:01.0/0000:c1:00.0", "vfio-pci", (MLX, 0x101D, MLX, 0x0016), 0x020000, 1, 80)
h.pf(pf, 8, ["0000:c1:00.2", "0000:c1:00.3"])
for i, driver in enumerate(("mlx5_core", "vfio-pci")):
    at = h.function(f"pci0000:c0/0000:c0:01.0/0000:c1:00.{2 + i}", driver, (MLX, 0x101E, MLX, 0x0016), 0x020000, 1, 81 + i)
    h.link(f"{at}/physfn", "../0000:c1:00.0")
    if i == 0:
        h.netdev(at, "rail0", address="02:00:00:00:00:30", mtu=9000, flags="0x1003", operstate="up")
        h.rdma(at, "mlx5_0", "uverbs0")
h.write("mlx5_vfio.tree")

# InfiniBand with two VFs, one of them bound to vfio-pci; the PF's answer about their GUIDs is tests/replay/vf_ib.nl.
h = Host("ConnectX-7 with InfiniBand, a VF of it with vfio-pci")
h.bus("mlx5_core", "vfio-pci")
pf = h.function("pci0000:17/0000:17:00.0/0000:19:00.0", "mlx5_core", (MLX, CX7, MLX, 0x0020), 0x020700, 0)
h.pf(pf, 4, ["0000:19:00.1", "0000:19:00.2"])
h.netdev(pf, "ibs2", address="00:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:16:05:1c", mtu=4092, flags="0x1003", operstate="up")
h.rdma(pf, "mlx5_0", "uverbs0", "umad0", "InfiniBand")
h.file(f"{pf}/infiniband/mlx5_0/node_guid", "0c42:a103:0016:051c")
h.port(pf, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", (0, "fe80:0000:0000:0000:0c42:a103:0016:051c", None, None))
for i, driver in enumerate(("mlx5_core", "vfio-pci")):
    at = h.function(f"pci0000:17/0000:17:00.0/0000:19:00.{1 + i}", driver, (MLX, CX7_VF, MLX, 0x0020), 0x020700, 0)
    h.link(f"{at}/physfn", "../0000:19:00.0")
    if i == 0:
        h.netdev(at, "ibs2v0", address="00:00:10:30:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:16:05:1d", mtu=2044, flags="0x1002",
                 operstate="down")
        h.rdma(at, "mlx5_1", "uverbs1", "umad1", "InfiniBand")
        h.port(at, "mlx5_1", "1: DOWN", "10 Gb/sec (4X SDR)", (0, "fe80:0000:0000:0000:0c42:a103:0016:051d", None, None))
h.write("mlx5_ib_vfio.tree")

# ---- hosts for device plugins (tests/resources) ----


def chars(h, at, name, uverbs, umads=(), issms=(), ucm=None):
    """Character devices of an RDMA device; umads and issms have one entry per port, or are empty."""
    h.file(f"{at}/infiniband_verbs/{uverbs}/ibdev", name)
    for mad in (*issms, *umads):
        h.file(f"{at}/infiniband_mad/{mad}/ibdev", name)
    if ucm:
        h.file(f"{at}/infiniband_cm/{ucm}/ibdev", name)


def nic(h, chain, netdev, n, numa, driver="mlx5_core", ids=(MLX, CX7, MLX, 0x0041), ib=False, pkey=None, **more):
    """A function with a netdev and the RDMA device mlx5_N."""
    at = h.function(chain, driver, ids, 0x020700 if ib else 0x020000, numa, more.pop("group", None))
    h.netdev(at, netdev, type=32 if ib else 1, **more)
    name = f"mlx5_{n}"
    h.link(f"{at}/infiniband/{name}/device", "../../../" + chain.rsplit('/', 1)[1])
    h.file(f"{at}/infiniband/{name}/ports/1/link_layer", "InfiniBand" if ib else "Ethernet")
    h.file(f"{at}/infiniband/{name}/ports/1/pkeys/0", pkey or "0xffff")
    h.link(f"/sys/class/infiniband/{name}", f"../..{at[4:]}/infiniband/{name}")
    chars(h, at, name, f"uverbs{n}", [f"umad{n}"], [f"issm{n}"] if ib else [])
    return at


def routes(h, netdev):
    h.lines += ["/proc/net/route :", "\tIface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
                f"\t{netdev}\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
                f"\t{netdev}\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0"]


def eight_rails(what, names, name):
    """Four switches per socket, with a GPU and a NIC below each; a storage NIC with a lower PCI address, and a NIC for the node's own
    network."""
    h = Host(what)
    h.file("/dev/infiniband/rdma_cm", "")
    nic(h, "pci0000:00/0000:00:03.0/0000:01:00.0", "eno1", 8, 0, ids=(MLX, 0x1015, MLX, 0x0003))
    nic(h, "pci0000:00/0000:00:04.0/0000:02:00.0", "storage0", 9, 0, ids=(MLX, 0x101D, MLX, 0x0016))
    routes(h, "eno1")
    for i in range(8):
        root, bus = 0x10 + 0x10 * i, 0x11 + 0x10 * i
        switch = f"pci0000:{root:02x}/0000:{root:02x}:01.0/0000:{bus:02x}:00.0"
        nic(h, f"{switch}/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}:00.0", names(i), i, i // 4)
        h.function(f"{switch}/0000:{bus + 1:02x}:04.0/0000:{bus + 3:02x}:00.0", "nvidia", (0x10DE, 0x2330, 0x10DE, 0x16C1), 0x030200, i // 4)
    h.write(name)


eight_rails("eight ConnectX-7, a GPU beside each, two more NICs with RDMA", lambda i: f"ens{i + 1}np0", "eight_rails.tree")
eight_rails("the same, with netdevs named by rail, from the last on", lambda i: f"rail{7 - i}", "eight_named.tree")

h = Host("eight ConnectX-7 with InfiniBand, two VFs each; a VF of rail 0 is in a pod")
h.file("/dev/infiniband/rdma_cm", "")
for i in range(8):
    bridge = f"pci0000:{0x10 + 0x10 * i:02x}/0000:{0x10 + 0x10 * i:02x}:01.0"
    bus = f"{0x11 + 0x10 * i:02x}"
    pf = nic(h, f"{bridge}/0000:{bus}:00.0", f"ib{i}", i, i // 4, ib=True, pkey="0xffff")
    h.pf(pf, 8, [f"0000:{bus}:00.{k}" for k in (1, 2)])
    for k in (1, 2):
        vf, n = f"{bridge}/0000:{bus}:00.{k}", 6 + 2 * i + k + 1
        if i == 0 and k == 1:
            at = h.function(vf, "mlx5_core", (MLX, CX7_VF, MLX, 0x0041), 0x020700, i // 4)
        else:
            at = nic(h, vf, f"ib{i}v{k - 1}", n, i // 4, ids=(MLX, CX7_VF, MLX, 0x0041), ib=True, pkey="0x8001" if k == 2 else "0xffff")
        h.link(f"{at}/physfn", f"../0000:{bus}:00.0")
h.write("eight_ib.tree")

# One PCI function, one RDMA device, two ports: umad and issm of both have the same ibdev.
h = Host("ConnectX-3 Pro with two ports")
h.file("/dev/infiniband/rdma_cm", "")
at = h.function("pci0000:80/0000:80:02.0/0000:81:00.0", "mlx4_core", (MLX, 0x1007, MLX, 0x0006), 0x028000, 1)
for port, netdev in ((1, "ib0"), (2, "ib1")):
    h.netdev(at, netdev, type=32, dev_port=port - 1)
    h.file(f"{at}/infiniband/mlx4_0/ports/{port}/link_layer", "InfiniBand")
    h.file(f"{at}/infiniband/mlx4_0/ports/{port}/pkeys/0", "0xffff")
h.link("/sys/class/infiniband/mlx4_0", f"../..{at[4:]}/infiniband/mlx4_0")
chars(h, at, "mlx4_0", "uverbs0", ["umad0", "umad1"], ["issm0", "issm1"], "ucm0")
h.write("multi_port.tree")

h = Host("a virtual machine without RDMA")
at = h.function("pci0000:00/0000:00:02.0/0000:01:00.0", "e1000e", (0x8086, 0x10D3, 0x8086, 0x0000), 0x020000, -1)
h.netdev(at, "enp1s0", type=1)
at = h.function("pci0000:00/0000:00:03.0", "virtio-pci", (0x1AF4, 0x1000, 0x1AF4, 0x0001), 0x020000, -1)
h.function("pci0000:00/0000:00:01.0", "bochs-drm", (0x1234, 0x1111, 0x1AF4, 0x1100), 0x030000, -1)
routes(h, "enp1s0")
h.write("no_rdma.tree")

# Devices for every selector: Intel with VFs for the kernel, vfio and uio; Mellanox with VFs, vDPA and scalable functions;
# accelerators. The RDMA devices of Mellanox have no umad.
h = Host("a node with VFs of every kind")
for node in ("/dev/infiniband/rdma_cm", "/dev/vhost-net"):
    h.file(node, "")
bridge = "pci0000:17/0000:17:02.0"
INTEL = 0x8086
pf = h.function(f"{bridge}/0000:18:00.0", "i40e", (INTEL, 0x158B, INTEL, 0x0002), 0x020000, 0)
h.netdev(pf, "enp24s0f0", type=1)
h.file(f"{pf}/acpi_index", 100)
drivers = ["iavf", "iavf", "vfio-pci", "vfio-pci", "igb_uio", None]
vfs = [f"0000:18:02.{i}" for i in range(6)]
h.pf(pf, 64, vfs)
for i, vf in enumerate(vfs):
    at = h.function(f"{bridge}/{vf}", drivers[i], (INTEL, 0x154C, INTEL, 0x0000), 0x020000, 0, 30 + i if drivers[i] else None)
    h.link(f"{at}/physfn", "../0000:18:00.0")
    h.file(f"{at}/acpi_index", 101 + i)
    if drivers[i] == "iavf":
        h.netdev(at, f"enp24s0f0v{i}", type=1)
    if drivers[i] == "igb_uio":
        h.file(f"{at}/uio/uio3/name", "igb_uio")
h.file("/sys/kernel/iommu_groups/33/name", "vfio-noiommu")
nic(h, f"{bridge}/0000:18:00.1", "enp24s0f1", 90, 0, driver="ice", ids=(INTEL, 0x1592, INTEL, 0x0002))
bridge = "pci0000:ae/0000:ae:02.0"
pf = h.function(f"{bridge}/0000:af:00.0", "mlx5_core", (MLX, 0x101D, MLX, 0x0016), 0x020000, 1)
h.netdev(pf, "ens4f0np0", type=1, phys_port_name="p0")
h.netdev(pf, "ens4f0r0", type=1, phys_port_name="pf0vf0")
h.link(f"{pf}/infiniband/mlx5_0/device", "../../../0000:af:00.0")
h.link("/sys/class/infiniband/mlx5_0", f"../..{pf[4:]}/infiniband/mlx5_0")
chars(h, pf, "mlx5_0", "uverbs0")
vfs = [f"0000:af:00.{i}" for i in (2, 3, 4, 5, 6)]
h.pf(pf, 16, vfs)
for i, vf in enumerate(vfs):
    ids = (MLX, CX7_VF, MLX, 0x0016)
    if i == 3:  # in a pod
        at = h.function(f"{bridge}/{vf}", "mlx5_core", ids, 0x020000, 1, 60 + i)
    else:
        at = h.function(f"{bridge}/{vf}", "mlx5_core", ids, 0x020000, 1, 60 + i)
        h.netdev(at, f"ens4f0v{i}", type=1)
        h.link(f"{at}/infiniband/mlx5_{i + 1}/device", f"../../../{vf}")
        h.link(f"/sys/class/infiniband/mlx5_{i + 1}", f"../..{at[4:]}/infiniband/mlx5_{i + 1}")
        chars(h, at, f"mlx5_{i + 1}", f"uverbs{i + 1}")
    h.link(f"{at}/physfn", "../0000:af:00.0")
for i, (vf, driver) in enumerate(((vfs[0], "vhost_vdpa"), (vfs[1], "virtio_vdpa"))):
    at = f"/sys/devices/{bridge}/{vf}/vdpa{i}"
    h.link(f"/sys/bus/vdpa/devices/vdpa{i}", f"../../../devices/{bridge}/{vf}/vdpa{i}")
    h.link(f"{at}/driver", f"../../../../../bus/vdpa/drivers/{driver}")
    if driver == "vhost_vdpa":
        h.file(f"{at}/vhost-vdpa-{i}/dev", "511:0")
for n in (4, 7):
    aux = f"mlx5_core.sf.{n}"
    h.link(f"/sys/bus/auxiliary/devices/{aux}", f"../../../devices/{bridge}/0000:af:00.0/{aux}")
    h.file(f"{pf}/{aux}/sfnum", 80 + n)
    h.netdev(f"{pf}/{aux}", f"ens4f0s{80 + n}", type=1)
    if n == 4:
        h.link(f"{pf}/{aux}/infiniband/mlx5_20/device", f"../../../{aux}")
        h.link("/sys/class/infiniband/mlx5_20", f"../..{pf[4:]}/{aux}/infiniband/mlx5_20")
        chars(h, f"{pf}/{aux}", "mlx5_20", "uverbs20")
pf = h.function("pci0000:e2/0000:e2:00.0/0000:e3:00.0", "fpga-pf", (INTEL, 0x0D5C, INTEL, 0x0000), 0x120000, 1)
h.pf(pf, 2, ["0000:e3:00.1", "0000:e3:00.2"])
for i, driver in ((1, "igb_uio"), (2, "vfio-pci")):
    at = h.function(f"pci0000:e2/0000:e2:00.0/0000:e3:00.{i}", driver, (INTEL, 0x0D5D, INTEL, 0x0000), 0x120000, 1, 120 + i)
    h.link(f"{at}/physfn", "../0000:e3:00.0")
    if driver == "igb_uio":
        h.file(f"{at}/uio/uio4/name", "igb_uio")
h.write("vfs.tree")
