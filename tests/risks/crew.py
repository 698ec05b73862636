"""Workers that are threads of this process, connected by pipes, for tests of shards."""

import os
import socket
import threading
from multiprocessing import Pipe

import numpy as np

from cutplane.cluster.allreduce import serve
from cutplane.cluster.sample import Holding, Place, ShardedSample


class ArrayRecipe:
    """Rows that travel with their recipe."""

    def __init__(self, arrays):
        self.arrays = arrays

    def read(self):
        return dict(self.arrays)


class ArraySource:
    """Rows of arrays."""

    def __init__(self, arrays):
        self.arrays = arrays

    @property
    def n_rows(self):
        return int(self.arrays["X"].shape[0])

    def recipe(self, begin, end):
        return ArrayRecipe({name: array[begin:end] for name, array in self.arrays.items()})


class Crew:
    """Places in this process."""

    def __init__(self, n_workers, n_threads=1, alike=True):
        self.holdings = {f"thread {k}": Holding(n_threads) for k in range(n_workers)}
        self.connections = {}
        self.opened = 0
        self.alike = alike

    def open(self):
        self.opened += 1
        places = []
        for name, holding in self.holdings.items():
            ours, theirs = Pipe()
            thread = threading.Thread(target=serve, args=(theirs, holding.serve), daemon=True)
            thread.start()
            self.connections[name] = theirs
            places.append(Place(name, ours))
        if not places:
            raise RuntimeError("nobody is left")
        return places

    def kill(self, name):
        """End a connection as the end of a process would."""
        with socket.socket(fileno=os.dup(self.connections[name].fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)

    def lose(self, name, why):
        self.holdings.pop(name, None)


class Placement(ShardedSample):
    """A sample whose shards lie where the test says."""

    def __init__(self, source, crew, owners, **options):
        super().__init__(source, crew, n_shards=len(owners), **options)
        self._owners = owners

    def _deal(self, names):
        if self._owners is None:
            super()._deal(names)
            return
        held = [np.flatnonzero(np.asarray(self._owners) == k).tolist() for k in range(len(names))]
        self._holders = {name: own for name, own in zip(names, held, strict=True) if own}
        self._owners = None


def placed(arrays, owners, n_threads=1, **options):
    """Return a sample with shard ``k`` on worker ``owners[k]``."""
    return Placement(ArraySource(arrays), Crew(max(owners) + 1, n_threads), owners, **options)
