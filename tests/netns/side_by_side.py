# SPDX-License-Identifier: Apache-2.0
"""The table of test_side_by_side.py: configurations that are run with Debian's containernetworking-plugins 1.1.1 and with unirail. If a
call must fail, the error messages of both must contain the texts in `contains`, since people search for them; the rest of a message
may differ. `differs` has each intentional difference and its reason. This file has the protocol and IPAM, side_by_side_links.py the
links."""
import dataclasses

WORK_DIR, POD_DIR = "@dir@", "@pod@"  # placeholders: a new directory, the pod's namespace
KNOWN = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"]  # Debian's plugins do not support 1.1.0
MAC, MAC2, MAC3 = "02:00:00:00:01:01", "02:00:00:00:01:02", "02:00:00:00:01:03"
STORE = WORK_DIR + "/networks"


@dataclasses.dataclass(frozen=True)
class Code:
    """An error code that differs: that of Debian's plugin, that of unirail, and the reason."""
    reference: int
    candidate: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Step:
    """One call of a plugin. With `prev`, the plugin's input has the result of the last ADD as prevResult. With `fails`, the call
    must fail with an error that contains each text of `contains`."""
    verb: str
    conf: object  # a dict, or stdin's text
    plugin: str
    env: dict = dataclasses.field(default_factory=dict)
    prev: bool = False
    fails: bool = False
    contains: tuple = ()


@dataclasses.dataclass(frozen=True)
class Case:
    id: str
    steps: list
    namespaces: bool = True  # the test creates network namespaces
    v6: bool = False
    node: tuple = ()  # lines for ip -batch
    pod: tuple = ()
    files: dict = dataclasses.field(default_factory=dict)
    # {pattern of the name of a value that differs: reason, or Code}
    differs: dict = dataclasses.field(default_factory=dict)
    chance: dict = dataclasses.field(default_factory=dict)  # like `differs`, for values of Debian's plugin that differ from run to run


CONF = Code(999, 7, "the CNI specification's code for an invalid configuration")
ENV = Code(999, 4, "the CNI specification's code for an invalid environment variable")
AGAIN = Code(999, 11, "the CNI specification's code for a retry: an address may be released before it")
MISSING = Code(999, 50, "the node lacks a link or device that the plugin needs")
NETNS = Code(999, 8, "the specification's code for an invalid network namespace")
CASES = []
# Differences that may occur in each case.
EVERYWHERE = {
    "*.mode.networks/*": "files are readable by root only, as with the current originals (the lock too)",
    "added.pod.link.*.group": "unirail puts a pod's rails in a link group, so that one message deletes all of them",
    "end.pod.link.*.group": "as after ADD: a DEL without CNI_NETNS leaves the link",
    "added.pod.link.*.txqlen": "Debian's plugin requests a queue length of 0; the current originals do not",
    "end.pod.link.*.txqlen": "as after ADD: a DEL without CNI_NETNS leaves the link",
    "end.node.link.dev0.ifalias": "DEL clears the alias that stored the name, as the current originals do",
    "added.pod.sysctl.ipv4/conf/*/arp_notify": "a moved NIC announces its addresses, as a macvlan does",
    "*.mode.tuning": "mode 0700: without x only root with CAP_DAC_OVERRIDE can use a directory",
    "*.pod.sysctl.ipv6/conf/*/ndisc_notify": "IPv6 addresses are announced like those of IPv4, as by the current originals",
    "*.pod.sysctl.ipv6/conf/*/keep_addr_on_down": "addresses stay when the link is set down, as with the current originals",
}


def add(name, steps, **kw):
    CASES.append(Case(name, steps, **kw))


# --- sequences of calls ---


def with_name(conf, version):
    return {"cniVersion": version, "name": "net", **conf}


def chain(*plugins, version="1.0.0", env=None, verbs=("ADD", "CHECK", "DEL", "DEL")):
    """The calls of a plugin list as libcni makes them; the second DEL finds nothing to delete."""
    confs, env = [with_name(p, version) for p in plugins], env or {}
    has_prev, steps = version >= "0.4.0", []
    for verb in verbs:
        if verb == "CHECK" and not has_prev:
            continue
        for i, conf in enumerate(reversed(confs) if verb == "DEL" else confs):
            prev = i > 0 if verb == "ADD" else has_prev
            steps.append(Step(verb, conf, conf["type"], env, prev=prev))
    return steps


