// Sends and recvs between random pairs of a random world, beside the programs of its trainers: each end submits its own
// after a pause of its own, on a few channels and tags, so that many are in flight. Some have another count than their
// partner, some cancel.
#pragma once

#include <cstdint>
#include <random>

#include "tests/sim/cluster.h"

namespace ringway::sim {

class MessageTraffic {
 public:
  MessageTraffic(Cluster& cluster, std::uint64_t seed) : cluster_(cluster), random_(seed) {}

  void Begin() { Later(); }
  // No more of them, and nobody errs or cancels.
  void Stop() { stopped_ = true; }
  // Every one that was begun has ended, at all that are there.
  bool Done() const;

 private:
  void Later();
  void Exchange();
  void Submit(std::uint32_t node, PeerId as, const MessageOrder& order);
  Duration Pause();
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  Cluster& cluster_;
  std::mt19937_64 random_;
  bool stopped_ = false;
  std::uint64_t waiting_ = 0;  // ends that are to be submitted
};

}  // namespace ringway::sim
