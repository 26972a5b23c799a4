# SPDX-License-Identifier: Apache-2.0
"""The part of side_by_side.py's table for plugins that change links, and for chains of plugins."""
import dataclasses
import platform

from side_by_side import (CONF, DNS, KNOWN, MAC, MAC2, MAC3, MISSING, NETNS, POD_DIR, WORK_DIR, add, chain, host_local,
                          macvlan, refused, static)

# --- macvlan ---

V4, V6 = "172.16.1.20/24 172.16.1.1", "fd16::20/64 fd16::1"
DEFAULT = [{"dst": "0.0.0.0/0"}]
# Debian 13 builds the same version of the plugins, 1.1.1, with a netlink library that reports a default route as 0.0.0.0/0, but macvlan
# searches for a route without a destination.
NO_DEFAULT_ROUTE = {"*": "Debian 13's build does not find the default route"}
IS_DEBIAN_13 = platform.freedesktop_os_release().get("VERSION_CODENAME") == "trixie"


def macvlans():
    for mode in ("bridge", "private", "vepa", "passthru", ""):
        add(f"macvlan-mode-{mode or 'empty'}", chain(macvlan([V4], mode=mode, mac=MAC)))
    for mtu in (0, 1400, 9000):
        add(f"macvlan-mtu-{mtu}", chain(macvlan([V4], mtu=mtu)))
    plain = macvlan()
    add("macvlan-no-ipam", chain(plain))
    add("macvlan-random-mac", chain(macvlan([V4])))
    add("macvlan-mac", chain(macvlan([V4], mac=MAC)))
    add("macvlan-mac-upper", chain(macvlan([V4], mac=MAC.upper().replace(":", "-"))))
    add("macvlan-mac-args", chain(macvlan([V4], mac=MAC), env={"CNI_ARGS": f"IgnoreUnknown=1;MAC={MAC2}"}))
    add("macvlan-mac-runtime", chain(macvlan([V4], mac=MAC, runtimeConfig={"mac": MAC3}),
                                     env={"CNI_ARGS": f"IgnoreUnknown=1;MAC={MAC2}"}))
    add("macvlan-default-route", chain(macvlan(static(V4, routes=DEFAULT))))
    add("macvlan-routes", chain(macvlan(static(V4, routes=[*DEFAULT, {"dst": "172.20.0.0/16", "gw": "172.16.1.9"}]))))
    add("macvlan-two-addresses", chain(macvlan([V4, "172.16.1.21/24", "172.17.1.1/16"])))
    add("macvlan-32", chain(macvlan(["172.16.1.20/32"])),
        differs={"1.CHECK.*": "Debian's CHECK requires a subnet route for each address, and a /32 has none"})
    add("macvlan-host-local", chain(macvlan(host_local([{"subnet": "172.16.1.0/24"}], routes=DEFAULT))))
    add("macvlan-v6", chain(macvlan(static(V6, routes=[{"dst": "::/0"}]), mac=MAC)), v6=True)
    add("macvlan-dual", chain(macvlan(static(V4, V6, routes=[*DEFAULT, {"dst": "::/0"}]), mac=MAC)), v6=True)
    add("macvlan-v6-enabled", chain(macvlan([V6], mac=MAC)), v6=True,
        pod=("link add other type veth peer name x",))
    add("macvlan-dns", chain(macvlan([V4], dns=DNS)))
    add("macvlan-master-of-default-route", chain({"type": "macvlan", "ipam": static(V4)}),
        node=("addr add 172.16.1.2/24 dev rail0", "route add default via 172.16.1.1"),
        differs=NO_DEFAULT_ROUTE if IS_DEBIAN_13 else {})
    add("macvlan-ifname", chain(macvlan([V4]), env={"CNI_IFNAME": "eth0.100-rail"}))
    add("macvlan-del-without-netns", chain(macvlan(host_local([{"subnet": "172.16.1.0/24"}])), verbs=("ADD",)) + [
        dataclasses.replace(s, env={"CNI_NETNS": None}) for s in
        chain(macvlan(host_local([{"subnet": "172.16.1.0/24"}])), verbs=("DEL",))])
    newer = "Debian's plugin 1.1.1 does not have linkInContainer yet: it searches the master on the node"
    add("macvlan-link-in-container", chain(macvlan([V4], master="rail9", linkInContainer=True, mac=MAC)),
        pod=("link add rail9 type veth peer name x", "link set rail9 up", "link set x up"),
        differs={"*.status": newer, "*.code": newer, "*.stdout": newer, "added.pod.*": newer})
    add("macvlan-del-netns-gone", chain(macvlan([V4]), verbs=("DEL",), env={"CNI_NETNS": "/run/netns/none"}))
    add("macvlan-del-never-added", chain(macvlan([V4]), verbs=("DEL",)))
    for version in KNOWN:
        add(f"macvlan-{version}", chain(macvlan(static(V4, V6, routes=DEFAULT), mac=MAC), version=version), v6=True)
        if version >= "0.3.0":
            add(f"macvlan-{version}-no-ipam", chain(macvlan(mac=MAC), version=version))
            continue
        add(f"macvlan-{version}-no-ipam", refused("cannot convert: no valid IP addresses", macvlan(mac=MAC), version=version),
            differs={"0.ADD.code": CONF, "added.pod.*": LEFT, "added.node.link.rail0.promiscuity": LEFT})


