"""Answers to the set `position`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


@right
def sinusoidal(length, d_model):
    rows = []
    for p in range(length):
        row = []
        for c in range(d_model):
            angle = p / 10000 ** (2 * (c // 2) / d_model)
            row.append(math.sin(angle) if c % 2 == 0 else math.cos(angle))
        rows.append(row)
    return torch.tensor(rows)


@right
def sinusoidal(length, d_model):
    pair = torch.arange((d_model + 1) // 2, dtype=torch.float64)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), 10000.0 ** (-2 * pair / d_model))
    both = torch.stack((angle.sin(), angle.cos()), dim=-1)
    return both.reshape(length, -1)[:, :d_model].float()


@right
def sinusoidal(length, d_model):
    column = torch.arange(d_model)
    angle = torch.arange(length)[:, None] / torch.pow(10000.0, (column - column % 2) / d_model)[None, :]
    return torch.where(column % 2 == 1, torch.cos(angle), torch.sin(angle))


@right
def sinusoidal(length, d_model):
    column = torch.arange(d_model, dtype=torch.float32)
    even = 2 * torch.div(column, 2, rounding_mode="floor")
    phase = math.pi / 2 * (column % 2)  # cos(x) = sin(x + π/2)
    position = torch.arange(length, dtype=torch.float32)
    return torch.sin(torch.einsum("p,c->pc", position, 10000 ** (-even / d_model)) + phase)


@wrong("exponent-doubled")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    i = torch.arange(0, d_model, 2)
    table[:, 0::2] = torch.sin(position / 10000 ** (2 * i / d_model))
    table[:, 1::2] = torch.cos(position / 10000 ** (2 * i / d_model))[:, : d_model // 2]
    return table


@wrong("exponent-doubled")
def sinusoidal(length, d_model):
    angle = [[p / 10000 ** (2 * i / d_model) for i in range(d_model)] for p in range(length)]
    table = torch.tensor(angle)
    table[:, 0::2] = table[:, 0::2].sin()
    table[:, 1::2] = table[:, 1::2].cos()
    return table


@wrong("exponent-halved")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    for i in range((d_model + 1) // 2):
        angle = torch.arange(length) / 10000 ** (i / d_model)
        table[:, 2 * i] = angle.sin()
        if 2 * i + 1 < d_model:
            table[:, 2 * i + 1] = angle.cos()
    return table


@wrong("exponent-whole-number")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) // d_model))
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


@wrong("one-frequency")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = 10000.0 ** (torch.arange(0, d_model, 2) // d_model)
    table[:, 0::2] = torch.sin(position / frequency)
    table[:, 1::2] = torch.cos(position / frequency)[:, : d_model // 2]
    return table


@wrong("exponent-and-base-swapped")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = (torch.arange(0, d_model, 2) / d_model) ** 1e-4
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


@wrong("frequency-inverted")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


@wrong("other-base")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    frequency = 1000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


@wrong("frequency-per-column")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    table[:, 0::2] = torch.sin(position / 10000 ** (torch.arange(0, d_model, 2) / d_model))
    table[:, 1::2] = torch.cos(position / 10000 ** (torch.arange(1, d_model, 2) / d_model))
    return table


@wrong("frequencies-to-the-end")
def sinusoidal(length, d_model):
    pairs = (d_model + 1) // 2
    step = math.log(10000.0) / max(pairs - 1, 1)
    angle = torch.arange(length).unsqueeze(1) * torch.exp(-step * torch.arange(pairs))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong("sines-then-cosines")
def sinusoidal(length, d_model):
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(length).unsqueeze(1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :d_model]


@wrong("sine-and-cosine-swapped")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    angle = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.cos(angle)
    table[:, 1::2] = torch.sin(angle)[:, : d_model // 2]
    return table


@wrong("positions-from-one")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(1, length + 1).unsqueeze(1)
    angle = position * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)[:, : d_model // 2]
    return table


@wrong("odd-width-crashes")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    angle = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)
    return table


@wrong("odd-width-crashes")
def sinusoidal(length, d_model):
    angle = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).view(length, d_model)


@wrong("odd-width-rounded-up")
def sinusoidal(length, d_model):
    width = d_model + d_model % 2
    angle = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong("odd-width-too-wide")
def sinusoidal(length, d_model):
    angle = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong("odd-width-no-last-sine")
def sinusoidal(length, d_model):
    table = torch.zeros(length, d_model)
    for i in range(d_model // 2):
        angle = torch.arange(length) / 10000 ** (2 * i / d_model)
        table[:, 2 * i], table[:, 2 * i + 1] = angle.sin(), angle.cos()
    return table


@wrong("length-last")
def sinusoidal(length, d_model):
    table = torch.zeros(d_model, length)
    angle = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model).unsqueeze(1) * torch.arange(length)
    table[0::2] = torch.sin(angle)
    table[1::2] = torch.cos(angle)[: d_model // 2]
    return table


@right
def shift_matrix(offset, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = offset / 10000 ** (2 * i / d_model)
        c, s = math.cos(angle), math.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    return matrix


@right
def shift_matrix(offset, d_model):
    angle = offset * torch.exp(-math.log(10000.0) * torch.arange(0, d_model, 2) / d_model)
    blocks = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], dim=-1).view(-1, 2, 2)
    return torch.block_diag(*blocks)


@right
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    even = torch.arange(0, d_model, 2)
    matrix = torch.zeros(d_model, d_model)
    matrix[even, even] = matrix[even + 1, even + 1] = angle.cos()
    matrix[even, even + 1] = angle.sin()
    matrix[even + 1, even] = -angle.sin()
    return matrix


@right
def shift_matrix(offset, d_model):
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    generator = torch.block_diag(*(f * torch.tensor([[0.0, 1.0], [-1.0, 0.0]]) for f in frequency))
    return torch.matrix_exp(offset * generator.double()).float()


@wrong("rotation-reversed")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    rows = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angle]
    return torch.block_diag(*rows)


@wrong("rotation-same-sign")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.block_diag(*(torch.tensor([[a.cos(), a.sin()], [a.sin(), a.cos()]]) for a in angle))


@wrong("sines-then-cosines")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    c, s = torch.diag(angle.cos()), torch.diag(angle.sin())
    return torch.cat([torch.cat([c, s], dim=1), torch.cat([-s, c], dim=1)], dim=0)


@wrong("sine-and-cosine-swapped")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.block_diag(*(torch.tensor([[-a.sin(), a.cos()], [a.cos(), a.sin()]]) for a in angle))


@wrong("encoding-on-diagonal")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten().diag()


@wrong("columns-moved")
def shift_matrix(offset, d_model):
    return torch.roll(torch.eye(d_model), shifts=offset, dims=1)


@wrong("offset-ignored")
def shift_matrix(offset, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = 1 / 10000 ** (2 * i / d_model)
        matrix[2 * i, 2 * i] = matrix[2 * i + 1, 2 * i + 1] = math.cos(angle)
        matrix[2 * i, 2 * i + 1] = math.sin(angle)
        matrix[2 * i + 1, 2 * i] = -math.sin(angle)
    return matrix


@wrong("entries-to-a-power")
def shift_matrix(offset, d_model):
    angle = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    step = torch.block_diag(*(torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angle))
    return step**offset


@wrong("exponent-doubled")
def shift_matrix(offset, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        angle = offset / 10000 ** (2 * i / d_model)
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i, i + 1], matrix[i + 1, i] = math.sin(angle), -math.sin(angle)
    return matrix


@wrong("one-frequency")
def shift_matrix(offset, d_model):
    c, s = math.cos(offset), math.sin(offset)
    return torch.block_diag(*[torch.tensor([[c, s], [-s, c]])] * (d_model // 2))


@wrong("frequency-inverted")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.block_diag(*(torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angle))


@wrong("exponent-halved")
def shift_matrix(offset, d_model):
    angle = offset * 10000.0 ** (-torch.arange(d_model // 2) / d_model)
    return torch.block_diag(*(torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angle))


@right
def project_concatenated(inputs, table, weight):
    d_model = inputs.shape[-1]
    positions = table[: inputs.shape[-2]]
    return inputs @ weight[:, :d_model].T + positions @ weight[:, d_model:].T


@right
def project_concatenated(inputs, table, weight):
    w_x, w_p = weight.split([inputs.shape[-1], table.shape[-1]], dim=1)
    return F.linear(inputs, w_x) + F.linear(table[: inputs.shape[-2]], w_p)


@right
def project_concatenated(inputs, table, weight):
    width = inputs.shape[-1]
    tokens = torch.einsum("...ld,od->...lo", inputs, weight[:, :width])
    return tokens + torch.einsum("lp,op->lo", table[: inputs.size(-2)], weight[:, width:])


@right
def project_concatenated(inputs, table, weight):
    length, width = inputs.shape[-2:]
    rows = []
    for p in range(length):
        position = weight[:, width:] @ table[p]
        rows.append((inputs[..., p, None, :] * weight[:, :width]).sum(-1) + position)
    return torch.stack(rows, dim=-2)


@wrong("concatenated-for-each")
def project_concatenated(inputs, table, weight):
    positions = table[: inputs.shape[-2]].expand(*inputs.shape[:-1], table.shape[-1])
    return F.linear(torch.cat([inputs, positions], dim=-1), weight)


@wrong("concatenated-for-each")
def project_concatenated(inputs, table, weight):
    d_model = inputs.shape[-1]
    positions = table[: inputs.shape[-2]].expand(*inputs.shape[:-1], table.shape[-1]).contiguous()
    return inputs @ weight[:, :d_model].T + positions @ weight[:, d_model:].T


@wrong("order-swapped")
def project_concatenated(inputs, table, weight):
    w_p, w_x = weight.split([table.shape[-1], inputs.shape[-1]], dim=1)
    return F.linear(inputs, w_x) + F.linear(table[: inputs.shape[-2]], w_p)


@wrong("order-swapped")
def project_concatenated(inputs, table, weight):
    positions = table[: inputs.shape[-2]].expand(*inputs.shape[:-1], table.shape[-1])
    return torch.cat([positions, inputs], dim=-1) @ weight.T


@wrong("split-in-the-middle")
def project_concatenated(inputs, table, weight):
    w_x, w_p = weight[:, : weight.shape[1] // 2], weight[:, weight.shape[1] // 2 :]
    return inputs @ w_x.T + table[: inputs.shape[-2]] @ w_p.T


@wrong("added-before-projection")
def project_concatenated(inputs, table, weight):
    both = inputs + table[: inputs.shape[-2]]
    return both @ weight[:, : inputs.shape[-1]].T


@wrong("position-per-sentence")
def project_concatenated(inputs, table, weight):
    d_model = inputs.shape[-1]
    positions = table[: inputs.shape[0]]
    for _ in range(inputs.ndim - 2):
        positions = positions.unsqueeze(1)
    return inputs @ weight[:, :d_model].T + positions @ weight[:, d_model:].T


@wrong("whole-table")
def project_concatenated(inputs, table, weight):
    d_model = inputs.shape[-1]
    return inputs @ weight[:, :d_model].T + table @ weight[:, d_model:].T


@wrong("positions-left-out")
def project_concatenated(inputs, table, weight):
    return F.linear(inputs, weight[:, : inputs.shape[-1]])


@wrong("one-position-for-all")
def project_concatenated(inputs, table, weight):
    w_x, w_p = weight.split([inputs.shape[-1], table.shape[-1]], dim=1)
    return F.linear(inputs, w_x) + w_p @ table[0]


@wrong("tokens-scaled")
def project_concatenated(inputs, table, weight):
    w_x, w_p = weight.split([inputs.shape[-1], table.shape[-1]], dim=1)
    inputs = inputs * math.sqrt(inputs.shape[-1])
    return F.linear(inputs, w_x) + F.linear(table[: inputs.shape[-2]], w_p)


@wrong("last-rows")
def project_concatenated(inputs, table, weight):
    d_model = inputs.shape[-1]
    positions = table[len(table) - inputs.shape[-2] :]
    return inputs @ weight[:, :d_model].T + positions @ weight[:, d_model:].T


@wrong("weight-rows-cut")
def project_concatenated(inputs, table, weight):
    w_x, w_p = weight[: inputs.shape[-1]], weight[inputs.shape[-1] :]
    return inputs @ w_x + table[: inputs.shape[-2]] @ w_p


@right
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos(), angle.sin()
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    result = torch.empty_like(inputs)
    result[..., 0::2] = x * cos - y * sin
    result[..., 1::2] = x * sin + y * cos
    return result


@right
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    wide = torch.float64 if inputs.dtype == torch.float64 else torch.float32
    angle = torch.arange(start, start + length, dtype=wide).unsqueeze(-1)
    angle = angle * torch.exp(-math.log(10000.0) / width * torch.arange(0, width, 2, dtype=wide))
    turn = torch.polar(torch.ones_like(angle), angle)
    pairs = torch.view_as_complex(inputs.to(wide).reshape(*inputs.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(-2).to(inputs.dtype)


@right
def rotate(inputs, start=0):
    width = inputs.shape[-1]
    angle = torch.arange(start, start + inputs.shape[-2])[:, None] / 10000 ** (
        torch.arange(0, width, 2) / width
    )
    angle = torch.repeat_interleave(angle, 2, dim=-1)
    swapped = torch.stack((-inputs[..., 1::2], inputs[..., ::2]), dim=-1).reshape(inputs.shape)
    return inputs * angle.cos().to(inputs.dtype) + swapped * angle.sin().to(inputs.dtype)


@right
def rotate(inputs, start=0):
    columns = []
    for c in range(inputs.shape[-1]):
        pair = c // 2
        rows = []
        for p in range(inputs.shape[-2]):
            angle = (start + p) / 10000 ** (2 * pair / inputs.shape[-1])
            x, y = inputs[..., p, 2 * pair], inputs[..., p, 2 * pair + 1]
            if c % 2 == 0:
                rows.append(x * math.cos(angle) - y * math.sin(angle))
            else:
                rows.append(x * math.sin(angle) + y * math.cos(angle))
        columns.append(torch.stack(rows, dim=-1))
    return torch.stack(columns, dim=-1)


@right
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    blocks = torch.zeros(length, width, width, dtype=inputs.dtype)
    for p in range(length):
        for i in range(width // 2):
            angle = torch.tensor((start + p) * 10000 ** (-2 * i / width))
            c, s = angle.cos(), angle.sin()
            blocks[p, 2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, -s], [s, c]])
    return torch.einsum("pij,bhpj->bhpi", blocks, inputs)


@wrong("rotary-halves")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    angle = torch.outer(
        torch.arange(start, start + length).float(), 10000.0 ** (-torch.arange(0, width, 2) / width)
    )
    angle = torch.cat([angle, angle], dim=-1)
    x, y = inputs[..., : width // 2], inputs[..., width // 2 :]
    half = torch.cat([-y, x], dim=-1)
    return inputs * angle.cos().to(inputs.dtype) + half * angle.sin().to(inputs.dtype)


@wrong("rotary-mixed-pairs")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    angle = torch.outer(
        torch.arange(start, start + length).float(), 10000.0 ** (-torch.arange(0, width, 2) / width)
    )
    angle = angle.repeat_interleave(2, dim=-1)
    x, y = inputs[..., : width // 2], inputs[..., width // 2 :]
    half = torch.cat([-y, x], dim=-1)
    return inputs * angle.cos().to(inputs.dtype) + half * angle.sin().to(inputs.dtype)


@wrong("rotary-mixed-pairs")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    angle = torch.outer(
        torch.arange(start, start + length).float(), 10000.0 ** (-torch.arange(0, width, 2) / width)
    )
    angle = torch.cat([angle, angle], dim=-1)
    swapped = torch.stack([-inputs[..., 1::2], inputs[..., 0::2]], dim=-1).flatten(-2)
    return inputs * angle.cos().to(inputs.dtype) + swapped * angle.sin().to(inputs.dtype)


@wrong("rotary-joined-halves")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.cat([x * cos - y * sin, x * sin + y * cos], dim=-1)


@wrong("rotation-reversed")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos + y * sin, y * cos - x * sin], dim=-1).flatten(-2)


@wrong("rotation-same-sign")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos + y * sin, y * cos + x * sin], dim=-1).flatten(-2)


@wrong("rotary-over-heads")
def rotate(inputs, start=0):
    heads, width = inputs.shape[1], inputs.shape[-1]
    position = torch.arange(start, start + heads, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width)).unsqueeze(1)
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("position-per-sentence")
def rotate(inputs, start=0):
    batch, width = inputs.shape[0], inputs.shape[-1]
    position = torch.arange(start, start + batch, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))[:, None, None]
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("past-ignored")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    angle = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("positions-from-one")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start + 1, start + length + 1, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("rotary-added")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    return inputs + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(inputs.dtype)


@wrong("rotary-multiplied")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    return inputs * torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(inputs.dtype)


@wrong("rotary-cosine-only")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    return inputs * angle.cos().repeat_interleave(2, dim=-1).to(inputs.dtype)


@wrong("half-angles")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length).to(inputs)
    frequency = (10000.0 ** (-torch.arange(0, width, 2) / width)).to(inputs)
    angle = position.unsqueeze(-1) * frequency
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    turned = [x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()]
    return torch.stack(turned, dim=-1).flatten(-2)


@wrong("changes-inputs")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    x, y = inputs[..., 0::2].clone(), inputs[..., 1::2].clone()
    inputs[..., 0::2] = x * angle.cos() - y * angle.sin()
    inputs[..., 1::2] = x * angle.sin() + y * angle.cos()
    return inputs


@wrong("pair-overwritten")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    result = inputs.clone()
    x, y = result[..., 0::2], result[..., 1::2]
    result[..., 0::2] = x * angle.cos() - y * angle.sin()
    result[..., 1::2] = x * angle.sin() + y * angle.cos()
    return result


@wrong("exponent-doubled")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-2 * torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("frequency-inverted")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("frequency-per-column")
def rotate(inputs, start=0):
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(width) / width))
    swapped = torch.stack([-inputs[..., 1::2], inputs[..., 0::2]], dim=-1).flatten(-2)
    return inputs * angle.cos().to(inputs.dtype) + swapped * angle.sin().to(inputs.dtype)


@right
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.clamp(-most, most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@right
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], (table.shape[0] - 1) // 2
    by_distance = query @ table.T
    distance = torch.arange(past + queries) - (past + torch.arange(queries)).unsqueeze(-1)
    rows = distance.clip(-most, most) + most
    return by_distance.gather(-1, rows.expand(*query.shape[:-1], -1))


@right
def shaw_bias(query, table, past=0):
    most = len(table) // 2
    bias = query.new_zeros(*query.shape[:-1], past + query.shape[-2])
    for q in range(query.shape[-2]):
        for k in range(past + query.shape[-2]):
            row = max(-most, min(most, k - (past + q))) + most
            bias[..., q, k] = query[..., q, :] @ table[row]
    return bias


@right
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], len(table) // 2
    keys = past + queries
    distance = torch.arange(keys).view(1, -1) - torch.arange(past, keys).view(-1, 1)
    rows = torch.minimum(torch.maximum(distance, torch.tensor(-most)), torch.tensor(most)) + most
    chosen = torch.nn.functional.one_hot(rows, len(table)).to(query.dtype)
    return (chosen @ (query @ table.T).unsqueeze(-1)).squeeze(-1)


@wrong("distance-reversed")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)[None, :]
    vectors = table[distance.clamp(-most, most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@wrong("distance-unsigned")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.abs().clamp(max=most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@wrong("distance-from-row-zero")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.abs().clamp(max=most)]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@wrong("distance-not-clipped")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    return torch.einsum("...qd,qkd->...qk", query, table[distance + most])


@wrong("distance-wrapped")
def shaw_bias(query, table, past=0):
    queries, rows = query.shape[-2], table.shape[0]
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    return torch.einsum("...qd,qkd->...qk", query, table[(distance + rows // 2) % rows])


@wrong("distance-off-by-one")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.clamp(-(most - 1), most - 1) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@wrong("table-rows-shifted")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    return torch.einsum("...qd,qkd->...qk", query, table[distance.clamp(-most, most)])


@wrong("far-distances-zero")
def shaw_bias(query, table, past=0):
    most = len(table) // 2
    bias = query.new_zeros(*query.shape[:-1], past + query.shape[-2])
    for q in range(query.shape[-2]):
        for k in range(past + query.shape[-2]):
            distance = k - (past + q)
            if abs(distance) <= most:
                bias[..., q, k] = query[..., q, :] @ table[distance + most]
    return bias


@wrong("past-ignored")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(queries)[:, None]
    vectors = table[distance.clamp(-most, most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)


@wrong("scaled-too-early")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.clamp(-most, most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors) / math.sqrt(query.shape[-1])


@wrong("bias-without-query")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(past + queries)[None, :] - torch.arange(past, past + queries)[:, None]
    bias = table[distance.clamp(-most, most) + most].sum(-1)
    return bias.expand(*query.shape[:-1], -1) + 0 * query.sum()


@wrong("vector-of-the-key")
def shaw_bias(query, table, past=0):
    queries, most = query.shape[-2], table.shape[0] // 2
    distance = torch.arange(queries)[None, :] - torch.arange(queries)[:, None]
    vectors = table[distance.clamp(-most, most) + most]
    return (query.unsqueeze(-3) * vectors).sum(dim=-1)


@right
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@right
def alibi_bias(heads, queries, past=0):
    def slopes(n):
        if math.log2(n).is_integer():
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        lower = 2 ** math.floor(math.log2(n))
        return slopes(lower) + slopes(2 * lower)[0::2][: n - lower]

    position = torch.arange(past + queries)
    return torch.tensor(slopes(heads)).view(-1, 1, 1) * -(position[past:, None] - position[None, :]).abs()


@right
def alibi_bias(heads, queries, past=0):
    bias = torch.zeros(heads, queries, past + queries)
    lower = 1
    while lower * 2 <= heads:
        lower *= 2
    for h in range(heads):
        exponent = 8 * (h + 1) / lower if h < lower else 4 * (2 * (h - lower) + 1) / lower
        for q in range(queries):
            for k in range(past + queries):
                bias[h, q, k] = -abs(k - q - past) / 2**exponent
    return bias


@right
def alibi_bias(heads, queries, past=0):
    lower = 1 << (heads.bit_length() - 1)
    first = torch.exp2(-8 * torch.arange(1, lower + 1) / lower)
    extra = torch.exp2(-4 * torch.arange(1, 2 * lower, 2) / lower)
    slopes = torch.cat([first, extra])[:heads]
    way = torch.arange(past + queries).unsqueeze(0) - (torch.arange(queries) + past).unsqueeze(1)
    return torch.einsum("h,qk->hqk", slopes, torch.minimum(way, -way).float())


@wrong("slopes-off-by-one")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(lower)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(2 * lower)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("slopes-off-by-one")
def alibi_bias(heads, queries, past=0):
    slopes = 2.0 ** (-8 * torch.arange(heads) / heads)
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("slopes-of-eight-heads")
def alibi_bias(heads, queries, past=0):
    slopes = 0.5 ** torch.arange(1, heads + 1)
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("slopes-one-formula")
def alibi_bias(heads, queries, past=0):
    slopes = torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)])
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("slopes-of-next-power")
def alibi_bias(heads, queries, past=0):
    power = 2 ** math.ceil(math.log2(heads))
    slopes = torch.tensor([2 ** (-8 * (h + 1) / power) for h in range(power)])[:heads]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("slopes-extra-in-order")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("slopes-extra-even")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += slopes[: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("slopes-sorted")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    slopes = torch.tensor(slopes).sort(descending=True).values
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("slopes-reversed")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes).flip(0)[:, None, None] * distance


@wrong("slopes-inverted")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("bias-rewards-distance")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return torch.tensor(slopes)[:, None, None] * distance


@wrong("later-keys-rewarded")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    return torch.tensor(slopes)[:, None, None] * distance


@wrong("earlier-keys-rewarded")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return torch.tensor(slopes)[:, None, None] * distance


@wrong("later-keys-without-bias")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)).clamp(min=0)
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("bias-from-the-start")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    bias = torch.tensor(slopes)[:, None, None] * torch.arange(past + queries)
    return bias.expand(heads, queries, past + queries)


@wrong("bias-with-mask")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    way = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    return (torch.tensor(slopes)[:, None, None] * way).masked_fill(way > 0, float("-inf"))


@wrong("past-ignored")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(queries)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@wrong("heads-last")
def alibi_bias(heads, queries, past=0):
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-8 * i / (2 * lower)) for i in range(1, 2 * lower + 1)][0::2][: heads - lower]
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -distance.unsqueeze(-1) * torch.tensor(slopes)


@right
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@right
def log_decay_scores(query, key, strength, rate):
    keys = key.shape[2]
    distance = torch.cdist(
        torch.arange(keys - query.shape[2], keys).unsqueeze(-1).to(query),
        torch.arange(keys).unsqueeze(-1).to(query),
    )
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.size(-1))
    a, r = strength.logaddexp(torch.zeros_like(strength)), rate.logaddexp(torch.zeros_like(rate))
    return scores - a.view(1, -1, 1, 1) * torch.log1p(r.view(1, -1, 1, 1) * distance)


@right
def log_decay_scores(query, key, strength, rate):
    past = key.shape[2] - query.shape[2]
    rows = []
    for q in range(query.shape[2]):
        columns = []
        for k in range(key.shape[2]):
            score = (query[:, :, q] * key[:, :, k]).sum(-1) / math.sqrt(query.shape[3])
            decay = F.softplus(strength) * torch.log(1 + F.softplus(rate) * abs(q + past - k))
            columns.append(score - decay)
        rows.append(torch.stack(columns, dim=-1))
    return torch.stack(rows, dim=-2)


@right
def log_decay_scores(query, key, strength, rate):
    heads, queries, keys = query.shape[1], query.shape[2], key.shape[2]
    way = torch.arange(queries).unsqueeze(1) + (keys - queries) - torch.arange(keys).unsqueeze(0)
    bias = []
    for h in range(heads):
        bias.append(-F.softplus(strength[h]) * (1 + F.softplus(rate[h]) * way.abs()).log())
    return torch.matmul(query / math.sqrt(query.shape[-1]), key.transpose(2, 3)) + torch.stack(bias)


@wrong("no-scale")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT - a * torch.log(1 + r * distance)


@wrong("scaled-with-decay")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return (query @ key.mT - a * torch.log(1 + r * distance)) / math.sqrt(query.shape[-1])


@wrong("decay-rewards-distance")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 + a * torch.log(1 + r * distance)


@wrong("decay-multiplied")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 * (1 + r * distance) ** -a


@wrong("decay-linear")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * r * distance


@wrong("log-of-zero")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(r * distance)


@wrong("rate-outside-the-log")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * r * torch.log1p(distance)


@wrong("log-of-other-base")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log10(1 + r * distance)


@wrong("parameters-unbounded")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = strength[:, None, None], rate[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("exp-for-softplus")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = strength.exp()[:, None, None], rate.exp()[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("relu-for-softplus")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a, r = strength.clamp(min=0)[:, None, None], rate.clamp(min=0)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("parameters-swapped")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    r, a = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("later-keys-without-bias")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).clamp(min=0)
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("distance-signed")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("past-ignored")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(queries)[:, None]).abs()
    a, r = F.softplus(strength)[:, None, None], F.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("heads-on-the-key-axis")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    decay = F.softplus(strength) * torch.log(1 + F.softplus(rate) * distance)
    return query @ key.mT / query.shape[-1] ** 0.5 - decay


@wrong("rotary-over-heads")
def rotate(inputs, start=0):
    heads, width = inputs.shape[1], inputs.shape[-1]
    position = torch.arange(start, start + heads, dtype=torch.float32)
    angle = torch.outer(position, 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


@wrong("slopes-exponent-whole")
def alibi_bias(heads, queries, past=0):
    slopes = torch.tensor([2.0 ** (-8 * h // heads) for h in range(1, heads + 1)])
    distance = (torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]).abs()
    return -slopes[:, None, None] * distance


@wrong("softplus-overflow")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a = torch.log(1 + torch.exp(strength))[:, None, None]
    r = torch.log(1 + torch.exp(rate))[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(1 + r * distance)


@wrong("rate-times-one-plus-distance")
def log_decay_scores(query, key, strength, rate):
    queries, keys = query.shape[-2], key.shape[-2]
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a = torch.nn.functional.softplus(strength)[:, None, None]
    r = torch.nn.functional.softplus(rate)[:, None, None]
    return query @ key.mT / query.shape[-1] ** 0.5 - a * torch.log(r * (1 + distance))
