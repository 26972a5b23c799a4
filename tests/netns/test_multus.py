# SPDX-License-Identifier: Apache-2.0
"""`multus` and `unirail-cni` with an agent that provides the networks: the pod's state equals that with a configuration of
unirail-cni that names these networks."""
import json
import threading
import time

import pytest
from lab import (REFERENCE, addresses, age, filled, has_address, link, link_names, ping, routes, run, same, same_shape,
                 small_disk, state)
from report import wait
from multus_lab import Multus
from pod_agent import agent  # noqa: F401


def conf(lab, server, type="multus", **more):
    return {"cniVersion": "1.0.0", "name": "multus-cni-network", "type": type, "agent": str(server.path),
            "cniDir": str(lab.tmp / "multus"), "confDir": str(lab.tmp / "net.d"), "binDir": str(REFERENCE), **more}


def rail(lab, nic, *more, **keys):
    """A definition as Spiderpool's controller writes it."""
    return {"cniVersion": "0.3.1", "name": nic, "plugins": [
        {"type": "macvlan", "master": nic, "mode": "bridge", "mtu": 0,
         "ipam": {"type": "spiderpool", "default_ipv4_ippool": [nic]}, **keys},
        {"txQueueLen": 0, "tunePodRoutes": True, "mode": "auto", "type": "coordinator"}, *more]}


