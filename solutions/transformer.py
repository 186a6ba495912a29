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
# # The whole model
#
# This set puts the transformer to work. You write the block of its decoder, the loss that it learns from, the loop that writes a sentence
# without reading anything twice, and a training that teaches a small model to translate number words. In the end you draw tokens in
# a way of which the library knows nothing, and read attention maps with care.
#
# You need PyTorch: tensors, gradients, and an optimiser. You have written attention and a block of an encoder before (the sets `multihead`
# and `selfattention`). You do not need the book, but its chapter *The whole model: translate, read, generate* explains each step with
# pictures.
#
# | Task | Function | Points | Minutes | Difficulty |
# |---|---|---|---|---|
# | 1 | `decoder_block` | 3 | 20 | ●●○ |
# | 2 | `smoothed_loss` | 2 | 20 | ●●○ |
# | 3 | `generate` | 3 | 25 | ●●● |
# | 4 | `train_translator` | 3 | 30 | ●●● |
# | 5 | `nucleus` | 2 | 20 | ●●○ |
# | 6 | a question, read by a person | 3 | 30 | ●●● |
#
# **How to work.** Replace each `raise NotImplementedError` with your code. Then run the cell under it. That cell
# checks your function and tells you at once what is wrong and where. The check that you see is not the whole
# test: at grading your function is called again with other sizes and other numbers.
#
# **Rules.** Loops, `torch.log_softmax`, the optimisers of PyTorch, and the functions of `attncourse.qkv`, `attncourse.multihead` and
# `attncourse.selfattention` are all fine, as pieces. The functions of `attncourse.transformer`, `attncourse.decoding` and
# `attncourse.training` are not. In task 2, `F.cross_entropy` is not, either; in task 4 it is. Your functions must let gradients pass, must not
# change their inputs, and must return the dtype that they were given. Masks are boolean, and **True means "may attend"**.

# %% [markdown]
# <details>
# <summary>I get this error …</summary>
#
# - **The size of tensor a must match the size of tensor b at non-singleton dimension ….** Print the shapes of scores and mask. A padding mask of
#   the shape (batch, source) lacks the axis of the queries: `mask.unsqueeze(-2)` adds one of length 1, which fits any number of queries.
# - **element 0 of tensors does not require grad and does not have a grad_fn.** The loss was computed under `torch.no_grad()`, or by numbers that
#   left PyTorch (`.item()`, `.detach()`).
# - **Expected input batch_size (…) to match target batch_size (…).** `F.cross_entropy` wants the logits as (number, vocabulary) and the target as
#   (number,). `flatten(0, 1)` joins the first two axes. Were both shifted to the same length?
# - **index … is out of bounds for dimension 0**, in an embedding. A target of −100 or of padding was read as a token, or the target was cut at the
#   wrong end.
# - **Target … is out of bounds.** The targets must be below the size of the last axis of the logits.
# - **The check of task 4 takes some seconds.** It trains a model; that is all right. If it takes more than a minute, your loop makes too many steps.
# - **NameError: name 'generate' is not defined.** Run the cells from the top: *Run → Run All Cells*.
# - **ModuleNotFoundError: No module named 'attncourse'.** The notebook runs in another Python than the one in
#   which you installed the course. Choose the right kernel at the top right.
# - **My change has no effect.** Run the cell of the function again, and then the cell of its check.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "imports", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn import functional as F

from attncourse.checks.summary import points_so_far
from attncourse.checks.transformer import (
    check_decoder_block,
    check_generate,
    check_nucleus,
    check_smoothed_loss,
    check_train_translator,
)

# %% [markdown]
# ## Task 1: the block of a decoder (3 points)
#
# The decoder of a translator reads two things: what it has written so far, and the source. Its block has three sublayers, one after the other,
# each with its norm before it and a residual connection around it (pre-norm):
#
# $$ A = X + \mathrm{self}(\mathrm{norm}_1(X), \mathrm{norm}_1(X)), \quad
# B = A + \mathrm{cross}(\mathrm{norm}_2(A), M), \quad
# \mathrm{output} = B + \mathrm{feedforward}(\mathrm{norm}_3(B)) $$
#
# $X$ are the `inputs`, one vector for each target token; $M$ is the `memory`, one vector for each source token, as the encoder
# has made it.
#
# - The sublayers and norms are given as functions. `self_attend(x, y, mask)` and `cross_attend(x, y, mask)` let $x$ attend to $y$: queries come from
#   `x`, keys and values from `y`. The mask is None or broadcasts to (batch, queries, keys). They do **not** make a mask of their own.
# - Self-attention is causal: target token $i$ sees the target tokens up to itself, and no later one.
# - `real_source` says which source tokens are real. Nobody attends to the padding of the source. The source is known as a whole, so a target
#   token may read all of it.