LEFT = "a failed ADD of Debian's plugin leaves its link, a failed ADD of unirail leaves nothing"
DEL_OF_BAD = "DEL succeeds with a configuration that ADD refuses: otherwise the runtime would retry the DEL forever"


def bad_macvlans():
    bad_del, left = {"1.DEL.*": DEL_OF_BAD}, {"added.pod.*": LEFT}
    no_way = {"routes": [{"dst": "10.0.0.0/8", "gw": "192.0.2.1"}]}
    for name, conf, contains, code, differs in [
            ("master", macvlan([V4], master="nic9"), "Link not found", MISSING, bad_del),
            ("no-master", {"type": "macvlan"}, "no default route", CONF, bad_del),
            ("mtu-high", macvlan([V4], mtu=9001), "invalid MTU 9001, must be [0, master MTU(9000)]", CONF, bad_del),
            ("mtu-negative", macvlan([V4], mtu=-1), "invalid MTU -1, must be [0, master MTU", CONF, bad_del),
            ("mtu-word", macvlan([V4], mtu="big"), "mtu", CONF, bad_del),
            ("mode", macvlan([V4], mode="brigde"), 'unknown macvlan mode: "brigde"', CONF, {}),
            ("mac", macvlan([V4], mac="0a:00:00"), "0a:00:00", CONF, {}),
            ("no-addresses", macvlan(static()), "IPAM plugin returned missing IP config", CONF, left),
            ("address", macvlan(["x"]), "the 'address' field is expected to be in CIDR notation, got: 'x'", CONF, left),
            ("route-unreachable", macvlan(static("172.16.1.20/24", **no_way)), "10.0.0.0", None,
             {**left, "added.node.link.rail0.promiscuity": LEFT})]:
        differs = {**differs, **({"0.ADD.code": code} if code else {})}
        add(f"macvlan-bad-{name}", refused(contains, conf), differs=differs)
    missing = 'failed to find plugin "nosuch" in path [CNI_PATH]'
    add("macvlan-bad-ipam-missing", refused(missing, macvlan({"type": "nosuch"}), del_contains=missing),
        differs={"0.ADD.code": MISSING, "1.DEL.code": MISSING, "*.pod.*": LEFT})
    add("macvlan-bad-name-taken", refused("file exists", macvlan([V4])), pod=("link add net1 type veth peer name x",))
    no_netns = {"CNI_NETNS": "/run/netns/none"}
    add("macvlan-bad-netns", refused("no such file or directory", macvlan([V4]), env=no_netns), differs={"0.ADD.code": NETNS})
    add("macvlan-bad-netns-file",
        refused("unknown FS magic", macvlan([V4]), env={"CNI_NETNS": "/etc/hostname"}, after=()), differs={"0.ADD.code": NETNS})
    check = chain(macvlan([V4]), verbs=("CHECK",))
    add("macvlan-check-without-prev", [dataclasses.replace(s, fails=True, contains=("Required prevResult missing",)) for s in check],
        differs={"0.CHECK.code": CONF})


