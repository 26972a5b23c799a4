#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dcb.nl beside this file: Data Center Bridging of an mlx5 port with the kernel's own driver. The port trusts 802.1p priorities and
has PFC off. The messages are composed from include/uapi/linux/dcbnl.h and net/dcb/dcbnl.c, not recorded."""
import struct

from make_vf import ACK, REQUEST, Talk, ack, attr, message, nest, text, u8

GET, SET = 78, 79
IEEE_SET, IEEE_GET, SDCBX, IEEE_DEL = 20, 21, 23, 27
PORT = "ens1f0np0"


def dcb(kind, command, flags, *attrs, seq=0):
    return message(kind, flags, struct.pack("<BBH", 0, command, 0) + text(1, PORT) + b"".join(attrs), seq)


def ets(bandwidth, tsa, tcs):
    return attr(1, struct.pack("<BBB", 0, 8, 0) + bytes(bandwidth) * 2 + bytes(tsa) + bytes(tcs) + bytes(24))


def set_ets(bandwidth, tsa, tcs):
    return ets(bandwidth, tsa, tcs)


def pfc(enabled, delay=7, sent=(0,) * 8):
    return attr(2, struct.pack("<BBBxH2x", 8, enabled, 0, delay) + struct.pack("<8Q", *sent) + bytes(64))


def apps(entries, kind=3):
    return nest(kind, *[attr(2 if sel == 255 else 1, struct.pack("<BBH", sel, prio, proto)) for sel, prio, proto in entries])


def buffers(prio, size, total=262016):
    return attr(10, bytes(prio) + struct.pack("<8I", *size) + struct.pack("<I", total))


def maxrate(*kbit):
    return attr(7, struct.pack("<8Q", *kbit))


def main():
    one_tc = ets([0] * 8, [255] * 8, [0, 1, 2, 3, 4, 5, 6, 7])
    t = Talk("route", "DCB of an mlx5 port: read, then set as `unirail host qos` does")
    t.query(dcb(GET, IEEE_GET, REQUEST))
    t.answer(dcb(GET, IEEE_GET, 0, nest(13, one_tc, maxrate(*[0] * 8), pfc(0, sent=(0, 0, 0, 5, 0, 0, 0, 0)),
                                        apps([(1, 0, 0x8915)]), buffers([0] * 8, [163840, 98176] + [0] * 6),
                                        apps([(5, 3, 26), (5, 6, 48)], 6), attr(5, pfc(8)[4:])), u8(14, 9)))
    for request, reply in ((dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, apps([(5, 3, 26), (5, 6, 48)]))), IEEE_SET),
                           (dcb(SET, IEEE_DEL, REQUEST | ACK, nest(13, apps([(5, 3, 26)]))), IEEE_DEL),
                           (dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, pfc(8))), IEEE_SET),
                           (dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, set_ets([50, 50] + [0] * 6, [2, 2] + [0] * 6, [0, 0, 0, 1, 0, 0, 0, 0]))),
                            IEEE_SET),
                           (dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, buffers([0, 0, 0, 1, 0, 0, 0, 0], [131072, 131072] + [0] * 6, 0))),
                            IEEE_SET)):
        t.query(request)
        t.answer(dcb(SET, reply, 0, u8(13, 0)))
        t.answer(ack(request))
    for mode, refused in ((9, 0), (0, 1)):
        request = dcb(SET, SDCBX, REQUEST | ACK, u8(14, mode))
        t.query(request)
        t.answer(dcb(SET, SDCBX, 0, u8(14, refused)))
        t.answer(ack(request))
    t.query(dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, pfc(8))))
    t.answer(ack(dcb(SET, IEEE_SET, REQUEST | ACK, nest(13, pfc(8))), -95))
    t.query(dcb(GET, IEEE_GET, REQUEST))
    t.answer(ack(dcb(GET, IEEE_GET, REQUEST), -95))
    t.write("dcb.nl")


if __name__ == "__main__":
    main()
