# SPDX-License-Identifier: Apache-2.0
"""What a failed test reports: the condition that did not become true, and the end of the log of each server that was followed.

A test calls follow(name, log) for each server that it starts. The log is a path (with wildcards: the newest file that matches), or a
list to which lines are added. The report of a test that fails has the last lines of each log that grew since the test began. A test
calls ended(log) before it deletes the file or its directory."""
import glob
import http.client
import json
import pathlib
import re
import time

import pytest

LINES, LENGTH = 25, 400  # the maximum number of lines of a log's end, and of characters of a line

_logs = {}  # path, or id of a list -> (name, log, size when the test began)
_ended = []  # (name, last lines) of each log that ended during the test


def wait(condition, what, seconds=30, every=0.05):
    """Calls `condition` until it returns a true value, which is returned; an OSError, AssertionError, HTTPException, LookupError or
    ValueError counts as false, any other exception ends the wait. `what`: a sentence that states the condition; the error after
    `seconds` contains it, and has the exception of the last call as its cause. every: the longest pause between two calls, in
    seconds."""
    __tracebackhide__ = True
    end, pause = time.monotonic() + seconds, 0.01
    while True:
        problem = None
        try:
            found = condition()
            if found:
                return found
        except (OSError, AssertionError, http.client.HTTPException, LookupError, ValueError) as e:
            problem = e
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}") from problem
        time.sleep(min(pause, every))
        pause *= 2


def wait_started(process, condition, what, log, seconds=30):
    """Like wait(), for the start of a server, but fails at once if the server's process ends. The error contains the end of the server's
    log."""
    __tracebackhide__ = True
    try:
        wait(lambda: process.poll() is not None or condition(), what, seconds)
        assert process.poll() is None, f"exit status {process.returncode} before: {what}"
    except AssertionError as e:
        raise AssertionError(f"{e}\n{last_lines(log)}") from e


def last_lines(log):
    if isinstance(log, list):
        lines = log
    else:
        path = newest(log)
        lines = path.read_text(errors="replace").splitlines() if path else [f"{log} does not exist"]
    return "\n".join(line[:LENGTH] for line in lines[-LINES:])


def newest(log):
    """The file that was written last, of those that match the path."""
    return max(map(pathlib.Path, glob.glob(str(log))), key=lambda path: path.stat().st_mtime, default=None)


def size_of(log):
    if isinstance(log, list):
        return len(log)
    path = newest(log)
    return path.stat().st_size if path else 0


def follow(name, log):
    """From now on, the report of a failed test has the end of this log if the log grew during the test."""
    _logs.setdefault(id(log) if isinstance(log, list) else log, (name, log, 0))


def ended(log):
    """Call before a log, or a directory with logs, is deleted: the report of the running test still has the last lines of these logs,
    reports of later tests do not."""
    for key, (name, source, size) in list(_logs.items()):
        if source is log or not isinstance(log, list) and not isinstance(source, list) and source.is_relative_to(log):
            del _logs[key]
            if size_of(source) > size:
                _ended.append((name, last_lines(source)))


# --- hooks of pytest: a conftest imports them ---


def pytest_make_parametrize_id(val, argname):
    """Names a parameter without an id: a dict, list or tuple by its JSON, a bool or None by the argument's name; pytest names all
    others."""
    if isinstance(val, bool):
        return argname if val else f"no {argname}"
    if val is None:
        return f"no {argname}"
    if isinstance(val, (dict, list, tuple)):
        return re.sub(r"[^\w.:/=,-]+", " ", json.dumps(val, default=str)).strip()[:60] or f"empty {argname}"
    return None


def pytest_runtest_logstart():
    _ended.clear()
    for key, (name, log, _) in list(_logs.items()):
        _logs[key] = (name, log, size_of(log))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    report = (yield).get_result()
    if report.failed:
        ends = _ended + [(name, last_lines(log)) for name, log, size in _logs.values() if size_of(log) > size]
        report.sections += [(f"last lines of the log of {name}", text) for name, text in ends]
