# SPDX-License-Identifier: Apache-2.0
"""A tenant with permission to create only NetworkAttachmentDefinitions attacks the node that attaches them.

In an earlier version, a definition of type `multus` whose binDir lies in a pod's volume executed a file of that volume as root on the
node. With dataDir, log files and CNIDeviceInfoFile, a definition wrote to any path. If ipam.type named an interface plugin, this plugin
executed itself until the node could start no more processes.
"""
import json
import os

import pytest
from lab import REFERENCE, link_names
from pod_agent import agent  # noqa: F401

TRUST = "unirail.io/trusted-definitions=true"
TENANT = {"trusted": False}


@pytest.fixture
def volume(tmp_path):
    """A pod's volume as the node sees it. The pod's containers write to it as root."""
    folder = tmp_path / "pods" / "uid" / "volumes" / "empty-dir"
    folder.mkdir(parents=True)
    return folder


def spy(path, seen):
    """A CNI plugin that writes the UID of the user that executes it to the file `seen`."""
    path.write_text(f"#!/bin/sh\nid -u >{seen}\necho '{{\"cniVersion\":\"1.0.0\"}}'\n")
    path.chmod(0o755)


def conf(lab, agent, **more):
    return {"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus", "agent": str(agent.path),
            "clusterNetwork": "podnet", "cniDir": str(lab.tmp / "multus"), "confDir": str(lab.tmp / "net.d"),
            "binDir": str(REFERENCE), **more}


def podnet(lab):
    return {"cniVersion": "1.0.0", "name": "podnet", "plugins": [
        {"type": "bridge", "bridge": "cbr0", "ipam": {"type": "host-local", "dataDir": str(lab.tmp / "networks"),
                                                      "ranges": [[{"subnet": "10.233.70.0/24"}]]}}]}


def rail(nic, **keys):
    ipam = {"type": "spiderpool", "default_ipv4_ippool": [nic], **keys.pop("ipam", {})}
    return {"cniVersion": "1.0.0", "name": nic, "plugins": [{"type": "macvlan", "master": nic, "ipam": ipam, **keys}]}


def network(lab, agent, definition, **keys):
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/evil", "net1", definition, {**TENANT, **keys}))


def refused(lab, agent, definition, *contains, **more):
    """ADD fails with one line that names the definition; no interface and no address of the pod is left, and DEL succeeds."""
    network(lab, agent, definition)
    pod, c = lab.pod(), conf(lab, agent, **more)
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=["network 'team/evil'", *contains])
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}
    lab.ok("DEL", c, pod, ifname="eth0")


def test_untrusted_multus_definition_with_plugins_in_a_volume_is_refused(lab, agent, volume, tmp_path):
    seen = tmp_path / "root"
    spy(volume / "mine", seen)
    definition = {"cniVersion": "1.0.0", "name": "evil", "type": "multus", "binDir": str(volume),
                  "delegates": [{"cniVersion": "1.0.0", "name": "x", "type": "mine"}]}
    refused(lab, agent, definition, "type is 'multus'", TRUST)
    refused(lab, agent, {"cniVersion": "1.0.0", "name": "evil", "plugins": [{"type": "macvlan", "master": "rail0"}, definition]},
            "plugins[1]", "multus")
    assert not seen.exists()


@pytest.mark.parametrize("plugin", ["multus-shim", "unirail-cni", "ifacer"])
def test_untrusted_definition_with_a_plugin_that_changes_the_node_is_refused(lab, agent, plugin):
    links = link_names(lab.node)
    refused(lab, agent, {"cniVersion": "1.0.0", "name": "evil", "plugins": [
        {"type": plugin, "interfaces": ["rail0"], "vlanID": 100}, {"type": "macvlan", "master": "rail0.100"}]},
        f"plugins[0].type is '{plugin}'", TRUST)
    assert [n for n in link_names(lab.node) if n not in links and n != "cbr0"] == []


