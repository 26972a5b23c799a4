# SPDX-License-Identifier: Apache-2.0
"""The CRDs of deploy/ (crd.yaml and crds/) on a real API server, and the API behaviour on which unirail relies when it writes
SpiderIPBlocks."""
import http.client
import json
import ssl

import pytest

from agents import CRDS
from cluster import wait

BLOCKS = "/apis/unirail.io/v1/spideripblocks"
SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"


def yaml(cluster, path, text):
    """Creates an object as `kubectl create` does, but the server parses the YAML."""
    context = ssl.create_default_context(cafile=cluster.pki.ca)
    context.load_cert_chain(*cluster.admin)
    c = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=context, timeout=30)
    try:
        c.request("POST", path, text, {"Content-Type": "application/yaml", "Accept": "application/json"})
        r = c.getresponse()
        return r.status, json.loads(r.read())
    finally:
        c.close()


def install(cluster):
    """Installs all CRDs of deploy/ and waits until they are established; returns their names."""
    names = []
    for f in CRDS:
        status, answer = yaml(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f.read_text())
        assert status in (201, 409), (f.name, answer)
        if status == 409:
            answer = {"metadata": {"name": answer["details"]["name"]}}
        names.append(answer["metadata"]["name"])
    for name in names:
        def established():
            crd = cluster.ok("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            have = {x["type"]: x for x in (crd.get("status") or {}).get("conditions") or []}
            assert have.get("NonStructuralSchema") is None, have
            return have.get("Established", {}).get("status") == "True"
        wait(established, f"the definition {name} is established")
    wait(lambda: cluster.request("GET", BLOCKS)[0] == 200, "the API server serves SpiderIPBlocks")
    wait(lambda: cluster.request("GET", f"{SPIDER}/spiderippools")[0] == 200, "the API server serves SpiderIPPools")
    return names


@pytest.fixture(scope="module")
def kinds(cluster):
    return install(cluster)


def test_eight_definitions_are_installed(kinds):
    assert len(kinds) == 8


def test_pool_object_has_defaults_and_is_validated(cluster, kinds):
    pool = cluster.ok("POST", f"{SPIDER}/spiderippools", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "rail0"},
        "spec": {"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.2-10.0.0.99"], "gateway": "10.0.0.1",
                 "routes": [{"to": "10.1.0.0/16", "via": "10.0.0.1"}], "nodeName": ["n1"],
                 "podAffinity": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}})
    assert pool["spec"]["default"] is False and pool["spec"]["disable"] is False
    assert pool["spec"]["routes"] == [{"to": "10.1.0.0/16", "via": "10.0.0.1"}]
    assert pool["spec"]["podAffinity"]["matchExpressions"][0]["values"] == ["b"]
    status, answer = cluster.request("POST", f"{SPIDER}/spiderippools", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "bad"},
        "spec": {"ipVersion": 5, "subnet": "10.0.0.0/24"}})
    assert status == 422 and "spec.ipVersion" in answer["message"]
    text = '{"10.0.0.2":{"pod":"default/a","podUid":"u"}}'
    done = cluster.ok("PATCH", f"{SPIDER}/spiderippools/rail0/status",
                      {"status": {"allocatedIPs": text, "allocatedIPCount": 1, "totalIPCount": 98}}, type=MERGE)
    assert done["status"]["allocatedIPs"] == text


def test_fields_at_other_paths_are_not_pruned(cluster, kinds, ns):
    """The API server stores fields that users write at another path (ippools beside sriov instead of in it) or with an old name
    (enableRdma)."""
    made = cluster.ok("POST", f"{SPIDER}/namespaces/{ns}/spidermultusconfigs", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "a"},
        "spec": {"cniType": "sriov", "rdmaResourceName": "spidernet.io/x", "ippools": {"ipv4": ["p"]},
                 "sriov": {"resourceName": "spidernet.io/y", "enableRdma": True, "matchMasterSubnet": True}}})
    spec = made["spec"]
    assert spec["sriov"]["enableRdma"] and spec["sriov"]["matchMasterSubnet"] and spec["sriov"]["mtu"] == 0
    assert "rdmaIsolation" not in spec["sriov"]
    assert spec["rdmaResourceName"] == "spidernet.io/x" and spec["ippools"] == {"ipv4": ["p"]}
    assert spec["enableCoordinator"] is True
    ib = cluster.ok("POST", f"{SPIDER}/namespaces/{ns}/spidermultusconfigs", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "b"},
        "spec": {"cniType": "ib-sriov", "ibsriov": {"resourceName": "r", "pkey": 1000}}})
    assert ib["spec"]["ibsriov"] == {"resourceName": "r", "pkey": 1000, "linkState": "enable", "rdmaIsolation": True,
                                     "enableIbKubernetes": False}


def block(name, node="n1", claim="c-1"):
    return {"apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock",
            "metadata": {"name": name, "labels": {"unirail.io/node": node, "unirail.io/pool": "p"}},
            "spec": {"pool": "p", "cidr": "10.0.0.16/28", "node": node, "nodeUID": "u", "claim": claim, "released": {},
                     "requested": {}}}


