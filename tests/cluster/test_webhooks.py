# SPDX-License-Identifier: Apache-2.0
"""Admission by the real API server: objects applied by kubectl, certificates that change, controllers that do not answer."""
import base64
import contextlib
import json
import socket
import ssl
import threading
import time

import pytest
import yaml

import cluster as clusters
import faulty
from agents import cluster_with_crds
from cluster import free_port, wait
from controllers import Controller
from reviews import PATH, SPIDER, create, pool, send

REG = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{REG}/mutatingwebhookconfigurations"
VALIDATING = f"{REG}/validatingwebhookconfigurations"
NAME = "unirail-controller"
SECRET, CA_SECRET = "unirail-controller-certs", "unirail-controller-ca"
MERGE = dict(type="application/merge-patch+json")
NETWORKS = "k8s.v1.cni.cncf.io/networks"
INJECT = "cni.spidernet.io/rdma-resource-inject"


@pytest.fixture(scope="module")
def cluster():
    """A cluster for the tests of one file only: the webhooks would refuse the objects of tests in other files."""
    yield from cluster_with_crds()


@pytest.fixture
def ns(cluster):
    name = f"w{time.monotonic_ns()}"
    return cluster.namespace(name)


@pytest.fixture
def replica(cluster, ns, closing, tmp_path):
    """The fixture is a function: replica(name, port, **env) creates a Controller that serves its webhooks on `port`, or on a free port
    if `port` is None."""
    made = []

    def make(name="c", port=None, **env):
        c = closing(Controller(tmp_path / name, cluster.admin_config(), ns, name, **env))
        c.webhook_port = port or free_port()
        c.url = f"https://127.0.0.1:{c.webhook_port}"
        c.token = lambda: token(cluster, ns)
        made.append(c)
        return c
    yield make
    for c in made:  # a running controller would restore the webhook configurations
        c.close()
    for path in (MUTATING, VALIDATING):
        cluster.request("DELETE", f"{path}/{NAME}")


def start(c, *more, **kw):
    return c.start("--webhook-url", c.url, "--webhook-linger", "0s", *more, **kw)


def hooks(cluster, path=VALIDATING):
    status, answer = cluster.request("GET", f"{path}/{NAME}")
    return answer["webhooks"] if status == 200 else []


def registered(cluster, c):
    """Waits until both webhook configurations exist, belong to this controller, and the API server calls the controller."""
    def are():
        found = hooks(cluster) + hooks(cluster, MUTATING)
        return len(found) == 11 and all(h["clientConfig"]["url"].startswith(c.url) for h in found)
    wait(are, "all 11 webhooks are registered")
    # The API server learns of the webhooks by a watch: its refusal of an invalid object shows that it calls them.
    wait(lambda: create(cluster, pool("probe", "10.0.0.0/24", ips=["10.1.0.1"]))[0] == 422, "an invalid pool is refused")
    return c


def drop(cluster, *names):
    for name in names:
        path = f"{SPIDER}/spiderippools/{name}"
        cluster.request("DELETE", path)
        cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, type="application/merge-patch+json")


