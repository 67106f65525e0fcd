#!/usr/bin/env python3
"""Countersign's hook: a coding agent asks before each tool call, and denied calls are blocked.

    service_hook.py pre|post|end|install|doctor [--dialect claude|codex|gemini|copilot|cursor|vscode|opencode]

`pre` reads the client's event on standard input and asks the service. If the call is allowed, `pre` prints nothing and
exits with 0, so that the client's own prompts run (for Cursor and opencode it prints `{"permission":"allow"}`). Otherwise
`pre` writes the reason to standard error and one JSON object for the client to standard output, and exits with 2. A held
call waits for an approver, but not as long as the client waits for this process, because clients run a call when the hook
takes too long. `post` reports the name and arguments of a finished call, and `end` closes the session. These two never
block a call. Outputs of tools never leave this machine, and no value is written to a log. `install` writes a client's
settings, and `doctor` tests that they block. Both have a --help.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. With
--config FILE the file's values win, so that a project's settings cannot redirect a session. Then only the file sets the
fail mode, plain http, the proxy and the authorities (fail_mode, allow_http, https_proxy, ca_file).

This program needs Python 3.8 or newer and only the standard library. It is one file, so that administrators can download
it, compare its checksum and read it. `npm run adapters` assembles it from the parts in `adapters/src`. A process starts
for every tool call, so modules are imported where they are needed, and sockets are used directly: loading http.client
would double the time.
"""

import os
import sys
import time
from _thread import allocate_lock, start_new_thread


# --- shared/limits ----------------------------------------------------------------------------------------------------

# Limits, and the two errors that a request to the service can raise.

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # maximum bytes of an authorize request: the service refuses more
MAX_ANSWER = MIB  # maximum bytes of an answer of the service
ASK_SECONDS = 20  # if no answer comes for this long, the service counts as unreachable
POLL_SECONDS = 30  # the longest wait that the service accepts for a poll
DEFAULT_WAIT = 55  # less than the minute after which many clients give up a call
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads exactly: the limit of a double


class Refused(Exception):
    """An error that blocks the call in both fail modes. The text of the error is shown as the reason."""


class Forbidden(Refused):
    """The service answers 403: the key may not send this request."""


class Unreachable(Exception):
    """The error for a missing answer of the service, or for an answer with a status of 5xx. The fail mode decides
    whether the call runs."""


# --- shared/text ------------------------------------------------------------------------------------------------------

# Texts, and writing to a descriptor.

def plain(text, longest):
    """Returns the text as one line without control characters, cut to `longest` characters. Other people write rule
    names and comments, so their text is not trusted."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """Returns the value of the first of these fields that has a non-empty text. Returns None if there is no such
    field."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def write_all(descriptor, data):
    """Writes bytes. Returns False if there is no descriptor, or if the other side has closed the descriptor."""
    if descriptor is None:
        return False
    view = memoryview(data)
    while len(view):
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False
    return True


def token(name):
    """Returns a name in the form that Claude Code uses for names of servers and tools. Only ASCII letters, digits, `_`
    and `-` stay, and other characters become `_`. Example: `my server` becomes `my_server`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


# --- hook/constants ---------------------------------------------------------------------------------------------------

# Constants of the hook.

MAX_INPUT = 32 * MIB  # maximum bytes of an event. With escapes, an event can be six times as long as the request
USAGE = "usage: service_hook.py pre|post|end|install|doctor [--dialect claude|codex|gemini|copilot|cursor|vscode|opencode]"
COMMANDS = ("pre", "post", "end", "flush", "deliver")

# For how many seconds each client waits for the hook, if the command line has no --timeout. The value is the one that
# `install` writes, or the client's own default if the default is shorter. After this time, all clients run the call.
CLIENT_TIMEOUT = {"claude": 90, "codex": 90, "gemini": 60, "copilot": 30, "cursor": 30, "vscode": 30, "opencode": 90}
UNKNOWN_TIMEOUT = 30

# Headers of each request to the service. A process makes only few requests, so no connection stays open.
HEADERS = ["User-Agent: countersign-hook/" + VERSION, "Connection: close"]

AGENT_NAMES = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini-cli",
    "copilot": "copilot-cli",
    "cursor": "cursor",
    "vscode": "vscode",
    "opencode": "opencode",
}


# --- hook/answer ------------------------------------------------------------------------------------------------------

# The only answer of this process.

class Answer:
    """Writes the only answer of this process. Standard output gets at most one JSON object, and one thread writes it.

    All other output, such as warnings, goes to standard error. If a single byte came before the object, some clients
    would run a denied call."""

    def __init__(self):
        try:
            os.fstat(0)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # else the copy below would become descriptor 0
        try:
            self._out = os.dup(1)
        except OSError:
            self._out = None
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self._claimed = allocate_lock()
        self.dialect = None
        self.event = None
        self.fail_open = False
        self.deadline = time.monotonic() + 60
        self.asking = False  # the question was sent, and its decision has not arrived yet
        self.waiting_for = None  # settings and decision of a held call while it waits for an approver

    def deny(self, reason, before_exit=None):
        """Blocks the call. The reason is written first, because some clients read an empty standard error as
        consent."""
        self._claim()
        reason = plain(reason, 2000)
        write_all(2, (reason + "\n").encode("utf-8", "replace"))
        write_all(self._out, deny_line(self.dialect, self.event, reason))
        if before_exit is not None:
            before_exit()
        os._exit(2)

    def allow(self, note=None):
        """Lets the client continue. The note goes to standard error, for the client's log."""
        self._claim()
        if note is not None:
            write_all(2, (plain(note, 2000) + "\n").encode("utf-8", "replace"))
        if self.dialect in ("cursor", "opencode"):
            write_all(self._out, b'{"permission":"allow"}\n')
        os._exit(0)

    def is_unheard(self):
        """Returns true if the reader has closed standard output. This also works if another process, such as a shell,
        stands between the client and the hook."""
        import select

        if self._out is None or not hasattr(select, "poll"):
            return False
        watch = select.poll()
        watch.register(self._out, 0)
        return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in watch.poll(0))

    def _claim(self):
        if not self._claimed.acquire(False):
            # Another thread writes the answer and then ends the process, usually during this sleep. If the client does
            # not read the answer, the process ends after two seconds.
            time.sleep(2)
            os._exit(2)


def deny_line(dialect, event, reason):
    """Returns a denial as one line of ASCII JSON, with the members that the client reads. For an unknown client, the
    line has the members of all clients."""
    claude = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    if dialect in ("claude", "codex", "vscode") or (dialect == "copilot" and event == "PreToolUse"):
        said = {"hookSpecificOutput": claude}
    elif dialect == "gemini":
        said = {"decision": "deny", "reason": reason}
    elif dialect == "copilot":
        said = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    elif dialect in ("cursor", "opencode"):
        said = {"permission": "deny", "user_message": reason, "agent_message": reason}
    else:
        said = {
            "decision": "block",
            "reason": reason,
            "permission": "deny",
            "user_message": reason,
            "agent_message": reason,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
            "hookSpecificOutput": claude,
        }
    return to_json(said, True) + b"\n"


# --- hook/tool_names --------------------------------------------------------------------------------------------------

# The clients' names of tools, and the names that Claude Code uses for the same tools.

# Maps the names of each client's own tools to the names that Claude Code uses for the same tools. So one rule covers
# all clients. A name that is not here stays unchanged. If the service does not know this name either, the call counts
# as a write.
TOOL_NAMES = {
    "codex": {"apply_patch": "Edit", "spawn_agent": "Agent", "view_image": "Read", "shell": "Bash"},
    "gemini": {
        "run_shell_command": "Bash",
        "read_file": "Read",
        "read_many_files": "Read",
        "write_file": "Write",
        "replace": "Edit",
        "list_directory": "LS",
        "glob": "Glob",
        "grep_search": "Grep",
        "search_file_content": "Grep",
        "web_fetch": "WebFetch",
        "google_web_search": "WebSearch",
        "invoke_agent": "Agent",
        "activate_skill": "Skill",
        "write_todos": "TodoWrite",
        "read_background_output": "TaskOutput",
    },
    "copilot": {
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
    },
    "cursor": {"Shell": "Bash", "Task": "Agent", "beforeShellExecution": "Bash", "beforeReadFile": "Read"},
    "vscode": {
        "run_in_terminal": "Bash",
        "runTerminalCommand": "Bash",
        "runInTerminal": "Bash",
        "get_terminal_output": "TaskOutput",
        "read_file": "Read",
        "readFile": "Read",
        "create_file": "Write",
        "createFile": "Write",
        "replace_string_in_file": "Edit",
        "multi_replace_string_in_file": "Edit",
        "insert_edit_into_file": "Edit",
        "apply_patch": "Edit",
        "editFiles": "Edit",
        "edit_notebook_file": "NotebookEdit",
        "list_dir": "LS",
        "file_search": "Glob",
        "grep_search": "Grep",
        "semantic_search": "Grep",
        "fetch_webpage": "WebFetch",
        "fetch": "WebFetch",
        "runSubagent": "Agent",
    },
    "opencode": {
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
    },
}


# The names under which the service knows tools that give commands to a shell. For them the service is told the folder,
# and for tools that it does not know, because they may be shells too.
SHELL_TOOLS = (
    "Bash Monitor PowerShell powershell bash Shell shell local_shell shell_command exec_command write_stdin "
    "run_shell_command run_in_terminal runInTerminal runTerminalCommand run_terminal_cmd"
).split()
# The other tools that the service knows by name.
OTHER_TOOLS = (
    "Read Grep Glob LS NotebookRead LSP read_file read_many_files list_directory glob grep grep_search "
    "search_file_content view view_image file_search list_dir BashOutput TaskOutput read_background_output "
    "semantic_search WebFetch WebSearch web_fetch google_web_search fetch_webpage ReadMcpResourceTool "
    "ReadMcpResourceDirTool ListMcpResourcesTool ToolSearch ListAgents TaskGet TaskList CronList "
    "WaitForMcpServers Edit MultiEdit Write NotebookEdit apply_patch write_file replace create edit "
    "create_file create_directory insert_edit_into_file replace_string_in_file Agent Task TaskStop KillShell "
    "KillBash SendMessage AskUserQuestion CronCreate CronDelete EnterPlanMode EnterWorktree ExitPlanMode "
    "ExitWorktree ProposeGoal ProposeSkills RefreshMcpTools ReportFindings ScheduleWakeup TaskCreate "
    "TaskUpdate TodoWrite spawn_agent update_plan invoke_agent save_memory write_todos task write_agent "
    "PushNotification SendUserFile Artifact RemoteTrigger Workflow sql Skill activate_skill skill"
).split()


def canonical_name(dialect, tool, mcp_context=None):
    """Returns Claude Code's name of a tool. For a tool of an MCP server, this name is `mcp__<server>__<tool>`."""
    # opencode's own tools come first. Otherwise a project could name a server `apply`, and `apply_patch` would count as
    # a tool of this server.
    own_first = dialect == "opencode" and tool in TOOL_NAMES[dialect]
    if dialect in ("gemini", "opencode") and isinstance(mcp_context, dict) and not own_first:
        server, own = mcp_context.get("server_name"), mcp_context.get("tool_name")
        if isinstance(server, str) and isinstance(own, str):
            return "mcp__" + token(server) + "__" + token(own)
    known = TOOL_NAMES.get(dialect, {}).get(tool)
    if known is not None:
        return known
    if tool.startswith("mcp__"):
        return tool
    if dialect in ("gemini", "vscode") and tool.startswith("mcp_"):
        server, _, own = tool[4:].partition("_")
        return "mcp__" + token(server) + "__" + token(own) if own else tool
    if dialect == "copilot" and "-" in tool:
        server, own = copilot_server(tool)
        return "mcp__" + token(server) + "__" + token(own)
    if dialect == "cursor" and tool.startswith("MCP:"):
        return "mcp__cursor__" + token(tool[4:].strip())
    return tool


def copilot_server(tool):
    """Splits a name into server and tool at the first hyphen. Example: `my-mail-send_message` becomes `my` and
    `mail-send_message`. The server may really be `my-mail`, because both parts may have hyphens. But every verb stays
    in the tool's name, where rules look for verbs that send data. The server `github-mcp-server` is known, so its name
    is not split."""
    builtin = "github-mcp-server"
    if tool.startswith(builtin + "-"):
        return builtin, tool[len(builtin) + 1 :]
    server, _, own = tool.partition("-")
    return server, own


# --- hook/event -------------------------------------------------------------------------------------------------------

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


# --- hook/arguments ---------------------------------------------------------------------------------------------------

# Adds arguments under the names that rules use.

# Other names that clients use for an argument: {tool: {name in rules: other names}}. The hook adds the argument under
# the name in rules, and keeps the client's own argument. Example: for `Bash`, the value of `cmd` is added as `command`.
ARGUMENT_NAMES = {
    "Bash": {"command": ("cmd", "script")},
    "PowerShell": {"command": ("cmd", "script")},
    "Read": {"file_path": ("path", "filePath", "absolute_path", "target_file", "paths", "include")},
    "Write": {"file_path": ("path", "filePath", "target_file"), "content": ("file_text", "contents")},
    "Edit": {
        "file_path": ("path", "filePath", "target_file"),
        "old_string": ("old_str", "oldString"),
        "new_string": ("new_str", "newString"),
    },
    "MultiEdit": {"file_path": ("path", "filePath", "target_file")},
    "NotebookEdit": {"notebook_path": ("file_path", "path", "filePath", "target_notebook")},
    "Glob": {"path": ("paths", "dir_path", "target_directory")},
    "Grep": {"path": ("paths", "dir_path", "target_directory")},
    "LS": {"path": ("paths", "dir_path", "target_directory")},
    "WebFetch": {"url": ("urls", "uri")},
}

# For each tool: the argument whose value is the path of a file or folder.
PATH_NAMES = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookRead": "notebook_path",
    "NotebookEdit": "notebook_path",
    "Glob": "path",
    "Grep": "path",
    "LS": "path",
}


def canonical_arguments(dialect, tool, arguments, cwd):
    """Returns the client's arguments, and adds arguments under the names that rules use. These are Claude Code's names.
    If the client gives an argument under several names, the added argument has all these values, because the hook
    cannot know which one the client uses. For a path, the absolute path is added too."""
    names = {} if dialect in (None, "claude") else dict(ARGUMENT_NAMES.get(tool, {}))
    path = PATH_NAMES.get(tool)
    if path is not None:
        names.setdefault(path, ())
    found = dict(arguments)
    for wanted, others in names.items():
        given = [arguments[key] for key in (wanted,) + others if arguments.get(key) is not None]
        if wanted == "command":
            given = commands(arguments, (wanted,) + others)
        if wanted == "file_path" and tool == "Edit":
            for key in ("command", "input", "patch", "patchText"):
                given += patched_files(arguments.get(key), cwd)
            given += replaced_files(arguments.get("replacements"))
        if wanted == "url":
            given += addresses(arguments.get("prompt"))
        if wanted == path:
            given += [form for value in single(given) for form in plain_forms(value, cwd)]
        add(found, wanted, given)
    return found


def add(arguments, name, given):
    """Adds an argument. A single value is added unchanged. Several values, or values from a list, become an object:
    {"1": ..., "2": ...}. They do not become a list, because in a list `contains` compares whole elements."""
    each = single(given)
    if len(each) > 1 or (each and any(isinstance(value, list) for value in given)):
        arguments[name] = {str(at): value for at, value in enumerate(each, 1)}
    elif each:
        arguments[name] = each[0]


def single(given):
    """Returns all values in one flat list: each element of a list becomes a value. A text that occurs several times is
    returned once."""
    rest, each, texts = list(reversed(given)), [], set()
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(reversed(value))
        elif value is not None and not (isinstance(value, str) and value in texts):
            each.append(value)
            if isinstance(value, str):
                texts.add(value)
    return each


def commands(arguments, names):
    """Returns the command as text, once for each name that has it. A list of words becomes one text. Refuses two
    different commands, because the hook cannot know which one runs."""
    given = [(name, as_command(arguments[name])) for name in names if arguments.get(name) is not None]
    for name, text in given[1:]:
        if text != given[0][1]:
            raise Refused("the call has two commands: leave out `%s` or `%s`" % (given[0][0], name))
    return [text for _, text in given]


def as_command(given):
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise Refused("the command is neither a text nor a list of words")
    return " ".join(map(quoted, given))


def quoted(word):
    """Quotes a word for a shell. A word without special characters stays unquoted, so that rules match it."""
    if word and all(c.isascii() and (c.isalnum() or c in "_-./:,@%+") for c in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def replaced_files(replacements):
    """Returns the files that VS Code's tool for several replacements changes."""
    each = replacements if isinstance(replacements, list) else []
    return [one["filePath"] for one in each if isinstance(one, dict) and isinstance(one.get("filePath"), str)]


FILE_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
OTHER_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def patched_files(patch, cwd):
    """Returns the files that a patch in Codex's format changes."""
    return [path for _, path in patch_headers(patch, cwd)]


def patch_headers(patch, cwd):
    """Returns the headers of a patch in Codex's format: [(mark, path)]. Codex allows blanks around a header. Refuses a
    line that looks like an unknown header, because another program may accept it as a header."""
    if not isinstance(patch, str):
        return []
    found = []
    for line in patch.split("\n"):
        # Some programs also end a line at other characters than a line feed, e.g. at a form feed. So each part between
        # such characters is checked, because it could be a header.
        parts = line.rstrip("\r").splitlines()
        if not any(looks_like_header(part) for part in parts):
            continue
        header = line.strip()
        mark = next((mark for mark in FILE_MARKS if header.startswith(mark)), None)
        path = header[len(mark) :] if mark is not None else ""
        if mark is not None and path == path.strip() != "" and path.isprintable():
            found.append((mark, collapsed(os.path.join(cwd or "", path))))
        elif len(parts) > 1 or not (header in OTHER_MARKS or header.startswith("*** Environment ID: ")):
            shown = plain(header, 60)
            raise Refused("a line of the patch looks like an unknown header: `%s`; leave it out of the context" % shown)
    if "*** Begin Patch" in patch and not found:
        raise Refused("the patch names no file: write `*** Update File: path`")
    return found


# Codex does not run these programs: if a shell command calls one of them with a patch, Codex applies the patch itself.
# Programs with these names may also be on the PATH.
PATCH_PROGRAMS = ("apply_patch", "applypatch")


def shell_patches(command, cwd):
    """Returns the file changes of a shell command that applies a patch: [(tool, arguments)]. Codex makes these changes
    itself. If the command first enters another folder, each path is returned for both folders, because the patch may
    apply in either of them."""
    if not isinstance(command, str) or "*** Begin Patch" not in command:
        return []
    commands = Line(command).commands
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


def looks_like_header(line):
    return all(c.isspace() or not c.isprintable() for c in line.partition("***")[0]) and "***" in line


def is_absolute(path):
    return isinstance(path, str) and os.path.isabs(path)


def collapsed(path):
    """Returns a path without `.`, `..` and double slashes. This looks only at the text and not at the disk, as the
    clients do."""
    found = os.path.normpath(path)
    return "/" + found.lstrip("/") if found.startswith("//") else found


def plain_forms(path, cwd):
    """Returns the absolute paths that a client may mean with this path. They are without `.` and `..`."""
    if not isinstance(path, str):
        return []
    places = [os.path.join(cwd or "", path)] if cwd is not None or os.path.isabs(path) else []
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        # Clients replace `~` by HOME. The user's real home may be another folder, so both are added.
        places += [place + path[1:] for place in (os.path.expanduser("~"), home())]
    if path[:5].lower() == "file:":
        from urllib.parse import unquote

        # The path may begin with the name of a machine. So the path is added twice: with its first part, and without
        # it. Example: `file://host/a` becomes `/host/a` and `/a`.
        named = unquote(path[5:]).lstrip("/")
        root = "" if os.name == "nt" else "/"
        places += [root + named, root + named.partition("/")[2]]
    return [collapsed(place) for place in places if os.path.isabs(place)]


def addresses(text):
    """Returns the web addresses in a text. Gemini's web_fetch gets its addresses in the text of its prompt."""
    found = []
    for word in text.split() if isinstance(text, str) else ():
        starts, at = [], word.find("://")
        while at >= 0:
            scheme = word[max(0, at - 5) : at].lower()
            if scheme.endswith(("http", "https")):
                starts.append(at - (5 if scheme == "https" else 4))
            at = word.find("://", at + 1)
        # A word can contain several addresses. The first one goes on to the end of the word, because the others may be
        # in its query. Each other address ends where the next one begins.
        for start, end in zip(starts, [None] + starts[2:] + [None]):
            found.append(word[start:end].rstrip(".,;:!?)]}>\"'"))
    return found


# --- hook/command_line ------------------------------------------------------------------------------------------------

# Splits a command line into its simple commands.

SUBSTITUTED = "/dev/fd/63"  # the file of a process substitution
TERMINALS = ("-", "/dev/stdin", "/dev/tty", "/dev/fd/0", "/proc/self/fd/0")
# Words of the shell that can stand before a command.
KEYWORDS = ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "function", "time", "&")


def program_words(words):
    """Returns the words from the program's name on. Example: the words of `if A=1 ls -l` become those of `ls -l`."""
    at = 0
    while at < len(words) and (words[at] in KEYWORDS or ("=" in words[at] and words[at].split("=")[0].isidentifier())):
        at += 1
    return words[at:]


class Simple:
    """One command of a command line: its words without quotes, and the source of its input."""

    def __init__(self, source=None):
        self.words = []
        self.begun = False  # its words so far contain the name of a program
        self.fed = False  # its input is a file or a text in the command line
        self.source = source  # the first command of its pipe; None if it is the first command itself


def is_terminal(word):
    """Returns whether this file may be the terminal. Examples: `-`, `/dev/tty`, and an open descriptor such as
    `/dev/fd/3`."""
    if word in TERMINALS:
        return True
    if word.startswith("/proc/"):
        return "/fd/" in word
    return word != SUBSTITUTED and word.startswith(("/dev/fd/", "/dev/pts/", "/dev/tty"))


def is_fed_by(operator, target):
    if operator in ("<<", "<<<"):
        return True
    if operator == "<&":
        return target == "-"  # another descriptor may be the terminal; `<&-` closes the input
    return operator == "<" and not is_terminal(target) and not any(c in target for c in "$`*?[")


