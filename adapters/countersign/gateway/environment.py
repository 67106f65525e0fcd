"""What of the gateway's environment servers get."""

import os
import re

from ..shared.settings import removed_variables
from .constants import Failed

# Servers get these variables of the gateway's environment, because programs need them to start. Servers do not get the
# others, which may contain secrets.
POSIX_BASE = "HOME LANG LANGUAGE LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER".split()
WINDOWS_BASE = (
    "ALLUSERSPROFILE APPDATA COMMONPROGRAMFILES COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT "
    "PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
).split()
OUR_KEY = "SERVICE_API_KEY"


def base_environment():
    names = WINDOWS_BASE if os.name == "nt" else POSIX_BASE
    found = {name: value for name, value in os.environ.items() if name.upper() in names or name.startswith("LC_")}
    # Old shells export functions as variables. Such a variable is left out.
    return {name: value for name, value in found.items() if not value.startswith("()")}


def expand(text):
    """Replaces `${VAR}` and `${VAR:-default}` with the value of the variable, as in `.mcp.json`. Raises Failed for a
    variable that has no value and no default, and for the variable of the service's key."""

    def value(found):
        name, default = found.group(1), found.group(2)
        if name == OUR_KEY:
            raise Failed("it asks for the service's key, which no server may get")
        known = os.environ.get(name, removed_variables.get(name))
        if not known and default is not None:
            return default
        if known is None:
            raise Failed("the variable `%s` is not set" % name)
        return known

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", value, text)
