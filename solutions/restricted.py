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
# # Limitations, and restricted attention
#
# Attention compares each token with each other one. In this set you count what that costs, and write forms that cost
# less: attention to a window, attention that reads its keys in chunks, a sparse pattern. You also build a
# convolution from attention heads, and write a test that finds windows of the wrong size. You need PyTorch tensors
# and the three stages of attention (the set *Query, key, value in three stages*). You do not need the book, but its
# chapter *Limitations, and restricted attention* explains each step with pictures, in the same letters.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `layer_costs` | 2 | 20 | ●●○ |
# | 2 | `band_mask` | 1 | 10 | ●○○ |
# | 3 | `window_attention` | 3 | 30 | ●●● |
# | 4 | `assert_window` | 2 | 25 | ●●○ |
# | 5 | `streaming_attention` | 3 | 35 | ●●● |
# | 6 | `convolution_as_attention` | 2 | 20 | ●●○ |
# | 7 | `strided_mask` | 1 | 10 | ●○○ |
# | 8 | a question, read by a person | 3 | 15 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, `softmax` and all other pieces of PyTorch are fine. A function that does a whole
# task by itself is not, for example `F.scaled_dot_product_attention`, `F.conv1d`, or the functions of
# `attncourse.restricted`. Your functions must let gradients pass, must not change their inputs, and must return the
# dtype that they were given.
#
# **Words.** In all tasks a *window of width* $w$ means $w$ keys: the query's own key and the $w - 1$ keys before it.
# A mask is boolean, and **True means "may attend"**.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'band_mask' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **it costs too much: it keeps more than … numbers on the way.** Somewhere your code makes a matrix of all queries
#   and all keys, perhaps row by row. A slice `key[..., first:stop, :]` takes only the keys that are needed.
# - **TypeError: 'zip' object is not subscriptable**, or **object of type … has no len()**. `chunks` is an iterator.
#   Use it in a `for` loop.
# - **MemoryError: chunks that were read before are still kept.** A list (also the one that `zip(*chunks)` makes) holds
#   chunks that you do not need any more. Keep sums instead.
# - **nan in some rows.** `float("-inf") - float("-inf")` is `nan`, and so is `0 / 0`.
# - **one of the variables needed for gradient computation has been modified by an inplace operation.** You write into
#   a tensor after it was used. First fill it, then use it.
# - **AssertionError in a cell of Task 4.** That is your own test, and it found something.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.restricted import (
    check_assert_window,
    check_band_mask,
    check_convolution_as_attention,
    check_layer_costs,
    check_streaming_attention,
    check_strided_mask,
    check_window_attention,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: what a layer costs (2 points)
#
# Table 1 of Vaswani et al. (2017) compares layers by three numbers, without constant factors. Here you count exactly,
# for a text of $n$ tokens with vectors of width $d$ (in and out).
#
# **Operations** are multiplications of two numbers. Additions, divisions, softmax, and what is done to each number on
# its own are not counted.
#
# - `"self-attention"`, with one head: three projections make query, key and value of each token, each by a matrix of
#   $d \times d$. Then come the scores (each query with each key), and the weighted sums of the values (each weight
#   times each entry of its value). There is no projection of the output.
# - `"restricted"`: the same, but each query sees only $w$ keys. Each position counts as having $w$ keys, also the first
#   ones.
# - `"recurrent"`: each step multiplies the token by one matrix of $d \times d$, and the last state by another.
# - `"convolutional"`: each position multiplies its own token and the $w - 1$ tokens before it by one matrix of
#   $d \times d$ each. Zeros before the first token are multiplied, too.
#
# **Steps** that must wait for each other: how many positions have to be computed one after the other? 1 if all can
# be computed at the same time.
#
# **Path**: how many steps does the first token need until it reaches the output at the last position? Passing through
# one layer is one step, and passing through one step of a recurrence is one step. Where one layer is not enough, layers
# of the same kind are put on top of each other, as many as needed. The last state of a recurrent layer is reached
# after $n$ steps: the first step takes the first token into the first state.


