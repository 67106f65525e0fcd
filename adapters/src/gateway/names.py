# Names of tools as the client sees them.

def server_token(name):
    """Returns a server's name as it appears in the names of its tools. It has no double underscore, because otherwise
    the tools of two servers could get the same name."""
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
        """Gives a shown name to each of a server's own names. Names that need no change come first."""
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
