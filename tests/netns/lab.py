# SPDX-License-Identifier: Apache-2.0
"""A fabric, a node and pods in network namespaces, and a container runtime's view of CNI. Namespaces are named unirail-test-PID-...; if no
process has that PID, an earlier run left them."""
import contextlib
import ctypes
import difflib
import errno
import http.client
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import time

from report import wait

PREFIX = "unirail-test-"
TOP = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("UNIRAIL", TOP / "build" / "unirail")).resolve()
REFERENCE = pathlib.Path("/usr/lib/cni")  # Debian's containernetworking-plugins
PLUGINS = ["macvlan", "ipvlan", "vlan", "host-device", "sriov", "ib-sriov", "ipoib", "coordinator", "tuning", "sbr", "loopback",
           "ifacer", "rdma", "host-local", "static", "whereabouts", "spiderpool", "unirail-cni", "multus",
           "multus-shim"]
VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
CLONE_NEWNET = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
counter = itertools.count()


def ns_path(ns):
    return f"/run/netns/{ns}"


def enter(ns):
    """For preexec_fn: the child enters the namespace."""
    path = ns_path(ns)

    def go():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(fd)

    return go


def run(args, ns=None, check=True, timeout=60, **kw):
    p = subprocess.run([str(a) for a in args], text=True, capture_output=True, timeout=timeout,
                       preexec_fn=enter(ns) if ns else None, **kw)
    if check and p.returncode != 0:
        raise AssertionError(f"{args}: exit {p.returncode}\n{p.stdout}{p.stderr}")
    return p


def ip(ns, *args, check=True):
    return run(["ip", "-n", ns, *args], check=check).stdout


def ip_batch(ns, lines):
    run(["ip", "-n", ns, "-batch", "-"], input="\n".join(lines) + "\n")


def ip_json(ns, *args):
    out = run(["ip", "-n", ns, "-j", "-d", *args]).stdout
    return json.loads(out) if out.strip() else []


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the UNIX socket at this path."""

    def __init__(self, path, timeout=20):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def sysctl(ns, key, value=None):
    """The value of a key below /proc/sys; sets it first if a value is given."""
    path = "/proc/sys/" + key
    if value is not None:
        run(["sh", "-c", f"echo {value} >{path}"], ns=ns)
    return run(["cat", path], ns=ns).stdout.strip()


# --- namespaces ---


def ns_add(role):
    ns = f"{PREFIX}{os.getpid()}-{role}-{next(counter)}"
    run(["ip", "netns", "add", ns])
    ip(ns, "link", "set", "lo", "up")
    return ns


def ns_del(ns):
    run(["ip", "netns", "del", ns], check=False)


def sweep():
    """Removes namespaces of earlier runs whose process has ended."""
    folder = pathlib.Path("/run/netns")
    for path in folder.glob(PREFIX + "*") if folder.is_dir() else []:
        pid = path.name[len(PREFIX):].split("-")[0]
        if not os.path.exists(f"/proc/{pid}"):
            ns_del(path.name)


# --- disks ---


@contextlib.contextmanager
def small_disk(folder):
    """A separate small file system, which can be filled quickly."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=64", "tmpfs", folder])
    try:
        yield folder
    finally:
        run(["umount", folder])


@contextlib.contextmanager
def filled(disk):
    """While the block runs, the disk has neither bytes nor inodes left."""
    made = []
    try:
        while True:
            made.append(disk / f"ballast{len(made)}")
            try:
                with open(made[-1], "wb", buffering=0) as f:
                    while f.write(b"x" * 512):
                        pass
            except OSError as e:
                assert e.errno == errno.ENOSPC, e
            if not made[-1].exists():
                break
        s = os.statvfs(disk)
        assert s.f_bfree == 0 and s.f_ffree == 0, s
        yield
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def age(path, seconds=3600):
    """Creates an empty file that was modified `seconds` ago; returns its path."""
    path.write_bytes(b"")
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


# --- CNI ---


class Call:
    """The result of a call of a plugin."""

    def __init__(self, p):
        self.status, self.out, self.err = p.returncode, p.stdout, p.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.status}\nstdout: {self.out}\nstderr: {self.err}"


def cni_env(command, container_id, netns, ifname, args, plugins):
    env = {"CNI_COMMAND": command, "CNI_CONTAINERID": container_id, "CNI_NETNS": netns,
           "CNI_IFNAME": ifname, "CNI_ARGS": args, "CNI_PATH": str(plugins), "PATH": os.environ["PATH"]}
    return {k: v for k, v in env.items() if v is not None}


