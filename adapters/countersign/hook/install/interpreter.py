"""The Python that runs the hook."""

import os
import sys

from ...shared.limits import Refused
from ..doctor.environment import run_line


def base_python():
    """Returns the path of this Python. In a virtual environment, returns its base Python, because the environment may
    be deleted."""
    return getattr(sys, "_base_executable", None) or sys.executable


PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


def chosen_python(options):
    """Returns the path of the Python for the client's settings. With --managed, every user must be able to run this
    Python, and only root may change it. With --root, this Python is in an image and cannot run here, so only its files
    are checked."""
    given = options.python
    if given is not None and not os.path.isabs(given):
        raise Refused("--python needs an absolute path, not `%s`" % given)
    if not options.managed or os.name == "nt":
        if given is not None and too_old(given):
            raise Refused(too_old(given))
        return given or base_python()
    candidates = [given] if given else list(PYTHONS) + ([] if options.root else [base_python()])
    there = [path for path in candidates if not options.root or os.path.lexists(options.root + path)]
    if options.root and not there:
        return candidates[0]
    reasons = []
    for path in there:
        reason = not_for_everybody(path, options.root) or (None if options.root else too_old(path))
        if reason is None:
            return path
        reasons.append(reason)
    advice = "install Python 3.8 or newer as %s, or name one with --python that every user can run and only root can change"
    raise Refused("%s: %s" % ("; ".join(reasons), advice % PYTHONS[0]))


def not_for_everybody(path, root=""):
    """Returns why some user cannot run this program, or can change it; None if there is no such reason. Checks every
    folder and symbolic link of the path. If `root` is given, links are followed inside the image, and files may belong
    to the user who builds the image."""
    import stat

    left, at, links = path.split("/"), "", 0
    while True:
        try:
            status = os.lstat(root + (at or "/"))
            target = os.readlink(root + at) if stat.S_ISLNK(status.st_mode) else None
        except OSError as error:
            return "`%s` cannot be found (%s)" % (path, error.strerror)
        shown = "`%s`" % path + ("" if at == path else " (by way of `%s`)" % (at or "/"))
        if target is not None:
            links += 1
            if links > 40:
                return "`%s` is a link to itself" % path
            at = "" if target.startswith("/") else at.rpartition("/")[0]
            left = target.split("/") + left
        elif at or not root:
            if status.st_mode & 0o022 or (not root and status.st_uid != 0):
                return shown + " can be changed by others than root"
            if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and not any(left))):
                return shown + " is no program"
            if status.st_mode & 0o011 != 0o011:
                return shown + " cannot be %s by every user" % ("run" if stat.S_ISREG(status.st_mode) else "entered")
            if stat.S_ISREG(status.st_mode):
                return None
        while left and left[0] in ("", "."):
            left.pop(0)
        if left:
            part = left.pop(0)
            at = at.rpartition("/")[0] if part == ".." else at + "/" + part
        elif target is None:
            return "`%s` is no program" % path


def too_old(python):
    """Returns why this program cannot run the hook; None if it can."""
    code, _, _ = run_line([python, "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
    return None if code == 0 else "`%s` is not Python 3.8 or newer" % python
