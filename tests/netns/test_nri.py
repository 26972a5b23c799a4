# SPDX-License-Identifier: Apache-2.0
"""`unirail nri` against a simulated container runtime: NRI frames, ttrpc and messages as containerd sends them."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess

import pytest
from protobuf import field, number, parse
from report import follow

UNIRAIL = os.environ.get("UNIRAIL") or str(pathlib.Path(__file__).parents[2] / "build" / "unirail")
PLUGIN, RUNTIME = 1, 2  # connection IDs in the frame header: of calls to the plugin, of calls to the runtime
UNLIMITED = 2**64 - 1
SERVICE = "nri.pkg.api.v1alpha1.Plugin"
CREATE_CONTAINER = 1 << 3
RAILS = {"version": 1, "rails": [
    {"ifname": f"net{i}", "device": f"mlx5_{i}", "port": 1, "gidIndex": 5, "gid": f"::ffff:172.16.{i}.20", "network": f"rail{i}",
     "containerID": "x"} for i in range(1, 9)]}
HCAS = ",".join(f"mlx5_{i}:1" for i in range(1, 9))


def pod(uid="pod-1", **annotations):
    body = field(1, "sandbox") + field(2, "job-0") + field(3, uid) + field(4, "ml")
    for key, value in annotations.items():
        body += field(6, field(1, key) + field(2, value))
    return body + field(8, field(1, b"") + field(5, field(1, "network") + field(2, "/run/netns/x"))) + number(9, 4711)


def container(devices=(), env=(), rlimits=()):
    body = field(1, "ctr") + field(2, "sandbox") + field(3, "train") + b"".join(field(8, e) for e in env)
    body += field(9, field(1, "/data"))  # a mount, which is skipped
    body += field(11, b"".join(field(2, field(1, d) + field(2, "c") + number(3, 231) + number(4, 192)) for d in devices))
    return body + b"".join(field(13, field(1, t) + number(2, hard) + number(3, soft)) for t, hard, soft in rlimits)


def create(uid="pod-1", annotations=None, **how):
    return field(1, pod(uid, **(annotations or {}))) + field(2, container(**how))


# --- the runtime's side ---

class Runtime:
    def __init__(self, connection, step=None):
        self.socket, self.step, self.stream = connection, step, 1
        self.socket.settimeout(10)
        self.buffers = {PLUGIN: b"", RUNTIME: b""}

    def send(self, connection, stream, kind, payload):
        message = struct.pack(">IIBB", len(payload), stream, kind, 0) + payload
        frame = struct.pack(">II", connection, len(message)) + message
        for at in range(0, len(frame), self.step or len(frame)):
            self.socket.sendall(frame[at:at + (self.step or len(frame))])

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            assert part, "the plugin closed the connection"
            data += part
        return data

    def receive(self, connection):
        """(stream, type, payload) of the next message of that connection."""
        while True:
            data = self.buffers[connection]
            if len(data) >= 10:
                size, stream, kind, _ = struct.unpack(">IIBB", data[:10])
                if len(data) >= 10 + size:
                    self.buffers[connection] = data[10 + size:]
                    return stream, kind, data[10:10 + size]
            to, size = struct.unpack(">II", self.exactly(8))
            self.buffers[to] += self.exactly(size)

    def registered(self, status=b""):
        stream, kind, payload = self.receive(RUNTIME)
        assert kind == 1
        request = dict(parse(payload))
        assert (request[1], request[2]) == (b"nri.pkg.api.v1alpha1.Runtime", b"RegisterPlugin")
        self.send(RUNTIME, stream, 2, status)
        return dict(parse(request[3]))

    def call(self, method, message, service=SERVICE):
        """Calls a method of the plugin; returns the message of the answer, or (code, text) of an error."""
        stream, self.stream = self.stream, self.stream + 2
        self.send(PLUGIN, stream, 1, field(1, service) + field(2, method) + field(3, message) + number(4, 2 * 10**9))
        answered, kind, payload = self.receive(PLUGIN)
        assert (answered, kind) == (stream, 2)
        answer = dict(parse(payload))
        status = dict(parse(answer.get(1, b"")))
        return (status[1], status[2].decode()) if status.get(1) else answer.get(2, b"")

    def configure(self):
        self.registered()
        answer = self.call("Configure", field(2, "containerd") + field(3, "v2.0.0") + number(4, 5000) + number(5, 2000))
        return dict(parse(answer))[1]

    def adjust(self, message):
        """Sends CreateContainer; returns ({variable: value}, [(limit type, hard, soft)]) of the plugin's adjustment."""
        answer = dict(parse(self.call("CreateContainer", message)))
        env, limits = {}, []
        for tag, value in parse(answer.get(1, b"")):
            parts = dict(parse(value))
            if tag == 4:
                env[parts[1].decode()] = parts[2].decode()
            else:
                assert tag == 7, f"the plugin changes field {tag} of the container"
                limits.append((parts[1].decode(), parts[2], parts[3]))
        return env, limits


