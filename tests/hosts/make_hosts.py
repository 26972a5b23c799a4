#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the *.tree files beside this file: hosts that were not at hand, composed from the kernel's documented sysfs."""
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

# Two ports of a ConnectX-7 behind a PCIe switch; 12 VFs on the first (virtfn10 sorts before virtfn2), one in vfio-pci.
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
# A scalable function, an auxiliary device with its own children, and one that only drives RDMA.
for aux in ("mlx5_core.sf.4", "mlx5_core.rdma.0"):
    h.link(f"/sys/bus/auxiliary/devices/{aux}", f"../../../devices/{switch}/0000:3d:00.0/{aux}")
h.netdev(f"{pf0}/mlx5_core.sf.4", "ens1f0s4")
h.file(f"{pf0}/mlx5_core.rdma.0/uevent", "")
# A GPU under the same switch, a disk elsewhere: what is near.
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

# switchdev mode (Documentation/networking/representors.rst): the PF's folder lists the ports of its switch, p0 itself among
# them, and some sort before it; the VFs' own netdevs stand in their folders. One VF is with vfio-pci, one in a pod.
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

# The PF itself is handed to user space: it has neither netdev nor RDMA device, and its VFs keep their numbers.
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

# InfiniBand again, with two VFs of which one is with vfio-pci; what the PF tells of their GUIDs is tests/replay/vf_ib.nl.
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
