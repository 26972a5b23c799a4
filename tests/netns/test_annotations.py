# SPDX-License-Identifier: Apache-2.0
"""The data that Multus and unirail write for a pod, from the same definitions and the same results of plugins: the
network-status annotation byte for byte, Multus' cache file and libcni's cache."""
import base64
import ipaddress
import json

import pytest
from report import wait
from multus_lab import delegate
from test_multus import agent, conf  # noqa: F401

PLUGIN = """#!/usr/bin/python3
import json, os, sys
conf = json.load(sys.stdin)
if os.environ["CNI_COMMAND"] == "VERSION":
    print('{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]}')
if os.environ["CNI_COMMAND"] == "ADD":
    print(json.dumps({"cniVersion": conf["cniVersion"], **conf["gives"]}))
"""

POD = {"sandbox": "/run/netns/p"}

# Results that plugins return: (version, result).
RESULTS = {
    "one interface": ("1.0.0", {
        "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", **POD}],
        "ips": [{"interface": 0, "address": "10.1.0.9/16", "gateway": "10.1.0.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}]}),
    "version 0.3.1": ("0.3.1", {
        "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", **POD}],
        "ips": [{"version": "4", "interface": 0, "address": "10.1.0.9/16"},
                {"version": "6", "interface": 0, "address": "FD00:0::9/64", "gateway": "fd00::1"}],
        "routes": [{"dst": "::/0", "gw": "FD00::1"}], "dns": {"nameservers": ["10.96.0.10"]}}),
    "interfaces on the node and in the pod": ("1.0.0", {
        "interfaces": [{"name": "cbr0", "mac": "0a:00:00:00:00:01"}, {"name": "veth1", "mac": "0a:00:00:00:00:02"},
                       {"name": "eth0", "mac": "0a:00:00:00:00:03", **POD}],
        "ips": [{"interface": 2, "address": "10.1.0.9/16", "gateway": "10.1.0.1"}],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.1.0.2"}]}),
    "two interfaces in the pod": ("1.0.0", {
        "interfaces": [{"name": "a", **POD}, {"name": "h"}, {"name": "b", "mac": "02:00:00:00:00:02", **POD}],
        "ips": [{"interface": 0, "address": "10.0.0.1/24"}, {"interface": 2, "address": "10.0.1.1/24", "gateway": "10.0.1.254"},
                {"interface": 1, "address": "10.0.2.1/24"}, {"address": "10.0.3.1/24"}]}),
    "default routes of two interfaces": ("1.0.0", {
        "interfaces": [{"name": "a", **POD}, {"name": "b", **POD}],
        "ips": [{"interface": 1, "address": "10.0.1.1/24", "gateway": "10.0.1.254"},
                {"interface": 0, "address": "10.0.0.1/24", "gateway": "10.0.0.254"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.1.254"}, {"dst": "::/0", "gw": "fd00::1"}]}),
    "interface without sandbox": ("1.0.0", {"interfaces": [{"name": "h", "mac": "02:00:00:00:00:03"}], "ips": [{"address": "10.0.0.1/24"}]}),
    "no interface": ("1.0.0", {"ips": [{"address": "10.0.0.1/24"}]}),
    "nothing": ("1.0.0", {}),
    "mtu and dns": ("1.1.0", {
        "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "mtu": 4200, **POD}],
        "dns": {"nameservers": ["10.96.0.10", "fd00::a"], "domain": "local", "search": ["a", "b"], "options": ["ndots:5"]}}),
    "characters that Go escapes": ("1.0.0", {
        "interfaces": [{"name": "eth0", **POD}], "dns": {"domain": "a<b>&c\u2028", "search": ["é"]}}),
}


# --- Multus, according to network-attachment-definition-client ---

def address(text):
    """Go's net.IP.String()."""
    return str(ipaddress.ip_address(text))


def gateways(result):
    return [address(r["gw"]) if r.get("gw") else "<nil>" for r in result.get("routes", [])
            if not int(ipaddress.ip_interface(r["dst"]).ip)]


def entry(result, name, default, iface, ips):
    dns = {k: v for k in ("nameservers", "domain", "search", "options") if (v := result.get("dns", {}).get(k))}
    keys = {"name": name, "interface": iface.get("name"), "ips": ips, "mac": iface.get("mac"), "mtu": iface.get("mtu"),
            "default": default, "dns": dns, "gateway": gateways(result)}
    return {k: v for k, v in keys.items() if v or k in ("name", "dns")}


def statuses(result, name, default):
    ifaces, ips = result.get("interfaces", []), result.get("ips", [])
    text = lambda ip: address(ip["address"].split("/")[0])
    if len(ifaces) == 1:
        return [entry(result, name, default, ifaces[0] if "sandbox" in ifaces[0] else {}, [text(ip) for ip in ips])]
    inside = [i for i, x in enumerate(ifaces) if "sandbox" in x]
    owner = next((ip["interface"] for ip in ips if "gateway" in ip and "interface" in ip), None)
    first = inside[0] if owner is None and inside else owner
    return [entry(result, name, default and i == first, ifaces[i],
                  [text(ip) for ip in ips if ip.get("interface", inside[-1]) == i]) for i in inside]


def annotation(entries):
    go = lambda text: text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")
    return "[" + ",".join(go(json.dumps(e, indent=4, ensure_ascii=False)) for e in entries) + "]"


# --- what unirail writes for the same definitions and results ---


@pytest.fixture
def others(lab):
    folder = lab.tmp / "plugins-of-others"
    folder.mkdir()
    (folder / "gives").write_text(PLUGIN)
    (folder / "gives").chmod(0o755)
    return folder


def definition(name, version, result):
    return {"cniVersion": version, "name": name, "plugins": [{"type": "gives", "gives": result, "ipam": {"type": "x"}}]}


def added(lab, agent, others, *nets):
    """nets: (name of the definition, interface, definition). Returns the pod, the plugin's configuration and the report about the pod."""
    agent.networks(*nets)
    pod = lab.pod()
    c = conf(lab, agent, clusterNetwork="first", binDir=str(others))
    lab.add(c, pod, ifname="eth0")
    wait(lambda: agent.reports, "the agent receives a report")
    return pod, c, agent.reports[0]


@pytest.mark.parametrize("name", RESULTS)
def test_network_status_equals_that_of_multus(lab, agent, others, name):
    """The pod's default network and an additional network have plugins that return the same result."""
    version, result = RESULTS[name]
    nets = [("kube-system/first", None, definition("first", version, result)),
            ("team/more", "net1", definition("more", version, result))]
    pod, c, reports = added(lab, agent, others, *nets)
    assert reports["networkStatus"] == annotation(statuses(result, "kube-system/first", True) + statuses(result, "team/more", False))
    lab.delete(c, pod, ifname="eth0")


# The keys in which unirail's files differ from those of Multus' HEAD, and the reason for each.
DIFFERENT = {
    "Conf": "for a plugin list, Multus writes a Conf with only two empty objects, and does not read it",
    "unirail": "names the writer of the entry, so that unirail's DEL recognizes its own entries",
    "unirailState": "further data for unirail's CHECK and DEL: arguments, and the definition's version",
    "ifnameRequest": "unirail always writes the interface name: if Multus numbered the networks again, an interface name could change",
}


def test_cache_files_equal_those_of_multus_and_libcni(lab, agent, others):
    version, result = RESULTS["one interface"]
    first, more = definition("first", version, result), definition("more", version, result)
    named = definition("named", version, result)
    pod, c, _ = added(lab, agent, others, ("kube-system/first", None, first), ("team/more", "net1", more),
                         ("team/named", "rdma0", named))
    candidate = json.loads((lab.tmp / "multus" / pod.id).read_text())
    reference = [delegate(first, True), delegate(more, True), delegate(named, True, ifnameRequest="rdma0")]
    for t, place in zip(reference, ("kube-system/first", "team/more", "team/named")):
        t["Name"] = place
    assert [o.get("ifnameRequest") for o in candidate] == [None, "net1", "rdma0"]
    for o, t in zip(candidate, reference):
        seen = {k for k in o.keys() | t.keys() if o.get(k) != t.get(k)} - {"Bytes"}
        assert seen <= set(DIFFERENT) and {"Conf", "unirail"} <= seen, seen
        # Bytes is what a DEL of Multus executes: the whole definition. `gives`, the result that the test's plugin returns, may differ.
        runs, was = (json.loads(base64.b64decode(x["Bytes"])) for x in (o, t))
        assert {**runs, "plugins": [{**p, "gives": None} for p in runs["plugins"]]} == {
            **was, "plugins": [{**p, "gives": None} for p in was["plugins"]]}
    for net, ifname in (("first", "eth0"), ("more", "net1"), ("named", "rdma0")):
        cached = json.loads((lab.tmp / "multus" / "results" / f"{net}-{pod.id}-{ifname}").read_text())
        assert list(cached) == ["kind", "containerId", "config", "ifName", "networkName", "netns", "cniArgs", "result"]
        assert (cached["kind"], cached["containerId"], cached["ifName"], cached["networkName"], cached["netns"]) == (
            "cniCacheV1", pod.id, ifname, net, pod.netns)
        assert cached["result"]["ips"] == result["ips"] and cached["result"]["cniVersion"] == version
    lab.delete(c, pod, ifname="eth0")
