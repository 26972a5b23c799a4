# SPDX-License-Identifier: Apache-2.0
"""The CNI protocol of every plugin: environment, versions, error objects, bytes of the result."""
import json
import re
import subprocess

import pytest
from lab import BINARY, PLUGINS, REFERENCE, VERSIONS, ns_add, ns_del, ns_path, run

ADDRESSES = [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"}, {"address": "fd00::5/64"}]
ROUTES = [{"dst": "0.0.0.0/0"}, {"dst": "fd01::/48", "gw": "fd00::1"}]
ENV = {"CNI_CONTAINERID": "c1", "CNI_NETNS": "/nonexistent", "CNI_IFNAME": "eth0",
       "CNI_PATH": "/nonexistent"}


def conf(version="1.0.0", kind="static", **more):
    return {"cniVersion": version, "name": "net", "type": kind,
            "ipam": {"type": kind, "addresses": ADDRESSES, "routes": ROUTES}, **more}


def call(plugins, plugin, command, text, drop=(), **env):
    full = {**ENV, **({"CNI_COMMAND": command} if command else {}), **env}
    for k in drop:
        del full[k]
    text = text if isinstance(text, str) else json.dumps(text)
    return subprocess.run([str(plugins / plugin)], input=text, text=True, capture_output=True,
                          env=full, timeout=30)


def error(p, code, msg, details=None):
    assert p.returncode == 1, p
    want = {"code": code, "msg": msg}
    if details is not None:
        want["details"] = details
    assert p.stdout == json.dumps(want, indent=4), p.stdout


def test_every_plugin_is_tested():
    """This file tests every plugin that the binary lists."""
    text = run([BINARY, "help"]).stdout
    named = [line.split()[0] for part in text.split("\n\n") if part.startswith(("CNI plugins", "IPAM plugins"))
             for line in part.splitlines()[1:] if re.match("  [^ ]", line)]
    assert sorted(named) == sorted(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_version_command_of_each_plugin_lists_the_versions_from_0_3_1_to_1_1_0(plugins, plugin):
    p = call(plugins, plugin, "VERSION", "")
    supported = json.loads(p.stdout)["supportedVersions"]
    assert p.returncode == 0
    assert p.stdout == '{"cniVersion":"1.1.0","supportedVersions":' + json.dumps(
        supported, separators=(",", ":")) + "}\n"
    assert set(supported) >= {"0.3.1", "0.4.0", "1.0.0", "1.1.0"}


@pytest.mark.parametrize("plugin", ["macvlan", "static", "host-local", "coordinator"])
def test_macvlan_static_host_local_and_coordinator_support_every_cni_version(plugins, plugin):
    assert json.loads(call(plugins, plugin, "VERSION", "").stdout)["supportedVersions"] == VERSIONS


def test_version_does_not_read_stdin(plugins):
    """A runtime may leave stdin open: the plugin must answer without reading it."""
    p = subprocess.Popen([str(plugins / "static")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={**ENV, "CNI_COMMAND": "VERSION"})
    try:
        assert p.stdout.readline().startswith(b"{")
        assert p.wait(timeout=5) == 0
    finally:
        p.kill()
        p.communicate()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugin_without_cni_command_prints_its_name_and_cni_versions(plugins, plugin):
    p = call(plugins, plugin, None, "")
    lines = p.stderr.splitlines()
    assert p.returncode == 0 and p.stdout == "" and len(lines) == 2, p
    assert lines[0].startswith(f"CNI {plugin} plugin ")
    assert lines[1].startswith("CNI protocol versions supported: ") and "1.1.0" in lines[1]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_error_names_all_missing_variables(plugins, plugin):
    error(call(plugins, plugin, "ADD", conf(kind=plugin), drop=ENV), 4,
          "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing")


@pytest.mark.parametrize("env,msg,details", [
    ({"CNI_CONTAINERID": "../c"}, "invalid characters in containerID", "../c"),
    ({"CNI_IFNAME": "sixteen-bytes-xx"}, "interface name is too long",
     "interface name should be less than 16 characters"),
    ({"CNI_IFNAME": ".."}, "interface name is . or ..", None),
    ({"CNI_IFNAME": "a/b"}, "interface name contains / or : or whitespace characters", None),
])
def test_invalid_variables_are_refused(plugins, env, msg, details):
    error(call(plugins, "static", "ADD", conf(), **env), 4, msg, details)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_unknown_command_is_refused(plugins, plugin):
    error(call(plugins, plugin, "FOO", conf(kind=plugin)), 4, "unknown CNI_COMMAND: FOO")


@pytest.mark.parametrize("plugin", PLUGINS)
def test_unknown_version_is_refused(plugins, plugin):
    p = call(plugins, plugin, "ADD", conf("9.0.0", plugin))
    assert p.returncode == 1
    e = json.loads(p.stdout)
    assert (e["code"], e["msg"]) == (1, "incompatible CNI versions")
    supported = json.loads(call(plugins, plugin, "VERSION", "").stdout)["supportedVersions"]
    assert e["details"] == 'config is "9.0.0", plugin supports [' + " ".join(f'"{v}"' for v in supported) + "]"


@pytest.mark.parametrize("command,version", [
    ("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0")])
@pytest.mark.parametrize("plugin", PLUGINS)
def test_command_unknown_in_the_version_is_refused(plugins, plugin, command, version):
    error(call(plugins, plugin, command, conf(version, plugin)), 1,
          f"config version does not allow {command}")


@pytest.mark.parametrize("text,code,contains", [
    ("", 6, ""), ("{", 6, ""), ('{"name":"n"} x', 6, ""), ("[]", 6, ""),
    ('{"cniVersion":"1.0.0"}', 7, "missing network name"),
    ('{"cniVersion":"1.0.0","name":"a b"}', 7, "invalid characters found in network name"),
    ("[" * 200000, 6, ""), ('{"name":"n\\u0000"}', None, ""),
])
@pytest.mark.parametrize("plugin", PLUGINS)
def test_invalid_stdin_is_refused(plugins, plugin, text, code, contains):
    p = call(plugins, plugin, "ADD", text)
    assert p.returncode == 1 and p.stderr.count("\n") <= 1, p
    e = json.loads(p.stdout)
    assert contains in e["msg"] and "\n" not in e["msg"]
    if code:
        assert e["code"] == code, e


def test_configuration_without_version_has_version_0_1_0(plugins):
    c = conf()
    del c["cniVersion"]
    p = call(plugins, "static", "ADD", c)
    assert json.loads(p.stdout)["cniVersion"] == "0.1.0" and "ip4" in json.loads(p.stdout)


GOLDEN = {
    "0.2.0": {"cniVersion": "0.2.0",
              "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1", "routes": [{"dst": "0.0.0.0/0"}]},
              "ip6": {"ip": "fd00::5/64", "routes": [{"dst": "fd01::/48", "gw": "fd00::1"}]}, "dns": {}},
    "0.4.0": {"cniVersion": "0.4.0",
              "ips": [{"version": "4", "address": "10.1.2.3/24", "gateway": "10.1.2.1"},
                      {"version": "6", "address": "fd00::5/64"}],
              "routes": [{"dst": "0.0.0.0/0"},
                         {"dst": "fd01::/48", "gw": "fd00::1", "mtu": 1400, "table": 0}], "dns": {}},
    "1.0.0": {"cniVersion": "1.0.0",
              "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"}, {"address": "fd00::5/64"}],
              "routes": [{"dst": "0.0.0.0/0"},
                         {"dst": "fd01::/48", "gw": "fd00::1", "mtu": 1400, "table": 0}]},
}


