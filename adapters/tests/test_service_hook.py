"""The hook's own functions: addresses, trust, time limits and the command line.

    python3 -m unittest discover adapters/tests

The tests in test/adapters run the whole process with a service behind it.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
import unittest
from unittest import mock

from countersign.hook import after, main, pre
from countersign.hook.clients import NAMES, client_named
from countersign.hook.doctor import codex
from countersign.hook.doctor.findings import Findings
from countersign.hook.place import Place
from countersign.shared.http import proxy_of
from countersign.shared.limits import Refused
from countersign.shared.settings import Settings, is_loopback, read_url, seconds

ADAPTERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Seconds(unittest.TestCase):
    def test_what_is_no_number_of_seconds_is_the_default(self):
        for given, expected in (("9", 9), (0, 0), ("-1", 55), ("1e400", 55), (10**350, 55), ("soon", 55), (None, 55)):
            self.assertEqual(expected, seconds(given, 55), given)


class Addresses(unittest.TestCase):
    def test_base_addresses(self):
        for url, read in (
            ("http://127.0.0.1:8080", (False, "127.0.0.1", 8080, "")),
            ("https://c.example", (True, "c.example", 443, "")),
            ("https://c.example/gate/", (True, "c.example", 443, "/gate")),
            ("https://c.example/api/v1/", (True, "c.example", 443, "")),
            ("HTTPS://[::1]:8443/x/v1", (True, "::1", 8443, "/x")),
        ):
            self.assertEqual(read, read_url(url), url)
        for url in ("", "c.example", "ftp://c", "http://", "http://:80", "http://a:b", "http://u@c", "http://c?x", "http://c d"):
            with self.assertRaises(Refused, msg=url):
                read_url(url)

    def test_this_machine(self):
        for host in ("localhost", "::1", "127.0.0.1", "127.9.9.9"):
            self.assertTrue(is_loopback(host), host)
        for host in ("127.0.0.1.example.com", "127.1", "0.0.0.0", "localhost.example.com", "127.0.0.256", "::2"):
            self.assertFalse(is_loopback(host), host)


class Proxies(unittest.TestCase):
    @staticmethod
    def used(host="c.example", secure=True):
        settings = Settings()
        settings.host, settings.secure = host, secure
        return proxy_of(settings)

    def setUp(self):
        kept = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(kept)))
        for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
            os.environ.pop(name, None)

    def test_only_what_is_sealed_goes_through_one(self):
        os.environ["HTTPS_PROXY"] = "http://me:p%40ss@proxy.example:3128/"
        header = "Proxy-Authorization: Basic bWU6cEBzcw=="
        self.assertEqual(("proxy.example", 3128, [header]), self.used())
        self.assertIsNone(self.used(secure=False))
        self.assertIsNone(self.used("127.0.0.1"))

    def test_exceptions(self):
        os.environ["https_proxy"] = "proxy.example:3128"
        for named, used in (("example", False), (".example", False), ("d.example", True), ("*", False), ("le", True)):
            os.environ["NO_PROXY"] = "other.example, " + named
            self.assertEqual(used, self.used() is not None, named)


class Trust(unittest.TestCase):
    def told(self, hooks, managed):
        findings = Findings()
        with mock.patch("shutil.which", return_value="/bin/codex"), mock.patch.object(
            codex, "codex_hooks", return_value=hooks
        ), contextlib.redirect_stdout(io.StringIO()) as said:
            client_named("codex").checks().try_trust(Place(managed), ["line"], findings)
        return said.getvalue(), findings.failed, findings.unproven

    def test_codex_is_asked_about_managed_hooks_too(self):
        known = {"command": "line", "enabled": True, "trustStatus": "managed"}
        self.assertEqual(("ok    codex trusts the hook\n", False, False), self.told([known], True))
        for hooks in ([], [dict(known, enabled=False)], [dict(known, command="other")]):
            said, failed, _ = self.told(hooks, True)
            self.assertTrue(failed)
            self.assertIn("install --managed` again", said)
        self.assertTrue(self.told(None, True)[2])


class OpenFailMode(unittest.TestCase):
    def test_no_failure_lets_a_held_call_run(self):
        held = {"decision": "require_approval", "approval_id": "apr_1"}
        answer = mock.Mock(fail_open=True)
        with mock.patch.object(pre, "decision", return_value=held), mock.patch.object(
            pre, "wait_for_approval", side_effect=RuntimeError
        ):
            self.assertRaises(RuntimeError, pre.permit, answer, mock.Mock(), mock.Mock(), b"{}", 0)
        # `guarded` lets the call run after a failure only if this is true.
        self.assertIs(False, answer.fail_open)


class TimeLimits(unittest.TestCase):
    @staticmethod
    def limit(*words):
        """The seconds after the start within which this process answers: `guarded` answers at the deadline."""
        answer = mock.Mock()
        with mock.patch.object(main, "Answer", return_value=answer), mock.patch.object(main, "guarded"):
            with mock.patch.object(time, "monotonic", return_value=100):
                main.main(words)
        return answer.deadline - 100

    def test_a_hook_answers_before_its_client_gives_up(self):
        for dialect in NAMES:
            self.assertAlmostEqual(client_named(dialect).timeout * 8 / 9, self.limit("pre", "--dialect", dialect))
        self.assertEqual(7.5, self.limit("pre", "--dialect", "claude", "--timeout", "9"))
        self.assertEqual(1, self.limit("pre", "--timeout", "2"))
        self.assertEqual(7.5, self.limit("post", "--timeout", "9"))
        self.assertLess(self.limit("post"), 15)

    def test_the_end_of_a_session_takes_two_seconds_at_most(self):
        self.assertLess(self.limit("end"), 2)
        asked = mock.Mock(return_value=True)
        with mock.patch.multiple(after, send_end=asked, read_event=mock.Mock(return_value={"session_id": "s"})):
            with mock.patch.multiple(after, Settings=mock.Mock(), keep_end=mock.Mock(return_value=None)):
                with mock.patch.object(time, "monotonic", return_value=100):
                    after.end(mock.Mock(), mock.Mock())
        self.assertLessEqual(asked.call_args[0][2], 101)


class CommandLine(unittest.TestCase):
    @staticmethod
    def run_hook(*words, stdin=subprocess.DEVNULL):
        line = [sys.executable, "-B", "-S", "-m", "countersign.hook"] + list(words)
        ran = subprocess.run(line, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ADAPTERS)
        return ran.returncode, ran.stdout.decode(), ran.stderr.decode()

    @unittest.skipUnless(os.name == "posix", "a terminal of this kind")
    def test_a_person_reads_the_usage_and_a_client_a_deny(self):
        import pty

        ours, theirs = pty.openpty()
        try:
            for words in ((), ("per",)):
                self.assertEqual((2, "", main.USAGE + "\n"), self.run_hook(*words, stdin=theirs))
        finally:
            os.close(ours)
            os.close(theirs)
        code, out, _ = self.run_hook()
        self.assertEqual((2, "deny"), (code, json.loads(out)["permission"]))


if __name__ == "__main__":
    unittest.main()
