#include "daemon/local/submit_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace ringway::local {
namespace {

constexpr std::uint64_t kKnownRegionBytes = 4096;

std::optional<std::uint64_t> TwoRegions(std::uint32_t id) {
  return id < 2 ? std::optional(kKnownRegionBytes) : std::nullopt;
}

constexpr PeerId kSelf(7);
constexpr std::uint64_t kAsCount = 0xABCDEF;  // until a case says another

abi::Submit Good() {
  abi::Submit submit{};
  submit.spec.dtype = DType::kF32;
  submit.input_region = 0;
  submit.result_region = 1;
  submit.spec.count = submit.result_count = 1024;
  submit.input_count = kAsCount;
  return submit;
}

struct Case {
  const char* name;
  Verdict verdict;
  std::function<void(abi::Submit&)> change;
  std::vector<abi::RankCounts> counts = {};
};

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

void CheckAll(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    abi::Submit submit = Good();
    one.change(submit);
    if (submit.input_count == kAsCount) submit.input_count = submit.spec.count;
    const SubmitVerdict verdict = CheckSubmit(submit, one.counts, kSelf, TwoRegions);
    EXPECT_EQ(verdict.verdict, one.verdict) << one.name << ": " << verdict.status.text();
    EXPECT_EQ(verdict.status.ok(), one.verdict == Verdict::kAccept) << one.name;
  }
}

TEST(SubmitCheckTest, QuorumGraceAndWeightAreJudged) {
  CheckAll({
      {"quorum", Verdict::kAccept, [](auto& s) { s.spec.quorum = 64, s.spec.grace_ms = 5; }},
      {"a share", Verdict::kAccept, [](auto& s) { s.spec.quorum = Quorum::Percent(100).code; }},
      {"no quorum", Verdict::kProtocolError, [](auto& s) { s.spec.quorum = 65; }},
      {"a grace alone", Verdict::kProtocolError, [](auto& s) { s.spec.grace_ms = 5; }},
      {"a quorum of maxima", Verdict::kRefuse, [](auto& s) { s.spec.quorum = 1, s.spec.op = ReduceOp::kMax; }},
      {"weight", Verdict::kAccept, [](auto& s) { s.spec.weight = 0.5, s.spec.op = ReduceOp::kAvg; }},
      {"a weight of a sum", Verdict::kRefuse, [](auto& s) { s.spec.weight = 0.5; }},
      {"no weight", Verdict::kProtocolError, [](auto& s) { s.spec.weight = -1, s.spec.op = ReduceOp::kAvg; }},
      {"no number", Verdict::kProtocolError, [](auto& s) { s.spec.weight = std::nan(""), s.spec.op = ReduceOp::kAvg; }},
  });
}

TEST(SubmitCheckTest, SumsAndAveragesMayBeWithoutTheNewestInputs) {
  CheckAll({
      {"a sum", Verdict::kAccept, [](auto& s) { s.spec.root = 5; }},
      {"an average", Verdict::kAccept, [](auto& s) { s.spec.root = 5, s.spec.op = ReduceOp::kAvg; }},
      {"an extreme", Verdict::kProtocolError, [](auto& s) { s.spec.root = 5, s.spec.op = ReduceOp::kMax; }},
      {"a quorum, too", Verdict::kProtocolError, [](auto& s) { s.spec.root = 5, s.spec.quorum = 1; }},
      {"weights, too", Verdict::kProtocolError,
       [](auto& s) { s.spec.root = 5, s.spec.weight = 1, s.spec.op = ReduceOp::kAvg; }},
  });
}