def pod(cluster, ns, name="", **annotations):
    meta = {"name": name, "annotations": annotations} if name else {"generateName": "p-", "annotations": annotations}
    return cluster.request("POST", f"/api/v1/namespaces/{ns}/pods", {
        "metadata": meta, "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}})


def secret(cluster, ns, name=SECRET):
    status, s = cluster.request("GET", f"/api/v1/namespaces/{ns}/secrets/{name}")
    return s if status == 200 else None


def written(c, name=SECRET):
    return [line["what"] for line in c.logged("Secret written") if line["name"] == name]


def data(s, key):
    return base64.b64decode(s["data"][key]).decode()


def test_kubectl_apply_is_reviewed(cluster, replica, ns):
    registered(cluster, start(replica()).leads())
    r = cluster.run_kubectl("apply", "-f", "-", text=yaml.safe_dump(pool("a", "10.6.0.0/24")))
    assert r.returncode == 0, r.stderr
    made = cluster.ok("GET", f"{SPIDER}/spiderippools/a")
    assert made["spec"]["ipVersion"] == 4
    assert made["metadata"]["labels"]["ipam.spidernet.io/ippool-cidr"] == "10-6-0-0-24"
    again = cluster.run_kubectl("apply", "-f", "-", text=yaml.safe_dump(pool("a", "10.6.0.0/24")))
    assert again.stdout.endswith("unchanged\n"), again.stdout + again.stderr
    bad = cluster.run_kubectl("apply", "-f", "-", text=yaml.safe_dump(pool("b", "10.6.0.0/24", ips=["10.7.0.1"])))
    assert bad.returncode == 1
    assert 'The SpiderIPPool "b" is invalid' in bad.stderr or "SpiderIPPool" in bad.stderr, bad.stderr
    assert "spec.ips" in bad.stderr and "10.7.0.1" in bad.stderr
    drop(cluster, "a")


def token(cluster, ns):
    """The newest token in the controller's Secret."""
    return base64.b64decode(cluster.ok("GET", f"/api/v1/namespaces/{ns}/secrets/unirail-controller-token")["data"]["tokens"]).decode().split()[0]


def post_review(c, body, path=PATH, method="POST", ca=None, auth=True, timeout=20, **headers):
    """Sends a review directly to the webhook port, with the token that the API server uses; returns (status, text)."""
    token = f"/{c.token()}" if auth and path != "/webhook-health-check" else ""
    status, answer = send(c, token + path, body, method, ca, timeout, **headers)
    return status, answer.decode()


def served(c, ca):
    """Connects as a client that trusts `ca`; returns the server's certificate."""
    context = ssl.create_default_context(cadata=ca)
    with context.wrap_socket(clusters.socket.create_connection(("127.0.0.1", c.webhook_port), 10),
                             server_hostname="127.0.0.1") as s:
        return s.getpeercert(binary_form=True)


def trusted(cluster):
    """The CA in the registered webhook configurations."""
    return base64.b64decode(hooks(cluster)[0]["clientConfig"]["caBundle"]).decode()


def config(name, ns, group):
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
            "metadata": {"name": name, "namespace": ns, "annotations": {INJECT: group}},
            "spec": {"cniType": "macvlan", "macvlan": {"master": [name], "enableRdma": True,
                                                       "rdmaResourceName": f"spidernet.io/{name}",
                                                       "ippools": {"ipv4": [f"{name}-pool"]}}}}


def test_networks_are_injected_into_pods(cluster, replica, ns):
    c = registered(cluster, start(replica()).leads())
    work = cluster.namespace(f"{ns}-work")
    for rail in ("eth10", "eth2"):
        status, answer = create(cluster, config(rail, work, work))
        assert status == 201, json.dumps(answer)
    status, answer = pod(cluster, work, **{INJECT: work})
    assert status == 201, answer
    assert json.loads(answer["metadata"]["annotations"][NETWORKS]) == [
        {"name": "eth2", "namespace": work, "interface": "net1"}, {"name": "eth10", "namespace": work, "interface": "net2"}]
    limits = answer["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"spidernet.io/eth2": "1", "spidernet.io/eth10": "1"}
    status, answer = pod(cluster, work)
    assert status == 201 and NETWORKS not in answer["metadata"].get("annotations", {})
    status, answer = pod(cluster, work, **{INJECT: "none-such"})
    assert status == 403 and 'admission webhook "pods.spiderpool.spidernet.io" denied' in answer["message"]
    assert "none-such" in answer["message"]
    # The controller reads the changed settings: the namespace is excluded now.
    c.conf.write_text(f"[controller]\nnamespaces-exclude = {work}\n")
    wait(lambda: pod(cluster, work, **{INJECT: "none-such"})[0] == 201, "the pod is created without networks")
    selector = [h for h in hooks(cluster, MUTATING) if h["name"].startswith("pods.")][0]["namespaceSelector"]
    assert {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [work, ns]} in [
        {**e, "values": sorted(e["values"], key=lambda v: v == ns)} for e in selector["matchExpressions"]]


def test_networks_annotation_of_the_created_pod_is_overwritten(cluster, replica, ns):
    """The webhook overwrites the networks annotation with which the pod is created, as Spiderpool's webhook does; kubectl shows a
    warning that quotes the overwritten value."""
    registered(cluster, start(replica()).leads())
    work = cluster.namespace(f"{ns}-work")
    # The group is this test's only: with a shared group the pod would also get the networks of other tests.
    assert create(cluster, config("eth2", work, work))[0] == 201
    o = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "namespace": work,
         "annotations": {INJECT: work, NETWORKS: "storage/nfs@nfs0, eth9"}},
         "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}}
    r = cluster.run_kubectl("apply", "-f", "-", text=json.dumps(o))
    assert r.returncode == 0, r.stderr
    assert f"Warning: the pod's annotation '{NETWORKS}' (storage/nfs@nfs0, eth9) is replaced" in r.stderr
    stored = cluster.ok("GET", f"/api/v1/namespaces/{work}/pods/own")["metadata"]["annotations"][NETWORKS]
    assert json.loads(stored) == [{"name": "eth2", "namespace": work, "interface": "net1"}]


def test_pod_created_together_with_its_networks_gets_all_of_them(cluster, replica, ns, closing, tmp_path):
    """The networks are created right before the pod, and the replica's watch reports them late, one after the other."""
    link, conf = closing(clusters.Proxy(cluster.port)), tmp_path / "late"
    cluster.through(link, conf)
    c = replica()
    c.kubeconfig = conf
    registered(cluster, start(c).leads())
    work = cluster.namespace(f"{ns}-work")
    wait(lambda: pod(cluster, work)[0] == 201, "the pod is created")
    for turn in range(5):
        link.delay = 0.1
        for i in range(8):
            assert create(cluster, config(f"eth{i}", work, f"rails-{turn}"))[0] == 201
        status, answer = pod(cluster, work, **{INJECT: f"rails-{turn}"})
        link.delay = 0
        assert status == 201, answer
        names = [n["name"] for n in json.loads(answer["metadata"]["annotations"][NETWORKS])]
        assert names == [f"eth{i}" for i in range(8)], turn
        for i in range(8):
            cluster.ok("DELETE", f"{SPIDER}/namespaces/{work}/spidermultusconfigs/eth{i}")


def test_dry_run_is_reviewed_without_side_effects(cluster, replica):
    registered(cluster, start(replica()).leads())
    status, answer = create(cluster, pool("dry", "10.16.0.0/24"), "?dryRun=All")
    assert status == 201 and answer["spec"]["ipVersion"] == 4
    assert create(cluster, pool("dry", "10.16.0.0/24", gateway="1.2.3.4"), "?dryRun=All")[0] == 422
    assert cluster.request("GET", f"{SPIDER}/spiderippools/dry")[0] == 404
    # The request with dryRun does not affect the next review.
    assert create(cluster, pool("wet", "10.16.0.0/16", ips=["10.16.0.15"]))[0] == 201
    drop(cluster, "wet")


def test_without_a_controller_pools_are_refused_and_pods_admitted(cluster, replica, ns):
    """While no controller answers, the API server refuses a SpiderIPPool and admits a pod."""
    c = registered(cluster, start(replica()).leads())
    work = cluster.namespace(f"{ns}-work")
    c.kill()
    status, answer = create(cluster, pool("late", "10.17.0.0/24"))
    assert status == 500 and "failed calling webhook" in answer["message"], answer
    assert pod(cluster, work, **{INJECT: "rails"})[0] == 201
    before = [h["clientConfig"]["caBundle"] for h in hooks(cluster)]
    start(c)
    wait(lambda: create(cluster, pool("late", "10.17.0.0/24"))[0] == 201, "the pool is created")
    assert [h["clientConfig"]["caBundle"] for h in hooks(cluster)] == before
    assert len(written(c)) == 1  # only the first start wrote the Secret
    drop(cluster, "late")


def test_edits_of_webhook_configurations_are_reverted(cluster, replica):
    c = registered(cluster, start(replica()).leads())
    merge = dict(type="application/merge-patch+json")

    def restored(want):
        def as_it_was():
            return json.dumps(hooks(cluster), sort_keys=True) == want
        return as_it_was

    right = json.dumps(hooks(cluster), sort_keys=True)
    for i, edit in enumerate((
            lambda h: [{**x, "failurePolicy": "Ignore"} for x in h],
            lambda h: [{**x, "clientConfig": {**x["clientConfig"], "caBundle": base64.b64encode(
                cluster.pki.ca.read_bytes()).decode()}} for x in h],
            lambda h: h[1:],
            lambda h: [{**h[0], "namespaceSelector": {"matchLabels": {"a": "b"}}}] + h[1:],
            lambda h: h + [{**h[0], "name": "other.example.com"}],
            lambda h: [{**x, "rules": []} for x in h])):
        cluster.ok("PATCH", f"{VALIDATING}/{NAME}", {"webhooks": edit(hooks(cluster))}, **merge)
        wait(restored(right), "the webhook configurations are restored", 10)
        restores = c.metrics()["unirail_controller_webhooks_restored_total"]
        assert restores == i + 1, c.logged("correcting them")
    what = [x["what"] for x in c.logged("correcting them")]
    assert what[0].endswith(": failurePolicy") and what[2].endswith(": missing") and "another number of webhooks" in what[4], what
    for path in (VALIDATING, MUTATING):
        cluster.ok("DELETE", f"{path}/{NAME}")
    registered(cluster, c)
    # The controller leaves labels of other owners alone, and does not write the webhook configuration.
    cluster.ok("PATCH", f"{VALIDATING}/{NAME}", {"metadata": {"labels": {"team": "net"}}}, **merge)
    version = cluster.ok("GET", f"{VALIDATING}/{NAME}")["metadata"]["resourceVersion"]
    time.sleep(2)
    existing = cluster.ok("GET", f"{VALIDATING}/{NAME}")["metadata"]
    assert existing["labels"]["team"] == "net" and existing["resourceVersion"] == version
    # The controller does not change a caBundle that cert-manager injects, either.
    cluster.ok("PATCH", f"{VALIDATING}/{NAME}", {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}},
               **merge)
    reference = base64.b64encode(cluster.pki.ca.read_bytes()).decode()
    cluster.ok("PATCH", f"{VALIDATING}/{NAME}", {"webhooks": [
        {**h, "clientConfig": {**h["clientConfig"], "caBundle": reference}} for h in hooks(cluster)]}, **merge)
    time.sleep(2)
    assert {h["clientConfig"]["caBundle"] for h in hooks(cluster)} == {reference}


