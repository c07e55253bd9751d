"""A job's JSON as text: strict reading, checks before a push, and rewriting by splicing.

A splice cuts and pastes the original text, and changes only the named top-level fields. Every other field, the order of
fields, the digits of every number and the spelling of every string stay the same after any number of splices. That
includes texts that Python would write another way (1.0e+16, 12345678901234567890.10, a lone \\ud800).
"""

from __future__ import annotations

import dataclasses
import enum
import math
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard

import simplejson

from goworkers_py.core.errors import ArgumentError, UnreadablePayload

# The nesting that Ruby reads and writes. The job's object and its `args` are two of these levels.
MAX_NESTING = 100

# Characters of a jid, a queue, or another name in a payload that becomes a part of keys.
LONGEST_NAME = 1_000

# A little less than int() accepts.
_DIGITS_AT_ONCE = 4_000
_TOO_LARGE = 10**_DIGITS_AT_ONCE

# In fewer bytes than this it is quicker to count the brackets than to find one after the other.
_SHORT = 1_000

_SPACE = " \t\n\r"
TOO_DEEP = f"nested deeper than {MAX_NESTING} levels, which Ruby refuses to read"


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _int_of_any_size(digits: str) -> int:
    # In halves, because int() refuses more than 4,300 digits. Without that limit a million digits take it a minute.
    if len(digits) <= _DIGITS_AT_ONCE:
        return int(digits)
    if digits[0] == "-":
        return -_int_of_any_size(digits[1:])
    low = len(digits) // 2
    shift: int = 10**low
    return _int_of_any_size(digits[:-low]) * shift + _int_of_any_size(digits[-low:])


# Returns the value that begins at a character, and where it ends. Not `raw_decode`, which accepts a byte order mark.
_scan = simplejson.JSONDecoder(parse_constant=refuse_constant).scan_once
# Accepts integers of more than 4,300 digits, as Ruby does and int() does not. Slower, so only used if `_scan` fails.
_scan_large_ints = simplejson.JSONDecoder(parse_constant=refuse_constant, parse_int=_int_of_any_size).scan_once
# Writes the types of JSON, and a tuple as a list. Without these options simplejson also writes bytes, decimals and
# objects with a method `_asdict`. It does not look for circular references, because `check_plain` refuses them.
_encoder = simplejson.JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    check_circular=False,
    encoding=None,  # type: ignore[arg-type]  # None refuses bytes; the type stubs lack it
    use_decimal=False,
    namedtuple_as_object=False,
)
# Written between the values of `encode_each`. No value holds a raw line end, because strings escape it.
_SEPARATOR = simplejson.RawJSON("\nnull")


def read(raw: bytes) -> dict[str, Any]:
    """The fields of a job. Raises UnreadablePayload for bytes that are not one strict JSON object in UTF-8."""
    try:
        text = raw.decode()
        value, end = _scan(text, 0)
    except (ValueError, RecursionError):
        text, value, end = _read_slowly(raw)
    if end != len(text) and skip_space(text, end) != len(text):
        raise UnreadablePayload(f"not JSON: something follows the object at character {end}")
    if type(value) is not dict:
        raise UnreadablePayload(f"a job is a JSON object, this is {type(value).__name__}")
    # A level takes at least two characters.
    if len(raw) > 2 * MAX_NESTING and _opens_many(raw) and nested_deeper(value, MAX_NESTING):
        raise UnreadablePayload(TOO_DEEP)
    return value


def read_marked(raw: bytes, *marks: bytes) -> dict[str, Any]:
    """The fields of a payload in which one of these texts stands; none of any other, and of an unreadable one."""
    if not any(mark in raw for mark in marks):
        return {}
    try:
        return read(raw)
    except UnreadablePayload:
        return {}


def _read_slowly(raw: bytes) -> tuple[str, Any, int]:
    """Handles the rare cases: a space before the value, an integer of very many digits, the reason for a refusal."""
    try:
        text = raw.decode("utf-8")
        return text, *_read_value(text, skip_space(text, 0))
    except RecursionError:
        raise UnreadablePayload(TOO_DEEP) from None
    except ValueError as error:
        raise UnreadablePayload(f"not JSON: {_reason(error)}") from None


def _reason(error: ValueError) -> str:
    if isinstance(error, simplejson.JSONDecodeError) and error.msg == "Expecting value":
        return f"no value at character {error.pos}"
    return str(error)


