"""Who may: by a function, by the access file, by the token of the start."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from goworkers_py.core.errors import ConfigError
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.response import Response
from goworkers_py.web.site import access_file, failed_logins, hash_slots
from goworkers_py.web.site.access import Access, ByFunction, Closed, Grant
from goworkers_py.web.site.access_file import check_name, password_line, read, token_line
from goworkers_py.web.site.by_file import ByFile
from goworkers_py.web.site.failed_logins import FailedLogins, source_of
from goworkers_py.web.site.start_token import SESSION_S, StartToken, checked

LONG = "$".join([base64.b64encode(bytes(32)).decode()] * 2)


def basic(name: str, secret: str) -> dict[str, str]:
    told = base64.b64encode(f"{name}:{secret}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {told}", "REMOTE_ADDR": "10.0.0.1"}


def bearer(token: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": "10.0.0.1"}


def refusal(access: Access, environ: dict[str, str]) -> int:
    with pytest.raises(Refused) as caught:
        access.decide(environ)
    return caught.value.status


_OPEN: list[ByFile] = []


def opened(path: str, failed: FailedLogins | None = None) -> ByFile:
    _OPEN.append(ByFile(path, failed))
    return _OPEN[-1]


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(access_file, "_LOG_N", 10)
    yield
    while _OPEN:
        _OPEN.pop().close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "access"


def written(file: Path, *lines: object) -> Path:
    file.write_text("".join(f"{line}\n" for line in lines))
    file.chmod(0o600)
    return file


# --- the file


def test_a_password_lets_its_user_in_with_its_role(file: Path) -> None:
    line = password_line("ada", "act", "correct horse")
    access = opened(str(written(file, "# people", "", line)))
    assert access.decide(basic("ada", "correct horse")) == Grant("ada", "act")
    assert refusal(access, basic("ada", "wrong")) == 401
    assert refusal(access, basic("bob", "correct horse")) == 401
    assert "correct horse" not in str(line)


def test_a_token_lets_a_program_in_with_its_role(file: Path) -> None:
    line, token = token_line("ci", "view")
    access = opened(str(written(file, line)))
    assert access.decide(bearer(token)) == Grant("ci", "view", by_token=True)
    assert access.decide(basic(*token.split(".", 1))) == Grant("ci", "view")
    assert refusal(access, bearer(token[:-1])) == 401
    assert token.split(".", 1)[1] not in str(line)


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!!", "Basic YQ==", "Bearer", "Bearer x", "Digest a=b", "Bearer .x", "Basic w7/Dvw=="],
)
def test_a_broken_header_is_asked_again(file: Path, header: str) -> None:
    access = opened(str(written(file, token_line("ci", "view")[0])))
    with pytest.raises(Refused) as caught:
        access.decide({"HTTP_AUTHORIZATION": header})
    assert caught.value.status == 401
    assert "`Authorization: Bearer NAME.SECRET`" in caught.value.message, "the API says so too"
    assert dict(caught.value.headers)["WWW-Authenticate"].startswith("Basic")


def test_a_changed_file_counts_from_the_next_request_on(file: Path) -> None:
    first, token = token_line("ci", "act")
    access = opened(str(written(file, first)))
    access.decide(bearer(token))
    second, other = token_line("ci", "view")
    written(file, second)
    assert refusal(access, bearer(token)) == 401
    assert access.decide(bearer(other)) == Grant("ci", "view", by_token=True)


def test_a_role_that_was_taken_away_counts_at_once_although_the_secret_is_remembered(file: Path) -> None:
    line, token = token_line("ci", "act")
    access = opened(str(written(file, line)))
    assert access.decide(bearer(token)).role == "act"
    written(file, str(line).replace(" act ", " view "))
    assert access.decide(bearer(token)).role == "view"


def without(file: Path) -> None:
    file.unlink()


def with_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def with_a_fault(file: Path) -> None:
    written(file, *file.read_text().splitlines(), "half a li")


def too_long(file: Path) -> None:
    written(file, *file.read_text().splitlines(), "#" * access_file.MOST_FILE_BYTES)


@pytest.mark.parametrize("spoil", [without, with_a_folder, with_a_fault, too_long])
def test_without_a_file_that_can_be_read_nobody_gets_in_until_it_is_mended(
    file: Path, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:
    line, token = token_line("ci", "view")
    access = opened(str(written(file, line)))
    assert access.decide(bearer(token)).role == "view"
    spoil(file)
    for _ in range(3):
        assert refusal(access, bearer(token)) == 503
        assert refusal(access, {}) == 503
    assert caplog.text.count("nobody gets in until this is mended") == 1
    if file.is_dir():
        file.rmdir()
    written(file, line)
    assert access.decide(bearer(token)).role == "view"


def test_a_removed_line_ends_its_logins_also_at_equal_time_and_size(file: Path) -> None:
    line, token = token_line("ci", "act")
    person = password_line("ada", "act", "correct horse")
    access = opened(str(written(file, line, person)))
    access.decide(bearer(token))
    access.decide(basic("ada", "correct horse"))
    before = file.stat()
    written(file, str(line).replace("ci", "cx"), str(person).replace("ada", "adb"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert refusal(access, bearer(token)) == 401
    assert refusal(access, basic("ada", "correct horse")) == 401


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ada act", "a line is NAME ROLE HASH"), ("ada root sha256$" + "0" * 64, "the role must be one of view"),
        ("a.b act sha256$" + "0" * 64, "'a.b' must be a name"), ("ada act plain", "the hash is none"),
        ("ada act scrypt$30$8$1$AAAA$AAAA", "the hash is none"), ("ada act scrypt$14$8$1$!$!", "the hash is none"),
        ("ada act sha256$00", "the hash is none"),
        ("ada act sha256$" + "ä" * 64, "the hash is none"), ("ada act scrypt$20$8$1$" + LONG, "the hash is none"),
        ("ada act scrypt$14$8$64$" + LONG, "the hash is none"), ("ada act scrypt$14$8$0$" + LONG, "the hash is none"),
    ],
)  # fmt: skip
def test_a_line_with_a_fault_is_named(file: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match="line 1") as caught:
        opened(str(written(file, line)))
    assert told in str(caught.value)


def test_two_lines_of_a_name_and_a_missing_file_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no .*: pyworkers web grant NAME >> "):
        read(file)
    with pytest.raises(ConfigError, match="line 2: a second line for ci"):
        read(written(file, token_line("ci", "view")[0], token_line("ci", "act")[0]))


def test_a_file_that_everybody_can_read_is_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(file, token_line("ci", "view")[0]).chmod(0o644)
    opened(str(file))
    assert "every user of this machine can read" in caplog.text
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


# --- guesses


def password_file(file: Path, *more: object) -> Path:
    return written(file, password_line("ada", "act", "correct horse"), *more)


def test_who_guesses_has_to_wait_and_others_and_tokens_do_not(file: Path) -> None:
    now = [100.0]
    line, token = token_line("ci", "view")
    access = opened(str(password_file(file, line)), FailedLogins(lambda: now[0]))
    access.decide(basic("ada", "correct horse"))
    for number in range(10):
        assert refusal(access, basic("ada" if number % 2 else "ci", "wrong")) == 401
    assert refusal(access, basic("ada", "wrong")) == 429
    assert access.decide(basic("ada", "correct horse")).role == "act"  # remembered: who is in stays in
    assert access.decide(bearer(token)).role == "view"  # of the same address, which many may share
    assert access.decide({**basic("ada", "correct horse"), "REMOTE_ADDR": "10.0.0.2"}).role == "act"
    now[0] += 61
    assert refusal(access, basic("ada", "wrong")) == 401


def test_a_right_password_has_to_wait_where_others_have_guessed(file: Path) -> None:
    access = opened(str(password_file(file)))
    for _ in range(10):
        refusal(access, basic("ada", "wrong"))
    assert refusal(access, basic("ada", "correct horse")) == 429


class Hashes:
    """Counts those that run, from the real function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow_s: float = 0.0) -> None:
        self._lock, self._now, self._slow_s = threading.Lock(), 0, slow_s
        self.made, self.most = 0, 0
        self._scrypt = hashlib.scrypt
        monkeypatch.setattr("hashlib.scrypt", self)

    def __call__(self, *args: Any, **options: Any) -> bytes:
        with self._lock:
            self._now += 1
            self.made += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self._slow_s)
            return self._scrypt(*args, **options)
        finally:
            with self._lock:
                self._now -= 1


