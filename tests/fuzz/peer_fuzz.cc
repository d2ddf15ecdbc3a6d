// A member of a view of three, whose two neighbours send any control messages and any segments: it writes only into its
// own memory (the sanitizers watch), holds a bounded number of bytes, and speaks only to peers of its views.
//
// The master is honest here, as the daemon trusts it; coordinator_fuzz.cc has the lying daemons.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/agreement/peer.h"
#include "daemon/buffers/trainer_buffers.h"
#include "proto/hash.h"
#include "tests/fuzz/input.h"

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kSelf = 2;
constexpr std::uint32_t kPeers = 3;  // 1 .. 3
constexpr std::uint32_t kLanes = 9;  // so that there may be more
constexpr int kStepsMax = 400;
constexpr std::uint64_t kElements = 96;
constexpr std::uint32_t kSegmentBytes = 64;

// The trainer's memory. It is freed when the peer releases it, so that a late write is seen.
struct Buffers {
  std::vector<float> input = std::vector<float>(kElements, 1.0F);
  std::vector<float> result = std::vector<float>(kElements);
};

class World {
 public:
  // Tight: of 1 KiB for what comes early a few segments find no room, and copies take several slices.
  explicit World(fuzz::Input input)
      : input_(input),
        peer_(PeerId(kSelf), "g",
              {.slice_bytes = 2 * kSegmentBytes,
               .memory = std::make_shared<MemoryShare>(std::make_shared<MemoryBudget>(2048))}) {
    peer_.OnView(ViewOf(1), now_);
    for (const std::uint64_t other : {1U, 3U}) LinkUp(other);
    Drain();
  }

  void Run() {
    for (int step = 0; step < kStepsMax && !input_.empty() && !ended_; ++step) {
      Step();
      Drain();
      if (peer_.HasWork()) peer_.Work();
      while (Send()) Drain();
    }
  }

 private:
  void Step() {
    const PeerId other(input_.OneIn(2) ? 1 : 3);
    switch (input_.Below(14)) {
      case 0:
        now_ += std::chrono::milliseconds(4 * input_.Below(256));
        return peer_.Tick(now_);
      case 1:
        return Submit();
      case 2:
        return LinkDown(other);
      case 3:
        return LinkUp(other.value);
      case 4:
        if (input_.OneIn(4)) peer_.OnView(ViewOf(++counter_), now_);
        return;
      case 5:
        return peer_.Cancel(1 + input_.Below(8), now_);
      case 6:
      case 7:
        return Say(other, Raw());
      case 8:
        return Say(other, Numbered(other, Message()));
      case 9:
        return Exchange(other);
      case 10:
        return Say(other, Numbered(other, PointToPoint()));
      default:
        return Segment(other);
    }
  }

  static control::ViewFor ViewOf(std::uint32_t counter) {
    control::ViewFor initial;
    initial.set_peer(kSelf);
    control::View& view = *initial.mutable_view();
    view.set_group("g");
    view.set_epoch(Epoch::Of(1, counter).value);
    for (std::uint32_t rank = 0; rank < kPeers; ++rank) {
      view.add_members()->set_peer_id(1 + rank);
      view.add_ring(rank);
    }
    control::Plan& plan = *view.mutable_plan();
    plan.set_segment_bytes_max(kSegmentBytes);
    plan.set_small_bytes_max(256);
    plan.set_eager_bytes_max(4096);
    plan.set_heartbeat_ms(500);
    plan.set_detect_ms(3000);
    return initial;
  }

