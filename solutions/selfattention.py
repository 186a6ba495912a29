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
# # Self-attention
#
# In self-attention a sequence reads itself: each token asks all tokens of the same sentence. In this set you write it with
# its masks, put it into the block of an encoder, write a *test* that tells right layers from broken ones, pool a sentence to one
# vector, and try scores of which the library knows nothing.
#
# You need PyTorch tensors, matrix products, and attention with one head (the set `qkv`). You do not need the book,
# but its chapter *Self-attention* explains each step with pictures, in the same letters: batch $b$, queries $q$, keys $k$.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `causal_mask` | 1 | 10 | ●○○ |
# | 2 | `self_attention` | 3 | 20 | ●●○ |
# | 3 | `encoder_block` | 3 | 25 | ●●○ |
# | 4 | `permutation_test` | 2 | 25 | ●●● |
# | 5 | `attention_pooling` | 2 | 15 | ●●○ |
# | 6 | `shared_scores` | 2 | 15 | ●●○ |
# | 7 | a question, read by a person | 3 | 15 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, `torch.softmax`, `F.layer_norm`, and the functions of `attncourse.qkv` are all fine, as
# pieces. The functions of `attncourse.selfattention` are not; in task 1 those of `attncourse.masks` are not, either. Your functions
# must let gradients pass, must not change their inputs, and must return the dtype that they were given. Masks are
# boolean, and **True means "may attend"**.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **The size of tensor a must match the size of tensor b at non-singleton dimension ….** Write both shapes under each
#   other, aligned at the right. Where one has a number that the other lacks, an axis of length 1 is missing:
#   `mask.unsqueeze(-2)` adds one in the last place but one.
# - **"masked_fill" only supports boolean masks**, or **Boolean value of Tensor … is ambiguous.** Your mask consists of numbers,
#   or two masks were joined with `and`. For tensors, "both" is `a & b`.
# - **Given normalized_shape=[…], expected input with shape […].** `F.layer_norm` wants the sizes of the axes that it
#   normalises over, as a tuple.
# - **your function raised IndexError: index … is out of bounds**, in a loop over a sentence. Sentences have different
#   lengths from trial to trial. Read the length from the shape.
# - **a leaf Variable that requires grad is being used in an in-place operation.** Your code changes an input.
#   Make a new tensor.
# - **NameError: name 'causal_mask' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.selfattention import (
    check_attention_pooling,
    check_causal_mask,
    check_encoder_block,
    check_permutation_test,
    check_self_attention,
    check_shared_scores,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: the causal mask (1 point)
#
# A model that writes token after token must not look at tokens that it has not written yet. The causal mask lets each
# token see itself and all tokens before it.
#
# When a model writes, it has read some tokens before: the *past*. The new tokens stand after them. So with `past` tokens read
# before, query $i$ (counted from 0) stands at position $\text{past} + i$, and may see the keys at the positions 0 to $\text{past} + i$.
# There are $\text{past} + \text{queries}$ keys.


# %% nbgrader={"grade": false, "grade_id": "causal_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_mask(queries, past=0):
    """Make a mask that hides the future.

    Args:
        queries: number of new tokens.
        past: number of tokens read before them.

    Returns:
        A boolean tensor of shape (queries, past + queries), True where a query may attend to a key.
    """
    ### BEGIN SOLUTION
    return torch.ones(queries, past + queries, dtype=torch.bool).tril(past)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_causal_mask", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_causal_mask(causal_mask)
