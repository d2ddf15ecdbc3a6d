// Streams of this host's GPU that wait for results, which come while others have the driver. Skipped where there is no
// GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "proto/device/loader.h"

namespace ringway::device {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::size_t kHeldMost = 2;

using Bytes = std::vector<unsigned char>;

class OwnStream {
 public:
  OwnStream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~OwnStream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void Synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

struct Outcome {
  std::atomic<bool> is_over = false;
  bool has_begun = false;
  Code code = Code::kOk;
};

class CudaHoldsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LoadDriver();
    library_ = Load().library;
    void* memory = nullptr;
    if (library_ == nullptr || !library_->Allocate(0, kBytes, &memory).ok()) GTEST_SKIP() << "no GPU here";
    memory_ = static_cast<unsigned char*>(memory);
    void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    host_ = static_cast<unsigned char*>(pages);
    for (std::size_t i = 0; i < kBytes; ++i) host_[i] = static_cast<unsigned char>(i * 7 + i / 251);
    ASSERT_TRUE(library_->Pin(0, host_, kBytes).ok());
    (void)HoldOf(nullptr);  // the first loads the kernel, which may wait for what runs
    Clear();
  }
  void TearDown() override {
    if (host_ == nullptr) return;
    library_->Free(memory_);
    std::promise<void> unpinned;
    library_->UnpinLater(
        0, host_, [](void* context) { static_cast<std::promise<void>*>(context)->set_value(); }, &unpinned);
    unpinned.get_future().wait();
    ::munmap(host_, kBytes);
  }

  void Clear() const {
    EXPECT_EQ(cudaMemset(memory_, kUntouched, kBytes), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // Keeps the driver while it waits for the default stream.
  Bytes Read() const {
    Bytes bytes(kBytes);
    EXPECT_TRUE(library_->CopyNow(bytes.data(), memory_, kBytes).ok());
    return bytes;
  }
  std::shared_ptr<Hold> HoldOf(cudaStream_t stream) const {
    std::shared_ptr<Hold> hold;
    const Status status = library_->HoldStream(0, stream, nullptr, host_, &hold);
    EXPECT_TRUE(status.ok()) << status.text;
    return hold;
  }
  void Release(Hold* hold, std::size_t to, std::size_t from, std::size_t bytes, Outcome* outcome) const {
    CopyJob job{.direction = Direction::kToDevice, .to = memory_ + to, .from = host_ + from, .bytes = bytes};
    job.context = outcome;
    job.report = [](void* context, std::size_t arrived, const Status& status) {
      auto* const reported = static_cast<Outcome*>(context);
      const bool is_over = !status.ok() || arrived > 0;
      reported->has_begun = true;
      reported->code = status.code;
      reported->is_over = is_over;
      reported->is_over.notify_all();
    };
    hold->Release(job);
  }

  static constexpr unsigned char kUntouched = 0xEE;
  Library* library_ = nullptr;
  unsigned char* host_ = nullptr;
  unsigned char* memory_ = nullptr;
};

TEST_F(CudaHoldsTest, EveryAlignmentAndSizeIsCopiedAndNothingElse) {
  const OwnStream stream;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{17}, std::size_t{4099}, kBytes - 64}) {
    for (const std::size_t to : {0, 1, 4, 12, 16, 31}) {
      for (const std::size_t from : {0, 1, 4, 20, 31}) {
        Clear();
        Outcome outcome;
        const std::shared_ptr<Hold> hold = HoldOf(stream.get());
        Release(hold.get(), to, from, bytes, &outcome);
        stream.Synchronize();
        outcome.is_over.wait(false);
        EXPECT_EQ(outcome.code, Code::kOk);
        const Bytes read = Read();
        const auto is_untouched = [](unsigned char x) { return x == kUntouched; };
        ASSERT_EQ(std::memcmp(read.data() + to, host_ + from, bytes), 0) << bytes << " to " << to << " from " << from;
        EXPECT_TRUE(std::all_of(read.begin(), read.begin() + to, is_untouched));
        EXPECT_TRUE(std::all_of(read.begin() + to + bytes, read.end(), is_untouched));
      }
    }
  }
}

TEST_F(CudaHoldsTest, ResultReachesTheDefaultStreamWhoseWaiterHasTheDriver) {
  std::shared_ptr<Hold> hold = HoldOf(nullptr);
  auto read = std::async(std::launch::async, [this] { return Read(); });
  auto other = std::async(std::launch::async, [this] { return library_->CopyNow(memory_, host_, 1).ok(); });
  Outcome outcome;
  Release(hold.get(), 0, 0, kBytes, &outcome);
  EXPECT_EQ(std::memcmp(read.get().data(), host_, kBytes), 0);
  EXPECT_TRUE(other.get());
  outcome.is_over.wait(false);
}

TEST_F(CudaHoldsTest, StreamGoesOnWithoutAResult) {
  const OwnStream stream;
  std::shared_ptr<Hold> hold = HoldOf(stream.get());
  hold.reset();
  stream.Synchronize();
  EXPECT_EQ(Read(), Bytes(kBytes, kUntouched));
}

