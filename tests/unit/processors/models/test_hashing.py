from __future__ import annotations

import numpy as np
import pytest

from loreline.processors.models.hashing import HashEmbedder, hash_vector


async def test_vectors_are_unit_length_and_the_same_every_time() -> None:
    embedder = HashEmbedder(dim=64)
    texts = ["The harbor opens at dawn.", "", "\0\ud800", "word " * 3000]
    first, second = await embedder.embed_passages(texts), await HashEmbedder(dim=64).embed_passages(texts)
    assert first.shape == (4, 64)
    assert first.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    assert first.tobytes() == second.tobytes()
    assert (await embedder.embed_passages([])).shape == (0, 64)


async def test_shared_words_bring_texts_closer() -> None:
    embedder = HashEmbedder()
    near, far = await embedder.embed_passages(
        ["The ferry leaves the harbor at nine.", "Bread needs salt and flour."]
    )
    question = await embedder.embed_query("When does the FERRY leave the harbor?")
    assert question @ near > question @ far + 0.2


def test_the_bits_of_a_vector_are_for_ever() -> None:
    vector = hash_vector("ferry", dim=16)
    assert {int(i): round(float(vector[i]), 3) for i in np.flatnonzero(vector)} == {
        3: 0.5,
        6: -0.5,
        10: 0.5,
        13: -0.5,
    }


def test_schemes_of_other_dimensions_are_other_models() -> None:
    assert HashEmbedder(dim=8).identity != HashEmbedder(dim=16).identity


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_tiny_dimensions_still_give_unit_vectors(dim: int) -> None:
    for word in ("a", "b", "c", "d", "e", ""):
        assert np.linalg.norm(hash_vector(word, dim=dim)) == pytest.approx(1)
