"""Order for a mechanism that has none: positions added to tokens, turned into rotations, or added to scores.

Absolute encodings are tables ``(length, d_model)``, one row a position. Relative ones rotate query and key,
or are biases ``(..., queries, keys)`` that are added to the scores. ``past`` is the number of keys that lie
before the first query, as in the masks.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.validation import check_at_least


def sinusoidal(
    length: int,
    d_model: int,
    *,
    start: int = 0,
    base: float = 10_000.0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "length d_model"]:
    """Gives the fixed encoding: sine and cosine of the position, at ``d_model / 2`` frequencies.

    Args:
        length: number of positions, in tokens.
        d_model: width of an encoding. If it is odd, the last sine has no cosine.
        start: the first position, in tokens.
        base: the wavelengths run from 2π to almost 2π times this number, above 0.
        device: where the table is made.
        dtype: of the table; PyTorch's default if left out. The angles are computed in float64.

    Returns:
        Column 2i holds ``sin(position / base^(2i / d_model))``, column 2i + 1 the cosine of the same angle.

    Raises:
        ValueError: if a size is negative, or the base is not above 0.

    Source: Vaswani et al. (2017), section 3.5. Chapter: ``position``.
    """
    sines, cosines = _waves(start, length, d_model, base, device, dtype)
    return torch.stack([sines, cosines], dim=-1).flatten(-2)[:, :d_model]


def shift_matrix(
    offset: int,
    d_model: int,
    *,
    base: float = 10_000.0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "d_model d_model"]:
    """Gives the matrix that moves every sinusoidal encoding by the same number of positions.

    For each position p, ``shift_matrix(offset, d_model) @ encoding(p) = encoding(p + offset)``. The matrix
    turns each pair of sine and cosine by a fixed angle, so it does not depend on p.

    Args:
        offset: number of positions to move by, in tokens; negative moves to the front.
        d_model: width of an encoding, even: a sine without its cosine cannot be moved.
        base: that of the encoding, above 0.
        device: where the matrix is made.
        dtype: of the matrix; PyTorch's default if left out.

    Returns:
        A rotation, with blocks of 2 × 2 on the diagonal.

    Raises:
        ValueError: if d_model is negative or odd, or the base is not above 0.

    Source: Vaswani et al. (2017), section 3.5, state that such a map exists; the angle-addition identities
    give it. Chapter: ``position``.
    """
    _check_even("d_model", d_model)
    sines, cosines = (wave[0] for wave in _waves(offset, 1, d_model, base, device, dtype))
    matrix = cosines.repeat_interleave(2).diag_embed()
    matrix[0::2, 1::2] = sines.diag_embed()
    matrix[1::2, 0::2] = -sines.diag_embed()
    return matrix


class LearnedPositions(nn.Module):
    """Holds one learned encoding for each position up to a fixed length.

    Args:
        length: number of positions, in tokens.
        d_model: width of an encoding.
        generator: source of the first values, which are normal with standard deviation 0.02, as in Radford
            et al. (2018).
        device: where the table is made.
        dtype: of the table; PyTorch's default if left out.

    Raises:
        ValueError: if a size is negative.

    Source: Gehring et al. (2017), section 3.1; Vaswani et al. (2017), Table 3, row E. Chapter: ``position``.
    """

    def __init__(
        self,
        length: int,
        d_model: int,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least(0, length=length, d_model=d_model)
        self.table = nn.Parameter(torch.empty(length, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.table, std=0.02, generator=generator)

    def forward(self, length: int, *, start: int = 0) -> Float[Tensor, "length d_model"]:
        """Gives the encodings of ``length`` positions from ``start`` on.

        Args:
            length: number of positions, in tokens.
            start: the first position, in tokens.

        Returns:
            Rows of the learned table.

        Raises:
            ValueError: if a position lies outside the table: nothing was learned there.
        """
        check_at_least(0, length=length, start=start)
        if start + length > self.table.shape[0]:
            raise ValueError(
                f"the table holds {self.table.shape[0]} positions, "
                f"but {length} from position {start} on need {start + length}"
            )
        return self.table[start : start + length]


def add_positions(
    inputs: Float[Tensor, "*batch length d_model"], positions: Float[Tensor, "length d_model"]
) -> Float[Tensor, "*batch length d_model"]:
    """Adds to each token the encoding of its position.

    Args:
        inputs: embeddings of the tokens.
        positions: one encoding for each position, as wide as an embedding.

    Returns:
        The sums, on the device and with the dtype of ``inputs``.

    Raises:
        ValueError: if inputs and positions differ in length or width.

    Source: Vaswani et al. (2017), section 3.5. Chapter: ``position``, add or concatenate.
    """
    if inputs.shape[-2:] != positions.shape:
        raise ValueError(
            "inputs and positions need the same length and width, "
            f"but have {tuple(inputs.shape[-2:])} and {tuple(positions.shape)}"
        )
    return inputs + positions.to(inputs)


def concat_positions(
    inputs: Float[Tensor, "*batch length d_model"], positions: Float[Tensor, "length d_position"]
) -> Float[Tensor, "*batch length d_both"]:
    """Appends to each token the encoding of its position.

    A projection W of the result is the sum of two: ``W [x; p] = W_x x + W_p p``. So addition is concatenation
    with ``W_x = W_p``.

    Args:
        inputs: embeddings of the tokens.
        positions: one encoding for each position, of any width.

    Returns:
        First the embedding, then the encoding, on the device and with the dtype of ``inputs``.

    Raises:
        ValueError: if inputs and positions differ in length.

    Source: claim S31 of the notes. Chapter: ``position``, add or concatenate.
    """
    if inputs.shape[-2] != positions.shape[0]:
        raise ValueError(
            f"inputs and positions need the same length, but have {inputs.shape[-2]} and {positions.shape[0]}"
        )
    positions = positions.to(inputs).expand(*inputs.shape[:-1], positions.shape[-1])
    return torch.cat([inputs, positions], dim=-1)


def relative_positions(
    queries: int, keys: int | None = None, *, past: int = 0, device: torch.device | str | None = None
) -> Int[Tensor, "queries keys"]:
    """Gives the way from each query to each key: key position minus query position.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        past: number of keys that lie before the first query, in tokens.
        device: where the table is made.

    Returns:
        Signed distances in tokens: negative where the key lies before the query.

    Raises:
        ValueError: if a size is negative.

    Source: Shaw et al. (2018), section 3.2. Chapter: ``position``, relative.
    """
    keys = past + queries if keys is None else keys
    check_at_least(0, queries=queries, keys=keys, past=past)
    query = past + torch.arange(queries, device=device)
    return torch.arange(keys, device=device) - query.unsqueeze(-1)


def shaw_bias(
    query: Float[Tensor, "*batch queries d_key"],
    table: Float[Tensor, "distances d_key"],
    keys: int | None = None,
    *,
    past: int = 0,
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by the dot product of the query and the embedding of the distance to the key.

    The result is to be added to the dot product of query and key *before* the division by the square root of
    the width: ``(query · key + query · embedding) / sqrt(d_key)``.

    Args:
        query: what each position looks for.
        table: embeddings of the distances from -k to k, so 2k + 1 rows. Larger distances are clipped to k.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        past: number of keys that lie before the first query, in tokens.

    Returns:
        The term to be added to the scores, not scaled.

    Raises:
        ValueError: if query and table differ in width, if the table has an even number of rows, or if a size
            is negative.

    Source: Shaw et al. (2018), sections 3.1 and 3.2, relative keys. Chapter: ``position``, relative.
    """
    if query.shape[-1] != table.shape[-1]:
        raise ValueError(
            f"query and table need the same width, but have {query.shape[-1]} and {table.shape[-1]}"
        )
    row = _table_rows(table, query.shape[-2], keys, past, query.device)
    # One product for each distance and not for each key: no tensor of shape (queries, keys, d_key).
    by_distance = query @ table.mT
    return by_distance.gather(-1, row.expand(*query.shape[:-1], row.shape[-1]))


