"""opencode. It has no hooks: a plugin asks before each call."""

import os

from ...shared.limits import Refused
from ...shared.text import plain
from ..client import Client, named_in

PLUGIN_PART = "opencode-plugin"  # the part of a managed installation with the plugin's file
# The managed settings allow only this provider of models, which does not exist. The plugin removes this limit. So where
# the plugin does not run, for example with `--pure`, no model answers.
NO_PROVIDER = "countersign-is-not-loaded"


class Opencode(Client):
    name = agent = "opencode"
    timeout = 90
    consent = b'{"permission":"allow"}\n'
    tools = {
        "bash": "Bash",
        "read": "Read",
        "glob": "Glob",
        "grep": "Grep",
        "list": "LS",
        "write": "Write",
        "edit": "Edit",
        "apply_patch": "Edit",
        "lsp": "LSP",
        "webfetch": "WebFetch",
        "websearch": "WebSearch",
        "task": "Agent",
        "skill": "Skill",
        "todowrite": "TodoWrite",
        "question": "AskUserQuestion",
        "plan_exit": "ExitPlanMode",
        "list_mcp_resources": "ListMcpResourcesTool",
        "list_mcp_resource_templates": "ListMcpResourcesTool",
        "read_mcp_resource": "ReadMcpResourceTool",
    }

    events = (("tool.execute.before", "pre"), ("tool.execute.after", "post"), ("dispose", "end"))
    user_file = ".config/opencode/plugin/countersign.js"
    home_variable = "XDG_CONFIG_HOME"
    managed_files = (
        "/etc/opencode/opencode.json",
        "/Library/Application Support/opencode/opencode.json",
        "C:\\ProgramData\\opencode\\opencode.json",
    )
    program = "opencode"
    package = "opencode-ai"
    minimum_version = "1.18.33"

    def sends(self, event):
        return event.get("hook_event_name") in ("tool.execute.before", "tool.execute.after")

    def canonical_name(self, tool, context=None):
        # The client's own tools come first. Otherwise a project could name a server `apply`, and `apply_patch` would
        # count as a tool of this server.
        return self.tools.get(tool) or named_in(context) or Client.canonical_name(self, tool)

    def refuse_tool(self, tool, context):
        """For example, a server `plan` has a tool `exit`. opencode names it `plan_exit`, but this is also the name of a
        tool of opencode itself."""
        server = context.get("server_name") if isinstance(context, dict) else None
        if isinstance(server, str) and tool in self.tools:
            told = "the tool %s may be opencode's own or one of the server %s: rename the server"
            raise Refused(told % (plain(tool, 100), plain(server, 100)))

    def denial(self, event, reason):
        return {"permission": "deny", "user_message": reason, "agent_message": reason}

    def parts(self, place):
        return [PLUGIN_PART, self.name] if place.managed else [self.name]

    def settings_file(self, place, part=None):
        from ..place import OUR_NAME

        return os.path.join(place.folder, OUR_NAME + ".js") if part == PLUGIN_PART else Client.settings_file(self, place)

    def options(self, place, part, settings):
        # If `$schema` is missing, opencode writes it into its settings. This would change our file.
        if part == PLUGIN_PART or not place.managed:
            return {}
        schema = settings.get("$schema", "https://opencode.ai/config.json")
        return {("$schema",): schema, ("enabled_providers",): [NO_PROVIDER]}

    def with_hook(self, place, python, part, text, path):
        if not path.endswith(".js"):
            return Client.with_hook(self, place, python, part, text, path)
        from ..install.opencode_plugin import plugin_text

        return plugin_text(self, place, python), []

    def without_hook(self, path, text, noted):
        from ..place import OUR_NAME

        if not path.endswith(".js"):
            return Client.without_hook(self, path, text, noted)
        return None if OUR_NAME in text else text

    def with_entries(self, place, python, part, settings, found):
        from ..install.opencode_plugin import with_plugin

        return with_plugin(self, place, settings, found)

    def without_entries(self, settings):
        from ..install.opencode_plugin import without_plugin

        return Client.without_entries(self, without_plugin(settings))

    def checks(self):
        from ..doctor.opencode import OpencodeChecks

        return OpencodeChecks(self)


client = Opencode()
