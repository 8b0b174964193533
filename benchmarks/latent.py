"""`python -m benchmarks latent [NAME ...] [--quick]`: clusters, mixtures, factors and topics beside peers.

Each library fits the same data in its own process, twice: the first time includes compilation, the second is
what a program pays that fits again. Ratios are seconds of the peer over seconds of tractable: above one,
tractable is faster (`cpu` are processor seconds of the second fit, for machines that others use too); read
them beside the objective, which means the same for both. `MB` is how far the peak
of memory grew. `--quick` leaves out peers that take a minute; `--list` only names the workloads.
"""

from collections.abc import Sequence

from benchmarks._children import compare


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    compare("latent", __doc__, options)
