# SPDX-License-Identifier: Apache-2.0
"""Writes to a real API server: conflicts, preconditions, patches, many concurrent writes, broken connections."""
import json
import re

import pytest

MAPS = "/api/v1/namespaces/{}/configmaps"
WRITE = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]


@pytest.fixture
def do(client):
    def run(*args, **kw):
        """Runs client.c; returns (status, object or error) of its only response."""
        r = client(*args, **kw)
        assert r.returncode == 0 and r.stdout.count("\n") == 1, (r.stdout, r.stderr)
        status, text = r.stdout.rstrip("\n").split(" ", 1)
        return (int(status[:-1]), text) if status.endswith("!") else (int(status), json.loads(text))
    return run


def test_second_create_of_an_object_is_refused(cluster, ns, do):
    status, made = do("create", ns, "a", '{"metadata":{"name":"a"},"data":{"x":"y"}}')
    assert status == 201 and made["data"] == {"x": "y"}
    assert cluster.ok("GET", MAPS.format(ns) + "/a") == made
    assert do("create", ns, "a", '{"metadata":{"name":"a"}}') == (
        409, f"kube: create configmap '{ns}/a': 409 AlreadyExists: configmaps \"a\" already exists")
    status, text = do("create", ns, "b", '{"metadata":{"name":"Not Valid"}}')
    assert status == 422 and f"kube: create configmap '{ns}/b': 422 Invalid: " in text
    status, text = do("create", "no-such-namespace", "b", '{"metadata":{"name":"b"}}')
    assert status == 404 and "namespaces \"no-such-namespace\" not found" in text
    assert do("create", ns, "c", '{"metadata":')[0] == 400


def test_large_object_is_created(cluster, ns, do):
    """The object is larger than the initial HTTP/2 window (65,535 bytes): the client sends the rest once the server extends the window."""
    status, made = do("create", ns, "a", json.dumps({"metadata": {"name": "a"}, "data": {"x": "y" * 110000,
                                                                                       "z": "\u00e9"}}))
    assert status == 201 and made["data"] == {"x": "y" * 110000, "z": "é"}


def test_merge_patch_is_applied(cluster, ns, do):
    was = cluster.config_map(ns, "a", {"x": "1", "y": "2"})
    version = was["metadata"]["resourceVersion"]
    with_version = json.dumps({"metadata": {"resourceVersion": version}, "data": {"x": "3", "y": None}})
    status, now = do("merge", ns, "a", with_version)
    assert status == 200 and now["data"] == {"x": "3"}
    status, text = do("merge", ns, "a", with_version)
    assert status == 409 and f"kube: patch configmap '{ns}/a': 409 Conflict: " in text
    assert do("merge", ns, "b", "{}")[0] == 404


def test_json_patch_is_applied(cluster, ns, do):
    """A `test` operation that fails rejects the whole patch."""
    cluster.config_map(ns, "a", {"owner": "", "x": "1"})
    take = json.dumps([{"op": "test", "path": "/data/owner", "value": ""},
                       {"op": "replace", "path": "/data/owner", "value": "n1"}, {"op": "remove", "path": "/data/x"}])
    assert do("patch", ns, "a", take)[1]["data"] == {"owner": "n1"}
    assert do("patch", ns, "a", take)[0] == 422
    assert cluster.ok("GET", MAPS.format(ns) + "/a")["data"] == {"owner": "n1"}


def test_replace_with_an_outdated_resource_version_is_refused(cluster, ns, do):
    was = cluster.config_map(ns, "a", {"x": "1"})
    was["data"] = {"x": "2"}
    assert do("replace", ns, "a", json.dumps(was))[0] == 200
    assert do("replace", ns, "a", json.dumps(was))[0] == 409


def test_status_of_a_pod_is_patched(cluster, ns, do):
    cluster.ok("POST", f"/api/v1/namespaces/{ns}/pods", {
        "metadata": {"name": "p"}, "spec": {"automountServiceAccountToken": False,
                                            "containers": [{"name": "c", "image": "i"}]}})
    status, pod = do("status", ns, "p", '{"status":{"message":"here"},"spec":{"nodeName":"n1"}}')
    assert status == 200 and pod["status"]["message"] == "here" and "nodeName" not in pod["spec"]


def test_delete_requires_its_preconditions(cluster, ns, do):
    was = cluster.config_map(ns, "a")["metadata"]
    status, text = do("delete", ns, "a", "another", "-")
    assert status == 409 and f"kube: delete configmap '{ns}/a': 409 Conflict: " in text
    assert do("delete", ns, "a", was["uid"], "1")[0] == 409
    assert do("delete", ns, "a", was["uid"], was["resourceVersion"])[0] == 200
    assert do("delete", ns, "a", "-", "-")[0] == 404
    cluster.config_map(ns, "a")
    assert do("delete", ns, "a", "-", "-")[0] == 200


def test_many_concurrent_writes_succeed(cluster, ns, client, proxy, tmp_path):
    """The client sends more concurrent requests than the server accepts on one connection: the client queues the rest."""
    path = cluster.through(proxy, tmp_path / "config")
    r = client("many", ns, 600, kubeconfig=path)
    assert [x.split()[0] for x in r.stdout.splitlines()] == ["201"] * 600
    assert proxy.connections == 1


def test_write_refused_with_429_is_retried_until_it_succeeds(cluster, ns, client, tmp_path):
    """The server executes one write at a time and refuses concurrent writes with 429: in the end all writes are executed."""
    token = cluster.account(ns, "writer", WRITE)
    path = cluster.kubeconfig(tmp_path / "config", {"token": token})
    cluster.stop_apiserver()
    cluster.start_apiserver("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1")
    try:
        r = client("many", ns, 60, kubeconfig=path)
        assert [x.split()[0] for x in r.stdout.splitlines()] == ["201"] * 60, r.stdout
        metrics = cluster.request("GET", "/metrics", raw=True)[1].decode()
        refused = re.findall(r'apiserver_(?:dropped_requests_total\{request_kind="mutating"|'  # 1.20; later servers:
                             r'request_terminations_total\{code="429"[^}]*)\} (\d+)', metrics)
        assert refused and int(refused[0]) > 0
    finally:
        cluster.stop_apiserver()
        cluster.start_apiserver()


def test_write_with_a_broken_connection_is_not_repeated(cluster, ns, do, proxy, tmp_path):
    """The client cannot know whether the server executed the write, so the client does not repeat it."""
    path = cluster.through(proxy, tmp_path / "config")
    proxy.cut_after = 30000
    status, text = do("create", ns, "a", json.dumps({"metadata": {"name": "a"}, "data": {"x": "y" * 100000}}),
                      kubeconfig=path)
    assert status == 0
    assert text.endswith("the server closed the connection: the server may or may not have carried out the request")
    assert proxy.connections == 1
