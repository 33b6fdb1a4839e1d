"""How the cpp backend compiles: once per content, from several threads, with a time limit."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from graph_cases import F32, F64, Case, at_line, compiled, softmax

from functx import backend
from functx.errors import CompilerError
from functx.interpret import eval_graph
from functx.ir import Literal, Output, OutRole


def small(value, shape=(3,)):
    case = Case()
    x = case.random(shape, F64)
    case.output(case.b.add(x, case.b.full_like(x, value)))
    return case


def test_equal_graphs_compile_once():
    assert compiled(small(0.12345).graph()).compiled
    assert not compiled(small(0.12345).graph()).compiled
    assert compiled(small(0.54321).graph()).compiled
    assert compiled(small(0.12345).graph(), parallel_threshold=2).compiled


def test_concurrent_compilation():
    results = {}

    def work(k):
        case = small(1000.0 + k // 2)
        exe = compiled(case.graph())
        results[k] = exe.compiled, exe(case.args)[0] - case.args[0]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(fresh for fresh, _ in results.values()) == 4
    for k, (_, difference) in results.items():
        np.testing.assert_allclose(difference, 1000.0 + k // 2)


def test_calls_from_many_threads():
    case = Case()
    case.output(softmax(case.b, case.random((300, 200), F32)))
    exe = compiled(case.graph())
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


def parallel_case():
    case = Case()
    x = case.random((200, 2000), F32)
    case.output(case.b.tanh(x), case.b.dot_general(x, x, contract=((1,), (1,)), batch=((), ())))
    return case, compiled(case.graph())


# The second is a fork of which Python does not know, as C code makes it.
@pytest.mark.parametrize("fork", [os.fork, lambda: ctypes.PyDLL(None).fork()], ids=["python", "c"])
def test_a_forked_child_does_not_hang(fork):
    case, exe = parallel_case()
    want = exe(case.args)
    child = fork()
    if child == 0:
        ok = all(np.array_equal(a, b) for a, b in zip(exe(case.args), want, strict=True))
        os._exit(0 if ok else 1)
    deadline = threading.Timer(60, lambda: os.kill(child, 9))
    deadline.start()
    _, status = os.waitpid(child, 0)
    deadline.cancel()
    assert status == 0
    assert all(np.array_equal(a, b) for a, b in zip(exe(case.args), want, strict=True))


def test_forked_workers():
    case, exe = parallel_case()
    want = exe(case.args)[1]
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def work(nested):
        queue.put(exe(case.args)[1])
        if nested:  # a child of a child, and a thread of a child
            inner = context.Process(target=work, args=(False,))
            inner.start()
            inner.join(60)
            thread = threading.Thread(target=work, args=(False,))
            thread.start()
            thread.join(60)

    workers = [context.Process(target=work, args=(True,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(6):
            np.testing.assert_array_equal(queue.get(), want)
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
    finally:
        for worker in workers:
            worker.kill()


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
print(compiled(case.graph()).source)
"""
    here = str(Path(__file__).parent)
    sources = set()
    for seed in ("1", "1001", "31"):
        command, environment = [sys.executable, "-c", script, here, seed], {**os.environ, "PYTHONHASHSEED": seed}
        sources.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(sources) == 1


def test_a_missing_compiler():
    with pytest.raises(CompilerError, match="no C\\+\\+ compiler: no-such-compiler not found"):
        compiled(small(1.5).graph(), cxx="no-such-compiler")


def fake_compiler(tmp_path, script):
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_failing_compiler(tmp_path):
    compiler = fake_compiler(tmp_path, "echo 'x.cpp:1:1: error: bad luck' >&2; exit 3")
    with pytest.raises(CompilerError, match="status 3(.|\n)*bad luck") as caught:
        compiled(small(2.5).graph(), cxx=compiler)
    text = str(caught.value)
    source = text.split("source: ")[1].split("\n")[0]
    assert "int run(FunctxCall* call)" in Path(source).read_text() and f"command: {compiler}" in text and len(text.splitlines()) <= 15
    os.remove(source)
    case = small(2.5)
    case.check()  # the cache is intact


def test_a_compiler_that_hangs(tmp_path):
    compiler = fake_compiler(
        tmp_path, "case $1 in -print*|--version) exit 0;; esac\nsleep 60 & echo $! > " + str(tmp_path / "pid") + "; wait"
    )
    with pytest.raises(CompilerError, match="longer than 0.5 s"):
        compiled(small(3.5).graph(), cxx=compiler, compile_timeout=0.5)
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
    exe = compiled(small(4.5).graph(), dump=str(tmp_path / "dump"))
    (path,) = (tmp_path / "dump").iterdir()
    assert path.read_text() == exe.source


def test_sources_name_the_users_lines():
    case = Case()
    x = case.random((3,), F32)
    at_line(case, 12)
    case.output(case.b.exp(x))
    assert "exp (model.py:12)" in case.check(ulp=4).source


@pytest.mark.parametrize("name", ["cpp", "reference"])
def test_what_an_executable_says_of_its_results(name):
    case = Case()
    x, y = case.random((3, 4), F32), case.random((5,), F64)
    case.output(case.b.neg(y), case.b.exp(x))
    case.outputs.insert(1, Output(case.b.add(y, y), OutRole.WRITE, 1))
    exe = compiled(case.graph(), name)
    assert exe.writes == {1: 1}
    assert [(a.shape, a.dtype) for a in exe.out_avals] == [((5,), F64), ((5,), F64), ((3, 4), F32)]


def test_compilations_are_logged(capsys):
    compiled(small(6.5).graph())
    assert capsys.readouterr().err == ""
    compiled(small(7.5).graph(), debug=1)
    line = capsys.readouterr().err
    assert line.startswith("[functx] cpp: 2 equations -> 1 kernels, ") and len(line.splitlines()) == 1
    compiled(small(7.5).graph(), debug=1)
    assert capsys.readouterr().err == ""  # nothing was compiled
    compiled(small(8.5).graph(), debug=4)
    assert "int run(FunctxCall* call)" in capsys.readouterr().err


def test_threads_share_one_backend(monkeypatch):
    monkeypatch.setattr(backend, "_registry", backend._Registry())
    made, got = [], []

    class Slow:
        def __init__(self):
            threading.Event().wait(0.05)
            made.append(self)

    backend.register_backend("slow", Slow)
    threads = [threading.Thread(target=lambda: got.append(backend.get_backend("slow"))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1 and got == made * 4


def test_the_reference_backend():
    case = Case()
    x = case.random((3, 4), F32)
    case.output(x, case.b.transpose(x, perm=(1, 0)), Literal(2))
    exe = compiled(case.graph(), "reference")
    results = exe(case.args)
    for got, want in zip(results, eval_graph(case.graph(), case.args), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.flags.c_contiguous and got.flags.writeable and not np.shares_memory(got, case.args[0])
    assert not exe.compiled and exe.workspace_bytes == 0 and "transpose" in exe.source


def test_importing_backends_is_light():
    script = "import sys, functx.backends; print(*[m for m in ('sympy', 'networkx', 'functx.backends.cpp.backend') if m in sys.modules])"
    assert not subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
