# SPDX-License-Identifier: Apache-2.0
"""Nodes that share pools through a real API server: tests/bench/fleet.c runs the code with which agents share pools, for several
agents in one process. In every case no two pods have the same address, and no address is lost."""
import collections
import concurrent.futures
import ipaddress
import json
import os
import pathlib
import shutil
import time

import policies
import pytest

from cluster import Process, wait
from test_kinds import BLOCKS, PATCH, SPIDER, kinds  # noqa: F401

FLEET = pathlib.Path(os.environ.get("UNIRAIL_FLEET", pathlib.Path(__file__).resolve().parents[2]
                                    / "build/obj/release/tests/bench/fleet"))


class Fleet(Process):
    def __init__(self, kubeconfig, folder, pools, first, count, *more, env=None):
        self.lines_read = 0
        super().__init__(FLEET, folder, pools, first, count, *more, stdin=-1,
                         env={"KUBECONFIG": str(kubeconfig), "FLEET_LOG": "1", **(env or {})})

    def command(self, *args):
        """Sends a command to the fleet; returns the answer, one line."""
        at = self.lines_read
        self.p.stdin.write(" ".join(map(str, args)) + "\n")
        self.p.stdin.flush()
        self.lines_read += 1
        wait(lambda: len(self.lines) > at or self.p.poll() is not None, f"the fleet answers '{args[0]}'")
        assert self.p.poll() is None, self.log[-5:]
        return self.lines[at]

    def stat(self):
        return json.loads(self.command("stat"))

    def addresses(self):
        """(node, address) of every pod's address."""
        at = self.lines_read
        self.p.stdin.write("print\n")
        self.p.stdin.flush()
        wait(lambda: len(self.lines) > at and self.lines[-1] == ".", "the fleet prints all its addresses")
        self.lines_read = len(self.lines)
        return [tuple(x.split()) for x in self.lines[at:-1]]

    def wait_idle(self, seconds=60, waiting=0):
        """Waits until no work is pending and `waiting` pods have no address."""
        return self.wait_stat(lambda stat: stat["jobs"] == 0 and stat["waiting"] == waiting,
                              f"the fleet has no jobs and {waiting} waiting requests", seconds)

    def wait_stat(self, condition, what, seconds=60):
        def inspect():
            stat = self.stat()
            assert condition(stat), stat
            return stat
        return wait(inspect, what, seconds, 0.1)


@pytest.fixture
def pools(cluster, kinds, tmp_path):
    """pools(name=("10.1.0.0/24", "10.1.0.1-10.1.0.48")) creates SpiderIPPools, and returns the directory of a file that lists the same
    pools."""
    made = []

    def make(**them):
        folder = tmp_path / "pools"
        folder.mkdir(exist_ok=True)
        text = "[settings]\nreuse-delay = 0s\n"
        for name, (subnet, ips) in them.items():
            cluster.ok("POST", f"{SPIDER}/spiderippools", {
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
                "spec": {"ipVersion": 4, "subnet": subnet, "ips": ips.split(", ")}})
            made.append(name)
            text += f"[pool {name}]\nsubnet = {subnet}\nips = {ips}\n"
        (folder / "p.conf").write_text(text)
        return folder
    yield make
    for name in made:
        cluster.request("DELETE", f"{SPIDER}/spiderippools/{name}")
    cluster.request("DELETE", BLOCKS)


@pytest.fixture
def fleet(cluster, closing, tmp_path):
    if policies.POLICIES:
        policies.enforce(cluster)

    def start(pools, first, count, *more, kubeconfig=None, folder="state"):
        env = {}
        if policies.POLICIES and not kubeconfig:
            for i in range(first, first + count):
                kubeconfig = policies.agent_config(cluster, tmp_path, f"n{i}")
            env["FLEET_TOKENS"] = str(tmp_path)
        made.append(closing(Fleet(kubeconfig or cluster.admin_config(), tmp_path / folder, pools, first, count, *more, env=env)))
        return made[-1]

    made = []
    yield start
    assert not [line for f in made for line in f.log if "unirail allows an agent" in line]


def alone(*fleets):
    """Asserts that no address has two pods; returns the number of addresses."""
    have = [x for f in fleets for x in f.addresses()]
    twice = [a for a, n in collections.Counter(a for _, a in have).items() if n > 1]
    assert not twice, [x for x in have if x[1] in twice]
    return len(have)


def blocks(cluster, pool):
    return [x for x in cluster.ok("GET", f"{BLOCKS}?limit=1000")["items"] if x["spec"]["pool"] == pool]


