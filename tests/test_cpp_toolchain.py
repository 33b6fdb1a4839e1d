"""How the cpp backend compiles: once per content, from several threads, with a time limit."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from graph_cases import F32, F64, Case, at_line, softmax

from functx import config
from functx.backend import get_backend
from functx.errors import CompilerError
from functx.interpret import eval_graph
from functx.ir import Literal


def small(value, shape=(3,)):
    case = Case()
    x = case.random(shape, F64)
    case.output(case.b.add(x, case.b.full_like(x, value)))
    return case


def test_equal_graphs_compile_once():
    backend = get_backend("cpp")
    assert backend.compile(small(0.12345).graph()).compiled
    assert not backend.compile(small(0.12345).graph()).compiled
    assert backend.compile(small(0.54321).graph()).compiled
    with config.options(parallel_threshold=2):
        assert backend.compile(small(0.12345).graph()).compiled


def test_concurrent_compilation():
    backend, results = get_backend("cpp"), {}

    def work(k):
        case = small(1000.0 + k // 2)
        exe = backend.compile(case.graph())
        results[k] = exe.compiled, exe(case.args)[0] - case.args[0]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(compiled for compiled, _ in results.values()) == 4
    for k, (_, difference) in results.items():
        np.testing.assert_allclose(difference, 1000.0 + k // 2)


def test_calls_from_many_threads():
    case = Case()
    case.output(softmax(case.b, case.random((300, 200), F32)))
    exe = get_backend("cpp").compile(case.graph())
    want, wrong = exe(case.args)[0], []

    def work():
        for _ in range(20):
            if not np.array_equal(exe(case.args)[0], want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_forked_child_does_not_hang():
    case = Case()
    x = case.random((200, 2000), F32)
    case.output(case.b.tanh(x), case.b.dot_general(x, x, contract=((1,), (1,)), batch=((), ())))
    exe = get_backend("cpp").compile(case.graph())
    want = exe(case.args)
    child = os.fork()
    if child == 0:
        ok = all(np.array_equal(a, b) for a, b in zip(exe(case.args), want, strict=True))
        os._exit(0 if ok else 1)
    deadline = threading.Timer(60, lambda: os.kill(child, 9))
    deadline.start()
    _, status = os.waitpid(child, 0)
    deadline.cancel()
    assert status == 0


def test_sources_are_deterministic():
    """Nothing in them depends on addresses or hash seeds."""
    script = """
import sys, hashlib
sys.path.insert(0, sys.argv[1])
junk = [object() for _ in range(int(sys.argv[2]))]
from graph_cases import *
case = Case()
b, x = case.b, case.random((64, 48), F64)
tall, wide = b.exp(x), b.transpose(b.tanh(x), perm=(1, 0))
square = b.dot_general(tall, wide, contract=((1,), (0,)), batch=((), ()))
parts = [b.scatter_add(b.sin(square), square, case.input(np.arange(64)), axes=(0,)), softmax(b, square), b.reduce_sum(square, axes=(0,))]
case.output(*parts, b.add(b.reduce_max(parts[0], axes=(0,)), b.reduce_sum(b.cos(parts[1]), axes=(1,))))
case.output(b.dot_general(parts[0], parts[1], contract=((1,), (1,)), batch=((), ())))
print(get_backend("cpp").compile(case.graph()).source)
"""
    here = str(Path(__file__).parent)
    sources = set()
    for seed in ("1", "1001", "31"):
        command, environment = [sys.executable, "-c", script, here, seed], {**os.environ, "PYTHONHASHSEED": seed}
        sources.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(sources) == 1


def test_a_missing_compiler():
    with config.options(cxx="no-such-compiler"), pytest.raises(CompilerError, match="no C\\+\\+ compiler: no-such-compiler not found"):
        get_backend("cpp").compile(small(1.5).graph())


def fake_compiler(tmp_path, script):
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_failing_compiler(tmp_path):
    compiler = fake_compiler(tmp_path, "echo 'x.cpp:1:1: error: bad luck' >&2; exit 3")
    with config.options(cxx=compiler), pytest.raises(CompilerError, match="status 3(.|\n)*bad luck") as caught:
        get_backend("cpp").compile(small(2.5).graph())
    text = str(caught.value)
    source = text.split("source: ")[1].split("\n")[0]
    assert "int run(FunctxCall* call)" in Path(source).read_text() and f"command: {compiler}" in text and len(text.splitlines()) <= 15
    os.remove(source)
    case = small(2.5)
    case.check()  # the cache is intact


def test_a_compiler_that_hangs(tmp_path):
    compiler = fake_compiler(tmp_path, "case $1 in -print*) exit 0;; esac\nsleep 60 & echo $! > " + str(tmp_path / "pid") + "; wait")
    with config.options(cxx=compiler, compile_timeout=0.5), pytest.raises(CompilerError, match="longer than 0.5 s"):
        get_backend("cpp").compile(small(3.5).graph())
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
            break
        threading.Event().wait(0.05)
    else:
        pytest.fail("the compiler's child is still running")


def test_sources_can_be_kept(tmp_path):
    with config.options(dump=str(tmp_path / "dump")):
        exe = get_backend("cpp").compile(small(4.5).graph())
    (path,) = (tmp_path / "dump").iterdir()
    assert path.read_text() == exe.source


def test_sources_name_the_users_lines():
    case = Case()
    x = case.random((3,), F32)
    at_line(case, 12)
    case.output(case.b.exp(x))
    assert "exp (model.py:12)" in case.check(ulp=4).source


def test_the_reference_backend():
    case = Case()
    x = case.random((3, 4), F32)
    case.output(x, case.b.transpose(x, perm=(1, 0)), Literal(2))
    exe = get_backend("reference").compile(case.graph())
    results = exe(case.args)
    for got, want in zip(results, eval_graph(case.graph(), case.args), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.flags.c_contiguous and got.flags.writeable and not np.shares_memory(got, case.args[0])
    assert not exe.compiled and exe.workspace_bytes == 0 and "transpose" in exe.source


def test_importing_backends_is_light():
    script = "import sys, functx.backends; print(*[m for m in ('sympy', 'networkx', 'functx.backends.cpp.backend') if m in sys.modules])"
    assert not subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
