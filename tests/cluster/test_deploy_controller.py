# SPDX-License-Identifier: Apache-2.0
"""deploy/controller.yaml, applied by kubectl: the controller works with it, and it grants nothing that is not used."""
import pytest

from agents import MERGE, SPIDER
from audit import Audited
from cluster import wait
from controllers import Controller

NAME = "multus.spidernet.io/cr-name"


@pytest.fixture(scope="module")
def controllers():
    one = Audited("unirail-controller", "controller.yaml")
    yield one
    one.close()


def use_nads(cluster):
    """One is made, mended, and removed when its name changes; a definition that cannot be made is told twice."""
    path = f"{SPIDER}/namespaces/t/spidermultusconfigs"
    nads = "/apis/k8s.cni.cncf.io/v1/namespaces/t/network-attachment-definitions"
    cluster.ok("POST", path, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
                              "metadata": {"name": "m"}, "spec": {"cniType": "macvlan", "macvlan": {"master": ["e"]}}})
    wait(lambda: cluster.request("GET", f"{nads}/m")[0] == 200)
    for _ in range(2):  # the same event twice is counted up
        cluster.ok("PATCH", f"{nads}/m", {"spec": {"config": "{}"}}, type=MERGE)
        wait(lambda: cluster.ok("GET", f"{nads}/m")["spec"]["config"] != "{}")
    cluster.ok("PATCH", f"{path}/m", {"metadata": {"annotations": {NAME: "n"}}}, type=MERGE)
    wait(lambda: cluster.request("GET", f"{nads}/m")[0] == 404)
    wait(lambda: cluster.ok("GET", f"{path}/m")["status"]["nad"] == "n")
    wait(lambda: any(e["count"] > 1 for e in cluster.ok("GET", "/api/v1/namespaces/t/events")["items"]))


def use_subnets(cluster):
    """A pool for an application is made, grows, shrinks, and goes with it and with its subnet."""
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
        return [p["spec"]["ips"] for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]]
    wait(lambda: pools() == [["10.6.0.2-10.6.0.3"]])
    cluster.ok("PATCH", f"{apps}/x", {"spec": {"replicas": 3}}, type=MERGE)
    wait(lambda: pools() == [["10.6.0.2-10.6.0.4"]])
    cluster.ok("PATCH", f"{apps}/x", {"spec": {"replicas": 1}}, type=MERGE)
    wait(lambda: pools() == [["10.6.0.4"]])
    wait(lambda: "held" not in noted())
    cluster.ok("DELETE", f"{apps}/x", {"propagationPolicy": "Background"})
    wait(lambda: pools() == [] or cluster.ok("GET", f"{SPIDER}/spiderippools")["items"][0]["metadata"].get(
        "deletionTimestamp"))
    cluster.ok("DELETE", f"{SPIDER}/spidersubnets/s")
    for p in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]:
        cluster.request("PATCH", f"{SPIDER}/spiderippools/{p['metadata']['name']}",
                        {"metadata": {"finalizers": None}}, type=MERGE)
    wait(lambda: cluster.request("GET", f"{SPIDER}/spidersubnets/s")[0] == 404)


def test_the_controllers_permissions(controllers, closing, tmp_path):
    controllers.apply()
    cluster = controllers.cluster
    cluster.namespace("t")
    conf = controllers.config(tmp_path / "conf")
    c = closing(Controller(tmp_path / "c", conf, "unirail", UNIRAIL_SUBNET_REST="1s")).start().leads()
    use_nads(cluster)
    use_subnets(cluster)
    assert c.stop() == 0
    controllers.check()


def test_the_deployment(controllers):
    """What the API server made of it: no privilege at all."""
    o = controllers.cluster.ok("GET", "/apis/apps/v1/namespaces/unirail/deployments/unirail-controller")
    spec = o["spec"]["template"]["spec"]
    assert o["spec"]["replicas"] == 2 and not spec.get("hostPID")
    for c in spec["containers"]:
        may = c["securityContext"]
        assert not may.get("privileged") and not may["allowPrivilegeEscalation"] and may["readOnlyRootFilesystem"]
        assert may["capabilities"] == {"drop": ["ALL"]}