class Line:
    """The simple commands of a command line. In doubt, this class finds more commands than a shell would run, never
    fewer."""

    def __init__(self, text):
        self.commands = []
        self.word = None  # the parts of the present word; None between words
        self.redirect = None
        self.bodies = []  # the here-documents whose bodies begin at the next line
        self.modes = [""]  # the open levels: a quote, a backtick, or "" for text outside quotes
        self.cases = []  # the level of each open `case`: there a `)` ends a pattern
        self.now = Simple()
        text = text.replace("\\\n", "")
        at = 0
        while at < len(text):
            at = self.quoted(text, at) if self.modes[-1] in ("'", '"') else self.bare(text, at)
        self.end_command()

    def add(self, part):
        self.word = self.word or []
        self.word.append(part)

    def end_word(self):
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        operator, self.redirect = self.redirect, None
        if operator is not None:
            if operator.startswith("<"):
                self.now.fed = self.now.fed or is_fed_by(operator, word)
            return
        self.now.words.append(word)
        if not self.now.begun and program_words(self.now.words[-1:]):
            self.now.begun = True
            if word == "case":
                self.cases.append(len(self.modes))
            elif word == "esac" and self.cases:
                self.cases.pop()

    def end_command(self, into_pipe=False):
        self.end_word()
        self.redirect = None
        if self.now.words:
            self.commands.append(self.now)
        self.now = Simple((self.now.source or self.now) if into_pipe else None)

    def quoted(self, text, at):
        c = text[at]
        if self.modes[-1] == "'":
            end = text.find("'", at)
            end = len(text) if end < 0 else end
            self.add(text[at:end])
            self.modes.pop()
            return end + 1
        if c == '"':
            self.modes.pop()
        elif c == "\\":
            self.add(text[at + 1 : at + 2])
            return at + 2
        elif c == "`" or text.startswith("$(", at):
            return self.substitution(text, at)
        else:
            self.add(c)
        return at + 1

    def substitution(self, text, at):
        """Handles the beginning of a substitution: `$(`, `<(`, `>(` or a backtick. Also handles the end of a
        substitution in backticks."""
        if text[at] != "`":
            self.add("$" if text[at] == "$" else SUBSTITUTED)
            self.end_command()
            self.modes.append("")
            return at + 2
        if self.modes[-1] == "`":
            self.end_command()
            self.modes.pop()
        else:
            self.add("$")
            self.end_command()
            self.modes.append("`")
        return at + 1

    def bare(self, text, at):
        c = text[at]
        if c == "\\":
            self.add(text[at + 1 : at + 2])
            return at + 2
        if c == "`" or text[at : at + 2] in ("$(", "<(", ">("):
            return self.substitution(text, at)
        if c in "'\"":
            self.add("")
            self.modes.append(c)
        elif c in "()":
            self.end_command()
            if c == "(":
                self.modes.append("")
            elif len(self.modes) > 1 and self.modes[-1] == "" and self.cases[-1:] != [len(self.modes)]:
                self.modes.pop()
        elif c == "\n":
            self.end_command()
            return self.skip_bodies(text, at + 1)
        elif c in ";&|":
            self.operator(text, at)
        elif c in "<>":
            return self.start_redirect(text, at)
        elif c.isspace():
            self.end_word()
        else:
            self.add(c)
        return at + 1

    def operator(self, text, at):
        c, two = text[at], text[at : at + 2]
        if c == "&" and self.redirect is not None and self.word is None:
            self.redirect += "&"
            return  # a part of `>&` or `<&`
        if two == "&>":
            return
        if c == "&" and text[max(0, at - 1) : at] == "|":
            return  # `|&` is a pipe
        if c == "|" and self.redirect is not None and self.word is None:
            return  # `>|`
        self.end_command(into_pipe=c == "|" and "||" not in (two, text[max(0, at - 1) : at + 1]))

    def start_redirect(self, text, at):
        before = "".join(self.word or ())
        is_named = before[:1] == "{" and before[-1:] == "}" and before[1:-1].isidentifier()
        if before.isdigit() or is_named:
            self.word = None  # the number of a descriptor, or `{name}` for a new one
        self.end_word()
        end = at + 1
        while end < len(text) and text[end] in "<>" and end - at < 3:
            end += 1
        # The number of a descriptor other than 0 stays in the text before the operator (`3<`). So `end_word` sees that
        # this redirection does not feed the program's standard input.
        self.redirect = (before if is_named or before.strip("0").isdigit() else "") + text[at:end]
        if text[at:end] == "<<":
            end += text[end : end + 1] == "-"
            first = end
            while first < len(text) and text[first] in " \t":
                first += 1
            last = first
            while last < len(text) and text[last] not in " \t\n;&|<>()":
                last += 1
            named = text[first:last]
            name = named.replace("'", "").replace('"', "").replace("\\", "")
            self.bodies.append((name, name == named))
        return end

    def skip_bodies(self, text, at):
        """Skips the bodies of here-documents. Substitutions in a body are also commands of the line."""
        bodies, self.bodies = self.bodies, []
        for name, expands in bodies:
            start = at
            while at < len(text):
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                line, at = text[at:end], min(len(text), end + 1)
                if line.strip("\t") == name:
                    break
            body = text[start:at]
            if expands and ("$(" in body or "`" in body):
                self.commands += Line(body).commands
        return at


# --- hook/prompts -----------------------------------------------------------------------------------------------------

# Finds commands that may run text that is typed in later.

# Codex can type into a running program with `write_stdin`, and no hook sees this text. So the hook refuses a program
# that would run the typed text.

# These programs read commands from the terminal if they have at most this many arguments. Options do not count as
# arguments. 99 means any number. Example: `python` reads commands, but `python a.py` does not.
PROMPTS = dict(
    [(name, 0) for name in "bash sh zsh dash ash ksh mksh fish csh tcsh rbash xonsh nu elvish python ipython pypy".split()]
    + [(name, 0) for name in "node deno bun ruby irb perl php lua luajit R redis-cli tmux screen pwsh powershell tclsh".split()]
    + [(name, 0) for name in "ghci jshell scala erl iex julia octave unshare nsenter login newgrp m4 dc pry guile expect tsx swift".split()]
    + [(name, 1) for name in "ssh telnet nc ncat socat su ftp sftp sqlite sqlite3 chroot".split()]
    + [(name, 99) for name in "psql mysql mongosh gdb lldb script vi vim nvim view ex ed emacs nano less more man at batch".split()]
)
# The option `-m` of these programs names a module to run.
WITH_MODULES = ("python", "pypy", "ipython")
# Programs that run the commands of a file. These are refused if the file is the terminal. `sed` and `awk` are not in
# this list, because only their file of `-f` has commands. Their other files are data.
FILE_RUNNERS = frozenset("make gmake bmake cmake ninja rake just ansible ansible-playbook dotnet tsx swift".split())
# The option `-c` of these programs takes code of their own language, not a command line.
PROGRAMMED = ("python", "pypy", "ipython", "lua", "R", "octave")
SHELLS = frozenset("bash sh zsh dash ash ksh mksh fish csh tcsh rbash".split())
# With one of these words as the first argument, many programs open a prompt: `poetry shell`, `rails console`.
PROMPT_COMMANDS = frozenset("shell console repl dbshell debugshell develop enter attach interactive".split())
# Options of the programs in PROMPTS that take the next word as their value.
WITH_VALUE = "--rcfile --init-file -O +O -o +o -W -X -r --require --import -I -M".split()
NO_PROMPT = ("-c", "-e", "-f", "--eval", "--command", "--execute", "--file", "--version", "--help", "-V", "-h", "--batch")
ASKS_ON = ("-i", "-s", "--interactive", "-")
PROMPT_MODULES = ("code", "pdb", "IPython", "ptpython", "asyncio", "bpython")

# Programs that start another program. The name of the other program comes after their own arguments. Example: `nice
# bash`.
WRAPPERS = frozenset(
    """exec env sudo doas command builtin nohup time nice ionice chrt taskset timeout stdbuf setsid flock watch xargs parallel
    strace ltrace prlimit setarch busybox toybox eatmydata firejail proot torify proxychains sshpass dbus-run-session coproc
    unshare nsenter chroot systemd-run runuser setpriv sg npx uvx poetry pipenv rlwrap unbuffer expect winpty catchsegv numactl
    cpulimit fakeroot entr script tmux screen su ssh find uv pipx pdm hatch rye conda mamba micromamba mise asdf direnv bundle bunx
    pnpx nix nix-shell guix flatpak snap distrobox toolbox vagrant heroku fly""".split()
)
CONTAINERS = ("docker", "podman", "kubectl", "nerdctl", "oc", "docker-compose", "podman-compose")
OPENING = ("run", "exec", "attach", "start", "debug")
AWKS = ("awk", "gawk", "mawk", "nawk")
# If a wrapper starts one of these programs, the words after the program's name are not searched for programs. They are
# arguments. Example: `sudo apt install zsh`.
ORDINARY = frozenset("apt apt-get dnf yum apk brew pip pip3 npm yarn pnpm cargo go git make grep rg sed awk ls cat cp mv rm mkdir tar".split())

# Programs that pass on what they read. The number says how many arguments come before the file names. A program with 99
# reads its input with any arguments.
FILTERS = dict(
    [(name, 0) for name in "cat head tail sort uniq rev tac nl fold fmt paste xxd od base64 base32 gzip gunzip zcat cut".split()]
    + [(name, 1) for name in "sed awk gawk mawk grep egrep fgrep jq".split()]
    + [(name, 99) for name in "tee tr read mapfile readarray select dd line openssl envsubst".split()]
)
# If one of these programs is the first of a pipe, it reads nothing from the terminal.
SOURCES = frozenset("echo printf ls find git curl wget seq date env pwd which dirname basename uname hostname true".split())


def base_name(word):
    return word.rsplit("/", 1)[-1]


def program_name(word):
    """Returns a program's name without its folder and version: `python` for `/usr/bin/python3.12`."""
    name = base_name(word)
    return name if name in FILTERS or name in WRAPPERS or name in PROMPTS else name.rstrip("0123456789.-") or name


def asks(words, depth):
    """Returns whether this program runs text that is typed into it."""
    name = program_name(words[0])
    if any(c in name for c in "$*?[{") and not any(not word.startswith("-") for word in words[1:]):
        return True  # the program is not known, and it gets nothing but options
    if name == "eval":
        # The word `$` stands for a substitution, which is checked as a command of its own.
        return opens_prompt(" ".join(word for word in words[1:] if word != "$"), depth + 1)
    most = PROMPTS.get(name)
    if most is not None and prompts(name, words[1:], most, depth):
        return True
    if reads_as_code(name, words[1:]) or runs_typed_file(name, words[1:]) or debugs(name, words[1:]):
        return True
    operands = [word for word in words[1:] if not word.startswith("-")]
    if any(word in PROMPT_COMMANDS for word in operands[: 2 if most is not None else 1]) and name not in ORDINARY and name not in FILTERS:
        return True
    if name in CONTAINERS:
        return opens_container(name, words[1:])
    if name in ("sudo", "doas") and opens_own_shell(words[1:]):
        return True
    if most is None and not operands and name.endswith(("sh", "-shell")) and "." not in name:
        return True  # the name says that this is a shell
    if name not in WRAPPERS or (name == "command" and words[1:2] and words[1] in ("-v", "-V")):
        return False
    if name == "find":
        started = [at for at, word in enumerate(words) if word in ("-exec", "-execdir", "-ok", "-okdir")]
        return bool(started) and wraps(words[started[0] + 1 :], depth)
    return wraps(words[1:], depth)


def runs_typed_file(name, arguments):
    """Returns whether this program runs the commands of a file, and the file is the terminal. Examples: `make -f -`,
    `sed -f /dev/stdin`."""
    only_options = name in AWKS or name == "sed"
    if name == "split":
        return any(word.startswith("--filter") for word in arguments)  # it gives what is typed to a program
    if not only_options and name not in FILE_RUNNERS:
        return False
    for at, word in enumerate(arguments):
        value = word.partition("=")[2] if word.startswith("--") else word[2:] if word.startswith(("-f", "-P", "-C")) else ""
        # `f` can be the last of several option letters: `-sf -`.
        is_next = word.startswith("--file") or (word[:1] == "-" and word[1:2] != "-" and word.endswith("f"))
        if is_terminal(value) or (is_next and any(map(is_terminal, arguments[at + 1 : at + 2]))):
            return True
    return not only_options and any(map(is_terminal, arguments))


def debugs(name, arguments):
    """Returns whether this program opens a debugger or a prompt of its language, which waits for typed text. Examples:
    `pytest --pdb`, `dotnet fsi`."""
    if name == "dotnet":
        return [word for word in arguments if not word.startswith("-")] == ["fsi"]
    if name in ORDINARY or name in FILTERS or name in SOURCES:
        return False
    tests = any(base_name(word) in ("pytest", "py.test") for word in [name] + arguments)
    return "--pdb" in arguments or (tests and "--trace" in arguments)


# Options of `sudo` that take the next word as their value.
SUDO_VALUES = "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --role --type".split()


def opens_own_shell(arguments):
    """Returns whether `sudo` starts a shell that gets no command. Example: `sudo -i`."""
    left, shell = list(arguments), False
    while left:
        word = left.pop(0)
        if word in SUDO_VALUES:
            left = left[1:]
        elif word in ("--shell", "--login") or (word[:1] == "-" and word[1:2] != "-" and ("s" in word or "i" in word)):
            shell = True
        elif not word.startswith("-"):
            return False
    return shell


def opens_container(name, arguments):
    """Returns whether typed text reaches a program in a container. This program is not known, so it may run the
    text."""
    if not any(word in OPENING for word in arguments):
        return False
    short = [word for word in arguments if word[:1] == "-" and word[1:2] != "-"]
    if "compose" in arguments or name.endswith("-compose"):
        return ("exec" in arguments or "run" in arguments) and not any("T" in word for word in short)
    given = any(word.split("=")[0] in ("--interactive", "--stdin", "--attach") for word in arguments)
    return given or "attach" in arguments or any("i" in word for word in short)


def wraps(arguments, depth):
    """Returns whether one of these arguments is a program that runs typed text. The wrapper's own arguments may come
    before it."""
    words = [word for word in arguments if word not in (";", "+", "{}")]
    for at, word in enumerate(words):
        if word.startswith(("-S", "--split-string=")) and opens_prompt(word[word.find("=") + 1 or 2 :], depth + 1):
            return True
        if word in ("-S", "--split-string") and opens_prompt(" ".join(words[at + 1 :]), depth + 1):
            return True
        if word.startswith("-") or "=" in word:
            continue
        name = program_name(word)
        if (name in PROMPTS or name in AWKS or name in FILE_RUNNERS or name in ("sed", "split")) and asks(words[at:], depth + 1):
            return True
        if name in ORDINARY:
            return False
    return False


def prompts(name, arguments, most, depth):
    left, given, module = list(arguments), 0, None
    quiet = False
    while left:
        word = left.pop(0)
        short = word[:1] == "-" and word[1:2] != "-"
        if word in ASKS_ON or is_terminal(word):
            return True
        if name in SHELLS and short and "c" in word and given == 0:
            left = [each for each in left if not each.startswith("-")]
            return bool(left) and opens_prompt(left[0], depth + 1)
        if word in ("-c", "--command") or (short and word.endswith("c") and most == 0):
            return bool(left) and name not in PROGRAMMED and opens_prompt(left[0], depth + 1)
        if word == "-m" and name in WITH_MODULES:
            module = left.pop(0) if left else None
            given += 1
        elif word in WITH_VALUE and most == 0:
            left = left[1:]
        elif name in SHELLS and word in ("-e", "-f", "-h"):
            pass  # options of a shell that reads its commands from standard input
        elif most == 0 and name not in SHELLS and short and word[-1] in "eE":
            quiet = True
        elif (word in NO_PROMPT and (word != "-h" or most < 99)) or word.startswith(("--eval=", "--command=", "--file=")):
            quiet = True
        elif not word.startswith("-"):
            given += 1
    return module in PROMPT_MODULES if module is not None else not quiet and given <= most


def reads_terminal(simple):
    """Returns whether this command passes on text that is typed into the terminal."""
    words = program_words(simple.words)
    if not words or simple.fed or simple.source:
        return False
    most = FILTERS.get(base_name(words[0]))
    operands = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    return most is not None and (len(operands) <= most or any(is_terminal(word) for word in operands[most:]))


def runs_text(simple, depth):
    """Returns whether this command runs a text that it reads, or that it gets as an argument. Then this text may have
    been typed into another command of the line."""
    words = program_words(simple.words)
    if not words:
        return False
    if base_name(words[0]) in ("eval", "xargs", "parallel", "source", ".") or "$" in words[0]:
        return True
    if SUBSTITUTED in words and base_name(words[0]) in PROMPTS:
        return True
    return (simple.fed or simple.source is not None) and asks(words, depth)


def comes_from_terminal(simple):
    """Returns whether typed text may reach this command through its pipe."""
    first = program_words(simple.source.words)
    if not first or simple.source.fed:
        return False
    name = base_name(first[0])
    return reads_terminal(simple.source) or (name not in SOURCES and name not in FILTERS)


def opens_prompt(command, depth=0):
    """Returns whether a command may run text that is typed into it later. This function knows common programs by their
    names. It does not recognize a program under another name."""
    if depth > 5:
        return True
    commands = Line(command).commands
    typed = any(map(reads_terminal, commands))
    for simple in commands:
        words = program_words(simple.words)
        if not words:
            continue
        name = base_name(words[0])
        if name in ("source", ".") and any(is_terminal(word) for word in words[1:]):
            return True
        if typed and runs_text(simple, depth):
            return True
        if simple.source is not None:
            if (asks(words, depth) or name in ("xargs", "parallel")) and comes_from_terminal(simple):
                return True
        elif not simple.fed and (asks(words, depth) or name in ("xargs", "parallel")):
            return True
    return False


# --- hook/typed_code --------------------------------------------------------------------------------------------------

# Finds code in the arguments of an interpreter. Such code may run text that a person types in later.

# Words that show that code reads standard input, and words that show that code runs a text or a program.
READS_INPUT = ("input", "stdin", "STDIN", "interact", "readline", "gets", "ARGF", "<>", "open(0", "/dev/tty", "/dev/fd/0")
RUNS_TEXT = ("exec", "eval", "system", "popen", "spawn", "subprocess", "child_process", "Function", "import(", "`", "%x", "qx", "shell")


def reads_as_code(name, arguments):
    """Returns whether this interpreter gets code as an argument, and this code reads standard input and runs a text or
    a program. Example: `python -c 'exec(input())'`."""
    if name in AWKS:
        operands = [word for word in arguments if not word.startswith("-")]
        code, files = (operands[0], operands[1:]) if operands else ("", [])
        runs = "system" in code or "|" in code or any(word.startswith("-f") for word in arguments)
        return runs and (not files or any(is_terminal(word) for word in files))
    if name == "sed":
        operands = [word for word in arguments if not word.startswith("-")]
        return len(operands) <= 1 and any(map(sed_runs, arguments))
    if name in SHELLS or name not in PROMPTS:
        return False
    left, code, reads, files = list(arguments), [], False, 0
    while left:
        word = left.pop(0)
        short = word[:1] == "-" and word[1:2] != "-"
        if word.startswith("--eval=") or word.startswith("--print="):
            code.append(word.partition("=")[2])
        elif word in ("--eval", "--print", "-r") or (short and word[-1] in "ceEp" and len(word) > 1):
            # `-n` and `-p` of perl and ruby run the code once for each line of the input.
            reads = reads or (name in ("perl", "ruby") and ("n" in word or "p" in word))
            code += left[:1]
            left = left[1:]
        elif short and name in ("perl", "ruby") and ("n" in word or "p" in word):
            reads = True
        elif not word.startswith("-"):
            files += 1
    text = "\n".join(code)
    reads = (reads and files == 0) or any(word in text for word in READS_INPUT)
    return bool(code) and reads and any(word in text for word in RUNS_TEXT)


def sed_runs(script):
    """Returns whether a script of GNU sed runs shell commands: with its command `e`, or with the flag `e` of its
    command `s`."""
    import re

    return bool(re.search(r"(^|[;{}\n\d$/!\s])e(\s|;|}|$)", script) or re.search(r"s(.).*\1.*\1\w*e", script))


# --- hook/typed -------------------------------------------------------------------------------------------------------

# Programs that may run what Codex types into them later.

# Codex may type text into these programs. They do not run this text, or `opens_prompt` has already checked these
# programs. Any other program might run the text. Codex types with its tool `write_stdin`, and no hook sees calls of
# this tool.
HARMLESS = SOURCES | set(FILTERS) | ORDINARY | set(PROMPTS) | WRAPPERS | set(CONTAINERS)
HARMLESS |= set(
    """: . [ [[ cd fi done alias bg break case continue declare disown esac eval export false fc fg for getopts hash in jobs kill let local
    popd pushd readonly return select set shift shopt source test times trap type typeset ulimit umask unalias unset until wait
    exit echo printf true chmod chown chgrp touch ln df du ps pgrep pkill killall sleep cmp diff diff3 patch file stat readlink realpath
    install mktemp mkfifo rmdir sync truncate split csplit join comm expand nproc free uptime lsof ss netstat ip dig host nslookup
    ping whoami id groups tty stty tput clear history lscpu md5sum sha1sum sha256sum sha512sum shasum cksum zip unzip bzip2
    bunzip2 xz unxz zstd ar nm objdump strip ldd strings make cmake ninja meson bazel gradle mvn ant gcc cc clang ld as rustc
    rustfmt rustup clippy-driver gofmt javac tsc eslint prettier biome jest vitest mocha playwright pytest tox nox ruff black mypy
    pylint flake8 isort pyright coverage pre-commit dotnet xcodebuild composer bundle gem rake hg svn gh glab fd tree bat
    jq yq terraform tofu helm kustomize ansible-playbook packer apply_patch applypatch shellcheck shfmt hadolint""".split()
)


def may_run_typed(command):
    """Returns whether this command has an unknown program that reads the terminal. Such a program may run text that
    Codex types into it later."""
    for simple in Line(command).commands:
        words = program_words(simple.words)
        if not words or simple.fed or words[0].startswith(("./", "../", "$")) or words[0].endswith("()"):
            continue  # a program with a path or a variable counts as a script anyway
        if simple.source is not None and not comes_from_terminal(simple):
            continue
        if base_name(words[0]) not in HARMLESS and program_name(words[0]) not in HARMLESS:
            return True
    return False


def calls_of(call, config):
    """Returns the calls about which the service must decide before this call may run. No hook sees the text that Codex
    types into a running program. So if the program might run typed text, the list also has a call of `write_stdin`. A
    managed Codex has `unified_exec = false`, so it cannot type."""
    found = [call] + list(call.also)
    command = call.arguments.get("command")
    if call.dialect != "codex" or call.tool != "Bash" or not isinstance(command, str) or call.refused is not None:
        return found
    if (config is None or config != Place(True).config) and may_run_typed(command):
        use_id = call.use_id and call.use_id + ":write_stdin"
        found.append(Call(call.dialect, call.event, call.session_id, "write_stdin", {"command": command}, use_id, None, (), call.cwd))
    return found


# --- shared/json ------------------------------------------------------------------------------------------------------

# Functions that refuse values in JSON.

def once(pairs):
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return read


def whole(digits):
    # The time to read a number grows with the square of its number of digits. Other threads cannot run meanwhile.
    if len(digits) > 400:
        raise ValueError("a number has %d digits" % len(digits))
    return int(digits)


def constant(name):
    raise ValueError("`%s` is not JSON" % name)


def refuse_inexact(arguments):
    """Refuses numbers that the service would round. Otherwise an approval of one number would also cover nearby
    numbers."""
    rest = [arguments]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, (int, float)) and not -LARGEST <= one <= LARGEST:
            raise Refused("the arguments have a number beyond %d, which other programs round: give it as text" % LARGEST)


# --- hook/json --------------------------------------------------------------------------------------------------------

# JSON without the module json.

try:
    # These are the C parts of the module json. Its Python part loads regular expressions, which takes as long as a
    # request to the service.
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    class Reading:
        """The settings that json.JSONDecoder gives to the scanner."""

        strict = True
        object_hook = None
        object_pairs_hook = staticmethod(once)
        parse_float = float
        parse_int = staticmethod(whole)
        parse_constant = staticmethod(constant)
        memo = {}

    scan = make_scanner(Reading())
    encoders = [
        make_encoder(None, None, quote, None, ":", ",", False, False, False)
        for quote in (encode_basestring, encode_basestring_ascii)
    ]
except (ImportError, TypeError, AttributeError):
    scan = encoders = None


def parse_json(text):
    """Reads strict JSON: no repeated names, no NaN, no numbers of more than 400 digits. Raises ValueError."""
    if scan is not None:
        try:
            stripped = text.strip(" \t\r\n")
            value, end = scan(stripped, 0)
            if end == len(stripped):
                return value
        except Exception:
            pass  # on an error, the whole module json reads the text again and raises the right error
    import json

    try:
        return json.loads(text, object_pairs_hook=once, parse_int=whole, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value, ascii_only=False):
    """Returns compact JSON as bytes, in UTF-8 or in ASCII. Half of a surrogate pair is written as its escape. Raises
    ValueError."""
    try:
        if encoders is None:
            import json

            text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
        else:
            text = "".join(encoders[ascii_only](value, 0))
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return to_json(value, True)
    except RecursionError:
        raise ValueError("nested too deeply")


# --- shared/settings --------------------------------------------------------------------------------------------------

# Settings, from the environment and from a settings file.

CONFIG_KEYS = (
    "api_url",
    "api_key",
    "api_key_file",
    "fail_mode",
    "approval_wait",
    "organization_id",
    "allow_http",
    "https_proxy",
    "ca_file",
)

