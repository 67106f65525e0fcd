# What the service is told of a shell's call beside its arguments: the folder, and the content of scripts.

MOST_FOLDERS = 8  # folders in which a script of one call is looked for
MOST_WORDS = 200  # words of one command that are looked up on the disk
MOST_SCRIPTS = 16  # files of one call that are sent
LONGEST_PATH = 4096  # characters: the service refuses longer paths
MOST_SCRIPT = 8 * MIB  # of a larger file, the service is told only the path
MOST_OF_SCRIPTS = 32 * MIB  # bytes of all scripts of one call
SCRIPT_SECONDS = 1.5  # after this time, no further file is read

# The service knows the folder of a call under these names (src/policy/readers/folders.ts).
OWN_FOLDERS = ("workdir", "cwd", "directory", "dir_path", "working_directory", "workingDirectory", "working_dir")
# Characters that end a word somewhere in a command, for example in the text of `sh -c`.
BETWEEN_WORDS = {ord(c): " " for c in "\t\r\n\0;&|<>()`'\"{}=,$"}
# Names of the present folder and of HOME in front of a path.
NAMED_FOLDERS = (("$PWD/", "./"), ("${PWD}/", "./"), ("$(pwd)/", "./"), ("`pwd`/", "./"), ("$HOME/", "~/"), ("${HOME}/", "~/"))


def surroundings(call):
    """Returns the fields of an authorize request that say where a shell's call runs, and what it runs. A folder that
    the service cannot read is sent as it is, so that the service denies the call."""
    if call.cwd is None:
        return {}
    told = {"cwd": call.cwd}
    if not is_absolute(call.cwd):
        return told
    known, folders = own_folders(call)
    real = [path for folder in folders for path in (folder, real_path(folder)) if path is not None and path not in known]
    if real:
        told["real_folders"] = sorted(set(real), key=real.index)[:MOST_FOLDERS]
    scripts = scripts_in([call.arguments.get(name) for name in ("command", "cmd", "script")], folders)
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


def scripts_in(given, folders):
    """Returns the files that the words of these commands name: `word`, `path` and `sha256`. The service knows which of
    them the command runs. A word can name a file in each folder that the command may enter, so all of them are sent."""
    words, found, folders = [], [], list(folders)
    for text in texts_in(given):
        for name, place in NAMED_FOLDERS:
            text = text.replace(name, place)
        for word in (text.translate(BETWEEN_WORDS).split() if len(text) < MIB else ()):
            if word not in words and len(words) < MOST_WORDS:
                words.append(word)
    until, left = time.monotonic() + SCRIPT_SECONDS, MOST_OF_SCRIPTS
    for word, path in ((word, path) for word in words for folder in list(folders) for path in paths_of(word, folder)):
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
        return [path]
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