def test_of_guesses_that_come_at_once_few_are_checked_and_two_at_a_time(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = opened(str(password_file(file)))
    hashes, start = Hashes(monkeypatch, 0.02), threading.Barrier(45)

    def guess(number: int) -> int:
        start.wait()
        return refusal(access, basic("ada", f"wrong {number}"))

    with ThreadPoolExecutor(45) as threads:
        statuses = list(threads.map(guess, range(45)))
    assert hashes.made == statuses.count(401) <= 10
    assert hashes.most <= 2
    assert set(statuses) <= {401, 429, 503}


def test_many_sources_together_have_two_hashes_at_a_time_and_few_wait(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_slots, "LONGEST_WAIT_S", 60.0)
    access = opened(str(password_file(file)))
    hashes, start = Hashes(monkeypatch, 0.1), threading.Barrier(40)

    def guess(number: int) -> int:
        start.wait()
        return refusal(access, {**basic("ada", "wrong"), "REMOTE_ADDR": f"10.0.1.{number}"})

    with ThreadPoolExecutor(40) as threads:
        statuses = list(threads.map(guess, range(40)))
    assert hashes.most <= 2
    assert hashes.made == statuses.count(401)
    assert statuses.count(503) > 0
    assert len(access._failed._by_source) == hashes.made  # what was not checked is not counted


def test_a_login_that_waits_too_long_is_refused_and_not_counted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_slots, "LONGEST_WAIT_S", 0.01)
    access = opened(str(password_file(file)))
    go_on = threading.Event()
    held = [access._slots._threads.submit(go_on.wait) for _ in range(2)]
    for _ in range(20):
        assert refusal(access, basic("ada", "wrong")) == 503
    go_on.set()
    monkeypatch.undo()
    assert all(one.result(10) for one in held)
    assert access.decide(basic("ada", "correct horse")).role == "act"


