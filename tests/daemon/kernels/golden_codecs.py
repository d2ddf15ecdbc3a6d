#!/usr/bin/env python3
"""Writes golden_codecs.inc: blocks of elements, their wire bytes and what these decode to, by NumPy and ml_dtypes.

    python3 -m venv venv && venv/bin/pip install numpy ml_dtypes
    venv/bin/python tests/daemon/kernels/golden_codecs.py > tests/daemon/kernels/golden_codecs.inc

Follows daemon/kernels/codec.h, and shares nothing with its code. By hand only: the result is in the repository.
"""

import fractions
import math
import struct

import ml_dtypes
import numpy as np

F32 = np.float32
DTYPES = {"kF32": np.dtype(F32), "kF16": np.dtype(np.float16), "kBF16": np.dtype(ml_dtypes.bfloat16)}
FLUSH = 2.0**-100


def nearest_even(x):
    return np.rint(x).astype(np.int64)


def scale_of(m, top):
    """m / top up to 16 significant bits, exactly."""
    exact = fractions.Fraction(float(m)) / top
    exponent = math.frexp(float(exact))[1]
    unit = fractions.Fraction(2) ** (exponent - 16)
    scale = math.ceil(exact / unit) * unit
    while scale * top > fractions.Fraction(float(np.finfo(F32).max)):
        scale -= unit
    return F32(float(scale))


def packed(codes, bits):
    codes = [int(code) & ((1 << bits) - 1) for code in codes]
    if bits == 8:
        return bytes(codes)
    codes += [0] * (len(codes) % 2)
    return bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))


def symmetric(x, bits, _dtype):
    top = 2 ** (bits - 1) - 1
    if not np.isfinite(x).all():
        return struct.pack("<I", 0x7FC00000) + packed([0] * len(x), bits), np.full(len(x), np.nan, F32)
    m = np.abs(x).max()
    if m < FLUSH:
        return bytes(4) + packed([0] * len(x), bits), np.zeros(len(x), F32)
    scale = scale_of(m, top)
    codes = nearest_even(x / scale)
    return struct.pack("<f", scale) + packed(codes, bits), codes.astype(F32) * scale


def min_max(x, bits, _dtype):
    steps = 2**bits - 1
    if not np.isfinite(x).all():
        return struct.pack("<II", 0x7FC00000, 0x7FC00000) + packed([0] * len(x), bits), np.full(len(x), np.nan, F32)
    x = np.clip(x, F32(-(2.0**126)), F32(2.0**126))
    low, high = x.min() + F32(0), x.max() + F32(0)
    difference = np.float64(high) - np.float64(low)
    if difference < FLUSH:
        return struct.pack("<ff", low, low) + packed([0] * len(x), bits), np.full(len(x), low, F32)
    step = F32(difference / steps)
    codes = nearest_even((x - low) / step)
    decoded = np.where(codes == steps, high, low + codes.astype(F32) * step).astype(F32)
    return struct.pack("<ff", low, high) + packed(codes, bits), decoded


def fp8(x, small, dtype):
    top = F32(ml_dtypes.finfo(small).max)
    if not np.isfinite(x).all():
        return b"\xff" + bytes(len(x)), np.full(len(x), np.nan, F32)
    m = np.abs(x).max()
    if m < FLUSH:
        return bytes(1 + len(x)), np.zeros(len(x), F32)
    limit = 65504.0 if dtype == "kF16" else float(np.finfo(F32).max)
    for exponent in range(-126, 127):
        scale = np.float64(2.0) ** exponent
        # Past the largest finite number ml_dtypes makes NaN or infinity.
        with np.errstate(over="ignore"):
            fits = np.isfinite(np.array(np.float64(m) / scale).astype(small).astype(F32))
        if fits or float(top) * scale * 2 > limit:
            break
    codes = np.clip(x.astype(np.float64) / scale, -np.float64(top), np.float64(top)).astype(small)
    return bytes([exponent + 127]) + codes.tobytes(), (codes.astype(np.float64) * scale).astype(F32)


def cast(x, small, _dtype):
    with np.errstate(over="ignore"):
        codes = x.astype(small)
    codes = np.where(np.isnan(x), np.array(np.nan, small), codes).astype(small)
    return codes.tobytes(), codes.astype(F32)


CODECS = {
    "bf16": (0, lambda x, dtype: cast(x, ml_dtypes.bfloat16, dtype)),
    "f16": (0, lambda x, dtype: cast(x, np.float16, dtype)),
    "int8": (32, lambda x, dtype: symmetric(x, 8, dtype)),
    "int4": (32, lambda x, dtype: symmetric(x, 4, dtype)),
    "int8_zp": (32, lambda x, dtype: min_max(x, 8, dtype)),
    "int4_zp": (32, lambda x, dtype: min_max(x, 4, dtype)),
    "fp8_e4m3": (32, lambda x, dtype: fp8(x, ml_dtypes.float8_e4m3fn, dtype)),
    "fp8_e5m2": (32, lambda x, dtype: fp8(x, ml_dtypes.float8_e5m2, dtype)),
}


def inputs(dtype):
    random = np.random.default_rng(2)
    largest = float(ml_dtypes.finfo(dtype).max)
    rows = [
        random.standard_normal(9),
        random.standard_normal(13) * 0.02 + 1.0,
        np.abs(random.standard_normal(8)),
        random.standard_normal(11) * 2.0 ** random.integers(-12, 12, 11),
        np.array([127.0, 0.5, 1.5, -2.5, 3.5, -126.5]),
        np.array([7.0, 0.5, 1.5, -2.5, 3.5, -6.5, 0.0]),
        np.array([0.0, -0.0, 0.0]),
        np.array([-3.25] * 5),
        np.array([largest, -largest, largest / 2, 1.0]),
        np.array([1.8125, -1.875, 1.0, 2.0**-9]),
        np.array([448.0, 464.0, -465.0, 57344.0, 61440.0]),
        np.array([1.0, np.inf, 2.0]),
        np.array([1.0, np.nan, -1.0]),
        np.array([2.0**-100, -(2.0**-101), 2.0**-120]),
        np.array([2.0**-101, -(2.0**-102)]),
        random.standard_normal(45),  # a block and a part of one
    ]
    with np.errstate(over="ignore"):
        return [row.astype(dtype) for row in rows]


def bits_of(values):
    return values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint16)


def words(values):
    return "{" + ", ".join(f"{int(bits):#x}" for bits in bits_of(values)) + "}"


def main():
    print("// Made by golden_codecs.py with NumPy", np.__version__, "and ml_dtypes", ml_dtypes.__version__ + ".")
    print("// clang-format off\nconst GoldenBlock kGoldenBlocks[] = {")
    for name, (block, encode) in CODECS.items():
        for tag, dtype in DTYPES.items():
            if {name, tag} in ({"bf16", "kF16"}, {"f16", "kBF16"}):
                continue
            for values in inputs(dtype):
                wide = values.astype(F32)
                parts = [wide[i : i + block] for i in range(0, len(wide), block)] if block else [wide]
                encoded = [encode(part, tag) for part in parts]
                wire = b"".join(part[0] for part in encoded)
                with np.errstate(over="ignore"):
                    decoded = np.concatenate([part[1] for part in encoded]).astype(dtype)
                decoded = np.where(np.isnan(decoded), np.array(np.nan, dtype), decoded).astype(dtype)
                print(f'    {{"{name}", {block}, DType::{tag}, {words(values)},')
                print(f'     "{wire.hex()}", {words(decoded)}}},')
    print("};\n// clang-format on")


if __name__ == "__main__":
    main()
