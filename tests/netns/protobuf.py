# SPDX-License-Identifier: Apache-2.0
"""Messages of protobuf, written and read without generated code."""


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(tag, n):
    return varint(tag << 3) + varint(n) if n else b""  # proto3 omits a number that is 0


def parse(message):
    """Returns the fields as [(field number, int or bytes)]."""
    def varint_at(at):
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift += 7
            at += 1
            if message[at - 1] < 128:
                return value, at

    fields, at = [], 0
    while at < len(message):
        tag, at = varint_at(at)
        if tag & 7 == 0:
            value, at = varint_at(at)
        else:
            assert tag & 7 == 2
            n, at = varint_at(at)
            value, at = message[at:at + n], at + n
            assert len(value) == n
        fields.append((tag >> 3, value))
    return fields


def all_of(message, number):
    return [v for n, v in parse(message) if n == number]


def text(message, number):
    return (all_of(message, number) or [b""])[-1].decode()