def test_the_time_of_an_answer_tells_no_names(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, token = token_line("ci", "view")
    access = opened(str(password_file(file, line)), FailedLogins(iter(range(0, 10_000, 100)).__next__))
    hashes = Hashes(monkeypatch)
    for number, header in enumerate(
        (basic("ada", "no"), basic("ci", "no"), basic("eve", "no"), bearer("ci.no"), bearer("eve.no"), bearer("ada.no"))
    ):
        assert refusal(access, header) == 401
        assert hashes.made == number + 1
    access.decide(bearer(token))
    assert hashes.made == 6  # a token needs none


def test_names_that_are_not_in_the_file_are_hashed_like_old_and_new_ones(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = password_file(file, of_0_4_0("old", "an old password"))
    access = opened(str(file), FailedLogins(iter(range(0, 100_000, 100)).__next__))
    costs: list[list[int]] = []

    def cheap(*args: Any, p: int, **options: Any) -> bytes:
        costs[-1].append(p)
        return bytes(32)

    monkeypatch.setattr("hashlib.scrypt", cheap)
    for name in [f"nobody{number}" for number in range(40)]:
        costs.append([])
        for _ in range(2):
            refusal(access, basic(name, "no"))
    assert sorted({tuple(each) for each in costs}) == [(1, 1), (5, 5)]


def of_0_4_0(name: str, password: str) -> str:
    """As 0.4.0 has written it."""
    salt = b"0123456789abcdef"
    key = hashlib.scrypt(password.encode(), salt=salt, n=1 << 14, r=8, p=1, maxmem=1 << 26, dklen=32)
    return f"{name} act scrypt$14$8$1${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def test_a_password_is_hashed_as_todays_guidance_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert str(password_line("ada", "act", "correct horse battery")).startswith("ada act scrypt$14$8$5$")


def test_lines_of_the_last_release_let_in(file: Path) -> None:
    access = opened(str(written(file, of_0_4_0("ada", "short"))))
    assert access.decide(basic("ada", "short")) == Grant("ada", "act")
    assert refusal(access, basic("ada", "shorx")) == 401


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("a socket", "a socket"),
    ],
)  # fmt: skip
def test_failed_logins_are_counted_by_address_or_network(address: str, source: str) -> None:
    assert source_of(address) == source


