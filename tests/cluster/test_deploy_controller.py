# SPDX-License-Identifier: Apache-2.0
"""deploy/controller.yaml, applied by kubectl: the controller works with its permissions, and uses all of them."""
import os
import pathlib
import tempfile

import pytest
import yaml

from agents import BLOCKS, MERGE, SPIDER, Agent, Nodes
from audit import DEPLOY, Audited
from cluster import free_port, wait
from controllers import Controller
from test_coordinators import define

NAME = "multus.spidernet.io/cr-name"


@pytest.fixture(scope="module")
def controllers():
    one = Audited("unirail-controller", "controller.yaml")
    yield one
    one.close()


def use_nads(cluster):
    """The controller creates a NetworkAttachmentDefinition, restores it twice (one event), and deletes it when the SpiderMultusConfig's
    annotation sets another name."""
    path = f"{SPIDER}/namespaces/t/spidermultusconfigs"
    nads = "/apis/k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions"
    cluster.ok("POST", path, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
                              "metadata": {"name": "m"}, "spec": {"cniType": "macvlan", "macvlan": {"master": ["e"]}}})
    wait(lambda: cluster.request("GET", f"{nads}/m")[0] == 200, "NetworkAttachmentDefinition m is created")
    for _ in range(2):  # a repeated event increments the count
        cluster.ok("PATCH", f"{nads}/m", {"spec": {"config": "{}"}}, type=MERGE)
        wait(lambda: cluster.ok("GET", f"{nads}/m")["spec"]["config"] != "{}", "NetworkAttachmentDefinition m is restored")
    cluster.ok("PATCH", f"{path}/m", {"metadata": {"annotations": {NAME: "n"}}}, type=MERGE)
    wait(lambda: cluster.request("GET", f"{nads}/m")[0] == 404, "NetworkAttachmentDefinition m is deleted")
    wait(lambda: cluster.ok("GET", f"{path}/m")["status"]["nad"] == "n", "the status of SpiderMultusConfig m names its new definition")
    wait(lambda: any(e["count"] > 1 for e in cluster.ok("GET", "/api/v1/namespaces/t/events")["items"]), "an event is counted twice")


def use_subnets(cluster):
    """The controller creates a pool for an application, and grows, shrinks and deletes it with the application. The subnet is deleted
    last."""
    apps = "/apis/apps/v1/namespaces/t/deployments"
    cluster.ok("POST", f"{SPIDER}/spidersubnets", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet",
        "metadata": {"name": "s", "finalizers": ["spiderpool.spidernet.io"]},
        "spec": {"subnet": "10.6.0.0/24", "ips": ["10.6.0.2-10.6.0.9"]}})
    cluster.ok("POST", apps, {
        "metadata": {"name": "x"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "x"}}, "template": {
            "metadata": {"labels": {"a": "x"},
                         "annotations": {"ipam.spidernet.io/subnet": '{"ipv4":["s"]}'}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})

    def noted():
        return cluster.ok("GET", f"{SPIDER}/spidersubnets/s").get("status", {}).get("controlledIPPools", "")

    def pools():
        return [p["spec"]["ips"] for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]
                if p["metadata"]["name"].startswith("auto")]
    wait(lambda: pools() == [["10.6.0.2-10.6.0.3"]], "the pool has two addresses")
    cluster.ok("PATCH", f"{apps}/x", {"spec": {"replicas": 3}}, type=MERGE)
    wait(lambda: pools() == [["10.6.0.2-10.6.0.4"]], "the pool has three addresses")
    cluster.ok("PATCH", f"{apps}/x", {"spec": {"replicas": 1}}, type=MERGE)
    wait(lambda: pools() == [["10.6.0.4"]], "the pool has the reserved address only")
    wait(lambda: "pendingRelease" not in noted(), "the subnet holds no addresses for the application")
    cluster.ok("DELETE", f"{apps}/x", {"propagationPolicy": "Background"})
    wait(lambda: pools() == [] or cluster.ok("GET", f"{SPIDER}/spiderippools")["items"][0]["metadata"].get(
        "deletionTimestamp"), "the pool is deleted")
    cluster.ok("DELETE", f"{SPIDER}/spidersubnets/s")
    for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]:
        cluster.request("PATCH", f"{SPIDER}/spiderippools/{p['metadata']['name']}",
                        {"metadata": {"finalizers": None}}, type=MERGE)
    wait(lambda: cluster.request("GET", f"{SPIDER}/spidersubnets/s")[0] == 404, "the SpiderSubnet is deleted")


