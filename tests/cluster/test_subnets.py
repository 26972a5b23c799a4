# SPDX-License-Identifier: Apache-2.0
"""Pools created from a SpiderSubnet for applications, on a real API server: creation, changes and deletion."""
import concurrent.futures
import ipaddress
import json
import time
import uuid

import pytest

import cluster as clusters
from agents import MERGE, SPIDER, Agent, Nodes, cluster_with_crds
from cluster import wait
from controllers import Controller

GROUP = "ipam.spidernet.io/"
CRON = "batch/v1beta1" if clusters.KUBE == "1.20" else "batch/v1"
KINDS = {"Deployment": "apps/v1/deployments", "ReplicaSet": "apps/v1/replicasets",
         "StatefulSet": "apps/v1/statefulsets", "DaemonSet": "apps/v1/daemonsets", "Job": "batch/v1/jobs",
         "CronJob": f"{CRON}/cronjobs"}
POOLS, SUBNETS = f"{SPIDER}/spiderippools", f"{SPIDER}/spidersubnets"


@pytest.fixture(scope="module")
def mine():
    yield from cluster_with_crds()


class Place:
    """A namespace of a test, its applications, pools and subnets."""

    def __init__(self, cluster, ns):
        self.cluster, self.ns = cluster, cluster.namespace(ns)

    def subnet(self, name, cidr, ips, **spec):
        return self.cluster.ok("POST", SUBNETS, {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet",
            "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
            "spec": {"subnet": cidr, "ips": ips, **spec}})

    def path(self, kind, name=""):
        group, version, plural = KINDS[kind].split("/")
        return f"/apis/{group}/{version}/namespaces/{self.ns}/{plural}" + (f"/{name}" if name else "")

    def app(self, kind, name, annotations, size=2, owner=None, **spec):
        template = {"metadata": {"labels": {"app": name[:63]},
                                 "annotations": {GROUP + k: v if isinstance(v, str) else json.dumps(v)
                                                 for k, v in annotations.items()}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}
        selector = {"matchLabels": {"app": name[:63]}}
        if kind in ("Job", "CronJob"):
            template["spec"]["restartPolicy"] = "Never"
            body = {"template": template, **spec}
            if kind == "CronJob":
                body = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": body}}
        else:
            body = {"selector": selector, "template": template, **spec}
            if kind != "DaemonSet":
                body["replicas"] = size
            if kind == "StatefulSet":
                body["serviceName"] = name
        meta = {"name": name}
        if owner:
            meta["ownerReferences"] = [owner]
        return self.cluster.ok("POST", self.path(kind), {
            "apiVersion": "/".join(KINDS[kind].split("/")[:2]), "kind": kind, "metadata": meta, "spec": body})

    def scale(self, kind, name, size):
        self.cluster.ok("PATCH", self.path(kind, name), {"spec": {"replicas": size}}, type=MERGE)

    def remove(self, kind, name):
        self.cluster.ok("DELETE", self.path(kind, name), {"propagationPolicy": "Background"})

    def pools(self, app=None):
        return {p["metadata"]["name"]: p for p in self.cluster.ok("GET", POOLS)["items"]
                if app in (None, p["metadata"].get("labels", {}).get(GROUP + "owner-application-name"))}

    def pool(self, app):
        found = list(self.pools(app).values())
        return found[0] if len(found) == 1 else None

    def leaving(self, app):
        """Whether the pool is being deleted or is deleted: the leader removes the finalizer once no address is in use."""
        return all(p["metadata"].get("deletionTimestamp") for p in self.pools(app).values())

    def block(self, pool, cidr):
        """Creates a block of the pool, owned by a node."""
        return self.cluster.ok("POST", "/apis/unirail.io/v1/spideripblocks", {
            "apiVersion": "unirail.io/v1", "kind": "SpiderIPBlock",
            "metadata": {"name": f"{pool}-0", "labels": {"unirail.io/pool": pool}},
            "spec": {"pool": pool, "cidr": cidr, "node": "n1", "nodeUID": "u1", "claim": "x", "released": {}, "requested": {}}})

    def controlled(self, subnet):
        status = self.cluster.ok("GET", f"{SUBNETS}/{subnet}").get("status", {})
        return json.loads(status.get("controlledIPPools") or "{}")

    def status(self, subnet):
        return self.cluster.ok("GET", f"{SUBNETS}/{subnet}")["status"]


def expand(ranges):
    got = []
    for r in ranges:
        first, _, last = r.partition("-")
        a = ipaddress.ip_address(first)
        got += [str(a + i) for i in range(int(ipaddress.ip_address(last or first)) - int(a) + 1)]
    return got


def ips(pool):
    return expand(pool["spec"].get("ips", [])) if pool else None


@pytest.fixture
def place(mine, request):
    here = Place(mine, request.node.name.split("[")[0].replace("_", "-")[:40] + f"-{uuid.uuid4().hex[:4]}")
    yield here
    # Deletes the objects of the test, so that they do not affect later tests.
    for kind, path in KINDS.items():
        mine.request("DELETE", here.path(kind))
    for path in (POOLS, SUBNETS):
        for o in mine.ok("GET", path)["items"]:
            at = f"{path}/{o['metadata']['name']}"
            mine.request("PATCH", at, {"metadata": {"finalizers": None}}, type=MERGE)
            mine.request("DELETE", at)


@pytest.fixture
def controller(mine, place, closing, tmp_path):
    def start(name="c", leads=True, *more):
        one = closing(Controller(tmp_path / name, mine.admin_config(), place.ns, name, UNIRAIL_SUBNET_REUSE_DELAY="1s"))
        one.start("--lease", "4s", "--lease-renew", "3s", "--lease-retry", "1s", *more)
        return one.leads() if leads else one
    return start


def test_deployment_gets_an_automatic_pool(place, controller):
    """The pool is created, grows and shrinks with the Deployment, and is deleted with it; the lowest addresses are used first."""
    place.subnet("s4", "10.6.0.0/24", ["10.6.0.2-10.6.0.9", "10.6.0.20-10.6.0.30"], gateway="10.6.0.1",
                 routes=[{"dst": "10.9.0.0/16", "gw": "10.6.0.1"}])
    c = controller()
    app = place.app("Deployment", "web", {"subnet": {"ipv4": ["s4"], "interface": "eth0"}}, size=3)
    pool = wait(lambda: place.pool("web"), "the application has a pool")
    uid = app["metadata"]["uid"]
    assert pool["metadata"]["name"] == f"auto4-web-eth0-{uid.split('-')[-1][:5]}"
    assert ips(pool) == ["10.6.0.2", "10.6.0.3", "10.6.0.4"]
    assert pool["spec"]["gateway"] == "10.6.0.1" and pool["spec"]["ipVersion"] == 4
    assert [(r["dst"], r["gw"]) for r in pool["spec"]["routes"]] == [("10.9.0.0/16", "10.6.0.1")]
    assert pool["spec"]["podAffinity"]["matchLabels"] == {
        GROUP + "app-api-group": "apps", GROUP + "app-api-version": "v1", GROUP + "app-kind": "Deployment",
        GROUP + "app-namespace": place.ns, GROUP + "app-name": "web"}
    labels = {k[len(GROUP):]: v for k, v in pool["metadata"]["labels"].items()}
    assert labels == {"owner-spider-subnet": "s4", "owner-application-gv": "apps_v1",
                      "owner-application-kind": "Deployment", "owner-application-namespace": place.ns,
                      "owner-application-name": "web", "owner-application-uid": uid, "interface": "eth0",
                      "ip-version": "IPv4", "ippool-reclaim": "true", "ippool-cidr": "10-6-0-0-24"}
    assert pool["metadata"]["annotations"][GROUP + "ippool-ip-number"] == "+0"
    assert pool["metadata"]["finalizers"] == ["spiderpool.spidernet.io"]
    owner = pool["metadata"]["ownerReferences"][0]
    assert owner["kind"] == "SpiderSubnet" and owner["controller"] and owner["blockOwnerDeletion"]
    assert place.controlled("s4") == {pool["metadata"]["name"]: {
        "ips": ["10.6.0.2-10.6.0.4"], "application": f"apps_v1_Deployment_{place.ns}_web"}}
    assert place.status("s4")["totalIPCount"] == 19 and place.status("s4")["allocatedIPCount"] == 3

    place.scale("Deployment", "web", 9)
    wait(lambda: ips(place.pool("web")) == expand(["10.6.0.2-10.6.0.9", "10.6.0.20"]), "the pool has nine addresses")
    # Two addresses are in use; the lowest of the others are released.
    name = pool["metadata"]["name"]
    place.cluster.ok("PATCH", f"{POOLS}/{name}/status", {"status": {"allocatedIPs": json.dumps({
        "10.6.0.2": {"pod": "t/a", "podUid": "1"}, "10.6.0.5": {"pod": "t/b", "podUid": "2"}})}}, type=MERGE)
    place.scale("Deployment", "web", 4)
    wait(lambda: ips(place.pool("web")) == ["10.6.0.2", "10.6.0.5", "10.6.0.9", "10.6.0.20"],
         "the pool has the two addresses in use and the two highest others")
    wait(lambda: "pendingRelease" not in place.controlled("s4")[name], "the subnet holds no addresses for the pool")
    assert place.status("s4")["allocatedIPCount"] == 4
    # With fewer replicas than addresses in use the pool keeps its size until enough of these are released; the controller reports this.
    place.scale("Deployment", "web", 1)
    c.wait_logged("IPPool available free IPs are not enough")

    def one_is_left():
        """Removes the pool's records of used addresses, then returns whether the pool has one address. The records are removed from the
        annotation too: the leader may have adopted them as Spiderpool's, and would keep them until it confirms that their pods are
        deleted."""
        place.cluster.ok("PATCH", f"{POOLS}/{name}", {"metadata": {"annotations": {"unirail.io/adopted": None}}}, type=MERGE)
        place.cluster.ok("PATCH", f"{POOLS}/{name}/status", {"status": {"allocatedIPs": None}}, type=MERGE)
        return len(ips(place.pool("web"))) == 1
    wait(one_is_left, "the pool has one address", every=0.5)

    place.remove("Deployment", "web")
    wait(lambda: place.leaving("web"), "the pool is being deleted")
    wait(lambda: place.controlled("s4") == {}, "the subnet has no pool")
    assert "controlledIPPools" not in place.status("s4") and place.status("s4")["allocatedIPCount"] == 0
    m = c.metrics()
    assert m["unirail_subnet_pools_created_total"] == 1 and m["unirail_subnet_pools_deleted_total"] == 1


@pytest.mark.parametrize("kind,spec,size", [
    ("ReplicaSet", {}, 2), ("StatefulSet", {}, 2), ("Job", {}, 1), ("Job", {"completions": 5, "parallelism": 2}, 5),
    ("Job", {"parallelism": 3}, 3), ("CronJob", {"completions": 4}, 4)])
def test_replicasets_statefulsets_jobs_and_cronjobs_get_a_pool(place, controller, kind, spec, size):
    place.subnet("k", "10.7.0.0/24", ["10.7.0.2-10.7.0.30"])
    controller()
    place.app(kind, "x", {"subnet": {"ipv4": ["k"]}}, **spec)
    wait(lambda: ips(place.pool("x")) == expand([f"10.7.0.2-10.7.0.{1 + size}"]), f"the pool has {size} addresses")
    place.remove(kind, "x")
    wait(lambda: place.leaving("x"), "the pool is being deleted")


def test_daemonset_has_an_address_for_each_desired_pod(place, controller):
    place.subnet("d", "10.8.0.0/24", ["10.8.0.2-10.8.0.30"])
    controller()
    place.app("DaemonSet", "x", {"subnet": {"ipv4": ["d"]}, "ippool-ip-number": "+2"})
    wait(lambda: len(ips(place.pool("x")) or []) == 2, "the pool has two addresses")
    place.cluster.ok("PATCH", place.path("DaemonSet", "x") + "/status",
                     {"status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 0, "numberMisscheduled": 0,
                                 "numberReady": 0}}, type=MERGE)
    wait(lambda: len(ips(place.pool("x"))) == 5, "the pool has five addresses")


