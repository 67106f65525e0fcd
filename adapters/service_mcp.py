#!/usr/bin/env python3
"""Countersign's gateway: one MCP server in front of your own MCP servers. It asks the service before each call.

    service_mcp.py --config FILE [--name svc] [--settings FILE]

FILE has the form of `.mcp.json`: {"mcpServers": {"files": {"command": ..., "args": [...], "env": {...}, "cwd": ...},
"board": {"type": "http", "url": "https://...", "headers": {"Authorization": "Bearer ${BOARD_TOKEN}"}}}}.
The client starts this program over stdio and sees the tools of all those servers as `<server>__<tool>`. Before a tool is
called, a resource read or a prompt fetched, this program asks the service. If the call is allowed, the client gets the
server's own answer, byte for byte. If it is denied, the client gets a tool error that names the rule, and the server gets
nothing. If it is held, it waits for an approver, with progress if the client asked for progress. If it is not approved
in time, it ends in a tool error with the approval's id.

--name is the name of this program in the client's settings (default: svc). Clients show a tool's name as
`mcp__<name>__<server>__<tool>`. Names over 64 characters are cut. --settings is the hook's own settings file. Its values
win over the environment. Then only this file can set the fail mode, plain http, the proxy and the authorities.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55, at most 240), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. The
servers get a small part of the environment and their own `env`, but never SERVICE_API_KEY.

This program needs Python 3.8 or newer and only the standard library. It is one file, so that administrators can download
it, compare its checksum and read it. `npm run adapters` assembles it from the parts in `adapters/src`.
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


# --- shared/limits ----------------------------------------------------------------------------------------------------

# Limits, and the two errors that a request to the service can raise.

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # maximum bytes of an authorize request: the service refuses more
MAX_ANSWER = MIB  # maximum bytes of an answer of the service
ASK_SECONDS = 20  # if no answer comes for this long, the service counts as unreachable
POLL_SECONDS = 30  # the longest wait that the service accepts for a poll
DEFAULT_WAIT = 55  # less than the minute after which many clients give up a call
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads exactly: the limit of a double


class Refused(Exception):
    """An error that blocks the call in both fail modes. The text of the error is shown as the reason."""


class Forbidden(Refused):
    """The service answers 403: the key may not send this request."""


class Unreachable(Exception):
    """The error for a missing answer of the service, or for an answer with a status of 5xx. The fail mode decides
    whether the call runs."""


# --- shared/text ------------------------------------------------------------------------------------------------------

# Texts, and writing to a descriptor.

def plain(text, longest):
    """Returns the text as one line without control characters, cut to `longest` characters. Other people write rule
    names and comments, so their text is not trusted."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """Returns the value of the first of these fields that has a non-empty text. Returns None if there is no such
    field."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def write_all(descriptor, data):
    """Writes bytes. Returns False if there is no descriptor, or if the other side has closed the descriptor."""
    if descriptor is None:
        return False
    view = memoryview(data)
    while len(view):
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False
    return True


def token(name):
    """Returns a name in the form that Claude Code uses for names of servers and tools. Only ASCII letters, digits, `_`
    and `-` stay, and other characters become `_`. Example: `my server` becomes `my_server`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


# --- gateway/constants ------------------------------------------------------------------------------------------------

# Constants and errors of the gateway.

MAX_LINE = 64 * MIB  # maximum bytes of one message
MAX_WAIT = 240  # maximum wait for an approver in seconds: Codex gives a call up after 300, even with progress
TICK_SECONDS = 10  # seconds between two progress messages of a waiting call
LIST_SECONDS = 8  # when the client asks for a list, the gateway waits this long for servers that are starting
START_SECONDS = 30  # maximum wait for a server's answer to `initialize`
PAGE_SECONDS = 30  # maximum wait for a page of a server's list
CONNECT_SECONDS = 10  # maximum wait for a connection to a server over HTTP, including its TLS
IDLE_SECONDS = 1800  # a server over HTTP may send nothing for this long
RETRY_SECONDS = 1  # wait before a stream is resumed, if its server names no time
MAX_RESUMES = 10  # maximum number of times that one stream is resumed without a new event
GRACE_SECONDS = 2  # wait after a server's input is closed, after SIGTERM, and after a request is cancelled
BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15, 30, 60)  # wait before a server is started again, by failures
MAX_PAGES = 1000
MAX_WORKERS = 300
MAX_OUTBOX = 1000  # maximum number of waiting messages to one server, without calls
MAX_ASKED = 100  # maximum number of open requests of one server to the client
MAX_DEPTH = 100  # maximum levels in an entry of a list: many programs stop at 128, and would lose the whole list
MAX_NAME = 64  # maximum characters of a tool's name with `mcp__` and the gateway's name: a limit of model vendors
MAX_KEPT_OPEN = 8  # maximum number of open connections to the service that wait for their next use
KEEP_SECONDS = 4  # an idle connection is used again within this time, before the service closes it

# Headers of each request to the service.
HEADERS = ["User-Agent: countersign-mcp/" + VERSION]

# The supported revisions of the protocol, newest first. Later revisions have no `initialize`. But every client of a
# later revision can also use one of these revisions.
PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002
BLOCKED = 403  # the error code for a refused resource or prompt; the protocol itself does not use this number


class Denied(Refused):
    """The service itself has decided that the call may not run."""


class Cancelled(Exception):
    """The client has given the call up."""


class Failed(Exception):
    """A server of the organization failed. The text says how."""


class SessionEnded(Failed):
    """A server over HTTP does not know the HTTP session any more."""


class Wrong(Exception):
    """The client's request is answered with a protocol error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# --- gateway/threads --------------------------------------------------------------------------------------------------

# The log on standard error, and threads for work that can wait long.

_said = SimpleQueue()


def log(text):
    """Writes a line for people to standard error. If the client does not read standard error, new lines are dropped. So
    the log never stops a call."""
    if _said.qsize() < 1000:
        _said.put(("countersign: " + plain(text, 2000) + "\n").encode("utf-8", "replace"))


def _write_log():
    while True:
        write_all(2, _said.get())


class Workers:
    """Threads for work that can wait long. A free thread is used before another thread is started."""

    def __init__(self):
        self.tasks = SimpleQueue()
        self.lock = threading.Lock()
        self.free = 0  # the number of free threads; -3 means that 3 tasks wait for a thread
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


# --- shared/json ------------------------------------------------------------------------------------------------------

# Functions that refuse values in JSON.

def once(pairs):
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return read


def whole(digits):
    # The time to read a number grows with the square of its number of digits. Other threads cannot run meanwhile.
    if len(digits) > 400:
        raise ValueError("a number has %d digits" % len(digits))
    return int(digits)


def constant(name):
    raise ValueError("`%s` is not JSON" % name)


def refuse_inexact(arguments):
    """Refuses numbers that the service would round. Otherwise an approval of one number would also cover nearby
    numbers."""
    rest = [arguments]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, (int, float)) and not -LARGEST <= one <= LARGEST:
            raise Refused("the arguments have a number beyond %d, which other programs round: give it as text" % LARGEST)


# --- gateway/json -----------------------------------------------------------------------------------------------------

# Reads JSON: strictly from the client, and less strictly from servers. Writes JSON.

def finite(digits):
    # Python reads a number beyond the range of doubles as infinity, which JSON does not have. This returns the largest
    # double instead.
    return max(-sys.float_info.max, min(sys.float_info.max, float(digits)))


def countable(digits):
    # A whole number beyond the range of doubles becomes the largest double too. Python cannot add such a number to a
    # double, and clients read it as infinity.
    number = whole(digits)
    return number if abs(number) <= sys.float_info.max else finite(digits)


# In a client's message, no name may occur twice in one object. Otherwise the service could decide about one value, and
# the server could use the other value. A server's result may repeat a name, because the result is passed on unchanged.
STRICT = json.JSONDecoder(object_pairs_hook=once, parse_int=whole, parse_constant=constant)
LOOSE = json.JSONDecoder(parse_int=countable, parse_float=finite, parse_constant=constant)
_blank = re.compile(r"[ \t\r\n]*")


def parse_json(text):
    """Reads strict JSON. Raises ValueError."""
    try:
        return STRICT.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value, ascii_only=False):
    """Returns compact JSON as bytes in UTF-8. Half of a surrogate pair is written as its escape. Raises ValueError."""
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return to_json(value, True)
    except RecursionError:
        raise ValueError("nested too deeply")


# --- gateway/messages -------------------------------------------------------------------------------------------------

# Messages of the protocol.

class Message:
    """One JSON-RPC message: the values of its members, and the bytes of each member as they were received."""

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
        """Returns the bytes of a member as they were received, with one exception. A carriage return between two parts
        becomes a space, because some clients would end the message there."""
        start, end = self.places[name]
        return self.text[start:end].replace("\r", " ").encode("utf-8")


