# Numbers and names of the hook.

MAX_INPUT = 32 * MIB  # bytes of an event: escapes can make it six times as long as the request. More is not read
USAGE = "usage: service_hook.py pre|post|end|install|doctor [--dialect claude|codex|gemini|copilot|cursor|vscode|opencode]"
COMMANDS = ("pre", "post", "end", "flush", "deliver")

# Time-outs of clients in seconds if the command line has no --timeout: the value that `install` writes, or the client's
# own default if that is shorter. All clients run the call when they time out.
CLIENT_TIMEOUT = {"claude": 90, "codex": 90, "gemini": 60, "copilot": 30, "cursor": 30, "vscode": 30, "opencode": 90}
UNKNOWN_TIMEOUT = 30

# Headers of each request to the service. A process makes one request, so the connection need not stay open.
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
