#include "daemon/flow/path_memory.h"

#include <algorithm>

namespace ringway::flow {
namespace {

// Operations that did not fill the path have shown less than it carries.
constexpr double kMoreThanSeen = 1.25;

}  // namespace

void PathMemory::Keep(const std::string& host, const RateLimit& rate_limit, TimePoint measured_at) {
  const auto found = hosts_.find(host);
  if (found != hosts_.end() && found->second.measured_at > measured_at) return;
  hosts_.insert_or_assign(host, Known{.rate_limit = rate_limit, .measured_at = measured_at});
  if (hosts_.size() <= kHostsMax) return;
  hosts_.erase(std::min_element(hosts_.begin(), hosts_.end(), [](const auto& a, const auto& b) {
    return a.second.measured_at < b.second.measured_at;
  }));
}

RateLimit PathMemory::Recall(const std::string& host, TimePoint now) const {
  RateLimit fresh(share_);
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return fresh;
  const auto& [rate_limit, measured_at] = found->second;
  if (rate_limit.limit() > 0 && now - measured_at <= kFresh) return rate_limit;
  const double passed = rate_limit.limit() > 0 ? rate_limit.limit() : kMoreThanSeen * rate_limit.carries();
  if (passed > 0) fresh.Assume(passed);
  return fresh;
}

}  // namespace ringway::flow
