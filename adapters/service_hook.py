#!/usr/bin/env python3
"""Countersign's hook: a coding agent asks before each tool call, and what may not run is blocked.

    service_hook.py pre|post|end [--dialect claude|codex|gemini|copilot|cursor|vscode]

`pre` reads the client's event on standard input and asks the service. Allowed: it prints nothing and exits 0, so that
the client's own prompts run (Cursor wants a word, and gets it). Anything else: the reason on standard error, one JSON
object in the client's dialect on standard output, exit code 2. A held call waits for an approver, but never as long as
the client would wait for this process: a client that loses patience runs the call.
`post` reports a finished call by name and arguments, `end` closes the session; neither ever blocks. Outputs of tools
never leave this machine, and no value is ever written to a log.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. With
--config FILE the file's values win, so that no project's settings can redirect a session.

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
MAX_INPUT = 48 * MIB  # of an event: escapes may make it six times as long as what is sent, and more is not read
MAX_ANSWER = MIB
ASK_SECONDS = 20  # without an answer for this long the service counts as unreachable
POLL_SECONDS = 30  # longest wait the service holds a poll for
DEFAULT_WAIT = 55
USAGE = "usage: service_hook.py pre|post|end [--dialect claude|codex|gemini|copilot|cursor|vscode]"

# Client time-outs in seconds that are assumed when the command line names none (--timeout): what the
# documented settings say, or less where the client's own default is less. All clients run the call when they time out.
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
        self.dialect = None
        self.event = None
        self.fail_open = False
        self.deadline = time.monotonic() + 60
        self.waiting_for = None  # the approval a held call waits for
        self._claimed = allocate_lock()
        try:
            self._out = os.dup(1)
        except OSError:
            self._out = None
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

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
            write_all(self._out, b'{"permission": "allow"}\n')
        os._exit(0)

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
    import json

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
    return (json.dumps(said) + "\n").encode("ascii")


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
    "Read": {"file_path": ("path", "filePath", "absolute_path", "target_file", "paths")},
    "Write": {"file_path": ("path", "filePath", "target_file"), "content": ("file_text", "contents")},
    "Edit": {
        "file_path": ("path", "filePath", "target_file"),
        "old_string": ("old_str", "oldString"),
        "new_string": ("new_str", "newString"),
    },
    "WebFetch": {"url": ("urls", "uri")},
}


class Call:
    """One tool call as the service is asked about it."""

    def __init__(self, dialect, event, session_id, tool, arguments, use_id):
        self.dialect = dialect
        self.event = event
        self.session_id = session_id
        self.tool = tool
        self.arguments = arguments
        self.use_id = use_id


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
    return Call(
        dialect,
        name,
        session_id,
        canonical,
        canonical_arguments(dialect, canonical, as_object(arguments), event.get("cwd")),
        text_of(event, "tool_use_id", "toolUseId"),
    )


def as_object(arguments):
    """Arguments as the object that rules read: some clients send its JSON as a text, some tools take a bare text."""
    if isinstance(arguments, str):
        try:
            parsed = parse_json(arguments)
        except ValueError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else {"input": arguments}
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else {"input": arguments}


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
    """The client's arguments, with those that rules name added under Claude Code's names."""
    if dialect in (None, "claude"):
        return arguments
    found = dict(arguments)
    for wanted, others in ARGUMENT_NAMES.get(tool, {}).items():
        other = next((key for key in others if key in arguments), None)
        if wanted not in found and other is not None:
            found[wanted] = arguments[other]
    if tool == "Edit" and "file_path" not in found:
        add(found, "file_path", patched_files(found.get("command", found.get("input")), cwd))
    if tool == "WebFetch" and "url" not in found:
        add(found, "url", addresses(found.get("prompt")))
    return found


def add(arguments, name, values):
    """One value as itself, several as a list: rules that restrict match when any of them does."""
    if values:
        arguments[name] = values[0] if len(values) == 1 else values


def patched_files(patch, cwd):
    """The files that a patch in Codex's form touches."""
    paths = []
    for line in patch.split("\n") if isinstance(patch, str) else ():
        for mark in ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "):
            if line.startswith(mark):
                path = line[len(mark) :].strip()
                base = cwd if isinstance(cwd, str) else ""
                paths.append(os.path.normpath(os.path.join(base, path)))
    return paths


def addresses(text):
    """The web addresses in a text; Gemini's web_fetch names them in its prompt."""
    found = []
    for word in text.split() if isinstance(text, str) else ():
        at = word.lower().find("http")
        if at >= 0 and "://" in word[at:]:
            found.append(word[at:].rstrip(".,;:!?)]}>\"'"))
    return found