def write_rails(root, uid, text):
    where = root / "unirail" / "pods" / uid
    where.mkdir(parents=True)
    (where / "rails.json").write_text(text)


@contextlib.contextmanager
def plugin(tmp_path, *options, fd=None, name="nri"):
    """The plugin with tmp_path/run as its /run."""
    run = tmp_path / "run"
    run.mkdir(exist_ok=True)
    binary = [UNIRAIL, "nri"]
    env = dict(os.environ)
    if name != "nri":
        (tmp_path / name).symlink_to(UNIRAIL)
        binary = [str(tmp_path / name)]
    if fd is not None:
        env["NRI_PLUGIN_SOCKET"] = str(fd)
    log = open(tmp_path / "log", "w+")
    follow("nri", tmp_path / "log")
    script = f'mount --bind "{run}" /run && exec "$@"'
    p = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", *binary, *options], stderr=log, env=env,
                         pass_fds=[fd] if fd is not None else [])
    try:
        yield p
    finally:
        if p.poll() is None:
            p.terminate()
        p.wait(10)
        log.close()


@contextlib.contextmanager
def started_by_runtime(tmp_path, *options, step=None):
    candidate, reference = socket.socketpair()
    with candidate, reference, plugin(tmp_path, *options, fd=reference.fileno(), name="10-unirail") as p:
        reference.close()
        runtime = Runtime(candidate, step)
        assert runtime.configure() == CREATE_CONTAINER
        yield runtime, p


VERBS = ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"]


