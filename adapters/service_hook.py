#!/usr/bin/env python3
"""Countersign's hook: a coding agent asks before each tool call, and what may not run is blocked.

    service_hook.py pre|post|end|install|doctor [--dialect claude|codex|gemini|copilot|cursor|vscode]

`pre` reads the client's event on standard input and asks the service. Allowed: it prints nothing and exits 0, so that
the client's own prompts run (Cursor wants a word, and gets it). Anything else: the reason on standard error, one JSON
object in the client's dialect on standard output, exit code 2. A held call waits for an approver, but never as long as
the client would wait for this process: a client that loses patience runs the call.
`post` reports a finished call by name and arguments, `end` closes the session; neither ever blocks. Outputs of tools
never leave this machine, and no value is ever written to a log. `install` writes a client's settings, `doctor` proves
that they block; both explain themselves with --help.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. With
--config FILE the file's values win, so that no project's settings can redirect a session; the fail mode, plain http, the
proxy and the authorities are then the file's alone to name (fail_mode, allow_http, https_proxy, ca_file).

Python 3.8 or newer, standard library only. It is one file of many lines because it is downloaded, checked against its
checksum and read by administrators as one. A process starts for every tool call: modules are imported where they are
needed, and sockets are used directly, since http.client alone would double the time.
"""

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # of an authorize request (contract section 7)
MAX_INPUT = 32 * MIB  # of an event: escapes may make it six times as long as what is sent, and more is not read
MAX_ANSWER = MIB
ASK_SECONDS = 20  # without an answer for this long the service counts as unreachable
POLL_SECONDS = 30  # longest wait the service holds a poll for
DEFAULT_WAIT = 55
USAGE = "usage: service_hook.py pre|post|end|install|doctor [--dialect claude|codex|gemini|copilot|cursor|vscode]"
COMMANDS = ("pre", "post", "end", "flush", "deliver")

# Client time-outs in seconds that are assumed when the command line names none (--timeout): what `install`
# writes, or less where the client's own default is less. All clients run the call when they time out.
CLIENT_TIMEOUT = {"claude": 90, "codex": 90, "gemini": 60, "copilot": 30, "cursor": 30, "vscode": 30}
UNKNOWN_TIMEOUT = 30

AGENT_NAMES = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini-cli",
    "copilot": "copilot-cli",
    "cursor": "cursor",
    "vscode": "vscode",
}


class Refused(Exception):
    """Blocks the call in both fail modes; the text is the reason."""


class Unreachable(Exception):
    """The service gave no answer at all, or said itself that it is broken; the fail mode decides."""


# --- The one answer of this process ---------------------------------------------------------------------------------


class Answer:
    """Standard output is kept for one JSON object, and one thread alone gets to write it.

    Whatever else prints, a warning or a library, ends up on standard error: a byte before the object's brace is enough
    for some clients to run a denied call.
    """

    def __init__(self):
        try:
            os.fstat(0)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # or the copy below would take its place
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
        self.asking = False  # a decision is on its way
        self.waiting_for = None  # settings and decision of a held call, while it waits for its approver

    def deny(self, reason, before_exit=None):
        """Blocks the call: the reason goes first, for clients that read an empty standard error as no objection."""
        self._claim()
        reason = plain(reason, 2000)
        write_all(2, (reason + "\n").encode("utf-8", "replace"))
        write_all(self._out, deny_line(self.dialect, self.event, reason))
        if before_exit is not None:
            before_exit()
        os._exit(2)

    def allow(self, note=None):
        """Lets the client go on; a note is for its log."""
        self._claim()
        if note is not None:
            write_all(2, (plain(note, 2000) + "\n").encode("utf-8", "replace"))
        if self.dialect == "cursor":
            write_all(self._out, b'{"permission":"allow"}\n')
        os._exit(0)

    def is_unheard(self):
        """Whether nobody is left to read standard output: the client has ended, whoever stands in between."""
        import select

        if self._out is None or not hasattr(select, "poll"):
            return False
        watch = select.poll()
        watch.register(self._out, 0)
        return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in watch.poll(0))

    def _claim(self):
        if not self._claimed.acquire(False):
            # Another thread is answering, and ends the process; unless nobody reads what it writes.
            time.sleep(2)
            os._exit(2)


def write_all(descriptor, data):
    """Writes bytes as far as the other side takes them; one that has gone is no reason to change the exit code."""
    while data and descriptor is not None:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return


def plain(text, longest):
    """One line without control characters, cut to a length: rule names and comments are other people's text."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def deny_line(dialect, event, reason):
    """The deny of a client as one line of ASCII JSON; all of them in one object when the client is not known."""
    claude = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    if dialect in ("claude", "codex", "vscode") or (dialect == "copilot" and event == "PreToolUse"):
        said = {"hookSpecificOutput": claude}
    elif dialect == "gemini":
        said = {"decision": "deny", "reason": reason}
    elif dialect == "copilot":
        said = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    elif dialect == "cursor":
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


# --- What the client says -------------------------------------------------------------------------------------------

# The names a client gives its own tools, as Claude Code would call them: rules and tool policies are written once.
# A name that is not here is passed on as it is, and counts as a write.
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
}

# Arguments that rules name, by the clients' other spellings. They are added, and what the client sent stays.
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

# Which of them is a file's path or a folder's.
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

# Tools that take a bare text instead of an object.
FREE_TEXT = ("apply_patch",)

# The largest whole number that every reader of JSON reads as the same: a double holds no more.
LARGEST = 2**53 - 1


class Call:
    """One tool call as the service is asked about it."""

    def __init__(self, dialect, event, session_id, tool, arguments, use_id, refused):
        self.dialect = dialect
        self.event = event
        self.session_id = session_id
        self.tool = tool
        self.arguments = arguments
        self.use_id = use_id
        self.refused = refused  # why nobody need be asked


def detect(given, event):
    """The dialect of an event: the one given, unless the client is certainly another that reads its settings too."""
    name = event.get("hook_event_name")
    if given in (None, "claude", "copilot") and "hookEventName" in event:
        return "vscode"
    if given is not None:
        return given
    if "conversation_id" in event:
        return "cursor"
    if name in ("BeforeTool", "AfterTool"):
        return "gemini"
    if "toolName" in event and "sessionId" in event:
        return "copilot"
    if name in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionEnd") and "session_id" in event:
        return "codex" if "turn_id" in event else "claude"
    return None


def text_of(event, *keys):
    """The first of these fields that holds a text."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def session_of(event):
    return text_of(event, "session_id", "sessionId", "conversation_id")


def read_call(dialect, event):
    """Reads a client's event; refuses one without a session, a tool or arguments."""
    session_id = session_of(event)
    if session_id is None:
        raise Refused("the client named no session: this event is not one of a tool call")
    name = event.get("hook_event_name", event.get("hookEventName"))
    tool = text_of(event, "tool_name", "toolName")
    arguments = next((event[key] for key in ("tool_input", "toolArgs", "toolInput") if key in event), None)
    if dialect == "cursor" and name in ("beforeShellExecution", "afterShellExecution"):
        tool, arguments = "Shell", {key: event[key] for key in ("command", "cwd", "sandbox") if key in event}
    elif dialect == "cursor" and name == "beforeReadFile":
        # The file's content is in the event too, and stays here.
        tool, arguments = "Read", {"file_path": event.get("file_path")}
    elif dialect == "cursor" and name == "beforeMCPExecution" and tool is not None:
        tool = "MCP:" + tool
    if tool is None:
        raise Refused("the client named no tool: this event is not one of a tool call")
    canonical = canonical_name(dialect, tool, event.get("mcp_context"))
    refused, cwd = None, event.get("cwd")
    try:
        arguments = as_object(tool, arguments)
        refuse_inexact(arguments)
        arguments = canonical_arguments(dialect, canonical, arguments, cwd if is_absolute(cwd) else None)
        if tool == "apply_patch" and canonical == "Edit" and not arguments.get("file_path"):
            raise Refused("the patch names no file that is recognised: begin it with `*** Begin Patch`, and name each file")
    except Refused as error:
        # Kept for later: that the call ran all the same has to be told.
        refused = str(error)
        arguments = arguments if isinstance(arguments, dict) else {"input": arguments}
    return Call(
        dialect, name, session_id, canonical, arguments, text_of(event, "tool_use_id", "toolUseId"), refused
    )


