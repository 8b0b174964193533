"""Settings of JAX that the library relies on, applied once when `tractable` is imported.

- float64 is on, unless the user has set `JAX_ENABLE_X64`.
- Compiled programs are kept in the user's cache directory, unless the user has set
  `JAX_COMPILATION_CACHE_DIR` (set it to the empty string to keep none).
- Loops that work on little data become one machine function each (`XLA_FLAGS`, unless the user's flags hold
  `xla_backend_extra_options`, or the compiler is at work already). XLA otherwise starts every operation of
  the body by itself, which costs a sampler in ten dimensions ten times what the operations do.
- XLA divides its sums among the processors of the machine (at least two), also where a process may use fewer
  of them (`PJRT_NPROC`, unless the user has set it): otherwise `taskset -c 0` would change digits.

When JAX is not imported yet, the settings are left in the environment, where JAX finds them:
`import tractable` does not pay for JAX.
"""

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["apply", "cache_directory"]

_SMALL_LOOP_BYTES = 1 << 21
_EXTRA_OPTIONS = "--xla_backend_extra_options"


def cache_directory() -> Path:
    """Where compiled programs are kept from one process to the next."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tractable" / "compiled"


def apply() -> None:
    """Set each option that the user has not set."""
    wanted: dict[str, Any] = {
        "jax_enable_x64": True,
        "jax_compilation_cache_dir": str(cache_directory()),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    for option, value in wanted.items():
        if option.upper() in os.environ:
            continue
        if "jax" in sys.modules:
            sys.modules["jax"].config.update(option, value)
        else:
            os.environ[option.upper()] = str(value)
    if "NPROC" not in os.environ:
        os.environ.setdefault("PJRT_NPROC", str(max(2, os.cpu_count() or 2)))
    _compile_small_loops_whole()


def _compile_small_loops_whole() -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and bridge.backends_are_initialized():
        return  # the flags have been read
    flags = os.environ.get("XLA_FLAGS", "")
    if _EXTRA_OPTIONS not in flags:
        option = f"{_EXTRA_OPTIONS}=xla_cpu_small_while_loop_byte_threshold={_SMALL_LOOP_BYTES}"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
