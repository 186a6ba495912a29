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
# # Position encoding
#
# Attention alone does not know in which order the tokens stand. In this set you write the ways to tell it: a table
# of sines and cosines, rotations of query and key, and biases that are added to the scores. You need PyTorch
# tensors, sine and cosine, and the scores of the set *Query, key, value in three stages*. You do not need the book,
# but its chapter *Position encoding* explains each step with pictures, in the same letters.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `sinusoidal` | 2 | 15 | ●○○ |
# | 2 | `shift_matrix` | 2 | 20 | ●●○ |
# | 3 | `project_concatenated` | 1 | 10 | ●○○ |
# | 4 | `rotate` | 3 | 25 | ●●● |
# | 5 | `shaw_bias` | 2 | 20 | ●●○ |
# | 6 | `alibi_bias` | 2 | 20 | ●●○ |
# | 7 | `log_decay_scores` | 2 | 20 | ●●○ |
# | 8 | a question, read by a person | 3 | 10 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum` and all other pieces of PyTorch are fine. The functions of `attncourse.position`
# are not. Your functions must let gradients pass and must not change their inputs. They return the dtype of
# their input. Where no input is a tensor of real numbers, they return `torch.float32`.
#
# **Letters.** Positions count from 0. A width $d$ is split into pairs of columns: pair $i$ (0, 1, 2, …) has the
# columns $2i$ and $2i + 1$. All angles in this set have the same form, with the base 10000:
#
# $$ \theta_i(p) = \frac{p}{10000^{\,2i / d}} $$

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'sinusoidal' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **The expanded size of the tensor (6) must match the existing size (7).** You write sines and cosines into
#   `table[:, 0::2]` and `table[:, 1::2]`. For an odd width the first has one column more.
# - **"exp" not implemented for 'Long'**, or angles that are all 0 or 1. Whole numbers stay whole numbers with
#   `//`. Divide with `/`, or begin with `torch.arange(…, dtype=torch.float32)`.
# - **index … is out of bounds for dimension 0.** You ask for a row that the table does not have. Print the smallest
#   and the largest of your row numbers. A negative number counts from the end and raises no error.
# - **The size of tensor a must match the size of tensor b.** A tensor of shape `(heads,)` meets the last axis of
#   a larger tensor. `x[:, None, None]` puts the heads in front of two other axes.
# - **rotated has the wrong dtype (expected torch.float16).** A product of float16 and float32 is float32. Convert
#   back at the end.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.position import (
    check_alibi_bias,
    check_log_decay_scores,
    check_project_concatenated,
    check_rotate,
    check_shaw_bias,
    check_shift_matrix,
    check_sinusoidal,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: sines and cosines (2 points)
#
# The Transformer adds a fixed vector to each token, which depends on its position $p$ alone (Vaswani et al. 2017,
# section 3.5). Column $2i$ and column $2i + 1$ use the same angle:
#
# $$ PE_{p,\,2i} = \sin \theta_i(p) \qquad PE_{p,\,2i+1} = \cos \theta_i(p)
#    \qquad \theta_i(p) = \frac{p}{10000^{\,2i / d}} $$
#
# Here $d$ is `d_model`. It may be odd: then the last column is a sine without a cosine, and the formula of the
# angle stays as it is.


