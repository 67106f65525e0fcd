#!/usr/bin/env python3
"""Countersign's gateway: one MCP server in front of your own MCP servers. It asks the service before each call.

    service_mcp.py --config FILE [--name svc] [--settings FILE]

FILE has the form of `.mcp.json`: {"mcpServers": {"files": {"command": ..., "args": [...], "env": {...}, "cwd": ...},
"board": {"type": "http", "url": "https://...", "headers": {"Authorization": "Bearer ${BOARD_TOKEN}"}}}}.
The client starts this program over stdio and sees the tools of all those servers as `<server>__<tool>`. Before a tool is
called, a resource read or a prompt fetched, this program asks the service. If the call is allowed, the client gets the
server's own answer, byte for byte. If it is denied, the client gets a tool error that names the rule, and the server gets
nothing. If it is held, it waits for an approver, with progress if the client asked for progress. If it is not approved
in time, it ends in a tool error with the approval's id.

--name is the name of this program in the client's settings (default: svc). Clients show a tool's name as
`mcp__<name>__<server>__<tool>`. Names over 64 characters are cut. --settings is the hook's own settings file. Its values
win over the environment. Then only this file can set the fail mode, plain http, the proxy and the authorities.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55, at most 240), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. The
servers get a small part of the environment and their own `env`, but never SERVICE_API_KEY.

This program needs Python 3.8 or newer and only the standard library. It is one file, so that administrators can download
it, compare its checksum and read it. `npm run adapters` packs it from the modules in `adapters/countersign`.
"""

import sys

from countersign.gateway.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