def test_counts_do_not_fill_the_memory_and_none_is_forgotten_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_logins, "MOST_SOURCES", 100)
    now = [0.0]
    failed = FailedLogins(lambda: now[0])

    def fail(address: str) -> int:
        try:
            failed.begin(address)
        except Refused as refused:
            return refused.status
        failed.end(address, failed=True)
        return 401

    assert [fail("guesser") for _ in range(11)] == [401] * 10 + [429]
    assert [fail(f"other {number}") for number in range(150)] == [401] * 99 + [503] * 51
    assert fail("guesser") == 429
    now[0] += 61
    assert fail("new") == 401
    assert len(failed._by_source) == 1


def test_a_login_is_in_the_log_once_and_again_from_elsewhere(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    line, token = token_line("ci", "view")
    access = opened(str(password_file(file, line)))
    caplog.set_level("INFO")
    for _ in range(3):
        access.decide(basic("ada", "correct horse"))
        access.decide(bearer(token))
    access.decide({**bearer(token), "REMOTE_ADDR": "10.0.0.2\n"})
    told = [record.getMessage() for record in caplog.records if "login" in record.getMessage()]
    assert told == [
        "pages: login name=ada role=act source=10.0.0.1", "pages: login name=ci role=view source=10.0.0.1",
        "pages: login name=ci role=view source=10.0.0.2\\n",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "ä", "a:b", "a.b", "a\n"])
def test_a_name_that_cannot_stand_in_the_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a name"):
        check_name(name)


# --- the token of the start

TOKEN = "start-token-of-the-tests"


def asked(path: str = "/", query: str = "", method: str = "GET", **headers: str) -> dict[str, Any]:
    told = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return {
        "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": io.BytesIO(), "HTTP_HOST": "localhost:8080", **told,
    }  # fmt: skip


def signed_in(access: StartToken, **headers: str) -> str:
    """The session, as a browser tells it."""
    response = access.decide(asked(query=f"token={TOKEN}", **headers))
    assert isinstance(response, Response)
    (cookie,) = [value for name, value in response.headers if name == "Set-Cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    return cookie.partition(";")[0]


def test_without_the_token_nobody_gets_in_and_is_told_where_it_is() -> None:
    access = StartToken(TOKEN)
    for environ in (
        asked(), asked(query="token=wrong"), asked(authorization="Bearer wrong"), asked(query="token="),
        asked(cookie="pyworkers-session-8080=x"), asked(cookie="pyworkers-session-8080="),
        asked(authorization=basic("a", TOKEN)["HTTP_AUTHORIZATION"]), asked(method="POST", query=f"token={TOKEN}"),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            access.decide(environ)
        assert refused.value.status == 401
        assert not dict(refused.value.headers)["WWW-Authenticate"].startswith("Basic")
        assert "that `pyworkers web` has printed" in refused.value.message
        assert "`Authorization: Bearer TOKEN`" in refused.value.message, "the API says so too"


def test_the_address_with_the_token_begins_a_session_and_leads_to_the_page_without_it() -> None:
    access = StartToken(TOKEN)
    response = access.decide(asked("/jobs", f"state=dead&token={TOKEN}&class=A%26B"))
    assert isinstance(response, Response)
    assert (response.status, dict(response.headers)["Location"]) == (303, "/jobs?state=dead&class=A%26B")
    grant = access.decide(asked(cookie=signed_in(access)))
    assert grant == Grant("start token", "act", ends=True)


def test_a_link_of_another_site_leads_on_by_a_page_of_its_own() -> None:
    response = StartToken(TOKEN).decide(asked("//evil.example\\", f"token={TOKEN}", sec_fetch_site="cross-site"))
    assert isinstance(response, Response)
    assert (response.status, dict(response.headers)["Refresh"]) == (200, "0; url=/evil.example%5C")


def test_a_program_tells_the_token_in_a_header_and_failures_of_others_do_not_matter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    access = StartToken(TOKEN)
    statuses = [refusal(access, asked(authorization="Bearer wrong")) for _ in range(15)]
    assert statuses == [401] * 10 + [429] * 5
    assert caplog.text.count("wrong token") == 10
    grant = access.decide(asked(authorization=f"Bearer {TOKEN}"))
    assert grant == Grant("start token", "act", by_token=True)
    assert signed_in(access)


def test_a_session_ends_by_signing_out_and_by_time() -> None:
    now = [0.0]
    access = StartToken(TOKEN, clock=lambda: now[0])
    cookie = signed_in(access)
    leave = asked("/sign-out", method="POST", cookie=f"{cookie}; pyworkers-csrf={'a' * 32}")
    assert refusal(access, leave) == 403  # the form of another site
    response = access.decide({**leave, "HTTP_X_CSRF_TOKEN": "a" * 32})
    assert isinstance(response, Response)
    assert SimpleCookie(dict(response.headers)["Set-Cookie"])["pyworkers-session-8080"]["max-age"] == "0"
    assert refusal(access, asked(cookie=cookie)) == 401
    cookie = signed_in(access)
    now[0] += SESSION_S
    assert refusal(access, asked(cookie=cookie)) == 401


def test_pages_on_two_ports_of_a_machine_leave_each_other_their_sessions() -> None:
    one, other = StartToken(TOKEN), StartToken(TOKEN)
    jar = f"{signed_in(one)}; {signed_in(other, host='localhost:8081')}"
    assert isinstance(one.decide(asked(cookie=jar)), Grant)
    assert isinstance(other.decide(asked(cookie=jar, host="localhost:8081")), Grant)


def test_sessions_do_not_fill_the_memory() -> None:
    access = StartToken(TOKEN)
    cookies = [signed_in(access) for _ in range(1_001)]
    assert refusal(access, asked(cookie=cookies[0])) == 401
    assert isinstance(access.decide(asked(cookie=cookies[-1])), Grant)


@pytest.mark.parametrize("token", ["", "short", "a" * 21, "a b" * 10, "ä" * 30, "a&b" * 10, "a" * 201])
def test_a_token_that_could_be_guessed_or_breaks_an_address_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="PYWORKERS_WEB_TOKEN must have"):
        checked(token)


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "127.5.5.5", "jobs.test"])
def test_this_machine_is_asked_by_a_name_of_its_own(host: str) -> None:
    assert isinstance(StartToken(TOKEN, ["Jobs.test"]).decide(asked(host=host, authorization=f"Bearer {TOKEN}")), Grant)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "10.0.0.1", "[::2]", "127.0.0.1.evil"])
