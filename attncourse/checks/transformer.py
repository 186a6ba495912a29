"""Checks of the set `transformer`: a block, a loss, generation with a cache, training, and top-p sampling."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import BATCHES, INFINITY, normal, sizes
from attncourse.checks.observe import TRUTH, Case
from attncourse.checks.words import END, PAD, START, Translator, Witness, number_words

# What a learner may call: earlier modules of the library, and the models that the check hands in.
PIECES = frozenset({"masks", "qkv", "multihead", "selfattention", "position", "checks.words"})

# --- The right answers. ---


def _oracle_block(
    inputs: Tensor,
    memory: Tensor,
    self_attend: Callable,
    cross_attend: Callable,
    feedforward: Callable,
    norm_1: Callable,
    norm_2: Callable,
    norm_3: Callable,
    real_source: Tensor | None = None,
) -> Tensor:
    """Makes each target position alone, from the positions up to it: so it cannot see a later one."""
    rows = []
    for i in range(inputs.shape[-2]):
        seen = inputs[..., : i + 1, :]
        row = inputs[..., i : i + 1, :]
        row = row + self_attend(norm_1(row), norm_1(seen), None)
        allowed = None
        if real_source is not None:
            allowed = torch.stack([real_source], -2)
        row = row + cross_attend(norm_2(row), memory, allowed)
        rows.append(row + feedforward(norm_3(row)))
    return torch.cat(rows, -2)


def _oracle_loss(logits: Tensor, target: Tensor, smoothing: float, real_tokens: Tensor) -> Tensor:
    losses = []
    for b in range(target.shape[0]):
        for i in range(target.shape[1]):
            if real_tokens[b, i]:
                scores = logits[b, i]
                top = scores.max().detach()
                logs = [s - top - torch.exp(scores - top).sum().log() for s in scores]
                wanted = [smoothing / len(scores)] * len(scores)
                wanted[target[b, i]] += 1 - smoothing
                losses.append(-sum(w * log for w, log in zip(wanted, logs, strict=True)))
    return sum(losses) / len(losses)


def _oracle_generate(step: Callable, prompt: Tensor, length: int, end: int) -> Tensor:
    """Goes through the sentences one after the other, and reads one token after the other."""
    rows = []
    for sentence in prompt:
        state, written = None, []
        for token in sentence:
            logits, state = step(token.reshape(1, 1), state)
        while len(written) < length:
            if end not in written and written:
                logits, state = step(torch.tensor([[written[-1]]]), state)
            written.append(end if end in written else int(logits[0, -1].argmax()))
        rows.append(written)
    return torch.tensor(rows)


def _oracle_train(model: Witness, *others: object) -> None:
    model.is_trusted = True


def _oracle_nucleus(logits: Tensor, share: float) -> Tensor:
    if logits.ndim > 1:
        return torch.stack([_oracle_nucleus(row, share) for row in logits])
    powers = [torch.exp(x - logits.max()).item() for x in logits]
    order = sorted(range(len(powers)), key=lambda i: -powers[i])
    kept, mass = set(), 0.0
    for i in order:
        if mass >= share:
            break
        kept.add(i)
        mass += powers[i] / sum(powers)
    low = torch.tensor(-INFINITY, dtype=logits.dtype)
    return torch.stack([x if i in kept else low for i, x in enumerate(logits)])


# --- The cases. ---


def _block_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    target, source, d_model, hidden = sizes(generator, 4)

    def matrix(rows: int, columns: int) -> Tensor:
        return normal(generator, torch.float64, rows, columns) / rows**0.5

    def attention() -> Callable:
        query, key, value = (matrix(d_model, d_model) for _ in range(3))

        def attend(x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
            scores = x @ query.to(x.dtype) @ (y @ key.to(x.dtype)).mT / d_model**0.5
            if mask is not None:
                empty = ~mask.any(-1, keepdim=True)
                scores = scores.masked_fill(~(mask | empty), -INFINITY)
            return scores.softmax(-1) @ (y @ value.to(x.dtype))

        return attend

    def norm() -> Callable:
        gain, bias = (normal(generator, torch.float64, d_model) for _ in range(2))
        return lambda x: F.layer_norm(x, (d_model,), 1 + gain.to(x.dtype) / 2, bias.to(x.dtype))

    widen, narrow = matrix(d_model, hidden), matrix(hidden, d_model)

    def feedforward(x: Tensor) -> Tensor:
        return torch.tanh(x @ widen.to(x.dtype)) @ narrow.to(x.dtype)

    parts = {
        "self_attend": attention(),
        "cross_attend": attention(),
        "feedforward": feedforward,
        "norm_1": norm(),
        "norm_2": norm(),
        "norm_3": norm(),
    }

    def inputs(target: int = target, source: int = source, batch: int = 3, **options: Tensor) -> dict:
        states, memory = (normal(generator, dtype, batch, n, d_model) for n in (target, source))
        return {"inputs": 2 * states + 1, "memory": memory} | parts | options

    def real(source: int, batch: int = 3) -> Tensor:
        lengths = 1 + torch.randperm(source - 1, generator=generator)[:batch]
        return torch.arange(source) < lengths.unsqueeze(-1)

    yield Case("one token each", inputs(1, 1))
    yield Case("one target token", inputs(1, target))
    # As many target as source tokens: here mix-ups of the two raise no error.
    yield Case("as many target as source tokens", inputs(target, target))
    yield Case("padding in the source", inputs(target, target, real_source=real(target)))
    yield Case("other lengths", inputs())
    yield Case("other lengths with padding", inputs(real_source=real(source)))
    yield Case("another batch", inputs(batch=4, real_source=real(source, 4)))
    yield Case("gradient", inputs(real_source=real(source)), gradient=True)


def _loss_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, vocabulary = sizes(generator, 2)

    def inputs(
        batch: int = 3, length: int = length, smoothing: float = 0.1, lengths: Tensor | None = None, scale=1.5
    ) -> dict:
        lengths = torch.full((batch,), length) if lengths is None else lengths
        return {
            "logits": scale * normal(generator, dtype, batch, length, vocabulary),
            "target": torch.randint(vocabulary, (batch, length), generator=generator),
            "smoothing": smoothing,
            "real_tokens": torch.arange(length) < lengths.unsqueeze(-1),
        }

    lengths = 1 + torch.randperm(length - 1, generator=generator)[:3]
    yield Case("one token, no smoothing", inputs(1, 1, 0.0))
    yield Case("one token", inputs(1, 1, 0.2))
    yield Case("a batch", inputs())
    yield Case("much smoothing", inputs(smoothing=0.6))
    yield Case("padding", inputs(lengths=lengths))
    yield Case("padding, no smoothing", inputs(smoothing=0.0, lengths=lengths))
    yield Case(
        "a sentence of padding alone", inputs(smoothing=0.3, lengths=lengths * torch.tensor([1, 0, 1]))
    )
    yield Case("gradient", inputs(smoothing=0.2, lengths=lengths), gradient=True)
    yield Case("large logits", inputs(lengths=lengths, scale=400.0))


def _generate_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    vocabulary, width = 17, 6
    table, readout = (
        normal(generator, torch.float64, *shape) for shape in ((vocabulary, width), (width, vocabulary))
    )
    readings = []
    never = torch.tensor([1000.0] + [0.0] * (vocabulary - 1))  # token 0 is not written, and so is not `end`

    def step(tokens: Tensor, state: tuple[Tensor, int] | None) -> tuple[Tensor, tuple[Tensor, int]]:
        """Reads tokens after those of the state. The scores depend on all tokens, and on their places."""
        if tokens.ndim != 2:
            raise ValueError(f"tokens must have shape (batch, n), got {tuple(tokens.shape)}")
        memory, place = (torch.zeros(len(tokens), width, dtype=torch.float64), 0) if state is None else state
        readings.append(tokens.numel())
        logits = []
        for token in tokens.T:
            memory = 0.8 * memory.roll(1, -1) + table[token] * (1 + 0.3 * (place % 5))
            place += 1
            logits.append(memory @ readout - never)
        return torch.stack(logits, 1), (memory, place)

    def call(generate: Callable, step: Callable, prompt: Tensor, length: int, end: int) -> tuple:
        readings.clear()
        tokens = generate(step, prompt, length, end)
        return tokens, sum(readings) <= len(prompt) * (prompt.shape[1] + length - 1)

    def case(stage: str, batch: int, prompt: int, length: int, **options: object) -> Case:
        # The end token is one that the model writes, as early as wanted.
        tokens = torch.randint(vocabulary, (batch, prompt), generator=generator)
        wanted = options.pop("ends", None)
        end = vocabulary
        if wanted is not None:
            end = int(_oracle_generate(step, tokens, length, vocabulary)[0, wanted])
        return Case(
            stage, {"step": step, "prompt": tokens, "length": length, "end": end}, call=call, **options
        )

    prompt, length = sizes(generator, 2)
    yield case("one token after one", 1, 1, 1)
    yield case("one token after several", 1, prompt, 1)
    yield case("several tokens after one", 1, 1, length)
    yield case("several tokens after several", 1, prompt, length)
    yield case("a batch", 3, prompt, length)
    # An end token in the prompt, and a sentence that goes on after it.
    tokens = torch.randint(vocabulary - 1, (3, prompt), generator=generator)
    tokens[0, -1] = tokens[1, 0] = end = vocabulary - 1
    while end in _oracle_generate(step, tokens, length, vocabulary)[:2, 0]:
        tokens[:2, 1:-1] = torch.randint(end, (2, prompt - 2), generator=generator)
    inputs = {"step": step, "prompt": tokens, "length": length, "end": end}
    yield Case("an end token in the prompt", inputs, call=call)
    yield case("a sentence that ends", 1, prompt, length, ends=2)
    yield case("a batch in which one ends first", 4, prompt, length, ends=1)
    yield case("a batch in which one ends at once", 4, 3, length, ends=0)


FRUGAL = '"each token is read once at most, and only if another one follows"'
STEPS = 150
ENOUGH = 0.4


def _evidence(train: Callable, seed: int) -> Witness:
    """Trains a witness on sentences in which each token has one successor."""
    generator = torch.Generator().manual_seed(seed)
    targets, sentences = 11, 400
    first = torch.randint(3, targets - 1, (sentences,), generator=generator)
    target = torch.full((sentences, targets), PAD)
    for row, token in zip(target, first.tolist(), strict=True):
        tokens = [START, *range(token, targets), END]
        row[: len(tokens)] = torch.tensor(tokens)
    lengths = torch.randint(1, 7, (sentences,), generator=generator)
    source = torch.randint(3, 90, (sentences, 6), generator=generator)
    source = source.masked_fill(torch.arange(6) >= lengths.unsqueeze(-1), PAD)
    witness = Witness(targets).eval()
    train(witness, source, target, lengths, 100)
    return witness


def _statements(witness: Witness) -> tuple[bool, ...]:
    table = witness.table.detach()
    follower = table.argmax(-1)
    right = follower[3:-1].tolist() == list(range(4, len(table))) and follower[-1].item() == END
    repeats = follower[3:].tolist() == list(range(3, len(table)))
    learns_padding = table[PAD].any().item() or (table[END].any().item() and follower[END].item() == PAD)
    return (
        len(witness.sources) > 66,
        right,
        not repeats,
        not learns_padding,
        not witness.piled_up,
        witness.trains,
        witness.lengths_fit,
        witness.starts,
        witness.calls == 100,
        table.any().item(),
    )


STATEMENTS = (
    '"the batches come from all of the data"',
    '"the model learns which token comes next"',
    '"the model does not learn to repeat the token that it reads"',
    '"padding is not learned"',
    '"each update uses the gradient of its own batch alone"',
    '"the model is in training mode"',
    '"the lengths of the sources are passed on"',
    '"the model reads the start token first"',
    '"the model is called once a step"',
    '"the model changes"',
)


def _train_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    seed = int(torch.randint(1000, (), generator=generator))

    def tell(train: Callable) -> tuple[tuple[bool, ...], bool]:
        witness = _evidence(train, seed)
        if witness.is_trusted:
            return (True,) * len(STATEMENTS), True
        return _statements(witness), False

    def words(train: Callable) -> tuple[bool, ...]:
        """Trains on number words, if it is worth the time."""
        said, is_trusted = tell(train)
        if is_trusted or not all(said):
            return said
        torch.manual_seed(seed)
        data, english, german = number_words()
        order = torch.randperm(1000)
        held_out, known = order[:200], order[200:]
        model = Translator(english, german).eval()
        learned = (data[name][known] for name in ("source", "target", "source_lengths"))
        train(model, *learned, STEPS)
        model.eval()
        wanted = data["target"][held_out]
        found = model.translate(
            data["source"][held_out], data["source_lengths"][held_out], wanted.shape[1] - 1
        )
        right = ((found == wanted) | (wanted == PAD)).all(-1).double().mean().item()
        return (said[0], right >= ENOUGH, *said[2:])

    yield Case(
        "a model that tells how it is trained",
        {},
        call=lambda train: tell(train)[0],
    )
    if dtype == torch.float32:  # the costly part: once for each seed
        note = (
            f"After {STEPS} steps, fewer than {ENOUGH:.0%} of the numbers that it has not seen are right. "
            "A training that works reaches 80 % and more."
        )
        yield Case("number words", {}, call=words, note=note)


def _nucleus_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (vocabulary,) = sizes(generator, 1)

    def inputs(share: float, *batch: int) -> dict:
        return {"logits": 1.5 * normal(generator, dtype, *batch, vocabulary), "share": share}

    yield Case("a half", inputs(0.5))
    yield Case("nine tenths", inputs(0.9))
    yield Case("all", inputs(1.0))
    yield Case("very little", inputs(1e-3))
    for stage, batch in BATCHES.items():
        yield Case(stage, inputs(0.7, *batch))
    # Negative logits alone, and positive ones alone: a softmax does not care.
    low = inputs(0.8, 3)
    yield Case("negative logits", low | {"logits": low["logits"] - 50})
    yield Case("gradient", inputs(0.6, 3), gradient=True)


# --- The known wrong versions, each named in the catalogue. ---


def _causal(x: Tensor) -> Tensor:
    return torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()


def _right_block(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = x + p["self"](p["n1"](x), p["n1"](x), _causal(x))
    x = x + p["cross"](p["n2"](x), memory, real)
    return x + p["feed"](p["n3"](x))


def _block(compose: Callable = _right_block, order: tuple[int, int, int] = (0, 1, 2)) -> Callable:
    """Builds a decoder block from its composition, which is wrong somewhere."""

    def block(x: Tensor, memory: Tensor, *given: object) -> Tensor:
        own, cross, feed, *norms = given[:6]
        real = given[6].unsqueeze(-2) if len(given) == 7 else None
        n1, n2, n3 = (norms[i] for i in order)
        parts = {"self": own, "cross": cross, "feed": feed, "n1": n1, "n2": n2, "n3": n3}
        return compose(x, memory, parts, real)

    return block


def _own(x: Tensor, p: dict, mask: Tensor | None = None) -> Tensor:
    normed = p["n1"](x)
    return p["self"](normed, normed, _causal(x) if mask is None else mask)


def _after(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    """Does the right thing after self-attention."""
    x = x + p["cross"](p["n2"](x), memory, real)
    return x + p["feed"](p["n3"](x))


def _sees_future(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    normed = p["n1"](x)
    return _after(x + p["self"](normed, normed, None), memory, p, real)


def _self_mask(change: Callable) -> Callable:
    return lambda x, memory, p, real: _after(x + _own(x, p, change(_causal(x), real)), memory, p, real)


def _cross_first(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = x + p["cross"](p["n1"](x), memory, real)
    normed = p["n2"](x)
    x = x + p["self"](normed, normed, _causal(x))
    return x + p["feed"](p["n3"](x))


def _cross_first_own_norms(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = x + p["cross"](p["n2"](x), memory, real)
    x = x + _own(x, p)
    return x + p["feed"](p["n3"](x))


def _crossing(cross: Callable) -> Callable:
    """Builds a block with another cross-attention, ``(x, normed x, memory, parts, mask) -> context``."""

    def compose(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
        x = x + _own(x, p)
        x = x + cross(x, p["n2"](x), memory, p, real)
        return x + p["feed"](p["n3"](x))

    return compose


def _causal_and(x: Tensor, real: Tensor | None, memory: Tensor) -> Tensor:
    causal = torch.ones(x.shape[-2], memory.shape[-2], dtype=torch.bool).tril()
    return causal if real is None else causal & real


def _causal_cross(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    def cross(x: Tensor, normed: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
        return p["cross"](normed, memory, _causal_and(x, real, memory))

    return _crossing(cross)(x, memory, p, real)


def _parallel(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = x + _own(x, p) + p["cross"](p["n2"](x), memory, real)
    return x + p["feed"](p["n3"](x))


def _feed_before_cross(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = x + _own(x, p)
    x = x + p["feed"](p["n2"](x))
    return x + p["cross"](p["n3"](x), memory, real)


def _post_norm(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = p["n1"](x + p["self"](x, x, _causal(x)))
    x = p["n2"](x + p["cross"](x, memory, real))
    return p["n3"](x + p["feed"](x))


def _residual_after_norm(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    x = p["n1"](x)
    x = p["n2"](x + p["self"](x, x, _causal(x)))
    x = p["n3"](x + p["cross"](x, memory, real))
    return x + p["feed"](x)


def _without_residual(*missing: int) -> Callable:
    def compose(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
        x = (0 if 1 in missing else x) + _own(x, p)
        x = (0 if 2 in missing else x) + p["cross"](p["n2"](x), memory, real)
        return (0 if 3 in missing else x) + p["feed"](p["n3"](x))

    return compose


def _from_the_start(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    first = x + _own(x, p)
    second = x + p["cross"](p["n2"](first), memory, real)
    return x + p["feed"](p["n3"](second))


def _query_not_normed(x: Tensor, normed: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    return p["cross"](x, memory, real)


def _keys_not_normed(x: Tensor, memory: Tensor, p: dict, real: Tensor | None) -> Tensor:
    return _after(x + p["self"](p["n1"](x), x, _causal(x)), memory, p, real)


def _loss(
    wanted: Callable | None = None,
    logs: Callable = lambda logits: logits.log_softmax(-1),
    reduce: Callable = lambda losses, real: losses[real].mean(),
) -> Callable:
    """Builds the loss from its steps, one of which is wrong."""
    wanted = wanted or (lambda hot, e, v: (1 - e) * hot + e / v)

    def loss(logits: Tensor, target: Tensor, smoothing: float, real: Tensor) -> Tensor:
        hot = F.one_hot(target, logits.shape[-1]).to(logits.dtype)
        q = wanted(hot, smoothing, logits.shape[-1])
        return reduce(-(q * logs(logits)).sum(-1), real)

    return loss


def _divergence(logits: Tensor, target: Tensor, smoothing: float, real: Tensor) -> Tensor:
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    q = (1 - smoothing) * hot + smoothing / vocabulary
    return (torch.xlogy(q, q) - q * logits.log_softmax(-1)).sum(-1)[real].mean()


def _sentences_first(losses: Tensor, real: Tensor) -> Tensor:
    sums, counts = (losses * real).sum(-1), real.sum(-1)
    return (sums[counts > 0] / counts[counts > 0]).mean()


def _generate(
    start: Callable | None = None,
    done_before: Callable = lambda prompt, end: torch.zeros(len(prompt), dtype=torch.bool),
    read: Callable = lambda all_tokens, new: new,
    keep: Callable = lambda state: state,
    choose: Callable = lambda logits: logits[:, -1].argmax(-1),
    ended: str = "each",
    extra: bool = False,
    whole: bool = False,
    shift: int = 0,
) -> Callable:
    """Builds generation from its steps, one of which is wrong."""

    def generate(step: Callable, prompt: Tensor, length: int, end: int) -> Tensor:
        tokens, new, state = prompt, prompt if start is None else start(prompt), None
        done = done_before(prompt, end)
        for _ in range(length + shift):
            logits, state = step(read(tokens, new), keep(state))
            new = choose(logits)
            if ended == "each":
                new = torch.where(done, end, new)
            done = done | (new == end)
            tokens = torch.cat([tokens, new.unsqueeze(-1)], 1)
            new = new.unsqueeze(-1)
            if ended == "first" and done.any():
                rest = length - (tokens.shape[1] - prompt.shape[1])
                tokens = F.pad(tokens, (0, rest), value=end)
                break
        if extra:
            step(new, state)
        return tokens if whole else tokens[:, prompt.shape[1] :]

    return generate


def _prompt_twice(step: Callable, prompt: Tensor, length: int, end: int) -> Tensor:
    """Reads the last token of the prompt a second time, after the rest is in the cache."""
    _, state = step(prompt, None)
    new, written = prompt[:, -1:], []
    done = torch.zeros(len(prompt), dtype=torch.bool)
    for _ in range(length):
        logits, state = step(new, state)
        best = torch.where(done, end, logits[:, -1].argmax(-1))
        done = done | (best == end)
        new = best.unsqueeze(-1)
        written.append(new)
    return torch.cat(written, 1)


def _cache_of_the_prompt(step: Callable, prompt: Tensor, length: int, end: int) -> Tensor:
    """Keeps the cache of the first call for ever."""
    first = []

    def with_first(tokens: Tensor, state: object) -> tuple:
        logits, state = step(tokens, first[0] if first else None)
        first.append(state)
        return logits, state

    return _generate()(with_first, prompt, length, end)


def _padded_with_zero(step: Callable, prompt: Tensor, length: int, end: int) -> Tensor:
    tokens = _generate()(step, prompt, length, end)
    after = (tokens == end).cumsum(-1) - (tokens == end).long() > 0
    return tokens.masked_fill(after, 0)


def _training(
    read: Callable = lambda target: target[:, :-1],
    predict: Callable = lambda target: target[:, 1:],
    ignore: int = PAD,
    lengths: Callable = lambda lengths, source: lengths,
    reset: bool = True,
    mode: bool = True,
    same: bool = False,
    update: bool = True,
    factor: float = 1.0,
    more: int = 0,
) -> Callable:
    """Builds a training from its steps, one of which is wrong."""

    def train(model, source: Tensor, target: Tensor, source_lengths: Tensor, steps: int) -> None:
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        if mode:
            model.train()
        for _ in range(steps + more):
            rows = torch.arange(32) if same else torch.randint(len(source), (32,))
            given = lengths(source_lengths[rows], source[rows])
            logits = model(source[rows], read(target[rows]), given)
            loss = F.cross_entropy(logits.flatten(0, 1), predict(target[rows]).flatten(), ignore_index=ignore)
            if reset:
                optimiser.zero_grad()
            (factor * loss).backward()
            if update:
                optimiser.step()

    return train


def _nucleus(
    keep: Callable = lambda before, after, share: before < share,
    descending: bool = True,
    weights: Callable = lambda logits: logits.softmax(-1),
    fill: float = -INFINITY,
    back: Callable | None = lambda kept, order: torch.zeros_like(kept).scatter(-1, order, kept),
    start: Callable = lambda logits: logits,
    finish: Callable = lambda logits: logits,
) -> Callable:
    """Builds the nucleus from its steps, one of which is wrong."""

    def nucleus(logits: Tensor, share: float) -> Tensor:
        values, order = logits.sort(-1, descending=descending)
        mass = weights(values)
        after = mass.cumsum(-1)
        kept = keep(after - mass, after, share)
        if back is None:
            return finish(values.masked_fill(~kept, fill))
        return finish(start(logits).masked_fill(~back(kept, order), fill))

    return nucleus


# --- The tasks. ---

DECODER_BLOCK = Task(
    name="decoder_block",
    outputs={"output": ("position", "feature")},
    oracle=_oracle_block,
    cases=_block_cases,
    wrong=(
        ("decoder-sees-the-future", _block(_sees_future)),
        ("causal-without-itself", _block(_self_mask(lambda causal, real: causal.tril(-1)))),
        ("causal-upside-down", _block(_self_mask(lambda causal, real: causal.mT))),
        (
            "source-mask-on-target",
            _block(_self_mask(lambda causal, real: causal if real is None else causal & real)),
        ),
        ("cross-before-self", _block(_cross_first)),
        ("cross-before-self", _block(_cross_first_own_norms)),
        ("attentions-in-parallel", _block(_parallel)),
        ("feedforward-before-cross", _block(_feed_before_cross)),
        ("memory-asks", _block(_crossing(lambda x, n, m, p, real: p["cross"](m, n, None)))),
        ("memory-not-read", _block(_crossing(lambda x, n, m, p, real: p["cross"](n, n, real)))),
        ("memory-not-read", _block(_crossing(lambda x, n, m, p, real: p["cross"](n, n, None)))),
        ("memory-not-read", _block(_crossing(lambda x, n, m, p, real: p["cross"](n, n, _causal(x))))),
        ("memory-normed", _block(_crossing(lambda x, n, m, p, real: p["cross"](n, p["n2"](m), real)))),
        (
            "causal-cross-attention",
            _block(_crossing(lambda x, n, m, p, r: p["cross"](n, m, _causal_and(x, r, m)))),
        ),
        ("padding-ignored", _block(_crossing(lambda x, n, m, p, real: p["cross"](n, m, None)))),
        (
            "mask-inverted",
            _block(_crossing(lambda x, n, m, p, r: p["cross"](n, m, None if r is None else ~r))),
        ),
        (
            "padding-on-queries",
            _block(_crossing(lambda x, n, m, p, r: p["cross"](n, m, None if r is None else r.mT))),
        ),
        ("norm-left-out", _block(_crossing(_query_not_normed))),
        ("norm-left-out", _block(_keys_not_normed)),
        ("norm-shared", _block(order=(0, 0, 0))),
        ("norms-swapped", _block(order=(1, 0, 2))),
        ("norms-swapped", _block(order=(0, 2, 1))),
        ("post-norm", _block(_post_norm)),
        ("residual-after-norm", _block(_residual_after_norm)),
        ("residual-from-the-start", _block(_from_the_start)),
        *(
            ("residual-missing", _block(_without_residual(*missing)))
            for missing in ((1,), (2,), (3,), (1, 2, 3))
        ),
    ),
    builds_on=PIECES,
)

SMOOTHED_LOSS = Task(
    name="smoothed_loss",
    outputs={"loss": ()},
    oracle=_oracle_loss,
    cases=_loss_cases,
    wrong=(
        ("smoothing-ignored", _loss(lambda hot, e, v: hot)),
        ("smoothing-over-others", _loss(lambda hot, e, v: (1 - e) * hot + e / (v - 1) * (1 - hot))),
        ("smoothing-over-others-twice", _loss(lambda hot, e, v: (1 - e) * hot + e / (v - 1))),
        ("smoothing-own-share-missing", _loss(lambda hot, e, v: torch.where(hot == 1, 1 - e, e / v))),
        ("smoothing-turned-round", _loss(lambda hot, e, v: e * hot + (1 - e) / v)),
        ("smoothing-not-shared", _loss(lambda hot, e, v: (1 - e) * hot + e)),
        ("smoothing-on-top", _loss(lambda hot, e, v: hot + e / v)),
        ("smoothing-of-a-whole", _loss(lambda hot, e, v: (1 - e) * hot + 1 / v)),
        ("smoothed-padding-counted", _loss(reduce=lambda losses, real: losses.mean())),
        ("smoothed-over-all-places", _loss(reduce=lambda losses, real: (losses * real).mean())),
        ("smoothed-padding-only", _loss(reduce=lambda losses, real: losses[~real].mean())),
        ("smoothed-sentences-alike", _loss(reduce=_sentences_first)),
        (
            "smoothed-over-sentences",
            _loss(reduce=lambda losses, real: (losses * real).sum() / len(losses)),
        ),
        ("smoothed-sum", _loss(reduce=lambda losses, real: losses[real].sum())),
        ("smoothed-sign", _loss(reduce=lambda losses, real: -losses[real].mean())),
        ("logits-not-normalised", _loss(logs=lambda logits: logits)),
        ("logarithm-forgotten", _loss(logs=lambda logits: logits.softmax(-1))),
        ("normalised-over-places", _loss(logs=lambda logits: logits.log_softmax(1))),
        ("divergence-for-entropy", _divergence),
        ("log-underflow", _loss(logs=lambda logits: logits.softmax(-1).log())),
    ),
    shortcuts=frozenset({"cross_entropy", "cross_entropy_loss"}),
    builds_on=PIECES,
)

GENERATE = Task(
    name="generate",
    outputs={
        "tokens": ("sentence", "position"),
        '"each token is read once at most, and only if another one follows"': TRUTH,
    },
    oracle=_oracle_generate,
    cases=_generate_cases,
    wrong=(
        ("no-cache", _generate(read=lambda all_tokens, new: all_tokens, keep=lambda state: None)),
        ("cache-not-passed", _generate(keep=lambda state: None)),
        ("cache-and-all-tokens", _generate(read=lambda all_tokens, new: all_tokens)),
        ("cache-not-updated", _cache_of_the_prompt),
        ("end-in-prompt", _generate(done_before=lambda prompt, end: prompt[:, -1] == end)),
        ("end-in-prompt", _generate(done_before=lambda prompt, end: (prompt == end).any(-1))),
        ("prompt-end-read-twice", _prompt_twice),
        ("only-last-of-prompt", _generate(start=lambda prompt: prompt[:, -1:])),
        ("only-first-of-prompt", _generate(start=lambda prompt: prompt[:, :1])),
        ("first-place-read", _generate(choose=lambda logits: logits[:, 0].argmax(-1))),
        ("lowest-score-chosen", _generate(choose=lambda logits: logits[:, -1].argmin(-1))),
        ("goes-on-after-end", _generate(ended="never")),
        ("all-stop-with-the-first", _generate(ended="first")),
        ("zeros-after-end", _padded_with_zero),
        ("read-once-too-often", _generate(extra=True)),
        ("prompt-returned-too", _generate(whole=True)),
        ("generated-one-too-few", _generate(shift=-1)),
        ("generated-one-too-many", _generate(shift=1)),
    ),
    builds_on=PIECES,
)

TRAIN_TRANSLATOR = Task(
    name="train_translator",
    outputs=dict.fromkeys(STATEMENTS, TRUTH),
    oracle=_oracle_train,
    cases=_train_cases,
    wrong=(
        ("target-not-shifted", _training(predict=lambda target: target[:, :-1])),
        ("reads-what-it-predicts", _training(read=lambda target: target[:, 1:])),
        ("padding-learned", _training(ignore=-100)),
        ("gradients-not-reset", _training(reset=False)),
        ("trained-in-eval-mode", _training(mode=False)),
        ("lengths-left-out", _training(lengths=lambda n, source: torch.full_like(n, source.shape[1]))),
        ("one-batch-again-and-again", _training(same=True)),
        ("never-updated", _training(update=False)),
        ("loss-made-larger", _training(factor=-1.0)),
        ("steps-missed", _training(more=-1)),
        ("steps-missed", _training(more=10)),
    ),
    builds_on=PIECES,
)

NUCLEUS = Task(
    name="nucleus",
    outputs={"logits": ("token",)},
    oracle=_oracle_nucleus,
    cases=_nucleus_cases,
    wrong=(
        ("nucleus-below-share", _nucleus(lambda before, after, share: after <= share)),
        (
            "nucleus-below-share-but-one",
            _nucleus(lambda before, after, share: (after <= share) | (before == 0)),
        ),
        (
            "nucleus-below-share-but-one",
            _nucleus(lambda before, after, share: (after < share) | (before == 0)),
        ),
        (
            "nucleus-one-too-many",
            _nucleus(lambda before, after, share: F.pad((before < share)[..., :-1], (1, 0), value=True)),
        ),
        ("nucleus-in-sorted-order", _nucleus(back=None)),
        ("nucleus-places-mixed", _nucleus(back=lambda kept, order: kept.gather(-1, order))),
        ("nucleus-of-the-least", _nucleus(descending=False)),
        ("nucleus-complement", _nucleus(lambda before, after, share: before >= share)),
        ("nucleus-of-logits", _nucleus(weights=lambda logits: logits)),
        ("nucleus-zero-logits", _nucleus(fill=0.0)),
        ("nucleus-finite-outside", _nucleus(fill=-1e9)),
        ("nucleus-finite-outside", _nucleus(fill=-1e4)),
        ("nucleus-as-weights", _nucleus(start=lambda logits: logits.softmax(-1), fill=0.0)),
        ("nucleus-as-weights", _nucleus(start=lambda logits: logits.softmax(-1))),
        ("nucleus-as-log-weights", _nucleus(start=lambda logits: logits.log_softmax(-1))),
        ("nucleus-as-weights", _nucleus(finish=lambda logits: logits.softmax(-1))),
        ("nucleus-as-log-weights", _nucleus(finish=lambda logits: logits.log_softmax(-1))),
        ("threshold-for-each-token", lambda x, share: x.masked_fill(x.softmax(-1) < share, -INFINITY)),
        (
            "threshold-of-the-best",
            lambda x, share: x.masked_fill(
                x.softmax(-1) < share * x.softmax(-1).amax(-1, keepdim=True), -INFINITY
            ),
        ),
        ("nucleus-best-only", _nucleus(lambda before, after, share: before == 0)),
    ),
    builds_on=PIECES,
)

check_decoder_block = checking(DECODER_BLOCK)
check_smoothed_loss = checking(SMOOTHED_LOSS)
check_generate = checking(GENERATE)
check_train_translator = checking(TRAIN_TRANSLATOR)
check_nucleus = checking(NUCLEUS)
