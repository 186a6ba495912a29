"""Misconceptions of the set `transformer`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS: dict[str, Misconception] = {
    # The block of a decoder.
    "decoder-sees-the-future": Misconception(
        "Self-attention has no causal mask: each target token sees those that come after it.",
        "which tokens are known when the model writes token i",
        "transformer-decoder",
    ),
    "source-mask-on-target": Misconception(
        "The padding of the source masks target tokens in self-attention, too.",
        "which of the two attentions reads the source",
        "transformer-decoder",
    ),
    "cross-before-self": Misconception(
        "The target reads the source first and itself afterwards.",
        "the order of the three lines of the formula",
        "transformer-decoder",
    ),
    "attentions-in-parallel": Misconception(
        "Both attentions read the inputs, and their results are added. They are two sublayers: the second "
        "reads the result of the first.",
        "what the queries of the second attention are made from",
        "transformer-decoder",
    ),
    "feedforward-before-cross": Misconception(
        "The feed-forward network comes before the source is read.",
        "the order of the three lines of the formula",
        "transformer-decoder",
    ),
    "memory-asks": Misconception(
        "In cross-attention the source asks, and the target answers.",
        "how many vectors the block should return: one for each target token, or one for each source token",
        "transformer-decoder",
    ),
    "memory-not-read": Misconception(
        "The second attention reads the target once more: the memory is not used.",
        "whether your result changes when the memory changes",
        "transformer-decoder",
    ),
    "memory-normed": Misconception(
        "The memory is normalised by the second norm, too. It comes from the encoder as it should be read.",
        "what the second norm encloses in the formula",
        "transformer-decoder",
    ),
    # Label smoothing.
    "smoothing-ignored": Misconception(
        "This is the cross-entropy without smoothing.",
        "what the wanted distribution gives to the wrong tokens",
        "transformer-smoothing",
    ),
    "smoothing-over-others": Misconception(
        "The share ε is spread over all tokens but the right one; the task spreads it over all V tokens.",
        "the weight of the right token in the wanted distribution",
        "transformer-smoothing",
    ),
    "smoothing-over-others-twice": Misconception(
        "Each token gets ε / (V - 1), the right one too: the wanted distribution sums to more than 1.",
        "the sum of your wanted distribution",
        "transformer-smoothing",
    ),
    "smoothing-own-share-missing": Misconception(
        "The right token gets 1 - ε alone, without its part of ε: what you want sums to less than 1.",
        "the sum of your wanted distribution",
        "transformer-smoothing",
    ),
    "smoothing-turned-round": Misconception(
        "ε and 1 - ε are swapped: the right token gets the small share.",
        "the wanted distribution for ε = 0",
        "transformer-smoothing",
    ),
    "smoothing-not-shared": Misconception(
        "Every token gets the whole ε; they should share it.",
        "the sum of your wanted distribution",
        "transformer-smoothing",
    ),
    "smoothing-on-top": Misconception(
        "The share of all tokens is added, but the right token still has its whole 1.",
        "the sum of your wanted distribution",
        "transformer-smoothing",
    ),
    "smoothing-of-a-whole": Misconception(
        "All tokens together get a share of 1, not of ε.",
        "the sum of your wanted distribution",
        "transformer-smoothing",
    ),
    "smoothed-padding-counted": Misconception(
        "The loss of the padding is counted.",
        "which places of the batch hold a token",
        "transformer-smoothing",
    ),
    "smoothed-over-all-places": Misconception(
        "Only real tokens are added up, but the sum is divided by the number of all places.",
        "the denominator of the mean",
        "transformer-smoothing",
    ),
    "smoothed-padding-only": Misconception(
        "The mask is read the wrong way round: the loss is that of the padding.",
        "what True means in real_tokens",
        "transformer-smoothing",
    ),
    "smoothed-sentences-alike": Misconception(
        "Each sentence is averaged first, so that a token of a short sentence counts more.",
        "over what the mean is taken",
        "transformer-smoothing",
    ),
    "smoothed-over-sentences": Misconception(
        "The sum over the tokens is divided by the number of sentences.",
        "over what the mean is taken",
        "transformer-smoothing",
    ),
    "smoothed-sum": Misconception(
        "The losses of the tokens are added up, and not averaged.",
        "over what the mean is taken",
        "transformer-smoothing",
    ),
    "smoothed-sign": Misconception(
        "The sign is wrong: this grows as the model gets better.",
        "the sign of a logarithm of a probability",
        "transformer-smoothing",
    ),
    "logits-not-normalised": Misconception(
        "The logits are used as if they were logarithms of probabilities.",
        "the sum of exp(logits) over the tokens",
        "transformer-smoothing",
    ),
    "logarithm-forgotten": Misconception(
        "Probabilities stand where their logarithms should.",
        "the formula of the cross-entropy",
        "transformer-smoothing",
    ),
    "normalised-over-places": Misconception(
        "The softmax runs over the places of a sentence, not over the vocabulary.",
        "which axis should sum to 1",
        "transformer-smoothing",
    ),
    "divergence-for-entropy": Misconception(
        "This is the divergence from the wanted distribution: its entropy was subtracted from the "
        "cross-entropy. The gradients are the same, the number is not.",
        "the formula of the loss, for a model that is as good as can be",
        "transformer-smoothing",
    ),
    "log-underflow": Misconception(
        "For large logits a probability is rounded to 0, and its logarithm is -inf.",
        "how to get the logarithm of a softmax without the softmax",
        "transformer-smoothing",
    ),
    # Generation.
    "no-cache": Misconception(
        "The tokens are right, but each step reads everything once more: the cache is not used.",
        "how many tokens are new to the model at each step",
        "transformer-cache",
    ),
    "cache-not-passed": Misconception(
        "Each step reads the new token alone, without the cache: the model has forgotten the rest.",
        "what you give to the second call of step",
        "transformer-cache",
    ),
    "cache-not-updated": Misconception(
        "Each step gets the cache of the prompt: what was written since is not in it.",
        "the second result of step, and what you do with it",
        "transformer-cache",
    ),
    "cache-and-all-tokens": Misconception(
        "Each step gets the cache and all tokens, so that the model reads old tokens again, at new places.",
        "which tokens the cache knows already",
        "transformer-cache",
    ),
    "prompt-end-read-twice": Misconception(
        "The last token of the prompt is read twice: with the prompt, and once more alone.",
        "which scores the first call of step has given you",
        "transformer-cache",
    ),
    "only-last-of-prompt": Misconception(
        "Only the last token of the prompt is read.",
        "what the first call of step should read",
        "transformer-cache",
    ),
    "only-first-of-prompt": Misconception(
        "Only the first token of the prompt is read.",
        "what the first call of step should read",
        "transformer-cache",
    ),
    "first-place-read": Misconception(
        "The next token is chosen by the scores at the first place of a call, not at the last.",
        "what the scores at each place predict",
        "transformer-cache",
    ),
    "lowest-score-chosen": Misconception(
        "The token with the lowest score is chosen.",
        "which token the model holds for the most probable",
        "transformer-cache",
    ),
    "end-in-prompt": Misconception(
        "A sentence whose prompt holds an end token is taken for finished.",
        "what the task says about an end token in the prompt",
        "transformer-cache",
    ),
    "goes-on-after-end": Misconception(
        "A sentence goes on after its end token.",
        "what the task says about the places after the end",
        "transformer-cache",
    ),
    "all-stop-with-the-first": Misconception(
        "All sentences of the batch stop as soon as one has ended.",
        "the sentences that have not ended yet",
        "transformer-cache",
    ),
    "zeros-after-end": Misconception(
        "After the end there are zeros.",
        "what the task says about the places after the end",
        "transformer-cache",
    ),
    "read-once-too-often": Misconception(
        "The tokens are right, but the last one is read although nothing is written after it.",
        "how many calls of step it takes to write one token",
        "transformer-cache",
    ),
    "prompt-returned-too": Misconception(
        "The prompt is part of the result.",
        "the shape in the docstring",
        "transformer-cache",
    ),
    "generated-one-too-few": Misconception(
        "One token too few is written.",
        "which token the scores of the first call give you",
        "transformer-cache",
    ),
    "generated-one-too-many": Misconception(
        "One token too many is written.",
        "how many calls of step it takes to write one token",
        "transformer-cache",
    ),
    # Training.
    "target-not-shifted": Misconception(
        "The model is trained to repeat the token that it reads, not to predict the next one.",
        "for the target START a b END: what is read at the first place, and what should be predicted there",
        "transformer-training",
    ),
    "reads-what-it-predicts": Misconception(
        "The decoder reads the very tokens that it should predict, and never the start token.",
        "for the target START a b END: what is read at the first place, and what should be predicted there",
        "transformer-training",
    ),
    "padding-learned": Misconception(
        "The padding counts in the loss, so that the model learns to predict it.",
        "which places of the shifted target hold a token",
        "transformer-training",
    ),
    "gradients-not-reset": Misconception(
        "The gradients pile up from step to step.",
        "what backward() does with a gradient that is there already",
        "transformer-training",
    ),
    "trained-in-eval-mode": Misconception(
        "The model is in evaluation mode while it is trained, so that dropout would not work.",
        "the mode in which the model comes, and the method that changes it",
        "transformer-training",
    ),
    "lengths-left-out": Misconception(
        "The model is not told the right lengths of its sources, so that it may read padding or miss tokens.",
        "the third argument of the model, and the sources that it belongs to",
        "transformer-training",
    ),
    "one-batch-again-and-again": Misconception(
        "Every step uses the same few sentences.",
        "which rows your batches hold, from step to step",
        "transformer-training",
    ),
    "never-updated": Misconception(
        "Gradients are computed, but no parameter changes.",
        "what has to happen between backward() and the next batch",
        "transformer-training",
    ),
    "loss-made-larger": Misconception(
        "The updates make the loss larger.",
        "the sign of the loss, step by step",
        "transformer-training",
    ),
    "steps-missed": Misconception(
        "The number of updates is not the one that was asked for.",
        "how often your loop calls the model",
        "transformer-training",
    ),
    # Top-p sampling.
    "nucleus-below-share": Misconception(
        "The token with which the sum reaches the share is left out, so that the nucleus holds less than the "
        "share, or nothing at all.",
        "the sum of the probabilities that you keep",
        "transformer-nucleus",
    ),
    "nucleus-below-share-but-one": Misconception(
        "The token with which the sum reaches the share is left out, unless it is the first.",
        "the sum of the probabilities that you keep",
        "transformer-nucleus",
    ),
    "nucleus-one-too-many": Misconception(
        "One token more is kept than is needed to reach the share.",
        "the sum of the probabilities that you keep, without the least of them",
        "transformer-nucleus",
    ),
    "nucleus-in-sorted-order": Misconception(
        "The logits come back in the order of their size: place i is no longer token i.",
        "at which place token 0 stands in your result",
        "transformer-nucleus",
    ),
    "nucleus-places-mixed": Misconception(
        "The right number of tokens is kept, but not the right ones: the step from places in the order back "
        "to tokens goes the wrong way.",
        "what entry i of the order says: where token i went, or which token came to place i",
        "transformer-nucleus",
    ),
    "nucleus-of-the-least": Misconception(
        "The least probable tokens are kept.",
        "in which order you add up the probabilities",
        "transformer-nucleus",
    ),
    "nucleus-complement": Misconception(
        "The nucleus is removed, and the rest is kept.",
        "which tokens become -inf",
        "transformer-nucleus",
    ),
    "nucleus-of-logits": Misconception(
        "The logits themselves are added up; the share is one of probabilities.",
        "what your numbers sum to over the whole vocabulary",
        "transformer-nucleus",
    ),
    "nucleus-zero-logits": Misconception(
        "Tokens outside the nucleus got the logit 0, which is a probability like others.",
        "which logit has the probability 0",
        "transformer-nucleus",
    ),
    "nucleus-finite-outside": Misconception(
        "The nucleus is right, but outside it stands a very low number, not -inf.",
        "what the docstring says about the entries outside",
        "transformer-nucleus",
    ),
    "nucleus-as-weights": Misconception(
        "The nucleus is right, but probabilities are returned in place of logits.",
        "what the docstring says about the entries that are kept",
        "transformer-nucleus",
    ),
    "nucleus-as-log-weights": Misconception(
        "The nucleus is right, but logarithms of probabilities are returned in place of the logits.",
        "what the docstring says about the entries that are kept",
        "transformer-nucleus",
    ),
    "threshold-for-each-token": Misconception(
        "Each token is compared with the share on its own; the share is one of a sum.",
        "the sum of the probabilities that you keep",
        "transformer-nucleus",
    ),
    "threshold-of-the-best": Misconception(
        "Each token is compared with a share of the best one. That is another rule, called min-p.",
        "the sum of the probabilities that you keep",
        "transformer-nucleus",
    ),
    "nucleus-best-only": Misconception(
        "Only the most probable token is kept, whatever the share.",
        "the sum of the probabilities that you keep",
        "transformer-nucleus",
    ),
}