def test_malformed_reviews_are_refused(cluster, replica, ns):
    c = start(replica()).leads()
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": "p", "object": pool("p", "10.18.0.0/24"),
        "kind": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "kind": "SpiderIPPool"},
        "resource": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "resource": "spiderippools"}}}

    def but(**request):
        return json.dumps({**review, "request": {**review["request"], **request}})

    rows = [
        (b"", 400, "AdmissionReview"),
        (b"{", 400, "unexpected end of JSON"),
        (b"\x00\xff" * 1000, 400, "AdmissionReview"),
        (b"[" * 100000, 400, "AdmissionReview"),
        (json.dumps({**review, "apiVersion": "admission.k8s.io/v1beta1"}), 400, "expected 'admission.k8s.io/v1'"),
        (json.dumps({**review, "kind": "Pod"}), 400, "expected 'AdmissionReview'"),
        (but(uid=""), 400, "review.request.uid is empty"),
        (but(operation="EAT"), 400, "review.request.operation is 'EAT'"),
        (but(object=None), 400, "review.request.object is missing in a CREATE"),
        (but(kind={"group": "", "version": "v1", "kind": "Pod"}), 200, "correct the webhook's rules"),
        (but(kind={**review["request"]["kind"], "version": "v3"}), 200, "install the CRDs"),
    ]
    for body, status, contains in rows:
        got, text = post_review(c, body)
        assert got == status and contains in text, (body[:100], got, text)
        if got != 200:
            assert text.count("\n") == 1 and [x for x in c.lines() if contains in x.get("error", "")], text
    assert post_review(c, but(), path="/nowhere")[0] == 404
    assert post_review(c, None, method="GET")[0] == 405
    assert post_review(c, but(), **{"Content-Type": "application/yaml"})[0] == 415
    assert post_review(c, None, "/webhook-health-check", "GET") == (200, "ok\n")
    try:
        assert post_review(c, b" " * (8 << 20))[0] == 413
    except OSError:
        pass  # the controller closes the connection before it has read the rest of the body
    # A client without TLS.
    with clusters.socket.create_connection(("127.0.0.1", c.webhook_port), 10) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        try:
            assert len(s.recv(100)) < 10
        except OSError:
            pass  # the controller may reset the connection instead of sending a TLS alert
    c.wait_logged("does not speak TLS")
    status, text = post_review(c, but(), ca=data(secret(cluster, ns), "ca.crt"))
    assert status == 200 and json.loads(text)["response"] == {"uid": "u", "allowed": True}
    assert c.process.poll() is None


