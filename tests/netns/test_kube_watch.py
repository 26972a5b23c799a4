# SPDX-License-Identifier: Apache-2.0
"""Watches whose server sends invalid responses, or no longer has old resource versions: `unirail kube get --watch` against scripted
responses."""
import json
import subprocess
import time

import pytest

import h2_server as h2
import lab as labs
from report import follow, wait, wait_started

KINDS = h2.answer(body={"groupVersion": "v1", "resources": [{"name": "things", "kind": "Thing", "namespaced": False}]})


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    p = h2.Pki(tmp_path_factory.mktemp("pki"))
    p.server = p.leaf("server")
    return p


def thing(name, version, uid=None):
    return {"metadata": {"name": name, "resourceVersion": str(version), "uid": uid or f"u-{name}"}}


def listed(version, *things):
    return h2.answer(body={"kind": "ThingList", "metadata": {"resourceVersion": str(version)}, "items": things})


def event(kind, object):
    return json.dumps({"type": kind, "object": object}).encode() + b"\n"


def watched(*events, end=True):
    return h2.answer(body=b"".join(events), end=end)


EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})
OPEN = watched(end=False)


class Watch:
    def __init__(self, tmp_path, pki, script, *more):
        self.tmp, self.server = tmp_path, h2.Server(pki.server, [KINDS, *script])
        follow("kube get --watch", tmp_path / "err")
        path = tmp_path / "config"
        path.write_text(json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.server.port}",
                                                   "certificate-authority": str(pki.ca)}}],
            "users": [{"name": "u", "user": {"token": "t"}}]}))
        # The program and this test share the file offset, which a read moves, so the file is opened for appending.
        self.out = open(tmp_path / "out", "a+")
        self.err = open(tmp_path / "err", "a+")
        self.p = subprocess.Popen([labs.BINARY, "kube", "get", "things", "--watch", "--kubeconfig", path, *more],
                                  stdout=self.out, stderr=self.err)

    def lines(self):
        self.out.seek(0)
        return self.out.read().splitlines()

    def stderr(self):
        self.err.seek(0)
        return self.err.read()

    def wait(self, *want, seconds=20):
        def printed():
            assert self.lines() == list(want)
            return True
        wait_started(self.p, printed, f"the watch prints {want}", self.tmp / "err", seconds)

    def wait_requests(self, n, seconds=20):
        wait(lambda: self.server.requests >= n, f"the server has received {n} requests", seconds)


@pytest.fixture
def watch(tmp_path, pki):
    made = []

    def start(*script, more=()):
        made.append(Watch(tmp_path, pki, script, *more))
        return made[-1]

    yield start
    for w in made:
        w.p.kill()
        w.p.wait()
        w.server.close()


def test_changes_of_objects_are_reported(watch):
    w = watch(listed(5, thing("a", 3)),
              watched(event("ADDED", thing("b", 6)), event("MODIFIED", thing("a", 7)), event("DELETED", thing("b", 8)),
                      event("BOOKMARK", thing("", 9)), end=False))
    w.wait("ADDED thing a 3", "SYNCED things 1", "ADDED thing b 6", "MODIFIED thing a 7", "DELETED thing b 6")


def test_list_after_410_reports_the_missed_changes(watch):
    """Changes that the watch missed are reported: one object was deleted, one created, one changed, one recreated."""
    w = watch(listed(5, thing("a", 1), thing("b", 2), thing("c", 3), thing("d", 4)), watched(EXPIRED),
              listed(20, thing("a", 1), thing("c", 15), thing("d", 16, "other"), thing("e", 17)), OPEN)
    w.wait("ADDED thing a 1", "ADDED thing b 2", "ADDED thing c 3", "ADDED thing d 4", "SYNCED things 4",
           "MODIFIED thing c 15", "DELETED thing d 4", "ADDED thing d 16", "ADDED thing e 17", "DELETED thing b 2")


def test_http_status_410_of_a_watch_causes_a_list(watch):
    w = watch(listed(5, thing("a", 1)), h2.answer(410, {"kind": "Status", "code": 410}), listed(9), OPEN)
    w.wait("ADDED thing a 1", "SYNCED things 1", "DELETED thing a 1")


def test_watch_continues_at_its_resource_version(watch):
    """The server ends a watch: the client starts the next watch without a second list, and reports no event twice."""
    w = watch(listed(5, thing("a", 1)), watched(event("ADDED", thing("b", 6))),
              watched(event("ADDED", thing("c", 7)), end=False), OPEN)
    w.wait("ADDED thing a 1", "SYNCED things 1", "ADDED thing b 6", "ADDED thing c 7")
    assert w.server.requests == 4