def as_object(tool, arguments):
    """Arguments as the object that rules read: some clients send its JSON as a text, and few tools take a bare text.
    Refuses what is neither: a client may still read in it what no rule would."""
    if isinstance(arguments, str):
        text = arguments.strip().lstrip("\ufeff").lstrip()
        if text[:1] in ("{", "[", '"'):
            try:
                arguments = parse_json(text)
            except ValueError as error:
                raise Refused("the arguments are a text that is not the JSON of an object: %s" % plain(error, 200))
        elif text in ("", "null"):
            arguments = None
        elif tool in FREE_TEXT:
            arguments = {"input": arguments}
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise Refused("the arguments are no object: give each of them by its name")
    return arguments


def refuse_inexact(arguments):
    """Refuses numbers that the service would round: what is approved of one would hold for its neighbours."""
    rest = [arguments]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, (int, float)) and not -LARGEST <= one <= LARGEST:
            raise Refused("the arguments hold a number beyond %d, which others round: give it as a text" % LARGEST)


def canonical_name(dialect, tool, mcp_context=None):
    """A tool's name as Claude Code would have it; `mcp__<server>__<tool>` for a protocol server's."""
    if dialect == "gemini" and isinstance(mcp_context, dict):
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
    """Server and tool of a name like `github-mcp-server-get_me`. Both parts may hold hyphens, so that it can be cut
    wrongly; the first hyphen leaves every verb on the tool's side, where words that send count."""
    builtin = "github-mcp-server"
    if tool.startswith(builtin + "-"):
        return builtin, tool[len(builtin) + 1 :]
    server, _, own = tool.partition("-")
    return server, own


def token(name):
    """As Claude Code writes names of servers and tools: other characters become `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


def canonical_arguments(dialect, tool, arguments, cwd):
    """The client's arguments, with those that rules name added under Claude Code's names. What is there under several
    names is there with all its values: which of them the client means is not ours to guess. A path is there in its
    plain form as well, as the client finds it."""
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
            for key in ("command", "input", "patch"):
                given += patched_files(arguments.get(key), cwd)
            given += replaced_files(arguments.get("replacements"))
        if wanted == "url":
            given += addresses(arguments.get("prompt"))
        if wanted == path:
            given += [form for value in single(given) for form in plain_forms(value, cwd)]
        add(found, wanted, given)
    return found


def add(arguments, name, given):
    """One value as it is. Several as an object: in a list, `contains` compares whole elements, and would no longer look
    into them."""
    each = single(given)
    if len(each) > 1 or (each and any(isinstance(value, list) for value in given)):
        arguments[name] = {str(at): value for at, value in enumerate(each, 1)}
    elif each:
        arguments[name] = each[0]


def single(given):
    """What is given, lists by their elements; each text once."""
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
    """The command as a text, also where it is given by its words. Refuses two that differ: of several no one is judged
    as it would run."""
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
    """A word as a shell reads it back; plain ones stay as a rule would have them."""
    if word and all(c.isascii() and (c.isalnum() or c in "_-./:,@%+") for c in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def replaced_files(replacements):
    """The files of VS Code's several replacements at once."""
    each = replacements if isinstance(replacements, list) else []
    return [one["filePath"] for one in each if isinstance(one, dict) and isinstance(one.get("filePath"), str)]


FILE_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
OTHER_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def patched_files(patch, cwd):
    """The files that a patch in Codex's form touches, which reads a header with blanks around it as well. Refuses what
    looks like a header and is none: another reader may know it."""
    if not isinstance(patch, str):
        return []
    paths = []
    for line in patch.split("\n"):
        # What some readers take for the end of a line may hide a header behind it.
        parts = line.rstrip("\r").splitlines()
        if not any(looks_like_header(part) for part in parts):
            continue
        header = line.strip()
        mark = next((mark for mark in FILE_MARKS if header.startswith(mark)), None)
        path = header[len(mark) :] if mark is not None else ""
        if mark is not None and path == path.strip() != "" and path.isprintable():
            paths.append(collapsed(os.path.join(cwd or "", path)))
        elif len(parts) > 1 or not (header in OTHER_MARKS or header.startswith("*** Environment ID: ")):
            shown = plain(header, 60)
            raise Refused("a line of the patch is not understood as a header: `%s`; leave it out of the context" % shown)
    if "*** Begin Patch" in patch and not paths:
        raise Refused("the patch names no file that is recognised: write `*** Update File: path`")
    return paths


def looks_like_header(line):
    return all(c.isspace() or not c.isprintable() for c in line.partition("***")[0]) and "***" in line


def is_absolute(path):
    return isinstance(path, str) and os.path.isabs(path)


def collapsed(path):
    """A path without `.`, `..` and slashes that say nothing, as the clients read it: by its text alone."""
    found = os.path.normpath(path)
    return "/" + found.lstrip("/") if found.startswith("//") else found


def plain_forms(path, cwd):
    """The absolute paths that a client may make of this one, in their plain form."""
    if not isinstance(path, str):
        return []
    places = [os.path.join(cwd or "", path)] if cwd is not None or os.path.isabs(path) else []
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        # Clients go by HOME, which may lead elsewhere.
        places += [place + path[1:] for place in (os.path.expanduser("~"), home())]
    if path[:5].lower() == "file:":
        from urllib.parse import unquote

        # With a machine's name before it, or none.
        named = unquote(path[5:]).lstrip("/")
        root = "" if os.name == "nt" else "/"
        places += [root + named, root + named.partition("/")[2]]
    return [collapsed(place) for place in places if os.path.isabs(place)]


def addresses(text):
    """The web addresses in a text; Gemini's web_fetch names them in its prompt."""
    found = []
    for word in text.split() if isinstance(text, str) else ():
        starts, at = [], word.find("://")
        while at >= 0:
            scheme = word[max(0, at - 5) : at].lower()
            if scheme.endswith(("http", "https")):
                starts.append(at - (5 if scheme == "https" else 4))
            at = word.find("://", at + 1)
        # The first with all that follows, which may be its query.
        for start, end in zip(starts, [None] + starts[2:] + [None]):
            found.append(word[start:end].rstrip(".,;:!?)]}>\"'"))
    return found


# Programs that read commands from their terminal when these many arguments, or fewer, follow them; Codex types into a
# running program by `write_stdin`, which no hook sees.
PROMPTS = dict(
    [(name, 0) for name in "bash sh zsh dash ksh fish csh tcsh python python2 python3 ipython node deno bun".split()]
    + [(name, 0) for name in "ruby irb perl php lua R redis-cli gdb tmux screen script pwsh powershell".split()]
    + [(name, 1) for name in "ssh telnet nc ncat socat su ftp sftp sqlite3".split()]
    + [(name, 99) for name in "psql mysql mongosh".split()]
)
PREFIXES = ("exec", "env", "sudo", "command", "nohup", "time", "nice")
NO_PROMPT = ("-c", "-e", "-f", "--eval", "--command", "--execute", "--file", "--version", "--help", "-V", "-h")


def opens_prompt(command):
    """Whether a command starts a program that then waits for commands, as far as a look at its words tells."""
    for separator in ("&&", "||", ";", "\n", "(", ")", "{", "}"):
        command = command.replace(separator, "\0")
    for part in command.split("\0"):
        # Behind a pipe it reads what comes out of the pipe.
        words = part.split("|")[0].replace("&", " ").split()
        while words and ("=" in words[0] or words[0] in PREFIXES):
            words.pop(0)
        most = PROMPTS.get(words[0].strip("'\"\\").rsplit("/", 1)[-1]) if words else None
        if most is None or any(word in NO_PROMPT or word.startswith(("<", "--eval=", "--command=")) for word in words):
            continue
        if sum(not word.startswith("-") for word in words[1:]) <= most:
            return True
    return False


# --- JSON -----------------------------------------------------------------------------------------------------------


def once(pairs):
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return read


def whole(digits):
    # Long ones take time that grows with their square, and other threads get none of it.
    if len(digits) > 400:
        raise ValueError("a number has %d digits" % len(digits))
    return int(digits)


def constant(name):
    raise ValueError("`%s` is not JSON" % name)


try:
    # The C halves of the module json. Its Python half loads regular expressions, which takes as long as asking the
    # service; there is no other use for them here.
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    class Reading:
        """What json.JSONDecoder would tell the scanner."""

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
    """Strict JSON: no repeated names, no NaN, no endless numbers. Raises ValueError."""
    if scan is not None:
        try:
            stripped = text.strip(" \t\r\n")
            value, end = scan(stripped, 0)
            if end == len(stripped):
                return value
        except Exception:
            pass  # the scanner alone cannot say what is wrong: it expects the module to be loaded
    import json

    try:
        return json.loads(text, object_pairs_hook=once, parse_int=whole, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value, ascii_only=False):
    """Compact JSON as bytes, in UTF-8 or all of it in ASCII; half a surrogate pair can only be sent as its escape.
    Raises ValueError."""
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


