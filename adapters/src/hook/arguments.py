# Arguments under the names that rules use.

# The clients' other names of arguments that rules use. The rules' names are added, and the client's arguments stay.
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

# The arguments that are paths of files or folders.
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


def canonical_arguments(dialect, tool, arguments, cwd):
    """The client's arguments, plus those that rules use under Claude Code's names. An argument with several names has
    all its values, because the hook cannot know which one the client uses. A path also has its plain form, as the
    client finds it."""
    names = {} if dialect in (None, "claude") else dict(ARGUMENT_NAMES.get(tool, {}))
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
    """One value unchanged; several values as an object. A list would not do: in a list `contains` compares whole
    elements."""
    each = single(given)
    if len(each) > 1 or (each and any(isinstance(value, list) for value in given)):
        arguments[name] = {str(at): value for at, value in enumerate(each, 1)}
    elif each:
        arguments[name] = each[0]


def single(given):
    """The given values, with the elements of lists; each text once."""
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
    """The command as text, also if it is given as a list of words. Refuses two different commands: the hook cannot know
    which one runs."""
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
    """A word quoted for a shell. Plain words stay unquoted, so that rules match them."""
    if word and all(c.isascii() and (c.isalnum() or c in "_-./:,@%+") for c in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def replaced_files(replacements):
    """The files of VS Code's tool for several replacements."""
    each = replacements if isinstance(replacements, list) else []
    return [one["filePath"] for one in each if isinstance(one, dict) and isinstance(one.get("filePath"), str)]


FILE_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
OTHER_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def patched_files(patch, cwd):
    """The files that a patch in Codex's form changes."""
    return [path for _, path in patch_headers(patch, cwd)]


def patch_headers(patch, cwd):
    """The headers of a patch in Codex's form: [(mark, path)]. Codex allows blanks around a header. Refuses a line that
    looks like an unknown header, because another reader may know it."""
    if not isinstance(patch, str):
        return []
    found = []
    for line in patch.split("\n"):
        # Some readers end a line at these characters, and a header could follow.
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


# Codex applies a patch that one of these gets in a shell command, and has both as programs on the PATH.
PATCH_PROGRAMS = ("apply_patch", "applypatch")


def shell_patches(command, cwd):
    """The changes of files that Codex makes itself when a shell command applies a patch: [(tool, arguments)].
    A folder that the command enters first counts beside the client's, because the patch may be read in either."""
    if not isinstance(command, str) or "*** Begin Patch" not in command:
        return []
    commands = Line(command).commands
    if not any(base_name(word) in PATCH_PROGRAMS for simple in commands for word in simple.words):
        return []
    folders = [cwd]
    for simple in commands:
        if simple.words[0] == "cd" and len(simple.words) > 1:
            if any(c in simple.words[-1] for c in "$~*?[{"):
                raise Refused("the folder of the patch cannot be read: write its path in full")
            folders.append(os.path.join(folders[-1] or "", simple.words[-1]))
    headers = [header for folder in folders for header in patch_headers(command, folder)]
    changes = []
    for tool, rest in (("Write", {"content": command}), ("Edit", {"command": command})):
        paths = [path for mark, path in headers if (mark == FILE_MARKS[0]) == (tool == "Write")]
        if paths:
            add(rest, "file_path", paths)
            changes.append((tool, rest))
    return changes


def looks_like_header(line):
    return all(c.isspace() or not c.isprintable() for c in line.partition("***")[0]) and "***" in line


def is_absolute(path):
    return isinstance(path, str) and os.path.isabs(path)


def collapsed(path):
    """A path without `.`, `..` and double slashes. Like the clients, this looks only at the text."""
    found = os.path.normpath(path)
    return "/" + found.lstrip("/") if found.startswith("//") else found


def plain_forms(path, cwd):
    """The absolute paths that a client may read in this one, in plain form."""
    if not isinstance(path, str):
        return []
    places = [os.path.join(cwd or "", path)] if cwd is not None or os.path.isabs(path) else []
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        # Clients use HOME, which may differ from the user's real home.
        places += [place + path[1:] for place in (os.path.expanduser("~"), home())]
    if path[:5].lower() == "file:":
        from urllib.parse import unquote

        # With or without a machine's name before it.
        named = unquote(path[5:]).lstrip("/")
        root = "" if os.name == "nt" else "/"
        places += [root + named, root + named.partition("/")[2]]
    return [collapsed(place) for place in places if os.path.isabs(place)]


def addresses(text):
    """The web addresses in a text. Gemini's web_fetch has them in its prompt."""
    found = []
    for word in text.split() if isinstance(text, str) else ():
        starts, at = [], word.find("://")
        while at >= 0:
            scheme = word[max(0, at - 5) : at].lower()
            if scheme.endswith(("http", "https")):
                starts.append(at - (5 if scheme == "https" else 4))
            at = word.find("://", at + 1)
        # The first address with all following text, which may be its query.
        for start, end in zip(starts, [None] + starts[2:] + [None]):
            found.append(word[start:end].rstrip(".,;:!?)]}>\"'"))
    return found
