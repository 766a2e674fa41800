#!/usr/bin/env python3
"""Figures of the profiler for some kernels, for the record: gpu-profile.py GPU_FIGURES TOML.

Runs Nsight Compute (ncu) on single launches and leaves the clocks as they are. Prints a line a kernel.
"""

import csv
import shutil
import subprocess
import sys

# Of gpu-figures --kernel.
KERNELS = [
    ("gauss3", "RGBA", "1920", "1080"),
    ("bilateral-r7", "GRAY8", "1920", "1080"),
    ("custom15x15", "GRAY8", "1920", "1080"),
    ("fractions15x15", "GRAY8", "1920", "1080"),
]
# Name in the record, of the profiler.
METRICS = [
    ("time", "gpu__time_duration.sum"),
    ("occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("issue-slots", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    ("lookups", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
    ("matrix-units", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
    ("dram", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("l2-bytes", "lts__t_bytes.sum"),
    ("bank-conflicts", "l1tex__data_bank_conflicts_pipe_lsu.sum"),
    ("registers", "launch__registers_per_thread"),
]
# Launches that bring up clocks and caches.
WARM = 20


def profile(ncu, program, kernel):
    """The value and unit of each metric."""
    metrics = ",".join(metric for _, metric in METRICS)
    command = [ncu, "--csv", "--page", "raw", "--clock-control", "none", "--launch-skip", str(WARM), "--launch-count", "1"]
    # It would go on to time thousands of launches, each of them through the profiler.
    command += ["--kill", "on"]
    command += ["--metrics", metrics, program, "--kernel", *kernel]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    rows = [row for row in csv.reader(done.stdout.splitlines()) if len(row) > len(METRICS)]
    if len(rows) < 3:
        sys.exit(f"ncu found nothing of {' '.join(kernel)}:\n{done.stdout[-500:]}{done.stderr[-500:]}")
    names, units, values = rows[:3]
    return {name: (value.replace(",", ""), unit) for name, unit, value in zip(names, units, values)}


def main():
    program, out = sys.argv[1:]
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if not ncu:
        sys.exit("there is no ncu on this machine")
    with open(out, "w") as toml:
        for kernel in KERNELS:
            found = profile(ncu, program, kernel)
            name = f"profile/{kernel[0]}/{kernel[1]}/{kernel[2]}x{kernel[3]}"
            line = []
            for short, metric in METRICS:
                value, unit = found.get(metric, ("", ""))
                try:
                    number = float(value)
                except ValueError:
                    # Another generation of devices, which has it under another name.
                    continue
                toml.write(f'\n[[figure]]\nname = "{name}/{short}"\nvalue = {number:.2f}\nunit = "{unit}"\n')
                line.append(f"{short} {number:.4g} {unit}")
            print(f"{name}: {', '.join(line)}")


main()
