"""`python -m benchmarks statespace [NAME ...] [--only TOPIC] [--quick]`: models of sequences beside peers.

Each library does the same work on the same data in its own process, twice. Ratios are seconds of the peer
over seconds of tractable: above one, tractable is faster (`cpu` are processor seconds of the second time, for
machines that others use too); read them beside the objective, which means the same for both. `--only hmm`,
`kalman` or `pagerank` runs one topic; `--quick` leaves out peers that take a minute; `--list` only names the
workloads.
"""

from collections.abc import Sequence

from benchmarks._children import compare


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    compare("statespace", __doc__, options)
