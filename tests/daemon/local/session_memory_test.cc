// A session's regions take no more than its share, and those whose pages are not there take nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/local/session_fixture.h"

namespace ringway::local {
namespace {

// A member with regions 0 and 1; its share is four regions.
class SessionMemoryTest : public SessionFixture {
 protected:
  void SetUp() override {
    Open({}, budget_);
    BecomeMember();
  }
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(8 * kRegionBytes);
};

TEST_F(SessionMemoryTest, MembersAreNamedInThePage) {
  std::vector<control::PeerInfo> members(70);  // more than a view can have
  members[1].set_peer_id(9);
  members[1].set_name(std::string(100, 'n'));
  members[1].set_site("eu");
  session_->NameMembers(Epoch(4), members);
  abi::MemberList list;
  ASSERT_TRUE(abi::ReadMembers(page_->members, &list));
  EXPECT_EQ(list.epoch, 4U);
  EXPECT_EQ(list.world_size, 64U);
  EXPECT_EQ(list.members[1].peer_id, 9U);
  EXPECT_EQ(list.members[1].name, std::string(63, 'n'));
  EXPECT_STREQ(list.members[1].site, "eu");
  page_->members.changes.store(7);  // a daemon that died over it
  EXPECT_FALSE(abi::ReadMembers(page_->members, &list));
  session_->NameMembers(Epoch(5), {});
  ASSERT_TRUE(abi::ReadMembers(page_->members, &list)) << "whatever a trainer wrote there";
  EXPECT_EQ(list.epoch, 5U);
}

// Registering has no reply, so operations say what was wrong; the session goes on.
TEST_F(SessionMemoryTest, RegionThatFindsNoRoomFailsItsOperationsOnly) {
  Register(7, 3 * kRegionBytes);
  auto submit = SubmitPacket(0);
  submit.result_region = 7;
  Send(submit);
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kResourceExhausted);
  EXPECT_NE(std::string(page_->slots[0].text).find("half of --memory-max"), std::string::npos);
  EXPECT_NE(std::string(page_->slots[0].text).find("nothing was submitted"), std::string::npos);
  EXPECT_TRUE(port_.submissions.empty());
  Unregister(7);
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 2 * kRegionBytes);
  auto next = SubmitPacket(1);
  next.refusals_told = 1;
  Send(next);
  EXPECT_EQ(port_.submissions.size(), 1U);
}

// Else the later one would have the number of the first, and be reduced with the others' first.
TEST_F(SessionMemoryTest, ChannelTakesNothingUntilTheTrainerKnowsItsRefusals) {
  const auto send = [&](std::uint32_t slot, std::uint32_t channel, std::uint64_t known, std::uint32_t region = 1) {
    auto submit = SubmitPacket(slot);
    submit.spec.channel = channel;
    submit.refusals_told = known;
    submit.result_region = region;
    const std::size_t before = port_.submissions.size();
    Send(submit);
    if (port_.submissions.size() > before) return Code::kOk;
    EXPECT_EQ(page_->slots[slot].outcome.refused, 1);
    return page_->slots[slot].outcome.code;
  };
  Register(7, 3 * kRegionBytes);
  const Code refused = Code::kResourceExhausted;
  EXPECT_EQ(send(0, 0, 0, 7), refused) << "it finds no room";
  EXPECT_EQ(send(1, 0, 0), refused) << "it was sent before the trainer knew";
  EXPECT_EQ(send(2, 1, 0), Code::kOk) << "on another channel";
  EXPECT_EQ(send(3, 0, 1), refused) << "the second is not known yet";
  EXPECT_EQ(send(4, 0, 4), refused) << "one too many";
  EXPECT_EQ(send(5, 0, 4), Code::kOk);
  auto update = SubmitPacket(6);
  update.spec.kind = OpKind::kUpdateView;
  update.spec.count = update.input_count = update.result_count = 0;
  update.refusals_told = 3;
  Send(update);
  EXPECT_EQ(page_->slots[6].outcome.code, refused) << "of all channels";
  buffers::Complete done;
  done.token = 2;
  session_->Complete(done);
  EXPECT_EQ(page_->slots[2].outcome.refused, 0);
}

TEST_F(SessionMemoryTest, RegionThatFoundNoRoomIsTakenWhenThereIsSome) {
  MemoryShare other(budget_);
  ASSERT_TRUE(other.TryTake(MemoryUse::kRegions, 4 * kRegionBytes));
  Register(7);
  auto submit = SubmitPacket(0);
  submit.result_region = 7;
  Send(submit);
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kResourceExhausted);
  other.Give(MemoryUse::kRegions, 4 * kRegionBytes);
  submit.slot = 1;
  submit.refusals_told = 1;
  Send(submit);
  EXPECT_EQ(port_.submissions.size(), 1U);
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 3 * kRegionBytes);
}

