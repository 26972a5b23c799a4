# SPDX-License-Identifier: Apache-2.0
"""The objects that the agent's device plugins read from the API server and write to it."""
import json

import pytest

import policies
from audit import DEPLOY
from cluster import wait

MAPS = "/api/v1/namespaces/{}/configmaps"
MERGE = "application/merge-patch+json"


@pytest.fixture
def registry(tmp_path):
    """A directory that replaces the kubelet's directory for device plugins: the agent has one socket in it for each resource that it
    serves."""
    path = tmp_path / "registry"
    path.mkdir()
    return path


@pytest.fixture(scope="module", autouse=True)
def permitted(mine, nodes):
    """With UNIRAIL_POLICIES the agent has its DaemonSet's account: as deploy/agent.yaml describes, a RoleBinding lets the account read
    ConfigMaps of namespace t."""
    if not policies.POLICIES:
        return
    rbac, meta = "/apis/rbac.authorization.k8s.io/v1/namespaces/t", {"metadata": {"name": "unirail-agent-devices"}}
    mine.ok("POST", f"{rbac}/roles", {**meta, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]})
    mine.ok("POST", f"{rbac}/rolebindings", {
        **meta, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "unirail-agent-devices"},
        "subjects": [{"kind": "ServiceAccount", "name": "unirail-agent", "namespace": "unirail"}]})


@pytest.fixture
def devices(agent, registry):
    """An agent whose sockets are in `registry`."""
    return lambda *args, **kw: agent(args=("--device-registry-dir", registry, *args), **kw)


def shared(*names):
    return json.dumps({"configList": [{"resourceName": n, "rdmaHcaMax": 4, "selectors": {"ifNames": ["ens1np0"]}} for n in names]})


def sockets(registry):
    return {p.name: p.stat().st_ino for p in registry.iterdir()}


def serves(registry, *names):
    def does():
        assert {n.split(".")[0] for n in sockets(registry)} == set(names), sockets(registry)
        return True
    wait(does, f"the sockets of {names} are in the registry", 20)


def event_messages(mine, part, node="n1"):
    return [e for e in mine.ok("GET", "/api/v1/namespaces/default/events")["items"]
            if e["involvedObject"]["kind"] == "Node" and e["involvedObject"]["name"] == node and part in e["message"]]


def config_map(mine, ns, name, data):
    mine.request("DELETE", f"{MAPS.format(ns)}/{name}")
    mine.config_map(ns, name, data)


def change(mine, ns, name, data):
    mine.ok("PATCH", f"{MAPS.format(ns)}/{name}", {"data": data}, type=MERGE)


def test_resources_follow_their_configmap(mine, devices, registry):
    """A change applies at once, unchanged resources keep their registration; an invalid configuration changes nothing."""
    config_map(mine, "t", "rdma-devices", {"config.json": shared("a", "b")})
    a = devices("--device-configmap", "t/rdma-devices")
    serves(registry, "a", "b")
    unchanged = {n: i for n, i in sockets(registry).items() if n.startswith("a")}
    change(mine, "t", "rdma-devices", {"config.json": shared("a", "c")})
    serves(registry, "a", "c")
    assert unchanged.items() <= sockets(registry).items()
    # On node n1, the ConfigMap's key n1 has precedence over config.json.
    change(mine, "t", "rdma-devices", {"n1": shared("a", "d"), "n2": shared("e")})
    serves(registry, "a", "d")
    change(mine, "t", "rdma-devices", {"n1": "{"})
    wait(lambda: event_messages(mine, "ConfigMap 't/rdma-devices' key 'n1'"), "an event names the ConfigMap's key")
    assert len(a.logged("ConfigMap 't/rdma-devices' key 'n1'")) == 1
    serves(registry, "a", "d")
    change(mine, "t", "rdma-devices", {"n1": shared("a", "f")})
    serves(registry, "a", "f")
    wait(lambda: event_messages(mine, "ConfigMap 't/rdma-devices' is valid and in force"), "an event reports the valid ConfigMap")
    mine.ok("DELETE", f"{MAPS.format('t')}/rdma-devices")
    wait(lambda: event_messages(mine, "ConfigMap 't/rdma-devices' does not exist; the ConfigMap's last valid version stays in force"),
         "an event reports the missing ConfigMap")
    serves(registry, "a", "f")
    assert unchanged.items() <= sockets(registry).items()
    # The next process serves the same resources.
    a.stop()
    devices("--device-configmap", "t/rdma-devices")
    serves(registry, "a", "f")


def test_resources_are_served_while_the_api_server_is_unavailable(mine, devices, registry, tmp_path):
    config_map(mine, "t", "sriovdp-config", {"config.json": shared("a")})
    a = devices("--device-configmap", "t/sriovdp-config")
    serves(registry, "a")
    a.stop()
    for p in registry.iterdir():
        p.unlink()
    conf = policies.agent_config(mine, tmp_path, "n1") if policies.POLICIES else None
    mine.stop_apiserver()
    try:
        devices("--device-configmap", "t/sriovdp-config", ready=False, kubeconfig=conf)
        serves(registry, "a")
    finally:
        mine.start_apiserver()
    change(mine, "t", "sriovdp-config", {"config.json": shared("b")})
    serves(registry, "b")