def refused(contains, *plugins, version="1.0.0", env=None, after=("DEL",), del_contains=None):
    """The last plugin's ADD fails; then the runtime makes the calls in `after`."""
    steps = chain(*plugins, version=version, env=env, verbs=("ADD",))
    steps[-1] = dataclasses.replace(steps[-1], fails=True, contains=(contains,) if isinstance(contains, str) else contains)
    for verb in after:
        steps += [dataclasses.replace(s, prev=False, fails=bool(del_contains), contains=(del_contains or "",)) for s in
                  chain(*plugins, version=version, env=env, verbs=(verb,))]
    return steps


def ipam(verb, settings, version="1.0.0", cid="c1", ifname="net1", cni_args=None, contains=None, **more):
    """An IPAM plugin called as macvlan calls it."""
    conf = with_name({"type": "macvlan", "ipam": settings, **more}, version)
    env = {"CNI_CONTAINERID": cid, "CNI_IFNAME": ifname, "CNI_NETNS": "/run/netns/none", "CNI_ARGS": cni_args}
    return Step(verb, conf, settings["type"], env, fails=contains is not None, contains=tuple(contains or ()))


def macvlan(addresses=None, **more):
    conf = {"type": "macvlan", "master": "rail0", "mode": "bridge", **more}
    if addresses is not None:
        conf["ipam"] = static(*addresses) if isinstance(addresses, (list, tuple)) else addresses
    return conf


def static(*addresses, **more):
    """Addresses as "10.1.2.3/24" or "10.1.2.3/24 gateway"."""
    contains = [a.split() for a in addresses]
    listed = [{"address": w[0], **({"gateway": w[1]} if len(w) > 1 else {})} for w in contains]
    return {"type": "static", "addresses": listed, **more}


def host_local(*ranges, **more):
    conf = {"type": "host-local", "dataDir": STORE, **more}
    return {**conf, "ranges": list(ranges)} if ranges else conf


# --- the protocol ---

STATIC = with_name({"type": "static", "ipam": static("10.1.2.3/24 10.1.2.1")}, "1.0.0")
BARE = {"CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/none"}
TEXTS = [
    ("no-command", {"CNI_COMMAND": None}, None, ()),
    ("unknown-command", {"CNI_COMMAND": "FOO"}, STATIC, "unknown CNI_COMMAND: FOO"),
    ("nothing-set", {"CNI_CONTAINERID": None, "CNI_NETNS": None, "CNI_IFNAME": None, "CNI_PATH": None},
     STATIC, "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"),
    ("empty-is-missing", {"CNI_NETNS": ""}, STATIC, "required env variables [CNI_NETNS] missing"),
    ("no-path", {"CNI_PATH": None}, STATIC, "required env variables [CNI_PATH] missing"),
    ("bad-container-id", {"CNI_CONTAINERID": "../c"}, STATIC, "invalid characters in containerID"),
    ("long-ifname", {"CNI_IFNAME": "sixteen-bytes-xx"}, STATIC, "interface name is too long"),
    ("dots-ifname", {"CNI_IFNAME": ".."}, STATIC, "interface name is . or .."),
    ("slash-ifname", {"CNI_IFNAME": "a/b"}, STATIC, "interface name contains / or : or whitespace characters"),
    ("colon-ifname", {"CNI_IFNAME": "a:b"}, STATIC, "interface name contains / or : or whitespace characters"),
    ("empty-stdin", {}, "", "unexpected end of JSON input"),
    ("cut-json", {}, '{"name": "net"', "unexpected end of JSON input"),
    ("array", {}, "[]", "error unmarshall network config"),
    ("name-number", {}, '{"cniVersion":"1.0.0","name":5}', "error unmarshall network config"),
    ("no-name", {}, '{"cniVersion":"1.0.0"}', "missing network name"),
    ("bad-name", {}, '{"cniVersion":"1.0.0","name":"a b"}', "invalid characters found in network name"),
    ("slash-name", {}, '{"cniVersion":"1.0.0","name":"a/b"}', "invalid characters found in network name"),
    ("future-version", {}, {**STATIC, "cniVersion": "9.0.0"}, "incompatible CNI versions"),
    ("odd-version", {}, {**STATIC, "cniVersion": "1.0"}, "incompatible CNI versions"),
]


