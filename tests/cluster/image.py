# SPDX-License-Identifier: Apache-2.0
"""Images of one layer as archives that containerd imports; nothing is pulled. images/archive builds them."""
import importlib.machinery
import importlib.util
import pathlib

SHELL = ("sh", "sleep", "ip", "ping", "cat", "ls")
PATH = pathlib.Path(__file__).resolve().parents[2] / "images" / "archive"


def load():
    loader = importlib.machinery.SourceFileLoader("archive", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("archive", loader))
    loader.exec_module(module)
    return module


made = load()
add, unirail = made.add, made.unirail


def busybox(program):
    """The image of pods that run a shell, also used for the pause container that holds a pod's namespaces."""
    def fill(tar):
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            add(tar, folder)
        add(tar, "bin/busybox", pathlib.Path(program).read_bytes())
        for name in SHELL:
            add(tar, f"bin/{name}", link="busybox")
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
    return made.image("registry.local/busybox:1", fill, Env=["PATH=/bin"], Cmd=["sleep", "1000000"])
