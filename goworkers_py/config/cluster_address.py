"""The address of a Redis Cluster: redis+cluster://user:password@host:port,host:port/NAMESPACE?options."""

from __future__ import annotations

import re

from goworkers_py.core.values import dataclass

SCHEMES = ("redis+cluster", "rediss+cluster")
PORT = 6379
_EXAMPLE = "redis+cluster://host:7000,host:7001/jobs"


def is_cluster(address: str) -> bool:
    return address.partition("://")[0] in SCHEMES


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    tls: bool
    login: str  # user:password, or nothing
    seeds: tuple[tuple[str, int], ...]  # nodes of the cluster; any of them tells the others
    namespace: str
    query: str

    @classmethod
    def of(cls, address: str) -> ClusterAddress:
        """Raises ValueError, whose text never shows the login nor the query."""
        scheme, _, rest = address.partition("://")
        place, _, query = rest.partition("?")
        place, _, path = place.partition("/")
        login, _, hosts = place.rpartition("@")
        return cls(scheme == SCHEMES[1], login, tuple(map(_seed, hosts.split(","))), _namespace(path), query)

    @property
    def tagged_namespace(self) -> str:
        """The part in braces decides about the slot of a key: so all keys of this namespace are in one slot."""
        return f"{{{self.namespace}}}"


def _seed(text: str) -> tuple[str, int]:
    fits = re.fullmatch(r"\[([^\]]+)\]|([^\[\]:]+)", text.rpartition(":")[0] if re.search(r":\d+$", text) else text)
    port = int(text.rpartition(":")[2]) if re.search(r":\d+$", text) else PORT
    if fits is None or port not in range(1, 65_536):
        raise ValueError(
            f"is not an address: write the nodes as host:port, with commas between them, such as {_EXAMPLE}"
        )
    return fits[1] or fits[2], port


def _namespace(path: str) -> str:
    name = path.strip("/")
    if not name or name.isdigit():
        why = "a cluster has no databases" if name else "every key begins with it, so that one node has all of them"
        raise ValueError(f"must end in a namespace, a word such as the one in {_EXAMPLE}: {why}")
    if not re.fullmatch(r"[\w.:-]+", name, re.ASCII):
        raise ValueError(
            "must end in a namespace of letters, digits, and _ . : - only, without braces: {jobs} is written as in "
            + _EXAMPLE
        )
    return name
