# Keywords of JSON Schema that every client can compile.

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
