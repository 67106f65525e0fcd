"""Constants and errors of the gateway."""

from ..shared.limits import MIB, VERSION, Refused

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

# For each kind of list: the method that reads the list, the member of the result with the entries, and the capability
# that the server must declare.
LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "prompts": ("prompts/list", "prompts", "prompts"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
}


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
