# Names of tools as the client sees them.

def server_token(name):
    """A server's name in its tools' names. It has no double underscore: otherwise two servers' tools could share
    one name."""
    return re.sub("_+", "_", token(name)).strip("_-")


def short_hash(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


class Names:
    """The names under which tools or prompts are shown, and the tools behind the names. A name stays with its tool,
    also after a restart or when a server comes late."""

    def __init__(self, gateway):
        self.room = MAX_NAME - len("mcp__" + gateway + "__")
        self.given = {}  # (server, its own name): (shown, full)
        self.back = {}  # shown: (server, its own name)
        self.fulls = set()

    def name(self, server, owns):
        """Gives a name to each of a server's own names. Names that need no change come first."""
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
