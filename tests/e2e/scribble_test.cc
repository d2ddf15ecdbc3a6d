// Trainers that write to memory of an operation in flight. The fault stays with the one that did it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

constexpr std::size_t kScribbledCount = kSanitized ? 4 << 20 : 16 << 20;  // of f32: 64 MiB
constexpr std::size_t kScribbledBytes = kScribbledCount * sizeof(float);
constexpr std::size_t kScribbler = 1;
constexpr int kClosingsOfALaneMax = 3;

enum class Manner { kOtherBytes, kAndBack };

// Writes all over `memory`, other bytes each time, or other bytes for a moment, until it is destroyed.
class Scribble {
 public:
  Scribble(const Buffer& memory, Manner manner)
      : thread_(
            [this, manner, words = memory.as<std::uint64_t>(), count = memory.size_bytes() / sizeof(std::uint64_t)] {
              for (std::uint64_t value = 1; !stop_; ++value) {
                constexpr std::size_t kStride = 509;  // several times a page
                for (std::size_t i = value % kStride; i < count && !stop_; i += kStride) {
                  auto& word = reinterpret_cast<std::atomic<std::uint64_t>&>(words[i]);
                  const std::uint64_t before = word.exchange(value, std::memory_order_relaxed);
                  if (manner == Manner::kAndBack) word.store(before, std::memory_order_relaxed);
                }
              }
            }) {}
  ~Scribble() {
    stop_ = true;
    thread_.join();
  }
  Scribble(const Scribble&) = delete;
  Scribble& operator=(const Scribble&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Scribbles : public testing::Test {
 protected:
  struct Rank {
    Buffer input, output;
  };

  void SetUp() override {
    ranks_ = cluster_.JoinWorld(3);
    ASSERT_EQ(ranks_.size(), 3u);
    for (const auto& session : ranks_) {
      auto input = session->Allocate(kScribbledBytes);
      auto output = session->Allocate(kScribbledBytes);
      ASSERT_TRUE(input.ok() && output.ok());
      for (std::size_t i = 0; i < kScribbledCount; ++i) input->as<float>()[i] = static_cast<float>(i % 1000);
      memory_.push_back({std::move(*input), std::move(*output)});
    }
  }

  // Runs one operation of all three, while one of them writes. Returns the scribbler's outcome.
  Outcome ScribbledRound(const Buffer& target, Manner manner = Manner::kOtherBytes) {
    std::vector<Outcome> outcomes;
    {
      std::vector<Work> works;
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        auto work = ranks_[i]->AllReduceAsync(memory_[i].input.data(), memory_[i].output.data(), kScribbledCount,
                                              DType::kF32, ReduceOp::kSum);
        if (!work.ok()) return work.status();
        works.push_back(std::move(*work));
      }
      const Scribble scribble(target, manner);
      for (Work& work : works) outcomes.push_back(work.Wait(kPatience));
    }
    const Outcome& other = outcomes[0];
    EXPECT_TRUE(other.ok() && outcomes[2].ok()) << other.status().text() << outcomes[2].status().text();
    if (!other.ok() || !outcomes[2].ok()) return Status(Code::kInternal, "an innocent rank was not served");
    EXPECT_EQ(other.value().contributors, outcomes[2].value().contributors);
    EXPECT_TRUE(std::memcmp(memory_[0].output.data(), memory_[2].output.data(), kScribbledBytes) == 0);
    // If one of the others was complete before, all have that result, with what was read of the scribbler.
    EXPECT_GE(other.value().world_size, outcomes[kScribbler].ok() ? 3u : 2u);
    if (other.value().world_size == 2) {
      const float* const sum = memory_[0].output.as<float>();
      for (std::size_t i = 0; i < kScribbledCount; i += 997) EXPECT_EQ(sum[i], 2 * static_cast<float>(i % 1000));
    }
    return outcomes[kScribbler];
  }

  // Returns how often the innocent daemons closed any one lane.
  int ClosingsOfALane() {
    int most = 0;
    for (const std::size_t daemon : {0, 2}) {
      const std::string log = cluster_.daemon(daemon).Err();
      const std::regex closed("lane_down .*other=(\\S+) lane=(\\d+)");
      std::map<std::string, int> closings;
      for (std::sregex_iterator found(log.begin(), log.end(), closed), end; found != end; ++found) {
        most = std::max(most, ++closings[(*found)[1].str() + "/" + (*found)[2].str()]);
      }
    }
    return most;
  }

  void ExpectTheFaultStaysHere(const Outcome& outcome) {
    ASSERT_FALSE(outcome.ok()) << "it wrote all the time, and no error came in so many operations";
    EXPECT_EQ(outcome.status().code(), Code::kBufferModified) << outcome.status().text();
    EXPECT_NE(cluster_.daemon(kScribbler).Err().find("buffer_modified"), std::string::npos);
    for (const std::size_t daemon : {0, 2}) {
      const std::string log = cluster_.daemon(daemon).Err();
      const std::regex innocent("peer_lost .*other=d[02]-");
      EXPECT_FALSE(std::regex_search(log, innocent)) << "somebody else was accused";
      EXPECT_EQ(log.find("buffer_modified"), std::string::npos);
    }
    EXPECT_LE(ClosingsOfALane(), kClosingsOfALaneMax);
    const auto after = ranks_[kScribbler]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum);
    EXPECT_EQ(after.status().code(), Code::kBufferModified) << "its session is over";
    ExpectWorks(Without(std::move(ranks_), kScribbler));
  }

