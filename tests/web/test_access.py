"""Who may: by a function, by the access file, on this machine."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest

from goworkers_py.core.errors import ConfigError
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.site.access import ByFunction, Closed, Grant, OnLoopback
from goworkers_py.web.site.access_file import check_name, password_line, read, token_line
from goworkers_py.web.site.by_file import ByFile
from goworkers_py.web.site.failed_logins import FailedLogins


def basic(name: str, secret: str) -> dict[str, str]:
    told = base64.b64encode(f"{name}:{secret}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {told}", "REMOTE_ADDR": "10.0.0.1"}


def bearer(token: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": "10.0.0.1"}


def refusal(access: Closed | ByFile | ByFunction | OnLoopback, environ: dict[str, str]) -> int:
    with pytest.raises(Refused) as caught:
        access.decide(environ)
    return caught.value.status


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
    access = ByFile(str(written(file, "# people", "", line)))
    assert access.decide(basic("ada", "correct horse")) == Grant("ada", view=True, act=True)
    assert refusal(access, basic("ada", "wrong")) == 401
    assert refusal(access, basic("bob", "correct horse")) == 401
    assert "correct horse" not in str(line)


def test_a_token_lets_a_program_in_with_its_role(file: Path) -> None:
    line, token = token_line("ci", "view")
    access = ByFile(str(written(file, line)))
    assert access.decide(bearer(token)) == Grant("ci", view=True, act=False, by_token=True)
    assert access.decide(basic(*token.split(".", 1))) == Grant("ci", view=True, act=False)
    assert refusal(access, bearer(token[:-1])) == 401
    assert token.split(".", 1)[1] not in str(line)


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!!", "Basic YQ==", "Bearer", "Bearer x", "Digest a=b", "Bearer .x", "Basic w7/Dvw=="],
)
def test_a_broken_header_is_asked_again(file: Path, header: str) -> None:
    access = ByFile(str(written(file, token_line("ci", "view")[0])))
    with pytest.raises(Refused) as caught:
        access.decide({"HTTP_AUTHORIZATION": header})
    assert caught.value.status == 401
    assert dict(caught.value.headers)["WWW-Authenticate"].startswith("Basic")


def test_a_changed_file_counts_from_the_next_request_on(file: Path) -> None:
    first, token = token_line("ci", "act")
    access = ByFile(str(written(file, first)))
    access.decide(bearer(token))
    second, other = token_line("ci", "view")
    written(file, second)
    os.utime(file, ns=(1, 1))
    assert refusal(access, bearer(token)) == 401
    assert access.decide(bearer(other)) == Grant("ci", view=True, act=False, by_token=True)


def test_a_role_that_was_taken_away_counts_at_once_although_the_secret_is_remembered(file: Path) -> None:
    line, token = token_line("ci", "act")
    access = ByFile(str(written(file, line)))
    assert access.decide(bearer(token)).act
    written(file, str(line).replace(" act ", " view "))
    os.utime(file, ns=(1, 1))
    assert not access.decide(bearer(token)).act


def test_a_file_with_a_fault_leaves_the_former_one_in_force(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    line, token = token_line("ci", "view")
    access = ByFile(str(written(file, line)))
    written(file, "broken")
    os.utime(file, ns=(1, 1))
    assert access.decide(bearer(token)).view
    assert "the former access_file stays in force" in caplog.text
    file.unlink()
    assert access.decide(bearer(token)).view


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ada act", "a line is NAME ROLE HASH"), ("ada root sha256$" + "0" * 64, "the role must be view or act"),
        ("a.b act sha256$" + "0" * 64, "'a.b' must be a name"), ("ada act plain", "the hash is none"),
        ("ada act scrypt$30$8$1$AAAA$AAAA", "the hash is none"), ("ada act scrypt$14$8$1$!$!", "the hash is none"),
        ("ada act sha256$00", "the hash is none"),
    ],
)  # fmt: skip
def test_a_line_with_a_fault_is_named(file: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match="line 1") as caught:
        ByFile(str(written(file, line)))
    assert told in str(caught.value)


def test_two_lines_of_a_name_and_a_missing_file_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no .*: pyworkers web grant NAME >> "):
        read(file)
    with pytest.raises(ConfigError, match="line 2: a second line for ci"):
        read(written(file, token_line("ci", "view")[0], token_line("ci", "act")[0]))


def test_a_file_that_everybody_can_read_is_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(file, token_line("ci", "view")[0]).chmod(0o644)
    ByFile(str(file))
    assert "every user of this machine can read" in caplog.text
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_who_guesses_has_to_wait_and_others_do_not(file: Path) -> None:
    now = [100.0]
    line, token = token_line("ci", "view")
    access = ByFile(str(written(file, line)), FailedLogins(lambda: now[0]))
    for _ in range(10):
        assert refusal(access, bearer("ci.wrong")) == 401
    assert refusal(access, bearer("ci.wrong")) == 429
    assert refusal(access, bearer(token)) == 429  # not even with the right one, until it has waited
    assert access.decide({**bearer(token), "REMOTE_ADDR": "10.0.0.2"}).view
    assert access.decide(bearer(token)).view  # remembered: who is in stays in
    now[0] += 61
    assert refusal(access, bearer("ci.wrong")) == 401


def test_addresses_that_fail_do_not_fill_the_memory() -> None:
    failed = FailedLogins()
    for number in range(10_500):
        failed.add(str(number))
    assert len(failed._by_address) == 10_000


@pytest.mark.parametrize("name", ["", "a b", "ä", "a:b", "a.b", "a\n"])
def test_a_name_that_cannot_stand_in_the_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a name"):
        check_name(name)


# --- this machine


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "127.5.5.5", "jobs.test"])
def test_on_this_machine_everybody_may(host: str) -> None:
    assert OnLoopback(["Jobs.test"]).decide({"HTTP_HOST": host}).act


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "10.0.0.1", "[::2]", "127.0.0.1.evil"])
def test_who_asks_this_machine_under_another_name_is_refused(host: str) -> None:
    assert refusal(OnLoopback(), {"HTTP_HOST": host}) == 403


@pytest.mark.parametrize("header", ["HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA"])
def test_what_a_proxy_sends_to_this_machine_is_refused(header: str) -> None:
    assert refusal(OnLoopback(), {"HTTP_HOST": "127.0.0.1", header: "10.0.0.1"}) == 403


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

    assert ByFunction(may).decide({}) == Grant("ada", view=True, act=False)


def test_pages_that_were_told_nothing_are_closed() -> None:
    assert refusal(Closed(), {}) == 403
