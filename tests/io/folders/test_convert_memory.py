"""Tables are converted in memory that does not depend on their size."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="tables are read by pyarrow")

# Writes tables of 1 and 10 parts, and converts them where little more memory is to be had than was
# taken so far: less than the larger table has.
SCRIPT = """
import json, resource, sys
import numpy as np
import pyarrow as pa
from pathlib import Path
from pyarrow import csv, feather, parquet
import cutplane as cp

place, megabytes = Path(sys.argv[1]), int(sys.argv[2])
numbers = np.random.default_rng(0).integers(0, 9999, (20, 60_000)) / 64
part = pa.table({f"x{j}": column for j, column in enumerate(numbers)})
for times in (1, 10):
    table = pa.concat_tables([part] * times).combine_chunks()
    csv.write_csv(table, place / f"{times}.csv")
    parquet.write_table(table, place / f"{times}.parquet", row_group_size=len(table))
    feather.write_feather(table, place / f"{times}.feather", compression="uncompressed")
del table, part
pa.default_memory_pool().release_unused()
for kind in ("csv", "parquet", "feather"):
    cp.convert(place / f"1.{kind}", place / f"1-{kind}")
status = Path("/proc/self/status").read_text()
used = 1024 * int(status.split("VmData:")[1].split()[0])
resource.setrlimit(resource.RLIMIT_DATA, (used + megabytes * 10**6,) * 2)
found = {}
for kind in ("csv", "parquet", "feather"):
    folder = cp.convert(place / f"10.{kind}", place / f"10-{kind}")
    found[kind] = [folder.n_bytes, float(folder.X[-1] @ folder.X[0])]
try:
    np.array(folder.X)
except MemoryError:
    found["limited"] = True
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts mapped memory on Linux only")
def test_a_table_larger_than_the_memory(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), "60"]
    # Arrow's own allocator would reserve memory that it does not use.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found.pop("limited")
    assert found["csv"] == found["parquet"] == found["feather"]
    assert found["csv"][0] == 10 * 60_000 * 20 * 8
