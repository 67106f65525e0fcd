"""Programs that may run what Codex types into them later."""

from .command_line import Line, base_name, program_words
from .prompts import CONTAINERS, FILTERS, ORDINARY, PROMPTS, SOURCES, WRAPPERS, comes_from_terminal, program_name

# Codex may type text into these programs. They do not run this text, or `opens_prompt` has already checked these
# programs. Any other program might run the text. Codex types with its tool `write_stdin`, and no hook sees calls of
# this tool.
HARMLESS = SOURCES | set(FILTERS) | ORDINARY | set(PROMPTS) | WRAPPERS | set(CONTAINERS)
HARMLESS |= set(
    """: . [ [[ cd fi done alias bg break case continue declare disown esac eval export false fc fg for getopts hash in jobs kill let local
    popd pushd readonly return select set shift shopt source test times trap type typeset ulimit umask unalias unset until wait
    exit echo printf true chmod chown chgrp touch ln df du ps pgrep pkill killall sleep cmp diff diff3 patch file stat readlink realpath
    install mktemp mkfifo rmdir sync truncate split csplit join comm expand nproc free uptime lsof ss netstat ip dig host nslookup
    ping whoami id groups tty stty tput clear history lscpu md5sum sha1sum sha256sum sha512sum shasum cksum zip unzip bzip2
    bunzip2 xz unxz zstd ar nm objdump strip ldd strings make cmake ninja meson bazel gradle mvn ant gcc cc clang ld as rustc
    rustfmt rustup clippy-driver gofmt javac tsc eslint prettier biome jest vitest mocha playwright pytest tox nox ruff black mypy
    pylint flake8 isort pyright coverage pre-commit dotnet xcodebuild composer bundle gem rake hg svn gh glab fd tree bat
    jq yq terraform tofu helm kustomize ansible-playbook packer apply_patch applypatch shellcheck shfmt hadolint""".split()
)


def may_run_typed(command):
    """Returns whether this command has an unknown program that reads the terminal. Such a program may run text that
    Codex types into it later."""
    for simple in Line(command).commands:
        words = program_words(simple.words)
        if not words or simple.fed or words[0].startswith(("./", "../", "$")) or words[0].endswith("()"):
            continue  # a program with a path or a variable counts as a script anyway
        if simple.source is not None and not comes_from_terminal(simple):
            continue
        if base_name(words[0]) not in HARMLESS and program_name(words[0]) not in HARMLESS:
            return True
    return False
