"""Takes the password in `--redis` off the command line, where everybody on the machine can read it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from goworkers_py.config.loader import ENVIRONMENT_PREFIX
from goworkers_py.config.parsers import has_password, redis_address

_FLAG = "--redis"


def hide_password() -> None:
    """Starts this program anew as the same process, with the address in its environment. Memory that holds the words of
    a command line cannot be written from Python; and children and the daemon of `start` are begun by the same words."""
    arguments = sys.argv[1:]
    given = len(sys.orig_argv) - len(arguments)
    before, typed = sys.orig_argv[:given], sys.orig_argv[given:]
    if typed != arguments:
        return  # a program has set sys.argv by itself: these words are not on the command line
    addresses, others = parted(arguments)
    if not any(map(has_password, addresses)) or not _fits(addresses[-1]):
        return
    click.echo(
        "pyworkers: everybody on this machine could read the password in --redis until now: put it into a file that "
        "redis_password_file names, into the configuration file or into PYWORKERS_REDIS",
        err=True,
    )
    os.environ[f"{ENVIRONMENT_PREFIX}REDIS"] = addresses[-1]
    os.execv(sys.executable, [sys.executable, *before[1:], *others])


def parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of `--redis`, of which the last one holds, and everything else."""
    addresses, others, rest = [], [], iter(arguments)
    for word in rest:
        if word == "--":
            others += [word, *rest]
        elif word.startswith(f"{_FLAG}="):
            addresses.append(word.removeprefix(f"{_FLAG}="))
        elif word == _FLAG:
            addresses += [value for value in [next(rest, None)] if value is not None]
        else:
            others.append(word)
    return addresses, others


def _fits(address: str) -> bool:
    """Or else its error is told as that of the flag."""
    try:
        return bool(redis_address(address))
    except ValueError:
        return False
