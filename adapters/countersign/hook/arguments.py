"""Adds arguments under the names that rules use."""

import os

from ..shared.limits import Refused
from ..shared.settings import home
from ..shared.text import plain

# Other names that clients use for an argument: {tool: {name in rules: other names}}. The hook adds the argument under
# the name in rules, and keeps the client's own argument. Example: for `Bash`, the value of `cmd` is added as `command`.
ARGUMENT_NAMES = {
    "Bash": {"command": ("cmd", "script")},
    "PowerShell": {"command": ("cmd", "script")},
    "Read": {"file_path": ("path", "filePath", "absolute_path", "target_file", "paths", "include")},
    "Write": {"file_path": ("path", "filePath", "target_file"), "content": ("file_text", "contents")},
    "Edit": {
        "file_path": ("path", "filePath", "target_file"),
        "old_string": ("old_str", "oldString"),
        "new_string": ("new_str", "newString"),
    },
    "MultiEdit": {"file_path": ("path", "filePath", "target_file")},
    "NotebookEdit": {"notebook_path": ("file_path", "path", "filePath", "target_notebook")},
    "Glob": {"path": ("paths", "dir_path", "target_directory")},
    "Grep": {"path": ("paths", "dir_path", "target_directory")},
    "LS": {"path": ("paths", "dir_path", "target_directory")},
    "WebFetch": {"url": ("urls", "uri")},
}

# For each tool: the argument whose value is the path of a file or folder.
PATH_NAMES = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookRead": "notebook_path",
    "NotebookEdit": "notebook_path",
    "Glob": "path",
    "Grep": "path",
    "LS": "path",
}


def canonical_arguments(client, tool, arguments, cwd):
    """Returns the client's arguments, and adds arguments under the names that rules use. These are Claude Code's names.
    If the client gives an argument under several names, the added argument has all these values, because the hook
    cannot know which one the client uses. For a path, the absolute path is added too."""
    names = dict(ARGUMENT_NAMES.get(tool, {})) if client.has_own_argument_names else {}
    path = PATH_NAMES.get(tool)
    if path is not None:
        names.setdefault(path, ())
    found = dict(arguments)
    for wanted, others in names.items():
        given = [arguments[key] for key in (wanted,) + others if arguments.get(key) is not None]
        if wanted == "command":
            given = commands(arguments, (wanted,) + others)
        if wanted == "file_path" and tool == "Edit":
            for key in ("command", "input", "patch", "patchText"):
                given += patched_files(arguments.get(key), cwd)
            given += replaced_files(arguments.get("replacements"))
        if wanted == "url":
            given += addresses(arguments.get("prompt"))
        if wanted == path:
            given += [form for value in single(given) for form in plain_forms(value, cwd)]
        add(found, wanted, given)
    return found


def add(arguments, name, given):
    """Adds an argument. A single value is added unchanged. Several values, or values from a list, become an object:
    {"1": ..., "2": ...}. They do not become a list, because in a list `contains` compares whole elements."""
    each = single(given)
    if len(each) > 1 or (each and any(isinstance(value, list) for value in given)):
        arguments[name] = {str(at): value for at, value in enumerate(each, 1)}
    elif each:
        arguments[name] = each[0]


def single(given):
    """Returns all values in one flat list: each element of a list becomes a value. A text that occurs several times is
    returned once."""
    rest, each, texts = list(reversed(given)), [], set()
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(reversed(value))
        elif value is not None and not (isinstance(value, str) and value in texts):
            each.append(value)
            if isinstance(value, str):
                texts.add(value)
    return each


def commands(arguments, names):
    """Returns the command as text, once for each name that has it. A list of words becomes one text. Refuses two
    different commands, because the hook cannot know which one runs."""
    given = [(name, as_command(arguments[name])) for name in names if arguments.get(name) is not None]
    for name, text in given[1:]:
        if text != given[0][1]:
            raise Refused("the call has two commands: leave out `%s` or `%s`" % (given[0][0], name))
    return [text for _, text in given]


