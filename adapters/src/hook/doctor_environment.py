# The command `doctor`: variables and shells that keep a hook from starting, or start another program in its place.

# The loader of programs reads variables whose names begin like this. They can make it start another program than the
# hook, or no program.
LOADER_VARIABLES = ("LD_", "DYLD_")
# Variables whose names begin like this can make a shell start another program. Or they can make Claude Code put another
# program before the hook's command.
SHELL_VARIABLES = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "BASH_FUNC_", "ENV", "PS4")
# The variables of SHELL_VARIABLES that count in a client's own environment. `ENV` and exported functions do not reach
# the hook from there.
SHELL_ENVIRONMENT = ("CLAUDE_CODE_SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV")
# Many machines set these variables for their own programs. So `own_environment` notes them, but does not fail.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


def settings_environment(client, managed, findings):
    """Fails if `env` in Claude Code's settings can keep the hook from running. Checks the settings in the user's home
    and in this folder."""
    if client != "claude":
        return
    names = LOADER_VARIABLES if managed else LOADER_VARIABLES + SHELL_VARIABLES
    files = [os.path.join(os.getcwd(), *name.split("/")) for name in PROJECT_FILES["claude"][0]]
    for path in [Place(False).settings_file(client)] + files:
        try:
            found = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("env",))
        except (Refused, ValueError):
            findings.doubt("`%s` cannot be read: check that its `env` does not keep the hook from running" % path)
            continue
        for name in found if isinstance(found, dict) else ():
            if name.upper().startswith(names):
                advice = "remove it" if managed else "remove it, or install --managed"
                findings.fail("`env.%s` in %s can keep the hook from running: %s" % (plain(name, 100), path, advice))


def own_environment(client, managed, findings):
    """Fails if an environment variable can keep the hook from running. A client that is started here passes this
    environment on to the hook."""
    # With managed settings, Gemini CLI removes these variables from the environment of hooks. A managed Claude Code or
    # Copilot CLI starts the hook without a shell.
    names = () if managed and client == "gemini" else LOADER_VARIABLES
    if not managed or client not in ("claude", "copilot", "gemini"):
        names += SHELL_ENVIRONMENT
    for name in sorted(os.environ):
        if not name.upper().startswith(names) or not os.environ[name]:
            continue
        if name in LIBRARY_PATHS:
            findings.enforced = False
            findings.note("`%s` is set here: libraries in its folders can keep a hook from running" % name)
        else:
            findings.fail("`%s` in the environment can keep the hook from running: remove it" % plain(name, 100))


def as_started(client, line, managed):
    """Returns how a client starts this command: the words, and the environment of the hook. The environment is None if
    it is that of this process."""
    import shutil

    if isinstance(line, list):
        return line, None
    if os.name == "nt":
        return line, None
    if client == "codex":
        return [login_shell(), "-c", line], None
    if client == "copilot" and os.path.exists("/bin/bash"):
        return ["/bin/bash", "--norc", "--noprofile", "-c", line], None
    if client == "gemini":
        known = dict(os.environ)
        if managed:
            known = {name: value for name, value in known.items() if name not in STOPPING_VARIABLES}
            known.update(gemini_path(Place(True)).get("env", {}))
        return [shutil.which("bash", path=known.get("PATH")) or "bash", "-c", line], known
    return ["/bin/sh", "-c", line], None


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


def run_line(line, known=None, event=b""):
    """Runs a hook's command. Returns its exit code, standard output and standard error. The code is None if the command
    cannot be run or takes too long."""
    import subprocess

    pipe = subprocess.PIPE
    options = {"stdout": pipe, "stderr": pipe, "timeout": 100, "env": known}
    try:
        ran = subprocess.run(line, shell=isinstance(line, str), input=event, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", str(error)
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")
