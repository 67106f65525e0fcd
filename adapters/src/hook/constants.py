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
