// What the renderings share: cells of JSON objects, and tables with aligned columns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringway::ctl {

using Row = std::vector<std::string>;

// The member as text; "-" where it is missing, null or empty.
std::string Text(const nlohmann::json& object, const char* key);

// The objects of an array; nothing where there is none.
std::vector<nlohmann::json> Objects(const nlohmann::json& object, const char* key);

// One line a row, indented; columns as wide as their widest cell.
std::string Table(const std::vector<Row>& rows);

}  // namespace ringway::ctl
