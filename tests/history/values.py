"""Elements as histories describe them, and what collectives make of them."""
import fractions
import math
import struct

FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f16": "e",
           "bf16": "bf16", "f32": "f", "f64": "d"}
BITS = {"u8": 8, "i8": 8, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64}
ROUNDING = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 2.0 ** -22, "f64": 2.0 ** -50}


def decode(dtype, text):
    """The elements of a hexadecimal string."""
    raw = bytes.fromhex(text)
    if dtype == "bf16":
        halves = struct.unpack(f"<{len(raw) // 2}H", raw)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    code = FORMATS[dtype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))


def wrap(dtype, value):
    """An integer as the dtype holds it: sums and products wrap."""
    bits = BITS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


def reduce_values(dtype, reduction, values, weights):
    """`weights`: of the values in an average."""
    if reduction in ("min", "max"):
        if any(isinstance(x, float) and math.isnan(x) for x in values):
            return math.nan
        return min(values) if reduction == "min" else max(values)
    if reduction == "avg" and all(math.isfinite(x) for x in values):
        exact = sum(fractions.Fraction(x) * fractions.Fraction(w) for x, w in zip(values, weights))
        return float(exact / sum(map(fractions.Fraction, weights)))  # where a float's sum may overflow
    total = values[0]
    for value in values[1:]:
        total = total * value if reduction == "prod" else total + value
    if reduction == "avg":
        total /= sum(weights)
    return wrap(dtype, total) if dtype in BITS else total


def samples(dtype, described):
    return dict(zip(described["at"], decode(dtype, described["values"])))


def close(own, wanted, found, tolerance, magnitude):
    """Whether an element is what is promised of an operation with this submission."""
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(found)
    if own["dtype"] in BITS or (own["codec"] == "none" and own["reduce"] != "avg"):
        return wanted == found
    rounding = ROUNDING[own["dtype"]] * max(abs(wanted), magnitude if own["codec"] != "none" else 0)
    return abs(wanted - found) <= tolerance + rounding  # also false if what was found is no number
