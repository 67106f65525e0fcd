"""What the service is told of a shell's call beside its arguments: the folder, and the content of scripts."""

import os
import time

from ..shared.limits import MIB
from .arguments import collapsed, is_absolute
from .tool_names import OTHER_TOOLS, SHELL_TOOLS

MOST_FOLDERS = 8  # folders in which a script of one call is looked for
MOST_WORDS = 400  # words of one command that are looked up on the disk
MOST_SCRIPTS = 32  # files of one call that are sent
LONGEST_PATH = 4096  # characters: the service refuses longer paths
MOST_SCRIPT = 64 * MIB  # of a larger file, the service is told only the path
MOST_OF_SCRIPTS = 256 * MIB  # bytes of all scripts of one call
SCRIPT_SECONDS = 1.5  # after this time, no further file is read

# The arguments that have a shell's command, or what is typed into one.
COMMANDS = ("command", "cmd", "script", "chars", "input", "data", "text")
# The service knows the folder of a call under these names (src/policy/readers/folders.ts).
OWN_FOLDERS = ("workdir", "cwd", "directory", "dir_path", "working_directory", "workingDirectory", "working_dir")
# Characters that end a word somewhere in a command, for example in the text of `sh -c`.
BETWEEN_WORDS = {ord(c): " " for c in "\t\r\n\0;&|<>()`'\"{}=,$!"}
# Characters that a shell removes from a word.
QUOTES = {ord(c): None for c in "'\"\\"}
# Words of a command that enters a folder. They stand in front of its name.
ENTERING = ("cd", "pushd", "chdir", "-C", "--directory", "--chdir", "--cwd", "--prefix")
# Programs that run a file without its suffix.
SUFFIXES = (".js", ".cjs", ".mjs", ".ts", ".py", "/index.js", "/__main__.py")
# Files of the folder that say what a program runs: {program: names}. The service has the same table
# (src/shell/tables/interpreters.ts).
FOLDER_FILES = {
    program: names.split()
    for programs, names in (
        ("make gmake", "GNUmakefile makefile Makefile"),
        ("npm npx yarn pnpm bun", "package.json"),
        ("just", "justfile Justfile .justfile"),
        ("task", "Taskfile.yml Taskfile.yaml"),
        ("docker podman", "Dockerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml"),
        ("docker-compose podman-compose", "docker-compose.yml docker-compose.yaml compose.yml compose.yaml"),
        ("rake", "Rakefile"),
        ("gulp", "gulpfile.js"),
        ("grunt", "Gruntfile.js"),
        ("inv invoke", "tasks.py"),
        ("fab", "fabfile.py"),
        ("cargo", "build.rs"),
        ("pip pip3", "setup.py"),
        ("pytest", "conftest.py"),
        ("gradle", "build.gradle build.gradle.kts"),
        ("mvn", "pom.xml"),
        ("composer", "composer.json"),
    )
    for program in programs.split()
}
# Names of the present folder and of HOME in front of a path.
NAMED_FOLDERS = (("$PWD/", "./"), ("${PWD}/", "./"), ("$(pwd)/", "./"), ("`pwd`/", "./"), ("$HOME/", "~/"), ("${HOME}/", "~/"))


def surroundings(call):
    """Returns the fields of an authorize request that say where a call runs, and what a shell runs. A folder that the
    service cannot read is sent as it is, so that the service denies the call."""
    if call.cwd is None or call.tool in OTHER_TOOLS or call.tool.startswith("mcp__"):
        return {}
    told = {"cwd": call.cwd}
    if call.tool not in SHELL_TOOLS or not is_absolute(call.cwd):
        return told
    known, folders = own_folders(call)
    words = words_in([call.arguments.get(name) for name in COMMANDS])
    real = [path for folder in folders for path in (folder, real_path(folder)) if path is not None and path not in known]
    real += entered_links(words, folders)
    if real:
        told["real_folders"] = sorted(set(real), key=real.index)[:MOST_FOLDERS]
    scripts = scripts_in(words, folders)
    if scripts:
        told["scripts"] = scripts
    return told


def own_folders(call):
    """Returns the client's folder, and those that the call names itself, as absolute paths in plain form. The first list
    is as the service reads them, and the second one as a shell does, which replaces `~`."""
    own = [call.arguments.get(name) for name in OWN_FOLDERS]
    given = [call.cwd] + [each for each in own if isinstance(each, str) and each.strip()]
    return (
        [collapsed(os.path.join(call.cwd, each)) for each in given],
        [collapsed(os.path.join(call.cwd, os.path.expanduser(each))) for each in given],
    )


