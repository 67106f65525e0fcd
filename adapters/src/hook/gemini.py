# Gemini CLI: its options, and settings that switch hooks off.

# These variables can keep a shell or the loader of programs from running the hook. Or they make it run another program
# first. Gemini CLI also reads these variables from the `.env` files of projects.
STOPPING_VARIABLES = (
    "BASHOPTS BASH_ENV DYLD_FRAMEWORK_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH ENV GLIBC_TUNABLES LD_AUDIT "
    "LD_BIND_NOW LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_VERBOSE LD_WARN "
    "SHELLOPTS"
).split()
REDACTION = ("security", "environmentVariableRedaction")


def gemini_options(place, settings):
    """Returns our options: {path: value}. In a managed file, `hooksConfig` is a list and not an object. So Gemini CLI
    ignores the `hooksConfig` of users and projects. They cannot use its members `enabled` and `disabled`
    (docs/decisions/0159)."""
    if not place.managed:
        return {("hooksConfig", "enabled"): True}
    blocked, allowed = (look_up(settings, REDACTION + (name,)) for name in ("blocked", "allowed"))
    blocked = blocked if isinstance(blocked, list) else []
    return {
        ("hooksConfig",): [],
        REDACTION + ("enabled",): True,
        REDACTION + ("allowed",): allowed if isinstance(allowed, list) else [],
        REDACTION + ("blocked",): blocked + [name for name in STOPPING_VARIABLES if name not in blocked],
    }


def gemini_name(settings):
    """Returns the name of the installed hook, or a new random name. A repository that could guess the name could switch
    the hook off."""
    found = [one.get("name") for one in gemini_hooks(settings) if is_ours(one)]
    if found and isinstance(found[0], str) and found[0].startswith("countersign-"):
        return found[0]
    from binascii import hexlify

    return "countersign-" + hexlify(os.urandom(8)).decode("ascii")


def gemini_hooks(settings):
    """Returns each hook of all events."""
    hooks = settings.get("hooks")
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            for one in inner if isinstance(inner, list) else ():
                if isinstance(one, dict):
                    yield one


def gemini_path(place):
    """Returns the environment of a managed hook, with a fixed PATH. Gemini CLI looks for `bash` in the PATH, and a
    user's own PATH could lead to another `bash`."""
    folders = [folder for folder in ("/usr/bin", "/bin") if os.path.exists(place.at(folder + "/bash"))]
    return {"env": {"PATH": ":".join(folders)}} if place.managed and folders else {}


def gemini_switched_off(place, path, settings, ours, findings):
    """Reports settings in the hook's file with which others can switch the hook off."""
    again = " in %s: run `install` again" % path
    if not place.managed and look_up(settings, ("hooksConfig", "enabled")) is not True:
        findings.fail("`hooksConfig.enabled` is not true" + again)
    if place.managed:
        for steps, wanted in gemini_options(place, settings).items():
            if look_up(settings, steps) != wanted:
                findings.fail("`%s` lets users switch the hook off%s" % (".".join(steps), again))
    if any(entry.get("sequential") is not True for entry in ours):
        findings.fail("`sequential` is not true, so a project's hook can change a call after it was judged," + again)
    if "GEMINI_CLI_SYSTEM_SETTINGS_PATH" in os.environ and place.managed:
        findings.fail("`GEMINI_CLI_SYSTEM_SETTINGS_PATH` replaces the managed settings: remove it from the environment")


def gemini_around(place, hook_settings, findings):
    """Reports settings that switch the hook off or get around it. Checks the user's files and this folder's files."""
    names = {one.get("name") for one in gemini_hooks(hook_settings) if is_ours(one)}
    home, here = gemini_home(), os.getcwd()
    for folder in dict.fromkeys((home, here)):
        path = os.path.join(folder, ".gemini", "settings.json")
        try:
            settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that it does not switch hooks off" % path)
            continue
        off = look_up(settings, ("hooksConfig", "disabled"))
        if not place.managed and isinstance(off, list) and any(one in names for one in off):
            findings.fail("`hooksConfig.disabled` in %s switches the hook off: remove its name there" % path)
        if not place.managed and folder != home and look_up(settings, ("hooks", "BeforeTool")):
            told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
        is_own = not place.managed and folder == home
        if not is_own and isinstance(settings, dict) and any(one.get("name") in names for one in gemini_hooks(settings)):
            findings.fail("%s has a copy of the hook, which Gemini CLI runs in place of the installed one: remove it" % path)
    if not place.managed:
        dangerous_variables(here, findings)


def dangerous_variables(folder, findings):
    """Fails if a `.env` file that Gemini CLI may read has dangerous variables. Gemini CLI may read such a file in this
    folder, in the folders above it, and in the user's home."""
    folders = [folder]
    while os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    for folder in dict.fromkeys(folders + [gemini_home()]):
        for name in (os.path.join(".gemini", ".env"), ".env"):
            path = os.path.join(folder, name)
            for variable in stopping_variables(path, ["GEMINI_CLI_HOME"]):
                does = "names a home with other extensions" if variable == "GEMINI_CLI_HOME" else "keeps the hook from running"
                findings.fail("`%s` in %s %s: remove it, or install --managed" % (variable, path, does))


def stopping_variables(path, more=()):
    """Returns the variables of a `.env` file that keep a hook from running, or that are in `more`. A line has the form
    `NAME=value` or `NAME: value`."""
    import re

    try:
        lines = (read_text(path) or "").splitlines()
    except Refused:
        lines = []
    named = [re.match(r"\s*(?:export\s+)?([\w.-]+)\s*[=:]", line) for line in lines]
    return sorted({match.group(1) for match in named if match} & {*STOPPING_VARIABLES, *more})
