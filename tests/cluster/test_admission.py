# SPDX-License-Identifier: Apache-2.0
"""Admission: the table in manifests/, applied by kubectl; and concurrent reviews by two replicas."""
import concurrent.futures
import ipaddress
import itertools
import json
import pathlib
import time

import pytest
import yaml

import cluster as clusters
from agents import MERGE, SPIDER, install_crds
from cluster import Proxy, free_port, wait
from controllers import Controller

MANIFESTS = pathlib.Path(__file__).resolve().parent / "manifests"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/team/network-attachment-definitions"
VERSION = "spiderpool.spidernet.io/v2beta1"
PATHS = {"SpiderIPPool": f"{SPIDER}/spiderippools", "SpiderSubnet": f"{SPIDER}/spidersubnets",
         "SpiderReservedIP": f"{SPIDER}/spiderreservedips", "SpiderCoordinator": f"{SPIDER}/spidercoordinators",
         "SpiderMultusConfig": f"{SPIDER}/namespaces/team/spidermultusconfigs", "NetworkAttachmentDefinition": NADS}
NS = "unirail"
TRUST = "unirail.io/trusted-definitions"
CLAIMS = f"/api/v1/namespaces/{NS}/configmaps/unirail-claims"


class Balancer(Proxy):
    """Forwards TCP connections to several ports in turn."""

    def __init__(self, ports):
        self.ports, self.turn = ports, 0
        super().__init__(None)

    @property
    def to(self):
        self.turn += 1
        return self.ports[self.turn % len(self.ports)]

    @to.setter
    def to(self, _):
        pass

    def shuffle(self, cluster):
        """Closes the API server's idle connections, so that its next calls open new ones to both replicas."""
        self.cut()
        self.mend()
        o = pool("probe", "10.8.0.1", "10.8.0.9", "10.8.0.0/16")
        wait(lambda: cluster.request("POST", PATHS["SpiderIPPool"] + "?dryRun=All", o)[0] == 201, "the pool is admitted")


@pytest.fixture(scope="module")
def admitting(tmp_path_factory):
    """A cluster whose objects are reviewed by two controllers."""
    one = clusters.Cluster()
    install_crds(one)
    one.namespace(NS)
    one.namespace("team")
    folder = tmp_path_factory.mktemp("c")
    replicas = [Controller(folder / n, one.admin_config(), NS, n) for n in ("a", "b")]
    for c in replicas:
        c.webhook_port = free_port()
    one.replicas = replicas
    one.front = front = Balancer([c.webhook_port for c in replicas])
    for c in replicas:
        c.start("--webhook-url", f"https://127.0.0.1:{front.port}", "--webhook-linger", "0s")
    bad = {"apiVersion": VERSION, "kind": "SpiderIPPool", "metadata": {"name": "probe"},
           "spec": {"subnet": "10.250.0.0/24", "ips": ["10.251.0.1"]}}
    wait(lambda: one.request("POST", PATHS["SpiderIPPool"] + "?dryRun=All", bad)[0] == 422,
         "the webhook refuses an invalid pool", 60, 0.2)
    yield one
    for c in replicas:
        c.close()
    front.close()
    one.close()


def whole(kind, name, meta=None, spec=None):
    o = {"apiVersion": "k8s.cni.cncf.io/v1" if kind == "NetworkAttachmentDefinition" else VERSION, "kind": kind,
         "metadata": {**(meta or {}), "name": name}, "spec": spec or {}}
    if "namespaces" in PATHS[kind]:
        o["metadata"]["namespace"] = "team"
    return o


def remove(cluster, kind, name):
    path = f"{PATHS[kind]}/{name}"
    if cluster.request("GET", path)[0] == 404:
        return
    cluster.request("DELETE", path)
    cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
    wait(lambda: cluster.request("GET", path)[0] == 404, f"{path} is deleted")


def known(cluster):
    """Waits until both replicas have seen all pools, subnets, SpiderMultusConfigs and NetworkAttachmentDefinitions."""
    for kind in ("SpiderIPPool", "SpiderSubnet", "SpiderMultusConfig", "NetworkAttachmentDefinition"):
        plural = PATHS[kind].rsplit("/", 1)[1]
        key = f'unirail_controller_objects{{kind="{plural}"}}'
        there = len(cluster.ok("GET", PATHS[kind])["items"])
        for c in cluster.replicas:
            wait(lambda: c.metrics()[key] == there, f"the controller counts {there} objects of kind {kind}")


@pytest.fixture
def clean(admitting):
    def sweep():
        for kind, path in PATHS.items():
            for o in admitting.ok("GET", path)["items"]:
                remove(admitting, kind, o["metadata"]["name"])
    sweep()
    yield admitting
    sweep()


