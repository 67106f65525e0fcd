"""Entries of servers' lists, and schemas of results: which ones the gateway shows to the client."""

import sys
import unittest

from countersign.gateway.json import LOOSE
from countersign.gateway.shapes import fault_of, is_compiled

TOOL = {"name": "a", "inputSchema": {"type": "object"}}
PROMPT = {"name": "a"}
RESOURCE = {"name": "a", "uri": "a://1"}
TEMPLATE = {"name": "a", "uriTemplate": "a://{x}"}
KINDS = (("tools", TOOL), ("prompts", PROMPT), ("resources", RESOURCE), ("templates", TEMPLATE))


def nested(depth, inner=1):
    for _ in range(depth):
        inner = [inner]
    return inner


class Shapes(unittest.TestCase):
    """These entries were compared with the schemas of both clients of the SDK."""

    def test_entries_that_have_the_protocols_shape(self):
        full = {"title": "t", "description": "d", "icons": [{"src": "s", "sizes": ["any"], "theme": "dark"}], "_meta": {"x": 1}}
        seen = {"annotations": {"audience": ["user", "assistant"], "priority": 1, "lastModified": "2024-02-29T01:02:03.5+01:00"}}
        schema = {"type": "object", "properties": {"a": {"type": "odd"}}, "required": ["a"], "x": None}
        hints = {"title": "t", "readOnlyHint": True, "destructiveHint": False, "x": 5}
        for kind, plain in KINDS:
            more = {
                "tools": {"inputSchema": schema, "outputSchema": schema, "annotations": hints},
                "prompts": {"arguments": [{"name": "a", "description": "d", "required": False}]},
                "resources": dict(seen, size=1.5, mimeType="m"),
                "templates": dict(seen, mimeType="m"),
            }[kind]
            for entry in (plain, dict(plain, unknown=[None]), dict(plain, **full), dict(plain, **dict(full, **more))):
                with self.subTest(kind=kind, entry=entry):
                    self.assertIsNone(fault_of(kind, entry))

    def test_entries_that_do_not(self):
        for kind, plain in KINDS:
            for entry in (
                [],
                "a",
                None,
                {},
                *(dict(plain, **{name: None}) for name in ("title", "description", "icons", "_meta")),
                dict(plain, name=7),
                dict(plain, title=[]),
                dict(plain, description=7),
                dict(plain, icons={}),
                dict(plain, icons=[{}]),
                dict(plain, icons=[{"src": "s", "theme": "blue"}]),
                dict(plain, icons=[{"src": "s", "sizes": "any"}]),
                dict(plain, _meta=[]),
                dict(plain, x=nested(99)),
                dict(plain, x="\ud800"),
                *({name: value for name, value in plain.items() if name != gone} for gone in plain),
            ):
                with self.subTest(kind=kind, entry=entry):
                    self.assertIsNotNone(fault_of(kind, entry))

    def test_what_only_some_of_them_have(self):
        for kind, plain, name, values in (
            ("tools", TOOL, "inputSchema", (5, {}, {"type": "string"}, {"type": ["object"]})),
            ("tools", TOOL, "inputSchema", ({"type": "object", "properties": []}, {"type": "object", "properties": {"a": 1}})),
            ("tools", TOOL, "inputSchema", ({"type": "object", "required": "a"}, {"type": "object", "required": [1]})),
            ("tools", TOOL, "outputSchema", (None, 5, {}, {"type": "array"})),
            ("tools", TOOL, "annotations", ([], {"title": 1}, {"readOnlyHint": "yes"}, {"openWorldHint": None})),
            ("prompts", PROMPT, "arguments", ({}, ["a"], [{}], [{"name": 1}], [{"name": "a", "required": "yes"}])),
            ("resources", RESOURCE, "uri", (None, 7, [["a"]], {})),
            ("resources", RESOURCE, "size", ("1", True, None)),
            ("templates", TEMPLATE, "uriTemplate", (None, 7, [])),
        ):
            for value in values:
                with self.subTest(kind=kind, name=name, value=value):
                    self.assertIsNotNone(fault_of(kind, dict(plain, **{name: value})))
        for kind, plain in KINDS[2:]:
            for value in (
                [],
                {"audience": "user"},
                {"audience": ["model"]},
                {"audience": [["user"]]},
                {"priority": 2},
                {"priority": True},
                {"lastModified": 1},
                {"lastModified": "2024-01-01"},
                {"lastModified": "2023-02-29T00:00:00Z"},
            ):
                with self.subTest(kind=kind, annotations=value):
                    self.assertIsNotNone(fault_of(kind, dict(plain, annotations=value)))

    def test_schemas_that_every_client_can_compile(self):
        named = {"a": {"type": ["string", "null"], "format": "date", "enum": ["a"]}, "$ref": {"maximum": 1}, "id": True}
        for schema in (
            {},
            {"properties": named, "required": ["a"], "additionalProperties": False, "$schema": "s", "title": "t"},
            {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#"}}},
            {"properties": {"x": {"anyOf": [{"items": {}}, {"items": [True]}, {"const": None}]}}},
        ):
            with self.subTest(schema=schema):
                self.assertEqual("$ref" not in schema.get("properties", {}), is_compiled(dict(schema, type="object")))

    def test_schemas_that_some_cannot(self):
        for schema in (
            {"type": "odd"},
            {"type": [7]},
            {"pattern": "("},
            {"pattern": 7},
            {"enum": []},
            {"required": "a"},
            {"items": 5},
            {"minimum": "1"},
            {"nullable": True},
            {"id": "a"},
            {"$id": "a"},
            {"$anchor": "a"},
            {"$ref": 5},
            {"$ref": "#/nowhere"},
            {"$ref": "#/$defs/loop"},
            {"$ref": "#/$defs/a b"},
            {"$ref": "https://example.com/schema"},
            {"unknown": 1},
            7,
        ):
            for holder in ({"properties": {"x": schema}}, {"anyOf": [schema]}, {"not": schema}, {"items": [{"not": schema}]}):
                whole = dict(holder, **{"$defs": {"loop": {"$ref": "#/$defs/loop"}, "a b": {}}})
                with self.subTest(schema=whole):
                    self.assertFalse(is_compiled(whole))

    def test_numbers_beyond_all_numbers_are_the_largest(self):
        for digits, value in (("9" * 391, sys.float_info.max), ("-" + "9" * 391, -sys.float_info.max), ("1e999", sys.float_info.max)):
            self.assertEqual(value, LOOSE.decode(digits))
        self.assertEqual(10**300, LOOSE.decode("1" + "0" * 300))


if __name__ == "__main__":
    unittest.main()
