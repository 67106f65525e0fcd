"""Waiting for the decision of the service, and for an approver."""

import time

from ..shared.decision import decide, held, is_approved
from ..shared.limits import ASK_SECONDS, POLL_SECONDS, Refused, Unreachable
from .request import ask, request


def decision(answer, settings, body):
    until = min(time.monotonic() + ASK_SECONDS, answer.deadline - 1)
    return decide(lambda: ask(settings, "POST", "/authorize", body, until), until)


def wait_for_approval(answer, settings, decided, give_up):
    """Returns when an approver has approved the call. Raises Refused if the approval ends in another way, or is still
    open at `give_up`."""
    path = "/authorize/approvals/" + decided["approval_id"]
    while True:
        left = give_up - time.monotonic()
        if left <= 0:
            raise Refused(pending(decided))
        asked_at = time.monotonic()
        wait = max(0, min(POLL_SECONDS, int(left)))
        late = min(asked_at + wait + 10, answer.deadline - 1)
        if is_approved(decided, lambda: ask(settings, "GET", "%s?wait=%d" % (path, wait), None, late)):
            return
        # Requests begin at least a second apart, even if the service answers at once.
        time.sleep(max(0.0, min(1.0 - (time.monotonic() - asked_at), give_up - time.monotonic())))


def pending(decided):
    return held(decided, "is still pending; have it approved, then retry the identical call after approval")


def withdraw(answer):
    """Withdraws the approval of a held call, because the client has given the call up. If the service has not decided
    yet, waits at most 1.5 s for the decision, which may hold the call."""
    limit = time.monotonic() + 1.5
    while answer.asking and time.monotonic() < limit:
        time.sleep(0.02)
    if answer.waiting_for is None:
        return
    settings, decided = answer.waiting_for
    try:
        path = "/authorize/approvals/%s/cancel" % decided["approval_id"]
        request(settings, "POST", path, b"{}", time.monotonic() + 1.5)
    except (Unreachable, Refused, OSError):
        pass
