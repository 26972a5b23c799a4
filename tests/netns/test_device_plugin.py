# SPDX-License-Identifier: Apache-2.0
"""Tests `unirail device-plugin` with a test kubelet (kubelet.py) on grpc's Python server and client, an implementation of gRPC that is
independent of unirail's."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import grpc
import pytest
from kubelet import Kubelet, Plugin, PodResources
from report import follow, wait

ROOT = pathlib.Path(__file__).parents[2]
UNIRAIL = os.environ.get("UNIRAIL") or str(ROOT / "build" / "unirail")
SHARED = {"configList": [{"resourceName": "hca_shared", "resourcePrefix": "rdma", "rdmaHcaMax": 5,
                          "selectors": {"ifNames": ["ens1np0"]}}]}


class Node:
    """A host unpacked from a tree of tests/hosts, the directories of its kubelet, and the plugin that runs there."""

    def __init__(self, tmp, tree):
        self.tmp, self.root, self.runs = tmp, tmp / "host", []
        self.dir, self.registry = tmp / "device-plugins", tmp / "plugins_registry"
        self.dir.mkdir()
        subprocess.run([UNIRAIL, "doctor", "--root", str(ROOT / "tests/hosts" / tree), "--unpack", str(self.root)],
                       check=True, capture_output=True)
        self.config = tmp / "config"
        self.config.mkdir()
        self.log = tmp / "log"
        follow("device-plugin", self.log)

    def configure(self, conf):
        new = self.tmp / "new.json"
        new.write_text(conf if isinstance(conf, str) else json.dumps(conf))
        path = self.root / "etc/resources"
        path.mkdir(parents=True, exist_ok=True)
        new.rename(path / "config.json")

    def start(self, *options):
        # The plugin runs in a separate network namespace: links that other tests change would make it read the node again.
        args = ["unshare", "-n", UNIRAIL, "device-plugin", "--root", str(self.root), "--plugins-dir", str(self.dir), "--registry-dir",
                str(self.registry), *options]
        if (self.root / "etc/resources").exists():
            args.append("/etc/resources")
        with open(self.log, "a") as log:
            self.runs.append(subprocess.Popen(args, stdout=log, stderr=log))
        return self.runs[-1]

    def stop(self):
        for run in self.runs:
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)
                assert run.wait(10) == 0, self.log.read_text()

    def wait_logged(self, *contains):
        return wait(lambda: [line for line in self.log.read_text().splitlines() if all(w in line for w in contains)],
                    f"the device plugin logs {contains}")

    def sockets(self, folder):
        return sorted(n for n in os.listdir(folder) if n.endswith(".sock") and n != "kubelet.sock")


@contextlib.contextmanager
def recorded(tmp_path, tree):
    made = Node(tmp_path, tree)
    try:
        yield made
    finally:
        for run in made.runs:
            run.kill()
            run.wait()


@pytest.fixture
def node(tmp_path):
    with recorded(tmp_path, "eight_rails.tree") as made:
        yield made


@pytest.fixture
def registered(node):
    node.registry.mkdir()
    node.configure(SHARED)
    node.start()
    path = node.registry / "hca_shared.sock"
    wait(path.exists, f"{path} exists")
    plugin = Plugin(path)
    yield plugin
    plugin.close()


def test_calls_from_the_plugin_registry_are_answered(node, registered):
    assert registered.info() == {"type": "DevicePlugin", "name": "rdma/hca_shared", "endpoint": registered.path,
                                 "versions": ["v1alpha1", "v1beta1"]}
    registered.notify(True)
    assert registered.options() == {2: 1}
    registered.watch()
    assert sorted(registered.devices()) == ["0", "1", "2", "3", "4"]
    assert {d[0] for d in registered.devices().values()} == {"Healthy"}
    container, = registered.allocate(["3"])
    nodes = [d[0] for d in container["devices"]]
    assert "/dev/infiniband/rdma_cm" in nodes and len(nodes) == len(set(nodes))
    assert any(n.startswith("/dev/infiniband/uverbs") for n in nodes)
    two = registered.allocate(["0"], ["1", "2"])
    assert len(two) == 2 and two[0]["devices"] == two[1]["devices"] == container["devices"]
    assert registered.preferred(["4", "2", "0"], 2, ["2"])[0][0] == "2"
    assert registered.prestart("1") == b""
    node.wait_logged("registered", "rdma/hca_shared")


def fails(call, code, *contains):
    with pytest.raises(grpc.RpcError) as e:
        call()
    assert e.value.code() == code, e.value.details()
    for word in contains:
        assert word in e.value.details()


def test_invalid_calls_are_refused(registered):
    status = grpc.StatusCode
    registered.watch().devices()
    fails(lambda: registered.allocate(["9"]), status.FAILED_PRECONDITION, "device '9'", "rdma/hca_shared")
    fails(lambda: registered.allocate(["0", "x" * 64]), status.INVALID_ARGUMENT, "AllocateRequest")
    fails(lambda: registered.preferred(["0"], 2), status.INVALID_ARGUMENT, "allocation_size is 2, expected 0 to 1")
    fails(lambda: registered.call("/v1beta1.DevicePlugin/Allocate", b"\xff\xff"), status.INVALID_ARGUMENT)
    fails(lambda: registered.call("/v1beta1.DevicePlugin/Nonesuch"), status.UNIMPLEMENTED, "unknown method")
    fails(lambda: registered.call("/v1beta1.DevicePlugin/Allocate", b"\0" * (1 << 20) + b"x"),
          status.RESOURCE_EXHAUSTED, "the limit")
    assert registered.allocate(["0"])


def test_compressed_requests_are_refused(registered):
    channel = grpc.insecure_channel(f"unix:{registered.path}", compression=grpc.Compression.Gzip)
    with contextlib.closing(channel):
        fails(lambda: channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(b"\0" * 5000, timeout=5),
              grpc.StatusCode.UNIMPLEMENTED)


def test_deadline_and_cancel_end_a_stream(registered):
    stream = registered.channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
    with pytest.raises(grpc.RpcError) as e:
        list(stream(b"", timeout=0.2))
    assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    for _ in range(50):
        call = stream(b"")
        next(call)
        call.cancel()
    assert sorted(registered.watch().devices()) == ["0", "1", "2", "3", "4"]


def test_ten_thousand_devices_are_listed(node):
    """The list is longer than the flow-control windows of HTTP/2."""
    node.registry.mkdir()
    node.configure({"configList": [{**SHARED["configList"][0], "rdmaHcaMax": 10000}]})
    node.start()
    wait((node.registry / "hca_shared.sock").exists, "the resource's socket is in the registry")
    plugin = Plugin(node.registry / "hca_shared.sock", [("grpc.http2.bdp_probe", 0)])
    assert len(plugin.watch().devices()) == 10000
    available = [str(i) for i in range(10000)]
    assert len(plugin.preferred(available, 3)[0]) == 3
    plugin.close()


def test_configuration_change_keeps_the_registration(node):
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        node.start()
        plugin = kubelet.plugin("rdma/hca_shared")
        assert len(plugin.devices()) == 5
        node.configure({"configList": [{**SHARED["configList"][0], "rdmaHcaMax": 7},
                                       {"resourceName": "other", "selectors": {"ifNames": ["ens2np0"]}, "rdmaHcaMax": 1}]})
        assert len(kubelet.plugin("rdma/other").devices()) == 1
        wait(lambda: len(plugin.devices()) == 7, "the resource has seven devices")
        assert not plugin.ended.is_set()
        node.configure({"configList": [{"resourceName": "other", "selectors": {"ifNames": ["ens2np0"]}, "rdmaHcaMax": 1}]})
        assert plugin.ended.wait(10)
        wait(lambda: node.sockets(node.dir) == ["other.sock"], "only other.sock is left")
        node.configure("{")
        node.wait_logged("config.json")
        node.stop()
    assert node.sockets(node.dir) == []


def test_invalid_configuration_keeps_the_previous_one(node):
    other = {"resourceName": "other", "selectors": {"ifNames": ["ens2np0"]}, "rdmaHcaMax": 1}
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        node.start()
        plugin = kubelet.plugin("rdma/hca_shared")
        assert len(plugin.devices()) == 5
        for invalid in ("{", "[]", '{"configLists": []}'):
            node.configure(invalid)
            wait(lambda: node.log.read_text().count("previous configuration stays in force") == 1, "the mistake is logged once")
            assert not plugin.ended.is_set() and plugin.allocate(["1"])[0]["devices"]
            # After the error, a valid configuration takes effect again, and the next invalid configuration is logged again.
            node.log.write_text("")
            node.configure({"configList": [SHARED["configList"][0], other]})
            wait(lambda: "other.sock" in node.sockets(node.dir), "the socket of the other resource exists")
            node.configure(SHARED)
            wait(lambda: "other.sock" not in node.sockets(node.dir), "the socket of the other resource is removed")
            assert "previous configuration" not in node.log.read_text()
        assert not plugin.ended.is_set() and len(plugin.devices()) == 5


def test_plugin_registers_again_after_a_kubelet_restart(node):
    node.configure(SHARED)
    node.start()
    node.wait_logged("rdma/hca_shared", "kubelet.sock")  # kubelet.sock does not exist yet: the plugin logs one line
    for _ in range(3):
        with Kubelet(node.dir) as kubelet:
            assert len(kubelet.plugin("rdma/hca_shared").devices()) == 5
            assert kubelet.requests[-1] == ("rdma/hca_shared", "hca_shared.sock", "v1beta1")
            assert kubelet.plugin("rdma/hca_shared").allocate(["1"])[0]["devices"]


def test_deleted_socket_is_created_again(node):
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        node.start()
        kubelet.plugin("rdma/hca_shared").devices()
        for n in range(2, 4):
            (node.dir / "hca_shared.sock").unlink()
            wait(lambda: len(kubelet.requests) >= n, f"the plugin has registered {n} times")
            wait((node.dir / "hca_shared.sock").exists, "the resource's socket exists")


def test_plugin_registers_again_after_the_kubelets_directory_is_replaced(node):
    node.configure(SHARED)
    node.start("--sandbox", "off")
    with Kubelet(node.dir) as kubelet:
        kubelet.plugin("rdma/hca_shared").devices()
    node.dir.rename(node.tmp / "old")
    node.dir.mkdir()
    with Kubelet(node.dir) as kubelet:
        assert len(kubelet.plugin("rdma/hca_shared").devices()) == 5


def test_refused_registration_is_logged_and_retried(node):
    with Kubelet(node.dir, refuse="the ResourceName \"rdma/hca_shared\" is invalid") as kubelet:
        node.configure(SHARED)
        node.start()
        wait(lambda: len(kubelet.requests) >= 3, "the plugin has registered three times")
        lines = node.wait_logged("not registered", "rdma/hca_shared", "is invalid")
        assert len(lines) == 1
        kubelet.refuse = None
        assert len(kubelet.plugin("rdma/hca_shared").devices()) == 5


def test_refusal_by_the_plugin_registry_is_logged(node, registered):
    registered.notify(False, "no such plugin type")
    assert len(node.wait_logged("not registered", "no such plugin type")) == 1


def test_new_device_plugin_takes_over_from_the_old_one(node):
    """A rolling update: the new device plugin registers while the old one runs, and again when the old one ends."""
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        old = node.start()
        kubelet.plugin("rdma/hca_shared").devices()
        node.start()
        wait(lambda: len(kubelet.requests) == 2, "the second device plugin registers its resource")
        assert kubelet.requests[1][1] != "hca_shared.sock"
        old.terminate()
        assert old.wait(10) == 0
        wait(lambda: len(kubelet.requests) >= 3, "the resource is registered again")
        assert kubelet.requests[2][:2] == ("rdma/hca_shared", "hca_shared.sock")
        assert len(kubelet.plugin("rdma/hca_shared").devices()) == 5


def test_socket_of_a_killed_device_plugin_is_replaced_by_the_next_one(node):
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        run = node.start()
        kubelet.plugin("rdma/hca_shared").devices()
        run.kill()
        run.wait()
        node.start()
        wait(lambda: len(kubelet.requests) == 2, "the next device plugin registers its resource")
        assert kubelet.requests[1][1] == "hca_shared.sock"
        assert node.sockets(node.dir) == ["hca_shared.sock"]


def test_resources_without_configuration_are_named_by_rail(node):
    with Kubelet(node.dir) as kubelet:
        node.start()
        for rail in range(8):
            assert kubelet.plugin(f"spidernet.io/shared_rail{rail}").devices()


@pytest.fixture
def pods(tmp_path):
    served = PodResources(tmp_path / "pods.sock")
    yield served
    served.close()


def test_nics_near_the_gpus_of_the_pod_are_preferred(node, pods):
    """The GPUs are those of one pod in the kubelet's list: of the pods that have GPUs and may still wait for a device of the resource,
    the pod that appeared in the list last."""
    node.configure({"configList": [{"resourceName": "hca", "resourcePrefix": "rdma", "rdmaHcaMax": 2, "perDevice": True,
                                    "selectors": {"drivers": ["mlx5_core"]}}]})
    with Kubelet(node.dir) as kubelet:
        node.start("--pod-resources", str(pods.path))
        plugin = kubelet.plugin("rdma/hca")
        ids = sorted(plugin.devices(), reverse=True)
        hca = lambda size: sorted({i.rsplit("-", 1)[0] for i in plugin.preferred(ids, size)[0]})
        pods.pods = {"a": {"c": {"nvidia.com/gpu": ["0000:24:00.0"]}}}
        assert hca(1) == ["mlx5_1"]
        pods.pods = {"a": {"c": {"nvidia.com/gpu": ["0000:24:00.0"], "rdma/hca": ["mlx5_1-0"]}},
                     "b": {"c": {"nvidia.com/gpu": ["0000:14:00.0", "0000:24:00.0"], "x.io/y": ["1"]}}}
        assert hca(2) == ["mlx5_0", "mlx5_1"]
        # If the kubelet refuses the list of pods or does not answer, the plugin returns devices without regard to GPUs.
        for broken in (grpc.StatusCode.RESOURCE_EXHAUSTED, None):
            pods.pods = broken or {}
            if not broken:
                pods.gate.clear()
            before = pods.requests
            assert len(plugin.preferred(ids, 3)[0]) == 3
            assert pods.requests == before + 1
        pods.gate.set()
        pods.pods = {"d": {"c": {"nvidia.com/gpu": ["0000:14:00.0"]}}}
        assert hca(1) == ["mlx5_0"]
        assert len(plugin.allocate(["mlx5_0-0"])[0]["devices"]) > 0
        pods.close()
        assert len(plugin.preferred(ids, 3)[0]) == 3
    node.stop()


def test_waiting_call_ends_with_its_caller_or_its_resource(node, pods):
    """A call that waits for the kubelet's list of pods ends if its caller cancels or its resource is removed. Calls above the limit of
    waiting calls are answered without the list. The process ends although a call may still wait."""
    conf = lambda name: {"configList": [{"resourceName": name, "resourcePrefix": "rdma", "rdmaHcaMax": 2,
                                         "selectors": {"drivers": ["mlx5_core"]}}]}
    node.configure(conf("a"))
    with Kubelet(node.dir) as kubelet:
        node.start("--pod-resources", str(pods.path))
        plugin = kubelet.plugin("rdma/a")
        ids = sorted(plugin.devices())
        pods.gate.clear()
        method = plugin.channel.unary_unary("/v1beta1.DevicePlugin/GetPreferredAllocation")
        request = bytes([10, 8, 10, 1, 48, 10, 1, 49, 24, 1])
        calls = [method.future(request, timeout=20) for _ in range(40)]
        wait(lambda: pods.requests, "the plugin sends a request to PodResources")
        for call in calls[:5]:
            call.cancel()
        assert all(call.result() for call in calls[5:])
        before = pods.requests
        waits = method.future(request, timeout=20)
        wait(lambda: pods.requests > before, "the plugin sends a request to PodResources")
        node.configure(conf("b"))
        with pytest.raises(grpc.RpcError):
            while True:
                waits.result()
                waits = method.future(request, timeout=20)
        assert ids and kubelet.plugin("rdma/b").devices()
        node.stop()


def test_plugin_runs_under_the_names_and_flags_of_the_originals(node, tmp_path):
    for name, conf in (("k8s-rdma-shared-dp", SHARED), ("sriovdp", {"resourceList": [
            {"resourceName": "none", "selectors": {"vendors": ["ffff"]}}]})):
        link = tmp_path / name
        link.symlink_to(UNIRAIL)
        config = tmp_path / f"{name}.json"
        config.write_text(json.dumps(conf))
        with Kubelet(node.dir) as kubelet:
            env = {**os.environ, "UNIRAIL_DEVICE_PLUGIN_DIR": str(node.dir), "UNIRAIL_DEVICE_PLUGIN_REGISTRY": ""}
            with open(node.log, "a") as log:
                node.runs.append(subprocess.Popen([link, f"-config-file={config}"], stdout=log, stderr=log, env=env))
            kubelet.plugin("rdma/hca_shared" if name[0] == "k" else "intel.com/none")
            node.stop()


@pytest.fixture
def vf_node(tmp_path):
    with recorded(tmp_path, "mlx5_ib.tree") as made:
        yield made


VF = "0000:18:00.1"
VFS = {"resourceName": "vfs", "resourcePrefix": "intel.com", "selectors": {"pciAddresses": [VF], "isRdma": True}}
VF_PARTS = ("net", "infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_cm")


@pytest.mark.parametrize("first", range(len(VF_PARTS)))
def test_vf_returned_by_a_pod_has_its_rdma_nodes(vf_node, first):
    """A recorded host sends no event when the VF returns from the pod, so Allocate reads the VF again. The parts of the VF
    in /sys return one after the other; the node may be read when only some parts are back."""
    node = vf_node
    path = (node.root / "sys/bus/pci/devices" / VF).resolve()
    here, away = [[base / n for n in VF_PARTS] for base in (path, node.tmp)]

    def move(source, target):
        for old, new in zip(source, target):
            if old.exists():
                old.rename(new)

    def nodes(plugin):
        return [d[0] for d in plugin.allocate([VF])[0]["devices"]]

    def read_node(name):
        node.configure({"resourceList": [VFS, {"resourceName": name, "selectors": {"vendors": ["ffff"]}}]})
        kubelet.plugin(f"intel.com/{name}").devices()

    with Kubelet(node.dir) as kubelet:
        node.configure({"resourceList": [VFS]})
        node.start()
        plugin = kubelet.plugin("intel.com/vfs")
        before = nodes(plugin)
        assert "/dev/infiniband/uverbs1" in before
        move(here, away)
        read_node("away")  # the node was read while the VF was in the pod
        assert list(plugin.devices()) == [VF] and "/dev/infiniband/uverbs1" not in nodes(plugin)
        if first:
            move(away[:first], here[:first])
            read_node("some")
            assert list(plugin.devices()) == [VF]
        move(away[first:], here[first:])
        assert nodes(plugin) == before


def test_rising_pci_errors_make_a_device_unhealthy(node):
    hca = (node.root / "sys/class/net/ens1np0/device").resolve()
    (hca / "aer_dev_fatal").write_text("DLP 0\nTOTAL_ERR_FATAL 0\n")
    (hca / "aer_dev_nonfatal").write_text("TLP 3\nUnsupReq 1\nTOTAL_ERR_NONFATAL 4\n")
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        node.start()
        plugin = kubelet.plugin("rdma/hca_shared")
        wait(lambda: {d[0] for d in plugin.devices().values()} == {"Healthy"}, "all devices are healthy")
        (hca / "aer_dev_fatal").write_text("DLP 1\nTOTAL_ERR_FATAL 1\n")
        wait(lambda: {d[0] for d in plugin.devices().values()} == {"Unhealthy"}, "all devices are unhealthy")
        node.wait_logged("is unhealthy", "PCIe reports uncorrectable errors")


def cdi_specs(node):
    """Returns {file name: specification}, and asserts that each follows CDI's rules (tags.cncf.io/container-device-interface/schema)."""
    specs = {}
    for path in (node.root / "var/run/cdi").glob("[!.]*"):
        spec = specs[path.name] = json.loads(path.read_text())
        assert spec["cdiVersion"] == "0.5.0" and spec["devices"], path
        names = [d["name"] for d in spec["devices"]]
        assert len(names) == len(set(names)) and all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", n) for n in names)
        for device in spec["devices"]:
            assert device["containerEdits"]["deviceNodes"]
            for n in device["containerEdits"]["deviceNodes"]:
                assert set(n) == {"path", "hostPath", "permissions"} and n["path"][:5] == n["hostPath"][:5] == "/dev/"
    return specs


