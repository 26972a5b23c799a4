# SPDX-License-Identifier: Apache-2.0
"""Helm installs, upgrades and uninstalls deploy/chart in a cluster; unirail's controller fills the chart's Secrets."""
import base64
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import cluster as clusters
from cluster import free_port, wait
from controllers import Controller

sys.path.append(str(pathlib.Path(__file__).parents[1] / "chart"))
from charts import CHART, DEPLOY, helm  # noqa: E402

SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRETS = "/api/v1/namespaces/rails/secrets"
POOL = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "10.1.0.0/24", "ips": ["10.1.0.5-10.1.0.9"]}}


@pytest.fixture
def cluster(closing):
    return closing(clusters.Cluster())


def run(cluster, *args, ok=True):
    return helm(*args, "--kubeconfig", cluster.admin_config(), "-n", "rails", ok=ok)


def definition(cluster, name="spiderippools.spiderpool.spidernet.io"):
    return cluster.ok("GET", f"{CRDS}/{name}")


def data(cluster, name):
    return cluster.ok("GET", f"{SECRETS}/{name}").get("data")


def controller(cluster, closing, folder):
    c = closing(Controller(folder, cluster.admin_config(), "rails"))
    c.webhook_port = free_port()
    return c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()


def test_chart_is_installed_upgraded_and_uninstalled(cluster, closing, tmp_path):
    output = run(cluster, "install", "unirail", CHART, "--create-namespace")
    assert "rollout status daemonset/unirail-agent" in output and "Notes on the values" not in output
    c = controller(cluster, closing, tmp_path / "c")
    wait(lambda: data(cluster, "unirail-controller-certs") and data(cluster, "unirail-controller-ca"),
         "the Secrets of the webhooks have data")
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/unirail-controller"
    wait(lambda: cluster.ok("GET", hooks).get("webhooks"), "the webhooks are registered")
    wait(lambda: cluster.request("POST", f"{SPIDER}/spiderippools", POOL)[0] == 201, "the pool is admitted")
    before = {n: data(cluster, f"unirail-controller-{n}") for n in ("certs", "ca", "token")}
    # The definition has one field less, as if an older release had installed it; the upgrade adds the field.
    path = f"{CRDS}/spiderippools.spiderpool.spidernet.io"
    props = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/gateway"
    gateway = definition(cluster)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["gateway"]
    cluster.ok("PATCH", path, [{"op": "remove", "path": props}], type="application/json-patch+json")
    output = run(cluster, "upgrade", "unirail", CHART, "--set", "spiderpoolController.replicas=1,sriov.install=true")
    assert "sriov.install has no effect" in output
    assert {n: data(cluster, f"unirail-controller-{n}") for n in before} == before
    assert cluster.ok("GET", hooks)["webhooks"]
    spec = definition(cluster)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["gateway"] == gateway
    assert cluster.ok("GET", "/apis/apps/v1/namespaces/rails/deployments/unirail-controller")["spec"]["replicas"] == 1
    run(cluster, "rollback", "unirail", "1")
    assert {n: data(cluster, f"unirail-controller-{n}") for n in before} == before
    # A replica that starts after the upgrade and the rollback accepts the stored certificate and CA.
    assert c.stop() == 0
    other = controller(cluster, closing, tmp_path / "d")
    assert not other.logged("failed to store the webhooks' certificate")
    assert other.stop() == 0
    run(cluster, "uninstall", "unirail")
    assert cluster.request("GET", "/apis/apps/v1/namespaces/rails/daemonsets/unirail-agent")[0] == 404
    assert cluster.request("GET", hooks)[0] == 404
    assert cluster.ok("GET", f"{SPIDER}/spiderippools/p")["spec"]["subnet"] == "10.1.0.0/24"
    # A new release with the same name adopts the definitions that the uninstalled release left.
    output = run(cluster, "install", "unirail", CHART)
    assert "is unchanged" not in output
    assert cluster.ok("GET", f"{SPIDER}/spiderippools/p")


def test_definitions_of_another_owner_are_reported(cluster):
    """Helm reports definitions that were created without Helm (here by kubectl), and definitions of another release."""
    for file in ("crds/spiderippools.yaml", "crds/network-attachment-definitions.yaml"):
        p = subprocess.run([cluster.bin / "kubectl", "--kubeconfig", cluster.admin_config(), "create", "-f", DEPLOY / file],
                           capture_output=True, text=True)
        assert p.returncode == 0, p.stderr
    output = run(cluster, "install", "unirail", CHART, "--create-namespace")
    assert ("definition spiderippools.spiderpool.spidernet.io is unchanged, since it was created without Helm; to upgrade it with "
            "this release: helm upgrade --take-ownership --set crds.keepExisting=false") in output
    assert "annotations" not in definition(cluster)["metadata"] or "meta.helm.sh/release-name" not in definition(
        cluster)["metadata"]["annotations"]
    run(cluster, "upgrade", "unirail", CHART, "--take-ownership", "--set", "crds.keepExisting=false")
    assert definition(cluster)["metadata"]["annotations"]["meta.helm.sh/release-name"] == "unirail"
    run(cluster, "uninstall", "unirail")
    assert definition(cluster)
    other = run(cluster, "install", "other", CHART)
    assert "since release 'unirail' in namespace 'rails' owns it" in other


def test_installed_spiderpool_is_reported(cluster):
    cluster.namespace("spiderpool")
    cluster.ok("POST", "/apis/apps/v1/namespaces/spiderpool/daemonsets", {
        "metadata": {"name": "spiderpool-agent"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    output = run(cluster, "install", "unirail", CHART, "--create-namespace")
    assert "WARNING: DaemonSet spiderpool/spiderpool-agent exists." in output
    assert "kubectl -n spiderpool delete daemonset spiderpool-agent" in output


def test_provided_certificate_is_in_its_secret(cluster):
    text = base64.b64encode(b"x").decode()
    run(cluster, "install", "unirail", CHART, "--create-namespace", "--set", "spiderpoolController.tls.method=provided", *(
        f"--set=spiderpoolController.tls.provided.{k}={text}" for k in ("tlsCert", "tlsKey", "tlsCa")))
    assert data(cluster, "spiderpool-controller-server-certs") == {k: text for k in ("ca.crt", "tls.crt", "tls.key")}


def test_commands_of_the_readme_succeed(cluster):
    """Runs the Helm commands of deploy/README.md in their order. The pods of `helm test` need a node, so only their objects are checked."""
    section = (DEPLOY / "README.md").read_text().split("\n## Install with Helm\n")[1].split("\n## ")[0]
    commands = [line.split(" #")[0].split() for line in re.findall(r"(?m)^    (helm .*)$", section)]
    assert len(commands) == 7 and [c for c in commands if "test" in c] == [["helm", "-n", "unirail", "test", "unirail"]]
    for command in commands:
        args = shlex.split(" ".join(command[1:]).replace("deploy/chart", str(CHART)))
        if "test" in args:
            assert "helm.sh/hook: test" in helm("get", "hooks", "unirail", "-n", "unirail", "--kubeconfig", cluster.admin_config())
            continue
        helm(*args, "--kubeconfig", cluster.admin_config())
    assert definition(cluster)
