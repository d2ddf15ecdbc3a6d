// Evictions that an operator has ordered, and who waits for the answer to each.
//
//   Add --> TakeDone: the peer is dropped, and the store has the group without it; or kWait is over
//       --> TakeAll: this master was deposed meanwhile, and its successor may never hear of the order
//
// Pure. Bounded by the connections: each has one order at most, and is forgotten with its connection. Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/coordinator.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

class OrderDesk {
 public:
  using Connection = std::uint64_t;
  static constexpr Duration kWait = std::chrono::seconds(3);

  struct Answer {
    Connection to = 0;
    Status status;
  };

  void Add(Connection client, std::string group, PeerId peer, TimePoint now) {
    orders_.push_back({client, std::move(group), peer, now + kWait});
  }
  void Forget(Connection client) {
    std::erase_if(orders_, [client](const Order& order) { return order.client == client; });
  }
  std::vector<Answer> TakeDone(const Coordinator& coordinator, TimePoint now);
  std::vector<Answer> TakeAll();

 private:
  struct Order {
    Connection client = 0;
    std::string group;
    PeerId peer;
    TimePoint due{};
  };

  std::vector<Order> orders_;
};

}  // namespace ringway
