"""The arguments that settle.lua gets for effects."""

from __future__ import annotations

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core.effect import PostJobs, Push, PushJobs, StoreValue


def test_effects_are_encoded_like_this() -> None:
    """Change settle.lua together with this test."""
    pushes = (Push("a", b"1"), Push("b", b"2"), Push("a", b"3"), Push("a", b"4", 5.5), Push("b", b"5", 6.0))
    numbers: dict[str, int] = {}
    encoded = encode(
        [
            PushJobs("jid", pushes),
            StoreValue("jid", "result", b"value", 60),
            PostJobs("jid", "elsewhere", (Push("a", b"6", id="x"), Push("b", b"7", 7.5, "y"))),
        ],
        Keys("ns"),
        lambda key: numbers.setdefault(key, len(numbers) + 1),
        now=2.5,
    )
    assert list(encoded) == [
        "push", 1, "a", 2, b"1", b"3",
        "push", 2, "b", 1, b"2",
        "later", 3, "", 4, 5.5, b"4", 6.0, b"5",
        "value", 4, 60, 1, b"value",
        "post", 5, "elsewhere", 2, b'{"v": 1, "queue": "a", "at": 2.5, "id": "x", "due": null}\n6',
        b'{"v": 1, "queue": "b", "at": 2.5, "id": "y", "due": 7.5}\n7',
    ]  # fmt: skip
    assert [*numbers] == [
        "ns:queue:a",
        "ns:queue:b",
        "ns:schedule",
        "ns:pyworkers:value:result:jid",
        "ns:pyworkers:outbox:elsewhere",
    ]