# Programs that read commands from their terminal. Codex types into a running one by `write_stdin`, which no hook sees.
INTERPRETERS = frozenset(
    "bash sh zsh dash ksh fish csh tcsh python python2 python3 ipython node deno bun ruby irb perl php lua R psql mysql "
    "sqlite3 mongosh redis-cli ssh telnet nc ncat socat gdb tmux screen script su ftp sftp pwsh powershell".split()
)


def opens_prompt(command):
    """Whether a command starts a program that then waits for commands, as far as a look at its words tells."""
    for separator in ("&&", "||", ";", "\n", "(", ")", "{", "}"):
        command = command.replace(separator, "\0")
    for part in command.split("\0"):
        # Behind a pipe it reads what comes out of the pipe.
        words = [word for word in part.split("|")[0].replace("&", " ").split() if not word.startswith("#")]
        while words and ("=" in words[0] or words[0] in ("exec", "env", "sudo", "command", "nohup", "time", "nice")):
            words.pop(0)
        if not words:
            continue
        program = words[0].strip("'\"\\").rsplit("/", 1)[-1]
        takes_host = program in ("ssh", "telnet", "nc", "ncat", "psql", "mysql", "sqlite3", "su", "ftp", "sftp")
        rest = [word for word in words[1:] if not word.startswith("-")]
        if program in INTERPRETERS and len(rest) <= (1 if takes_host else 0):
            if not any(word in ("-c", "-e", "--version", "--help", "-V", "-h") for word in words[1:]):
                return True
    return False


# --- JSON -----------------------------------------------------------------------------------------------------------


def parse_json(text):
    """Strict JSON: no repeated names, no NaN, no number so long that reading it would take longer than we have.
    Raises ValueError."""
    import json

    def once(pairs):
        read = dict(pairs)
        if len(read) != len(pairs):
            raise ValueError("a name stands twice in one object")
        return read

    def whole(digits):
        if len(digits) > 400:
            raise ValueError("a number has %d digits" % len(digits))
        return int(digits)

    def constant(name):
        raise ValueError("`%s` is not JSON" % name)

    try:
        return json.loads(text, object_pairs_hook=once, parse_int=whole, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value):
    """Compact JSON as bytes; half a surrogate pair can only be sent as its escape. Raises ValueError."""
    import json

    try:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
        except UnicodeEncodeError:
            return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise ValueError("nested too deeply")


def read_event():
    """The client's event from standard input; refuses what is not one JSON object in UTF-8."""
    if os.isatty(0):
        raise Refused("a client's hook event is expected on standard input")
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
        event = parse_json(b"".join(chunks).decode("utf-8-sig"))
    except ValueError as error:
        kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise Refused("the client's event cannot be read: it is not %s" % kind)
    if not isinstance(event, dict):
        raise Refused("the client's event cannot be read: it is not a JSON object")
    return event


# --- Settings -------------------------------------------------------------------------------------------------------

CONFIG_KEYS = ("api_url", "api_key", "api_key_file", "fail_mode", "approval_wait", "organization_id", "allow_http")


class Settings:
    """Where the service is and how it is asked, from the environment and, before it, the file of --config."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        def value(key, variable):
            found = named.get(key, os.environ.get(variable))
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
    except (TypeError, ValueError):
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
        raise Refused("`api_key_file` must be a path")
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

            context = ssl.create_default_context()
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
            try:
                size = int(line.split(b";")[0].strip(), 16)
            except ValueError:
                raise Refused("the service's answer is not HTTP")
            self.limit(len(whole) + abs(size))
            if size <= 0:
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
    named = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if not named or not settings.secure or is_loopback(settings.host):
        return None
    for entry in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(","):
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
        "agent": {"name": AGENT_NAMES.get(call.dialect, "agent"), "kind": "coding_agent"},
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
    event = read_event()
    answer.dialect = detect(options.dialect, event)
    call = read_call(answer.dialect, event)
    answer.event = call.event
    settings = Settings(options.config)
    settings.check()
    answer.fail_open = settings.fail_open
    if options.timeout is None:
        answer.deadline = max(answer.deadline, options.started + patience(answer.dialect, None))
    if call.dialect == "codex" and call.tool == "Bash" and opens_prompt(str(call.arguments.get("command"))):
        raise Refused(
            "this starts a program that waits for commands, and Codex types into it without asking: "
            "give it its commands as arguments"
        )
    body = authorize_body(call, settings)
    flush_ends(settings, call, options)
    until = min(time.monotonic() + ASK_SECONDS, answer.deadline - 1)
    decided = decision(settings, body, until)
    give_up = min(time.monotonic() + settings.wait, answer.deadline - 1)
    while decided["decision"] == "require_approval":
        answer.waiting_for = (settings, decided)
        wait_for_approval(answer, settings, decided, give_up)
        # Only the service's own `allow` lets the call run: what was approved is decided again when it is used.
        try:
            decided = decision(settings, body, min(time.monotonic() + ASK_SECONDS, answer.deadline - 1))
        except Unreachable as error:
            raise Refused("%s; the service is unreachable: %s" % (held(decided, "is approved"), error))
        answer.waiting_for = None
    if decided["decision"] == "allow":
        answer.allow()
    answer.deny(blocked(decided))


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


def withdraw(settings, decided):
    """Takes a held call's approval back when its client gives the call up."""
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
    body = to_json(seen)
    if len(body) > MAX_BODY:
        # Its `pre` was refused: that it ran all the same must show.
        seen["tool_input"] = {"too_long": len(body)}
        body = to_json(seen)
    ask(settings, "POST", "/authorize/observe", body, answer.deadline - 0.5)
    answer.allow()