def test_replicasets_and_jobs_with_an_owner_get_no_pool(place, controller):
    place.subnet("o", "10.10.0.0/24", ["10.10.0.2-10.10.0.30"])
    controller()
    by = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": str(uuid.uuid4()), "controller": True}
    place.app("ReplicaSet", "owned", {"subnet": {"ipv4": ["o"]}}, owner=by)
    place.app("Job", "owned", {"subnet": {"ipv4": ["o"]}}, owner={**by, "apiVersion": "batch/v1", "kind": "CronJob"})
    place.app("ReplicaSet", "last", {"subnet": {"ipv4": ["o"]}})
    wait(lambda: place.pool("last"), "application last has a pool")
    assert place.pools("owned") == {}


def test_number_of_addresses_follows_the_annotation(place, controller):
    place.subnet("n", "10.11.0.0/24", ["10.11.0.2-10.11.0.99"])
    controller()
    place.app("Deployment", "fixed", {"subnet": {"ipv4": ["n"]}, "ippool-ip-number": "7"})
    place.app("Deployment", "more", {"subnet": {"ipv4": ["n"]}, "ippool-ip-number": "+3"})
    wait(lambda: len(ips(place.pool("fixed")) or []) == 7 and len(ips(place.pool("more")) or []) == 5,
         "the pools have seven and five addresses")
    assert place.pool("more")["metadata"]["annotations"][GROUP + "ippool-ip-number"] == "+3"


