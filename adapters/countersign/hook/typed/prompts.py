"""Finds commands that may run text that is typed in later."""

from .command_line import SUBSTITUTED, Line, base_name, is_terminal, program_words

# Codex can type into a running program with `write_stdin`, and no hook sees this text. So the hook refuses a program
# that would run the typed text.

# These programs read commands from the terminal if they have at most this many arguments. Options do not count as
# arguments. 99 means any number. Example: `python` reads commands, but `python a.py` does not.
PROMPTS = dict(
    [(name, 0) for name in "bash sh zsh dash ash ksh mksh fish csh tcsh rbash xonsh nu elvish python ipython pypy".split()]
    + [(name, 0) for name in "node deno bun ruby irb perl php lua luajit R redis-cli tmux screen pwsh powershell tclsh".split()]
    + [(name, 0) for name in "ghci jshell scala erl iex julia octave unshare nsenter login newgrp m4 dc pry guile expect tsx swift".split()]
    + [(name, 1) for name in "ssh telnet nc ncat socat su ftp sftp sqlite sqlite3 chroot".split()]
    + [(name, 99) for name in "psql mysql mongosh gdb lldb script vi vim nvim view ex ed emacs nano less more man at batch".split()]
)
# The option `-m` of these programs names a module to run.
WITH_MODULES = ("python", "pypy", "ipython")
# Programs that run the commands of a file. These are refused if the file is the terminal. `sed` and `awk` are not in
# this list, because only their file of `-f` has commands. Their other files are data.
FILE_RUNNERS = frozenset("make gmake bmake cmake ninja rake just ansible ansible-playbook dotnet tsx swift".split())
# The option `-c` of these programs takes code of their own language, not a command line.
PROGRAMMED = ("python", "pypy", "ipython", "lua", "R", "octave")
SHELLS = frozenset("bash sh zsh dash ash ksh mksh fish csh tcsh rbash".split())
# With one of these words as the first argument, many programs open a prompt: `poetry shell`, `rails console`.
PROMPT_COMMANDS = frozenset("shell console repl dbshell debugshell develop enter attach interactive".split())
# Options of the programs in PROMPTS that take the next word as their value.
WITH_VALUE = "--rcfile --init-file -O +O -o +o -W -X -r --require --import -I -M".split()
NO_PROMPT = ("-c", "-e", "-f", "--eval", "--command", "--execute", "--file", "--version", "--help", "-V", "-h", "--batch")
ASKS_ON = ("-i", "-s", "--interactive", "-")
PROMPT_MODULES = ("code", "pdb", "IPython", "ptpython", "asyncio", "bpython")

# Programs that start another program. The name of the other program comes after their own arguments. Example: `nice
# bash`.
WRAPPERS = frozenset(
    """exec env sudo doas command builtin nohup time nice ionice chrt taskset timeout stdbuf setsid flock watch xargs parallel
    strace ltrace prlimit setarch busybox toybox eatmydata firejail proot torify proxychains sshpass dbus-run-session coproc
    unshare nsenter chroot systemd-run runuser setpriv sg npx uvx poetry pipenv rlwrap unbuffer expect winpty catchsegv numactl
    cpulimit fakeroot entr script tmux screen su ssh find uv pipx pdm hatch rye conda mamba micromamba mise asdf direnv bundle bunx
    pnpx nix nix-shell guix flatpak snap distrobox toolbox vagrant heroku fly""".split()
)
CONTAINERS = ("docker", "podman", "kubectl", "nerdctl", "oc", "docker-compose", "podman-compose")
OPENING = ("run", "exec", "attach", "start", "debug")
AWKS = ("awk", "gawk", "mawk", "nawk")
# If a wrapper starts one of these programs, the words after the program's name are not searched for programs. They are
# arguments. Example: `sudo apt install zsh`.
ORDINARY = frozenset("apt apt-get dnf yum apk brew pip pip3 npm yarn pnpm cargo go git make grep rg sed awk ls cat cp mv rm mkdir tar".split())

# Programs that pass on what they read. The number says how many arguments come before the file names. A program with 99
# reads its input with any arguments.
FILTERS = dict(
    [(name, 0) for name in "cat head tail sort uniq rev tac nl fold fmt paste xxd od base64 base32 gzip gunzip zcat cut".split()]
    + [(name, 1) for name in "sed awk gawk mawk grep egrep fgrep jq".split()]
    + [(name, 99) for name in "tee tr read mapfile readarray select dd line openssl envsubst".split()]
)
# If one of these programs is the first of a pipe, it reads nothing from the terminal.
SOURCES = frozenset("echo printf ls find git curl wget seq date env pwd which dirname basename uname hostname true".split())


def program_name(word):
    """Returns a program's name without its folder and version: `python` for `/usr/bin/python3.12`."""
    name = base_name(word)
    return name if name in FILTERS or name in WRAPPERS or name in PROMPTS else name.rstrip("0123456789.-") or name