def test_cdi_devices_replace_device_nodes(node):
    """Allocate returns CDI devices instead of device nodes. Each resource has one specification, which defines the CDI devices of the
    resource and is removed with the resource."""
    other = {"resourceName": "vfs", "resourcePrefix": "intel.com", "selectors": {"pciAddresses": ["0000:23:00.0"], "isRdma": True}}
    with Kubelet(node.dir) as kubelet:
        node.configure(SHARED)
        node.start("--use-cdi", "--memlock-hook", "/opt/cni/bin/unirail-cni", "--rdma-memlock", "1048576")
        plugin = kubelet.plugin("rdma/hca_shared")
        container, = plugin.allocate(["0"])
        assert container["devices"] == [] and container["annotations"] == {}
        assert container["cdi"] == ["nvidia.com/net-rdma=hca_shared.0000:13:00.0"]
        spec = cdi_specs(node)["nvidia.com_hca_shared.yaml"]
        assert spec["kind"] == "nvidia.com/net-rdma"
        assert [f"{spec['kind']}={d['name']}" for d in spec["devices"]] == container["cdi"]
        assert "/dev/infiniband/uverbs0" in [n["path"] for n in spec["devices"][0]["containerEdits"]["deviceNodes"]]
        assert spec["containerEdits"] == {"hooks": [{"hookName": "createRuntime", "path": "/opt/cni/bin/unirail-cni", "args": [
            "unirail", "memlock-hook", "1048576"]}]}
        # Adds the resource vfs. Then vfs matches no device: its specification is removed, since a specification without devices is invalid.
        # Then hca_shared is removed.
        node.configure({**SHARED, "resourceList": [other]})
        container, = kubelet.plugin("intel.com/vfs").allocate(sorted(kubelet.plugin("intel.com/vfs").devices())[:1])
        assert container["devices"] == [] and container["envs"]["PCIDEVICE_INTEL_COM_VFS"] in container["cdi"][0]
        spec = cdi_specs(node)["sriov-dp-intel.com-net-pci-vfs.yaml"]
        assert container["cdi"][0] in [f"{spec['kind']}={d['name']}" for d in spec["devices"]]
        node.configure({**SHARED, "resourceList": [{**other, "selectors": {"vendors": ["ffff"]}}]})
        wait(lambda: list(cdi_specs(node)) == ["nvidia.com_hca_shared.yaml"], "the CDI specification of the VFs is removed")
        node.configure({"resourceList": [{**other, "selectors": {"vendors": ["ffff"]}}]})
        wait(lambda: cdi_specs(node) == {}, "the CDI specification is removed")
        node.configure(SHARED)
        wait(lambda: cdi_specs(node), "the CDI specification exists")
        node.stop()
    # The specification stays when the plugin ends, since containers with the devices may be restarted meanwhile.
    assert "nvidia.com_hca_shared.yaml" in cdi_specs(node)
    # When the plugin starts again and finds no devices, it removes the specification.
    node.configure({"configList": [{**SHARED["configList"][0], "selectors": {"vendors": ["ffff"]}}]})
    with Kubelet(node.dir) as kubelet:
        node.start("--use-cdi")
        kubelet.plugin("rdma/hca_shared")
        wait(lambda: cdi_specs(node) == {}, "the CDI specification of removed devices is removed")
        node.stop()


