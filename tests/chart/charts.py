# SPDX-License-Identifier: Apache-2.0
"""Helm, the chart and the plain manifests, as the tests use them."""
import functools
import pathlib
import subprocess

import yaml

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = HERE.parents[1] / "deploy"
CHART = DEPLOY / "chart"
VALUES = sorted((HERE / "values").glob("*.yaml"))


@functools.cache
def helm_path():
    return subprocess.run([HERE / "fetch-helm"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def helm(*args, ok=True, **kw):
    """The output of a command that succeeds, or the error message of one that fails, without Helm's remarks about symbolic links in the
    chart."""
    p = subprocess.run([helm_path(), *map(str, args)], capture_output=True, text=True, **kw)
    said = "".join(line for line in p.stderr.splitlines(True) if "found symbolic link" not in line)
    assert (p.returncode == 0) == ok, said
    return p.stdout if ok else said


def documents(text):
    """{(kind, namespace, name): object}; fails if two objects have the same key."""
    found = {}
    for o in yaml.load_all(text, Loader=yaml.CSafeLoader):
        if o:
            key = o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]
            assert key not in found, key
            found[key] = o
    return found


def template(*args, ns="rails", **kw):
    return documents(helm("template", "unirail", CHART, "-n", ns, "--skip-tests", "--kube-version", "1.34", *args, **kw))


def plain(*files):
    """The plain manifests without their Namespace objects."""
    text = "\n---\n".join((DEPLOY / f).read_text() for f in files)
    return documents("\n---\n".join(d for d in text.split("\n---\n") if "\nkind: Namespace\n" not in d))
