# SPDX-License-Identifier: Apache-2.0
"""`unirail device pods` against independent servers: grpc's own, and servers that do not speak gRPC. Needs no privilege
and no namespace."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import threading

import grpc
import pytest
from protobuf import field, number

UNIRAIL = os.environ.get("UNIRAIL") or str(pathlib.Path(__file__).parents[2] / "build" / "unirail")


# --- the kubelet's messages, with fields that unirail skips ---

def devices(resource, ids, *nodes):
    body = field(1, resource.encode()) + b"".join(field(2, i.encode()) for i in ids)
    if nodes:
        body += field(3, b"".join(field(1, number(1, n)) for n in nodes))
    return field(2, body)


def container(name, *parts):
    memory = field(4, field(1, b"hugepages-2Mi") + number(2, 1 << 30))
    return field(3, field(1, name.encode()) + b"".join(parts) + field(3, bytes([0, 1, 2, 3])) + memory)


def pod(namespace, name, *containers):
    return field(1, field(1, name.encode()) + field(2, namespace.encode()) + b"".join(containers) + field(4, b"\x05"))


# --- servers ---

@contextlib.contextmanager
def kubelet(path, answer, service="v1.PodResourcesLister", **how):
    """grpc's server; `answer` is the message's bytes, or a function that gets the call's context and returns these bytes."""
    def run(request, context):
        assert request == b""
        return answer(context) if callable(answer) else answer

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), **how)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
        service, {"List": grpc.unary_unary_rpc_method_handler(run)})])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


@contextlib.contextmanager
def peer(path, talk):
    """A program without gRPC that listens on the socket and calls talk(connection) for its first client."""
    def run():
        with contextlib.suppress(OSError):
            conn, _ = listener.accept()
            with conn:
                talk(conn)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


# --- the program ---

def run(path, *args):
    return subprocess.run([UNIRAIL, "device", "pods", "--socket", str(path), *args], capture_output=True, text=True,
                          timeout=60)


def rows(path, *args):
    done = run(path, "-o", "json", *args)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def fails(path, *contains, args=()):
    done = run(path, *args)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("unirail device: ") and done.stderr.count("\n") == 1
    for word in contains:
        assert word in done.stderr
    return done.stderr


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kubelet.sock"


def test_devices_of_pods_are_listed(path):
    # The kubelet sends one entry per device; NUMA node 0 is an empty message.
    answer = (pod("train", "worker-0",
                  container("main", devices("rdma/hca_shared", ["3"], 0), devices("nvidia.com/gpu", ["GPU-1"], 1),
                            devices("rdma/hca_shared", ["7"], 0, 1)),
                  container("sidecar")) +
              pod("default", "web") +
              pod("train", "worker-1", container("main", devices("rdma/hca_shared", ["1"]))))
    with kubelet(path, answer):
        assert rows(path) == [
            {"namespace": "train", "pod": "worker-0", "container": "main", "resource": "rdma/hca_shared",
             "devices": ["3", "7"], "numaNodes": [0, 1]},
            {"namespace": "train", "pod": "worker-0", "container": "main", "resource": "nvidia.com/gpu",
             "devices": ["GPU-1"], "numaNodes": [1]},
            {"namespace": "train", "pod": "worker-1", "container": "main", "resource": "rdma/hca_shared",
             "devices": ["1"], "numaNodes": []},
        ]
        lines = [line.split() for line in run(path).stdout.splitlines()]
    assert lines == [
        ["POD", "CONTAINER", "RESOURCE", "DEVICES"],
        ["train/worker-0", "main", "rdma/hca_shared", "3,7"],
        ["train/worker-0", "main", "nvidia.com/gpu", "GPU-1"],
        ["train/worker-1", "main", "rdma/hca_shared", "1"],
    ]


def test_list_without_devices_is_empty(path):
    with kubelet(path, b""):
        assert rows(path) == []
        assert run(path).stdout == "no container of 0 pods on this node uses a device\n"


