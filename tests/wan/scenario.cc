#include "tests/wan/scenario.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace ringway::wan {
namespace {

constexpr double kBytesPerMbit = 1e6 / 8;
constexpr std::size_t kScheduleMax = 1000;
constexpr double kForeignMax = 256;

using Keys = std::set<std::string_view>;
const Keys kSiteKeys = {"name",        "hosts",           "uplink_mbit", "downlink_mbit", "shared_mbit", "queue_ms",
                        "police_mbit", "police_burst_kb", "schedule",    "congestion",    "inbound",     "drops"};
const Keys kPathKeys = {"delay_ms", "jitter_ms", "reorder", "mbit", "queue_ms", "loss", "corrupt", "black_hole"};
const std::string kEverySite = "*";

class Reader {
 public:
  Scenario Read(const toml::table& root) {
    CheckKeys(root, {"seed", "default", "inside", "site", "path", "foreign"}, "the scenario");
    scenario_.seed = static_cast<std::uint64_t>(Number(root, "seed", 1, 0, 1e18));
    ReadSites(root);
    const std::size_t hosts = scenario_.hosts.size();
    scenario_.paths.assign(hosts, std::vector<Path>(hosts));
    for (const bool inside : {false, true}) {
      const std::string name = inside ? "inside" : "default";
      if (!root.contains(name)) continue;
      const toml::table* table = root[name].as_table();
      if (table == nullptr) throw std::runtime_error("write it as [" + name + "]");
      CheckKeys(*table, kPathKeys, "[" + name + "]");
      ForPaths([inside](const Host& a, const Host& b) { return (a.site == b.site) == inside; }, *table);
    }
    for (const toml::table* table : Tables(root, "path")) ReadPath(*table);
    for (const toml::table* table : Tables(root, "foreign")) ReadForeign(*table);
    return std::move(scenario_);
  }

 private:
  static void CheckKeys(const toml::table& table, const Keys& known, const std::string& where) {
    for (const auto& [key, value] : table) {
      if (!known.contains(key.str())) throw std::runtime_error(where + " has no key '" + std::string(key.str()) + "'");
    }
  }

  static double Number(const toml::table& table, const std::string& key, double otherwise, double min, double max) {
    if (!table.contains(key)) return otherwise;
    const auto value = table[key].value<double>();
    if (!value || !(*value >= min && *value <= max)) {
      std::ostringstream text;
      text << key << " is a number from " << min << " to " << max;
      throw std::runtime_error(text.str());
    }
    return *value;
  }

  static bool Flag(const toml::table& table, const std::string& key, bool otherwise) {
    if (!table.contains(key)) return otherwise;
    const auto value = table[key].value_exact<bool>();
    if (!value) throw std::runtime_error(key + " is true or false");
    return *value;
  }

  static std::string Congestion(const toml::table& table) {
    if (!table.contains("congestion")) return "";
    constexpr std::size_t kNameMax = 15;  // TCP_CA_NAME_MAX, less the end
    std::string name = table["congestion"].value_or(std::string());
    const bool valid = !name.empty() && name.size() <= kNameMax &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
    if (!valid) throw std::runtime_error("congestion is the name of a congestion control, as \"cubic\"");
    return name;
  }

  static Drops DropsOf(const toml::table& table) {
    const std::string name = table.contains("drops") ? table["drops"].value_or(std::string()) : "packets";
    if (name == "packets") return Drops::kPackets;
    if (name == "super-packets") return Drops::kSuperPackets;
    if (name == "device") return Drops::kDevice;
    throw std::runtime_error("drops is \"packets\", \"super-packets\" or \"device\"");
  }

