"""What a layer costs: the entries of Table 1 of Vaswani et al. (2017), and the memory that goes with them.

Each function counts up to a constant factor: it says how a cost grows, not how large it is.
"""

from typing import Literal, get_args

from attncourse.validation import check_at_least

Layer = Literal["self-attention", "recurrent", "convolutional", "restricted"]


def operations(layer: Layer, *, length: int, d_model: int, width: int | None = None) -> int:
    """Counts the operations of one layer, up to a constant factor.

    Args:
        layer: kind of layer.
        length: number of positions n, in tokens, at least 1.
        d_model: width d of each position, at least 1.
        width: number of positions that one position sees: the kernel's width k of a convolution, the size r
            of the neighbourhood of restricted self-attention, at least 2. The other layers take none.

    Returns:
        ``n² d`` for self-attention, ``n d²`` for a recurrent layer, ``k n d²`` for a convolution, ``r n d``
        for restricted self-attention.

    Raises:
        ValueError: if the layer is unknown, a size too small, or the width missing or not wanted.

    Source: Vaswani et al. (2017), Table 1. Chapter: ``restricted``.
    """
    check_at_least(1, d_model=d_model)
    _check_layer(layer, length, width)
    if layer == "self-attention":
        return length**2 * d_model
    if layer == "recurrent":
        return length * d_model**2
    if layer == "convolutional":
        return width * length * d_model**2
    return width * length * d_model


def memory(layer: Layer, *, length: int, d_model: int, width: int | None = None, item_size: int = 4) -> int:
    """Counts the bytes of what one layer computes for each position and training must keep.

    Args:
        layer: kind of layer.
        length: number of positions n, in tokens, at least 1.
        d_model: width d of each position, at least 1.
        width: as in ``operations``.
        item_size: bytes of one number, at least 1; 4 for float32.

    Returns:
        Bytes of ``n d`` outputs, and for attention of its weights as well: ``n²`` of one head, or ``r n`` if
        it is restricted.

    Raises:
        ValueError: if the layer is unknown, a size too small, or the width missing or not wanted.

    Source: counted from the definitions; Table 1 has no such column. Chapter: ``restricted``.
    """
    check_at_least(1, d_model=d_model, item_size=item_size)
    _check_layer(layer, length, width)
    numbers = length * d_model
    if layer == "self-attention":
        numbers += length**2
    elif layer == "restricted":
        numbers += width * length
    return numbers * item_size


def sequential_steps(layer: Layer, *, length: int) -> int:
    """Counts the steps of one layer that must wait for each other, up to a constant factor.

    Args:
        layer: kind of layer.
        length: number of positions, in tokens, at least 1.

    Returns:
        ``length`` for a recurrent layer, 1 for all others.

    Raises:
        ValueError: if the layer is unknown, or the length below 1.

    Source: Vaswani et al. (2017), Table 1. Chapter: ``restricted``.
    """
    _check_known(layer)
    check_at_least(1, length=length)
    return length if layer == "recurrent" else 1


def path_length(layer: Layer, *, length: int, width: int | None = None) -> int:
    """Counts the steps from one end of the sequence to the other, up to a constant factor.

    Args:
        layer: kind of layer.
        length: number of positions n, in tokens, at least 1.
        width: number of positions that one position sees: the kernel's width k of a convolution, the size r
            of the neighbourhood of restricted self-attention, at least 2. The other layers take none.

    Returns:
        1 for self-attention, n for a recurrent layer, ``log_k(n)`` for dilated convolutions and ``n / r`` for
        restricted self-attention; the last two are rounded up, and at least 1.

    Raises:
        ValueError: if the layer is unknown, a size too small, or the width missing or not wanted.

    Source: Vaswani et al. (2017), Table 1. Chapter: ``restricted``.
    """
    _check_layer(layer, length, width)
    if layer == "self-attention":
        return 1
    if layer == "recurrent":
        return length
    if layer == "restricted":
        return -(-length // width)
    # Whole numbers: the floating-point logarithm of 3**5 to base 3 is above 5.
    layers = 1
    while width**layers < length:
        layers += 1
    return layers


def _check_known(layer: str) -> None:
    if layer not in get_args(Layer):
        raise ValueError(f"layer must be one of {', '.join(get_args(Layer))}, but is {layer}")


def _check_layer(layer: str, length: int, width: int | None) -> None:
    _check_known(layer)
    check_at_least(1, length=length)
    if layer in ("self-attention", "recurrent"):
        if width is not None:
            raise ValueError(f"a {layer} layer takes no width, but got {width}")
    elif width is None:
        raise ValueError(f"a {layer} layer needs a width")
    else:
        check_at_least(2, width=width)
