#!/usr/bin/env python3
"""What other libraries take for the same pictures on this machine, for the record of the GPU.

usage: gpu-peers.py FILE

Prints a table, and writes figures `peer/LIBRARY/KERNEL/FORMAT/WxH` in µs to FILE. Kernels of NPP, CuPy
and PyTorch are timed by events, on pictures in device memory that go round so that none is in a cache;
OpenCV's, which run on the CPU, by the clock. What is not installed is left out, and said to be.
"""

import ctypes
import glob
import statistics
import sys
import time

import numpy

SIZES = {"640x480": (640, 480), "1920x1080": (1920, 1080), "3840x2160": (3840, 2160)}
COLD_BYTES = 256 << 20
MOST_SETS = 64
BATCH = 16
BATCHES = 9
# Weights of 15 rows and columns that are no product of two vectors.
WEIGHTS = numpy.random.default_rng(15).uniform(-1, 1, (15, 15)).astype(numpy.float32)

figures = []


def note(library, kernel, layout, size, microseconds):
    figures.append((f"peer/{library}/{kernel}/{layout}/{size}", microseconds))
    print(f"{figures[-1][0]:48} {microseconds:10.1f} us", flush=True)


def attempt(what, work):
    """Figures that cannot be had are no reason to have none."""
    try:
        work()
    except Exception as error:
        print(f"no figures of {what}: {str(error).splitlines()[0] if str(error) else error!r}", flush=True)


def on_device(torch, call):
    """The median time of a call of `call`, which gets its number, in µs."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    idle = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    times = []
    for batch in range(BATCHES + 1):
        # Keeps the device busy while the batch is asked for.
        for _ in range(12):
            idle.clone()
        start.record()
        for number in range(BATCH):
            call(batch * BATCH + number)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / BATCH)
    return statistics.median(times[1:])


def pictures(torch, width, height, channels):
    """Noise for the input, and room for the output, often enough to be cold."""
    shape = (height, width, channels)
    sets = min(MOST_SETS, max(2, -(-COLD_BYTES // (width * height * channels))))
    make = lambda: torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    return [make() for _ in range(sets)], [make() for _ in range(sets)]


class StreamContext(ctypes.Structure):
    """NPP's NppStreamContext."""

    _fields_ = [
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("threads_of_multiprocessor", ctypes.c_int),
        ("threads_of_block", ctypes.c_int),
        ("shared_bytes_of_block", ctypes.c_size_t),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("stream_flags", ctypes.c_uint),
        ("reserved", ctypes.c_int),
    ]


class Size(ctypes.Structure):
    """NPP's NppiSize and NppiPoint."""

    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]


REPLICATE = 2
MASK_SIZES = {"gauss3": 200, "gauss5": 400, "gauss7": 600}


def npp(torch):
    found = glob.glob("/usr/local/cuda*/lib64/libnppif.so*") + glob.glob("/usr/local/cuda*/targets/*/lib/libnppif.so*")
    if not found:
        raise RuntimeError("libnppif.so was not found")
    library = ctypes.CDLL(sorted(found)[-1])
    device = torch.cuda.get_device_properties(0)
    context = StreamContext(
        torch.cuda.current_stream().cuda_stream, 0, device.multi_processor_count, 2048, 1024, 48 << 10, device.major, device.minor, 0, 0
    )
    weights = torch.tensor(WEIGHTS, device="cuda")

    def time_of(name, kernel, layout, size, channels, arguments):
        function = getattr(library, name)
        width, height = SIZES[size]
        inputs, outputs = pictures(torch, width, height, channels)
        whole, origin = Size(width, height), Size(0, 0)
        step = width * channels

        def call(number):
            source, target = inputs[number % len(inputs)], outputs[number % len(outputs)]
            status = function(
                ctypes.c_void_p(source.data_ptr()),
                ctypes.c_int(step),
                whole,
                origin,
                ctypes.c_void_p(target.data_ptr()),
                ctypes.c_int(step),
                whole,
                *arguments,
                ctypes.c_int(REPLICATE),
                context,
            )
            if status != 0:
                raise RuntimeError(f"{name} returned {status}")

        note("npp", kernel, layout, size, on_device(torch, call))

    for kernel, mask in MASK_SIZES.items():
        for size, layout, channels in [
            ("640x480", "GRAY8", 1),
            ("1920x1080", "GRAY8", 1),
            ("1920x1080", "RGBA", 4),
            ("3840x2160", "RGBA", 4),
        ]:
            name = f"nppiFilterGaussBorder_8u_C{channels}R_Ctx"
            attempt(name, lambda: time_of(name, kernel, layout, size, channels, [ctypes.c_int(mask)]))
    # Radius, step between samples, variances in colour and in space.
    bilateral = [ctypes.c_int(7), ctypes.c_int(1), ctypes.c_float(625.0), ctypes.c_float(25.0)]
    for size, layout, channels in [("640x480", "GRAY8", 1), ("1920x1080", "GRAY8", 1), ("1920x1080", "RGB", 3)]:
        name = f"nppiFilterBilateralGaussBorder_8u_C{channels}R_Ctx"
        attempt(name, lambda: time_of(name, "bilateral-r7", layout, size, channels, bilateral))
    window = [ctypes.c_void_p(weights.data_ptr()), Size(15, 15), Size(7, 7)]
    name = "nppiFilterBorder32f_8u_C1R_Ctx"
    attempt(name, lambda: time_of(name, "custom15x15", "GRAY8", "1920x1080", 1, window))


