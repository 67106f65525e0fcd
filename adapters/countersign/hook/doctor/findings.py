"""What `doctor` prints, and its verdict."""


class Findings:
    """Prints the findings line by line, and then gives the verdict."""

    def __init__(self):
        self.failed = False
        self.unproven = False
        self.untried = False
        self.enforced = True  # users cannot change the settings

    def ok(self, text):
        print("ok    " + text)

    def note(self, text):
        print("note  " + text)

    def doubt(self, text):
        """Reports that something could not be tested here. The calls may be protected or not."""
        self.unproven = True
        print("??    " + text)

    def not_tried(self, text):
        """Reports that the client is not installed yet, so that it could not be tested."""
        self.untried = True
        print("??    " + text)

    def fail(self, text):
        self.failed = True
        print("FAIL  " + text)

    def verdict(self):
        if self.failed:
            return "NOT protected"
        if self.unproven:
            return "not proven: see to the lines with ??"
        if self.untried:
            return "not tried: see to the lines with ??"
        return "protected" if self.enforced else "works"
