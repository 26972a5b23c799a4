# SPDX-License-Identifier: Apache-2.0
"""The generated reference (unirail help PLUGIN, netconf, settings and metrics), and the paths, modules and commands that the READMEs
name."""

import json
import pathlib
import re
import subprocess

import pytest

from lab import BINARY

ROOT = pathlib.Path(__file__).parents[2]
WRONG = {"STRING": {"x": 1}, "BOOL": "x", "NUMBER": "x", "STRINGS": 7, "OBJECT": 7, "OBJECTS": 7, "ADDRESS": 7,
         "SUBNET": 7, "MAC": 7}
# BASE: the minimal netconf with which a plugin reads further keys. LISTS: the keys that hold lists of objects, with the number of nested
# lists.
BASE = {"unirail-cni": {"networks": [{"name": "a", "type": "macvlan"}]}, "ifacer": {"interfaces": ["eth0"]},
        "spiderpool": {"ipam": {}}, "whereabouts": {"ipam": {"type": "whereabouts", "range": "10.0.0.0/24"}}}
LISTS = {"networks": 1, "policyRoutes": 1, "ipam.ranges": 2, "ipam.ipRanges": 1, "ipam.addresses": 1}
# Keys that unirail-cni reads only with an agent; the keys are tested with `multus`, which has the same keys.
AGENT = ("agent", "clusterNetwork", "defaultNetworks", "systemNamespaces", "multusNamespace", "namespaceIsolation",
         "globalNamespaces", "confDir", "readinessindicatorfile", "kubeconfig", "logFile", "logLevel",
         "auxiliaryCNIChainName", "chrootDir")


def text(*args):
    p = subprocess.run([BINARY, *args], capture_output=True, text=True)
    assert p.returncode == 0 and p.stderr == ""
    return p.stdout


def plugins():
    return re.findall(r"^  (\S+)", text("help", "netconf").split("\nplugins:\n")[1], re.M)


def keys(plugin):
    part = text("help", plugin).split("keys of the netconf:\n", 1)[1]
    return re.findall(r"^  (\S+) ([A-Z]+)(?:  |$)", part, re.M)


def netconf(plugin, key, value):
    conf = {"cniVersion": "1.1.0", "name": "n", "type": plugin} | json.loads(json.dumps(BASE.get(plugin, {})))
    at, parts = conf, key.split(".")
    for i, part in enumerate(parts[:-1]):
        depth = LISTS.get(".".join(parts[:i + 1]), 0)
        at = at.setdefault(part, {} if not depth else [{}] if depth == 1 else [[{}]])
        for _ in range(depth):
            at = at[0]
    at[parts[-1]] = value
    return conf


def test_every_plugin_is_listed():
    assert len(plugins()) == 20 and "macvlan" in plugins() and "whereabouts" in plugins()
    rows = re.findall(r'(?m)^\t\{"([\w-]+)",(?:[^{}"]|"[^"]*")*?\b(?:PLUGIN|IPAM),', (ROOT / "src/main.c").read_text())
    assert sorted(rows) == sorted(plugins())


@pytest.mark.parametrize("plugin", plugins())
def test_each_key_of_the_list_is_read(plugin):
    """A value of a wrong type is an error that names the key; a key that is not read would be ignored."""
    listed = keys(plugin)
    assert listed or plugin == "loopback"
    for key, kind in listed:
        # this test calls STATUS, which does not read dns, and in spiderpool and whereabouts neither runtimeConfig nor args
        if kind not in WRONG or key.startswith("dns.") or (
                plugin in ("spiderpool", "whereabouts") and not key.startswith("ipam.")) or (
                plugin == "unirail-cni" and key in AGENT + ("multusCniDir",)):
            continue
        env = {"CNI_COMMAND": "STATUS", "CNI_PATH": "/nowhere"}
        p = subprocess.run(["unshare", "-n", BINARY, plugin], input=json.dumps(netconf(plugin, key, WRONG[kind])),
                           capture_output=True, text=True, env=env)
        assert p.returncode == 1 and key.split(".")[-1] in json.loads(p.stdout)["msg"], (key, p.stdout, p.stderr)


def test_each_key_that_a_plugin_reads_is_listed():
    """Keys that a plugin reads with json_get() instead of its table of keys are in a table as well."""
    known = {part for p in plugins() for key, _ in keys(p) for part in key.split(".")}
    known |= set(re.findall(r"^  (\S+) [A-Z]", text("help", "netconf"), re.M)) | {"runtimeConfig", "args", "cni"}
    read = {}
    for path in [*(ROOT / "src/cni").rglob("*.c")]:
        for key in re.findall(r'json_get(?:_go)?\((?:\w+->)*conf, "([^"]+)"\)', path.read_text()):
            read[key] = path
    assert len(read) > 8 and "logLevel" in read
    assert {k: str(v) for k, v in read.items() if k not in known} == {}


