"""A user of Redis to whom one of the commands of our scripts is denied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import RedisServer

import goworkers_py

SCRIPTS = sorted(Path(goworkers_py.__file__).parent.rglob("*.lua"))
# Options and names of ours are written in capitals and quotes too.
NO_COMMANDS = {"EX", "XX", "NX", "LT", "LIMIT", "WITHSCORES", "RANK"}
COMMANDS = sorted({word for script in SCRIPTS for word in re.findall(r"'([A-Z]{2,})'", script.read_text())})
COMMANDS = [word for word in COMMANDS if word not in NO_COMMANDS]


class Walled:
    """A server with a user of its own for the tested broker."""

    def __init__(self, server: RedisServer) -> None:
        self.redis = server.client()
        self.url = server.url.replace("//", "//walled:word@")

    @contextmanager
    def noted_commands(self) -> Iterator[set[str]]:
        """At the end of the block, it is those of COMMANDS that the server was asked for in the block. To deny another
        one changes nothing."""
        asked = set[str]()
        self.redis.config_resetstat()
        yield asked
        told = self.redis.info("commandstats")
        asked |= {name for name in COMMANDS if any(one.split("|")[0] == f"cmdstat_{name.lower()}" for one in told)}

    def allow_all_but(self, *commands: str) -> None:
        rules = [f"-{command.lower()}" for command in commands]
        self.redis.execute_command("ACL", "SETUSER", "walled", "reset", "on", ">word", "~*", "&*", "+@all", *rules)