def read_event():
    """The client's event from standard input; refuses what is not one JSON object in UTF-8."""
    if os.isatty(0):
        raise Refused("a client's hook event is expected on standard input; `doctor` tries one")
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


# --- Settings -------------------------------------------------------------------------------------------------------

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

# Beside a file the environment, which a project's settings may set, says none of these; and where the file names the
# service or a key, nor who is asked (docs/decisions/0053).
FILE_ALONE = ("fail_mode", "allow_http", "https_proxy", "ca_file")
WHO_IS_ASKED = ("api_url", "organization_id")

# By these OpenSSL trusts other authorities, loads code, or writes down what opens a connection to whoever listens.
OPENSSL_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSLKEYLOGFILE",
)


class Settings:
    """Where the service is and how it is asked, from the environment and, before it, the file of --config."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        unheard = FILE_ALONE if config is not None else ()
        if any(key in named for key in ("api_url", "api_key", "api_key_file")):
            unheard += WHO_IS_ASKED
        if config is not None:
            for name in OPENSSL_VARIABLES:
                os.environ.pop(name, None)

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
        allow_http = value("allow_http", "SERVICE_ALLOW_HTTP")
        self.allow_http = allow_http in (True, "1", "true", "yes")
        self.proxy = value("https_proxy", "https_proxy")
        if config is None:
            self.proxy = self.proxy or os.environ.get("HTTPS_PROXY")
        self.no_proxy = "" if config is not None else os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self.ca_file = named.get("ca_file")

    def check(self):
        """Refuses settings that no request can be made with."""
        if not self.api_url:
            raise Refused("SERVICE_API_URL is not set: name the service's address")
        if not self.key:
            raise Refused("SERVICE_API_KEY is not set: give the agent a key with the scope `agents:authorize`")
        if not all("!" <= c <= "~" for c in self.key):
            raise Refused("SERVICE_API_KEY holds characters that no key has")
        self.secure, self.host, self.port, self.prefix = read_url(self.api_url)
        if not self.secure and not self.allow_http and not is_loopback(self.host):
            raise Refused("SERVICE_API_URL is plain http to another machine: use https, or set SERVICE_ALLOW_HTTP=1")


def seconds(text, default):
    """A number of seconds from 0 on; the default for what is none."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def read_url(url):
    """https, host, port and path of a base address; refuses all that a key should not be sent to."""
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
    """The user's folder by the system's list of users: HOME may be what a project's settings say."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def read_private(path, secret):
    """A settings file's bytes; refuses one that others may change, or read if it holds a secret."""
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
            raise Refused("`%s` can be changed by others: chown it to its user and chmod go-w" % path)
        if (secret or b'"api_key"' in text) and status.st_mode & 0o077:
            raise Refused("`%s` holds a key and can be read by others: chmod 600" % path)
    return text


def read_config(path):
    """The settings in a file of --config."""
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


# --- HTTP -----------------------------------------------------------------------------------------------------------


class Connection:
    """One request over one connection, every wait of it bounded by the same moment."""

    def __init__(self, settings, until):
        self.settings = settings
        self.until = until
        self.socket = None
        self.buffer = b""
        self.heard = False  # a byte of the service's answer

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
        """Asks a proxy for a way through; what goes through it is TLS to the service."""
        target = "%s:%d" % (bracketed(self.settings.host), self.settings.port)
        lines = ["CONNECT %s HTTP/1.1" % target, "Host: " + target] + credentials
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        status, _ = self.head()
        if status != 200:
            raise Unreachable("the proxy answered %d" % status)

    def send(self, data):
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def receive(self):
        """More bytes; False at the end."""
        self.socket.settimeout(self.left())
        more = self.socket.recv(65536)
        self.buffer += more
        self.heard = self.heard or len(more) > 0
        return len(more) > 0

    def head(self):
        """Status and headers (lower case; a list of values each)."""
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
        """The whole body by its declared length; refuses one that is longer, shorter or of two lengths."""
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
        while self.receive():
            self.limit(len(self.buffer))
        return self.buffer

    def chunks(self):
        whole = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.limit(len(self.buffer))
                self.more()
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            digits = line.split(b";")[0].strip()
            # What int() takes beside digits, no other reader does.
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
    """A TCP connection to the first of the host's addresses that takes one."""
    try:
        import _socket as sockets  # its Python half costs as much as a third of a start
    except ImportError:
        import socket as sockets

    failed = None
    # As bytes: a text is read as an international name, which loads tables.
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
    """Host, port and credential headers of the proxy for the service: https only, so that no proxy reads the key."""
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


def request(settings, method, path, body, until):
    """One request: its status and body. Raises Unreachable for a failed connection, no answer in time or a 5xx, and
    Refused for what is no HTTP answer. A redirect is an answer like any other: the key goes nowhere else."""
    connection = Connection(settings, until)
    try:
        connection.open()
        lines = [
            "%s %s/api/v1%s HTTP/1.1" % (method, settings.prefix, path),
            "Host: %s:%d" % (bracketed(settings.host), settings.port),
            "Authorization: Bearer " + settings.key,
            "User-Agent: countersign-hook/" + VERSION,
            "Accept: application/json",
            "Connection: close",
        ]
        if body is not None:
            lines += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
        try:
            connection.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have answered without reading all
        status = 100
        while status < 200 and status != 101:
            status, headers = connection.head()
        if status >= 500:
            raise Unreachable("it answers %d" % status)
        if status != 200:
            return status, said(connection, headers)
        return status, connection.body(headers)
    except OSError as error:
        if connection.heard and "timed out" not in str(error):
            raise Refused("the service's answer was cut short")
        raise Unreachable(plain(error.strerror or str(error) or type(error).__name__, 200))
    finally:
        if connection.socket is not None:
            connection.socket.close()


def said(connection, headers):
    """What comes with an answer that is none: a help for people, and nothing that is waited for."""
    connection.until = min(connection.until, time.monotonic() + 1)
    try:
        return connection.body(headers)
    except (Refused, Unreachable, OSError):
        return b""


def ask(settings, method, path, body, until):
    """A request and its JSON object; refuses every status but 200."""
    status, answered = request(settings, method, path, body, until)
    try:
        found = parse_json(answered.decode("utf-8"))
    except ValueError:
        found = None
    if status != 200:
        error = found.get("error") if isinstance(found, dict) else None
        told = text_of(error, "message") if isinstance(error, dict) else None
        hint = ": check SERVICE_API_KEY" if status in (401, 403) else ": check SERVICE_API_URL"
        raise Refused("the service answers %d%s%s" % (status, hint, " (%s)" % plain(told, 300) if told else ""))
    if not isinstance(found, dict):
        raise Refused("the service's answer cannot be read: it is not a JSON object")
    return found


# --- pre ------------------------------------------------------------------------------------------------------------


def authorize_body(call, settings):
    """The body of an authorize request; refuses one over the limit, naming its size."""
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
    """Asks about one call, waits for its approver if it is held, and answers the client."""
    call, settings, body = question(answer, options)
    # Not before: what the model has written must not be able to end the hook in open mode.
    answer.fail_open = settings.fail_open
    flush_ends(settings, call, options)
    answer.asking = True
    decided = decision(settings, body, min(time.monotonic() + ASK_SECONDS, answer.deadline - 1))
    give_up = min(time.monotonic() + settings.wait, answer.deadline - 1)
    approved = None
    while decided["decision"] == "require_approval":
        answer.waiting_for, answer.asking = (settings, decided), False
        if decided["approval_id"] == approved:
            raise Refused(held(decided, "is approved, and does not allow the call"))
        wait_for_approval(answer, settings, decided, give_up)
        approved = decided["approval_id"]
        # Only the service's own `allow` lets the call run: what was approved is decided again when it is used.
        try:
            decided = decision(settings, body, min(time.monotonic() + ASK_SECONDS, answer.deadline - 1))
        except Unreachable as error:
            raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
        answer.waiting_for = None
    answer.asking = False
    if decided["decision"] == "allow":
        answer.allow()
    answer.deny(blocked(decided))


