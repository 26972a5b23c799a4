# SPDX-License-Identifier: Apache-2.0
"""Unauthorized clients at the webhook port, beside the reviews of a real API server.

In an earlier version, the controller decided reviews for any client that reached the port: after 27 s of them the ConfigMap of range
locks was full. And 7 slow uploads of 7 MiB caused 143 of 146 creates to be refused."""
import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
import time

import pytest
from hostile import ANYBODY, MANY, ONE, crowd, held, honest

import reviews
from agents import cluster_with_crds
from cluster import free_port, wait
from controllers import Controller
from h2_server import Pki
from reviews import PATH, send

CONFIGS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/unirail-controller"


@pytest.fixture(scope="module")
def cluster():
    yield from cluster_with_crds()


@pytest.fixture
def ns(cluster):
    return cluster.namespace(f"h{time.monotonic_ns()}")


@pytest.fixture
def replica(cluster, ns, closing, tmp_path):
    made = []

    def start(name, *more, url=None, kubeconfig=None):
        c = closing(Controller(tmp_path / name, kubeconfig or cluster.admin_config(), ns, name))
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
    subnet = f"10.{i // 250}.{i % 250}.0/24"
    return reviews.pool(f"p{i}", subnet, **({"ips": ips} if ips else {}))


def create(cluster, o, query="?dryRun=All"):
    return reviews.create(cluster, o, query)


def registered(cluster):
    wait(lambda: create(cluster, pool(1, ["11.0.0.1"]))[0] == 422, "an invalid pool is refused")


def review(o):
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": f"u{time.monotonic_ns()}", "operation": "CREATE", "name": o["metadata"]["name"], "object": o,
        "kind": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "kind": "SpiderIPPool"},
        "resource": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "resource": "spiderippools"}}}).encode()


def test_review_without_the_token_gets_404_before_its_body_is_read(cluster, replica, ns):
    c = replica("c").leads()
    registered(cluster)
    token = tokens(cluster, ns)[0]
    asked = c.metrics()[f'unirail_controller_reviews_allowed_total{{path="{PATH}"}}']
    wrong = ("0" if token[0] != "0" else "1") + token[1:]
    for path in (PATH, "/" + PATH, f"/{wrong}{PATH}", f"/{token}", f"/{token[:-1]}{PATH}", f"/{token.upper()}{PATH}", "/"):
        want = (404, b"no webhook has this path\n") if path == f"/{token}" else (404, b"")
        assert send(c, path, review(pool(2))) == want, path
    # The server does not wait for the body.
    assert send(c, PATH, b"", length=7 << 20) == (404, b"")
    assert send(c, f"/{token}{PATH}", review(pool(2)))[0] == 200
    after = c.metrics()
    assert after[f'unirail_controller_reviews_allowed_total{{path="{PATH}"}}'] == asked + 1
    assert after["unirail_controller_reviews_unauthenticated_total"] == 7
    status, claims = cluster.request("GET", f"/api/v1/namespaces/{ns}/configmaps/unirail-claims")
    assert status == 404 or list(claims.get("data") or {}) == [] or len(claims["data"]) == 1
    # The token is only in the Secret and in the registered path.
    for secret in (token, wrong):
        assert secret not in c.log.read_text()
        assert secret not in c.get(c.metrics_port, "/metrics")[1]
    assert token.encode() not in open(f"/proc/{c.process.pid}/cmdline", "rb").read()