@pytest.mark.parametrize("version", GOLDEN)
def test_result_has_the_recorded_bytes(plugins, version):
    """GOLDEN was recorded from the current original, which is newer than Debian's plugin."""
    c = conf(version)
    c["ipam"]["routes"] = [ROUTES[0], {**ROUTES[1], "mtu": 1400, "table": 0}]
    assert call(plugins, "static", "ADD", c).stdout == json.dumps(GOLDEN[version], indent=4)


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_result_equals_debians(plugins, version):
    c = conf(version)
    candidate, reference = (call(where, "static", "ADD", c).stdout for where in (plugins, REFERENCE))
    # Debian's older encoder prints a result of version 1.0.0 in the order of Go's struct and with an empty dns; newer originals do not.
    if version == "1.0.0":
        reference = json.loads(reference)
        reference.pop("dns")
        assert json.loads(candidate) == reference
    else:
        assert candidate == reference


def test_cni_netns_that_is_the_plugins_own_namespace_is_refused(plugins):
    """The original creates the attachment, fails afterwards, and does not delete it."""
    ns = ns_add("own")
    try:
        p = run([plugins / "static"], ns=ns, check=False, input=json.dumps(conf()),
                env={**ENV, "CNI_COMMAND": "ADD", "CNI_NETNS": ns_path(ns)})
        error(p, 8, "plugin's netns and netns from CNI_NETNS should not be the same")
    finally:
        ns_del(ns)


def test_cni_netns_override_permits_the_plugins_own_namespace(plugins):
    ns = ns_add("own")
    try:
        run([plugins / "static"], ns=ns, input=json.dumps(conf()),
            env={**ENV, "CNI_COMMAND": "ADD", "CNI_NETNS": ns_path(ns), "CNI_NETNS_OVERRIDE": "1"})
    finally:
        ns_del(ns)


@pytest.mark.parametrize("args,code,contains", [
    ("IP=10.1.2.9/24;", 4, "invalid pair"),
    ("FOO=1", 4, "FOO=1"),
    ("IgnoreUnknown=maybe", 4, "boolean"),
    ("IP=10.1.2.9", None, "CIDR notation"),
])
def test_invalid_cni_args_are_refused(plugins, args, code, contains):
    p = call(plugins, "static", "ADD", conf(), CNI_ARGS=args)
    assert p.returncode == 1
    e = json.loads(p.stdout)
    assert contains in e["msg"], e
    if code:
        assert e["code"] in (code, 999), e


def test_unknown_applet_is_refused():
    p = subprocess.run(["frobnicate"], executable=str(BINARY), capture_output=True, text=True)
    assert p.returncode == 127 and p.stderr.count("\n") == 1 and "frobnicate" in p.stderr
