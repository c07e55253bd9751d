"""Parsers of option values. Each raises ValueError with a text that says what the value must be."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import quote

import simplejson

from goworkers_py.config.cluster_address import ClusterAddress

T = TypeVar("T")


def text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # the command line or the environment holds bytes that are not UTF-8
        raise ValueError("must be text in UTF-8") from None
    return value.strip()


def bare_name(value: str) -> str:
    """A name that is a part of a key."""
    if ":" in value or len(value.split()) > 1:
        raise ValueError(f"must be a name without blanks and colons, is {value!r}")
    return text(value)


def json_list(value: str) -> tuple[Any, ...]:
    try:
        read = simplejson.loads(value) if value.strip() else []
    except (ValueError, RecursionError) as error:
        raise ValueError(f'must be a JSON list, such as [42, "a"]: {error}') from None
    if not isinstance(read, list):
        raise ValueError(f'must be a JSON list, such as [42, "a"], is {value!r}')
    return tuple(read)


def words(value: str) -> tuple[str, ...]:
    return tuple(value.replace(",", " ").split())


def networks(value: str) -> tuple[str, ...]:
    for word in words(value):
        try:
            ipaddress.ip_network(word)
        except ValueError as error:
            raise ValueError(f"must be addresses and networks, such as 10.0.0.0/8: {error}") from None
    return words(value)


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        value = value.strip().lower()
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}{did_you_mean(value, choices)}")
        return value

    return parse


def yes_or_no(value: str) -> bool:
    return one_of("yes", "no", "true", "false")(value) in ("yes", "true")


def several(make: Callable[[str, int], T], threads: int = 10) -> Callable[[str], tuple[T, ...]]:
    """Names with numbers of threads: `invoices 10, mail 5, default`."""

    def parse(value: str) -> tuple[T, ...]:
        pairs = [re.fullmatch(r"(\S+)(?:\s+(\d{1,5}))?", part.strip()) for part in value.split(",") if part.strip()]
        if not all(pair and 1 <= int(pair[2] or 1) <= 10_000 for pair in pairs):
            raise ValueError(f"must be queues with their worker threads, such as invoices 10, mail 5; is {value!r}")
        return tuple(make(pair[1], int(pair[2] or threads)) for pair in pairs if pair)

    return parse


def whole(lowest: int, highest: int = 2**31) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"must be a whole number, is {value!r}") from None
        return int(_within(number, lowest, highest))

    return parse


def order(value: str) -> str:
    if value.strip().lower() != "strict":
        raise ValueError(f"must be strict, is {value!r}; for shares leave it out and set weights, such as 6, 3, 1")
    return "strict"


def shares(value: str) -> tuple[int, ...]:
    """Whole numbers, each at least 1."""
    numbers = words(value)
    if not all(re.fullmatch(r"[0-9]{1,6}", number) and int(number) for number in numbers):
        raise ValueError(f"must be whole numbers from 1 on, such as 6, 3, 1; is {value!r}")
    return tuple(map(int, numbers))


def seconds(lowest: float, highest: float = 365 * 86400) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(f"must be a number of seconds, is {value!r}")
        return _within(number, lowest, highest)

    return parse


def octal(value: str) -> str:
    if not re.fullmatch(r"[0-7]{0,4}", value.strip()):
        raise ValueError(f"must be an octal number such as 027, is {value!r}")
    return value.strip()


def size(lowest: int) -> Callable[[str], int]:
    """A size in bytes; 0: no limit."""

    def parse(value: str) -> int:
        fits = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG])(?:I?B)?", value.strip().upper())
        if value.strip() == "0":
            return 0
        if fits is None:
            raise ValueError(f"must be 0 or a number with a unit, such as 512M or 2G, is {value!r}")
        number = float(fits[1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[fits[2]]
        if number < lowest:
            raise ValueError(f"must be at least {lowest // 2**20}M, is {value!r}")
        return int(number)

    return parse


def auto_or(other: Callable[[str], T]) -> Callable[[str], T | None]:
    def parse(value: str) -> T | None:
        if value.strip().lower() == "auto":
            return None
        try:
            return other(value)
        except ValueError as error:
            raise ValueError(f"may be auto; otherwise it {error}") from None

    return parse


# The schemes of a broker's address that need no other installed package.
BUILT_IN_BROKERS = (
    "redis", "rediss", "unix", "sentinel", "redis+cluster", "rediss+cluster", "memory", "embedded", "disque", "amqp",
    "amqps",
)  # fmt: skip
# Schemes of which the broker itself checks all that follows the scheme.
_CHECKED_BY_BROKER = ("disque", "amqp", "amqps")


def broker_address(value: str) -> str:
    """An error never shows the part of the address that may hold a password. A scheme that is not built in is accepted
    here: `open_broker` knows which ones are installed."""
    value = value.strip()
    if value.startswith("shards:"):  # as early builds spelled it
        raise ValueError(
            "names shards, which are gone: write a [partition:NAME] for each Redis, with its own broker and queues; or "
            "on Redis Cluster, partitions with a namespace each, which it places, moves and fails over itself; see "
            "docs/growing.md"
        )
    if value == "embedded" or value.startswith(("unix://", "memory://", "/")):
        return value if not value.startswith("/") else f"unix://{value}"
    scheme, separator, rest = value.partition("://")
    if separator and scheme in ("redis", "rediss", "sentinel", "redis+cluster", "rediss+cluster"):
        _check_server(scheme, rest)
    elif not separator or not re.fullmatch(r"[A-Za-z0-9+.-]+", scheme) or _is_near_miss(scheme):
        raise ValueError(
            "must be redis://host:port/db, rediss://..., unix:///path, sentinel://host:port,.../service/db, "
            "redis+cluster://host:port,.../namespace, amqp://host:port/vhost, disque://host:port, "
            "memory:// or embedded" + did_you_mean(scheme.lower(), BUILT_IN_BROKERS)
        )
    return value


def store_address(value: str) -> str:
    return broker_address(value) if value.strip() else ""


def scheme_of(address: str) -> str:
    return address.partition("://")[0]


def _is_near_miss(scheme: str) -> bool:
    """Whether the scheme is a built-in one with a typo: one letter wrong, missing, too many or out of place. `dir` is
    another scheme, not a typo."""
    if not scheme.isalpha() or scheme in {*BUILT_IN_BROKERS} - {"embedded"}:
        return False
    import difflib

    return bool(difflib.get_close_matches(scheme.lower(), BUILT_IN_BROKERS, cutoff=0.75))


def _check_server(scheme: str, rest: str) -> None:
    place = re.split(r"[/?#]", rest)[0]
    if "@" in rest.removeprefix(place):
        raise ValueError(
            "has an @ after its host: in a password or a query, write / ? # @ and % as %2F %3F %23 %40 and %25"
        )
    if scheme.endswith("+cluster"):
        ClusterAddress.of(f"{scheme}://{rest}")
        return
    hosts, path = place.rpartition("@")[2], re.split(r"[?#]", rest.removeprefix(place))[0]
    for host in hosts.split(",") if scheme == "sentinel" else [hosts]:
        _check_host(host, needed=scheme == "sentinel")
    db = path.strip("/").partition("/")[2] if scheme == "sentinel" else path.strip("/")
    if db and not db.isdigit():
        raise ValueError(f"must end in the number of a database, not '/{db}'")


def _check_host(text: str, needed: bool) -> None:
    fits = re.fullmatch(r"(\[[^\]]*\]|[^\[\]:]*)(:(\d{0,5}))?", text)
    if fits is None or int(fits[3] or 1) not in range(1, 65_536):
        raise ValueError("is not an address: only a colon and a port number up to 65535 may follow a host")
    if needed and not fits[1]:
        raise ValueError("is not an address: a sentinel has no host")


def has_password(address: str) -> bool:
    return re.search(r"//[^/@]*:[^/@]+@|[?&]\w*password=", address) is not None


def with_password(address: str, password: str) -> str:
    """Adds a password to an address without one."""
    scheme, _, rest = address.partition("://")
    place = re.split(r"[/?#]", rest)[0]
    user, _, hosts = place.rpartition("@")
    if has_password(address) or ":" in user:
        raise ValueError("has a password already")
    if address == "embedded" or scheme == "memory":
        raise ValueError("needs no password")
    return f"{scheme}://{user}:{quote(password, safe='')}@{hosts}{rest.removeprefix(place)}"


def without_password(address: str) -> str:
    """An address that may be shown: without the text between colon and at sign, and without the query."""
    return re.sub(r"(?<=//)([^/@:]*)(:[^/]*)?@", r"\1:***@", address.partition("?")[0])


def _within(number: float, lowest: float, highest: float) -> float:
    if number < lowest:
        raise ValueError(f"must be at least {lowest:.12g}, is {number}")
    if number > highest:
        raise ValueError(f"must be at most {highest:.12g}, is {number}")
    return number


LEAST_ALIKE = 0.6  # of 1; `verbose` and `error` have 0.5


def did_you_mean(word: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    import difflib

    def is_near(near_word: str) -> bool:
        """By each part too: `drain_timeout` is no typo of `dead_timeout`, although they end alike."""
        near_parts, parts = near_word.split("_"), word.split("_")
        return len(near_parts) != len(parts) or all(
            difflib.SequenceMatcher(None, *pair).ratio() >= LEAST_ALIKE for pair in zip(near_parts, parts, strict=True)
        )

    near = difflib.get_close_matches(word, [*filter(is_near, known)], n=5, cutoff=LEAST_ALIKE)
    if not near:
        return ""
    nearest = max(near, key=lambda near_word: (difflib.SequenceMatcher(None, near_word, word).ratio(), -len(near_word)))
    return f"; did you mean {spell(nearest)!r}?"
