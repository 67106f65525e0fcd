"""The hook's own functions: names, addresses, trust, time limits and the command line.

    python3 -m unittest discover adapters/tests

The tests in test/adapters run the whole process with a service behind it.
"""

import ast
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

HOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "service_hook.py")
_spec = importlib.util.spec_from_file_location("service_hook", HOOK)
hook = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hook)


class Grammar(unittest.TestCase):
    def test_python_3_8_reads_it(self):
        with open(HOOK, encoding="utf-8") as file:
            ast.parse(file.read(), feature_version=(3, 8))

    def test_it_imports_the_standard_library_alone(self):
        known = getattr(sys, "stdlib_module_names", None)
        if known is None:
            return
        with open(HOOK, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        named = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                named.add(node.module.split(".")[0])
        self.assertGreater(len(named), 5)
        # From 3.11 on; where it is missing, the hook does without.
        self.assertEqual(set(), named - set(known) - {"tomllib"})


class Seconds(unittest.TestCase):
    def test_what_is_no_number_of_seconds_is_the_default(self):
        for given, expected in (("9", 9), (0, 0), ("-1", 55), ("1e400", 55), (10**350, 55), ("soon", 55), (None, 55)):
            self.assertEqual(expected, hook.seconds(given, 55), given)


class Names(unittest.TestCase):
    def test_tools(self):
        for dialect, tool, canonical in (
            ("claude", "Bash", "Bash"),
            ("claude", "replace", "replace"),
            ("claude", "mcp__rec__fast", "mcp__rec__fast"),
            ("claude", "SomethingNew", "SomethingNew"),
            (None, "write_file", "write_file"),
            ("codex", "Bash", "Bash"),
            ("codex", "apply_patch", "Edit"),
            ("codex", "mcp__rec__fast", "mcp__rec__fast"),
            ("gemini", "run_shell_command", "Bash"),
            ("gemini", "read_file", "Read"),
            ("gemini", "write_file", "Write"),
            ("gemini", "replace", "Edit"),
            ("gemini", "web_fetch", "WebFetch"),
            ("gemini", "google_web_search", "WebSearch"),
            ("gemini", "mcp_rec_fast", "mcp__rec__fast"),
            ("gemini", "mcp_", "mcp_"),
            ("copilot", "bash", "Bash"),
            ("copilot", "view", "Read"),
            ("copilot", "create", "Write"),
            ("copilot", "edit", "Edit"),
            ("copilot", "write_bash", "write_stdin"),
            ("copilot", "rec-fast", "mcp__rec__fast"),
            ("copilot", "github-mcp-server-get_me", "mcp__github-mcp-server__get_me"),
            ("copilot", "notion-API-post-page", "mcp__notion__API-post-page"),
            ("copilot", "Bash", "Bash"),
            ("cursor", "Shell", "Bash"),
            ("cursor", "Read", "Read"),
            ("cursor", "MCP:send mail", "mcp__cursor__send_mail"),
            ("vscode", "runTerminalCommand", "Bash"),
            ("vscode", "create_file", "Write"),
            ("vscode", "replace_string_in_file", "Edit"),
            ("vscode", "mcp_rec_fast", "mcp__rec__fast"),
            ("opencode", "bash", "Bash"),
            ("opencode", "apply_patch", "Edit"),
            ("opencode", "task", "Agent"),
            ("opencode", "rec_fast", "rec_fast"),
        ):
            with self.subTest(dialect=dialect, tool=tool):
                self.assertEqual(canonical, hook.canonical_name(dialect, tool))

    def test_gemini_says_which_server(self):
        context = {"server_name": "my_srv.x", "tool_name": "read_file"}
        self.assertEqual("mcp__my_srv_x__read_file", hook.canonical_name("gemini", "mcp_my_srv.x_read_file", context))
        # A server's tool is never taken for one of the client's own.
        self.assertEqual("mcp__s__read_file", hook.canonical_name("gemini", "read_file", dict(context, server_name="s")))

    def test_opencode_says_which_server(self):
        context = {"server_name": "my.srv", "tool_name": "read_file"}
        self.assertEqual("mcp__my_srv__read_file", hook.canonical_name("opencode", "my_srv_read_file", context))
        # A project that names its server `apply` does not rename a tool of the client.
        context = {"server_name": "apply", "tool_name": "patch"}
        self.assertEqual("Edit", hook.canonical_name("opencode", "apply_patch", context))

    def test_opencode_has_no_tool_of_a_server_under_one_of_its_own_names(self):
        event = {"session_id": "s", "tool_name": "plan_exit", "tool_input": {}}
        self.assertIsNone(hook.read_call("opencode", event).refused)
        event["mcp_context"] = {"server_name": "plan", "tool_name": "exit"}
        self.assertIn("one of the server plan: rename", hook.read_call("opencode", event).refused)

    def test_dialects(self):
        for given, event, dialect in (
            ("claude", {"hook_event_name": "PreToolUse"}, "claude"),
            ("claude", {"hookEventName": "PreToolUse", "sessionId": "s"}, "vscode"),
            ("copilot", {"hookEventName": "PreToolUse", "sessionId": "s"}, "vscode"),
            ("gemini", {"hook_event_name": "PreToolUse"}, "gemini"),
            (None, {"hook_event_name": "PreToolUse", "session_id": "s"}, "claude"),
            (None, {"hook_event_name": "PreToolUse", "session_id": "s", "turn_id": "t"}, "codex"),
            (None, {"hook_event_name": "BeforeTool"}, "gemini"),
            (None, {"hook_event_name": "tool.execute.before"}, "opencode"),
            (None, {"conversation_id": "c", "hook_event_name": "preToolUse"}, "cursor"),
            (None, {"sessionId": "s", "toolName": "bash"}, "copilot"),
            (None, {"session_id": "s", "tool_name": "Bash"}, None),
        ):
            with self.subTest(given=given, event=event):
                self.assertEqual(dialect, hook.detect(given, event))


class Addresses(unittest.TestCase):
    def test_base_addresses(self):
        for url, read in (
            ("http://127.0.0.1:8080", (False, "127.0.0.1", 8080, "")),
            ("https://c.example", (True, "c.example", 443, "")),
            ("https://c.example/gate/", (True, "c.example", 443, "/gate")),
            ("https://c.example/api/v1/", (True, "c.example", 443, "")),
            ("HTTPS://[::1]:8443/x/v1", (True, "::1", 8443, "/x")),
        ):
            self.assertEqual(read, hook.read_url(url), url)
        for url in ("", "c.example", "ftp://c", "http://", "http://:80", "http://a:b", "http://u@c", "http://c?x", "http://c d"):
            with self.assertRaises(hook.Refused, msg=url):
                hook.read_url(url)

    def test_this_machine(self):
        for host in ("localhost", "::1", "127.0.0.1", "127.9.9.9"):
            self.assertTrue(hook.is_loopback(host), host)
        for host in ("127.0.0.1.example.com", "127.1", "0.0.0.0", "localhost.example.com", "127.0.0.256", "::2"):
            self.assertFalse(hook.is_loopback(host), host)


class Proxies(unittest.TestCase):
    @staticmethod
    def used(host="c.example", secure=True):
        settings = hook.Settings()
        settings.host, settings.secure = host, secure
        return hook.proxy_of(settings)

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
        findings = hook.Findings()
        with mock.patch("shutil.which", return_value="/bin/codex"), mock.patch.object(
            hook, "codex_hooks", return_value=hooks
        ), contextlib.redirect_stdout(io.StringIO()) as said:
            hook.try_trust(["line"], managed, findings)
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
        with mock.patch.object(hook, "decision", return_value=held), mock.patch.object(
            hook, "wait_for_approval", side_effect=RuntimeError
        ):
            self.assertRaises(RuntimeError, hook.permit, answer, mock.Mock(), mock.Mock(), b"{}", 0)
        # `guarded` lets the call run after a failure only if this is true.
        self.assertIs(False, answer.fail_open)


class TimeLimits(unittest.TestCase):
    @staticmethod
    def limit(*words):
        """The seconds after the start within which this process answers: `guarded` answers at the deadline."""
        answer = mock.Mock()
        with mock.patch.object(hook, "Answer", return_value=answer), mock.patch.object(hook, "guarded"):
            with mock.patch.object(hook.time, "monotonic", return_value=100):
                hook.main(words)
        return answer.deadline - 100

    def test_a_hook_answers_before_its_client_gives_up(self):
        for dialect, timeout in hook.CLIENT_TIMEOUT.items():
            self.assertAlmostEqual(timeout * 8 / 9, self.limit("pre", "--dialect", dialect))
        self.assertEqual(7.5, self.limit("pre", "--dialect", "claude", "--timeout", "9"))
        self.assertEqual(1, self.limit("pre", "--timeout", "2"))
        self.assertEqual(7.5, self.limit("post", "--timeout", "9"))
        self.assertLess(self.limit("post"), 15)

    def test_the_end_of_a_session_takes_two_seconds_at_most(self):
        self.assertLess(self.limit("end"), 2)
        asked = mock.Mock(return_value=True)
        with mock.patch.multiple(hook, send_end=asked, read_event=mock.Mock(return_value={"session_id": "s"})):
            with mock.patch.multiple(hook, Settings=mock.Mock(), keep_end=mock.Mock(return_value=None)):
                with mock.patch.object(hook.time, "monotonic", return_value=100):
                    hook.end(mock.Mock(), mock.Mock())
        self.assertLessEqual(asked.call_args[0][2], 101)


class CommandLine(unittest.TestCase):
    @staticmethod
    def run_hook(*words, stdin=subprocess.DEVNULL):
        line = [sys.executable, "-I", "-S", HOOK] + list(words)
        ran = subprocess.run(line, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return ran.returncode, ran.stdout.decode(), ran.stderr.decode()

    @unittest.skipUnless(os.name == "posix", "a terminal of this kind")
    def test_a_person_reads_the_usage_and_a_client_a_deny(self):
        import pty

        ours, theirs = pty.openpty()
        try:
            for words in ((), ("per",)):
                self.assertEqual((2, "", hook.USAGE + "\n"), self.run_hook(*words, stdin=theirs))
        finally:
            os.close(ours)
            os.close(theirs)
        code, out, _ = self.run_hook()
        self.assertEqual((2, "deny"), (code, json.loads(out)["permission"]))

    def test_its_version_and_checksum(self):
        with open(HOOK, "rb") as file:
            own = hashlib.sha256(file.read()).hexdigest()
        self.assertEqual((0, "service_hook.py %s, sha256 %s\n" % (hook.VERSION, own), ""), self.run_hook("--version"))


if __name__ == "__main__":
    unittest.main()
