"""Checks of arguments that several modules share. Each says what was expected and what came."""

import torch
from torch import Tensor


def check_at_least(least: int, **sizes: int) -> None:
    """Raises a ValueError if one of the named sizes is below ``least``."""
    for name, size in sizes.items():
        if size < least:
            raise ValueError(f"{name} must be at least {least}, but is {size}")


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raises a ValueError if the tensor does not have this shape."""
    if tensor.shape != shape:
        raise ValueError(f"{name} must have shape {shape} here, but has shape {tuple(tensor.shape)}")


def check_same_width(query: Tensor, key: Tensor) -> None:
    """Raises a ValueError if queries and keys differ in the last axis."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key need the same width, but have {query.shape[-1]} and {key.shape[-1]}")


def check_same_keys(key: Tensor, value: Tensor) -> None:
    """Raises a ValueError if there is not one value for each key."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"key and value need the same number of keys, but have {key.shape[-2]} and {value.shape[-2]}"
        )


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raises a ValueError if the mask is not boolean or does not broadcast to this shape of the scores."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, with True where a query may attend, but its dtype is {mask.dtype}"
        )
    try:
        fits = torch.broadcast_shapes(mask.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask must broadcast to the scores' shape {tuple(shape)}, but has shape {tuple(mask.shape)}"
        )
