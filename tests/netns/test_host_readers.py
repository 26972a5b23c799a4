# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian bring the interface up from the files that `unirail host addr` wrote: netplan together with systemd-networkd,
systemd-networkd alone, or NetworkManager. Afterwards `unirail host plan` reports nothing to do: after a boot the programs create the
state that unirail configured. The programs run in a network namespace, in a separate root directory (tests/netns/readers)."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from lab import enter, ip, ns_add, ns_del, run
from report import follow, wait
from test_host import BOOT_ID, BOTH, V4, Host

HERE = pathlib.Path(__file__).resolve().parent
# /sys is read-only, as in a container, so that the programs do not wait for udev.
CHROOT = """set -e
mount --make-rprivate /
mount -t tmpfs layers $1
mkdir $1/upper $1/work $1/root
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" $1/root
cd $1/root
mount -t proc proc proc
mount -t sysfs -o ro sys sys
mount -t tmpfs run run
mount --bind /dev dev
mkdir -p run/systemd
[ ! -e "$3/etc" ] || cp -r "$3/etc/." etc/
shift 3
"""
NETWORKD = "exec chroot . /lib/systemd/systemd-networkd\n"
READERS = {
    "netplan": "chroot . /usr/libexec/netplan/generate\n" + NETWORKD,
    "networkd": NETWORKD,
    # With these options NetworkManager configures the existing interfaces and ends; it needs no D-Bus.
    "networkmanager": "exec chroot . /usr/sbin/NetworkManager --no-daemon --configure-and-quit=initrd\n",
}


@pytest.fixture(scope="session")
def readers():
    return run([HERE / "readers"], timeout=900).stdout.strip()


@pytest.fixture
def host(tmp_path):
    h = Host(tmp_path)
    far = ns_add("far")
    # The peer of ens1 gets a namespace of its own, where it may have any address; the DHCP test runs its server there.
    h.far = far
    ip(h.ns, "link", "set", "far1", "netns", far)
    ip(far, "link", "set", "far1", "up")
    yield h
    ns_del(h.ns)
    ns_del(far)


class Reader:
    """Runs a program until the `with` block or the program itself ends."""

    def __init__(self, host, name, readers, tmp):
        self.layers, self.log = tmp / "layers", tmp / f"{name}.log"
        follow(name, self.log)
        self.layers.mkdir(exist_ok=True)
        self.command = ["unshare", "-mu", "sh", "-c", CHROOT + READERS[name], "sh", self.layers, readers, host.root]
        self.ns = host.ns

    def __enter__(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, preexec_fn=enter(self.ns), start_new_session=True)
        return self

    def output(self):
        return self.log.read_text()

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)


def boot(host):
    """Restores the state in which the kernel creates the interface, as after a boot."""
    for family in ("-4", "-6"):
        for rule in json.loads(ip(host.ns, family, "-j", "rule")):
            if rule["priority"] in (32764, 32765):
                ip(host.ns, family, "rule", "del", "priority", str(rule["priority"]))
    ip(host.ns, "addr", "flush", "dev", "ens1")
    ip(host.ns, "link", "set", "ens1", "down", "mtu", "1500")
    ip(host.ns, "route", "flush", "dev", "ens1")


def prepared(host, reader):
    p = host.call("plan")
    assert reader.process.poll() in (None, 0), reader.output()
    return p.stdout == "nothing to do\n"


@pytest.mark.parametrize("args", [V4, BOTH, [*V4[:4], "--rdma-default-route", "--rdma-subnet", "172.16.0.0/16", "--mtu", "9000"]],
                         ids=["policy-route", "both-families", "default-route"])
@pytest.mark.parametrize("name", READERS)
def test_interface_is_brought_up_from_the_file(host, readers, tmp_path, name, args):
    host.ok("addr", "ens1", *args, "--persist", name)
    boot(host)
    assert host.call("plan").returncode == 3
    with Reader(host, name, readers, tmp_path) as reader:
        try:
            wait(lambda: prepared(host, reader), f"{name} configures the interface", 60)
        except AssertionError:
            pytest.fail(f"{host.call('plan').stdout}\n{host.call('plan').stderr}\n{reader.output()}\n{ip(host.ns, 'addr')}")
    assert json.loads(ip(host.ns, "-j", "link", "show", "ens1"))[0]["mtu"] == int(args[-1])


