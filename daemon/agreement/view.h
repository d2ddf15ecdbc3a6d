// A view as its members use it: who is in, at which rank, in which ring, under which plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/collective/schedule.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

// Operations up to so many bytes are done this way.
struct AlgorithmRule {
  std::uint64_t bytes_upto = 0;
  Algorithm algorithm = Algorithm::kRing;
};

struct Plan {
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t small_bytes_max = 64 * 1024;
  std::uint64_t retained_bytes_max = 64 * 1024;  // at least small_bytes_max
  std::uint64_t eager_bytes_max = 4 << 20;
  Duration heartbeat = std::chrono::milliseconds(500);
  Duration detect = std::chrono::milliseconds(3000);
  // Rules by collective, in ascending order of size; beyond the last rule the algorithm is the ring.
  std::map<OpKind, std::vector<AlgorithmRule>> algorithms;

  // `wire_bytes`: of the whole buffer, encoded.
  Algorithm AlgorithmFor(OpKind kind, std::uint64_t wire_bytes) const;
};

// Values outside what this daemon can carry out are brought into range: the same on every rank.
Plan PlanFrom(const control::Plan& plan);

struct View {
  Epoch epoch;
  std::vector<PeerId> members;           // rank order
  std::vector<control::PeerInfo> infos;  // rank order
  std::map<PeerId, Rank> ranks;
  collective::Routes routes;
  std::uint32_t min_world = 1;
  Duration hung{};  // whoever holds all others up for so long goes; 0: never
  Plan plan;

  std::uint32_t world_size() const { return static_cast<std::uint32_t>(members.size()); }
  bool Contains(PeerId peer) const { return ranks.contains(peer); }
  std::optional<Rank> RankOf(PeerId peer) const;
};

// kProtocol if members repeat, a ring is no permutation or there are over kRingsMax, shares are not what ShareMax
// allows, `self` is missing or the world is empty or too large.
Result<View> ViewFrom(const control::View& view, PeerId self);

// Next sequence number by channel.
using ChannelSeqs = std::map<ChannelId, std::uint64_t>;
ChannelSeqs SeqsFrom(const google::protobuf::RepeatedPtrField<control::ChannelSeq>& seqs);
void SeqsTo(const ChannelSeqs& seqs, google::protobuf::RepeatedPtrField<control::ChannelSeq>& out);

}  // namespace ringway::agreement
