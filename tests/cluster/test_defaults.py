# SPDX-License-Identifier: Apache-2.0
"""The default objects of a new cluster: created once, and never over existing objects."""
import time

import pytest

from agents import MERGE, SPIDER, install_crds
from cluster import wait
from controllers import Controller

COORDINATORS = f"{SPIDER}/spidercoordinators"
YES = ("--default-coordinator", "yes", "--default-network", "yes")


@pytest.fixture
def start(cluster, ns, closing, tmp_path):
    install_crds(cluster)
    for o in cluster.ok("GET", COORDINATORS)["items"]:
        path = f"{COORDINATORS}/{o['metadata']['name']}"
        cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
        cluster.request("DELETE", path)
    net = tmp_path / "net.d"
    net.mkdir()
    made = []

    def run(network, *more, env=None):
        for c in made:
            c.stop()
        (net / "10-x.conflist").write_text('{"name": "%s", "plugins": []}' % network)
        made.append(closing(Controller(tmp_path / f"c{len(made)}", cluster.admin_config(), ns, **(env or {}))))
        return made[-1].start("--cni-config-dir", net, *YES, *more).leads()
    yield run
    cluster.request("DELETE", f"{COORDINATORS}/default")


def smcs(cluster, ns):
    return {o["metadata"]["name"]: o for o in cluster.ok("GET", f"{SPIDER}/namespaces/{ns}/spidermultusconfigs")["items"]}


def test_default_objects_are_created_in_a_new_cluster(cluster, ns, start):
    c = start("k8s-pod-network")
    spec = wait(lambda: cluster.request("GET", f"{COORDINATORS}/default")[1].get("spec"), "the default SpiderCoordinator is created")
    assert {k: spec[k] for k in ("mode", "podCIDRType", "tunePodRoutes", "hijackCIDR")} == {
        "mode": "auto", "podCIDRType": "auto", "tunePodRoutes": True, "hijackCIDR": ["169.254.0.0/16"]}
    wait(lambda: cluster.request("GET", f"{COORDINATORS}/default")[1].get("status", {}).get("phase") == "Synced",
         "the default SpiderCoordinator is Synced")
    nad = wait(lambda: cluster.request("GET", f"/apis/k8s.cni.cncf.io/v1/namespaces/{ns}/network-attachment-definitions/"
                                              "k8s-pod-network")[1].get("metadata"),
               "the NetworkAttachmentDefinition of the cluster's network is created")
    assert nad["ownerReferences"][0]["name"] == "calico"  # the SpiderMultusConfig's name; the NAD has the name in the CNI file
    assert len(c.logged("created a default object")) == 2
    # A new controller changes no existing object.
    cluster.ok("PATCH", f"{COORDINATORS}/default", {"spec": {"mode": "underlay", "hijackCIDR": None}}, type=MERGE)
    before = {n: o["metadata"]["resourceVersion"] for n, o in smcs(cluster, ns).items()}
    c = start("k8s-pod-network")
    time.sleep(2)
    spec = cluster.ok("GET", f"{COORDINATORS}/default")["spec"]
    assert spec["mode"] == "underlay" and "hijackCIDR" not in spec
    assert before == {n: o["metadata"]["resourceVersion"] for n, o in smcs(cluster, ns).items()}
    assert not c.logged("created a default object")


def test_default_objects_follow_the_settings(cluster, ns, start):
    start("cilium", "--coordinator-mode", "underlay", "--coordinator-cidr-type", "none", "--coordinator-hijack",
          "10.1.0.0/16,fd00::/64")
    spec = wait(lambda: cluster.request("GET", f"{COORDINATORS}/default")[1].get("spec"), "the default SpiderCoordinator is created")
    assert (spec["mode"], spec["podCIDRType"], spec["hijackCIDR"]) == ("underlay", "none", ["10.1.0.0/16", "fd00::/64"])
    wait(lambda: smcs(cluster, ns)["cilium"]["spec"]["cniType"] == "custom", "the SpiderMultusConfig cilium has the type custom")


def test_disabled_defaults_and_those_with_an_invalid_name_are_not_created(cluster, ns, start):
    c = start("Not_A_Name", "--default-coordinator", "no")
    c.wait_logged("its name is not a valid object name")
    assert smcs(cluster, ns) == {} and cluster.request("GET", f"{COORDINATORS}/default")[0] == 404


def test_default_pools_are_created(cluster, ns, start):
    """Settings may be Spiderpool's environment variables, and lists may be JSON arrays as in Spiderpool; existing pools stay unchanged."""
    env = {"SPIDERPOOL_INIT_DEFAULT_IPV4_SUBNET_NAME": "first-v4", "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_NAME": "first-v4",
           "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_SUBNET": "172.50.0.0/16",
           "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_IPRANGES": '["172.50.0.2-172.50.0.9","172.50.1.1"]',
           "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_GATEWAY": "172.50.0.1"}
    paths = [f"{SPIDER}/spidersubnets/first-v4", f"{SPIDER}/spiderippools/first-v4", f"{SPIDER}/spiderippools/first-v6"]
    try:
        c = start("cilium", "--default-ipv6-pool", "first-v6", "--default-ipv6-cidr", "fd50::/64", "--default-ipv6-ips",
                  "fd50::2-fd50::9, fd50::20", env=env)
        wait(lambda: cluster.request("GET", paths[2])[0] == 200, "the default pools are created")
        subnet, v4, v6 = (cluster.ok("GET", p)["spec"] for p in paths)
        want = {"subnet": "172.50.0.0/16", "ips": ["172.50.0.2-172.50.0.9", "172.50.1.1"], "gateway": "172.50.0.1"}
        assert subnet.items() >= want.items() and v4.items() >= {**want, "default": True}.items()
        assert v6["ips"] == ["fd50::2-fd50::9", "fd50::20"] and v6["default"] and "gateway" not in v6
        assert len(c.logged("created a default object")) >= 3
        version = cluster.ok("GET", paths[1])["metadata"]["generation"]
        c = start("cilium", env={**env, "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_GATEWAY": "172.50.0.254"})
        time.sleep(2)
        assert cluster.ok("GET", paths[1])["metadata"]["generation"] == version
    finally:
        for p in reversed(paths):
            cluster.request("DELETE", p)
            cluster.request("PATCH", p, {"metadata": {"finalizers": None}}, type=MERGE)
