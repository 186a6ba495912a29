"""Misconceptions of the set `multihead`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS: dict[str, Misconception] = {
    # Splitting.
    "split-by-view": Misconception(
        "The heads are cut out of the numbers as they lie in memory: each head gets whole vectors of some "
        "positions, and not a part of the vector of every position.",
        "which numbers of one position end up in which head, for an input made with torch.arange",
        "multihead-split",
    ),
    "split-interleaved": Misconception(
        "The features are dealt to the heads in turn, as cards are; a head should get a block of features "
        "that lie side by side.",
        "which axis of the split width is the head: the first or the second",
        "multihead-split",
    ),
    "heads-after-length": Misconception(
        "The vectors are split, but the axis of the heads stands after that of the positions.",
        "the order of the axes in the docstring, and over which axes attention works",
        "multihead-split",
    ),
    "heads-before-batch": Misconception(
        "The axis of the heads stands before the batch axes.",
        "the order of the axes in the docstring",
        "multihead-split",
    ),
    "heads-and-batch-joined": Misconception(
        "Heads and batch share one axis; here the heads have an axis of their own.",
        "the number of axes in the docstring",
        "multihead-split",
    ),
    "head-size-for-number": Misconception(
        "The number of heads was used as the width of a head.",
        "what the number in your call means: how many parts, or how wide each part is",
        "multihead-split",
    ),
    "head-transposed": Misconception(
        "The last two axes are swapped: here the features stand before the positions.",
        "the order of the axes in the docstring",
        "multihead-split",
    ),
    "one-batch-axis-only": Misconception(
        "The axes are counted from the front, which is right for exactly one batch axis.",
        "which axis number 1 is when there are two batch axes, or none, and how to count from the end",
        "multihead-split",
    ),
    # Merging.
    "merge-by-view": Misconception(
        "The heads are joined as their numbers lie in memory: a vector of the result has numbers of several "
        "positions.",
        "which positions the numbers of one result vector come from, for an input made with torch.arange",
        "multihead-merge",
    ),
    "split-and-merge-by-view": Misconception(
        "Heads are both split and joined as the numbers lie in memory. The second undoes the first, so the "
        "result looks orderly, but each head saw whole vectors of some positions only.",
        "how far one head can look: change one token, and see which positions of the result change",
        "multihead-split",
    ),
    "merge-interleaved": Misconception(
        "The features of the heads are interleaved: first the first feature of every head, then the second.",
        "which of the two joined axes is the outer one, heads or features",
        "multihead-merge",
    ),
    "heads-added": Misconception(
        "The heads are added up; they should stand side by side.",
        "the width of the result in the docstring",
        "multihead-merge",
    ),
    "heads-averaged": Misconception(
        "The heads are averaged; they should stand side by side.",
        "the width of the result in the docstring",
        "multihead-merge",
    ),
    "heads-joined-in-length": Misconception(
        "The heads are joined one after the other along the positions; they should be joined along the "
        "features.",
        "which axis grows in the docstring",
        "multihead-merge",
    ),
    "heads-not-joined": Misconception(
        "Heads and features are side by side, but they are two axes still.",
        "the number of axes in the docstring",
        "multihead-merge",
    ),
    "joined-transposed": Misconception(
        "The heads are joined, but the last two axes are swapped.",
        "the order of the axes in the docstring",
        "multihead-merge",
    ),
    # Attention with several heads.
    "softmax-over-heads": Misconception(
        "The softmax runs over the heads, so that the heads compete for a pair of query and key.",
        "which axis should sum to 1",
        "multihead-attention",
    ),
    "scale-by-all-heads": Misconception(
        "The divisor is the root of the width of all heads together, not of the width of one head.",
        "over how many numbers the dot product of one head runs",
        "multihead-attention",
    ),
    "projection-transposed": Misconception(
        "The inputs are multiplied with the transposed weights. Here weights have the shape (input, output); "
        "nn.Linear and F.linear expect (output, input).",
        "the formula of the projection, and which axis of the weight is summed over",
        "multihead-attention",
    ),
    "output-projection-transposed": Misconception(
        "The last projection uses the transpose of the output weight.",
        "the shape of the output weight in the docstring, and which of its axes is summed over",
        "multihead-attention",
    ),
    "qkv-weights-swapped": Misconception(
        "Two of the three input weights are swapped.",
        "which weight stands beside query, key and value",
        "multihead-attention",
    ),
    "no-output-projection": Misconception(
        "The heads are joined, but the output weight is not used.",
        "the last factor of the formula",
        "multihead-attention",
    ),
    "weights-averaged": Misconception(
        "The weights are averaged over the heads; here each head keeps its own map.",
        "the axes of the weights in the docstring",
        "multihead-attention",
    ),
    "batch-and-heads-mixed": Misconception(
        "Heads and batch were put into one axis in one order, and taken apart in the other: heads of "
        "different sentences are joined.",
        "whether head or batch comes first when you join them, and when you part them",
        "multihead-merge",
    ),
    "one-wide-head": Misconception(
        "This is attention with one head of the full width.",
        "where the number of heads enters",
        "multihead-attention",
    ),
    "values-from-keys": Misconception(
        "The values are projected from the keys given, and the values given are not read.",
        "which input each of the three projections reads",
        "multihead-attention",
    ),
    "mask-batch-as-heads": Misconception(
        "A mask for each sentence lies along the axis of the heads: it masks heads, not sentences.",
        "the shapes of scores and mask, aligned from the right, axis by axis",
        "multihead-mask",
    ),
    # Cross-attention.
    "queries-from-memory": Misconception(
        "The roles are swapped: the source asks and the target answers.",
        "how many contexts the decoder needs: one for each target token, or one for each source token",
        "multihead-cross",
    ),
    "keys-from-target": Misconception(
        "The keys come from the target; only the values come from the source.",
        "what a query of the target should be compared with",
        "multihead-cross",
    ),
    "values-from-target": Misconception(
        "The values come from the target; only the keys come from the source.",
        "what the context should be a mixture of",
        "multihead-cross",
    ),
    "self-attention-for-cross": Misconception(
        "The target attends to itself: the memory is not read.",
        "whether your result changes when the memory changes",
        "multihead-cross",
    ),
    "memory-to-memory": Misconception(
        "The source attends to itself: the states of the target are not read.",
        "whether your result changes when the states change",
        "multihead-cross",
    ),
    "padding-on-queries": Misconception(
        "The padding mask lies on the axis of the queries: whole rows are masked in place of columns.",
        "whose tokens are padding, those that ask or those that are attended to",
        "multihead-cross",
    ),
    "padding-zeroed": Misconception(
        "The padding vectors were set to 0, but a key of 0 has the score 0, and exp(0) is 1: it still "
        "receives weight.",
        "the weights at the padding",
        "multihead-cross",
    ),
    "first-sentence-mask": Misconception(
        "The padding of the first sentence is used for all sentences.",
        "the weights of the second sentence",
        "multihead-cross",
    ),
    "causal-cross-attention": Misconception(
        "A causal mask is applied, too: target token i reads only the first i source tokens.",
        "whether the source is known as a whole when the first target token is written",
        "multihead-cross",
    ),
    # Masking heads.
    "head-mask-ignored": Misconception(
        "All heads are kept.",
        "the result when all heads are masked",
        "multihead-heads",
    ),
    "head-mask-inverted": Misconception(
        "The mask is read the wrong way round: here True means that the head is kept.",
        "which heads the result depends on",
        "multihead-heads",
    ),
    "head-mask-rescaled": Misconception(
        "The heads that are left were made larger to make up for the masked ones, as dropout does.",
        "what a kept head adds when all are kept, and when another one is masked",
        "multihead-heads",
    ),
    "head-mask-interleaved": Misconception(
        "The mask runs over the features in turn: it masks some features of every head, not some heads.",
        "the difference between repeat and repeat_interleave",
        "multihead-heads",
    ),
    "head-mask-on-output": Misconception(
        "The mask is applied to the output. There the heads are mixed already, and no entry belongs to one "
        "head.",
        "where in the formula a head still stands alone",
        "multihead-heads",
    ),
    "kept-heads-moved": Misconception(
        "The masked heads were taken out and the others moved up, so that they meet the rows of the output "
        "weight that belong to other heads.",
        "which rows of the output weight belong to the last head",
        "multihead-heads",
    ),
    # PyTorch's weights.
    "torch-layout-kept": Misconception(
        "The weights have PyTorch's layout, (output, input); here the input comes first.",
        "what nn.Linear computes with its weight, and what x @ W computes",
        "multihead-torch",
    ),
    "output-layout-kept": Misconception(
        "The output weight has PyTorch's layout, (output, input); the others are right.",
        "what nn.Linear computes with its weight; out_proj is one",
        "multihead-torch",
    ),
    "input-layout-kept": Misconception(
        "The three input weights have PyTorch's layout, (output, input); the output weight is right.",
        "the shape of in_proj_weight, and which of its axes belongs to the input",
        "multihead-torch",
    ),
    "packed-order-mixed-up": Misconception(
        "The three input weights are taken from the packed one in the wrong order.",
        "the order of the arguments of PyTorch's layer",
        "multihead-torch",
    ),
    "packed-rows-interleaved": Misconception(
        "The rows of the packed weight are dealt out in turn: every third row to the queries. PyTorch packs "
        "three blocks.",
        "how PyTorch's layer was packed: three blocks, or threes of rows",
        "multihead-torch",
    ),
    "packed-head-by-head": Misconception(
        "The packed weight is read as query, key and value of the first head, then of the second. Some "
        "models pack like that; PyTorch's layer does not.",
        "whether the outermost cut of the packed weight is by head, or by query, key and value",
        "multihead-torch",
    ),
    "packed-along-columns": Misconception(
        "The packed weight was cut along its columns, which belong to the input.",
        "the shape of in_proj_weight, and which of its axes is three times as long",
        "multihead-torch",
    ),
    "biases-lost": Misconception(
        "The weights are right, but all biases are 0.",
        "in_proj_bias and out_proj.bias",
        "multihead-torch",
    ),
    "output-bias-lost": Misconception(
        "The bias of the output is 0; the others are right.",
        "the parameters of out_proj",
        "multihead-torch",
    ),
    "packed-weight-taken-for-granted": Misconception(
        "It works for a packed weight only. A layer made with kdim or vdim has three weights of their own.",
        "what in_proj_weight is in such a layer, and the names in layer.named_parameters()",
        "multihead-torch",
    ),
    # Talking heads.
    "heads-silent-after": Misconception(
        "The scores are mixed, but the weights are not.",
        "the second mixing in the formula",
        "multihead-talking",
    ),
    "heads-silent-before": Misconception(
        "The weights are mixed, but the scores are not.",
        "the first mixing in the formula",
        "multihead-talking",
    ),
    "mixing-transposed": Misconception(
        "The mixing matrices are used the other way round: their rows and columns are swapped.",
        "which index of the matrix is summed over in the formula",
        "multihead-talking",
    ),
    "mixed-twice-before": Misconception(
        "Both mixings come before the softmax.",
        "what stands between the two mixings in the formula",
        "multihead-talking",
    ),
    "mask-before-mixing": Misconception(
        "The scores are masked before they are mixed: -inf times a negative number is inf, and inf - inf is "
        "nan.",
        "at which step a forbidden score should become -inf",
        "multihead-talking",
    ),
    "mixture-renormalised": Misconception(
        "The mixed weights were divided by their sum once more.",
        "what the formula does after the second mixing",
        "multihead-talking",
    ),
    "mixture-softmaxed": Misconception(
        "There is a second softmax, after the second mixing.",
        "what the formula does after the second mixing",
        "multihead-talking",
    ),
}
