// Reads the JSON of a status: text of another process, maybe on another host, which may lack any member or give it
// another type. What is returned by reference lives in `object`. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringway::ctl {

using Json = nlohmann::json;

// Null if it is missing, or `object` is none.
inline const Json& At(const Json& object, const char* key) {
  static const Json kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}
const Json& At(Json&& object, const char* key) = delete;

inline std::string TextAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

inline bool IsTrue(const Json& object, const char* key) { return At(object, key) == Json(true); }

inline std::optional<std::uint64_t> Count(const Json& value) {
  return value.is_number_unsigned() ? std::optional(value.get<std::uint64_t>()) : std::nullopt;
}

// The objects of a list, the first ones of a long one.
inline std::vector<std::reference_wrapper<const Json>> ObjectsAt(const Json& object, const char* key) {
  constexpr std::size_t kObjectsMax = 4096;
  std::vector<std::reference_wrapper<const Json>> out;
  for (const Json& one : At(object, key)) {
    if (one.is_object() && out.size() < kObjectsMax) out.emplace_back(one);
  }
  return out;
}
std::vector<std::reference_wrapper<const Json>> ObjectsAt(Json&& object, const char* key) = delete;

}  // namespace ringway::ctl
