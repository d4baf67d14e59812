"""The one tree of errors. A class is a kind of problem; its message is safe to show and says what to do."""

from __future__ import annotations


class KeepsError(Exception):
    """Something the caller can understand and act on. `retry_after_s` is set when trying again later helps."""

    def __init__(self, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


class Invalid(KeepsError):
    """The request is malformed: a missing field, a bad value, text that cannot be stored."""


class Unprocessable(KeepsError):
    """The request is well formed, its content is refused (rules of triples, reserved names)."""


class SecretRefused(Unprocessable):
    """What was to be remembered holds a secret: it is never stored. The message names its class, never the secret."""


class Unauthenticated(KeepsError):
    """No key, or one that is unknown, expired, revoked or of another context."""


class Forbidden(KeepsError):
    """The key is good, the verb is not held over what was named."""


class NotFound(KeepsError):
    """Absent, or not visible to this caller: the two look the same."""


class Gone(KeepsError):
    """What this names was erased."""


class Conflict(KeepsError):
    """Another state than the request expects: a duplicate name, a reused idempotency key, a limit on counts."""


class StaleRevision(KeepsError):
    """What was to be changed is not as the caller last saw it, or the request does not say which state it means."""


class IllegalTransition(Conflict):
    """A memory cannot go from where it stands to where the request wants it."""


class TooLarge(KeepsError):
    """More bytes than accepted."""


class UnsupportedMedia(KeepsError):
    """A content type or encoding that is not accepted."""


class Limited(KeepsError):
    """A budget or a rate is used up: later, or after an operator raised it, the same request may pass."""


class NotImplementedYet(KeepsError):
    """A reserved surface this build does not serve."""


class Unavailable(KeepsError):
    """The record cannot answer now (restarting, busy, full disk): nothing was acknowledged, try again."""


class StaleHead(KeepsError):
    """Another writer moved a chain between reading and committing: plan again."""


class StoreRefused(KeepsError):
    """The data folder must not be opened as it is (locked, newer, lost rows): the message names the ways on."""
