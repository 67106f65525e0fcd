"""The clients, by their names."""

from ..client import Client

NAMES = ("claude", "codex", "gemini", "copilot", "cursor", "vscode", "opencode")
TRIAL = "doctor"  # `doctor` tries the hook under this name


def client_named(name):
    """Returns the client of a dialect, and for None the unknown client. Loads this client's file only."""
    if name in NAMES:
        return __import__(__name__ + "." + name, None, None, ("client",)).client
    client = Client()
    if name is not None:
        client.name = client.agent = name
    else:
        client.has_own_argument_names = False
    return client


def client_of(given, event):
    """Returns the client that sent an event. It is the given one, except that another client may read its settings. If
    no name is given, the members of the event show the client; if they do not, it is the unknown one."""
    if given is None:
        # The later ones have the clearer signs: an event of Codex is one of Claude Code with one member more.
        senders = (client for client in map(client_named, reversed(NAMES)) if client.sends(event))
        return next(senders, None) or client_named(None)
    client = client_named(given)
    other, member = client.settings_also_read_by
    return client_named(other) if member in event else client


def installed_client(name):
    """Returns the client in whose settings the hook of a dialect is installed; None for None."""
    return name and client_named(client_named(name).installed_as or name)


def installable():
    """Returns the clients that have settings of their own, by name."""
    return [client for client in map(client_named, sorted(NAMES)) if client.installed_as is None]