def podnet(lab):
    return {"cniVersion": "1.0.0", "name": "podnet", "plugins": [
        {"type": "bridge", "bridge": "cbr0", "isGateway": True,
         "ipam": {"type": "host-local", "dataDir": str(lab.tmp / "networks"),
                  "ranges": [[{"subnet": "10.233.70.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}


def two_rails(lab, agent, **more):
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/rail0", "net1", rail(lab, "rail0")),
                   ("team/rail1", "net2", rail(lab, "rail1")), **more)


def reported_names(agent, n):
    """The names of the networks in the n-th status report, which arrives after ADD returns."""
    wait(lambda: len(agent.reports) >= n, f"the agent receives {n} reports")
    return [s["name"] for s in json.loads(agent.reports[n - 1]["networkStatus"])]


def cache_entries(lab):
    """Names of the files of the pods' cache entries, without the files below unirail/, which are records of networks."""
    top = lab.tmp / "multus"
    return sorted(p.name for p in top.rglob("*") if p.is_file() and p.relative_to(top).parts[0] != "unirail")


def check_removed(lab, pod):
    assert link_names(pod.ns) == ["lo"] and pod.host_veth not in link_names(lab.node)
    assert lab.used() == {} and cache_entries(lab) == []
    assert not list((lab.tmp / "networks" / "podnet").glob("10.*"))


@pytest.mark.parametrize("type", ["multus", "unirail-cni"])
def test_networks_of_the_agent_are_attached(lab, agent, type):
    two_rails(lab, agent, coordinator={"hijackCIDR": ["10.96.0.0/12"], "mode": "underlay", "podMACPrefix": ""})
    pod, c = lab.pod(), conf(lab, agent, type, clusterNetwork="podnet", defaultNetworks=["more"],
                             namespaceIsolation=True, globalNamespaces="infra", systemNamespaces=["a", "b"])
    result = lab.add(c, pod, ifname="eth0")
    assert agent.requests == [{
        "containerID": pod.id, "podNamespace": "team", "podName": "pod", "podUID": "uid-pod", "ifName": "eth0",
        "netconfNetworks": 0, "clusterNetwork": "podnet", "defaultNetworks": ["more"], "systemNamespaces": ["a", "b"],
        "namespaceIsolation": True, "globalNamespaces": "infra", "multusNamespace": "kube-system"}]
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1", "net2"]
    assert has_address(pod.ns, "net1", "172.16.1.10/24") and has_address(pod.ns, "net2", "172.16.2.10/24")
    assert ping(pod.ns, "net1", "172.16.1.1") and ping(pod.ns, "eth0", "10.233.70.1")
    assert "default via 172.16.1.1 dev net1" in routes(pod.ns, 101)
    assert any(r.startswith("10.96.0.0/12") for r in routes(pod.ns, "main")), "the coordinator uses hijackCIDR of the agent's answer"
    names = {i["name"] for i in result["interfaces"] if i.get("sandbox")}
    assert names == ({"eth0"} if type == "multus" else {"eth0", "net1", "net2"})
    assert [(r["nad"], r["network"]) for r in agent.planned[0]["rails"]] == [("team/rail0", "rail0"), ("team/rail1", "rail1")]
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0")
    agent.stop()
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0")
    check_removed(lab, pod)
    lab.delete(c, pod, ifname="eth0")


def test_multus_reports_the_pods_network_status_to_the_agent(lab, agent):
    two_rails(lab, agent)
    pod = lab.pod()
    lab.add(conf(lab, agent, clusterNetwork="podnet"), pod, ifname="eth0")
    wait(lambda: agent.reports, "the agent receives a report")
    reports, = agent.reports
    assert {k: reports[k] for k in ("containerID", "podNamespace", "podName", "podUID")} == {
        "containerID": pod.id, "podNamespace": "team", "podName": "pod", "podUID": "uid-pod"}
    mac = {d: link(pod.ns, d)["address"] for d in ("eth0", "net1", "net2")}
    assert reports["networkStatus"] == f"""[{{
    "name": "kube-system/podnet",
    "interface": "eth0",
    "ips": [
        "10.233.70.2"
    ],
    "mac": "{mac["eth0"]}",
    "default": true,
    "dns": {{}},
    "gateway": [
        "\\u003cnil\\u003e"
    ]
}},{{
    "name": "team/rail0",
    "interface": "net1",
    "ips": [
        "172.16.1.10"
    ],
    "mac": "{mac["net1"]}",
    "dns": {{}},
    "gateway": [
        "172.16.1.1"
    ]
}},{{
    "name": "team/rail1",
    "interface": "net2",
    "ips": [
        "172.16.2.10"
    ],
    "mac": "{mac["net2"]}",
    "dns": {{}},
    "gateway": [
        "172.16.2.1"
    ]
}}]"""
    assert reports["message"] == ("Add eth0 [10.233.70.2/24] from kube-system/podnet, net1 [172.16.1.10/24] from team/rail0, "
                               "net2 [172.16.2.10/24] from team/rail1")


def test_requested_networks_create_the_same_state_as_configured_ones(lab, agent):
    """Networks that the agent returns and networks that the configuration names leave the same kernel state."""
    seen = []
    for way in ("asked", "written"):
        pod = lab.pod(way)
        if way == "asked":
            two_rails(lab, agent)
            c = conf(lab, agent, clusterNetwork="podnet")
        else:
            nets = [podnet(lab), rail(lab, "rail0"), rail(lab, "rail1")]
            for n in nets[1:]:
                n["plugins"][0]["ipam"]["ipam_unix_socket_path"] = str(agent.path)
            c = lab.rails(nets, "1.0.0", binDir=str(REFERENCE))
        result = lab.add(c, pod, ifname="eth0")
        cut = [(pod.host_veth, "VETH"), (pod.ns, "POD"), (pod.id, "ID")]
        for a in addresses(pod.ns):
            cut += [(f'"{a["address"]}"', f'"IP-{a["dev"]}"'), (f'"{a["address"].split("/")[0]}"', f'"IP-{a["dev"]}"')]
        seen.append(same_shape(pod.state(), *cut))
        lab.delete({**c, "prevResult": result}, pod, ifname="eth0")
    for text in ("172.16.1.1", "172.16.2.1", "10.233.70.", "IP-net2"):
        assert text in seen[0]
    same(*seen, "the pod")


def test_definition_without_configuration_uses_a_file(lab, agent):
    """A definition without spec.config refers to a CNI configuration file. The definition of a cluster's default network often has no
    spec.config."""
    folder = lab.tmp / "net.d"
    folder.mkdir()
    (folder / "00-multus.conf").write_text(json.dumps({**conf(lab, agent), "name": "podnet"}))
    (folder / "05-broken.conf").write_text("{")
    (folder / "10-podnet.conflist").write_text(json.dumps(podnet(lab)))
    (folder / "20-rail.conf").write_text(json.dumps({**rail(lab, "rail0")["plugins"][0], "name": "rail0"}))
    agent.answer = {"networks": [{"name": "podnet"}, {"nad": "team/rail0", "name": "rail0", "ifname": "rdma0"}],
                    "stateDir": str(lab.state_dir)}
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0")
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "rdma0"]
    assert reported_names(agent, 1) == ["podnet", "team/rail0"]
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)
    agent.answer["networks"][0]["name"] = "nope"
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=["network 'nope'", str(folder)])
    agent.answer["networks"] = []
    c["clusterNetwork"] = str(folder)
    lab.add(c, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo", "eth0"] or sorted(link_names(pod.ns)) == ["eth0", "lo"]
    assert agent.requests[-1]["netconfNetworks"] == 1
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)


def test_requests_of_a_pod_reach_the_plugins(lab, agent):
    """The MAC, addresses, default route, cni-args and device that a pod requests are written to the keys that each plugin reads."""
    seen = lab.tmp / "seen.json"
    spy = lab.tmp / "bin" / "spy"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\ntest "$CNI_COMMAND" = ADD || exit 0\ncat >{seen}\necho "$CNI_ARGS" >{seen}.args\n'
                   f'python3 -c \'import json,sys; print(json.dumps(json.load(open("{seen}"))["prevResult"]))\'\n')
    spy.chmod(0o755)
    requests = {"mac": "02:00:5e:10:00:09", "ips": ["172.16.1.77"], "defaultRoute": ["172.16.1.1"],
            "cniArgs": {"k": "new"}, "deviceID": "0000:3b:02.1", "resource": "x/vf", "bandwidth": {"ingressRate": 1}}
    net = rail(lab, "rail0", {"type": "spy", "args": {"other": 1, "cni": {"k": "old", "keep": 2}}, "deviceID": "old",
                              "capabilities": {"mac": True, "bandwidth": True, "portMappings": True, "ips": False}})
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/rail0", "net1", net, requests),
                   ("team/rail1", "net2", rail(lab, "rail1")))
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet", runtimeConfig={"portMappings": [{"hostPort": 1}]})
    lab.add(c, pod, ifname="eth0", CNI_PATH=str(spy.parent))
    assert link(pod.ns, "net1")["address"] == "02:00:5e:10:00:09" and has_address(pod.ns, "net1", "172.16.1.77/24")
    assert [r for r in routes(pod.ns, "main") if r.startswith("default")] == ["default via 172.16.1.1 dev net1"]
    got = json.loads(seen.read_text())
    assert got["args"] == {"other": 1, "cni": {"keep": 2, "k": "new"}}
    assert got["deviceID"] == got["pciBusID"] == "0000:3b:02.1" and got["cniVersion"] == "0.3.1"
    assert got["runtimeConfig"] == {"mac": "02:00:5e:10:00:09", "bandwidth": {"ingressRate": 1},
                                    "portMappings": [{"hostPort": 1}]}
    args = (seen.parent / "seen.json.args").read_text()
    assert "MAC=02:00:5e:10:00:09;IP=172.16.1.77" in args and "K8S_POD_NAME=pod" in args
    scratch = json.loads((lab.tmp / "multus" / pod.id).read_text())
    assert [(d["Name"], d.get("ifnameRequest"), d.get("deviceID")) for d in scratch] == [
        ("kube-system/podnet", None, None), ("team/rail0", "net1", "0000:3b:02.1"), ("team/rail1", "net2", None)]
    # the reported network status has the gateways that each network's plugins returned, although the default route was moved to net1 later
    reported_names(agent, 1)
    assert [s.get("gateway") for s in json.loads(agent.reports[0]["networkStatus"])][1:] == [["172.16.1.1"], ["172.16.2.1"]]
    lab.delete(c, pod, ifname="eth0", CNI_PATH=str(spy.parent))
    check_removed(lab, pod)


def test_definition_requested_twice_is_attached_to_two_interfaces(lab, agent):
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/rail0", "net1", rail(lab, "rail0")),
                   ("team/rail0", "net2", rail(lab, "rail0")))
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0")
    assert has_address(pod.ns, "net1", "172.16.1.10/24") and has_address(pod.ns, "net2", "172.16.1.11/24")
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)


