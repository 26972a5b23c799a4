# SPDX-License-Identifier: Apache-2.0
"""The IPAM plugin spiderpool, called by macvlan or alone: addresses from pools in files."""
import json

import pytest
from lab import BINARY, age, ip, link_names, run, state


def one(result):
    return result["ips"][0]["address"].split("/")[0]


def add(lab, pod, ipam, ifname="net1", nic="rail0", version="1.0.0", **kw):
    return lab.add(lab.macvlan(nic, ipam, version), pod, ifname=ifname, **kw)


def test_lowest_address_is_allocated_with_gateway_and_route(lab):
    lab.rail_pools()
    r = add(lab, lab.pod(), lab.ipam("rail0"))
    assert r["ips"] == [{"address": "172.16.1.10/24", "gateway": "172.16.1.1", "interface": 0}]
    assert r["routes"] == [{"dst": "0.0.0.0/0", "gw": "172.16.1.1"}]
    assert one(add(lab, lab.pod(), lab.ipam("rail0"))) == "172.16.1.11"


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_spiderpool_runs_as_an_executed_ipam_plugin(lab, version):
    """When a CNI plugin executes spiderpool as its IPAM plugin, spiderpool allocates addresses and creates no link."""
    lab.rail_pools(v6=True)
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0", v6=["rail0-v6"]), version)
    r = lab.add(conf, pod, plugin="spiderpool")
    assert [i["address"] for i in r["ips"]] == ["172.16.1.10/24", "fd00:16:1::10/64"]
    assert [i["gateway"] for i in r["ips"]] == ["172.16.1.1", "fd00:16:1::1"]
    assert all(("version" in i) == (version < "1") for i in r["ips"])
    assert r["routes"] == [{"dst": "0.0.0.0/0", "gw": "172.16.1.1"}, {"dst": "::/0", "gw": "fd00:16:1::1"}]
    assert link_names(pod.ns) == ["lo"]
    lab.ok("DEL", conf, pod, plugin="spiderpool")
    lab.ok("DEL", conf, pod, plugin="spiderpool")


def test_repeated_request_gets_the_same_address(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    got = [lab.add(conf, pod, plugin="spiderpool")["ips"] for _ in range(3)]
    assert got[0] == got[1] == got[2]


def test_rails_of_one_pool_get_distinct_addresses(lab):
    """The original allocates the address of a pod's first NIC to its second NIC as well."""
    lab.rail_pools()
    pod = lab.pod()
    got = [one(add(lab, pod, lab.ipam("rail0"), ifname=f"net{i}")) for i in range(1, 4)]
    assert got == ["172.16.1.10", "172.16.1.11", "172.16.1.12"]


def test_wildcards_select_pools_in_order(lab):
    lab.pools("[pool a-2]\nsubnet=172.16.1.0/25\nips=172.16.1.20\ngateway=172.16.1.1\n"
              "[pool a-1]\nsubnet=172.16.1.128/25\nips=172.16.1.130\ngateway=172.16.1.129\n"
              "[pool b]\nsubnet=172.16.2.0/24\nips=172.16.2.30\n")
    first, second, third = (one(add(lab, lab.pod(), lab.ipam("a-*", "b"), nic="rail0")) for _ in range(3))
    assert {first, second} == {"172.16.1.20", "172.16.1.130"} and third == "172.16.2.30"


def test_pool_is_selected_by_the_masters_subnet(make_lab):
    """Solution 2 of the original's manual: one pool per node and rail, selected by the master's subnet."""
    lab = make_lab(exclusive=True)
    text = ""
    for i, nic in enumerate(lab.nics):
        for n in range(3):
            text += (f"[pool {nic}-node{n}]\nsubnet = 172.16.{i}.{32 * n}/27\n"
                     f"ips = 172.16.{i}.{32 * n + 3}-172.16.{i}.{32 * n + 30}\ngateway = 172.16.{i}.{32 * n + 1}\n")
    lab.pools(text)
    r = add(lab, lab.pod(), lab.ipam("rail1-*", match_master_subnet=True), nic="rail1")
    assert r["ips"][0]["address"] == "172.16.2.3/27"
    ip(lab.node, "addr", "add", "172.16.2.70/27", "dev", "rail0")
    ip(lab.node, "addr", "del", "172.16.1.2/27", "dev", "rail0")
    r = add(lab, lab.pod(), lab.ipam("rail1-*", match_master_subnet=True), nic="rail0")
    assert r["ips"][0]["address"] == "172.16.2.67/27"


def test_no_pool_in_the_masters_subnet_is_an_error(lab):
    lab.rail_pools()
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("rail1", match_master_subnet=True)), lab.pod(),
             contains=["rail1", "rail0"])