def test_nodes_claim_blocks_of_equal_size_and_pre_allocate_addresses(cluster, pools, fleet):
    # Every block, also the last of a pool, has enough addresses for 8 pods and the pre-allocated addresses.
    f = fleet(pools(a=("10.1.0.0/24", "10.1.0.1-10.1.0.207"), b=("10.2.0.0/24", "10.2.0.1-10.2.0.207")), 0, 3)
    f.command("add", "*", 8)
    s = f.wait_idle()
    assert alone(f) == 3 * 8 * 2
    assert s["claimed"] == 6 and s["borrowed"] == 0
    # All nodes use the same block size.
    pool = cluster.ok("GET", f"{SPIDER}/spiderippools/a")
    assert pool["metadata"]["annotations"]["unirail.io/block-prefix"] == "28"
    assert all(x["spec"]["cidr"].endswith("/28") for x in blocks(cluster, "a"))
    # The next block is claimed before the last address is allocated, so the next pods cause no request.
    f.command("add", "*", 6)
    f.wait_idle()
    f.wait_stat(lambda s: s["claimed"] >= 12 and s["under_way"] == 0, "12 blocks are claimed")
    before = f.stat()["at_once"]
    f.command("add", "*", 5)
    assert f.wait_idle()["at_once"] == before + 15


def test_every_address_of_the_pool_is_allocated(cluster, pools, fleet):
    """The pool has as many addresses as there are pods: nodes that find no unclaimed block borrow free addresses from the blocks' owners."""
    f = fleet(pools(last=("10.3.0.0/26", "10.3.0.1-10.3.0.45")), 0, 5)
    f.command("add", "*", 9)
    s = f.wait_idle(90)
    assert alone(f) == 45 and s["borrowed"] > 0, s
    # One more pod gets no address, and its error lists what the agent tried.
    f.command("add", 0, 1)
    f.wait_stat(lambda s: s["waiting"] == 1, "one request is waiting")
    wait(lambda: "blocks of the pool are claimed" in f.command("reason", 0, "last"), "the reason for the waiting pod is that the blocks of the pool are claimed")
    # A pod of node 3 is deleted: node 0 borrows the address of this pod for its waiting pod.
    f.command("del", 3, 1)
    f.wait_idle(90)
    assert alone(f) == 45


def test_rejected_answer_of_an_owner_is_repeated_at_once(cluster, pools, fleet):
    """An owner whose answer is rejected, because other nodes wrote to the block meanwhile, answers again at once: after some seconds
    without an answer the requesting node would send its request to another node."""
    f = fleet(pools(busy=("10.9.0.0/24", "10.9.0.1-10.9.0.200")), 0, 1)
    f.command("add", "*", 1)
    f.wait_idle()
    one = f"{BLOCKS}/{blocks(cluster, 'busy')[0]['metadata']['name']}"
    asked = lambda: cluster.ok("GET", one)["spec"]["requested"]
    took, refused = [], 0
    while len(took) < 5:
        def write(k):
            """Writes requests that the owner cannot fulfil. After each write, an answer based on the older version of the object is
            rejected."""
            for i in range(6):
                request = {"op": "add", "path": f"/spec/requested/ghost{k}.{i}@*", "value": 1}
                cluster.ok("PATCH", one, [request], type=PATCH)
        with concurrent.futures.ThreadPoolExecutor(4) as four:
            list(four.map(write, range(4)))
        start = time.monotonic()
        wait(lambda: not asked(), "the block has no requests", 60, 0.02)
        if f.stat()["refused"] > refused:
            took.append(time.monotonic() - start)
        refused = f.stat()["refused"]
    assert sorted(took)[2] < 2, took


def test_idle_blocks_are_released(cluster, pools, fleet):
    f = fleet(pools(idle=("10.4.0.0/24", "10.4.0.1-10.4.0.250")), 0, 2, "idle=2000")
    f.command("add", "*", 30)
    f.wait_idle()
    assert len(blocks(cluster, "idle")) >= 4
    f.command("del", "*", 30)
    wait(lambda: not blocks(cluster, "idle"), "all blocks of pool idle are released", 60)
    f.wait_stat(lambda s: s["claims"] == 0, "all blocks are released")


def test_allocation_continues_after_an_api_server_restart(cluster, pools, fleet):
    f = fleet(pools(r=("10.5.0.0/24", "10.5.0.1-10.5.0.120")), 0, 4)
    f.command("add", "*", 10)
    f.wait_idle()
    cluster.stop_apiserver()
    # While the API server is stopped, each node allocates the free addresses of its own blocks.
    f.command("add", "*", 6)
    wait(lambda: f.stat()["at_once"] >= 16, "16 requests are served without the API server", 20)
    f.command("add", "*", 10)
    f.command("del", "*", 2)
    cluster.start_apiserver()
    f.wait_idle(120)
    assert alone(f) == 4 * 24


