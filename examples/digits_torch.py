"""The digits again, in a training loop of PyTorch: the loss is a NumPy function, wrapped; the rest is torch.nn, torch.optim, autograd.

Run:  python examples/digits_torch.py
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import functx as fx

HIDDEN, CLASSES, BATCH, EPOCHS, RATE = 128, 10, 64, 30, 2e-3


def normalize(x, layer):
    """Layer normalization (Ba et al. 2016), written in place."""
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    x *= layer["weight"]
    x += layer["bias"]
    return x


def logits(params, x):
    hidden = fx.nn.relu(normalize(x @ params["first"]["weight"].T + params["first"]["bias"], params["norm"]))
    return hidden @ params["second"]["weight"].T + params["second"]["bias"]


@fx.interop.torch.wrap
def loss_and_hits(params, x, labels):
    """Mean cross-entropy, which PyTorch differentiates, and the number of right answers, which it does not."""
    scores = logits(params, x)
    target = fx.nn.one_hot(labels, CLASSES, np.float32)
    loss = -(fx.nn.log_softmax(scores) * target).sum(axis=-1).mean()
    return loss, (scores.argmax(axis=1) == labels).sum()


class Network(torch.nn.Module):
    """PyTorch's own modules hold and initialize the parameters."""

    def __init__(self, inputs):
        super().__init__()
        self.first = torch.nn.Linear(inputs, HIDDEN)
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.second = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, labels):
        return loss_and_hits({name: dict(layer.named_parameters()) for name, layer in self.named_children()}, x, labels)


def main():
    start = time.perf_counter()
    torch.manual_seed(0)
    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    parts = train_test_split(images, data.target, test_size=0.2, random_state=0, stratify=data.target)
    x, x_test, labels, labels_test = map(torch.from_numpy, parts)
    network = Network(x.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for epoch in range(EPOCHS):
        total = 0.0
        batches = torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH)
        for batch in batches:
            optimizer.zero_grad()
            loss, _ = network(x[batch], labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2}  loss {total / len(batches):.4f}")
    with torch.no_grad():
        _, hits = network(x_test, labels_test)
    score = hits.item() / len(x_test)
    print(f"test accuracy {score:.4f} after {time.perf_counter() - start:.1f} s, compilation included")
    if score < 0.96:
        raise SystemExit(f"accuracy {score:.4f} is below 0.96")


if __name__ == "__main__":
    main()
