// Somebody without manners at the ports of the real programs: raw connections that say whatever a test wants.
//
// Threads: one. Errors are test failures, except that the other side may close at any time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/control.pb.h"
#include "proto/stream/unique_fd.h"
#include "tests/e2e/processes.h"

namespace ringway::e2e {

// One connection to a program's port.
class Intruder {
 public:
  // "HOST:PORT", numeric.
  static Intruder ToPort(const std::string& address);

  // Sends what the other side takes. Bytes beyond its closing are dropped.
  void Say(std::string_view bytes);
  void Say(const google::protobuf::MessageLite& message);
  // Takes what comes and throws it away until the other side has closed; false if it does not within the patience.
  [[nodiscard]] bool WaitForClose();
  // The answer to a LinkHello: its code, or kCodeCount if the connection was closed without one.
  std::uint32_t WaitForLinkReply();

 private:
  explicit Intruder(net::UniqueFd fd) : fd_(std::move(fd)) {}
  // More bytes into `got_`; false at the end.
  bool Receive();

  net::UniqueFd fd_;
  std::string got_;
};

}  // namespace ringway::e2e