def test_default_network_annotation_replaces_the_first_network(lab, agent):
    """The networks of the agent's answer are attached after the networks of the netconf (`delegates` of multus, `networks` of
    unirail-cni). If the pod has the annotation v1.multus-cni.io/default-network, the agent's answer has replacesFirst, and the first
    network of the answer replaces the first of `delegates`."""
    agent.networks(("team/rail0", "net1", rail(lab, "rail0")))
    for type, key in (("multus", "delegates"), ("unirail-cni", "networks")):
        pod, c = lab.pod(type), conf(lab, agent, type, **{key: [podnet(lab)]})
        lab.add(c, pod, ifname="eth0")
        assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1"] and agent.requests[-1]["netconfNetworks"] == 1
        lab.delete(c, pod, ifname="eth0")
        check_removed(lab, pod)
    agent.networks(("team/rail0", None, rail(lab, "rail0")), ("team/rail1", "net1", rail(lab, "rail1")), replacesFirst=True)
    pod, c = lab.pod(), conf(lab, agent, delegates=[podnet(lab)])
    lab.add(c, pod, ifname="eth0")
    assert "172.16.1.0/24" in str(routes(pod.ns, "main")) and link(pod.ns, "net1") and not link(pod.ns, "net2")
    assert reported_names(agent, 3) == ["team/rail0", "team/rail1"]
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)


