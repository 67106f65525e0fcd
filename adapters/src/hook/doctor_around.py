# The command `doctor`: finds open ways around the hook (docs/agents-reference.md).

# Known ways around a managed hook. `install` cannot close these ways. Each tested client has some, so `doctor` calls no
# client protected.
OPEN_WAYS = {
    "claude": (
        "a user's settings can set variables of the loader in `env`, such as `LD_TRACE_LOADED_OBJECTS`, with which no hook starts",
        "a repository's `apiKeyHelper` and `otelHeadersHelper` start programs, and no hook is asked, also with `-p` in a folder that is not "
        'trusted: set both to "" in the managed settings. `statusLine` of a trusted folder does so in a terminal, and no setting was tried',
        "a trusted repository's MCP servers (`.mcp.json`) start programs, and no hook is asked: write `{\"mcpServers\": {}}` into "
        "`managed-mcp.json` beside the managed settings",
    ),
    "codex": (
        "variables such as `BASH_ENV`, in the environment or in `.env` of a user's folder `.codex`, keep the shell from starting the hook",
        "a trusted repository's MCP servers (`.codex/config.toml`) start programs, and no hook is asked: add an empty table `[mcp_servers]` to "
        "`requirements.toml`",
    ),
    "copilot": (
        "a trusted repository's language server (`.github/lsp.json`) starts a program, and the hook is asked only about the tool `LSP`: "
        "deny `LSP` with a rule",
    ),
    "opencode": (
        "a repository's plugins run in opencode itself before any call, and nothing prevents that; tools and skills with commands need "
        "OPENCODE_DISABLE_PROJECT_CONFIG=1 and OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
        "a repository's MCP servers and formatters start programs, and no hook is asked: set OPENCODE_DISABLE_PROJECT_CONFIG=1",
    ),
    "gemini": (
        "a copy of the hook in a user's settings, or `GEMINI_CLI_SYSTEM_SETTINGS_PATH` in the environment, replaces the managed one",
        "a trusted repository's MCP servers start programs, and no hook is asked: name at least one server as `mcp.allowed` in the managed "
        "settings, and define each of these servers there. An empty list allows every server",
        'a trusted repository\'s `tools.discoveryCommand` starts a program, and no hook is asked: set it to "" in the managed settings',
    ),
}
COPILOT_SERVERS = (
    'a trusted repository\'s MCP servers start programs, and no hook is asked: set `"allowedMcpServers": []` in %s. '
    "A list of names does not help, because a repository can use an allowed name"
)


def by_its_client(client, findings):
    """Prints how a user or a repository can still get around a managed hook. If there is such a way, the verdict is at
    most `works`, and not `protected`."""
    ways = OPEN_WAYS.get(client, ())
    if client == "copilot":
        ways += copilot_servers()
    for way in ways:
        findings.enforced = False
        findings.note("%s: what still gets around the managed hook: %s" % (client, way))


def copilot_servers():
    """Returns a text if a repository's MCP servers can get around the hook. Returns nothing if the managed settings
    allow no server."""
    if os.name == "nt":
        return (COPILOT_SERVERS % "the managed settings",)
    path = Place(True).settings_file(COPILOT_POLICY)
    return () if look_up(settings_or_none(path), ("allowedMcpServers",)) == [] else (COPILOT_SERVERS % path,)


def codex_variables(findings):
    """Fails if Codex's file `.env` has a variable that keeps the hook from starting."""
    path = os.path.join(os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex"), ".env")
    for variable in stopping_variables(path):
        findings.fail("`%s` in %s keeps the hook from running: remove it" % (variable, path))


def by_its_project(client, findings):
    """Fails if something in this folder's project, in an extension or in a plugin can get around a user's own hook."""
    if client == "gemini":
        for path in extension_hooks():
            told = "an extension's hook in %s can change a call after it was judged: remove it, or install --managed"
            findings.fail(told % path)
    if client != "claude":
        return
    names, own = PROJECT_FILES["claude"][0], Place(False).settings_file("claude")
    files = [os.path.join(os.getcwd(), *name.split("/")) for name in names]
    # If this folder is the user's home, one of these files is the user's own settings file, and not a project's.
    files = [path for path in files if os.path.realpath(path) != os.path.realpath(own)]
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


def codex_around(told, lines, findings):
    """Fails if a trusted hook of the project can change a call after our hook has judged it."""
    own = Place(False).settings_file("codex")
    paths = set()
    for one in told:
        is_before = str(one.get("eventName")).replace("_", "").lower() == "pretooluse"
        runs = one.get("enabled") is True and one.get("trustStatus") == "trusted"
        if is_before and runs and one.get("command") not in lines and one.get("sourcePath") != own:
            paths.add(str(one.get("sourcePath")))
    for path in sorted(paths):
        told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
        findings.fail(told % plain(path, 200))


def settings_or_none(path):
    """Returns a client's settings; None if the settings cannot be read."""
    try:
        return parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}")
    except (Refused, ValueError):
        return None
