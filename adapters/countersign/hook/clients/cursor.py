"""Cursor. No version of it was tested."""

from ..client import Client


class Cursor(Client):
    name = agent = "cursor"
    consent = b'{"permission":"allow"}\n'
    tools = {"Shell": "Bash", "Task": "Agent", "beforeShellExecution": "Bash", "beforeReadFile": "Read"}

    events = (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end"))
    user_file = ".cursor/hooks.json"
    managed_files = (
        "/etc/cursor/hooks.json",
        "/Library/Application Support/Cursor/hooks.json",
        "C:\\ProgramData\\Cursor\\hooks.json",
    )

    def sends(self, event):
        return "conversation_id" in event

    def call_in(self, event):
        name = event.get("hook_event_name", event.get("hookEventName"))
        if name in ("beforeShellExecution", "afterShellExecution"):
            return "Shell", {key: event[key] for key in ("command", "cwd", "sandbox") if key in event}
        if name == "beforeReadFile":
            # The event also has the file's content, which stays on this machine.
            return "Read", {"file_path": event.get("file_path")}
        tool, arguments = Client.call_in(self, event)
        return ("MCP:" + tool if name == "beforeMCPExecution" and tool is not None else tool), arguments

    def server_of(self, tool):
        return ("cursor", tool[4:].strip()) if tool.startswith("MCP:") else None

    def denial(self, event, reason):
        return {"permission": "deny", "user_message": reason, "agent_message": reason}

    def options(self, place, part, settings):
        return {("version",): settings.get("version", 1)}

    def entry(self, place, python, command):
        one = self.command_entry(place, python, command)
        return dict({"command": one["command"], "timeout": one["timeout"]}, **({"failClosed": True} if command == "pre" else {}))

    def checks(self):
        from ..doctor.cursor import CursorChecks

        return CursorChecks(self)


client = Cursor()
