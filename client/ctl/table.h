// Shared by the renderings: cells of JSON objects, and tables with aligned columns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringway::ctl {

using Row = std::vector<std::string>;

// The member as text; "-" if it is missing, null or empty.
std::string Text(const nlohmann::json& object, const char* key);

// The objects of an array; empty if there is no array.
std::vector<nlohmann::json> Objects(const nlohmann::json& object, const char* key);

// One line a row, indented; columns as wide as their widest cell.
std::string Table(const std::vector<Row>& rows);

}  // namespace ringway::ctl
