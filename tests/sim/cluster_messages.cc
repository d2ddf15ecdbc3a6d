#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/buffers/trainer_buffers.h"
#include "tests/sim/cluster.h"
#include "tests/sim/cluster_impl.h"

namespace ringway::sim {
namespace {

constexpr std::uint64_t kFirstToken = std::uint64_t{1} << 32;  // apart from operations'
constexpr std::byte kUsedAgain{0xAB};

}  // namespace

bool Cluster::Knows(std::uint32_t node, std::uint32_t other) const {
  const std::vector<PeerId>& known = nodes_[node]->known;
  return node != other && std::find(known.begin(), known.end(), nodes_[other]->id) != known.end();
}

std::size_t Cluster::OpenMessages(std::uint32_t node) const { return nodes_[node]->messages.size(); }

std::uint64_t Cluster::SubmitMessage(std::uint32_t index, const MessageOrder& order) {
  Node& node = *nodes_[index];
  const PeerId from = order.sends ? node.id : order.other;
  const PeerId to = order.sends ? order.other : node.id;
  MessageKey key{.from = from, .to = to, .channel = order.channel, .tag = order.tag, .seq = 0};
  std::uint64_t& last = node.message_seqs[key];
  key.seq = last + 1;
  const std::size_t bytes = order.count * SizeOf(order.dtype);
  auto memory =
      std::make_shared<std::vector<std::byte>>(order.sends ? BytesOf(key, bytes) : std::vector<std::byte>(bytes));
  const bool staged =
      order.sends && options_.staged_one_of != 0 && bytes > 0 && random_() % options_.staged_one_of == 0;
  agreement::Submission submission;
  submission.token = kFirstToken + ++node.messages_submitted;
  submission.spec.channel = order.channel;
  submission.spec.tag = order.tag;
  submission.descriptor.kind = order.sends ? OpKind::kSend : OpKind::kRecv;
  submission.descriptor.dtype = order.dtype;
  submission.descriptor.count = order.count;
  submission.spec.root = order.other.value;
  submission.time_limit = options_.op_deadline;
  submission.buffers = std::make_shared<buffers::TrainerBuffers>(
      buffers::TrainerBuffers::Places{.input = order.sends ? memory->data() : nullptr,
                                      .input_bytes = order.sends ? bytes : 0,
                                      .input_ready = order.sends && !staged ? bytes : 0,
                                      .output = order.sends ? nullptr : memory->data(),
                                      .output_bytes = order.sends ? 0 : bytes,
                                      .keep = memory});
  const std::uint64_t token = submission.token;
  node.messages[token] = {key, order.sends, memory};
  if (tracing()) Trace(NameOf(index), std::string(order.sends ? "sends " : "receives ") + ToString(key));
  const Status status = node.peer->Submit(std::move(submission), events_.now());
  if (!status.ok()) {
    node.messages.erase(token);
    return 0;
  }
  ++last;
  RecordMessage(node, "submit", node.messages[token], nullptr);
  Drain(index);
  if (staged && node.stages) {
    events_.After(Duration(static_cast<std::int64_t>(random_() % 10'000)), [this, index, token, bytes] {
      WhenRunning(nodes_[index]->host, [this, index, token, bytes] {
        if (nodes_[index]->ended || !nodes_[index]->messages.contains(token)) return;
        nodes_[index]->peer->OnStaged(token, bytes);
        Drain(index);
      });
    });
  }
  return token;
}

void Cluster::CancelMessage(std::uint32_t index, std::uint64_t token) {
  if (tracing()) Trace(NameOf(index), "cancels a message");
  const auto found = nodes_[index]->messages.find(token);
  if (found != nodes_[index]->messages.end()) RecordMessage(*nodes_[index], "cancel", found->second, nullptr);
  nodes_[index]->peer->Cancel(token, events_.now());
  Drain(index);
}

void Cluster::ReportMessage(std::uint32_t index, const agreement::Complete& complete) {
  Node& node = *nodes_[index];
  const auto found = node.messages.find(complete.token);
  if (found == node.messages.end()) return checker_.Fail(NameOf(index) + ": a message that is not open was reported");
  const OpenMessage message = found->second;
  node.messages.erase(found);
  if (complete.outcome.sequence == 0 &&
      complete.outcome.code == Code::kPeerLost) {  // its other end was gone: it has no number
    MessageKey stream = message.key;
    stream.seq = 0;
    --node.message_seqs.at(stream);
    RecordMessage(node, "withdraw", message, nullptr);
    return;
  }
  if (tracing()) {
    Trace(NameOf(index),
          "reported " + ToString(message.key) + ": " + ringway::NameOf(complete.outcome.code) + " " + complete.text);
  }
  if (complete.outcome.sequence != message.key.seq || complete.channel.value != message.key.channel)
    checker_.Fail(NameOf(index) + ": " + ToString(message.key) + " reported by another name");
  RecordMessage(node, "outcome", message, &complete);
  const bool receives = !message.sends;
  if (message.sends && *message.memory != BytesOf(message.key, message.memory->size()))
    checker_.Fail(NameOf(index) + ": what it sends was written to");
  const std::string broken = messages_.OnReported(message.key, node.id, complete.outcome.code,
                                                  receives ? *message.memory : std::vector<std::byte>());
  if (!broken.empty()) checker_.Fail(broken);
  std::fill(message.memory->begin(), message.memory->end(), kUsedAgain);
}

}  // namespace ringway::sim