class Pod:
    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        self.ns = lab.new_ns(name)
        self.netns = ns_path(self.ns)
        self.id = f"{next(counter):04x}{os.urandom(30).hex()}"

    @property
    def args(self):
        return (f"IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME={self.name};"
                f"K8S_POD_INFRA_CONTAINER_ID={self.id};K8S_POD_UID=uid-{self.name}")

    @property
    def host_veth(self):
        return "veth" + self.id[:11]

    def state(self):
        return state(self.ns)


class Lab:
    """`rails` NICs on the node ("rail0"...), and "eth0"; each is connected to a bridge of the fabric that has the gateway's address. NIC
    i has 172.16.i.0/24 (eth0 is 0, rail0 is 1) and, with `v6`, fd00:16:i::/64 (i in hexadecimal); host 1 is the gateway, host 2 the
    node. With `exclusive` the IPv4 addresses of NICs and gateways have the prefix length 27 instead of 24."""

    def __init__(self, tmp, plugins, rails=2, v6=False, exclusive=False):
        self.tmp, self.plugins, self.namespaces = tmp, plugins, []
        self.pool_dir, self.state_dir = tmp / "pools", tmp / "state"
        self.pool_dir.mkdir()
        self.nics = ["eth0"] + [f"rail{i}" for i in range(rails)]
        self.v6, self.len = v6, 27 if exclusive else 24
        self.fabric, self.node = self.new_ns("fabric"), self.new_ns("node")
        self.build()

    def new_ns(self, role):
        ns = ns_add(role)
        self.namespaces.append(ns)
        return ns

    def close(self):
        while self.namespaces:
            ns_del(self.namespaces.pop())

    def build(self):
        fabric, node = [], []
        for i, nic in enumerate(self.nics):
            mtu = 1500 if i == 0 else 9000
            fabric += [f"link add br-{nic} type bridge mcast_snooping 0",
                       f"link add sw-{nic} mtu {mtu} master br-{nic} type veth"
                       f" peer name {nic} mtu {mtu} netns {self.node}",
                       f"link set br-{nic} up", f"link set sw-{nic} up",
                       f"addr add 172.16.{i}.1/{self.len} dev br-{nic}"]
            node += [f"link set {nic} up", f"addr add 172.16.{i}.2/{self.len} dev {nic}"]
            if self.v6:
                fabric += [f"addr add fd00:16:{i:x}::1/64 dev br-{nic} nodad"]
                node += [f"addr add fd00:16:{i:x}::2/64 dev {nic} nodad"]
        for ns in (self.fabric, self.node):
            for where in ("all", "default"):
                flag = "0" if self.v6 else "1"
                sysctl(ns, f"net/ipv6/conf/{where}/disable_ipv6", flag)
        ip_batch(self.fabric, fabric)
        ip_batch(self.node, node + ["route add default via 172.16.0.1"])
        # The kernel adds the route of an IPv6 address a moment after the address.
        if self.v6:
            wait(lambda: len(run(["ip", "-6", "route", "show", "table", "local", "root", "fd00:16::/32"], ns=self.node)
                                 .stdout.splitlines()) >= len(self.nics), "the node has the routes to its addresses")

    def pod(self, name="pod"):
        return Pod(self, name)

    # pools and netconfs

    def pools(self, text, name="rails.conf"):
        (self.pool_dir / name).write_text(text)

    def rail_pools(self, v6=False, **more):
        """Writes a pool for every NIC: the pool has the NIC's name, and with v6 there is a second pool NAME-v6."""
        text = ""
        for i, nic in enumerate(self.nics):
            text += f"[pool {nic}]\nsubnet = 172.16.{i}.0/24\nips = 172.16.{i}.10-172.16.{i}.250\n"
            text += f"gateway = 172.16.{i}.1\n" + "".join(f"{k.replace('_', '-')} = {v}\n" for k, v in more.items())
            if v6:
                text += f"[pool {nic}-v6]\nsubnet = fd00:16:{i:x}::/64\n"
                text += f"ips = fd00:16:{i:x}::10-fd00:16:{i:x}::ff\ngateway = fd00:16:{i:x}::1\n"
        self.pools(text)

    def ipam(self, *pools4, v6=(), **more):
        conf = {"type": "spiderpool", "pool_dir": str(self.pool_dir), "state_dir": str(self.state_dir),
                "hostlocal_dir": str(self.tmp / "networks")}
        if pools4:
            conf["default_ipv4_ippool"] = list(pools4)
        if v6:
            conf["default_ipv6_ippool"] = list(v6)
        return {**conf, **more}

    def macvlan(self, master, ipam=None, version="1.0.0", **more):
        conf = {"cniVersion": version, "name": master, "type": "macvlan", "master": master,
                "mode": "bridge", **more}
        return {**conf, "ipam": ipam} if ipam else conf

    def coordinator(self, name="net", version="1.0.0", prev=None, **more):
        conf = {"cniVersion": version, "name": name, "type": "coordinator", **more}
        return {**conf, "prevResult": prev} if prev is not None else conf

    def rails(self, networks, version="1.1.0", **more):
        return {"cniVersion": version, "name": "rails", "type": "unirail-cni",
                "networks": networks, **more}

    def network(self, nic, ifname=None, ipam=None, coordinator=None, **more):
        main = {"type": "macvlan", "master": nic, "mode": "bridge", "ipam": ipam or self.ipam(nic),
                **more}
        net = {"name": nic, "plugins": [main]}
        if coordinator is not False:
            net["plugins"].append({"type": "coordinator", **(coordinator or {})})
        return {**net, "ifname": ifname} if ifname else net

    def all_networks(self, **more):
        """The configurations of the default network and of every rail."""
        return [self.network(nic, "eth0" if i == 0 else f"net{i}", **more)
                for i, nic in enumerate(self.nics)]

    # calls

    def popen(self, command, conf, pod, ifname="net1", args=None, plugins=None, plugin=None,
              netns=None, node=None, **env):
        plugins = plugins or self.plugins
        text = conf if isinstance(conf, str) else json.dumps(conf)
        full = {**cni_env(command, pod.id, pod.netns if netns is None else netns, ifname,
                          pod.args if args is None else args, plugins), **env}
        exe = plugins / (plugin or conf["type"])
        stdin = self.tmp / f"stdin-{next(counter)}"
        stdin.write_text(text)
        with open(stdin) as f:
            return subprocess.Popen([str(exe)], stdin=f, stdout=subprocess.PIPE, text=True,
                                    stderr=subprocess.PIPE, env=full,
                                    preexec_fn=enter(node or self.node))

    def cni(self, command, conf, pod, timeout=60, **kw):
        p = self.popen(command, conf, pod, **kw)
        p.stdout_text, p.stderr_text = p.communicate(timeout=timeout)
        p.stdout, p.stderr = p.stdout_text, p.stderr_text
        return Call(p)

    def add(self, conf, pod, **kw):
        c = self.cni("ADD", conf, pod, **kw)
        assert c.status == 0, c
        return c.json

    def ok(self, command, conf, pod, **kw):
        """Calls the plugin, which must succeed and print nothing to stdout."""
        c = self.cni(command, conf, pod, **kw)
        assert c.status == 0 and c.out == "", c

    def delete(self, conf, pod, **kw):
        self.ok("DEL", conf, pod, **kw)

    def fail(self, command, conf, pod, code=None, contains=(), **kw):
        """Calls the plugin, which must fail with an error object that has this code and each of these texts; returns the object."""
        c = self.cni(command, conf, pod, **kw)
        assert c.status == 1, c
        e = c.json
        assert set(e) <= {"code", "msg", "details"} and e["msg"], c
        assert "\n" not in e["msg"], c
        if code is not None:
            assert e["code"] == code, c
        for w in [contains] if isinstance(contains, str) else contains:
            assert w in e["msg"] + " " + e.get("details", ""), c
        return e

    def chain(self, command, plugins, pod, name="net", version="1.0.0", prev=None, **kw):
        """Runs a plugin list as libcni does. ADD returns the last result."""
        order = plugins if command != "DEL" else list(reversed(plugins))
        for p in order:
            conf = {**p, "cniVersion": version, "name": name}
            if prev is not None:
                conf["prevResult"] = prev
            if command == "ADD":
                prev = self.add(conf, pod, **kw)
            else:
                self.ok(command, conf, pod, **kw)
        return prev

    def pool(self, *args, check=True):
        return run([BINARY, "pool", *args, "--pool-dir", self.pool_dir, "--state-dir", self.state_dir],
                   check=check)

    def records(self):
        """All records of the store: {address: record}."""
        found = {}
        for pool in json.loads(self.pool("list", "-o", "json").stdout)["pools"]:
            shown = json.loads(self.pool("show", pool["name"], "-o", "json").stdout)
            found.update({r["address"]: r for r in shown["records"]})
        return found

    def used(self):
        return {ip: r for ip, r in self.records().items() if r["state"] == "used"}

    def journal(self):
        return self.state_dir / "journal"


