"""Strict JSON. The module json is loaded only where its C parts cannot be used."""

from .limits import LARGEST, Refused


def once(pairs):
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return read


def whole(digits):
    # The time to read a number grows with the square of its number of digits. Other threads cannot run meanwhile.
    if len(digits) > 400:
        raise ValueError("a number has %d digits" % len(digits))
    return int(digits)


def constant(name):
    raise ValueError("`%s` is not JSON" % name)


try:
    # These are the C parts of the module json. Its Python part loads regular expressions, which takes as long as a
    # request to the service.
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    class Reading:
        """The settings that json.JSONDecoder gives to the scanner."""

        strict = True
        object_hook = None
        object_pairs_hook = staticmethod(once)
        parse_float = float
        parse_int = staticmethod(whole)
        parse_constant = staticmethod(constant)
        memo = {}

    scan = make_scanner(Reading())
    encoders = [
        make_encoder(None, None, quote, None, ":", ",", False, False, False)
        for quote in (encode_basestring, encode_basestring_ascii)
    ]
except (ImportError, TypeError, AttributeError):
    scan = encoders = None


def parse_json(text):
    """Reads strict JSON: no repeated names, no NaN, no numbers of more than 400 digits. Raises ValueError."""
    if scan is not None:
        try:
            stripped = text.strip(" \t\r\n")
            value, end = scan(stripped, 0)
            if end == len(stripped):
                return value
        except Exception:
            pass  # on an error, the whole module json reads the text again and raises the right error
    import json

    try:
        return json.loads(text, object_pairs_hook=once, parse_int=whole, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply")


def to_json(value, ascii_only=False):
    """Returns compact JSON as bytes, in UTF-8 or in ASCII. Half of a surrogate pair is written as its escape. Raises
    ValueError."""
    try:
        if encoders is None:
            import json

            text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
        else:
            text = "".join(encoders[ascii_only](value, 0))
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return to_json(value, True)
    except RecursionError:
        raise ValueError("nested too deeply")


def refuse_inexact(arguments):
    """Refuses numbers that the service would round. Otherwise an approval of one number would also cover nearby
    numbers."""
    rest = [arguments]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, (int, float)) and not -LARGEST <= one <= LARGEST:
            raise Refused("the arguments have a number beyond %d, which other programs round: give it as text" % LARGEST)
