"""Environment variables of a measured run: caches that outlive it, loggers that stay at home, plots
that wait for nobody.
"""

import os
from pathlib import Path

# Is in the environment of a program that is being measured.
MEASURED = "AUTOTUNE_MEASURED"
# The address that the user's own environment gives to MLflow.
MLFLOW_SERVER = "AUTOTUNE_MLFLOW_SERVER"


def environment(scratch: Path) -> dict[str, str]:
    """Where a run keeps compiled kernels: in the search's scratch directory, so that its runs share
    them.

    Their usual place is the home directory, where each run's writes are thrown away.
    """
    caches = scratch / "caches"
    names = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "PYTORCH_KERNEL_CACHE_PATH": "torch",
        "CUDA_CACHE_PATH": "cuda",
    }
    for name in names.values():  # torch writes to its own only where it is there
        (caches / name).mkdir(parents=True, exist_ok=True)
    return {variable: str(caches / name) for variable, name in names.items()}


def quiet_environment(scratch: Path) -> dict[str, str]:
    """Turns off loggers and statistics that would send something away, and windows that a person
    would have to close; local log files go to `scratch`.

    What a program sets in its own code wins over these; `trackers` sees to the commonest of that.
    """
    return {
        "WANDB_MODE": "disabled",
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": (scratch / "mlflow").as_uri(),
        MLFLOW_SERVER: os.environ.get("MLFLOW_TRACKING_URI", ""),
        "MLFLOW_ALLOW_FILE_STORE": "true",  # 3.x refuses to keep its runs in files without it
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "COMET_AUTO_LOG_DISABLE": "1",
        "COMET_DISABLE_ANNOUNCEMENT": "1",
        "NEPTUNE_MODE": "debug",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "MPLBACKEND": "Agg",
        MEASURED: "1",
    }
