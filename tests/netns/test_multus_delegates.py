# SPDX-License-Identifier: Apache-2.0
"""`multus` as the caller of each network's plugins: CHECK and DEL get the same arguments as ADD, and the result of
their own network only. The plugins are scripts that record their calls."""
import json

import pytest
from lab import REFERENCE, link_names
from multus_lab import Multus
from pod_agent import agent  # noqa: F401

from test_multus import conf, check_removed, leases, cache_entries, podnet, with_files

RECORDER = """#!/usr/bin/python3
import json, os, sys
text = sys.stdin.read()
conf = json.loads(text)
command = os.environ["CNI_COMMAND"]
seen = {"conf": conf, "args": os.environ.get("CNI_ARGS", ""), "type": os.path.basename(sys.argv[0])}
with open(os.path.join(%r, f"{command}-{conf['name']}-{os.environ['CNI_IFNAME']}-{seen['type']}"), "w") as f:
    json.dump(seen, f)
if command == "ADD":
    print(json.dumps(conf["says"] if "says" in conf else conf["prevResult"]))
"""


class Recorder:
    """Plugins `link` (returns the result in its configuration) and `chained` (passes prevResult on)."""

    def __init__(self, lab):
        self.dir, self.bin = lab.tmp / "seen", lab.tmp / "recorders"
        self.dir.mkdir()
        self.bin.mkdir()
        for name in ("link", "chained"):
            (self.bin / name).write_text(RECORDER % str(self.dir))
            (self.bin / name).chmod(0o755)

    def seen(self, command, network, ifname="net1", plugin="link"):
        return json.loads((self.dir / f"{command}-{network}-{ifname}-{plugin}").read_text())

    def called(self, command):
        return sorted(p.name for p in self.dir.glob(f"{command}-*"))


@pytest.fixture
def recorder(lab):
    return Recorder(lab)


def iface(name, pod=None, **more):
    return {"name": name, **({"sandbox": pod.netns} if pod else {}), **more}


def says(version, ifaces=(), ips=(), routes=(), **more):
    return {"cniVersion": version, "interfaces": list(ifaces), "ips": list(ips), "routes": list(routes), **more}


def without(d, *keys):
    return {k: v for k, v in d.items() if k not in keys}


def test_plugins_get_their_own_keys_and_arguments(lab, agent, recorder):
    """A plugin gets the keys of its configuration unchanged, even if unirail-cni has keys of the same name, and its own CNI_ARGS and
    runtimeConfig."""
    own = {"deviceID": "a", "ifname": "b", "cniArgs": "c", "defaultRoute": ["d"], "nad": "e", "plugins": ["f"], "name": "g",
           "capabilities": {"mac": True}}
    pod = lab.pod()
    agent.networks(
        ("kube-system/podnet", None, podnet(lab)),
        ("team/rail0", "net1", {"cniVersion": "1.0.0", "name": "rail0", "plugins": [
            {"type": "link", **own, "says": says("1.0.0", [iface("net1", pod)])}, {"type": "chained", **own}]},
         {"mac": "02:00:5e:10:00:09", "ips": ["172.16.1.77"], "cniArgs": {"k": "v"}, "defaultRoute": ["172.16.1.1"]}),
        ("team/rail1", "net2", {"cniVersion": "1.0.0", "name": "rail1", "type": "link", **without(own, "plugins", "name"),
                                "says": says("1.0.0", [iface("net2", pod)])}))
    agent.answer["networks"][1].pop("defaultRoute")
    c = conf(lab, agent, clusterNetwork="podnet")
    result = lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    agent.stop()
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    for where in (("rail0", "net1", "link"), ("rail0", "net1", "chained"), ("rail1", "net2", "link")):
        add = recorder.seen("ADD", *where)
        assert add["conf"]["deviceID"] == "a" and add["conf"].get("plugins", ["f"]) == ["f"]
        assert add["args"].endswith("MAC=02:00:5e:10:00:09;IP=172.16.1.77") == (where[0] == "rail0")
        for command in ("CHECK", "DEL"):
            seen = recorder.seen(command, *where)
            assert without(seen["conf"], "prevResult") == without(add["conf"], "prevResult"), (command, where)
            assert seen["args"] == add["args"], (command, where)
    check_removed(lab, pod)


