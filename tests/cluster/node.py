# SPDX-License-Identifier: Apache-2.0
"""A node with a real kubelet, containerd and runc, in separate namespaces; its network namespace is the caller's or that of the process
`net`. Its processes are in a pid namespace that ends with the test process; its files are in the cluster's directory. If the test process
is killed, files and control groups remain; the next start removes them."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import image
import report
from cluster import BINARY, HERE, OLD, die_with_parent, wait

GROUPS = pathlib.Path("/sys/fs/cgroup")
PREFIX = "unirail-cluster-"
IMAGES = ("busybox", "unirail")
PLUGINS = pathlib.Path("/usr/lib/cni")  # Debian's containernetworking-plugins

CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.local/busybox:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
{cri}  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
"""
# Debian's containerd 1.7 searches for CNI plugins in /usr/lib/cni by default; on this node the plugins are in /opt/cni/bin.
NRI = """  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
"""

# containerd's settings without NRI and with CDI.
CDI = """  enable_cdi = true
  cdi_spec_dirs = ["/var/run/cdi"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
"""

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: Webhook}}
tlsCertFile: {cert}
tlsPrivateKeyFile: {key}
cgroupDriver: cgroupfs
cgroupRoot: /{group}
failSwapOn: false
makeIPTablesUtilChains: false
readOnlyPort: 0
resolvConf: ""
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}}
imageGCHighThresholdPercent: 100
volumePluginDir: /var/lib/kubelet/volume-plugins
nodeStatusUpdateFrequency: 2s
kubeAPIQPS: 50
kubeAPIBurst: 100
"""
# The kubelet of Kubernetes 1.20 does not know the setting containerRuntimeEndpoint.
RUNTIME = "unix:///run/containerd/containerd.sock"
if not OLD:
    KUBELET += f"containerRuntimeEndpoint: {RUNTIME}\n"


def hierarchies():
    """The mounted hierarchies of cgroup v1. The kubelet's cgroupRoot must exist in each."""
    found = [d for d in GROUPS.iterdir() if d.is_dir() and (d / "cgroup.procs").exists()]
    assert (GROUPS / "memory").is_dir(), "a kubelet requires cgroup v1 with its memory controller on this machine"
    return found


