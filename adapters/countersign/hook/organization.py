"""Checks to which organization a key belongs."""

import os

from ..shared.limits import Forbidden, Refused
from ..shared.text import plain, text_of
from .place import Place, is_managed, own_folder
from .request import ask


def refuse_nobody(config, settings):
    """Refuses a managed settings file that names no organization. Otherwise a user could use the key of any
    organization, and so the rules of that organization."""
    if is_managed(config) and settings.organization_id is None:
        told = "`%s` names no organization, so a key of any one would count: run `install --managed` with SERVICE_ORG_ID"
        raise Refused(told % config)


def refuse_strange_key(settings, until):
    """Refuses a key that is not of the organization that an administrator has named. This happens before the call is
    sent. The service is asked once whose key it is, and a note stores that the key is right. A forged note does no
    harm: the service decides by the rules of the named organization, or denies the call. So a key that can only ask for
    decisions is not refused, although it may not read whose key it is."""
    if not settings.must_match:
        return
    path, noted = note_of_key(settings)
    try:
        with open(path, "rb") as file:
            if file.read(100) == noted:
                return
    except OSError:
        pass
    try:
        if key_organization(settings, until) != settings.organization_id:
            raise Refused(strange_key(settings))
    except Forbidden:
        pass
    draft = "%s.%d" % (path, os.getpid())
    try:
        os.makedirs(own_folder(), 0o700, True)
        with open(draft, "wb") as file:
            file.write(noted)
        os.replace(draft, path)
    except OSError:
        pass  # the next call asks again


def key_organization(settings, until):
    """Returns the organization of the key. Raises Forbidden if the key can only ask for decisions."""
    return text_of(ask(settings, "GET", "/me", None, until), "organization_id")


def strange_key(settings):
    told = "the key in `%s` is not of the organization `%s`, in which every call on this machine is decided: make a key there"
    return told % (settings.key_file, plain(settings.organization_id, 100))


def note_of_key(settings):
    """Returns the path of the note, and its text for this key. The text does not reveal the key."""
    from binascii import crc32

    name = "\n".join((settings.api_url, settings.organization_id, settings.key))
    return os.path.join(own_folder(), "key-checked"), b"%08x" % crc32(name.encode("utf-8", "replace"))


def checked_keys(place):
    """Returns a list with the path of this user's note. The list is empty if a managed hook still reads the note. HOME
    may name any folder, so a file that is not a note is left out."""
    path = os.path.join(own_folder(), "key-checked")
    if not place.managed and os.path.exists(Place(True).hook):
        return []
    try:
        with open(path, "rb") as file:
            text = file.read(100)
    except OSError:
        return []
    return [path] if len(text) == 8 and not text.strip(b"0123456789abcdef") else []
