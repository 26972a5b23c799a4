# SPDX-License-Identifier: Apache-2.0
"""A thief sends requests with the token of an agent or of the controller, in a cluster with the objects of deploy/ and deploy/policies.

In an earlier version, an agent's token could write the status, labels and annotations of every pod, and all pools and blocks.
"""
import http.client
import json
import ssl

import pytest
from agents import BLOCKS, MERGE, SPIDER, Agent, Nodes, addresses
from audit import DEPLOY
from cluster import free_port, wait
from controllers import Controller
from policies import bound_token

import cluster as clusters

pytestmark = pytest.mark.kube("1.34")
JSON_PATCH = "application/json-patch+json"
STATUS = "k8s.v1.cni.cncf.io/network-status"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions"
ENDPOINTS = f"{SPIDER}/namespaces/t/spiderendpoints"
POOLS = f"{SPIDER}/spiderippools"
PODS = "/api/v1/namespaces/t/pods"
NODES = ("n1", "n2", "n3")


class ClusterWithPolicies:
    """A cluster with the objects of deploy/ and deploy/policies, and the stolen tokens: of an agent on each node, of the controller, and
    an agent's token that names no node."""

    def __init__(self):
        self.cluster = clusters.Cluster()
        self.cluster.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml")
        self.cluster.kubectl("apply", "-f", DEPLOY)
        self.cluster.kubectl("apply", "-f", DEPLOY / "policies")
        self.nodes = Nodes(self.cluster)
        for name in NODES:
            self.nodes.node(name)
        self.cluster.namespace("t")
        self.tokens = {name: bound_token(self.cluster, "unirail-agent", name) for name in NODES}
        self.tokens["controller"] = bound_token(self.cluster, "unirail-controller", "n1")
        self.tokens["no node"] = self.cluster.token("unirail", "unirail-agent")
        wait(self.is_enforced, "the API server enforces the policies")

    def is_enforced(self):
        """Asserts that the API server enforces the policies. It begins to do so shortly after they are written."""
        probes = (("no node", "PATCH", "/api/v1/namespaces/unirail/pods/unirail-agent-n1/status", annotation("x", "y")),
                  ("no node", "POST", BLOCKS, block("probe-0", "n1")), ("no node", "POST", ENDPOINTS, endpoint("probe", "n1")),
                  ("no node", "POST", POOLS, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
                                              "metadata": {"name": "probe"}, "spec": {"subnet": "10.6.0.0/24"}}),
                  ("controller", "POST", NADS, nad("probe")))
        answers = [self.send(client, method, f"{path}?dryRun=All", body) for client, method, path, body in probes]
        assert all("ValidatingAdmissionPolicy" in message for _, message in answers), answers
        return True

    def config(self, client, path):
        token = path.with_name(path.name + ".token")
        token.write_text(self.tokens[client])
        return self.cluster.kubeconfig(path, {"tokenFile": token})

    def send(self, client, method, path, body=None, type=None):
        """Returns (status, message) of a request with the stolen token and without a client certificate."""
        context = ssl.create_default_context(cafile=self.cluster.pki.ca)
        c = http.client.HTTPSConnection("127.0.0.1", self.cluster.port, context=context, timeout=30)
        default = JSON_PATCH if isinstance(body, list) else MERGE if method == "PATCH" else "application/json"
        try:
            c.request(method, path, None if body is None else json.dumps(body),
                      {"Content-Type": type or default, "Authorization": f"Bearer {self.tokens[client]}"})
            r = c.getresponse()
            answer = json.loads(r.read())
        finally:
            c.close()
        return r.status, answer.get("message", "")

    def refused(self, client, contains, *request):
        status, message = self.send(client, *request)
        assert status in (403, 422) and contains in message, (client, request, status, message)

    def allowed(self, client, *request):
        status, message = self.send(client, *request)
        assert status < 300, (client, request, status, message)


def block(name, node, released=None, **spec):
    index = int(name.rsplit("-", 1)[1], 16)
    return {"apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock",
            "metadata": {"name": name, "labels": {"unirail.io/pool": "p", **({} if node == "-" else {"unirail.io/node": node})}},
            "spec": {"pool": "p", "cidr": f"172.16.1.{index * 16}/28", "node": node, "nodeUID": "u", "claim": "l/1" if node != "-" else "-",
                     "released": released or {}, "requested": {}, **spec}}