  static std::vector<RateChange> Schedule(const toml::table& table) {
    std::vector<RateChange> out;
    if (!table.contains("schedule")) return out;
    const std::string wrong =
        "schedule is \"SECOND:MBIT SECOND:MBIT ...\", seconds ascending from 0, rates from 0.001 to 1e6";
    std::istringstream words(table["schedule"].value_or(std::string("?")));
    for (std::string word; words >> word;) {
      std::istringstream pair(word);
      double at = 0, mbit = 0;
      char colon = 0;
      const bool whole = (pair >> at >> colon >> mbit) && pair.peek() == EOF && colon == ':';
      const bool ascends = at >= 0 && (out.empty() || at > out.back().at);
      if (!whole || !ascends || !(mbit >= 1e-3 && mbit <= 1e6) || out.size() == kScheduleMax) {
        throw std::runtime_error(wrong);
      }
      out.push_back({.at = at, .bytes_per_second = mbit * kBytesPerMbit});
    }
    if (out.empty()) throw std::runtime_error(wrong);
    return out;
  }

  static std::vector<const toml::table*> Tables(const toml::table& root, const std::string& key) {
    std::vector<const toml::table*> out;
    if (!root.contains(key)) return out;
    const toml::array* array = root[key].as_array();
    const std::string wrong = "write it as [[" + key + "]]";
    if (array == nullptr) throw std::runtime_error(wrong);
    for (const toml::node& node : *array) {
      if (node.as_table() == nullptr) throw std::runtime_error(wrong);
      out.push_back(node.as_table());
    }
    return out;
  }

  void ReadSites(const toml::table& root) {
    for (const toml::table* table : Tables(root, "site")) {
      CheckKeys(*table, kSiteKeys, "[[site]]");
      const Host host = ReadHost(*table);
      const auto count = static_cast<std::size_t>(Number(*table, "hosts", 1, 1, kHostsMax));
      scenario_.hosts.insert(scenario_.hosts.end(), count, host);
    }
    if (scenario_.hosts.size() < 2 || scenario_.hosts.size() > kHostsMax) {
      throw std::runtime_error("a scenario has 2 to " + std::to_string(kHostsMax) + " hosts");
    }
  }

  Host ReadHost(const toml::table& table) {
    const std::string name = table["name"].value_or(std::string());
    if (name.empty() || name == kEverySite || !sites_.insert(name).second) {
      throw std::runtime_error("each [[site]] needs a name of its own");
    }
    const double queue_seconds = Number(table, "queue_ms", 50, 0, 1e5) / 1e3;
    const auto pipe = [&](const std::string& key) {
      return Pipe{.bytes_per_second = Number(table, key, 0, 0, 1e6) * kBytesPerMbit, .queue_seconds = queue_seconds};
    };
    Host host{.site = name,
              .uplink = pipe("uplink_mbit"),
              .site_uplink = pipe("shared_mbit"),
              .downlink = pipe("downlink_mbit"),
              .drops = DropsOf(table),
              .policer = {.bytes_per_second = Number(table, "police_mbit", 0, 0, 1e6) * kBytesPerMbit,
                          .burst_bytes = Number(table, "police_burst_kb", 256, 1.5, 1e6) * 1e3},
              .schedule = Schedule(table),
              .inbound = Flag(table, "inbound", true),
              .congestion = Congestion(table)};
    if (table.contains("police_burst_kb") && host.policer.bytes_per_second <= 0) {
      throw std::runtime_error("police_burst_kb needs police_mbit");
    }
    if (host.drops == Drops::kDevice && (host.uplink.bytes_per_second <= 0 || !host.schedule.empty())) {
      throw std::runtime_error("drops = \"device\" needs uplink_mbit, and takes no schedule, at site '" + name + "'");
    }
    return host;
  }

  std::size_t FirstHostOf(const toml::table& table, const std::string& key) const {
    const std::string site = table[key].value_or(std::string());
    const auto found = std::find_if(scenario_.hosts.begin(), scenario_.hosts.end(),
                                    [&](const Host& host) { return host.site == site; });
    if (found == scenario_.hosts.end()) throw std::runtime_error("a [[foreign]] has from = \"SITE\" and to = \"SITE\"");
    return static_cast<std::size_t>(found - scenario_.hosts.begin());
  }

