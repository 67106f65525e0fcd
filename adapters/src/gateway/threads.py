# Standard error, and threads for work that has to wait.

_said = SimpleQueue()


def log(text):
    """A line for people. It is dropped rather than waited for: a client that does not read it must not stop a call."""
    if _said.qsize() < 1000:
        _said.put(("countersign: " + plain(text, 2000) + "\n").encode("utf-8", "replace"))


def _write_log():
    while True:
        write_all(2, _said.get())


class Workers:
    """Threads for what has to wait; one that has nothing to do is used before another is started."""

    def __init__(self):
        self.tasks = SimpleQueue()
        self.lock = threading.Lock()
        self.free = 0  # below zero: so many tasks wait for a thread
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
