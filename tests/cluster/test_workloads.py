# SPDX-License-Identifier: Apache-2.0
"""Workloads created by kubectl, with pods of the real kube-controller-manager: each pod gets its networks, and pools follow the number of
replicas."""
import json

import pytest
import yaml

from cluster import wait
from managers import Manager
from test_webhooks import INJECT, NETWORKS, SPIDER, cluster, config, create, ns, registered, replica, start  # noqa: F401

SUBNET = "ipam.spidernet.io/subnet"


@pytest.fixture(scope="module")
def manager(cluster):
    one = Manager(cluster)
    yield one
    one.close()


def workload(kind, name, spec, replicas=None, **annotations):
    labels = {"app": name}
    template = {"metadata": {"labels": labels, "annotations": annotations},
                "spec": {"automountServiceAccountToken": False, "restartPolicy": "Never" if kind == "Job" else "Always",
                         "terminationGracePeriodSeconds": 0,
                         "initContainers": [{"name": "i", "image": "i"}], "containers": [{"name": "c", "image": "i"}]}}
    o = {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "metadata": {"name": name},
         "spec": {"template": template, **spec}}
    if kind != "Job":
        o["spec"] |= {"replicas": replicas, "selector": {"matchLabels": labels}}
    return o


def apply(cluster, ns, o):
    r = cluster.run_kubectl("apply", "-n", ns, "-f", "-", text=yaml.safe_dump(o))
    assert r.returncode == 0, r.stderr


def scale(cluster, ns, what, n):
    r = cluster.run_kubectl("scale", "-n", ns, what, f"--replicas={n}")
    assert r.returncode == 0, r.stderr


def pods(cluster, ns, app, n):
    """Waits until `app` has n pods; returns them."""
    found = []

    def there():
        found[:] = [p for p in cluster.ok("GET", f"/api/v1/namespaces/{ns}/pods?labelSelector=app%3D{app}")["items"]
                    if not p["metadata"].get("deletionTimestamp")]
        assert len(found) == n, [p["metadata"]["name"] for p in found]
        return True
    wait(there, f"application {app} has {n} pods", 60)
    return found


def injected(p):
    names = [n["name"] for n in json.loads(p["metadata"]["annotations"][NETWORKS])]
    return names, p["spec"]["containers"][0]["resources"].get("limits")


@pytest.mark.parametrize("kind, spec", [
    ("Deployment", {}), ("StatefulSet", {"serviceName": "x", "podManagementPolicy": "Parallel"}),
    ("Job", {"parallelism": 3, "completions": 3})])
def test_pods_of_deployments_statefulsets_and_jobs_get_their_rails(cluster, manager, replica, ns, kind, spec):
    registered(cluster, start(replica()).leads())
    work = cluster.namespace(f"{ns}-work")
    for rail in ("eth10", "eth2"):
        status, answer = create(cluster, config(rail, work, work))
        assert status == 201, answer
    apply(cluster, work, workload(kind, "ai", spec, 3, **{INJECT: work}))
    want = ["eth2", "eth10"], {"spidernet.io/eth2": "1", "spidernet.io/eth10": "1"}
    for p in pods(cluster, work, "ai", 3):
        assert injected(p) == want and p["metadata"]["ownerReferences"][0]["controller"]
    if kind != "Job":
        scale(cluster, work, f"{kind.lower()}/ai", 5)
        assert [injected(p) for p in pods(cluster, work, "ai", 5)] == [want] * 5
        scale(cluster, work, f"{kind.lower()}/ai", 1)
        pods(cluster, work, "ai", 1)
    # The template is unchanged: the webhook changes pods only.
    path = f"/apis/{'batch' if kind == 'Job' else 'apps'}/v1/namespaces/{work}/{kind.lower()}s/ai"
    template = cluster.ok("GET", path)["spec"]["template"]
    assert template["metadata"]["annotations"] == {INJECT: work}
    assert not template["spec"]["containers"][0].get("resources")
    assert cluster.run_kubectl("delete", "-n", work, f"{kind.lower()}/ai").returncode == 0
    pods(cluster, work, "ai", 0)


def test_pods_are_created_once_their_group_of_networks_exists(cluster, manager, replica, ns):
    """While the group of networks that the pods request is missing, events FailedCreate name the group and the Deployment has no pods.
    The pods are created once the group exists."""
    registered(cluster, start(replica()).leads())
    work = cluster.namespace(f"{ns}-work")
    apply(cluster, work, workload("Deployment", "ai", {}, 1, **{INJECT: "late"}))

    def creation_failures():
        return [e for e in cluster.ok("GET", f"/api/v1/namespaces/{work}/events")["items"]
                if e["reason"] == "FailedCreate" and "late" in e["message"]]
    wait(creation_failures, "an event FailedCreate names the missing group")
    assert create(cluster, config("eth1", work, "late"))[0] == 201
    assert injected(pods(cluster, work, "ai", 1)[0])[0] == ["eth1"]


def made(cluster):
    return {p["metadata"]["name"]: p["spec"].get("ips", []) for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]
            if p["metadata"]["name"].startswith("auto")}


@pytest.mark.parametrize("kind, spec", [
    ("Deployment", {}), ("StatefulSet", {"serviceName": "x", "podManagementPolicy": "Parallel"})])
def test_pools_follow_kubectl_scale(cluster, manager, replica, ns, kind, spec):
    c = replica(UNIRAIL_SUBNET_REUSE_DELAY="1s")
    registered(cluster, start(c).leads())
    work, net = cluster.namespace(f"{ns}-work"), f"10.{30 + len(kind)}.0"
    assert create(cluster, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "metadata": {"name": kind.lower()},
                            "spec": {"subnet": f"{net}.0/24", "ips": [f"{net}.2-{net}.9"]}})[0] == 201
    apply(cluster, work, workload(kind, "ai", spec, 2, **{SUBNET: json.dumps({"ipv4": [kind.lower()]})}))
    wait(lambda: list(made(cluster).values()) == [[f"{net}.2-{net}.3"]], f"the pool has {net}.2 and {net}.3")
    pods(cluster, work, "ai", 2)
    for n, ips in ((5, f"{net}.2-{net}.6"), (8, f"{net}.2-{net}.9")):
        scale(cluster, work, f"{kind.lower()}/ai", n)
        wait(lambda: list(made(cluster).values()) == [[ips]], f"the pool has {ips}")
        pods(cluster, work, "ai", n)
    scale(cluster, work, f"{kind.lower()}/ai", 1)

    def one():
        ips = list(made(cluster).values())
        return len(ips) == 1 and len(ips[0]) == 1 and "-" not in ips[0][0]
    pods(cluster, work, "ai", 1)
    wait(one, "the pool has one address")
    assert cluster.run_kubectl("delete", "-n", work, f"{kind.lower()}/ai").returncode == 0
    wait(lambda: not made(cluster), "no pools are left", 60)
