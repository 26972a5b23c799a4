# SPDX-License-Identifier: Apache-2.0
"""Simulates the agent by a Python HTTP server that answers requests for a pod's networks; addresses come from a real `unirail ipam
serve`."""
import contextlib
import http.server
import json
import pathlib
import socketserver
import threading
import time

import pytest
from test_ipam_serve import Server


class Addresses(Server):
    """Uses the pools and the store of the lab."""

    def __init__(self, lab, path):
        self.tmp, self.path, self.log, self.process = lab.tmp, path, lab.tmp / "serve.log", None
        self.pools, self.state = lab.pool_dir, lab.state_dir


class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("local", 0)


class PodAgent:
    def __init__(self, lab):
        self.lab, self.path = lab, lab.tmp / "agent.sock"
        self.addresses = Addresses(lab, lab.tmp / "serve.sock").start()
        self.answer, self.status = {"networks": []}, 200
        self.requests, self.reports, self.planned, self.hangs = [], [], [], False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.send(200, b"")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send(*outer.serve(self.path, body))

            def send(self, status, text):
                with contextlib.suppress(BrokenPipeError):  # the client does not read the answer to a report
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

        self.server = Unix(str(self.path), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def serve(self, path, body):
        while self.hangs:
            time.sleep(0.1)
        if path == "/v1/unirail/pods/networks":
            self.requests.append(body)
            return self.status, json.dumps(self.answer).encode()
        if path == "/v1/unirail/pods/report":
            self.reports.append(body)
            body = {"containerID": body["containerID"]}
        if path == "/v1/unirail/pods/plan":
            self.planned.append(body)
        status, answer = self.addresses.request("POST", path, body)
        return status, json.dumps(answer).encode()

    def networks(self, *nets, **more):
        """nets: (nad, ifname, config, and further keys). A network is trusted unless its key "trusted" says otherwise."""
        self.answer = {"networks": [{"nad": nad, "name": nad.split("/")[1], **({"ifname": ifname} if ifname else {}),
                                     "config": config, "trusted": True, **(rest[0] if rest else {})}
                                    for nad, ifname, config, *rest in nets],
                       "replacesFirst": False, "warnings": [], "coordinator": {},
                       "stateDir": str(self.lab.state_dir), **more}

    def stop(self):
        """Stops the HTTP server and `unirail ipam serve`, and removes the HTTP server's socket."""
        self.hangs = False
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            pathlib.Path(self.path).unlink()
            self.addresses.stop()

    close = stop


@pytest.fixture
def agent(lab):
    lab.rail_pools()
    one = PodAgent(lab)
    yield one
    one.close()
