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
it, compare its checksum and read it. `npm run adapters` packs it from the modules in `adapters/countersign`. A process starts
for every tool call, so modules are imported where they are needed, and sockets are used directly: loading http.client
would double the time.
"""

import sys

from countersign.hook.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