def use_addresses(cluster):
    """Creates what the controller must release: a record of a deleted pod in a pool's status, a block and an endpoint of a deleted node,
    and a block without an owner that has a retained address."""
    nodes = Nodes(cluster)
    nodes.pool("p", "172.16.1.0/24")
    cluster.ok("PATCH", f"{SPIDER}/spiderippools/p/status", {"status": {
        "allocatedIPs": '{"172.16.1.20":{"pod":"t/web-0","podUid":"u"}}', "allocatedIPCount": 1}}, type=MERGE)
    for i, owner, released in ((1, "gone", {}), (2, "-", {"172.16.1.33": "@-"})):
        cluster.ok("POST", BLOCKS, {
            "apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock",
            "metadata": {"name": f"p-{i}", "labels": {"unirail.io/node": "gone", "unirail.io/pool": "p"}},
            "spec": {"pool": "p", "cidr": f"172.16.1.{i * 16}/28", "node": owner, "nodeUID": "u", "claim": owner,
                     "released": released, "requested": {}}})
    cluster.ok("POST", f"{SPIDER}/namespaces/t/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": "web-0", "finalizers": ["spiderpool.spidernet.io"]},
        "status": {"current": {"uid": "u", "node": "gone", "ips": []}, "ownerControllerType": "StatefulSet",
                   "ownerControllerName": "web"}})


def addresses_are_released(cluster):
    nodes = Nodes(cluster)
    assert not nodes.blocks() and not nodes.endpoint("t", "web-0")
    assert cluster.ok("GET", f"{SPIDER}/spiderippools/p")["status"] == {"totalIPCount": 241, "allocatedIPCount": 0}
    return True


def use_webhooks(cluster, c):
    """The controller registers both webhooks again after their removal, and repairs the certificate's Secret. It admits two pools, one
    after the other."""
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unirail-controller"
        wait(lambda: cluster.ok("GET", path).get("webhooks"), "the webhooks are registered")
        cluster.ok("PATCH", path, {"webhooks": []}, type=MERGE)
        wait(lambda: cluster.ok("GET", path).get("webhooks"), "the webhooks are registered again")
    secret = "/api/v1/namespaces/unirail/secrets/unirail-controller-certs"
    cluster.ok("PATCH", secret, {"data": {"tls.key": ""}}, type=MERGE)
    wait(lambda: cluster.ok("GET", secret)["data"]["tls.key"], "the Secret has a key")
    for i in (1, 2):
        wait(lambda: cluster.request("POST", f"{SPIDER}/spiderippools", {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": f"w{i}"},
            "spec": {"subnet": f"172.20.{i}.0/24", "ips": [f"172.20.{i}.9"]}})[0] == 201, f"pool w{i} is admitted")
    assert c.stop() == 0


