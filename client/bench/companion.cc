#include "client/bench/companion.h"

#include <cstring>
#include <utility>

namespace ringway::bench {
namespace {

constexpr std::uint32_t kChannel = 1;  // the measured operations use channel 0

}  // namespace

Companion::Companion(Session* session, std::size_t bytes, std::chrono::milliseconds timeout)
    : session_(session), bytes_(bytes), timeout_(timeout) {}

Status Companion::Allocate() {
  for (Buffer* const buffer : {&input_, &output_}) {
    auto allocated = session_->Allocate(bytes_);
    if (!allocated.ok()) return allocated.status();
    *buffer = std::move(allocated.value());
  }
  std::memset(input_.data(), 0, bytes_);
  return {};
}

Status Companion::RunOnce() {
  if (Status error = Submit(); !error.ok()) return error;
  return WaitForOldest();
}

Status Companion::KeepBusy() {
  if (busy()) return {};
  if (!works_.empty()) {
    if (Status error = WaitForOldest(); !error.ok()) return error;
  }
  return Submit();
}

bool Companion::busy() { return !works_.empty() && !works_.front().Test(); }

Status Companion::Finish(std::uint64_t submitted) {
  while (submitted_ < submitted) {
    if (Status error = Submit(); !error.ok()) return error;
  }
  while (!works_.empty()) {
    if (Status error = WaitForOldest(); !error.ok()) return error;
  }
  return {};
}

Status Companion::Submit() {
  auto work = session_->AllReduceAsync(input_.data(), output_.data(), bytes_ / sizeof(float), DType::kF32,
                                       ReduceOp::kSum, {.channel = kChannel});
  if (!work.ok()) return work.status();
  works_.push_back(std::move(work.value()));
  ++submitted_;
  return {};
}

Status Companion::WaitForOldest() {
  Status error = works_.front().Wait(timeout_).status();
  works_.pop_front();
  return error;
}

}  // namespace ringway::bench
