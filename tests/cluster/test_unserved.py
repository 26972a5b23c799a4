# SPDX-License-Identifier: Apache-2.0
"""Networks whose device resource no node has: pods of the network's group stay Pending until a node has the resource; an event reports
this."""
import json

from agents import MERGE, SPIDER, Agent, Nodes
from cluster import wait
from test_webhooks import cluster, config, create, ns, replica, start  # noqa: F401

ANNOTATION = "unirail.io/missing-resource"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions"
METRIC = "unirail_controller_networks_without_resource"


def networks_of_events(cluster, ns, reason):
    """{network: message}"""
    events = [e for e in cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"] if e["reason"] == reason]
    assert all(e["involvedObject"]["kind"] == "SpiderMultusConfig" and e["involvedObject"]["uid"] for e in events)
    return {e["involvedObject"]["name"]: e["message"] for e in events}


def annotated(cluster, ns):
    """Returns {network: value of ANNOTATION} of the NetworkAttachmentDefinitions that have this annotation."""
    nads = [n["metadata"] for n in cluster.ok("GET", NADS.format(ns))["items"]]
    return {n["name"]: json.loads(n["annotations"][ANNOTATION]) for n in nads if ANNOTATION in n.get("annotations", {})}


def test_network_without_its_resource_on_any_node_is_reported(cluster, replica, ns, closing, tmp_path):
    """A network is reported by an event and by `unirail status` if its resource has count 0 on each node or no node knows the resource. It
    is not reported if one node has the resource."""
    Nodes(cluster).node("n1")
    capacity = lambda **r: cluster.ok("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": r}}, type=MERGE)
    capacity(**{"spidernet.io/has": "8", "spidernet.io/gone": "0", "spidernet.io/typ0": "1"})
    for name in ("has", "gone", "typo"):
        wait(lambda: create(cluster, config(name, ns, "rails"))[0] in (201, 409), f"SpiderMultusConfig {name} is created")
    c = start(replica()).leads()
    wait(lambda: set(networks_of_events(cluster, ns, "ResourceOnNoNode")) == {"gone", "typo"},
         "networks gone and typo have an event ResourceOnNoNode", 60)
    assert "no node has resource 'spidernet.io/typo' (did you mean 'spidernet.io/typ0'?)" in networks_of_events(
        cluster, ns, "ResourceOnNoNode")["typo"]
    assert c.metrics()[METRIC] == 2
    wait(lambda: annotated(cluster, ns) == {"gone": {"resource": "spidernet.io/gone"},
                                            "typo": {"resource": "spidernet.io/typo", "suggestion": "spidernet.io/typ0"}},
         "networks gone and typo have the annotation")
    agent = closing(Agent(tmp_path / "agent", cluster.admin_config(), "n1")).start()
    status = lambda *more: cluster.unirail("status", "--socket", agent.socket, *more).stdout
    typo = dict(namespace=ns, network="typo", group="rails", resource="spidernet.io/typo", suggestion="spidernet.io/typ0")
    removed = dict(namespace=ns, network="gone", group="rails", resource="spidernet.io/gone", suggestion="")
    missing = lambda: [m for m in json.loads(status("-o", "json"))["missing_resources"] if m["namespace"] == ns]
    wait(lambda: missing() == [removed, typo], "unirail status lists both missing resources")
    lines = [line for line in status().splitlines() if f"'{ns}/" in line]
    assert lines == [
        f"pods with network '{ns}/gone' (group 'rails') stay Pending: no node has resource 'spidernet.io/gone'",
        f"pods with network '{ns}/typo' (group 'rails') stay Pending: no node has resource 'spidernet.io/typo'; did you mean "
        "'spidernet.io/typ0'?"], lines
    capacity(**{"spidernet.io/gone": "4"})
    wait(lambda: set(networks_of_events(cluster, ns, "ResourceAvailable")) == {"gone"}, "network gone has an event ResourceAvailable")
    assert c.metrics()[METRIC] == 1
    wait(lambda: missing() == [typo], "unirail status lists only the missing resource of typo")
    # A new leader keeps its predecessor's annotation until it has checked the network's resource; as a node has the resource now, the
    # leader then removes the annotation.
    assert c.stop() == 0
    capacity(**{"spidernet.io/typo": "4"})
    closing(start(replica("d"))).leads()
    wait(lambda: missing() == [], "unirail status lists no missing resource")


def test_annotation_about_a_former_resource_is_removed(cluster, replica, ns):
    """When a network gets another resource, the controller removes the annotation about the former resource. The
    NetworkAttachmentDefinition does not get an annotation that a user wrote into the SpiderMultusConfig."""
    Nodes(cluster).node("n2")
    capacity = {"status": {"capacity": {"rdma/real": "8"}}}
    cluster.ok("PATCH", "/api/v1/nodes/n2/status", capacity, type=MERGE)
    forged = config("forged", ns, "rails")
    forged["metadata"]["annotations"][ANNOTATION] = "{}"
    forged["spec"]["macvlan"]["rdmaResourceName"] = "rdma/real"
    wait(lambda: create(cluster, forged)[0] in (201, 409), "the SpiderMultusConfig with forged annotations is created")
    wait(lambda: create(cluster, config("real", ns, "rails"))[0] in (201, 409), "SpiderMultusConfig real is created")
    start(replica()).leads()
    # The suggestion is a resource with the same name and another prefix.
    wait(lambda: annotated(cluster, ns) == {"real": {"resource": "spidernet.io/real", "suggestion": "rdma/real"}},
         "network real has the annotation", 60)
    assert ANNOTATION not in cluster.ok("GET", NADS.format(ns) + "/forged")["metadata"]["annotations"]
    path = f"{SPIDER}/namespaces/{ns}/spidermultusconfigs/real"
    cluster.ok("PATCH", path, {"spec": {"macvlan": {"rdmaResourceName": "rdma/real"}}}, type=MERGE)
    wait(lambda: annotated(cluster, ns) == {}, "no network has the annotation")