@pytest.mark.parametrize("version", ["1.1.0", "1.0.0", "0.4.0"])
@pytest.mark.parametrize("type", ["multus", "unirail-cni"])
def test_each_network_gets_its_own_result(lab, agent, recorder, type, version):
    """In CHECK and DEL each network's prevResult is what its own ADD returned, including addresses without interface, links of the node,
    renamed links and DNS."""
    pod = lab.pod()
    address = lambda a, **more: {**({"version": "4"} if version < "1.0.0" else {}), "address": a, **more}
    printed = {
        "rail0": says(version, [iface("hostend0"), iface("net1", pod)], [address("10.7.0.2/24", gateway="10.7.0.1")],
                      [{"dst": "10.8.0.0/16"}, {"dst": "10.9.0.0/16", "gw": "10.7.0.3"}], dns={"nameservers": ["10.7.0.53"]}),
        "rail1": says(version, [iface("renamed1", pod), iface("hostend1")],
                      [address("10.17.0.2/24", interface=0), address("10.17.0.3/24")], [{"dst": "10.18.0.0/16"}],
                      dns={"domain": "rail1.example", "search": ["a"]}),
        "rail2": says(version, [], [address("10.27.0.2/24")]),
    }
    agent.networks(("kube-system/podnet", None, podnet(lab)),
                   *((f"team/{n}", f"net{i + 1}", {"cniVersion": version, "name": n, "type": "link", "says": s})
                     for i, (n, s) in enumerate(printed.items())))
    c = conf(lab, agent, type, clusterNetwork="podnet")
    result = lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    for i, (name, what) in enumerate(printed.items()):
        want = {k: v for k, v in what.items() if v}
        for command in ("CHECK", "DEL"):
            prev = recorder.seen(command, name, f"net{i + 1}")["conf"]["prevResult"]
            assert {k: v for k, v in prev.items() if v} == want, (command, name)
    check_removed(lab, pod)


def test_check_succeeds_with_a_cached_result_of_an_older_version(lab, agent):
    """libcni's cache has the result in the CNI version of the definition; 0.2.0 has no interfaces. CHECK succeeds nevertheless."""
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/rail0", "net1", {**with_files(lab, "rail0"), "cniVersion": "0.2.0"}))
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    result = lab.add(c, pod, ifname="eth0")
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0")
    cached, = (lab.tmp / "multus" / "results").glob("rail0-*")
    entry = json.loads(cached.read_text())
    assert entry["result"]["ip4"] and "interfaces" not in entry["result"], "the cached result has the format of 0.2.0, as with Multus"
    assert entry["unirailResult"]["version"] == 1 and entry["unirailResult"]["result"]["interfaces"][0]["name"] == "net1"
    assert Multus(lab, lab.tmp / "multus").delete(pod, REFERENCE)
    check_removed(lab, pod)
    assert leases(lab) == []


def test_keys_of_a_later_cache_version_are_ignored(lab, agent, recorder):
    """A later version of unirail wrote its keys in a format that this version does not know, beside the keys of Multus: CHECK and DEL
    ignore unirail's keys and use those of Multus."""
    pod = lab.pod()
    agent.networks(("kube-system/podnet", None, podnet(lab)),
                   ("team/rail0", "net1", {"cniVersion": "0.4.0", "name": "rail0", "type": "link",
                                           "says": says("0.4.0", [iface("net1", pod)])}, {"mac": "02:00:5e:10:00:09"}))
    c = conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    scratch = lab.tmp / "multus" / pod.id
    cached, = (lab.tmp / "multus" / "results").glob("rail0-*")
    delegates, entry = json.loads(scratch.read_text()), json.loads(cached.read_text())
    assert delegates[1]["unirailState"] == {"version": 1, "cniArgs": "MAC=02:00:5e:10:00:09"}
    delegates[1]["unirailState"] = {"version": 2, "cniArgs": {"of": "another kind"}}
    entry["unirailResult"] = {"version": 2, "result": 7}
    scratch.write_text(json.dumps(delegates))
    cached.write_text(json.dumps(entry))
    lab.ok("CHECK", {**c, "prevResult": {"cniVersion": "1.0.0"}}, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert recorder.seen("DEL", "rail0")["conf"]["prevResult"]["interfaces"] == [iface("net1", pod)]
    check_removed(lab, pod)


@pytest.mark.parametrize("delegate, prints", [("1.0.0", "1.0.0"), ("0.3.1", "0.3.1"), (None, "0.1.0")])
def test_netconf_without_version_has_the_version_of_its_first_delegate(lab, agent, recorder, delegate, prints):
    """Multus prints the result of its first delegate in that delegate's version. A result of version 0.1.0 has no interfaces, and at
    most one address of each family."""
    pod = lab.pod()
    address = lambda a: {**({"version": "4"} if prints < "1.0.0" else {}), "address": a, "interface": 0}
    printed = {"cniVersion": "0.1.0", "ip4": {"ip": "10.7.0.2/24"}} if not delegate else \
        says(delegate, [iface("eth0", pod)], [address("10.7.0.2/24"), address("10.7.0.3/24")])
    first = {"name": "first", "type": "link", "says": printed, **({"cniVersion": delegate} if delegate else {})}
    c = conf(lab, agent, delegates=[first])
    del c["cniVersion"]
    del c["agent"]
    result = lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert result["cniVersion"] == prints
    assert {k: v for k, v in result.items() if v} == {k: v for k, v in printed.items() if v}
    assert lab.add({**c, "cniVersion": "1.0.0"}, lab.pod("b"), ifname="eth0", CNI_PATH=str(recorder.bin))["cniVersion"] == "1.0.0"
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))


