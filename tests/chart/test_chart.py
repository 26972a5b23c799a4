# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: the objects that it renders, the values that it refuses, and its NOTES.txt."""
import configparser
import json
import re
import shutil
import subprocess

import pytest
import yaml
from charts import CHART, DEPLOY, VALUES, documents, helm, plain, template

RULES = yaml.safe_load((CHART / "rules.yaml").read_text())
ALWAYS = [*(f"crds/{p.name}" for p in sorted((DEPLOY / "crds").glob("*.yaml"))), "crd.yaml", "agent.yaml", "controller.yaml"]


def file_text(name):
    return (CHART / "files" / name).read_text()


def named(edit):
    every = [str(p.relative_to(CHART / "files")) for p in (CHART / "files").rglob("*.yaml")]
    every += [f"{d.name}/{p.name}" for d in (CHART / "files").iterdir() if d.is_dir() for p in d.glob("*.yaml")]
    return [n for n in sorted(set(every)) if n.startswith(edit.get("in", ""))]


def test_default_values_render_the_manifests_of_deploy():
    assert template(ns="unirail") == plain(*ALWAYS)


def test_optional_parts_render_the_manifests_of_deploy():
    rendered = template("--set", "policies.install=true,host.install=true,serviceMonitor.install=true", ns="unirail")
    wanted = plain(*ALWAYS, "policies/agent.yaml", "policies/controller.yaml", "monitor/agent.yaml", "monitor/controller.yaml")
    assert {k: v for k, v in rendered.items() if k[2] != "host"} == wanted
    # The chart puts the objects of host.yaml into the namespace of the release.
    for (kind, _, name), o in plain("host/host.yaml").items():
        o["metadata"]["namespace"] = "unirail"
        assert rendered[kind, "unirail", name] == o


def test_release_in_another_namespace_has_no_object_in_namespace_unirail():
    assert {ns for _, ns, _ in template("--set", "serviceMonitor.install=true,host.install=true")} == {
        None, "rails", "kube-system"}
    text = helm("template", "unirail", CHART, "-n", "rails", "--set", "serviceMonitor.install=true,host.install=true")
    assert not re.search(r"(?m)^[^#\n]*(namespace: unirail|matchNames: \[unirail\])", text)


def test_each_text_that_a_rule_replaces_is_in_a_manifest():
    # Some texts are in no manifest: another rule adds them.
    added = "".join(e.get("put", "") + e.get("add", "") for r in RULES["rules"] for e in r.get("edit", []))
    for rule in RULES["rules"] + RULES["namespace"]:
        for edit in rule.get("edit", []) + ([rule] if "find" in rule else []):
            files = named(edit)
            if edit["find"] in added:
                continue
            assert files and any(edit["find"] in file_text(n) for n in files), (rule, edit["find"])
            if "in" in edit:
                # An edit that names files must find its text in each of them.
                assert all(edit["find"] in file_text(n) for n in files), edit


def test_each_setting_that_a_rule_writes_is_listed_in_the_sample_configuration_of_its_program():
    known = {}
    for program in ("agent", "controller"):
        text = (DEPLOY.parent / f"configs/{program}.conf").read_text()
        known[program] = set(re.findall(r"(?m)^; ([a-z0-9-]+) +=", text))
    for rule in RULES["rules"]:
        for setting in rule.get("conf", []):
            program, key = setting.split("=")[0].split("/")
            assert key in known[program], (rule["v"], setting)


def test_generated_files_are_up_to_date_with_the_rules():
    subprocess.run([DEPLOY.parent / "tools/chart", "--check"], check=True)


def test_chart_passes_lint():
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_at_least_forty_values_files_are_tested():
    assert len(VALUES) >= 40


def expectations(path):
    """The expectations in the comments at the start of a values file: (has or not; kind and name; text)."""
    for line in path.read_text().splitlines():
        m = re.match(r"# (has|not) (\S+) (.*)$", line)
        if m:
            yield m.groups()


def texts(o):
    yield json.dumps(o, sort_keys=True)
    yield from o.get("data", {}).values() if o["kind"] == "ConfigMap" else ()


@pytest.mark.parametrize("path", VALUES, ids=lambda p: p.stem)
def test_values_files_render_the_expected_objects(path):
    rendered = template("-f", path)
    for what, key, text in expectations(path):
        kind, name = key.split("/")
        found = any(text in t for (k, _, n), o in rendered.items() if (k, n) == (kind, name) for t in texts(o))
        assert found == (what == "has"), (what, key, text, [o for k, o in rendered.items() if (k[0], k[2]) == (kind, name)])
    for _, ns, name in rendered:
        if name in ("unirail-agent", "unirail-controller") and ("ConfigMap", ns, name) in rendered:
            (conf,) = [t for k, t in rendered["ConfigMap", ns, name]["data"].items() if k.endswith(".conf")]
            configparser.ConfigParser().read_string(conf)  # raises an error if the text has a setting twice


@pytest.fixture(scope="session")
def noted(tmp_path_factory):
    """The chart with NOTES.txt as the content of an object, since without an API server Helm does not print NOTES.txt."""
    chart = tmp_path_factory.mktemp("chart") / "unirail"
    shutil.copytree(CHART, chart)
    (chart / "templates/NOTES.txt").rename(chart / "notes")
    (chart / "templates/notes.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: {{ tpl (.Files.Get \"notes\") . | toJson }}\n")
    return chart