### BEGIN HIDDEN TESTS
check_causal_mask(causal_mask, seed=1)
check_causal_mask(causal_mask, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Draw the mask for 3 queries without a past on paper, then that for 2 queries with a past of 3. In which columns does the
# first row have its last True?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# One way: compare two `torch.arange`, the position of each query as a column and that of each key as a row. Another:
# `torch.tril` and its argument `diagonal`.
#
# </details>

# %% [markdown]
# ## Task 2: self-attention (3 points)
#
# Queries, keys and values are made from the same inputs $X$, each with a weight of its own. A weight has the shape
# (input, output) and stands at the right:
#
# $$ Q = X W^Q, \quad K = X W^K, \quad V = X W^V, \qquad
# \mathrm{context} = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V $$
#
# - With `causal=True`, no token may attend to a later one.
# - `real_tokens` says for each sentence which tokens are real, and which are padding. No token may attend to padding. The
#   queries of the padding are left alone: they ask like all others.
# - A key has to be allowed by both. A query that may attend to no key has the weights 0 and the context 0. That happens, for
#   example, when padding stands at the left. Gradients are never `nan`.


# %% nbgrader={"grade": false, "grade_id": "self_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    """Let a sequence attend to itself.

    Args:
        inputs: tensor of shape (batch, length, d_model).
        query_weight: tensor of shape (d_model, d_k).
        key_weight: tensor of shape (d_model, d_k).
        value_weight: tensor of shape (d_model, d_v).
        causal: whether tokens are hidden from those before them.
        real_tokens: None, or a boolean tensor of shape (batch, length), True for a token, False for padding.

    Returns:
        A tuple (context, weights), of shapes (batch, length, d_v) and (batch, length, length).
    """
    ### BEGIN SOLUTION
    query, key, value = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = query @ key.mT / query.shape[-1] ** 0.5
    length = inputs.shape[1]
    mask = causal_mask(length) if causal else torch.ones(length, length, dtype=torch.bool)
    if real_tokens is not None:
        mask = mask & real_tokens.unsqueeze(1)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_self_attention", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_self_attention(self_attention)
### BEGIN HIDDEN TESTS
check_self_attention(self_attention, seed=1)
check_self_attention(self_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Do it without masks first. The check then tells you that the stages up to "other widths" are right.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Both masks are conditions on a pair of a query and a key. The causal one has the shape (length, length), the padding belongs
# to the keys: which axis does `real_tokens` lack? Then join both to one mask.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# A row in which everything is forbidden: what does the softmax divide by? You can mend it before or after the softmax. Look at
# the gradient in both cases.
#
# </details>

# %% [markdown]
# ## Task 3: the block of an encoder (3 points)
#
# A block has two sublayers: attention, which moves information between the tokens, and a feed-forward network, which treats
# each token alone. Around each lies a *residual connection*: what the sublayer says is added to what was there. Here the
# norm stands before each sublayer ("pre-norm", Xiong et al. 2020, arXiv:2002.04745):
#
# $$ Y = X + \mathrm{attend}(\mathrm{norm}_1(X)), \qquad \mathrm{output} = Y + \mathrm{feedforward}(\mathrm{norm}_2(Y)) $$
#
# $$ \mathrm{norm}(x) = g \cdot \frac{x - \bar{x}}{\sqrt{\sigma^2 + \varepsilon}} + c, \qquad
# \bar{x} = \frac{1}{d} \sum_i x_i, \quad \sigma^2 = \frac{1}{d} \sum_i (x_i - \bar{x})^2, \quad \varepsilon = 10^{-5} $$
#
# The norm works on each vector alone, over its $d$ features. Each of the two norms has a gain $g$ and a bias $c$ of its own, vectors of
# width $d$. The two sublayers are given as functions: `attend(x)` and `feedforward(x)` return a tensor of the shape of `x`.


# %% nbgrader={"grade": false, "grade_id": "encoder_block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    """Apply the two sublayers of an encoder block, pre-norm, with residual connections.

    Args:
        inputs: tensor of shape (..., length, d_model).
        attend: function, self-attention.
        feedforward: function, the feed-forward network.
        gain_1: of the norm before attention, tensor of shape (d_model,).
        bias_1: of the norm before attention, tensor of shape (d_model,).
        gain_2: of the norm before the feed-forward network, tensor of shape (d_model,).
        bias_2: of the norm before the feed-forward network, tensor of shape (d_model,).

    Returns:
        A tensor of the shape of the inputs.
    """

    ### BEGIN SOLUTION
    def norm(x, gain, bias):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = (centred**2).mean(dim=-1, keepdim=True)
        return gain * centred / torch.sqrt(variance + 1e-5) + bias

    middle = inputs + attend(norm(inputs, gain_1, bias_1))
    return middle + feedforward(norm(middle, gain_2, bias_2))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_encoder_block", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_encoder_block(encoder_block)
### BEGIN HIDDEN TESTS
check_encoder_block(encoder_block, seed=1)
check_encoder_block(encoder_block, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write the norm as a small function of its own first, with its gain and its bias. The mean of each of its vectors, before gain
# and bias, should be 0, and the mean of the squares nearly 1.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `torch.var` and `torch.std` have an argument that chooses between dividing by $d$ and by $d - 1$. Which is their default?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# At the left of each + in the formula stands a name. Is it the same name in both lines?
#
# </details>

# %% [markdown]
# ## Task 4: a test of order (2 points)
#
# Without positions, self-attention sees a sentence as a set. If the tokens change places, the outputs change places in the same way,
# and nothing else happens: it is *equivariant*. Now **you write the test**. Your function is given a layer and must raise an
# `AssertionError` if the layer is broken, for example by `assert` or by `torch.testing.assert_close`. For a right layer it must
# return without an error. The check calls your test with right and with broken layers, and looks at what it says.
#
# A layer takes a tensor of shape (batch, length, width), of any batch and length, and returns one of the same shape. It is **right** if
#
# - the outputs of a sentence move exactly as its tokens do, **for every order** of them; and
# - a sentence of the batch has no influence on the others, whether their tokens change places or not.
#
# Use at least 10 tokens: some broken layers go wrong only in longer sentences. Right layers round: with inputs drawn by `torch.randn` they
# miss equality by at most about 0.00001. Broken layers miss it by more than 0.01.


# %% nbgrader={"grade": false, "grade_id": "permutation_test", "locked": false, "schema_version": 3, "solution": true, "task": false}
def permutation_test(layer, width):
    """Fail a layer that is not equivariant to the order of the tokens, or that mixes sentences.

    Args:
        layer: function from (batch, length, width) to (batch, length, width).
        width: the width of its inputs.

    Raises:
        AssertionError: if the layer is broken.
    """
    ### BEGIN SOLUTION
    inputs = torch.randn(3, 12, width)
    orders = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    moved = layer(torch.take_along_dim(inputs, orders, dim=1))
    expected = torch.take_along_dim(layer(inputs), orders, dim=1)
    assert (moved - expected).abs().max() < 1e-3
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_permutation_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_permutation_test(permutation_test)
### BEGIN HIDDEN TESTS
check_permutation_test(permutation_test, seed=1)
check_permutation_test(permutation_test, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# There are two ways to get an output for moved tokens: move, then call the layer; or call the layer, then move. For a right
# layer both give the same.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which order will you try? Think of a layer that moves each token by one place, and of one that adds both neighbours to each
# token. Which orders let them through?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# How could a layer that mixes the sentences of a batch get through? Compare: all sentences are moved alike; each one is
# moved differently.
#
# </details>

# %% [markdown]
# ## Task 5: attention as pooling (2 points)
#
# To classify a sentence one needs a single vector for it. Attention with one learned query, the same for all sentences, gives a
# weighted mean of the tokens (Yang et al. 2016, *Hierarchical attention networks*, section 2.2):
#
# $$ u_k = \tanh(x_k A + c), \qquad
# w_k = \underset{k}{\mathrm{softmax}}\; (u_k \cdot q), \qquad
# \mathrm{pooled} = \sum_k w_k\, x_k $$
#
# Here $A$ is the `weight`, $c$ the `bias` and $q$ the `query`. There is no divisor. Padding gets the weight 0. In a sentence
# of padding alone all weights are 0, and so is the pooled vector; its gradients are not `nan`.


# %% nbgrader={"grade": false, "grade_id": "attention_pooling", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    """Pool each sentence to one vector, by attention with a learned query.

    Args:
        inputs: tensor of shape (..., length, d_model).
        weight: tensor of shape (d_model, hidden).
        bias: tensor of shape (hidden,).
        query: tensor of shape (hidden,).
        real_tokens: None, or a boolean tensor of shape (..., length), True for a token, False for padding.

    Returns:
        A tuple (pooled, weights), of shapes (..., d_model) and (..., length).
    """
    ### BEGIN SOLUTION
    scores = torch.tanh(inputs @ weight + bias) @ query
    if real_tokens is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(~real_tokens, float("-inf")).softmax(dim=-1)
        weights = weights.masked_fill(~real_tokens, 0.0)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_attention_pooling", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_attention_pooling(attention_pooling)
### BEGIN HIDDEN TESTS
check_attention_pooling(attention_pooling, seed=1)
check_attention_pooling(attention_pooling, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many scores does a sentence of 5 tokens have? Which product of a (length, hidden) tensor with a (hidden,) tensor gives them?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The weights have one axis less than the inputs. Where does it have to be added, so that each weight meets its token?
#
# </details>

# %% [markdown]
# ## Task 6: shared queries and keys (2 points)
#
# In the *Reformer* (Kitaev, Kaiser and Levskaya 2020, arXiv:2001.04451) queries and keys are the same vectors, so that similar tokens can be
# found fast by hashing. Only that the keys are scaled to length 1. Then each token would be most similar to itself, and so it
# may attend to itself only if there is nobody else. With vectors $x_1, x_2, \ldots$ of width $d$:
#
# $$ S_{qk} = \frac{1}{\sqrt{d}}\; x_q \cdot \frac{x_k}{\lVert x_k \rVert} \quad (q \neq k), \qquad S_{qq} = -10\,000 $$
#
# - A vector of zeros has the key 0: all scores *with* it are 0, save its own, and nothing is `nan`.
# - −10 000 and not −∞: under a causal mask the first token has nobody but itself. With −∞ its weights would be `nan`, with a low
#   number the softmax gives it the whole weight.
#
# **Where it fits.** The library takes stage 1 of attention as an argument. This is causal attention with shared queries and keys:
# `attend(x, x, x, mask, score=lambda query, key: shared_scores(query))` with `attend` from `attncourse.qkv`. It saves one of the three
# projections.


# %% nbgrader={"grade": false, "grade_id": "shared_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shared_scores(vectors):
    """Score each vector with each other, scaled to length 1, and with itself as low as can be.

    Args:
        vectors: queries and keys at once, tensor of shape (..., length, d).

    Returns:
        Scores of shape (..., length, length).
    """
    ### BEGIN SOLUTION
    keys = torch.nn.functional.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / vectors.shape[-1] ** 0.5
    itself = torch.eye(vectors.shape[-2], dtype=torch.bool)
    return scores.masked_fill(itself, -1e4)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_shared_scores", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_shared_scores(shared_scores)
### BEGIN HIDDEN TESTS
check_shared_scores(shared_scores, seed=1)
check_shared_scores(shared_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Make the keys first. Their lengths, `keys.norm(dim=-1)`, should all be 1. What happens to a vector whose length is 0?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The scores of the tokens with themselves lie on the diagonal of the last two axes. A boolean matrix that is True there can be
# made with `torch.eye`.
#
# </details>

# %% [markdown]
# ## Task 7: what the projections are good for (3 points)
#
# Two tokens have the vectors $x_1 = (2, 0)$ and $x_2 = (1, 1)$. Leave the divisor out.
#
# (a) Without projections the scores are $x_q \cdot x_k$. Compute all four. Why is this matrix symmetric for any vectors?
#
# (b) In (a), does each token score itself highest? Give two vectors for which one token scores the *other* one higher than itself.
# Then say in one sentence why a token nevertheless often attends to itself most, when there are no projections and the vectors are wide.
#
# (c) Find a $W^Q$ and a $W^K$ (2 × 2 matrices) with which token 1 attends mostly to token 2, and token 2 mostly to token 1. Give the
# scores as numbers.
#
# A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "what_projections_are_good_for", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# (a) 2·2 + 0·0 = 4, 2·1 + 0·1 = 2, 1·2 + 1·0 = 2, 1·1 + 1·1 = 2. The product x_q · x_k is the same as x_k · x_q, so S_qk = S_kq.
#
# (b) Token 1 does (4 against 2). Token 2 scores both with 2. For x_1 = (3, 0) and x_2 = (1, 0), token 2 scores itself with 1 and token 1 with
# 3. With random vectors of width d, the score with itself is the squared length, about d, and the score with another one has
# mean 0 and a deviation of about √d; so for large d the diagonal is far above the rest.
#
# (c) With W^Q the identity the scores are Q K^T with K = X W^K. Choose W^K so that token 1 gets the key (−5, 10) and token 2 the key (5, −10): x_1 W^K = (−5, 10)
# means the first row is (−2.5, 5); x_2 W^K = (5, −10) means that the sum of both rows is (5, −10), so the second row is (7.5, −15).
# Scores: token 1 with itself 2·(−5) = −10, with token 2 2·5 = 10; token 2 with token 1 −5 + 10 = 5, with itself 5 − 10 = −5. Each prefers the other.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    causal_mask=1,
    self_attention=3,
    encoder_block=3,
    permutation_test=2,
    attention_pooling=2,
    shared_scores=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check selfattention.ipynb` shows all results in one table.