def test_default_pools_are_used_without_a_selection(lab):
    lab.rail_pools()
    lab.pools("[pool d]\nsubnet=172.19.0.0/24\nips=172.19.0.9\ndefault=yes\n", "d.conf")
    assert one(add(lab, lab.pod(), lab.ipam())) == "172.19.0.9"


def test_pool_of_another_node_is_skipped(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.9\nnode=elsewhere\n")
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("p")), lab.pod(), contains=["IPPool p", "Node"])


def test_pool_of_another_namespace_is_skipped(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.9\nnamespace=team\n"
              "[pool q]\nsubnet=172.16.2.0/24\nips=172.16.2.9\nnamespace=others\n")
    assert one(add(lab, lab.pod(), lab.ipam("q", "p"))) == "172.16.1.9"


def test_sticky_address_returns_to_its_pod(lab):
    """A pod that is deleted and created again with the same name gets the same address; no other pod gets this address."""
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.8-172.16.1.9\nreuse-delay=0s\n")
    pod = lab.pod("train-0")
    conf = lab.macvlan("rail0", lab.ipam("p", sticky=True))
    args = pod.args
    assert one(lab.add(conf, pod, args=args)) == "172.16.1.8"
    lab.delete(conf, pod, args=args)
    other = lab.pod("other")
    assert one(lab.add(conf, other)) == "172.16.1.9"
    lab.fail("ADD", conf, lab.pod("third"), code=11, contains="'p'")
    again = lab.pod("train-0")
    assert one(lab.add(conf, again, args=args.replace(pod.id, again.id))) == "172.16.1.8"


def test_released_address_waits_for_the_reuse_delay(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.8-172.16.1.10\n")
    a, b = lab.pod(), lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("p"))
    assert one(lab.add(conf, a)) == "172.16.1.8"
    lab.delete(conf, a)
    assert one(lab.add(conf, b)) == "172.16.1.9"
    assert one(lab.add(conf, lab.pod())) == "172.16.1.10"
    assert one(lab.add(conf, lab.pod())) == "172.16.1.8"  # every other address is in use, so the reuse delay does not apply


