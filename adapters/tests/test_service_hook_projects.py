"""What `doctor` finds in projects, plugins and `.env` files."""

import os
import tempfile
import unittest
from unittest import mock

from countersign.hook.clients import client_named
from countersign.hook.doctor.copilot import project_hooks
from countersign.hook.doctor.environment import stopping_variables
from countersign.hook.doctor.gemini import extension_hooks
from countersign.hook.doctor.projects import enabled_plugins, has_hooks, plugin_hooks, skills_with_commands, texts_with_hooks
from countersign.hook.place import Place

HOOKS = '{"hooks": {"PreToolUse": [{}]}}'


class Projects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = os.path.realpath(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        environment = mock.patch.dict(os.environ, {"HOME": self.home}, clear=True)
        environment.start()
        self.addCleanup(environment.stop)

    def place(self, path, text):
        path = os.path.join(self.home, *path.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def enter(self, path):
        folder = os.path.join(self.home, *path.split("/"))
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)

    def test_the_folders_up_to_the_root_of_the_repository(self):
        self.place("repo/.git/HEAD", "")
        skill = self.place("repo/.claude/skills/a/SKILL.md", "!`date`")
        command = self.place("repo/sub/.claude/commands/b.md", "!`date`")
        self.place("above/.claude/skills/c/SKILL.md", "!`date`")
        self.place(".claude/skills/own/SKILL.md", "!`date`")
        self.enter("repo/sub/deep")
        self.assertEqual([command, skill], skills_with_commands())
        # Without a repository all folders above count, but the home's skills are the user's own.
        self.enter("above/deep")
        self.assertEqual(1, len(skills_with_commands()))
        self.enter(".")
        self.assertEqual([], skills_with_commands())

    def test_hooks_in_the_head_of_a_text(self):
        for text, found in (
            ("---\nname: a\nhooks: {}\n---\n", True),
            ("---\nname: a\nhooks:\n  PreToolUse: []\n---\n", True),
            ('\ufeff---\r\n"hooks": {}\r\n---\r\n', True),
            ("---\nhooks: never closed", True),
            ("---\nname: a\n---\nhooks: in the text", False),
            ("hooks: without a head", False),
            ("", False),
        ):
            self.assertEqual(found, has_hooks(text), text)
        self.enter("repo")
        for kind in ("skills", "commands", "agents"):
            path = self.place("repo/.claude/%s/x.md" % kind, "---\nhooks: {}\n---\n")
            self.assertIn(path, texts_with_hooks())

    def test_the_hooks_of_plugins_that_are_switched_on(self):
        on = self.place("p/cache/market/lint/1.0/hooks/hooks.json", HOOKS)
        self.place("p/cache/market/lint/1.0/hooks/other.json", HOOKS)
        off = self.place("p/cache/market/format/1.0/.claude-plugin/plugin.json", HOOKS)
        self.place("p/cache/market/quiet/1.0/hooks/hooks.json", '{"hooks": {"PostToolUse": [{}]}}')
        settings = self.place("settings.json", '{"enabledPlugins": {"lint@market": true, "format@market": false, "quiet@market": true}}')
        names = enabled_plugins([settings, os.path.join(self.home, "missing.json")])
        self.assertEqual({"lint", "quiet"}, names)
        folder = os.path.join(self.home, "p")
        self.assertEqual([on], plugin_hooks(folder, names, "PreToolUse"))
        self.assertEqual([off, on], plugin_hooks(folder, None, "preToolUse"))

    def test_the_hooks_that_copilot_runs_beside_ours(self):
        self.place("repo/.git/HEAD", "")
        above = self.place("repo/.claude/settings.json", HOOKS)
        own = self.place(".copilot/settings.json", '{"hooks": {"preToolUse": [{}]}}')
        self.place(".copilot/hooks/countersign.json", HOOKS)
        other = self.place(".copilot/hooks/other.json", HOOKS)
        self.enter("repo/sub")
        self.assertEqual([other, above, own], project_hooks(os.getcwd(), client_named("copilot").settings_file(Place(False))))
        elsewhere = self.place("elsewhere/config.json", HOOKS)
        with mock.patch.dict(os.environ, {"COPILOT_HOME": os.path.join(self.home, "elsewhere")}):
            self.assertEqual([above, elsewhere], project_hooks(os.getcwd(), client_named("copilot").settings_file(Place(False))))
            path = os.path.join(self.home, "elsewhere", "hooks", "countersign.json")
            self.assertEqual(path, client_named("copilot").settings_file(Place(False)))

    def test_another_home_of_gemini(self):
        extension = self.place("other/.gemini/extensions/own/hooks/hooks.json", '{"hooks": {"BeforeTool": [{}]}}')
        self.assertEqual(os.path.join(self.home, ".gemini", "settings.json"), client_named("gemini").settings_file(Place(False)))
        with mock.patch.dict(os.environ, {"GEMINI_CLI_HOME": os.path.join(self.home, "other")}):
            path = os.path.join(self.home, "other", ".gemini", "settings.json")
            self.assertEqual(path, client_named("gemini").settings_file(Place(False)))
            self.assertEqual([extension], extension_hooks())

    def test_variables_of_env_files(self):
        for line, found in (
            ("SHELLOPTS=noexec", ["SHELLOPTS"]),
            ("SHELLOPTS: noexec", ["SHELLOPTS"]),
            ("export\tSHELLOPTS=noexec", ["SHELLOPTS"]),
            ("  export   LD_PRELOAD = x", ["LD_PRELOAD"]),
            ("# SHELLOPTS=noexec", []),
            ("OTHER=SHELLOPTS=x", []),
            ("MY_SHELLOPTS=x", []),
        ):
            self.assertEqual(found, stopping_variables(self.place(".env", line + "\n")), line)


if __name__ == "__main__":
    unittest.main()