def test_list_of_a_thousand_pods_is_read(path):
    """The list is longer than HTTP/2's initial windows of 65535 bytes."""
    ids = [f"0000:{bus:02x}:00.{fn}" for bus in range(4) for fn in range(2)]
    answer = b"".join(pod("ns", f"pod-{i}", container("main", *(devices("rdma/rail", [d], 0) for d in ids)))
                      for i in range(1000))
    assert len(answer) > 200000
    with kubelet(path, answer):
        assert rows(path) == [
            {"namespace": "ns", "pod": f"pod-{i}", "container": "main", "resource": "rdma/rail", "devices": ids,
             "numaNodes": [0]} for i in range(1000)]


def test_compressed_response_is_refused(path):
    """The client does not accept compression; grpc's server can be configured to compress nevertheless, whereas the
    kubelet does not compress."""
    answer = pod("a", "b", container("c", devices("d", ["e"] * 100)))
    with kubelet(path, answer, compression=grpc.Compression.Gzip):
        fails(path, "the answer is compressed, but the request does not accept compression")


def test_response_over_16_mib_is_refused(path):
    """An answer of 16 MiB is read, one byte more is refused."""
    room = 16 << 20

    def filler(size):
        return field(2, bytes(size - 5))  # an unknown field: tag, four bytes of length, data

    with kubelet(path, filler(room)):
        assert rows(path) == []
    with kubelet(path, filler(room + 1)):
        fails(path, f"the answer has {room + 1} bytes, the limit is {room}")


@pytest.mark.parametrize("code,name", [(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
                                       (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"),
                                       (grpc.StatusCode.INTERNAL, "INTERNAL")])
def test_error_status_of_the_server_is_reported(path, code, name):
    with kubelet(path, lambda context: context.abort(code, "100% of\nthe kübelet")):
        fails(path, f"v1.PodResourcesLister/List: {name}: 100% of the kübelet")


def test_server_without_the_service_is_reported(path):
    with kubelet(path, b"", service="v1beta1.Registration"):
        fails(path, "UNIMPLEMENTED")


def test_response_that_is_not_protobuf_is_refused(path):
    with kubelet(path, b"\xff\xff\xff"):
        fails(path, "decode the kubelet's list of pod resources: 3 bytes are not a valid message")


def test_call_that_the_server_does_not_answer_times_out(path):
    stop = threading.Event()
    with kubelet(path, lambda context: stop.wait(30) and b""):
        # grpc's server ends the call at the client's deadline, at the same moment as the client.
        text = fails(path, args=("--timeout", "300ms"))
        stop.set()
    assert "no answer from" in text and "within 300 ms" in text or "DEADLINE_EXCEEDED" in text


def test_server_that_sends_nothing_times_out(path):
    stop = threading.Event()
    with peer(path, lambda conn: stop.wait(30)):
        fails(path, f"no answer from '{path}' within 300 ms", args=("--timeout", "300ms"))
        stop.set()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"hello\n" * 10, b""])
def test_server_without_grpc_is_reported(path, answer):
    def talk(conn):
        conn.recv(1 << 16)
        conn.sendall(answer)

    with peer(path, talk):
        fails(path, "the peer is not a gRPC server, or closed the connection: it sent no HTTP/2 SETTINGS")


def test_missing_server_is_reported(path):
    fails(path, f"connect to '{path}': No such file or directory (ENOENT): is the kubelet running")
    path.touch()
    fails(path, f"connect to '{path}': Connection refused (ECONNREFUSED): is the kubelet running")
    fails("/" + "x" * 200, "a socket's path has at most 107 bytes")


@pytest.mark.parametrize("args,word", [(["--timeout", "0"], "timeout"), (["-o", "yaml"], "yaml"), (["web"], "web")])
def test_usage_errors_exit_with_2(path, args, word):
    done = run(path, *args)
    assert done.returncode == 2 and word in done.stderr and done.stdout == ""
