# SPDX-License-Identifier: Apache-2.0
"""A cluster in which Spiderpool, Multus and the shared device plugin seem to run: it has the objects that their manifests and programs
write.

Class Kubelets simulates kubelets and the controllers of DaemonSets and Deployments: it creates pods on the selected nodes, sets them
Ready and deletes them. For unirail's pods it runs the real programs."""
import json
import re
import threading
import time

import yaml

from agents import MERGE, SPIDER, Agent, install_crds
from cluster import wait
from controllers import Controller

APPS = "/apis/apps/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
LABEL = "unirail.io/migrated"

CONF = """ipamUnixSocketPath: /var/run/spidernet/spiderpool.sock
enableIPv4: true
enableIPv6: false
enableStatefulSet: true
enableKubevirtStaticIP: true
enableSpiderSubnet: true
enableAutoPoolForApplication: true
enableIPConflictDetection: false
enableGatewayDetection: true
enableValidatingResourcesDeletedWebhook: false
enableCleanOutdatedEndpoint: false
clusterSubnetDefaultFlexibleIPNumber: 1
tuneSysctlConfig: true
podResourceInject:
  enabled: true
  namespacesExclude:
  - kube-system
  - spiderpool
  namespacesInclude: []
"""

# The DaemonSets and Deployments as the charts render them, reduced to the fields that the tests need.
WORKLOADS = """
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: spiderpool-agent
  namespace: spiderpool
  annotations: {meta.helm.sh/release-name: spiderpool, meta.helm.sh/release-namespace: spiderpool}
  labels: {app.kubernetes.io/component: spiderpool-agent, app.kubernetes.io/managed-by: Helm}
spec:
  selector: {matchLabels: {app.kubernetes.io/component: spiderpool-agent}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}
  template:
    metadata: {labels: {app.kubernetes.io/component: spiderpool-agent}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      nodeSelector: {kubernetes.io/os: linux}
      tolerations: [{operator: Exists}]
      containers:
      - name: spiderpool-agent
        image: ghcr.io/spidernet-io/spiderpool/spiderpool-agent:v1.0.1
        command: [/usr/bin/spiderpool-agent]
        args: [daemon, --config-path=/tmp/spiderpool/config-map/conf.yml]
        env: [{name: SPIDERPOOL_LOG_LEVEL, value: info}, {name: SPIDERPOOL_HEALTH_PORT, value: "5710"}]
      - name: multus-cni
        image: ghcr.io/spidernet-io/spiderpool/spiderpool-agent:v1.0.1
        command: [/home/entrypoint.sh]  # original text
      volumes:
      - {name: config-path, configMap: {name: spiderpool-conf}}
      - {name: cni-bin-path, hostPath: {path: /opt/cni/bin, type: DirectoryOrCreate}}
      - {name: cni, hostPath: {path: /etc/cni/net.d, type: DirectoryOrCreate}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: spiderpool-controller
  namespace: spiderpool
  annotations: {meta.helm.sh/release-name: spiderpool, meta.helm.sh/release-namespace: spiderpool}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/component: spiderpool-controller}}
  template:
    metadata: {labels: {app.kubernetes.io/component: spiderpool-controller}}
    spec:
      hostNetwork: true
      containers:
      - name: spiderpool-controller
        image: ghcr.io/spidernet-io/spiderpool/spiderpool-controller:v1.0.1
        env: [{name: SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION, value: "300"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: spiderpool-rdma-shared-device-plugin
  namespace: spiderpool
spec:
  selector: {matchLabels: {app: rdma}}
  template:
    metadata: {labels: {app: rdma}}
    spec:
      hostNetwork: true
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: no-rdma, operator: DoesNotExist}]
      containers:
      - {name: c, image: "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"}
      volumes:
      - {name: config, configMap: {name: spiderpool-rdma-shared-device-plugin}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: kube-multus-ds
  namespace: kube-system
spec:
  selector: {matchLabels: {name: multus}}
  template:
    metadata: {labels: {name: multus}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers:
      - {name: kube-multus, image: "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.4-thick"}
"""
SHARED = '{"periodicUpdateInterval":300,"configList":[{"resourceName":"hca_shared","rdmaHcaMax":500,"selectors":{"ifNames":["rail1"]}}]}'
NAD = ('{"cniVersion":"0.3.1","name":"rail1","plugins":[{"type":"macvlan","master":"rail1","mode":"bridge","ipam":{"type":"spiderpool",'
       '"default_ipv4_ippool":["rail1"]}},{"type":"coordinator","mode":"auto","tunePodRoutes":true}]}')


