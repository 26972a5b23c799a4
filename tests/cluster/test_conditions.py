# SPDX-License-Identifier: Apache-2.0
"""With matchConditions, the API server sends to the webhook only the pods that request networks; other pods never wait for the webhook."""
import pytest

from agents import MERGE
from cluster import wait
from test_webhooks import INJECT, MUTATING, NETWORKS, cluster, config, create, hooks, ns, pod, registered, replica, start  # noqa: F401

pytestmark = pytest.mark.kube("1.34")
REVIEWS = 'unirail_controller_reviews_{}_total{{path="/mutate--v1-pod"}}'


def sent(c):
    """Number of pods that the webhook reviewed."""
    have = c.metrics()
    return sum(have.get(REVIEWS.format(what), 0) for what in ("allowed", "refused"))


def condition(cluster):
    found = [h for h in hooks(cluster, MUTATING) if h["name"].startswith("pods.")]
    return found[0]["matchConditions"][0]["expression"] if found else ""


@pytest.fixture
def work(cluster, ns):
    """A namespace created before the controller starts: the controller adds a new namespace to the match condition with a delay of up to
    a minute."""
    return cluster.namespace(f"{ns}-work")


def wait_unregistered(cluster, c, name):
    """Waits until the match condition excludes the namespace's pods: it contains the name of the namespace, and the API server does not
    send a new pod of the namespace to the webhook."""
    wait(lambda: f"'{name}'" in condition(cluster), f"the match condition of the webhook contains namespace {name}")

    def unasked():
        before = sent(c)
        assert pod(cluster, name)[0] == 201
        return sent(c) == before
    wait(unasked, f"pods of namespace {name} are not sent to the webhook")


def test_only_requesting_pods_are_sent_to_the_webhook(cluster, work, replica):
    c = registered(cluster, start(replica()).leads())
    for rail in ("eth2", "eth10"):
        assert create(cluster, config(rail, work, "rails"))[0] == 201
    wait_unregistered(cluster, c, work)
    before = sent(c)
    for _ in range(20):
        assert pod(cluster, work, **{"other": "rails"})[0] == 201
    assert sent(c) == before
    for i in range(3):
        status, answer = pod(cluster, work, **{INJECT: "rails"})
        assert status == 201 and NETWORKS in answer["metadata"]["annotations"]
        assert sent(c) == before + i + 1
    assert not c.logged("does not support matchConditions")


def test_pods_of_a_requesting_namespace_are_sent_to_the_webhook(cluster, work, replica):
    """Once the namespace's annotation requests injection, the API server sends all pods of the namespace to the webhook."""
    c = registered(cluster, start(replica()).leads())
    assert create(cluster, config("eth1", work, "rails"))[0] == 201
    wait_unregistered(cluster, c, work)
    cluster.ok("PATCH", f"/api/v1/namespaces/{work}", {"metadata": {"annotations": {INJECT: "rails"}}}, type=MERGE)
    wait(lambda: NETWORKS in pod(cluster, work)[1]["metadata"].get("annotations", {}), "the pod gets its networks from the webhook")
    before = sent(c)
    for _ in range(3):
        assert NETWORKS in pod(cluster, work)[1]["metadata"]["annotations"]
    assert sent(c) == before + 3


def test_pods_of_a_new_namespace_are_sent_to_the_webhook(cluster, replica, ns):
    """The API server also sends pods of a namespace that the controller does not know yet: the first pod may be created right after the
    namespace."""
    registered(cluster, start(replica()).leads())
    work = f"{ns}-new"
    cluster.ok("POST", "/api/v1/namespaces", {"metadata": {"name": work, "annotations": {INJECT: "none-such"}}})
    status, answer = pod(cluster, work)
    assert status == 403 and "none-such" in answer["message"], answer


def test_without_a_controller_only_pods_that_request_networks_are_refused(cluster, work, replica):
    """The webhook has failurePolicy Fail."""
    c = registered(cluster, start(replica(), "--pod-failure-policy", "Fail").leads())
    wait_unregistered(cluster, c, work)
    c.kill()
    assert pod(cluster, work)[0] == 201
    status, answer = pod(cluster, work, **{INJECT: "rails"})
    assert status == 500 and "failed calling webhook" in answer["message"], answer