def asks(words, depth):
    """Returns whether this program runs text that is typed into it."""
    name = program_name(words[0])
    if any(c in name for c in "$*?[{") and not any(not word.startswith("-") for word in words[1:]):
        return True  # the program is not known, and it gets nothing but options
    if name == "eval":
        # The word `$` stands for a substitution, which is checked as a command of its own.
        return opens_prompt(" ".join(word for word in words[1:] if word != "$"), depth + 1)
    most = PROMPTS.get(name)
    if most is not None and prompts(name, words[1:], most, depth):
        return True
    if reads_as_code(name, words[1:]) or runs_typed_file(name, words[1:]) or debugs(name, words[1:]):
        return True
    operands = [word for word in words[1:] if not word.startswith("-")]
    if any(word in PROMPT_COMMANDS for word in operands[: 2 if most is not None else 1]) and name not in ORDINARY and name not in FILTERS:
        return True
    if name in CONTAINERS:
        return opens_container(name, words[1:])
    if name in ("sudo", "doas") and opens_own_shell(words[1:]):
        return True
    if most is None and not operands and name.endswith(("sh", "-shell")) and "." not in name:
        return True  # the name says that this is a shell
    if name not in WRAPPERS or (name == "command" and words[1:2] and words[1] in ("-v", "-V")):
        return False
    if name == "find":
        started = [at for at, word in enumerate(words) if word in ("-exec", "-execdir", "-ok", "-okdir")]
        return bool(started) and wraps(words[started[0] + 1 :], depth)
    return wraps(words[1:], depth)


def runs_typed_file(name, arguments):
    """Returns whether this program runs the commands of a file, and the file is the terminal. Examples: `make -f -`,
    `sed -f /dev/stdin`."""
    only_options = name in AWKS or name == "sed"
    if name == "split":
        return any(word.startswith("--filter") for word in arguments)  # it gives what is typed to a program
    if not only_options and name not in FILE_RUNNERS:
        return False
    for at, word in enumerate(arguments):
        value = word.partition("=")[2] if word.startswith("--") else word[2:] if word.startswith(("-f", "-P", "-C")) else ""
        # `f` can be the last of several option letters: `-sf -`.
        is_next = word.startswith("--file") or (word[:1] == "-" and word[1:2] != "-" and word.endswith("f"))
        if is_terminal(value) or (is_next and any(map(is_terminal, arguments[at + 1 : at + 2]))):
            return True
    return not only_options and any(map(is_terminal, arguments))


def debugs(name, arguments):
    """Returns whether this program opens a debugger or a prompt of its language, which waits for typed text. Examples:
    `pytest --pdb`, `dotnet fsi`."""
    if name == "dotnet":
        return [word for word in arguments if not word.startswith("-")] == ["fsi"]
    if name in ORDINARY or name in FILTERS or name in SOURCES:
        return False
    tests = any(base_name(word) in ("pytest", "py.test") for word in [name] + arguments)
    return "--pdb" in arguments or (tests and "--trace" in arguments)


# Options of `sudo` that take the next word as their value.
SUDO_VALUES = "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --role --type".split()


def opens_own_shell(arguments):
    """Returns whether `sudo` starts a shell that gets no command. Example: `sudo -i`."""
    left, shell = list(arguments), False
    while left:
        word = left.pop(0)
        if word in SUDO_VALUES:
            left = left[1:]
        elif word in ("--shell", "--login") or (word[:1] == "-" and word[1:2] != "-" and ("s" in word or "i" in word)):
            shell = True
        elif not word.startswith("-"):
            return False
    return shell


def opens_container(name, arguments):
    """Returns whether typed text reaches a program in a container. This program is not known, so it may run the
    text."""
    if not any(word in OPENING for word in arguments):
        return False
    short = [word for word in arguments if word[:1] == "-" and word[1:2] != "-"]
    if "compose" in arguments or name.endswith("-compose"):
        return ("exec" in arguments or "run" in arguments) and not any("T" in word for word in short)
    given = any(word.split("=")[0] in ("--interactive", "--stdin", "--attach") for word in arguments)
    return given or "attach" in arguments or any("i" in word for word in short)


def wraps(arguments, depth):
    """Returns whether one of these arguments is a program that runs typed text. The wrapper's own arguments may come
    before it."""
    words = [word for word in arguments if word not in (";", "+", "{}")]
    for at, word in enumerate(words):
        if word.startswith(("-S", "--split-string=")) and opens_prompt(word[word.find("=") + 1 or 2 :], depth + 1):
            return True
        if word in ("-S", "--split-string") and opens_prompt(" ".join(words[at + 1 :]), depth + 1):
            return True
        if word.startswith("-") or "=" in word:
            continue
        name = program_name(word)
        if (name in PROMPTS or name in AWKS or name in FILE_RUNNERS or name in ("sed", "split")) and asks(words[at:], depth + 1):
            return True
        if name in ORDINARY:
            return False
    return False