def set_status(cluster, kind, name, status):
    """Sets the status of a pool or subnet, and waits until both replicas have seen it: creates another object of the kind, and waits until
    both replicas count that object. A watch delivers the changes of a kind in order."""
    cluster.ok("PATCH", f"{PATHS[kind]}/{name}/status", {"status": status}, type=MERGE)
    cluster.ok("POST", PATHS[kind], whole(kind, "later", {}, {"subnet": "192.0.2.0/24", "ips": ["192.0.2.1"]}))
    known(cluster)
    remove(cluster, kind, "later")


# --- the table ---


def cases():
    for path in sorted(MANIFESTS.glob("*.yaml")):
        table = yaml.safe_load(path.read_text())
        for case in table["cases"]:
            if not any(case.get(key) for key in ("world", "overlapping", "unsettled", "trusted")):
                yield pytest.param(table["kind"], case, id=f"{path.stem}: {case['case']}")


def has(is_, want, place=""):
    """Asserts that `want` is a subset of `is_`; an empty or null value matches a missing one."""
    if isinstance(want, dict):
        assert isinstance(is_ or {}, dict), place
        for key, value in want.items():
            has((is_ or {}).get(key), value, f"{place}.{key}")
    elif isinstance(want, list) and isinstance(is_, list):
        assert len(is_) == len(want), (place, is_)
        for i, value in enumerate(want):
            has(is_[i], value, f"{place}[{i}]")
    else:
        assert is_ == want or (want in (None, []) and not is_), (place, is_, want)


def prepare(cluster, kind, was):
    """Creates the object as it was before an update or a deletion."""
    meta = dict(was.get("meta") or {})
    if was.get("going"):
        meta["finalizers"] = ["test/hold", *meta.get("finalizers", [])]
    r = cluster.run_kubectl("apply", "-f", "-", text=json.dumps(whole(kind, "x", meta, was["spec"])))
    assert r.returncode == 0, r.stderr
    if was.get("status"):
        cluster.ok("PATCH", f"{PATHS[kind]}/x/status", {"status": was["status"]}, type=MERGE)
    if was.get("going"):
        cluster.ok("DELETE", f"{PATHS[kind]}/x")


def check_message(case, r):
    warned = [line for line in r.stderr.splitlines() if line.startswith("Warning: ")
              and "currently being deleted" not in line  # a warning of kubectl
              and "prefer a domain-qualified finalizer" not in line]  # a warning of newer API servers about Spiderpool's finalizer
    if not case.get("schema"):
        assert len(warned) == len(case.get("warned", [])), r.stderr
        for contains in case.get("warned", []):
            assert any(contains in line for line in warned), r.stderr
    if "refused" not in case:
        assert r.returncode == 0, r.stderr
        return
    assert r.returncode == 1
    if case.get("schema"):
        return
    field, _, text = case["refused"].partition(": ")
    if field.startswith(("spec", "metadata")) and text:
        assert f"{field}: " in r.stderr and text in r.stderr, r.stderr
    else:
        assert case["refused"] in r.stderr, r.stderr


@pytest.mark.parametrize("kind, case", cases())
def test_reviews_match_the_table(clean, kind, case):
    cluster = clean
    was = case.get("was")
    for o in case.get("there", []):
        made = cluster.ok("POST", PATHS[o["kind"]], whole(o["kind"], o["metadata"]["name"], o["metadata"], o["spec"]))
        if o.get("status"):
            set_status(cluster, o["kind"], made["metadata"]["name"], o["status"])
    if was:
        prepare(cluster, kind, was)
    known(cluster)
    if case.get("delete"):
        r = cluster.run_kubectl("delete", PATHS[kind].rsplit("/", 1)[1], "x", "--wait=false")
    else:
        o = whole(kind, "x", case.get("meta"), case.get("spec", (was or {}).get("spec")))
        if was and was.get("going") and "finalizers" not in o["metadata"]:
            o["metadata"]["finalizers"] = ["test/hold"]
        r = cluster.run_kubectl("apply", "-f", "-", text=json.dumps(o))
    check_message(case, r)
    if "becomes" in case:
        has(cluster.ok("GET", f"{PATHS[kind]}/x"), case["becomes"])


def again():
    """Yields each accepted case that needs no other object and whose strings are stored as sent."""
    for path in sorted(MANIFESTS.glob("*.yaml")):
        table = yaml.safe_load(path.read_text())
        for case in table["cases"]:
            if "spec" in case and not any(case.get(key) for key in ("there", "was", "refused", "world", "rewritten")):
                yield pytest.param(table["kind"], case, id=f"{path.stem}: {case['case']}")


