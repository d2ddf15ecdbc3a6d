// Records submissions and outcomes for check_history.py (tests/history).
#include <algorithm>
#include <utility>
#include <vector>

#include "proto/hash.h"
#include "tests/history/history.h"
#include "tests/sim/cluster.h"
#include "tests/sim/cluster_impl.h"
#include "tests/sim/oracle.h"

namespace ringway::sim {
namespace {

using history::Object;

std::vector<std::uint64_t> Numbers(const std::vector<PeerId>& peers) {
  std::vector<std::uint64_t> out;
  for (const PeerId peer : peers) out.push_back(peer.value);
  return out;
}

std::uint64_t SaltOf(const OpName& op) { return op.seq * 64 + op.channel.value; }

bool IsToEach(OpKind kind) {
  return kind == OpKind::kScatter || kind == OpKind::kAllToAll || kind == OpKind::kAllToAllV;
}

// Bytes of the pieces that move as they are, in the input or the output of this rank.
std::vector<std::size_t> PiecesOf(const OpName& op, const Descriptor& d, std::uint32_t world, std::uint32_t rank,
                                  bool is_output, std::size_t bytes) {
  const std::size_t size = SizeOf(d.dtype);
  std::vector<std::size_t> out;
  if (HasCounts(d.kind)) {
    const collective::Layout layout = LayoutOf(op, d, world, rank);
    if (!is_output && d.kind == OpKind::kAllGatherV) return {bytes};
    for (const std::uint64_t count : layout.counts) out.push_back(count * size);
    return out;
  }
  const bool has_one = is_output ? d.kind == OpKind::kScatter || d.kind == OpKind::kBroadcast : !IsToEach(d.kind);
  if (has_one) return {bytes};
  const std::size_t each = d.count * size;
  return std::vector<std::size_t>(each * world == bytes ? world : 0, each);  // none: not the root
}

// The pieces of an all_to_all_v's input overlap, and each is where the layout says.
std::string DescribeRanges(const std::vector<std::byte>& input, const collective::Layout& layout, std::size_t size) {
  std::string list;
  for (const Part& range : layout.sends) {
    const std::string one = history::DescribePieces(input.data() + range.begin * size, {range.count * size});
    const std::size_t begin = one.find('[') + 1;
    list += (list.empty() ? "" : ",") + one.substr(begin, one.find(']') - begin);
  }
  return "{\"pieces\":[" + list + "]}";
}

}  // namespace

void Cluster::RecordRun() const {
  if (options_.history == nullptr) return;
  const std::uint64_t retained = std::max(options_.master.small_bytes_max, options_.master.retained_bytes_max);
  options_.history->Write(
      "run", Object().Add("source", "simulation").Add("seed", options_.seed).Add("retained_bytes", retained));
}

void Cluster::RecordJoin(const Node& node) const {
  if (options_.history == nullptr) return;
  options_.history->Write("join", Object()
                                      .Add("peer", node.id.value)
                                      .Add("group", node.order.group)
                                      .Add("min_world", std::uint64_t{node.order.min_world})
                                      .Add("fail_on_peer_loss", node.order.fail_on_peer_loss));
}

void Cluster::RecordView(const Node& node, Epoch epoch, const std::vector<PeerId>& members) const {
  if (options_.history == nullptr) return;
  options_.history->Write("view", Object()
                                      .Add("peer", node.id.value)
                                      .Add("group", node.order.group)
                                      .Add("epoch", epoch.value)
                                      .Add("members", Numbers(members)));
}

void Cluster::RecordEnd(const Node& node, std::string_view code) const {
  if (options_.history == nullptr) return;
  options_.history->Write("end", Object().Add("peer", node.id.value).Add("code", code));
}

void Cluster::RecordSubmission(const Node& node, const Operation& op, const agreement::Submission& submission) const {
  if (options_.history == nullptr) return;
  const Descriptor& d = op.descriptor;
  Object event;
  event.Add("peer", node.id.value).Add("group", node.order.group).Add("channel", std::uint64_t{op.name.channel.value});
  event.Add("op", std::vector<std::uint64_t>{op.name.seq}).Add("kind", ringway::NameOf(d.kind));
  event.Add("dtype", ringway::NameOf(d.dtype)).Add("reduce", ringway::NameOf(d.op));
  event.Add("codec", ringway::NameOf(d.codec)).Add("count", submission.descriptor.count);
  event.Add("bytes", std::uint64_t{op.result->size()}).Add("feedback", submission.spec.feedback != 0);
  if (HasRoot(d.kind)) event.Add("root", op.laid.root.value);
  if (d.quorum != 0) event.Add("quorum", std::uint64_t{d.quorum});
  if (d.without_from() != PeerId()) event.Add("without_from", d.without_from().value);
  if (d.weighted) event.Add("weight", submission.spec.weight);
  if (HasCounts(d.kind)) event.Add("layout", history::HexOf(submission.descriptor.layout));
  if (const auto algorithm = abi::AlgorithmOf(submission.spec)) event.Add("algorithm", ringway::NameOf(*algorithm));
  const std::vector<std::byte> input = InputOf(node.id, op.name, d, op.laid);  // a staged one is not there yet
  if (Reduces(d.kind)) {
    const std::size_t count = submission.descriptor.count;
    event.AddRaw("input", history::Describe({d.dtype, input.data(), {0, count}, count, SaltOf(op.name)}));
  } else if (d.kind == OpKind::kAllToAllV) {
    event.AddRaw("input", DescribeRanges(input, *submission.layout, SizeOf(d.dtype)));
  } else if (!IsEmpty(d.kind)) {
    event.AddRaw("input", history::DescribePieces(input.data(), PiecesOf(op.name, d, op.laid.world_size, op.laid.rank,
                                                                         false, input.size())));
  }
  options_.history->Write("submit", event);
}

void Cluster::RecordOutcome(const Node& node, const Operation& op, const agreement::Complete& complete,
                            const Outcome& reported, bool intact) const {
  if (options_.history == nullptr) return;
  const Descriptor& d = op.descriptor;
  Object event;
  event.Add("peer", node.id.value).Add("group", node.order.group);
  event.Add("channel", std::uint64_t{complete.channel.value});
  event.Add("op", std::vector<std::uint64_t>{complete.outcome.sequence}).Add("code", ringway::NameOf(reported.code));
  event.Add("intact", intact);
  if (reported.code != Code::kOk) {
    options_.history->Write("outcome", event.Add("text", reported.text));
    return;
  }
  event.Add("epoch", reported.epoch.value).Add("contributors", Numbers(reported.contributors));
  event.Add("world", std::uint64_t{reported.contributors.size()}).Add("update_waits", reported.update_waits);
  std::vector<PeerId> absent;
  for (std::size_t place = 0; place < reported.contributors.size(); ++place) {
    if ((reported.absent >> place & 1) != 0) absent.push_back(reported.contributors[place]);
  }
  if (!absent.empty()) event.Add("absent", Numbers(absent));
  event.Add("retries", std::uint64_t{reported.retries}).Add("error_bound", double{complete.outcome.error_bound});
  event.Add("scribbled", reported.scribbled);
  if (d.kind == OpKind::kUpdateView) event.Add("next", reported.next);
  event.Add("digest", history::HexOf(Hash64(reported.result)));
  const auto world = static_cast<std::uint32_t>(reported.contributors.size());
  if (Reduces(d.kind)) {
    const bool is_root = HasRoot(d.kind) && reported.contributors[complete.outcome.rank] == op.laid.root;
    const Part part = ResultAt(op.name, d, world, complete.outcome.rank, is_root);
    const std::size_t whole = HasCounts(d.kind) ? LayoutOf(op.name, d, world, complete.outcome.rank).total() : d.count;
    event.AddRaw("output", history::Describe({d.dtype, reported.result.data(), part, whole, SaltOf(op.name)}));
  } else if (!IsEmpty(d.kind)) {
    const auto pieces = PiecesOf(op.name, d, world, complete.outcome.rank, true, reported.result.size());
    event.AddRaw("output", history::DescribePieces(reported.result.data(), pieces));
  }
  options_.history->Write("outcome", event);
}

void Cluster::RecordMessage(const Node& node, std::string_view event, const OpenMessage& message,
                            const agreement::Complete* complete) const {
  if (options_.history == nullptr) return;
  const MessageKey& key = message.key;
  Object members;
  members.Add("peer", node.id.value).Add("group", node.order.group).Add("channel", std::uint64_t{key.channel});
  members.Add("from", key.from.value).Add("to", key.to.value).Add("tag", std::uint64_t{key.tag});
  members.Add("op", std::vector<std::uint64_t>{key.seq}).Add("kind", message.sends ? "send" : "recv");
  const std::string pieces = history::DescribePieces(message.memory->data(), {message.memory->size()});
  if (event == "submit" && message.sends) members.AddRaw("input", pieces);
  if (complete != nullptr) {
    members.Add("code", ringway::NameOf(complete->outcome.code));
    if (complete->ok()) members.Add("epoch", complete->outcome.epoch);
    if (complete->ok() && !message.sends) members.AddRaw("output", pieces);
  }
  options_.history->Write(event, members);
}

void Cluster::RecordCancel(const Node& node, const OpName& op) const {
  if (options_.history == nullptr) return;
  options_.history->Write("cancel", Object()
                                        .Add("peer", node.id.value)
                                        .Add("group", node.order.group)
                                        .Add("channel", std::uint64_t{op.channel.value})
                                        .Add("op", std::vector<std::uint64_t>{op.seq}));
}

void Cluster::RecordOver(const std::vector<std::uint32_t>& stayed) {
  if (options_.history == nullptr) return;
  for (std::uint32_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = *nodes_[index];
    const bool stays = std::find(stayed.begin(), stayed.end(), index) != stayed.end();
    if (node.joined && !node.ended && !stays) RecordEnd(node, "gone");
  }
  options_.history->Write("over", {});
}

}  // namespace ringway::sim
