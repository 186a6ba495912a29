"""Masks: which query may attend to which key.

One convention holds in the whole course: a mask is boolean and **True means "may attend"**, as in
``F.scaled_dot_product_attention``. (``nn.MultiheadAttention`` uses the opposite.) A mask broadcasts to
``(..., queries, keys)``, so two masks are joined with ``&``.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attncourse.validation import check_at_least, check_lengths


def padding_mask(lengths: Int[Tensor, "*batch"], keys: int) -> Bool[Tensor, "*batch 1 keys"]:
    """Lets every query attend to the real tokens of its sequence and never to the padding after them.

    Args:
        lengths: number of real tokens of each sequence, from 0 to ``keys``.
        keys: length of the padded key axis, in tokens.

    Returns:
        True where the key is a real token. The axis of size 1 stands for the queries; for scores with a
        head axis, ``(batch, heads, queries, keys)``, add one more: ``padding_mask(...).unsqueeze(-3)``.

    Raises:
        ValueError: if a length is negative, larger than ``keys``, or no whole number. On a GPU, and in a
            compiled function, the numbers go unchecked: to read them would make it wait.

    Source: Vaswani et al. (2017), section 3.2.3, for masking before the softmax. Chapter: ``qkv``.
    """
    check_lengths(lengths, "keys", keys)
    return (torch.arange(keys, device=lengths.device) < lengths.unsqueeze(-1)).unsqueeze(-2)


def causal_mask(
    queries: int, keys: int | None = None, *, past: int = 0, device: torch.device | str | None = None
) -> Bool[Tensor, "queries keys"]:
    """Lets the query at position i attend to the keys at positions up to and including i.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        past: number of keys that lie before the first query, in tokens. It is 0 in training; in generation
            with a cache it is the number of tokens already read.
        device: where the mask is made.

    Returns:
        True where ``key position <= past + query position``.

    Raises:
        ValueError: if a size is negative.

    Source: Vaswani et al. (2017), section 3.2.3. Chapter: ``qkv``.
    """
    key, query = _positions(queries, keys, past, device)
    return key <= query


def window_mask(
    queries: int,
    keys: int | None = None,
    *,
    radius: int,
    past: int = 0,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Lets a query attend to the keys at most ``radius`` positions away, on both sides.

    A query sees at most ``2 * radius + 1`` keys. Joined with a causal mask, it sees at most ``radius + 1``:
    itself and ``radius`` keys before it.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        radius: largest distance between a query and its keys, in tokens, at least 0.
        past: number of keys that lie before the first query, in tokens.
        device: where the mask is made.

    Returns:
        True where ``|key position - (past + query position)| <= radius``.

    Raises:
        ValueError: if a size or the radius is negative.

    Source: Vaswani et al. (2017), section 4, "restricted" self-attention. Chapters: ``qkv``, ``restricted``.
    """
    check_at_least(0, radius=radius)
    key, query = _positions(queries, keys, past, device)
    return (key - query).abs() <= radius


def block_mask(
    queries: int,
    keys: int | None = None,
    *,
    size: int,
    past: int = 0,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Lets a query attend to the keys of its own block, where the sequence is cut into blocks of ``size``.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        size: length of a block, in tokens, at least 1; the last block may be shorter.
        past: number of keys that lie before the first query, in tokens.
        device: where the mask is made.

    Returns:
        True where query and key lie in the same block.

    Raises:
        ValueError: if a number of tokens is negative, or the size below 1.

    Source: Liu et al. (2018), arXiv:1801.10198, "local attention". Chapter: ``restricted``.
    """
    check_at_least(1, size=size)
    key, query = _positions(queries, keys, past, device)
    return key // size == query // size


def dilated_mask(
    queries: int,
    keys: int | None = None,
    *,
    radius: int,
    dilation: int,
    past: int = 0,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Lets a query attend to every ``dilation``-th key, up to ``radius`` of them on both sides.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        radius: largest number of steps between a query and its keys, at least 0.
        dilation: length of a step, in tokens, at least 1; with 1 this is ``window_mask``.
        past: number of keys that lie before the first query, in tokens.
        device: where the mask is made.

    Returns:
        True where ``key position - query position`` is a multiple of ``dilation``, and at most
        ``radius * dilation`` in absolute value.

    Raises:
        ValueError: if a number of tokens or the radius is negative, or the dilation below 1.

    Source: Beltagy et al. (2020), arXiv:2004.05150, "dilated sliding window". Chapter: ``restricted``.
    """
    check_at_least(1, dilation=dilation)
    check_at_least(0, radius=radius)
    key, query = _positions(queries, keys, past, device)
    distance = (key - query).abs()
    return (distance <= radius * dilation) & (distance % dilation == 0)


def global_window_mask(
    queries: int,
    keys: int | None = None,
    *,
    radius: int,
    tokens: int,
    past: int = 0,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Lets the first ``tokens`` positions see and be seen by all, and all others see a window around them.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        radius: largest distance between a query and the keys of its window, in tokens, at least 0.
        tokens: number of global tokens, at least 0.
        past: number of keys that lie before the first query, in tokens.
        device: where the mask is made.

    Returns:
        True where the query or the key is global, or where the two are at most ``radius`` positions apart.

    Raises:
        ValueError: if a number of tokens or the radius is negative.

    Source: Beltagy et al. (2020), arXiv:2004.05150, "global attention". Chapter: ``restricted``.
    """
    check_at_least(0, tokens=tokens)
    key, query = _positions(queries, keys, past, device)
    near = window_mask(queries, keys, radius=radius, past=past, device=device)
    return near | (key < tokens) | (query < tokens)


def _positions(
    queries: int, keys: int | None, past: int, device: torch.device | str | None
) -> tuple[Int[Tensor, "1 keys"], Int[Tensor, "queries 1"]]:
    """Gives the positions of the keys (a row) and of the queries (a column)."""
    keys = past + queries if keys is None else keys
    if min(queries, keys, past) < 0:
        raise ValueError(f"queries, keys and past must be at least 0, but are {queries}, {keys} and {past}")
    return torch.arange(keys, device=device)[None, :], past + torch.arange(queries, device=device)[:, None]