# %% nbgrader={"grade": false, "grade_id": "layer_costs", "locked": false, "schema_version": 3, "solution": true, "task": false}
def layer_costs(layer, length, d_model, width=None):
    """Count what one layer costs, and how far apart it puts the first and the last token.

    Args:
        layer: "self-attention", "restricted", "recurrent" or "convolutional".
        length: number of tokens n, at least 1.
        d_model: width d of each vector.
        width: number of positions w that one position sees, at least 2; None for the layers that have no width.

    Returns:
        A tuple (operations, steps, path) of three numbers.
    """
    ### BEGIN SOLUTION
    if layer == "recurrent":
        return 2 * length * d_model**2, length, length
    seen = length if layer == "self-attention" else width
    operations = length * (3 * d_model**2 + 2 * seen * d_model)
    if layer == "convolutional":
        operations = length * seen * d_model**2
    path = 1
    while 1 + path * (seen - 1) < length:
        path += 1
    return operations, 1, path
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_layer_costs", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_layer_costs(layer_costs)
### BEGIN HIDDEN TESTS
check_layer_costs(layer_costs, seed=1)
check_layer_costs(layer_costs, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A matrix of $d \times d$ times a vector: how many multiplications? A dot product of width $d$: how many?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Draw eight tokens and layers with $w = 3$. Which tokens does the last position see through one layer, through
# two, through three?
#
# </details>

# %% [markdown]
# ## Task 2: a band (1 point)
#
# Query $i$ and key $j$ are positions. A window of width $w$ lets a query see the keys with
#
# $$ i - w < j \le i \qquad (\text{causal}), \qquad\qquad i - w < j < i + w \qquad (\text{not causal}). $$
#
# `past` is the number of keys before the first query: there are `past + queries` keys, and query 0 stands at position
# `past`.


# %% nbgrader={"grade": false, "grade_id": "band_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def band_mask(queries, width, causal=True, past=0):
    """Let each query see the keys in its window.

    Args:
        queries: number of queries.
        width: number of keys w in a causal window, at least 1.
        causal: whether keys after the query are hidden.
        past: number of keys before the first query.

    Returns:
        Boolean tensor of shape (queries, past + queries), True where a query may attend to a key.
    """
    ### BEGIN SOLUTION
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    mask = distance.abs() < width
    return mask & (distance >= 0) if causal else mask
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_band_mask", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_band_mask(band_mask)
### BEGIN HIDDEN TESTS
check_band_mask(band_mask, seed=1)
check_band_mask(band_mask, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Make a table of the distances $i - j$ first. Which distances may be seen?
#
# </details>

# %% [markdown]
# ## Task 3: a window, without the large matrix (3 points)
#
# Attention with the causal mask of Task 2 gives each query the average of at most $w$ values. But a mask does not save
# anything: all $n^2$ scores are computed, and most are thrown away.
#
# Compute the same result at a cost that grows with $n \cdot w$. The check counts the numbers that your function keeps
# on the way. The scores are scaled dot products, divided by $\sqrt{d_k}$. The first queries see fewer than $w$ keys:
# nothing else takes part in their softmax.
#
# A loop over the queries is fine. Faster code works on all queries at once: for each query gather its $w$
# keys, or cut the text into blocks of $w$ queries. Half precision goes in and comes out.


# %% nbgrader={"grade": false, "grade_id": "window_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def window_attention(query, key, value, width):
    """Attend from each position to the keys in its causal window.

    Args:
        query: tensor of shape (..., length, d_k).
        key: tensor of shape (..., length, d_k).
        value: tensor of shape (..., length, d_v).
        width: number of keys w in a window, at least 1.

    Returns:
        Context of shape (..., length, d_v).
    """
    ### BEGIN SOLUTION
    contexts = []
    for i in range(query.shape[-2]):
        near_key, near_value = (x[..., : i + 1, :][..., -width:, :] for x in (key, value))
        scores = query[..., i, None, :] @ near_key.mT / query.shape[-1] ** 0.5
        contexts.append(torch.softmax(scores, dim=-1) @ near_value)
    return torch.cat(contexts, dim=-2)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_window_attention", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_window_attention(window_attention)
### BEGIN HIDDEN TESTS
check_window_attention(window_attention, seed=1)
check_window_attention(window_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Begin with one query: which slice of the keys does it need? What is different for the first queries?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# If you put $w - 1$ zeros before the first key, all windows have $w$ keys. Which weight would a zero get, and which
# should it get?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# A slice with a negative start counts from the end. Test your code with a text shorter than the window.
#
# </details>

# %% [markdown]
# ## Task 4: a test for windows (2 points)
#
# Windows that are one key too wide or too narrow are among the most frequent bugs in code for attention. The
# values look fine, and the model trains. A test finds them. Write one.
#
# Your function gets a `layer`: a function that takes a tensor of shape `(length, d_model)`, for any length, and returns
# one of the same shape and dtype. The layer should use **exactly** a causal window: the output at a position
# depends on each of the `width` tokens of its window, and on no other token. Your function raises an `AssertionError`
# (for example by `assert`) if that is not so. If the layer is right, it returns nothing.
#
# - Choose the inputs yourself. The first positions, the last one, and each feature may be the ones that are wrong.
# - Some layers depend on a token only a little. A leak, or an effect, of a hundredth still counts.
# - Some good layers have rounding errors: `==` is too strict in `torch.float32`. All layers work in `torch.float64`, too.
# - Gradients pass through all layers, if you want to use them.


# %% nbgrader={"grade": false, "grade_id": "assert_window", "locked": false, "schema_version": 3, "solution": true, "task": false}
def assert_window(layer, width, d_model):
    """Raise an AssertionError if a layer does not use exactly a causal window.

    Args:
        layer: function from (length, d_model) to (length, d_model).
        width: number of tokens that each output should depend on: its own and those before it; at least 3.
        d_model: number of features.
    """
    ### BEGIN SOLUTION
    position = torch.arange(3 * width)
    x = torch.randn(len(position), d_model)
    depends = torch.autograd.functional.jacobian(layer, x).any(dim=3).any(dim=1)
    distance = position[:, None] - position
    assert not (depends ^ ((distance >= 0) & (distance < width))).any()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_assert_window", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_assert_window(assert_window)
### BEGIN HIDDEN TESTS
check_assert_window(assert_window, seed=1)
check_assert_window(assert_window, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Change one token, and look which outputs change. Which should change, and which should not?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Try your test on a layer of your own, with a bug that you put in: one key too many, one too few, nothing at all.
#
# </details>

# %% [markdown]
# ## Task 5: attention in chunks (3 points)
#
# If all keys are to be seen, but do not fit into memory at the same time, they can be read in chunks. Then no
# $n \times m$ matrix is ever kept. The softmax seems to forbid this: it divides by a sum over *all* keys. But a sum can
# be carried on from chunk to chunk (Milakov and Gimelshein 2018), and this is the core of fast attention kernels.
#
# Your function gets an **iterator** of chunks, each a pair of scores and values. It returns what the softmax over all
# keys of all chunks together gives:
#
# $$ C_{qv} = \frac{\sum_k \exp(S_{qk}) \, V_{kv}}{\sum_k \exp(S_{qk})} $$
#
# - You can read each chunk once. Keep what you need for the result, and not the chunks.
# - Chunks may have different numbers of keys. There is at least one chunk, and each has at least one key.
# - Scores may be very large, or far below 0: `exp` of them is infinite, or 0. The result must be right.
# - A score of $-\infty$ means "masked". It may be that a query has nothing but masked keys in one chunk, the first for
#   example. If a query has nothing but masked keys in all chunks, its context is 0.
# - The scores are scaled already.


# %% nbgrader={"grade": false, "grade_id": "streaming_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def streaming_attention(chunks):
    """Average the values of all chunks, with the softmax of all scores as weights.

    Args:
        chunks: iterator of pairs (scores, value), of shapes (..., queries, keys) and (..., keys, d_v). The number of
            keys may differ from chunk to chunk.

    Returns:
        Context of shape (..., queries, d_v).
    """
    ### BEGIN SOLUTION
    largest = torch.tensor(float("-inf"))
    total = context = 0
    for scores, value in chunks:
        before, largest = largest, torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        finite = largest.clamp(min=torch.finfo(scores.dtype).min)
        shrink, weights = torch.exp(before - finite), torch.exp(scores - finite)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        context = context * shrink + weights @ value
    return context / total.clamp(min=1)  # where a key was seen, the largest score has the weight 1
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_streaming_attention", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_streaming_attention(streaming_attention)
### BEGIN HIDDEN TESTS
check_streaming_attention(streaming_attention, seed=1)
check_streaming_attention(streaming_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First forget that scores may be large. Which two sums have to be carried on? When do you divide?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# A softmax does not change if the same number is subtracted from all scores of a query. Usually that is the largest
# score. Here you know only the largest score *so far*. If it rises from $a$ to $b$: by which factor are the sums
# that you have now too large?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# As long as a query has seen only $-\infty$: what is its largest score, and what must not be subtracted from what?
#
# </details>

# %% [markdown]
# ## Task 6: a convolution made of heads (2 points)
#
# Can attention do what a convolution does? Cordonnier et al. (2020) show that it can, with one head for each entry of
# the kernel and weights that depend on the relative position alone. For a sequence and a kernel of odd width
# $H$, head $h$ ($0, 1, \dots, H - 1$) looks at exactly one key: the one at the offset
#
# $$ k - q = h - \frac{H - 1}{2} $$
#
# Its weight is 1, and all others are 0. If that key would lie beyond the text, all weights of the query are 0. Each head
# projects the tokens by its own matrix $F_h$, and the heads are added up:
#
# $$ C_q = \sum_h \sum_k W_{hqk} \, F_h X_k $$
#
# The context is then what `F.conv1d` gives with zeros as padding, for a kernel with the same axes. Return it together
# with the weights.


# %% nbgrader={"grade": false, "grade_id": "convolution_as_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def convolution_as_attention(inputs, weight):
    """Convolve a sequence by attention heads that look at one offset each.

    Args:
        inputs: tokens X, a tensor of shape (..., length, d_in).
        weight: kernel F, a tensor of shape (d_out, d_in, heads) with an odd number of heads. Its last axis counts the
            heads.

    Returns:
        A tuple (context, weights), of shapes (..., length, d_out) and (heads, length, length).
    """
    ### BEGIN SOLUTION
    heads, position = weight.shape[-1], torch.arange(inputs.shape[-2])
    offset = torch.arange(heads)[:, None, None] - heads // 2
    weights = (position - position[:, None] == offset).to(inputs.dtype)
    return torch.einsum("hqk,...kc,och->...qo", weights, inputs, weight), weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_convolution_as_attention", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_convolution_as_attention(convolution_as_attention)
### BEGIN HIDDEN TESTS
check_convolution_as_attention(convolution_as_attention, seed=1)
check_convolution_as_attention(convolution_as_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Draw the weights of three heads for five tokens. In each there is one diagonal of ones. Where?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `weight[:, :, h]` is the matrix of one head, of shape `(d_out, d_in)`. One head after the other is fine.
#
# </details>

# %% [markdown]
# ## Task 7: near keys, and far ones in strides (1 point)
#
# This mask is new: the library does not have it. A window forgets what is far away. The Sparse Transformer (Child et
# al. 2019, the *strided* pattern) adds far keys, but few of them. With stride $s$, query $i$ sees key $j \le i$ if **at
# least one** holds:
#
# - the key is near: $i - j < s$;
# - the key is a multiple of $s$ steps back: $i - j$ is $0, s, 2s, 3s, \dots$
#
# With $s \approx \sqrt n$ each query sees about $2 \sqrt n$ keys, and through two such layers every earlier token
# reaches every later one. Plug the mask into the library's `attend`: `attend(query, key, value, strided_mask(n, s))`.
# `past` is the number of keys before the first query, as in Task 2.


# %% nbgrader={"grade": false, "grade_id": "strided_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def strided_mask(queries, stride, past=0):
    """Let each query see its nearest keys, and every stride-th key before them.

    Args:
        queries: number of queries.
        stride: number of nearest keys, and step between the far ones, at least 1.
        past: number of keys before the first query.

    Returns:
        Boolean tensor of shape (queries, past + queries), True where a query may attend to a key.
    """
    ### BEGIN SOLUTION
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_strided_mask", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_strided_mask(strided_mask)
### BEGIN HIDDEN TESTS
check_strided_mask(strided_mask, seed=1)
check_strided_mask(strided_mask, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Write the two conditions as two boolean tensors and print them. How are they joined? What limits both?
#
# </details>

# %% [markdown]
# ## Task 8: choose a layer (3 points)
#
# A model is to read texts of $n = 4096$ tokens, with vectors of width $d = 512$. It has eight layers. Somebody proposes
# attention with a causal window of $w = 256$ in place of full attention, and says: *that is 16 times cheaper.*
#
# 1. Is it? Compare the operations of one layer as counted in Task 1, and say where the difference comes from.
# 2. Can the last token depend on the first one in this model? Give numbers.
# 3. Somebody else proposes the pattern of Task 7 with the stride 64. How many keys does a query see at most, and how
#    many layers are needed for the first token to reach the last one?
#
# A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "choose_a_layer", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# 1. The projections cost 3nd² = 3.2 billion in both. The rest is 2n²d = 17.2 billion for full attention and
#    2wnd = 1.1 billion with the window. This part is 16 times smaller (n/w). Together it is 20.4 against 4.3 billion:
#    about 4.8 times cheaper. The projections do not become cheaper by a window.
# 2. One layer reaches 255 tokens back, eight reach 8 · 255 = 2040. The first token is 4095 tokens before the last, so
#    nothing of it can arrive. It takes 17 layers (17 · 255 = 4335).
# 3. The last query sees 64 near keys, its own included. Its far keys are the distances 64, 128, …, 4032: 63 keys. So it
#    sees at most 127 keys. Two layers are enough: one step takes the first token to a position with a multiple of 64 in
#    between, the other takes it on. (0 → 4032 is 63 strides, and 4032 → 4095 are 63 steps, which is near.)

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    layer_costs=2,
    band_mask=1,
    window_attention=3,
    assert_window=2,
    streaming_attention=3,
    convolution_as_attention=2,
    strided_mask=1,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check restricted.ipynb` shows all results in one table.