def test_definition_without_version_is_passed_on_unchanged(lab, agent, recorder):
    pod = lab.pod()
    printed = {"ip4": {"ip": "10.7.0.2/24", "gateway": "10.7.0.1"}, "dns": {}}
    agent.networks(("kube-system/podnet", None, podnet(lab)),
                   ("team/rail0", "net1", {"name": "rail0", "plugins": [{"type": "link", "says": printed}, {"type": "chained"}]}),
                   ("team/rail1", "net2", {"type": "link", "says": printed}))
    c = conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert Multus(lab, lab.tmp / "multus").prev(pod, "rail0", "net1", "0.1.0") is None
    scratch = json.loads((lab.tmp / "multus" / pod.id).read_text())
    assert scratch[1]["ConfList"]["cniVersion"] == "0.1.0", "Multus rewrites a list without cniVersion and drops most of its keys"
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    for command in ("ADD", "DEL"):
        for where in (("rail0", "net1", "link"), ("rail0", "net1", "chained"), ("rail1", "net2", "link")):
            seen = recorder.seen(command, *where)["conf"]
            assert "cniVersion" not in seen and ("prevResult" in seen) == (command == "ADD" and where[2] == "chained")
    assert recorder.seen("ADD", "rail0", "net1", "chained")["conf"]["prevResult"] == {"cniVersion": "0.1.0", **printed}
    check_removed(lab, pod)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
@pytest.mark.parametrize("first", [True, False], ids=["first network", "later network"])
def test_result_of_an_old_version_without_addresses_is_accepted(lab, agent, recorder, first, version):
    """libcni stores a result without addresses and passes it on; only a conversion to 0.2.0 needs an address."""
    pod = lab.pod()
    nothing = {"cniVersion": version, "dns": {}}
    net = {"cniVersion": version, "name": "old", "plugins": [{"type": "link", "says": nothing}, {"type": "chained"}]}
    agent.networks(*([] if first else [("kube-system/podnet", None, podnet(lab))]), ("team/old", "eth0" if first else "net1", net))
    c = conf(lab, agent, clusterNetwork="podnet", **({"cniVersion": version} if first else {}))
    result = lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    if first:
        assert result == nothing
    ifname = "eth0" if first else "net1"
    assert recorder.seen("ADD", "old", ifname, "chained")["conf"]["prevResult"] == nothing
    cached, = (lab.tmp / "multus" / "results").glob("old-*")
    assert json.loads(cached.read_text())["result"] == nothing
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert recorder.called("DEL") == [f"DEL-old-{ifname}-chained", f"DEL-old-{ifname}-link"]
    assert cache_entries(lab) == [] and (first or link_names(pod.ns) == ["lo"])


# --- GC ---


def rail_1_1(lab, name="rail0", **more):
    """A network of CNI version 1.1.0: unirail's macvlan, whose host-local stores addresses in files, then a plugin that is executed."""
    return {"cniVersion": "1.1.0", "name": name, "plugins": [
        {"type": "macvlan", "master": name, "mode": "bridge", "ipam": {
            "type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": "172.16.9.0/24"}]]}},
        {"type": "chained", **more}]}


