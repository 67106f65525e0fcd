"""Splits a command line into its simple commands."""

SUBSTITUTED = "/dev/fd/63"  # the file of a process substitution
TERMINALS = ("-", "/dev/stdin", "/dev/tty", "/dev/fd/0", "/proc/self/fd/0")
# Words of the shell that can stand before a command.
KEYWORDS = ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "function", "time", "&")


def base_name(word):
    return word.rsplit("/", 1)[-1]


def program_words(words):
    """Returns the words from the program's name on. Example: the words of `if A=1 ls -l` become those of `ls -l`."""
    at = 0
    while at < len(words) and (words[at] in KEYWORDS or ("=" in words[at] and words[at].split("=")[0].isidentifier())):
        at += 1
    return words[at:]


class Simple:
    """One command of a command line: its words without quotes, and the source of its input."""

    def __init__(self, source=None):
        self.words = []
        self.begun = False  # its words so far contain the name of a program
        self.fed = False  # its input is a file or a text in the command line
        self.source = source  # the first command of its pipe; None if it is the first command itself


def is_terminal(word):
    """Returns whether this file may be the terminal. Examples: `-`, `/dev/tty`, and an open descriptor such as
    `/dev/fd/3`."""
    if word in TERMINALS:
        return True
    if word.startswith("/proc/"):
        return "/fd/" in word
    return word != SUBSTITUTED and word.startswith(("/dev/fd/", "/dev/pts/", "/dev/tty"))


def is_fed_by(operator, target):
    if operator in ("<<", "<<<"):
        return True
    if operator == "<&":
        return target == "-"  # another descriptor may be the terminal; `<&-` closes the input
    return operator == "<" and not is_terminal(target) and not any(c in target for c in "$`*?[")


class Line:
    """The simple commands of a command line. In doubt, this class finds more commands than a shell would run, never
    fewer."""

    def __init__(self, text):
        self.commands = []
        self.texts = []  # the bodies of here-documents, and the words after `<<<`
        self.word = None  # the parts of the present word; None between words
        self.redirect = None
        self.bodies = []  # the here-documents whose bodies begin at the next line
        self.modes = [""]  # the open levels: a quote, a backtick, or "" for text outside quotes
        self.cases = []  # the level of each open `case`: there a `)` ends a pattern
        self.now = Simple()
        text = text.replace("\\\n", "")
        at = 0
        while at < len(text):
            at = self.quoted(text, at) if self.modes[-1] in ("'", '"') else self.bare(text, at)
        self.end_command()

    def add(self, part):
        self.word = self.word or []
        self.word.append(part)

    def end_word(self):
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        operator, self.redirect = self.redirect, None
        if operator is not None:
            if operator == "<<<":
                self.texts.append(word)
            if operator.startswith("<"):
                self.now.fed = self.now.fed or is_fed_by(operator, word)
            return
        self.now.words.append(word)
        if not self.now.begun and program_words(self.now.words[-1:]):
            self.now.begun = True
            if word == "case":
                self.cases.append(len(self.modes))
            elif word == "esac" and self.cases:
                self.cases.pop()

    def end_command(self, into_pipe=False):
        self.end_word()
        self.redirect = None
        if self.now.words:
            self.commands.append(self.now)
        self.now = Simple((self.now.source or self.now) if into_pipe else None)

    def quoted(self, text, at):
        c = text[at]
        if self.modes[-1] == "'":
            end = text.find("'", at)
            end = len(text) if end < 0 else end
            self.add(text[at:end])
            self.modes.pop()
            return end + 1
        if c == '"':
            self.modes.pop()
        elif c == "\\":
            self.add(text[at + 1 : at + 2])
            return at + 2
        elif c == "`" or text.startswith("$(", at):
            return self.substitution(text, at)
        else:
            self.add(c)
        return at + 1

    def substitution(self, text, at):
        """Handles the beginning of a substitution: `$(`, `<(`, `>(` or a backtick. Also handles the end of a
        substitution in backticks."""
        if text[at] != "`":
            self.add("$" if text[at] == "$" else SUBSTITUTED)
            self.end_command()
            self.modes.append("")
            return at + 2
        if self.modes[-1] == "`":
            self.end_command()
            self.modes.pop()
        else:
            self.add("$")
            self.end_command()
            self.modes.append("`")
        return at + 1

    def bare(self, text, at):
        c = text[at]
        if c == "\\":
            self.add(text[at + 1 : at + 2])
            return at + 2
        if c == "`" or text[at : at + 2] in ("$(", "<(", ">("):
            return self.substitution(text, at)
        if c in "'\"":
            self.add("")
            self.modes.append(c)
        elif c in "()":
            self.end_command()
            if c == "(":
                self.modes.append("")
            elif len(self.modes) > 1 and self.modes[-1] == "" and self.cases[-1:] != [len(self.modes)]:
                self.modes.pop()
        elif c == "\n":
            self.end_command()
            return self.skip_bodies(text, at + 1)
        elif c in ";&|":
            self.operator(text, at)
        elif c in "<>":
            return self.start_redirect(text, at)
        elif c.isspace():
            self.end_word()
        else:
            self.add(c)
        return at + 1

    def operator(self, text, at):
        c, two = text[at], text[at : at + 2]
        if c == "&" and self.redirect is not None and self.word is None:
            self.redirect += "&"
            return  # a part of `>&` or `<&`
        if two == "&>":
            return
        if c == "&" and text[max(0, at - 1) : at] == "|":
            return  # `|&` is a pipe
        if c == "|" and self.redirect is not None and self.word is None:
            return  # `>|`
        self.end_command(into_pipe=c == "|" and "||" not in (two, text[max(0, at - 1) : at + 1]))

    def start_redirect(self, text, at):
        before = "".join(self.word or ())
        is_named = before[:1] == "{" and before[-1:] == "}" and before[1:-1].isidentifier()
        if before.isdigit() or is_named:
            self.word = None  # the number of a descriptor, or `{name}` for a new one
        self.end_word()
        end = at + 1
        while end < len(text) and text[end] in "<>" and end - at < 3:
            end += 1
        # The number of a descriptor other than 0 stays in the text before the operator (`3<`). So `end_word` sees that
        # this redirection does not feed the program's standard input.
        self.redirect = (before if is_named or before.strip("0").isdigit() else "") + text[at:end]
        if text[at:end] == "<<":
            end += text[end : end + 1] == "-"
            first = end
            while first < len(text) and text[first] in " \t":
                first += 1
            last = first
            while last < len(text) and text[last] not in " \t\n;&|<>()":
                last += 1
            named = text[first:last]
            name = named.replace("'", "").replace('"', "").replace("\\", "")
            self.bodies.append((name, name == named))
        return end

    def skip_bodies(self, text, at):
        """Skips the bodies of here-documents. Substitutions in a body are also commands of the line."""
        bodies, self.bodies = self.bodies, []
        for name, expands in bodies:
            start = at
            while at < len(text):
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                line, at = text[at:end], min(len(text), end + 1)
                if line.strip("\t") == name:
                    break
            body = text[start:at]
            self.texts.append(body)
            if expands and ("$(" in body or "`" in body):
                self.commands += Line(body).commands
        return at
