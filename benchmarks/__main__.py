"""`make bench`: measure the library, print each number beside its target, and write them to `_build/`.

`benchmarks/RESULTS.md` keeps the table of one run, `_build/bench.md`. `_build/bench.json` is for programs.
"""

import json
import platform
from pathlib import Path

import torch

from attncourse.device import pick_device

from .cases import CASES, Row, Setting

THREADS, ROUNDS = 2, 15


def machine(setting: Setting) -> dict[str, str]:
    """Name what the numbers belong to."""
    device = setting.device
    return {
        "processor": _processor(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "dtype": str(setting.dtype).removeprefix("torch."),
        "threads": str(torch.get_num_threads()),
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


def show(row: Row) -> str:
    """Write a row of the table, in Markdown that is easy to read as it is."""
    median, low, high = (f"{row.number[name]:.2f}" for name in ("median", "low", "high"))
    verdict = "pass" if row.passed else "SHORT"
    return f"| {row.what} | {median}{row.unit} | {low} to {high} | {row.target} | {verdict} |"


def main() -> None:
    """Measure everything. Targets are for a CPU; on another device they are only for comparison."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    device = pick_device()
    setting = Setting(device, torch.float32 if device.type == "cpu" else torch.bfloat16, ROUNDS)
    facts = machine(setting)
    lines = [
        ", ".join(f"{name}: {value}" for name, value in facts.items()),
        "",
        "Each function has its turn in every round. Numbers are medians, with quartiles, over the rounds.",
        "",
        "| what | measured | quartiles | target | verdict |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    rows = []
    with torch.no_grad():
        for case in CASES:
            for row in case(setting):
                rows.append(row)
                lines.append(show(row))
                print(lines[-1], flush=True)
    folder = Path("_build")
    folder.mkdir(exist_ok=True)
    numbers = [{**row._asdict(), "passed": row.passed} for row in rows]
    (folder / "bench.json").write_text(
        json.dumps({"machine": facts, "rows": numbers}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "bench.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\nWritten to {folder}/bench.md and {folder}/bench.json.")


if __name__ == "__main__":
    main()
