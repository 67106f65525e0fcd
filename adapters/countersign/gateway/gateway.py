"""The gateway."""

import os
import threading
import time
from queue import Empty, SimpleQueue

from ..shared.json import to_json
from ..shared.limits import Refused, Unreachable
from .constants import PROTOCOLS, TICK_SECONDS
from .decisions import Decisions
from .forwarding import Forwarding
from .from_client import FromClient
from .lists import Lists
from .messages import tool_error
from .names import Names
from .processes import end_processes
from .server_requests import ServerRequests
from .service import Service
from .threads import Workers, log, write_rest_of_log
from .to_client import ToClient
from .upstream import Upstream
from .upstream_http import UpstreamHttp


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
        write_rest_of_log()
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
