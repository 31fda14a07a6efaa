"""Every error Loreline raises on purpose.

The message of an error says what is wrong and what to do about it.

    LorelineError
    +-- InputError              the caller's input; an HTTP 4xx with `code`
    |   +-- NotFound            404
    |   +-- Conflict            409
    +-- DependencyDown          a server we need is not answering; retried, never counted
    +-- ModelRefused            a model server answered and said no; the request is wrong, not the server
    |   +-- ContextTooLong      the prompt does not fit the model's context
    +-- DocumentError           this document's own fault; becomes file.failed
    +-- LogError                the log is not what a checkpoint says it is
    |   +-- LogHole             a sequence is missing
    |   +-- LogRolledBack       the log ends before something we acknowledged
    |   +-- LogRewritten        another event stands at a sequence we know
    |   +-- LogFull             no room left; nothing was lost, make room and retry
    +-- StaleAggregate          somebody appended first; re-read and decide again
    +-- AppendUncertain         no answer came; look for our id before trying again
    +-- UnknownEvent            a type or version this program does not know
    +-- KeyMissing              an owner's key is not in the key store
    +-- BlobMissing             a blob an event names is not in the store
    +-- BlobDamaged             a blob's bytes do not match its digest
    +-- NotReady                a view has not reached the sequence asked for
    +-- DataDirectoryBusy       another process runs this data directory
    +-- DataDirectoryUnreadable the data directory was written by another format
    +-- ServerFailed            an embedded server did not start or stopped
        +-- ServerEnded         its process ended while it was starting
"""

from __future__ import annotations


class LorelineError(Exception):
    """The root of all errors Loreline raises on purpose."""


class InputError(LorelineError):
    """Input that cannot be used; `code` is the API's machine word, `status` its HTTP status."""

    status = 422

    def __init__(self, code: str, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        if status is not None:
            self.status = status


class NotFound(InputError):
    """What was named does not exist."""

    status = 404


class Conflict(InputError):
    """The operation collides with one that is under way."""

    status = 409


class DependencyDown(LorelineError):
    """A dependency refused, timed out, or answered 5xx or 429. Never counts against an event.

    Attributes:
        dependency: which one, as health names it (`postgres`, `embedder`, `llm`, ...).
        retry_after_s: how long it asked us to wait, if it said so.
    """

    def __init__(self, dependency: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.dependency = dependency
        self.retry_after_s = retry_after_s


class ModelRefused(LorelineError):
    """A model server refused the request or gave an unusable answer; asking again will not help.

    Attributes:
        dependency: which one, as health names it (`embedder`, `llm`).
    """

    def __init__(self, dependency: str, message: str) -> None:
        super().__init__(message)
        self.dependency = dependency


class ContextTooLong(ModelRefused):
    """The prompt does not fit the model's context; send fewer or shorter passages.

    Attributes:
        prompt_tokens: length of the prompt, if the server said so.
        context_tokens: room in the model's context, if the server said so.
    """

    def __init__(
        self,
        dependency: str,
        message: str,
        *,
        prompt_tokens: int | None = None,
        context_tokens: int | None = None,
    ) -> None:
        super().__init__(dependency, message)
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class DocumentError(LorelineError):
    """A document cannot be read; `code` is a machine word, the message says why and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LogError(LorelineError):
    """The log disagrees with what was acknowledged or projected before."""


class LogHole(LogError):
    """A sequence that must exist is not in the log."""


class LogRolledBack(LogError):
    """The log ends before a sequence that was acknowledged."""


class LogRewritten(LogError):
    """The event at a known sequence is not the one that was there."""


class LogFull(LogError):
    """The stream reached its size limit. Nothing was lost; make room, then retry."""


class StaleAggregate(LorelineError):
    """The aggregate moved past the expected sequence."""


class AppendUncertain(LorelineError):
    """An append got no answer, or a duplicate id was reported; re-read before trying again."""


class UnknownEvent(LorelineError):
    """An event type or schema version this program does not know; upgrade the program."""


class KeyMissing(LorelineError):
    """The key that opens an event or a blob is not in the key store; restore the key backup."""


class BlobMissing(LorelineError):
    """A blob named by an event is not in the store; restore it from a backup."""


class BlobDamaged(LorelineError):
    """A blob's bytes do not match its address; restore it from a backup."""


class NotReady(LorelineError):
    """A view has not yet reached the sequence the reader asked for; retry shortly."""


class DataDirectoryBusy(LorelineError):
    """Another process runs this data directory."""


class DataDirectoryUnreadable(LorelineError):
    """The data directory was written in a format this program does not read."""


class ServerFailed(LorelineError):
    """An embedded server did not start, or stopped by itself."""


class ServerEnded(ServerFailed):
    """An embedded server's process ended while it was starting; starting it again may help."""
