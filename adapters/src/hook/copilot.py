# Copilot CLI: its managed options beside the hooks, and a project's hooks.

COPILOT_POLICY = "copilot-policy"


def parts_of(place, client):
    """The client, and the file of options that its managed installation needs too. Copilot CLI runs a project's hooks after
    ours, and they can change a call that was judged already, unless only managed hooks are allowed."""
    if client == "copilot" and place.managed and os.name != "nt":
        return [client, COPILOT_POLICY]
    if client == "opencode" and place.managed:
        return [OPENCODE_PLUGIN, client]
    return [client]


def copilot_around(place, findings):
    """What others can do to the hook: users if the policy is missing, and the project of this folder."""
    if place.managed:
        if os.name != "nt":
            path = place.settings_file(COPILOT_POLICY)
            if read_settings(path).get("allowManagedHooksOnly") is not True:
                told = "`allowManagedHooksOnly` is not true in %s, so a project's hook can change a call after it was judged: run `install` again"
                findings.fail(told % path)
        return
    for path in project_hooks(os.getcwd()):
        told = "a project's hook in %s can change a call after it was judged: remove it, or install --managed"
        findings.fail(told % path)


def project_hooks(folder):
    """The files of a project whose hooks Copilot CLI runs before a call."""
    own = os.path.join(folder, ".github", "hooks")
    try:
        names = sorted(name for name in os.listdir(own) if name.endswith(".json"))
    except OSError:
        names = []
    files = [os.path.join(own, name) for name in names]
    files += [os.path.join(folder, *name.split("/")) for name in PROJECT_FILES["copilot"][0]]
    found = []
    for path in files:
        try:
            hooks = look_up(parse_json((read_text(path) or "{}").lstrip("\ufeff")), ("hooks",))
        except (Refused, ValueError):
            hooks = {"preToolUse": True}  # it may be read in another way
        if isinstance(hooks, dict) and (hooks.get("preToolUse") or hooks.get("PreToolUse")):
            found.append(path)
    return found
