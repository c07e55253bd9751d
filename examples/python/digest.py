"""Groups: the events of each reader are gathered, and one digest is sent instead of a mail for each event.

See docs/groups.md.
`pyworkers run -r digest` runs the jobs. `python digest.py` pushes some.
"""

from __future__ import annotations

import logging

import goworkers_py as workers

log = logging.getLogger(__name__)


@workers.job("send_digest", queue="digests", group_grace=5, group_max_delay=10, group_max_size=3)
def send_digest(reader: str, *events: str) -> None:
    log.info("mailed %s: %s", reader, ", ".join(events))


@send_digest.aggregate
def one_digest(members: list[list[str]]) -> list[str]:
    """Each member has the arguments of one push: the reader and one event."""
    return [members[0][0], *(event for _, event in members)]


if __name__ == "__main__":
    for event in ("a comment", "a like", "a follower", "a reply"):
        send_digest.set(group="reader:ada").enqueue("ada", event)  # three of them fill the group
    send_digest.set(group="reader:bob").enqueue_in(1, "bob", "a like")  # joins when it is due
