# SPDX-License-Identifier: Apache-2.0
"""kube-controller-manager, which creates the pods of Deployments and other workloads."""
from cluster import OLD, free_port, programs

# Names of controllers that every version of Kubernetes accepts.
WORKLOADS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "garbagecollector")
NO_HTTP = ["--port=0"] if OLD else []


class Manager:
    """kube-controller-manager with the admin's kubeconfig; it runs only the controllers named in `controllers`."""

    def __init__(self, cluster, *more, controllers=WORKLOADS):
        programs(node=True)
        self.process = cluster.spawn(
            "kube-controller-manager", f"--kubeconfig={cluster.admin_config()}", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", "--leader-elect=false", f"--controllers={','.join(controllers)}",
            f"--service-account-private-key-file={cluster.folder}/pki/sa.key", f"--root-ca-file={cluster.pki.ca}",
            f"--flex-volume-plugin-dir={cluster.folder}/flex", "--authentication-skip-lookup=true",
            *NO_HTTP, *more)

    def close(self):
        self.process.kill()
        self.process.wait()
