# SPDX-License-Identifier: Apache-2.0
"""A TLS server with the minimum of HTTP/2 that is needed to answer requests in sequence with scripted responses,
including invalid ones. It does not decode the requests: tests/cluster has the responses of a real API server."""
import datetime
import json
import socket
import ssl
import struct
import subprocess
import threading

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1


class Pki:
    """A CA, and certificates that this CA signs; openssl creates them."""

    def __init__(self, folder, name="test-ca"):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.crt"
        self.run("req", "-x509", *self.new_key(folder / "ca.key"), "-days", "2", "-subj", f"/CN={name}", "-out",
                 self.ca, "-addext", "keyUsage=critical,keyCertSign,digitalSignature")

    def run(self, *args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

    def new_key(self, path, kind="ec"):
        how = ("rsa:2048",) if kind == "rsa" else ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        return "-newkey", *how, "-nodes", "-keyout", path

    def leaf(self, name, names="DNS:localhost,IP:127.0.0.1", usage="serverAuth", kind="ec", days=2, subject=None):
        crt, key, csr, ext = (self.folder / f"{name}.{x}" for x in ("crt", "key", "csr", "ext"))
        self.run("req", *self.new_key(key, kind), "-subj", subject or f"/CN={name}", "-out", csr)
        ext.write_text(f"extendedKeyUsage={usage}\n" + (f"subjectAltName={names}\n" if names else ""))
        self.run("x509", "-req", "-in", csr, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                 *self.validity(days), "-out", crt, "-extfile", ext)
        return crt, key

    def validity(self, days):
        """The options for a certificate that is valid for `days`; a negative number means that it has expired. OpenSSL 3.4 and later accept
        an end in the past only together with a begin; older versions have no such options."""
        options = subprocess.run(["openssl", "x509", "-help"], capture_output=True, text=True).stderr
        if days > 0 or "-not_after" not in options:
            return "-days", days
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
        begin = end - datetime.timedelta(days=1)
        return "-not_before", f"{begin:%Y%m%d%H%M%SZ}", "-not_after", f"{end:%Y%m%d%H%M%SZ}"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A header as HPACK's "literal without indexing", without compression."""
    name, value = name.encode(), str(value).encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def answer(status=200, body=b"{}", retry_after=None, end=True):
    """Returns a function that makes the frames of a response for a given stream."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()

    def frames(stream):
        head = field(":status", status) + field("content-type", "application/json")
        if retry_after is not None:
            head += field("retry-after", retry_after)
        return (frame(HEADERS, END_HEADERS, stream, head) +
                b"".join(frame(DATA, 0, stream, body[i:i + 8000]) for i in range(0, len(body), 8000)) +
                (frame(DATA, END_STREAM, stream) if end else b""))
    return frames


def reset(code):
    return lambda stream: frame(RST, 0, stream, struct.pack(">I", code))


def goaway(last):
    return lambda stream: frame(GOAWAY, 0, 0, struct.pack(">II", last, 0))


def nothing(stream):
    return b""


def close(stream):
    return None


class Listener:
    """A server on a loopback port, which calls serve(socket) in a separate thread for each connection."""

    def listen(self):
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def close(self):
        """Joins the thread before it closes the listener: a thread that still waited in accept() could accept connections of a later
        listener with the same descriptor."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class Server(Listener):
    """`script` is a list of functions: the n-th makes the frames of the response to the n-th request, counted over all connections; the
    last answers all further requests. If a function returns None, the connection is closed."""

    def __init__(self, cert, script=(answer(),), alpn=("h2",), client_ca=None, tls=None, greet=True):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*cert)
        if alpn:
            self.context.set_alpn_protocols(alpn)
        if client_ca:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        if tls:
            self.context.minimum_version = self.context.maximum_version = tls
        self.context.sni_callback = lambda s, name, c: self.names.append(name)
        self.names, self.versions, self.reused, self.requests, self.connections = [], [], [], 0, 0
        self.script, self.greet = list(script), greet
        self.listen()

    def serve(self, raw):
        with raw:
            raw.settimeout(60)
            try:
                with self.context.wrap_socket(raw, server_side=True) as s:
                    self.connections += 1
                    self.versions.append(s.version())
                    self.reused.append(s.session_reused)
                    self.talk(s)
            except OSError:
                pass

    def read(self, s, n):
        got = b""
        while len(got) < n:
            more = s.recv(n - len(got))
            if not more:
                raise ConnectionResetError
            got += more
        return got

    def next_answer(self):
        with self.lock:
            self.requests += 1
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def talk(self, s):
        self.read(s, 24)
        if self.greet:
            s.sendall(frame(SETTINGS, 0, 0))
        while True:
            head = self.read(s, 9)
            payload = self.read(s, int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == SETTINGS and not flags & ACK and self.greet:
                s.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                s.sendall(frame(PING, ACK, 0, payload))
            elif kind == HEADERS:
                frames = self.next_answer()(stream)
                if frames is None:
                    return
                s.sendall(frames)
