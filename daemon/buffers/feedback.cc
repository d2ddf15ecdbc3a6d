#include "daemon/buffers/feedback.h"

#include <algorithm>
#include <cstring>
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

// ---------------------------------------------------------------------------------------------- one operation

void FeedbackBuffers::ForgetLoss() {
  if (parts_.loss->size() > 0) std::memset(parts_.loss->data(), 0, parts_.loss->size());
}

std::uint64_t FeedbackBuffers::stageable() const {
  const std::uint64_t ready = std::min(parts_.trainers->input_ready(), parts_.sum->size());
  return ready - ready % SizeOf(dtype_);
}

std::uint64_t FeedbackBuffers::Stage(std::uint64_t bytes_max) {
  if (!can_stage()) return 0;
  const std::uint64_t element_bytes = SizeOf(dtype_);
  const std::uint64_t count =
      std::min(std::max(bytes_max / element_bytes, std::uint64_t{1}), (stageable() - staged_) / element_bytes);
  kernels::Reduce(dtype_, ReduceOp::kSum, parts_.sum->data() + staged_, parts_.trainers->input() + staged_,
                  parts_.residual->data() + staged_, count);
  staged_ += count * element_bytes;
  return count * element_bytes;
}

// ---------------------------------------------------------------------------------------------- all names

Result<std::shared_ptr<FeedbackBuffers>> ResidualBook::Begin(std::uint64_t name, const Descriptor& descriptor,
                                                             std::shared_ptr<OpBuffers> trainers,
                                                             const std::shared_ptr<MemoryShare>& share) {
  const std::uint64_t bytes = descriptor.count * SizeOf(descriptor.dtype);
  const auto known = residuals_.find(name);
  if (known != residuals_.end() && known->second.in_use) {
    return Status(Code::kInvalidArgument,
                  "an operation with this error_feedback is not done: wait for it, or give each its own name");
  }
  if (known != residuals_.end() && (known->second.values->size() != bytes || known->second.dtype != descriptor.dtype)) {
    return Status(Code::kInvalidArgument, "this error_feedback was of " + std::to_string(known->second.values->size()) +
                                              " bytes of " + NameOf(known->second.dtype) +
                                              " before: give another tensor another name");
  }
  if (known == residuals_.end() && residuals_.size() >= kNamesMax) {
    return Status(Code::kResourceExhausted, "there are " + std::to_string(kNamesMax) + " names of error_feedback");
  }
  FeedbackBuffers::Parts parts{.trainers = std::move(trainers), .residual = nullptr, .sum = nullptr, .loss = nullptr};
  auto sum = ChargedBytes::Make(bytes, share);
  if (!sum.ok()) return sum.status();
  auto loss = ChargedBytes::Make(bytes, share);
  if (!loss.ok()) return loss.status();
  parts.sum = std::move(sum).value();
  parts.loss = std::move(loss).value();
  if (known == residuals_.end()) {
    auto values = ChargedBytes::Make(bytes, share);
    if (!values.ok()) return values.status();
    residuals_[name] = {.dtype = descriptor.dtype, .values = std::move(values).value()};
  }
  Residual& residual = residuals_[name];
  residual.in_use = true;
  parts.residual = residual.values;
  return std::make_shared<FeedbackBuffers>(descriptor.dtype, std::move(parts));
}

void ResidualBook::End(std::uint64_t name, const FeedbackBuffers& operation, bool committed) {
  const auto known = residuals_.find(name);
  RINGWAY_CHECK(known != residuals_.end() && known->second.in_use);
  known->second.in_use = false;
  if (committed) known->second.values = operation.loss();
}

}  // namespace ringway::buffers