def endpoint(name, node, uid="u1", **meta):
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {"name": name, "labels": {"unirail.io/node": node}, **meta},
            "status": {"current": {"uid": uid, "node": node, "ips": []}, "ownerControllerType": "StatefulSet",
                       "ownerControllerName": "web"}}


def nad(name, *owners):
    return {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "ownerReferences": list(owners)}, "spec": {"config": "{}"}}


def pool_outside_its_subnet():
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "probe"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.1.0.1"]}}


def owner(kind="SpiderMultusConfig", api="spiderpool.spidernet.io/v2beta1"):
    return {"apiVersion": api, "kind": kind, "name": "m", "uid": "7ddfa1ac-4a2f-4aa1-a2c6-8d0fd9cb1c5a", "controller": True}


def annotation(key, value):
    return {"metadata": {"annotations": {key: value}}}


@pytest.fixture(scope="module")
def stolen():
    one = ClusterWithPolicies()
    yield one
    one.cluster.close()


@pytest.fixture
def emptied(stolen):
    """Deletes the objects of the previous test."""
    cluster = stolen.cluster
    for path in (BLOCKS, POOLS, ENDPOINTS, NADS, PODS):
        for o in cluster.ok("GET", path)["items"]:
            stolen.cluster.request("DELETE", f"{path}/{o['metadata']['name']}", {"gracePeriodSeconds": 0})
    return stolen


