# SPDX-License-Identifier: Apache-2.0
"""The API client against a test server: TLS, retries, invalid responses and credentials. tests/cluster tests it with a real API server."""
import base64
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

import h2_server as h2
import lab as labs

VERSION = {"gitVersion": "v1.99.0"}
GOOD = h2.answer(body=VERSION)
REFUSED_STREAM = 7


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    p = h2.Pki(tmp_path_factory.mktemp("pki"))
    p.server = p.leaf("server")
    p.client = p.leaf("client", "", "clientAuth")
    return p


@pytest.fixture
def serve():
    servers = []

    def start(*args, **kw):
        servers.append(h2.Server(*args, **kw))
        return servers[-1]

    yield start
    for s in servers:
        s.close()


def config(tmp_path, pki, port, host="127.0.0.1", ca=None, user="token: t0ps3cret", cluster=""):
    path = tmp_path / "config"
    path.write_text(f"""current-context: x
contexts:
- {{name: x, context: {{cluster: c, user: u}}}}
clusters:
- name: c
  cluster:
    server: https://{host}:{port}
    certificate-authority: {ca or pki.ca}
    {cluster}
users:
- name: u
  user:
    {user}
""")
    return path


def get(path, timeout="20s", env=None):
    """Runs `unirail kube version`; returns (exit status, output). The output must not contain credentials."""
    r = subprocess.run([labs.BINARY, "kube", "version", "--kubeconfig", path, "--timeout", timeout],
                       capture_output=True, text=True, timeout=90, env={**os.environ, **(env or {})})
    assert "t0ps3cret" not in r.stdout + r.stderr
    assert r.stderr.count("\n") == (r.returncode != 0), r.stderr
    return r.returncode, (r.stdout + r.stderr).strip()


def failed(path, text, **kw):
    code, answer = get(path, **kw)
    assert code == 1 and text in answer, answer


# --- TLS ---

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_tls_1_2_and_1_3_with_rsa_and_ecdsa_keys_are_accepted(pki, serve, tmp_path, version, kind):
    s = serve(pki.leaf(f"{kind}", kind=kind), [GOOD], tls=version)
    code, answer = get(config(tmp_path, pki, s.port))
    assert code == 0 and "v1.99.0" in answer, answer
    assert s.versions == [version.name.replace("_", ".")]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("certificate", [False, True], ids=["token", "certificate"])
def test_session_is_resumed_after_a_broken_connection(pki, serve, tmp_path, version, certificate):
    user = f"{{client-certificate: '{pki.client[0]}', client-key: '{pki.client[1]}'}}" if certificate else "token: t0ps3cret"
    s = serve(pki.server, [h2.close, h2.close, GOOD], tls=version, client_ca=pki.ca if certificate else None)
    code, answer = get(config(tmp_path, pki, s.port, user=user))
    assert code == 0 and "v1.99.0" in answer, answer
    assert s.reused == [False, True, True]


def test_server_name_is_sent_and_verified(pki, serve, tmp_path):
    """If the server is configured by name, the client resolves the name, sends it (SNI) and verifies it; an address is verified and
    never sent."""
    s = serve(pki.server, [GOOD])
    assert get(config(tmp_path, pki, s.port, "localhost"))[0] == 0
    assert get(config(tmp_path, pki, s.port, "127.0.0.1"))[0] == 0
    assert s.names == ["localhost", None]


def test_configured_tls_server_name_is_verified(pki, serve, tmp_path):
    s = serve(pki.leaf("other", "DNS:kubernetes"), [GOOD])
    failed(config(tmp_path, pki, s.port), "the server's certificate is for kubernetes, not for '127.0.0.1'")
    assert get(config(tmp_path, pki, s.port, cluster="tls-server-name: kubernetes"))[0] == 0


@pytest.mark.parametrize("names", ["DNS:127.0.0.1", "IP:127.0.0.2", ""])
def test_certificate_for_another_address_is_refused(pki, serve, tmp_path, names):
    s = serve(pki.leaf("wrong", names), [GOOD])
    failed(config(tmp_path, pki, s.port), "not for '127.0.0.1'")
    assert s.requests == 0


def test_certificate_for_another_name_is_refused(pki, serve, tmp_path):
    s = serve(pki.leaf("wrong", "DNS:example.com,IP:127.0.0.1"), [GOOD])
    failed(config(tmp_path, pki, s.port, "localhost"),
           "the server's certificate is for example.com, 127.0.0.1, not for 'localhost'")


