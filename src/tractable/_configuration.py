"""Settings of JAX that the library relies on, applied once when `tractable` is imported.

- float64 is on, unless the user has set `JAX_ENABLE_X64`.
- Compiled programs are kept in the user's cache directory, unless the user has set
  `JAX_COMPILATION_CACHE_DIR` (set it to the empty string to keep none).

When JAX is not imported yet, the settings are left in the environment, where JAX finds them:
`import tractable` does not pay for JAX.
"""

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["apply", "cache_directory"]


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
