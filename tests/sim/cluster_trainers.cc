#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/buffers/trainer_buffers.h"
#include "proto/check.h"
#include "proto/local_abi.h"
#include "tests/sim/cluster.h"
#include "tests/sim/cluster_impl.h"
#include "tests/sim/oracle.h"

namespace ringway::sim {
namespace {

constexpr std::byte kUnstaged{0xDD};
constexpr std::uint64_t kStagingPauseMax = 10'000;  // microseconds, between pieces

struct Self {
  PeerId id;
  std::uint32_t index = 0;
};
void SetOptions(abi::OpSpec& spec, const Descriptor& descriptor, const OpName& op, const Self& self) {
  spec.priority = static_cast<std::uint32_t>((op.seq + op.channel.value + self.index) % 3);  // each rank its own
  spec.quorum = descriptor.quorum;
  spec.weight = descriptor.weighted ? WeightOf(self.id, op) : 0;
  spec.grace_ms = descriptor.quorum == 0 ? 0 : static_cast<std::uint32_t>(op.seq * 13 % 5 * 10);
}

}  // namespace

bool Cluster::Submit(std::uint32_t index, const Descriptor& descriptor, std::uint32_t channel) {
  Node& node = *nodes_[index];
  RINGWAY_CHECK(node.joined && DescriptorIsSimulated(descriptor));
  if (node.ended) return false;
  Operation op;
  // The daemon numbers a newcomer's operations from where the members stand; inputs use the name it will get.
  op.name = {ChannelId(channel), node.peer->NextSequence(ChannelId(channel))};
  op.descriptor = descriptor;
  const OpKind kind = descriptor.kind;
  op.laid.world_size = static_cast<std::uint32_t>(node.known.size());
  op.laid.rank =
      static_cast<std::uint32_t>(std::find(node.known.begin(), node.known.end(), node.id) - node.known.begin());
  if (HasRoot(kind)) op.laid.root = node.known[descriptor.root % node.known.size()];
  const bool is_root = op.laid.root == node.id;
  op.input = std::make_shared<std::vector<std::byte>>(InputOf(node.id, op.name, descriptor, op.laid));
  const bool gathers = kind == OpKind::kAllGather || kind == OpKind::kGather;
  const auto world = gathers ? static_cast<std::uint32_t>(nodes_.size()) : op.laid.world_size;
  std::size_t room = SizesOf(kind, descriptor.count, world, is_root).output;
  agreement::Submission submission;
  submission.descriptor = descriptor;
  if (HasCounts(kind)) {
    submission.layout =
        std::make_shared<const collective::Layout>(LayoutOf(op.name, descriptor, op.laid.world_size, op.laid.rank));
    submission.descriptor = WithCounts(descriptor, *submission.layout);
    room = submission.descriptor.count;
  }
  op.result = std::make_shared<std::vector<std::byte>>(room * SizeOf(descriptor.dtype));
  submission.token = node.submitted + 1;
  submission.spec.channel = channel;
  submission.spec.root = op.laid.root.value;
  submission.descriptor.root = 0;
  if (IsForOneWorld(kind)) {
    submission.spec.members = abi::MembersHash(node.known, &PeerId::value);
    submission.spec.world_size = op.laid.world_size;
  }
  // Some of the newer kinds as the plan says.
  const bool planned = !IsTheSameOnAll(kind) || HasRoot(kind) || kind == OpKind::kBarrier;
  if (kind != OpKind::kUpdateView && !(planned && op.name.seq % 3 == 0))
    submission.spec.algorithm = abi::CodeOf(descriptor.schedule);
  const bool staged = options_.staged_one_of != 0 && random_() % options_.staged_one_of == 0;
  if (staged) std::fill(op.input->begin(), op.input->end(), kUnstaged);
  op.staged = staged ? 0 : op.input->size();
  submission.buffers = std::make_shared<buffers::TrainerBuffers>(buffers::TrainerBuffers::Places{
      .input = op.input->data(),
      .input_bytes = op.input->size(),
      .input_ready = op.staged,
      .output = op.result->data(),
      .output_bytes = op.result->size(),
      .keep = std::make_shared<std::pair<decltype(op.input), decltype(op.result)>>(op.input, op.result)});
  submission.time_limit = options_.op_deadline;
  submission.spec.feedback = FeedbackOf(descriptor, node.OpenDescriptors());
  SetOptions(submission.spec, descriptor, op.name, {node.id, index});
  if (tracing()) Trace(NameOf(index), "submits " + ToString(op.name) + ": " + ToString(descriptor));
  node.operations[submission.token] = op;
  Status status = node.peer->Submit(submission, events_.now());
  if (submission.spec.feedback != 0 && status.code() == Code::kResourceExhausted) {  // then without
    submission.spec.feedback = 0;
    status = node.peer->Submit(submission, events_.now());
  }
  if (status.ok()) {
    ++node.submitted;
    RecordSubmission(node, op, submission);
    if (staged) Stage(index, node.submitted);
    Drain(index);
  } else {
    node.operations.erase(node.submitted + 1);
    if (status.text().find("error_feedback") != std::string::npos) checker_.Fail(NameOf(index) + ": " + status.text());
  }
  return status.ok();
}

// One piece of an input after the other, until all is there, the operation is over or the device fails that has it.
void Cluster::Stage(std::uint32_t index, std::uint64_t token) {
  const Duration pause(static_cast<std::int64_t>(random_() % kStagingPauseMax));
  events_.After(pause, [this, index, token] {
    WhenRunning(nodes_[index]->host, [this, index, token] {
      Node& node = *nodes_[index];
      const auto found = node.operations.find(token);
      if (found == node.operations.end() || node.ended || !node.stages) return;
      Operation& op = found->second;
      if (staging_fails_ && options_.staging_fails_one_of != 0 && random_() % options_.staging_fails_one_of == 0) {
        Trace(NameOf(index), "cannot read its input of " + ToString(op.name));
        RecordCancel(node, op.name);
        node.peer->Cancel(token, events_.now());
        return Drain(index);
      }
      const std::vector<std::byte> whole = InputOf(node.id, op.name, op.descriptor, op.laid);
      const std::size_t piece = 1 + random_() % std::max<std::size_t>(whole.size() / 2, 1);
      op.staged = std::min(op.staged + piece, whole.size());
      std::copy_n(whole.begin(), op.staged, op.input->begin());
      if (op.staged < whole.size()) Stage(index, token);
      node.peer->OnStaged(token, op.staged);
      Drain(index);
    });
  });
}

bool Cluster::TakesState(std::uint32_t index) const { return nodes_[index]->takes_state; }
const std::set<PeerId>& Cluster::AskersOf(std::uint32_t index) const { return nodes_[index]->askers; }

void Cluster::FinishState(std::uint32_t index) {
  Node& node = *nodes_[index];
  RINGWAY_CHECK(std::exchange(node.takes_state, false));
  node.peer->OnStateTaken(events_.now());
  Drain(index);
}

void Cluster::StopStaging(std::uint32_t index) { nodes_[index]->stages = false; }

bool Cluster::InputIsAsStaged(std::uint32_t index, const Operation& op) const {
  std::vector<std::byte> expected = InputOf(nodes_[index]->id, op.name, op.descriptor, op.laid);
  std::fill(expected.begin() + static_cast<std::ptrdiff_t>(op.staged), expected.end(), kUnstaged);
  return *op.input == expected;
}

// Returns the part of the operation's output memory that is its result.
std::vector<std::byte> Cluster::ResultOf(const Operation& op, const agreement::Complete& complete) {
  if (!complete.ok() || op.descriptor.kind == OpKind::kUpdateView) return {};
  const auto world = static_cast<std::uint32_t>(complete.contributors.size());
  const bool is_root = HasRoot(op.descriptor.kind) && complete.contributors[complete.outcome.rank] == op.laid.root;
  const Part range = ResultAt(op.name, op.descriptor, world, complete.outcome.rank, is_root);
  const std::size_t size = SizeOf(op.descriptor.dtype);
  RINGWAY_CHECK((range.begin + range.count) * size <= op.result->size());
  const auto begin = op.result->begin() + static_cast<std::ptrdiff_t>(range.begin * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(range.count * size)};
}

void Cluster::Cancel(std::uint32_t index, OpName name) {
  Node& node = *nodes_[index];
  Trace(NameOf(index), "cancels");
  RecordCancel(node, name);
  for (const auto& [token, op] : node.operations) {
    if (op.name == name) node.peer->Cancel(token, events_.now());
  }
  Drain(index);
}

void Cluster::Leave(std::uint32_t index) {
  Trace(NameOf(index), "leaves");
  nodes_[index]->peer->Leave(events_.now() + std::chrono::seconds(10), events_.now());
  Drain(index);
}

void Cluster::AbandonTrainer(std::uint32_t index) {
  Trace(NameOf(index), "is abandoned by its trainer");
  nodes_[index]->peer->Abandon(events_.now());
  Drain(index);
}

}  // namespace ringway::sim
