# SPDX-License-Identifier: Apache-2.0
"""Networks whose device resource no node has: pods of their group wait until a node has it; an event reports this."""
from agents import MERGE, Nodes
from cluster import wait
from test_webhooks import cluster, config, create, ns, replica, start  # noqa: F401

METRIC = "unirail_controller_networks_without_resource"


def told(cluster, ns, reason):
    """{network: message}"""
    events = [e for e in cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"] if e["reason"] == reason]
    assert all(e["involvedObject"]["kind"] == "SpiderMultusConfig" and e["involvedObject"]["uid"] for e in events)
    return {e["involvedObject"]["name"]: e["message"] for e in events}


def test_a_resource_that_no_node_has(cluster, replica, ns):
    """Reported when no node serves the resource (count 0) or its name is wrong; not when one node has it."""
    Nodes(cluster).node("n1")
    capacity = lambda **r: cluster.ok("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": r}}, type=MERGE)
    capacity(**{"spidernet.io/has": "8", "spidernet.io/gone": "0"})
    for name in ("has", "gone", "typo"):
        wait(lambda: create(cluster, config(name, ns, "rails"))[0] in (201, 409))
    c = start(replica()).leads()
    wait(lambda: set(told(cluster, ns, "ResourceOnNoNode")) == {"gone", "typo"}, 60)
    assert "no node has resource 'spidernet.io/typo'" in told(cluster, ns, "ResourceOnNoNode")["typo"]
    assert c.metrics()[METRIC] == 2
    capacity(**{"spidernet.io/gone": "4"})
    wait(lambda: set(told(cluster, ns, "ResourceAvailable")) == {"gone"})
    assert c.metrics()[METRIC] == 1