def test_secrets_are_in_no_log_metric_configmap_or_event(cluster, replica, ns, tmp_path):
    """The log level is debug. During the test secrets are rotated, and requests that carry a secret fail in several ways."""
    account = cluster.account(ns, "all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    c = replica("c", "--token-life", "3s", "--ca-publish", "2s",
                kubeconfig=cluster.kubeconfig(tmp_path / "conf", {"token": account})).leads()
    registered(cluster)
    known, merge = {account}, dict(type="application/merge-patch+json")
    objects = f"/api/v1/namespaces/{ns}/secrets/unirail-controller-"

    def collect():
        for name in ("certs", "ca", "token"):
            data = cluster.ok("GET", objects + name).get("data") or {}
            for text in [base64.b64decode(v).decode() for k, v in data.items() if not k.endswith(".crt")]:
                known.update(line for line in text.split("\n") if len(line) > 20 and not line.startswith("-----"))
        return known

    wait(lambda: len(collect()) > 10, "more than ten secrets are collected")
    for token in tokens(cluster, ns):
        for path, body in ((f"/{token}{PATH}", b"{"), (f"/{token}/nowhere", b"{}"), (f"/{token}x{PATH}", b"{}"),
                           (f"/{token}{PATH}?a=%zz", b""), (f"/{token}{PATH}", b"[" * 1000)):
            send(c, path, body)
    with socket.create_connection(("127.0.0.1", c.webhook_port)) as s:
        s.sendall(f"POST /{token}{PATH} HTTP/1.1\r\n\r\n".encode())
        with contextlib.suppress(ConnectionResetError):
            s.recv(100)
    for kind in ("mutating", "validating"):
        cluster.ok("PATCH", CONFIGS.format(kind), {"webhooks": [
            {**h, "clientConfig": {**h["clientConfig"], "url": h["clientConfig"]["url"] + "x"}}
            for h in cluster.ok("GET", CONFIGS.format(kind))["webhooks"]]}, **merge)
    cluster.ok("PATCH", objects + "certs", {"data": {"tls.key": base64.b64encode(b"no key").decode()}}, **merge)
    first = set(tokens(cluster, ns))
    wait(lambda: collect() and not first & set(tokens(cluster, ns)), "each token is renewed", 60)
    wait(lambda: create(cluster, pool(1, ["11.0.0.1"]))[0] == 422, "an invalid pool is refused", 60)
    cluster.ok("DELETE", f"/api/v1/namespaces/{ns}/serviceaccounts/all")
    c.wait_logged("401", 60)
    places = {"log": c.log.read_text(), "metrics": c.get(c.metrics_port, "/metrics")[1], "readyz": c.get(c.health, "/readyz")[1],
              **{kind: json.dumps(cluster.ok("GET", f"/api/v1/namespaces/{ns}/{kind}")) for kind in ("configmaps", "events")}}
    found = [(place, secret) for place, text in places.items() for secret in known if secret in text]
    assert found == [] and len(places["log"]) > 2000


def test_no_create_is_refused_during_a_token_rotation(cluster, replica, ns):
    """Objects are created meanwhile: none is refused; both replicas accept the registered token."""
    life = ["--token-life", "2s", "--ca-publish", "2s"]
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
            assert send(one, f"/{token}{PATH}", review(pool(4)))[0] == 200
        assert time.monotonic() < end, (seen, tokens(cluster, ns))
    assert refused == []
    # The token that was registered first is no longer accepted.
    wait(lambda: send(c, f"/{first}{PATH}", review(pool(4)))[0] == 404, "the leader refuses the former token")
    wait(lambda: send(follower, f"/{first}{PATH}", review(pool(4)))[0] == 404, "the follower refuses the former token")


def test_deleted_token_secret_is_created_again(cluster, replica, ns):
    c = replica("c", "--ca-publish", "2s").leads()
    registered(cluster)
    first = tokens(cluster, ns)[0]
    cluster.ok("DELETE", f"/api/v1/namespaces/{ns}/secrets/unirail-controller-token")
    refused, end = [], time.monotonic() + 60

    def former_token_is_refused():
        status, answer = create(cluster, pool(3))
        if status != 201:
            refused.append(answer)
        return send(c, f"/{first}{PATH}", review(pool(4)))[0] == 404
    wait(former_token_is_refused, "the controller refuses the former token", 60)
    assert refused == [] and time.monotonic() < end
    assert first not in tokens(cluster, ns)
    wait(lambda: create(cluster, pool(3))[0] == 201, "the pool is admitted")


@pytest.mark.parametrize("sources", [ONE, ["127.0.0.1"], MANY], ids=["one-address", "local-address", "many-addresses"])
@pytest.mark.parametrize("kind", ["silent", "record", "hello"])
def test_creates_succeed_beside_2000_idle_connections(cluster, replica, kind, sources):
    """2,000 connections never complete the TLS handshake: they send nothing, an incomplete record byte by byte, or only a ClientHello."""
    c = replica("c").leads()
    registered(cluster)
    os.setpriority(os.PRIO_PROCESS, c.process.pid, -10)
    before, failed = held(c.process.pid), []
    with crowd(c.webhook_port, kind, rate=50, sources=sources):
        for _ in range(100):
            status, answer = create(cluster, pool(5))
            if status != 201:
                failed.append(answer)
        after = held(c.process.pid)
        assert c.get(c.health, "/healthz")[0] == 200
    assert failed == []
    # Each of the 2,000 connections may take 32 KiB: its TLS state and buffers.
    assert after[0] < before[0] + 2000 * 32 and after[1] <= before[1] + 2000, (before, after)
    assert c.metrics()["unirail_controller_leader"] == 1


