"""Messages of the protocol."""

import json

from ..shared.json import to_json
from .constants import MAX_DEPTH, MAX_LINE
from .json import BLANK, STRICT


class Message:
    """One JSON-RPC message: the values of its members, and the bytes of each member as they were received."""

    def __init__(self, text, decoder):
        self.text = text
        self.values = {}
        self.places = {}
        try:
            self._read(decoder)
        except (StopIteration, IndexError):
            raise ValueError("it ends too early")
        except RecursionError:
            raise ValueError("nested too deeply")

    def _read(self, decoder):
        text = self.text
        at = BLANK.match(text).end()
        if text[at] != "{":
            raise ValueError("it is no object")
        at = BLANK.match(text, at + 1).end()
        more = text[at] != "}"
        while more:
            if text[at] != '"':
                raise ValueError("a name is expected")
            name, at = json.decoder.scanstring(text, at + 1, True)
            at = BLANK.match(text, at).end()
            if text[at] != ":":
                raise ValueError("a colon is expected")
            start = BLANK.match(text, at + 1).end()
            value, at = decoder.raw_decode(text, start)
            if name in self.values:
                raise ValueError("a name stands twice in one object")
            self.values[name] = value
            self.places[name] = (start, at)
            at = BLANK.match(text, at).end()
            more = text[at] == ","
            if not more and text[at] != "}":
                raise ValueError("a comma is expected")
            if more:
                at = BLANK.match(text, at + 1).end()
        if BLANK.match(text, at + 1).end() != len(text):
            raise ValueError("something follows the object")

    def get(self, name):
        return self.values.get(name)

    def has(self, name):
        return name in self.values

    def raw(self, name):
        """Returns the bytes of a member as they were received, with one exception. A carriage return between two parts
        becomes a space, because some clients would end the message there."""
        start, end = self.places[name]
        return self.text[start:end].replace("\r", " ").encode("utf-8")


def is_other_value(text):
    """Returns whether the text is JSON, but neither an object nor a list: a string, a number, `true`, `false` or
    `null`."""
    try:
        return not isinstance(STRICT.decode(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def is_id(value):
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def is_sayable(value):
    """Returns whether every client can read the value. If an entry of one server's list cannot be read, a client may
    lose the lists of all servers."""
    layer, depth = [value], 0
    while layer and depth <= MAX_DEPTH:
        layer = [part for each in layer for part in parts(each)]
        depth += 1
    try:
        # Encoding without escapes raises ValueError for a lone surrogate. An escape (`\ud800`) would be valid JSON, but
        # not every reader accepts it.
        return depth <= MAX_DEPTH and len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")) <= MAX_LINE
    except ValueError:
        return False


def parts(value):
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def id_name(value):
    """Returns the same bytes for all spellings of one id. Clients compare ids in the same way: 1.0 equals 1, but "1"
    does not equal 1."""
    return to_json(int(value) if isinstance(value, float) and value.is_integer() else value)


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def error_body(code, message):
    return b'"error":' + to_json({"code": code, "message": message})


def result_body(value):
    return b'"result":' + to_json(value)


def notification(method, params=None):
    told = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        told["params"] = params
    return to_json(told)


def tool_error(text):
    return result_body({"content": [{"type": "text", "text": text}], "isError": True})
