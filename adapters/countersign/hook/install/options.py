"""The options of `install` and `doctor`."""

from ..clients import NAMES
from .starter_rules import STARTER_STATUS

INSTALL_NOTES = """variables that it saves in hook.json beside the installed hook:
  SERVICE_API_URL, SERVICE_API_KEY (not with --managed), SERVICE_FAIL_MODE, SERVICE_APPROVAL_WAIT, SERVICE_ORG_ID,
  SERVICE_ALLOW_HTTP, HTTPS_PROXY, SSL_CERT_FILE
SERVICE_RULES_KEY is the key for --starter-rules, with the scopes rules:read and rules:write. It is not saved.
A variable that is not set keeps the saved value, which is shown. An empty variable removes it:
  SERVICE_APPROVAL_WAIT= python3 service_hook.py install --dialect claude"""

DOCTOR_NOTES = """the last line, and the exit code:
  protected      0  every test passed, and no way around it is known (--managed); today no client gets this
  works          0  every test passed, but a person who can write the user's files can still get around it
  not tried      0  every test passed, but the client is not on the PATH yet: see the lines with ??
  not proven     1  something could not be tested here: see the lines with ??
  NOT protected  1  something would let calls through: see the lines with FAIL"""


def arguments(words, name, about):
    import argparse

    parser = argparse.ArgumentParser(
        prog="service_hook.py " + name,
        description=about,
        epilog=INSTALL_NOTES if name == "install" else DOCTOR_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = "the client" + (" (with --uninstall all of them, unless it is given)" if name == "install" else "")
    parser.add_argument("--dialect", choices=sorted(NAMES), help=told)
    parser.add_argument("--managed", action="store_true", help="for every user of this machine; needs root")
    if name == "install":
        parser.add_argument("--uninstall", action="store_true", help="remove only the entries of `install`")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        told = "folder of an image, with --managed: every file is written below it"
        parser.add_argument("--root", default="", help=told)
        told = "save rules for agents in the organization: `observe` only records, `careful` holds calls"
        parser.add_argument("--starter-rules", choices=sorted(STARTER_STATUS), help=told)
        told = "absolute path of the Python that runs the hook (default: this one; managed: one that every user can run)"
        parser.add_argument("--python", help=told)
    else:
        parser.add_argument("--config", help="settings file to try (default: the installed one, else the environment)")
        parser.add_argument("--root", help="refused: doctor starts the installed hook, so run it inside the image")
    options = parser.parse_args(words)
    if name == "install" and options.dialect is None and not options.uninstall:
        parser.error("--dialect is needed: %s" % ", ".join(sorted(NAMES)))
    if name == "install" and options.root and not options.managed:
        parser.error("--root is for an image's managed settings: add --managed")
    if name == "install" and options.uninstall and options.starter_rules:
        parser.error("--uninstall leaves rules as they are: delete them in the organization")
    if name == "doctor" and options.root is not None:
        parser.error("an image cannot be tested from outside: run doctor --managed inside it, as one of its users")
    return options