def test_several_interfaces_get_pools_of_both_families(place, controller):
    place.subnet("a4", "10.12.0.0/24", ["10.12.0.2-10.12.0.99"])
    place.subnet("a6", "fd00:12::/120", ["fd00:12::2-fd00:12::99"])
    place.subnet("b4", "10.13.0.0/24", ["10.13.0.2-10.13.0.99"])
    controller()
    place.app("Deployment", "two", {"subnets": [{"interface": "net1", "ipv4": ["a4"], "ipv6": ["a6"]},
                                                {"interface": "net2", "ipv4": ["b4"]}]})
    wait(lambda: len(place.pools("two")) == 3, "the application has three pools")
    got = {name.rsplit("-", 1)[0]: ips(p) for name, p in place.pools("two").items()}
    assert got == {"auto4-two-net1": ["10.12.0.2", "10.12.0.3"], "auto6-two-net1": ["fd00:12::2", "fd00:12::3"],
                   "auto4-two-net2": ["10.13.0.2", "10.13.0.3"]}


def test_invalid_annotation_and_too_small_subnet_are_reported_as_events(place, controller):
    place.subnet("w", "10.14.0.0/24", ["10.14.0.2-10.14.0.9"])
    controller()
    place.app("Deployment", "bad", {"subnet": "{\"ipv4\":7}"})
    place.app("Deployment", "many", {"subnet": {"ipv4": ["w"]}}, size=50)
    place.app("Deployment", "good", {"subnet": {"ipv4": ["w"]}})
    wait(lambda: ips(place.pool("good")) == ["10.14.0.2", "10.14.0.3"], "the pool of application good has two addresses")

    def events():
        return {e["involvedObject"]["name"]: e["message"]
                for e in place.cluster.ok("GET", f"/api/v1/namespaces/{place.ns}/events")["items"]}
    wait(lambda: len(events()) == 2, "two events are created")
    assert "failed to parse anntation 'ipam.spidernet.io/subnet'" in events()["bad"], events()
    assert "insufficient subnet FreeIPs, required '50' but only left '8'" in events()["many"] or \
        "insufficient subnet FreeIPs, required '50' but only left '6'" in events()["many"], events()
    # With six replicas the application gets its pool without further action.
    place.scale("Deployment", "many", 6)
    wait(lambda: len(ips(place.pool("many")) or []) == 6, "the pool of application many has six addresses")


