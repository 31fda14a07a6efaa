"""The high-water mark, and what it shows about a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.events.given import filled

from loreline.events.highwater import HighWater, check_event, check_info, check_log
from loreline.events.log import LogInfo
from loreline.events.memory import MemoryLog
from loreline.schemas.errors import LogError, LogHole, LogRewritten, LogRolledBack


def info(first: int, last: int, held: int, deleted: int = 0) -> LogInfo:
    return LogInfo(first, last, held, deleted, 0, -1)


def test_the_mark_only_rises_and_outlives_a_kill(tmp_path: Path) -> None:
    mark = HighWater(tmp_path / "mark")
    assert mark.mark == (0, "")
    mark.record(5, "five")
    mark.record(4, "four")
    assert HighWater(tmp_path / "mark").mark == (5, "five")  # the first was neither synced nor closed
    mark.record(123456789, "i" * 36)
    mark.close()
    assert HighWater(tmp_path / "mark").mark == (123456789, "i" * 36)


@pytest.mark.parametrize(
    "held", [b"{", b"nonsense", b"[]", b'{"seq": 1}', b"\xff\xfe", b'{"seq": "x", "id": 1}']
)
def test_a_damaged_mark_is_named(tmp_path: Path, held: bytes) -> None:
    (tmp_path / "mark").write_bytes(held)
    with pytest.raises(LogError, match="mark is damaged"):
        HighWater(tmp_path / "mark")
    assert (tmp_path / "mark").read_bytes() == held


@pytest.mark.parametrize("state", [info(1, 9, 9), info(0, 0, 0)])
def test_a_whole_log_passes(state: LogInfo) -> None:
    check_info(state, seq=state.last_seq, whose="it")


@pytest.mark.parametrize(
    "state", [info(1, 9, 8), info(2, 9, 8), info(1, 9, 8, 1), info(10, 9, 0), info(1, 9, 9, 1)]
)
def test_any_missing_event_is_a_hole(state: LogInfo) -> None:
    with pytest.raises(LogHole, match="of 9 events are missing from the log; keep this data directory aside"):
        check_info(state, seq=9, whose="it")


async def test_a_log_is_held_against_the_mark() -> None:
    log, _ = await filled(3)
    third = await log.get(3)
    assert third is not None
    await check_log(log, mark=(0, ""), whose="it")
    await check_log(log, mark=(3, third.wire.id), whose="it")
    with pytest.raises(LogRolledBack, match="ends at 3, but it is at 4"):
        await check_log(log, mark=(4, "x"), whose="it")
    with pytest.raises(LogRewritten, match="another event stands at sequence 2"):
        await check_log(log, mark=(2, third.wire.id), whose="it")
    with pytest.raises(LogHole, match="sequence 2, where it is"):
        check_event(None, mark=(2, "x"), whose="it")
    with pytest.raises(LogRolledBack):
        await check_log(MemoryLog(), mark=(1, "x"), whose="it")