TEST(SubmitCheckTest, EveryFieldIsJudged) {
  CheckAll({
      {"as it should be", Verdict::kAccept, [](auto&) {}},
      {"slot", Verdict::kProtocolError, [](auto& s) { s.slot = abi::kSlotCount; }},
      {"channel", Verdict::kProtocolError, [](auto& s) { s.spec.channel = abi::kChannelCountMax; }},
      {"reserved", Verdict::kProtocolError, [](auto& s) { s.spec.reserved[4] = 1; }},
      {"kind", Verdict::kProtocolError, [](auto& s) { s.spec.kind = static_cast<OpKind>(kOpKindCount); }},
      {"dtype", Verdict::kProtocolError, [](auto& s) { s.spec.dtype = static_cast<DType>(255); }},
      {"op", Verdict::kProtocolError, [](auto& s) { s.spec.op = static_cast<ReduceOp>(kReduceOpCount); }},
      {"codec", Verdict::kProtocolError, [](auto& s) { s.spec.codec = CodeOf(static_cast<Codec>(kCodecCount)); }},
      {"staged", Verdict::kProtocolError, [](auto& s) { s.staged = 2; }},
      {"input region", Verdict::kProtocolError, [](auto& s) { s.input_region = 2; }},
      {"result region", Verdict::kProtocolError, [](auto& s) { s.result_region = 77; }},
      {"count beyond the region", Verdict::kProtocolError, [](auto& s) { s.spec.count = s.result_count = 1025; }},
      {"count overflows bytes", Verdict::kProtocolError,
       [](auto& s) { s.spec.count = s.result_count = kHuge / 4 + 2; }},
      {"offset beyond the region", Verdict::kProtocolError, [](auto& s) { s.input_offset_bytes = 4; }},
      {"offset overflows", Verdict::kProtocolError, [](auto& s) { s.input_offset_bytes = kHuge - 3; }},
      {"result offset overflows", Verdict::kProtocolError, [](auto& s) { s.result_offset_bytes = kHuge - 3; }},
      {"misaligned", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.count = s.result_count = 1;
         s.input_offset_bytes = 2;
       }},
      {"same range", Verdict::kProtocolError, [](auto& s) { s.result_region = 0; }},
      {"ranges overlap by one element", Verdict::kProtocolError,
       [](auto& s) {
         s.result_region = 0;
         s.spec.count = s.result_count = 512;
         s.result_offset_bytes = 2044;
       }},
      {"ranges touch", Verdict::kAccept,
       [](auto& s) {
         s.result_region = 0;
         s.spec.count = s.result_count = 512;
         s.result_offset_bytes = 2048;
       }},
      {"count 0 needs no region", Verdict::kAccept,
       [](auto& s) {
         s.spec.count = s.result_count = 0;
         s.input_region = s.result_region = 99;
       }},
      {"avg of integers", Verdict::kRefuse,
       [](auto& s) {
         s.spec.dtype = DType::kI32;
         s.spec.op = ReduceOp::kAvg;
       }},
      {"codec of doubles", Verdict::kRefuse,
       [](auto& s) {
         s.spec.dtype = DType::kF64;
         s.spec.count = s.result_count = 8;
         s.spec.codec = CodeOf(Codec::kInt8);
       }},
      {"a block that no codec has", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.codec = CodeOf(Codec::kInt8);
         s.spec.codec.block_power = 11;
       }},
      {"a rounding that there is not", Verdict::kProtocolError, [](auto& s) { s.spec.codec.rounding = 2; }},
      {"feedback of what loses nothing", Verdict::kRefuse, [](auto& s) { s.spec.feedback = 5; }},
  });
}

TEST(SubmitCheckTest, LateInputsAreKeptByNameAndWithAQuorum) {
  const auto keeps = [](auto& s) {
    s.spec.late = Late::kNext;
    s.spec.quorum = 2;
    s.spec.feedback = 5;
    s.spec.dtype = DType::kF32;
  };
  CheckAll({
      {"kept", Verdict::kAccept, keeps},
      {"kept without a quorum", Verdict::kProtocolError, [&](auto& s) { keeps(s), s.spec.quorum = 0; }},
      {"kept without a name", Verdict::kProtocolError, [&](auto& s) { keeps(s), s.spec.feedback = 0; }},
      {"kept in integers", Verdict::kRefuse, [&](auto& s) { keeps(s), s.spec.dtype = DType::kI32; }},
      {"another fate", Verdict::kProtocolError, [&](auto& s) { keeps(s), s.spec.late = static_cast<Late>(2); }},
  });
}

