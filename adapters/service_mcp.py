#!/usr/bin/env python3
"""Countersign's gateway: one MCP server in front of your own, and each call through it asks first.

    service_mcp.py --config FILE [--name svc] [--settings FILE]

FILE has the form of `.mcp.json`: {"mcpServers": {"files": {"command": ..., "args": [...], "env": {...}, "cwd": ...}}}.
The client starts this program over stdio and sees the tools of all those servers as `<server>__<tool>`. Before a tool is
called, a resource read or a prompt fetched, the service is asked. Allowed: the server's own answer comes back byte for
byte. Denied: a tool error that names the rule, and the server never hears of it. Held: it waits for an approver, with
progress if the client asked for that, and then ends in a tool error with the approval's id.

--name is the key under which the client knows this program (`svc`): clients show `mcp__<name>__<server>__<tool>`, and
names longer than 64 in all are cut. --settings is the hook's own settings file; its values win over the environment,
which says nothing then of the fail mode, plain http, the proxy and the authorities.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55, at most 240), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. The
servers get a small base of the environment and what their `env` says, and never SERVICE_API_KEY.

Python 3.8 or newer, standard library only. It is one file because it is downloaded, checked against its checksum and
read by administrators as one.
"""

import io
import json
import os
import re
import signal
import socket as sockets
import sys
import threading
import time
from queue import Empty, SimpleQueue

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # of an authorize request (contract section 7)
MAX_LINE = 64 * MIB  # of one message
MAX_ANSWER = MIB  # of the service
ASK_SECONDS = 20  # without an answer for this long the service counts as unreachable
POLL_SECONDS = 30  # longest wait the service holds a poll for
DEFAULT_WAIT = 55  # less than the minute after which many clients give a call up
MAX_WAIT = 240  # Codex gives a call up after 300 seconds, whatever progress it is told of
TICK_SECONDS = 10  # between two signs of life of a call that waits
LIST_SECONDS = 8  # for servers that are still starting, when the client asks for a list
START_SECONDS = 30  # for a server's answer to `initialize`
PAGE_SECONDS = 30  # for a page of a server's list
GRACE_SECONDS = 2  # after a server's input is closed, and again after SIGTERM
BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15, 30, 60)  # before a server that has ended is started again
MAX_PAGES = 1000
MAX_WORKERS = 300
MAX_OUTBOX = 1000  # of what a server is told beside its calls
MAX_ASKED = 100  # open questions of one server to the client
MAX_DEPTH = 100  # of a list's entry: many readers of JSON stop at 128, and would lose the whole list
MAX_NAME = 64  # of a tool, with `mcp__` and the gateway's name: what the vendors' interfaces take
MAX_KEPT_OPEN = 8  # connections to the service
KEEP_SECONDS = 4  # less than servers keep one that nothing comes over

# Newest first. The revisions after these know no `initialize`; every client that speaks one falls back to it.
PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads as the same: a double holds no more
BLOCKED = 403  # a resource or prompt that may not be had: outside of the protocol's own numbers


class Refused(Exception):
    """Blocks the call in both fail modes; the text is the reason."""


class Denied(Refused):
    """The service's own decision."""


class Unreachable(Exception):
    """The service gave no answer at all, or said itself that it is broken; the fail mode decides."""


class Cancelled(Exception):
    """The client has given the call up."""


class Failed(Exception):
    """An upstream server does not do what it should; the text says what."""


class Wrong(Exception):
    """What the client sent is answered by a protocol error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def plain(text, longest):
    """One line without control characters, cut to a length: rule names and comments are other people's text."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """The first of these fields that holds a text."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


# --- Standard error -------------------------------------------------------------------------------------------------

_said = SimpleQueue()


def log(text):
    """A line for people. It is dropped rather than waited for: a client that does not read it must not stop a call."""
    if _said.qsize() < 1000:
        _said.put(("countersign: " + plain(text, 2000) + "\n").encode("utf-8", "replace"))


def _write_log():
    while True:
        write_all(2, _said.get())


def write_all(descriptor, data):
    """Writes bytes; False once the other side has gone."""
    view = memoryview(data)
    while len(view):
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False
    return True


class Workers:
    """Threads for what has to wait; one that has nothing to do is used before another is started."""

    def __init__(self):
        self.tasks = SimpleQueue()
        self.lock = threading.Lock()
        self.free = 0  # below zero: so many tasks wait for a thread
        self.count = 0

    def run(self, work, *args):
        with self.lock:
            self.free -= 1
            more = self.free < 0 and self.count < MAX_WORKERS
            if more:
                self.free += 1
                self.count += 1
        self.tasks.put((work, args))
        if more:
            threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            work, args = self.tasks.get()
            try:
                work(*args)
            except Exception as error:
                log("the gateway failed (%s)" % type(error).__name__)
            with self.lock:
                self.free += 1


# --- JSON -----------------------------------------------------------------------------------------------------------


def once(pairs):
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return read


def whole(digits):
    # Long ones take time that grows with their square, and other threads get none of it.
    if len(digits) > 400:
        raise ValueError("a number has %d digits" % len(digits))
    return int(digits)


def constant(name):
    raise ValueError("`%s` is not JSON" % name)


def finite(digits):
    # What is beyond every number could be read, and never be written again.
    return max(-sys.float_info.max, min(sys.float_info.max, float(digits)))


def countable(digits):
    # Likewise: a whole number beyond them cannot be reckoned with others, and clients read it as infinite.
    number = whole(digits)
    return number if abs(number) <= sys.float_info.max else finite(digits)


# Of the client, whose words are judged: no name twice. Of a server, whose results are handed on as they are.
STRICT = json.JSONDecoder(object_pairs_hook=once, parse_int=whole, parse_constant=constant)
LOOSE = json.JSONDecoder(parse_int=countable, parse_float=finite, parse_constant=constant)
_blank = re.compile(r"[ \t\r\n]*")


def parse_json(text):
    """Strict JSON. Raises ValueError."""
    try:
        return STRICT.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value, ascii_only=False):
    """Compact JSON as bytes in UTF-8; half a surrogate pair can only be sent as its escape. Raises ValueError."""
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return to_json(value, True)
    except RecursionError:
        raise ValueError("nested too deeply")


class Message:
    """One JSON-RPC message: its members as values, and each of them as it was written."""

    def __init__(self, text, decoder):
        self.text = text
        self.values = {}
        self.places = {}
        try:
            self._read(decoder)
        except (StopIteration, IndexError):
            raise ValueError("it ends too early")
        except RecursionError:
            raise ValueError("nested too deeply")

    def _read(self, decoder):
        text = self.text
        at = _blank.match(text).end()
        if text[at] != "{":
            raise ValueError("it is no object")
        at = _blank.match(text, at + 1).end()
        more = text[at] != "}"
        while more:
            if text[at] != '"':
                raise ValueError("a name is expected")
            name, at = json.decoder.scanstring(text, at + 1, True)
            at = _blank.match(text, at).end()
            if text[at] != ":":
                raise ValueError("a colon is expected")
            start = _blank.match(text, at + 1).end()
            value, at = decoder.raw_decode(text, start)
            if name in self.values:
                raise ValueError("a name stands twice in one object")
            self.values[name] = value
            self.places[name] = (start, at)
            at = _blank.match(text, at).end()
            more = text[at] == ","
            if not more and text[at] != "}":
                raise ValueError("a comma is expected")
            if more:
                at = _blank.match(text, at + 1).end()
        if _blank.match(text, at + 1).end() != len(text):
            raise ValueError("something follows the object")

    def get(self, name):
        return self.values.get(name)

    def has(self, name):
        return name in self.values

    def raw(self, name):
        """The member as bytes, exactly as it came; but between its parts no character that some read as a line's end, for
        what follows would be a message of its own to them."""
        start, end = self.places[name]
        return self.text[start:end].replace("\r", " ").encode("utf-8")


def is_id(value):
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def is_sayable(value):
    """Whether it can be written, and read by all: what one server says must not spoil a list of all."""
    layer, depth = [value], 0
    while layer and depth <= MAX_DEPTH:
        layer = [part for each in layer for part in parts(each)]
        depth += 1
    try:
        # Half a character can be written as its escape, which not every reader takes.
        return depth <= MAX_DEPTH and len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")) <= MAX_LINE
    except ValueError:
        return False


def parts(value):
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def id_name(value):
    """One name for an id however it is written. `1` is not `"1"`, and 1.0 is 1, as clients compare them."""
    return to_json(int(value) if isinstance(value, float) and value.is_integer() else value)


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def error_body(code, message):
    return b'"error":' + to_json({"code": code, "message": message})


def result_body(value):
    return b'"result":' + to_json(value)


def tool_error(text):
    return result_body({"content": [{"type": "text", "text": text}], "isError": True})


# --- Settings -------------------------------------------------------------------------------------------------------

CONFIG_KEYS = (
    "api_url",
    "api_key",
    "api_key_file",
    "fail_mode",
    "approval_wait",
    "organization_id",
    "allow_http",
    "https_proxy",
    "ca_file",
)

# Beside a file the environment, which a project's settings may set, says none of these; and where the file names the
# service or a key, nor who is asked (docs/decisions/0053).
FILE_ALONE = ("fail_mode", "allow_http", "https_proxy", "ca_file")
WHO_IS_ASKED = ("api_url", "organization_id")

# By these OpenSSL trusts other authorities, loads code, or writes down what opens a connection to whoever listens.
OPENSSL_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSLKEYLOGFILE",
)
_taken = {}  # what they held


