# SPDX-License-Identifier: Apache-2.0
"""Access to a real API server: certificates, tokens and permissions."""
import json
import os
import subprocess

import cluster as clusters
from h2_server import Pki

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]


def ran(r):
    assert r.returncode == 0, r.stderr
    return r.stdout


def refused(r, text):
    assert r.returncode == 1 and text in r.stderr, r.stderr
    assert r.stderr.count("\n") == 1


def test_server_version_is_printed(cluster):
    assert ran(cluster.unirail("kube", "version")).startswith(f"API server v{clusters.KUBE}.")


def test_objects_are_read_and_listed(cluster, ns):
    made = cluster.config_map(ns, "one", {"a": "b"})
    cluster.config_map(ns, "two")
    got = json.loads(ran(cluster.unirail("kube", "get", "cm", "one", "-n", ns, "-o", "json")))
    assert got == made
    lines = ran(cluster.unirail("kube", "get", "ConfigMap", "-n", ns)).splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "AGE"]
    assert [x.split()[:2] for x in lines[1:]] == [[ns, "one"], [ns, "two"]]
    refused(cluster.unirail("kube", "get", "cm", "three", "-n", ns),
            f"kube: get configmap '{ns}/three': 404 NotFound: configmaps \"three\" not found")


def test_kinds_of_other_groups_are_read(cluster):
    names = [x.split()[0] for x in ran(cluster.unirail("kube", "get", "crd")).splitlines()]
    assert names
    assert "system:node" in ran(cluster.unirail("kube", "get", "clusterroles.rbac.authorization.k8s.io"))
    refused(cluster.unirail("kube", "get", "spiderippools"), "the server has no kind 'spiderippools'")


def test_long_list_is_read_in_pages(cluster, ns):
    """More objects than a page has: each is listed once, in order."""
    names = [f"m{i:04}" for i in range(1203)]
    for name in names:
        cluster.config_map(ns, name, labels={"odd": str(int(name[-1]) % 2)})
    got = json.loads(ran(cluster.unirail("kube", "get", "cm", "-n", ns, "-o", "json")))
    assert [x["metadata"]["name"] for x in got["items"]] == names
    got = json.loads(ran(cluster.unirail("kube", "get", "cm", "-n", ns, "-o", "json", "-l", "odd=1")))
    assert len(got["items"]) == 601
    got = json.loads(ran(cluster.unirail("kube", "get", "cm", "-n", ns, "-o", "json", "--field-selector",
                                         "metadata.name=m0007")))
    assert [x["metadata"]["name"] for x in got["items"]] == ["m0007"]


def test_large_object_is_read(cluster, ns):
    cluster.config_map(ns, "large", {"x": "é\n" * 250000})
    got = json.loads(ran(cluster.unirail("kube", "get", "cm", "-n", ns, "-o", "json")))
    assert got["items"][0]["data"]["x"] == "é\n" * 250000


def test_token_has_only_the_permissions_of_its_account(cluster, ns, tmp_path):
    token = cluster.account(ns, "reader", READ)
    path = cluster.kubeconfig(tmp_path / "config", {"token": token})
    cluster.config_map(ns, "one")
    assert "one" in ran(cluster.unirail("kube", "get", "cm", "-n", ns, kubeconfig=path))
    r = cluster.unirail("kube", "get", "secrets", "-n", ns, kubeconfig=path)
    refused(r, f"kube: list secrets of '{ns}': 403 Forbidden: secrets is forbidden: User "
               f"\"system:serviceaccount:{ns}:reader\" cannot list resource \"secrets\"")
    assert token not in r.stderr


def test_invalid_token_is_refused(cluster, tmp_path):
    path = cluster.kubeconfig(tmp_path / "config", {"token": "t0ps3cret"})
    r = cluster.unirail("kube", "get", "ns", kubeconfig=path)
    refused(r, "401 Unauthorized")
    assert "t0ps3cret" not in r.stderr


def test_client_certificate_of_another_ca_is_refused(cluster, tmp_path):
    """The API server completes the TLS handshake with a client certificate of any CA, but answers 401 if its own CA did not sign it."""
    cert, key = Pki(tmp_path / "pki").leaf("x", "", "clientAuth", subject="/O=system:masters/CN=x")
    path = cluster.kubeconfig(tmp_path / "config", {"client-certificate": cert, "client-key": key})
    refused(cluster.unirail("kube", "get", "ns", kubeconfig=path), "401 Unauthorized")


def test_server_certificate_of_another_ca_is_refused(cluster, tmp_path):
    other = Pki(tmp_path / "pki")
    path = cluster.kubeconfig(tmp_path / "config", {"token": "x"}, {"certificate-authority": other.ca})
    path.write_text("\n".join(x for x in path.read_text().splitlines() if "authority-data" not in x))
    refused(cluster.unirail("kube", "get", "ns", kubeconfig=path), "is not signed by the configured CA")


def test_without_a_kubeconfig_the_service_account_of_the_pod_is_used(cluster, ns, tmp_path):
    """The files of the service account are at the kubelet's paths, in a separate mount namespace."""
    token = cluster.account(ns, "reader", READ)
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(token)
    (account / "namespace").write_text(ns)
    (account / "ca.crt").write_bytes(cluster.pki.ca.read_bytes())
    script = ("mount -t tmpfs none /var/run && mkdir -p $1 && mount --bind $2 $1 && shift 2 && "
              "exec \"$@\"")
    cluster.config_map(ns, "one")
    r = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "/var/run/secrets/kubernetes.io/serviceaccount",
                        account, clusters.BINARY, "kube", "get", "cm"], capture_output=True, text=True,
                       env={"PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                            "KUBERNETES_SERVICE_PORT": str(cluster.port)})
    assert "one" in ran(r)
