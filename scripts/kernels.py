#!/usr/bin/env python3
"""Compiles the kernels to PTX and reports what each needs on each GPU architecture.

Run by build-kernels.sh, in its virtual environment and from the root of the repository. Needs no
GPU, no driver and no compiler of the host.
"""
import collections
import ctypes
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCES = Path("kernels")
CHECKED_IN = SOURCES / "ptx"
# What machine code takes on each architecture, for those who have no such device.
TABLE = Path("tests/gpu/resources.txt")
# The oldest architecture that is supported: PTX for it runs on all later ones.
TARGET = "compute_75"
# A source with such a line is for later ones alone.
NEEDS = re.compile(r"^// Needs (compute_\d+)\.$", re.MULTILINE)
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"]
# Of a multiprocessor, as the CUDA C++ Programming Guide has them (compute capabilities, technical
# specifications): most threads, most blocks, bytes of shared memory, and bytes of that which each block
# takes besides its own.
MULTIPROCESSORS = {
    "sm_75": (1024, 16, 64 << 10, 0),
    "sm_80": (2048, 32, 164 << 10, 1 << 10),
    "sm_86": (1536, 16, 100 << 10, 1 << 10),
    "sm_89": (1536, 24, 100 << 10, 1 << 10),
    "sm_90": (2048, 32, 228 << 10, 1 << 10),
}
# Of all of them: registers, and how many a warp gets at a time.
REGISTERS = 65536
REGISTERS_AT_A_TIME = 256
WARP = 32
# What the checked-in PTX may take in all.
MOST_BYTES = 3_000_000


