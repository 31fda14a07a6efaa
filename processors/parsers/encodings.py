"""Bytes to text: which encoding a text file was written in, decided from its bytes alone.

The order is byte-order mark, UTF-16/32 by the pattern of zero bytes, ISO-2022-JP by its escapes, strict
UTF-8, then a ranking of the legacy encodings by how much the decoded letters look like a written language.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import NamedTuple

from loreline.processors.parsers import alphabets
from loreline.schemas.errors import DocumentError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SINGLE_BYTE: dict[str, tuple[str, ...]] = {
    "cp1252": (
        "western", "German", "French", "Spanish", "Portuguese", "Italian", "Nordic", "Icelandic", "Dutch",
    ),
    "mac_roman": ("German", "French", "Spanish", "Portuguese", "Italian", "Nordic"),
    "cp850": ("German", "French", "Spanish", "Portuguese", "Italian", "Nordic"),
    "cp1250": ("Polish", "Czech", "Slovak", "Hungarian", "Romanian", "Croatian"),
    "iso8859-2": ("Polish", "Czech", "Slovak", "Hungarian", "Romanian", "Croatian"),
    "cp1254": ("Turkish",),
    "cp1257": ("Baltic",),
    "cp1251": ("Russian", "Ukrainian"),
    "koi8-r": ("Russian",),
    "koi8-u": ("Ukrainian",),
    "iso8859-5": ("Russian",),
    "cp866": ("Russian",),
    "cp1253": ("Greek",),
    "iso8859-7": ("Greek",),
    "cp1255": ("Hebrew",),
    "cp1256": ("Arabic",),
    "cp874": ("Thai",),
}  # fmt: skip
_MULTI_BYTE = ("shift_jis", "cp932", "euc_jp", "cp949", "gb18030", "big5")
# Level 1 of each standard holds the few thousand characters of daily use, in these first bytes.
_DAILY_ROWS = {
    "shift_jis": (0x88, 0x97),
    "cp932": (0x88, 0x97),
    "euc_jp": (0xB0, 0xCF),
    "gb18030": (0xB0, 0xD7),
    "big5": (0xA4, 0xC6),
}
_SAMPLE_CHARACTERS = 4000
_UNKNOWN_LETTER = -9.0
_WORTH_TRUSTING = -6.5
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")


class Decoded(NamedTuple):
    """A file's text with newlines as line feeds, and the Python codec that read it."""

    text: str
    encoding: str


def decode(data: bytes) -> Decoded:
    """Decode a text file of unknown encoding; only newlines are changed, to line feeds.

    Raises:
        DocumentError: `binary_content` if the bytes are no text in any encoding known here.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark) and not (encoding == "utf-16-le" and len(data) % 2):
            return _finished(data[len(mark) :].decode(encoding, "replace"), encoding)
    wide = _wide(data) if b"\x00" in data else None
    if wide is not None:
        return wide
    if b"\x00" in data:
        raise _binary()
    if b"\x1b$" in data:
        japanese = _strict(data, "iso2022_jp_2")
        if japanese is not None:
            return _finished(japanese, "iso2022_jp")
    for read in (_utf8, _damaged_utf8):
        text = read(data)
        if text is not None:
            return _finished(text, "utf-8")
    return _legacy(data)


def normalise_newlines(text: str) -> str:
    """Return the text with every carriage return, alone or before a line feed, as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _finished(text: str, encoding: str) -> Decoded:
    sample = text[:100_000]
    if len(_CONTROL.findall(sample)) > 2 + len(sample) // 50:
        raise _binary()
    # No store takes a zero character, and UTF-16 files have been seen to end with one.
    return Decoded(normalise_newlines(text).replace("\x00", ""), encoding)


