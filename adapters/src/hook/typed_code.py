# Finds code in the arguments of an interpreter. Such code may run text that a person types in later.

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