def test_container_gets_variables_of_eight_rails(tmp_path):
    write_rails(tmp_path / "run", "pod-1", json.dumps(RAILS))
    with started_by_runtime(tmp_path) as (runtime, _):
        env, limits = runtime.adjust(create(devices=VERBS))
    assert limits == [("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)]
    assert env["NCCL_IB_HCA"] == "=" + HCAS
    assert env["UCX_NET_DEVICES"] == env["NVSHMEM_HCA_LIST"] == HCAS
    assert env["NCCL_IB_GID_INDEX"] == "5"
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("=eth0", "eth0")
    assert "NCCL_NET" not in env


def test_container_without_rdma_is_unchanged(tmp_path):
    write_rails(tmp_path / "run", "pod-1", json.dumps(RAILS))
    with started_by_runtime(tmp_path) as (runtime, _):
        assert runtime.adjust(create(devices=["/dev/infiniband/rdma_cm", "/dev/null"])) == ({}, [])


def test_variables_and_limits_of_the_container_stay(tmp_path):
    write_rails(tmp_path / "run", "pod-1", json.dumps(RAILS))
    with started_by_runtime(tmp_path) as (runtime, _):
        env, limits = runtime.adjust(create(devices=VERBS, env=["NCCL_IB_HCA=mlx5_7"],
                                            rlimits=[("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)]))
    assert "NCCL_IB_HCA" not in env and "UCX_NET_DEVICES" in env
    assert limits == []


def test_annotation_nccl_net_sets_variable_nccl_net(tmp_path):
    with started_by_runtime(tmp_path) as (runtime, _):
        env, limits = runtime.adjust(create(devices=VERBS, annotations={"unirail.io/nccl-net": "IB"}))
    assert env == {"NCCL_NET": "IB"}
    assert limits


@pytest.mark.parametrize("text", ["", "{", '{"version": 7, "rails": []}', pytest.param(" " * 300000 + "{}", id="too large")])
def test_container_with_a_damaged_rails_file_gets_only_the_memlock_limit(tmp_path, text):
    write_rails(tmp_path / "run", "pod-1", text)
    with started_by_runtime(tmp_path) as (runtime, _):
        assert runtime.adjust(create(devices=VERBS)) == ({}, [("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)])
    assert "a container starts without the environment of its rails" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("uid", ["", ".", "..", "../../etc", "a/b"])
def test_invalid_uid_is_not_used_as_a_path(tmp_path, uid):
    write_rails(tmp_path / "run", "pod-1", json.dumps(RAILS))
    with started_by_runtime(tmp_path) as (runtime, _):
        env, limits = runtime.adjust(create(uid=uid, devices=VERBS))
    assert env == {} and limits


def test_synchronize_and_events_of_old_and_new_runtimes_are_answered_and_unknown_methods_refused(tmp_path):
    with started_by_runtime(tmp_path) as (runtime, _):
        assert dict(parse(runtime.call("Synchronize", field(1, pod()) + field(2, container(VERBS)) + number(3, 1)))) == {2: 1}
        assert runtime.call("Synchronize", field(1, pod())) == b""
        for method in ("StateChange", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PostCreateContainer"):
            assert runtime.call(method, number(1, 1) + field(2, pod())) == b""
        assert runtime.call("Explode", b"") == (12, SERVICE + "/Explode is not served by unirail")
        assert runtime.call("Configure", b"", service="other.Service")[0] == 12
        assert runtime.call("CreateContainer", b"\xff\xff")[0] == 3


def test_frames_in_single_bytes_are_read(tmp_path):
    write_rails(tmp_path / "run", "pod-1", json.dumps(RAILS))
    with started_by_runtime(tmp_path, step=1) as (runtime, _):
        env, _ = runtime.adjust(create(devices=VERBS))
    assert env["NCCL_IB_HCA"] == "=" + HCAS


def test_large_synchronize_message_is_read(tmp_path):
    """The message has hundreds of pods and nearly 4 MiB."""
    pods = b"".join(field(1, pod(f"pod-{i}", annotation="x" * 8000)) for i in range(480))
    assert 3 << 20 < len(pods) < 4 << 20
    with started_by_runtime(tmp_path) as (runtime, p):
        assert runtime.call("Synchronize", pods) == b""
        status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
    rss = int(status.split("VmRSS:")[1].split()[0])
    assert rss < 4096, f"{rss} KiB are resident after a large message"


def test_plugin_that_the_runtime_started_exits_when_the_runtime_closes_the_connection(tmp_path):
    with started_by_runtime(tmp_path) as (runtime, p):
        runtime.socket.close()
        assert p.wait(10) == 0
    assert "the NRI connection to the container runtime ended" in (tmp_path / "log").read_text()


def test_message_over_the_limit_ends_the_connection(tmp_path):
    with started_by_runtime(tmp_path) as (runtime, p):
        runtime.socket.sendall(struct.pack(">II", PLUGIN, 10) + struct.pack(">IIBB", (4 << 20) + 1, 1, 1, 0))
        assert p.wait(10) == 0
    assert "a ttrpc message of 4194305 bytes, the limit is 4194304" in (tmp_path / "log").read_text()


def accept(listener):
    listener.settimeout(20)
    return listener.accept()[0]


def test_plugin_with_option_socket_connects_again_after_a_runtime_restart(tmp_path):
    (tmp_path / "run").mkdir()
    path = str(tmp_path / "run" / "nri.sock")
    with plugin(tmp_path, "--socket", "/run/nri.sock") as p:
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as listener:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                listener.bind(path)
                listener.listen()
                with accept(listener) as connection:
                    runtime = Runtime(connection)
                    assert runtime.configure() == CREATE_CONTAINER
        assert p.poll() is None
        p.send_signal(signal.SIGTERM)
        assert p.wait(10) == 0
    text = (tmp_path / "log").read_text()
    assert text.count("NRI plugin registered") == 2


def test_refusal_of_the_runtime_is_logged(tmp_path):
    candidate, reference = socket.socketpair()
    with candidate, plugin(tmp_path, fd=reference.fileno()) as p:
        reference.close()
        runtime = Runtime(candidate)
        registration = runtime.registered(field(1, number(1, 9) + field(2, "index 10 is in use")))
        assert (registration[1], registration[2]) == (b"unirail", b"10")
        candidate.close()
        p.wait(10)
    text = (tmp_path / "log").read_text()
    assert "the container runtime refuses unirail's NRI plugin" in text and "index 10 is in use" in text


def test_missing_nri_is_logged_once(tmp_path):
    with plugin(tmp_path, "--socket", "/run/absent.sock") as p:
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(2.5)  # the plugin does not exit; its second attempt to connect follows only after 15 s (NRI_RETRY_MS)
    assert (tmp_path / "log").read_text().count("cannot connect to the container runtime's NRI socket") == 1


def test_invalid_socket_descriptor_is_refused():
    p = subprocess.run([UNIRAIL, "nri"], env={"NRI_PLUGIN_SOCKET": "x"}, capture_output=True, text=True)
    assert (p.returncode, p.stderr) == (1, "unirail nri: variable NRI_PLUGIN_SOCKET is 'x', expected a descriptor number\n")
    p = subprocess.run([UNIRAIL, "nri"], env={"NRI_PLUGIN_SOCKET": "99"}, capture_output=True, text=True)
    assert (p.returncode, p.stderr) == (1, "unirail nri: descriptor 99 of NRI_PLUGIN_SOCKET: Bad file descriptor (EBADF)\n")
