# SPDX-License-Identifier: Apache-2.0
"""A real etcd and kube-apiserver on free ports of loopback, with all files in one directory; the environment variable UNIRAIL_KUBE
selects the version of Kubernetes. etcd and the API server end with the test process, even if SIGKILL ends that process; the next
start removes the directory of a killed run."""
import base64
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "netns"))
import report  # noqa: E402
from h2_server import Pki  # noqa: E402
from proxy import Proxy  # noqa: E402,F401
from report import wait  # noqa: E402

BINARY = pathlib.Path(os.environ.get("UNIRAIL", HERE.parent.parent / "build" / "unirail"))
CLIENT = pathlib.Path(os.environ.get("UNIRAIL_CLIENT", HERE.parent.parent / "build/obj/release/tests/cluster/client"))
PREFIX = "unirail-cluster-"
KUBE = os.environ.get("UNIRAIL_KUBE", "1.20")
FETCH = {"1.20": "fetch", "1.34": "fetch-1.34"}
# For versions whose script in FETCH builds no kubelet, scheduler and controller manager: the script that builds them.
FETCH_NODE = {"1.20": "fetch-kubelet"}
OLD = KUBE == "1.20"
NAMES = "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1"


def programs(node=False):
    """The directory of etcd, kube-apiserver and kubectl, with node=True also of kubelet, scheduler and controller manager. The first call
    on a machine fetches the programs."""
    script = FETCH_NODE.get(KUBE, FETCH[KUBE]) if node else FETCH[KUBE]
    return pathlib.Path(subprocess.run([HERE / script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def sweep():
    """Removes the directories of killed runs: each directory whose name has the pid of a process that does not exist."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        pid = int(folder.name[len(PREFIX):].split("-")[0])
        if not pathlib.Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    """port: the port of the API server, by default a free one. more: further options of the API server; with the default it listens only
    on loopback."""

    def __init__(self, port=None, more=("--disable-admission-plugins=ServiceAccount", "--bind-address=127.0.0.1")):
        sweep()
        self.bin = programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.pki = Pki(self.folder / "pki")
        self.pki.leaf("server", NAMES)
        self.admin = self.pki.leaf("admin", "", "clientAuth", subject="/O=system:masters/CN=admin")
        key = self.folder / "pki" / "sa.key"
        self.pki.run("genrsa", "-out", key, "2048")
        self.pki.run("rsa", "-in", key, "-pubout", "-out", key.with_suffix(".pub"))
        self.etcd_port, self.peer_port, self.port = free_port(), free_port(), port or free_port()
        self.more = more
        self.etcd = self.apiserver = None
        self.start_etcd()
        self.start_apiserver()

    # --- processes ---

    def spawn(self, name, *args):
        path = self.folder / f"{name}.log"
        report.follow(name, path)
        log = open(path, "ab")
        return subprocess.Popen([self.bin / name, *map(str, args)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                cwd=self.folder, preexec_fn=die_with_parent)

    def start_etcd(self):
        me, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self.etcd = self.spawn("etcd", "--name", "t", "--data-dir", self.folder / "etcd", "--listen-client-urls", me,
                               "--advertise-client-urls", me, "--listen-peer-urls", peer,
                               "--initial-advertise-peer-urls", peer, "--initial-cluster", f"t={peer}",
                               "--unsafe-no-fsync", "--log-level", "warn")
        # Waits for etcd first: an API server ends if it does not reach etcd for 20 s, and on a busy machine etcd may start more slowly.
        report.wait_started(self.etcd, lambda: self.etcd_call("maintenance/status"), "etcd is ready", self.folder / "etcd.log", 120)

    def start_apiserver(self, *more, ready=True):
        pki = self.folder / "pki"
        self.apiserver = self.spawn(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", *self.more,
            f"--secure-port={self.port}", *(["--insecure-port=0"] if OLD else []), "--advertise-address=10.200.0.1",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={pki}/server.crt",
            f"--tls-private-key-file={pki}/server.key", f"--client-ca-file={pki}/ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki}/sa.key", f"--service-account-key-file={pki}/sa.pub",
            "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--profiling=false",
            "--allow-privileged=true", *more)
        if ready:
            report.wait_started(self.apiserver, lambda: self.request("GET", "/readyz", raw=True) == (200, b"ok"),
                                "the API server is ready", self.folder / "kube-apiserver.log", 120)

    def stop_apiserver(self, how=signal.SIGKILL):
        self.apiserver.send_signal(how)
        self.apiserver.wait()

    def close(self):
        for p in (self.apiserver, self.etcd):
            if p and p.poll() is None:
                p.kill()
                p.wait()
        report.ended(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop_etcd(self):
        self.etcd.kill()
        self.etcd.wait()

    def back_up(self):
        """Copies etcd's data for restore(), while etcd and the API server are stopped; starts both again."""
        shutil.rmtree(self.folder / "backup", ignore_errors=True)
        self.stop_apiserver()
        self.stop_etcd()
        shutil.copytree(self.folder / "etcd", self.folder / "backup")
        self.start_etcd()
        self.start_apiserver()

    def restore(self):
        """Restores the data that back_up() copied. As after `etcdutl snapshot restore`, later changes are lost, and revisions continue
        from those of the copy."""
        self.stop_apiserver()
        self.stop_etcd()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "backup", self.folder / "etcd")
        self.start_etcd()
        self.start_apiserver()

    def etcd_call(self, what, **body):
        c = http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=30)
        try:
            c.request("POST", f"/v3/{what}", json.dumps(body))
            r = c.getresponse()
            answer = json.loads(r.read())
        finally:
            c.close()
        assert r.status == 200, answer
        return answer

    def compact(self):
        """etcd drops all revisions but the present one."""
        key = base64.b64encode(b"x").decode()
        revision = self.etcd_call("kv/range", key=key)["header"]["revision"]
        self.etcd_call("kv/compaction", revision=revision, physical=True)

    # --- requests by Python's HTTP and TLS, independent of unirail ---

    def request(self, *args, **kw):
        """(status, answer). Retries for 10 s while an API server of 1.34 answers 429 for the kind of a CRD that was just created."""
        for _ in range(50):
            status, answer = self.request_once(*args, **kw)
            if status != 429 or "(re)initializing" not in str(answer):
                break
            time.sleep(0.2)
        return status, answer

    def request_once(self, method, path, body=None, type="application/json", raw=False, token=None):
        context = ssl.create_default_context(cafile=self.pki.ca)
        headers = {"Content-Type": type}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        else:
            context.load_cert_chain(*self.admin)
        c = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=30)
        try:
            c.request(method, path, None if body is None else json.dumps(body), headers)
            r = c.getresponse()
            text = r.read()
        finally:
            c.close()
        return (r.status, text) if raw else (r.status, json.loads(text))

    def ok(self, method, path, body=None, **kw):
        status, answer = self.request(method, path, body, **kw)
        assert status < 300, (method, path, answer)
        return answer

    def namespace(self, name):
        self.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def config_map(self, ns, name, data=None, **meta):
        return self.ok("POST", f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": name, **meta},
                                                                       "data": data or {}})

    def account(self, ns, name, rules=()):
        """Creates a service account with the permissions `rules` in all namespaces; returns its token."""
        self.ok("POST", f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
        if rules:
            rbac = "/apis/rbac.authorization.k8s.io/v1"
            self.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": f"{ns}-{name}"}, "rules": list(rules)})
            self.ok("POST", f"{rbac}/clusterrolebindings", {
                "metadata": {"name": f"{ns}-{name}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{ns}-{name}"},
                "subjects": [{"kind": "ServiceAccount", "namespace": ns, "name": name}]})
        return self.token(ns, name)

    def token(self, ns, name):
        return self.ok("POST", f"/api/v1/namespaces/{ns}/serviceaccounts/{name}/token",
                       {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                        "spec": {"expirationSeconds": 600}})["status"]["token"]

    def run_kubectl(self, *args, text=None, timeout=120):
        """Runs kubectl as admin; returns the finished process."""
        return subprocess.run([self.bin / "kubectl", "--kubeconfig", self.admin_config(), *map(str, args)], input=text,
                              capture_output=True, text=True, timeout=timeout)

    def kubectl(self, *args, check=True, **kw):
        """Runs kubectl and returns its output; the command must succeed unless check is false."""
        p = self.run_kubectl(*args, **kw)
        assert not check or p.returncode == 0, (args, p.stdout, p.stderr)
        return p.stdout

    # --- access for unirail ---

    def kubeconfig(self, path, user=None, cluster=None):
        """Writes to `path` a kubeconfig in kubectl's format, with the CA certificate and the admin's certificate and key as embedded
        data. `user` replaces the admin's fields; `cluster` replaces or adds fields of the cluster."""
        data = lambda p: base64.b64encode(pathlib.Path(p).read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": data(self.pki.ca),
                   **(cluster or {})}
        user = user or {"client-certificate-data": data(self.admin[0]), "client-key-data": data(self.admin[1])}
        lines = ["apiVersion: v1", "kind: Config", "clusters:", "- cluster:"]
        lines += [f"    {k}: {v}" for k, v in cluster.items()]
        lines += ["  name: c", "contexts:", "- context:", "    cluster: c", "    user: u", "  name: x",
                  "current-context: x", "preferences: {}", "users:", "- name: u", "  user:"]
        lines += [f"    {k}: {v}" for k, v in user.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def through(self, proxy, path, user=None):
        return self.kubeconfig(path, user, {"server": f"https://127.0.0.1:{proxy.port}"})

    def admin_config(self):
        path = self.folder / "admin.conf"
        return path if path.exists() else self.kubeconfig(path)

    def unirail(self, *args, kubeconfig=None, env=None, timeout=60):
        """Runs the binary, as admin unless another kubeconfig is given."""
        kubeconfig = kubeconfig or self.admin_config()
        return subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=timeout,
                              env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), **(env or {})})