def use_coordinators(cluster):
    """The controller reads the CIDRs of Calico, Cilium and the Nodes, and removes Spiderpool's finalizer from a deleted coordinator."""
    path = f"{SPIDER}/spidercoordinators"
    define(cluster, "crd.projectcalico.org", "v1", "ippools", "IPPool")
    define(cluster, "cilium.io", "v2alpha1", "ciliumpodippools", "CiliumPodIPPool")
    cluster.ok("POST", "/apis/crd.projectcalico.org/v1/ippools", {
        "apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool", "metadata": {"name": "p"},
        "spec": {"cidr": "10.70.0.0/16"}})
    cluster.ok("POST", "/apis/cilium.io/v2alpha1/ciliumpodippools", {
        "apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": "p"},
        "spec": {"ipv4": {"cidrs": ["10.81.0.0/16"]}}})
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    cluster.config_map("kube-system", "cilium-config", {"ipam": "multi-pool"})
    cluster.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {
        "podCIDR": "10.50.0.0/24", "podCIDRs": ["10.50.0.0/24"]}})
    cluster.request("DELETE", f"{path}/default")
    wait(lambda: cluster.request("POST", path, {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
        "metadata": {"name": "default", "finalizers": ["spiderpool.spidernet.io"]},
        "spec": {"podCIDRType": "none"}})[0] == 201, "the SpiderCoordinator is admitted")
    for type, pods in (("calico", "10.70.0.0/16"), ("cilium", "10.81.0.0/16"), ("cluster", "10.50.0.0/24")):
        cluster.ok("PATCH", f"{path}/default", {"spec": {"podCIDRType": type}}, type=MERGE)
        wait(lambda: cluster.ok("GET", f"{path}/default").get("status", {}).get("overlayPodCIDR") == [pods],
             f"the coordinator's status has the pod CIDR {pods}")
    cluster.ok("DELETE", f"{path}/default")
    wait(lambda: cluster.request("GET", f"{path}/default")[0] == 404, "the SpiderCoordinator is deleted")


# Permissions that need not be used: Kubernetes 1.20 has no ServiceCIDRs, and only the API server itself checks the permission for
# finalizers.
BUT = {("networking.k8s.io", "servicecidrs", "watch"),
       *(("spiderpool.spidernet.io", f"{kind}/finalizers", "update") for kind in ("spidermultusconfigs", "spidersubnets"))}


def test_controller_works_with_its_deployed_permissions(controllers, closing, tmp_path):
    controllers.apply()
    cluster = controllers.cluster
    cluster.namespace("t")
    conf = controllers.config(tmp_path / "conf")
    use_addresses(cluster)
    net = tmp_path / "net.d"
    net.mkdir()
    (net / "10-x.conflist").write_text('{"name": "cluster-network", "plugins": []}')
    c = closing(Controller(tmp_path / "c", conf, "unirail", UNIRAIL_SUBNET_REUSE_DELAY="1s")).start(
        "--gc-grace", "1s", "--default-coordinator", "yes", "--default-network", "yes", "--cni-config-dir", net,
        "--default-ipv4-subnet", "given", "--default-ipv4-pool", "given", "--default-ipv4-cidr", "172.29.0.0/24",
        "--default-ipv4-ips", "172.29.0.2-172.29.0.9").leads()
    wait(lambda: cluster.request("GET", f"{SPIDER}/spiderippools/given")[0] == 200, "pool given is created")
    use_nads(cluster)
    use_subnets(cluster)
    wait(lambda: addresses_are_released(cluster), "the record, the blocks and the endpoint are released", 60)
    use_coordinators(cluster)
    assert c.stop() == 0
    use_webhooks(cluster, closing(Controller(tmp_path / "w", conf, "unirail")))
    controllers.check(BUT)


