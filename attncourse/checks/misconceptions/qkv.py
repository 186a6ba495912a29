"""Misconceptions of the set `qkv`, many of which other sets meet again."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # Scores.
    "no-scale": Misconception(
        "These are the values without the division by √d_k.",
        "how a dot product grows with the number of terms that it adds up",
        "qkv-scale",
    ),
    "scale-by-d": Misconception(
        "The scores are divided by d_k, not by √d_k.",
        "the variance of a dot product, and what brings its standard deviation to 1",
        "qkv-scale",
    ),
    "scale-multiplied": Misconception(
        "The scores are multiplied by √d_k, not divided.",
        "whether your scores get larger or smaller as d_k grows",
        "qkv-scale",
    ),
    "scale-by-length": Misconception(
        "The divisor is the root of a number of tokens, not of the width d_k.",
        "which axis of query and key is added up in a dot product",
        "qkv-scale",
    ),
    "scale-by-value-width": Misconception(
        "The divisor is the root of the width of the values, d_v, not of the keys, d_k.",
        "which vectors the dot product is taken of",
        "qkv-scale",
    ),
    "cosine": Misconception(
        "These are cosines: each vector was scaled to length 1.",
        "what the divisor depends on: the vectors, or only their width",
        "qkv-other-scores",
    ),
    "transposed": Misconception(
        "The two axes of the result are swapped.",
        "the shape in the docstring, axis by axis",
        "qkv-scores",
    ),
    "weights-for-scores": Misconception(
        "These are weights: a softmax has been applied already.",
        "which of the three stages this function is",
        "qkv-scores",
    ),
    # Weights.
    "softmax-over-queries": Misconception(
        "The softmax runs over the queries, so that the queries compete for a key.",
        "which axis should sum to 1",
        "qkv-softmax",
    ),
    "softmax-over-all": Misconception(
        "The softmax runs over all scores together, so that a row does not sum to 1.",
        "which axis should sum to 1",
        "qkv-softmax",
    ),
    "axis-from-the-front": Misconception(
        "An axis is counted from the front: right for one matrix, wrong as soon as there are batch axes.",
        "which axis `dim=1` is when the scores have four axes, and how to count from the end",
        "qkv-softmax",
    ),
    "no-exponential": Misconception(
        "The scores are divided by their sum as they are: there is no exponential function.",
        "the formula of the softmax, and what a negative score should become",
        "qkv-softmax",
    ),
    "log-weights": Misconception(
        "These are the logarithms of the weights.",
        "the sign of your weights, and the row sums",
        "qkv-softmax",
    ),
    "exp-overflow": Misconception(
        "Large scores overflow: exp(score) is infinite, and inf / inf is nan.",
        "what happens to a softmax when you add the same number to all scores of a row",
        "qkv-softmax",
    ),
    "mask-ignored": Misconception(
        "The mask has no effect.",
        "the weights where the mask is False",
        "qkv-mask",
    ),
    "mask-inverted": Misconception(
        "The mask is read the wrong way round: here True means that the query may attend.",
        "the weights where the mask is True",
        "qkv-mask",
    ),
    "mask-after-softmax": Misconception(
        "The mask is applied after the softmax, so that the rows no longer sum to 1.",
        "what the forbidden keys still add to the denominator",
        "qkv-mask",
    ),
    "mask-as-zero-score": Misconception(
        "Forbidden keys got the score 0, and exp(0) is 1: they still receive weight.",
        "which score has the weight 0",
        "qkv-mask",
    ),
    "empty-row-nan": Misconception(
        "A query that may attend to no key gets nan: its softmax is 0 / 0.",
        "the rows in which the mask is False everywhere",
        "qkv-empty-rows",
    ),
    "empty-row-uniform": Misconception(
        "A query that may attend to no key gets equal weights for all of them, forbidden ones included.",
        "the rows in which the mask is False everywhere, and what a very low but finite score does there",
        "qkv-empty-rows",
    ),
    "empty-row-nan-gradient": Misconception(
        "The weights are right, but their gradient is nan: the nan was removed after the softmax, "
        "and it comes back in the backward pass.",
        "how to keep the nan from arising, in place of replacing it afterwards",
        "qkv-empty-rows",
    ),
    "half-overflow": Misconception(
        "The number that stands for a forbidden score does not fit into half precision.",
        "the largest float16, 65504, and which value means 'never' in every dtype",
        "qkv-mask",
    ),
    # Context.
    "plain-mean": Misconception(
        "Every key counts the same: this is the plain mean of the values.",
        "where the weights enter",
        "qkv-context",
    ),
    "weights-ignore-keys": Misconception(
        "Every allowed key gets the same weight: the weights do not depend on the keys.",
        "whether your weights change when the keys change",
        "qkv-attend",
    ),
    "hard-choice": Misconception(
        "Only the value with the largest weight is returned.",
        "what the other keys should add",
        "qkv-context",
    ),
    "divided-by-keys": Misconception(
        "The weighted values are averaged once more: the result is too small by the number of keys.",
        "the difference between a mean and a weighted sum",
        "qkv-context",
    ),
    "renormalised": Misconception(
        "The weights are normalised once more; this stage should take them as they are.",
        "which of the three stages this function is",
        "qkv-context",
    ),
    "returns-scores": Misconception(
        "The context is right, but scores are returned in place of weights.",
        "what stands after which stage",
        "qkv-attend",
    ),
    "returns-swapped": Misconception(
        "The two results are right, but in the wrong order.",
        "the order in the docstring: context first",
        "qkv-attend",
    ),
    # Linear attention.
    "no-normaliser": Misconception(
        "The sum is right, but it is not divided by the sum of the weights.",
        "what a weighted average needs besides the weighted sum",
        "qkv-linear",
    ),
    "normalised-by-count": Misconception(
        "The sum is divided by the number of keys, not by the sum of the weights.",
        "what the weights of one query add up to",
        "qkv-linear",
    ),
    "quadratic": Misconception(
        "The result is right, but a matrix of all queries and keys was built on the way.",
        "in which order three matrices can be multiplied, and what each order costs",
        "qkv-linear",
    ),
    "no-feature-map": Misconception(
        "The feature map is missing: query and key are used as they are.",
        "the sign of a dot product, and whether a weight may be negative",
        "qkv-linear",
    ),
    "feature-map-once": Misconception(
        "The feature map is applied to only one of query and key.",
        "the two places in the formula where φ stands",
        "qkv-linear",
    ),
    "elu-without-one": Misconception(
        "The features are elu(x) without the + 1, so that some of them are negative.",
        "the smallest value that elu takes",
        "qkv-linear",
    ),
    "relu-features": Misconception(
        "The features are relu(x), which are 0 for every negative entry.",
        "the feature map that the task names",
        "qkv-linear",
    ),
    "softmax-attention": Misconception(
        "This is ordinary softmax attention, not linear attention.",
        "what takes the place of the exponential function",
        "qkv-linear",
    ),
    # Any task.
    "changes-inputs": Misconception(
        "The result is right, but your function changed one of its inputs.",
        "operations that work in place: `x /= …`, `x[…] = …`, and methods that end in `_`",
    ),
}
