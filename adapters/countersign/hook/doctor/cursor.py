"""The tests of `doctor` for Cursor."""

from .checks import Checks


class CursorChecks(Checks):
    def entry(self, one, path, findings):
        if one.get("failClosed") is not True:
            findings.fail("`failClosed` is not true in %s: run `install` again" % path)
