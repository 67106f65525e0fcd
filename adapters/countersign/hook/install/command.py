"""The command `install`."""

import os
import sys

from ...shared.json import parse_json
from ...shared.limits import Refused
from ...shared.program import own_file
from ..clients import client_named, installable, installed_client
from ..ended import discard, left_ends, spool
from ..organization import checked_keys
from ..place import OUR_NAME, Place, own_folder
from .files import Change, alone, checksum, copy_of, missing_folders, pretty, read_text
from .interpreter import chosen_python
from .options import arguments
from .own_settings import kept_settings, own_settings, replaces_key
from .starter_rules import StarterRules


def read_record(place):
    """Reads the record of earlier installs: {client: {file, created, folders, written, options: [[path, earlier value,
    our value]]}}. Returns the text of the record, and then the record. The text shows later whether another run of
    `install` has changed the record."""
    text = read_text(place.at(place.record))
    found = parse_json(text) if text else {}
    return text, found if isinstance(found, dict) else {}


def part_change(place, python, client, part, record, uninstall):
    """Returns the change of one file of a client's settings, and the record with which the change can be undone."""
    path = client.settings_file(place, part)
    if uninstall and part in record:
        path = record[part]["file"]
    target = place.at(path)
    text = read_text(target)
    mode = 0o644 if place.managed else 0o600
    noted = record.get(part)
    if uninstall:
        return Change(target, text, restored(client, target, text, noted or {}), mode, copied=False), noted
    if noted is None:
        missing = missing_folders(place.at(place.hook)) + missing_folders(target)
        folders = sorted({folder[len(place.root) :] for folder in missing}, key=len, reverse=True)
        noted = {"file": path, "options": [], "folders": folders}
    after, options = client.with_hook(place, python, part, text, target)
    known = [steps for steps, _, _ in noted["options"]]
    noted["options"] += [each for each in options if each[0] not in known]
    first = text is None or (OUR_NAME not in text and (part == client.name or part not in record))
    if first or part not in record:
        noted = dict(noted, created=text is None)
    # If somebody has changed the file since the last install, the copy of the original is out of date. Then the record
    # gets no checksum, so that an uninstall does not simply restore the copy.
    untouched = first or noted.get("written") == checksum(text)
    return Change(target, text, after, mode, copied=first or None), dict(noted, written=checksum(after) if untouched else None)


def restored(client, path, text, noted):
    """Returns the settings without our entries. If the file is as `install` left it, returns the exact text from before
    `install`. Returns None if the file must be removed."""
    if text is None or (not noted and OUR_NAME not in text):
        return text  # `install` never changed it
    if noted.get("written") == checksum(text):
        kept = None if noted["created"] else read_text(copy_of(path))
        if kept is not None or noted["created"]:
            return kept
    return client.without_hook(path, text, noted)


def install(words):
    """Shows the changes, and writes them to the client's settings. Returns 0 if everything is as wanted."""
    options = arguments(words, "install", "Makes a client ask before each tool call, and block the call if it cannot ask.")
    client = installed_client(options.dialect)
    try:
        place = Place(options.managed, options.root)
        if options.managed and not options.root and hasattr(os, "geteuid") and os.geteuid() != 0:
            raise Refused("managed settings belong to root: run it as root, or without --managed for yourself")
        if options.managed and os.name == "posix":
            os.umask(0o022)  # with root's own umask, other users might not be able to enter the new folders
        recorded, before = read_record(place)
        if options.uninstall:
            changes, ends = removals(place, recorded, before, client)
            gone = [each for each in before if client is None or each in client.parts(place)]
            made = [place.at(folder) for each in gone for folder in before[each].get("folders", [])]
            made.sort(key=len, reverse=True)
            notes = [] if options.root or not all_gone(changes, place) else checked_keys(place)
        else:
            notes = []
            changes, ends = additions(place, recorded, before, client, chosen_python(options)), []
        rules = None
        if options.starter_rules:
            settings = next(each.after for each in changes if each.path == place.at(place.config))
            rules = StarterRules(parse_json(settings), options.starter_rules)
        changes = [each for each in changes if each.is_needed()]
        if not changes and not ends and not notes and not (rules and rules.changes):
            print("nothing to change")
            if rules and rules.lacking:
                print("not changed: " + rules.lacking)
            return 0
        show(changes, rules, ends, notes)
        if not options.yes and not agreed():
            print("nothing was changed")
            return 1
        with alone(place.at(place.folder), not place.managed):
            for each in changes:
                if read_text(each.path) != each.before:
                    raise Refused("`%s` was changed meanwhile and was not touched: run `install` again" % each.path)
            for each in changes:
                each.apply(not place.managed)
            for path in [os.path.join(spool(), name) for name in ends] + notes:
                discard(path)
        if rules:
            rules.save()
            note = rules.note()
            if note:
                print("next: " + note)
        if options.uninstall:
            remove_empty([] if options.root else [spool()])
            remove_empty([place.at(place.folder)] + made + ([] if options.root else [own_folder()]))
    except (Refused, OSError) as error:
        sys.stderr.write("install: %s\n" % error)
        return 1
    if not options.uninstall:
        say_next(place, options)
    elif place.managed:
        print("each user's own ~/.countersign, with the key, stays")
    return 0


