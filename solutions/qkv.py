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
# # Query, key, value in three stages
#
# In this set you write attention yourself, one stage after the other. Then you exchange its parts: other scores,
# sharper weights, weights that are exactly 0, and a form whose cost grows much more slowly. You need PyTorch tensors and matrix products. You do not need the book, but the chapter
# *Query, key, value in three stages* of the book explains each step with pictures, in the same letters.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `scaled_dot_scores` | 2 | 10 | ●○○ |
# | 2 | `masked_softmax` | 4 | 25 | ●●○ |
# | 3 | `weighted_sum` | 2 | 5 | ●○○ |
# | 4 | `attend` | 3 | 15 | ●●○ |
# | 5 | `cosine_scores` | 1 | 10 | ●○○ |
# | 6 | `softmax_with_temperature` | 1 | 5 | ●○○ |
# | 7 | `entropy` | 1 | 10 | ●●○ |
# | 8 | `linear_attention` | 4 | 25 | ●●● |
# | 9 | `sparsemax` | 4 | 35 | ●●● |
# | 10 | a question, read by a person | 3 | 10 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, and `torch.softmax` are all fine. A function that does a whole task by itself
# is not, for example `F.scaled_dot_product_attention` or the functions of `attncourse.qkv`. Your functions must
# let gradients pass, must not change their inputs, and must return the dtype that they were given.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'scaled_dot_scores' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **mat1 and mat2 shapes cannot be multiplied.** Print both shapes. `x @ y` needs the last axis of `x` to be as
#   long as the last but one of `y`. `x.mT` swaps the last two axes and leaves batch axes alone; `x.T` does not.
# - **The size of tensor a must match the size of tensor b at non-singleton dimension ….** Write both shapes under each
#   other, aligned at the right. Where one has a number that the other lacks, an axis of length 1 is missing:
#   `x.unsqueeze(-1)` adds one in the last place.
# - **a leaf Variable that requires grad is being used in an in-place operation.** Your code changes an input.
#   Make a new tensor.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.qkv import (
    check_attend,
    check_cosine_scores,
    check_entropy,
    check_linear_attention,
    check_masked_softmax,
    check_scaled_dot_scores,
    check_softmax_with_temperature,
    check_sparsemax,
    check_weighted_sum,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: scores (2 points)
#
# Stage 1 compares each query $Q_q$ with each key $K_k$. Both are vectors of the same width $d_k$. The score is
# their scaled dot product:
#
# $$ S_{qk} = \frac{1}{\sqrt{d_k}} \sum_d Q_{qd} K_{kd} $$
#
# The inputs may have more axes in front, for example a batch of sentences. They pass through unchanged.


