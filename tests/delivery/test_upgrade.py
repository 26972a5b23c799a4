# SPDX-License-Identifier: Apache-2.0
"""An upgrade from each version of versions/: its stored files, the requests and answers of its plugin and its agent, its definitions and
its annotations. versions/README.md describes how to record a version."""
import functools
import importlib.machinery
import importlib.util
import json
import os
import pathlib

import pytest
import yaml
from conftest import BINARY, TOP, run

VERSIONS = sorted(p for p in (pathlib.Path(__file__).parent / "versions").iterdir() if p.is_dir() and p.name[0].isdigit())
IDS = [p.name for p in VERSIONS]
# Keys whose value may differ. newlyAllocated is true if the request allocated the address; a repeated request gets the existing address.
VOLATILE = {"newlyAllocated"}
os.environ.setdefault("UNIRAIL", str(BINARY))
loader = importlib.machinery.SourceFileLoader("machine", str(pathlib.Path(__file__).parent / "versions/machine"))
machine = importlib.util.module_from_spec(importlib.util.spec_from_loader("machine", loader))
loader.exec_module(machine)
versions = pytest.mark.parametrize("old", VERSIONS, ids=IDS)


@functools.cache
def upgraded(old, scratch):
    run(old.parent / "machine", "upgrade", old, scratch / "out.json", env=os.environ | {"UNIRAIL": str(BINARY)})
    return json.loads((scratch / "out.json").read_text())


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    return {v: tmp_path_factory.mktemp(v.name) for v in VERSIONS}


@pytest.fixture
def found(old, scratch):
    return upgraded(old, scratch[old])


def used(show):
    """{address: pod} of `pool show -o json`."""
    flat, todo = {}, [show]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if one.get("state") == "used":
                flat[one["address"].partition("/")[0]] = one.get("pod")
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return flat


def subset(want, got, place="answer"):
    """Asserts that the answer has every field of the previous version's answer, with the same value, except the keys in VOLATILE."""
    if isinstance(want, dict):
        assert isinstance(got, dict), (place, got)
        for key, value in want.items():
            if key not in VOLATILE:
                assert key in got, f"{place}.{key} is missing"
                subset(value, got[key], f"{place}.{key}")
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), (place, want, got)
        for i, value in enumerate(want):
            subset(value, got[i], f"{place}[{i}]")
    else:
        assert got == want, (place, want, got)


