"""Limits, and the two errors that a request to the service can raise."""

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # maximum bytes of an authorize request: the service refuses more
MAX_ANSWER = MIB  # maximum bytes of an answer of the service
ASK_SECONDS = 20  # if no answer comes for this long, the service counts as unreachable
POLL_SECONDS = 30  # the longest wait that the service accepts for a poll
DEFAULT_WAIT = 55  # less than the minute after which many clients give up a call
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads exactly: the limit of a double


class Refused(Exception):
    """An error that blocks the call in both fail modes. The text of the error is shown as the reason."""


class Forbidden(Refused):
    """The service answers 403: the key may not send this request."""


class Unreachable(Exception):
    """The error for a missing answer of the service, or for an answer with a status of 5xx. The fail mode decides
    whether the call runs."""
