#!/usr/bin/env python3
"""Countersign's gateway: one MCP server in front of your own MCP servers. It asks the service before each call.

    service_mcp.py --config FILE [--name svc] [--settings FILE]

FILE has the form of `.mcp.json`: {"mcpServers": {"files": {"command": ..., "args": [...], "env": {...}, "cwd": ...},
"board": {"type": "http", "url": "https://...", "headers": {"Authorization": "Bearer ${BOARD_TOKEN}"}}}}.
The client starts this program over stdio and sees the tools of all those servers as `<server>__<tool>`. Before a tool is
called, a resource read or a prompt fetched, the service is asked. Allowed: the server's own answer comes back byte for
byte. Denied: a tool error names the rule, and the server gets nothing. Held: the call waits for an approver, with
progress if the client asked for it, and then ends in a tool error with the approval's id.

--name is the key under which the client knows this program (`svc`). Clients show `mcp__<name>__<server>__<tool>`. Names
over 64 characters are cut. --settings is the hook's own settings file. Its values win over the environment, and the
environment cannot set the fail mode, plain http, the proxy and the authorities then.

Environment: SERVICE_API_URL, SERVICE_API_KEY (scope agents:authorize), SERVICE_FAIL_MODE closed (default) or open,
SERVICE_APPROVAL_WAIT in seconds (55, at most 240), SERVICE_ORG_ID, SERVICE_ALLOW_HTTP=1 for http to other machines. The
servers get a small part of the environment and their own `env`, but never SERVICE_API_KEY.

It needs Python 3.8 or newer and only the standard library. It is one file, so that administrators can download it,
compare its checksum and read it. `npm run adapters` assembles it from the parts in `adapters/src`.
"""

import io
import json
import os
import re
import signal
import socket as sockets
import sys
import threading
import time
from queue import Empty, SimpleQueue
