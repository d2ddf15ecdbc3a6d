#include "tests/sim/message_traffic.h"

#include <array>
#include <chrono>

namespace ringway::sim {
namespace {

constexpr std::uint64_t kPauseMaxUs = 40'000;
constexpr std::uint64_t kGapMaxUs = 8'000;

}  // namespace

Duration MessageTraffic::Pause() {
  return Below(3) == 0 ? Duration() : Duration(static_cast<std::int64_t>(Below(kPauseMaxUs)));
}

void MessageTraffic::Later() {
  cluster_.events_queue().After(Duration(1 + static_cast<std::int64_t>(Below(kGapMaxUs))), [this] {
    if (stopped_) return;
    Exchange();
    Later();
  });
}

void MessageTraffic::Exchange() {
  const auto a = static_cast<std::uint32_t>(Below(cluster_.nodes()));
  const auto b = static_cast<std::uint32_t>(Below(cluster_.nodes()));
  for (const std::uint32_t node : {a, b}) {
    if (!cluster_.Here(node) || !cluster_.Joined(node)) return;
  }
  if (!cluster_.Knows(a, b) || !cluster_.Knows(b, a)) return;
  constexpr std::array<std::uint64_t, 6> kCounts = {1, 0, 300, 900, 5000, 40'000};
  constexpr std::array kDTypes = {DType::kU8, DType::kF32, DType::kF16, DType::kI64, DType::kBF16};
  MessageOrder order{.channel = static_cast<std::uint32_t>(Below(2)), .tag = static_cast<std::uint32_t>(Below(6))};
  order.count = kCounts[(order.tag + order.channel) % kCounts.size()];  // of all messages of a stream
  order.dtype = kDTypes[order.tag % kDTypes.size()];
  MessageOrder sends = order;
  sends.sends = true;
  sends.other = cluster_.IdOf(b);
  MessageOrder receives = order;
  receives.other = cluster_.IdOf(a);
  for (MessageOrder* one : {&sends, &receives}) {
    if (Below(60) == 0) ++one->count;
    one->cancels = Below(25) == 0;
  }
  const auto later = [this](std::uint32_t node, const MessageOrder& one) {
    ++waiting_;
    cluster_.events_queue().After(Pause(), [this, node, as = cluster_.IdOf(node), one] { Submit(node, as, one); });
  };
  later(a, sends);
  later(b, receives);
}

void MessageTraffic::Submit(std::uint32_t node, PeerId as, const MessageOrder& order) {
  if (cluster_.Here(node) && cluster_.Stopped(cluster_.HostOf(node))) {
    cluster_.events_queue().After(std::chrono::milliseconds(5), [this, node, as, order] { Submit(node, as, order); });
    return;
  }
  --waiting_;
  if (!cluster_.Here(node) || cluster_.IdOf(node) != as) return;  // its partner gets to know
  const std::uint64_t token = cluster_.SubmitMessage(node, order);
  if (token == 0 || !order.cancels) return;
  cluster_.events_queue().After(Pause(), [this, node, as, token] {
    const bool can = cluster_.Here(node) && cluster_.IdOf(node) == as && !cluster_.Stopped(cluster_.HostOf(node));
    if (can) cluster_.CancelMessage(node, token);
  });
}

bool MessageTraffic::Done() const {
  if (waiting_ > 0) return false;
  for (std::uint32_t node = 0; node < cluster_.nodes(); ++node) {
    if (cluster_.Here(node) && cluster_.Joined(node) && cluster_.OpenMessages(node) > 0) return false;
  }
  return true;
}

}  // namespace ringway::sim