def _binary() -> DocumentError:
    return DocumentError(
        "binary_content",
        "This file is not text in any encoding known here. Save it as UTF-8 text, or give it the ending"
        " of its real format.",
    )


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _wide(data: bytes) -> Decoded | None:
    """UTF-16 or UTF-32 without a byte-order mark: text has its zero bytes on one side, and few controls."""
    sample = data[: 64 * 1024 // 4 * 4]
    found: list[tuple[float, str]] = []
    for encoding, width in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        if len(data) % width:
            continue
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError:
            continue
        ordinary = sum(1 for c in text if c in "\n\r\t" or unicodedata.category(c)[0] in "LNPZSM")
        common = sum(1 for c in text if c in " \n,.、。,的")
        if text and ordinary >= 0.98 * len(text) and common:
            found.append((common / len(text), encoding))
    if not found:
        return None
    encoding = max(found)[1]
    whole = _strict(data, encoding)
    return None if whole is None else _finished(whole, encoding)


def _utf8(data: bytes) -> str | None:
    return _strict(data, "utf-8")


def _damaged_utf8(data: bytes) -> str | None:
    """UTF-8 with a few broken bytes: far more whole characters than broken ones."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(1 for c in text if c > "\x7f") - broken
    return text if whole > 20 * broken else None


def _legacy(data: bytes) -> Decoded:
    ebcdic = _ebcdic(data)
    if ebcdic is not None:
        return _finished(ebcdic, "cp500")
    ranked: list[tuple[float, str, str]] = []
    for encoding in _MULTI_BYTE:
        text = _strict(data, encoding)
        if text is not None:
            ranked.append((_east_asian_score(text, encoding), encoding, text))
    for encoding, languages in _SINGLE_BYTE.items():
        text = _strict(data, encoding)
        if text is not None:
            ranked.append((_alphabet_score(text, languages), encoding, text))
    best = max(ranked, key=lambda entry: entry[0], default=None)
    if best is not None and best[0] >= _WORTH_TRUSTING:
        return _finished(best[2], best[1])
    high = sum(map(len, _HIGH_RUN.findall(data)))
    if high > 0.3 * len(data):
        raise _binary()
    return _finished(data.decode("cp1252", "replace"), "cp1252")


def _ebcdic(data: bytes) -> str | None:
    """IBM's encoding has the space at 0x40 and its letters above 0x80."""
    if data.count(b"\x40") < len(data) // 20 or not data:
        return None
    text = data.decode("cp500")
    plain = sum(1 for c in text if c.isascii() and (c.isalnum() or c in " \n\r\t.,;:'-\"()\x85"))
    return text.replace("\x85", "\n") if plain > 0.95 * len(text) else None


def _sample(text: str) -> str:
    """Words with characters beyond ASCII, up to a few thousand characters: what tells encodings apart."""
    words = re.findall(r"[^\s\x00-\x7f]*\S*[^\x00-\x7f]\S*", text[:400_000])
    return " ".join(words)[:_SAMPLE_CHARACTERS]


def _alphabet_score(text: str, languages: tuple[str, ...]) -> float:
    """Mean log probability of the characters beyond ASCII under the language they fit best."""
    sample = _sample(text)
    foreign = [c for c in sample if c > "\x7f"]
    if not foreign:
        return _UNKNOWN_LETTER
    tables = alphabets.log_probabilities()
    best = max(
        sum(tables[name].get(c, _UNKNOWN_LETTER) for c in foreign) / len(foreign) for name in languages
    )
    return best - 6.0 * _oddities(sample) / len(foreign)


def _oddities(sample: str) -> int:
    """What decoding with the wrong table makes: capitals and signs in words, controls, mixed alphabets."""
    odd = 0
    for before, here, after in zip(sample, sample[1:], sample[2:], strict=False):
        if here <= "\x7f" and before <= "\x7f":
            continue
        if before.islower() and here.isupper():
            odd += 1
        elif here > "\x7f" and not here.isalpha() and before.isalpha() and after.isalpha():
            odd += here not in "’·-\u00a0" and unicodedata.category(here)[0] != "M"
        elif "\x80" <= here <= "\x9f":
            odd += 2
        elif here > "\u024f" and before.isalpha() and here.isalpha() and before < "\u0250":
            odd += 1
    return odd


def _east_asian_score(text: str, encoding: str) -> float:
    """Ranks by how common the decoded characters are; the standards list common ones in known rows."""
    sample = _sample(text)
    foreign = [c for c in sample if c > "\x7f"]
    if not foreign:
        return _UNKNOWN_LETTER
    total = sum(_east_asian_letter(c, encoding) for c in foreign)
    return total / len(foreign)


def _east_asian_letter(character: str, encoding: str) -> float:
    code = ord(character)
    if 0x3000 <= code <= 0x3002 or 0xFF01 <= code <= 0xFF5E or character in "「」『』・“”‘’—…":
        return -3.0
    if encoding in ("shift_jis", "cp932", "euc_jp") and 0x3041 <= code <= 0x30FE:
        return -2.0
    if encoding == "cp949" and 0xAC00 <= code <= 0xD7A3:
        return -2.5 if 0xB0 <= character.encode(encoding)[0] <= 0xC8 else -7.0
    if not 0x4E00 <= code <= 0x9FFF or encoding == "cp949":
        return _UNKNOWN_LETTER
    first, last = _DAILY_ROWS[encoding]
    return -3.2 if first <= character.encode(encoding)[0] <= last else -6.0