def test_multus_with_delegates_and_no_agent_sends_no_request(lab, agent):
    """With `delegates` and without an agent, multus sends no request, as Multus sends none without a kubeconfig."""
    c = conf(lab, agent, delegates=[podnet(lab)])
    del c["agent"]
    pod = lab.pod()
    result = lab.add(c, pod, ifname="eth0")
    lab.ok("STATUS", {**c, "cniVersion": "1.1.0"}, pod, ifname="")
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0")
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0")
    check_removed(lab, pod)
    assert agent.requests == [] and agent.reports == []


def as_daemon(lab, agent, text):
    """Writes the settings file of Multus' daemon and the configuration file of the cluster network below lab.tmp/root; returns an
    environment in which UNIRAIL_ROOT is that directory."""
    net_d = lab.tmp / "root/etc/cni/net.d"
    (net_d / "multus.d").mkdir(parents=True)
    (net_d / "multus.d/daemon-config.json").write_text(text)
    (net_d / "10-podnet.conflist").write_text(json.dumps(podnet(lab)))
    socket = lab.tmp / "root" / str(agent.path)[1:]
    socket.parent.mkdir(parents=True)
    socket.symlink_to(agent.path)
    return {"UNIRAIL_ROOT": str(lab.tmp / "root")}


def shim(agent, **more):
    """A configuration in the format of Multus' daemon."""
    return {"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus-shim", "agent": str(agent.path),
            "capabilities": {"portMappings": True}, "logLevel": "verbose", "logToStderr": True,
            "clusterNetwork": "/host/etc/cni/net.d/10-podnet.conflist", **more}


