"""`python -m tractable` is the `tractable` command."""

from tractable.cli import main

if __name__ == "__main__":
    main()
