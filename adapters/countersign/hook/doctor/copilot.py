"""The tests of `doctor` for Copilot CLI."""

import os

from ...shared.json import parse_json
from ...shared.limits import Refused
from ..clients.copilot import POLICY
from ..install.files import look_up, read_settings, read_text
from ..place import Place
from .checks import Checks
from .projects import folders_up, plugin_hooks, settings_or_none

PROJECT_FILES = (
    ".github/copilot/settings.json",
    ".github/copilot/settings.local.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)
SERVERS = (
    'a trusted repository\'s MCP servers start programs, and no hook is asked: set `"allowedMcpServers": []` in %s. '
    "A list of names does not help, because a repository can use an allowed name"
)


class CopilotChecks(Checks):
    open_ways = (
        "a trusted repository's language server (`.github/lsp.json`) starts a program, and the hook is asked only about the tool `LSP`: "
        "deny `LSP` with a rule",
    )
    project_files = PROJECT_FILES
    switch, off = ("disableAllHooks",), True
    starts_managed_hook_by_shell = False

    def settings(self, place, path, settings, ours, findings):
        if ours:
            self.around(place, findings)
        Checks.settings(self, place, path, settings, ours, findings)

    def started(self, line, managed):
        if os.path.exists("/bin/bash"):
            return ["/bin/bash", "--norc", "--noprofile", "-c", line], None
        return Checks.started(self, line, managed)

    def folders(self):
        # Copilot CLI also reads the settings in the root of the repository.
        return folders_up()

    def ways(self):
        return self.open_ways + self.servers()

    def servers(self):
        """Returns a text if a repository's MCP servers can get around the hook. Returns nothing if the managed settings
        allow no server."""
        if os.name == "nt":
            return (SERVERS % "the managed settings",)
        path = self.client.settings_file(Place(True), POLICY)
        return () if look_up(settings_or_none(path), ("allowedMcpServers",)) == [] else (SERVERS % path,)

    def around(self, place, findings):
        """Fails if others can get around the hook. For a managed hook, the policy must forbid other hooks. For a user's own
        hook, the project, the user and the plugins must have no other hooks for `preToolUse`."""
        if place.managed:
            if os.name != "nt":
                path = self.client.settings_file(place, POLICY)
                if read_settings(path).get("allowManagedHooksOnly") is not True:
                    told = "`allowManagedHooksOnly` is not true in %s, so a project's hook can change a call after it was judged: run `install` again"
                    findings.fail(told % path)
            return
        for path in project_hooks(os.getcwd(), self.client.settings_file(Place(False))):
            told = "a hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
        for path in plugin_hooks(os.path.join(copilot_home(), "installed-plugins"), None, "preToolUse"):
            findings.fail("a plugin's hook in %s can change a call after it was judged: remove it, or install --managed" % path)


def copilot_home():
    return os.environ.get("COPILOT_HOME") or os.path.join(os.path.expanduser("~"), ".copilot")


def project_hooks(folder, own):
    """Returns the files with other hooks for `preToolUse`. These are files of the project and of the user,
    without `own`. Copilot CLI runs these hooks too."""
    files = []
    for hooks in (os.path.join(folder, ".github", "hooks"), os.path.join(copilot_home(), "hooks")):
        try:
            files += [os.path.join(hooks, name) for name in sorted(os.listdir(hooks)) if name.endswith(".json")]
        except OSError:
            pass
    files += [os.path.join(at, *name.split("/")) for at in folders_up() for name in PROJECT_FILES]
    files += [os.path.join(copilot_home(), name) for name in ("settings.json", "config.json")]
    found = []
    for path in files:
        if path == own:
            continue
        try:
            hooks = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("hooks",))
        except (Refused, ValueError):
            hooks = {"preToolUse": True}  # Copilot CLI may be able to read it
        if isinstance(hooks, dict) and (hooks.get("preToolUse") or hooks.get("PreToolUse")):
            found.append(path)
    return found
