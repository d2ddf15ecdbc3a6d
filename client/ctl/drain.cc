#include "client/ctl/drain.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/ctl/table.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// What the master says of the daemon; null if it has none of this name.
Result<json> AskOf(const std::string& daemon, const shell::MasterAddress& master, std::chrono::milliseconds timeout) {
  const Result<std::string> status = shell::QueryMaster(master, timeout);
  if (!status.ok()) return status.status();
  json found;
  for (const json& each : Objects(json::parse(status.value(), nullptr, false), "daemons")) {
    if (Text(each, "name") == daemon && (found.is_null() || each.value("connected", false))) found = each;
  }
  return found;
}

// What has not happened yet; "" if nothing.
std::string Missing(const json& daemon, const DrainOrder& order) {
  if (daemon.is_null() || !daemon.value("connected", false)) return "it has lost its connection to the master";
  if (daemon.value("draining", false) == order.end) return "it has not said that it does so";
  const auto peers = daemon.value("peers", std::uint64_t{0});
  return order.end || peers == 0 ? "" : std::to_string(peers) + " peers of it have not left";
}

}  // namespace

Result<std::string> Drain(const shell::MasterAddress& master, const DrainOrder& order,
                          std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPause{100};
  const auto end = Clock::now() + timeout;
  control::ToMaster message;
  message.mutable_drain()->set_daemon(order.daemon);
  message.mutable_drain()->set_end(order.end);
  if (Status status = shell::GiveOrder(master, message, timeout); !status.ok()) return status;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const Result<json> daemon = AskOf(order.daemon, master, std::max(left, kPause));
    if (!daemon.ok())
      return Status(daemon.status().code(), order.daemon + " has the order, but " + daemon.status().text());
    const std::string missing = Missing(daemon.value(), order);
    if (missing.empty()) {
      return order.end ? order.daemon + " is in service again\n"
                       : order.daemon + " is drained: it has no trainers and takes none, until it is started anew or " +
                             "drain --end\n";
    }
    if (left <= kPause) return Status(Code::kTimeout, order.daemon + " has the order, but " + missing + ": see status");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace ringway::ctl
