"""The deadline and the signals of this process."""

import time
from _thread import start_new_thread

from ..shared.decision import held
from ..shared.limits import Refused, Unreachable
from .approvals import pending, withdraw


def patience(client, timeout):
    """Returns the time limit of this process in seconds. It is a ninth shorter than the client's limit, and usually at
    least 1.5 s shorter, because the clock of this process starts only after Python has started."""
    limit = timeout or client.timeout
    return limit - max(limit / 9, min(1.5, limit / 2))


def guarded(answer, work, options, blocking):
    """Runs `work` in another thread. This thread only waits for the deadline or a signal, and then answers. So the
    answer comes in time even if `work` waits for a slow name server or a full pipe."""

    def run():
        try:
            try:
                work(answer, options)
            finally:
                answer.asking = False
        except Refused as error:
            finish(str(error))
        except Unreachable as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the service is unreachable (%s); fail mode is open: not checked" % error)
            finish("the service is unreachable (%s), and calls that cannot be checked are blocked" % error)
        except BaseException as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the hook failed (%s); fail mode is open: not checked" % type(error).__name__)
            finish("the hook failed (%s)" % type(error).__name__)

    def finish(reason):
        if blocking:
            answer.deny("countersign: " + reason)
        answer.allow("countersign: " + reason)

    def stopped(number, frame):
        if not blocking:
            answer.allow()
        reason = "the hook was stopped before a decision arrived"
        if answer.waiting_for is not None:
            reason = held(answer.waiting_for[1], "was given up with the call")
        answer.deny("countersign: " + reason, lambda: withdraw(answer))

    import _signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), stopped)
    start_new_thread(run, ())
    while time.monotonic() < answer.deadline:
        # A killed client sends no signal to its hooks. So while a call is held, this loop checks each second whether
        # the client still listens.
        if answer.waiting_for is not None and answer.is_unheard():
            stopped(None, None)
        time.sleep(max(0.0, min(1.0, answer.deadline - time.monotonic())))
    if answer.waiting_for is not None:
        finish(pending(answer.waiting_for[1]))
    finish("no decision arrived within the time that the client waits")
