// Two peers whose frames are carried by hand. Carrying them allocates nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/agreement/peer.h"
#include "proto/hash.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::agreement {

inline constexpr std::uint64_t kBufferBytes = 300'000;
inline constexpr std::uint32_t kDuoLanes = 4;

inline PeerId IdOf(std::size_t index) { return PeerId(index + 1); }

// A peer, its trainer's memory and what came of it.
struct DuoNode {
  std::uint64_t said = 0;  // number of its last message
  explicit DuoNode(std::size_t index) : peer(IdOf(index), "g"), input(kBufferBytes), result(kBufferBytes) {
    for (std::size_t i = 0; i < kBufferBytes; ++i) input[i] = static_cast<std::byte>(i * 7 + index);
  }
  bool Owns(const std::byte* at) const {
    const auto in = [at](const std::vector<std::byte>& memory) {
      return at >= memory.data() && at < memory.data() + memory.size();
    };
    return in(input) || in(result);
  }
  Peer peer;
  std::vector<std::byte> input, result;
  std::optional<Code> reported, ended;
  std::set<std::uint64_t> done;  // tokens of what has succeeded
  std::vector<std::string> events;
  std::vector<control::Report> reports;
};

class DuoTest : public testing::Test {
 protected:
  DuoTest() {
    for (const std::size_t index : {0, 1}) {
      control::Candidates candidates;
      candidates.set_peer(IdOf(index).value);
      candidates.set_formed(true);
      control::PeerInfo& info = *candidates.add_others();
      info.set_peer_id(IdOf(1 - index).value);
      info.set_address("127.0.0.1:1");
      Node(index).OnCandidates(candidates, now_);
      Node(index).OnLinkUp({IdOf(1 - index), true, {}}, {}, now_);
      for (std::uint32_t lane = 0; lane < kDuoLanes; ++lane) {
        Node(index).OnLinkUp(LaneOf(index, lane), {.lanes = kDuoLanes, .generation = 1}, now_);
      }
    }
    Install(1);
  }

  Peer& Node(std::size_t index) { return nodes_[index].peer; }
  LinkId LaneOf(std::size_t index, std::uint32_t lane) const { return {IdOf(1 - index), false, LaneId(lane)}; }

