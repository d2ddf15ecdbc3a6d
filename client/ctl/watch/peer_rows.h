// What a status (JSON of a master or of a daemon) says of each peer now, and who waits for whom. Pure.
//
// A status is text of another process: members may be missing or of another type, lists are cut at kPeersMax.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringway::ctl {

inline constexpr std::size_t kPeersMax = 4096;

// What a peer has waited for since long.
struct PeerWait {
  std::string what;  // name of the operation or message; empty: nothing
  double seconds = 0;
  std::vector<std::string> on;  // names of those whose trainers have not submitted it
  std::string reason;           // in words, where `on` is empty: "data", "a new view"
};

struct PeerRow {
  std::string group;
  std::string name;
  std::string site;
  std::string daemon;       // empty: a daemon's own status does not repeat it
  std::string rank;         // "-": it is in no view
  std::string why_pending;  // of one that is not let in yet
  bool is_pending = false;
  bool is_online = true;            // its daemon is heard by the master
  std::optional<double> ops_per_s;  // nothing: not known
  std::optional<double> op_ms;      // mean of its newest operations, likewise
  std::optional<double> sent_mbit;
  std::optional<double> late_ms;  // by how much it submits after the first; where all of a group are known
  double retried = 0, failed = 0, lanes_lost = 0, resent = 0;
  PeerWait wait;
  std::vector<std::string> awaited_by;  // names of those that wait for it
};

// Rows of one group, or of all (empty), in the order of the status.
std::vector<PeerRow> PeerRows(const nlohmann::json& status, const std::string& group = "");

// Who waits for whom, a sentence each: "a, b wait for c: 0:7, 4.2 s".
std::vector<std::string> WaitSentences(const std::vector<PeerRow>& rows);

// The names, and how many there are beyond the first few.
std::string Listed(const std::vector<std::string>& names);
// "4.2 s", "3 min".
std::string AgeText(double seconds);
// With three significant digits; "-" for nothing.
std::string NumberText(const std::optional<double>& number);
// The member, if it is a text, so that a terminal prints it as it is; else "".
std::string PrintableAt(const nlohmann::json& object, const char* key);

}  // namespace ringway::ctl