def hooks(kind, names):
    return {"metadata": {"name": "spiderpool-controller"}, "webhooks": [{
        "name": f"{name}.spiderpool.spidernet.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": "spiderpool-controller", "namespace": "spiderpool", "port": 5722,
                                     "path": f"/{kind}-spiderpool-spidernet-io-v2beta1-{name}"}},
        "rules": [{"apiGroups": ["spiderpool.spidernet.io"], "apiVersions": ["v2beta1"], "operations": ["CREATE", "UPDATE"],
                   "resources": [f"{name}s"]}]} for name in names]}


class Spiderpool:
    """Spiderpool's objects; allocates addresses to pods as Spiderpool's agent does."""

    def __init__(self, cluster, nodes=("n1", "n2")):
        self.cluster = cluster
        install_crds(cluster, lambda name: "unirail" not in name)
        for ns in ("kube-system", "spiderpool", "t"):
            cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
        cluster.config_map("spiderpool", "spiderpool-conf", {"conf.yml": CONF})
        cluster.config_map("spiderpool", "spiderpool-rdma-shared-device-plugin", {"config.json": SHARED})
        for name in nodes:
            self.node(name)
        for o in yaml.safe_load_all(WORKLOADS):
            cluster.ok("POST", f"{APPS}/namespaces/{o['metadata']['namespace']}/{o['kind'].lower()}s", o)
        cluster.ok("POST", "/apis/k8s.cni.cncf.io/v1/namespaces/spiderpool/network-attachment-definitions", {
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "rail1"},
            "spec": {"config": NAD}})

    def node(self, name, ready=True, message="kubelet is posting ready status"):
        self.cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}})
        # Removes the taint that the API server sets on a new Node: the node lifecycle controller, which would remove it, does not run.
        self.cluster.ok("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, type=MERGE)
        self.cluster.ok("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [{
            "type": "Ready", "status": "True" if ready else "False", "message": message}]}}, type=MERGE)

    def register(self):
        """Registers webhooks to which no server answers: from now on the API server refuses to create or update pools and subnets."""
        for kind, plural in (("mutate", "mutating"), ("validate", "validating")):
            self.cluster.ok("POST", f"{HOOKS}/{plural}webhookconfigurations", hooks(kind, ("spiderippool", "spidersubnet")))

    def allocate(self, pod, node, pool, ip):
        """Writes status.allocatedIPs and the SpiderEndpoint as Spiderpool's agent does."""
        meta, path = pod["metadata"], f"{SPIDER}/spiderippools/{pool}"
        status = self.cluster.ok("GET", path).get("status", {})
        records = json.loads(status.get("allocatedIPs", "{}"))
        records[ip] = {"pod": f"{meta['namespace']}/{meta['name']}", "podUid": meta["uid"]}
        self.cluster.ok("PATCH", f"{path}/status", {"status": {
            "allocatedIPs": json.dumps(records, sort_keys=True, separators=(",", ":")), "allocatedIPCount": len(records)}}, type=MERGE)
        self.cluster.ok("POST", f"{SPIDER}/namespaces/{meta['namespace']}/spiderendpoints", {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {"name": meta["name"], "finalizers": ["spiderpool.spidernet.io"],
                         "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}]},
            "status": {"current": {"uid": meta["uid"], "node": node, "ips": [{
                "interface": "net1", "ipv4": f"{ip}/24", "ipv4Pool": pool, "vlan": 0, "ipv4Gateway": "172.16.1.1", "cleanGateway": False}]},
                "ownerControllerType": "Pod", "ownerControllerName": meta["name"]}})

    def state(self):
        """What is visible of Spiderpool, Multus and the shared device plugin. It must be the same before a migration and after its undo."""
        get = self.cluster.ok
        found = {}
        for kind in ("daemonsets", "deployments"):
            for ns in ("spiderpool", "kube-system"):
                for o in get("GET", f"{APPS}/namespaces/{ns}/{kind}")["items"]:
                    annotations = {k: v for k, v in o["metadata"].get("annotations", {}).items()
                             if not re.search("deprecated.daemonset|deployment.kubernetes.io", k)}
                    found[kind, o["metadata"]["name"]] = o["spec"], annotations, o["metadata"].get("labels")
        for kind in ("mutating", "validating"):
            for o in get("GET", f"{HOOKS}/{kind}webhookconfigurations")["items"]:
                found[kind, o["metadata"]["name"]] = o.get("webhooks")
        for o in get("GET", f"{SPIDER}/spiderippools")["items"]:
            found["pool", o["metadata"]["name"]] = o["spec"], o["metadata"].get("annotations"), o.get("status", {}).get("allocatedIPs")
        for o in get("GET", f"{SPIDER}/spiderendpoints")["items"]:
            found["endpoint", o["metadata"]["name"]] = o["status"]
        for o in get("GET", "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions")["items"]:
            found["nad", o["metadata"]["name"]] = o["spec"], o["metadata"]["uid"]
        for o in get("GET", "/api/v1/nodes")["items"]:
            found["node", o["metadata"]["name"]] = o["metadata"]["labels"]
        return found


def owner(pod):
    return pod["metadata"].get("ownerReferences", [{}])[0].get("name", "")


def owner_name(kind, o):
    return o["metadata"]["name"] + ("" if kind == "daemonsets" else "-6c9f")


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


def selects(template, node):
    """Whether the nodeSelector and node affinity of a DaemonSet's template select the node."""
    spec, labels = template["spec"], node["metadata"]["labels"]
    if any(labels.get(k) != v for k, v in spec.get("nodeSelector", {}).items()):
        return False
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    fits = [all((x["key"] in labels) == {"Exists": True, "DoesNotExist": False}[x["operator"]] for x in t["matchExpressions"])
            for t in terms.get("nodeSelectorTerms", [])]
    return any(fits) or not fits


class Kubelets(threading.Thread):
    """Simulates the kubelets of all nodes. manages: also simulates the controllers of DaemonSets and Deployments; if false, the test
    runs a kube-controller-manager. images: False while unirail's images cannot be pulled. seen: for each start of unirail's agent,
    (node, the names that originals(node) returned at the start)."""

    def __init__(self, cluster, folder, manages=True):
        super().__init__(daemon=True)
        self.cluster, self.folder, self.manages = cluster, folder, manages
        self.agents, self.controllers, self.seen = {}, {}, []
        self.images, self.going, self.problem = True, True, None
        self.images_seen = set()  # images of unirail's pods
        self.more = {}  # {node: more arguments of its agent}
        self.start()

    def pods(self):
        return self.cluster.ok("GET", "/api/v1/pods")["items"]

    def run(self):
        while self.going:
            try:
                pods = [p for p in self.pods() if owner(p)]
                if not self.manages:
                    self.serve(pods)
                    continue
                for kind in ("daemonsets", "deployments"):
                    for o in self.cluster.ok("GET", f"{APPS}/{kind}")["items"]:
                        self.reconcile(kind, o, [p for p in pods if owner(p) == owner_name(kind, o) and
                                                 p["metadata"]["namespace"] == o["metadata"]["namespace"]])
                remaining = {owner_name(k, o) for k in ("daemonsets", "deployments") for o in self.cluster.ok("GET", f"{APPS}/{k}")["items"]}
                for pod in pods:
                    if owner(pod) not in remaining:
                        self.end(pod)
                    else:
                        self.inspect(pod)
            except (OSError, AssertionError, ValueError, KeyError) as e:
                self.problem = e  # the object was changed or deleted: the next round reads it again
            time.sleep(0.2)

    def serve(self, pods):
        """Simulates kubelets and a scheduler: a DaemonSet's pods run on the node that its controller names, a Deployment's pods on n1."""
        for pod in pods:
            meta, spec = pod["metadata"], pod["spec"]
            if meta.get("deletionTimestamp"):
                self.end(pod)
            elif "nodeName" in spec:
                self.inspect(pod)
            else:
                terms = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
                names = [f["values"][0] for t in terms.get("nodeSelectorTerms", []) for f in t.get("matchFields", [])]
                self.cluster.request("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding",
                                     {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": (names or ["n1"])[0]}})
        time.sleep(0.2)

    def reconcile(self, kind, o, pods):
        meta, template = o["metadata"], o["spec"]["template"]
        if kind == "daemonsets":
            want = [n["metadata"]["name"] for n in self.cluster.ok("GET", "/api/v1/nodes")["items"] if selects(template, n)]
        else:
            want = ["n1", "n2"][:o["spec"]["replicas"]]
        ready = 0
        for p in pods:
            if p["spec"]["nodeName"] in want and p["metadata"]["labels"].get("generation") == str(meta["generation"]):
                want.remove(p["spec"]["nodeName"])
                ready += is_ready(p)
            elif p["spec"]["nodeName"] not in want or kind == "daemonsets":
                self.end(p)  # the node is no longer selected or already has a current pod, or the DaemonSet has changed
        for node in want:
            spec = {"nodeName": node, "containers": [{"name": c["name"], "image": c["image"], "args": c.get("args", [])}
                                                     for c in template["spec"]["containers"]],
                    "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
            self.cluster.ok("POST", f"/api/v1/namespaces/{meta['namespace']}/pods", {"spec": spec, "metadata": {
                "generateName": f"{meta['name']}-", "labels": {**template["metadata"]["labels"], "generation": str(meta["generation"])},
                "ownerReferences": [{"apiVersion": "apps/v1", "controller": True, "uid": meta["uid"], "name": owner_name(kind, o),
                                     "kind": "DaemonSet" if kind == "daemonsets" else "ReplicaSet"}]}})
        count = {"observedGeneration": meta["generation"], **({
            "desiredNumberScheduled": len(pods) + len(want), "numberReady": ready, "currentNumberScheduled": len(pods), "numberMisscheduled": 0}
            if kind == "daemonsets" else {"readyReplicas": ready, "replicas": len(pods)})}
        if any(o.get("status", {}).get(k, 0) != v for k, v in count.items()):
            self.cluster.ok("PATCH", f"{APPS}/namespaces/{meta['namespace']}/{kind}/{meta['name']}/status", {"status": count}, type=MERGE)

    def end(self, pod):
        for processes in (self.agents, self.controllers):
            if pod["metadata"]["uid"] in processes:
                processes.pop(pod["metadata"]["uid"]).stop()
        self.cluster.request("DELETE", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}",
                             {"gracePeriodSeconds": 0})

    @staticmethod
    def program(pod):
        c = pod["spec"]["containers"][0]
        return c.get("args", [""])[0] if c["image"].split("/")[-1].startswith("unirail") else ""

    def inspect(self, pod):
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        node = pod["spec"].get("nodeName")
        if meta.get("deletionTimestamp"):
            self.end(pod)
        elif not node:
            terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
            fields = [f["values"][0] for t in terms.get("nodeSelectorTerms", []) for f in t.get("matchFields", [])]
            self.cluster.request("POST", f"{path}/binding", {"target": {"kind": "Node", "name": fields[0] if fields else "n1"}})
        elif not is_ready(pod):
            if self.begin(pod, node):
                self.cluster.request("PATCH", f"{path}/status", {"status": {
                    "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}, type=MERGE)

    def begin(self, pod, node):
        uid, program = pod["metadata"]["uid"], self.program(pod)
        if program and not self.images:
            return False
        if program:
            self.images_seen.add(pod["spec"]["containers"][0]["image"])
        if program == "agent":
            if uid not in self.agents:
                self.seen.append((node, sorted(self.originals(node))))
                self.agents[uid] = Agent(self.folder / node, self.cluster.admin_config(), node).start(
                    "--reuse-delay", "0s", *self.more.get(node, ()), ready=False)
            return self.agents[uid].get(self.agents[uid].health, "/readyz")[0] == 200
        if program == "controller":
            if uid not in self.controllers:
                self.controllers[uid] = Controller(self.folder / f"c-{uid[:6]}", self.cluster.admin_config(), "unirail").start(
                    "--gc-grace", "1s", ready=False)
            return self.controllers[uid].get(self.controllers[uid].health, "/readyz")[0] == 200
        return True

    def originals(self, node):
        """Names of the DaemonSets kube-multus-ds and spiderpool-rdma-shared-device-plugin if they have a pod on the node, and of
        spiderpool-agent if it has a pod on any node."""
        found = set()
        for p in self.pods():
            if owner(p) == "spiderpool-agent" or p["spec"].get("nodeName") == node and owner(p) in (
                    "kube-multus-ds", "spiderpool-rdma-shared-device-plugin"):
                found.add(owner(p))
        return found

    def agent(self, node):
        return next(a for a in self.agents.values() if a.node == node)

    def close(self):
        self.going = False
        self.join()
        for processes in (self.agents, self.controllers):
            for p in processes.values():
                p.close()


def running(cluster, name, n):
    """Waits until n pods of a DaemonSet or Deployment are ready."""
    def there():
        found = [p for p in cluster.ok("GET", "/api/v1/pods")["items"] if re.fullmatch(f"{name}(-[a-z0-9]+)?", owner(p)) and is_ready(p)]
        assert len(found) == n, [p["metadata"]["name"] for p in found]
        return True
    wait(there, f"{n} pods of {name} are ready", 60)