def at(version):
    return {"op": "test", "path": "/metadata/resourceVersion", "value": version}


def test_second_create_of_a_block_is_refused(cluster, kinds):
    made = cluster.ok("POST", BLOCKS, block("once-1"))
    assert made["spec"]["released"] == {} and made["spec"]["requested"] == {}
    assert cluster.request("POST", BLOCKS, block("once-1", "n2"))[0] == 409


def test_block_update_requires_its_resource_version(cluster, kinds):
    one = f"{BLOCKS}/bound-1"
    v1 = cluster.ok("POST", BLOCKS, block("bound-1"))["metadata"]["resourceVersion"]
    v2 = cluster.ok("PATCH", one, [at(v1), {"op": "add", "path": "/spec/released/10.0.0.17", "value": "*"}],
                    type=PATCH)["metadata"]["resourceVersion"]
    assert v2 != v1
    # The API server refuses a later request with the former resource version.
    late = [at(v1), {"op": "add", "path": "/spec/released/10.0.0.18", "value": "*"}]
    assert cluster.request("PATCH", one, late, type=PATCH)[0] == 422
    # Only one request can change an entry from "*": a second request, or a request for a missing entry, is refused.
    path = "/spec/released/10.0.0.17"
    take = [{"op": "test", "path": path, "value": "*"}, {"op": "replace", "path": path, "value": "n2/t"}]
    assert cluster.ok("PATCH", one, take, type=PATCH)["spec"]["released"] == {"10.0.0.17": "n2/t"}
    assert cluster.request("PATCH", one, take, type=PATCH)[0] == 422
    deletion = [{"op": "test", "path": "/spec/released/10.0.0.99", "value": "*"}]
    assert cluster.request("PATCH", one, deletion, type=PATCH)[0] == 422
    back = [{"op": "test", "path": path, "value": "n2/t"}, {"op": "remove", "path": path}]
    assert cluster.ok("PATCH", one, back, type=PATCH)["spec"]["released"] == {}
    # The field `unavailable`, which the block's node writes, is stored, also if it is 0.
    for n in (7, 0):
        unavailable = [{"op": "add", "path": "/spec/unavailable", "value": n}]
        assert cluster.ok("PATCH", one, unavailable, type=PATCH)["spec"]["unavailable"] == n


def test_write_of_only_an_annotation_invalidates_older_writes(cluster, kinds):
    one = f"{BLOCKS}/touch-1"
    v1 = cluster.ok("POST", BLOCKS, block("touch-1"))["metadata"]["resourceVersion"]
    touch = {"metadata": {"resourceVersion": v1, "annotations": {"unirail.io/seen": v1}}}
    v2 = cluster.ok("PATCH", one, touch, type=MERGE)["metadata"]["resourceVersion"]
    assert v2 != v1
    assert cluster.request("PATCH", one, touch, type=MERGE)[0] == 409


def test_block_delete_requires_its_resource_version(cluster, kinds):
    one = f"{BLOCKS}/gone-1"
    made = cluster.ok("POST", BLOCKS, block("gone-1"))["metadata"]
    options = {"apiVersion": "v1", "kind": "DeleteOptions",
               "preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}
    request = [{"op": "add", "path": "/spec/requested/n2@*", "value": 3}]
    v2 = cluster.ok("PATCH", one, request, type=PATCH)["metadata"]["resourceVersion"]
    assert cluster.request("DELETE", one, options)[0] == 409
    options["preconditions"]["resourceVersion"] = v2
    assert cluster.request("DELETE", one, options)[0] == 200
    status, answer = cluster.request("DELETE", one, options)
    assert status == 404 and answer["details"]["name"] == "gone-1"


def test_blocks_of_a_node_are_found_by_their_label(cluster, kinds):
    """A node's blocks are found by their label, also after a block gets another owner."""
    v1 = cluster.ok("POST", BLOCKS, block("moves-1"))["metadata"]["resourceVersion"]
    names = lambda node: [x["metadata"]["name"] for x in cluster.ok(
        "GET", f"{BLOCKS}?labelSelector=unirail.io%2Fnode%3D{node}")["items"]]
    assert "moves-1" in names("n1")
    label = "/metadata/labels/unirail.io~1node"
    owner = lambda node, claim: [
        {"op": "replace", "path": "/spec/node", "value": node}, {"op": "add", "path": "/spec/nodeUID", "value": "-"},
        {"op": "replace", "path": "/spec/claim", "value": claim},
        {"op": "remove", "path": label} if node == "-" else {"op": "add", "path": label, "value": node}]
    v2 = cluster.ok("PATCH", f"{BLOCKS}/moves-1", [at(v1)] + owner("-", "-"), type=PATCH)["metadata"]["resourceVersion"]
    assert "moves-1" not in names("n1")
    cluster.ok("PATCH", f"{BLOCKS}/moves-1", [at(v2), {"op": "test", "path": "/spec/node", "value": "-"}]
               + owner("n2", "c-9"), type=PATCH)
    assert "moves-1" in names("n2")