def is_other_value(text):
    """Returns whether the text is JSON, but neither an object nor a list: a string, a number, `true`, `false` or
    `null`."""
    try:
        return not isinstance(STRICT.decode(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def is_id(value):
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def is_sayable(value):
    """Returns whether every client can read the value. If an entry of one server's list cannot be read, a client may
    lose the lists of all servers."""
    layer, depth = [value], 0
    while layer and depth <= MAX_DEPTH:
        layer = [part for each in layer for part in parts(each)]
        depth += 1
    try:
        # Encoding without escapes raises ValueError for a lone surrogate. An escape (`\ud800`) would be valid JSON, but
        # not every reader accepts it.
        return depth <= MAX_DEPTH and len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")) <= MAX_LINE
    except ValueError:
        return False


def parts(value):
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def id_name(value):
    """Returns the same bytes for all spellings of one id. Clients compare ids in the same way: 1.0 equals 1, but "1"
    does not equal 1."""
    return to_json(int(value) if isinstance(value, float) and value.is_integer() else value)


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def error_body(code, message):
    return b'"error":' + to_json({"code": code, "message": message})


def result_body(value):
    return b'"result":' + to_json(value)


def notification(method, params=None):
    told = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        told["params"] = params
    return to_json(told)


def tool_error(text):
    return result_body({"content": [{"type": "text", "text": text}], "isError": True})


# --- shared/settings --------------------------------------------------------------------------------------------------

# Settings, from the environment and from a settings file.

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

# A project's settings may set environment variables. So if there is a settings file, the environment cannot set the
# values of FILE_ALONE. If the file names the service or a key, the environment also cannot set the service or the
# organization (docs/decisions/0053).
FILE_ALONE = ("fail_mode", "allow_http", "https_proxy", "ca_file")
WHO_IS_ASKED = ("api_url", "organization_id")

# These variables can make OpenSSL trust other authorities, load code, or write the keys of a connection to a file.
OPENSSL_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSLKEYLOGFILE",
)
removed_variables = {}  # the removed values: a server of the gateway can still use them in its `env`


class Settings:
    """The settings for requests to the service, such as its address and the key. If the settings file and the
    environment set the same value, the file's value is used."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        unheard = FILE_ALONE if config is not None else ()
        if any(key in named for key in ("api_url", "api_key", "api_key_file")):
            unheard += WHO_IS_ASKED
        if config is not None:
            for name in OPENSSL_VARIABLES:
                removed_variables[name] = os.environ.pop(name, None)

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
        self.key_file = named.get("api_key_file")
        # An administrator has chosen the organization if the file names an organization and a path for the key. Each
        # user then keeps a key at this path. The key must be of the chosen organization.
        self.must_match = "organization_id" in named and self.key_file is not None and "api_key" not in named
        allow_http = value("allow_http", "SERVICE_ALLOW_HTTP")
        self.allow_http = allow_http in (True, "1", "true", "yes")
        self.proxy = value("https_proxy", "https_proxy")
        if config is None:
            self.proxy = self.proxy or os.environ.get("HTTPS_PROXY")
        self.no_proxy = "" if config is not None else os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self.ca_file = named.get("ca_file")

    def check(self):
        """Refuses settings with which no request is possible."""
        if not self.api_url:
            raise Refused("SERVICE_API_URL is not set: name the service's address")
        if not self.key:
            raise Refused("SERVICE_API_KEY is not set: give the agent a key with the scope `agents:authorize`")
        if not all("!" <= c <= "~" for c in self.key):
            raise Refused("SERVICE_API_KEY has characters that no key has")
        self.secure, self.host, self.port, self.prefix = read_url(self.api_url)
        if not self.secure and not self.allow_http and not is_loopback(self.host):
            raise Refused("SERVICE_API_URL is plain http to another machine: use https, or set SERVICE_ALLOW_HTTP=1")


def seconds(text, default):
    """Reads a number of seconds, at least 0 and below 1,000,000. Returns the default if the text is not such a
    number."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def read_url(url):
    """Splits an address into four parts: whether the address uses https, the host, the port, and the path. The path is
    returned without `/api/v1` at its end. Refuses addresses that must not get the key."""
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
    """Returns the user's home folder from the system's list of users, because a project's settings may change HOME."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def read_private(path, secret):
    """Returns at most the first MiB of a file. Refuses a file that other users can change. If `secret` is true or the
    file contains an `api_key`, also refuses a file that other users can read."""
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
            raise Refused("`%s` can be changed by other users: chown it to its user and chmod go-w" % path)
        if (secret or b'"api_key"' in text) and status.st_mode & 0o077:
            raise Refused("`%s` has a key and can be read by other users: chmod 600" % path)
    return text


def read_config(path):
    """Returns the settings in a settings file. Refuses a file with an unknown setting."""
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


# --- shared/http ------------------------------------------------------------------------------------------------------

# HTTP to the service, over plain sockets.

class Connection:
    """A connection to the service, for one request at a time. All waits of a request end at the time `until`."""

    def __init__(self, settings, until):
        self.settings = settings
        self.until = until
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
        lines += HEADERS
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


# --- gateway/service --------------------------------------------------------------------------------------------------

# Requests to the service over connections that stay open.

class KeptConnection(Connection):
    """A connection that may serve more than one request."""

    kept_at = 0.0  # when the last answer ended

    def abort(self):
        """Ends the wait of another thread for an answer on this connection."""
        try:
            self.socket.shutdown(sockets.SHUT_RDWR)
        except (OSError, AttributeError):
            pass

    def is_fresh(self):
        """Returns whether this open connection can be used again. Its last use must be at most KEEP_SECONDS ago. Since
        then, the service must not have closed it or sent data on it."""
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


class Service:
    """Requests to the service, over connections that stay open between calls."""

    def __init__(self, settings):
        self.settings = settings
        self.lock = threading.Lock()
        self.kept = []

    def connection(self, until):
        """Returns an open connection, or a new one that is not open yet."""
        while True:
            with self.lock:
                if not self.kept:
                    break
                connection = self.kept.pop()
            if connection.is_fresh():
                connection.until = until
                return connection
            connection.close()
        return KeptConnection(self.settings, until)

    def opened(self, connection, call):
        """Stores the connection in its call. If the call is given up later, `give_up` can abort the connection. Raises
        Unreachable if the call is given up already."""
        if call is not None:
            call.connection = connection
            if call.cancelled:
                raise Unreachable("given up")

    def request(self, method, path, body, until, call=None):
        """Sends one request and returns the status and body of its answer. Raises Unreachable if the connection fails
        or is aborted, if no answer comes in time, or if the status is 5xx. Raises Refused if the answer is not HTTP.
        Does not follow redirects, so the key goes to no other address."""
        while True:
            connection = self.connection(until)
            used = connection.socket is not None
            try:
                return connection.exchange(method, path, body, lambda: self.opened(connection, call))
            except Unreachable:
                # The service may have closed a connection from an earlier request before it read this request. Then the
                # request is sent again.
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

    def ask(self, method, path, body, until, call=None):
        """Sends a request and returns the JSON object of its answer. Raises Refused if the status is not 200."""
        return answered_object(*self.request(method, path, body, until, call))

    def decide(self, body, until, call=None):
        return decide(
            lambda: self.ask("POST", "/authorize", body, until, call),
            until,
            lambda: call is not None and call.cancelled,
        )


def pending(decided):
    told = "is still pending; have it approved, then call again with the same arguments"
    return held(decided, told)


# --- shared/decision --------------------------------------------------------------------------------------------------

# The service's decisions.

def answered_object(status, answered):
    """Returns the JSON object of an answer. Raises Refused if the status is not 200 or the answer is not a JSON
    object."""
    try:
        found = parse_json(answered.decode("utf-8"))
    except ValueError:
        found = None
    if status != 200:
        error = found.get("error") if isinstance(found, dict) else None
        told = text_of(error, "message") if isinstance(error, dict) else None
        hint = ": check SERVICE_API_KEY" if status in (401, 403) else ": check SERVICE_API_URL"
        kind = Forbidden if status == 403 else Refused
        raise kind("the service answers %d%s%s" % (status, hint, " (%s)" % plain(told, 300) if told else ""))
    if not isinstance(found, dict):
        raise Refused("the service's answer cannot be read: it is not a JSON object")
    return found


def decide(ask, until, given_up=lambda: False):
    """Returns the service's decision on a call. `ask` sends the question. If no answer comes, sends the question again,
    at most three times in all. This does no harm, because the service repeats its decision for the same call."""
    for pause in (0.15, 0.5, None):
        try:
            decided = ask()
            break
        except Unreachable:
            if pause is None or time.monotonic() + pause >= until or given_up():
                raise
            time.sleep(pause)
    verdict = decided.get("decision")
    if verdict == "allow" and text_of(decided, "decision_id") is not None:
        return decided
    if verdict == "deny":
        return decided
    if verdict == "require_approval" and is_approval(decided.get("approval_id")):
        return decided
    raise Refused("the service's answer cannot be read: it is not a decision")


def is_approval(value):
    return isinstance(value, str) and 0 < len(value) <= 100 and all(c.isalnum() or c in "_-" for c in value)


def named_rule(decided):
    rule = text_of(decided, "rule_name")
    return " by rule `%s`" % rule if rule is not None else ""


def blocked(decided):
    """Says why a call may not run, in words for the model."""
    reason, rule = text_of(decided, "reason"), text_of(decided, "rule_name")
    why = [text_of(decided, "explanation")]
    if reason != rule:
        why.insert(0, reason)
    told = ": ".join(each for each in why if each)
    return "blocked%s%s" % (named_rule(decided), ": " + told if told else "")


def held(decided, state):
    return "held%s: approval %s %s" % (named_rule(decided), decided["approval_id"], state)


def ended(decided, found):
    """Says that the approval of a held call ended without letting the call run. `found` is the service's answer about
    the approval."""
    if found["status"] == "cancelled" and found.get("session_status") == "revoked":
        return held(decided, "was cancelled, because this session was revoked: it can make no more calls")
    told = held(decided, "has expired" if found["status"] == "expired" else "was " + found["status"])
    comment = text_of(found, "comment")
    return told + (": " + comment if comment else "")


# --- gateway/names ----------------------------------------------------------------------------------------------------

# Names of tools as the client sees them.

def server_token(name):
    """Returns the name that a server has in the names of its tools. This name has no double underscore. Otherwise the
    tool `c` of a server `a__b` and the tool `b__c` of a server `a` would have the same name."""
    return re.sub("_+", "_", token(name)).strip("_-")


def short_hash(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


class Names:
    """The names under which the client sees tools or prompts, and what each name stands for. A name always stays with
    its tool, even if a server restarts or starts late."""

    def __init__(self, gateway):
        self.room = MAX_NAME - len("mcp__" + gateway + "__")
        self.given = {}  # {(server, the server's own name): (shown name, full name)}
        self.back = {}  # {shown name: (server, the server's own name)}
        self.fulls = set()

    def name(self, server, owns):
        """Gives each of the server's own names a name that the client sees. Own names that need no change come first,
        so that no changed name takes their place."""
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


# --- gateway/servers --------------------------------------------------------------------------------------------------

# Reads the file that names the servers.

# Servers get these variables of the gateway's environment, because programs need them to start. Servers do not get the
# others, which may contain secrets.
POSIX_BASE = "HOME LANG LANGUAGE LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER".split()
WINDOWS_BASE = (
    "ALLUSERSPROFILE APPDATA COMMONPROGRAMFILES COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT "
    "PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
).split()
OUR_KEY = "SERVICE_API_KEY"


class Server:
    """One server of the file, and how the gateway starts or reaches it."""

    def __init__(self, name, said, key):
        self.name = name
        self.said = said if isinstance(said, dict) else {}
        self.key = key
        limit = self.said.get("timeout")
        self.timeout = limit / 1000 if is_whole(limit) and 0 < limit <= LARGEST else None
        self.is_remote = "url" in self.said or self.said.get("type", "stdio") != "stdio"

    def command(self):
        """Returns three things: the program with its arguments, the environment, and the working folder. The folder is
        None if the entry has no working folder. Raises Failed if the server cannot be started."""
        said = self.said
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
            raise Failed("its `env` has the service's key, which no server may get")
        words = [expand(word) for word in [said["command"]] + args]
        if self.key and any(self.key in word for word in words):
            raise Failed("its `args` have the service's key, which no server may get")
        import shutil

        # On Windows, `npx` is the file `npx.cmd`. Only `which` finds this file.
        found = shutil.which(words[0], path=env.get("PATH"))
        if found is None:
            raise Failed("the program `%s` cannot be found" % words[0])
        return [found] + words[1:], env, expand(said["cwd"]) if "cwd" in said else None

    def address(self):
        """Returns the address of a server over HTTP. Raises Failed."""
        return address_of(self.said, self.key)


def base_environment():
    names = WINDOWS_BASE if os.name == "nt" else POSIX_BASE
    found = {name: value for name, value in os.environ.items() if name.upper() in names or name.startswith("LC_")}
    # Old shells export functions as variables. Such a variable is left out.
    return {name: value for name, value in found.items() if not value.startswith("()")}


def expand(text):
    """Replaces `${VAR}` and `${VAR:-default}` with the value of the variable, as in `.mcp.json`. Raises Failed for a
    variable that has no value and no default, and for the variable of the service's key."""

    def value(found):
        name, default = found.group(1), found.group(2)
        if name == OUR_KEY:
            raise Failed("it asks for the service's key, which no server may get")
        known = os.environ.get(name, removed_variables.get(name))
        if not known and default is not None:
            return default
        if known is None:
            raise Failed("the variable `%s` is not set" % name)
        return known

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", value, text)


def read_servers(path, key):
    """Returns the servers of the file, in the order of the file. Raises Refused if the file is wrong."""
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
            raise Refused("the server's name `%s` has no character that is allowed in names of tools" % name)
        if short in servers:
            raise Refused("two servers have the name `%s` in the names of their tools" % short)
        servers[short] = Server(short, said, key)
    return list(servers.values())


# --- gateway/processes ------------------------------------------------------------------------------------------------

# The servers' processes.

def start_process(command, env, cwd):
    """Starts a server in a process group of its own, so that processes that the server starts end together with it."""
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
    """Returns whether any process of the server's group runs."""
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
    """Ends servers whose input is closed. Each server has `grace` seconds to end. Then it gets SIGTERM, and
    GRACE_SECONDS later SIGKILL."""
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
    """Starts a second process that ends the servers if the gateway is killed. Clients kill a program that ends too
    slowly. The gateway tells the second process of each server that starts or ends. The second process acts when the
    gateway has ended."""

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
            log("servers cannot be ended if this program is killed: %s" % error.strerror)

    def tell(self, sign, process):
        with self.lock:
            if self.process is not None:
                write_all(self.process.stdin.fileno(), b"%s%d\n" % (sign, process.pid))


def watch():
    """Does the work of the second process: waits until its input ends, and then ends the servers that still run. The
    input ends when the gateway ends."""
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


# --- gateway/http_address ---------------------------------------------------------------------------------------------

# Servers over HTTP: their addresses, headers and certificate authorities.

# The gateway writes these headers itself, so the file of servers cannot set them.
OWN_HEADERS = (
    "accept accept-encoding connection content-length content-type host last-event-id mcp-protocol-version "
    "mcp-session-id te trailer transfer-encoding upgrade user-agent"
).split()
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class Address:
    """The address of a server, and the headers that its entry names, e.g. for its credentials."""

    def __init__(self, secure, host, port, target, headers, authorities):
        self.secure = secure
        self.host = host
        self.port = port
        self.target = target
        self.headers = headers
        self.context = None
        if secure:
            import ssl

            self.context = ssl.create_default_context(cadata=authorities)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def connect(self, patience):
        """Opens a connection and checks the certificate. Each later read or write on the connection waits at most
        `patience` seconds. Raises OSError."""
        from http.client import HTTPConnection, HTTPSConnection

        if self.secure:
            connection = HTTPSConnection(self.host, self.port, timeout=CONNECT_SECONDS, context=self.context)
        else:
            connection = HTTPConnection(self.host, self.port, timeout=CONNECT_SECONDS)
        connection.connect()
        connection.sock.settimeout(patience)
        connection.sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
        return connection


def address_of(said, key):
    """Returns the address in a server's entry. Raises Failed if the entry is wrong."""
    from urllib.parse import urlsplit

    if said.get("type", "http") not in ("http", "streamable-http"):
        told = "`type` is `%s`: the gateway knows `stdio` with a `command`, and `http` (streamable HTTP) with a `url`"
        raise Failed(told % plain(said["type"], 50))
    if "command" in said:
        raise Failed("it has a `command` and a `url`: leave one out")
    if not isinstance(said.get("url"), str):
        raise Failed("`url` must be a text")
    url, named = expand(said["url"]), said.get("headers", {})
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or not all("!" <= c <= "~" for c in url):
        raise Failed("`url` must be an address that begins with https:// or http://")
    if parts.username is not None or parts.fragment or "\\" in url:
        raise Failed("`url` must have no user and no fragment: put credentials into `headers`")
    secure = parts.scheme == "https"
    if not secure and not is_loopback(host) and said.get("allowHttp") is not True:
        raise Failed('`url` is plain http to another machine: use https, or add `"allowHttp": true`')
    if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
        raise Failed("`headers` must be an object of texts")
    headers = {name: expand(value).strip() for name, value in named.items()}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise Failed("the header `%s` cannot be set" % plain(name, 100))
        if not all(" " <= c <= "~" for c in value):
            raise Failed("the header `%s` has characters that no header may have" % name)
    if key and any(key in text for text in [url, *headers.values()]):
        raise Failed("its `url` or `headers` have the service's key, which no server may get")
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    try:
        return Address(secure, host, port or (443 if secure else 80), target, headers, authorities_of(said))
    except (OSError, ValueError):
        raise Failed("`caFile` has no certificates")


def authorities_of(said):
    """Returns the certificate authorities of `caFile`. Returns None if there is no `caFile`: then the machine's own
    authorities are used."""
    if "caFile" not in said:
        return None
    try:
        path = expand(said["caFile"]) if isinstance(said["caFile"], str) else None
        return read_private(path, False).decode("ascii", "replace")
    except Refused as error:
        raise Failed("`caFile`: %s" % error)


# --- gateway/event_stream ---------------------------------------------------------------------------------------------

# Streams of server-sent events.


class Event:
    def __init__(self, data, number, retry):
        self.data = data  # bytes; None if the event has no message
        self.id = number  # None if the event has no id
        self.retry = retry  # seconds before the stream is resumed; None if the event names none


def lines_of(read):
    """Yields the lines of a stream without their line ends (CR, LF or CRLF). `read` returns the next bytes, or b"" at
    the end of the stream."""
    buffer, looked, after_return = bytearray(), 0, False
    while True:
        more = read()
        if not more:
            return
        if after_return and more[:1] == b"\n":
            more = more[1:]
        after_return = more[-1:] == b"\r"
        buffer += more.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        while True:
            end = buffer.find(b"\n", looked)
            if end < 0:
                looked = len(buffer)
                break
            yield bytes(buffer[:end])
            del buffer[: end + 1]
            looked = 0
        if len(buffer) > MAX_LINE:
            raise Failed("wrote a line of more than %d bytes" % MAX_LINE)


def events_of(read):
    """Yields the complete events of a stream. The protocol uses only the event type `message`. An event of another type
    loses its data, but keeps its `id` and `retry`."""
    data, size, kind, number, retry, seen = [], 0, b"", None, None, False
    for line in lines_of(read):
        line = line[3:] if not seen and line.startswith(b"\xef\xbb\xbf") else line
        seen = True
        if not line:
            message = b"\n".join(data) if data and kind in (b"", b"message") else None
            if message is not None or number is not None or retry is not None:
                yield Event(message or None, number, retry)
            data, size, kind, number, retry = [], 0, b"", None, None
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            size += len(value) + 1
            if size > MAX_LINE:
                raise Failed("wrote an event of more than %d bytes" % MAX_LINE)
            data.append(value)
        elif field == b"event":
            kind = value
        elif field == b"id" and len(value) <= 1000 and all(0x20 <= byte < 0x7F for byte in value):
            number = value.decode("ascii")
        elif field == b"retry" and value.isdigit() and len(value) < 12:
            retry = int(value) / 1000


# --- gateway/http_session ---------------------------------------------------------------------------------------------

# A session with one server over HTTP.


class HttpSession:
    """A session with a server over HTTP. `Upstream.process` is such a session for a server over HTTP, and a process for
    a local server."""

    def __init__(self, address):
        self.address = address
        self.id = None  # the server's id of the session; None if the server gives none
        self.protocol = None  # the revision in the server's answer to `initialize`
        self.first = None  # the number of the request `initialize`
        self.greeted = threading.Event()  # the server knows that the gateway is ready
        self.over = threading.Event()
        self.hopeless = False  # another try would fail in the same way
        self.lock = threading.Lock()
        self.open = {}  # the open sockets, by the number of their request or by their connection
        self.resume_at = {}  # {number of a request: (id of its last event, pause before the next try)}
        self.given_up = set()

    def request(self, method, body=None, number=None, last=None):
        """Sends one request. Returns the answer as soon as its head has been read. The caller must pass the answer to
        `forget` at the end. A redirect is not followed, so the credentials go to no other address. Raises Failed."""
        address, connection, extra = self.address, None, {}
        if body is not None:
            extra["Content-Type"] = "application/json"
        if self.id is not None:
            extra["Mcp-Session-Id"] = self.id
        if self.protocol is not None:
            extra["MCP-Protocol-Version"] = self.protocol
        if last is not None:
            extra["Last-Event-ID"] = last
        accept = {"POST": "application/json, text/event-stream", "GET": "text/event-stream"}.get(method, "*/*")
        extra.update({"Accept": accept, "User-Agent": HEADERS[0].partition(": ")[2], "Connection": "close"})
        try:
            # A stream (GET) and the answer to a numbered MCP request may take long. Any other message, such as a
            # notification, has a short limit. Otherwise a server that does not accept it would delay the next messages.
            waits = number is not None or method == "GET"
            connection = address.connect(IDLE_SECONDS if waits else START_SECONDS)
            self.keep(connection, number)
            connection.request(method, address.target, body, dict(address.headers, **extra))
            answered = connection.getresponse()
        except (OSError, ValueError, self.http_error()) as error:
            self.close_one(connection)
            told = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error)
            raise Failed("cannot be reached over HTTP: %s" % plain(told or type(error).__name__, 200))
        answered.connection = connection
        return answered

    @staticmethod
    def http_error():
        from http.client import HTTPException

        return HTTPException

    def keep(self, connection, number):
        connection.kept_number = number if number is not None else connection
        with self.lock:
            self.open[connection.kept_number] = connection.sock
        if self.over.is_set():
            raise OSError("the session has ended")

    def forget(self, answered):
        try:
            answered.close()
        except (OSError, ValueError):
            pass
        self.close_one(answered.connection)

    def close_one(self, connection):
        if connection is None:
            return
        with self.lock:
            self.open.pop(getattr(connection, "kept_number", None), None)
        try:
            connection.close()
        except OSError:
            pass

    def abort(self, number):
        """Ends the wait for the answer of one request."""
        self.given_up.add(number)
        with self.lock:
            found = self.open.get(number)
        shut(found)

    def leave(self):
        """Ends the session on both sides."""
        if self.id is not None and not self.over.is_set():
            try:
                self.forget(self.request("DELETE"))
            except Failed:
                pass
        self.close()

    def close(self):
        self.over.set()
        self.greeted.set()
        with self.lock:
            found = list(self.open.values())
        for each in found:
            shut(each)