TEST(SubmitCheckTest, CountsFitTheCollective) {
  CheckAll({
      {"update_view", Verdict::kAccept,
       [](auto& s) {
         s.spec.kind = OpKind::kUpdateView;
         s.spec.count = s.result_count = 0;
       }},
      {"update_view with a result", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kUpdateView;
         s.spec.count = 0;
       }},
      {"result of another count", Verdict::kProtocolError, [](auto& s) { s.result_count = 1023; }},
      {"result larger than its input", Verdict::kProtocolError, [](auto& s) { s.spec.count = 512; }},
      {"all_gather of four ranks", Verdict::kAccept,
       [](auto& s) {
         s.spec.kind = OpKind::kAllGather;
         s.spec.count = 256;
       }},
      {"all_gather into less than one part", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kAllGather;
         s.result_count = 1023;
       }},
      {"all_gather into its input", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kAllGather;
         s.spec.count = 256;
         s.result_region = 0;
       }},
      {"all_gather of more than 64 ranks can have", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kAllGather;
         s.spec.dtype = DType::kU8;
         s.spec.count = kHuge / 64 + 1;
         s.result_count = kHuge;
       }},
      {"reduce_scatter", Verdict::kAccept, [](auto& s) { s.spec.kind = OpKind::kReduceScatter; }},
      {"reduce_scatter by a tree", Verdict::kRefuse,
       [](auto& s) {
         s.spec.kind = OpKind::kReduceScatter;
         s.spec.algorithm = static_cast<std::uint8_t>(Algorithm::kTree) + 1;
       }},
      {"update_view with elements", Verdict::kProtocolError, [](auto& s) { s.spec.kind = OpKind::kUpdateView; }},
      {"input of another count", Verdict::kProtocolError, [](auto& s) { s.input_count = 1023; }},
      {"all_reduce with counts by rank", Verdict::kProtocolError, [](auto&) {}, {{1024, 0, 0}}},
      {"all_reduce with a rank", Verdict::kProtocolError, [](auto& s) { s.spec.rank = 1; }},
  });
}

// Makes a message from peer 7, or to it.
std::function<void(abi::Submit&)> Message(OpKind kind, const std::function<void(abi::Submit&)>& change = {}) {
  return [=](abi::Submit& s) {
    s.spec.kind = kind;
    s.spec.root = 8;
    s.spec.tag = 5;
    s.input_count = kind == OpKind::kSend ? s.spec.count : 0;
    s.result_count = s.spec.count - s.input_count;
    if (change) change(s);
  };
}

TEST(SubmitCheckTest, MessagesHaveOneBufferAndAnotherPeer) {
  CheckAll({
      {"send", Verdict::kAccept, Message(OpKind::kSend)},
      {"recv", Verdict::kAccept, Message(OpKind::kRecv)},
      {"send of nothing", Verdict::kAccept,
       Message(OpKind::kSend, [](auto& s) { s.spec.count = s.input_count = s.result_count = 0; })},
      {"to itself", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.spec.root = kSelf.value; })},
      {"to nobody", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.spec.root = 0; })},
      {"send with an output", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.result_count = 1; })},
      {"recv with an input", Verdict::kProtocolError, Message(OpKind::kRecv, [](auto& s) { s.input_count = 1; })},
      {"send of less", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.input_count = 1023; })},
      {"beyond its region", Verdict::kProtocolError,
       Message(OpKind::kRecv, [](auto& s) { s.spec.count = s.result_count = 1025; })},
      {"for one world", Verdict::kProtocolError,
       Message(OpKind::kSend, [](auto& s) { s.spec.members = s.spec.world_size = 3; })},
      {"with a rank", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.spec.rank = 1; })},
      {"with a residual", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.spec.feedback = 1; })},
      {"reduced", Verdict::kProtocolError, Message(OpKind::kSend, [](auto& s) { s.spec.op = ReduceOp::kMax; })},
      {"with a codec", Verdict::kRefuse, Message(OpKind::kSend, [](auto& s) { s.spec.codec = CodeOf(Codec::kBf16); })},
      {"by a ring", Verdict::kRefuse,
       Message(OpKind::kSend, [](auto& s) { s.spec.algorithm = static_cast<std::uint8_t>(Algorithm::kRing) + 1; })},
      {"with an impossible priority", Verdict::kProtocolError,
       Message(OpKind::kSend, [](auto& s) { s.spec.priority = 256; })},
      {"all_reduce with a tag", Verdict::kProtocolError, [](auto& s) { s.spec.tag = 1; }},
  });
}

// Makes a submission of rank 1 in a world of `world` ranks with a count for each.
std::function<void(abi::Submit&)> Counted(OpKind kind, std::uint32_t world, std::uint64_t input, std::uint64_t result) {
  return [=](abi::Submit& s) {
    s.spec.kind = kind;
    s.spec.world_size = world;
    s.spec.rank = 1;
    s.spec.members = 99;
    s.input_count = input;
    s.spec.count = s.result_count = result;
  };
}

