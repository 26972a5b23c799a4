# SPDX-License-Identifier: Apache-2.0
"""Strangers at the webhook port, beside the reviews of a real API server.

Before: whoever reached the port had reviews decided (27 s of them filled the ConfigMap of claims), and 7 slow uploads of 7 MiB
had 143 of 146 creates refused.
"""
import base64
import http.client
import json
import os
import time

import pytest
from hostile import ANYBODY, MANY, ONE, crowd, held

import cluster as clusters
from agents import install_crds
from cluster import free_port, wait
from controllers import Controller

SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
CONFIGS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/unirail-controller"
PATH = "/validate-spiderpool-spidernet-io-v2beta1-spiderippool"


@pytest.fixture(scope="module")
def cluster():
    one = clusters.Cluster()
    install_crds(one)
    yield one
    one.close()


@pytest.fixture
def ns(cluster):
    return cluster.namespace(f"h{time.monotonic_ns()}")


@pytest.fixture
def replica(cluster, ns, closing, tmp_path):
    made = []

    def start(name, *more, url=None):
        c = closing(Controller(tmp_path / name, cluster.admin_config(), ns, name))
        c.webhook_port = free_port()
        made.append(c)
        return c.start("--webhook-url", url or f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s",
                       "--log-level", "debug", *more)
    yield start
    for c in made:
        c.close()
    for kind in ("mutating", "validating"):
        cluster.request("DELETE", CONFIGS.format(kind))


def tokens(cluster, ns):
    data = cluster.ok("GET", f"/api/v1/namespaces/{ns}/secrets/unirail-controller-token")["data"]["tokens"]
    return base64.b64decode(data).decode().split()


def pool(i, ips=None):
    base = f"10.{i // 250}.{i % 250}"
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": f"p{i}"},
            "spec": {"subnet": f"{base}.0/24", "ips": ips or [f"{base}.10-{base}.20"]}}


def create(cluster, o, query="?dryRun=All"):
    return cluster.request("POST", f"{SPIDER}/spiderippools{query}", o)


def registered(cluster):
    wait(lambda: create(cluster, pool(1, ["11.0.0.1"]))[0] == 422)


def ask(c, path, body=b"", method="POST", length=None):
    conn = http.client.HTTPSConnection("127.0.0.1", c.webhook_port, context=ANYBODY, timeout=20)
    try:
        conn.putrequest(method, path)
        conn.putheader("Content-Type", "application/json")
        conn.putheader("Content-Length", str(len(body) if length is None else length))
        conn.endheaders(body)
        r = conn.getresponse()
        return r.status, r.read()
    finally:
        conn.close()


def review(o):
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": f"u{time.monotonic_ns()}", "operation": "CREATE", "name": o["metadata"]["name"], "object": o,
        "kind": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "kind": "SpiderIPPool"},
        "resource": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "resource": "spiderippools"}}}).encode()


def test_strangers_are_refused_unread(cluster, replica, ns):
    c = replica("c").leads()
    registered(cluster)
    token = tokens(cluster, ns)[0]
    asked = c.metrics()[f'unirail_controller_reviews_allowed_total{{path="{PATH}"}}']
    wrong = ("0" if token[0] != "0" else "1") + token[1:]
    for path in (PATH, "/" + PATH, f"/{wrong}{PATH}", f"/{token}", f"/{token[:-1]}{PATH}", f"/{token.upper()}{PATH}", "/"):
        want = (404, b"no webhook has this path\n") if path == f"/{token}" else (404, b"")
        assert ask(c, path, review(pool(2))) == want, path
    # The body is not waited for.
    assert ask(c, PATH, b"", length=7 << 20) == (404, b"")
    assert ask(c, f"/{token}{PATH}", review(pool(2)))[0] == 200
    after = c.metrics()
    assert after[f'unirail_controller_reviews_allowed_total{{path="{PATH}"}}'] == asked + 1
    assert after["unirail_controller_reviews_strangers_total"] == 7
    status, claims = cluster.request("GET", f"/api/v1/namespaces/{ns}/configmaps/unirail-claims")
    assert status == 404 or list(claims.get("data") or {}) == [] or len(claims["data"]) == 1
    # Nowhere but in the Secret and in the registered path.
    for secret in (token, wrong):
        assert secret not in c.log.read_text()
        assert secret not in c.get(c.metrics_port, "/metrics")[1]
    assert token.encode() not in open(f"/proc/{c.process.pid}/cmdline", "rb").read()


def test_rotation(cluster, replica, ns):
    """Creates all the while: none is refused; both replicas take what is registered."""
    life = ["--token-life", "2s", "--ca-settle", "2s"]
    c = replica("c", *life).leads()
    registered(cluster)
    follower = replica("d", *life, url=f"https://127.0.0.1:{c.webhook_port}")
    seen, refused, end = set(), [], time.monotonic() + 60
    first = tokens(cluster, ns)[0]
    while len(seen) < 4:
        status, answer = create(cluster, pool(3))
        if status != 201:
            refused.append(answer)
        hook = cluster.ok("GET", CONFIGS.format("validating"))["webhooks"][0]["clientConfig"]["url"]
        token = hook.split("/")[3]
        seen.add(token)
        for one in (c, follower):
            assert ask(one, f"/{token}{PATH}", review(pool(4)))[0] == 200
        assert time.monotonic() < end, (seen, tokens(cluster, ns))
    assert refused == []
    # What was registered first is taken no more.
    wait(lambda: ask(c, f"/{first}{PATH}", review(pool(4)))[0] == 404)
    wait(lambda: ask(follower, f"/{first}{PATH}", review(pool(4)))[0] == 404)


def test_a_secret_that_is_deleted(cluster, replica, ns):
    c = replica("c", "--ca-settle", "2s").leads()
    registered(cluster)
    first = tokens(cluster, ns)[0]
    cluster.ok("DELETE", f"/api/v1/namespaces/{ns}/secrets/unirail-controller-token")
    refused, end = [], time.monotonic() + 60

    def gone():
        status, answer = create(cluster, pool(3))
        if status != 201:
            refused.append(answer)
        return ask(c, f"/{first}{PATH}", review(pool(4)))[0] == 404
    wait(gone, 60)
    assert refused == [] and time.monotonic() < end
    assert first not in tokens(cluster, ns)
    wait(lambda: create(cluster, pool(3))[0] == 201)


@pytest.mark.parametrize("sources", [ONE, ["127.0.0.1"], MANY], ids=["one", "own", "many"])
@pytest.mark.parametrize("kind", ["silent", "record", "hello"])
def test_creates_beside_a_crowd(cluster, replica, kind, sources):
    """2,000 connections that do not come to a request, in and before TLS."""
    c = replica("c").leads()
    registered(cluster)
    os.setpriority(os.PRIO_PROCESS, c.process.pid, -10)
    with crowd(c.webhook_port, kind, rate=50, sources=sources):
        before, failed = held(c.process.pid), []
        for _ in range(100):
            status, answer = create(cluster, pool(5))
            if status != 201:
                failed.append(answer)
        after = held(c.process.pid)
        assert c.get(c.health, "/healthz")[0] == 200
    assert failed == []
    assert after[0] < before[0] + 8192 and after[1] < before[1] + 64, (before, after)
    assert c.metrics()["unirail_controller_leads"] == 1