def end(answer, options):
    """Ends the session; without the service, leaves a note that the next `pre` sends."""
    session_id = session_of(read_event())
    if session_id is None:
        raise Refused("the client named no session")
    settings = Settings(options.config)
    settings.check()
    if not send_end(settings, session_id, time.monotonic() + 1.2):
        keep_end(settings, session_id)
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
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or home()
    else:
        base = os.environ.get("XDG_STATE_HOME") or os.path.join(home(), ".local", "state")
    return os.path.join(base, "countersign", "ended-sessions")


def end_file(settings_url, session_id):
    from binascii import crc32, hexlify

    where = "%08x" % crc32((settings_url or "").encode("utf-8", "replace"))
    return where + "-" + hexlify(session_id.encode("utf-8", "replace")[:90]).decode("ascii")


def keep_end(settings, session_id):
    folder = spool()
    os.makedirs(folder, 0o700, True)
    name = os.path.join(folder, end_file(settings.api_url, session_id))
    draft = "%s.%d" % (name, os.getpid())
    with open(draft, "wb") as file:
        file.write(session_id.encode("utf-8", "replace"))
    os.replace(draft, name)


def flush_ends(settings, call, options):
    """Sees to the ends left behind: the one of this session no longer holds, others are sent by a process beside."""
    folder = spool()
    try:
        names = [name for name in os.listdir(folder) if "." not in name]
    except OSError:
        return
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
        import subprocess

        command = [sys.executable, "-I", "-S", os.path.abspath(__file__), "flush"]
        if options.config is not None:
            command += ["--config", options.config]
        null = subprocess.DEVNULL
        try:
            subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
        except OSError:
            pass


def flush(answer, options):
    """Sends the ends of this service that were left behind, the oldest first; stops when it is out of reach again."""
    settings = Settings(options.config)
    settings.check()
    folder = spool()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                session_id = file.read(4096).decode("utf-8", "replace")
            if time.time() - os.stat(path).st_mtime > 7 * 86400:
                os.unlink(path)
            elif "." not in name and name == end_file(settings.api_url, session_id):
                if not send_end(settings, session_id, time.monotonic() + 5):
                    break
                os.unlink(path)
        except FileNotFoundError:
            pass  # another process was faster
    answer.allow()


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
                if value not in AGENT_NAMES:
                    raise Refused("unknown dialect `%s`: there are %s" % (value, ", ".join(AGENT_NAMES)))
                self.dialect = value
            elif name == "--timeout":
                self.timeout = seconds(value, None)
                if not self.timeout:
                    raise Refused("--timeout takes the seconds that the client waits, not `%s`" % value)
            else:
                self.config = value


def patience(dialect, timeout):
    """How long this process may take, in seconds: less than the client waits, by a ninth of it."""
    return (timeout or CLIENT_TIMEOUT.get(dialect, UNKNOWN_TIMEOUT)) * 8 / 9


def guarded(answer, work, options, blocking):
    """Runs the work in a thread of its own and ends the process in time whatever it does: this one only waits, so that
    neither a name server nor a full pipe keeps it from answering a signal or the clock."""

    def run():
        try:
            work(answer, options)
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
        waiting = answer.waiting_for
        if not blocking:
            answer.allow()
        if waiting is None:
            answer.deny("countersign: the hook was stopped before there was a decision")
        answer.deny(
            "countersign: " + held(waiting[1], "was given up with the call"), lambda: withdraw(*waiting)
        )

    import _signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), stopped)
    start_new_thread(run, ())
    while time.monotonic() < answer.deadline:
        time.sleep(max(0.0, answer.deadline - time.monotonic()))
    if answer.waiting_for is not None:
        finish(pending(answer.waiting_for[1]))
    finish("no decision within the time that the client waits")


def main(words):
    command = words[0] if words else ""
    answer = Answer()
    try:
        if sys.version_info < (3, 8):
            raise Refused("Python 3.8 or newer is needed, this is %d.%d" % sys.version_info[:2])
        options = Options(words[1:])
        answer.dialect = options.dialect
    except Refused as error:
        if command in ("post", "end", "flush"):
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
    if command == "flush":
        answer.deadline = options.started + 60
        guarded(answer, flush, options, False)
    answer.deny(USAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
