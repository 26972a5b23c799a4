# SPDX-License-Identifier: Apache-2.0
"""A tenant with permission to create SpiderMultusConfigs and NetworkAttachmentDefinitions in a namespace, against the cluster's nodes.

In an earlier version, a definition of type `multus` with a binDir in a pod's volume gave its author root on every node with such a pod.
"""
import json

import pytest
from agents import MERGE, SPIDER, install_crds
from cluster import free_port, wait
from controllers import Controller
from lab import link_names
from test_networks import NodeWithAgent, agent, lab, mine, nodes, pools, team, node_with_agent  # noqa: F401

import cluster as clusters

TRUST = "unirail.io/trusted-definitions"
REASON = f"only a definition of a trusted namespace may have it (annotation {TRUST}=true on the Namespace)"


def multus(folder):
    return {"cniVersion": "1.0.0", "name": "evil", "type": "multus", "binDir": str(folder),
            "delegates": [{"cniVersion": "1.0.0", "name": "x", "type": "mine"}]}


def trust(cluster, ns, value):
    cluster.ok("PATCH", f"/api/v1/namespaces/{ns}", {"metadata": {"annotations": {TRUST: value}}}, type=MERGE)


@pytest.fixture
def volume(tmp_path):
    """A pod's volume as the node sees it. The plugin `mine` in the volume writes the UID of its process to the file `seen` there."""
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "mine").write_text(f"#!/bin/sh\nid -u >{folder}/seen\necho '{{\"cniVersion\":\"1.0.0\"}}'\n")
    (folder / "mine").chmod(0o755)
    return folder


def test_definition_with_plugins_of_a_volume_requires_trust(node_with_agent, volume):  # noqa: F811
    """The node refuses the definition until an administrator trusts its namespace; then it attaches the pod."""
    w, lab_ = node_with_agent, node_with_agent.lab
    w.nad(w.team, "evil", multus(volume))
    pod = w.pod("evil")
    w.networks(pod, 2)
    box = lab_.pod()
    lab_.fail("ADD", w.conf(), box, 7, ifname="eth0", args=w.args(pod),
              contains=[f"network '{w.team}/evil': type is 'multus', which acts on the node itself: {REASON}"])
    assert link_names(box.ns) == ["lo"] and w.cache_entries() == [] and not (volume / "seen").exists()
    lab_.delete(w.conf(), box, ifname="eth0", args=w.args(pod))

    trusted = lambda: [n.get("trusted", False) for n in w.request_networks(pod)[1]["networks"]]
    assert trusted() == [True, False]  # the definition of kube-system, and the tenant's
    trust(w.mine, w.team, "yes")  # no effect: only "true" makes a namespace trusted
    trust(w.mine, w.team, "true")
    wait(lambda: trusted() == [True, True], "both definitions are trusted")
    lab_.cni("ADD", w.conf(), box, ifname="eth0", args=w.args(pod))
    assert (volume / "seen").read_text() == "0\n"
    lab_.delete(w.conf(), box, ifname="eth0", args=w.args(pod))
    trust(w.mine, w.team, None)
    wait(lambda: trusted() == [True, False], "the tenant's definition is no longer trusted")


def test_trust_depends_on_the_namespace_of_the_definition(node_with_agent, volume):  # noqa: F811
    """A pod of a trusted namespace cannot attach a definition of type multus of an untrusted namespace, neither as an additional nor as
    its default network."""
    w, lab_ = node_with_agent, node_with_agent.lab
    w.nad("default", "evil", multus(volume))
    trust(w.mine, w.team, "true")
    for annotations in ({"annotation": "default/evil"}, {"v1.multus-cni.io/default-network": "default/evil"}):
        pod = w.pod(**annotations)
        wait(lambda: "default/evil" in json.dumps(w.request_networks(pod)[1].get("networks", [])), "the pod's networks have default/evil")
        box = lab_.pod(f"p{len(annotations)}{list(annotations)[0][0]}")
        lab_.fail("ADD", {**w.conf(), "globalNamespaces": "default"}, box, 7, ifname="eth0", args=w.args(pod),
                  contains=["network 'default/evil'", REASON])
        assert link_names(box.ns) == ["lo"]
        lab_.delete(w.conf(), box, ifname="eth0", args=w.args(pod))
    assert not (volume / "seen").exists()


