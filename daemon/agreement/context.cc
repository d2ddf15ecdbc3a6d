#include "daemon/agreement/context.h"

#include "proto/word.h"

namespace ringway::agreement {

std::string Context::NameOf(PeerId peer) const {
  const auto rank = view().RankOf(peer);
  if (!rank) return "peer " + ToString(peer);
  const std::string& name = view().infos[rank->value].name();
  return name.empty() ? "peer " + ToString(peer) : name;
}

std::string Context::FieldsOf(PeerId other) const {
  const auto rank = view().RankOf(other);
  const std::string address = rank ? view().infos[rank->value].address() : "";
  return "other=" + Word(NameOf(other)) + " other_id=" + ToString(other) +
         (address.empty() ? "" : " other_address=" + address);
}

}  // namespace ringway::agreement
