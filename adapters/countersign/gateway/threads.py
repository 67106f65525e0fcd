"""The log on standard error, and threads for work that can wait long."""

import threading
from queue import SimpleQueue

from ..shared.text import plain, write_all
from .constants import MAX_WORKERS

_said = SimpleQueue()


def log(text):
    """Writes a line for people to standard error. If the client does not read standard error, new lines are dropped. So
    the log never stops a call."""
    if _said.qsize() < 1000:
        _said.put(("countersign: " + plain(text, 2000) + "\n").encode("utf-8", "replace"))


def write_log():
    while True:
        write_all(2, _said.get())


def write_rest_of_log():
    while not _said.empty():
        write_all(2, _said.get())


class Workers:
    """Threads for work that can wait long. A free thread is used before another thread is started."""

    def __init__(self):
        self.tasks = SimpleQueue()
        self.lock = threading.Lock()
        self.free = 0  # the number of free threads; -3 means that 3 tasks wait for a thread
        self.count = 0

    def run(self, work, *args):
        with self.lock:
            self.free -= 1
            more = self.free < 0 and self.count < MAX_WORKERS
            if more:
                self.free += 1
                self.count += 1
        self.tasks.put((work, args))
        if more:
            threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            work, args = self.tasks.get()
            try:
                work(*args)
            except Exception as error:
                log("the gateway failed (%s)" % type(error).__name__)
            with self.lock:
                self.free += 1
