"""Misconceptions of the set `taxonomy`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # Hard attention.
    "argmax-for-draw": Misconception(
        "The key with the largest weight is taken each time; nothing is drawn.",
        "how often a key with the weight 0.3 should be chosen, next to one with 0.4",
        "taxonomy-hard",
    ),
    "uniform-draw": Misconception(
        "Each key is drawn equally often: the weights have no effect.",
        "where the weights enter the draw",
        "taxonomy-hard",
    ),
    "softmax-before-draw": Misconception(
        "Keys are drawn with probabilities in proportion to exp(weight), not to the weight: "
        "weights were taken for scores.",
        "what your function of PyTorch expects, probabilities or logits; or what you add noise to",
        "taxonomy-hard",
    ),
    "uniform-noise-on-weights": Misconception(
        "Uniform noise is added to the weights, and the largest wins. That favours large weights too much.",
        "how often the second of two keys wins, when their weights are 0.8 and 0.2",
        "taxonomy-hard",
    ),
    "one-draw-for-all": Misconception(
        "One draw serves all queries.",
        "how many random numbers your draw uses for a matrix of weights",
        "taxonomy-hard",
    ),
    "context-stays-soft": Misconception(
        "The choices are hard, but the context is still the soft average of all values.",
        "from which weights the context is made",
        "taxonomy-hard",
    ),
    "choices-stay-soft": Misconception(
        "The context is that of a draw, but the weights are returned as the choices.",
        "what choices should hold: a 1 at the drawn key, and zeros",
        "taxonomy-hard",
    ),
    "choices-keep-weight": Misconception(
        "The drawn key keeps its soft weight, where it should have 1.",
        "the sum of each row of choices",
        "taxonomy-hard",
    ),
    "choices-as-index": Misconception(
        "The choices are the numbers of the drawn keys, not rows with a single 1.",
        "the shape in the docstring",
        "taxonomy-hard",
    ),
    "choices-as-integers": Misconception(
        "The choices are whole numbers; they should have the dtype of the weights, as weights have.",
        "what `one_hot` returns",
        "taxonomy-hard",
    ),
    "generator-ignored": Misconception(
        "The draw does not use the generator, so that nobody can repeat it.",
        "which source of random numbers your function of PyTorch takes when you name none",
        "taxonomy-hard",
    ),
    "seeds-anew": Misconception(
        "The generator is seeded in each call, so that each call draws the same keys.",
        "whose task it is to set the seed",
        "taxonomy-hard",
    ),
    "straight-through": Misconception(
        "The draw is right, but a gradient reaches the weights as if they were soft (straight-through).",
        "what the task says about the gradient of the choices",
        "taxonomy-estimate",
    ),
    # The loss with a baseline.
    "baseline-includes-itself": Misconception(
        "The baseline is the mean of all draws, the judged one included. This shrinks the gradient.",
        "which draws the baseline of a draw may know",
        "taxonomy-baseline",
    ),
    "no-baseline": Misconception(
        "There is no baseline: each draw is judged by its loss alone.",
        "what is subtracted from a loss in the formula",
        "taxonomy-baseline",
    ),
    "baseline-over-batch": Misconception(
        "The mean runs over the sentences, not over the draws for one sentence.",
        "which axis holds draws of the same sentence",
        "taxonomy-baseline",
    ),
    "baseline-over-everything": Misconception(
        "One mean over all draws of all sentences serves as the baseline.",
        "which losses can be compared with each other: those of one sentence",
        "taxonomy-baseline",
    ),
    "left-out-but-divided-by-all": Misconception(
        "One loss is left out of the sum, but the sum is divided by the number of all draws.",
        "how many losses are left in the sum",
        "taxonomy-baseline",
    ),
    "advantage-not-detached": Misconception(
        "The value is right, but gradients flow through the difference of loss and baseline as well.",
        "sg in the formula: what stands in its brackets counts as a constant",
        "taxonomy-estimate",
    ),
    "baseline-not-detached": Misconception(
        "The value is right, but gradients flow through the baseline.",
        "what exactly stands in the brackets of sg in the formula",
        "taxonomy-baseline",
    ),
    "only-baseline-detached": Misconception(
        "The value is right, but in the difference only the baseline is a constant, and the loss is not.",
        "what exactly stands in the brackets of sg in the formula",
        "taxonomy-estimate",
    ),
    "sign-of-rewards": Misconception(
        "The sign is that for rewards. Here losses come in, and a small loss is good.",
        "whether a draw with a loss above the baseline should become more probable",
        "taxonomy-estimate",
    ),
    "floor-for-constant": Misconception(
        "The difference is rounded down to a whole number. It should keep its value, as a constant.",
        "what the text says about sg",
        "taxonomy-estimate",
    ),
    "probability-for-logarithm": Misconception(
        "The factor is the probability of the draw, not its logarithm.",
        "what the input is, and what the formula asks for",
        "taxonomy-estimate",
    ),
    "loss-itself-left-out": Misconception(
        "The losses themselves are missing: what produced them would get no gradient.",
        "the first term of the formula",
        "taxonomy-estimate",
    ),
    "advantage-standardised": Misconception(
        "The differences are divided by their standard deviation; the formula has no such divisor.",
        "what the formula does with the difference of loss and baseline",
        "taxonomy-baseline",
    ),
    "sum-for-mean": Misconception(
        "The terms are added up where their mean is wanted.",
        "whether the task asks for a sum or for a mean",
        "taxonomy-estimate",
    ),
    "not-averaged": Misconception(
        "There is one number for each draw; the mean over all of them is missing.",
        "the shape in the docstring",
        "taxonomy-estimate",
    ),
    "averaged-over-draws-only": Misconception(
        "The mean runs over the draws, and one number for each sentence is left.",
        "the shape in the docstring",
        "taxonomy-estimate",
    ),
    # Three scores.
    "scaled-dot": Misconception(
        "The dot product is divided by √d; this score of Luong et al. has no divisor.",
        "the formula of the score called dot",
        "taxonomy-scores",
    ),
    "general-weight-swapped": Misconception(
        "The weight of the score called general is used with its axes swapped.",
        "on which side of the weight the query stands, and on which the key",
        "taxonomy-scores",
    ),
    "general-with-tanh": Misconception(
        "There is a tanh in the score called general.",
        "which of the three scores has a tanh",
        "taxonomy-scores",
    ),
    "concat-in-wrong-order": Misconception(
        "In the score called concat the key is joined in front of the query.",
        "which of the two stands first in the brackets",
        "taxonomy-scores",
    ),
    "concat-weight-swapped": Misconception(
        "The weight of the score called concat is used with its axes swapped.",
        "which axis of the weight is as long as query and key together",
        "taxonomy-scores",
    ),
    # Windows.
    "window-after-softmax": Misconception(
        "The softmax runs over all keys, and the window is cut out afterwards: the rest does not sum to 1.",
        "over which keys the denominator of the softmax adds up",
        "taxonomy-local",
    ),
    "window-as-zero-score": Misconception(
        "Keys outside the window got the score 0, and exp(0) is 1: they still receive weight.",
        "which score has the weight 0",
        "taxonomy-local",
    ),
    "window-inverted": Misconception(
        "The window is left out, and the keys outside it share the weight.",
        "for one target, the keys that have a weight",
        "taxonomy-local",
    ),
    "window-ignored": Misconception(
        "There is no window: all keys get weight.",
        "the weights of keys that are far from the target's position",
        "taxonomy-local",
    ),
    "window-without-ends": Misconception(
        "The two keys at the ends of the window are missing.",
        "how many keys a window of radius 1 has in the middle of a sentence",
        "taxonomy-local",
    ),
    "window-without-right-end": Misconception(
        "The last key of the window is missing.",
        "whether the end of your slice or range is included",
        "taxonomy-local",
    ),
    "radius-as-width": Misconception(
        "The radius is used as if it were the width of the whole window.",
        "the largest distance between the centre and a key that is still seen",
        "taxonomy-local",
    ),
    "window-one-too-wide": Misconception(
        "The window has one key too many on each side.",
        "how many keys a window of radius 1 has in the middle of a sentence",
        "taxonomy-local",
    ),
    "window-looks-back-only": Misconception(
        "The window ends at its centre: keys after the centre are missing.",
        "whether the distance in the formula has a sign",
        "taxonomy-local",
    ),
    "window-looks-ahead-only": Misconception(
        "The window begins at its centre: keys before the centre are missing.",
        "whether the distance in the formula has a sign",
        "taxonomy-local",
    ),
    "centre-off-by-one": Misconception(
        "The centre of the window is one position off.",
        "the number of the first position, for targets and for sources",
        "taxonomy-local",
    ),
    "centre-scaled": Misconception(
        "The centre moves from the first to the last source position. In local-m it is t itself.",
        "the formula of the centre, when source and target differ in length",
        "taxonomy-local",
    ),
    "window-pushed-inside": Misconception(
        "The window is pushed back into the sentence at its ends; it should be cut off there.",
        "how many keys the first target position sees, and what a target far behind the source sees",
        "taxonomy-local",
    ),
    "empty-window-nan": Misconception(
        "A target for which no key is left gets nan.",
        "a row in which all keys are excluded, and what its softmax divides by",
        "taxonomy-local",
    ),
    "empty-window-uniform": Misconception(
        "A target for which no key is left spreads its weight over excluded keys; its weights should be 0.",
        "a row in which all keys are excluded, and what a very low but finite score does there",
        "taxonomy-local",
    ),
    "empty-window-nan-gradient": Misconception(
        "The weights are right, but where a target has no key left, the gradient is nan.",
        "whether nan appears on the way and is replaced later: its gradient is nan all the same",
        "taxonomy-local",
    ),
    "window-scaled-up-late": Misconception(
        "The softmax runs over all keys, and what is left for the near ones is scaled up. "
        "Where a far key has a high score, almost nothing is left to scale up.",
        "the weights before you divide, when a key outside has by far the highest score",
        "taxonomy-local",
    ),
    # A predicted position.
    "renormalised-after-gaussian": Misconception(
        "The weights were normalised again after the Gaussian factor, or the factor went into the softmax.",
        "whether the formula divides the product by anything",
        "taxonomy-local-p",
    ),
    "no-gaussian": Misconception(
        "The Gaussian factor is missing: all keys of the window count alike.",
        "the second factor of the formula",
        "taxonomy-local-p",
    ),
    "gaussian-on-scores": Misconception(
        "The Gaussian factor multiplies the scores, where it should multiply the weights.",
        "what is multiplied with the exponential function in the formula",
        "taxonomy-local-p",
    ),
    "gaussian-without-window": Misconception(
        "The Gaussian factor is there, but the softmax runs over all tokens, not over the window.",
        "over which keys the softmax is taken",
        "taxonomy-local-p",
    ),
    "sigma-is-radius": Misconception(
        "The standard deviation is the radius; it should be half of it.",
        "the value of σ in the text",
        "taxonomy-local-p",
    ),
    "sigma-rounded-down": Misconception(
        "The standard deviation is rounded down to a whole number.",
        "the value of your σ for the radius 3",
        "taxonomy-local-p",
    ),
    "position-without-gradient": Misconception(
        "The weights are right, but no gradient reaches the position through them.",
        "whether the position leaves PyTorch on its way to the Gaussian factor",
        "taxonomy-local-p",
    ),
    "padding-in-softmax": Misconception(
        "Padding takes part in the softmax, and its weights are set to 0 afterwards.",
        "over which keys the denominator of the softmax adds up",
        "taxonomy-local-p",
    ),
    "sigma-not-squared": Misconception(
        "The divisor has σ where it should have σ².",
        "the denominator in the exponent",
        "taxonomy-local-p",
    ),
    "gaussian-without-two": Misconception(
        "The factor 2 in front of σ² is missing.",
        "the denominator in the exponent",
        "taxonomy-local-p",
    ),
    "distance-not-squared": Misconception(
        "The distance in the exponent is not squared.",
        "the numerator in the exponent",
        "taxonomy-local-p",
    ),
    "gaussian-as-density": Misconception(
        "The Gaussian factor is divided by σ√(2π), as a probability density is. Here it is 1 at the centre.",
        "the value of your factor at distance 0",
        "taxonomy-local-p",
    ),
    "window-around-rounded-position": Misconception(
        "The window is laid around the rounded position.",
        "a key at a distance just above the radius; positions are real numbers here",
        "taxonomy-local-p",
    ),
    "position-rounded": Misconception(
        "The predicted position is rounded, which also stops its gradient.",
        "whether the position has to be a whole number",
        "taxonomy-local-p",
    ),
    "position-without-sigmoid": Misconception(
        "The sigmoid is missing in the position: it may lie outside the sentence.",
        "the smallest and the largest position that your formula can give",
        "taxonomy-local-p",
    ),
    "position-without-tanh": Misconception(
        "The tanh is missing in the position.",
        "what stands between the weight and the vector in the formula of the position",
        "taxonomy-local-p",
    ),
    "position-without-length": Misconception(
        "The position is a part of the sentence, from 0 to 1, and not a number of tokens.",
        "the factor in front of the sigmoid",
        "taxonomy-local-p",
    ),
    "position-of-last-token": Misconception(
        "The factor in front of the sigmoid is the number of the last token, not the length.",
        "the value of L for a sentence of 3 tokens",
        "taxonomy-local-p",
    ),
    "position-in-padding": Misconception(
        "The factor in front of the sigmoid is the length of the padded sentence.",
        "what L is for a short sentence in a batch with a long one",
        "taxonomy-local-p",
    ),
    "positions-not-predicted": Misconception(
        "The position is that of the target, as in local-m: nothing is predicted.",
        "how the state enters the position",
        "taxonomy-local-p",
    ),
    # A learned span.
    "ramp-after-softmax": Misconception(
        "The share of each key is multiplied in after the softmax, so that the weights do not sum to 1.",
        "what the denominator of the formula adds up",
        "taxonomy-span",
    ),
    "ramp-after-full-softmax": Misconception(
        "The share is multiplied in after a softmax over all keys, and the weights do not sum to 1.",
        "what the denominator of the formula adds up",
        "taxonomy-span",
    ),
    "ramp-on-scores": Misconception(
        "The share multiplies the score, not the exponential of the score.",
        "what m is multiplied with in the formula",
        "taxonomy-span",
    ),
    "ramp-above-one": Misconception(
        "Near keys have a share above 1.",
        "the largest value that m may take",
        "taxonomy-span",
    ),
    "ramp-below-zero": Misconception(
        "Far keys have a negative share.",
        "the smallest value that m may take",
        "taxonomy-span",
    ),
    "ramp-too-early": Misconception(
        "The share reaches 0 at the span already; there it should only begin to fall.",
        "the value of m at the distance z",
        "taxonomy-span",
    ),
    "ramp-too-steep": Misconception(
        "The share falls by 1 over one position, whatever the length of the ramp.",
        "the values of m at the distances z and z + R",
        "taxonomy-span",
    ),
    "ramp-inverted": Misconception(
        "Near keys have the share 0, and far keys the share 1.",
        "the value of m at the distance 0",
        "taxonomy-span",
    ),
    "ramp-left-out": Misconception(
        "The window ends at the span without a ramp, and the span gets no gradient.",
        "the values of m between the distances z and z + R",
        "taxonomy-span",
    ),
    "span-to-the-end-of-ramp": Misconception(
        "The window ends at the end of the ramp, and all keys in it count alike.",
        "the values of m between the distances z and z + R",
        "taxonomy-span",
    ),
    "distance-with-sign": Misconception(
        "The distance has a sign: all keys before the target's position count as near.",
        "the distance of a key three positions before, and three positions behind",
        "taxonomy-span",
    ),
    "span-without-gradient": Misconception(
        "The weights are right, but no gradient reaches the span: it could not be learned.",
        "whether the span leaves PyTorch, by float(…), .item() or .detach()",
        "taxonomy-span",
    ),
}
