# Functions that refuse values in JSON.

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