  void LinkUp(std::uint64_t other) {
    const LinkId control{PeerId(other), true, LaneId()};
    if (peer_.Admit(control, {}, nullptr).ok()) peer_.OnLinkUp(control, {.lanes = kLanes}, now_);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const LinkId link{PeerId(other), false, LaneId(lane)};
      if (!peer_.Admit(link, {.lanes = kLanes}, nullptr).ok()) continue;
      up_.insert(link);
      peer_.OnLinkUp(link, {.lanes = kLanes, .lanes_max = kLanes + 4, .generation = ++generation_}, now_);
    }
  }

  void LinkDown(PeerId other) {
    const LinkId link{other, input_.OneIn(4), LaneId(input_.Below(kLanes))};
    if (link.control) return peer_.OnLinkDown({other, true, LaneId()}, "fuzz", now_);
    if (up_.erase(link) > 0) peer_.OnLinkDown(link, "fuzz", now_);
  }

  // Whose messages do not follow each other has its control link closed.
  void Say(PeerId other, const control::PeerMessage& message) {
    if (!peer_.OnPeerMessage(other, message, now_).ok()) peer_.OnLinkDown({other, true, LaneId()}, "fuzz", now_);
  }
  control::PeerMessage Numbered(PeerId other, control::PeerMessage message) {
    if (!message.has_heartbeat()) message.set_number(++numbers_[other]);
    return message;
  }

  Descriptor SomeDescriptor() {
    Descriptor descriptor{.dtype = DType::kF32, .count = kElements};
    if (input_.OneIn(8)) descriptor.count = input_.Below(static_cast<std::uint32_t>(kElements));
    if (input_.OneIn(16)) descriptor.op = ReduceOp::kMax;
    if (input_.OneIn(4)) descriptor.kind = input_.OneIn(2) ? OpKind::kAllGather : OpKind::kReduceScatter;
    if (descriptor.kind == OpKind::kAllGather) descriptor.count /= 8;
    return descriptor;
  }

  void Submit() {
    const auto memory = std::make_shared<Buffers>();
    const Descriptor descriptor = SomeDescriptor();
    Submission submission;
    submission.token = ++token_;
    submission.spec.channel = input_.Below(2);
    submission.descriptor = descriptor;
    const std::uint64_t input_bytes = descriptor.count * sizeof(float);
    submission.buffers = std::make_shared<buffers::TrainerBuffers>(
        buffers::TrainerBuffers::Places{.input = reinterpret_cast<const std::byte*>(memory->input.data()),
                                        .input_bytes = input_bytes,
                                        .input_ready = input_bytes,
                                        .output = reinterpret_cast<std::byte*>(memory->result.data()),
                                        .output_bytes = kElements * sizeof(float),
                                        .keep = memory});
    (void)peer_.Submit(std::move(submission), now_);
  }

  // One end of a message, of one of two sizes.
  void Exchange(PeerId other) {
    const auto memory = std::make_shared<Buffers>();
    const bool sends = input_.OneIn(2);
    Submission submission;
    submission.token = ++token_;
    submission.spec.channel = input_.Below(2);
    submission.spec.tag = input_.Below(2);
    submission.spec.root = other.value;
    submission.descriptor = {.kind = sends ? OpKind::kSend : OpKind::kRecv, .dtype = DType::kF32, .count = SomeCount()};
    const std::uint64_t bytes = submission.descriptor.count * sizeof(float);
    submission.buffers = std::make_shared<buffers::TrainerBuffers>(
        buffers::TrainerBuffers::Places{.input = reinterpret_cast<const std::byte*>(memory->input.data()),
                                        .input_bytes = sends ? bytes : 0,
                                        .input_ready = sends ? bytes : 0,
                                        .output = reinterpret_cast<std::byte*>(memory->result.data()),
                                        .output_bytes = sends ? 0 : bytes,
                                        .keep = memory});
    (void)peer_.Submit(std::move(submission), now_);
  }
  std::uint64_t SomeCount() {
    if (input_.OneIn(16)) return input_.Below(static_cast<std::uint32_t>(kElements));
    return input_.OneIn(2) ? kElements : 20;
  }

  control::PeerMessage PointToPoint() {
    control::PeerMessage message;
    control::PointToPoint& said = *message.mutable_point_to_point();
    Name(said);
    said.set_step(static_cast<control::PointToPoint::Step>(input_.Below(5)));
    said.set_tag(input_.Below(2));
    said.set_code(input_.Below(4) == 0 ? input_.Below(40) : static_cast<std::uint32_t>(Code::kCancelled));
    said.set_dtype(input_.OneIn(8) ? input_.Below(40) : static_cast<std::uint32_t>(DType::kF32));
    said.set_count(input_.OneIn(32) ? input_.Number<std::uint64_t>() : SomeCount());
    said.set_resend(input_.OneIn(4));
    said.set_early(input_.OneIn(4));
    return message;
  }

  control::PeerMessage Raw() {
    control::PeerMessage message;
    const auto bytes = input_.Take(input_.Below(64));
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) message.Clear();
    return message;
  }

  template <typename Named>
  void Name(Named& message) {
    message.set_epoch(SomeEpoch().value);
    message.set_channel(input_.Below(3));
    message.set_seq(SomeSequence());
  }

  void Describe(control::Ready& ready) {
    Name(ready);
    ready.set_dtype(input_.OneIn(8) ? input_.Below(300) : static_cast<std::uint32_t>(DType::kF32));
    ready.set_op(input_.Below(3));
    ready.set_count(input_.OneIn(8) ? input_.Number<std::uint64_t>() : input_.Below(300));
    ready.set_algorithm(input_.Below(9));
    ready.set_quorum(input_.OneIn(8) ? input_.Below(300) : 1);
    ready.set_weighted(input_.OneIn(2));
  }

  control::PeerMessage Message() {
    control::PeerMessage message;
    switch (input_.Below(11)) {
      case 9:
        Describe(*message.mutable_offer()->mutable_op());
        message.mutable_offer()->set_weight(input_.OneIn(4) ? -1 : 2);
        message.mutable_offer()->set_grace_ms(input_.Below(300));
        break;
      case 10:
        Describe(*message.mutable_inputs()->mutable_op());
        message.mutable_inputs()->set_absent(input_.Below(8));
        for (std::uint64_t i = input_.Below(4); i > 0; --i)
          message.mutable_inputs()->add_weights(static_cast<double>(i));
        break;
      case 7:
        Name(*message.mutable_resend());
        message.mutable_resend()->set_step(input_.Below(8));
        message.mutable_resend()->set_chunk(input_.Below(4));
        message.mutable_resend()->set_segment(input_.Below(4));
        break;
      case 0:
        Name(*message.mutable_ready());
        break;
      case 1:
        Name(*message.mutable_done());
        break;
      case 2:
        message.mutable_abort()->set_epoch(SomeEpoch().value);
        break;
      case 3:
        message.mutable_heartbeat()->set_epoch(SomeEpoch().value);
        message.mutable_heartbeat()->add_complete_upto()->set_seq(SomeSequence());
        break;
      case 4:
        Name(*message.mutable_fetch());
        break;
      case 5:
        message.mutable_activate()->set_epoch(SomeEpoch().value);
        break;
      case 6:
        message.mutable_lanes_wanted()->set_lanes(input_.OneIn(4) ? input_.Number<std::uint32_t>() : input_.Below(16));
        break;
      default:
        message.mutable_lane_closed()->set_lane(input_.Below(kLanes + 1));
        message.mutable_lane_closed()->set_generation(generation_ - input_.Below(4) / 2);
        message.mutable_lane_closed()->set_frames(input_.OneIn(4) ? input_.Number<std::uint64_t>() : input_.Below(8));
    }
    return message;
  }

  Epoch SomeEpoch() {
    if (input_.OneIn(32)) return Epoch(input_.Number<std::uint64_t>());
    return Epoch::Of(1, counter_ + input_.Below(16) / 15);
  }

  std::uint64_t SomeSequence() { return input_.OneIn(32) ? input_.Number<std::uint64_t>() : input_.Below(6); }

  void Segment(PeerId other) {
    const LinkId lane{other, false, LaneId(input_.Below(kLanes))};
    if (!up_.contains(lane)) return;
    SegmentHeader header;
    header.kind = input_.OneIn(8) ? SegmentKind::kFetched : SegmentKind::kData;
    if (input_.OneIn(16)) header.kind = SegmentKind::kProbe;
    header.epoch = SomeEpoch();
    header.op = {ChannelId(input_.Below(2)), SomeSequence()};
    header.descriptor = SomeDescriptor();
    if (input_.OneIn(2)) {
      header.kind = SegmentKind::kMessage;
      header.descriptor = {.kind = OpKind::kSend, .dtype = DType::kF32, .count = SomeCount()};
      header.descriptor.layout = input_.OneIn(32) ? input_.Number<std::uint64_t>() : input_.Below(2);
    }
    header.step = static_cast<std::uint16_t>(input_.OneIn(16) ? input_.Number<std::uint16_t>() : input_.Below(5));
    header.chunk = static_cast<std::uint16_t>(input_.Below(4));
    header.segment = input_.OneIn(16) ? input_.Number<std::uint32_t>() : input_.Below(4);
    header.payload_bytes = input_.OneIn(4) ? input_.Number<std::uint32_t>() % 2048 : kSegmentBytes;
    const std::vector<std::byte> payload(header.payload_bytes, std::byte{0});
    header.payload_hash = input_.OneIn(16) ? 0 : Hash64(payload);
    const Result<Inbound> inbound = peer_.OnHeader(lane, header);
    bool lost = !inbound.ok();
    if (inbound.ok() && inbound.value().kind == Inbound::Kind::kDirect) {
      std::copy(payload.begin(), payload.end(), inbound.value().target);
      lost = !peer_.OnPayload(lane, {inbound.value().target, payload.size()}, Hash64(payload)).ok();
    } else if (inbound.ok() && inbound.value().kind == Inbound::Kind::kScratch) {
      lost = !peer_.OnPayload(lane, payload, Hash64(payload)).ok();
    }
    if (lost && up_.erase(lane) > 0) peer_.OnLinkDown(lane, "protocol", now_);
  }

  // One segment a lane; whether there was any.
  bool Send() {
    bool sent = false;
    for (const LinkId& lane : std::set<LinkId>(up_)) {
      Outbound out;
      if (!peer_.NextSegment(lane, kSegmentBytes, scratch_, out)) continue;
      REQUIRE(out.payload.size() <= kSegmentBytes);
      // Reads all of it.
      const Result<SegmentHeader> header = DecodeSegmentHeader(out.header);
      REQUIRE(header.ok() && header.value().payload_hash == Hash64(out.payload));
      sent = true;
    }
    return sent;
  }

  void Drain() {
    for (const Action& action : peer_.TakeActions()) {
      if (const auto* to = std::get_if<ToPeer>(&action)) REQUIRE(to->to.value == 1 || to->to.value == 3);
      if (const auto* complete = std::get_if<Complete>(&action)) {
        REQUIRE(complete->token >= 1 && complete->token <= token_);
        REQUIRE(completed_.insert(complete->token).second);
      }
      if (const auto* closed = std::get_if<CloseLinks>(&action)) {
        std::erase_if(up_, [&](const LinkId& link) {
          return link.other == closed->other && (!closed->lane.has_value() || link.lane == *closed->lane);
        });
      }
      ended_ = ended_ || std::holds_alternative<Ended>(action);
    }
  }

  fuzz::Input input_;
  Peer peer_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint32_t counter_ = 1;
  std::uint64_t generation_ = 0, token_ = 0;
  std::map<PeerId, std::uint64_t> numbers_;
  std::set<LinkId> up_;
  std::set<std::uint64_t> completed_;
  std::array<std::byte, kSegmentBytes> scratch_{};
  bool ended_ = false;
};

}  // namespace
}  // namespace ringway::agreement

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ringway::agreement::World(ringway::fuzz::Input(data, size)).Run();
  return 0;
}
