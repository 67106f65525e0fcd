import sys
from _frozen_importlib import ModuleSpec

SOURCES = {}  # the texts of the modules below, by their paths


class Importer:
    """Imports the modules of this file. Each is compiled when it is imported first, because a process starts for every
    tool call: Python would take longer to compile them all than the call takes."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "countersign":
            return None
        file = name.replace(".", "/")
        is_module = file + ".py" in SOURCES
        if not is_module and not any(each.startswith(file + "/") for each in SOURCES):
            return None
        origin = file + ".py" if is_module else file + "/__init__.py"
        return ModuleSpec(name, Importer, origin=origin, is_package=not is_module)

    @staticmethod
    def create_module(spec):
        return None  # Python makes an ordinary one

    @staticmethod
    def exec_module(module):
        origin = module.__spec__.origin
        exec(compile(SOURCES.get(origin, ""), __file__ + "/" + origin, "exec", 0, True), module.__dict__)

    @staticmethod
    def get_source(name):
        return SOURCES.get(sys.modules[name].__spec__.origin)


if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the folder of this file: a module of Python is not taken from a folder of downloads
sys.meta_path.insert(0, Importer)
