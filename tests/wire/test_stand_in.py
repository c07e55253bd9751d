"""A small payload in the place of a large one has fields of the job itself, with their own values."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from goworkers_py.wire.stand_in import stand_in

NAMES = st.sampled_from(["jid", "class", "args", "password", 'x,"', "}"])
SCALARS = st.one_of(st.integers(), st.booleans(), st.text('ab,"{}[]:\\é', max_size=8), st.just("secret"))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.integers(0, 80), st.integers(1, 80), st.sampled_from([None, 1]))
def test_each_field_is_one_of_the_job_itself(
    fields: dict[str, object], head: int, tail: int, indent: int | None
) -> None:
    raw = json.dumps(fields, indent=indent).encode()
    told = json.loads(stand_in(raw[:head], raw[-tail:], len(raw)))
    assert {name: value for name, value in told.items() if name in fields and value == fields[name]} == {
        name: value for name, value in told.items() if name != "args" or "too large" not in str(value)
    }


def test_the_fields_around_large_arguments_are_found() -> None:
    args = [{"jid": "inner", "password": "s3cr3t" * 1_000}]
    raw = json.dumps({"class": "C", "args": args, "jid": "j", "n": 1}).encode()
    told = json.loads(stand_in(raw[:100], raw[-100:], len(raw)))
    assert told == {"class": "C", "jid": "j", "n": 1, "args": ["(too large to show here: 6,078 bytes)"]}