  Cluster cluster_{{.daemons = 3}};
  Sessions ranks_;
  std::vector<Rank> memory_;
};

TEST_F(Scribbles, TrainerThatWritesToItsOutputIsTheOneThatFails) {
  Outcome outcome = ScribbledRound(memory_[kScribbler].output);
  for (int round = 1; round < 10 && outcome.ok(); ++round) outcome = ScribbledRound(memory_[kScribbler].output);
  ExpectTheFaultStaysHere(outcome);
}

// An input is read once, mostly: written to before, it is another input, which nobody can tell.
TEST_F(Scribbles, TrainerThatWritesToItsInputFailsOrAllGetTheSameBytes) {
  Outcome outcome = ScribbledRound(memory_[kScribbler].input);
  for (int round = 1; round < 10 && outcome.ok(); ++round) outcome = ScribbledRound(memory_[kScribbler].input);
  if (!outcome.ok()) return ExpectTheFaultStaysHere(outcome);
  EXPECT_LE(ClosingsOfALane(), kClosingsOfALaneMax);
  ExpectWorks(ranks_);
}

// The old bytes are mostly back before anybody looks: nothing can be proven, and yet it must not cost many lanes.
TEST_F(Scribbles, TrainerThatWritesBackWhatWasThereClosesFewLanes) {
  Outcome outcome = ScribbledRound(memory_[kScribbler].output, Manner::kAndBack);
  for (int round = 1; round < (kSanitized ? 3 : 10) && outcome.ok(); ++round) {
    outcome = ScribbledRound(memory_[kScribbler].output, Manner::kAndBack);
  }
  if (!outcome.ok()) return ExpectTheFaultStaysHere(outcome);
  EXPECT_LE(ClosingsOfALane(), kClosingsOfALaneMax);
  ExpectWorks(ranks_);
}

TEST_F(Scribbles, TrainerThatWritesToWhatItSendsFailsOrItsReceiverIsServed) {
  for (int round = 0; round < 10; ++round) {
    auto recv =
        ranks_[0]->RecvAsync(memory_[0].output.data(), kScribbledCount, DType::kF32, ranks_[kScribbler]->rank());
    auto send = ranks_[kScribbler]->SendAsync(memory_[kScribbler].input.data(), kScribbledCount, DType::kF32,
                                              ranks_[0]->rank());
    ASSERT_TRUE(recv.ok() && send.ok());
    std::optional<Outcome> sent, received;
    {
      const Scribble scribble(memory_[kScribbler].input, Manner::kOtherBytes);
      received = recv->Wait(kPatience);
      sent = send->Wait(kPatience);
    }
    if (received->ok() && sent->ok()) continue;
    EXPECT_TRUE(received->ok() || received->status().code() == Code::kPeerLost) << received->status().text();
    return ExpectTheFaultStaysHere(*sent);
  }
  EXPECT_LE(ClosingsOfALane(), kClosingsOfALaneMax);
  ExpectWorks(ranks_);
}

}  // namespace
}  // namespace ringway::e2e
