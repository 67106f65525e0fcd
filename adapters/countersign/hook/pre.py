"""The command `pre`: may this call run?"""

import time

from ..shared.decision import asked_body, blocked, held
from ..shared.limits import ASK_SECONDS, Refused, Unreachable
from ..shared.settings import Settings
from .approvals import decision, wait_for_approval
from .clients import client_of
from .ended import flush_ends
from .event import calls_of, read_call, read_event
from .guard import patience
from .organization import refuse_nobody, refuse_strange_key
from .surroundings import surroundings


def authorize_body(call, settings):
    """Returns the body of an authorize request. Refuses a body over the limit, and names its size."""
    asked = {
        "agent": {"name": call.client.agent, "kind": "coding_agent"},
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
    }
    if settings.organization_id is not None:
        asked["organization_id"] = settings.organization_id
    if call.use_id is not None:
        asked["tool_use_id"] = call.use_id
    asked.update(surroundings(call))
    return asked_body(asked)


def pre(answer, options):
    """Asks about one call. If the call is held, waits for an approver. Then answers the client."""
    call, settings, asked = question(answer, options)
    # The fail mode is set only after the call was read. Otherwise, in open mode, text of the model could make the hook
    # fail and so allow the call.
    answer.fail_open = settings.fail_open
    refuse_strange_key(settings, min(time.monotonic() + ASK_SECONDS, answer.deadline - 1))
    flush_ends(settings, call, options)
    give_up = min(time.monotonic() + settings.wait, answer.deadline - 1)
    for each, body in asked:
        permit(answer, settings, each, body, give_up)
    answer.allow()


def permit(answer, settings, call, body, give_up):
    """Returns if the service allows the call. Otherwise answers the client with a denial, or raises Refused."""
    answer.asking = True
    decided = decision(answer, settings, body)
    approved = None
    while decided["decision"] == "require_approval":
        # The service has held the call. From now on, no failure may let the call run, even in fail mode `open`.
        answer.fail_open = False
        answer.waiting_for, answer.asking = (settings, decided), False
        if decided["approval_id"] == approved:
            raise Refused(held(decided, "is approved, but does not allow the call"))
        wait_for_approval(answer, settings, decided, give_up)
        approved = decided["approval_id"]
        # An approval alone does not let the call run: the service decides once more. Only the decision `allow` lets the
        # call run.
        try:
            # The scripts of the call may have changed while it was held, so they are read again.
            decided = decision(answer, settings, authorize_body(call, settings))
        except Unreachable as error:
            raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
        answer.waiting_for = None
    answer.asking = False
    if decided["decision"] != "allow":
        answer.deny(blocked(decided))


def question(answer, options):
    """Returns the client's call, the settings, and each call about which the service is asked with the body of its request."""
    event = read_event()
    client = answer.client = client_of(options.dialect, event)
    call = read_call(client, event)
    answer.event = call.event
    if client.name != options.dialect:
        # The command line was written for another client, and so was its time-out. This client may give up sooner. So
        # the earlier deadline counts: the one from the command line, or the one from this client's default.
        limit = options.started + patience(client, None)
        answer.deadline = limit if options.timeout is None else min(limit, answer.deadline)
    settings = Settings(options.config)
    settings.check()
    refuse_nobody(options.config, settings)
    if call.refused is not None:
        raise Refused(call.refused)
    client.refuse_call(call)
    return call, settings, [(each, authorize_body(each, settings)) for each in calls_of(call, options.config)]