def test_missing_subnet_is_reported_as_an_event(place, controller):
    """An event of the application names the missing subnet, or reports that the subnet belongs to the other IP family."""
    place.subnet("six", "fd00:30::/120", ["fd00:30::2-fd00:30::9"])
    controller()
    place.app("Deployment", "slip", {"subnet": {"ipv4": ["no-such"]}})
    place.app("Deployment", "swap", {"subnet": {"ipv4": ["six"]}})

    def events():
        return {e["involvedObject"]["name"]: (e["reason"], e["message"])
                for e in place.cluster.ok("GET", f"/api/v1/namespaces/{place.ns}/events")["items"]}
    wait(lambda: len(events()) == 2, "two events are created")
    assert events()["slip"][0] == "SubnetPoolFailed" and "SpiderSubnet 'no-such' does not exist" in events()["slip"][1]
    assert 'name it under "ipv6"' in events()["swap"][1], events()
    place.subnet("no-such", "10.28.0.0/24", ["10.28.0.2-10.28.0.9"])
    wait(lambda: ips(place.pool("slip")) == ["10.28.0.2", "10.28.0.3"], "the pool of application slip has two addresses")


def test_pool_without_reclaim_outlives_its_application(place, controller):
    """The pool stays, and the next application of the same name uses it."""
    place.subnet("r", "10.15.0.0/24", ["10.15.0.2-10.15.0.9"])
    controller()
    place.app("StatefulSet", "db", {"subnet": {"ipv4": ["r"]}, "ippool-reclaim": "false"})
    pool = wait(lambda: place.pool("db"), "application db has a pool")
    place.remove("StatefulSet", "db")
    place.app("Deployment", "probe", {"subnet": {"ipv4": ["r"]}})
    wait(lambda: ips(place.pool("probe")) == ["10.15.0.4", "10.15.0.5"], "the pool of application probe has the next two addresses")
    assert place.pool("db")["metadata"]["uid"] == pool["metadata"]["uid"]
    again = place.app("StatefulSet", "db", {"subnet": {"ipv4": ["r"]}, "ippool-reclaim": "true"}, size=3)
    label = GROUP + "owner-application-uid"
    wait(lambda: place.pool("db")["metadata"]["labels"][label] == again["metadata"]["uid"],
         "the pool has the label of the recreated application")
    wait(lambda: ips(place.pool("db")) == ["10.15.0.2", "10.15.0.3", "10.15.0.6"], "the pool of application db has three addresses")
    assert place.pool("db")["metadata"]["uid"] == pool["metadata"]["uid"]


def test_automatic_pools_use_no_reserved_addresses_and_none_of_manual_pools(place, controller):
    place.subnet("h", "10.16.0.0/24", ["10.16.0.2-10.16.0.20"], gateway="10.16.0.1")
    spider = {"apiVersion": "spiderpool.spidernet.io/v2beta1"}
    place.cluster.ok("POST", POOLS, {**spider, "kind": "SpiderIPPool", "metadata": {"name": "by-hand"},
                                     "spec": {"subnet": "10.16.0.0/24", "ips": ["10.16.0.3-10.16.0.4"]}})
    place.cluster.ok("POST", f"{SPIDER}/spiderreservedips", {
        **spider, "kind": "SpiderReservedIP", "metadata": {"name": "res"}, "spec": {"ips": ["10.16.0.5"]}})
    controller()
    wait(lambda: place.controlled("h") == {"by-hand": {"ips": ["10.16.0.3-10.16.0.4"]}}, "the subnet has the pool created by hand")
    hand = wait(lambda: (p := place.pools()["by-hand"])["metadata"].get("ownerReferences") and p,
                "the pool created by hand has an owner")
    assert hand["metadata"]["labels"][GROUP + "owner-spider-subnet"] == "h" and hand["spec"]["gateway"] == "10.16.0.1"
    place.app("Deployment", "x", {"subnet": {"ipv4": ["h"]}}, size=3)
    wait(lambda: ips(place.pool("x")) == ["10.16.0.2", "10.16.0.6", "10.16.0.7"], "the pool has the addresses that are not reserved")
    place.cluster.request("DELETE", f"{SPIDER}/spiderreservedips/res")