def memory(pid, what="RssAnon"):
    """A field of /proc/PID/status in KiB. RssAnon: the resident memory without pages of files. VmHWM: the maximum so far of the resident
    memory, with pages of files."""
    return int(re.search(rf"{what}:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


class Process:
    """A process that prints a line for each action; collects the lines."""

    def __init__(self, *args, **kw):
        self.lines, self.log = [], []
        self.p = subprocess.Popen([*map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=die_with_parent, **kw)
        report.follow(f"{pathlib.Path(args[0]).name} {args[1]} with pid {self.p.pid}", self.log)
        for pipe, into in ((self.p.stdout, self.lines), (self.p.stderr, self.log)):
            threading.Thread(target=self.read, args=(pipe, into), daemon=True).start()

    def read(self, pipe, into):
        for line in pipe:
            into.append(line.rstrip("\n"))

    def close(self):
        self.p.kill()
        self.p.wait()
        report.ended(self.log)


class Candidate(Process):
    """A candidate for the Lease 'x' of a namespace."""

    def __init__(self, kubeconfig, ns, name):
        super().__init__(CLIENT, "lease", ns, "x", name, env={"KUBECONFIG": str(kubeconfig)})

    def names(self):
        return [x.split()[0] for x in self.lines]

    def at(self, name):
        """The CLOCK_MONOTONIC time in ms at which the candidate last printed a line that begins with `name`."""
        return [int(x.split()[1]) for x in self.lines if x.startswith(name)][-1]

    @staticmethod
    def now():
        return time.clock_gettime(time.CLOCK_MONOTONIC) * 1000

    def wait(self, name, seconds=20, times=1):
        def printed():
            assert self.names().count(name) >= times, self.lines
            return True
        wait(printed, f"the candidate prints '{name}' {times} times", seconds)
        return self


class Watch(Process):
    """`unirail kube get ... --watch`; collects its lines."""

    def __init__(self, kubeconfig, *args):
        super().__init__(BINARY, "kube", "get", *args, "--watch", "--kubeconfig", kubeconfig)

    def changes(self):
        """(change, name) of each printed line except SYNCED."""
        return [(x.split()[0], x.split()[2].split("/")[-1]) for x in self.lines if not x.startswith("SYNCED")]

    def synced(self, seconds=30):
        wait(lambda: any(x.startswith("SYNCED") for x in self.lines), "the watch prints SYNCED", seconds)
        return self

    def wait(self, *want, seconds=30):
        def reported():
            assert self.changes() == list(want)
            return True
        wait(reported, f"the watch reports {want}", seconds)

    def memory(self, what="RssAnon"):
        return memory(self.p.pid, what)