def shut(socket):
    try:
        if socket is not None:
            socket.shutdown(sockets.SHUT_RDWR)
    except OSError:
        pass


def kind_of(answered):
    return (answered.getheader("Content-Type") or "").partition(";")[0].strip().lower()


def refusal_of(answered, session):
    """Returns why an answer cannot be used; None if it can be used. Raises SessionEnded if the server has ended the
    session."""
    status = answered.status
    if 200 <= status < 300:
        coding = (answered.getheader("Content-Encoding") or "identity").strip().lower()
        return None if coding == "identity" else "answers in the coding `%s`, which was not asked for" % plain(coding, 50)
    if 300 <= status < 400:
        return "answers with a redirect (%d), which is refused: write the server's own address into `url`" % status
    if status in (401, 403):
        return "refuses the gateway's credentials (%d): correct its `headers`" % status
    if status == 404 and session.id is not None:
        raise SessionEnded("has ended its session: a new one is opened, so call again")
    return "answers %d%s" % (status, told_in(answered))


def told_in(answered):
    """Returns the message of an error in brackets, for people. Returns an empty text if the answer has no such
    message."""
    try:
        found = parse_json(answered.read1(65536).decode("utf-8")) if kind_of(answered) == "application/json" else None
        error = found.get("error") if isinstance(found, dict) else None
        told = error.get("message") if isinstance(error, dict) else None
    except Exception:
        told = None
    return " (%s)" % plain(told, 300) if isinstance(told, str) else ""