def test_certificate_of_another_ca_is_refused(pki, serve, tmp_path):
    other = h2.Pki(tmp_path / "other")
    s = serve(pki.server, [GOOD])
    failed(config(tmp_path, pki, s.port, ca=other.ca),
           f"'127.0.0.1:{s.port}': the server's certificate is not signed by the configured CA")
    assert s.requests == 0


def test_expired_certificate_is_refused(pki, serve, tmp_path):
    s = serve(pki.leaf("old", days=-1), [GOOD])
    failed(config(tmp_path, pki, s.port), "the server's certificate has expired on 20")


def test_server_with_a_certificate_for_clients_is_refused(pki, serve, tmp_path):
    """The extended key usage is verified."""
    s = serve(pki.leaf("usage", usage="clientAuth"), [GOOD])
    failed(config(tmp_path, pki, s.port), "the server's certificate may not be used by a server")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificate_is_sent(pki, serve, tmp_path, version):
    s = serve(pki.server, [GOOD], client_ca=pki.ca, tls=version)
    candidate = f"client-certificate: {pki.client[0]}\n    client-key: {pki.client[1]}"
    assert get(config(tmp_path, pki, s.port, user=candidate))[0] == 0
    failed(config(tmp_path, pki, s.port), "it requires a client certificate" if version.name.endswith("3")
           else "TLS handshake: the server says: it found no common parameters")
    stranger = h2.Pki(tmp_path / "stranger").leaf("client", "", "clientAuth")
    failed(config(tmp_path, pki, s.port, user=f"client-certificate: {stranger[0]}\n    client-key: {stranger[1]}"),
           "it does not know the CA of unirail's certificate (unknown_ca)")


def test_key_of_another_certificate_is_refused(pki, serve, tmp_path):
    s = serve(pki.server)
    failed(config(tmp_path, pki, s.port, user=f"client-certificate: {pki.client[0]}\n    client-key: {pki.server[1]}"),
           "the key does not belong to the certificate")


def test_server_without_http2_is_refused(pki, serve, tmp_path):
    failed(config(tmp_path, pki, serve(pki.server, alpn=("http/1.1",)).port), "the server does not speak 'h2'")
    failed(config(tmp_path, pki, serve(pki.server, alpn=None).port), "the server does not speak 'h2'")


