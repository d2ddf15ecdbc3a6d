#include "daemon/buffers/feedback.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/kernels/reduce.h"
#include "proto/check.h"

namespace ringway::buffers {

Result<std::shared_ptr<ChargedBytes>> ChargedBytes::Make(std::uint64_t bytes,
                                                         const std::shared_ptr<MemoryShare>& share) {
  std::unique_ptr<const MemoryCharge> charge;
  if (share != nullptr) {
    if (Status taken = share->Take(MemoryUse::kResiduals, bytes); !taken.ok()) return taken;
    charge = std::make_unique<const MemoryCharge>(share, MemoryUse::kResiduals, bytes);
  }
  return std::make_shared<ChargedBytes>(bytes, std::move(charge));
}

// calloc takes large memory from the system, where it is zero already.
ChargedBytes::ChargedBytes(std::uint64_t bytes, std::unique_ptr<const MemoryCharge> charge)
    : charge_(std::move(charge)),
      bytes_(static_cast<std::byte*>(std::calloc(std::max<std::uint64_t>(bytes, 1), 1))),
      size_(bytes) {
  RINGWAY_CHECK(bytes_ != nullptr);
}

// ---------------------------------------------------------------------------------------------- one operation

std::uint64_t FeedbackBuffers::stageable() const {
  const std::uint64_t ready = std::min(parts_.trainers->input_ready(), parts_.sum->size());
  return ready - ready % SizeOf(dtype_);
}

FeedbackBuffers::Slice FeedbackBuffers::NextSlice(std::uint64_t bytes_max) const {
  const std::uint64_t element_bytes = SizeOf(dtype_);
  const std::uint64_t count_max = std::max(bytes_max / element_bytes, std::uint64_t{1});
  return {.begin = staged_ / element_bytes, .count = std::min(count_max, (stageable() - staged_) / element_bytes)};
}

std::uint64_t FeedbackBuffers::Stage(std::uint64_t bytes_max) {
  if (!can_stage()) return 0;
  const auto [begin, count] = NextSlice(bytes_max);
  kernels::AddResidual(dtype_, parts_.sum->data() + staged_, parts_.loss->floats() + begin,
                       parts_.trainers->input() + staged_, parts_.residual->floats() + begin, count);
  staged_ += count * SizeOf(dtype_);
  return count * SizeOf(dtype_);
}

// Not by way of the sum, which a narrow dtype may not hold.
std::uint64_t FeedbackBuffers::Keep(std::uint64_t bytes_max) {
  if (!std::exchange(keeps_, true)) Restart();
  if (!can_stage()) return 0;
  const auto [begin, count] = NextSlice(bytes_max);
  kernels::KeepInput(dtype_, parts_.loss->floats() + begin, parts_.trainers->input() + staged_,
                     parts_.residual->floats() + begin, count);
  staged_ += count * SizeOf(dtype_);
  return count * SizeOf(dtype_);
}

// ---------------------------------------------------------------------------------------------- all names

Result<std::shared_ptr<FeedbackBuffers>> ResidualBook::Begin(std::uint64_t name, const Descriptor& descriptor,
                                                             std::shared_ptr<OpBuffers> trainers,
                                                             const std::shared_ptr<MemoryShare>& share) {
  if (name == 0) return std::shared_ptr<FeedbackBuffers>();
  const std::uint64_t wide_bytes = descriptor.count * sizeof(float);
  const auto known = residuals_.find(name);
  if (known != residuals_.end() && known->second.in_use) {
    return Status(Code::kInvalidArgument,
                  "an operation with this error_feedback is not done, so nothing was submitted: wait for it, or give "
                  "each its own name");
  }
  if (known == residuals_.end() && residuals_.size() >= kNamesMax) {
    return Status(Code::kResourceExhausted, "there are " + std::to_string(kNamesMax) +
                                                " names of error_feedback already, as many as a peer may have");
  }
  auto sum = ChargedBytes::Make(descriptor.count * SizeOf(descriptor.dtype), share);
  if (!sum.ok()) return sum.status();
  auto loss = ChargedBytes::Make(wide_bytes, share);
  if (!loss.ok()) return loss.status();
  const bool fits = known != residuals_.end() && known->second.values->size() == wide_bytes &&
                    known->second.dtype == descriptor.dtype;
  if (!fits) {
    auto values = ChargedBytes::Make(wide_bytes, share);
    if (!values.ok()) return values.status();
    residuals_[name] = {.dtype = descriptor.dtype, .values = std::move(values).value()};
  }
  Residual& residual = residuals_[name];
  residual.in_use = true;
  return std::make_shared<FeedbackBuffers>(descriptor.dtype, FeedbackBuffers::Parts{.trainers = std::move(trainers),
                                                                                    .residual = residual.values,
                                                                                    .sum = std::move(sum).value(),
                                                                                    .loss = std::move(loss).value()});
}

void ResidualBook::End(std::uint64_t name, FeedbackBuffers& operation, bool committed) {
  const auto known = residuals_.find(name);
  RINGWAY_CHECK(known != residuals_.end() && known->second.in_use);
  known->second.in_use = false;
  operation.Release();
  if (committed || operation.is_kept()) known->second.values = operation.loss();
}

}  // namespace ringway::buffers
