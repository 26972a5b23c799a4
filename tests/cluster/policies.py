# SPDX-License-Identifier: Apache-2.0
"""Pod-bound tokens, and deploy/policies. With UNIRAIL_POLICIES=1 (make test-cluster KUBE=1.34 POLICIES=1) the agents of the fixtures use
such tokens, under the roles of deploy/ and these policies, and are not admin. This shows that the policies allow the agents' normal
work."""
import os

from agents import BLOCKS, SPIDER
from audit import DEPLOY
from cluster import wait

POLICIES = bool(os.environ.get("UNIRAIL_POLICIES"))
PODS = "/api/v1/namespaces/unirail/pods"


def bound_token(cluster, account, node):
    """The token of a pod with this account on the node."""
    name = f"{account}-{node}"
    status, pod = cluster.request("POST", PODS, {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "hostNetwork": True, "serviceAccountName": account, "automountServiceAccountToken": False,
                 "containers": [{"name": "c", "image": "i"}]}})
    if status == 409:
        pod = cluster.ok("GET", f"{PODS}/{name}")
    return cluster.ok("POST", f"/api/v1/namespaces/unirail/serviceaccounts/{account}/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": {
            "kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}}})["status"]["token"]


def agent_config(cluster, folder, node):
    """A kubeconfig of the agent on the node."""
    (folder / f"{node}.token").write_text(bound_token(cluster, "unirail-agent", node))
    return cluster.kubeconfig(folder / f"{node}.conf", {"tokenFile": folder / f"{node}.token"})


def install(cluster):
    """Installs the agent's account, role and policies. This works before the CRDs exist."""
    cluster.kubectl("apply", "-f", DEPLOY / "agent.yaml", "-f", DEPLOY / "policies" / "agent.yaml")


def enforce(cluster):
    """Installs the agent's account, role and policies, and waits until the API server enforces the policies. The CRDs must exist."""
    install(cluster)
    token = cluster.token("unirail", "unirail-agent")
    pool = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "probe"},
            "spec": {"subnet": "10.6.0.0/24"}}
    block = {"apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock", "metadata": {"name": "probe-0"},
             "spec": {"pool": "probe", "cidr": "10.6.0.0/28", "node": "n1", "claim": "l/1", "released": {}, "requested": {}}}
    wait(lambda: all("ValidatingAdmissionPolicy" in cluster.request("POST", f"{path}?dryRun=All", body, token=token)[1].get("message", "")
                     for path, body in ((BLOCKS, block), (f"{SPIDER}/spiderippools", pool))),
         "the policies refuse the writes of another node's agent")
