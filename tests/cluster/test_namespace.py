# SPDX-License-Identifier: Apache-2.0
"""deploy/ installed in the namespace `spiderpool` with the command of deploy/README.md: agent and controller work there, with their
permissions."""
import json
import os
import subprocess

import pytest
from test_first_cluster import TOP, commands

import cluster as clusters
from agents import SPIDER, Agent, Nodes
from cluster import free_port, wait
from controllers import Controller

NS = "spiderpool"
NAMESPACED = ("serviceaccounts", "configmaps", "daemonsets", "deployments", "services", "roles", "rolebindings")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    one = clusters.Cluster()
    one.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    one.kubectl("apply", "-f", TOP / "deploy/crds", "-f", TOP / "deploy/crd.yaml")
    loop, = commands("deploy/README.md", "Another namespace")
    env = {**os.environ, "KUBECONFIG": str(one.admin_config()), "PATH": f"{one.bin}:{os.environ['PATH']}"}
    r = subprocess.run(loop, shell=True, cwd=TOP, env=env, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and "error" not in r.stderr, (r.stdout, r.stderr)
    yield one
    one.close()


def account(cluster, name, folder):
    token = folder / f"{name}.token"
    token.write_text(cluster.token(NS, f"unirail-{name}"))
    return cluster.kubeconfig(folder / name, {"tokenFile": token})


def test_all_objects_are_in_the_namespace(installed):
    assert installed.request("GET", "/api/v1/namespaces/unirail")[0] == 404
    found = json.loads(installed.kubectl("get", ",".join(NAMESPACED), "-A", "-o", "json"))["items"]
    candidate = [o for o in found if o["metadata"]["name"].startswith("unirail")]
    assert {o["metadata"]["namespace"] for o in candidate if o["kind"] not in ("Role", "RoleBinding")} == {NS}
    assert {o["kind"] for o in candidate} == {"ServiceAccount", "ConfigMap", "DaemonSet", "Deployment", "Service", "Role", "RoleBinding"}
    bound = json.loads(installed.kubectl("get", "rolebindings,clusterrolebindings", "-A", "-o", "json"))["items"]
    subjects = [s for o in bound if o["metadata"]["name"].startswith("unirail") for s in o["subjects"]]
    assert len(subjects) == 6 and {s["namespace"] for s in subjects} == {NS}


def test_controller_works_in_another_namespace(installed, closing, tmp_path):
    """The controller's Lease, Secret and ConfigMap unirail-claims are in the controller's namespace; the namespaceSelector of the pod
    webhook names this namespace."""
    c = closing(Controller(tmp_path / "c", account(installed, "controller", tmp_path), NS))
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()
    for path in (f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases/unirail-controller",
                 f"/api/v1/namespaces/{NS}/secrets/unirail-controller-certs"):
        wait(lambda: installed.request("GET", path)[0] == 200, f"{path} is created")
    o = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "w"},
         "spec": {"subnet": "172.20.0.0/24", "ips": ["172.20.0.9"]}}
    hook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/unirail-controller"
    wait(lambda: installed.ok("GET", hook).get("webhooks"), "the webhooks are registered")
    bad = {**o, "spec": {"subnet": "172.20.0.0/24", "ips": ["172.21.0.9"]}}
    wait(lambda: installed.request("POST", f"{SPIDER}/spiderippools?dryRun=All", bad)[0] == 422, "an invalid pool is refused")
    installed.ok("POST", f"{SPIDER}/spiderippools", o)
    assert installed.request("GET", f"/api/v1/namespaces/{NS}/configmaps/unirail-claims")[0] == 200
    pods = [h for h in installed.ok("GET", hook)["webhooks"] if h["name"].startswith("pods.")][0]
    assert NS in pods["namespaceSelector"]["matchExpressions"][0]["values"]
    assert c.stop() == 0


def test_webhooks_name_the_service_of_another_namespace(installed, closing, tmp_path):
    c = closing(Controller(tmp_path / "c", account(installed, "controller", tmp_path), NS))
    c.webhook_port = free_port()
    c.start("--webhook-linger", "0s").leads()
    paths = [f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unirail-controller" for kind in ("mutating", "validating")]
    for path in paths:
        wait(lambda: {h["clientConfig"].get("service", {}).get("namespace") for h in installed.ok("GET", path).get("webhooks", [])} == {NS},
             f"the webhooks name the Service of namespace {NS}")
    assert c.stop() == 0
    for path in paths:
        installed.ok("DELETE", path)


def test_agent_works_in_another_namespace(installed, closing, tmp_path):
    """An agent with its account in the namespace `spiderpool` allocates an address to a pod."""
    nodes = Nodes(installed)
    nodes.node("n1")
    installed.namespace("t")
    wait(lambda: nodes.pool("rail1", "172.16.1.0/24"), "pool rail1 is created")
    agent = closing(Agent(tmp_path / "a", account(installed, "agent", tmp_path), "n1"))
    agent.start("--namespace", NS)
    status, answer = agent.plan(nodes.pod("t", "n1"), "rail1")
    assert status == 200, answer
    assert agent.stop() == 0
