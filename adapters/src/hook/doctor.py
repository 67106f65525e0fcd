# The command `doctor`: checks of the settings.

class Findings:
    """Prints the findings line by line, and then gives the verdict."""

    def __init__(self):
        self.failed = False
        self.unproven = False
        self.untried = False
        self.enforced = True  # users cannot change the settings

    def ok(self, text):
        print("ok    " + text)

    def note(self, text):
        print("note  " + text)

    def doubt(self, text):
        """Reports that something could not be tested here. The calls may be protected or not."""
        self.unproven = True
        print("??    " + text)

    def not_tried(self, text):
        """Reports that the client is not installed yet, so that it could not be tested."""
        self.untried = True
        print("??    " + text)

    def fail(self, text):
        self.failed = True
        print("FAIL  " + text)

    def verdict(self):
        if self.failed:
            return "NOT protected"
        if self.unproven:
            return "not proven: see to the lines with ??"
        if self.untried:
            return "not tried: see to the lines with ??"
        return "protected" if self.enforced else "works"


def doctor(words):
    """Tests on this machine that the hook blocks denied calls, and calls that cannot be checked. Returns 1 if a call
    would run, or if something could not be tested."""
    about = "Tests on this machine that denied calls are blocked. Run it in the agent's folder, because a project's settings count too."
    options = arguments(words, "doctor", about)
    findings = Findings()
    if sys.version_info < (3, 8):
        findings.fail("this is Python %d.%d; 3.8 or newer is needed" % sys.version_info[:2])
        return 1
    chosen = "copilot" if options.dialect == "vscode" else options.dialect
    places = [Place(True)] if options.managed else [Place(True), Place(False)]
    how = "install --managed" if options.managed else "install"
    installed = []
    for client in [chosen] if chosen else sorted(EVENTS):
        found = [(place, entries) for place in places for entries in [entries_of(place, client, findings)] if entries]
        installed += [(client, place) for place, _ in found]
        for place, entries in found:
            try_entries(client, place, entries, findings)
            if client == "codex":
                try_trust(entries, place.managed, findings)
        if found:
            try_version(client, findings)
            managed = any(place.managed for place, _ in found)
            settings_environment(client, managed, findings)
            own_environment(client, managed, findings)
            if client == "codex":
                codex_variables(findings)
            if managed:
                by_its_client(client, findings)
            else:
                by_its_user(client, findings)
                by_its_project(client, findings)
        elif chosen:
            findings.fail("%s does not ask: run `%s --dialect %s`" % (client, how, client))
    if not installed and not chosen:
        findings.fail("no client asks: run `%s --dialect ...`" % how)
    configs = sorted({place.config for _, place in installed})
    if not installed and "SERVICE_API_URL" in os.environ:
        configs = [None]
    for config in [options.config] if options.config else configs:
        try_service(config, findings)
    print(findings.verdict())
    return 1 if findings.failed or findings.unproven else 0


def entries_of(place, client, findings):
    """Returns our `pre` commands in a client's settings. Each command is a list of words or one line. Reports settings
    that switch the hook off."""
    try:
        if client == "opencode":
            return opencode_entries(place, findings)
        path = place.settings_file(client)
        if path.endswith(".toml"):
            return codex_entries(place, path, findings)
        settings = read_settings(path)
    except (Refused, ValueError) as error:
        findings.fail(str(error))
        return []
    first = EVENTS[client][0][0]
    entries = settings.get("hooks", {}).get(first, [])
    ours = [entry for entry in entries if isinstance(entry, dict) and is_ours(entry)] if isinstance(entries, list) else []
    if client == "claude":
        switched_off(place, path, settings, ours, findings)
    if ours and client == "gemini":
        gemini_switched_off(place, path, settings, ours, findings)
        gemini_around(place, settings, findings)
    if ours and client == "copilot":
        copilot_around(place, findings)
    if ours and client in ("copilot", "codex", "cursor") and settings.get("disableAllHooks") is True:
        findings.fail("`disableAllHooks` in %s switches the hook off: remove it" % path)
    found = []
    for entry in ours:
        inner = [one for one in entry["hooks"] if is_ours(one)] if isinstance(entry.get("hooks"), list) else [entry]
        one = inner[0] if inner and isinstance(inner[0], dict) else {}
        line = one.get("exec") or one.get("bash") or one.get("command")
        if not isinstance(line, str):
            findings.fail("the command of %s in %s cannot be read: run `install` again" % (first, path))
            continue
        found.append([line] + one["args"] if "args" in one else line)
        limit = one.get("timeoutSec") or one.get("timeout")
        if entry.get("matcher", "*") not in ("*", ""):
            findings.fail("`matcher` of %s in %s leaves tools out: run `install` again" % (first, path))
        if one.get("async") or one.get("asyncRewake") or one.get("if") or one.get("type", "command") != "command":
            findings.fail("%s in %s does not wait for the hook's answer: run `install` again" % (first, path))
        if limit != SECONDS["pre"] * (1000 if client == "gemini" else 1):
            findings.fail("the time-out of %s in %s differs from the one that the hook got: run `install` again" % (first, path))
        if client == "claude" and one.get("onFailure") != "block":
            findings.fail("`onFailure` is not `block` in %s: run `install` again" % path)
        if client == "cursor" and one.get("failClosed") is not True:
            findings.fail("`failClosed` is not true in %s: run `install` again" % path)
    return found


