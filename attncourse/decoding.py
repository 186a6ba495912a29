"""Decoding: how a model that scores the next token writes a whole sequence.

A model comes in as ``step(tokens, state) -> (logits, state)``: it reads one token of each row and scores the
next. The state is its own business. ``select(state, rows)`` gives the state of these rows, in this order;
beam search needs it, and rows may come twice.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attncourse.validation import check_at_least

State = Any
Step = Callable[[Tensor, State], tuple[Tensor, State]]
Select = Callable[[State, Tensor], State]


class Decoded(NamedTuple):
    """Holds what was written: one sequence a row.

    Attributes:
        tokens: without the start token; the end token is included, and fills the row after it.
        log_probability: sum over the tokens, up to and including the end token, of the logarithm of the
            probability that the model gave them, in nats.
    """

    tokens: Int[Tensor, "batch length"]
    log_probability: Float[Tensor, " batch"]


def greedy(
    step: Step,
    state: State,
    *,
    batch: int,
    start: int,
    end: int,
    max_length: int,
    select: Select | None = None,
    device: torch.device | str | None = None,
) -> Decoded:
    """Writes the most probable next token, again and again.

    Args:
        step: the model.
        state: what the model knows before the first token.
        batch: number of sequences.
        start: id of the token that is read first.
        end: id of the token that ends a sequence.
        max_length: largest number of tokens to write, the end token included.
        select: not used; it is taken so that all searches are called alike.
        device: where the tokens are made.

    Returns:
        The sequences, as long as the longest of them.

    Raises:
        ValueError: if ``batch`` or ``max_length`` is negative, or ``end`` is not in the vocabulary.

    Source: Sutskever et al. (2014), section 3.2, beam search of size 1. Chapter: ``seq2seq``.
    """
    return _write(step, state, lambda scores: scores.argmax(dim=-1), batch, start, end, max_length, device)


def sample(
    step: Step,
    state: State,
    *,
    batch: int,
    start: int,
    end: int,
    max_length: int,
    select: Select | None = None,
    device: torch.device | str | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Decoded:
    """Draws each next token at random, as probable as the model says.

    Args:
        step: the model.
        state: what the model knows before the first token.
        batch: number of sequences.
        start: id of the token that is read first.
        end: id of the token that ends a sequence.
        max_length: largest number of tokens to write, the end token included.
        select: not used; it is taken so that all searches are called alike.
        device: where the tokens are made.
        temperature: the logits are divided by it, above 0 and finite. Below 1 probable tokens become more
            probable.
        top_k: number of most probable tokens to draw from, at least 1; all if left out.
        generator: source of randomness, on the same device.

    Returns:
        The sequences. Their log-probability is the model's own, before temperature and ``top_k``.

    Raises:
        ValueError: if ``batch`` or ``max_length`` is negative, ``end`` is not in the vocabulary, the
            temperature is not above 0 and finite, or ``top_k`` is below 1.

    Source: ancestral sampling; Fan et al. (2018), arXiv:1805.04833, for ``top_k``. Chapter: ``transformer``.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be above 0 and finite, but is {temperature}")
    if top_k is not None:
        check_at_least(1, top_k=top_k)

    def draw(scores: Tensor) -> Tensor:
        if top_k is not None:
            kept = scores.topk(min(top_k, scores.shape[-1]), dim=-1)
            scores = torch.full_like(scores, float("-inf")).scatter(-1, kept.indices, kept.values)
        # Less the largest score, which cancels, no quotient is too large for the dtype.
        weights = torch.softmax((scores - scores.amax(dim=-1, keepdim=True)) / temperature, dim=-1)
        return torch.multinomial(weights, 1, generator=generator).squeeze(-1)

    return _write(step, state, draw, batch, start, end, max_length, device)


