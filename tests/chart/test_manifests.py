# SPDX-License-Identifier: Apache-2.0
"""`unirail manifests`: prints what the chart renders, and refuses what the chart refuses."""
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml
from charts import CHART, DEPLOY, VALUES, documents, helm, template

BINARY = os.environ.get("UNIRAIL", pathlib.Path(__file__).parents[2] / "build" / "unirail")


def manifests(*args, status=0, **kw):
    p = subprocess.run([BINARY, "manifests", *map(str, args)], capture_output=True, text=True, **kw)
    assert p.returncode == status, p.stderr
    return p.stdout if status == 0 else p.stderr


def printed(*args):
    """The objects without the Namespace object, which two of the files contain."""
    text = manifests("-n", "rails", *args)
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: rails\n---\n"
    assert namespace in text
    return documents(text.replace(namespace, ""))


def test_default_values_print_the_manifests_of_deploy():
    files = [*sorted((DEPLOY / "crds").glob("*.yaml")), DEPLOY / "crd.yaml", DEPLOY / "agent.yaml", DEPLOY / "controller.yaml"]
    assert manifests() == "---\n".join(f.read_text() for f in files)


@pytest.mark.parametrize("path", VALUES, ids=lambda p: p.stem)
def test_output_equals_that_of_the_chart(path):
    assert printed("-f", path) == template("-f", path)


@pytest.mark.parametrize("path", VALUES, ids=lambda p: p.stem)
def test_notes_on_values_without_effect_are_printed_on_stderr(path):
    p = subprocess.run([BINARY, "manifests", "-f", path], capture_output=True, text=True)
    notes = re.findall(r"(?m)^unirail manifests: note: (.*)$", p.stderr)
    assert p.returncode == 0 and len(notes) == len(p.stderr.splitlines())
    wanted = re.findall(r"(?m)^# note (.*)$", path.read_text())
    assert all(any(n.startswith(w) for n in notes) for w in wanted), (wanted, notes)
    if "\n# silent\n" in path.read_text():
        assert not notes


@pytest.mark.parametrize("values", [
    "clusterDefaultPool.installIPv4IPPool=true,clusterDefaultPool.ipv4IPRanges={10.0.0.1-10.0.0.9,10.0.0.20}",
    "rdma.rdmaSharedDevicePlugin.install=true,rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].resourceName=a,"
    "rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].selectors.ifNames={eth1,eth2},"
    "rdma.rdmaSharedDevicePlugin.deviceConfig.configList[1].resourceName=b,"
    "rdma.rdmaSharedDevicePlugin.deviceConfig.configList[1].rdmaHcaMax=100",
    "spiderpoolAgent.nodeSelector.kubernetes\\.io/hostname=n1,spiderpoolController.replicas=3",
    "spiderpoolAgent.resources.limits.cpu=1,spiderpoolAgent.resources.limits.memory=null",
    "spiderpoolAgent.podAnnotations.a=x\\,y,spiderpoolAgent.podAnnotations.percent=100%",
    "spiderpoolController.podResourceInject.namespacesExclude={}",
    "image.tag=v1.2.3,global.imageRegistryOverride=r:5000,coordinator.name=other",
    "image.tag=,image.repository=",
])
def test_set_option_is_parsed_as_helm_parses_it(values):
    assert printed("--set", values) == template("--set", values)


def test_later_values_have_precedence(tmp_path):
    (tmp_path / "a.yaml").write_text("spiderpoolController: {replicas: 5, podLabels: {a: b}}\nipam: {enableIPv6: false}\n")
    (tmp_path / "b.yaml").write_text("spiderpoolController: {replicas: 4, podLabels: {c: d}}\nipam: {enableIPv6: null}\n")
    args = ("-f", tmp_path / "a.yaml", "-f", tmp_path / "b.yaml", "--set", "image.tag=x", "--set", "image.pullPolicy=Always")
    assert printed(*args) == template(*args)
    assert "\n  replicas: 7\n" in manifests("-f", "-", input="spiderpoolController: {replicas: 7}")