macvlans()
bad_macvlans()

# --- tuning ---

ONE = {"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "mac": MAC, "sandbox": POD_DIR}],
       "ips": [{"interface": 0, "address": "172.16.1.20/24", "gateway": "172.16.1.1"}]}
NET1 = (f"link add net1 address {MAC} type veth peer name x", "link set x address 02:00:00:00:09:09 up",
        "link set net1 up", "addr add 172.16.1.20/24 dev net1")


def tuning(**more):
    return {"type": "tuning", "dataDir": WORK_DIR + "/tuning", "prevResult": ONE, **more}


IFNAME = "Debian's CHECK searches an interface whose name is IFNAME"


def tunings():
    notify = {"net.ipv4.conf.IFNAME.arp_notify": "1"}
    proxy = "net.ipv4.conf.IFNAME.proxy_arp"
    for name, more, args in [
            ("nothing", {}, None), ("sysctl", {"sysctl": notify}, None),
            ("sysctls", {"sysctl": {**notify, "net/ipv4/ip_forward": "1", "net.core.somaxconn": "512"}}, None),
            ("mac", {"mac": MAC2}, None), ("mac-upper", {"mac": MAC2.upper()}, None), ("mtu", {"mtu": 1400}, None),
            ("promisc", {"promisc": True}, None), ("allmulti", {"allmulti": True}, None),
            ("allmulti-off", {"allmulti": False}, None),
            ("all", {"mac": MAC2, "mtu": 1400, "promisc": True, "allmulti": True, "sysctl": notify}, None),
            ("runtime", {"mac": MAC2, "runtimeConfig": {"mac": MAC3}}, f"IgnoreUnknown=1;MAC={MAC2}"),
            ("CNI_ARGS", {"mac": MAC2}, f"IgnoreUnknown=1;MAC={MAC3}"),
            ("args-cni", {"sysctl": {proxy: "0"}, "mtu": 1500, "args": {"cni": {
                "sysctl": {proxy: "1"}, "mac": MAC3, "mtu": 1300, "promisc": True, "allmulti": True}}}, None),
            ("key-case", {"MTU": 1400, "SysCtl": notify, "Mac": MAC2}, None)]:
        add(f"tuning-{name}", chain(tuning(**more), env={"CNI_ARGS": args}), pod=NET1,
            differs={"1.CHECK.*": IFNAME} if "IFNAME" in str(more) else {})
    backup = {"*.tuning*": "unirail writes the file for DEL only if ADD changed the interface"}
    for name, more, contains, differs in [
            ("sysctl", {"sysctl": {"net.ipv4.nosuch": "1"}}, "nosuch", {}),
            ("sysctl-kernel", {"sysctl": {"kernel.shmmax": "1"}}, "invalid net sysctl key", {}),
            ("sysctl-dots", {"sysctl": {"net/../kernel/shmmax": "1"}}, "kernel/shmmax", {}),
            ("sysctl-value", {"sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "x"}}, "arp_notify", {}),
            ("mac", {"mac": "0a:00"}, "invalid args 0a:00 for MAC addr", backup),
            ("mtu-word", {"mtu": "big"}, "mtu", {"1.DEL.*": DEL_OF_BAD}),
            ("mtu-high", {"mtu": 99999}, (), backup)]:
        add(f"tuning-bad-{name}", refused(contains, tuning(**more)), pod=NET1, differs={"0.ADD.code": CONF, **differs})
    no_prev = {"type": "tuning", "dataDir": WORK_DIR + "/tuning", "mtu": 1400}
    add("tuning-bad-no-prev", refused("Required prevResult missing", no_prev), pod=NET1, differs={"0.ADD.code": CONF})
    add("tuning-bad-no-link", refused("Link not found", tuning(mtu=1400)))
    add("tuning-del-netns-gone", chain(tuning(mtu=1400), verbs=("DEL",), env={"CNI_NETNS": "/run/netns/none"}))


tunings()

# --- sbr, loopback ---


AGAIN_DEL = "a DEL that finds nothing to delete succeeds, as with the current originals"


def sbr(**more):
    return {"type": "sbr", "prevResult": ONE, **more}


def sbrs():
    route = ("route add default via 172.16.1.1 dev net1",)
    add("sbr-one", chain(sbr(), verbs=("ADD", "DEL", "DEL")), pod=NET1)
    add("sbr-default-route", chain(sbr(), verbs=("ADD", "DEL", "DEL")), pod=NET1 + route)
    two = {**ONE, "ips": ONE["ips"] + [{"interface": 0, "address": "172.17.1.20/24", "gateway": "172.17.1.1"}]}
    add("sbr-two-addresses", chain(sbr(prevResult=two), verbs=("ADD", "DEL")),
        pod=NET1 + ("addr add 172.17.1.20/24 dev net1",))
    no_gateway = {**ONE, "ips": [{"interface": 0, "address": "172.16.1.20/24"}]}
    add("sbr-no-gateway", chain(sbr(prevResult=no_gateway), verbs=("ADD", "DEL")), pod=NET1)
    add("sbr-table-100-taken", chain(sbr(), verbs=("ADD", "DEL")),
        pod=NET1 + ("rule add from 192.0.2.1 table 100",))
    dual = {**ONE, "ips": ONE["ips"] + [{"interface": 0, "address": "fd16::20/64", "gateway": "fd16::1"}]}
    add("sbr-dual", chain(sbr(prevResult=dual), verbs=("ADD", "DEL")), v6=True,
        pod=NET1 + ("addr add fd16::20/64 dev net1 nodad",))
    add("sbr-other-interface", chain(sbr(), verbs=("ADD", "DEL")),
        pod=NET1 + ("link add eth0 type veth peer name y", "link set y up", "link set eth0 up",
                    "addr add 10.0.0.5/24 dev eth0", "route add default via 10.0.0.1"))
    add("sbr-bad-no-prev", refused("This plugin must be called as chained plugin", {"type": "sbr"}, after=()), pod=NET1,
        differs={"0.ADD.code": CONF})
    add("sbr-bad-no-ips", refused("No IP addresses supplied on interface: net1",
                                  sbr(prevResult={**ONE, "ips": []}), after=()), pod=NET1, differs={"0.ADD.code": CONF})
    add("sbr-del-link-gone", chain(sbr(), verbs=("DEL",)), differs={"0.DEL.*": AGAIN_DEL})


def loopbacks():
    lo = {"CNI_IFNAME": "lo"}
    for version in KNOWN:
        add(f"loopback-{version}", chain({"type": "loopback"}, version=version, env=lo, verbs=("ADD", "CHECK")),
            pod=("link set lo down",), v6=version == "1.0.0",
            differs={} if version == "1.0.0" else {"0.ADD.stdout": "Debian's plugin prints the format of 1.0.0 for every version"})
    add("loopback-del", chain({"type": "loopback"}, env=lo, verbs=("DEL",)))
    add("loopback-del-netns-gone", chain({"type": "loopback"}, env={**lo, "CNI_NETNS": "/run/netns/none"}, verbs=("DEL",)))


sbrs()
loopbacks()

# --- host-device ---

DEV = ("link add dev0 address 02:00:00:00:05:01 type veth peer name far0",
       "link set far0 address 02:00:00:00:05:02 up", "link set dev0 up")


LEFT_UP = "DEL of Debian's plugin leaves the NIC down, DEL of unirail restores the state that the NIC had before ADD"
AS_IT_WAS = {"end.node.link.*.flags": LEFT_UP, "end.node.link.dev0.qdisc": LEFT_UP}


def host_device(addresses=None, **more):
    conf = {"type": "host-device", **({} if {"hwaddr", "kernelpath", "pciBusID"} & set(more) else {"device": "dev0"}), **more}
    return {**conf, "ipam": static(*addresses)} if addresses else conf


def host_devices():
    one = ("ADD", "CHECK", "DEL")
    add("host-device-no-ipam", chain(host_device(), verbs=one), node=DEV, differs=AS_IT_WAS)
    add("host-device-address", chain(host_device([V4]), verbs=one), node=DEV, differs=AS_IT_WAS)
    add("host-device-route", chain({**host_device(), "ipam": static(V4, routes=DEFAULT)}, verbs=one), node=DEV, differs=AS_IT_WAS)
    add("host-device-v6", chain(host_device([V4, V6]), verbs=one), node=DEV, v6=True,
        differs={**AS_IT_WAS, "end.node.link.dev0.addresses": LEFT_UP, "end.node.routes": LEFT_UP})
    add("host-device-hwaddr", chain(host_device(hwaddr="02:00:00:00:05:01"), verbs=one), node=DEV, differs=AS_IT_WAS)
    add("host-device-down", chain(host_device([V4]), verbs=one), node=DEV + ("link set dev0 down",))
    add("host-device-same-name", chain(host_device([V4]), verbs=one, env={"CNI_IFNAME": "dev0"}), node=DEV, differs=AS_IT_WAS)
    add("host-device-mtu-kept", chain(host_device([V4]), verbs=one), node=DEV + ("link set dev0 mtu 1400",), differs=AS_IT_WAS)
    for version in KNOWN:
        add(f"host-device-{version}", chain(host_device([V4]), version=version, verbs=one), node=DEV, differs=AS_IT_WAS)
    for name, conf, contains, code in [
            ("device", host_device(device="nic9"), "Link not found", MISSING),
            ("hwaddr", host_device(hwaddr="02:00:00:00:05:99"), "failed to find host device", MISSING),
            ("hwaddr-word", host_device(hwaddr="some"), 'failed to parse MAC address "some"', CONF),
            ("nothing", {"type": "host-device"}, 'specify either "device", "hwaddr", "kernelpath" or "pciBusID"', CONF),
            ("kernelpath", host_device(kernelpath="/etc"), 'kernel device path "/etc" must be absolute', CONF),
            ("pci", host_device(pciBusID="0000:99:00.0"), "0000:99:00.0", MISSING)]:
        add(f"host-device-bad-{name}", refused(contains, conf, after=()), node=DEV, differs={"0.ADD.code": code})
    back = "a failed ADD of Debian's plugin leaves the NIC in the pod, a failed ADD of unirail returns it to the node"
    add("host-device-name-taken", refused("file exists", host_device([V4]), after=()), node=DEV,
        pod=("link add net1 type veth peer name x",), differs={"end.*dev0*": back, "end.node.link.far0.*": back})


host_devices()

# --- chains ---


def chains():
    tune = {"type": "tuning", "dataDir": WORK_DIR + "/tuning", "mtu": 1400,
            "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}}
    rules = {"type": "sbr"}
    pool = host_local([{"subnet": "172.16.1.0/24", "gateway": "172.16.1.1"}], routes=DEFAULT)
    for version in KNOWN[2:]:
        add(f"chain-macvlan-tuning-{version}", chain(macvlan(pool, mac=MAC), tune, version=version),
            differs={"3.CHECK.*": IFNAME} if version >= "0.4.0" else {})
    no_check = ("ADD", "DEL", "DEL")  # Debian's CHECK fails for a macvlan whose routes sbr has moved
    add("chain-macvlan-sbr", chain(macvlan(pool), rules, verbs=no_check), differs={"4.DEL.*": AGAIN_DEL})
    add("chain-macvlan-tuning-sbr", chain(macvlan(pool, mac=MAC), tune, rules, verbs=no_check),
        differs={"6.DEL.*": AGAIN_DEL})
    add("chain-macvlan-sbr-dual", chain(macvlan(static(V4, V6, routes=DEFAULT), mac=MAC), rules, verbs=no_check), v6=True,
        differs={"4.DEL.*": AGAIN_DEL})
    add("chain-macvlan-tuning-mac", chain(macvlan([V4]), {**tune, "mac": MAC2}, verbs=("ADD", "CHECK", "DEL")),
        differs={"3.CHECK.*": IFNAME})
    add("chain-host-device-tuning", chain(host_device([V4]), {**tune, "mac": MAC2}, verbs=("ADD", "DEL")), node=DEV,
        differs=AS_IT_WAS)
    add("chain-host-device-sbr", chain(host_device([V4]), rules, verbs=("ADD", "DEL")), node=DEV,
        differs=AS_IT_WAS)
    add("chain-fails-at-tuning", refused("invalid net sysctl key", macvlan(pool, mac=MAC),
                                         {**tune, "sysctl": {"kernel.shmmax": "1"}}), differs={"1.ADD.code": CONF})


chains()