def test_who_asks_this_machine_under_another_name_is_refused(host: str) -> None:
    assert refusal(StartToken(TOKEN), asked(host=host, authorization=f"Bearer {TOKEN}")) == 403


@pytest.mark.parametrize("header", ["X_FORWARDED_FOR", "FORWARDED", "X_REAL_IP", "VIA"])
def test_what_a_proxy_sends_to_this_machine_is_refused(header: str) -> None:
    assert refusal(StartToken(TOKEN), asked(**{header: "10.0.0.1", "authorization": f"Bearer {TOKEN}"})) == 403


# --- a function


def test_a_function_that_fails_closes_the_pages(caplog: pytest.LogCaptureFixture) -> None:
    def fail(environ: dict[str, str], action: str) -> bool:
        raise KeyError(action)

    assert refusal(ByFunction(fail), {}) == 403
    assert "authorize() of the pages has failed" in caplog.text


def test_a_function_may_tell_who() -> None:
    def may(environ: dict[str, str], action: str) -> bool:
        environ["REMOTE_USER"] = "ada"
        return action == "view"

    assert ByFunction(may).decide({}) == Grant("ada", "view")


def test_pages_that_were_told_nothing_are_closed() -> None:
    assert refusal(Closed(), {}) == 403


@pytest.mark.parametrize(
    ("may", "asks_push", "role"),
    [
        (["view"], False, "view"), (["view", "act"], False, "act"), (["view", "push"], False, "view"),
        (["view", "push"], True, "push"), (["view", "act"], True, "act"), (["act", "push"], True, ""), ([], True, ""),
    ],
)  # fmt: skip
def test_a_function_is_asked_for_the_roles_that_it_knows(may: list[str], asks_push: bool, role: str) -> None:
    asked: list[str] = []

    def function(environ: dict[str, str], action: str) -> bool:
        asked.append(action)
        return action in may

    assert ByFunction(function, asks_push).decide({}) == Grant("somebody", role)
    assert ("push" in asked) is asks_push


@pytest.mark.parametrize(("role", "may"), [("", ""), ("view", "view"), ("push", "view push"), ("act", "view push act")])
def test_each_role_may_do_what_those_before_it_may(role: str, may: str) -> None:
    assert [action for action in ("view", "push", "act") if Grant("ada", role).may(action)] == may.split()
