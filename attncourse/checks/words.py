"""What the set `transformer` trains: number words in two languages, a small model, and a witness.

The learner's training calls these models, so they have a module of their own.
"""

import torch
from torch import Tensor, nn

PAD, START, END = 0, 1, 2


def _words(text: str) -> list[str]:
    return text.split()


ENGLISH = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
ENGLISH_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
GERMAN = _words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
)
GERMAN_TENS = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")


def _english(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [ENGLISH[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        return words + [ENGLISH_TENS[rest // 10 - 2]] + [ENGLISH[rest % 10]] * (rest % 10 > 0)
    return words + [ENGLISH[rest]] * (rest > 0 or not hundreds)


def _german(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [GERMAN[hundreds], "hundert"] if hundreds else []
    if rest >= 20:
        return words + [GERMAN[rest % 10], "und"] * (rest % 10 > 0) + [GERMAN_TENS[rest // 10 - 2]]
    one = "eins" if rest == 1 else GERMAN[rest]  # "ein" stands before another word only
    return words + [one] * (rest > 0 or not hundreds)


def _padded(rows: list[list[str]], *, framed: bool) -> tuple[Tensor, Tensor, int]:
    """Gives the tokens, their lengths, and the number of different tokens."""
    words = dict.fromkeys(word for row in rows for word in row)
    ids = {word: number for number, word in enumerate(words, 3)}
    tokens = [[START] * framed + [ids[word] for word in row] + [END] * framed for row in rows]
    lengths = torch.tensor([len(row) for row in tokens])
    table = torch.full((len(rows), int(lengths.max())), PAD)
    for row, line in zip(table, tokens, strict=True):
        row[: len(line)] = torch.tensor(line)
    return table, lengths, len(ids) + 3


def number_words() -> tuple[dict[str, Tensor], int, int]:
    """Gives the numbers from 0 to 999, English and German, and the sizes of both vocabularies."""
    source, source_lengths, english = _padded([_english(n) for n in range(1000)], framed=False)
    target, _, german = _padded([_german(n) for n in range(1000)], framed=True)
    return {"source": source, "source_lengths": source_lengths, "target": target}, english, german


class Translator(nn.Module):
    """A small transformer with learned positions, ``model(source, target, source_lengths) -> logits``."""

    def __init__(self, sources: int, targets: int, length: int = 12, d_model: int = 32) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(sources, d_model), nn.Embedding(targets, d_model)
        self.positions = nn.Parameter(0.3 * torch.randn(length, d_model))
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.encoder = nn.TransformerEncoderLayer(d_model, 4, 2 * d_model, **options)
        self.decoder = nn.TransformerDecoderLayer(d_model, 4, 2 * d_model, **options)
        self.readout = nn.Linear(d_model, targets)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor) -> Tensor:
        padding = torch.arange(source.shape[1]) >= source_lengths.unsqueeze(-1)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        memory = self.encoder(
            self.source(source) + self.positions[: source.shape[1]], src_key_padding_mask=padding
        )
        states = self.decoder(
            self.target(target) + self.positions[: target.shape[1]],
            memory,
            tgt_mask=future,
            memory_key_padding_mask=padding,
        )
        return self.readout(states)

    @torch.no_grad()
    def translate(self, source: Tensor, source_lengths: Tensor, length: int) -> Tensor:
        """Writes the most probable token, again and again, after the start token."""
        target = torch.full((len(source), 1), START)
        for _ in range(length):
            best = self(source, target, source_lengths)[:, -1].argmax(-1, keepdim=True)
            target = torch.cat([target, best], 1)
        return target


class Witness(nn.Module):
    """Looks like a translator, but learns only which token follows which, and notes how it is trained.

    Its scores depend on the token read last and on nothing else: ``logits = table[target]``.

    Attributes:
        calls: number of calls that a gradient may flow through.
        trains: whether each of them was in training mode.
        sources: the sources that it has read.
        lengths_fit: whether each call was given the lengths of its sources.
        starts: whether each target began with the start token.
        piled_up: whether a gradient was added to that of an earlier step.
        is_trusted: set by an oracle, which need not be tried.
    """

    def __init__(self, targets: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(targets, targets))
        self.calls, self.sources = 0, set()
        self.trains = self.lengths_fit = self.starts = True
        self.piled_up = self.is_trusted = False
        self.table.register_hook(self._on_gradient)
        self.table.register_post_accumulate_grad_hook(self._on_accumulated)

    def _on_gradient(self, gradient: Tensor) -> None:
        self.fresh = gradient.clone()

    def _on_accumulated(self, parameter: Tensor) -> None:
        self.piled_up |= not torch.equal(parameter.grad, self.fresh)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        if torch.is_grad_enabled():
            real = (source != PAD).sum(-1)
            self.calls += 1
            self.trains &= self.training
            self.sources |= {tuple(row) for row in source.tolist()}
            self.lengths_fit &= source_lengths is not None and torch.equal(real, source_lengths)
            self.starts &= bool((target[:, 0] == START).all())
        return self.table[target]
