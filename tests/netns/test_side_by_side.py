# SPDX-License-Identifier: Apache-2.0
"""Runs every configuration of the table in side_by_side.py once with Debian's plugins and once with unirail's: the same environment,
stdin and namespaces, each time in a new setup with the same names. Results, kernel state and files must be equal, except for the
differences in the table; and each difference in a case's `differs` must occur in that case, each in EVERYWHERE in at least one case."""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import textwrap

import pytest
import side_by_side_links  # noqa: F401 (the import adds its rows to CASES)
from lab import BINARY, PREFIX, REFERENCE, enter, ns_del, run
from side_by_side import CASES, EVERYWHERE, POD_DIR, WORK_DIR, Code

TYPES = ["macvlan", "host-local", "static", "tuning", "sbr", "loopback", "host-device"]
LINK_NUMBERS = ("ifindex", "link_index", "operstate")
MOMENTS = ("tentative", "optimistic", "LOWER_UP", "NO-CARRIER")
SHOW = r"""printf 'addr show\nroute show table all\nrule show\n' | ip -d -j -batch -; echo ---
printf 'route show table all\nrule show\n' | ip -6 -d -j -batch -; echo ---
cd /proc/sys/net; grep -s . ipv4/conf/*/* ipv6/conf/*/* core/somaxconn ipv4/ip_forward"""
RANDOM_MAC = re.compile(r"(?!02:00:00|00:00:00|ff:ff:ff)([0-9a-f]{2}:){5}[0-9a-f]{2}")


@pytest.fixture(scope="module")
def candidate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidate")
    for kind in TYPES:
        (folder / kind).symlink_to(BINARY)
    return folder


@pytest.fixture(scope="module")
def sides(candidate):
    return {"reference": REFERENCE, "candidate": candidate}


class Sandbox:
    """A node with rail0, whose veth peer is sw0, and a pod; no fabric."""

    def __init__(self, case, tmp):
        self.case, self.tmp = case, tmp
        self.node, self.pod = (f"{PREFIX}{os.getpid()}-side-{n}" for n in ("node", "pod"))
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir()
        for name, text in case.files.items():
            (tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp / name).write_bytes(text.encode())

    def __enter__(self):
        if self.case.namespaces:
            self.make(self.node, [
                "link add rail0 mtu 9000 address 02:00:00:00:00:10 type veth"
                " peer name sw0 mtu 9000 address 02:00:00:00:00:11",
                "link set rail0 up", "link set sw0 up", *self.case.node])
            self.make(self.pod, self.case.pod)
        return self

    def __exit__(self, *reason):
        if self.case.namespaces:
            for ns in (self.node, self.pod):
                ns_del(ns)

    def make(self, ns, lines):
        key, value = ("accept_dad", 0) if self.case.v6 else ("disable_ipv6", 1)
        ns_del(ns) if os.path.exists(f"/run/netns/{ns}") else None
        run(["ip", "netns", "add", ns])
        script = "".join(f"echo {value} >/proc/sys/net/ipv6/conf/{w}/{key}\n" for w in ("all", "default"))
        script += "exec ip -batch -"
        run(["sh", "-c", script], ns=ns, input="\n".join(["link set lo up", *lines]) + "\n")

    # calls

    def fill(self, text):
        return text.replace(WORK_DIR, str(self.tmp)).replace(POD_DIR, f"/run/netns/{self.pod}")

    def call(self, step, plugins, prev):
        conf = step.conf
        if isinstance(conf, dict) and step.prev and prev is not None:
            conf = {**conf, "prevResult": prev}
        text = self.fill(conf if isinstance(conf, str) else json.dumps(conf))
        env = {"CNI_COMMAND": step.verb, "CNI_CONTAINERID": "c1", "CNI_NETNS": POD_DIR,
               "CNI_IFNAME": "net1", "CNI_PATH": str(plugins), "PATH": os.environ["PATH"], **step.env}
        env = {k: self.fill(v) for k, v in env.items() if v is not None}
        return subprocess.run([str(plugins / step.plugin)], input=text, text=True, capture_output=True,
                              env=env, timeout=60,
                              preexec_fn=enter(self.node) if self.case.namespaces else None)

    # observed state

    def snapshot(self, when):
        seen = self.tree()
        for role, ns in (("pod", self.pod), ("node", self.node)) if self.case.namespaces else ():
            seen.update({f"{role}.{k}": v for k, v in namespace(ns).items()})
        return {f"{when}.{k}": str(v) for k, v in seen.items()}

    def tree(self):
        seen = {}
        for path in sorted(self.tmp.rglob("*")):
            name = str(path.relative_to(self.tmp))
            seen[f"mode.{name}"] = oct(path.stat().st_mode & 0o7777)
            seen[f"file.{name}"] = "folder" if path.is_dir() else hide(repr(path.read_bytes()))
        return seen


