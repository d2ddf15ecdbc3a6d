#include "client/ctl/doctor/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "proto/printable.h"

namespace ringway::ctl {
namespace {

constexpr const char* kLevelWords[] = {"ok", "skip", "warn", "FAIL"};
constexpr const char* kLevelNames[] = {"ok", "skip", "warn", "fail"};
constexpr std::size_t kLevelWidth = 6;
constexpr std::size_t kCheckWidth = 14;
constexpr std::size_t kTextBytesMax = 2000;

std::string Padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

// One line that a terminal prints as it is, and no longer than a screen.
std::string OneLine(std::string text) {
  if (text.size() > kTextBytesMax) text = text.substr(0, kTextBytesMax) + "...";
  for (char& c : text) {
    if (!IsPrintable({&c, 1})) c = '?';
  }
  return text;
}

std::ptrdiff_t CountOf(const Findings& findings, Level level) {
  return std::count_if(findings.begin(), findings.end(), [level](const Finding& one) { return one.level == level; });
}

}  // namespace

bool AnyFails(const Findings& findings) { return CountOf(findings, Level::kFail) > 0; }

std::string RenderFindings(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    const auto level = static_cast<std::size_t>(finding.level);
    out += Padded(kLevelWords[level], kLevelWidth) + Padded(finding.check, kCheckWidth) + OneLine(finding.what) + "\n";
    if (!finding.remedy.empty()) out += std::string(kLevelWidth, ' ') + "-> " + OneLine(finding.remedy) + "\n";
  }
  const auto fails = CountOf(findings, Level::kFail);
  const auto warnings = CountOf(findings, Level::kWarn);
  if (fails + warnings == 0) return out + "nothing found that hurts\n";
  return out + std::to_string(fails) + " serious, " + std::to_string(warnings) + " to look at\n";
}

std::string FindingsJson(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"level", kLevelNames[static_cast<std::size_t>(finding.level)]},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  const Json report = {{"serious", CountOf(findings, Level::kFail)},
                       {"warnings", CountOf(findings, Level::kWarn)},
                       {"findings", std::move(list)}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringway::ctl
