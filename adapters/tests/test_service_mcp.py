"""The gateway's own functions: messages, names, the file of servers.

    python3 -m unittest discover adapters/tests

What the whole process does stands in test/adapters, with a service and servers behind it.
"""

import ast
import importlib.util
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

GATEWAY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "service_mcp.py")
_spec = importlib.util.spec_from_file_location("service_mcp", GATEWAY)
mcp = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mcp)


class Grammar(unittest.TestCase):
    def test_python_3_8_reads_it(self):
        with open(GATEWAY, encoding="utf-8") as file:
            ast.parse(file.read(), feature_version=(3, 8))

    def test_it_imports_the_standard_library_alone(self):
        known = getattr(sys, "stdlib_module_names", None)
        if known is None:
            return
        with open(GATEWAY, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        named = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                named.add(node.module.split(".")[0])
        self.assertGreater(len(named), 5)
        self.assertEqual(set(), named - set(known))


class Messages(unittest.TestCase):
    def test_members_come_back_as_they_were_written(self):
        text = ' { "id" :1.0 , "result":{"a" : [1, 2],"n":-0.0, "s":"\\u00e9}"} ,"x":[]} '
        message = mcp.Message(text, mcp.LOOSE)
        self.assertEqual(b"1.0", message.raw("id"))
        self.assertEqual(b'{"a" : [1, 2],"n":-0.0, "s":"\\u00e9}"}', message.raw("result"))
        self.assertEqual([], message.get("x"))
        self.assertEqual({}, mcp.Message("{}", mcp.STRICT).values)

    def test_it_agrees_with_json_on_what_is_an_object(self):
        pieces = ["{", "}", '"a"', ":", ",", "1", "[]", " ", '"a":1', "null", '"b"', "x"]
        texts = [""]
        for _ in range(4):
            texts = texts + [text + piece for text in texts[-800:] for piece in pieces]
        for text in set(texts):
            try:
                expected = json.loads(text, object_pairs_hook=mcp.once)
                expected = expected if isinstance(expected, dict) else None
            except ValueError:
                expected = None
            try:
                found = mcp.Message(text, mcp.STRICT).values
            except ValueError:
                found = None
            self.assertEqual(expected, found, text)

    def test_what_is_none(self):
        for text in ("", "[]", "{", '{"a":1', '{"a":1}}', '{"a":1,}', '{"a":1,"a":2}', '{"a":NaN}', "{'a':1}", "{a:1}"):
            with self.subTest(text=text):
                self.assertRaises(ValueError, mcp.Message, text, mcp.STRICT)
        for text in ('{"a":' + "[" * 100000, '{"a":' + "9" * 500 + "}"):
            self.assertRaises(ValueError, mcp.Message, text, mcp.STRICT)
            self.assertRaises(ValueError, mcp.Message, text, mcp.LOOSE)


class Names(unittest.TestCase):
    def shown(self, names, server, *owns):
        names.name(server, owns)
        return [names.given[server, own][0] for own in owns]

    def test_as_they_are_where_that_can_be(self):
        names = mcp.Names("svc")
        self.assertEqual(["fs__read_file", "fs__a-b"], self.shown(names, "fs", "read_file", "a-b"))
        self.assertEqual(["db__read_file"], self.shown(names, "db", "read_file"))

    def test_those_that_become_alike_stay_apart_whatever_their_order(self):
        for owns in (("a.b", "a/b", "a_b"), ("a_b", "a/b", "a.b")):
            names = mcp.Names("svc")
            shown = dict(zip(owns, self.shown(names, "s", *owns)))
            self.assertEqual(3, len(set(shown.values())))
            self.assertEqual("s__a_b", shown["a_b"])
            self.assertRegex(shown["a/b"], "^s__a_b_[0-9a-f]{8}$")
            for own, name in shown.items():
                self.assertEqual(("s", own), names.back[name])
                # What rules are written for is as unique.
                self.assertEqual(name, names.given["s", own][1])

    def test_a_name_once_given_stays(self):
        names = mcp.Names("svc")
        [first] = self.shown(names, "s", "a.b")
        self.assertEqual("s__a_b", first)
        second, third = self.shown(names, "s", "a_b", "a.b")
        self.assertEqual(first, third)
        self.assertNotEqual(first, second)

    def test_long_ones_are_cut_to_64_with_the_gateway_and_stay_apart(self):
        for gateway in ("svc", "g", "a-long-name-of-a-gateway"):
            names = mcp.Names(gateway)
            owns = ["x" * 120 + str(n) for n in range(50)] + ["y" * n for n in range(1, 80)]
            shown = self.shown(names, "server", *owns)
            self.assertEqual(len(owns), len(set(shown)))
            for own, name in zip(owns, shown):
                self.assertRegex(name, "^[A-Za-z0-9_-]+$")
                self.assertLessEqual(len("mcp__" + gateway + "__" + name), 64)
                self.assertEqual(("server", own), names.back[name])
                self.assertEqual("server__" + own, names.given["server", own][1])
            full = "server__" + owns[0]
            room = 64 - len("mcp__" + gateway + "__")
            self.assertEqual(full[: room - 9] + "_" + mcp.short_hash(full), shown[0])

    def test_no_server_can_take_anothers_name(self):
        for name in ("a__b", "a_", "_a", "a b", "a.b", "-a-"):
            self.assertNotIn("__", mcp.server_token(name))
            self.assertFalse(mcp.server_token(name).endswith("_"))
        self.assertEqual("", mcp.server_token("__"))


class Servers(unittest.TestCase):
    def read(self, said, key=None, mode=0o600):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "servers.json")
            with open(path, "w") as file:
                file.write(said if isinstance(said, str) else json.dumps(said))
            os.chmod(path, mode)
            return mcp.read_servers(path, key)

    def test_which_there_are(self):
        found = self.read({"mcpServers": {"b c": {"command": "x"}, "off": {"disabled": True}, "a": {"command": "y"}}})
        self.assertEqual(["b_c", "a"], [server.name for server in found])

    def test_files_that_are_refused(self):
        for said in (
            "{",
            "[]",
            {},
            {"mcpServers": []},
            {"mcpServers": {"日本": {}}},
            {"mcpServers": {"a b": {}, "a.b": {}}},
            '{"mcpServers": {"a": {}, "a": {}}}',
        ):
            with self.subTest(said=said):
                self.assertRaises(mcp.Refused, self.read, said)

    @unittest.skipUnless(os.name == "posix", "permissions of this kind")
    def test_a_file_that_others_may_change_is_refused(self):
        self.assertEqual([], self.read({"mcpServers": {}}, mode=0o644))
        self.assertRaises(mcp.Refused, self.read, {"mcpServers": {}}, mode=0o666)

    def command(self, said, key="csk_secret"):
        return mcp.Server("s", said, key).command()

    def test_variables(self):
        with mock.patch.dict(os.environ, {"SET": "value", "EMPTY": ""}):
            for text, expected in (
                ("${SET}", "value"),
                ("a${SET}b${SET}", "avaluebvalue"),
                ("${UNSET:-default}", "default"),
                ("${EMPTY:-default}", "default"),
                ("${SET:-default}", "value"),
                ("${UNSET:-}", ""),
                ("${EMPTY}", ""),
                ("$SET", "$SET"),
                ("${not a name}", "${not a name}"),
            ):
                with self.subTest(text=text):
                    self.assertEqual(expected, mcp.expand(text))
            self.assertRaises(mcp.Failed, mcp.expand, "${UNSET}")

    def test_the_environment_is_small_and_never_has_the_key(self):
        added = {"SERVICE_API_KEY": "csk_secret", "ANTHROPIC_API_KEY": "other", "LC_TIME": "C", "COPY": "csk_secret"}
        with mock.patch.dict(os.environ, added):
            words, env, folder = self.command({"command": sys.executable, "args": ["${LC_TIME}"], "env": {"A": "1"}})
            self.assertEqual([sys.executable, "C"], words)
            self.assertIsNone(folder)
            self.assertEqual("1", env["A"])
            self.assertEqual("C", env["LC_TIME"])
            self.assertEqual(os.environ["PATH"], env["PATH"])
            self.assertNotIn("ANTHROPIC_API_KEY", env)
            self.assertNotIn("SERVICE_API_KEY", env)
            for more in (
                {"env": {"SERVICE_API_KEY": "x"}},
                {"env": {"A": "${SERVICE_API_KEY}"}},
                {"env": {"A": "Bearer ${COPY}"}},
                {"args": ["--key=${COPY}"]},
                {"args": ["${SERVICE_API_KEY:-x}"]},
            ):
                with self.subTest(more=more):
                    self.assertRaises(mcp.Failed, self.command, dict(more, command=sys.executable))

    def test_what_cannot_be_started(self):
        for said in (
            None,
            {},
            {"command": ""},
            {"command": 7},
            {"command": "no-such-program-anywhere"},
            {"command": sys.executable, "args": "x"},
            {"command": sys.executable, "args": [1]},
            {"command": sys.executable, "env": {"A": 1}},
            {"command": sys.executable, "cwd": 1},
            {"type": "http", "url": "https://example.com/mcp"},
        ):
            with self.subTest(said=said):
                self.assertRaises(mcp.Failed, self.command, said)


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
    """What stands here was compared with the schemas of both of the SDK's clients."""

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
                    self.assertIsNone(mcp.fault_of(kind, entry))

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
                    self.assertIsNotNone(mcp.fault_of(kind, entry))

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
                    self.assertIsNotNone(mcp.fault_of(kind, dict(plain, **{name: value})))
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
                    self.assertIsNotNone(mcp.fault_of(kind, dict(plain, annotations=value)))

    def test_schemas_that_every_client_can_compile(self):
        named = {"a": {"type": ["string", "null"], "format": "date", "enum": ["a"]}, "$ref": {"maximum": 1}, "id": True}
        for schema in (
            {},
            {"properties": named, "required": ["a"], "additionalProperties": False, "$schema": "s", "title": "t"},
            {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#"}}},
            {"properties": {"x": {"anyOf": [{"items": {}}, {"items": [True]}, {"const": None}]}}},
        ):
            with self.subTest(schema=schema):
                self.assertEqual("$ref" not in schema.get("properties", {}), mcp.is_compiled(dict(schema, type="object")))

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
                    self.assertFalse(mcp.is_compiled(whole))

    def test_numbers_beyond_all_numbers_are_the_largest(self):
        for digits, value in (("9" * 391, sys.float_info.max), ("-" + "9" * 391, -sys.float_info.max), ("1e999", sys.float_info.max)):
            self.assertEqual(value, mcp.LOOSE.decode(digits))
        self.assertEqual(10**300, mcp.LOOSE.decode("1" + "0" * 300))


class Faults(unittest.TestCase):
    """That whatever goes wrong over one message neither ends the reading nor leaves a call without its answer."""

    def setUp(self):
        log = mock.patch.object(mcp, "log")
        self.log = log.start()
        self.addCleanup(log.stop)
        self.gateway = mock.Mock()
        self.upstream = mcp.Upstream(self.gateway, mcp.Server("s", {}, None))
        self.upstream.pending = {}

    def test_a_request_is_answered_with_an_error(self):
        self.gateway.server_asks.side_effect = TypeError
        self.upstream.take(b'{"jsonrpc":"2.0","id":"e1","method":"roots/list"}\n')
        _, work, (key, body) = self.upstream.outbox.get_nowait()
        self.assertEqual((self.upstream.respond, b'"e1"'), (work, key))
        self.assertIn(b'"code":-32603', body)

    def test_a_notification_is_dropped(self):
        self.gateway.tell.side_effect = MemoryError
        self.upstream.take(b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a"}}\n')
        self.assertTrue(self.upstream.outbox.empty())
        self.assertIn("MemoryError", self.log.call_args[0][0])

    def test_a_call_whose_answer_cannot_be_handled_is_ended(self):
        waiting = mock.Mock()
        waiting.answered.side_effect = OverflowError
        self.upstream.pending[1] = waiting
        self.upstream.take(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        waiting.ended.assert_called_once()

    def test_all_calls_are_ended_though_one_fails(self):
        waiting = [mock.Mock(), mock.Mock()]
        waiting[0].ended.side_effect = KeyError
        self.upstream.pending = dict(enumerate(waiting))
        self.gateway.closing.is_set.return_value = True
        self.upstream.down(mock.Mock())
        waiting[1].ended.assert_called_once()
        self.gateway.forget_requests.assert_called_once()

    def test_the_reading_never_ends_without_a_word(self):
        over, quiet = mcp.threading.Event(), mcp.threading.Event()
        process = mock.Mock(stdout=mcp.io.BytesIO(b"x\n"))
        self.upstream.process = process
        with mock.patch.object(self.upstream, "take", side_effect=SystemExit):
            self.assertRaises(SystemExit, self.upstream.listen, process, over, quiet)
        self.assertTrue(over.is_set() and quiet.is_set())

    def test_a_request_that_cannot_be_handed_on_is_declined_and_forgotten(self):
        gateway = mcp.Gateway(mock.Mock(), [], "svc")
        asked = mcp.Asked(self.upstream, b'"e1"', {})
        asked.number = "s:1"
        gateway.asked["s:1"] = asked
        gateway.hand_up(asked, "roots/list", {"x": float("inf")})
        self.assertEqual({}, gateway.asked)
        self.assertEqual(b'"e1"', self.upstream.outbox.get_nowait()[2][0])

    def test_the_clients_requests_are_answered_too(self):
        gateway = mcp.Gateway(mock.Mock(), [], "svc")
        with mock.patch.object(gateway, "write") as write, mock.patch.object(gateway, "client_asks", side_effect=TypeError):
            gateway.take(b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
        self.assertIn(b'"id":7,"error":{"code":-32603', write.call_args[0][0])

    def test_progress_rises_or_is_not_told(self):
        gateway, call = mcp.Gateway(mock.Mock(), [], "svc"), mcp.Call(b"1", b'"p"', b"1")
        with mock.patch.object(gateway, "write_locked") as write:
            for value in (1, 1, 10**300, 10**300, sys.float_info.max, sys.float_info.max):
                gateway.progress(call, value)
        told = [json.loads(each[0][0])["params"]["progress"] for each in write.call_args_list]
        self.assertEqual([1, 1.001, 10**300, sys.float_info.max], told)


class Options(unittest.TestCase):
    def test_them(self):
        found = mcp.options(["--config", "a", "--name=gw"])
        self.assertEqual({"--config": "a", "--name": "gw", "--settings": None}, found)
        for words in ([], ["--config"], ["x"], ["--config=a", "--name=a__b"], ["--config=a", "--name=" + "a" * 25]):
            with self.subTest(words=words):
                self.assertRaises(mcp.Refused, mcp.options, words)


if __name__ == "__main__":
    unittest.main()