def test_missing_permission_for_the_configmap_is_reported(mine, devices, registry, tmp_path):
    """The roles of deploy/ permit only the ConfigMaps that they name, and only in namespaces with a RoleBinding."""
    mine.kubectl("apply", "-f", DEPLOY / "agent.yaml")
    config_map(mine, "unirail", "rdma-devices", {"config.json": shared("a")})
    config_map(mine, "unirail", "else", {"config.json": shared("b")})
    config_map(mine, "kube-system", "sriovdp-config", {"config.json": shared("c")})
    mine.namespace("unbound")
    config_map(mine, "unbound", "sriovdp-config", {"config.json": shared("d")})
    (tmp_path / "token").write_text(mine.token("unirail", "unirail-agent"))
    conf = mine.kubeconfig(tmp_path / "conf", {"tokenFile": tmp_path / "token"})
    a = devices("--namespace", "unirail", "--device-configmap", "rdma-devices,else,kube-system/sriovdp-config,unbound/sriovdp-config",
                kubeconfig=conf)
    serves(registry, "a", "c")
    for name in ("unirail/else", "unbound/sriovdp-config"):
        wait(lambda: event_messages(mine, f"may not read ConfigMap '{name}': bind the ClusterRole unirail-agent-devices"),
             "an event reports the missing permission")
        assert len(a.logged(f"may not read ConfigMap '{name}'")) == 1


def test_invalid_configmap_name_is_refused(agent):
    with pytest.raises(AssertionError, match="'A' is invalid, expected"):
        agent(args=("--device-configmap", "A"))


# --- stale extended resources ---


def capacity(mine, **resources):
    """Writes the Node's status as a kubelet does: the whole capacity is allocatable."""
    status = {"capacity": resources, "allocatable": resources}
    mine.ok("PATCH", "/api/v1/nodes/n1/status", {"status": None}, type=MERGE)
    mine.ok("PATCH", "/api/v1/nodes/n1/status", {"status": status}, type=MERGE)


def resources(mine):
    status = mine.ok("GET", "/api/v1/nodes/n1")["status"]
    assert status.get("capacity", {}).keys() == status.get("allocatable", {}).keys()
    return set(status.get("capacity", {}))


def test_stale_resources_are_removed(mine, devices, registry):
    """Resources that unirail served earlier, but no longer serves, are removed when their capacity is 0; those of other plugins stay."""
    config_map(mine, "t", "rdma-devices", {"config.json": shared("a", "b", "c")})
    capacity(mine, **{"rdma/a": "0", "rdma/b": "0", "rdma/c": "4", "rdma/other": "0", "x.io/y": "0"})
    args = ("--device-configmap", "t/rdma-devices", "--device-sweep", "1s")
    a = devices(*args)
    serves(registry, "a", "b", "c")
    wait(lambda: (a.state / "device-resources.json").exists(), "the agent stores its resources")
    change(mine, "t", "rdma-devices", {"config.json": shared("a")})
    serves(registry, "a")
    wait(lambda: resources(mine) == {"rdma/a", "rdma/c", "rdma/other", "x.io/y"}, "resource rdma/b is removed", 40)
    wait(lambda: event_messages(mine, "extended resource 'rdma/b' removed from the Node"), "an event reports the removed resource rdma/b")
    # The capacity of rdma/c becomes 0 while the agent is stopped; its next process removes the resource.
    a.stop()
    capacity(mine, **{"rdma/a": "0", "rdma/c": "0", "rdma/other": "0", "x.io/y": "0"})
    devices(*args)
    wait(lambda: resources(mine) == {"rdma/a", "rdma/other", "x.io/y"}, "resource rdma/c is removed", 40)
    wait(lambda: event_messages(mine, "extended resource 'rdma/c' removed from the Node"), "an event reports the removed resource rdma/c")


def test_stale_resources_with_a_configured_prefix_are_removed(mine, devices, registry):
    config_map(mine, "t", "rdma-devices", {"config.json": shared("a")})
    capacity(mine, **{"rdma/a": "0", "rdma/other": "0", "x.io/y": "0", "z.io/y": "0"})
    devices("--device-configmap", "t/rdma-devices", "--device-sweep", "1s", "--device-sweep-prefixes", "rdma,x.io")
    serves(registry, "a")
    wait(lambda: resources(mine) == {"rdma/a", "z.io/y"}, "stale resources of the prefixes are removed", 60)


def test_missing_permission_for_stale_resources_is_reported(mine, devices, registry, tmp_path):
    """A log line and an event contain the remedy, and the resource stays."""
    capacity(mine, **{"x.io/y": "0"})
    rules = [{"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "configmaps"], "verbs": ["list", "watch"]},
             {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
             {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]
    (tmp_path / "token").write_text(mine.account("t", "few", rules))
    conf = mine.kubeconfig(tmp_path / "conf", {"tokenFile": tmp_path / "token"})
    a = devices("--device-sweep", "1s", "--device-sweep-prefixes", "x.io", kubeconfig=conf, ready=False)
    a.wait_logged("allow the agent to 'get' nodes and to 'patch' nodes/status", 20)
    wait(lambda: event_messages(mine, "allow the agent to 'get' nodes and to 'patch' nodes/status"),
         "an event reports the missing permission")
    assert resources(mine) == {"x.io/y"}
