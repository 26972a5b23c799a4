# SPDX-License-Identifier: Apache-2.0
"""`unirail migrate` in a cluster in which Spiderpool, Multus and the shared device plugin run."""
import json
import random
import re
import subprocess
import time

import pytest

import cluster as clusters
from agents import SPIDER, Nodes, addresses
from cluster import wait
from managers import Manager
from spiderpool import APPS, LABEL, SHARED, Kubelets, Spiderpool, running


@pytest.fixture
def cluster(closing):
    return closing(clusters.Cluster())


@pytest.fixture
def originals(cluster, closing, tmp_path):
    """Spiderpool and Multus on two nodes with a running pod each."""
    s = Spiderpool(cluster)
    s.nodes = Nodes(cluster)
    s.nodes.pool("rail1", "172.16.1.0/24")
    s.pods = {}
    for i, node in enumerate(("n1", "n2")):
        s.pods[node] = s.nodes.pod("t", node, f"job-{i}")
        s.allocate(s.pods[node], node, "rail1", f"172.16.1.{10 + i}")
    s.register()
    s.kubelets = closing(Kubelets(cluster, tmp_path))
    for owner in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin"):
        running(cluster, owner, 2)
    running(cluster, "spiderpool-controller", 1)
    return s


@pytest.fixture
def managed(cluster, closing, originals):
    """Spiderpool and Multus on two nodes; kube-controller-manager manages the DaemonSets and Deployments."""
    originals.kubelets.close()
    originals.kubelets = closing(Kubelets(cluster, originals.kubelets.folder, manages=False))
    closing(Manager(cluster, controllers=("daemonset", "deployment", "replicaset", "garbagecollector")))
    for name in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin"):
        running(cluster, name, 2)
    return originals


def migrate(cluster, *args, status=0, timeout=180):
    p = cluster.unirail("migrate", *args, timeout=timeout)
    assert p.returncode == status, (p.returncode, p.stdout, p.stderr)
    return p.stdout + p.stderr


def plan(cluster, *args, status=3):
    return json.loads(migrate(cluster, "plan", "-o", "json", *args, status=status))


def test_plan_and_chart_values_are_printed(cluster, originals):
    before = originals.state()
    p = plan(cluster)
    assert not p["problems"] and not p["warnings"], p
    assert [s["subject"] for s in p["steps"]] == [
        "configmap 'unirail/unirail-migration'", "mutatingwebhookconfiguration 'spiderpool-controller'",
        "validatingwebhookconfiguration 'spiderpool-controller'", "deployment 'spiderpool/spiderpool-controller'",
        "daemonset 'kube-system/kube-multus-ds'", "daemonset 'spiderpool/spiderpool-rdma-shared-device-plugin'",
        "daemonset 'spiderpool/spiderpool-agent'", "unirail in namespace 'unirail'", "node 'n1'", "node 'n2'"]
    assert not any(s["runningPodsAffected"] for s in p["steps"]) and all(s["command"] for s in p["steps"])
    assert p["values"]["ipam"]["enableIPv6"] is False and p["values"]["ipam"]["enableGatewayDetection"] is True
    assert p["values"]["ipam"]["gc"]["gcAll"]["intervalInSecond"] == 300
    assert p["values"]["rdmaSharedDevicePlugin"] == {"deploy": True, "config": SHARED}
    assert any(line.startswith("helm -n spiderpool uninstall spiderpool --no-hooks ") for line in p["followUp"])
    assert any("tuneSysctlConfig" in n for n in p["notes"])
    text = migrate(cluster, "plan", status=3)
    assert "8. unirail in namespace 'unirail'\n   now:  absent\n" in text
    assert len(plan(cluster, "--node", "n2")["steps"]) == 9
    assert "the cluster has no node 'n9'" in migrate(cluster, "plan", "--node", "n9", status=1)
    # `migrate values` prints values for unirail's chart; --set has precedence.
    values = cluster.folder / "values.json"
    values.write_text(cluster.unirail("migrate", "values", "--set", "ipam.enableIPv6=true").stdout)
    assert json.loads(values.read_text())["ipam"]["enableIPv6"] is True
    text = cluster.unirail("manifests", "-f", values).stdout
    assert "gateway-detection = yes" in text and '"resourceName\\":\\"hca_shared' in text
    assert originals.state() == before


