"""`python -m benchmarks NAME [OPTIONS]` runs `benchmarks.NAME.main(options)`; without a name it lists what
there is."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Dispatch to the named benchmark."""
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(f"usage: python -m benchmarks {{{','.join(known)}}}")
    importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


main()
