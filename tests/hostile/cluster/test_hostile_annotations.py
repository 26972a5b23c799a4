# SPDX-License-Identifier: Apache-2.0
"""A tenant writes another pod's addresses into the network-status of a pod, on a node that lost its disk.

In an earlier version, the journal recorded the addresses for the first pod in the list of pods. If this was the thief's pod,
the addresses were released with it, and allocated to a third pod while the victim still had them."""
import json
import shutil

import pytest
from agents import MERGE, SPIDER, Agent, Nodes, addresses, install_crds
from cluster import wait

import cluster as clusters

STATUS = "k8s.v1.cni.cncf.io/network-status"


@pytest.fixture(scope="module")
def mine():
    one = clusters.Cluster()
    install_crds(one)
    one.namespace("t")
    yield one
    one.close()


@pytest.fixture
def nodes(mine):
    one = Nodes(mine)
    one.node("n1")
    return one


def name_of(pod):
    return pod["metadata"]["name"]


def annotate(mine, pod, *ips):
    status = json.dumps([{"name": "t/rail", "interface": f"net{i}", "ips": [ip]} for i, ip in enumerate(ips)])
    mine.ok("PATCH", f"/api/v1/namespaces/t/pods/{name_of(pod)}", {"metadata": {"annotations": {STATUS: status}}}, type=MERGE)


def test_stolen_addresses_in_an_annotation_are_not_allocated(mine, nodes, closing, tmp_path):
    nodes.pool("rail", "172.20.1.0/24")
    one = closing(Agent(tmp_path / "agent", mine.admin_config(), "n1")).start("--gc-grace", "1s")
    thief, known, victim = (nodes.pod("t", "n1") for _ in range(3))
    taken = {name_of(p): list(addresses(one.plan(p, "rail")[1]).values()) for p in (known, victim)}
    for p in (known, victim):
        wait(lambda: nodes.endpoint("t", name_of(p)), "the pod's SpiderEndpoint is created")
    one.kill()
    mine.ok("DELETE", f"{SPIDER}/namespaces/t/spiderendpoints/{name_of(victim)}")
    shutil.rmtree(one.state)
    mine_ip, other = taken[name_of(victim)], taken[name_of(known)]
    annotate(mine, victim, *mine_ip)
    annotate(mine, thief, *mine_ip, *other, "172.20.1.255", "10.1.1.1")
    one.start("--gc-grace", "1s")

    # Only the annotations of victim and thief record the victim's addresses. The agent trusts neither annotation, and does not adopt the
    # block before the thief is deleted.
    lines = one.wait_logged("reported by another pod too", 60)
    assert name_of(thief) in lines[0]["pods"] and name_of(victim) in lines[0]["pods"] and mine_ip[0] in lines[0]["pods"], lines
    assert not one.logged("adopting blocks of a lost log")
    nodes.remove_pod(thief)
    one.wait_logged("adopting blocks of a lost log", 60)
    wait(lambda: one.metrics()["unirail_blocks_unadopted"] == 0, "no block waits for adoption", 60)
    more = [a for _ in range(8) for a in addresses(one.plan(nodes.pod("t", "n1"), "rail")[1]).values()]
    assert not set(more) & {*mine_ip, *other} and len(set(more)) == len(more)
