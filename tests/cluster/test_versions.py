# SPDX-License-Identifier: Apache-2.0
"""An upgrade of a cluster from each version of tests/delivery/versions: the files of its agents, and the objects that its agents and
controller wrote to the API server. UNIRAIL_RECORD=tests/delivery/versions/VERSION records the present version instead."""
import json
import os
import pathlib
import shutil
import time

import pytest

import cluster as clusters
from agents import SPIDER, Agent, Nodes, addresses, install_crds
from audit import DEPLOY
from cluster import free_port, wait
from controllers import Controller

VERSIONS = pathlib.Path(__file__).resolve().parents[1] / "delivery/versions"
OLD = sorted(p for p in VERSIONS.iterdir() if p.is_dir() and p.name[0].isdigit())
NADS = "k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions"
# {path at which the API server lists a kind: prefix below /registry of the keys of its objects in etcd}
KINDS = {"/api/v1/namespaces": "namespaces", "/api/v1/nodes": "minions", "/api/v1/namespaces/t/pods": "pods",
         "/api/v1/namespaces/unirail/secrets": "secrets", "/api/v1/namespaces/unirail/configmaps": "configmaps",
         "/apis/apps/v1/namespaces/t/deployments": "deployments", "/apis/apps/v1/namespaces/t/statefulsets": "statefulsets",
         "/apis/unirail.io/v1/spideripblocks": "unirail.io/spideripblocks",
         f"/apis/{NADS}": "k8s.cni.cncf.io/network-attachment-definitions",
         **{f"{SPIDER}/{kind}": f"spiderpool.spidernet.io/{kind}" for kind in
            ("spiderippools", "spidersubnets", "spiderendpoints", "spidermultusconfigs")}}
BUT = ("default", "kube-public", "kube-system", "kube-node-lease")
POOLS = ("rail1", "narrow")  # pool narrow has one block: the second node has to borrow
SETTINGS = "--block-idle", "60s", "--reuse-delay", "0s"


def objects(cluster):
    """{key of etcd: object} of the kinds in KINDS, without the namespaces of BUT and without tokens of ServiceAccounts."""
    found = {}
    for path, key in KINDS.items():
        listed = cluster.ok("GET", path)
        for o in listed["items"]:
            meta = o["metadata"]
            meta.pop("managedFields", None)
            if meta["name"] in BUT or "service-account-token" in o.get("type", ""):
                continue
            o["apiVersion"], o["kind"] = listed["apiVersion"], listed["kind"].removesuffix("List")
            found["/".join(filter(None, ("/registry", key, meta.get("namespace"), meta["name"])))] = o
    return found


def controller(cluster, closing, folder):
    c = closing(Controller(folder, cluster.admin_config(), "unirail"))
    c.webhook_port = free_port()
    return c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()


def record(cluster, closing, tmp_path, out):
    """Records pods on two nodes, with a borrowed and a retained address, a pool of a subnet, a network, the webhooks' certificate."""
    nodes = Nodes(cluster)
    cluster.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml", "-f", DEPLOY / "controller.yaml")
    install_crds(cluster)
    for name in ("n1", "n2"):
        nodes.node(name)
    cluster.namespace("t")
    c = controller(cluster, closing, tmp_path / "c")
    wait(lambda: cluster.ok("GET", "/api/v1/namespaces/unirail/secrets/unirail-controller-certs").get("data"),
         "the webhooks' Secret has data")
    wait(lambda: nodes.pool("rail1", "172.16.1.0/24"), "pool rail1 is created", 60)
    nodes.pool("narrow", "172.16.9.0/28", ["172.16.9.2-172.16.9.7"])
    cluster.ok("POST", f"{SPIDER}/spidersubnets", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "metadata": {"name": "s"},
        "spec": {"subnet": "10.6.0.0/24", "ips": ["10.6.0.2-10.6.0.9"]}})
    cluster.ok("POST", f"{SPIDER}/namespaces/t/spidermultusconfigs", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "m"},
        "spec": {"cniType": "macvlan", "macvlan": {"master": ["e"], "ippools": {"ipv4": ["rail1"]}}}})
    for kind, name, more, annotations in (("deployments", "x", {}, {"ipam.spidernet.io/subnet": '{"ipv4":["s"]}'}),
                                    ("statefulsets", "web", {"serviceName": "web"}, {})):
        cluster.ok("POST", f"/apis/apps/v1/namespaces/t/{kind}", {"metadata": {"name": name}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"a": name}}, "template": {
                "metadata": {"labels": {"a": name}, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}, **more}})
    agents = {n: closing(Agent(tmp_path / n, cluster.admin_config(), n)).start(*SETTINGS) for n in ("n1", "n2")}
    had = {}
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        status, answer = agents[node].plan(nodes.pod("t", node, name), *POOLS)
        assert status == 200, answer
        had[name] = addresses(answer)
    web = nodes.pod("t", "n1", "web-0", {"kind": "StatefulSet", "name": "web"})
    status, answer = agents["n1"].plan(web, *POOLS)
    assert status == 200, answer
    had["web-0"] = addresses(answer)
    for name in had:
        wait(lambda: nodes.endpoint("t", name), "the pod's SpiderEndpoint is created")
    assert agents["n1"].release(web) == 2
    nodes.remove_pod(web)
    wait(lambda: cluster.request("GET", f"/apis/{NADS}/m")[0] == 200, "NetworkAttachmentDefinition m is created")
    wait(lambda: any(p["spec"]["ips"] for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]
                     if p["metadata"]["name"] not in POOLS), "the automatic pool has addresses")
    wait(lambda: cluster.ok("GET", f"{SPIDER}/spiderippools/narrow").get("status", {}).get("allocatedIPCount") == 4,
         "the status of pool narrow has four addresses")
    for one in (c, *agents.values()):
        assert one.stop() == 0
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    for name, agent in agents.items():
        shutil.copytree(agent.state, out / name)
    (out / "objects.json").write_text(json.dumps(objects(cluster), indent=1, sort_keys=True) + "\n")
    (out / "pods.json").write_text(json.dumps(had, indent=1) + "\n")