# A project's settings may set environment variables. So if there is a settings file, the environment cannot set the
# values of FILE_ALONE. If the file names the service or a key, the environment also cannot set the service or the
# organization (docs/decisions/0053).
FILE_ALONE = ("fail_mode", "allow_http", "https_proxy", "ca_file")
WHO_IS_ASKED = ("api_url", "organization_id")

# These variables can make OpenSSL trust other authorities, load code, or write the keys of a connection to a file.
OPENSSL_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSLKEYLOGFILE",
)
removed_variables = {}  # the removed values: a server of the gateway can still use them in its `env`


class Settings:
    """The settings for requests to the service, such as its address and the key. If the settings file and the
    environment set the same value, the file's value is used."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        unheard = FILE_ALONE if config is not None else ()
        if any(key in named for key in ("api_url", "api_key", "api_key_file")):
            unheard += WHO_IS_ASKED
        if config is not None:
            for name in OPENSSL_VARIABLES:
                removed_variables[name] = os.environ.pop(name, None)

        def value(key, variable):
            found = named.get(key, os.environ.get(variable) if key not in unheard else None)
            return found.strip() if isinstance(found, str) else found

        mode = value("fail_mode", "SERVICE_FAIL_MODE")
        self.fail_open = mode == "open"
        self.organization_id = value("organization_id", "SERVICE_ORG_ID") or None
        self.wait = seconds(value("approval_wait", "SERVICE_APPROVAL_WAIT"), DEFAULT_WAIT)
        self.api_url = value("api_url", "SERVICE_API_URL")
        self.key = value("api_key", "SERVICE_API_KEY")
        if "api_key_file" in named and "api_key" not in named:
            self.key = read_private(named["api_key_file"], True).decode("utf-8", "replace").strip()
        self.key_file = named.get("api_key_file")
        # An administrator has chosen the organization if the file names an organization and a path for the key. Each
        # user then keeps a key at this path. The key must be of the chosen organization.
        self.must_match = "organization_id" in named and self.key_file is not None and "api_key" not in named
        allow_http = value("allow_http", "SERVICE_ALLOW_HTTP")
        self.allow_http = allow_http in (True, "1", "true", "yes")
        self.proxy = value("https_proxy", "https_proxy")
        if config is None:
            self.proxy = self.proxy or os.environ.get("HTTPS_PROXY")
        self.no_proxy = "" if config is not None else os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self.ca_file = named.get("ca_file")

    def check(self):
        """Refuses settings with which no request is possible."""
        if not self.api_url:
            raise Refused("SERVICE_API_URL is not set: name the service's address")
        if not self.key:
            raise Refused("SERVICE_API_KEY is not set: give the agent a key with the scope `agents:authorize`")
        if not all("!" <= c <= "~" for c in self.key):
            raise Refused("SERVICE_API_KEY has characters that no key has")
        self.secure, self.host, self.port, self.prefix = read_url(self.api_url)
        if not self.secure and not self.allow_http and not is_loopback(self.host):
            raise Refused("SERVICE_API_URL is plain http to another machine: use https, or set SERVICE_ALLOW_HTTP=1")


def seconds(text, default):
    """Reads a number of seconds, at least 0 and below 1,000,000. Returns the default if the text is not such a
    number."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def read_url(url):
    """Splits an address into four parts: whether the address uses https, the host, the port, and the path. The path is
    returned without `/api/v1` at its end. Refuses addresses that must not get the key."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    secure = scheme.lower() == "https"
    if not mark or (not secure and scheme.lower() != "http"):
        raise Refused("SERVICE_API_URL must begin with https:// or http://")
    if any(c in url for c in "?#@\\") or not all("!" <= c <= "~" for c in url):
        raise Refused("SERVICE_API_URL must be an address without user, query or fragment")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port[1:]
    else:
        host, _, port = authority.partition(":")
    if not host or (port and not port.isdigit()):
        raise Refused("SERVICE_API_URL names no host")
    prefix = (slash + path).rstrip("/")
    for version in ("/api/v1", "/v1"):
        if prefix.endswith(version):
            prefix = prefix[: -len(version)]
    return secure, host, int(port) if port else (443 if secure else 80), prefix


def is_loopback(host):
    numbers = host.split(".")
    return host in ("localhost", "::1") or (
        len(numbers) == 4 and numbers[0] == "127" and all(n.isdigit() and int(n) < 256 for n in numbers)
    )


def home():
    """Returns the user's home folder from the system's list of users, because a project's settings may change HOME."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def read_private(path, secret):
    """Returns at most the first MiB of a file. Refuses a file that other users can change. If `secret` is true or the
    file contains an `api_key`, also refuses a file that other users can read."""
    if not isinstance(path, str):
        raise Refused("`api_key_file` and `ca_file` must be paths")
    if path.startswith("~/"):
        path = os.path.join(home(), path[2:])
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(MIB)
    except OSError as error:
        raise Refused("`%s` cannot be read: %s" % (path, error.strerror))
    if os.name == "posix":
        if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
            raise Refused("`%s` can be changed by other users: chown it to its user and chmod go-w" % path)
        if (secret or b'"api_key"' in text) and status.st_mode & 0o077:
            raise Refused("`%s` has a key and can be read by other users: chmod 600" % path)
    return text


def read_config(path):
    """Returns the settings in a settings file. Refuses a file with an unknown setting."""
    try:
        found = parse_json(read_private(path, False).decode("utf-8"))
    except ValueError:
        raise Refused("`%s` is not JSON" % path)
    if not isinstance(found, dict):
        raise Refused("`%s` is not a JSON object" % path)
    unknown = [key for key in found if key not in CONFIG_KEYS]
    if unknown:
        raise Refused("`%s` has the unknown setting `%s`: there are %s" % (path, unknown[0], ", ".join(CONFIG_KEYS)))
    return found


# --- shared/http ------------------------------------------------------------------------------------------------------

# HTTP to the service, over plain sockets.

class Connection:
    """A connection to the service, for one request at a time. All waits of a request end at the time `until`."""

    def __init__(self, settings, until):
        self.settings = settings
        self.until = until
        self.socket = None
        self.buffer = b""
        self.heard = False  # the service has sent a byte of its answer
        self.bounded = False  # the answer says where it ends, so the connection need not close
        self.reusable = False  # the service keeps the connection open after its answer

    def left(self):
        left = self.until - time.monotonic()
        if left <= 0:
            raise Unreachable("no answer in time")
        return left

    def open(self):
        proxy = proxy_of(self.settings)
        self.socket = connect(*(proxy[:2] if proxy else (self.settings.host, self.settings.port)), left=self.left)
        if proxy:
            self.tunnel(proxy[2])
            self.buffer, self.heard = b"", False
        if self.settings.secure:
            import ssl

            authorities = self.settings.ca_file
            if authorities is not None:
                authorities = read_private(authorities, False).decode("ascii", "replace")
            context = ssl.create_default_context(cadata=authorities)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            self.socket.settimeout(self.left())
            self.socket = context.wrap_socket(self.socket, server_hostname=self.settings.host)

    def tunnel(self, credentials):
        """Asks the proxy for a tunnel. The data in the tunnel is TLS to the service."""
        target = "%s:%d" % (bracketed(self.settings.host), self.settings.port)
        lines = ["CONNECT %s HTTP/1.1" % target, "Host: " + target] + credentials
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        status, _ = self.head()
        if status != 200:
            raise Unreachable("the proxy answered %d" % status)

    def close(self):
        if self.socket is not None:
            self.socket.close()

    def exchange(self, method, path, body, opened=None):
        """Sends one request and returns the status and body of its answer. Calls `opened` when the connection is open
        and no byte of the request has been sent yet.

        Raises Unreachable if the connection fails, if no answer comes in time, or if the status is 5xx. Raises Refused
        if the answer is not HTTP, is cut short, or is too long. Does not follow redirects, so the key goes nowhere
        else."""
        self.heard, self.reusable = False, False
        try:
            if self.socket is None:
                self.open()
            if opened is not None:
                opened()
            self.ask(method, path, body)
            status = 100
            while status < 200 and status != 101:
                status, headers = self.head()
            if status >= 500:
                raise Unreachable("it answers %d" % status)
            if status != 200:
                return status, self.help_text(headers)
            answered = self.body(headers)
            closing = [value.lower() for value in headers.get("connection", [])]
            self.reusable = self.bounded and "close" not in closing
            return status, answered
        except OSError as error:
            if self.heard and "timed out" not in str(error):
                raise Refused("the service's answer was cut short")
            raise Unreachable(plain(error.strerror or str(error) or type(error).__name__, 200))

    def ask(self, method, path, body):
        lines = [
            "%s %s/api/v1%s HTTP/1.1" % (method, self.settings.prefix, path),
            "Host: %s:%d" % (bracketed(self.settings.host), self.settings.port),
            "Authorization: Bearer " + self.settings.key,
            "Accept: application/json",
        ]
        lines += HEADERS
        if body is not None:
            lines += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
        try:
            self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the service may have answered before it read the whole request

    def help_text(self, headers):
        """Returns the body of an error. This body only explains the error to people. So reading it takes at most one
        second. Returns no bytes if the body cannot be read."""
        self.until = min(self.until, time.monotonic() + 1)
        try:
            return self.body(headers)
        except (Refused, Unreachable, OSError):
            return b""

    def send(self, data):
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def receive(self):
        """Receives more bytes. Returns False at the end of the data."""
        self.socket.settimeout(self.left())
        more = self.socket.recv(65536)
        self.buffer += more
        self.heard = self.heard or len(more) > 0
        return len(more) > 0

    def head(self):
        """Returns the status and the headers. The headers map each name, in lower case, to the list of its values."""
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > 65536 or not b"HTTP/1.".startswith(self.buffer[:7]):
                raise Refused("the service's answer is not HTTP")
            if not self.receive():
                if not self.buffer:
                    raise Unreachable("the connection was closed without an answer")
                raise Refused("the service's answer was cut short")
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or len(words[1]) != 3 or not words[1].isdigit():
            raise Refused("the service's answer is not HTTP")
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise Refused("the service's answer is not HTTP")
            headers.setdefault(name.lower(), []).append(value.strip())
        return int(words[1]), headers

    def body(self, headers):
        """Reads the whole body. Refuses a body that is longer or shorter than its declared length, or that declares two
        lengths."""
        self.bounded = True
        coding = [value.lower() for value in headers.get("transfer-encoding", [])]
        lengths = set(headers.get("content-length", []))
        if coding:
            if coding != ["chunked"] or lengths:
                raise Refused("the service's answer is not HTTP")
            return self.chunks()
        if lengths:
            length = lengths.pop()
            if lengths or not length.isdigit() or not length.isascii():
                raise Refused("the service's answer has no clear length")
            body = self.take(int(length) if len(length) < 12 else MAX_ANSWER + 1)
            if self.buffer:
                raise Refused("the service's answer is longer than it says")
            return body
        self.bounded = False
        while self.receive():
            self.limit(len(self.buffer))
        return self.buffer

    def chunks(self):
        self.bounded = False  # the trailer after the last chunk is not read
        whole = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.limit(len(self.buffer))
                self.more()
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            digits = line.split(b";")[0].strip()
            # int() also accepts characters that are not hex digits, such as `_`. Other programs do not accept these
            # characters, so they could read another length.
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                raise Refused("the service's answer is not HTTP")
            size = int(digits, 16) if len(digits) < 12 else MAX_ANSWER + 1
            self.limit(len(whole) + size)
            if size == 0:
                return whole
            whole += self.take(size)
            if self.take(2) != b"\r\n":
                raise Refused("the service's answer is not HTTP")

    def take(self, length):
        self.limit(length)
        while len(self.buffer) < length:
            self.more()
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def more(self):
        if not self.receive():
            raise Refused("the service's answer was cut short")

    def limit(self, size):
        if size > MAX_ANSWER:
            raise Refused("the service's answer is too long")


def connect(host, port, left):
    """Tries the addresses of the host in order. Returns a TCP connection to the first address that accepts the
    connection."""
    try:
        import _socket as sockets  # the module `socket` takes a third of the start time
    except ImportError:
        import socket as sockets

    failed = None
    # The host is given as bytes. Python would treat text as an international name, which loads large tables.
    for family, kind, protocol, _, address in sockets.getaddrinfo(
        host.encode("ascii"), port, 0, sockets.SOCK_STREAM
    ):
        one = sockets.socket(family, kind, protocol)
        try:
            one.settimeout(left())
            one.connect(address)
            one.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            return one
        except OSError as error:
            failed = error
            one.close()
    raise failed or OSError("the name has no address")


def bracketed(host):
    return "[" + host + "]" if ":" in host else host


def proxy_of(settings):
    """Returns the host, port and credential headers of the proxy. Returns None if the request must go to the service
    directly. A proxy is used only for https, so that no proxy can read the key."""
    named = settings.proxy
    if not named or not settings.secure or is_loopback(settings.host):
        return None
    if not isinstance(named, str):
        raise Refused("`https_proxy` must be a text")
    for entry in settings.no_proxy.split(","):
        entry = entry.strip().lower().lstrip(".")
        host = settings.host.lower()
        if entry and (entry == "*" or host == entry or host.endswith("." + entry)):
            return None
    scheme, mark, rest = named.partition("://")
    if mark and scheme.lower() != "http":
        raise Refused("the proxy of HTTPS_PROXY must be an http:// address")
    authority = (rest if mark else named).split("/")[0]
    user, at, place = authority.rpartition("@")
    host, _, port = place.partition(":")
    if not host or (port and not port.isdigit()):
        raise Refused("HTTPS_PROXY names no host")
    credentials = []
    if at:
        from base64 import b64encode
        from urllib.parse import unquote

        encoded = b64encode(unquote(user).encode("utf-8")).decode("ascii")
        credentials = ["Proxy-Authorization: Basic " + encoded]
    return host, int(port or 80), credentials


# --- hook/request -----------------------------------------------------------------------------------------------------

# Requests to the service.

def request(settings, method, path, body, until):
    """Sends one request over a new connection. Returns the status and body of the answer. Raises Unreachable and
    Refused."""
    connection = Connection(settings, until)
    try:
        return connection.exchange(method, path, body)
    finally:
        connection.close()


def ask(settings, method, path, body, until):
    """Sends a request and returns the JSON object of the answer. Raises Unreachable as `request` does. Raises Refused
    if the status is not 200, or if the answer is not a JSON object."""
    return answered_object(*request(settings, method, path, body, until))


# --- shared/decision --------------------------------------------------------------------------------------------------

# The service's decisions.

def answered_object(status, answered):
    """Returns the JSON object of an answer. Raises Refused if the status is not 200 or the answer is not a JSON
    object."""
    try:
        found = parse_json(answered.decode("utf-8"))
    except ValueError:
        found = None
    if status != 200:
        error = found.get("error") if isinstance(found, dict) else None
        told = text_of(error, "message") if isinstance(error, dict) else None
        hint = ": check SERVICE_API_KEY" if status in (401, 403) else ": check SERVICE_API_URL"
        kind = Forbidden if status == 403 else Refused
        raise kind("the service answers %d%s%s" % (status, hint, " (%s)" % plain(told, 300) if told else ""))
    if not isinstance(found, dict):
        raise Refused("the service's answer cannot be read: it is not a JSON object")
    return found


def decide(ask, until, given_up=lambda: False):
    """Returns the service's decision on a call. `ask` sends the question. If no answer comes, sends the question again,
    at most three times in all. This does no harm, because the service repeats its decision for the same call."""
    for pause in (0.15, 0.5, None):
        try:
            decided = ask()
            break
        except Unreachable:
            if pause is None or time.monotonic() + pause >= until or given_up():
                raise
            time.sleep(pause)
    verdict = decided.get("decision")
    if verdict == "allow" and text_of(decided, "decision_id") is not None:
        return decided
    if verdict == "deny":
        return decided
    if verdict == "require_approval" and is_approval(decided.get("approval_id")):
        return decided
    raise Refused("the service's answer cannot be read: it is not a decision")


def is_approval(value):
    return isinstance(value, str) and 0 < len(value) <= 100 and all(c.isalnum() or c in "_-" for c in value)


def named_rule(decided):
    rule = text_of(decided, "rule_name")
    return " by rule `%s`" % rule if rule is not None else ""


def blocked(decided):
    """Says why a call may not run, in words for the model."""
    reason, rule = text_of(decided, "reason"), text_of(decided, "rule_name")
    why = [text_of(decided, "explanation")]
    if reason != rule:
        why.insert(0, reason)
    told = ": ".join(each for each in why if each)
    return "blocked%s%s" % (named_rule(decided), ": " + told if told else "")


def held(decided, state):
    return "held%s: approval %s %s" % (named_rule(decided), decided["approval_id"], state)


def ended(decided, found):
    """Says that the approval of a held call ended without letting the call run. `found` is the service's answer about
    the approval."""
    if found["status"] == "cancelled" and found.get("session_status") == "revoked":
        return held(decided, "was cancelled, because this session was revoked: it can make no more calls")
    told = held(decided, "has expired" if found["status"] == "expired" else "was " + found["status"])
    comment = text_of(found, "comment")
    return told + (": " + comment if comment else "")


# --- hook/organization ------------------------------------------------------------------------------------------------

# Checks to which organization a key belongs.

def refuse_nobody(config, settings):
    """Refuses a managed settings file that names no organization. Otherwise a user could use the key of any
    organization, and so the rules of that organization."""
    if config is not None and config == Place(True).config and settings.organization_id is None:
        told = "`%s` names no organization, so a key of any one would count: run `install --managed` with SERVICE_ORG_ID"
        raise Refused(told % config)


def refuse_strange_key(settings, until):
    """Refuses a key that is not of the organization that an administrator has named. This happens before the call is
    sent. The service is asked once whose key it is, and a note stores that the key is right. A forged note does no
    harm: the service decides by the rules of the named organization, or denies the call. So a key that can only ask for
    decisions is not refused, although it may not read whose key it is."""
    if not settings.must_match:
        return
    path, noted = note_of_key(settings)
    try:
        with open(path, "rb") as file:
            if file.read(100) == noted:
                return
    except OSError:
        pass
    try:
        if key_organization(settings, until) != settings.organization_id:
            raise Refused(strange_key(settings))
    except Forbidden:
        pass
    draft = "%s.%d" % (path, os.getpid())
    try:
        os.makedirs(own_folder(), 0o700, True)
        with open(draft, "wb") as file:
            file.write(noted)
        os.replace(draft, path)
    except OSError:
        pass  # the next call asks again


def key_organization(settings, until):
    """Returns the organization of the key. Raises Forbidden if the key can only ask for decisions."""
    return text_of(ask(settings, "GET", "/me", None, until), "organization_id")


def strange_key(settings):
    told = "the key in `%s` is not of the organization `%s`, in which every call on this machine is decided: make a key there"
    return told % (settings.key_file, plain(settings.organization_id, 100))


def note_of_key(settings):
    """Returns the path of the note, and its text for this key. The text does not reveal the key."""
    from binascii import crc32

    name = "\n".join((settings.api_url, settings.organization_id, settings.key))
    return os.path.join(own_folder(), "key-checked"), b"%08x" % crc32(name.encode("utf-8", "replace"))


def checked_keys(place):
    """Returns a list with the path of this user's note. The list is empty if a managed hook still reads the note. HOME
    may name any folder, so a file that is not a note is left out."""
    path = os.path.join(own_folder(), "key-checked")
    if not place.managed and os.path.exists(Place(True).hook):
        return []
    try:
        with open(path, "rb") as file:
            text = file.read(100)
    except OSError:
        return []
    return [path] if len(text) == 8 and not text.strip(b"0123456789abcdef") else []


# --- hook/surroundings ------------------------------------------------------------------------------------------------

# What the service is told of a shell's call beside its arguments: the folder, and the content of scripts.

MOST_FOLDERS = 8  # folders in which a script of one call is looked for
MOST_WORDS = 400  # words of one command that are looked up on the disk
MOST_SCRIPTS = 32  # files of one call that are sent
LONGEST_PATH = 4096  # characters: the service refuses longer paths
MOST_SCRIPT = 64 * MIB  # of a larger file, the service is told only the path
MOST_OF_SCRIPTS = 256 * MIB  # bytes of all scripts of one call
SCRIPT_SECONDS = 1.5  # after this time, no further file is read

# The arguments that have a shell's command, or what is typed into one.
COMMANDS = ("command", "cmd", "script", "chars", "input", "data", "text")
# The service knows the folder of a call under these names (src/policy/readers/folders.ts).
OWN_FOLDERS = ("workdir", "cwd", "directory", "dir_path", "working_directory", "workingDirectory", "working_dir")
# Characters that end a word somewhere in a command, for example in the text of `sh -c`.
BETWEEN_WORDS = {ord(c): " " for c in "\t\r\n\0;&|<>()`'\"{}=,$!"}
# Characters that a shell removes from a word.
QUOTES = {ord(c): None for c in "'\"\\"}
# Words of a command that enters a folder. They stand in front of its name.
ENTERING = ("cd", "pushd", "chdir", "-C", "--directory", "--chdir", "--cwd", "--prefix")
# Programs that run a file without its suffix.
SUFFIXES = (".js", ".cjs", ".mjs", ".ts", ".py", "/index.js", "/__main__.py")
# Files of the folder that say what a program runs: {program: names}. The service has the same table
# (src/shell/tables/interpreters.ts).
FOLDER_FILES = {
    program: names.split()
    for programs, names in (
        ("make gmake", "GNUmakefile makefile Makefile"),
        ("npm npx yarn pnpm bun", "package.json"),
        ("just", "justfile Justfile .justfile"),
        ("task", "Taskfile.yml Taskfile.yaml"),
        ("docker podman", "Dockerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml"),
        ("docker-compose podman-compose", "docker-compose.yml docker-compose.yaml compose.yml compose.yaml"),
        ("rake", "Rakefile"),
        ("gulp", "gulpfile.js"),
        ("grunt", "Gruntfile.js"),
        ("inv invoke", "tasks.py"),
        ("fab", "fabfile.py"),
        ("cargo", "build.rs"),
        ("pip pip3", "setup.py"),
        ("pytest", "conftest.py"),
        ("gradle", "build.gradle build.gradle.kts"),
        ("mvn", "pom.xml"),
        ("composer", "composer.json"),
    )
    for program in programs.split()
}
# Names of the present folder and of HOME in front of a path.
NAMED_FOLDERS = (("$PWD/", "./"), ("${PWD}/", "./"), ("$(pwd)/", "./"), ("`pwd`/", "./"), ("$HOME/", "~/"), ("${HOME}/", "~/"))


def surroundings(call):
    """Returns the fields of an authorize request that say where a call runs, and what a shell runs. A folder that the
    service cannot read is sent as it is, so that the service denies the call."""
    if call.cwd is None or call.tool in OTHER_TOOLS or call.tool.startswith("mcp__"):
        return {}
    told = {"cwd": call.cwd}
    if call.tool not in SHELL_TOOLS or not is_absolute(call.cwd):
        return told
    known, folders = own_folders(call)
    words = words_in([call.arguments.get(name) for name in COMMANDS])
    real = [path for folder in folders for path in (folder, real_path(folder)) if path is not None and path not in known]
    real += entered_links(words, folders)
    if real:
        told["real_folders"] = sorted(set(real), key=real.index)[:MOST_FOLDERS]
    scripts = scripts_in(words, folders)
    if scripts:
        told["scripts"] = scripts
    return told


def own_folders(call):
    """Returns the client's folder, and those that the call names itself, as absolute paths in plain form. The first list
    is as the service reads them, and the second one as a shell does, which replaces `~`."""
    own = [call.arguments.get(name) for name in OWN_FOLDERS]
    given = [call.cwd] + [each for each in own if isinstance(each, str) and each.strip()]
    return (
        [collapsed(os.path.join(call.cwd, each)) for each in given],
        [collapsed(os.path.join(call.cwd, os.path.expanduser(each))) for each in given],
    )


