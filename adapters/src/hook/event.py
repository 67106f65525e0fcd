# Reads the client's event and its call.

# Tools whose argument is a text and not an object.
FREE_TEXT = ("apply_patch",)


class Call:
    """One tool call, with the data that the service is asked about."""

    def __init__(self, dialect, event, session_id, tool, arguments, use_id, refused, also=(), cwd=None):
        self.dialect = dialect
        self.event = event
        self.session_id = session_id
        self.tool = tool
        self.arguments = arguments
        self.use_id = use_id
        self.refused = refused  # why the hook refuses the call without asking the service; None if it asks
        self.cwd = cwd  # the client's folder, as its event names it; None if it names none
        self.also = also  # further calls that this call also makes; the service is asked about each of them


def detect(given, event):
    """Returns the dialect of an event. This is the given dialect, if there is one. But VS Code also reads the settings
    of Claude Code and Copilot CLI, so an event of VS Code gets `vscode`. If no dialect is given, the members of the
    event show it. Returns None if they do not show a dialect."""
    name = event.get("hook_event_name")
    if given in (None, "claude", "copilot") and "hookEventName" in event:
        return "vscode"
    if given is not None:
        return given
    if "conversation_id" in event:
        return "cursor"
    if name in ("BeforeTool", "AfterTool"):
        return "gemini"
    if name in ("tool.execute.before", "tool.execute.after"):
        return "opencode"
    if "toolName" in event and "sessionId" in event:
        return "copilot"
    if name in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionEnd") and "session_id" in event:
        return "codex" if "turn_id" in event else "claude"
    return None


def session_of(event):
    return text_of(event, "session_id", "sessionId", "conversation_id")


def read_call(dialect, event):
    """Reads the call in a client's event. Refuses an event without a session, a tool or arguments."""
    session_id = session_of(event)
    if session_id is None:
        raise Refused("the client named no session: this event is not one of a tool call")
    name = event.get("hook_event_name", event.get("hookEventName"))
    tool = text_of(event, "tool_name", "toolName")
    arguments = next((event[key] for key in ("tool_input", "toolArgs", "toolInput") if key in event), None)
    if dialect == "cursor" and name in ("beforeShellExecution", "afterShellExecution"):
        tool, arguments = "Shell", {key: event[key] for key in ("command", "cwd", "sandbox") if key in event}
    elif dialect == "cursor" and name == "beforeReadFile":
        # The event also has the file's content, which stays on this machine.
        tool, arguments = "Read", {"file_path": event.get("file_path")}
    elif dialect == "cursor" and name == "beforeMCPExecution" and tool is not None:
        tool = "MCP:" + tool
    if tool is None:
        raise Refused("the client named no tool: this event is not one of a tool call")
    canonical = canonical_name(dialect, tool, event.get("mcp_context"))
    refused, cwd, also = None, event.get("cwd"), []
    try:
        refuse_two_meanings(dialect, tool, event.get("mcp_context"))
        arguments = as_object(tool, arguments)
        refuse_inexact(arguments)
        arguments = canonical_arguments(dialect, canonical, arguments, cwd if is_absolute(cwd) else None)
        if tool == "apply_patch" and canonical == "Edit" and not arguments.get("file_path"):
            raise Refused("the patch names no file: begin it with `*** Begin Patch`, and name each file")
        if dialect == "codex" and canonical == "Bash":
            also = shell_patches(arguments.get("command"), cwd if is_absolute(cwd) else None)
    except Refused as error:
        # The refusal is stored and not raised, because `post` must report the call if it ran anyway.
        refused = str(error)
        arguments = arguments if isinstance(arguments, dict) else {"input": arguments}
    use_id = text_of(event, "tool_use_id", "toolUseId")
    parts = [
        Call(dialect, name, session_id, other, given, use_id and use_id + ":" + other, None) for other, given in also
    ]
    return Call(dialect, name, session_id, canonical, arguments, use_id, refused, parts, cwd)


def refuse_two_meanings(dialect, tool, mcp_context):
    """Refuses a call whose tool name has two meanings. For example, a server `plan` has a tool `exit`. opencode names
    it `plan_exit`, but this is also the name of a tool of opencode itself."""
    server = mcp_context.get("server_name") if isinstance(mcp_context, dict) else None
    if dialect == "opencode" and isinstance(server, str) and tool in TOOL_NAMES[dialect]:
        told = "the tool %s may be opencode's own or one of the server %s: rename the server"
        raise Refused(told % (plain(tool, 100), plain(server, 100)))


def as_object(tool, arguments):
    """Returns the arguments as an object, for rules. Some clients send the object as JSON text, and a few tools take a
    text that is not JSON. Refuses other values, because a client may understand something in them that rules do not
    see."""
    if isinstance(arguments, str):
        text = arguments.strip().lstrip("\ufeff").lstrip()
        if text[:1] in ("{", "[", '"'):
            try:
                arguments = parse_json(text)
            except ValueError as error:
                raise Refused("the arguments are text that is not a JSON object: %s" % plain(error, 200))
        elif text in ("", "null"):
            arguments = None
        elif tool in FREE_TEXT:
            arguments = {"input": arguments}
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise Refused("the arguments are not an object: give each one with its name")
    return arguments


def read_event():
    """Reads the client's event from standard input. Refuses input that is not one JSON object in UTF-8."""
    if os.isatty(0):
        raise Refused("expected a client's hook event on standard input; `doctor` sends one")
    chunks, size = [], 0
    while True:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        size += len(chunk)
        if size <= MAX_INPUT:
            chunks.append(chunk)
    if size > MAX_INPUT:
        raise Refused("this call's event is %s bytes long, over the %s that are read" % (size, MAX_INPUT))
    try:
        event = parse_json(b"".join(chunks).decode("utf-8").lstrip("\ufeff"))
    except ValueError as error:
        kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise Refused("the client's event cannot be read: it is not %s" % kind)
    if not isinstance(event, dict):
        raise Refused("the client's event cannot be read: it is not a JSON object")
    return event
