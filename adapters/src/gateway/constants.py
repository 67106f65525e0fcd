# Numbers, names and errors of the gateway.

MAX_LINE = 64 * MIB  # bytes of one message
MAX_WAIT = 240  # Codex gives a call up after 300 seconds, also if it gets progress
TICK_SECONDS = 10  # between two progress messages of a call that waits
LIST_SECONDS = 8  # the wait for starting servers when the client asks for a list
START_SECONDS = 30  # for a server's answer to `initialize`
PAGE_SECONDS = 30  # for a page of a server's list
CONNECT_SECONDS = 10  # for a connection to a server over HTTP, and for the encryption on it
IDLE_SECONDS = 1800  # without a byte of a server over HTTP
RETRY_SECONDS = 1  # before a stream is resumed, if its server names no time
MAX_RESUMES = 10  # of one stream without anything new
GRACE_SECONDS = 2  # the wait after a server's input is closed, and again after SIGTERM
BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15, 30, 60)  # before a server that has ended is started again
MAX_PAGES = 1000
MAX_WORKERS = 300
MAX_OUTBOX = 1000  # messages to one server that are not calls
MAX_ASKED = 100  # open questions of one server to the client
MAX_DEPTH = 100  # levels of a list's entry: many readers of JSON stop at 128 and would lose the whole list
MAX_NAME = 64  # characters of a tool's name with `mcp__` and the gateway's name: the limit of the vendors' interfaces
MAX_KEPT_OPEN = 8  # connections to the service
KEEP_SECONDS = 4  # shorter than the time after which servers close an idle connection

# Headers of each request to the service.
HEADERS = ["User-Agent: countersign-mcp/" + VERSION]

# Newest first. Later revisions have no `initialize`; every client of such a revision falls back to one of these.
PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002
BLOCKED = 403  # the code for a refused resource or prompt; the protocol itself does not use this number


class Denied(Refused):
    """The service's own decision."""


class Cancelled(Exception):
    """The client has given the call up."""


class Failed(Exception):
    """An upstream server failed; the text says how."""


class SessionEnded(Failed):
    """A server over HTTP does not know the session any more."""


class Wrong(Exception):
    """The client's request gets a protocol error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