def real_path(path):
    """Returns a path without symbolic links; None if it cannot be read."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def words_in(given):
    """Returns what may be words of these commands. A quote can end a word or stand in it, so each text is read in three
    ways: with quotes between words, without them, and as a shell reads words with blanks."""
    words = []
    for text in texts_in(given):
        if len(text) >= MIB:
            continue
        read = [text]
        if any(c in text for c in "'\"\\"):
            read.append(text.translate(QUOTES))
        for each in read:
            for name, place in NAMED_FOLDERS:
                each = each.replace(name, place)
            words += each.translate(BETWEEN_WORDS).split()
        words += [word for word in quoted_words(text) if " " in word] if len(read) > 1 else ()
    words += [word for each in given if isinstance(each, list) for word in each if isinstance(word, str) and " " in word]
    # In `PATH=./bin:$PATH deploy`, a folder stands in front of a colon.
    parts = [part for word in words if ":" in word for part in word.split(":") if part]
    return list(dict.fromkeys(parts + words))[:MOST_WORDS]


def quoted_words(text):
    from shlex import split

    try:
        return split(text)
    except ValueError:
        return []


def entered_links(words, folders):
    """Returns the folders that the command enters by a symbolic link, without links."""
    found = []
    for before, word in zip(words, words[1:]):
        for folder in folders if before in ENTERING else ():
            path = os.path.join(folder, os.path.expanduser(word))
            real = real_path(path)
            if real is not None and real != collapsed(path) and os.path.isdir(real):
                found.append(real)
    return found


def scripts_in(words, folders):
    """Returns the files that these words of commands name: `word`, `path` and `sha256`. The service knows which of them
    the command runs. A word can name a file in each folder that the command may enter, so all of them are sent."""
    found, folders = [], list(folders)
    if any(word in ("cd", "HOME", "~") for word in words):
        folders.append(os.path.expanduser("~"))
    until, left = time.monotonic() + SCRIPT_SECONDS, MOST_OF_SCRIPTS
    named = [(word, word) for word in words] + [(word, name) for word in words for name in FOLDER_FILES.get(word, ())]
    for word, path in ((word, path) for word, name in named for folder in list(folders) for path in paths_of(name, folder)):
        status = status_of(path)
        if status is None:
            continue
        if is_folder(status) and path not in folders and len(folders) < MOST_FOLDERS:
            folders.append(path)
        if status.st_mode & 0o170000 != 0o100000 or len(found) == MOST_SCRIPTS:
            continue
        real = real_path(path)
        if real is None or not real.isprintable() or len(real) > LONGEST_PATH:
            continue
        if any(each["word"] == word and each["path"] == real for each in found):
            continue
        may_read = status.st_size <= min(MOST_SCRIPT, left) and time.monotonic() < until
        sha256 = content_checksum(real, until) if may_read else None
        left -= status.st_size if may_read else 0
        found.append({"word": word, "path": real, "sha256": sha256})
    return found


def paths_of(word, folder):
    """Returns the paths that a word may stand for in this folder. A word with a pattern stands for several."""
    path = os.path.join(folder, os.path.expanduser(word))
    folder, name = os.path.split(path)
    if not any(c in path for c in "*?["):
        return [path] if os.path.isfile(path) else [path] + [path + suffix for suffix in SUFFIXES]
    if any(c in folder for c in "*?["):
        return []
    from fnmatch import filter

    try:
        return [os.path.join(folder, each) for each in sorted(filter(os.listdir(folder), name))[:MOST_SCRIPTS]]
    except (OSError, ValueError):
        return []


def texts_in(given):
    """Returns the texts in commands, which may also be lists of words."""
    for each in given:
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            yield " ".join(word for word in each if isinstance(word, str))


def status_of(path):
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def is_folder(status):
    return status.st_mode & 0o170000 == 0o040000


def content_checksum(path, until):
    """Returns the SHA-256 of a file; None if it cannot be read in time. Another program may replace the file by a pipe
    or a device, so it is opened without waiting and looked at again."""
    from hashlib import sha256

    read, size = sha256(), 0
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0))
        try:
            if os.fstat(file).st_mode & 0o170000 != 0o100000:
                return None
            while time.monotonic() < until:
                chunk = os.read(file, MIB)
                if not chunk:
                    return read.hexdigest()
                size += len(chunk)
                if size > MOST_SCRIPT:
                    return None
                read.update(chunk)
        finally:
            os.close(file)
    except OSError:
        pass
    return None


# --- hook/pre ---------------------------------------------------------------------------------------------------------

# The command `pre`: may this call run?

def authorize_body(call, settings):
    """Returns the body of an authorize request. Refuses a body over the limit, and names its size."""
    asked = {
        "agent": {"name": AGENT_NAMES.get(call.dialect, call.dialect or "agent"), "kind": "coding_agent"},
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
    }
    if settings.organization_id is not None:
        asked["organization_id"] = settings.organization_id
    if call.use_id is not None:
        asked["tool_use_id"] = call.use_id
    asked.update(surroundings(call))
    try:
        body = to_json(asked)
    except ValueError as error:
        raise Refused("the call's arguments cannot be read: %s" % error)
    if len(body) > MAX_BODY:
        raise Refused(
            "the call's arguments are %s bytes long, over the %s that are checked: split the call"
            % (format(len(body), ","), format(MAX_BODY, ","))
        )
    return body


def pre(answer, options):
    """Asks about one call. If the call is held, waits for an approver. Then answers the client."""
    call, settings, asked = question(answer, options)
    # The fail mode is set only after the call was read. Otherwise, in open mode, text of the model could make the hook
    # fail and so allow the call.
    answer.fail_open = settings.fail_open
    refuse_strange_key(settings, min(time.monotonic() + ASK_SECONDS, answer.deadline - 1))
    flush_ends(settings, call, options)
    give_up = min(time.monotonic() + settings.wait, answer.deadline - 1)
    for each, body in asked:
        permit(answer, settings, each, body, give_up)
    answer.allow()


def permit(answer, settings, call, body, give_up):
    """Returns if the service allows the call. Otherwise answers the client with a denial, or raises Refused."""
    answer.asking = True
    decided = decision(answer, settings, body)
    approved = None
    while decided["decision"] == "require_approval":
        # The service has held the call. From now on, no failure may let the call run, even in fail mode `open`.
        answer.fail_open = False
        answer.waiting_for, answer.asking = (settings, decided), False
        if decided["approval_id"] == approved:
            raise Refused(held(decided, "is approved, but does not allow the call"))
        wait_for_approval(answer, settings, decided, give_up)
        approved = decided["approval_id"]
        # An approval alone does not let the call run: the service decides once more. Only the decision `allow` lets the
        # call run.
        try:
            # The scripts of the call may have changed while it was held, so they are read again.
            decided = decision(answer, settings, authorize_body(call, settings))
        except Unreachable as error:
            raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
        answer.waiting_for = None
    answer.asking = False
    if decided["decision"] != "allow":
        answer.deny(blocked(decided))


def question(answer, options):
    """Returns the client's call, the settings, and each call about which the service is asked with the body of its request."""
    event = read_event()
    answer.dialect = detect(options.dialect, event)
    call = read_call(answer.dialect, event)
    answer.event = call.event
    if answer.dialect != options.dialect:
        # The command line was written for another client, and so was its time-out. This client may give up sooner. So
        # the earlier deadline counts: the one from the command line, or the one from this client's default.
        limit = options.started + patience(answer.dialect, None)
        answer.deadline = limit if options.timeout is None else min(limit, answer.deadline)
    settings = Settings(options.config)
    settings.check()
    refuse_nobody(options.config, settings)
    if call.refused is not None:
        raise Refused(call.refused)
    command = call.arguments.get("command")
    if call.dialect == "codex" and call.tool == "Bash" and isinstance(command, str) and opens_prompt(command):
        raise Refused(
            "this may run what Codex types into it later, which cannot be checked: give the program its commands as "
            "arguments or in a file"
        )
    return call, settings, [(each, authorize_body(each, settings)) for each in calls_of(call, options.config)]


def decision(answer, settings, body):
    until = min(time.monotonic() + ASK_SECONDS, answer.deadline - 1)
    return decide(lambda: ask(settings, "POST", "/authorize", body, until), until)


def wait_for_approval(answer, settings, decided, give_up):
    """Returns when an approver has approved the call. Raises Refused if the approval ends in another way, or is still
    open at `give_up`."""
    path = "/authorize/approvals/" + decided["approval_id"]
    while True:
        left = give_up - time.monotonic()
        if left <= 0:
            raise Refused(pending(decided))
        asked_at = time.monotonic()
        wait = max(0, min(POLL_SECONDS, int(left)))
        try:
            found = ask(settings, "GET", "%s?wait=%d" % (path, wait), None, min(asked_at + wait + 10, answer.deadline - 1))
        except Unreachable:
            # The service may be restarting. Its approvals survive a restart, so the wait goes on.
            found = {"status": "pending"}
        status = found.get("status")
        if status == "approved":
            return
        if status in ("rejected", "expired", "cancelled"):
            raise Refused(ended(decided, found))
        if status != "pending":
            raise Refused(held(decided, "has a status that cannot be read"))
        # Requests begin at least a second apart, even if the service answers at once.
        time.sleep(max(0.0, min(1.0 - (time.monotonic() - asked_at), give_up - time.monotonic())))


def pending(decided):
    return held(decided, "is still pending; have it approved, then retry the identical call after approval")


def withdraw(answer):
    """Withdraws the approval of a held call, because the client has given the call up. If the service has not decided
    yet, waits at most 1.5 s for the decision, which may hold the call."""
    limit = time.monotonic() + 1.5
    while answer.asking and time.monotonic() < limit:
        time.sleep(0.02)
    if answer.waiting_for is None:
        return
    settings, decided = answer.waiting_for
    try:
        path = "/authorize/approvals/%s/cancel" % decided["approval_id"]
        request(settings, "POST", path, b"{}", time.monotonic() + 1.5)
    except (Unreachable, Refused, OSError):
        pass


# --- hook/after -------------------------------------------------------------------------------------------------------

# The commands `post` and `end`, and the notes of ended sessions. A note stays until the service knows of the end.

def outcome_of(event):
    """Returns the outcome of a finished call, `ok` or `error`. The output itself stays on this machine."""
    name = event.get("hook_event_name", event.get("hookEventName"))
    answered = event.get("tool_response")
    failed = name in ("PostToolUseFailure", "postToolUseFailure") or (
        isinstance(answered, dict) and (answered.get("error") or answered.get("is_error") or answered.get("isError"))
    )
    return "error" if failed or (name is None and "error" in event) else "ok"


def post(answer, options):
    """Reports a finished call: its name and arguments, never its output."""
    event = read_event()
    call = read_call(detect(options.dialect, event), event)
    settings = Settings(options.config)
    settings.check()
    for each in calls_of(call, options.config):
        report(each, outcome_of(event), settings, answer)
    answer.allow()


def report(call, outcome, settings, answer):
    seen = {
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
        "outcome": outcome,
    }
    if call.use_id is not None:
        seen["tool_use_id"] = call.use_id
    try:
        body = to_json(seen)
    except ValueError:
        body = None
    if body is None or len(body) > MAX_BODY:
        # The hook refused this call, because these arguments cannot be sent. But the call ran anyway, so the report
        # says why the arguments are missing.
        seen["tool_input"] = {"unreadable": True} if body is None else {"too_long": len(body)}
        body = to_json(seen)
    ask(settings, "POST", "/authorize/observe", body, answer.deadline - 0.5)


def end(answer, options):
    """Reports the end of the session. A note stays on this machine until the service has accepted the report. If the
    service does not accept the report within a second, a background process tries for a minute. After that, the next
    `pre` starts another try."""
    session_id = session_of(read_event())
    if session_id is None:
        raise Refused("the client named no session")
    settings = Settings(options.config)
    settings.check()
    # The note is written first, because clients end this process soon, even before the request is done.
    note = keep_end(settings, session_id)
    if send_end(settings, session_id, time.monotonic() + 1.0):
        if note is not None:
            discard(note)
    elif note is not None:
        start_beside("deliver", options)
    answer.allow()


def send_end(settings, session_id, until):
    """Reports the end of a session. Returns true if the service has accepted the report, or has refused it for good.
    Returns false if another try makes sense."""
    try:
        body = to_json({"session_id": session_id, "reason": "the client's session ended"})
        status, _ = request(settings, "POST", "/authorize/sessions/end", body, until)
        return status != 429
    except Unreachable:
        return False
    except Refused:
        return True


def spool():
    """Returns the folder of the notes. There is one note for each ended session that the service does not know of yet.
    The note is a file that contains only the session's id."""
    return os.path.join(own_folder(), "ended-sessions")


def own_folder():
    """Returns this program's folder in the user's home."""
    if os.name == "nt":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "Countersign")
    return os.path.join(os.path.expanduser("~"), ".countersign")


def end_file(settings_url, session_id):
    from binascii import crc32, hexlify

    where = "%08x" % crc32((settings_url or "").encode("utf-8", "replace"))
    return where + "-" + hexlify(session_id.encode("utf-8", "replace")[:90]).decode("ascii")


def keep_end(settings, session_id):
    """Writes the note of an ended session. Returns the path of the note, or None if it cannot be written."""
    folder = spool()
    name = os.path.join(folder, end_file(settings.api_url, session_id))
    draft = "%s.%d" % (name, os.getpid())
    try:
        os.makedirs(folder, 0o700, True)
        with open(draft, "wb") as file:
            file.write(session_id.encode("utf-8", "replace"))
        os.replace(draft, name)
    except OSError:
        return None
    return name


def left_ends(folder):
    """Returns the names of the notes in the folder. HOME may name any folder, so other files are left out. A folder
    that another user owns or can change is not read."""
    try:
        status = os.lstat(folder)
        names = os.listdir(folder)
    except OSError:
        return []
    if os.name == "posix" and (status.st_mode & 0o170022 != 0o040000 or status.st_uid != os.getuid()):
        return []
    digits = "0123456789abcdef"
    return [
        name for name in names if name[8:9] == "-" and not name[:8].strip(digits) and not name[9:].strip(digits + ".")
    ]


def flush_ends(settings, call, options):
    """Handles the notes of ended sessions. Deletes the note of this session, because the session goes on. Sends the
    other notes in a background process."""
    folder = spool()
    names = [name for name in left_ends(folder) if "." not in name]
    if not names:
        return
    own = end_file(settings.api_url, call.session_id)
    if own in names:
        names.remove(own)
        try:
            os.unlink(os.path.join(folder, own))
        except OSError:
            pass
    if names:
        start_beside("flush", options)


def start_beside(command, options):
    """Starts this program as a background process, independent of the client and its terminal."""
    import subprocess

    words = [sys.executable, "-I", "-S", os.path.abspath(__file__), command]
    if options.config is not None:
        words += ["--config", options.config]
    null = subprocess.DEVNULL
    detached = getattr(subprocess, "DETACHED_PROCESS", 0)  # Windows has no process sessions
    try:
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True, creationflags=detached)
    except OSError:
        pass


def deliver(answer, options):
    """Tries for a minute to send the notes of ended sessions."""
    pause = 1
    while not flush_all(options):
        time.sleep(pause)
        pause *= 2
    answer.allow()


def flush(answer, options):
    """Tries once to send the notes of ended sessions."""
    flush_all(options)
    answer.allow()


def flush_all(options):
    """Reports the noted sessions of this service, and deletes their notes. Also deletes every note that is older than
    seven days. Returns false at the first report that fails and can be tried again; otherwise true."""
    settings = Settings(options.config)
    settings.check()
    folder = spool()
    for name in sorted(left_ends(folder)):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                session_id = file.read(4096).decode("utf-8", "replace")
            if time.time() - os.stat(path).st_mtime > 7 * 86400:
                os.unlink(path)
            elif "." not in name and name == end_file(settings.api_url, session_id):
                if not send_end(settings, session_id, time.monotonic() + 5):
                    return False
                os.unlink(path)
        except FileNotFoundError:
            pass  # another process has sent it already
    return True


# --- hook/clients -----------------------------------------------------------------------------------------------------

# The clients, and the paths of their settings.

SECONDS = {"pre": 90, "post": 15, "end": 2}

# For each client: its events, each with the hook's command that the client starts on this event.
EVENTS = {
    "claude": (("PreToolUse", "pre"), ("PostToolUse", "post"), ("PostToolUseFailure", "post"), ("SessionEnd", "end")),
    "codex": (("PreToolUse", "pre"), ("PostToolUse", "post"), ("SessionEnd", "end")),
    "gemini": (("BeforeTool", "pre"), ("AfterTool", "post"), ("SessionEnd", "end")),
    "copilot": (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end")),
    "cursor": (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end")),
    "opencode": (("tool.execute.before", "pre"), ("tool.execute.after", "post"), ("dispose", "end")),
}

# The paths of a client's settings. The first path is below the user's home. The other three are for all users: on
# Linux, macOS and Windows. None means that no such file is known.
SETTINGS_FILES = {
    "claude": (
        ".claude/settings.json",
        "/etc/claude-code/managed-settings.json",
        "/Library/Application Support/ClaudeCode/managed-settings.json",
        "C:\\Program Files\\ClaudeCode\\managed-settings.json",
    ),
    "codex": (".codex/hooks.json", "/etc/codex/requirements.toml", "/etc/codex/requirements.toml", None),
    "gemini": (
        ".gemini/settings.json",
        "/etc/gemini-cli/settings.json",
        "/Library/Application Support/GeminiCli/settings.json",
        "C:\\ProgramData\\gemini-cli\\settings.json",
    ),
    "copilot": (
        ".copilot/hooks/countersign.json",
        "/etc/github-copilot/policy.d/countersign.json",
        "/etc/github-copilot/policy.d/countersign.json",
        "C:\\ProgramData\\GitHub\\Copilot\\policy.d\\countersign.json",
    ),
    "copilot-policy": (
        None,
        "/etc/github-copilot/managed-settings.json",
        "/etc/github-copilot/managed-settings.json",
        None,
    ),
    "cursor": (
        ".cursor/hooks.json",
        "/etc/cursor/hooks.json",
        "/Library/Application Support/Cursor/hooks.json",
        "C:\\ProgramData\\Cursor\\hooks.json",
    ),
    "opencode": (
        ".config/opencode/plugin/countersign.js",
        "/etc/opencode/opencode.json",
        "/Library/Application Support/opencode/opencode.json",
        "C:\\ProgramData\\opencode\\opencode.json",
    ),
}
# A user can choose another folder for a client's settings with these variables. Example: CLAUDE_CONFIG_DIR names a
# folder that replaces `.claude`.
HOME_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "copilot": "COPILOT_HOME"}

# Claude Code reads `onFailure` from this version on. An older version runs the call if a hook fails.
CLAUDE_MINIMUM = "2.1.295"
# For each client: the oldest version that blocked denied calls in tests.
MINIMUM_VERSIONS = {"claude": CLAUDE_MINIMUM, "codex": "0.169.0", "gemini": "0.61.0", "copilot": "1.0.102", "opencode": "1.18.33"}
PROGRAMS = {"claude": "claude", "codex": "codex", "gemini": "gemini", "copilot": "copilot", "opencode": "opencode"}
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "copilot": "@github/copilot",
    "opencode": "opencode-ai",
}

OUR_NAME = "service_hook"
OUR_FILE = OUR_NAME + ".py"
TOML_MARK = "  # countersign"


def gemini_home():
    """Returns the folder that contains `.gemini`. For Gemini CLI, GEMINI_CLI_HOME replaces the user's home."""
    return os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~")


class Place:
    """The folders of one installation: for one user, or for everybody on the machine (managed)."""

    def __init__(self, managed, root=""):
        self.managed = managed
        self.root = root
        if not managed:
            self.folder = own_folder()
        elif os.name == "nt":
            self.folder = "C:\\Program Files\\Countersign"
        else:
            self.folder = "/Library/Application Support/Countersign" if sys.platform == "darwin" else "/opt/countersign"
        self.hook = os.path.join(self.folder, OUR_FILE)
        self.config = os.path.join(self.folder, "hook.json")
        self.record = os.path.join(self.folder, "installed.json")

    def at(self, path):
        """Returns the path inside the folder of --root. Without --root, returns the path unchanged."""
        return self.root + path if self.root else path

    def settings_file(self, client):
        if client == OPENCODE_PLUGIN:
            return os.path.join(self.folder, PLUGIN_FILE)
        user, linux, mac, windows = SETTINGS_FILES[client]
        if self.managed:
            path = windows if os.name == "nt" else mac if sys.platform == "darwin" else linux
            if path is None:
                raise Refused("managed settings of %s on this system are not known" % client)
            return path
        if client == "gemini":
            return os.path.join(gemini_home(), *user.split("/"))
        folder = os.environ.get(HOME_VARIABLES.get(client, ""))
        if folder:
            return os.path.join(folder, *user.split("/")[1:])
        if client == "opencode" and os.environ.get("XDG_CONFIG_HOME"):
            return os.path.join(os.environ["XDG_CONFIG_HOME"], *user.split("/")[1:])
        return os.path.join(os.path.expanduser("~"), *user.split("/"))


# --- hook/entries -----------------------------------------------------------------------------------------------------

# The hook's entries in a client's settings.

def command_words(place, python, client, command):
    words = [python, "-I", "-S", place.hook, command, "--dialect", client]
    if command == "pre":
        words += ["--timeout", str(SECONDS["pre"])]
    return words + ["--config", place.config]


def shell_line(words, blocking):
    """Returns a command line for /bin/sh. If `blocking` is true, every failure ends with exit code 2, even if Python is
    missing. Clients would run the call after any other exit code."""
    import shlex

    line = " ".join(shlex.quote(word) for word in words)
    if not blocking:
        return line
    # These are words of the shell itself: no exported function and no program on the PATH can replace them.
    check = 'rc=$?; case $rc in 0) exit 0;; 2) ;; *) echo "policy hook failed (rc=$rc); call refused" >&2;; esac; exit 2'
    return "/bin/sh -c " + shlex.quote(line + "; " + check)


def powershell_line(words, blocking):
    line = "& " + " ".join("'" + word.replace("'", "''") + "'" for word in words)
    return line + ("; if ($LASTEXITCODE -ne 0) { exit 2 }" if blocking else "")


def hook_entry(place, python, client, event, command):
    """Returns the entry of one event in a client's settings, with the options that block the call if the hook fails."""
    words, blocking, limit = command_words(place, python, client, command), command == "pre", SECONDS[command]
    if os.name == "nt":
        import subprocess

        line = subprocess.list2cmdline(words)
    else:
        line = shell_line(words, blocking)
    if client == "copilot":
        if place.managed and os.name != "nt":
            # The hook starts without a shell, because variables such as BASH_ENV could keep a shell from running it. If
            # the program does not start, Copilot CLI blocks the call.
            return {"type": "command", "exec": words[0], "args": words[1:], "timeoutSec": limit}
        powershell = powershell_line(words, blocking)
        return {"type": "command", "bash": shell_line(words, blocking), "powershell": powershell, "timeoutSec": limit}
    if client == "cursor":
        return dict({"command": line, "timeout": limit}, **({"failClosed": True} if blocking else {}))
    one = {"type": "command", "command": line, "timeout": limit * 1000 if client == "gemini" else limit}
    if client == "gemini":
        one.update(gemini_path(place))
    if client == "claude" and (os.name == "nt" or place.managed):
        # The hook starts without a shell, because a variable such as SHELLOPTS could keep a shell from running it. This
        # is safe from version CLAUDE_MINIMUM on, where `onFailure` blocks a call if the hook does not start. On other
        # systems than Windows, a user's settings do not get `args`, because clients that do not know `args` also read
        # these settings.
        one.update({"command": words[0], "args": words[1:]})
    if client == "claude" and blocking:
        one["onFailure"] = "block"
    # With `sequential`, Gemini CLI runs the hooks one after the other. Our hook then sees the changes that earlier
    # hooks have made to the call.
    return dict({"matcher": "*", "hooks": [one]}, **({"sequential": True} if client == "gemini" else {}))


def is_ours(entry):
    import json

    return OUR_NAME in json.dumps(entry)