def test_obstacles_of_a_migration_are_reported(cluster, originals):
    # unirail is installed in another namespace.
    cluster.namespace("rails")
    daemonset = {"metadata": {"name": "unirail-agent"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "i"}]}}}}
    cluster.ok("POST", f"{APPS}/namespaces/rails/daemonsets", daemonset)
    assert "unirail is installed in namespace 'rails': use -n rails" in migrate(cluster, "plan", status=1)
    assert "kubectl -n rails delete daemonset/unirail-agent" in migrate(cluster, "plan", "-n", "rails", status=1)
    cluster.ok("DELETE", f"{APPS}/namespaces/rails/daemonsets/unirail-agent")
    # A node without a CNI configuration, as its kubelet reports it.
    originals.node("n2", False, "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
                                "message:Network plugin returns error: cni plugin not initialized")
    assert "node 'n2' has no CNI configuration" in migrate(cluster, "plan", status=1)
    originals.node("n2")
    # A definition (CRD) belongs to another Helm release.
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/spiderippools.spiderpool.spidernet.io"
    cluster.ok("PATCH", crd, {"metadata": {"annotations": {"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "x",
                                                           "helm.sh/resource-policy": None}}},
               type="application/merge-patch+json")
    output = migrate(cluster, "plan", status=3)
    assert "belongs to release 'other' in namespace 'x'" in output and "helm.sh/resource-policy=keep" in output


def test_cluster_without_the_originals_is_refused(cluster):
    assert "this cluster has neither Spiderpool nor Multus" in migrate(cluster, "plan", status=1)


# --- migration and undo ---


def records(cluster, pool="rail1"):
    """{address: pod} of the pool's records in Spiderpool's format: in its status, and in the annotation unirail.io/adopted."""
    o = cluster.ok("GET", f"{SPIDER}/spiderippools/{pool}")
    found = json.loads(o.get("status", {}).get("allocatedIPs") or "{}")
    found |= json.loads(o["metadata"].get("annotations", {}).get("unirail.io/adopted") or "{}")
    return {ip: r["pod"] for ip, r in found.items()}


def labels(cluster):
    return {n["metadata"]["name"]: n["metadata"]["labels"].get(LABEL) for n in cluster.ok("GET", "/api/v1/nodes")["items"]}


OF_SPIDERPOOL = {"172.16.1.10": "t/job-0", "172.16.1.11": "t/job-1"}


def migrated(cluster, originals):
    """Checks that unirail's agents run, the originals are stopped, and running pods have their addresses."""
    assert labels(cluster) == {"n1": "yes", "n2": "yes"}
    running(cluster, "unirail-agent", 2)
    for name in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin", "spiderpool-controller"):
        running(cluster, name, 0)
    assert records(cluster).items() >= OF_SPIDERPOOL.items()
    for node, pod in originals.pods.items():
        meta = cluster.ok("GET", f"/api/v1/namespaces/t/pods/{pod['metadata']['name']}")["metadata"]
        assert meta["uid"] == pod["metadata"]["uid"]
        ips = originals.nodes.endpoint("t", meta["name"])["status"]["current"]["ips"]
        assert ips[0]["ipv4"].split("/")[0] in OF_SPIDERPOOL


