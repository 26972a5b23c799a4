# SPDX-License-Identifier: Apache-2.0
"""A separate network namespace for a test: its loopback can have the addresses of Services, and daemons can use the ports of the
manifests."""
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


class OwnNet:
    """The thread that creates the object is in the new namespace until close(); a process that the thread starts before close() stays in
    the namespace. The namespace has no name: it ends with its last process."""

    def __init__(self):
        self.before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        self.ip("link", "set", "lo", "up")

    @staticmethod
    def ip(*args):
        return subprocess.run(["ip", *args], check=True, capture_output=True, text=True).stdout

    def address(self, address, dev="lo"):
        self.ip("addr", "add", address if "/" in address else f"{address}/32", "dev", dev)

    def close(self):
        if libc.setns(self.before, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(self.before)
