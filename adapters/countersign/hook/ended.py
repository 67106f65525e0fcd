"""The notes of ended sessions. A note stays until the service knows of the end."""

import os
import sys

from ..shared.program import own_file
from .place import own_folder


def spool():
    """Returns the folder of the notes. There is one note for each ended session that the service does not know of yet.
    The note is a file that contains only the session's id."""
    return os.path.join(own_folder(), "ended-sessions")


def end_file(settings_url, session_id):
    from binascii import crc32, hexlify

    where = "%08x" % crc32((settings_url or "").encode("utf-8", "replace"))
    return where + "-" + hexlify(session_id.encode("utf-8", "replace")[:90]).decode("ascii")


def keep_end(settings, session_id):
    """Writes the note of an ended session. Returns the path of the note, or None if it cannot be written."""
    folder = spool()
    name = os.path.join(folder, end_file(settings.api_url, session_id))
    draft = "%s.%d" % (name, os.getpid())
    try:
        os.makedirs(folder, 0o700, True)
        with open(draft, "wb") as file:
            file.write(session_id.encode("utf-8", "replace"))
        os.replace(draft, name)
    except OSError:
        return None
    return name


def left_ends(folder):
    """Returns the names of the notes in the folder. HOME may name any folder, so other files are left out. A folder
    that another user owns or can change is not read."""
    try:
        status = os.lstat(folder)
        names = os.listdir(folder)
    except OSError:
        return []
    if os.name == "posix" and (status.st_mode & 0o170022 != 0o040000 or status.st_uid != os.getuid()):
        return []
    digits = "0123456789abcdef"
    return [
        name for name in names if name[8:9] == "-" and not name[:8].strip(digits) and not name[9:].strip(digits + ".")
    ]


def flush_ends(settings, call, options):
    """Handles the notes of ended sessions. Deletes the note of this session, because the session goes on. Sends the
    other notes in a background process."""
    folder = spool()
    names = [name for name in left_ends(folder) if "." not in name]
    if not names:
        return
    own = end_file(settings.api_url, call.session_id)
    if own in names:
        names.remove(own)
        try:
            os.unlink(os.path.join(folder, own))
        except OSError:
            pass
    if names:
        start_beside("flush", options)


def start_beside(command, options):
    """Starts this program as a background process, independent of the client and its terminal."""
    import subprocess

    words = [sys.executable, "-I", "-S", own_file(), command]
    if options.config is not None:
        words += ["--config", options.config]
    null = subprocess.DEVNULL
    detached = getattr(subprocess, "DETACHED_PROCESS", 0)  # Windows has no process sessions
    try:
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True, creationflags=detached)
    except OSError:
        pass


def discard(path):
    """Deletes a file, unless another process has deleted it already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
