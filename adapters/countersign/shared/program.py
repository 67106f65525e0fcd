"""The program itself."""

import os
import sys


def own_file():
    """Returns the path of the file that was started, which has all modules."""
    return os.path.abspath(sys.modules["__main__"].__file__)
