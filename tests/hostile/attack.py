#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: attack.py PORT KIND N RATE SOURCE... Keeps N connections to 127.0.0.1:PORT, in turn from the given source addresses, and
reopens closed ones, on average at most RATE per second. Each connection sends the first text of its KIND at once, and then a byte of
the second text every 0.5 s. Prints "ready" to stdout after N connections have been opened; ends when stdin is closed.

If KIND begins with "tls-", the text is sent after a complete TLS handshake, and a connection counts as open after
the handshake.
ATTACK_PATH in the environment is the path of KIND "tls-upload"."""
import contextlib
import errno
import os
import select
import socket
import ssl
import sys
import time

EVERY = 0.5  # seconds between two bytes that a connection sends
TEXTS = {
    "silent": (b"", b""),
    "head": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X-Slow: " + b"a" * 15000),
    "body": (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", b"b" * 15000),
    "idle": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "unread": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 40, b"G"),
    "heads": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 900) for i in range(17)), b""),
    "byte": (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", b""),  # complete except for one byte
    "chunk": (b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: " + b"x" * 1000),
    "pipeline": (b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 1200, b""),  # the client reads none of the answers
    "record": (b"\x16\x03\x01\x02\x01", b"\x01" * 500),  # a handshake that is never completed
    # 7 MiB are announced; the first 100 KiB arrive, so that the server holds memory for each connection.
    "upload": (f"POST {os.environ.get('ATTACK_PATH')} HTTP/1.1\r\nHost: x\r\nContent-Length: {7 << 20}\r\n\r\n".encode()
               + b" " * (100 << 10), b" " * 15000),
}
UNREAD = {"unread", "pipeline"}


def anybody():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def hello():
    """A client's complete first TLS message: the server computes its answer, and receives no further data."""
    context = anybody()
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(into, out, server_hostname="x").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def shake(s):
    """The epoll events that the TLS handshake of s waits for; 0: the handshake is complete."""
    try:
        s.do_handshake()
    except ssl.SSLWantReadError:
        return select.EPOLLIN
    except ssl.SSLWantWriteError:
        return select.EPOLLOUT
    return 0


def main():
    port, kind, n, rate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    sources = sys.argv[5:]
    context = anybody() if kind.startswith("tls-") else None
    kind = kind.removeprefix("tls-")
    start, more = (hello(), b"") if kind == "hello" else TEXTS[kind]
    poll = select.epoll()
    poll.register(0, select.EPOLLIN)
    live, tried, opened, ready, allowed, last, byte = {}, 0, 0, False, float(n), time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        allowed, last = min(allowed + (now - last) * rate, n), now
        while len(live) < n and allowed >= 1:
            allowed -= 1
            s = socket.socket()
            if kind in UNREAD:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the smallest buffer, so that answers stay in the server's memory
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes without TIME_WAIT
            s.bind((sources[tried % len(sources)], 0))
            s.setblocking(False)
            if s.connect_ex(("127.0.0.1", port)) not in (0, errno.EINPROGRESS):
                s.close()
                break
            live[s.fileno()] = [s, -1, start]
            poll.register(s, select.EPOLLIN | select.EPOLLOUT)
            tried, opened = tried + 1, opened + (not context)
        for fd, event in poll.poll(0.05):
            if fd == 0:
                return
            s, sent, rest = one = live[fd]
            try:
                if event & (select.EPOLLHUP | select.EPOLLERR):
                    raise ConnectionResetError
                if context and sent < 0:
                    if not isinstance(s, ssl.SSLSocket):
                        s = one[0] = context.wrap_socket(s, do_handshake_on_connect=False)
                    if wants := shake(s):
                        poll.modify(s, wants)
                        continue
                    opened += 1
                if (rest or sent < 0) and (event & select.EPOLLOUT or context):
                    rest = rest[s.send(rest):]
                    one[1:] = 0, rest if context else b""
                    waits = select.EPOLLIN if kind not in UNREAD else 0
                    poll.modify(s, waits | select.EPOLLOUT if one[2] else waits)
                if event & select.EPOLLIN and not s.recv(65536):
                    raise ConnectionResetError
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:
                poll.unregister(fd)
                s.close()
                del live[fd]
        if now - byte > EVERY:
            byte = now
            for s, sent, rest in list(live.values()):
                if 0 <= sent < len(more) and not rest:
                    with contextlib.suppress(OSError):  # the next poll() reports the error
                        s.send(more[sent:sent + 1])
                    live[s.fileno()][1] += 1
        if not ready and opened >= n:
            ready = True
            print("ready", flush=True)


main()
