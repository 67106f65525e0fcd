"""Names of tools as the client sees them."""

import re

from ..shared.text import token
from .constants import MAX_NAME


def server_token(name):
    """Returns the name that a server has in the names of its tools. This name has no double underscore. Otherwise the
    tool `c` of a server `a__b` and the tool `b__c` of a server `a` would have the same name."""
    return re.sub("_+", "_", token(name)).strip("_-")


def short_hash(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


class Names:
    """The names under which the client sees tools or prompts, and what each name stands for. A name always stays with
    its tool, even if a server restarts or starts late."""

    def __init__(self, gateway):
        self.room = MAX_NAME - len("mcp__" + gateway + "__")
        self.given = {}  # {(server, the server's own name): (shown name, full name)}
        self.back = {}  # {shown name: (server, the server's own name)}
        self.fulls = set()

    def name(self, server, owns):
        """Gives each of the server's own names a name that the client sees. Own names that need no change come first,
        so that no changed name takes their place."""
        for own in sorted(owns, key=lambda own: (token(own) != own, own)):
            if (server, own) not in self.given:
                self._give(server, own)

    def _give(self, server, own):
        full = first = server + "__" + token(own)
        told = server + "__" + own
        while full in self.fulls:
            full = first + "_" + short_hash(told)
            told += "+"
        shown, told = full, full
        while len(shown) > self.room or shown in self.back:
            shown = full[: self.room - 9] + "_" + short_hash(told)
            told += "+"
        self.fulls.add(full)
        self.given[server, own] = (shown, full)
        self.back[shown] = (server, own)
