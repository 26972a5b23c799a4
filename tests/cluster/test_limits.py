# SPDX-License-Identifier: Apache-2.0
"""`unirail agent` with many concurrent requests."""
import json

from agents import MERGE, SPIDER, addresses, elapsed
from cluster import memory, wait
from lab import UnixConnection


def request_addresses(one, pod, pool):
    """Sends a plan request; returns the connection, from which answer() reads later."""
    meta = pod["metadata"]
    c = UnixConnection(one.socket, 120)
    c.request("POST", "/v1/unirail/pods/plan", json.dumps({
        "containerID": meta["uid"][:12], "netNamespace": "", "podNamespace": meta["namespace"], "podName": meta["name"],
        "podUID": meta["uid"], "rails": [{"ifName": "net1", "defaultIPv4IPPool": [pool]}]}),
        {"Content-Type": "application/json"})
    return c


def answer(c):
    r = c.getresponse()
    got = r.status, json.loads(r.read())
    c.close()
    return got


def waiting(one):
    return one.ok("GET", "/v1/unirail/status")["pending"]


def test_hundreds_of_pending_requests_are_served(mine, nodes, agent, pools):
    """Requests for an exhausted pool wait until the pool has more addresses, and no two get the same address. Meanwhile other requests
    are served. The agent needs less than 32 KiB of memory for a waiting request, and frees this memory."""
    pools("few", "10.8.0.0/22", ["10.8.0.10"])
    pools("many", "10.9.0.0/24")
    one = agent(UNIRAIL_WAIT="60s", args=("--max-connections", "500"))
    owner, other = nodes.pod("t", "n1"), nodes.pod("t", "n1")
    assert one.plan(owner, "few")[0] == 200 and one.plan(other, "many")[0] == 200
    pods = [nodes.pod("t", "n1") for _ in range(400)]
    wait(lambda: one.plan(pods[-1], "many", dryRun=True)[0] == 200, "the agent knows pool many")
    before = memory(one.process.pid)
    asked = [request_addresses(one, pod, "few") for pod in pods]
    wait(lambda: waiting(one) == 400, "400 requests are waiting", 60)
    cost = (memory(one.process.pid) - before) / 400
    assert cost < 32, f"each waiting request costs {cost} KiB"
    took, (status, got) = elapsed(lambda: one.plan(other, "many"))
    assert status == 200 and took < 2
    assert one.release(other) == 1
    mine.ok("PATCH", f"{SPIDER}/spiderippools/few", {"spec": {"ips": ["10.8.0.10-10.8.2.200"]}}, type=MERGE)
    answers = [answer(c) for c in asked]
    assert [s for s, _ in answers] == [200] * 400, [a for s, a in answers if s != 200][:3]
    assert len({addresses(a)["net1"] for _, a in answers}) == 400
    assert waiting(one) == 0
    wait(lambda: memory(one.process.pid) - before < 2048, "the agent frees the memory of the requests", 20)
    print(f"{cost:.1f} KiB for each waiting request")


def test_hundreds_of_pending_requests_expire(nodes, agent, pools):
    """Waiting requests get an error after the configured wait. Requests beyond the limit of connections are refused at once with another
    error."""
    pools("few", "10.8.0.0/22", ["10.8.0.10"])
    one = agent(UNIRAIL_WAIT="3s")
    assert one.plan(nodes.pod("t", "n1"), "few")[0] == 200
    pods = [nodes.pod("t", "n1") for _ in range(300)]
    took, answers = elapsed(lambda: [answer(c) for c in [request_addresses(one, pod, "few") for pod in pods]])
    messages = [a["message"] for s, a in answers if (s, a["code"]) == (500, 11)]
    busy = [a["message"] for s, a in answers if (s, a["code"]) == (503, 503)]
    assert len(messages) + len(busy) == 300 and 0 < len(busy) < 60, answers[:3]
    assert all("all IP addresses used out" in m for m in messages) and set(busy) == {"too many connections, try again"}
    assert took < 20
    assert one.plan(pods[0], "few", dryRun=True)[0] == 500 and waiting(one) == 0