@pytest.mark.parametrize("where", ["binary", "folder"])
def test_plugin_writable_by_other_users_is_not_executed(lab, agent, tmp_path, where):
    """While a user other than root can change the plugin or its directory, ADD fails; once only root can change
    them, the plugin is executed."""
    folder, seen = tmp_path / "bin", tmp_path / "root"
    folder.mkdir()
    spy(folder / "mine", seen)
    definition = {"cniVersion": "1.0.0", "name": "evil", "plugins": [{"type": "macvlan", "master": "rail0"}, {"type": "mine"}]}
    loose = folder if where == "folder" else folder / "mine"
    for mode in (0o775, 0o757):
        loose.chmod(mode)
        refused(lab, agent, definition, "'mine'", "can be changed by others than root", str(folder), binDir=str(folder))
    loose.chmod(0o755)
    os.chown(loose, 1000, 1000)
    refused(lab, agent, definition, "can be changed by others than root", binDir=str(folder))
    os.chown(loose, 0, 0)
    assert not seen.exists()
    network(lab, agent, definition)
    pod, c = lab.pod(), conf(lab, agent, binDir=f"{folder}:{REFERENCE}")
    lab.add(c, pod, ifname="eth0")
    assert seen.read_text() == "0\n"
    lab.delete(c, pod, ifname="eth0")


def test_plugin_named_by_its_path_is_refused(lab, agent, volume, tmp_path):
    seen = tmp_path / "root"
    spy(volume / "mine", seen)
    for name in (str(volume / "mine"), "../" * 12 + str(volume / "mine")[1:]):
        refused(lab, agent, {"cniVersion": "1.0.0", "name": "evil", "type": name}, "expected a plugin's name")
        refused(lab, agent, rail("rail0", ipam={"type": name}), "ipam.type", "expected a plugin's name")
    assert not seen.exists()


def test_untrusted_definition_with_a_key_that_names_files_of_the_node_is_refused(lab, agent, volume):
    """An otherwise valid untrusted definition is refused if a key names the node, or a file, directory or socket of the node."""
    at = str(volume / "x")
    ipam = {"pool_dir": at, "state_dir": at, "server_state_dir": at, "hostlocal_dir": at, "ipam_unix_socket_path": at,
            "node_name": "other"}
    for key, value in ipam.items():
        refused(lab, agent, rail("rail0", ipam={key: value}), f"plugins[0].ipam.{key}", TRUST)
    local = {"type": "host-local", "subnet": "10.9.0.0/24"}
    for key in ("dataDir", "resolvConf"):
        refused(lab, agent, rail("rail0", ipam={**local, key: at}), f"ipam.{key}", TRUST)
    where = {"type": "whereabouts", "range": "10.9.0.0/24"}
    for key, value in {"state_dir": at, "configuration_path": at, "kubernetes": {"kubeconfig": at}}.items():
        refused(lab, agent, rail("rail0", ipam={**where, key: value}), f"ipam.{key}", TRUST)
    for chained in ({"type": "tuning", "dataDir": at}, {"type": "tuning", "runtimeConfig": {"CNIDeviceInfoFile": at}},
                    {"type": "portmap", "someFolder": at}, {"type": "portmap", "deep": [{"er": "unix:" + at}]}):
        definition = rail("rail0")
        definition["plugins"].append(chained)
        refused(lab, agent, definition, "plugins[1]", TRUST)
    assert list(volume.iterdir()) == []


def test_log_files_of_untrusted_definitions_are_not_written(lab, agent, volume):
    """A definition that names a log file attaches its pod, since existing definitions name log files; but the log file is not written."""
    log = volume / "log"
    os.mkfifo(volume / "fifo")
    for name in (log, volume / "fifo"):
        network(lab, agent, rail("rail0", logFile=str(name), ipam={"log_file_path": str(name), "log_level": "debug"}))
        pod, c = lab.pod(), conf(lab, agent)
        lab.add(c, pod, ifname="eth0")
        assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1"]
        lab.delete(c, pod, ifname="eth0")
    assert not log.exists()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("kind", ["macvlan", "bridge", "ptp"])
