"""Settings files: Codex's requirements, and who may change or read the hook's own files."""

import json
import os
import sys
import tempfile
import unittest

from countersign.hook.clients import client_named
from countersign.hook.install.codex_requirements import toml_with_ours, toml_without_ours
from countersign.hook.install.interpreter import not_for_everybody, too_old
from countersign.hook.place import Place
from countersign.shared.limits import Refused
from countersign.shared.settings import read_config


class Requirements(unittest.TestCase):
    """Codex's managed settings, which are TOML."""

    place = Place(True)

    def merged(self, text):
        return toml_with_ours(client_named("codex"), self.place, "/usr/bin/python3", text)

    def read(self, text):
        try:
            import tomllib
        except ImportError:
            self.skipTest("this Python reads no TOML")
        return tomllib.loads(text)

    OTHERS = (
        '# company rules\nallowed_sandbox_modes = ["read-only"]\n\n[features]\nweb_search = false\n\n'
        '[hooks]\n\n[[hooks.PreToolUse]]\nmatcher = "Bash"\n[[hooks.PreToolUse.hooks]]\ntype = "command"\n'
        'command = "mine"\n\n[mcp_servers.docs]\nurl = "https://docs.example"\n'
    )

    def test_into_nothing(self):
        found = self.read(self.merged(""))
        self.assertIs(True, found["allow_managed_hooks_only"])
        self.assertEqual({"hooks": True, "unified_exec": False}, found["features"])
        self.assertEqual(self.place.folder, found["hooks"]["managed_dir"])
        one = found["hooks"]["PreToolUse"][0]["hooks"][0]
        self.assertEqual(90, one["timeout"])
        self.assertIn(" pre --dialect codex --timeout 90 ", one["command"])
        self.assertEqual(2, found["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"])

    def test_what_was_there_stays(self):
        found = self.read(self.merged(self.OTHERS))
        self.assertEqual({"web_search": False, "hooks": True, "unified_exec": False}, found["features"])
        self.assertEqual("https://docs.example", found["mcp_servers"]["docs"]["url"])
        self.assertEqual(["Bash", "*"], [entry["matcher"] for entry in found["hooks"]["PreToolUse"]])

    def test_twice_is_once_and_back_is_as_before(self):
        once = self.merged(self.OTHERS)
        self.assertEqual(once, self.merged(once))
        self.assertEqual(self.OTHERS, toml_without_ours(once))

    def test_forms_it_would_have_to_take_apart(self):
        for text in (
            "features = { hooks = false }\n",
            "features.hooks = false\n",
            "[features]\nhooks = false\n",
            "allow_managed_hooks_only = false\n",
            '[hooks]\nmanaged_dir = "/elsewhere"\n',
        ):
            with self.assertRaises(Refused, msg=text):
                self.merged(text)


class Files(unittest.TestCase):
    @unittest.skipUnless(os.name == "posix", "permissions of this kind")
    def test_who_may_change_or_read_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "json")
            for text, mode, fine in (
                ('{"api_key": "k"}', 0o600, True),
                ('{"api_key": "k"}', 0o640, False),
                ('{"api_key": "k"}', 0o604, False),
                ('{"api_url": "u"}', 0o644, True),
                ('{"api_url": "u"}', 0o664, False),
                ('{"api_url": "u"}', 0o646, False),
                ('{"api_uri": "u"}', 0o600, False),
                ("[]", 0o600, False),
                ("{", 0o600, False),
            ):
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, mode)
                with self.subTest(text=text, mode=oct(mode)):
                    if fine:
                        self.assertEqual(json.loads(text), read_config(path))
                    else:
                        self.assertRaises(Refused, read_config, path)

    @unittest.skipUnless(os.name == "posix", "permissions of this kind")
    def test_a_program_that_somebody_else_could_change(self):
        self.assertIsNone(not_for_everybody("/bin/sh"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "python3")
            os.symlink("/bin/sh", path)
            self.assertIn(" can be changed by others than root", not_for_everybody(path))
        self.assertIn("is not Python 3.8", too_old("/bin/sh"))
        self.assertIsNone(too_old(sys.executable))


if __name__ == "__main__":
    unittest.main()
