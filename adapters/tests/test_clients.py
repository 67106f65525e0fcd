"""The clients: their names of tools, their events and their answers. A new client adds its rows here; that it can be
installed and removed again is tested for each client."""

import json
import os
import re
import sys
import types
import unittest
from unittest import mock

from countersign.hook import clients
from countersign.hook.clients import NAMES, client_named, client_of, installable
from countersign.hook.event import read_call

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "contributing", "add-an-agent-client.md")


class Clients(unittest.TestCase):
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
                self.assertEqual(canonical, client_named(dialect).canonical_name(tool))

    def test_gemini_says_which_server(self):
        context = {"server_name": "my_srv.x", "tool_name": "read_file"}
        self.assertEqual("mcp__my_srv_x__read_file", client_named("gemini").canonical_name("mcp_my_srv.x_read_file", context))
        # A server's tool is never taken for one of the client's own.
        self.assertEqual("mcp__s__read_file", client_named("gemini").canonical_name("read_file", dict(context, server_name="s")))

    def test_opencode_says_which_server(self):
        context = {"server_name": "my.srv", "tool_name": "read_file"}
        self.assertEqual("mcp__my_srv__read_file", client_named("opencode").canonical_name("my_srv_read_file", context))
        # A project that names its server `apply` does not rename a tool of the client.
        context = {"server_name": "apply", "tool_name": "patch"}
        self.assertEqual("Edit", client_named("opencode").canonical_name("apply_patch", context))

    def test_opencode_has_no_tool_of_a_server_under_one_of_its_own_names(self):
        event = {"session_id": "s", "tool_name": "plan_exit", "tool_input": {}}
        self.assertIsNone(read_call(client_named("opencode"), event).refused)
        event["mcp_context"] = {"server_name": "plan", "tool_name": "exit"}
        self.assertIn("one of the server plan: rename", read_call(client_named("opencode"), event).refused)

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
                self.assertEqual(dialect, client_of(given, event).name)

    def test_answers(self):
        reason = {"permissionDecision": "deny", "permissionDecisionReason": "r"}
        claude = {"hookSpecificOutput": dict(reason, hookEventName="PreToolUse")}
        cursor = {"permission": "deny", "user_message": "r", "agent_message": "r"}
        for dialect, event, told in (
            ("claude", "PreToolUse", claude),
            ("codex", "PreToolUse", claude),
            ("vscode", "PreToolUse", claude),
            ("copilot", "PreToolUse", claude),
            ("copilot", "preToolUse", reason),
            ("gemini", "BeforeTool", {"decision": "deny", "reason": "r"}),
            ("cursor", "preToolUse", cursor),
            ("opencode", "tool.execute.before", cursor),
            (None, None, dict(claude, decision="block", reason="r", **dict(cursor, **reason))),
        ):
            with self.subTest(dialect=dialect, event=event):
                self.assertEqual(told, client_named(dialect).denial(event, "r"))

    def test_each_client_says_what_others_ask_it(self):
        for client in map(client_named, NAMES):
            with self.subTest(client=client.name):
                self.assertEqual(client, client_named(client.name))
                self.assertTrue(client.agent and client.timeout > 0)
                self.assertNotEqual({}, client.denial(None, "r"))
                if client.installed_as is None:
                    self.assertEqual(["pre", "post", "end"], sorted({command for _, command in client.events}, key="pre post end".find))
                    self.assertEqual("pre", client.events[0][1])
                    self.assertIsNotNone(client.user_file)

    def test_the_page_that_adds_one(self):
        """The client of docs/contributing/add-an-agent-client.md works as its rows say."""
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        module = types.ModuleType("countersign.hook.clients.otter")
        module.__package__ = "countersign.hook.clients"
        exec(compile(blocks[0], "otter.py", "exec"), module.__dict__)
        added = mock.patch.object(clients, "NAMES", NAMES + ("otter",)), mock.patch.dict(sys.modules, {module.__name__: module})
        with added[0], added[1]:
            otter = client_named("otter")
            self.assertIn(otter, installable())
            rows = {}
            exec("rows = (" + blocks[1] + ")", rows)
            for dialect, tool, canonical in rows["rows"]:
                self.assertEqual(canonical, client_named(dialect).canonical_name(tool))
            event = {"hook_event_name": "before_tool", "session_id": "s", "call": {"tool": "shell", "input": {"command": "ls"}}}
            self.assertEqual(otter, client_of(None, event))
            call = read_call(otter, event)
            self.assertEqual(("Bash", {"command": "ls"}, None), (call.tool, call.arguments, call.refused))
            self.assertIn("no", json.dumps(otter.denial("before_tool", "no")))


if __name__ == "__main__":
    unittest.main()