# %% nbgrader={"grade": false, "grade_id": "sinusoidal", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sinusoidal(length, d_model):
    """Make the table of sines and cosines.

    Args:
        length: number of positions, 0 to length - 1.
        d_model: number of columns, even or odd.

    Returns:
        Tensor of shape (length, d_model) and dtype torch.float32.
    """
    ### BEGIN SOLUTION
    column = torch.arange(d_model)
    angle = torch.arange(length)[:, None] / 10000.0 ** (2 * (column // 2) / d_model)
    return torch.where(column % 2 > 0, torch.cos(angle), torch.sin(angle))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_sinusoidal", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_sinusoidal(sinusoidal)
### BEGIN HIDDEN TESTS
check_sinusoidal(sinusoidal, seed=1)
check_sinusoidal(sinusoidal, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down by hand the exponents $2i / d$ of all columns for $d = 6$. Which of them are equal?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Make all angles at once: positions as a column of numbers, frequencies as a row. Broadcasting gives the table.
#
# </details>

# %% [markdown]
# ## Task 2: one step further (2 points)
#
# Why sines *and* cosines? Because a step to another position is then the same linear map for all positions. There
# is exactly one matrix $M_k$ with
#
# $$ M_k \, PE_p = PE_{p+k} \qquad \text{for every position } p. $$
#
# The two angle-addition identities give it:
#
# $$ \sin(a + b) = \sin a \cos b + \cos a \sin b \qquad \cos(a + b) = \cos a \cos b - \sin a \sin b $$
#
# Build this matrix for an even `d_model`. The offset $k$ may be 0 or negative. $PE_p$ is a column of numbers here,
# with the order of Task 1. No system of equations has to be solved.


# %% nbgrader={"grade": false, "grade_id": "shift_matrix", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shift_matrix(offset, d_model):
    """Make the matrix that moves every encoding of Task 1 by the same number of positions.

    Args:
        offset: number of positions to move by; may be 0 or negative.
        d_model: width of an encoding, even.

    Returns:
        Tensor of shape (d_model, d_model) and dtype torch.float32. Its product with the encoding of any position p
        is the encoding of the position p + offset.
    """
    ### BEGIN SOLUTION
    even = torch.arange(0, d_model, 2)
    angle = offset / 10000.0 ** (even / d_model)
    matrix = torch.zeros(d_model, d_model)
    matrix[even, even] = matrix[even + 1, even + 1] = torch.cos(angle)
    matrix[even, even + 1] = torch.sin(angle)
    matrix[even + 1, even] = -torch.sin(angle)
    return matrix
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_shift_matrix", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_shift_matrix(shift_matrix)
### BEGIN HIDDEN TESTS
check_shift_matrix(shift_matrix, seed=1)
check_shift_matrix(shift_matrix, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Start with `d_model = 2`: which numbers multiply $\sin a$ and $\cos a$ to give $\sin(a + b)$? They are one row.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which columns does a pair need for its step? So where in the large matrix are there zeros?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Test it yourself: multiply your matrix with a row of your table, and compare with a later row.
#
# </details>

# %% [markdown]
# ## Task 3: beside, or added (1 point)
#
# A position may be added to a token, or put beside it. Adding seems to mix things up. But look at the projection
# that follows, with a weight $W = [W_x \; W_p]$ whose first columns meet the token and whose other columns meet
# the position:
#
# $$ W \begin{bmatrix} x \\ p \end{bmatrix} = W_x \, x + W_p \, p $$
#
# With $W_x = W_p$ this is $W_x (x + p)$: addition is a special case.
#
# Compute this product **without ever making the long vectors** $[x; p]$. The second term is the same for all
# sentences of a batch, so compute it once, for one sentence. The check counts the numbers that your function keeps
# on the way. The table may have more rows than the text has tokens: the first token stands at position 0.


# %% nbgrader={"grade": false, "grade_id": "project_concatenated", "locked": false, "schema_version": 3, "solution": true, "task": false}
def project_concatenated(inputs, table, weight):
    """Project each token with its position beside it.

    Args:
        inputs: tokens x, a tensor of shape (..., length, d_model).
        table: positions p, a tensor of shape (rows, d_position), with at least as many rows as there are tokens.
        weight: tensor of shape (d_out, d_model + d_position).

    Returns:
        Tensor of shape (..., length, d_out).
    """
    ### BEGIN SOLUTION
    length, d_model = inputs.shape[-2:]
    return inputs @ weight[:, :d_model].T + table[:length] @ weight[:, d_model:].T
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_project_concatenated", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_project_concatenated(project_concatenated)
### BEGIN HIDDEN TESTS
check_project_concatenated(project_concatenated, seed=1)
check_project_concatenated(project_concatenated, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Write the shapes of both terms. The second has no batch axes. What does `+` do with axes that are missing in front?
#
# </details>

# %% [markdown]
# ## Task 4: rotations (3 points)
#
# Rotary encoding (Su et al. 2021) adds nothing. It *turns* each pair of columns of query and key by an angle that
# grows with the position:
#
# $$ \begin{bmatrix} y_{2i} \\ y_{2i+1} \end{bmatrix} =
#    \begin{bmatrix} \cos \theta_i(p) & -\sin \theta_i(p) \\ \sin \theta_i(p) & \cos \theta_i(p) \end{bmatrix}
#    \begin{bmatrix} x_{2i} \\ x_{2i+1} \end{bmatrix}
#    \qquad \theta_i(p) = \frac{p}{10000^{\,2i / d_k}} $$
#
# The length of a vector stays the same. The dot product of a turned query and a turned key depends on their
# positions only by their distance.
#
# - **A pair is two neighbours**, the columns $2i$ and $2i + 1$. Much code pairs column $i$ with column
#   $i + d_k / 2$ instead. Both are fine, but weights that were learned with one do not fit the other.
# - Each head of each sentence is turned in the same way. The first token stands at the position `start`.
# - Half precision (`torch.float16`) goes in and comes out. It cannot tell the positions 3000 and 3001 apart: do not
#   compute angles in it.


# %% nbgrader={"grade": false, "grade_id": "rotate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rotate(inputs, start=0):
    """Turn each pair of neighbouring columns by an angle that grows with the position.

    Args:
        inputs: queries or keys, a tensor of shape (batch, heads, length, d_k), with an even d_k.
        start: position of the first token.

    Returns:
        Tensor of the shape and dtype of the inputs.
    """
    ### BEGIN SOLUTION
    *_, length, width = inputs.shape
    frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(start, start + length)[:, None] * frequency
    x, y = inputs[..., ::2], inputs[..., 1::2]
    turned = (x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos())
    return torch.stack(turned, dim=-1).flatten(-2).to(inputs.dtype)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_rotate", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_rotate(rotate)
### BEGIN HIDDEN TESTS
check_rotate(rotate, seed=1)
check_rotate(rotate, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `inputs[..., 0::2]` has all first columns of the pairs, `inputs[..., 1::2]` all second ones. Which shape must the
# angles have to fit them?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# How do two tensors of shape `(…, length, pairs)` become one in which their columns take turns? Look at what
# `torch.stack` with `dim=-1` gives, or write into every second column of a new tensor.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Which dtype has a product of a float16 and a float32 tensor? When is the right time to convert?
#
# </details>

# %% [markdown]
# ## Task 5: a vector for each distance (2 points)
#
# Shaw et al. (2018) learn a vector $a_m$ for each distance $m$ between key and query, and add its dot product with the
# query to the score, before the division by $\sqrt{d_k}$. Far distances share a vector: they are clipped to the
# largest, $M$.
#
# $$ B_{qk} = Q_q \cdot a_{m} \qquad m = \mathrm{clip}(p_k - p_q,\; -M,\; M) $$
#
# Here $p_k - p_q$ is the position of the key minus the position of the query: negative if the key comes first. The
# table has $2M + 1$ rows, for the distances $-M, \dots, 0, \dots, M$ in this order.
#
# **Queries in the middle of a text.** When a model writes token by token, old keys are kept, and the queries are the
# last tokens. `past` is the number of keys before the first query. So there are `past + queries` keys, and query 0
# stands at position `past`.


# %% nbgrader={"grade": false, "grade_id": "shaw_bias", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shaw_bias(query, table, past=0):
    """Compare each query with the vector of its distance to each key.

    Args:
        query: tensor of shape (..., queries, d_k).
        table: tensor of shape (2 M + 1, d_k), with one row for each distance from -M to M.
        past: number of keys before the first query.

    Returns:
        Tensor of shape (..., queries, past + queries), not yet divided by the root of d_k.
    """
    ### BEGIN SOLUTION
    queries, most = query.shape[-2], len(table) // 2
    distance = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    vectors = table[distance.clamp(-most, most) + most]
    return torch.einsum("...qd,qkd->...qk", query, vectors)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_shaw_bias", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_shaw_bias(shaw_bias)
### BEGIN HIDDEN TESTS
check_shaw_bias(shaw_bias, seed=1)
check_shaw_bias(shaw_bias, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First make the table of distances, of shape `(queries, past + queries)`, and print it for 3 queries and `past=2`.
# Where are its zeros?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# A tensor of whole numbers can be an index: `table[rows]` has the shape of `rows`, and one axis more.
#
# </details>

# %% [markdown]
# ## Task 6: a straight line (2 points)
#
# ALiBi (Press et al. 2022) has nothing to learn. Head $h$ gets a slope $s_h$, and the scores fall with the distance:
#
# $$ B_{hqk} = - s_h \, |p_k - p_q| $$
#
# A key after the query gets the same bias as a key at the same distance before it; whether it may be seen is
# the mask's business.
#
# **The slopes.** If the number of heads $n$ is a power of two (1, 2, 4, 8, …), head $h = 1, 2, \dots, n$ has the slope
# $2^{-8h/n}$. Otherwise let $n'$ be the next lower power of two. The first $n'$ heads get the slopes for $n'$ heads.
# The others get the first, third, fifth … slope for $2n'$ heads, in this order. (For 6 heads: four slopes for
# $n' = 4$, then the first and the third for 8 heads.)


# %% nbgrader={"grade": false, "grade_id": "alibi_bias", "locked": false, "schema_version": 3, "solution": true, "task": false}
def alibi_bias(heads, queries, past=0):
    """Give each head a bias that falls with the distance.

    Args:
        heads: number of heads, at least 1.
        queries: number of queries.
        past: number of keys before the first query, as in Task 5.

    Returns:
        Tensor of shape (heads, queries, past + queries) and dtype torch.float32.
    """
    ### BEGIN SOLUTION
    lower = 2 ** (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2.0 ** (-4 * i / lower) for i in range(1, 2 * (heads - lower), 2)]
    distance = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    return -torch.tensor(slopes)[:, None, None] * distance.abs()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_alibi_bias", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_alibi_bias(alibi_bias)
### BEGIN HIDDEN TESTS
check_alibi_bias(alibi_bias, seed=1)
check_alibi_bias(alibi_bias, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First write the slopes for 8 heads. They are 1/2, 1/4, … 1/256. Then the slopes for 6 heads, by hand.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The bias is a product of slopes of shape `(heads, 1, 1)` and distances of shape `(queries, keys)`.
#
# </details>

# %% [markdown]
# ## Task 7: a decay that is learned (2 points)
#
# This function is new: the library does not have it. A straight line soon forbids everything that is far away. A
# logarithm falls fast at first and then more and more slowly. KERPLE (Chi et al. 2022) uses it, with two
# learned numbers for each head. Here they are called the strength $a_h$ and the rate $r_h$:
#
# $$ S_{hqk} = \frac{Q_{hq} \cdot K_{hk}}{\sqrt{d_k}}
#    \; - \; \mathrm{softplus}(a_h) \, \ln\bigl(1 + \mathrm{softplus}(r_h) \, |p_k - p_q|\bigr) $$
#
# $\mathrm{softplus}(x) = \ln(1 + e^x)$ keeps both numbers positive, whatever the training does to $a_h$ and $r_h$. These may
# be large: $e^{200}$ does not exist in `float32`, and the softplus of 200 is nearly 200.
# The queries are the last tokens of the text, as in Task 5: `past` is the number of keys minus the number of queries.
#
# The result takes the place of the scores in the library's `attend`, like this:
# `attend(query, key, value, mask, score=lambda q, k: log_decay_scores(q, k, strength, rate))`.


# %% nbgrader={"grade": false, "grade_id": "log_decay_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def log_decay_scores(query, key, strength, rate):
    """Compare queries with keys, less a decay with the distance that each head learns.

    Args:
        query: tensor of shape (batch, heads, queries, d_k).
        key: tensor of shape (batch, heads, keys, d_k). The queries stand at its last positions.
        strength: the numbers a, a tensor of shape (heads,); any real numbers.
        rate: the numbers r, a tensor of shape (heads,); any real numbers.

    Returns:
        Scores of shape (batch, heads, queries, keys).
    """
    ### BEGIN SOLUTION
    scores = query @ key.mT / query.shape[-1] ** 0.5
    *_, queries, keys = scores.shape
    distance = (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()
    a = torch.nn.functional.softplus(strength)[:, None, None]
    r = torch.nn.functional.softplus(rate)[:, None, None]
    return scores - a * torch.log(1 + r * distance)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_log_decay_scores", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_log_decay_scores(log_decay_scores)
### BEGIN HIDDEN TESTS
check_log_decay_scores(log_decay_scores, seed=1)
check_log_decay_scores(log_decay_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write the shape of each factor of the decay, and put axes of length 1 where one is missing.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# What is the decay at the distance 0? Your code should give this number without a special case.
#
# </details>

# %% [markdown]
# ## Task 8: how far does a head see? (3 points)
#
# A model with ALiBi has eight heads and was trained on texts of 512 tokens. Suppose that in the first head and in the
# last one all dot products of a query with its keys are equal, so that the bias alone makes the weights.
#
# 1. For both heads: by which factor is the weight of a key at the distance 20 smaller than that of a key at the
#    distance 0? Give two numbers.
# 2. The model now reads a text of 3000 tokens. Which of the two heads meets something that it has not met in
#    training, and how much does it matter? Reason with numbers.
# 3. What would a table of 512 learned positions do with the token at position 600, and what would the table of Task 1
#    do?
#
# A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "how_far_a_head_sees", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# 1. The slopes are 1/2 and 1/256. The factors are exp(−20/2) = exp(−10) ≈ 0.00005, and exp(−20/256) ≈ 0.92.
# 2. The first head sees almost nothing beyond 20 or 30 tokens, in a short text and in a long one: nothing changes for
#    it. The last head meets distances above 512, with biases below −2, down to −11.7. Never seen in training, but of
#    little weight: all keys beyond 512 together have about exp(−2) ≈ 14 % of the weight of a very long text, so 86 %
#    lies where it was in training.
# 3. The learned table has no row 600, so there is no answer at all (or, if rows are added, one that was never
#    trained). The table of Task 1 has a row for every position. But the model has never met this combination of
#    sines and cosines, so nobody knows what it makes of it.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    sinusoidal=2,
    shift_matrix=2,
    project_concatenated=1,
    rotate=3,
    shaw_bias=2,
    alibi_bias=2,
    log_decay_scores=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check position.ipynb` shows all results in one table.