def remove_groups(name):
    for top in hierarchies():
        for folder, _, _ in os.walk(top / name, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def sweep():
    for name in {folder.name for top in hierarchies() for folder in top.glob(PREFIX + "*")}:
        if not pathlib.Path(f"/proc/{name[len(PREFIX):].split('-')[0]}").exists():
            remove_groups(name)


def runtime(nri):
    """The directory of containerd (nri: a version with NRI and CDI), runc and busybox. The first call on a machine fetches them."""
    return pathlib.Path(subprocess.run([HERE / "fetch-node", *(["nri"] if nri else [])], check=True,
                                       stdout=subprocess.PIPE, text=True).stdout.strip())


class Node:
    """files: {path below /etc: text}; these files, and the images, exist before containerd starts. nri: containerd has NRI, and the node
    has a separate /dev with device nodes of eight RDMA devices. cdi: as nri, but with CDI instead of NRI. net: the pid of a process
    in the node's network namespace (None: the caller's namespace). server: the URL by which the kubelet reaches the API server from
    that namespace (None: the URL of the admin's kubeconfig)."""

    def __init__(self, cluster, address, files, name="n1", images=IMAGES, nri=False, cdi=False, net=None, server=None):
        sweep()
        self.net, self.server = net, server
        self.cluster, self.name, self.address = cluster, name, address
        self.folder, self.group = cluster.folder / name, f"{PREFIX}{os.getpid()}-{name}"
        self.process, self.nri, self.cdi = None, nri or cdi, cdi
        self.root = runtime(self.nri)
        self.lay_out(files, images)
        self.start()

    def lay_out(self, files, present):
        images, plugins = self.folder / "images", self.folder / "opt/cni/bin"
        for folder in (images, plugins):
            folder.mkdir(parents=True)
        for path, text in files.items():
            (self.folder / "etc" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "etc" / path).write_text(text)
        if "busybox" in present:
            (images / "busybox").write_bytes(image.busybox(self.root / "bin/busybox"))
        if "unirail" in present:
            (images / "unirail").write_bytes(image.unirail(BINARY))
        for plugin in PLUGINS.iterdir():  # beside unirail's programs, as on a real node
            shutil.copy(plugin, plugins)
        cert, key = self.cluster.pki.leaf(self.name, f"DNS:{self.name},IP:{self.address}", "clientAuth,serverAuth",
                                          subject=f"/O=system:nodes/CN=system:node:{self.name}")
        self.cluster.kubeconfig(self.folder / "kubeconfig", {"client-certificate": cert, "client-key": key},
                                {"server": self.server} if self.server else None)
        config = CONTAINERD.format(runc=self.root / "usr/sbin/runc", cri=CDI if self.cdi else "")
        (self.folder / "containerd.toml").write_text(config + (NRI if self.nri and not self.cdi else ""))
        if self.nri:
            (self.folder / "dev").mkdir()
        (self.folder / "kubelet.yaml").write_text(KUBELET.format(ca=self.cluster.pki.ca, cert=cert, key=key, group=self.group))
        for top in hierarchies():
            (top / self.group).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (top / name).exists():
                    (top / self.group / name).write_text((top / name).read_text())

    def start(self):
        kubelet = [self.cluster.bin / "kubelet", f"--kubeconfig={self.folder}/kubeconfig", f"--config={self.folder}/kubelet.yaml",
                   f"--hostname-override={self.name}", f"--node-ip={self.address}", "--v=2"]
        if OLD:
            kubelet += ["--container-runtime=remote", f"--container-runtime-endpoint={RUNTIME}"]
        init = [*(["nsenter", "-t", str(self.net), "-n"] if self.net else []), "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", HERE / "node-init",
                self.folder, self.name, *map(str, kubelet)]
        for name in ("init", "containerd", "kubelet"):
            report.follow(f"{name} of node {self.name}", self.folder / f"{name}.log")
        for name in ("agent", "controller"):
            report.follow(f"{name} of node {self.name}", self.folder / f"var/log/pods/unirail_unirail-{name}-*/*/*.log")
        with open(self.folder / "init.log", "ab") as log:
            self.process = subprocess.Popen(init, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.env(), preexec_fn=die_with_parent)

        def ready():
            node = self.cluster.ok("GET", f"/api/v1/nodes/{self.name}")
            assert any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"]), node["status"]
            return True
        report.wait_started(self.process, ready, f"node {self.name} is Ready", self.folder / "init.log", 120)

    def env(self):
        return {"PATH": f"{self.root}/usr/bin:{os.environ['PATH']}"}

    def pid(self):
        """The pid of the node's process 1, in the namespace of the test."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def run(self, *args, check=True, timeout=60, text=None):
        """Runs a command in the node's namespaces."""
        p = subprocess.run(["nsenter", "-t", str(self.pid()), "-m", "-n", "-p", "-u", "-i", *map(str, args)], input=text,
                           capture_output=True, text=True, timeout=timeout, env=self.env())
        assert not check or p.returncode == 0, (args, p.stdout, p.stderr)
        return p

    def kill(self, command):
        """Kills the processes of that name; the process that started them (node-init, or the kubelet for pods) starts them again."""
        found = re.findall(rf"^ *(\d+) (?:\S*/)?{re.escape(command)}(?: |$)", self.run("ps", "-eo", "pid,args").stdout, re.M)
        assert found, command
        self.run("kill", "-9", *found)

    def close(self):
        if self.process:
            for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                os.kill(int(child), 9)
            self.process.kill()
            self.process.wait()
            self.process = None

        def removed():
            remove_groups(self.group)
            return not any((top / self.group).exists() for top in hierarchies())
        wait(removed, f"control groups of node {self.name} are removed", 20)
