# SPDX-License-Identifier: Apache-2.0
"""`unirail lint` checks manifests against each other. Most tests check manifests with a fault and the same manifests without it."""
import json
import subprocess

import pytest
from lab import BINARY

POOL = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: rail0}
spec: {subnet: 172.16.1.0/24, ips: [172.16.1.10-172.16.1.13], gateway: 172.16.1.1}
"""
NETWORK = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: net0, namespace: team, annotations: {cni.spidernet.io/rdma-resource-inject: gpu}}
spec:
  cniType: sriov
  sriov: {resourceName: spidernet.io/rail0, ippools: {ipv4: [rail0]}}
"""
NAD = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: nad0, namespace: team}
spec: {config: '{"cniVersion": "1.0.0", "type": "macvlan", "master": "ens1", "ipam": {"type": "spiderpool", "default_ipv4_ippool": ["rail0"]}}'}
"""
JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: train, namespace: team}
spec:
  mpiReplicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata: {annotations: {k8s.v1.cni.cncf.io/networks: net0}}
        spec: {containers: [{name: c, image: i, resources: {limits: {spidernet.io/rail0: 1}}}]}
"""


def lint(tmp_path, *texts, status=None):
    files = []
    for i, text in enumerate(texts):
        files.append(tmp_path / f"m{i}.yaml")
        files[-1].write_text(text)
    p = subprocess.run([BINARY, "lint", "-o", "json", *map(str, files)], capture_output=True, text=True, timeout=60)
    assert p.stderr == "", p.stderr
    outcome = json.loads(p.stdout)
    assert p.returncode == (0 if outcome["ok"] else 1)
    return outcome["findings"]


def errors(found):
    return [f for f in found if f["level"] == "error"]


ALL = "---".join([POOL, NETWORK, NAD, JOB])


def test_consistent_manifests_have_no_findings(tmp_path):
    assert lint(tmp_path, ALL) == []
    assert lint(tmp_path, POOL, NETWORK, NAD, JOB) == []


FAULTS = [
    ("ips: [172.16.1.10-172.16.1.13]", "ips: [172.16.2.10]", "SpiderIPPool rail0", "spec.ips[0]", "172.16.2.10"),
    ("gateway: 172.16.1.1}", "gateway: 172.16.1.11}", "SpiderIPPool rail0", "spec.", "172.16.1.11"),
    ("ippools: {ipv4: [rail0]}", "ippools: {ipv4: [rail1]}", "SpiderMultusConfig team/net0", "spec",
     "SpiderIPPool 'rail1' is not in these files; did you mean 'rail0'?"),
    ("gateway: 172.16.1.1}", "gatway: 172.16.1.1}", "SpiderIPPool rail0", "spec.gatway",
     "SpiderIPPool has no field 'gatway'; did you mean 'gateway'?"),
    ("ippools: {ipv4: [rail0]}", "ippools: {ipv4: [rail0], matchMastersubnet: true}", "SpiderMultusConfig team/net0",
     "spec.sriov.ippools.matchMastersubnet", "did you mean 'matchMasterSubnet'?"),
    ("cniType: sriov", "cniType: srov", "SpiderMultusConfig team/net0", "spec.cniType", "srov"),
    ('"default_ipv4_ippool": ["rail0"]', '"default_ipv4_ippool": ["rail9"]', "NetworkAttachmentDefinition team/nad0",
     "spec.config", "SpiderIPPool 'rail9'"),
    ('"type": "macvlan"', '"type": "multus"', "NetworkAttachmentDefinition team/nad0", "spec.config", "type is 'multus'"),
    ('"master": "ens1"', '"master": ens1', "NetworkAttachmentDefinition team/nad0", "spec.config", "is not JSON"),
    ("networks: net0", "networks: net1", "MPIJob team/train",
     "spec.mpiReplicaSpecs.Worker.template.metadata.annotations", "network 'team/net1' is not in these files"),
    ("networks: net0", "networks: 'net0,'", "MPIJob team/train", "spec.mpiReplicaSpecs.Worker.template.metadata.annotations", "mismatch @ ''"),
    ("networks: net0", "networks: 'net0,net0'", "MPIJob team/train", "spec.mpiReplicaSpecs.Worker.template.metadata.annotations",
     "the pod's networks use 2 of resource 'spidernet.io/rail0', the pod's containers request 1"),
    ("k8s.v1.cni.cncf.io/networks: net0", "cni.spidernet.io/rdma-resource-inject: cpu", "MPIJob team/train",
     "spec.mpiReplicaSpecs.Worker.template.metadata.annotations", "cpu"),
    ("k8s.v1.cni.cncf.io/networks: net0", "k8s.v1.cni.cncf.io/networks: net0, ipam.spidernet.io/ippool: '{\"ipv4\": [\"rail7\"]}'",
     "MPIJob team/train", "spec.mpiReplicaSpecs.Worker.template.metadata.annotations", "SpiderIPPool 'rail7'"),
]


@pytest.mark.parametrize("right,wrong,what,field,text", FAULTS)
def test_each_fault_is_found(tmp_path, right, wrong, what, field, text):
    assert right in ALL
    found = errors(lint(tmp_path, ALL.replace(right, wrong)))
    assert [f for f in found if f["object"] == what and f["field"].startswith(field) and text in f["text"]], found