@pytest.mark.parametrize("sources", [["127.0.0.1"], MANY], ids=["local-address", "many-addresses"])
@pytest.mark.parametrize("kind", ["head", "heads", "upload"])
def test_reviews_are_answered_beside_slow_requests_over_tls(cluster, replica, ns, kind, sources):
    """500 connections with a complete TLS handshake send a head byte by byte, a head of 15 KiB without its end, or, with the registered
    token, 100 KiB of a body of 7 MiB and then single bytes of it: each review is answered within a second, and no create is refused."""
    c = replica("c").leads()
    registered(cluster)
    os.setpriority(os.PRIO_PROCESS, c.process.pid, -10)
    path = f"/{tokens(cluster, ns)[0]}{PATH}"
    assert send(c, path, review(pool(5)))[0] == 200
    before, refused, answers, lasted = held(c.process.pid), [], [], []
    most = before[0]
    with crowd(c.webhook_port, f"tls-{kind}", n=500, rate=50, sources=sources, path=path):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
        for i in range(200):
            began = time.monotonic()
            answers.append(send(c, path, review(pool(5)))[0])
            lasted.append(time.monotonic() - began)
            if i % 4 == 0:
                status, answer = create(cluster, pool(5))
                refused += [answer] * (status != 201)
                most = max(most, held(c.process.pid)[0])
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        after = held(c.process.pid)
        assert c.get(c.health, "/healthz")[0] == 200
    print(f"the longest {sorted(lasted)[-3:]} s, {before} to {after}, most {most} KiB")
    assert (refused, answers, max(lasted) < 1.0) == ([], [200] * 200, True), max(lasted)
    # Each connection may take 32 KiB for its TLS state and buffers, and 20 KiB for its head; all bodies together may take 48 MiB.
    assert most < before[0] + 500 * (32 + 20) + ((48 << 10) if kind == "upload" else 0), (before, most)
    assert after[1] <= before[1] + 510, (before, after)


def configmap(cluster, ns):
    status, found = cluster.request("GET", f"/api/v1/namespaces/{ns}/configmaps/unirail-claims")
    return (found.get("data") or {}) if status == 200 else {}


@contextlib.contextmanager
def threads(n, run):
    """n threads call run() repeatedly while the block runs; yields a list with one entry for each call that returned."""
    stopped, done = threading.Event(), []

    def work():
        while not stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                run()
                done.append(1)
    all_of_them = [threading.Thread(target=work) for _ in range(n)]
    for t in all_of_them:
        t.start()
    try:
        yield done
    finally:
        stopped.set()
        for t in all_of_them:
            t.join()


