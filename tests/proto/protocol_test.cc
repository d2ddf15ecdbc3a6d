// proto/PROTOCOL.md says what the code says: its constants, the messages there are, the rules that are planted as bugs.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proto/collective/grid.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"
#include "proto/segment_header.h"

namespace ringway {
namespace {

const std::string& Page() {
  static const std::string page = [] {
    std::ifstream file(RINGWAY_SOURCE_DIR "/proto/PROTOCOL.md");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return page;
}

bool Names(const std::string& word) { return Page().find('`' + word + '`') != std::string::npos; }

TEST(ProtocolTest, ConstantsAreThoseOfTheCode) {
  const std::map<std::string, std::uint64_t> constants = {
      {"kProtocolVersionMin", kProtocolVersionMin},
      {"kProtocolVersionMax", kProtocolVersionMax},
      {"kFrameFormat", kFrameFormat},
      {"kFrameHeaderBytes", kFrameHeaderBytes},
      {"kFrameChecksumBytes", kFrameChecksumBytes},
      {"kFrameBytesMax", kFrameBytesMax},
      {"kSegmentHeaderBytes", kSegmentHeaderBytes},
      {"kPayloadBytesMax", kPayloadBytesMax},
      {"kGridElements", collective::kGridElements},
      {"kSegmentBytesMin", collective::kSegmentBytesMin},
      {"kLanesLoopback", kLanesLoopback},
      {"kLanesRemote", kLanesRemote},
      {"kLanesMax", kLanesMax},
      {"kSmallLanePayloadBytes", kSmallLanePayloadBytes},
      {"abi::kVersionMin", abi::kVersionMin},
      {"abi::kVersion", abi::kVersion},
      {"abi::kMagic", abi::kMagic},
      {"abi::kPacketBytesMax", abi::kPacketBytesMax},
      {"abi::kSlotCount", abi::kSlotCount},
      {"abi::kChannelCountMax", abi::kChannelCountMax},
      {"abi::kRegionCountMax", abi::kRegionCountMax},
      {"abi::kWorldSizeMax", abi::kWorldSizeMax},
      {"abi::kGroupNameBytes", abi::kGroupNameBytes},
      {"abi::kPeerNameBytes", abi::kPeerNameBytes},
  };
  std::map<std::string, std::uint64_t> said;
  const std::regex row(R"(\n\| `([\w:]+)` \| (\d+) \|)");
  const std::string& page = Page();
  for (auto it = std::sregex_iterator(page.begin(), page.end(), row); it != std::sregex_iterator(); ++it) {
    said[(*it)[1]] = std::stoull((*it)[2]);
  }
  EXPECT_EQ(said, constants);
}

// Two releases side by side: the newest versions of the row before the last are spoken, too.
TEST(ProtocolTest, TheReleaseBeforeIsUnderstood) {
  const std::regex row(R"(\n\| ([\w. ]+) \| (\d+) \| (\d+) \| (\d+) \|(?=\n))");
  std::vector<std::vector<std::string>> rows;
  for (auto it = std::sregex_iterator(Page().begin(), Page().end(), row); it != std::sregex_iterator(); ++it) {
    rows.emplace_back(it->begin(), it->end());
  }
  ASSERT_GE(rows.size(), 2U);
  const std::vector<std::string>& now = rows.back();
  EXPECT_EQ(now[1], "this one");
  EXPECT_EQ(now[2], std::to_string(kProtocolVersionMax));
  EXPECT_EQ(now[3], std::to_string(abi::kVersion));
  const std::vector<std::string>& before = rows[rows.size() - 2];
  EXPECT_TRUE(kProtocolVersions.Has(static_cast<std::uint32_t>(std::stoul(before[2]))));
  EXPECT_TRUE(abi::kVersions.Has(static_cast<std::uint32_t>(std::stoul(before[3]))));
  std::ifstream file(RINGWAY_SOURCE_DIR "/tests/releases/previous");
  std::string release;
  file >> release;
  EXPECT_EQ(release, before[1]) << "tests/releases/previous names another release";
}

TEST(ProtocolTest, EveryMessageIsExplained) {
  for (const char* envelope : {"ToMaster", "FromMaster", "PeerMessage"}) {
    const auto* kinds = control::ToMaster::descriptor()->file()->FindMessageTypeByName(envelope)->oneof_decl(0);
    for (int i = 0; i < kinds->field_count(); ++i) {
      const std::string name = kinds->field(i)->message_type()->name();
      EXPECT_TRUE(Names(name)) << name;
    }
  }
  EXPECT_TRUE(Names("LinkHello") && Names("LinkReply"));
}

TEST(ProtocolTest, EveryRuleHasItsPlantedBugAndNoOther) {
  std::set<std::string> rules;
#define RINGWAY_NAME_RULE(name, rule) rules.insert(#name);
  RINGWAY_EACH_MUTANT(RINGWAY_NAME_RULE)
#undef RINGWAY_NAME_RULE
  for (const std::string& rule : rules) EXPECT_TRUE(Names(rule)) << rule;
  const std::string& page = Page();
  const std::string table = page.substr(page.find("| rule | without it |"));
  const std::regex name("`(k[A-Z]\\w+)`");
  const std::string cells = table.substr(0, table.find("\n\n"));
  for (auto it = std::sregex_iterator(cells.begin(), cells.end(), name); it != std::sregex_iterator(); ++it) {
    EXPECT_TRUE(rules.contains((*it)[1])) << (*it)[1];
  }
}

// The first cells of the table with this header.
std::set<std::string> RowsOf(const std::string& header) {
  std::set<std::string> rows;
  std::istringstream lines(Page().substr(Page().find('\n' + header + '\n') + 1));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);  // the rule below the header
  while (std::getline(lines, line) && line.starts_with("| ")) rows.insert(line.substr(2, line.find(" | ", 2) - 2));
  return rows;
}

TEST(ProtocolTest, EveryRowIsARuleThatTheSimulationCountsAndNoOther) {
  std::set<std::string> rows;
  for (const char* header :
       {"| segment | action |", "| message | sent when | receiver's duty |", "| message | direction | meaning |",
        "| case | who stays |", "| situation | the master waits for |", "| what they report | verdict |",
        "| what happens | what is done |", "| `PointToPoint.step` | from | sent when | the other's duty |",
        "| case | rule |", "| inputs | rule |"}) {
    const std::set<std::string> some = RowsOf(header);
    EXPECT_FALSE(some.empty()) << header;
    rows.insert(some.begin(), some.end());
  }
  // The shells do these, which are not simulated.
  for (const char* of_shells :
       {"`StatusRequest` → `StatusReply`, `PlanRequest` → `PlanReply`", "`TraceRequest` → `TraceReply`", "`Drain`"}) {
    EXPECT_EQ(rows.erase(of_shells), 1U) << of_shells;
  }
  std::set<std::string> counted;
  for (const rules::NamedRule& rule : rules::kRules) counted.insert(rule.row);
  for (const std::string& row : rows) EXPECT_TRUE(counted.contains(row)) << "no rule in proto/rules.h: " << row;
  for (const std::string& row : counted) EXPECT_TRUE(rows.contains(row)) << "no row in proto/PROTOCOL.md: " << row;
}

TEST(ProtocolTest, OnlyTheGroupOfTwoThatATrainerFormsIsAStateGroup) {
  EXPECT_EQ(abi::GroupOfState(abi::StateGroup("job", 17, 2)), "job");
  EXPECT_TRUE(abi::IsStateGroup(abi::StateGroup("job", 17, 2)));
  EXPECT_EQ(abi::GroupOfState("job#state-1-2#state-3-4"), "job#state-1-2");
  for (const char* name : {"job", "job#state-", "job#state-1", "job#state-1-", "job#state--2", "job#state-1-2x",
                           "job#state-1-2-3", "job#state-x-2", "#state-1-2"}) {
    EXPECT_EQ(abi::GroupOfState(name), name);
    EXPECT_FALSE(abi::IsStateGroup(name)) << name;
  }
}

}  // namespace
}  // namespace ringway