def test_definition_of_another_version_is_reported(cluster, replica):
    """One log line names the definition; a SpiderIPPool is reviewed as before."""
    path, name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "spidercoordinators.spiderpool.spidernet.io"

    def install(crd):
        if cluster.request("DELETE", f"{path}/{name}")[0] != 404:
            wait(lambda: cluster.request("GET", f"{path}/{name}")[0] == 404, f"definition {name} is deleted")
        cluster.ok("POST", path, {**crd, "metadata": {"name": name}, "status": None})
        served = f"/apis/spiderpool.spidernet.io/{crd['spec']['versions'][0]['name']}/spidercoordinators"
        wait(lambda: cluster.request("GET", served)[0] == 200, f"the API server serves {served}")
    candidate = cluster.ok("GET", f"{path}/{name}")
    reference = json.loads(json.dumps(candidate))
    reference["spec"]["versions"][0]["name"] = "v9"
    install(reference)
    wait(lambda: cluster.run_kubectl("get", "--raw", f"{SPIDER}/spidercoordinators").returncode,
         "the API server no longer serves SpiderCoordinators")
    try:
        c = registered(cluster, start(replica()).leads())
        c.wait_logged("does not serve some kinds: install their CRDs")
        logged_lines = [x["kinds"] for x in c.logged("does not serve some kinds: install their CRDs")]
        assert logged_lines == [name]
        assert create(cluster, pool("known", "10.22.0.0/24"))[0] == 201
    finally:
        drop(cluster, "known")
        install(candidate)


