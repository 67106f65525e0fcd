# Copilot CLI: its managed options, and the hooks of a project.

COPILOT_POLICY = "copilot-policy"


def parts_of(place, client):
    """Returns the names of the settings that an installation writes: the client, and for some managed clients one more.
    Copilot CLI runs a project's hooks after our hook, and they can change a call that was already judged. So its
    managed policy must allow only managed hooks."""
    if client == "copilot" and place.managed and os.name != "nt":
        return [client, COPILOT_POLICY]
    if client == "opencode" and place.managed:
        return [OPENCODE_PLUGIN, client]
    return [client]


def copilot_around(place, findings):
    """Fails if others can get around the hook. For a managed hook, the policy must forbid other hooks. For a user's own
    hook, the project, the user and the plugins must have no other hooks for `preToolUse`."""
    if place.managed:
        if os.name != "nt":
            path = place.settings_file(COPILOT_POLICY)
            if read_settings(path).get("allowManagedHooksOnly") is not True:
                told = "`allowManagedHooksOnly` is not true in %s, so a project's hook can change a call after it was judged: run `install` again"
                findings.fail(told % path)
        return
    for path in project_hooks(os.getcwd()):
        told = "a hook in %s can change a call after it was judged: remove it, or install --managed"
        findings.fail(told % path)
    for path in plugin_hooks(os.path.join(copilot_home(), "installed-plugins"), None, "preToolUse"):
        findings.fail("a plugin's hook in %s can change a call after it was judged: remove it, or install --managed" % path)


def copilot_home():
    return os.environ.get("COPILOT_HOME") or os.path.join(os.path.expanduser("~"), ".copilot")


def project_hooks(folder):
    """Returns the files with other hooks for `preToolUse`. These are files of the project and of the user. Copilot CLI
    runs these hooks too."""
    files = []
    for own in (os.path.join(folder, ".github", "hooks"), os.path.join(copilot_home(), "hooks")):
        try:
            files += [os.path.join(own, name) for name in sorted(os.listdir(own)) if name.endswith(".json")]
        except OSError:
            pass
    files += [os.path.join(at, *name.split("/")) for at in folders_up() for name in PROJECT_FILES["copilot"][0]]
    files += [os.path.join(copilot_home(), name) for name in ("settings.json", "config.json")]
    found = []
    for path in files:
        if path == Place(False).settings_file("copilot"):
            continue
        try:
            hooks = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff") or "{}"), ("hooks",))
        except (Refused, ValueError):
            hooks = {"preToolUse": True}  # Copilot CLI may be able to read it
        if isinstance(hooks, dict) and (hooks.get("preToolUse") or hooks.get("PreToolUse")):
            found.append(path)
    return found