def question(answer, options):
    """The call, the settings and the request's body."""
    event = read_event()
    answer.dialect = detect(options.dialect, event)
    call = read_call(answer.dialect, event)
    answer.event = call.event
    if answer.dialect != options.dialect:
        # Another client than the command line was written for waits as long as it likes.
        limit = options.started + patience(answer.dialect, None)
        answer.deadline = limit if options.timeout is None else min(limit, answer.deadline)
    settings = Settings(options.config)
    settings.check()
    if call.refused is not None:
        raise Refused(call.refused)
    command = call.arguments.get("command")
    if call.dialect == "codex" and call.tool == "Bash" and isinstance(command, str) and opens_prompt(command):
        raise Refused(
            "this starts a program that waits for commands, and Codex types into it without asking: "
            "give it its commands as arguments"
        )
    return call, settings, authorize_body(call, settings)


def decision(settings, body, until):
    """The service's decision on a call, asked for up to three times if no answer comes: a decision is repeated for
    the same call, so that a lost answer costs nothing."""
    for pause in (0.15, 0.5, None):
        try:
            decided = ask(settings, "POST", "/authorize", body, until)
            break
        except Unreachable:
            if pause is None or time.monotonic() + pause >= until:
                raise
            time.sleep(pause)
    verdict = decided.get("decision")
    if verdict == "allow" and text_of(decided, "decision_id") is not None:
        return decided
    if verdict == "deny":
        return decided
    if verdict == "require_approval" and is_id(decided.get("approval_id")):
        return decided
    raise Refused("the service's answer cannot be read: it is no decision")


def is_id(value):
    return isinstance(value, str) and 0 < len(value) <= 100 and all(c.isalnum() or c in "_-" for c in value)


def named_rule(decided):
    rule = text_of(decided, "rule_name")
    return " by rule `%s`" % rule if rule is not None else ""


def blocked(decided):
    """Why a call may not run, in words for the model."""
    reason, rule = text_of(decided, "reason"), text_of(decided, "rule_name")
    why = [text_of(decided, "explanation")]
    if reason != rule:
        why.insert(0, reason)
    told = ": ".join(each for each in why if each)
    return "blocked%s%s" % (named_rule(decided), ": " + told if told else "")


def held(decided, state):
    return "held%s: approval %s %s" % (named_rule(decided), decided["approval_id"], state)


def wait_for_approval(answer, settings, decided, give_up):
    """Returns when the approval is given; refuses otherwise, with what to do."""
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
            # The service may be starting again, and keeps what it holds.
            found = {"status": "pending"}
        status, comment = found.get("status"), text_of(found, "comment")
        if status == "approved":
            return
        if status in ("rejected", "expired", "cancelled"):
            told = held(decided, "was " + status if status != "expired" else "has expired")
            raise Refused(told + (": " + comment if comment else ""))
        if status != "pending":
            raise Refused(held(decided, "has a status that cannot be read"))
        # One that comes back at once is not asked again at once.
        time.sleep(max(0.0, min(1.0 - (time.monotonic() - asked_at), give_up - time.monotonic())))


def pending(decided):
    return held(decided, "is still pending; have it approved, then retry the identical call after approval")


def withdraw(answer):
    """Takes a held call's approval back when its client gives the call up; waits a moment for an answer that may be
    one."""
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


# --- post and end ---------------------------------------------------------------------------------------------------


def outcome_of(event):
    """How a finished call ended, as far as its event says; the output itself stays here."""
    name = event.get("hook_event_name", event.get("hookEventName"))
    answered = event.get("tool_response")
    failed = name in ("PostToolUseFailure", "postToolUseFailure") or (
        isinstance(answered, dict) and (answered.get("error") or answered.get("is_error") or answered.get("isError"))
    )
    return "error" if failed or (name is None and "error" in event) else "ok"


def post(answer, options):
    """Tells of a finished call: its name and arguments, never its output."""
    event = read_event()
    call = read_call(detect(options.dialect, event), event)
    settings = Settings(options.config)
    settings.check()
    seen = {
        "session_id": call.session_id,
        "tool_name": call.tool,
        "tool_input": call.arguments,
        "outcome": outcome_of(event),
    }
    if call.use_id is not None:
        seen["tool_use_id"] = call.use_id
    try:
        body = to_json(seen)
    except ValueError:
        body = None
    if body is None or len(body) > MAX_BODY:
        # Its `pre` was refused: that it ran all the same must show.
        seen["tool_input"] = {"unreadable": True} if body is None else {"too_long": len(body)}
        body = to_json(seen)
    ask(settings, "POST", "/authorize/observe", body, answer.deadline - 0.5)
    answer.allow()


def end(answer, options):
    """Ends the session; leaves a note until the service has taken it. What this process had no time for, one that its
    client does not wait for goes on with, and the next `pre` after that."""
    session_id = session_of(read_event())
    if session_id is None:
        raise Refused("the client named no session")
    settings = Settings(options.config)
    settings.check()
    # Noted first: clients end this process soon, whether or not it has been able to tell.
    note = keep_end(settings, session_id)
    if send_end(settings, session_id, time.monotonic() + 1.0):
        if note is not None:
            os.unlink(note)
    elif note is not None:
        start_beside("deliver", options)
    answer.allow()


def send_end(settings, session_id, until):
    """Whether the service has taken it, or said for good that it will not."""
    try:
        body = to_json({"session_id": session_id, "reason": "the client's session ended"})
        status, _ = request(settings, "POST", "/authorize/sessions/end", body, until)
        return status != 429
    except Unreachable:
        return False
    except Refused:
        return True


def spool():
    """The folder of ends that nobody has been told of yet: one file each, with a session's id and nothing else."""
    return os.path.join(own_folder(), "ended-sessions")


def own_folder():
    """The user's folder of this program."""
    if os.name == "nt":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "Countersign")
    return os.path.join(os.path.expanduser("~"), ".countersign")


def end_file(settings_url, session_id):
    from binascii import crc32, hexlify

    where = "%08x" % crc32((settings_url or "").encode("utf-8", "replace"))
    return where + "-" + hexlify(session_id.encode("utf-8", "replace")[:90]).decode("ascii")


def keep_end(settings, session_id):
    """The path of the note; None where none can be written."""
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
    """The names of the notes in it. HOME may lead anywhere: what is not a note of ours, or in a folder that is not, is
    left alone."""
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
    """Sees to the ends left behind: the one of this session no longer holds, others are sent by a process beside."""
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
    """Another process of this program, of which neither this one's client nor its terminal knows."""
    import subprocess

    words = [sys.executable, "-I", "-S", os.path.abspath(__file__), command]
    if options.config is not None:
        words += ["--config", options.config]
    null = subprocess.DEVNULL
    detached = getattr(subprocess, "DETACHED_PROCESS", 0)  # Windows has no sessions to start
    try:
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True, creationflags=detached)
    except OSError:
        pass


def deliver(answer, options):
    """Tries for a minute what the end of a session had no time for."""
    pause = 1
    while not flush_all(options):
        time.sleep(pause)
        pause *= 2
    answer.allow()


def flush(answer, options):
    """Tries once."""
    flush_all(options)
    answer.allow()


def flush_all(options):
    """Sends the ends of this service that were left behind, the oldest first; stops when it is out of reach again, and
    says whether none is left."""
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
            pass  # another process was faster
    return True


# --- install --------------------------------------------------------------------------------------------------------

SECONDS = {"pre": 90, "post": 15, "end": 2}

# Each client's events, and which command they start.
EVENTS = {
    "claude": (("PreToolUse", "pre"), ("PostToolUse", "post"), ("PostToolUseFailure", "post"), ("SessionEnd", "end")),
    "codex": (("PreToolUse", "pre"), ("PostToolUse", "post"), ("SessionEnd", "end")),
    "gemini": (("BeforeTool", "pre"), ("AfterTool", "post"), ("SessionEnd", "end")),
    "copilot": (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end")),
    "cursor": (("preToolUse", "pre"), ("postToolUse", "post"), ("postToolUseFailure", "post"), ("sessionEnd", "end")),
}

# Where a client keeps its settings: below the user's home; on Linux, macOS and Windows for all users of the machine.
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
    "cursor": (
        ".cursor/hooks.json",
        "/etc/cursor/hooks.json",
        "/Library/Application Support/Cursor/hooks.json",
        "C:\\ProgramData\\Cursor\\hooks.json",
    ),
}
HOME_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}