def real_path(path):
    """Returns a path without symbolic links; None if it cannot be read."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def words_in(given):
    """Returns what may be words of these commands. A quote can end a word or stand in it, so each text is read in three
    ways: with quotes between words, without them, and as a shell reads words with blanks."""
    words = []
    for text in texts_in(given):
        if len(text) >= MIB:
            continue
        read = [text]
        if any(c in text for c in "'\"\\"):
            read.append(text.translate(QUOTES))
        for each in read:
            for name, place in NAMED_FOLDERS:
                each = each.replace(name, place)
            words += each.translate(BETWEEN_WORDS).split()
        words += [word for word in quoted_words(text) if " " in word] if len(read) > 1 else ()
    words += [word for each in given if isinstance(each, list) for word in each if isinstance(word, str) and " " in word]
    # In `PATH=./bin:$PATH deploy`, a folder stands in front of a colon.
    parts = [part for word in words if ":" in word for part in word.split(":") if part]
    return list(dict.fromkeys(parts + words))[:MOST_WORDS]


def quoted_words(text):
    from shlex import split

    try:
        return split(text)
    except ValueError:
        return []


def entered_links(words, folders):
    """Returns the folders that the command enters by a symbolic link, without links."""
    found = []
    for before, word in zip(words, words[1:]):
        for folder in folders if before in ENTERING else ():
            path = os.path.join(folder, os.path.expanduser(word))
            real = real_path(path)
            if real is not None and real != collapsed(path) and os.path.isdir(real):
                found.append(real)
    return found


def scripts_in(words, folders):
    """Returns the files that these words of commands name: `word`, `path` and `sha256`. The service knows which of them
    the command runs. A word can name a file in each folder that the command may enter, so all of them are sent."""
    found, folders = [], list(folders)
    if any(word in ("cd", "HOME", "~") for word in words):
        folders.append(os.path.expanduser("~"))
    until, left = time.monotonic() + SCRIPT_SECONDS, MOST_OF_SCRIPTS
    named = [(word, word) for word in words] + [(word, name) for word in words for name in FOLDER_FILES.get(word, ())]
    for word, path in ((word, path) for word, name in named for folder in list(folders) for path in paths_of(name, folder)):
        status = status_of(path)
        if status is None:
            continue
        if is_folder(status) and path not in folders and len(folders) < MOST_FOLDERS:
            folders.append(path)
        if status.st_mode & 0o170000 != 0o100000 or len(found) == MOST_SCRIPTS:
            continue
        real = real_path(path)
        if real is None or not real.isprintable() or len(real) > LONGEST_PATH:
            continue
        if any(each["word"] == word and each["path"] == real for each in found):
            continue
        may_read = status.st_size <= min(MOST_SCRIPT, left) and time.monotonic() < until
        sha256 = content_checksum(real, until) if may_read else None
        left -= status.st_size if may_read else 0
        found.append({"word": word, "path": real, "sha256": sha256})
    return found


def paths_of(word, folder):
    """Returns the paths that a word may stand for in this folder. A word with a pattern stands for several."""
    path = os.path.join(folder, os.path.expanduser(word))
    folder, name = os.path.split(path)
    if not any(c in path for c in "*?["):
        return [path] if os.path.isfile(path) else [path] + [path + suffix for suffix in SUFFIXES]
    if any(c in folder for c in "*?["):
        return []
    from fnmatch import filter

    try:
        return [os.path.join(folder, each) for each in sorted(filter(os.listdir(folder), name))[:MOST_SCRIPTS]]
    except (OSError, ValueError):
        return []


def texts_in(given):
    """Returns the texts in commands, which may also be lists of words."""
    for each in given:
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            yield " ".join(word for word in each if isinstance(word, str))


def status_of(path):
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def is_folder(status):
    return status.st_mode & 0o170000 == 0o040000


def content_checksum(path, until):
    """Returns the SHA-256 of a file; None if it cannot be read in time. Another program may replace the file by a pipe
    or a device, so it is opened without waiting and looked at again."""
    from hashlib import sha256

    read, size = sha256(), 0
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0))
        try:
            if os.fstat(file).st_mode & 0o170000 != 0o100000:
                return None
            while time.monotonic() < until:
                chunk = os.read(file, MIB)
                if not chunk:
                    return read.hexdigest()
                size += len(chunk)
                if size > MOST_SCRIPT:
                    return None
                read.update(chunk)
        finally:
            os.close(file)
    except OSError:
        pass
    return None
