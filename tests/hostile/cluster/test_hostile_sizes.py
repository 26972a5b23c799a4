# SPDX-License-Identifier: Apache-2.0
"""Large objects of tenants that no webhook refused: controller and agent start, store only small parts of the objects, and report which
objects they skip."""
import base64
import json
import os
import pathlib
import uuid

import pytest

from agents import MERGE, SPIDER, Agent, install_crds
from cluster import memory, wait
from controllers import Controller

NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions"
COUNT, BYTES = 190, 1_300_000  # with these definitions an earlier controller exceeded its memory limit, 256 MiB, at every start
# An object with these labels, and the managedFields that the API server adds for each label, has about the maximum size in etcd.
LABELS = {f"{i:x}": "" for i in range(60000)}


@pytest.fixture(scope="module", autouse=True)
def crds(cluster):
    install_crds(cluster)


def seconds(daemon):
    """CPU time of the process so far."""
    contains = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(contains[11]) + int(contains[12])) / os.sysconf("SC_CLK_TCK")


def answered(*args, **kw):
    """The HTTP status; 0: no response in time."""
    cluster, *args = args
    try:
        return cluster.request(*args, **kw)[0]
    except TimeoutError:
        return 0


def smc(name, spec):
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": name}, "spec": spec}


def reason_of(o):
    return next((c["reason"] for c in o.get("status", {}).get("conditions", [])), None)


def reasons(cluster, path):
    """The reason of each object's condition, by name."""
    return {o["metadata"]["name"]: reason_of(o) for o in cluster.ok("GET", path)["items"] if reason_of(o)}


def copies(cluster, ns, name, names):
    """Writes copies of a SpiderMultusConfig directly to etcd: this takes 0.1 s for each copy, a create through the API server takes 1 s."""
    text = lambda s: base64.b64encode(s.encode()).decode()
    key = lambda n: text(f"/registry/spiderpool.spidernet.io/spidermultusconfigs/{ns}/{n}")
    stored = base64.b64decode(cluster.etcd_call("kv/range", key=key(name))["kvs"][0]["value"])
    o = json.loads(stored)
    for n in names:
        o["metadata"].update(name=n, uid=str(uuid.uuid4()))
        cluster.etcd_call("kv/put", key=key(n), value=text(json.dumps(o)))


def test_large_definitions_are_skipped_and_reported(cluster, ns, closing, tmp_path):
    path = f"{SPIDER}/namespaces/{ns}/spidermultusconfigs"
    names = [f"large-{i}" for i in range(COUNT)]
    try:
        # No webhook runs here: it would refuse the object.
        cluster.ok("POST", path, smc("large-0", {"cniType": "custom", "customCNI": "x" * BYTES}))
        copies(cluster, ns, "large-0", names[1:])
        cluster.ok("POST", path, smc("small", {"cniType": "ipoib", "ipoib": {"master": "ib0"}}))
        c = closing(Controller(tmp_path / "c", cluster.admin_config(), ns)).start(ready=False)
        c.leads(60)
        c.ready(300)
        wait(lambda: cluster.request("GET", NADS.format(ns) + "/small")[0] == 200,
             "the NetworkAttachmentDefinition of the small configuration is created", 300)
        assert c.logged("caching only a part of an object: it exceeds the size limit")
        for name in names:
            wait(lambda name=name: reason_of(cluster.ok("GET", f"{path}/{name}")) == "TooLarge",
                 f"SpiderMultusConfig {name} has the reason TooLarge", 300)
        assert reason_of(cluster.ok("GET", f"{path}/small")) == "Written"
        print("CPU", seconds(c), "KiB", memory(c.process.pid, "VmHWM"))
        assert memory(c.process.pid, "VmHWM") < 32 << 10
    finally:
        for name in [*names, "small"]:
            cluster.request("DELETE", f"{path}/{name}")
        cluster.compact()


