"""Lets `subprocess` start Python programs as forks of one process that has imported goworkers_py.

The import takes a processor longer than all else that most programs of tests do, and a run of the tests starts
thousands of them. A fork is a process like any other: a child of pytest, with its own signals, files, session and
environment, and it ends as a program does, see `_end`. It lacks a command line of its own in /proc, an import of the
package that can be watched, and options of the interpreter. `_forkable` leaves programs that ask for one of these to
exec, and those with PYWORKERS_TEST_EXEC in their environment. In the environment of pytest it leaves all to exec.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

_TO_EXEC = "PYWORKERS_TEST_EXEC"
_SET_CHILD_SUBREAPER = 36  # of prctl
_ROOT = Path(__file__).parents[2]
_KINDS = ("-c", "-m")  # of programs, beside the path of a file
_INSTALLED = Path(sys.executable).with_name("pyworkers")
# An interpreter reads variables that begin so when it starts. A fork obeys some of them too.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_")
_OBEYED = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
_FOR_PEOPLE = (".commands", ".views")  # modules of a feature that few programs import

forking: list[int] = []  # the number of the process that forks, when it has begun: it is no test's child


class _Program(NamedTuple):
    """It goes to the process that forks as JSON, with the files beside it."""

    words: list[str]
    environment: dict[str, str]
    directory: str
    files: list[int]  # the numbers that the files have in the program
    session: bool
    blocked: list[int]  # signals
    parent: int


def install() -> None:
    """From now on, in this process."""
    if sys.platform != "linux" or _TO_EXEC in os.environ:
        return
    module: Any = subprocess
    place, name = (module, "_fork_exec") if hasattr(module, "_fork_exec") else (module._posixsubprocess, "fork_exec")
    setattr(place, name, _Starter(getattr(place, name)))


class _Starter:
    """Stands for the function with which `subprocess` forks and executes, and returns the number of the process."""

    def __init__(self, fork_exec: Callable[..., int]) -> None:
        self._fork_exec = fork_exec
        # Not those of the first start: a test may have changed them by then.
        self._variables = _read_at_start(os.environ)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._socket: socket.socket | None = None

    def __call__(self, *asked: Any) -> int:
        words, places, close, kept, directory, variables = asked[:6]
        stdin, _, _, stdout, _, stderr, _, failure, restore, session = asked[6:16]
        files = [standard if pipe == -1 else pipe for standard, pipe in enumerate((stdin, stdout, stderr))]
        more = [number for number in kept if number != failure]
        program = _Program(
            _words([os.fsdecode(word) for word in words], places),
            dict(os.fsdecode(one).split("=", 1) for one in variables) if variables else dict(os.environ),
            str(Path(os.fsdecode(directory or ".")).absolute()),
            [0, 1, 2, *more],
            bool(session),
            sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            self._owner,
        )
        is_plain = close and restore and all(one in (None, -1, True, False) for one in asked[16:])
        if not is_plain or os.getpid() != self._owner or not _forkable(program, self._variables):
            return self._fork_exec(*asked)
        with self._lock:
            return self._start(program, [*files, *more])

    def _start(self, program: _Program, files: list[int]) -> int:
        if self._socket is None:
            self._socket = _begin_forking(self._variables)
        told = json.dumps(program).encode()
        prctl = ctypes.CDLL(None).prctl
        prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the child of a child that has ended becomes a child of this process
        try:
            socket.send_fds(self._socket, [len(told).to_bytes(8, "big")], files)
            self._socket.sendall(told)
            return int.from_bytes(_received(self._socket, 8), "big")
        finally:
            prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _words(words: list[str], places: Any) -> list[str]:
    """Those after the name of the interpreter; none if this is no program of our interpreter."""
    found = next((place for place in map(os.fsdecode, places) if os.access(place, os.X_OK)), "")
    if found == sys.executable:
        return words[1:]
    return [found, *words[1:]] if found == str(_INSTALLED) else []


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    names = {name for name in variables if name.startswith(_READ_AT_START)} - _OBEYED
    return {name: variables[name] for name in names}


def _forkable(program: _Program, of_forking: Mapping[str, str]) -> bool:
    """`of_forking`: the variables that the interpreter of the process that forks has read."""
    words, variables = program.words, program.environment
    if not words or _TO_EXEC in variables or _read_at_start(variables) != of_forking:
        return False
    text, first = "", program.directory
    if words[0] == "-c":
        text = words[1]
    elif not words[0].startswith("-"):
        place = Path(program.directory, words[0])
        text, first = place.read_text("utf-8"), str(place.parent)
    elif words[0] != "-m" or not words[1].startswith("goworkers_py."):
        return False
    # Such as one of another release of the package.
    entries = [Path(program.directory, one) for one in (first, *_entries(variables)) if one]
    is_other = any((one / "goworkers_py").exists() and not one.samefile(_ROOT) for one in entries)
    return not (is_other or "sys.modules" in text or "sys.meta_path" in text)


def _entries(variables: dict[str, str]) -> list[str]:
    return [one for one in variables.get("PYTHONPATH", "").split(os.pathsep) if one]


def _begin_forking(variables: Mapping[str, str]) -> socket.socket:
    ours, its = socket.socketpair()
    with its:
        os.set_inheritable(its.fileno(), True)
        words = [sys.executable, __file__, str(its.fileno())]
        others = {name: value for name, value in os.environ.items() if name not in _read_at_start(os.environ)}
        forking.append(os.posix_spawn(sys.executable, words, {**others, **variables}))
    return ours


def _received(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise EOFError
        received += more
    return received


def _main() -> None:
    """The process that forks. It ends when its socket is closed, and with a fork's program in that fork."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of the terminal is for pytest
    _import_what_programs_need()
    del sys.modules["goworkers_py"].testing  # programs get the attribute as if they were the first to ask for it
    gc.collect()
    gc.freeze()
    while True:
        start, files, _, _ = socket.recv_fds(connection, 8, 100)
        if not start:
            os._exit(0)
        size = int.from_bytes(start + _received(connection, 8 - len(start)), "big")
        program = _Program(*json.loads(_received(connection, size)))
        number = _fork(program.parent)
        if number == 0:
            connection.close()
            _become(program, files)
            return
        for file in files:
            os.close(file)
        connection.sendall(number.to_bytes(8, "big"))