def test_each_settings_topic_is_printed():
    assert "state-dir DIR" in text("help", "settings", "agent") and "webhook-port" not in text("help", "settings", "agent")
    assert "webhook-port" in text("help", "settings", "controller") and "socket PATH" in text("help", "settings", "ipam")
    out = text("help", "settings")
    assert "state-dir DIR" in out and "webhook-port PORT" in out
    p = subprocess.run([BINARY, "help", "settings", "agnet"], capture_output=True, text=True)
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and "agent, controller or ipam" in p.stderr


def test_help_metrics_lists_every_total_and_seconds_metric_of_the_source():
    out = text("help", "metrics")
    agent, controller = out.split("metrics of unirail controller:")
    assert "unirail_blocks gauge" in agent and "unirail_controller_leader gauge" in controller
    assert "spiderpool_ipam_allocation_max_limit_duration_seconds gauge" in agent
    names = re.findall(r"^  (\w+) (?:counter|gauge|histogram)", out, re.M)
    assert names and len(set(names)) >= 80 and "Those that" not in out
    for path in [*(ROOT / "src/agent").rglob("*.c"), *(ROOT / "src/controller").rglob("*.c")]:
        for name in re.findall(r'"((?:unirail|spiderpool)_\w+_(?:total|seconds))"', path.read_text()):
            assert name in names, path


@pytest.mark.parametrize("topic", ["netconf", "settings", "metrics"])
def test_topics_fit_80_columns_and_have_a_man_page(topic, tmp_path):
    assert max(len(k) for k in text("help", topic).splitlines()) <= 80
    assert text("man", topic).startswith('.\\" made by')
    text("man", "--all", tmp_path)
    assert (tmp_path / f"unirail-{topic}.1").read_text() == text("man", topic)
    assert "mode" in (tmp_path / "unirail-macvlan.1").read_text()


def test_paths_named_by_the_source_page_exist():
    """Each path that src/README.md names after the heading 'Three paths' exists; each function that the page names behind a path, on the
    same line, is in that file."""
    page = (ROOT / "src/README.md").read_text().split("## Three paths")[1]
    found = 0
    for line in page.splitlines():
        path = None
        for word in re.findall(r"`([\w/.]+(?:\(\))?)`", line):
            if word.endswith((".c", ".h", ".py", ".yaml")) and "/" in word and "NAME" not in word or word == "main.c":
                path = ROOT / ("" if word.startswith(("tests/", "deploy/")) else "src") / word
                assert path.exists(), word
            elif word.endswith("()") and path:
                assert re.search(rf"(?m)^[a-z].*\b{word[:-2]}\(", path.read_text()), (word, path)
                found += 1
    assert found > 40


def test_each_module_is_on_the_page_of_its_directory():
    """A page names each source file of its directory, and no module that does not exist."""
    for page in (ROOT / "src").rglob("README.md"):
        here, lines = page.parent, page.read_text()
        for source in here.glob("*.c"):
            if here != ROOT / "src" and not source.name.endswith(".pb.c"):
                assert re.search(rf"`[^`\n]*\b{source.stem}\b[^`\n]*`", lines), (page, source.stem)
        for row in re.findall(r"(?m)^(?:- |\| )((?:`\w+`(?:, )?)+)(?:: | \| )", lines.split("## ")[0]):
            for name in re.findall(r"\w+", row):
                assert (here / name).is_dir() or any((here / f"{name}.{x}").exists() for x in "ch"), (page, name)


def test_commands_of_the_pages_are_known():
    """unirail has each command and option in the indented blocks of README.md and deploy/README.md."""
    seen = set()
    for page in ("README.md", "deploy/README.md"):
        for line in re.findall(r"(?m)^    (?:\$ )?((?:build/)?unirail .*)$", (ROOT / page).read_text()):
            args = line.split(" #")[0].split("  ")[0].split()[1:]
            names = [w for w in args[:2] if re.fullmatch(r"[a-z][a-z0-9-]*", w) and not w.startswith("-")]
            p = subprocess.run([BINARY, *names, "--help"], capture_output=True, text=True)
            if p.returncode != 0 and len(names) == 2:  # names[1] is an operand, not a command
                p = subprocess.run([BINARY, names[0], "--help"], capture_output=True, text=True)
            assert p.returncode == 0, line
            for option in [w for w in args if w.startswith("--")]:
                assert option in p.stdout or option == "--help", line
            seen.add(names[0])
    assert len(seen) >= 7
