"""Tasks made from random symbols, and the `Batch` in which every source of data ends.

Symbols are token ids from `FIRST_SYMBOL` on. Sequences lie on the device of the generator, or on the CPU.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attncourse.validation import check_at_least

#: Fills up sequences that are shorter than others.
PADDING = 0
#: Stands before every target.
START = 1
#: Stands after every target.
END = 2
#: The smallest id of a symbol.
FIRST_SYMBOL = 3


class Batch(NamedTuple):
    """Sequences to read and sequences to write, as token ids, filled up with `PADDING`.

    Attributes:
        source: ``(batch, source_length)``, without start and end.
        source_lengths: ``(batch,)``, number of real tokens.
        target: ``(batch, target_length)``, from `START` to `END`.
        target_lengths: ``(batch,)``, number of real tokens, `START` and `END` among them.
    """

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target_length"]
    target_lengths: Int[Tensor, " batch"]

    def to(self, device: torch.device | str) -> "Batch":
        """Moves every tensor to a device."""
        return Batch(*(tensor.to(device) for tensor in self))


def copying(
    batch: int,
    lengths: int | tuple[int, int],
    *,
    symbols: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """Makes a task whose target is the source itself.

    Args:
        batch: number of sequences, at least 1.
        lengths: number of symbols in every source; or the smallest and the largest number, both included,
            between which each sequence draws its own.
        symbols: number of different symbols. A model needs a vocabulary of ``FIRST_SYMBOL + symbols``.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The batch.

    Raises:
        ValueError: if a size is below 1, or the lengths are no range.

    Source: Graves et al. (2014), section 4.1. Chapter: ``seq2seq``.
    """
    source, lengths = _random_symbols(batch, lengths, symbols, generator)
    return _batch(source, lengths, source, lengths)


def reversal(
    batch: int,
    lengths: int | tuple[int, int],
    *,
    symbols: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """Makes a task whose target is the source from its last symbol to its first.

    Args:
        batch: number of sequences, at least 1.
        lengths: as for `copying`.
        symbols: number of different symbols. A model needs a vocabulary of ``FIRST_SYMBOL + symbols``.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The batch.

    Raises:
        ValueError: if a size is below 1, or the lengths are no range.

    Chapter: ``seq2seq``.
    """
    source, lengths = _random_symbols(batch, lengths, symbols, generator)
    mirrored = lengths[:, None] - 1 - torch.arange(source.shape[1], device=source.device)
    answer = source.gather(1, mirrored.clamp(min=0)).masked_fill(mirrored < 0, PADDING)
    return _batch(source, lengths, answer, lengths)


def sorting(
    batch: int,
    lengths: int | tuple[int, int],
    *,
    symbols: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """Makes a task whose target is the source in ascending order of its token ids.

    Args:
        batch: number of sequences, at least 1.
        lengths: as for `copying`.
        symbols: number of different symbols. A model needs a vocabulary of ``FIRST_SYMBOL + symbols``.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The batch.

    Raises:
        ValueError: if a size is below 1, or the lengths are no range.

    Chapter: ``selfattention``.
    """
    source, lengths = _random_symbols(batch, lengths, symbols, generator)
    real = _real(lengths, source.shape[1])
    last = FIRST_SYMBOL + symbols  # larger than every symbol, so padding goes to the end
    answer = source.masked_fill(~real, last).sort(dim=1).values.masked_fill(~real, PADDING)
    return _batch(source, lengths, answer, lengths)


def associative_recall(
    batch: int,
    pairs: int | tuple[int, int],
    *,
    symbols: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """Makes a task that shows keys with their values, then one of the keys, and asks for its value.

    A source is ``key, value, key, value, ..., key``. Its keys differ; values may repeat.

    Args:
        batch: number of sequences, at least 1.
        pairs: number of keys with a value in every source; or the smallest and the largest number, both
            included, between which each sequence draws its own.
        symbols: number of different keys, and of different values. Keys have the ids from ``FIRST_SYMBOL``
            on, values those after them: a model needs a vocabulary of ``FIRST_SYMBOL + 2 * symbols``.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The batch; a target holds one value between start and end.

    Raises:
        ValueError: if a size is below 1, the pairs are no range, or there are more pairs than keys.

    Source: Ba et al. (2016), arXiv:1610.06258, section 4.1. Chapter: ``qkv``.
    """
    largest = pairs if isinstance(pairs, int) else max(pairs)
    values, pairs = _random_symbols(batch, pairs, symbols, generator, first=FIRST_SYMBOL + symbols)
    if largest > symbols:
        raise ValueError(
            f"the keys of a sequence differ, so {largest} pairs need as many symbols, not {symbols}"
        )
    most = values.shape[1]
    options = {"generator": generator, "device": values.device}
    keys = FIRST_SYMBOL + torch.rand(batch, symbols, **options).argsort(dim=1)[:, :most]
    # In float64, where the product of the largest draw and a count never rounds up to the count.
    asked = (torch.rand(batch, dtype=torch.float64, **options) * pairs).long()[:, None]
    source = torch.stack([keys, values], dim=-1).flatten(1)
    source = torch.nn.functional.pad(source.masked_fill(~_real(2 * pairs, 2 * most), PADDING), (0, 1))
    source.scatter_(1, 2 * pairs[:, None], keys.gather(1, asked))
    return _batch(source, 2 * pairs + 1, values.gather(1, asked), torch.ones_like(pairs))


def selective_copying(
    batch: int,
    lengths: int | tuple[int, int],
    *,
    symbols: int,
    blanks: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """Makes a task whose source scatters its symbols among blanks; the target is the symbols alone, in order.

    Args:
        batch: number of sequences, at least 1.
        lengths: number of symbols to copy, as for `copying`.
        symbols: number of different symbols. The blank has the id ``FIRST_SYMBOL`` and the symbols those
            after it: a model needs a vocabulary of ``FIRST_SYMBOL + 1 + symbols``.
        blanks: number of blanks in every source, at least 0.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The batch; a source has as many tokens as symbols and blanks together.

    Raises:
        ValueError: if a size is too small, or the lengths are no range.

    Source: Gu and Dao (2023), arXiv:2312.00752, section 3.1. Chapter: ``restricted``.
    """
    check_at_least(0, blanks=blanks)
    answer, lengths = _random_symbols(batch, lengths, symbols, generator, first=FIRST_SYMBOL + 1)
    width = answer.shape[1] + blanks
    real = _real(lengths + blanks, width)
    draw = torch.rand(batch, width, generator=generator, device=answer.device).masked_fill(~real, 2.0)
    chosen = draw.argsort(dim=1).argsort(dim=1) < lengths[:, None]
    source = torch.where(real, FIRST_SYMBOL, PADDING)
    # Both masks count the same symbols row by row, and both are read from left to right.
    source[chosen] = answer[_real(lengths, answer.shape[1])]
    return _batch(source, lengths + blanks, answer, lengths)


def sample_rows(data: Batch, size: int, *, generator: torch.Generator | None = None) -> Batch:
    """Draws different rows of a batch at random, and cuts off the padding that none of them needs.

    Args:
        data: the batch to draw from, such as a whole training set.
        size: number of rows, from 1 to the number that there is.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        A smaller batch.

    Raises:
        ValueError: if there are not that many rows.

    Chapter: ``transformer``.
    """
    if not 1 <= size <= len(data.source):
        raise ValueError(f"size must lie between 1 and the {len(data.source)} rows, but is {size}")
    device = generator.device if generator else "cpu"
    rows = torch.randperm(len(data.source), generator=generator, device=device)[:size].to(data.source.device)
    source, source_lengths, target, target_lengths = (tensor[rows] for tensor in data)
    return Batch(
        source[:, : int(source_lengths.max())],
        source_lengths,
        target[:, : int(target_lengths.max())],
        target_lengths,
    )


def _random_symbols(
    batch: int,
    lengths: int | tuple[int, int],
    symbols: int,
    generator: torch.Generator | None,
    first: int = FIRST_SYMBOL,
) -> tuple[Int[Tensor, "batch length"], Int[Tensor, " batch"]]:
    """Draws a length for each sequence, and its symbols."""
    low, high = (lengths, lengths) if isinstance(lengths, int) else lengths
    if min(batch, symbols) < 1 or not 1 <= low <= high:
        raise ValueError(
            "expected batch and symbols of at least 1, and a length or a range of lengths from 1 on; "
            f"got batch = {batch}, symbols = {symbols}, lengths = {lengths}"
        )
    options = {"generator": generator, "device": generator.device if generator else "cpu"}
    drawn = torch.randint(low, high + 1, (batch,), **options)
    tokens = torch.randint(first, first + symbols, (batch, int(drawn.max())), **options)
    return tokens.masked_fill(~_real(drawn, tokens.shape[1]), PADDING), drawn


def _real(lengths: Int[Tensor, " batch"], width: int) -> Bool[Tensor, "batch width"]:
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def _batch(
    source: Int[Tensor, "batch source_length"],
    source_lengths: Int[Tensor, " batch"],
    answer: Int[Tensor, "batch answer_length"],
    answer_lengths: Int[Tensor, " batch"],
) -> Batch:
    """Puts each answer between start and end."""
    target = torch.nn.functional.pad(answer, (1, 1), value=PADDING)
    target[:, 0] = START
    target.scatter_(1, answer_lengths[:, None] + 1, END)
    return Batch(source, source_lengths, target, answer_lengths + 2)
