"""Streams of server-sent events."""

from .constants import MAX_LINE, Failed


class Event:
    def __init__(self, data, number, retry):
        self.data = data  # bytes; None if the event has no message
        self.id = number  # None if the event has no id
        self.retry = retry  # seconds before the stream is resumed; None if the event names none


def lines_of(read):
    """Yields the lines of a stream without their line ends (CR, LF or CRLF). `read` returns the next bytes, or b"" at
    the end of the stream."""
    buffer, looked, after_return = bytearray(), 0, False
    while True:
        more = read()
        if not more:
            return
        if after_return and more[:1] == b"\n":
            more = more[1:]
        after_return = more[-1:] == b"\r"
        buffer += more.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        while True:
            end = buffer.find(b"\n", looked)
            if end < 0:
                looked = len(buffer)
                break
            yield bytes(buffer[:end])
            del buffer[: end + 1]
            looked = 0
        if len(buffer) > MAX_LINE:
            raise Failed("wrote a line of more than %d bytes" % MAX_LINE)


def events_of(read):
    """Yields the complete events of a stream. The protocol uses only the event type `message`. An event of another type
    loses its data, but keeps its `id` and `retry`."""
    data, size, kind, number, retry, seen = [], 0, b"", None, None, False
    for line in lines_of(read):
        line = line[3:] if not seen and line.startswith(b"\xef\xbb\xbf") else line
        seen = True
        if not line:
            message = b"\n".join(data) if data and kind in (b"", b"message") else None
            if message is not None or number is not None or retry is not None:
                yield Event(message or None, number, retry)
            data, size, kind, number, retry = [], 0, b"", None, None
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            size += len(value) + 1
            if size > MAX_LINE:
                raise Failed("wrote an event of more than %d bytes" % MAX_LINE)
            data.append(value)
        elif field == b"event":
            kind = value
        elif field == b"id" and len(value) <= 1000 and all(0x20 <= byte < 0x7F for byte in value):
            number = value.decode("ascii")
        elif field == b"retry" and value.isdigit() and len(value) < 12:
            retry = int(value) / 1000
