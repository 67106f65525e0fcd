"""The installed hook's own settings."""

import os
import sys

from ...shared.http import proxy_of
from ...shared.json import parse_json
from ...shared.limits import Refused
from ...shared.settings import Settings, read_private, seconds
from ...shared.text import plain

# The settings that `install` saves, and the variables from which it takes them. The first variable that is set counts.
INSTALLED = {
    "api_url": ("SERVICE_API_URL",),
    "api_key": ("SERVICE_API_KEY",),
    "fail_mode": ("SERVICE_FAIL_MODE",),
    "approval_wait": ("SERVICE_APPROVAL_WAIT",),
    "organization_id": ("SERVICE_ORG_ID",),
    "allow_http": ("SERVICE_ALLOW_HTTP",),
    "https_proxy": ("https_proxy", "HTTPS_PROXY"),
    "ca_file": ("SSL_CERT_FILE",),
}


def said_now(variables):
    """Returns the value of the first of these variables that is set; None if none is set."""
    return next((os.environ[name].strip() for name in variables if name in os.environ), None)


def refuse_nonsense(found):
    """Refuses values that the hook would misread, because a running hook has no way to report them."""
    import re

    def refuse(key, advice):
        raise Refused("%s is `%s`: %s" % (INSTALLED[key][0], plain(found[key], 100), advice))

    if found.get("fail_mode", "closed") not in ("closed", "open"):
        refuse("fail_mode", "write `closed`, which blocks calls while the service cannot be reached, or `open`")
    if "approval_wait" in found and seconds(found["approval_wait"], None) is None:
        refuse("approval_wait", "write a number of seconds, such as 55")
    if "organization_id" in found and not re.match(r"org_[0-9A-HJKMNP-TV-Z]{26}\Z", str(found["organization_id"])):
        advice = "write the organization's id (`org_` and 26 letters and digits), or leave it out: then the key's organization counts"
        refuse("organization_id", advice)
    if found.get("allow_http", False) not in (True, False, "1", "true", "yes", "0", "false", "no"):
        refuse("allow_http", "write 1, or leave it out")


def kept_settings(before, after):
    """Returns the saved values that stay, each as the text `key value (VARIABLE)`."""
    before, after = (parse_json(text) if text else {} for text in (before, after))
    shown = []
    for key, variables in INSTALLED.items():
        if key != "api_key" and key in before and before[key] == after.get(key) and said_now(variables) is None:
            value = before[key].rpartition("@")[2] if key == "https_proxy" else before[key]
            shown.append("%s %s (%s)" % (key, plain(value, 200), variables[-1]))
    return shown


def replaces_key(before, after):
    """Returns whether a new key replaces the saved key. `install` must say so, because the printed changes do not show
    keys."""
    old, new = ((parse_json(text) if text else {}).get("api_key") for text in (before, after))
    return None not in (old, new) and old != new


def own_settings(place, before):
    """Returns our own settings: the saved values, replaced by the variables that are set now. A managed file has no
    key, because each user keeps a key in a file of their own."""
    found = parse_json(before) if before else {}
    for key, variables in INSTALLED.items():
        said = said_now(variables)
        if said is not None and key not in ("https_proxy", "ca_file"):
            found[key] = said
            if not said:
                del found[key]
    if place.managed:
        found.pop("api_key", None)
        found.setdefault("api_key_file", "~/.countersign/key")
    if sys.stdin.isatty():
        if "api_url" not in found:
            found["api_url"] = input("address of the service: ").strip()
        if not place.managed and "api_key" not in found and "api_key_file" not in found:
            import getpass

            found["api_key"] = getpass.getpass("key (scope agents:authorize): ").strip()
    if place.managed and not found.get("organization_id"):
        advice = "with --managed set it to the id of your organization, because a key of another one would bring other rules"
        raise Refused("SERVICE_ORG_ID is not set: " + advice)
    refuse_nonsense(found)
    checked = dict(found, api_key=found.get("api_key", "csk_" if "api_key_file" in found else ""))
    settings = Settings()
    settings.api_url, settings.key = checked.get("api_url"), checked["api_key"]
    settings.allow_http = found.get("allow_http") in (True, "1", "true", "yes")
    settings.check()
    proxy, authorities = (said_now(INSTALLED[key]) for key in ("https_proxy", "ca_file"))
    settings.proxy = found.get("https_proxy") if proxy is None else proxy
    settings.ca_file = found.get("ca_file") if authorities is None else authorities
    way = way_of(settings)
    for key in ("https_proxy", "ca_file"):
        if key in way:
            found[key] = way[key]
        else:
            found.pop(key, None)
    if place.managed and "@" in found.get("https_proxy", ""):
        raise Refused("HTTPS_PROXY has a password, which every user could read in `%s`" % place.config)
    return found


def way_of(settings):
    """Returns the proxy and the authorities for the settings file. The file must name them, because a hook with a
    settings file does not read them from the environment."""
    found = {}
    if proxy_of(settings) is not None:
        found["https_proxy"] = settings.proxy
    authorities = settings.ca_file or os.environ.get("SSL_CERT_FILE")
    if authorities and settings.secure:
        found["ca_file"] = os.path.abspath(authorities)
        read_private(found["ca_file"], False)
    return found