def prompts(name, arguments, most, depth):
    left, given, module = list(arguments), 0, None
    quiet = False
    while left:
        word = left.pop(0)
        short = word[:1] == "-" and word[1:2] != "-"
        if word in ASKS_ON or is_terminal(word):
            return True
        if name in SHELLS and short and "c" in word and given == 0:
            left = [each for each in left if not each.startswith("-")]
            return bool(left) and opens_prompt(left[0], depth + 1)
        if word in ("-c", "--command") or (short and word.endswith("c") and most == 0):
            return bool(left) and name not in PROGRAMMED and opens_prompt(left[0], depth + 1)
        if word == "-m" and name in WITH_MODULES:
            module = left.pop(0) if left else None
            given += 1
        elif word in WITH_VALUE and most == 0:
            left = left[1:]
        elif name in SHELLS and word in ("-e", "-f", "-h"):
            pass  # options of a shell that reads its commands from standard input
        elif most == 0 and name not in SHELLS and short and word[-1] in "eE":
            quiet = True
        elif (word in NO_PROMPT and (word != "-h" or most < 99)) or word.startswith(("--eval=", "--command=", "--file=")):
            quiet = True
        elif not word.startswith("-"):
            given += 1
    return module in PROMPT_MODULES if module is not None else not quiet and given <= most


def reads_terminal(simple):
    """Returns whether this command passes on text that is typed into the terminal."""
    words = program_words(simple.words)
    if not words or simple.fed or simple.source:
        return False
    most = FILTERS.get(base_name(words[0]))
    operands = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    return most is not None and (len(operands) <= most or any(is_terminal(word) for word in operands[most:]))


def runs_text(simple, depth):
    """Returns whether this command runs a text that it reads, or that it gets as an argument. Then this text may have
    been typed into another command of the line."""
    words = program_words(simple.words)
    if not words:
        return False
    if base_name(words[0]) in ("eval", "xargs", "parallel", "source", ".") or "$" in words[0]:
        return True
    if SUBSTITUTED in words and base_name(words[0]) in PROMPTS:
        return True
    return (simple.fed or simple.source is not None) and asks(words, depth)


def comes_from_terminal(simple):
    """Returns whether typed text may reach this command through its pipe."""
    first = program_words(simple.source.words)
    if not first or simple.source.fed:
        return False
    name = base_name(first[0])
    return reads_terminal(simple.source) or (name not in SOURCES and name not in FILTERS)


def opens_prompt(command, depth=0):
    """Returns whether a command may run text that is typed into it later. This function knows common programs by their
    names. It does not recognize a program under another name."""
    if depth > 5:
        return True
    commands = Line(command).commands
    typed = any(map(reads_terminal, commands))
    for simple in commands:
        words = program_words(simple.words)
        if not words:
            continue
        name = base_name(words[0])
        if name in ("source", ".") and any(is_terminal(word) for word in words[1:]):
            return True
        if typed and runs_text(simple, depth):
            return True
        if simple.source is not None:
            if (asks(words, depth) or name in ("xargs", "parallel")) and comes_from_terminal(simple):
                return True
        elif not simple.fed and (asks(words, depth) or name in ("xargs", "parallel")):
            return True
    return False


# Words that show that code reads standard input, and words that show that code runs a text or a program.
READS_INPUT = ("input", "stdin", "STDIN", "interact", "readline", "gets", "ARGF", "<>", "open(0", "/dev/tty", "/dev/fd/0")
RUNS_TEXT = ("exec", "eval", "system", "popen", "spawn", "subprocess", "child_process", "Function", "import(", "`", "%x", "qx", "shell")


def reads_as_code(name, arguments):
    """Returns whether this interpreter gets code as an argument, and this code reads standard input and runs a text or
    a program. Example: `python -c 'exec(input())'`."""
    if name in AWKS:
        operands = [word for word in arguments if not word.startswith("-")]
        code, files = (operands[0], operands[1:]) if operands else ("", [])
        runs = "system" in code or "|" in code or any(word.startswith("-f") for word in arguments)
        return runs and (not files or any(is_terminal(word) for word in files))
    if name == "sed":
        operands = [word for word in arguments if not word.startswith("-")]
        return len(operands) <= 1 and any(map(sed_runs, arguments))
    if name in SHELLS or name not in PROMPTS:
        return False
    left, code, reads, files = list(arguments), [], False, 0
    while left:
        word = left.pop(0)
        short = word[:1] == "-" and word[1:2] != "-"
        if word.startswith("--eval=") or word.startswith("--print="):
            code.append(word.partition("=")[2])
        elif word in ("--eval", "--print", "-r") or (short and word[-1] in "ceEp" and len(word) > 1):
            # `-n` and `-p` of perl and ruby run the code once for each line of the input.
            reads = reads or (name in ("perl", "ruby") and ("n" in word or "p" in word))
            code += left[:1]
            left = left[1:]
        elif short and name in ("perl", "ruby") and ("n" in word or "p" in word):
            reads = True
        elif not word.startswith("-"):
            files += 1
    text = "\n".join(code)
    reads = (reads and files == 0) or any(word in text for word in READS_INPUT)
    return bool(code) and reads and any(word in text for word in RUNS_TEXT)


def sed_runs(script):
    """Returns whether a script of GNU sed runs shell commands: with its command `e`, or with the flag `e` of its
    command `s`."""
    import re

    return bool(re.search(r"(^|[;{}\n\d$/!\s])e(\s|;|}|$)", script) or re.search(r"s(.).*\1.*\1\w*e", script))