TEST(SubmitCheckTest, CountsByRankFitTheBuffers) {
  constexpr auto kAllToAllV = OpKind::kAllToAllV;
  constexpr auto kAllGatherV = OpKind::kAllGatherV;
  constexpr auto kReduceScatterV = OpKind::kReduceScatterV;
  const std::vector<abi::RankCounts> pairs = {{100, 10, 50}, {7, 0, 7}, {0, 20, 100}};  // 107 in, up to 120 out
  const std::vector<abi::RankCounts> parts = {{100, 0, 0}, {7, 0, 0}, {0, 0, 0}};
  const std::vector<abi::RankCounts> none(3);
  const auto with = [](std::vector<abi::RankCounts> counts, std::size_t rank, const abi::RankCounts& other) {
    counts[rank] = other;
    return counts;
  };
  CheckAll({
      {"all_to_all_v", Verdict::kAccept, Counted(kAllToAllV, 3, 120, 107), pairs},
      {"all_to_all_v of nothing", Verdict::kAccept, Counted(kAllToAllV, 3, 0, 0), none},
      {"a range beyond the input", Verdict::kProtocolError, Counted(kAllToAllV, 3, 119, 107), pairs},
      {"more than the output", Verdict::kProtocolError, Counted(kAllToAllV, 3, 120, 106), pairs},
      {"counts for fewer", Verdict::kProtocolError, Counted(kAllToAllV, 4, 120, 107), pairs},
      {"no counts", Verdict::kProtocolError, Counted(kAllToAllV, 3, 120, 107), {}},
      {"no world", Verdict::kProtocolError, Counted(kAllToAllV, 0, 0, 0), {}},
      {"a rank beyond them", Verdict::kProtocolError,
       [](auto& s) {
         Counted(kAllToAllV, 3, 120, 107)(s);
         s.spec.rank = 3;
       },
       pairs},
      {"for no members", Verdict::kProtocolError,
       [](auto& s) {
         Counted(kAllToAllV, 3, 120, 107)(s);
         s.spec.members = 0;
       },
       pairs},
      {"sent to itself and received from itself differ", Verdict::kProtocolError, Counted(kAllToAllV, 3, 120, 107),
       with(pairs, 1, {7, 0, 6})},
      {"a begin that overflows", Verdict::kProtocolError, Counted(kAllToAllV, 3, 120, 107),
       with(pairs, 2, {0, kHuge, 100})},
      {"counts that overflow", Verdict::kProtocolError, Counted(kAllToAllV, 3, 120, 107),
       with(with(pairs, 0, {kHuge / 2, 0, 0}), 2, {kHuge / 2 + 109, 0, 0})},
      {"by a ring", Verdict::kRefuse,
       [](auto& s) {
         Counted(kAllToAllV, 3, 120, 107)(s);
         s.spec.algorithm = static_cast<std::uint8_t>(Algorithm::kRing) + 1;
       },
       pairs},
      {"all_gather_v", Verdict::kAccept, Counted(kAllGatherV, 3, 7, 107), parts},
      {"all_gather_v of another's part", Verdict::kProtocolError, Counted(kAllGatherV, 3, 100, 107), parts},
      {"all_gather_v with ranges", Verdict::kProtocolError, Counted(kAllGatherV, 3, 7, 107), pairs},
      {"reduce_scatter_v", Verdict::kAccept, Counted(kReduceScatterV, 3, 107, 107), parts},
      {"reduce_scatter_v of a part", Verdict::kProtocolError, Counted(kReduceScatterV, 3, 7, 107), parts},
      {"beyond the region", Verdict::kProtocolError, Counted(kReduceScatterV, 3, 1025, 1025),
       with(parts, 2, {918, 0, 0})},
  });
}

// A packet of this kind and root whose input and result have these counts.
std::function<void(abi::Submit&)> Rooted(OpKind kind, std::uint64_t root, std::uint64_t input, std::uint64_t result) {
  return [=](abi::Submit& s) {
    s.spec.kind = kind;
    s.spec.root = root;
    s.spec.count = 256;
    s.input_count = input;
    s.result_count = result;
  };
}
std::function<void(abi::Submit&)> ForWorld(std::uint32_t world_size, const std::function<void(abi::Submit&)>& change) {
  return [=](abi::Submit& s) {
    change(s);
    s.spec.world_size = world_size;
    s.spec.members = 99;
  };
}