def test_60000_labels_cost_little_memory_and_no_leader_change(cluster, ns, closing, tmp_path):
    """60,000 labels of a namespace, a pod and a pool: controller and agent each stay below 32 MiB, and the leader stays the same."""
    c = closing(Controller(tmp_path / "c", cluster.admin_config(), ns)).start().leads()
    cluster.ok("POST", "/api/v1/nodes", {"metadata": {"name": f"{ns}-node"}})
    a = closing(Agent(tmp_path / "a", cluster.admin_config(), f"{ns}-node")).start()

    def held():
        """The leader, and the number of leader changes."""
        leases = cluster.ok("GET", f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases")["items"]
        return {x["metadata"]["name"]: (x["spec"]["holderIdentity"], x["spec"].get("leaseTransitions")) for x in leases}

    before, spent = held(), {x: seconds(x) for x in (c, a)}
    assert before
    many = f"{ns}-many"
    objects = [("/api/v1/namespaces", {"metadata": {"name": many, "labels": LABELS}}),
               (f"/api/v1/namespaces/{ns}/pods",
                {"metadata": {"name": "many", "labels": LABELS},
                 "spec": {"nodeName": f"{ns}-node", "containers": [{"name": "c", "image": "i"}]}}),
               (f"{SPIDER}/spiderippools",
                {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": many, "labels": LABELS},
                 "spec": {"subnet": "10.77.0.0/24", "ips": ["10.77.0.2"]}})]
    for path, o in objects:
        # The API server itself takes half a minute for 60,000 labels on a busy machine.
        wait(lambda path=path, o=o: answered(cluster, "POST", path, o) in (201, 409), "the object with many labels is created", 120)
    for path, o in objects:
        wait(lambda path=path, o=o: answered(cluster, "PATCH", f"{path}/{o['metadata']['name']}", {"metadata": {"labels": {"0": "x"}}}, type=MERGE) == 200,
             "the object with many labels is changed", 120)
    c.wait_logged("caching only a part of an object: it exceeds the size limit")
    # The controller still works: it creates the network of a new SpiderMultusConfig.
    cluster.ok("POST", f"{SPIDER}/namespaces/{ns}/spidermultusconfigs", smc("last", {"cniType": "ipoib", "ipoib": {"master": "ib0"}}))
    wait(lambda: cluster.request("GET", NADS.format(ns) + "/last")[0] == 200,
         "the NetworkAttachmentDefinition of the last configuration is created", 60)
    a.ready()
    assert held() == before
    for x in c, a:
        print("CPU", seconds(x) - spent[x], "KiB", memory(x.process.pid, "VmHWM"))
        assert memory(x.process.pid, "VmHWM") < 32 << 10
    assert a.process.poll() is None and c.process.poll() is None
    for path, o in reversed(objects):
        cluster.request("DELETE", f"{path}/{o['metadata']['name']}?gracePeriodSeconds=0")
    cluster.request("DELETE", f"/api/v1/nodes/{ns}-node")


def test_large_definition_is_read_again_when_smaller(cluster, ns, closing, tmp_path, proxy):
    """When the controller lists the objects again, a skipped object keeps its condition and is not read. When it is made smaller, it is
    read at once. An object that was skipped for the limit of its namespace is read after another object of the namespace is deleted."""
    path, nads = f"{SPIDER}/namespaces/{ns}/spidermultusconfigs", NADS.format(ns)
    small = {"spec": {"cniType": "ipoib", "ipoib": {"master": "ib0"}, "customCNI": None}}
    fills = [f"fill-{i}" for i in range(9)]  # 600 KiB each: the limit of a namespace is six of them
    cluster.through(proxy, tmp_path / "proxy.conf")
    try:
        cluster.ok("POST", path, smc("own", {"cniType": "custom", "customCNI": "x" * BYTES}))
        for name in fills:
            cluster.ok("POST", path, smc(name, {"cniType": "custom", "customCNI": "x" * (600 << 10)}))
        c = closing(Controller(tmp_path / "c", tmp_path / "proxy.conf", ns)).start(ready=False)
        c.leads(60)
        wait(lambda: len(reasons(cluster, path)) == 10, "ten SpiderMultusConfigs have a reason", 120)
        skipped = sorted(name for name, reason in reasons(cluster, path).items() if reason == "TooLarge")
        assert "own" in skipped and len(skipped) == 4, skipped

        def versions():
            return {name: cluster.ok("GET", f"{path}/{name}")["metadata"]["resourceVersion"] for name in skipped}

        seen = {}

        def unchanged():
            """Whether no skipped object has changed since the last call. The controller writes each condition twice, since the condition
            contains the size of the object, of which it is a part."""
            was = dict(seen)
            seen.update(versions())
            return was == seen

        wait(unchanged, "no SpiderMultusConfig changes", 60, 3)
        before, log_lines = versions(), c.log.read_text().count("caching only a part of an object: it exceeds the size limit")
        proxy.cut()
        cluster.config_map(ns, "later")
        cluster.stop_apiserver()
        cluster.compact()
        cluster.start_apiserver()
        proxy.mend()
        cluster.ok("POST", path, smc("after", {"cniType": "ipoib", "ipoib": {"master": "ib0"}}))
        wait(lambda: cluster.request("GET", f"{nads}/after")[0] == 200, "NetworkAttachmentDefinition after is created", 60)
        assert versions() == before
        assert c.log.read_text().count("caching only a part of an object: it exceeds the size limit") == log_lines

        cluster.ok("PATCH", f"{path}/own", small, type=MERGE)
        wait(lambda: cluster.request("GET", f"{nads}/own")[0] == 200, "NetworkAttachmentDefinition own is created", 60)
        wait(lambda: reasons(cluster, path)["own"] == "Written", "SpiderMultusConfig own has the reason Written", 60)

        # After a deletion one of the skipped objects is read, although it was not changed: its customCNI is not JSON, so it
        # then has the reason Invalid.
        full = [name for name in skipped if name != "own"]
        before = versions()
        cluster.ok("DELETE", f"{path}/{next(x for x in fills if x not in full)}")
        wait(lambda: sorted(reasons(cluster, path)[name] for name in full) == ["Invalid", "TooLarge", "TooLarge"],
             "one large SpiderMultusConfig has the reason Invalid, two have TooLarge", 60, 1)
        left = [name for name in full if reasons(cluster, path)[name] == "TooLarge"]
        assert all(versions()[name] == before[name] for name in left)
        cluster.ok("PATCH", f"{path}/{left[0]}", small, type=MERGE)
        wait(lambda: cluster.request("GET", f"{nads}/{left[0]}")[0] == 200, f"NetworkAttachmentDefinition {left[0]} is created", 60)
        assert reasons(cluster, path)[left[1]] == "TooLarge"
    finally:
        for name in ["own", "after", *fills]:
            cluster.request("DELETE", f"{path}/{name}")
