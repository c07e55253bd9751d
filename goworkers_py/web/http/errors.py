"""Requests that get no page, with the status and the words of the answer."""

from __future__ import annotations


class Refused(Exception):
    """Ends a request with this status; the message is for people and says what to do."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


def bad_request(message: str) -> Refused:
    return Refused(400, message)
