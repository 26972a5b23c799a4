# SPDX-License-Identifier: Apache-2.0
"""Debian's plugins accept the NetworkAttachmentDefinitions that the controller creates from SpiderMultusConfigs
(tests/cluster/nads.yaml); plugins that Debian does not have are unirail's. With macvlan the pod's state equals that with
unirail's plugins only."""
import json

import pytest
import yaml
from lab import REFERENCE, TOP, ip, ip_batch, same, same_shape

MASTER, POOL = "nic0", "pool0"
CASES = yaml.safe_load((TOP / "tests/cluster/nads.yaml").read_text())["good"]


def chains(kind):
    """The plugin lists of nads.yaml whose first plugin, apart from ifacer, has this type: each list once, without ifacer, and with the
    lab's master."""
    found = {}
    for case in CASES:
        conf = json.loads(case["config"]) if case.get("config") else {}
        plugins = [{**p, **({"master": MASTER} if "master" in p else {})} for p in conf.get("plugins", []) if p["type"] != "ifacer"]
        if plugins and plugins[0]["type"] == kind and plugins not in [c["plugins"] for c in found.values()]:
            found[case["what"]] = {"version": conf["cniVersion"], "plugins": plugins}
    return [pytest.param(c, id=what.replace(" ", "-")) for what, c in found.items()]


@pytest.fixture
def mixed(plugins, tmp_path):
    """A directory of plugins: Debian's, and unirail's for the types that Debian does not have."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for candidate in plugins.iterdir():
        reference = REFERENCE / candidate.name
        (folder / candidate.name).symlink_to(reference if reference.exists() else candidate)
    return folder


def placed(lab, plugins):
    """The plugin list with the lab's IPv4 pool and directories in `ipam` and without an IPv6 pool, otherwise unchanged."""
    v6 = "default_ipv6_ippool"
    return [{**p, "ipam": {**{k: v for k, v in p["ipam"].items() if k != v6}, **lab.ipam(POOL)}} if "ipam" in p else p
            for p in plugins]


def lab_of(make_lab, folder):
    lab = make_lab(rails=0)
    lab.plugins = folder
    ip(lab.node, "link", "add", MASTER, "mtu", "9000", "type", "veth", "peer", "name", "sw-nic0", "mtu", "9000", "netns", lab.fabric)
    ip(lab.fabric, "link", "set", "sw-nic0", "up")
    ip(lab.node, "link", "set", MASTER, "up")
    ip(lab.node, "addr", "add", "172.16.9.2/24", "dev", MASTER)
    lab.pools(f"[pool {POOL}]\nsubnet = 172.16.9.0/24\nips = 172.16.9.10-172.16.9.20\n")
    return lab


def default_network(lab, pod):
    """A veth pair, as most overlay networks have it."""
    ip(lab.node, "link", "add", pod.host_veth, "type", "veth", "peer", "name", "eth0", "netns", pod.ns)
    ip(lab.node, "link", "set", pod.host_veth, "up")
    ip_batch(pod.ns, ["link set eth0 up", "addr add 10.244.1.5/32 dev eth0", "route add 169.254.1.1 dev eth0",
                      "route add default via 169.254.1.1 dev eth0"])


def without_annotations(state):
    """The pod's state without two known differences: unirail sets a link group for its DEL, Debian's plugins request a queue length of 0
    (tests/netns/side_by_side.py)."""
    return {**state, "links": [{k: v for k, v in n.items() if k not in ("group", "txqlen")} for n in state["links"]]}


@pytest.mark.parametrize("case", chains("macvlan"))
def test_macvlan_nads_run_on_debians_plugins(make_lab, mixed, plugins, case):
    seen = []
    for folder in (plugins, mixed):
        lab = lab_of(make_lab, folder)
        pod, version = lab.pod(), case["version"]
        default_network(lab, pod)
        chain = placed(lab, case["plugins"])
        prev = lab.chain("ADD", chain, pod, name="n", version=version)
        seen.append(same_shape(without_annotations(pod.state()), (pod.host_veth, "VETH")))
        lab.chain("DEL", chain, pod, name="n", version=version, prev=prev)
        assert not lab.used()
    same(*seen, "the pod")


@pytest.mark.parametrize("case", chains("ipvlan") + chains("vlan"))
def test_add_of_nads_fails_only_for_link_kinds_that_the_kernel_lacks(make_lab, mixed, case):
    """Debian's plugins accept the whole configuration: if ADD fails, the kernel refuses to create the link."""
    lab = lab_of(make_lab, mixed)
    pod = lab.pod()
    first = placed(lab, case["plugins"])[0]
    call = lab.cni("ADD", {**first, "cniVersion": case["version"], "name": "n"}, pod)
    assert call.status == 0 or "operation not supported" in call.json["msg"], call
    lab.ok("DEL", {**first, "cniVersion": case["version"], "name": "n"}, pod)


def test_tuning_nads_run_on_debians_plugin(make_lab, mixed):
    lab = lab_of(make_lab, mixed)
    pod = lab.pod()
    tuning = [p for case in CASES if case.get("config") for p in json.loads(case["config"]).get("plugins", [])
              if p["type"] == "tuning" and "mtu" in p and "sysctl" not in p]
    assert tuning
    for p in tuning:
        chain = [{"type": "macvlan", "master": MASTER}, {**p, "dataDir": str(lab.tmp / "tuning")}]
        lab.chain("ADD", chain, pod, version="0.3.1")
        assert [k["mtu"] for k in pod.state()["links"] if k["ifname"] == "net1"] == [p["mtu"]]
        lab.chain("DEL", chain, pod, version="0.3.1")
