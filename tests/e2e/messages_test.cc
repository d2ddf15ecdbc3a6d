// Send and recv on real daemons: every size, dtype and place of memory; each outcome; deaths of either end and of
// others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "client/bench/runner.h"
#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::uint32_t kWorld = 3;
constexpr std::size_t kLargeBytes = 5'000'001;

Bytes Content(std::size_t bytes, std::uint32_t seed) {
  Bytes out(bytes);
  std::uint32_t x = seed * 2654435761U + 1;
  for (unsigned char& byte : out) byte = static_cast<unsigned char>((x = x * 1664525U + 1013904223U) >> 24);
  return out;
}

class MessagesTest : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(kWorld);
    ASSERT_EQ(ranks_.size(), kWorld);
    daemon_of_ = SortByRank(&ranks_);
  }
  static Code CodeOf(Result<Work>& work) {
    return work.ok() ? work->Wait(kPatience).status().code() : work.status().code();
  }
  void Kill(std::uint32_t rank) { cluster_.daemon(daemon_of_[rank]).Kill(); }
  static void ExpectBoth(Result<Work>& send, Result<Work>& recv, Code code) {
    const Code sent = CodeOf(send), received = CodeOf(recv);
    EXPECT_EQ(sent, code) << NameOf(sent);
    EXPECT_EQ(received, code) << NameOf(received);
  }
  // A pair that has done nothing wrong goes on.
  void ExpectGoesOn(std::uint32_t from, std::uint32_t to) {
    const Bytes in = Content(1000, 77);
    Bytes out(in.size());
    auto recv = ranks_[to]->RecvAsync(out.data(), out.size(), DType::kU8, from);
    auto send = ranks_[from]->SendAsync(in.data(), in.size(), DType::kU8, to);
    ExpectBoth(send, recv, Code::kOk);
    EXPECT_EQ(out, in);
  }

  Cluster cluster_{{.daemons = kWorld}};
  Sessions ranks_;
  std::vector<std::size_t> daemon_of_;
};

TEST_F(MessagesTest, EverySizeArrivesWhoeverSubmitsFirst) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4000}, std::size_t{65'536},
                                  std::size_t{65'537}, std::size_t{300'000}, kLargeBytes}) {
    const Bytes in = Content(bytes, 1);
    Bytes out(bytes), back(bytes);
    auto send = ranks_[0]->SendAsync(in.data(), bytes, DType::kU8, 1);
    auto recv = ranks_[1]->RecvAsync(out.data(), bytes, DType::kU8, 0);
    ExpectBoth(send, recv, Code::kOk);
    EXPECT_EQ(out, in) << bytes;
    auto receive = ranks_[2]->RecvAsync(back.data(), bytes, DType::kU8, 1);
    auto forward = ranks_[1]->SendAsync(out.data(), bytes, DType::kU8, 2);
    ExpectBoth(forward, receive, Code::kOk);
    EXPECT_EQ(back, in) << bytes;
  }
}

TEST_F(MessagesTest, EveryDTypeTravelsAsItsBytes) {
  for (std::uint8_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Bytes in = Content(777 * SizeOf(dtype), i);
    Bytes out(in.size());
    auto send = ranks_[1]->SendAsync(in.data(), 777, dtype, 0);
    auto recv = ranks_[0]->RecvAsync(out.data(), 777, dtype, 1);
    ExpectBoth(send, recv, Code::kOk);
    EXPECT_EQ(out, in) << NameOf(dtype);
    EXPECT_EQ(recv->Wait()->part.count, 777U);
    EXPECT_EQ(send->Wait()->part.count, 0U);
  }
}

TEST_F(MessagesTest, BuffersOfTheSessionAreSentAndFilledWhereTheyAre) {
  auto in = ranks_[0]->Allocate(kLargeBytes);
  auto out = ranks_[2]->Allocate(kLargeBytes);
  ASSERT_TRUE(in.ok() && out.ok());
  const Bytes content = Content(kLargeBytes, 5);
  std::memcpy(in->data(), content.data(), kLargeBytes);
  auto send = ranks_[0]->SendAsync(in->data(), kLargeBytes, DType::kU8, 2);
  auto recv = ranks_[2]->RecvAsync(out->data(), kLargeBytes, DType::kU8, 0);
  ExpectBoth(send, recv, Code::kOk);
  EXPECT_EQ(std::memcmp(out->data(), content.data(), kLargeBytes), 0);
}

