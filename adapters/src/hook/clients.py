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
