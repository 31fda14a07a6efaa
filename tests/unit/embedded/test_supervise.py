"""Delays grow with failures in a row and start anew after a healthy time."""

from __future__ import annotations

from loreline.embedded.supervise import Backoff


def test_the_first_restart_is_immediate_and_later_ones_wait_longer_up_to_a_limit() -> None:
    backoff = Backoff(first_s=1.0, factor=2.0, longest_s=5.0)
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [
        0.0,
        1.0,
        2.0,
        4.0,
        5.0,
        5.0,
    ]


def test_a_healthy_time_starts_the_count_anew() -> None:
    backoff = Backoff(healthy_after_s=30.0)
    assert backoff.failures_after(7, uptime_s=1.0) == 8
    assert backoff.failures_after(7, uptime_s=30.0) == 1
