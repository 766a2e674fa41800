"""Times OpenCV on the jobs of tests/bench/cpu.rs that it has too.

Prints the name of the job, and in nanoseconds the median and the least time and the time that all
threads together were computing, between tabs. OpenCV
uses all threads, writes into an array that exists, and gets noise as cpu.rs does. An argument
keeps the jobs whose names contain it.
"""

import sys
import time

import cv2
import numpy as np

CASE_SECONDS = 0.4
MIN_FRAMES = 7
HD = (1080, 1920)
VGA = (480, 640)
REPLICATE = cv2.BORDER_REPLICATE

GAUSS7 = np.array([2, 7, 14, 18, 14, 7, 2], np.float32) / 64
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)


def gauss(size):
    """Sigma 0 takes OpenCV's fixed tables, which are ours."""
    return lambda src, dst: cv2.GaussianBlur(src, (size, size), 0, dst, 0, REPLICATE)


def box(size):
    return lambda src, dst: cv2.blur(src, (size, size), dst, (-1, -1), REPLICATE)


def filter2d(kernel):
    return lambda src, dst: cv2.filter2D(src, -1, kernel, dst, (-1, -1), 0, REPLICATE)


def bilateral(src, dst):
    cv2.bilateralFilter(src, 15, 25, 5, dst, REPLICATE)


SHARPEN = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], np.float32)
CASES = [
    ("gauss3 gray8 1080p", HD, 1, gauss(3)),
    ("gauss5 gray8 1080p", HD, 1, gauss(5)),
    ("gauss7 gray8 1080p", HD, 1, gauss(7)),
    ("gauss9 gray8 1080p", HD, 1, gauss(9)),
    ("box3 gray8 1080p", HD, 1, box(3)),
    ("box7 gray8 1080p", HD, 1, box(7)),
    ("box r16 gray8 1080p", HD, 1, box(33)),
    ("gauss r10 gray8 1080p", HD, 1, gauss(21)),
    ("sharpen gray8 1080p", HD, 1, filter2d(SHARPEN)),
    ("emboss gray8 1080p", HD, 1, filter2d(EMBOSS)),
    ("gauss3 gray8 480p", VGA, 1, gauss(3)),
    ("gauss3 rgb 1080p", HD, 3, gauss(3)),
    ("gauss3 bgrx 1080p", HD, 4, gauss(3)),
    ("gauss7 bgr 1080p", HD, 3, gauss(7)),
    ("bilateral r7 gray8 480p", VGA, 1, bilateral),
    ("bilateral r7 gray8 1080p", HD, 1, bilateral),
    ("bilateral r7 rgb 1080p", HD, 3, bilateral),
]


def measure(job, sources):
    destination = np.empty_like(sources[0])
    times = []
    begin = time.perf_counter()
    count = 0
    while len(times) < MIN_FRAMES or time.perf_counter() - begin < CASE_SECONDS:
        start = time.perf_counter_ns()
        job(sources[count % 2], destination)
        elapsed = time.perf_counter_ns() - start
        count += 1
        if count <= 2:
            begin = time.perf_counter()
            computing = time.process_time_ns()
        else:
            times.append(elapsed)
    computing = (time.process_time_ns() - computing) // len(times)
    times.sort()
    return times[len(times) // 2], times[0], computing


def main():
    noise = np.random.default_rng(1)
    for name, size, channels, job in CASES:
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        shape = size if channels == 1 else (*size, channels)
        sources = [noise.integers(0, 256, shape, np.uint8) for _ in range(2)]
        print(name, *measure(job, sources), sep="\t", flush=True)


if __name__ == "__main__":
    main()
