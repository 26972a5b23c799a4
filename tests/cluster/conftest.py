# SPDX-License-Identifier: Apache-2.0
"""Fixtures. If a program that the tests need is missing, pytest ends with an error; no test is skipped."""
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import agents  # noqa: E402
import cluster as clusters  # noqa: E402
import policies  # noqa: E402
from report import pytest_make_parametrize_id, pytest_runtest_logstart, pytest_runtest_makereport  # noqa: E402,F401


def pytest_sessionstart(session):
    problems = []
    if not clusters.BINARY.exists():
        problems.append(f"{clusters.BINARY} is missing (make, or UNIRAIL=path)")
    problems += [f"{tool} is missing" for tool in ("openssl", "unshare") if not shutil.which(tool)]
    if clusters.KUBE not in clusters.FETCH:
        problems.append(f"UNIRAIL_KUBE is '{clusters.KUBE}', expected {' or '.join(clusters.FETCH)}")
    if not clusters.CLIENT.exists():
        problems.append(f"{clusters.CLIENT} is missing (make test-cluster builds it)")
    if problems:
        pytest.exit("these tests cannot run: " + "; ".join(problems), 1)


def pytest_configure(config):
    config.addinivalue_line("markers", "kube(version): the test needs a feature that only this Kubernetes version has")


def pytest_collection_modifyitems(config, items):
    """Deselects the tests that need another Kubernetes version; the terminal summary of the run counts them by file."""
    wants = lambda item: [m.args[0] for m in item.iter_markers("kube") if m.args[0] != clusters.KUBE]
    config.others = [item for item in items if wants(item)]
    config.hook.pytest_deselected(items=config.others)
    items[:] = [item for item in items if not wants(item)]


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"Kubernetes {clusters.KUBE}")
    for version in sorted({item.get_closest_marker("kube").args[0] for item in config.others}):
        names = [item.path.name for item in config.others if item.get_closest_marker("kube").args[0] == version]
        terminalreporter.write_line(f"not run, requires Kubernetes {version} (make test-cluster KUBE={version}): " + ", ".join(
            f"{names.count(name)} of {name}" for name in sorted(set(names))))


@pytest.fixture(scope="session")
def cluster():
    """One API server for all tests that use this fixture; the fixture ns creates a separate namespace for each test."""
    one = clusters.Cluster()
    yield one
    one.close()


@pytest.fixture
def ns(cluster, request):
    name = request.node.name.split("[")[0].replace("_", "-")[:50] + f"-{abs(hash(request.node.nodeid)) % 10000}"
    return cluster.namespace(name)


@pytest.fixture
def closing():
    """Returns closing(thing), which returns the thing; the end of the test closes it."""
    things = []

    def add(thing):
        things.append(thing)
        return thing

    yield add
    for thing in reversed(things):
        thing.close()


# --- a cluster for the agents of one module ---


@pytest.fixture(scope="module")
def mine():
    one = clusters.Cluster()
    agents.install_crds(one)
    if policies.POLICIES:
        policies.enforce(one)
    yield one
    one.close()


@pytest.fixture(scope="module")
def nodes(mine):
    nodes = agents.Nodes(mine)
    for name in ("n1", "n2"):
        nodes.node(name)
    mine.namespace("t")
    return nodes


@pytest.fixture
def agent(mine, nodes, closing, tmp_path):
    """agent() starts an agent, by default on n1, and waits until the agent is ready. The end of the test asserts that no admission policy
    refused a request of these agents, and kills them."""
    def start(node="n1", kubeconfig=None, name=None, args=(), ready=True, **env):
        if policies.POLICIES and not kubeconfig:
            kubeconfig = policies.agent_config(mine, tmp_path, node)
        one = agents.Agent(tmp_path / (name or node), kubeconfig or mine.admin_config(), node, **env)
        made.append(closing(one).start(*args, ready=ready))
        return one

    made = []
    yield start
    assert not [line for one in made for line in one.logged("unirail allows an agent")]


@pytest.fixture(scope="module")
def defined(mine):
    """For modules whose first test starts without CRDs and installs them: installs the CRDs if that test is not selected."""
    agents.install_crds(mine)
    if policies.POLICIES:
        policies.enforce(mine)


@pytest.fixture
def pools(mine, nodes, defined):
    """Deletes the pools and blocks of the previous test; returns the function that creates a pool."""
    for b in nodes.blocks():
        mine.request("DELETE", f"/apis/unirail.io/v1/spideripblocks/{b['metadata']['name']}")
    for p in mine.ok("GET", f"{agents.SPIDER}/spiderippools")["items"]:
        mine.request("DELETE", f"{agents.SPIDER}/spiderippools/{p['metadata']['name']}")
    return nodes.pool


@pytest.fixture
def rails(pools):
    """Creates one pool per rail; returns their names."""
    names = [f"rail{i}" for i in range(1, 9)]
    for i, name in enumerate(names):
        pools(name, f"172.16.{i + 1}.0/24")
    return names


@pytest.fixture
def proxy(cluster, closing):
    return closing(clusters.Proxy(cluster.port))


@pytest.fixture
def watch(cluster, closing, proxy, tmp_path):
    """Starts a watch through the proxy, and waits until its first list is complete."""
    def start(*args, user=None):
        path = tmp_path / "watch.conf"
        cluster.through(proxy, path, user)
        return closing(clusters.Watch(path, *args)).synced()
    return start


@pytest.fixture
def client(cluster):
    """Runs tests/cluster/client.c once, as admin unless another kubeconfig is given."""
    def run(*args, kubeconfig=None, timeout=120):
        return subprocess.run([clusters.CLIENT, *map(str, args)], capture_output=True, text=True, timeout=timeout,
                              env={"KUBECONFIG": str(kubeconfig or cluster.admin_config())})
    return run


@pytest.fixture
def candidate(cluster, closing):
    """Returns the function that starts a candidate for the Lease 'x' of a namespace, as a process."""
    def start(ns, name, kubeconfig=None):
        return closing(clusters.Candidate(kubeconfig or cluster.admin_config(), ns, name))
    return start
