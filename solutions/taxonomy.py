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
# # Soft, hard, global, local
#
# Attention so far was *soft* and *global*: every position of the source gets a weight, and the context averages all of
# them. There are other kinds. *Hard* attention picks one position at random. *Local* attention looks at a window. In
# this set you build both, with the estimate of the gradient that hard attention needs. You need PyTorch tensors, the
# softmax, and the idea of a gradient. You do not need the book, but the chapter *Soft, hard, global, local* explains
# each kind with pictures, in the same letters.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `hard_attention` | 2 | 20 | ●●○ |
# | 2 | `score_function_loss` | 2 | 20 | ●●● |
# | 3 | `luong_scores` | 2 | 15 | ●●○ |
# | 4 | `local_m_weights` | 2 | 15 | ●●○ |
# | 5 | `local_p_weights` | 2 | 20 | ●●○ |
# | 6 | `span_weights` | 2 | 25 | ●●● |
# | 7 | a question, read by a person | 3 | 10 | ●●○ |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, and `torch.softmax` are all fine. A function that does a whole task by itself is not
# allowed, for example one of `attncourse.taxonomy`. Your functions must let gradients pass where the task does not say
# otherwise, must not change their inputs, and must return the dtype that they were given.
#
# **Positions count from 0**, in the source and in the target.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'hard_attention' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **prob_dist must be 1 or 2 dim.** `torch.multinomial` takes a matrix at most. Bring the axes in front together with
#   `flatten` or `reshape`, draw, and take them apart again.
# - **"one_hot" gives the wrong dtype.** It makes whole numbers. `.to(x.dtype)` turns them into numbers of the dtype of `x`.
# - **mat1 and mat2 shapes cannot be multiplied.** Print both shapes. `x.mT` swaps the last two axes and leaves batch axes
#   alone; `x.T` does not.
# - **The size of tensor a (5) must match the size of tensor b (7) at non-singleton dimension …** Two tensors are added or
#   compared, and their axes do not fit. Put an axis of length 1 where one of them has no axis: `x.unsqueeze(-1)` or
#   `x[:, None]`.
# - **a leaf Variable that requires grad is being used in an in-place operation.** Your code changes an input.
#   Make a new tensor.
# - **no gradient flows from the result back to the inputs.** Something left PyTorch on the way, by `.item()`, `float(…)`,
#   `.detach()` or `torch.tensor(…)`. Where a formula has sg(·), only what stands inside is a constant.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.summary import points_so_far
from attncourse.checks.taxonomy import (
    check_hard_attention,
    check_local_m_weights,
    check_local_p_weights,
    check_luong_scores,
    check_score_function_loss,
    check_span_weights,
)

# %% [markdown]
# ## Task 1: hard attention (2 points)
#
# Soft attention averages all values. Hard attention (Xu et al. 2015, there called stochastic) draws *one* key for each
# query, with the weights as probabilities, and reads its value alone:
#
# $$ k^* \sim \mathrm{Categorical}(W_{q1}, W_{q2}, \dots), \qquad C_{q} = V_{k^*} $$
#
# Return the context and the *choices*: for each query a row with 1 at the drawn key and 0 elsewhere, of the dtype of the
# weights.
#
# - Each query draws for itself. The weights of a query sum to 1.
# - All random numbers come from `generator`. Do not set its seed: a second call has to draw anew.
# - No gradient goes from the choices back to the weights: a draw has none. Task 2 is about what to do then.


