# SPDX-License-Identifier: Apache-2.0
"""Watches report each change exactly once, also after restarts, compaction, a restore of etcd, failures of the server and rotated
credentials."""
import shutil
import signal
import socket

import cluster as clusters

MAPS = "/api/v1/namespaces/{}/configmaps"
READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["/api/*"], "verbs": ["get"]}]


def label(cluster, ns, name, value):
    cluster.ok("PATCH", f"{MAPS.format(ns)}/{name}", {"metadata": {"labels": {"x": value}}},
               type="application/merge-patch+json")


def delete(cluster, ns, name):
    cluster.ok("DELETE", f"{MAPS.format(ns)}/{name}")


def test_changes_of_objects_are_reported(cluster, ns, watch):
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "b")
    label(cluster, ns, "a", "1")
    delete(cluster, ns, "b")
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"))


def test_only_selected_objects_are_reported(cluster, ns, watch):
    """An object that no longer matches is reported as deleted, one that begins to match as new."""
    cluster.config_map(ns, "a", labels={"x": "1"})
    cluster.config_map(ns, "b", labels={"x": "2"})
    w = watch("cm", "-n", ns, "-l", "x=1")
    label(cluster, ns, "a", "2")
    label(cluster, ns, "b", "1")
    w.wait(("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"))


def test_field_selector_applies_to_a_list_from_the_servers_cache(cluster, ns, watch):
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns, "--cached", "--field-selector", "metadata.name!=c")
    cluster.config_map(ns, "b")
    cluster.config_map(ns, "c")
    w.wait(("ADDED", "a"), ("ADDED", "b"))


def test_watches_of_several_kinds_share_a_connection(cluster, ns, watch, proxy):
    w = watch("cm,secrets,pods,endpoints,events,serviceaccounts", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))
    assert proxy.connections == 1


def accepts_psk(record):
    """Whether a TLS record is a ServerHello that accepts the session of a client's ticket (RFC 8446, 4.2.11)."""
    at = 5 + 4 + 2 + 32  # lengths in bytes: record header, handshake header, version, random
    at += 1 + record[at] + 2 + 1  # session id, cipher, compression
    end, at = at + 2 + int.from_bytes(record[at:at + 2], "big"), at + 2
    kinds = []
    while at < end:
        kinds.append(int.from_bytes(record[at:at + 2], "big"))
        at += 4 + int.from_bytes(record[at + 2:at + 4], "big")
    assert record[5] == 2 and 43 in kinds, kinds  # handshake type 2: ServerHello; 43: extension supported_versions, which TLS 1.3 requires
    return 41 in kinds


class Tapped(clusters.Proxy):
    """Records for each connection whether it resumed a TLS session."""

    def __init__(self, to):
        self.resumed = []
        super().__init__(to)

    def copy(self, a, b, out):
        peek = socket.MSG_PEEK | socket.MSG_WAITALL
        head = b"" if out else a.recv(5, peek)
        if len(head) == 5:
            self.resumed.append(accepts_psk(a.recv(5 + int.from_bytes(head[3:], "big"), peek)))
        super().copy(a, b, out)


def test_session_is_resumed_at_the_api_server(cluster, ns, closing, tmp_path):
    """The client resumes the TLS session after each broken connection, until a restarted API server has new ticket keys."""
    tap = closing(Tapped(cluster.port))
    w = closing(clusters.Watch(cluster.through(tap, tmp_path / "tap.conf"), "cm", "-n", ns)).synced()
    assert tap.resumed == [False]
    for i in range(2):
        tap.cut()
        tap.mend()
        cluster.config_map(ns, f"c{i}")
        w.wait(*(("ADDED", f"c{k}") for k in range(i + 1)))
    assert tap.resumed == [False, True, True]
    cluster.stop_apiserver()
    cluster.start_apiserver()
    cluster.config_map(ns, "d")
    w.wait(("ADDED", "c0"), ("ADDED", "c1"), ("ADDED", "d"))
    assert tap.resumed == [False, True, True, False]


