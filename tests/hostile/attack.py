#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: attack.py PORT KIND N RATE SOURCE...
Keeps N connections to 127.0.0.1:PORT, by turns from the addresses given, and opens those that are closed again, RATE a
second at most. Each sends a byte of its text now and then, so that no pause is long. "ready" on stdout when N were open
for the first time; ends when stdin does."""
import errno
import select
import socket
import ssl
import sys
import time

EVERY = 0.2  # seconds between two bytes of a connection
TEXTS = {
    "silent": (b"", b""),
    "head": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X-Slow: " + b"a" * 15000),
    "body": (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", b"b" * 15000),
    "idle": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "unread": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 40, b"G"),
    "record": (b"\x16\x03\x01\x02\x01", b"\x01" * 500),  # a handshake that never is whole
}


def hello():
    """A client's first flight, whole: the server computes its answer, and hears no more."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(into, out, server_hostname="x").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def main():
    port, kind, n, rate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    sources = sys.argv[5:]
    start, more = (hello(), b"") if kind == "hello" else TEXTS[kind]
    poll = select.poll()
    poll.register(0, select.POLLIN)
    live, opened, ready, allowed, last = {}, 0, False, float(n), time.monotonic()
    while True:
        now = time.monotonic()
        allowed, last = min(allowed + (now - last) * rate, n), now
        while len(live) < n and allowed >= 1:
            allowed -= 1
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # leaves no TIME_WAIT
            s.bind((sources[opened % len(sources)], 0))
            s.setblocking(False)
            if s.connect_ex(("127.0.0.1", port)) not in (0, errno.EINPROGRESS):
                s.close()
                break
            live[s.fileno()] = [s, -1, now]
            poll.register(s, select.POLLIN | select.POLLOUT)
            opened += 1
        for fd, event in poll.poll(50):
            if fd == 0:
                return
            s, sent, due = one = live[fd]
            try:
                if event & select.POLLOUT and sent < 0:
                    s.send(start)
                    one[1], one[2] = 0, now + EVERY
                    poll.modify(s, select.POLLIN if kind != "unread" else 0)
                if event & (select.POLLHUP | select.POLLERR) or (event & select.POLLIN and not s.recv(65536)):
                    raise ConnectionResetError
            except OSError:
                poll.unregister(fd)
                s.close()
                del live[fd]
        for fd, one in list(live.items()):
            if one[1] >= 0 and now >= one[2] and one[1] < len(more):
                try:
                    one[0].send(more[one[1]:one[1] + 1])
                except OSError:
                    continue  # the poll above hears of it
                one[1], one[2] = one[1] + 1, now + EVERY
        if not ready and opened >= n:
            ready = True
            print("ready", flush=True)


main()