def _opens_many(raw: bytes) -> bool:
    """Whether there are more opening brackets than MAX_NESTING. For speed, a large payload is read only up to the first
    bracket too many."""
    if len(raw) < _SHORT:
        return raw.count(b"[") + raw.count(b"{") > MAX_NESTING
    found = 0
    for bracket in b"[", b"{":
        at = -1
        while found <= MAX_NESTING and (at := raw.find(bracket, at + 1)) >= 0:
            found += 1
    return found > MAX_NESTING


def nested_deeper(value: Any, levels: int) -> bool:
    layer = [value]  # no recursion, because Python limits its depth
    for _ in range(levels):
        layer = [
            item
            for outer in layer
            for item in (outer.values() if type(outer) is dict else outer)
            if type(item) is list or type(item) is dict
        ]
    return bool(layer)


def _read_value(text: str, start: int) -> tuple[Any, int]:
    try:
        return _scan(text, start)
    except simplejson.JSONDecodeError:
        raise
    except ValueError:
        return _scan_large_ints(text, start)


def encode(value: Any) -> str:
    """Compact JSON that does not escape non-ASCII characters, like Ruby's. The value has passed `check_plain`, or this
    package made it."""
    if type(value) is str:
        return _encoder.encode(value)  # for a text alone it makes no encoder
    return "".join(_encoder.iterencode(value))


def encode_each(values: Iterable[Any]) -> list[str]:
    """The JSON of each value, by one call of the encoder: simplejson's preparation for a call takes longer than most
    values."""
    text = encode([part for value in values for part in (_SEPARATOR, value)][1:])[1:-1]
    return text.split(f",{_SEPARATOR.encoded_json},") if text else []


def write(fields: Mapping[str, Any]) -> bytes:
    return encode(fields).encode("utf-8")


def splice(raw: bytes, changes: Mapping[str, Any], drop: Collection[str] = ()) -> bytes:
    """The same job with some top-level fields set or dropped. All other text stays as it was written."""
    return splicer(changes, drop)(raw)


def splicer(changes: Mapping[str, Any], drop: Collection[str] = ()) -> Callable[[bytes], bytes]:
    """`splice` for many jobs that get the same changes."""
    marks = [f'"{name}"'.encode() for name in (*changes, *drop)]
    members = {name: f"{encode(name)}:{encode(value)}" for name, value in changes.items()}
    addition = f",{','.join(members.values())}}}".encode()

    def spliced(raw: bytes) -> bytes:
        if changes and b":" in raw and not _may_have(raw, marks):
            return raw.rstrip()[:-1] + addition
        return _rebuilt(raw, members, drop)

    return spliced


def splice_into(raw: bytes, name: str, changes: Mapping[str, Any], drop: Collection[str] = (), part: str = "") -> bytes:
    """`splice`, but the fields are those of the object in the job's field `name`; with `part`, of the object in the
    field of that name in there."""
    members = _members(raw.decode("utf-8"))
    text = members[name]
    _, after_name = _scan(text, 0)
    inner = text[after_name + 1 :].encode()
    value = (splice_into(inner, part, changes, drop) if part else splice(inner, changes, drop)).decode()
    members[name] = f"{text[: after_name + 1]}{value}"
    return f"{{{','.join(members.values())}}}".encode()


def _rebuilt(raw: bytes, changed: Mapping[str, str], drop: Collection[str]) -> bytes:
    members = _members(raw.decode("utf-8"))
    for name in drop:
        members.pop(name, None)
    members |= changed
    return f"{{{','.join(members.values())}}}".encode()


def _may_have(raw: bytes, marks: Iterable[bytes]) -> bool:
    """False means: the payload has none of these fields and is on one line."""
    if b"\\u" in raw or b"\n" in raw or b"\r" in raw:
        return True
    for mark in marks:  # noqa: SIM110  # any() takes twice as long
        if mark in raw:
            return True
    return False