# --- gateway/shapes ---------------------------------------------------------------------------------------------------

# The shapes of entries and messages in the protocol.

# A strict client refuses a whole list because of one wrong entry, and so loses the entries of all other servers. These
# shapes describe what the strictest clients accept. Members that are not named here may have any value.


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
    """Returns the first missing or wrong member; None if all members are right. A `?` marks an optional member."""
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
# The gateway passes these notifications of servers on to the client, and does not ask the service about them.
NOTICES = {
    "notifications/message": {"level": one_of(*LEVELS), "_meta?": is_object},
    "notifications/resources/updated": {"uri": is_text, "_meta?": is_object},
    "notifications/elicitation/complete": {"elicitationId": is_text, "_meta?": is_object},
}


def fault_of(kind, entry):
    """Returns why an entry of a server's list is left out; None if the entry stays."""
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
    """Returns whether a reference may lead to this schema. The schema must not be a reference itself, because
    references can form a circle."""
    return isinstance(value, bool) or "$ref" not in value


# --- gateway/keywords -------------------------------------------------------------------------------------------------

# Keywords of JSON Schema that every client can compile.

def anything(value):
    return True


is_type = one_of("string", "number", "integer", "boolean", "array", "object", "null")

# A client with version 1 of MCP's TypeScript SDK reads the list of tools and compiles the schemas of their results. If
# one schema does not compile, the client loses the whole list. The keywords and values below compile in every client.
# `pattern` is left out, because each language has its own regular expressions.
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
    """Returns the first keyword that some client may not be able to compile; None if the schema has no such keyword."""
    return next((name for name, value in schema.items() if not KEYWORDS.get(name, lambda value: False)(value)), None)


