"""The servers' processes."""

import os
import signal
import sys
import threading
import time

from ..shared.program import own_file
from ..shared.text import write_all
from .constants import GRACE_SECONDS, Failed
from .threads import log


def start_process(command, env, cwd):
    """Starts a server in a process group of its own, so that processes that the server starts end together with it."""
    import subprocess

    pipe = subprocess.PIPE
    options = {"start_new_session": True}
    if os.name == "nt":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, **options)
    except (OSError, ValueError) as error:
        raise Failed("it cannot be started: %s" % (getattr(error, "strerror", None) or type(error).__name__))


def is_alive(process):
    """Returns whether any process of the server's group runs."""
    if process.poll() is None:
        return True
    if os.name == "nt":
        return False
    try:
        os.killpg(process.pid, 0)
        return True
    except OSError:
        return False


def end_group(process, number):
    try:
        if os.name != "nt":
            os.killpg(process.pid, number)
        elif process.poll() is None:
            import subprocess

            line = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except OSError:
        pass


def end_processes(processes, grace=GRACE_SECONDS):
    """Ends servers whose input is closed. Each server has `grace` seconds to end. Then it gets SIGTERM, and
    GRACE_SECONDS later SIGKILL."""
    steps = [(signal.SIGTERM, GRACE_SECONDS), (getattr(signal, "SIGKILL", None), 1)]
    limit = time.monotonic() + grace
    while True:
        processes = [process for process in processes if is_alive(process)]
        if not processes:
            return
        if time.monotonic() < limit:
            time.sleep(0.01)
            continue
        if not steps:
            return
        number, grace = steps.pop(0)
        for process in processes:
            end_group(process, number)
        limit = time.monotonic() + grace


class Watch:
    """Starts a second process that ends the servers if the gateway is killed. Clients kill a program that ends too
    slowly. The gateway tells the second process of each server that starts or ends. The second process acts when the
    gateway has ended."""

    def __init__(self):
        import subprocess

        self.lock = threading.Lock()
        self.process = None
        if os.name == "nt":
            return
        null = subprocess.DEVNULL
        try:
            line = [sys.executable, "-I", "-S", own_file(), "--watch"]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                line, stdin=pipe, stdout=null, stderr=null, bufsize=0, env={}, start_new_session=True
            )
        except OSError as error:
            log("servers cannot be ended if this program is killed: %s" % error.strerror)

    def tell(self, sign, process):
        with self.lock:
            if self.process is not None:
                write_all(self.process.stdin.fileno(), b"%s%d\n" % (sign, process.pid))


def watch():
    """Does the work of the second process: waits until its input ends, and then ends the servers that still run. The
    input ends when the gateway ends."""
    left = set()
    for line in sys.stdin.buffer:
        (left.add if line[:1] == b"+" else left.discard)(int(line[1:]))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in list(left):
            try:
                os.killpg(group, number)
            except OSError:
                left.discard(group)
        limit = time.monotonic() + GRACE_SECONDS
        while left and number == signal.SIGTERM and time.monotonic() < limit:
            time.sleep(0.05)
            for group in list(left):
                try:
                    os.killpg(group, 0)
                except OSError:
                    left.discard(group)
    return 0
