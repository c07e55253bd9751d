"""The options of the pages, in which people see and steer the fleet from a browser."""

from __future__ import annotations

import ipaddress

from goworkers_py.config.option_rows import option
from goworkers_py.config.parsers import networks, text, whole, words, yes_or_no
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass

# Values of arguments with such a name are masked. A part of a name counts too, in any case.
HIDDEN = (
    "password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "private_key",
    "credit_card", "cvv", "ssn",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The section [web]."""

    port: int = option(0, whole(0, 65_535), "HTTP port of the pages beside the jobs; 0: none")
    host: str = option("127.0.0.1", text, "address of `port`; another one than loopback needs access_file")
    access_file: str = option(
        "", text, "file with who may see the pages and change something, written by `pyworkers web grant NAME`; empty: "
        "who has the token of their start"
    )  # fmt: skip
    read_only: bool = option(False, yes_or_no, "the pages only show, for everybody: yes or no")
    title: str = option("", text, "title of the pages, such as the name of the fleet; empty: pyworkers")
    hosts: tuple[str, ...] = option(
        (),
        words,
        "further names, such as jobs.test, under which this machine may be asked: by stats_port, and by the pages "
        "without access_file",
    )
    trusted_proxies: tuple[str, ...] = option(
        (), networks, "addresses and networks of proxies before the pages, such as 10.0.0.0/8: their headers "
        "X-Forwarded-For, -Host and -Proto are believed"
    )  # fmt: skip
    hide: tuple[str, ...] = option(
        HIDDEN, words, "names of arguments whose values the pages and stats_port mask; a part of a name is enough"
    )

    def check(self) -> None:
        """Refuses pages that everybody in the network could use."""
        if not is_loopback(self.host) and not self.access_file:
            raise ConfigError(
                f"[web] host: on {self.host} everybody in the network could see and delete jobs; name an access_file, "
                "which `pyworkers web grant NAME` writes, or leave host out"
            )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
