"""Reads the client's event and its call."""

import os

from ..shared.json import parse_json, refuse_inexact
from ..shared.limits import MIB, Refused
from ..shared.text import plain, text_of
from .arguments import canonical_arguments, is_absolute
from .place import is_managed

MAX_INPUT = 32 * MIB  # maximum bytes of an event. With escapes, an event can be six times as long as the request
# Tools whose argument is a text and not an object.
FREE_TEXT = ("apply_patch",)


class Call:
    """One tool call, with the data that the service is asked about."""

    def __init__(self, client, event, session_id, tool, arguments, use_id, refused, also=(), cwd=None):
        self.client = client
        self.event = event
        self.session_id = session_id
        self.tool = tool
        self.arguments = arguments
        self.use_id = use_id
        self.refused = refused  # why the hook refuses the call without asking the service; None if it asks
        self.cwd = cwd  # the client's folder, as its event names it; None if it names none
        self.also = also  # further calls that this call also makes; the service is asked about each of them


def session_of(event):
    return text_of(event, "session_id", "sessionId", "conversation_id")


def read_call(client, event):
    """Reads the call in a client's event. Refuses an event without a session, a tool or arguments."""
    session_id = session_of(event)
    if session_id is None:
        raise Refused("the client named no session: this event is not one of a tool call")
    name = event.get("hook_event_name", event.get("hookEventName"))
    tool, arguments = client.call_in(event)
    if not isinstance(tool, str):
        raise Refused("the client named no tool: this event is not one of a tool call")
    context = event.get("mcp_context")
    canonical = client.canonical_name(tool, context)
    refused, cwd, also = None, event.get("cwd"), []
    folder = cwd if is_absolute(cwd) else None
    try:
        client.refuse_tool(tool, context)
        arguments = as_object(tool, arguments)
        refuse_inexact(arguments)
        arguments = canonical_arguments(client, canonical, arguments, folder)
        if tool == "apply_patch" and canonical == "Edit" and not arguments.get("file_path"):
            raise Refused("the patch names no file: begin it with `*** Begin Patch`, and name each file")
        also = client.further_calls(canonical, arguments, folder)
    except Refused as error:
        # The refusal is stored and not raised, because `post` must report the call if it ran anyway.
        refused = str(error)
        arguments = arguments if isinstance(arguments, dict) else {"input": arguments}
    use_id = text_of(event, "tool_use_id", "toolUseId")
    parts = [Call(client, name, session_id, other, given, use_id and use_id + ":" + other, None) for other, given in also]
    return Call(client, name, session_id, canonical, arguments, use_id, refused, parts, cwd)


def calls_of(call, config):
    """Returns the calls about which the service must decide before this call may run. If the model could type into the
    call's program without an event, the list also has a call of `write_stdin`."""
    found = [call] + list(call.also)
    if call.refused is None and call.client.may_type(call, is_managed(config)):
        given, use_id = {"command": call.arguments.get("command")}, call.use_id and call.use_id + ":write_stdin"
        found.append(Call(call.client, call.event, call.session_id, "write_stdin", given, use_id, None, (), call.cwd))
    return found


def as_object(tool, arguments):
    """Returns the arguments as an object, for rules. Some clients send the object as JSON text, and a few tools take a
    text that is not JSON. Refuses other values, because a client may understand something in them that rules do not
    see."""
    if isinstance(arguments, str):
        text = arguments.strip().lstrip("\ufeff").lstrip()
        if text[:1] in ("{", "[", '"'):
            try:
                arguments = parse_json(text)
            except ValueError as error:
                raise Refused("the arguments are text that is not a JSON object: %s" % plain(error, 200))
        elif text in ("", "null"):
            arguments = None
        elif tool in FREE_TEXT:
            arguments = {"input": arguments}
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise Refused("the arguments are not an object: give each one with its name")
    return arguments


def read_event():
    """Reads the client's event from standard input. Refuses input that is not one JSON object in UTF-8."""
    if os.isatty(0):
        raise Refused("expected a client's hook event on standard input; `doctor` sends one")
    chunks, size = [], 0
    while True:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        size += len(chunk)
        if size <= MAX_INPUT:
            chunks.append(chunk)
    if size > MAX_INPUT:
        raise Refused("this call's event is %s bytes long, over the %s that are read" % (size, MAX_INPUT))
    try:
        event = parse_json(b"".join(chunks).decode("utf-8").lstrip("\ufeff"))
    except ValueError as error:
        kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise Refused("the client's event cannot be read: it is not %s" % kind)
    if not isinstance(event, dict):
        raise Refused("the client's event cannot be read: it is not a JSON object")
    return event
