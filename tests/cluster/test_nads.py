# SPDX-License-Identifier: Apache-2.0
"""NetworkAttachmentDefinitions of SpiderMultusConfigs: every case of nads.yaml, applied by kubectl, and changes by users."""
import json
import pathlib
import time

import pytest
import yaml

import faulty
from agents import MERGE, SPIDER, install_crds
from cluster import wait
from controllers import Controller

NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions"
CASES = yaml.safe_load((pathlib.Path(__file__).parent / "nads.yaml").read_text())
SMC = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig"}
MACVLAN = {"cniType": "macvlan", "macvlan": {"master": ["eth0"]}}


@pytest.fixture(scope="module", autouse=True)
def crds(cluster):
    """Installs the CRDs, and deletes the SpiderMultusConfigs of other tests, whose NADs these tests would count."""
    install_crds(cluster)
    for o in cluster.ok("GET", f"{SPIDER}/spidermultusconfigs")["items"]:
        cluster.request("DELETE", f"{SPIDER}/namespaces/{o['metadata']['namespace']}/spidermultusconfigs/{o['metadata']['name']}")


def filled(v):
    """Returns v without fields whose value is an empty string; Debian's kube-apiserver reads an empty string as null where a CRD has a
    schema."""
    return {k: filled(x) for k, x in v.items() if x != ""} if isinstance(v, dict) else v