@pytest.mark.parametrize("name", READERS)
def test_interface_gets_its_address_by_dhcp(host, readers, tmp_path, name):
    ip(host.far, "addr", "add", "172.16.1.1/24", "dev", "far1")
    conf = tmp_path / "udhcpd.conf"
    conf.write_text(f"start 172.16.1.77\nend 172.16.1.77\ninterface far1\nlease_file {tmp_path}/leases\npidfile {tmp_path}/pid\n"
                    "option subnet 255.255.255.0\noption router 172.16.1.1\n")
    (tmp_path / "leases").write_text("")
    host.ok("addr", "--persist", name, env={"INTERFACE": "ens1", "DHCP4": "true", "MTU": "4200"})
    boot(host)
    with subprocess.Popen([f"{readers}/bin/busybox", "udhcpd", "-f", conf], preexec_fn=enter(host.far),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            with Reader(host, name, readers, tmp_path) as reader:
                try:
                    wait(lambda: "172.16.1.77/24" in ip(host.ns, "addr", "show", "ens1") and prepared(host, reader),
                         f"{name} configures the address", 60)
                except AssertionError:
                    pytest.fail(f"{host.call('plan').stdout}\n{reader.output()}\n{ip(host.ns, 'addr')}")
        finally:
            server.terminate()


BOND = ["--bond-ports", "ens1,ens2", "--ipv4-ip", "172.16.1.10/24", "--ipv4-gateway", "172.16.1.1", "--policy-route", "--mtu", "4200"]
# The kernel may have no bonding driver, so the test checks what the programs print about the bond's files, instead of the bond.
READ_BACK = {
    "netplan": "chroot . /usr/libexec/netplan/generate\ncat run/systemd/network/*\n",
    # networkd logs each setting that it cannot parse. After that it logs either that the kernel has no bonding or that the bond is ready.
    "networkd": "cat etc/systemd/network/*\n" + NETWORKD,
    "networkmanager": "cat etc/NetworkManager/system-connections/*\n"
                      "exec chroot . /usr/sbin/NetworkManager --debug --configure-and-quit=initrd --log-level=INFO\n",
}
BOND_MESSAGES = {
    "netplan": ["Kind=bond", "Mode=802.3ad", "MIIMonitorSec=100ms", "TransmitHashPolicy=layer3+4", "Bond=bond7", "MTUBytes=4200",
                "Address=172.16.1.10/24", "Table=151"],
    "networkd": ["bond7: netdev"],
    "networkmanager": ["bond7/bond", "auto-activating connection 'unirail-bond7'", "auto-activating connection 'unirail-ens1'",
                       "auto-activating connection 'unirail-ens2'"],
}
BOND_FAULTS = {"netplan": ["rror"], "networkd": ["Unknown", "Invalid", "Failed to parse", "ignoring"], "networkmanager": ["keyfile: load"]}


@pytest.mark.parametrize("name", READ_BACK)
def test_bond_file_is_parsed_without_errors(host, readers, tmp_path, monkeypatch, name):
    host.put("/etc/hostname", "node1\n")
    # without boot_id in the root directory, unirail does not treat the root as the running host, and only writes files
    (host.root / BOOT_ID.lstrip("/")).unlink()
    host.call("addr", "bond7", *BOND, "--persist", name)
    monkeypatch.setitem(READERS, name, READ_BACK[name])
    ip(host.ns, "link", "add", "ens2", "type", "veth", "peer", "name", "far2")
    with Reader(host, name, readers, tmp_path) as reader:
        wait(lambda: all(w in reader.output() for w in BOND_MESSAGES[name]) or reader.process.poll() not in (None, 0),
             f"{name} reports the bond", 60)
        output = reader.output()
    for word in BOND_MESSAGES[name]:
        assert word in output, output
    for fault in BOND_FAULTS[name]:
        assert fault not in output, output