def without_our_commands(entry):
    """Returns an event's entry without our hooks; None if nothing is left. Other people may have added hooks to the
    entry."""
    if not is_ours(entry):
        return entry
    several = entry.get("hooks") if isinstance(entry, dict) else None
    left = [each for each in several if not is_ours(each)] if isinstance(several, list) else []
    return dict(entry, hooks=left) if left else None


def without_ours(settings):
    """Returns settings without our hooks. Removes only our entries, and the lists and tables that are then empty."""
    settings = without_plugin(settings)
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return dict(settings)
    kept = {}
    for event, entries in hooks.items():
        left = entries
        if isinstance(entries, list):
            left = [each for each in map(without_our_commands, entries) if each is not None]
        if left or not entries:
            kept[event] = left
    found = {key: value for key, value in settings.items() if key != "hooks" or kept}
    if kept:
        found["hooks"] = kept
    return found


def options_of(place, client, settings):
    """Returns the options that the settings need: {path: value}. Most of them keep others from switching the hooks
    off."""
    if client == "claude" and place.managed:
        asked = settings.get("requiredMinimumVersion")
        newer = isinstance(asked, str) and version_of(asked) > version_of(CLAUDE_MINIMUM)
        return {
            ("requiredMinimumVersion",): asked if newer else CLAUDE_MINIMUM,
            ("allowManagedHooksOnly",): True,
            # A skill's own shell commands run before the model reads the skill, and no hook is asked about them.
            ("disableSkillShellExecution",): True,
        }
    if client == "gemini":
        return gemini_options(place, settings)
    if client == "opencode":
        # If `$schema` is missing, opencode writes it into its settings. This would change our file.
        schema = settings.get("$schema", "https://opencode.ai/config.json")
        return {("$schema",): schema, ("enabled_providers",): [NO_PROVIDER]}
    if client == COPILOT_POLICY:
        return {("allowManagedHooksOnly",): True}
    if client in ("copilot", "cursor"):
        return {("version",): settings.get("version", 1)}
    return {}


def look_up(settings, path):
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def put(settings, path, value):
    """Returns a copy of the settings with the value at the path. The value None removes the entry. Tables that become
    empty are removed too."""
    found = dict(settings)
    if len(path) > 1:
        below = put(settings.get(path[0]) or {}, path[1:], value)
        value = below if below else None
    if value is None:
        found.pop(path[0], None)
    else:
        found[path[0]] = value
    return found


def with_ours(place, python, client, settings):
    """Returns settings with our hooks. For each event, our hook comes after the existing hooks."""
    found = without_ours(settings)
    for path, value in options_of(place, client, settings).items():
        found = put(found, path, value)
    if client == "opencode":
        return with_plugin(place, settings, found)
    hooks = dict(found.get("hooks", {}))
    name = gemini_name(settings)
    for event, command in EVENTS.get(client, ()):
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            raise Refused("`hooks.%s` is not a list: correct it first" % event)
        ours = hook_entry(place, python, client, event, command)
        if client == "gemini":
            ours["hooks"][0]["name"] = name
        hooks[event] = entries + [ours]
    if hooks:
        found["hooks"] = hooks
    return found


# --- hook/codex -------------------------------------------------------------------------------------------------------

# The managed requirements of Codex, a TOML file.

def codex_wanted(place):
    """Returns the options that Codex needs beside the hooks: (table, key, value)."""
    # With `unified_exec` Codex types into running programs, and no hook sees that.
    return (
        ("", "allow_managed_hooks_only", True),
        ("features", "hooks", True),
        ("features", "unified_exec", False),
        ("hooks", "managed_dir", place.folder),
    )


def toml_values(lines):
    """Reads lines of TOML. Returns one dictionary with two kinds of keys: (table, key) leads to the text of a value,
    and (table,) leads to the line number of a table."""
    table, found = "", {}
    for number, line in enumerate(lines):
        bare = line.split("#")[0].strip()
        if bare.startswith("["):
            table = bare.strip("[]").strip()
            found.setdefault((table,), number)
        elif "=" in bare:
            key, _, value = bare.partition("=")
            found[(table, key.strip())] = value.strip()
    return found


def codex_entries(place, path, findings):
    """Returns our `pre` command lines in the requirements. Reports each missing option, because users could get around
    the hook without it."""
    import json

    text = read_text(path) or ""
    marked = [line for line in text.splitlines() if OUR_FILE in line and line.startswith("command = ")]
    lines = [parse_json(line[len("command = ") :].rsplit(TOML_MARK, 1)[0]) for line in marked]
    lines = [line for line in lines if " pre " in line]
    if not lines:
        return []
    have = toml_values(text.splitlines())
    for table, key, value in codex_wanted(place):
        if have.get((table, key)) != json.dumps(value):
            told = "`%s` is not %s in %s, so users can get around the hook: run `install` again"
            findings.fail(told % (".".join(filter(None, (table, key))), json.dumps(value), path))
    return lines


def toml_without_ours(text):
    return "".join(line for line in text.splitlines(True) if not line.rstrip().endswith(TOML_MARK.strip()))


def toml_with_ours(place, python, text):
    """Returns Codex's requirements with our hooks. The text is changed line by line, because Python reads TOML only
    from 3.11 on and cannot write it. Each of our lines has a mark. Refuses a file if adding lines is not enough."""
    import json

    lines = toml_without_ours(text).splitlines(True)
    have = toml_values(lines)
    for key in have:
        if key[0] == "" and len(key) > 1 and key[1].split(".")[0] in ("features", "hooks"):
            raise Refused("`%s` is written in one line: make it a table, `[%s]`" % (key[1], key[1].split(".")[0]))

    above, behind, below = [], {}, []
    for table, key, value in codex_wanted(place):
        written = json.dumps(value)
        found = have.get((table, key))
        if found is not None:
            if found != written:
                raise Refused("`%s` is %s, and must be %s" % (".".join(filter(None, (table, key))), found, written))
        elif table == "":
            above.append("%s = %s" % (key, written))
        elif (table,) in have:
            behind.setdefault(have[(table,)], []).append("%s = %s" % (key, written))
        else:
            below += ([] if "[%s]" % table in below else ["[%s]" % table]) + ["%s = %s" % (key, written)]
    for event, command in EVENTS["codex"]:
        entry = hook_entry(place, python, "codex", event, command)
        one = entry["hooks"][0]
        below += ["[[hooks.%s]]" % event, 'matcher = "*"', "[[hooks.%s.hooks]]" % event]
        below += ["%s = %s" % (key, json.dumps(one[key])) for key in ("type", "command", "timeout")]

    end = "\r\n" if "\r\n" in text else "\n"
    merged = [line + TOML_MARK + end for line in above]
    for number, line in enumerate(lines):
        merged.append(line if line.endswith("\n") else line + end)
        if number in behind:
            merged += [each + TOML_MARK + end for each in behind[number]]
    result = "".join(merged + [line + TOML_MARK + end for line in below])
    try:
        import tomllib

        tomllib.loads(result)
    except ImportError:
        pass
    except ValueError as error:
        raise Refused("the file cannot be merged with: %s" % error)
    return result


# --- hook/gemini ------------------------------------------------------------------------------------------------------

# Gemini CLI: its options, and settings that switch hooks off.

# These variables can keep a shell or the loader of programs from running the hook. Or they make it run another program
# first. Gemini CLI also reads these variables from the `.env` files of projects.
STOPPING_VARIABLES = (
    "BASHOPTS BASH_ENV DYLD_FRAMEWORK_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH ENV GLIBC_TUNABLES LD_AUDIT "
    "LD_BIND_NOW LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_VERBOSE LD_WARN "
    "SHELLOPTS"
).split()
REDACTION = ("security", "environmentVariableRedaction")


def gemini_options(place, settings):
    """Returns our options: {path: value}. In a managed file, `hooksConfig` is a list and not an object. So Gemini CLI
    ignores the `hooksConfig` of users and projects. They cannot use its members `enabled` and `disabled`
    (docs/decisions/0159)."""
    if not place.managed:
        return {("hooksConfig", "enabled"): True}
    blocked, allowed = (look_up(settings, REDACTION + (name,)) for name in ("blocked", "allowed"))
    blocked = blocked if isinstance(blocked, list) else []
    return {
        ("hooksConfig",): [],
        REDACTION + ("enabled",): True,
        REDACTION + ("allowed",): allowed if isinstance(allowed, list) else [],
        REDACTION + ("blocked",): blocked + [name for name in STOPPING_VARIABLES if name not in blocked],
    }


def gemini_name(settings):
    """Returns the name of the installed hook, or a new random name. A repository that could guess the name could switch
    the hook off."""
    found = [one.get("name") for one in gemini_hooks(settings) if is_ours(one)]
    if found and isinstance(found[0], str) and found[0].startswith("countersign-"):
        return found[0]
    from binascii import hexlify

    return "countersign-" + hexlify(os.urandom(8)).decode("ascii")


def gemini_hooks(settings):
    """Returns each hook of all events."""
    hooks = settings.get("hooks")
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            for one in inner if isinstance(inner, list) else ():
                if isinstance(one, dict):
                    yield one


def gemini_path(place):
    """Returns the environment of a managed hook, with a fixed PATH. Gemini CLI looks for `bash` in the PATH, and a
    user's own PATH could lead to another `bash`."""
    folders = [folder for folder in ("/usr/bin", "/bin") if os.path.exists(place.at(folder + "/bash"))]
    return {"env": {"PATH": ":".join(folders)}} if place.managed and folders else {}


def gemini_switched_off(place, path, settings, ours, findings):
    """Reports settings in the hook's file with which others can switch the hook off."""
    again = " in %s: run `install` again" % path
    if not place.managed and look_up(settings, ("hooksConfig", "enabled")) is not True:
        findings.fail("`hooksConfig.enabled` is not true" + again)
    if place.managed:
        for steps, wanted in gemini_options(place, settings).items():
            if look_up(settings, steps) != wanted:
                findings.fail("`%s` lets users switch the hook off%s" % (".".join(steps), again))
    if any(entry.get("sequential") is not True for entry in ours):
        findings.fail("`sequential` is not true, so a project's hook can change a call after it was judged," + again)
    if "GEMINI_CLI_SYSTEM_SETTINGS_PATH" in os.environ and place.managed:
        findings.fail("`GEMINI_CLI_SYSTEM_SETTINGS_PATH` replaces the managed settings: remove it from the environment")


def gemini_around(place, hook_settings, findings):
    """Reports settings that switch the hook off or get around it. Checks the user's files and this folder's files."""
    names = {one.get("name") for one in gemini_hooks(hook_settings) if is_ours(one)}
    home, here = gemini_home(), os.getcwd()
    for folder in dict.fromkeys((home, here)):
        path = os.path.join(folder, ".gemini", "settings.json")
        try:
            settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that it does not switch hooks off" % path)
            continue
        off = look_up(settings, ("hooksConfig", "disabled"))
        if not place.managed and isinstance(off, list) and any(one in names for one in off):
            findings.fail("`hooksConfig.disabled` in %s switches the hook off: remove its name there" % path)
        if not place.managed and folder != home and look_up(settings, ("hooks", "BeforeTool")):
            told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
        is_own = not place.managed and folder == home
        if not is_own and isinstance(settings, dict) and any(one.get("name") in names for one in gemini_hooks(settings)):
            findings.fail("%s has a copy of the hook, which Gemini CLI runs in place of the installed one: remove it" % path)
    if not place.managed:
        dangerous_variables(here, findings)


def dangerous_variables(folder, findings):
    """Fails if a `.env` file that Gemini CLI may read has dangerous variables. Gemini CLI may read such a file in this
    folder, in the folders above it, and in the user's home."""
    folders = [folder]
    while os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    for folder in dict.fromkeys(folders + [gemini_home()]):
        for name in (os.path.join(".gemini", ".env"), ".env"):
            path = os.path.join(folder, name)
            for variable in stopping_variables(path, ["GEMINI_CLI_HOME"]):
                does = "names a home with other extensions" if variable == "GEMINI_CLI_HOME" else "keeps the hook from running"
                findings.fail("`%s` in %s %s: remove it, or install --managed" % (variable, path, does))


def stopping_variables(path, more=()):
    """Returns the variables of a `.env` file that keep a hook from running, or that are in `more`. A line has the form
    `NAME=value` or `NAME: value`."""
    import re

    try:
        lines = (read_text(path) or "").splitlines()
    except Refused:
        lines = []
    named = [re.match(r"\s*(?:export\s+)?([\w.-]+)\s*[=:]", line) for line in lines]
    return sorted({match.group(1) for match in named if match} & {*STOPPING_VARIABLES, *more})


# --- hook/copilot -----------------------------------------------------------------------------------------------------

# Copilot CLI: its managed options, and the hooks of a project.

COPILOT_POLICY = "copilot-policy"


def parts_of(place, client):
    """Returns the names of the settings that an installation writes: the client, and for some managed clients one more.
    Copilot CLI runs a project's hooks after our hook, and they can change a call that was already judged. So its
    managed policy must allow only managed hooks."""
    if client == "copilot" and place.managed and os.name != "nt":
        return [client, COPILOT_POLICY]
    if client == "opencode" and place.managed:
        return [OPENCODE_PLUGIN, client]
    return [client]


def copilot_around(place, findings):
    """Fails if others can get around the hook. For a managed hook, the policy must forbid other hooks. For a user's own
    hook, the project, the user and the plugins must have no other hooks for `preToolUse`."""
    if place.managed:
        if os.name != "nt":
            path = place.settings_file(COPILOT_POLICY)
            if read_settings(path).get("allowManagedHooksOnly") is not True:
                told = "`allowManagedHooksOnly` is not true in %s, so a project's hook can change a call after it was judged: run `install` again"
                findings.fail(told % path)
        return
    for path in project_hooks(os.getcwd()):
        told = "a hook in %s can change a call after it was judged: remove it, or install --managed"
        findings.fail(told % path)
    for path in plugin_hooks(os.path.join(copilot_home(), "installed-plugins"), None, "preToolUse"):
        findings.fail("a plugin's hook in %s can change a call after it was judged: remove it, or install --managed" % path)


def copilot_home():
    return os.environ.get("COPILOT_HOME") or os.path.join(os.path.expanduser("~"), ".copilot")


def project_hooks(folder):
    """Returns the files with other hooks for `preToolUse`. These are files of the project and of the user. Copilot CLI
    runs these hooks too."""
    files = []
    for own in (os.path.join(folder, ".github", "hooks"), os.path.join(copilot_home(), "hooks")):
        try:
            files += [os.path.join(own, name) for name in sorted(os.listdir(own)) if name.endswith(".json")]
        except OSError:
            pass
    files += [os.path.join(at, *name.split("/")) for at in folders_up() for name in PROJECT_FILES["copilot"][0]]
    files += [os.path.join(copilot_home(), name) for name in ("settings.json", "config.json")]
    found = []
    for path in files:
        if path == Place(False).settings_file("copilot"):
            continue
        try:
            hooks = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("hooks",))
        except (Refused, ValueError):
            hooks = {"preToolUse": True}  # Copilot CLI may be able to read it
        if isinstance(hooks, dict) and (hooks.get("preToolUse") or hooks.get("PreToolUse")):
            found.append(path)
    return found


# --- hook/opencode ----------------------------------------------------------------------------------------------------

# opencode: the plugin that asks before each call, and its settings.

OPENCODE_PLUGIN = "opencode-plugin"  # the part of a managed installation with the plugin's file
PLUGIN_FILE = OUR_NAME + ".js"
# The managed settings allow only this provider of models, which does not exist. The plugin removes this limit. So where
# the plugin does not run, for example with `--pure`, no model answers.
NO_PROVIDER = "countersign-is-not-loaded"
PLUGIN_MARK = "countersign-asks"  # the running plugin adds a member with this name to opencode's settings in memory

PLUGIN = r"""// Written by `service_hook.py install`: opencode asks before each tool call, and a call that cannot be asked about is blocked.
import { spawn } from "node:child_process"

const hook = @HOOK@

/** Makes arguments unchangeable, so that the call runs with those that were judged. */
const frozen = (value) => {
  if (value !== null && typeof value === "object") Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

/** Without variables with which the loader of programs starts something else. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(LD_|DYLD_|GLIBC_TUNABLES$|PYTHON)/.test(name)))

/** Starts the hook's program without a shell. */
const run = (command, event, seconds, started = () => {}) =>
  new Promise((resolve) => {
    const [program, ...words] = hook.commands[command]
    const child = spawn(program, words, { env: environment(), stdio: "pipe", windowsHide: true })
    started(child)
    const said = { out: "", err: "" }
    const limit = setTimeout(() => child.kill("SIGKILL"), seconds * 1000)
    child.stdout.setEncoding("utf8").on("data", (text) => (said.out += text))
    child.stderr.setEncoding("utf8").on("data", (text) => (said.err += text))
    child.stdin.on("error", () => {})
    const end = (code) => {
      clearTimeout(limit)
      resolve({ ...said, code })
    }
    child.on("error", (error) => {
      said.err = String(error.message)
      end(null)
    })
    child.on("close", end)
    child.stdin.end(JSON.stringify(event))
  })

/** Only exit code 0 with this answer lets a call run. A program that ends early says nothing. */
const allows = ({ code, out }) => {
  try {
    return code === 0 && JSON.parse(out).permission === "allow"
  } catch {
    return false
  }
}

const shells = /^((\/usr|\/usr\/local|\/opt\/homebrew)?\/bin\/)?(bash|dash|fish|ksh|nu|pwsh|sh|zsh|powershell|cmd)$/
const plain = (name) => name.replace(/[^a-zA-Z0-9_-]/g, "_")

export default async ({ client, directory }, options) => {
  const roots = new Map()
  const open = new Map()
  const asking = new Map()
  let servers = []
  let refusal = null

  /** The session that a person started. Calls of its subagents count there, with its labels. */
  const rootOf = async (id) => {
    if (!roots.has(id)) {
      const { data } = await client.session.get({ path: { id } })
      if (data?.id !== id) throw new Error("opencode does not name the session of the call")
      roots.set(id, data.parentID ? await rootOf(data.parentID) : id)
    }
    return roots.get(id)
  }

  const eventOf = async (name, { tool, sessionID, callID }, args) => {
    const [server, other] = servers.filter((each) => tool.startsWith(plain(each) + "_"))
    if (other !== undefined) throw new Error(`countersign: the tool ${tool} may be one of ${server} or of ${other}: rename a server`)
    const context = { server_name: server, tool_name: tool.slice(plain(server ?? "").length + 1) }
    return {
      hook_event_name: name,
      session_id: await rootOf(sessionID),
      tool_name: tool,
      tool_input: args,
      tool_use_id: callID,
      cwd: directory,
      ...(server !== undefined && { mcp_context: context }),
    }
  }

  const report = async (event, failed) => {
    open.delete(event.tool_use_id)
    await run("post", { ...event, tool_response: { error: failed } }, 15).catch(() => {})
  }

  return {
    config: (settings) => {
      servers = Object.keys(settings.mcp ?? {})
      // `doctor` reads this in the settings that opencode shows.
      settings[hook.mark] = true
      // A project may name a program of its own here, which would then get every command.
      if (settings.shell !== undefined && !shells.test(settings.shell)) delete settings.shell
      if (hook.managed === null) return
      const others = settings.plugin_origins.filter(({ source }) => !source.startsWith(hook.managed))
      if (others.length > 0) {
        const names = others.map(({ spec }) => [spec].flat()[0]).join(", ")
        refusal = `only plugins of the managed settings may run, because others can change a call after it was judged: remove ${names}`
      }
      // Shell commands in a command's text run before any hook is asked.
      for (const command of Object.values(settings.command ?? {})) command.template = command.template.replaceAll("!`", "! `")
      if (options?.enabled_providers) settings.enabled_providers = options.enabled_providers
      else delete settings.enabled_providers
    },
    "tool.execute.before": async (input, output) => {
      if (refusal !== null) throw new Error("countersign: " + refusal)
      const event = await eventOf("tool.execute.before", input, frozen(output.args))
      const started = (child) => asking.set(input.callID, { child, session: input.sessionID })
      const answer = await run("pre", event, hook.timeout, started)
      asking.delete(input.callID)
      if (!allows(answer)) throw new Error(answer.err.trim() || `countersign: the hook gave no answer (exit code ${answer.code})`)
      open.set(input.callID, event)
    },
    "tool.execute.after": async (input, output) => {
      const failed = (output?.metadata?.exit ?? 0) !== 0
      await report(await eventOf("tool.execute.after", input, input.args), failed)
    },
    event: async ({ event }) => {
      // A call that its user gave up is withdrawn.
      const gone = event.type === "session.idle" ? event.properties.sessionID : undefined
      for (const { child, session } of asking.values()) if (session === gone) child.kill("SIGTERM")
      const part = event.type === "message.part.updated" ? event.properties.part : undefined
      const asked = part?.state?.status === "error" ? open.get(part.callID) : undefined
      if (asked !== undefined) await report({ ...asked, hook_event_name: "tool.execute.after" }, true)
    },
    dispose: async () => {
      const ended = [...new Set(roots.values())].map((id) => run("end", { session_id: id, hook_event_name: "dispose" }, 5))
      await Promise.allSettled(ended)
    },
  }
}
"""


def opencode_plugin(place, python):
    """Returns the text of the plugin's file."""
    import json

    commands = {each: command_words(place, python, "opencode", each) for each in ("pre", "post", "end")}
    folder = os.path.dirname(place.settings_file("opencode")) + os.sep if place.managed else None
    hook = {"commands": commands, "timeout": SECONDS["pre"], "managed": folder, "mark": PLUGIN_MARK}
    return PLUGIN.replace("@HOOK@", json.dumps(hook))


def opencode_providers(settings):
    """Returns the administrator's own list of providers; None if there is none. The plugin restores this list."""
    found = settings.get("enabled_providers")
    if found != [NO_PROVIDER]:
        return found
    for entry in settings.get("plugin", []):
        if is_ours(entry) and isinstance(entry, list) and len(entry) > 1:
            return look_up(entry[1], ("enabled_providers",))
    return None


def with_plugin(place, before, settings):
    """Returns the managed settings with our plugin. Our plugin is the last one in the list, so that no other plugin
    undoes its changes to the settings."""
    beside = place.at(place.settings_file("opencode")) + "c"
    if os.path.exists(beside):
        raise Refused("`%s` is read after these settings: move it into opencode.json first" % beside)
    plugins = settings.get("plugin", [])
    if not isinstance(plugins, list):
        raise Refused("`plugin` is not a list: correct it first")
    from pathlib import PurePath

    ours = PurePath(place.settings_file(OPENCODE_PLUGIN)).as_uri()
    providers = opencode_providers(before)
    return dict(settings, plugin=plugins + [ours if providers is None else [ours, {"enabled_providers": providers}]])


def without_plugin(settings):
    plugins = settings.get("plugin")
    if not isinstance(plugins, list) or not any(map(is_ours, plugins)):
        return settings
    left = [each for each in plugins if not is_ours(each)]
    found = {key: value for key, value in settings.items() if key != "plugin" or left}
    return dict(found, plugin=left) if left else found


# --- hook/files -------------------------------------------------------------------------------------------------------

# Reads and changes settings files.

def version_of(text):
    """Returns the first version in a text as a tuple of numbers. Example: 2.1.295 becomes (2, 1, 295)."""
    import re

    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def read_text(path):
    """Returns a file's text with unchanged line ends; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("`%s` cannot be read: %s" % (path, error))


def read_settings(path):
    """Returns a client's JSON settings; an empty object if there are none."""
    return settings_of(read_text(path), path)


def settings_of(text, path):
    if text is None or not text.lstrip("\ufeff").strip():
        return {}
    try:
        found = parse_json(text.lstrip("\ufeff"))
    except ValueError as error:
        raise Refused("`%s` is not plain JSON (%s): comments would be lost, add the hooks by hand" % (path, error))
    if not isinstance(found, dict):
        raise Refused("`%s` is not a JSON object" % path)
    if not isinstance(found.get("hooks", {}), dict):
        raise Refused("`hooks` in `%s` is not an object" % path)
    return found