def test_addresses_in_blocks_of_nodes_are_not_moved_to_other_pools(place, controller):
    """An address that a pool released goes to another pool only when no node has a block with this address."""
    place.subnet("b", "10.17.0.0/28", ["10.17.0.2-10.17.0.5"])
    controller()
    place.app("Deployment", "one", {"subnet": {"ipv4": ["b"]}}, size=4)
    pool = wait(lambda: place.pool("one"), "application one has a pool")["metadata"]["name"]
    place.block(pool, "10.17.0.0/28")
    place.scale("Deployment", "one", 1)
    wait(lambda: place.controlled("b")[pool].get("pendingRelease") == ["10.17.0.2-10.17.0.4"], "the subnet holds the addresses in blocks of nodes")
    place.app("Deployment", "two", {"subnet": {"ipv4": ["b"]}}, size=2)
    time.sleep(3)
    assert place.pool("two") is None
    # When the pool of application one grows again, it gets back a released address that is in a node's block.
    place.scale("Deployment", "one", 2)
    wait(lambda: ips(place.pool("one")) == ["10.17.0.2", "10.17.0.5"], "the pool of application one has two addresses")
    place.cluster.ok("DELETE", f"/apis/unirail.io/v1/spideripblocks/{pool}-0")
    wait(lambda: ips(place.pool("two")) == ["10.17.0.3", "10.17.0.4"], "the pool of application two has two addresses")


def test_addresses_in_blocks_of_nodes_are_not_reused_after_their_pool_is_deleted(place, controller):
    """A disconnected node keeps its block, and pods that the API server does not know may have addresses of the block. After the deletion
    of the application and its pool no other pool gets these addresses until the block is deleted."""
    place.subnet("gone", "10.26.0.0/28", ["10.26.0.2-10.26.0.5"])
    controller()
    place.app("Deployment", "one", {"subnet": {"ipv4": ["gone"]}}, size=4)
    pool = wait(lambda: place.pool("one"), "application one has a pool")["metadata"]["name"]
    place.block(pool, "10.26.0.0/28")
    place.remove("Deployment", "one")
    wait(lambda: place.cluster.request("GET", f"{POOLS}/{pool}")[0] == 404, f"pool {pool} is deleted")
    place.app("Deployment", "two", {"subnet": {"ipv4": ["gone"]}}, size=2)
    time.sleep(3)
    assert place.pool("two") is None and place.controlled("gone").keys() == {pool}
    place.cluster.ok("DELETE", f"/apis/unirail.io/v1/spideripblocks/{pool}-0")
    wait(lambda: ips(place.pool("two")) == ["10.26.0.2", "10.26.0.3"], "the pool of application two has two addresses")
    wait(lambda: len(place.controlled("gone")) == 1, "the subnet has one pool")


def test_addresses_of_pods_stay_in_their_pool_after_a_restore(place, controller, mine):
    """After a restore of etcd only SpiderEndpoints record the pods' addresses. The controller gives a recreated pool the addresses that
    are recorded for it, and gives no pool an address that is recorded for another one."""
    place.subnet("have", "10.27.0.0/24", ["10.27.0.2-10.27.0.30"])
    uid = place.app("Deployment", "web", {"subnet": {"ipv4": ["have"]}}, size=3)["metadata"]["uid"]
    web = f"auto4-web-eth0-{uid.split('-')[-1][:5]}"
    for name, ip, pool in (("w", "10.27.0.9", web), ("o", "10.27.0.3", "auto4-other-eth0-12345")):
        mine.ok("POST", f"{SPIDER}/namespaces/{place.ns}/spiderendpoints", {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {"name": name, "labels": {"unirail.io/node": "n"}},
            "status": {"current": {"uid": "u", "node": "n", "ips": [
                {"interface": "eth0", "ipv4": f"{ip}/24", "ipv4Pool": pool, "vlan": 0}]},
                "ownerControllerType": "Pod", "ownerControllerName": name}})
    controller()
    wait(lambda: ips(place.pool("web")) == ["10.27.0.2", "10.27.0.4", "10.27.0.9"], "the pool has its address in use and two others")


def test_address_counts_of_a_subnet_of_almost_2_to_the_64_addresses_are_limited(place, controller):
    """The subnet and its pool have almost all addresses of a /64: both counts in the subnet's status are the largest number that they
    can hold, and the subnet can be deleted."""
    place.subnet("wide", "fd00:28::/64", ["fd00:28::1-fd00:28::ffff:ffff:ffff:ffff"])
    place.cluster.ok("POST", POOLS, {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "wide-hand"},
        "spec": {"ipVersion": 6, "subnet": "fd00:28::/64", "ips": ["fd00:28::2-fd00:28::ffff:ffff:ffff:fff0"]}})
    controller()
    wait(lambda: place.controlled("wide"), "the subnet has a pool")
    assert place.status("wide")["allocatedIPCount"] == place.status("wide")["totalIPCount"] == 2 ** 63 - 1
    place.cluster.ok("DELETE", f"{SUBNETS}/wide")
    wait(lambda: place.cluster.request("GET", f"{SUBNETS}/wide")[0] == 404, "SpiderSubnet wide is deleted")