class Settings:
    """Where the service is and how it is asked, from the environment and, before it, the file of --settings."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        unheard = FILE_ALONE if config is not None else ()
        if any(key in named for key in ("api_url", "api_key", "api_key_file")):
            unheard += WHO_IS_ASKED
        if config is not None:
            for name in OPENSSL_VARIABLES:
                _taken[name] = os.environ.pop(name, None)

        def value(key, variable):
            found = named.get(key, os.environ.get(variable) if key not in unheard else None)
            return found.strip() if isinstance(found, str) else found

        mode = value("fail_mode", "SERVICE_FAIL_MODE")
        self.fail_open = mode == "open"
        self.organization_id = value("organization_id", "SERVICE_ORG_ID") or None
        self.wait = seconds(value("approval_wait", "SERVICE_APPROVAL_WAIT"), DEFAULT_WAIT)
        self.api_url = value("api_url", "SERVICE_API_URL")
        self.key = value("api_key", "SERVICE_API_KEY")
        if "api_key_file" in named and "api_key" not in named:
            self.key = read_private(named["api_key_file"], True).decode("utf-8", "replace").strip()
        allow_http = value("allow_http", "SERVICE_ALLOW_HTTP")
        self.allow_http = allow_http in (True, "1", "true", "yes")
        self.proxy = value("https_proxy", "https_proxy")
        if config is None:
            self.proxy = self.proxy or os.environ.get("HTTPS_PROXY")
        self.no_proxy = "" if config is not None else os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self.ca_file = named.get("ca_file")

    def check(self):
        """Refuses settings that no request can be made with."""
        if not self.api_url:
            raise Refused("SERVICE_API_URL is not set: name the service's address")
        if not self.key:
            raise Refused("SERVICE_API_KEY is not set: give the agent a key with the scope `agents:authorize`")
        if not all("!" <= c <= "~" for c in self.key):
            raise Refused("SERVICE_API_KEY holds characters that no key has")
        self.secure, self.host, self.port, self.prefix = read_url(self.api_url)
        if not self.secure and not self.allow_http and not is_loopback(self.host):
            raise Refused("SERVICE_API_URL is plain http to another machine: use https, or set SERVICE_ALLOW_HTTP=1")


def seconds(text, default):
    """A number of seconds from 0 on; the default for what is none."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def read_url(url):
    """https, host, port and path of a base address; refuses all that a key should not be sent to."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    secure = scheme.lower() == "https"
    if not mark or (not secure and scheme.lower() != "http"):
        raise Refused("SERVICE_API_URL must begin with https:// or http://")
    if any(c in url for c in "?#@\\") or not all("!" <= c <= "~" for c in url):
        raise Refused("SERVICE_API_URL must be an address without user, query or fragment")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port[1:]
    else:
        host, _, port = authority.partition(":")
    if not host or (port and not port.isdigit()):
        raise Refused("SERVICE_API_URL names no host")
    prefix = (slash + path).rstrip("/")
    for version in ("/api/v1", "/v1"):
        if prefix.endswith(version):
            prefix = prefix[: -len(version)]
    return secure, host, int(port) if port else (443 if secure else 80), prefix


def is_loopback(host):
    numbers = host.split(".")
    return host in ("localhost", "::1") or (
        len(numbers) == 4 and numbers[0] == "127" and all(n.isdigit() and int(n) < 256 for n in numbers)
    )


def home():
    """The user's folder by the system's list of users: HOME may be what a project's settings say."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def read_private(path, secret):
    """A settings file's bytes; refuses one that others may change, or read if it holds a secret."""
    if not isinstance(path, str):
        raise Refused("`api_key_file` and `ca_file` must be paths")
    if path.startswith("~/"):
        path = os.path.join(home(), path[2:])
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(MIB)
    except OSError as error:
        raise Refused("`%s` cannot be read: %s" % (path, error.strerror))
    if os.name == "posix":
        if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
            raise Refused("`%s` can be changed by others: chown it to its user and chmod go-w" % path)
        if (secret or b'"api_key"' in text) and status.st_mode & 0o077:
            raise Refused("`%s` holds a key and can be read by others: chmod 600" % path)
    return text


def read_config(path):
    """The settings in a file of --config."""
    try:
        found = parse_json(read_private(path, False).decode("utf-8"))
    except ValueError:
        raise Refused("`%s` is not JSON" % path)
    if not isinstance(found, dict):
        raise Refused("`%s` is not a JSON object" % path)
    unknown = [key for key in found if key not in CONFIG_KEYS]
    if unknown:
        raise Refused("`%s` has the unknown setting `%s`: there are %s" % (path, unknown[0], ", ".join(CONFIG_KEYS)))
    return found


# --- HTTP -----------------------------------------------------------------------------------------------------------


class Connection:
    """One connection, for one request at a time; every wait of it is bounded by the same moment."""

    def __init__(self, settings, until):
        self.settings = settings
        self.until = until
        self.socket = None
        self.buffer = b""
        self.heard = False  # a byte of the service's answer
        self.bounded = False  # the answer's end is known without closing
        self.reusable = False
        self.kept_at = 0.0

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
        """Asks a proxy for a way through; what goes through it is TLS to the service."""
        target = "%s:%d" % (bracketed(self.settings.host), self.settings.port)
        lines = ["CONNECT %s HTTP/1.1" % target, "Host: " + target] + credentials
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        status, _ = self.head()
        if status != 200:
            raise Unreachable("the proxy answered %d" % status)

    def close(self):
        if self.socket is not None:
            self.socket.close()

    def abort(self):
        """Ends a wait of another thread."""
        try:
            self.socket.shutdown(sockets.SHUT_RDWR)
        except (OSError, AttributeError):
            pass

    def is_fresh(self):
        """Whether a connection that was kept open says nothing: neither its end nor what nobody asked for. An old one
        may be dead without a word."""
        if time.monotonic() - self.kept_at > KEEP_SECONDS:
            return False
        try:
            self.socket.settimeout(0)
            self.socket.recv(1)
            return False
        except (BlockingIOError, InterruptedError):
            return True
        except OSError as error:
            return type(error).__name__ == "SSLWantReadError"

    def send(self, data):
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def receive(self):
        """More bytes; False at the end."""
        self.socket.settimeout(self.left())
        more = self.socket.recv(65536)
        self.buffer += more
        self.heard = self.heard or len(more) > 0
        return len(more) > 0

    def head(self):
        """Status and headers (lower case; a list of values each)."""
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
        """The whole body by its declared length; refuses one that is longer, shorter or of two lengths."""
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
        self.bounded = False  # its trailer is not read
        whole = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.limit(len(self.buffer))
                self.more()
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            digits = line.split(b";")[0].strip()
            # What int() takes beside digits, no other reader does.
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
    """A TCP connection to the first of the host's addresses that takes one."""
    failed = None
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
    """Host, port and credential headers of the proxy for the service: https only, so that no proxy reads the key."""
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


class Service:
    """The service: requests over connections that are kept open between calls."""

    def __init__(self, settings):
        self.settings = settings
        self.lock = threading.Lock()
        self.kept = []

    def connection(self, until):
        """One that is open already, or a new one."""
        while True:
            with self.lock:
                if not self.kept:
                    break
                connection = self.kept.pop()
            if connection.is_fresh():
                connection.until = until
                return connection
            connection.close()
        return Connection(self.settings, until)

    def request(self, method, path, body, until, call=None):
        """One request: its status and body. Raises Unreachable for a failed connection, no answer in time or a 5xx,
        and Refused for what is no HTTP answer. A redirect is an answer like any other: the key goes nowhere else. A
        call that is given up meanwhile ends it."""
        while True:
            connection = self.connection(until)
            used = connection.socket is not None
            try:
                return self.exchange(connection, method, path, body, call)
            except Unreachable:
                # One that was kept open may be closed by the service at any time, before it has read a word.
                if not used or connection.heard or time.monotonic() >= until or (call is not None and call.cancelled):
                    raise
            finally:
                if call is not None:
                    call.connection = None
                if connection.reusable:
                    with self.lock:
                        if len(self.kept) < MAX_KEPT_OPEN:
                            connection.kept_at = time.monotonic()
                            self.kept.append(connection)
                            connection = None
                if connection is not None:
                    connection.close()

    def exchange(self, connection, method, path, body, call):
        connection.heard, connection.reusable = False, False
        try:
            if connection.socket is None:
                connection.open()
            if call is not None:
                call.connection = connection
                if call.cancelled:
                    raise Unreachable("given up")
            lines = [
                "%s %s/api/v1%s HTTP/1.1" % (method, self.settings.prefix, path),
                "Host: %s:%d" % (bracketed(self.settings.host), self.settings.port),
                "Authorization: Bearer " + self.settings.key,
                "User-Agent: countersign-mcp/" + VERSION,
                "Accept: application/json",
            ]
            if body is not None:
                lines += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
            try:
                connection.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b""))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered without reading all
            status = 100
            while status < 200 and status != 101:
                status, headers = connection.head()
            if status >= 500:
                raise Unreachable("it answers %d" % status)
            if status != 200:
                return status, said(connection, headers)
            answered = connection.body(headers)
            closing = [value.lower() for value in headers.get("connection", [])]
            connection.reusable = "close" not in closing and connection.bounded
            return status, answered
        except OSError as error:
            if connection.heard and "timed out" not in str(error):
                raise Refused("the service's answer was cut short")
            raise Unreachable(plain(error.strerror or str(error) or type(error).__name__, 200))

    def ask(self, method, path, body, until, call=None):
        """A request and its JSON object; refuses every status but 200."""
        status, answered = self.request(method, path, body, until, call)
        try:
            found = parse_json(answered.decode("utf-8"))
        except ValueError:
            found = None
        if status != 200:
            error = found.get("error") if isinstance(found, dict) else None
            told = text_of(error, "message") if isinstance(error, dict) else None
            hint = ": check SERVICE_API_KEY" if status in (401, 403) else ": check SERVICE_API_URL"
            raise Refused("the service answers %d%s%s" % (status, hint, " (%s)" % plain(told, 300) if told else ""))
        if not isinstance(found, dict):
            raise Refused("the service's answer cannot be read: it is not a JSON object")
        return found

    def decide(self, body, until, call=None):
        """The service's decision on a call, asked for up to three times if no answer comes: a decision is repeated for
        the same call, so that a lost answer costs nothing."""
        for pause in (0.15, 0.5, None):
            try:
                decided = self.ask("POST", "/authorize", body, until, call)
                break
            except Unreachable:
                if pause is None or time.monotonic() + pause >= until or (call is not None and call.cancelled):
                    raise
                time.sleep(pause)
        verdict = decided.get("decision")
        if verdict == "allow" and text_of(decided, "decision_id") is not None:
            return decided
        if verdict == "deny":
            return decided
        if verdict == "require_approval" and is_approval(decided.get("approval_id")):
            return decided
        raise Refused("the service's answer cannot be read: it is no decision")


def said(connection, headers):
    """What comes with an answer that is none: a help for people, and nothing that is waited for."""
    connection.until = min(connection.until, time.monotonic() + 1)
    try:
        return connection.body(headers)
    except (Refused, Unreachable, OSError):
        return b""


def is_approval(value):
    return isinstance(value, str) and 0 < len(value) <= 100 and all(c.isalnum() or c in "_-" for c in value)


def named_rule(decided):
    rule = text_of(decided, "rule_name")
    return " by rule `%s`" % rule if rule is not None else ""


def blocked(decided):
    """Why a call may not run, in words for the model."""
    reason, rule = text_of(decided, "reason"), text_of(decided, "rule_name")
    why = [text_of(decided, "explanation")]
    if reason != rule:
        why.insert(0, reason)
    told = ": ".join(each for each in why if each)
    return "blocked%s%s" % (named_rule(decided), ": " + told if told else "")