def is_compiled(schema):
    """Returns whether every client can compile this schema. It is the schema of a tool's results."""
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


# --- gateway/upstream_process -----------------------------------------------------------------------------------------

# The process of one server.


class UpstreamProcess:
    """The part of `Upstream` that starts the process of a server, reads its messages, and ends it."""

    def run(self):
        """Keeps the server running until the gateway ends."""
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
            log("server `%s` has ended and will be started again in %s s%s" % (self.name, pause, self.quoted()))
            self.gateway.closing.wait(pause)

    def later(self, work, *args):
        """Sends a message in the thread that writes to this server. Otherwise a server that does not read would block
        other threads. A message that does not fit into the queue is dropped."""
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
        """Runs the server's process once, until the process or its output ends."""
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
        # The last output may still arrive. The wait is short, because processes that the server has started may keep
        # the pipe open for ever.
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
        """Reads the server's standard error all the time, because a full pipe would stop the server. The last part is
        kept for error messages."""
        try:
            while True:
                more = stream.read(65536)
                if not more:
                    return
                self.last_words = (self.last_words + more)[-1000:]
        except (OSError, ValueError):
            pass

    def down(self, process):
        """Handles the end of the server. Its open requests get an error, and the client no longer sees its lists."""
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
            self.finish(process)

    def finish(self, process):
        self.stop(process, 0 if process.poll() is not None else GRACE_SECONDS)
        self.gateway.watch.tell(b"-", process)

    def stop(self, process, grace=0):
        self.close_input()
        end_processes([process], grace)

    def greet(self):
        self.notify("notifications/initialized")

    def agreed(self, protocol):
        """Does nothing: a local server needs no protocol version in later messages."""

    def end_one(self, waiting, reason):
        """Ends one open request with an error. If this fails, the other requests still end."""
        try:
            waiting.ended(reason)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)

    def close_input(self):
        # Another thread may be writing to the server and may block for ever. So this waits only a short time for the
        # lock.
        if self.write_lock.acquire(timeout=0.2):
            try:
                self.process.stdin.close()
            except OSError:
                pass
            finally:
                self.write_lock.release()


# --- gateway/upstream -------------------------------------------------------------------------------------------------

# One server of the organization, for both kinds of connection.

# For each kind of list: the method that reads the list, the member of the result with the entries, and the capability
# that the server must declare.
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
    """A request to a server. A thread waits for its answer."""

    def __init__(self, call=None):
        self.call = call
        self.queue = SimpleQueue()

    def answered(self, message):
        self.queue.put(message)

    def ended(self, reason):
        self.queue.put(reason)

    def get(self, timeout=None):
        """Waits for the answer and returns it. Raises Failed if the request ends without an answer, or if no answer
        comes in time."""
        try:
            found = self.queue.get(True, timeout)
        except Empty:
            raise Failed("did not answer within %d seconds" % timeout)
        if isinstance(found, str):
            raise Failed(found)
        return found


class Forwarded:
    """A tool call that was sent to a server. The server's answer goes to the client unchanged."""

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


class Upstream(UpstreamProcess):
    """One of the organization's servers. If the server's process ends, it is started again. This class also has the
    server's lists, e.g. of tools."""

    def __init__(self, gateway, server):
        self.gateway = gateway
        self.server = server
        self.name = server.name
        self.lock = threading.Lock()  # protects `pending`, the open requests to the server
        self.write_lock = threading.Lock()
        self.process = None
        self.pending = None  # the open requests by the gateway's own ids; None while the server does not run
        self.counter = 0
        self.capabilities = {}
        self.ready = False  # the server's tools are known
        self.settled = threading.Event()  # set if the server is ready, or certainly not ready soon
        self.complete = threading.Event()  # set if all of the server's lists are known, or certainly not known soon
        self.items = {kind: [] for kind in LISTS}
        self.refreshing = set()
        self.refresh_lock = threading.Lock()
        self.subscribed = set()
        self.last_words = b""
        self.outbox = SimpleQueue()  # messages to the server that are not calls

    def begin(self, process):
        """Sends `initialize` to the server and reads its lists."""
        try:
            asked = {
                "protocolVersion": self.gateway.protocol,
                "capabilities": self.gateway.offered,
                "clientInfo": {"name": "countersign-gateway", "version": VERSION},
            }
            found = self.ask("initialize", asked, START_SECONDS)
            if not isinstance(found, dict) or found.get("protocolVersion") not in PROTOCOLS:
                raise Failed("speaks no version of the protocol that the gateway knows")
            offered = found.get("capabilities")
            self.capabilities = offered if isinstance(offered, dict) else {}
            self.agreed(found["protocolVersion"])
            self.greet()
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
                failed = str(error) if isinstance(error, Failed) else "makes the gateway fail (%s)" % type(error).__name__
                log(failed if failed.startswith("server `") else "server `%s` %s" % (self.name, failed))
            self.give_up()
            self.stop(process)

    def fetch(self, kind):
        """Reads all pages of one list of the server. If the server refuses a page, the list ends before this page.
        Raises Failed if the server ends or does not answer in time."""
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
            log("server `%s` lists %d %s that are left out; the first: %s" % told)
        self.items[kind] = self.gateway.adopt(self, kind, found)

    def refresh(self, kinds):
        """Reads lists again, because the server says that they have changed."""
        with self.refresh_lock:
            for kind in kinds:
                self.refreshing.discard(kind)
                try:
                    self.fetch(kind)
                except Failed as error:
                    log("server `%s` %s" % (self.name, error))
        if self.ready:
            self.gateway.changed(*kinds)

    # Messages from the server

    def take(self, line):
        try:
            message = Message(line.decode("utf-8").strip(), LOOSE)
        except ValueError:
            if line.strip():
                log("server `%s` wrote %d bytes that are not a message; they were dropped" % (self.name, len(line)))
            return
        try:
            self.handle(message)
        except Exception as error:
            # A wrong message does not stop the messages after it.
            log("the gateway failed to handle a message of server `%s` (%s) and dropped it" % (self.name, type(error).__name__))
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
                self.end_one(waiting, "the gateway failed to handle the answer of server `%s`" % self.name)
                raise

    def told(self, message, method):
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method in NOTICES and wrong_member(NOTICES[method], params) is not None:
            log("server `%s` wrote a `%s` that does not follow the protocol; it was dropped" % (self.name, method))
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

    # Messages to the server

    def write(self, data, number=None):
        """Writes one message. The caller holds the write lock. `number` is the id of a request; None for other
        messages."""
        process = self.process
        if process is not None and not process.stdin.closed:
            write_all(process.stdin.fileno(), data)

    def send(self, method, params, waiting, meta=None):
        """Sends a request and returns its number. If the call has a progress token, the server gets this number as its
        token. Raises Failed if the server does not run, and Cancelled if the client has given the call up."""
        call = waiting.call
        head = b',"method":' + to_json(method) + b',"params":'
        body = to_json(params)
        with self.write_lock:
            with self.lock:
                if self.pending is None:
                    raise Failed("server `%s` does not run at the moment and will be started again" % self.name)
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
            self.write(b'{"jsonrpc":"2.0","id":%d' % number + head + body + b"}\n", number)
        return number

    def ask(self, method, params, timeout, lenient=False):
        """Sends a request of the gateway itself and returns the result. If the server refuses, returns None (with
        `lenient`) or raises Failed (without `lenient`). Also raises Failed if no answer comes in time."""
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
        """Sends a request and does not wait for its answer."""
        try:
            self.send(method, params, Waiting())
        except Failed:
            pass

    def notify(self, method, params=None):
        with self.write_lock:
            self.write(notification(method, params) + b"\n")

    def respond(self, number, body):
        """Answers a request of the server. `number` is the id as the server wrote it."""
        with self.write_lock:
            self.write(b'{"jsonrpc":"2.0","id":' + number + b"," + body + b"}\n")


