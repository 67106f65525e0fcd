# The command `pre`: may this call run?

def authorize_body(call, settings):
    """Returns the body of an authorize request. Refuses a body over the limit, and names its size."""
    asked = {
        "agent": {"name": AGENT_NAMES.get(call.dialect, call.dialect or "agent"), "kind": "coding_agent"},
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
    }
    if settings.organization_id is not None:
        asked["organization_id"] = settings.organization_id
    if call.use_id is not None:
        asked["tool_use_id"] = call.use_id
    asked.update(surroundings(call))
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
    answer.dialect = detect(options.dialect, event)
    call = read_call(answer.dialect, event)
    answer.event = call.event
    if answer.dialect != options.dialect:
        # The command line was written for another client, and so was its time-out. This client may give up sooner. So
        # the earlier deadline counts: the one from the command line, or the one from this client's default.
        limit = options.started + patience(answer.dialect, None)
        answer.deadline = limit if options.timeout is None else min(limit, answer.deadline)
    settings = Settings(options.config)
    settings.check()
    refuse_nobody(options.config, settings)
    if call.refused is not None:
        raise Refused(call.refused)
    command = call.arguments.get("command")
    if call.dialect == "codex" and call.tool == "Bash" and isinstance(command, str) and opens_prompt(command):
        raise Refused(
            "this may run what Codex types into it later, which cannot be checked: give the program its commands as "
            "arguments or in a file"
        )
    return call, settings, [(each, authorize_body(each, settings)) for each in calls_of(call, options.config)]


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
        try:
            found = ask(settings, "GET", "%s?wait=%d" % (path, wait), None, min(asked_at + wait + 10, answer.deadline - 1))
        except Unreachable:
            # The service may be restarting. Its approvals survive a restart, so the wait goes on.
            found = {"status": "pending"}
        status = found.get("status")
        if status == "approved":
            return
        if status in ("rejected", "expired", "cancelled"):
            raise Refused(ended(decided, found))
        if status != "pending":
            raise Refused(held(decided, "has a status that cannot be read"))
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
