"""Misconceptions of the set `selfattention`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS: dict[str, Misconception] = {
    # Causal masks.
    "causal-upside-down": Misconception(
        "The causal mask is turned round: each token sees itself and the future.",
        "which keys the first token may see, and which the last",
        "selfattention-causal",
    ),
    "causal-mask-inverted": Misconception(
        "True and False are swapped: in this course True means that the query may attend.",
        "what your mask says of a token and itself, and of a token and the one after it",
        "selfattention-causal",
    ),
    "causal-without-itself": Misconception(
        "No token may see itself, so that the first one sees nothing.",
        "the diagonal of the mask",
        "selfattention-causal",
    ),
    "causal-one-ahead": Misconception(
        "Each token sees one token of the future.",
        "the entry just above the diagonal",
        "selfattention-causal",
    ),
    "past-out-of-sight": Misconception(
        "The queries are counted from 0, although other tokens were read before them.",
        "at which position the first query stands when there is a past",
        "selfattention-causal",
    ),
    "past-forbidden": Misconception(
        "The tokens read before have columns, but no query may see them.",
        "what the new tokens should be able to read",
        "selfattention-causal",
    ),
    "past-left-out": Misconception(
        "The tokens read before have no columns in the mask.",
        "the number of keys when there is a past",
        "selfattention-causal",
    ),
    "additive-mask": Misconception(
        "This is an additive mask, of 0 and -inf; here a mask is boolean.",
        "the dtype and the values in the docstring",
        "selfattention-causal",
    ),
    "mask-of-numbers": Misconception(
        "The pattern is right, but it consists of numbers; here a mask is boolean.",
        "the dtype of your result",
        "selfattention-causal",
    ),
    "all-allowed": Misconception(
        "Every token may see all others, those of the future too.",
        "which keys the first token may see",
        "selfattention-causal",
    ),
    # Self-attention.
    "no-projections": Misconception(
        "Queries, keys and values are the inputs themselves: the three weights are not used.",
        "whether your result changes when a weight changes",
        "selfattention-projections",
    ),
    "values-not-projected": Misconception(
        "Queries and keys are projected, but the values are the inputs themselves.",
        "the third weight",
        "selfattention-projections",
    ),
    "keys-are-queries": Misconception(
        "Queries and keys are made with the same weight, so that the scores are symmetric.",
        "whether what a token looks for must be what it offers",
        "selfattention-projections",
    ),
    "scale-by-model-width": Misconception(
        "The divisor is the root of the width of the inputs, not of the keys.",
        "over how many numbers the dot product of a query and a key runs",
        "selfattention-projections",
    ),
    "causal-ignored": Misconception(
        "With causal=True, tokens still see the future.",
        "the weights above the diagonal",
        "selfattention-causal",
    ),
    "padding-ignored": Misconception(
        "Padding receives weight: the mask of the padding has no effect.",
        "the weights in the columns of the padding",
        "selfattention-padding",
    ),
    "masks-joined-by-or": Misconception(
        "A key is allowed if one of the two masks allows it; it needs both.",
        "how two conditions are joined that must both hold",
        "selfattention-padding",
    ),
    "padding-on-both": Misconception(
        "The queries of the padding are masked, too. Here they ask like all others: keys alone are masked.",
        "which axis of the mask the task names",
        "selfattention-padding",
    ),
    "zero-score-masked": Misconception(
        "The mask is multiplied into the scores, and every score of 0 is then taken for a forbidden one. "
        "A score that is allowed may be 0, too.",
        "a token whose vector is 0, and how to tell its scores from forbidden ones",
        "selfattention-causal",
    ),
    # The block.
    "post-norm": Misconception(
        "This is post-norm: the norm stands after the sum, not before the sublayer.",
        "what exactly is normalised in the formula, and what is added",
        "selfattention-block",
    ),
    "residual-after-norm": Misconception(
        "A residual connection starts after the norm: the normalised vectors are added, not the vectors "
        "themselves.",
        "what stands at the left of each + in the formula",
        "selfattention-block",
    ),
    "sublayer-outputs-normed": Misconception(
        "The outputs of the sublayers are normalised, not their inputs.",
        "what the norm encloses in the formula",
        "selfattention-block",
    ),
    "residual-from-the-start": Misconception(
        "A later residual connection starts at the input of the block once more, and skips what was added "
        "since.",
        "what stands at the left of each + in the formula",
        "selfattention-block",
    ),
    "residual-missing": Misconception(
        "A residual connection is missing: what a sublayer says takes the place of what it read.",
        "each + in the formula",
        "selfattention-block",
    ),
    "sublayers-in-parallel": Misconception(
        "Both sublayers read the input of the block; the second one should read the result of the first.",
        "what the feed-forward network is given in the formula",
        "selfattention-block",
    ),
    "feedforward-first": Misconception(
        "The feed-forward network comes first, and attention second.",
        "the order of the two lines of the formula",
        "selfattention-block",
    ),
    "norm-shared": Misconception(
        "One norm, with its gain and its bias, is used for all sublayers.",
        "which norm each sublayer should use",
        "selfattention-block",
    ),
    "norms-swapped": Misconception(
        "Two norms are swapped: each is used where the other one belongs.",
        "which norm, with its gain and its bias, belongs to which sublayer",
        "selfattention-block",
    ),
    "norm-left-out": Misconception(
        "A sublayer reads vectors that are not normalised.",
        "the norms in the formula",
        "selfattention-block",
    ),
    "norm-not-centred": Misconception(
        "The mean is not subtracted: this is a division by the root of the mean square (RMSNorm).",
        "the numerator of the norm",
        "selfattention-norm",
    ),
    "norm-not-scaled": Misconception(
        "The mean is subtracted, but the vectors are not divided by their standard deviation.",
        "the denominator of the norm",
        "selfattention-norm",
    ),
    "norm-unbiased": Misconception(
        "The variance is divided by d - 1; layer normalisation divides by d.",
        "what your function for variance or standard deviation does by default",
        "selfattention-norm",
    ),
    "norm-without-epsilon": Misconception(
        "The ε is missing under the root.",
        "a vector whose numbers are nearly the same",
        "selfattention-norm",
    ),
    "epsilon-outside-root": Misconception(
        "The ε is added to the standard deviation; it belongs to the variance, under the root.",
        "the denominator of the norm, for a vector whose numbers are nearly the same",
        "selfattention-norm",
    ),
    "norm-over-positions": Misconception(
        "Each feature is normalised over the positions; it should be each position over its features.",
        "the mean and the deviation of one vector of your result",
        "selfattention-norm",
    ),
    "norm-over-all": Misconception(
        "All positions share one mean and one variance; each position should have its own.",
        "the mean and the deviation of one vector of your result",
        "selfattention-norm",
    ),
    "norm-gain-ignored": Misconception(
        "The norms do not use their gain.",
        "the two parameters of a norm",
        "selfattention-norm",
    ),
    "norm-bias-ignored": Misconception(
        "The norms do not use their bias.",
        "the two parameters of a norm",
        "selfattention-norm",
    ),
    "gain-and-bias-ignored": Misconception(
        "The norms use neither gain nor bias.",
        "the two parameters of a norm",
        "selfattention-norm",
    ),
    # A test of order.
    "test-never-fails": Misconception(
        "Your test lets every layer pass. Perhaps a comparison has no assert, or compares shapes only, or no "
        "token was moved.",
        "what your test does with a layer that adds the position to each token",
        "selfattention-order",
    ),
    "test-wants-the-same-output": Misconception(
        "Your test expects the same output after the tokens were moved. In self-attention the outputs move, "
        "too.",
        "the difference between invariant and equivariant",
        "selfattention-order",
    ),
    "moved-back": Misconception(
        "The tokens are moved by one order, and the outputs by the reverse one.",
        "to which place your order brings token 0, and to which place it brings output 0",
        "selfattention-order",
    ),
    "test-too-strict": Misconception(
        "Your test fails right layers because of rounding: sums in another order differ in the last digits.",
        "the size of the differences for a right layer",
        "selfattention-order",
    ),
    "test-too-lenient": Misconception(
        "Your test lets a layer pass whose outputs are wrong by a few hundredths.",
        "how large the differences of a right layer are, and how large your test allows them to be",
        "selfattention-order",
    ),
    "test-too-short": Misconception(
        "Your test uses so few tokens that it misses a layer that goes wrong only later in the sentence.",
        "the length that the task asks for",
        "selfattention-order",
    ),
    "reversal-only": Misconception(
        "Your test tries the reversed order alone. A layer that treats left and right alike passes it.",
        "a layer that adds both neighbours to each token, and orders that would give it away",
        "selfattention-order",
    ),
    "shift-only": Misconception(
        "Your test only shifts the tokens round. A layer that moves each token by one place passes it.",
        "orders that change which tokens are neighbours",
        "selfattention-order",
    ),
    "one-swap-only": Misconception(
        "Your test moves two tokens alone. A layer that goes wrong elsewhere in the sentence passes it.",
        "how many tokens change their place in your order",
        "selfattention-order",
    ),
    "one-order-for-all": Misconception(
        "Your test moves all sentences of the batch alike, or has one sentence only, and so misses a layer "
        "that mixes the sentences.",
        "what happens when one sentence moves and another one stays",
        "selfattention-order",
    ),
    "sums-compared": Misconception(
        "Your test compares sums or means over the tokens, which do not show where a token went.",
        "a layer that moves each token by one place",
        "selfattention-order",
    ),
    "assertion-inverted": Misconception(
        "Your test fails the right layers and lets the broken ones pass.",
        "when an assert raises: if its condition is true, or if it is false",
        "selfattention-order",
    ),
    # Pooling.
    "pooled-hidden": Misconception(
        "The hidden vectors are averaged; the weights should average the inputs.",
        "the last line of the formula",
        "selfattention-pooling",
    ),
    "pooling-without-tanh": Misconception(
        "The tanh is missing.",
        "the first line of the formula",
        "selfattention-pooling",
    ),
    "pooling-bias-lost": Misconception(
        "The bias is missing inside the tanh. (Outside it would change all scores alike, and so no weight.)",
        "the first line of the formula",
        "selfattention-pooling",
    ),
    "pooling-not-projected": Misconception(
        "The inputs are compared with the query as they are: weight, bias and tanh are not used.",
        "the first line of the formula",
        "selfattention-pooling",
    ),
    "scale-not-asked": Misconception(
        "The scores are divided by the root of a width; this formula has no divisor.",
        "the second line of the formula",
        "selfattention-pooling",
    ),
    "softmax-over-features": Misconception(
        "The softmax runs over the features, before they are added up to one score for each token.",
        "how many scores a sentence has, and over which axis its weights should sum to 1",
        "selfattention-pooling",
    ),
    "softmax-over-sentences": Misconception(
        "The softmax runs over the first axis, so that the sentences of a batch compete with each other.",
        "over which axis the weights of a sentence should sum to 1",
        "selfattention-pooling",
    ),
    "pooled-divided": Misconception(
        "The weighted inputs are averaged once more: the result is too small by the number of tokens.",
        "the difference between a mean and a weighted sum",
        "selfattention-pooling",
    ),
    # Shared queries and keys.
    "keys-not-normalised": Misconception(
        "The keys are not scaled to length 1.",
        "the difference between the two vectors that are multiplied in the formula",
        "selfattention-shared",
    ),
    "queries-normalised-too": Misconception(
        "Queries and keys are both scaled to length 1; only the keys should be.",
        "the difference between the two vectors that are multiplied in the formula",
        "selfattention-shared",
    ),
    "normalised-over-positions": Misconception(
        "Each feature is scaled over the positions; each vector should be scaled over its features.",
        "the lengths of your keys",
        "selfattention-shared",
    ),
    "zero-vector-nan": Misconception(
        "A vector of zeros gives nan: it is divided by its length, which is 0.",
        "what the task says about a vector of zeros",
        "selfattention-shared",
    ),
    "self-never": Misconception(
        "The score of a token with itself is -inf. If a mask forbids all others, too, the softmax is 0 / 0.",
        "the first token under a causal mask",
        "selfattention-shared",
    ),
    "self-score-zero": Misconception(
        "The score of a token with itself is 0, which is no low score: exp(0) is 1.",
        "the number that the task names",
        "selfattention-shared",
    ),
    "self-score-kept": Misconception(
        "A token still attends to itself like to any other.",
        "the diagonal of the scores",
        "selfattention-shared",
    ),
    "others-lowered": Misconception(
        "The scores with all others are lowered, and that of a token with itself is kept.",
        "which entries of the scores belong to a token with itself",
        "selfattention-shared",
    ),
}
