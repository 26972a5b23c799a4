# SPDX-License-Identifier: Apache-2.0
"""The agent sets the Node's condition HostDrift from the report that `unirail host watch` writes. The tests also end or kill `unirail
host watch`, and kill the agent."""
import os
import signal
import subprocess

import pytest

from cluster import BINARY, die_with_parent, wait
from report import follow

# No interface has the name none7, so each round of `unirail host watch` fails.
WRONG = "[interface none7]\nipv4-ip = 172.16.1.10/24\npersist = none\n"
READ_MS = 10000  # interval at which the agent reads the report
INTERVAL = "2s"  # interval between rounds of `unirail host watch`


class HostWatch:
    """`unirail host watch` with a separate host.conf and state directory."""

    def __init__(self, folder):
        self.conf, self.state, self.log = folder / "host.conf", folder / "host", folder / "watch.log"
        self.report = self.state / "drift.json"
        follow("host watch", self.log)
        self.process = None

    def start(self, conf=""):
        self.conf.write_text(conf)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([BINARY, "host", "watch", "--conf", self.conf, "--state-dir", self.state, "--interval", INTERVAL],
                                            stdout=log, stderr=log, preexec_fn=die_with_parent, env={"PATH": os.environ["PATH"]})
        return self

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(20)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def watch(tmp_path, closing):
    return closing(HostWatch(tmp_path))


@pytest.fixture
def start(mine, agent, watch):
    """start() starts an agent that reads the report. The Node already has the condition Ready, as a kubelet would have set it."""
    mine.ok("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "r", "message": "m"}]}}, type="application/strategic-merge-patch+json")
    return lambda: agent(UNIRAIL_HOST_DRIFT=str(watch.report))


def conditions(mine):
    return [c for c in mine.ok("GET", "/api/v1/nodes/n1")["status"].get("conditions", []) if c["type"] == "HostDrift"]


def becomes(mine, *wants):
    """Waits until the Node has the condition HostDrift with the given status and reason, or no condition HostDrift if no arguments are
    given."""
    wait(lambda: [(c["status"], c["reason"]) for c in conditions(mine)] == [w for w in [wants] if w],
         f"the node's condition is {wants}", 2 * READ_MS / 1000 + 20)


def test_node_condition_follows_drift_of_the_host(mine, start, watch):
    one = start()
    watch.start(WRONG)
    becomes(mine, "True", "RoundFailed")
    reported = conditions(mine)[0]
    assert "none7" in reported["message"], reported
    assert one.get(one.metrics_port, "/metrics")[0] == 200
    # Agent and `unirail host watch` keep running: the next round of `unirail host watch` reads host.conf again.
    watch.conf.write_text("")
    becomes(mine, "False", "InSync")
    again = conditions(mine)[0]
    assert again["lastTransitionTime"] >= reported["lastTransitionTime"]
    events = mine.ok("GET", "/api/v1/events")["items"]
    assert {"HostWatchFailed", "HostRestored"} <= {e["reason"] for e in events if e["involvedObject"]["name"] == "n1"}
    assert watch.stop() == 0 and not watch.report.exists()
    becomes(mine, "Unknown", "NotWatched")


def test_condition_of_a_killed_watch_has_status_unknown(mine, start, watch):
    """The report of the killed `unirail host watch` stays in its file; the running agent ignores the report, and so does a restarted
    agent."""
    one = start()
    watch.start(WRONG)
    becomes(mine, "True", "RoundFailed")
    watch.stop(signal.SIGKILL)
    assert watch.report.exists()
    becomes(mine, "Unknown", "NotWatched")
    watch.start(WRONG)
    becomes(mine, "True", "RoundFailed")
    one.kill()
    watch.stop(signal.SIGKILL)
    start()
    becomes(mine, "Unknown", "NotWatched")
    # After a restart, `unirail host watch` writes the same report again; the agent uses it because the process runs.
    watch.start(WRONG)
    becomes(mine, "True", "RoundFailed")


def test_restarted_agent_without_a_drift_report_removes_the_condition(mine, start, watch):
    """An agent that finds no report since its start removes the condition that an earlier agent wrote; the Node's other conditions stay."""
    one = start()
    watch.start(WRONG)
    becomes(mine, "True", "RoundFailed")
    one.kill()
    watch.stop()
    one = start()
    becomes(mine)
    assert [c["type"] for c in mine.ok("GET", "/api/v1/nodes/n1")["status"]["conditions"]] == ["Ready"]
    assert not one.logged("cannot write the Node's condition")


def test_metrics_have_the_steps_of_the_report(mine, start, watch):
    """The test itself writes the report. The agent treats a report without a lock file as the report of a running `unirail host watch`."""
    watch.state.mkdir()
    watch.report.write_text('{"steps": 3, "blocked": 1, "drift": []}')
    one = start()
    becomes(mine, "True", "StepsLeft")
    reported = one.metrics()
    assert (reported["unirail_host_drift_steps"], reported["unirail_host_drift_blocked_steps"]) == (3, 1)
    watch.report.unlink()
    becomes(mine, "Unknown", "NotWatched")
    assert "unirail_host_drift_steps" not in one.metrics()  # there is no report