def test_agent_token_writes_only_one_annotation_of_pods_of_its_node(emptied):
    """An agent may write one annotation of its own node's pods."""
    at = {}
    for node in ("n1", "n2"):
        pod = emptied.nodes.pod("t", node, f"pod-{node}", annotations={"mine": "x"}, labels={"app": "x"})
        at[node] = f"{PODS}/{pod['metadata']['name']}"
    own, other = f"{at['n1']}/status", f"{at['n2']}/status"
    emptied.allowed("n1", "PATCH", own, annotation(STATUS, "[]"))
    emptied.allowed("n1", "PATCH", own, annotation(STATUS, None))
    emptied.refused("n1", "to the status of pods of its own node (n1) only", "PATCH", other, annotation(STATUS, "[]"))
    emptied.refused("no node", "the agent's token names no node", "PATCH", own, annotation(STATUS, "[]"))
    one = "to change only the annotation k8s.v1.cni.cncf.io/network-status of a pod"
    for body in (annotation("mine", "y"), annotation("mine", None), annotation("new", "y"), {"metadata": {"labels": {"app": "y"}}},
                 {"metadata": {"labels": {"more": "y"}}}, {"metadata": {"finalizers": ["a.b/c"]}},
                 {"status": {"phase": "Failed"}}, {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
                 {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}):
        emptied.refused("n1", one, "PATCH", own, body)
    for method, path, body in (("PATCH", at["n1"], annotation("a", "b")), ("DELETE", at["n1"], None), ("POST", PODS, {}),
                               ("POST", f"{at['n1']}/eviction", {}), ("GET", "/api/v1/namespaces/unirail/secrets", None)):
        emptied.refused("n1", "forbidden", method, path, body)


def test_agent_token_removes_only_stale_resources_of_its_node(emptied):
    """An agent may remove extended resources with capacity 0 from its own Node."""
    own, other = (f"/api/v1/nodes/{n}/status" for n in ("n1", "n2"))
    has = {"rdma/a": "0", "rdma/b": "4", "rdma/c": "0", "cpu": "0"}
    for at in (own, other):
        emptied.cluster.ok("PATCH", at, {"status": {"capacity": has, "allocatable": has}}, type=MERGE)
    removed_resources = lambda *names: {"status": {k: dict.fromkeys(names) for k in ("capacity", "allocatable")}}
    emptied.allowed("n1", "PATCH", own, removed_resources("rdma/a"))
    emptied.refused("n1", "to the status of its own Node only", "PATCH", other, removed_resources("rdma/a"))
    emptied.refused("no node", "the agent's token names no node", "PATCH", own, removed_resources("rdma/c"))
    for body in (removed_resources("rdma/b"), removed_resources("cpu"), {"status": {"capacity": {"rdma/c": "7"}}}, {"status": {"capacity": {"rdma/d": "0"}}},
                 {"status": {"allocatable": {"rdma/b": "3"}}}, annotation("a", "b"), {"metadata": {"labels": {"a": "b"}}},
                 {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                 {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}):
        emptied.refused("n1", "only two changes of its Node:", "PATCH", own, body)
    for method, path, body in (("PATCH", "/api/v1/nodes/n1", annotation("a", "b")), ("DELETE", "/api/v1/nodes/n1", None)):
        emptied.refused("n1", "forbidden", method, path, body)


def test_agent_token_can_only_request_borrow_and_return_addresses_in_blocks_of_other_nodes(emptied):
    """In blocks of other nodes an agent may only write its own node's requests, and the entries by which its node borrows and returns
    addresses."""
    emptied.cluster.ok("POST", BLOCKS, block("p-1", "n2", {
        "172.16.1.17": "*", "172.16.1.18": "@n1", "172.16.1.19": "@n1*", "172.16.1.20": "?", "172.16.1.21": "n1/t",
        "172.16.1.22": "n3/t", "172.16.1.23": "@n3", "172.16.1.24": "@-", "172.16.1.25": "n1/u"}, unavailable=3))
    at = f"{BLOCKS}/p-1"
    put = lambda ip, text: {"spec": {"released": {f"172.16.1.{ip}": text}}}
    addresses_ = "to borrow addresses of a block that are offered to its node and to return those that it has"
    for ip, text in ((17, "n3/t"), (17, None), (17, "@n1"), (18, "n11/x"), (22, "n1/t"), (22, None), (22, "*"), (23, "n1/t"), (23, None),
                     (24, "n1/t"), (21, "n3/t"), (26, "*"), (26, "n3/x")):
        emptied.refused("n1", addresses_, "PATCH", at, put(ip, text))
    for ip, text in ((17, "n1/x"), (18, "n1/x"), (19, "n1/x"), (20, "n1/x"), (21, None), (25, "@n3"), (26, "n1/x"), (17, "n1/y"), (17, "?")):
        emptied.allowed("n1", "PATCH", at, put(ip, text))
    for spec in ({"node": "n1"}, {"node": "-"}, {"node": "n3"}):
        emptied.refused("n1", "no other change of spec.node", "PATCH", at, {"spec": spec})
    for spec in ({"nodeUID": "x"}, {"claim": "x/1"}, {"unavailable": 0}, {"unavailable": None}):
        emptied.refused("n1", "nodeUID, claim and unavailable of blocks of its own node only", "PATCH", at, {"spec": spec})
    for spec in ({"pool": "q"}, {"cidr": "172.16.2.0/28"}):
        emptied.refused("n1", "neither a block's pool", "PATCH", at, {"spec": spec})
    emptied.refused("n1", "neither a block's pool", "PATCH", at, {"metadata": {"finalizers": ["a.b/c"]}})
    for labels in ({"unirail.io/node": "n1"}, {"unirail.io/node": None}, {"x": "y"}):
        emptied.refused("n1", "only the label unirail.io/node of a block", "PATCH", at, {"metadata": {"labels": labels}})
    for key in ("unirail.io/seen", "unirail.io/etcd-restored", "x"):
        emptied.refused("n1", "only the annotations unirail.io/seen", "PATCH", at, annotation(key, "1"))
    for key in ("n1", "n3", "n3@*", "n11@*"):
        emptied.refused("n1", "its own node's requests", "PATCH", at, {"spec": {"requested": {key: 1}}})
    emptied.cluster.ok("PATCH", at, {"spec": {"requested": {"n3@*": 1}}}, type=MERGE)
    emptied.refused("n1", "its own node's requests", "PATCH", at, {"spec": {"requested": {"n3@*": None}}})
    for requested in ({"n1@*": 2}, {"n1@172.16.1.30": 1}, {"n1@*": None}):
        emptied.allowed("n1", "PATCH", at, {"spec": {"requested": requested}})
    emptied.refused("n1", "to delete blocks of its own node only", "DELETE", at)
    emptied.refused("n1", "", "DELETE", BLOCKS)
    emptied.refused("n1", "forbidden", "PATCH", f"{at}/status", {"status": {"allocatedIPCount": 1}})
    emptied.refused("no node", "the agent's token names no node", "PATCH", at, put(20, "n1/x"))


def test_agent_token_writes_its_blocks_except_borrowed_entries(emptied):
    """In its own blocks an agent may write all entries, but neither change nor add one by which another node borrows an address. It may
    give up a block, but not transfer it to another node."""
    emptied.refused("n1", "to create blocks of its own node only", "POST", BLOCKS, block("p-2", "n2"))
    emptied.refused("n1", "to create blocks of its own node only", "POST", BLOCKS, block("p-2", "-"))
    emptied.refused("n1", "to create blocks of its own node only", "POST", BLOCKS, block("p-2", "n1", {"172.16.1.33": "n2/t"}))
    emptied.allowed("n1", "POST", BLOCKS, block("p-2", "n1", {"172.16.1.33": "?"}))
    at = f"{BLOCKS}/p-2"
    for released in ({"172.16.1.34": "*"}, {"172.16.1.34": None}, {"172.16.1.34": "@n2*"}, {"172.16.1.34": "@n3"}):
        emptied.allowed("n1", "PATCH", at, {"spec": {"released": released, "unavailable": 2}})
    emptied.allowed("n2", "PATCH", at, {"spec": {"requested": {"n2@*": 1}}})
    emptied.allowed("n1", "PATCH", at, {"spec": {"requested": {"n2@*": None}, "released": {"172.16.1.35": "@n2*"}}})
    emptied.allowed("n2", "PATCH", at, {"spec": {"released": {"172.16.1.35": "n2/t"}}})
    for text in (None, "*", "n1/x", "n2/u", "n3/t"):
        emptied.refused("n1", "but not to change the addresses of other nodes", "PATCH", at, {"spec": {"released": {"172.16.1.35": text}}})
    emptied.refused("n1", "but not to change the addresses of other nodes", "PATCH", at, {"spec": {"released": {"172.16.1.36": "n2/u"}}})
    emptied.refused("n1", "of which no other node has addresses", "DELETE", at)
    for key in ("unirail.io/seen", "unirail.io/etcd-restored"):
        emptied.allowed("n1", "PATCH", at, annotation(key, "1"))
    emptied.refused("n1", "no other change of spec.node", "PATCH", at, {"spec": {"node": "n3"}})
    emptied.refused("n1", "only the label unirail.io/node of a block", "PATCH", at, {"metadata": {"labels": {"unirail.io/node": "n3"}}})
    emptied.refused("n1", "only the label unirail.io/node of a block", "PATCH", at, {"metadata": {"labels": {"unirail.io/pool": "q"}}})
    no_owner = {"metadata": {"labels": {"unirail.io/node": None}}, "spec": {"node": "-", "nodeUID": "-", "claim": "-"}}
    emptied.allowed("n1", "PATCH", at, no_owner)
    emptied.refused("n1", "no other change of spec.node", "PATCH", at, {"spec": {"node": "n3"}})
    emptied.refused("n1", "nodeUID, claim and unavailable", "PATCH", at, {"spec": {"claim": "x"}})
    take = lambda node: {"metadata": {"labels": {"unirail.io/node": node}}, "spec": {"node": node, "nodeUID": "v", "claim": "m/1"}}
    emptied.refused("n3", "only the label unirail.io/node of a block", "PATCH", at, {**take("n3"), "metadata": {"labels": {"unirail.io/node": "n1"}}})
    emptied.allowed("n3", "PATCH", at, take("n3"))
    emptied.refused("n3", "of which no other node has addresses", "DELETE", at)
    emptied.allowed("n2", "PATCH", at, {"spec": {"released": {"172.16.1.35": None}}})
    emptied.allowed("n3", "DELETE", at)
    emptied.refused("no node", "the agent's token names no node", "POST", BLOCKS, block("p-2", "n1"))


def test_agent_token_writes_endpoints_of_its_node_and_requests_for_addresses(emptied):
    """An agent may write endpoints of its own node, and, in endpoints of other nodes, the fields that request a retained address. It may
    take over an endpoint of another node for another pod of the same name."""
    emptied.refused("n1", "to create endpoints of its own node only", "POST", ENDPOINTS, endpoint("web-1", "n2"))
    emptied.allowed("n1", "POST", ENDPOINTS, endpoint("web-1", "n1"))
    emptied.allowed("n1", "PATCH", f"{ENDPOINTS}/web-1", {"status": {"current": {"uid": "u2"}}})
    emptied.cluster.ok("POST", ENDPOINTS, endpoint("web-0", "n2"))
    at = f"{ENDPOINTS}/web-0"
    write = "to write endpoints of its own node's pods, to request addresses of others"
    emptied.refused("n1", "to delete endpoints of its own node only", "DELETE", at)
    address_request = lambda contains, node="n2": {"metadata": {
        "labels": {"unirail.io/requested-from": node}, "annotations": {"unirail.io/requested-by": contains}}}
    for body in ({"status": {"current": {"ips": [{"interface": "x"}]}}}, {"status": {"current": {"node": "n1"}}}, {"status": {"current": {"node": "n3"}}},
                 {"metadata": {"finalizers": ["a.b/c"]}}, {"metadata": {"labels": {"unirail.io/node": "n1"}}}, annotation("x", "y"),
                 address_request("n3 u9"), address_request("n11 u9"), address_request("n2 u1 refused"), {"status": None}):
        emptied.refused("n1", write, "PATCH", at, body)
    emptied.allowed("n1", "PATCH", at, address_request("n1 u9 migration"))
    refusal = {"metadata": {"labels": {"unirail.io/requested-from": None}, "annotations": {"unirail.io/requested-by": "n1 u9 refused"}}}
    emptied.refused("n3", write, "PATCH", at, refusal)
    emptied.refused("n2", write, "PATCH", at, {"status": {"current": {"node": "n1"}}})
    emptied.allowed("n2", "PATCH", at, refusal)
    taken = {"metadata": {"labels": {"unirail.io/node": "n1", "unirail.io/requested-from": None},
                          "annotations": {"unirail.io/requested-by": None}},
             "status": {"current": {"node": "n1", "uid": "u9", "ips": []}}}
    emptied.allowed("n1", "PATCH", at, taken)  # n1 takes the endpoint over for a new pod web-0; the policies permit this (deploy/README)
    emptied.refused("n2", "to delete endpoints of its own node only", "DELETE", at)
    emptied.allowed("n1", "DELETE", at)
    emptied.refused("no node", "the agent's token names no node", "POST", ENDPOINTS, endpoint("web-2", "n1"))


def test_agent_token_writes_only_two_annotations_of_pools(emptied):
    """An agent may write two annotations of a pool: the block size, once, and the number of addresses that an application requests of
    its automatic pool. It may create automatic pools, without addresses."""
    emptied.nodes.pool("p", "172.16.1.0/24")
    at = f"{POOLS}/p"
    nothing = "to change only two annotations of a pool: unirail.io/block-prefix, if the pool has none"
    number = "ipam.spidernet.io/ippool-ip-number"
    for body in ({"spec": {"ips": ["172.16.1.2"]}}, {"spec": {"gateway": "172.16.1.9"}}, {"spec": {"disable": True}}, annotation("x", "y"), annotation(number, "9"),
                 {"metadata": {"labels": {"x": "y"}}}, {"metadata": {"finalizers": ["a.b/c"]}},
                 {"metadata": {"ownerReferences": [owner("SpiderSubnet")]}}):
        emptied.refused("n1", nothing, "PATCH", at, body)
    emptied.refused("no node", "the agent's token names no node", "PATCH", at, annotation("unirail.io/block-prefix", "28"))
    emptied.allowed("n1", "PATCH", at, annotation("unirail.io/block-prefix", "28"))
    for value in ("27", None):
        emptied.refused("n1", nothing, "PATCH", at, annotation("unirail.io/block-prefix", value))
    made = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "auto4-x", "labels": {
        f"ipam.spidernet.io/owner-{k}": "x" for k in ("spider-subnet", "application-gv", "application-kind", "application-namespace",
                                                      "application-name", "application-uid")}}, "spec": {"subnet": "10.6.0.0/24", "ipVersion": 4}}
    emptied.refused("n1", "without addresses (spec.ips)", "POST", POOLS, {**made, "spec": {**made["spec"], "ips": ["10.6.0.1"]}})
    emptied.refused("n1", "to create pools for applications only", "POST", POOLS, {**made, "metadata": {"name": "mine"}})
    emptied.allowed("n1", "POST", POOLS, made)
    emptied.allowed("n1", "PATCH", f"{POOLS}/auto4-x", annotation(number, "9"))
    emptied.refused("n1", nothing, "PATCH", f"{POOLS}/auto4-x", {"spec": {"ips": ["10.6.0.1"]}})
    emptied.refused("n1", "forbidden", "DELETE", at)
    emptied.refused("n1", "forbidden", "PATCH", f"{at}/status", {"status": {"allocatedIPCount": 1}})


