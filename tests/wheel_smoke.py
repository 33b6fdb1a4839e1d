"""Run by CI with the interpreter of a clean environment, from outside the repository: does an installed wheel work?"""

import importlib.util
import sysconfig
from pathlib import Path

import numpy as np

import functx
import functx.backends
import functx.transforms
from functx.runtime import include_dir


def main() -> None:
    installed = Path(sysconfig.get_path("platlib")).resolve()
    for module in (functx, functx.transforms, functx.backends):
        assert Path(module.__file__).resolve().is_relative_to(installed), f"{module.__file__} is not the wheel's"
    for name in ("transforms", "backends"):
        assert importlib.util.find_spec(name) is None, f"the wheel claims the generic name {name}"
    assert Path(include_dir(), "call.h").is_file(), "generated code will not find call.h"

    result = functx.jit(lambda x: np.sin(x) * 2)(np.ones(3))
    assert type(result) is np.ndarray and result.dtype == np.float64
    np.testing.assert_allclose(result, np.sin(np.ones(3)) * 2, rtol=1e-14)
    print("the wheel works")


if __name__ == "__main__":
    main()
