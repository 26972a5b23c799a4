# SPDX-License-Identifier: Apache-2.0
"""A release from the bundle, on a node with a real kubelet and no default route: installed by Helm, tested by `helm test`, upgraded and
rolled back while pods come and go, uninstalled, and installed again with its data."""
import pathlib
import sys
import threading

import pytest

from agents import SPIDER
from bundles import bundle
from cluster import wait
from test_kubelet import NETWORKS, addresses, have_rails, nothing_left, rails, up, workload  # noqa: F401
from whole import BRIDGE, RAILS, Whole

sys.path.append(str(pathlib.Path(__file__).parents[1] / "chart"))
from charts import helm, helm_path  # noqa: E402

BOTH = {NETWORKS: ",".join(f"nets/{r}" for r in RAILS)}
VALUES = "--set", "spiderpoolController.replicas=1,test.verify=false"  # values for one node without RDMA devices


class Release:
    def __init__(self, whole, folder):
        self.whole = whole
        self.bundles = {v: bundle(folder / v, v) for v in ("1.2.3", "1.2.4")}

    def helm(self, *args, ok=True):
        return helm(*args, "-n", "unirail", "--kubeconfig", self.whole.cluster.admin_config(), ok=ok, timeout=300)

    def load(self, version):
        out = self.whole.node.run(self.bundles[version] / "load", timeout=300).stdout
        assert out.startswith(f"loaded unirail:{version} ("), out

    def helm_chart(self, verb, version):
        return self.helm(verb, "unirail", self.bundles[version] / "deploy/chart", *VALUES)

    def install(self, version):
        output = self.helm("install", "unirail", self.bundles[version] / "deploy/chart", *VALUES, "--create-namespace")
        service = self.whole.cluster.ok("GET", "/api/v1/namespaces/unirail/services/unirail-controller")
        self.whole.net.address(service["spec"]["clusterIP"])  # sets the Service's address on an interface, since no kube-proxy runs here
        self.runs(version)
        return output

    def runs(self, version):
        """Waits until agent and controller of this version are ready, and no agent or controller of another version exists."""
        for what in ("daemonset/unirail-agent", "deployment/unirail-controller"):
            self.whole.kubectl("-n", "unirail", "rollout", "status", what, "--timeout=240s", timeout=300)

        def only():
            found = {c["image"] for app in ("agent", "controller") for p in self.whole.pods("unirail", f"app.kubernetes.io/name=unirail-{app}")
                     for c in p["spec"]["containers"]}
            assert found == {f"unirail:{version}"}, found
            return True
        wait(only, f"agent and controller run version {version}", 60)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A node with the cluster's own network and no image of unirail, on which the release is then installed from the bundle."""
    helm_path()  # builds Helm before the cluster's network namespace exists, which has no route to the outside
    one = Whole(files={"50-bridge.conflist": BRIDGE}, images=("busybox",), deploy=False)
    try:
        assert one.node.run("ip", "route", "show", "default").stdout == ""
        made = Release(one, tmp_path_factory.mktemp("bundles"))
        made.load("1.2.3")
        made.install("1.2.3")
        yield made
    finally:
        one.close()


@pytest.fixture(scope="module")
def whole(release):
    return release.whole


class Load(threading.Thread):
    """Creates and deletes pods one after the other until the `with` block ends. started: the names of the pods that ran."""

    def __init__(self, whole, ns, name):
        super().__init__(daemon=True)
        self.whole, self.ns, self.prefix = whole, ns, name
        self.started, self.error, self.going = [], None, True

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.join(200)

    def run(self):
        try:
            while self.going:
                self.one(f"{self.prefix}-{len(self.started)}")
        except Exception as e:
            self.error = e

    def one(self, name):
        cluster, path = self.whole.cluster, f"/api/v1/namespaces/{self.ns}/pods"
        template = workload("Deployment", name, 1, BOTH)["spec"]["template"]
        cluster.ok("POST", path, {"metadata": {**template["metadata"], "name": name}, "spec": template["spec"]})

        def runs():
            pod = cluster.ok("GET", f"{path}/{name}")
            if pod["status"]["phase"] != "Running" or set(addresses(pod)) != {"eth0", "net1", "net2"}:
                return None
            assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
            return pod
        wait(runs, f"pod {name} runs with its three addresses", 120, 0.2)
        self.started.append(name)
        cluster.ok("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        wait(lambda: cluster.request("GET", f"{path}/{name}")[0] == 404, f"pod {name} is deleted", 60, 0.2)

    def more(self, n):
        """Waits until n more pods have started."""
        before = len(self.started)
        wait(lambda: self.error or len(self.started) >= before + n, f"{n} more pods are started", 240, 0.2)
        if self.error:
            raise AssertionError(self.whole.describe(self.ns)) from self.error


def sandbox_failures(whole, ns):
    return [e["message"] for e in whole.cluster.ok("GET", f"/api/v1/namespaces/{ns}/events")["items"]
            if e["reason"] == "FailedCreatePodSandBox"]


def test_helm_test_of_a_release_succeeds(release):
    """`helm test` runs `unirail doctor` on the node. The values disable `unirail verify`, since this kernel has no RDMA device."""
    output = release.helm("test", "unirail", "--logs")
    assert "Phase:          Succeeded" in output, output


def test_release_is_installed_upgraded_and_removed_while_pods_change(release, rails):  # noqa: F811
    w, ns = release.whole, "life"
    wait(lambda: w.cluster.namespace(ns), f"namespace {ns} is created")
    w.apply(ns, workload("Deployment", "job", 2, BOTH))
    job = up(w, ns, "job", 2)
    have_rails(w, job)
    before = {p["metadata"]["uid"]: addresses(p) for p in job}

    def job_runs():
        pods = up(w, ns, "job", 2)
        assert {p["metadata"]["uid"]: addresses(p) for p in pods} == before
        assert all(c["restartCount"] == 0 for p in pods for c in p["status"]["containerStatuses"])
        have_rails(w, pods)

    with Load(w, ns, "load") as load:
        load.more(1)
        release.load("1.2.4")
        release.helm_chart("upgrade", "1.2.4")
        release.runs("1.2.4")
        load.more(2)
        release.helm("rollback", "unirail", "1")
        release.runs("1.2.3")
        load.more(2)
    assert not load.error and not load.is_alive()
    assert sandbox_failures(w, ns) == []
    job_runs()
    # After the uninstallation running pods keep their rails, a new pod waits, and custom resources stay.
    release.helm("uninstall", "unirail")
    # The pods of `helm test` stay.
    wait(lambda: {p["metadata"]["name"] for p in w.pods("unirail")} <= {"unirail-doctor"}, "only the pods of the doctor are left", 120)
    job_runs()
    w.apply(ns, workload("Deployment", "late", 1, BOTH))
    wait(lambda: sandbox_failures(w, ns), "an event reports a failed sandbox", 120)  # the plugin waits 30 s for an agent that restarts
    assert w.cluster.ok("GET", f"{SPIDER}/spiderippools/{RAILS[0]}")["spec"]["subnet"] == "172.16.1.0/24"
    # The release is installed again and uses its existing data.
    output = release.install("1.2.4")
    assert "is unchanged" not in output
    late = up(w, ns, "late", 1)
    job_runs()
    have_rails(w, job + late)
    for name in ("job", "late"):
        w.kubectl("delete", "-n", ns, f"deployment/{name}")
    nothing_left(w, ns)
