# SPDX-License-Identifier: Apache-2.0
"""The requests of Spiderpool's CNI programs, byte for byte (tests/hosts/spiderpool-client), and the answers to them."""
import pathlib
import socket

from agents import MERGE, SPIDER
from cluster import wait

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "hosts" / "spiderpool-client"
UID = b"11111111-2222-3333-4444-555555555555"  # UID of the pod in the recorded files
ROUTES = [{"dst": "10.9.0.0/16", "gw": "172.16.1.2"}]


def head_and_body(data):
    """(status line, {field: value}, body); the date is left out."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    fields = dict(f.split(": ", 1) for f in fields)
    fields.pop("Date", None)
    return status, fields, body


def answer(one, request):
    """Returns the whole response: reads until the agent closes the connection, as the request demands."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(str(one.socket))
        s.sendall(request)
        got = b""
        while part := s.recv(65536):
            got += part
        return got


def coordinator(mine):
    path = f"{SPIDER}/spidercoordinators"
    mine.ok("POST", path, {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
                           "metadata": {"name": "default"},
                           "spec": {"mode": "overlay", "podCIDRType": "none", "hijackCIDR": ["169.254.25.10"]}})
    mine.ok("PATCH", f"{path}/default/status", {"status": {
        "phase": "Synced", "overlayPodCIDR": ["10.244.0.0/16"], "serviceCIDR": ["10.96.0.0/12"]}}, type=MERGE)


def test_every_agent_request_of_a_pods_life_is_answered(mine, nodes, agent, pools):
    """Every request that Spiderpool's programs send to the agent, in the order of a pod's life. The requests are sent twice: after the
    first turn has released the addresses, the second turn gets the same answers."""
    mine.namespace("team")
    coordinator(mine)
    # Each pool has only one block, so that the agent allocates the pool's lowest address first.
    pools("rail1", "172.16.1.0/24", ["172.16.1.10-172.16.1.15"], routes=ROUTES, default=True)
    pools("rail2", "172.16.2.0/24", ["172.16.2.10-172.16.2.15"])
    pools("rail2-v6", "fd00:16:2::/64", ["fd00:16:2::10-fd00:16:2::1f"], gateway="fd00:16:2::1", ipVersion=6)
    one = agent(UNIRAIL_REUSE_DELAY="0s")
    uid = nodes.pod("team", "n1", "web")["metadata"]["uid"].encode()
    conf = {"podName": "web", "podNamespace": "team"}
    wait(lambda: one.ok("GET", "/v1/coordinator/config", conf)["serviceCIDR"] == ["10.96.0.0/12"], "the agent knows the service CIDR")
    files = sorted(RECORDED.glob("*.request"))
    assert len(files) == 19
    for turn in range(2):
        for f in files:
            got = answer(one, f.read_bytes().replace(UID, uid))
            want = f.with_suffix(".answer").read_bytes().replace(UID, uid)
            assert head_and_body(got) == head_and_body(want), (turn, f.name, got)
