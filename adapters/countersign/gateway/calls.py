"""Calls of the client, tools, and questions to the service."""

import json

from .shapes import HINTS


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
