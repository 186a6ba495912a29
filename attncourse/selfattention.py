"""Self-attention: a sequence attends to itself. The blocks of the transformer, and what order means to them.

A block reads vectors ``(..., length, d_model)`` and gives vectors of the same shape. Around each of its parts
lies a residual connection: what the part says is added to what it has read.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.masks import causal_mask
from attncourse.multihead import Cache, MultiHeadAttention
from attncourse.qkv import scaled_dot_scores
from attncourse.validation import known_numbers


def permute(
    inputs: Float[Tensor, "*batch length width"], order: Int[Tensor, " length"]
) -> Float[Tensor, "*batch length width"]:
    """Puts the vectors of a sequence in another order.

    Args:
        inputs: one vector for each position.
        order: each position once; the vector at ``order[i]`` moves to position i.

    Returns:
        The same vectors in that order.

    Raises:
        ValueError: if ``order`` does not hold each position once.

    Chapter: ``selfattention``, order.
    """
    numbers = known_numbers(order)
    if numbers is not None and sorted(numbers) != list(range(inputs.shape[-2])):
        raise ValueError(
            f"order must hold each position from 0 to {inputs.shape[-2] - 1} once, but is {numbers}"
        )
    return inputs.index_select(-2, order)


def invariance_error(
    attention: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    query: Float[Tensor, "*batch queries d_query"],
    key: Float[Tensor, "*batch keys d_key"],
    value: Float[Tensor, "*batch keys d_value"],
    order: Int[Tensor, " keys"],
) -> Float[Tensor, ""]:
    """Measures how much the context changes when keys and values move together to another order.

    Attention is invariant: without positions, the keys and values are a set. Let P be the permutation matrix.

    1. The scores are ``Q (PK)ᵀ = (Q Kᵀ) Pᵀ``: the same scores, with the columns in the new order.
    2. Softmax treats all columns of a row alike, so the weights become ``A Pᵀ``.
    3. The context is ``(A Pᵀ) (P V) = A V``, because ``Pᵀ P = I``.

    Args:
        attention: the mechanism, ``(query, key, value) -> (context, weights)``.
        query: what each position looks for.
        key: what each position offers to be found by.
        value: what each position has to say.
        order: the new order of keys and values; each position once.

    Returns:
        The largest absolute difference, 0 for an invariant mechanism up to rounding.

    Raises:
        ValueError: if ``order`` does not hold each position once.

    Source: claim S27 of the notes. Chapter: ``selfattention``, order.
    """
    before, _ = attention(query, key, value)
    after, _ = attention(query, permute(key, order), permute(value, order))
    return _largest(after - before)


def equivariance_error(
    layer: Callable[[Tensor], tuple[Tensor, Tensor]],
    inputs: Float[Tensor, "*batch length width"],
    order: Int[Tensor, " length"],
) -> Float[Tensor, ""]:
    """Measures how far ``layer(permute(inputs))`` lies from ``permute(layer(inputs))``.

    Self-attention is equivariant: the outputs move as the inputs do. Let P be the permutation matrix.

    1. Queries, keys and values are made position by position, so they become PQ, PK and PV.
    2. Keys and values may move back without effect (``invariance_error``): what is left is P on the queries.
    3. Each query makes a row of its own: ``softmax((PQ) Kᵀ) V = P softmax(Q Kᵀ) V``.

    A causal mask breaks the proof at step 2: which keys a query may see depends on their places, and the mask
    does not move along. So a causal layer can tell order even without positions.

    Args:
        layer: ``inputs -> (output, weights)``, one output for each position.
        inputs: one vector for each position.
        order: the new order; each position once.

    Returns:
        The largest absolute difference, 0 for an equivariant layer up to rounding.

    Raises:
        ValueError: if ``order`` does not hold each position once.

    Source: claim S27 of the notes; for the causal mask, Haviv et al. (2022), arXiv:2203.16634. Chapter:
    ``selfattention``, order.
    """
    moved_after, _ = layer(inputs)
    moved_before, _ = layer(permute(inputs, order))
    return _largest(moved_before - permute(moved_after, order))


class FeedForward(nn.Module):
    """Holds the network of two linear maps that treats each position alone.

    Args:
        d_model: width of inputs and outputs.
        d_feedforward: width between the two maps.
        activation: function between the two maps.
        dropout: probability that a number between the two maps is set to 0, in training only.
        bias: whether the two maps add a bias.

    Source: Vaswani et al. (2017), section 3.3. Chapter: ``selfattention``.
    """

    def __init__(
        self,
        d_model: int,
        d_feedforward: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.widen = nn.Linear(d_model, d_feedforward, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.narrow = nn.Linear(d_feedforward, d_model, bias=bias)

    def forward(self, inputs: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Maps each vector by ``narrow(activation(widen(x)))``."""
        return self.narrow(self.dropout(self.activation(self.widen(inputs))))


