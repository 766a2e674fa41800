#!/usr/bin/env python3
"""Compiles CUDA C++ to PTX with the NVRTC library given: nvrtc.py LIBNVRTC INCLUDE TARGET SOURCE PTX.

Used by build-kernels.sh. Needs no GPU, no driver and no compiler of the host.
"""
import ctypes
import sys
from pathlib import Path


def compile_ptx(nvrtc, source, options):
    """The PTX of `source`, or exits with the compiler's log."""

    def call(name, *arguments):
        code = getattr(nvrtc, name)(*arguments)
        return "" if code == 0 else nvrtc.nvrtcGetErrorString(code).decode()

    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    text = source.read_bytes()
    if failure := call("nvrtcCreateProgram", ctypes.byref(program), text, source.name.encode(), 0, None, None):
        sys.exit(f"{source}: {failure}")
    flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failure = call("nvrtcCompileProgram", program, len(options), flags)

    def result(kind):
        size = ctypes.c_size_t()
        call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(f"nvrtcGet{kind}", program, buffer)
        return buffer.value

    log = result("ProgramLog").decode().strip()
    if failure or log:
        sys.exit(f"{source}: {failure or 'the compiler warns'}\n{log}")
    return result("PTX")


def main():
    library, include, target, source, ptx = sys.argv[1:]
    options = [
        f"--gpu-architecture={target}",
        "--std=c++17",
        # For generic lambdas, which cannot say that they are of the device.
        "--device-as-default-execution-space",
        # Only an explicit fmaf is a fused multiply-add: the bytes are those of the CPU.
        "--fmad=false",
        f"--include-path={include}",
        f"--include-path={Path(source).parent}",
    ]
    Path(ptx).write_bytes(compile_ptx(ctypes.CDLL(library), Path(source), options))


main()
