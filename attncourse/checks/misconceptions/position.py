"""Misconceptions of the set `position`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS = {
    # Frequencies: of sinusoids, of the matrix that shifts them, and of rotations.
    "exponent-doubled": Misconception(
        "The exponent is twice as large as it should be: 2 · 2i / d, in place of 2i / d.",
        "whether your variable counts pairs (0, 1, 2 …) or columns (0, 2, 4 …), and where the 2 belongs then",
        "position-sinusoidal",
    ),
    "exponent-halved": Misconception(
        "The exponent is half as large as it should be: i / d, in place of 2i / d.",
        "the exponent of the last pair, which should come close to 1",
        "position-sinusoidal",
    ),
    "exponent-whole-number": Misconception(
        "The exponent was rounded to a whole number by `//`.",
        "the exponents that your code makes: they should lie between 0 and 1",
        "position-sinusoidal",
    ),
    "exponent-and-base-swapped": Misconception(
        "The base and the exponent have changed places.",
        "which of the two is the same for all pairs",
        "position-sinusoidal",
    ),
    "frequency-inverted": Misconception(
        "The position is multiplied by the power of 10000, not divided by it.",
        "the wavelengths, which should grow from the first pair to the last",
        "position-sinusoidal",
    ),
    "one-frequency": Misconception(
        "All pairs have the same frequency: the exponent is 0 for each of them.",
        "what changes from one pair of columns to the next, and whether `//` made a 0",
        "position-sinusoidal",
    ),
    "other-base": Misconception(
        "The angles have the right form, but another number stands in place of the base 10000.",
        "the number of zeros of the base",
        "position-sinusoidal",
    ),
    "frequency-per-column": Misconception(
        "Each column has a frequency of its own; but the two columns of a pair share one.",
        "the exponents of columns 2i and 2i + 1 in the formula",
        "position-sinusoidal",
    ),
    "frequencies-to-the-end": Misconception(
        "The last pair has exactly the exponent 1: the steps between the frequencies are a little too large.",
        "by what the formula divides: by the width, or by a number of steps",
        "position-sinusoidal",
    ),
    # The table.
    "sines-then-cosines": Misconception(
        "All sines come first and then all cosines; the task wants each sine beside its cosine.",
        "which columns hold the first pair",
        "position-sinusoidal",
    ),
    "sine-and-cosine-swapped": Misconception(
        "Sine and cosine have changed places.",
        "what the sine and the cosine of 0 are, and where each of them should stand",
        "position-sinusoidal",
    ),
    "positions-from-one": Misconception(
        "The positions are counted from 1.",
        "the first position, which should be 0",
        "position-sinusoidal",
    ),
    "length-last": Misconception(
        "Each position is a column of the table; it should be a row.",
        "the shape in the docstring",
        "position-sinusoidal",
    ),
    "odd-width-crashes": Misconception(
        "The table is right for an even width, but an odd width raises an error: "
        "there is one sine more than there are cosines.",
        "how many columns `0::2` and `1::2` choose when the width is 5",
        "position-sinusoidal",
    ),
    "odd-width-rounded-up": Misconception(
        "For an odd width the exponents are those of the next even width.",
        "the d in the exponent: it is the width of the table, also when that is odd",
        "position-sinusoidal",
    ),
    "odd-width-too-wide": Misconception(
        "For an odd width the table has one column too many.",
        "the shape of your table for the width 5",
        "position-sinusoidal",
    ),
    "odd-width-no-last-sine": Misconception(
        "For an odd width the last column is 0; it should hold a sine like the others.",
        "the last column of your table for the width 5",
        "position-sinusoidal",
    ),
    # Shifts.
    "rotation-reversed": Misconception(
        "Each pair is turned in the opposite direction.",
        "which of the two sines has the minus sign",
        "position-shift",
    ),
    "rotation-same-sign": Misconception(
        "Both sines have the same sign, so that this is no rotation: lengths change.",
        "the signs in the two angle-addition identities, for sin(a + b) and cos(a + b)",
        "position-shift",
    ),
    "encoding-on-diagonal": Misconception(
        "The encoding of the offset stands on the diagonal: this scales each column, and turns nothing.",
        "whether sin(a + b) can be made from sin(a) alone",
        "position-shift",
    ),
    "columns-moved": Misconception(
        "This matrix moves the columns of an encoding to other places. The position should change, "
        "and not the column.",
        "what stands in one column for p and for p + k",
        "position-shift",
    ),
    "offset-ignored": Misconception(
        "The matrix is that of the offset 1, whatever the offset.",
        "where the offset enters",
        "position-shift",
    ),
    "entries-to-a-power": Misconception(
        "Each entry was raised to a power; a matrix that is applied k times is not that.",
        "the difference between `**` and a product of matrices",
        "position-shift",
    ),
    # Beside tokens.
    "concatenated-for-each": Misconception(
        "The result is right, but the positions were copied, or projected, for each sentence anew.",
        "which part of the result is the same for all sentences",
        "position-add",
    ),
    "order-swapped": Misconception(
        "The first columns of the weight were used for the positions; they belong to the tokens.",
        "which comes first in [x; p]",
        "position-add",
    ),
    "split-in-the-middle": Misconception(
        "The weight is cut in the middle; tokens and positions may have different widths.",
        "how many columns of the weight meet the entries of a token",
        "position-add",
    ),
    "added-before-projection": Misconception(
        "Tokens and positions are added first, and then share one part of the weight.",
        "how many columns the weight has, and which of them you used",
        "position-add",
    ),
    "position-per-sentence": Misconception(
        "The position is that of the sentence in the batch: all tokens of a sentence get the same one.",
        "which axis of the input is counted by the position",
        "position-add",
    ),
    "whole-table": Misconception(
        "All rows of the table are used; the text may be shorter than the table.",
        "the number of tokens, and the number of rows of the table",
        "position-add",
    ),
    "last-rows": Misconception(
        "The last rows of the table are used; the first token stands at position 0.",
        "which row belongs to the first token",
        "position-add",
    ),
    "positions-left-out": Misconception(
        "The positions have no effect: this is the projection of the tokens alone.",
        "whether the result changes when the table does",
        "position-add",
    ),
    "tokens-left-out": Misconception(
        "The tokens have no effect: this is the projection of the positions alone.",
        "whether the result changes when the tokens do",
        "position-add",
    ),
    "one-position-for-all": Misconception(
        "Each token gets the row of position 0.",
        "whether your rows of the table differ from token to token",
        "position-add",
    ),
    "tokens-scaled": Misconception(
        "The tokens are multiplied by √d, as some models do with embeddings; this task does not.",
        "what is done with the tokens before the projection",
        "position-add",
    ),
    "weight-rows-cut": Misconception(
        "The rows of the weight were cut, and not its columns.",
        "the shape of the weight: d_out comes first",
        "position-add",
    ),
    # Rotations.
    "rotary-halves": Misconception(
        "Column i is paired with column i + d/2. Many models do so, but this task pairs neighbours.",
        "which two columns make one pair in the task",
        "position-rotary",
    ),
    "rotary-mixed-pairs": Misconception(
        "Two conventions are mixed: the columns are paired in one way, the angles laid out in the other.",
        "which columns get the angle of the first pair, and which two columns your code mixes",
        "position-rotary",
    ),
    "rotary-joined-halves": Misconception(
        "The pairs are turned rightly, but then all first columns are put before all second ones.",
        "where column 1 of the input ends up when the angle is 0",
        "position-rotary",
    ),
    "rotary-over-heads": Misconception(
        "The angle grows along the axis of the heads, and not along the text.",
        "which axis of the input holds the positions",
        "position-rotary",
    ),
    "rotary-added": Misconception(
        "The sinusoids are added to the input. Here pairs of columns should be turned.",
        "whether your function keeps the length of a vector",
        "position-rotary",
    ),
    "rotary-multiplied": Misconception(
        "Each column is multiplied by its sinusoid, and no column meets its neighbour.",
        "how many entries of the input one entry of the result depends on",
        "position-rotary",
    ),
    "rotary-cosine-only": Misconception(
        "Only the part with the cosine is there: the vectors become shorter.",
        "the second term of a rotation",
        "position-rotary",
    ),
    "half-angles": Misconception(
        "The angles are computed in half precision, in which large positions cannot be told apart.",
        "which whole numbers above 2048 exist in float16, and the dtype of your positions",
        "position-rotary",
    ),
    "pair-overwritten": Misconception(
        "The first column of each pair is overwritten before the second is computed from it.",
        "slices of a tensor: they share its memory",
        "position-rotary",
    ),
    "past-ignored": Misconception(
        "The first token or query is always placed at position 0, also when others come before it.",
        "what the task says about tokens before the first one that your function is given",
        "position-relative",
    ),
    # Relative positions.
    "distance-reversed": Misconception(
        "The distance has the opposite sign: it is counted from the key to the query.",
        "the row of the table for a key just after its query",
        "position-relative",
    ),
    "distance-unsigned": Misconception(
        "A key before the query and a key after it get the same row.",
        "how many rows of the table your function uses",
        "position-relative",
    ),
    "distance-from-row-zero": Misconception(
        "Row 0 is used for the distance 0, and the sign is lost.",
        "which row belongs to the distance 0, when the rows run from -m to m",
        "position-relative",
    ),
    "distance-not-clipped": Misconception(
        "Distances above the largest are not clipped, and leave the table.",
        "the rows that you ask for when a key is far away",
        "position-relative",
    ),
    "distance-wrapped": Misconception(
        "Distances above the largest start again at the other end of the table.",
        "what `%` does with a distance that is too large, and what clipping does",
        "position-relative",
    ),
    "distance-off-by-one": Misconception(
        "Distances are clipped one step too early: the outermost rows of the table are never used.",
        "the largest distance of a table with 5 rows",
        "position-relative",
    ),
    "table-rows-shifted": Misconception(
        "The distance itself is used as the row: negative ones count from the end of the table.",
        "which row belongs to the distance 0",
        "position-relative",
    ),
    "far-distances-zero": Misconception(
        "Keys that are too far away get nothing; they should share the outermost row.",
        "the bias of the farthest keys",
        "position-relative",
    ),
    "scaled-too-early": Misconception(
        "The bias is divided by √d_k already; the task wants it before that.",
        "at which place the bias is added to the scores",
        "position-relative",
    ),
    "bias-without-query": Misconception(
        "The bias does not depend on the query: the entries of the vector are simply added up.",
        "whether your bias changes when the query does",
        "position-relative",
    ),
    "vector-of-the-key": Misconception(
        "The vector that stands at the key's place was used, and not that of the query.",
        "the letters of your product, and which index the query has in it",
        "position-relative",
    ),
    # Linear and logarithmic biases.
    "slopes-off-by-one": Misconception(
        "The slopes start one step too early: the first head should not have the slope 1.",
        "the exponent of the first head",
        "position-bias",
    ),
    "slopes-of-eight-heads": Misconception(
        "The slopes are 1/2, 1/4, 1/8 … for any number of heads; that is right for eight heads only.",
        "the slope of the last head, for different numbers of heads",
        "position-bias",
    ),
    "slopes-exponent-whole": Misconception(
        "The exponents are rounded down to whole numbers.",
        "the exponents of the slopes for 16 heads",
        "position-bias",
    ),
    "slopes-one-formula": Misconception(
        "The formula for powers of two is used for other numbers of heads, too.",
        "the rule for numbers of heads that are no power of two",
        "position-bias",
    ),
    "slopes-of-next-power": Misconception(
        "The slopes are the first ones of the next higher power of two.",
        "from which power of two the first slopes should come",
        "position-bias",
    ),
    "slopes-extra-in-order": Misconception(
        "The extra heads get the first slopes of the next higher power of two, and not every other one.",
        "which slopes of the next higher power of two are new",
        "position-bias",
    ),
    "slopes-extra-even": Misconception(
        "The extra heads get slopes that other heads have already.",
        "which slopes of the next higher power of two are new",
        "position-bias",
    ),
    "slopes-sorted": Misconception(
        "The slopes are the right ones, but sorted: the extra heads come last.",
        "the order of the heads when their number is no power of two",
        "position-bias",
    ),
    "slopes-reversed": Misconception(
        "The slopes are the right ones, in the opposite order.",
        "which head has the steepest slope",
        "position-bias",
    ),
    "slopes-inverted": Misconception(
        "The slopes are the reciprocals of the right ones: they are above 1.",
        "the sign of the exponent",
        "position-bias",
    ),
    "bias-rewards-distance": Misconception(
        "The bias has the wrong sign: the farther a key, the larger its score.",
        "whether near or far keys should be preferred",
        "position-bias",
    ),
    "later-keys-rewarded": Misconception(
        "Keys after the query get a positive bias, the larger the farther they are.",
        "the entries above the diagonal",
        "position-bias",
    ),
    "earlier-keys-rewarded": Misconception(
        "Keys before the query get a positive bias, the larger the farther they are.",
        "the entries below the diagonal",
        "position-bias",
    ),
    "later-keys-without-bias": Misconception(
        "Keys after the query get no bias, however far they are.",
        "the entries above the diagonal",
        "position-bias",
    ),
    "bias-from-the-start": Misconception(
        "The bias depends on the position of the key alone. After a softmax with a causal mask that would be "
        "the same, but the task wants the distance.",
        "a query and a key at the same position",
        "position-bias",
    ),
    "bias-with-mask": Misconception(
        "Keys after the query are masked here already; that is not the task of the bias.",
        "what the task says about keys after the query",
        "position-bias",
    ),
    "heads-last": Misconception(
        "The heads are the last axis; they should be the first.",
        "the shape in the docstring",
        "position-bias",
    ),
    "scaled-with-decay": Misconception(
        "The decay is divided by √d_k together with the dot products.",
        "what the root of d_k divides in the formula",
        "position-bias",
    ),
    "decay-rewards-distance": Misconception(
        "The decay is added: the farther a key, the larger its score.",
        "the sign in the formula",
        "position-bias",
    ),
    "decay-multiplied": Misconception(
        "The scores are multiplied by something that falls with the distance. "
        "A negative score would then grow with the distance.",
        "whether the decay is a term or a factor in the formula",
        "position-bias",
    ),
    "decay-without-scores": Misconception(
        "Only the decay is returned: query and key have no effect.",
        "the first term of the formula",
        "position-bias",
    ),
    "softplus-overflow": Misconception(
        "For a large parameter the exponential function overflows, and the result is infinite or nan.",
        "the softplus of 200: nearly 200, but what is exp(200) in float32?",
        "position-bias",
    ),
    "rate-times-one-plus-distance": Misconception(
        "The 1 is added to the distance before the product with the rate.",
        "the decay at the distance 0, which should be 0",
        "position-bias",
    ),
    "decay-linear": Misconception(
        "The decay grows in proportion to the distance: the logarithm is missing.",
        "how much the decay changes from distance 100 to 101, in the formula and in your code",
        "position-bias",
    ),
    "log-of-zero": Misconception(
        "The 1 inside the logarithm is missing, so that the distance 0 gives -∞.",
        "the key at the place of the query itself",
        "position-bias",
    ),
    "rate-outside-the-log": Misconception(
        "The rate does not multiply the distance inside the logarithm.",
        "what stands inside the logarithm of the formula",
        "position-bias",
    ),
    "log-of-other-base": Misconception(
        "The logarithm has another base than e.",
        "the difference between `log`, `log2` and `log10`",
        "position-bias",
    ),
    "parameters-unbounded": Misconception(
        "The parameters are used as they are, and may be negative.",
        "the two places in the formula that keep a number positive",
        "position-bias",
    ),
    "exp-for-softplus": Misconception(
        "The parameters are made positive by exp, and not by the softplus function.",
        "the function that the task names",
        "position-bias",
    ),
    "relu-for-softplus": Misconception(
        "Negative parameters become 0, and then get no gradient.",
        "the function that the task names",
        "position-bias",
    ),
    "sigmoid-for-softplus": Misconception(
        "The parameters are squeezed between 0 and 1.",
        "the function that the task names",
        "position-bias",
    ),
    "parameters-swapped": Misconception(
        "Strength and rate have changed places.",
        "which of the two stands inside the logarithm",
        "position-bias",
    ),
    "distance-signed": Misconception(
        "The distance is negative on one side, where the logarithm has no value or the decay the wrong sign.",
        "what the formula puts around the difference of the two positions",
        "position-bias",
    ),
    "heads-on-the-key-axis": Misconception(
        "The numbers of the heads meet the keys, not the heads: with several heads the shapes do not fit.",
        "which axes of (batch, heads, queries, keys) a tensor of shape (heads,) is matched with",
        "position-bias",
    ),
}
