"""`install --uninstall` leaves every file and folder byte for byte as it was, in each shape that settings have."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

from countersign.hook.clients import client_named, installable
from countersign.hook.install import command
from countersign.hook.install.entries import SECONDS
from countersign.hook.place import Place

CLIENTS = [client.name for client in installable()]
ENVIRONMENT = {
    "SERVICE_API_URL": "http://127.0.0.1:1",
    "SERVICE_API_KEY": "csk_test",
    "SERVICE_ORG_ID": "org_00000000000000000000000001",
    "PATH": os.environ.get("PATH", ""),
}

MINE = {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
SHAPES = (
    None,
    "",
    " \n",
    "{}",
    "{}\n",
    "{ }\r\n",
    "\ufeff{}",
    '{"hooks":{}}',
    '{"hooks": {"EVENT": []}}\n',
    '{"hooks": {"EVENT": [], "Other": []}, "list": [], "table": {}}',
    '{"hooksConfig":{},"hooks":{"EVENT":[%s]}}' % json.dumps(MINE),
    '{"hooksConfig":{"enabled":false},"version":7,"allowManagedHooksOnly":null}',
    '{\r\n\t"number": 1.0, "other": 1e5,\r\n\t"text": "\\u00e9 \\/ é"\r\n}\r\n',
    '{\n    "hooks" : {"EVENT": [%s]}\n}' % json.dumps(MINE),
    '{"plugin": [], "enabled_providers": []}',
    '{"$schema": "x", "plugin": ["theirs"], "enabled_providers": ["a"]}\n',
)
TOML_SHAPES = (
    None,
    "",
    "\n",
    "# nothing",
    "a = 1",
    "a = 1\n\n[features]\nweb_search = false\n\n[other]\nb = 2\n",
    "a = 1\r\n[features]\r\nweb_search = false\r\n",
    "[hooks]\n# ours\n",
    "# first\r\n\r\n[[list]]\r\nx = 'y'  # end",
)


# The time limits of the installations one after the other; None removes it in between.
LIVES = {
    "installed": (90,),
    "upgraded": (90, 80),
    "removed and installed again": (90, None, 80),
}


def below(folder):
    """Every file with its bytes and mode, and every folder."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.join(at, name)] = None
        for name in files:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[path] = (file.read(), os.stat(path).st_mode)
    return found


