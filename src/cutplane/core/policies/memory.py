"""Which planes survive."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.bundle import Bundle
from cutplane.core.method import Memory


@dataclass(frozen=True, slots=True)
class ForgetIdle(Memory[None]):
    """Planes that had no weight for long are dropped: groups bring so many that most are idle.

    Parameters
    ----------
    longest : int
        In how many reduced problems a plane may have had no weight. (a9a and ijcnn1, 4 to 64
        groups: 6, 10 and 20 differ by at most 2 iterations, 3 takes up to 6 more.)
    """

    longest: int = 8

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Drop the planes long idle, once they are a quarter of all."""
        used = bundle.used_within(self.longest)
        if len(used) <= 0.75 * bundle.n_planes:
            bundle.keep(used)


@dataclass(frozen=True, slots=True)
class LimitedMemory(Memory[None]):
    """At most ``planes`` planes a group, and one that stands for all those that were dropped.

    Planes without weight go first, the longest idle before the others: the reduced problem does
    not notice. If that is not enough, the weighted mean of the bundle (the aggregated plane of
    paper 004, Algorithm 3), one for each group, takes the place of the lightest ones. The mean
    alone gives the same lower bound as the whole bundle did, so the bound never falls.

    Parameters
    ----------
    planes : int
        Number of planes besides the aggregate, at least 1; on average if there are groups.
    """

    planes: int

    def __post_init__(self) -> None:
        if self.planes < 1:
            raise ValueError(f"a bundle needs room for at least 1 plane, got {self.planes}")

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Drop idle planes, then aggregate, before ``incoming`` new planes are added."""
        bundle.make_room(self.planes, incoming)


@dataclass(frozen=True, slots=True)
class AggregateOnly(Memory[None]):
    """Only the weighted mean of all planes so far, and the newest one (paper 000, section 5).

    The reduced problem then has two planes, and its solution is the closed form (15) of the paper:
    with ``w`` the last candidate and ``a`` the slope of its plane, the new one gets the weight

        eta = min(1, lam * (J(w) - lower bound at w) / |lam w + a|^2)

    It is the same as `LimitedMemory` with one plane: there, too, whatever has no weight goes first,
    and one plane with all the weight is its own aggregate.
    """

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Put the aggregate of each group in the place of its planes."""
        bundle.condense(0)
