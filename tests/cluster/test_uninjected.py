# SPDX-License-Identifier: Apache-2.0
"""Pods that were created while no webhook answered have no rails, and the controller reports them."""
import time

from cluster import wait
from test_webhooks import INJECT, NETWORKS, cluster, config, create, ns, pod, registered, replica, start  # noqa: F401

METRIC = "unirail_controller_pods_uninjected_total"
REASON = "NetworksNotInjected"


def events_of(cluster, ns):
    """Returns {pod: (message, count)} of the events with the reason REASON."""
    events = [e for e in cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"] if e["reason"] == REASON]
    assert all(e["type"] == "Warning" and e["involvedObject"]["uid"] for e in events)
    return {e["involvedObject"]["name"]: (e["message"], e.get("count", 1)) for e in events}


def test_pods_created_before_the_webhook_are_reported(cluster, replica, ns):
    """Each pod that requests networks and has no networks annotation gets one event. Pods get no event if they have that annotation,
    request no networks, or use the host network."""
    work, asking = cluster.namespace(f"{ns}-work"), f"{ns}-asking"
    cluster.ok("POST", "/api/v1/namespaces", {"metadata": {"name": asking, "annotations": {INJECT: "rails"}}})
    wait(lambda: cluster.ok("GET", f"/api/v1/namespaces/{asking}"), f"namespace {asking} is created")
    for where in (work, asking):
        wait(lambda: pod(cluster, where, "plain")[0] in (201, 409), f"a pod is created in namespace {where}")
    assert pod(cluster, work, "passed", **{INJECT: "rails"})[0] == 201
    assert pod(cluster, work, "served", **{INJECT: "rails", NETWORKS: "x"})[0] == 201
    assert pod(cluster, asking, "wants-none", **{INJECT: ""})[0] == 201
    status, _ = cluster.request("POST", f"/api/v1/namespaces/{work}/pods", {
        "metadata": {"name": "host", "annotations": {INJECT: "rails"}}, "spec": {
            "hostNetwork": True, "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "x"}]}})
    assert status == 201
    c = registered(cluster, start(replica()).leads())
    wait(lambda: events_of(cluster, work) and events_of(cluster, asking), "both namespaces have events")
    assert set(events_of(cluster, work)) == {"passed"} and set(events_of(cluster, asking)) == {"plain"}
    message, _ = events_of(cluster, work)["passed"]
    assert INJECT in message and "rollout status deployment/unirail-controller" in message
    assert c.metrics()[METRIC] == 2
    # Since a webhook answers now, a new pod that requests networks gets them. No event is repeated.
    assert create(cluster, config("eth2", work, "rails"))[0] == 201
    status, answer = pod(cluster, work, "injected", **{INJECT: "rails"})
    assert status == 201 and NETWORKS in answer["metadata"]["annotations"]
    assert cluster.request("PATCH", f"/api/v1/namespaces/{work}/pods/passed", {"metadata": {"labels": {"a": "b"}}},
                           type="application/merge-patch+json")[0] == 200
    assert pod(cluster, work, "later")[0] == 201
    wait(lambda: c.metrics()["unirail_controller_leader_objects{kind=\"pods\"}"] >= 8, "the controller knows eight pods")
    assert c.metrics()[METRIC] == 2 and events_of(cluster, work)["passed"][1] == 1


def test_controller_is_ready_only_after_its_webhooks_are_registered(cluster, replica, ns):
    """`kubectl rollout status` of the Deployment waits long enough: no replica is ready before the webhooks are registered."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/unirail-controller"
    c = replica()
    seen, until = set(), time.monotonic() + 60
    start(c, ready=False)
    while time.monotonic() < until:
        try:
            ready = c.get(c.health, "/readyz")[0] == 200
        except OSError:
            continue
        if ready:
            assert cluster.request("GET", path)[0] == 200
            break
        seen.add(c.get(c.health, "/readyz")[1])
    else:
        raise AssertionError(seen)