# --- gateway/upstream_http --------------------------------------------------------------------------------------------

# One server over HTTP (streamable HTTP).


class UpstreamHttp(Upstream):
    """A server over HTTP. The gateway does not start this server, so `process` is an HttpSession and not a process."""

    def run(self):
        """Keeps a session open until the gateway ends."""
        threading.Thread(target=self.deliver, daemon=True).start()
        self.posts = Workers()
        failures = 0
        while not self.gateway.closing.is_set():
            began = time.monotonic()
            try:
                session = HttpSession(self.server.address())
            except Failed as error:
                log("server `%s`: %s" % (self.name, error))
                self.give_up()
                return
            self.live(session)
            if self.gateway.closing.is_set() or session.hopeless:
                return
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            self.gateway.closing.wait(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else 0)

    def live(self, session):
        """Runs one session until it ends."""
        with self.lock:
            self.process = session
            self.pending = {}
        if self.gateway.closing.is_set():
            session.close()
        self.gateway.workers.run(self.begin, session)
        session.over.wait()
        self.down(session)

    def stop(self, session, grace=0):
        session.leave()

    def finish(self, session):
        session.close()

    def close_input(self):
        threading.Thread(target=self.process.leave, daemon=True).start()

    def agreed(self, protocol):
        self.process.protocol = protocol

    def greet(self):
        session = self.process
        self.notify("notifications/initialized")
        session.greeted.set()
        threading.Thread(target=self.listen, args=(session,), daemon=True).start()

    # Messages to the server

    def write(self, data, number):
        """Posts one request in another thread, because the answer may take long."""
        session = self.process
        if session.first is None:
            session.first = number
        self.posts.run(self.post, session, number, data)

    def post(self, session, number, data):
        try:
            if number != session.first:
                session.greeted.wait(START_SECONDS)
            self.exchange(session, number, data)
            self.resume(session, number)
        except SessionEnded as error:
            self.fail(session, number, "server `%s` %s" % (self.name, error))
            session.close()
        except Failed as error:
            self.fail(session, number, "server `%s` %s" % (self.name, error))
        except Exception as error:
            self.fail(session, number, "the gateway failed (%s)" % type(error).__name__)
        finally:
            session.resume_at.pop(number, None)
            session.given_up.discard(number)

    def exchange(self, session, number, data, last=None):
        """Posts the request `data` and handles the answer. If `data` is None, asks for the rest of an answer, after the
        event `last`."""
        answered = session.request("GET" if data is None else "POST", data, number, last)
        try:
            self.read_answer(session, number, answered)
        finally:
            session.forget(answered)

    def fail(self, session, number, reason):
        with self.lock:
            waiting = self.pending.pop(number, None) if self.pending is not None and self.process is session else None
        if waiting is not None:
            self.end_one(waiting, reason)

    def is_open(self, session, number):
        with self.lock:
            return self.process is session and self.pending is not None and number in self.pending

    def read_answer(self, session, number, answered):
        """Handles the messages of an answer: one message in JSON, or several in a stream of events."""
        refusal = refusal_of(answered, session)
        if refusal is not None:
            # If `initialize` gets 401, 403 or a redirect, the gateway does not try again. Another try with the same
            # credentials could lock an account, and only a person may choose another address.
            session.hopeless = number == session.first and (answered.status in (401, 403) or answered.status < 400)
            raise Failed(refusal)
        if number == session.first:
            found = answered.getheader("Mcp-Session-Id")
            if found is not None and not (0 < len(found) <= 1000 and all("!" <= c <= "~" for c in found)):
                raise Failed("sent a session id that cannot be used in a header")
            session.id = found
        kind = kind_of(answered)
        try:
            if kind == "application/json":
                body = answered.read(MAX_LINE + 1)
                if len(body) > MAX_LINE:
                    raise Failed("answered with more than %d bytes" % MAX_LINE)
                self.take(one_line(body))
            elif kind == "text/event-stream":
                self.read_events(session, number, answered)
            elif self.is_open(session, number):
                raise Failed("answered with `%s`, and neither with JSON nor with a stream of events" % plain(kind, 100))
        except (OSError, ValueError, session.http_error()):
            pass  # the answer was cut short: `resume` reads the rest or reports the error

    def read_events(self, session, number, answered):
        for event in events_of(lambda: answered.read1(65536)):
            if event.id is not None or event.retry is not None:
                last, pause = session.resume_at.get(number, (None, RETRY_SECONDS))
                pause = pause if event.retry is None else min(max(event.retry, 0.1), 60)
                session.resume_at[number] = (last if event.id is None else event.id, pause)
            if event.data is not None:
                self.take(one_line(event.data))
            if session.over.is_set():
                return

    def resume(self, session, number):
        """Resumes a stream that ended before the answer came. Raises Failed if the server has sent no event id, or if
        MAX_RESUMES tries have brought no new event."""
        tries = 0
        while self.is_open(session, number) and not session.over.is_set():
            last, pause = session.resume_at.get(number, (None, None))
            if number in session.given_up:
                raise Failed("was told that the call is given up")
            if last is None or tries >= MAX_RESUMES:
                raise Failed("ended its answer too early; whether the call took effect is not known")
            session.over.wait(pause)
            try:
                self.exchange(session, number, None, last)
            except SessionEnded:
                raise
            except Failed:
                if tries + 1 >= MAX_RESUMES:
                    raise
            tries = 0 if session.resume_at.get(number, (None, None))[0] != last else tries + 1

    def listen(self, session):
        """Keeps a stream open for the server's messages that belong to no request. Not every server has such a
        stream."""
        failures = 0
        while not session.over.is_set():
            began = time.monotonic()
            try:
                if not self.listen_once(session):
                    return
            except SessionEnded:
                return session.close()
            except (Failed, OSError, ValueError, session.http_error()):
                pass
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            pause = session.resume_at.get(None, (None, RETRY_SECONDS))[1]
            session.over.wait(max(pause, BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else 0))

    def listen_once(self, session):
        """Reads the stream of `listen` until the stream ends. Returns false if the status shows that another try makes
        no sense."""
        answered = session.request("GET", None, None, session.resume_at.get(None, (None, 0))[0])
        try:
            refusal = refusal_of(answered, session)
            if refusal is None and kind_of(answered) == "text/event-stream":
                self.read_events(session, None, answered)
            return answered.status not in (400, 401, 403, 404, 405, 501)
        finally:
            session.forget(answered)

    def tell(self, data):
        """Posts a message that needs no answer, and waits until the server has confirmed the message. Writes an error
        to the log."""
        session = self.process
        if session is None or session.over.is_set():
            return
        try:
            answered = session.request("POST", data)
            try:
                refusal = refusal_of(answered, session)
            finally:
                session.forget(answered)
            if refusal is not None:
                raise Failed(refusal)
        except SessionEnded:
            session.close()
        except Failed as error:
            log("server `%s` %s" % (self.name, error))

    def notify(self, method, params=None):
        session, number = self.process, (params or {}).get("requestId")
        self.tell(notification(method, params))
        if method == "notifications/cancelled" and self.is_open(session, number):
            # The server has GRACE_SECONDS to answer the cancelled request. Then the wait for this answer ends.
            late = threading.Timer(GRACE_SECONDS, self.drop, (session, number))
            late.daemon = True
            late.start()

    def drop(self, session, number):
        if self.is_open(session, number):
            session.abort(number)

    def respond(self, number, body):
        self.tell(b'{"jsonrpc":"2.0","id":' + number + b"," + body + b"}")


def one_line(data):
    """Returns a message in which every line break is a space, because the client reads one message per line. This
    changes no value, because JSON allows line breaks only between its parts."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ")


# --- gateway/calls ----------------------------------------------------------------------------------------------------

# Calls of the client, tools, and questions to the service.

class Call:
    """A request of the client, with the state of the gateway's work on it."""

    def __init__(self, key=None, token=None, name=None):
        self.key = key  # the request's id as the client wrote it; None for a question of the gateway itself
        self.name = name  # the id in one fixed form, because an id can be written in several ways
        self.token = token  # the request's progress token as bytes of JSON
        self.done = False  # the call was answered or given up: no further message may be sent about it
        self.cancelled = False
        self.connection = None  # the connection to the service while the call waits there
        self.upstream = None
        self.number = None  # the id of the request to `upstream`
        self.progress = 0.0
        self.asking = False  # the question was sent, and its decision has not arrived yet
        self.held = None  # the decision, while it waits for an approver
        self.ticked = 0.0
        self.deadline = None


class Question:
    """The data of one question to the service: may this call run?"""

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
    """A tool, with the definition that the client saw first in this session of the gateway."""

    def __init__(self, own, definition):
        self.own = own
        self.definition = definition
        self.print = fingerprint(definition)
        self.changed = False
        told = definition.get("annotations")
        self.hints = {name: told[name] for name in HINTS if name in told} if isinstance(told, dict) else {}