@pytest.fixture
def accessible(closing):
    """A directory that every user of the machine may enter."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        path.chmod(0o755)
        yield path


def test_controller_runs_without_root(controllers, closing, accessible):
    """The controller runs as in its manifest: as a user other than root, without capabilities. Only root can read Calico's configuration,
    so the controller gets the network's name from a file that the agent writes."""
    cluster = controllers.cluster
    controllers.apply()
    may = next(security_of(o) for o in manifests("controller.yaml") if o["kind"] == "Deployment")
    assert may["runAsNonRoot"] and may["runAsUser"] > 0
    net = accessible / "net.d"
    net.mkdir()
    for name, text in (("10-calico.conflist", '{"name": "k8s-pod-network", "plugins": [{"type": "calico"}]}'),
                       ("20-other.conflist", '{"name": "cbr0", "plugins": [{"type": "flannel"}]}')):
        (net / name).write_text(text)
    (net / "10-calico.conflist").chmod(0o600)
    for path in (f"{SPIDER}/spidercoordinators/default", f"{SPIDER}/namespaces/unirail/spidermultusconfigs/calico"):
        cluster.request("DELETE", path)
        wait(lambda: cluster.request("GET", path)[0] == 404, f"{path} is deleted")
    conf = controllers.config(accessible / "conf")
    for path in (conf, accessible / "conf.token"):
        os.chown(path, may["runAsUser"], may["runAsGroup"])
    c = closing(Controller(accessible / "c", conf, "unirail"))
    c.conf.touch()
    c.before = ("setpriv", f"--reuid={may['runAsUser']}", f"--regid={may['runAsGroup']}", "--clear-groups", "--bounding-set=-all",
                "--inh-caps=-all", "--no-new-privs")
    c.webhook_port = free_port()
    published = accessible / "a" / "public" / "cluster-network"
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s", "--cni-config-dir", net, "--default-network",
            "yes", "--default-coordinator", "yes", "--cluster-network-file", published).leads()
    assert f"Uid:\t{may['runAsUser']}" in pathlib.Path(f"/proc/{c.process.pid}/status").read_text()
    c.wait_logged(f"'{net}/10-calico.conflist' is readable by root only")
    smcs = f"{SPIDER}/namespaces/unirail/spidermultusconfigs"
    assert not [o for o in cluster.ok("GET", smcs)["items"] if o["metadata"]["name"] in ("cbr0", "calico")]
    nodes = Nodes(cluster)
    nodes.node("n1")
    agent = closing(Agent(accessible / "a", cluster.admin_config(), "n1"))
    agent.start("--cni-conf-dir", net)
    assert published.read_text() == "k8s-pod-network\n"
    wait(lambda: cluster.request("GET", f"{smcs}/calico")[0] == 200, "SpiderMultusConfig calico is created")
    wait(lambda: cluster.ok("GET", f"{SPIDER}/spidercoordinators/default").get("status", {}).get("phase"),
         "the SpiderCoordinator has a phase")
    assert agent.stop() == 0 and c.stop() == 0


def webhooks(cluster):
    return [cluster.ok("GET", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unirail-controller").get("webhooks")
            for kind in ("mutating", "validating")]


OWN = {"lease": "/apis/coordination.k8s.io/v1/namespaces/unirail/leases/unirail-controller",
       "certificate": "/api/v1/namespaces/unirail/secrets/unirail-controller-certs",
       "ca": "/api/v1/namespaces/unirail/secrets/unirail-controller-ca",
       "token": "/api/v1/namespaces/unirail/secrets/unirail-controller-token",
       "claims": "/api/v1/namespaces/unirail/configmaps/unirail-claims"}


def contents(cluster):
    """The data of the controller's own objects, which deploy/controller.yaml creates empty."""
    own = {what: cluster.ok("GET", path) for what, path in OWN.items()}
    return {what: o.get("spec") or o.get("data") for what, o in own.items()}


def test_second_apply_of_the_manifest_leaves_data_of_the_controller(controllers):
    """The contents of webhooks, Lease, Secrets and claims from the previous test stay, and kubectl reports the manifest as `unchanged`."""
    cluster = controllers.cluster
    before = webhooks(cluster), contents(cluster)
    assert all(before[0]) and all(before[1].values()), before
    controllers.apply()
    assert (webhooks(cluster), contents(cluster)) == before


def serving(controllers, closing, folder):
    """A started controller with webhooks."""
    c = closing(Controller(folder / "s", controllers.config(folder / "conf"), "unirail"))
    c.webhook_port = free_port()
    return c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s", "--lease-retry", "200ms", ready=False)


def pool_is_taken(cluster, name):
    i = int(name[1:])
    status, answer = cluster.request("POST", f"{SPIDER}/spiderippools", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
        "spec": {"subnet": f"172.21.{i}.0/24", "ips": [f"172.21.{i}.9"]}})
    assert status in (201, 409), answer
    return True


