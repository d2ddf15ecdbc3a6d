#include "tests/e2e/greed.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/daemon/local/memfd.h"

namespace ringway::e2e {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kLargeRegionBytes = 18 * kMiB;

std::optional<Code> SubmitInto(HostileTrainer& member, std::uint32_t slot, std::uint32_t result_region,
                               std::uint64_t refusals_told = 0) {
  auto submit = local::SubmitPacket(slot);
  submit.result_region = result_region;
  submit.refusals_told = refusals_told;
  member.Send(submit);
  return member.WaitForSlot(slot);
}

// The first word about its join.
bool IsThrottled(HostileTrainer& joining) {
  for (;;) {
    const auto packet = joining.ReceiveAny();
    if (packet.empty()) return false;
    const auto progress = local::PacketAs<abi::JoinProgress>(packet);
    if (progress.ok() && progress.value().header.type == abi::PacketType::kJoinProgress)
      return progress.value().code == Code::kResourceExhausted;
    if (local::PacketAs<abi::JoinReply>(packet).ok()) return false;
  }
}

}  // namespace

Greed::Greed(std::string socket) : socket_(std::move(socket)), page_(local::MakeMemfd(sizeof(abi::SessionPage))) {}

HostileTrainer& Greed::Member(const std::string& group) {
  trainers_.push_back(std::make_unique<HostileTrainer>(socket_));
  trainers_.back()->BecomeMember(group);
  return *trainers_.back();
}

void Greed::TakeMemory() {
  HostileTrainer& first = Member("memory0");
  HostileTrainer& second = Member("memory1");
  for (HostileTrainer* member : {&first, &second})
    member->Send(local::RegisterPacket(2, kLargeRegionBytes), {local::MakeMemfd(kLargeRegionBytes).get()});
  EXPECT_EQ(SubmitInto(first, 0, 2), Code::kOk);
  EXPECT_EQ(SubmitInto(second, 0, 2), Code::kResourceExhausted);
  TakePieces(second, 1, 1);
}

void Greed::TakeMemoryInPieces() { TakePieces(Member("pieces"), 0, 0); }

void Greed::TakePieces(HostileTrainer& member, std::uint32_t first_slot, std::uint64_t refusals_told) {
  Code last = Code::kOk;
  for (std::uint32_t slot = first_slot; slot < abi::kSlotCount && last == Code::kOk; ++slot) {
    member.Send(local::RegisterPacket(slot + 2, kMiB), {local::MakeMemfd(kMiB).get()});
    last = SubmitInto(member, slot, slot + 2, refusals_told).value_or(Code::kTimeout);
  }
  EXPECT_EQ(last, Code::kResourceExhausted);
}

void Greed::TakeDescriptors() {
  HostileTrainer& member = Member("descriptors");
  const net::UniqueFd memory = local::MakeMemfd(4096);
  for (std::uint32_t id = 2; id < abi::kRegionCountMax; ++id)
    EXPECT_TRUE(member.Send(local::RegisterPacket(id, 4096), {memory.get()}));
  EXPECT_EQ(SubmitInto(member, 0, abi::kRegionCountMax - 1), Code::kResourceExhausted);
  EXPECT_EQ(HostileTrainer(socket_).WaitForEnd(), Code::kResourceExhausted);
  // Some are for what comes next.
  constexpr std::uint32_t kGivenBack = 30;
  for (std::uint32_t id = 2; id < 2 + kGivenBack; ++id) {
    auto unregister = local::MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
    unregister.region_id = id;
    EXPECT_TRUE(member.Send(unregister));
  }
  EXPECT_EQ(SubmitInto(member, 1, 1, 1), Code::kOk) << "which shows that all of it was read";
}

void Greed::TakeSessions() {
  constexpr int kMoreThanThereAre = 1100;
  std::optional<Code> last;
  for (int i = 0; i < kMoreThanThereAre && !last; ++i) {
    trainers_.push_back(std::make_unique<HostileTrainer>(socket_));
    auto join = local::JoinPacket("crowd" + std::to_string(i));
    join.wait_world = 2;
    trainers_.back()->Send(local::HelloPacket(), {page_.get()});
    trainers_.back()->Send(join);
    const auto ended = local::PacketAs<abi::Ended>(trainers_.back()->ReceiveAny());
    if (ended.ok() && ended.value().header.type == abi::PacketType::kEnded) last = ended.value().code;
  }
  EXPECT_EQ(last, Code::kResourceExhausted);
}

std::unique_ptr<HostileTrainer> Greed::JoinOnce(int number) const {
  auto hasty = std::make_unique<HostileTrainer>(socket_);
  hasty->Send(local::HelloPacket(), {page_.get()});
  hasty->Send(local::JoinPacket("dies" + std::to_string(number)));
  return hasty;
}

int Greed::JoinAndDieUntilThrottled() {
  constexpr int kJoins = 1000;
  int joins = 0;
  while (joins < kJoins && !IsThrottled(*JoinOnce(joins))) ++joins;
  EXPECT_LT(joins, kJoins);
  return joins;
}

void Greed::JoinAndDieUntil(const std::function<bool()>& stopped) const {
  for (int i = 0; !stopped(); ++i) (void)JoinOnce(i);
}

}  // namespace ringway::e2e