def restored(cluster, before):
    """Writes the recorded objects with their UIDs to an etcd with later revisions, so that agents do not detect a restored backup."""
    install_crds(cluster)
    cluster.stop_apiserver()
    newest = max(int(o["metadata"]["resourceVersion"]) for o in before.values())
    key = clusters.base64.b64encode(b"x").decode()
    while int(cluster.etcd_call("kv/put", key=key, value=key)["header"]["revision"]) < newest:
        pass
    for name, o in before.items():
        o = json.loads(json.dumps(o))
        del o["metadata"]["resourceVersion"]
        cluster.etcd_call("kv/put", key=clusters.base64.b64encode(name.encode()).decode(),
                          value=clusters.base64.b64encode(json.dumps(o).encode()).decode())
    cluster.start_apiserver()


def specs(found, *kinds):
    return {k: o.get("spec", o.get("data")) for k, o in found.items() if any(f"/{kind}/" in k for kind in kinds)}


@pytest.fixture
def cluster(closing):
    return closing(clusters.Cluster())


@pytest.mark.parametrize("old", OLD, ids=[p.name for p in OLD])
def test_cluster_of_an_earlier_version_is_upgraded(old, cluster, closing, tmp_path):
    """Pods keep their addresses, also borrowed and retained ones; nodes keep their blocks; the controller keeps its CA."""
    if os.environ.get("UNIRAIL_RECORD"):
        record(cluster, closing, tmp_path, pathlib.Path(os.environ["UNIRAIL_RECORD"]).resolve() / "cluster")
        return
    before, had = (json.loads((old / f"cluster/{f}.json").read_text()) for f in ("objects", "pods"))
    restored(cluster, before)
    nodes = Nodes(cluster)
    agents = {}
    for name in ("n1", "n2"):
        agents[name] = closing(Agent(tmp_path / name, cluster.admin_config(), name))
        shutil.copytree(old / "cluster" / name, agents[name].state)
        agents[name].start(*SETTINGS)
    c = controller(cluster, closing, tmp_path / "c")
    for name, ips in had.items():
        if name == "web-0":
            continue
        pod = cluster.ok("GET", f"/api/v1/namespaces/t/pods/{name}")
        status, answer = agents[pod["spec"]["nodeName"]].plan(pod, *POOLS)
        assert status == 200 and addresses(answer) == ips, (name, answer, ips)
    web = nodes.pod("t", "n1", "web-0", {"kind": "StatefulSet", "name": "web"})
    status, answer = agents["n1"].plan(web, *POOLS)
    assert status == 200 and addresses(answer) == had["web-0"], (answer, had["web-0"])
    new = nodes.pod("t", "n2", "new")
    status, answer = agents["n2"].plan(new, *POOLS)
    assert status == 200 and not {ip for ips in had.values() for ip in ips.values()} & set(addresses(answer).values()), answer
    # The controller counts the addresses that both nodes report.
    wait(lambda: cluster.ok("GET", f"{SPIDER}/spiderippools/narrow")["status"]["allocatedIPCount"] == 5,
         "the status of pool narrow has five addresses", 60)
    wait(lambda: cluster.ok("GET", f"{SPIDER}/spiderippools/rail1")["status"]["allocatedIPCount"] == 5,
         "the status of pool rail1 has five addresses", 60)
    time.sleep(1)  # time in which the controller would change objects
    after = objects(cluster)
    for found in (before, after):  # the webhooks' certificate may be renewed; its CA, in another Secret, stays
        found["/registry/secrets/unirail/unirail-controller-certs"]["data"] = {}
    kinds = "spiderippools", "spidersubnets", "spidermultusconfigs", "network-attachment-definitions", "secrets"
    assert specs(after, *kinds) == specs(before, *kinds)
    owners = {k: o["spec"]["node"] for k, o in before.items() if "/spideripblocks/" in k}
    assert owners and owners.items() <= {k: o["spec"]["node"] for k, o in after.items() if "/spideripblocks/" in k}.items()
    for pod in ("a", "b", "new"):
        o = cluster.ok("GET", f"/api/v1/namespaces/t/pods/{pod}")
        assert agents[o["spec"]["nodeName"]].release(o) == 2
    for one in (c, *agents.values()):
        assert one.stop() == 0
    assert not [line for one in agents.values() for line in one.lines() if line["level"] in ("error", "fatal")]
