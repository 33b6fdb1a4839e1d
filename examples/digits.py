"""Train a two-layer network on scikit-learn's handwritten digits, the whole training step in one jit, parameters updated in place.

Run:  python examples/digits.py [--plot digits.png]
"""

import argparse
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import functx as fx

HIDDEN, CLASSES, BATCH, EPOCHS = 128, 10, 64, 40
RATE, MOMENTUM, DECAY = 0.1, 0.9, 1e-4


def init(rng, inputs):
    """Weights of variance 2 / fan-in (He et al. 2015), zero biases; float32."""
    sizes = [(inputs, HIDDEN), (HIDDEN, CLASSES)]
    return [{"w": (rng.normal(size=s) * np.sqrt(2 / s[0])).astype(np.float32), "b": np.zeros(s[1], np.float32)} for s in sizes]


def logits(params, x):
    first, second = params
    hidden = fx.nn.relu(x @ first["w"] + first["b"])
    return hidden @ second["w"] + second["b"]


def loss(params, x, labels):
    """Mean cross-entropy plus weight decay, for a batch or for one example."""
    target = fx.nn.one_hot(labels, CLASSES, np.float32)
    cross_entropy = -(fx.nn.log_softmax(logits(params, x)) * target).sum(axis=-1).mean()
    return cross_entropy + DECAY * sum((layer["w"] ** 2).sum() for layer in params)


@fx.jit
def train_step(params, velocity, x, labels):
    """One step of stochastic gradient descent with momentum; ``params`` and ``velocity`` change in place, as in NumPy."""
    value, gradient = fx.value_and_grad(loss)(params, x, labels)
    for layer, speed, slope in zip(params, velocity, gradient, strict=True):
        for name in layer:
            speed[name] *= MOMENTUM
            speed[name] -= RATE * slope[name]
            layer[name] += speed[name]
    return value


@fx.jit
def accuracy(params, x, labels):
    return (logits(params, x).argmax(axis=1) == labels).mean()


@fx.jit
def gradient_norms(params, x, labels):
    """The norm of every example's own gradient: grad of one example's loss, mapped over the batch."""
    per_sample = fx.vmap(fx.grad(loss), in_axes=(None, 0, 0))(params, x, labels)
    return np.sqrt(sum((g**2).sum(axis=tuple(range(1, g.ndim))) for layer in per_sample for g in layer.values()))


def train(params, x, labels, rng):
    velocity = fx.tree.map(np.zeros_like, params)
    losses = []
    columns = (
        TextColumn("epoch {task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=EPOCHS, loss=float("nan"))
        for _ in range(EPOCHS):
            order = rng.permutation(len(x))
            batches = [order[i : i + BATCH] for i in range(0, len(x) - BATCH + 1, BATCH)]
            losses += [float(train_step(params, velocity, x[i], labels[i])) for i in batches]
            progress.update(task, advance=1, loss=np.mean(losses[-len(batches) :]))
    return losses


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--plot", default="digits.png", help="where the loss curve is saved")
    options = arguments.parse_args()
    start = time.perf_counter()
    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    x, x_test, labels, labels_test = train_test_split(images, data.target, test_size=0.2, random_state=0, stratify=data.target)
    rng = np.random.default_rng(0)
    params = init(rng, x.shape[1])
    losses = train(params, x, labels, rng)
    score = float(accuracy(params, x_test, labels_test))
    norms = gradient_norms(params, x_test, labels_test)
    hardest = np.argsort(norms)[-5:][::-1]
    print(f"test accuracy {score:.4f} after {time.perf_counter() - start:.1f} s, compilation included; {train_step.cache_info()}")
    print(f"per-sample gradient norms: median {np.median(norms):.4f}, largest {norms.max():.4f} (test images {hardest.tolist()})")
    plt.semilogy(losses, linewidth=0.7)
    plt.xlabel("step")
    plt.ylabel("loss")
    plt.savefig(options.plot, dpi=120)
    print(f"loss curve saved to {options.plot}")
    if score < 0.97:
        raise SystemExit(f"accuracy {score:.4f} is below 0.97")


if __name__ == "__main__":
    main()
