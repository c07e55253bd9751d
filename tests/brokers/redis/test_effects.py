"""The arguments that settle.lua gets for effects."""

from __future__ import annotations

from goworkers_py.brokers.redis.effects import encode
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.effect import Push, PushJobs, StoreValue


def test_effects_are_encoded_like_this() -> None:
    """Change settle.lua together with this test."""
    pushes = (Push("a", b"1"), Push("b", b"2"), Push("a", b"3"), Push("a", b"4", 5.5), Push("b", b"5", 6.0))
    numbers: dict[str, int] = {}
    encoded = encode(
        [PushJobs("jid", pushes), StoreValue("jid", "result", b"value", 60)],
        Keys("ns"),
        lambda key: numbers.setdefault(key, len(numbers) + 1),
    )
    assert list(encoded) == [
        "push", 1, "a", 2, b"1", b"3",
        "push", 2, "b", 1, b"2",
        "later", 3, "", 4, 5.5, b"4", 6.0, b"5",
        "value", 4, 60, 1, b"value",
    ]  # fmt: skip
    assert [*numbers] == ["ns:queue:a", "ns:queue:b", "ns:schedule", "ns:pyworkers:value:result:jid"]
