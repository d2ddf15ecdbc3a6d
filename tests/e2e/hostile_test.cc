// Liars and loiterers at the ports of daemons and master, while good peers reduce: every result stays exact, nobody
// dies, and what the intruders took is free again when they have gone.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "tests/e2e/intruder.h"
#include "tests/e2e/siege.h"

namespace ringway::e2e {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kOk = 0;

class HostileTest : public SiegeTest {
 protected:
  HostileTest() : SiegeTest(3) {}

  // The ranks with the lowest and the highest of the three peer ids. The higher dials control links, the lower lanes.
  std::size_t Lowest() const { return ByPeerId(false); }
  std::size_t Highest() const { return ByPeerId(true); }
  std::uint64_t IdOf(std::size_t index) const { return good_[index]->peer_id(); }
  std::string PortOf(std::size_t index) { return cluster_.daemon(index).Logged("ready", "address"); }
  // The hello of a link that the good peer `from` might open to `to`.
  control::LinkHello HelloOf(std::size_t from, std::size_t to, bool control) const {
    control::LinkHello hello;
    hello.set_version_min(kProtocolVersionMin);
    hello.set_version_max(kProtocolVersionMax);
    hello.set_group("job");
    hello.set_from(IdOf(from));
    hello.set_to(IdOf(to));
    hello.set_control(control);
    hello.set_lanes(control ? 0 : Lanes());
    return hello;
  }
  // Only the pair's own number of lanes is admitted.
  static std::uint32_t Lanes() { return 2; }

 private:
  std::size_t ByPeerId(bool highest) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < good_.size(); ++i) {
      if ((good_[i]->peer_id() > good_[best]->peer_id()) == highest) best = i;
    }
    return best;
  }
};

TEST_F(HostileTest, WhatIsNoMessageIsClosedAtEveryPort) {
  const std::vector<std::size_t> before = Descriptors();
  const std::vector<std::string> nonsense = {
      std::string("\xff\xff\xff\xff", 4),  // a length of 4 GiB
      std::string("\x01\x00\x40\x00", 4),  // one byte more than a frame may have
      std::string("\x04\x00\x00\x00\xff\xff\xff\xff", 8),
      "GET / HTTP/1.1\r\nHost: ringway\r\n\r\n",
      std::string(1 << 16, '\xa5'),
  };
  for (const std::string& words : nonsense) {
    for (const std::string& port : {cluster_.master_address(), PortOf(0)}) {
      Intruder intruder = Intruder::ToPort(port);
      intruder.Say(words);
      EXPECT_TRUE(intruder.WaitForClose());
    }
    Reduce();
  }
  EXPECT_TRUE(Eventually([&] { return Freed(before); }));
}

TEST_F(HostileTest, HalfAFrameAndThenSilenceIsClosed) {
  for (const std::string& port : {cluster_.master_address(), PortOf(0)}) {
    Intruder intruder = Intruder::ToPort(port);
    intruder.Say(std::string("\x40\x00\x00\x00\x08", 5));
    Reduce();
    EXPECT_TRUE(intruder.WaitForClose());
  }
}

TEST_F(HostileTest, ThousandsWhoSayNothingAreShed) {
  const std::vector<std::size_t> before = Descriptors();
  constexpr int kCrowd = 1200;  // more than either takes
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  if (own.rlim_cur < 3 * kCrowd) GTEST_SKIP() << "needs " << 3 * kCrowd << " descriptors";
  std::vector<Intruder> crowd;
  for (const std::string& port : {PortOf(0), cluster_.master_address()}) {
    for (int i = 0; i < kCrowd; ++i) crowd.push_back(Intruder::ToPort(port));
  }
  Reduce();
  EXPECT_TRUE(Eventually([&] { return Freed(before); }));
  EXPECT_TRUE(cluster_.MasterStatus().contains("groups"));
  Reduce();
}

TEST_F(HostileTest, LinksOfUnknownOrImpossiblePeersAreRefused) {
  const std::size_t low = Lowest(), high = Highest();
  const control::LinkHello lane = HelloOf(low, high, false);
  std::vector<control::LinkHello> lies(8, lane);
  lies[0].set_from(kHuge);             // nobody
  lies[1].set_to(kHuge);               // not here
  lies[2].set_group("another");        // not its group
  lies[3].set_lane(Lanes());           // beyond the pair's lanes
  lies[4].set_lanes(128);              // not the pair's number
  lies[5].set_from(lane.to());         // itself
  lies[6] = HelloOf(low, high, true);  // the other side dials control links
  lies[7].set_lane(std::numeric_limits<std::uint32_t>::max());
  for (const control::LinkHello& lie : lies) {
    Intruder intruder = Intruder::ToPort(PortOf(high));
    intruder.Say(lie);
    EXPECT_NE(intruder.WaitForLinkReply(), kOk) << lie.ShortDebugString();
    Reduce();
  }
}

TEST_F(HostileTest, WithoutDescriptorsAProgramWaitsForSome) {
  for (Process* program : {&cluster_.master(), &cluster_.daemon(0)}) {
    const std::string port = program == &cluster_.master() ? cluster_.master_address() : PortOf(0);
    const std::size_t before = program->OpenDescriptors();
    rlimit limit{}, few{};
    ASSERT_EQ(::prlimit(program->pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
    few = {.rlim_cur = before + 3, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::prlimit(program->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    {
      std::vector<Intruder> crowd;
      for (int i = 0; i < 50; ++i) crowd.push_back(Intruder::ToPort(port));
      EXPECT_TRUE(Eventually([&] { return program->OpenDescriptors() >= before + 2; }));
      Reduce();
      // The last in the backlog is heard when those before it have been shed.
      crowd.back().Say("no message, but a word");
      crowd.erase(crowd.begin(), crowd.end() - 1);
      EXPECT_TRUE(crowd.back().WaitForClose());
    }
    EXPECT_TRUE(Eventually([&] { return program->OpenDescriptors() <= before; }));
    ASSERT_EQ(::prlimit(program->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
    Reduce();
  }
}

}  // namespace
}  // namespace ringway::e2e
