"""Reads JSON: strictly from the client, and less strictly from servers. Writes JSON."""

import json
import re
import sys

from ..shared.json import constant, once, whole


def finite(digits):
    # Python reads a number beyond the range of doubles as infinity, which JSON does not have. This returns the largest
    # double instead.
    return max(-sys.float_info.max, min(sys.float_info.max, float(digits)))


def countable(digits):
    # A whole number beyond the range of doubles becomes the largest double too. Python cannot add such a number to a
    # double, and clients read it as infinity.
    number = whole(digits)
    return number if abs(number) <= sys.float_info.max else finite(digits)


# In a client's message, no name may occur twice in one object. Otherwise the service could decide about one value, and
# the server could use the other value. A server's result may repeat a name, because the result is passed on unchanged.
STRICT = json.JSONDecoder(object_pairs_hook=once, parse_int=whole, parse_constant=constant)
LOOSE = json.JSONDecoder(parse_int=countable, parse_float=finite, parse_constant=constant)
BLANK = re.compile(r"[ \t\r\n]*")