def beam_search(
    step: Step,
    state: State,
    *,
    batch: int,
    start: int,
    end: int,
    max_length: int,
    select: Select,
    device: torch.device | str | None = None,
    beams: int = 4,
    length_penalty: float = 0.0,
) -> Decoded:
    """Keeps the ``beams`` most probable beginnings at each step, and gives the best sequence at the end.

    A sequence that has ended keeps its place until better ones push it out.

    Args:
        step: the model.
        state: what the model knows before the first token, one row a sequence.
        batch: number of sequences.
        start: id of the token that is read first.
        end: id of the token that ends a sequence.
        max_length: largest number of tokens to write, the end token included.
        select: gives the state of some rows.
        device: where the tokens are made.
        beams: number of beginnings kept, at least 1; with 1 this is ``greedy``.
        length_penalty: α of ``((5 + length) / 6) ** α``, by which the log-probability is divided for the
            last choice; 0 takes the most probable sequence, and larger values favour longer ones.

    Returns:
        The best sequence of each row, with its log-probability (not divided).

    Raises:
        ValueError: if ``batch`` or ``max_length`` is negative, ``end`` is not in the vocabulary, or ``beams``
            is below 1.

    Source: Wu et al. (2016), arXiv:1609.08144, section 7, for the penalty. Chapter: ``transformer``.
    """
    check_at_least(0, batch=batch, max_length=max_length)
    check_at_least(1, beams=beams)
    first = torch.arange(batch, device=device).unsqueeze(-1) * beams
    tokens = torch.full((batch * beams, 1), start, device=device)
    state = select(state, torch.arange(batch, device=device).repeat_interleave(beams))
    ended = torch.zeros(batch, beams, dtype=torch.bool, device=device)
    # All beams of a sequence start alike: only one of them may grow at the first step.
    total = torch.full((batch, beams), float("-inf"), device=device)
    total[:, 0] = 0.0
    while tokens.shape[-1] <= max_length and not ended.all():
        logits, state = step(tokens[:, -1], state)
        scores = _log_probabilities(logits).unflatten(0, (batch, beams))
        grown = (total.unsqueeze(-1) + _only_end(scores, ended, end)).flatten(1)
        total, place = grown.topk(beams, dim=-1)
        rows = (first + place // logits.shape[-1]).flatten()
        written = (place % logits.shape[-1]).flatten()
        tokens = torch.cat([tokens.index_select(0, rows), written.unsqueeze(-1)], dim=-1)
        state = select(state, rows)
        ended = (written == end).view(batch, beams)
    tokens = tokens[:, 1:]
    # The end token fills the rest of a row, so all but the first of a row are no part of its length.
    lengths = tokens.shape[-1] - ((tokens == end).sum(dim=-1) - 1).clamp(min=0).view(batch, beams)
    best = (total / ((5 + lengths) / 6) ** length_penalty).argmax(dim=-1, keepdim=True)
    longest = max(lengths.gather(-1, best).flatten().tolist(), default=0)
    tokens = tokens.index_select(0, (first + best).flatten())[:, :longest]
    return Decoded(tokens, total.gather(-1, best).squeeze(-1))


def _write(
    step: Step,
    state: State,
    choose: Callable[[Tensor], Tensor],
    batch: int,
    start: int,
    end: int,
    max_length: int,
    device: torch.device | str | None,
) -> Decoded:
    check_at_least(0, batch=batch, max_length=max_length)
    token = torch.full((batch,), start, device=device)
    ended = torch.zeros(batch, dtype=torch.bool, device=device)
    total = torch.zeros(batch, device=device)
    written = [token[:, None][:, :0]]
    while len(written) <= max_length and not ended.all():
        logits, state = step(token, state)
        scores = _only_end(_log_probabilities(logits), ended, end)
        token = choose(scores)
        total = total + scores.gather(-1, token.unsqueeze(-1)).squeeze(-1)
        written.append(token.unsqueeze(-1))
        ended = token == end
    return Decoded(torch.cat(written, dim=-1), total)


def _log_probabilities(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _only_end(scores: Tensor, ended: Tensor, end: int) -> Tensor:
    """Lets a sequence that has ended go on with the end token alone, at no cost."""
    if not 0 <= end < scores.shape[-1]:
        raise ValueError(f"end must be a token from 0 to {scores.shape[-1] - 1}, but is {end}")
    only_end = scores.new_full(scores.shape[-1:], float("-inf"))
    only_end[end] = 0.0
    return torch.where(ended.unsqueeze(-1), only_end, scores)
