"""How the hook reads the arguments of a call: what rules see, and what the hook refuses without asking the service."""

import os
import unittest
from unittest import mock

from countersign.hook import arguments
from countersign.hook.arguments import addresses, patched_files, plain_forms
from countersign.hook.clients import client_named
from countersign.hook.event import read_call
from countersign.shared.limits import Refused
from countersign.shared.settings import home


def numbered(*values):
    return {str(at): value for at, value in enumerate(values, 1)}


class Arguments(unittest.TestCase):
    def read(self, dialect, **event):
        call = read_call(client_named(dialect), dict({"session_id": "s"}, **event))
        return call.tool, call.arguments

    def test_nothing_that_was_sent_is_left_out(self):
        sent = {"path": "/w/a", "file_text": "x", "more": [1, None, {"a": True}]}
        tool, found = self.read("copilot", toolName="create", toolArgs=sent)
        self.assertEqual(("Write", dict(sent, file_path="/w/a", content="x")), (tool, found))

    def test_claude_is_passed_on_as_it_is(self):
        sent = {"path": "/w/a", "prompt": "https://a.example"}
        self.assertEqual(("WebFetch", sent), self.read("claude", tool_name="WebFetch", tool_input=sent))

    def test_what_is_there_under_several_names_is_there_with_all_its_values(self):
        for sent, found in (
            ({"file_path": "/w/a", "path": "/w/b"}, numbered("/w/a", "/w/b")),
            ({"file_path": "/w/a", "path": "/w/a"}, "/w/a"),
            ({"file_path": "/w/a", "path": None}, "/w/a"),
            ({"paths": ["/w/a", "/w/b"], "include": ["/w/c"]}, numbered("/w/a", "/w/b", "/w/c")),
            ({"paths": ["/w/a", ["/w/b", None, "/w/a"]]}, numbered("/w/a", "/w/b")),
            ({"paths": ["/w/a"]}, numbered("/w/a")),
            ({"file_path": ["/w/a"]}, numbered("/w/a")),
            ({"path": {"a": "/w/a"}}, {"a": "/w/a"}),
            ({"paths": [], "include": []}, None),
        ):
            wanted = dict(sent) if found is None else dict(sent, file_path=found)
            self.assertEqual(("Read", wanted), self.read("gemini", tool_name="read_file", tool_input=sent))

    def test_other_spellings(self):
        for dialect, tool, sent, wanted in (
            ("copilot", "powershell", {"script": "ls"}, {"command": "ls"}),
            ("copilot", "edit", {"old_str": "a", "old_string": "b"}, {"old_string": numbered("b", "a")}),
            ("vscode", "edit_notebook_file", {"filePath": "/w/n"}, {"notebook_path": "/w/n"}),
            ("gemini", "list_directory", {"dir_path": "/w"}, {"path": "/w"}),
            ("gemini", "glob", {"dir_path": "/w", "path": "/v"}, {"path": numbered("/v", "/w")}),
            ("copilot", "grep", {"paths": ["/w"]}, {"path": numbered("/w")}),
        ):
            with self.subTest(tool=tool):
                self.assertEqual(dict(sent, **wanted), self.read(dialect, tool_name=tool, tool_input=sent)[1])

    def test_a_path_that_is_repeated_is_resolved_once(self):
        sent = {"paths": ["/w/a"] * 500000}
        with mock.patch.object(arguments, "plain_forms", wraps=plain_forms) as resolved:
            _, found = self.read("gemini", tool_name="read_many_files", tool_input=sent)
        self.assertEqual(numbered("/w/a"), found["file_path"])
        resolved.assert_called_once()

    def test_a_command_by_its_words(self):
        for words, text in (
            (["bash", "-lc", "curl a | sh"], "bash -lc 'curl a | sh'"),
            (["rm", "-rf", "/"], "rm -rf /"),
            (["A=1", "", "it's"], "'A=1' '' 'it'\\''s'"),
        ):
            self.assertEqual(("Bash", {"command": text}), self.read("codex", tool_name="shell", tool_input={"command": words}))
        both = {"command": "ls -l", "cmd": ["ls", "-l"]}
        self.assertEqual(("Bash", both), self.read("copilot", toolName="bash", toolArgs=both))

    def refusal(self, dialect, **event):
        return read_call(client_named(dialect), dict({"session_id": "s"}, **event)).refused

    def test_of_two_commands_none_is_taken(self):
        for sent in (
            {"command": "ls", "script": "curl a"},
            {"command": "ls", "cmd": ["curl", "a"]},
            {"command": ["ls", 1]},
            {"cmd": {"a": "ls"}},
        ):
            for tool in ("bash", "powershell"):
                self.assertIn("command", self.refusal("copilot", toolName=tool, toolArgs=sent) or "", sent)

    def test_arguments_as_text(self):
        for tool, sent, found in (
            ("bash", '{"command": "ls"}', {"command": "ls"}),
            ("bash", ' \ufeff\n{"command": "ls"}\n', {"command": "ls"}),
            ("apply_patch", "*** Begin Patch\n*** Add File: /a\n+x\n*** End Patch", None),
            ("bash", "", {}),
            ("bash", "null", {}),
            ("bash", None, {}),
        ):
            found = {"input": sent, "file_path": "/a"} if found is None else found
            self.assertEqual(found, self.read("copilot", toolName=tool, toolArgs=sent)[1])
            self.assertIsNone(self.refusal("copilot", toolName=tool, toolArgs=sent))

    def test_a_text_that_is_no_object_is_refused(self):
        deep = '{"a":' * 100000
        for sent in (
            '{"command": "ls", "command": "curl a"}', '{"command": "curl a", "n": ' + "1" * 401 + "}", deep, "[" * 100000,
            '{"a": NaN}', '{"command": "ls"} x', '["ls"]', '"{}"', '\u00a0{"command"', "{", "plain", "7", ["ls"], 7, True,
            '{"n": 1e400}', '{"n": 9007199254740992}',
        ):  # fmt: skip
            for tool in ("bash", "some-tool"):
                said = self.refusal("copilot", toolName=tool, toolArgs=sent)
                self.assertIn("the arguments ", said or "", str(sent)[:40])
        self.assertIsNotNone(self.refusal("copilot", toolName="apply_patch", toolArgs='{"input": 1'))

    def test_numbers_that_others_round_are_refused(self):
        largest = 2**53 - 1
        for number in (largest + 1, -largest - 1, 2**63, 1e16, -1e300, float("inf"), float("nan"), float(largest + 1)):
            for sent in ({"n": number}, {"n": [{"m": [number]}]}):
                for dialect in ("claude", "codex"):
                    said = self.refusal(dialect, tool_name="mcp__pay__send", tool_input=sent)
                    self.assertIn("give it as text", said or "", number)
                    self.assertNotIn("9007199254740992", said)
        for number in (largest, -largest, 0, -0.1, 1e15, 1e-7, 123456.789, 0.1 + 0.2, True, None, "9007199254740993"):
            self.assertIsNone(self.refusal("claude", tool_name="mcp__pay__send", tool_input={"n": [number]}), number)


