# SPDX-License-Identifier: Apache-2.0
"""`unirail controller` as a process, and what it is asked over TCP."""
import http.client
import json
import os
import pathlib
import signal
import subprocess

from cluster import BINARY, die_with_parent, free_port, wait

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/unirail-controller"


class Controller:
    """One replica; everything it has is in one folder."""

    def __init__(self, folder, kubeconfig, ns, name="c", **env):
        self.folder, self.kubeconfig, self.ns, self.name = pathlib.Path(folder), kubeconfig, ns, name
        self.env = env
        self.folder.mkdir(parents=True, exist_ok=True)
        self.conf, self.log = self.folder / "controller.conf", self.folder / "log"
        self.health, self.metrics_port = free_port(), free_port()
        self.webhook_port = 0  # none: where nobody is reached, nothing is taken
        self.process = None

    def start(self, *more, ready=True):
        self.conf.touch()
        args = [BINARY, "controller", "--config", self.conf, "--name", self.name, "--namespace", self.ns,
                "--kubeconfig", self.kubeconfig, "--listen", "127.0.0.1", "--health-port", self.health,
                "--metrics-port", self.metrics_port, "--log-format", "json", "--webhook-port", self.webhook_port,
                "--hold", "0s", "--default-coordinator", "no", "--default-network", "no", *more]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([str(a) for a in args], stderr=log, stdout=log, env={
                "PATH": os.environ["PATH"], "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""), **self.env}, preexec_fn=die_with_parent)
        if ready:
            self.ready()
        return self

    def ready(self, seconds=30):
        try:
            wait(lambda: self.process.poll() is not None or self.get("/readyz")[0] == 200, seconds)
            assert self.process.poll() is None
        except AssertionError as e:
            raise AssertionError(self.log.read_text()[-4000:]) from e
        return self

    def leads(self, seconds=30):
        wait(lambda: self.metrics()["unirail_controller_leads"] == 1, seconds)
        return self

    def get(self, path, port=None):
        c = http.client.HTTPConnection("127.0.0.1", port or self.health, timeout=20)
        try:
            c.request("GET", path)
            r = c.getresponse()
            return r.status, r.read().decode()
        finally:
            c.close()

    def metrics(self):
        """{name with labels: value}"""
        status, text = self.get("/metrics", self.metrics_port)
        assert status == 200
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if not line.startswith("#")}

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def said(self, words):
        return [x for x in self.lines() if words in x["msg"] + " " + x.get("error", "")]

    def stop(self, sig=signal.SIGTERM, timeout=20):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(timeout) if self.process else 0
        self.process = None
        return status

    def kill(self):
        return self.stop(signal.SIGKILL)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
