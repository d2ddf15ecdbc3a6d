// Measures what a segment costs agreement::Peer in the middle of a large group, by how many operations are open: its
// header, its payload (4 KiB, so that the sum is small beside the bookkeeping), and the segment that it makes ready,
// given to a lane.
//
//   build/release/bin/peer_bench        64 peers in a ring, 128 lanes a pair
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agreement/peer.h"
#include "proto/check.h"
#include "proto/collective/grid.h"
#include "proto/collective/schedule.h"
#include "proto/hash.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::agreement {
namespace {

constexpr std::uint32_t kWorld = 64;
constexpr std::uint32_t kLanes = 128;
constexpr std::uint64_t kSegment = 4096;
constexpr std::uint64_t kSegmentsAChunk = 32;
constexpr std::uint64_t kCount = kWorld * kSegmentsAChunk * kSegment;  // one byte each
const Epoch kEpoch = Epoch::Of(1, 1);

PeerId IdOf(std::uint32_t rank) { return PeerId(rank + 1); }

// Rank 0 of a view, with all links, and `open` operations that all ranks have submitted.
class Bench {
 public:
  explicit Bench(std::uint64_t open) : open_(open) {
    Join();
    for (std::uint64_t i = 0; i < open_; ++i) Submit(i);
    for (std::uint64_t i = 0; i < open_; ++i) SayReady(i);
    Drain();
    const collective::Schedule schedule = ScheduleOfRank0();
    for (const collective::Arrival& arrival : schedule.arrivals) arrivals_.push_back(arrival);
  }

  // Delivers one segment and takes what it makes ready. Returns false when there are none left.
  bool Step() {
    const std::uint64_t frames_an_op = arrivals_.size() * kSegmentsAChunk;
    if (frame_ == frames_an_op * open_) return false;
    // The operations take turns, as they do on the wire.
    const std::uint64_t op = frame_ % open_;
    const std::uint64_t place = frame_ / open_;
    const collective::Arrival& arrival = arrivals_[place / kSegmentsAChunk];
    SegmentHeader header;
    header.kind = SegmentKind::kData;
    header.epoch = kEpoch;
    header.op = {ChannelId(0), op + 1};
    header.descriptor = Described();
    header.descriptor.schedule = Algorithm::kRing;
    header.step = arrival.step;
    header.chunk = arrival.chunk;
    header.segment = static_cast<std::uint32_t>(place % kSegmentsAChunk);
    header.payload_bytes = kSegment;
    header.payload_hash = hash_;
    const LinkId lane{IdOf(arrival.from.value), false, LaneId(static_cast<std::uint32_t>(3 + frame_ % (kLanes - 3)))};
    ++frame_;
    RINGWAY_CHECK(peer_->OnHeader(lane, header).ok());
    RINGWAY_CHECK(peer_->OnPayload(lane, payload_, hash_).ok());
    benchmark::DoNotOptimize(peer_->TakeActions());
    Drain();
    return true;
  }

 private:
  static Descriptor Described() {
    return {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, kCount};
  }

  static collective::Schedule ScheduleOfRank0() {
    collective::Routes routes;
    for (std::uint32_t rank = 0; rank < kWorld; ++rank) routes.ring.emplace_back(rank);
    return collective::MakeSchedule(OpKind::kAllReduce, Algorithm::kRing, routes, Rank(0));
  }

  void Join() {
    peer_.emplace(IdOf(0), "g");
    control::ViewFor message;
    message.set_peer(IdOf(0).value);
    control::View& view = *message.mutable_view();
    view.set_epoch(kEpoch.value);
    view.set_min_world(1);
    view.mutable_plan()->set_segment_bytes_max(kSegment);
    control::Candidates candidates;
    for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
      control::PeerInfo info;
      info.set_peer_id(IdOf(rank).value);
      info.set_name("p" + std::to_string(rank));
      info.set_address("127.0.0.1:1");
      *view.add_members() = info;
      view.add_ring(rank);
      if (rank > 0) *candidates.add_others() = info;
    }
    peer_->OnCandidates(candidates, now_);
    for (std::uint32_t rank = 1; rank < kWorld; ++rank) {
      peer_->OnLinkUp({IdOf(rank), true, {}}, {}, now_);
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        peer_->OnLinkUp({IdOf(rank), false, LaneId(lane)}, {.lanes = kLanes, .lanes_max = kLanes, .generation = 1},
                        now_);
      }
    }
    peer_->OnView(message, now_);
    (void)peer_->TakeActions();
  }

  void Submit(std::uint64_t token) {
    Submission submission;
    submission.token = token;
    submission.descriptor = Described();
    submission.spec.algorithm = abi::CodeOf(Algorithm::kRing);
    submission.buffers = buffers::BuffersOf(input_, result_, kCount);
    RINGWAY_CHECK(peer_->Submit(std::move(submission), now_).ok());
    (void)peer_->TakeActions();
  }

  void SayReady(std::uint64_t op) {
    control::PeerMessage message;
    control::Ready& ready = *message.mutable_ready();
    ready.set_epoch(kEpoch.value);
    ready.set_seq(op + 1);
    ready.set_dtype(static_cast<std::uint32_t>(DType::kU8));
    ready.set_count(kCount);
    message.set_number(op + 1);
    for (std::uint32_t rank = 1; rank < kWorld; ++rank) {
      RINGWAY_CHECK(peer_->OnPeerMessage(IdOf(rank), message, now_).ok());
    }
    (void)peer_->TakeActions();
  }

  // Lanes are always idle.
  void Drain() {
    Outbound out;
    for (const PeerId to : peer_->PeersWithWork()) {
      while (peer_->NextSegment({to, false, LaneId(3 + lane_++ % (kLanes - 3))}, kPayloadBytesMax, {}, out)) {
      }
    }
  }

  const std::uint64_t open_;
  TimePoint now_{};
  std::optional<Peer> peer_;
  std::vector<std::byte> input_ = std::vector<std::byte>(kCount);
  std::vector<std::byte> result_ = std::vector<std::byte>(kCount);
  std::vector<std::byte> payload_ = std::vector<std::byte>(kSegment);
  std::uint64_t hash_ = Hash64(payload_);
  std::vector<collective::Arrival> arrivals_;
  std::uint64_t frame_ = 0;
  std::uint32_t lane_ = 0;
};

void Frame(benchmark::State& state) {
  const auto open = static_cast<std::uint64_t>(state.range(0));
  std::optional<Bench> bench(open);
  for (auto _ : state) {
    if (bench->Step()) continue;
    state.PauseTiming();
    bench.emplace(open);
    state.ResumeTiming();
  }
}
BENCHMARK(Frame)->ArgName("open")->Arg(1)->Arg(16)->Arg(256)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ringway::agreement

BENCHMARK_MAIN();