  void ReadForeign(const toml::table& table) {
    CheckKeys(table, {"from", "to", "connections", "congestion"}, "[[foreign]]");
    ForeignFlows flows{.from = FirstHostOf(table, "from"),
                       .to = FirstHostOf(table, "to"),
                       .connections = static_cast<std::size_t>(Number(table, "connections", 1, 1, kForeignMax)),
                       .congestion = Congestion(table)};
    if (flows.from == flows.to) throw std::runtime_error("a [[foreign]] goes from one site to another");
    scenario_.foreign.push_back(std::move(flows));
  }

  void ReadPath(const toml::table& table) {
    Keys keys = {"between", "from", "to"};
    keys.insert(kPathKeys.begin(), kPathKeys.end());
    CheckKeys(table, keys, "[[path]]");
    std::string from, to;
    const bool both = table.contains("between");
    if (const toml::array* pair = table["between"].as_array(); pair != nullptr && pair->size() == 2) {
      from = (*pair)[0].value_or(std::string());
      to = (*pair)[1].value_or(std::string());
    } else if (!both) {
      from = table["from"].value_or(std::string());
      to = table["to"].value_or(std::string());
    }
    const auto known = [&](const std::string& site) { return site == kEverySite || sites_.contains(site); };
    if (!known(from) || !known(to) || (both && (table.contains("from") || table.contains("to")))) {
      throw std::runtime_error(
          "a [[path]] is either between = [\"SITE\", \"SITE\"], or from = \"SITE\", to = \"SITE\"");
    }
    const auto leads = [](const Host& a, const Host& b, const std::string& first, const std::string& last) {
      const bool every = first == kEverySite || last == kEverySite;
      return (first == kEverySite || a.site == first) && (last == kEverySite || b.site == last) &&
             !(every && a.site == b.site);
    };
    ForPaths([&](const Host& a, const Host& b) { return leads(a, b, from, to) || (both && leads(a, b, to, from)); },
             table);
  }

  template <typename F>
  void ForPaths(F&& matches, const toml::table& table) {
    for (std::size_t a = 0; a < scenario_.hosts.size(); ++a) {
      for (std::size_t b = 0; b < scenario_.hosts.size(); ++b) {
        if (a != b && matches(scenario_.hosts[a], scenario_.hosts[b])) Apply(table, &scenario_.paths[a][b]);
      }
    }
  }

  static Nanoseconds Milliseconds(const toml::table& table, const std::string& key, Nanoseconds otherwise) {
    const double otherwise_ms = static_cast<double>(otherwise.count()) / 1e6;
    return Nanoseconds(static_cast<std::int64_t>(Number(table, key, otherwise_ms, 0, 1e5) * 1e6));
  }

  static void Apply(const toml::table& table, Path* path) {
    path->delay = Milliseconds(table, "delay_ms", path->delay);
    path->jitter = Milliseconds(table, "jitter_ms", path->jitter);
    path->reorder = Flag(table, "reorder", path->reorder);
    Pipe& pipe = path->pipe;
    pipe.bytes_per_second = Number(table, "mbit", pipe.bytes_per_second / kBytesPerMbit, 0, 1e6) * kBytesPerMbit;
    pipe.queue_seconds = Number(table, "queue_ms", pipe.queue_seconds * 1e3, 0, 1e5) / 1e3;
    path->loss = Number(table, "loss", path->loss, 0, 1);
    path->corrupt = Number(table, "corrupt", path->corrupt, 0, 1);
    path->black_hole = Flag(table, "black_hole", path->black_hole);
  }

  Scenario scenario_;
  std::set<std::string> sites_;
};

// Sets a key to what `text` says: a number, true, false, or else itself.
void Set(toml::table* table, const std::string& key, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    table->insert_or_assign(key, number);
  } else if (text == "true" || text == "false") {
    table->insert_or_assign(key, text == "true");
  } else {
    table->insert_or_assign(key, text);
  }
}

