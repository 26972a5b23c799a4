# SPDX-License-Identifier: Apache-2.0
"""Fixtures of tests/cluster, for the attacks that need an API server."""
import importlib.util
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = TESTS / "cluster" / "conftest.py"
sys.path[:0] = [str(TESTS / "hostile"), str(TESTS / "cluster")]
_spec = importlib.util.spec_from_file_location("cluster_conftest", CLUSTER)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items()
                  if not name.startswith(("__", "pytest_"))})


def pytest_configure(config):
    """Registers the hooks of tests/cluster, unless that directory is in the same run and has registered them."""
    if not config.pluginmanager.has_plugin(str(CLUSTER)):
        config.pluginmanager.register(_module, "cluster_conftest")