def test_controller_token_writes_only_networks_of_spidermultusconfigs(emptied):
    """The controller's token writes only NetworkAttachmentDefinitions whose controller in ownerReferences is a SpiderMultusConfig, and
    may make a SpiderMultusConfig the controller of a NetworkAttachmentDefinition that has no controller."""
    only = "to write and delete only NetworkAttachmentDefinitions whose controller is a SpiderMultusConfig"
    emptied.refused("controller", only, "POST", NADS, nad("x"))
    emptied.refused("controller", only, "POST", NADS, nad("x", owner("Pod", "v1")))
    emptied.refused("controller", only, "POST", NADS, nad("x", owner(api="example.org/v1")))
    emptied.refused("controller", only, "POST", NADS, nad("x", {**owner(), "controller": False}))
    emptied.cluster.ok("POST", NADS, nad("hand"))
    emptied.refused("controller", only, "PATCH", f"{NADS}/hand", {"spec": {"config": "{\"type\":\"x\"}"}})
    emptied.refused("controller", only, "DELETE", f"{NADS}/hand")
    emptied.allowed("controller", "PATCH", f"{NADS}/hand", {"metadata": {"ownerReferences": [owner()]}})
    emptied.allowed("controller", "PATCH", f"{NADS}/hand", {"spec": {"config": "{\"type\":\"x\"}"}})
    emptied.refused("controller", only, "PATCH", f"{NADS}/hand", {"metadata": {"ownerReferences": []}})
    emptied.cluster.ok("POST", NADS, nad("anothers", owner("Operator", "example.org/v1")))
    emptied.refused("controller", "to take over only NetworkAttachmentDefinitions whose controller is a SpiderMultusConfig",
                  "PATCH", f"{NADS}/anothers", {"metadata": {"ownerReferences": [owner()]}})
    emptied.allowed("controller", "POST", NADS, nad("y", owner()))
    emptied.allowed("controller", "DELETE", f"{NADS}/y")