def test_settings_of_the_multus_daemon_are_used(lab, agent):
    """The daemon's file takes precedence over the netconf, and the paths in that file are paths in the daemon's container."""
    node = as_daemon(lab, agent, json.dumps({
        "chrootDir": "/hostroot", "cniVersion": "0.3.1", "logLevel": "error", "cniConfigDir": "/host/etc/cni/net.d",
        "multusConfigFile": "auto", "multusAutoconfigDir": "/host/etc/cni/net.d", "socketDir": "/host/run/multus/",
        "cniDir": "/hostroot/var/lib/multus-here", "binDir": f"/host{REFERENCE}", "namespaceIsolation": True}))
    agent.networks(("kube-system/podnet", None, podnet(lab)))
    pod, c = lab.pod(), shim(agent)
    result = lab.add(c, pod, ifname="eth0", **node)
    assert [i["address"] for i in result["ips"]] == ["10.233.70.2/24"] and link(pod.ns, "eth0")
    assert agent.requests[-1]["namespaceIsolation"] is True and agent.requests[-1]["netconfNetworks"] == 1
    running = lab.tmp / "root/var/lib/multus-here"
    assert (running / pod.id).exists()
    lab.ok("CHECK", {**c, "prevResult": result}, pod, ifname="eth0", **node)
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0", **node)
    assert not (running / pod.id).exists() and link_names(pod.ns) == ["lo"]


@pytest.mark.parametrize("text, contains", [
    ("{", "daemon-config.json"), ("[]", "daemon-config.json"), ('{"cniDir": 7}', "daemon-config.json.cniDir")])
def test_invalid_settings_of_the_multus_daemon_fail_add_only(lab, agent, text, contains):
    """An ADD reports the error; a DEL releases as much as it can."""
    node, pod = as_daemon(lab, agent, text), lab.pod()
    lab.fail("ADD", shim(agent), pod, ifname="eth0", contains=contains, **node)
    lab.delete(shim(agent), pod, ifname="eth0", **node)


def test_add_waits_for_an_agent_that_restarts(lab, agent):
    """The agent's socket is absent for one second before the request for networks, and again before the request for addresses."""
    two_rails(lab, agent)
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    away, serve = agent.path.with_name("away"), agent.serve

    def restart():
        agent.path.rename(away)
        threading.Timer(1, lambda: away.rename(agent.path)).start()

    def then_restart(path, body):
        answer = serve(path, body)
        if path.endswith("/networks"):
            restart()
        return answer

    agent.serve = then_restart
    restart()
    result = lab.add(c, pod, ifname="eth0")
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1", "net2"] and len(agent.requests) == len(agent.planned) == 1
    lab.delete({**c, "prevResult": result}, pod, ifname="eth0")


def test_missing_agent_fails_add(lab, agent):
    two_rails(lab, agent)
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    before = state(lab.node), pod.state()
    agent.stop()
    lab.fail("ADD", c, pod, 11, ifname="eth0", contains=["agent does not answer on", str(agent.path), "unirail agent"])
    assert (state(lab.node), pod.state()) == before and cache_entries(lab) == []
    lab.delete(c, pod, ifname="eth0")
    lab.fail("STATUS", {**c, "cniVersion": "1.1.0"}, pod, 50, ifname="", contains="does not answer")


def test_add_reports_an_error_or_an_invalid_answer_of_the_agent(lab, agent):
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    text = "pod 'team/pod': network 'team/rail9': cannot find a network-attachment-definition (rail9) in namespace (team)"
    agent.status, agent.answer = 500, {"code": 7, "message": text}
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=text)
    agent.status, agent.answer = 404, {"code": 404, "message": "path was not found"}
    lab.fail("ADD", c, pod, ifname="eth0", contains="unirail agent")
    agent.status, agent.answer = 200, {"networks": 7}
    lab.fail("ADD", c, pod, ifname="eth0", contains="has no networks")
    agent.answer = {"networks": [{"name": "podnet", "surprise": 1}]}
    lab.fail("ADD", c, pod, ifname="eth0", contains="surprise")
    agent.networks(("team/rail0", "net1", {"name": "x"}))
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains=["network 'team/rail0'", "'type' or 'plugin'"])
    agent.networks(("team/rail0", "net1", rail(lab, "rail0")), ("team/rail1", "net1", rail(lab, "rail1")))
    lab.fail("ADD", c, pod, 7, ifname="eth0", contains="net1")
    lab.fail("ADD", c, pod, 4, ifname="eth0", args="IgnoreUnknown=1", contains="K8S_POD_NAME")
    assert cache_entries(lab) == [] and link_names(pod.ns) == ["lo"] and lab.used() == {}


