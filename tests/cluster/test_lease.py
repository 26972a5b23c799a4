# SPDX-License-Identifier: Apache-2.0
"""Leader election: two processes, one Lease, and a leader that is killed, disconnected or terminated."""
import signal

import cluster as clusters


def lease(cluster, ns):
    return cluster.ok("GET", f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/x")["spec"]


def test_other_replica_acquires_the_lease_of_a_killed_leader(cluster, ns, candidate):
    a = candidate(ns, "a").wait("gained")
    b = candidate(ns, "b")
    spec = lease(cluster, ns)
    assert spec["holderIdentity"] == "a" and spec["leaseDurationSeconds"] == 15 and spec["leaseTransitions"] == 0
    clusters.wait(lambda: lease(cluster, ns)["renewTime"] > spec["renewTime"], "the lease is renewed", 10)
    a.p.kill()
    killed = a.now()
    b.wait("gained", 30)
    waited = b.at("gained") - killed
    assert 10000 < waited < 20000, waited
    spec = lease(cluster, ns)
    assert spec["holderIdentity"] == "b" and spec["leaseTransitions"] == 1
    assert spec["acquireTime"] <= spec["renewTime"]


def test_terminated_leader_releases_the_lease(cluster, ns, candidate):
    a = candidate(ns, "a").wait("gained")
    b = candidate(ns, "b")
    clusters.wait(lambda: lease(cluster, ns)["holderIdentity"] == "a", "replica a holds the lease")
    a.p.send_signal(signal.SIGTERM)
    a.wait("released")
    b.wait("gained", 10)
    assert b.at("gained") - a.at("released") < 5000
    assert "lost" not in a.names()


def test_disconnected_leader_stops_leading(cluster, ns, candidate, proxy, tmp_path):
    """A disconnected leader stops leading before another replica starts to lead, and does not lead again while the other replica leads."""
    a = candidate(ns, "a", cluster.through(proxy, tmp_path / "a.conf")).wait("gained")
    b = candidate(ns, "b")
    proxy.cut()
    a.wait("lost", 15)
    b.wait("gained", 30)
    assert a.at("lost") < b.at("gained")
    proxy.mend()
    clusters.wait(lambda: proxy.connections > 1, "the leader connects again", 30)
    assert a.names() == ["gained", "lost"]
    b.p.send_signal(signal.SIGTERM)
    b.wait("released")
    a.wait("gained", 10, times=2)


def test_leader_stays_leader_after_an_api_server_restart(cluster, ns, candidate):
    """If the restart takes less than 10 s, the leader continues. If it takes longer, the leader stops leading and acquires the Lease
    again."""
    a = candidate(ns, "a").wait("gained")
    cluster.stop_apiserver()
    cluster.start_apiserver()
    before = lease(cluster, ns)["renewTime"]
    clusters.wait(lambda: lease(cluster, ns)["renewTime"] > before, "the lease is renewed after the restart", 30)
    assert a.names()[-1] == "gained"
    assert lease(cluster, ns)["holderIdentity"] == "a"


def test_leader_stops_when_its_lease_is_overwritten(cluster, ns, candidate):
    a = candidate(ns, "a").wait("gained")
    cluster.ok("PATCH", f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/x",
               {"spec": {"holderIdentity": "force"}}, type="application/merge-patch+json")
    a.wait("lost", 15)


def test_missing_permission_for_the_lease_is_reported(cluster, ns, candidate, tmp_path):
    a = candidate(ns, "a", cluster.kubeconfig(tmp_path / "c", {"token": cluster.account(ns, "no-permissions")}))
    clusters.wait(lambda: any("403 Forbidden" in x for x in a.log), "the candidate reports the missing permission")
    assert a.names() == []