def documents(text):
    """Returns the JSON arrays that the text has one after another."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def namespace(ns):
    """The state of a namespace as single values: {"link.net1.mtu": "1500", "sysctl.ipv4/conf/net1/arp_notify": "1"}."""
    p = run(["sh", "-c", SHOW], ns=ns, check=False)
    v4, v6, sysctls = (part.strip() for part in p.stdout.split("---"))
    (links, routes4, rules4), (routes6, rules6) = documents(v4), documents(v6)
    seen = dict(link_items(links))
    seen["routes"] = lines(sorted(routes4 + routes6, key=lambda r: json.dumps(r, sort_keys=True)))
    seen["rules"] = lines(rules4 + rules6)
    for line in sysctls.splitlines():
        key, _, value = line.partition(":")
        seen[f"sysctl.{key}"] = value
    return seen


def lines(items):
    return hide("\n".join(json.dumps(i, sort_keys=True) for i in items))


def hide(text):
    """Replaces MACs and link-local addresses that are random in each run."""
    return RANDOM_MAC.sub("RANDOM", re.sub(r"fe80::[0-9a-f:]+(?!/)", "fe80::X", text))


def link_items(links):
    for k in links:
        name = k["ifname"]
        addresses = [{key: v for key, v in a.items() if key not in MOMENTS} for a in k.pop("addr_info", [])]
        yield f"link.{name}.addresses", lines(addresses)
        k["flags"] = [f for f in k["flags"] if f not in MOMENTS]
        for key in set(k) - set(LINK_NUMBERS):
            yield f"link.{name}.{key}", hide(json.dumps(k[key], sort_keys=True))


# --- one side ---


def walk(case, side, plugins, tmp):
    """All observed values, by name."""
    seen, prev = {}, None
    with Sandbox(case, tmp) as sandbox:
        for i, step in enumerate(case.steps):
            if step.verb == "DEL" and not any(k.startswith("added.") for k in seen):
                seen.update(sandbox.snapshot("added"))
            p = sandbox.call(step, plugins, prev)
            out = p.stdout.replace(str(plugins), "CNI_PATH")
            out = as_current(out) if side == "reference" else out
            seen.update(answer(f"{i}.{step.verb}", step, p, out))
            if step.verb == "ADD" and p.returncode == 0 and p.stdout:
                prev = json.loads(p.stdout)
        seen.update(sandbox.snapshot("end"))
    return seen


def as_current(text):
    """Converts a result of Debian's plugins (1.1.1) to the form of the current originals and of unirail: sorted keys, no empty
    dns. Only results of version 1.0.0 differ."""
    try:
        result = json.loads(text)
    except ValueError:
        return text
    if result.get("cniVersion") != "1.0.0" or "supportedVersions" in result:
        return text
    if not result.get("dns"):
        result.pop("dns", None)
    return json.dumps(result, indent=4, sort_keys=True)


def answer(key, step, p, out):
    seen = {f"{key}.status": str(p.returncode)}
    if p.returncode == 0:
        seen[f"{key}.stdout"] = RANDOM_MAC.sub("RANDOM", out)
        return seen
    try:
        error = json.loads(out)
    except ValueError:
        return {**seen, f"{key}.stdout": out or p.stderr[:400]}
    text = error["msg"] + " " + error.get("details", "")
    return {**seen, f"{key}.code": str(error["code"]), f"{key}.msg": text}


# --- the comparison ---

met = set()  # rows of EVERYWHERE whose difference occurred
compared = set()


def differences(reference, candidate):
    keys = [k for k in {**reference, **candidate} if not k.endswith(".msg")]
    return {k: (reference.get(k), candidate.get(k)) for k in keys if reference.get(k) != candidate.get(k)}


def show(key, pair):
    a, b = ((text or "(nothing)").splitlines() for text in pair)
    text = "\n".join([f"- {s}" for s in a if s not in b] + [f"+ {s}" for s in b if s not in a])
    return f"{key}: - Debian's plugin, + unirail's\n" + textwrap.indent(text or "order", "  ")


def unexplained(case, found):
    """Lists the differences that no row explains, and the rows of case.differs whose difference did not occur."""
    problems, used = [], set()
    for key, pair in found.items():
        met.update(p for p in EVERYWHERE if fnmatch.fnmatchcase(key, p))
        row = next((p for p in [*case.differs, *case.chance, *EVERYWHERE] if fnmatch.fnmatchcase(key, p)), None)
        reason = case.differs.get(row)
        used.add(row)
        if row is None or (isinstance(reason, Code) and pair != (str(reason.reference), str(reason.candidate))):
            problems.append(show(key, pair))
    problems += [f"row '{row}' expects a difference that did not occur" for row in case.differs if row not in used]
    return problems


def wrong_messages(case, seen, side):
    for i, step in enumerate(case.steps):
        failed = seen[f"{i}.{step.verb}.status"] != "0"
        explained = any(fnmatch.fnmatchcase(f"{i}.{step.verb}.status", p) for p in case.differs)
        if failed != step.fails and not explained:
            yield f"{side}: {step.verb} {'failed' if failed else 'did not fail'}: {seen}"
        for word in step.contains if failed and step.fails else ():
            text = seen.get(f"{i}.{step.verb}.msg", "")
            if word.lower() not in text.lower():
                yield f"{side}: '{word}' is not in: {text}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_unirail_equals_debians_plugins(case, sides, tmp_path):
    compared.add(case.id)
    seen = {side: walk(case, side, folder, tmp_path / "work") for side, folder in sides.items()}
    problems = [w for side in sides for w in wrong_messages(case, seen[side], side)]
    problems += unexplained(case, differences(seen["reference"], seen["candidate"]))
    msgs = {side: {k: v for k, v in s.items() if k.endswith(".msg")} for side, s in seen.items()}
    assert not problems, "\n".join(problems) + f"\nerrors: {msgs}"


def test_cases_have_unique_names_and_reasons():
    """Every case has a unique name, and every difference a reason."""
    ids = [c.id for c in CASES]
    assert len(set(ids)) == len(ids) >= 100
    for c in CASES:
        assert all(len(w.reason if isinstance(w, Code) else w) > 15 for w in c.differs.values()), c.id


def test_common_differences_still_occur():
    """A row of EVERYWHERE whose difference occurs in no case must be removed."""
    assert compared != {c.id for c in CASES} or met == set(EVERYWHERE)