# `onFailure` is read from this version on; an older Claude Code runs the call when a hook fails.
CLAUDE_MINIMUM = "2.1.295"
# The oldest versions that were seen to block.
MINIMUM_VERSIONS = {"claude": CLAUDE_MINIMUM, "codex": "0.169.0", "gemini": "0.61.0", "copilot": "1.0.102"}
PROGRAMS = {"claude": "claude", "codex": "codex", "gemini": "gemini", "copilot": "copilot"}
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "copilot": "@github/copilot",
}

OUR_NAME = "service_hook"
OUR_FILE = OUR_NAME + ".py"
TOML_MARK = "  # countersign"


class Place:
    """The folders of one installation: a user's, or one for everybody on the machine (managed)."""

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
        """A path below --root, where an image is being built."""
        return self.root + path if self.root else path

    def settings_file(self, client):
        user, linux, mac, windows = SETTINGS_FILES[client]
        if self.managed:
            path = windows if os.name == "nt" else mac if sys.platform == "darwin" else linux
            if path is None:
                raise Refused("managed settings of %s on this system are not known" % client)
            return path
        folder = os.environ.get(HOME_VARIABLES.get(client, ""))
        if folder:
            return os.path.join(folder, os.path.basename(user))
        return os.path.join(os.path.expanduser("~"), *user.split("/"))


def command_words(place, python, client, command):
    words = [python, "-I", "-S", place.hook, command, "--dialect", client]
    if command == "pre":
        words += ["--timeout", str(SECONDS["pre"])]
    return words + ["--config", place.config]


def shell_line(words, blocking):
    """A command line for /bin/sh. Before a call it turns every failure, a missing Python too, into a deny: clients
    let the call run for other exit codes than 2."""
    import shlex

    line = " ".join(shlex.quote(word) for word in words)
    if not blocking:
        return line
    # Words that no function of the environment and no program of its PATH can stand for.
    check = 'rc=$?; case $rc in 0) exit 0;; 2) ;; *) echo "policy hook failed (rc=$rc); call refused" >&2;; esac; exit 2'
    return "/bin/sh -c " + shlex.quote(line + "; " + check)


def powershell_line(words, blocking):
    line = "& " + " ".join("'" + word.replace("'", "''") + "'" for word in words)
    return line + ("; if ($LASTEXITCODE -ne 0) { exit 2 }" if blocking else "")


def hook_entry(place, python, client, event, command):
    """The entry of one event in a client's settings, with its fail-closed options."""
    words, blocking, limit = command_words(place, python, client, command), command == "pre", SECONDS[command]
    if os.name == "nt":
        import subprocess

        line = subprocess.list2cmdline(words)
    else:
        line = shell_line(words, blocking)
    if client == "copilot":
        powershell = powershell_line(words, blocking)
        return {"type": "command", "bash": shell_line(words, blocking), "powershell": powershell, "timeoutSec": limit}
    if client == "cursor":
        return dict({"command": line, "timeout": limit}, **({"failClosed": True} if blocking else {}))
    one = {"type": "command", "command": line, "timeout": limit * 1000 if client == "gemini" else limit}
    if client == "gemini":
        one["name"] = "countersign"
    if client == "claude" and (os.name == "nt" or place.managed):
        # No shell, which a variable such as SHELLOPTS keeps from running anything. Only where the version is pinned that
        # blocks by `onFailure` what does not start; a user's settings are also read by clients that know no `args`.
        one.update({"command": words[0], "args": words[1:]})
    if client == "claude" and blocking:
        one["onFailure"] = "block"
    return {"matcher": "*", "hooks": [one]}


def is_ours(entry):
    import json

    return OUR_NAME in json.dumps(entry)


def without_our_commands(entry):
    """An event's entry without ours; None if nothing of it is left. Somebody may have put their own beside it."""
    if not is_ours(entry):
        return entry
    several = entry.get("hooks") if isinstance(entry, dict) else None
    left = [each for each in several if not is_ours(each)] if isinstance(several, list) else []
    return dict(entry, hooks=left) if left else None


def without_ours(settings):
    """Settings without our hooks: of each event's list only our entries go, and lists and tables left empty by that."""
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
    """The options beside the hooks, by path, that keep them from being switched off."""
    if client == "claude" and place.managed:
        asked = settings.get("requiredMinimumVersion")
        newer = isinstance(asked, str) and version_of(asked) > version_of(CLAUDE_MINIMUM)
        return {
            ("requiredMinimumVersion",): asked if newer else CLAUDE_MINIMUM,
            ("allowManagedHooksOnly",): True,
        }
    if client == "gemini":
        return {("hooksConfig", "enabled"): True}
    if client in ("copilot", "cursor"):
        return {("version",): settings.get("version", 1)}
    return {}


def look_up(settings, path):
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def put(settings, path, value):
    """A copy with the value at the path; None takes it away, and tables left empty by that."""
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
    """Settings with our hooks behind the ones that are there."""
    found = without_ours(settings)
    for path, value in options_of(place, client, settings).items():
        found = put(found, path, value)
    hooks = dict(found.get("hooks", {}))
    for event, command in EVENTS[client]:
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            raise Refused("`hooks.%s` is not a list: put it right first" % event)
        hooks[event] = entries + [hook_entry(place, python, client, event, command)]
    found["hooks"] = hooks
    return found


def toml_without_ours(text):
    return "".join(line for line in text.splitlines(True) if not line.rstrip().endswith(TOML_MARK.strip()))


def toml_with_ours(place, python, text):
    """Codex's requirements with our hooks. Line by line, since Python reads TOML only from 3.11 on and never writes it;
    each line of ours carries a mark. Refuses forms it would have to take apart."""
    import json

    lines = toml_without_ours(text).splitlines()
    table = ""
    have = {}
    for number, line in enumerate(lines):
        bare = line.split("#")[0].strip()
        if bare.startswith("["):
            table = bare.strip("[]").strip()
            have.setdefault((table,), number)
        elif "=" in bare:
            key, _, value = bare.partition("=")
            have[(table, key.strip())] = value.strip()
    for key in have:
        if key[0] == "" and len(key) > 1 and key[1].split(".")[0] in ("features", "hooks"):
            raise Refused("`%s` is written in one line: make it a table, `[%s]`" % (key[1], key[1].split(".")[0]))

    wanted = (("", "allow_managed_hooks_only", True), ("features", "hooks", True), ("hooks", "managed_dir", place.folder))
    above, behind, below = [], {}, []
    for table, key, value in wanted:
        written = json.dumps(value)
        found = have.get((table, key))
        if found is not None:
            if found != written:
                raise Refused("`%s` is %s, and must be %s" % (".".join(filter(None, (table, key))), found, written))
        elif table == "":
            above.append("%s = %s" % (key, written))
        elif (table,) in have:
            behind[have[(table,)]] = "%s = %s" % (key, written)
        else:
            below += ["[%s]" % table, "%s = %s" % (key, written)]
    for event, command in EVENTS["codex"]:
        entry = hook_entry(place, python, "codex", event, command)
        one = entry["hooks"][0]
        below += ["[[hooks.%s]]" % event, 'matcher = "*"', "[[hooks.%s.hooks]]" % event]
        below += ["%s = %s" % (key, json.dumps(one[key])) for key in ("type", "command", "timeout")]

    merged = [line + TOML_MARK for line in above]
    for number, line in enumerate(lines):
        merged.append(line)
        if number in behind:
            merged.append(behind[number] + TOML_MARK)
    merged += [line + TOML_MARK for line in below]
    result = "\n".join(merged) + "\n"
    try:
        import tomllib

        tomllib.loads(result)
    except ImportError:
        pass
    except ValueError as error:
        raise Refused("the file cannot be merged with: %s" % error)
    return result


def version_of(text):
    """The first dotted number in a text, as numbers."""
    import re

    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def read_text(path):
    """A file's text, None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("`%s` cannot be read: %s" % (path, error))


def read_settings(path):
    """A client's JSON settings; an empty object for none."""
    text = read_text(path)
    if text is None or not text.strip():
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


