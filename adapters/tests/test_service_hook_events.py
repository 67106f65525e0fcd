"""Events beside plain tool calls: Cursor's own events, programs that run typed text, and patches in shell commands."""

import unittest

from countersign.hook.after import outcome_of
from countersign.hook.clients import client_named
from countersign.hook.event import calls_of, read_call
from countersign.hook.place import Place
from countersign.hook.typed.prompts import opens_prompt


class OtherEvents(unittest.TestCase):
    def read(self, dialect, **event):
        call = read_call(client_named(dialect), dict({"session_id": "s"}, **event))
        return call.tool, call.arguments

    def test_the_granular_events_of_cursor(self):
        shell = {"hook_event_name": "beforeShellExecution", "command": "ls", "cwd": "/w"}
        self.assertEqual(("Bash", {"command": "ls", "cwd": "/w"}), self.read("cursor", **shell))
        read = {"hook_event_name": "beforeReadFile", "file_path": "/w/a", "content": "secret"}
        self.assertEqual(("Read", {"file_path": "/w/a"}), self.read("cursor", **read))
        mcp = {"hook_event_name": "beforeMCPExecution", "tool_name": "post", "tool_input": '{"a": 1}'}
        self.assertEqual(("mcp__cursor__post", {"a": 1}), self.read("cursor", **mcp))

    def test_programs_that_wait_for_commands(self):
        for command in (
            "bash", "/bin/bash -i", "cd /w && bash", "FOO=1 sh", "sudo bash", "python3", "python3 -i", "ssh host",
            "exec zsh", "node", "psql -U me db", "(bash)", "ls; bash &", "'bash'", "\\bash", "env python3 -q",
            "timeout 60 bash", "nice -n 5 bash", "env -i bash", "env -S 'bash -i'", "stdbuf -oL bash", "setsid sh", "script -q x",
            "eval bash", 'eval "$(cat)"', "xargs -I{} sh -c {}", "cat | sh", "tee x | sh", "b''ash", '"ba"sh', "/bin/b?sh",
            "X=bash; $X", "bash --rcfile x", "bash -lc bash", "python3 -m code", 'read x; eval "$x"', ". /dev/stdin",
            "while read l; do $l; done", "bash <(cat)", 'bash <<< "$(cat)"', "echo $(bash)", "cat <<E\n$(bash)\nE",
            "bash < /dev/tty", "./x | bash", "find . -exec bash \\;", 'echo "$(case x in x) bash;; esac)"', "docker exec -it c sh",
            "sh -e", "bash -e", "bash -ex", "bash -eu -o pipefail", "sudo -s", "sudo -i", "sudo -u me -s", "sudo -Es", "python3.12",
            "/opt/bin/python3.12 -q", "pypy3", "pypy3.10", "zsh-5.9", "node18", "uv run bash", "uv run python", "pipx run ipython",
            "poetry shell", "rails console", "python3.12 manage.py shell", "nix-shell", "nix develop", "guix shell", "xonsh", "brush",
            "docker run -ti x", "docker run --rm -i x ls", "docker compose exec web ls", "docker attach c", "kubectl exec -it p -- ls",
            "kubectl attach --stdin p", "awk '{system($0)}'", "awk '{print | \"sh\"}'", "awk -f x", "sed e", "sed 's/.*/&/e'",
            "python3 -c 'exec(input())'", "python3.12 -Ic 'import sys; exec(sys.stdin.read())'", "node -e 'eval(fs.readFileSync(\"/dev/stdin\"))'",
            "perl -ne 'system($_)'", "perl -e 'system(<>)'", "ruby -ne 'system($_)'", "cat | perl -ne 'exec $_'", "timeout 9 awk '{system($0)}'",
            "m4", "/usr/bin/m4 -", "at now", "at 10:00", "at -m now + 1 hour", "batch", "bash -m", "expect", "expect -", "timeout 9 expect",
            "expect -c 'spawn bash; interact'", "make -f -", "make -f /dev/stdin", "make -f- all", "make -sf -", "make --file=/dev/tty",
            "timeout 9 make -f -", "sed -f - FILE", "sed -nf /dev/stdin FILE", "awk -f /dev/stdin FILE", "cmake -P /dev/stdin",
            "ninja -f /dev/stdin", "rake -f -", "ansible-playbook /dev/stdin", "tsx", "tsx -", "swift", "dotnet fsi", "pytest --pdb",
            "python3 -m pytest --pdb x", "pytest --trace x", "uv run pytest --pdb", "hg debugshell", "split --filter=sh",
            "exec 3<&0; sh <&3", "bash 0<&3", "bash 3</dev/null", "bash {x}<file", "bash < /dev/pts/0", "bash /dev/fd/3", "bash 3<<E\nx\nE",
        ):  # fmt: skip
            self.assertTrue(opens_prompt(command), command)
        for command in (
            "bash -c ls", "bash script.sh", "python3 x.py", "python3 -c 'print(1)'", "ls bash", "ssh host ls",
            "cat x | bash", "echo bash", "node --version", "psql -c 'select 1' db", "", "bashful",
            "bash <<'E'\nls\nE", "cat > f <<'E'\nbash\npython3\nE", "bash < file", "echo hi | bash", "ls | xargs rm",
            'eval "$(ssh-agent -s)"', 'git commit -m "fix; bash\npython"', "command -v bash", "sudo apt install python3",
            "sh -e x.sh", "bash -ec ls", "bash -e -c ls", "sudo -u me ls -s", "sudo -n ls -i", "python3.12 x.py", "node18 x.js", "uv run pytest",
            "uv sync", "poetry install", "docker run x ls", "docker ps -i", "docker compose up", "docker compose exec -T web ls",
            "kubectl get pods -i", "awk '{print $1}'", "awk '{system($0)}' file", "awk 'BEGIN{print 1}'", "sed -n 1,5p f", "sed s/a/b/",
            "ls | sed 's/e/x/g'", "python3 -c 'import json,sys; json.load(sys.stdin)'", "perl -ne 'print' f", "perl -pe 's/a/b/'",
            "node -e 'console.log(1)'", "perl -e 'print 1'", "git push", "make crash", "./deploy.sh", "npm run shell-tests",
            "docker pull node", "while read l; do echo $l; done < file", "python3 - <<'E'\nprint(1)\nE", "$HOME/bin/tool x",
            "m4 x.m4", "at -f job now", "expect x.exp", "make -f Makefile all", "make -j4 test", "make -f - <<'E'\nall:\nE", "sed -f x.sed FILE",
            "sed s/a/b/ -", "awk -f x.awk file", "cmake -P x.cmake", "cmake -S . -B build", "ninja -C build", "ansible-playbook x.yml",
            "tsx x.ts", "swift build", "dotnet fsi x.fsx", "dotnet test", "pytest -q", "hg log", "split -l 5 file", "bash 0<file",
            "bash <&-", "bash x 2>&1", "bash x 2>/dev/null >&2", "bash x &> log", "python3 -m pytest -x", "git grep -e --pdb",
        ):  # fmt: skip
            self.assertFalse(opens_prompt(command), command)

    def test_a_session_of_codex_that_may_run_typed_text_is_also_the_typing(self):
        def tools(command, dialect="codex", config=None):
            tool_input = {"command": command}
            event = {"session_id": "s", "tool_name": "Bash", "tool_input": tool_input, "tool_use_id": "u", "turn_id": "t"}
            found = calls_of(read_call(client_named(dialect), event), config)
            return [(each.tool, each.use_id) for each in found]

        asked = [("Bash", "u"), ("write_stdin", "u:write_stdin")]
        for command in ("mytool", "mytool --all x", "cd /w && mytool", "/opt/bin/mytool", "mytool | grep x", "cat | mytool", "FOO=1 mytool-2", "codex", "codex exec -"):
            self.assertEqual(asked, tools(command), command)
        for command in (
            "ls", "git log", "make test", "pytest -q", "mytool < /dev/null", "ls | mytool", "mytool <<E\nx\nE", "python3 x.py",
            "codex --version < /dev/null", "./deploy", "for i in 1 2; do echo $i; done", "if true; then cd x; fi", "python3.12 x.py", "X=1; echo $X > f", "",
        ):  # fmt: skip
            self.assertEqual([("Bash", "u")], tools(command), command)
        # A managed Codex has no `write_stdin`, and the other clients report what is typed.
        self.assertEqual([("Bash", "u")], tools("mytool", config=Place(True).config))
        self.assertEqual([("Bash", "u")], tools("mytool", "claude"))

    def test_a_patch_by_way_of_the_shell_is_also_the_write_and_the_edit(self):
        patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: /srv/b\n@@\n*** End Patch\n"
        command = "apply_patch <<'E'\n" + patch + "E"
        event = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "u", "cwd": "/w"}
        call = read_call(client_named("codex"), event)
        self.assertEqual(("Bash", "u"), (call.tool, call.use_id))
        found = [(each.tool, each.use_id, each.arguments["file_path"]) for each in call.also]
        self.assertEqual([("Write", "u:Write", "/w/a"), ("Edit", "u:Edit", "/srv/b")], found)
        event["tool_input"] = {"command": "cd sub && " + command}
        found = [each.arguments["file_path"] for each in read_call(client_named("codex"), event).also]
        self.assertEqual([{"1": "/w/a", "2": "/w/sub/a"}, "/srv/b"], found)
        event["tool_input"] = {"command": "cd $X && " + command}
        self.assertIn("write its path in full", read_call(client_named("codex"), event).refused)
        for command in ("applypatch", "'apply_patch'", "/x/apply''patch", "true; applypatch"):
            event["tool_input"] = {"command": command + " <<'E'\n" + patch + "E"}
            self.assertEqual(["Write", "Edit"], [each.tool for each in read_call(client_named("codex"), event).also], command)
        command = "apply_patch <<'E'\n" + patch + "E"
        quoted = command.replace("'E'", "E")
        for nested in (
            ["bash", "-lc", command],
            f'bash -lc "{quoted}"',
            f'sh -c "{quoted}"',
            f'/bin/bash -lc "{quoted}"',
            f'cd /w && zsh -lc "{quoted}"',
            f"eval \"{quoted}\"",
            f"bash <<'X'\n{command}\nX",
            f'bash -c "bash -c \'{quoted}\'"',
        ):
            event["tool_input"] = {"command": nested}
            self.assertEqual(["Write", "Edit"], [each.tool for each in read_call(client_named("codex"), event).also], nested)
        for harmless in (["cat", patch], f"bash -c 'ls' ; cat <<'E'\n{patch}E", f"cat <<'E'\n{patch}E"):
            event["tool_input"] = {"command": harmless}
            self.assertEqual([], read_call(client_named("codex"), event).also, harmless)
        event["tool_input"] = {"command": "cat > a.patch <<'E'\n" + patch + "E"}
        self.assertEqual([], read_call(client_named("codex"), event).also)
        event["tool_input"] = {"command": "apply_patch < file"}
        self.assertEqual([], read_call(client_named("codex"), event).also)

    def test_how_a_call_ended(self):
        for event, outcome in (
            ({"hook_event_name": "PostToolUse", "tool_response": {"stdout": "error"}}, "ok"),
            ({"hook_event_name": "PostToolUseFailure", "error": "Exit code 3"}, "error"),
            ({"hook_event_name": "AfterTool", "tool_response": {"error": {"message": "m"}}}, "error"),
            ({"hook_event_name": "AfterTool", "tool_response": {"llmContent": "x", "error": None}}, "ok"),
            ({"toolName": "bash", "error": "failed"}, "error"),
            ({"toolName": "bash", "toolResult": {}}, "ok"),
        ):
            self.assertEqual(outcome, outcome_of(event), event)


if __name__ == "__main__":
    unittest.main()