class Residual(nn.Module):
    """Holds the normalisation of one sublayer, and says where it stands.

    Pre-norm is ``x + part(norm(x))``, post-norm is ``norm(x + part(x))``. The part is called between ``read``
    and ``forward``.

    Args:
        d_model: width of the vectors.
        pre_norm: whether the norm stands before the part, or after the sum.
        dropout: probability that a number that the part says is set to 0, in training only.
        bias: whether the norm adds a bias.
        epsilon: added to the variance, so that no vector is divided by 0.

    Source: post-norm, Vaswani et al. (2017), section 3.1; pre-norm, Xiong et al. (2020), arXiv:2002.04745.
    Chapter: ``selfattention``.
    """

    def __init__(
        self, d_model: int, *, pre_norm: bool, dropout: float = 0.0, bias: bool = True, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.norm = nn.LayerNorm(d_model, eps=epsilon, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def read(self, inputs: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Gives what the part reads."""
        return self.norm(inputs) if self.pre_norm else inputs

    def forward(
        self, inputs: Float[Tensor, "*batch d_model"], said: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Adds what the part says to the inputs."""
        total = inputs + self.dropout(said)
        return total if self.pre_norm else self.norm(total)


class EncoderBlock(nn.Module):
    """Holds one block of an encoder: self-attention, then a feed-forward network.

    With a causal mask it is a block of a decoder that reads no source.

    Args:
        d_model: width of the vectors.
        heads: number of heads; it divides ``d_model``.
        d_feedforward: width inside the feed-forward network; ``4 * d_model`` if left out.
        pre_norm: whether the norms stand before the parts (True) or after the sums (False).
        activation: function inside the feed-forward network.
        dropout: probability of dropout of weights, inside the feed-forward network, and of what each part
            says; in training only.
        bias: whether projections and norms add a bias.
        epsilon: of the norms.

    Raises:
        ValueError: if ``heads`` does not divide ``d_model``, or ``dropout`` lies outside 0 to 1.

    Source: Vaswani et al. (2017), section 3.1. Chapter: ``selfattention``.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_feedforward: int | None = None,
        pre_norm: bool = True,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        bias: bool = True,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        residual = {"pre_norm": pre_norm, "dropout": dropout, "bias": bias, "epsilon": epsilon}
        self.attention = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.attention_residual = Residual(d_model, **residual)
        self.feedforward = FeedForward(
            d_model,
            4 * d_model if d_feedforward is None else d_feedforward,
            activation=activation,
            dropout=dropout,
            bias=bias,
        )
        self.feedforward_residual = Residual(d_model, **residual)

    def forward(
        self,
        inputs: Float[Tensor, "*batch length d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: Cache | None = None,
        score: Callable[[Tensor, Tensor], Tensor] = scaled_dot_scores,
    ) -> tuple[Float[Tensor, "*batch length d_model"], Float[Tensor, "*batch heads length read"]]:
        """Lets each position attend to the others, then changes each alone.

        Args:
            inputs: one vector for each position.
            mask: True where the query may attend to the key; broadcasts to ``(..., length, length)``.
            cache: keys and values of earlier positions; those of this call are added to it.
            score: stage 1 of attention, ``(query, key) -> scores``, with a head axis.

        Returns:
            ``(output, weights)``; the weights, one map for each head, are those before dropout.

        Raises:
            ValueError: if the mask does not fit.
        """
        context, weights = self.attention(
            self.attention_residual.read(inputs), mask=mask, cache=cache, score=score
        )
        inputs = self.attention_residual(inputs, context)
        said = self.feedforward(self.feedforward_residual.read(inputs))
        return self.feedforward_residual(inputs, said), weights

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> "EncoderBlock":
        """Copies a PyTorch layer: parameters, order of the norms, dropout, mode, device and dtype.

        Args:
            layer: the layer to copy. The copy takes inputs with the batch first in any case, and masks with
                True for "may attend".

        Returns:
            A block with the same output.

        Raises:
            ValueError: as ``MultiHeadAttention.from_torch``.
        """
        block = cls(**_options(layer))
        block.attention = MultiHeadAttention.from_torch(layer.self_attn)
        _copy(block.attention_residual.norm, layer.norm1)
        _copy(block.feedforward_residual.norm, layer.norm2)
        return _finish(block, layer)


class DecoderBlock(nn.Module):
    """Holds one block of a decoder: causal self-attention, then cross-attention, then a feed-forward network.

    The two attentions are two sublayers, not a sum: the queries of the second come from the result of the
    first.

    Args and Raises are those of ``EncoderBlock``.

    Source: Vaswani et al. (2017), section 3.1; claim S24 of the notes. Chapter: ``selfattention``.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_feedforward: int | None = None,
        pre_norm: bool = True,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        bias: bool = True,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        residual = {"pre_norm": pre_norm, "dropout": dropout, "bias": bias, "epsilon": epsilon}
        self.attention = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.attention_residual = Residual(d_model, **residual)
        self.cross_attention = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.cross_residual = Residual(d_model, **residual)
        self.feedforward = FeedForward(
            d_model,
            4 * d_model if d_feedforward is None else d_feedforward,
            activation=activation,
            dropout=dropout,
            bias=bias,
        )
        self.feedforward_residual = Residual(d_model, **residual)

    def forward(
        self,
        inputs: Float[Tensor, "*batch length d_model"],
        memory: Float[Tensor, "*batch keys d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        *,
        caches: tuple[Cache, Cache] | None = None,
        score: Callable[[Tensor, Tensor], Tensor] = scaled_dot_scores,
    ) -> tuple[
        Float[Tensor, "*batch length d_model"],
        tuple[Float[Tensor, "*batch heads length read"], Float[Tensor, "*batch heads length keys"]],
    ]:
        """Lets each position attend to those up to itself, then to the memory, then changes each alone.

        Args:
            inputs: one vector for each position of the target.
            memory: what the encoder made of the source.
            mask: joined with the causal mask, which holds always; broadcasts to ``(..., length, read)``.
            memory_mask: True where the query may attend to the memory; broadcasts to ``(..., length, keys)``.
            caches: one that grows, for the self-attention, and a fixed one, ``Cache(fixed=True)``, for the
                memory.
            score: stage 1 of self-attention, ``(query, key) -> scores``, with a head axis. Cross-attention
                has scaled dot products: the distance between a source and a target position means nothing.

        Returns:
            ``(output, (self weights, cross weights))``; the weights are those before dropout.

        Raises:
            ValueError: if a mask does not fit.
        """
        own, source = (None, None) if caches is None else caches
        # One token alone may see all that was read, so a step of generation needs no causal mask.
        if inputs.shape[-2] > 1:
            past = 0 if own is None else own.length
            causal = causal_mask(inputs.shape[-2], past=past, device=inputs.device)
            mask = causal if mask is None else causal & mask
        context, self_weights = self.attention(
            self.attention_residual.read(inputs), mask=mask, cache=own, score=score
        )
        inputs = self.attention_residual(inputs, context)
        context, cross_weights = self.cross_attention(
            self.cross_residual.read(inputs), memory, mask=memory_mask, cache=source
        )
        inputs = self.cross_residual(inputs, context)
        said = self.feedforward(self.feedforward_residual.read(inputs))
        return self.feedforward_residual(inputs, said), (self_weights, cross_weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer) -> "DecoderBlock":
        """Copies a PyTorch layer: parameters, order of the norms, dropout, mode, device and dtype.

        Args:
            layer: the layer to copy. The copy takes inputs with the batch first in any case, masks with True
                for "may attend", and is always causal.

        Returns:
            A block with the output that the layer gives with a causal mask.

        Raises:
            ValueError: as ``MultiHeadAttention.from_torch``.
        """
        block = cls(**_options(layer))
        block.attention = MultiHeadAttention.from_torch(layer.self_attn)
        block.cross_attention = MultiHeadAttention.from_torch(layer.multihead_attn)
        _copy(block.attention_residual.norm, layer.norm1)
        _copy(block.cross_residual.norm, layer.norm2)
        _copy(block.feedforward_residual.norm, layer.norm3)
        return _finish(block, layer)


TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def _options(layer: TorchLayer) -> dict:
    """Gives the arguments of the block that equals a PyTorch layer."""
    return {
        "d_model": layer.linear1.in_features,
        "heads": layer.self_attn.num_heads,
        "d_feedforward": layer.linear1.out_features,
        "pre_norm": layer.norm_first,
        "activation": layer.activation,
        "dropout": layer.dropout.p,
        "bias": layer.linear1.bias is not None,
        "epsilon": layer.norm1.eps,
    }


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    ours.to(next(theirs.parameters())).load_state_dict(theirs.state_dict())


def _finish(block: EncoderBlock | DecoderBlock, layer: TorchLayer) -> EncoderBlock | DecoderBlock:
    _copy(block.feedforward.widen, layer.linear1)
    _copy(block.feedforward.narrow, layer.linear2)
    return block.train(layer.training)


def _largest(difference: Tensor) -> Tensor:
    return difference.abs().max() if difference.numel() else difference.new_zeros(())
