// proto/PROTOCOL.md says what the code says: its constants, the messages there are, the rules that are planted as bugs.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "proto/collective/grid.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
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

}  // namespace
}  // namespace ringway