def test_pod_with_injected_devices_needs_no_resource_limits(tmp_path):
    job = JOB.replace("k8s.v1.cni.cncf.io/networks: net0", "cni.spidernet.io/rdma-resource-inject: gpu").replace(
        "resources: {limits: {spidernet.io/rail0: 1}}", "resources: {}")
    assert lint(tmp_path, POOL, NETWORK, job) == []


def test_overlap_of_pools_in_two_files_is_reported(tmp_path):
    found = errors(lint(tmp_path, POOL, POOL.replace("rail0", "rail1")))
    assert found and "rail" in found[0]["text"] and found[0]["origin"].startswith(str(tmp_path))
    assert lint(tmp_path, POOL, POOL.replace("rail0", "rail1").replace("172.16.1.", "172.16.2.")) == []


def test_object_that_two_files_contain_is_reported(tmp_path):
    found = errors(lint(tmp_path, POOL, POOL))
    assert any(f["field"] == "metadata.name" and "m0.yaml:1" in f["text"] for f in found), found


def test_reference_to_a_kind_that_no_file_contains_is_a_warning(tmp_path):
    found = lint(tmp_path, JOB)
    assert [f["level"] for f in found] == ["warning"] and "team/net0" in found[0]["text"]


def test_pool_smaller_than_its_workload_is_reported(tmp_path):
    deployment = """
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: 5
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: nad0}}
    spec: {containers: [{name: c, image: i}]}
"""
    found = lint(tmp_path, POOL, NAD, deployment)
    assert [f["level"] for f in found] == ["warning"] and "has 4 addresses for 5 pods" in found[0]["text"]
    assert lint(tmp_path, POOL, NAD, deployment.replace("replicas: 5", "replicas: 4")) == []


def test_error_of_a_file_that_is_not_yaml_names_its_line(tmp_path):
    (tmp_path / "bad.yaml").write_text(POOL + "---\nkind: Pod\n  metadata: {\n")
    p = subprocess.run([BINARY, "lint", str(tmp_path / "bad.yaml")], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and p.stdout == ""
    lines = POOL.count("\n") + 3
    assert f"bad.yaml:{lines}:" in p.stderr and p.stderr.count("\n") == 1, p.stderr


@pytest.mark.parametrize("mark, line", [
    ("--- {kind: Pod, metadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: none}}}\n", 1),
    ("--- # a comment\nkind: Pod\nmetadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: none}}\n---\n", 2),
])
def test_document_on_the_line_of_its_marker_is_read(tmp_path, mark, line):
    found = lint(tmp_path, mark)
    assert [f["origin"] for f in found] == [f"{tmp_path}/m0.yaml:{line}"]


def pool(name, subnet, ips):
    return f'{{kind: SpiderIPPool, metadata: {{name: {name}}}, spec: {{subnet: {subnet}, ips: ["{ips}"]}}}}\n'


def test_overlaps_and_wrong_references_among_many_objects_are_reported(tmp_path):
    """Among 20,000 pools and 20,000 networks, lint finds the faults of five further objects."""
    many = [pool(f"p{i}", f"10.{i >> 8}.{i & 255}.0/24", f"10.{i >> 8}.{i & 255}.10-10.{i >> 8}.{i & 255}.20") for i in range(20000)]
    networks = [f"{{kind: SpiderMultusConfig, metadata: {{name: n{i}, namespace: team}}, spec: {{cniType: macvlan, "
                f"macvlan: {{master: [ens1], ippools: {{ipv4: [p{i}]}}}}}}}}\n" for i in range(20000)]
    extra = [
        pool("wide", "10.5.0.0/16", "10.5.7.200"),                   # its subnet contains those of 256 other pools
        pool("same", "10.6.0.0/24", "10.6.0.15"),                    # an address of p1536
        "{kind: SpiderSubnet, metadata: {name: s}, spec: {subnet: 10.7.0.0/24, ips: [10.7.0.10-10.7.0.15]}}\n",  # fewer addresses than p1792
        "{kind: SpiderMultusConfig, metadata: {name: wrong, namespace: team}, spec: {cniType: macvlan, "
        "macvlan: {master: [ens1], ippools: {ipv4: [p1999q]}}}}\n",
        "{kind: SpiderMultusConfig, metadata: {name: twin, namespace: team, annotations: {multus.spidernet.io/cr-name: n77}}, "
        "spec: {cniType: macvlan, macvlan: {master: [ens1], ippools: {ipv4: [p1]}}}}\n",
    ]
    found = errors(lint(tmp_path, "---\n".join(many + extra), "---\n".join(networks)))
    names = {f["object"].split()[1] for f in found}
    assert {"wide", "same", "s", "p1536", "p1792", "team/wrong", "team/twin", "p1280", "p1535"} <= names
    assert not names & {"p0", "p1279", "p1537", "p19999", "team/n0", "team/n19999"}
    assert "did you mean 'p1999'?" in next(f["text"] for f in found if f["object"].endswith("/wrong"))
    assert "n77" in next(f["text"] for f in found if f["object"].endswith("/twin"))


def test_objects_of_a_list_are_checked(tmp_path):
    text = json.dumps({"kind": "List", "items": [{"kind": "SpiderIPPool", "metadata": {"name": "a"}, "spec": {"subnet": "nonsense"}}]})
    found = errors(lint(tmp_path, text))
    assert found[0]["origin"].endswith("m0.yaml:1 items[0]") and found[0]["field"] == "spec.subnet"