def test_many_concurrent_reviews_are_answered(cluster, replica):
    """Each review has a separate connection. If the controller closed a connection because of its limit on open connections, the API
    server would create the pod without its networks."""
    c = start(replica()).leads()
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "not-seen-yet", "object": {
            "metadata": {"annotations": {INJECT: "none"}}, "spec": {"containers": [{"name": "c"}]}},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}}})

    def answered():
        try:
            return post_review(c, body, "/mutate--v1-pod")[0] == 200
        except OSError:
            return False
    wait(answered, "the webhook answers")  # while the controller has no certificate, it accepts no connection
    answers, taken = [], c.token()
    c.token = lambda: taken

    def one():
        try:
            answers.append(post_review(c, body, "/mutate--v1-pod", timeout=120)[0])
        except OSError as e:
            answers.append(str(e))
    threads = [threading.Thread(target=one) for _ in range(400)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [200] * 400, [a for a in answers if a != 200][:3]


def test_subnets_and_pools_are_not_reviewed_before_the_list_of_subnets_is_complete(cluster, replica, closing, tmp_path):
    """Reviews of SpiderSubnets and SpiderIPPools are refused with 503 until the list of SpiderSubnets is complete."""
    answer = [faulty.refused(503)]
    server = closing(faulty.Faulty(cluster, lambda method, path: answer[0] if "/spidersubnets" in path else None))
    cluster.through(server, tmp_path / "conf")
    c = replica()
    c.kubeconfig = tmp_path / "conf"
    start(c, ready=False)

    def decided(kind):
        plural = kind.lower() + "s"
        status, text = post_review(c, json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": f"u{time.monotonic_ns()}", "operation": "CREATE", "name": "x", "dryRun": True,
            "object": {**pool("x", "10.21.0.0/24"), "kind": kind},
            "kind": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "kind": kind},
            "resource": {"group": "spiderpool.spidernet.io", "version": "v2beta1", "resource": plural}}}),
            f"/validate-spiderpool-spidernet-io-v2beta1-{plural[:-1]}")
        assert status == 200
        r = json.loads(text)["response"]
        return r["allowed"] or (r["status"]["code"], r["status"]["message"])

    def waits(kind):
        found = decided(kind)
        return found is not True and found[0] == 503 and found[1].startswith("spidersubnets are not ")

    def serves():
        try:
            return post_review(c, b"")[0] == 400
        except OSError:
            return False
    wait(serves, "the webhook answers")
    wait(lambda: waits("SpiderSubnet") and waits("SpiderIPPool"), "reviews of both kinds are refused with 503 before the first list")
    # If the kind SpiderSubnet is not installed, pools are reviewed without a list of subnets.
    answer[0] = faulty.refused(404, "NotFound")
    wait(lambda: decided("SpiderIPPool") is True, "SpiderIPPools are reviewed", 60)
    answer[0] = None
    wait(lambda: decided("SpiderSubnet") is True, "SpiderSubnets are reviewed", 60)


def test_incomplete_secret_is_reported(cluster, replica, ns):
    """The controller repairs its own Secret. If a Secret of another owner has a key that does not match its certificate, the controller
    logs one line and continues to serve its current certificate."""
    c = registered(cluster, start(replica()).leads())
    path, merge = f"/api/v1/namespaces/{ns}/secrets/{SECRET}", dict(type="application/merge-patch+json")
    first = secret(cluster, ns)
    assert first["type"] == "kubernetes.io/tls" and sorted(first["data"]) == ["ca.crt", "tls.crt", "tls.key"]
    own = secret(cluster, ns, CA_SECRET)
    assert sorted(own["data"]) == ["ca.crt", "ca.key"] and "PRIVATE KEY" in data(own, "ca.key")
    cluster.ok("PATCH", path, {"data": {"tls.key": ""}}, **merge)
    wait(lambda: data(secret(cluster, ns), "tls.key"), "the Secret has a key")
    assert len(c.logged("tls.key is missing")) == 1
    assert secret(cluster, ns)["data"]["ca.crt"] == first["data"]["ca.crt"]
    # A deleted Secret is created again with the same content.
    was = secret(cluster, ns)["data"]
    cluster.ok("DELETE", path)
    wait(lambda: secret(cluster, ns), "the Secret is created")
    assert secret(cluster, ns)["data"] == was
    # Without the label the Secret has another owner. This owner writes a certificate of another CA, and then a key that does not match the
    # certificate.
    leaf = cluster.pki.leaf("hook", "IP:127.0.0.1")
    coded = {k: base64.b64encode(p.read_bytes()).decode() for k, p in (
        ("ca.crt", cluster.pki.ca), ("tls.crt", leaf[0]), ("tls.key", leaf[1]))}
    cluster.ok("PATCH", path, {"metadata": {"labels": None}, "data": {**coded, "ca.key": None}}, **merge)
    ca = cluster.pki.ca.read_text()
    wait(lambda: trusted(cluster) == ca and served(c, ca), "the controller serves the Secret's certificate and registers its CA")
    other = cluster.pki.leaf("other", "IP:127.0.0.1")
    cluster.ok("PATCH", path, {"data": {"tls.key": base64.b64encode(other[1].read_bytes()).decode()}}, **merge)
    c.wait_logged("the key does not belong to the certificate")
    time.sleep(1)
    assert len(c.logged("the key does not belong to the certificate")) == 1
    assert data(secret(cluster, ns), "tls.key") == other[1].read_text()  # a Secret of another owner is not repaired
    wait(lambda: create(cluster, pool("half", "10.19.0.0/24"))[0] == 201, "pool half is created")
    drop(cluster, "half")
    assert c.get(c.health, "/readyz")[0] == 200 and c.metrics()["unirail_controller_certificate_error"] == 1
    # A replica that starts while the Secret has the wrong key has no certificate, and reports this.
    late = replica("late")
    start(late, ready=False)
    late.wait_logged("no webhook certificate to serve")
    # Readiness reports an unsynced cache first, so wait for the message about the key.
    wait(lambda: "tls.crt and tls.key: the key does not belong" in late.get(late.health, "/readyz")[1],
         "the controller's readiness reports the wrong key")
    assert late.get(late.health, "/readyz")[0] == 503
    cluster.ok("PATCH", path, {"data": coded}, **merge)
    late.ready()


