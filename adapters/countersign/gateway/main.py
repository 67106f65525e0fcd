"""The command line."""

import os
import signal
import sys
import threading

from ..shared.limits import Refused
from ..shared.settings import Settings
from ..shared.text import plain
from .gateway import Gateway
from .names import server_token
from .processes import watch
from .servers import read_servers
from .threads import write_log

USAGE = "usage: service_mcp.py --config FILE [--name svc] [--settings FILE]"


def options(words):
    """Returns the options by name. Raises Refused for a wrong option."""
    found = {"--config": None, "--name": "svc", "--settings": None}
    words = list(words)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name not in found:
            raise Refused("unknown option `%s`; %s" % (name, USAGE))
        if not equals:
            if not words:
                raise Refused("%s needs a value; %s" % (name, USAGE))
            value = words.pop(0)
        found[name] = value
    if found["--config"] is None:
        raise Refused(USAGE)
    if server_token(found["--name"]) != found["--name"] or not 0 < len(found["--name"]) <= 24:
        raise Refused("--name takes up to 24 letters, digits, `-` and single `_`")
    return found


def main(words):
    if sys.version_info < (3, 8):
        sys.stderr.write("countersign: Python 3.8 or newer is needed, but this is %d.%d\n" % sys.version_info[:2])
        return 2
    if words == ["--watch"] and os.name != "nt":
        return watch()
    if words in (["--help"], ["-h"]):
        sys.stdout.write(sys.modules["__main__"].__doc__)
        return 0
    # Only messages may reach the client. All other output goes to standard error.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        chosen = options(words)
        settings = Settings(chosen["--settings"])
        servers = read_servers(chosen["--config"], settings.key)
    except Refused as error:
        sys.stderr.write("countersign: %s\n" % plain(error, 2000))
        return 2
    gateway = Gateway(settings, servers, chosen["--name"])
    gateway.out = out
    sys.setswitchinterval(0.001)
    threading.Thread(target=write_log, daemon=True).start()
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, frame: gateway.events.put("a signal"))
    gateway.run()