def test_common_definitions_of_an_untrusted_namespace_are_attached(node_with_agent):  # noqa: F811
    """A definition with plugins that tenants commonly use in their own namespaces is attached, although the namespace is not trusted."""
    w, lab_ = node_with_agent, node_with_agent.lab
    net = w.rail("rail0")
    net["plugins"] += [{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}}, {"type": "sbr"}]
    w.nad(w.team, "mine", net)
    pod, box = w.pod("mine"), lab_.pod()
    w.networks(pod, 2)
    lab_.add(w.conf(), box, ifname="eth0", args=w.args(pod))
    assert sorted(link_names(box.ns)) == ["eth0", "lo", "net1"]
    lab_.delete(w.conf(), box, ifname="eth0", args=w.args(pod))


# --- admission ---


@pytest.fixture(scope="module")
def admitting(tmp_path_factory):
    """A cluster whose SpiderMultusConfigs are reviewed by a controller."""
    one = clusters.Cluster()
    install_crds(one)
    one.namespace("unirail")
    one.namespace("team")
    one.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    c = Controller(tmp_path_factory.mktemp("c"), one.admin_config(), "unirail")
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s")
    wait(lambda: apply(one, "team", {"cniType": "none"})[0] == 422, "the webhook refuses an invalid SpiderMultusConfig", 60, 0.2)
    yield one
    c.close()
    one.close()


def apply(cluster, ns, spec):
    """Creates a SpiderMultusConfig with dryRun; returns status and message of the answer."""
    status, answer = cluster.request(
        "POST", f"{SPIDER}/namespaces/{ns}/spidermultusconfigs?dryRun=All",
        {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "x"}, "spec": spec})
    return status, answer.get("message", "")


EVIL = [
    ({"cniType": "custom", "customCNI": json.dumps(multus("/var/lib/kubelet/pods/u/volumes/e"))}, "spec.customCNI"),
    ({"cniType": "macvlan", "macvlan": {"master": ["eth0"]}, "chainCNIJsonData": ['{"type":"ifacer","interfaces":["eth0"],"vlanID":7}']},
     "spec.chainCNIJsonData[0]"),
    ({"cniType": "macvlan", "macvlan": {"master": ["eth0"], "vlanID": 7}}, "spec.macvlan.vlanID"),
    ({"cniType": "ipvlan", "ipvlan": {"master": ["eth0", "eth1"], "bond": {"name": "bond0", "mode": 1}}}, "spec.ipvlan.master"),
    ({"cniType": "custom", "customCNI": '{"type":"tuning","dataDir":"/etc/cron.d"}'}, "dataDir"),
]


@pytest.mark.parametrize("spec, place", EVIL)
def test_configurations_that_act_on_the_node_require_a_trusted_namespace(admitting, spec, place):
    one = admitting
    status, contains = apply(one, "team", spec)
    assert status == 422 and place in contains and TRUST in contains and "\n" not in contains, contains
    assert apply(one, "kube-system", spec)[0] == 201 and apply(one, "unirail", spec)[0] == 201
    for value, taken in (("true", 201), ("false", 422), ("", 422), (None, 422)):
        trust(one, "team", value)
        wait(lambda: apply(one, "team", spec)[0] == taken, f"the API server answers {taken}")
    trust(one, "kube-system", "false")
    wait(lambda: apply(one, "kube-system", spec)[0] == 422, "the configuration in kube-system is refused")
    trust(one, "kube-system", None)
    wait(lambda: apply(one, "kube-system", spec)[0] == 201, "the configuration in kube-system is admitted")
