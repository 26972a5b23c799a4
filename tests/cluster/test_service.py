# SPDX-License-Identifier: Apache-2.0
"""The unchanged objects of deploy/: the API server calls the webhooks as in a cluster, by their Service, whose name must be in the
certificate."""
import pytest

import cluster as clusters
from agents import CRD_PATH, SPIDER
from audit import DEPLOY
from cluster import wait
from controllers import Controller
from ownnet import OwnNet
from test_webhooks import create, drop, hooks, pool

NS, NAME = "unirail", "unirail-controller"
SERVICE = f"/api/v1/namespaces/{NS}/services/{NAME}"


@pytest.fixture(scope="module")
def net():
    one = OwnNet()
    yield one
    one.close()


@pytest.fixture(scope="module")
def own(net):
    one = clusters.Cluster()
    one.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY)
    wait(lambda: len(one.ok("GET", CRD_PATH)["items"]) == 8 and one.request("GET", f"{SPIDER}/spiderippools")[0] == 200,
         "the API server has eight CRDs and serves pools")
    net.address(one.ok("GET", SERVICE)["spec"]["clusterIP"])
    yield one
    one.close()


@pytest.fixture
def controller(own, closing, tmp_path):
    """Starts a controller like the Deployment's pod: with its account, its namespace, and the port of the Service."""
    def make(*more):
        token = tmp_path / "token"
        token.write_text(own.token(NS, NAME))
        c = Controller(tmp_path / "c", own.kubeconfig(tmp_path / "conf", {"tokenFile": token}), NS)
        c.webhook_port = own.ok("GET", SERVICE)["spec"]["ports"][0]["port"]
        return closing(c).start("--listen", "0.0.0.0", "--webhook-linger", "0s", *more).leads()
    return make


def decides(own):
    """Waits until the API server admits valid objects and refuses invalid ones."""
    def refused():
        status, answer = create(own, pool("bad", "10.6.0.0/24", ips=["10.7.0.1"]))
        assert status == 422 and "10.7.0.1" in answer["message"], answer
        return True
    wait(refused, "the webhook refuses an invalid pool")
    status, answer = create(own, pool("good", "10.6.0.0/24"))
    assert status == 201 and answer["spec"]["ipVersion"] == 4, answer
    drop(own, "good")


def test_webhooks_are_called_at_the_address_of_the_service(own, controller):
    controller()
    wait(lambda: len(hooks(own)) == 5, "five webhooks are registered")
    for h in hooks(own):
        client = h["clientConfig"]
        assert "url" not in client and client["caBundle"]
        assert (client["service"]["namespace"], client["service"]["name"], client["service"]["port"]) == (NS, NAME, 5722)
    decides(own)


def test_certificate_with_another_name_is_refused(own, controller):
    """The API server verifies the name of the Service: it refuses a certificate without this name even if the right CA signed it."""
    cert, key = own.pki.leaf("elsewhere", "DNS:elsewhere.unirail.svc")
    c = controller("--webhook-cert", cert, "--webhook-key", key, "--webhook-ca", own.pki.ca)

    def name_is_refused():
        status, answer = create(own, pool("p", "10.6.0.0/24"))
        assert status == 500 and f"not {NAME}.{NS}.svc" in answer["message"], answer
        return True
    wait(name_is_refused, "the refusal names the certificate's missing name")
    c.stop()
    cert, key = own.pki.leaf("right", f"DNS:{NAME}.{NS}.svc")
    c.start("--listen", "0.0.0.0", "--webhook-cert", cert, "--webhook-key", key, "--webhook-ca", own.pki.ca).leads()
    decides(own)


def endpoints(own, ready, other):
    """Endpoints as the controller manager writes them: one address is ready, one is not."""
    if clusters.KUBE == "1.20":
        port = {"ports": [{"name": "webhooks", "port": 5722}]}
        own.ok("POST", f"/api/v1/namespaces/{NS}/endpoints", {"metadata": {"name": NAME}, "subsets": [
            {"addresses": [{"ip": ready}], **port}, {"notReadyAddresses": [{"ip": other}], **port}]})
        return
    own.ok("POST", f"/apis/discovery.k8s.io/v1/namespaces/{NS}/endpointslices", {
        "metadata": {"name": f"{NAME}-x", "labels": {"kubernetes.io/service-name": NAME}}, "addressType": "IPv4",
        "ports": [{"name": "webhooks", "port": 5722, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ready], "conditions": {"ready": True}},
                      {"addresses": [other], "conditions": {"ready": False}}]})


def test_webhooks_are_called_at_the_endpoints_of_the_service(own, net, controller):
    """An API server that connects to pods directly still verifies the name of the Service."""
    own.stop_apiserver()
    net.ip("addr", "del", f"{own_address(net)}/32", "dev", "lo")
    net.address("10.244.1.7")
    own.start_apiserver("--enable-aggregator-routing=true")
    endpoints(own, "10.244.1.7", "10.244.1.8")
    controller()
    decides(own)


def own_address(net):
    """The address of the Service, set on the loopback interface."""
    return [line.split()[3].split("/")[0] for line in net.ip("-o", "-4", "addr", "show", "dev", "lo").splitlines()
            if " 10.96." in line][0]