@pytest.mark.parametrize("options, message", [
    (["--memlock-hook", "/x"], "memlock-hook is part of CDI specifications: set use-cdi"),
    (["--use-cdi", "--memlock-hook", "x"], "memlock-hook 'x' is not an absolute path"),
    (["--use-cdi", "--rdma-memlock", "1k"], "rdma-memlock is '1k'")])
def test_invalid_cdi_options_are_refused(node, options, message):
    run = node.start(*options)
    assert run.wait(10) == 1 and message in node.log.read_text()


def test_memlock_hook_sets_the_limit_of_the_containers_process():
    def hook(state, *args):
        return subprocess.run([UNIRAIL, "memlock-hook", *args], input=state, capture_output=True, text=True)

    with subprocess.Popen(["sleep", "1000"]) as container:
        try:
            state = json.dumps({"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": container.pid, "bundle": "/b"})
            assert hook(state, "1048576").returncode == 0
            limits = pathlib.Path(f"/proc/{container.pid}/limits").read_text()
            assert re.search(r"Max locked memory +1048576 +1048576 +bytes", limits)
        finally:
            container.kill()
    # If the limit cannot be raised, the container starts nevertheless.
    p = hook(state, "1048576")
    assert p.returncode == 0 and p.stderr.count("\n") == 1 and f"process {container.pid}: " in p.stderr
    for text in ("", "{", "[]", "{}", '{"pid": 0}', '{"pid": 1}', '{"pid": -4}', '{"pid": 1e99}', '{"pid": "7"}', "x" * (2 << 20)):
        p = hook(text, "unlimited")
        assert p.returncode == 1 and p.stderr.count("\n") == 1 and "state" in p.stderr, text[:10]
    for args in ([], ["much"], ["no"], ["0"], ["1", "2"]):
        assert hook(state, *args).returncode == 2