def texts():
    for name, env, conf, contains in TEXTS:
        contains = (contains,) if isinstance(contains, str) else contains
        step = Step("ADD", conf if conf is not None else "", "static", {**BARE, **env}, fails=bool(contains), contains=contains)
        add(f"protocol-{name}", [step], namespaces=False)
    for verb, version, contains in [("CHECK", "0.3.1", "config version does not allow CHECK"),
                                 ("CHECK", "0.1.0", "config version does not allow CHECK")]:
        step = Step(verb, {**STATIC, "cniVersion": version}, "static", BARE, fails=True, contains=(contains,))
        add(f"protocol-{verb}-{version}", [step], namespaces=False)
    del_env = {**BARE, "CNI_NETNS": None}
    add("protocol-del-without-netns", [Step("DEL", STATIC, "static", del_env)], namespaces=False)
    add("protocol-no-version", [Step("ADD", {k: v for k, v in STATIC.items() if k != "cniVersion"}, "static", BARE)],
        namespaces=False)
    for kind in ("macvlan", "host-local", "static", "tuning", "sbr", "loopback", "host-device"):
        add(f"protocol-VERSION-{kind}", [Step("VERSION", "", kind)], namespaces=False,
            differs={"0.VERSION.stdout": "unirail's plugins support 1.1.0 as well"})


texts()

# --- static ---

