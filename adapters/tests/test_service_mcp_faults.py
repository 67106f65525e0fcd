"""Failures of the gateway itself. Every call still gets an answer, and no call passes without a decision."""

import io
import json
import sys
import threading
import unittest
from unittest import mock

from countersign.gateway import decisions, upstream
from countersign.gateway.calls import Asked, Call, Question
from countersign.gateway.gateway import Gateway
from countersign.gateway.servers import Server
from countersign.gateway.upstream import Upstream
from countersign.shared.limits import Refused, Unreachable


class Faults(unittest.TestCase):
    """A failure with one message neither ends the reading nor leaves a call without its answer."""

    def setUp(self):
        log = mock.patch.object(upstream, "log")
        self.log = log.start()
        self.addCleanup(log.stop)
        self.gateway = mock.Mock()
        self.upstream = Upstream(self.gateway, Server("s", {}, None))
        self.upstream.pending = {}

    def test_a_request_is_answered_with_an_error(self):
        self.gateway.server_asks.side_effect = TypeError
        self.upstream.take(b'{"jsonrpc":"2.0","id":"e1","method":"roots/list"}\n')
        _, work, (key, body) = self.upstream.outbox.get_nowait()
        self.assertEqual((self.upstream.respond, b'"e1"'), (work, key))
        self.assertIn(b'"code":-32603', body)

    def test_a_notification_is_dropped(self):
        self.gateway.tell.side_effect = MemoryError
        self.upstream.take(b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a"}}\n')
        self.assertTrue(self.upstream.outbox.empty())
        self.assertIn("MemoryError", self.log.call_args[0][0])

    def test_a_call_whose_answer_cannot_be_handled_is_ended(self):
        waiting = mock.Mock()
        waiting.answered.side_effect = OverflowError
        self.upstream.pending[1] = waiting
        self.upstream.take(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        waiting.ended.assert_called_once()

    def test_all_calls_are_ended_though_one_fails(self):
        waiting = [mock.Mock(), mock.Mock()]
        waiting[0].ended.side_effect = KeyError
        self.upstream.pending = dict(enumerate(waiting))
        self.gateway.closing.is_set.return_value = True
        self.upstream.down(mock.Mock())
        waiting[1].ended.assert_called_once()
        self.gateway.forget_requests.assert_called_once()

    def test_the_reading_never_ends_without_a_word(self):
        over, quiet = threading.Event(), threading.Event()
        process = mock.Mock(stdout=io.BytesIO(b"x\n"))
        self.upstream.process = process
        with mock.patch.object(self.upstream, "take", side_effect=SystemExit):
            self.assertRaises(SystemExit, self.upstream.listen, process, over, quiet)
        self.assertTrue(over.is_set() and quiet.is_set())

    def test_a_request_that_cannot_be_handed_on_is_declined_and_forgotten(self):
        gateway = Gateway(mock.Mock(), [], "svc")
        asked = Asked(self.upstream, b'"e1"', {})
        asked.number = "s:1"
        gateway.asked["s:1"] = asked
        gateway.hand_up(asked, "roots/list", {"x": float("inf")})
        self.assertEqual({}, gateway.asked)
        self.assertEqual(b'"e1"', self.upstream.outbox.get_nowait()[2][0])

    def test_the_clients_requests_are_answered_too(self):
        gateway = Gateway(mock.Mock(), [], "svc")
        with mock.patch.object(gateway, "write") as write, mock.patch.object(gateway, "client_asks", side_effect=TypeError):
            gateway.take(b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
        self.assertIn(b'"id":7,"error":{"code":-32603', write.call_args[0][0])

    def test_progress_rises_or_is_not_told(self):
        gateway, call = Gateway(mock.Mock(), [], "svc"), Call(b"1", b'"p"', b"1")
        with mock.patch.object(gateway, "write_locked") as write:
            for value in (1, 1, 10**300, 10**300, sys.float_info.max, sys.float_info.max):
                gateway.progress(call, value)
        told = [json.loads(each[0][0])["params"]["progress"] for each in write.call_args_list]
        self.assertEqual([1, 1.001, 10**300, sys.float_info.max], told)


class OpenFailMode(unittest.TestCase):
    """In fail mode `open` a call runs if the service cannot be asked, but never after the service has held it."""

    HELD = {"decision": "require_approval", "approval_id": "apr_1", "decision_id": "dec_1"}

    def setUp(self):
        log = mock.patch.object(decisions, "log")
        log.start()
        self.addCleanup(log.stop)
        self.gateway = Gateway(mock.Mock(fail_open=True, organization_id=None, wait=55), [], "svc")
        self.gateway.service = mock.Mock()
        self.question = Question("mcp__s__t", {}, "session", "use", {})

    def test_a_call_runs_if_the_service_cannot_be_asked(self):
        for error in (Unreachable("gone"), RuntimeError("a fault of the gateway")):
            self.gateway.service.decide.side_effect = error
            self.gateway.permit(Call(), self.question)

    def test_no_failure_lets_a_held_call_run(self):
        for waits, again in ((RuntimeError, None), (None, RuntimeError), (None, Unreachable("gone"))):
            with self.subTest(waits=waits, again=again):
                self.gateway.service.decide.side_effect = [self.HELD, again]
                with mock.patch.object(self.gateway, "wait_for_approval", side_effect=waits):
                    self.assertRaises(Refused, self.gateway.permit, Call(), self.question)


if __name__ == "__main__":
    unittest.main()
