# SPDX-License-Identifier: Apache-2.0
"""configs/cluster, applied as they are: pools, networks, and a workload that gets all rails by one annotation."""
import json
import pathlib

import pytest
import yaml

from cluster import wait
from test_webhooks import NETWORKS, SPIDER, cluster, ns, registered, replica, start  # noqa: F401

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "cluster"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/unirail/network-attachment-definitions"
RAILS = [f"rail{i}" for i in range(8)]


@pytest.fixture(scope="module")
def unirail(cluster):
    return cluster.namespace("unirail")


@pytest.fixture
def applied(cluster, unirail, replica, request):
    registered(cluster, start(replica()).leads())
    path = CONFIGS / f"{request.param}.yaml"
    r = cluster.run_kubectl("apply", "-f", path)
    assert r.returncode == 0, r.stderr
    again = cluster.run_kubectl("apply", "-f", path)
    assert all(line.endswith(" unchanged") for line in again.stdout.splitlines()), again.stdout
    yield request.param
    r = cluster.run_kubectl("delete", "--timeout=60s", "-f", path)
    assert r.returncode == 0, r.stderr


def plugins(cluster):
    """The plugins of each rail's NAD, once all NADs exist."""
    def there():
        found = {o["metadata"]["name"]: json.loads(o["spec"]["config"])["plugins"] for o in cluster.ok("GET", NADS)["items"]}
        return sorted(found) == RAILS and found
    return wait(there, f"the NetworkAttachmentDefinitions are {RAILS}")


@pytest.mark.parametrize("applied, types, resource", [
    ("roce-shared", ["macvlan", "coordinator"], "shared"),
    ("roce-sriov", ["sriov", "rdma", "coordinator"], "sriov"),
    ("infiniband", ["ib-sriov", "coordinator"], "ib")], indirect=["applied"])
def test_job_gets_its_rails(cluster, ns, applied, types, resource):
    chains = plugins(cluster)
    pools = {o["metadata"]["name"] for o in cluster.ok("GET", f"{SPIDER}/spiderippools")["items"]}
    for rail in RAILS:
        assert [p["type"] for p in chains[rail]] == types
        ipam = chains[rail][0]["ipam"]
        wanted = ipam["default_ipv4_ippool"][0]
        assert {p for p in pools if p.startswith(rail)} == (
            {f"{rail}-node1", f"{rail}-node2"} if wanted == f"{rail}-*" else {wanted})
        assert ipam.get("match_master_subnet", False) == (applied == "roce-sriov")
    work = cluster.namespace(f"{ns}-work")
    assert cluster.run_kubectl("apply", "-n", work, "-f", CONFIGS / "job.yaml").returncode == 0
    template = yaml.safe_load((CONFIGS / "job.yaml").read_text())["spec"]["template"]
    template["spec"]["automountServiceAccountToken"] = False  # no controller creates service accounts here
    template["metadata"]["name"] = "rails-0"
    pod = cluster.ok("POST", f"/api/v1/namespaces/{work}/pods", template)
    assert [(n["namespace"], n["name"]) for n in json.loads(pod["metadata"]["annotations"][NETWORKS])] == [
        ("unirail", rail) for rail in RAILS]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {f"spidernet.io/{resource}_{rail}": "1" for rail in RAILS}
