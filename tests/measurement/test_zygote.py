"""The warm process leaves CUDA to the runs that are forked from it, and their heaps as they are
without it.
"""

import subprocess
import sys

# A compiler that looks for a GPU where it is imported, as inductor of torch 2.11 does.
WARMED = """
import sys
import torch
from autotune.measurement.processes.zygote import warm_up

class Asking:
    def find_spec(self, name, path, target=None):
        if name == "torch._dynamo":
            print("imports")
            asked()

def asked():
    torch._C._cuda_getDeviceCount = lambda: set_up.append(True) or 0  # as if built for CUDA
    torch.cuda.is_available()
    del torch._C._cuda_getDeviceCount

set_up = []
before = torch.cuda.is_available
sys.meta_path.insert(0, Asking())
warm_up()
print("warm", len(set_up))
assert torch.cuda.is_available is before
asked()
print("asked", len(set_up))
print("torch._inductor.compile_fx" in sys.modules)
"""


def test_warming_up_leaves_cuda_to_the_runs_and_inductor_to_those_that_compile() -> None:
    ran = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["imports", "warm 0", "asked 1", "False"]


# As a run does before its program begins.
RUN = """
import sys
import torch
from autotune.measurement.processes import unimported
from autotune.measurement.processes.zygote import warm_up
from autotune.workload.system.heap import bytes_in_use

def taken(make):
    before = bytes_in_use()
    make()
    return (bytes_in_use() - before) >> 20

def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.empty(1))], lr=0.1)

warm_up()
front, finders = sys.modules["torch._dynamo"], list(sys.meta_path)
spec = front.__spec__
unimported.leave_to_the_program()
print("torch._dynamo" in sys.modules, taken(lambda: torch.nn.Linear(2, 2)))
print(taken(optimizer) > 10)
print(taken(optimizer))
import torch._dynamo
print(torch._dynamo is front, front.__spec__ is spec, sys.meta_path == finders)
"""


def test_what_is_imported_ahead_takes_its_memory_where_torch_imports_it() -> None:
    ran = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["False 0", "True", "0", "True True True"]