def switched_off(place, path, settings, ours, findings):
    """Reports settings with which others can switch Claude Code's hook off. Checks the file with the hook, and the
    files beside a managed file."""
    if not place.managed:
        if ours and settings.get("disableAllHooks") is True:
            findings.fail("`disableAllHooks` switches the hook off: remove it, or install --managed")
        return
    if not ours:
        if settings.get("allowManagedHooksOnly") is True:
            findings.fail("managed settings allow only managed hooks, and this hook is not one of them: install --managed")
        return
    for (name,), wanted in options_of(place, "claude", settings).items():
        if settings.get(name) != wanted:
            told = "`%s` is not %s in %s, so users and repositories can get around the hook: run `install` again"
            findings.fail(told % (name, to_json(wanted).decode("utf-8"), path))
    for more in fragments(path):
        own = settings_or_none(more)
        for (name,), wanted in options_of(place, "claude", settings).items():
            if own is None or own.get(name, wanted) != wanted:
                findings.fail("%s changes `%s` of the managed settings: remove it there" % (more, name))


def fragments(path):
    """Returns the files that Claude Code merges with its managed settings."""
    folder = os.path.splitext(path)[0] + ".d"
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


# For each client: the files with a project's settings, the path of a setting in these files, and the value of this
# setting that switches hooks off.
PROJECT_FILES = {
    "claude": ((".claude/settings.json", ".claude/settings.local.json"), ("disableAllHooks",), True),
    "gemini": ((".gemini/settings.json",), ("hooksConfig", "enabled"), False),
    "copilot": (
        (
            ".github/copilot/settings.json",
            ".github/copilot/settings.local.json",
            ".claude/settings.json",
            ".claude/settings.local.json",
        ),
        ("disableAllHooks",),
        True,
    ),
}


def by_its_user(client, findings):
    """Reports that a user's own hook can be switched off. Fails if the project's settings switch it off."""
    findings.enforced = False
    findings.note(
        "%s: everybody who can write the user's or the project's files can switch a user's installation off, "
        "also an agent; `install --managed` prevents this" % client
    )
    names, steps, off = PROJECT_FILES.get(client, ((), (), None))
    # Copilot CLI also reads the settings in the root of the repository.
    folders = folders_up() if client == "copilot" else [os.getcwd()]
    for path in [os.path.join(folder, *name.split("/")) for folder in folders for name in names]:
        try:
            settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that it does not switch hooks off" % path)
            continue
        if look_up(settings, steps) is off:
            told = "`%s` in %s switches the hook off in this folder: remove it, or install --managed"
            findings.fail(told % (".".join(steps), path))


def try_entries(client, place, entries, findings):
    """Tests whether the installed command line blocks an event that it cannot read."""
    if len(entries) > 1:
        findings.fail("%s asks %d times for each call: run `install` again" % (client, len(entries)))
    for line in entries:
        code, out, err = run_line(*as_started(client, line, place.managed), event=b"nonsense")
        if code == 2 and err.strip() and is_json(out):
            findings.ok("%s: the installed command blocks an event that it cannot read" % client)
        else:
            findings.fail("%s: the installed command does not block (exit code %s): run `install` again" % (client, code))


def is_json(text):
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False
