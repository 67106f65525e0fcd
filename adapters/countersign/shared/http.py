"""HTTP to the service, over plain sockets."""

import time

from .limits import MAX_ANSWER, Refused, Unreachable
from .settings import is_loopback, read_private
from .text import plain


class Connection:
    """A connection to the service, for one request at a time. All waits of a request end at the time `until`."""

    def __init__(self, settings, until, headers):
        self.settings = settings
        self.until = until
        self.headers = headers  # lines that each request has
        self.socket = None
        self.buffer = b""
        self.heard = False  # the service has sent a byte of its answer
        self.bounded = False  # the answer says where it ends, so the connection need not close
        self.reusable = False  # the service keeps the connection open after its answer

    def left(self):
        left = self.until - time.monotonic()
        if left <= 0:
            raise Unreachable("no answer in time")
        return left

    def open(self):
        proxy = proxy_of(self.settings)
        self.socket = connect(*(proxy[:2] if proxy else (self.settings.host, self.settings.port)), left=self.left)
        if proxy:
            self.tunnel(proxy[2])
            self.buffer, self.heard = b"", False
        if self.settings.secure:
            import ssl

            authorities = self.settings.ca_file
            if authorities is not None:
                authorities = read_private(authorities, False).decode("ascii", "replace")
            context = ssl.create_default_context(cadata=authorities)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            self.socket.settimeout(self.left())
            self.socket = context.wrap_socket(self.socket, server_hostname=self.settings.host)

    def tunnel(self, credentials):
        """Asks the proxy for a tunnel. The data in the tunnel is TLS to the service."""
        target = "%s:%d" % (bracketed(self.settings.host), self.settings.port)
        lines = ["CONNECT %s HTTP/1.1" % target, "Host: " + target] + credentials
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        status, _ = self.head()
        if status != 200:
            raise Unreachable("the proxy answered %d" % status)

    def close(self):
        if self.socket is not None:
            self.socket.close()

    def exchange(self, method, path, body, opened=None):
        """Sends one request and returns the status and body of its answer. Calls `opened` when the connection is open
        and no byte of the request has been sent yet.

        Raises Unreachable if the connection fails, if no answer comes in time, or if the status is 5xx. Raises Refused
        if the answer is not HTTP, is cut short, or is too long. Does not follow redirects, so the key goes nowhere
        else."""
        self.heard, self.reusable = False, False
        try:
            if self.socket is None:
                self.open()
            if opened is not None:
                opened()
            self.ask(method, path, body)
            status = 100
            while status < 200 and status != 101:
                status, headers = self.head()
            if status >= 500:
                raise Unreachable("it answers %d" % status)
            if status != 200:
                return status, self.help_text(headers)
            answered = self.body(headers)
            closing = [value.lower() for value in headers.get("connection", [])]
            self.reusable = self.bounded and "close" not in closing
            return status, answered
        except OSError as error:
            if self.heard and "timed out" not in str(error):
                raise Refused("the service's answer was cut short")
            raise Unreachable(plain(error.strerror or str(error) or type(error).__name__, 200))

    def ask(self, method, path, body):
        lines = [
            "%s %s/api/v1%s HTTP/1.1" % (method, self.settings.prefix, path),
            "Host: %s:%d" % (bracketed(self.settings.host), self.settings.port),
            "Authorization: Bearer " + self.settings.key,
            "Accept: application/json",
        ]
        lines += self.headers
        if body is not None:
            lines += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
        try:
            self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the service may have answered before it read the whole request

    def help_text(self, headers):
        """Returns the body of an error. This body only explains the error to people. So reading it takes at most one
        second. Returns no bytes if the body cannot be read."""
        self.until = min(self.until, time.monotonic() + 1)
        try:
            return self.body(headers)
        except (Refused, Unreachable, OSError):
            return b""

    def send(self, data):
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def receive(self):
        """Receives more bytes. Returns False at the end of the data."""
        self.socket.settimeout(self.left())
        more = self.socket.recv(65536)
        self.buffer += more
        self.heard = self.heard or len(more) > 0
        return len(more) > 0

    def head(self):
        """Returns the status and the headers. The headers map each name, in lower case, to the list of its values."""
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > 65536 or not b"HTTP/1.".startswith(self.buffer[:7]):
                raise Refused("the service's answer is not HTTP")
            if not self.receive():
                if not self.buffer:
                    raise Unreachable("the connection was closed without an answer")
                raise Refused("the service's answer was cut short")
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or len(words[1]) != 3 or not words[1].isdigit():
            raise Refused("the service's answer is not HTTP")
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise Refused("the service's answer is not HTTP")
            headers.setdefault(name.lower(), []).append(value.strip())
        return int(words[1]), headers

    def body(self, headers):
        """Reads the whole body. Refuses a body that is longer or shorter than its declared length, or that declares two
        lengths."""
        self.bounded = True
        coding = [value.lower() for value in headers.get("transfer-encoding", [])]
        lengths = set(headers.get("content-length", []))
        if coding:
            if coding != ["chunked"] or lengths:
                raise Refused("the service's answer is not HTTP")
            return self.chunks()
        if lengths:
            length = lengths.pop()
            if lengths or not length.isdigit() or not length.isascii():
                raise Refused("the service's answer has no clear length")
            body = self.take(int(length) if len(length) < 12 else MAX_ANSWER + 1)
            if self.buffer:
                raise Refused("the service's answer is longer than it says")
            return body
        self.bounded = False
        while self.receive():
            self.limit(len(self.buffer))
        return self.buffer

    def chunks(self):
        self.bounded = False  # the trailer after the last chunk is not read
        whole = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.limit(len(self.buffer))
                self.more()
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            digits = line.split(b";")[0].strip()
            # int() also accepts characters that are not hex digits, such as `_`. Other programs do not accept these
            # characters, so they could read another length.
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                raise Refused("the service's answer is not HTTP")
            size = int(digits, 16) if len(digits) < 12 else MAX_ANSWER + 1
            self.limit(len(whole) + size)
            if size == 0:
                return whole
            whole += self.take(size)
            if self.take(2) != b"\r\n":
                raise Refused("the service's answer is not HTTP")

    def take(self, length):
        self.limit(length)
        while len(self.buffer) < length:
            self.more()
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def more(self):
        if not self.receive():
            raise Refused("the service's answer was cut short")

    def limit(self, size):
        if size > MAX_ANSWER:
            raise Refused("the service's answer is too long")


