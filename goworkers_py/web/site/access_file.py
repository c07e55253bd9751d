"""A file with who may see the pages and change something, a line for each:

    ada    act   scrypt$14$8$1$Y2hhbmdl...$...     a password
    ci     act   sha256$9f86d081884c7d65...        a token, which `pyworkers web grant ci` has made

A browser asks for name and password (HTTP Basic). A program sends `Authorization: Bearer NAME.SECRET`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goworkers_py.core.errors import ConfigError
from goworkers_py.web.site.access import ACT, VIEW

# About 60 ms and 16 MB for one password.
_LOG_N, _R, _P = 14, 8, 1
_MOST_LOG_N, _MOST_RP = 20, 32
_NAME = "a name of letters, digits, _ and -"


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    role: str
    hash: str

    def __str__(self) -> str:
        return f"{self.name} {self.role} {self.hash}"

    def fits(self, secret: str) -> bool:
        kind, _, rest = self.hash.partition("$")
        if kind == "sha256":
            return hmac.compare_digest(rest, _digest(secret))
        log_n, r, p, salt, key = rest.split("$")
        made = _scrypt(secret, base64.b64decode(salt), int(log_n), int(r), int(p))
        return hmac.compare_digest(made, base64.b64decode(key))


def token_line(name: str, role: str) -> tuple[Line, str]:
    """A line for a new token, and the token: 256 random bits need no slow hash."""
    secret = secrets.token_urlsafe(32)
    return Line(name, role, f"sha256${_digest(secret)}"), f"{name}.{secret}"


def password_line(name: str, role: str, password: str) -> Line:
    salt = os.urandom(16)
    key = _scrypt(password, salt, _LOG_N, _R, _P)
    told = "$".join([str(_LOG_N), str(_R), str(_P), *(base64.b64encode(one).decode() for one in (salt, key))])
    return Line(name, role, f"scrypt${told}")


def read(path: Path) -> Mapping[str, Line]:
    """Raises ConfigError for a file that cannot be read or has a line that is none."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"access_file: there is no {path}: pyworkers web grant NAME >> {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"access_file: cannot read {path}: {error}") from None
    found: dict[str, Line] = {}
    for number, told in enumerate(text.splitlines(), 1):
        if not told.strip() or told.lstrip().startswith("#"):
            continue
        try:
            line = _line(told.split())
        except ValueError as error:
            raise ConfigError(f"access_file: {path}, line {number}: {error}") from None
        if line.name in found:
            raise ConfigError(f"access_file: {path}, line {number}: a second line for {line.name}")
        found[line.name] = line
    return found


def check_name(name: str) -> None:
    """Raises ValueError for a name that cannot stand in the file."""
    if not name or not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
        raise ValueError(f"{name!r} must be {_NAME}")


def _line(words: list[str]) -> Line:
    if len(words) != 3:
        raise ValueError("a line is NAME ROLE HASH, as `pyworkers web grant NAME` prints it")
    line = Line(*words)
    check_name(line.name)
    if line.role not in (VIEW, ACT):
        raise ValueError(f"the role must be {VIEW} or {ACT}, is {line.role!r}")
    _check_hash(line.hash)
    return line


def _check_hash(told: str) -> None:
    wrong = ValueError("the hash is none that `pyworkers web grant NAME` prints")
    kind, _, rest = told.partition("$")
    if kind == "sha256" and len(rest) == 64:
        return
    try:
        log_n, r, p, salt, key = rest.split("$")
        costs = int(log_n), int(r) * int(p)
        lengths = len(base64.b64decode(salt, validate=True)), len(base64.b64decode(key, validate=True))
    except ValueError:
        raise wrong from None
    if kind != "scrypt" or not 10 <= costs[0] <= _MOST_LOG_N or not 1 <= costs[1] <= _MOST_RP or min(lengths) < 16:
        raise wrong


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(secret: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    raw = secret.encode("utf-8", "surrogateescape")
    return hashlib.scrypt(raw, salt=salt, n=1 << log_n, r=r, p=p, maxmem=(1 << log_n) * 256 * r, dklen=32)