def test_requested_address_is_allocated(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    assert one(lab.add(conf, pod, args=pod.args + ";IP=172.16.1.99")) == "172.16.1.99"
    b = lab.pod()
    lab.fail("ADD", conf, b, args=b.args + ";IP=172.16.1.99", contains="172.16.1.99")


def test_clean_gateway_adds_no_default_route(lab):
    lab.rail_pools()
    r = add(lab, lab.pod(), lab.ipam("rail0", clean_gateway=True))
    assert r["ips"][0]["gateway"] == "172.16.1.1" and not r.get("routes")


def test_routes_of_the_pool_are_added(lab):
    lab.pools("[pool p]\nsubnet=172.16.1.0/24\nips=172.16.1.9\ngateway=172.16.1.1\n"
              "route=10.0.0.0/8 via 172.16.1.7\nroute=11.0.0.0/8 via 172.16.1.8\n")
    r = add(lab, lab.pod(), lab.ipam("p"))
    assert r["routes"] == [{"dst": "10.0.0.0/8", "gw": "172.16.1.7"}, {"dst": "11.0.0.0/8", "gw": "172.16.1.8"},
                           {"dst": "0.0.0.0/0", "gw": "172.16.1.1"}]


def test_error_of_an_exhausted_pool_names_the_pods_that_use_it(lab):
    lab.pools("[pool tiny]\nsubnet=172.16.1.0/24\nips=172.16.1.8-172.16.1.9\n")
    conf = lab.macvlan("rail0", lab.ipam("tiny"))
    for name in ("anna", "bert"):
        lab.add(conf, lab.pod(name))
    pod = lab.pod("carl")
    e = lab.fail("ADD", conf, pod, code=11, contains=["'tiny'", "2", "anna", "bert"])
    assert "team" in e["msg"] + e.get("details", "")
    assert link_names(pod.ns) == ["lo"]


@pytest.mark.parametrize("text,contains", [
    ("[pool p]\nsubnet = 172.16.1.0/33\n", ["rails.conf:2", "subnet"]),
    ("[pool p]\nips = 172.16.1.1\n", ["rails.conf:1", "subnet"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nips = 172.16.1.9-172.16.1.3\n", ["rails.conf:3", "172.16.1.9-172.16.1.3"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nips = 172.16.2.9\n", ["rails.conf:3", "172.16.2.9"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nips = 172.16.1.1-172.16.1.9\ngateway = 172.16.1.1\n",
     ["rails.conf", "gateway", "172.16.1.1"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\ngateway = 10.0.0.1\n", ["rails.conf:3", "gateway"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nips = 172.16.1.1-172.16.1.9\n"
     "[pool q]\nsubnet = 172.16.1.0/24\nips = 172.16.1.9-172.16.1.12\n", ["rails.conf:4", "'p'", "172.16.1.9"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\n[pool p]\nsubnet = 172.16.2.0/24\n", ["rails.conf:3", "'p'"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nsubnte = x\n", ["rails.conf:3", "subnte"]),
    ("[pool p]\nsubnet = 172.16.1.0/24\nroute = 10.0.0.0/8\n", ["rails.conf:3", "route"]),
    ("nonsense\n", ["rails.conf:1"]),
    ("[pond p]\nsubnet = 172.16.1.0/24\n", ["rails.conf:1", "pond"]),
])
def test_error_of_an_invalid_pool_names_file_line_and_key(lab, text, contains):
    lab.pools(text)
    pod = lab.pod()
    before = pod.state()
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("p")), pod, contains=contains)
    assert pod.state() == before
    p = lab.pool("check", check=False)
    assert p.returncode != 0 and contains[0] in p.stdout + p.stderr


@pytest.mark.parametrize("conf,contains", [
    ({"default_ipv4_ippool": ["nope"]}, ["'nope'"]),
    ({"default_ipv4_ippool": ["nope-*"]}, ["nope-*"]),
    ({"default_ipv4_ippool": "rail0"}, ["default_ipv4_ippool"]),
    ({"default_ipv4_ippool": ["rail0-v6"]}, ["rail0-v6"]),
])
def test_invalid_ipam_configuration_is_refused(lab, conf, contains):
    lab.rail_pools(v6=True)
    lab.fail("ADD", lab.macvlan("rail0", {**lab.ipam(), **conf}), lab.pod(), contains=contains)


def test_missing_pools_are_reported(lab):
    lab.pool_dir.rmdir()
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("rail0")), lab.pod(), contains=[str(lab.pool_dir)])


def test_del_succeeds_without_pools(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    lab.add(conf, pod)
    (lab.pool_dir / "rails.conf").unlink()
    lab.delete(conf, pod)
    assert link_names(pod.ns) == ["lo"]
    lab.rail_pools()
    assert lab.used() == {}


def test_add_without_the_capability_net_admin_allocates_no_address(lab, tmp_path):
    """The capability is checked before an address is allocated, because the release of that address would start its reuse delay."""
    lab.rail_pools()
    pod = lab.pod()
    confs = {"macvlan": lab.macvlan("rail0", lab.ipam("rail0")),
             "unirail-cni": lab.rails(lab.all_networks())}
    before = pod.state()
    for name, conf in confs.items():
        script = tmp_path / "wrapped" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\nexec setpriv --bounding-set -net_admin --inh-caps -net_admin "
                          f"{lab.plugins}/{name}\n")
        script.chmod(0o755)
        e = lab.fail("ADD", conf, pod, plugins=script.parent, contains="Operation not permitted (EPERM): needs CAP_NET_ADMIN: run as root")
        assert e["code"] == 50 and pod.state() == before and not lab.state_dir.exists()


def test_journal_of_a_later_format_is_refused(lab):
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    lab.add(conf, lab.pod())
    journal = lab.journal()
    head, rest = journal.read_bytes().split(b"\n", 1)
    newer = head.replace(b"1", b"9", 1)
    assert newer != head
    journal.write_bytes(newer + b"\n" + rest)
    pod = lab.pod()
    lab.fail("ADD", conf, pod, contains=[str(journal)])
    assert journal.read_bytes() == newer + b"\n" + rest and link_names(pod.ns) == ["lo"]


def test_truncated_last_line_of_the_journal_is_dropped(lab):
    """A crash during a write leaves half a record: it is dropped, the lines before it are used."""
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    pods = [lab.pod() for _ in range(3)]
    got = [one(lab.add(conf, p, plugin="spiderpool")) for p in pods[:2]]
    journal = lab.journal()
    anchor = journal.with_name("journal.anchor")
    known = anchor.read_bytes()
    got += [one(lab.add(conf, pods[2], plugin="spiderpool"))]
    journal.write_bytes(journal.read_bytes()[:-7])
    anchor.write_bytes(known)
    assert one(lab.add(conf, pods[0], plugin="spiderpool")) == got[0]
    assert one(lab.add(conf, pods[1], plugin="spiderpool")) == got[1]
    assert one(lab.add(conf, lab.pod(), plugin="spiderpool")) not in got[:2]


def test_truncated_journal_is_refused_until_it_is_repaired(lab):
    """ADD refuses a truncated journal, even one that ends with a whole line, with an error that names the file and the remedy. `unirail
    pool check --repair` then finds the missing addresses in the pods' namespaces."""
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    pods = [lab.pod() for _ in range(3)]
    got = [one(lab.add(conf, p)) for p in pods]
    journal = lab.journal()
    whole = journal.read_bytes()
    ends = [i + 1 for i, c in enumerate(whole) if c == 10]
    for cut in [*ends[:-1], 0, ends[-1] - 2]:
        journal.write_bytes(whole[:cut])
        pod = lab.pod()
        lab.fail("ADD", conf, pod, contains=[str(journal), "unirail pool check"])
        assert link_names(pod.ns) == ["lo"] and journal.read_bytes() == whole[:cut]
    journal.unlink()
    lab.fail("ADD", conf, lab.pod(), contains=["is missing", "unirail pool check"])
    journal.write_bytes(whole[:ends[0]])
    p = lab.pool("check", check=False)
    assert "is truncated" in p.stdout and "unirail pool check --repair" in p.stdout, p
    p = lab.pool("check", "--repair")
    for ip in got:
        assert f"{ip} is in use" in p.stdout, p
    assert one(lab.add(conf, lab.pod())) not in got


def test_damaged_journal_is_refused(lab):
    """A record in the middle that does not match its checksum: ADD fails with the journal's name, and the journal is unchanged."""
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    for _ in range(3):
        lab.add(conf, lab.pod(), plugin="spiderpool")
    journal = lab.journal()
    data = bytearray(journal.read_bytes())
    at = data.index(b"172.16.1.11") if b"172.16.1.11" in data else len(data) // 2
    data[at + 5] ^= 1
    journal.write_bytes(data)
    lab.fail("ADD", conf, lab.pod(), plugin="spiderpool", contains=[str(journal)])
    assert journal.read_bytes() == bytes(data)


def test_full_disk_fails_add_without_damage(lab, tmp_path):
    """Without space for its record an ADD allocates no address and creates no link. DEL succeeds, and so does ADD once there is space."""
    lab.rail_pools()
    full = tmp_path / "full"
    full.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", full])
    try:
        conf = lab.macvlan("rail0", lab.ipam("rail0", state_dir=str(full)))
        first = lab.pod()
        assert one(lab.add(conf, first)) == "172.16.1.10"
        with open(full / "ballast", "wb", buffering=0) as f:
            while True:
                try:
                    if not f.write(b"x" * 512):
                        break
                except OSError:
                    break
        pod = lab.pod()
        before = pod.state()
        # the last page of the journal may still have space: repeat until it is full
        for i in range(200):
            c = lab.cni("ADD", conf, pod, plugin="spiderpool", ifname=f"x{i}")
            if c.status:
                break
        assert c.status == 1 and "No space left on device (ENOSPC)" in c.json["msg"], c
        lab.fail("ADD", conf, pod, contains="No space left on device (ENOSPC)")
        assert pod.state() == before
        # space for the record of a release is reserved
        allocated = i
        assert allocated > 0
        for i in range(allocated):
            lab.ok("DEL", conf, pod, plugin="spiderpool", ifname=f"x{i}")
        lab.delete(conf, first)
        used = json.loads(run([BINARY, "pool", "list", "-o", "json", "--pool-dir", lab.pool_dir,
                               "--state-dir", full]).stdout)
        assert '"used": 0' in json.dumps(used), used
        (full / "ballast").unlink()
        late = lab.pod()
        assert lab.add(conf, late)["ips"]
        lab.delete(conf, late)
        lab.delete(conf, first)
    finally:
        run(["umount", full])


def test_temporary_files_of_a_killed_add_are_removed(lab):
    lab.rail_pools()
    conf, pod = lab.macvlan("rail0", lab.ipam("rail0")), lab.pod()
    lab.add(conf, pod)
    other = age(lab.state_dir / ".note.0123abcd.tmp")
    half = age(lab.state_dir / ".journal.0123abcd.tmp")
    lab.delete(conf, pod)
    assert not half.exists() and other.exists()
    age(half)
    lab.add(conf, pod)
    assert not half.exists() and other.exists()


def test_gc_releases_addresses_of_unlisted_containers(lab):
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"), "1.1.0")
    pods = [lab.pod() for _ in range(3)]
    for p in pods:
        lab.add(conf, p, plugin="spiderpool")
    other = lab.pod()
    lab.add(lab.macvlan("rail1", lab.ipam("rail0"), "1.1.0"), other, plugin="spiderpool")
    valid = [{"containerID": pods[1].id, "ifname": "net1"}]
    lab.ok("GC", {**conf, "cni.dev/valid-attachments": valid}, pods[0], plugin="spiderpool")
    assert set(lab.used()) == {"172.16.1.11", "172.16.1.13"}  # the address of the other network stays


def test_status_reports_invalid_pools(lab):
    lab.rail_pools()
    conf = lab.macvlan("rail0", lab.ipam("rail0"), "1.1.0")
    lab.ok("STATUS", conf, lab.pod(), plugin="spiderpool")
    lab.pools("nonsense\n", "zz.conf")
    lab.fail("STATUS", conf, lab.pod(), plugin="spiderpool", contains="zz.conf:1")


def test_check_fails_if_the_address_was_released_in_the_store(lab):
    lab.rail_pools()
    pod = lab.pod()
    conf = lab.macvlan("rail0", lab.ipam("rail0"))
    conf["prevResult"] = lab.add(conf, pod)
    lab.ok("CHECK", conf, pod)
    lab.pool("release", "--yes", "172.16.1.10")
    lab.fail("CHECK", conf, pod, contains="net1")


def test_exported_pool_objects_are_valid_pool_files(lab):
    """The cluster's objects, exported as JSON, are valid pools files."""
    pool = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "gpu1-net11"},
            "spec": {"ipVersion": 4, "subnet": "172.16.1.0/24", "ips": ["172.16.1.40-172.16.1.50"],
                     "excludeIPs": ["172.16.1.40"], "gateway": "172.16.1.1",
                     "routes": [{"dst": "10.0.0.0/8", "gw": "172.16.1.1"}]}}
    (lab.pool_dir / "pools.json").write_text(json.dumps({"kind": "List", "items": [pool]}))
    r = add(lab, lab.pod(), lab.ipam("gpu1-net11"))
    assert one(r) == "172.16.1.41" and r["routes"][0]["dst"] == "10.0.0.0/8"


def test_failed_add_changes_nothing_on_the_node(lab):
    lab.rail_pools()
    before = state(lab.node)
    lab.fail("ADD", lab.macvlan("rail0", lab.ipam("nope")), lab.pod())
    assert state(lab.node) == before
