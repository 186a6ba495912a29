"""Restricted attention: forms that never make the n×n matrix, since they see few keys, or few at a time.

``attend`` with the mask of the same name is the reference, at a cost of n² scores. A form gives the same
context. It never holds all weights, so it returns the context alone. Window and global attention run on the
kernel of ``qkv.fused_attention``, which has no second derivative.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.masks import causal_mask, window_mask
from attncourse.qkv import attend, elu_features
from attncourse.validation import check_at_least, check_batches, check_mask, check_same_keys, check_same_width

# A block of queries meets all keys in the reach of any of them, so long blocks waste scores; short ones make
# many small calls. 128 was the fastest on a CPU at radius 128.
BLOCK = 128


def window_attention(
    query: Float[Tensor, "*#batch length d_key"],
    key: Float[Tensor, "*#batch length d_key"],
    value: Float[Tensor, "*#batch length d_value"],
    *,
    radius: int,
    causal: bool = False,
) -> Float[Tensor, "*batch length d_value"]:
    """Attends to the keys at most ``radius`` positions away, with time and memory linear in the length.

    The queries are cut into blocks. Each block attends, with a small mask, to the keys that lie in the window
    of any of its queries.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        radius: largest distance between a query and its keys, in tokens, at least 0.
        causal: whether a query may attend only to keys up to its own position.

    Returns:
        The context that ``attend`` gives with ``window_mask``, joined with ``causal_mask`` if ``causal``.

    Raises:
        ValueError: if the radius is negative, if the three lengths differ, or if queries and keys differ in
            width or have width 0.

    Source: Vaswani et al. (2017), section 4, "restricted" self-attention. Chapter: ``restricted``.
    """
    _check_sequences(query, key, value)
    windows = _windows(query, key, value, radius, causal)
    return torch.cat([F.scaled_dot_product_attention(*window) for window in windows], dim=-2)


def streaming_attention(
    query: Float[Tensor, "*#batch queries d_key"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
    chunk: int = 384,
) -> Float[Tensor, "*batch queries d_value"]:
    """Attends to all keys, chunk by chunk, with the scores of one chunk in memory at a time.

    Softmax needs the largest score and the sum over all keys. Both are kept as running values: when a chunk
    brings a larger score, what was summed up so far is scaled down to it. (The memory is linear in the
    length without gradients only: the backward pass keeps the weights of every chunk.)

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        mask: True where the query may attend to the key; broadcasts to ``(..., queries, keys)``.
        causal: whether a query may attend only to keys up to its own position; joined with the mask.
        chunk: number of queries and of keys read at a time, in tokens, at least 1.

    Returns:
        The context that ``attend`` gives; 0 where a query may attend to no key.

    Raises:
        ValueError: if the chunk is below 1, if widths, numbers of keys or the mask do not fit, if the width
            is 0, or if the mask is not boolean.

    Source: Milakov and Gimelshein (2018), arXiv:1805.02867, for the running maximum and sum. Chapter:
    ``restricted``.
    """
    check_at_least(1, chunk=chunk)
    check_same_width(query, key)
    check_same_keys(key, value)
    check_at_least(1, **{"the width d_key of query and key": query.shape[-1]})
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None:
        check_mask(mask, (*check_batches(query=query, key=key), queries, keys))
        mask = mask.expand(*mask.shape[:-2], queries, keys)
    if not keys:
        return attend(query, key, value)[0]  # a loop over no chunk would give no context
    # Slices of the whole would each give a gradient as long as the whole; `split` gives one for all.
    key_chunks, value_chunks = key.split(chunk, dim=-2), value.split(chunk, dim=-2)
    contexts = []
    for first, query_chunk in zip(range(0, max(queries, 1), chunk), query.split(chunk, dim=-2), strict=True):
        stop = first + query_chunk.shape[-2]
        # Behind the last query of the chunk a causal mask leaves no key.
        reach = len(key_chunks) if not causal else max(1, -(-stop // chunk))
        rows = None if mask is None else mask[..., first:stop, :]
        near = key_chunks[:reach], value_chunks[:reach]
        contexts.append(_stream(query_chunk, *near, rows, first if causal else None))
    return torch.cat(contexts, dim=-2)


def causal_linear_attention(
    query: Float[Tensor, "*#batch length d_key"],
    key: Float[Tensor, "*#batch length d_key"],
    value: Float[Tensor, "*#batch length d_value"],
    *,
    feature_map: Callable[[Tensor], Tensor] = elu_features,
    chunk: int = 64,
) -> Float[Tensor, "*batch length d_value"]:
    """Attends to the keys so far with the dot product of positive features as weights, at linear cost.

    What lies before a chunk is one running sum, ``features(key)ᵀ · value``, that each query of the chunk
    reads. Only pairs inside the chunk are scored one by one.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        feature_map: gives the features; they must be positive for the weights to be an average.
        chunk: number of positions read at a time, in tokens, at least 1.

    Returns:
        The context of each query: the average of the values up to its own position, with weights in
        proportion to ``features(query) · features(key)``; 0 where all features round to 0.

    Raises:
        ValueError: if the chunk is below 1, if the three lengths differ, or if queries and keys differ in
            width or have width 0.

    Source: Katharopoulos et al. (2020), section 3.3, here in chunks. Chapter: ``restricted``.
    """
    check_at_least(1, chunk=chunk)
    _check_sequences(query, key, value)
    # The sums over many keys leave the range of float16.
    wide = torch.promote_types(query.dtype, torch.float32)
    # A value of 1 for every key collects the sum of the weights, by which the context is divided.
    ones = value.new_ones((*value.shape[:-1], 1))
    value = torch.cat([value, ones], dim=-1)
    query, key = feature_map(query), feature_map(key)
    parts = (tensor.to(wide).split(chunk, dim=-2) for tensor in (query, key, value))
    state = key.new_zeros((key.shape[-1], value.shape[-1]), dtype=wide)
    contexts = []
    for query_chunk, key_chunk, value_chunk in zip(*parts, strict=True):
        inside = (query_chunk @ key_chunk.mT).tril() @ value_chunk
        contexts.append(query_chunk @ state + inside)
        state = state + key_chunk.mT @ value_chunk
    context, total = torch.cat(contexts, dim=-2).split([value.shape[-1] - 1, 1], dim=-1)
    return (context / total.masked_fill(total == 0, 1.0)).to(query.dtype)


def block_attention(
    query: Float[Tensor, "*#batch length d_key"],
    key: Float[Tensor, "*#batch length d_key"],
    value: Float[Tensor, "*#batch length d_value"],
    *,
    size: int,
    causal: bool = False,
) -> Float[Tensor, "*batch length d_value"]:
    """Attends inside blocks of ``size`` positions, with time and memory linear in the length.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        size: length of a block, in tokens, at least 1; the last block may be shorter.
        causal: whether a query may attend only to keys up to its own position.

    Returns:
        The context that ``attend`` gives with ``block_mask``, joined with ``causal_mask`` if ``causal``.

    Raises:
        ValueError: if the size is below 1, if the three lengths differ, or if queries and keys differ in
            width or have width 0.

    Source: Liu et al. (2018), arXiv:1801.10198, "local attention". Chapter: ``restricted``.
    """
    check_at_least(1, size=size)
    _check_sequences(query, key, value)
    length = query.shape[-2]
    size = min(size, max(length, 1))
    blocks, rest = divmod(length, size)
    parts = (tensor.split([length - rest, rest], dim=-2) for tensor in (query, key, value))
    whole, last = zip(*parts, strict=True)
    # All whole blocks at once: the axis of blocks is one more batch axis.
    whole = [tensor.unflatten(-2, (blocks, size)) for tensor in whole]
    contexts = [
        attend(*part, causal_mask(part[0].shape[-2], device=query.device) if causal else None)[0]
        for part in (whole, last)
    ]
    return torch.cat([contexts[0].flatten(-3, -2), contexts[1]], dim=-2)


def dilated_attention(
    query: Float[Tensor, "*#batch length d_key"],
    key: Float[Tensor, "*#batch length d_key"],
    value: Float[Tensor, "*#batch length d_value"],
    *,
    radius: int,
    dilation: int,
    causal: bool = False,
) -> Float[Tensor, "*batch length d_value"]:
    """Attends to every ``dilation``-th key around a query, with memory linear in the length.

    Positions with the same remainder modulo ``dilation`` see each other alone. They form a sequence of their
    own, in which the attention is a plain window.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        radius: largest number of steps between a query and its keys, at least 0.
        dilation: length of a step, in tokens, at least 1; with 1 this is ``window_attention``.
        causal: whether a query may attend only to keys up to its own position.

    Returns:
        The context that ``attend`` gives with ``dilated_mask``, joined with ``causal_mask`` if ``causal``.

    Raises:
        ValueError: if the radius is negative, the dilation below 1, if the three lengths differ, or if
            queries and keys differ in width or have width 0.

    Source: Beltagy et al. (2020), arXiv:2004.05150, "dilated sliding window". Chapter: ``restricted``.
    """
    check_at_least(1, dilation=dilation)
    _check_sequences(query, key, value)
    length = query.shape[-2]
    dilation = min(dilation, max(length, 1))
    # A stable sort by remainder puts these sequences one after the other: first those with one position more,
    # `longer` in number, then the others. In each kind they are one more batch axis.
    each, longer = divmod(length, dilation)
    order = (torch.arange(length, device=query.device) % dilation).argsort(stable=True)
    sizes = [longer * (each + 1), (dilation - longer) * each]
    parts = (tensor.index_select(-2, order).split(sizes, dim=-2) for tensor in (query, key, value))
    contexts = []
    shapes = [(longer, each + 1), (dilation - longer, each)]
    for part, shape in zip(zip(*parts, strict=True), shapes, strict=True):
        every = [tensor.unflatten(-2, shape) for tensor in part]
        contexts.append(window_attention(*every, radius=radius, causal=causal).flatten(-3, -2))
    return torch.cat(contexts, dim=-2).index_select(-2, order.argsort())


def global_window_attention(
    query: Float[Tensor, "*#batch length d_key"],
    key: Float[Tensor, "*#batch length d_key"],
    value: Float[Tensor, "*#batch length d_value"],
    *,
    radius: int,
    tokens: int,
    causal: bool = False,
) -> Float[Tensor, "*batch length d_value"]:
    """Attends to a window and to the first ``tokens`` positions, which themselves attend to all keys.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        radius: largest distance between a query and the keys of its window, in tokens, at least 0.
        tokens: number of global tokens, at least 0. Time and memory are in proportion to
            ``length * (radius + tokens)``.
        causal: whether a query may attend only to keys up to its own position.

    Returns:
        The context that ``attend`` gives with ``global_window_mask``, joined with ``causal_mask`` if
        ``causal``.

    Raises:
        ValueError: if the radius or the number of global tokens is negative, if the three lengths differ, or
            if queries and keys differ in width or have width 0.

    Source: Beltagy et al. (2020), arXiv:2004.05150, "global attention", here with the same projections for
    global and other tokens. Chapter: ``restricted``.
    """
    check_at_least(0, tokens=tokens)
    _check_sequences(query, key, value)
    length = query.shape[-2]
    tokens = min(tokens, length)
    parts = (tensor.split([tokens, length - tokens], dim=-2) for tensor in (query, key, value))
    (global_query, global_key, global_value), others = zip(*parts, strict=True)
    mask = causal_mask(tokens, length, device=query.device) if causal else None
    contexts = [attend(global_query, key, value, mask)[0]]
    for queries, near_keys, near_values, near in _windows(*others, radius, causal):
        keys = torch.cat([global_key, near_keys], dim=-2)
        values = torch.cat([global_value, near_values], dim=-2)
        mask = F.pad(near, (tokens, 0))  # a bias of 0: seen by all
        contexts.append(F.scaled_dot_product_attention(queries, keys, values, mask))
    return torch.cat(contexts, dim=-2)


def convolution_as_attention(
    inputs: Float[Tensor, "*batch length d_in"],
    weight: Float[Tensor, "d_out d_in heads"],
    bias: Float[Tensor, " d_out"] | None = None,
) -> tuple[Float[Tensor, "*batch length d_out"], Float[Tensor, "heads length length"]]:
    """Convolves by multi-head attention: each entry of the kernel is a head that looks at one fixed offset.

    A head may attend to a single key, so softmax gives that key the weight 1, whatever the score. At the ends
    of the sequence some heads find no key and give 0, which is the zero padding of the convolution.

    Args:
        inputs: what stands at each position.
        weight: kernel, with the axes of ``F.conv1d``; its last axis has one entry for each head.
        bias: added to each output; none if left out.

    Returns:
        ``(context, weights)``: the output of ``F.conv1d`` with ``padding="same"``, and the weights of the
        heads, in which entry (h, i, j) is 1 if ``j - i`` is the offset of head h, and 0 elsewhere.

    Raises:
        ValueError: if the kernel does not fit the width of the inputs or has no entry, or if the bias does
            not fit the kernel.

    Source: Cordonnier et al. (2020), arXiv:1911.03584, who prove it for images; here for sequences.
    Chapter: ``restricted``.
    """
    d_out, d_in, heads = weight.shape
    if d_in != inputs.shape[-1]:
        raise ValueError(f"weight and inputs need the same d_in, but have {d_in} and {inputs.shape[-1]}")
    if bias is not None and bias.shape != (d_out,):
        raise ValueError(f"bias must have shape {(d_out,)} here, but has shape {tuple(bias.shape)}")
    check_at_least(1, **{"the width of the kernel": heads})
    position = torch.arange(inputs.shape[-2], device=inputs.device)
    offset = torch.arange(heads, device=inputs.device) - (heads - 1) // 2
    value = inputs.unsqueeze(-3) @ weight.permute(2, 1, 0)
    same = inputs.new_zeros((heads, inputs.shape[-2], 1))
    context, weights = attend(same, same, value, position - position[:, None] == offset[:, None, None])
    context = context.sum(dim=-3)
    return (context if bias is None else context + bias), weights


def _stream(
    query: Tensor,
    keys: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    mask: Tensor | None,
    first: int | None,
) -> Tensor:
    """Attends from one chunk of queries to chunks of keys; the last starts at ``first`` if it is causal."""
    # Half precision is too coarse for scores, and stops growing at a sum of 2048 (float16) or 256 (bfloat16).
    dtype, wide = query.dtype, torch.promote_types(query.dtype, torch.float32)
    query = query.to(wide) / query.shape[-1] ** 0.5
    largest = query.new_full((query.shape[-2], 1), float("-inf"))
    total, context, start = 0.0, 0.0, 0
    for key, value in zip(keys, values, strict=True):
        stop = start + key.shape[-2]
        scores = query @ key.to(wide).mT
        if mask is not None:
            scores = scores.masked_fill(~mask[..., start:stop], float("-inf"))
        if start == first:
            seen = causal_mask(query.shape[-2], key.shape[-2], device=query.device)
            scores = scores.masked_fill(~seen, float("-inf"))
        # The shift cancels in the quotient, so it takes no gradient.
        new_largest = torch.maximum(largest, scores.detach().amax(dim=-1, keepdim=True))
        # While a query has seen no key, -inf - -inf would be NaN.
        shift = new_largest.masked_fill(new_largest == float("-inf"), 0.0)
        shrink, weights = (largest - shift).exp_(), scores.sub_(shift).exp_()
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        context = context * shrink + weights @ value.to(wide)
        largest, start = new_largest, stop
    return (context / total.masked_fill(total == 0, 1.0)).to(dtype)


def _windows(
    query: Tensor, key: Tensor, value: Tensor, radius: int, causal: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Gives each block of queries, the keys and values in its reach, and the bias that masks all others."""
    length = query.shape[-2]
    # Beyond the length a larger radius changes nothing, but makes a larger mask.
    left = min(radius, length)
    right = 0 if causal else left
    size = left + BLOCK + right
    mask = window_mask(BLOCK, size, radius=radius, past=left, device=query.device)
    if causal:
        mask = mask & causal_mask(BLOCK, size, past=left, device=query.device)
    # What the kernel would make of the mask, once for all blocks.
    bias = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, float("-inf"))
    # Slices of the whole would each give a gradient as long as the whole; `split` and `unfold` give one for
    # all. Only the blocks near both ends, which lack a part of the reach, are slices.
    blocks = query.split(BLOCK, dim=-2)
    first, last = -(-left // BLOCK), (length - right) // BLOCK
    inner = [
        tensor[..., first * BLOCK - left : last * BLOCK + right, :].unfold(-2, size, BLOCK).mT.unbind(-3)
        for tensor in (key, value)
        if first < last
    ]
    for index, block in enumerate(blocks):
        start, stop = index * BLOCK - left, (index + 1) * BLOCK + right
        if first <= index < last:
            yield block, *(windows[index - first] for windows in inner), bias
        else:
            near = slice(max(start, 0), min(stop, length))
            columns = slice(near.start - start, near.stop - start)
            yield block, key[..., near, :], value[..., near, :], bias[: block.shape[-2], columns]


def _check_sequences(query: Tensor, key: Tensor, value: Tensor) -> None:
    lengths = [tensor.shape[-2] for tensor in (query, key, value)]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"query, key and value need the same length, but have {lengths[0]}, {lengths[1]} and {lengths[2]}"
        )
    check_same_width(query, key)
    check_at_least(1, **{"the width d_key of query and key": query.shape[-1]})
