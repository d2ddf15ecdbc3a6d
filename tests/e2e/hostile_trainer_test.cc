// Trainers that lie to their daemon, or use it up, while good trainers of the same daemon and of another one reduce:
// the daemon lives, the good ones get exact bytes, the liar gets an error or is dropped, and nothing of it stays.
#include "tests/e2e/hostile_trainer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <limits>
#include <memory>

#include "tests/daemon/local/lingering.h"
#include "tests/daemon/local/memfd.h"
#include "tests/e2e/siege.h"

namespace ringway::e2e {
namespace {

using local::MakePacket;
using local::RegisterPacket;
using local::SubmitPacket;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kRegionElements = kHostileRegionBytes / sizeof(float);

// A false packet of a member, and a name for it.
struct Lie {
  const char* name;
  std::function<void(HostileTrainer&)> tell;
};

Lie Submission(const char* name, const std::function<void(abi::Submit&)>& falsify) {
  return {name, [falsify](HostileTrainer& liar) {
            abi::Submit submit = SubmitPacket(0);
            falsify(submit);
            liar.Send(submit);
          }};
}

// An operation that stays open until all its input is there.
abi::Submit OpenSubmission(std::uint32_t slot) {
  abi::Submit submit = SubmitPacket(slot);
  submit.staged = 1;
  return submit;
}

abi::Progress ProgressPacket(std::uint32_t slot) {
  auto progress = MakePacket<abi::Progress>(abi::PacketType::kProgress);
  progress.slot = slot;
  return progress;
}

class HostileTrainerTest : public SiegeTest {
 protected:
  HostileTrainerTest() : SiegeTest(2) {}
  void SetUp() override {
    SiegeTest::SetUp();
    descriptors_ = Descriptors();
    mappings_ = besieged().MappedRegions();
  }
  void TearDown() override {
    Reduce();
    EXPECT_TRUE(Eventually([&] { return Freed(descriptors_) && besieged().MappedRegions() <= mappings_; }))
        << "something of a hostile trainer stays";
  }
  Process& besieged() { return cluster_.daemon(0); }

  std::unique_ptr<HostileTrainer> Connect() { return std::make_unique<HostileTrainer>(cluster_.socket(0)); }
  std::unique_ptr<HostileTrainer> Member() {
    auto trainer = Connect();
    trainer->BecomeMember("hostile" + std::to_string(++groups_));
    return trainer;
  }
  // Each by a member of a group of its own, while the good ones reduce.
  void ExpectAllEnd(const std::vector<Lie>& lies, Code code = Code::kProtocol) {
    for (const Lie& lie : lies) {
      SCOPED_TRACE(lie.name);
      const auto liar = Member();
      Reduce([&] {
        lie.tell(*liar);
        EXPECT_EQ(liar->WaitForEnd(), code);
      });
    }
  }