# %% nbgrader={"grade": false, "grade_id": "decoder_block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    """Apply the three sublayers of a decoder block, pre-norm, with residual connections.

    Args:
        inputs: of the target, tensor of shape (batch, target, d_model).
        memory: of the source, tensor of shape (batch, source, d_model).
        self_attend: function of (x, y, mask), for the target.
        cross_attend: function of (x, y, mask), for the source.
        feedforward: function of x.
        norm_1: function of x, before self-attention.
        norm_2: function of x, before cross-attention.
        norm_3: function of x, before the feed-forward network.
        real_source: None, or a boolean tensor of shape (batch, source), True for a token, False for padding.

    Returns:
        A tensor of shape (batch, target, d_model).
    """
    ### BEGIN SOLUTION
    length = inputs.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    mask = None if real_source is None else real_source.unsqueeze(-2)
    normed = norm_1(inputs)
    own = inputs + self_attend(normed, normed, causal)
    read = own + cross_attend(norm_2(own), memory, mask)
    return read + feedforward(norm_3(read))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_decoder_block", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_decoder_block(decoder_block)
### BEGIN HIDDEN TESTS
check_decoder_block(decoder_block, seed=1)
check_decoder_block(decoder_block, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write the three lines of the formula as three lines of code. Then ask for each attention: who asks, who is read, and what must be hidden?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# To test whether a block is causal, change the last target token and compare the outputs at the places before it.
#
# </details>

# %% [markdown]
# ## Task 2: label smoothing (2 points)
#
# A model that is trained to give the right token the probability 1 becomes too sure. Label smoothing (Szegedy et al. 2016; Vaswani et al. 2017,
# section 5.4) asks for a little less: with a vocabulary of $V$ tokens and a small number $\varepsilon$ the wanted distribution is
#
# $$ q_v = (1 - \varepsilon)\, [v \text{ is the right token}] + \frac{\varepsilon}{V} $$
#
# The share $\varepsilon$ is spread over **all** $V$ tokens, the right one too. The loss of a token is the cross-entropy
#
# $$ -\sum_v q_v \log p_v, \qquad p = \mathrm{softmax}(\mathrm{logits}) $$
#
# The loss of a batch is the mean over its real tokens: each counts the same, and padding counts nothing. It has to work for large logits, too. At least
# one token is real. `F.cross_entropy` and `nn.CrossEntropyLoss` are the whole answer, so they are not allowed here.


# %% nbgrader={"grade": false, "grade_id": "smoothed_loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
def smoothed_loss(logits, target, smoothing, real_tokens):
    """Average the cross-entropy to smoothed targets over the real tokens.

    Args:
        logits: tensor of shape (batch, length, vocabulary).
        target: the right tokens, integers of shape (batch, length).
        smoothing: the share that is spread over all tokens, a number from 0 to 1.
        real_tokens: boolean tensor of shape (batch, length), True for a token, False for padding.

    Returns:
        The loss, a tensor without axes.
    """
    ### BEGIN SOLUTION
    logs = logits.log_softmax(dim=-1)
    right = logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * right - smoothing * logs.mean(dim=-1)
    return losses[real_tokens].mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_smoothed_loss", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_smoothed_loss(smoothed_loss)
### BEGIN HIDDEN TESTS
check_smoothed_loss(smoothed_loss, seed=1)
check_smoothed_loss(smoothed_loss, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down the wanted distribution for V = 5 and ε = 0.1. It has to sum to 1. Then do it for one token, in a loop if you like.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# The sum over v falls into two parts: one that needs only the right token (`gather` picks it), and one in which all tokens have
# the same weight.
#
# </details>

# %% [markdown]
# ## Task 3: write with a cache (3 points)
#
# A model that writes token after token could read everything again for each new one. With a *cache* it keeps what it knows of the tokens read before,
# and reads only the new one. Here you write that loop. The model is a function:
#
# `logits, cache = step(tokens, cache)`
#
# It reads `tokens`, integers of shape (batch, n), **after** those that the cache knows; with `None` for the cache it starts anew. It returns
# scores of shape (batch, n, vocabulary), at each place for the token that comes next, and a new cache.
#
# - Start with the prompt. Always choose the token with the highest score. Write `length` tokens and return them, without the prompt.
# - A sentence that has written the token `end` is finished: all its later tokens are `end`, too. The others go on. An `end` in the prompt
#   finishes nothing.
# - **No token may be read twice**, and none that nothing is written after: together the calls may read no more than prompt + length − 1 places of each
#   sentence. (Stopping earlier, when all sentences are finished, is allowed.)


# %% nbgrader={"grade": false, "grade_id": "generate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def generate(step, prompt, length, end):
    """Write the most probable token, again and again, reading each token once.

    Args:
        step: function of (tokens, cache), which returns (logits, cache).
        prompt: integers of shape (batch, n), n at least 1.
        length: number of tokens to write, at least 1.
        end: the token that ends a sentence.

    Returns:
        The tokens written, integers of shape (batch, length).
    """
    ### BEGIN SOLUTION
    logits, cache = step(prompt, None)
    tokens = logits[:, -1:].argmax(dim=-1)
    while tokens.shape[1] < length:
        last = tokens[:, -1:]
        logits, cache = step(last, cache)
        best = torch.where(last == end, end, logits.argmax(dim=-1))
        tokens = torch.cat([tokens, best], dim=1)
    return tokens
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_generate", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_generate(generate)
### BEGIN HIDDEN TESTS
check_generate(generate, seed=1)
check_generate(generate, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Play it through on paper: a prompt of 3 tokens, 2 tokens to write. Which places does the first call read? Which scores of it do you need?
# What does the second call read?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# Which tokens does the cache know after the first call? What happens if you give `step` one of them again?
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# For the end: a sentence is finished if the last token that it has *written* is `end`. `torch.where` chooses between two tokens for each sentence.
#
# </details>

# %% [markdown]
# ## Task 4: train a translator (3 points)
#
# Your function is given a small model and number words, such as *twenty one* and *ein und zwanzig*, as token ids. It trains the model **in place**. The check
# trains with it for some seconds, and then lets the model translate numbers that it has never seen: more than 4 in 10 have to be right. (A good
# training reaches more than 8 in 10.) Before that, the check hands in a model that tells how it is trained. So it can say what is wrong, too.
#
# - `model(source, target, source_lengths)` returns logits of the shape (batch, target, vocabulary): at each place the scores of the token
#   that comes *next*. The model hides the future and the padding of the source by itself. Its layers are those of PyTorch.
# - Each target is a row `START … END`, filled up with **the token 0, which is padding**. The model reads the true target so far (*teacher forcing*): it is
#   given the target without its last column, and should predict the target without its first column. Padding must not be learned: its
#   places do not count in the loss.
# - Make exactly `steps` updates. Each one calls the model once, with a batch of sentences that is drawn from all of the data. The gradients of an update come
#   from its own batch alone.
# - The model comes in evaluation mode. Train it in training mode.
#
# You choose the optimiser, the learning rate and the size of the batch. Adam with a learning rate between 0.003 and 0.01, and batches of 16 to 64, are good
# choices. The check makes 150 steps; with such batches they take a few seconds. (The time is not judged, but you wait for it.)


# %% nbgrader={"grade": false, "grade_id": "train_translator", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_translator(model, source, target, source_lengths, steps):
    """Train a model in place, by teacher forcing.

    Args:
        model: module with model(source, target, source_lengths) -> logits.
        source: integers of shape (sentences, source), padded with 0.
        target: integers of shape (sentences, target): START … END, padded with 0.
        source_lengths: number of tokens of each source that are no padding, integers of shape (sentences,).
        steps: number of updates.
    """
    ### BEGIN SOLUTION
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        read, wanted = target[rows, :-1], target[rows, 1:]
        logits = model(source[rows], read, source_lengths[rows])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_train_translator", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check_train_translator(train_translator)
### BEGIN HIDDEN TESTS
check_train_translator(train_translator, seed=1)
check_train_translator(train_translator, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take one row, `START a b END 0`. Write down what the model reads at each place, and below it what it should predict. Which of these places
# count?
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `F.cross_entropy` can skip a target: look up `ignore_index`. Or compute the loss of every place and average over the real ones.
#
# </details>
# <details>
# <summary>Hint 3</summary>
#
# `torch.randint(len(source), (32,))` draws 32 rows. All three of source, target and lengths have to be indexed with the same rows.
#
# </details>

# %% [markdown]
# ## Task 5: draw from the nucleus (2 points)
#
# Always taking the best token makes dull texts; drawing from the whole vocabulary now and then draws nonsense. *Top-p* or *nucleus* sampling
# (Holtzman et al. 2020, arXiv:1904.09751) draws from the **smallest set of most probable tokens whose probabilities together reach the share** $p$.
#
# Add up the probabilities from the most probable token downwards. The token with which the sum reaches $p$ still belongs to the nucleus. So at least
# one token is kept, however small $p$ is. (The check has no sums that equal $p$ exactly, because there rounding decides.) For the probabilities 0.5, 0.3, 0.15, 0.05:
#
# | $p$ | 0.4 | 0.6 | 0.85 | 1 |
# |---|---|---|---|---|
# | kept | 0.5 | 0.5, 0.3 | 0.5, 0.3, 0.15 | all |
#
# Return the logits: unchanged inside the nucleus, −∞ outside, each at its own place.
#
# **Where it fits.** The library can draw (`sample` from `attncourse.decoding`), with a temperature and with the best $k$ tokens, but knows no nucleus. It takes the model
# as a function of (tokens, state): wrap that function so that it returns `nucleus(logits, 0.9)` in place of the logits.


# %% nbgrader={"grade": false, "grade_id": "nucleus", "locked": false, "schema_version": 3, "solution": true, "task": false}
def nucleus(logits, share):
    """Keep the smallest set of most probable tokens that reaches a share of the probability.

    Args:
        logits: tensor of shape (..., vocabulary).
        share: the probability that the set has to reach, above 0 and at most 1.

    Returns:
        A tensor of the shape of the logits: the same logits in the nucleus, -inf outside.
    """
    ### BEGIN SOLUTION
    values, order = logits.sort(descending=True)
    mass = values.softmax(dim=-1)
    outside = mass.cumsum(dim=-1) - mass >= share
    outside = outside.gather(-1, order.argsort())
    return logits.masked_fill(outside, float("-inf"))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "test_nucleus", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check_nucleus(nucleus)
### BEGIN HIDDEN TESTS
check_nucleus(nucleus, seed=1)
check_nucleus(nucleus, seed=2, dtype=torch.float64)
### END HIDDEN TESTS

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# For one token: how much probability lies *before* it, if you go from the most probable one downwards? It belongs to the nucleus if that has not reached the
# share yet.
#
# </details>
# <details>
# <summary>Hint 2</summary>
#
# `sort` returns the order, too. How do you get from "place 2 in the order" back to the token? Try `order.argsort()` with three numbers on paper, or
# `scatter`.
#
# </details>

# %% [markdown]
# ## Task 6: what a map does not show (3 points)
#
# You train the model of task 4 with 4 heads, and look at the cross-attention of one head. For the source *forty seven* and the target *sieben und vierzig*, the
# weights of the rows are
#
# | | forty | seven |
# |---|---|---|
# | sieben | 0.08 | 0.92 |
# | und | 0.55 | 0.45 |
# | vierzig | 0.85 | 0.15 |
#
# Somebody writes: *"The map shows that the model looks at 'seven' to write 'sieben'. It does not know what to do with 'und'. The other heads are not needed."*
#
# (a) For each of the three sentences, say in one or two sentences what is right about it, and what the map alone does not show.
#
# (b) Choose one of the three. Describe an experiment that could refute it: what do you change, what do you measure, with what do you compare it
# (a baseline), and which result would speak against the claim?
#
# (c) Why is the weight on *seven* no statement about the token *seven* alone, if the encoder has self-attention?
#
# A person reads your answer.

# %% [markdown] nbgrader={"grade": true, "grade_id": "what_a_map_does_not_show", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# (a) First: right is that the context of this head for "sieben" is mostly the value at the place of "seven" (92 %). Not shown is whether this context matters: it may be small, W^O may map it to
# nearly nothing, or the other heads and the residual connection may decide. Second: the weights for "und" are spread, 0.55 and 0.45. But "und" needs no single source word, it is needed whenever there is a
# ten and a one; a mixture of both is a sensible answer, not ignorance. Third: the map shows one head. It says nothing about the others.
#
# (b) For the third: mask the other three heads (their contexts become 0), without training again, and measure exact match on 200 numbers that the model has not seen, with 3 trained models. If exact match falls clearly
# below that of the whole model, the claim is refuted. Baselines: the whole model; and masking each single head, so that one sees what masking as such does. (It may also be that a model trained with one head from the start
# does well: "needed by this model" is not "needed for the task".)
#
# (c) After self-attention the vector at the place of "seven" holds information about "forty", too. The weight says from which place the decoder reads, not which token the information comes from.

# %% [markdown]
# ## When you are done
#
# This cell counts the points of the functions. A person adds those of the last question.

# %% nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
points_so_far(
    decoder_block=3,
    smoothed_loss=2,
    generate=3,
    train_translator=3,
    nucleus=2,
)

# %% [markdown]
# Run *Kernel → Restart Kernel and Run All Cells*, so that you know that the notebook works from the top. Then save
# it. In a terminal, `attncourse check transformer.ipynb` shows all results in one table.