def _import_what_programs_need() -> None:
    """Also what a daemon imports only when it starts, which takes a processor a tenth of a second each time."""
    importlib.import_module("goworkers_py.cli.run")
    importlib.import_module("goworkers_py.testing")
    for folder in ("api", "brokers.redis", "features", "runtime"):
        package = importlib.import_module(f"goworkers_py.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(_FOR_PEOPLE):
                importlib.import_module(module.name)


def _fork(parent: int) -> int:
    """Forks twice, and returns the number of the second child, 0 in it. The first ends at once."""
    read, write = os.pipe()
    if first := os.fork():
        os.close(write)
        number = os.read(read, 8)
        os.close(read)
        os.waitpid(first, 0)
        return int.from_bytes(number, "big")
    if second := os.fork():
        os.write(write, second.to_bytes(8, "big"))
        os._exit(0)
    while os.getppid() != parent:
        time.sleep(0.0002)
    return 0


def _become(program: _Program, files: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, program.blocked)
    if program.session:
        os.setsid()
    _take_files(files, program.files)
    os.chdir(program.directory)
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    _open_standard_streams(unbuffered=bool(program.environment.get("PYTHONUNBUFFERED")))
    sys.dont_write_bytecode = bool(program.environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.orig_argv[1:] = program.words
    _choose_path(program)
    early_signals = importlib.import_module("goworkers_py.system.early_signals")
    sys.argv = [program.words[0], *program.words[2 if program.words[0] in _KINDS else 1 :]]
    early_signals.begin_if_working()
    sys.excepthook = _show_without_this_file
    _end(_exit_code(program.words))


def _take_files(files: list[int], numbers: list[int]) -> None:
    """The program has these files, by these numbers, and no other."""
    above = max(*numbers, *files) + 1
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # the descriptor of the listing is among them
        if int(name) not in numbers:
            with suppress(OSError):
                os.close(int(name))


def _open_standard_streams(*, unbuffered: bool) -> None:
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    raw = [io.FileIO(number, mode, closefd=False) for number, mode in enumerate(("rb", "wb", "wb"))]
    streams = [io.TextIOWrapper(io.BufferedReader(raw[0]), encoding, errors)]
    for number, reaction in ((1, errors), (2, "backslashreplace")):
        file: Any = raw[number] if unbuffered else io.BufferedWriter(raw[number])
        by_line = number == 2 or os.isatty(number)
        streams.append(
            io.TextIOWrapper(file, encoding, reaction, "\n", line_buffering=by_line, write_through=unbuffered)
        )
    for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _choose_path(program: _Program) -> None:
    """As an interpreter does: the place of the program, the entries of PYTHONPATH, and what is always there."""
    kind = program.words[0]
    first = {"-c": "", "-m": program.directory}[kind] if kind in _KINDS else str(Path(kind).resolve().parent)
    own = [str(Path(one).absolute()) for one in _entries(program.environment)]
    always = sys.path[1 + _ENTRIES_AT_START :]
    sys.path[:] = [first, *own, *always]


def _exit_code(words: list[str]) -> int:
    """Runs the program. What is no exit code is left to the interpreter."""
    try:
        _run(words)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        return end.code or 0
    return 0


def _end(code: int) -> None:
    """As an interpreter ends, but for the modules that it would take apart: they take a processor longer than most
    programs. A thread that goes on could meet that, so then the interpreter does it."""
    if threading.active_count() > 1:
        raise SystemExit(code)
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        raise SystemExit(code) from None  # the interpreter tells of it
    os._exit(code & 0xFF)


def _run(words: list[str]) -> None:
    main = sys.modules["__main__"] = ModuleType("__main__")
    if words[0] == "-m":
        module: Any = runpy
        module._run_module_as_main(words[1])
        return
    if words[0] == "-c":
        code = compile(words[1], "<string>", "exec")
    else:
        main.__file__ = words[0]
        code = compile(Path(words[0]).read_bytes(), words[0], "exec")
    exec(code, vars(main))


def _show_without_this_file(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    _ENTRIES_AT_START = len(dict.fromkeys(_entries(dict(os.environ))))
    _main()
