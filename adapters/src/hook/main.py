# The command line.

class Options:
    """Reads --dialect, --timeout and --config. It does not use argparse, because loading argparse takes as long as
    everything else."""

    def __init__(self, words):
        self.dialect = None
        self.timeout = None
        self.config = None
        self.started = time.monotonic()
        words = list(words)
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            if name not in ("--dialect", "--timeout", "--config"):
                raise Refused("unknown option `%s`; %s" % (word, USAGE))
            if not equals:
                if not words:
                    raise Refused("%s needs a value; %s" % (name, USAGE))
                value = words.pop(0)
            if name == "--dialect":
                if value not in AGENT_NAMES and value != "doctor":
                    raise Refused("unknown dialect `%s`: there are %s" % (value, ", ".join(AGENT_NAMES)))
                self.dialect = value
            elif name == "--timeout":
                self.timeout = seconds(value, None)
                if not self.timeout:
                    raise Refused("--timeout needs the seconds that the client waits, not `%s`" % value)
            else:
                self.config = value


def patience(dialect, timeout):
    """Returns the time limit of this process in seconds. It is a ninth shorter than the client's limit, and usually at
    least 1.5 s shorter, because the clock of this process starts only after Python has started."""
    limit = timeout or CLIENT_TIMEOUT.get(dialect, UNKNOWN_TIMEOUT)
    return limit - max(limit / 9, min(1.5, limit / 2))


def guarded(answer, work, options, blocking):
    """Runs `work` in another thread. This thread only waits for the deadline or a signal, and then answers. So the
    answer comes in time even if `work` waits for a slow name server or a full pipe."""

    def run():
        try:
            try:
                work(answer, options)
            finally:
                answer.asking = False
        except Refused as error:
            finish(str(error))
        except Unreachable as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the service is unreachable (%s); fail mode is open: not checked" % error)
            finish("the service is unreachable (%s), and calls that cannot be checked are blocked" % error)
        except BaseException as error:
            if blocking and answer.fail_open:
                answer.allow("countersign: the hook failed (%s); fail mode is open: not checked" % type(error).__name__)
            finish("the hook failed (%s)" % type(error).__name__)

    def finish(reason):
        if blocking:
            answer.deny("countersign: " + reason)
        answer.allow("countersign: " + reason)

    def stopped(number, frame):
        if not blocking:
            answer.allow()
        reason = "the hook was stopped before a decision arrived"
        if answer.waiting_for is not None:
            reason = held(answer.waiting_for[1], "was given up with the call")
        answer.deny("countersign: " + reason, lambda: withdraw(answer))

    import _signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), stopped)
    start_new_thread(run, ())
    while time.monotonic() < answer.deadline:
        # A killed client sends no signal to its hooks. So while a call is held, this loop checks each second whether
        # the client still listens.
        if answer.waiting_for is not None and answer.is_unheard():
            stopped(None, None)
        time.sleep(max(0.0, min(1.0, answer.deadline - time.monotonic())))
    if answer.waiting_for is not None:
        finish(pending(answer.waiting_for[1]))
    finish("no decision arrived within the time that the client waits")


def main(words):
    command = words[0] if words else ""
    if command in ("--help", "-h"):
        print(USAGE + "\n       service_hook.py install|doctor --help, service_hook.py --version")
        return 0
    if command == "--version":
        print("service_hook.py %s, sha256 %s" % (VERSION, own_checksum()))
        return 0
    if command in ("install", "doctor"):
        return install(words[1:]) if command == "install" else doctor(words[1:])
    if command not in COMMANDS and os.isatty(0):
        # A person typed this, so no client reads the output as an answer.
        sys.stderr.write(USAGE + "\n")
        return 2
    answer = Answer()
    try:
        if sys.version_info < (3, 8):
            raise Refused("Python 3.8 or newer is needed, but this is %d.%d" % sys.version_info[:2])
        options = Options(words[1:])
        answer.dialect = options.dialect if command == "pre" else None
    except Refused as error:
        if command in ("post", "end", "flush", "deliver"):
            answer.allow("countersign: " + str(error))
        answer.deny("countersign: " + str(error))
    if command == "pre":
        answer.deadline = options.started + patience(options.dialect, options.timeout)
        guarded(answer, pre, options, True)
    if command == "post":
        answer.deadline = options.started + patience(None, options.timeout or 15)
        guarded(answer, post, options, False)
    if command == "end":
        answer.deadline = options.started + 1.8
        guarded(answer, end, options, False)
    if command in ("flush", "deliver"):
        answer.deadline = options.started + 60
        guarded(answer, flush if command == "flush" else deliver, options, False)
    answer.deny(USAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