  void Install(std::uint32_t counter, const std::vector<control::Verdict>& verdicts = {},
               std::uint32_t segment_bytes_max = 0) {
    for (const std::size_t index : {0, 1}) {
      control::ViewFor message;
      message.set_peer(IdOf(index).value);
      control::View& view = *message.mutable_view();
      view.set_epoch(Epoch::Of(1, counter).value);
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        control::PeerInfo& info = *view.add_members();
        info.set_peer_id(IdOf(rank).value);
        info.set_name("p" + std::to_string(rank));
        info.set_address("127.0.0.1:1");
        view.add_ring(rank);
      }
      view.set_min_world(1);
      view.mutable_plan()->set_small_bytes_max(1000);
      view.mutable_plan()->set_eager_bytes_max(1 << 20);
      if (segment_bytes_max != 0) view.mutable_plan()->set_segment_bytes_max(segment_bytes_max);
      for (const control::Verdict& verdict : verdicts) *view.add_verdicts() = verdict;
      Node(index).OnView(message, now_);
    }
    Drain();
  }

  void SubmitBoth(std::uint64_t bytes = kBufferBytes) {
    SubmitBoth({OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, bytes});
  }
  void SubmitBoth(const Descriptor& descriptor, std::optional<std::uint64_t> input_ready = {},
                  std::uint64_t feedback = 0) {
    for (DuoNode& node : nodes_) {
      Submission submission;
      submission.descriptor = descriptor;
      submission.spec.feedback = feedback;
      submission.buffers =
          buffers::BuffersOf(node.input, node.result, descriptor.count * SizeOf(descriptor.dtype), input_ready);
      ASSERT_TRUE(node.peer.Submit(std::move(submission), now_).ok());
    }
    Drain();
  }

  // Carries out what the two ask for, until they ask for nothing.
  void Drain() {
    for (bool again = true; std::exchange(again, false);) {
      for (const std::size_t index : {0, 1}) {
        for (Action& action : Node(index).TakeActions()) {
          again = true;
          CarryOut(index, action);
        }
      }
    }
  }

  void CarryOut(std::size_t index, const Action& action) {
    DuoNode& node = nodes_[index];
    if (const auto* said = std::get_if<ToPeer>(&action)) {
      node.said = std::max(node.said, said->message.number());
      EXPECT_TRUE(Node(1 - index).OnPeerMessage(IdOf(index), said->message, now_).ok());
    } else if (const auto* report = std::get_if<ToMaster>(&action)) {
      if (report->message.has_report()) node.reports.push_back(report->message.report());
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      node.reported = complete->outcome.code;
      if (complete->outcome.code == Code::kOk) node.done.insert(complete->token);
    } else if (const auto* ended = std::get_if<Ended>(&action)) {
      node.ended = ended->code;
    } else if (const auto* note = std::get_if<Note>(&action)) {
      node.events.push_back(note->event);
    }
  }

  // Work of both. Returns whether there was any.
  bool WorkBoth() {
    bool worked = false;
    for (const std::size_t index : {0, 1}) {
      for (; Node(index).HasWork(); worked = true) Node(index).Work();
    }
    return worked;
  }

  struct Frame {
    LinkId lane;  // as its receiver names it
    SegmentHeader header;
    Outbound out;
  };
  std::optional<Frame> Next(std::size_t from, std::uint32_t lane) {
    Frame frame{LaneOf(1 - from, lane), {}, {}};
    if (!Node(from).NextSegment(LaneOf(from, lane), kPayloadBytesMax, codec_scratch_, frame.out)) return std::nullopt;
    frame.header = DecodeSegmentHeader(frame.out.header).value();
    return frame;
  }
  // The kind of memory that it was read into. `between`: when the payload is in memory there and is not judged yet.
  Inbound::Kind Receive(std::size_t to, const Frame& frame, const std::function<void(std::span<std::byte>)>& between) {
    const auto inbound = Node(to).OnHeader(frame.lane, frame.header);
    EXPECT_TRUE(inbound.ok());
    if (inbound.value().kind != Inbound::Kind::kDiscard) {
      std::span<std::byte> payload(scratch_.data(), frame.out.payload.size());
      if (inbound.value().kind == Inbound::Kind::kDirect) payload = {inbound.value().target, payload.size()};
      std::copy(frame.out.payload.begin(), frame.out.payload.end(), payload.begin());
      if (between) between(payload);
      if (const Status status = Node(to).OnPayload(frame.lane, payload, Hash64(payload)); !status.ok()) {
        Node(to).OnLinkDown(frame.lane, status.text(), now_);
      }
    }
    Drain();
    return inbound.value().kind;
  }
  Inbound::Kind Receive(std::size_t to, const Frame& frame) { return Receive(to, frame, nullptr); }
  static void Flip(std::span<std::byte> payload) { payload[payload.size() / 2] ^= std::byte{1}; }
  static bool IsFinal(const DuoNode& sender, const Frame& frame) {
    const std::byte* const at = frame.out.payload.data();
    return at >= sender.result.data() && at < sender.result.data() + kBufferBytes;
  }

  // All frames, on this lane, until there are none or `stop` says so of one, which is returned.
  std::optional<Frame> Run(std::uint32_t lane, const std::function<bool(std::size_t, const Frame&)>& stop) {
    for (bool again = true; std::exchange(again, false);) {
      for (const std::size_t from : {0, 1}) {
        while (auto frame = Next(from, lane)) {
          again = true;
          if (stop && stop(from, *frame)) return frame;
          Receive(1 - from, *frame);
        }
      }
    }
    return std::nullopt;
  }
  std::optional<Frame> RunUntilFinalOfFirst(std::uint32_t lane) {
    return Run(lane, [&](std::size_t from, const Frame& frame) { return from == 0 && IsFinal(nodes_[0], frame); });
  }

  void ExpectRightSums() {
    for (const DuoNode& node : nodes_) {
      EXPECT_EQ(node.reported, Code::kOk);
      for (std::size_t i = 0; i < kBufferBytes; ++i) {
        ASSERT_EQ(node.result[i], static_cast<std::byte>(i * 14 + 1)) << i;
      }
    }
  }
  bool Said(std::size_t index, const std::string& event) const {
    const std::vector<std::string>& events = nodes_[index].events;
    return std::find(events.begin(), events.end(), event) != events.end();
  }
  TimePoint now_{std::chrono::seconds(1)};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kPayloadBytesMax);
  std::vector<std::byte> codec_scratch_ = std::vector<std::byte>(kPayloadBytesMax);
  std::deque<DuoNode> nodes_{[] {
    std::deque<DuoNode> nodes;
    nodes.emplace_back(0);
    nodes.emplace_back(1);
    return nodes;
  }()};
};

}  // namespace ringway::agreement
