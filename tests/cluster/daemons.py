# SPDX-License-Identifier: Apache-2.0
"""Common parts of `unirail agent` and `unirail controller` as processes."""
import http.client
import json
import os
import pathlib
import signal
import subprocess

import report
from cluster import BINARY, die_with_parent, free_port


class Daemon:
    """One process, with all its files in one directory. `before`: a command that executes the program, for instance setpriv."""

    def __init__(self, title, folder, kubeconfig, **env):
        self.title, self.folder, self.kubeconfig, self.env = title, pathlib.Path(folder), kubeconfig, env
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "log"
        self.health, self.metrics_port = free_port(), free_port()
        self.process, self.before = None, ()

    def launch(self, applet, *args):
        args = [*self.before, BINARY, applet, "--kubeconfig", self.kubeconfig, "--listen", "127.0.0.1", "--health-port", self.health,
                "--metrics-port", self.metrics_port, "--log-format", "json", *args]
        report.follow(self.title, self.log)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([str(a) for a in args], stderr=log, stdout=log, env={
                "PATH": os.environ["PATH"], "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""), **self.env},
                preexec_fn=die_with_parent)

    def ready(self, seconds=30):
        def is_ready():
            answer = self.get(self.health, "/readyz")
            assert answer[0] == 200, answer
            return True
        report.wait_started(self.process, is_ready, f"{self.title} is ready", self.log, seconds)
        return self

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
        assert not self.log.exists() or "the sandbox refused" not in self.log.read_text()

    def confined(self):
        """Whether a seccomp filter is active and no_new_privs is set."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {"Seccomp:\t2", "NoNewPrivs:\t1"} <= set(lines)

    @staticmethod
    def get(port, path):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            c.request("GET", path)
            r = c.getresponse()
            return r.status, r.read().decode()
        finally:
            c.close()

    def metrics(self):
        """{name with labels: value}"""
        status, text = self.get(self.metrics_port, "/metrics")
        assert status == 200
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if not line.startswith("#")}

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def logged(self, contains):
        """The lines of the log with this text in their message or error."""
        return [x for x in self.lines() if contains in x["msg"] + " " + x.get("error", "")]

    def wait_logged(self, contains, seconds=30):
        return report.wait(lambda: self.logged(contains), f"{self.title} logs '{contains}'", seconds)
