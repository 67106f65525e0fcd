"""The tests of `doctor` for Claude Code."""

import os

from ...shared.json import parse_json, to_json
from ...shared.limits import Refused
from ...shared.text import plain
from ..install.files import look_up, read_text
from ..place import Place
from .checks import Checks
from .environment import LOADER_VARIABLES, SHELL_VARIABLES
from .projects import enabled_plugins, plugin_hooks, settings_or_none, skills_with_commands, texts_with_hooks

PROJECT_FILES = (".claude/settings.json", ".claude/settings.local.json")


def files_here():
    return [os.path.join(os.getcwd(), *name.split("/")) for name in PROJECT_FILES]


def fragments(path):
    """Returns the files that Claude Code merges with its managed settings."""
    folder = os.path.splitext(path)[0] + ".d"
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


class ClaudeChecks(Checks):
    open_ways = (
        "a user's settings can set variables of the loader in `env`, such as `LD_TRACE_LOADED_OBJECTS`, with which no hook starts",
        "a repository's `apiKeyHelper` and `otelHeadersHelper` start programs, and no hook is asked, also with `-p` in a folder that is not "
        'trusted: set both to "" in the managed settings. `statusLine` of a trusted folder does so in a terminal, and no setting was tried',
        "a trusted repository's MCP servers (`.mcp.json`) start programs, and no hook is asked: write `{\"mcpServers\": {}}` into "
        "`managed-mcp.json` beside the managed settings",
    )
    project_files = PROJECT_FILES
    switch, off = ("disableAllHooks",), True
    starts_managed_hook_by_shell = False

    def settings(self, place, path, settings, ours, findings):
        """Checks the file with the hook, and the files beside a managed file."""
        if not place.managed:
            if ours and settings.get("disableAllHooks") is True:
                findings.fail("`disableAllHooks` switches the hook off: remove it, or install --managed")
            return
        if not ours:
            if settings.get("allowManagedHooksOnly") is True:
                findings.fail("managed settings allow only managed hooks, and this hook is not one of them: install --managed")
            return
        options = self.client.options(place, self.client.name, settings)
        for steps, wanted in options.items():
            name = ".".join(steps)
            if look_up(settings, steps) != wanted:
                told = "`%s` is not %s in %s, so users and repositories can get around the hook: run `install` again"
                findings.fail(told % (name, to_json(wanted).decode("utf-8"), path))
        for more in fragments(path):
            own = settings_or_none(more)
            for steps, wanted in options.items():
                if own is None or (steps[0] in own and look_up(own, steps) != wanted):
                    findings.fail("%s changes `%s` of the managed settings: remove it there" % (more, ".".join(steps)))

    def entry(self, one, path, findings):
        if one.get("onFailure") != "block":
            findings.fail("`onFailure` is not `block` in %s: run `install` again" % path)

    def environment(self, managed, findings):
        """Fails also if `env` in the settings can keep the hook from running. Checks the settings in the user's home and
        in this folder."""
        names = LOADER_VARIABLES if managed else LOADER_VARIABLES + SHELL_VARIABLES
        for path in [self.client.settings_file(Place(False))] + files_here():
            try:
                found = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("env",))
            except (Refused, ValueError):
                findings.doubt("`%s` cannot be read: check that its `env` does not keep the hook from running" % path)
                continue
            for name in found if isinstance(found, dict) else ():
                if name.upper().startswith(names):
                    advice = "remove it" if managed else "remove it, or install --managed"
                    findings.fail("`env.%s` in %s can keep the hook from running: %s" % (plain(name, 100), path, advice))
        Checks.environment(self, managed, findings)

    def around_user(self, findings):
        Checks.around_user(self, findings)
        own = self.client.settings_file(Place(False))
        # If this folder is the user's home, one of these files is the user's own settings file, and not a project's.
        files = [path for path in files_here() if os.path.realpath(path) != os.path.realpath(own)]
        known = [settings_or_none(path) for path in files]
        for path, settings in zip(files, known):
            if look_up(settings, ("hooks", "PreToolUse")):
                told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
                findings.fail(told % path)
        for path in texts_with_hooks():
            findings.fail("a hook in the head of %s can change a call after it was judged: remove it, or install --managed" % path)
        plugins = os.path.join(os.path.dirname(own), "plugins")
        for path in plugin_hooks(plugins, enabled_plugins(files + [own]), "PreToolUse"):
            findings.fail("a plugin's hook in %s can change a call after it was judged: switch it off, or install --managed" % path)
        known.append(settings_or_none(own))
        asked = [look_up(settings, ("disableSkillShellExecution",)) for settings in known]
        if True in asked and False not in asked:
            return
        for path in skills_with_commands():
            told = "%s has a shell command that runs before any hook is asked: remove it, set `disableSkillShellExecution`, or install --managed"
            findings.fail(told % path)
