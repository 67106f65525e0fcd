"""The tests of `doctor` for Cursor."""

from .checks import Checks


class CursorChecks(Checks):
    open_ways = ()  # no version was tested, so `doctor` calls none protected anyway

    def entry(self, one, path, findings):
        if one.get("failClosed") is not True:
            findings.fail("`failClosed` is not true in %s: run `install` again" % path)
