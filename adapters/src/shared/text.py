# Texts, and writing to a descriptor.

def plain(text, longest):
    """Returns the text as one line without control characters, cut to a length. Other people write rule names and
    comments, so their text is not trusted."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: longest * 2])
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def text_of(event, *keys):
    """Returns the first of these fields that contains a text."""
    for key in keys:
        if isinstance(event.get(key), str) and event[key] != "":
            return event[key]
    return None


def write_all(descriptor, data):
    """Writes bytes. Returns False if there is no descriptor or the other side has closed it."""
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
    """Returns a name in the form in which Claude Code writes names of servers and tools: other characters become
    `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