def test_agent_restarts_without_the_api_server(cluster, pools, fleet):
    """An agent that starts while the API server is unavailable continues from the log in its state directory."""
    f = fleet(pools(w=("10.6.0.0/24", "10.6.0.1-10.6.0.120")), 0, 2)
    f.command("add", "*", 3)
    f.wait_idle()
    cluster.stop_apiserver()
    try:
        f.command("down", 0)
        f.command("up", 0)
        f.command("add", 0, 4)
        f.wait_idle(30)
        assert alone(f) == 10
    finally:
        cluster.start_apiserver()
    f.wait_stat(lambda s: s["under_way"] == 0 and s["ready"] == 2, "two nodes are ready")
    f.command("add", "*", 20)
    f.wait_idle(60)
    assert alone(f) == 50


def test_agent_continues_after_a_compaction_of_etcd(cluster, pools, fleet):
    """The API server answers the watch with status 410, since etcd no longer has the older revisions: the agents list the blocks again."""
    f = fleet(pools(c=("10.7.0.0/27", "10.7.0.1-10.7.0.30")), 0, 2)
    f.command("add", "*", 6)
    f.wait_idle()
    for i in range(5):
        cluster.config_map("default", f"noise-{i}")
    cluster.stop_apiserver()
    cluster.compact()
    cluster.start_apiserver()
    f.command("add", 0, 14)
    f.wait_idle(90)
    assert alone(f) == 26


def test_killed_agents_allocate_no_address_twice(cluster, pools, fleet):
    """Processes are killed repeatedly in the middle of their work; one process that is never killed requests the remaining addresses."""
    p = pools(k=("10.8.0.0/25", "10.8.0.1-10.8.0.100"))
    rest = fleet(p, 10, 2, folder="rest")
    for i in range(8):
        f = fleet(p, 0, 4, "idle=300")
        f.command("add", "*", 3)
        rest.command("add" if i % 2 else "del", "*", 4)
        wait(lambda: f.stat()["under_way"] or f.stat()["ready"] == 4, "requests are under way or all agents are ready", 10)
        wait(lambda: f.stat()["asks"] >= 1 + i % 3, f"{1 + i % 3} pod requests are answered", 30)
        assert alone(f, rest)
        f.close()
    f = fleet(p, 0, 4)
    rest.wait_idle(60)
    have = alone(f, rest)
    # No address is lost: all remaining addresses can be allocated.
    rest.command("add", 0, 100 - have)
    rest.wait_idle(120)
    assert alone(f, rest) == 100


def test_agents_with_the_same_node_name_report_each_other(cluster, pools, fleet):
    p = pools(t=("10.9.0.0/25", "10.9.0.1-10.9.0.100"))
    one = fleet(p, 0, 1, folder="one")
    one.command("add", 0, 5)
    one.wait_idle()
    two = fleet(p, 0, 1, folder="two")
    two.command("add", 0, 5)
    two.wait_idle()
    one.command("add", 0, 20)
    two.command("add", 0, 20)
    one.wait_idle()
    two.wait_idle()
    assert alone(one, two) == 50
    wait(lambda: any("claimed with another log" in x for x in two.log),
         "the second agent reports that the block was claimed with another log")
    wait(lambda: any("another agent claims blocks" in x for x in one.log), "the first agent reports that another agent claims blocks")
    # An agent does not start with the state directory of a running agent.
    three = fleet(p, 0, 1, folder="one")
    wait(lambda: three.p.poll() is not None, "the third agent exits")
    wait(lambda: any("is locked by another agent" in x for x in three.log),
         "the third agent reports that the state directory is locked")


def test_deleted_block_in_use_is_recreated(cluster, pools, fleet):
    f = fleet(pools(d=("10.10.0.0/26", "10.10.0.1-10.10.0.60")), 0, 2)
    f.command("add", "*", 5)
    f.wait_idle()
    mine = blocks(cluster, "d")
    assert len(mine) == 2
    for x in mine:
        cluster.ok("DELETE", f"{BLOCKS}/{x['metadata']['name']}")
    owners = lambda them: {x["spec"]["cidr"]: x["spec"]["node"] for x in them}
    wait(lambda: owners(mine).items() <= owners(blocks(cluster, "d")).items(), "the deleted blocks in use are recreated")
    f.command("add", "*", 25)
    f.wait_idle(90)
    assert alone(f) == 60


