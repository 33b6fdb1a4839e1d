"""Threads, forks, spawned and interrupted processes: one cache, right results, no hang."""

import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import oracles
import pytest

import functx as fx

TIMEOUT = 120


def run(script, *, check=True, **kwargs):
    """A Python process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, **kwargs)
    assert not check or done.returncode == 0, done.stderr
    return done


def test_threads_share_one_function_over_many_shapes():
    f = fx.jit(lambda x, t: x * x + t, backend="cpp", dynamic=False)
    slope = fx.grad(lambda x, t: f(x, t).sum())
    failures = []

    def work(k):
        t = 0.5 * k
        for n in [*range(20), *reversed(range(20))]:
            x = np.linspace(-1, 1, n) + k
            got = slope(x, t) if k % 2 else f(x, t)
            if not np.allclose(got, 2 * x if k % 2 else x * x + t):
                failures.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a deadlock"
    info = f.cache_info()
    assert not failures and info.entries == 20 and info.compilations <= 20


big = fx.jit(np.sin, backend="cpp")


def apply_big(x):
    """What the workers of the next test run."""
    return big(x)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes(method):
    """After OpenMP has started in the parent."""
    arrays = [np.linspace(0, k, 200_000) for k in range(1, 5)]
    expected = [np.sin(x) for x in arrays]
    oracles.assert_same(big(arrays[0]), expected[0], rtol=1e-14, atol=1e-15)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for got, e in zip(pool.map_async(apply_big, arrays).get(TIMEOUT), expected, strict=True):
            oracles.assert_same(got, e, rtol=1e-14, atol=1e-15)


def test_an_unpickled_function_finds_its_code_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTX_CACHE_DIR", str(tmp_path / "cache"))
    script = """
        import pickle, sys
        import numpy as np
        import functx as fx
        g = fx.jit(np.cos, backend="cpp")
        if len(sys.argv) > 1:
            g = pickle.loads(bytes.fromhex(sys.argv[1]))
        assert np.allclose(g(np.arange(3.0)), np.cos(np.arange(3.0)))
        print(g.cache_info().compilations)
    """
    assert run(script).stdout == "1\n"
    command = [sys.executable, "-c", textwrap.dedent(script), pickle.dumps(fx.jit(np.cos, backend="cpp")).hex()]
    again = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert again.stdout == "0\n"


def test_the_interpreter_ends_without_a_crash():
    """With threads of OpenMP, results of the pool, and functions alive in cycles and module globals."""
    done = run("""
        import atexit
        import numpy as np
        import functx as fx
        f = fx.jit(lambda x: np.exp(x) + x.sum(), backend="cpp")
        kept = [f(np.zeros(200_000)) for _ in range(3)]
        f.itself = f
        atexit.register(lambda: print(f(np.zeros(3))[0]))
    """)
    assert done.stdout == "1.0\n" and not done.stderr


def test_an_interrupted_compilation_leaves_a_usable_state(tmp_path):
    """Ctrl-C while the compiler runs: KeyboardInterrupt, no compiler left behind, and the next call compiles."""
    compiler = tmp_path / "c++"
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*|*-print-file-name*) exec c++ "$@";; esac\n'
        f"if [ ! -e {tmp_path}/second ]; then touch {tmp_path}/second; echo $$ > {tmp_path}/pid; sleep 300; fi\n"
        'exec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    done = run(f"""
        import os, signal, threading, time
        import numpy as np
        import functx as fx
        pid = {str(tmp_path / "pid")!r}

        def interrupt():
            while not os.path.exists(pid) or not open(pid).read().strip():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        f = fx.jit(lambda x: x * 3 + 1, backend="cpp")
        with fx.config.options(cxx={str(compiler)!r}, disk_cache=False):
            threading.Thread(target=interrupt, daemon=True).start()
            try:
                f(np.ones(2))
            except KeyboardInterrupt:
                print("interrupted")
            print(f(np.ones(2)))
        try:
            os.kill(int(open(pid).read()), 0)
            print("a compiler is left behind")
        except ProcessLookupError:
            print("gone")
    """)
    assert done.stdout == "interrupted\n[4. 4.]\ngone\n"
