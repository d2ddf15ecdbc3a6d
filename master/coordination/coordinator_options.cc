#include "master/coordination/coordinator_options.h"

#include <algorithm>

namespace ringway {
namespace {

// How long a recovery waits for reports of the accused: a long round trip.
constexpr Duration kWeighMin = std::chrono::milliseconds(50);

control::Plan PlanOf(const CoordinatorOptions& options) {
  control::Plan plan;
  plan.set_segment_bytes_max(options.segment_bytes_max);
  plan.set_small_bytes_max(options.small_bytes_max);
  plan.set_retained_bytes_max(options.retained_bytes_max);
  plan.set_eager_bytes_max(options.eager_bytes_max);
  plan.set_heartbeat_ms(options.heartbeat_ms);
  plan.set_detect_ms(options.detect_ms);
  return plan;
}

}  // namespace

GroupOptions OptionsOfGroups(const CoordinatorOptions& options) {
  const Duration detect = std::chrono::milliseconds(options.detect_ms);
  return {.plan = PlanOf(options),
          .detect = detect,
          .detect_far = std::max<Duration>(detect, std::chrono::milliseconds(options.detect_far_ms)),
          .back = kReturn,
          .grace = std::chrono::milliseconds(options.partition_grace_ms),
          .forget = std::chrono::milliseconds(options.forget_ms),
          .pricing = options.pricing,
          .weigh = std::max<Duration>(kWeighMin, detect / 10)};
}

}  // namespace ringway
