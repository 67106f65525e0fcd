# Limits, and the two errors that a request to the service can raise.

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # maximum bytes of an authorize request: the service refuses more
MAX_ANSWER = MIB  # maximum bytes of an answer of the service
ASK_SECONDS = 20  # if no answer comes for this long, the service counts as unreachable
POLL_SECONDS = 30  # the longest wait that the service accepts for a poll
DEFAULT_WAIT = 55  # less than the minute after which many clients give up a call
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads exactly: the limit of a double


class Refused(Exception):
    """This error blocks the call in both fail modes. Its text is the reason."""


class Unreachable(Exception):
    """The service gave no answer, or an answer with 5xx. The fail mode decides."""
