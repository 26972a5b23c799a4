# SPDX-License-Identifier: Apache-2.0
"""Settings of `unirail agent`, and conditions for its start."""
import signal
import subprocess

import pytest

from cluster import BINARY, wait
from h2_server import Pki


def test_running_agent_reads_its_changed_settings_file_again(nodes, agent, rails):
    one = agent()
    conf = one.folder / "agent.conf"
    conf.write_text("[agent]\nreuse-delay = 1h\nlog-level = debug\n")
    one.process.send_signal(signal.SIGHUP)
    one.wait_logged("settings read")
    conf.write_text("[agent]\nreuse-delay = soon\n")
    one.process.send_signal(signal.SIGHUP)
    logged_lines = one.wait_logged("settings file rejected")
    assert "agent.conf:2: reuse-delay is 'soon'" in logged_lines[0]["error"]
    conf.write_text("[agent]\npre-allocate = 9\n[coordinator]\nmode = underlay\n")
    one.wait_logged("takes effect after a restart only", 20)  # the file is also read without a signal
    assert one.ok("GET", "/v1/coordinator/config", {"podName": "a", "podNamespace": "t"})["mode"] == "underlay"
    assert one.plan(nodes.pod("t", "n1"), "rail1")[0] == 200


def test_invalid_settings_end_the_agent(mine, nodes, tmp_path):
    """Wrong settings end the agent with an error that names them and the status of a usage error; a missing kubeconfig ends it with
    status 1."""
    conf = tmp_path / "agent.conf"
    conf.write_text("[agent]\nhealth-port = 99999\n")
    r = mine.unirail("agent", "--config", conf)
    assert r.returncode == 2 and "agent.conf:2: health-port is '99999', expected 0 to 65535" in r.stderr, r
    r = mine.unirail("agent", "--reuse-dely", "1")
    assert r.returncode == 2 and "did you mean '--reuse-delay'" in r.stderr, r
    r = subprocess.run([BINARY, "agent", "--socket", tmp_path / "s", "--state-dir", tmp_path / "state",
                        "--kubeconfig", "/none", "--health-port", "0", "--metrics-port", "0"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "/none" in r.stderr, r


def test_second_agent_on_the_same_node_ends(nodes, agent, rails):
    """A second agent with the same socket or the same state directory reports the first agent and ends. One with the same health port
    reports the port and ends."""
    one = agent()
    for more in (["--socket", one.socket], ["--state-dir", one.state]):
        r = subprocess.run([BINARY, "agent", "--socket", one.folder / "s2", "--state-dir", one.folder / "state2",
                            "--kubeconfig", one.kubeconfig, "--node", "n1", "--health-port", "0", "--metrics-port", "0",
                            *more], capture_output=True, text=True, timeout=30)
        assert r.returncode == 1 and r.stderr.count("\n") >= 1, r
        assert "another" in r.stderr, r
    r = subprocess.run([BINARY, "agent", "--socket", one.folder / "s2", "--state-dir", one.folder / "state2",
                        "--kubeconfig", one.kubeconfig, "--listen", "127.0.0.1", "--health-port", str(one.health)],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and f"port {one.health} is in use" in r.stderr, r


@pytest.fixture(scope="module")
def token(mine, nodes):
    return mine.account("t", "able", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])


def without_ca(path):
    path.write_text("\n".join(x for x in path.read_text().splitlines() if "authority-data" not in x) + "\n")
    return path


@pytest.mark.parametrize("what, contains", [
    ("token missing", "token: open '{token}': No such file or directory (ENOENT)"),
    ("token empty", "token: '{token}' is empty"),
    ("ca missing", "open '{ca}': No such file or directory (ENOENT)"),
    ("ca garbage", "'{ca}': the CA is not valid PEM"),
    ("ca of another cluster", "the server's certificate is not signed by the configured CA"),
    ("name of another server", "10.96.0.1, not for 'example.com'"),
])
def test_invalid_api_server_settings_are_reported(mine, agent, token, tmp_path, what, contains):
    """One line of the log names the error. Once the token or CA file is corrected, the agent becomes ready without a restart."""
    files = {"token": tmp_path / "token", "ca": tmp_path / "ca"}
    files["token"].write_text("" if what == "token empty" else token)
    files["ca"].write_bytes(b"hello" if what == "ca garbage" else Pki(tmp_path / "pki").ca.read_bytes()
                            if what == "ca of another cluster" else mine.pki.ca.read_bytes())
    if what.endswith("missing"):
        files[what.split()[0]].unlink()
    server = {"certificate-authority": files["ca"], **({"tls-server-name": "example.com"} if what == "name of another server" else {})}
    conf = without_ca(mine.kubeconfig(tmp_path / "conf", {"tokenFile": files["token"]}, server))
    one = agent(kubeconfig=conf, ready=False, args=["--device-plugin", "no"])
    logged_lines = wait(lambda: [x for x in one.lines() if x["level"] in ("warn", "error")], "the agent logs a warning or an error")
    wait(lambda: "not synced from the API server yet" in one.get(one.health, "/readyz")[1],
         "the agent's readiness reports that it is not synced")
    assert len(logged_lines) == 1 and contains.format(**files) in logged_lines[0]["error"], logged_lines
    assert token not in one.log.read_text()
    if what != "name of another server":
        files["token"].write_text(token)
        files["ca"].write_bytes(mine.pki.ca.read_bytes())
        one.ready(60)