class alone:
    """While this is held no other installation of this place writes."""

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
    """One file as it is and as it should be; None stands for no file. A client's settings keep the mode they have, and
    their first original; our own files have the mode that is given."""

    def __init__(self, path, before, after, mode, ours=False):
        self.path = path
        self.before = before
        self.after = after
        self.mode = mode
        self.ours = ours

    def shown(self):
        """The difference in words, without the key."""
        import difflib

        if os.path.basename(self.path) == OUR_FILE:
            return "%s %s\n" % ("remove" if self.after is None else "write", self.path)
        texts = [hidden(text or "").splitlines(True) for text in (self.before, self.after)]
        names = [self.path if self.before is not None else "nothing", self.path if self.after is not None else "nothing"]
        return "".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(*texts, *names))

    def apply(self, private):
        """Writes a new file beside the old one and puts it in its place, or removes the old one."""
        path = os.path.realpath(self.path)
        copy = copy_of(path)
        os.makedirs(os.path.dirname(path), 0o700 if private else 0o755, True)
        if not self.ours and self.before is not None and OUR_NAME not in self.before and not os.path.exists(copy):
            self.write(copy, self.before)
        if self.after is None:
            os.unlink(path)
        else:
            self.write(path, self.after)
        if not self.ours and os.path.exists(copy) and read_text(copy) == self.after:
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


def hidden(text):
    """Settings without the key and a proxy's password."""
    import re

    text = re.sub(r'("api_key": ")[^"]*', r"\1(not shown)", text)
    return re.sub(r'("https_proxy": ")[^"]*@', r"\1(not shown)@", text)


INSTALL_NOTES = """what it takes from the environment, and keeps in hook.json beside the installed hook:
  SERVICE_API_URL, SERVICE_API_KEY (not with --managed), SERVICE_FAIL_MODE, SERVICE_APPROVAL_WAIT, SERVICE_ORG_ID,
  SERVICE_ALLOW_HTTP, HTTPS_PROXY, SSL_CERT_FILE
A variable that is not set leaves what an earlier install has kept, which is shown; an empty one takes it out:
  SERVICE_APPROVAL_WAIT= python3 service_hook.py install --dialect claude"""

DOCTOR_NOTES = """the last line, and the exit code:
  protected      0  all was tried and held, and no settings of a user or a project switch it off (--managed)
  works          0  all was tried and held, but whoever can write the user's files can switch it off
  not proven     1  something could not be tried here: the lines with ??
  NOT protected  1  something would let calls through: the lines with FAIL
With --managed a user's own settings do not count, so that 0 means `protected`."""


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
        parser.add_argument("--uninstall", action="store_true", help="take out what `install` put in, and nothing else")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        told = "folder of an image, with --managed: every file is written below it"
        parser.add_argument("--root", default="", help=told)
        told = "absolute path of the Python that runs the hook (default: this one; managed: one that all can run)"
        parser.add_argument("--python", help=told)
    else:
        parser.add_argument("--config", help="settings file to try (default: the installed one, else the environment)")
        parser.add_argument("--root", help="refused: it starts what is installed, so run it inside the image")
    options = parser.parse_args(words)
    if name == "install" and options.dialect is None and not options.uninstall:
        parser.error("--dialect is needed: %s" % ", ".join(sorted(AGENT_NAMES)))
    if name == "install" and options.root and not options.managed:
        parser.error("--root is for an image's managed settings: say --managed too")
    if name == "doctor" and options.root is not None:
        parser.error("an image is not tried from outside: run doctor --managed inside it, as one of its users")
    return options


def base_python():
    """This Python, but not the one of a project's environment, which may be gone tomorrow."""
    return getattr(sys, "_base_executable", None) or sys.executable


PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


def chosen_python(options):
    """The Python that the settings name. A managed one is for users who can neither enter root's folders nor should be
    able to change what decides about their calls. In the image of --root only its files are looked at."""
    given = options.python
    if given is not None and not os.path.isabs(given):
        raise Refused("--python takes an absolute path, not `%s`" % given)
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
    advice = "install Python 3.8 or newer as %s, or name with --python one that all can run and only root can change"
    raise Refused("%s: %s" % ("; ".join(reasons), advice % PYTHONS[0]))


def not_for_everybody(path, root=""):
    """Why some user cannot run this program, or could change it; None if neither. Every folder and symbolic link on the
    way counts. Below `root` links lead to below it, and files may belong to whoever builds the image."""
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
    """Why this program is not a Python that can run the hook; None if it is."""
    code, _, _ = run_line([python, "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 8))"], b"")
    return None if code == 0 else "`%s` is not Python 3.8 or newer" % python


# What `install` keeps, and by which variables it is told; the first that is set counts.
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
    """What the first of these variables that is set holds; None if none is."""
    return next((os.environ[name].strip() for name in variables if name in os.environ), None)


def refuse_nonsense(found):
    """Refuses values that the hook would take for others than were meant: once it runs, it can tell nobody."""
    import re

    def refuse(key, advice):
        raise Refused("%s is `%s`: %s" % (INSTALLED[key][0], plain(found[key], 100), advice))

    if found.get("fail_mode", "closed") not in ("closed", "open"):
        refuse("fail_mode", "write `closed`, which blocks while the service is out of reach, or `open`")
    if "approval_wait" in found and seconds(found["approval_wait"], None) is None:
        refuse("approval_wait", "write a number of seconds, such as 55")
    if "organization_id" in found and not re.match(r"org_[0-9A-HJKMNP-TV-Z]{26}\Z", str(found["organization_id"])):
        advice = "write the organization's id, `org_` and 26 letters and digits, or leave it out: the key has one"
        refuse("organization_id", advice)
    if found.get("allow_http", False) not in (True, False, "1", "true", "yes", "0", "false", "no"):
        refuse("allow_http", "write 1, or leave it out")


def kept_settings(before, after):
    """What stays as an earlier installation wrote it, in words: `key value (VARIABLE)`."""
    before, after = (parse_json(text) if text else {} for text in (before, after))
    shown = []
    for key, variables in INSTALLED.items():
        if key != "api_key" and key in before and before[key] == after.get(key) and said_now(variables) is None:
            value = before[key].rpartition("@")[2] if key == "https_proxy" else before[key]
            shown.append("%s %s (%s)" % (key, plain(value, 200), variables[-1]))
    return shown


def replaces_key(before, after):
    """Whether another key takes the place of one: the changes that are shown do not show it."""
    old, new = ((parse_json(text) if text else {}).get("api_key") for text in (before, after))
    return None not in (old, new) and old != new


def own_settings(place, before):
    """Our own settings file: what the environment names now, over what was there. A managed one holds no key: each
    user keeps one in a file of their own."""
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
        raise Refused("HTTPS_PROXY holds a password, which every user could read in `%s`" % place.config)
    return found


def way_of(settings):
    """What a file has to say of the way to the service, since the environment does not count beside it."""
    found = {}
    if proxy_of(settings) is not None:
        found["https_proxy"] = settings.proxy
    authorities = settings.ca_file or os.environ.get("SSL_CERT_FILE")
    if authorities and settings.secure:
        found["ca_file"] = os.path.abspath(authorities)
        read_private(found["ca_file"], False)
    return found


def read_record(place):
    """What each installed client's settings held before: {client: {file, created, options: [[path, value]]}}. With the
    text it was read from: what another installation writes meanwhile must not pass for it."""
    text = read_text(place.at(place.record))
    found = parse_json(text) if text else {}
    return text, found if isinstance(found, dict) else {}


def client_change(place, python, client, record, uninstall):
    """The change of a client's settings, and the record that undoes it."""
    path = place.settings_file(client)
    if uninstall and client in record:
        path = record[client]["file"]
    target = place.at(path)
    text = read_text(target)
    mode = 0o644 if place.managed else 0o600
    noted = record.get(client, {"file": path, "created": text is None, "options": []})
    if path.endswith(".toml"):
        after = toml_without_ours(text or "") if uninstall else toml_with_ours(place, python, text or "")
        after = None if uninstall and noted["created"] and not after.strip() else after
        return Change(target, text, after, mode), noted
    settings = read_settings(target)
    if uninstall:
        found = without_ours(settings)
        for steps, before, ours in noted["options"]:
            if look_up(found, steps) == ours:
                found = put(found, steps, before)
        after = None if noted["created"] and not found else pretty(found)
        if text is None or found == settings:
            after = text
        elif after is not None:
            after = as_it_was(target, found) or after
        return Change(target, text, after, mode), noted
    found = with_ours(place, python, client, settings)
    if client not in record:
        for steps, ours in options_of(place, client, settings).items():
            noted["options"].append([list(steps), look_up(settings, steps), ours])
    return Change(target, text, text if found == settings else pretty(found), mode), noted


def as_it_was(path, settings):
    """The text that was kept before `install`, if it says what these settings say."""
    kept = read_text(copy_of(path))
    try:
        return kept if kept is not None and parse_json(kept.lstrip("\ufeff")) == settings else None
    except ValueError:
        return None