 private:
  std::vector<std::size_t> descriptors_;
  std::size_t mappings_ = 0;
  int groups_ = 0;
};

TEST_F(HostileTrainerTest, LiesAboutAnOperationEndTheSession) {
  ExpectAllEnd({
      Submission("slot", [](auto& s) { s.slot = abi::kSlotCount; }),
      Submission("channel", [](auto& s) { s.spec.channel = abi::kChannelCountMax; }),
      Submission("kind", [](auto& s) { s.spec.kind = static_cast<OpKind>(kOpKindCount); }),
      Submission("dtype", [](auto& s) { s.spec.dtype = static_cast<DType>(kDTypeCount); }),
      Submission("op", [](auto& s) { s.spec.op = static_cast<ReduceOp>(255); }),
      Submission("codec", [](auto& s) { s.spec.codec = CodeOf(static_cast<Codec>(kCodecCount)); }),
      Submission("staged", [](auto& s) { s.staged = 2; }),
      Submission("unknown input region", [](auto& s) { s.input_region = 2; }),
      Submission("unknown result region", [](auto& s) { s.result_region = ~0U; }),
      Submission("input begins behind its region", [](auto& s) { s.input_offset_bytes = kHostileRegionBytes; }),
      Submission("result ends behind its region", [](auto& s) { s.result_offset_bytes = kHostileRegionBytes - 4; }),
      Submission("offset that overflows", [](auto& s) { s.result_offset_bytes = kHuge - 3; }),
      Submission("offset between elements", [](auto& s) { s.input_offset_bytes = 2; }),
      Submission("one element too many", [](auto& s) { s.spec.count = kRegionElements + 1; }),
      Submission("count whose bytes overflow to few", [](auto& s) { s.spec.count = kHuge / sizeof(float) + 2; }),
      Submission("result over its input", [](auto& s) { s.result_region = 0; }),
      Submission("update of the view with elements", [](auto& s) { s.spec.kind = OpKind::kUpdateView; }),
      {"slot whose operation runs",
       [](HostileTrainer& liar) {
         liar.Send(OpenSubmission(0));
         liar.Send(OpenSubmission(0));
       }},
  });
}

// A stranger's socket whose last close blocks for an hour: as its packet's descriptor, as one too many, and unread.
TEST_F(HostileTrainerTest, DescriptorsWhoseCloseWouldBlockDelayNobody) {
  for (const int way : {0, 1, 2}) {
    SCOPED_TRACE(way);
    local::Lingering stranger = local::MakeLingering();
    ASSERT_TRUE(stranger.peer.valid());
    const net::UniqueFd memory = local::MakeMemfd(4096);
    const auto liar = Connect();
    besieged().Freeze();  // so that its close is the last
    if (way == 2) liar->SendBytes(std::array<std::byte, 3>());
    liar->Send(local::HelloPacket(),
               way == 1 ? std::vector{memory.get(), stranger.sender.get()} : std::vector{stranger.sender.get()});
    stranger.sender.Reset();
    besieged().Signal(SIGCONT);
    EXPECT_EQ(liar->WaitForEnd(), Code::kProtocol);
    EXPECT_EQ(RunToEnd({RINGWAY_CTL, "--socket", cluster_.socket(0), "status"}).code, 0);
    Reduce();
  }
}

TEST_F(HostileTrainerTest, LiesAboutARegionEndTheSession) {
  const auto region = [](std::uint32_t id, std::uint64_t bytes, const std::function<net::UniqueFd()>& make) {
    return [=](HostileTrainer& liar) { liar.Send(RegisterPacket(id, bytes), {make().get()}); };
  };
  const auto sealed = [](std::uint64_t bytes) { return [bytes] { return local::MakeMemfd(bytes); }; };
  const auto zeros = [] { return net::UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)); };
  const auto event = [] { return net::UniqueFd(::eventfd(0, EFD_CLOEXEC)); };
  ExpectAllEnd({
      {"id out of range", region(abi::kRegionCountMax, 4096, sealed(4096))},
      {"id in use", region(1, 4096, sealed(4096))},
      {"longer than its memory", region(2, 8192, sealed(4096))},
      {"shorter than its memory", region(2, 4096, sealed(8192))},
      {"of no bytes", region(2, 0, sealed(0))},
      {"may shrink", region(2, 4096, [] { return local::MakeMemfd(4096, F_SEAL_GROW | F_SEAL_SEAL); })},
      {"may be unsealed no more, but was never sealed", region(2, 4096, [] { return local::MakeMemfd(4096, 0); })},
      {"a device", region(2, 4096, zeros)},
      {"an eventfd", region(2, 4096, event)},
      {"a file", region(2, 4096,
                        [this] {
                          net::UniqueFd file(::open((cluster_.directory() / "file").c_str(),
                                                    O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
                          EXPECT_EQ(::ftruncate(file.get(), 4096), 0);
                          return file;
                        })},
      {"no descriptor", [](HostileTrainer& liar) { liar.Send(RegisterPacket(2, 4096)); }},
      {"unregistered, but never registered",
       [](HostileTrainer& liar) {
         auto packet = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
         packet.region_id = 2;
         liar.Send(packet);
       }},
  });
}

TEST_F(HostileTrainerTest, DescriptorsWhereNoneBelongEndTheSession) {
  ExpectAllEnd({
      {"one with an operation", [](HostileTrainer& liar) { liar.Send(SubmitPacket(0), {liar.region_fd(0)}); }},
      {"two with a region",
       [](HostileTrainer& liar) {
         liar.Send(RegisterPacket(2, kHostileRegionBytes), {0, liar.region_fd(0)});
       }},
      {"eight with an operation",
       [](HostileTrainer& liar) { liar.Send(SubmitPacket(0), std::vector<int>(8, liar.region_fd(0))); }},
  });
}

// Every length near the true one and near the limits, of every type that has one.
TEST_F(HostileTrainerTest, PacketsOfWrongLengthEndTheSession) {
  const auto of_length = [](abi::PacketType type, std::size_t length) {
    return [=](HostileTrainer& liar) {
      std::vector<std::byte> packet(std::max(length, sizeof(abi::PacketHeader)));
      const abi::PacketHeader header{abi::kMagic, type};
      std::memcpy(packet.data(), &header, sizeof header);
      packet.resize(length);
      liar.SendBytes(packet);
    };
  };
  const std::vector<std::pair<abi::PacketType, std::size_t>> types = {
      {abi::PacketType::kJoin, sizeof(abi::Join)},
      {abi::PacketType::kRegisterRegion, sizeof(abi::RegisterRegion)},
      {abi::PacketType::kUnregisterRegion, sizeof(abi::UnregisterRegion)},
      {abi::PacketType::kSubmit, sizeof(abi::Submit)},
      {abi::PacketType::kProgress, sizeof(abi::Progress)},
      {abi::PacketType::kCancel, sizeof(abi::Cancel)},
      {abi::PacketType::kStatus, sizeof(abi::Status)},
      {abi::PacketType::kLeave, sizeof(abi::Leave)},
  };
  std::vector<Lie> lies = {{"one byte", [](HostileTrainer& liar) { liar.Send('x'); }}};
  for (const auto& [type, length] : types) {
    for (const std::size_t wrong : {length - 1, length + 1, std::size_t{1024}, std::size_t{1025}, std::size_t{65536}}) {
      lies.push_back({"wrong length", of_length(type, wrong)});
    }
  }
  ExpectAllEnd(lies);
}

TEST_F(HostileTrainerTest, PacketWithoutAByteIsTakenForTheEnd) {
  const auto liar = Member();
  Reduce([&] {
    liar->SendBytes({});
    EXPECT_EQ(liar->WaitForEnd(), std::nullopt);
  });
}

// The seals hold after registration too; holes are only zeros.
TEST_F(HostileTrainerTest, RegisteredMemoryCannotBeTakenAway) {
  const auto thief = Member();
  Reduce([&] {
    thief->Send(OpenSubmission(0));
    for (const std::uint32_t region : {0U, 1U}) {
      EXPECT_EQ(::ftruncate(thief->region_fd(region), 0), -1);
      EXPECT_EQ(errno, EPERM);
      EXPECT_EQ(::fallocate(thief->region_fd(region), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                            static_cast<off_t>(kHostileRegionBytes)),
                0);
    }
    thief->page().slots[0].staged_bytes.store(4096);
    thief->Send(ProgressPacket(0));
    // The daemon may have looked for the pages before they were gone, or after.
    const auto code = thief->WaitForSlot(0);
    EXPECT_TRUE(code == Code::kOk || code == Code::kInvalidArgument);
  });
}

TEST_F(HostileTrainerTest, ScribbledPageIsHeldToTheDaemonsOwnBook) {
  const auto scribbler = Member();
  Reduce([&] {
    scribbler->Send(OpenSubmission(7));
    // The staged bytes that the daemon noted do not shrink, and end where the input does.
    for (const std::uint64_t staged : {std::uint64_t{4}, std::uint64_t{1000}, std::uint64_t{0}, kHuge}) {
      for (abi::Slot& slot : scribbler->page().slots) {
        slot.state.store(static_cast<abi::SlotState>(0xA5A5A5A5), std::memory_order_relaxed);
        slot.staged_bytes.store(staged, std::memory_order_relaxed);
      }
      for (std::uint32_t slot = 0; slot < abi::kSlotCount; ++slot) scribbler->Send(ProgressPacket(slot));
    }
    EXPECT_EQ(scribbler->WaitForSlot(7), Code::kOk);
    scribbler->Send(SubmitPacket(7));
    scribbler->Send(MakePacket<abi::Leave>(abi::PacketType::kLeave));
    EXPECT_TRUE(scribbler->WaitFor(abi::PacketType::kLeaveReply));
  });
}

TEST_F(HostileTrainerTest, ProgressAndCancelOfNoSlotEndTheSession) {
  const auto beyond = [](abi::PacketType type) {
    return [type](HostileTrainer& liar) {
      abi::Progress packet = ProgressPacket(abi::kSlotCount);
      packet.header.type = type;
      liar.Send(packet);
    };
  };
  static_assert(sizeof(abi::Progress) == sizeof(abi::Cancel));
  ExpectAllEnd({{"progress", beyond(abi::PacketType::kProgress)}, {"cancel", beyond(abi::PacketType::kCancel)}});
}

TEST_F(HostileTrainerTest, QuestionsWhoseAnswersNobodyReadsAreEnded) {
  const auto deaf = Member();
  Reduce([&] {
    const auto question = MakePacket<abi::Status>(abi::PacketType::kStatus);
    constexpr int kFlood = 1'000'000;
    int asked = 0;
    while (asked < kFlood && deaf->Send(question)) ++asked;
    EXPECT_LT(asked, kFlood);
  });
}

TEST_F(HostileTrainerTest, FloodThatAsksForNothingDelaysOnlyItself) {
  const auto chatterer = Member();
  chatterer->Send(OpenSubmission(0));
  Reduce([&] {
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(chatterer->Send(ProgressPacket(0)));
    chatterer->page().slots[0].staged_bytes.store(4096);
    chatterer->Send(ProgressPacket(0));
    EXPECT_EQ(chatterer->WaitForSlot(0), Code::kOk);
  });
}

TEST_F(HostileTrainerTest, CrowdAtTheSocketIsShed) {
  constexpr int kCrowd = 1200;  // more than a daemon takes
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  if (own.rlim_cur < 2 * kCrowd) GTEST_SKIP() << "needs " << 2 * kCrowd << " descriptors";
  std::vector<std::unique_ptr<HostileTrainer>> crowd;
  for (int i = 0; i < kCrowd; ++i) crowd.push_back(Connect());
  Reduce();
  for (int i = 0; i < kCrowd; i += 2) crowd[static_cast<std::size_t>(i)].reset();
  Reduce();
}

TEST_F(HostileTrainerTest, JoinsThatAreAbandonedLeaveNoGroup) {
  Reduce([&] {
    for (int i = 0; i < 50; ++i) {
      const auto hasty = Connect();
      hasty->Send(local::HelloPacket(), {local::MakeMemfd(sizeof(abi::SessionPage)).get()});
      hasty->Send(local::JoinPacket("abandoned" + std::to_string(i)));
    }
  });
  EXPECT_TRUE(Eventually([&] { return cluster_.MasterStatus()["groups"].size() == 1; }));
}

// Registering has no reply: operations with such a region say why it was refused.
TEST_F(HostileTrainerTest, MoreMemoryThanTheMachineHasIsRefused) {
  const auto dreamer = Member();
  Reduce([&] {
    constexpr std::uint64_t kPetabyte = std::uint64_t{1} << 50;  // of holes
    dreamer->Send(RegisterPacket(2, kPetabyte),
                  {local::MakeMemfd(kPetabyte, local::kAllSeals, local::Pages::kNone).get()});
    auto submit = SubmitPacket(0);
    submit.result_region = 2;
    dreamer->Send(submit);
    EXPECT_EQ(dreamer->WaitForSlot(0), Code::kInvalidArgument);
  });
}

TEST_F(HostileTrainerTest, WhoTakesTheLastDescriptorsLearnsSo) {
  const auto hoarder = Member();
  rlimit before{}, few{};
  ASSERT_EQ(::prlimit(besieged().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  few = {.rlim_cur = besieged().OpenDescriptors() + 8, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(besieged().pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  Reduce([&] {
    const net::UniqueFd memory = local::MakeMemfd(4096);
    for (std::uint32_t id = 2; id < abi::kRegionCountMax; ++id) {
      if (!hoarder->Send(RegisterPacket(id, 4096), {memory.get()})) break;
    }
    EXPECT_EQ(hoarder->WaitForEnd(), Code::kResourceExhausted);
  });
  ASSERT_EQ(::prlimit(besieged().pid(), RLIMIT_NOFILE, &before, nullptr), 0);
}

}  // namespace
}  // namespace ringway::e2e
