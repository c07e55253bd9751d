"""JSON as text: cuts a job into the exact texts of its fields, and makes jobs in any spelling for property tests."""

from __future__ import annotations

import json
import os
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FEWER_VARIABLE = "PYWORKERS_TEST_FEWER_EXAMPLES"


def examples(count: int) -> settings:
    """Settings without a time limit, because the machine may be busy. FEWER_VARIABLE divides the count."""
    count = max(10, count // int(os.environ.get(FEWER_VARIABLE, "1")))
    return settings(deadline=None, max_examples=count, suppress_health_check=[HealthCheck.too_slow])


def field_texts(raw: bytes) -> dict[str, str]:
    """Each name, with the exact text of its value. Counts brackets and quotes, which the tested code does not."""
    text = raw.decode()
    cuts, depth, quoted, escaped = [], 0, False, False
    for at, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
            continue
        quoted = char == '"'
        depth += (char in "[{") - (char in "]}")
        if (depth == 1 and char in "{,:") or (depth == 0 and char == "}"):
            cuts.append(at)
    pieces = [text[start + 1 : end].strip() for start, end in pairwise(cuts)]
    if pieces == [""]:
        return {}
    return {json.loads(name): value for name, value in zip(pieces[::2], pieces[1::2], strict=True)}


def nested(levels: int) -> bytes:
    """A job with so many levels of nesting, its object and `args` included."""
    return b'{"args":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


# Each draw takes time, so whole words are drawn, and one kind of space for each object or array.
_ESCAPED = r"\" \\ \/ \b \f \n \r \t \u0000 \u0041 \u00e9 \u2028 \ud83d\ude00 \ud800 \udc00x , : {[ ]}"
_WORDS = st.one_of(
    st.sampled_from(_ESCAPED.split()),
    st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cc", "Cs")), max_size=4),
)
STRINGS = st.lists(_WORDS, max_size=2).map(lambda words: f'"{"".join(words)}"')
NUMBERS = st.one_of(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["", "-"]),
        st.integers(0, 10**30),
        st.sampled_from(["", ".0", ".10", ".123456789012345678901234567890"]),
        st.sampled_from(["", "e3", "E+16", "e-05", "e400"]),
    ),
    st.sampled_from(["0", "-0", "-0.0", "1739522590.1234567", "1739522590123", "9007199254740993", "9" * 400]),
)
_SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), NUMBERS, STRINGS)
_SPACES = st.sampled_from(["", "", " ", "\n  ", "\t\r\n", "\r"])


def _spell(parts: list[str], brackets: str, space: str) -> str:
    return f"{brackets[0]}{space}{f'{space},{space}'.join(parts)}{space}{brackets[1]}"


def _objects(names: st.SearchStrategy[str], values: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(names, values), max_size=most)
    return st.builds(
        lambda members, space: _spell([f"{name}{space}:{space}{value}" for name, value in members], "{}", space),
        members,
        _SPACES,
    )


def _containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.builds(_spell, st.lists(values, max_size=4), st.just("[]"), _SPACES)
    return st.one_of(arrays, _objects(STRINGS, values, 3))


VALUES = st.recursive(_SCALARS, _containers, max_leaves=5)

# The names that this package reads, spelled in several ways, some twice in one object.
_KNOWN = (
    "class wrapped args jid queue retry retry_count retry_max retry_for retry_queue dead backtrace tags at "
    r"\u0061t created_at enqueued_at enqueued\u005fat failed_at retried_at error_class error_message error_backtrace"
)
_KNOWN_NAMES = st.sampled_from([f'"{name}"' for name in _KNOWN.split()])
JOBS = _objects(st.one_of(_KNOWN_NAMES, STRINGS), VALUES, 6).map(str.encode)
