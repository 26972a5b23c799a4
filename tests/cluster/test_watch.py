# SPDX-License-Identifier: Apache-2.0
"""Collections kept in memory: through restarts, compaction, a set-back etcd, a dead server, rotated credentials."""
import shutil
import signal

import cluster as clusters

MAPS = "/api/v1/namespaces/{}/configmaps"
LOOK = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["/api/*"], "verbs": ["get"]}]


def label(cluster, ns, name, value):
    cluster.ok("PATCH", f"{MAPS.format(ns)}/{name}", {"metadata": {"labels": {"x": value}}},
               type="application/merge-patch+json")


def delete(cluster, ns, name):
    cluster.ok("DELETE", f"{MAPS.format(ns)}/{name}")


def test_changes(cluster, ns, watch):
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "b")
    label(cluster, ns, "a", "1")
    delete(cluster, ns, "b")
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"))


def test_only_what_the_server_selects(cluster, ns, watch):
    """An object that no longer fits is gone, one that begins to fit is new."""
    cluster.config_map(ns, "a", labels={"x": "1"})
    cluster.config_map(ns, "b", labels={"x": "2"})
    w = watch("cm", "-n", ns, "-l", "x=1")
    label(cluster, ns, "a", "2")
    label(cluster, ns, "b", "1")
    w.wait(("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"))


def test_from_the_servers_cache(cluster, ns, watch):
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns, "--cached", "--field-selector", "metadata.name!=c")
    cluster.config_map(ns, "b")
    cluster.config_map(ns, "c")
    w.wait(("ADDED", "a"), ("ADDED", "b"))


def test_several_kinds_on_one_connection(cluster, ns, watch, proxy):
    w = watch("cm,secrets,pods,endpoints,events,serviceaccounts", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))
    assert proxy.connections == 1


def test_the_api_server_is_killed(cluster, ns, watch):
    """Nothing is told twice, nothing is lost, and what was is still there."""
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns)
    cluster.stop_apiserver(signal.SIGKILL)
    cluster.start_apiserver()
    cluster.config_map(ns, "b")
    delete(cluster, ns, "a")
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"))


def test_the_api_server_is_stopped_gracefully(cluster, ns, watch):
    """It sends GOAWAY first."""
    w = watch("cm", "-n", ns)
    cluster.stop_apiserver(signal.SIGTERM)
    cluster.start_apiserver()
    cluster.config_map(ns, "b")
    w.wait(("ADDED", "b"))


def test_changes_while_nobody_looked(cluster, ns, watch, proxy):
    cluster.config_map(ns, "a")
    cluster.config_map(ns, "b")
    w = watch("cm", "-n", ns)
    proxy.cut()
    label(cluster, ns, "a", "1")
    delete(cluster, ns, "b")
    proxy.mend()
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"))


def test_compaction(cluster, ns, watch, proxy):
    """The changes since are forgotten (410): a new list tells the difference."""
    for name in "abcd":
        cluster.config_map(ns, name)
    w = watch("cm", "-n", ns)
    proxy.cut()
    label(cluster, ns, "b", "1")
    delete(cluster, ns, "c")
    delete(cluster, ns, "d")
    cluster.config_map(ns, "d")
    cluster.config_map(ns, "e")
    cluster.stop_apiserver()
    cluster.compact()
    cluster.start_apiserver()
    cluster.config_map(ns, "f")
    proxy.mend()
    w.wait(*[("ADDED", x) for x in "abcd"], ("MODIFIED", "b"), ("DELETED", "d"), ("ADDED", "d"), ("ADDED", "e"),
           ("ADDED", "f"), ("DELETED", "c"))
    assert any("no longer knows the changes since" in x for x in w.log)


