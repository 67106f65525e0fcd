"""Texts, and writing to a descriptor."""

import os
import time


def plain(text, longest):
    """Returns the text as one line without control characters, cut to `longest` characters. Other people write rule
    names and comments, so their text is not trusted."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """Returns the value of the first of these fields that has a non-empty text. Returns None if there is no such
    field."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def write_all(descriptor, data):
    """Writes bytes. Returns False if there is no descriptor, or if the other side has closed the descriptor."""
    if descriptor is None:
        return False
    view = memoryview(data)
    while len(view):
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False
    return True


def token(name):
    """Returns a name in the form that Claude Code uses for names of servers and tools. Only ASCII letters, digits, `_`
    and `-` stay, and other characters become `_`. Example: `my server` becomes `my_server`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
