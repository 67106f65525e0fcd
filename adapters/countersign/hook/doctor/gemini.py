"""The tests of `doctor` for Gemini CLI."""

import os

from ...shared.json import parse_json
from ...shared.limits import Refused
from ..clients.gemini import STOPPING_VARIABLES, fixed_path, gemini_home, hooks_in
from ..install.entries import is_ours
from ..install.files import look_up, read_text
from ..place import Place
from .checks import Checks
from .environment import stopping_variables
from .projects import settings_or_none


class GeminiChecks(Checks):
    open_ways = (
        "a copy of the hook in a user's settings, or `GEMINI_CLI_SYSTEM_SETTINGS_PATH` in the environment, replaces the managed one",
        "a trusted repository's MCP servers start programs, and no hook is asked: name at least one server as `mcp.allowed` in the managed "
        "settings, and define each of these servers there. An empty list allows every server",
        'a trusted repository\'s `tools.discoveryCommand` starts a program, and no hook is asked: set it to "" in the managed settings',
    )
    project_files = (".gemini/settings.json",)
    switch, off = ("hooksConfig", "enabled"), False
    starts_managed_hook_by_shell = False

    def settings(self, place, path, settings, ours, findings):
        if ours:
            self.switched_off(place, path, settings, ours, findings)
            self.around(place, settings, findings)

    def started(self, line, managed):
        import shutil

        known = dict(os.environ)
        if managed:
            known = {name: value for name, value in known.items() if name not in STOPPING_VARIABLES}
            known.update(fixed_path(Place(True)).get("env", {}))
        return [shutil.which("bash", path=known.get("PATH")) or "bash", "-c", line], known

    def stopping_names(self, managed):
        # With managed settings, Gemini CLI removes these variables from the environment of hooks.
        return () if managed else Checks.stopping_names(self, managed)

    def around_user(self, findings):
        Checks.around_user(self, findings)
        for path in extension_hooks():
            told = "an extension's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)

    def switched_off(self, place, path, settings, ours, findings):
        """Reports settings in the hook's file with which others can switch the hook off."""
        again = " in %s: run `install` again" % path
        if not place.managed and look_up(settings, ("hooksConfig", "enabled")) is not True:
            findings.fail("`hooksConfig.enabled` is not true" + again)
        if place.managed:
            for steps, wanted in self.client.options(place, self.client.name, settings).items():
                if look_up(settings, steps) != wanted:
                    findings.fail("`%s` lets users switch the hook off%s" % (".".join(steps), again))
        if any(entry.get("sequential") is not True for entry in ours):
            findings.fail("`sequential` is not true, so a project's hook can change a call after it was judged," + again)
        if "GEMINI_CLI_SYSTEM_SETTINGS_PATH" in os.environ and place.managed:
            findings.fail("`GEMINI_CLI_SYSTEM_SETTINGS_PATH` replaces the managed settings: remove it from the environment")

    def around(self, place, hook_settings, findings):
        """Reports settings that switch the hook off or get around it. Checks the user's files and this folder's files."""
        names = {one.get("name") for one in hooks_in(hook_settings) if is_ours(one)}
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
            if not is_own and isinstance(settings, dict) and any(one.get("name") in names for one in hooks_in(settings)):
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


def extension_hooks():
    """Returns the files of Gemini CLI's extensions that have hooks for `BeforeTool`."""
    folder, found = os.path.join(gemini_home(), ".gemini", "extensions"), []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    for name in names:
        path = os.path.join(folder, name, "hooks", "hooks.json")
        if look_up(settings_or_none(path), ("hooks", "BeforeTool")):
            found.append(path)
    return found