TEST(SubmitCheckTest, CountsFitTheRankThatIsTheRootOrNot) {
  constexpr auto kMe = kSelf.value;
  CheckAll({
      {"broadcast of the root", Verdict::kAccept, Rooted(OpKind::kBroadcast, kMe, 256, 256)},
      {"broadcast of another", Verdict::kAccept, Rooted(OpKind::kBroadcast, 8, 0, 256)},
      {"broadcast with an input that is not the root's", Verdict::kProtocolError,
       Rooted(OpKind::kBroadcast, 8, 256, 256)},
      {"broadcast of the root without an input", Verdict::kProtocolError, Rooted(OpKind::kBroadcast, kMe, 0, 256)},
      {"broadcast without a root", Verdict::kProtocolError, Rooted(OpKind::kBroadcast, 0, 0, 256)},
      {"reduce", Verdict::kAccept, Rooted(OpKind::kReduce, 8, 256, 256)},
      {"reduce without work space", Verdict::kProtocolError, Rooted(OpKind::kReduce, 8, 256, 0)},
      {"all_gather with a root", Verdict::kProtocolError, Rooted(OpKind::kAllGather, 8, 256, 1024)},
      {"gather at the root", Verdict::kAccept, Rooted(OpKind::kGather, kMe, 256, 1024)},
      {"gather at the root into less than one part", Verdict::kProtocolError, Rooted(OpKind::kGather, kMe, 256, 255)},
      {"gather at another", Verdict::kAccept, Rooted(OpKind::kGather, 8, 256, 0)},
      {"gather into another", Verdict::kProtocolError, Rooted(OpKind::kGather, 8, 256, 1024)},
      {"scatter of the root", Verdict::kAccept, ForWorld(4, Rooted(OpKind::kScatter, kMe, 1024, 256))},
      {"scatter of another", Verdict::kAccept, ForWorld(4, Rooted(OpKind::kScatter, 8, 0, 256))},
      {"scatter for a larger world than its input", Verdict::kProtocolError,
       ForWorld(5, Rooted(OpKind::kScatter, kMe, 1024, 256))},
      {"scatter for no world", Verdict::kProtocolError, Rooted(OpKind::kScatter, 8, 0, 256)},
      {"broadcast for one world", Verdict::kProtocolError, ForWorld(4, Rooted(OpKind::kBroadcast, 8, 0, 256))},
      {"all_to_all", Verdict::kAccept, ForWorld(4, Rooted(OpKind::kAllToAll, 0, 1024, 1024))},
      {"all_to_all for a world beyond 64", Verdict::kProtocolError,
       ForWorld(65, Rooted(OpKind::kAllToAll, 0, 1024, 1024))},
      {"all_to_all into less", Verdict::kProtocolError, ForWorld(4, Rooted(OpKind::kAllToAll, 0, 1024, 1023))},
      {"all_to_all by a ring", Verdict::kRefuse,
       [](auto& s) {
         ForWorld(4, Rooted(OpKind::kAllToAll, 0, 1024, 1024))(s);
         s.spec.algorithm = static_cast<std::uint8_t>(Algorithm::kRing) + 1;
       }},
      {"barrier", Verdict::kAccept,
       [](auto& s) {
         s.spec.kind = OpKind::kBarrier;
         s.spec.count = s.result_count = 0;
       }},
      {"barrier with elements", Verdict::kProtocolError, [](auto& s) { s.spec.kind = OpKind::kBarrier; }},
      {"barrier with a root", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kBarrier;
         s.spec.count = s.result_count = 0;
         s.spec.root = 8;
       }},
      {"update_view with a layout", Verdict::kProtocolError,
       [](auto& s) {
         s.spec.kind = OpKind::kUpdateView;
         s.spec.count = s.result_count = 0;
         s.spec.members = 8;
       }},
      {"all_to_all for nobody", Verdict::kProtocolError,
       [](auto& s) {
         ForWorld(4, Rooted(OpKind::kAllToAll, 0, 1024, 1024))(s);
         s.spec.members = 0;
       }},
  });
}

}  // namespace
}  // namespace ringway::local
