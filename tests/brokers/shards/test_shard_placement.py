from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goworkers_py.brokers.shards.placement import (
    Placement,
    jid_in,
    key_of_batch,
    key_of_lock,
    key_of_schedule,
    placed,
)
from goworkers_py.core.effect import Push, Tracked
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.group import Group, GroupMembership
from goworkers_py.core.limit import Slot, SlotClaim
from goworkers_py.core.lock import LockClaim

NAMES = st.lists(st.from_regex(r"[a-z]{1,8}:[0-9]{4}/0", fullmatch=True), min_size=2, max_size=8, unique=True)
LOCK, OTHER_LOCK = LockClaim("Report:7", "1", 60), LockClaim("Report:8", "1", 60)
GROUP = GroupMembership(Group("q", "Mail", "user:7"))
HOMES = [0, 2, 2, 2]
SLOT = SlotClaim(Slot("stripe"), "1")


@given(NAMES, st.text(max_size=40))
def test_a_new_shard_takes_keys_and_no_key_moves_between_the_others(names: list[str], key: str) -> None:
    *before, new = names
    home_before, home = before[Placement(before).home(key)] if len(before) else "", names[Placement(names).home(key)]
    assert home in (home_before, new)


@given(NAMES, st.text(max_size=40))
def test_the_order_of_the_addresses_does_not_matter(names: list[str], key: str) -> None:
    order = [names[number] for number in Placement(names).order(key)]
    backwards = names[::-1]
    assert [backwards[number] for number in Placement(backwards).order(key)] == order
    assert names[Placement(names).home(key)] == order[0]
    assert sorted(order) == sorted(names)


@given(NAMES, st.text(max_size=40))
def test_without_its_home_a_key_goes_to_the_next_in_its_order(names: list[str], key: str) -> None:
    first, second, *_ = [names[number] for number in Placement(names).order(key)]
    left = [name for name in names if name != first]
    assert left[Placement(left).home(key)] == second


def test_keys_are_spread_evenly_and_a_fourth_shard_takes_a_quarter() -> None:
    three, four = Placement(["a:1/0", "b:1/0", "c:1/0"]), Placement(["a:1/0", "b:1/0", "c:1/0", "d:1/0"])
    keys = [f"{number:024x}" for number in range(30_000)]
    homes = [three.home(key) for key in keys]
    assert all(9_500 < homes.count(number) < 10_500 for number in range(3))
    moved = sum(four.home(key) != home for key, home in zip(keys, homes, strict=True))
    assert 7_100 < moved < 7_900


def test_the_homes_of_keys_are_the_same_in_every_release() -> None:
    """Two releases that disagree would take one lock twice."""
    placement = Placement(["a:6379/0", "b:6379/0", "c:6379/0"])
    assert [placement.home(key) for key in ("lock:Report:7", "batch:f00", "limit:stripe", "0123")] == HOMES


@pytest.mark.parametrize(
    ("push", "key", "bound_by"),
    [
        (Push("q", b'{"args":[{"jid":"x"}],"jid": "abc"}'), b"abc", ""),
        (Push("q", b"no job"), b"no job", ""),
        (Push("q", b"{}", id="7"), b"7", "an id"),
        (Push("q", b"{}", track=Tracked("abc", "Job")), b"abc", "a record"),
        (Push("q", b"{}", track=Tracked("abc", "Job"), lock=LOCK), b"lock:Report:7", "the lock Report:7"),
        (Push("q", b"{}", batch="f00.ba7"), b"batch:f00", "the batch f00.ba7"),
        (Push("q", b"{}", group=GROUP), b"group:q:Mail:user:7", "the group user:7"),
        (Push("q", b"{}", slot=SLOT), b"limit:stripe", "the limit stripe"),
    ],
)
def test_a_push_is_placed_by_its_guarantee_else_by_its_jid(push: Push, key: bytes, bound_by: str) -> None:
    assert placed(push) == (key, bound_by)


@pytest.mark.parametrize(
    ("push", "told"),
    [
        (Push("q", b"{}", batch="f00", lock=LOCK), "the lock Report:7 and the batch f00"),
        (Push("q", b"{}", group=GROUP, lock=LOCK), "the lock Report:7 and the group user:7"),
        (Push("q", b"{}", slot=SLOT, batch="f00"), "the batch f00 and the limit stripe"),
    ],
)
def test_a_push_with_two_guarantees_is_refused_and_both_are_named(push: Push, told: str) -> None:
    with pytest.raises(BrokerRefused, match=f"cannot have {told}: each of them lives on a shard of its own; give it"):
        placed(push)


def test_what_changes_together_has_one_home() -> None:
    assert key_of_batch("f00.ba7.c0de") == key_of_batch("f00")
    assert key_of_lock("Report:periodic:app:nightly") == key_of_schedule("app", "nightly")
    assert key_of_lock("Report:7") != key_of_lock("Report:8")


@given(st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs"]), min_size=1))
def test_the_jid_is_found_without_parsing(jid: str) -> None:
    assert jid_in(f'{{"jid":"no","args":[],"jid":  "{jid}","at":1}}'.encode()) == jid.encode()


def test_a_payload_whose_jid_cannot_be_read_is_its_own_key() -> None:
    for payload in (b'{"jid":7}', b'{"jid":', b'{"jid":"', b'"jid":""', b""):
        assert jid_in(payload) == payload
