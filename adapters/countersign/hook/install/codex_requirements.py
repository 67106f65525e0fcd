"""The managed requirements of Codex, a TOML file."""

from ...shared.limits import Refused

TOML_MARK = "  # countersign"


def codex_wanted(place):
    """Returns the options that Codex needs beside the hooks: (table, key, value)."""
    # With `unified_exec` Codex types into running programs, and no hook sees that.
    return (
        ("", "allow_managed_hooks_only", True),
        ("features", "hooks", True),
        ("features", "unified_exec", False),
        ("hooks", "managed_dir", place.folder),
    )


def toml_values(lines):
    """Reads lines of TOML. Returns one dictionary with two kinds of keys: (table, key) leads to the text of a value,
    and (table,) leads to the line number of a table."""
    table, found = "", {}
    for number, line in enumerate(lines):
        bare = line.split("#")[0].strip()
        if bare.startswith("["):
            table = bare.strip("[]").strip()
            found.setdefault((table,), number)
        elif "=" in bare:
            key, _, value = bare.partition("=")
            found[(table, key.strip())] = value.strip()
    return found


def toml_without_ours(text):
    return "".join(line for line in text.splitlines(True) if not line.rstrip().endswith(TOML_MARK.strip()))


def toml_with_ours(client, place, python, text):
    """Returns Codex's requirements with our hooks. The text is changed line by line, because Python reads TOML only
    from 3.11 on and cannot write it. Each of our lines has a mark. Refuses a file if adding lines is not enough."""
    import json

    lines = toml_without_ours(text).splitlines(True)
    have = toml_values(lines)
    for key in have:
        if key[0] == "" and len(key) > 1 and key[1].split(".")[0] in ("features", "hooks"):
            raise Refused("`%s` is written in one line: make it a table, `[%s]`" % (key[1], key[1].split(".")[0]))

    above, behind, below = [], {}, []
    for table, key, value in codex_wanted(place):
        written = json.dumps(value)
        found = have.get((table, key))
        if found is not None:
            if found != written:
                raise Refused("`%s` is %s, and must be %s" % (".".join(filter(None, (table, key))), found, written))
        elif table == "":
            above.append("%s = %s" % (key, written))
        elif (table,) in have:
            behind.setdefault(have[(table,)], []).append("%s = %s" % (key, written))
        else:
            below += ([] if "[%s]" % table in below else ["[%s]" % table]) + ["%s = %s" % (key, written)]
    for event, command in client.events:
        one = client.command_entry(place, python, command)
        below += ["[[hooks.%s]]" % event, 'matcher = "*"', "[[hooks.%s.hooks]]" % event]
        below += ["%s = %s" % (key, json.dumps(one[key])) for key in ("type", "command", "timeout")]

    end = "\r\n" if "\r\n" in text else "\n"
    merged = [line + TOML_MARK + end for line in above]
    for number, line in enumerate(lines):
        merged.append(line if line.endswith("\n") else line + end)
        if number in behind:
            merged += [each + TOML_MARK + end for each in behind[number]]
    result = "".join(merged + [line + TOML_MARK + end for line in below])
    try:
        import tomllib

        tomllib.loads(result)
    except ImportError:
        pass
    except ValueError as error:
        raise Refused("the file cannot be merged with: %s" % error)
    return result