def test_certificate_of_cert_manager_is_served_and_its_secret_is_not_written(cluster, replica, ns):
    """The controller created the Secret, which still has the controller's label, but an annotation names cert-manager as the owner, so
    only cert-manager writes the Secret."""
    c = registered(cluster, start(replica(), "--ca-publish", "0s").leads())
    path, leaf = f"/api/v1/namespaces/{ns}/secrets/{SECRET}", cluster.pki.leaf("hook", "IP:127.0.0.1")
    coded = {k: base64.b64encode(p.read_bytes()).decode() for k, p in (
        ("ca.crt", cluster.pki.ca), ("tls.crt", leaf[0]), ("tls.key", leaf[1]))}
    made = cluster.ok("PATCH", path, {"metadata": {"annotations": {"cert-manager.io/certificate-name": "hook"}}, "data": coded},
                      type="application/merge-patch+json")
    ca = cluster.pki.ca.read_text()
    wait(lambda: trusted(cluster) == ca and served(c, ca), "the controller serves the Secret's certificate and registers its CA")
    time.sleep(2)
    assert secret(cluster, ns)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert len(written(c)) == 1  # the controller wrote the Secret only at its start


def as_before(cluster, ns):
    """Restores the Secrets of an earlier version: the CA's key is in the certificate's Secret, and the CA has no Secret. Returns the
    data of the certificate's Secret."""
    path = f"/api/v1/namespaces/{ns}/secrets"
    key = secret(cluster, ns, CA_SECRET)["data"]["ca.key"]
    cluster.ok("DELETE", f"{path}/{CA_SECRET}")
    return cluster.ok("PATCH", f"{path}/{SECRET}", {"data": {"ca.key": key}}, **MERGE)["data"]


def moved(cluster, ns, before):
    """Waits until the CA's key is in the CA's Secret and removed from the certificate's Secret; asserts that their other data is
    unchanged."""
    wait(lambda: "ca.key" not in secret(cluster, ns)["data"], "the CA's key is removed from the certificate's Secret")
    own = secret(cluster, ns, CA_SECRET)["data"]
    assert own == {k: before[k] for k in ("ca.key", "ca.crt")}
    assert secret(cluster, ns)["data"] == {k: v for k, v in before.items() if k != "ca.key"}


def test_ca_key_of_an_earlier_version_is_moved_to_its_own_secret(cluster, replica, ns):
    """The leader moves the key to the new Secret; meanwhile all reviews are served."""
    c = registered(cluster, start(replica()).leads())
    ca = trusted(cluster)
    was = served(c, ca)
    assert c.stop() == 0
    before = as_before(cluster, ns)
    c = start(replica("d", c.webhook_port)).leads()
    load = Load(cluster)
    try:
        moved(cluster, ns, before)
        wait(lambda: load.done > 50, "50 requests have succeeded")
        # The key is also moved when an earlier version writes it back while this version runs.
        moved(cluster, ns, as_before(cluster, ns))
        done = load.done
        wait(lambda: load.done > done + 50, "50 more requests have succeeded")
    finally:
        load.stop()
    assert not load.wrong, load.wrong[:3]
    assert trusted(cluster) == ca and served(c, ca) == was
    assert not c.logged("failed to store the webhooks' certificate")


def test_ca_stays_registered_when_the_secret_changes_in_other_fields(cluster, replica, ns):
    """Annotations of the certificate's Secret change; a webhook configuration that is deleted meanwhile is created with the same CA."""
    c = registered(cluster, start(replica()).leads())
    path, ca = f"/api/v1/namespaces/{ns}/secrets/{SECRET}", hooks(cluster)[0]["clientConfig"]["caBundle"]
    for kind in (MUTATING, VALIDATING):
        for i in range(10):
            cluster.ok("PATCH", path, {"metadata": {"annotations": {"example.com/change": str(i) * 50}}}, **MERGE)
        cluster.request("DELETE", f"{kind}/{NAME}")
        wait(lambda: hooks(cluster, kind), f"the webhooks of {kind} are registered")
        assert {h["clientConfig"].get("caBundle") for h in hooks(cluster, kind)} == {ca}, kind
    assert c.metrics()["unirail_controller_certificate_error"] == 0


def test_migration_of_the_ca_key_continues_after_a_crash(cluster, replica, ns, closing, tmp_path):
    """After a crash between the two writes of the migration the key is in both Secrets; the next process removes it from the certificate's
    Secret."""
    c = registered(cluster, start(replica()).leads())
    assert c.stop() == 0
    before = as_before(cluster, ns)
    refuse = [True]
    server = closing(faulty.Faulty(cluster, lambda method, path: faulty.refused(500) if refuse[0] and method == "PATCH" and
                                   f"/secrets/{SECRET}" in path else None))
    cluster.through(server, tmp_path / "conf")
    d = replica("d", c.webhook_port)
    d.kubeconfig = tmp_path / "conf"
    start(d).leads()
    d.wait_logged("failed to store the webhooks' certificate")
    d.process.kill()
    d.process.wait()
    assert secret(cluster, ns, CA_SECRET)["data"]["ca.key"] == secret(cluster, ns)["data"]["ca.key"] == before["ca.key"]
    refuse[0] = False
    e = start(replica("e", c.webhook_port)).leads(60)
    moved(cluster, ns, before)
    assert written(e, CA_SECRET) == [] and len(written(e)) == 1


