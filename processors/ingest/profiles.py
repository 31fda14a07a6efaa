"""Ingest profiles: the settings that shape chunks, their id, and the decisions to define and activate one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from loreline.events.append import Appender, Command
from loreline.events.folds.corpus import CORPUS, CorpusState, Profile
from loreline.schemas.events.corpus import ProfileActivated, ProfileDefined, ProfileSettings
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import APP_OWNER, NAMESPACE, RAG_CORPUS, canonical_json, derived_key, keyed_digest
from loreline.schemas.ports import KeyStore, ModelIdentity
from loreline.schemas.settings import IngestSettings

PURPOSE = "loreline/1/profile"
STRUCTURAL = "structural-1"
"""The contextualizer that needs no model: file, title and heading path."""


def profile_settings(settings: IngestSettings, *, embedder: ModelIdentity, dim: int) -> dict[str, str]:
    """The settings that shape chunks, as a profile records them."""
    return {
        "CHUNKING_STRATEGY": settings.strategy,
        "CHUNK_SIZE": str(settings.chunk_size),
        "CHUNK_OVERLAP": str(settings.chunk_overlap),
        "CONTEXTUALIZE": "true" if settings.contextualize else "false",
        "CONTEXTUALIZER": STRUCTURAL if settings.contextualize else "none",
        "EMBEDDER_BACKEND": embedder.backend,
        "EMBEDDER_NAME": embedder.name,
        "EMBEDDER_FINGERPRINT": embedder.fingerprint,
        "EMBEDDING_DIM": str(dim),
    }


def profile_id(keys: KeyStore, settings: Mapping[str, str]) -> str:
    """A profile's id: a keyed digest of its canonical settings, 32 hex digits."""
    text = canonical_json(dict(settings)).decode()
    return keyed_digest(keys.current(APP_OWNER).secret, PURPOSE, text)


def uses(profile: Profile, embedder: ModelIdentity) -> bool:
    """Whether a profile's vectors come from this embedder. Vectors of two models never mix."""
    settings = profile.settings
    recorded = (settings["EMBEDDER_BACKEND"], settings["EMBEDDER_NAME"], settings["EMBEDDER_FINGERPRINT"])
    return recorded == (embedder.backend, embedder.name, embedder.fingerprint)


async def define(appender: Appender, profile: str, *, settings: Mapping[str, str], actor: str) -> None:
    """Put a profile in the log, once; the first one ever answers at once."""

    def decide(state: CorpusState) -> Sequence[Payload]:
        events: list[Payload] = []
        if profile not in state.profiles:
            dim = int(settings["EMBEDDING_DIM"])
            events.append(
                ProfileDefined(profile=profile, dim=dim, private=ProfileSettings(settings=dict(settings)))
            )
        if state.active is None:
            events.append(ProfileActivated(profile=profile))
        return events

    key = derived_key(NAMESPACE, "profile", profile)
    await appender.execute(Command(RAG_CORPUS, CORPUS, key, decide, actor=actor))


def activation(profile: str, *, causation: UUID) -> Command[CorpusState]:
    """The decision to let a filled profile answer."""

    def decide(state: CorpusState) -> Sequence[Payload]:
        return [] if state.active == profile else [ProfileActivated(profile=profile)]

    key = derived_key(causation, "activate", profile)
    return Command(RAG_CORPUS, CORPUS, key, decide, actor="stage.runs", causation=causation)
