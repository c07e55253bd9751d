"""The losses that a broker can have, in words, for the table that `pyworkers brokers` prints."""

from __future__ import annotations

from goworkers_py.core.values import NamedTuple


class Reliability(NamedTuple):
    """Of jobs whose push was confirmed."""

    worker_killed: str = "not told"  # a process that has fetched jobs is killed
    server_killed: str = "not told"  # the process of the server is killed and started again
    power_failure: str = "not told"  # the machine of the server loses its power
    network_cut: str = "not told"  # between a process and the server