@pytest.mark.parametrize("type, reference", [("host-device", "specify either"), ("sriov", "deviceID")])
def test_add_without_an_allocated_device_names_the_resource(lab, agent, type, reference):
    """The plugin reports the missing deviceID, and the error also has the agent's warning, which names the resource that the pod lacks."""
    reason = "network 'team/vf': the pod has no device of resource 'x/other' left: its containers have x/vf"
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/vf", "net1", {"cniVersion": "1.0.0", "name": "vf", "type": type}),
                   warnings=["network 'team/rail0': something else", reason])
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    answer = lab.fail("ADD", c, pod, ifname="eth0", contains=[reference, "; " + reason])
    assert "something else" not in json.dumps(answer)
    check_removed(lab, pod)


def test_failing_rail_undoes_all_networks_of_the_agent(lab, agent):
    two_rails(lab, agent)
    agent.answer["networks"][2]["config"]["plugins"][0]["master"] = "nic9"
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.fail("ADD", c, pod, ifname="eth0", contains=["net2", "nic9"])
    check_removed(lab, pod)
    assert agent.reports == []


def test_gc_deletes_networks_of_unlisted_containers(lab, agent):
    """unirail's GC deletes the attachments of containers that are not in the runtime's list, whereas the GC of Multus releases nothing."""
    two_rails(lab, agent)
    running, lost = lab.pod("kept"), lab.pod("lost")
    c = conf(lab, agent, clusterNetwork="podnet", cniVersion="1.1.0")
    for pod in (running, lost):
        lab.add(c, pod, ifname="eth0")
    valid = [{"containerID": running.id, "ifname": "eth0"}]
    agent.stop()
    lab.ok("GC", {**c, "cni.dev/valid-attachments": valid}, running, ifname="")
    assert {i for i in lab.used()} == {"172.16.1.10", "172.16.2.10"}
    assert not [n for n in cache_entries(lab) if lost.id in n] and [n for n in cache_entries(lab) if running.id in n]
    assert len(list((lab.tmp / "networks" / "podnet").glob("10.*"))) == 1
    lab.ok("GC", c, running, ifname="")
    assert len(lab.used()) == 2, "GC without a list of attachments releases nothing"
    lab.delete(c, running, ifname="eth0")
    check_removed(lab, running)


def test_missing_readiness_file_fails_status(lab, agent):
    two_rails(lab, agent)
    ready = lab.tmp / "ready"
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet", readinessindicatorfile=str(ready))
    lab.fail("STATUS", {**c, "cniVersion": "1.1.0"}, pod, 50, ifname="", contains=str(ready))
    ready.touch()
    lab.ok("STATUS", {**c, "cniVersion": "1.1.0"}, pod, ifname="")
    lab.add(c, pod, ifname="eth0")
    ready.unlink()
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)


@pytest.mark.parametrize("more, contains", [
    ({}, "at least one delegate/clusterNetwork must be specified"),
    ({"clusterNetwork": "x", "cniDir": "rel"}, "conf.cniDir is 'rel'"),
    ({"clusterNetwork": "x", "agent": "rel"}, "conf.agent is 'rel'"),
    ({"delegates": {}}, "conf.delegates is"),
    ({"clusterNetwork": 7}, "conf.clusterNetwork is 7"),
    ({"clusterNetwork": "x", "namespaceIsolation": "yes"}, "conf.namespaceIsolation"),
])
def test_invalid_configurations_are_refused(lab, agent, more, contains):
    pod = lab.pod()
    lab.fail("ADD", conf(lab, agent, **more), pod, 7, ifname="eth0", contains=contains)
    lab.delete(conf(lab, agent, **more), pod, ifname="eth0")


