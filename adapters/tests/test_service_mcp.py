"""The gateway's own functions: messages, names, the file of servers.

    python3 -m unittest discover adapters/tests

The tests in test/adapters run the whole process, with a service and servers behind it.
"""

import json
import os
import sys
import tempfile
import unittest
from unittest import mock

from countersign.gateway.constants import Failed
from countersign.gateway.environment import expand
from countersign.gateway.json import LOOSE, STRICT
from countersign.gateway.main import options
from countersign.gateway.messages import Message
from countersign.gateway.names import Names, server_token, short_hash
from countersign.gateway.servers import Server, read_servers
from countersign.shared.json import once
from countersign.shared.limits import Refused


class Messages(unittest.TestCase):
    def test_members_come_back_as_they_were_written(self):
        text = ' { "id" :1.0 , "result":{"a" : [1, 2],"n":-0.0, "s":"\\u00e9}"} ,"x":[]} '
        message = Message(text, LOOSE)
        self.assertEqual(b"1.0", message.raw("id"))
        self.assertEqual(b'{"a" : [1, 2],"n":-0.0, "s":"\\u00e9}"}', message.raw("result"))
        self.assertEqual([], message.get("x"))
        self.assertEqual({}, Message("{}", STRICT).values)

    def test_it_agrees_with_json_on_what_is_an_object(self):
        pieces = ["{", "}", '"a"', ":", ",", "1", "[]", " ", '"a":1', "null", '"b"', "x"]
        texts = [""]
        for _ in range(4):
            texts = texts + [text + piece for text in texts[-800:] for piece in pieces]
        for text in set(texts):
            try:
                expected = json.loads(text, object_pairs_hook=once)
                expected = expected if isinstance(expected, dict) else None
            except ValueError:
                expected = None
            try:
                found = Message(text, STRICT).values
            except ValueError:
                found = None
            self.assertEqual(expected, found, text)

    def test_what_is_none(self):
        for text in ("", "[]", "{", '{"a":1', '{"a":1}}', '{"a":1,}', '{"a":1,"a":2}', '{"a":NaN}', "{'a':1}", "{a:1}"):
            with self.subTest(text=text):
                self.assertRaises(ValueError, Message, text, STRICT)
        for text in ('{"a":' + "[" * 100000, '{"a":' + "9" * 500 + "}"):
            self.assertRaises(ValueError, Message, text, STRICT)
            self.assertRaises(ValueError, Message, text, LOOSE)


class NamesOfTools(unittest.TestCase):
    def shown(self, names, server, *owns):
        names.name(server, owns)
        return [names.given[server, own][0] for own in owns]

    def test_as_they_are_where_that_can_be(self):
        names = Names("svc")
        self.assertEqual(["fs__read_file", "fs__a-b"], self.shown(names, "fs", "read_file", "a-b"))
        self.assertEqual(["db__read_file"], self.shown(names, "db", "read_file"))

    def test_those_that_become_alike_stay_apart_whatever_their_order(self):
        for owns in (("a.b", "a/b", "a_b"), ("a_b", "a/b", "a.b")):
            names = Names("svc")
            shown = dict(zip(owns, self.shown(names, "s", *owns)))
            self.assertEqual(3, len(set(shown.values())))
            self.assertEqual("s__a_b", shown["a_b"])
            self.assertRegex(shown["a/b"], "^s__a_b_[0-9a-f]{8}$")
            for own, name in shown.items():
                self.assertEqual(("s", own), names.back[name])
                # What rules are written for is as unique.
                self.assertEqual(name, names.given["s", own][1])

    def test_a_name_once_given_stays(self):
        names = Names("svc")
        [first] = self.shown(names, "s", "a.b")
        self.assertEqual("s__a_b", first)
        second, third = self.shown(names, "s", "a_b", "a.b")
        self.assertEqual(first, third)
        self.assertNotEqual(first, second)

    def test_long_ones_are_cut_to_64_with_the_gateway_and_stay_apart(self):
        for gateway in ("svc", "g", "a-long-name-of-a-gateway"):
            names = Names(gateway)
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
            self.assertEqual(full[: room - 9] + "_" + short_hash(full), shown[0])

    def test_no_server_can_take_anothers_name(self):
        for name in ("a__b", "a_", "_a", "a b", "a.b", "-a-"):
            self.assertNotIn("__", server_token(name))
            self.assertFalse(server_token(name).endswith("_"))
        self.assertEqual("", server_token("__"))


class Servers(unittest.TestCase):
    def read(self, said, key=None, mode=0o600):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "servers.json")
            with open(path, "w") as file:
                file.write(said if isinstance(said, str) else json.dumps(said))
            os.chmod(path, mode)
            return read_servers(path, key)

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
                self.assertRaises(Refused, self.read, said)

    @unittest.skipUnless(os.name == "posix", "permissions of this kind")
    def test_a_file_that_others_may_change_is_refused(self):
        self.assertEqual([], self.read({"mcpServers": {}}, mode=0o644))
        self.assertRaises(Refused, self.read, {"mcpServers": {}}, mode=0o666)

    def command(self, said, key="csk_secret"):
        return Server("s", said, key).command()

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
                    self.assertEqual(expected, expand(text))
            self.assertRaises(Failed, expand, "${UNSET}")

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
                    self.assertRaises(Failed, self.command, dict(more, command=sys.executable))

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
                self.assertRaises(Failed, self.command, said)


class Options(unittest.TestCase):
    def test_them(self):
        found = options(["--config", "a", "--name=gw"])
        self.assertEqual({"--config": "a", "--name": "gw", "--settings": None}, found)
        for words in ([], ["--config"], ["x"], ["--config=a", "--name=a__b"], ["--config=a", "--name=" + "a" * 25]):
            with self.subTest(words=words):
                self.assertRaises(Refused, options, words)


if __name__ == "__main__":
    unittest.main()
