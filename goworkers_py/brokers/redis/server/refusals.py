"""Reads the error replies of the server when an access rule is missing, in all versions since 6.2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_COMMAND = r"no permissions to run the '([^']+)'"
_KEY = r"(?i)permissions to access (one of the keys|a key|the '[^']*' key)|can't access at least one of the keys"
_IN_A_SCRIPT = r"can't run this command or subcommand"
_ALL = "`pyworkers doctor --acl` prints all that are needed"
_MOST_KEYS = 5


@cache
def _of_the_daemon() -> frozenset[str]:
    from goworkers_py.brokers.redis.server.access import all_rules  # the tables of rules are large

    return frozenset(command for rules in all_rules() for command in rules.commands.split())


def refusal(reply: str, keys: Sequence[object] = ()) -> str | None:
    """The server's error reply with the missing rule named; None when the reply is about something else."""
    if named := re.search(_COMMAND, reply):
        command = named[1].lower()
        missing = f"the server's access rules do not allow {command.upper().replace('|', ' ')}: add +{command}"
        return f"{missing} ({_ALL})" if command in _of_the_daemon() else missing
    if re.search(_KEY, reply):
        names = [f"~{key.decode('utf-8', 'replace') if isinstance(key, bytes) else key}" for key in keys[:_MOST_KEYS]]
        which = f"one of these keys: add a pattern for {', '.join(names)}" if names else "a key"
        return f"the server's access rules do not allow {which} ({_ALL})"
    if is_refused_in_script(reply):
        return f"the server's access rules do not allow a command that a script needs ({_ALL})"
    return None


def is_refused_in_script(reply: str) -> bool:
    """True when the server refused a command of a script and did not say which."""
    return bool(re.search(_IN_A_SCRIPT, reply))


def names_command(reply: str) -> bool:
    return bool(re.search(_COMMAND, reply))