def test_watch_continues_after_a_killed_api_server(cluster, ns, watch):
    """No event is reported twice or lost, and existing objects stay in the cache."""
    cluster.config_map(ns, "a")
    w = watch("cm", "-n", ns)
    cluster.stop_apiserver(signal.SIGKILL)
    cluster.start_apiserver()
    cluster.config_map(ns, "b")
    delete(cluster, ns, "a")
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"))


def test_watch_continues_after_a_stopped_api_server(cluster, ns, watch):
    """The API server sends GOAWAY before it stops."""
    w = watch("cm", "-n", ns)
    cluster.stop_apiserver(signal.SIGTERM)
    cluster.start_apiserver()
    cluster.config_map(ns, "b")
    w.wait(("ADDED", "b"))


def test_changes_while_disconnected_are_reported(cluster, ns, watch, proxy):
    cluster.config_map(ns, "a")
    cluster.config_map(ns, "b")
    w = watch("cm", "-n", ns)
    proxy.cut()
    label(cluster, ns, "a", "1")
    delete(cluster, ns, "b")
    proxy.mend()
    w.wait(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"))


def test_watch_continues_after_a_compaction(cluster, ns, watch, proxy):
    """The server no longer has the changes since the watch was interrupted (status 410): the watch derives the changes from a new list."""
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
    assert any("no longer has the changes since this version" in x for x in w.log)


def test_watch_reports_changes_by_a_restore_of_etcd(cluster, ns, watch):
    """After the restore of a snapshot the objects created later are missing, and new objects get the same resource versions again."""
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


def test_client_ends_the_connection_to_an_unresponsive_server(cluster, ns, watch, proxy):
    """The connection stays open, but the server sends no data: its missing answer to a ping ends the connection."""
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))  # wait until the watch has been answered, since a request without an answer has a shorter timeout
    proxy.stalled = True
    cluster.config_map(ns, "b")
    clusters.wait(lambda: any("no data from the server for" in x for x in w.log),
                  "the watch reports that the server sends no data", 70)
    proxy.stalled = False
    w.wait(("ADDED", "a"), ("ADDED", "b"))


def test_slow_server_does_not_end_the_watch(cluster, ns, watch, proxy):
    proxy.delay = 0.3
    w = watch("cm", "-n", ns)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"))


def test_rotated_token_is_used(cluster, ns, watch, proxy, tmp_path):
    """The kubelet writes a new token; the old one is no longer valid."""
    token = tmp_path / "token"
    token.write_text(cluster.account(ns, "old", READ))
    w = watch("cm", "-n", ns, user={"tokenFile": token})
    token.write_text(cluster.account(ns, "new", READ))
    cluster.ok("DELETE", f"/api/v1/namespaces/{ns}/serviceaccounts/old")
    proxy.cut()
    proxy.mend()
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)
    assert not any(token.read_text() in x for x in w.log)


def test_watch_continues_when_its_permission_is_restored(cluster, ns, watch, proxy):
    token = cluster.account(ns, "reader", READ)
    w = watch("cm", "-n", ns, user={"token": token})
    binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ns}-reader"
    was = cluster.ok("GET", binding)
    cluster.ok("DELETE", binding)
    proxy.cut()
    proxy.mend()
    clusters.wait(lambda: any("403 Forbidden" in x for x in w.log), "the watch reports the missing permission")
    del was["metadata"]["resourceVersion"], was["metadata"]["uid"]
    cluster.ok("POST", binding.rsplit("/", 1)[0], was)
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)


def test_watch_continues_after_its_ca_file_is_replaced(cluster, ns, closing, tmp_path):
    """The server's certificate comes from a new CA; the file with the CA's certificate is replaced a little later."""
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
        clusters.wait(lambda: any("not signed by the configured CA" in x for x in w.log), "the watch reports the unknown CA", 60)
        ca.write_bytes(new.ca.read_bytes())
        clusters.wait(lambda: any("watching again" in x for x in w.log), "the watch continues", 60)
    finally:
        cluster.stop_apiserver()
        cluster.start_apiserver()
    # The server's certificate is of the old CA again; the client trusts it once the file contains that CA.
    ca.write_bytes(cluster.pki.ca.read_bytes())
    cluster.config_map(ns, "a")
    w.wait(("ADDED", "a"), seconds=60)
