"""`doctor` asks for every managed setting that `install --managed` writes, because each one closes a way around the hook."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

from countersign.hook import organization as checked
from countersign.hook.clients import client_named
from countersign.hook.clients.claude import MODS
from countersign.hook.doctor import copilot
from countersign.hook.doctor.findings import Findings
from countersign.hook.doctor.tries import try_service
from countersign.hook.install.command import install
from countersign.hook.install.files import put
from countersign.hook.organization import refuse_nobody
from countersign.hook.place import OUR_NAME, Place
from countersign.shared.limits import Refused
from countersign.shared.settings import Settings

OWN = "org_00000000000000000000000001"
ENVIRONMENT = {
    "SERVICE_API_URL": "http://127.0.0.1:1",
    "SERVICE_API_KEY": "csk_test",
    "SERVICE_ORG_ID": OWN,
    "PATH": os.environ.get("PATH", ""),
}


class Managed(unittest.TestCase):
    """A machine's own folders, below a folder of the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "machine")
        self.home = os.path.join(folder.name, "home")
        os.makedirs(self.home)
        environment = mock.patch.dict(os.environ, dict(ENVIRONMENT, HOME=self.home), clear=True)
        environment.start()
        self.addCleanup(environment.stop)
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.home)

    def install(self, client):
        with contextlib.redirect_stdout(io.StringIO()):
            words = ["--dialect", client, "--managed", "--root", self.root, "--yes"]
            self.assertEqual(0, install(words))

    def findings(self, client):
        """The lines of `doctor` about the installed settings."""
        client = client_named(client)
        root, settings_file = self.root, client.settings_file

        def below(place, part=None):
            return (root if place.managed else "") + settings_file(place, part)

        findings = Findings()
        output = io.StringIO()
        with contextlib.redirect_stdout(output), mock.patch.object(client, "settings_file", below):
            found = client.checks().entries(Place(True), findings)
        failed = [line for line in output.getvalue().splitlines() if line.startswith("FAIL")]
        # opencode's plugin names the path of the settings, which differs here.
        return found, [line for line in failed if OUR_NAME + ".js" + "` was changed" not in line]

    def path(self, client):
        return self.root + client_named(client.partition("-")[0]).settings_file(Place(True), client)

    def change(self, client, steps, value):
        path = self.path(client)
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(put(settings, steps, value), file)

    def test_nothing_is_missing_after_install(self):
        for client in ("claude", "codex", "gemini", "copilot", "opencode"):
            with self.subTest(client=client):
                self.install(client)
                found, failed = self.findings(client)
                self.assertEqual((1, []), (len(found), failed))

    def test_each_setting_is_asked_for(self):
        for client, steps, value in (
            ("claude", ("disableSkillShellExecution",), None),
            ("claude", ("disableSkillShellExecution",), False),
            ("claude", MODS, None),
            ("claude", MODS, False),
            ("claude", ("allowManagedHooksOnly",), None),
            ("claude", ("requiredMinimumVersion",), None),
            ("claude", ("requiredMinimumVersion",), "2.1.294"),
            ("copilot-policy", ("allowManagedHooksOnly",), None),
            ("copilot-policy", ("allowManagedHooksOnly",), False),
            ("gemini", ("hooksConfig",), {"enabled": True}),
            ("gemini", ("hooksConfig",), None),
            ("gemini", ("security", "environmentVariableRedaction", "enabled"), False),
            ("gemini", ("security", "environmentVariableRedaction", "blocked"), ["LD_PRELOAD"]),
            ("opencode", ("enabled_providers",), None),
            ("opencode", ("enabled_providers",), ["openai"]),
        ):
            with self.subTest(client=client, steps=steps, value=value):
                name = client.partition("-")[0]
                self.install(name)
                self.change(client, steps, value)
                failed = self.findings(name)[1]
                self.assertEqual(1, len(failed), failed)
                self.assertIn(steps[0], failed[0])
                self.assertIn("run `install` again", failed[0])

    def test_a_newer_version_of_claude_code_may_be_required(self):
        self.install("claude")
        self.change("claude", ("requiredMinimumVersion",), "3.0.0")
        self.assertEqual([], self.findings("claude")[1])

    def test_a_fragment_changes_no_setting(self):
        self.install("claude")
        folder = self.path("claude")[: -len(".json")] + ".d"
        os.makedirs(folder)
        for text, count in (("{}", 0), ('{"allowManagedHooksOnly": true}', 0), ('{"allowManagedHooksOnly": false}', 1)):
            with open(os.path.join(folder, "more.json"), "w", encoding="utf-8") as file:
                file.write(text)
            failed = self.findings("claude")[1]
            self.assertEqual(count, len(failed), failed)

    def test_sequence_in_gemini(self):
        self.install("gemini")
        path = self.path("gemini")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"sequential": true', text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"sequential": true', '"sequential": false'))
        failed = self.findings("gemini")[1]
        self.assertEqual(1, len(failed), failed)
        self.assertIn("`sequential` is not true", failed[0])

    def test_each_requirement_of_codex_is_asked_for(self):
        for key in ("allow_managed_hooks_only", "hooks", "unified_exec", "managed_dir"):
            for other in ("", "%s = %s" % (key, "true" if key == "unified_exec" else "false")):
                with self.subTest(key=key, other=other):
                    self.install("codex")
                    path = self.path("codex")
                    with open(path, encoding="utf-8") as file:
                        lines = file.read().splitlines()
                    with open(path, "w", encoding="utf-8") as file:
                        kept = [other if line.startswith(key + " = ") else line for line in lines]
                        self.assertNotEqual(lines, kept)
                        file.write("\n".join(kept) + "\n")
                    failed = self.findings("codex")[1]
                    os.unlink(path)
                    self.assertEqual(1, len(failed), failed)
                    self.assertIn("%s` is not " % key, failed[0])

    def test_a_managed_file_without_an_organization_is_refused(self):
        config = os.path.join(self.home, "json")
        for organization, refused in ((OWN, False), (None, True), ("", True)):
            with self.subTest(organization=organization):
                named = {"api_url": "http://127.0.0.1:1", "api_key": "csk_test", "organization_id": organization}
                with open(config, "w", encoding="utf-8") as file:
                    json.dump({key: value for key, value in named.items() if value is not None}, file)
                os.chmod(config, 0o600)
                settings = Settings(config)
                refuse_nobody(config, settings)  # a user's own file
                with mock.patch.object(checked, "is_managed", lambda given: given == config):
                    if not refused:
                        refuse_nobody(config, settings)
                        continue
                    self.assertRaisesRegex(Refused, "names no organization", refuse_nobody, config, settings)
                    output = io.StringIO()
                    findings = Findings()
                    with contextlib.redirect_stdout(output):
                        try_service(config, findings)
                    self.assertEqual("NOT protected", findings.verdict())
                    self.assertIn("names no organization", output.getvalue())

    @unittest.skipIf(os.name == "nt", "the file of the managed settings is not known there")
    def test_no_managed_client_is_called_protected(self):
        for client, allowed, servers in (
            ("copilot", None, True),
            ("copilot", [{"serverName": "own"}], True),
            ("copilot", [], False),
            ("claude", None, True),
            ("codex", None, True),
            ("gemini", None, True),
            ("opencode", None, True),
        ):
            findings, out = Findings(), io.StringIO()
            with mock.patch.object(copilot, "settings_or_none", lambda path: {"allowedMcpServers": allowed}):
                with contextlib.redirect_stdout(out):
                    client_named(client).checks().around_managed(findings)
            self.assertEqual("works", findings.verdict(), client)
            self.assertEqual(servers, "MCP servers" in out.getvalue(), (client, allowed))


if __name__ == "__main__":
    unittest.main()
