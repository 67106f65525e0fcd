"""The command line."""

import os
import sys
import time

from ..shared.limits import VERSION, Refused
from ..shared.settings import seconds
from .answer import Answer
from .clients import NAMES, TRIAL, client_named
from .guard import guarded, patience

USAGE = "usage: service_hook.py pre|post|end|install|doctor [--dialect %s]" % "|".join(NAMES)
COMMANDS = ("pre", "post", "end", "flush", "deliver")


class Options:
    """Reads --dialect, --timeout and --config. It does not use argparse, because loading argparse takes as long as
    everything else."""

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
                if value not in NAMES and value != TRIAL:
                    raise Refused("unknown dialect `%s`: there are %s" % (value, ", ".join(NAMES)))
                self.dialect = value
            elif name == "--timeout":
                self.timeout = seconds(value, None)
                if not self.timeout:
                    raise Refused("--timeout needs the seconds that the client waits, not `%s`" % value)
            else:
                self.config = value


def main(words):
    """A process starts for every tool call, so each command loads only its own modules."""
    command = words[0] if words else ""
    if command in ("--help", "-h"):
        print(USAGE + "\n       service_hook.py install|doctor --help, service_hook.py --version")
        return 0
    if command == "--version":
        from .doctor.tries import own_checksum

        print("service_hook.py %s, sha256 %s" % (VERSION, own_checksum()))
        return 0
    if command == "install":
        from .install.command import install

        return install(words[1:])
    if command == "doctor":
        from .doctor.command import doctor

        return doctor(words[1:])
    if command not in COMMANDS and os.isatty(0):
        # A person typed this, so no client reads the output as an answer.
        sys.stderr.write(USAGE + "\n")
        return 2
    answer = Answer()
    try:
        if sys.version_info < (3, 8):
            raise Refused("Python 3.8 or newer is needed, but this is %d.%d" % sys.version_info[:2])
        options = Options(words[1:])
        client = client_named(options.dialect)
        if command == "pre":
            answer.client = client
    except Refused as error:
        if command in ("post", "end", "flush", "deliver"):
            answer.allow("countersign: " + str(error))
        answer.deny("countersign: " + str(error))
    if command == "pre":
        from .pre import pre

        answer.deadline = options.started + patience(client, options.timeout)
        guarded(answer, pre, options, True)
    if command in ("post", "end", "flush", "deliver"):
        from . import after

        limits = {"post": patience(client, options.timeout or 15), "end": 1.8}
        answer.deadline = options.started + limits.get(command, 60)
        guarded(answer, getattr(after, command), options, False)
    answer.deny(USAGE)
