"""Variables that keep a hook from starting, or start another program in its place."""

from ...shared.limits import Refused
from ..clients.gemini import STOPPING_VARIABLES
from ..install.files import read_text

# The loader of programs reads variables whose names begin like this. They can make it start another program than the
# hook, or no program.
LOADER_VARIABLES = ("LD_", "DYLD_")
# Variables whose names begin like this can make a shell start another program. Or they can make Claude Code put another
# program before the hook's command.
SHELL_VARIABLES = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "BASH_FUNC_", "ENV", "PS4")
# The variables of SHELL_VARIABLES that count in a client's own environment. `ENV` and exported functions do not reach
# the hook from there.
SHELL_ENVIRONMENT = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV")
# Many machines set these variables for their own programs. So `own_environment` notes them, but does not fail.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


def run_line(line, known=None, event=b""):
    """Runs a hook's command. Returns its exit code, standard output and standard error. The code is None if the command
    cannot be run or takes too long."""
    import subprocess

    pipe = subprocess.PIPE
    options = {"stdout": pipe, "stderr": pipe, "timeout": 100, "env": known}
    try:
        ran = subprocess.run(line, shell=isinstance(line, str), input=event, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", str(error)
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


def stopping_variables(path, more=()):
    """Returns the variables of a `.env` file that keep a hook from running, or that are in `more`. A line has the form
    `NAME=value` or `NAME: value`."""
    import re

    try:
        lines = (read_text(path) or "").splitlines()
    except Refused:
        lines = []
    named = [re.match(r"\s*(?:export\s+)?([\w.-]+)\s*[=:]", line) for line in lines]
    return sorted({match.group(1) for match in named if match} & {*STOPPING_VARIABLES, *more})
