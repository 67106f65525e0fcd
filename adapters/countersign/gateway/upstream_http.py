"""One server over HTTP (streamable HTTP)."""

import threading
import time

from ..shared.text import plain
from .constants import BACKOFF_SECONDS, GRACE_SECONDS, MAX_LINE, MAX_RESUMES, RETRY_SECONDS, START_SECONDS, Failed, SessionEnded
from .event_stream import events_of
from .http_session import HttpSession, kind_of, refusal_of
from .messages import notification
from .threads import Workers, log
from .upstream import Upstream


class UpstreamHttp(Upstream):
    """A server over HTTP. The gateway does not start this server, so `process` is an HttpSession and not a process."""

    def run(self):
        """Keeps a session open until the gateway ends."""
        threading.Thread(target=self.deliver, daemon=True).start()
        self.posts = Workers()
        failures = 0
        while not self.gateway.closing.is_set():
            began = time.monotonic()
            try:
                session = HttpSession(self.server.address())
            except Failed as error:
                log("server `%s`: %s" % (self.name, error))
                self.give_up()
                return
            self.live(session)
            if self.gateway.closing.is_set() or session.hopeless:
                return
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            self.gateway.closing.wait(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else 0)

    def live(self, session):
        """Runs one session until it ends."""
        with self.lock:
            self.process = session
            self.pending = {}
        if self.gateway.closing.is_set():
            session.close()
        self.gateway.workers.run(self.begin, session)
        session.over.wait()
        self.down(session)

    def stop(self, session, grace=0):
        session.leave()

    def finish(self, session):
        session.close()

    def close_input(self):
        threading.Thread(target=self.process.leave, daemon=True).start()

    def agreed(self, protocol):
        self.process.protocol = protocol

    def greet(self):
        session = self.process
        self.notify("notifications/initialized")
        session.greeted.set()
        threading.Thread(target=self.listen, args=(session,), daemon=True).start()

    # Messages to the server

    def write(self, data, number):
        """Posts one request in another thread, because the answer may take long."""
        session = self.process
        if session.first is None:
            session.first = number
        self.posts.run(self.post, session, number, data)

    def post(self, session, number, data):
        try:
            if number != session.first:
                session.greeted.wait(START_SECONDS)
            self.exchange(session, number, data)
            self.resume(session, number)
        except SessionEnded as error:
            self.fail(session, number, "server `%s` %s" % (self.name, error))
            session.close()
        except Failed as error:
            self.fail(session, number, "server `%s` %s" % (self.name, error))
        except Exception as error:
            self.fail(session, number, "the gateway failed (%s)" % type(error).__name__)
        finally:
            session.resume_at.pop(number, None)
            session.given_up.discard(number)

    def exchange(self, session, number, data, last=None):
        """Posts the request `data` and handles the answer. If `data` is None, asks for the rest of an answer, after the
        event `last`."""
        answered = session.request("GET" if data is None else "POST", data, number, last)
        try:
            self.read_answer(session, number, answered)
        finally:
            session.forget(answered)

    def fail(self, session, number, reason):
        with self.lock:
            waiting = self.pending.pop(number, None) if self.pending is not None and self.process is session else None
        if waiting is not None:
            self.end_one(waiting, reason)

    def is_open(self, session, number):
        with self.lock:
            return self.process is session and self.pending is not None and number in self.pending

    def read_answer(self, session, number, answered):
        """Handles the messages of an answer: one message in JSON, or several in a stream of events."""
        refusal = refusal_of(answered, session)
        if refusal is not None:
            # If `initialize` gets 401, 403 or a redirect, the gateway does not try again. Another try with the same
            # credentials could lock an account, and only a person may choose another address.
            session.hopeless = number == session.first and (answered.status in (401, 403) or answered.status < 400)
            raise Failed(refusal)
        if number == session.first:
            found = answered.getheader("Mcp-Session-Id")
            if found is not None and not (0 < len(found) <= 1000 and all("!" <= c <= "~" for c in found)):
                raise Failed("sent a session id that cannot be used in a header")
            session.id = found
        kind = kind_of(answered)
        try:
            if kind == "application/json":
                body = answered.read(MAX_LINE + 1)
                if len(body) > MAX_LINE:
                    raise Failed("answered with more than %d bytes" % MAX_LINE)
                self.take(one_line(body))
            elif kind == "text/event-stream":
                self.read_events(session, number, answered)
            elif self.is_open(session, number):
                raise Failed("answered with `%s`, and neither with JSON nor with a stream of events" % plain(kind, 100))
        except (OSError, ValueError, session.http_error()):
            pass  # the answer was cut short: `resume` reads the rest or reports the error

    def read_events(self, session, number, answered):
        for event in events_of(lambda: answered.read1(65536)):
            if event.id is not None or event.retry is not None:
                last, pause = session.resume_at.get(number, (None, RETRY_SECONDS))
                pause = pause if event.retry is None else min(max(event.retry, 0.1), 60)
                session.resume_at[number] = (last if event.id is None else event.id, pause)
            if event.data is not None:
                self.take(one_line(event.data))
            if session.over.is_set():
                return

    def resume(self, session, number):
        """Resumes a stream that ended before the answer came. Raises Failed if the server has sent no event id, or if
        MAX_RESUMES tries have brought no new event."""
        tries = 0
        while self.is_open(session, number) and not session.over.is_set():
            last, pause = session.resume_at.get(number, (None, None))
            if number in session.given_up:
                raise Failed("was told that the call is given up")
            if last is None or tries >= MAX_RESUMES:
                raise Failed("ended its answer too early; whether the call took effect is not known")
            session.over.wait(pause)
            try:
                self.exchange(session, number, None, last)
            except SessionEnded:
                raise
            except Failed:
                if tries + 1 >= MAX_RESUMES:
                    raise
            tries = 0 if session.resume_at.get(number, (None, None))[0] != last else tries + 1

    def listen(self, session):
        """Keeps a stream open for the server's messages that belong to no request. Not every server has such a
        stream."""
        failures = 0
        while not session.over.is_set():
            began = time.monotonic()
            try:
                if not self.listen_once(session):
                    return
            except SessionEnded:
                return session.close()
            except (Failed, OSError, ValueError, session.http_error()):
                pass
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            pause = session.resume_at.get(None, (None, RETRY_SECONDS))[1]
            session.over.wait(max(pause, BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else 0))

    def listen_once(self, session):
        """Reads the stream of `listen` until the stream ends. Returns false if the status shows that another try makes
        no sense."""
        answered = session.request("GET", None, None, session.resume_at.get(None, (None, 0))[0])
        try:
            # Some servers answer 404 to GET, although the session lives. A POST shows whether it does.
            refusal = None if answered.status == 404 else refusal_of(answered, session)
            if refusal is None and answered.status != 404 and kind_of(answered) == "text/event-stream":
                self.read_events(session, None, answered)
            return answered.status not in (400, 401, 403, 404, 405, 501)
        finally:
            session.forget(answered)

    def tell(self, data):
        """Posts a message that needs no answer, and waits until the server has confirmed the message. Writes an error
        to the log."""
        session = self.process
        if session is None or session.over.is_set():
            return
        try:
            answered = session.request("POST", data)
            try:
                refusal = refusal_of(answered, session)
            finally:
                session.forget(answered)
            if refusal is not None:
                raise Failed(refusal)
        except SessionEnded:
            session.close()
        except Failed as error:
            log("server `%s` %s" % (self.name, error))

    def notify(self, method, params=None):
        session, number = self.process, (params or {}).get("requestId")
        self.tell(notification(method, params))
        if method == "notifications/cancelled" and self.is_open(session, number):
            # The server has GRACE_SECONDS to answer the cancelled request. Then the wait for this answer ends.
            late = threading.Timer(GRACE_SECONDS, self.drop, (session, number))
            late.daemon = True
            late.start()

    def drop(self, session, number):
        if self.is_open(session, number):
            session.abort(number)

    def respond(self, number, body):
        self.tell(b'{"jsonrpc":"2.0","id":' + number + b"," + body + b"}")


def one_line(data):
    """Returns a message in which every line break is a space, because the client reads one message per line. This
    changes no value, because JSON allows line breaks only between its parts."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ")
