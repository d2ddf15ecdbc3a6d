#include "client/ctl/doctor/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/ctl/doctor/rows.h"
#include "proto/printable.h"

namespace ringway::ctl {
namespace {

constexpr const char* kLevelWords[] = {"ok    ", "skip  ", "warn  ", "FAIL  "};
constexpr const char* kLevelNames[] = {"ok", "skip", "warn", "fail"};

std::string Filled(const std::string& text, std::initializer_list<std::string> words) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    out += text[at] == '{' ? words.begin()[text[at + 1] - '0'] : text.substr(at, 1);
    if (text[at] == '{') at += 2;
  }
  return out;
}

// One line that a terminal prints as it is, and no longer than a screen.
std::string OneLine(std::string text) {
  constexpr std::size_t kBytesMax = 2000;
  if (text.size() > kBytesMax) text = text.substr(0, kBytesMax) + "...";
  return Printable(std::move(text));
}

std::ptrdiff_t CountOf(const Findings& findings, Level level) {
  return std::count_if(findings.begin(), findings.end(), [level](const Finding& one) { return one.level == level; });
}

}  // namespace

Finding Say(const Row& row, std::initializer_list<std::string> words) {
  const bool hurts = row.level == Level::kWarn || row.level == Level::kFail;
  return {.level = row.level, .what = Filled(row.what, words), .remedy = hurts ? Filled(row.remedy, words) : ""};
}

bool AnyFails(const Findings& findings) { return CountOf(findings, Level::kFail) > 0; }

std::string RenderFindings(const Findings& findings) {
  constexpr std::size_t kCheckWidth = 14;
  std::string out;
  for (const Finding& finding : findings) {
    std::string check = finding.check;
    check.resize(std::max(check.size(), kCheckWidth), ' ');
    out += kLevelWords[static_cast<std::size_t>(finding.level)] + check + OneLine(finding.what) + "\n";
    if (!finding.remedy.empty()) out += "      -> " + OneLine(finding.remedy) + "\n";
  }
  const auto fails = CountOf(findings, Level::kFail);
  const auto warnings = CountOf(findings, Level::kWarn);
  if (fails + warnings == 0) return out + "nothing found that hurts\n";
  return out + std::to_string(fails) + " serious, " + std::to_string(warnings) + " to look at\n";
}

std::string FindingsJson(const Findings& findings) {
  using Ordered = nlohmann::ordered_json;
  Ordered list = Ordered::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"level", kLevelNames[static_cast<std::size_t>(finding.level)]},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  const Ordered report = {{"serious", CountOf(findings, Level::kFail)},
                          {"warnings", CountOf(findings, Level::kWarn)},
                          {"findings", std::move(list)}};
  return report.dump(2, ' ', false, Ordered::error_handler_t::replace);
}

}  // namespace ringway::ctl
