"""Lines of any length, one compilation: a small attention network tells prose from code in this repository's README.

Each line is a sequence of characters of its own length; nothing is padded. The network looks at all pairs of characters (attention), leaves
out blanks (a mask that depends on data), and takes the mean of the rest. The training step is one jitted function: its length axis becomes
symbolic when a second length comes, and what is compiled then serves all lengths.

Run: python examples/sequences.py
"""

import pathlib
import time

import numpy as np

import functx as fx

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
WIDTH, EPOCHS, RATE = 12, 3, 0.05


def labelled_lines(text):
    """Every line of more than three characters as character numbers, and whether it stands in a block of code."""
    characters, in_code, lines = sorted(set(text)), False, []
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif len(line.strip()) > 3:
            lines.append((np.array([characters.index(c) for c in line]), float(in_code)))
    return lines, len(characters), characters.index(" ")


def initial_parameters(rng, characters):
    """Small random weights: an embedding with an entry per character, query, key and value of the attention, and the way out."""
    shapes = {"embed": (characters, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH), "out": (WIDTH,)}
    return {name: rng.standard_normal(shape) * 0.3 for name, shape in shapes.items()} | {"bias": np.zeros(())}


def score(p, line, blank):
    """The log-odds that a line (n,) of characters is code."""
    x = p["embed"][line]
    weights = fx.nn.softmax(x @ p["query"] @ (x @ p["key"]).T / np.sqrt(WIDTH))
    seen = x + weights @ (x @ p["value"])
    pooled = seen[line != blank].mean(axis=0)
    return np.tanh(pooled) @ p["out"] + p["bias"]


def loss(p, line, label, blank):
    """Surprise (nats) at the label."""
    s = score(p, line, blank)
    return np.logaddexp(0.0, s) - label * s


@fx.jit
def train(p, line, label, blank):
    """One step of gradient descent, in place."""
    value, slopes = fx.value_and_grad(loss)(p, line, label, blank)
    for name, slope in slopes.items():
        p[name] -= RATE * slope
    return value


@fx.jit
def longest_word(line, blank):
    """The length of the longest word (n,): places of blanks are an array of a size that depends on data."""
    edges = np.concatenate([np.array([-1]), np.nonzero(line == blank)[0], np.reshape(line.size, 1)])
    return np.max(edges[1:] - edges[:-1]) - 1


def main(epochs=EPOCHS):
    """Train, and say what it took."""
    rng = np.random.default_rng(0)
    lines, characters, blank = labelled_lines(README)
    p = initial_parameters(rng, characters)
    start = time.perf_counter()
    for epoch in range(epochs):
        losses = [train(p, *lines[i], blank) for i in rng.permutation(len(lines))]
        print(f"epoch {epoch + 1}: mean loss {np.mean(losses):.3f}")
    right = np.mean([(score(p, line, blank) > 0) == label for line, label in lines])
    lengths = len({len(line) for line, _ in lines})
    info = train.cache_info()
    print(f"{right:.0%} of {len(lines)} lines told apart, in {time.perf_counter() - start:.1f} s")
    print(f"{lengths} different lengths, {info.hits + info.traces} calls, {info.traces} compilations")
    print(
        f"longest word: {max(longest_word(line, blank) for line, _ in lines)} characters, {longest_word.cache_info().traces} compilations"
    )
    return right, info.traces


if __name__ == "__main__":
    main()
