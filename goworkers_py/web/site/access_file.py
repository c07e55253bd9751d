"""A file with who may see the pages and change something, a line for each:

    ada    act   scrypt$14$8$5$Y2hhbmdl...$...     a password
    shop   push  sha256$9f86d081884c7d65...        a token, which `pyworkers web grant shop` has made

A browser asks for name and password (HTTP Basic). A program sends `Authorization: Bearer NAME.SECRET`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.web.site.access import ROLES

# One of the equivalents that OWASP's cheat sheet on storing passwords names, and of those the one with which two logins
# at once fit beside jobs: 16 MB each, a tenth of a second. 0.4.0 wrote 14, 8, 1.
_LOG_N, _R, _P = 14, 8, 5
_MOST_BYTES, _MOST_WORK = 1 << 25, 1 << 22  # of the parameters in a line
# NIST SP 800-63B-4, for a password that nothing else stands beside.
SHORTEST_PASSWORD = 15
MOST_FILE_BYTES = 1_000_000
_NAME = "a name of letters, digits, _ and -"


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    role: str
    hash: str

    def __str__(self) -> str:
        return f"{self.name} {self.role} {self.hash}"

    @property
    def is_password(self) -> bool:
        return self.hash.startswith("scrypt$")

    def fits_password(self, secret: str) -> bool:
        """Slow."""
        _, _, rest = self.hash.partition("$")
        log_n, r, p, salt, key = rest.split("$")
        made = _scrypt(secret, base64.b64decode(salt), int(log_n), int(r), int(p))
        return hmac.compare_digest(made, base64.b64decode(key))


def fits_token(line: Line | None, secret: str) -> bool:
    """Takes as long for a line with a password, and for none."""
    expected = line.hash if line is not None and not line.is_password else f"sha256${'-' * 64}"
    return hmac.compare_digest(expected, f"sha256${_digest(secret)}")


def token_line(name: str, role: str) -> tuple[Line, str]:
    """A line for a new token, and the token: 256 random bits need no slow hash."""
    secret = secrets.token_urlsafe(32)
    return Line(name, role, f"sha256${_digest(secret)}"), f"{name}.{secret}"


def password_line(name: str, role: str, password: str) -> Line:
    salt = os.urandom(16)
    key = _scrypt(password, salt, _LOG_N, _R, _P)
    rest = "$".join([str(_LOG_N), str(_R), str(_P), *(base64.b64encode(part).decode() for part in (salt, key))])
    return Line(name, role, f"scrypt${rest}")


def read(path: Path) -> Mapping[str, Line]:
    """Raises ConfigError for a file that cannot be read or has a line that is none."""
    return parsed(path, content(path))


def content(path: Path) -> bytes:
    try:
        if not path.is_file() and path.exists():  # to open a pipe would wait
            raise ConfigError(f"access_file: {path} is no file")
        with path.open("rb") as file:
            raw = file.read(MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"access_file: there is no {path}: pyworkers web grant NAME >> {path}") from None
    except OSError as error:
        raise ConfigError(f"access_file: cannot read {path}: {error.strerror}") from None
    if len(raw) > MOST_FILE_BYTES:
        raise ConfigError(f"access_file: {path} has more than {MOST_FILE_BYTES:,} bytes")
    return raw


def parsed(path: Path, raw: bytes) -> Mapping[str, Line]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"access_file: cannot read {path}: {error}") from None
    found: dict[str, Line] = {}
    for number, raw_line in enumerate(text.splitlines(), 1):
        if not raw_line.strip() or raw_line.lstrip().startswith("#"):
            continue
        try:
            line = _line(raw_line.split())
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
    if line.role not in ROLES:
        raise ValueError(f"the role must be one of {', '.join(ROLES)}, is {line.role!r}")
    _check_hash(line.hash)
    return line


def _check_hash(hash_text: str) -> None:
    wrong = ValueError("the hash is none that `pyworkers web grant NAME` prints")
    kind, _, rest = hash_text.partition("$")
    if kind == "sha256" and re.fullmatch("[0-9a-f]{64}", rest):
        return
    try:
        log_n, r, p, salt, key = rest.split("$")
        costs = int(log_n), int(r), int(p)
        lengths = len(base64.b64decode(salt, validate=True)), len(base64.b64decode(key, validate=True))
    except ValueError:
        raise wrong from None
    if kind != "scrypt" or not _is_affordable(*costs) or min(lengths) < 16:
        raise wrong


def _is_affordable(log_n: int, r: int, p: int) -> bool:
    if not (10 <= log_n <= 20 and r >= 1 and p >= 1):
        return False
    return 128 * r << log_n <= _MOST_BYTES and r * p << log_n <= _MOST_WORK


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(secret: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    raw = secret.encode("utf-8", "surrogateescape")
    return hashlib.scrypt(raw, salt=salt, n=1 << log_n, r=r, p=p, maxmem=(1 << log_n) * 256 * r, dklen=32)
