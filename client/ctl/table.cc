#include "client/ctl/table.h"

#include <algorithm>

namespace ringway::ctl {

using nlohmann::json;

json ParseStatus(const std::string& text) {
  constexpr int kLevelsMax = 32;
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth < kLevelsMax; };
  return json::parse(text, is_shallow, false);
}

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "-";
  if (found->is_string()) return found->get<std::string>().empty() ? "-" : found->get<std::string>();
  return found->dump();
}

std::uint64_t CountAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::vector<json> Objects(const json& object, const char* key) {
  std::vector<json> out;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return out;
  for (const json& element : *found) {
    if (element.is_object()) out.push_back(element);
  }
  return out;
}

std::string Table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    out += "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace ringway::ctl
