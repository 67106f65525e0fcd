"""Servers over HTTP: their addresses, headers and certificate authorities."""

import re
import socket as sockets

from ..shared.limits import Refused
from ..shared.settings import is_loopback, read_private
from ..shared.text import plain
from .constants import CONNECT_SECONDS, Failed
from .environment import expand

# The gateway writes these headers itself, so the file of servers cannot set them.
OWN_HEADERS = (
    "accept accept-encoding connection content-length content-type host last-event-id mcp-protocol-version "
    "mcp-session-id te trailer transfer-encoding upgrade user-agent"
).split()
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class Address:
    """The address of a server, and the headers that its entry names, e.g. for its credentials."""

    def __init__(self, secure, host, port, target, headers, authorities):
        self.secure = secure
        self.host = host
        self.port = port
        self.target = target
        self.headers = headers
        self.context = None
        if secure:
            import ssl

            self.context = ssl.create_default_context(cadata=authorities)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def connect(self, patience):
        """Opens a connection and checks the certificate. Each later read or write on the connection waits at most
        `patience` seconds. Raises OSError."""
        from http.client import HTTPConnection, HTTPSConnection

        if self.secure:
            connection = HTTPSConnection(self.host, self.port, timeout=CONNECT_SECONDS, context=self.context)
        else:
            connection = HTTPConnection(self.host, self.port, timeout=CONNECT_SECONDS)
        connection.connect()
        connection.sock.settimeout(patience)
        connection.sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
        return connection


def address_of(said, key):
    """Returns the address in a server's entry. Raises Failed if the entry is wrong."""
    from urllib.parse import urlsplit

    if said.get("type", "http") not in ("http", "streamable-http"):
        told = "`type` is `%s`: the gateway knows `stdio` with a `command`, and `http` (streamable HTTP) with a `url`"
        raise Failed(told % plain(said["type"], 50))
    if "command" in said:
        raise Failed("it has a `command` and a `url`: leave one out")
    if not isinstance(said.get("url"), str):
        raise Failed("`url` must be a text")
    url, named = expand(said["url"]), said.get("headers", {})
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or not all("!" <= c <= "~" for c in url):
        raise Failed("`url` must be an address that begins with https:// or http://")
    if parts.username is not None or parts.fragment or "\\" in url:
        raise Failed("`url` must have no user and no fragment: put credentials into `headers`")
    secure = parts.scheme == "https"
    if not secure and not is_loopback(host) and said.get("allowHttp") is not True:
        raise Failed('`url` is plain http to another machine: use https, or add `"allowHttp": true`')
    if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
        raise Failed("`headers` must be an object of texts")
    headers = {name: expand(value).strip() for name, value in named.items()}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise Failed("the header `%s` cannot be set" % plain(name, 100))
        if not all(" " <= c <= "~" for c in value):
            raise Failed("the header `%s` has characters that no header may have" % name)
    if key and any(key in text for text in [url, *headers.values()]):
        raise Failed("its `url` or `headers` have the service's key, which no server may get")
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    try:
        return Address(secure, host, port or (443 if secure else 80), target, headers, authorities_of(said))
    except (OSError, ValueError):
        raise Failed("`caFile` has no certificates")


def authorities_of(said):
    """Returns the certificate authorities of `caFile`. Returns None if there is no `caFile`: then the machine's own
    authorities are used."""
    if "caFile" not in said:
        return None
    try:
        path = expand(said["caFile"]) if isinstance(said["caFile"], str) else None
        return read_private(path, False).decode("ascii", "replace")
    except Refused as error:
        raise Failed("`caFile`: %s" % error)