def pretty(value):
    import json

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def like(text, before):
    """Returns the new text with the byte order mark and the line ends of the old text."""
    if before is None:
        return text
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    return mark + (text.replace("\n", "\r\n") if "\r\n" in before else text)


def checksum(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def missing_folders(path):
    """Returns the folders of a path that do not exist, the deepest first."""
    found, folder = [], os.path.dirname(path)
    while folder and not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


class alone:
    """A lock on the folder of an installation. While one run of `install` has the lock, other runs wait. There is no
    lock on Windows."""

    def __init__(self, folder, private):
        self.folder = folder
        self.private = private

    def __enter__(self):
        os.makedirs(self.folder, 0o700 if self.private else 0o755, True)
        self.held = None
        if os.name == "posix":
            import fcntl

            self.held = os.open(self.folder, os.O_RDONLY)
            fcntl.flock(self.held, fcntl.LOCK_EX)

    def __exit__(self, *_):
        if self.held is not None:
            os.close(self.held)


class Change:
    """One file, with its text before and after a change. The text is None if there is no file. A client's settings keep
    their mode, and a copy of the first original stays until the uninstall. Our own files get the given mode."""

    def __init__(self, path, before, after, mode, ours=False, copied=None):
        self.path = path
        self.before = before
        self.after = after
        self.mode = mode
        self.ours = ours
        self.copied = copied  # True: keep a copy of the original. False: remove the copy. None: do neither

    def is_needed(self):
        return self.before != self.after or (self.copied is False and os.path.exists(copy_of(self.path)))

    def shown(self):
        """Returns the difference as text, without the key."""
        import difflib

        if os.path.basename(self.path) == OUR_FILE:
            return "%s %s\n" % ("remove" if self.after is None else "write", self.path)
        texts = [hidden(text or "").splitlines(True) for text in (self.before, self.after)]
        names = [self.path if self.before is not None else "nothing", self.path if self.after is not None else "nothing"]
        return "".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(*texts, *names))

    def apply(self, private):
        """Writes the new text to a draft, and replaces the file with the draft. If there is no new text, removes the
        file."""
        path = os.path.realpath(self.path)
        copy = copy_of(path)
        os.makedirs(os.path.dirname(path), 0o700 if private else 0o755, True)
        if self.copied and self.before is not None:
            self.write(copy, self.before)
        if self.before == self.after:
            pass
        elif self.after is None:
            os.unlink(path)
        else:
            self.write(path, self.after)
        if self.copied is False and os.path.exists(copy):
            os.unlink(copy)

    def write(self, path, text):
        try:
            status = os.stat(os.path.realpath(self.path))
        except OSError:
            status = None
        mode = self.mode if self.ours or status is None else status.st_mode & 0o777
        draft = "%s.%d.new" % (path, os.getpid())
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, mode)
            if status is not None and not self.ours and hasattr(os, "chown") and os.geteuid() == 0:
                os.chown(draft, status.st_uid, status.st_gid)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise


def discard(path):
    """Deletes a file, unless another process has deleted it already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def hidden(text):
    """Returns a text of settings without the key, and without the user and password of the proxy."""
    import re

    text = re.sub(r'("api_key": ")[^"]*', r"\1(not shown)", text)
    return re.sub(r'("https_proxy": ")[^"]*@', r"\1(not shown)@", text)


# --- hook/interpreter -------------------------------------------------------------------------------------------------

# The Python that runs the hook.

def base_python():
    """Returns the path of this Python. In a virtual environment, returns its base Python, because the environment may
    be deleted."""
    return getattr(sys, "_base_executable", None) or sys.executable


PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


def chosen_python(options):
    """Returns the path of the Python for the client's settings. With --managed, every user must be able to run this
    Python, and only root may change it. With --root, this Python is in an image and cannot run here, so only its files
    are checked."""
    given = options.python
    if given is not None and not os.path.isabs(given):
        raise Refused("--python needs an absolute path, not `%s`" % given)
    if not options.managed or os.name == "nt":
        if given is not None and too_old(given):
            raise Refused(too_old(given))
        return given or base_python()
    candidates = [given] if given else list(PYTHONS) + ([] if options.root else [base_python()])
    there = [path for path in candidates if not options.root or os.path.lexists(options.root + path)]
    if options.root and not there:
        return candidates[0]
    reasons = []
    for path in there:
        reason = not_for_everybody(path, options.root) or (None if options.root else too_old(path))
        if reason is None:
            return path
        reasons.append(reason)
    advice = "install Python 3.8 or newer as %s, or name one with --python that every user can run and only root can change"
    raise Refused("%s: %s" % ("; ".join(reasons), advice % PYTHONS[0]))


def not_for_everybody(path, root=""):
    """Returns why some user cannot run this program, or can change it; None if there is no such reason. Checks every
    folder and symbolic link of the path. If `root` is given, links are followed inside the image, and files may belong
    to the user who builds the image."""
    import stat

    left, at, links = path.split("/"), "", 0
    while True:
        try:
            status = os.lstat(root + (at or "/"))
            target = os.readlink(root + at) if stat.S_ISLNK(status.st_mode) else None
        except OSError as error:
            return "`%s` cannot be found (%s)" % (path, error.strerror)
        shown = "`%s`" % path + ("" if at == path else " (by way of `%s`)" % (at or "/"))
        if target is not None:
            links += 1
            if links > 40:
                return "`%s` is a link to itself" % path
            at = "" if target.startswith("/") else at.rpartition("/")[0]
            left = target.split("/") + left
        elif at or not root:
            if status.st_mode & 0o022 or (not root and status.st_uid != 0):
                return shown + " can be changed by others than root"
            if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and not any(left))):
                return shown + " is no program"
            if status.st_mode & 0o011 != 0o011:
                return shown + " cannot be %s by every user" % ("run" if stat.S_ISREG(status.st_mode) else "entered")
            if stat.S_ISREG(status.st_mode):
                return None
        while left and left[0] in ("", "."):
            left.pop(0)
        if left:
            part = left.pop(0)
            at = at.rpartition("/")[0] if part == ".." else at + "/" + part
        elif target is None:
            return "`%s` is no program" % path


def too_old(python):
    """Returns why this program cannot run the hook; None if it can."""
    code, _, _ = run_line([python, "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
    return None if code == 0 else "`%s` is not Python 3.8 or newer" % python


# --- hook/own_settings ------------------------------------------------------------------------------------------------

# The installed hook's own settings.

# The settings that `install` saves, and the variables from which it takes them. The first variable that is set counts.
INSTALLED = {
    "api_url": ("SERVICE_API_URL",),
    "api_key": ("SERVICE_API_KEY",),
    "fail_mode": ("SERVICE_FAIL_MODE",),
    "approval_wait": ("SERVICE_APPROVAL_WAIT",),
    "organization_id": ("SERVICE_ORG_ID",),
    "allow_http": ("SERVICE_ALLOW_HTTP",),
    "https_proxy": ("https_proxy", "HTTPS_PROXY"),
    "ca_file": ("SSL_CERT_FILE",),
}


def said_now(variables):
    """Returns the value of the first of these variables that is set; None if none is set."""
    return next((os.environ[name].strip() for name in variables if name in os.environ), None)


def refuse_nonsense(found):
    """Refuses values that the hook would misread, because a running hook has no way to report them."""
    import re

    def refuse(key, advice):
        raise Refused("%s is `%s`: %s" % (INSTALLED[key][0], plain(found[key], 100), advice))

    if found.get("fail_mode", "closed") not in ("closed", "open"):
        refuse("fail_mode", "write `closed`, which blocks calls while the service cannot be reached, or `open`")
    if "approval_wait" in found and seconds(found["approval_wait"], None) is None:
        refuse("approval_wait", "write a number of seconds, such as 55")
    if "organization_id" in found and not re.match(r"org_[0-9A-HJKMNP-TV-Z]{26}\Z", str(found["organization_id"])):
        advice = "write the organization's id (`org_` and 26 letters and digits), or leave it out: then the key's organization counts"
        refuse("organization_id", advice)
    if found.get("allow_http", False) not in (True, False, "1", "true", "yes", "0", "false", "no"):
        refuse("allow_http", "write 1, or leave it out")


def kept_settings(before, after):
    """Returns the saved values that stay, each as the text `key value (VARIABLE)`."""
    before, after = (parse_json(text) if text else {} for text in (before, after))
    shown = []
    for key, variables in INSTALLED.items():
        if key != "api_key" and key in before and before[key] == after.get(key) and said_now(variables) is None:
            value = before[key].rpartition("@")[2] if key == "https_proxy" else before[key]
            shown.append("%s %s (%s)" % (key, plain(value, 200), variables[-1]))
    return shown


def replaces_key(before, after):
    """Returns whether a new key replaces the saved key. `install` must say so, because the printed changes do not show
    keys."""
    old, new = ((parse_json(text) if text else {}).get("api_key") for text in (before, after))
    return None not in (old, new) and old != new


def own_settings(place, before):
    """Returns our own settings: the saved values, replaced by the variables that are set now. A managed file has no
    key, because each user keeps a key in a file of their own."""
    found = parse_json(before) if before else {}
    for key, variables in INSTALLED.items():
        said = said_now(variables)
        if said is not None and key not in ("https_proxy", "ca_file"):
            found[key] = said
            if not said:
                del found[key]
    if place.managed:
        found.pop("api_key", None)
        found.setdefault("api_key_file", "~/.countersign/key")
    if sys.stdin.isatty():
        if "api_url" not in found:
            found["api_url"] = input("address of the service: ").strip()
        if not place.managed and "api_key" not in found and "api_key_file" not in found:
            import getpass

            found["api_key"] = getpass.getpass("key (scope agents:authorize): ").strip()
    if place.managed and not found.get("organization_id"):
        advice = "with --managed set it to the id of your organization, because a key of another one would bring other rules"
        raise Refused("SERVICE_ORG_ID is not set: " + advice)
    refuse_nonsense(found)
    checked = dict(found, api_key=found.get("api_key", "csk_" if "api_key_file" in found else ""))
    settings = Settings()
    settings.api_url, settings.key = checked.get("api_url"), checked["api_key"]
    settings.allow_http = found.get("allow_http") in (True, "1", "true", "yes")
    settings.check()
    proxy, authorities = (said_now(INSTALLED[key]) for key in ("https_proxy", "ca_file"))
    settings.proxy = found.get("https_proxy") if proxy is None else proxy
    settings.ca_file = found.get("ca_file") if authorities is None else authorities
    way = way_of(settings)
    for key in ("https_proxy", "ca_file"):
        if key in way:
            found[key] = way[key]
        else:
            found.pop(key, None)
    if place.managed and "@" in found.get("https_proxy", ""):
        raise Refused("HTTPS_PROXY has a password, which every user could read in `%s`" % place.config)
    return found


def way_of(settings):
    """Returns the proxy and the authorities for the settings file. The file must name them, because a hook with a
    settings file does not read them from the environment."""
    found = {}
    if proxy_of(settings) is not None:
        found["https_proxy"] = settings.proxy
    authorities = settings.ca_file or os.environ.get("SSL_CERT_FILE")
    if authorities and settings.secure:
        found["ca_file"] = os.path.abspath(authorities)
        read_private(found["ca_file"], False)
    return found


# --- hook/starter_rules -----------------------------------------------------------------------------------------------

# The starter rules of `install --starter-rules`.

STARTER_STATUS = {"observe": "shadow", "careful": "active"}
RULES_KEY = "SERVICE_RULES_KEY"
MAX_RULE_PAGES = 1000
# The tools of all clients that run commands or scripts. With `careful`, what they return is labelled like what the
# clients' own tools read.
CODE_TOOLS = SHELL_TOOLS + "Workflow sql Skill activate_skill skill".split()
READ_LABEL = "internal"


class StarterRules:
    """Saves the service's starter rules in the organization of the installation. This needs the key of an admin or
    owner. This class does not save the key."""

    def __init__(self, own, wanted):
        self.wanted = STARTER_STATUS[wanted]
        self.settings = settings = Settings()
        settings.api_url, settings.proxy, settings.ca_file = (own.get(key) for key in ("api_url", "https_proxy", "ca_file"))
        settings.allow_http = own.get("allow_http") in (True, "1", "true", "yes")
        settings.no_proxy = ""
        settings.key = said_now((RULES_KEY, "SERVICE_API_KEY")) or own.get("api_key")
        if not settings.key:
            raise Refused("--starter-rules saves rules: give the key of an admin in %s, it is not saved" % RULES_KEY)
        settings.check()
        try:
            self.organization = self.allowed_organization(own.get("organization_id"))
            self.path = "/organizations/%s/rules" % self.organization
            self.changes = self.missing()  # [(words for people, method, path, body)]
            self.lacking = None  # words for people: what only another key can change
            if self.wanted == "active":
                self.plan_labels()
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Refused("%s does not answer like this version of the service" % settings.api_url)

    def ask(self, method, path, body=None, fine=(200,)):
        """Sends a request. Returns the status and the JSON object of the answer. Raises Refused for every status that
        is not in `fine`."""
        try:
            status, answered = request(
                self.settings, method, path, None if body is None else to_json(body), time.monotonic() + ASK_SECONDS
            )
        except Unreachable as error:
            raise Refused("%s could not be asked: %s" % (self.settings.api_url, error))
        if status in fine and status != 200:
            return status, {}
        try:
            return status, answered_object(status, answered)
        except Refused as error:
            raise Refused("--starter-rules: " + str(error).replace("SERVICE_API_KEY", "the key of " + RULES_KEY))

    def allowed_organization(self, named):
        """Returns the id of the organization that gets the rules. Raises Refused if the key may not save rules
        there."""
        need = "--starter-rules needs the key of an admin, with the scopes rules:read and rules:write, in %s" % RULES_KEY
        advice = "nothing was changed; ask an admin to run this, or leave --starter-rules out"
        status, me = self.ask("GET", "/me", None, (200, 403))
        if status == 403:
            raise Refused("%s; this key can only ask for decisions; %s" % (need, advice))
        named = named or me["organization_id"]
        roles = [one["role"] for one in me["organizations"] if one["id"] == named]
        held = {scope for scope, has in me["scopes"].items() if has}
        self.may_read = bool({"governance:read", "governance:*"} & held)
        self.may_set = roles == ["owner"] and self.may_read and bool({"governance:write", "governance:*"} & held)
        if not roles or roles[0] not in ("admin", "owner"):
            which = "is no member of %s" % named if not roles else "has the role %s there" % plain(roles[0], 50)
            raise Refused("%s; the key's person %s; %s" % (need, which, advice))
        lacking = [scope for scope in ("rules:read", "rules:write") if not {scope, "rules:*"} & held]
        if lacking:
            raise Refused("%s; this key lacks %s; %s" % (need, " and ".join(lacking), advice))
        return named

    def listed(self, path):
        found, cursor = [], ""
        for _ in range(MAX_RULE_PAGES):
            page = self.ask("GET", "%s?limit=50%s" % (path, cursor))[1]
            found += page["data"]
            if not page["next_cursor"]:
                return found
            cursor = "&cursor=" + page["next_cursor"]
        raise Refused("the service's list at %s does not end" % path)

    def missing(self):
        """Returns the changes that are needed. Rules that do not exist are added. With `careful`, a rule in status
        `shadow` becomes active. Nothing else is changed. Example: a rule that a person has switched off stays off."""
        there = {rule["name"]: rule for rule in self.listed(self.path)}
        changes = []
        for template in self.listed("/rule-templates"):
            if template.get("starter") is not True:
                continue
            body = dict(template["body"], status=self.wanted)
            known = there.get(body["name"])
            shown = (plain(body["name"], 200), body["verdict"], self.wanted)
            if known is None:
                changes.append(("save the rule `%s` (%s, %s)" % shown, "POST", self.path, body))
            elif known["status"] == "shadow" and self.wanted == "active":
                path = "%s/%s" % (self.path, known["id"])
                changes.append(("make the rule `%s` (%s) %s" % shown, "PATCH", path, {"status": self.wanted}))
        return changes

    def told(self):
        """Returns the organization's setting `external_tools`."""
        return dict(self.ask("GET", "/organizations/%s/governance" % self.organization)[1]["external_tools"])

    def plan_labels(self):
        """Plans to label what shells read, with the setting `external_tools`. What the setting says already stays: a tool
        that has labels there keeps them."""
        told = self.told() if self.may_read else {}
        new = [name for name in CODE_TOOLS if "output_labels" not in told.get(name, {})]
        kept = [name for name in CODE_TOOLS if READ_LABEL not in told.get(name, {}).get("output_labels", [READ_LABEL])]
        words = "label what %s return as `%s` (setting `external_tools`, %d of its entries stay as they are%s)" % (
            ", ".join("`%s`" % name for name in new),
            READ_LABEL,
            len([name for name in told if name not in new]),
            "; %s without this label" % ", ".join("`%s`" % name for name in kept) if kept else "",
        )
        if new and self.may_set:
            self.changes.append((words, "PATCH", "/organizations/%s/governance" % self.organization, None))
        elif new:
            self.lacking = (
                "what a shell reads does not label its session: let an owner run this again, with a key that also has "
                "the scopes governance:read and governance:write. It would " + words
            )

    def labelled(self):
        """Returns the body of the change of the setting. A change replaces the whole setting, so this reads it again."""
        told = self.told()
        added = {name: dict({"output_labels": [READ_LABEL]}, **told.get(name, {})) for name in CODE_TOOLS}
        return {"external_tools": dict(told, **added)}

    def save(self):
        """Saves the changes. Names of rules are unique in an organization, so another installation at the same time
        creates no second copy."""
        for words, method, path, body in self.changes:
            body = self.labelled() if body is None else body
            try:
                self.ask(method, path, body, (200, 201))
            except Refused:
                if method != "POST" or body["name"] not in [rule["name"] for rule in self.listed(self.path)]:
                    raise
                print("there already: " + words)
            else:
                print("done: " + words)

    def note(self):
        """Returns a note for the person who installs. With `observe`, the note tells where to see the effect of the
        rules. With `careful`, the note says how to turn approvals on. Returns None only if `careful` is wanted and
        approvals are on."""
        if self.wanted == "shadow":
            return "receipts of sessions name the rules that would have held a call (docs/agents.md)"
        status, governance = self.ask("GET", "/organizations/%s/governance" % self.organization, None, (200, 403))
        if status == 200 and governance.get("approvals_enabled") is True:
            return None
        return (
            "while approvals are off, these rules deny: an owner turns approvals on with "
            'PATCH /api/v1/organizations/%s/governance {"approvals_enabled": true}' % self.organization
        )


# --- hook/install -----------------------------------------------------------------------------------------------------

# The command `install`.

INSTALL_NOTES = """variables that it saves in hook.json beside the installed hook:
  SERVICE_API_URL, SERVICE_API_KEY (not with --managed), SERVICE_FAIL_MODE, SERVICE_APPROVAL_WAIT, SERVICE_ORG_ID,
  SERVICE_ALLOW_HTTP, HTTPS_PROXY, SSL_CERT_FILE
SERVICE_RULES_KEY is the key for --starter-rules, with the scopes rules:read and rules:write. It is not saved.
A variable that is not set keeps the saved value, which is shown. An empty variable removes it:
  SERVICE_APPROVAL_WAIT= python3 service_hook.py install --dialect claude"""

DOCTOR_NOTES = """the last line, and the exit code:
  protected      0  every test passed, and no way around it is known (--managed); today no client gets this
  works          0  every test passed, but a person who can write the user's files can still get around it
  not tried      0  every test passed, but the client is not on the PATH yet: see the lines with ??
  not proven     1  something could not be tested here: see the lines with ??
  NOT protected  1  something would let calls through: see the lines with FAIL"""


