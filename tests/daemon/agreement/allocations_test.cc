// Counts what the data path allocates: as much for an operation of many segments as for one of few.
//
// Replaces operator new of the whole program, so it has a program of its own.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "tests/daemon/agreement/duo.h"

namespace {

std::uint64_t allocations = 0;

void* Allocate(std::size_t bytes) noexcept {
  ++allocations;
  return std::malloc(bytes);  // NOLINT(cppcoreguidelines-no-malloc): it is operator new
}

void* AllocateOrThrow(std::size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms that are used, so that none is freed by another's. std::stable_sort takes the one that does not throw.
void* operator new(std::size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new[](std::size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return Allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }                           // NOLINT
void operator delete[](void* memory) noexcept { std::free(memory); }                         // NOLINT
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }    // NOLINT
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }  // NOLINT

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kSegmentBytes = 4096;
constexpr std::uint64_t kFew = 8;
constexpr std::uint64_t kMany = 64;
constexpr std::uint64_t kGrowth = 12;  // of vectors that double

class AllocationsTest : public DuoTest, public testing::WithParamInterface<Codec> {
 protected:
  // Counts the allocations of an operation from its submission until it is reported to both trainers; its input becomes
  // ready segment by segment.
  std::uint64_t Count(std::uint64_t segments) {
    const std::uint64_t bytes = segments * kSegmentBytes;
    for (DuoNode& node : nodes_) node.reported.reset();
    const std::uint64_t before = allocations;
    SubmitBoth({OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, GetParam(), Algorithm::kRing, bytes / sizeof(float)},
               /*input_ready=*/0);
    for (std::uint64_t ready = kSegmentBytes; ready <= bytes; ready += kSegmentBytes) {
      for (DuoNode& node : nodes_) node.peer.OnStaged(/*token=*/0, ready);
      for (std::uint32_t lane = 0; lane < kDuoLanes; ++lane) (void)Run(lane, nullptr);
    }
    const std::uint64_t counted = allocations - before;
    for (const DuoNode& node : nodes_) EXPECT_EQ(node.reported, Code::kOk);
    return counted;
  }
};

TEST_P(AllocationsTest, ASegmentAllocatesNothing) {
  Install(2, {}, kSegmentBytes);
  (void)Count(kMany);
  const std::uint64_t few = Count(kFew);
  EXPECT_GT(few, 0U) << "the operator that counts is not the program's";
  EXPECT_LE(Count(kMany), few + kGrowth);
}

INSTANTIATE_TEST_SUITE_P(Codecs, AllocationsTest, testing::Values(Codec::kNone, Codec::kInt8),
                         [](const auto& codec) { return std::string(NameOf(codec.param)); });

}  // namespace
}  // namespace ringway::agreement
