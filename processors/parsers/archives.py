"""What can be known about a zip container before anything in it is unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable

from loreline.schemas.errors import DocumentError

MAX_TOTAL_BYTES = 512 * 1024 * 1024
MAX_MEMBER_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 20_000
MAX_RATIO = 300
# A small member may be very regular without being a bomb: styles in office files reach 100 to 1.
_RATIO_APPLIES_FROM_BYTES = 16 * 1024 * 1024


def member_names(data: bytes) -> frozenset[str]:
    """Return the names in the container.

    Raises:
        DocumentError: `corrupt` if the directory of the zip cannot be read.
    """
    with _opened(data) as archive:
        return frozenset(archive.namelist())


def check_container(data: bytes) -> None:
    """Refuse containers that unpack to more than a document needs.

    Raises:
        DocumentError: `corrupt`, `encrypted` or `too_large`.
    """
    with _opened(data) as archive:
        members = archive.infolist()
    if any(member.flag_bits & 0x1 for member in members):
        raise DocumentError("encrypted", "The file is password protected; save a copy without a password.")
    total = sum(member.file_size for member in members)
    largest = max((member.file_size for member in members), default=0)
    if total > MAX_TOTAL_BYTES or largest > MAX_MEMBER_BYTES or len(members) > MAX_MEMBERS:
        raise _too_large(total)
    for member in members:
        dense = member.file_size > MAX_RATIO * max(member.compress_size, 1)
        if dense and member.file_size > _RATIO_APPLIES_FROM_BYTES:
            raise _too_large(total)


def read_member(data: bytes, name: str, *, limit_bytes: int) -> bytes:
    """Return one member's bytes; empty if it is not there. The size written in the directory is not trusted.

    Raises:
        DocumentError: `corrupt` or `too_large`.
    """
    with _opened(data) as archive:
        if name not in archive.namelist():
            return b""
        try:
            with archive.open(name) as member:
                content = member.read(limit_bytes + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            OSError,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise _corrupt() from error
    if len(content) > limit_bytes:
        raise _too_large(len(content))
    return content


def rewritten(data: bytes, edit: Callable[[str, bytes], bytes]) -> bytes:
    """Return a copy of the container with each member's bytes as `edit(name, bytes)` returns them.

    Raises:
        DocumentError: `corrupt` if a member cannot be unpacked.
    """
    target = io.BytesIO()
    with _opened(data) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name in dict.fromkeys(archive.namelist()):
            try:
                content = archive.read(name)
            except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError) as error:
                raise _corrupt() from error
            copy.writestr(name, edit(name, content))
    return target.getvalue()


def _opened(data: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise _corrupt() from error


def _corrupt() -> DocumentError:
    return DocumentError(
        "corrupt", "The file is damaged or cut off; open it in its program and save it again."
    )


def _too_large(size_bytes: int) -> DocumentError:
    return DocumentError(
        "too_large",
        f"The file unpacks to {size_bytes // 2**20} MB or more, beyond the limit; split it into parts.",
    )