def as_command(given):
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise Refused("the command is neither a text nor a list of words")
    return " ".join(map(quoted, given))


def quoted(word):
    """Quotes a word for a shell. A word without special characters stays unquoted, so that rules match it."""
    if word and all(c.isascii() and (c.isalnum() or c in "_-./:,@%+") for c in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def replaced_files(replacements):
    """Returns the files that VS Code's tool for several replacements changes."""
    each = replacements if isinstance(replacements, list) else []
    return [one["filePath"] for one in each if isinstance(one, dict) and isinstance(one.get("filePath"), str)]


FILE_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
OTHER_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def patched_files(patch, cwd):
    """Returns the files that a patch in Codex's format changes."""
    return [path for _, path in patch_headers(patch, cwd)]


def patch_headers(patch, cwd):
    """Returns the headers of a patch in Codex's format: [(mark, path)]. Codex allows blanks around a header. Refuses a
    line that looks like an unknown header, because another program may accept it as a header."""
    if not isinstance(patch, str):
        return []
    found = []
    for line in patch.split("\n"):
        # Some programs also end a line at other characters than a line feed, e.g. at a form feed. So each part between
        # such characters is checked, because it could be a header.
        parts = line.rstrip("\r").splitlines()
        if not any(looks_like_header(part) for part in parts):
            continue
        header = line.strip()
        mark = next((mark for mark in FILE_MARKS if header.startswith(mark)), None)
        path = header[len(mark) :] if mark is not None else ""
        if mark is not None and path == path.strip() != "" and path.isprintable():
            found.append((mark, collapsed(os.path.join(cwd or "", path))))
        elif len(parts) > 1 or not (header in OTHER_MARKS or header.startswith("*** Environment ID: ")):
            shown = plain(header, 60)
            raise Refused("a line of the patch looks like an unknown header: `%s`; leave it out of the context" % shown)
    if "*** Begin Patch" in patch and not found:
        raise Refused("the patch names no file: write `*** Update File: path`")
    return found


def looks_like_header(line):
    return all(c.isspace() or not c.isprintable() for c in line.partition("***")[0]) and "***" in line


def is_absolute(path):
    return isinstance(path, str) and os.path.isabs(path)


def collapsed(path):
    """Returns a path without `.`, `..` and double slashes. This looks only at the text and not at the disk, as the
    clients do."""
    found = os.path.normpath(path)
    return "/" + found.lstrip("/") if found.startswith("//") else found


def plain_forms(path, cwd):
    """Returns the absolute paths that a client may mean with this path. They are without `.` and `..`."""
    if not isinstance(path, str):
        return []
    places = [os.path.join(cwd or "", path)] if cwd is not None or os.path.isabs(path) else []
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        # Clients replace `~` by HOME. The user's real home may be another folder, so both are added.
        places += [place + path[1:] for place in (os.path.expanduser("~"), home())]
    if path[:5].lower() == "file:":
        from urllib.parse import unquote

        # The path may begin with the name of a machine. So the path is added twice: with its first part, and without
        # it. Example: `file://host/a` becomes `/host/a` and `/a`.
        named = unquote(path[5:]).lstrip("/")
        root = "" if os.name == "nt" else "/"
        places += [root + named, root + named.partition("/")[2]]
    return [collapsed(place) for place in places if os.path.isabs(place)]


def addresses(text):
    """Returns the web addresses in a text. Gemini's web_fetch gets its addresses in the text of its prompt."""
    found = []
    for word in text.split() if isinstance(text, str) else ():
        starts, at = [], word.find("://")
        while at >= 0:
            scheme = word[max(0, at - 5) : at].lower()
            if scheme.endswith(("http", "https")):
                starts.append(at - (5 if scheme == "https" else 4))
            at = word.find("://", at + 1)
        # A word can contain several addresses. The first one goes on to the end of the word, because the others may be
        # in its query. Each other address ends where the next one begins.
        for start, end in zip(starts, [None] + starts[2:] + [None]):
            found.append(word[start:end].rstrip(".,;:!?)]}>\"'"))
    return found
