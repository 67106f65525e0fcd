"""Claude Code. Its names of tools and its form of settings are those of the base class."""

import os

from ..client import Client

# Claude Code reads `onFailure` from this version on. An older version runs the call if a hook fails.
MINIMUM = "2.1.295"
# A mod is JavaScript inside the client: it starts programs without a call, and no hook is asked about them. With this
# option, only mods of the organization load (Claude Code 2.1.287 and later).
MODS = ("pluginConfigs", "cc-plugin-sec-default@builtin", "options", "allowManagedModsOnly")


class Claude(Client):
    name = "claude"
    agent = "claude-code"
    timeout = 90
    has_own_argument_names = False
    settings_also_read_by = ("vscode", "hookEventName")

    events = (("PreToolUse", "pre"), ("PostToolUse", "post"), ("PostToolUseFailure", "post"), ("SessionEnd", "end"))
    user_file = ".claude/settings.json"
    home_variable = "CLAUDE_CONFIG_DIR"
    managed_files = (
        "/etc/claude-code/managed-settings.json",
        "/Library/Application Support/ClaudeCode/managed-settings.json",
        "C:\\Program Files\\ClaudeCode\\managed-settings.json",
    )
    program = "claude"
    package = "@anthropic-ai/claude-code"
    minimum_version = MINIMUM

    def sends(self, event):
        is_own = event.get("hook_event_name") in [name for name, _ in self.events]
        return is_own and "session_id" in event

    def denial(self, event, reason):
        return {"hookSpecificOutput": self.claude_denial(reason)}

    def options(self, place, part, settings):
        from ..install.files import version_of

        if not place.managed:
            return {}
        asked = settings.get("requiredMinimumVersion")
        newer = isinstance(asked, str) and version_of(asked) > version_of(MINIMUM)
        return {
            ("requiredMinimumVersion",): asked if newer else MINIMUM,
            ("allowManagedHooksOnly",): True,
            # A skill's own shell commands run before the model reads the skill, and no hook is asked about them.
            ("disableSkillShellExecution",): True,
            MODS: True,
        }

    def command_entry(self, place, python, command):
        from ..install.entries import command_words

        one = Client.command_entry(self, place, python, command)
        if os.name == "nt" or place.managed:
            # The hook starts without a shell, because a variable such as SHELLOPTS could keep a shell from running it.
            # This is safe from version MINIMUM on, where `onFailure` blocks a call if the hook does not start. On other
            # systems than Windows, a user's settings do not get `args`, because clients that do not know `args` also
            # read these settings.
            words = command_words(place, python, self.name, command)
            one.update({"command": words[0], "args": words[1:]})
        if command == "pre":
            one["onFailure"] = "block"
        return one

    def checks(self):
        from ..doctor.claude import ClaudeChecks

        return ClaudeChecks(self)


client = Claude()
