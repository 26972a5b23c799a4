# SPDX-License-Identifier: Apache-2.0
"""An agent's stolen token against pools where the API server has no policies (before 1.30): the controller's webhook refuses.

In an earlier version, such a token could change the spec of every pool.
"""
import pytest
from agents import MERGE, SPIDER, Nodes
from audit import DEPLOY
from cluster import free_port, wait
from controllers import Controller

import cluster as clusters

POOLS = f"{SPIDER}/spiderippools"
REFUSAL = "an agent's account may"


@pytest.fixture(scope="module")
def one():
    made = clusters.Cluster()
    made.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml")
    made.kubectl("apply", "-f", DEPLOY)
    yield made
    made.close()


def test_stolen_agent_token_writes_only_the_block_size_of_a_pool(one, closing, tmp_path):
    wait(lambda: Nodes(one).pool("p", "172.16.1.0/24"), "pool p is created")
    agent, controller = one.token("unirail", "unirail-agent"), tmp_path / "token"
    controller.write_text(one.token("unirail", "unirail-controller"))
    c = closing(Controller(tmp_path / "c", one.kubeconfig(tmp_path / "conf", {"tokenFile": controller}), "unirail"))
    c.webhook_port = free_port()
    c.start("--webhook-url", f"https://127.0.0.1:{c.webhook_port}", "--webhook-linger", "0s").leads()
    send = lambda method, path, body: one.request(method, path, body, token=agent, **({"type": MERGE} if method == "PATCH" else {}))
    # The API server reads webhook configurations by a watch: once this write is refused, the API server calls the webhooks.
    wait(lambda: send("PATCH", f"{POOLS}/p?dryRun=All", {"spec": {"disable": True}})[0] == 403, "the webhook refuses the agent's write")
    annotation = lambda key, value: {"metadata": {"annotations": {key: value}}}
    for body in ({"spec": {"ips": ["172.16.1.9"]}}, {"spec": {"gateway": "172.16.1.9"}}, annotation("x", "y"), {"metadata": {"labels": {"x": "y"}}},
                 {"metadata": {"finalizers": ["a.b/c"]}}, annotation("ipam.spidernet.io/ippool-ip-number", "9")):
        status, answer = send("PATCH", f"{POOLS}/p", body)
        assert status == 403 and REFUSAL in answer["message"], (body, answer)
    status, answer = send("POST", POOLS, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
                                          "metadata": {"name": "mine"}, "spec": {"subnet": "10.6.0.0/24", "ips": ["10.6.0.1"]}})
    assert status == 403 and REFUSAL in answer["message"], answer
    assert send("PATCH", f"{POOLS}/p", annotation("unirail.io/block-prefix", "28"))[0] == 200
    assert send("PATCH", f"{POOLS}/p", annotation("unirail.io/block-prefix", "27"))[0] == 403
    one.ok("PATCH", f"{POOLS}/p", {"spec": {"ips": ["172.16.1.9"]}}, type=MERGE)  # the administrator may change the spec
    assert c.stop() == 0
