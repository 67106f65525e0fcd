"""A session with one server over HTTP."""

import socket as sockets
import threading

from ..shared.json import parse_json
from ..shared.text import plain
from .constants import HEADERS, IDLE_SECONDS, START_SECONDS, Failed, SessionEnded


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
