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
# # Encoder–decoder: RNN, CNN, attention
#
# An encoder reads a sentence. A decoder writes another one, token by token. In this set you build the parts of such a
# model with a recurrent network: one step of the network, the encoder, the loss, and the decoder. You measure how far
# the memory of an encoder reaches, and you write a test that finds broken encoders. You need PyTorch tensors, the softmax,
# and the idea of a gradient. You do not need the book, but the chapter *Encoder–decoder: RNN, CNN, attention* explains
# each part with pictures.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `gru_step` | 2 | 15 | ●●○ |
# | 2 | `encode` | 2 | 20 | ●●○ |
# | 3 | `assert_ignores_padding` | 2 | 20 | ●●● |
# | 4 | `token_loss` | 2 | 15 | ●●○ |
# | 5 | `greedy_decode` | 2 | 20 | ●●○ |
# | 6 | `gradient_reach` | 1 | 15 | ●●○ |
# | 7 | `hypothesis_scores` | 1 | 15 | ●●○ |
# | 8 | a question, read by a person | 3 | 10 | ●●○ |
#
# **Sentences of different lengths.** A batch holds several sentences in one tensor. Short sentences are filled up with
# *padding* at their end. `lengths` says how many tokens each sentence really has: a sentence of length $n$ has its tokens at
# the positions $0, \dots, n-1$. Padding may hold any finite numbers. It must not change any result.
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `@`, `einsum`, and `torch.softmax` are all fine. You may call your own functions from earlier tasks. A
# function that does a whole task by itself is not allowed, for example `torch.nn.GRUCell` in task 1, or one of
# `attncourse.seq2seq`. Your functions must let gradients pass, must not change their inputs, and must return the dtype that
# they were given. Functions of PyTorch that do a part of a task are fine, such as
# `torch.nn.functional.cross_entropy` in task 4.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **NameError: name 'gru_step' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **mat1 and mat2 shapes cannot be multiplied.** Print both shapes. A weight of the shape `(3 * d_state, d_input)` belongs
#   in `x @ weight.mT`, as in `torch.nn.functional.linear(x, weight)`.
# - **this cell takes inputs of shape …** The check lends you the function `step`. It takes one token of each sentence, of the
#   shape `(batch, d_input)`, and the state, and tells you what it got.
# - **step takes whole numbers of shape …** In task 5 it takes one token number for each sentence, of the shape `(batch,)`.
# - **The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1.** Two tensors are
#   added or compared, and their axes do not fit. Put an axis of length 1 where one of them has no axis: `x.unsqueeze(1)`
#   or `x[:, None]`.
# - **a leaf Variable that requires grad is being used in an in-place operation.** Your code changes an input.
#   Make a new tensor.
# - **one of the variables needed for gradient computation has been modified by an inplace operation.** You wrote
#   into a tensor after PyTorch had noted it for the gradient. Collect the parts in a list, then use `torch.stack`.
# - **element 0 of tensors does not require grad.** PyTorch follows gradients only from tensors that ask for it:
#   `x = inputs.detach().requires_grad_()`.
# - **Trying to backward through the graph a second time.** Say `retain_graph=True` in all but the last call.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.seq2seq import (
    check_assert_ignores_padding,
    check_encode,
    check_gradient_reach,
    check_greedy_decode,
    check_gru_step,
    check_hypothesis_scores,
    check_token_loss,
)
from attncourse.checks.summary import points_so_far

# %% [markdown]
# ## Task 1: one step of a GRU (2 points)
#
# A recurrent network keeps a state $h$ and changes it with each input $x$. A *gated recurrent unit* has two gates, numbers
# from 0 to 1: the reset gate $r$ says how much of the old state the candidate $n$ sees, and the update gate $z$ says how much
# of the old state stays. PyTorch computes, with $\odot$ for a product entry by entry:
#
# $$ \begin{aligned}
# r &= \mathrm{sigmoid}(W_r x + b_r + U_r h + c_r) \\
# z &= \mathrm{sigmoid}(W_z x + b_z + U_z h + c_z) \\
# n &= \tanh(W_n x + b_n + r \odot (U_n h + c_n)) \\
# h' &= (1 - z) \odot n + z \odot h
# \end{aligned} $$
#
# The three matrices $W_r, W_z, W_n$ lie in one weight, one block of rows under the other, **in this order**; so do $U$, $b$
# and $c$. (In the paper, Cho et al. 2014, $r$ multiplies the state before the matrix product. Here it comes after, and your
# step has to agree with PyTorch.)


