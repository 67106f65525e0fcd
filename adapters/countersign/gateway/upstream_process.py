"""The process of one server."""

import io
import threading
import time

from ..shared.text import plain
from .constants import BACKOFF_SECONDS, GRACE_SECONDS, LISTS, MAX_LINE, MAX_OUTBOX, Failed
from .processes import end_processes, start_process
from .threads import log


class UpstreamProcess:
    """The part of `Upstream` that starts the process of a server, reads its messages, and ends it."""

    def run(self):
        """Keeps the server running until the gateway ends."""
        threading.Thread(target=self.deliver, daemon=True).start()
        failures = 0
        while not self.gateway.closing.is_set():
            began = time.monotonic()
            try:
                process = start_process(*self.server.command())
            except Failed as error:
                log("server `%s`: %s" % (self.name, error))
                self.give_up()
                return
            self.live(process)
            if self.gateway.closing.is_set():
                return
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            pause = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else BACKOFF_SECONDS[0]
            log("server `%s` has ended and will be started again in %s s%s" % (self.name, pause, self.quoted()))
            self.gateway.closing.wait(pause)

    def later(self, work, *args):
        """Sends a message in the thread that writes to this server. Otherwise a server that does not read would block
        other threads. A message that does not fit into the queue is dropped."""
        if self.outbox.qsize() < MAX_OUTBOX:
            self.outbox.put((self.process, work, args))

    def deliver(self):
        while True:
            process, work, args = self.outbox.get()
            try:
                if process is self.process:
                    work(*args)
            except Exception as error:
                log("the gateway failed (%s)" % type(error).__name__)

    def quoted(self):
        words = plain(self.last_words.decode("utf-8", "replace"), 500)
        return "; its last words: " + words if words else ""

    def give_up(self):
        self.settled.set()
        self.complete.set()

    def live(self, process):
        """Runs the server's process once, until the process or its output ends."""
        with self.lock:
            self.process = process
            self.pending = {}
        self.gateway.watch.tell(b"+", process)
        self.last_words = b""
        over, quiet = threading.Event(), threading.Event()
        for work, args in (
            (self.drain, (process.stderr,)),
            (self.listen, (process, over, quiet)),
            (self.await_end, (process, over)),
        ):
            threading.Thread(target=work, args=args, daemon=True).start()
        if self.gateway.closing.is_set():
            self.close_input()
        self.gateway.workers.run(self.begin, process)
        over.wait()
        # The last output may still arrive. The wait is short, because processes that the server has started may keep
        # the pipe open for ever.
        quiet.wait(0.5)
        self.down(process)

    def listen(self, process, over, quiet):
        output = io.BufferedReader(process.stdout, 65536)
        try:
            while self.process is process:
                line = output.readline(MAX_LINE + 1)
                if not line or len(line) > MAX_LINE:
                    break
                self.take(line)
        except (OSError, ValueError):
            pass
        finally:
            quiet.set()
            over.set()

    def await_end(self, process, over):
        process.wait()
        over.set()

    def drain(self, stream):
        """Reads the server's standard error all the time, because a full pipe would stop the server. The last part is
        kept for error messages."""
        try:
            while True:
                more = stream.read(65536)
                if not more:
                    return
                self.last_words = (self.last_words + more)[-1000:]
        except (OSError, ValueError):
            pass

    def down(self, process):
        """Handles the end of the server. Its open requests get an error, and the client no longer sees its lists."""
        with self.lock:
            open_calls, self.pending = self.pending or {}, None
            was_ready, self.ready = self.ready, False
        reason = "server `%s` ended while this call was open; whether it took effect is not known" % self.name
        for each in list(open_calls.values()):
            self.end_one(each, reason)
        self.gateway.forget_requests(self)
        self.give_up()
        if was_ready and not self.gateway.closing.is_set():
            self.gateway.changed(*LISTS)
        if not self.gateway.closing.is_set():
            self.finish(process)

    def finish(self, process):
        self.stop(process, 0 if process.poll() is not None else GRACE_SECONDS)
        self.gateway.watch.tell(b"-", process)

    def stop(self, process, grace=0):
        self.close_input()
        end_processes([process], grace)

    def greet(self):
        self.notify("notifications/initialized")

    def agreed(self, protocol):
        """Does nothing: a local server needs no protocol version in later messages."""

    def end_one(self, waiting, reason):
        """Ends one open request with an error. If this fails, the other requests still end."""
        try:
            waiting.ended(reason)
        except Exception as error:
            log("the gateway failed (%s)" % type(error).__name__)

    def close_input(self):
        # Another thread may be writing to the server and may block for ever. So this waits only a short time for the
        # lock.
        if self.write_lock.acquire(timeout=0.2):
            try:
                self.process.stdin.close()
            except OSError:
                pass
            finally:
                self.write_lock.release()
