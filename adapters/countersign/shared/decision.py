"""The service's decisions."""

import time

from .json import parse_json, to_json
from .limits import MAX_BODY, Forbidden, Refused, Unreachable
from .text import plain, text_of


def answered_object(status, answered):
    """Returns the JSON object of an answer. Raises Refused if the status is not 200 or the answer is not a JSON
    object."""
    try:
        found = parse_json(answered.decode("utf-8"))
    except ValueError:
        found = None
    if status != 200:
        error = found.get("error") if isinstance(found, dict) else None
        told = text_of(error, "message") if isinstance(error, dict) else None
        hint = ": check SERVICE_API_KEY" if status in (401, 403) else ": check SERVICE_API_URL"
        kind = Forbidden if status == 403 else Refused
        raise kind("the service answers %d%s%s" % (status, hint, " (%s)" % plain(told, 300) if told else ""))
    if not isinstance(found, dict):
        raise Refused("the service's answer cannot be read: it is not a JSON object")
    return found


def decide(ask, until, given_up=lambda: False):
    """Returns the service's decision on a call. `ask` sends the question. If no answer comes, sends the question again,
    at most three times in all. This does no harm, because the service repeats its decision for the same call."""
    for pause in (0.15, 0.5, None):
        try:
            decided = ask()
            break
        except Unreachable:
            if pause is None or time.monotonic() + pause >= until or given_up():
                raise
            time.sleep(pause)
    verdict = decided.get("decision")
    if verdict == "allow" and text_of(decided, "decision_id") is not None:
        return decided
    if verdict == "deny":
        return decided
    if verdict == "require_approval" and is_approval(decided.get("approval_id")):
        return decided
    raise Refused("the service's answer cannot be read: it is not a decision")


def is_approval(value):
    return isinstance(value, str) and 0 < len(value) <= 100 and all(c.isalnum() or c in "_-" for c in value)


def named_rule(decided):
    rule = text_of(decided, "rule_name")
    return " by rule `%s`" % rule if rule is not None else ""


def blocked(decided):
    """Says why a call may not run, in words for the model."""
    reason, rule = text_of(decided, "reason"), text_of(decided, "rule_name")
    why = [text_of(decided, "explanation")]
    if reason != rule:
        why.insert(0, reason)
    told = ": ".join(each for each in why if each)
    return "blocked%s%s" % (named_rule(decided), ": " + told if told else "")


def held(decided, state):
    return "held%s: approval %s %s" % (named_rule(decided), decided["approval_id"], state)


def ended(decided, found):
    """Says that the approval of a held call ended without letting the call run. `found` is the service's answer about
    the approval."""
    if found["status"] == "cancelled" and found.get("session_status") == "revoked":
        return held(decided, "was cancelled, because this session was revoked: it can make no more calls")
    told = held(decided, "has expired" if found["status"] == "expired" else "was " + found["status"])
    comment = text_of(found, "comment")
    return told + (": " + comment if comment else "")


def asked_body(asked):
    """The body of an authorize request. Raises Refused if it is over the limit, and names its size."""
    try:
        body = to_json(asked)
    except ValueError as error:
        raise Refused("the call's arguments cannot be read: %s" % error)
    if len(body) > MAX_BODY:
        raise Refused(
            "the call's arguments are %s bytes long, over the %s that are checked: split the call"
            % (format(len(body), ","), format(MAX_BODY, ","))
        )
    return body


def is_approved(decided, look):
    """Looks once for the approval of a held call. False while it waits. Raises Refused if it ended in another way."""
    try:
        found = look()
    except Unreachable:
        # The service may be restarting. Its approvals survive a restart, so the wait goes on.
        return False
    status = found.get("status")
    if status in ("rejected", "expired", "cancelled"):
        raise Refused(ended(decided, found))
    if status not in ("pending", "approved"):
        raise Refused(held(decided, "has a status that cannot be read"))
    return status == "approved"
