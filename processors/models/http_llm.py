"""A chat model behind any OpenAI-compatible server, streamed: llama.cpp, vLLM, Ollama, a hosted one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx

from loreline.processors.models.cleaning import clean_text
from loreline.processors.models.completion import CompletionReader
from loreline.processors.models.sse import SseParser
from loreline.processors.models.transport import (
    RetryPolicy,
    api_base,
    auth_headers,
    failure_of,
    server_root,
    unreachable,
    with_retries,
)
from loreline.schemas.errors import DependencyDown
from loreline.schemas.ports import ChatMessage, Delta, GenerationEvent, ModelIdentity

_DEPENDENCY = "llm"
_MAX_MESSAGE_CHARS = 2_000_000
_LLAMA_CPP = "llama.cpp"


class HttpLanguageModel:
    """A chat-completions server behind the LanguageModel port.

    Args:
        client: owned by this object from here on; `close` closes it.
        url: the API's base, `http://host:port/v1`; `/v1` is added to a bare host.
        model: the name the server knows the model by; empty: the first it lists, learned by `probe`.
        first_token_timeout_s: longest wait for the first piece of an answer; covers the reading of
            the prompt, which takes minutes on a small machine.
        between_tokens_timeout_s: longest silence after that.
        retry: tries before the first piece has come; an answer that has begun is never asked twice.
        sleep: how to wait between tries.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        url: str,
        model: str = "",
        api_key: str | None = None,
        first_token_timeout_s: float = 300.0,
        between_tokens_timeout_s: float = 60.0,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._base = api_base(url)
        self._headers = auth_headers(api_key)
        self._first_token_timeout_s = first_token_timeout_s
        self._between_tokens_timeout_s = between_tokens_timeout_s
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._identity = ModelIdentity(backend="http", name=model, fingerprint="")
        self._is_llama_cpp: bool | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Name and digest of what the server says of the model; the digest is empty before `probe`."""
        return self._identity

    async def probe(self) -> ModelIdentity:
        """Ask the server which models it has; sets `identity`. Raises DependencyDown."""
        try:
            async with asyncio.timeout(self._between_tokens_timeout_s):
                response = await self._client.get(f"{self._base}/models", headers=self._headers)
        except httpx.TransportError as error:
            raise unreachable(_DEPENDENCY, self._base, error) from error
        except TimeoutError:
            raise self._silent("to a list of its models", self._between_tokens_timeout_s) from None
        self._note_server(response)
        if response.status_code != 200:
            raise failure_of(response, dependency=_DEPENDENCY)
        self._identity = listed_identity(
            response.content, model=self._identity.name, any_name=bool(self._is_llama_cpp)
        )
        return self._identity

    async def close(self) -> None:
        """Close the connections; a stream under way raises DependencyDown."""
        await self._client.aclose()

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, temperature: float
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Deltas and timings in stream order, then exactly one Usage.

        Close the generator (`contextlib.aclosing`) or cancel its reader to stop: the connection is
        closed at once, which stops the server. Raises DependencyDown when the server is
        unreachable, overloaded, silent for too long, or cuts the stream; ContextTooLong when the
        prompt does not fit; ModelRefused for any other refusal.
        """
        body = self._request(messages, max_tokens=max_tokens, temperature=temperature)
        deadline = _now() + self._first_token_timeout_s
        async with AsyncExitStack() as opened:
            response = await with_retries(
                lambda: self._open(body, opened, deadline=deadline), self._retry, sleep=self._sleep
            )
            parser, reader = SseParser(dependency=_DEPENDENCY), CompletionReader(dependency=_DEPENDENCY)
            chunks = response.aiter_bytes()
            begun = progressed = False
            while not reader.done:
                if begun and progressed:
                    # From now, not from the last token: the time our reader took is not silence.
                    deadline = _now() + self._between_tokens_timeout_s
                chunk = await self._next_chunk(chunks, deadline=deadline, begun=begun)
                found = parser.finish() if chunk is None else parser.feed(chunk)
                progressed = bool(found)
                for sse in found:
                    for event in reader.feed(sse):
                        begun = begun or isinstance(event, Delta)
                        yield event
                if chunk is None:
                    break
            for event in reader.finish():
                yield event

    async def count_tokens(self, text: str) -> int | None:
        """Tokens of `text`, by llama.cpp's `/tokenize`; None from any other server, or when it is down."""
        if self._is_llama_cpp is False:
            return None
        try:
            async with asyncio.timeout(self._between_tokens_timeout_s):
                response = await self._client.post(
                    f"{server_root(self._base)}/tokenize",
                    json={"content": clean_text(text, max_chars=_MAX_MESSAGE_CHARS)},
                    headers=self._headers,
                )
        except (httpx.TransportError, TimeoutError):
            return None
        self._note_server(response)
        if not self._is_llama_cpp or response.status_code != 200:
            return None
        tokens = response.json().get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    def _request(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, temperature: float
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": clean_text(message.content, max_chars=_MAX_MESSAGE_CHARS)}
                for message in messages
            ],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._identity.name:
            body["model"] = self._identity.name
        if self._is_llama_cpp:
            # Others refuse fields they do not know.
            body["timings_per_token"] = True
        return body

    async def _open(self, body: dict[str, Any], opened: AsyncExitStack, *, deadline: float) -> httpx.Response:
        """Send the request; the response's head, once it is 200. `opened` closes it."""
        url = f"{self._base}/chat/completions"
        request = self._client.build_request("POST", url, json=body, headers=self._headers)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._client.send(request, stream=True)
                opened.push_async_callback(response.aclose)
                if response.status_code != 200:
                    await response.aread()
        except httpx.TransportError as error:
            raise unreachable(_DEPENDENCY, url, error) from error
        except TimeoutError as error:
            raise self._silent("to a question", self._first_token_timeout_s) from error
        self._note_server(response)
        if response.status_code != 200:
            raise failure_of(response, dependency=_DEPENDENCY)
        return response

    async def _next_chunk(
        self, chunks: AsyncIterator[bytes], *, deadline: float, begun: bool
    ) -> bytes | None:
        """The next bytes, None at the end of the stream."""
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(chunks, None)
        except TimeoutError:
            if begun:
                raise self._silent("in the middle of an answer", self._between_tokens_timeout_s) from None
            raise self._silent("to a question", self._first_token_timeout_s) from None
        except httpx.TransportError as error:
            raise DependencyDown(
                _DEPENDENCY,
                f"The model server at {self._base} broke off in the middle of an answer "
                f"({str(error) or type(error).__name__}). It may have crashed; ask again.",
            ) from error
        except httpx.StreamError as error:
            raise DependencyDown(
                _DEPENDENCY, f"The answer's stream was closed: {error}. Ask again."
            ) from error

    def _silent(self, where: str, waited_s: float) -> DependencyDown:
        return DependencyDown(
            _DEPENDENCY,
            f"The model server at {self._base} was silent {where} for {waited_s:g} s. "
            "It is overloaded or hangs; raise the time-out if the model is only slow.",
        )

    def _note_server(self, response: httpx.Response) -> None:
        self._is_llama_cpp = _LLAMA_CPP in response.headers.get("server", "")


