"""Small files made on the spot: PDFs placed word by word, Word documents from bare XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

Placed = tuple[float, float, float, str]
PdfMaker = Callable[..., bytes]
DocxMaker = Callable[[str], bytes]


def pdf_bytes(*pages: list[Placed], rotate: int = 0, title: str = "") -> bytes:
    """A PDF whose pages show each (x, y, font size, words) where it says, in that order."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for at, page in enumerate(pages):
        shown = "\n".join(f"BT /F1 {size} Tf {x} {y} Td ({words}) Tj ET" for x, y, size, words in page)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Rotate {rotate}"
            f" /Contents {5 + 2 * at} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(shown.encode('cp1252'))} >>\nstream\n{shown}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    out = io.BytesIO(b"")
    out.write(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, start=1):
        offsets.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252"))
    table = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    for offset in offsets:
        out.write(f"{offset:010d} 00000 n \n".encode())
    out.write(
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
        f"startxref\n{table}\n%%EOF\n".encode()
    )
    return out.getvalue()


def docx_bytes(body: str) -> bytes:
    """A Word document with this XML in its body."""
    import docx

    whole = io.BytesIO()
    docx.Document().save(whole)
    out = io.BytesIO()
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in source.namelist():
            content = source.read(name)
            if name == "word/document.xml":
                content = content.replace(b"<w:body>", b"<w:body>" + body.encode())
            copy.writestr(name, content)
    return out.getvalue()


@pytest.fixture
def make_pdf() -> PdfMaker:
    return pdf_bytes


@pytest.fixture
def make_docx() -> DocxMaker:
    return docx_bytes