def with_files(lab, nic):
    return {"cniVersion": "1.0.0", "name": nic, "plugins": [
        {"type": "macvlan", "master": nic, "mode": "bridge",
         "ipam": {"type": "host-local", "dataDir": str(lab.tmp / "networks"), "ranges": [[{"subnet": "172.16.9.0/24"}]]}},
        {"type": "tuning", "dataDir": str(lab.tmp / "tuning"), "mtu": 1400}]}


def leases(lab):
    return sorted(p.name for p in (lab.tmp / "networks").glob("*/[0-9]*"))


def test_pod_of_unirail_is_deleted_by_multus(lab, agent):
    """Migration back: Multus' own DEL, with the original plugins, reads unirail's cache entry."""
    agent.networks(("kube-system/podnet", None, podnet(lab)), ("team/rail0", "net1", with_files(lab, "rail0")),
                   ("team/rail0", "net2", with_files(lab, "rail0")))
    pod = lab.pod()
    lab.add(conf(lab, agent, clusterNetwork="podnet"), pod, ifname="eth0")
    assert len(leases(lab)) == 3
    assert Multus(lab, lab.tmp / "multus").delete(pod, REFERENCE) == [
        ("rail0", "net2", ["macvlan", "tuning"]), ("rail0", "net1", ["macvlan", "tuning"]), ("podnet", "eth0", ["bridge"])]
    check_removed(lab, pod)
    assert leases(lab) == []


@pytest.mark.parametrize("head", [False, True], ids=["4.3.0", "HEAD"])
def test_pod_of_multus_is_deleted_by_unirail(lab, agent, head):
    """DEL on a node that was migrated with running pods, while no agent answers."""
    pod = lab.pod()
    Multus(lab, lab.tmp / "multus", head).add(pod, podnet(lab), with_files(lab, "rail0"), with_files(lab, "rail1"))
    assert sorted(link_names(pod.ns)) == ["eth0", "lo", "net1", "net2"] and len(leases(lab)) == 3
    agent.stop()
    c = conf(lab, agent, clusterNetwork="podnet")
    lab.ok("CHECK", {**c, "prevResult": {"cniVersion": "1.0.0"}}, pod, ifname="eth0")
    lab.delete(c, pod, ifname="eth0")
    check_removed(lab, pod)
    assert leases(lab) == []


@pytest.mark.parametrize("type", ["macvlan", "sriov", "ib-sriov", "ipoib", "rdma"])
def test_del_of_a_pod_of_multus_succeeds_without_the_original_plugins(lab, agent, type, tmp_path):
    """DEL on a migrated node from which the original plugins were deleted. The pod's interface does not exist."""
    pod = lab.pod()
    plugin = {"type": type, **({"master": "rail0"} if type in ("macvlan", "ipoib") else {})}
    Multus(lab, lab.tmp / "multus").add(pod, {"cniVersion": "1.0.0", "name": "net", "plugins": [plugin]}, run=False)
    agent.stop()
    lab.delete(conf(lab, agent, clusterNetwork="podnet"), pod, ifname="eth0", CNI_PATH=str(tmp_path))
    check_removed(lab, pod)


@pytest.mark.parametrize("cut", [0, 1, 100, -2])
def test_truncated_cache_entry_does_not_fail_del(lab, agent, cut):
    """A DEL whose cache entry is truncated reads the networks from libcni's cache."""
    two_rails(lab, agent)
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0")
    cache_entry = lab.tmp / "multus" / pod.id
    cache_entry.write_bytes(cache_entry.read_bytes()[:cut])
    agent.stop()
    lab.delete(c, pod, ifname="eth0")
    assert link_names(pod.ns) == ["lo"] and lab.used() == {} and cache_entries(lab) == []
    assert not list((lab.tmp / "networks" / "podnet").glob("10.*"))


def test_del_without_a_cache_entry_releases_addresses(lab, agent):
    two_rails(lab, agent)
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0")
    for f in (lab.tmp / "multus").rglob("*"):
        if f.is_file():
            f.unlink()
    assert len(lab.used()) == 2
    lab.delete(c, pod, ifname="eth0")
    assert lab.used() == {}
    lab.fail("CHECK", {**c, "prevResult": {"cniVersion": "1.0.0"}}, pod, ifname="eth0", contains="the container is not attached")


