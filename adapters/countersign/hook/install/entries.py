"""The hook's entries in a client's settings, if these are JSON with a list of hooks for each event."""

import os

from ...shared.limits import Refused
from ..place import OUR_NAME
from .files import copy_of, like, look_up, pretty, put, read_text, settings_of

SECONDS = {"pre": 90, "post": 15, "end": 2}  # for how long a client waits for each command of the hook


def command_words(place, python, client, command):
    words = [python, "-I", "-S", place.hook, command, "--dialect", client]
    if command == "pre":
        words += ["--timeout", str(SECONDS["pre"])]
    return words + ["--config", place.config]


def line_of(words, blocking):
    """Returns the command line for the system's own shell."""
    if os.name == "nt":
        import subprocess

        return subprocess.list2cmdline(words)
    return shell_line(words, blocking)


def shell_line(words, blocking):
    """Returns a command line for /bin/sh. If `blocking` is true, every failure ends with exit code 2, even if Python is
    missing. Clients would run the call after any other exit code."""
    import shlex

    line = " ".join(shlex.quote(word) for word in words)
    if not blocking:
        return line
    # These are words of the shell itself: no exported function and no program on the PATH can replace them.
    check = 'rc=$?; case $rc in 0) exit 0;; 2) ;; *) echo "policy hook failed (rc=$rc); call refused" >&2;; esac; exit 2'
    return "/bin/sh -c " + shlex.quote(line + "; " + check)


def powershell_line(words, blocking):
    line = "& " + " ".join("'" + word.replace("'", "''") + "'" for word in words)
    return line + ("; if ($LASTEXITCODE -ne 0) { exit 2 }" if blocking else "")


def is_ours(entry):
    import json

    return OUR_NAME in json.dumps(entry)


def without_our_commands(entry):
    """Returns an event's entry without our hooks; None if nothing is left. Other people may have added hooks to the
    entry."""
    if not is_ours(entry):
        return entry
    several = entry.get("hooks") if isinstance(entry, dict) else None
    left = [each for each in several if not is_ours(each)] if isinstance(several, list) else []
    return dict(entry, hooks=left) if left else None


def without_entries(settings):
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return dict(settings)
    kept = {}
    for event, entries in hooks.items():
        left = entries
        if isinstance(entries, list):
            left = [each for each in map(without_our_commands, entries) if each is not None]
        if left or not entries:
            kept[event] = left
    found = {key: value for key, value in settings.items() if key != "hooks" or kept}
    if kept:
        found["hooks"] = kept
    return found


def with_entries(settings, ours):
    found, hooks = dict(settings), dict(settings.get("hooks", {}))
    for event, entry in ours.items():
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            raise Refused("`hooks.%s` is not a list: correct it first" % event)
        hooks[event] = entries + [entry]
    if hooks:
        found["hooks"] = hooks
    return found


def json_with_hook(client, place, python, part, text, path):
    settings = settings_of(text, path)
    found, options = client.without_entries(settings), client.options(place, part, settings)
    for steps, value in options.items():
        found = put(found, steps, value)
    found = client.with_entries(place, python, part, settings, found)
    noted = [[list(steps), look_up(settings, steps), value] for steps, value in options.items()]
    return text if found == settings else like(pretty(found), text), noted


def json_without_hook(client, path, text, noted):
    settings = settings_of(text, path)
    found = client.without_entries(settings)
    for steps, before, ours in noted.get("options", []):
        if look_up(found, steps) == ours:
            found = put(found, steps, before)
    if noted.get("created") and not found:
        return None
    return text if found == settings else as_it_was(client, path, found) or like(pretty(found), text)


def as_it_was(client, path, settings):
    """Returns the text from before `install` if its settings equal these settings; otherwise None. Our hooks in that
    text do not count."""
    kept = read_text(copy_of(path))
    try:
        return kept if kept is not None and client.without_entries(settings_of(kept, path)) == settings else None
    except (Refused, ValueError):
        return None
