"""Requests to the service over connections that stay open."""

import socket as sockets
import threading
import time

from ..shared.decision import answered_object, decide, held
from ..shared.http import Connection
from ..shared.limits import Unreachable
from .constants import HEADERS, KEEP_SECONDS, MAX_KEPT_OPEN


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
        return KeptConnection(self.settings, until, HEADERS)

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
