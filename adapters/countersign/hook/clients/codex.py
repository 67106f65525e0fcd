"""Codex. It types into running programs, and no hook sees what; and it applies patches that a shell command has."""

import os
import shlex

from ...shared.limits import Refused
from ..client import Client

# Codex does not run these programs: if a shell command calls one of them with a patch, Codex applies the patch itself.
# Programs with these names may also be on the PATH.
PATCH_PROGRAMS = ("apply_patch", "applypatch")
# They run a text: `bash -lc "apply_patch ..."` is the usual form of the models of Codex.
TEXT_RUNNERS = ("sh", "bash", "zsh", "dash", "ksh", "ash", "eval")
DEEPEST = 5


class Codex(Client):
    name = agent = "codex"
    timeout = 90
    tools = {"apply_patch": "Edit", "spawn_agent": "Agent", "view_image": "Read", "shell": "Bash"}

    events = (("PreToolUse", "pre"), ("PostToolUse", "post"), ("SessionEnd", "end"))
    user_file = ".codex/hooks.json"
    home_variable = "CODEX_HOME"
    managed_files = ("/etc/codex/requirements.toml", "/etc/codex/requirements.toml", None)
    after_install = "open /hooks in Codex and trust them; until then Codex silently skips them"
    program = "codex"
    package = "@openai/codex"
    minimum_version = "0.169.0"

    def sends(self, event):
        is_known = event.get("hook_event_name") in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionEnd")
        return is_known and "session_id" in event and "turn_id" in event

    def further_calls(self, tool, arguments, cwd):
        return shell_patches(command_text(arguments), cwd) if tool == "Bash" else []

    def refuse_call(self, call):
        command = command_text(call.arguments)
        if call.tool != "Bash" or command is None:
            return
        from ..typed.prompts import opens_prompt

        if opens_prompt(command):
            raise Refused(
                "this may run what Codex types into it later, which cannot be checked: give the program its commands as "
                "arguments or in a file"
            )

    def may_type(self, call, is_managed):
        # A managed Codex has `unified_exec = false`, so it cannot type.
        command = command_text(call.arguments)
        if call.tool != "Bash" or command is None or is_managed:
            return False
        from ..typed.programs import may_run_typed

        return may_run_typed(command)

    def denial(self, event, reason):
        return {"hookSpecificOutput": self.claude_denial(reason)}

    def with_hook(self, place, python, part, text, path):
        if not path.endswith(".toml"):
            return Client.with_hook(self, place, python, part, text, path)
        from ..install.codex_requirements import toml_with_ours

        return toml_with_ours(self, place, python, text or ""), []

    def without_hook(self, path, text, noted):
        if not path.endswith(".toml"):
            return Client.without_hook(self, path, text, noted)
        from ..install.codex_requirements import toml_without_ours

        after = toml_without_ours(text)
        return None if noted.get("created") and not after.strip() else after

    def checks(self):
        from ..doctor.codex import CodexChecks

        return CodexChecks(self)


def command_text(arguments):
    """Returns the command of a shell as one text; None if there is none. A list holds the words of one program."""
    command = arguments.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else None


def commands_of(text, depth=0):
    """Returns the simple commands of a text, also of the texts that its shells run."""
    from ..typed.command_line import Line, base_name

    line = Line(text)
    found = list(line.commands)
    runners = [simple for simple in found if any(base_name(word) in TEXT_RUNNERS for word in simple.words)]
    if runners and depth < DEEPEST:
        # Which of them reads which text is not followed, so each text counts once.
        texts = {word for simple in runners for word in simple.words if " " in word or "\n" in word}
        for inner in texts.union(line.texts):
            found += commands_of(inner, depth + 1)
    return found


def shell_patches(command, cwd):
    """Returns the file changes of a shell command that applies a patch: [(tool, arguments)]. Codex makes these changes
    itself. If the command first enters another folder, each path is returned for both folders, because the patch may
    apply in either of them."""
    if command is None or "*** Begin Patch" not in command:
        return []
    from ..arguments import FILE_MARKS, add, patch_headers
    from ..typed.command_line import base_name

    commands = commands_of(command)
    if not any(base_name(word) in PATCH_PROGRAMS for simple in commands for word in simple.words):
        return []
    folders = [cwd]
    for simple in commands:
        if simple.words[0] == "cd" and len(simple.words) > 1:
            if any(c in simple.words[-1] for c in "$~*?[{"):
                raise Refused("the folder of the patch cannot be read: write its path in full")
            folders.append(os.path.join(folders[-1] or "", simple.words[-1]))
    headers = [header for folder in folders for header in patch_headers(command, folder)]
    changes = []
    for tool, rest in (("Write", {"content": command}), ("Edit", {"command": command})):
        paths = [path for mark, path in headers if (mark == FILE_MARKS[0]) == (tool == "Write")]
        if paths:
            add(rest, "file_path", paths)
            changes.append((tool, rest))
    return changes


client = Codex()
