"""What the hook knows of one coding agent."""

from ..shared.text import text_of, token


def named_in(context):
    """Returns the name of a server's tool, if the client says of which server it is."""
    if isinstance(context, dict):
        server, own = context.get("server_name"), context.get("tool_name")
        if isinstance(server, str) and isinstance(own, str):
            return of_server(server, own)
    return None


def of_server(server, tool):
    return "mcp__" + token(server) + "__" + token(tool)


def in_mcp_name(tool):
    """Splits a name like `mcp_server_tool`; None if it is another name."""
    server, _, own = tool[4:].partition("_") if tool.startswith("mcp_") else ("", "", "")
    return (server, own) if own else None


class Client:
    """A client of agents. Each file in `clients` declares one as `client`, and changes what is different there. The
    methods below are Claude Code's form. Without a dialect, an object of this class itself stands for the unknown
    client.

    Every call starts a process that loads the client's file. So this class and these files import what only `install`
    and `doctor` need inside functions."""

    name = None  # the value of --dialect
    agent = "agent"  # the name that the service shows
    # For how many seconds the client waits for the hook, if the command line has no --timeout. The value is the one that
    # `install` writes, or the client's own default if the default is shorter. After this time, all clients run the call.
    timeout = 30
    consent = b""  # standard output of an allowed call
    # The names of the client's own tools, and the names that Claude Code uses for the same tools. So one rule covers
    # all clients. A name that is not here stays unchanged. If the service does not know this name either, the call
    # counts as a write.
    tools = {}
    has_own_argument_names = True
    # Another client that reads the settings of this one too, and a member that only the events of the other one have.
    settings_also_read_by = (None, "")

    events = ()  # (the client's event, the command of the hook that it starts); the first one is that of `pre`
    installed_as = None  # the client in whose settings `install` writes; None for itself
    user_file = None  # the path of a user's settings below the home
    home_variable = None  # with this variable, a user chooses another folder for the first folder of `user_file`
    managed_files = (None, None, None)  # the settings for all users: on Linux, macOS and Windows
    after_install = None  # what a person must do in the client after `install`; not with --managed
    time_unit = 1  # how many of them, as the client counts the hook's time, are a second

    program = None
    package = None
    minimum_version = None  # the oldest version that blocked denied calls in tests

    # Events

    def sends(self, event):
        """Returns whether the members of this event show that it is this client's."""
        return False

    def call_in(self, event):
        """Returns the client's own name of the tool, and the arguments. The name is None if there is none."""
        arguments = next((event[key] for key in ("tool_input", "toolArgs", "toolInput") if key in event), None)
        return text_of(event, "tool_name", "toolName"), arguments

    def canonical_name(self, tool, context=None):
        """Returns Claude Code's name of a tool. For a tool of an MCP server, this name is `mcp__<server>__<tool>`.
        `context` is the client's word on the server, if it has one."""
        known = self.tools.get(tool)
        if known is not None:
            return known
        server = None if tool.startswith("mcp__") else self.server_of(tool)
        return tool if server is None else of_server(*server)

    def server_of(self, tool):
        """Returns the server in the client's name of a tool, and the server's own name of the tool; None if the name has
        no server."""
        return None

    def refuse_tool(self, tool, context):
        """Raises Refused if the tool's name has two meanings."""

    def further_calls(self, tool, arguments, cwd):
        """Returns what a call also does without a call of its own: [(tool, arguments)]. Raises Refused."""
        return []

    def refuse_call(self, call):
        """Raises Refused if the call could do something that the service cannot judge."""

    def may_type(self, call, is_managed):
        """Returns whether this call starts a program into which the model may type later without an event. Then the
        service is asked about a call of `write_stdin` too."""
        return False

    # Answers

    def denial(self, event, reason):
        """Returns the object that tells the client of a denial. For an unknown client, it has the members of all
        clients."""
        return {
            "decision": "block",
            "reason": reason,
            "permission": "deny",
            "user_message": reason,
            "agent_message": reason,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
            "hookSpecificOutput": self.claude_denial(reason),
        }

    @staticmethod
    def claude_denial(reason):
        return {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}

    # Settings that `install` writes

    def parts(self, place):
        """Returns the names of the files that an installation changes. The first letters of each name are those of the
        client: the names stand in the record of the installation."""
        return [self.name]

    def settings_file(self, place, part=None):
        """Returns the path of one part's file."""
        from .place import managed_file, user_file

        if place.managed:
            return managed_file(self.name, self.managed_files)
        return user_file(self.user_file, self.home_variable)

    def options(self, place, part, settings):
        """Returns the options that the settings need: {path: value}. Most of them keep others from switching the hooks
        off."""
        return {}

    def entries(self, place, python, settings):
        """Returns the hook's entry for each event."""
        return {event: self.entry(place, python, command) for event, command in self.events}

    def entry(self, place, python, command):
        """Returns the entry of one event, with the options that block the call if the hook fails."""
        return {"matcher": "*", "hooks": [self.command_entry(place, python, command)]}

    def command_entry(self, place, python, command):
        from .install.entries import SECONDS, command_words, line_of

        line = line_of(command_words(place, python, self.name, command), command == "pre")
        return {"type": "command", "command": line, "timeout": SECONDS[command] * self.time_unit}

    def with_hook(self, place, python, part, text, path):
        """Returns the text of a file with the hook, and the options in it for the record of the installation: [[path,
        earlier value, our value]]. `text` is None if there is no file. Raises Refused if the file cannot be changed."""
        from .install.entries import json_with_hook

        return json_with_hook(self, place, python, part, text, path)

    def without_hook(self, path, text, noted):
        """Returns the text of a file without the hook; None if the file must be removed. `noted` is what the record of
        the installation says."""
        from .install.entries import json_without_hook

        return json_without_hook(self, path, text, noted)

    def with_entries(self, place, python, part, settings, found):
        """Returns the settings `found` with our hooks. For each event, our hook comes after the existing hooks.
        `settings` are the settings before."""
        from .install.entries import with_entries

        return with_entries(found, self.entries(place, python, settings) if part == self.name else {})

    def without_entries(self, settings):
        """Returns settings without our hooks. Removes only our entries, and the lists and tables that are then empty."""
        from .install.entries import without_entries

        return without_entries(settings)

    # Tests of `doctor`

    def checks(self):
        from .doctor.checks import Checks

        return Checks(self)
