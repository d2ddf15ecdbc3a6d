#include "master/membership.h"

#include <algorithm>
#include <utility>

namespace ringway {

std::set<PeerId> WhoGoes(const std::set<PeerId>& members, const std::set<PeerId>& certain,
                         const Accusations& accusations) {
  std::set<PeerId> gone;
  for (const PeerId peer : certain) {
    if (members.contains(peer)) gone.insert(peer);
  }
  for (;;) {
    std::pair<std::size_t, PeerId> worst{0, PeerId()};
    for (const auto& [accused, accusers] : accusations) {
      if (!members.contains(accused) || gone.contains(accused)) continue;
      std::size_t count = 0;
      for (const PeerId accuser : accusers) count += members.contains(accuser) && !gone.contains(accuser) ? 1 : 0;
      if (count > 0) worst = std::max(worst, {count, accused});
    }
    if (worst.first == 0) return gone;
    gone.insert(worst.second);
  }
}

}  // namespace ringway