def arguments(words, name, about):
    import argparse

    parser = argparse.ArgumentParser(
        prog="service_hook.py " + name,
        description=about,
        epilog=INSTALL_NOTES if name == "install" else DOCTOR_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = "the client" + (" (with --uninstall all of them, unless it is given)" if name == "install" else "")
    parser.add_argument("--dialect", choices=sorted(AGENT_NAMES), help=told)
    parser.add_argument("--managed", action="store_true", help="for every user of this machine; needs root")
    if name == "install":
        parser.add_argument("--uninstall", action="store_true", help="remove only the entries of `install`")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        told = "folder of an image, with --managed: every file is written below it"
        parser.add_argument("--root", default="", help=told)
        told = "save rules for agents in the organization: `observe` only records, `careful` holds calls"
        parser.add_argument("--starter-rules", choices=sorted(STARTER_STATUS), help=told)
        told = "absolute path of the Python that runs the hook (default: this one; managed: one that every user can run)"
        parser.add_argument("--python", help=told)
    else:
        parser.add_argument("--config", help="settings file to try (default: the installed one, else the environment)")
        parser.add_argument("--root", help="refused: doctor starts the installed hook, so run it inside the image")
    options = parser.parse_args(words)
    if name == "install" and options.dialect is None and not options.uninstall:
        parser.error("--dialect is needed: %s" % ", ".join(sorted(AGENT_NAMES)))
    if name == "install" and options.root and not options.managed:
        parser.error("--root is for an image's managed settings: add --managed")
    if name == "install" and options.uninstall and options.starter_rules:
        parser.error("--uninstall leaves rules as they are: delete them in the organization")
    if name == "doctor" and options.root is not None:
        parser.error("an image cannot be tested from outside: run doctor --managed inside it, as one of its users")
    return options


def read_record(place):
    """Reads the record of earlier installs: {client: {file, created, folders, written, options: [[path, earlier value,
    our value]]}}. Returns the text of the record, and then the record. The text shows later whether another run of
    `install` has changed the record."""
    text = read_text(place.at(place.record))
    found = parse_json(text) if text else {}
    return text, found if isinstance(found, dict) else {}


def client_change(place, python, client, record, uninstall):
    """Returns the change of a client's settings, and the record with which the change can be undone."""
    path = place.settings_file(client)
    if uninstall and client in record:
        path = record[client]["file"]
    target = place.at(path)
    text = read_text(target)
    mode = 0o644 if place.managed else 0o600
    noted = record.get(client)
    if uninstall:
        return Change(target, text, restored(target, text, noted or {}), mode, copied=False), noted
    if noted is None:
        missing = missing_folders(place.at(place.hook)) + missing_folders(target)
        folders = sorted({folder[len(place.root) :] for folder in missing}, key=len, reverse=True)
        noted = {"file": path, "options": [], "folders": folders}
    if path.endswith(".js"):
        after = opencode_plugin(place, python)
    elif path.endswith(".toml"):
        after = toml_with_ours(place, python, text or "")
    else:
        settings = settings_of(text, target)
        found = with_ours(place, python, client, settings)
        after = text if found == settings else like(pretty(found), text)
        known = [steps for steps, _, _ in noted["options"]]
        for steps, ours in options_of(place, client, settings).items():
            if list(steps) not in known:
                noted["options"].append([list(steps), look_up(settings, steps), ours])
    first = text is None or (OUR_NAME not in text and (client in EVENTS or client not in record))
    if first or client not in record:
        noted = dict(noted, created=text is None)
    # If somebody has changed the file since the last install, the copy of the original is out of date. Then the record
    # gets no checksum, so that an uninstall does not simply restore the copy.
    untouched = first or noted.get("written") == checksum(text)
    return Change(target, text, after, mode, copied=first or None), dict(noted, written=checksum(after) if untouched else None)


def restored(path, text, noted):
    """Returns the settings without our entries. If the file is as `install` left it, returns the exact text from before
    `install`. Returns None if the file must be removed."""
    if text is None or (not noted and OUR_NAME not in text):
        return text  # `install` never changed it
    if noted.get("written") == checksum(text):
        kept = None if noted["created"] else read_text(copy_of(path))
        if kept is not None or noted["created"]:
            return kept
    if path.endswith(".js"):
        return None if OUR_NAME in text else text
    if path.endswith(".toml"):
        after = toml_without_ours(text)
        return None if noted.get("created") and not after.strip() else after
    settings = settings_of(text, path)
    found = without_ours(settings)
    for steps, before, ours in noted.get("options", []):
        if look_up(found, steps) == ours:
            found = put(found, steps, before)
    if noted.get("created") and not found:
        return None
    return text if found == settings else as_it_was(path, found) or like(pretty(found), text)


def as_it_was(path, settings):
    """Returns the text from before `install` if its settings equal these settings; otherwise None. Our hooks in that
    text do not count."""
    kept = read_text(copy_of(path))
    try:
        return kept if kept is not None and without_ours(settings_of(kept, path)) == settings else None
    except (Refused, ValueError):
        return None


def copy_of(path):
    return os.path.realpath(path) + ".before-countersign"


def install(words):
    """Shows the changes, and writes them to the client's settings. Returns 0 if everything is as wanted."""
    options = arguments(words, "install", "Makes a client ask before each tool call, and block the call if it cannot ask.")
    client = "copilot" if options.dialect == "vscode" else options.dialect
    try:
        place = Place(options.managed, options.root)
        if options.managed and not options.root and hasattr(os, "geteuid") and os.geteuid() != 0:
            raise Refused("managed settings belong to root: run it as root, or without --managed for yourself")
        if options.managed and os.name == "posix":
            os.umask(0o022)  # with root's own umask, other users might not be able to enter the new folders
        recorded, before = read_record(place)
        if options.uninstall:
            changes, ends = removals(place, recorded, before, client)
            gone = [each for each in before if client is None or each in parts_of(place, client)]
            made = [place.at(folder) for each in gone for folder in before[each].get("folders", [])]
            made.sort(key=len, reverse=True)
            notes = [] if options.root or not all_gone(changes, place) else checked_keys(place)
        else:
            notes = []
            changes, ends = additions(place, recorded, before, client, chosen_python(options)), []
        rules = None
        if options.starter_rules:
            settings = next(each.after for each in changes if each.path == place.at(place.config))
            rules = StarterRules(parse_json(settings), options.starter_rules)
        changes = [each for each in changes if each.is_needed()]
        if not changes and not ends and not notes and not (rules and rules.changes):
            print("nothing to change")
            if rules and rules.lacking:
                print("not changed: " + rules.lacking)
            return 0
        show(changes, rules, ends, notes)
        if not options.yes and not agreed():
            print("nothing was changed")
            return 1
        with alone(place.at(place.folder), not place.managed):
            for each in changes:
                if read_text(each.path) != each.before:
                    raise Refused("`%s` was changed meanwhile and was not touched: run `install` again" % each.path)
            for each in changes:
                each.apply(not place.managed)
            for path in [os.path.join(spool(), name) for name in ends] + notes:
                discard(path)
        if rules:
            rules.save()
            note = rules.note()
            if note:
                print("next: " + note)
        if options.uninstall:
            remove_empty([] if options.root else [spool()])
            remove_empty([place.at(place.folder)] + made + ([] if options.root else [own_folder()]))
    except (Refused, OSError) as error:
        sys.stderr.write("install: %s\n" % error)
        return 1
    if not options.uninstall:
        say_next(place, options)
    elif place.managed:
        print("each user's own ~/.countersign, with the key, stays")
    return 0


def additions(place, recorded, record, client, python):
    """Returns the changes that make a client ask: first our own files, then the settings of the client. Prints the
    saved values that stay."""
    parts = [(part,) + client_change(place, python, part, record, False) for part in parts_of(place, client)]
    mode = 0o644 if place.managed else 0o600
    hook, config, noting = (place.at(path) for path in (place.hook, place.config, place.record))
    # The installed hook is a copy of this file. This file may itself be the installed one.
    own = read_text(os.path.abspath(__file__))
    before = read_text(config)
    after = pretty(own_settings(place, before))
    for each in kept_settings(before, after):
        print("kept from an earlier install: %s; an empty variable removes it" % each)
    if replaces_key(before, after):
        print("api_key: replaced (not shown)")
    return [
        Change(hook, read_text(hook), own, 0o755, True),
        Change(config, before, after, mode, True),
        Change(noting, recorded, pretty(dict(record, **{part: noted for part, _, noted in parts})), mode, True),
    ] + [change for _, change, _ in parts]


def removals(place, recorded, record, client):
    """Returns the changes that remove one client, or all clients. The settings come first. If no client is left, our
    own files follow. Also returns the names of the notes that must be deleted."""
    changes, left = [], dict(record)
    for each in [part for one in ([client] if client else sorted(EVENTS)) for part in parts_of(place, one)]:
        try:
            changes.append(client_change(place, None, each, record, True)[0])
        except Refused:
            # Settings that cannot be read stay as they are if `install` never changed them.
            if client or each in record:
                raise
        folders = left.pop(each, {}).get("folders", [])
        if left:
            # `install` made these folders. The settings of another client may be in them too. So the folders move to
            # the record of another client, and an uninstall of that client removes them.
            other = sorted(left)[0]
            left[other] = dict(left[other], folders=left[other].get("folders", []) + folders)
    noting, config, hook = (place.at(path) for path in (place.record, place.config, place.hook))
    if left:
        if left != record:
            changes.append(Change(noting, recorded, pretty(left), 0o644 if place.managed else 0o600, True))
        return changes, []
    changes.append(Change(noting, recorded, None, 0o600, True))
    changes += [Change(path, read_text(path), None, 0o600, True) for path in (config, hook)]
    # A managed hook and a user's own hook write their notes of ended sessions to the same folder.
    shared = place.managed or os.path.exists(Place(True).hook)
    return changes, [] if shared else left_ends(spool())


def show(changes, rules, ends, notes):
    """Prints the planned changes."""
    for each in changes:
        sys.stdout.write(each.shown())
    for words, _, _, _ in rules.changes if rules else ():
        print(words)
    if rules and rules.lacking:
        print("not changed: " + rules.lacking)
    if ends:
        several = "1 session whose end" if len(ends) == 1 else "%d sessions whose ends" % len(ends)
        print("remove %s, with %s could not be reported" % (spool(), several))
    for path in notes:
        print("remove %s" % path)
    sys.stdout.flush()


def all_gone(changes, place):
    """Returns whether no client is left: the hook itself is removed now, or was removed earlier."""
    hook = place.at(place.hook)
    return read_text(hook) is None or any(change.path == hook and change.after is None for change in changes)


def remove_empty(folders):
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it has other files, or does not exist


def agreed():
    if not sys.stdin.isatty():
        sys.stderr.write("install: there is no terminal for a question: add --yes\n")
        return False
    return input("write this? [y/N] ").strip().lower() in ("y", "yes")


def say_next(place, options):
    python = chosen_python(options)
    if "SSL_CERT_DIR" in os.environ and "SSL_CERT_FILE" not in os.environ:
        print("next: SSL_CERT_DIR does not count beside hook.json: name one file of authorities with SSL_CERT_FILE")
    if options.root and not os.path.lexists(options.root + python):
        print("next: the image has no %s yet: it needs Python 3.8 or newer there, or at the path of --python" % python)
    if options.dialect == "codex" and not place.managed:
        print("next: open /hooks in Codex and trust them; until then Codex silently skips them")
    if place.managed:
        print("next: each user keeps a key in ~/.countersign/key, which only they can read (chmod 600)")
    print("next: python3 %s doctor --dialect %s%s" % (place.hook, options.dialect, " --managed" * place.managed))


# --- hook/doctor ------------------------------------------------------------------------------------------------------

# The command `doctor`: checks of the settings.

class Findings:
    """Prints the findings line by line, and then gives the verdict."""

    def __init__(self):
        self.failed = False
        self.unproven = False
        self.untried = False
        self.enforced = True  # users cannot change the settings

    def ok(self, text):
        print("ok    " + text)

    def note(self, text):
        print("note  " + text)

    def doubt(self, text):
        """Reports that something could not be tested here. The calls may be protected or not."""
        self.unproven = True
        print("??    " + text)

    def not_tried(self, text):
        """Reports that the client is not installed yet, so that it could not be tested."""
        self.untried = True
        print("??    " + text)

    def fail(self, text):
        self.failed = True
        print("FAIL  " + text)

    def verdict(self):
        if self.failed:
            return "NOT protected"
        if self.unproven:
            return "not proven: see to the lines with ??"
        if self.untried:
            return "not tried: see to the lines with ??"
        return "protected" if self.enforced else "works"


def doctor(words):
    """Tests on this machine that the hook blocks denied calls, and calls that cannot be checked. Returns 1 if a call
    would run, or if something could not be tested."""
    about = "Tests on this machine that denied calls are blocked. Run it in the agent's folder, because a project's settings count too."
    options = arguments(words, "doctor", about)
    findings = Findings()
    if sys.version_info < (3, 8):
        findings.fail("this is Python %d.%d; 3.8 or newer is needed" % sys.version_info[:2])
        return 1
    chosen = "copilot" if options.dialect == "vscode" else options.dialect
    places = [Place(True)] if options.managed else [Place(True), Place(False)]
    how = "install --managed" if options.managed else "install"
    installed = []
    for client in [chosen] if chosen else sorted(EVENTS):
        found = [(place, entries) for place in places for entries in [entries_of(place, client, findings)] if entries]
        installed += [(client, place) for place, _ in found]
        for place, entries in found:
            try_entries(client, place, entries, findings)
            if client == "codex":
                try_trust(entries, place.managed, findings)
        if found:
            try_version(client, findings)
            managed = any(place.managed for place, _ in found)
            settings_environment(client, managed, findings)
            own_environment(client, managed, findings)
            if client == "codex":
                codex_variables(findings)
            if managed:
                by_its_client(client, findings)
            else:
                by_its_user(client, findings)
                by_its_project(client, findings)
        elif chosen:
            findings.fail("%s does not ask: run `%s --dialect %s`" % (client, how, client))
    if not installed and not chosen:
        findings.fail("no client asks: run `%s --dialect ...`" % how)
    configs = sorted({place.config for _, place in installed})
    if not installed and "SERVICE_API_URL" in os.environ:
        configs = [None]
    for config in [options.config] if options.config else configs:
        try_service(config, findings)
    print(findings.verdict())
    return 1 if findings.failed or findings.unproven else 0


def entries_of(place, client, findings):
    """Returns our `pre` commands in a client's settings. Each command is a list of words or one line. Reports settings
    that switch the hook off."""
    try:
        if client == "opencode":
            return opencode_entries(place, findings)
        path = place.settings_file(client)
        if path.endswith(".toml"):
            return codex_entries(place, path, findings)
        settings = read_settings(path)
    except (Refused, ValueError) as error:
        findings.fail(str(error))
        return []
    first = EVENTS[client][0][0]
    entries = settings.get("hooks", {}).get(first, [])
    ours = [entry for entry in entries if isinstance(entry, dict) and is_ours(entry)] if isinstance(entries, list) else []
    if client == "claude":
        switched_off(place, path, settings, ours, findings)
    if ours and client == "gemini":
        gemini_switched_off(place, path, settings, ours, findings)
        gemini_around(place, settings, findings)
    if ours and client == "copilot":
        copilot_around(place, findings)
    if ours and client in ("copilot", "codex", "cursor") and settings.get("disableAllHooks") is True:
        findings.fail("`disableAllHooks` in %s switches the hook off: remove it" % path)
    found = []
    for entry in ours:
        inner = [one for one in entry["hooks"] if is_ours(one)] if isinstance(entry.get("hooks"), list) else [entry]
        one = inner[0] if inner and isinstance(inner[0], dict) else {}
        line = one.get("exec") or one.get("bash") or one.get("command")
        if not isinstance(line, str):
            findings.fail("the command of %s in %s cannot be read: run `install` again" % (first, path))
            continue
        found.append([line] + one["args"] if "args" in one else line)
        limit = one.get("timeoutSec") or one.get("timeout")
        if entry.get("matcher", "*") not in ("*", ""):
            findings.fail("`matcher` of %s in %s leaves tools out: run `install` again" % (first, path))
        if one.get("async") or one.get("asyncRewake") or one.get("if") or one.get("type", "command") != "command":
            findings.fail("%s in %s does not wait for the hook's answer: run `install` again" % (first, path))
        if limit != SECONDS["pre"] * (1000 if client == "gemini" else 1):
            findings.fail("the time-out of %s in %s differs from the one that the hook got: run `install` again" % (first, path))
        if client == "claude" and one.get("onFailure") != "block":
            findings.fail("`onFailure` is not `block` in %s: run `install` again" % path)
        if client == "cursor" and one.get("failClosed") is not True:
            findings.fail("`failClosed` is not true in %s: run `install` again" % path)
    return found


def switched_off(place, path, settings, ours, findings):
    """Reports settings with which others can switch Claude Code's hook off. Checks the file with the hook, and the
    files beside a managed file."""
    if not place.managed:
        if ours and settings.get("disableAllHooks") is True:
            findings.fail("`disableAllHooks` switches the hook off: remove it, or install --managed")
        return
    if not ours:
        if settings.get("allowManagedHooksOnly") is True:
            findings.fail("managed settings allow only managed hooks, and this hook is not one of them: install --managed")
        return
    for (name,), wanted in options_of(place, "claude", settings).items():
        if settings.get(name) != wanted:
            told = "`%s` is not %s in %s, so users and repositories can get around the hook: run `install` again"
            findings.fail(told % (name, to_json(wanted).decode("utf-8"), path))
    for more in fragments(path):
        own = settings_or_none(more)
        for (name,), wanted in options_of(place, "claude", settings).items():
            if own is None or own.get(name, wanted) != wanted:
                findings.fail("%s changes `%s` of the managed settings: remove it there" % (more, name))


def fragments(path):
    """Returns the files that Claude Code merges with its managed settings."""
    folder = os.path.splitext(path)[0] + ".d"
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


# For each client: the files with a project's settings, the path of a setting in these files, and the value of this
# setting that switches hooks off.
PROJECT_FILES = {
    "claude": ((".claude/settings.json", ".claude/settings.local.json"), ("disableAllHooks",), True),
    "gemini": ((".gemini/settings.json",), ("hooksConfig", "enabled"), False),
    "copilot": (
        (
            ".github/copilot/settings.json",
            ".github/copilot/settings.local.json",
            ".claude/settings.json",
            ".claude/settings.local.json",
        ),
        ("disableAllHooks",),
        True,
    ),
}


def by_its_user(client, findings):
    """Reports that a user's own hook can be switched off. Fails if the project's settings switch it off."""
    findings.enforced = False
    findings.note(
        "%s: everybody who can write the user's or the project's files can switch a user's installation off, "
        "also an agent; `install --managed` prevents this" % client
    )
    names, steps, off = PROJECT_FILES.get(client, ((), (), None))
    # Copilot CLI also reads the settings in the root of the repository.
    folders = folders_up() if client == "copilot" else [os.getcwd()]
    for path in [os.path.join(folder, *name.split("/")) for folder in folders for name in names]:
        try:
            settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that it does not switch hooks off" % path)
            continue
        if look_up(settings, steps) is off:
            told = "`%s` in %s switches the hook off in this folder: remove it, or install --managed"
            findings.fail(told % (".".join(steps), path))


def try_entries(client, place, entries, findings):
    """Tests whether the installed command line blocks an event that it cannot read."""
    if len(entries) > 1:
        findings.fail("%s asks %d times for each call: run `install` again" % (client, len(entries)))
    for line in entries:
        code, out, err = run_line(*as_started(client, line, place.managed), event=b"nonsense")
        if code == 2 and err.strip() and is_json(out):
            findings.ok("%s: the installed command blocks an event that it cannot read" % client)
        else:
            findings.fail("%s: the installed command does not block (exit code %s): run `install` again" % (client, code))


def is_json(text):
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


# --- hook/doctor_environment ------------------------------------------------------------------------------------------

# The command `doctor`: variables and shells that keep a hook from starting, or start another program in its place.

# The loader of programs reads variables whose names begin like this. They can make it start another program than the
# hook, or no program.
LOADER_VARIABLES = ("LD_", "DYLD_")
# Variables whose names begin like this can make a shell start another program. Or they can make Claude Code put another
# program before the hook's command.
SHELL_VARIABLES = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "BASH_FUNC_", "ENV", "PS4")
# The variables of SHELL_VARIABLES that count in a client's own environment. `ENV` and exported functions do not reach
# the hook from there.
SHELL_ENVIRONMENT = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV")
# Many machines set these variables for their own programs. So `own_environment` notes them, but does not fail.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


def settings_environment(client, managed, findings):
    """Fails if `env` in Claude Code's settings can keep the hook from running. Checks the settings in the user's home
    and in this folder."""
    if client != "claude":
        return
    names = LOADER_VARIABLES if managed else LOADER_VARIABLES + SHELL_VARIABLES
    files = [os.path.join(os.getcwd(), *name.split("/")) for name in PROJECT_FILES["claude"][0]]
    for path in [Place(False).settings_file(client)] + files:
        try:
            found = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("env",))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that its `env` does not keep the hook from running" % path)
            continue
        for name in found if isinstance(found, dict) else ():
            if name.upper().startswith(names):
                advice = "remove it" if managed else "remove it, or install --managed"
                findings.fail("`env.%s` in %s can keep the hook from running: %s" % (plain(name, 100), path, advice))


def own_environment(client, managed, findings):
    """Fails if an environment variable can keep the hook from running. A client that is started here passes this
    environment on to the hook."""
    # With managed settings, Gemini CLI removes these variables from the environment of hooks. A managed Claude Code or
    # Copilot CLI starts the hook without a shell.
    names = () if managed and client == "gemini" else LOADER_VARIABLES
    if not managed or client not in ("claude", "copilot", "gemini"):
        names += SHELL_ENVIRONMENT
    for name in sorted(os.environ):
        if not name.upper().startswith(names) or not os.environ[name]:
            continue
        if name in LIBRARY_PATHS:
            findings.enforced = False
            findings.note("`%s` is set here: libraries in its folders can keep a hook from running" % name)
        else:
            findings.fail("`%s` in the environment can keep the hook from running: remove it" % plain(name, 100))


def as_started(client, line, managed):
    """Returns how a client starts this command: the words, and the environment of the hook. The environment is None if
    it is that of this process."""
    import shutil

    if isinstance(line, list):
        return line, None
    if os.name == "nt":
        return line, None
    if client == "codex":
        return [login_shell(), "-c", line], None
    if client == "copilot" and os.path.exists("/bin/bash"):
        return ["/bin/bash", "--norc", "--noprofile", "-c", line], None
    if client == "gemini":
        known = dict(os.environ)
        if managed:
            known = {name: value for name, value in known.items() if name not in STOPPING_VARIABLES}
            known.update(gemini_path(Place(True)).get("env", {}))
        return [shutil.which("bash", path=known.get("PATH")) or "bash", "-c", line], known
    return ["/bin/sh", "-c", line], None


