// Groups whose trainers reduce memory of this host's GPU. Skipped where there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proto/device/loader.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Gpu, EverySizeAndCollectiveIsRight) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  ExpectDeviceMemoryIsRight(ranks);
}

TEST_F(Gpu, LossOfAPeerIsRetried) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Round round(std::vector<Session*>{ranks[0].get(), ranks[1].get()},
              {.reduction = {}, .count = 3'000'001, .memory = Memory::kDevice});
  round.Submit();
  cluster.daemon(2).Kill();
  EXPECT_EQ(round.Check().world_size, 2U);
}

// The memory that three ranks have on the GPU.
class Vectors {
 public:
  explicit Vectors(std::size_t count) : count_(count), memory_(3) {
    for (void*& one : memory_) {
      EXPECT_TRUE(library_->Allocate(0, bytes(), &one).ok());
    }
  }
  ~Vectors() {
    for (void* const one : memory_) library_->Free(one);
  }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  void Fill(float value) const {
    const std::vector<float> values(count_, value);
    for (void* const one : memory_) ASSERT_TRUE(library_->CopyNow(one, values.data(), bytes()).ok());
  }
  // Submits to all, makes the default stream wait, and returns what the copies see that follow it.
  std::vector<float> ReduceAndRead(const Sessions& ranks, bool cancels) const {
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      auto work = ranks[rank]->AllReduceAsync(memory_[rank], memory_[rank], count_, DType::kF32, ReduceOp::kSum);
      EXPECT_TRUE(work.ok()) << work.status().text();
      works.push_back(std::move(work.value()));
      if (cancels) break;  // the others never come
    }
    for (Work& work : works) {
      const Code code = work.WaitOnStream(nullptr, cancels ? Milliseconds(500) : kForever).code();
      EXPECT_TRUE(code == Code::kOk || (cancels && code == Code::kTimeout));  // where no stream may wait
    }
    const Status cancelled = cancels ? works.front().Cancel() : Status();
    EXPECT_TRUE(cancelled.ok()) << cancelled.text();
    std::vector<float> values(count_);
    EXPECT_TRUE(library_->CopyNow(values.data(), memory_.front(), bytes()).ok());
    for (Work& work : works) EXPECT_EQ(work.Wait().status().code(), cancels ? Code::kCancelled : Code::kOk);
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(float); }

  device::Library* const library_ = device::Load().library;
  const std::size_t count_;
  std::vector<void*> memory_;
};

// The host only submits: its next call waits in the driver, which it keeps, for the default stream.
TEST_F(Gpu, StreamsWaitForResults) {
  constexpr int kSteps = 20;
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, std::size_t{5'000'003}}) {
    const Vectors vectors(count);
    for (int step = 0; step < kSteps; ++step) {
      vectors.Fill(static_cast<float>(step));
      EXPECT_EQ(vectors.ReduceAndRead(ranks, false), std::vector<float>(count, 3.0F * static_cast<float>(step)));
    }
  }
}

TEST_F(Gpu, StreamOfACancelledOperationGoesOnWithTheOutputAsItWas) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  const Vectors vectors(100'000);
  vectors.Fill(3.0F);
  EXPECT_EQ(vectors.ReduceAndRead(ranks, true), std::vector<float>(100'000, 3.0F));
}

}  // namespace
}  // namespace ringway::e2e
