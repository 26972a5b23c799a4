# SPDX-License-Identifier: Apache-2.0
"""`unirail controller`: leader election, ports, changed settings."""
import time

import pytest

from agents import install_crds
from cluster import wait
from controllers import LEASES, Controller


@pytest.fixture(scope="module", autouse=True)
def crds(cluster):
    install_crds(cluster)


@pytest.fixture
def replica(cluster, ns, closing, tmp_path):
    def make(name="c", kubeconfig=None, **env):
        return closing(Controller(tmp_path / name, kubeconfig or cluster.admin_config(), ns, name, **env))
    return make


def leader(cluster, ns):
    return cluster.ok("GET", LEASES.format(ns))["spec"].get("holderIdentity", "")


def test_ports_of_the_controller_are_served(replica):
    c = replica().start()
    for path in ("/healthz", "/readyz", "/v1/runtime/startup", "/v1/runtime/readiness", "/v1/runtime/liveness"):
        assert c.get(c.health, path) == (200, "ok\n")
    assert c.get(c.health, "/metrics")[0] == 404
    c.leads()
    m = c.metrics()
    assert m['unirail_controller_objects{kind="namespaces"}'] > 3
    assert m["unirail_controller_leader_acquired_total"] == 1
    assert c.confined() or c.logged("the sandbox is not complete")
    assert c.stop() == 0


def test_other_replica_leads_after_a_killed_leader(cluster, ns, replica):
    a = replica("a").start().leads()
    b = replica("b").start()
    assert leader(cluster, ns).startswith("a_")
    assert b.metrics()["unirail_controller_leader"] == 0
    a.kill()
    began = time.monotonic()
    b.leads(30)
    assert 5 < time.monotonic() - began < 25
    assert leader(cluster, ns).startswith("b_")
    # A new process with the former leader's name waits for the Lease like any other candidate.
    a.start()
    assert a.metrics()["unirail_controller_leader"] == 0


def test_terminated_leader_releases_its_lease(cluster, ns, replica):
    a = replica("a").start().leads()
    b = replica("b").start()
    assert a.stop() == 0
    began = time.monotonic()
    b.leads(10)
    assert time.monotonic() - began < 6
    assert not a.logged("is no longer the leader")


def test_disconnected_leader_stops_leading_and_leads_again_when_connected(cluster, ns, replica, proxy, tmp_path):
    a = replica("a", cluster.through(proxy, tmp_path / "a.conf")).start().leads()
    proxy.cut()
    a.wait_logged("is no longer the leader", 20)
    assert a.get(a.health, "/healthz")[0] == 200
    assert a.get(a.health, "/readyz")[0] == 200  # its cache still serves reviews
    proxy.mend()
    a.leads(40)
    assert a.metrics()["unirail_controller_leader_acquired_total"] == 2


def test_changed_settings_are_read_with_and_without_a_signal(cluster, ns, replica):
    c = replica()
    c.conf.write_text("[controller]\nlog-level = debug\n")
    c.start("--lease-retry", "1s")
    c.conf.write_text("[controller]\nlog-level = wrong\n")
    c.process.send_signal(1)
    c.wait_logged("settings file rejected")
    assert "controller.conf:2: log-level is 'wrong'" in c.logged("settings file rejected")[0]["error"]
    c.conf.write_text("[controller]\nlog-level = info\nhealth-port = 1\n")
    c.wait_logged("settings read", 10)  # the file is also checked without a signal
    assert not c.logged("takes effect after a restart only")  # the option --health-port has precedence over health-port
    c.conf.write_text("[controller]\ncni-config-dir = /x\n")
    c.wait_logged("takes effect after a restart only", 10)


def test_changed_settings_that_require_a_restart_do_not_take_effect(cluster, ns, replica):
    """A replica that becomes the leader after such a change keeps the settings of its start: its gc is on, although the file has gc = no."""
    a, b = replica("a").start().leads(), replica("b")
    b.conf.write_text("[controller]\ngc = yes\n")
    b.start("--gc-grace", "1s")
    for text in ("gc = no\ncni-config-dir = /x", "gc = no\ncni-config-dir = /y"):
        read = len(b.logged("settings read"))
        b.conf.write_text(f"[controller]\n{text}\n")
        b.process.send_signal(1)
        wait(lambda: len(b.logged("settings read")) > read, "the settings are read again", 10)
    assert b.logged("takes effect after a restart only")
    a.stop()
    b.leads()
    b.wait_logged("full scan")
    # Further changed settings do not end the leader: it ends with status 0 on SIGTERM.
    b.conf.write_text("[controller]\ncni-config-dir = /z\n")
    b.process.send_signal(1)
    wait(lambda: len(b.logged("settings read")) > 2, "the settings are read a third time", 10)
    assert b.stop() == 0


def test_invalid_settings_end_the_controller(cluster, ns, replica):
    for args, contains in ((("--lease", "9s"), "lease-renew must be shorter than lease"), (("--cni-config-dir", "x"), "absolute path"),
                        (("--health-prot", "1"), "did you mean '--health-port'?")):
        c = replica("x").start(*args, ready=False)
        assert c.process.wait(10) == 2
        assert contains in c.log.read_text()
        c.log.unlink()


def test_missing_permissions_are_reported(cluster, ns, replica, tmp_path):
    token = cluster.account(ns, "no-permissions")
    c = replica("n", cluster.kubeconfig(tmp_path / "conf", {"token": token})).start(ready=False)
    c.wait_logged("may not read spiderippools")
    status, text = c.get(c.health, "/readyz")
    assert status == 503 and "spiderippools are not in sync" in text, text
    assert c.get(c.health, "/healthz")[0] == 200
