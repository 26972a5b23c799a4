# SPDX-License-Identifier: Apache-2.0
"""Fixtures of tests/netns, for the attacks that need this machine's kernel only."""
import importlib.util
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "hostile"), str(TESTS / "netns")]
_spec = importlib.util.spec_from_file_location("netns_conftest", TESTS / "netns" / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("__")})
