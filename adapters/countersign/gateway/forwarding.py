"""Sends allowed calls to their servers."""

import time

from ..shared.limits import ASK_SECONDS, Refused, Unreachable
from .calls import Question, alone, usable, without_token
from .constants import INTERNAL, INVALID_PARAMS, LEVELS, NO_RESOURCE, Cancelled, Denied, Failed, Wrong
from .messages import result_body
from .upstream import Forwarded, Waiting


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