def login_shell():
    """Returns the shell with which Codex starts hooks. This is the user's own shell if Codex knows it, and otherwise
    `/bin/bash` or `/bin/sh`."""
    try:
        import pwd

        found = pwd.getpwuid(os.getuid()).pw_shell
    except (ImportError, KeyError):
        found = ""
    known = os.path.basename(found) in ("bash", "zsh", "sh") and os.path.exists(found)
    return found if known else "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def run_line(line, known=None, event=b""):
    """Runs a hook's command. Returns its exit code, standard output and standard error. The code is None if the command
    cannot be run or takes too long."""
    import subprocess

    pipe = subprocess.PIPE
    options = {"stdout": pipe, "stderr": pipe, "timeout": 100, "env": known}
    try:
        ran = subprocess.run(line, shell=isinstance(line, str), input=event, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", str(error)
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


# --- hook/projects ----------------------------------------------------------------------------------------------------

# Finds files that can get around a user's hook: in the project, in the folders above, and in plugins.

def folders_up():
    """Returns this folder and the folders above it, up to the root of the repository. Without a repository, up to the
    root of the disk."""
    found, at = [], os.getcwd()
    while True:
        found.append(at)
        above = os.path.dirname(at)
        if above == at or os.path.lexists(os.path.join(at, ".git")):
            return found
        at = above


def project_folders():
    """Returns the folders in which Claude Code looks for skills, commands and agents of a project. The user's home is
    left out, because the skills, commands and agents there belong to the user."""
    home = os.path.realpath(os.path.expanduser("~"))
    return [folder for folder in folders_up() if os.path.realpath(folder) != home]


def texts_of(folder, kinds):
    """Returns the texts of a project's skills, slash commands or agents: [(path, text)]. A file that cannot be read
    counts as a text with hooks and shell commands."""
    found = []
    for kind in kinds:
        for path in sorted(texts_below(os.path.join(folder, ".claude", kind))):
            try:
                found.append((path, read_text(path) or ""))
            except Refused:
                found.append((path, "---\nhooks:\n---\n!`"))  # the client may be able to read it
    return found


def skills_with_commands():
    """Returns the skills and slash commands of a project that have a shell command in their text."""
    texts = [each for folder in project_folders() for each in texts_of(folder, ("skills", "commands"))]
    return [path for path, text in texts if "!`" in text or "```!" in text]


def texts_with_hooks():
    """Returns the skills, slash commands and agents of a project that have hooks of their own."""
    texts = [each for folder in project_folders() for each in texts_of(folder, ("skills", "commands", "agents"))]
    return [path for path, text in texts if has_hooks(text)]


def has_hooks(text):
    """Returns whether the head of a text (between two lines `---`) names hooks."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return False
    head = lines[1:]
    ends = [at for at, line in enumerate(head) if line.strip() == "---"]
    return any(line.strip("\"' ").startswith("hooks") for line in (head[: ends[0]] if ends else head))


# The files in which a plugin names its hooks.
PLUGIN_FILES = ("hooks.json", "plugin.json")


def plugin_hooks(folder, names, event):
    """Returns the files with hooks for the event, below a folder of plugins. Also returns files that cannot be read.
    `names` are the plugins that are switched on; None means all plugins."""
    found = []
    for at, _, files in os.walk(folder):
        parts = at[len(folder) :].split(os.sep)
        if names is not None and not any(name in parts for name in names):
            continue
        for path in [os.path.join(at, name) for name in PLUGIN_FILES if name in files]:
            settings = settings_or_none(path)
            if settings is None or any(look_up(settings, ("hooks", name)) for name in (event, event[0].upper() + event[1:])):
                found.append(path)
    return sorted(found)


def enabled_plugins(files):
    """Returns the names of the plugins that these settings switch on."""
    known = [look_up(settings_or_none(path), ("enabledPlugins",)) for path in files]
    return {name.partition("@")[0] for each in known if isinstance(each, dict) for name, on in each.items() if on}


# --- hook/doctor_tries ------------------------------------------------------------------------------------------------

# The command `doctor`: tests that run the hook.

def try_version(client, findings):
    """Checks whether the client on this machine is new enough to block calls."""
    import shutil
    import subprocess

    least = MINIMUM_VERSIONS.get(client)
    if least is None:
        return findings.doubt("%s was never tested: let it make a call that a rule denies, and check" % client)
    program = shutil.which(PROGRAMS[client])
    if program is None:
        what = "its version and its trust in the hook" if client == "codex" else "its version"
        told = "`%s` is not on the PATH, so %s could not be tried: run doctor again as its user when it is installed"
        return findings.not_tried(told % (PROGRAMS[client], what))
    try:
        # Some clients read standard input even for `--version`, and would take the next line of the terminal. So they
        # get an empty standard input.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        ran = subprocess.run([program, "--version"], timeout=60, **pipes)
        found = version_of(ran.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired):
        found = ()
    shown = ".".join(str(part) for part in found) or "of unknown version"
    if not found or found < version_of(least):
        told = "%s %s is too old: hooks are known to block from %s on, update it (with npm: `npm install -g %s@latest`)"
        return findings.fail(told % (client, shown, least, PACKAGES[client]))
    findings.ok("%s %s blocks when its hook fails" % (client, shown))


def try_trust(lines, managed, findings):
    """Checks whether Codex runs the hook. Codex skips a user's hook that is not trusted, and a managed hook that it
    does not find. Codex shows no message about this."""
    import shutil

    program = shutil.which(PROGRAMS["codex"])
    if program is None:
        return  # the version check reports this already
    told = codex_hooks(program)
    if told is None:
        advice = "look in /hooks" if managed else "look in /hooks, or install --managed"
        return findings.doubt("codex does not say whether it trusts the hook: " + advice)
    ours = [one for one in told if one.get("command") in lines]
    states = [one.get("trustStatus") if one.get("enabled") is True else "off" for one in ours]
    if not managed:
        codex_around(told, lines, findings)
    if states and all(state in ("trusted", "managed") for state in states):
        return findings.ok("codex trusts the hook")
    shown = plain(", ".join(sorted({str(state) for state in states})) or "not there", 100)
    advice = "run `install --managed` again" if managed else "open /hooks in Codex and trust it, or install --managed"
    findings.fail("codex skips the hook (it is %s): %s" % (shown, advice))


def codex_hooks(program):
    """Asks `codex app-server` which hooks Codex runs in the user's home and in this folder. Returns None if there is no
    usable answer."""
    import subprocess
    from threading import Timer

    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "countersign-doctor", "version": VERSION}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [os.path.expanduser("~"), os.getcwd()]}},
    )
    try:
        process = subprocess.Popen(
            [program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    limit = Timer(60, process.kill)
    limit.start()
    try:
        process.stdin.write(b"".join(to_json(each) + b"\n" for each in asked))
        process.stdin.flush()
        for line in process.stdout:
            answered = parse_json(line.decode("utf-8"))
            if answered.get("id") == 2:
                return [one for each in answered["result"]["data"] for one in each["hooks"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        try:
            process.stdin.close()
        except OSError:
            pass
    return None


def try_service(config, findings):
    """Tests a denied call, and a call while the service is unreachable. Each test starts the hook as a process."""
    import tempfile

    try:
        settings = Settings(config)
        settings.check()
        refuse_nobody(config, settings)
    except Refused as error:
        return findings.fail(str(error))
    if settings.secure:
        import ssl

        if not ssl.HAS_TLSv1_3:
            return findings.fail("%s cannot speak TLS 1.3: use a newer Python" % ssl.OPENSSL_VERSION)
    if not settings.fail_open:
        findings.ok("fail mode is closed")
    else:
        findings.fail("fail mode is open: calls run while the service is unreachable; set it to closed")
    with tempfile.TemporaryDirectory() as folder:
        nobody = "org_00000000000000000000000000"
        session = "doctor-%d-%d" % (os.getpid(), time.time())
        denied = try_call(folder, settings, session, {"organization_id": nobody})
        answered = denied[0] == 2 and denied[2].startswith("blocked")
        if answered:
            told = "%s answered: a call for another organization was denied, and blocked (your rules were not tried)"
            findings.ok(told % settings.api_url)
        else:
            findings.fail(without_denial(settings, denied[0], denied[2].strip()))
        gone = try_call(folder, settings, session, {"api_url": "http://127.0.0.1:1"})
        if gone[0] == 2:
            findings.ok("a call is blocked while the service is unreachable")
        elif not settings.fail_open:
            findings.fail("a call runs while the service is unreachable")
    if answered:
        try_key(settings, session + "-own", findings)
        try_checksum(settings, findings)
        for each in (session, session + "-own"):
            send_end(settings, each, time.monotonic() + 5)


def without_denial(settings, code, told):
    """Explains an answer of the hook that is not the expected denial."""
    reason = told.partition("countersign: ")[2].partition(", and calls")[0].partition("; fail mode")[0]
    if not reason:
        return "a call that must be denied was not: %s" % (told or "it was allowed")
    meanwhile = "calls are blocked meanwhile" if code == 2 else "calls run unchecked meanwhile"
    hint = ": start it, or correct SERVICE_API_URL" if "unreachable" in reason else ""
    return "%s could not be asked: %s; %s%s" % (settings.api_url, reason, meanwhile, hint)


def try_call(folder, settings, session, changed):
    """Runs the hook with changed settings, for a harmless call. Returns the exit code, standard output and standard
    error."""
    import subprocess

    named = {
        "api_url": settings.api_url,
        "api_key": settings.key,
        "fail_mode": "open" if settings.fail_open else "closed",
        "approval_wait": 0,
        "allow_http": settings.allow_http,
    }
    path = os.path.join(folder, "hook.json")
    named.update(way_of(settings))
    with open(path, "wb") as file:
        os.chmod(path, 0o600)
        file.write(to_json(dict(named, **changed)))
    event = to_json(
        {
            "session_id": session,
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "true"},
        }
    )
    line = [sys.executable, "-I", "-S", os.path.abspath(__file__), "pre", "--dialect", "doctor", "--config", path]
    return run_line(line, event=event)


def try_key(settings, session, findings):
    """Checks whether the key belongs to the organization of the settings. A key on an agent's machine should have only
    the scope agents:authorize. The service does not tell such a key whose key it is."""
    try:
        scopes = ask(settings, "GET", "/me", None, time.monotonic() + 10).get("scopes")
    except (Refused, Unreachable):
        scopes = None
    # `scopes` is a list, or an object that maps each scope to true or false.
    held = [scope for scope in scopes if not isinstance(scopes, dict) or scopes[scope]] if scopes else []
    if any(scope != "agents:authorize" for scope in held):
        findings.note("this key can do more than ask: make one with only the scope agents:authorize")
    named = settings.organization_id
    if named is None:
        return
    if settings.must_match:
        try:
            strange = key_organization(settings, time.monotonic() + 10) != named
            return findings.fail(strange_key(settings)) if strange else findings.ok("the key is of the organization `%s`" % named)
        except Forbidden:
            pass  # the key can only ask for decisions, and the question below shows whether it may
        except (Refused, Unreachable) as error:
            return findings.doubt("the service does not say whose key it is: %s" % error)
    asked = {"agent": {"name": "doctor", "kind": "coding_agent"}, "session_id": session, "tool_name": "Glob"}
    body = to_json(dict(asked, tool_input={}, organization_id=named))
    try:
        reason = text_of(ask(settings, "POST", "/authorize", body, time.monotonic() + 10), "reason")
    except (Refused, Unreachable):
        reason = None
    if reason is None:
        findings.doubt("the service does not say whether the key belongs to the organization `%s`" % plain(named, 100))
    elif reason in ("wrong organization", "not a member"):
        wrong = "every call is denied: the organization is `%s`, and the key's person is not a member: "
        advice = "correct SERVICE_ORG_ID (`organization_id` in hook.json), or remove it"
        findings.fail(wrong % plain(named, 100) + advice)


def own_checksum():
    import hashlib

    with open(os.path.abspath(__file__), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def try_checksum(settings, findings):
    """Checks whether this file is the version that the service offers now."""
    try:
        listed = ask(settings, "GET", "/integrations", None, time.monotonic() + 10).get("files", [])
    except (Refused, Unreachable):
        return
    own = own_checksum()
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == OUR_FILE and each.get("sha256") != own:
            findings.note("the service has another version of this file: download it and run `install` again")


# --- hook/opencode_doctor ---------------------------------------------------------------------------------------------

# opencode: the checks of `doctor`.

def opencode_entries(place, findings):
    """Returns the command of the installed plugin. Reports what keeps opencode from asking the hook."""
    path = place.settings_file(OPENCODE_PLUGIN if place.managed else "opencode")
    text = read_text(path)
    again = "%s: run `install` again"
    if place.managed:
        file = place.settings_file("opencode")
        settings = read_settings(file)
        ours = [each for each in settings.get("plugin", []) if is_ours(each)]
        if not ours:
            return []
        if settings.get("enabled_providers") != [NO_PROVIDER]:
            findings.fail(again % ("`enabled_providers` in %s lets opencode work without the hook" % file))
        if os.path.exists(file + "c"):
            findings.fail("`%sc` is read after the settings with the hook: move it into opencode.json" % file)
    if text is None:
        if place.managed:
            findings.fail(again % ("`%s` is not there" % path))
        return []
    line = next((line for line in text.splitlines() if line.startswith("const hook = ")), "")
    try:
        words = parse_json(line.partition(" = ")[2])["commands"]["pre"]
        same = text == opencode_plugin(place, words[0])
    except (ValueError, KeyError, TypeError, IndexError):
        words, same = None, False
    if not same:
        findings.fail(again % ("`%s` was changed" % path))
    before = findings.failed
    findings.failed = False
    opencode_around(place, findings)
    if not findings.failed:
        # This test starts opencode. It is left out if a check of `opencode_around` has failed, because opencode could
        # then run a program of this folder.
        try_plugin(place, path, findings)
    findings.failed = findings.failed or before
    return [words] if words else []


def try_plugin(place, path, findings):
    """Tests whether opencode runs the plugin in this folder. For a managed hook, also tests that opencode runs only
    plugins of the managed settings."""
    import shutil
    import subprocess

    program = shutil.which(PROGRAMS["opencode"])
    if program is None:
        return  # the version check reports this already
    try:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        ran = subprocess.run([program, "debug", "config"], timeout=120, **pipes)
        shown = parse_json(ran.stdout.decode("utf-8", "replace"))
        origins = [(each["source"], each["spec"]) for each in shown.get("plugin_origins", [])]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, AttributeError):
        return findings.doubt("opencode does not show its settings: run `opencode debug config` in this folder")
    if shown.get(PLUGIN_MARK) is not True:
        return findings.fail("opencode does not run `%s` in this folder: run `install` again" % path)
    folder = os.path.dirname(place.settings_file("opencode")) + os.sep
    others = [spec for source, spec in origins if not is_ours([source, spec]) and not source.startswith(folder)]
    if place.managed and others:
        found = ", ".join(plain(each[0] if isinstance(each, list) else each, 200) for each in others)
        return findings.fail("opencode loads plugins that the managed settings do not name: %s" % found)
    findings.ok("opencode runs the plugin in this folder")


def opencode_around(place, findings):
    """Reports what switches the hook off or gets around it. Checks the environment, the user's files, and the files of
    this folder and the folders above it."""
    said = os.environ.get
    if place.managed and "OPENCODE_TEST_MANAGED_CONFIG_DIR" in os.environ:
        findings.fail("`OPENCODE_TEST_MANAGED_CONFIG_DIR` replaces the managed settings: remove it from the environment")
    if not place.managed and is_yes(said("OPENCODE_PURE")):
        findings.fail("`OPENCODE_PURE` switches the hook off: remove it from the environment, or install --managed")
    if '"plugin' in said("OPENCODE_CONFIG_CONTENT", ""):
        findings.fail("`OPENCODE_CONFIG_CONTENT` names plugins, which can get around the hook: remove it")
    folders, files = [], [said("OPENCODE_CONFIG")]
    own = os.path.dirname(os.path.dirname(Place(False).settings_file("opencode")))
    if place.managed:
        folders += [own, os.path.join(os.path.expanduser("~"), ".opencode")]
    folders += [each for each in [said("OPENCODE_CONFIG_DIR")] if each]
    skills = []
    # Even with OPENCODE_DISABLE_PROJECT_CONFIG, opencode loads the project's plugins (docs/agents-reference.md).
    is_off = is_yes(said("OPENCODE_DISABLE_PROJECT_CONFIG"))
    at = os.getcwd()
    while at is not None:
        own = os.path.join(at, ".opencode")
        files += [os.path.join(at, name) for name in ("opencode.json", "opencode.jsonc")]
        if not is_off:
            folders.append(own)
        else:
            files += [os.path.join(own, name) for name in ("opencode.json", "opencode.jsonc")]
            for path in programs_of(own, ("plugin", "plugins")):
                findings.fail("opencode runs %s as a part of itself, so it can get around the hook: remove it" % path)
        if not is_yes(said("OPENCODE_DISABLE_EXTERNAL_SKILLS")):
            skills += [os.path.join(at, name, "skills") for name in (".claude", ".agents")]
        above = os.path.dirname(at)
        at = above if above != at else None
    for folder in dict.fromkeys(folders):
        files += [os.path.join(folder, name) for name in ("opencode.json", "opencode.jsonc")]
        skills += [os.path.join(folder, name) for name in ("skill", "skills")]
        if not place.managed:
            skills += [os.path.join(folder, name) for name in ("command", "commands")]
        for path in programs_of(folder):
            findings.fail("opencode runs %s as a part of itself, so it can get around the hook: remove it" % path)
    for path in dict.fromkeys(files):
        if path and path != place.settings_file("opencode") and names_plugins(path):
            findings.fail("%s names plugins, which can get around the hook: remove them there" % path)
    for path in [path for folder in dict.fromkeys(skills) for path in texts_below(folder)]:
        if "!`" in (read_text(path) or ""):
            told = "opencode runs the shell commands in %s before any hook is asked, when a person calls it: remove them"
            findings.fail(told % path)


def is_yes(value):
    return (value or "").lower() in ("1", "true")


def programs_of(folder, kinds=("plugin", "plugins", "tool", "tools")):
    """Returns the plugins and tools of a folder. opencode loads each of them into its own process when it starts."""
    found = []
    for kind in kinds:
        try:
            names = sorted(os.listdir(os.path.join(folder, kind)))
        except OSError:
            names = []
        found += [os.path.join(folder, kind, name) for name in names if name.endswith((".js", ".ts"))]
    ours = Place(False).settings_file("opencode")
    return [path for path in found if path != ours]


def names_plugins(path):
    """Returns whether a file of settings names plugins, with the option `plugin` or `plugins`. A file with comments
    cannot be read as JSON, so its text is searched."""
    text = read_text(path) or ""
    try:
        settings = parse_json(text.lstrip("\ufeff") or "{}")
        return bool(look_up(settings, ("plugin",)) or look_up(settings, ("plugins",)))
    except ValueError:
        return '"plugin' in text


def texts_below(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".md")]


# --- hook/doctor_around -----------------------------------------------------------------------------------------------

# The command `doctor`: finds open ways around the hook (docs/agents-reference.md).

# Known ways around a managed hook. `install` cannot close these ways. Each tested client has some, so `doctor` calls no
# client protected.
OPEN_WAYS = {
    "claude": (
        "a user's settings can set variables of the loader in `env`, such as `LD_TRACE_LOADED_OBJECTS`, with which no hook starts",
        "a repository's `apiKeyHelper` and `otelHeadersHelper` start programs, and no hook is asked, also with `-p` in a folder that is not "
        'trusted: set both to "" in the managed settings. `statusLine` of a trusted folder does so in a terminal, and no setting was tried',
        "a trusted repository's MCP servers (`.mcp.json`) start programs, and no hook is asked: write `{\"mcpServers\": {}}` into "
        "`managed-mcp.json` beside the managed settings",
    ),
    "codex": (
        "variables such as `BASH_ENV`, in the environment or in `.env` of a user's folder `.codex`, keep the shell from starting the hook",
        "a trusted repository's MCP servers (`.codex/config.toml`) start programs, and no hook is asked: add an empty table `[mcp_servers]` to "
        "`requirements.toml`",
    ),
    "copilot": (
        "a trusted repository's language server (`.github/lsp.json`) starts a program, and the hook is asked only about the tool `LSP`: "
        "deny `LSP` with a rule",
    ),
    "opencode": (
        "a repository's plugins run in opencode itself before any call, and nothing prevents that; tools and skills with commands need "
        "OPENCODE_DISABLE_PROJECT_CONFIG=1 and OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
        "a repository's MCP servers and formatters start programs, and no hook is asked: set OPENCODE_DISABLE_PROJECT_CONFIG=1",
    ),
    "gemini": (
        "a copy of the hook in a user's settings, or `GEMINI_CLI_SYSTEM_SETTINGS_PATH` in the environment, replaces the managed one",
        "a trusted repository's MCP servers start programs, and no hook is asked: name at least one server as `mcp.allowed` in the managed "
        "settings, and define each of these servers there. An empty list allows every server",
        'a trusted repository\'s `tools.discoveryCommand` starts a program, and no hook is asked: set it to "" in the managed settings',
    ),
}
COPILOT_SERVERS = (
    'a trusted repository\'s MCP servers start programs, and no hook is asked: set `"allowedMcpServers": []` in %s. '
    "A list of names does not help, because a repository can use an allowed name"
)


def by_its_client(client, findings):
    """Prints how a user or a repository can still get around a managed hook. If there is such a way, the verdict is at
    most `works`, and not `protected`."""
    ways = OPEN_WAYS.get(client, ())
    if client == "copilot":
        ways += copilot_servers()
    for way in ways:
        findings.enforced = False
        findings.note("%s: what still gets around the managed hook: %s" % (client, way))


def copilot_servers():
    """Returns a text if a repository's MCP servers can get around the hook. Returns nothing if the managed settings
    allow no server."""
    if os.name == "nt":
        return (COPILOT_SERVERS % "the managed settings",)
    path = Place(True).settings_file(COPILOT_POLICY)
    return () if look_up(settings_or_none(path), ("allowedMcpServers",)) == [] else (COPILOT_SERVERS % path,)


def codex_variables(findings):
    """Fails if Codex's file `.env` has a variable that keeps the hook from starting."""
    path = os.path.join(os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex"), ".env")
    for variable in stopping_variables(path):
        findings.fail("`%s` in %s keeps the hook from running: remove it" % (variable, path))


def by_its_project(client, findings):
    """Fails if something in this folder's project, in an extension or in a plugin can get around a user's own hook."""
    if client == "gemini":
        for path in extension_hooks():
            told = "an extension's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
    if client != "claude":
        return
    names, own = PROJECT_FILES["claude"][0], Place(False).settings_file("claude")
    files = [os.path.join(os.getcwd(), *name.split("/")) for name in names]
    # If this folder is the user's home, one of these files is the user's own settings file, and not a project's.
    files = [path for path in files if os.path.realpath(path) != os.path.realpath(own)]
    known = [settings_or_none(path) for path in files]
    for path, settings in zip(files, known):
        if look_up(settings, ("hooks", "PreToolUse")):
            told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
    for path in texts_with_hooks():
        findings.fail("a hook in the head of %s can change a call after it was judged: remove it, or install --managed" % path)
    plugins = os.path.join(os.path.dirname(own), "plugins")
    for path in plugin_hooks(plugins, enabled_plugins(files + [own]), "PreToolUse"):
        findings.fail("a plugin's hook in %s can change a call after it was judged: switch it off, or install --managed" % path)
    known.append(settings_or_none(own))
    asked = [look_up(settings, ("disableSkillShellExecution",)) for settings in known]
    if True in asked and False not in asked:
        return
    for path in skills_with_commands():
        told = "%s has a shell command that runs before any hook is asked: remove it, set `disableSkillShellExecution`, or install --managed"
        findings.fail(told % path)


def extension_hooks():
    """Returns the files of Gemini CLI's extensions that have hooks for `BeforeTool`."""
    folder, found = os.path.join(gemini_home(), ".gemini", "extensions"), []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    for name in names:
        path = os.path.join(folder, name, "hooks", "hooks.json")
        if look_up(settings_or_none(path), ("hooks", "BeforeTool")):
            found.append(path)
    return found


def codex_around(told, lines, findings):
    """Fails if a trusted hook of the project can change a call after our hook has judged it."""
    own = Place(False).settings_file("codex")
    paths = set()
    for one in told:
        is_before = str(one.get("eventName")).replace("_", "").lower() == "pretooluse"
        runs = one.get("enabled") is True and one.get("trustStatus") == "trusted"
        if is_before and runs and one.get("command") not in lines and one.get("sourcePath") != own:
            paths.add(str(one.get("sourcePath")))
    for path in sorted(paths):
        told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
        findings.fail(told % plain(path, 200))


def settings_or_none(path):
    """Returns a client's settings; None if the settings cannot be read."""
    try:
        return parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}")
    except (Refused, ValueError):
        return None


# --- hook/main --------------------------------------------------------------------------------------------------------

# The command line.

class Options:
    """Reads --dialect, --timeout and --config. It does not use argparse, because loading argparse takes as long as
    everything else."""

    def __init__(self, words):
        self.dialect = None
        self.timeout = None
        self.config = None
        self.started = time.monotonic()
        words = list(words)
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            if name not in ("--dialect", "--timeout", "--config"):
                raise Refused("unknown option `%s`; %s" % (word, USAGE))
            if not equals:
                if not words:
                    raise Refused("%s needs a value; %s" % (name, USAGE))
                value = words.pop(0)
            if name == "--dialect":
                if value not in AGENT_NAMES and value != "doctor":
                    raise Refused("unknown dialect `%s`: there are %s" % (value, ", ".join(AGENT_NAMES)))
                self.dialect = value
            elif name == "--timeout":
                self.timeout = seconds(value, None)
                if not self.timeout:
                    raise Refused("--timeout needs the seconds that the client waits, not `%s`" % value)
            else:
                self.config = value


def patience(dialect, timeout):
    """Returns the time limit of this process in seconds. It is a ninth shorter than the client's limit, and usually at
    least 1.5 s shorter, because the clock of this process starts only after Python has started."""
    limit = timeout or CLIENT_TIMEOUT.get(dialect, UNKNOWN_TIMEOUT)
    return limit - max(limit / 9, min(1.5, limit / 2))


def guarded(answer, work, options, blocking):
    """Runs `work` in another thread. This thread only waits for the deadline or a signal, and then answers. So the
    answer comes in time even if `work` waits for a slow name server or a full pipe."""

    def run():
        try:
            try:
                work(answer, options)
            finally:
                answer.asking = False
        except Refused as error:
            finish(str(error))
        except Unreachable as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the service is unreachable (%s); fail mode is open: not checked" % error)
            finish("the service is unreachable (%s), and calls that cannot be checked are blocked" % error)
        except BaseException as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the hook failed (%s); fail mode is open: not checked" % type(error).__name__)
            finish("the hook failed (%s)" % type(error).__name__)

    def finish(reason):
        if blocking:
            answer.deny("countersign: " + reason)
        answer.allow("countersign: " + reason)

    def stopped(number, frame):
        if not blocking:
            answer.allow()
        reason = "the hook was stopped before a decision arrived"
        if answer.waiting_for is not None:
            reason = held(answer.waiting_for[1], "was given up with the call")
        answer.deny("countersign: " + reason, lambda: withdraw(answer))

    import _signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), stopped)
    start_new_thread(run, ())
    while time.monotonic() < answer.deadline:
        # A killed client sends no signal to its hooks. So while a call is held, this loop checks each second whether
        # the client still listens.
        if answer.waiting_for is not None and answer.is_unheard():
            stopped(None, None)
        time.sleep(max(0.0, min(1.0, answer.deadline - time.monotonic())))
    if answer.waiting_for is not None:
        finish(pending(answer.waiting_for[1]))
    finish("no decision arrived within the time that the client waits")


def main(words):
    command = words[0] if words else ""
    if command in ("--help", "-h"):
        print(USAGE + "\n       service_hook.py install|doctor --help, service_hook.py --version")
        return 0
    if command == "--version":
        print("service_hook.py %s, sha256 %s" % (VERSION, own_checksum()))
        return 0
    if command in ("install", "doctor"):
        return install(words[1:]) if command == "install" else doctor(words[1:])
    if command not in COMMANDS and os.isatty(0):
        # A person typed this, so no client reads the output as an answer.
        sys.stderr.write(USAGE + "\n")
        return 2
    answer = Answer()
    try:
        if sys.version_info < (3, 8):
            raise Refused("Python 3.8 or newer is needed, but this is %d.%d" % sys.version_info[:2])
        options = Options(words[1:])
        answer.dialect = options.dialect if command == "pre" else None
    except Refused as error:
        if command in ("post", "end", "flush", "deliver"):
            answer.allow("countersign: " + str(error))
        answer.deny("countersign: " + str(error))
    if command == "pre":
        answer.deadline = options.started + patience(options.dialect, options.timeout)
        guarded(answer, pre, options, True)
    if command == "post":
        answer.deadline = options.started + patience(None, options.timeout or 15)
        guarded(answer, post, options, False)
    if command == "end":
        answer.deadline = options.started + 1.8
        guarded(answer, end, options, False)
    if command in ("flush", "deliver"):
        answer.deadline = options.started + 60
        guarded(answer, flush if command == "flush" else deliver, options, False)
    answer.deny(USAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
