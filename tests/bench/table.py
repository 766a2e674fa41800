"""Prints own and OpenCV's times side by side: table.py OWN OPENCV, files as `--tsv` prints them.

Of several rounds the median of the medians is taken, and the least of all times.
"""

import collections
import statistics
import sys


def read(path):
    rounds = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, median, least = line.rstrip("\n").split("\t")
            rounds[name].append((int(median) / 1e6, int(least) / 1e6))
    return {
        name: (statistics.median(m for m, _ in times), min(least for _, least in times))
        for name, times in rounds.items()
    }


def main():
    own, opencv = (read(path) for path in sys.argv[1:3])
    print(f"{'milliseconds':34} {'cudaconv':>18} {'OpenCV':>18} {'times faster':>15}")
    print(f"{'':34} {'median':>9} {'least':>8} {'median':>9} {'least':>8} {'median':>8} {'least':>6}")
    for name, (median, least) in own.items():
        line = f"{name:34} {median:9.3f} {least:8.3f}"
        if name in opencv:
            other = opencv[name]
            line += f" {other[0]:9.3f} {other[1]:8.3f} {other[0] / median:8.2f} {other[1] / least:6.2f}"
        print(line)


if __name__ == "__main__":
    main()
