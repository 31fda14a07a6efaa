"""The commands by name. Each loads what it needs when it runs, so that help and refusals come at once."""

from __future__ import annotations

from argparse import Namespace


async def up(arguments: Namespace) -> int:
    """See `running.up`."""
    from loreline.cli import running

    return await running.up(arguments)


async def down(arguments: Namespace) -> int:
    """See `running.down`."""
    from loreline.cli import running

    return await running.down(arguments)


async def status(arguments: Namespace) -> int:
    """See `looking.status`."""
    from loreline.cli import looking

    return await looking.status(arguments)


async def ingest(arguments: Namespace) -> int:
    """See `ingesting.ingest`."""
    from loreline.cli import ingesting

    return await ingesting.ingest(arguments)


async def ask(arguments: Namespace) -> int:
    """See `asking.ask`."""
    from loreline.cli import asking

    return await asking.ask(arguments)


async def chat(arguments: Namespace) -> int:
    """See `asking.chat`."""
    from loreline.cli import asking

    return await asking.chat(arguments)


async def tail(arguments: Namespace) -> int:
    """See `looking.tail`."""
    from loreline.cli import looking

    return await looking.tail(arguments)


async def list_views(arguments: Namespace) -> int:
    """See `looking.list_views`."""
    from loreline.cli import looking

    return await looking.list_views(arguments)


async def compare_views(arguments: Namespace) -> int:
    """See `looking.compare_views`."""
    from loreline.cli import looking

    return await looking.compare_views(arguments)