class Lab:
    def __init__(self, cluster, ns, folder):
        self.cluster, self.ns, self.folder = cluster, ns, folder
        self.path, self.smcs = NADS.format(ns), f"{SPIDER}/namespaces/{ns}/spidermultusconfigs"

    def kubectl(self, *args, stdin=None):
        return self.cluster.kubectl("-n", self.ns, *args, text=stdin)

    def apply(self, name, spec, **annotations):
        text = json.dumps({**SMC, "metadata": {"name": name, "annotations": annotations}, "spec": filled(spec)})
        return self.kubectl("apply", "-f", "-", stdin=text)

    def smc(self, name):
        return self.cluster.ok("GET", f"{self.smcs}/{name}")

    def nad(self, name):
        status, answer = self.cluster.request("GET", f"{self.path}/{name}")
        return answer if status == 200 else None

    def nads(self):
        return {o["metadata"]["name"] for o in self.cluster.ok("GET", self.path)["items"]}

    def ready(self, name):
        """Waits until the condition Ready has the object's current generation; returns the condition."""
        def inspect():
            o = self.smc(name)
            found = [c for c in o.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
            return found and found[0]["observedGeneration"] == o["metadata"]["generation"] and found[0]
        return wait(inspect, f"condition Ready of SpiderMultusConfig {name} has the current generation")

    def events(self, name):
        items = self.cluster.ok("GET", f"/api/v1/namespaces/{self.ns}/events")["items"]
        return [e for e in items if e["involvedObject"]["name"] == name]


@pytest.fixture
def lab(cluster, ns, tmp_path):
    return Lab(cluster, ns, tmp_path)


@pytest.fixture
def controller(cluster, ns, closing, tmp_path):
    return closing(Controller(tmp_path / "c", cluster.admin_config(), ns)).start().leads()


def test_nads_of_every_type_are_written(lab, controller):
    """Each case gets its own NAD name, since several cases of nads.yaml have the same name. The CNI name is x in all cases."""
    for i, case in enumerate(CASES["good"]):
        lab.apply(f"case-{i}", case["spec"], **{**case.get("annotations", {}), "multus.spidernet.io/cr-name": f"nad-{i}",
                                                "cni.spidernet.io/cniconfig-name": "x"})
    for i, case in enumerate(CASES["good"]):
        nad = wait(lambda: lab.nad(f"nad-{i}"), f"NetworkAttachmentDefinition nad-{i} is created")
        config = case.get("config")
        if config and case["spec"].get("cniType", "custom") != "custom":
            head, tail = config.split('"name":"', 1)
            config = f'{head}"name":"x",{tail.split(",", 1)[1]}'
        assert nad["spec"].get("config") == config, case["what"]
        annotations = {**case.get("gives", {}), "multus.spidernet.io/cr-name": f"nad-{i}", "cni.spidernet.io/cniconfig-name": "x"}
        found = nad["metadata"]["annotations"]
        found.pop("unirail.io/missing-resource", None)  # written after 30 s: no node has the resources of the cases
        assert found == annotations, case["what"]
        ref, = nad["metadata"]["ownerReferences"]
        assert ref == {**SMC, "name": f"case-{i}", "uid": lab.smc(f"case-{i}")["metadata"]["uid"], "controller": True,
                       "blockOwnerDeletion": True}
        assert lab.ready(f"case-{i}")["status"] == "True"
        assert lab.smc(f"case-{i}")["status"]["nad"] == f"nad-{i}"
    versions = {n: lab.nad(n)["metadata"]["resourceVersion"] for n in lab.nads()}
    writes = controller.metrics()["unirail_nads_writes_total"]
    assert writes == 2 * len(CASES["good"])
    controller.stop()
    controller.start().leads()
    time.sleep(3)  # a correct object is not written again
    assert controller.metrics()["unirail_nads_writes_total"] == 0
    assert versions == {n: lab.nad(n)["metadata"]["resourceVersion"] for n in lab.nads()}
    out = lab.kubectl("get", "smc", "case-0")
    assert "TYPE" in out and "nad-0" in out and "True" in out


def test_invalid_configurations_are_reported(lab, controller):
    for i, case in enumerate(CASES["bad"]):
        if case["what"] in ("an unknown cniType", "ovs without a bridge"):  # the API server refuses the object because of its definition
            continue
        lab.apply(f"bad-{i}", case["spec"])
        c = lab.ready(f"bad-{i}")
        assert (c["status"], c["reason"]) == ("False", "Invalid")
        assert c["message"].startswith(case["words"]), c
        event, = wait(lambda: lab.events(f"bad-{i}"), f"an event is created for bad-{i}")
        assert event["type"] == "Warning" and event["message"] == c["message"]
    assert controller.metrics()["unirail_nads_outdated"] == len(CASES["bad"]) - 2
    assert lab.nads() == set()
    since = lab.ready("bad-0")["lastTransitionTime"]
    lab.apply("bad-0", MACVLAN)
    wait(lambda: lab.nad("bad-0"), "NetworkAttachmentDefinition bad-0 is created")
    c = wait(lambda: lab.ready("bad-0")["status"] == "True" and lab.ready("bad-0"), "SpiderMultusConfig bad-0 is Ready")
    assert "message" not in c and c["lastTransitionTime"] >= since
    wait(lambda: any(e["reason"] == "NADCreated" for e in lab.events("bad-0")), "an event NADCreated is created for bad-0")


def test_nads_edited_or_deleted_by_hand_are_restored(lab, controller):
    lab.apply("m", MACVLAN, key="1")
    good = wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created")
    edits = [{"spec": {"config": "{}"}}, {"spec": {"config": None}}, {"metadata": {"annotations": {"note": "2"}}},
             {"metadata": {"annotations": {"note": None, "more": "x"}}}, {"metadata": {"ownerReferences": None}}]
    for edit in edits:
        lab.cluster.ok("PATCH", f"{lab.path}/m", edit, type=MERGE)
        began = time.monotonic()
        wait(lambda: all(lab.nad("m").get(k) == good[k] for k in ("spec",)) and all(
            lab.nad("m")["metadata"].get(k) == good["metadata"][k] for k in ("annotations", "ownerReferences")),
             "NetworkAttachmentDefinition m is restored")
        assert time.monotonic() - began < 3, edit
    # Another client's label and kubectl's annotation last-applied-configuration cause no write; the deletion of the NAD causes one.
    lab.cluster.ok("PATCH", f"{lab.path}/m", {"metadata": {"labels": {"a": "b"}, "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}, type=MERGE)
    writes = controller.metrics()["unirail_nads_writes_total"]
    lab.cluster.ok("DELETE", f"{lab.path}/m")
    again = wait(lambda: (lab.nad("m") or {"metadata": {"uid": ""}})["metadata"]["uid"] not in (
        "", good["metadata"]["uid"]) and lab.nad("m"), "NetworkAttachmentDefinition m is created again")
    assert again["spec"] == good["spec"]
    assert controller.metrics()["unirail_nads_writes_total"] == writes + 1
    assert any(e["reason"] == "NADUpdated" for e in lab.events("m"))


def test_nad_being_deleted_is_created_again_afterwards(lab, controller):
    lab.apply("m", MACVLAN)
    old = wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created")
    lab.cluster.ok("PATCH", f"{lab.path}/m", {"metadata": {"finalizers": ["example.com/x"]}}, type=MERGE)
    lab.cluster.ok("DELETE", f"{lab.path}/m")
    wait(lambda: lab.ready("m")["reason"] == "Terminating", "SpiderMultusConfig m has the reason Terminating")
    lab.cluster.ok("PATCH", f"{lab.path}/m", {"metadata": {"finalizers": None}}, type=MERGE)
    wait(lambda: lab.nad("m") and lab.nad("m")["metadata"]["uid"] != old["metadata"]["uid"],
         "NetworkAttachmentDefinition m is created again")
    wait(lambda: lab.ready("m")["status"] == "True", "SpiderMultusConfig m is Ready")


def test_changed_name_moves_the_nad(lab, controller):
    """unirail deletes the NAD with the old name; Spiderpool's controller does not delete it."""
    key = "multus.spidernet.io/cr-name"
    lab.apply("m", MACVLAN)
    wait(lambda: lab.nads() == {"m"}, "only NetworkAttachmentDefinition m exists")
    for name in ("a", "b", None):
        lab.cluster.ok("PATCH", f"{lab.smcs}/m", {"metadata": {"annotations": {key: name}}}, type=MERGE)
        wait(lambda: lab.nads() == {name or "m"}, f"only NetworkAttachmentDefinition {name or 'm'} exists")
    assert controller.metrics()["unirail_nads_removed_total"] == 3
    assert [e["reason"] for e in lab.events("m")].count("NADDeleted") == 3


def test_second_config_with_the_nads_name_is_reported(lab, controller):
    lab.apply("a", MACVLAN)
    wait(lambda: lab.nad("a"), "NetworkAttachmentDefinition a is created")
    lab.apply("b", {**MACVLAN, "enableCoordinator": False}, **{"multus.spidernet.io/cr-name": "a"})
    c = lab.ready("b")
    assert c["reason"] == "NameTaken" and "belongs to SpiderMultusConfig 'a'" in c["message"]
    assert lab.nad("a")["metadata"]["ownerReferences"][0]["name"] == "a"
    lab.kubectl("delete", "smc", "a")
    wait(lambda: lab.nad("a")["metadata"]["ownerReferences"][0]["name"] == "b", "NetworkAttachmentDefinition a has owner b")
    assert "coordinator" not in lab.nad("a")["spec"]["config"]
    wait(lambda: lab.ready("b")["status"] == "True", "SpiderMultusConfig b is Ready")


def test_status_write_that_returns_404_once_is_repeated(cluster, ns, lab, closing, tmp_path):
    """One status write returns 404, as it does for a deleted SpiderMultusConfig: the controller does not conclude that the CRD has no
    status subresource, and both SpiderMultusConfigs get their status."""
    server, once = closing(faulty.Faulty(cluster)), [faulty.refused(404, "NotFound")]
    server.rule = lambda method, path: once.pop() if once and path.split("?")[0].endswith("/m/status") else None
    c = closing(Controller(tmp_path / "c", cluster.through(server, tmp_path / "conf"), ns)).start().leads()
    for name in ("m", "n"):
        lab.apply(name, MACVLAN)
        assert lab.ready(name)["status"] == "True"
    assert not once and not c.logged("cannot write the status of SpiderMultusConfigs")


def test_refused_nad_is_reported_and_retried(cluster, ns, lab, closing, tmp_path):
    """The API server refuses the NAD, here because of a missing permission: the condition Ready reports the refusal until a retry
    succeeds."""
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    watched = [{"apiGroups": ["", "apps", "batch", "coordination.k8s.io", "networking.k8s.io", "spiderpool.spidernet.io",
                              "unirail.io"], "resources": ["*"], "verbs": ["*"]},
               {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    conf = cluster.kubeconfig(tmp_path / "conf", {"token": cluster.account(ns, "few", watched)})
    c = closing(Controller(tmp_path / "c", conf, ns)).start().leads()
    lab.apply("wrong", {"cniType": "ipoib", "ipoib": {}})
    wait(lambda: lab.ready("wrong")["status"] == "False", "SpiderMultusConfig wrong is not Ready")
    outdated = c.metrics()["unirail_nads_outdated"]  # counts `wrong`, and may count SpiderMultusConfigs of other tests
    lab.apply("m", MACVLAN)
    ready = lab.ready("m")
    assert (ready["status"], ready["reason"]) == ("False", "NADFailed") and "cannot create resource" in ready["message"]
    wait(lambda: c.metrics()["unirail_nads_outdated"] == outdated + 1, "the controller counts one more refused definition")
    time.sleep(5)  # the controller retries the write at growing intervals
    assert c.metrics()["unirail_nads_write_failures_total"] <= 6
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ns}-few"
    cluster.ok("PATCH", role, {"rules": everything}, type=MERGE)
    wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created", 60)
    wait(lambda: lab.ready("m")["status"] == "True", "SpiderMultusConfig m is Ready")
    assert c.metrics()["unirail_nads_outdated"] == outdated


def test_existing_nad_is_adopted(lab, controller):
    """The controller adopts a NAD without an owner, and adopts it again when the SpiderMultusConfig is recreated."""
    lab.cluster.ok("POST", lab.path, {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                                      "metadata": {"name": "m", "labels": {"l": "1"}}, "spec": {"config": "{}"}})
    lab.apply("m", MACVLAN)
    wait(lambda: "macvlan" in lab.nad("m")["spec"]["config"], "NetworkAttachmentDefinition m has the configuration")
    assert lab.nad("m")["metadata"]["labels"] == {"l": "1"}
    lab.kubectl("delete", "smc", "m")
    lab.apply("m", MACVLAN)
    uid = lab.smc("m")["metadata"]["uid"]
    wait(lambda: lab.nad("m")["metadata"]["ownerReferences"][0]["uid"] == uid, "NetworkAttachmentDefinition m has the owner's UID")


def test_new_leader_writes_pending_nads(cluster, ns, lab, controller, closing, tmp_path):
    other = closing(Controller(tmp_path / "o", cluster.admin_config(), ns, "o")).start()
    lab.apply("m", MACVLAN)
    wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created")
    controller.kill()
    lab.apply("n", MACVLAN)
    lab.cluster.ok("DELETE", f"{lab.path}/m")
    wait(lambda: lab.nads() == {"m", "n"}, "only NetworkAttachmentDefinitions m and n exist", 40)
    assert other.metrics()["unirail_controller_leader"] == 1


def test_last_of_several_edits_is_written(lab, controller):
    """The NAD and the SpiderMultusConfig are edited alternately: no write of the controller fails, and in the end the NAD has the last
    configuration of the SpiderMultusConfig."""
    lab.apply("m", MACVLAN)
    wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created")
    for i in range(40):
        lab.cluster.request("PATCH", f"{lab.path}/m", {"spec": {"config": str(i)}}, type=MERGE)
        lab.cluster.request("PATCH", f"{lab.smcs}/m", {"spec": {"macvlan": {"mtu": 1000 + i}}}, type=MERGE)
    wait(lambda: '"mtu":1039' in lab.nad("m")["spec"]["config"], "NetworkAttachmentDefinition m has the last edit")
    assert controller.metrics()["unirail_nads_write_failures_total"] == 0
    wait(lambda: lab.ready("m")["status"] == "True", "SpiderMultusConfig m is Ready")


def test_nads_are_written_without_a_status_subresource(cluster, ns, lab, closing, tmp_path):
    """The CRD of SpiderMultusConfigs has no status subresource, as in an installation by Spiderpool."""
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/spidermultusconfigs.spiderpool.spidernet.io"
    part, patch = "/spec/versions/0/subresources", "application/json-patch+json"
    cluster.ok("PATCH", crd, [{"op": "remove", "path": part}], type=patch)
    try:
        lab.apply("m", MACVLAN)
        wait(lambda: cluster.request("GET", f"{lab.smcs}/m/status")[0] == 404,
             "the API server serves SpiderMultusConfigs without status")
        c = closing(Controller(tmp_path / "c", cluster.admin_config(), ns)).start()
        wait(lambda: lab.nad("m"), "NetworkAttachmentDefinition m is created")
        c.wait_logged("cannot write the status of SpiderMultusConfigs")
        lab.apply("n", MACVLAN)
        wait(lambda: lab.nad("n"), "NetworkAttachmentDefinition n is created")
        assert len(c.logged("cannot write the status of SpiderMultusConfigs")) == 1
    finally:
        cluster.ok("PATCH", crd, [{"op": "add", "path": part, "value": {"status": {}}}], type=patch)
