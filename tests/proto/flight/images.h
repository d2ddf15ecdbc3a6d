// Images of a flight recorder, for tests of those who read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/fixed_text.h"
#include "proto/flight/layout.h"

namespace ringway::flight {

inline Name MakeName(std::uint64_t peer, const std::string& group, const std::string& text) {
  Name name{};
  name.peer = peer;
  SetText(name.group, group);
  SetText(name.name, text);
  return name;
}

inline Header MakeHeader(const std::string& daemon, std::size_t names, std::size_t records) {
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.record_bytes = sizeof(Record);
  header.names_max = static_cast<std::uint32_t>(names);
  header.records_max = static_cast<std::uint32_t>(records);
  SetText(header.daemon, daemon);
  return header;
}

inline std::string MakeImage(const std::string& daemon, const std::vector<Name>& names,
                             const std::vector<Record>& records) {
  const Header header = MakeHeader(daemon, names.size(), records.size());
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  if (!names.empty()) image.append(reinterpret_cast<const char*>(names.data()), names.size() * sizeof(Name));
  if (!records.empty()) image.append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
  return image;
}

inline std::span<const std::byte> BytesOf(const std::string& image) { return std::as_bytes(std::span(image)); }

}  // namespace ringway::flight
