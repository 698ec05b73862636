"""What an evaluation of a chain on a network costs beside the network's own two passes in torch.

The network is that of Table 8 of paper 004, 128 pixels, two sigmoid layers, 26 labels, on as many
letters as its training set has; inputs are made at random. In turns, the fastest of several each:

- torch: forward and backward pass of the network in one batch on all threads, derivatives of the
  sum of its scores;
- torch, batches: the same in batches, as the risk takes them, on threads of torch;
- risk: value and plane of `cutplane.ChainRisk` with `cutplane.TorchScores`, dynamic programs and
  sums in float64 included.

On a busy machine, compare on one thread (``--threads 1``), where processor time is measured:
threads of torch wait for each other.

    python benchmarks/networks.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from timing import machine_load

import cutplane as cp
from cutplane.models.networks.network import BATCH

N_LETTERS, N_PIXELS, N_LABELS = 41_679, 128, 26


def network(units: int, dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(N_PIXELS, units),
        torch.nn.Sigmoid(),
        torch.nn.Linear(units, units),
        torch.nn.Sigmoid(),
        torch.nn.Linear(units, N_LABELS, bias=False),
    ).to(dtype)


def measure(units: int, dtype: torch.dtype, repeats: int, threads: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = (rng.random((N_LETTERS, N_PIXELS)) < 0.2).astype(np.float64)
    y = rng.integers(0, N_LABELS, N_LETTERS)
    offsets = np.unique([*range(0, N_LETTERS, 8), N_LETTERS])
    module, inputs = network(units, dtype), torch.tensor(X, dtype=dtype)
    parameters = list(module.parameters())
    scores = cp.TorchScores(module, X, dtype=dtype, n_threads=threads)
    risk = cp.ChainRisk(scores, y, offsets, cp.ChainCRF(), n_threads=threads)
    w = np.concatenate([risk.map.start, np.zeros(N_LABELS**2)])

    def passes(rows: torch.Tensor) -> None:
        scores = module(rows)
        torch.autograd.grad(scores, parameters, torch.ones_like(scores))

    def in_batches() -> None:
        for begin in range(0, N_LETTERS, BATCH):
            passes(inputs[begin : begin + BATCH])

    works: dict[str, Callable[[], object]] = {
        "torch": lambda: passes(inputs),
        "torch, batches": in_batches,
        "risk": lambda: risk.at(w),
    }
    clock = time.process_time if threads == 1 else time.perf_counter
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats + 1):  # kernels are compiled in the first
        for name, work in works.items():
            begin = clock()
            work()
            best[name] = min(best[name], clock() - begin)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"load {machine_load()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'units':>5}  {'dtype':7}  {'torch':>8}  {'batches':>8}  {'risk':>8}  risk / fastest")
    for units in (200, 400):
        for dtype in (torch.float64, torch.float32):
            found = measure(units, dtype, options.repeats, options.threads)
            fastest = min(found["torch"], found["torch, batches"])
            print(
                f"{units:5}  {str(dtype)[6:]:7}  {found['torch']:6.3f} s  "
                f"{found['torch, batches']:6.3f} s  {found['risk']:6.3f} s  "
                f"{found['risk'] / fastest:.2f}"
            )
    print(f"load {machine_load()}")


if __name__ == "__main__":
    main()
