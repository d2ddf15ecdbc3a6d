#include "tests/history/history.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

namespace ringway::history {
namespace {

constexpr std::size_t kSamples = 12;
// Sums of 64 such values, and their sketches, are exact.
constexpr double kExactMax = 1 << 18;

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

// Positions of samples among `count` elements, in order: the ends, and others by the salt.
std::vector<std::uint64_t> Places(std::size_t count, std::uint64_t salt) {
  std::set<std::uint64_t> places;
  for (std::uint64_t i = 0; i < std::min(count, kSamples); ++i) {
    const std::uint64_t drawn = (salt + i) * 0x9E3779B97F4A7C15U;
    places.insert(count <= kSamples ? i : i == 0 ? 0 : i == 1 ? count - 1 : (drawn ^ drawn >> 31) % count);
  }
  return {places.begin(), places.end()};
}

std::uint64_t WeightOf(std::uint64_t element) { return 1 + (element * 2654435761U & 0xFFFFFFFFU) / 65536; }

template <typename T>
T ValueAt(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

double HalfValue(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : std::numeric_limits<double>::infinity();
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
}

// Returns the value of a floating-point element; the sign of a half is left out.
double FloatAt(const Reduced& elements, std::size_t index) {
  switch (elements.dtype) {
    case DType::kF16:
      return HalfValue(ValueAt<std::uint16_t>(elements.data, index));
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(ValueAt<std::uint16_t>(elements.data, index) & 0x7FFFU)
                                  << 16);
    case DType::kF32:
      return ValueAt<float>(elements.data, index);
    default:
      return ValueAt<double>(elements.data, index);
  }
}

std::uint64_t BitsAt(const Reduced& elements, std::size_t index) {
  switch (SizeOf(elements.dtype)) {
    case 1:
      return ValueAt<std::uint8_t>(elements.data, index);
    case 2:
      return ValueAt<std::uint16_t>(elements.data, index);
    case 4:
      return ValueAt<std::uint32_t>(elements.data, index);
    default:
      return ValueAt<std::uint64_t>(elements.data, index);
  }
}

// A weighted sum of all elements, which is linear: of integers modulo 2^bits, of floats where all are small whole
// numbers, so that it is exact; else nothing.
std::optional<std::string> SketchOf(const Reduced& elements) {
  const std::size_t bits = 8 * SizeOf(elements.dtype);
  if (IsInteger(elements.dtype)) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < elements.part.count; ++i) {
      sum += WeightOf(elements.part.begin + i) * BitsAt(elements, i);
    }
    return std::to_string(bits == 64 ? sum : sum & ((std::uint64_t{1} << bits) - 1));
  }
  if (elements.dtype == DType::kF16 || elements.dtype == DType::kBF16) return std::nullopt;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < elements.part.count; ++i) {
    const double value = FloatAt(elements, i);
    if (!(std::abs(value) <= kExactMax) || value != std::floor(value)) return std::nullopt;
    sum += static_cast<std::int64_t>(WeightOf(elements.part.begin + i)) * static_cast<std::int64_t>(value);
  }
  return std::to_string(sum);
}

double LargestOf(const Reduced& elements) {
  double largest = 0;
  for (std::size_t i = 0; !IsInteger(elements.dtype) && i < elements.part.count; ++i) {
    const double value = std::abs(FloatAt(elements, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

void AppendHex(const void* bytes, std::size_t count, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = std::to_integer<unsigned>(static_cast<const std::byte*>(bytes)[i]);
    *out += kDigits[byte >> 4];
    *out += kDigits[byte & 15];
  }
}

std::string ListOf(const std::vector<std::uint64_t>& numbers) {
  std::string out;
  for (const std::uint64_t number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return "[" + out + "]";
}

}  // namespace

Object& Object::AddRaw(std::string_view name, std::string_view json) {
  members_.append(members_.empty() ? "" : ",").append(Quoted(name)).append(":").append(json);
  return *this;
}
Object& Object::Add(std::string_view name, std::string_view text) { return AddRaw(name, Quoted(text)); }
Object& Object::Add(std::string_view name, std::uint64_t number) { return AddRaw(name, std::to_string(number)); }
Object& Object::Add(std::string_view name, bool value) { return AddRaw(name, value ? "true" : "false"); }
Object& Object::Add(std::string_view name, double number) {
  if (!std::isfinite(number)) return AddRaw(name, "Infinity");
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", number);
  return AddRaw(name, text.data());
}
Object& Object::Add(std::string_view name, const std::vector<std::uint64_t>& numbers) {
  return AddRaw(name, ListOf(numbers));
}

std::string Describe(const Reduced& elements) {
  std::vector<std::uint64_t> at;
  std::string values;
  const std::size_t size = SizeOf(elements.dtype);
  for (const std::uint64_t place : Places(elements.whole, elements.salt)) {
    if (place < elements.part.begin || place >= elements.part.begin + elements.part.count) continue;
    at.push_back(place);
    AppendHex(static_cast<const std::byte*>(elements.data) + (place - elements.part.begin) * size, size, &values);
  }
  return Object()
      .AddRaw("sketch", SketchOf(elements).value_or("null"))
      .Add("max", LargestOf(elements))
      .Add("at", at)
      .Add("values", values)
      .Add("whole", elements.part.count == elements.whole)
      .Text();
}

std::string DescribePieces(const void* data, const std::vector<std::size_t>& bytes) {
  std::string list;
  std::size_t begin = 0;
  for (const std::size_t piece : bytes) {
    list +=
        (list.empty() ? "\"" : ",\"") + HexOf(XXH3_64bits(static_cast<const std::byte*>(data) + begin, piece)) + "\"";
    begin += piece;
  }
  return Object().AddRaw("pieces", "[" + list + "]").Text();
}

std::string HexOf(std::uint64_t number) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016lx", static_cast<unsigned long>(number));
  return text.data();
}

Writer::Writer(const std::string& path)
    : fd_(path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}

Writer::~Writer() {
  if (fd_ >= 0) ::close(fd_);
}

bool Writer::Write(std::string_view event, const Object& members) const {
  if (fd_ < 0) return true;
  using std::chrono::steady_clock, std::chrono::milliseconds;
  const auto now = std::chrono::duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  const std::string rest = members.Text();
  std::string line = Object().Add("t", static_cast<std::uint64_t>(now)).Add("event", event).Text();
  line.back() = ',';
  line.append(std::string_view(rest).substr(1)).append("\n");
  if (rest == "{}") line.erase(line.size() - 3, 1);  // the comma
  return ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace ringway::history
