"""The fields of payloads that are nested too deep."""

from __future__ import annotations

import pytest

from goworkers_py.wire.deep import fields_of


@pytest.mark.parametrize("levels", [10, 150, 900, 100_000])
def test_a_list_has_no_fields_however_deep_it_is(levels: int) -> None:
    assert fields_of(b"[" * levels + b'"pyworkers"' + b"]" * levels) == {}


def test_a_job_has_its_fields_although_it_is_nested_too_deep() -> None:
    assert fields_of(b'{"jid":"j","args":' + b"[" * 150 + b"]" * 150 + b"}")["jid"] == "j"
