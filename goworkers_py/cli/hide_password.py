"""Removes the password in `--broker` from the command line, where everybody on the machine can read it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from goworkers_py.config.loader import flag, variable
from goworkers_py.config.options import Config, names_of, options_of
from goworkers_py.config.parsers import broker_address, has_password

_NAMES = names_of(options_of(Config)["broker"])


def hide_password() -> None:
    """Executes this program again, in the same process, with the address in the environment instead. Python cannot
    overwrite the memory of its command line; and children and the daemon of `start` begin with the same command line.
    """
    arguments = sys.argv[1:]
    given = len(sys.orig_argv) - len(arguments)
    before, typed = sys.orig_argv[:given], sys.orig_argv[given:]
    if typed != arguments:
        return  # the calling program has set sys.argv: these words are not on the command line
    addresses, others = without_addresses(arguments)
    if not any(has_password(address) for _, address in addresses) or not _fits(addresses):
        return
    name, address = addresses[-1]
    click.echo(
        f"pyworkers: everybody on this machine could read the password in {flag(name)} until now: put it into a file "
        f"that broker_password_file names, into the configuration file or into {variable(name)}",
        err=True,
    )
    _put_into_environment(name, address)
    os.execv(sys.executable, [sys.executable, *before[1:], *others])


def without_addresses(arguments: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The broker's addresses, each with the option's name in its flag, and all other words. The last address counts."""
    names = {flag(name): name for name in _NAMES}
    addresses, others, rest = [], [], iter(arguments)
    for word in rest:
        typed, equals, value = word.partition("=")
        if word == "--":
            others += [word, *rest]
        elif typed not in names:
            others.append(word)
        elif equals:
            addresses.append((names[typed], value))
        else:
            addresses += [(names[typed], value) for value in [next(rest, None)] if value is not None]
    return addresses, others


def _fits(addresses: Sequence[tuple[str, str]]) -> bool:
    """False when both names of the option are given, or when the address is wrong: then the words stay as they are, and
    the error names the flag."""
    try:
        return len({name for name, _ in addresses}) == 1 and bool(broker_address(addresses[-1][1]))
    except ValueError:
        return False


def _put_into_environment(name: str, address: str) -> None:
    """Replaces the variable of the option, under either of its names. If both variables are set, neither is deleted, so
    that the error about two names is still reported."""
    present = [variable(name) for name in _NAMES if variable(name) in os.environ]
    if len(present) == 1:
        del os.environ[present[0]]
    os.environ[variable(name)] = address