def copy_of(path):
    return os.path.realpath(path) + ".before-countersign"


def install(words):
    """Writes a client's settings, after showing what changes; 0 when all is as wanted."""
    options = arguments(words, "install", "Has a client ask before each tool call, and block when it cannot.")
    client = "copilot" if options.dialect == "vscode" else options.dialect
    try:
        place = Place(options.managed, options.root)
        if options.managed and not options.root and hasattr(os, "geteuid") and os.geteuid() != 0:
            raise Refused("managed settings belong to root: run it as root, or without --managed for yourself")
        if options.managed and os.name == "posix":
            os.umask(0o022)  # root's own may keep everybody else out of the folders that are made
        recorded, before = read_record(place)
        if options.uninstall:
            changes, ends = removals(place, recorded, before, client)
        else:
            changes, ends = additions(place, recorded, before, client, chosen_python(options)), []
        changes = [each for each in changes if each.before != each.after]
        if not changes and not ends:
            print("nothing to change")
            return 0
        for each in changes:
            sys.stdout.write(each.shown())
        if ends:
            several = "1 session whose end" if len(ends) == 1 else "%d sessions whose ends" % len(ends)
            print("remove %s, with %s could not be reported" % (spool(), several))
        sys.stdout.flush()
        if not options.yes and not agreed():
            print("nothing was changed")
            return 1
        with alone(place.at(place.folder), not place.managed):
            for each in changes:
                if read_text(each.path) != each.before:
                    raise Refused("`%s` was changed meanwhile, and is left as it is: run it again" % each.path)
            for each in changes:
                each.apply(not place.managed)
            for name in ends:
                os.unlink(os.path.join(spool(), name))
        if options.uninstall:
            remove_empty(([] if place.managed else [spool()]) + [place.at(place.folder)])
    except (Refused, OSError) as error:
        sys.stderr.write("install: %s\n" % error)
        return 1
    if not options.uninstall:
        say_next(place, options)
    elif place.managed:
        print("each user's own ~/.countersign, with the key, is left as it is")
    return 0


def additions(place, recorded, record, client, python):
    """The changes that have a client ask: our own files first, then its settings. Says what is kept of earlier ones."""
    change, noted = client_change(place, python, client, record, False)
    mode = 0o644 if place.managed else 0o600
    hook, config, noting = (place.at(path) for path in (place.hook, place.config, place.record))
    # Read as it stands, also while it is the installed one itself.
    own = read_text(os.path.abspath(__file__))
    before = read_text(config)
    after = pretty(own_settings(place, before))
    for each in kept_settings(before, after):
        print("kept from an earlier install: %s; an empty variable takes it out" % each)
    if replaces_key(before, after):
        print("api_key: replaced (not shown)")
    return [
        Change(hook, read_text(hook), own, 0o755, True),
        Change(config, before, after, mode, True),
        Change(noting, recorded, pretty(dict(record, **{client: noted})), mode, True),
        change,
    ]


def removals(place, recorded, record, client):
    """The changes that take out one client, or all of them: settings first, then our own files once no client is left.
    And the notes of ended sessions that go with those."""
    changes, left = [], dict(record)
    for each in [client] if client else sorted(EVENTS):
        try:
            changes.append(client_change(place, None, each, record, True)[0])
        except Refused:
            # What cannot be read and was never written to is nobody's business here.
            if client or each in record:
                raise
        left.pop(each, None)
    noting, config, hook = (place.at(path) for path in (place.record, place.config, place.hook))
    if left:
        if left != record:
            changes.append(Change(noting, recorded, pretty(left), 0o644 if place.managed else 0o600, True))
        return changes, []
    changes.append(Change(noting, recorded, None, 0o600, True))
    changes += [Change(path, read_text(path), None, 0o600, True) for path in (config, hook)]
    # A managed hook writes its notes to the same folder.
    shared = place.managed or os.path.exists(Place(True).hook)
    return changes, [] if shared else left_ends(spool())


def remove_empty(folders):
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it holds something else, or is not there


def agreed():
    if not sys.stdin.isatty():
        sys.stderr.write("install: nobody is there to ask: say --yes\n")
        return False
    return input("write this? [y/N] ").strip().lower() in ("y", "yes")


def say_next(place, options):
    python = chosen_python(options)
    if "SSL_CERT_DIR" in os.environ and "SSL_CERT_FILE" not in os.environ:
        print("next: SSL_CERT_DIR does not count beside hook.json: name one file of authorities by SSL_CERT_FILE")
    if options.root and not os.path.lexists(options.root + python):
        print("next: the image has no %s yet: it needs Python 3.8 or newer there, or where --python says" % python)
    if options.dialect == "codex" and not place.managed:
        print("next: open /hooks in Codex and trust them; until then Codex skips them without a word")
    if place.managed:
        print("next: each user keeps a key in ~/.countersign/key, readable by nobody else (chmod 600)")
    print("next: python3 %s doctor --dialect %s%s" % (place.hook, options.dialect, " --managed" * place.managed))


# --- doctor ---------------------------------------------------------------------------------------------------------


class Findings:
    """What was found, told line by line."""

    def __init__(self):
        self.failed = False
        self.unproven = False
        self.enforced = True  # no user can change the settings

    def ok(self, text):
        print("ok    " + text)

    def note(self, text):
        print("note  " + text)

    def doubt(self, text):
        """What could not be tried here: no proof of protection, nor of the lack of it."""
        self.unproven = True
        print("??    " + text)

    def fail(self, text):
        self.failed = True
        print("FAIL  " + text)

    def verdict(self):
        if self.failed:
            return "NOT protected"
        if self.unproven:
            return "not proven: see to the lines with ??"
        return "protected" if self.enforced else "works"


def doctor(words):
    """Tries on this machine that a denied call is blocked, and one that cannot be checked; 1 if anything would pass, or
    could not be tried."""
    about = "Tries on this machine whether denied calls are blocked. Run it where the agent works: a project counts too."
    options = arguments(words, "doctor", about)
    findings = Findings()
    if sys.version_info < (3, 8):
        findings.fail("Python %d.%d runs this; 3.8 or newer is needed" % sys.version_info[:2])
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
            if not any(place.managed for place, _ in found):
                by_its_user(client, findings)
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
    """Our `pre` command lines in a client's settings: [words or line]; says what switches them off."""
    try:
        path = place.settings_file(client)
        if path.endswith(".toml"):
            text = read_text(path) or ""
            marked = [line for line in text.splitlines() if OUR_FILE in line and line.startswith("command = ")]
            lines = [parse_json(line[len("command = ") :].rsplit(TOML_MARK, 1)[0]) for line in marked]
            return [line for line in lines if " pre " in line]
        settings = read_settings(path)
    except (Refused, ValueError) as error:
        findings.fail(str(error))
        return []
    first = EVENTS[client][0][0]
    entries = settings.get("hooks", {}).get(first, [])
    ours = [entry for entry in entries if isinstance(entry, dict) and is_ours(entry)] if isinstance(entries, list) else []
    if client == "claude":
        switched_off(place, settings, ours, findings)
    if ours and client == "gemini" and look_up(settings, ("hooksConfig", "enabled")) is not True:
        findings.fail("`hooksConfig.enabled` is not true in %s: run `install` again" % path)
    off = look_up(settings, ("hooksConfig", "disabled")) or look_up(settings, ("hooks", "disabled"))
    if ours and client == "gemini" and isinstance(off, list) and any(is_ours(one) or one == "countersign" for one in off):
        findings.fail("`hooksConfig.disabled` in %s switches the hook off: take it out" % path)
    if ours and client in ("copilot", "codex", "cursor") and settings.get("disableAllHooks") is True:
        findings.fail("`disableAllHooks` in %s switches the hook off: take it out" % path)
    found = []
    for entry in ours:
        inner = [one for one in entry["hooks"] if is_ours(one)] if isinstance(entry.get("hooks"), list) else [entry]
        one = inner[0] if inner and isinstance(inner[0], dict) else {}
        line = one.get("bash") or one.get("command")
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
            findings.fail("the time-out of %s in %s is not what the hook was told: run `install` again" % (first, path))
        if client == "claude" and one.get("onFailure") != "block":
            findings.fail("`onFailure` is not `block` in %s: run `install` again" % path)
        if client == "cursor" and one.get("failClosed") is not True:
            findings.fail("`failClosed` is not true in %s: run `install` again" % path)
    return found


