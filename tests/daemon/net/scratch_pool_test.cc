#include "daemon/net/scratch_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "proto/segment_header.h"

namespace ringway::net {
namespace {

constexpr std::size_t kLarge = ScratchPool::kSmallBytes + 1;

class Waiter final : public ScratchSink {
 public:
  explicit Waiter(std::vector<int>* served = nullptr, int name = 0) : served_(served), name_(name) {}
  void OnScratch(Scratch scratch) override {
    if (served_ != nullptr) served_->push_back(name_);
    if (keeps) got.push_back(std::move(scratch));
  }

  bool keeps = true;
  std::vector<Scratch> got;

 private:
  std::vector<int>* served_;
  int name_;
};

class ScratchPoolTest : public testing::Test {
 protected:
  using Account = std::shared_ptr<ScratchAccount>;
  Account Of(std::uint64_t peer) { return pool_.AccountOf(PeerId(peer)); }
  // Takes as many buffers as it gets.
  std::vector<Scratch> TakeAll(const Account& account, std::size_t bytes = 1) {
    std::vector<Scratch> taken;
    while (Scratch scratch = pool_.Acquire(account, bytes)) taken.push_back(std::move(scratch));
    return taken;
  }

  ScratchPool pool_{{.small_count = 16, .large_count = 4}};
};

TEST_F(ScratchPoolTest, OneAloneHasThreeQuartersAndAnotherThatOfTheRest) {
  const std::vector<Scratch> first = TakeAll(Of(1));
  EXPECT_EQ(first.size(), 12U);
  EXPECT_EQ(TakeAll(Of(2)).size(), 3U);
  EXPECT_EQ(TakeAll(Of(1), kLarge).size(), 3U) << "sizes are apart";
  EXPECT_TRUE(TakeAll(Of(1)).empty()) << "the same peer has the same account";
}

TEST_F(ScratchPoolTest, EveryPeerHasOneBufferWhoeverHoldsTheOthers) {
  for (const std::size_t bytes : {std::size_t{1}, kLarge}) {
    std::vector<std::vector<Scratch>> taken;
    std::set<std::byte*> buffers;
    std::size_t count = 0;
    for (std::uint64_t peer = 1; peer <= 30; ++peer) {
      taken.push_back(TakeAll(Of(peer), bytes));
      ASSERT_FALSE(taken.back().empty()) << peer;
      for (const Scratch& scratch : taken.back()) {
        scratch.data()[0] = scratch.data()[bytes - 1] = std::byte{1};
        buffers.insert(scratch.data());
      }
      count += taken.back().size();
    }
    EXPECT_EQ(buffers.size(), count) << "no buffer is lent twice";
    EXPECT_EQ(taken.back().size(), 1U);
    taken.back().clear();
    EXPECT_EQ(TakeAll(Of(30), bytes).size(), 1U) << "and has it again";
  }
}

TEST_F(ScratchPoolTest, BuffersBeyondThePoolAreBoundedAndThePeersThatWaitHaveTheNext) {
  std::vector<std::vector<Scratch>> taken;
  std::uint64_t peer = 0;
  do {
    taken.push_back(TakeAll(Of(++peer)));
    ASSERT_LE(peer, 100U) << "no bound";
  } while (!taken.back().empty());
  const Account last = Of(peer);
  const auto waiter = std::make_shared<Waiter>();
  pool_.Wait(last, 1, waiter);
  taken[peer - 2].clear();
  EXPECT_EQ(waiter->got.size(), 1U);
}

TEST_F(ScratchPoolTest, ReturnedBuffersGoToThePeersThatWaitInTurn) {
  std::vector<int> served;
  std::vector<Scratch> first = TakeAll(Of(1));
  const Account two = Of(2);
  const Account three = Of(3);
  const Scratch second = pool_.Acquire(two, 1);
  const Scratch third = pool_.Acquire(three, 1);
  const std::vector<Scratch> rest = TakeAll(Of(4));
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (const int name : {20, 21, 22, 30, 31}) {
    waiters.push_back(std::make_shared<Waiter>(&served, name));
    pool_.Wait(name < 30 ? two : three, 1, waiters.back());
  }
  waiters[0].reset();  // its lane is gone
  first.clear();
  EXPECT_EQ(served, (std::vector<int>{21, 30, 22, 31}));
  EXPECT_TRUE(pool_.Acquire(Of(1), 1));
}

TEST_F(ScratchPoolTest, PeerThatHoldsItsShareWaitsForItsOwnWhileOthersAreServed) {
  std::vector<Scratch> first = TakeAll(Of(1));
  const Account one = Of(1);
  const auto waiter = std::make_shared<Waiter>();
  pool_.Wait(one, 1, waiter);
  { const Scratch passing = pool_.Acquire(Of(2), 1); }
  EXPECT_TRUE(waiter->got.empty());
  first.pop_back();
  EXPECT_EQ(waiter->got.size(), 1U);
}

TEST_F(ScratchPoolTest, BufferThatItsWaiterReturnsGoesToTheNext) {
  std::vector<int> served;
  std::vector<Scratch> first = TakeAll(Of(1));
  const Account one = Of(1);
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (const int name : {1, 2, 3}) {
    waiters.push_back(std::make_shared<Waiter>(&served, name));
    pool_.Wait(one, 1, waiters.back());
  }
  waiters[0]->keeps = waiters[1]->keeps = false;
  first.pop_back();
  EXPECT_EQ(served, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(waiters[2]->got.size(), 1U);
}

TEST_F(ScratchPoolTest, ExtraBufferThatReturnsServesItsPeer) {
  std::vector<Scratch> first = TakeAll(Of(1));
  const std::vector<Scratch> second = TakeAll(Of(2));
  const std::vector<Scratch> third = TakeAll(Of(3));
  const Account four = Of(4);
  Scratch extra = pool_.Acquire(four, 1);
  ASSERT_TRUE(extra);
  ASSERT_FALSE(pool_.Acquire(four, 1));
  const auto waiter = std::make_shared<Waiter>();
  pool_.Wait(four, 1, waiter);
  extra.Reset();
  EXPECT_EQ(waiter->got.size(), 1U);
}

}  // namespace
}  // namespace ringway::net
