# SPDX-License-Identifier: Apache-2.0
"""The SpiderCoordinator's status: the CIDRs of pods and services, from each possible source."""
import time

import pytest

from agents import CRD_PATH, MERGE, SPIDER, install_crds
from cluster import KUBE, wait
from controllers import Controller

PATH = f"{SPIDER}/spidercoordinators"
KUBEADM = ("networking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16,fd00:10:244::/56\n"
           "  serviceSubnet: 10.96.0.0/16\n")
SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
CALICO = "/apis/crd.projectcalico.org/v1/ippools"
CILIUM = "/apis/cilium.io/v2alpha1/ciliumpodippools"


@pytest.fixture(scope="module", autouse=True)
def crds(cluster):
    install_crds(cluster)
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})


def define(cluster, group, version, plural, kind, scope="Cluster"):
    """Creates the CRD of a kind of another project; its objects may have any fields."""
    cluster.ok("POST", CRD_PATH, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
                 "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
    wait(lambda: cluster.request("GET", f"/apis/{group}/{version}/{plural}")[0] == 200, f"the API server serves {plural}.{group}")


def services(*elsewhere):
    """The services' CIDRs that the status must have: on 1.20 `elsewhere`, the CIDRs of other sources; on 1.34 the CIDR of the
    ServiceCIDR object, which takes precedence."""
    return list(elsewhere) if KUBE == "1.20" else ["10.96.0.0/16"]


class Lab:
    def __init__(self, cluster, ns, folder):
        self.cluster, self.ns, self.cni = cluster, ns, folder / "net.d"
        self.cni.mkdir()
        self.made = []
        cluster.request("DELETE", f"{PATH}/default")
        wait(lambda: cluster.request("GET", f"{PATH}/default")[0] == 404, "the SpiderCoordinator is deleted")

    def close(self):
        for path in reversed(self.made):
            self.cluster.request("DELETE", path)

    def make(self, path, body):
        o = self.cluster.ok("POST", path, body)
        self.made.append(f"{path}/{o['metadata']['name']}")
        return self.made[-1]

    def config_map(self, name, **data):
        return self.make("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": name}, "data": data})

    def pool(self, path, name, **spec):
        group = path.split("/")[2] + "/" + path.split("/")[3]
        kind = "IPPool" if path == CALICO else "CiliumPodIPPool"
        return self.make(path, {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def coordinator(self, type):
        return self.make(PATH, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
                                "metadata": {"name": "default"}, "spec": {"podCIDRType": type}})

    def status(self):
        return self.cluster.ok("GET", f"{PATH}/default").get("status", {})

    def says(self, phase, pods, services, seconds=30):
        want = {"phase": phase, "overlayPodCIDR": pods, "serviceCIDR": services}
        try:
            wait(lambda: {k: self.status().get(k) for k in want} == want, f"the coordinator's status has {want}", seconds)
        except AssertionError as e:
            raise AssertionError(self.status()) from e
        return self.status().get("reason", "")


@pytest.fixture
def lab(cluster, ns, closing, tmp_path):
    return closing(Lab(cluster, ns, tmp_path))


@pytest.fixture
def start(cluster, ns, lab, closing, tmp_path):
    """A controller whose node's CNI directory is lab.cni."""
    def run(name="c"):
        c = Controller(tmp_path / name, cluster.admin_config(), ns, name)
        return closing(c).start("--cni-config-dir", lab.cni).leads(40)
    return run


def test_cidrs_of_kubeadm_are_found(cluster, lab, start):
    lab.config_map("kubeadm-config", ClusterConfiguration=KUBEADM)
    lab.coordinator("cluster")
    c = start()
    pods = ["10.244.0.0/16", "fd00:10:244::/56"]
    assert lab.says("Synced", pods, ["10.96.0.0/16"]) == ""
    # The status follows a change of ConfigMap kubeadm-config, and is restored when another client overwrites the status; a correct status
    # is not written again.
    cluster.ok("PATCH", "/api/v1/namespaces/kube-system/configmaps/kubeadm-config",
               {"data": {"ClusterConfiguration": KUBEADM.replace("10.96.", "10.97.")}}, type=MERGE)
    lab.says("Synced", pods, services("10.97.0.0/16"))
    cluster.ok("PATCH", f"{PATH}/default/status", {"status": {"phase": "NotReady", "overlayPodCIDR": None}}, type=MERGE)
    lab.says("Synced", pods, services("10.97.0.0/16"))
    version = cluster.ok("GET", f"{PATH}/default")["metadata"]["resourceVersion"]
    writes = c.metrics()["unirail_coordinator_writes_total"]
    time.sleep(2)
    assert c.metrics()["unirail_coordinator_writes_total"] == writes
    assert cluster.ok("GET", f"{PATH}/default")["metadata"]["resourceVersion"] == version


def test_cidrs_without_kubeadm_are_found(cluster, lab, start):
    """The phase is Synced even while no source has the CIDRs (with Spiderpool, pods would wait forever). CIDRs that are added later are
    found."""
    lab.coordinator("none")
    start()
    assert ("services' CIDRs are not known" in lab.says("Synced", [], services())) == (KUBE == "1.20")
    cluster.ok("PATCH", f"{PATH}/default", {"spec": {"podCIDRType": "cluster"}}, type=MERGE)
    wait(lambda: "pods' CIDRs are not known" in lab.says("Synced", [], services()),
         "the coordinator reports that the pods' CIDRs are not known")
    events = cluster.ok("GET", "/api/v1/namespaces/default/events")["items"]
    assert any(e["reason"] == "CIDRNotKnown" for e in events), events
    for i in range(4):
        lab.make("/api/v1/nodes", {"metadata": {"name": f"cidr-{i}"}, "spec": {
            "podCIDR": f"10.50.{i}.0/24", "podCIDRs": [f"10.50.{i}.0/24"]}})
    lab.says("Synced", ["10.50.0.0/22"], services())
    lab.make("/api/v1/namespaces/kube-system/pods", {
        "metadata": {"name": "kube-controller-manager-x", "labels": {"component": "kube-controller-manager"}},
        "spec": {"nodeName": "x", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
                 "containers": [{"name": "c", "image": "i", "command": [
                     "kube-controller-manager", "--cluster-cidr=10.60.0.0/16",
                     "--service-cluster-ip-range=10.61.0.0/16,fd00:61::/108"]}]}})
    assert lab.says("Synced", ["10.60.0.0/16"], services("10.61.0.0/16", "fd00:61::/108")) == ""


@pytest.mark.kube("1.34")
def test_service_cidrs_of_servicecidr_objects_are_found(cluster, lab, start):
    """The status has the ranges from which the API server allocates Service addresses, and follows created and deleted ServiceCIDR
    objects."""
    lab.config_map("kubeadm-config", ClusterConfiguration=KUBEADM.replace("10.96.", "10.97."))
    (lab.cni / "10-calico.conflist").write_text('{"name": "k8s-pod-network", "plugins": [{"type": "calico"}]}')
    lab.coordinator("auto")
    start()
    pods = ["10.244.0.0/16", "fd00:10:244::/56"]
    assert lab.says("Synced", pods, ["10.96.0.0/16"]) == ""
    more = lab.make(SERVICE_CIDRS, {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                                    "metadata": {"name": "more"}, "spec": {"cidrs": ["10.112.0.0/24"]}})
    wait(lambda: sorted(lab.status().get("serviceCIDR", [])) == ["10.112.0.0/24", "10.96.0.0/16"],
         "both service CIDRs are in the coordinator's status")
    cluster.ok("DELETE", more)
    cluster.request("PATCH", more, {"metadata": {"finalizers": None}}, type=MERGE)
    lab.says("Synced", pods, ["10.96.0.0/16"])


def test_pod_cidrs_of_calico_are_found(cluster, lab, start):
    lab.config_map("kubeadm-config", ClusterConfiguration=KUBEADM)
    lab.coordinator("calico")
    start()
    assert "Calico's IPPools do not exist or cannot be read" in lab.says("NotReady", [], [])
    # With podCIDRType auto, the controller detects Calico from the node's CNI configuration; while Calico's IPPools cannot be read, it uses
    # kubeadm's CIDRs.
    (lab.cni / "10-calico.conflist").write_text('{"name": "k8s-pod-network", "plugins": [{"type": "calico"}]}')
    cluster.ok("PATCH", f"{PATH}/default", {"spec": {"podCIDRType": "auto"}}, type=MERGE)
    lab.says("Synced", ["10.244.0.0/16", "fd00:10:244::/56"], ["10.96.0.0/16"])
    define(cluster, "crd.projectcalico.org", "v1", "ippools", "IPPool")
    lab.pool(CALICO, "b", cidr="10.70.0.0/16", disabled=True)
    lab.says("Synced", ["10.70.0.0/16"], ["10.96.0.0/16"], 60)  # a missing kind is requested again about every 30 s
    time.sleep(1.1)  # the status has the older pool first; creation times are in seconds
    path = lab.pool(CALICO, "a", cidr="fd00:70::/48")
    lab.says("Synced", ["10.70.0.0/16", "fd00:70::/48"], ["10.96.0.0/16"], 3)
    cluster.ok("DELETE", path)
    lab.says("Synced", ["10.70.0.0/16"], ["10.96.0.0/16"], 3)


def test_pod_cidrs_of_cilium_are_found(cluster, lab, start):
    lab.config_map("kubeadm-config", ClusterConfiguration=KUBEADM)
    conf = lab.config_map("cilium-config", ipam="cluster-pool", **{"cluster-pool-ipv4-cidr": "10.80.0.0/16",
                                                                    "cluster-pool-ipv6-cidr": "fd00:80::/104"})
    (lab.cni / "05-cilium.conflist").write_text('{"name": "cilium", "plugins": [{"type": "cilium-cni"}]}')
    lab.coordinator("auto")
    start()
    lab.says("Synced", ["10.80.0.0/16", "fd00:80::/104"], ["10.96.0.0/16"])
    define(cluster, "cilium.io", "v2alpha1", "ciliumpodippools", "CiliumPodIPPool")
    lab.pool(CILIUM, "p", ipv4={"cidrs": ["10.81.0.0/16"], "maskSize": 24})
    cluster.ok("PATCH", conf, {"data": {"ipam": "multi-pool"}}, type=MERGE)
    lab.says("Synced", ["10.81.0.0/16"], ["10.96.0.0/16"])
    cluster.ok("PATCH", conf, {"data": {"ipam": "kubernetes"}}, type=MERGE)
    lab.says("Synced", ["10.244.0.0/16", "fd00:10:244::/56"], ["10.96.0.0/16"])
    cluster.ok("PATCH", f"{PATH}/default", {"spec": {"podCIDRType": "cilium"}}, type=MERGE)
    cluster.ok("PATCH", conf, {"data": {"ipam": "eni"}}, type=MERGE)
    assert "set podCIDRType to none" in lab.says("NotReady", [], [])


def test_coordinator_with_a_finalizer_of_spiderpool_can_be_deleted(cluster, lab, start):
    """The object has Spiderpool's finalizer, which the controller removes, since no process of Spiderpool runs."""
    lab.coordinator("none")
    cluster.ok("PATCH", f"{PATH}/default", {"metadata": {"finalizers": ["spiderpool.spidernet.io"]}}, type=MERGE)
    start()
    cluster.ok("DELETE", f"{PATH}/default")
    wait(lambda: cluster.request("GET", f"{PATH}/default")[0] == 404, "the SpiderCoordinator is deleted")
