# SPDX-License-Identifier: Apache-2.0
"""The objects that `unirail agent` writes about a pod: its SpiderEndpoint, and events of failures."""
import time

from agents import SPIDER, addresses
from cluster import wait


def test_each_pod_has_an_endpoint_until_its_addresses_are_released(mine, nodes, agent, rails):
    """The agent writes one SpiderEndpoint for each pod, with the fields that Spiderpool writes."""
    one = agent()
    labels = {"pod-template-hash": "9dc78fb9"}
    pod = nodes.pod("t", "n1", owner={"kind": "ReplicaSet", "name": "app-9dc78fb9"}, labels=labels)
    name = pod["metadata"]["name"]
    got = addresses(one.plan(pod, *rails)[1])
    have = wait(lambda: nodes.endpoint("t", name), "the pod's SpiderEndpoint is created")
    status = have["status"]
    assert (status["ownerControllerType"], status["ownerControllerName"]) == ("Deployment", "app")
    current = status["current"]
    assert (current["uid"], current["node"]) == (pod["metadata"]["uid"], "n1")
    assert [(x["interface"], x["ipv4"], x["ipv4Pool"], x["ipv4Gateway"], x["vlan"]) for x in current["ips"]] == [
        (f"net{i}", got[f"net{i}"] + "/24", f"rail{i}", f"172.16.{i}.1", 0) for i in range(1, 9)]
    assert [(x["kind"], x["uid"]) for x in have["metadata"]["ownerReferences"]] == [("Pod", pod["metadata"]["uid"])]
    time.sleep(1)
    assert one.metrics()["unirail_endpoint_writes_total"] == 1
    # The pod's sandbox is recreated.
    one.release(pod)
    again = addresses(one.plan(pod, *rails, container="second")[1])
    wait(lambda: nodes.endpoint("t", name)["status"]["current"]["ips"][0]["ipv4"].split("/")[0] == again["net1"],
         "the SpiderEndpoint has the new address")
    assert nodes.endpoint("t", name)["metadata"]["uid"] == have["metadata"]["uid"]
    # If another client deletes the endpoint, the agent creates it again.
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{name}")
    wait(lambda: nodes.endpoint("t", name), "the pod's SpiderEndpoint is created")
    one.release(pod, container="second")
    wait(lambda: nodes.endpoint("t", name) is None, "the pod's SpiderEndpoint is deleted", 20)


def test_endpoint_of_spiderpool_is_adopted(mine, nodes, agent, rails):
    """The agent overwrites an endpoint that Spiderpool left, and removes Spiderpool's finalizer. At its start the agent recreates an
    endpoint that was deleted while no agent ran."""
    pods = [nodes.pod("t", "n1") for _ in range(2)]
    name = pods[0]["metadata"]["name"]
    mine.ok("POST", f"{SPIDER}/namespaces/t/spiderendpoints", {
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
        "status": {"current": {"uid": "old", "node": "n9", "ips": [{"interface": "eth0"}]},
                   "ownerControllerType": "Pod", "ownerControllerName": name}})
    one = agent()
    for pod in pods:
        assert one.plan(pod, "rail1")[0] == 200
    wait(lambda: nodes.endpoint("t", name)["status"]["current"]["uid"] == pods[0]["metadata"]["uid"],
         "the SpiderEndpoint has the first pod's UID")
    assert "finalizers" not in nodes.endpoint("t", name)["metadata"]
    other = pods[1]["metadata"]["name"]
    wait(lambda: nodes.endpoint("t", other), "the other pod's SpiderEndpoint is created")
    one.kill()
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{other}")
    one.start()
    wait(lambda: nodes.endpoint("t", other), "the other pod's SpiderEndpoint is created")
    for pod in pods:
        one.release(pod)
    wait(lambda: nodes.endpoint("t", name) is None and nodes.endpoint("t", other) is None, "both SpiderEndpoints are deleted", 20)


def test_failed_requests_are_reported_as_events(mine, nodes, agent, rails):
    one = agent()
    pod = nodes.pod("t", "n1")
    assert one.plan(pod, "no-such-pool")[0] == 500

    def event():
        items = mine.ok("GET", "/api/v1/namespaces/t/events")["items"]
        return [e for e in items if e["involvedObject"].get("uid") == pod["metadata"]["uid"]]
    (found,) = wait(event, "an event is created for the pod")
    assert found["type"] == "Warning" and found["reason"] == "FailedAllocateIPs", found
    assert "no pool 'no-such-pool'" in found["message"] and found["source"]["component"] == "unirail-agent"
