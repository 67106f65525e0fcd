"""The commands `post` and `end`, and the delivery of the notes of ended sessions."""

import os
import time

from ..shared.json import to_json
from ..shared.limits import MAX_BODY, Refused, Unreachable
from ..shared.settings import Settings
from .clients import client_of
from .ended import discard, end_file, keep_end, left_ends, spool, start_beside
from .event import calls_of, read_call, read_event, session_of
from .request import ask, request


def outcome_of(event):
    """Returns the outcome of a finished call, `ok` or `error`. The output itself stays on this machine."""
    name = event.get("hook_event_name", event.get("hookEventName"))
    answered = event.get("tool_response")
    failed = name in ("PostToolUseFailure", "postToolUseFailure") or (
        isinstance(answered, dict) and (answered.get("error") or answered.get("is_error") or answered.get("isError"))
    )
    return "error" if failed or (name is None and "error" in event) else "ok"


def post(answer, options):
    """Reports a finished call: its name and arguments, never its output."""
    event = read_event()
    call = read_call(client_of(options.dialect, event), event)
    settings = Settings(options.config)
    settings.check()
    for each in calls_of(call, options.config):
        report(each, outcome_of(event), settings, answer)
    answer.allow()


def report(call, outcome, settings, answer):
    seen = {
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
        "outcome": outcome,
    }
    if call.use_id is not None:
        seen["tool_use_id"] = call.use_id
    try:
        body = to_json(seen)
    except ValueError:
        body = None
    if body is None or len(body) > MAX_BODY:
        # The hook refused this call, because these arguments cannot be sent. But the call ran anyway, so the report
        # says why the arguments are missing.
        seen["tool_input"] = {"unreadable": True} if body is None else {"too_long": len(body)}
        body = to_json(seen)
    ask(settings, "POST", "/authorize/observe", body, answer.deadline - 0.5)


def end(answer, options):
    """Reports the end of the session. A note stays on this machine until the service has accepted the report. If the
    service does not accept the report within a second, a background process tries for a minute. After that, the next
    `pre` starts another try."""
    session_id = session_of(read_event())
    if session_id is None:
        raise Refused("the client named no session")
    settings = Settings(options.config)
    settings.check()
    # The note is written first, because clients end this process soon, even before the request is done.
    note = keep_end(settings, session_id)
    if send_end(settings, session_id, time.monotonic() + 1.0):
        if note is not None:
            discard(note)
    elif note is not None:
        start_beside("deliver", options)
    answer.allow()


def send_end(settings, session_id, until):
    """Reports the end of a session. Returns true if the service has accepted the report, or has refused it for good.
    Returns false if another try makes sense."""
    try:
        body = to_json({"session_id": session_id, "reason": "the client's session ended"})
        status, _ = request(settings, "POST", "/authorize/sessions/end", body, until)
        return status != 429
    except Unreachable:
        return False
    except Refused:
        return True


def deliver(answer, options):
    """Tries for a minute to send the notes of ended sessions."""
    pause = 1
    while not flush_all(options):
        time.sleep(pause)
        pause *= 2
    answer.allow()


def flush(answer, options):
    """Tries once to send the notes of ended sessions."""
    flush_all(options)
    answer.allow()


def flush_all(options):
    """Reports the noted sessions of this service, and deletes their notes. Also deletes every note that is older than
    seven days. Returns false at the first report that fails and can be tried again; otherwise true."""
    settings = Settings(options.config)
    settings.check()
    folder = spool()
    for name in sorted(left_ends(folder)):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                session_id = file.read(4096).decode("utf-8", "replace")
            if time.time() - os.stat(path).st_mtime > 7 * 86400:
                os.unlink(path)
            elif "." not in name and name == end_file(settings.api_url, session_id):
                if not send_end(settings, session_id, time.monotonic() + 5):
                    return False
                os.unlink(path)
        except FileNotFoundError:
            pass  # another process has sent it already
    return True
