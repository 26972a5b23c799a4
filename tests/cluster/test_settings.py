# SPDX-License-Identifier: Apache-2.0
"""Settings of `unirail agent`, and what it needs to start."""
import signal
import subprocess

from cluster import BINARY, wait


def test_settings_are_read_anew(nodes, agent, rails):
    one = agent()
    conf = one.folder / "agent.conf"
    conf.write_text("[agent]\nrest = 1h\nlog-level = debug\n")
    one.process.send_signal(signal.SIGHUP)
    wait(lambda: one.said("settings read"))
    conf.write_text("[agent]\nrest = soon\n")
    one.process.send_signal(signal.SIGHUP)
    said = wait(lambda: one.said("settings are not valid"))
    assert "agent.conf:2: rest is 'soon'" in said[0]["error"]
    conf.write_text("[agent]\nreserve = 9\n[coordinator]\nmode = underlay\n")
    wait(lambda: one.said("changes with the next start only"), 20)  # nobody told it
    assert one.ok("GET", "/v1/coordinator/config", {"podName": "a", "podNamespace": "t"})["mode"] == "underlay"
    assert one.plan(nodes.pod("t", "n1"), "rail1")[0] == 200


def test_settings_that_are_wrong(mine, nodes, tmp_path):
    """One line with the place, and the status of a wrong command."""
    conf = tmp_path / "agent.conf"
    conf.write_text("[agent]\nhealth-port = 99999\n")
    r = mine.unirail("agent", "--config", conf)
    assert r.returncode == 2 and "agent.conf:2: health-port is '99999', wants 0 to 65535" in r.stderr, r
    r = mine.unirail("agent", "--rset", "1")
    assert r.returncode == 2 and "did you mean '--rest'" in r.stderr, r
    r = subprocess.run([BINARY, "agent", "--socket", tmp_path / "s", "--state-dir", tmp_path / "state",
                        "--kubeconfig", "/none", "--health-port", "0", "--metrics-port", "0"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "/none" in r.stderr, r


def test_two_of_them(nodes, agent, rails):
    """On one socket, or one state folder: the second says who is there and ends."""
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