def lose_cache_entries(lab, pod):
    for p in list((lab.tmp / "multus").rglob("*")):
        if p.is_file() and pod.id in p.name:
            p.unlink()


def valid(*pods):
    return [{"containerID": p.id, "ifname": "eth0"} for p in pods]


def test_gc_calls_plugins_and_ipam(lab, agent, recorder):
    """One container has lost its cache entry: GC finds the network in the entries of another container, calls the network's plugins and
    releases the addresses of the container without entry."""
    agent.networks(("team/rail0", "eth0", rail_1_1(lab)), ("team/rail0", "net7", rail_1_1(lab)))
    running, lost = lab.pod("kept"), lab.pod("lost")
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    for pod in (running, lost):
        lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert len(leases(lab)) == 4
    held = [p.name for p in (lab.tmp / "networks" / "rail0").glob("172.*") if running.id in p.read_text()]
    lose_cache_entries(lab, lost)
    agent.stop()
    call = lab.cni("GC", {**c, "cni.dev/valid-attachments": valid(running)}, running, ifname="", CNI_PATH=str(recorder.bin))
    assert call.status == 0 and call.out == "" and "EISDIR" not in call.err and call.err == "", call
    assert leases(lab) == sorted(held)
    seen, = [recorder.dir / n for n in recorder.called("GC")]
    printed = json.loads(seen.read_text())["conf"]
    assert printed["cniVersion"] == "1.1.0" and printed["name"] == "rail0" and printed["type"] == "chained"
    attached = {(a["containerID"], a["ifname"]) for a in printed["cni.dev/valid-attachments"]}
    assert attached == {(running.id, "eth0"), (running.id, "net7")} and printed["cni.dev/attachments"] == printed["cni.dev/valid-attachments"]
    lab.delete(c, running, ifname="eth0", CNI_PATH=str(recorder.bin))
    assert leases(lab) == []


def test_gc_runs_for_networks_without_cache_entries(lab, recorder):
    """No container has a cache entry any more, but the netconf still names the network."""
    pod = lab.pod()
    c = {"cniVersion": "1.1.0", "name": "multus-cni-network", "type": "multus", "cniDir": str(lab.tmp / "multus"),
         "binDir": str(REFERENCE), "delegates": [rail_1_1(lab)]}
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, pod)
    assert len(leases(lab)) == 1
    lab.ok("GC", {**c, "cni.dev/valid-attachments": []}, pod, ifname="", CNI_PATH=str(recorder.bin))
    assert leases(lab) == [] and len(recorder.called("GC")) == 1


def test_gc_retains_addresses_of_a_running_container_without_cache_entry(lab, agent, recorder):
    """A listed container has no cache entry, so GC cannot know which addresses the container has, and releases none."""
    agent.networks(("team/rail0", "eth0", rail_1_1(lab)))
    one, lives = lab.pod("one"), lab.pod("lives")
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    for pod in (one, lives):
        lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lose_cache_entries(lab, lives)
    call = lab.cni("GC", {**c, "cni.dev/valid-attachments": valid(one, lives)}, one, ifname="", CNI_PATH=str(recorder.bin))
    assert call.status == 0 and lives.id in call.err and len(leases(lab)) == 2 and recorder.called("GC") == []
    lab.ok("GC", {**c, "cni.dev/valid-attachments": valid(one)}, one, ifname="", CNI_PATH=str(recorder.bin))
    assert len(leases(lab)) == 1
    lab.delete(c, one, ifname="eth0", CNI_PATH=str(recorder.bin))


def test_gc_retains_entries_of_other_networks(lab, agent, recorder):
    """GC retains cache entries that Multus wrote, and those of a netconf with another name, in the same directory, although their
    containers are not in the runtime's list."""
    agent.networks(("team/rail0", "eth0", rail_1_1(lab)))
    pod, other, old = lab.pod("pod"), lab.pod("other"), lab.pod("old")
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(recorder.bin))
    lab.add({**c, "name": "another"}, other, ifname="eth0", CNI_PATH=str(recorder.bin))
    Multus(lab, lab.tmp / "multus").add(old, {**with_files(lab, "rail0"), "cniVersion": "1.0.0"})
    assert len(leases(lab)) == 3
    lab.ok("GC", {**c, "cni.dev/valid-attachments": valid(pod)}, pod, ifname="", CNI_PATH=str(recorder.bin))
    assert len(leases(lab)) == 3