def shaw_context(
    weights: Float[Tensor, "*batch queries keys"],
    table: Float[Tensor, "distances d_value"],
    *,
    past: int = 0,
) -> Float[Tensor, "*batch queries d_value"]:
    """Averages the embeddings of the distances, each with the weight of the key at that distance.

    The result is to be added to the weighted sum of the values.

    Args:
        weights: one weight for each query and key.
        table: embeddings of the distances from -k to k, so 2k + 1 rows. Larger distances are clipped to k.
        past: number of keys that lie before the first query, in tokens.

    Returns:
        The term to be added to the context.

    Raises:
        ValueError: if the table has an even number of rows, or if ``past`` is negative.

    Source: Shaw et al. (2018), sections 3.1 and 3.2, relative values. Chapter: ``position``, relative.
    """
    row = _table_rows(table, weights.shape[-2], weights.shape[-1], past, weights.device)
    # All keys beyond k fall into one sum, which half precision could not hold exactly.
    wide = torch.promote_types(weights.dtype, torch.float32)
    by_distance = weights.new_zeros(*weights.shape[:-1], table.shape[0], dtype=wide)
    by_distance = by_distance.scatter_add(-1, row.expand(weights.shape), weights.to(wide))
    return by_distance.to(weights.dtype) @ table


def rotate(
    inputs: Float[Tensor, "*batch length d_key"],
    *,
    start: int = 0,
    base: float = 10_000.0,
    pairs: Literal["interleaved", "halves"] = "interleaved",
) -> Float[Tensor, "*batch length d_key"]:
    """Turns pairs of columns of a query or key by angles proportional to its position (rotary encoding).

    The dot product of a turned query and a turned key depends on their positions through the distance alone.

    Args:
        inputs: queries or keys. The last axis but one is the length, so a head axis comes before it.
        start: the first position, in tokens.
        base: pair i is turned by ``position / base^(2i / d_key)``, in radians; above 0.
        pairs: columns 2i and 2i + 1 (``"interleaved"``, as in the paper), or columns i and i + d_key / 2
            (``"halves"``). Weights learned with one do not fit the other.

    Returns:
        Vectors of the same length as before, with the dtype of ``inputs``.

    Raises:
        ValueError: if the width is odd, the base is not above 0, or ``pairs`` is neither of the two.

    Source: Su et al. (2021), arXiv:2104.09864, section 3.2.2. Chapter: ``position``, rotary.
    """
    length, width = inputs.shape[-2:]
    _check_even("the width d_key", width)
    # In half precision the products are computed in float32 and rounded once.
    wide = torch.promote_types(inputs.dtype, torch.float32)
    sines, cosines = _waves(start, length, width, base, inputs.device, wide)
    if pairs == "interleaved":
        first, second = inputs[..., 0::2], inputs[..., 1::2]
    elif pairs == "halves":
        first, second = inputs[..., : width // 2], inputs[..., width // 2 :]
    else:
        raise ValueError(f"pairs must be 'interleaved' or 'halves', but is {pairs!r}")
    turned = first * cosines - second * sines, first * sines + second * cosines
    joined = torch.stack(turned, dim=-1).flatten(-2) if pairs == "interleaved" else torch.cat(turned, dim=-1)
    return joined.to(inputs.dtype)


def alibi_slopes(
    heads: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Float[Tensor, " heads"]:
    """Gives each head the slope by which its scores fall with the distance.

    Args:
        heads: number of heads, at least 1.
        device: where the slopes are made.
        dtype: of the slopes; PyTorch's default if left out.

    Returns:
        ``2^(-8i / heads)`` for i from 1 to ``heads``, if that is a power of two. Otherwise the slopes of the
        next lower power of two, followed by the first, third, fifth ... slope of the next higher one.

    Raises:
        ValueError: if there is no head.

    Source: Press et al. (2022), arXiv:2108.12409, section 3; their released code for other numbers of heads.
    Chapter: ``position``, linear bias.
    """
    check_at_least(1, heads=heads)
    lower = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * (heads - lower), 2)]
    return torch.tensor(slopes, device=device, dtype=dtype)


