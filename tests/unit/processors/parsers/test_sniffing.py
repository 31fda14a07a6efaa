from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable

import pytest

from loreline.processors.parsers import PARSERS, kind_by_suffix, read
from loreline.schemas.errors import DocumentError


def test_every_reader_is_imported_only_when_called() -> None:
    program = (
        "import sys, loreline.processors.parsers as p;"
        "assert p.PARSERS and not {'docling', 'pypdfium2', 'lxml', 'markdown_it'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_ending_belongs_to_one_family() -> None:
    endings = [suffix for parser in PARSERS.values() for suffix in parser.suffixes]
    assert sorted(kind_by_suffix()) == sorted(endings)


def code_of(data: bytes, suffix: str) -> str:
    with pytest.raises(DocumentError) as caught:
        read(data, suffix=suffix)
    assert len(str(caught.value)) > 20
    return caught.value.code


def zipped(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "x")
    return out.getvalue()


OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


@pytest.mark.parametrize(
    ("data", "suffix", "code"),
    [
        (b"hello", ".exe", "unsupported"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(200)), ".txt", "binary_content"),
        (b"abc\x00\x01\x02\xff" * 40, ".md", "binary_content"),
        (bytes(range(256)) * 20, ".html", "binary_content"),
        (zipped("xl/workbook.xml"), ".docx", "wrong_content"),
        (zipped("notes.txt"), ".txt", "binary_content"),
        (b"{\\rtf1 hello}", ".docx", "wrong_content"),
        (b"just words", ".docx", "wrong_content"),
        (b"just words", ".pdf", "corrupt"),
        (OLE2, ".docx", "wrong_content"),
        (OLE2 + "EncryptedPackage".encode("utf-16-le"), ".docx", "encrypted"),
        (b"PK\x03\x04 cut off", ".docx", "corrupt"),
        (b"%PDF-1.7 cut off", ".pdf", "corrupt"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_code(data: bytes, suffix: str, code: str) -> None:
    assert code_of(data, suffix) == code


def test_content_decides_over_the_name(
    make_pdf: Callable[..., bytes], make_docx: Callable[[str], bytes]
) -> None:
    pdf = make_pdf([(72, 700, 12, "The ferry leaves at nine.")])
    assert read(pdf, suffix=".docx").text == "The ferry leaves at nine."
    document = make_docx("<w:p><w:r><w:t>Members vote.</w:t></w:r></w:p>")
    assert read(document, suffix=".TXT").text == "Members vote."
    assert read(b"<!DOCTYPE html><p>Sign in</p>", suffix=".pdf").text == "Sign in"


@pytest.mark.parametrize("suffix", sorted(kind_by_suffix()))
@pytest.mark.parametrize("data", [b"", b" \n\t\r\n "])
def test_an_empty_file_is_a_document_without_text(data: bytes, suffix: str) -> None:
    assert read(data, suffix=suffix).text == ""
