# SPDX-License-Identifier: Apache-2.0
"""A proxy that injects faults: HTTP/2 towards the client under test, Python's HTTP/1.1 towards the real API server. For each request
the test's rule returns a fault, or None to forward the request."""
import http.client
import json
import select
import socket
import ssl
import struct
import threading

from h2_server import ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST, SETTINGS, Listener, field, frame

WINDOW_UPDATE, PRIORITY, PADDED, FRAME_MAX = 8, 0x20, 8, 16384
NO_ERROR, INTERNAL_ERROR = 0, 2

# --- HPACK of a client that must not use a dynamic table ---

STATIC = {1: (":authority", ""), 2: (":method", "GET"), 3: (":method", "POST"), 4: (":path", "/"),
          6: (":scheme", "http"), 7: (":scheme", "https"), 19: ("accept", ""), 23: ("authorization", ""),
          28: ("content-length", ""), 31: ("content-type", ""), 58: ("user-agent", "")}
# The Huffman code of RFC 7541 is canonical: code lengths and character order define it. The table has the characters of paths and tokens.
LENGTHS = {5: "012aceiost", 6: " %-./3456789=A_bdfghlmnpru", 7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz", 8: "&*,;XZ",
           10: "!\"()?", 11: "'+|", 12: "#>", 13: "\0$@[]~", 14: "^}", 15: "<`{"}


def codes():
    found, code, last = {}, 0, 0
    for length, characters in LENGTHS.items():
        code <<= length - last
        last = length
        for c in characters:
            found[length, code] = c
            code += 1
    return found


CODES = codes()
assert CODES[8, 0xfd] == "Z" and CODES[15, 0x7ffe] == "{"


def huffman(data):
    text, length, code = "", 0, 0
    for byte in data:
        for i in range(7, -1, -1):
            code, length = code << 1 | byte >> i & 1, length + 1
            if (length, code) in CODES:
                text, length, code = text + CODES[length, code], 0, 0
    return text


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, bits):
        most = (1 << bits) - 1
        n = self.data[self.at] & most
        self.at += 1
        more, shift = n == most, 0
        while more:
            byte = self.data[self.at]
            self.at += 1
            n, more, shift = n + ((byte & 127) << shift), byte & 128, shift + 7
        return n

    def text(self):
        packed = self.data[self.at] & 128
        n = self.number(7)
        self.at += n
        data = self.data[self.at - n:self.at]
        return huffman(data) if packed else data.decode()

    def all(self):
        found = {}
        while self.at < len(self.data):
            first = self.data[self.at]
            if first & 128:
                name, value = STATIC[self.number(7)]
            elif first & 0xe0 == 0x20:
                self.number(5)  # a new size of the dynamic table
                continue
            else:
                n = self.number(6 if first & 64 else 4)
                name = STATIC[n][0] if n else self.text()
                value = self.text()
            found[name] = value
        return found


# --- faults: act(talk, request), called instead of forwarding the request; request.real() forwards it to the API server ---

def refused(status, reason="Test", retry_after=None, message="made up"):
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason,
            "message": message}

    def act(talk, request):
        talk.head(request.stream, status, retry_after)
        talk.data(request.stream, json.dumps(body).encode(), end=True)
    return act


