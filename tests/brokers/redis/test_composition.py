"""Scripts of Lua are composed of fragments. Each fragment is tested alone: a real server loads it with stubs for what
it is given, and calls its functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
import redis as redis_py
from lua_names import functions_made, globals_of, most_locals, tokens
from lua_sets import word_sets

from goworkers_py.brokers.redis.driver.composition import TABLES, Composition, fragments, locals_of, scripts, split
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.parts import (
    PushId,
    effect_kinds,
    parts,
    row_kinds,
    tie_kinds,
    words_for,
    words_of_moves,
)
from goworkers_py.core.effect import PushJobs
from goworkers_py.features import TIES
from goworkers_py.features.groups.effects import EndMember, EndSet
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.unique.effects import FreeLock, KeepLock

FILES = [*scripts(), *fragments().values()]
MOST_LOCALS = 60  # Lua allows 200
NOW = "1700000000.000001"
LONG = "x" * 150

# The stubs: values of Lua for what fragments are given. A fragment that is not here is an empty table.
STUBS = {
    "now": f"'{NOW}'",
    "arguments": "ARGV",
    "FIXED": "0",
    "QUEUES": "'queues'",
    "KEPT_S": "'7776000'",
    "AT_ONCE": "1000",
    "key_at": "function(at) return KEYS[tonumber(ARGV[at])] end",
    "type_error": "function() return false end",
    "TRIAL": "'nothing'",
    "NOTHING": "'nothing'",
    "NOTE_V": "'1'",
    "NOTE_PIECE": "64",
    "NOTE_WHOLE": "1024",
    "NOTE_MOST": "3",
    "LOCK_V": "'1'",
    "PUSH_SIZE": "5",
    "TIE_SIZE": "3",
    "ENDED_MOST": "10000",
    "BATCH_V": "'1'",
    "BATCH_DEATHS": "100",
    "CHAIN_V": "'1'",
    "LIMIT_V": "'1'",
    "LOOK_S": "10",
    "SOON_S": "1",
    "LATE_S": "0.25",
    "BLOCK_S": "2",
    "LET_GO_MOST": "50",
    "UNREADABLE_MOST": "10",
    "RECEIPT": "'receipt'",
    "number": "'7'",
    "receipt_life": "'60'",
    "day_life": "'60'",
}


def alone(
    redis: redis_py.Redis, name: str, expression: str, keys: tuple[str, ...] = (), *arguments: str, **stubs: str
) -> object:
    """Loads a fragment with stubs, and gives the value of an expression, in which the fragment is `it`."""
    head, given, body = split(fragments()[name].read_text("utf-8"))
    known: Mapping[str, str] = {**STUBS, **stubs}
    values = ", ".join(known.get(one, "{}") for one in given)
    source = f"local it = (function({', '.join(given)})\n{head}{body}end)({values})\nreturn {expression}"
    return redis.eval(source, len(keys), *keys, *arguments)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_uses_only_names_that_it_was_given(path: Path) -> None:
    source = path.read_text("utf-8")
    head, given, body = split(source)
    assert globals_of(source) == set()
    assert [name for name in given if name not in tokens(head) + tokens(body)] == [], "given for nothing"


@pytest.mark.parametrize("name", fragments())
def test_a_fragment_stands_alone(name: str, redis: redis_py.Redis) -> None:
    if name == "fence":
        return  # it comes before a script, and may end it
    assert alone(redis, name, "type(it)") in (b"table", b"function", b"string")


@pytest.mark.parametrize("name", fragments())
def test_a_fragment_has_no_local_of_its_own_name(name: str) -> None:
    """Where it is composed without a function of its own, `return` gives its value to the local of that name."""
    body = fragments()[name].read_text("utf-8")
    assert not re.search(rf"^local (function )?{name}\b", body, re.MULTILINE)
    assert len(re.findall(r"^return ", body, re.MULTILINE)) == (name != "fence")


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_each_set_of_a_script_is_far_from_the_limit_of_lua(path: Path, redis: redis_py.Redis) -> None:
    for words in word_sets(path):
        script = Script(path, words=words)
        assert redis.script_load(script.source) == script.sha
        assert most_locals(script.source) <= MOST_LOCALS


def test_the_sets_are_few() -> None:
    of_features = 3 * sum(bool(part.effects) for part in parts()[1:])  # three scripts have a set for each
    assert sum(len(word_sets(path)) for path in scripts()) < 70 + of_features


def test_a_count_is_tried_in_records_of_the_version_that_is_asked_for(redis: redis_py.Redis) -> None:
    redis.hset("record", mapping={"v": "2", "open": "no number"})
    refusal = "it.count_refusal(KEYS[1], 'open', '{}')"
    assert alone(redis, "batch", refusal.format(1), ("record",)) is None
    refused = alone(redis, "batch", refusal.format(2), ("record",))
    assert b"not an integer" in cast("bytes", refused)
    assert redis.hgetall("record") == {b"v": b"2", b"open": b"no number"}


def test_a_frequent_push_is_composed_of_its_tie_alone() -> None:
    source = Composition({"lock"}).compose(_script("publish_one"))
    assert "'token'" in source
    assert "'HINCRBY'" not in source
    assert functions_made(source) <= 8  # each call makes them anew


@pytest.mark.parametrize(("name", "most"), [("push_tracked", 3), ("push_unique", 3)])
def test_a_frequent_push_makes_few_functions(name: str, most: int) -> None:
    assert functions_made(Composition(()).compose(_script(name))) <= most


def test_what_few_calls_need_is_made_by_these(tmp_path: Path) -> None:
    own = tmp_path / "own.lua"
    own.write_text("local make_replace = ...\nreturn make_replace()\n")
    source = Composition().compose(own)
    assert functions_made(source) == 1
    assert "'TIME'" in source
    assert Composition().compose(own) == source


def _script(name: str) -> Path:
    [path] = [path for path in scripts() if path.stem == name]
    return path


def test_a_name_that_nothing_gives_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own.lua").write_text("local nobody = ...\nreturn 1\n")
    with pytest.raises(ValueError, match="nothing gives it nobody"):
        Composition().compose(tmp_path / "own.lua")


@pytest.mark.parametrize("name", ["refusal", "handlers", "KEPT_S"])
def test_a_local_of_a_head_takes_the_place_of_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "own.lua").write_text(f"local {name} = nil\nlocal effects = ...\nreturn 1\n")
    with pytest.raises(ValueError, match=f"something else: {name}"):
        Composition().compose(tmp_path / "own.lua")


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_a_head_says_which_of_its_locals_are_for_fragments(path: Path) -> None:
    head, given, body = split(path.read_text("utf-8"))
    used = {name for name in locals_of(head) if name in tokens(body) or tokens(head).count(name) > 1}
    said = [
        name for listed in re.findall(r"^-- For fragments: (.*)$", head, re.MULTILINE) for name in listed.split(", ")
    ]
    assert said == [name for name in locals_of(head) if name not in used]
    assert set(said) <= _needed(given), "for no fragment"


def _needed(given: Sequence[str]) -> set[str]:
    """The names that the fragments of a script are given, those of fragments of fragments too."""
    needed, left = set[str](), set(given)
    while left:
        name = left.pop().removeprefix("make_")
        if name in TABLES:
            left |= fragments().keys() - needed
        elif name not in needed:
            needed.add(name)
            left |= set(split(fragments()[name].read_text("utf-8"))[1]) if name in fragments() else set()
    return needed


def test_effects_of_features_need_their_words_alone() -> None:
    assert words_for(frozenset()) == frozenset()
    assert words_for(frozenset({FreeLock, KeepLock})) == {"free", "keep", "frees"}
    of_features = words_for(frozenset({FreeLock, NoteState}))
    assert of_features is not None
    assert of_features >= {"free", "note", "leave"}
    assert "push" not in of_features
    assert "endset" not in of_features
    assert words_for(frozenset({PushJobs})) is None
    assert words_for(frozenset({EndMember, FreeLock})) is words_for(frozenset({EndSet})) is None, "any may be inside"


def test_each_word_is_handled_once() -> None:
    words = [tie.word for tie in tie_kinds().values()] + [rows.word for rows in row_kinds().values()]
    words += [word for part in parts() for several in part.handlers.values() for word in several]
    assert len(words) == len(set(words))
    assert NoteState in effect_kinds()


def test_each_tie_has_its_place_in_the_order_of_a_push() -> None:
    kinds = {kind: tie.word for kind, tie in tie_kinds().items() if kind is not PushId}
    assert sorted(kinds.values()) == sorted(TIES)
    assert {kind: kind.word.fget(None) for kind in kinds} == kinds


# --- fragments


def test_trial(redis: redis_py.Redis) -> None:
    assert alone(redis, "trial", "it.refusal('ZADD LREM RPUSH LREM')") is None
    assert redis.exists("nothing") == 0
    assert alone(redis, "trial", "it.refusal('NOSUCH')") is not None
    assert alone(redis, "trial", "it.refusal('NOSUCH')", TRIAL="nil") is None


def test_type_error(redis: redis_py.Redis) -> None:
    redis.set("text", "")
    assert b"WRONGTYPE" in str(alone(redis, "type_error", "it('LLEN', KEYS[1])", ("text",))).encode()
    assert alone(redis, "type_error", "it('LLEN', KEYS[1])", ("list",)) is None


def test_note_writes_long_values_in_pieces_and_forgets_the_oldest_moves(redis: redis_py.Redis) -> None:
    for number in range(5):
        alone(redis, "note", f"it.write(KEYS[1], '60', 'running', 'in {number}', {{'class', ARGV[1]}})", ("r",), LONG)
    record = redis.hgetall("r")
    assert record[b"class"] + record[b"class:1"] + record[b"class:2"] == LONG.encode()
    assert {field for field in record if re.fullmatch(rb"t\d+", field)} == {b"t3", b"t4", b"t5"}
    assert record[b"n"] == b"5"
    assert alone(redis, "note", "it.is_live(KEYS[1])", ("r",)) == 1
    alone(redis, "note", "it.write(KEYS[1], '60', 'dead', 'killed', {})", ("r",))
    assert alone(redis, "note", "it.is_live(KEYS[1])", ("r",)) is None


@pytest.mark.parametrize("job_class", ["J", LONG])
@pytest.mark.parametrize(("state", "field"), [("waiting", "queue"), ("scheduled", "due")])
def test_the_first_state_of_a_record_is_that_of_note(
    redis: redis_py.Redis, job_class: str, state: str, field: str
) -> None:
    """`new_record` writes a short record by itself."""
    note = split(fragments()["note"].read_text())
    values = ", ".join(STUBS[one] for one in note[1])
    make = f"function() return (function({', '.join(note[1])}) {note[0]}{note[2]} end)({values}) end"
    new = f"it(KEYS[1], '60', ARGV[1], '{state}', '{field}', '1.5', 'pushed')"
    alone(redis, "new_record", new, ("new",), job_class, make_note=make)
    fields = f"{{'class', ARGV[1], '{field}', '1.5'}}"
    alone(redis, "note", f"it.write(KEYS[1], '60', '{state}', 'pushed', {fields})", ("other",), job_class)
    assert redis.hgetall("new") == redis.hgetall("other")
    assert redis.ttl("new") == 60


def test_a_lock_is_taken_and_freed(redis: redis_py.Redis) -> None:
    alone(redis, "take_lock", f"it(KEYS[1], 'a', '60', 'q', '{NOW}', '', '', false)", ("l",))
    assert redis.hgetall("l") == {b"v": b"1", b"jid": b"a", b"queue": b"q", b"at": NOW.encode()}
    assert redis.ttl("l") == 60
    assert alone(redis, "lock", "it.other_holder(KEYS[1], 'b', '')", ("l",)) == [b"a", b"q", NOW.encode(), b""]
    assert alone(redis, "lock", "it.other_holder(KEYS[1], 'a', '')", ("l",)) is None
    alone(redis, "lock", "it.free(KEYS[1], 'b')", ("l",))
    assert redis.exists("l")
    alone(redis, "lock", "it.free(KEYS[1], 'a')", ("l",))
    assert not redis.exists("l")
    alone(redis, "take_lock", f"it(KEYS[1], 'a', '60', 'q', '{NOW}', '5', 'token', true)", ("l",))
    assert redis.hmget("l", "due", "token") == [b"5", b"token"]
    assert redis.ttl("l") == 7_776_000


def test_the_life_of_a_lock_is_only_prolonged(redis: redis_py.Redis) -> None:
    redis.hset("l", "v", "1")
    redis.expire("l", 60)
    for life, expected in (("30", 60), ("90", 90)):
        alone(redis, "lock_life", f"it.prolong(KEYS[1], '{life}')", ("l",))
        assert redis.ttl("l") == expected


def test_ended_jobs_are_listed_by_the_time_of_their_end(redis: redis_py.Redis) -> None:
    listed = "(function() it.list(KEYS[1], KEYS[2], 'completed', '60') it.write() end)()"
    alone(redis, "ended", listed, ("pyworkers:ended:completed", "pyworkers:job:jid"))
    assert redis.zrange("pyworkers:ended:completed", 0, -1, withscores=True) == [(b"jid", float(NOW))]


def test_a_receipt_answers_a_repeated_batch_and_refuses_a_late_one(redis: redis_py.Redis) -> None:
    keys = tuple("abcdefgh")
    done = "it.finish({processed = 2, failed = 0, answer = {1, 0}})"
    assert alone(redis, "receipt", done, keys) == [1, 0]
    assert alone(redis, "receipt", "it.answer()", keys) == [1, 0]
    assert redis.mget("e", "g") == [b"2", b"2"]
    assert alone(redis, "receipt", "it.answer()", keys, number="'8'") is None
    with pytest.raises(redis_py.ResponseError, match="late: the settler has settled a later batch"):
        alone(redis, "receipt", "it.answer()", keys, number="'6'")


def test_row_numbers(redis: redis_py.Redis) -> None:
    assert alone(redis, "row_numbers", "it('\\0\\1\\1\\0')") == [1, 256]


def test_a_push_asks_its_ties_in_order_and_undoes_them_backwards(redis: redis_py.Redis) -> None:
    ties = """(function()
      local function tie(name, fails)
        local function note(step) redis.call('RPUSH', 'steps', name .. ' ' .. step) end
        return {
          decide = function() note('decide') end, undo = function() note('undo') end,
          after = function() note('after') end, take = function() note('take') return fails and 'refused' end,
        }
      end
      return {a = tie('a'), b = tie('b'), c = tie('c', ARGV[15] == 'fails')}
    end)()"""
    push = "back", "1", "q", "payload", "9", "a", "1", "0", "b", "1", "0", "c", "1", "0"
    assert alone(redis, "push", "{it(1, 'pushed')}", ("queue:q",), *push, "goes", ties=ties) == [1]
    steps = [f"{name} {step}".encode() for step in ("decide", "take", "after") for name in "abc"]
    assert redis.lrange("steps", 0, -1) == steps
    assert redis.lrange("queue:q", 0, -1) == [b"payload"]
    redis.delete("steps")
    assert alone(redis, "push", "{it(1, 'pushed')}", ("queue:q",), *push, "fails", ties=ties) == [0, b"refused"]
    assert redis.lrange("steps", 6, -1) == [b"b undo", b"a undo"]
    assert redis.llen("queue:q") == 1


def test_effects_are_refused_or_applied_by_their_words(redis: redis_py.Redis) -> None:
    handlers = """{
      may = {apply = function(key) redis.call('SET', key, 'may') end},
      must = {refusal = function(_, option) return option == 'no' and 'refused' end, apply = function() end},
    }"""
    both = "may", "1", "", "0", "must", "1", "no", "0"
    refused = alone(redis, "effects", "it.refusal(1, 8)", ("key",), *both, handlers=handlers)
    assert refused == b"refused (key key)"
    assert not redis.exists("key")
    assert alone(redis, "effects", "it.apply(1, 8)", ("key",), *both, handlers=handlers) is None
    assert redis.get("key") == b"may"


def test_no_effect_of_a_promotion_can_be_refused(redis: redis_py.Redis) -> None:
    """promote.lua does not ask before it moves the jobs."""
    of_words = {word: name for part in parts() for name, words in part.handlers.items() for word in words}
    assert words_of_moves()
    for word in words_of_moves():
        assert alone(redis, of_words[word], f"it['{word}'].refusal == nil") == 1


def test_a_slot_lets_the_next_job_of_its_line_go(redis: redis_py.Redis) -> None:
    keys = "settings", "places", "line", "due", "lines", "schedule", "queue:q"
    slot = "1", "2", "3", "4", "5", "6", "limit:l", "1", "q", "7"
    redis.hset("settings", mapping={"v": "1", "concurrent": "1"})
    steps = """(function()
      local slot = it.at(1)
      it.read_settings(slot)
      it.give_place(slot, 'a', 'owner', 'q')
      local failed = it.join(slot, '{"v":1,"queue":"q","at":1,"jid":"b"}\\npayload')
      local before = redis.call('LLEN', slot.line)
      it.free_place(it.at(1), 'a')
      return {before, redis.call('LLEN', slot.line), it.taken(slot)}
    end)()"""
    assert alone(redis, "limit", steps, keys, *slot) == [1, 0, 1]
    assert redis.lrange("queue:q", 0, -1) == [b"payload"]
    assert redis.hget("places", "s:b") is not None