def test_unauthorized_reviews_lock_no_ranges(cluster, replica, ns):
    """In an earlier version, each review left its ranges in the ConfigMap of range locks, which was full after 27 s; then every create
    was refused."""
    c = replica("c").leads()
    registered(cluster)
    before, answers, left = configmap(cluster, ns), [], list(range(10, 1010))

    def claim():
        o = pool(left.pop(), None)
        o["spec"]["ips"] = [o["spec"]["subnet"].replace(".0/24", f".{k}") for k in range(1, 250, 2)]
        answers.append(send(c, PATH, review(o)))
    workers = [threading.Thread(target=lambda: [claim() for _ in range(125)]) for _ in range(8)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert answers == [(404, b"")] * 1000
    assert configmap(cluster, ns) == before
    assert create(cluster, pool(2000))[0] == 201
    assert c.metrics()["unirail_controller_reviews_unauthenticated_total"] == 1000


def test_costly_reviews_delay_neither_lease_renewals_nor_probes(cluster, replica, ns):
    """A client with the token sends reviews over many connections: some just small enough for the controller to parse in its own
    process, and larger ones, which a child process parses. The Lease is renewed meanwhile, and each probe is answered within a
    second."""
    c = replica("c", "--lease", "6s", "--lease-renew", "4s", "--lease-retry", "1s").leads()
    registered(cluster)
    token, connections = tokens(cluster, ns)[0], threading.local()
    os.setpriority(os.PRIO_PROCESS, c.process.pid, -10)

    def ranges(size):
        o = pool(3, [])
        o["spec"]["subnet"] = "10.0.0.0/8"
        o["spec"]["ips"] = [f"10.{255 - i // 100}.{i % 100 * 2}.1" for i in range(size // 16)]
        return review(o)
    small, large = ranges(31 << 10), ranges(300 << 10)
    assert len(small) < 32 << 10 < len(large)

    def send(body, n):
        """Returns a function that sends n requests at once on the connection of its thread, and reads the n answers."""
        text = (f"POST /{token}{PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                .encode() + body) * n

        def run():
            if not getattr(connections, "one", None):
                connections.one = ANYBODY.wrap_socket(socket.create_connection(("127.0.0.1", c.webhook_port), 30))
                connections.answers = connections.one.makefile("rb")
            try:
                connections.one.sendall(text)
                for _ in range(n):
                    head = iter(connections.answers.readline, b"\r\n")
                    length = [int(f.split(b":")[1]) for f in head if f.lower().startswith(b"content-length:")]
                    connections.answers.read(length[0])
            except Exception as e:
                connections.one.close()
                connections.one = None
                raise OSError(str(e)) from e
        return run

    def lease():
        return cluster.ok("GET", f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/unirail-controller")["spec"]
    first, renewed = lease(), set()
    with threads(32, send(small, 8)) as smalls, threads(4, send(large, 1)) as larges:
        wait(lambda: len(smalls) > 20 and larges, "20 small reviews and a large one are answered", 60)
        while len(renewed) < 6:
            failed, worst = honest(20, c.health, "/healthz")
            assert (failed, worst < 1.0) == ([], True), (failed, worst)
            renewed.add(lease()["renewTime"])
        assert c.process.poll() is None
    assert lease()["leaseTransitions"] == first["leaseTransitions"] and lease()["holderIdentity"] == first["holderIdentity"]
    assert c.metrics()["unirail_controller_leader"] == 1


LARGE = {  # object: (seconds of CPU time for its review in an earlier version, whether it is allowed, function that enlarges it)
    "10,000 ips against 10,000 excludeIPs": (80, True, lambda o: o["spec"].update(
        ips=[address(i) for i in range(10000)], excludeIPs=[address(i) for i in reversed(range(10000))])),
    "40,000 labels": (17, False, lambda o: o["spec"].update(podAffinity={"matchLabels": {f"k{i}": "v" for i in range(40000)}})),
    "50,000 descending ips": (12, False, lambda o: o["spec"].update(ips=[address(i) for i in reversed(range(50000))])),
}


def address(i):
    return f"10.{i // 16384}.{i // 128 % 128}.{i % 128 * 2}"


def cpu_time(pid):
    """Seconds of CPU time of the process, and of those of its children that have ended."""
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return sum(int(n) for n in fields[11:15]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("what", LARGE)
def test_large_object_costs_less_than_a_second_of_cpu_time(cluster, replica, ns, what):
    """In an earlier version, the review of such an object blocked the controller's only thread for the CPU time in LARGE."""
    c = replica("c").leads()
    registered(cluster)
    path = f"/{tokens(cluster, ns)[0]}{PATH}"
    o = pool(3, [])
    o["spec"]["subnet"] = "10.0.0.0/8"
    before, allowed, fill = LARGE[what]
    fill(o)
    body = review(o)
    began, resident = cpu_time(c.process.pid), held(c.process.pid)[0]
    status, answer = send(c, path, body, timeout=30)
    spent = cpu_time(c.process.pid) - began
    print(f"{what}: {len(body)} bytes, {spent:.2f} s, before {before} s; {answer[:200]}")
    assert status == 200 and json.loads(answer)["response"]["allowed"] is allowed
    assert spent < 1.0
    assert held(c.process.pid)[0] < resident + (16 << 10)
    assert c.metrics()["unirail_controller_leader"] == 1


def test_custom_configuration_of_more_than_256_kib_is_refused(cluster, replica, ns):
    c = replica("c").leads()
    registered(cluster)
    o = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "n", "namespace": ns},
         "spec": {"cniType": "custom", "customCNI": json.dumps({"type": "macvlan", "pad": ""})}}
    text = o["spec"]["customCNI"]
    o["spec"]["customCNI"] = text[:-2] + "x" * ((256 << 10) - len(text)) + text[-2:]
    assert create(cluster, o)[0] == 201
    resident = held(c.process.pid)[0]
    o["spec"]["customCNI"] = text[:-2] + "x" * ((256 << 10) - len(text) + 1) + text[-2:]
    for _ in range(20):
        status, answer = create(cluster, o)
        assert status in (400, 403, 422) and "262145 bytes long, 262144 are allowed" in answer["message"], (status, answer)
    assert held(c.process.pid)[0] < resident + (2 << 10)


def test_reviews_succeed_during_an_upgrade_to_token_paths(cluster, replica, ns):
    """A rolling upgrade: an old replica, which registered paths without a token, still leads; a new replica serves
    these paths until it leads itself and registers paths with a token; afterwards it refuses the old paths."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    old = replica("old", "--ca-publish", "2s").leads()
    registered(cluster)
    old.kill()
    merge = dict(type="application/merge-patch+json")
    new = replica("new", "--ca-publish", "2s", "--lease", "600s", "--lease-renew", "500s")
    assert send(new, PATH, review(pool(6))) == (404, b"")
    for kind in ("mutating", "validating"):
        cluster.ok("PATCH", CONFIGS.format(kind), {"webhooks": [
            {**h, "clientConfig": {**h["clientConfig"], "url": f"https://127.0.0.1:{new.webhook_port}/"
                                                               + h["clientConfig"]["url"].rsplit("/", 1)[1]}}
            for h in cluster.ok("GET", CONFIGS.format(kind))["webhooks"]]}, **merge)
    wait(lambda: send(new, PATH, review(pool(6)))[0] == 200, "the new controller accepts the path without a token")
    # The refusal of an invalid pool proves that the API server calls the new replica at the registered path.
    wait(lambda: create(cluster, pool(1, ["11.0.0.1"]))[0] == 422, "an invalid pool is refused")
    assert create(cluster, pool(7))[0] == 201
    assert send(new, "/nowhere", review(pool(6))) == (404, b"")
    assert new.metrics()["unirail_controller_leader"] == 0
    # No other replica leads any more: the new one becomes leader, registers its own paths, and refuses the paths without a token.
    cluster.ok("DELETE", f"{lease}/unirail-controller")
    new.leads()
    wait(lambda: send(new, PATH, review(pool(6))) == (404, b""), "the new controller refuses the path without a token", 60)
    assert all(tokens(cluster, ns)[0] in h["clientConfig"]["url"]
               for kind in ("mutating", "validating") for h in cluster.ok("GET", CONFIGS.format(kind))["webhooks"])


def test_connection_without_a_client_certificate_is_refused(cluster, replica, ns, tmp_path):
    """With webhook-client-ca a connection without a certificate of that CA is refused in the handshake, whatever path it would
    request."""
    pki, others = Pki(tmp_path / "clients"), Pki(tmp_path / "others")
    c = replica("c", "--webhook-client-ca", pki.ca).leads()
    wait(lambda: tokens(cluster, ns), "the tokens are stored")

    def status(client):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if client:
            context.load_cert_chain(*client)
        conn = http.client.HTTPSConnection("127.0.0.1", c.webhook_port, context=context, timeout=20)
        try:
            conn.request("POST", f"/{tokens(cluster, ns)[0]}{PATH}", review(pool(8)), {"Content-Type": "application/json"})
            return conn.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            conn.close()
    wait(lambda: status(pki.leaf("apiserver", "DNS:apiserver", "clientAuth")) == 200, "the API server's certificate is accepted")
    assert status(None) is None
    assert status(others.leaf("apiserver", "DNS:apiserver", "clientAuth")) is None


def test_client_ca_file_without_a_certificate_is_reported(cluster, replica, tmp_path):
    (tmp_path / "ca").write_text("none")
    with pytest.raises(AssertionError, match="webhook-client-ca"):
        replica("c", "--webhook-client-ca", tmp_path / "ca")