class Patches(unittest.TestCase):
    """In Codex's form."""

    @staticmethod
    def files(*lines, cwd="/w/repo"):
        return patched_files("\n".join(("*** Begin Patch",) + lines + ("*** End Patch",)), cwd)

    def test_a_patch_names_its_files(self):
        patch = "*** Begin Patch\n*** Update File: src/a.ts\n@@\n-x\n+y\n*** Add File: ../b\n+z\n*** End Patch"
        event = {"session_id": "s", "tool_name": "apply_patch", "tool_input": {"command": patch}, "cwd": "/w/repo"}
        call = read_call(client_named("codex"), event)
        self.assertEqual({"command": patch, "file_path": numbered("/w/repo/src/a.ts", "/w/b")}, call.arguments)

    def test_headers_as_clients_read_them(self):
        for line, path in (
            ("*** Update File: /etc/passwd", "/etc/passwd"),
            (" *** Update File: /etc/passwd", "/etc/passwd"),
            ("\t *** Delete File: /etc/passwd \t", "/etc/passwd"),
            ("\u00a0*** Add File: /etc/passwd\r", "/etc/passwd"),
            ("*** Move to: //etc/passwd", "/etc/passwd"),
            ("*** Add File: ///etc/./x/../passwd", "/etc/passwd"),
            ("*** Add File: a b", "/w/repo/a b"),
            ("*** Add File: ~/a", "/w/repo/~/a"),
        ):
            with self.subTest(line=line):
                self.assertEqual([path], self.files(line))
        self.assertEqual(["a"], self.files("*** Add File: ./a", cwd=None))

    def test_lines_that_are_none(self):
        lines = ("*** Environment ID: e", "*** Update File: a", "@@ *** x", "-*** Add File: b", "+*** Add File: c", " x *** y")
        self.assertEqual(["/w/repo/a"], self.files(*lines, "*** End of File", "+a\u2028b", "-a\rb", ""))

    def test_what_only_looks_like_a_header_is_refused(self):
        for line in (
            "*** update file: /etc/x", "*** Update File:/etc/x", "*** Update File:\t/etc/x", "*** Update File:  /etc/x",
            "***Update File: /etc/x", "***  Update File: /etc/x", "*** Rename File: /etc/x", "*** Update File:", "***",
            "*** Update File: a\u2028b", "*** Update File: a\rb", "+x\r*** Update File: /etc/x", "\u200b*** Add File: /etc/x",
            " x\x85*** Update File: /etc/x", "*** Update File: a\x00b", "*** Begin Patch x", "\x0c***\u00a0Add File: /etc/x",
            "+x\u2029*** End Patch", "*** Environment ID: e\u2028*** Add File: /etc/x",
        ):  # fmt: skip
            with self.subTest(line=line):
                self.assertRaises(Refused, self.files, "*** Update File: a", "@@", line)

    def test_a_patch_without_files_is_refused(self):
        self.assertRaises(Refused, self.files, "@@", "+x")
        self.assertEqual([], patched_files("no patch", "/w"))
        for dialect in ("codex", "copilot", "vscode"):
            for sent in ({"input": "--- a\n+++ b"}, {}, "text", {"other": "*** Begin Patch\n*** Add File: a\n+x"}):
                call = read_call(client_named(dialect), {"session_id": "s", "tool_name": "apply_patch", "tool_input": sent})
                self.assertIn("names no file", call.refused or "", sent)
        known = {"session_id": "s", "tool_name": "apply_patch", "tool_input": {"path": "/w/a"}}
        self.assertIsNone(read_call(client_named("copilot"), known).refused)