// On several channels and tags, both ways, with collectives in between.
TEST_F(MessagesTest, ManyAreInFlightBesideCollectives) {
  constexpr std::uint32_t kEach = 60;
  std::vector<Bytes> in, out(kEach);
  std::vector<Result<Work>> works;
  std::vector<std::vector<float>> sums(kWorld, std::vector<float>(300'000, 1));
  for (std::uint32_t i = 0; i < kEach; ++i) in.push_back(Content(1 + 1500 * i, i));
  const auto submit = [&](bool sends, std::uint32_t i) {
    const std::uint32_t from = i % 2, tag = i % 3;
    const OpOptions options{.channel = i % 5};
    out[i].resize(in[i].size());
    if (sends) return ranks_[from]->SendAsync(in[i].data(), in[i].size(), DType::kU8, 1 - from, tag, options);
    return ranks_[1 - from]->RecvAsync(out[i].data(), out[i].size(), DType::kU8, from, tag, options);
  };
  for (std::uint32_t i = 0; i < kEach; ++i) works.push_back(submit(true, i));
  for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
    works.push_back(ranks_[rank]->AllReduceAsync(sums[rank].data(), sums[rank].data(), sums[rank].size(), DType::kF32,
                                                 ReduceOp::kSum));
  }
  for (std::uint32_t i = 0; i < kEach; ++i) works.push_back(submit(false, i));
  for (Result<Work>& work : works) EXPECT_EQ(CodeOf(work), Code::kOk);
  EXPECT_EQ(out, in);
  for (const auto& sum : sums) EXPECT_EQ(sum, std::vector<float>(300'000, kWorld));
}

TEST_F(MessagesTest, OtherSizesAndDTypesAreAMismatchThatNamesBoth) {
  std::vector<float> in(10), out(kLargeBytes);
  auto send = ranks_[0]->SendAsync(in.data(), 10, DType::kF32, 1);
  auto recv = ranks_[1]->RecvAsync(out.data(), 9, DType::kF32, 0);
  ExpectBoth(send, recv, Code::kMismatch);
  for (Result<Work>* work : {&send, &recv}) {
    const std::string text = (*work)->Wait().status().text();
    EXPECT_NE(text.find("sends 10 f32"), std::string::npos) << text;
    EXPECT_NE(text.find("receives 9 f32"), std::string::npos) << text;
  }
  auto recv_first = ranks_[1]->RecvAsync(out.data(), 10, DType::kI32, 0);
  auto send_second = ranks_[0]->SendAsync(in.data(), 10, DType::kF32, 1);
  ExpectBoth(send_second, recv_first, Code::kMismatch);
  ExpectGoesOn(0, 1);
}

TEST_F(MessagesTest, EitherEndCancelsForBoth) {
  Bytes data(kLargeBytes), out(kLargeBytes);
  auto send = ranks_[0]->SendAsync(data.data(), data.size(), DType::kU8, 1);  // which waits for its recv
  ASSERT_TRUE(send.ok() && send->Cancel().ok());
  EXPECT_EQ(CodeOf(send), Code::kCancelled);
  auto recv = ranks_[1]->RecvAsync(out.data(), out.size(), DType::kU8, 0);
  EXPECT_EQ(CodeOf(recv), Code::kCancelled);
  auto awaited = ranks_[1]->RecvAsync(out.data(), 10, DType::kU8, 0);
  ASSERT_TRUE(awaited.ok() && awaited->Cancel().ok());
  EXPECT_EQ(CodeOf(awaited), Code::kCancelled);
  auto late = ranks_[0]->SendAsync(data.data(), 10, DType::kU8, 1);
  EXPECT_EQ(CodeOf(late), Code::kCancelled);
  ExpectGoesOn(0, 1);
}

TEST_F(MessagesTest, WhatCannotBeIsRefused) {
  Bytes data(10);
  const auto refused = [&](std::uint32_t to, const OpOptions& options = {}) {
    return ranks_[0]->Send(data.data(), 10, DType::kU8, to, 0, options).status().code();
  };
  EXPECT_EQ(refused(0), Code::kInvalidArgument);
  EXPECT_EQ(refused(kWorld), Code::kInvalidArgument);
  EXPECT_EQ(refused(1, {.channel = 64}), Code::kInvalidArgument);
  EXPECT_EQ(ranks_[0]->Recv(nullptr, 10, DType::kU8, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ranks_[0]->Send(data.data(), 10, DType::kF32, 1, 0, {.codec = Codec::kBf16}).status().code(),
            Code::kNotSupported);
  EXPECT_EQ(refused(1, {.algorithm = Algorithm::kRing}), Code::kNotSupported);
  ExpectGoesOn(0, 1);
}

// Both ways of one that dies, while the two that stay exchange theirs.
TEST_F(MessagesTest, ThePartnersOfOneThatDiesAreNotifiedAndTheOthersGoOn) {
  Bytes in(kLargeBytes, 7), out(kLargeBytes), other(kLargeBytes);
  auto to_victim = ranks_[0]->SendAsync(in.data(), in.size(), DType::kU8, 2);
  auto from_victim = ranks_[1]->RecvAsync(out.data(), out.size(), DType::kU8, 2);
  auto send = ranks_[0]->SendAsync(in.data(), in.size(), DType::kU8, 1);
  Kill(2);
  auto recv = ranks_[1]->RecvAsync(other.data(), other.size(), DType::kU8, 0);
  EXPECT_EQ(CodeOf(to_victim), Code::kPeerLost);
  EXPECT_EQ(CodeOf(from_victim), Code::kPeerLost);
  ExpectBoth(send, recv, Code::kOk);
  EXPECT_EQ(other, in);
  EXPECT_EQ(ranks_[0]->world_size(), 2U);
  EXPECT_EQ(ranks_[1]->world_size(), 2U);
  ExpectGoesOn(ranks_[1]->rank() == 1 ? 1 : 0, ranks_[1]->rank() == 1 ? 0 : 1);
}

TEST_F(MessagesTest, WhoIsLeftLearnsItFromTheFirstSendToOneThatIsGone) {
  Kill(2);
  Bytes data(10);
  EXPECT_EQ(ranks_[0]->Recv(data.data(), 10, DType::kU8, 2).status().code(), Code::kPeerLost);
  EXPECT_EQ(ranks_[0]->world_size(), 2U);
  ASSERT_TRUE(ranks_[1]->world_size() == 2 || ranks_[1]->rank() == 1);
  EXPECT_EQ(ranks_[1]->Send(data.data(), 10, DType::kU8, 2).status().code(), Code::kPeerLost);
  EXPECT_EQ(ranks_[1]->world_size(), 2U);
}

TEST_F(MessagesTest, ADeadlineOfEitherEndIsThatOfBoth) {
  JoinOptions options = cluster_.At(0, "hurried", 2);
  JoinOptions slow = cluster_.At(1, "hurried", 2);
  options.op_deadline = Milliseconds(100);
  Sessions pair = cluster_.JoinAll({options, slow});
  Bytes data(100), out(100);
  const std::uint32_t hurried = pair[0]->rank(), patient = pair[1]->rank();
  EXPECT_EQ(pair[0]->Send(data.data(), 100, DType::kU8, patient).status().code(), Code::kDeadline);
  EXPECT_EQ(pair[1]->Recv(out.data(), 100, DType::kU8, hurried).status().code(), Code::kDeadline);
  EXPECT_EQ(pair[0]->Recv(out.data(), 100, DType::kU8, patient).status().code(), Code::kDeadline);
  EXPECT_EQ(pair[1]->Send(data.data(), 100, DType::kU8, hurried).status().code(), Code::kDeadline);
}

TEST_F(MessagesTest, ADroppedSendArrives) {
  Bytes in = Content(50'000, 9), out(in.size());
  const Bytes sent = in;
  {
    auto dropped = ranks_[0]->SendAsync(in.data(), in.size(), DType::kU8, 1);
    ASSERT_TRUE(dropped.ok());
  }
  in.assign(in.size(), 0);
  EXPECT_EQ(ranks_[1]->Recv(out.data(), out.size(), DType::kU8, 0).status().code(), Code::kOk);
  EXPECT_EQ(out, sent);
}

// ringway-bench --collective send --check, at each rank.
TEST_F(MessagesTest, TheBenchMeasuresThem) {
  bench::Options options;
  options.collective = OpKind::kSend;
  options.sizes = {0, 4096, 300'000};
  options.iterations = 3;
  options.in_flight = 2;
  options.check = true;
  std::vector<std::future<Result<std::vector<bench::SizeResult>>>> runs;
  for (const auto& session : ranks_) {
    runs.push_back(std::async(std::launch::async, [&options, &session] {
      return bench::Runner(options, session.get(), getpid()).Run([](const bench::SizeResult&) {});
    }));
  }
  for (auto& run : runs) {
    const auto results = run.get();
    ASSERT_TRUE(results.ok()) << results.status().text();
    ASSERT_EQ(results->size(), options.sizes.size());
    for (const bench::SizeResult& result : *results) {
      EXPECT_EQ(result.wrong, 0U) << result.bytes;
      EXPECT_GE(result.wire_bytes, result.bytes);
      EXPECT_EQ(result.busbw_gb_per_s, result.algbw_gb_per_s);
    }
  }
}

}  // namespace
}  // namespace ringway::e2e
