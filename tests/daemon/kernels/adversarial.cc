#include "tests/daemon/kernels/adversarial.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/daemon/kernels/reference.h"

namespace ringway::kernels {
namespace {

enum class Temper {
  kOrdinary,
  kTiny,
  kHuge,
  kMixed,
  kNearFlush,
  kSubnormal,
  kGrid,
  kAnyBits,
  kConstant,
  kNarrow,
  kOneSided,
  kHalfRange,
  kHalfSubnormal,
  kCount
};

float ValueOf(Temper temper, float top, std::mt19937_64& random) {
  const float u = std::uniform_real_distribution<float>(-1, 1)(random);
  const std::uint32_t bits = static_cast<std::uint32_t>(random());
  switch (temper) {
    case Temper::kTiny:
      return u * 0x1p-95f;
    case Temper::kHuge:
      return random() % 8 == 0 ? std::copysign(FLT_MAX, u) : u * FLT_MAX;
    case Temper::kMixed:
      return std::ldexp(u, static_cast<int>(random() % 240) - 120);
    case Temper::kNearFlush:
      return u * 0x1.00001p-100f;
    case Temper::kSubnormal:
      return FloatOf(bits & 0x807fffff);
    case Temper::kGrid:  // ties of the codes, and exact multiples of the scale
      return top * static_cast<float>(static_cast<int>(random() % 511) - 255) / 254.0f;
    case Temper::kAnyBits:
      return FloatOf(bits);
    case Temper::kConstant:
      return top;
    case Temper::kNarrow:  // less than the last places of a code apart
      return top + u * top * 0x1p-18f;
    case Temper::kOneSided:
      return std::fabs(u) * top;
    case Temper::kHalfRange:  // f16's whole range
      return u * 0x1.1p16f;
    case Temper::kHalfSubnormal:
      return std::trunc(u * 300) * 0x1p-24f;
    default:
      return u * top;
  }
}

void AppendBlock(std::vector<float>& values, std::size_t count, std::mt19937_64& random) {
  const auto temper = static_cast<Temper>(random() % static_cast<std::uint64_t>(Temper::kCount));
  const float top = std::uniform_real_distribution<float>(-2, 2)(random);
  const std::size_t begin = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(ValueOf(temper, top, random));
  if (count == 0) return;
  if (random() % 4 == 0) values[begin + random() % count] = -0.0f;
  if (random() % 8 == 0) values[begin + random() % count] = FloatOf(random() % 2 == 0 ? 0xffa00001 : 0xff800000);
}

}  // namespace

std::uint32_t BitsOf(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float FloatOf(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

std::vector<unsigned char> ElementsOf(DType dtype, const std::vector<float>& values) {
  std::vector<unsigned char> elements(values.size() * SizeOf(dtype));
  if (dtype == DType::kF32 && !values.empty()) {
    std::memcpy(elements.data(), values.data(), elements.size());
    return elements;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    reference::SetElement(dtype, elements.data(), i, reference::ToBits(dtype, static_cast<double>(values[i])));
  }
  return elements;
}

std::vector<float> FloatsOf(DType dtype, const std::vector<unsigned char>& elements) {
  std::vector<float> values;
  for (std::size_t i = 0; i < elements.size() / SizeOf(dtype); ++i) {
    values.push_back(static_cast<float>(reference::ToNumber(dtype, reference::ElementAt(dtype, elements.data(), i))));
  }
  return values;
}

std::vector<unsigned char> Adversarial(DType dtype, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t block = std::size_t{kBlockMin} << random() % 6;
  std::vector<float> values;
  while (values.size() < count) AppendBlock(values, std::min(block, count - values.size()), random);
  return ElementsOf(dtype, values);
}

}  // namespace ringway::kernels