def listed_identity(content: bytes, *, model: str, any_name: bool) -> ModelIdentity:
    """The identity of `model` (or of the first model, if empty) in a `/models` answer.

    The fingerprint is the sha256 of the entry's lasting part: its id, and from llama.cpp its
    `meta` (sizes, parameter count). Raises DependencyDown if the list is not one, or lacks `model`.

    any_name: the server answers with its one model whatever name is asked for, as llama.cpp does.
    """
    try:
        entries = [entry for entry in json.loads(content)["data"] if isinstance(entry["id"], str)]
    except (ValueError, KeyError, TypeError):
        raise DependencyDown(
            _DEPENDENCY, "What answers at the model server's URL lists no models. Correct the URL."
        ) from None
    # Ollama lists `name:latest` for what everybody calls `name`.
    chosen = [entry for entry in entries if model in {"", entry["id"], entry["id"].removesuffix(":latest")}]
    if not chosen and any_name:
        chosen = entries
    if not chosen:
        names = ", ".join(sorted(entry["id"] for entry in entries)[:10]) or "none"
        raise DependencyDown(
            _DEPENDENCY,
            f"The model server has no model `{model}`; it has: {names}. Correct the name, or load the model.",
        )
    lasting = {"id": chosen[0]["id"], "meta": chosen[0].get("meta")}
    digest = hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()
    return ModelIdentity(backend="http", name=model or chosen[0]["id"], fingerprint=digest)


def _now() -> float:
    return asyncio.get_running_loop().time()
