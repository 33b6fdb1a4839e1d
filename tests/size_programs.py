"""Random programs that run at any sizes: lines over arrays of shapes (n,), (m,), (n, 3), (3,), (n, m) and (), with branches on sizes."""

from random import Random

# A type is the shape in words; a line takes operands of some types and defines a variable of another, or changes its first operand.
LINES = [
    *(("n", t, f"np.{u}({{a}})") for t in ("n",) for u in ("sin", "tanh", "square", "negative", "cumsum", "sort")),
    ("n", "nn", "{a} * {b}"), ("n", "nn", "{a} - {b}"), ("n", "n", "{a}[::-1]"), ("n", "n", "np.roll({a}, 1)"),
    ("n", "nn", "np.concatenate([{a}, {b}])[{a}.shape[0]:]"), ("n", "n", "np.pad({a}, (1, 0))[1:]"),
    ("n", "nn", "np.where({a} > 0.7, {a}, {b})"), ("n", "n", "{a} / max({a}.shape[0], 1)"), ("n", "n", "{a} * {a}.shape[0] + 1.0"),
    ("n", "n", "np.repeat({a}[::2], 2)[:{a}.shape[0]]"), ("n", "t", "{a}.sum(1)"), ("n", "t", "{a}[:, 1]"), ("n", "g", "{a}.sum(1)"),
    ("n", "t3", "{a} @ {b}"), ("n", "gm", "{a} @ {b}"), ("n", "nm", "{a} + {b}.sum()"), ("n", "n", "{a} * (0.5 * {a}.shape[0])"),
    ("m", "m", "np.cos({a})"), ("m", "mm", "{a} + {b}"), ("m", "ng", "{a} @ {b}"), ("m", "m", "{a}[::-1]"), ("m", "g", "{a}.T.sum(1)"),
    ("t", "t3", "{a} * {b}"), ("t", "tn", "{a} + {b}[:, None]"), ("t", "t", "{a}.reshape(-1).reshape(-1, 3)"),
    ("t", "t", "{a}[::-1, ::-1]"),
    ("t", "n", "np.stack([{a}, {a}, {a}], 1)"), ("t", "tt", "np.concatenate([{a}, {b}])[::2]"),
    ("t", "t", "{a} - {a}.mean(1, keepdims=True)"),
    ("t", "t", "{a}.T.copy().T"), ("3", "t", "{a}.sum(0)"), ("3", "33", "{a} * {b}"), ("3", "tt", "({a}.T @ {b}).sum(0)"),
    ("g", "nm", "np.outer({a}, {b})"), ("g", "gm", "{a} * {b}"), ("g", "gn", "{a} - {b}[:, None]"), ("g", "g", "{a}[:, ::-1]"),
    ("g", "g", "{a}.T.reshape({a}.shape[1], -1).T"), ("s", "n", "{a}.sum()"), ("s", "g", "np.sum({a} * {a})"), ("s", "t", "{a}.size * 1.0"),
    ("n", "ns", "{a} * {b}"), ("s", "n", "{a}[{a} > 0.7].sum()"), ("s", "n", "np.sort({a}[{a} > 0.7]).sum()"),
    ("s", "n", "np.square(np.unique({a})).sum()"), ("s", "n", "np.diff({a}[{a} > 0.7]).sum()"), ("s", "n", "{a}[{a} > 0.7][:2].sum()"),
    ("s", "nn", "np.concatenate([{a}[{a} > 0.7][1:], {b}])[:{a}.shape[0]].sum()"),
    ("s", "n", "({a}[{a} > 0.7] * {a}[{a} > 0.7][::-1]).sum()"),
    ("n", "nn", "np.where({a} > {a}[{a} > 0.7].shape[0], {a}, {b})"), ("s", "n", "{a}[{a}[{a} > 0.7].shape[0]:].sum()"),
    ("", "nn", "{a}[1:] += {b}[:-1]"), ("", "n", "{a}[::2] *= 2"), ("", "tn", "{a}[:, 0] = {b}"), ("", "nn", "{a}[...] = {b} * 0.5"),
    ("", "t", "{a} += 1"), ("", "g", "{a}[:, 1:] -= 0.25"), ("", "n", "{a}[{a} > 1.0] = 0.5"),
    ("", "n", "{a}[{a} > 0.7] = np.sort({a}[{a} > 0.7])"), ("", "n", "{a}[:{a}[{a} > 0.7].shape[0]] *= 0.5"), ("", "gm", "{a}[::2] += {b}"),
]  # fmt: skip

BRANCHES = [
    "{n}.shape[0] > 4", "{n}.shape[0] % 2 == 0", "{n}.shape[0] == {m}.shape[0]", "{n}.size < 3 or {m}.size >= 7", "{m}.shape[0]",
    "min({n}.shape[0], {m}.shape[0]) > 2", "2 * {n}.shape[0] > {m}.shape[0] + 5",
]  # fmt: skip


def draw(random: Random) -> str:
    """The source of a function of x (n,), y (n, 3) and z (m,) that returns some of its variables, and the ways it took through branches."""
    known = {"n": ["x"], "t": ["y"], "m": ["z"], "3": [], "g": [], "s": []}
    body = ["    ways = []"]

    def line(indent: str, fresh: bool) -> None:
        result, operands, text = random.choice([item for item in LINES if all(known[t] for t in item[1]) and (fresh or not item[0])])
        names = [random.choice(known[t]) for t in operands]
        filled = text.format(**dict(zip("ab", names, strict=False)))
        if result:
            name = f"v{len(body)}"
            known[result].append(name)
            filled = f"{name} = {filled}"
        body.append(indent + filled)

    for _ in range(random.randint(3, 7)):
        line("    ", True)
        if random.random() < 0.25:
            test = random.choice(BRANCHES).format(n=random.choice(known["n"]), m=random.choice(known["m"]))
            body.append(f"    if {test}:")
            line("        ", False)
            body.append("        ways.append(True)")
            body.append("    else:")
            body.append("        ways.append(False)")
    results = [random.choice(names) for names in known.values() if names]
    return "\n".join(["def f(x, y, z):", *body, f"    return {', '.join(results)}, ways"])