TEST_F(CudaHoldsTest, ManyHoldsAreReleasedInAnyOrderAndUsedAgain) {
  constexpr std::size_t kCount = 64;
  const std::vector<OwnStream> streams(kHeldMost);
  for (int round = 0; round < 3; ++round) {
    Clear();
    std::vector<std::shared_ptr<Hold>> holds;
    std::vector<Outcome> outcomes(kCount);
    for (std::size_t i = 0; i < kCount; ++i) holds.push_back(HoldOf(streams[i % kHeldMost].get()));
    const std::size_t part = kBytes / kCount;
    for (std::size_t i = kCount; i-- > 0;) Release(holds[i].get(), i * part, i * part, part, &outcomes[i]);
    for (std::size_t i = 0; i < kCount; ++i) {
      streams[i % kHeldMost].Synchronize();
      outcomes[i].is_over.wait(false);
    }
    EXPECT_EQ(std::memcmp(Read().data(), host_, kCount * part), 0);
  }
}

TEST_F(CudaHoldsTest, KernelsOfOthersRunBesideAllThatMayWait) {
  const std::vector<OwnStream> streams(kHeldMost + 1);
  std::vector<std::shared_ptr<Hold>> holds;
  for (std::size_t i = 0; i < kHeldMost; ++i) holds.push_back(HoldOf(streams[i].get()));
  std::shared_ptr<Hold> one_more;
  EXPECT_EQ(library_->HoldStream(0, streams.back().get(), nullptr, host_, &one_more).code, Code::kNotSupported);
  const std::vector<OwnStream> others(32);
  for (const OwnStream& other : others) {
    ASSERT_EQ(cudaMemsetAsync(memory_, 1, kBytes, other.get()), cudaSuccess);
    other.Synchronize();
  }
  for (std::size_t i = 0; i < kHeldMost; ++i) EXPECT_EQ(cudaStreamQuery(streams[i].get()), cudaErrorNotReady);
}

TEST_F(CudaHoldsTest, UnpinningKeepsNobodyOutWhileAStreamWaits) {
  const OwnStream stream;
  const OwnStream other;
  std::shared_ptr<Hold> hold = HoldOf(stream.get());
  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_TRUE(library_->Pin(0, pages, kBytes).ok());
  std::promise<void> unpinned;
  library_->UnpinLater(
      0, pages, [](void* context) { static_cast<std::promise<void>*>(context)->set_value(); }, &unpinned);
  std::shared_ptr<Mark> mark;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(library_->MarkStream(0, other.get(), &mark).ok());
  std::shared_ptr<Hold> none;
  EXPECT_EQ(library_->HoldStream(0, other.get(), nullptr, host_, &none).code, Code::kNotSupported);
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  hold.reset();
  unpinned.get_future().wait();
  hold = HoldOf(other.get());
  ::munmap(pages, kBytes);
}

TEST_F(CudaHoldsTest, ForkedChildThatExitsReleasesNothing) {
  const OwnStream stream;
  const std::shared_ptr<Hold> hold = HoldOf(stream.get());
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // what CUDA does at the exit of a child is not asked here
    std::exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
}

TEST_F(CudaHoldsTest, OtherStreamsFollowTheFirst) {
  const OwnStream first;
  const OwnStream second;
  const std::shared_ptr<Hold> hold = HoldOf(first.get());
  ASSERT_TRUE(hold->AddStream(second.get()).ok());
  Bytes seen(kBytes);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, memory_, kBytes, cudaMemcpyDefault, second.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(second.get()), cudaErrorNotReady);
  Outcome outcome;
  Release(hold.get(), 0, 0, kBytes, &outcome);
  second.Synchronize();
  EXPECT_EQ(std::memcmp(pinned, host_, kBytes), 0);
  outcome.is_over.wait(false);
  ASSERT_TRUE(hold->AddStream(second.get()).ok());  // nothing to wait for any more
  second.Synchronize();
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// A step enqueues all at once: work before the operation, a wait for the result, work after it.
TEST_F(CudaHoldsTest, ComesAfterWhatWasMarked) {
  const OwnStream before;
  const OwnStream stream;
  std::promise<void> go;
  auto gone = go.get_future().share();
  ASSERT_EQ(cudaLaunchHostFunc(
                before.get(), [](void* waits) { static_cast<std::shared_future<void>*>(waits)->wait(); }, &gone),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory_, 1, kBytes, before.get()), cudaSuccess);
  std::shared_ptr<Mark> mark;
  ASSERT_TRUE(library_->MarkStream(0, before.get(), &mark).ok());
  std::shared_ptr<Hold> hold;
  ASSERT_TRUE(library_->HoldStream(0, stream.get(), mark, host_, &hold).ok());
  Outcome outcome;
  Release(hold.get(), 0, 0, kBytes, &outcome);
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  EXPECT_FALSE(outcome.has_begun);
  go.set_value();
  stream.Synchronize();
  outcome.is_over.wait(false);
  EXPECT_EQ(std::memcmp(Read().data(), host_, kBytes), 0);  // and not the ones that were set before
}

TEST_F(CudaHoldsTest, StreamThatIsCapturedIsRefused) {
  const OwnStream stream;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::shared_ptr<Hold> hold;
  EXPECT_EQ(library_->HoldStream(0, stream.get(), nullptr, host_, &hold).code, Code::kInvalidArgument);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace ringway::device
