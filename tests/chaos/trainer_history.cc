#include "tests/chaos/trainer_history.h"

#include <xxhash.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/chaos/program.h"

namespace ringway::chaos {
namespace {

using history::Object;

bool IsToEach(OpKind kind) { return kind == OpKind::kScatter || kind == OpKind::kAllToAll; }

std::uint64_t SaltOf(const OpName& name) { return InputNumber(name.step, name.index); }

// Elements of the pieces that a result is of; with counts by rank they are compared as a whole.
std::vector<std::size_t> PiecesOf(const Submitted& op, std::size_t result_count) {
  const std::size_t size = SizeOf(op.reduction.dtype);
  if (!CountsByRank(op.kind) || op.kind == OpKind::kScatter || op.count == 0) return {result_count * size};
  return std::vector<std::size_t>(result_count / op.count, op.count * size);
}

}  // namespace

void TrainerHistory::Write(const char* event, const Object& members) const {
  if (writer_.Write(event, members)) return;
  std::perror("history");
  std::exit(1);
}

Object TrainerHistory::Named(std::uint64_t peer, const Submitted& op) const {
  Object out;
  out.Add("peer", peer).Add("group", group_).Add("channel", std::uint64_t{op.channel});
  out.Add("op", std::vector<std::uint64_t>{op.name.life, op.name.step, op.name.index});
  return out;
}

void TrainerHistory::Join(std::uint64_t peer) const {
  Write("join", Object()
                    .Add("peer", peer)
                    .Add("group", group_)
                    .Add("min_world", std::uint64_t{1})
                    .Add("fail_on_peer_loss", false));
}

void TrainerHistory::End(std::uint64_t peer, Code code) const {
  Write("end", Object().Add("peer", peer).Add("code", NameOf(code)));
}

void TrainerHistory::Submit(std::uint64_t peer, const Submitted& op, const void* input, std::size_t input_count) const {
  if (!writer_.on()) return;
  const std::size_t size = SizeOf(op.reduction.dtype);
  Object event = Named(peer, op);
  event.Add("kind", NameOf(op.kind)).Add("dtype", NameOf(op.reduction.dtype)).Add("reduce", NameOf(op.reduction.op));
  event.Add("codec", NameOf(op.reduction.codec)).Add("count", std::uint64_t{op.count});
  event.Add("bytes", std::uint64_t{op.count * size});
  if (op.algorithm) event.Add("algorithm", NameOf(*op.algorithm));
  if (op.root != 0) event.Add("root", op.root);
  if (op.quorum != Quorum::All()) event.Add("quorum", std::uint64_t{op.quorum.code});
  if (Reduces(op.kind)) {
    event.AddRaw("input",
                 history::Describe({op.reduction.dtype, input, {0, input_count}, input_count, SaltOf(op.name)}));
  } else if (!HasCounts(op.kind) && !IsEmpty(op.kind)) {
    const std::size_t pieces = IsToEach(op.kind) ? op.world : 1;
    event.AddRaw("input", history::DescribePieces(input, std::vector<std::size_t>(input_count == 0 ? 0 : pieces,
                                                                                  input_count / pieces * size)));
  }
  Write("submit", event);
}

void TrainerHistory::Cancel(std::uint64_t peer, const Submitted& op) const { Write("cancel", Named(peer, op)); }

void TrainerHistory::Outcome(std::uint64_t peer, const Submitted& op, const Result<OpResult>& outcome,
                             const void* output, bool intact) const {
  if (!writer_.on()) return;
  Object event = Named(peer, op);
  event.Add("code", NameOf(outcome.status().code())).Add("intact", intact);
  if (!outcome.ok()) return Write("outcome", event.Add("text", outcome.status().text()));
  std::vector<std::uint64_t> members = outcome->contributors;
  members.insert(members.end(), outcome->absent.begin(), outcome->absent.end());
  event.Add("epoch", outcome->epoch).Add("contributors", members);
  if (!outcome->absent.empty()) event.Add("absent", outcome->absent).Add("in_rank_order", false);
  event.Add("world", std::uint64_t{outcome->world_size}).Add("update_waits", outcome->update_waits);
  event.Add("retries", std::uint64_t{outcome->retries}).Add("error_bound", double{outcome->error_bound});
  const Part part = outcome->part;
  const std::size_t size = SizeOf(op.reduction.dtype);
  const std::byte* const result = static_cast<const std::byte*>(output) + part.begin * size;
  event.Add("digest", history::HexOf(XXH3_64bits(result, part.count * size)));
  if (Reduces(op.kind)) {
    event.AddRaw("output", history::Describe({op.reduction.dtype, result, part, op.count, SaltOf(op.name)}));
  } else if (!HasCounts(op.kind) && !IsEmpty(op.kind)) {
    event.AddRaw("output", history::DescribePieces(result, PiecesOf(op, part.count)));
  }
  Write("outcome", event);
}

}  // namespace ringway::chaos
