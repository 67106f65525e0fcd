# Commands that start a program that waits for more commands.

# Programs that read commands from their terminal if at most this many arguments follow. Codex types into a running
# program
# with `write_stdin`, which no hook sees.
PROMPTS = dict(
    [(name, 0) for name in "bash sh zsh dash ksh fish csh tcsh python python2 python3 ipython node deno bun".split()]
    + [(name, 0) for name in "ruby irb perl php lua R redis-cli gdb tmux screen script pwsh powershell".split()]
    + [(name, 1) for name in "ssh telnet nc ncat socat su ftp sftp sqlite3".split()]
    + [(name, 99) for name in "psql mysql mongosh".split()]
)
PREFIXES = ("exec", "env", "sudo", "command", "nohup", "time", "nice")
NO_PROMPT = ("-c", "-e", "-f", "--eval", "--command", "--execute", "--file", "--version", "--help", "-V", "-h")


def opens_prompt(command):
    """Whether a command starts a program that then waits for commands. This only looks at the words."""
    for separator in ("&&", "||", ";", "\n", "(", ")", "{", "}"):
        command = command.replace(separator, "\0")
    for part in command.split("\0"):
        # Behind a pipe it reads from the pipe, not from the terminal.
        words = part.split("|")[0].replace("&", " ").split()
        while words and ("=" in words[0] or words[0] in PREFIXES):
            words.pop(0)
        most = PROMPTS.get(words[0].strip("'\"\\").rsplit("/", 1)[-1]) if words else None
        if most is None or any(word in NO_PROMPT or word.startswith(("<", "--eval=", "--command=")) for word in words):
            continue
        if sum(not word.startswith("-") for word in words[1:]) <= most:
            return True
    return False
