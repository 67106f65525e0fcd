"""Decisions of the service."""

import time

from ..shared.decision import asked_body, blocked, held, is_approved
from ..shared.json import refuse_inexact, to_json
from ..shared.limits import ASK_SECONDS, MAX_BODY, POLL_SECONDS, Refused, Unreachable
from .constants import MAX_WAIT, Cancelled, Denied
from .service import pending
from .threads import log


class Decisions:
    """The part of the gateway that asks for a decision, waits for an approver, and reports finished calls."""

    def body_of(self, question):
        """Returns the body of an authorize request. Refuses a body over the limit, and names its size."""
        refuse_inexact(question.given)
        asked = {
            "agent": {"name": self.agent, "kind": "mcp"},
            "session_id": question.session,
            "tool_name": question.tool,
            "tool_input": question.given,
            "tool_use_id": question.use_id,
        }
        if question.hints:
            asked["annotations"] = question.hints
        if self.settings.organization_id is not None:
            asked["organization_id"] = self.settings.organization_id
        return asked_body(asked)

    def permit(self, call, question):
        """Returns when the call may continue. Raises Refused with the reason, or Cancelled if the client has given the
        call up."""
        if self.unusable is not None:
            raise Refused(self.unusable)
        try:
            self.decided(call, question)
        except (Refused, Cancelled):
            raise
        except Unreachable as error:
            if call.cancelled:
                raise Cancelled()
            if not self.settings.fail_open:
                raise Refused("the service is unreachable (%s), and calls that cannot be checked are blocked" % error)
            log("the service is unreachable (%s); fail mode is open: not checked" % error)
        except Exception as error:
            if not self.settings.fail_open:
                raise Refused("the gateway failed (%s)" % type(error).__name__)
            log("the gateway failed (%s); fail mode is open: not checked" % type(error).__name__)

    def decided(self, call, question):
        body = self.body_of(question)
        call.asking = True
        try:
            decided = self.service.decide(body, time.monotonic() + ASK_SECONDS, call)
            if call.cancelled:
                if decided["decision"] == "require_approval":
                    self.withdraw(decided)
                raise Cancelled()
        finally:
            call.asking = False
        give_up = time.monotonic() + min(self.settings.wait, MAX_WAIT)
        while decided["decision"] == "require_approval":
            try:
                self.wait_for_approval(call, decided, give_up)
                # An approval alone does not let the call run: the service decides once more. Only the decision `allow`
                # lets the call run.
                again = self.service.decide(body, time.monotonic() + ASK_SECONDS, call)
            except Cancelled:
                self.withdraw(decided)
                raise
            except Unreachable as error:
                if call.cancelled:
                    self.withdraw(decided)
                    raise Cancelled()
                raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
            except Refused:
                raise
            except Exception as error:
                # The service has held the call, so the call stays blocked, even in fail mode `open`.
                raise Refused("the gateway failed (%s)" % type(error).__name__)
            finally:
                call.held = None
            decided = again
        if decided["decision"] != "allow":
            raise Denied(blocked(decided))

    def wait_for_approval(self, call, decided, give_up):
        """Returns when an approver has approved the call. Raises Refused if the approval ends in another way, or is
        still open at `give_up`. Raises Cancelled if the client gives the call up."""
        path = "/authorize/approvals/" + decided["approval_id"]
        call.held = decided
        self.tick(call)
        while True:
            if call.cancelled:
                raise Cancelled()
            left = give_up - time.monotonic()
            if left <= 0:
                raise Refused(pending(decided))
            asked_at = time.monotonic()
            wait = max(0, min(POLL_SECONDS, int(left)))
            late = asked_at + wait + 10
            if is_approved(decided, lambda: self.service.ask("GET", "%s?wait=%d" % (path, wait), None, late, call)):
                return
            # Requests begin at least a second apart, even if the service answers at once.
            until = min(asked_at + 1.0, give_up)
            while not call.cancelled and time.monotonic() < until:
                time.sleep(max(0.0, min(0.05, until - time.monotonic())))

    def tick(self, call):
        """Tells the client that a held call still waits for an approver."""
        decided = call.held
        call.ticked = time.monotonic()
        if decided is not None:
            self.progress(call, 0, None, "waiting for approval %s" % decided["approval_id"])

    def withdraw(self, decided):
        """Withdraws the approval of a call that the client gave up."""
        try:
            path = "/authorize/approvals/%s/cancel" % decided["approval_id"]
            self.service.request("POST", path, b"{}", time.monotonic() + 5)
        except Exception:
            # The call stays blocked. If this error left the function, fail mode `open` would let the call run.
            pass

    def observe_later(self, question, outcome):
        with self.lock:
            self.observing += 1
        self.workers.run(self.observe, question, outcome)

    def observe(self, question, outcome):
        """Reports a finished call: its name and arguments, never its output."""
        try:
            body = to_json(question.seen(outcome))
            if self.unusable is None and len(body) <= MAX_BODY:
                self.service.ask("POST", "/authorize/observe", body, time.monotonic() + 5)
        except (Refused, Unreachable) as error:
            log("a finished call could not be reported: %s" % error)
        finally:
            with self.lock:
                self.observing -= 1