std::vector<toml::table*> SitesNamed(toml::table* root, const std::string& name) {
  std::vector<toml::table*> out;
  const toml::array* const sites = (*root)["site"].as_array();
  for (std::size_t i = 0; sites != nullptr && i < sites->size(); ++i) {
    toml::table* const site = (*root)["site"][i].as_table();
    const bool named = site != nullptr && (name == kEverySite || (*site)["name"].value_or(std::string()) == name);
    if (named) out.push_back(site);
  }
  return out;
}

// Sets `key` on all paths by a rule that follows all others.
void SetOnPaths(toml::table* root, const std::string& key, const std::string& text) {
  const bool one_site = SitesNamed(root, kEverySite).size() == 1;
  if (one_site) {
    root->insert("inside", toml::table{});
    Set((*root)["inside"].as_table(), key, text);
  } else {
    root->insert("path", toml::array{});
    toml::table rule{{"between", toml::array{kEverySite, kEverySite}}};
    Set(&rule, key, text);
    (*root)["path"].as_array()->push_back(std::move(rule));
  }
}

void Override(toml::table* root, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) throw std::runtime_error("'" + word + "' is not KEY=VALUE");
  std::string key = word.substr(0, equals), site = kEverySite;
  const std::string value = word.substr(equals + 1);
  if (const std::size_t dot = key.rfind('.'); dot != std::string::npos) {
    site = key.substr(0, dot);
    key.erase(0, dot + 1);
  }
  const bool of_sites = kSiteKeys.contains(key) && key != "name";
  if (!of_sites && (!kPathKeys.contains(key) || site != kEverySite)) {
    throw std::runtime_error("'" + word + "' sets no key of [[site]]" + (site == kEverySite ? " or [[path]]" : ""));
  }
  if (!of_sites) return SetOnPaths(root, key, value);
  const std::vector<toml::table*> sites = SitesNamed(root, site);
  if (sites.empty()) throw std::runtime_error("'" + word + "': there is no site '" + site + "'");
  for (toml::table* const table : sites) Set(table, key, value);
}

// Runs `use` on the parsed text; returns what is wrong, or "".
std::string WithTable(const std::string& toml, const std::string& name, const std::function<void(toml::table*)>& use) {
  try {
    toml::table root = toml::parse(toml);
    use(&root);
  } catch (const toml::parse_error& error) {
    std::ostringstream text;
    text << name << ": line " << error.source().begin.line << ": " << error.description();
    return text.str();
  } catch (const std::runtime_error& error) {
    return name + ": " + error.what();
  }
  return "";
}

}  // namespace

std::uint64_t DeviceQueueBytes(const Host& host) {
  if (host.drops != Drops::kDevice) return 0;
  const double bytes = host.uplink.bytes_per_second * host.uplink.queue_seconds;
  return std::max<std::uint64_t>(kSuperPacketBytesMax, static_cast<std::uint64_t>(bytes));
}

ParsedScenario ParseScenario(const std::string& toml, const std::string& name) {
  ParsedScenario out;
  out.error = WithTable(toml, name, [&](const toml::table* root) { out.scenario = Reader().Read(*root); });
  return out;
}

OverriddenScenario OverrideScenario(const std::string& toml, const std::string& name, const std::string& overrides) {
  OverriddenScenario out;
  out.error = WithTable(toml, name, [&](toml::table* root) {
    (void)Reader().Read(*root);
    std::istringstream words(overrides);
    for (std::string word; std::getline(words, word, ',');) Override(root, word);
    std::ostringstream text;
    text << *root << '\n';
    out.toml = text.str();
  });
  if (out.error.empty()) out.error = ParseScenario(out.toml, name + ":" + overrides).error;
  return out;
}

}  // namespace ringway::wan
