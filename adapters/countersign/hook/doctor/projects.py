"""Finds files that can get around a user's hook: in the project, in the folders above, and in plugins."""

import os

from ...shared.json import parse_json
from ...shared.limits import Refused
from ..install.files import look_up, read_text


def folders_up():
    """Returns this folder and the folders above it, up to the root of the repository. Without a repository, up to the
    root of the disk."""
    found, at = [], os.getcwd()
    while True:
        found.append(at)
        above = os.path.dirname(at)
        if above == at or os.path.lexists(os.path.join(at, ".git")):
            return found
        at = above


def project_folders():
    """Returns the folders in which Claude Code looks for skills, commands and agents of a project. The user's home is
    left out, because the skills, commands and agents there belong to the user."""
    home = os.path.realpath(os.path.expanduser("~"))
    return [folder for folder in folders_up() if os.path.realpath(folder) != home]


def texts_of(folder, kinds):
    """Returns the texts of a project's skills, slash commands or agents: [(path, text)]. A file that cannot be read
    counts as a text with hooks and shell commands."""
    found = []
    for kind in kinds:
        for path in sorted(texts_below(os.path.join(folder, ".claude", kind))):
            try:
                found.append((path, read_text(path) or ""))
            except Refused:
                found.append((path, "---\nhooks:\n---\n!`"))  # the client may be able to read it
    return found


def skills_with_commands():
    """Returns the skills and slash commands of a project that have a shell command in their text."""
    texts = [each for folder in project_folders() for each in texts_of(folder, ("skills", "commands"))]
    return [path for path, text in texts if "!`" in text or "```!" in text]


def texts_with_hooks():
    """Returns the skills, slash commands and agents of a project that have hooks of their own."""
    texts = [each for folder in project_folders() for each in texts_of(folder, ("skills", "commands", "agents"))]
    return [path for path, text in texts if has_hooks(text)]


def has_hooks(text):
    """Returns whether the head of a text (between two lines `---`) names hooks."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return False
    head = lines[1:]
    ends = [at for at, line in enumerate(head) if line.strip() == "---"]
    return any(line.strip("\"' ").startswith("hooks") for line in (head[: ends[0]] if ends else head))


# The files in which a plugin names its hooks.
PLUGIN_FILES = ("hooks.json", "plugin.json")


def plugin_hooks(folder, names, event):
    """Returns the files with hooks for the event, below a folder of plugins. Also returns files that cannot be read.
    `names` are the plugins that are switched on; None means all plugins."""
    found = []
    for at, _, files in os.walk(folder):
        parts = at[len(folder) :].split(os.sep)
        if names is not None and not any(name in parts for name in names):
            continue
        for path in [os.path.join(at, name) for name in PLUGIN_FILES if name in files]:
            settings = settings_or_none(path)
            if settings is None or any(look_up(settings, ("hooks", name)) for name in (event, event[0].upper() + event[1:])):
                found.append(path)
    return sorted(found)


def enabled_plugins(files):
    """Returns the names of the plugins that these settings switch on."""
    known = [look_up(settings_or_none(path), ("enabledPlugins",)) for path in files]
    return {name.partition("@")[0] for each in known if isinstance(each, dict) for name, on in each.items() if on}


def settings_or_none(path):
    """Returns a client's settings; None if the settings cannot be read."""
    try:
        return parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}")
    except (Refused, ValueError):
        return None


def texts_below(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".md")]
