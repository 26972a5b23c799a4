# SPDX-License-Identifier: Apache-2.0
"""`unirail ipam serve` against Python's HTTP client and raw sockets, with crashes, and with plugins that use it. Most
tests need no namespace; the last part attaches pods through the server."""
import collections
import concurrent.futures
import contextlib
import fcntl
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest
from lab import BINARY, UnixConnection, ns_add, ns_del, ns_path, run
from report import follow, wait, wait_started

POOLS = "".join(f"[pool rail{i}]\nsubnet = 172.16.{i}.0/24\nips = 172.16.{i}.10-172.16.{i}.250\n"
                f"gateway = 172.16.{i}.1\nreuse-delay = 0s\n" for i in range(1, 5))


class Server:
    def __init__(self, tmp, pools=POOLS):
        self.tmp, self.path = tmp, tmp / "sock"
        self.pools, self.state, self.log = tmp / "pools", tmp / "state", tmp / "log"
        self.pools.mkdir(exist_ok=True)
        (self.pools / "rails.conf").write_text(pools)
        self.process = None

    def options(self):
        return ["--socket", self.path, "--pool-dir", self.pools, "--state-dir", self.state,
                "--hostlocal-dir", self.tmp / "networks", "--config", self.tmp / "agent.conf", "--log-format", "json"]

    def start(self, *more, before=(), **kw):
        args = [str(a) for a in [*before, BINARY, "ipam", "serve", *self.options(), *more]]
        follow("ipam serve", self.log)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(args, stderr=log, **kw)
        wait_started(self.process, self.answers, "ipam serve answers", self.log)
        return self

    def answers(self):
        with contextlib.suppress(OSError):
            return self.request("GET", "/v1/ipam/healthy")[0] == 200
        return False

    def stop(self, sig=signal.SIGTERM, timeout=15):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(timeout) if self.process else 0
        self.process = None
        return status

    def request(self, method, target, body=None, **headers):
        c = UnixConnection(self.path)
        try:
            if body is not None:
                headers["Content-Type"] = "application/json"
                body = json.dumps(body)
            c.request(method, target, body, headers)
            r = c.getresponse()
            text = r.read()
            return r.status, json.loads(text) if text else None
        finally:
            c.close()

    def ok(self, *args):
        status, answer = self.request(*args)
        assert status == 200, (status, answer)
        return answer

    def raw(self, data=b""):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(str(self.path))
        s.sendall(data)
        return s

    def plan(self, container, *rails):
        body = {"containerID": container, "rails": [{"ifName": f"net{i}", "defaultIPv4IPPool": [r]}
                                                    for i, r in enumerate(rails or ["rail1", "rail2"])]}
        return self.request("POST", "/v1/unirail/pods/plan", body)

    def release(self, container):
        return self.ok("POST", "/v1/unirail/pods/release", {"containerID": container})["released"]

    def pool(self, *args):
        return run([BINARY, "pool", *args, "--pool-dir", self.pools, "--state-dir", self.state])

    def used(self):
        """Returns {address: record} of the addresses in use, which it reads from the journal instead of the server."""
        found = {}
        for pool in json.loads(self.pool("list", "-o", "json").stdout)["pools"]:
            shown = json.loads(self.pool("show", pool["name"], "-o", "json").stdout)
            found.update({r["address"]: r for r in shown["records"] if r["state"] == "used"})
        return found

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def reply(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := s.recv(65536):
            data += part
    s.close()
    return data


def addresses(answer):
    return [ip["address"].split("/")[0] for rail in answer["rails"] for ip in rail["ips"]]


def add_args(container, ifname="eth0", **more):
    return {"containerID": container, "ifName": ifname, "netNamespace": "/proc/1/ns/net", "podName": container,
            "podNamespace": "team", "podUID": "u-" + container, **more}


@pytest.fixture
def server(tmp_path):
    one = Server(tmp_path)
    yield one
    if one.process:
        one.stop(signal.SIGKILL)


@contextlib.contextmanager
def store_taken(server):
    """Holds the lock of the store, like a slow CNI process that uses the store directly."""
    server.state.mkdir(exist_ok=True)
    with open(server.state / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- the API, called by Python's HTTP client ---


def test_paths_of_spiderpools_api_are_served(server):
    server.start()
    for path in ("ipam/healthy", "runtime/startup", "runtime/readiness", "runtime/liveness"):
        assert server.request("GET", f"/v1/{path}") == (200, None)
    got = server.ok("POST", "/v1/ipam/ip", add_args("c1", defaultIPv4IPPool=["rail1"]))
    assert got == {"ips": [{"address": "172.16.1.10/24", "gateway": "172.16.1.1", "ipPool": "rail1",
                            "nic": "eth0", "version": 4}],
                   "routes": [{"dst": "0.0.0.0/0", "gw": "172.16.1.1", "ifName": "eth0"}]}
    seen = server.ok("GET", "/v1/workloadendpoint?podNamespace=team&podName=c1")
    assert seen["podUID"] == "u-c1" and seen["interfaces"][0]["ipv4"] == "172.16.1.10/24"
    assert server.request("DELETE", "/v1/ipam/ip", add_args("c1")) == (200, None)
    assert server.used() == {}
    status, text = server.request("POST", "/v1/ipam/ip", add_args("c1", defaultIPv4IPPool=["nope"]))
    assert status == 500 and isinstance(text, str) and "nope" in text
    body = add_args("c1")
    del body["ifName"]
    assert server.request("POST", "/v1/ipam/ip", body) == (422, {"code": 602, "message": "ifName in body is required"})


def test_errors_have_the_format_of_go_openapi(server):
    """The refusal of an invalid request is {"code", "message"}, which clients of the original's agent read. The 404 for an unknown pod
    is a string."""
    server.start()
    plain = {"Content-Type": "text/plain"}
    for method, target, body, status, code, contains in [
            ("GET", "/v1/nope", None, 404, 404, "path /v1/nope was not found"),
            ("GET", "/ipam/healthy", None, 404, 404, "path /ipam/healthy was not found"),
            ("PUT", "/v1/ipam/ip", {}, 405, 405, "method PUT is not allowed, but [POST,DELETE] are"),
            ("POST", "/v1/ipam/ip", None, 422, 602, "ipam-add-args in body is required"),
            ("POST", "/v1/ipam/ip", {}, 422, 602, "containerID in body is required"),
            ("POST", "/v1/ipam/ip", add_args(""), 422, 604, "containerID in body should be at least 1 chars long"),
            ("DELETE", "/v1/ipam/ips", {"containerID": "c"}, 422, 602, "podName in body is required"),
            ("GET", "/v1/workloadendpoint?podName=p", None, 422, 602, "podNamespace in query is required"),
            ("POST", "/v1/ipam/ip", [1], 400, 400, "expected an object"),
            ("POST", "/v1/ipam/ip", add_args("c", cleanGateway=7), 400, 400, "cleanGateway")]:
        got, answer = server.request(method, target, body)
        assert (got, answer["code"]) == (status, code) and contains in answer["message"], (method, target, got, answer)
        assert set(answer) == {"code", "message"}
    c = UnixConnection(server.path)
    c.request("POST", "/v1/ipam/ip", "{}", plain)
    r = c.getresponse()
    assert r.status == 415 and json.loads(r.read())["code"] == 415
    c.request("PUT", "/v1/ipam/ip")  # on the same connection, which the server does not close after the error 415
    r = c.getresponse()
    assert r.status == 405 and r.getheader("Allow") == "POST,DELETE" and r.read()
    c.close()
    status, text = server.request("GET", "/v1/workloadendpoint?podNamespace=team&podName=p")
    assert (status, text) == (404, "SpiderEndpoint not found for pod team/p")
    assert server.used() == {}


def test_get_request_with_a_body_is_accepted(server):
    (server.tmp / "agent.conf").write_text("[coordinator]\nmode = underlay\nhijackCIDR = 169.254.0.0/16\n")
    server.start()
    got = server.ok("GET", "/v1/coordinator/config", {"podName": "p", "podNamespace": "ns"})
    assert got["mode"] == "underlay" and got["hijackCIDR"] == ["169.254.0.0/16"] and got["tunePodRoutes"] is True
    assert server.request("GET", "/v1/coordinator/config")[0] == 422


def test_connection_is_reused_and_chunks_are_read(server):
    server.start()
    c = UnixConnection(server.path)
    for i in range(50):
        body = json.dumps(add_args(f"c{i}", defaultIPv4IPPool=["rail1"])).encode()
        # http.client sends an iterable in chunks
        c.request("POST", "/v1/ipam/ip", iter([body[:7], body[7:]]), {"Content-Type": "application/json"},
                  encode_chunked=True)
        r = c.getresponse()
        assert r.status == 200 and r.read()
    c.close()
    assert len(server.used()) == 50


def test_usage_errors_are_refused(server):
    for args, word in ((["ipam"], "no command"), (["ipam", "serv"], "serv"), (["ipam", "serve", "--sokcet", "/x"], "--sokcet"),
                       (["ipam", "serve", "/x"], "/x"), (["ipam", "serve", "--log-level", "loud"], "loud"),
                       (["ipam", "serve", "--max-connections", "0"], "0")):
        p = run([BINARY, *args], check=False)
        assert p.returncode == 2 and word in p.stderr and p.stderr.count("\n") == 1, p.stderr
    for option in ("--socket", "--pool-dir", "--state-dir", "--pid-file"):
        p = run([BINARY, "ipam", "serve", *server.options(), option, "relative"], check=False)
        assert p.returncode == 2 and f"{option[2:]} is 'relative', expected an absolute path" in p.stderr


def test_help_lists_the_options():
    p = run([BINARY, "ipam", "serve", "--help"])
    assert "--socket" in p.stdout and "--hostlocal-dir" in p.stdout


# --- hostile ---

HOSTILE = [
    b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\n\n", b"\0" * 100, b"GET  / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n", b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_malformed_requests_are_refused(server, data):
    server.start()
    s = server.raw()
    with contextlib.suppress(BrokenPipeError):
        s.sendall(data)
    answer = reply(s)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 ") and head[9:10] in b"45" and b"Connection: close" in head, answer
    assert set(json.loads(body)) == {"code", "message"}
    assert server.answers() and server.used() == {}


def test_request_in_single_bytes_is_answered(server):
    server.start()
    body = json.dumps(add_args("c1", defaultIPv4IPPool=["rail1"])).encode()
    s = server.raw()
    for b in (b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body):
        s.send(bytes([b]))
    assert b"172.16.1.10/24" in reply(s)


def test_silent_and_slow_clients_delay_no_other_client(server):
    server.start("--max-connections", "50")
    slow = [server.raw(b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Le") for _ in range(20)]
    silent = [server.raw() for _ in range(100)]
    began = time.monotonic()
    for i in range(50):
        assert server.plan(f"c{i}")[0] == 200
    assert time.monotonic() - began < 5
    # At the connection limit the server closes the oldest connections that have not sent the complete head of a request, and accepts new
    # ones. On the remaining connections, heads time out after ten seconds, however many bytes the clients send.
    for s in slow:
        s.settimeout(15)
    until = time.monotonic() + 9
    while time.monotonic() < until:
        for s in slow[:10]:
            with contextlib.suppress(OSError):
                s.send(b"x")
        time.sleep(0.5)
    for s in slow:
        with contextlib.suppress(ConnectionResetError):
            answer = reply(s)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408 "), answer
    assert all(reply(s) == b"" for s in silent)
    assert server.process.poll() is None


def test_slow_requests_time_out_below_the_connection_limit(server):
    """Each slow client gets an error, however many bytes it sends."""
    server.start("--max-connections", "50")
    slow = [server.raw(b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Le") for _ in range(20)]
    for s in slow:
        s.settimeout(15)
    until = time.monotonic() + 9
    while time.monotonic() < until:
        for s in slow[:10]:
            s.send(b"x")
        time.sleep(0.5)
    assert all(reply(s).startswith(b"HTTP/1.1 408 ") for s in slow)
    assert server.process.poll() is None


def test_connection_over_the_limit_gets_status_503(server):
    server.start("--max-connections", "10")
    busy = [server.raw(b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n") for _ in range(10)]
    answer = reply(server.raw(b"GET /v1/ipam/healthy HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in answer
    busy.pop().close()
    wait(server.answers, "the server accepts a connection")
    for s in busy:
        s.close()


def test_connection_limit_leaves_descriptors_for_the_store(server):
    """If the process may open 50 descriptors, the server accepts at most 10 concurrent connections, so that the store can open its
    files."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))

    server.start(preexec_fn=limit)
    assert any(e["level"] == "warn" and e.get("connections") == 10 for e in server.lines())
    for s in [server.raw(b"GET") for _ in range(60)]:
        s.close()
    wait(server.answers, "the server accepts a connection")
    held = [server.raw(b"GET") for _ in range(9)]
    assert server.plan("c1")[0] == 200
    for s in held:
        s.close()


def test_body_over_the_limit_is_refused(server):
    """A body over 1 MiB is refused for its Content-Length or, if it comes in chunks, once it exceeds 1 MiB. A body of 1 MiB is read."""
    server.start()
    head = b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    answer = reply(server.raw(head + b"Content-Length: 1048577\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 413 ") and b'"code":413' in answer, answer
    s = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(64):
            s.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    assert reply(s).startswith(b"HTTP/1.1 413 ")
    body = json.dumps(add_args("c1", defaultIPv4IPPool=["rail1"])).encode().ljust(1 << 20)
    answer = reply(server.raw(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    assert answer.startswith(b"HTTP/1.1 200 "), answer


def test_disconnected_clients_affect_no_other_client(server):
    """A client disconnects before the end of its request, before the response, or during it: no other client is delayed, and no address
    is allocated for an incomplete request, or for a client that disconnects before the server processes its request."""
    server.start("--log-level", "debug")
    body = json.dumps(add_args("gone", defaultIPv4IPPool=["rail1"])).encode()
    whole = b"POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for cut in (1, 20, len(whole) - len(body), len(whole) - 1):
        server.raw(whole[:cut]).close()
    with store_taken(server):
        waiting = [server.raw(whole) for _ in range(20)]
        wait(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) >= 20 + 8, "the server has 20 connections")
        for s in waiting:
            s.close()
        assert server.answers()
    # Requests are answered in their order, so the earlier ones are finished.
    assert server.plan("c1", "rail2")[0] == 200
    assert list(server.used()) == ["172.16.2.10"]
    # Each client requests 40 answers of 6 kB, and reads only 1 kB.
    for i in range(16):
        assert server.request("POST", "/v1/ipam/ip", add_args("p", f"net{i}", defaultIPv4IPPool=["rail3"]))[0] == 200
    asked = b"GET /v1/workloadendpoint?podNamespace=team&podName=p HTTP/1.1\r\nHost: x\r\n\r\n"
    readers = [server.raw(asked * 40) for _ in range(5)]
    for s in readers:
        assert s.recv(1024).startswith(b"HTTP/1.1 200")
        s.close()
    assert server.plan("c2", "rail2")[0] == 200
    wait(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) < 15, "the server closes the connections")
    assert server.stop() == 0


def test_processes_of_other_users_are_refused(server):
    server.start()
    assert server.path.stat().st_mode & 0o7777 == 0o600
    code = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            "s.send(b'GET /v1/ipam/healthy HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nprint(s.recv(4096).decode())")
    as_other_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c", code]
    for folder in [server.tmp, *server.tmp.parents]:
        if folder.stat().st_mode & 0o1 == 0:
            folder.chmod(folder.stat().st_mode | 0o1)
    p = run([*as_other_user, server.path], check=False)
    assert p.returncode != 0 and "PermissionError" in p.stderr
    server.path.chmod(0o666)
    p = run([*as_other_user, server.path])
    assert p.stdout.startswith("HTTP/1.1 403 Forbidden")
    assert json.loads(p.stdout.partition("\n\n")[2]) == {
        "code": 403, "message": "only root and the user of this server may send requests"}
    refused = [e for e in server.lines() if e["msg"] == "connection refused"]
    assert [(e["level"], e["uid"]) for e in refused] == [("warn", 65534)]
    assert server.answers()


# --- concurrent requests, and processes that use the store directly ---


def all_different(answers):
    counted = collections.Counter(ip for a in answers for ip in addresses(a))
    assert [ip for ip, n in counted.items() if n > 1] == []
    return set(counted)


def test_hundred_concurrent_clients_get_distinct_addresses(server):
    server.start()
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        got = list(pool.map(lambda i: server.plan(f"c{i}", "rail1", "rail2", "rail3", "rail4"), range(100)))
    assert [s for s, _ in got] == [200] * 100
    assert all_different(a for _, a in got) == set(server.used())
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        assert list(pool.map(lambda i: server.release(f"c{i}"), range(100))) == [4] * 100
    assert server.used() == {}


@pytest.fixture
def direct(server, plugins):
    """Runs the IPAM plugin spiderpool as a process that uses the server's store directly: direct("ADD", container)."""
    ns = ns_add("direct")
    yield lambda command, container: one_direct(server, plugins, ns, command, container)
    ns_del(ns)


def one_direct(server, plugins, ns, command, container):
    conf = {"cniVersion": "1.0.0", "name": "net", "type": "macvlan",
            "ipam": {"type": "spiderpool", "pool_dir": str(server.pools), "state_dir": str(server.state),
                     "hostlocal_dir": str(server.tmp / "networks"), "default_ipv4_ippool": ["rail1"]}}
    env = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": ns_path(ns),
           "CNI_IFNAME": "net0", "CNI_PATH": str(plugins), "PATH": os.environ["PATH"]}
    p = subprocess.run([str(plugins / "spiderpool")], input=json.dumps(conf), env=env, text=True,
                       capture_output=True, timeout=60)
    assert p.returncode == 0, p.stdout
    return json.loads(p.stdout)["ips"][0]["address"].split("/")[0] if command == "ADD" else None


def test_server_and_plugin_processes_share_a_store(server, direct):
    server.start()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        candidate = [pool.submit(server.plan, f"s{i}", "rail1") for i in range(100)]
        reference = [pool.submit(direct, "ADD", f"d{i}") for i in range(60)]
        got = [addresses(f.result()[1])[0] for f in candidate] + [f.result() for f in reference]
    assert len(got) == len(set(got)) == 160 and set(got) == set(server.used())
    # The plugin releases addresses that the server allocated, and the server those of the plugin.
    for i in range(20):
        direct("DEL", f"s{i}")
        assert server.release(f"d{i}") == 1
    assert len(server.used()) == 120


def test_plugin_process_gets_the_lock_while_the_server_is_busy(server, direct):
    server.start()
    stop = threading.Event()

    def press(k):
        n = 0
        while not stop.is_set():
            server.plan(f"busy{k}-{n % 5}", "rail2")
            server.release(f"busy{k}-{n % 5}")
            n += 1
        return n

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        pressing = [pool.submit(press, k) for k in range(8)]
        worst = 0
        try:
            for i in range(10):
                began = time.monotonic()
                direct("ADD", f"d{i}")
                worst = max(worst, time.monotonic() - began)
        finally:
            stop.set()
        assert sum(f.result() for f in pressing) > 20
    assert worst < 5  # a process gives up after 30 seconds without the lock


def test_server_waits_for_the_stores_lock(server):
    server.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with store_taken(server):
            waiting = pool.submit(server.plan, "c1")
            for _ in range(20):
                assert server.answers()
            with pytest.raises(concurrent.futures.TimeoutError):
                waiting.result(0.3)
        assert waiting.result(10)[0] == 200


# --- crashes ---


def test_killed_server_loses_no_allocated_address(server):
    """The addresses in a response stay allocated to its client, a client that got no response can retry, and no address is allocated
    twice."""
    held = {}
    for turn in range(6):
        server.start()
        answered, cut = {}, []

        def one(i):
            name = f"t{turn}-{i}"
            try:
                status, answer = server.plan(name, "rail1", "rail2")
                assert status == 200, answer
                answered[name] = addresses(answer)
            except (OSError, http.client.HTTPException):
                cut.append(name)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(30)]
        for t in threads:
            t.start()
        time.sleep(0.002 + 0.006 * turn)
        server.stop(signal.SIGKILL)
        for t in threads:
            t.join()
        held.update(answered)
        used = server.used()
        for name, ips in held.items():
            assert all(used[ip]["containerId"] == name for ip in ips), (name, ips)
        # A pod has both addresses or none.
        assert set(collections.Counter(r["containerId"] for r in used.values()).values()) <= {2}
        server.start()  # the socket of the killed server still exists
        for name in cut:
            status, answer = server.plan(name, "rail1", "rail2")
            assert status == 200
            had = {ip for ip, r in used.items() if r["containerId"] == name}
            assert not had or had == set(addresses(answer))
            held[name] = addresses(answer)
        server.stop()
    every = [ip for ips in held.values() for ip in ips]
    assert len(every) == len(set(every)) and set(every) == set(server.used())
    server.start()
    for name in held:
        assert server.release(name) == 2
    assert server.used() == {}
    assert server.pool("check").returncode == 0


def test_second_server_is_refused(server):
    server.start()
    p = run([BINARY, "ipam", "serve", *server.options()], check=False)
    assert p.returncode == 1 and "another server uses" in p.stderr and p.stderr.count("\n") == 1
    assert server.answers()


def test_socket_of_a_dead_server_is_taken_over(server):
    server.start()
    server.stop(signal.SIGKILL)
    assert server.path.is_socket() and not server.answers()
    server.start()
    assert server.answers()


def test_socket_on_which_another_program_listens_is_refused(server):
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(server.path))
    other.listen()
    p = run([BINARY, "ipam", "serve", *server.options()], check=False)
    assert p.returncode == 1 and "another program listens" in p.stderr
    other.close()
    server.start()


def test_full_disk_fails_requests_without_allocation(server):
    folder = server.tmp / "small"
    folder.mkdir()
    server.state = folder / "state"
    script = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    server.start(before=["unshare", "-m", "--propagation", "private", "sh", "-c", script, folder])
    inside = f"/proc/{server.process.pid}/root{folder}"
    given = [addresses(server.plan("before")[1])]
    with contextlib.suppress(OSError), open(f"{inside}/filler", "wb") as f:
        while True:
            f.write(b"x" * 4096)
            f.flush()
    status, answer = 200, None
    for i in range(200):
        status, answer = server.plan(f"c{i}", "rail3")
        if status != 200:
            break
        given.append(addresses(answer))
    assert status == 500 and answer["code"] == 5 and "No space left on device (ENOSPC)" in answer["message"], answer
    assert "free space" in answer["message"]
    assert server.answers()
    # No address of the failed request is allocated.
    assert server.ok("POST", "/v1/unirail/pods/check", {"containerID": f"c{i}"})["rails"] == []
    os.unlink(f"{inside}/filler")
    given.append(addresses(server.plan(f"c{i}", "rail3")[1]))
    every = [ip for ips in given for ip in ips]
    assert len(every) == len(set(every))
    assert server.release("before") == 2


# --- signals ---


def test_pools_are_reloaded_by_sighup(server):
    server.start()
    assert addresses(server.plan("c1", "rail1")[1]) == ["172.16.1.10"]
    file = server.pools / "rails.conf"
    file.write_text(POOLS + "[pool more]\nsubnet = 10.9.0.0/24\nips = 10.9.0.7\n")
    assert server.plan("c2", "more")[0] == 500
    server.process.send_signal(signal.SIGHUP)
    wait(lambda: server.plan("c2", "more")[0] == 200, "the server allocates from the new pool")
    # Invalid pools change nothing, and the log names the file and the line.
    file.write_text(POOLS.replace("172.16.1.10-", "172.17.1.10-"))
    server.process.send_signal(signal.SIGHUP)
    wait(lambda: [e for e in server.lines() if e["level"] == "error"], "the server logs an error")
    error = [e for e in server.lines() if e["level"] == "error"][-1]
    assert "keeping the current" in error["msg"] and "rails.conf:3" in error["error"]
    assert addresses(server.plan("c3", "rail1")[1]) == ["172.16.1.11"]
    assert addresses(server.plan("c2", "more")[1]) == ["10.9.0.7"]


def test_settings_are_reloaded_by_sighup(server):
    conf = server.tmp / "agent.conf"
    conf.write_text("[coordinator]\nmode = underlay\n")
    server.start()

    def mode():
        return server.ok("GET", "/v1/coordinator/config", {"podName": "p", "podNamespace": "ns"})["mode"]

    assert mode() == "underlay"
    conf.write_text("[coordinator]\nmode = overlay\n")
    server.process.send_signal(signal.SIGHUP)
    wait(lambda: mode() == "overlay", "the server applies the new settings")
    conf.write_text("[coordinator]\nmode = sideways\n")
    server.process.send_signal(signal.SIGHUP)
    wait(lambda: [e for e in server.lines() if e["level"] == "error"], "the server logs an error")
    error = [e for e in server.lines() if e["level"] == "error"][-1]
    assert "keeping the current" in error["msg"] and "agent.conf:2" in error["error"] and "sideways" in error["error"]
    assert mode() == "overlay"


def test_invalid_pools_at_the_start_are_reported(server):
    (server.pools / "rails.conf").write_text("[pool x]\nsubnet = 172.16.1.0/24\nips = 1.1.1.1\n")
    server.start()
    status, answer = server.plan("c1")
    assert status == 500 and "rails.conf:3" in answer["message"]
    assert server.request("GET", "/v1/runtime/readiness")[0] == 500
    assert server.release("c1") == 0


def test_pending_requests_are_answered_after_sigterm(server):
    server.start()
    idle = server.raw(b"GET /v1/ipam/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.recv(100).startswith(b"HTTP/1.1 200")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        with store_taken(server):
            asked = [pool.submit(server.plan, f"c{i}") for i in range(4)]
            wait(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) >= 10, "the server has the connections")
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            wait(lambda: not server.path.exists(), "the server removes its socket")
            assert idle.recv(100) == b""
        assert [f.result()[0] for f in asked] == [200] * 4
    assert server.process.wait(5) == 0
    assert len(server.used()) == 8


def test_next_server_starts_while_the_previous_one_ends(server, tmp_path):
    server.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with store_taken(server):
            asked = pool.submit(server.plan, "c1")
            time.sleep(0.2)
            old = server.process
            old.send_signal(signal.SIGTERM)
            wait(lambda: not server.path.exists(), "the server removes its socket")
        assert asked.result()[0] == 200
    server.start()
    assert old.wait(5) == 0 and server.answers()
    assert addresses(server.plan("c1")[1]) == ["172.16.1.10", "172.16.2.10"]


def test_server_writes_its_pid_and_drops_privileges(server):
    pid = server.tmp / "pid"
    server.start("--pid-file", pid)
    wait(pid.exists, "the pid file exists")
    assert int(pid.read_text()) == server.process.pid
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{server.process.pid}/status").read().splitlines()
                  if ":\t" in line)
    only_files = f"{1 << 1:016x}"  # CAP_DAC_OVERRIDE
    assert status["CapEff"] == status["CapPrm"] == status["CapBnd"] == only_files
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2" or "AddressSanitizer" in server.log.read_text()
    assert addresses(server.plan("c1", "rail1")[1]) == ["172.16.1.10"]
    assert server.stop() == 0
    assert not pid.exists() and not server.path.exists()
    assert "the sandbox refused" not in server.log.read_text()


def test_sandbox_can_be_switched_off(server):
    server.start("--sandbox", "off")
    assert "Seccomp:\t0\n" in open(f"/proc/{server.process.pid}/status").read()
    lines = [line for line in map(json.loads, server.log.read_text().splitlines()) if line["msg"] == "no sandbox"]
    assert [line["reason"] for line in lines] == ["sandbox = off"]
    assert server.stop() == 0
    r = run([BINARY, "ipam", "serve", *server.options()], env={"UNIRAIL_SANDBOX": "maybe"}, check=False)
    assert r.returncode == 2 and "variable UNIRAIL_SANDBOX: sandbox is 'maybe', expected one of on|off|log" in r.stderr, r
    r = run([BINARY, "ipam", "serve", *server.options()], env={"SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS": "maybe"}, check=False)
    assert r.returncode == 2 and "release-conflict-ips is 'maybe', expected one of yes|no" in r.stderr, r


def test_socket_of_systemd_is_inherited(server):
    """systemd keeps the socket open: requests that arrive while no server runs are answered by the next server."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(server.path))
    listening.listen()
    for turn in range(2):
        first = server.raw(b"GET /v1/ipam/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&%d' % listening.fileno()
        server.start(before=["bash", "-c", script, "sh"], pass_fds=[listening.fileno()])
        assert reply(first).startswith(b"HTTP/1.1 200 OK")
        assert addresses(server.plan("c1", "rail1")[1]) == ["172.16.1.10"]
        assert server.stop() == 0
        assert server.path.exists()


def test_damaged_journal_is_reported_at_the_start(server):
    server.state.mkdir()
    (server.state / "journal").write_text("rubbish\nrubbish\n")
    p = run([BINARY, "ipam", "serve", *server.options()], check=False)
    assert p.returncode == 1 and "line 1 is damaged" in p.stderr and "pool check" in p.stderr
    assert not server.path.exists()


# --- plugins that get addresses from the server ---


@pytest.fixture
def served(lab, tmp_path):
    """A lab whose pods get their addresses from a server."""
    lab.rail_pools()
    one = Server.__new__(Server)
    one.tmp, one.path, one.log, one.process = tmp_path, tmp_path / "sock", tmp_path / "log", None
    one.pools, one.state = lab.pool_dir, lab.state_dir
    one.start()
    yield one
    if one.process:
        one.stop(signal.SIGKILL)


def at(server, *pools):
    return {"type": "spiderpool", "default_ipv4_ippool": list(pools), "ipam_unix_socket_path": str(server.path)}


def test_macvlan_gets_its_address_from_the_server(lab, served):
    pod = lab.pod()
    conf = lab.macvlan("rail0", at(served, "rail0"))
    r = lab.add(conf, pod)
    assert r["ips"] == [{"address": "172.16.1.10/24", "gateway": "172.16.1.1", "interface": 0}]
    lab.ok("CHECK", {**conf, "prevResult": r}, pod)
    assert lab.used()["172.16.1.10"]["containerId"] == pod.id
    lab.delete(conf, pod)
    assert lab.used() == {}


def test_addresses_of_all_rails_are_requested_together(lab, served):
    served.stop()
    served.start("--log-level", "debug")
    pod = lab.pod()
    networks = [lab.network(nic, "eth0" if i == 0 else f"net{i}", ipam=at(served, nic)) for i, nic in enumerate(lab.nics)]
    conf = lab.rails(networks)
    before = len(served.lines())
    result = lab.add(conf, pod, ifname="eth0")
    assert result["ips"]
    asked = [e["target"] for e in served.lines()[before:] if e["msg"] == "answered"]
    assert asked == ["/v1/unirail/pods/plan"]
    assert sorted(lab.used()) == ["172.16.0.10", "172.16.1.10", "172.16.2.10"]
    lab.delete(conf, pod, ifname="eth0")
    assert lab.used() == {}


def test_missing_server_fails_add_and_del(lab, served):
    pod = lab.pod()
    conf = lab.macvlan("rail0", at(served, "rail0"))
    lab.add(conf, pod)
    served.stop(signal.SIGKILL)
    lab.fail("ADD", conf, lab.pod(), contains=["unhealthy spiderpool-agent backend, failed to check", "Connection refused (ECONNREFUSED)"])
    # DEL fails, so that the runtime calls DEL again until the address is released.
    lab.fail("DEL", conf, pod, code=11, contains="unhealthy spiderpool-agent backend, failed to check")
    assert list(lab.used()) == ["172.16.1.10"]
    served.start()
    lab.delete(conf, pod)
    assert lab.used() == {}


def test_pods_get_addresses_after_a_server_is_killed_during_their_add(lab, served):
    conf = lab.macvlan("rail0", at(served, "rail0"))
    pods = [lab.pod(f"p{i}") for i in range(12)]
    running = [(p, lab.popen("ADD", conf, p)) for p in pods]
    time.sleep(0.02)
    served.stop(signal.SIGKILL)
    served.start()
    for pod, p in running:
        p.communicate(timeout=60)
        if p.returncode != 0:  # a runtime calls DEL after a failed ADD, and then ADD again
            lab.delete(conf, pod)
            lab.add(conf, pod)
    used = lab.used()
    assert sorted(r["containerId"] for r in used.values()) == sorted(p.id for p in pods)
    for pod in pods:
        lab.delete(conf, pod)
    assert lab.used() == {}


def test_address_in_conflict_is_quarantined_by_the_server(lab, served):
    """The server quarantines an address that another host uses, and the pod gets another one."""
    run(["ip", "-n", lab.fabric, "addr", "add", "172.16.1.10/24", "dev", "br-rail0"])
    conf = lab.macvlan("rail0", {**at(served, "rail0"), "enable_ip_conflict_detection": True})
    r = lab.add(conf, lab.pod())
    assert r["ips"][0]["address"] == "172.16.1.11/24"
    assert lab.records()["172.16.1.10"]["state"] == "quarantined"
