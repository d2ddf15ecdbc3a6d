#include "daemon/runtime/in_process_dials.h"

#include <string>

namespace ringway::daemon {
namespace {

constexpr Duration kHoldDial = std::chrono::seconds(2);

}  // namespace

void InProcessDials::Dial(net::DialRequest request, std::uint64_t serial, TimePoint now) {
  Held dial{.request = std::move(request), .serial = serial, .until = now + kHoldDial};
  if (!Try(dial, now)) held_.push_back(std::move(dial));
}

void InProcessDials::TryHeld(TimePoint now) {
  for (Held& dial : std::exchange(held_, {})) {
    if (!Try(dial, now)) held_.push_back(std::move(dial));
  }
}

bool InProcessDials::Try(const Held& dial, TimePoint now) const {
  const net::DialRequest& request = dial.request;
  const auto from = peers_.find(request.from);
  if (from == peers_.end()) return true;
  const auto to = peers_.find(request.to);
  Status status(Code::kJoinRefused, "peer " + std::to_string(request.to.value) + " is not here any more");
  if (to != peers_.end()) {
    status = to->second->group() == request.group
                 ? to->second->AdmitInProcess(request)
                 : Status(Code::kProtocol, "peer " + std::to_string(request.to.value) + " is in another group");
  }
  const bool unknown = status.code() == Code::kJoinRefused;
  if (unknown && to != peers_.end() && !request.known && now < dial.until) return false;
  if (status.ok()) {
    from->second->ConnectInProcess(dial.serial, request, *to->second);
  } else {
    from->second->OnDialed(dial.serial, Status(unknown ? Code::kJoinRefused : Code::kPeerUnreachable, status.text()));
  }
  return true;
}

}  // namespace ringway::daemon