# --- state ---


def state(ns):
    """The state of a namespace that CNI can change, as an object that can be compared."""
    names = {}
    links = ip_json(ns, "link", "show")
    for link in links:
        names[link["ifindex"]] = link["ifname"]
    rules = []
    routes = []
    for family in ("-4", "-6"):
        rules += [dict(r, family=family) for r in ip_json(ns, family, "rule", "show")]
        routes += [dict(r, family=family) for r in ip_json(ns, family, "route", "show", "table", "all")]
    return {"links": [clean_link(k) for k in links], "addresses": addresses(ns),
            "rules": rules, "routes": [clean_route(r) for r in routes if not is_of_link_local(r)],
            "neighbours": sorted_json(clean_neigh(n) for n in ip_json(ns, "neigh", "show", "nud", "permanent")),
            "nft": nft(ns)}


def sorted_json(items):
    return sorted(items, key=lambda x: json.dumps(x, sort_keys=True))


def clean_link(k):
    keys = ("ifname", "mtu", "address", "link_type", "flags", "txqlen", "group", "promiscuity")
    out = {key: k[key] for key in keys if key in k}
    out["up"] = "UP" in out.pop("flags", [])
    out["kind"] = k.get("linkinfo", {}).get("info_kind")
    out["mode"] = k.get("linkinfo", {}).get("info_data", {}).get("mode")
    return out


