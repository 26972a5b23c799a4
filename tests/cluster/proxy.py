# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy whose connections a test can cut, stall or delay."""
import socket
import threading
import time


class Proxy:
    """Accepts connections on the port `port` and forwards their data to the port `to` and back. stalled: while true, no data is
    forwarded. delay: seconds before data is forwarded. cut_after: once the clients together have sent more bytes than this, each
    connection is closed when one of its ends sends more data."""

    def __init__(self, to):
        self.to, self.pairs, self.stalled, self.delay = to, [], False, 0
        self.connections, self.cut_after, self.sent = 0, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                a, _ = self.listener.accept()
            except OSError:
                return
            try:
                b = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                a.close()
                continue
            self.connections += 1
            self.pairs.append((a, b))
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self.copy, args=(x, y, x is a), daemon=True).start()

    def copy(self, a, b, out):
        try:
            while True:
                data = a.recv(65536)
                self.sent += len(data) if out else 0
                if self.cut_after and self.sent > self.cut_after:
                    break
                while self.stalled:
                    time.sleep(0.05)
                time.sleep(self.delay)
                if not data:
                    break
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Closes all connections and accepts no new ones, until mend()."""
        self.listener.shutdown(socket.SHUT_RDWR)  # close() alone does not wake a thread that waits in accept()
        self.listener.close()
        for pair in self.pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs = []

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        if self.listener.fileno() >= 0:
            self.cut()
