# SPDX-License-Identifier: Apache-2.0
"""Bytes of netlink messages and their attributes, for the programs that compose recordings."""
import struct

MULTI, NESTED = 2, 0x8000
DONE = struct.pack("<IHHIIi", 20, 3, MULTI, 0, 0, 0)


def attr(kind, value):
    return struct.pack("<HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def u8(kind, v):
    return attr(kind, struct.pack("<B", v))


def u16(kind, v):
    return attr(kind, struct.pack("<H", v))


def u32(kind, v):
    return attr(kind, struct.pack("<I", v))


def u64(kind, v):
    return attr(kind, struct.pack("<Q", v))


def text(kind, v):
    return attr(kind, v.encode() + b"\0")


def nest(kind, *parts):
    return attr(kind | NESTED, b"".join(parts))


def message(kind, flags, body, seq=0):
    return struct.pack("<IHHII", 16 + len(body), kind, flags, seq, 0) + body