def _members(text: str) -> dict[str, str]:
    """Each name, with the text `"name":value` of its field. For an object that `read` accepts."""
    members: dict[str, str] = {}
    at = skip_space(text, skip_space(text, 0) + 1)
    while text[at] != "}":
        name, after_name = _scan(text, at)
        name_text = text[at:after_name]
        start = skip_space(text, skip_space(text, after_name) + 1)  # past the colon
        _, end = _read_value(text, start)
        members[name] = f"{name_text}:{_one_line(text[start:end])}"
        at = skip_space(text, end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
    return members


def _one_line(text: str) -> str:
    # Browsers turn line feeds into CRLF, and Sidekiq's page could not delete a pretty-printed job. A JSON string holds
    # no raw line end, so removing all of them changes no value.
    return text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text


def skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def check_plain(value: Any, name: str, levels: int = MAX_NESTING - 1) -> None:
    """Raises ArgumentError with the path of the first part that JSON would lose, change or refuse.

    `levels` is one less for a field of a job than for a whole job.
    """
    flaw = _flaw(value, levels)
    if flaw:
        path, why = flaw
        raise ArgumentError(f"{name}{path} {why}")


def check_rows(rows: Sequence[Any]) -> None:
    """Raises ArgumentError for a row of arguments that cannot be pushed."""
    for number, args in enumerate(rows):
        kind = type(args)
        if (kind is not list and kind is not tuple) or _flaw_inside(args, MAX_NESTING - 2):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")


def check_args(args: Any, name: str) -> None:
    if not isinstance(args, list | tuple):
        raise ArgumentError(f"{name} must be a list of arguments, is {type(args).__name__}")
    check_plain(list(args), name)


def check_kwargs(kwargs: Any) -> None:
    if not isinstance(kwargs, Mapping):
        raise ArgumentError(f"kwargs must be a dict of arguments by name, is {type(kwargs).__name__}")
    check_plain(dict(kwargs), "kwargs")


def _flaw(value: Any, levels_left: int) -> tuple[str, str] | None:
    kind = type(value)
    if value is None or kind is bool:
        return None
    if isinstance(value, str):
        return None if encodable(value) else ("", "holds half of a surrogate pair, which is no Unicode text")
    if isinstance(value, int):
        return None if -_TOO_LARGE < value < _TOO_LARGE else ("", "has more digits than a JSON reader takes")
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value}, which JSON cannot represent")
    if kind is list or kind is dict:
        if levels_left == 0:
            return "", f"is {TOO_DEEP}"
        return _flaw_inside(value, levels_left - 1)
    return "", f"is a {kind.__qualname__}, not plain JSON{_advice(kind)}"


def _flaw_inside(value: list[Any] | tuple[Any, ...] | dict[Any, Any], levels_left: int) -> tuple[str, str] | None:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and not isinstance(key, str):
            return f"[{key!r}]", f"is a key of type {type(key).__name__}; JSON keys are text"
        kind = type(item)
        if type(key) is int and ((kind is str and item.isascii()) or (kind is int and -_TOO_LARGE < item < _TOO_LARGE)):
            continue  # most values of most pushes, without a further call
        flaw = _flaw(item, levels_left) or (_flaw(key, levels_left) if isinstance(key, str) else None)
        if flaw:
            return f"[{key!r}]{flaw[0]}", flaw[1]
    return None


def encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_name(value: Any) -> TypeGuard[str]:
    """Whether a value of a payload can be the name of something: strangers write payloads."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and (value.isascii() or encodable(value))


def are_names(value: Any, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most and all(map(is_name, value))


def jid_of(fields: Mapping[str, Any]) -> str:
    """The jid of a job; empty for one without a jid, and for one whose jid cannot be a name."""
    jid = fields.get("jid")
    if type(jid) is str and jid.isascii() and 0 < len(jid) <= LONGEST_NAME:
        return jid  # the usual case without another call: this runs several times for a job
    return jid if is_name(jid) else ""


def _advice(kind: type) -> str:
    instead = _INSTEAD.get(kind.__name__)
    converted = dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum | pathlib.PurePath)
    if kind is bytes or not (instead or converted or hasattr(kind, "model_validate_json")):
        return f": {instead}" if instead else ""
    ways = [*([instead] if instead else []), "annotate the parameter of the job's function with the type"]
    return f": {', or '.join(ways)}"


_INSTEAD = {
    "Previous": "workers.PREVIOUS stands in the arguments of a link of workers.chain(...), after the first one",
    "tuple": "pass a list",
    "set": "pass a list",
    "frozenset": "pass a list",
    "datetime": "pass .timestamp() or .isoformat()",
    "date": "pass .isoformat()",
    "Decimal": "pass str(value)",
    "UUID": "pass str(value)",
    "bytes": "pass text, for example base64",
}