def test_etcd_is_set_back(cluster, ns, watch):
    """A snapshot is restored: what was made after it is gone, and its versions come again."""
    cluster.config_map(ns, "a")
    cluster.stop_apiserver()
    cluster.stop_etcd()
    shutil.copytree(cluster.folder / "etcd", cluster.folder / "snapshot")
    cluster.start_etcd()
    cluster.start_apiserver()
    w = watch("cm", "-n", ns)
    for name in "bcd":
        cluster.config_map(ns, name)
    w.wait(*[("ADDED", x) for x in "abcd"])
    cluster.stop_apiserver()
    cluster.stop_etcd()
    shutil.rmtree(cluster.folder / "etcd")
    (cluster.folder / "snapshot").rename(cluster.folder / "etcd")
    cluster.start_etcd()
    cluster.start_apiserver()
    w.wait(*[("ADDED", x) for x in "abcd"], *[("DELETED", x) for x in "bcd"], seconds=60)
    cluster.config_map(ns, "e")
    w.wait(*[("ADDED", x) for x in "abcd"], *[("DELETED", x) for x in "bcd"], ("ADDED", "e"))


def test_a_dead_server(cluster, ns, watch, proxy):
    """Connections stay open and nothing comes: a ping finds that out within 45 s."""
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))  # the watch is answered: a request that is not has a limit of its own, and comes first
    proxy.stalled = True
    cluster.config_map(ns, "b")
    clusters.wait(lambda: any("the server has said nothing for" in x for x in w.log), 70)
    proxy.stalled = False
    w.wait(("ADDED", "a"), ("ADDED", "b"))


def test_a_slow_server(cluster, ns, watch, proxy):
    proxy.delay = 0.3
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))


def test_a_rotated_token(cluster, ns, watch, proxy, tmp_path):
    """The kubelet writes a new token; the old one is worth nothing any more."""
    token = tmp_path / "token"
    token.write_text(cluster.account(ns, "old", LOOK))
    w = watch("cm", "-n", ns, user={"tokenFile": token})
    token.write_text(cluster.account(ns, "new", LOOK))
    cluster.ok("DELETE", f"/api/v1/namespaces/{ns}/serviceaccounts/old")
    proxy.cut()
    proxy.mend()
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)
    assert not any(token.read_text() in x for x in w.log)


def test_permission_taken_and_given_back(cluster, ns, watch, proxy):
    token = cluster.account(ns, "reader", LOOK)
    w = watch("cm", "-n", ns, user={"token": token})
    binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ns}-reader"
    was = cluster.ok("GET", binding)
    cluster.ok("DELETE", binding)
    proxy.cut()
    proxy.mend()
    clusters.wait(lambda: any("403 Forbidden" in x for x in w.log))
    del was["metadata"]["resourceVersion"], was["metadata"]["uid"]
    cluster.ok("POST", binding.rsplit("/", 1)[0], was)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)


def test_a_new_ca(cluster, ns, closing, tmp_path):
    """The server's certificate comes from a new CA, and the file that names the CA is replaced a little later."""
    ca = tmp_path / "ca.crt"
    ca.write_bytes(cluster.pki.ca.read_bytes())
    path = cluster.kubeconfig(tmp_path / "config")
    path.write_text("".join(f"    certificate-authority: {ca}\n" if "authority-data" in x else x
                            for x in path.read_text().splitlines(keepends=True)))
    w = closing(clusters.Watch(path, "cm", "-n", ns)).synced()
    new = clusters.Pki(tmp_path / "new")
    cert, key = new.leaf("server", clusters.NAMES)
    cluster.stop_apiserver()
    try:
        cluster.start_apiserver(f"--tls-cert-file={cert}", f"--tls-private-key-file={key}", ready=False)
        clusters.wait(lambda: any("not signed by the CA that was given" in x for x in w.log), 60)
        ca.write_bytes(new.ca.read_bytes())
        clusters.wait(lambda: any("watching again" in x for x in w.log), 60)
    finally:
        cluster.stop_apiserver()
        cluster.start_apiserver()
    # Back again: the old one is not taken any more, until the file has it.
    ca.write_bytes(cluster.pki.ca.read_bytes())
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)