@pytest.mark.parametrize("path", VALUES, ids=lambda p: p.stem)
def test_notes_txt_lists_values_that_have_no_effect(path, noted):
    (o,) = documents(helm("template", "unirail", noted, "-n", "rails", "--kube-version", "1.34", "-s", "templates/notes.yaml", "-f",
                          path)).values()
    notes = o["data"]["notes"]
    lines = [m.group(1) for m in re.finditer(r"(?m)^  \* (.*)$", notes)]
    for wanted in re.findall(r"(?m)^# note (.*)$", path.read_text()):
        assert any(line.startswith(wanted) for line in lines), (wanted, notes)
    if "\n# silent\n" in path.read_text():
        assert not lines


@pytest.mark.parametrize("value, message", [
    ("ipam.enableIPV4=true", "value must be one of 'enableCleanOutdatedEndpoint'"),
    ("ipam.enableIPV4=true", "at '/ipam': additional properties 'enableIPV4' not allowed"),
    ("spiderpoolController.podResourceInjection.enabled=true", "'podResourceInjection' not allowed"),
    ("sriov.instal=true", "at '/sriov': additional properties 'instal' not allowed"),
    ("coordinator.mode=both", "at '/coordinator/mode': value must be one of 'auto', 'underlay', 'overlay', 'disabled'"),
    ("ipam.enableIPv4=maybe", "at '/ipam/enableIPv4': got string, want boolean"),
    ("rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].resourceName=a,"
     "rdma.rdmaSharedDevicePlugin.deviceConfig.configList[0].selectors.vendors=15b3", "/selectors/vendors': got "),
    ("rdma.rdmaSharedDevicePlugin.deviceConfig.vendors=15b3",
     "rdma.rdmaSharedDevicePlugin.deviceConfig.vendors is now rdma.rdmaSharedDevicePlugin.deviceConfig.configList"),
    ("feature.enableIPv4=true,ipam.enableSpiderSubnet=false", "ipam.enableSpiderSubnet is now ipam.spiderSubnet.enable\n"
                                                              "feature.enableIPv4 is now ipam.enableIPv4"),
    ("global.ciliumConfigMap=cilium/cilium-config", "at '/global/ciliumConfigMap': 'cilium/cilium-config' does not match pattern"),
])
def test_refusal_of_an_invalid_value_names_the_value(value, message):
    assert message in helm("template", "unirail", CHART, "--set", value, ok=False)


@pytest.mark.parametrize("value", ['a\n[agent]', "a: b", "a #b", 'x"', "{a}"])
def test_text_value_that_would_add_settings_is_refused(value, tmp_path):
    """A plain text value fills exactly one YAML scalar or one setting: text that would add others is refused."""
    for rule in RULES["rules"]:
        if rule["t"] != "string" or "now" in rule or "note" in rule or rule.get("json") or "one" in rule:
            continue
        tree = value
        for key in reversed(rule["v"].split(".")):
            tree = {key: tree}
        (tmp_path / "v.yaml").write_text(json.dumps(tree))
        assert "does not match pattern" in helm("template", "unirail", CHART, "-f", tmp_path / "v.yaml", ok=False), rule["v"]


def test_too_old_kubernetes_is_refused():
    assert "1.20.0" in helm("template", "unirail", CHART, "--kube-version", "1.19", ok=False)
    assert "policies.install needs Kubernetes 1.30 or later" in helm(
        "template", "unirail", CHART, "--kube-version", "1.29", "--set", "policies.install=true", ok=False)


def test_helm_tests_of_a_release_render():
    def pods(*args):
        text = helm("template", "unirail", CHART, "-n", "rails", *args)
        return {n: o for (k, _, n), o in documents(text).items() if k == "Pod"}

    found = pods("--kube-version", "1.34", "--set", "image.registry=r,test.nodeSelector.gpu=yes")
    assert set(found) == {"unirail-doctor", "unirail-verify"}
    for o in found.values():
        assert o["metadata"]["annotations"]["helm.sh/hook"] == "test" and o["metadata"]["namespace"] == "rails"
        assert o["spec"]["nodeSelector"] == {"gpu": "yes"}
        assert {c["image"] for c in o["spec"]["containers"] + o["spec"].get("initContainers", [])} == {"r/unirail:latest"}
        assert o["spec"]["automountServiceAccountToken"] is False
    (doctor,) = found["unirail-doctor"]["spec"]["containers"]
    assert doctor["args"] == ["doctor"] and doctor["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
    assert all(m["readOnly"] for m in doctor["volumeMounts"] if m["name"] != "infiniband")
    assert set(pods("--kube-version", "1.28")) == {"unirail-doctor"}


def test_packed_chart_renders_without_symbolic_links(tmp_path):
    helm("package", CHART, "-d", tmp_path)
    (packed,) = tmp_path.glob("unirail-*.tgz")
    assert documents(helm("template", "unirail", packed, "-n", "unirail", "--skip-tests")) == plain(*ALWAYS)
    listed = subprocess.run(["tar", "-tvzf", packed], check=True, capture_output=True, text=True).stdout
    assert " unirail/files/agent.yaml" in listed and not re.search("(?m)^l", listed)