def fingerprint(definition):
    """Returns the hash of everything that the model is told about a tool."""
    import hashlib

    told = {name: value for name, value in definition.items() if name not in ("icons", "execution")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii")).hexdigest()


class Asked:
    """A server's request to the client."""

    def __init__(self, upstream, key, params):
        self.upstream = upstream
        self.key = key  # the id of the request as the server wrote it
        self.number = None  # the gateway's own id of the request
        self.token = None
        self.call = Call()


def usable(value):
    """Returns a client's id if the service accepts this id; otherwise None."""
    fine = isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()
    return value if fine else None


def alone(params, *names):
    """Returns only the named members and `_meta` of the client's request. The service was not asked about other
    members, so the server must not get them."""
    return {name: params[name] for name in names + ("_meta",) if name in params}


def without_token(meta):
    """Returns the `_meta` of a request without the progress token. Returns None if nothing else is in `_meta`."""
    if not isinstance(meta, dict):
        return None
    return {name: value for name, value in meta.items() if name != "progressToken"} or None


# --- gateway/to_client ------------------------------------------------------------------------------------------------

# This part writes messages to the client.


class ToClient:
    """The part of the gateway that writes answers and notifications to the client."""

    def write(self, line):
        with self.out_lock:
            self.write_locked(line)

    def write_locked(self, line):
        if not write_all(self.out, line):
            self.events.put("the client has gone")

    def answer(self, call, body):
        """Answers a call, unless the call has already been answered or given up."""
        with self.out_lock:
            if call.done:
                return
            call.done = True
            self.write_locked(b'{"jsonrpc":"2.0","id":' + call.key + b"," + body + b"}\n")
        with self.lock:
            if self.open.get(call.name) is call:
                del self.open[call.name]

    def progress(self, call, value, total=None, message=None):
        """Sends progress of a call to the client. Each number is higher than the one before. No progress is sent after
        the call's answer."""
        if call.token is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        with self.out_lock:
            if call.done:
                return
            before = float(call.progress)
            call.progress = value if float(value) > before else round(before + 0.001, 6)
            if call.progress <= before:
                return  # the number is so large that adding 0.001 does not change it
            told = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":' + call.token
            more = {"progress": call.progress}
            if isinstance(total, (int, float)) and not isinstance(total, bool):
                more["total"] = total
            if isinstance(message, str):
                more["message"] = message
            self.write_locked(told + b"," + to_json(more)[1:] + b"}\n")

    def tell(self, method, params=None):
        """Sends a notification to the client. If the client is not ready yet, the notification waits."""
        self.up(notification(method, params) + b"\n")

    def up(self, line):
        with self.lock:
            if not self.live:
                if len(self.before_live) < 1000:
                    self.before_live.append(line)
                return
        self.write(line)

    def changed(self, *kinds):
        """Tells the client which lists have changed since the client read them."""
        for kind in kinds:
            with self.lock:
                stale = kind in self.told_lists and self.told_lists[kind] != self.merged(kind)
                if stale:
                    del self.told_lists[kind]
            if stale:
                self.tell("notifications/%s/list_changed" % LISTS[kind][2])


# --- gateway/from_client ----------------------------------------------------------------------------------------------

# This part reads the client's messages.


class FromClient:
    """The part of the gateway that reads and handles the client's messages, and ends calls that the client gives up."""

    def read(self):
        """Reads the client's messages until the input ends."""
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
        text = ""
        try:
            text = line.decode("utf-8").lstrip("\ufeff").strip()
            if text.startswith("["):
                return self.complain(b"null", INVALID_REQUEST, "batches are not accepted: send one message per line")
            message = Message(text, STRICT)
        except ValueError as error:
            if is_other_value(text):
                return self.complain(b"null", INVALID_REQUEST, "a message is a JSON object")
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
        """Handles one request. `work` returns the body of the answer, or None if the answer comes later."""
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
        """Answers `initialize` at once, and then starts the servers."""
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
                "rules first. A blocked call names the rule, and a held call names the next step."
            ),
        }
        if self.unusable is not None:
            told = "No call can be checked, so every call is blocked. Correct this first: %s. "
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
        """Handles `notifications/cancelled`, with which the client gives a call up. Ignores ids of unknown and finished
        calls."""
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
        """Stops the work for a call: ends the wait for an approver, or tells the server to stop."""
        upstream = call.upstream
        if upstream is None:
            call.cancelled = True
        else:
            with upstream.lock:
                call.cancelled = True
        # Only a wait for an approver is ended here. If the service has not decided yet, the wait for its decision goes
        # on. This decision may hold the call, and then the new approval must be withdrawn.
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


# --- gateway/lists ----------------------------------------------------------------------------------------------------

# The lists that the client sees.


class Lists:
    """The part of the gateway that merges the lists of all servers. It also finds a tool or prompt by the name that the
    client sees."""

    def adopt(self, upstream, kind, found):
        """Returns a server's list as the client gets it. Tools and prompts have the names that the gateway gives. Tools
        that require tasks are left out. Schemas of results are left out if some client may not be able to compile
        them."""
        if kind not in self.names:
            return found
        mine = {}
        for each in found:
            own, extra = each.get("name"), each.get("execution")
            if not isinstance(own, str) or own == "" or own in mine:
                continue
            if kind == "tools" and isinstance(extra, dict) and extra.get("taskSupport") == "required":
                continue  # the gateway does not support tasks
            mine[own] = each
        with self.lock:
            names = self.names[kind]
            names.name(upstream.name, mine)
            if kind == "tools":
                mine = {own: self.pinned(upstream, own, each).definition for own, each in mine.items()}
            shown = {own: names.given[upstream.name, own][0] for own in mine}
        for own, each in mine.items():
            if "outputSchema" in each and not is_compiled(each["outputSchema"]):
                log("server `%s`: the schema of the results of `%s` is not shown, because clients may not be able to read it" % (upstream.name, own))
                mine[own] = {name: value for name, value in each.items() if name != "outputSchema"}
        return [dict(each, name=shown[own]) for own, each in mine.items()]

    def pinned(self, upstream, own, definition):
        """Returns a tool as the client first saw it. The model trusts the text of a tool. So if the description or the
        parameters change, the tool is refused until a new session (docs/decisions/0036)."""
        definition = {name: value for name, value in definition.items() if name != "execution"}
        known = self.tools.get((upstream.name, own))
        if known is None:
            known = self.tools[upstream.name, own] = Tool(own, definition)
        elif known.print != fingerprint(definition) and not known.changed:
            known.changed = True
            text = "tool `%s` of server `%s` has changed its description or parameters: it is refused" % (
                plain(own, 200),
                upstream.name,
            )
            log(text)
            told = {"level": "warning", "logger": "countersign", "data": text}
            self.workers.run(self.tell, "notifications/message", told)
        return known

    def merged(self, kind):
        """Joins one kind of list of all servers that are ready. The servers are in the order of the file. If two
        resources have the same address, only the first one stays."""
        found = [each for upstream in self.upstreams if upstream.ready for each in upstream.items[kind]]
        if kind != "resources":
            return found
        seen = set()
        return [each for each in found if not (str(each.get("uri")) in seen or seen.add(str(each.get("uri"))))]

    def settle(self, what):
        """Waits for servers that are starting, at most until LIST_SECONDS after `initialize`."""
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

    def find(self, kind, shown):
        """Returns the server of a tool or prompt, and the server's own name for it. `shown` is the name that the client
        sees. Raises Wrong for any other name."""
        found = self.names[kind].back.get(shown)
        if found is None:
            self.settle(kind)
            found = self.names[kind].back.get(shown)
        if found is None:
            raise Wrong(INVALID_PARAMS, "Unknown %s: %s" % (kind[:-1], plain(shown, 200)))
        return self.by_name[found[0]], found[1]


# --- gateway/forwarding -----------------------------------------------------------------------------------------------

# Sends allowed calls to their servers.


