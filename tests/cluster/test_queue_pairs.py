# SPDX-License-Identifier: Apache-2.0
"""Containers that have an RDMA resource and no queue pair: devices by a real kubelet, processes and control groups by a real runtime,
events on a real API server. The machine's kernel has no RDMA, so the program rdma_netlink answers the agent's RDMA netlink requests."""
import os
import pathlib
import shutil

import pytest
import yaml

from cluster import HERE, wait
from test_eight_rails import devices, resource
from whole import Whole

PROGRAM = pathlib.Path(os.environ.get("UNIRAIL_RDMA_NETLINK", HERE.parent.parent / "build/obj/release/tests/cluster/rdma_netlink"))
WAIT_S = 30
MEMLOCK = 1 << 20  # in bytes; root may set this limit without CAP_SYS_RESOURCE
RAILS = tuple(f"rail{i}" for i in range(1, 9))


class OnRdma(Whole):
    """The agent sees the /sys of a recorded host, the node's processes, and RDMA devices that the test describes."""

    def agent(self):
        self.kernel = self.cluster.folder / "kernel"
        self.kernel.mkdir()
        shutil.copy(PROGRAM, self.kernel)
        # The port of the second device is down.
        (self.kernel / "devices").write_text("".join(f"{i} mlx5_{i} {1 if i == 1 else 4}\n" for i in range(8)))
        self.objects = []
        objects = list(yaml.safe_load_all(super().agent()))
        pod, = (o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet")
        pod["hostPID"] = True
        pod["volumes"].append({"name": "kernel", "hostPath": {"path": str(self.kernel), "type": "Directory"}})
        container, = pod["containers"]
        container |= {"command": ["/kernel/rdma_netlink", "/kernel", "/unirail"], "securityContext": {"privileged": True}}
        container["volumeMounts"].append({"name": "kernel", "mountPath": "/kernel"})
        return yaml.safe_dump_all(objects)

    def make(self, kind, device, pid):
        """Adds an object of the kernel: a context (an opened device) or a queue pair of process `pid`."""
        self.objects.append(f"{kind} {device} {pid}\n")
        new = self.kernel / "objects.new"
        new.write_text("".join(self.objects))
        new.rename(self.kernel / "objects")


@pytest.fixture(scope="module")
def whole():
    one = OnRdma(nri=True, host="eight_rails.tree", settings=f"device-configmap = rdma-devices\nqueue-pair-wait = {WAIT_S}s\n"
                                                             f"rdma-memlock = {MEMLOCK}\n")
    try:
        one.cluster.config_map("unirail", "rdma-devices", devices(8))
        wait(lambda: one.cluster.namespace("ai"), "namespace ai is created")
        wait(lambda: allocatable(one) == {r: "8" for r in map(resource, RAILS)},
             "eight devices of each resource are allocatable", 60, 0.5)
        yield one
    finally:
        one.close()


def allocatable(whole):
    node = whole.cluster.ok("GET", "/api/v1/nodes/n1")["status"]["allocatable"]
    return {k: v for k, v in node.items() if k.startswith("spidernet.io/")}


def start(whole, name, rail="rail1", **context):
    """Starts a pod; returns the pid of its container's process in the pid namespace of the node, which is also the agent's."""
    seconds = str(100000 + len(whole.pods("ai")))
    whole.apply("ai", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [
            {"name": "c", "image": "registry.local/busybox:1", "command": ["sleep", seconds], "securityContext": context,
             "resources": {"limits": {resource(rail): 1}}}]}})
    whole.ready("ai", f"app={name}", 1)
    lines = whole.node.run("ps", "-eo", "pid,args").stdout.splitlines()
    pid, = [line.split()[0] for line in lines if line.split()[1:] == ["sleep", seconds]]
    return pid


def event_messages(whole, reason):
    """{pod: messages}"""
    messages = {}
    for e in whole.cluster.ok("GET", "/api/v1/namespaces/ai/events")["items"]:
        if e["reason"] == reason:
            assert e["involvedObject"]["kind"] == "Pod" and e["involvedObject"]["uid"]
            assert e["type"] == ("Warning" if reason == "NoQueuePair" else "Normal")
            messages.setdefault(e["involvedObject"]["name"], []).append(e["message"])
    return messages


def test_event_gives_the_reason_for_each_container_without_queue_pair(whole):
    idle = start(whole, "idle")
    down = start(whole, "down", "rail2")
    limited = start(whole, "limited")
    whole.make("ctx", 0, limited)
    opened = start(whole, "opened", capabilities={"add": ["IPC_LOCK"]})
    whole.make("ctx", 0, opened)
    used = start(whole, "used")
    whole.make("ctx", 0, used)
    whole.make("qp", 0, used)
    whole.make("ctx", 1, down)
    has = lambda rail: f"container 'c' has {resource(rail)}, has run for at least {WAIT_S} s and has no queue pair: "
    wanted = {
        "idle": has("rail1") + "no process of the container has opened an RDMA device: the program does not use RDMA, or uses TCP instead "
                               "(the annotation unirail.io/nccl-net: IB makes NCCL fail instead of using TCP)",
        "down": has("rail2") + "no port of the container's RDMA devices is active (mlx5_1 is DOWN): check cable and switch",
        "limited": has("rail1") + f"process {limited} may lock {MEMLOCK >> 10} KiB (RLIMIT_MEMLOCK), so memory cannot be registered: "
                                  "raise the limit with rdma-memlock of the agent (NRI or memlock-hook) or with "
                                  "'unirail host memlock', then restart the pod",
        "opened": has("rail1") + "the container has opened an RDMA device but has created no queue pair: "
                                 "run 'unirail verify' in the container to test each device"}
    wait(lambda: set(event_messages(whole, "NoQueuePair")) >= set(wanted), "events NoQueuePair name the containers", 4 * WAIT_S, 1)
    # `used` was the last to start: when a later container has its event, `used` has been inspected.
    start(whole, "later")
    wait(lambda: "later" in event_messages(whole, "NoQueuePair"), "an event NoQueuePair is created for pod later", 4 * WAIT_S, 1)
    messages = event_messages(whole, "NoQueuePair")
    assert messages.pop("later") == [wanted["idle"]]
    assert messages == {pod: [text] for pod, text in wanted.items()}
    # A container that creates a queue pair later gets a second event; the other containers get no second event.
    whole.make("qp", 0, idle)
    wait(lambda: event_messages(whole, "QueuePairPresent") == {"idle": ["container 'c' uses RDMA now"]},
         "an event QueuePairPresent is created for pod idle", 120, 1)
    assert event_messages(whole, "NoQueuePair") == messages | {"later": [wanted["idle"]]}