class Tools:
    """The compiler and the assembler from the wheels."""

    def __init__(self):
        wheels = Path(sysconfig.get_path("purelib")) / "nvidia"
        self.nvrtc = ctypes.CDLL(str(wheels / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
        self.nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.headers = wheels / "cuda_runtime" / "include"
        self.ptxas = wheels / "cuda_nvcc" / "bin" / "ptxas"

    def compile(self, source, module):
        """The PTX of one module of `source`; exits with the compiler's log if there is any."""
        options = [
            f"--gpu-architecture={target_of(source)}",
            f"--define-macro={module}",
            "--std=c++17",
            # For generic lambdas, which cannot say that they are of the device.
            "--device-as-default-execution-space",
            # "declared but never referenced": constants of the other modules.
            "--diag-suppress=177",
            # Only an explicit fmaf is a fused multiply-add: the bytes are those of the CPU.
            "--fmad=false",
            f"--include-path={self.headers}",
            f"--include-path={source.parent}",
        ]
        program = ctypes.c_void_p()
        name = source.name.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.read_bytes(), name, 0, None, None)
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self.nvrtc.nvrtcCompileProgram(program, len(options), flags)
        log = self._text(program, "ProgramLog").strip()
        if failed or log:
            sys.exit(f"{source}:\n{log or self.nvrtc.nvrtcGetErrorString(failed).decode()}")
        return shortened(self._text(program, "PTX"))

    def _text(self, program, kind):
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, buffer)
        return buffer.value.decode()

    def _call(self, name, *arguments):
        code = getattr(self.nvrtc, name)(*arguments)
        if code != 0:
            sys.exit(f"{name}: {self.nvrtc.nvrtcGetErrorString(code).decode()}")

    def assemble(self, ptx, architecture):
        """What the assembler reports of each kernel in the file `ptx`: {kernel: Resources}."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
            command = [self.ptxas, "--verbose", f"--gpu-name={architecture}", ptx, f"--output-file={cubin.name}"]
            run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"ptxas {architecture} {ptx}:\n{run.stdout}{run.stderr}")
        return parse_report(run.stdout + run.stderr)


# How the compiler names registers by type and labels, with a number behind, and what stands for that here: "%" is of no
# meaning to the assembler.
SHORT = {"%p": "p", "%rs": "s", "%r": "r", "%rd": "d", "%f": "f", "%fd": "e", "$L__BB": "$"}
NUMBERED = re.compile(r"(%(?:p|rs|rd|r|fd|f)|\$L__BB)(\d+(?:_\d+)?)\b")
# "%rd<20>" are twenty of them.
DECLARED = re.compile(r"(\.reg \.\w+\s+)(%(?:p|rs|rd|r|fd|f))<\d+>;")
# Of variables of the sources, which nobody but the kernel that reads them knows by name.
MANGLED = re.compile(r"\b_Z[\w$]+")


def shortened(ptx):
    """The same PTX without comments, empty lines, spaces and variables that nothing reads, with short names of labels,
    registers and variables: a third less to ship, of which the assembler makes the same machine code."""
    ptx = re.sub(r"//.*", "", ptx)
    ptx = "".join(renamed(part) for part in re.split(r"(?m)^(?=\.visible \.entry )", ptx))
    uses = collections.Counter(re.findall(r"[\w$]+", ptx))
    variable = re.compile(r"\.global \.align \d+ \.\w+ ([\w$]+)(\[\d+\])?( = |;)")
    lines = (re.sub(r"\s+", " ", line).replace(", ", ",").strip() for line in ptx.splitlines())
    lines = (line for line in lines if not ((found := variable.match(line)) and uses[found[1]] == 1))
    ptx = "".join(f"{line}\n" for line in lines if line)
    variables = {name: f"v{number}" for number, name in enumerate(dict.fromkeys(MANGLED.findall(ptx)))}
    check_new(variables.values(), ptx)
    return MANGLED.sub(lambda match: variables[match[0]], ptx)


def renamed(entry):
    """The PTX of one kernel with its parameter, registers and labels named anew: those that are used most have the fewest
    digits."""
    entry = re.sub(r"\b\w+_param_0\b", "launch", entry)
    uses = collections.Counter(match[0] for match in NUMBERED.finditer(entry))
    counts = collections.Counter()
    names = {}
    for name, _ in uses.most_common():
        prefix = NUMBERED.match(name)[1]
        names[name] = f"{SHORT[prefix]}{counts[prefix]}"
        counts[prefix] += 1
    check_new(names.values(), entry)
    entry = NUMBERED.sub(lambda match: names[match[0]], entry)

    def declare(match):
        count = counts[match[2]]
        return f"{match[1]}{SHORT[match[2]]}<{count}>;" if count else ""

    return DECLARED.sub(declare, entry)


def check_new(names, ptx):
    """Exits if `ptx` has one of `names`, written so in a source, for something else."""
    taken = set(re.findall(r"(?<![.%$\w])[a-z$]\d+\b", ptx)) & set(names)
    if taken:
        sys.exit(f"{', '.join(sorted(taken))}: such names are given to the compiler's registers and variables")


class Resources:
    """Of one kernel on one architecture: registers of a thread, bytes."""

    def __init__(self):
        self.registers = self.shared = self.stack = self.spills = 0


def parse_report(report):
    found = {}
    for line in report.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            found[match[1]] = now = Resources()
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            now.stack, now.spills = int(match[1]), int(match[2]) + int(match[3])
        elif match := re.search(r"Used (\d+) registers", line):
            now.registers = int(match[1])
            if shared := re.search(r"(\d+) bytes smem", line):
                now.shared = int(shared[1])
    return found


def occupancy(resources, threads, architecture):
    """Threads that a multiprocessor holds, in percent of the most that it can; without the shared memory
    that a launch asks for."""
    most_threads, most_blocks, shared, beside = MULTIPROCESSORS[architecture]
    of_warp = -(-resources.registers * WARP // REGISTERS_AT_A_TIME) * REGISTERS_AT_A_TIME
    warps = -(-threads // WARP)
    blocks = min(most_blocks, most_threads // threads, REGISTERS // of_warp // warps)
    if resources.shared:
        blocks = min(blocks, shared // (resources.shared + beside))
    return 100 * blocks * threads // most_threads


def threads_of(ptx):
    """Threads of a block by kernel, where the text `ptx` says: {kernel: threads}."""
    found = re.findall(r"\.entry (\w+)\((?:[^{]*?)\.maxntid (\d+),1,1", ptx)
    return {kernel: int(threads) for kernel, threads in found}


def target_of(source):
    """The architecture that the PTX of `source` is for."""
    needs = NEEDS.search(source.read_text(encoding="utf-8"))
    return needs[1] if needs else TARGET


def number_of(architecture):
    return int(architecture.split("_")[1])


def modules():
    """Every module with its source: a source says `#ifdef MODULE` around the kernels of each."""
    for source in sorted(SOURCES.glob("*.cu")):
        for module in re.findall(r"^#ifdef (\w+)$", source.read_text(encoding="utf-8"), re.MULTILINE):
            yield source, module


def build(tools, check):
    """Compiles all sources and writes the PTX, or with `check` compares it; returns the files."""
    stale = []
    files = []
    for source, module in modules():
        text = tools.compile(source, module)
        ptx = CHECKED_IN / f"{module.lower()}.ptx"
        files.append(ptx)
        if ptx.exists() and ptx.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale.append(str(ptx))
        else:
            CHECKED_IN.mkdir(exist_ok=True)
            ptx.write_text(text, encoding="utf-8")
    left = {str(path) for path in CHECKED_IN.glob("*.ptx")} - {str(path) for path in files}
    if stale or left:
        for path in stale:
            print(f"{path} is not what its source gives: run scripts/build-kernels.sh", file=sys.stderr)
        for path in sorted(left):
            print(f"{path} has no source", file=sys.stderr)
        sys.exit(1)
    return files


def report(tools, files):
    """The table of all kernels, as text, and the sentences on what is wrong."""
    faults = []
    architectures = " ".join(f"{name:>6}" for name in ARCHITECTURES)
    lines = [f"{'registers of a thread, occupancy in %':<38}{architectures}  shared bytes"]
    for file in files:
        text = file.read_text(encoding="utf-8")
        target = re.search(r"^\.target (sm_\d+)", text, re.MULTILINE)[1]
        able = [name for name in ARCHITECTURES if number_of(name) >= number_of(target)]
        by_architecture = {name: tools.assemble(file, name) for name in able}
        threads = threads_of(text)
        lines.append(f"{file.name}, {file.stat().st_size / 1000:.0f} kB")
        for kernel in sorted(by_architecture[able[0]]):
            resources = {name: found[kernel] for name, found in by_architecture.items()}
            registers = " ".join(f"{resources[name].registers if name in able else '-':>6}" for name in ARCHITECTURES)
            lines.append(f"  {kernel:<36}{registers}  {max(found.shared for found in resources.values()):>6}")
            if kernel in threads:
                held = {name: occupancy(resources[name], threads[kernel], name) for name in able}
                held = " ".join(f"{held.get(name, '-'):>6}" for name in ARCHITECTURES)
                lines.append(f"  {f'  in blocks of {threads[kernel]}':<36}{held}")
            for name, found in resources.items():
                if found.spills or found.stack:
                    faults.append(f"{kernel} on {name}: {found.spills} bytes spilled, {found.stack} bytes of stack")
    total = sum(file.stat().st_size for file in files)
    if total > MOST_BYTES:
        faults.append(f"{total} bytes of PTX; {MOST_BYTES} are the most")
    return "".join(f"{line}\n" for line in lines), faults


def main():
    tools = Tools()
    check = "--check" in sys.argv[1:]
    table, faults = report(tools, build(tools, check))
    print(table, end="")
    if not check:
        TABLE.write_text(table, encoding="utf-8")
    elif not TABLE.exists() or TABLE.read_text(encoding="utf-8") != table:
        faults.append(f"{TABLE} is not what the sources give: run scripts/build-kernels.sh")
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
