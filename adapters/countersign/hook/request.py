"""Requests to the service."""

from ..shared.decision import answered_object
from ..shared.http import Connection
from ..shared.limits import VERSION

# A process makes only few requests, so no connection stays open.
HEADERS = ["User-Agent: countersign-hook/" + VERSION, "Connection: close"]


def request(settings, method, path, body, until):
    """Sends one request over a new connection. Returns the status and body of the answer. Raises Unreachable and
    Refused."""
    connection = Connection(settings, until, HEADERS)
    try:
        return connection.exchange(method, path, body)
    finally:
        connection.close()


def ask(settings, method, path, body, until):
    """Sends a request and returns the JSON object of the answer. Raises Unreachable as `request` does. Raises Refused
    if the status is not 200, or if the answer is not a JSON object."""
    return answered_object(*request(settings, method, path, body, until))
