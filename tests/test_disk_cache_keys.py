"""Which parts the key of compiled code has, and which directory is trusted with it."""

import dataclasses
import os
import time
from pathlib import Path

import pytest

from functx import config
from functx.backends.cpp import disk_cache
from functx.backends.cpp.disk_cache import code_key, open_cache
from functx.backends.cpp.toolchain import Toolchain
from functx.errors import PerformanceWarning


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """As if nothing had been warned of."""
    monkeypatch.setattr(disk_cache, "_warned", set())


def options(directory):
    return dataclasses.replace(config.current(), cache_dir=str(directory))


# --- keys -----------------------------------------------------------------------------------------------------------------------------


def test_every_part_counts(monkeypatch):
    toolchain = Toolchain("/usr/bin/c++", "c++ 12.2", ("-O2", "-fopenmp"), frozenset({"exp"}))
    keys = [code_key("digest", toolchain, 1), code_key("other", toolchain, 1), code_key("digest", toolchain, 2)]
    changes = {"compiler": "/opt/c++", "version": "c++ 12.3", "flags": ("-O3", "-fopenmp"), "vector_math": frozenset({"exp", "log"})}
    keys += [code_key("digest", dataclasses.replace(toolchain, **{k: v}), 1) for k, v in changes.items()]
    for part in ("cpu", "libraries", "generator"):
        with monkeypatch.context() as there:
            there.setattr(disk_cache, part, lambda: "another one")
            keys.append(code_key("digest", toolchain, 1))
    assert len(set(keys)) == len(keys) == 10
    assert code_key("digest", toolchain, 1) == keys[0]


def test_what_the_machine_says():
    assert len(disk_cache.cpu().splitlines()) > 1 and disk_cache.cpu() == disk_cache.cpu.__wrapped__()
    if os.path.exists("/proc/cpuinfo"):
        assert "MHz" not in disk_cache.cpu() and ("flags" in disk_cache.cpu() or "Features" in disk_cache.cpu())
    assert "openblas" in disk_cache.libraries()


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A generator of our own in place of functx's; calling the result digests it."""
    files = ["functx/ir.py", "functx/ops/linear.py", "functx/runtime/call.h", "backends/cpp/disk_cache.py", "backends/loops/plan.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"contents of {name}")
    monkeypatch.setattr(disk_cache, "include_dir", lambda: str(tmp_path / "functx/runtime"))
    monkeypatch.setattr(disk_cache, "__file__", str(tmp_path / "backends/cpp/disk_cache.py"))
    monkeypatch.setattr(disk_cache, "IMPORTED", time.time() + 60)
    return tmp_path, files, disk_cache.generator.__wrapped__


def test_the_generator_counts_by_content(sources):
    folder, files, digest = sources
    seen = [digest()]
    for name in files:
        os.utime(folder / name, (0, 0))
        assert digest() == seen[-1]
        (folder / name).write_text(f"changed contents of {name}")
        seen.append(digest())
    (folder / "backends/loops/new.py").touch()
    (folder / "functx/notes.txt").touch()
    seen.append(digest())
    assert None not in seen and len(set(seen)) == len(files) + 2


def test_sources_edited_after_the_import_are_not_what_runs(sources, monkeypatch):
    folder, files, digest = sources
    monkeypatch.setattr(disk_cache, "IMPORTED", time.time() - 60)
    assert digest() is None


# --- where, and whom to trust ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache_dir", "xdg", "home", "want"),
    [
        ("/some/where", "/xdg", "/home/me", "/some/where"),
        ("~/code", "/xdg", "/home/me", "/home/me/code"),
        ("", "/xdg", "/home/me", "/xdg/functx"),
        ("", "relative", "/home/me", "/home/me/.cache/functx"),
        ("", "", "/home/me", "/home/me/.cache/functx"),
    ],
)
def test_location(cache_dir, xdg, home, want, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", home)
    assert disk_cache.location(options(cache_dir)) == Path(want)


def test_no_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.warns(PerformanceWarning, match="no home directory is known(.|\n)*set FUNCTX_CACHE_DIR"):
        assert open_cache(options("")) is None


def test_a_relative_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_cache(options("here")).directory == tmp_path / "here"


def test_the_directory_is_private_whatever_the_mask(tmp_path):
    for mask in (0, 0o077):
        before = os.umask(mask)
        try:
            made = open_cache(options(tmp_path / f"a{mask}" / "b"))
        finally:
            os.umask(before)
        assert made.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_directory_that_others_can_write_is_not_used(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.warns(PerformanceWarning) as caught:
        assert open_cache(options(tmp_path)) is None
        assert open_cache(options(tmp_path)) is None
    (text,) = (str(warning.message) for warning in caught)
    assert f"can be written by others (mode {mode:04o})" in text and f"chmod go-w {tmp_path}" in text and "FUNCTX_DISK_CACHE=0" in text
    tmp_path.chmod(0o755)
    assert open_cache(options(tmp_path)) is not None


def test_a_directory_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(PerformanceWarning, match=f"{tmp_path} belongs to user {os.getuid()}, not to you"):
        assert open_cache(options(tmp_path)) is None
