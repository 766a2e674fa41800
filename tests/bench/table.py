"""Prints own and OpenCV's times side by side: table.py OWN OPENCV, files as `--tsv` prints them.

Of several rounds the median of the medians is taken, the least of all times, and the least
computing time of all threads together.
"""

import collections
import statistics
import sys

COLUMNS = ("median", "least", "computing")


def read(path):
    rounds = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, *times = line.rstrip("\n").split("\t")
            rounds[name].append([int(time) / 1e6 for time in times])
    return {
        name: (statistics.median(t[0] for t in times), min(t[1] for t in times), min(t[2] for t in times))
        for name, times in rounds.items()
    }


def main():
    own, opencv = (read(path) for path in sys.argv[1:3])
    print(f"{'milliseconds':34} {'cudaconv':>28} {'OpenCV':>28} {'times faster':>28}")
    print(" " * 34, *[f"{column:>9}" for _ in range(3) for column in COLUMNS])
    for name, times in own.items():
        cells = [f"{time:9.3f}" for time in times]
        if name in opencv:
            cells += [f"{time:9.3f}" for time in opencv[name]]
            cells += [f"{other / time:9.2f}" for time, other in zip(times, opencv[name])]
        print(f"{name:34}", *cells)


if __name__ == "__main__":
    main()
