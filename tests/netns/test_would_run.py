# SPDX-License-Identifier: Apache-2.0
"""`unirail doctor --would-run`: checks a pod against a recorded host. Most tests of a finding check a pod or host with the fault and one
without it."""
import json
import pathlib
import subprocess

import pytest
from lab import BINARY

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "hosts"
NADS = """
kind: NetworkAttachmentDefinition
metadata: {name: ib, annotations: {k8s.v1.cni.cncf.io/resourceName: unirail.io/ib}}
spec: {config: '{"type": "ib-sriov", "ipam": {"type": "spiderpool", "default_ipv4_ippool": ["p"]}}'}
---
kind: NetworkAttachmentDefinition
metadata: {name: lan}
spec: {config: '{"type": "macvlan", "master": "ra"}'}
---
kind: SpiderIPPool
metadata: {name: p}
spec: {subnet: 10.6.0.0/24, ips: [10.6.0.10]}
status: {totalIPCount: 1, allocatedIPCount: 0}
"""
POD = """
kind: Pod
metadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: ib}}
spec: {containers: [{name: c, resources: {limits: {unirail.io/ib: 1}}}]}
"""


@pytest.fixture
def host(tmp_path):
    """The recording vm_ailing with one device of resource unirail.io/ib."""
    tree = (HOSTS / "vm_ailing.tree").read_text()
    checkpoint = json.dumps({"Data": {"PodDeviceEntries": [], "RegisteredDevices": {"unirail.io/ib": ["0000:01:10.0"]}}})
    tree += f"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint = {checkpoint}\n/opt/cni/bin/ib-sriov = \\c\n"
    (tmp_path / "host.tree").write_text(tree)
    return tmp_path / "host.tree"


def would(tmp_path, host, pod=POD, nads=NADS, *more):
    (tmp_path / "pod.yaml").write_text(pod)
    (tmp_path / "nads.yaml").write_text(nads)
    p = subprocess.run([BINARY, "doctor", "--root", host, "--would-run", tmp_path / "pod.yaml", "--with", tmp_path / "nads.yaml",
                        "-o", "json", *more], capture_output=True, text=True, timeout=60)
    assert p.stderr == "", p.stderr
    found = json.loads(p.stdout)["findings"]
    assert all(f["check"] == "would-run" for f in found)
    return {f["subject"]: f for f in found}


def test_missing_network_is_reported(tmp_path, host):
    found = would(tmp_path, host, POD.replace("networks: ib", "networks: ob"))
    assert "neither in the manifests" in found["network default/ob"]["what"]
    assert "network default/ob" not in would(tmp_path, host)


def test_network_in_a_file_of_the_host_is_not_reported_as_missing(tmp_path, host):
    name = json.loads([line for line in subprocess.run([BINARY, "doctor", "--root", host, "--unpack", tmp_path / "u"], check=True) and
                       [(tmp_path / "u/etc/cni/net.d/10-net.conflist").read_text()]][0])["name"]
    assert f"network default/{name}" not in {
        w for w, f in would(tmp_path, host, POD.replace("networks: ib", f"networks: {name}")).items() if "neither" in f["what"]}


def test_unsuitable_rdma_mode_is_reported(tmp_path, host):
    found = would(tmp_path, host)
    assert "'unirail host rdma-mode exclusive'" in found["network default/ib"]["remedy"]
    found = would(tmp_path, host, POD.replace("networks: ib", "networks: lan"))
    assert "rdma-mode" not in str(found.get("network default/lan"))


def test_missing_master_is_reported(tmp_path, host):
    pod = POD.replace("networks: ib", "networks: lan")
    (tmp_path / "h").mkdir()
    found = would(tmp_path, host, pod, NADS.replace('"master": "ra"', '"master": "rx"'))
    assert "master 'rx'" in str(found)
    assert "master 'ra'" not in str(would(tmp_path, host, pod))


def test_resource_without_a_device_plugin_is_reported(tmp_path, host):
    found = would(tmp_path, host, POD.replace("unirail.io/ib: 1", "rdma/hca: 1"))
    assert "no device plugin of this node serves the resource" in found["rdma/hca"]["what"]
    assert "unirail.io/ib" not in would(tmp_path, host)


def test_resource_with_too_few_free_devices_is_reported(tmp_path, host):
    found = would(tmp_path, host, POD.replace("unirail.io/ib: 1", "unirail.io/ib: 2"))
    assert "requests 2, but 1 of 1 are free" in found["unirail.io/ib"]["what"]


def test_pool_without_free_addresses_is_reported(tmp_path, host):
    assert "pool p" not in would(tmp_path, host)
    found = would(tmp_path, host, POD, NADS.replace("allocatedIPCount: 0", "allocatedIPCount: 1"))
    assert "none of the pool's 1 addresses is free" in found["pool p"]["what"]
    found = would(tmp_path, host, POD, NADS.replace('["p"]', '["q"]'))
    assert "not in the manifests" in found["pool q"]["what"]


def test_low_memlock_limit_is_reported(tmp_path, host):
    tree = host.read_text() + "/usr/bin/containerd = \\c\n/etc/containerd/config.toml = version = 2\n"
    host.write_text(tree)
    found = would(tmp_path, host)
    assert "has no capability IPC_LOCK" in found["Pod default/a"]["what"] and "'unirail host memlock'" in found["Pod default/a"]["remedy"]
    able = POD.replace("{name: c,", "{name: c, securityContext: {capabilities: {add: [IPC_LOCK]}},")
    assert "Pod default/a" not in would(tmp_path, host, able)
    user = able.replace("{capabilities", "{runAsUser: 1000, capabilities")
    assert "does not run as root" in would(tmp_path, host, user)["Pod default/a"]["what"]


def test_node_that_the_scheduler_would_exclude_is_reported(tmp_path, host):
    node = tmp_path / "node.json"
    node.write_text(json.dumps({"kind": "Node", "metadata": {"name": "n1", "labels": {"gpu": "a"}},
                                "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}))
    pod = POD.replace("spec: {", "spec: {nodeSelector: {gpu: b}, tolerations: [{key: gpu, operator: Exists}], ")
    found = would(tmp_path, host, pod, NADS, "--node-file", node)
    assert "requires gpu=b" in found["Pod default/a"]["what"]
    found = would(tmp_path, host, POD, NADS, "--node-file", node)
    assert "taint gpu:NoSchedule" in found["Pod default/a"]["what"]
    right = pod.replace("gpu: b", "gpu: a")
    assert "Pod default/a" not in would(tmp_path, host, right, NADS, "--node-file", node)


def test_file_without_a_pod_is_refused(tmp_path, host):
    (tmp_path / "x.yaml").write_text(NADS)
    p = subprocess.run([BINARY, "doctor", "--root", host, "--would-run", tmp_path / "x.yaml"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and p.stdout == "" and "contains neither a Pod nor" in p.stderr


def test_summary_counts_no_checks_of_the_host(tmp_path, host):
    (tmp_path / "pod.yaml").write_text(POD)
    p = subprocess.run([BINARY, "doctor", "--root", host, "--would-run", tmp_path / "pod.yaml"], capture_output=True, text=True, timeout=60)
    assert p.stdout.splitlines()[-1] == "1 problems, 0 notes", p.stdout
