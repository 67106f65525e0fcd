# Limits, and the two errors of a question.

VERSION = "0.1.0"

MIB = 1024 * 1024
MAX_BODY = 4 * MIB  # bytes of an authorize request: the service refuses a larger one
MAX_ANSWER = MIB  # bytes of an answer of the service
ASK_SECONDS = 20  # without an answer for this long the service counts as unreachable
POLL_SECONDS = 30  # the longest wait that the service accepts for a poll
DEFAULT_WAIT = 55  # less than the minute after which many clients give up a call
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON reads exactly: the limit of a double


class Refused(Exception):
    """Blocks the call in both fail modes; the text is the reason."""


class Unreachable(Exception):
    """The service gave no answer, or an answer with 5xx. The fail mode decides."""