def test_agent_without_its_former_state_directory_allocates_no_used_address(cluster, pools, fleet, tmp_path):
    """If the log of a block is lost, no address of the block is allocated: the agent does not know which addresses pods have."""
    p = pools(l=("10.11.0.0/26", "10.11.0.1-10.11.0.48"))
    f = fleet(p, 0, 1)
    f.command("add", 0, 10)
    f.wait_idle()
    before = {a for _, a in f.addresses()}
    f.close()
    shutil.rmtree(tmp_path / "state")
    f = fleet(p, 0, 1)
    f.command("add", 0, 10)
    f.wait_idle()
    f.wait_stat(lambda s: s["unadopted"] == 1, "one block has another log")
    assert not before & {a for _, a in f.addresses()}


def lines_read(cluster, pool, have):
    """Asserts for each pod's address that the block in the API server has the pod's node as the borrower of the address or, if the address
    is not borrowed, as the block's owner."""
    them = blocks(cluster, pool)
    for node, a in have:
        b = [x for x in them if ipaddress.ip_address(a) in ipaddress.ip_network(x["spec"]["cidr"])]
        assert b, f"address {a} of node {node} is in no block"
        entry = b[0]["spec"]["released"].get(a)
        assert entry.startswith(f"{node}/") if entry else b[0]["spec"]["node"] == node, (node, a, entry, b[0])
    return True


def clear_up(cluster, pool, have):
    """Does the controller's part: if the borrower of a released address is unknown ("?") and no pod has the address, returns the address
    to the block's owner."""
    for x in blocks(cluster, pool):
        for a, to in x["spec"]["released"].items():
            if to == "?" and a not in [it for _, it in have]:
                path = f"/spec/released/{a}"
                cluster.ok("PATCH", f"{BLOCKS}/{x['metadata']['name']}", [
                    {"op": "test", "path": path, "value": "?"}, {"op": "remove", "path": path}],
                    type="application/json-patch+json")


def test_agents_allocate_no_used_address_after_a_restore_of_etcd(cluster, pools, fleet, tmp_path):
    """The restore changes the blocks, but not the logs in the nodes' state directories: before any new allocation the agents write to
    the blocks which addresses their pods have."""
    f = fleet(pools(e=("10.12.0.0/26", "10.12.0.1-10.12.0.45")), 0, 4, "idle=1000")
    f.command("add", "*", 6)
    f.wait_idle()
    cluster.back_up()
    # One node releases its block, which another node claims; others borrow.
    f.command("del", 1, 6)
    wait(lambda: not [x for x in blocks(cluster, "e") if x["spec"]["node"] == "n1"], "no block of pool e belongs to node n1", 60)
    f.command("add", 0, 20)
    f.wait_idle(60)
    f.command("add", 2, 5)
    f.wait_idle(60)
    have = f.addresses()
    assert lines_read(cluster, "e", have)
    cluster.restore()
    try:
        wait(lambda: lines_read(cluster, "e", f.addresses()), "the blocks of pool e contain the fleet's addresses", 60, 0.5)
    except AssertionError:
        raise AssertionError((f.stat(), f.log[-30:]))
    assert sorted(f.addresses()) == sorted(have)
    assert any("etcd was restored" in x for x in f.log)
    wait(lambda: not [x for x in tmp_path.glob("state/*/blocks.json") if '"restored"' in x.read_text()],
         "every agent has finished its recovery from the restore", 120)
    clear_up(cluster, "e", have)
    f.command("add", 1, 1)
    f.command("add", 3, 1)
    f.wait_idle(120)
    assert alone(f) == len(have) + 2 and lines_read(cluster, "e", f.addresses())


def test_restore_of_etcd_while_no_agent_runs_is_detected(cluster, pools, fleet):
    """The agent's log has a later revision than the API server, so the agent detects the restore. It records the restore in the log, so
    that the agent continues the recovery after its next start."""
    them = pools(r=("10.13.0.0/26", "10.13.0.1-10.13.0.45"))
    cluster.back_up()
    for i in range(200):  # more writes than the start of an API server makes: otherwise its revision would exceed the log's
        cluster.config_map("default", f"since-{i}")
    f = fleet(them, 0, 1)
    f.command("add", "*", 20)
    f.wait_idle()
    f.command("del", "*", 1)
    f.wait_idle()
    f.close()
    cluster.restore()
    for _ in range(2):
        f = fleet(them, 0, 1)
        wait(lambda: any("etcd was restored" in x for x in f.log), "the fleet reports that etcd was restored", 30)
        f.close()
