"""One server of the organization, for both kinds of connection."""

import re
import threading
from queue import Empty, SimpleQueue

from ..shared.json import to_json
from ..shared.limits import VERSION
from ..shared.text import write_all
from .constants import INTERNAL, LISTS, MAX_LINE, MAX_PAGES, PAGE_SECONDS, PROTOCOLS, START_SECONDS, Cancelled, Failed
from .json import LOOSE
from .messages import Message, error_body, is_whole, notification, tool_error
from .shapes import NOTICES, fault_of, wrong_member
from .threads import log
from .upstream_process import UpstreamProcess

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
            # Bytes that are no UTF-8 become U+FFFD, as in the clients' own readers.
            message = Message(line.decode("utf-8", "replace").strip(), LOOSE)
        except ValueError:
            if line.strip():
                log("server `%s` wrote %d bytes that are not a message; they were dropped" % (self.name, len(line)))
                self.unreadable(line.strip())
            return
        try:
            self.handle(message)
        except Exception as error:
            # A wrong message does not stop the messages after it.
            log("the gateway failed to handle a message of server `%s` (%s) and dropped it" % (self.name, type(error).__name__))
            if isinstance(message.get("method"), str) and message.has("id"):
                self.later(self.respond, message.raw("id"), error_body(INTERNAL, "the gateway failed"))

    def unreadable(self, line):
        """Ends the call whose answer cannot be read, e.g. because it has NaN or a tab in a text. Without this, the
        client would wait for ever. Other lines, such as a log on standard output, end no call."""
        if not line.startswith(b"{") or b'"jsonrpc"' not in line or not (b'"result"' in line or b'"error"' in line):
            return
        found = [int(digits) for digits in re.findall(rb'"id"\s*:\s*(\d{1,15})\b', line[:MAX_LINE])]
        with self.lock:
            pending = self.pending or {}
            number = next((each for each in found if each in pending), None)
            if number is None and len(pending) == 1:
                number = next(iter(pending))
            waiting = pending.pop(number, None)
        if waiting is not None:
            told = "server `%s` answered with a message that cannot be read; whether the call took effect is not known"
            self.end_one(waiting, told % self.name)

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
