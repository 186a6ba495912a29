"""Multi-head attention: several small attentions side by side, each with projections of its own.

Axes as in ``qkv``: any number of batch axes, then ``queries`` or ``keys``, then the width. Inside, an axis
``heads`` comes before ``queries`` or ``keys``. Weights have the PyTorch layout ``(output, input)``.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.qkv import masked_softmax, scaled_dot_scores, weighted_sum
from attncourse.validation import check_mask


def split_heads(
    inputs: Float[Tensor, "*batch length width"], heads: int
) -> Float[Tensor, "*batch heads length d_head"]:
    """Cuts the width into one part for each head, and moves the heads before the length.

    Args:
        inputs: vectors; the first ``width / heads`` entries belong to the first head, and so on.
        heads: number of heads, at least 1; it divides the width.

    Returns:
        The parts, each ``d_head = width / heads`` wide.

    Raises:
        ValueError: if ``heads`` is below 1 or does not divide the width.

    Source: Vaswani et al. (2017), section 3.2.2. Chapter: ``multihead``.
    """
    _check_divides("heads", heads, "the width", inputs.shape[-1])
    return inputs.unflatten(-1, (heads, inputs.shape[-1] // heads)).transpose(-2, -3)


def merge_heads(
    inputs: Float[Tensor, "*batch heads length d_head"],
) -> Float[Tensor, "*batch length width"]:
    """Joins the parts of all heads to one vector at each position; undoes ``split_heads``.

    Args:
        inputs: one vector for each head and position.

    Returns:
        Vectors of width ``heads * d_head``, first head first.

    Source: Vaswani et al. (2017), section 3.2.2, "Concat". Chapter: ``multihead``.
    """
    return inputs.transpose(-2, -3).flatten(-2)


class Cache:
    """Keeps projected keys and values, so that none is projected twice.

    A layer needs a cache of its own for each batch of sequences.

    Args:
        fixed: False for self-attention: each call adds its keys to those kept. True for cross-attention: the
            keys of the first call, those of the whole source, serve all later calls.

    Attributes:
        keys: ``(..., key_value_heads, length, d_key)``, or None while the cache is empty.
        values: ``(..., key_value_heads, length, d_value)``, or None while the cache is empty.

    Chapter: ``multihead``, generation.
    """

    def __init__(self, *, fixed: bool = False) -> None:
        self.fixed = fixed
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """Counts the tokens kept."""
        return 0 if self.keys is None else self.keys.shape[-2]

    @property
    def complete(self) -> bool:
        """Tells whether all keys are known: the cache is fixed and filled."""
        return self.fixed and self.keys is not None

    def append(
        self,
        keys: Float[Tensor, "*batch_keys heads length d_key"],
        values: Float[Tensor, "*batch_values heads length d_value"],
    ) -> tuple[
        Float[Tensor, "*batch_keys heads all_keys d_key"],
        Float[Tensor, "*batch_values heads all_keys d_value"],
    ]:
        """Adds the projected keys and values of new tokens after those kept.

        Args:
            keys: projected keys of the new tokens, with a head axis.
            values: projected values of the new tokens, with a head axis.

        Returns:
            All keys and all values, the new ones last.

        Raises:
            ValueError: if keys and values differ in length, if an axis other than the length differs from
                what is kept, or if the cache is complete.
        """
        if self.complete:
            raise ValueError(f"a fixed cache takes keys once, but already holds {self.length}")
        if keys.shape[-2] != values.shape[-2]:
            raise ValueError(
                f"keys and values need the same length, but have {keys.shape[-2]} and {values.shape[-2]}"
            )
        if self.keys is not None:
            _check_same_but_length("keys", self.keys, keys)
            _check_same_but_length("values", self.values, values)
            keys = torch.cat([self.keys, keys], dim=-2)
            values = torch.cat([self.values, values], dim=-2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Int[Tensor, " rows"]) -> "Cache":
        """Gives a cache of some of the sequences, as beam search needs them: this one stays as it is.

        Args:
            rows: indices into the first axis of the batch, in the order wanted; they may repeat.

        Returns:
            A cache with the keys and values of these sequences; an empty one if this is empty.

        Raises:
            ValueError: if the keys have no batch axis.
        """
        selected = Cache(fixed=self.fixed)
        if self.keys is not None:
            if min(self.keys.ndim, self.values.ndim) < 4:
                raise ValueError(
                    "select needs keys and values of shape (batch, heads, length, width), "
                    f"but they have {tuple(self.keys.shape)} and {tuple(self.values.shape)}"
                )
            selected.keys = self.keys.index_select(0, rows)
            selected.values = self.values.index_select(0, rows)
        return selected


def multihead_attention(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    query_weight: Float[Tensor, "all_queries d_query"],
    key_weight: Float[Tensor, "all_keys d_key"],
    value_weight: Float[Tensor, "all_values d_value"],
    output_weight: Float[Tensor, "d_output all_contexts"],
    heads: int,
    key_value_heads: int | None = None,
    query_bias: Float[Tensor, " all_queries"] | None = None,
    key_bias: Float[Tensor, " all_keys"] | None = None,
    value_bias: Float[Tensor, " all_values"] | None = None,
    output_bias: Float[Tensor, " d_output"] | None = None,
    dropout: float = 0.0,
    cache: Cache | None = None,
    score: Callable[[Tensor, Tensor], Tensor] = scaled_dot_scores,
    normalise: Callable[[Tensor, Tensor | None], Tensor] = masked_softmax,
) -> tuple[Float[Tensor, "*batch queries d_output"], Float[Tensor, "*#batch heads queries read"]]:
    """Attends with several heads: projects, splits, attends in each head, joins, and projects once more.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        value: what each position has to say.
        mask: True where the query may attend to the key; broadcasts to ``(..., queries, keys)``, without a
            head axis: it holds for all heads. Its keys are those kept in a growing cache, then the new.
        query_weight: projects the queries of all heads, first head first.
        key_weight: projects the keys of all key/value heads.
        value_weight: projects the values of all key/value heads.
        output_weight: mixes the joined contexts of all heads.
        heads: number of query heads.
        key_value_heads: number of key/value heads; ``heads`` if left out. With fewer, each is shared by
            ``heads / key_value_heads`` query heads next to each other.
        query_bias: added to the projected queries.
        key_bias: added to the projected keys.
        value_bias: added to the projected values.
        output_bias: added to the context.
        dropout: probability, from 0 to 1, that a weight does not count for the context. Above 0 PyTorch's
            global generator draws.
        cache: projected keys and values of earlier calls; those of this call are added to it. If it is fixed,
            those of the first call stay, and the key and value of later calls must be the same and are not
            read. Without a cache (and without dropout) the function is pure.
        score: stage 1, ``(query, key) -> scores``; both have an axis of size ``heads`` before the length.
        normalise: stage 2, ``(scores, mask) -> weights``.

    Returns:
        ``(context, weights)``. The weights, one map for each head, are those before dropout. A query that may
        attend to nothing has weights 0, and its context is ``output_bias``.

    Raises:
        ValueError: if widths, numbers of heads or of keys, or the mask do not fit, or if ``dropout`` lies
            outside 0 to 1.

    Source: Vaswani et al. (2017), section 3.2.2; for shared key/value heads, Ainslie et al. (2023),
    arXiv:2305.13245. Chapter: ``multihead``.
    """
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout must lie between 0 and 1, but is {dropout}")
    key_value_heads = heads if key_value_heads is None else key_value_heads
    _check_divides("key_value_heads", key_value_heads, "heads", heads)
    if mask is not None:
        past = 0 if cache is None or cache.fixed else cache.length
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        pairs = (*batch, query.shape[-2], past + key.shape[-2])
        check_mask(mask, pairs, "the scores' shape without heads")
        mask = mask.unsqueeze(-3) if mask.ndim > 2 else mask

    query = split_heads(_project("query", query, query_weight, query_bias), heads)
    if cache is not None and cache.complete:
        if key.shape[-2] != cache.length:
            raise ValueError(f"the fixed cache holds {cache.length} keys, but {key.shape[-2]} are given")
        key, value = cache.keys, cache.values
    else:
        key = split_heads(_project("key", key, key_weight, key_bias), key_value_heads)
        value = split_heads(_project("value", value, value_weight, value_bias), key_value_heads)
        if cache is not None:
            key, value = cache.append(key, value)
    if key_value_heads != heads:
        key = key.repeat_interleave(heads // key_value_heads, dim=-3)
        value = value.repeat_interleave(heads // key_value_heads, dim=-3)

    # The three stages of attend, apart: dropout comes between the second and the third.
    weights = normalise(score(query, key), mask)
    kept = F.dropout(weights, dropout) if dropout > 0 else weights
    context = merge_heads(weighted_sum(kept, value))
    return _project("output", context, output_weight, output_bias), weights


class MultiHeadAttention(nn.Module):
    """Holds the projections of multi-head attention, for self-attention and for cross-attention.

    Args:
        d_model: width of queries and of the context.
        heads: number of query heads; it divides ``d_model``.
        key_width: width of the keys given; ``d_model`` if left out.
        value_width: width of the values given; ``d_model`` if left out.
        bias: whether the four projections add a bias.
        key_value_heads: number of key/value heads; it divides ``heads``, and is ``heads`` if left out.
        dropout: probability that a weight does not count for the context, in training only.

    Raises:
        ValueError: if ``heads`` does not divide ``d_model``, ``key_value_heads`` does not divide ``heads``,
            or ``dropout`` lies outside 0 to 1.

    Source: Vaswani et al. (2017), section 3.2.2. Chapter: ``multihead``.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        key_value_heads: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_divides("heads", heads, "d_model", d_model)
        self.heads = heads
        self.key_value_heads = heads if key_value_heads is None else key_value_heads
        _check_divides("key_value_heads", self.key_value_heads, "heads", heads)
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout must lie between 0 and 1, but is {dropout}")
        self.dropout = dropout
        shared = d_model // heads * self.key_value_heads
        self.query_projection = nn.Linear(d_model, d_model, bias=bias)
        self.key_projection = nn.Linear(d_model if key_width is None else key_width, shared, bias=bias)
        self.value_projection = nn.Linear(d_model if value_width is None else value_width, shared, bias=bias)
        self.output_projection = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Float[Tensor, "*#batch queries d_model"],
        key: Float[Tensor, "*#batch keys key_width"] | None = None,
        value: Float[Tensor, "*#batch keys value_width"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: Cache | None = None,
        score: Callable[[Tensor, Tensor], Tensor] = scaled_dot_scores,
        normalise: Callable[[Tensor, Tensor | None], Tensor] = masked_softmax,
    ) -> tuple[Float[Tensor, "*batch queries d_model"], Float[Tensor, "*#batch heads queries read"]]:
        """Attends from the queries to the keys.

        Args:
            query: what each position looks for.
            key: what each position offers to be found by; the queries if left out (self-attention).
            value: what each position has to say; the keys if left out.
            mask: True where the query may attend to the key, as in ``multihead_attention``. With a cache,
                ``causal_mask(queries, past=cache.length)``.
            cache: projected keys and values of earlier calls, as in ``multihead_attention``.
            score: stage 1, as there.
            normalise: stage 2, as there.

        Returns:
            ``(context, weights)``; the weights, one map for each head, are those before dropout.

        Raises:
            ValueError: as ``multihead_attention``.
        """
        key = query if key is None else key
        value = key if value is None else value
        return multihead_attention(
            query,
            key,
            value,
            mask,
            query_weight=self.query_projection.weight,
            key_weight=self.key_projection.weight,
            value_weight=self.value_projection.weight,
            output_weight=self.output_projection.weight,
            query_bias=self.query_projection.bias,
            key_bias=self.key_projection.bias,
            value_bias=self.value_projection.bias,
            output_bias=self.output_projection.bias,
            heads=self.heads,
            key_value_heads=self.key_value_heads,
            dropout=self.dropout if self.training else 0.0,
            cache=cache,
            score=score,
            normalise=normalise,
        )

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Copies a PyTorch layer: parameters, dropout, mode, device and dtype.

        The copy takes inputs with the batch first, whatever ``layer.batch_first`` says, and masks with True
        for "may attend": give it ``~attn_mask``.

        Args:
            layer: the layer to copy.

        Returns:
            A layer with the same context and weights.

        Raises:
            ValueError: if the layer was made with ``add_bias_kv`` or ``add_zero_attn``, which add a key that
                is no token.
        """
        if layer.bias_k is not None or layer.add_zero_attn:
            raise ValueError(
                "the layer must have add_bias_kv=False and add_zero_attn=False, but has "
                f"add_bias_kv={layer.bias_k is not None} and add_zero_attn={layer.add_zero_attn}"
            )
        copy = cls(
            layer.embed_dim,
            layer.num_heads,
            key_width=layer.kdim,
            value_width=layer.vdim,
            bias=layer.in_proj_bias is not None,
            dropout=layer.dropout,
        ).to(layer.out_proj.weight)
        with torch.no_grad():
            for ours, theirs in copy._pairs(layer):
                ours.copy_(theirs)
        return copy.train(layer.training)

    def to_torch(self, *, batch_first: bool = True) -> nn.MultiheadAttention:
        """Copies this layer to PyTorch's: parameters, dropout, mode, device and dtype.

        Masks change their sense: PyTorch's layer takes ``attn_mask=~mask``.

        Args:
            batch_first: whether PyTorch's layer takes the batch before the length.

        Returns:
            A layer with the same context and, with ``average_attn_weights=False``, the same weights.

        Raises:
            ValueError: if query heads share key/value heads, which PyTorch's layer cannot.
        """
        if self.key_value_heads != self.heads:
            raise ValueError(
                "nn.MultiheadAttention needs as many key/value heads as heads, "
                f"but there are {self.key_value_heads} and {self.heads}"
            )
        weight = self.output_projection.weight
        layer = nn.MultiheadAttention(
            weight.shape[0],
            self.heads,
            dropout=self.dropout,
            bias=self.output_projection.bias is not None,
            kdim=self.key_projection.in_features,
            vdim=self.value_projection.in_features,
            batch_first=batch_first,
            device=weight.device,
            dtype=weight.dtype,
        )
        with torch.no_grad():
            for ours, theirs in self._pairs(layer):
                theirs.copy_(ours)
        return layer.train(self.training)

    def _pairs(self, layer: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
        """Pairs the parameters of this layer with those of PyTorch's, or with views of them."""
        projections = [self.query_projection, self.key_projection, self.value_projection]
        # PyTorch packs the three weights in one unless keys or values have a width of their own.
        if layer.in_proj_weight is not None:
            weights = layer.in_proj_weight.chunk(3)
        else:
            weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        pairs = [(ours.weight, theirs) for ours, theirs in zip(projections, weights, strict=True)]
        pairs.append((self.output_projection.weight, layer.out_proj.weight))
        if layer.in_proj_bias is not None:
            biases = layer.in_proj_bias.chunk(3)
            pairs += [(ours.bias, theirs) for ours, theirs in zip(projections, biases, strict=True)]
            pairs.append((self.output_projection.bias, layer.out_proj.bias))
        return pairs


def _project(name: str, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.ndim != 2 or weight.shape[1] != inputs.shape[-1]:
        raise ValueError(
            f"{name} and {name}_weight do not fit: the width of one is {inputs.shape[-1]}, "
            f"and the other has shape {tuple(weight.shape)}, where (any, {inputs.shape[-1]}) is expected"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"{name}_bias must have shape ({weight.shape[0]},) here, but has shape {tuple(bias.shape)}"
        )
    return F.linear(inputs, weight, bias)


def _check_divides(name: str, number: int, name_of_total: str, total: int) -> None:
    if number < 1 or total % number:
        raise ValueError(
            f"{name} must be at least 1 and divide {name_of_total}, but {name} is {number} "
            f"and {name_of_total} is {total}"
        )


def _check_same_but_length(name: str, kept: Tensor, new: Tensor) -> None:
    if kept.shape[:-2] != new.shape[:-2] or kept.shape[-1] != new.shape[-1]:
        raise ValueError(
            f"new {name} must have the shape of those in the cache in all axes but the length, "
            f"{(*kept.shape[:-2], 'length', kept.shape[-1])}, but have shape {tuple(new.shape)}"
        )
