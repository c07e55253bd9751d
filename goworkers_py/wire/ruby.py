"""Finds payloads that Ruby's JSON cannot read, or cannot write again."""

from __future__ import annotations

import math
import re

import simplejson

from goworkers_py.wire.payload import skip_space


def ruby_flaw(raw: bytes) -> str:
    """Why Ruby's JSON cannot read, or cannot write again, a payload that `read` accepts; empty if it can do both."""
    if not _MAY_BE_FLAWED(raw):
        return ""
    half = next((escape[1] for escape in _ESCAPES.finditer(raw) if escape[1]), None)
    if half:
        return f"it holds half of a surrogate pair (\\{half.decode()}), which Ruby cannot read"
    text = raw.decode("utf-8")
    try:
        _scan_for_ruby(text, skip_space(text, 0))
    except OverflowError as error:
        return str(error)
    return ""


def _float_for_ruby(text: str) -> None:
    if math.isinf(float(text)):
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise OverflowError(f"it holds the number {shown}, which is infinite to Ruby")


# Half of a surrogate pair, or a number beyond all floats, needs one of these texts. Nearly no payload has one.
_MAY_BE_FLAWED = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?[0-9]{3}|[0-9]{200}").search
# In JSON a backslash stands in strings only. The group matches half of a surrogate pair.
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_scan_for_ruby = simplejson.JSONDecoder(parse_float=_float_for_ruby, parse_int=len).scan_once