def test_server_without_tls_is_refused(pki, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def greet():
            c, _ = listener.accept()
            c.sendall(b"SSH-2.0-OpenSSH\r\n")
            held.append(c)
        held = []
        threading.Thread(target=greet, daemon=True).start()
        failed(config(tmp_path, pki, listener.getsockname()[1]), "the server does not speak TLS")


def test_refused_connection_is_reported(pki, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        failed(config(tmp_path, pki, port), f"kube: get /version: '127.0.0.1:{port}': connect: Connection refused (ECONNREFUSED)")


def test_silent_server_times_out(pki, tmp_path):
    """The server accepts the connection and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        failed(config(tmp_path, pki, s.getsockname()[1]), "no TLS handshake within 875 ms", timeout="1s")


def test_unknown_host_name_is_reported(pki, tmp_path):
    failed(config(tmp_path, pki, 1, "no-such-host.invalid"), "look up 'no-such-host.invalid': ")


# --- answers ---

def test_429_500_and_503_are_retried(pki, serve, tmp_path):
    s = serve(pki.server, [h2.answer(429, {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 1}}),
                           h2.answer(503, b"", retry_after=1), h2.answer(500, b"etcd"), GOOD])
    began = time.monotonic()
    assert get(config(tmp_path, pki, s.port))[0] == 0
    assert time.monotonic() - began > 2
    assert (s.requests, s.connections) == (4, 1)


def test_permanent_429_ends_in_an_error(pki, serve, tmp_path):
    s = serve(pki.server, [h2.answer(429, b"", retry_after=1)])
    failed(config(tmp_path, pki, s.port), "no answer within 3000 ms; previous attempt: kube: get /version: 429 Too Many "
           "Requests", timeout="3s")
    assert 2 <= s.requests <= 3


def test_refusals_of_the_server_are_reported(pki, serve, tmp_path):
    s = serve(pki.server, [h2.answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden",
                                           "message": "User \"x\" cannot\nget path"})])
    failed(config(tmp_path, pki, s.port), "kube: get /version: 403 Forbidden: User \"x\" cannot get path")
    assert s.requests == 1


@pytest.mark.parametrize("bad", [h2.reset(2), h2.reset(REFUSED_STREAM), h2.close, h2.goaway(0)])
def test_broken_response_is_retried(pki, serve, tmp_path, bad):
    s = serve(pki.server, [bad, bad, GOOD])
    code, answer = get(config(tmp_path, pki, s.port))
    assert code == 0, answer
    assert s.requests == 3


def test_truncated_response_is_an_error(pki, serve, tmp_path):
    def half(stream):
        return h2.answer(body=b'{"gitVer', end=False)(stream) + h2.reset(2)(stream)
    s = serve(pki.server, [half])
    failed(config(tmp_path, pki, s.port), "the stream was closed before the answer was complete: INTERNAL_ERROR")


def test_invalid_response_is_an_error(pki, serve, tmp_path):
    failed(config(tmp_path, pki, serve(pki.server, [h2.answer(body=b"<html>")]).port),
           "kube: get /version: the answer: 1:1:")
    failed(config(tmp_path, pki, serve(pki.server, [lambda stream: b"HTTP/1.1 400 Bad Request\r\n\r\n"]).port, ),
           "kube: get /version: ", timeout="3s")
    failed(config(tmp_path, pki, serve(pki.server, [h2.answer(body=b"")]).port), "unexpected end of JSON")


def test_missing_response_times_out(pki, serve, tmp_path):
    s = serve(pki.server, [h2.nothing])
    failed(config(tmp_path, pki, s.port), "kube: get /version: no answer within 1000 ms", timeout="1s")


def test_missing_http2_settings_are_an_error(pki, serve, tmp_path):
    s = serve(pki.server, greet=False)
    failed(config(tmp_path, pki, s.port), "no HTTP/2 SETTINGS within 875 ms", timeout="1s")


# --- credentials ---

def test_token_file_is_read_again_after_401(pki, serve, tmp_path):
    token = tmp_path / "token"
    token.write_text("t0ps3cret\n")
    s = serve(pki.server, [h2.answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized"}), GOOD])
    assert get(config(tmp_path, pki, s.port, user=f"tokenFile: {token}"))[0] == 0
    assert s.requests == 2


def test_fixed_token_is_not_sent_again_after_401(pki, serve, tmp_path):
    data = base64.b64encode(pki.ca.read_bytes()).decode()
    s = serve(pki.server, [h2.answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized"})])
    path = config(tmp_path, pki, s.port)
    path.write_text(path.read_text().replace(f"certificate-authority: {pki.ca}", f"certificate-authority-data: {data}"))
    failed(path, "kube: get /version: 401 Unauthorized")
    assert s.requests == 1


@pytest.mark.parametrize("text, reason", [("", "is empty"), ("a b\n", "is not a token"), (None, "No such file or directory (ENOENT)")])
def test_invalid_token_files_are_refused(pki, tmp_path, text, reason):
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text)
    failed(config(tmp_path, pki, 1, user=f"tokenFile: {token}"), reason)


def exec_user(tmp_path, script):
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    return (f"exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: {program}\n"
            "      args: [a]\n      env: [{name: B, value: c}]\n      installHint: get it from example.com\n"
            "      interactiveMode: Never")


def test_token_of_an_exec_plugin_is_used(pki, serve, tmp_path):
    user = exec_user(tmp_path, f"""echo run >>{tmp_path}/runs
test "$1 $B" = "a c" || exit 9
echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t0ps3cret"}}}}'
""")
    s = serve(pki.server, [GOOD])
    assert get(config(tmp_path, pki, s.port, user=user))[0] == 0
    assert (tmp_path / "runs").read_text() == "run\n"
    assert '"kind":"ExecCredential"' in (tmp_path / "info").read_text()


@pytest.mark.parametrize("script, reason", [
    ("exit 3", "the program exited with status 3: get it from example.com"),
    ("echo t0ps3cret", "the program's output is not JSON"),
    ("kill -9 $$", "signal 9 ended the child process"),
    ("head -c 300000 /dev/zero", "the child process wrote more than"),
])
def test_failed_exec_plugins_are_reported(pki, tmp_path, script, reason):
    failed(config(tmp_path, pki, 1, user=exec_user(tmp_path, script)), reason)


def test_missing_exec_plugin_is_reported(pki, tmp_path):
    user = exec_user(tmp_path, "")
    (tmp_path / "login").unlink()
    failed(config(tmp_path, pki, 1, user=user), "the program cannot be executed or exited with status 127: get it from example.com")