def test_migration_is_executed_and_undone(cluster, originals):
    before = originals.state()
    uid = {p["metadata"]["name"]: p["metadata"]["uid"] for p in originals.pods.values()}
    assert "There is nothing to do." in migrate(cluster, "undo")
    output = migrate(cluster, "apply", "--dry-run", status=3)
    assert "1. configmap 'unirail/unirail-migration'" in output and originals.state() == before
    # Node n2 first: Spiderpool's agents end on both nodes, Multus and the device plugin only on n2.
    output = migrate(cluster, "apply", "--node", "n2")
    assert "node 'n2'" in output and "node 'n1'" not in output
    assert labels(cluster) == {"n1": None, "n2": "yes"}
    running(cluster, "unirail-agent", 1)
    running(cluster, "kube-multus-ds", 1)
    running(cluster, "spiderpool-agent", 0)
    # Then the other node; no agent of unirail started while a pod of the originals ran on its node.
    assert "1/1 node 'n1'" in migrate(cluster, "apply")
    assert originals.kubelets.seen == [("n2", []), ("n1", [])]
    migrated(cluster, originals)
    settings = cluster.ok("GET", "/api/v1/namespaces/unirail/configmaps/unirail-agent")["data"]
    assert "enable-ipv6 = no" in settings["agent.conf"] and settings["shared.json"] == SHARED
    # A second run changes nothing.
    again = originals.state()
    assert migrate(cluster, "apply").startswith("There is nothing to do.\n")
    assert originals.state() == again and not plan(cluster, status=0)["steps"]
    # A new pod gets another address; a pod that repeats its request gets its address again.
    agent = originals.kubelets.agent("n1")
    new = originals.nodes.pod("t", "n1", "new")
    status, answer = agent.add(new, "net1", defaultIPv4IPPool=["rail1"])
    assert status == 200 and not set(addresses(answer)) & set(OF_SPIDERPOOL), answer
    status, answer2 = agent.add(originals.pods["n1"], "net1", defaultIPv4IPPool=["rail1"])
    assert status == 200 and addresses(answer2) == ["172.16.1.10"], answer2
    # After undo the new pod's address is stored where Spiderpool reads it.
    output = migrate(cluster, "undo")
    assert "unirail's definition SpiderIPBlock with its blocks" in output
    ip = addresses(answer)[0]
    assert records(cluster) == {**OF_SPIDERPOOL, ip: "t/new"}
    running(cluster, "unirail-agent", 0)
    running(cluster, "unirail-controller", 0)
    for name in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin"):
        running(cluster, name, 2)
    running(cluster, "spiderpool-controller", 1)
    after = originals.state()
    for key in {k for k in before if k[0] not in ("pool", "endpoint")}:
        assert after[key] == before[key], key
    assert after["pool", "rail1"][:2] == before["pool", "rail1"][:2]
    assert {k for k in after if k not in before} == {("endpoint", "new")}
    for name, was in uid.items():
        assert cluster.ok("GET", f"/api/v1/namespaces/t/pods/{name}")["metadata"]["uid"] == was
    for path in (f"{APPS}/namespaces/unirail/daemonsets/unirail-agent", "/apis/rbac.authorization.k8s.io/v1/clusterroles/unirail-agent",
                 "/api/v1/namespaces/unirail/configmaps/unirail-migration", "/api/v1/namespaces/unirail/secrets/unirail-controller-ca"):
        assert cluster.request("GET", path)[0] == 404, path
    # After undo, a second migration succeeds, and the new pod keeps its address.
    migrate(cluster, "apply")
    migrated(cluster, originals)
    assert records(cluster)[ip] == "t/new"


def test_migration_succeeds_with_the_controllers_of_kubernetes(cluster, managed):
    before = managed.state()
    migrate(cluster, "apply")
    migrated(cluster, managed)
    assert managed.kubelets.seen == [("n1", []), ("n2", [])]
    migrate(cluster, "undo")
    for name in ("spiderpool-agent", "kube-multus-ds", "spiderpool-rdma-shared-device-plugin"):
        running(cluster, name, 2)
    running(cluster, "spiderpool-controller", 1)
    wait(lambda: managed.state() == before or None, "the cluster has its state from before the migration")


