"""Every tensor is made where the inputs are, or where it is asked for: no hidden copy to the CPU and back.

Tensors on the device "meta" have a shape and no numbers. To read a number from one is an error.
"""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attncourse import masks, position, qkv, restricted, taxonomy


class OnMetaAlone(TorchDispatchMode):
    """Refuses every operation that makes a tensor elsewhere. (One without axes is only a number.)"""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if isinstance(made, Tensor) and made.ndim and made.device.type != "meta":
                raise AssertionError(f"{operation} made a tensor on {made.device}")
        return result


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


# Long enough for several blocks and chunks.
QUERY, KEY, VALUE = meta(2, 601, 3), meta(2, 601, 3), meta(2, 601, 5)
SEQUENCE, CENTRES = (QUERY, KEY, VALUE), meta(2, 601)
ONE_ROW = meta(2, 1, 601, dtype=torch.bool)
LOCAL = {"positions": CENTRES, "radius": 2, "gaussian": True}

CALLS = {
    "padding mask": lambda: masks.padding_mask(meta(3, dtype=torch.int64), 7),
    "causal mask": lambda: masks.causal_mask(5, 7, device="meta"),
    "window mask": lambda: masks.window_mask(5, 7, radius=2, device="meta"),
    "block mask": lambda: masks.block_mask(5, 7, size=2, device="meta"),
    "dilated mask": lambda: masks.dilated_mask(5, 7, radius=2, dilation=3, device="meta"),
    "global mask": lambda: masks.global_window_mask(5, 7, radius=1, tokens=2, device="meta"),
    "attend": lambda: qkv.attend(*SEQUENCE, ONE_ROW),
    "cosine": lambda: qkv.attend(*SEQUENCE, score=qkv.cosine_scores, normalise=qkv.masked_sigmoid),
    "fused": lambda: qkv.fused_attention(*SEQUENCE, ONE_ROW),
    "linear": lambda: qkv.linear_attention(*SEQUENCE, ONE_ROW),
    "entropy": lambda: qkv.entropy(meta(5, 7)),
    "jacobian": lambda: qkv.softmax_jacobian(meta(5, 7)),
    "sinusoidal": lambda: position.sinusoidal(5, 6, device="meta"),
    "shift": lambda: position.shift_matrix(3, 6, device="meta"),
    "relative": lambda: position.relative_positions(5, 7, device="meta"),
    "shaw bias": lambda: position.shaw_bias(QUERY, meta(5, 3)),
    "shaw context": lambda: position.shaw_context(meta(2, 5, 7), meta(5, 3)),
    "rotate": lambda: position.rotate(meta(5, 6)),
    "slopes": lambda: position.alibi_slopes(6, device="meta"),
    "alibi": lambda: position.alibi_bias(6, 5, 7, device="meta"),
    "t5": lambda: position.t5_buckets(5, 7, device="meta"),
    "window": lambda: restricted.window_attention(*SEQUENCE, radius=70, causal=True),
    "streaming": lambda: restricted.streaming_attention(*SEQUENCE, ONE_ROW, causal=True),
    "causal linear": lambda: restricted.causal_linear_attention(*SEQUENCE),
    "block": lambda: restricted.block_attention(*SEQUENCE, size=7, causal=True),
    "dilated": lambda: restricted.dilated_attention(*SEQUENCE, radius=2, dilation=3, causal=True),
    "global": lambda: restricted.global_window_attention(*SEQUENCE, radius=2, tokens=3, causal=True),
    "convolution": lambda: restricted.convolution_as_attention(QUERY, meta(5, 3, 4)),
    "local": lambda: taxonomy.local_attention(*SEQUENCE, ONE_ROW, **LOCAL),
    "gathered": lambda: taxonomy.gathered_local_attention(*SEQUENCE, ONE_ROW, **LOCAL),
    "window positions": lambda: taxonomy.window_positions(CENTRES, radius=2),
    "hard": lambda: taxonomy.hard_weights(meta(2, 5, 7)),
    "gumbel": lambda: taxonomy.straight_through_gumbel(meta(2, 5, 7), meta(5, 7, dtype=torch.bool)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_tensors_are_made_on_the_device_of_the_inputs_or_the_one_asked_for(call):
    with OnMetaAlone():
        results = call()
    assert {result.device.type for result in tree_leaves(results)} == {"meta"}


def test_a_tensor_made_elsewhere_is_noticed():
    with pytest.raises(AssertionError, match="made a tensor on cpu"), OnMetaAlone():
        meta(3).expand(2, 3).gather(-1, torch.arange(3).expand(2, 3))
