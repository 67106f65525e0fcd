"""What the service is told of a shell's call beside its arguments: folders, and the content of scripts."""

import hashlib
import os
import shutil
import tempfile
import time
import unittest

from countersign.hook.clients import client_named
from countersign.hook.event import read_call
from countersign.hook.surroundings import MOST_SCRIPT, MOST_SCRIPTS, MOST_WORDS, content_checksum, surroundings
from countersign.shared.settings import home


class Surroundings(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text="x"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)
        return hashlib.sha256(text.encode()).hexdigest()

    def told(self, command, cwd=None, tool="Bash", **more):
        event = {"session_id": "s", "tool_name": tool, "tool_input": dict({"command": command}, **more)}
        event["cwd"] = self.folder if cwd is None else cwd
        return surroundings(read_call(client_named("claude"), event))

    def scripts(self, command, **more):
        return [(each["word"], each["path"], each["sha256"]) for each in self.told(command, **more).get("scripts", [])]

    def test_the_words_of_a_command_that_name_files(self):
        one, two = self.write("a.sh", "1"), self.write("sub/a.sh", "2")
        here, below = self.path("a.sh"), self.path("sub", "a.sh")
        self.assertEqual([("./a.sh", here, one)], self.scripts("./a.sh"))
        self.assertEqual([("./a.sh", here, one)], self.scripts('X=1; sh -c "exec ./a.sh" >/dev/null'))
        self.assertEqual([("./a.sh", here, one)], self.scripts("bash $PWD/a.sh"))
        self.assertEqual([(here, here, one)], self.scripts(here + " x"))
        self.assertEqual([("./?.sh", here, one)], self.scripts("./?.sh"))
        self.assertEqual([("./a.sh", here, one), ("./a.sh", below, two)], self.scripts("cd sub && ./a.sh"))
        self.assertEqual([("a.sh", here, one), ("a.sh", below, two)], self.scripts("sh a.sh", workdir="sub"))
        self.assertEqual([], self.scripts("./none.sh; sh sub; */*.sh"))

    def test_words_with_quotes_blanks_and_missing_suffixes(self):
        one, two, three = self.write("a.sh", "1"), self.write("my a.sh", "2"), self.write("sub/b.py", "3")
        here, blank, below = self.path("a.sh"), self.path("my a.sh"), self.path("sub", "b.py")
        for command in ('./a"."sh', "./a\\.sh", "git -c 'alias.x=!./a.sh' x"):
            self.assertIn(("./a.sh", here, one), self.scripts(command))
        for command in ("'./my a.sh'", "./my\\ a.sh", 'sh "./my a.sh" now'):
            self.assertIn(("./my a.sh", blank, two), self.scripts(command))
        self.assertEqual([("sub/b", below, three)], self.scripts("node sub/b"))
        self.assertIn(("b.py", below, three), self.scripts("PATH=$PWD/sub:$PATH b.py"))
        self.assertIn(("./my a.sh", blank, two), self.scripts(["sh", "./my a.sh"]))

    def test_files_of_the_folder_that_a_program_reads(self):
        one, two = self.write("Makefile", "1"), self.write("sub/Makefile", "2")
        here, below = self.path("Makefile"), self.path("sub", "Makefile")
        self.assertEqual([("make", here, one)], self.scripts("make all"))
        self.assertEqual([("make", here, one), ("make", below, two)], self.scripts("make -C sub all"))

    def test_tools_that_may_be_shells(self):
        self.write("a.sh")
        for tool in ("execute_command", "BASH", "mcp_x_run"):
            self.assertEqual({"cwd": self.folder}, self.told("./a.sh", tool=tool))
        for tool in ("Edit", "Agent", "mcp__x__run"):
            self.assertEqual({}, self.told("./a.sh", tool=tool))
        self.assertEqual(["a.sh"], [each["word"] for each in self.told("", tool="write_stdin", chars="sh a.sh\n")["scripts"]])

    def test_what_cannot_be_read_is_named_without_its_content_and_never_waited_for(self):
        self.write("a.sh")
        os.mkfifo(self.path("pipe.sh"))
        with open(self.path("large.sh"), "wb") as file:
            file.truncate(MOST_SCRIPT + 1)
        self.write("odd\nname.sh")
        self.assertEqual([], self.scripts("sh pipe.sh; sh /dev/zero; . /dev/stdin; sh odd*"))
        self.assertEqual([("large.sh", self.path("large.sh"), None)], self.scripts("sh large.sh"))
        os.unlink(self.path("a.sh"))
        self.assertEqual(None, content_checksum(self.path("a.sh"), time.monotonic() + 9))
        self.assertEqual(None, content_checksum(self.path("pipe.sh"), time.monotonic() + 9))
        self.assertEqual(None, content_checksum(self.path("large.sh"), time.monotonic() - 1))
        for number in range(40):
            self.write("%d.sh" % number)
        self.assertEqual(MOST_SCRIPTS, len(self.scripts("cat *.sh [0-9]*.sh | sh")))
        self.assertEqual([], self.scripts(" ".join("w%d" % number for number in range(MOST_WORDS)) + " ./1.sh"))

    def test_a_symbolic_link_is_named_with_what_it_leads_to(self):
        sha256 = self.write("real/a.sh")
        os.symlink(self.path("real"), self.path("link"))
        os.symlink(self.path("real", "a.sh"), self.path("b.sh"))
        told = self.told("./a.sh", self.path("link"))
        self.assertEqual(self.path("link"), told["cwd"])
        self.assertEqual([self.path("real")], told["real_folders"])
        self.assertEqual([("./b.sh", self.path("real", "a.sh"), sha256)], self.scripts("./b.sh"))
        self.assertEqual([self.path("real")], self.told("ls", workdir="link")["real_folders"])
        self.assertEqual([self.path("real")], self.told("cd link && rm -rf data")["real_folders"])
        self.assertEqual([self.path("real")], self.told("git -C link clean")["real_folders"])
        self.assertNotIn("real_folders", self.told("cd real && cat link"))
        self.assertEqual([home()], self.told("ls", workdir="~")["real_folders"][:1])
        self.assertNotIn("real_folders", self.told("ls", workdir="real/../real"))

    def test_a_folder_that_cannot_be_read_is_sent_as_it_is(self):
        for cwd in ("relative", "", 5, ["/w"]):
            self.assertEqual({"cwd": cwd}, self.told("./a.sh", cwd))
        event = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}
        self.assertEqual({}, surroundings(read_call(client_named("claude"), event)))


if __name__ == "__main__":
    unittest.main()
