// Dialling while a name server does not answer: this program's getaddrinfo is the test's.
#include "proto/stream/connector.h"

#include <gtest/gtest.h>
#include <netdb.h>

#include <future>
#include <optional>
#include <string>

#include "tests/proto/stream/net_fixture.h"

namespace {

std::promise<void> asked;
std::promise<void> answer;
std::shared_future<void> answered = answer.get_future().share();

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* /*service*/, const addrinfo* /*hints*/, addrinfo** found) {
  *found = nullptr;
  if (host != nullptr && std::string(host) == "slow") {
    asked.set_value();
    answered.wait();
  }
  return EAI_NONAME;
}

namespace ringway::net {
namespace {

using ConnectorTest = NetTest;

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
  dial("slow:1", &named);
  ASSERT_TRUE(RunUntil([waits = asked.get_future().share()] {
    return waits.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  dial(address, &numeric);
  EXPECT_TRUE(RunUntil([&] { return numeric.has_value(); }));
  EXPECT_TRUE(numeric && numeric->ok()) << (numeric ? numeric->status().text() : "it waits for the name server");
  EXPECT_FALSE(named.has_value());
  answer.set_value();
  ASSERT_TRUE(RunUntil([&] { return named.has_value(); }));
  EXPECT_EQ(named->status().code(), Code::kIo);
}

}  // namespace
}  // namespace ringway::net
