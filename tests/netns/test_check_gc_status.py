# SPDX-License-Identifier: Apache-2.0
"""CHECK, GC and STATUS of macvlan and host-device, alone and followed by sbr, tuning or the coordinator: as a chain of executed plugins,
and within the process of unirail-cni. CHECK names each part that was removed or changed after ADD, GC releases the resources of
attachments that the runtime does not list, STATUS reports missing resources."""
import pytest
from lab import ip, ns_del, routes, rules, state
from report import wait

ADDRESS, NET = "172.16.1.10", "172.16.1.0/24"


def static(*more):
    return {"type": "static", "addresses": [{"address": f"{ADDRESS}/24", "gateway": "172.16.1.1"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.7.0.0/16", "gw": "172.16.1.1"}, *more]}


MACVLAN = {"type": "macvlan", "master": "rail0", "mode": "bridge", "ipam": static()}
HOST_DEVICE = {"type": "host-device", "device": "rail0", "ipam": static()}
TUNING = {"type": "tuning", "mtu": 1400}
SBR = {"type": "sbr"}
COORDINATOR = {"type": "coordinator", "mode": "underlay"}

CHAINS = {
    "macvlan": [MACVLAN], "macvlan-sbr": [MACVLAN, SBR], "macvlan-tuning-sbr": [MACVLAN, TUNING, SBR],
    "macvlan-coordinator": [MACVLAN, COORDINATOR], "macvlan-coordinator-sbr": [MACVLAN, COORDINATOR, SBR],
    "host-device": [HOST_DEVICE], "host-device-sbr": [HOST_DEVICE, SBR],
}


class Attached:
    """A pod with one network, attached by unirail-cni (at_once) or by a chain of plugins, called as libcni calls them."""

    def __init__(self, lab, plugins, at_once):
        self.lab, self.pod, self.at_once, self.result = lab, lab.pod(), at_once, None
        self.plugins = [self.here(p) for p in plugins]

    def here(self, p):
        return {**p, "dataDir": str(self.lab.tmp / "tuning")} if p["type"] == "tuning" else p

    def confs(self, **more):
        if self.at_once:
            return [self.lab.rails([{"name": "net", "ifname": "eth0", "plugins": self.plugins}], **more)]
        return [{**p, "cniVersion": "1.1.0", "name": "net", **more} for p in self.plugins]

    def add(self):
        for conf in self.confs():
            prev = {"prevResult": self.result} if self.result else {}
            self.result = self.lab.add({**conf, **prev}, self.pod, ifname="eth0")

    def call(self, verb, **more):
        """Calls CHECK, GC or STATUS of each plugin until one fails (libcni does so for CHECK and STATUS; its GC calls every plugin). Returns
        the error's message; None: none failed."""
        prev = {} if verb in ("GC", "STATUS") else {"prevResult": self.result}
        for conf in self.confs(**prev, **more):
            c = self.lab.cni(verb, conf, self.pod, ifname="eth0")
            if c.status:
                return c.json["msg"] + " " + c.json.get("details", "")
        return None

    def delete(self, **kw):
        for conf in reversed(self.confs(prevResult=self.result)):
            self.lab.delete(conf, self.pod, ifname="eth0", **kw)


def tables(ns):
    """{table: routes} of eth0."""
    found = {}
    for table in ["main", *{r[3] for r in rules(ns)}]:
        if table not in ("local", "default"):
            found[table] = [r for r in routes(ns, table) if "dev eth0" in r]
    return found


def remove_route(ns, start):
    hit = [(t, r) for t, rs in tables(ns).items() for r in rs if r.startswith(start)]
    assert hit, tables(ns)
    for table, route in hit:
        ip(ns, "route", "del", *route.split(), "table", table)


DAMAGE = {
    "address": (lambda ns: ip(ns, "addr", "del", f"{ADDRESS}/24", "dev", "eth0"), ADDRESS),
    "default-route": (lambda ns: remove_route(ns, "default"), "0.0.0.0/0"),
    "route": (lambda ns: remove_route(ns, "10.7.0.0/16"), "10.7.0.0/16"),
    "subnet": (lambda ns: remove_route(ns, NET), "no route to 172.16.1.0/24"),
    "mac": (lambda ns: ip(ns, "link", "set", "eth0", "address", "02:00:00:00:00:77"), "02:00:00:00:00:77"),
    "interface": (lambda ns: ip(ns, "link", "set", "eth0", "name", "gone"), "eth0"),
}


# Parts that exist only if the chain contains the plugin that creates them.
MORE = {
    "sbr": ("sbr-rule", lambda ns: ip(ns, "rule", "del", "from", ADDRESS, "lookup", sbr_table(ns)), f"rule 'from {ADDRESS}'"),
    "tuning": ("mtu", lambda ns: ip(ns, "link", "set", "eth0", "mtu", "1300"), "1400"),
    "coordinator": ("mark-rule", lambda ns: ip(ns, "rule", "del", "fwmark", "1", "lookup", "100"), "fwmark 0x1 lookup 100"),
}


def sbr_table(ns):
    """The table of sbr: of the tables in the address's rules, the one without a route to the node."""
    found = [r[3] for r in rules(ns) if r[1] == ADDRESS and not any("veth0" in x for x in routes(ns, r[3]))]
    assert len(found) == 1, rules(ns)
    return found[0]


@pytest.mark.parametrize("at_once", [False, True], ids=["chain", "unirail-cni"])
@pytest.mark.parametrize("chain", CHAINS)
def test_check_names_each_part_that_was_removed_or_changed(lab, chain, at_once):
    damage = [(name, *how) for name, how in DAMAGE.items()]
    damage += [MORE[p["type"]] for p in CHAINS[chain] if p["type"] in MORE]
    for name, do, word in damage:
        a = Attached(lab, CHAINS[chain], at_once)
        a.add()
        assert a.call("CHECK") is None, name
        if name == "interface":
            ip(a.pod.ns, "link", "set", "eth0", "down")
        do(a.pod.ns)
        answer = a.call("CHECK")
        assert answer and word in answer and "\n" not in answer, (name, answer)
        if name == "interface":
            ip(a.pod.ns, "link", "set", "gone", "name", "eth0")
        a.delete()


# --- GC ---


def host_local(lab):
    return {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": NET}]]}


def held(lab):
    return sorted(p.name for p in (lab.tmp / "networks").glob("*/172.*"))


GC = {
    "macvlan-host-local": lambda lab: [{**MACVLAN, "ipam": host_local(lab)}],
    "macvlan-spiderpool": lambda lab: [{**MACVLAN, "ipam": lab.ipam("rail0")}],
    "macvlan-host-local-sbr": lambda lab: [{**MACVLAN, "ipam": host_local(lab)}, SBR],
    "macvlan-spiderpool-coordinator": lambda lab: [{**MACVLAN, "ipam": lab.ipam("rail0")}, COORDINATOR],
}


@pytest.mark.parametrize("at_once", [False, True], ids=["chain", "unirail-cni"])
@pytest.mark.parametrize("what", GC)
def test_gc_removes_the_state_of_unlisted_pods(lab, what, at_once):
    """A pod's namespace is deleted without DEL, and the list that the runtime passes to GC does not contain the pod: GC removes the
    pod's state from the node, and the state of the listed pod stays."""
    lab.rail_pools(reuse_delay="0s")
    before = state(lab.node)
    plugins = GC[what](lab)
    running = Attached(lab, plugins, at_once)
    running.add()
    with_one = state(lab.node)
    lost = Attached(lab, plugins, at_once)
    lost.add()
    ns_del(lost.pod.ns)
    given = lambda: len(lab.used()) + len(held(lab))  # noqa: E731
    assert given() == 2
    valid = {"cni.dev/valid-attachments": [{"containerID": running.pod.id, "ifname": "eth0"}]}
    assert running.call("GC") is None  # without a list GC changes nothing
    assert given() == 2
    assert running.call("GC", **valid) is None
    assert given() == 1 and running.call("CHECK") is None
    wait(lambda: without_shared_rules(state(lab.node)) == without_shared_rules(with_one), "the node has no state of the lost pod")
    assert running.call("GC", **valid) is None
    running.delete()
    assert given() == 0
    wait(lambda: without_shared_rules(state(lab.node)) == without_shared_rules(before), "the node has its state without pods", 10)


def without_shared_rules(st):
    """The node's state without the rules of priority 1000 (the coordinator's rule for table 500), and with its neighbours as sorted
    strings."""
    return {**st, "rules": [r for r in st["rules"] if r["priority"] != 1000], "neighbours": sorted(map(str, st["neighbours"]))}


# --- STATUS ---

STATUS = {
    "master": ([{**MACVLAN, "master": "none"}], 50, ["none", "Link not found"]),
    "device": ([{"type": "host-device", "pciBusID": "0000:99:00.0"}], 50, ["0000:99:00.0"]),
    "ipam-executable": ([{**MACVLAN, "ipam": {"type": "nosuch"}}], 50, ["nosuch"]),
    "static": ([{**MACVLAN, "ipam": {"type": "static", "addresses": [{"address": "172.16.1"}]}}], 7, ["172.16.1"]),
    "pool": ([{**MACVLAN, "ipam": {"type": "spiderpool", "default_ipv4_ippool": ["nope"]}}], 50, ["nope"]),
    "sbr": ([MACVLAN, {**SBR, "table": "x"}], 7, ["table"]),
    "tuning": ([MACVLAN, {**TUNING, "mtu": "x"}], 7, ["mtu"]),
    "coordinator": ([MACVLAN, {**COORDINATOR, "mode": "sideways"}], 7, ["sideways"]),
}


@pytest.mark.parametrize("at_once", [False, True], ids=["chain", "unirail-cni"])
@pytest.mark.parametrize("what", STATUS)
def test_status_reports_missing_resources_and_invalid_configurations(lab, what, at_once):
    """STATUS succeeds for a valid configuration. Otherwise its error has the code for an invalid configuration or a missing resource;
    the error of unirail-cni also names the rail or the field conf.networks[0]."""
    lab.rail_pools()
    plugins, code, contains = STATUS[what]
    for p in plugins:
        if p.get("ipam", {}).get("type") == "spiderpool":
            p["ipam"] = {**lab.ipam("rail0"), **p["ipam"]}
    whole = [MACVLAN if p["type"] == "macvlan" else HOST_DEVICE if p["type"] == "host-device" else
             {"tuning": TUNING, "sbr": SBR, "coordinator": COORDINATOR}[p["type"]] for p in plugins]
    assert Attached(lab, whole, at_once).call("STATUS") is None
    broken = Attached(lab, plugins, at_once)
    for conf in broken.confs():
        c = lab.cni("STATUS", conf, broken.pod, ifname="eth0")
        if c.status:
            break
    answer = c.json["msg"] + " " + c.json.get("details", "")
    assert c.status == 1 and c.json["code"] == code and all(w in answer for w in contains), c
    assert not at_once or "rail 'eth0' (net)" in answer or "conf.networks[0]" in answer, answer