def test_ca_secret_is_read_only_to_sign(cluster, replica, ns, closing, tmp_path):
    """While the certificate is not due for renewal, a controller does not read the Secret of the CA; no controller watches this Secret."""
    requests = []
    server = closing(faulty.Faulty(cluster, lambda method, path: requests.append((method, path))))
    cluster.through(server, tmp_path / "conf")

    def of_ca():
        return [r for r in requests if CA_SECRET in r[1]]
    c = replica()
    c.kubeconfig = tmp_path / "conf"
    registered(cluster, start(c).leads())
    assert len(written(c, CA_SECRET)) == 1
    path = f"/api/v1/namespaces/{ns}/secrets/{CA_SECRET}"
    assert of_ca() == [("GET", path)] * 2  # the first request finds no Secret, the second reads the key to sign
    assert c.stop() == 0
    requests.clear()
    d = replica("d", c.webhook_port)
    d.kubeconfig = tmp_path / "conf"
    registered(cluster, start(d).leads())
    wait(lambda: d.metrics()["unirail_controller_leader"] == 1, "the second controller leads")
    assert requests and not of_ca()


def test_ca_secret_that_is_not_the_controllers_is_not_written(cluster, replica, ns):
    """The controller reports an error that names the Secret; once the Secret has the controller's label app.kubernetes.io/managed-by,
    the controller adds the CA to it."""
    path = f"/api/v1/namespaces/{ns}/secrets"
    cluster.ok("POST", path, {"metadata": {"name": CA_SECRET}, "data": {"other": "eA=="}})
    c = start(replica(), ready=False)
    c.wait_logged("failed to store the webhooks' certificate")
    assert f"Secret '{ns}/{CA_SECRET}' is named as Secret of the webhooks' CA but not managed by the controller" in str(
        c.logged("failed to store the webhooks' certificate"))
    cluster.ok("PATCH", f"{path}/{CA_SECRET}", {"metadata": {"labels": {"app.kubernetes.io/managed-by": NAME}}}, **MERGE)
    c.ready(60)
    assert sorted(secret(cluster, ns, CA_SECRET)["data"]) == ["ca.crt", "ca.key", "other"]


def test_certificates_are_read_from_files(cluster, replica, tmp_path):
    cert, key = cluster.pki.leaf("hook", "IP:127.0.0.1")
    c = replica()
    start(c, "--webhook-cert", cert, "--webhook-key", key, "--webhook-ca", cluster.pki.ca).leads()
    registered(cluster, c)
    was = served(c, cluster.pki.ca.read_text())
    key.unlink()
    c.wait_logged("webhook certificate rejected, keeping the current one", 20)
    assert served(c, cluster.pki.ca.read_text()) == was
    cluster.pki.leaf("hook", "IP:127.0.0.1")
    wait(lambda: served(c, cluster.pki.ca.read_text()) != was, "the controller serves another certificate", 20)


def client_context(cluster, version, certificate=None):
    c = ssl.create_default_context(cafile=cluster.pki.ca)
    c.check_hostname = False
    c.minimum_version = c.maximum_version = version
    if certificate:
        c.load_cert_chain(*certificate)
    return c


def resume(c, context, session=None):
    """Opens one connection to the webhook port; returns (whether the session was resumed, the session for the next connection)."""
    with socket.create_connection(("127.0.0.1", c.webhook_port), timeout=10) as raw, \
            context.wrap_socket(raw, session=session) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 4")  # with TLS 1.3 the server sends the ticket before this answer
        return s.session_reused, s.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_session_is_resumed_until_the_certificate_is_rotated(cluster, replica, version):
    cert, key = cluster.pki.leaf("hook", "IP:127.0.0.1")
    c = start(replica(), "--webhook-cert", cert, "--webhook-key", key, "--webhook-ca", cluster.pki.ca)
    context = client_context(cluster, version)
    reused, session = resume(c, context)
    assert not reused
    for _ in range(3):
        reused, session = resume(c, context, session)
        assert reused
    was = served(c, cluster.pki.ca.read_text())
    cluster.pki.leaf("hook", "IP:127.0.0.1")  # the new certificate is in the same files
    wait(lambda: served(c, cluster.pki.ca.read_text()) != was, "the controller serves another certificate", 20)
    assert not resume(c, context, session)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_session_with_a_verified_client_certificate_is_resumed(cluster, replica, version):
    cert, key = cluster.pki.leaf("hook", "IP:127.0.0.1")
    c = replica()
    c.start("--webhook-url", c.url, "--webhook-cert", cert, "--webhook-key", key, "--webhook-ca", cluster.pki.ca,
            "--webhook-client-ca", cluster.pki.ca, ready=False)
    certificate = cluster.pki.leaf("api", "", "clientAuth")
    context = client_context(cluster, version, certificate)

    def first():
        with contextlib.suppress(ConnectionRefusedError):
            return resume(c, context)
    reused, session = wait(first, "the controller accepts connections")
    assert not reused
    reused, after = resume(c, context, session)
    assert reused
    if version == ssl.TLSVersion.TLSv1_3:
        # The server issues no new ticket on a connection that was resumed without verifying the client certificate, so the next connection
        # verifies the certificate again.
        assert not resume(c, context, after)[0]
    with pytest.raises(OSError):
        resume(c, client_context(cluster, version))


