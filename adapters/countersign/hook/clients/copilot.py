"""Copilot CLI."""

import os

from ..client import Client

POLICY = "copilot-policy"  # the part of a managed installation with the options that keep other hooks away
POLICY_FILES = ("/etc/github-copilot/managed-settings.json", "/etc/github-copilot/managed-settings.json", None)


class Copilot(Client):
    name = "copilot"
    agent = "copilot-cli"
    settings_also_read_by = ("vscode", "hookEventName")
    tools = {
        "bash": "Bash",
        "powershell": "PowerShell",
        "read_bash": "TaskOutput",
        "read_powershell": "TaskOutput",
        "stop_bash": "TaskStop",
        "stop_powershell": "TaskStop",
        "write_bash": "write_stdin",
        "write_powershell": "write_stdin",
        "view": "Read",
        "create": "Write",
        "edit": "Edit",
        "apply_patch": "Edit",
        "glob": "Glob",
        "grep": "Grep",
        "rg": "Grep",
        "task": "Agent",
        "web_fetch": "WebFetch",
        "web_search": "WebSearch",
        "skill": "Skill",
    }

    events = (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end"))
    user_file = ".copilot/hooks/countersign.json"
    home_variable = "COPILOT_HOME"
    managed_files = (
        "/etc/github-copilot/policy.d/countersign.json",
        "/etc/github-copilot/policy.d/countersign.json",
        "C:\\ProgramData\\GitHub\\Copilot\\policy.d\\countersign.json",
    )
    program = "copilot"
    package = "@github/copilot"
    minimum_version = "1.0.102"

    def sends(self, event):
        return "toolName" in event and "sessionId" in event

    def server_of(self, tool):
        """Splits a name into server and tool at the first hyphen. Example: `my-mail-send_message` becomes `my` and
        `mail-send_message`. The server may really be `my-mail`, because both parts may have hyphens. But every verb stays
        in the tool's name, where rules look for verbs that send data. The server `github-mcp-server` is known, so its
        name is not split."""
        builtin = "github-mcp-server"
        if tool.startswith(builtin + "-"):
            return builtin, tool[len(builtin) + 1 :]
        server, hyphen, own = tool.partition("-")
        return (server, own) if hyphen else None

    def denial(self, event, reason):
        if event == "PreToolUse":
            return {"hookSpecificOutput": self.claude_denial(reason)}
        return {"permissionDecision": "deny", "permissionDecisionReason": reason}

    def parts(self, place):
        """Copilot CLI runs a project's hooks after our hook, and they can change a call that was already judged. So its
        managed policy must allow only managed hooks."""
        return [self.name, POLICY] if place.managed and os.name != "nt" else [self.name]

    def settings_file(self, place, part=None):
        from ..place import managed_file

        return managed_file(POLICY, POLICY_FILES) if part == POLICY else Client.settings_file(self, place)

    def options(self, place, part, settings):
        return {("allowManagedHooksOnly",): True} if part == POLICY else {("version",): settings.get("version", 1)}

    def entry(self, place, python, command):
        from ..install.entries import SECONDS, command_words, powershell_line, shell_line

        words, blocking, limit = command_words(place, python, self.name, command), command == "pre", SECONDS[command]
        if place.managed and os.name != "nt":
            # The hook starts without a shell, because variables such as BASH_ENV could keep a shell from running it. If
            # the program does not start, Copilot CLI blocks the call.
            return {"type": "command", "exec": words[0], "args": words[1:], "timeoutSec": limit}
        powershell = powershell_line(words, blocking)
        return {"type": "command", "bash": shell_line(words, blocking), "powershell": powershell, "timeoutSec": limit}

    def checks(self):
        from ..doctor.copilot import CopilotChecks

        return CopilotChecks(self)


client = Copilot()
