"""Misconceptions of the set `restricted`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # Costs.
    "projections-left-out": Misconception(
        "The projections to query, key and value are not counted.",
        "what is done with each token before there are any scores",
        "restricted-cost",
    ),
    "costs-of-table-1": Misconception(
        "These are the entries of a table that leaves out constant factors and projections; "
        "the task asks for exact numbers.",
        "the list of what is counted",
        "restricted-cost",
    ),
    "one-product-of-attention": Misconception(
        "Only one of the two products that use the weights or make the scores is counted.",
        "the three stages of attention, and which of them multiply",
        "restricted-cost",
    ),
    "one-projection": Misconception(
        "Only one projection of each token is counted.",
        "how many vectors attention makes of each token",
        "restricted-cost",
    ),
    "output-projection-counted": Misconception(
        "A projection of the output is counted; the layer of this task has none.",
        "the list of what is counted",
        "restricted-cost",
    ),
    "additions-counted": Misconception(
        "All numbers are twice as large: additions are counted, too.",
        "what the task counts as one operation",
        "restricted-cost",
    ),
    "one-matrix-of-recurrence": Misconception(
        "Only one matrix of the recurrent layer is counted.",
        "what each step is computed from: the token and the last state",
        "restricted-cost",
    ),
    "width-ignored": Misconception(
        "The restricted layer costs as much as full attention here.",
        "how many keys each query sees",
        "restricted-cost",
    ),
    "convolution-by-feature": Misconception(
        "The convolution is counted as if each feature were computed from itself alone.",
        "how many input features each output feature of the convolution uses",
        "restricted-cost",
    ),
    "window-cut-at-the-start": Misconception(
        "The first positions are counted with fewer keys; here each position counts as if it had them all.",
        "what the task says about the first positions",
        "restricted-cost",
    ),
    "steps-of-attention": Misconception(
        "Attention is counted as if one position had to wait for the other.",
        "whether the context of one position needs that of another",
        "restricted-cost",
    ),
    "steps-one-for-all": Misconception(
        "Every layer takes one step here, also the recurrent one.",
        "what the second state of a recurrent layer needs",
        "restricted-cost",
    ),
    "path-of-recurrence-one": Misconception(
        "The recurrent layer has the path 1; but each step of the recurrence counts.",
        "through how many states the first token passes until the last",
        "restricted-path",
    ),
    "path-of-recurrence-short": Misconception(
        "The path of the recurrent layer is one too short.",
        "the step that takes the first token into the first state",
        "restricted-path",
    ),
    "path-n-over-w": Misconception(
        "The length is divided by the number of positions that a layer sees; "
        "but each layer extends the reach by one less than that.",
        "how many positions two layers of width 3 see together",
        "restricted-path",
    ),
    "path-one-too-many": Misconception(
        "The path is one layer too long when the reach fits the length exactly.",
        "the position itself, which is seen without any step back",
        "restricted-path",
    ),
    "path-rounded-down": Misconception(
        "The number of layers is rounded down: the first position is not reached.",
        "a text that is one token longer than the layers reach",
        "restricted-path",
    ),
    "path-not-rounded": Misconception(
        "A fraction of a layer is counted.",
        "whether the path is a whole number",
        "restricted-path",
    ),
    "path-of-dilation": Misconception(
        "The path grows with the logarithm of the length, as if gaps in the kernel grew with each layer.",
        "what two layers with the same kernel see together",
        "restricted-path",
    ),
    "path-one-for-all": Misconception(
        "The layers with a width have the path 1 here; but one such layer reaches only so far.",
        "the first token that the last position can see through one layer",
        "restricted-path",
    ),
    # Masks and windows.
    "window-one-more": Misconception(
        "The window is one key too wide.",
        "whether the query's own key is one of the `width` keys",
        "restricted-window",
    ),
    "window-one-less": Misconception(
        "The window is one key too narrow.",
        "how many keys a query sees that is far from the start",
        "restricted-window",
    ),
    "window-after-the-query": Misconception(
        "The window lies on the other side: the query sees the keys after it.",
        "which of query and key is subtracted from the other",
        "restricted-window",
    ),
    "window-on-both-sides": Misconception(
        "Keys after the query are seen, too.",
        "which keys a model may see that writes token by token",
        "restricted-window",
    ),
    "band-causal-ignored": Misconception(
        "Keys after the query are seen, whatever `causal` says.",
        "where `causal` enters",
        "restricted-window",
    ),
    "always-causal": Misconception(
        "Keys after the query are never seen, whatever `causal` says.",
        "where `causal` enters",
        "restricted-window",
    ),
    "causal-inverted": Misconception(
        "`causal` is read the wrong way round.",
        "the keys after the query when `causal` is True",
        "restricted-window",
    ),
    "window-in-two-halves": Misconception(
        "Without `causal` the width is shared between both sides. Here each side has the reach that the one "
        "side has with it.",
        "the farthest key before the query, with `causal` and without",
        "restricted-window",
    ),
    "later-keys-unlimited": Misconception(
        "Without `causal` all keys after the query are seen, however far they are.",
        "both sides of the distance",
        "restricted-window",
    ),
    "window-missing": Misconception(
        "Nothing limits how far back a query sees.",
        "the first keys, for a query that is far from the start",
        "restricted-window",
    ),
    "mask-as-numbers": Misconception(
        "The mask holds numbers; the course's masks are boolean.",
        "the dtype in the docstring",
        "restricted-window",
    ),
    "past-keys-left-out": Misconception(
        "The keys before the first query have no columns.",
        "the number of keys in the docstring",
        "restricted-window",
    ),
    "block-for-window": Misconception(
        "The text is cut into blocks, and a query sees its own block only.",
        "what the first query of a block should see",
        "restricted-window",
    ),
    "window-padding-attended": Misconception(
        "The zeros that were put before the first key get weight: their score 0 counts like any other.",
        "the first positions, and what a score of 0 means to a softmax",
        "restricted-pieces",
    ),
    "window-wraps": Misconception(
        "The first positions see the end of the text.",
        "what `roll`, or a negative index, gives at the start",
        "restricted-pieces",
    ),
    "first-key-repeated": Misconception(
        "The first positions see the first key several times.",
        "how many keys the first query should see",
        "restricted-pieces",
    ),
    "only-full-windows": Misconception(
        "The first positions are left out, or get 0, because their window is not full.",
        "what the first query sees: at least its own key",
        "restricted-pieces",
    ),
    # Streaming.
    "maximum-of-the-first-chunk": Misconception(
        "The maximum of the first chunk is kept for all chunks; larger scores then overflow.",
        "a later chunk with a larger score",
        "restricted-streaming",
    ),
    "maximum-of-the-last-chunk": Misconception(
        "Each chunk's own maximum replaces the one before, even if it is smaller.",
        "what the largest score of all chunks so far is",
        "restricted-streaming",
    ),
    "no-rescaling": Misconception(
        "What was summed up before is not brought to the new maximum.",
        "which maximum the old sums were made with",
        "restricted-streaming",
    ),
    "only-total-rescaled": Misconception(
        "The sum of the weights is brought to the new maximum, but not the sum of the values.",
        "both sums, when a chunk has a larger score than those before",
        "restricted-streaming",
    ),
    "only-context-rescaled": Misconception(
        "The sum of the values is brought to the new maximum, but not the sum of the weights.",
        "both sums, when a chunk has a larger score than those before",
        "restricted-streaming",
    ),
    "rescaled-the-wrong-way": Misconception(
        "The old sums grow when a larger score comes; they should shrink.",
        "the sign in the exponent of the factor",
        "restricted-streaming",
    ),
    "maximum-starts-at-zero": Misconception(
        "Where no score was seen yet, the maximum is set to 0. Scores far below 0 then get the weight 0.",
        "which number is smaller than any score",
        "restricted-streaming",
    ),
    "maximum-starts-finite": Misconception(
        "The maximum starts at a finite number. If all scores are below it, all weights are 0.",
        "which number is smaller than any score",
        "restricted-streaming",
    ),
    "empty-chunk-nan": Misconception(
        "A query that has seen only scores of -inf gets nan: -inf minus -inf.",
        "the maximum of such a chunk, and what you subtract from what",
        "restricted-streaming",
    ),
    "normalised-by-chunks": Misconception(
        "The sum of the values is divided by the number of chunks, not by the sum of the weights.",
        "what the weights add up to",
        "restricted-streaming",
    ),
    "normalised-at-each-step": Misconception(
        "The context is divided by the sum of the weights after each chunk, and then used as a sum.",
        "at which time the division comes",
        "restricted-streaming",
    ),
    "mean-of-chunks": Misconception(
        "Each chunk has a softmax of its own, and their results are averaged. "
        "A chunk with high scores should count for more.",
        "what the weights of all chunks together add up to, and who competes with whom",
        "restricted-streaming",
    ),
    "sum-of-chunks": Misconception(
        "Each chunk has a softmax of its own, and their results are added up.",
        "what the weights of all chunks together add up to",
        "restricted-streaming",
    ),
    "last-chunk-only": Misconception(
        "Only the last chunk counts.",
        "what your loop keeps from one chunk to the next",
        "restricted-streaming",
    ),
    "chunks-kept": Misconception(
        "The result is right, but chunks are kept after they were read.",
        "lists, and `zip(*chunks)`: do they hold more than one chunk at a time",
        "restricted-streaming",
    ),
    "chunks-read-twice": Misconception(
        "The chunks are read a second time, but an iterator gives each of them only once.",
        "the second loop over `chunks`",
        "restricted-streaming",
    ),
    # Convolution.
    "kernel-flipped": Misconception(
        "The kernel is applied from right to left. `conv1d` does not turn it round.",
        "which token meets the first entry of the kernel",
        "restricted-convolution",
    ),
    "offsets-from-zero": Misconception(
        "The heads look at the query's own key and at the keys after it; the kernel should be centred.",
        "which head looks at the query's own key",
        "restricted-convolution",
    ),
    "offsets-up-to-zero": Misconception(
        "The heads look at the query's own key and at the keys before it; the kernel should be centred.",
        "which head looks at the query's own key",
        "restricted-convolution",
    ),
    "offset-off-by-one": Misconception(
        "All heads look one key too far to one side.",
        "which head looks at the query's own key",
        "restricted-convolution",
    ),
    "edges-repeated": Misconception(
        "Where a head would look beyond the text, it looks at the first or last token instead.",
        "what padding with zeros gives there",
        "restricted-convolution",
    ),
    "edges-wrapped": Misconception(
        "Where a head would look beyond the text, it looks at its other end.",
        "what padding with zeros gives there",
        "restricted-convolution",
    ),
    "kernel-heads-averaged": Misconception(
        "The heads are averaged; a convolution adds up the entries of its kernel.",
        "by how much your result is too small",
        "restricted-convolution",
    ),
    "heads-concatenated": Misconception(
        "The heads are put side by side; a convolution adds them up.",
        "the width of the result",
        "restricted-convolution",
    ),
    "kernel-axes-swapped": Misconception(
        "The first two axes of the kernel have changed places.",
        "the shape of the kernel: which axis meets the features of the input",
        "restricted-convolution",
    ),
    "weights-transposed": Misconception(
        "The context is right, but query and key have changed places in the weights.",
        "the shape of the weights, and which row belongs to which query",
        "restricted-convolution",
    ),
    # The strided pattern.
    "stride-left-out": Misconception(
        "Only the nearest keys are seen; those at multiples of the stride are missing.",
        "the second of the two conditions",
        "restricted-patterns",
    ),
    "local-part-left-out": Misconception(
        "Only the keys at multiples of the stride are seen; the nearest ones are missing.",
        "the first of the two conditions",
        "restricted-patterns",
    ),
    "and-for-or": Misconception(
        "A key must satisfy both conditions here; one is enough.",
        "`&` and `|`",
        "restricted-patterns",
    ),
    "stride-from-the-start": Misconception(
        "The far keys stand at the same places for all queries; they should be counted from the query.",
        "whether the far keys move when the query does",
        "restricted-patterns",
    ),
    "fixed-pattern": Misconception(
        "This is the other pattern of the same paper, the fixed one, with blocks and their last keys.",
        "whether the far keys are counted from the query",
        "restricted-patterns",
    ),
    "strides-on-both-sides": Misconception(
        "Keys after the query are seen, too.",
        "the keys above the diagonal",
        "restricted-patterns",
    ),
    # The test.
    "reach-test-never-fails": Misconception(
        "Your test lets every layer pass.",
        "whether an `assert` is ever reached, and what it compares",
        "restricted-reach",
    ),
    "test-always-fails": Misconception(
        "Your test lets no layer pass.",
        "what your test finds for a layer that is right",
        "restricted-reach",
    ),
    "test-of-causality-only": Misconception(
        "Your test looks at the keys after the query alone.",
        "a layer that sees too much of the past, and one that sees nothing at all",
        "restricted-reach",
    ),
    "test-without-reach": Misconception(
        "Your test finds what a layer should not see, but not what it fails to see.",
        "a layer that returns zeros",
        "restricted-reach",
    ),
    "test-without-limits": Misconception(
        "Your test finds what a layer fails to see, but not what it should not see.",
        "a layer in which each query sees the whole text",
        "restricted-reach",
    ),
    "test-without-left-limit": Misconception(
        "Your test does not ask how far back a query sees.",
        "a layer that sees all keys before the query",
        "restricted-reach",
    ),
    "test-without-causality": Misconception(
        "Your test does not look at the keys after the query.",
        "a layer that sees the future",
        "restricted-reach",
    ),
    "test-at-the-limits-only": Misconception(
        "Your test looks only at the keys on both sides of each limit of the window.",
        "a gap inside of the window, and a leak from far away",
        "restricted-reach",
    ),
    "test-of-the-last-query-only": Misconception(
        "Your test looks at the last query alone.",
        "a layer that is wrong at its first positions",
        "restricted-reach",
    ),
    "test-of-one-token-only": Misconception(
        "Your test changes a single token.",
        "a layer in which another token is seen too far away",
        "restricted-reach",
    ),
    "test-of-the-first-feature-only": Misconception(
        "Your test looks at the first feature alone.",
        "a layer in which another feature is wrong",
        "restricted-reach",
    ),
    "reach-test-too-strict": Misconception(
        "Your test takes rounding errors for a sign that a key is seen.",
        "what `==`, or a very small tolerance, makes of two sums in another order",
        "restricted-reach",
    ),
    "test-too-wide": Misconception(
        "The tolerance of your test is so wide that a small leak, or a small effect, is not seen.",
        "the size of the smallest effect, and the size of rounding errors",
        "restricted-reach",
    ),
}
