"""The misconceptions that checks recognise: what each one is, what to look at, and where to read.

One file a topic. An entry may serve all topics: checks pair its
name with functions that make this mistake.
"""

from attncourse.checks.misconceptions import (
    alignment,
    multihead,
    position,
    qkv,
    restricted,
    selfattention,
    seq2seq,
    taxonomy,
    transformer,
)
from attncourse.checks.misconceptions.entry import Misconception

__all__ = ["MISCONCEPTIONS", "SECTIONS", "Misconception"]

# The sections that messages point to: label in the book -> title there.
SECTIONS = {
    "qkv-scores": "Stage 1: scores",
    "qkv-scale": "Why divide, and by what?",
    "qkv-softmax": "Stage 2: weights",
    "qkv-mask": "Masks: keys that must not be seen",
    "qkv-empty-rows": "Queries that may attend to nothing",
    "qkv-context": "Stage 3: context",
    "qkv-attend": "The three stages together",
    "qkv-linear": "Without the softmax: a product of three matrices",
    "qkv-other-scores": "Other scores",
}

TOPICS = (seq2seq, alignment, taxonomy, qkv, multihead, selfattention, position, restricted, transformer)
MISCONCEPTIONS: dict[str, Misconception] = {
    name: entry for topic in TOPICS for name, entry in topic.MISCONCEPTIONS.items()
}
