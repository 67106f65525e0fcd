"""This part writes messages to the client."""

from ..shared.json import to_json
from ..shared.text import write_all
from .constants import LISTS
from .messages import notification


class ToClient:
    """The part of the gateway that writes answers and notifications to the client."""

    def write(self, line):
        with self.out_lock:
            self.write_locked(line)

    def write_locked(self, line):
        if not write_all(self.out, line):
            self.events.put("the client has gone")

    def answer(self, call, body):
        """Answers a call, unless the call has already been answered or given up."""
        with self.out_lock:
            if call.done:
                return
            call.done = True
            self.write_locked(b'{"jsonrpc":"2.0","id":' + call.key + b"," + body + b"}\n")
        with self.lock:
            if self.open.get(call.name) is call:
                del self.open[call.name]

    def progress(self, call, value, total=None, message=None):
        """Sends progress of a call to the client. Each number is higher than the one before. No progress is sent after
        the call's answer."""
        if call.token is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        with self.out_lock:
            if call.done:
                return
            before = float(call.progress)
            call.progress = value if float(value) > before else round(before + 0.001, 6)
            if call.progress <= before:
                return  # the number is so large that adding 0.001 does not change it
            told = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":' + call.token
            more = {"progress": call.progress}
            if isinstance(total, (int, float)) and not isinstance(total, bool):
                more["total"] = total
            if isinstance(message, str):
                more["message"] = message
            self.write_locked(told + b"," + to_json(more)[1:] + b"}\n")

    def tell(self, method, params=None):
        """Sends a notification to the client. If the client is not ready yet, the notification waits."""
        self.up(notification(method, params) + b"\n")

    def up(self, line):
        with self.lock:
            if not self.live:
                if len(self.before_live) < 1000:
                    self.before_live.append(line)
                return
        self.write(line)

    def changed(self, *kinds):
        """Tells the client which lists have changed since the client read them."""
        for kind in kinds:
            with self.lock:
                stale = kind in self.told_lists and self.told_lists[kind] != self.merged(kind)
                if stale:
                    del self.told_lists[kind]
            if stale:
                self.tell("notifications/%s/list_changed" % LISTS[kind][2])