def cupy_ndimage(torch):
    import cupy
    from cupyx.scipy import ndimage

    width, height = SIZES["1920x1080"]
    inputs, outputs = pictures(torch, width, height, 1)
    inputs, outputs = ([cupy.from_dlpack(picture[..., 0]) for picture in sets] for sets in (inputs, outputs))
    rows = {
        "gauss3": numpy.array([1, 2, 1]) / 4,
        "gauss7": numpy.array([2, 7, 14, 18, 14, 7, 2]) / 64,
    }
    for kernel, row in rows.items():
        weights = cupy.asarray(numpy.outer(row, row).astype(numpy.float32))
        run = lambda number: ndimage.convolve(
            inputs[number % len(inputs)], weights, output=outputs[number % len(outputs)], mode="nearest"
        )
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            note("cupy", kernel, "GRAY8", "1920x1080", on_device(torch, run))


def torch_conv2d(torch):
    """PyTorch's convolutions take floats, of which a picture has four times the bytes."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    width, height = SIZES["1920x1080"]
    inputs = [torch.rand(1, 1, height, width, device="cuda") for _ in range(16)]
    for side, kernel in [(3, "gauss3"), (7, "gauss7"), (15, "custom15x15")]:
        weights = torch.rand(1, 1, side, side, device="cuda")
        run = lambda number: torch.nn.functional.conv2d(inputs[number % 16], weights, padding=side // 2)
        note("torch", kernel, "GRAY_F32", "1920x1080", on_device(torch, run))


def opencv(_torch):
    import cv2

    width, height = SIZES["1920x1080"]
    picture = numpy.random.default_rng(1).integers(0, 256, (height, width), dtype=numpy.uint8)
    colour = numpy.random.default_rng(2).integers(0, 256, (height, width, 3), dtype=numpy.uint8)
    library = f"opencv-cpu{cv2.getNumThreads()}"
    border = cv2.BORDER_REPLICATE
    calls = {
        ("gauss3", "GRAY8"): lambda: cv2.GaussianBlur(picture, (3, 3), 0, borderType=border),
        ("gauss7", "GRAY8"): lambda: cv2.GaussianBlur(picture, (7, 7), 0, borderType=border),
        ("custom15x15", "GRAY8"): lambda: cv2.filter2D(picture, -1, WEIGHTS, borderType=border),
        ("bilateral-r7", "GRAY8"): lambda: cv2.bilateralFilter(picture, 15, 25, 5, borderType=border),
        ("bilateral-r7", "RGB"): lambda: cv2.bilateralFilter(colour, 15, 25, 5, borderType=border),
    }
    for (kernel, layout), call in calls.items():
        times = []
        for _ in range(6):
            begun = time.perf_counter()
            call()
            times.append((time.perf_counter() - begun) * 1e6)
        note(library, kernel, layout, "1920x1080", statistics.median(times[1:]))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    import torch

    if not torch.cuda.is_available():
        sys.exit("gpu-peers.py: PyTorch finds no GPU")
    attempt("NPP", lambda: npp(torch))
    attempt("CuPy", lambda: cupy_ndimage(torch))
    attempt("PyTorch", lambda: torch_conv2d(torch))
    attempt("OpenCV", lambda: opencv(torch))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        for name, value in figures:
            file.write(f'\n[[figure]]\nname = "{name}"\nvalue = {value:.2f}\nunit = "us"\n')


main()
