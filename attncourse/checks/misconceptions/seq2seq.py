"""Misconceptions of the set `seq2seq`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # A step of a GRU.
    "reset-before-product": Misconception(
        "The reset gate multiplies the state before the matrix product, as in Cho et al. (2014). "
        "PyTorch multiplies after it.",
        "what stands in the brackets behind r",
        "seq2seq-gru",
    ),
    "reset-skips-bias": Misconception(
        "The reset gate multiplies the product, but not the bias of the state.",
        "what stands in the brackets behind r",
        "seq2seq-gru",
    ),
    "reset-on-everything": Misconception(
        "The reset gate multiplies the part of the input, too.",
        "which of the two parts of n the reset gate belongs to",
        "seq2seq-gru",
    ),
    "reset-on-input": Misconception(
        "The reset gate multiplies the part of the input, where it should multiply that of the state.",
        "which of the two parts of n the reset gate belongs to",
        "seq2seq-gru",
    ),
    "reset-left-out": Misconception(
        "The reset gate has no effect.",
        "where r enters the formulas",
        "seq2seq-gru",
    ),
    "state-left-out-of-candidate": Misconception(
        "The old state is missing in the candidate n.",
        "the two parts of n",
        "seq2seq-gru",
    ),
    "candidate-without-tanh": Misconception(
        "The tanh of the candidate n is missing.",
        "the function in front of the brackets of n",
        "seq2seq-gru",
    ),
    "candidate-with-sigmoid": Misconception(
        "The candidate n uses a sigmoid, as the gates do.",
        "the function in front of the brackets of n",
        "seq2seq-gru",
    ),
    "gates-swapped": Misconception(
        "The reset and the update gate are swapped: each uses the rows of the other.",
        "the order in which the three parts lie in the weights",
        "seq2seq-gru",
    ),
    "gates-in-wrong-order": Misconception(
        "The three parts of the weights are taken in another order than they lie in.",
        "the order in which the three parts lie in the weights",
        "seq2seq-gru",
    ),
    "gates-interleaved": Misconception(
        "Every third row was taken for a gate; each part is one block of rows.",
        "which rows belong to the first gate, when the state has 5 entries",
        "seq2seq-gru",
    ),
    "gates-without-sigmoid": Misconception(
        "The gates have no sigmoid: they may lie outside 0 to 1.",
        "the range of your gates",
        "seq2seq-gru",
    ),
    "gates-with-tanh": Misconception(
        "The gates use tanh: they may be negative.",
        "the range of your gates",
        "seq2seq-gru",
    ),
    "update-inverted": Misconception(
        "The update gate is read the other way round: here z says how much of the old state stays.",
        "the new state when z is 1 everywhere",
        "seq2seq-gru",
    ),
    "candidate-only": Misconception(
        "The candidate n is returned as the new state.",
        "what the update gate does with the old state",
        "seq2seq-gru",
    ),
    "old-state-lost": Misconception(
        "The part of the old state is missing in the new one.",
        "the second term of the last formula",
        "seq2seq-gru",
    ),
    "old-state-kept-whole": Misconception(
        "The old state is added as a whole, whatever the update gate says.",
        "the second term of the last formula",
        "seq2seq-gru",
    ),
    "state-bias-left-out": Misconception(
        "The bias that goes with the state is missing.",
        "which of the six inputs you have not used",
        "seq2seq-gru",
    ),
    "input-bias-left-out": Misconception(
        "The bias that goes with the input is missing.",
        "which of the six inputs you have not used",
        "seq2seq-gru",
    ),
    "biases-left-out": Misconception(
        "Both biases are missing.",
        "which of the six inputs you have not used",
        "seq2seq-gru",
    ),
    # Encoding under padding.
    "reads-padding": Misconception(
        "The lengths have no effect: padding is read like tokens.",
        "the last state of a short sentence, when you change the padding behind it",
        "seq2seq-padding",
    ),
    "last-reads-padding": Misconception(
        "The states are right, but the last state has read the padding.",
        "after which token the last state of a short sentence should be taken",
        "seq2seq-padding",
    ),
    "last-column-of-zeros": Misconception(
        "The last state is taken from the last column, which is 0 in short sentences.",
        "where the last token of each sentence stands",
        "seq2seq-padding",
    ),
    "padding-read-as-zeros": Misconception(
        "The padding is set to 0 and then read. An input of 0 changes the state, too.",
        "what a cell with a bias, or with a state, does with an input of 0",
        "seq2seq-padding",
    ),
    "states-of-padding-left": Misconception(
        "The last state is right, but the states at padding are not 0.",
        "what the docstring says about positions of padding",
        "seq2seq-padding",
    ),
    "padding-repeats-last": Misconception(
        "The states at padding repeat the last state; they should be 0.",
        "what the docstring says about positions of padding",
        "seq2seq-padding",
    ),
    "last-one-early": Misconception(
        "The last state is that before the last token.",
        "how many tokens the last state has read",
        "seq2seq-padding",
    ),
    "last-one-late": Misconception(
        "The last state has read one token of padding.",
        "how many tokens the last state has read",
        "seq2seq-padding",
    ),
    "last-is-mean": Misconception(
        "The mean of all states is returned as the last state.",
        "what the docstring calls the last state",
        "seq2seq-padding",
    ),
    "empty-sentence-wraps-around": Misconception(
        "A sentence without tokens gets its last column: the index -1 counts from the end.",
        "your index for a sentence of length 0",
        "seq2seq-padding",
    ),
    "empty-sentence-gets-first-column": Misconception(
        "A sentence without tokens gets the first column: the state after one token of padding.",
        "your index for a sentence of length 0",
        "seq2seq-padding",
    ),
    "empty-sentence-gets-zeros": Misconception(
        "The last state of a sentence without tokens is 0. It has read nothing since the first state.",
        "what the docstring says about a sentence of length 0",
        "seq2seq-padding",
    ),
    "one-padding-token-read": Misconception(
        "In each sentence one token of padding counts as a token, in the states and in the last state.",
        "the number of the last token in a sentence of n tokens, when counting starts at 0",
        "seq2seq-padding",
    ),
    "lengths-along-wrong-axis": Misconception(
        "With one sentence this works. With several, the lengths lie along another axis than the sentences.",
        "the shapes of the two things that you compare or combine, axis by axis",
        "seq2seq-padding",
    ),
    "state-starts-anew": Misconception(
        "Each token is read from the first state: nothing is remembered.",
        "which state you hand to the cell at the second token",
        "seq2seq-padding",
    ),
    "start-state-ignored": Misconception(
        "Reading starts from the state 0, not from the state that is given.",
        "which of the inputs you have not used",
        "seq2seq-padding",
    ),
    "encodes-backwards": Misconception(
        "The sentences are read from the right to the left.",
        "which token comes first",
        "seq2seq-padding",
    ),
    "stops-at-shortest": Misconception(
        "Reading stops for all sentences where the shortest one ends.",
        "how many states of the longest sentence are not 0",
        "seq2seq-padding",
    ),
    # The loss over tokens.
    "loss-of-padding": Misconception(
        "Padding counts as tokens: the model would be trained to write padding.",
        "which positions your mean runs over",
        "seq2seq-loss",
    ),
    "divided-by-padding-too": Misconception(
        "The losses of padding are 0, but they are still counted in the divisor.",
        "what you divide by, and how many tokens there are",
        "seq2seq-loss",
    ),
    "mean-of-sentence-means": Misconception(
        "This is the mean of one mean for each sentence: tokens of short sentences count more.",
        "the weight of one token in a sentence of 2 and in a sentence of 10",
        "seq2seq-loss",
    ),
    "divided-by-sentences": Misconception(
        "The sum is divided by the number of sentences, not of tokens.",
        "what the mean should be taken over",
        "seq2seq-loss",
    ),
    "loss-for-each-token": Misconception(
        "There is one loss for each token; their mean is missing.",
        "the shape in the docstring",
        "seq2seq-loss",
    ),
    "loss-for-each-sentence": Misconception(
        "There is one loss for each sentence, where one number for all tokens is wanted.",
        "the shape in the docstring",
        "seq2seq-loss",
    ),
    "loss-of-zeroed-logits": Misconception(
        "The logits of padding are set to 0. That is a uniform distribution, and its loss still counts.",
        "the loss of a token when all logits are 0",
        "seq2seq-loss",
    ),
    "loss-of-one-padding-token": Misconception(
        "One position too many counts: the first padding token of each sentence.",
        "the number of the last token in a sentence of n tokens, when counting starts at 0",
        "seq2seq-loss",
    ),
    "loss-without-last-token": Misconception(
        "The last token of each sentence is left out. That is often the end token, which has to be learned.",
        "the number of the last token in a sentence of n tokens, when counting starts at 0",
        "seq2seq-loss",
    ),
    "token-zero-as-padding": Misconception(
        "Tokens with the number 0 are left out. Here 0 is a token like all others, and padding may hold any.",
        "what tells you where a sentence ends",
        "seq2seq-loss",
    ),
    "loss-with-wrong-sign": Misconception(
        "This is the log-likelihood: training would make it smaller, and the model worse.",
        "the sign of your loss, and of the logarithm of a probability",
        "seq2seq-loss",
    ),
    "probability-as-loss": Misconception(
        "The loss uses the probability of the token, not its logarithm.",
        "the loss of a token with a probability near 0",
        "seq2seq-loss",
    ),
    "softmax-before-log-softmax": Misconception(
        "The softmax is applied twice.",
        "what `log_softmax` or `cross_entropy` expects, logits or probabilities",
        "seq2seq-loss",
    ),
    "softmax-over-positions": Misconception(
        "The softmax runs over the positions, so that they compete for a token.",
        "which axis holds the scores of all tokens of the vocabulary",
        "seq2seq-loss",
    ),
    "logit-as-loss": Misconception(
        "The loss is the logit of the token alone; nothing is normalised.",
        "whether your loss changes when the logits of other tokens grow",
        "seq2seq-loss",
    ),
    "log-of-softmax": Misconception(
        "The probability of a token becomes 0 by rounding, and its logarithm is infinite.",
        "how to get the logarithm of a softmax without the softmax",
        "seq2seq-loss",
    ),
    "log-with-epsilon": Misconception(
        "A small number keeps the probability away from 0. So no loss can be larger than a certain number.",
        "the loss of a token whose logit is 1000 below the largest",
        "seq2seq-loss",
    ),
    "perplexity-for-loss": Misconception(
        "This is the perplexity, the exponential of the loss.",
        "the last step of your function",
        "seq2seq-loss",
    ),
    # Greedy decoding.
    "never-stops": Misconception(
        "The end token has no effect: each sentence is written to the largest length.",
        "what should happen when a sentence has ended, and when all have",
        "seq2seq-decoding",
    ),
    "writes-after-end": Misconception(
        "A sentence that has ended is written on while others go on.",
        "a row of your result behind its end token",
        "seq2seq-decoding",
    ),
    "all-must-end-at-once": Misconception(
        "Writing stops only if all sentences write the end token in the same step.",
        "how your function remembers which sentences ended earlier",
        "seq2seq-decoding",
    ),
    "stops-at-first-end": Misconception(
        "Writing stops for all sentences when the first one ends.",
        "whether `any` or `all` sentences have to have ended",
        "seq2seq-decoding",
    ),
    "end-not-remembered": Misconception(
        "Only the first token behind the end becomes padding. Then the row is written on.",
        "what your function still knows two steps after the end of a row",
        "seq2seq-decoding",
    ),
    "padding-ends-sentence": Misconception(
        "A padding token that the model writes itself counts as an end.",
        "how your function tells a row that has ended from one that has not",
        "seq2seq-decoding",
    ),
    "end-for-padding": Misconception(
        "Rows that have ended are filled with the end token; they should get the padding token.",
        "how many end tokens a row may have",
        "seq2seq-decoding",
    ),
    "end-replaced-by-padding": Misconception(
        "The end token itself is replaced by padding.",
        "in which order you note the end of a row and fill the row",
        "seq2seq-decoding",
    ),
    "end-cut-off": Misconception(
        "The end tokens are missing in the result.",
        "what the docstring says about the end token",
        "seq2seq-decoding",
    ),
    "filled-to-max-length": Misconception(
        "The result is always as long as allowed; it should be as long as the longest sentence.",
        "the last columns of your result",
        "seq2seq-decoding",
    ),
    "start-in-output": Misconception(
        "The start token stands in the result.",
        "the first column of your result",
        "seq2seq-decoding",
    ),
    "one-token-too-many": Misconception(
        "One token more than allowed is written.",
        "how often your loop runs",
        "seq2seq-decoding",
    ),
    "one-token-too-few": Misconception(
        "One token less than allowed is written.",
        "how often your loop runs",
        "seq2seq-decoding",
    ),
    "feeds-start-each-time": Misconception(
        "The model reads the start token at each step, not what was written.",
        "which tokens you hand to `step` the second time",
        "seq2seq-decoding",
    ),
    "decoder-state-not-kept": Misconception(
        "The model gets its first state at each step.",
        "the second result of `step`",
        "seq2seq-decoding",
    ),
    "least-probable-token": Misconception(
        "The token with the lowest logit is written.",
        "what a large logit means",
        "seq2seq-decoding",
    ),
    # How far a gradient reaches.
    "gradient-of-sum": Misconception(
        "This is the gradient of the sum of all entries of the state. In a sum, effects may cancel.",
        "how many derivatives one input has, when the state has several entries",
        "seq2seq-reach",
    ),
    "gradient-of-all-states": Misconception(
        "All states are looked at, not the last one alone.",
        "which state the question is about",
        "seq2seq-reach",
    ),
    "gradient-of-norm": Misconception(
        "This is the gradient of one number, the norm of the state.",
        "how many derivatives one input has, when the state has several entries",
        "seq2seq-reach",
    ),
    "norms-added-up": Misconception(
        "The norms of the single rows are added up, one for each entry of the state.",
        "what stands under the root in the formula",
        "seq2seq-reach",
    ),
    "gradient-of-one-entry": Misconception(
        "Only the last entry of the last state is looked at.",
        "how many entries a state has",
        "seq2seq-reach",
    ),
    "gradients-pile-up": Misconception(
        "Each gradient holds those that were computed before it: they pile up in `.grad`.",
        "what `backward` does with the gradient that is there already",
        "seq2seq-reach",
    ),
    "order-of-positions": Misconception(
        "The numbers are right, but in the order of the positions, not of the distances.",
        "which input has the distance 0",
        "seq2seq-reach",
    ),
    "gradient-of-first-state": Misconception(
        "The first state is looked at, which knows nothing of the later inputs.",
        "which state the question is about",
        "seq2seq-reach",
    ),
    "norm-squared": Misconception(
        "These are the squares of the norms.",
        "the last step of the formula",
        "seq2seq-reach",
    ),
    "norm-of-absolute-values": Misconception(
        "The absolute values are added up, not the squares.",
        "the formula of the norm",
        "seq2seq-reach",
    ),
    "norm-as-maximum": Misconception(
        "The largest entry stands in place of the norm.",
        "the formula of the norm",
        "seq2seq-reach",
    ),
    "norm-as-mean": Misconception(
        "The squares are averaged, not added up.",
        "the formula of the norm",
        "seq2seq-reach",
    ),
    "entries-summed-with-sign": Misconception(
        "The derivatives are added up with their signs, so that they may cancel.",
        "the formula of the norm",
        "seq2seq-reach",
    ),
    "largest-singular-value": Misconception(
        "This is the largest singular value (the spectral norm), not the root of the sum of squares.",
        "the formula of the norm",
        "seq2seq-reach",
    ),
    # A test that the learner writes.
    "test-lets-all-pass": Misconception(
        "Your test lets every encoder pass: nothing differs between your two runs, or nothing is asserted.",
        "what you run twice, what you change in between, and where your `assert` stands",
        "seq2seq-test",
    ),
    "test-of-zeros-only": Misconception(
        "Your test asks whether the states at padding are 0. They may be anything; the tokens matter.",
        "what must not change when the padding changes",
        "seq2seq-test",
    ),
    "test-compares-padding": Misconception(
        "Your test compares the states at padding, too. A right encoder may leave anything there.",
        "which positions the task promises something about",
        "seq2seq-test",
    ),
    "test-wants-equal-bits": Misconception(
        "Your test wants results that are equal to the last bit, and fails right encoders that round.",
        "how large a difference the task allows",
        "seq2seq-test",
    ),
    "test-stricter-than-task": Misconception(
        "Your test allows smaller differences than the task does, and fails a right encoder.",
        "what `torch.allclose` allows when you do not say how much",
        "seq2seq-test",
    ),
    "test-pads-with-nan": Misconception(
        "Your test puts nan into the padding. As 0 times nan is nan, right encoders fail, too.",
        "which numbers padding may hold",
        "seq2seq-test",
    ),
    "test-too-tolerant": Misconception(
        "Your test allows differences that are much larger than rounding.",
        "how large a difference the task allows",
        "seq2seq-test",
    ),
    "test-of-first-sentence": Misconception(
        "Your test looks at the first sentence only.",
        "an encoder that is wrong for short sentences only",
        "seq2seq-test",
    ),
    "test-of-states-only": Misconception(
        "Your test does not look at the summary.",
        "the two results of an encoder",
        "seq2seq-test",
    ),
    "test-of-summary-only": Misconception(
        "Your test does not look at the states.",
        "the two results of an encoder",
        "seq2seq-test",
    ),
    "test-sets-zeros": Misconception(
        "Where the padding was 0, your new padding is 0 again, and nothing changes.",
        "inputs whose padding is 0 from the beginning",
        "seq2seq-test",
    ),
    "test-changes-tokens": Misconception(
        "Your test changes tokens, and then even a right encoder gives other states.",
        "at which position the padding of a sentence of n tokens begins",
        "seq2seq-test",
    ),
    "test-keeps-first-padding": Misconception(
        "Your test leaves the first padding token of each sentence as it was.",
        "at which position the padding of a sentence of n tokens begins",
        "seq2seq-test",
    ),
    "test-upside-down": Misconception(
        "Your test passes the wrong encoders and fails the right ones.",
        "what has to be true for a right encoder: that is what to assert",
        "seq2seq-test",
    ),
    # Scores of hypotheses.
    "no-length-penalty": Misconception(
        "The log-probability is not divided by anything, so short sentences win.",
        "the first term of the formula",
        "seq2seq-rescore",
    ),
    "divided-by-length": Misconception(
        "The divisor is a power of the length itself.",
        "what is added to the length in the formula",
        "seq2seq-rescore",
    ),
    "length-penalty-multiplied": Misconception(
        "The log-probability is multiplied by the penalty, not divided.",
        "whether a long sentence gets a better or a worse score, when log-probabilities are negative",
        "seq2seq-rescore",
    ),
    "exponent-as-factor": Misconception(
        "α is used as a factor; it is an exponent.",
        "the divisor for α = 0, which should be 1",
        "seq2seq-rescore",
    ),
    "exponent-on-length-only": Misconception(
        "The exponent belongs to the length alone; the 5 is added after it.",
        "the brackets in the formula of lp",
        "seq2seq-rescore",
    ),
    "padded-length-as-n": Misconception(
        "All hypotheses get the same penalty for length: n is the number of steps of the tensor.",
        "the penalty of a short hypothesis and of a long one",
        "seq2seq-rescore",
    ),
    "limit-after-logarithm": Misconception(
        "The limit of 1 is applied to the logarithm, not to the sum.",
        "which comes first in the formula, the minimum or the logarithm",
        "seq2seq-rescore",
    ),
    "length-penalty-without-six": Misconception(
        "The divisor lacks its own divisor, 6 to the power of α.",
        "the divisor for a sentence of one token, which should be 1",
        "seq2seq-rescore",
    ),
    "padded-steps-counted": Misconception(
        "The weights of steps behind the end of a hypothesis count as read.",
        "the role of the lengths in the second term",
        "seq2seq-rescore",
    ),
    "coverage-without-effect": Misconception(
        "The coverage has no effect.",
        "over which axis the weights are added up, and what a row of weights sums to",
        "seq2seq-rescore",
    ),
    "coverage-without-factor": Misconception(
        "The coverage is not multiplied by β.",
        "which of the inputs you have not used",
        "seq2seq-rescore",
    ),
    "coverage-not-limited": Misconception(
        "A source position that was read several times earns a bonus: the sum has no limit of 1.",
        "the sign of the logarithm of a number above 1",
        "seq2seq-rescore",
    ),
    "coverage-limit-inverted": Misconception(
        "The limit works the wrong way: positions that were hardly read count as read.",
        "whether you need the smaller or the larger of two numbers",
        "seq2seq-rescore",
    ),
    "coverage-without-logarithm": Misconception(
        "The logarithm of the coverage is missing.",
        "the second term for a position that was never read",
        "seq2seq-rescore",
    ),
    "logarithm-after-sum": Misconception(
        "The logarithm is taken of the sum over all source positions, not of each one.",
        "which comes first in the formula, the sum over j or the logarithm",
        "seq2seq-rescore",
    ),
    "coverage-as-mean": Misconception(
        "The coverage is averaged over the source positions, where it should be added up.",
        "the sign in front of the logarithm",
        "seq2seq-rescore",
    ),
    "coverage-subtracted": Misconception(
        "The coverage is subtracted: hypotheses that leave words out would win.",
        "the sign of the second term, and of the logarithm of a number below 1",
        "seq2seq-rescore",
    ),
    "coverage-divided-by-length": Misconception(
        "The coverage is divided by the penalty for length, too.",
        "what exactly stands above the fraction bar",
        "seq2seq-rescore",
    ),
}