# %% nbgrader={"grade": false, "grade_id": "scaled_dot_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scaled_dot_scores(query, key):
    """Compare each query with each key.

    Args:
        query: tensor of shape (..., queries, d_k).
        key: tensor of shape (..., keys, d_k).

    Returns:
        Scores of shape (..., queries, keys).
    """
    ### BEGIN SOLUTION
    return query @ key.mT / query.shape[-1] ** 0.5
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_scaled_dot_scores", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_scaled_dot_scores(scaled_dot_scores)
### BEGIN HIDDEN TESTS
check_scaled_dot_scores(scaled_dot_scores, seed=1)
check_scaled_dot_scores(scaled_dot_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down the shape of the query, the shape of the key, and the shape of the result. Which axis has to vanish?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# With two tensors that have only their last two axes, which function turns `(queries, d_k)` and `(d_k, keys)`
# into `(queries, keys)`? Does it work with more axes in front, too?
#
# </details>

# %% [markdown]
# ## Task 2: weights (4 points)
#
# Stage 2 turns the scores of one query into weights: a distribution over the keys.
#
# $$ W_{qk} = \frac{\exp S_{qk}}{\sum_{j} \exp S_{qj}} $$
#
# Not every query may look at every key. A *mask* says which: it is boolean, and **True means "may attend"**.
#
# - A key that a query may not attend to gets the weight 0. The others share the whole weight.
# - If a query may attend to no key, all its weights are 0. Neither the weights nor their gradients may be `nan`.
# - It has to work for large scores, and in half precision (`torch.float16`).


# %% nbgrader={"grade": false, "grade_id": "masked_softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def masked_softmax(scores, mask=None):
    """Turn scores into weights.

    Args:
        scores: tensor of shape (..., queries, keys).
        mask: None, or a boolean tensor of shape (queries, keys), True where a query may attend to a key.

    Returns:
        Weights of the shape of the scores. The weights of a query sum to 1, or are all 0 if its mask is all False.
    """
    ### BEGIN SOLUTION
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_masked_softmax", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check_masked_softmax(masked_softmax)
### BEGIN HIDDEN TESTS
check_masked_softmax(masked_softmax, seed=1)
check_masked_softmax(masked_softmax, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First do it without a mask, and look at the row sums: `weights.sum(dim=-1)`.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which score would give a key the weight 0, and leave the weights of the others as if the key were not there?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Try one row whose mask is all False. What does the softmax divide by? You can mend the row before the softmax or
# after it. Check the gradient in both cases: `weights.sum().backward()`, then look at `scores.grad`.
#
# </details>

# %% [markdown]
# ## Task 3: context (2 points)
#
# Stage 3 adds up the values, each with its weight:
#
# $$ C_{qv} = \sum_k W_{qk} V_{kv} $$
#
# This stage takes the weights as they are. They need not sum to 1.


# %% nbgrader={"grade": false, "grade_id": "weighted_sum", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weighted_sum(weights, value):
    """Add up the values, each with its weight.

    Args:
        weights: tensor of shape (..., queries, keys).
        value: tensor of shape (..., keys, d_v).

    Returns:
        Context of shape (..., queries, d_v).
    """
    ### BEGIN SOLUTION
    return weights @ value
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_weighted_sum", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_weighted_sum(weighted_sum)
### BEGIN HIDDEN TESTS
check_weighted_sum(weighted_sum, seed=1)
check_weighted_sum(weighted_sum, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# The sum over $k$ runs over an axis that weights and values share. Where does it stand in each?
#
# </details>

# %% [markdown]
# ## Task 4: attention (3 points)
#
# Put the three stages together. This is the attention of the Transformer (Vaswani et al. 2017, equation 1):
#
# $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V $$
#
# You may call your own functions from above. Return both the context and the weights, in this order.


# %% nbgrader={"grade": false, "grade_id": "attend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(query, key, value, mask=None):
    """Attend from each query to all keys that its mask allows.

    Args:
        query: tensor of shape (..., queries, d_k).
        key: tensor of shape (..., keys, d_k).
        value: tensor of shape (..., keys, d_v).
        mask: None, or a boolean tensor of shape (queries, keys), True where a query may attend to a key.

    Returns:
        A tuple (context, weights), of shapes (..., queries, d_v) and (..., queries, keys).
    """
    ### BEGIN SOLUTION
    weights = masked_softmax(scaled_dot_scores(query, key), mask)
    return weighted_sum(weights, value), weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_attend", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_attend(attend)
### BEGIN HIDDEN TESTS
check_attend(attend, seed=1)
check_attend(attend, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Which of your functions takes what which other one returns? Two of the three results are returned in the end.
#
# </details>

# %% [markdown]
# ## Task 5: cosine scores (1 point)
#
# A dot product grows with the lengths of both vectors. The cosine of the angle between them does not:
#
# $$ S_{qk} = \frac{\sum_d Q_{qd} K_{kd}}{\lVert Q_q \rVert \, \lVert K_k \rVert}, \qquad \lVert x \rVert = \sqrt{\textstyle\sum_d x_d^2} $$
#
# It lies between −1 and 1, whatever the vectors are. A vector of length 0 has no direction: its scores are 0. A
# number that you add to a divisor, to keep it from being 0, must be so small that vectors of length 0.1 still get
# the right cosine: at most 1e-8. (Gradients at vectors of length 0 are not judged.) `F.cosine_similarity` is the whole answer, so it is not allowed here.


# %% nbgrader={"grade": false, "grade_id": "cosine_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cosine_scores(query, key):
    """Compare each query with each key by the cosine of their angle.

    Args:
        query: tensor of shape (..., queries, d_k).
        key: tensor of shape (..., keys, d_k).

    Returns:
        Scores of shape (..., queries, keys), between -1 and 1; 0 for a vector of length 0.
    """
    ### BEGIN SOLUTION
    query = torch.nn.functional.normalize(query, dim=-1)
    key = torch.nn.functional.normalize(key, dim=-1)
    return query @ key.mT
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_cosine_scores", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_cosine_scores(cosine_scores)
### BEGIN HIDDEN TESTS
check_cosine_scores(cosine_scores, seed=1)
check_cosine_scores(cosine_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# What is the dot product of two vectors of length 1?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which of your vectors have length 0, and which step divides by it? There are functions that handle it for you.
#
# </details>

# %% [markdown]
# ## Task 6: a softmax with a temperature (1 point)
#
# Cosines lie between −1 and 1, so a softmax of them is nearly flat. A *temperature* $T > 0$ makes it sharper or
# flatter:
#
# $$ W_{qk} = \frac{\exp(S_{qk} / T)}{\sum_j \exp(S_{qj} / T)} $$
#
# With $T \to 0$ the largest score takes all, with $T \to \infty$ all keys get the same. There is no mask in this
# task. It has to work for a $T$ as small as 0.001.


# %% nbgrader={"grade": false, "grade_id": "softmax_with_temperature", "locked": false, "schema_version": 3, "solution": true, "task": false}
def softmax_with_temperature(scores, temperature):
    """Turn scores into weights, sharper for a low temperature.

    Args:
        scores: tensor of shape (..., queries, keys).
        temperature: a number above 0.

    Returns:
        Weights of the shape of the scores. The weights of a query sum to 1.
    """
    ### BEGIN SOLUTION
    return torch.softmax(scores / temperature, dim=-1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_softmax_with_temperature", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_softmax_with_temperature(softmax_with_temperature)
### BEGIN HIDDEN TESTS
check_softmax_with_temperature(softmax_with_temperature, seed=1)
check_softmax_with_temperature(softmax_with_temperature, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Should the scores get larger or smaller for a low temperature? Try `temperature = 0.1` on one row of three.
#
# </details>

# %% [markdown]
# ## Task 7: the entropy of the weights (1 point)
#
# How widely does a query spread its attention? The entropy of its weights says it in one number, here in nats
# (natural logarithm):
#
# $$ H_q = -\sum_k W_{qk} \log W_{qk} $$
#
# It is 0 when one key has the whole weight, and $\log n$ when $n$ keys share it equally. A weight of exactly 0 adds
# nothing, since $w \log w$ goes to 0 with $w$. The entropy of a query without keys, whose weights are all 0, is 0.
# (Gradients at weights of 0 are not judged: the derivative is infinite there.)


# %% nbgrader={"grade": false, "grade_id": "entropy", "locked": false, "schema_version": 3, "solution": true, "task": false}
def entropy(weights):
    """Measure how widely each query spreads its attention.

    Args:
        weights: tensor of shape (..., queries, keys), 0 or more; the weights of a query sum to 1 or are all 0.

    Returns:
        Entropies of shape (..., queries), in nats.
    """
    ### BEGIN SOLUTION
    return -torch.xlogy(weights, weights).sum(dim=-1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_entropy", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_entropy(entropy)
### BEGIN HIDDEN TESTS
check_entropy(entropy, seed=1)
check_entropy(entropy, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# What does PyTorch give for `0.0 * torch.log(torch.tensor(0.0))`? Decide what the logarithm should see there.
#
# </details>

# %% [markdown]
# ## Task 8: linear attention (4 points)
#
# With $n$ queries and $m$ keys, the weights are an $n \times m$ matrix. For long texts that is too much. Linear
# attention (Katharopoulos et al. 2020) replaces the exponential by a product of features, with
# $\phi(x) = \mathrm{elu}(x) + 1$ for each entry:
#
# $$ C_q = \frac{\sum_k \phi(Q_q)^\top \phi(K_k) \, V_k}{\sum_k \phi(Q_q)^\top \phi(K_k)} $$
#
# The factor that depends on $q$ can be taken out of both sums. So compute them **without ever making the
# $n \times m$ matrix**. The check counts the numbers that your function keeps on the way.


# %% nbgrader={"grade": false, "grade_id": "linear_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def linear_attention(query, key, value):
    """Attend with the features elu(x) + 1, at a cost that grows with queries + keys.

    Args:
        query: tensor of shape (..., queries, d_k).
        key: tensor of shape (..., keys, d_k).
        value: tensor of shape (..., keys, d_v).

    Returns:
        Context of shape (..., queries, d_v).
    """
    ### BEGIN SOLUTION
    query = torch.nn.functional.elu(query) + 1
    key = torch.nn.functional.elu(key) + 1
    total = query @ key.sum(dim=-2).unsqueeze(-1)
    return query @ (key.mT @ value) / total
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_linear_attention", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check_linear_attention(linear_attention)
### BEGIN HIDDEN TESTS
check_linear_attention(linear_attention, seed=1)
check_linear_attention(linear_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Start with the plain form that makes the $n \times m$ matrix. The check then says that only the cost is wrong.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# A product of three matrices can be computed in two orders. Write down the shape of the intermediate result for
# both. Do the same for the denominator.
#
# </details>

# %% [markdown]
# ## Task 9: weights that are exactly 0 (4 points)
#
# A softmax never gives a weight of 0: every allowed key gets a little. *Sparsemax* (Martins and Astudillo 2016)
# gives the distribution that lies closest to the scores, and that has zeros in most cases:
#
# $$ W_{qk} = \max(S_{qk} - \tau_q, \, 0), \qquad \text{with } \tau_q \text{ such that } \sum_k W_{qk} = 1 $$
#
# Each query has its own threshold $\tau_q$. The mask is used as in Task 2: forbidden keys get the weight 0 and have
# no influence on $\tau_q$, and a query without keys gets zeros only. Gradients must be right, also those through
# $\tau_q$, which depends on the scores. This function is not in
# the course's library, but it fits into it: `attncourse.qkv.attend(query, key, value, normalise=sparsemax)`.
#
# A row to try by hand: the scores 1.0, 0.8 and −0.5 have $\tau = 0.4$, and so the weights 0.6, 0.4 and 0.


# %% nbgrader={"grade": false, "grade_id": "sparsemax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sparsemax(scores, mask=None):
    """Turn scores into weights, many of which are exactly 0.

    Args:
        scores: tensor of shape (..., queries, keys).
        mask: None, or a boolean tensor of shape (queries, keys), True where a query may attend to a key.

    Returns:
        Weights of the shape of the scores. The weights of a query sum to 1, or are all 0 if its mask is all False.
    """
    ### BEGIN SOLUTION
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    rank = torch.arange(1, scores.shape[-1] + 1)
    # A score this far below all others never gets a weight.
    low = scores.masked_fill(~mask, scores.min() - 1)
    total = low.sort(descending=True).values.cumsum(dim=-1)
    threshold = ((total - 1) / rank).amax(dim=-1, keepdim=True)
    return (low - threshold).clamp(min=0) * mask
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_sparsemax", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check_sparsemax(sparsemax)
### BEGIN HIDDEN TESTS
check_sparsemax(sparsemax, seed=1)
check_sparsemax(sparsemax, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Suppose you knew which keys get a weight above 0, for example the best three. What would $\tau$ have to be, so
# that their weights sum to 1?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The keys with a weight are always the best ones: the best one, or the best two, and so on. Sort the scores. Then
# there are only as many candidates for $\tau$ as there are keys. How do you tell which candidate is the right one?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Compute the candidates for 1.0, 0.8, −0.5 by hand: one key, two keys, three keys. Which of the three makes all
# weights of its keys positive and leaves none out? Do you see what is special about it among the candidates?
#
# </details>

# %% [markdown]
# ## Task 10: what a weight does not say (3 points)
#
# The lecture notes say: *a larger weight means that this information is more important.* Give an example with
# numbers, of two keys and their values, in which the key with the larger weight adds nothing to the context. Then
# say in one or two sentences what a weight does tell you. A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "what_a_weight_says", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# Two keys with the weights 0.9 and 0.1. The value of the first is the zero vector (0, 0), that of the second is
# (1, 2). The context is 0.9 · (0, 0) + 0.1 · (1, 2) = (0.1, 0.2). All of it comes from the key with the weight 0.1.
# A weight says how much of a value is mixed in. How much that matters depends on the value, and on what is
# computed from the context later.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    scaled_dot_scores=2,
    masked_softmax=4,
    weighted_sum=2,
    attend=3,
    cosine_scores=1,
    softmax_with_temperature=1,
    entropy=1,
    linear_attention=4,
    sparsemax=4,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check qkv.ipynb` shows all results in one table.