def test_empty_objects_of_the_controller_are_filled_in(controllers, closing, tmp_path):
    """The controller fills empty objects, as in a new cluster; a Secret that an earlier release created keeps its data."""
    cluster = controllers.cluster
    controllers.apply()
    # Earlier releases let the account create these objects; RBAC cannot limit `create` to a name.
    assert not {(g, r) for g, r, v in controllers.permissions() if v == "create"} & {
        ("", "secrets"), ("", "configmaps"), ("coordination.k8s.io", "leases")}
    for path in OWN.values():
        cluster.ok("DELETE", path)
    controllers.apply()
    assert not any(contents(cluster).values())
    c = serving(controllers, closing, tmp_path).ready().leads()
    wait(lambda: pool_is_taken(cluster, "q1"), "pool q1 is admitted")
    wait(lambda: all(contents(cluster).values()), "the Lease, Secrets and claims of the controller are filled in")
    assert not c.logged("may not create"), c.log.read_text()[-3000:]
    # A user empties the Secret of the token: the controller writes a new token, and the webhook still answers.
    old = contents(cluster)["token"]
    cluster.ok("PATCH", OWN["token"], {"data": None}, type=MERGE)
    wait(lambda: contents(cluster)["token"] not in (None, old), "the token is renewed")
    wait(lambda: pool_is_taken(cluster, "q2"), "pool q2 is admitted")
    assert c.stop() == 0
    # The certificate's Secret has the form in which a controller of an earlier release created it.
    old = cluster.ok("GET", OWN["certificate"])
    cluster.ok("DELETE", OWN["certificate"])
    cluster.ok("POST", OWN["certificate"].rsplit("/", 1)[0], {
        "metadata": {k: old["metadata"][k] for k in ("name", "labels")}, "type": "kubernetes.io/tls", "data": old["data"]})
    controllers.apply()
    now = cluster.ok("GET", OWN["certificate"])
    assert now["type"] == "kubernetes.io/tls" and now["data"] == old["data"]


@pytest.mark.parametrize("what", sorted(OWN))
def test_missing_objects_of_the_controller_are_reported(controllers, closing, tmp_path, what):
    """The account has no permission to create these objects: the log (for the claims: the refusal of a pool) names the manifest to
    apply, and the controller continues once they exist."""
    cluster = controllers.cluster
    controllers.apply()
    cluster.request("DELETE", OWN[what])
    if what == "ca":  # the controller reads the CA's Secret only to sign, so the test removes the signed certificate
        cluster.ok("PATCH", OWN["certificate"], {"data": {"ca.crt": "", "tls.crt": "", "tls.key": ""}}, type=MERGE)
    c = serving(controllers, closing, tmp_path)
    if what == "claims":
        c.ready()
        refused = lambda: cluster.request("POST", f"{SPIDER}/spiderippools", {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "q9"},
            "spec": {"subnet": "172.21.9.0/24", "ips": ["172.21.9.9"]}})[1].get("message", "")
        wait(lambda: "ConfigMap 'unirail/unirail-claims' does not exist" in refused() and "kubectl apply -f deploy/controller.yaml" in refused(),
             "the refusal names the missing ConfigMap and the remedy")
    else:
        wait(lambda: c.logged("does not exist and th") and "deploy/controller.yaml" in str(c.logged("does not exist and th")),
             "the controller's log names the missing object and the remedy")
        assert not c.logged("forbidden: User"), c.logged("forbidden: User")
    controllers.apply()
    c.ready(60)
    wait(lambda: pool_is_taken(cluster, "q3"), "pool q3 is admitted")
    cluster.ok("DELETE", f"{SPIDER}/spiderippools/q3")
    # The leader removes the pool's finalizer; the next case creates the pool again.
    wait(lambda: cluster.request("GET", f"{SPIDER}/spiderippools/q3")[0] == 404, "pool q3 is deleted")
    assert c.stop() == 0


def test_missing_webhook_configurations_are_reported(controllers, closing, tmp_path):
    """The account has no permission to create these objects: a log line for each kind names the manifest to apply, as does the
    readiness, and the controller continues once the objects exist."""
    cluster = controllers.cluster
    for kind in ("mutating", "validating"):
        cluster.ok("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/unirail-controller")
    c = closing(Controller(tmp_path / "m", controllers.config(tmp_path / "conf"), "unirail"))
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s", ready=False)
    remedy = "kubectl apply -f deploy/controller.yaml"
    wait(lambda: remedy in c.get(c.health, "/readyz")[1], "the controller's readiness has the remedy")
    wait(lambda: len(c.logged(remedy)) == 2, "the remedy is logged once for each kind")
    controllers.apply()
    c.ready()
    wait(lambda: all(webhooks(cluster)), "both webhook configurations are filled in")
    assert len(c.logged(remedy)) == 2, c.logged(remedy)
    assert c.stop() == 0