@pytest.mark.parametrize("values, message", [
    ("ipam.enableIPV4=true", "value 'ipam.enableIPV4' is unknown; did you mean 'ipam.enableIPv4'?"),
    ("sriov.instal=true", "value 'sriov.instal' is unknown; did you mean 'sriov.install'?"),
    ("spiderpoolContoller.replicas=1", "value 'spiderpoolContoller' is unknown; did you mean 'spiderpoolController'?"),
    ("zzz=1", "value 'zzz' is unknown; deploy/chart/README.md lists all"),
    ("spiderpoolAgent.image.tga=x", "value 'spiderpoolAgent.image.tga' is unknown"),
    ("ipam=3", "ipam is 3, expected an object"),
    ("ipam.enableIPv4=maybe", "ipam.enableIPv4 is \"maybe\", expected true or false"),
    ("coordinator.mode=both", "coordinator.mode is \"both\", expected one of auto, underlay, overlay, disabled"),
    ("spiderpoolAgent.httpPort=99999", "spiderpoolAgent.httpPort is 99999, expected 1 to 65535"),
    ("spiderpoolController.replicas=-1", "spiderpoolController.replicas is -1, expected 0 or more"),
    ("global.cniBinHostPath=opt", "global.cniBinHostPath is \"opt\", expected a string that begins with /"),
    ("coordinator.hijackCIDR={10.0.0.0/8 x}", "coordinator.hijackCIDR[0] is \"10.0.0.0/8 x\", expected a name or an address"),
    ("rdmaSharedDevicePlugin.deploy=true,rdmaSharedDevicePlugin.resources[0].name=../x",
     "rdmaSharedDevicePlugin.resources[0].name is missing or invalid"),
    ("rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].resourceName=a,"
     "rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].selectors.vendors=15b3", "selectors.vendors is \"15b3\", expected a list"),
    ("feature.enableIPv4=true,ipam.enableSpiderSubnet=false",
     "ipam.enableSpiderSubnet is now ipam.spiderSubnet.enable; feature.enableIPv4 is now ipam.enableIPv4"),
    ("a", "--set 'a': expected path=value"),
    ("a={b", "--set 'a={b': the list of 'a' has no '}'"),
    ("a[2].b=1", "skips an item of a list"),
    (".=1", "expected path=value"),
])
def test_invalid_value_is_refused(values, message):
    said = manifests("--set", values, status=2)
    assert message in said and said.startswith("unirail manifests: ") and said.count("\n") == 1
    if "=" in values and message.startswith(("value", "ipam", "coord", "spider", "rdma", "global", "feature")):
        helm("template", "unirail", CHART, "--set", values, ok=False)


@pytest.mark.parametrize("text", ["a\n[agent]", "a: b", "a #b", 'x"', "{a}", "a:"])
def test_text_value_that_would_add_settings_is_refused(text, tmp_path):
    for rule in yaml.safe_load((CHART / "rules.yaml").read_text())["rules"]:
        if rule["t"] != "string" or "now" in rule or "note" in rule or rule.get("json") or "one" in rule:
            continue
        tree = text
        for key in reversed(rule["v"].split(".")):
            tree = {key: tree}
        (tmp_path / "v.yaml").write_text(json.dumps(tree))
        assert f"{rule['v']} is " in manifests("-f", tmp_path / "v.yaml", status=2)


@pytest.mark.parametrize("values", [
    "coordinator: {hijackCIDR: [null]}", "spiderpoolAgent: {extraArgs: [a, null]}", "spiderpoolController: {tolerations: [null]}",
])
def test_null_in_a_list_is_refused(values, tmp_path):
    (tmp_path / "v.yaml").write_text(values)
    said = manifests("-f", tmp_path / "v.yaml", status=2)
    assert "] is null, expected a" in said
    helm("template", "unirail", CHART, "-f", tmp_path / "v.yaml", ok=False)


def test_invalid_values_files_are_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("[1]\n")
    assert "expected a mapping" in manifests("-f", tmp_path / "list.yaml", status=2)
    (tmp_path / "bad.yaml").write_text("a: [\n")
    assert f"{tmp_path}/bad.yaml: " in manifests("-f", tmp_path / "bad.yaml", status=2)
    assert "No such file or directory (ENOENT)" in manifests("-f", tmp_path / "none", status=1)
    (tmp_path / "long.yaml").write_text("# " + "x" * (1 << 20))
    assert str(tmp_path / "long.yaml") in manifests("-f", tmp_path / "long.yaml", status=1)
    assert "namespace 'A'" in manifests("-n", "A", status=2)


def test_manifests_do_not_depend_on_the_current_directory(tmp_path):
    assert manifests(cwd=tmp_path) == manifests()