class Uninstall(unittest.TestCase):
    def install(self, home, client, *more):
        words = (["--dialect", client] if client else []) + ["--yes"] + list(more)
        output = io.StringIO()
        with mock.patch.dict(os.environ, dict(ENVIRONMENT, HOME=home), clear=True):
            # The disk's own caches are not the subject.
            quiet = mock.patch("os.fsync"), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)
            with quiet[0], quiet[1], quiet[2]:
                code = command.install(words)
        self.assertEqual(0, code, output.getvalue())

    def settings(self, home, client, managed):
        with mock.patch.dict(os.environ, dict(ENVIRONMENT, HOME=home), clear=True):
            place = Place(managed, home if managed else "")
            return place.at(client_named(client).settings_file(place))

    def write(self, path, client, shape):
        if shape is None:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(shape.replace("EVENT", client_named(client).events[0][0]).encode("utf-8"))
        os.chmod(path, 0o640)

    def each(self):
        """A client in a home or an image, with settings of one shape: (client, words, folder, file)."""
        umask = os.umask(0o022)
        try:
            for client in CLIENTS:
                for managed in (False, True):
                    is_toml = client == "codex" and managed
                    for shape in TOML_SHAPES if is_toml else SHAPES:
                        with tempfile.TemporaryDirectory() as home, self.subTest(client=client, managed=managed, shape=shape):
                            path = self.settings(home, client, managed)
                            self.write(path, client, shape)
                            yield client, ["--managed", "--root", home] if managed else [], home, path
        finally:
            os.umask(umask)

    def test_nothing_stays(self):
        checked = 0
        for life, limits in LIVES.items():
            for client, words, home, path in self.each():
                with self.subTest(life=life):
                    before = below(home)
                    for limit in limits:
                        if limit is None:
                            self.install(home, client, "--uninstall", *words)
                            self.assertEqual(before, below(home))
                            continue
                        # A new version of the hook writes other entries.
                        with mock.patch.dict(SECONDS, pre=limit):
                            self.install(home, client, *words)
                        self.assertIn(b"service_hook", below(home)[path][0])
                    self.install(home, client, "--uninstall", *words)
                    self.assertEqual(before, below(home))
                    checked += 1
        self.assertGreater(checked, len(LIVES) * 131)

    def test_nothing_stays_of_all_clients(self):
        for managed in (False, True):
            for shape in (None, "", '{"hooks":{}}', '{"hooks": {"EVENT": []}}\n'):
                for ways in ([CLIENTS[::-1]], [CLIENTS[:2], ()]):
                    with tempfile.TemporaryDirectory() as home, self.subTest(managed=managed, shape=shape, ways=ways):
                        words = ["--managed", "--root", home] if managed else []
                        for client in CLIENTS:
                            path = self.settings(home, client, managed)
                            self.write(path, client, None if path.endswith(".toml") else shape)
                        before = below(home)
                        for client in CLIENTS:
                            self.install(home, client, *words)
                        for client in ways[0]:
                            self.install(home, client, "--uninstall", *words)
                        if len(ways) > 1:
                            self.install(home, None, "--uninstall", *words)
                        self.assertEqual(before, below(home))

    def test_what_lay_beside_it_stays(self):
        """Empty folders, other files, and the folder with a user's key."""
        for client in CLIENTS:
            for managed in (False, True):
                with tempfile.TemporaryDirectory() as home, self.subTest(client=client, managed=managed):
                    folder = os.path.dirname(self.settings(home, client, managed))
                    os.makedirs(os.path.join(folder, "empty"))
                    os.makedirs(os.path.join(home, ".countersign"), 0o700)
                    for path in (os.path.join(folder, "other.json"), os.path.join(home, ".countersign", "key")):
                        with open(path, "wb") as file:
                            file.write(b"mine")
                    before = below(home)
                    words = ["--managed", "--root", home] if managed else []
                    self.install(home, client, *words)
                    self.install(home, client, "--uninstall", *words)
                    self.assertEqual(before, below(home))

    def test_the_note_of_a_checked_key_goes_with_the_last_client(self):
        for text, stays in (("0123abcd", False), ("somebody's own text", True)):
            with tempfile.TemporaryDirectory() as home, self.subTest(text=text):
                for client in ("claude", "gemini"):
                    self.install(home, client)
                note = os.path.join(home, ".countersign", "key-checked")
                with open(note, "w", encoding="utf-8") as file:
                    file.write(text)
                self.install(home, "claude", "--uninstall")
                self.assertTrue(os.path.exists(note))
                self.install(home, "gemini", "--uninstall")
                self.assertEqual([note] if stays else [], [path for path in below(home) if path == note])
                self.assertEqual(stays, os.path.isdir(os.path.dirname(note)))

    def test_a_report_that_a_background_process_sends_meanwhile_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as home:
            self.install(home, "claude")
            note = os.path.join(home, ".countersign", "ended-sessions", "0123abcd-73")
            os.mkdir(os.path.dirname(note), 0o700)
            with open(note, "w", encoding="utf-8") as file:
                file.write("s")
            show = command.show

            def sent_during_the_question(*given):
                show(*given)
                os.unlink(note)

            with mock.patch.object(command, "show", side_effect=sent_during_the_question):
                self.install(home, "claude", "--uninstall")
            self.assertEqual({}, below(home))

    def test_an_image_says_nothing_about_the_note_of_its_builder(self):
        with tempfile.TemporaryDirectory() as home:
            note = os.path.join(home, ".countersign", "key-checked")
            os.makedirs(os.path.dirname(note))
            with open(note, "w", encoding="utf-8") as file:
                file.write("0123abcd")
            root = os.path.join(home, "image")
            self.install(home, "claude", "--managed", "--root", root)
            self.install(home, "claude", "--uninstall", "--managed", "--root", root)
            self.assertTrue(os.path.exists(note))

    def test_what_somebody_added_meanwhile_stays_and_nothing_else(self):
        for client, words, home, path in self.each():
            if path.endswith(".js"):
                continue  # the whole file is ours
            kept = below(home).get(path)
            self.install(home, client, *words)
            with open(path, "rb") as file:
                grown = file.read().decode("utf-8")
            is_toml = path.endswith(".toml")
            grown = grown + "[added]\nx = 1\n" if is_toml else grown.replace("{", '{"added": 1,', 1)
            with open(path, "wb") as file:
                file.write(grown.encode("utf-8"))
            self.install(home, client, *words)
            self.install(home, client, "--uninstall", *words)
            left = below(home)
            self.assertEqual([path], [each for each in left if left[each] is not None])
            text = left[path][0].decode("utf-8")
            self.assertNotIn("service_hook", text)
            if is_toml:
                self.assertIn("[added]", text)
            else:
                found = json.loads(text.lstrip("\ufeff"))
                self.assertEqual(1, found["added"])
                if kept is not None and b"mine" in kept[0]:
                    self.assertEqual([MINE], found["hooks"][client_named(client).events[0][0]])

    def test_two_clients_in_one_image(self):
        with tempfile.TemporaryDirectory() as home:
            words = ["--managed", "--root", home]
            for client in ("claude", "gemini"):
                self.install(home, client, *words)
            for client in ("claude", "gemini"):
                self.install(home, client, "--uninstall", *words)
            self.assertEqual({}, below(home))


if __name__ == "__main__":
    unittest.main()
