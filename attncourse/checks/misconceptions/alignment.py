"""Misconceptions of the set `alignment`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # Additive scores.
    "no-tanh": Misconception(
        "The tanh is missing: the result is a linear function of the two vectors.",
        "what stands between the sum and what comes after it in the formula",
        "alignment-scores",
    ),
    "sigmoid-for-tanh": Misconception(
        "The hidden layer uses a sigmoid in place of tanh.",
        "the range of your hidden layer: from 0 to 1, or from -1 to 1",
        "alignment-scores",
    ),
    "relu-for-tanh": Misconception(
        "The hidden layer uses a ReLU in place of tanh.",
        "the range of your hidden layer, and its negative numbers",
        "alignment-scores",
    ),
    "tanh-before-sum": Misconception(
        "The tanh is applied to each projection for itself, before the two are added.",
        "what exactly stands inside the brackets of tanh",
        "alignment-scores",
    ),
    "tanh-outside": Misconception(
        "The tanh is applied to the finished score, not to the hidden layer.",
        "which comes first in the formula, tanh or v",
        "alignment-scores",
    ),
    "product-for-sum": Misconception(
        "The two projections are multiplied, not added: that is no additive score.",
        "the sign between the two projections",
        "alignment-scores",
    ),
    "vector-left-out": Misconception(
        "The entries of the hidden layer are added up as they are: the vector v has no effect.",
        "the role of v: how much each entry of the hidden layer counts",
        "alignment-scores",
    ),
    "mean-over-hidden": Misconception(
        "The score is a mean over the hidden layer, where it should be a sum.",
        "what a dot product does with the products of the entries",
        "alignment-scores",
    ),
    "hidden-not-summed": Misconception(
        "The axis of the hidden layer is still there: v was multiplied, but nothing was added up.",
        "the number of axes of your result",
        "alignment-scores",
    ),
    "scaled-additive": Misconception(
        "The scores are divided by the root of a width; the additive score has no such divisor.",
        "which score needs a scale: a dot product of two vectors that vary, or one with a bounded tanh",
        "alignment-scores",
    ),
    "scores-ignore-state": Misconception(
        "The scores do not depend on the decoder's state: they would be the same at every step.",
        "whether your scores change when only the state changes",
        "alignment-scores",
    ),
    "scores-ignore-states": Misconception(
        "The scores do not depend on the encoder's states: each position of a sentence gets the same score.",
        "whether your scores change when only the encoder's states change",
        "alignment-scores",
    ),
    "one-state-for-all": Misconception(
        "The state of the first sentence asks in all sentences.",
        "how the batch axis of the state meets the batch axis of the encoder's states",
        "alignment-scores",
    ),
    "weight-not-transposed": Misconception(
        "The weights are used with their axes swapped.",
        "which axis of a weight is as long as the vector that it is multiplied with",
        "alignment-scores",
    ),
    "projections-swapped": Misconception(
        "The two weights are mixed up: each is applied to the vector of the other.",
        "which weight belongs to the decoder's state, and which to the encoder's states",
        "alignment-scores",
    ),
    "axis-left-over": Misconception(
        "The numbers are right, but an axis of length 1 is left over.",
        "the shape in the docstring, and where your axis of length 1 comes from",
        "alignment-context",
    ),
    # Weights under padding.
    "padding-attended": Misconception(
        "The lengths have no effect: padding gets a part of the weight.",
        "the weights behind the end of a short sentence",
        "alignment-padding",
    ),
    "padding-for-tokens": Misconception(
        "Tokens and padding are mixed up: the padding shares the weight, and the tokens get none.",
        "where your mask is True, for a sentence of length 1",
        "alignment-padding",
    ),
    "one-padding-token-kept": Misconception(
        "One position too many is kept: the first padding token counts as a token.",
        "the number of the last token in a sentence of n tokens, when counting starts at 0",
        "alignment-padding",
    ),
    "last-token-lost": Misconception(
        "The last token of each sentence is treated as padding.",
        "the number of the last token in a sentence of n tokens, when counting starts at 0",
        "alignment-padding",
    ),
    "one-length-for-all": Misconception(
        "The longest sentence's length is used for all sentences.",
        "how many positions have weight in the shortest sentence",
        "alignment-padding",
    ),
    "padding-in-front": Misconception(
        "The padding is expected in front of the tokens; here it stands behind them.",
        "at which end of a short sentence the weights are 0",
        "alignment-padding",
    ),
    "mask-transposed": Misconception(
        "The axes of the mask are swapped: its rows are positions, and its columns are sentences.",
        "the shape of the scores, and the shape of your mask",
        "alignment-padding",
    ),
    "lengths-against-positions": Misconception(
        "Position j is compared with the length of sentence j, because the two axes lie on each other.",
        "the shapes of the two sides of your comparison, and how they broadcast",
        "alignment-padding",
    ),
    "renormalised-late": Misconception(
        "The softmax runs over the padding too, and what is left for the tokens is scaled up. "
        "Where padding has a high score, almost nothing is left to scale up.",
        "the weights of the tokens before you divide, when padding has by far the highest score",
        "alignment-padding",
    ),
    "softmax-over-batch": Misconception(
        "The softmax runs over the batch, so that different sentences compete with each other.",
        "which axis should sum to 1: add up the weights of one sentence",
        "alignment-softmax",
    ),
    # Context.
    "fixed-vector": Misconception(
        "The context is the encoder's last state, the same at each step: that is a model without attention.",
        "where the weights enter",
        "alignment-context",
    ),
    "softmax-twice": Misconception(
        "A softmax is applied to the weights, which have been through one already.",
        "what this function is given: scores or weights",
        "alignment-context",
    ),
    "batch-mixed": Misconception(
        "The weights of each sentence are multiplied with the states of every sentence.",
        "how a matrix product treats the batch axis when one factor has two axes and the other has three",
        "alignment-context",
    ),
    "positions-not-summed": Misconception(
        "Each state is multiplied with its weight, but the sum over the positions is missing.",
        "the sign in front of the formula, and the number of axes of your result",
        "alignment-context",
    ),
    "features-summed": Misconception(
        "The sum runs over the features of a state, not over the positions.",
        "which axis has to vanish",
        "alignment-context",
    ),
    # One step of a decoder.
    "attends-from-new-state": Misconception(
        "The cell steps first, without a context, and the new state asks. That is the order of Luong et al.",
        "which state there is before the cell has run",
        "alignment-bahdanau",
    ),
    "asks-again-after-step": Misconception(
        "The state is right, but context and weights are computed once more, from the new state.",
        "which context went into the cell: that is the one to return",
        "alignment-bahdanau",
    ),
    "context-not-read": Misconception(
        "The context is computed, but the cell gets zeros in its place.",
        "whether the new state changes when the encoder's states change",
        "alignment-bahdanau",
    ),
    "steps-twice": Misconception(
        "The cell runs twice in one step.",
        "how often you call the cell, and with which state",
        "alignment-bahdanau",
    ),
    "joined-in-wrong-order": Misconception(
        "The two vectors are joined in the wrong order.",
        "which of the two stands first in the brackets of the formula",
        "alignment-bahdanau",
    ),
    "returns-old-state": Misconception(
        "The state that is returned is the old one.",
        "what the cell gives back, and where you keep it",
        "alignment-bahdanau",
    ),
    "results-in-wrong-order": Misconception(
        "All results are right, but they stand in the wrong order.",
        "the order in the docstring",
    ),
    "attends-from-old-state": Misconception(
        "The old state asks. That is the order of Bahdanau et al.",
        "which state is the newest one when the scores are computed",
        "alignment-luong",
    ),
    "joins-old-state": Misconception(
        "The context is joined with the old state.",
        "which state the attentional state should speak for",
        "alignment-luong",
    ),
    "never-steps": Misconception(
        "The cell never runs: everything is computed from the old state.",
        "where the input of this step enters",
        "alignment-luong",
    ),
    "attentional-as-state": Misconception(
        "The attentional state is returned as the state of the cell, too.",
        "what the next step starts from: what the cell gave, or what is made for the prediction",
        "alignment-luong",
    ),
    "context-for-attentional": Misconception(
        "The context is returned in place of the attentional state.",
        "what still happens to the context before the prediction",
        "alignment-luong",
    ),
    # Monotonic attention.
    "stops-without-history": Misconception(
        "These are the probabilities to stop as they came in: where reading stood before has no effect.",
        "whether your weights change when the earlier weights change",
        "alignment-monotonic",
    ),
    "starts-anew-each-step": Misconception(
        "Reading starts at the first position at each step, wherever it stood before.",
        "where the earlier weights enter",
        "alignment-monotonic",
    ),
    "must-move-on": Misconception(
        "Reading may not stop where it stood before: it always moves on.",
        "whether k may be equal to j in the sum",
        "alignment-monotonic",
    ),
    "passes-the-stop-too": Misconception(
        "The way to position j passes j itself as well, although reading stops there.",
        "the last index of the product",
        "alignment-monotonic",
    ),
    "product-includes-stop": Misconception(
        "The product runs one position too late: the start k is left out, and the stop j is in it.",
        "the first and the last index of the product",
        "alignment-monotonic",
    ),
    "passes-unread-positions": Misconception(
        "Each way passes all positions from the beginning of the sentence, also those before its start k.",
        "the first index of the product",
        "alignment-monotonic",
    ),
    "passes-for-free": Misconception(
        "Passing a position costs nothing: the product is missing.",
        "what has to happen at each position between k and j",
        "alignment-monotonic",
    ),
    "stop-left-out": Misconception(
        "This is the probability to come to a position, not to stop there.",
        "the factor in front of the sum",
        "alignment-monotonic",
    ),
    "only-one-position-on": Misconception(
        "Reading moves on by one position at most.",
        "how many positions may lie between k and j",
        "alignment-monotonic",
    ),
    "stops-for-passes": Misconception(
        "A position is passed with the probability to stop there.",
        "what the probability is to pass a position at which reading stops with probability 0.9",
        "alignment-monotonic",
    ),
    "weights-forced-to-one": Misconception(
        "The weights are divided by their sum; here the sum has a meaning, and may be less than 1.",
        "what happens to the part of the probability that passes the last position",
        "alignment-monotonic",
    ),
    "reads-backwards": Misconception(
        "Reading runs from the end of the sentence to its beginning.",
        "whether k is smaller or larger than j",
        "alignment-monotonic",
    ),
    "division-by-zero-product": Misconception(
        "Part of each product is taken away by a division, and after a certain stop that is 0 / 0.",
        "how to get from one position to the next without a division",
        "alignment-monotonic",
    ),
    "lost-after-certain-stop": Misconception(
        "A product is divided by a product that was kept away from 0. "
        "Behind a certain stop this loses what starts there.",
        "a sentence with a stop of probability 1 in the middle, and earlier weights behind it",
        "alignment-monotonic",
    ),
}