def held(decided, state):
    return "held%s: approval %s %s" % (named_rule(decided), decided["approval_id"], state)


def pending(decided):
    told = "is still pending; have it approved, then call again with the same arguments"
    return held(decided, told)


# --- Names ----------------------------------------------------------------------------------------------------------


def token(name):
    """As Claude Code writes names of servers and tools: other characters become `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


def server_token(name):
    """A server's name in its tools' names. Two underscores together would make one name of two servers' tools."""
    return re.sub("_+", "_", token(name)).strip("_-")


def short_hash(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


class Names:
    """The names under which tools, or prompts, are shown, and the way back. A name that was given once stays: neither a
    server that comes late nor a restart moves it to another tool."""

    def __init__(self, gateway):
        self.room = MAX_NAME - len("mcp__" + gateway + "__")
        self.given = {}  # (server, its own name): (shown, full)
        self.back = {}  # shown: (server, its own name)
        self.fulls = set()

    def name(self, server, owns):
        """Names all of a server's own names. One that is sayable as it is comes before those that become like it."""
        for own in sorted(owns, key=lambda own: (token(own) != own, own)):
            if (server, own) not in self.given:
                self._give(server, own)

    def _give(self, server, own):
        full = first = server + "__" + token(own)
        told = server + "__" + own
        while full in self.fulls:
            full = first + "_" + short_hash(told)
            told += "+"
        shown, told = full, full
        while len(shown) > self.room or shown in self.back:
            shown = full[: self.room - 9] + "_" + short_hash(told)
            told += "+"
        self.fulls.add(full)
        self.given[server, own] = (shown, full)
        self.back[shown] = (server, own)


# --- The file of servers --------------------------------------------------------------------------------------------

# What programs need to be found and to know where they are; the rest of the environment holds other people's secrets.
POSIX_BASE = "HOME LANG LANGUAGE LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER".split()
WINDOWS_BASE = (
    "ALLUSERSPROFILE APPDATA COMMONPROGRAMFILES COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT "
    "PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
).split()
OUR_KEY = "SERVICE_API_KEY"


class Server:
    """One server of the file: how it is started."""

    def __init__(self, name, said, key):
        self.name = name
        self.said = said if isinstance(said, dict) else {}
        self.key = key
        limit = self.said.get("timeout")
        self.timeout = limit / 1000 if is_whole(limit) and 0 < limit <= LARGEST else None

    def command(self):
        """Program and arguments, environment and folder. Raises Failed for what cannot be started."""
        said = self.said
        if said.get("type", "stdio") != "stdio" or "url" in said:
            raise Failed("only servers that are started as programs (stdio) can stand behind the gateway")
        args, named = said.get("args", []), said.get("env", {})
        if not isinstance(said.get("command"), str) or said["command"] == "":
            raise Failed("`command` must be a text")
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise Failed("`args` must be a list of texts")
        if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
            raise Failed("`env` must be an object of texts")
        if "cwd" in said and not isinstance(said["cwd"], str):
            raise Failed("`cwd` must be a text")
        env = base_environment()
        env.update((name, expand(value)) for name, value in named.items())
        if OUR_KEY in env or (self.key and any(self.key in value for value in env.values())):
            raise Failed("its `env` hands on the service's key, which no server gets")
        words = [expand(word) for word in [said["command"]] + args]
        if self.key and any(self.key in word for word in words):
            raise Failed("its `args` hand on the service's key, which no server gets")
        import shutil

        # On Windows `npx` is `npx.cmd`, which is only found by looking.
        found = shutil.which(words[0], path=env.get("PATH"))
        if found is None:
            raise Failed("the program `%s` cannot be found" % words[0])
        return [found] + words[1:], env, expand(said["cwd"]) if "cwd" in said else None


def base_environment():
    names = WINDOWS_BASE if os.name == "nt" else POSIX_BASE
    found = {name: value for name, value in os.environ.items() if name.upper() in names or name.startswith("LC_")}
    # Functions that old shells export.
    return {name: value for name, value in found.items() if not value.startswith("()")}


def expand(text):
    """`${VAR}` and `${VAR:-default}`, as in `.mcp.json`. Raises Failed for a variable that is not set."""

    def value(found):
        name, default = found.group(1), found.group(2)
        if name == OUR_KEY:
            raise Failed("it asks for the service's key, which no server gets")
        known = os.environ.get(name, _taken.get(name))
        if not known and default is not None:
            return default
        if known is None:
            raise Failed("the variable `%s` is not set" % name)
        return known

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", value, text)


def read_servers(path, key):
    """The servers of the file, in its order. Raises Refused."""
    try:
        found = parse_json(read_private(path, False).decode("utf-8").lstrip("\ufeff"))
    except ValueError:
        raise Refused("`%s` is not JSON" % path)
    named = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(named, dict):
        raise Refused("`%s` has no object `mcpServers`" % path)
    servers = {}
    for name, said in named.items():
        if isinstance(said, dict) and said.get("disabled") is True:
            continue
        short = server_token(name)
        if short == "":
            raise Refused("the server's name `%s` has none of the letters that tools' names may have" % name)
        if short in servers:
            raise Refused("two servers are called `%s` in the names of their tools" % short)
        servers[short] = Server(short, said, key)
    return list(servers.values())


# --- Processes ------------------------------------------------------------------------------------------------------


def start_process(command, env, cwd):
    """A server in a process group of its own, which takes its helpers along when it is ended."""
    import subprocess

    pipe = subprocess.PIPE
    options = {"start_new_session": True}
    if os.name == "nt":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, **options)
    except (OSError, ValueError) as error:
        raise Failed("it cannot be started: %s" % (getattr(error, "strerror", None) or type(error).__name__))


def is_alive(process):
    """Whether anything of its group runs."""
    if process.poll() is None:
        return True
    if os.name == "nt":
        return False
    try:
        os.killpg(process.pid, 0)
        return True
    except OSError:
        return False


def end_group(process, number):
    try:
        if os.name != "nt":
            os.killpg(process.pid, number)
        elif process.poll() is None:
            import subprocess

            line = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except OSError:
        pass


def end_processes(processes, grace=GRACE_SECONDS):
    """Ends servers whose input is closed: two seconds to go by themselves, two more after SIGTERM, then SIGKILL."""
    steps = [(signal.SIGTERM, GRACE_SECONDS), (getattr(signal, "SIGKILL", None), 1)]
    limit = time.monotonic() + grace
    while True:
        processes = [process for process in processes if is_alive(process)]
        if not processes:
            return
        if time.monotonic() < limit:
            time.sleep(0.01)
            continue
        if not steps:
            return
        number, grace = steps.pop(0)
        for process in processes:
            end_group(process, number)
        limit = time.monotonic() + grace


class Watch:
    """A process beside this one that outlives it: clients kill what takes them too long to end, and then nobody else is
    left to end the servers. It is told of each that starts and ends, and acts when this one has gone."""

    def __init__(self):
        import subprocess

        self.lock = threading.Lock()
        self.process = None
        if os.name == "nt":
            return
        null = subprocess.DEVNULL
        try:
            line = [sys.executable, "-I", "-S", os.path.abspath(__file__), "--watch"]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                line, stdin=pipe, stdout=null, stderr=null, bufsize=0, env={}, start_new_session=True
            )
        except OSError as error:
            log("servers will not be ended if this program is killed: %s" % error.strerror)

    def tell(self, sign, process):
        with self.lock:
            if self.process is not None:
                write_all(self.process.stdin.fileno(), b"%s%d\n" % (sign, process.pid))


def watch():
    """The work of that process: its input ends with the gateway."""
    left = set()
    for line in sys.stdin.buffer:
        (left.add if line[:1] == b"+" else left.discard)(int(line[1:]))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in list(left):
            try:
                os.killpg(group, number)
            except OSError:
                left.discard(group)
        limit = time.monotonic() + GRACE_SECONDS
        while left and number == signal.SIGTERM and time.monotonic() < limit:
            time.sleep(0.05)
            for group in list(left):
                try:
                    os.killpg(group, 0)
                except OSError:
                    left.discard(group)
    return 0


# --- The protocol's shapes ------------------------------------------------------------------------------------------

# A client that checks what it reads refuses a whole list for one wrong entry, and with it all other servers' entries. So
# these say what the strictest of them refuse, and no more: members that are not named here may be anything.


def is_text(value):
    return isinstance(value, str)


def is_flag(value):
    return isinstance(value, bool)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_object(value):
    return isinstance(value, dict)


def is_part(value):
    return isinstance(value, (dict, list))


def is_share(value):
    return is_number(value) and 0 <= value <= 1


def one_of(*known):
    return lambda value: isinstance(value, str) and value in known


def each_of(check):
    return lambda value: isinstance(value, list) and all(check(each) for each in value)


def all_of(check):
    return lambda value: isinstance(value, dict) and all(check(each) for each in value.values())


def shaped(shape):
    return lambda value: isinstance(value, dict) and wrong_member(shape, value) is None


def wrong_member(shape, value):
    """The first member that is missing or not what it should be; None if there is none. `?`: it need not be there."""
    for member, check in shape.items():
        name = member.rstrip("?")
        if not check(value[name]) if name in value else name == member:
            return name
    return None