class Load:
    """Creates pools with dryRun in several threads, one after another in each; `wrong` has the errors and unexpected answers."""

    def __init__(self, cluster, threads=3):
        self.cluster, self.wrong, self.done, self.stopped = cluster, [], 0, False
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(threads)]
        for t in self.threads:
            t.start()

    def run(self, i):
        while not self.stopped:
            try:
                status, answer = create(self.cluster, pool(f"load-{i}", f"10.2{i}.0.0/24"), "?dryRun=All")
                if status != 201 or answer["spec"].get("ipVersion") != 4:
                    self.wrong.append(answer)
            except OSError as e:
                self.wrong.append(str(e))
            self.done += 1
            time.sleep(0.02)

    def stop(self):
        self.stopped = True
        for t in self.threads:
            t.join()


def test_certificate_is_renewed_under_load(cluster, replica, ns, closing):
    """The certificate and its CA are renewed many times: no review is refused, and a client with the registered CA bundle trusts every
    served certificate."""
    c = registered(cluster, start(replica(), "--cert-life", "15s", "--ca-life", "40s", "--ca-publish", "2s").leads())
    load = Load(cluster)
    leaves, cas, both, began = set(), set(), 0, time.monotonic()
    try:
        while time.monotonic() - began < 70 and (len(leaves) < 5 or len(cas) < 3):
            ca = trusted(cluster)
            leaves.add(served(c, ca))
            cas |= {p for p in ca.split("-----END CERTIFICATE-----") if "BEGIN" in p}
            both += ca.count("BEGIN") > 1
            time.sleep(0.1)
    finally:
        load.stop()
    assert not load.wrong, load.wrong[:3]
    assert len(leaves) >= 5 and len(cas) >= 3 and both > 10, (len(leaves), len(cas), both)
    assert load.done > 200
    print(f"{load.done} creates, {len(leaves)} certificates, {len(cas)} CAs, none refused")


class Front(clusters.Proxy):
    """A proxy that forwards each connection to the next of several replicas, in turn."""

    def __init__(self, *targets):
        self.targets = list(targets)
        super().__init__(None)

    @property
    def to(self):
        self.targets.append(self.targets.pop(0))
        return self.targets[0]

    @to.setter
    def to(self, value):
        pass


def test_two_replicas_share_one_certificate(cluster, replica, ns, closing):
    """Both replicas serve the same certificate, and the webhooks are registered once; when the leader ends, no request of a client
    fails."""
    a, b = replica("a"), replica("b")
    front = closing(Front(a.webhook_port, b.webhook_port))
    a.url = b.url = f"https://127.0.0.1:{front.port}"
    for c in (a, b):  # at once
        c.start("--webhook-url", c.url, "--webhook-linger", "2s", ready=False)
    a.ready()
    b.ready()
    wait(lambda: a.metrics()["unirail_controller_leader"] + b.metrics()["unirail_controller_leader"] == 1,
         "one of the two replicas leads")
    registered(cluster, a)
    ca = trusted(cluster)
    assert served(a, ca) == served(b, ca)
    assert len(written(a)) + len(written(b)) == 1
    assert len(written(a, CA_SECRET)) + len(written(b, CA_SECRET)) == 1
    load = Load(cluster, 10)  # with fewer threads, all requests may use connections to one replica
    path = 'unirail_controller_reviews_allowed_total{path="/mutate-spiderpool-spidernet-io-v2beta1-spiderippool"}'
    try:
        def both():
            assert a.metrics()[path] > 20 and b.metrics()[path] > 20, (a.metrics()[path], b.metrics()[path], load.done, load.wrong)
            return True
        wait(both, "both replicas serve reviews")
        leader, other = (a, b) if a.metrics()["unirail_controller_leader"] else (b, a)
        leader.process.send_signal(clusters.signal.SIGTERM)
        front.targets = [other.webhook_port]  # a Service removes the address of a pod that ends
        assert leader.process.wait(20) == 0
        other.leads()
        done = load.done
        wait(lambda: load.done > done + 50, "50 more requests have succeeded")
    finally:
        load.stop()
    assert not load.wrong, load.wrong[:3]
    assert len(hooks(cluster)) == 5
