"""The shapes of entries and messages in the protocol."""

import re

from ..shared.text import token
from .constants import LEVELS
from .messages import is_sayable, parts

# A strict client refuses a whole list because of one wrong entry, and so loses the entries of all other servers. These
# shapes describe what the strictest clients accept. Members that are not named here may have any value.


def is_text(value):
    return isinstance(value, str)


def is_flag(value):
    return isinstance(value, bool)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_object(value):
    return isinstance(value, dict)


def is_part(value):
    return isinstance(value, (dict, list))


def is_share(value):
    return is_number(value) and 0 <= value <= 1


def one_of(*known):
    return lambda value: isinstance(value, str) and value in known


def each_of(check):
    return lambda value: isinstance(value, list) and all(check(each) for each in value)


def all_of(check):
    return lambda value: isinstance(value, dict) and all(check(each) for each in value.values())


def shaped(shape):
    return lambda value: isinstance(value, dict) and wrong_member(shape, value) is None


def wrong_member(shape, value):
    """Returns the first missing or wrong member; None if all members are right. A `?` marks an optional member."""
    for member, check in shape.items():
        name = member.rstrip("?")
        if not check(value[name]) if name in value else name == member:
            return name
    return None


MOMENT = re.compile(
    r"(?:(?:[0-9]{2}(?:[2468][048]|[13579][26]|0[48])|(?:[02468][048]|[13579][26])00)-02-29|[0-9]{4}-(?:(?:0[13578]|1[02])-"
    r"(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def is_moment(value):
    return isinstance(value, str) and MOMENT.fullmatch(value) is not None


ICON = {"src": is_text, "mimeType?": is_text, "sizes?": each_of(is_text), "theme?": one_of("light", "dark")}
NAMED = {
    "name": is_text,
    "title?": is_text,
    "description?": is_text,
    "icons?": each_of(shaped(ICON)),
    "_meta?": is_object,
}
SCHEMA = {
    "type": one_of("object"),
    "properties?": all_of(is_part),
    "required?": each_of(is_text),
    "$schema?": is_text,
}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
ANNOTATIONS = {
    "audience?": each_of(one_of("user", "assistant")),
    "priority?": is_share,
    "lastModified?": is_moment,
}
CONTENT = dict(NAMED, **{"mimeType?": is_text, "annotations?": shaped(ANNOTATIONS)})
ARGUMENT = {"name": is_text, "description?": is_text, "required?": is_flag}
SHAPES = {
    "tools": dict(
        NAMED,
        **{
            "inputSchema": shaped(SCHEMA),
            "outputSchema?": shaped(SCHEMA),
            "annotations?": shaped(dict({hint + "?": is_flag for hint in HINTS}, **{"title?": is_text})),
        }
    ),
    "prompts": dict(NAMED, **{"arguments?": each_of(shaped(ARGUMENT))}),
    "resources": dict(CONTENT, **{"uri": is_text, "size?": is_number}),
    "templates": dict(CONTENT, uriTemplate=is_text),
}
# The gateway passes these notifications of servers on to the client, and does not ask the service about them.
NOTICES = {
    "notifications/message": {"level": one_of(*LEVELS), "_meta?": is_object},
    "notifications/resources/updated": {"uri": is_text, "_meta?": is_object},
    "notifications/elicitation/complete": {"elicitationId": is_text, "_meta?": is_object},
}


def fault_of(kind, entry):
    """Returns why an entry of a server's list is left out; None if the entry stays."""
    if not isinstance(entry, dict):
        return "no object"
    wrong = wrong_member(SHAPES[kind], entry)
    if wrong is not None:
        return "`%s` is not as the protocol has it" % wrong
    return None if is_sayable(entry) else "it cannot be written"


def is_schema(value):
    return isinstance(value, bool) or (isinstance(value, dict) and wrong_keyword(value) is None)


def is_items(value):
    return each_of(is_schema)(value) or is_schema(value)


def is_list(value):
    return isinstance(value, list)


def is_choice(value):
    return isinstance(value, list) and len(value) > 0


def is_target(value):
    """Returns whether a reference may lead to this schema. The schema must not be a reference itself, because
    references can form a circle."""
    return isinstance(value, bool) or "$ref" not in value


def anything(value):
    return True


is_type = one_of("string", "number", "integer", "boolean", "array", "object", "null")

# A client with version 1 of MCP's TypeScript SDK reads the list of tools and compiles the schemas of their results. If
# one schema does not compile, the client loses the whole list. The keywords and values below compile in every client.
# `pattern` is left out, because each language has its own regular expressions.
KEYWORDS = dict(
    {name: anything for name in ("default", "const")},
    **{name: is_text for name in ("title", "description", "$comment", "$schema", "$ref", "format")},
    **{name: is_schema for name in ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")},
    **{name: all_of(is_schema) for name in ("properties", "$defs", "definitions")},
    **{name: each_of(is_schema) for name in ("anyOf", "oneOf", "allOf", "prefixItems")},
    **{name: is_number for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")},
    **{name: is_number for name in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")},
    **{name: is_flag for name in ("uniqueItems", "readOnly", "writeOnly", "deprecated")},
    **{
        "type": lambda value: is_type(value) or each_of(is_type)(value),
        "items": is_items,
        "required": each_of(is_text),
        "enum": is_choice,
        "examples": is_list,
    }
)


def wrong_keyword(schema):
    """Returns the first keyword that some client may not be able to compile; None if the schema has no such keyword."""
    return next((name for name, value in schema.items() if not KEYWORDS.get(name, lambda value: False)(value)), None)


def is_compiled(schema):
    """Returns whether every client can compile this schema. It is the schema of a tool's results."""
    if wrong_keyword(schema) is not None:
        return False
    known = {"#"}
    for place in ("$defs", "definitions"):
        targets = [name for name, each in schema.get(place, {}).items() if is_target(each)]
        known.update("#/%s/%s" % (place, name) for name in targets if token(name) == name)
    rest = [schema]
    while rest:
        one = rest.pop()
        rest.extend(parts(one))
        if isinstance(one, dict) and "$ref" in one and not (is_text(one["$ref"]) and one["$ref"] in known):
            return False
    return True
