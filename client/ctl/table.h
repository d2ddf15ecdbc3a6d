// Shared by the renderings: cells of JSON objects, and tables with aligned columns.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringway::ctl {

using Row = std::vector<std::string>;

// What a program says of itself, which may be hostile: discarded if it is no JSON, cut where it nests too deep to be
// copied.
nlohmann::json ParseStatus(const std::string& text);

// The member as text; "-" if it is missing, null or empty.
std::string Text(const nlohmann::json& object, const char* key);

// The member as a count; 0 if it is none.
std::uint64_t CountAt(const nlohmann::json& object, const char* key);

// The objects of an array; empty if there is no array.
std::vector<nlohmann::json> Objects(const nlohmann::json& object, const char* key);

// One line a row, indented; columns as wide as their widest cell.
std::string Table(const std::vector<Row>& rows);

}  // namespace ringway::ctl
