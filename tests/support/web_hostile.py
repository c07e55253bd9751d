"""Jobs that nobody wants to have on a page: markup, templates, control characters, broken bytes, wrong types, bombs.

Whoever can push a job, or can name a thing, can make each of them. `EVIL` is set by every script in them that runs."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from typing import Any

from wsgi_client import Client

EVIL = "window.evil=1"
NAME = "<img src=x onerror=alert(1)>\"'&{{7*7}}\u202e\x07"  # of one thing
# Each breaks out of another place: text, attributes with each quote, scripts, styles, links, templates, comments.
MARKUP = (
    f"<script>{EVIL}</script>",
    f'"><img src=x onerror="{EVIL}">',
    f"'><svg onload='{EVIL}'>",
    f"</script></style></textarea></title><script>{EVIL}</script>",
    f'x" autofocus onfocus="{EVIL}" onmouseover="{EVIL}" y="',
    f"x' autofocus onfocus='{EVIL}' y='",
    f"<iframe srcdoc='&lt;script&gt;parent.{EVIL}&lt;/script&gt;'></iframe>",
    f"javascript:{EVIL}",
    f"  JaVaScRiPt:{EVIL}//",
    f"data:text/html,<script>{EVIL}</script>",
    '<div hx-get="/api" hx-trigger="load" hx-swap="outerHTML">',
    f'<b hx-on:load="{EVIL}" hx-on::load="{EVIL}">',
    "<style>*{display:none}</style><link rel=stylesheet href=//evil.example>",
    '<base href="//evil.example/"><meta http-equiv="refresh" content="0;url=//evil.example">',
    '<form action="//evil.example"><input name="_csrf"><button form="bulk">Delete</button>',
    "<!-- --!> <![CDATA[ ]]> <?xml ?>",
    "expression(alert(1)); } body { display: none }",
    "{{7*7}} {{ visit.host }} {{ ''.__class__.__mro__ }}",
    "{% include 'base.html' %}{# #}{% raw %}",
    "${7*7} #{7*7} <%= 7*7 %> %(name)s {0.__class__}",
    "&lt;script&gt; &amp;amp; &#x3c;b&#x3e; &quot;",
)
TEXTS = (
    "\x1b[2J\x1b]0;owned\x07\x1b[31mred", "nul\x00here", "bell\x07 back\x08space \x7f \x9b31m",
    "line\r\nSet-Cookie: evil=1\r\n\r\nbody", "tab\tand\vform\ffeed", "\u2028line\u2029para",
    "invoice\u202egnp.exe", "\u2066\u2067\u200f\u061cright to left\u2069", "zero\u200bwidth\u200d\ufeff", "\u0301" * 40,
    "a/b/../../etc/passwd", "..", "/", "//evil.example/", "100%", "%00%2e%2e%2f", "?state=dead&limit=1#top", "a&b=c;d",
    "a|b|c", "a:b:c", "*[?]\\", "sp ace  two ", " ", "-", "--help", "'", '"', "`id`", "$(id)", "'; DROP TABLE jobs; --",
    "é", "e\u0301", "日本語", "😀" * 20, "NaN", "Infinity", "null", "true", "0", "__proto__", "constructor",
    "x" * 10_000, "ein-sehr-langes-wort-ohne-leerzeichen" * 30, "a\n" * 500,
)  # fmt: skip
NAMES = (*MARKUP, *TEXTS)

WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**400, -(10**30), 1e308, "", "text", "NaN", "2026-11-27T01:02:03Z", [], {}, [[]],
    [None], [1, {"a": []}], {"a": {"b": None}}, {"": ""}, {"__proto__": 1},
)  # fmt: skip
FIELDS = (
    "class", "args", "kwargs", "jid", "queue", "retry", "retry_count", "created_at", "enqueued_at", "failed_at",
    "retried_at", "at", "error_class", "error_message", "error_backtrace", "tags", "wrapped", "display_class", "track",
    "retain", "expires_at", "pyworkers", "bid", "cattr", "unique_for", "dead", "backtrace", "locale", "recovered",
)  # fmt: skip
_PARTS = ("batch", "lock", "limits", "chain", "group", "needs", "v")

BROKEN = (
    b"", b" ", b"\n", b"not json", b"{", b"[]", b"null", b'"text"', b"17", b"{}", b'{"class":"A"', b"\xff\xfe\x00\x80",
    b'{"class":"\xff\xfe","args":[],"jid":"1"}', b'{"class":"A","args":["\xc3\x28\xed\xa0\x80"],"jid":"1"}',
    b'{"class":"\\ud800","args":["\\udc00 \\ud83d"],"jid":"\\ud800","queue":"\\udfff","error_message":"\\ud800"}',
    b'{"\\ud800":"\\ud800","class":"Half","args":[{"\\ud800":1}],"jid":"half","tags":["\\udc00"]}',
    b'{"class":"A","args":[NaN,Infinity,-Infinity],"jid":"1"}', b'{"class":"A","args":[1e999,-1e999,1e-999],"jid":"1"}',
    b'{"class":"A","args":[],"jid":"twice","jid":"twice again","class":"B"}', b'\xef\xbb\xbf{"class":"A","args":[]}',
    b'{"class":"A","args":[' + b"9" * 100_000 + b'],"jid":"digits","retry_count":' + b"9" * 5_000 + b"}",
    b'{"class":"A","args":[],"jid":"1"} and more', b"\x80\x04\x95pickle", b"\x04\bo:\x0bSymbol", b"\x1f\x8b\x08gzip",
    b'{"class":"A","args":[],"jid":"1","created_at":1e308,"enqueued_at":-1e308,"failed_at":1e18,"retried_at":-1}',
)  # fmt: skip


def hostile_payloads(count: int = 1_000, seed: int = 0) -> list[bytes]:
    """The same ones for a seed; the rare kinds come first, so that a few hundred have them all."""
    chance = random.Random(seed)
    made = [*BROKEN, *_deep(), *_long(chance), *_packed(), *_wrong_types(), *_active_jobs()][:count]
    return made + [_markup(chance, number) for number in range(count - len(made))]


def job(**fields: Any) -> bytes:
    plain = {"class": "PlainJob", "args": [1], "jid": "5" * 24, "queue": "default", "retry": True, "created_at": 1.7e9,
             "enqueued_at": 1.7e9}  # fmt: skip
    return json.dumps({**plain, **fields}).encode()


def _markup(chance: random.Random, number: int) -> bytes:
    """A job whose every text is hostile."""
    said: Callable[[], str] = lambda: chance.choice(NAMES)  # noqa: E731
    return job(
        **{"class": said(), "jid": f"{number}{said()}", "queue": said(), "tags": [said(), said()], "locale": said()},
        args=[said(), {said(): said(), "password": said()}, [[said()]], number],
        kwargs={said(): said()}, error_class=said(), error_message=said(), retry_count=chance.choice((0, 3, 25)),
        error_backtrace=_pack(json.dumps([said() for _ in range(5)]).encode()), failed_at=1.7e9, retried_at=1.7e9,
    )  # fmt: skip


def _deep() -> Iterator[bytes]:
    for levels in (50, 98, 99, 100, 101, 900, 5_000, 100_000):
        for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
            value = left * levels + b"1" + right * levels
            yield b'{"class":"Deep","args":[%s],"jid":"deep%d","queue":"default"}' % (value, levels)
            yield b'{"class":"Deep","args":[],"jid":"deep%d","error_backtrace":%s,"tags":%s}' % (levels, value, value)


def _long(chance: random.Random) -> Iterator[bytes]:
    """Of a megabyte each."""
    yield job(args=["<b>" * 350_000], jid="long text")
    yield job(args=[[chance.randrange(10) for _ in range(300_000)]], jid="long list")
    yield job(args=[{f"<i>{number}": number for number in range(60_000)}], jid="long object")
    yield job(jid="long message", error_class="E" * 300_000, error_message="<script>" * 130_000)
    yield job(**{"class": "C" * 1_000_000}, jid="long class")
    yield job(jid="j" * 1_000_000)
    yield job(jid="many tags", tags=[f"<u>{number}" for number in range(80_000)])


def _packed() -> Iterator[bytes]:
    """Backtraces: bombs, damage, other types inside."""
    bomb = _pack(b'["' + b"A" * 50_000_000 + b'"]')
    many = _pack(b'["a"' + b',"b"' * 5_000_000 + b"]")
    inside = (b"", b"null", b"17", b'"text"', b"{}", b"[[]]", b'[null,1,{"a":[]}]', b'["\xff"]', b"[" * 100_000)
    for stored in (bomb, many, "!", "AAAA", "x" * 100_000, *map(_pack, inside), [None, 1, {}], ["<b>"] * 50_000):
        yield job(jid="packed", error_backtrace=stored, error_class="E", error_message="m", failed_at=1.7e9)


def _pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def _wrong_types() -> Iterator[bytes]:
    for name in FIELDS:
        for value in WRONG:
            yield job(**{name: value})
        fields = json.loads(job())
        fields.pop(name, None)
        yield json.dumps(fields).encode()
    for part in _PARTS:
        for value in WRONG:
            yield job(pyworkers={"v": 1, "needs": [part], part: value})


def _active_jobs() -> Iterator[bytes]:
    for inside in (*WRONG, {"arguments": "x"}, {"arguments": [{"_aj_globalid": "gid://<b>"}], "job_class": "<b>"}):
        for wrapped in ("MailJob", 1, None, ["x"]):
            yield job(
                **{"class": "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"}, wrapped=wrapped, args=[inside]
            )


def storable(names: Sequence[str] = NAMES) -> list[str]:
    """Those names that a queue or another thing can have: each once, none of them endless."""
    return [name for name in dict.fromkeys(names) if len(name) < 2_000]


def assert_shown_as_text(client: Client, listing: str, own: str) -> None:
    """That a list shows NAME as text, and links the page of the thing of that name, whose address begins with `own`."""
    page = client.get(listing).text
    assert "<img" not in page
    assert "{{7*7}}" in page
    [link] = {unescape(link) for link in re.findall(r'href="(/[^"]*)"', page) if unescape(link).startswith(own)}
    shown = client.get(link)
    assert (shown.status, "<img" in shown.text, "alert(1)" in shown.text) == (200, False, True)
