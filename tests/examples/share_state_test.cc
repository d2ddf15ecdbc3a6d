#include "client/examples/train_text/share_state.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "tests/examples/fake_session.h"

namespace train_text {
namespace {

constexpr std::uint32_t kWorld = 4;

// What one rank trains with: a counter and floats, among them those that a sum of floats would change.
struct State {
  std::uint64_t step = 0;
  std::array<float, 5> weights = {};
  std::vector<std::uint32_t> Bits() const {
    std::vector<std::uint32_t> bits(weights.size());
    std::memcpy(bits.data(), weights.data(), sizeof(weights));
    bits.push_back(static_cast<std::uint32_t>(step));
    return bits;
  }
};

State StateOf(std::uint64_t peer_id) {
  const auto value = static_cast<float>(peer_id);
  return {peer_id * 100,
          {value, -0.0F, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e-45F}};
}

class ShareStateTest : public ::testing::Test {
 protected:
  ShareStateTest() { ResetFakeGroup(); }

  // Each rank begins with its own state; `states_[peer id]` is what it has after sharing.
  void Share(const std::function<bool(std::uint64_t)>& is_newcomer, std::uint64_t dead = 0) {
    std::vector<std::thread> ranks;
    for (std::uint32_t i = 0; i < kWorld; ++i) {
      ranks.emplace_back([&] {
        const std::unique_ptr<ringway::Session> session = JoinFakeGroup(kWorld);
        const std::uint64_t peer = session->peer_id();
        if (peer == dead) return Die(session.get());
        State state = StateOf(peer);
        last_[peer] = ShareState(
            session.get(), is_newcomer(peer),
            {std::as_writable_bytes(std::span(&state.step, 1)), std::as_writable_bytes(std::span(state.weights))});
        states_[peer] = state;
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  // Claims to be the one that has the state, and is gone before giving it.
  static void Die(ringway::Session* session) {
    const std::uint64_t claim = session->peer_id();
    std::uint64_t lowest = 0;
    ASSERT_TRUE(session->AllReduce(&claim, &lowest, 1, ringway::DType::kU64, ringway::ReduceOp::kMin).ok());
    ASSERT_EQ(lowest, claim);
    EXPECT_EQ(session->AllReduce(&claim, &lowest, 1, ringway::DType::kU64, ringway::ReduceOp::kMin).error().code(),
              ringway::Code::kDaemonLost);
  }

  std::array<State, kWorld + 1> states_;
  std::array<ringway::OpResult, kWorld + 1> last_;
};

TEST_F(ShareStateTest, NewGroupStartsFromTheLowestPeer) {
  Share([](std::uint64_t) { return true; });
  for (std::uint64_t peer = 1; peer <= kWorld; ++peer) EXPECT_EQ(states_[peer].Bits(), StateOf(1).Bits());
}

TEST_F(ShareStateTest, NewcomersGetTheLowestOldPeersStateBitForBit) {
  Share([](std::uint64_t peer) { return peer == 1 || peer == 4; });  // a lower id does not make a newcomer old
  for (std::uint64_t peer = 1; peer <= kWorld; ++peer) EXPECT_EQ(states_[peer].Bits(), StateOf(2).Bits());
}

TEST_F(ShareStateTest, DonorThatDiesBeforeGivingIsReplacedByTheNext) {
  KillFakePeerAt(2, 2);
  Share([](std::uint64_t peer) { return peer == 1; }, 2);
  for (const std::uint64_t peer : {1, 3, 4}) {
    EXPECT_EQ(states_[peer].Bits(), StateOf(3).Bits());
    EXPECT_EQ(last_[peer].contributors, (std::vector<std::uint64_t>{1, 3, 4}));
  }
}

TEST_F(ShareStateTest, DonorThatDiesHalfwayLeavesNothingOfItsState) {
  constexpr std::size_t kChunk = (std::size_t{16} << 20) / sizeof(std::uint64_t);
  constexpr std::size_t kCount = 5 * kChunk / 2;
  KillFakePeerAt(1, 3);
  std::array<std::vector<std::uint64_t>, 4> states;
  std::vector<std::thread> ranks;
  for (std::size_t i = 1; i <= 3; ++i) {
    ranks.emplace_back([&] {
      const std::unique_ptr<ringway::Session> session = JoinFakeGroup(3);
      std::vector<std::uint64_t>& state = states[session->peer_id()];
      state.assign(kCount, session->peer_id());
      if (session->peer_id() != 1) {
        ShareState(session.get(), true, {std::as_writable_bytes(std::span(state))});
        return;
      }
      std::uint64_t lowest = 0;
      ASSERT_TRUE(session->AllReduce(state.data(), &lowest, 1, ringway::DType::kU64, ringway::ReduceOp::kMin).ok());
      for (const bool lives : {true, false}) {
        EXPECT_EQ(
            session->AllReduce(state.data(), state.data(), 2 * kChunk, ringway::DType::kU32, ringway::ReduceOp::kSum)
                .ok(),
            lives);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::size_t peer : {2, 3}) EXPECT_EQ(states[peer], std::vector<std::uint64_t>(kCount, 2)) << peer;
}

TEST_F(ShareStateTest, BytesOfAllOperationsAreCounted) {
  Share([](std::uint64_t) { return true; });
  EXPECT_EQ(last_[1].wire_bytes, sizeof(std::uint64_t) + sizeof(std::uint64_t) + sizeof(State::weights));
}

}  // namespace
}  // namespace train_text