@pytest.fixture
def team_trusted(clean):
    """team_trusted(object) makes the object's namespace trusted until the end of the test."""
    objects = []

    def is_taken(o, want):
        status, answer = clean.request("POST", PATHS[o["kind"]] + "?dryRun=All", o)
        assert (status == 201) == want, answer
        return True

    def annotate(value):
        clean.ok("PATCH", "/api/v1/namespaces/team", {"metadata": {"annotations": {TRUST: value}}}, type=MERGE)

    def trust(o):
        objects.append(o)
        annotate("true")
        wait(lambda: is_taken(o, True), "the webhook admits the object in the trusted namespace")

    yield trust
    for o in objects:
        annotate(None)
        remove(clean, o["kind"], o["metadata"]["name"])
        wait(lambda: is_taken(o, False), "the webhook refuses the object in namespace team, which is no longer trusted")


@pytest.mark.parametrize("kind, case", again())
def test_stored_objects_can_be_applied_again(clean, team_trusted, kind, case):
    """The second kubectl apply finds the stored object equal to the sent one, even if a value was converted, and changes nothing."""
    o = whole(kind, "x", case.get("meta"), case["spec"])
    if case.get("trusted"):
        team_trusted(o)
    text = json.dumps(o)
    assert clean.run_kubectl("apply", "-f", "-", text=text).returncode == 0
    version = clean.ok("GET", f"{PATHS[kind]}/x")["metadata"]["generation"]
    r = clean.run_kubectl("apply", "-f", "-", text=text)
    assert r.returncode == 0 and "unchanged" in r.stdout, (r.stdout, r.stderr)
    assert clean.ok("GET", f"{PATHS[kind]}/x")["metadata"]["generation"] == version


# --- two writes at the same time ---


def pool(name, first, last, subnet="10.9.0.0/16"):
    return whole("SpiderIPPool", name, spec={"subnet": subnet, "ips": [f"{first}-{last}"]})


def ranges(cluster):
    """{pool: its addresses as numbers}"""
    found = {}
    for o in cluster.ok("GET", PATHS["SpiderIPPool"])["items"]:
        taken = set()
        for text in o["spec"].get("ips") or []:
            ends = [int(ipaddress.ip_address(e)) for e in text.split("-")]
            taken |= set(range(ends[0], ends[-1] + 1))
        found[o["metadata"]["name"]] = taken
    return found


def no_two_overlap(cluster):
    found = ranges(cluster)
    for a, b in itertools.combinations(sorted(found), 2):
        assert not found[a] & found[b], (a, b)
    return found


def at_once(jobs):
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda job: job(), jobs))


def checked(c):
    """Number of pools that the replica has reviewed."""
    return sum(v for k, v in c.metrics().items()
               if k.startswith(("unirail_controller_reviews_allowed_total", "unirail_controller_reviews_refused_total"))
               and "/validate-" in k and "spiderippool" in k)


def neighbours(cluster, turn):
    """Creates twenty pools at once, each of which shares five addresses with the next one. Returns the numbers of pools that were created,
    refused because of an overlap, and refused with the advice to retry."""
    def make(i):
        o = pool(f"t{turn}-{i}", f"10.9.{turn}.{10 * i}", f"10.9.{turn}.{10 * i + 14}")
        return lambda: cluster.request("POST", PATHS["SpiderIPPool"], o)
    made = refused = later = 0
    for status, answer in at_once([make(i) for i in range(20)]):
        reason = "" if status == 201 else answer["message"]
        assert status == 201 or "overlap with IPPool" in reason or "try again" in reason, answer
        made, refused, later = made + (not reason), refused + ("overlap with" in reason), later + ("try again" in reason)
    no_two_overlap(cluster)
    return made, refused, later


def test_no_two_overlapping_pools_created_concurrently_are_accepted(clean):
    """This holds whichever replica reviews the pools; each refusal names the reason."""
    before = [checked(c) for c in clean.replicas]
    for turn in range(16):
        clean.front.shuffle(clean)
        made, refused, later = neighbours(clean, turn)
        print(f"made {made}, refused {refused}, told to try again {later}")
        assert made >= 1 and refused + later >= 1
        asked = [checked(c) - n for c, n in zip(clean.replicas, before)]
        if turn >= 3 and min(asked) >= 20:
            break
    print(f"asked {asked}")
    assert min(asked) > 0


def test_no_two_pools_grown_concurrently_into_each_other_are_accepted(clean):
    for i in range(10):
        clean.ok("POST", PATHS["SpiderIPPool"], pool(f"g{i}", f"10.9.0.{20 * i}", f"10.9.0.{20 * i + 4}"))

    def grow(i):
        body = {"spec": {"ips": [f"10.9.0.{20 * i}-10.9.0.{20 * i + 24}"]}}
        return lambda: clean.request("PATCH", f"{PATHS['SpiderIPPool']}/g{i}", body, type=MERGE)
    answers = at_once([grow(i) for i in range(10)])
    found = no_two_overlap(clean)
    assert sum(status == 200 for status, _ in answers) >= 1
    assert sum(len(v) > 5 for v in found.values()) == sum(status == 200 for status, _ in answers)


