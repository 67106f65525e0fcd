"""Gemini CLI."""

import os

from ..client import Client, in_mcp_name, named_in

# These variables can keep a shell or the loader of programs from running the hook. Or they make it run another program
# first. Gemini CLI also reads these variables from the `.env` files of projects.
STOPPING_VARIABLES = (
    "BASHOPTS BASH_ENV DYLD_FRAMEWORK_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH ENV GLIBC_TUNABLES LD_AUDIT "
    "LD_BIND_NOW LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_VERBOSE LD_WARN "
    "SHELLOPTS"
).split()
REDACTION = ("security", "environmentVariableRedaction")


def gemini_home():
    """Returns the folder that contains `.gemini`. For Gemini CLI, GEMINI_CLI_HOME replaces the user's home."""
    return os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~")


class Gemini(Client):
    name = "gemini"
    agent = "gemini-cli"
    timeout = 60
    tools = {
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
    }

    events = (("BeforeTool", "pre"), ("AfterTool", "post"), ("SessionEnd", "end"))
    user_file = ".gemini/settings.json"
    managed_files = (
        "/etc/gemini-cli/settings.json",
        "/Library/Application Support/GeminiCli/settings.json",
        "C:\\ProgramData\\gemini-cli\\settings.json",
    )
    time_unit = 1000
    program = "gemini"
    package = "@google/gemini-cli"
    minimum_version = "0.61.0"

    def sends(self, event):
        return event.get("hook_event_name") in ("BeforeTool", "AfterTool")

    def canonical_name(self, tool, context=None):
        return named_in(context) or Client.canonical_name(self, tool)

    def server_of(self, tool):
        return in_mcp_name(tool)

    def denial(self, event, reason):
        return {"decision": "deny", "reason": reason}

    def settings_file(self, place, part=None):
        if place.managed:
            return Client.settings_file(self, place)
        return os.path.join(gemini_home(), *self.user_file.split("/"))

    def options(self, place, part, settings):
        """In a managed file, `hooksConfig` is a list and not an object. So Gemini CLI ignores the `hooksConfig` of users
        and projects. They cannot use its members `enabled` and `disabled` (docs/decisions/0159)."""
        from ..install.files import look_up

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

    def entries(self, place, python, settings):
        found, name = Client.entries(self, place, python, settings), hook_name(settings)
        for entry in found.values():
            entry["hooks"][0]["name"] = name
        return found

    def entry(self, place, python, command):
        # With `sequential`, Gemini CLI runs the hooks one after the other. Our hook then sees the changes that earlier
        # hooks have made to the call.
        return dict(Client.entry(self, place, python, command), sequential=True)

    def command_entry(self, place, python, command):
        return dict(Client.command_entry(self, place, python, command), **fixed_path(place))

    def checks(self):
        from ..doctor.gemini import GeminiChecks

        return GeminiChecks(self)


def hook_name(settings):
    """Returns the name of the installed hook, or a new random name. A repository that could guess the name could switch
    the hook off."""
    from ..install.entries import is_ours

    found = [one.get("name") for one in hooks_in(settings) if is_ours(one)]
    if found and isinstance(found[0], str) and found[0].startswith("countersign-"):
        return found[0]
    from binascii import hexlify

    return "countersign-" + hexlify(os.urandom(8)).decode("ascii")


def hooks_in(settings):
    """Returns each hook of all events."""
    hooks = settings.get("hooks")
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            for one in inner if isinstance(inner, list) else ():
                if isinstance(one, dict):
                    yield one


def fixed_path(place):
    """Returns the environment of a managed hook, with a fixed PATH. Gemini CLI looks for `bash` in the PATH, and a
    user's own PATH could lead to another `bash`."""
    folders = [folder for folder in ("/usr/bin", "/bin") if os.path.exists(place.at(folder + "/bash"))]
    return {"env": {"PATH": ":".join(folders)}} if place.managed and folders else {}


client = Gemini()
