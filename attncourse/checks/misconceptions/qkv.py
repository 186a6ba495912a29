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
        "All in all, the scores are divided by d_k, not by √d_k.",
        "what brings the standard deviation of a dot product to 1, and whether your scores are divided twice",
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
        "Forbidden keys got the score 0, which is a score like any other: they still take part.",
        "which score has the weight 0",
        "qkv-mask",
    ),
    "mask-added": Misconception(
        "The mask is added to the scores as numbers: True counts as 1, and False forbids nothing.",
        "which numbers are added for True and for False, and what they do to the weights",
        "qkv-mask",
    ),
    "maximum-of-forbidden": Misconception(
        "The maximum that is subtracted takes in the forbidden keys. If theirs is far higher, exp gives 0 "
        "for all allowed keys.",
        "a row in which the score of an allowed key is 10000 below that of a forbidden one",
        "qkv-mask",
    ),
    "maximum-of-all-rows": Misconception(
        "One maximum is subtracted from all rows. In a row far below it, exp gives 0 for every key.",
        "the row whose largest score is the lowest",
        "qkv-softmax",
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
    "no-softmax": Misconception(
        "The scores are used as weights: there is no softmax.",
        "what the rows of your weights sum to",
        "qkv-attend",
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
    # Cosine, temperature, entropy, sparsemax.
    "cosine-not-divided": Misconception(
        "These are plain dot products: they are not divided by the lengths of the vectors.",
        "what happens to your scores when a key becomes twice as long",
        "qkv-other-scores",
    ),
    "no-cosine-but-scale": Misconception(
        "These are scaled dot products: the divisor is √d_k, not the lengths of the two vectors.",
        "what happens to your scores when a key becomes twice as long",
        "qkv-other-scores",
    ),
    "cosine-one-side": Misconception(
        "Only one of query and key is brought to length 1.",
        "what happens to your scores when a key, or a query, becomes twice as long",
        "qkv-other-scores",
    ),
    "cosine-squared-lengths": Misconception(
        "The dot products are divided by the squares of the lengths.",
        "the root in the length of a vector, and the cosine of a vector with itself",
        "qkv-other-scores",
    ),
    "cosine-added-lengths": Misconception(
        "The dot products are divided by the sum of the two lengths, not by their product.",
        "the cosine of a vector of length 3 with itself",
        "qkv-other-scores",
    ),
    "cosine-over-tokens": Misconception(
        "The lengths are taken along the tokens, not along the width of each vector.",
        "which axis holds the entries of one vector",
        "qkv-other-scores",
    ),
    "cosine-zero-nan": Misconception(
        "A vector of length 0 gives nan: its score is 0 / 0.",
        "what the task says about vectors of length 0",
        "qkv-other-scores",
    ),
    "cosine-scaled": Misconception(
        "The cosines are divided by √d_k as well.",
        "the largest value that a cosine takes, and what is left to scale",
        "qkv-other-scores",
    ),
    "cosine-large-epsilon": Misconception(
        "The number that is added to the divisor is so large that it changes the cosines of short vectors.",
        "vectors of length 0.1, and which divisors really need protection",
        "qkv-other-scores",
    ),
    "temperature-multiplied": Misconception(
        "The scores are multiplied by the temperature, not divided.",
        "whether your weights get flatter or sharper as the temperature rises",
        "qkv-softmax",
    ),
    "temperature-ignored": Misconception(
        "The temperature has no effect on the weights.",
        "your weights for two temperatures, and which operations leave a softmax as it is",
        "qkv-softmax",
    ),
    "temperature-after-softmax": Misconception(
        "The weights are divided by the temperature after the softmax, so that the rows no longer sum to 1.",
        "the row sums for a temperature of 2",
        "qkv-softmax",
    ),
    "temperature-root": Misconception(
        "The scores are divided by the root of the temperature.",
        "the formula of the task; the root belongs to the width d_k",
        "qkv-softmax",
    ),
    "entropy-in-bits": Misconception(
        "The logarithm has the base 2: this is the entropy in bits.",
        "the unit that the task names",
        "qkv-softmax",
    ),
    "entropy-sign": Misconception(
        "The sign is wrong: an entropy is never below 0.",
        "the sign of the logarithm of a weight",
        "qkv-softmax",
    ),
    "entropy-zero-nan": Misconception(
        "A weight of 0 gives nan: 0 · log 0 is 0 · (−inf).",
        "the limit of w · log w as w goes to 0",
        "qkv-softmax",
    ),
    "entropy-without-weights": Misconception(
        "The logarithms are added up as they are, without the weights.",
        "how often each logarithm counts",
        "qkv-softmax",
    ),
    "entropy-of-the-mean": Misconception(
        "The terms are averaged over the keys, not added up.",
        "the entropy of n equal weights, which should be log n",
        "qkv-softmax",
    ),
    "entropy-over-queries": Misconception(
        "The sum runs over the queries, not over the keys.",
        "which axis holds one distribution",
        "qkv-softmax",
    ),
    "entropy-over-all": Misconception(
        "Everything is added up to one number.",
        "the shape that the task asks for: one entropy a query",
        "qkv-softmax",
    ),
    "entropy-normalised": Misconception(
        "The entropy is divided by log n, its largest value.",
        "the unit that the task names",
        "qkv-softmax",
    ),
    "entropy-large-epsilon": Misconception(
        "The number that is added inside the logarithm is so large that it changes the result.",
        "weights of 0.000001, and which weights really need protection",
        "qkv-softmax",
    ),
    "entropy-after-softmax": Misconception(
        "A softmax is applied to the weights, which are a distribution already.",
        "what the docstring says about the input",
        "qkv-softmax",
    ),
    "softmax-for-sparsemax": Misconception(
        "This is the softmax: no weight is ever exactly 0.",
        "what takes the place of the exponential function",
        "qkv-softmax",
    ),
    "sparsemax-normalised": Misconception(
        "Negative scores become 0 and the rest is divided by its sum: the threshold is always 0.",
        "what happens to your weights when you add the same number to all scores of a row",
        "qkv-softmax",
    ),
    "sparsemax-unclipped": Misconception(
        "The threshold makes the rows sum to 1, but some weights are negative.",
        "the smallest of your weights",
        "qkv-softmax",
    ),
    "sparsemax-all-keys": Misconception(
        "The threshold is computed from all keys, also those whose weight is 0: rows sum to more than 1.",
        "the row sums, and which keys the threshold should depend on",
        "qkv-softmax",
    ),
    "sparsemax-one-key-short": Misconception(
        "The threshold leaves out the last key that should have a weight.",
        "the row sums, and the condition for the last key of the support",
        "qkv-softmax",
    ),
    "sparsemax-one-key-more": Misconception(
        "The threshold counts one key too many.",
        "the row sums, and the condition for the last key of the support",
        "qkv-softmax",
    ),
    "sparsemax-threshold-of-the-best": Misconception(
        "The threshold is the largest score minus 1, as if one key had the whole weight. Rows sum to more.",
        "the row sums, for two keys with nearly the same score",
        "qkv-softmax",
    ),
    "sparsemax-threshold-detached": Misconception(
        "The weights are right, but no gradient passes through the threshold, as if it were a constant.",
        "what the threshold is computed from, and how it changes with one score",
        "qkv-softmax",
    ),
    "hard-weights": Misconception(
        "The whole weight goes to the key with the largest score.",
        "two keys with nearly the same score: how should they share?",
        "qkv-softmax",
    ),
    "mask-after-sparsemax": Misconception(
        "The mask is applied after the threshold is found, so that the rows no longer sum to 1.",
        "which keys the threshold should depend on",
        "qkv-mask",
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
    "linear-scaled": Misconception(
        "Something is divided by a root of the width d_k; this formula has no such divisor.",
        "the formula of the task: what stands in its denominator",
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
