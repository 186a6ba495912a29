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


def check_batches(**tensors: Tensor) -> torch.Size:
    """Raises a ValueError if the axes before the last two do not broadcast. Gives what they broadcast to."""
    batches = [tensor.shape[:-2] for tensor in tensors.values()]
    if all(batch == batches[0] for batch in batches):
        return batches[0]  # the common case, in a tenth of the time
    try:
        return torch.broadcast_shapes(*batches)
    except RuntimeError:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors.values())
        names = " and ".join(tensors)
        raise ValueError(f"{names} need batch axes that broadcast, but have shapes {shapes}") from None


def check_lengths(lengths: Tensor, name: str, most: int) -> None:
    """Raises a ValueError if lengths are no whole numbers from 0 to ``most``, which is called ``name``."""
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be whole numbers, but their dtype is {lengths.dtype}")
    numbers = known_numbers(lengths)
    if numbers and not 0 <= min(numbers) <= max(numbers) <= most:
        raise ValueError(
            f"lengths must lie between 0 and {name} = {most}, but range from {min(numbers)} to {max(numbers)}"
        )


def check_tokens(tokens: Tensor, vocabulary: int) -> None:
    """Raises a ValueError if a token is not a number from 0 to below the size of the vocabulary."""
    numbers = known_numbers(tokens)
    if numbers and not 0 <= min(numbers) <= max(numbers) < vocabulary:
        raise ValueError(
            f"tokens must lie between 0 and {vocabulary - 1}, since the vocabulary has {vocabulary}, "
            f"but range from {min(numbers)} to {max(numbers)}"
        )


def known_numbers(tensor: Tensor) -> list[int] | None:
    """Gives the numbers of a tensor for a check, or None where they cannot be had.

    A GPU would have to be waited for. A function that is compiled, exported or mapped by ``torch.vmap`` runs
    without numbers.
    """
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    try:
        return tensor.flatten().tolist()
    except RuntimeError:  # inside torch.vmap
        return None


def check_same_width(query: Tensor, key: Tensor) -> None:
    """Raises a ValueError if queries and keys differ in width, or their batch axes do not broadcast."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key need the same width, but have {query.shape[-1]} and {key.shape[-1]}")
    check_batches(query=query, key=key)


def check_same_keys(key: Tensor, value: Tensor) -> None:
    """Raises a ValueError if there is not one value for each key, or their batch axes do not broadcast."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"key and value need the same number of keys, but have {key.shape[-2]} and {value.shape[-2]}"
        )
    check_batches(key=key, value=value)


def check_mask(mask: Tensor, shape: tuple[int, ...], what: str = "the scores' shape") -> None:
    """Raises a ValueError if the mask is not boolean or does not broadcast to this shape, called ``what``."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, with True where a query may attend, but its dtype is {mask.dtype}"
        )
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    fits = mask.ndim <= len(shape) and all(size in (1, wanted) for size, wanted in pairs)
    if not fits:
        raise ValueError(f"mask must broadcast to {what} {tuple(shape)}, but has shape {tuple(mask.shape)}")
