# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Multi-head attention
#
# One attention gives each query one mixture of the values. With several *heads*, a query mixes the values in several
# ways at once. In this set you build it: you cut vectors into heads and join them, attend in all heads, read another
# sequence, switch heads off, take over the weights of PyTorch's layer, and let the heads talk to each other.
#
# You need PyTorch tensors, matrix products, and attention with one head (the set `qkv`). You do not need the book,
# but its chapter *Multi-head attention* explains each step with pictures, in the same letters: batch $b$, heads
# $h$, queries $q$, keys $k$.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `split_heads` | 1 | 10 | ●○○ |
# | 2 | `merge_heads` | 1 | 5 | ●○○ |
# | 3 | `multihead_attention` | 3 | 25 | ●●○ |
# | 4 | `cross_attention` | 2 | 15 | ●●○ |
# | 5 | `mask_heads` | 1 | 10 | ●●○ |
# | 6 | `weights_from_torch` | 2 | 20 | ●●○ |
# | 7 | `talking_softmax` | 2 | 20 | ●●● |
# | 8 | a question, read by a person | 3 | 15 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, `torch.softmax`, the functions of `attncourse.qkv`, and also
# `F.scaled_dot_product_attention` are all fine, as pieces. What does a whole task by itself is not: the forward pass
# of `nn.MultiheadAttention`, or the functions of `attncourse.multihead`. You may call your own functions from
# earlier tasks. Your functions must let gradients pass, must not change their inputs, and must return the dtype
# that they were given.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **view size is not compatible with input tensor's size and stride.** The tensor has its axes in another order
#   than the memory, for example after `transpose`. `reshape` copies where `view` cannot. But first make sure that
#   the axes stand in the order that you want to join.
# - **too many values to unpack**, or **not enough values to unpack.** A line such as `b, n, d = x.shape` works for one
#   batch axis only. `*batch, n, d = x.shape` works for any number of them, and `x.reshape(*batch, n, d)` uses them.
# - **shape '[…]' is invalid for input of size ….** Multiply the numbers of the new shape: the product must be the number
#   of entries of the tensor.
# - **mat1 and mat2 shapes cannot be multiplied.** Print both shapes. In this set weights have the shape (input,
#   output), so that `x @ weight` fits. `nn.Linear` keeps its weight the other way round.
# - **The size of tensor a must match the size of tensor b at non-singleton dimension ….** Often a mask that lacks the axis of
#   the heads. Write both shapes under each other, aligned at the right. Axes of length 1 fit everything;
#   `mask.unsqueeze(-3)` adds one.
# - **'NoneType' object has no attribute 'chunk'.** Not every layer of PyTorch has every parameter. Print
#   `dict(layer.named_parameters()).keys()`.
# - **NameError: name 'split_heads' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.multihead import (
    check_cross_attention,
    check_mask_heads,
    check_merge_heads,
    check_multihead_attention,
    check_split_heads,
    check_talking_softmax,
    check_weights_from_torch,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: cut vectors into heads (1 point)
#
# A projected vector is `heads * d_head` numbers wide. The first `d_head` numbers belong to the first head, the next
# `d_head` to the second, and so on. Attention works on the last two axes, so the axis of the heads has to stand
# before them:
#
# $$ (\ldots, \text{length}, \text{heads} \cdot d_\text{head}) \;\to\; (\ldots, \text{heads}, \text{length}, d_\text{head}) $$
#
# Every position keeps its place: row $i$ of head $h$ is part $h$ of the vector at position $i$. There may be any number
# of batch axes in front, also none.


