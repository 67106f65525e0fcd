"""Reads the file that names the servers."""


from ..shared.json import parse_json
from ..shared.limits import LARGEST, Refused
from ..shared.settings import read_private
from .constants import Failed
from .environment import OUR_KEY, base_environment, expand
from .http_address import address_of
from .messages import is_whole
from .names import server_token


class Server:
    """One server of the file, and how the gateway starts or reaches it."""

    def __init__(self, name, said, key):
        self.name = name
        self.said = said if isinstance(said, dict) else {}
        self.key = key
        limit = self.said.get("timeout")
        self.timeout = limit / 1000 if is_whole(limit) and 0 < limit <= LARGEST else None
        self.is_remote = "url" in self.said or self.said.get("type", "stdio") != "stdio"

    def command(self):
        """Returns three things: the program with its arguments, the environment, and the working folder. The folder is
        None if the entry has no working folder. Raises Failed if the server cannot be started."""
        said = self.said
        args, named = said.get("args", []), said.get("env", {})
        if not isinstance(said.get("command"), str) or said["command"] == "":
            raise Failed("`command` must be a text")
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise Failed("`args` must be a list of texts")
        if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
            raise Failed("`env` must be an object of texts")
        if "cwd" in said and not isinstance(said["cwd"], str):
            raise Failed("`cwd` must be a text")
        env = base_environment()
        env.update((name, expand(value)) for name, value in named.items())
        if OUR_KEY in env or (self.key and any(self.key in value for value in env.values())):
            raise Failed("its `env` has the service's key, which no server may get")
        words = [expand(word) for word in [said["command"]] + args]
        if self.key and any(self.key in word for word in words):
            raise Failed("its `args` have the service's key, which no server may get")
        import shutil

        # On Windows, `npx` is the file `npx.cmd`. Only `which` finds this file.
        found = shutil.which(words[0], path=env.get("PATH"))
        if found is None:
            raise Failed("the program `%s` cannot be found" % words[0])
        return [found] + words[1:], env, expand(said["cwd"]) if "cwd" in said else None

    def address(self):
        """Returns the address of a server over HTTP. Raises Failed."""
        return address_of(self.said, self.key)


def read_servers(path, key):
    """Returns the servers of the file, in the order of the file. Raises Refused if the file is wrong."""
    try:
        found = parse_json(read_private(path, False).decode("utf-8").lstrip("\ufeff"))
    except ValueError:
        raise Refused("`%s` is not JSON" % path)
    named = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(named, dict):
        raise Refused("`%s` has no object `mcpServers`" % path)
    servers = {}
    for name, said in named.items():
        if isinstance(said, dict) and said.get("disabled") is True:
            continue
        short = server_token(name)
        if short == "":
            raise Refused("the server's name `%s` has no character that is allowed in names of tools" % name)
        if short in servers:
            raise Refused("two servers have the name `%s` in the names of their tools" % short)
        servers[short] = Server(short, said, key)
    return list(servers.values())
