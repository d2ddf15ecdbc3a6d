#include "master/shell/message_log.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "proto/shell/log.h"

namespace ringway {
namespace {

[[noreturn]] void LogTheDropped() {
  if (!shell::SetUpLog({}).ok()) std::exit(1);
  LogDropped({.peer = PeerId(14),
              .group = "job",
              .name = "n2",
              .address = "10.0.0.2:7401",
              .daemon = "host2",
              .why = "the master has not heard its daemon for 3.1 s"});
  std::exit(0);
}

TEST(MessageLogDeathTest, DroppedPeerIsNamedWithTheReason) {
  EXPECT_EXIT(LogTheDropped(), testing::ExitedWithCode(0),
              "warning peer_dropped group=job peer=14 name=n2 address=10.0.0.2:7401 daemon=host2 "
              "why=\"the master has not heard its daemon for 3.1 s\"");
}

}  // namespace
}  // namespace ringway
