// A copy from device memory to device memory: what kernels that read and write each byte once are compared with. Of
// pictures of a few MB the driver's own copy takes up to twice as long; of 4K RGBA it is faster by a fiftieth.
//
// Of some forty ways to copy (up to eight pieces a thread, blocks of 64 to 1024 threads, a grid that stays, the bulk copy
// engine) this one is, on an H200, within 2 % of the fastest for each size of a picture up to 1080p. Hints that nothing is
// read again make frames that are cold a fifteenth faster, and others as much slower. For 1080p GRAY8 nearly half the time
// is that of a launch that does nothing.
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int PIECES = CUDACONV_COPY_PIECES;

DEVICE void copy(const CudaconvCopyLaunch& launch) {
    static_assert(CUDACONV_COPY_PIECE == sizeof(uint4));
    const u32 whole = launch.bytes / sizeof(uint4), first = blockIdx.x * (THREADS * PIECES) + threadIdx.x;
    const auto address = [](cudaconv_u64 start, u32 piece) { return start + piece * static_cast<cudaconv_u64>(sizeof(uint4)); };
    uint4 pieces[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        const u32 piece = first + i * THREADS;
        if (piece < whole) pieces[i] = read_sample<uint4>(address(launch.input, piece));
    }
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        const u32 piece = first + i * THREADS;
        if (piece < whole) write_sample(address(launch.output, piece), pieces[i]);
    }
    // The bytes behind the last whole piece.
    if (first >= launch.bytes % sizeof(uint4)) return;
    const cudaconv_u64 byte = address(0, whole) + first;
    write_sample(launch.output + byte, read_sample<u8>(launch.input + byte));
}

#ifdef COPY_ON_DEVICE
KERNEL(copy_on_device, CudaconvCopyLaunch, (THREADS), copy(launch))
#endif