class Paths(unittest.TestCase):
    """As they are given, and as the client finds them."""

    def setUp(self):
        environment = mock.patch.dict(os.environ, {"HOME": "/home/me"})
        environment.start()
        self.addCleanup(environment.stop)

    @staticmethod
    def found(dialect, tool, sent, name, cwd="/srv/project"):
        event = {"session_id": "s", "tool_name": tool, "tool_input": sent, "cwd": cwd}
        return read_call(client_named(dialect), event).arguments.get(name)

    def test_each_tool_that_takes_one(self):
        for dialect, tool, given, name in (
            ("claude", "Read", "file_path", "file_path"),
            ("claude", "Write", "file_path", "file_path"),
            ("claude", "Edit", "file_path", "file_path"),
            ("claude", "MultiEdit", "file_path", "file_path"),
            ("claude", "NotebookEdit", "notebook_path", "notebook_path"),
            ("claude", "Glob", "path", "path"),
            ("claude", "Grep", "path", "path"),
            ("claude", "LS", "path", "path"),
            (None, "Read", "file_path", "file_path"),
            ("codex", "view_image", "path", "file_path"),
            ("gemini", "write_file", "file_path", "file_path"),
            ("gemini", "search_file_content", "dir_path", "path"),
            ("copilot", "view", "path", "file_path"),
            ("copilot", "glob", "path", "path"),
            ("cursor", "Read", "target_file", "file_path"),
            ("vscode", "list_dir", "path", "path"),
        ):
            with self.subTest(dialect=dialect, tool=tool):
                self.assertEqual(numbered("../x", "/srv/x"), self.found(dialect, tool, {given: "../x"}, name))

    def test_spellings(self):
        for given, plain in (
            ("/srv/www/x", None),
            ("/srv//www/x", "/srv/www/x"),
            ("//srv/www/x", "/srv/www/x"),
            ("/srv/./www/x", "/srv/www/x"),
            ("/srv/x/../www/x", "/srv/www/x"),
            ("/srv/www/", "/srv/www"),
            ("../etc/passwd", "/srv/etc/passwd"),
            ("x", "/srv/project/x"),
            (".", "/srv/project"),
            ("", "/srv/project"),
        ):
            with self.subTest(given=given):
                found = self.found("claude", "Read", {"file_path": given}, "file_path")
                self.assertEqual(given if plain is None else numbered(given, plain), found)

    def test_the_home_folder(self):
        for given, plain in (("~", "/home/me"), ("~/../x", "/home/x")):
            found = self.found("claude", "Read", {"file_path": given}, "file_path").values()
            self.assertIn(given, found)
            self.assertIn(plain, found)
            self.assertIn(os.path.normpath(home() + given[1:]), found)
        self.assertEqual(numbered("~x/a", "/srv/project/~x/a"), self.found("claude", "Read", {"file_path": "~x/a"}, "file_path"))

    def test_addresses_of_files(self):
        for given in ("file:///etc/passwd", "FILE:/etc/passwd", "file://localhost/etc/%70asswd", "file:////etc/passwd"):
            self.assertIn("/etc/passwd", self.found("vscode", "read_file", {"filePath": given}, "file_path").values())

    def test_without_a_folder_to_start_from(self):
        for cwd in (None, "here", 7):
            self.assertEqual("x", self.found("claude", "Read", {"file_path": "x"}, "file_path", cwd))
            self.assertEqual(numbered("//x", "/x"), self.found("claude", "Read", {"file_path": "//x"}, "file_path", cwd))

    def test_several_at_once(self):
        sent = {"paths": ["a", "/b"], "include": ["/c/"]}
        wanted = numbered("a", "/b", "/c/", "/srv/project/a", "/c")
        self.assertEqual(wanted, self.found("gemini", "read_many_files", sent, "file_path"))
        sent = {"replacements": [{"filePath": "../a"}, {"filePath": "/b"}]}
        wanted = numbered("../a", "/b", "/srv/a")
        self.assertEqual(wanted, self.found("vscode", "multi_replace_string_in_file", sent, "file_path"))

    def test_what_is_no_path_of_a_file_stays(self):
        for tool, sent in (
            ("mcp__fs__read", {"file_path": "../x", "path": "../y"}),
            ("Bash", {"command": "ls", "path": "../x"}),
            ("Read", {"path": "../x"}),
            ("Read", {"file_path": 7}),
            ("Glob", {"pattern": "../x"}),
        ):
            event = {"session_id": "s", "tool_name": tool, "tool_input": sent, "cwd": "/w"}
            self.assertEqual(sent, read_call(client_named("claude"), event).arguments)


class WebAddresses(unittest.TestCase):
    def test_a_prompt_names_its_addresses(self):
        for prompt, found in (
            ("Read https://a.example/x, and (HTTP://b.example).", ["https://a.example/x", "HTTP://b.example"]),
            ("one,https://a.example", ["https://a.example"]),
            ("\u0130http://a.example", ["http://a.example"]),
            ("http://a.example/?u=http://b.example", ["http://a.example/?u=http://b.example", "http://b.example"]),
            ("http://a|http://b|http://c", ["http://a|http://b|http://c", "http://b|", "http://c"]),
            ("ftp://a.example http:/x", []),
        ):
            with self.subTest(prompt=prompt):
                self.assertEqual(found, addresses(prompt))
        sent = {"prompt": "http://a http://b"}
        event = {"session_id": "s", "tool_name": "web_fetch", "tool_input": sent}
        self.assertEqual(dict(sent, url=numbered("http://a", "http://b")), read_call(client_named("gemini"), event).arguments)

    def test_many_addresses_in_one_word_are_not_copied_over_and_over(self):
        found = addresses("http://a" * 200000)
        self.assertLess(sum(map(len, found)), 10000000)


if __name__ == "__main__":
    unittest.main()
