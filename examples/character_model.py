"""A GRU learns to write like this repository's README: a character model trained through scan.

The recurrent network runs along the text by ``fx.scan``; one jitted function computes the loss, its gradient and Adam's update, which is
written into the parameters in place. Afterwards the network writes some text of its own in another scan, one random character after the
other.

Run: python examples/character_model.py
"""

import pathlib
import time

import numpy

import functx as fx
import functx.numpy as np

TEXT = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
CHARACTERS = sorted(set(TEXT))
TOKENS = numpy.array([CHARACTERS.index(c) for c in TEXT])
HIDDEN, LENGTH, BATCH, STEPS = 96, 48, 24, 300


def initial_parameters(rng):
    """Small random weights: the embedding, the three gates side by side, and the way out."""
    n = len(CHARACTERS)
    sizes = {"embed": (n, HIDDEN), "into": (HIDDEN, 3 * HIDDEN), "back": (HIDDEN, 3 * HIDDEN), "out": (HIDDEN, n)}
    weights = {name: rng.standard_normal(size) / size[0] ** 0.5 for name, size in sizes.items()}
    return weights | {"bias": numpy.zeros(3 * HIDDEN), "out_bias": numpy.zeros(n)}


def gru(p, h, token):
    """The next state (batch, HIDDEN) after a character of each text of the batch (Cho et al. 2014)."""
    given = p["embed"][token] @ p["into"] + p["bias"]
    own = h @ p["back"]
    gates = fx.nn.sigmoid(given[:, : 2 * HIDDEN] + own[:, : 2 * HIDDEN])
    reset, keep = gates[:, :HIDDEN], gates[:, HIDDEN:]
    new = np.tanh(given[:, 2 * HIDDEN :] + reset * own[:, 2 * HIDDEN :])
    return keep * h + (1 - keep) * new


def loss(p, texts):
    """Mean surprise (nats) at the next character of texts (LENGTH + 1, batch)."""

    def step(h, characters):
        now, following = characters
        h = gru(p, h, now)
        scores = fx.nn.log_softmax(h @ p["out"] + p["out_bias"])
        return h, -scores[np.arange(len(following)), following].mean()

    start = np.zeros((texts.shape[1], HIDDEN))
    return fx.scan(step, start, (texts[:-1], texts[1:]))[1].mean()


@fx.jit
def train(p, mean, square, number, texts):
    """One step of Adam, in place."""
    value, gradient = fx.value_and_grad(loss)(p, texts)
    for name, g in gradient.items():
        mean[name] += 0.1 * (g - mean[name])
        square[name] += 0.01 * (g * g - square[name])
        scale = np.sqrt(square[name] / (1 - 0.99**number)) + 1e-8
        p[name] -= 0.01 * (mean[name] / (1 - 0.9**number)) / scale
    return value


@fx.jit
def write(p, key, first):
    """120 characters that follow a first one (1,)."""

    def step(state, key):
        h, token = state
        h = gru(p, h, token)
        token = fx.random.categorical(key, 1.5 * (h @ p["out"] + p["out_bias"]))
        return (h, token), token[0]

    return fx.scan(step, (np.zeros((1, HIDDEN)), first), fx.random.split(key, 120))[1]


def gradient_error(p, texts):
    """The derivative along a random direction against a central difference, relative."""
    rng = numpy.random.default_rng(1)
    direction = {name: rng.standard_normal(v.shape) for name, v in p.items()}
    along = sum((g * direction[name]).sum() for name, g in fx.jit(fx.grad(loss))(p, texts).items())
    ends = [loss({name: v + h * direction[name] for name, v in p.items()}, texts) for h in (1e-5, -1e-5)]
    return abs(along / ((ends[0] - ends[1]) / 2e-5) - 1)


def main():
    """Train, report, and let it write."""
    rng = numpy.random.default_rng(0)
    p = initial_parameters(rng)
    mean, square = ({name: numpy.zeros_like(v) for name, v in p.items()} for _ in range(2))
    place = numpy.arange(LENGTH + 1)[:, None]
    error = gradient_error(p, TOKENS[place[:13] + numpy.arange(4) * 100])
    print(f"gradient against a difference: relative error {error:.1e}")
    start, losses = time.perf_counter(), []
    for number in range(1, STEPS + 1):
        losses.append(train(p, mean, square, numpy.float64(number), TOKENS[place + rng.integers(0, len(TOKENS) - LENGTH, BATCH)]))
        if number == 1 or number % 75 == 0:
            print(f"step {number}: {numpy.mean(losses[-25:]):.3f} nats per character ({time.perf_counter() - start:.1f} s)")
    written = write(p, fx.random.key(0), numpy.array([CHARACTERS.index("\n")]))
    print("it writes:", "".join(CHARACTERS[k] for k in written).strip())
    first, last = losses[0], float(numpy.mean(losses[-25:]))
    if error > 1e-5 or last > 0.55 * first:
        raise SystemExit(f"gradient error {error:.1e}; the loss went from {first:.2f} to {last:.2f}")
    return error, first, last


if __name__ == "__main__":
    main()
