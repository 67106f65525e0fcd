# Texts, and writing to a descriptor.

def plain(text, longest):
    """One line without control characters, cut to a length. Rule names and comments are text of other people."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """The first of these fields that has a text."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def write_all(descriptor, data):
    """Writes bytes. Returns False without a descriptor, and if the other side has closed."""
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
    """A name as Claude Code writes names of servers and tools: other characters become `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
