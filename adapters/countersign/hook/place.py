"""The folders of an installation, and where clients keep their settings."""

import os
import sys

from ..shared.limits import Refused

OUR_NAME = "service_hook"
OUR_FILE = OUR_NAME + ".py"


def own_folder():
    """Returns this program's folder in the user's home."""
    if os.name == "nt":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "Countersign")
    return os.path.join(os.path.expanduser("~"), ".countersign")


class Place:
    """The folders of one installation: for one user, or for everybody on the machine (managed)."""

    def __init__(self, managed, root=""):
        self.managed = managed
        self.root = root
        if not managed:
            self.folder = own_folder()
        elif os.name == "nt":
            self.folder = "C:\\Program Files\\Countersign"
        else:
            self.folder = "/Library/Application Support/Countersign" if sys.platform == "darwin" else "/opt/countersign"
        self.hook = os.path.join(self.folder, OUR_FILE)
        self.config = os.path.join(self.folder, "hook.json")
        self.record = os.path.join(self.folder, "installed.json")

    def at(self, path):
        """Returns the path inside the folder of --root. Without --root, returns the path unchanged."""
        return self.root + path if self.root else path


def is_managed(config):
    """Returns whether these are the settings of the installation for everybody."""
    return config is not None and config == Place(True).config


def managed_file(name, files):
    linux, mac, windows = files
    path = windows if os.name == "nt" else mac if sys.platform == "darwin" else linux
    if path is None:
        raise Refused("managed settings of %s on this system are not known" % name)
    return path


def user_file(path, home_variable):
    steps = path.split("/")
    folder = os.environ.get(home_variable or "")
    return os.path.join(folder, *steps[1:]) if folder else os.path.join(os.path.expanduser("~"), *steps)
