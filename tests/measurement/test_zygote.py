"""The warm process leaves CUDA to the runs that are forked from it."""

import subprocess
import sys
from pathlib import Path

# A torch that is built for CUDA, and whose inductor looks for a GPU where it is imported, as that
# of torch 2.11 does.
WARMED = """
import sys
import torch
import torch._inductor
from autotune.measurement.processes.zygote import warm_up

set_up = []
torch._C._cuda_getDeviceCount = lambda: set_up.append(True) or 0
torch.cuda._is_compiled = lambda: True
torch._inductor.__path__ = sys.argv[1:]
before = torch.cuda.is_available
warm_up()
assert "torch._inductor.compile_fx" in sys.modules
print("warm", len(set_up))
assert torch.cuda.is_available is before
torch.cuda.is_available()
print("asked", len(set_up))
"""


def test_importing_inductor_leaves_cuda_to_the_runs(tmp_path: Path) -> None:
    (tmp_path / "compile_fx.py").write_text("import torch\ntorch.cuda.is_available()\n")
    ran = subprocess.run(
        [sys.executable, "-c", WARMED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["warm 0", "asked 1"]
