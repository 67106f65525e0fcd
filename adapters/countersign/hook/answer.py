"""The only answer of this process."""

import os
import time
from _thread import allocate_lock

from ..shared.json import to_json
from ..shared.text import plain, write_all
from .clients import client_named


class Answer:
    """Writes the only answer of this process. Standard output gets at most one JSON object, and one thread writes it.

    All other output, such as warnings, goes to standard error. If a single byte came before the object, some clients
    would run a denied call."""

    def __init__(self):
        try:
            os.fstat(0)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # else the copy below would become descriptor 0
        try:
            self._out = os.dup(1)
        except OSError:
            self._out = None
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self._claimed = allocate_lock()
        self.client = client_named(None)
        self.event = None
        self.fail_open = False
        self.deadline = time.monotonic() + 60
        self.asking = False  # the question was sent, and its decision has not arrived yet
        self.waiting_for = None  # settings and decision of a held call while it waits for an approver

    def deny(self, reason, before_exit=None):
        """Blocks the call, with one line of ASCII JSON that has the members which the client reads. The reason is written
        first, because some clients read an empty standard error as consent."""
        self._claim()
        reason = plain(reason, 2000)
        write_all(2, (reason + "\n").encode("utf-8", "replace"))
        write_all(self._out, to_json(self.client.denial(self.event, reason), True) + b"\n")
        if before_exit is not None:
            before_exit()
        os._exit(2)

    def allow(self, note=None):
        """Lets the client continue. The note goes to standard error, for the client's log."""
        self._claim()
        if note is not None:
            write_all(2, (plain(note, 2000) + "\n").encode("utf-8", "replace"))
        write_all(self._out, self.client.consent)
        os._exit(0)

    def is_unheard(self):
        """Returns true if the reader has closed standard output. This also works if another process, such as a shell,
        stands between the client and the hook."""
        import select

        if self._out is None or not hasattr(select, "poll"):
            return False
        watch = select.poll()
        watch.register(self._out, 0)
        return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in watch.poll(0))

    def _claim(self):
        if not self._claimed.acquire(False):
            # Another thread writes the answer and then ends the process, usually during this sleep. If the client does
            # not read the answer, the process ends after two seconds.
            time.sleep(2)
            os._exit(2)
