"""The tests of `doctor` for opencode."""

import os

from ...shared.json import parse_json
from ...shared.text import plain
from ..clients.opencode import NO_PROVIDER, PLUGIN_PART
from ..install.entries import is_ours
from ..install.files import look_up, read_settings, read_text
from ..install.opencode_plugin import PLUGIN_MARK, plugin_text
from ..place import Place
from .checks import Checks
from .projects import texts_below


class OpencodeChecks(Checks):
    open_ways = (
        "a repository's plugins run in opencode itself before any call, and nothing prevents that; tools and skills with commands need "
        "OPENCODE_DISABLE_PROJECT_CONFIG=1 and OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
        "a repository's MCP servers and formatters start programs, and no hook is asked: set OPENCODE_DISABLE_PROJECT_CONFIG=1",
    )

    def read_entries(self, place, findings):
        """Returns the command of the installed plugin. Reports what keeps opencode from asking the hook."""
        path = self.client.settings_file(place, PLUGIN_PART if place.managed else None)
        text = read_text(path)
        again = "%s: run `install` again"
        if place.managed:
            file = self.client.settings_file(place)
            settings = read_settings(file)
            ours = [each for each in settings.get("plugin", []) if is_ours(each)]
            if not ours:
                return []
            if settings.get("enabled_providers") != [NO_PROVIDER]:
                findings.fail(again % ("`enabled_providers` in %s lets opencode work without the hook" % file))
            if os.path.exists(file + "c"):
                findings.fail("`%sc` is read after the settings with the hook: move it into opencode.json" % file)
        if text is None:
            if place.managed:
                findings.fail(again % ("`%s` is not there" % path))
            return []
        line = next((line for line in text.splitlines() if line.startswith("const hook = ")), "")
        try:
            words = parse_json(line.partition(" = ")[2])["commands"]["pre"]
            same = text == plugin_text(self.client, place, words[0])
        except (ValueError, KeyError, TypeError, IndexError):
            words, same = None, False
        if not same:
            findings.fail(again % ("`%s` was changed" % path))
        before = findings.failed
        findings.failed = False
        self.around(place, findings)
        if not findings.failed:
            # This test starts opencode. It is left out if a check of `around` has failed, because opencode could
            # then run a program of this folder.
            self.try_plugin(place, path, findings)
        findings.failed = findings.failed or before
        return [words] if words else []

    def try_plugin(self, place, path, findings):
        """Tests whether opencode runs the plugin in this folder. For a managed hook, also tests that opencode runs only
        plugins of the managed settings."""
        import shutil
        import subprocess

        program = shutil.which(self.client.program)
        if program is None:
            return  # the version check reports this already
        try:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            ran = subprocess.run([program, "debug", "config"], timeout=120, **pipes)
            shown = parse_json(ran.stdout.decode("utf-8", "replace"))
            origins = [(each["source"], each["spec"]) for each in shown.get("plugin_origins", [])]
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, AttributeError):
            return findings.doubt("opencode does not show its settings: run `opencode debug config` in this folder")
        if shown.get(PLUGIN_MARK) is not True:
            return findings.fail("opencode does not run `%s` in this folder: run `install` again" % path)
        folder = os.path.dirname(self.client.settings_file(place)) + os.sep
        others = [spec for source, spec in origins if not is_ours([source, spec]) and not source.startswith(folder)]
        if place.managed and others:
            found = ", ".join(plain(each[0] if isinstance(each, list) else each, 200) for each in others)
            return findings.fail("opencode loads plugins that the managed settings do not name: %s" % found)
        findings.ok("opencode runs the plugin in this folder")

    def around(self, place, findings):
        """Reports what switches the hook off or gets around it. Checks the environment, the user's files, and the files of
        this folder and the folders above it."""
        said = os.environ.get
        if place.managed and "OPENCODE_TEST_MANAGED_CONFIG_DIR" in os.environ:
            findings.fail("`OPENCODE_TEST_MANAGED_CONFIG_DIR` replaces the managed settings: remove it from the environment")
        if not place.managed and is_yes(said("OPENCODE_PURE")):
            findings.fail("`OPENCODE_PURE` switches the hook off: remove it from the environment, or install --managed")
        if '"plugin' in said("OPENCODE_CONFIG_CONTENT", ""):
            findings.fail("`OPENCODE_CONFIG_CONTENT` names plugins, which can get around the hook: remove it")
        ours = self.client.settings_file(Place(False))
        folders, files = [], [said("OPENCODE_CONFIG")]
        own = os.path.dirname(os.path.dirname(ours))
        if place.managed:
            folders += [own, os.path.join(os.path.expanduser("~"), ".opencode")]
        folders += [each for each in [said("OPENCODE_CONFIG_DIR")] if each]
        skills = []
        # Even with OPENCODE_DISABLE_PROJECT_CONFIG, opencode loads the project's plugins (docs/agents-reference.md).
        is_off = is_yes(said("OPENCODE_DISABLE_PROJECT_CONFIG"))
        at = os.getcwd()
        while at is not None:
            own = os.path.join(at, ".opencode")
            files += [os.path.join(at, name) for name in ("opencode.json", "opencode.jsonc")]
            if not is_off:
                folders.append(own)
            else:
                files += [os.path.join(own, name) for name in ("opencode.json", "opencode.jsonc")]
                for path in programs_of(ours, own, ("plugin", "plugins")):
                    findings.fail("opencode runs %s as a part of itself, so it can get around the hook: remove it" % path)
            if not is_yes(said("OPENCODE_DISABLE_EXTERNAL_SKILLS")):
                skills += [os.path.join(at, name, "skills") for name in (".claude", ".agents")]
            above = os.path.dirname(at)
            at = above if above != at else None
        for folder in dict.fromkeys(folders):
            files += [os.path.join(folder, name) for name in ("opencode.json", "opencode.jsonc")]
            skills += [os.path.join(folder, name) for name in ("skill", "skills")]
            if not place.managed:
                skills += [os.path.join(folder, name) for name in ("command", "commands")]
            for path in programs_of(ours, folder):
                findings.fail("opencode runs %s as a part of itself, so it can get around the hook: remove it" % path)
        for path in dict.fromkeys(files):
            if path and path != self.client.settings_file(place) and names_plugins(path):
                findings.fail("%s names plugins, which can get around the hook: remove them there" % path)
        for path in [path for folder in dict.fromkeys(skills) for path in texts_below(folder)]:
            if "!`" in (read_text(path) or ""):
                told = "opencode runs the shell commands in %s before any hook is asked, when a person calls it: remove them"
                findings.fail(told % path)


def is_yes(value):
    return (value or "").lower() in ("1", "true")


def programs_of(ours, folder, kinds=("plugin", "plugins", "tool", "tools")):
    """Returns the plugins and tools of a folder. opencode loads each of them into its own process when it starts.
    `ours` is left out."""
    found = []
    for kind in kinds:
        try:
            names = sorted(os.listdir(os.path.join(folder, kind)))
        except OSError:
            names = []
        found += [os.path.join(folder, kind, name) for name in names if name.endswith((".js", ".ts"))]
    return [path for path in found if path != ours]


def names_plugins(path):
    """Returns whether a file of settings names plugins, with the option `plugin` or `plugins`. A file with comments
    cannot be read as JSON, so its text is searched."""
    text = read_text(path) or ""
    try:
        settings = parse_json(text.lstrip("\ufeff") or "{}")
        return bool(look_up(settings, ("plugin",)) or look_up(settings, ("plugins",)))
    except ValueError:
        return '"plugin' in text