def connect(host, port, left):
    """Tries the addresses of the host in order. Returns a TCP connection to the first address that accepts the
    connection."""
    try:
        import _socket as sockets  # the module `socket` takes a third of the start time
    except ImportError:
        import socket as sockets

    failed = None
    # The host is given as bytes. Python would treat text as an international name, which loads large tables.
    for family, kind, protocol, _, address in sockets.getaddrinfo(
        host.encode("ascii"), port, 0, sockets.SOCK_STREAM
    ):
        one = sockets.socket(family, kind, protocol)
        try:
            one.settimeout(left())
            one.connect(address)
            one.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            return one
        except OSError as error:
            failed = error
            one.close()
    raise failed or OSError("the name has no address")


def bracketed(host):
    return "[" + host + "]" if ":" in host else host


def proxy_of(settings):
    """Returns the host, port and credential headers of the proxy. Returns None if the request must go to the service
    directly. A proxy is used only for https, so that no proxy can read the key."""
    named = settings.proxy
    if not named or not settings.secure or is_loopback(settings.host):
        return None
    if not isinstance(named, str):
        raise Refused("`https_proxy` must be a text")
    for entry in settings.no_proxy.split(","):
        entry = entry.strip().lower().lstrip(".")
        host = settings.host.lower()
        if entry and (entry == "*" or host == entry or host.endswith("." + entry)):
            return None
    scheme, mark, rest = named.partition("://")
    if mark and scheme.lower() != "http":
        raise Refused("the proxy of HTTPS_PROXY must be an http:// address")
    authority = (rest if mark else named).split("/")[0]
    user, at, place = authority.rpartition("@")
    host, _, port = place.partition(":")
    if not host or (port and not port.isdigit()):
        raise Refused("HTTPS_PROXY names no host")
    credentials = []
    if at:
        from base64 import b64encode
        from urllib.parse import unquote

        encoded = b64encode(unquote(user).encode("utf-8")).decode("ascii")
        credentials = ["Proxy-Authorization: Basic " + encoded]
    return host, int(port or 80), credentials