def test_pools_are_deleted_with_their_subnet(place, controller):
    place.subnet("g", "10.18.0.0/24", ["10.18.0.2-10.18.0.9"])
    controller()
    place.app("Deployment", "x", {"subnet": {"ipv4": ["g"]}})
    pool = wait(lambda: place.pool("x"), "the application has a pool")["metadata"]["name"]
    keep = {"metadata": {"finalizers": ["spiderpool.spidernet.io", "example.com/keep"]}}
    place.cluster.ok("PATCH", f"{POOLS}/{pool}", keep, type=MERGE)
    place.cluster.ok("DELETE", f"{SUBNETS}/g")
    wait(lambda: place.leaving("x"), "the pool is being deleted")
    assert place.cluster.request("GET", f"{SUBNETS}/g")[0] == 200
    place.cluster.ok("PATCH", f"{POOLS}/{pool}", {"metadata": {"finalizers": None}}, type=MERGE)
    wait(lambda: place.cluster.request("GET", f"{SUBNETS}/g")[0] == 404, "SpiderSubnet g is deleted")


def test_no_address_is_in_two_pools_while_leaders_are_killed(place, controller, mine):
    """No address is ever in two pools, whichever replica writes; in the end each application has one address for each replica."""
    place.subnet("l", "10.19.0.0/22", ["10.19.0.2-10.19.3.200"])
    leader = controller("a")
    second = controller("b", leads=False)
    twice = []

    def inspect():
        seen = {}
        for name, p in place.pools().items():
            for ip in ips(p):
                if seen.setdefault(ip, name) != name:
                    twice.append((ip, name, seen[ip]))

    def churn(i):
        place.app("Deployment", f"c{i}", {"subnet": {"ipv4": ["l"]}}, size=1 + i % 5)
        for size in (7, 2, 4):
            place.scale("Deployment", f"c{i}", size)
            time.sleep(0.3)
        if i % 4 == 0:
            place.remove("Deployment", f"c{i}")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(churn, i) for i in range(40)]
        for _ in range(3):
            time.sleep(1)
            inspect()
            leader.kill()
            inspect()
            leader, second = second.leads(), leader
            second.start("--lease", "4s", "--lease-renew", "3s", "--lease-retry", "1s")
        [j.result() for j in jobs]
    want = {f"c{i}": 4 for i in range(40) if i % 4}

    def counts_are_as_wanted():
        inspect()
        got = {}
        for p in place.pools().values():
            if not p["metadata"].get("deletionTimestamp"):
                app = p["metadata"]["labels"][GROUP + "owner-application-name"]
                got[app] = got.get(app, 0) + len(ips(p))
        return got == want
    wait(counts_are_as_wanted, f"the numbers of addresses are {want}", 60, 0.3)
    assert not twice, twice
    noted = place.controlled("l")
    for name, p in place.pools().items():
        if not p["metadata"].get("deletionTimestamp"):
            assert expand(noted[name]["ips"]) == ips(p)


# --- pods ---