def test_agents_work_under_the_policies(emptied, closing, tmp_path):
    """Under the policies two agents allocate, borrow, return and migrate addresses, and no request is refused."""
    nodes = emptied.nodes
    nodes.pool("wide", "172.16.1.0/24")
    nodes.pool("narrow", "172.16.9.0/28", ["172.16.9.2-172.16.9.5"])  # one block: the second node has to borrow
    args = ("--block-idle", "1s", "--pre-allocate", "1", "--reuse-delay", "1s")
    one, two = (closing(Agent(tmp_path / n, emptied.config(n, tmp_path / f"{n}.conf"), n)).start(*args) for n in ("n1", "n2"))
    first = {agent: nodes.pod("t", agent.node) for agent in (one, two)}
    for agent, pod in first.items():
        status, answer = agent.plan(pod, "wide", "narrow")
        assert status == 200, (answer, agent.log.read_text()[-3000:])
        meta = pod["metadata"]
        agent.request("POST", "/v1/unirail/pods/report", {
            "containerID": "c1", "podNamespace": "t", "podName": meta["name"], "podUID": meta["uid"],
            "networkStatus": '[{"name":"x"}]', "message": "Added eth0"})
        wait(lambda: emptied.cluster.ok("GET", f"{PODS}/{meta['name']}")["metadata"]["annotations"].get(STATUS),
             "the pod's network-status is written")
        wait(lambda: nodes.endpoint("t", meta["name"]), "the pod's SpiderEndpoint is created")
    assert any(text.startswith("n") for b in nodes.blocks("narrow") for text in b["spec"]["released"].values())
    retained = nodes.pod("t", "n1", "web-0", {"kind": "StatefulSet", "name": "web"})
    had = addresses(one.plan(retained, "wide")[1])
    wait(lambda: nodes.endpoint("t", "web-0"), "the SpiderEndpoint of web-0 is created")
    for here, there in ((one, two), (two, one)):
        assert here.release(retained) == 1
        nodes.remove_pod(retained)
        retained = wait(lambda: nodes.pod("t", there.node, "web-0", {"kind": "StatefulSet", "name": "web"}),
                    f"pod web-0 is created on node {there.node}")
        status, answer = there.plan(retained, "wide")
        assert status == 200 and addresses(answer) == had, (answer, there.log.read_text()[-3000:])
        wait(lambda: nodes.endpoint("t", "web-0")["status"]["current"]["node"] == there.node,
             f"the SpiderEndpoint of web-0 is of node {there.node}")
    for agent, pod in first.items():
        agent.release(pod)
        nodes.remove_pod(pod)
    wait(lambda: not [b for b in nodes.blocks("narrow") if b["spec"]["node"] != "-"], "no block of pool narrow has an owner", 60)
    wait(lambda: not nodes.endpoint("t", first[one]["metadata"]["name"]), "the first pod's SpiderEndpoint is deleted")
    for agent in (one, two):
        assert agent.stop() == 0
        assert not agent.logged("unirail allows an agent"), agent.log.read_text()[-3000:]


