"""Settings, from the environment and from a settings file."""

import os

from .json import parse_json
from .limits import DEFAULT_WAIT, MIB, Refused

CONFIG_KEYS = (
    "api_url",
    "api_key",
    "api_key_file",
    "fail_mode",
    "approval_wait",
    "organization_id",
    "allow_http",
    "https_proxy",
    "ca_file",
)

# A project's settings may set environment variables. So if there is a settings file, the environment cannot set the
# values of FILE_ALONE. If the file names the service or a key, the environment also cannot set the service or the
# organization (docs/decisions/0053).
FILE_ALONE = ("fail_mode", "allow_http", "https_proxy", "ca_file")
WHO_IS_ASKED = ("api_url", "organization_id")

# These variables can make OpenSSL trust other authorities, load code, or write the keys of a connection to a file.
OPENSSL_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSLKEYLOGFILE",
)
removed_variables = {}  # the removed values: a server of the gateway can still use them in its `env`


class Settings:
    """The settings for requests to the service, such as its address and the key. If the settings file and the
    environment set the same value, the file's value is used."""

    def __init__(self, config=None):
        named = read_config(config) if config is not None else {}

        unheard = FILE_ALONE if config is not None else ()
        if any(key in named for key in ("api_url", "api_key", "api_key_file")):
            unheard += WHO_IS_ASKED
        if config is not None:
            for name in OPENSSL_VARIABLES:
                removed_variables[name] = os.environ.pop(name, None)

        def value(key, variable):
            found = named.get(key, os.environ.get(variable) if key not in unheard else None)
            return found.strip() if isinstance(found, str) else found

        mode = value("fail_mode", "SERVICE_FAIL_MODE")
        self.fail_open = mode == "open"
        self.organization_id = value("organization_id", "SERVICE_ORG_ID") or None
        self.wait = seconds(value("approval_wait", "SERVICE_APPROVAL_WAIT"), DEFAULT_WAIT)
        self.api_url = value("api_url", "SERVICE_API_URL")
        self.key = value("api_key", "SERVICE_API_KEY")
        if "api_key_file" in named and "api_key" not in named:
            self.key = read_private(named["api_key_file"], True).decode("utf-8", "replace").strip()
        self.key_file = named.get("api_key_file")
        # An administrator has chosen the organization if the file names an organization and a path for the key. Each
        # user then keeps a key at this path. The key must be of the chosen organization.
        self.must_match = "organization_id" in named and self.key_file is not None and "api_key" not in named
        allow_http = value("allow_http", "SERVICE_ALLOW_HTTP")
        self.allow_http = allow_http in (True, "1", "true", "yes")
        self.proxy = value("https_proxy", "https_proxy")
        if config is None:
            self.proxy = self.proxy or os.environ.get("HTTPS_PROXY")
        self.no_proxy = "" if config is not None else os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self.ca_file = named.get("ca_file")

    def check(self):
        """Refuses settings with which no request is possible."""
        if not self.api_url:
            raise Refused("SERVICE_API_URL is not set: name the service's address")
        if not self.key:
            raise Refused("SERVICE_API_KEY is not set: give the agent a key with the scope `agents:authorize`")
        if not all("!" <= c <= "~" for c in self.key):
            raise Refused("SERVICE_API_KEY has characters that no key has")
        self.secure, self.host, self.port, self.prefix = read_url(self.api_url)
        if not self.secure and not self.allow_http and not is_loopback(self.host):
            raise Refused("SERVICE_API_URL is plain http to another machine: use https, or set SERVICE_ALLOW_HTTP=1")


def seconds(text, default):
    """Reads a number of seconds, at least 0 and below 1,000,000. Returns the default if the text is not such a
    number."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def read_url(url):
    """Splits an address into four parts: whether the address uses https, the host, the port, and the path. The path is
    returned without `/api/v1` at its end. Refuses addresses that must not get the key."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    secure = scheme.lower() == "https"
    if not mark or (not secure and scheme.lower() != "http"):
        raise Refused("SERVICE_API_URL must begin with https:// or http://")
    if any(c in url for c in "?#@\\") or not all("!" <= c <= "~" for c in url):
        raise Refused("SERVICE_API_URL must be an address without user, query or fragment")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port[1:]
    else:
        host, _, port = authority.partition(":")
    if not host or (port and not port.isdigit()):
        raise Refused("SERVICE_API_URL names no host")
    prefix = (slash + path).rstrip("/")
    for version in ("/api/v1", "/v1"):
        if prefix.endswith(version):
            prefix = prefix[: -len(version)]
    return secure, host, int(port) if port else (443 if secure else 80), prefix


def is_loopback(host):
    numbers = host.split(".")
    return host in ("localhost", "::1") or (
        len(numbers) == 4 and numbers[0] == "127" and all(n.isdigit() and int(n) < 256 for n in numbers)
    )


def home():
    """Returns the user's home folder from the system's list of users, because a project's settings may change HOME."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def read_private(path, secret):
    """Returns at most the first MiB of a file. Refuses a file that other users can change. If `secret` is true or the
    file contains an `api_key`, also refuses a file that other users can read."""
    if not isinstance(path, str):
        raise Refused("`api_key_file` and `ca_file` must be paths")
    if path.startswith("~/"):
        path = os.path.join(home(), path[2:])
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(MIB)
    except OSError as error:
        raise Refused("`%s` cannot be read: %s" % (path, error.strerror))
    if os.name == "posix":
        if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
            raise Refused("`%s` can be changed by other users: chown it to its user and chmod go-w" % path)
        if (secret or b'"api_key"' in text) and status.st_mode & 0o077:
            raise Refused("`%s` has a key and can be read by other users: chmod 600" % path)
    return text


def read_config(path):
    """Returns the settings in a settings file. Refuses a file with an unknown setting."""
    try:
        found = parse_json(read_private(path, False).decode("utf-8"))
    except ValueError:
        raise Refused("`%s` is not JSON" % path)
    if not isinstance(found, dict):
        raise Refused("`%s` is not a JSON object" % path)
    unknown = [key for key in found if key not in CONFIG_KEYS]
    if unknown:
        raise Refused("`%s` has the unknown setting `%s`: there are %s" % (path, unknown[0], ", ".join(CONFIG_KEYS)))
    return found