# %% nbgrader={"grade": false, "grade_id": "gru_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    """Give the next state of a GRU, as PyTorch's GRUCell does.

    Args:
        inputs: x, one vector for each sentence, of shape (batch, d_input).
        state: h, of shape (batch, d_state).
        input_weight: the blocks of W in the order r, z, n, of shape (3 * d_state, d_input).
        state_weight: the blocks of U, of shape (3 * d_state, d_state).
        input_bias: the blocks of b, of shape (3 * d_state,).
        state_bias: the blocks of c, of shape (3 * d_state,).

    Returns:
        The new state, of shape (batch, d_state).
    """
    ### BEGIN SOLUTION
    of_input = (inputs @ input_weight.mT + input_bias).chunk(3, dim=1)
    of_state = (state @ state_weight.mT + state_bias).chunk(3, dim=1)
    reset = torch.sigmoid(of_input[0] + of_state[0])
    update = torch.sigmoid(of_input[1] + of_state[1])
    new = torch.tanh(of_input[2] + reset * of_state[2])
    return (1 - update) * new + update * state
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_gru_step", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_gru_step(gru_step)
### BEGIN HIDDEN TESTS
check_gru_step(gru_step, seed=1)
check_gru_step(gru_step, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# All three formulas use $W x + b$ and $U h + c$. One matrix product gives all three blocks at once. Which axis of the result
# do you cut into three?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Write the four formulas as four lines, in the same order. Look twice at the brackets behind $r$.
#
# </details>

# %% [markdown]
# ## Task 2: encoding that padding does not change (2 points)
#
# The encoder reads a sentence from its first token to its last, and notes the state after each token. The last of these
# states stands for the whole sentence: a decoder without attention knows nothing else of it.
#
# In a batch, short sentences end in padding. Read each sentence up to its own last token:
#
# - The states at positions of padding are 0.
# - The last state is that after the last *token* of each sentence.
# - A sentence of length 0 keeps the state that it started from.


# %% nbgrader={"grade": false, "grade_id": "encode", "locked": false, "schema_version": 3, "solution": true, "task": false}
def encode(step, inputs, lengths, state):
    """Read each sentence of a batch up to its last token.

    Args:
        step: (inputs, state) -> new state: reads one token of each sentence, of shape (batch, d_input).
        inputs: the tokens' vectors, of shape (batch, source, d_input).
        lengths: number of tokens of each sentence, from 0 to source, of shape (batch,).
        state: the state before the first token, of shape (batch, d_state).

    Returns:
        A tuple (states, last): the state after each token, 0 at padding, of shape (batch, source, d_state), and
        the state after the last token of each sentence, of shape (batch, d_state).
    """
    ### BEGIN SOLUTION
    states = []
    for j in range(inputs.shape[1]):
        real = (j < lengths).unsqueeze(1)
        new = step(inputs[:, j], state)
        state = torch.where(real, new, state)
        states.append(torch.where(real, new, 0.0))
    return torch.stack(states, dim=1), state
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_encode", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_encode(encode)
### BEGIN HIDDEN TESTS
check_encode(encode, seed=1)
check_encode(encode, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# First write it without padding: a loop over the positions, a list of states, `torch.stack`. Along which axis?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# At position $j$ some sentences still have a token, and others do not. Make a tensor that is True for the first kind.
# `torch.where` chooses between two tensors. What should the state of the second kind be?
#
# </details>

# %% [markdown]
# ## Task 3: a test that finds broken encoders (2 points)
#
# Mistakes with padding are hard to see: the code runs, the loss falls, and only the results are a little worse. So write a
# test. It gets an encoder, runs it as often as it likes, and raises an `AssertionError` if a result depends on the padding. If
# the encoder is right, the test does nothing.
#
# An encoder is a function `encode(inputs, lengths)` that returns `(states, summary)`: the states, of the shape
# `(batch, source, d_state)`, and one vector for each sentence, of the shape `(batch, d_state)`.
#
# - The states at the positions of tokens, and the summary, must not depend on what the padding holds.
# - The states *at padding* may be anything. A right encoder may leave garbage there.
# - Differences up to `1e-5` are rounding; they are no mistake. Larger ones are.
# - The padding in `inputs` may hold any finite numbers; sometimes it is 0.
# - The encoders read with networks of all kinds, also from both sides. Each sentence has at least one token.
#
# The check calls your test with right encoders, which it must let pass, and with broken ones, which it must fail.


# %% nbgrader={"grade": false, "grade_id": "assert_ignores_padding", "locked": false, "schema_version": 3, "solution": true, "task": false}
def assert_ignores_padding(encode, inputs, lengths):
    """Raise an AssertionError if an encoder's results depend on the padding.

    Args:
        encode: (inputs, lengths) -> (states, summary), the encoder to test.
        inputs: the tokens' vectors, of shape (batch, source, d_input).
        lengths: number of tokens of each sentence, from 1 to source, of shape (batch,).
    """
    ### BEGIN SOLUTION
    real = (torch.arange(inputs.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(inputs + ~real, lengths)
    assert ((states - new_states).abs() * real).max() < 1e-5
    assert (summary - new_summary).abs().max() < 1e-5
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_assert_ignores_padding", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_assert_ignores_padding(assert_ignores_padding)
### BEGIN HIDDEN TESTS
check_assert_ignores_padding(assert_ignores_padding, seed=1)
check_assert_ignores_padding(assert_ignores_padding, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# "Does not depend on the padding" means: with other padding, the same results. What do you run twice, and what do you change
# in between?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# What do you put in the place of the padding, so that it certainly becomes different, even if it was 0? Which parts of the
# two results do you compare?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# `torch.allclose` compares two tensors and returns True or False. It never raises an error by itself.
#
# </details>

# %% [markdown]
# ## Task 4: the loss over real tokens (2 points)
#
# At each position of the target the decoder gives logits, one number for each token of the vocabulary. The loss of a token is
# the negative logarithm of its probability, the cross-entropy. With $\ell_{bi}$ for the logits and $y_{bi}$ for the true
# token:
#
# $$ -\log \mathrm{softmax}(\ell_{bi})_{y_{bi}} $$
#
# Return its mean over all **real tokens of all sentences**. Each token counts the same, in short and in long sentences.
# Padding does not count at all. Its entry in `targets` may be the number of any token, and 0 is a token like all others.
# Logits may be large.


# %% nbgrader={"grade": false, "grade_id": "token_loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
def token_loss(logits, targets, lengths):
    """Average the cross-entropy over the real tokens of a batch.

    Args:
        logits: tensor of shape (batch, target, vocabulary).
        targets: the number of the true token at each position, of shape (batch, target).
        lengths: number of tokens of each target sentence, of shape (batch,); some, but not all, may be 0.

    Returns:
        The mean loss in nats, a tensor without axes.
    """
    ### BEGIN SOLUTION
    real = torch.arange(targets.shape[1]) < lengths.unsqueeze(1)
    log_probability = torch.log_softmax(logits, dim=-1)[real]
    return -log_probability.gather(1, targets[real].unsqueeze(1)).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_token_loss", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_token_loss(token_loss)
### BEGIN HIDDEN TESTS
check_token_loss(token_loss, seed=1)
check_token_loss(token_loss, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take it apart: the loss of each token, of the shape `(batch, target)`. Which of these are real. Their mean.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The logarithm of a tiny probability is the problem with large logits. PyTorch has a function that gives the logarithm of a
# softmax in one go.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# What is the mean over the real tokens divided by? Count them for the lengths 2 and 5.
#
# </details>

# %% [markdown]
# ## Task 5: greedy decoding (2 points)
#
# In use, nobody tells the decoder the true token. It reads what it has written itself. *Greedy* means: at each step it writes
# the token with the largest logit.
#
# - The model first reads the token `start`, then always the token that was written last, for each sentence of the batch.
# - A sentence ends with the token `end`. The end token is part of the result. Behind it the row is filled with `padding`.
# - Writing stops when all sentences have ended, or after `max_length` tokens. So the result is as long as the longest
#   sentence. The start token is not part of it.
#
# What the model reads in a row that has ended does not matter: rows do not influence each other. The model may also write
# the padding token itself. That is a token like others; only `end` ends a sentence.


# %% nbgrader={"grade": false, "grade_id": "greedy_decode", "locked": false, "schema_version": 3, "solution": true, "task": false}
def greedy_decode(step, state, start, end, padding, max_length):
    """Write a sentence for each row of the state.

    Args:
        step: (tokens, state) -> (logits, state): reads one token of each sentence, whole numbers of shape (batch,), and
            gives logits of shape (batch, vocabulary) for the next one, and the new state.
        state: the state of the decoder before the first token; its first axis is the batch.
        start: number of the token that is read first.
        end: number of the token that ends a sentence.
        padding: number of the token that fills a row behind its end.
        max_length: largest number of tokens of a sentence, the end token included; at least 1.

    Returns:
        Tokens, whole numbers of shape (batch, length), where length is that of the longest sentence.
    """
    ### BEGIN SOLUTION
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_greedy_decode", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_greedy_decode(greedy_decode)
### BEGIN HIDDEN TESTS
check_greedy_decode(greedy_decode, seed=1)
check_greedy_decode(greedy_decode, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write it for one sentence first: a loop that calls `step`, takes the largest logit, notes the token, and stops at the end
# token.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# With several sentences, some have ended and others have not. Keep a boolean tensor that remembers which. When is it changed,
# before or after the row is filled with padding?
#
# </details>

# %% [markdown]
# ## Task 6: how far a gradient reaches (1 point)
#
# How much does the last state $h_{n-1}$ of an encoder still depend on a token that was read $k$ steps before? Its derivatives
# say it. They form a matrix, one row for each entry of the state and one column for each entry of the input. Its size is
# measured by the root of the sum of the squares of all entries:
#
# $$ g_k = \left\lVert \frac{\partial h_{n-1}}{\partial x_{n-1-k}} \right\rVert
# = \sqrt{\sum_{a} \sum_{d} \left( \frac{\partial h_{n-1,a}}{\partial x_{n-1-k,d}} \right)^2 } $$
#
# Return $g_0, g_1, \dots, g_{n-1}$ for one sentence, the nearest token first. PyTorch's automatic gradients do the
# differentiation; no gradient has to pass through your result.


# %% nbgrader={"grade": false, "grade_id": "gradient_reach", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gradient_reach(read, inputs):
    """Measure how much the last state depends on the input k tokens before it.

    Args:
        read: inputs -> states of shape (length, d_state): reads one sentence.
        inputs: the tokens' vectors, of shape (length, d_input).

    Returns:
        The norms for k = 0, 1, …, of shape (length,).
    """
    ### BEGIN SOLUTION
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.flip(1).square().sum(dim=(0, 2)).sqrt()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_gradient_reach", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_gradient_reach(gradient_reach)
### BEGIN HIDDEN TESTS
check_gradient_reach(gradient_reach, seed=1)
check_gradient_reach(gradient_reach, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `backward` gives the gradient of *one* number. The last state has `d_state` numbers. If you add them up first, what is lost?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `torch.autograd.grad` or `torch.autograd.functional.jacobian` can do it. Print the shape of what you get. Which of its axes
# do the sums of the formula run over?
#
# </details>

# %% [markdown]
# ## Task 7: choosing among hypotheses (1 point)
#
# Beam search gives several candidate translations, called hypotheses. The one with the highest probability is often too short:
# each further token makes a probability smaller. And it may leave a part of the source out. Wu et al. (2016) choose by a
# score with two corrections:
#
# $$ \frac{\log P}{\mathrm{lp}} + \beta \sum_{j} \log \min\!\Big(1, \sum_{i} \alpha_{ij}\Big), \qquad
# \mathrm{lp} = \frac{(5 + n)^{\alpha}}{(5 + 1)^{\alpha}} $$
#
# $n$ is the length of the hypothesis, and $\alpha_{ij}$ the attention weight of source position $j$ at step $i$. The second
# term is a penalty for source positions that were hardly read in all $n$ steps together. The exponent $\alpha$, without an
# index, and the factor $\beta$ are numbers that somebody chooses.
#
# Hypotheses are of different lengths. The weights of steps behind the end of one have no meaning and must not count. (No
# module of the course has this function. The library's `beam_search` divides by its own penalty for length. With this
# score you can choose again among its candidates, using the attention maps of the model.)


# %% nbgrader={"grade": false, "grade_id": "hypothesis_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    """Score candidate translations of one sentence by probability, length and coverage.

    Args:
        log_probability: log P of each hypothesis, of shape (hypotheses,).
        weights: attention weights, all above 0, of shape (hypotheses, steps, source).
        lengths: n, the number of steps of each hypothesis, at least 1, of shape (hypotheses,).
        alpha: exponent of the penalty for length.
        beta: factor of the coverage.

    Returns:
        Scores of shape (hypotheses,); the largest is the best.
    """
    ### BEGIN SOLUTION
    real = torch.arange(weights.shape[1]) < lengths.unsqueeze(1)
    read = (weights * real.unsqueeze(2)).sum(dim=1)
    coverage = read.clamp(max=1).log().sum(dim=1)
    return log_probability / ((5 + lengths) / 6) ** alpha + beta * coverage
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_hypothesis_scores", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check_hypothesis_scores(hypothesis_scores)
### BEGIN HIDDEN TESTS
check_hypothesis_scores(hypothesis_scores, seed=1)
check_hypothesis_scores(hypothesis_scores, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The second term has three operations, from the inside to the outside: a sum over the steps, a minimum, a logarithm; then a
# sum over the source. Which axis is which?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# How do you keep the steps behind the end of a hypothesis out of the inner sum? You have done that in tasks 2 and 4.
#
# </details>

# %% [markdown]
# ## Task 8: how far back (3 points)
#
# You can read that in an RNN *the error reaches only the previous two steps*. Take the simplest network,
# $h_t = w\, h_{t-1} + x_t$ with one number $w$. What is $\partial h_n / \partial x_{n-k}$? After how many steps is it below 1 %
# for $w = 0.9$? For which $w$ is that right, so that it is below 1 % at $k = 3$? What happens for $w = 1.1$? Then say in
# one or two sentences how the update gate of task 1 lets a network choose its own $w$. A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "how_far_back", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# Each step multiplies by w, so the derivative is w to the power of k. For w = 0.9 it is below 0.01 when k is larger than
# ln 0.01 / ln 0.9 = 43.7, so from k = 44 on. The sentence is right at k = 3 if w³ is below 0.01, that is for w below 0.215.
# There is no fixed number of steps; the memory fades by a constant factor for each one. For w = 1.1 it grows instead: after
# 44 steps the derivative is 66, so training becomes unstable.
#
# In the GRU the old state is multiplied by z. Where z is near 1, the state is kept almost unchanged, and the factor is near
# 1; where z is near 0, it is forgotten. z depends on the input, so the network learns when to keep something.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    gru_step=2,
    encode=2,
    assert_ignores_padding=2,
    token_loss=2,
    greedy_decode=2,
    gradient_reach=1,
    hypothesis_scores=1,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check seq2seq.ipynb` shows all results in one table.