def is_of_link_local(r):
    """Whether r is a route of a link-local address, which the kernel adds a second or two after the link is up; addresses() leaves out the
    address as well."""
    return r.get("protocol") == "kernel" and r["dst"].startswith("fe80:")


def clean_route(r):
    return {k: v for k, v in r.items() if k not in ("flags", "pref", "metrics") or v}


def clean_neigh(n):
    return {k: n[k] for k in ("dst", "dev", "lladdr") if k in n}


def addresses(ns):
    found = []
    for link in ip_json(ns, "addr", "show"):
        for a in link.get("addr_info", []):
            if a.get("local", "").startswith("fe80"):
                continue
            found.append({"dev": link["ifname"], "address": f"{a['local']}/{a['prefixlen']}",
                          "scope": a["scope"], "broadcast": a.get("broadcast")})
    return sorted_json(found)


def nft(ns):
    out = json.loads(run(["nft", "-j", "list", "ruleset"], ns=ns).stdout)
    rules = []
    for item in out["nftables"]:
        for kind, body in item.items():
            if kind != "metainfo":
                rules.append({kind: {k: v for k, v in body.items() if k not in ("handle",)}})
    return rules


def without_fe80(st):
    routes = [r for r in st["routes"]
              if not str(r.get("dst", "")).startswith(("fe80", "ff00", "multicast ff00"))]
    return {**st, "routes": routes}


def same_shape(st, *pairs):
    """Text of a state in which the parts that differ between pods are replaced: MACs, and `pairs` of (text, replacement). The order of
    lines does not depend on these parts."""
    st = json.dumps(without_fe80(st))
    for old, new in pairs:
        st = st.replace(old, new)
    st = json.loads(re.sub(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", "MAC", st))
    for key in ("links", "routes", "neighbours"):
        st[key] = sorted_json(st[key])
    return json.dumps(st, sort_keys=True, indent=1)


def same(a, b, what=""):
    """Asserts that two texts are equal; shows the difference otherwise."""
    if a != b:
        diff = difflib.unified_diff(a.splitlines(), b.splitlines(), "one", "other", n=6, lineterm="")
        raise AssertionError(f"{what} differs:\n" + "\n".join(diff))


def link(ns, name):
    for k in ip_json(ns, "link", "show"):
        if k["ifname"] == name:
            return k
    return None


def link_names(ns):
    return [k["ifname"] for k in ip_json(ns, "link", "show")]


def has_address(ns, dev, address):
    return any(a["dev"] == dev and a["address"] == address for a in addresses(ns))


def rules(ns, family="-4"):
    """Rules as (priority, "from", fwmark, table)."""
    return [(r["priority"], r.get("src", "all"), r.get("fwmark"), r.get("table"))
            for r in ip_json(ns, family, "rule", "show")]


def routes(ns, table, family="-4"):
    """Routes of one table as short text."""
    out = ip_json(ns, family, "route", "show", "table", str(table))
    fields = []
    for r in out:
        w = r["dst"]
        w += f" via {r['gateway']}" if "gateway" in r else ""
        w += f" dev {r['dev']}" if "dev" in r else ""
        w += f" src {r['prefsrc']}" if "prefsrc" in r else ""
        fields.append(w)
    return fields


def ping(ns, dev, target, count=1):
    # A new namespace may still be resolving the neighbour, so up to three attempts.
    for _ in range(3):
        p = run(["ping", "-n", "-c", str(count), "-W", "1", "-I", dev, target], ns=ns, check=False)
        if p.returncode == 0:
            return True
    return False
