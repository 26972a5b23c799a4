# SPDX-License-Identifier: Apache-2.0
"""A thief with the controller's or an agent's token cannot create Secrets, ConfigMaps, Leases, Pods, ServiceAccounts, their tokens, Roles or
RoleBindings in the controller's namespace.

In an earlier version the controller's token could create any Secret, ConfigMap and Lease there, since RBAC cannot limit a create to a
name. A Secret of type kubernetes.io/service-account-token becomes a token that never expires, of any account of the namespace.
"""
import pytest
from audit import DEPLOY

import cluster as clusters


@pytest.fixture(scope="module")
def deployed():
    one = clusters.Cluster()
    one.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    one.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml")
    one.kubectl("apply", "-f", DEPLOY)
    yield one
    one.close()


CORE = "/api/v1/namespaces/unirail"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/unirail"
CREATES = {
    "a Secret with a token of a ServiceAccount": (f"{CORE}/secrets", {"metadata": {"name": "x", "annotations": {
        "kubernetes.io/service-account.name": "unirail-agent"}}, "type": "kubernetes.io/service-account-token"}),
    "a Secret": (f"{CORE}/secrets", {"metadata": {"name": "unirail-controller-x"}}),
    "a ConfigMap": (f"{CORE}/configmaps", {"metadata": {"name": "x"}}),
    "a Lease": ("/apis/coordination.k8s.io/v1/namespaces/unirail/leases", {"metadata": {"name": "x"}}),
    "a TokenRequest": (f"{CORE}/serviceaccounts/unirail-agent/token", {"spec": {}}),
    "a Pod": (f"{CORE}/pods", {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    "a ServiceAccount": (f"{CORE}/serviceaccounts", {"metadata": {"name": "x"}}),
    "a Role": (f"{ROLES}/roles", {"metadata": {"name": "x"}, "rules": []}),
    "a RoleBinding": (f"{ROLES}/rolebindings", {"metadata": {"name": "x"}, "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "unirail-controller"}}),
}
# The status of a GET with the controller's token: 200 for the requests that the controller makes, 403 for other objects and lists of the
# namespace.
READS = {f"{CORE}/secrets": 403, f"{CORE}/secrets/unirail-agent-x": 403, f"{CORE}/configmaps/unirail-controller": 403,
         f"{CORE}/secrets?fieldSelector=metadata.name%3Dunirail-controller-certs": 200,
         # The controller reads the CA's Secret to sign certificates. It does not list Secrets to find it, so the list is refused.
         f"{CORE}/secrets/unirail-controller-ca": 200, f"{CORE}/secrets?fieldSelector=metadata.name%3Dunirail-controller-ca": 403,
         f"{CORE}/configmaps/unirail-claims": 200}


@pytest.mark.parametrize("account", ["unirail-controller", "unirail-agent"])
@pytest.mark.parametrize("what", CREATES)
def test_stolen_tokens_create_neither_secrets_nor_roles_nor_pods(deployed, account, what):
    path, body = CREATES[what]
    status, answer = deployed.request("POST", path, body, token=deployed.token("unirail", account))
    assert status == 403, answer


@pytest.mark.parametrize("path", READS)
def test_controller_token_reads_only_the_controllers_own_objects(deployed, path):
    assert deployed.request("GET", path, token=deployed.token("unirail", "unirail-controller"))[0] == READS[path]


@pytest.mark.parametrize("body", [{"metadata": {"annotations": {"kubernetes.io/service-account.name": "unirail-agent"}}},
                                  {"type": "kubernetes.io/service-account-token"}])
def test_secret_of_the_controller_cannot_become_a_token(deployed, body):
    """An annotation does not make the Secret a token, since its type is immutable; and a Secret of the token type cannot be created."""
    path = f"{CORE}/secrets/unirail-controller-token"
    deployed.request("PATCH", path, body, token=deployed.token("unirail", "unirail-controller"), type="application/merge-patch+json")
    secret = deployed.ok("GET", path)
    assert secret["type"] == "Opaque" and "token" not in secret.get("data", {})