DNS = {"nameservers": ["10.0.0.9"], "domain": "a.b", "search": ["c.d"], "options": ["ndots:2"]}
ROUTES = [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.2.9"}]
STATIC_GOOD = {
    "one": (static("10.1.2.3/24 10.1.2.1"), None, {}),
    "dual": (static("10.1.2.3/24 10.1.2.1", "fd00::5/64 fd00::1"), None, {}),
    "three": (static("10.1.2.3/24", "10.1.2.4/24", "10.9.0.1/8"), None, {}),
    "routes": (static("10.1.2.3/24 10.1.2.1", routes=ROUTES), None, {}),
    "v6-route": (static("fd00::5/64", routes=[{"dst": "fd01::/48", "gw": "fd00::1"}, {"dst": "::/0"}]), None, {}),
    "dns": (static("10.1.2.3/24", dns=DNS), None, {}),
    "nothing": (static(), None, {}),
    "args-ip": (static("10.1.2.3/24"), "IP=10.1.2.77/24,fd00::9/64;GATEWAY=10.1.2.1", {}),
    "args-ip-only": ({"type": "static"}, "IP=10.1.2.77/24", {}),
    "args-cni": ({"type": "static"}, None, {"args": {"cni": {"ips": ["10.4.4.4/16"]}}}),
    "args-cni-replaces": (static("10.1.2.3/24"), None, {"args": {"cni": {"ips": ["10.4.4.4/16", "fd04::4/64"]}}}),
    "runtime": (static("10.1.2.3/24"), None, {"runtimeConfig": {"ips": ["10.5.5.5/16", "fd05::5/64"]}}),
    "runtime-and-args": (static("10.1.2.3/24"), "IP=10.6.6.6/24", {"runtimeConfig": {"ips": ["10.5.5.5/16"]}}),
    "host-bits": (static("10.1.2.0/24", "10.1.2.255/24"), None, {}),
    "unknown-args": (static("10.1.2.3/24"), "IgnoreUnknown=1;K8S_POD_NAME=p;FOO=bar", {}),
    "key-case": ({"type": "static", "Addresses": [{"ADDRESS": "10.1.2.3/24", "Gateway": "10.1.2.1"}]}, None, {}),
}
STATIC_BAD = {
    "no-prefix": (static("10.1.2.3"), None, ("'address'", "CIDR", "10.1.2.3"), CONF),
    "prefix-33": (static("10.1.2.3/33"), None, ("10.1.2.3/33",), CONF),
    "gateway": (static("10.1.2.3/24 10.1.2"), None, ("10.1.2",), CONF),
    "not-a-list": ({"type": "static", "addresses": {"address": "10.1.2.3/24"}}, None, ("addresses",), CONF),
    "args-ip": (static(), "IP=10.1.2.77", ("CIDR", "10.1.2.77"), ENV),
    "args-gateway": (static("10.1.2.3/24"), "IP=10.1.2.4/24;GATEWAY=10.1.2", ("10.1.2",), ENV),
    "args-unknown": (static("10.1.2.3/24"), "FOO=bar", ("unknown args", "FOO=bar"), ENV),
    "args-pair": (static("10.1.2.3/24"), "IP", ("invalid pair", "IP"), ENV),
    "args-semicolon": (static("10.1.2.3/24"), "IP=10.1.2.4/24;", ("invalid pair",), ENV),
    "args-bool": (static("10.1.2.3/24"), "IgnoreUnknown=maybe", ("IgnoreUnknown=maybe",), ENV),
}


def statics():
    for name, (settings, args, more) in STATIC_GOOD.items():
        steps = [ipam(v, settings, cni_args=args, **more) for v in ("ADD", "DEL")]
        add(f"static-{name}", steps, namespaces=False)
    for version in KNOWN:
        one, two = static("10.1.2.3/24 10.1.2.1", routes=ROUTES), static("10.1.2.3/24", "fd00::5/64 fd00::1", dns=DNS)
        for name, settings in (("v4", one), ("dual", two)):
            add(f"static-{version}-{name}", [ipam(v, settings, version) for v in ("ADD", "DEL")], namespaces=False)
    for name, (settings, args, contains, code) in STATIC_BAD.items():
        add(f"static-bad-{name}", [ipam("ADD", settings, cni_args=args, contains=contains)], namespaces=False,
            differs={"0.ADD.code": code})
    add("static-del-of-nonsense", [ipam("DEL", {"type": "static", "addresses": "nonsense"})], namespaces=False)


statics()

# --- host-local ---

NET4, NET6 = {"subnet": "10.7.0.0/29"}, {"subnet": "fd07::/120"}
TINY = {"subnet": "10.7.0.0/30"}


def three(settings, version="1.0.0", **more):
    """ADD of three containers, CHECK (from version 0.4.0 on) and DEL of the second, ADD of a fourth, DEL of the first."""
    steps = [ipam("ADD", settings, version, cid=c, **more) for c in ("c1", "c2", "c3")]
    if version >= "0.4.0":
        steps.append(ipam("CHECK", settings, version, cid="c2", **more))
    return steps + [ipam("DEL", settings, version, cid="c2", **more),
                    ipam("ADD", settings, version, cid="c4", **more),
                    ipam("DEL", settings, version, cid="c1", **more)]


HOST_LOCAL = {
    "range": host_local([NET4]),
    "two-sets": host_local([NET4], [{"subnet": "10.8.0.0/29"}]),
    "two-ranges-in-a-set": host_local([{"subnet": "10.7.0.0/29", "rangeStart": "10.7.0.2", "rangeEnd": "10.7.0.3"},
                                       {"subnet": "10.8.0.0/29"}]),
    "start-end": host_local([{**NET4, "rangeStart": "10.7.0.3", "rangeEnd": "10.7.0.6"}]),
    "gateway": host_local([{**NET4, "gateway": "10.7.0.3"}]),
    "gateway-at-start": host_local([{**NET4, "rangeStart": "10.7.0.2", "gateway": "10.7.0.2"}]),
    "gateway-elsewhere": host_local([{**NET4, "gateway": "10.99.0.1"}]),
    "v6": host_local([NET6]),
    "v6-start": host_local([{**NET6, "rangeStart": "fd07::10", "gateway": "fd07::fe"}]),
    "dual": host_local([NET4], [NET6]),
    "wide-v6": host_local([{"subnet": "fd07::/64"}]),
    "routes": host_local([NET4], routes=ROUTES),
    "legacy": {"type": "host-local", "dataDir": STORE, "subnet": "10.8.0.0/24", "rangeStart": "10.8.0.100",
               "rangeEnd": "10.8.0.110", "gateway": "10.8.0.254", "routes": [{"dst": "0.0.0.0/0"}]},
    "legacy-and-ranges": {"type": "host-local", "dataDir": STORE, "subnet": "10.8.0.0/24",
                          "ranges": [[{"subnet": "10.9.0.0/24"}]]},
    "resolv-conf": host_local([NET4], resolvConf=WORK_DIR + "/resolv.conf"),
    "key-case": {"type": "host-local", "DataDir": STORE, "Ranges": [[{"SUBNET": "10.7.0.0/29", "rangestart": "10.7.0.4"}]]},
    "same-subnet-twice": host_local([{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.10", "rangeEnd": "10.7.0.11"},
                                     {"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.20", "rangeEnd": "10.7.0.21"}]),
}
RESOLV = {"resolv.conf": "# a comment\nnameserver 10.0.0.9\ndomain a.b\nsearch c.d e.f\noptions ndots:2\n"}
HOST_LOCAL_BAD = {
    "no-ranges": (host_local(), "no IP ranges specified"),
    "empty-set": (host_local([]), "empty range set"),
    "mixed": (host_local([NET4, NET6]), "mixed address families"),
    "overlap-in-set": (host_local([NET4, {"subnet": "10.7.0.0/28"}]), "overlap"),
    "overlap-of-sets": (host_local([NET4], [{"subnet": "10.7.0.0/28"}]), "overlaps"),
    "host-bits": (host_local([{"subnet": "10.7.0.1/29"}]), "Network has host bits set"),
    "small": (host_local([{"subnet": "10.7.0.0/31"}]), "too small to allocate from"),
    "one": (host_local([{"subnet": "10.7.0.0/32"}]), "too small to allocate from"),
    "start-outside": (host_local([{**NET4, "rangeStart": "10.9.0.1"}]), "RangeStart 10.9.0.1 not in network"),
    "end-outside": (host_local([{**NET4, "rangeEnd": "10.9.0.1"}]), "RangeEnd 10.9.0.1 not in network"),
    "end-first": (host_local([{**NET4, "rangeStart": "10.7.0.5", "rangeEnd": "10.7.0.2"}]), "RangeStart 10.7.0.5 not in network"),
    "subnet": (host_local([{"subnet": "10.7.0.0"}]), "10.7.0.0"),
    "start": (host_local([{**NET4, "rangeStart": "10.7.0"}]), "10.7.0"),
}


NO_FOLDER = "DEL creates no data directory if none exists"
ONE_OF_TWO = "of two addresses for one set Debian's plugin uses either (the order of a Go map), unirail the first"


def requests():
    """Requests an address in each of the ways that host-local has."""
    settings = host_local([NET4], [NET6])
    more = {"args": {"cni": {"ips": ["10.7.0.4"]}}}
    runtime = {"runtimeConfig": {"ips": ["10.7.0.5", "fd07::20"]}}
    ways = {"CNI_ARGS": dict(cni_args="IP=10.7.0.6"), "CNI_ARGS-prefix": dict(cni_args="IP=10.7.0.6/29"),
            "args-cni": more, "runtime": runtime, "runtime-prefix": {"runtimeConfig": {"ips": ["10.7.0.5/29"]}},
            "CNI_ARGS-v6": dict(cni_args="IP=fd07::33")}
    for name, way in ways.items():
        add(f"host-local-request-{name}",
            [ipam("ADD", settings, **way), ipam("CHECK", settings), ipam("ADD", settings, cid="c2"),
             ipam("DEL", settings), ipam("DEL", settings, cid="c2")], namespaces=False)
    for name, way, contains, code in [
            ("gateway", dict(cni_args="IP=10.7.0.1"), "requested ip 10.7.0.1 is subnet's gateway", CONF),
            ("outside", dict(cni_args="IP=10.99.0.1"), "failed to allocate all requested IPs: 10.99.0.1", CONF),
            ("two-of-a-set", {"runtimeConfig": {"ips": ["10.7.0.4", "10.7.0.5"]}},
             "failed to allocate all requested IPs: 10.7.0.", CONF),
            ("word", dict(cni_args="IP=some"), "some", ENV)]:
        add(f"host-local-request-{name}", [ipam("ADD", settings, contains=[contains], **way), ipam("DEL", settings)],
            namespaces=False, differs={"0.ADD.code": code, **({"end.*.networks*": NO_FOLDER} if name == "word" else {})},
            chance={"*.file.networks/net/last_reserved_ip.0": ONE_OF_TWO} if name == "two-of-a-set" else {})
    add("host-local-request-taken",
        [ipam("ADD", settings, cni_args="IP=10.7.0.4"),
         ipam("ADD", settings, cid="c2", cni_args="IP=10.7.0.4",
              contains=["requested IP address 10.7.0.4 is not available in range set"])], namespaces=False,
        differs={"1.ADD.code": AGAIN})
    add("host-local-runtime-ranges",
        three(host_local([NET4]), runtimeConfig={"ipRanges": [[{"subnet": "10.40.0.0/24"}]]}), namespaces=False)


def stores():
    """Cases of the data directory: full ranges, repeated calls, and files that exist before the first call."""
    settings, full = host_local([NET4]), host_local([TINY])
    held = {"networks/net/10.7.0.2": "old\r\nnet1", "networks/net/10.7.0.3": "older"}
    add("host-local-exhausted",
        [ipam("ADD", full), ipam("ADD", full, cid="c2", contains=["no IP addresses available in range set"]),
         ipam("DEL", full), ipam("ADD", full, cid="c2")], namespaces=False, differs={"1.ADD.code": AGAIN})
    add("host-local-exhausted-second-set",
        [ipam("ADD", host_local([NET4], [{"subnet": "10.8.0.0/30"}])),
         ipam("ADD", host_local([NET4], [{"subnet": "10.8.0.0/30"}]), cid="c2",
              contains=["no IP addresses available in range set"])], namespaces=False, differs={"1.ADD.code": AGAIN})
    add("host-local-twice",
        [ipam("ADD", settings), ipam("ADD", settings, contains=["has been allocated to c1, duplicate allocation is not allowed"])],
        namespaces=False)
    add("host-local-two-interfaces",
        [ipam("ADD", settings), ipam("ADD", settings, ifname="net2"), ipam("DEL", settings),
         ipam("CHECK", settings, ifname="net2"), ipam("DEL", settings, ifname="net2")], namespaces=False)
    for last in ("10.7.0.4", "10.7.0.6", "10.7.0.1", "10.99.0.1", "nonsense", ""):
        add(f"host-local-last-reserved-{last or 'empty'}", three(settings), namespaces=False,
            files={"networks/net/last_reserved_ip.0": last})
    add("host-local-records-of-others", three(settings), namespaces=False, files=held)
    add("host-local-legacy-record", [ipam("CHECK", settings, cid="older"), ipam("DEL", settings, cid="older"),
                                     ipam("DEL", settings, cid="old"), ipam("ADD", settings)], namespaces=False, files=held)
    add("host-local-foreign-files", three(settings), namespaces=False,
        files={"networks/net/README": "not an address", "networks/net/10.7.0.5": ""})
    add("host-local-check-unknown",
        [ipam("ADD", settings), ipam("CHECK", settings, cid="zz",
                                     contains=["host-local: Failed to find address added by container zz"])],
        namespaces=False)
    add("host-local-del-unknown", [ipam("DEL", settings, cid="zz")], namespaces=False, differs={"end.*.networks*": NO_FOLDER})


def host_locals():
    for name, settings in HOST_LOCAL.items():
        add(f"host-local-{name}", three(settings), namespaces=False, files=RESOLV if name == "resolv-conf" else {})
    for version in KNOWN:
        add(f"host-local-{version}", three(host_local([NET4], [NET6], routes=ROUTES), version), namespaces=False)
        if version < "0.3.0":
            add(f"host-local-{version}-two-sets",
                [ipam("ADD", HOST_LOCAL["two-sets"], version, contains=["does not support more than 1 address per family"])],
                namespaces=False, differs={"0.ADD.code": CONF})
    for name, (settings, contains) in HOST_LOCAL_BAD.items():
        add(f"host-local-bad-{name}", [ipam("ADD", settings, contains=[contains])], namespaces=False,
            differs={"0.ADD.code": CONF})
    requests()
    stores()


host_locals()