def test_del_succeeds_after_an_add_killed_at_any_time(lab, agent):
    """The cache entry is written before anything is created, so a DEL finds what a killed ADD created. ADD is killed after 0 to 69 ms."""
    two_rails(lab, agent)
    c, left = conf(lab, agent, clusterNetwork="podnet"), 0
    for i in range(24):
        pod = lab.pod(f"k{i}")
        p = lab.popen("ADD", c, pod, ifname="eth0")
        time.sleep(0.003 * i)
        p.kill()
        p.communicate()
        left += pod.id in cache_entries(lab) and len(link_names(pod.ns)) > 1
        # programs that the killed ADD executed may still run for a moment, as after a crash of the node's runtime
        wait(lambda: not run(["pgrep", "-f", pod.id], check=False).stdout, "the plugins that the killed process executed have ended")
        lab.delete(c, pod, ifname="eth0")
        check_removed(lab, pod)
    assert left > 2, "no ADD was killed after it had created a link"


@pytest.mark.parametrize("type", ["multus", "unirail-cni"])
def test_del_succeeds_on_a_full_disk(lab, agent, type):
    """The file systems of cniDir and of the cluster network's addresses have no byte and no inode left."""
    two_rails(lab, agent)
    with small_disk(lab.tmp / "multus") as disk, small_disk(lab.tmp / "networks") as addresses:
        c, pod, late = conf(lab, agent, type, clusterNetwork="podnet"), lab.pod(), lab.pod("late")
        lab.add(c, pod, ifname="eth0")
        with filled(disk), filled(addresses):
            before = late.state()
            lab.fail("ADD", c, late, ifname="eth0", contains="No space left on device (ENOSPC)")
            lab.delete(c, late, ifname="eth0")
            assert late.state() == before
            lab.delete(c, pod, ifname="eth0")
            lab.delete(c, pod, ifname="eth0")
        check_removed(lab, pod)
        lab.add(c, late, ifname="eth0")
        lab.delete(c, late, ifname="eth0")
        check_removed(lab, late)


def test_temporary_files_of_a_killed_add_are_removed(lab, agent):
    """DEL removes temporary files of its own container at once, and those of other containers once they are old; files with other names
    stay."""
    two_rails(lab, agent)
    c, pod, top = conf(lab, agent, clusterNetwork="podnet"), lab.pod(), lab.tmp / "multus"
    lab.add(c, pod, ifname="eth0")
    (top / "results").mkdir(exist_ok=True)
    swept = [age(top / f".{pod.id}.0123abcd.tmp", 0), age(top / "results" / f".podnet-{pod.id}-eth0.0123abcd.tmp", 0),
             age(top / ".another.0123abcd.tmp"), age(top / "results" / ".podnet-another-eth0.0123abcd.tmp")]
    stay = [age(top / ".young.0123abcd.tmp", 0), age(top / "results" / ".podnet-young-eth0.0123abcd.tmp", 0),
            age(top / ".another.0123abcd.txt"), age(top / "another.0123abcd.tmp"), age(top / ".tmp")]
    lab.delete(c, pod, ifname="eth0")
    assert [p for p in swept + stay if p.exists()] == stay
    for path in stay:
        path.unlink()
    check_removed(lab, pod)


def test_del_succeeds_while_the_agent_hangs(lab, agent):
    """DEL waits ten seconds for the agent, and then releases the addresses itself in the agent's state directory, which the cache entry
    names."""
    two_rails(lab, agent)
    pod, c = lab.pod(), conf(lab, agent, clusterNetwork="podnet")
    lab.add(c, pod, ifname="eth0")
    agent.hangs = True
    began = time.monotonic()
    lab.delete(c, pod, ifname="eth0")
    assert 9 < time.monotonic() - began < 40
    check_removed(lab, pod)