def own(o, api, kind):
    return {"apiVersion": api, "kind": kind, "name": o["metadata"]["name"], "uid": o["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True}


@pytest.fixture
def pods(mine, place, closing, tmp_path):
    """A function that creates a pod of an owner, with annotations, on a node with an agent."""
    nodes = Nodes(mine)
    node = f"n-{uuid.uuid4().hex[:6]}"
    nodes.node(node)
    agent = closing(Agent(tmp_path / node, mine.admin_config(), node)).start()

    def make(owner, annotations):
        meta = {"name": f"p-{uuid.uuid4().hex[:6]}", "ownerReferences": [owner],
                "annotations": {GROUP + k: v if isinstance(v, str) else json.dumps(v) for k, v in annotations.items()}}
        return mine.ok("POST", f"/api/v1/namespaces/{place.ns}/pods", {
            "metadata": meta, "spec": {"nodeName": node, "automountServiceAccountToken": False,
                                       "containers": [{"name": "c", "image": "i"}]}})
    make.agent = agent
    yield make
    for b in nodes.blocks():
        mine.request("DELETE", f"/apis/unirail.io/v1/spideripblocks/{b['metadata']['name']}")


def test_pods_of_a_deployment_wait_for_their_pool(place, controller, pods):
    """The pods wait until their pool exists, and until the pool is large enough. No pod of another application gets an address of the
    pool."""
    annotations = {"subnet": {"ipv4": ["p"]}}
    place.subnet("p", "10.20.0.0/24", ["10.20.0.2-10.20.0.30"], gateway="10.20.0.1")
    app = place.app("Deployment", "web", annotations, size=2)
    rs = place.app("ReplicaSet", "web-1", annotations, size=2, owner=own(app, "apps/v1", "Deployment"))
    one, two, three = (pods(own(rs, "apps/v1", "ReplicaSet"), annotations) for _ in range(3))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        job = pool.submit(pods.agent.add, one)
        time.sleep(0.5)
        assert not job.done()  # there is no controller yet
        controller()
        status, answer = job.result()
        assert status == 200, answer
        assert answer["ips"][0]["address"].startswith("10.20.0.") and answer["ips"][0]["gateway"] == "10.20.0.1"
        assert answer["ips"][0]["ipPool"] == place.pool("web")["metadata"]["name"]
        assert pods.agent.add(two)[0] == 200
        job = pool.submit(pods.agent.add, three)
        time.sleep(0.5)
        assert not job.done()  # the pool has no more than two addresses
        began = time.monotonic()
        place.scale("Deployment", "web", 3)
        status, answer = job.result()
        assert status == 200, answer
        print("a third address after", time.monotonic() - began, "s")
    # A pod of another application gets no address of the pool.
    other = place.app("Deployment", "other", {"ippool": {"ipv4": [place.pool("web")["metadata"]["name"]]}})
    rs = place.app("ReplicaSet", "other-1", {}, owner=own(other, "apps/v1", "Deployment"))
    stranger = pods(own(rs, "apps/v1", "ReplicaSet"), {"ippool": {"ipv4": [place.pool("web")["metadata"]["name"]]}})
    status, answer = pods.agent.add(stranger)
    assert status == 500 and "unmatched Pod affinity" in answer, answer


def test_pod_of_a_cronjob_gets_its_pool_and_pod_without_owner_is_refused(place, controller, pods, mine):
    annotations = {"subnets": [{"interface": "eth0", "ipv4": ["c"]}, {"interface": "net1", "ipv4": ["c2"]}]}
    place.subnet("c", "10.21.0.0/24", ["10.21.0.2-10.21.0.30"])
    place.subnet("c2", "10.22.0.0/24", ["10.22.0.2-10.22.0.30"])
    controller()
    app = place.app("CronJob", "tick", annotations, parallelism=2)
    job = place.app("Job", "tick-1", annotations, owner=own(app, CRON, "CronJob"))
    pod = pods(own(job, "batch/v1", "Job"), annotations)
    status, answer = pods.agent.add(pod)
    assert status == 200 and answer["ips"][0]["address"] in ("10.21.0.2/24", "10.21.0.3/24"), answer
    status, answer = pods.agent.add(pod, ifname="net1")
    assert status == 200 and any(x["address"].startswith("10.22.0.") for x in answer["ips"]), answer
    alone = mine.ok("POST", f"/api/v1/namespaces/{place.ns}/pods", {
        "metadata": {"name": "alone", "annotations": {GROUP + "subnet": '{"ipv4":["c"]}'}},
        "spec": {"nodeName": pods.agent.node, "automountServiceAccountToken": False,
                 "containers": [{"name": "c", "image": "i"}]}})
    status, answer = pods.agent.add(alone)
    assert status == 500 and "SpiderSubnet feature doesn't support no-controller pod" in answer, answer


def test_application_of_another_kind_gets_a_pool(place, controller, pods, mine):
    """The agent creates the pool when the first pod whose annotation gives a fixed number of addresses requests its address; a pod
    without this number is refused."""
    mine.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clonesets.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": "Namespaced",
                 "names": {"kind": "CloneSet", "plural": "clonesets", "singular": "cloneset"},
                 "versions": [{"name": "v1alpha1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
    path = f"/apis/apps.kruise.io/v1alpha1/namespaces/{place.ns}/clonesets"
    wait(lambda: mine.request("GET", path)[0] == 200, f"the API server serves {path}")
    clones = mine.ok("POST", path, {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
                                    "metadata": {"name": "clones"}})
    place.subnet("f", "10.23.0.0/24", ["10.23.0.2-10.23.0.30"], gateway="10.23.0.1")
    controller()
    owner = own(clones, "apps.kruise.io/v1alpha1", "CloneSet")
    status, answer = pods.agent.add(pods(owner, {"subnet": {"ipv4": ["f"]}}))
    assert status == 500 and "only supports fixed auto-created IPPool IP Number" in answer, answer
    pod = pods(owner, {"subnet": {"ipv4": ["f"]}, "ippool-ip-number": "4"})
    status, answer = pods.agent.add(pod)
    assert status == 200, answer
    pool = place.pool("clones")
    assert len(ips(pool)) == 4 and pool["metadata"]["ownerReferences"][0]["kind"] == "SpiderSubnet"
    text = f"apps.kruise.io_v1alpha1_CloneSet_{place.ns}_clones"
    assert place.controlled("f")[pool["metadata"]["name"]]["application"] == text
    # New pods request another number of addresses, as after a change of the application's pod template; the pool follows.
    for count in (6, 5):
        status, answer = pods.agent.add(pods(owner, {"subnet": {"ipv4": ["f"]}, "ippool-ip-number": str(count)}))
        assert status == 200, answer
        wait(lambda: len(ips(place.pool("clones"))) == count, f"the pool has {count} addresses")
    assert place.pool("clones")["metadata"]["annotations"][GROUP + "ippool-ip-number"] == "5"


def test_applications_with_long_names_get_pools(place, controller, pods):
    """A label's value has 63 characters at most; names of applications and subnets may have more."""
    name, subnet = ("x" * 40 + "-" + n * 40 for n in "as")
    annotations = {"subnet": {"ipv4": [subnet]}}
    place.subnet(subnet, "10.25.0.0/24", ["10.25.0.2-10.25.0.30"])
    controller()
    app = place.app("Deployment", name, annotations, size=2)
    pool = wait(lambda: next(iter(place.pools().values()), None), "the application has a pool")
    assert pool["metadata"]["annotations"][GROUP + "owner-application-name"] == name
    assert pool["metadata"]["labels"][GROUP + "owner-application-name"].startswith("x" * 40 + "-aaaaa-")
    rs = place.app("ReplicaSet", name[:60], annotations, size=2, owner=own(app, "apps/v1", "Deployment"))
    status, answer = pods.agent.add(pods(own(rs, "apps/v1", "ReplicaSet"), annotations))
    assert status == 200 and answer["ips"][0]["ipPool"] == pool["metadata"]["name"], answer
    place.scale("Deployment", name, 3)
    wait(lambda: ips(place.cluster.ok("GET", f"{POOLS}/{pool['metadata']['name']}")) == expand(["10.25.0.2-10.25.0.4"]),
         "the pool has three addresses")
    assert place.controlled(subnet).keys() == {pool["metadata"]["name"]}


def test_pool_is_deleted_with_its_owner_of_another_kind(place, controller, mine):
    """A pool is deleted once its owner is confirmed to be deleted; if the server does not know the owner's kind, the pool stays."""
    def pool(kind, gv):
        labels = {"owner-spider-subnet": "q", "owner-application-gv": gv, "owner-application-kind": kind,
                  "owner-application-namespace": place.ns, "owner-application-name": kind.lower(),
                  "owner-application-uid": str(uuid.uuid4()), "interface": "eth0", "ip-version": "IPv4",
                  "ippool-reclaim": "true"}
        mine.ok("POST", POOLS, {
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": f"auto4-{kind.lower()}", "labels": {GROUP + k: v for k, v in labels.items()},
                         "annotations": {GROUP + "ippool-ip-number": "3"}},
            "spec": {"ipVersion": 4, "subnet": "10.24.0.0/24"}})
    place.subnet("q", "10.24.0.0/24", ["10.24.0.2-10.24.0.30"])
    pool("Oddset", "odd.example.com_v1")
    pool("Deployment", "apps.example.com_v1")
    pool("ConfigMap", "v1")  # the API server knows the kind, but this ConfigMap does not exist
    controller()
    wait(lambda: place.leaving("configmap"), "the pool of the ConfigMap is being deleted")
    for name in ("oddset", "deployment"):
        wait(lambda: len(ips(place.pool(name))) == 3, "the pool has three addresses")
        assert "deletionTimestamp" not in place.pool(name)["metadata"]


def test_pools_missing_after_a_restore_are_recreated(place, controller, pods, mine):
    """etcd is restored to a time before the pools: each pool is recreated with the addresses of its pods. This is the last test of the
    module, because the freeze after a restore would delay the other tests."""
    annotations = {"subnet": {"ipv4": ["lost"]}}
    place.subnet("lost", "10.29.0.0/24", ["10.29.0.2-10.29.0.30"])
    mates = {}
    for name in ("a", "b"):
        app = place.app("Deployment", name, annotations, size=2)
        rs = place.app("ReplicaSet", f"{name}-1", annotations, size=2, owner=own(app, "apps/v1", "Deployment"))
        mates[name] = [pods(own(rs, "apps/v1", "ReplicaSet"), annotations) for _ in range(2)]
    mine.back_up()
    place.scale("Deployment", "a", 4)
    c = controller()
    wait(lambda: ips(place.pool("a")) == expand(["10.29.0.2-10.29.0.5"]), "the pool of application a has four addresses")
    wait(lambda: ips(place.pool("b")) == ["10.29.0.6", "10.29.0.7"], "the pool of application b has two addresses")

    def add(pod):
        status, answer = pods.agent.add(pod)
        return status == 200 and answer["ips"][0]["address"].split("/")[0]
    had = {name: [wait(lambda: add(p), "the pod gets its addresses", 60) for p in mates[name]] for name in ("b", "a")}
    assert sorted(had["b"]) == ["10.29.0.6", "10.29.0.7"]

    def endpoints():
        return {e["metadata"]["name"] for e in mine.ok("GET", f"{SPIDER}/namespaces/{place.ns}/spiderendpoints")["items"]}
    all_pods = {p["metadata"]["name"] for v in mates.values() for p in v}
    wait(lambda: endpoints() == all_pods, "each pod has a SpiderEndpoint")
    for i in range(200):  # raises the resource version above the version that the server has after the restore
        mine.config_map(place.ns, f"later-{i}")
    mine.restore()
    wait(lambda: c.logged("etcd was restored from a backup") or
         c.metrics()["unirail_controller_leader"] == 0 and c.start().leads(), "the controller reports the restore", 60)
    wait(lambda: endpoints() == all_pods, "each pod has a SpiderEndpoint", 60)
    wait(lambda: sorted(ips(place.pool("b")) or []) == sorted(had["b"]),
         "the pool of application b has its addresses from before the restore", 120)
    wait(lambda: set(ips(place.pool("a")) or []) == set(had["a"]),
         "the pool of application a has its addresses from before the restore", 30)
    place.scale("Deployment", "a", 4)
    wait(lambda: len(ips(place.pool("a"))) == 4, "the pool of application a has four addresses")
    assert not set(ips(place.pool("a"))) & set(had["b"])
    assert {name: [wait(lambda: add(p), "the pod gets its addresses", 60) for p in mates[name]] for name in ("b", "a")} == had
