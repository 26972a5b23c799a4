# SPDX-License-Identifier: Apache-2.0
"""Admission by the real API server: objects applied by kubectl, certificates that change, controllers that are gone."""
import base64
import http.client
import json
import ssl
import subprocess
import threading
import time

import pytest
import yaml

import cluster as clusters
from agents import install_crds
from cluster import free_port, wait
from controllers import Controller

REG = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{REG}/mutatingwebhookconfigurations"
VALIDATING = f"{REG}/validatingwebhookconfigurations"
NAME = "unirail-controller"
SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
SECRET = "unirail-controller-certs"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
INJECT = "cni.spidernet.io/rdma-resource-inject"


@pytest.fixture(scope="module")
def cluster():
    """One of its own: what is registered here would refuse the others' objects."""
    one = clusters.Cluster()
    install_crds(one)
    yield one
    one.close()


@pytest.fixture
def ns(cluster):
    name = f"w{time.monotonic_ns()}"
    return cluster.namespace(name)


@pytest.fixture
def replica(cluster, ns, closing, tmp_path):
    """Replicas that answer at `port`; each Controller is one."""
    def make(name="c", port=None, **env):
        c = closing(Controller(tmp_path / name, cluster.admin_config(), ns, name, **env))
        c.webhook_port = port or free_port()
        c.url = f"https://127.0.0.1:{c.webhook_port}"
        return c
    yield make
    for path in (MUTATING, VALIDATING):
        cluster.request("DELETE", f"{path}/{NAME}")


def start(c, *more, **kw):
    return c.start("--webhook-url", c.url, "--webhook-linger", "0s", *more, **kw)


def hooks(cluster, path=VALIDATING):
    status, answer = cluster.request("GET", f"{path}/{NAME}")
    return answer["webhooks"] if status == 200 else []


def registered(cluster, c):
    """Both are there, of this controller, and it answers."""
    def are():
        found = hooks(cluster) + hooks(cluster, MUTATING)
        return len(found) == 11 and all(h["clientConfig"]["url"].startswith(c.url) for h in found)
    wait(are)
    # The API server's own watch: from when it refuses what is wrong, it asks.
    wait(lambda: create(cluster, pool("probe", "10.0.0.0/24", ips=["10.1.0.1"]))[0] == 422)
    return c


def pool(name, subnet, **spec):
    base = subnet.rsplit(".", 1)[0]
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
            "spec": {"subnet": subnet, "ips": [f"{base}.10-{base}.20"], **spec}}


def create(cluster, o, query=""):
    plural = o["kind"].lower() + "s"
    ns = o["metadata"].get("namespace")
    path = f"{SPIDER}/namespaces/{ns}/{plural}" if ns else f"{SPIDER}/{plural}"
    return cluster.request("POST", path + query, o)


def drop(cluster, *names):
    for name in names:
        path = f"{SPIDER}/spiderippools/{name}"
        cluster.request("DELETE", path)
        cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, type="application/merge-patch+json")


def pod(cluster, ns, name="", **annotations):
    meta = {"name": name, "annotations": annotations} if name else {"generateName": "p-", "annotations": annotations}
    return cluster.request("POST", f"/api/v1/namespaces/{ns}/pods", {
        "metadata": meta, "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}})


def secret(cluster, ns):
    status, s = cluster.request("GET", f"/api/v1/namespaces/{ns}/secrets/{SECRET}")
    return s if status == 200 else None


def data(s, key):
    return base64.b64decode(s["data"][key]).decode()


def kubectl(cluster, *args, text=None):
    return subprocess.run([cluster.bin / "kubectl", "--kubeconfig", cluster.admin_config(), *map(str, args)], input=text,
                          capture_output=True, text=True, timeout=120)


def test_kubectl_apply(cluster, replica, ns):
    registered(cluster, start(replica()).leads())
    r = kubectl(cluster, "apply", "-f", "-", text=yaml.safe_dump(pool("a", "10.6.0.0/24")))
    assert r.returncode == 0, r.stderr
    made = cluster.ok("GET", f"{SPIDER}/spiderippools/a")
    assert made["spec"]["ipVersion"] == 4
    assert made["metadata"]["labels"]["ipam.spidernet.io/ippool-cidr"] == "10-6-0-0-24"
    again = kubectl(cluster, "apply", "-f", "-", text=yaml.safe_dump(pool("a", "10.6.0.0/24")))
    assert again.stdout.endswith("unchanged\n"), again.stdout + again.stderr
    bad = kubectl(cluster, "apply", "-f", "-", text=yaml.safe_dump(pool("b", "10.6.0.0/24", ips=["10.7.0.1"])))
    assert bad.returncode == 1
    assert 'The SpiderIPPool "b" is invalid' in bad.stderr or "SpiderIPPool" in bad.stderr, bad.stderr
    assert "spec.ips" in bad.stderr and "10.7.0.1" in bad.stderr
    drop(cluster, "a")
