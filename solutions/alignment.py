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
# # The attention mechanism: score, softmax, context
#
# A decoder writes a translation one token after the other. At each step it asks: which words of the source do I
# need now? In this set you build one such step, first its three parts, then the whole step in the two orders
# of the literature. You need PyTorch tensors and matrix products. You do not need the book, but the chapter
# *The attention mechanism: score, softmax, context* explains each part with pictures, in the same letters.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `additive_scores` | 2 | 15 | ●●○ |
# | 2 | `padded_softmax` | 3 | 20 | ●●○ |
# | 3 | `context_vector` | 1 | 5 | ●○○ |
# | 4 | `bahdanau_step` | 2 | 15 | ●●○ |
# | 5 | `luong_step` | 2 | 10 | ●●○ |
# | 6 | `monotonic_weights` | 2 | 25 | ●●● |
# | 7 | a question, read by a person | 3 | 10 | ●●○ |
#
# **The letters.** A batch holds several sentences; $b$ counts them. The encoder has read each source sentence and
# left one state $h_j$ at each position $j$. The decoder has a state $s_{i-1}$ before it writes token $i$, and a
# state $s_i$ after it. Vectors are rows in the code: `state` has the shape `(batch, d_state)`, `states` has the
# shape `(batch, source, d_source)`.
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, and `torch.softmax` are all fine. You may call your own functions from earlier
# tasks. A function that does a whole task by itself is not allowed, for example one of `attncourse.alignment`. Your
# functions must let gradients pass, must not change their inputs, and must return the dtype that they were given.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'padded_softmax' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **mat1 and mat2 shapes cannot be multiplied.** Print both shapes. A weight of the shape `(hidden, d_state)` belongs
#   in `x @ weight.mT`, as in `torch.nn.functional.linear(x, weight)`.
# - **The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1.** Two tensors are
#   added or compared, and their axes do not fit. Axes are matched from the last one. Put an axis of length 1 where
#   one of them has no axis: `x.unsqueeze(1)` or `x[:, None]`.
# - **this cell takes inputs of shape …** or **this score takes a state of shape …** The check lends you `cell` and
#   `score` as functions. They tell you what they want and what they got.
# - **a leaf Variable that requires grad is being used in an in-place operation.** Your code changes an input.
#   Make a new tensor.
# - **one of the variables needed for gradient computation has been modified by an inplace operation.** You wrote
#   into a tensor after PyTorch had noted it for the gradient. Collect the parts in a list, then use `torch.stack`.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.alignment import (
    check_additive_scores,
    check_bahdanau_step,
    check_context_vector,
    check_luong_step,
    check_monotonic_weights,
    check_padded_softmax,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: additive scores (2 points)
#
# How well does position $j$ of the source fit what the decoder needs now? Bahdanau et al. (2015) let a small network
# with one hidden layer answer:
#
# $$ e_{j} = v^\top \tanh(W s + U h_j) $$
#
# $s$ is the state of the decoder, $h_j$ the state of the encoder at position $j$. $W$ (`state_weight`) and $U$
# (`states_weight`) bring both to the width of the hidden layer. The vector $v$ turns the hidden layer into one number.
#
# Each sentence of the batch has its own $s$ and its own $h_j$. The parameters $W$, $U$ and $v$ are the same for all.


