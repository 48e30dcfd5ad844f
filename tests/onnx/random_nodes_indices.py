# SPDX-License-Identifier: Apache-2.0
"""Random nodes that move elements by index, and of reductions and sums along a dimension (random_node.py)."""
import numpy as np

from random_node import Node, draws, flip, floats, ints, maybe, pick, sizes, vector


@draws
def Pad(rng):
    x = sizes(rng, int(rng.integers(1, 5)), 3, 7)
    mode = pick(rng, "constant", "reflect", "edge", "wrap")
    axes = sorted(rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)) if flip(rng) else None
    count = len(x) if axes is None else len(axes)
    pads = ints(rng, -1, 3, 2 * count)
    value = np.float32(2.5) if mode == "constant" and flip(rng) else None
    inputs = [floats(rng, *x), pads] + ([value, vector(*axes)] if axes is not None else [value] if value is not None else [])
    return Node("Pad", inputs, {"mode": mode}, 19, weights=frozenset({1, 2, 3}))


@draws
def Slice(rng):
    x = sizes(rng, int(rng.integers(1, 5)), 1, 8)
    axes = rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)
    starts, ends, steps = ints(rng, -9, 10, len(axes)), ints(rng, -9, 10, len(axes)), ints(rng, 1, 3, len(axes)) * pick(rng, 1, -1)
    ends = np.where(rng.random(len(axes)) < 0.3, np.iinfo(np.int64).max * np.sign(steps), ends)
    return Node("Slice", [floats(rng, *x), starts, ends, vector(*(axes - len(x) * ints(rng, 0, 2, len(axes)))), steps], {}, 13,
                weights=frozenset({1, 2, 3, 4}))


@draws
def Gather(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    axis = int(rng.integers(-len(x), len(x)))
    return Node("Gather", [floats(rng, *x), ints(rng, -x[axis], x[axis], *sizes(rng, int(rng.integers(0, 3)), 1, 4), kind=pick(rng, np.int32, np.int64))],
                {"axis": axis}, 13)


@draws
def GatherElements(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2)
    axis = int(rng.integers(-len(x), len(x)))
    i = [s if k == axis % len(x) else int(rng.integers(1, s + 1)) for k, s in enumerate(x)]
    return Node("GatherElements", [floats(rng, *x), ints(rng, -x[axis], x[axis], *i)], {"axis": axis}, 13)


@draws
def GatherND(rng):
    x = sizes(rng, int(rng.integers(2, 5)), 2, 5)
    batch = int(rng.integers(0, len(x) - 1))
    last = int(rng.integers(1, len(x) - batch + 1))
    outer = x[:batch] + sizes(rng, int(rng.integers(1, 3)), 1, 4)
    i = np.stack([ints(rng, -s, s, *outer) for s in x[batch:batch + last]], -1)
    return Node("GatherND", [floats(rng, *x), i], {"batch_dims": batch}, 13)


@draws
def ScatterElements(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2)
    axis = int(rng.integers(-len(x), len(x)))
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    i = [int(rng.integers(1, s + 1)) for s in x]
    at = ints(rng, -x[axis], x[axis], *i)
    if reduction == "none":  # which of several wins is left open
        at = np.moveaxis(np.argsort(rng.random([x[axis] if k == axis % len(x) else s for k, s in enumerate(i)]), axis=axis), axis, 0)
        at = np.moveaxis(at[:i[axis]], 0, axis)
    return Node("ScatterElements", [floats(rng, *x), at, floats(rng, *i)], {"axis": axis, "reduction": reduction}, 18)


@draws
def ScatterND(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2, 5)
    last = int(rng.integers(1, len(x) + 1))
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    count = int(rng.integers(1, 4))
    if reduction == "none":
        flat = rng.permutation(int(np.prod(x[:last])))[:count]
    else:
        flat = rng.integers(0, int(np.prod(x[:last])), count)
    i = np.stack(np.unravel_index(flat, x[:last]), -1).astype(np.int64)
    return Node("ScatterND", [floats(rng, *x), i, floats(rng, len(flat), *x[last:])], {"reduction": reduction}, 18)


@draws
def TopK(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2, 8)
    axis = int(rng.integers(-len(x), len(x)))
    data = floats(rng, *x) if flip(rng) else ints(rng, -5, 5, *x)  # equal ones: the lower index first
    return Node("TopK", [data, vector(int(rng.integers(1, x[axis] + 1)))], {"axis": axis, "largest": int(rng.integers(2)), "sorted": 1}, 11,
                results=2, weights=frozenset({1}))


@draws
def ArgMax(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    data = floats(rng, *x) if flip(rng) else ints(rng, 0, 3, *x, kind=np.int32)
    return Node(pick(rng, "ArgMax", "ArgMin"), [data], maybe(rng, axis=int(rng.integers(-len(x), len(x))), keepdims=0, select_last_index=1), 13)


@draws
def Reduce(rng):
    op = pick(rng, "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    x = sizes(rng, int(rng.integers(1, 5)))
    data = np.abs(floats(rng, *x)) + 0.1 if op == "LogSum" else floats(rng, *x)
    if op in ("Max", "Min", "Sum", "Mean", "Prod") and flip(rng):
        data = (data * 4).astype(pick(rng, np.int32, np.int64))
    axes = [np.sort(rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)) - len(x) * int(rng.integers(2))]
    return Node("Reduce" + op, [data] + pick(rng, axes, []), maybe(rng, keepdims=0, noop_with_empty_axes=1), 18, weights=frozenset({1}))


@draws
def CumSum(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    return Node("CumSum", [floats(rng, *x), np.array(rng.integers(-len(x), len(x)))], maybe(rng, exclusive=1, reverse=1), 14, weights=frozenset({1}))


@draws
def TfIdfVectorizer(rng):
    longest = int(rng.integers(1, 4))
    grams = [sorted({tuple(int(w) for w in rng.integers(0, 4, n)) for _ in range(int(rng.integers(1, 6)))}) for n in range(1, longest + 1)]
    starts = np.cumsum([0] + [n * len(g) for n, g in enumerate(grams, 1)])[:-1]
    count = sum(map(len, grams))
    a = {"min_gram_length": int(rng.integers(1, longest + 1)), "max_gram_length": longest, "max_skip_count": int(rng.integers(0, 3)),
         "mode": pick(rng, "TF", "IDF", "TFIDF"), "ngram_counts": [int(s) for s in starts], "ngram_indexes": [int(i) for i in rng.permutation(count)],
         "pool_int64s": [w for g in grams for words in g for w in words], **maybe(rng, weights=[float(w) for w in rng.random(count)])}
    words = ints(rng, 0, 4, *([3] if flip(rng) else []), int(rng.integers(1, 12)), kind=pick(rng, np.int32, np.int64))
    return Node("TfIdfVectorizer", [words], a, 9)
