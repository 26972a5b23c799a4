# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` and a real API server behind a proxy that injects faults into its answers."""
import collections
import itertools
import json
import re

import pytest

import faulty
from agents import SPIDER, Agent, addresses
from cluster import wait

RAILS = [f"rail{i}" for i in range(1, 9)]
STATUS = "k8s.v1.cni.cncf.io/network-status"

MISTAKES = {
    "refused": (faulty.refused(409, "Conflict"), faulty.refused(410, "Expired"),
                faulty.refused(429, "TooManyRequests", retry_after=1), faulty.refused(500, "InternalError"),
                faulty.refused(503, "ServiceUnavailable", retry_after=1), faulty.refused(409, "AlreadyExists")),
    "invalid": (faulty.refused(422, "Invalid"),),
    "broken": (faulty.half, faulty.garbage, faulty.lost, faulty.short, faulty.reset, faulty.empty, faulty.away),
}


@pytest.fixture(autouse=True)
def no_pods(mine, nodes):
    yield
    for pod in mine.ok("GET", "/api/v1/pods")["items"]:
        nodes.remove_pod(pod)


@pytest.fixture
def server(mine, closing):
    return closing(faulty.Faulty(mine))


@pytest.fixture
def agent(mine, rails, server, closing, tmp_path):
    conf = mine.through(server, tmp_path / "conf")
    return closing(Agent(tmp_path / "agent", conf, "n1"))


def kind_of(method, path):
    """The kind of a request: the method, the path without names of objects, and whether the request is a watch."""
    return method, re.sub(r"/(pods|spiderendpoints|spideripblocks|spiderippools|events)/[^/?]+", r"/\1/*", path.split("?")[0]), \
        "watch=" in path


def each_second(acts, most=3):
    """A rule that returns a fault for the first, third, fifth... request of each kind, `most` faults for each kind. It returns no 422 for
    requests of SpiderEndpoints and pod statuses: after a 422, the agent does not repeat such a request within a minute."""
    seen, turn = collections.Counter(), itertools.cycle(acts)

    def rule(method, path):
        kind = kind_of(method, path)
        if acts is MISTAKES["invalid"] and re.search("/spiderendpoints|/pods/[^/]+/status", path):
            return None
        seen[kind] += 1
        return next(turn) if seen[kind] % 2 and seen[kind] < 2 * most else None
    return rule


def annotation(mine, pod):
    meta = pod["metadata"]
    now = mine.ok("GET", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")
    return now["metadata"].get("annotations", {}).get(STATUS)


def lives(mine, nodes, one, pods):
    """Asserts that each pod gets its addresses, no address has two pods, endpoints and annotations are written, and in the end every
    address is released."""
    held = {}

    def planned(pod):
        status, answer = one.plan(pod, *RAILS)
        return status == 200 and answer

    for pod in pods:
        held[pod["metadata"]["name"]] = addresses(wait(lambda: planned(pod), "the pod gets its addresses", 90))
        one.ok("POST", "/v1/unirail/pods/report", {
            "containerID": pod["metadata"]["uid"][:12], "podNamespace": "t", "podName": pod["metadata"]["name"],
            "podUID": pod["metadata"]["uid"], "networkStatus": "[{}]", "message": "Add"})
    every = [a for v in held.values() for a in v.values()]
    assert len(every) == len(set(every)) == 8 * len(pods)
    for pod in pods:
        name = pod["metadata"]["name"]
        shown = lambda: [x["ipv4"].split("/")[0] for x in nodes.endpoint("t", name)["status"]["current"]["ips"]]
        wait(lambda: nodes.endpoint("t", name) and shown() == list(held[name].values()),
             "the SpiderEndpoint has the pod's addresses", 90)
        wait(lambda: annotation(mine, pod) == "[{}]", "the pod's network-status is written", 90)
    assert {b["spec"]["node"] for b in nodes.blocks()} == {"n1"}
    for pod in pods:
        assert one.release(pod) == 8
        wait(lambda: nodes.endpoint("t", pod["metadata"]["name"]) is None, "the pod's SpiderEndpoint is deleted", 90)
    assert {v for k, v in one.metrics().items() if k.startswith("unirail_ippool_used_ips")} == {0}


@pytest.mark.parametrize("name", MISTAKES)
def test_requests_succeed_while_each_second_response_fails(mine, nodes, server, agent, name):
    """From the agent's start on, the first, third and fifth request of every kind fails. Whether or not the server executed the request,
    each pod has its addresses in the end, and the number of requests is bounded."""
    server.rule = each_second(MISTAKES[name])
    agent.start(ready=False).ready(120)
    lives(mine, nodes, agent, [nodes.pod("t", "n1") for _ in range(2)])
    kinds = {kind_of(*requests) for requests in server.hit}
    assert {m for m, *_ in kinds} >= {"GET", "POST", "PATCH"} and len(kinds) > 20, kinds
    assert len(server.requests) < 400, collections.Counter(kind_of(*a) for a in server.requests)
    assert agent.stop() == 0
    text = agent.log.read_text().splitlines()
    assert len(text) == len(agent.lines()) < 250, text  # the log has only JSON lines, and failed requests do not flood it


def test_requests_recover_after_missing_responses(mine, nodes, server, agent):
    """The first request of each kind of change, and of the list of blocks, is never answered: it times out and is
    sent again."""
    seen = set()

    def rule(method, path):
        kind = kind_of(method, path)
        new = kind not in seen and (method != "GET" or "/spideripblocks?" in path and "watch=" not in path)
        seen.add(kind)
        return faulty.nothing if new else None
    server.rule = rule
    agent.start(ready=False).ready(120)
    lives(mine, nodes, agent, [nodes.pod("t", "n1")])
    assert agent.stop() == 0 and len(server.hit) >= 6, server.hit


@pytest.mark.parametrize("act", [faulty.refused(410, "Expired"), faulty.half_event, faulty.garbage],
                         ids=["status-410", "truncated", "malformed"])
def test_watches_that_end_early_are_continued(mine, nodes, server, agent, act):
    """Each watch ends twice right after its start, while pods and pools change: no change is missed."""
    seen = collections.Counter()

    def rule(method, path):
        kind = path.split("?")[0]
        seen[kind] += "watch=" in path
        return act if "watch=" in path and seen[kind] < 3 else None
    agent.start()
    server.rule = rule
    for talk in list(server.talks):
        talk.close()
    pods = [nodes.pod("t", "n1") for _ in range(2)]
    nodes.pool("late", "10.8.0.0/24", ["10.8.0.10-10.8.0.20"])
    wait(lambda: agent.plan(pods[0], "late")[0] == 200, "the agent knows pool late", 60)
    mine.ok("DELETE", f"{SPIDER}/spiderippools/late")
    wait(lambda: "no pool 'late'" in json.dumps(agent.plan(pods[1], "late", dryRun=True)[1]),
         "the agent knows that pool late is deleted", 60)
    assert agent.release(pods[0]) == 1
    wait(lambda: agent.metrics()['unirail_watch_stale_seconds{kind="pods"}'] == 0, "the watch of pods is synced", 60)
    assert len(server.hit) >= 16
