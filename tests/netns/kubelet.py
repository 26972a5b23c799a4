# SPDX-License-Identifier: Apache-2.0
"""A kubelet's device manager and plugin manager as seen by device plugins, on grpc's own server and client
(python3-grpcio). It behaves like kubelet/cm/devicemanager: Register connects back and waits for GetDevicePluginOptions
before it replies; ListAndWatch is read in the background; each list replaces the previous one."""
import concurrent.futures
import contextlib
import os
import threading
import time

import grpc
from protobuf import all_of, field, parse, text, varint
from report import wait

PLUGIN = "/v1beta1.DevicePlugin/"
REGISTRY = "/pluginregistration.Registration/"


def decode_devices(message):
    """{id: (health, [NUMA nodes] or None)}"""
    devices = {}
    for d in all_of(message, 1):
        topology = all_of(d, 3)
        nodes = [dict(parse(n)).get(1, 0) for t in topology for n in all_of(t, 1)]
        devices[text(d, 1)] = (text(d, 2), nodes if topology else None)
    return devices


def decode_allocation(message):
    """One dict per container."""
    def pairs(c, number):
        return {text(p, 1): text(p, 2) for p in all_of(c, number)}

    return [{"envs": pairs(c, 1), "mounts": [(text(m, 1), text(m, 2)) for m in all_of(c, 2)],
             "devices": [(text(d, 1), text(d, 2), text(d, 3)) for d in all_of(c, 3)],
             "annotations": pairs(c, 4), "cdi": [text(d, 1) for d in all_of(c, 5)]} for c in all_of(message, 1)]


class Plugin:
    """A client of one plugin's socket, configured like the kubelet's."""

    def __init__(self, path, options=()):
        self.path = str(path)
        self.channel = grpc.insecure_channel(f"unix:{path}", options=[("grpc.max_receive_message_length", 4 << 20), *options])
        self.lists, self.ended = [], threading.Event()

    def call(self, method, request=b"", timeout=10):
        return self.channel.unary_unary(method)(request, timeout=timeout, wait_for_ready=True)

    def options(self):
        return dict(parse(self.call(PLUGIN + "GetDevicePluginOptions")))

    def info(self):
        m = self.call(REGISTRY + "GetInfo")
        return {"type": text(m, 1), "name": text(m, 2), "endpoint": text(m, 3),
                "versions": [v.decode() for v in all_of(m, 4)]}

    def notify(self, registered, error=""):
        self.call(REGISTRY + "NotifyRegistrationStatus",
                  (b"\x08\x01" if registered else b"") + (field(2, error) if error else b""))

    def watch(self):
        # wait_for_ready: the socket's file exists before the plugin calls listen()
        self.stream = self.channel.unary_stream(PLUGIN + "ListAndWatch")(b"", wait_for_ready=True)

        def run():
            with contextlib.suppress(grpc.RpcError):
                for m in self.stream:
                    self.lists.append((time.monotonic(), decode_devices(m)))
            self.ended.set()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return self

    def devices(self):
        return wait(lambda: self.lists, f"{self.path} sends a list of devices")[-1][1]

    def allocate(self, *containers):
        request = b"".join(field(1, b"".join(field(1, i) for i in ids)) for ids in containers)
        return decode_allocation(self.call(PLUGIN + "Allocate", request))

    def preferred(self, available, size, must=()):
        request = b"".join(field(1, i) for i in available) + b"".join(field(2, i) for i in must) + \
            (varint(3 << 3) + varint(size))
        return [[i.decode() for i in all_of(c, 1)] for c in
                all_of(self.call(PLUGIN + "GetPreferredAllocation", field(1, request)), 1)]

    def prestart(self, *ids):
        return self.call(PLUGIN + "PreStartContainer", b"".join(field(1, i) for i in ids))

    def close(self):
        self.channel.close()


class Kubelet:
    """kubelet.sock in a directory. `refuse`: the error text with which it refuses every resource."""

    def __init__(self, folder, refuse=None):
        self.folder, self.refuse = folder, refuse
        self.plugins, self.requests = {}, []

    def register(self, request, context):
        name, endpoint = text(request, 3), text(request, 2)
        self.requests.append((name, endpoint, text(request, 1)))
        if self.refuse:
            context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        plugin = Plugin(self.folder / endpoint)
        plugin.options()  # as a kubelet does before it answers Register
        self.plugins[name] = plugin.watch()
        return b""

    def start(self):
        for name in os.listdir(self.folder):  # a kubelet removes every socket in its directory when it starts
            if name.endswith(".sock"):
                os.unlink(self.folder / name)
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "v1beta1.Registration", {"Register": grpc.unary_unary_rpc_method_handler(self.register)})])
        self.server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        self.server.start()
        return self

    def stop(self):
        self.server.stop(0).wait()
        for plugin in self.plugins.values():
            plugin.close()
        self.plugins = {}

    def plugin(self, name):
        return wait(lambda: self.plugins.get(name), f"the kubelet registers {name}")

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.stop()


class PodResources:
    """The kubelet's PodResources socket. pods: {name: {container: {resource: [ids]}}}, or the status with which List fails. While the
    event `gate` is not set, the response waits, at most 30 s."""

    def __init__(self, path):
        self.path, self.pods, self.requests = path, {}, 0
        self.gate = threading.Event()
        self.gate.set()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "v1.PodResourcesLister", {"List": grpc.unary_unary_rpc_method_handler(self.list)})])
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()

    def list(self, unused, context):
        self.requests += 1
        self.gate.wait(30)
        if isinstance(self.pods, grpc.StatusCode):
            context.abort(self.pods, "no list")
        devices = lambda d: b"".join(field(2, field(1, r) + b"".join(field(2, i) for i in ids)) for r, ids in d.items())
        return b"".join(field(1, field(1, name) + field(2, "t") + b"".join(field(3, field(1, c) + devices(d)) for c, d in cs.items()))
                        for name, cs in self.pods.items())

    def close(self):
        self.gate.set()
        self.server.stop(0).wait()