def additions(place, recorded, record, client, python):
    """Returns the changes that make a client ask: first our own files, then the settings of the client. Prints the
    saved values that stay."""
    parts = [(part,) + part_change(place, python, client, part, record, False) for part in client.parts(place)]
    mode = 0o644 if place.managed else 0o600
    hook, config, noting = (place.at(path) for path in (place.hook, place.config, place.record))
    # The installed hook is a copy of this file. This file may itself be the installed one.
    own = read_text(own_file())
    before = read_text(config)
    after = pretty(own_settings(place, before))
    for each in kept_settings(before, after):
        print("kept from an earlier install: %s; an empty variable removes it" % each)
    if replaces_key(before, after):
        print("api_key: replaced (not shown)")
    return [
        Change(hook, read_text(hook), own, 0o755, True),
        Change(config, before, after, mode, True),
        Change(noting, recorded, pretty(dict(record, **{part: noted for part, _, noted in parts})), mode, True),
    ] + [change for _, change, _ in parts]


def removals(place, recorded, record, client):
    """Returns the changes that remove one client, or all clients. The settings come first. If no client is left, our
    own files follow. Also returns the names of the notes that must be deleted."""
    changes, left = [], dict(record)
    for one, each in [(one, part) for one in ([client] if client else installable()) for part in one.parts(place)]:
        try:
            changes.append(part_change(place, None, one, each, record, True)[0])
        except Refused:
            # Settings that cannot be read stay as they are if `install` never changed them.
            if client or each in record:
                raise
        folders = left.pop(each, {}).get("folders", [])
        if left:
            # `install` made these folders. The settings of another client may be in them too. So the folders move to
            # the record of another client, and an uninstall of that client removes them.
            other = sorted(left)[0]
            left[other] = dict(left[other], folders=left[other].get("folders", []) + folders)
    noting, config, hook = (place.at(path) for path in (place.record, place.config, place.hook))
    if left:
        if left != record:
            changes.append(Change(noting, recorded, pretty(left), 0o644 if place.managed else 0o600, True))
        return changes, []
    changes.append(Change(noting, recorded, None, 0o600, True))
    changes += [Change(path, read_text(path), None, 0o600, True) for path in (config, hook)]
    # A managed hook and a user's own hook write their notes of ended sessions to the same folder.
    shared = place.managed or os.path.exists(Place(True).hook)
    return changes, [] if shared else left_ends(spool())


def show(changes, rules, ends, notes):
    """Prints the planned changes."""
    for each in changes:
        sys.stdout.write(each.shown())
    for words, _, _, _ in rules.changes if rules else ():
        print(words)
    if rules and rules.lacking:
        print("not changed: " + rules.lacking)
    if ends:
        several = "1 session whose end" if len(ends) == 1 else "%d sessions whose ends" % len(ends)
        print("remove %s, with %s could not be reported" % (spool(), several))
    for path in notes:
        print("remove %s" % path)
    sys.stdout.flush()


def all_gone(changes, place):
    """Returns whether no client is left: the hook itself is removed now, or was removed earlier."""
    hook = place.at(place.hook)
    return read_text(hook) is None or any(change.path == hook and change.after is None for change in changes)


def remove_empty(folders):
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it has other files, or does not exist


def agreed():
    if not sys.stdin.isatty():
        sys.stderr.write("install: there is no terminal for a question: add --yes\n")
        return False
    return input("write this? [y/N] ").strip().lower() in ("y", "yes")


def say_next(place, options):
    python = chosen_python(options)
    if "SSL_CERT_DIR" in os.environ and "SSL_CERT_FILE" not in os.environ:
        print("next: SSL_CERT_DIR does not count beside hook.json: name one file of authorities with SSL_CERT_FILE")
    if options.root and not os.path.lexists(options.root + python):
        print("next: the image has no %s yet: it needs Python 3.8 or newer there, or at the path of --python" % python)
    after_install = client_named(options.dialect).after_install
    if after_install is not None and not place.managed:
        print("next: " + after_install)
    if place.managed:
        print("next: each user keeps a key in ~/.countersign/key, which only they can read (chmod 600)")
    print("next: python3 %s doctor --dialect %s%s" % (place.hook, options.dialect, " --managed" * place.managed))
