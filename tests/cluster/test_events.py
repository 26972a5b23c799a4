# SPDX-License-Identifier: Apache-2.0
"""Events that tests/cluster/client.c sends, as the API server stores them and `kubectl get events` prints them."""
import subprocess

import cluster as clusters


def events(cluster, ns):
    return cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]


def test_repeated_event_is_counted(cluster, ns, client):
    """One Event object with a count; repeated events are rate-limited after 25."""
    assert client("events", ns, "p", 30, "it failed").returncode == 0
    (e,) = events(cluster, ns)
    assert e["count"] == 25 and e["message"] == "it failed" and e["type"] == "Warning" and e["reason"] == "Testing"
    assert e["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": ns, "name": "p"}
    assert e["source"] == {"component": "unirail-test", "host": "n1"}
    assert e["firstTimestamp"] <= e["lastTimestamp"]
    shown = subprocess.run([cluster.bin / "kubectl", "--kubeconfig", cluster.folder / "admin.conf", "get", "events",
                            "-n", ns], capture_output=True, text=True, check=True).stdout
    assert "Warning   Testing   pod/p    it failed" in shown


def test_many_similar_events_are_combined(cluster, ns, client):
    assert client("events", ns, "p", 15, "attempt %d").returncode == 0
    found = {e["message"]: e["count"] for e in events(cluster, ns)}
    assert found == {**{f"attempt {i}": 1 for i in range(10)}, "(combined from similar events): attempt 14": 5}


def test_long_event_message_is_truncated(cluster, ns, client):
    assert client("events", ns, "p", 1, "é" * 600).returncode == 0
    (e,) = events(cluster, ns)
    assert e["message"] == "é" * 512


def test_missing_permission_for_events_is_logged(cluster, ns, client, tmp_path):
    """The process continues and logs the refusal once."""
    path = cluster.kubeconfig(tmp_path / "c", {"token": cluster.account(ns, "no-permissions")})
    r = client("events", ns, "p", 15, "attempt %d", kubeconfig=path)
    assert r.returncode == 0 and r.stderr.count("\n") == 1 and "403 Forbidden" in r.stderr
    assert events(cluster, ns) == []


def test_events_sent_while_the_api_server_starts_are_counted(cluster, ns, client):
    cluster.stop_apiserver()
    cluster.start_apiserver(ready=False)
    assert client("events", ns, "p", 2, "it failed").returncode == 0
    clusters.wait(lambda: [e["count"] for e in events(cluster, ns)] == [2], "the event's count is 2")