def killed_until_done(cluster, command, chance):
    """Starts `unirail migrate COMMAND` again and again, and kills the runs: the first, third, fifth ... run when its second step begins,
    each run between them up to 0.3 s after its second step begins. Returns the number of kills once a run has succeeded. A run can
    get several steps further before its kill if this process is slower than the migration."""
    for n in range(60):
        p = subprocess.Popen([clusters.BINARY, "migrate", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={"KUBECONFIG": str(cluster.admin_config())}, preexec_fn=clusters.die_with_parent)
        lines = 0
        for line in p.stdout:
            lines += bool(re.match(r"\d+/\d+ ", line))
            if lines == 2:
                time.sleep(chance.random() * 0.3 if n % 2 else 0)
                p.kill()
                break
        error = p.stderr.read()
        if p.wait() == 0:
            return n
        assert lines == 2, error
    raise AssertionError("none of 60 runs succeeded")


def test_migration_continues_after_a_kill_at_every_step(cluster, originals):
    before, chance = originals.state(), random.Random(1)
    assert killed_until_done(cluster, "apply", chance) >= 5
    migrated(cluster, originals)
    assert originals.kubelets.seen == [("n1", []), ("n2", [])]
    assert killed_until_done(cluster, "undo", chance) >= 5
    wait(lambda: originals.state() == before or None, "the cluster has its state from before the migration")
    assert cluster.request("GET", "/api/v1/namespaces/unirail/configmaps/unirail-migration")[0] == 404


def test_missing_image_stops_the_migration(cluster, originals):
    """Without its image the controller does not start: no node is changed, and undo needs no image."""
    before = originals.state()
    originals.kubelets.images = False
    output = migrate(cluster, "apply", "--wait", "3s", status=1)
    assert "unirail in namespace 'unirail': unirail's controller: timeout after 3 s (--wait): no pod of 'unirail/unirail-controller'" in output
    assert labels(cluster) == {"n1": None, "n2": None}
    migrate(cluster, "undo")
    wait(lambda: originals.state() == before or None, "the cluster has its state from before the migration")
    # A run with a wrong tag fails. Once the image can be pulled, a run with other values changes the existing objects.
    migrate(cluster, "apply", "--wait", "3s", "--set", "image.tag=wrong", status=1)
    originals.kubelets.images = True
    migrate(cluster, "apply", "--set", "image.registry=registry.example/mirror")
    o = cluster.ok("GET", f"{APPS}/namespaces/unirail/daemonsets/unirail-agent")
    assert o["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/mirror/unirail:latest"
    migrated(cluster, originals)
    # A user starts Spiderpool's agent again beside unirail's: the next run of `unirail migrate apply` stops Spiderpool's agent.
    cluster.ok("PATCH", f"{APPS}/namespaces/spiderpool/daemonsets/spiderpool-agent",
               {"spec": {"template": {"spec": {"nodeSelector": {LABEL: None}}}}}, type="application/merge-patch+json")
    running(cluster, "spiderpool-agent", 2)
    assert [s["subject"] for s in plan(cluster)["steps"]] == ["daemonset 'spiderpool/spiderpool-agent'", "node 'n1'", "node 'n2'"]
    migrate(cluster, "apply")
    migrated(cluster, originals)
    # Undo uses the values of the last installation.
    journal = cluster.ok("GET", "/api/v1/namespaces/unirail/configmaps/unirail-migration")["data"]["journal.json"]
    assert json.loads(journal)["values"]["image"] == {"registry": "registry.example/mirror"}
    images = set()
    originals.kubelets.images_seen = images
    migrate(cluster, "undo")
    assert "registry.example/mirror/unirail:latest" in images
    wait(lambda: originals.state() == before or None, "the cluster has its state from before the migration")


def test_agent_that_is_not_ready_stops_the_migration(cluster, originals, tmp_path):
    """On n2 the runtime selects another program's CNI configuration: apply migrates n1, and stops at n2 with an error that has the
    reason which the agent reports."""
    net_d = tmp_path / "net.d"
    net_d.mkdir()
    (net_d / "0-aa.conf").write_text('{"cniVersion": "1.0.0", "name": "aa", "type": "bridge"}')
    originals.kubelets.more["n2"] = "--cni-conf-name", "0-unirail.conflist", "--cni-conf-dir", net_d
    output = migrate(cluster, "apply", "--wait", "6s", status=1)
    assert "node 'n2': unirail's agent: timeout after 6 s (--wait): no pod of 'unirail/unirail-agent' on n2 is ready: " in output
    assert f"the container runtime uses '{net_d}/0-aa.conf', not '0-unirail.conflist': pods get no rails" in output
    assert labels(cluster) == {"n1": "yes", "n2": "yes"}
    running(cluster, "unirail-agent", 1)
    (net_d / "0-aa.conf").unlink()
    assert "1/1 node 'n2'" in migrate(cluster, "apply")
    migrated(cluster, originals)


def test_commands_of_the_readme_succeed(cluster, originals):
    """Runs the commands of deploy/README.md in their order; the test parses the output that one command writes to a file."""
    section = (clusters.HERE.parents[1] / "deploy/README.md").read_text().split("\n## From Spiderpool and Multus\n")[1].split("\n## ")[0]
    commands = [line.split("  ")[0].strip() for line in re.findall(r"(?m)^    (unirail .*)$", section)]
    assert [c.split()[2] for c in commands] == ["plan", "values", "apply", "apply", "undo"]
    for command in commands:
        arguments = command.split(" >")[0].split()[1:]
        output = migrate(cluster, *arguments[1:], status=3 if arguments[1] == "plan" else 0)
        if " >" in command:
            assert json.loads(output[:output.rindex("}") + 1])["ipam"]
        if arguments[1:] == ["apply"]:
            migrated(cluster, originals)
    running(cluster, "spiderpool-agent", 2)
