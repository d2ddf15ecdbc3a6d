#include "tests/chaos/record.h"

#include <array>
#include <charconv>
#include <map>
#include <sstream>

namespace ringway::chaos {
namespace {

constexpr std::array<const char*, 3> kKinds = {"join", "op", "end"};

// All of `text`, or nothing.
template <typename Number>
bool ReadNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

using Fields = std::map<std::string, std::string, std::less<>>;

template <typename Number>
bool Take(const Fields& fields, std::string_view key, Number* value) {
  const auto found = fields.find(key);
  return found != fields.end() && ReadNumber(found->second, value);
}

bool TakePeers(const Fields& fields, const char* key, std::vector<std::uint64_t>* peers) {
  const auto found = fields.find(key);
  if (found == fields.end()) return false;
  std::istringstream list(found->second);
  for (std::string one; std::getline(list, one, ',');) {
    if (!ReadNumber(one, &peers->emplace_back())) return false;
  }
  return true;
}

bool TakeOp(const Fields& fields, Record* record) {
  int intact = 0;
  const bool complete = Take(fields, "life", &record->name.life) && Take(fields, "step", &record->name.step) &&
                        Take(fields, "index", &record->name.index) && Take(fields, "bytes", &record->bytes) &&
                        Take(fields, "epoch", &record->epoch) && Take(fields, "retries", &record->retries) &&
                        Take(fields, "hash", &record->hash) && Take(fields, "wrong", &record->wrong) &&
                        Take(fields, "intact", &intact) && TakePeers(fields, "from", &record->contributors) &&
                        TakePeers(fields, "without", &record->absent);
  record->intact = intact == 1;
  return complete;
}

std::string Listed(const std::vector<std::uint64_t>& peers) {
  std::string out;
  for (const std::uint64_t peer : peers) out += (out.empty() ? "" : ",") + std::to_string(peer);
  return out;
}

}  // namespace

std::string Format(const Record& record) {
  std::ostringstream out;
  out << "t=" << record.time_ms << ' ' << kKinds.at(static_cast<std::size_t>(record.kind)) << " peer=" << record.peer
      << " code=" << static_cast<int>(record.code);
  if (record.kind == RecordKind::kOp) {
    out << " life=" << record.name.life << " step=" << record.name.step << " index=" << record.name.index
        << " bytes=" << record.bytes << " epoch=" << record.epoch << " retries=" << record.retries
        << " hash=" << record.hash << " wrong=" << record.wrong << " intact=" << record.intact
        << " from=" << Listed(record.contributors) << " without=" << Listed(record.absent);
  }
  out << '\n';
  return out.str();
}

std::optional<Record> Parse(std::string_view line) {
  std::istringstream words{std::string(line)};
  Fields fields;
  std::string kind;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      kind = word;
    } else {
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  Record record;
  std::uint32_t code = 0;
  if (!Take(fields, "t", &record.time_ms) || !Take(fields, "peer", &record.peer) || !Take(fields, "code", &code) ||
      code >= kCodeCount) {
    return std::nullopt;
  }
  record.code = static_cast<Code>(code);
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kind != kKinds[i]) continue;
    record.kind = static_cast<RecordKind>(i);
    if (record.kind == RecordKind::kOp && !TakeOp(fields, &record)) return std::nullopt;
    return record;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> MembersOf(const Record& record) {
  std::vector<std::uint64_t> members = record.contributors;
  members.insert(members.end(), record.absent.begin(), record.absent.end());
  return members;
}

bool IsEndOfMembership(Code code) {
  return code == Code::kDaemonLost || code == Code::kEvicted || code == Code::kShuttingDown || code == Code::kLeft ||
         code == Code::kDaemonUnreachable || code == Code::kRejoined || code == Code::kResourceExhausted ||
         code == Code::kBufferModified || code == Code::kTimeout ||  // rejoining takes a master, and others
         code == Code::kMasterUnreachable || code == Code::kPeerUnreachable;
}

}  // namespace ringway::chaos
