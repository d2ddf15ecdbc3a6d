#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "client/src/request.h"

namespace ringway::internal {
namespace {

Status BindCounts(const World& world, Request* request) {
  const std::span<const std::uint64_t> members = world.members;
  const std::string ranks = std::to_string(members.size()) + " ranks (Session::world_size)";
  if (request->counts.size() != members.size())
    return Refuse("there are counts for " + std::to_string(request->counts.size()) + " ranks, and there are " + ranks);
  const auto own = std::find(members.begin(), members.end(), world.self) - members.begin();
  if (own >= static_cast<std::ptrdiff_t>(members.size()))
    return Status(Code::kProtocol, "the daemon names members without this peer; install the same version of both");
  request->spec.rank = static_cast<std::uint32_t>(own);
  const std::size_t count_max = kOperationBytesMax / SizeOf(request->spec.dtype);
  std::size_t total = 0, sent_upto = 0;
  for (const abi::RankCounts& rank : request->counts) {
    const bool fits = rank.count <= count_max - total && rank.send_count <= count_max &&
                      rank.send_begin <= count_max - rank.send_count;
    if (!fits) return Refuse("counts are at most 2^46 bytes together");
    total += rank.count;
    sent_upto = std::max<std::size_t>(sent_upto, rank.send_begin + rank.send_count);
  }
  const abi::RankCounts& mine = request->counts[request->spec.rank];
  request->spec.count = request->layout.input_count = request->layout.output_count = total;
  if (request->spec.kind == OpKind::kAllToAllV) {
    if (mine.count != mine.send_count) {
      return Refuse("this rank sends " + std::to_string(mine.send_count) + " elements to itself, and receives " +
                    std::to_string(mine.count) + " from itself");
    }
    request->layout.input_count = sent_upto;
  }
  if (request->spec.kind == OpKind::kAllGatherV) request->layout.input_count = mine.count;
  request->layout.part = Part{0, total};
  if (request->spec.kind == OpKind::kReduceScatterV) {
    std::size_t begin = 0;
    for (std::uint32_t rank = 0; rank < request->spec.rank; ++rank) begin += request->counts[rank].count;
    request->layout.part = Part{begin, mine.count};
  }
  return {};
}

// A rank without a result passes no output: it works in memory of the session.
Status CheckBuffers(const Request& request, bool has_result) {
  if (request.tensors != nullptr) return {};  // checked when it was made
  if (request.layout.input_count > 0 && request.input == nullptr) return Refuse("input is null though count is not 0");
  if (has_result && request.output == nullptr) return Refuse("output is null though count is not 0");
  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  const bool may_be_equal = Reduces(request.spec.kind) || request.spec.kind == OpKind::kBroadcast;
  if (request.layout.input_count == 0 || request.layout.output_count == 0 || output == 0) return {};
  if (may_be_equal && input == output) return {};
  const bool apart =
      input < output ? output - input >= request.input_bytes() : input - output >= request.output_bytes();
  if (apart) return {};
  return Refuse(may_be_equal ? "input and output overlap in part; they must be equal or disjoint"
                             : std::string("input and output overlap; those of this collective must be disjoint: ") +
                                   NameOf(request.spec.kind));
}

}  // namespace

void BindToGroup(const JoinOptions& group, Request* request) {
  abi::OpSpec& spec = request->spec;
  if (spec.quorum != Quorum::kOfGroup) return;
  const bool takes = CanAgreeOnInputs(spec.kind, spec.op, group.quorum, 0);
  spec.quorum = takes ? group.quorum.code : Quorum::All().code;
  if (spec.quorum == 0) return;
  if (spec.grace_ms == 0) spec.grace_ms = GraceMs(group.grace);
  if (spec.late == Late::kDropped && spec.feedback != 0) spec.late = group.late;
}

Status CheckRequest(const Request& request) {
  const abi::OpSpec& spec = request.spec;
  if (spec.channel >= abi::kStateChannel) {
    return Refuse("channel must be below " + std::to_string(abi::kStateChannel));
  }
  if (spec.priority > abi::kPriorityMax) {
    return Refuse("the priority is at most " + std::to_string(abi::kPriorityMax));
  }
  const Encoding codec = EncodingOf(spec.codec);
  const char* reason = nullptr;
  if (!IsSupported(spec.dtype, spec.op, codec, &reason)) return Status(Code::kNotSupported, reason);
  if (IsMessage(spec.kind) && codec != Codec::kNone) return Status(Code::kNotSupported, kMessagesHaveNoCodec);
  if (!CanAgreeOnInputs(spec.kind, spec.op, Quorum{spec.quorum}, spec.weight, &reason)) {
    return Status(Code::kNotSupported, reason);
  }
  if (spec.quorum == 0 && spec.grace_ms != 0) return Refuse("a grace needs a quorum");
  if (abi::KeepsLate(spec) && (spec.quorum == 0 || spec.feedback == 0)) {
    return Refuse("late = next needs a quorum, and error_feedback with the tensor's name");
  }
  if (spec.feedback != 0 && !CanFeedBack(spec.kind, spec.dtype, spec.op, codec, spec.late, &reason)) {
    return Status(Code::kNotSupported, reason);
  }
  if (spec.algorithm > kAlgorithmCount) return Status(Code::kNotSupported, "unknown algorithm");
  if (const auto algorithm = abi::AlgorithmOf(spec); algorithm && !HasAlgorithm(spec.kind, *algorithm)) {
    return Status(Code::kNotSupported, std::string(NameOf(spec.kind)) + " has " + AlgorithmsOf(spec.kind));
  }
  const std::size_t largest =
      std::max<std::size_t>({spec.count, request.input_room.value_or(0), request.output_room.value_or(0)});
  if (largest > kOperationBytesMax / SizeOf(spec.dtype)) {
    return Refuse("count must be at most 2^46 bytes; split the buffer");
  }
  return {};
}

Status LeaveOut(std::uint64_t from, bool is_left_out, Request* request) {
  abi::OpSpec& spec = request->spec;
  const bool is_sum = spec.op == ReduceOp::kSum || spec.op == ReduceOp::kAvg;
  if (spec.kind != OpKind::kAllReduce || !is_sum) return {};
  if (spec.quorum != 0 || spec.weight != 0) {
    if (!is_left_out) return {};
    return Status(Code::kNotSupported, "while this rank replays, its sums have neither a quorum nor weights");
  }
  spec.root = from;
  spec.priority = std::max(spec.priority, 1U);  // before the state, which travels beside it
  if (is_left_out) spec.feedback = 0;           // nothing of it is encoded
  return {};
}

Status BindToWorld(const World& world, Request* request) {
  const std::span<const std::uint64_t> members = world.members;
  const auto world_size = static_cast<std::uint32_t>(members.size());
  const std::string ranks = std::to_string(world_size) + " ranks (Session::world_size)";
  const bool is_message = IsMessage(request->spec.kind);
  if (HasRoot(request->spec.kind) || is_message) {
    if (request->root >= members.size()) {
      return Refuse((is_message ? "the other rank" : "root") + (" is " + std::to_string(request->root)) +
                    ", and there are " + ranks);
    }
    request->spec.root = members[request->root];
    if (is_message && request->spec.root == world.self) return Refuse("a rank sends nothing to itself: copy it");
  }
  if (IsForOneWorld(request->spec.kind)) {
    request->spec.world_size = world_size;
    request->spec.members = abi::MembersHash(members);
  }
  if (HasCounts(request->spec.kind)) {
    if (Status error = BindCounts(world, request); !error.ok()) return error;
    return CheckBuffers(*request, request->layout.output_count > 0);
  }
  const std::size_t room = request->input_room.value_or(0);
  if (request->spec.kind == OpKind::kAllToAll) {
    if (room % world_size != 0) return Refuse(std::to_string(room) + " elements are no equal parts for " + ranks);
    request->spec.count = room / world_size;
  }
  const bool is_root = HasRoot(request->spec.kind) && request->spec.root == world.self;
  const Sizes sizes = SizesOf(request->spec.kind, request->spec.count, world_size, is_root);
  if (request->spec.kind == OpKind::kScatter && is_root && room != sizes.input) {
    return Refuse("the input has " + std::to_string(room) + " elements, and " + std::to_string(request->spec.count) +
                  " for each of " + ranks + " are " + std::to_string(sizes.input));
  }
  const std::size_t output_room = request->output_room.value_or(sizes.output);
  if (sizes.output > output_room) {
    return Refuse("the output has room for " + std::to_string(output_room) + " elements; " +
                  std::to_string(request->spec.count) + " of each of " + ranks + " do not fit");
  }
  request->layout.input_count = sizes.input;
  request->layout.output_count = sizes.output == 0 ? 0 : output_room;
  return CheckBuffers(*request, request->layout.output_count > 0 && (request->spec.kind != OpKind::kReduce || is_root));
}

}  // namespace ringway::internal