def alibi_bias(
    heads: int,
    queries: int,
    keys: int | None = None,
    *,
    past: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "heads queries keys"]:
    """Gives the linear bias: minus the distance between query and key, times the slope of the head.

    The paper has a causal mask and so no key after the query. Here such a key gets the bias of a key at the
    same distance before the query; whether it may be seen is the mask's business.

    Args:
        heads: number of heads, at least 1.
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        past: number of keys that lie before the first query, in tokens.
        device: where the bias is made.
        dtype: of the bias; PyTorch's default if left out.

    Returns:
        The term to be added to the scores, after their division by the square root of the width: at most 0.

    Raises:
        ValueError: if there is no head, or a size is negative.

    Source: Press et al. (2022), arXiv:2108.12409, section 3. Chapter: ``position``, linear bias.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    # bfloat16 counts in steps of 2 from 256 on, so half precision comes after the product.
    slopes = alibi_slopes(heads, device=device, dtype=torch.promote_types(dtype, torch.float32))
    distance = relative_positions(queries, keys, past=past, device=device).abs()
    return (slopes[:, None, None] * -distance).to(dtype)


def t5_buckets(
    queries: int,
    keys: int | None = None,
    *,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
    past: int = 0,
    device: torch.device | str | None = None,
) -> Int[Tensor, "queries keys"]:
    """Sorts the distances between queries and keys into buckets, for which a model learns one bias each.

    The nearest distances have a bucket each. The others share buckets, whose widths grow in proportion to the
    distance.

    Args:
        queries: number of queries, in tokens.
        keys: number of keys, in tokens; ``past + queries`` if left out.
        buckets: number of buckets. Half of them are for keys after the query if ``bidirectional``; half of
            those of a direction are for one distance each.
        max_distance: all distances from this one on share the last bucket, in tokens.
        bidirectional: whether keys after the query have buckets of their own; if not, they share bucket 0
            with distance 0.
        past: number of keys that lie before the first query, in tokens.
        device: where the buckets are made.

    Returns:
        Numbers from 0 to ``buckets - 1``; the learned bias is ``table[t5_buckets(...)]``.

    Raises:
        ValueError: if a direction has fewer than 2 buckets, if two directions cannot share the buckets
            equally, if max_distance does not lie beyond the distances with a bucket each, or if a size is
            negative.

    Source: Raffel et al. (2020), section 2.1; the boundaries are those of their released code. Chapter:
    ``position``, relative.
    """
    if bidirectional and (buckets < 4 or buckets % 2):
        raise ValueError(f"buckets must be even and at least 4 for two directions, but is {buckets}")
    if buckets < 2:
        raise ValueError(f"buckets must be at least 2, but is {buckets}")
    each = buckets // 2 if bidirectional else buckets
    exact = each // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_distance must be above {exact}, the distances with a bucket each, but is {max_distance}"
        )
    starts = [*range(1, exact + 1), *_bucket_starts(exact, each - exact, max_distance)]
    way = relative_positions(queries, keys, past=past, device=device)
    distance = way.abs() if bidirectional else (-way).clamp(min=0)
    bucket = torch.bucketize(distance, torch.tensor(starts, device=device), right=True)
    return bucket + each * (way > 0) if bidirectional else bucket


def _waves(
    start: int,
    length: int,
    width: int,
    base: float,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """Gives the sines and the cosines of ``position / base^(2i / width)``."""
    check_at_least(0, length=length, d_model=width)
    if not base > 0:
        raise ValueError(f"base must be above 0, but is {base}")
    device = torch.empty(0, device=device).device
    dtype = torch.get_default_dtype() if dtype is None else dtype
    # float32 rounds an angle of 10⁵ radians by up to 0.004. MPS has no float64.
    options = {"dtype": torch.float64, "device": "cpu" if device.type == "mps" else device}
    frequencies = base ** (-torch.arange(0, width, 2, **options) / width)
    angles = torch.arange(start, start + length, **options).unsqueeze(-1) * frequencies
    return angles.sin().to(device, dtype), angles.cos().to(device, dtype)


def _bucket_starts(exact: int, shared: int, max_distance: int) -> list[int]:
    """Gives the first distance of each bucket ``exact + j``, at equal steps on a logarithmic scale."""
    starts, start = [], exact
    for j in range(1, shared):
        # The boundary exact · (max_distance / exact)^(j / shared), rounded up. In whole numbers no rounding
        # error moves it.
        bound = exact ** (shared - j) * max_distance**j
        while start**shared < bound:
            start += 1
        starts.append(start)
    return starts


def _table_rows(
    table: Tensor, queries: int, keys: int | None, past: int, device: torch.device
) -> Int[Tensor, "queries keys"]:
    """Gives the row of the table that holds the clipped distance of each pair."""
    if table.shape[0] % 2 == 0:
        raise ValueError(
            f"table needs an odd number of rows, for the distances from -k to k, but has {table.shape[0]}"
        )
    largest = table.shape[0] // 2
    return relative_positions(queries, keys, past=past, device=device).clamp(-largest, largest) + largest


def _check_even(name: str, width: int) -> None:
    if width % 2:
        raise ValueError(f"{name} must be even, but is {width}")