def test_interface_plugin_as_ipam_is_refused(lab, agent, kind, trusted):
    """An interface plugin as IPAM plugin would execute itself without end. ADD fails, whether the definition is trusted or not."""
    network(lab, agent, rail("rail0", ipam={"type": kind}), trusted=trusted)
    pod, c = lab.pod(), conf(lab, agent)
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=[f"ipam.type is '{kind}', which is not an IPAM plugin"])
    lab.ok("DEL", c, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo"] and lab.used() == {}


@pytest.mark.parametrize("kind", ["macvlan", "vlan", "host-device", "sriov", "ib-sriov", "ipoib", "tuning", "multus", "bridge"])
def test_plugin_called_without_unirail_cni_refuses_an_interface_plugin_as_ipam(lab, kind):
    pod = lab.pod()
    c = {"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "master": "rail0", "ipam": {"type": kind}}
    lab.fail("ADD", c, pod, 7, contains=[f"conf.ipam.type is '{kind}', which is not an IPAM plugin"])
    lab.ok("DEL", c, pod)
    assert link_names(pod.ns) == ["lo"]


def circle(lab, plugin, conf=None):
    """A plugin `mine` that passes its input (or conf) to a plugin of unirail; each call writes a dot."""
    folder, calls, given = lab.tmp / "circle", lab.tmp / "calls", lab.tmp / "given.json"
    folder.mkdir()
    given.write_text(json.dumps(conf))
    (folder / "mine").write_text(f"#!/bin/sh\necho . >>{calls}\nexec {lab.plugins}/{plugin} {f'<{given}' if conf else ''}\n")
    (folder / "mine").chmod(0o755)
    return folder, calls


def test_plugins_that_call_each_other_in_a_circle_fail(lab):
    """The node's own configuration calls plugins in a circle: the calls end with one line that states the reason."""
    c = {"cniVersion": "1.0.0", "name": "n", "type": "unirail-cni", "networks": [{"name": "again", "type": "mine"}],
         "binDir": str(lab.tmp / "circle")}
    _, calls = circle(lab, "unirail-cni", c)
    pod = lab.pod()
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=["more than 8 CNI plugins execute one another"])
    assert 8 <= calls.read_text().count(".") < 100


def test_ipam_that_executes_its_caller_ends_with_an_error(lab):
    """An unknown plugin `mine` executes unirail's macvlan, whose ipam.type is `mine`."""
    folder, calls = circle(lab, "macvlan")
    (folder / "macvlan").symlink_to(lab.plugins / "macvlan")
    pod, c = lab.pod(), {"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "master": "rail0", "ipam": {"type": "mine"}}
    lab.fail("ADD", c, pod, 7, plugins=folder, contains=["more than 8 CNI plugins execute one another"])
    assert 8 <= calls.read_text().count(".") < 100 and link_names(pod.ns) == ["lo"]


def test_common_untrusted_definitions_are_attached(lab, agent):
    """The agent reports the definition as untrusted, like every definition of a tenant's namespace without the annotation that makes it
    trusted."""
    definition = rail("rail0")
    definition["plugins"] += [{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}, "mtu": 1400},
                              {"type": "sbr"}, {"type": "coordinator", "mode": "auto"}]
    network(lab, agent, definition)
    pod, c = lab.pod(), conf(lab, agent)
    lab.add(c, pod, ifname="eth0")
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1"]
    lab.ok("CHECK", {**c, "prevResult": {"cniVersion": "1.0.0", "interfaces": []}}, pod, ifname="eth0")
    lab.delete(c, pod, ifname="eth0")
    assert lab.used() == {}


def test_trusted_definition_may_name_files_of_the_node(lab, agent):
    network(lab, agent, rail("rail0", ipam=lab.ipam("rail0")), trusted=True)
    pod, c = lab.pod(), conf(lab, agent)
    lab.add(c, pod, ifname="eth0")
    lab.delete(c, pod, ifname="eth0")
