"""A unix daemon: its directory, user and pidfile; how it detaches from the terminal; how it is asked to stop.

`start` forks. The child detaches itself and works. The parent process waits until the child says that it works, or what
is wrong, and then returns or raises that.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import simplejson

from goworkers_py.core.errors import ConfigError, WorkersError, error_from_json, error_to_json
from goworkers_py.system.parent_link import LINE_VARIABLE
from goworkers_py.system.pidfile import Pidfile

if TYPE_CHECKING:
    from goworkers_py.config.options import Config

log = logging.getLogger(__name__)

# After `timeout`: for settling, deregistering, and the children of a parent.
AFTER_TIMEOUT_S = 20.0
# `start` waits no longer than this when Redis cannot be reached yet.
START_S = 30.0


# --- where and as whom


@contextmanager
def daemon_context(config: Config) -> Iterator[None]:
    """Sets directory, umask and pidfile with the rights that this process was started with, then gives these up."""
    change_directory(config.directory)
    if config.umask:
        os.umask(int(config.umask, 8))
    pidfile = pidfile_of(config) if config.pidfile else None
    owner = _owner(config)
    if pidfile is not None:
        pidfile.hold()
    try:
        _become(*owner)
        yield
    finally:
        if pidfile is not None:
            pidfile.release()


def change_directory(directory: str) -> None:
    try:
        os.chdir(directory or ".")
    except OSError as error:
        raise ConfigError(f"directory {directory}: {error.strerror}") from None


def pidfile_of(config: Config) -> Pidfile:
    return Pidfile(Path(config.directory, config.pidfile).absolute())


def _owner(config: Config) -> tuple[int, int]:
    uid, gid = os.getuid(), os.getgid()
    if config.user:
        try:
            entry = pwd.getpwnam(config.user)
        except KeyError:
            raise ConfigError(f"user {config.user}: there is no such user on this machine") from None
        uid, gid = entry.pw_uid, entry.pw_gid
    if config.group:
        try:
            gid = grp.getgrnam(config.group).gr_gid
        except KeyError:
            raise ConfigError(f"group {config.group}: there is no such group on this machine") from None
    if (uid, gid) != (os.getuid(), os.getgid()) and os.getuid() != 0:
        raise ConfigError("user and group: only root can change to another user or group")
    return uid, gid


def _become(uid: int, gid: int) -> None:
    if (uid, gid) == (os.getuid(), os.getgid()):
        return
    # Not by python-daemon: it does not change the group when it is told to initialise the groups.
    entry = pwd.getpwuid(uid)
    os.initgroups(entry.pw_name, gid)
    os.setgid(gid)
    os.setuid(uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)


# --- start


def is_child() -> bool:
    """True in a child of `processes`: its parent starts it by the parent's own command."""
    return LINE_VARIABLE in os.environ


def start(config: Config, work: Callable[[Callable[[], None]], int]) -> bool:
    """True when the daemon works, False when it does not work yet; raises the error that ended it. `work` gets a
    function, and calls that function when the daemon works."""
    if is_child():
        sys.exit(work(lambda: None))
    for option in ("pidfile", "logfile"):
        if not getattr(config, option):
            raise ConfigError(f"start needs a {option}: set it in the configuration file or with --{option}")
    heard, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        _work_detached(say, work)
    os.close(say)
    os.waitpid(child, 0)  # ends at once: the daemon is a child of this child
    with os.fdopen(heard, encoding="utf-8") as line:
        if not select.select([line], [], [], START_S)[0]:
            return False
        word = line.readline()
    if not word:
        raise WorkersError(f"the daemon ended before it was ready; {config.logfile} says why")
    error = simplejson.loads(word)
    if error:
        raise error_from_json(error)
    return True


def _work_detached(say: int, work: Callable[[Callable[[], None]], int]) -> NoReturn:
    from daemon import DaemonContext  # type: ignore[import-untyped]  # needed only to detach

    umask = os.umask(0)
    os.umask(umask)
    with DaemonContext(
        detach_process=True, working_directory=".", umask=umask, prevent_core=False, signal_map={}, files_preserve=[say]
    ):
        line = os.fdopen(say, "w")

        def tell(error: WorkersError | None = None) -> None:
            """Only the first call tells something."""
            if not line.closed:
                with suppress(OSError), line:  # the process that started the daemon may be gone
                    line.write(simplejson.dumps(error and error_to_json(error)) + "\n")

        try:
            code = work(tell)
        except WorkersError as error:
            log.error("%s", error)
            tell(error)
            code = 1
        except Exception:
            log.critical("the daemon failed", exc_info=True)
            code = 1
        sys.exit(code)


def imports_cleanly(config: Config, build: Callable[[], object]) -> bool:
    """Whether the user's code can be imported. A forked process tries to import it, as the daemon's user, and prints
    what is wrong: root must not run that user's code."""
    owner = _owner(config)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            change_directory(config.directory)
            _become(*owner)
            build()
            code = 0
        except WorkersError as error:
            sys.stderr.write(f"pyworkers: {error}\n")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- stop and reload


def stop(config: Config, tell: Callable[[str], None]) -> int | None:
    """Stops the daemon and waits for its end. Returns its pid, or None if there was none. `tell` gets a line before it
    waits."""

    def ask(pid: int) -> None:
        send(pid, signal.SIGTERM)
        tell(f"process {pid} is stopping: waiting up to {config.timeout:g} s for running jobs")

    return pidfile_of(config).end_holder(ask, config.timeout + AFTER_TIMEOUT_S)


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # the process has just ended
    except PermissionError:
        raise WorkersError(f"process {pid} belongs to another user") from None