def test_only_one_of_overlapping_subnets_created_concurrently_is_accepted(clean):
    def make(i):
        o = whole("SpiderSubnet", f"s{i}", spec={"subnet": f"10.9.0.0/{16 + i}", "ips": ["10.9.0.1"]})
        return lambda: clean.request("POST", PATHS["SpiderSubnet"], o)
    answers = at_once([make(i) for i in range(8)])
    assert sum(status == 201 for status, _ in answers) == 1, answers
    assert len(clean.ok("GET", PATHS["SpiderSubnet"])["items"]) == 1


def claims(cluster):
    status, o = cluster.request("GET", CLAIMS)
    return o.get("data") or {} if status == 200 else {}


def claimed(cluster):
    """Names of the objects whose ranges were locked recently."""
    return {json.loads(text)["metadata"]["name"] for text in claims(cluster).values()}


def test_addresses_of_a_deleted_pool_are_accepted_in_another_pool(clean):
    """When the replicas have seen a pool's deletion, its addresses are accepted in another pool; the locks are removed shortly after."""
    for name in ("first", "second"):
        clean.ok("POST", PATHS["SpiderIPPool"], pool(name, "10.9.0.1", "10.9.0.9"))
        assert name in claimed(clean)
        remove(clean, "SpiderIPPool", name)
        known(clean)
    wait(lambda: not claimed(clean) & {"first", "second"}, "the range locks of the deleted pools are removed", 5)


def test_dry_run_locks_no_range(clean):
    clean.ok("POST", PATHS["SpiderIPPool"], pool("real", "10.9.0.1", "10.9.0.9"))
    r = clean.run_kubectl("apply", "--dry-run=server", "-f", "-", text=json.dumps(pool("dry", "10.9.0.10", "10.9.0.19")))
    assert r.returncode == 0, r.stderr
    clean.ok("POST", PATHS["SpiderIPPool"], pool("other", "10.9.0.10", "10.9.0.19"))
    names = claimed(clean)
    assert names >= {"real", "other"} and "dry" not in names


def put_claim(cluster, age):
    text = json.dumps({"at": int(time.time()) - age, "kind": "SpiderIPPool", "metadata": {"name": "never", "uid": "u"},
                       "spec": {"subnet": "10.9.0.0/16", "ips": ["10.9.0.5"]}})
    cluster.ok("PATCH", CLAIMS, {"data": {"r": text}}, type=MERGE)


def test_lock_of_a_failed_create_expires(clean):
    clean.ok("POST", PATHS["SpiderIPPool"], pool("real", "10.9.1.1", "10.9.1.9"))
    put_claim(clean, 0)
    status, answer = clean.request("POST", PATHS["SpiderIPPool"], pool("x", "10.9.0.1", "10.9.0.9"))
    assert status >= 500 and "SpiderIPPool 'never' was admitted" in answer["message"] and "try again in" in answer["message"]
    put_claim(clean, 80)
    clean.ok("POST", PATHS["SpiderIPPool"], pool("x", "10.9.0.1", "10.9.0.9"))
    assert "r" not in claims(clean)


def test_replica_without_the_api_server_refuses_pools(clean, closing, tmp_path):
    """A review that must lock addresses is refused within 10 s, since the lock requires the API server. A review without a lock is
    decided."""
    link = closing(Proxy(clean.port))
    conf = tmp_path / "conf"
    clean.through(link, conf)
    c = closing(Controller(tmp_path / "c", conf, NS, "c"))
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{clean.front.port}", "--webhook-linger", "0s")
    ports, clean.front.ports = clean.front.ports, [c.webhook_port]
    try:
        clean.front.shuffle(clean)
        clean.ok("POST", PATHS["SpiderIPPool"], pool("before", "10.11.0.1", "10.11.0.9", "10.11.0.0/16"))
        link.cut()
        began = time.monotonic()
        status, answer = clean.request("POST", PATHS["SpiderIPPool"], pool("x", "10.11.1.1", "10.11.1.9", "10.11.0.0/16"))
        assert status >= 500 and time.monotonic() - began < 10
        assert "cannot lock the addresses against concurrent changes: try again" in answer["message"]
        bad = whole("SpiderReservedIP", "x", spec={"ips": ["10.9.1.9-10.9.1.1"]})
        status, answer = clean.request("POST", PATHS["SpiderReservedIP"], bad)
        assert status == 422 and "is reversed" in answer["message"]
        link.mend()
        wait(lambda: clean.request("POST", PATHS["SpiderIPPool"], pool("x", "10.11.1.1", "10.11.1.9", "10.11.0.0/16"))[0] == 201,
             "the webhook admits pools again")
    finally:
        clean.front.ports = ports
        clean.front.shuffle(clean)
