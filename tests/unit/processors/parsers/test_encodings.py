from __future__ import annotations

import random

import pytest

from loreline.processors.parsers.encodings import decode
from loreline.schemas.errors import DocumentError

SENTENCES: list[tuple[str, list[str]]] = [
    ("The harbour’s café — “naïve” prices, £4 – £6…\n", ["cp1252", "mac_roman", "utf-16-le", "utf-16-be"]),
    ("Price: £5 for the return trip, children go free on Sundays.\n", ["cp1252"]),
    ("It’s all right.\n", ["cp1252"]),
    ("Le bateau est amarré à Brest.\n", ["cp1252"]),
    ("¿Dónde está el año nuevo? El niño comió jamón.\n", ["cp1252", "mac_roman", "cp850"]),
    ("Größe und Übermut tun selten gut, schöne Grüße.\n", ["cp1252", "mac_roman", "cp850"]),
    ("Färjan går från kajen på lördag, så länge vädret är gott.\n", ["cp1252", "mac_roman"]),
    ("A embarcação não sai às sextas; é preciso atenção.\n", ["cp1252"]),
    ("Zażółć gęślą jaźń, prosię wróciło do źródła.\n", ["cp1250", "iso8859-2"]),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy.\n", ["cp1250", "iso8859-2"]),
    ("Árvíztűrő tükörfúrógép, őszi erdő.\n", ["cp1250", "iso8859-2"]),
    ("Şişli'de güneşli bir gün; ağaçlar ışıldıyor.\n", ["cp1254"]),
    ("Паром отходит в восемь часов утра.\n", ["cp1251", "koi8-r", "iso8859-5", "cp866"]),
    ("Пором відходить о восьмій годині ранку. Їжак і ґава.\n", ["cp1251", "koi8-u"]),
    ("Το πλοίο φεύγει στις οκτώ το πρωί.\n", ["cp1253", "iso8859-7"]),
    ("המעבורת יוצאת בשעה שמונה בבוקר.\n", ["cp1255"]),
    ("تغادر العبارة الساعة الثامنة صباحا.\n", ["cp1256"]),
    ("เรือเฟอร์รี่ออกเวลาแปดโมงเช้า\n", ["cp874"]),
    ("Keltas išplaukia aštuntą valandą ryto, žmonės žiūri.\n", ["cp1257"]),
    ("フェリーは午前八時に出発します。\n", ["shift_jis", "euc_jp", "iso2022_jp"]),
    ("名前,年齢,住所\n髙橋淳,35,名古屋\n", ["cp932"]),
    ("여객선은 오전 여덟 시에 출발합니다.\n", ["euc_kr"]),
    ("渡轮早上八点出发，售票处七点开门。\n", ["gb18030", "utf-16-le"]),
    ("渡輪早上八點出發，售票處七點開門。\n", ["big5"]),
    ("Ferry leaves at nine, says the board on the quay.\n", ["cp500", "utf-32-le"]),
]


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, encoding) for text, encodings in SENTENCES for encoding in encodings]
)
def test_a_sentence_in_a_legacy_encoding_comes_back_as_written(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text
    assert decode((text * 40).encode(encoding)).text == text * 40


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_and_is_not_text(encoding: str) -> None:
    assert decode("Größe\n".encode(encoding)).text == "Größe\n"


def test_newlines_become_line_feeds_and_nothing_else_changes() -> None:
    assert decode("a\r\nb\rc\n e\u0301\t".encode()).text == "a\nb\nc\n e\u0301\t"


def test_one_broken_byte_does_not_turn_utf8_into_another_encoding() -> None:
    data = ("Größe und Übermut. " * 20).encode() + b"\xff" + b" end"
    assert decode(data).encoding == "utf-8"
    assert "Größe" in decode(data).text


@pytest.mark.parametrize("length", [60, 600, 6000])
@pytest.mark.parametrize("zero_bytes", [True, False])
def test_random_bytes_are_never_text(length: int, zero_bytes: bool) -> None:
    data = random.Random(length).randbytes(length)
    if not zero_bytes:
        data = data.replace(b"\x00", b"\x07")
    with pytest.raises(DocumentError) as caught:
        decode(data)
    assert caught.value.code == "binary_content"


def test_nothing_is_empty_text() -> None:
    assert decode(b"").text == ""


def test_a_zero_character_does_not_reach_the_text() -> None:
    assert decode("\ufeffThe board says nine.\x00".encode("utf-16-le")).text == "The board says nine."
