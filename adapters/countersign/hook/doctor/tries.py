"""Tests that run the hook."""

import os
import sys
import time

from ...shared.json import to_json
from ...shared.limits import Forbidden, Refused, Unreachable
from ...shared.program import own_file
from ...shared.settings import Settings
from ...shared.text import plain, text_of
from ..after import send_end
from ..install.files import version_of
from ..install.own_settings import way_of
from ..organization import key_organization, refuse_nobody, strange_key
from ..place import OUR_FILE
from ..request import ask
from .environment import run_line


def try_version(checks, findings):
    """Checks whether the client on this machine is new enough to block calls."""
    import shutil
    import subprocess

    client = checks.client
    least = client.minimum_version
    if least is None:
        return findings.doubt("%s was never tested: let it make a call that a rule denies, and check" % client.name)
    program = shutil.which(client.program)
    if program is None:
        told = "`%s` is not on the PATH, so %s could not be tried: run doctor again as its user when it is installed"
        return findings.not_tried(told % (client.program, checks.untried))
    try:
        # Some clients read standard input even for `--version`, and would take the next line of the terminal. So they
        # get an empty standard input.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        ran = subprocess.run([program, "--version"], timeout=60, **pipes)
        found = version_of(ran.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired):
        found = ()
    shown = ".".join(str(part) for part in found) or "of unknown version"
    if not found or found < version_of(least):
        told = "%s %s is too old: hooks are known to block from %s on, update it (with npm: `npm install -g %s@latest`)"
        return findings.fail(told % (client.name, shown, least, client.package))
    findings.ok("%s %s blocks when its hook fails" % (client.name, shown))


def try_service(config, findings):
    """Tests a denied call, and a call while the service is unreachable. Each test starts the hook as a process."""
    import tempfile

    try:
        settings = Settings(config)
        settings.check()
        refuse_nobody(config, settings)
    except Refused as error:
        return findings.fail(str(error))
    if settings.secure:
        import ssl

        if not ssl.HAS_TLSv1_3:
            return findings.fail("%s cannot speak TLS 1.3: use a newer Python" % ssl.OPENSSL_VERSION)
    if not settings.fail_open:
        findings.ok("fail mode is closed")
    else:
        findings.fail("fail mode is open: calls run while the service is unreachable; set it to closed")
    with tempfile.TemporaryDirectory() as folder:
        nobody = "org_00000000000000000000000000"
        session = "doctor-%d-%d" % (os.getpid(), time.time())
        denied = try_call(folder, settings, session, {"organization_id": nobody})
        answered = denied[0] == 2 and denied[2].startswith("blocked")
        if answered:
            told = "%s answered: a call for another organization was denied, and blocked (your rules were not tried)"
            findings.ok(told % settings.api_url)
        else:
            findings.fail(without_denial(settings, denied[0], denied[2].strip()))
        gone = try_call(folder, settings, session, {"api_url": "http://127.0.0.1:1"})
        if gone[0] == 2:
            findings.ok("a call is blocked while the service is unreachable")
        elif not settings.fail_open:
            findings.fail("a call runs while the service is unreachable")
    if answered:
        try_key(settings, session + "-own", findings)
        try_checksum(settings, findings)
        for each in (session, session + "-own"):
            send_end(settings, each, time.monotonic() + 5)


def without_denial(settings, code, told):
    """Explains an answer of the hook that is not the expected denial."""
    reason = told.partition("countersign: ")[2].partition(", and calls")[0].partition("; fail mode")[0]
    if not reason:
        return "a call that must be denied was not: %s" % (told or "it was allowed")
    meanwhile = "calls are blocked meanwhile" if code == 2 else "calls run unchecked meanwhile"
    hint = ": start it, or correct SERVICE_API_URL" if "unreachable" in reason else ""
    return "%s could not be asked: %s; %s%s" % (settings.api_url, reason, meanwhile, hint)


def try_call(folder, settings, session, changed):
    """Runs the hook with changed settings, for a harmless call. Returns the exit code, standard output and standard
    error."""

    named = {
        "api_url": settings.api_url,
        "api_key": settings.key,
        "fail_mode": "open" if settings.fail_open else "closed",
        "approval_wait": 0,
        "allow_http": settings.allow_http,
    }
    path = os.path.join(folder, "hook.json")
    named.update(way_of(settings))
    with open(path, "wb") as file:
        os.chmod(path, 0o600)
        file.write(to_json(dict(named, **changed)))
    event = to_json(
        {
            "session_id": session,
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "true"},
        }
    )
    line = [sys.executable, "-I", "-S", own_file(), "pre", "--dialect", "doctor", "--config", path]
    return run_line(line, event=event)


def try_key(settings, session, findings):
    """Checks whether the key belongs to the organization of the settings. A key on an agent's machine should have only
    the scope agents:authorize. The service does not tell such a key whose key it is."""
    try:
        scopes = ask(settings, "GET", "/me", None, time.monotonic() + 10).get("scopes")
    except (Refused, Unreachable):
        scopes = None
    # `scopes` is a list, or an object that maps each scope to true or false.
    held = [scope for scope in scopes if not isinstance(scopes, dict) or scopes[scope]] if scopes else []
    if any(scope != "agents:authorize" for scope in held):
        findings.note("this key can do more than ask: make one with only the scope agents:authorize")
    named = settings.organization_id
    if named is None:
        return
    if settings.must_match:
        try:
            strange = key_organization(settings, time.monotonic() + 10) != named
            return findings.fail(strange_key(settings)) if strange else findings.ok("the key is of the organization `%s`" % named)
        except Forbidden:
            pass  # the key can only ask for decisions, and the question below shows whether it may
        except (Refused, Unreachable) as error:
            return findings.doubt("the service does not say whose key it is: %s" % error)
    asked = {"agent": {"name": "doctor", "kind": "coding_agent"}, "session_id": session, "tool_name": "Glob"}
    body = to_json(dict(asked, tool_input={}, organization_id=named))
    try:
        reason = text_of(ask(settings, "POST", "/authorize", body, time.monotonic() + 10), "reason")
    except (Refused, Unreachable):
        reason = None
    if reason is None:
        findings.doubt("the service does not say whether the key belongs to the organization `%s`" % plain(named, 100))
    elif reason in ("wrong organization", "not a member"):
        wrong = "every call is denied: the organization is `%s`, and the key's person is not a member: "
        advice = "correct SERVICE_ORG_ID (`organization_id` in hook.json), or remove it"
        findings.fail(wrong % plain(named, 100) + advice)


def own_checksum():
    import hashlib

    with open(own_file(), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def try_checksum(settings, findings):
    """Checks whether this file is the version that the service offers now."""
    try:
        listed = ask(settings, "GET", "/integrations", None, time.monotonic() + 10).get("files", [])
    except (Refused, Unreachable):
        return
    own = own_checksum()
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == OUR_FILE and each.get("sha256") != own:
            findings.note("the service has another version of this file: download it and run `install` again")