def list_devices(node, *options):
    run = subprocess.run([UNIRAIL, "device", "list", "--root", str(node.root), "-o", "json", *options],
                         check=True, capture_output=True, text=True)
    assert run.stderr == ""
    return {d["address"]: d for d in json.loads(run.stdout)}


def test_device_list_shows_the_health_that_the_agent_reports(vf_node):
    node, path = vf_node, str(vf_node.tmp / "agent.sock")
    plain = list_devices(node)
    assert "health" not in plain["0000:18:00.1"]
    assert list_devices(node, "--agent", path) == plain  # no agent runs
    body = json.dumps({"resources": [{"resource": "a/b", "devices": [
        {"id": "0000:18:00.1", "unhealthy": "the link is down"}, {"id": "0000:18:00.2", "unhealthy": ""}]}]}).encode()
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    not_found = b'{"code":404,"message":"path was not found"}'
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def respond(*answers):
            for answer in answers:
                peer, _ = listener.accept()
                with peer:
                    asked.append(peer.recv(4096).split(b"\r\n")[0])
                    peer.sendall(answer)

        asked = []
        server = threading.Thread(target=respond, daemon=True, args=(
            head % (b"200 OK", len(body)) + body, head % (b"404 Not Found", len(not_found)) + not_found,
            head % (b"200 OK", 5) + b"{null", b"nonsense\r\n\r\n"))
        server.start()
        devices = list_devices(node, "--agent", path)
        assert (devices["0000:18:00.1"]["health"], devices["0000:18:00.1"]["healthReason"]) == (
            "unhealthy", "the link is down")
        assert (devices["0000:18:00.2"]["health"], devices["0000:18:00.2"]["healthReason"]) == ("healthy", None)
        assert devices["0000:18:00.0"]["health"] is None
        for _ in range(3):
            assert list_devices(node, "--agent", path) == plain
        server.join(10)
    assert set(asked) == {b"GET /v1/unirail/devices HTTP/1.1"}


def test_invalid_clients_do_not_affect_the_kubelet(registered):
    """Other clients send invalid data; the kubelet's stream stays open, and its new connections are answered."""
    devices = ["0", "1", "2", "3", "4"]
    assert sorted(registered.watch().devices()) == devices
    held = []
    for talk in (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"", b"\0" * 4096,
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\x08\x06\0\0\0\0\0" + b"x" * 8,
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff\xff\xff\x01\x04\0\0\0\x01"):
        for _ in range(20):
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(registered.path)
            with contextlib.suppress(OSError):
                peer.sendall(talk)
            held.append(peer)
    with contextlib.closing(Plugin(registered.path)) as again:
        assert sorted(again.watch().devices()) == devices
        assert again.allocate(["0"])
    assert not registered.ended.is_set()
    assert registered.allocate(["0"])
    for peer in held:
        peer.close()
