"""What checks are built from: sizes, random inputs, masks, oracles over batches, names of shortcuts."""

from collections.abc import Callable

import torch
from torch import Tensor

INFINITY = float("inf")
SIZES = (5, 7, 11, 13)
BATCHES = {"one batch axis": (3,), "two batch axes": (2, 3)}
FUSED_ATTENTION = frozenset(
    {
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention_for_cpu",
        "multi_head_attention_forward",
        "_safe_softmax",
        "_native_multi_head_attention",
    }
)


def sizes(generator: torch.Generator, count: int) -> list[int]:
    """Draws a different size for each axis, none as in BATCHES, so that a mix-up of axes shows."""
    order = torch.randperm(len(SIZES), generator=generator)[:count]
    return [SIZES[i] for i in order]


def normal(generator: torch.Generator, dtype: torch.dtype, *shape: int) -> Tensor:
    """Draws a tensor of standard normal numbers. The same numbers come in every dtype."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_mask(generator: torch.Generator, queries: int, keys: int) -> Tensor:
    """Makes a random mask in which every query may attend to some keys, and to some not."""
    rank = torch.rand(queries, keys, generator=generator).argsort(dim=-1)
    return rank < 1 + torch.arange(queries).unsqueeze(-1) % (keys - 1)


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """Does the right thing, as a piece of versions that are wrong elsewhere."""
    return query @ key.mT / query.shape[-1] ** 0.5


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Puts -inf where the mask is False."""
    return scores if mask is None else scores.masked_fill(~mask, -INFINITY)


def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Does the right thing, as a piece of versions that are wrong elsewhere."""
    if mask is None:
        return scores.softmax(-1)
    empty = ~mask.any(-1, keepdim=True)
    return masked(scores, mask | empty).softmax(-1) * ~empty


# Wrong versions of the softmax that several sets meet.


def softmax_additive(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Adds -inf, and removes the nan too late for the gradient."""
    bias = torch.zeros(()) if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -INFINITY)
    return (scores + bias.to(scores.dtype)).softmax(-1).nan_to_num(0.0)


def softmax_exp(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Overflows for large scores."""
    powers = scores.exp() if mask is None else scores.exp() * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


def softmax_low(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Fills with a finite score: rows without keys become uniform."""
    low = torch.finfo(scores.dtype).min
    return (scores if mask is None else scores.masked_fill(~mask, low)).softmax(-1)


def softmax_billion(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Fills with a score that half precision does not have."""
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -1e9).softmax(-1) * mask.any(-1, keepdim=True)


def softmax_in_place(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Changes the scores that it was given."""
    weights = softmax(scores, mask)
    if mask is not None:
        scores.masked_fill_(~mask, -INFINITY)
    return weights


def softmax_late(scores: Tensor, mask: Tensor) -> Tensor:
    """Masks after the softmax, and divides by what is left."""
    weights = scores.softmax(-1) * mask
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def over_batches(oracle: Callable) -> Callable:
    """Lets an oracle for matrices without batch axes serve inputs that have them.

    An input with as many axes as the first one has the batch axes, too; any other is shared.
    """

    def over_batch(*inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        if inputs[0].ndim == 2:
            return oracle(*inputs)
        parts = [
            over_batch(*(x[i] if x.ndim == inputs[0].ndim else x for x in inputs))
            for i in range(len(inputs[0]))
        ]
        if isinstance(parts[0], tuple):
            return tuple(torch.stack(part) for part in zip(*parts, strict=True))
        return torch.stack(parts)

    return over_batch


def accepts(test: Callable, *inputs: object) -> bool:
    """Says whether a test that a learner wrote lets something pass. A test fails by an AssertionError."""
    try:
        test(*inputs)
    except AssertionError:
        return False
    return True
