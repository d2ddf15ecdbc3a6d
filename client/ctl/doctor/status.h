// Reads the JSON of a status: text of another process, maybe on another host, which may lack any member or give it
// another type. Values; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringway::ctl {

using Json = nlohmann::json;

// Null if it is missing, or `object` is none.
inline Json At(const Json& object, const char* key) { return object.is_object() ? object.value(key, Json()) : Json(); }

inline std::string TextAt(const Json& object, const char* key) {
  const Json value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

inline bool IsTrue(const Json& object, const char* key) { return At(object, key) == Json(true); }

inline std::optional<std::uint64_t> Count(const Json& value) {
  return value.is_number_unsigned() ? std::optional(value.get<std::uint64_t>()) : std::nullopt;
}

// The objects of a list, the first ones of a long one.
inline std::vector<Json> ObjectsAt(const Json& object, const char* key) {
  constexpr std::size_t kObjectsMax = 4096;
  std::vector<Json> out;
  for (const Json& one : At(object, key)) {
    if (one.is_object() && out.size() < kObjectsMax) out.push_back(one);
  }
  return out;
}

}  // namespace ringway::ctl
