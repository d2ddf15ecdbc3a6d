#include "proto/collective/error_bound.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace ringway::collective {
namespace {

struct Value {
  double magnitude = 0;  // of exact arithmetic
  double error = 0;
};

// Half of the last place of a number in [1, 2).
double RoundingOf(DType dtype) {
  if (dtype == DType::kF16) return 0x1p-11;
  return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
}

class WorstCase {
 public:
  WorstCase(const Transfers& transfers, const Descriptor& descriptor, std::uint32_t world_size)
      : transfers_(transfers),
        descriptor_(descriptor),
        world_size_(world_size),
        rounding_(RoundingOf(descriptor.dtype)),
        codec_error_(ErrorOf(descriptor.codec)),
        arrivals_(world_size * transfers.weights.size()),
        sends_on_(arrivals_.size()),
        sums_(arrivals_.size()) {
    for (const Transfer& transfer : transfers.all) {
      if (!transfer.reduce) continue;
      arrivals_[At(transfer.to.value, transfer.chunk)].push_back(transfer.from.value);
      if (!transfers.everyone_sums) sends_on_[At(transfer.from.value, transfer.chunk)] = true;
    }
  }

  double Error() {
    if (!Reduces(descriptor_.kind)) return Encoded({1, 0}).error;
    double worst = 0;
    for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
      for (std::uint32_t chunk = 0; chunk < transfers_.weights.size(); ++chunk) {
        if (arrivals_[At(rank, chunk)].empty() || sends_on_[At(rank, chunk)]) continue;
        worst = std::max(worst, Finished(SumAt(rank, chunk)).error);
      }
    }
    return worst;
  }

 private:
  std::size_t At(std::uint32_t rank, std::uint32_t chunk) const { return rank * transfers_.weights.size() + chunk; }
  bool any_weights() const { return descriptor_.op == ReduceOp::kAvg && descriptor_.has_input_set(); }
  // A contribution, in units of the largest; of an average K times that.
  Value Own() const { return {any_weights() ? static_cast<double>(world_size_) : 1, 0}; }
  double Rounded(const Value& value) const { return value.error + rounding_ * (value.magnitude + value.error); }

  Value Encoded(const Value& value) const {
    const Value coded{value.magnitude, value.error + codec_error_ * (value.magnitude + value.error)};
    return {coded.magnitude, Rounded(coded)};
  }
  Value Combined(const Value& a, const Value& b) const {
    if (descriptor_.op == ReduceOp::kMin || descriptor_.op == ReduceOp::kMax)
      return {std::max(a.magnitude, b.magnitude), std::max(a.error, b.error)};
    // The largest of them may have any part of the weight, but all together no more than all of it.
    const double magnitude = a.magnitude + b.magnitude;
    const Value sum{any_weights() ? std::min<double>(magnitude, world_size_) : magnitude, a.error + b.error};
    return {sum.magnitude, Rounded(sum)};
  }
  Value Finished(Value value) const {
    if (descriptor_.op == ReduceOp::kAvg) {
      value = {value.magnitude / world_size_, value.error / world_size_};
      value.error = Rounded(value);
    }
    return IsTheSameOnAll(descriptor_.kind) ? Encoded(value) : value;
  }

  // Returns what a rank makes of its own contribution and what arrives. Depths are those of the schedules: at most K.
  Value SumAt(std::uint32_t rank, std::uint32_t chunk) {
    std::optional<Value>& sum = sums_[At(rank, chunk)];
    if (sum) return *sum;
    Value total = transfers_.everyone_sums ? Encoded(Own()) : Own();
    for (const std::uint32_t from : arrivals_[At(rank, chunk)]) {
      total = Combined(total, Encoded(transfers_.everyone_sums ? Own() : SumAt(from, chunk)));
    }
    sum = total;
    return total;
  }

  const Transfers& transfers_;
  const Descriptor& descriptor_;
  const std::uint32_t world_size_;
  const double rounding_;
  const double codec_error_;
  std::vector<std::vector<std::uint32_t>> arrivals_;  // of sums: their senders, by rank and chunk
  std::vector<bool> sends_on_;
  std::vector<std::optional<Value>> sums_;
};

}  // namespace

double ErrorBound(const Transfers& transfers, const Descriptor& descriptor, std::uint32_t world_size) {
  const bool moves = !IsEmpty(descriptor.kind) && world_size > 1;
  if (!moves || InfoOf(descriptor.codec).error.relative_max == 0) return 0;
  if (descriptor.op == ReduceOp::kProd && Reduces(descriptor.kind)) return std::numeric_limits<double>::infinity();
  return WorstCase(transfers, descriptor, world_size).Error();
}

}  // namespace ringway::collective