def test_account_cannot_create_webhook_configurations(controllers):
    token = controllers.cluster.token("unirail", "unirail-controller")
    for kind in ("Mutating", "Validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration", "metadata": {"name": "mine"}}
        assert controllers.cluster.request("POST", path, body, token=token)[0] != 201
        controllers.cluster.ok("POST", path, body)
        assert controllers.cluster.request("PATCH", f"{path}/mine", {}, token=token, type=MERGE)[0] != 200


def test_deployment_of_the_controller_has_no_privilege(controllers):
    """The object stored by the API server has no privilege at all."""
    o = controllers.cluster.ok("GET", "/apis/apps/v1/namespaces/unirail/deployments/unirail-controller")
    spec = o["spec"]["template"]["spec"]
    assert o["spec"]["replicas"] == 2 and not spec.get("hostPID")
    assert spec["securityContext"] == {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
    for c in spec["containers"]:
        assert c["securityContext"]["capabilities"] == {"drop": ["ALL"]}


# --- every container of deploy/ ---

# Agent and installers run as root, since files on the node belong to root; two capabilities let them open and change files of other users.
FILES = {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
CAPABILITIES = {"controller.yaml": {"drop": ["ALL"]}, "agent.yaml": FILES, "uninstall/node.yaml": FILES,
                # NET_ADMIN: host preparation changes links, addresses, routes and rules of the node.
                "host/host.yaml": {**FILES, "add": [*FILES["add"], "NET_ADMIN"]}}
TOKENS = {("controller.yaml", "controller"), ("agent.yaml", "agent")}


def manifests(name):
    return [o for o in yaml.safe_load_all((DEPLOY / name).read_text()) if o]


def security_of(o):
    return o["spec"]["template"]["spec"].get("securityContext", {})


def token_volumes(spec):
    """{name: source} of the volumes with a token."""
    return {v["name"]: s["serviceAccountToken"] for v in spec["volumes"] for s in v.get("projected", {}).get("sources", ())
            if "serviceAccountToken" in s}


# tests/chart verifies that the chart renders these manifests.
@pytest.mark.parametrize("name", sorted(str(p.relative_to(DEPLOY)) for p in DEPLOY.rglob("*.yaml")
                                        if p.relative_to(DEPLOY).parts[0] != "chart"))
def test_every_container_is_restricted(name):
    """No container has a token, a writable file system or root without need."""
    pods = [o["spec"]["template"]["spec"] for o in manifests(name) if o["kind"] in ("DaemonSet", "Deployment", "Job")]
    assert bool(pods) == (name in CAPABILITIES)
    for o in manifests(name):
        assert o["kind"] != "ServiceAccount" or o["automountServiceAccountToken"] is False, o
    for spec in pods:
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostPID", "hostIPC", "shareProcessNamespace"} & set(spec)
        assert bool(spec.get("securityContext", {}).get("runAsNonRoot")) == (name == "controller.yaml")
        tokens = token_volumes(spec)
        assert all(600 <= t["expirationSeconds"] <= 7200 for t in tokens.values()), tokens
        for c in spec["containers"] + spec.get("initContainers", []):
            may = c["securityContext"]
            assert not may.get("privileged") and may["allowPrivilegeEscalation"] is False and may["readOnlyRootFilesystem"] is True
            assert may["capabilities"] == CAPABILITIES[name] and may["seccompProfile"] == {"type": "RuntimeDefault"}
            has = [m for m in c["volumeMounts"] if m["name"] in tokens]
            assert bool(has) == ((name, c["name"]) in TOKENS), (c["name"], has)
            assert all(m["readOnly"] and m["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount" for m in has)
