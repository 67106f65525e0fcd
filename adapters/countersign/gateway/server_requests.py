"""Requests of servers to the client."""

from ..shared.json import to_json
from ..shared.limits import Refused
from .calls import Asked
from .constants import INTERNAL, INVALID_PARAMS, MAX_ASKED, NO_METHOD, Cancelled
from .messages import error_body
from .shapes import is_text


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
