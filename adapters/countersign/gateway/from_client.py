"""This part reads the client's messages."""

import io
import threading
import time

from ..shared.json import to_json
from ..shared.limits import VERSION, Refused
from ..shared.text import plain
from .calls import Call
from .constants import (
    BLOCKED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_LINE,
    NO_METHOD,
    PARSE_ERROR,
    PROTOCOLS,
    Cancelled,
    Denied,
    Failed,
    Wrong,
)
from .json import STRICT
from .messages import Message, error_body, id_name, is_id, is_other_value, is_whole, result_body, tool_error
from .processes import Watch
from .threads import log
from .upstream import Waiting


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
            body = tool_error(text) if work is self.METHODS["tools/call"] else error_body(BLOCKED, text)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)
            text = "countersign: the gateway failed (%s)" % type(error).__name__
            body = tool_error(text) if work is self.METHODS["tools/call"] else error_body(INTERNAL, text)
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