class Forwarding:
    """The part of the gateway that asks the service about a request, and then sends the request to the right server."""

    def question(self, tool, given, meta, hints=None):
        """Returns the question for the service. If the client sends its own ids of the session and the call, the
        question has these ids. Otherwise the gateway makes ids."""
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
            raise Wrong(INVALID_PARAMS, "a call needs a `name` and an object of `arguments`")
        upstream, own = self.find("tools", name)
        tool, full = self.tools[upstream.name, own], self.names["tools"].given[upstream.name, own][1]
        question = self.question("mcp__" + full, given, meta, tool.hints)
        self.refuse_changed(tool, name, question)
        self.permit(call, question)
        # The decision may have taken minutes. If the tool has changed meanwhile, the call is refused, because the
        # decision was about the old definition.
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
        """Asks the service about the refused call, so that the service records it. The hint `definitionChanged` makes
        the service deny the call."""
        try:
            self.service.decide(self.body_of(question), time.monotonic() + ASK_SECONDS)
        except (Refused, Unreachable):
            pass

    def ask_upstream(self, call, upstream, method, params, question=None):
        """Sends a request to a server and waits for the answer. Returns the body of the answer and an error code. The
        code is None if the answer is a result."""
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
                # Another server may have the resource, so the next server is asked. If no server has it, the client
                # gets the first of these errors and not "not found".
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
        """Returns the servers that may have a resource. If a server lists the resource, returns only this server.
        Otherwise returns the servers whose URI templates match best. The best template has the longest matching text
        before its first `{`. If no template matches, returns all servers that have resources."""
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
                # An address from the server's own list tells the server nothing new. Any other address could carry data
                # to the server, so the service is asked.
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
            raise Wrong(INVALID_PARAMS, "a prompt needs a `name` and an object of `arguments`")
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


# --- gateway/decisions ------------------------------------------------------------------------------------------------

# Decisions of the service.


class Decisions:
    """The part of the gateway that asks for a decision, waits for an approver, and reports finished calls."""

    def body_of(self, question):
        """Returns the body of an authorize request. Refuses a body over the limit, and names its size."""
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
        """Returns when the call may continue. Raises Refused with the reason, or Cancelled if the client has given the
        call up."""
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
                # An approval alone does not let the call run: the service decides once more. Only the decision `allow`
                # lets the call run.
                again = self.service.decide(body, time.monotonic() + ASK_SECONDS, call)
            except Cancelled:
                self.withdraw(decided)
                raise
            except Unreachable as error:
                if call.cancelled:
                    self.withdraw(decided)
                    raise Cancelled()
                raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
            except Refused:
                raise
            except Exception as error:
                # The service has held the call, so the call stays blocked, even in fail mode `open`.
                raise Refused("the gateway failed (%s)" % type(error).__name__)
            finally:
                call.held = None
            decided = again
        if decided["decision"] != "allow":
            raise Denied(blocked(decided))

    def wait_for_approval(self, call, decided, give_up):
        """Returns when an approver has approved the call. Raises Refused if the approval ends in another way, or is
        still open at `give_up`. Raises Cancelled if the client gives the call up."""
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
                # The service may be restarting. Its approvals survive a restart, so the wait goes on.
                found = {"status": "pending"}
            status = found.get("status")
            if status == "approved":
                return
            if status in ("rejected", "expired", "cancelled"):
                raise Refused(ended(decided, found))
            if status != "pending":
                raise Refused(held(decided, "has a status that cannot be read"))
            # Requests begin at least a second apart, even if the service answers at once.
            until = min(asked_at + 1.0, give_up)
            while not call.cancelled and time.monotonic() < until:
                time.sleep(max(0.0, min(0.05, until - time.monotonic())))

    def tick(self, call):
        """Tells the client that a held call still waits for an approver."""
        decided = call.held
        call.ticked = time.monotonic()
        if decided is not None:
            self.progress(call, 0, None, "waiting for approval %s" % decided["approval_id"])

    def withdraw(self, decided):
        """Withdraws the approval of a call that the client gave up."""
        try:
            path = "/authorize/approvals/%s/cancel" % decided["approval_id"]
            self.service.request("POST", path, b"{}", time.monotonic() + 5)
        except Exception:
            # The call stays blocked. If this error left the function, fail mode `open` would let the call run.
            pass

    def observe_later(self, question, outcome):
        with self.lock:
            self.observing += 1
        self.workers.run(self.observe, question, outcome)

    def observe(self, question, outcome):
        """Reports a finished call: its name and arguments, never its output."""
        try:
            body = to_json(question.seen(outcome))
            if self.unusable is None and len(body) <= MAX_BODY:
                self.service.ask("POST", "/authorize/observe", body, time.monotonic() + 5)
        except (Refused, Unreachable) as error:
            log("a finished call could not be reported: %s" % error)
        finally:
            with self.lock:
                self.observing -= 1


# --- gateway/server_requests ------------------------------------------------------------------------------------------

# Requests of servers to the client.


class ServerRequests:
    """The part of the gateway that passes a server's requests on to the client, and the client's answers back to the
    server."""

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
        """Answers a server's request with an error, because the request is not sent to the client."""
        with self.lock:
            known = self.asked.pop(asked.number, None)
        if known is not None:
            asked.upstream.later(asked.upstream.respond, asked.key, error_body(-1, text))

    def sample(self, asked, method, params):
        """Handles a server's request to the client's model. The model's answer goes to the server. So the service must
        first allow the request, as it must allow a call."""
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
        """Cancels the open requests of a server that has ended."""
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


# --- gateway/gateway --------------------------------------------------------------------------------------------------

# The gateway.


class Gateway(ToClient, FromClient, Lists, Forwarding, Decisions, ServerRequests):
    """Connects one client with the servers in the file of `--config`."""

    def __init__(self, settings, servers, name):
        from binascii import hexlify

        self.settings = settings
        self.service = Service(settings)
        self.unusable = None  # why the service cannot be asked; None if it can be asked
        try:
            settings.check()
        except Refused as error:
            self.unusable = str(error)
            log(self.unusable)
        self.workers = Workers()
        self.events = SimpleQueue()
        self.closing = threading.Event()
        self.watch = None  # a Watch, from `initialize` on
        self.out = None
        self.out_lock = threading.Lock()
        self.lock = threading.Lock()
        self.open = {}  # the open calls, by their ids in the form of `id_name`
        self.upstreams = [(UpstreamHttp if each.is_remote else Upstream)(self, each) for each in servers]
        self.by_name = {upstream.name: upstream for upstream in self.upstreams}
        self.names = {"tools": Names(name), "prompts": Names(name)}
        self.tools = {}  # {(server, the server's own name of the tool): Tool}
        self.initialized = False  # `initialize` was answered
        self.live = False  # the client has sent `notifications/initialized`
        self.before_live = []
        self.protocol = PROTOCOLS[0]
        self.offered = {}  # the client's capabilities, which servers are told about
        self.agent = "mcp-client"
        self.level = None
        self.began = 0.0
        self.asked = {}  # the servers' open requests to the client, by the gateway's own id
        self.asked_count = 0
        self.told_lists = {}  # the last list of each kind that the client got
        self.observing = 0
        self.session = "mcp-" + hexlify(os.urandom(16)).decode("ascii")
        self.session_used = False
        self.call_count = 0

    METHODS = {
        "tools/list": Lists.list_of("tools"),
        "prompts/list": Lists.list_of("prompts"),
        "resources/list": Lists.list_of("resources"),
        "resources/templates/list": Lists.list_of("templates"),
        "tools/call": Forwarding.tools_call,
        "resources/read": Forwarding.resources_read,
        "resources/subscribe": Forwarding.subscription("resources/subscribe"),
        "resources/unsubscribe": Forwarding.subscription("resources/unsubscribe"),
        "prompts/get": Forwarding.prompts_get,
        "completion/complete": Forwarding.complete,
        "logging/setLevel": Forwarding.set_level,
    }

    def run(self):
        """Runs until the client ends or closes its side of the connection."""
        parent = os.getppid()
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            try:
                self.events.get(True, 1.0)
                break
            except Empty:
                pass
            if os.getppid() != parent:
                break  # the parent process has ended, and another process still has the other end of the pipe
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
        """Ends the servers, gives up the waiting calls, and ends this process."""
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
        programs = [upstream.process for upstream in running if not upstream.server.is_remote]
        end_processes(programs)
        for process in programs:
            self.watch.tell(b"-", process)
        ended.wait(1.5)
        for upstream in running:
            if upstream.server.is_remote:
                upstream.process.over.wait(1)
        while not _said.empty():
            write_all(2, _said.get())
        os._exit(0)

    def farewell(self, calls, ended):
        """Gives up the calls. Waits until approvals are withdrawn and finished calls are reported, but at most a
        second. Then reports the end of the session to the service."""
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


# --- gateway/main -----------------------------------------------------------------------------------------------------

# The command line.

USAGE = "usage: service_mcp.py --config FILE [--name svc] [--settings FILE]"


def options(words):
    """Returns the options by name. Raises Refused for a wrong option."""
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
        sys.stderr.write("countersign: Python 3.8 or newer is needed, but this is %d.%d\n" % sys.version_info[:2])
        return 2
    if words == ["--watch"] and os.name != "nt":
        return watch()
    if words in (["--help"], ["-h"]):
        sys.stdout.write(__doc__)
        return 0
    # Only messages may reach the client. All other output goes to standard error.
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