def keys(value, place=""):
    """Every key of an object, with its path."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield f"{place}.{k}"
            yield from keys(v, f"{place}.{k}")
    elif isinstance(value, list):
        for v in value:
            yield from keys(v, place + "[]")


def test_at_least_one_previous_version_is_recorded():
    assert VERSIONS


@versions
def test_addresses_of_the_previous_version_stay_with_their_pods(old, found):
    """This version reads the recorded journal, anchor and pools; a new pod gets a free address."""
    result = json.loads((old / "result.json").read_text())
    address, = [ip["address"].partition("/")[0] for ip in result["ips"] if ip["address"].startswith("172.")]
    assert used(found["before"]) == used(found["replayed"]) == {address: "pod-1"}
    both = used(found["both"])
    assert both.pop(address) == "pod-1" and list(both.values()) == ["pod-3"]


@versions
def test_pods_of_the_previous_version_are_deleted(found):
    """DEL reads the previous version's cache and record of networks; a reboot has removed the pod's network namespace."""
    assert found["del"][0] == 0, found["del"]
    assert list(used(found["after"]).values()) == ["pod-3"]
    assert found["files"] == []


@versions
def test_plugin_of_the_previous_version_works_with_this_agent(found):
    """The recorded requests get answers that have every recorded field with the same value, except newlyAllocated."""
    assert {one["path"].rpartition("/")[2] for one in found["exchange"]} >= {"plan", "check", "release"}
    for one in found["exchange"]:
        assert one["status_now"] == one["status"] == 200, one
        subset(one["answer"], one["answer_now"])


@versions
def test_this_plugin_works_with_the_agent_of_the_previous_version(old, found):
    """This plugin sends no key that the previous version's agent refuses: new keys begin with '~', and every agent ignores unknown keys
    with '~'."""
    known = {}
    for one in json.loads((old / "exchange.json").read_text()):
        known.setdefault(one["path"], set()).update(keys(one["body"]))
    for one in found["requests"]:
        if one["body"] is not None and one["path"] in known:
            new = {k for k in keys(one["body"]) if not k.rpartition(".")[2].startswith("~")} - known[one["path"]]
            assert not new, (one["path"], new)


@versions
def test_optional_keys_of_a_later_version_are_ignored(found):
    """Plugin and agent ignore an unknown key that begins with '~'; the agent refuses any other unknown key with an error that names the
    key."""
    assert found["new"]["ips"]  # ADD succeeded although each answer of the agent had an unknown key with '~'
    assert found["exchange"] and {one["status_later"] for one in found["exchange"]} == {200}
    status, answer = found["unknown"]
    assert status >= 400 and "later is not a known key" in json.dumps(answer)


# --- definitions ---


def definitions(*paths):
    for path in paths:
        for one in filter(None, yaml.safe_load_all(path.read_text())):
            yield one["metadata"]["name"], one["spec"]


def narrower(old, new, place):
    """Yields each field or value that the old schema permits and the new schema refuses or drops."""
    for key in ("type", "format"):
        if old.get(key) != new.get(key) and new.get(key) is not None:
            yield f"{place}: {key} {old.get(key)} is {new.get(key)}"
    if new.get("x-kubernetes-preserve-unknown-fields"):
        return
    if old.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{place}: unknown fields are dropped"
    if set(new.get("required", [])) - set(old.get("required", [])):
        yield f"{place}: requires {set(new['required']) - set(old.get('required', []))}"
    if "enum" in new and not set(old.get("enum", ["anything"])) <= set(new["enum"]):
        yield f"{place}: enum"
    for low, sign in (("minimum", 1), ("minLength", 1), ("minItems", 1), ("maximum", -1), ("maxLength", -1), ("maxItems", -1)):
        if low in new and (low not in old or sign * new[low] > sign * old[low]):
            yield f"{place}: {low} {old.get(low)} is {new[low]}"
    if new.get("pattern") != old.get("pattern") and "pattern" in new:
        yield f"{place}: pattern"
    for key, value in old.get("properties", {}).items():
        if key not in new.get("properties", {}):
            yield f"{place}.{key} is gone"
        else:
            yield from narrower(value, new["properties"][key], f"{place}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), dict):
            if not isinstance(new.get(key), dict):
                yield f"{place}: {key} is gone"
            else:
                yield from narrower(old[key], new[key], f"{place}.{key}")


def changes(old, new):
    for key in ("group", "scope"):
        if old[key] != new[key]:
            yield key
    for key in ("kind", "plural", "singular", "shortNames"):
        if old["names"].get(key) != new["names"].get(key):
            yield f"names.{key}"
    for version in old["versions"]:
        now = next((v for v in new["versions"] if v["name"] == version["name"]), None)
        if not now or not now["served"]:
            yield f"version {version['name']} is gone"
            continue
        if version["storage"] and not any(v["storage"] and v["name"] == version["name"] for v in new["versions"]):
            yield "the stored version"
        yield from narrower(version["schema"]["openAPIV3Schema"], now["schema"]["openAPIV3Schema"], version["name"])


@versions
def test_objects_of_the_previous_version_are_accepted(old):
    """This version's definitions accept the objects with all their fields: an upgrade of the definitions changes no object. Each new
    field is optional, so that the objects of agents that were not upgraded yet are accepted."""
    now = dict(definitions(TOP / "deploy/crd.yaml", *(TOP / "deploy/crds").glob("*.yaml")))
    before = dict(definitions(*(old / "crds").glob("*.yaml")))
    assert len(before) == 8
    for name, spec in before.items():
        assert name in now, f"{name} is gone"
        assert list(changes(spec, now[name])) == [], name


def test_comparison_finds_a_narrower_definition():
    """narrower() finds a removed field, another type, a new required field, a higher minimum, a new enum and a new pattern."""
    old = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": "string"}}}
    for change, says in ((lambda s: s["properties"].pop("b"), ".b is gone"),
                         (lambda s: s["properties"]["b"].update(type="integer"), "type string"),
                         (lambda s: s["required"].append("b"), "requires"),
                         (lambda s: s["properties"]["a"].update(minimum=2), "minimum"),
                         (lambda s: s["properties"]["b"].update(enum=["x"]), "enum"),
                         (lambda s: s["properties"]["b"].update(pattern="x"), "pattern")):
        new = json.loads(json.dumps(old))
        assert list(narrower(old, new, "v1")) == []
        change(new)
        assert says in "".join(narrower(old, new, "v1"))


# --- annotations, labels and finalizers ---


@versions
def test_annotation_keys_of_the_previous_version_are_still_in_the_sources(old):
    """A version that stops writing a key must still read it, so each key that the previous version wrote or read is still in the
    sources."""
    before = set((old / "annotations").read_text().split())
    assert len(before) > 20 and before - set(machine.annotations()) == set()
