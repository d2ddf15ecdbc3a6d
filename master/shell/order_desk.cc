#include "master/shell/order_desk.h"

namespace ringway {

std::vector<OrderDesk::Answer> OrderDesk::TakeDone(const Coordinator& coordinator, TimePoint now) {
  std::vector<Answer> out;
  std::erase_if(orders_, [&](const Order& order) {
    const bool is_done = coordinator.HasDropped(order.group, order.peer);
    if (!is_done && now < order.due) return false;
    const Status late(Code::kTimeout, "the eviction is under way and not recorded yet: see ringwayctl status");
    out.push_back({order.client, is_done ? Status::Ok() : late});
    return true;
  });
  return out;
}

std::vector<OrderDesk::Answer> OrderDesk::TakeAll() {
  std::vector<Answer> out;
  for (const Order& order : std::exchange(orders_, {})) {
    out.push_back({order.client, Status(Code::kMasterUnreachable,
                                        "this master leads no more, and it is not known whether the order was carried "
                                        "out: see ringwayctl status")});
  }
  return out;
}

}  // namespace ringway