# %% nbgrader={"grade": false, "grade_id": "additive_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def additive_scores(state, states, state_weight, states_weight, vector):
    """Score each source position of each sentence.

    Args:
        state: the decoder's state of each sentence, of shape (batch, d_state).
        states: the encoder's states, of shape (batch, source, d_source).
        state_weight: W, of shape (hidden, d_state).
        states_weight: U, of shape (hidden, d_source).
        vector: v, of shape (hidden,).

    Returns:
        Scores of shape (batch, source).
    """
    ### BEGIN SOLUTION
    asked = state @ state_weight.mT
    offered = states @ states_weight.mT
    return torch.tanh(asked.unsqueeze(1) + offered) @ vector
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_additive_scores", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_additive_scores(additive_scores)
### BEGIN HIDDEN TESTS
check_additive_scores(additive_scores, seed=1)
check_additive_scores(additive_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down the shape of $W s$ for the whole batch, the shape of $U h_j$ for all positions of the batch, and the shape
# of the result.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# One of the two sums has no axis for the positions. Each sentence's $W s$ is needed at all positions of this sentence.
# How does broadcasting do that?
#
# </details>

# %% [markdown]
# ## Task 2: weights under padding (3 points)
#
# The softmax turns the scores of one sentence into weights:
#
# $$ \alpha_{j} = \frac{\exp e_{j}}{\sum_{m} \exp e_{m}} $$
#
# The sentences of a batch are not equally long, but a tensor is a rectangle. So short sentences are filled up with
# padding at their end. A sentence of length $n$ has its tokens at the positions $0, \dots, n-1$. What stands behind
# them has no meaning, and its scores may be any numbers.
#
# - Padding gets the weight 0. The tokens of a sentence share the whole weight, as if the padding were not there.
# - A sentence of length 0 gets the weight 0 everywhere. Neither the weights nor their gradients may be `nan`.
# - It has to work for scores of any size, and in half precision (`torch.float16`).


# %% nbgrader={"grade": false, "grade_id": "padded_softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def padded_softmax(scores, lengths):
    """Turn the scores of each sentence into weights for its tokens.

    Args:
        scores: tensor of shape (batch, source).
        lengths: number of tokens of each sentence, whole numbers from 0 to source, of shape (batch,).

    Returns:
        Weights of shape (batch, source). The weights of a sentence sum to 1, or are all 0 if it has no tokens.
    """
    ### BEGIN SOLUTION
    mask = torch.arange(scores.shape[1]) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_padded_softmax", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_padded_softmax(padded_softmax)
### BEGIN HIDDEN TESTS
check_padded_softmax(padded_softmax, seed=1)
check_padded_softmax(padded_softmax, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First make a boolean tensor of the shape `(batch, source)` that is True where there is a token. `torch.arange` gives the
# numbers of the positions. Print it for the lengths 3 and 1.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which score would give a position the weight 0, and leave the weights of the others as if the position were not there?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Try one sentence of length 0. What does the softmax divide by? You can mend the row before the softmax or after it.
# Check the gradient in both cases: `weights.sum().backward()`, then look at `scores.grad`.
#
# </details>

# %% [markdown]
# ## Task 3: context (1 point)
#
# The context is what the decoder reads from the source at this step: the average of the encoder's states under the
# weights.
#
# $$ c = \sum_j \alpha_{j} h_j $$
#
# Each sentence has its own weights and its own states. The function takes the weights as they are; they need not sum
# to 1.


# %% nbgrader={"grade": false, "grade_id": "context_vector", "locked": false, "schema_version": 3, "solution": true, "task": false}
def context_vector(weights, states):
    """Add up the states of each sentence, each with its weight.

    Args:
        weights: tensor of shape (batch, source).
        states: the encoder's states, of shape (batch, source, d_source).

    Returns:
        Context of shape (batch, d_source).
    """
    ### BEGIN SOLUTION
    return torch.einsum("bj,bjd->bd", weights, states)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_context_vector", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_context_vector(context_vector)
### BEGIN HIDDEN TESTS
check_context_vector(context_vector, seed=1)
check_context_vector(context_vector, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Which axis has to vanish? Which axis do both inputs and the result share? A plain matrix product of the two inputs
# treats the second question wrongly.
#
# </details>

# %% [markdown]
# ## Task 4: one step in the order of Bahdanau (2 points)
#
# Now put the parts together. In Bahdanau et al. (2015) the *old* state asks, and the context helps to make the new one:
#
# $$ e_{ij} = a(s_{i-1}, h_j), \qquad \alpha_{ij} = \operatorname{softmax}_j(e_{ij}), \qquad
# c_i = \sum_j \alpha_{ij} h_j, \qquad s_i = f([y_{i-1}; c_i],\, s_{i-1}) $$
#
# $[y; c]$ means: the two vectors joined, $y$ first. $y_{i-1}$ (`inputs`) is the embedding of the token written last.
#
# Two functions are given to your function as arguments:
#
# - `score(state, states)` is $a$. It takes one state of each sentence, and all encoder states. It gives scores of the
#   shape `(batch, source)`, for padding, too.
# - `cell(inputs, state)` is $f$, a recurrent cell. It takes inputs of the width `d_input + d_source` and the old state,
#   and gives the new state. A `torch.nn.GRUCell` can be called in the same way.


# %% nbgrader={"grade": false, "grade_id": "bahdanau_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bahdanau_step(cell, score, state, inputs, states, lengths):
    """Do one step of a decoder: attend from the old state, then make the new one.

    Args:
        cell: (inputs, state) -> new state; its inputs are as wide as `inputs` and a context joined.
        score: (state, states) -> scores of shape (batch, source).
        state: the old state of the decoder, of shape (batch, d_state).
        inputs: the embedding of the last token, of shape (batch, d_input).
        states: the encoder's states, of shape (batch, source, d_source).
        lengths: number of tokens of each source sentence, of shape (batch,); may be 0.

    Returns:
        A tuple (state, context, weights): the new state (batch, d_state), the context (batch, d_source), and
        the weights (batch, source).
    """
    ### BEGIN SOLUTION
    weights = padded_softmax(score(state, states), lengths)
    context = context_vector(weights, states)
    return cell(torch.cat([inputs, context], dim=1), state), context, weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_bahdanau_step", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_bahdanau_step(bahdanau_step)
### BEGIN HIDDEN TESTS
check_bahdanau_step(bahdanau_step, seed=1)
check_bahdanau_step(bahdanau_step, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Do the four formulas from left to right, one line each. Two of these lines are functions that you have written already.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `torch.cat` joins tensors. Along which axis do two vectors of one sentence become one longer vector?
#
# </details>

# %% [markdown]
# ## Task 5: one step in the order of Luong (2 points)
#
# Luong et al. (2015) step first. The *new* state asks, and the context does not go into the cell:
#
# $$ s_i = f(y_{i-1},\, s_{i-1}), \qquad \alpha_{ij} = \operatorname{softmax}_j(a(s_i, h_j)), \qquad
# c_i = \sum_j \alpha_{ij} h_j, \qquad \tilde s_i = \tanh(W_c\, [c_i; s_i]) $$
#
# The last vector, the *attentional state* $\tilde s_i$, is made for the prediction of token $i$ (their equation 5). The
# next step of the cell starts from $s_i$, so return both. The cell takes inputs of the width `d_input` here.


# %% nbgrader={"grade": false, "grade_id": "luong_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def luong_step(cell, score, weight, state, inputs, states, lengths):
    """Do one step of a decoder: make the new state, then attend from it.

    Args:
        cell: (inputs, state) -> new state; its inputs are as wide as `inputs`.
        score: (state, states) -> scores of shape (batch, source).
        weight: W_c, of shape (d_output, d_source + d_state).
        state: the old state of the decoder, of shape (batch, d_state).
        inputs: the embedding of the last token, of shape (batch, d_input).
        states: the encoder's states, of shape (batch, source, d_source).
        lengths: number of tokens of each source sentence, of shape (batch,); may be 0.

    Returns:
        A tuple (state, attentional, weights): the new state (batch, d_state), the attentional state
        (batch, d_output), and the weights (batch, source).
    """
    ### BEGIN SOLUTION
    state = cell(inputs, state)
    weights = padded_softmax(score(state, states), lengths)
    context = context_vector(weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.mT), weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_luong_step", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_luong_step(luong_step)
### BEGIN HIDDEN TESTS
check_luong_step(luong_step, seed=1)
check_luong_step(luong_step, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint</summary>
#
# Compare the formulas with those of task 4, sign by sign. What is the first thing that happens now? Which $s$ stands in
# each formula?
#
# </details>

# %% [markdown]
# ## Task 6: reading in one direction (2 points)
#
# Speech and its transcript have the same order. There it makes sense to read the source once, from the left to the
# right. *Monotonic attention* (Raffel et al. 2017) does this. At a step, reading begins at the position where the step
# before has stopped. At each position $j$ it stops with the probability $p_j$. If it does not stop, it passes on to
# $j + 1$. It never goes back. It may stop where it began. If it passes the last position, this step reads nothing.
#
# The weight of $j$ is the probability that this step stops at $j$. The step before has stopped at $k$ with the
# probability $\alpha^{\text{old}}_k$. So
#
# $$ \alpha_{j} = p_{j} \sum_{k=0}^{j} \alpha^{\text{old}}_{k} \prod_{l=k}^{j-1} (1 - p_{l}) $$
#
# where the product for $k = j$ is 1, because it has no factors.
#
# Some $p_j$ may be exactly 0 or exactly 1, and sentences may be long. All weights and gradients have to be right there,
# too. No padding in this task. (No module of the course has this function. It can take the place of a softmax. With the
# library's `attend` and one query it is `attend(query, key, value, normalise=normalise)`, where
# `normalise = lambda scores, mask: monotonic_weights(scores.sigmoid().squeeze(1), old).unsqueeze(1)`.)


# %% nbgrader={"grade": false, "grade_id": "monotonic_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def monotonic_weights(stops, previous):
    """Give the probability to stop at each position when reading goes on from where it stood.

    Args:
        stops: p, the probability to stop at each position that is reached, of shape (batch, source).
        previous: the weights of the step before, of shape (batch, source).

    Returns:
        The weights of this step, of shape (batch, source). Those of a sentence sum to at most 1.
    """
    ### BEGIN SOLUTION
    reached, weights = 0, []
    for j in range(stops.shape[1]):
        reached = reached + previous[:, j]
        weights.append(reached * stops[:, j])
        reached = reached * (1 - stops[:, j])
    return torch.stack(weights, dim=1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_monotonic_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_monotonic_weights(monotonic_weights)
### BEGIN HIDDEN TESTS
check_monotonic_weights(monotonic_weights, seed=1)
check_monotonic_weights(monotonic_weights, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Do a sentence of two positions on paper. Then write the formula as it stands, with loops over $j$, $k$ and $l$. That is a
# right answer.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# There is a way with one loop. Ask for the probability that position $j$ is *reached*, whether or not reading stops
# there. Who can be at $j$? Those who begin there, and those who were at $j - 1$ and …
#
# </details>

# %% [markdown]
# ## Task 7: what the tanh is for (3 points)
#
# Leave the tanh out of the additive score: $e_j = v^\top (W s + U h_j)$. Take all vectors of width 1, $W = U = v = 1$, and
# a source of two positions with $h_0 = 0$ and $h_1 = 1$. Compute the two weights for $s = 0$ and for $s = 5$. What do you
# find? Show in one or two sentences that it is so for every $W$, $U$, $v$ and for any widths. What does it mean for a
# decoder that writes a whole sentence? A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "score_without_tanh", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# For s = 0 the scores are 0 and 1. The weights are 1 / (1 + e) = 0.27 and e / (1 + e) = 0.73. For s = 5 the scores are
# 5 and 6. Both have the factor exp(5), which cancels, so the weights are again 0.27 and 0.73.
#
# In general the score is v·W s + v·U h_j. The first part is the same number for all positions of a sentence, and the
# softmax does not change when the same number is added to all scores. So the weights do not depend on the state s.
# Such a decoder reads the same context at each step: it is back at one fixed vector, only a better average. The tanh
# makes the effect of h_j depend on s.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    additive_scores=2,
    padded_softmax=3,
    context_vector=1,
    bahdanau_step=2,
    luong_step=2,
    monotonic_weights=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check alignment.ipynb` shows all results in one table.