// Else a trainer could leave any number of them to the daemon, whose share they are not.
TEST_F(SessionMemoryTest, RegionsThatFoundNoRoomAreKeptUpToAShare) {
  MemoryShare other(budget_);
  ASSERT_TRUE(other.TryTake(MemoryUse::kRegions, 4 * kRegionBytes));
  for (std::uint32_t id = 10; id < 16; ++id) {
    Register(id);
  }
  other.Give(MemoryUse::kRegions, 4 * kRegionBytes);
  std::vector<Code> codes;
  for (std::uint32_t id = 10; id < 16; ++id) {
    auto submit = SubmitPacket(id);
    submit.result_region = id;
    submit.refusals_told = static_cast<std::uint64_t>(std::count(codes.begin(), codes.end(), Code::kResourceExhausted));
    const std::size_t submissions = port_.submissions.size();
    Send(submit);
    codes.push_back(port_.submissions.size() > submissions ? Code::kOk : page_->slots[id].outcome.code);
    Unregister(id);
    port_.submissions.clear();
  }
  const Code full = Code::kResourceExhausted;
  EXPECT_EQ(codes, (std::vector<Code>{Code::kOk, Code::kOk, Code::kOk, Code::kOk, full, full}));
}

TEST_F(SessionMemoryTest, RegionThatIsUnregisteredCountsUntilItsOperationsHaveEnded) {
  Send(SubmitPacket(0));
  ASSERT_EQ(port_.submissions.size(), 1U);
  for (const std::uint32_t id : {0U, 1U}) {
    Unregister(id);
  }
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 2 * kRegionBytes);
  port_.submissions.clear();
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 0U);
}

TEST_F(SessionMemoryTest, RegionWithoutPagesIsItsTrainersFaultAtAnyTime) {
  Send(RegisterPacket(7, kRegionBytes), {MakeMemfd(kRegionBytes, kAllSeals, Pages::kNone).get()});
  const net::UniqueFd later = MakeMemfd(kRegionBytes);
  Send(RegisterPacket(8, kRegionBytes), {later.get()});
  ASSERT_EQ(::fallocate(later.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  std::uint32_t slot = 0;
  for (const std::uint32_t region : {7U, 8U}) {
    for (const bool is_input : {true, false}) {
      auto submit = SubmitPacket(slot);
      (is_input ? submit.input_region : submit.result_region) = region;
      submit.refusals_told = slot;
      Send(submit);
      EXPECT_EQ(page_->slots[slot].state.load(), abi::SlotState::kDone);
      EXPECT_EQ(page_->slots[slot].outcome.code, Code::kInvalidArgument);
      EXPECT_NE(std::string(page_->slots[slot].text).find("populate"), std::string::npos);
      ++slot;
    }
  }
  EXPECT_TRUE(port_.submissions.empty());
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 3 * kRegionBytes) << "7 was never taken";
}

// Its pages would be the daemon's memory.
TEST_F(SessionMemoryTest, SessionPageWithoutPagesEndsTheSession) {
  Open({}, budget_);
  Send(HelloPacket(), {MakeMemfd(sizeof(abi::SessionPage), kAllSeals, Pages::kNone).get()});
  const auto ended = Receive<abi::Ended>(abi::PacketType::kEnded);
  EXPECT_EQ(ended.code, Code::kInvalidArgument);
  EXPECT_NE(std::string(ended.text).find("populate"), std::string::npos) << ended.text;
}

TEST_F(SessionMemoryTest, SparseRegionsOfHalfTheMachineTakeNothing) {
  constexpr std::uint64_t kVast = std::uint64_t{1} << 40;
  for (const std::uint32_t id : {7U, 8U}) {
    Send(RegisterPacket(id, kVast), {MakeMemfd(kVast, kAllSeals, Pages::kNone).get()});
  }
  auto submit = SubmitPacket(0);
  submit.input_region = 7;
  submit.result_region = 8;
  submit.spec.count = submit.input_count = submit.result_count = kVast / 4;
  Send(submit);
  EXPECT_EQ(page_->slots[0].state.load(), abi::SlotState::kDone);
  EXPECT_NE(page_->slots[0].outcome.code, Code::kOk);
  EXPECT_TRUE(port_.submissions.empty());
}

TEST_F(SessionMemoryTest, SessionThatEndsGivesItsShareBack) {
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 2 * kRegionBytes);
  session_->End(Code::kLeft, "");
  Settle();
  session_.reset();
  EXPECT_EQ(budget_->used(), 0U);
}

}  // namespace
}  // namespace ringway::local
