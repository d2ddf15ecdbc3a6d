#include "client/ctl/doctor/dial.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "proto/stream/address.h"

namespace ringway::ctl {
namespace {

using Outcome = DialFacts::Outcome;

constexpr DialOptions kPatient = {.timeout = std::chrono::seconds(60), .tls = false};

// A loopback port; `listening`: else it is closed, for as long as this lives.
class Port {
 public:
  explicit Port(bool listening) {
    const auto any = net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true);
    fd_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd_.get(), any.value().get(), any.value().length), 0);
    if (listening) {
      EXPECT_EQ(::listen(fd_.get(), 128), 0);
    }
    address_ = net::ToString(net::LocalAddress(fd_.get()).value());
  }
  const std::string& address() const { return address_; }

 private:
  net::UniqueFd fd_;
  std::string address_;
};

TEST(DialTest, EachAddressHasItsOutcomeInOrder) {
  const Port open(true);
  const Port closed(false);
  const auto facts = Dial({{.who = "a", .address = open.address()},
                           {.who = "b", .address = closed.address()},
                           {.who = "c", .address = "no address"},
                           {.who = "d", .address = open.address()}},
                          kPatient);
  ASSERT_EQ(facts.size(), 4U);
  EXPECT_EQ(facts[0].outcome, Outcome::kConnected);
  EXPECT_TRUE(facts[0].within_host);
  EXPECT_FALSE(facts[0].full_arrives.has_value()) << "there is no path between hosts to measure";
  EXPECT_EQ(facts[1].outcome, Outcome::kRefused);
  EXPECT_EQ(facts[2].outcome, Outcome::kFailed);
  EXPECT_NE(facts[2].why, "");
  EXPECT_EQ(facts[3].outcome, Outcome::kConnected);
  EXPECT_EQ(facts[3].who, "d");
}

TEST(DialTest, NothingToDialIsNothing) { EXPECT_TRUE(Dial({}, kPatient).empty()); }

TEST(DialTest, PathIsKnownWithoutAConnection) {
  DialFacts facts;
  ReadPath(net::ResolveBlocking({.host = "127.0.0.1", .port = 9}, false).value(), &facts);
  EXPECT_TRUE(facts.within_host);
  EXPECT_GT(facts.path_mtu, 52U);
  EXPECT_EQ(facts.segment_bytes, facts.path_mtu - 52);
}

TEST(DialTest, ManyAtOnce) {
  const Port open(true);
  const std::vector<DialFacts> targets(64, {.who = "a", .address = open.address()});
  for (const DialFacts& facts : Dial(targets, kPatient)) EXPECT_EQ(facts.outcome, Outcome::kConnected);
}

}  // namespace
}  // namespace ringway::ctl