def half(talk, request):
    """The request is executed; the client gets half of the answer."""
    status, body = request.real()
    talk.head(request.stream, status)
    talk.data(request.stream, body[:len(body) // 2])
    talk.reset(request.stream)


def short(talk, request):
    """The request is executed; the client gets half of the answer, as if it were complete."""
    status, body = request.real()
    talk.head(request.stream, status)
    talk.data(request.stream, body[:len(body) // 2], end=True)


def lost(talk, request):
    """The request is executed; the client gets no answer."""
    request.real()
    talk.reset(request.stream)


def garbage(talk, request):
    talk.head(request.stream, 200)
    talk.data(request.stream, b"<html>\xff\0", end=True)


def empty(talk, request):
    talk.head(request.stream, 200)
    talk.data(request.stream, b"", end=True)


def half_event(talk, request):
    """Ends a watch in the middle of its first event."""
    talk.head(request.stream, 200)
    talk.data(request.stream, b'{"type":"ADDED","object":{"kind"', end=True)


def nothing(talk, request):
    pass


def reset(talk, request):
    talk.reset(request.stream)


def away(talk, request):
    """Closes the whole connection."""
    talk.close()


class Request:
    def __init__(self, server, stream, fields):
        self.server, self.stream, self.fields, self.body = server, stream, fields, b""
        self.method, self.path = fields[":method"], fields[":path"]
        self.upstream = None

    def open(self):
        """Forwards the request to the API server; returns the response, whose body the caller reads."""
        s = self.server
        self.upstream = http.client.HTTPSConnection("127.0.0.1", s.cluster.port, context=s.context, timeout=120)
        headers = {k: v for k, v in self.fields.items() if k in ("accept", "content-type", "authorization")}
        self.upstream.request(self.method, self.path, self.body or None, headers)
        return self.upstream.getresponse()

    def real(self):
        """Forwards the request and returns (status, body); of a watch, only the beginning of the body."""
        r = self.open()
        body = r.read1(65536) if "watch=" in self.path else r.read()
        self.upstream.close()
        return r.status, body

    def cancel(self):
        if self.upstream and self.upstream.sock:
            try:
                self.upstream.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Talk:
    """One connection."""

    def __init__(self, server, s):
        self.server, self.s, self.lock = server, s, threading.Condition()
        self.open, self.window, self.windows, self.first_window = {}, 65535, {}, 65535
        self.closed = False

    # out

    def send(self, data):
        """Sends all data. Only one thread at a time calls OpenSSL, and no thread blocks in OpenSSL."""
        with self.lock:
            while data and not self.closed:
                try:
                    data = data[self.s.send(data):]
                except ssl.SSLWantWriteError:
                    select.select([], [self.s], [], 1)

    def head(self, stream, status, retry_after=None):
        fields = field(":status", status) + field("content-type", "application/json")
        if retry_after is not None:
            fields += field("retry-after", retry_after)
        self.send(frame(HEADERS, END_HEADERS, stream, fields))

    def data(self, stream, body, end=False):
        while body:
            with self.lock:
                room = lambda: min(self.window, self.windows.get(stream, 0), FRAME_MAX, len(body))
                self.lock.wait_for(lambda: self.closed or stream not in self.open or room() > 0)
                if self.closed or stream not in self.open:
                    return
                n = room()
                self.window -= n
                self.windows[stream] -= n
                self.send(frame(DATA, 0, stream, body[:n]))
            body = body[n:]
        if end:
            self.send(frame(DATA, END_STREAM, stream))

    def reset(self, stream, code=INTERNAL_ERROR):
        self.send(frame(RST, 0, stream, struct.pack(">I", code)))

    def close(self):
        with self.lock:
            self.closed = True
            self.lock.notify_all()
        for request in list(self.open.values()):
            request.cancel()
        try:
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # in

    def read(self, n):
        got = b""
        while len(got) < n and not self.closed:
            try:
                with self.lock:
                    more = self.s.recv(n - len(got))
            except ssl.SSLWantReadError:
                select.select([self.s], [], [], 1)
                continue
            if not more:
                raise ConnectionResetError
            got += more
        return got

    def run(self):
        self.s.setblocking(False)
        self.read(24)
        # SETTINGS_HEADER_TABLE_SIZE is 0, since class Fields has no dynamic table.
        self.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0)))
        while len(head := self.read(9)) == 9:
            self.take(head[3], head[4], int.from_bytes(head[5:], "big"), self.read(int.from_bytes(head[:3], "big")))

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[i:i + 6])
                if key == 4:
                    self.first_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            with self.lock:
                if stream:
                    self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(payload, "big")
                else:
                    self.window += int.from_bytes(payload, "big")
                self.lock.notify_all()
        elif kind == RST:
            self.forget(stream)
        elif kind == HEADERS:
            assert flags & END_HEADERS and not flags & PADDED
            with self.lock:
                self.open[stream] = Request(self.server, stream, Fields(payload[5 if flags & PRIORITY else 0:]).all())
                self.windows[stream] = self.first_window
        elif kind == DATA:
            self.open[stream].body += payload
            if payload:
                more = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
        elif kind == GOAWAY:
            return
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            threading.Thread(target=self.serve, args=(self.open[stream],), daemon=True).start()

    def forget(self, stream):
        with self.lock:
            request = self.open.pop(stream, None)
            self.windows.pop(stream, None)
            self.lock.notify_all()
        if request:
            request.cancel()

    def serve(self, request):
        act = self.server.judge(request)
        try:
            if act:
                act(self, request)
                return
            r = request.open()
            self.head(request.stream, r.status)
            while part := r.read1(65536):
                self.data(request.stream, part)
            self.data(request.stream, b"", end=True)
        except (OSError, http.client.HTTPException, ValueError):
            try:
                self.reset(request.stream)
            except OSError:
                pass
        if act is not nothing:
            self.forget(request.stream)


class Faulty(Listener):
    """rule(method, path) returns a fault, or None."""

    def __init__(self, cluster, rule=None):
        self.cluster, self.rule, self.requests, self.hit = cluster, rule, [], []
        self.context = ssl.create_default_context(cafile=cluster.pki.ca)
        self.context.load_cert_chain(*cluster.admin)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(cluster.folder / "pki" / "server.crt", cluster.folder / "pki" / "server.key")
        self.tls.set_alpn_protocols(("h2",))
        self.talks = []
        self.listen()

    def serve(self, raw):
        try:
            with raw, self.tls.wrap_socket(raw, server_side=True) as s:
                talk = Talk(self, s)
                self.talks.append(talk)
                try:
                    talk.run()
                finally:
                    talk.close()
        except OSError:
            pass

    def judge(self, request):
        with self.lock:
            self.requests.append((request.method, request.path))
            act = self.rule(request.method, request.path) if self.rule else None
            if act:
                self.hit.append((request.method, request.path))
            return act

    def close(self):
        super().close()
        for talk in self.talks:
            talk.close()
