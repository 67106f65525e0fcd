"""The lists that the client sees."""

import time

from ..shared.text import plain
from .calls import Tool, fingerprint
from .constants import INVALID_PARAMS, LIST_SECONDS, LISTS, Wrong
from .messages import result_body
from .shapes import is_compiled
from .threads import log


class Lists:
    """The part of the gateway that merges the lists of all servers. It also finds a tool or prompt by the name that the
    client sees."""

    def adopt(self, upstream, kind, found):
        """Returns a server's list as the client gets it. Tools and prompts have the names that the gateway gives. Tools
        that require tasks are left out. Schemas of results are left out if some client may not be able to compile
        them."""
        if kind not in self.names:
            return found
        mine = {}
        for each in found:
            own, extra = each.get("name"), each.get("execution")
            if not isinstance(own, str) or own == "" or own in mine:
                continue
            if kind == "tools" and isinstance(extra, dict) and extra.get("taskSupport") == "required":
                continue  # the gateway does not support tasks
            mine[own] = each
        with self.lock:
            names = self.names[kind]
            names.name(upstream.name, mine)
            if kind == "tools":
                mine = {own: self.pinned(upstream, own, each).definition for own, each in mine.items()}
            shown = {own: names.given[upstream.name, own][0] for own in mine}
        for own, each in mine.items():
            if "outputSchema" in each and not is_compiled(each["outputSchema"]):
                log("server `%s`: the schema of the results of `%s` is not shown, because clients may not be able to read it" % (upstream.name, own))
                mine[own] = {name: value for name, value in each.items() if name != "outputSchema"}
        return [dict(each, name=shown[own]) for own, each in mine.items()]

    def pinned(self, upstream, own, definition):
        """Returns a tool as the client first saw it. The model trusts the text of a tool. So if the description or the
        parameters change, the tool is refused until a new session (docs/decisions/0036)."""
        definition = {name: value for name, value in definition.items() if name != "execution"}
        known = self.tools.get((upstream.name, own))
        if known is None:
            known = self.tools[upstream.name, own] = Tool(own, definition)
        elif known.print != fingerprint(definition) and not known.changed:
            known.changed = True
            text = "tool `%s` of server `%s` has changed its description or parameters: it is refused" % (
                plain(own, 200),
                upstream.name,
            )
            log(text)
            told = {"level": "warning", "logger": "countersign", "data": text}
            self.workers.run(self.tell, "notifications/message", told)
        return known

    def merged(self, kind):
        """Joins one kind of list of all servers that are ready. The servers are in the order of the file. If two
        resources have the same address, only the first one stays."""
        found = [each for upstream in self.upstreams if upstream.ready for each in upstream.items[kind]]
        if kind != "resources":
            return found
        seen = set()
        return [each for each in found if not (str(each.get("uri")) in seen or seen.add(str(each.get("uri"))))]

    def settle(self, what):
        """Waits for servers that are starting, at most until LIST_SECONDS after `initialize`."""
        for upstream in self.upstreams:
            event = upstream.settled if what == "tools" else upstream.complete
            event.wait(max(0.0, self.began + LIST_SECONDS - time.monotonic()))

    def list_of(kind):
        def listed(self, call, params):
            self.settle(kind)
            with self.lock:
                found = self.told_lists[kind] = self.merged(kind)
            return result_body({LISTS[kind][1]: found})

        return listed

    def find(self, kind, shown):
        """Returns the server of a tool or prompt, and the server's own name for it. `shown` is the name that the client
        sees. Raises Wrong for any other name."""
        found = self.names[kind].back.get(shown)
        if found is None:
            self.settle(kind)
            found = self.names[kind].back.get(shown)
        if found is None:
            raise Wrong(INVALID_PARAMS, "Unknown %s: %s" % (kind[:-1], plain(shown, 200)))
        return self.by_name[found[0]], found[1]