# %% nbgrader={"grade": false, "grade_id": "hard_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hard_attention(weights, value, generator):
    """Draw one key for each query, and read its value.

    Args:
        weights: probability of each key for each query, of shape (..., queries, keys).
        value: tensor of shape (..., keys, d_v).
        generator: a torch.Generator, the source of all random numbers.

    Returns:
        A tuple (context, choices), of shapes (..., queries, d_v) and (..., queries, keys).
    """
    ### BEGIN SOLUTION
    rows = weights.flatten(end_dim=-2)
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = torch.nn.functional.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_hard_attention", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_hard_attention(hard_attention)
### BEGIN HIDDEN TESTS
check_hard_attention(hard_attention, seed=1)
check_hard_attention(hard_attention, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `torch.multinomial` draws with given probabilities. What does it return for a matrix with 5 rows, and how many draws does
# it make?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# How do you get from the number of a key to a row with a single 1? And which product of choices and value picks the value
# of the drawn key?
#
# </details>

# %% [markdown]
# ## Task 2: a loss whose gradient can be estimated (2 points)
#
# Which weights lead to a small loss, when the loss $\ell$ depends on a draw? The draw has no gradient, but its
# probability $p$ has one. If a draw led to a large loss, make it less probable. "Large" means: larger than a
# *baseline* $b$. This gives the score-function estimate (also called REINFORCE) of the gradient.
#
# For each of several sentences $i$, $N$ draws were made. Draw $n$ had the probability $p_{ni}$ and led to the loss
# $\ell_{ni}$. Return the mean over all draws of all sentences of
#
# $$ \ell_{ni} + \mathrm{sg}(\ell_{ni} - b_{ni}) \, \log p_{ni} $$
#
# What stands in the brackets of sg (*stop gradient*) counts as a constant: it keeps its value, and no gradient flows through
# it. In PyTorch this is called *detach*.
#
# The baseline of a draw must not know this draw. Otherwise the estimate is biased. So $b_{ni}$ is the mean loss of the
# **other** draws of the same sentence ("leave one out").


# %% nbgrader={"grade": false, "grade_id": "score_function_loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
def score_function_loss(losses, log_probability):
    """Give a loss whose gradient is the score-function estimate, with a leave-one-out baseline.

    Args:
        losses: what each draw led to, of shape (draws, sentences); there are at least 2 draws.
        log_probability: logarithm of the probability of each draw, of shape (draws, sentences).

    Returns:
        The mean over all draws and sentences, a tensor without axes.
    """
    ### BEGIN SOLUTION
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline).detach() * log_probability).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_score_function_loss", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_score_function_loss(score_function_loss)
### BEGIN HIDDEN TESTS
check_score_function_loss(score_function_loss, seed=1)
check_score_function_loss(score_function_loss, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take one sentence with the losses 1, 2 and 6. Write down the baseline of each draw. How do you get all three from the sum
# of all losses, without a loop?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# First get the value right; the check then moves on to the gradient. Which part of the formula must not pass a gradient?
# Look for sg.
#
# </details>

# %% [markdown]
# ## Task 3: three scores (2 points)
#
# Luong et al. (2015, section 3.1) compare three scores for global attention. $Q_q$ is a query (the decoder's state), $K_k$
# a key (an encoder's state):
#
# $$ S_{qk} = \begin{cases} Q_q^\top K_k & \text{dot} \\ Q_q^\top W K_k & \text{general} \\
# v^\top \tanh(W\, [Q_q; K_k]) & \text{concat} \end{cases} $$
#
# $[Q; K]$ means: the two vectors joined, the query first. For *dot* both have the same width. Write one function for all
# three; `kind` says which.


# %% nbgrader={"grade": false, "grade_id": "luong_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def luong_scores(query, key, kind, weight=None, vector=None):
    """Compare each query with each key.

    Args:
        query: tensor of shape (..., queries, d_query).
        key: tensor of shape (..., keys, d_key).
        kind: "dot", "general" or "concat".
        weight: W: None for "dot"; of shape (d_query, d_key) for "general"; of shape (hidden, d_query + d_key) for
            "concat".
        vector: v, of shape (hidden,), for "concat"; otherwise None.

    Returns:
        Scores of shape (..., queries, keys).
    """
    ### BEGIN SOLUTION
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    d_query = query.shape[-1]
    asked = query @ weight[:, :d_query].mT
    offered = key @ weight[:, d_query:].mT
    return torch.tanh(asked.unsqueeze(-2) + offered.unsqueeze(-3)) @ vector
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_luong_scores", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_luong_scores(luong_scores)
### BEGIN HIDDEN TESTS
check_luong_scores(luong_scores, seed=1)
check_luong_scores(luong_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# For *general*, write down the shapes of the three factors, in the order of the formula. They fit if one of them is
# transposed.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# For *concat*, each query meets each key. Either join all pairs (`expand`, then `cat`), or think about this: a part of $W$
# meets only $Q$, and the other part only $K$.
#
# </details>

# %% [markdown]
# ## Task 4: a window that moves along (2 points)
#
# Local attention looks only at source positions near a centre $p_t$. The simplest kind, *local-m* (Luong et al. 2015,
# section 3.2), assumes that source and target run in step: $p_t = t$ for the target position $t$.
#
# The softmax is taken over the window: the source positions $s$ with $|s - t| \le D$, both ends included. All other weights
# are 0. What lies outside the sentence does not exist, so windows at its ends have fewer keys.
#
# If a target position is so far behind the source that its window is empty, all its weights are 0. Neither weights nor
# gradients may be `nan`. It has to work for scores of any size.


# %% nbgrader={"grade": false, "grade_id": "local_m_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def local_m_weights(scores, radius):
    """Turn scores into weights within a window around each target position.

    Args:
        scores: tensor of shape (..., targets, source).
        radius: D, a whole number, at least 0.

    Returns:
        Weights of the shape of the scores.
    """
    ### BEGIN SOLUTION
    targets, source = scores.shape[-2:]
    distance = torch.arange(source) - torch.arange(targets)[:, None]
    outside = distance.abs() > radius
    weights = torch.softmax(scores.masked_fill(outside, float("-inf")), dim=-1)
    return weights.masked_fill(outside, 0.0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_local_m_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_local_m_weights(local_m_weights)
### BEGIN HIDDEN TESTS
check_local_m_weights(local_m_weights, seed=1)
check_local_m_weights(local_m_weights, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Make a table of the shape `(targets, source)` that holds the distance of each pair. `torch.arange` gives the numbers of the
# positions.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which score gives a key the weight 0 and leaves the others as if it were not there? And what happens in a row where this is
# the only score?
#
# </details>

# %% [markdown]
# ## Task 5: a window that is predicted (2 points)
#
# Languages do not run in step. *Local-p* (Luong et al. 2015, equations 9 and 10) predicts the centre from the decoder's
# state $h_t$:
#
# $$ p_t = L \cdot \mathrm{sigmoid}(v^\top \tanh(W h_t)) $$
#
# where $L$ is the number of tokens of this source sentence. (The paper calls it $S$; here $S$ are the scores.) The centre is
# a real number. The weights are the softmax over the window $|s - p_t| \le D$, multiplied by a Gaussian factor that prefers keys near the centre:
#
# $$ W_{ts} = \operatorname{softmax}_{s \in \text{window}}(S_{ts}) \cdot \exp\!\left(-\frac{(s - p_t)^2}{2\sigma^2}\right),
# \qquad \sigma = \frac{D}{2} $$
#
# As in the paper, the weights are **not** normalised again; a row sums to less than 1. The softmax does not see padding:
# a sentence of length $L$ has the positions $0, \dots, L-1$. In a sentence of length 0 all weights are 0, without `nan` in
# weights or gradients. The gradient reaches $p_t$ through the Gaussian factor.


# %% nbgrader={"grade": false, "grade_id": "local_p_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def local_p_weights(state, scores, lengths, weight, vector, radius):
    """Predict the centre of each target's window, and give the weights around it.

    Args:
        state: the decoder's states, of shape (batch, targets, d_state).
        scores: tensor of shape (batch, targets, source).
        lengths: L, the number of tokens of each source sentence, of shape (batch,); may be 0.
        weight: W, of shape (hidden, d_state).
        vector: v, of shape (hidden,).
        radius: D, a whole number, at least 1.

    Returns:
        A tuple (weights, positions), of shapes (batch, targets, source) and (batch, targets).
    """
    ### BEGIN SOLUTION
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.unsqueeze(-1)
    outside = (distance.abs() > radius) | (source >= lengths.view(-1, 1, 1))
    weights = torch.softmax(scores.masked_fill(outside, float("-inf")), dim=-1).masked_fill(outside, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2)), positions
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_local_p_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_local_p_weights(local_p_weights)
### BEGIN HIDDEN TESTS
check_local_p_weights(local_p_weights, seed=1)
check_local_p_weights(local_p_weights, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Start with the positions. The check looks at them first. What is the shape of each step?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Make a table of the distances $s - p_t$, of the shape `(batch, targets, source)`. Both the window and the Gaussian factor
# come from it.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# Two conditions exclude a key: too far from the centre, or padding. Join the two masks before the softmax.
#
# </details>

# %% [markdown]
# ## Task 6: a window whose width is learned (2 points)
#
# The radius of tasks 4 and 5 is a whole number that somebody chooses. A key is in or out, so the radius has no gradient.
# Sukhbaatar et al. (2019) let a model learn how far to look. Each key gets a share $m$ that falls with its distance
# $x = |s - t|$ from 1 to 0 along a *ramp* of length $R$. The ramp begins at the *span* $z$, a parameter:
#
# $$ m(x) = \min\!\left(1, \max\!\left(0, \frac{R + z - x}{R}\right)\right), \qquad
# W_{ts} = \frac{m(|s - t|) \exp S_{ts}}{\sum_{r} m(|r - t|) \exp S_{tr}} $$
#
# So $m = 1$ up to the distance $z$, and $m = 0$ from $z + R$ on. The gradient reaches $z$ through the keys on the ramp. (In
# the paper $x$ counts backwards only; here it looks to both sides.)
#
# A row in which all shares are 0 gets the weights 0. Neither weights nor gradients may be `nan`. It has to work for scores
# of any size, also where the largest score belongs to a key with the share 0.
#
# (No module of the course has this function. It takes the place of the softmax in the library:
# `attend(query, key, value, normalise=lambda scores, mask: span_weights(scores, span, ramp))`. With a causal mask and a
# penalty on $z$, each head of a Transformer finds its own width.)


# %% nbgrader={"grade": false, "grade_id": "span_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def span_weights(scores, span, ramp):
    """Turn scores into weights within a window whose width can be learned.

    Args:
        scores: tensor of shape (..., targets, source).
        span: z, a tensor without axes, at least 0; it gets a gradient.
        ramp: R, a number above 0.

    Returns:
        Weights of the shape of the scores. The weights of a target sum to 1, or are all 0.
    """
    ### BEGIN SOLUTION
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    low = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(share == 0, low), dim=-1) * share
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_span_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_span_weights(span_weights)
### BEGIN HIDDEN TESTS
check_span_weights(span_weights, seed=1)
check_span_weights(span_weights, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Start with the shares $m$, a table of the shape `(targets, source)`. Print it for $z = 1$ and $R = 2$. Which function of
# PyTorch limits numbers to a range?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# A weight is a share of $m \exp S$. Multiplying the numerator of each key by $m$ is easy. What has to happen to the
# denominator then?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# $\exp$ of a large score is infinite, and infinity times 0 is `nan`. A softmax avoids the first by itself. How do you keep
# keys with the share 0 out of it, before they do harm?
#
# </details>

# %% [markdown]
# ## Task 7: what the baseline may know (3 points)
#
# A colleague uses the mean of *all* draws as the baseline, the judged draw included. Take two draws of one sentence, with
# the losses 1 and 3. Compute $\ell - b$ for both draws, with the colleague's baseline and with yours. By which factor do the
# two differ? Show what the factor is for $N$ draws. Then say in one or two sentences what the colleague's choice does to the
# training with $N = 2$, and why one hardly notices it with $N = 100$. A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "what_the_baseline_may_know", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# With the mean of all draws b = 2, so ℓ − b is −1 and +1. With leave one out the baselines are 3 and 1, so ℓ − b is −2 and
# +2. The factor is 1/2.
#
# For N draws with the mean m of all losses, the mean of the others is (N m − ℓ) / (N − 1). So ℓ minus it is
# (N ℓ − N m) / (N − 1) = N / (N − 1) · (ℓ − m). The colleague's difference is (1 − 1/N) times ours, for every draw.
#
# With N = 2 the gradient of the weights is half as large as it should be, as if they had half the learning rate (the other
# part of the loss keeps its own). It points in the right direction, so training still works and the mistake hides. With
# N = 100 the factor is 0.99, less than the noise of the draws.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    hard_attention=2,
    score_function_loss=2,
    luong_scores=2,
    local_m_weights=2,
    local_p_weights=2,
    span_weights=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check taxonomy.ipynb` shows all results in one table.
