#include "daemon/agreement/context.h"

namespace ringway::agreement {

std::string Context::NameOf(PeerId peer) const {
  const auto rank = view().RankOf(peer);
  if (!rank) return "peer " + ToString(peer);
  const std::string& name = view().infos[rank->value].name();
  return name.empty() ? "peer " + ToString(peer) : name;
}

LogFields Context::FieldsOf(PeerId other) const {
  LogFields fields{{"other", NameOf(other)}, {"other_id", ToString(other)}};
  const auto rank = view().RankOf(other);
  const std::string address = rank ? view().infos[rank->value].address() : "";
  if (!address.empty()) fields.emplace_back("other_address", address);
  return fields;
}

}  // namespace ringway::agreement
