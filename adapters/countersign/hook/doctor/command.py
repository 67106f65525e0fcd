"""The command `doctor`."""

import os
import sys

from ..clients import installable, installed_client
from ..install.options import arguments
from ..place import Place
from .findings import Findings
from .tries import try_service, try_version


def doctor(words):
    """Tests on this machine that the hook blocks denied calls, and calls that cannot be checked. Returns 1 if a call
    would run, or if something could not be tested."""
    about = "Tests on this machine that denied calls are blocked. Run it in the agent's folder, because a project's settings count too."
    options = arguments(words, "doctor", about)
    findings = Findings()
    if sys.version_info < (3, 8):
        findings.fail("this is Python %d.%d; 3.8 or newer is needed" % sys.version_info[:2])
        return 1
    chosen = installed_client(options.dialect)
    places = [Place(True)] if options.managed else [Place(True), Place(False)]
    how = "install --managed" if options.managed else "install"
    installed = []
    for client in [chosen] if chosen else installable():
        checks = client.checks()
        found = [(place, entries) for place in places for entries in [checks.entries(place, findings)] if entries]
        installed += [place for place, _ in found]
        for place, entries in found:
            checks.try_entries(place, entries, findings)
            checks.try_trust(place, entries, findings)
        if found:
            try_version(checks, findings)
            managed = any(place.managed for place, _ in found)
            checks.environment(managed, findings)
            if managed:
                checks.around_managed(findings)
            else:
                checks.around_user(findings)
        elif chosen:
            findings.fail("%s does not ask: run `%s --dialect %s`" % (client.name, how, client.name))
    if not installed and not chosen:
        findings.fail("no client asks: run `%s --dialect ...`" % how)
    configs = sorted({place.config for place in installed})
    if not installed and "SERVICE_API_URL" in os.environ:
        configs = [None]
    for config in [options.config] if options.config else configs:
        try_service(config, findings)
    print(findings.verdict())
    return 1 if findings.failed or findings.unproven else 0
