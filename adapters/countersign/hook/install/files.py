"""Reads and changes settings files."""

import os

from ...shared.json import parse_json
from ...shared.limits import Refused
from ..place import OUR_FILE


def version_of(text):
    """Returns the first version in a text as a tuple of numbers. Example: 2.1.295 becomes (2, 1, 295)."""
    import re

    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def read_text(path):
    """Returns a file's text with unchanged line ends; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("`%s` cannot be read: %s" % (path, error))


def read_settings(path):
    """Returns a client's JSON settings; an empty object if there are none."""
    return settings_of(read_text(path), path)


def settings_of(text, path):
    if text is None or not text.lstrip("\ufeff").strip():
        return {}
    try:
        found = parse_json(text.lstrip("\ufeff"))
    except ValueError as error:
        raise Refused("`%s` is not plain JSON (%s): comments would be lost, add the hooks by hand" % (path, error))
    if not isinstance(found, dict):
        raise Refused("`%s` is not a JSON object" % path)
    if not isinstance(found.get("hooks", {}), dict):
        raise Refused("`hooks` in `%s` is not an object" % path)
    return found


def pretty(value):
    import json

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def like(text, before):
    """Returns the new text with the byte order mark and the line ends of the old text."""
    if before is None:
        return text
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    return mark + (text.replace("\n", "\r\n") if "\r\n" in before else text)


def checksum(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def missing_folders(path):
    """Returns the folders of a path that do not exist, the deepest first."""
    found, folder = [], os.path.dirname(path)
    while folder and not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


class alone:
    """A lock on the folder of an installation. While one run of `install` has the lock, other runs wait. There is no
    lock on Windows."""

    def __init__(self, folder, private):
        self.folder = folder
        self.private = private

    def __enter__(self):
        os.makedirs(self.folder, 0o700 if self.private else 0o755, True)
        self.held = None
        if os.name == "posix":
            import fcntl

            self.held = os.open(self.folder, os.O_RDONLY)
            fcntl.flock(self.held, fcntl.LOCK_EX)

    def __exit__(self, *_):
        if self.held is not None:
            os.close(self.held)


class Change:
    """One file, with its text before and after a change. The text is None if there is no file. A client's settings keep
    their mode, and a copy of the first original stays until the uninstall. Our own files get the given mode."""

    def __init__(self, path, before, after, mode, ours=False, copied=None):
        self.path = path
        self.before = before
        self.after = after
        self.mode = mode
        self.ours = ours
        self.copied = copied  # True: keep a copy of the original. False: remove the copy. None: do neither

    def is_needed(self):
        return self.before != self.after or (self.copied is False and os.path.exists(copy_of(self.path)))

    def shown(self):
        """Returns the difference as text, without the key."""
        import difflib

        if os.path.basename(self.path) == OUR_FILE:
            return "%s %s\n" % ("remove" if self.after is None else "write", self.path)
        texts = [hidden(text or "").splitlines(True) for text in (self.before, self.after)]
        names = [self.path if self.before is not None else "nothing", self.path if self.after is not None else "nothing"]
        return "".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(*texts, *names))

    def apply(self, private):
        """Writes the new text to a draft, and replaces the file with the draft. If there is no new text, removes the
        file."""
        path = os.path.realpath(self.path)
        copy = copy_of(path)
        os.makedirs(os.path.dirname(path), 0o700 if private else 0o755, True)
        if self.copied and self.before is not None:
            self.write(copy, self.before)
        if self.before == self.after:
            pass
        elif self.after is None:
            os.unlink(path)
        else:
            self.write(path, self.after)
        if self.copied is False and os.path.exists(copy):
            os.unlink(copy)

    def write(self, path, text):
        try:
            status = os.stat(os.path.realpath(self.path))
        except OSError:
            status = None
        mode = self.mode if self.ours or status is None else status.st_mode & 0o777
        draft = "%s.%d.new" % (path, os.getpid())
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, mode)
            if status is not None and not self.ours and hasattr(os, "chown") and os.geteuid() == 0:
                os.chown(draft, status.st_uid, status.st_gid)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise


def hidden(text):
    """Returns a text of settings without the key, and without the user and password of the proxy."""
    import re

    text = re.sub(r'("api_key": ")[^"]*', r"\1(not shown)", text)
    return re.sub(r'("https_proxy": ")[^"]*@', r"\1(not shown)@", text)


def copy_of(path):
    return os.path.realpath(path) + ".before-countersign"


def look_up(settings, path):
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def put(settings, path, value):
    """Returns a copy of the settings with the value at the path. The value None removes the entry. Tables that become
    empty are removed too."""
    found = dict(settings)
    if len(path) > 1:
        below = put(settings.get(path[0]) or {}, path[1:], value)
        value = below if below else None
    if value is None:
        found.pop(path[0], None)
    else:
        found[path[0]] = value
    return found
