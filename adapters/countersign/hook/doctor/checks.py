"""The tests of `doctor` for one client: its settings, and the ways around the hook."""

import os

from ...shared.json import parse_json
from ...shared.limits import Refused
from ...shared.text import plain
from ..install.entries import SECONDS, is_ours
from ..install.files import look_up, read_settings, read_text
from .environment import LIBRARY_PATHS, LOADER_VARIABLES, SHELL_ENVIRONMENT, run_line


class Checks:
    """The tests for a client whose settings have Claude Code's form. Modules beside this one change what is different
    for their client."""

    # Known ways around a managed hook. `install` cannot close these ways. Each tested client has some, so `doctor` calls
    # no client protected.
    open_ways = ("nobody has looked for ways around it",)
    # The files with a project's settings, the path of a setting in these files, and the value of this setting that
    # switches hooks off.
    project_files = ()
    switch, off = (), None
    starts_managed_hook_by_shell = True
    untried = "its version"  # what cannot be tried without the client's program

    def __init__(self, client):
        self.client = client

    def entries(self, place, findings):
        """Returns our `pre` commands in the client's settings. Each command is a list of words or one line. Reports
        settings that switch the hook off."""
        try:
            return self.read_entries(place, findings)
        except (Refused, ValueError) as error:
            findings.fail(str(error))
            return []

    def read_entries(self, place, findings):
        path = self.client.settings_file(place)
        settings = read_settings(path)
        first = self.client.events[0][0]
        entries = settings.get("hooks", {}).get(first, [])
        ours = [entry for entry in entries if isinstance(entry, dict) and is_ours(entry)] if isinstance(entries, list) else []
        self.settings(place, path, settings, ours, findings)
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
            if limit != SECONDS["pre"] * self.client.time_unit:
                findings.fail("the time-out of %s in %s differs from the one that the hook got: run `install` again" % (first, path))
            self.entry(one, path, findings)
        return found

    def settings(self, place, path, settings, ours, findings):
        """Reports settings with which others can switch the hook off. `ours` are our entries of the first event."""
        if ours and settings.get("disableAllHooks") is True:
            findings.fail("`disableAllHooks` in %s switches the hook off: remove it" % path)

    def entry(self, one, path, findings):
        """Reports what is wrong in an entry, beside the members that all clients have."""

    def try_entries(self, place, entries, findings):
        """Tests whether the installed command line blocks an event that it cannot read."""
        if len(entries) > 1:
            findings.fail("%s asks %d times for each call: run `install` again" % (self.client.name, len(entries)))
        for line in entries:
            started = (line, None) if isinstance(line, list) or os.name == "nt" else self.started(line, place.managed)
            code, out, err = run_line(*started, event=b"nonsense")
            if code == 2 and err.strip() and is_json(out):
                findings.ok("%s: the installed command blocks an event that it cannot read" % self.client.name)
            else:
                told = "%s: the installed command does not block (exit code %s): run `install` again"
                findings.fail(told % (self.client.name, code))

    def started(self, line, managed):
        """Returns how the client starts this command line: the words, and the environment of the hook. The environment
        is None if it is that of this process."""
        return ["/bin/sh", "-c", line], None

    def try_trust(self, place, entries, findings):
        """Tests whether the client runs the installed hook, if it does not run every hook."""

    def environment(self, managed, findings):
        """Fails if an environment variable can keep the hook from running. A client that is started here passes this
        environment on to the hook."""
        names = self.stopping_names(managed)
        for name in sorted(os.environ):
            if not name.upper().startswith(names) or not os.environ[name]:
                continue
            if name in LIBRARY_PATHS:
                findings.enforced = False
                findings.note("`%s` is set here: libraries in its folders can keep a hook from running" % name)
            else:
                findings.fail("`%s` in the environment can keep the hook from running: remove it" % plain(name, 100))

    def stopping_names(self, managed):
        """Returns how the names of variables begin that reach the hook, or the shell that starts it."""
        by_shell = not managed or self.starts_managed_hook_by_shell
        return LOADER_VARIABLES + SHELL_ENVIRONMENT if by_shell else LOADER_VARIABLES

    def around_managed(self, findings):
        """Prints how a user or a repository can still get around a managed hook. If there is such a way, the verdict is
        at most `works`, and not `protected`."""
        for way in self.ways():
            findings.enforced = False
            findings.note("%s: what still gets around the managed hook: %s" % (self.client.name, way))

    def ways(self):
        return self.open_ways

    def around_user(self, findings):
        """Reports that a user's own hook can be switched off. Fails if the project's settings switch it off, or if
        something in the project can get around it."""
        findings.enforced = False
        findings.note(
            "%s: everybody who can write the user's or the project's files can switch a user's installation off, "
            "also an agent; `install --managed` prevents this" % self.client.name
        )
        for path in [os.path.join(folder, *name.split("/")) for folder in self.folders() for name in self.project_files]:
            try:
                settings = parse_json((read_text(path) or "{}").lstrip("\ufeff"))
            except (Refused, ValueError):
                findings.doubt("`%s` cannot be read: check that it does not switch hooks off" % path)
                continue
            if look_up(settings, self.switch) is self.off:
                told = "`%s` in %s switches the hook off in this folder: remove it, or install --managed"
                findings.fail(told % (".".join(self.switch), path))

    def folders(self):
        """Returns the folders in which the client looks for a project's settings."""
        return [os.getcwd()]


def is_json(text):
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False
