"""What a file is, by its first bytes. The name only decides between formats that are plain text."""

from __future__ import annotations

import re
from typing import Literal

from loreline.processors.parsers.archives import member_names
from loreline.schemas.errors import DocumentError

Kind = Literal["text", "rst", "markdown", "web", "docx", "pdf"]

_PLAIN: frozenset[Kind] = frozenset({"text", "rst", "markdown", "web"})
_OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_HTML = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html\b)", re.I | re.S
)
_ZIP_MEMBERS: dict[str, Kind] = {"word/document.xml": "docx"}
_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"{\\rtf", "rich text (.rtf)"),
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
    (b"SQLite format 3\x00", "a database"),
)


def sniff(data: bytes, named: Kind) -> Kind:
    """Return the family that the content belongs to; `named` is the one its name claims.

    Raises:
        DocumentError: `wrong_content` (another format than the name says, and none that can be read),
            `binary_content` (a plain-text name over bytes that are no text), `encrypted`, `corrupt`.
    """
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return _in_zip(data, named)
    if data.startswith(_OLE2):
        raise _in_ole2(data)
    for signature, what in _FOREIGN:
        if data.startswith(signature):
            raise _wrong(named, what)
    if named in _PLAIN:
        return named
    if _HTML.match(data[:4096]):
        return "web"
    if named == "pdf" or b"\x00" in data[:4096]:
        raise DocumentError(
            "corrupt", f"The file does not begin as a {named} file does; save or download it again."
        )
    raise _wrong(named, "something else")


def _in_zip(data: bytes, named: Kind) -> Kind:
    names = member_names(data)
    for member, kind in _ZIP_MEMBERS.items():
        if member in names:
            return kind
    raise _wrong(named, "a zip container of another kind")


def _in_ole2(data: bytes) -> DocumentError:
    if _ENCRYPTED_PACKAGE in data:
        return DocumentError(
            "encrypted", "The document is password protected; save a copy without a password."
        )
    return DocumentError(
        "wrong_content", "The file is in an old binary office format; save it as .docx and add that."
    )


def _wrong(named: Kind, what: str) -> DocumentError:
    if named in _PLAIN:
        return DocumentError(
            "binary_content", f"The file is named as text but its content is {what}; give it its real ending."
        )
    return DocumentError(
        "wrong_content", f"The file is named as {named} but its content is {what}; save it as {named} again."
    )