_moment = re.compile(
    r"(?:(?:[0-9]{2}(?:[2468][048]|[13579][26]|0[48])|(?:[02468][048]|[13579][26])00)-02-29|[0-9]{4}-(?:(?:0[13578]|1[02])-"
    r"(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def is_moment(value):
    return isinstance(value, str) and _moment.fullmatch(value) is not None


ICON = {"src": is_text, "mimeType?": is_text, "sizes?": each_of(is_text), "theme?": one_of("light", "dark")}
NAMED = {
    "name": is_text,
    "title?": is_text,
    "description?": is_text,
    "icons?": each_of(shaped(ICON)),
    "_meta?": is_object,
}
SCHEMA = {
    "type": one_of("object"),
    "properties?": all_of(is_part),
    "required?": each_of(is_text),
    "$schema?": is_text,
}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
ANNOTATIONS = {
    "audience?": each_of(one_of("user", "assistant")),
    "priority?": is_share,
    "lastModified?": is_moment,
}
CONTENT = dict(NAMED, **{"mimeType?": is_text, "annotations?": shaped(ANNOTATIONS)})
ARGUMENT = {"name": is_text, "description?": is_text, "required?": is_flag}
SHAPES = {
    "tools": dict(
        NAMED,
        **{
            "inputSchema": shaped(SCHEMA),
            "outputSchema?": shaped(SCHEMA),
            "annotations?": shaped(dict({hint + "?": is_flag for hint in HINTS}, **{"title?": is_text})),
        }
    ),
    "prompts": dict(NAMED, **{"arguments?": each_of(shaped(ARGUMENT))}),
    "resources": dict(CONTENT, **{"uri": is_text, "size?": is_number}),
    "templates": dict(CONTENT, uriTemplate=is_text),
}
# What is handed on unasked.
NOTICES = {
    "notifications/message": {"level": one_of(*LEVELS), "_meta?": is_object},
    "notifications/resources/updated": {"uri": is_text, "_meta?": is_object},
    "notifications/elicitation/complete": {"elicitationId": is_text, "_meta?": is_object},
}


def fault_of(kind, entry):
    """Why an entry of a server's list is left out; None if it is not."""
    if not isinstance(entry, dict):
        return "no object"
    wrong = wrong_member(SHAPES[kind], entry)
    if wrong is not None:
        return "`%s` is not as the protocol has it" % wrong
    return None if is_sayable(entry) else "it cannot be written"


def is_schema(value):
    return isinstance(value, bool) or (isinstance(value, dict) and wrong_keyword(value) is None)


def is_items(value):
    return each_of(is_schema)(value) or is_schema(value)


def is_list(value):
    return isinstance(value, list)


def is_choice(value):
    return isinstance(value, list) and len(value) > 0


def is_target(value):
    """What may be referred to; a reference to a reference may lead in a circle."""
    return isinstance(value, bool) or "$ref" not in value


def anything(value):
    return True


is_type = one_of("string", "number", "integer", "boolean", "array", "object", "null")

# A client of the first SDK compiles the schemas of all results as it reads the list, and one that it cannot compile costs
# it the list. These are the keywords, and what they may say, by which it can; `pattern` is not among them, as no other
# language reads the same expressions.
KEYWORDS = dict(
    {name: anything for name in ("default", "const")},
    **{name: is_text for name in ("title", "description", "$comment", "$schema", "$ref", "format")},
    **{name: is_schema for name in ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")},
    **{name: all_of(is_schema) for name in ("properties", "$defs", "definitions")},
    **{name: each_of(is_schema) for name in ("anyOf", "oneOf", "allOf", "prefixItems")},
    **{name: is_number for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")},
    **{name: is_number for name in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")},
    **{name: is_flag for name in ("uniqueItems", "readOnly", "writeOnly", "deprecated")},
    **{
        "type": lambda value: is_type(value) or each_of(is_type)(value),
        "items": is_items,
        "required": each_of(is_text),
        "enum": is_choice,
        "examples": is_list,
    }
)


def wrong_keyword(schema):
    """The first of a schema's keywords that a client might not be able to compile."""
    return next((name for name, value in schema.items() if not KEYWORDS.get(name, lambda value: False)(value)), None)


def is_compiled(schema):
    """Whether every client can compile a result's schema."""
    if wrong_keyword(schema) is not None:
        return False
    known = {"#"}
    for place in ("$defs", "definitions"):
        targets = [name for name, each in schema.get(place, {}).items() if is_target(each)]
        known.update("#/%s/%s" % (place, name) for name in targets if token(name) == name)
    rest = [schema]
    while rest:
        one = rest.pop()
        rest.extend(parts(one))
        if isinstance(one, dict) and "$ref" in one and not (is_text(one["$ref"]) and one["$ref"] in known):
            return False
    return True


# --- One server -----------------------------------------------------------------------------------------------------

# What servers have lists of: the method, and the member of its result.
LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "prompts": ("prompts/list", "prompts", "prompts"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
}
CHANGES = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/prompts/list_changed": ("prompts",),
    "notifications/resources/list_changed": ("resources", "templates"),
}


class Waiting:
    """A request to a server whose answer a thread waits for."""

    def __init__(self, call=None):
        self.call = call
        self.queue = SimpleQueue()

    def answered(self, message):
        self.queue.put(message)

    def ended(self, reason):
        self.queue.put(reason)

    def get(self, timeout=None):
        """The answer. Raises Failed when there will be none, or not in time."""
        try:
            found = self.queue.get(True, timeout)
        except Empty:
            raise Failed("did not answer within %d seconds" % timeout)
        if isinstance(found, str):
            raise Failed(found)
        return found


class Forwarded:
    """A tool call that a server works on; its answer goes to the client as it is."""

    def __init__(self, gateway, call, question):
        self.gateway = gateway
        self.call = call
        self.question = question

    def answered(self, message):
        kind = "result" if message.has("result") else "error"
        self.gateway.answer(self.call, b'"' + kind.encode() + b'":' + message.raw(kind))
        found = message.get("result")
        failed = kind == "error" or (isinstance(found, dict) and found.get("isError") is True)
        self.gateway.observe_later(self.question, "error" if failed else "ok")

    def ended(self, reason):
        self.gateway.answer(self.call, tool_error("countersign: " + reason))
        self.gateway.observe_later(self.question, "error")


class Upstream:
    """One of the organization's servers: its process, started again when it ends, and what it offers."""

    def __init__(self, gateway, server):
        self.gateway = gateway
        self.server = server
        self.name = server.name
        self.lock = threading.Lock()  # of what is open with it
        self.write_lock = threading.Lock()
        self.process = None
        self.pending = None  # by our own ids; None while it does not run
        self.counter = 0
        self.capabilities = {}
        self.ready = False  # its tools are known
        self.settled = threading.Event()  # ready, or certainly not soon
        self.complete = threading.Event()  # all of its lists are known
        self.items = {kind: [] for kind in LISTS}
        self.refreshing = set()
        self.refresh_lock = threading.Lock()
        self.subscribed = set()
        self.last_words = b""
        self.outbox = SimpleQueue()  # what it is told beside its calls

    # Its life

    def run(self):
        """Keeps it running until the gateway ends."""
        threading.Thread(target=self.deliver, daemon=True).start()
        failures = 0
        while not self.gateway.closing.is_set():
            began = time.monotonic()
            try:
                process = start_process(*self.server.command())
            except Failed as error:
                log("server `%s`: %s" % (self.name, error))
                self.give_up()
                return
            self.live(process)
            if self.gateway.closing.is_set():
                return
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            pause = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else BACKOFF_SECONDS[0]
            log("server `%s` has ended, and is started again in %s s%s" % (self.name, pause, self.quoted()))
            self.gateway.closing.wait(pause)

    def later(self, work, *args):
        """Has it told something by a thread of its own: one that does not read would keep all the others' threads, and
        what it asks without reading the answers is dropped."""
        if self.outbox.qsize() < MAX_OUTBOX:
            self.outbox.put((self.process, work, args))

    def deliver(self):
        while True:
            process, work, args = self.outbox.get()
            try:
                if process is self.process:
                    work(*args)
            except Exception as error:
                log("the gateway failed (%s)" % type(error).__name__)

    def quoted(self):
        words = plain(self.last_words.decode("utf-8", "replace"), 500)
        return "; its last words: " + words if words else ""

    def give_up(self):
        self.settled.set()
        self.complete.set()

    def live(self, process):
        """One life of its process: until it ends, or its output does."""
        with self.lock:
            self.process = process
            self.pending = {}
        self.gateway.watch.tell(b"+", process)
        self.last_words = b""
        over, quiet = threading.Event(), threading.Event()
        for work, args in (
            (self.drain, (process.stderr,)),
            (self.listen, (process, over, quiet)),
            (self.await_end, (process, over)),
        ):
            threading.Thread(target=work, args=args, daemon=True).start()
        if self.gateway.closing.is_set():
            self.close_input()
        self.gateway.workers.run(self.begin, process)
        over.wait()
        # What it wrote last may still be on its way; its helpers may keep the pipe open for ever.
        quiet.wait(0.5)
        self.down(process)

    def listen(self, process, over, quiet):
        output = io.BufferedReader(process.stdout, 65536)
        try:
            while self.process is process:
                line = output.readline(MAX_LINE + 1)
                if not line or len(line) > MAX_LINE:
                    break
                self.take(line)
        except (OSError, ValueError):
            pass
        finally:
            quiet.set()
            over.set()

    def await_end(self, process, over):
        process.wait()
        over.set()

    def drain(self, stream):
        """Reads its standard error, always: a full pipe would stop it. Only the end is kept, for when it dies."""
        try:
            while True:
                more = stream.read(65536)
                if not more:
                    return
                self.last_words = (self.last_words + more)[-1000:]
        except (OSError, ValueError):
            pass

    def down(self, process):
        """It has ended, or will be: what is open with it is answered, what it offers is gone."""
        with self.lock:
            open_calls, self.pending = self.pending or {}, None
            was_ready, self.ready = self.ready, False
        reason = "server `%s` ended while this call was open; whether it took effect is not known" % self.name
        for each in list(open_calls.values()):
            self.end_one(each, reason)
        self.gateway.forget_requests(self)
        self.give_up()
        if was_ready and not self.gateway.closing.is_set():
            self.gateway.changed(*LISTS)
        if not self.gateway.closing.is_set():
            self.close_input()
            end_processes([process], 0 if process.poll() is not None else GRACE_SECONDS)
            self.gateway.watch.tell(b"-", process)

    def end_one(self, waiting, reason):
        """Tells of one open request that it will not be answered; whatever goes wrong, the others are told too."""
        try:
            waiting.ended(reason)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)

    def close_input(self):
        # Whoever writes to it now may do so for ever.
        if self.write_lock.acquire(timeout=0.2):
            try:
                self.process.stdin.close()
            except OSError:
                pass
            finally:
                self.write_lock.release()

    def begin(self, process):
        """Greets it and reads its lists."""
        try:
            asked = {
                "protocolVersion": self.gateway.protocol,
                "capabilities": self.gateway.offered,
                "clientInfo": {"name": "countersign-gateway", "version": VERSION},
            }
            found = self.ask("initialize", asked, START_SECONDS)
            if not isinstance(found, dict) or found.get("protocolVersion") not in PROTOCOLS:
                raise Failed("speaks no version of the protocol that the gateway does")
            offered = found.get("capabilities")
            self.capabilities = offered if isinstance(offered, dict) else {}
            self.notify("notifications/initialized")
            if self.gateway.level is not None and "logging" in self.capabilities:
                self.notify_request("logging/setLevel", {"level": self.gateway.level})
            self.fetch("tools")
            with self.lock:
                self.ready = self.pending is not None and self.process is process
            self.settled.set()
            self.gateway.changed("tools")
            for kind in ("prompts", "resources", "templates"):
                self.fetch(kind)
            self.complete.set()
            self.gateway.changed("prompts", "resources", "templates")
            for uri in sorted(self.subscribed):
                self.notify_request("resources/subscribe", {"uri": uri})
        except Exception as error:
            if not self.gateway.closing.is_set():
                failed = "makes the gateway fail (%s)" % type(error).__name__
                log("server `%s` %s" % (self.name, error if isinstance(error, Failed) else failed))
            self.give_up()
            self.close_input()
            end_processes([process], 0)

    def fetch(self, kind):
        """Reads all pages of one of its lists. Raises Failed if it ends; a refusal is an empty list."""
        method, member, capability = LISTS[kind]
        found, faults, seen, params = [], [], set(), {}
        while capability in self.capabilities and len(seen) < MAX_PAGES:
            page = self.ask(method, params, PAGE_SECONDS, True)
            if not isinstance(page, dict) or not isinstance(page.get(member), list):
                break
            for each in page[member]:
                fault = fault_of(kind, each)
                (found if fault is None else faults).append(each if fault is None else fault)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen:
                break
            seen.add(cursor)
            params = {"cursor": cursor}
        if faults:
            told = (self.name, len(faults), member, faults[0])
            log("server `%s` lists %d %s that are left out; of the first, %s" % told)
        self.items[kind] = self.gateway.adopt(self, kind, found)

    def refresh(self, kinds):
        """Reads lists again that it says have changed."""
        with self.refresh_lock:
            for kind in kinds:
                self.refreshing.discard(kind)
                try:
                    self.fetch(kind)
                except Failed as error:
                    log("server `%s` %s" % (self.name, error))
        if self.ready:
            self.gateway.changed(*kinds)

    # What it says

    def take(self, line):
        try:
            message = Message(line.decode("utf-8").strip(), LOOSE)
        except ValueError:
            if line.strip():
                log("server `%s` wrote %d bytes that are no message, which are dropped" % (self.name, len(line)))
            return
        try:
            self.handle(message)
        except Exception as error:
            # One message's fault is not the end of those after it.
            log("server `%s` wrote what the gateway fails at (%s), which is dropped" % (self.name, type(error).__name__))
            if isinstance(message.get("method"), str) and message.has("id"):
                self.later(self.respond, message.raw("id"), error_body(INTERNAL, "the gateway failed"))

    def handle(self, message):
        method = message.get("method")
        if isinstance(method, str):
            if message.has("id"):
                self.gateway.server_asks(self, message, method)
            else:
                self.told(message, method)
        elif message.has("id") and (message.has("result") or message.has("error")):
            if not is_whole(message.get("id")):
                return
            with self.lock:
                waiting = None if self.pending is None else self.pending.pop(message.get("id"), None)
            if waiting is None:
                return
            try:
                waiting.answered(message)
            except Exception:
                self.end_one(waiting, "server `%s` answered what the gateway fails at" % self.name)
                raise

    def told(self, message, method):
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method in NOTICES and wrong_member(NOTICES[method], params) is not None:
            log("server `%s` wrote a `%s` that is not as the protocol has it, which is dropped" % (self.name, method))
            return
        if method in CHANGES:
            with self.lock:
                known = set(CHANGES[method]) <= self.refreshing or not self.settled.is_set()
                self.refreshing.update(CHANGES[method])
            if not known:
                self.gateway.workers.run(self.refresh, CHANGES[method])
        elif method == "notifications/progress":
            self.progress(params)
        elif method == "notifications/cancelled":
            self.gateway.server_cancels(self, params)
        elif method == "notifications/message":
            logger = params.get("logger")
            named = self.name + ("." + logger if isinstance(logger, str) else "")
            self.gateway.tell(method, dict(params, logger=named))
        elif method in ("notifications/resources/updated", "notifications/elicitation/complete"):
            self.gateway.tell(method, params)

    def progress(self, params):
        ours = params.get("progressToken")
        with self.lock:
            waiting = self.pending.get(ours) if self.pending is not None and is_whole(ours) else None
        if waiting is not None and waiting.call is not None:
            self.gateway.progress(waiting.call, params.get("progress"), params.get("total"), params.get("message"))

    # What it is told

    def write(self, data):
        """Writes one message; called under the write lock."""
        process = self.process
        if process is not None and not process.stdin.closed:
            write_all(process.stdin.fileno(), data)

    def send(self, method, params, waiting, meta=None):
        """Sends a request, with a progress token of our own if its call has one. Raises Failed if it does not run, and
        Cancelled if the call has been given up."""
        call = waiting.call
        head = b',"method":' + to_json(method) + b',"params":'
        body = to_json(params)
        with self.write_lock:
            with self.lock:
                if self.pending is None:
                    raise Failed("server `%s` does not run at the moment, and is started again" % self.name)
                if call is not None and call.cancelled:
                    raise Cancelled()
                self.counter += 1
                number = self.counter
                self.pending[number] = waiting
                if call is not None:
                    call.upstream, call.number = self, number
            if meta is not None or (call is not None and call.token is not None):
                meta = dict(meta or {})
                if call is not None and call.token is not None:
                    meta["progressToken"] = number
                body = body[:-1] + (b',"_meta":' if params else b'"_meta":') + to_json(meta) + b"}"
            self.write(b'{"jsonrpc":"2.0","id":%d' % number + head + body + b"}\n")
        return number

    def ask(self, method, params, timeout, lenient=False):
        """A request of our own: its result. Raises Failed; an error is an empty answer where that is said."""
        waiting = Waiting()
        number = self.send(method, params, waiting)
        try:
            message = waiting.get(timeout)
        except Failed:
            with self.lock:
                late = self.pending is not None and self.pending.pop(number, None) is not None
            if late:
                if method != "initialize":
                    self.notify("notifications/cancelled", {"requestId": number, "reason": "no answer in time"})
                raise Failed("did not answer `%s` within %d seconds" % (method, timeout))
            raise
        if message.has("result"):
            return message.get("result")
        if lenient:
            return None
        raise Failed("refuses `%s`" % method)

    def notify_request(self, method, params):
        """A request whose answer nobody waits for."""
        try:
            self.send(method, params, Waiting())
        except Failed:
            pass

    def notify(self, method, params=None):
        told = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            told["params"] = params
        with self.write_lock:
            self.write(to_json(told) + b"\n")

    def respond(self, number, body):
        """Answers one of its own requests; its id as it was written."""
        with self.write_lock:
            self.write(b'{"jsonrpc":"2.0","id":' + number + b"," + body + b"}\n")


# --- The gateway ----------------------------------------------------------------------------------------------------


class Call:
    """One request of the client, from its first byte to its answer."""

    def __init__(self, key=None, token=None, name=None):
        self.key = key  # its id as it was written; None for what the gateway asks itself
        self.name = name  # its id as the gateway writes it: an id may be written in several ways
        self.token = token  # its progress token as bytes of JSON
        self.done = False  # answered, or given up: nothing more may be said of it
        self.cancelled = False
        self.connection = None  # to the service, while it waits there
        self.upstream = None
        self.number = None  # its id there
        self.progress = 0.0
        self.asking = False  # a decision is on its way
        self.held = None  # the decision, while it waits for an approver
        self.ticked = 0.0
        self.deadline = None


class Question:
    """One call as the service is asked about it."""

    def __init__(self, tool, given, session, use_id, hints):
        self.tool = tool
        self.given = given
        self.session = session
        self.use_id = use_id
        self.hints = hints

    def seen(self, outcome):
        told = {"session_id": self.session, "tool_name": self.tool, "tool_input": self.given}
        return dict(told, tool_use_id=self.use_id, outcome=outcome)


class Tool:
    """A tool as it was first shown in this session."""

    def __init__(self, own, definition):
        self.own = own
        self.definition = definition
        self.print = fingerprint(definition)
        self.changed = False
        told = definition.get("annotations")
        self.hints = {name: told[name] for name in HINTS if name in told} if isinstance(told, dict) else {}


def fingerprint(definition):
    """What the model is told of a tool, as a hash."""
    import hashlib

    told = {name: value for name, value in definition.items() if name not in ("icons", "execution")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii")).hexdigest()


class Gateway:
    """Between one client and the servers of the file."""

    def __init__(self, settings, servers, name):
        from binascii import hexlify

        self.settings = settings
        self.service = Service(settings)
        self.unusable = None  # why nobody can be asked
        try:
            settings.check()
        except Refused as error:
            self.unusable = str(error)
            log(self.unusable)
        self.workers = Workers()
        self.events = SimpleQueue()
        self.closing = threading.Event()
        self.watch = None  # once there is something to watch
        self.out = None
        self.out_lock = threading.Lock()
        self.lock = threading.Lock()
        self.open = {}  # calls by their ids, as `id_name` has them
        self.upstreams = [Upstream(self, server) for server in servers]
        self.by_name = {upstream.name: upstream for upstream in self.upstreams}
        self.names = {"tools": Names(name), "prompts": Names(name)}
        self.tools = {}  # (server, its own name): Tool
        self.initialized = False  # `initialize` was answered
        self.live = False  # the client has said that it is ready
        self.before_live = []
        self.protocol = PROTOCOLS[0]
        self.offered = {}  # the client's capabilities that are handed on
        self.agent = "mcp-client"
        self.level = None
        self.began = 0.0
        self.asked = {}  # servers' requests to the client, by our id
        self.asked_count = 0
        self.told_lists = {}  # the last list that the client was given, of each kind
        self.observing = 0
        self.session = "mcp-" + hexlify(os.urandom(16)).decode("ascii")
        self.session_used = False
        self.call_count = 0

    # What goes to the client

    def write(self, line):
        with self.out_lock:
            self.write_locked(line)

    def write_locked(self, line):
        if not write_all(self.out, line):
            self.events.put("the client has gone")

    def answer(self, call, body):
        """Answers a call, unless it has been answered or given up."""
        with self.out_lock:
            if call.done:
                return
            call.done = True
            self.write_locked(b'{"jsonrpc":"2.0","id":' + call.key + b"," + body + b"}\n")
        with self.lock:
            if self.open.get(call.name) is call:
                del self.open[call.name]

    def progress(self, call, value, total=None, message=None):
        """Tells of progress, which always rises, and never after the answer."""
        if call.token is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        with self.out_lock:
            if call.done:
                return
            before = float(call.progress)
            call.progress = value if float(value) > before else round(before + 0.001, 6)
            if call.progress <= before:
                return  # so large that nothing as small can be added to it
            told = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":' + call.token
            more = {"progress": call.progress}
            if isinstance(total, (int, float)) and not isinstance(total, bool):
                more["total"] = total
            if isinstance(message, str):
                more["message"] = message
            self.write_locked(told + b"," + to_json(more)[1:] + b"}\n")

    def tell(self, method, params=None):
        """A notification; what comes before the client is ready waits."""
        told = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            told["params"] = params
        self.up(to_json(told) + b"\n")

    def up(self, line):
        with self.lock:
            if not self.live:
                if len(self.before_live) < 1000:
                    self.before_live.append(line)
                return
        self.write(line)

    def changed(self, *kinds):
        """Tells the client of lists that are no longer what it was given."""
        for kind in kinds:
            with self.lock:
                stale = kind in self.told_lists and self.told_lists[kind] != self.merged(kind)
                if stale:
                    del self.told_lists[kind]
            if stale:
                self.tell("notifications/%s/list_changed" % LISTS[kind][2])

    # What the client says

    def read(self):
        """Reads the client's messages until there are no more."""
        stream = io.BufferedReader(io.FileIO(0, "rb", closefd=False), 65536)
        try:
            while True:
                line = stream.readline(MAX_LINE + 1)
                if not line:
                    break
                if len(line) > MAX_LINE:
                    while line and not line.endswith(b"\n"):
                        line = stream.readline(MAX_LINE)
                    self.complain(b"null", PARSE_ERROR, "a message may have %d bytes" % MAX_LINE)
                elif line.strip():
                    self.take(line)
        except (OSError, ValueError):
            pass
        finally:
            self.events.put("its input has ended")

    def complain(self, key, code, message):
        self.write(b'{"jsonrpc":"2.0","id":' + key + b"," + error_body(code, message) + b"}\n")

    def take(self, line):
        try:
            text = line.decode("utf-8").lstrip("\ufeff").strip()
            if text.startswith("["):
                return self.complain(b"null", INVALID_REQUEST, "batches are not taken: send one message a line")
            message = Message(text, STRICT)
        except ValueError as error:
            return self.complain(b"null", PARSE_ERROR, "the message cannot be read: %s" % plain(error, 200))
        try:
            self.handle(message)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)
            if message.has("method") and message.has("id"):
                self.complain(message.raw("id"), INTERNAL, "the gateway failed (%s)" % type(error).__name__)

    def handle(self, message):
        method = message.get("method")
        if isinstance(method, str) and message.get("jsonrpc") == "2.0":
            if not message.has("id"):
                return self.client_tells(method, message.get("params"))
            if is_id(message.get("id")):
                return self.client_asks(message, method)
        elif not message.has("method") and message.has("id") and (message.has("result") or message.has("error")):
            return self.client_answers(message)
        self.complain(b"null", INVALID_REQUEST, "this is no request of JSON-RPC 2.0")

    def client_asks(self, message, method):
        key, params = message.raw("id"), message.get("params")
        params = {} if params is None else params
        if method == "ping":
            return self.write(b'{"jsonrpc":"2.0","id":' + key + b',"result":{}}\n')
        if method == "initialize":
            return self.initialize(key, params)
        if method not in self.METHODS:
            return self.complain(key, NO_METHOD, "Method not found")
        if not self.initialized:
            return self.complain(key, INVALID_REQUEST, "send `initialize` first")
        if not isinstance(params, dict) or not isinstance(params.get("_meta", {}), dict):
            return self.complain(key, INVALID_PARAMS, "`params` and its `_meta` must be objects")
        token = params.get("_meta", {}).get("progressToken")
        name = id_name(message.get("id"))
        call = Call(key, to_json(token) if isinstance(token, str) or is_whole(token) else None, name)
        with self.lock:
            twice = name in self.open
            if not twice:
                self.open[name] = call
        if twice:
            return self.complain(key, INVALID_REQUEST, "another request with this id is still open")
        self.workers.run(self.serve, call, self.METHODS[method], params)

    def serve(self, call, work, params):
        """Works on one request; `work` answers with a body, or with nothing if the answer comes later."""
        try:
            body = work(self, call, params)
        except Cancelled:
            return
        except Wrong as error:
            body = error_body(error.code, str(error))
        except (Refused, Failed) as error:
            text = str(error) if isinstance(error, Denied) else "countersign: %s" % error
            body = tool_error(text) if work is Gateway.tools_call else error_body(BLOCKED, text)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)
            text = "countersign: the gateway failed (%s)" % type(error).__name__
            body = tool_error(text) if work is Gateway.tools_call else error_body(INTERNAL, text)
        if body is not None:
            self.answer(call, body)

    def initialize(self, key, params):
        """Answers at once, and starts the servers."""
        if self.initialized:
            return self.complain(key, INVALID_REQUEST, "`initialize` was sent before")
        if not isinstance(params, dict):
            return self.complain(key, INVALID_PARAMS, "`params` must be an object")
        info, offered = params.get("clientInfo"), params.get("capabilities")
        if isinstance(info, dict) and isinstance(info.get("name"), str):
            self.agent = plain(info["name"], 100) or self.agent
        if isinstance(offered, dict):
            known = ("roots", "sampling", "elicitation")
            self.offered = {name: offered[name] for name in known if isinstance(offered.get(name), dict)}
        if params.get("protocolVersion") in PROTOCOLS:
            self.protocol = params["protocolVersion"]
        self.initialized = True
        self.watch = Watch()
        self.began = time.monotonic()
        result = {
            "protocolVersion": self.protocol,
            "capabilities": {
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "prompts": {"listChanged": True},
                "logging": {},
                "completions": {},
            },
            "serverInfo": {"name": "countersign-gateway", "title": "Countersign", "version": VERSION},
            "instructions": (
                "Tools of several servers, called <server>__<tool>. Each call is checked against the organization's "
                "rules first: one that is blocked says by which rule, one that is held says what to do."
            ),
        }
        if self.unusable is not None:
            told = "No call can be checked, so every call is blocked, until this is set right: %s. "
            result["instructions"] = told % self.unusable + result["instructions"]
        self.write(b'{"jsonrpc":"2.0","id":' + key + b"," + result_body(result) + b"}\n")
        for upstream in self.upstreams:
            threading.Thread(target=upstream.run, daemon=True).start()

    def client_tells(self, method, params):
        params = params if isinstance(params, dict) else {}
        if method == "notifications/initialized":
            with self.lock:
                waiting, self.before_live, self.live = self.before_live, [], True
            for line in waiting:
                self.write(line)
        elif method == "notifications/cancelled":
            self.cancel(params)
        elif method == "notifications/roots/list_changed" and self.initialized:
            for upstream in self.upstreams:
                if upstream.ready:
                    upstream.later(upstream.notify, method)
        elif method == "notifications/progress":
            with self.lock:
                token = params.get("progressToken")
                found = self.asked.get(token) if isinstance(token, str) else None
            if found is not None and found.token is not None:
                found.upstream.later(found.upstream.notify, method, dict(params, progressToken=found.token))

    def cancel(self, params):
        """The client gives a call up. Ids that are not known, or no longer, are nothing to speak of."""
        reason = params.get("reason")
        if not is_id(params.get("requestId")):
            return
        with self.lock:
            call = self.open.pop(id_name(params["requestId"]), None)
        if call is None:
            return
        with self.out_lock:
            if call.done:
                return
            call.done = True
        self.give_up(call, reason if isinstance(reason, str) else None)

    def give_up(self, call, reason=None):
        """Stops what goes on for a call: the wait for an approver, or the server's work."""
        upstream = call.upstream
        if upstream is None:
            call.cancelled = True
        else:
            with upstream.lock:
                call.cancelled = True
        # Only the wait is broken off: a question has to be heard out, or what it holds would be held for nobody.
        connection = call.connection
        if connection is not None and call.held is not None:
            connection.abort()
        if call.number is not None:
            told = {"requestId": call.number}
            if reason is not None:
                told["reason"] = reason
            with call.upstream.lock:
                waiting = (call.upstream.pending or {}).get(call.number)
            if isinstance(waiting, Waiting):
                waiting.ended("given up")
            call.upstream.later(call.upstream.notify, "notifications/cancelled", told)

    # Lists

    def adopt(self, upstream, kind, found):
        """A server's list as it is shown: named, and without what the gateway cannot do."""
        if kind not in self.names:
            return found
        mine = {}
        for each in found:
            own, extra = each.get("name"), each.get("execution")
            if not isinstance(own, str) or own == "" or own in mine:
                continue
            if kind == "tools" and isinstance(extra, dict) and extra.get("taskSupport") == "required":
                continue  # tasks are not handed on
            mine[own] = each
        with self.lock:
            names = self.names[kind]
            names.name(upstream.name, mine)
            if kind == "tools":
                mine = {own: self.pinned(upstream, own, each).definition for own, each in mine.items()}
            shown = {own: names.given[upstream.name, own][0] for own in mine}
        for own, each in mine.items():
            if "outputSchema" in each and not is_compiled(each["outputSchema"]):
                log("server `%s`: how results of `%s` look is not shown: clients may fail at it" % (upstream.name, own))
                mine[own] = {name: value for name, value in each.items() if name != "outputSchema"}
        return [dict(each, name=shown[own]) for own, each in mine.items()]

    def pinned(self, upstream, own, definition):
        """A tool as it was first shown. What the model was told of it must stay true: one whose description or
        parameters change is refused until a new session (docs/decisions/0036)."""
        definition = {name: value for name, value in definition.items() if name != "execution"}
        known = self.tools.get((upstream.name, own))
        if known is None:
            known = self.tools[upstream.name, own] = Tool(own, definition)
        elif known.print != fingerprint(definition) and not known.changed:
            known.changed = True
            text = "tool `%s` of server `%s` has changed its description or parameters, and is refused" % (
                plain(own, 200),
                upstream.name,
            )
            log(text)
            told = {"level": "warning", "logger": "countersign", "data": text}
            self.workers.run(self.tell, "notifications/message", told)
        return known

    def merged(self, kind):
        """All servers' lists of a kind, in the order of the file; of two resources with one address, the first."""
        found = [each for upstream in self.upstreams if upstream.ready for each in upstream.items[kind]]
        if kind != "resources":
            return found
        seen = set()
        return [each for each in found if not (str(each.get("uri")) in seen or seen.add(str(each.get("uri"))))]

    def settle(self, what):
        """Waits for servers that are starting, within bounds."""
        for upstream in self.upstreams:
            event = upstream.settled if what == "tools" else upstream.complete
            event.wait(max(0.0, self.began + LIST_SECONDS - time.monotonic()))

    def list_of(kind):
        def listed(self, call, params):
            self.settle(kind)
            with self.lock:
                found = self.told_lists[kind] = self.merged(kind)
            return result_body({LISTS[kind][1]: found})

        return listed

    # Calls

    def find(self, kind, shown):
        """Server and own name behind a name that the client was shown, by the table alone."""
        found = self.names[kind].back.get(shown)
        if found is None:
            self.settle(kind)
            found = self.names[kind].back.get(shown)
        if found is None:
            raise Wrong(INVALID_PARAMS, "Unknown %s: %s" % (kind[:-1], plain(shown, 200)))
        return self.by_name[found[0]], found[1]

    def question(self, tool, given, meta, hints=None):
        """What the service is asked; in the client's own words about session and call, where it says them."""
        session = usable(meta.get("sessionId"))
        use_id = usable(meta.get("claudecode/toolUseId")) or usable(meta.get("callId"))
        with self.lock:
            self.call_count += 1
            use_id = use_id or "%s-%d" % (self.session, self.call_count)
        if session is None:
            session, self.session_used = self.session, True
        return Question(tool, given, session, use_id, hints or {})

    def tools_call(self, call, params):
        name, given, meta = params.get("name"), params.get("arguments"), params.get("_meta", {})
        given = {} if given is None else given
        if not isinstance(name, str) or not isinstance(given, dict):
            raise Wrong(INVALID_PARAMS, "a call has a `name` and an object of `arguments`")
        upstream, own = self.find("tools", name)
        tool, full = self.tools[upstream.name, own], self.names["tools"].given[upstream.name, own][1]
        question = self.question("mcp__" + full, given, meta, tool.hints)
        self.refuse_changed(tool, name, question)
        self.permit(call, question)
        # What was asked about, perhaps for minutes, was the tool as it was.
        self.refuse_changed(tool, name, question)
        asked = {"name": own}
        if "arguments" in params:
            asked["arguments"] = given
        if upstream.server.timeout is not None:
            call.deadline = time.monotonic() + upstream.server.timeout
        upstream.send("tools/call", asked, Forwarded(self, call, question), without_token(meta))

    def refuse_changed(self, tool, name, question):
        if not tool.changed:
            return
        question.hints = dict(tool.hints, definitionChanged=True)
        self.workers.run(self.report_change, question)
        raise Refused(
            "tool `%s` has changed its description or parameters since this session began: it is refused until a "
            "person has looked at it and started a new session" % name
        )

    def report_change(self, question):
        """Has the refusal recorded; the service is told why, and denies."""
        try:
            self.service.decide(self.body_of(question), time.monotonic() + ASK_SECONDS)
        except (Refused, Unreachable):
            pass

    def ask_upstream(self, call, upstream, method, params, question=None):
        """Hands a request on and waits: the answer's body, and whether it is an error's code."""
        waiting = Waiting(call)
        upstream.send(method, {k: v for k, v in params.items() if k != "_meta"}, waiting, without_token(params.get("_meta")))
        try:
            message = waiting.get()
        except Failed:
            if call.cancelled:
                raise Cancelled()
            raise
        finally:
            call.number = None
        if question is not None:
            self.observe_later(question, "ok" if message.has("result") else "error")
        if message.has("result"):
            return b'"result":' + message.raw("result"), None
        error = message.get("error")
        return b'"error":' + message.raw("error"), error.get("code") if isinstance(error, dict) else INTERNAL

    def resources_read(self, call, params):
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise Wrong(INVALID_PARAMS, "`uri` must be a text")
        first, body = None, None
        for upstream in self.owners(uri):
            question = self.question("mcp__%s__resources_read" % upstream.name, {"uri": uri}, params.get("_meta", {}))
            try:
                self.permit(call, question)
                body, code = self.ask_upstream(call, upstream, "resources/read", alone(params, "uri"), question)
            except (Denied, Failed) as error:
                # Another server may have it; that it is not there is said only if nothing was blocked.
                first = first or error
                continue
            if code not in (NO_RESOURCE, INVALID_PARAMS):
                return body
        if first is not None:
            raise first
        if body is None:
            raise Wrong(NO_RESOURCE, "Resource not found")
        return body

    def owners(self, uri):
        """The servers that may have a resource: the one that lists it; else by its templates; else all."""
        self.settle("resources")
        able = [each for each in self.upstreams if each.ready and "resources" in each.capabilities]
        for upstream in able:
            if any(each.get("uri") == uri for each in upstream.items["resources"]):
                return [upstream]

        def fit(upstream):
            starts = [str(each.get("uriTemplate")).split("{")[0] for each in upstream.items["templates"]]
            return max([len(start) for start in starts if start and uri.startswith(start)] or [0])

        best = max([fit(upstream) for upstream in able] or [0])
        return [upstream for upstream in able if fit(upstream) == best] if best else able

    def subscription(method):
        def subscribed(self, call, params):
            uri = params.get("uri")
            if not isinstance(uri, str):
                raise Wrong(INVALID_PARAMS, "`uri` must be a text")
            body = None
            for upstream in self.owners(uri):
                # Its listed addresses a server knows; any other would tell it something.
                if all(each.get("uri") != uri for each in upstream.items["resources"]):
                    tool, meta = "mcp__%s__resources_read" % upstream.name, params.get("_meta", {})
                    self.permit(call, self.question(tool, {"uri": uri}, meta))
                body, code = self.ask_upstream(call, upstream, method, alone(params, "uri"))
                if code is None:
                    (upstream.subscribed.add if method == "resources/subscribe" else upstream.subscribed.discard)(uri)
                    return body
            if body is None:
                raise Wrong(NO_RESOURCE, "Resource not found")
            return body

        return subscribed

    def prompts_get(self, call, params):
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(given, dict):
            raise Wrong(INVALID_PARAMS, "a prompt has a `name` and an object of `arguments`")
        upstream, own = self.find("prompts", name)
        asked = {"name": own, "arguments": given}
        question = self.question("mcp__%s__prompts_get" % upstream.name, asked, params.get("_meta", {}))
        self.permit(call, question)
        asked = dict(alone(params, "arguments"), name=own)
        return self.ask_upstream(call, upstream, "prompts/get", asked, question)[0]

    def complete(self, call, params):
        reference = params.get("ref")
        reference = reference if isinstance(reference, dict) else {}
        if isinstance(reference.get("name"), str):
            upstream, own = self.find("prompts", reference["name"])
            params = dict(params, ref=dict(reference, name=own))
        else:
            uri = str(reference.get("uri"))
            self.settle("resources")
            owners = [
                each
                for each in self.upstreams
                if each.ready and any(item.get("uriTemplate") == uri for item in each.items["templates"])
            ] or self.owners(uri)
            if not owners:
                raise Wrong(INVALID_PARAMS, "nothing is known of this reference")
            upstream = owners[0]
        if "completions" not in upstream.capabilities:
            return result_body({"completion": {"values": [], "total": 0, "hasMore": False}})
        return self.ask_upstream(call, upstream, "completion/complete", params)[0]

    def set_level(self, call, params):
        if params.get("level") not in LEVELS:
            raise Wrong(INVALID_PARAMS, "`level` must be one of: " + ", ".join(LEVELS))
        self.level = params["level"]
        for upstream in self.upstreams:
            if upstream.ready and "logging" in upstream.capabilities:
                upstream.later(upstream.notify_request, "logging/setLevel", {"level": self.level})
        return result_body({})

    METHODS = {
        "tools/list": list_of("tools"),
        "prompts/list": list_of("prompts"),
        "resources/list": list_of("resources"),
        "resources/templates/list": list_of("templates"),
        "tools/call": tools_call,
        "resources/read": resources_read,
        "resources/subscribe": subscription("resources/subscribe"),
        "resources/unsubscribe": subscription("resources/unsubscribe"),
        "prompts/get": prompts_get,
        "completion/complete": complete,
        "logging/setLevel": set_level,
    }

    # Asking the service

    def body_of(self, question):
        """The body of an authorize request; refuses one over the limit, naming its size."""
        refuse_inexact(question.given)
        asked = {
            "agent": {"name": self.agent, "kind": "mcp"},
            "session_id": question.session,
            "tool_name": question.tool,
            "tool_input": question.given,
            "tool_use_id": question.use_id,
        }
        if question.hints:
            asked["annotations"] = question.hints
        if self.settings.organization_id is not None:
            asked["organization_id"] = self.settings.organization_id
        try:
            body = to_json(asked)
        except ValueError as error:
            raise Refused("the call's arguments cannot be read: %s" % error)
        if len(body) > MAX_BODY:
            raise Refused(
                "the call's arguments are %s bytes long, over the %s that are checked: split the call"
                % (format(len(body), ","), format(MAX_BODY, ","))
            )
        return body

    def permit(self, call, question):
        """Returns when the call may go on. Raises Refused with the reason if it may not, Cancelled if it need not."""
        if self.unusable is not None:
            raise Refused(self.unusable)
        try:
            self.decided(call, question)
        except (Refused, Cancelled):
            raise
        except Unreachable as error:
            if call.cancelled:
                raise Cancelled()
            if not self.settings.fail_open:
                raise Refused("the service is unreachable (%s), and calls that cannot be checked are blocked" % error)
            log("the service is unreachable (%s); fail mode is open: not checked" % error)
        except Exception as error:
            if not self.settings.fail_open:
                raise Refused("the gateway failed (%s)" % type(error).__name__)
            log("the gateway failed (%s); fail mode is open: not checked" % type(error).__name__)

    def decided(self, call, question):
        body = self.body_of(question)
        call.asking = True
        try:
            decided = self.service.decide(body, time.monotonic() + ASK_SECONDS, call)
            if call.cancelled:
                if decided["decision"] == "require_approval":
                    self.withdraw(decided)
                raise Cancelled()
        finally:
            call.asking = False
        give_up = time.monotonic() + min(self.settings.wait, MAX_WAIT)
        while decided["decision"] == "require_approval":
            try:
                self.wait_for_approval(call, decided, give_up)
                # Only the service's own `allow` lets the call run: what was approved is decided again when it is used.
                again = self.service.decide(body, time.monotonic() + ASK_SECONDS, call)
            except Cancelled:
                self.withdraw(decided)
                raise
            except Unreachable as error:
                if call.cancelled:
                    self.withdraw(decided)
                    raise Cancelled()
                raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
            finally:
                call.held = None
            decided = again
        if decided["decision"] != "allow":
            raise Denied(blocked(decided))

    def wait_for_approval(self, call, decided, give_up):
        """Returns when the approval is given; refuses otherwise, with what to do."""
        path = "/authorize/approvals/" + decided["approval_id"]
        call.held = decided
        self.tick(call)
        while True:
            if call.cancelled:
                raise Cancelled()
            left = give_up - time.monotonic()
            if left <= 0:
                raise Refused(pending(decided))
            asked_at = time.monotonic()
            wait = max(0, min(POLL_SECONDS, int(left)))
            try:
                found = self.service.ask("GET", "%s?wait=%d" % (path, wait), None, asked_at + wait + 10, call)
            except Unreachable:
                # The service may be starting again, and keeps what it holds.
                found = {"status": "pending"}
            status, comment = found.get("status"), text_of(found, "comment")
            if status == "approved":
                return
            if status in ("rejected", "expired", "cancelled"):
                told = held(decided, "was " + status if status != "expired" else "has expired")
                raise Refused(told + (": " + comment if comment else ""))
            if status != "pending":
                raise Refused(held(decided, "has a status that cannot be read"))
            # One that comes back at once is not asked again at once.
            until = min(asked_at + 1.0, give_up)
            while not call.cancelled and time.monotonic() < until:
                time.sleep(max(0.0, min(0.05, until - time.monotonic())))

    def tick(self, call):
        """A sign of life of a call that waits."""
        decided = call.held
        call.ticked = time.monotonic()
        if decided is not None:
            self.progress(call, 0, None, "waiting for approval %s" % decided["approval_id"])

    def withdraw(self, decided):
        """Takes the approval of a call that was given up back."""
        try:
            path = "/authorize/approvals/%s/cancel" % decided["approval_id"]
            self.service.request("POST", path, b"{}", time.monotonic() + 5)
        except (Unreachable, Refused):
            pass

    def observe_later(self, question, outcome):
        with self.lock:
            self.observing += 1
        self.workers.run(self.observe, question, outcome)

    def observe(self, question, outcome):
        """Tells of a finished call: its name and arguments, never its output."""
        try:
            body = to_json(question.seen(outcome))
            if self.unusable is None and len(body) <= MAX_BODY:
                self.service.ask("POST", "/authorize/observe", body, time.monotonic() + 5)
        except (Refused, Unreachable) as error:
            log("a finished call could not be reported: %s" % error)
        finally:
            with self.lock:
                self.observing -= 1

    # What servers ask of the client

    def server_asks(self, upstream, message, method):
        key, params = message.raw("id"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "ping":
            return upstream.later(upstream.respond, key, b'"result":{}')
        wanted = {"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation"}
        capability = wanted.get(method)
        offered = self.offered.get(capability)
        if capability == "elicitation" and offered is not None:
            mode = params.get("mode", "form")
            if not is_text(mode) or not is_text(params.get("message", "")):
                text = "`mode` and `message` must be texts"
                return upstream.later(upstream.respond, key, error_body(INVALID_PARAMS, text))
            if mode not in (offered or {"form": {}}):
                offered = None
        if offered is None:
            return upstream.later(upstream.respond, key, error_body(NO_METHOD, "Method not found"))
        if capability == "elicitation":
            params = dict(params, message="[%s] %s" % (upstream.name, params.get("message", "")))
        asked = Asked(upstream, key, params)
        with self.lock:
            many = sum(each.upstream is upstream for each in self.asked.values()) >= MAX_ASKED
        if many:
            return upstream.later(upstream.respond, key, error_body(INTERNAL, "too many open requests"))
        with self.lock:
            self.asked_count += 1
            asked.number = "%s:%d" % (upstream.name, self.asked_count)
            self.asked[asked.number] = asked
        if capability == "sampling":
            self.workers.run(self.sample, asked, method, params)
        else:
            self.hand_up(asked, method, params)

    def hand_up(self, asked, method, params):
        meta = params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            asked.token = meta["progressToken"]
            params = dict(params, _meta=dict(meta, progressToken=asked.number))
        told = {"jsonrpc": "2.0", "id": asked.number, "method": method}
        if params:
            told["params"] = params
        try:
            line = to_json(told) + b"\n"
        except ValueError as error:
            return self.decline(asked, "it cannot be handed on: %s" % error)
        self.up(line)

    def decline(self, asked, text):
        """Answers a server's request that the client will not hear of."""
        with self.lock:
            known = self.asked.pop(asked.number, None)
        if known is not None:
            asked.upstream.later(asked.upstream.respond, asked.key, error_body(-1, text))

    def sample(self, asked, method, params):
        """A server's question to the client's model: the answer goes to the server, so it is asked about like a call."""
        tool = "mcp__%s__sampling_create_message" % asked.upstream.name
        try:
            self.permit(asked.call, self.question(tool, params, {}))
        except (Refused, Cancelled) as error:
            return self.decline(asked, str(error) or "given up")
        self.hand_up(asked, method, params)

    def client_answers(self, message):
        number = message.get("id")
        with self.lock:
            asked = self.asked.pop(number, None) if isinstance(number, str) else None
        if asked is not None:
            kind = "result" if message.has("result") else "error"
            body = b'"' + kind.encode() + b'":' + message.raw(kind)
            asked.upstream.later(asked.upstream.respond, asked.key, body)

    def server_cancels(self, upstream, params):
        key = to_json(params.get("requestId"))
        with self.lock:
            found = [each for each in self.asked.values() if each.upstream is upstream and each.key == key]
        self.take_back(found, params.get("reason"))

    def forget_requests(self, upstream):
        """Takes back what a server that has ended was still asking."""
        with self.lock:
            found = [each for each in self.asked.values() if each.upstream is upstream]
        self.take_back(found, "the server has ended")

    def take_back(self, requests, reason):
        for asked in requests:
            with self.lock:
                self.asked.pop(asked.number, None)
            self.give_up(asked.call)
            told = {"requestId": asked.number}
            if isinstance(reason, str):
                told["reason"] = reason
            self.tell("notifications/cancelled", told)

    # Time and end

    def run(self):
        """Until the client is gone, or wants no more."""
        parent = os.getppid()
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            try:
                self.events.get(True, 1.0)
                break
            except Empty:
                pass
            if os.getppid() != parent:
                break  # whoever started this has gone, and left its end of the pipe to somebody else
            now = time.monotonic()
            with self.lock:
                calls = list(self.open.values())
            for call in calls:
                if call.held is not None and now - call.ticked >= TICK_SECONDS:
                    self.workers.run(self.tick, call)
                if call.deadline is not None and now >= call.deadline and call.number is not None:
                    self.workers.run(self.time_out, call)
        self.end()

    def time_out(self, call):
        limit = call.upstream.server.timeout
        self.answer(call, tool_error("countersign: server `%s` did not answer within %g s" % (call.upstream.name, limit)))
        self.give_up(call, "no answer within %g s" % limit)

    def end(self):
        """Ends the servers, withdraws what waits, and this process."""
        self.closing.set()
        with self.lock:
            calls = list(self.open.values())
            self.open.clear()
        for call in calls:
            call.done = True
        ended = threading.Event()
        threading.Thread(target=self.farewell, args=(calls, ended), daemon=True).start()
        running = [upstream for upstream in self.upstreams if upstream.process is not None]
        for upstream in running:
            upstream.close_input()
        end_processes([upstream.process for upstream in running])
        for upstream in running:
            self.watch.tell(b"-", upstream.process)
        ended.wait(1.5)
        while not _said.empty():
            write_all(2, _said.get())
        os._exit(0)

    def farewell(self, calls, ended):
        """Tells the service that nothing waits any more."""
        for call in calls:
            self.give_up(call)
        limit = time.monotonic() + 1.4
        while time.monotonic() < limit - 0.4 and (self.observing or any(call.asking or call.held for call in calls)):
            time.sleep(0.01)
        try:
            if self.session_used and self.unusable is None:
                body = to_json({"session_id": self.session, "reason": "the client has gone"})
                self.service.request("POST", "/authorize/sessions/end", body, limit)
        except (Unreachable, Refused):
            pass
        ended.set()


class Asked:
    """A server's request to the client."""

    def __init__(self, upstream, key, params):
        self.upstream = upstream
        self.key = key  # its id as it was written
        self.number = None  # ours
        self.token = None
        self.call = Call()


def usable(value):
    """A client's id, if the service takes it as one."""
    fine = isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()
    return value if fine else None


def alone(params, *names):
    """These members, and what the client itself adds: nothing goes to a server that nobody was asked about."""
    return {name: params[name] for name in names + ("_meta",) if name in params}


def refuse_inexact(arguments):
    """Refuses numbers that the service would round: what is approved of one would hold for its neighbours."""
    rest = [arguments]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, (int, float)) and not -LARGEST <= one <= LARGEST:
            raise Refused("the arguments hold a number beyond %d, which others round: give it as a text" % LARGEST)


def without_token(meta):
    """What comes with a request, but for the progress token; nothing if that is all."""
    if not isinstance(meta, dict):
        return None
    return {name: value for name, value in meta.items() if name != "progressToken"} or None


# --- The command line -----------------------------------------------------------------------------------------------

USAGE = "usage: service_mcp.py --config FILE [--name svc] [--settings FILE]"


def options(words):
    """The options by name. Raises Refused."""
    found = {"--config": None, "--name": "svc", "--settings": None}
    words = list(words)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name not in found:
            raise Refused("unknown option `%s`; %s" % (name, USAGE))
        if not equals:
            if not words:
                raise Refused("%s needs a value; %s" % (name, USAGE))
            value = words.pop(0)
        found[name] = value
    if found["--config"] is None:
        raise Refused(USAGE)
    if server_token(found["--name"]) != found["--name"] or not 0 < len(found["--name"]) <= 24:
        raise Refused("--name takes up to 24 letters, digits, `-` and single `_`")
    return found


def main(words):
    if sys.version_info < (3, 8):
        sys.stderr.write("countersign: Python 3.8 or newer is needed, this is %d.%d\n" % sys.version_info[:2])
        return 2
    if words == ["--watch"] and os.name != "nt":
        return watch()
    if words in (["--help"], ["-h"]):
        sys.stdout.write(__doc__)
        return 0
    # Nothing but messages may reach the client: whatever else prints ends up on standard error.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        chosen = options(words)
        settings = Settings(chosen["--settings"])
        servers = read_servers(chosen["--config"], settings.key)
    except Refused as error:
        sys.stderr.write("countersign: %s\n" % plain(error, 2000))
        return 2
    gateway = Gateway(settings, servers, chosen["--name"])
    gateway.out = out
    sys.setswitchinterval(0.001)
    threading.Thread(target=_write_log, daemon=True).start()
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, frame: gateway.events.put("a signal"))
    gateway.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
