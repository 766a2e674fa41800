// Pairs of float16 values in a word, the first in its lower half. All of it is IEEE arithmetic, denormals
// included, every operation rounding once.
#pragma once

#include "common.cuh"

DEVICE u32 add_pairs(u32 a, u32 b) {
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

DEVICE u32 multiply_pairs(u32 a, u32 b) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// The float16 nearest to each, `first` in the lower half.
DEVICE u32 pair_of(float first, float second) {
    u32 pair;
    asm("{.reg .f16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}"
        : "=r"(pair)
        : "f"(first), "f"(second));
    return pair;
}

// a * b + c
DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
    u32 sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

// The same, clamped to 0..1.
DEVICE u32 fma_pairs_saturated(u32 a, u32 b, u32 c) {
    u32 sum;
    asm("fma.rn.sat.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

DEVICE float first_of(u32 pair) {
    float value;
    asm("{.reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(value) : "r"(pair));
    return value;
}

DEVICE float second_of(u32 pair) {
    float value;
    asm("{.reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(value) : "r"(pair));
    return value;
}
