// The sends with an attempt, by receiver: those to one receiver take turns by stream, and go in order within one.
//
// Ownership: the peer's; it outlives the attempts. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "daemon/transfer/attempt.h"
#include "daemon/transfer/message_name.h"
#include "proto/ids.h"

namespace ringway::transfer {

class MessageQueue {
 public:
  static constexpr Rank kReceiver{1};  // in an attempt's schedule, whatever the ranks of its ends in the view are

  void Add(Attempt& attempt) { sending_[attempt.name.stream.to][attempt.name.message()] = &attempt; }
  void Remove(const MessageName& name);

  struct Popped {
    Attempt* attempt = nullptr;
    collective::Ready ready;
  };
  // The next segment for `to` that fits. `last`, which is advanced: the stream whose segment the lane sent last.
  std::optional<Popped> Next(PeerId to, std::uint32_t bytes_max, StreamName& last);
  template <typename F>
  void ForEachPeerWithWork(F&& visit) const {
    for (const auto& [peer, attempts] : sending_) {
      for (const auto& [name, attempt] : attempts) {
        if (!attempt->executor().NextBytes(kReceiver)) continue;
        visit(peer);
        break;
      }
    }
  }

 private:
  std::map<PeerId, std::map<MessageName, Attempt*>> sending_;
};

}  // namespace ringway::transfer
