# SPDX-License-Identifier: Apache-2.0
"""`unirail doctor --node` against a test server that answers as an API server."""
import json
import subprocess

import h2_server as h2
import lab as labs
from test_kube import config, pki, serve  # noqa: F401

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "HostDrift", "status": "False"}],
    "capacity": {"cpu": "2", "rdma/hca": "4"}, "allocatable": {"cpu": "2", "rdma/hca": "4"}}}
EVENTS = {"kind": "EventList", "items": []}


def doctor(tmp_path, pki, serve, node, events, *more):  # noqa: F811
    s = serve(pki.server, [h2.answer(body=node), h2.answer(body=events)])
    return subprocess.run([labs.BINARY, "doctor", "--node", "n1", "--kubeconfig", config(tmp_path, pki, s.port), *more],
                          capture_output=True, text=True, timeout=60)


def test_healthy_node_has_no_findings(tmp_path, pki, serve):  # noqa: F811
    p = doctor(tmp_path, pki, serve, NODE, EVENTS)
    assert (p.returncode, p.stdout, p.stderr) == (0, "0 problems, 0 notes\n", "")


def test_faults_of_the_node_object_are_reported(tmp_path, pki, serve):  # noqa: F811
    node = json.loads(json.dumps(NODE))
    node["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": "kubelet stopped"},
                                    {"type": "HostDrift", "status": "True", "reason": "StepsLeft", "message": "qos ens1: pfc off"}]
    node["status"]["capacity"]["old/vf"] = "0"
    node["status"]["allocatable"]["rdma/hca"] = "3"
    node["metadata"]["labels"] = {"network.nvidia.com/operator.mofed.wait": "true"}
    events = {"items": [{"type": "Warning", "reason": "Old", "message": "m", "source": {"component": "unirail-agent"},
                         "lastTimestamp": "2020-01-01T00:00:00Z"},
                        {"type": "Warning", "reason": "HostDrift", "message": "qos ens1", "source": {"component": "unirail-agent"}},
                        {"type": "Warning", "reason": "Other", "message": "m", "source": {"component": "kubelet"}}]}
    p = doctor(tmp_path, pki, serve, node, events, "-o", "json")
    assert p.returncode == 1 and p.stderr == ""
    found = [(f["level"], f["subject"], f["what"]) for f in json.loads(p.stdout)["findings"]]
    assert found == [
        ("problem", "n1", "the node is not Ready: kubelet stopped"),
        ("problem", "n1", "'unirail host watch' reports drift or a failed round (StepsLeft): qos ens1: pfc off"),
        ("problem", "rdma/hca", "1 of 4 devices are unhealthy"),
        ("note", "old/vf", "no device plugin of the node serves this resource now"),
        ("note", "HostDrift", "qos ens1"),
        ("problem", "network.nvidia.com/operator.mofed.wait",
         "the network operator keeps its device plugins and CNIs off this node until its driver container is ready")]


def test_doctor_with_options_node_and_fix_is_a_usage_error(tmp_path):
    p = subprocess.run([labs.BINARY, "doctor", "--node", "n1", "--fix"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 2 and "--node reads only the API server" in p.stderr
