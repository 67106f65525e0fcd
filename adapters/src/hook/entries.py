# The hook's entries in a client's settings.

def command_words(place, python, client, command):
    words = [python, "-I", "-S", place.hook, command, "--dialect", client]
    if command == "pre":
        words += ["--timeout", str(SECONDS["pre"])]
    return words + ["--config", place.config]


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


def hook_entry(place, python, client, event, command):
    """Returns the entry of one event in a client's settings, with the options that block the call if the hook fails."""
    words, blocking, limit = command_words(place, python, client, command), command == "pre", SECONDS[command]
    if os.name == "nt":
        import subprocess

        line = subprocess.list2cmdline(words)
    else:
        line = shell_line(words, blocking)
    if client == "copilot":
        if place.managed and os.name != "nt":
            # The hook starts without a shell, because variables such as BASH_ENV could keep a shell from running it. If
            # the program does not start, Copilot CLI blocks the call.
            return {"type": "command", "exec": words[0], "args": words[1:], "timeoutSec": limit}
        powershell = powershell_line(words, blocking)
        return {"type": "command", "bash": shell_line(words, blocking), "powershell": powershell, "timeoutSec": limit}
    if client == "cursor":
        return dict({"command": line, "timeout": limit}, **({"failClosed": True} if blocking else {}))
    one = {"type": "command", "command": line, "timeout": limit * 1000 if client == "gemini" else limit}
    if client == "gemini":
        one.update(gemini_path(place))
    if client == "claude" and (os.name == "nt" or place.managed):
        # The hook starts without a shell, because a variable such as SHELLOPTS could keep a shell from running it. This
        # is safe from version CLAUDE_MINIMUM on, where `onFailure` blocks a call if the hook does not start. On other
        # systems than Windows, a user's settings do not get `args`, because clients that do not know `args` also read
        # these settings.
        one.update({"command": words[0], "args": words[1:]})
    if client == "claude" and blocking:
        one["onFailure"] = "block"
    # With `sequential`, Gemini CLI runs the hooks one after the other. Our hook then sees the changes that earlier
    # hooks have made to the call.
    return dict({"matcher": "*", "hooks": [one]}, **({"sequential": True} if client == "gemini" else {}))


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


def without_ours(settings):
    """Returns settings without our hooks. Removes only our entries, and the lists and tables that are then empty."""
    settings = without_plugin(settings)
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


def options_of(place, client, settings):
    """Returns the options that the settings need: {path: value}. Most of them keep others from switching the hooks
    off."""
    if client == "claude" and place.managed:
        asked = settings.get("requiredMinimumVersion")
        newer = isinstance(asked, str) and version_of(asked) > version_of(CLAUDE_MINIMUM)
        return {
            ("requiredMinimumVersion",): asked if newer else CLAUDE_MINIMUM,
            ("allowManagedHooksOnly",): True,
            # A skill's own shell commands run before the model reads the skill, and no hook is asked about them.
            ("disableSkillShellExecution",): True,
        }
    if client == "gemini":
        return gemini_options(place, settings)
    if client == "opencode":
        # If `$schema` is missing, opencode writes it into its settings. This would change our file.
        schema = settings.get("$schema", "https://opencode.ai/config.json")
        return {("$schema",): schema, ("enabled_providers",): [NO_PROVIDER]}
    if client == COPILOT_POLICY:
        return {("allowManagedHooksOnly",): True}
    if client in ("copilot", "cursor"):
        return {("version",): settings.get("version", 1)}
    return {}


def look_up(settings, path):
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def put(settings, path, value):
    """Returns a copy of the settings with the value at the path. The value None removes the entry. Tables that become
    empty are removed too."""
    found = dict(settings)
    if len(path) > 1:
        below = put(settings.get(path[0]) or {}, path[1:], value)
        value = below if below else None
    if value is None:
        found.pop(path[0], None)
    else:
        found[path[0]] = value
    return found


def with_ours(place, python, client, settings):
    """Returns settings with our hooks. For each event, our hook comes after the existing hooks."""
    found = without_ours(settings)
    for path, value in options_of(place, client, settings).items():
        found = put(found, path, value)
    if client == "opencode":
        return with_plugin(place, settings, found)
    hooks = dict(found.get("hooks", {}))
    name = gemini_name(settings)
    for event, command in EVENTS.get(client, ()):
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            raise Refused("`hooks.%s` is not a list: correct it first" % event)
        ours = hook_entry(place, python, client, event, command)
        if client == "gemini":
            ours["hooks"][0]["name"] = name
        hooks[event] = entries + [ours]
    if hooks:
        found["hooks"] = hooks
    return found