def test_reconnected_watch_reads_the_servers_resource_version_first(watch):
    w = watch(listed(5, thing("a", 1)), h2.close, listed(6), watched(event("ADDED", thing("b", 6)), end=False))
    w.wait("ADDED thing a 1", "SYNCED things 1", "ADDED thing b 6")


def test_lower_resource_version_after_a_restore_of_etcd_causes_a_list(watch):
    """After a restore of etcd, the server's resourceVersion is lower than the client's: a watch from the client's resourceVersion
    would not report the server's changes."""
    w = watch(listed(50, thing("a", 1), thing("b", 40)), h2.close, listed(30, thing("a", 1)),
              listed(30, thing("a", 1)), OPEN)
    w.wait("ADDED thing a 1", "ADDED thing b 40", "SYNCED things 2", "DELETED thing b 40")
    assert "data is older than before" in w.stderr()


@pytest.mark.parametrize("bad", [b"garbage\n", b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":{"a":}}\n',
                                 b'[]', b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":'])
def test_invalid_event_ends_only_its_watch(watch, bad):
    w = watch(listed(5), watched(event("ADDED", thing("a", 6)), bad), listed(6),
              watched(event("ADDED", thing("b", 7)), end=False))
    w.wait("SYNCED things 0", "ADDED thing a 6", "ADDED thing b 7")


def test_truncated_page_is_requested_again(watch):
    half = h2.answer(body=b'{"kind":"L","metadata":{"resourceVersion":"5"},"items":[' +
                     json.dumps(thing("a", 1)).encode() + b',{"metada')
    w = watch(half, listed(5, thing("a", 1), thing("b", 2)), OPEN)
    w.wait("ADDED thing a 1", "ADDED thing b 2", "SYNCED things 2")
    assert "the answer is truncated" in w.stderr()


def test_list_is_read_in_pages(watch):
    def page(next, *things):
        return h2.answer(body={"metadata": {"resourceVersion": "5", "continue": next}, "items": things})
    w = watch(page("x/y=", thing("a", 1)), page("z", thing("b", 2)), page("", thing("c", 3)), OPEN)
    w.wait("ADDED thing a 1", "ADDED thing b 2", "ADDED thing c 3", "SYNCED things 3")


def test_expired_continue_token_restarts_the_list(watch):
    first = h2.answer(body={"metadata": {"resourceVersion": "5", "continue": "x"}, "items": [thing("a", 1)]})
    w = watch(first, h2.answer(410, {"kind": "Status", "code": 410, "reason": "Expired"}),
              listed(9, thing("b", 8)), OPEN)
    w.wait("ADDED thing a 1", "ADDED thing b 8", "DELETED thing a 1", "SYNCED things 1")


def test_watches_that_end_immediately_are_retried_with_backoff(watch):
    w = watch(listed(5), watched())
    w.wait_requests(4)
    before, began = w.server.requests, time.monotonic()
    time.sleep(3)
    assert (w.server.requests - before) / (time.monotonic() - began) < 2


def test_repeated_403_of_a_list_is_logged_once(watch):
    w = watch(h2.answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}))
    w.wait_requests(4)
    assert w.stderr().count("kube: list things: 403 Forbidden: no") == 1


def test_client_waits_for_retry_after_if_a_watch_is_answered_with_429(watch):
    """For about one second after a CRD is created, API servers answer requests for its objects with 429."""
    w = watch(listed(5), h2.answer(429, {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 2},
                                         "message": "storage is (re)initializing"}), listed(5), OPEN)
    w.wait_requests(3)
    began = time.monotonic()
    w.wait_requests(5)
    assert time.monotonic() - began > 1.5


def test_watch_is_printed_as_json(watch):
    w = watch(listed(5, thing("a", 1)), OPEN, more=("-o", "json"))
    w.wait(json.dumps({"type": "ADDED", "object": thing("a", 1)}, separators=(",", ":")))


def test_watch_with_option_cached_lists_again_after_a_restore(watch):
    w = watch(listed(50, thing("a", 1)), h2.close, listed(30), listed(30, thing("b", 2)), OPEN, more=("--cached",))
    w.wait("ADDED thing a 1", "SYNCED things 1", "ADDED thing b 2", "DELETED thing a 1")