# %% nbgrader={"grade": false, "grade_id": "split_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split_heads(inputs, heads):
    """Cut each vector into one part for each head.

    Args:
        inputs: tensor of shape (..., length, heads * d_head).
        heads: number of heads; it divides the width.

    Returns:
        The parts, of shape (..., heads, length, d_head).
    """
    ### BEGIN SOLUTION
    *batch, length, width = inputs.shape
    return inputs.reshape(*batch, length, heads, width // heads).transpose(-2, -3)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_split_heads", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_split_heads(split_heads)
### BEGIN HIDDEN TESTS
check_split_heads(split_heads, seed=1)
check_split_heads(split_heads, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Try `torch.arange(12).reshape(3, 4)` with two heads: three positions, four numbers each. Write down on paper what each head
# should contain. Position 0 is the vector (0, 1, 2, 3).
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `reshape` may only cut or join axes that lie side by side in memory; it never moves a number. Which axis has to be cut?
# After that cut, in which order do the axes stand, and in which order should they?
#
# </details>

# %% [markdown]
# ## Task 2: join the heads (1 point)
#
# The way back. At each position, the vectors of all heads are put side by side, first head first ("Concat" in
# Vaswani et al. 2017, section 3.2.2).


# %% nbgrader={"grade": false, "grade_id": "merge_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def merge_heads(inputs):
    """Join the vectors of all heads at each position.

    Args:
        inputs: tensor of shape (..., heads, length, d_head).

    Returns:
        The joined vectors, of shape (..., length, heads * d_head).
    """
    ### BEGIN SOLUTION
    return inputs.transpose(-2, -3).flatten(-2)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_merge_heads", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_merge_heads(merge_heads)
### BEGIN HIDDEN TESTS
check_merge_heads(merge_heads, seed=1)
check_merge_heads(merge_heads, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# `merge_heads(split_heads(x, heads))` should be `x` again. But do not stop there: a wrong split and a wrong merge may undo
# each other, too. Try a tensor in which every number says from which head and position it comes, such as 1002 for
# head 1, position 2.
#
# </details>

# %% [markdown]
# ## Task 3: attention with several heads (3 points)
#
# Each head has projections of its own. We keep those of all heads side by side in one matrix, first head first. With
# $Q$, $K$, $V$ for the inputs `query`, `key` and `value` (Vaswani et al. 2017, section 3.2.2):
#
# $$ \mathrm{head}_h = \mathrm{softmax}\!\left(\frac{(Q W^Q_h)(K W^K_h)^\top}{\sqrt{d_k}}\right) V W^V_h, \qquad
# \mathrm{context} = [\mathrm{head}_1, \ldots, \mathrm{head}_H]\, W^O $$
#
# Here $d_k$ is the width of the keys in one head. In this set, as in the paper, a weight has the shape *(input, output)* and
# stands at the right of what it projects: `query @ query_weight`. There are no biases.
#
# - The mask is boolean; **True means "may attend"**. It has the shape (queries, keys), or batch axes in front: then each
#   sentence has a mask of its own. It never has an axis for the heads: it holds for all of them.
# - A query that may attend to no key has the weights 0 in every head, and its context is 0. Gradients are never `nan`.
# - All widths may differ: of query, key and value, of the keys and the values inside a head, and of the context.


# %% nbgrader={"grade": false, "grade_id": "multihead_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    """Attend with several heads.

    Args:
        query: tensor of shape (..., queries, d_query).
        key: tensor of shape (..., keys, d_key).
        value: tensor of shape (..., keys, d_value).
        query_weight: tensor of shape (d_query, heads * d_k).
        key_weight: tensor of shape (d_key, heads * d_k).
        value_weight: tensor of shape (d_value, heads * d_v).
        output_weight: tensor of shape (heads * d_v, d_output).
        heads: number of heads.
        mask: None, or a boolean tensor of shape (queries, keys) or (..., queries, keys), True where a query may
            attend to a key.

    Returns:
        A tuple (context, weights), of shapes (..., queries, d_output) and (..., heads, queries, keys).
    """
    ### BEGIN SOLUTION
    query = split_heads(query @ query_weight, heads)
    key = split_heads(key @ key_weight, heads)
    value = split_heads(value @ value_weight, heads)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        mask = mask.unsqueeze(-3)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1).masked_fill(~mask, 0.0)
    return merge_heads(weights @ value) @ output_weight, weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_multihead_attention", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_multihead_attention(multihead_attention)
### BEGIN HIDDEN TESTS
check_multihead_attention(multihead_attention, seed=1)
check_multihead_attention(multihead_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down the shapes of the projected query, key and value after `split_heads`. Attention with one head works on the last
# two axes and leaves all others alone. What is the axis of the heads for it?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The scores have the shape (..., heads, queries, keys), a mask with batch axes has (..., queries, keys). Where does the mask
# lack an axis? For a mask without batch axes it does no harm to add one there, too.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# How wide is one head? The divisor depends on that width, and not on the width of all heads together.
#
# </details>

# %% [markdown]
# ## Task 4: read another sequence (2 points)
#
# In a translator, the decoder reads the source. The queries come from the states of the decoder, one for each target token;
# keys and values come from the *memory*: what the encoder made of the source. This is cross-attention.
#
# The sentences of a batch have different lengths, so the shorter ones are filled up with padding. `real_tokens` says
# for each sentence which of its source tokens are real: True for a real token, False for padding. Padding must not
# receive any weight. A sentence may have no real token at all: then its weights and its context are 0.


# %% nbgrader={"grade": false, "grade_id": "cross_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    """Let a target attend to a source.

    Args:
        states: of the target, tensor of shape (batch, target, d_states).
        memory: of the source, tensor of shape (batch, source, d_memory).
        query_weight: tensor of shape (d_states, heads * d_k).
        key_weight: tensor of shape (d_memory, heads * d_k).
        value_weight: tensor of shape (d_memory, heads * d_v).
        output_weight: tensor of shape (heads * d_v, d_output).
        heads: number of heads.
        real_tokens: None, or a boolean tensor of shape (batch, source), True for a token, False for padding.

    Returns:
        A tuple (context, weights), of shapes (batch, target, d_output) and (batch, heads, target, source).
    """
    ### BEGIN SOLUTION
    mask = None if real_tokens is None else real_tokens.unsqueeze(-2)
    projections = (query_weight, key_weight, value_weight, output_weight)
    return multihead_attention(states, memory, memory, *projections, heads, mask)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_cross_attention", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_cross_attention(cross_attention)
### BEGIN HIDDEN TESTS
check_cross_attention(cross_attention, seed=1)
check_cross_attention(cross_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Your function from task 3 does all the work. Which two of its three inputs are the same here?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The padding of a sentence is the same for all its queries. Which axis does `real_tokens` lack, so that it becomes a mask
# over queries and keys? An axis of length 1 is enough.
#
# </details>

# %% [markdown]
# ## Task 5: switch heads off (1 point)
#
# To find out what a head is good for, one switches it off and looks at what gets worse (for example Michel, Levy and
# Neubig 2019, arXiv:1905.10650). Here you get the contexts of all heads, before they are joined, and for each head a
# boolean: True means that the head is kept.
#
# A head that is not kept adds nothing to the output. The others add exactly what they add when all heads are kept. So
#
# $$ \mathrm{output} = \sum_{h \text{ kept}} \mathrm{context}_h \, W^O_h $$
#
# where $W^O_h$ are the $d_v$ rows of $W^O$ that belong to head $h$. If no head is kept, the output is 0.


# %% nbgrader={"grade": false, "grade_id": "mask_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mask_heads(contexts, kept, output_weight):
    """Join and project the contexts of those heads that are kept.

    Args:
        contexts: one context for each head, tensor of shape (..., heads, queries, d_v).
        kept: boolean tensor of shape (heads,), True for a head that is kept.
        output_weight: tensor of shape (heads * d_v, d_output).

    Returns:
        The output, of shape (..., queries, d_output).
    """
    ### BEGIN SOLUTION
    contexts = contexts.masked_fill(~kept[:, None, None], 0.0)
    return merge_heads(contexts) @ output_weight
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_mask_heads", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_mask_heads(mask_heads)
### BEGIN HIDDEN TESTS
check_mask_heads(mask_heads, seed=1)
check_mask_heads(mask_heads, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# `kept` has one axis. On which axis of the contexts should it lie? Give it axes of length 1 at its right, so that it does.
#
# </details>

# %% [markdown]
# ## Task 6: take over PyTorch's weights (2 points)
#
# `nn.MultiheadAttention(embed_dim, num_heads)` is the same mathematics with another layout of the weights. Give its weights in
# the layout of this set, so that `multihead_attention` could compute the same. What you need to know about the layer:
#
# - It projects as `nn.Linear` does: $y = x A^\top + b$. So its weights have the shape (output, input).
# - `layer.in_proj_weight`, of shape (3 · embed_dim, embed_dim), packs the weights of query, key and value, in this order, one block
#   under the other; `layer.in_proj_bias` their three biases.
# - `layer.out_proj` is a linear layer: its `weight` and its `bias` are those of the output.
# - A layer made with `bias=False` has `None` in place of its two biases. Return zeros of the shape (embed_dim,) for all four then.
# - A layer made with `kdim` or `vdim`, for keys and values of other widths, has no packed weight: `layer.in_proj_weight` is
#   `None`. In its place there are `layer.q_proj_weight`, `layer.k_proj_weight` and `layer.v_proj_weight`. The biases are packed as before.


# %% nbgrader={"grade": false, "grade_id": "weights_from_torch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weights_from_torch(layer):
    """Give the weights of PyTorch's layer in the layout (input, output).

    Args:
        layer: an nn.MultiheadAttention.

    Returns:
        A tuple of eight tensors: query_weight, key_weight, value_weight, output_weight, each of shape
        (input, embed_dim); then query_bias, key_bias, value_bias, output_bias, each of shape (embed_dim,).
    """
    ### BEGIN SOLUTION
    weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    if layer.in_proj_weight is not None:
        weights = layer.in_proj_weight.chunk(3)
    output = layer.out_proj.weight
    biases = [torch.zeros(layer.embed_dim, dtype=output.dtype)] * 4
    if layer.in_proj_bias is not None:
        biases = [*layer.in_proj_bias.chunk(3), layer.out_proj.bias]
    return *(weight.T for weight in weights), output.T, *biases
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_weights_from_torch", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_weights_from_torch(weights_from_torch)
### BEGIN HIDDEN TESTS
check_weights_from_torch(weights_from_torch, seed=1)
check_weights_from_torch(weights_from_torch, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Make a layer with `torch.nn.MultiheadAttention(6, 2)` and print name and shape of each parameter:
# `for name, p in layer.named_parameters(): print(name, tuple(p.shape))`. Then add `kdim=5, vdim=4`, and `bias=False`.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# A matrix with rows for the outputs becomes one with rows for the inputs. Which of the four weights need that?
#
# </details>

# %% [markdown]
# ## Task 7: heads that talk to each other (2 points)
#
# So far the heads do not know of each other until $W^O$ mixes their contexts. *Talking-heads attention* (Shazeer et al. 2020,
# arXiv:2003.02436) mixes them twice earlier: the scores before the softmax, and the weights after it. With two small
# learned matrices $B$ (before) and $A$ (after):
#
# $$ S'_{gqk} = \sum_h B_{gh} S_{hqk}, \qquad
# W_{gqk} = \underset{k}{\mathrm{softmax}}\; S'_{gqk}, \qquad
# W'_{gqk} = \sum_h A_{gh} W_{hqk} $$
#
# $B$ and $A$ need not be square: the number of heads between the mixings may be another one. They may hold negative
# numbers. So the mixed weights $W'$ may be negative, too, and need not sum to 1: return them as they are.
#
# - A key that a query may not attend to has the weight 0 in every head, before and after the second mixing. The others
#   share the whole weight in $W$. A query that may attend to no key has only weights 0. No `nan`, also not in gradients.
# - The mask has the shape (queries, keys), or (..., 1, queries, keys) with an axis of length 1 for the heads.
#
# **Why, and where it fits.** The library takes stage 2 of attention as an argument. With your function a layer of the library has
# heads that talk: `multihead_attention(…, normalise=lambda scores, mask: talking_softmax(scores, before, after, mask))` from
# `attncourse.multihead`, with `before` and `after` as `nn.Parameter`. With two identity matrices you get ordinary multi-head
# attention back, a good start for training.


# %% nbgrader={"grade": false, "grade_id": "talking_softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def talking_softmax(scores, before, after, mask=None):
    """Mix the scores of the heads, turn them into weights, and mix those.

    Args:
        scores: tensor of shape (..., heads, queries, keys).
        before: the matrix B, of shape (inner heads, heads).
        after: the matrix A, of shape (outer heads, inner heads).
        mask: None, or a boolean tensor of shape (queries, keys) or (..., 1, queries, keys), True where a query may
            attend to a key.

    Returns:
        The mixed weights, of shape (..., outer heads, queries, keys).
    """
    ### BEGIN SOLUTION
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is None:
        weights = mixed.softmax(dim=-1)
    else:
        weights = mixed.masked_fill(~mask, float("-inf")).softmax(dim=-1).masked_fill(~mask, 0.0)
    return torch.einsum("gh,...hqk->...gqk", after, weights)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_talking_softmax", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_talking_softmax(talking_softmax)
### BEGIN HIDDEN TESTS
check_talking_softmax(talking_softmax, seed=1)
check_talking_softmax(talking_softmax, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A mixing is a matrix product over the axis of the heads, which is not one of the last two. `torch.einsum` lets you
# name the axes, and `...` stands for those in front.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# What is $-\infty$ times a negative number? At which of the three steps should the mask come in?
#
# </details>

# %% [markdown]
# ## Task 8: what a second head can do (3 points)
#
# A query looks at two tokens. Their values are $(a_1, a_2)$ and $(b_1, b_2)$. The wanted output is $(a_1, b_2)$: the first number from
# the first token, the second number from the second token, **whatever the four numbers are**.
#
# (a) One head of width 2 has the weights $w$ and $1 - w$. After it comes any matrix $W^O$. Show with two or three choices of
# the four numbers that no $w$ and no $W^O$ give the wanted output for all of them.
#
# (b) Give the weights of two heads of width 1, and what $W^V$ and $W^O$ must do, so that the output is the wanted one.
#
# (c) A layer has `d_model = 512`. How many numbers do $W^Q$, $W^K$, $W^V$ and $W^O$ have together, with one head of width 512, and with
# eight heads of width 64? So what do eight heads cost?
#
# A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "what_a_second_head_can_do", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# (a) The head gives w · (a1, a2) + (1 − w) · (b1, b2), and W^O maps it linearly. Take a = (1, 0), b = (0, 0): the wanted output is
# (1, 0), so w · (1, 0) must be mapped to (1, 0); w is not 0. Take a = (0, 0), b = (1, 0): the wanted output is (0, 0), so
# (1 − w) · (1, 0) must be mapped to (0, 0). As (1, 0) is not mapped to 0, this needs w = 1. Take a = (0, 0), b = (0, 1): wanted is
# (0, 1), but with w = 1 the head gives (0, 0), which is mapped to (0, 0). So no choice works.
#
# (b) The first head has W^V that picks the first number and the weights (1, 0): it gives a1. The second picks the second number and has
# the weights (0, 1): it gives b2. Joined they are (a1, b2), and W^O is the identity.
#
# (c) In both cases each of the four has 512 · 512 numbers, together 1,048,576. Eight heads have the same number of parameters; they cut
# the width into parts, and the products need as many multiplications. (Only the weights cost more: there are eight maps in
# place of one.)

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    split_heads=1,
    merge_heads=1,
    multihead_attention=3,
    cross_attention=2,
    mask_heads=1,
    weights_from_torch=2,
    talking_softmax=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check multihead.ipynb` shows all results in one table.
