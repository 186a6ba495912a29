"""Measures: how right is what a model wrote, and how far runs with other seeds lie apart."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def until_end(tokens: Int[Tensor, "batch length"], *, end: int) -> list[list[int]]:
    """Gives the tokens of each row that stand before its first end; all of them if it has none.

    Args:
        tokens: what a model wrote, or a target without its start.
        end: id of the end.

    Returns:
        One list of ids a row.

    Chapter: ``seq2seq``.
    """
    return [row[: row.index(end)] if end in row else row for row in tokens.tolist()]


def exact_match(
    predicted: Int[Tensor, "batch predicted_length"], target: Int[Tensor, "batch target_length"], *, end: int
) -> Bool[Tensor, " batch"]:
    """Tells for each sequence whether it was written without a fault, its end included.

    What stands after the first end does not count. A sequence that was cut off before the end of its target
    is no match.

    Args:
        predicted: what a model wrote, without the start.
        target: what it should have written, without the start: ``batch.target[:, 1:]``.
        end: id of the end.

    Returns:
        True where both agree. The mean of ``.float()`` is the share of exact matches.

    Raises:
        ValueError: if the number of sequences differs.

    Chapter: ``seq2seq``.
    """
    if predicted.ndim != 2 or target.ndim != 2 or len(predicted) != len(target):
        raise ValueError(
            "predicted and target must have shapes (batch, predicted_length) and (batch, target_length), "
            f"but have {tuple(predicted.shape)} and {tuple(target.shape)}"
        )
    width = max(predicted.shape[1], target.shape[1])
    rows = []
    for tokens in (predicted, target):
        rows.append(F.pad(tokens, (0, width - tokens.shape[1]), value=-1))  # -1 is no token
        is_end = rows[-1] == end
        rows[-1] = rows[-1].masked_fill(is_end.cumsum(dim=1) > 0, end)
    return (rows[0] == rows[1]).all(dim=1)


def edit_distance(one: Sequence, other: Sequence) -> int:
    """Counts the insertions, deletions and replacements that turn one sequence into the other, at least.

    Args:
        one: a string, or a list of tokens.
        other: likewise.

    Returns:
        The number of edits, from 0 to the longer length.

    Source: Levenshtein (1966). Chapter: ``taxonomy``.
    """
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(other, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


def edit_rate(predicted: Sequence[Sequence], target: Sequence[Sequence]) -> float:
    """Divides the edits that turn all predictions into their targets by the number of tokens of the targets.

    Args:
        predicted: what a model wrote, such as the lists of `until_end`.
        target: what it should have written, one for each prediction.

    Returns:
        The rate; 0 if all is right, and above 1 if the predictions are much too long.

    Raises:
        ValueError: if their numbers differ, or the targets hold no token.

    Chapter: ``taxonomy``.
    """
    _check_pairs(predicted, target)
    tokens = sum(map(len, target))
    if not tokens:
        raise ValueError("the targets must hold at least one token, but are all empty")
    return sum(map(edit_distance, predicted, target)) / tokens


def bleu(predicted: Sequence[str], target: Sequence[str]) -> float:
    """Gives the BLEU score of translations, with sacreBLEU's standard settings, one reference each.

    Args:
        predicted: what a model wrote, as plain text.
        target: what a person wrote, one for each prediction.

    Returns:
        The score of the whole corpus, from 0 to 100.

    Raises:
        ValueError: if their numbers differ, or there is none.

    Source: Papineni et al. (2002); Post (2018), for the settings. Chapter: ``transformer``.
    """
    from sacrebleu import corpus_bleu  # slow to import, and used in one chapter

    _check_pairs(predicted, target)
    if not predicted:
        raise ValueError("BLEU needs at least one prediction, but there is none")
    return corpus_bleu(list(predicted), [list(target)]).score


class Spread(NamedTuple):
    """One measurement under several seeds.

    Attributes:
        runs: the results, with the seeds as first axis, as `band` and `length_curve` take them.
        median: of each entry over the seeds.
        lowest: of each entry over the seeds.
        highest: of each entry over the seeds.
    """

    runs: Float[Tensor, "seeds *shape"]
    median: Float[Tensor, "*shape"]
    lowest: Float[Tensor, "*shape"]
    highest: Float[Tensor, "*shape"]


def over_seeds(measure: Callable[[int], Any], seeds: Iterable[int]) -> Spread:
    """Runs a measurement once for each seed, and tells how far the results lie apart.

    Args:
        measure: takes a seed; gives a number or a tensor, of the same shape each time.
        seeds: the seeds, at least one.

    Returns:
        The results, with their median and range, in float64 on the CPU.

    Raises:
        ValueError: if there is no seed, or the shapes differ.

    Chapter: ``seq2seq``.
    """
    results = [torch.as_tensor(measure(seed)).detach().cpu().double() for seed in seeds]
    if len({result.shape for result in results}) != 1:
        shapes = [tuple(result.shape) for result in results]
        raise ValueError(f"expected one shape of results for at least one seed, but got shapes {shapes}")
    runs = torch.stack(results)
    return Spread(runs, runs.quantile(0.5, dim=0), runs.amin(dim=0), runs.amax(dim=0))


def _check_pairs(predicted: Sequence, target: Sequence) -> None:
    if len(predicted) != len(target):
        raise ValueError(
            f"each prediction needs a target, but there are {len(predicted)} and {len(target)} of them"
        )
