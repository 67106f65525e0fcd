"""The tests of `doctor` for Codex."""

import os

from ...shared.json import parse_json, to_json
from ...shared.limits import VERSION
from ...shared.text import plain
from ..install.codex_requirements import TOML_MARK, codex_wanted, toml_values
from ..install.files import read_text
from ..place import OUR_FILE, Place
from .checks import Checks
from .environment import stopping_variables


class CodexChecks(Checks):
    open_ways = (
        "variables such as `BASH_ENV`, in the environment or in `.env` of a user's folder `.codex`, keep the shell from starting the hook",
        "a trusted repository's MCP servers (`.codex/config.toml`) start programs, and no hook is asked: add an empty table `[mcp_servers]` to "
        "`requirements.toml`",
    )
    untried = "its version and its trust in the hook"

    def read_entries(self, place, findings):
        path = self.client.settings_file(place)
        if path.endswith(".toml"):
            return requirements_entries(place, path, findings)
        return Checks.read_entries(self, place, findings)

    def started(self, line, managed):
        return [login_shell(), "-c", line], None

    def try_trust(self, place, entries, findings):
        """Checks whether Codex runs the hook. Codex skips a user's hook that is not trusted, and a managed hook that it
        does not find. Codex shows no message about this."""
        import shutil

        program = shutil.which(self.client.program)
        if program is None:
            return  # the version check reports this already
        told = codex_hooks(program)
        if told is None:
            advice = "look in /hooks" if place.managed else "look in /hooks, or install --managed"
            return findings.doubt("codex does not say whether it trusts the hook: " + advice)
        ours = [one for one in told if one.get("command") in entries]
        states = [one.get("trustStatus") if one.get("enabled") is True else "off" for one in ours]
        if not place.managed:
            self.around(told, entries, findings)
        if states and all(state in ("trusted", "managed") for state in states):
            return findings.ok("codex trusts the hook")
        shown = plain(", ".join(sorted({str(state) for state in states})) or "not there", 100)
        advice = "run `install --managed` again" if place.managed else "open /hooks in Codex and trust it, or install --managed"
        findings.fail("codex skips the hook (it is %s): %s" % (shown, advice))

    def environment(self, managed, findings):
        Checks.environment(self, managed, findings)
        codex_variables(findings)

    def around(self, told, lines, findings):
        """Fails if a trusted hook of the project can change a call after our hook has judged it."""
        own = self.client.settings_file(Place(False))
        paths = set()
        for one in told:
            is_before = str(one.get("eventName")).replace("_", "").lower() == "pretooluse"
            runs = one.get("enabled") is True and one.get("trustStatus") == "trusted"
            if is_before and runs and one.get("command") not in lines and one.get("sourcePath") != own:
                paths.add(str(one.get("sourcePath")))
        for path in sorted(paths):
            told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % plain(path, 200))


def requirements_entries(place, path, findings):
    """Returns our `pre` command lines in the requirements. Reports each missing option, because users could get around
    the hook without it."""
    import json

    text = read_text(path) or ""
    marked = [line for line in text.splitlines() if OUR_FILE in line and line.startswith("command = ")]
    lines = [parse_json(line[len("command = ") :].rsplit(TOML_MARK, 1)[0]) for line in marked]
    lines = [line for line in lines if " pre " in line]
    if not lines:
        return []
    have = toml_values(text.splitlines())
    for table, key, value in codex_wanted(place):
        if have.get((table, key)) != json.dumps(value):
            told = "`%s` is not %s in %s, so users can get around the hook: run `install` again"
            findings.fail(told % (".".join(filter(None, (table, key))), json.dumps(value), path))
    return lines


def codex_hooks(program):
    """Asks `codex app-server` which hooks Codex runs in the user's home and in this folder. Returns None if there is no
    usable answer."""
    import subprocess
    from threading import Timer

    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "countersign-doctor", "version": VERSION}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [os.path.expanduser("~"), os.getcwd()]}},
    )
    try:
        process = subprocess.Popen(
            [program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    limit = Timer(60, process.kill)
    limit.start()
    try:
        process.stdin.write(b"".join(to_json(each) + b"\n" for each in asked))
        process.stdin.flush()
        for line in process.stdout:
            answered = parse_json(line.decode("utf-8"))
            if answered.get("id") == 2:
                return [one for each in answered["result"]["data"] for one in each["hooks"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        try:
            process.stdin.close()
        except OSError:
            pass
    return None


def codex_variables(findings):
    """Fails if Codex's file `.env` has a variable that keeps the hook from starting."""
    path = os.path.join(os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex"), ".env")
    for variable in stopping_variables(path):
        findings.fail("`%s` in %s keeps the hook from running: remove it" % (variable, path))


def login_shell():
    """Returns the shell with which Codex starts hooks. This is the user's own shell if Codex knows it, and otherwise
    `/bin/bash` or `/bin/sh`."""
    try:
        import pwd

        found = pwd.getpwuid(os.getuid()).pw_shell
    except (ImportError, KeyError):
        found = ""
    known = os.path.basename(found) in ("bash", "zsh", "sh") and os.path.exists(found)
    return found if known else "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
