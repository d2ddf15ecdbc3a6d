// Acts as a user who takes from the other users of a daemon what it can. Each step goes on until the daemon refuses,
// and expects that it does; what was taken is held until the end of the object.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/stream/unique_fd.h"
#include "tests/e2e/hostile_trainer.h"

namespace ringway::e2e {

class Greed {
 public:
  explicit Greed(std::string socket);

  // Regions of which two sessions together get more than a user may have, though the daemon has room. REQUIRES: it has
  // 64 MiB.
  void TakeMemory();
  // Small regions, as many as it gets.
  void TakeMemoryInPieces();
  // One memfd over and over; then there is none for a connection either. REQUIRES: a user may have fewer than a
  // session.
  void TakeDescriptors();
  // Joins that never end, because the groups are never full.
  void TakeSessions();
  // Trainers that die right after their joins, until one has to wait for its turn; returns how many had not.
  int JoinAndDieUntilThrottled();
  void JoinAndDieUntil(const std::function<bool()>& stopped) const;

 private:
  HostileTrainer& Member(const std::string& group);
  static void TakePieces(HostileTrainer& member, std::uint32_t first_slot, std::uint64_t refusals_told);
  std::unique_ptr<HostileTrainer> JoinOnce(int number) const;

  const std::string socket_;
  net::UniqueFd page_;
  std::vector<std::unique_ptr<HostileTrainer>> trainers_;
};

}  // namespace ringway::e2e
