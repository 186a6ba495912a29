"""`make bench`: measure every topic, print the tables, and write the numbers to _build/bench.json."""

import json
import platform
from pathlib import Path

import torch

from attncourse.device import pick_device

from . import qkv


def machine(device: torch.device) -> dict[str, str]:
    """Name what the times belong to."""
    return {
        "processor": _processor(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": "1",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    # platform.processor() is empty or says only "x86_64" on most Linux systems.
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    torch.manual_seed(0)
    device = pick_device()
    results = {"machine": machine(device)}
    print(", ".join(f"{name}: {value}" for name, value in results["machine"].items()))
    print("Each function has its turn in every round. Numbers are medians (and quartiles) over the rounds.")
    results["qkv"] = qkv.run(device)
    path = Path("_build/bench.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"\nWritten to {path}.")


if __name__ == "__main__":
    main()
