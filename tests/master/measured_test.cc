// What daemons measure reaches the group's matrix, and no further than it may.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <vector>

#include "tests/master/coordinator_fixture.h"

namespace ringway {
namespace {

class MeasuredTest : public CoordinatorTest {
 protected:
  // `to` 0: the uplink.
  void SayRate(std::uint64_t from, std::uint64_t to, std::uint64_t bytes_per_second, std::uint64_t speaker = 0) {
    control::ToMaster message;
    message.mutable_measured()->set_peer(peers_[from]);
    message.mutable_measured()->set_other(to == 0 ? 0 : peers_[to]);
    message.mutable_measured()->set_bytes_per_second(bytes_per_second);
    message.mutable_measured()->set_round_trip_us(100'000);
    Say(speaker == 0 ? from : speaker, message);
  }

  PathMatrix Paths() const { return coordinator_->groups().at("g")->CurrentPaths(); }
};

TEST_F(MeasuredTest, RatesAndUplinksReachTheMatrixOfTheCurrentView) {
  Form(3);
  SayRate(1, 2, 5'000'000);
  SayRate(3, 0, 7'000'000);
  EXPECT_EQ(Paths().rate(0, 1), 5e6);
  EXPECT_EQ(Paths().rate(1, 0), 0);
  EXPECT_DOUBLE_EQ(Paths().delay(0, 1), 0.05);
  EXPECT_EQ(Paths().uplink(2), 7e6);
}

TEST_F(MeasuredTest, NobodySpeaksForAnothersPeerOrOfStrangers) {
  Form(2);
  SayRate(1, 2, 5'000'000, 2);
  EXPECT_EQ(coordinator_->ignored_messages(), 1u);
  EXPECT_EQ(Paths().rate(0, 1), 0);
  Join(3, 1, "other");
  SayRate(1, 1, 5'000'000);
  peers_[9] = 12345;
  SayRate(1, 9, 5'000'000);
  EXPECT_EQ(Paths().rate(0, 1), 0);
}

}  // namespace
}  // namespace ringway
