// Dialling while a name server does not answer: this program's getaddrinfo is the test's.
#include "proto/stream/connector.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <pthread.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "proto/stream/name_lookup.h"
#include "tests/proto/stream/net_fixture.h"

namespace {

// Knows no name, and says so only while it is up.
class NameServer {
 public:
  static NameServer& Get() {
    static auto* const server = new NameServer;  // what asks it is never joined
    return *server;
  }

  void Fall() {
    const std::scoped_lock lock(mutex_);
    asked_ = 0;
    is_up_ = false;
  }
  void Rise() {
    const std::scoped_lock lock(mutex_);
    is_up_ = true;
    ++rises_;
    changed_.notify_all();
  }
  int asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  void Ask() {
    std::unique_lock lock(mutex_);
    ++asked_;
    changed_.wait(lock, [this, before = rises_] { return is_up_ || rises_ != before; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int asked_ = 0;
  int rises_ = 0;
  bool is_up_ = true;
};

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* /*service*/, const addrinfo* /*hints*/, addrinfo** found) {
  *found = nullptr;
  if (host != nullptr && std::string(host) == "slow") NameServer::Get().Ask();
  return EAI_NONAME;
}

namespace ringway::net {
namespace {

using ConnectorTest = NetTest;

// A daemon's loop ends so on SIGTERM.
TEST_F(ConnectorTest, LoopEndsWhileANameIsLookedUp) {
  NameServer::Get().Fall();
  auto loop = std::make_unique<asio::io_context>();
  bool is_done = false;
  std::make_shared<Connector>(*loop, ConnectOptions{.address = "slow:1", .tuning = {}})->Start([&](const auto&) {
    is_done = true;
  });
  ASSERT_TRUE(RunUntil([] { return NameServer::Get().asked() > 0; }));
  std::future<void> ended = std::async(std::launch::async, [&] { loop = nullptr; });
  EXPECT_EQ(ended.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it waits for the name server";
  NameServer::Get().Rise();
  ended.get();
  EXPECT_FALSE(is_done);
}

TEST_F(ConnectorTest, AddressNeedsNoNameServer) {
  sockaddr_in any{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  const std::string address = ToString(LocalAddress(listening.get()).value());

  std::optional<Result<Connection>> named, numeric;
  const auto dial = [this](const std::string& where, std::optional<Result<Connection>>* outcome) {
    auto connector = std::make_shared<Connector>(context_, ConnectOptions{.address = where, .tuning = {}});
    connector->Start([outcome](Result<Connection> connection) { *outcome = std::move(connection); });
  };
  NameServer::Get().Fall();
  dial("slow:1", &named);
  ASSERT_TRUE(RunUntil([] { return NameServer::Get().asked() > 0; }));
  dial(address, &numeric);
  EXPECT_TRUE(RunUntil([&] { return numeric.has_value(); }));
  EXPECT_TRUE(numeric && numeric->ok()) << (numeric ? numeric->status().text() : "it waits for the name server");
  EXPECT_FALSE(named.has_value());
  NameServer::Get().Rise();
  ASSERT_TRUE(RunUntil([&] { return named.has_value(); }));
  EXPECT_EQ(named->status().code(), Code::kIo);
}

Status LookedUp() {
  asio::io_context loop{1};
  Status status(Code::kTimeout, "no answer");
  const auto work = asio::make_work_guard(loop);
  NameLookup::Of(loop).Start({.host = "none", .port = 1}, [&](const auto& found) {
    status = found.status();
    loop.stop();
  });
  loop.run_for(std::chrono::minutes(1));
  return status;
}

// No thread can be started while threads' stacks are larger than the address space.
[[noreturn]] void LookUpWithoutAThreadAndWithOne() {
  pthread_attr_t usual;
  pthread_attr_t huge;
  const bool is_set = ::pthread_getattr_default_np(&usual) == 0 && ::pthread_getattr_default_np(&huge) == 0 &&
                      ::pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0 &&
                      ::pthread_setattr_default_np(&huge) == 0;
  const Status without = LookedUp();
  const bool is_reset = ::pthread_setattr_default_np(&usual) == 0;
  const Status with = LookedUp();
  std::cerr << is_set << is_reset << " without: " << without.text() << ", with: " << with.text() << '\n';
  std::_Exit(is_set && is_reset && without.code() == Code::kResourceExhausted && with.code() == Code::kIo ? 0 : 1);
}

TEST(NameLookupDeathTest, ThreadThatCannotBeStartedFailsTheLookupAndIsTriedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own: a thread stays for good
  EXPECT_EXIT(LookUpWithoutAThreadAndWithOne(), testing::ExitedWithCode(0), "without: cannot start a thread");
}

}  // namespace
}  // namespace ringway::net
