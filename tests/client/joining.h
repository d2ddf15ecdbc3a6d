// Joining the group of a fake daemon.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ringway/ringway.hpp>
#include <utility>

#include "tests/client/fake_daemon.h"

namespace ringway::testing {

// Options of a session that ends with its daemon.
inline JoinOptions OptionsFor(const FakeDaemon& daemon) {
  JoinOptions options;
  options.socket_path = daemon.socket_path();
  options.group = "job";
  options.wait_world = 1;
  options.timeout = std::chrono::seconds(30);
  options.reconnect = Milliseconds(0);  // rejoin_test.cc has the others
  return options;
}

// Null, and a failure of the test, if it cannot.
inline std::unique_ptr<Session> MustJoin(const JoinOptions& options) {
  auto session = Session::Join(options);
  EXPECT_TRUE(session.ok()) << session.status().text();
  return session.ok() ? std::move(session.value()) : nullptr;
}

}  // namespace ringway::testing