def test_controller_works_under_the_policies(emptied, closing, tmp_path):
    """The controller writes, adopts and removes networks and reviews pools. Policies and webhook accept the block size that an agent
    writes for an older pool."""
    cluster, smcs = emptied.cluster, f"{SPIDER}/namespaces/t/spidermultusconfigs"
    emptied.nodes.pool("old", "172.16.7.0/24")  # created before webhooks exist, so no defaults were filled in
    c = closing(Controller(tmp_path / "c", emptied.config("controller", tmp_path / "c.conf"), "unirail"))
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()
    wait(lambda: cluster.request("POST", f"{POOLS}?dryRun=All", pool_outside_its_subnet())[0] == 422,
         "the webhook refuses a pool outside its subnet")
    emptied.allowed("n1", "PATCH", f"{POOLS}/old", annotation("unirail.io/block-prefix", "28"))
    cluster.ok("POST", NADS, nad("m"))  # created by hand, without an owner
    wait(lambda: cluster.ok("POST", smcs, {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "m"},
        "spec": {"cniType": "macvlan", "macvlan": {"master": ["e"]}}}), "SpiderMultusConfig m is admitted")
    owned = lambda name: cluster.ok("GET", f"{NADS}/{name}")["metadata"]["ownerReferences"][0]["name"] == "m"
    wait(lambda: owned("m"), "NetworkAttachmentDefinition m has its owner")
    cluster.ok("PATCH", f"{NADS}/m", {"spec": {"config": "{}"}}, type=MERGE)
    wait(lambda: cluster.ok("GET", f"{NADS}/m")["spec"]["config"] != "{}", "NetworkAttachmentDefinition m is written")
    assert c.stop() == 0
    assert not c.logged("unirail allows"), c.log.read_text()[-3000:]
    for kind in ("mutating", "validating"):  # the webhook would refuse the change of cr-name below
        cluster.ok("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unirail-controller")
    c.webhook_port = 0
    c.start().leads()
    wait(lambda: cluster.request("PATCH", f"{smcs}/m", {"metadata": {"annotations": {"multus.spidernet.io/cr-name": "n"}}}, type=MERGE)[0] == 200,
         "the new name is admitted")
    wait(lambda: cluster.request("GET", f"{NADS}/m")[0] == 404 and owned("n"), "NetworkAttachmentDefinition m is replaced by n")
    assert c.stop() == 0
    assert not c.logged("unirail allows"), c.log.read_text()[-3000:]
