# SPDX-License-Identifier: Apache-2.0
"""`unirail controller` as a process, and requests to it over TCP."""
from cluster import wait
from daemons import Daemon

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/unirail-controller"


class Controller(Daemon):
    """One replica."""

    def __init__(self, folder, kubeconfig, ns, name="c", **env):
        super().__init__(f"controller {name}", folder, kubeconfig, **env)
        self.ns, self.name, self.conf = ns, name, self.folder / "controller.conf"
        self.webhook_port = 0  # 0: no webhooks

    def start(self, *more, ready=True):
        self.conf.touch()
        self.launch("controller", "--config", self.conf, "--name", self.name, "--namespace", self.ns, "--webhook-port",
                    self.webhook_port, "--leader-grace", "0s", "--default-coordinator", "no", "--default-network", "no", *more)
        if ready:
            self.ready()
        return self

    def leads(self, seconds=30):
        wait(lambda: self.metrics()["unirail_controller_leader"] == 1, f"{self.title} leads", seconds)
        return self