def switched_off(place, settings, ours, findings):
    if place.managed:
        if settings.get("allowManagedHooksOnly") is True and not ours:
            findings.fail("managed settings allow managed hooks only, and ours is not among them: install --managed")
    elif ours and settings.get("disableAllHooks") is True:
        findings.fail("`disableAllHooks` switches the hook off: take it out, or install --managed")


# What a project says of hooks: the files below its folder, and where in them.
PROJECT_FILES = {
    "claude": ((".claude/settings.json", ".claude/settings.local.json"), ("disableAllHooks",), True),
    "gemini": ((".gemini/settings.json",), ("hooksConfig", "enabled"), False),
}


def by_its_user(client, findings):
    """Says what switches off a user's own hooks, and no managed ones; fails for a project that does."""
    findings.enforced = False
    findings.note(
        "%s: a user's installation can be switched off by whoever can write the user's or the project's files, "
        "an agent too; `install --managed` enforces it" % client
    )
    names, steps, off = PROJECT_FILES.get(client, ((), (), None))
    for name in names:
        path = os.path.join(os.getcwd(), *name.split("/"))
        try:
            settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: see that it does not switch hooks off" % path)
            continue
        if look_up(settings, steps) is off:
            told = "`%s` in %s switches the hook off in this folder: take it out, or install --managed"
            findings.fail(told % (".".join(steps), path))


def run_line(line, event):
    """Starts a hook's command as its client would: exit code, standard output and error."""
    import subprocess

    pipe = subprocess.PIPE
    try:
        ran = subprocess.run(line, shell=isinstance(line, str), input=event, stdout=pipe, stderr=pipe, timeout=100)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", str(error)
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


def try_entries(client, place, entries, findings):
    """Whether the installed command line itself blocks what it cannot read."""
    if len(entries) > 1:
        findings.fail("%s asks %d times for each call: run `install` again" % (client, len(entries)))
    for line in entries:
        code, out, err = run_line(line, b"nonsense")
        if code == 2 and err.strip() and is_json(out):
            findings.ok("%s: the installed command blocks what it cannot read" % client)
        else:
            findings.fail("%s: the installed command does not block (exit code %s): run `install` again" % (client, code))


def is_json(text):
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def try_version(client, findings):
    """Whether the client on this machine is new enough to block."""
    import shutil
    import subprocess

    least = MINIMUM_VERSIONS.get(client)
    if least is None:
        return findings.doubt("%s was never tried: have it make a call that a rule denies, and see" % client)
    program = shutil.which(PROGRAMS[client])
    if program is None:
        told = "`%s` is not on the PATH, and an old one may run what is denied: "
        return findings.doubt((told + "run doctor as who uses it, with it on the PATH") % PROGRAMS[client])
    try:
        # Some clients read what is typed, even for this; then a terminal's next line would be gone.
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
    """Whether Codex runs the hook: it skips, without a word, a user's that nobody has trusted, and a managed one that it
    does not find."""
    import shutil

    program = shutil.which(PROGRAMS["codex"])
    if program is None:
        return  # its version is not known either, which is said there
    told = codex_hooks(program)
    if told is None:
        advice = "look in /hooks" if managed else "look in /hooks, or install --managed"
        return findings.doubt("codex does not say whether it trusts the hook: " + advice)
    ours = [one for one in told if one.get("command") in lines]
    states = [one.get("trustStatus") if one.get("enabled") is True else "off" for one in ours]
    if states and all(state in ("trusted", "managed") for state in states):
        return findings.ok("codex trusts the hook")
    shown = plain(", ".join(str(state) for state in states) or "not there", 100)
    advice = "run `install --managed` again" if managed else "open /hooks in Codex and trust it, or install --managed"
    findings.fail("codex skips the hook (it is %s): %s" % (shown, advice))


def codex_hooks(program):
    """The hooks of a session in the user's home, as Codex's own server lists them; None if it does not say."""
    import subprocess
    from threading import Timer

    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "countersign-doctor", "version": VERSION}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [os.path.expanduser("~")]}},
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
    """Denied calls and an unreachable service, each with the hook itself as a process."""
    import tempfile

    try:
        settings = Settings(config)
        settings.check()
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
    """What it means that the hook told this instead of a denial."""
    reason = told.partition("countersign: ")[2].partition(", and calls")[0].partition("; fail mode")[0]
    if not reason:
        return "a call that must be denied was not: %s" % (told or "it was allowed")
    meanwhile = "calls are blocked meanwhile" if code == 2 else "calls run unchecked meanwhile"
    hint = ": start it, or correct SERVICE_API_URL" if "unreachable" in reason else ""
    return "%s could not be asked: %s; %s%s" % (settings.api_url, reason, meanwhile, hint)


def try_call(folder, settings, session, changed):
    """Asks about a harmless call with changed settings: exit code, standard output and error."""
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
    return run_line(line, event)


def try_key(settings, session, findings):
    """Whether the key is one of the organization that the settings name. And a key on a machine of agents should be able
    to ask, and nothing else: such a one is not even told who it is."""
    try:
        scopes = ask(settings, "GET", "/me", None, time.monotonic() + 10).get("scopes")
    except (Refused, Unreachable):
        scopes = None
    # A map of scope to boolean, or a list (specification, "Authentication" 3).
    held = [scope for scope in scopes if not isinstance(scopes, dict) or scopes[scope]] if scopes else []
    if any(scope != "agents:authorize" for scope in held):
        findings.note("this key can do more than ask: make one with the scope agents:authorize alone")
    named = settings.organization_id
    if named is None:
        return
    asked = {"agent": {"name": "doctor", "kind": "coding_agent"}, "session_id": session, "tool_name": "Glob"}
    body = to_json(dict(asked, tool_input={}, organization_id=named))
    try:
        reason = text_of(ask(settings, "POST", "/authorize", body, time.monotonic() + 10), "reason")
    except (Refused, Unreachable):
        reason = None
    if reason is None:
        findings.doubt("the service does not say whether the key is one of the organization `%s`" % plain(named, 100))
    elif reason in ("wrong organization", "not a member"):
        wrong = "every call is denied: the organization is set to `%s`, and the key's person is not one of it: "
        advice = "correct SERVICE_ORG_ID (`organization_id` in hook.json), or take it out"
        findings.fail(wrong % plain(named, 100) + advice)


def own_checksum():
    import hashlib

    with open(os.path.abspath(__file__), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def try_checksum(settings, findings):
    """Whether this file is the one that the service hands out."""
    try:
        listed = ask(settings, "GET", "/integrations", None, time.monotonic() + 10).get("files", [])
    except (Refused, Unreachable):
        return
    own = own_checksum()
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == OUR_FILE and each.get("sha256") != own:
            findings.note("the service hands out another version of this file: download it and run `install` again")


# --- The command line -----------------------------------------------------------------------------------------------


class Options:
    """--dialect, --timeout, --config. Read by hand: argparse takes as long to load as all the rest."""

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
                    raise Refused("--timeout takes the seconds that the client waits, not `%s`" % value)
            else:
                self.config = value


def patience(dialect, timeout):
    """How long this process may take, in seconds: less than the client waits, by a ninth of it and at least a second and
    a half, since Python has started before it can look at the clock."""
    limit = timeout or CLIENT_TIMEOUT.get(dialect, UNKNOWN_TIMEOUT)
    return limit - max(limit / 9, min(1.5, limit / 2))


def guarded(answer, work, options, blocking):
    """Runs the work in a thread of its own and ends the process in time whatever it does: this one only waits, so that
    neither a name server nor a full pipe keeps it from answering a signal or the clock."""

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
        reason = "the hook was stopped before there was a decision"
        if answer.waiting_for is not None:
            reason = held(answer.waiting_for[1], "was given up with the call")
        answer.deny("countersign: " + reason, lambda: withdraw(answer))

    import _signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), stopped)
    start_new_thread(run, ())
    while time.monotonic() < answer.deadline:
        # A client that was killed signals nothing to the hooks that it has started.
        if answer.waiting_for is not None and answer.is_unheard():
            stopped(None, None)
        time.sleep(max(0.0, min(1.0, answer.deadline - time.monotonic())))
    if answer.waiting_for is not None:
        finish(pending(answer.waiting_for[1]))
    finish("no decision within the time that the client waits")


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
        # A person, and no client that would take an answer for one to a call.
        sys.stderr.write(USAGE + "\n")
        return 2
    answer = Answer()
    try:
        if sys.version_info < (3, 8):
            raise Refused("Python 3.8 or newer is needed, this is %d.%d" % sys.version_info[:2])
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
