#include "tests/wan/scenario.h"

#include <toml++/toml.h>

#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace ringway::wan {
namespace {

constexpr double kBytesPerMbit = 1e6 / 8;

class Reader {
 public:
  Scenario Read(const toml::table& root) {
    CheckKeys(root, {"seed", "default", "inside", "site", "path"}, "the scenario");
    scenario_.seed = static_cast<std::uint64_t>(Number(root, "seed", 1, 0, 1e18));
    ReadSites(root);
    const std::size_t hosts = scenario_.hosts.size();
    scenario_.paths.assign(hosts, std::vector<Path>(hosts));
    for (const bool inside : {false, true}) {
      const std::string name = inside ? "inside" : "default";
      const toml::table* table = root[name].as_table();
      if (table == nullptr) continue;
      CheckKeys(*table, kPathKeys, "[" + name + "]");
      ForPaths([inside](const Host& a, const Host& b) { return (a.site == b.site) == inside; }, *table);
    }
    for (const toml::table* table : Tables(root, "path")) ReadPath(*table);
    return std::move(scenario_);
  }

 private:
  using Keys = std::set<std::string_view>;

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
      CheckKeys(*table, {"name", "hosts", "uplink_mbit", "shared_mbit", "queue_ms"}, "[[site]]");
      const std::string name = (*table)["name"].value_or(std::string());
      if (name.empty() || !sites_.insert(name).second)
        throw std::runtime_error("each [[site]] needs a name of its own");
      Host host{.site = name, .uplink = {}, .way_out = {}};
      host.uplink.bytes_per_second = Number(*table, "uplink_mbit", 0, 0, 1e6) * kBytesPerMbit;
      host.way_out.bytes_per_second = Number(*table, "shared_mbit", 0, 0, 1e6) * kBytesPerMbit;
      host.uplink.queue_seconds = host.way_out.queue_seconds = Number(*table, "queue_ms", 50, 0, 1e5) / 1e3;
      const auto count = static_cast<std::size_t>(Number(*table, "hosts", 1, 1, kHostsMax));
      scenario_.hosts.insert(scenario_.hosts.end(), count, host);
    }
    if (scenario_.hosts.size() < 2 || scenario_.hosts.size() > kHostsMax) {
      throw std::runtime_error("a scenario has 2 to " + std::to_string(kHostsMax) + " hosts");
    }
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
    if (!sites_.contains(from) || !sites_.contains(to) || (both && (table.contains("from") || table.contains("to")))) {
      throw std::runtime_error(
          "a [[path]] is either between = [\"SITE\", \"SITE\"], or from = \"SITE\", to = \"SITE\"");
    }
    ForPaths(
        [&](const Host& a, const Host& b) {
          return (a.site == from && b.site == to) || (both && a.site == to && b.site == from);
        },
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

  static void Apply(const toml::table& table, Path* path) {
    const double delay_ms = static_cast<double>(path->delay.count()) / 1e6;
    path->delay = Nanoseconds(static_cast<std::int64_t>(Number(table, "delay_ms", delay_ms, 0, 1e5) * 1e6));
    Pipe& pipe = path->pipe;
    pipe.bytes_per_second = Number(table, "mbit", pipe.bytes_per_second / kBytesPerMbit, 0, 1e6) * kBytesPerMbit;
    pipe.queue_seconds = Number(table, "queue_ms", pipe.queue_seconds * 1e3, 0, 1e5) / 1e3;
    path->loss = Number(table, "loss", path->loss, 0, 1);
    path->corrupt = Number(table, "corrupt", path->corrupt, 0, 1);
    path->black_hole = table["black_hole"].value_or(path->black_hole);
  }

  const Keys kPathKeys = {"delay_ms", "mbit", "queue_ms", "loss", "corrupt", "black_hole"};
  Scenario scenario_;
  std::set<std::string> sites_;
};

}  // namespace

ParsedScenario ParseScenario(const std::string& toml, const std::string& name) {
  ParsedScenario out;
  try {
    out.scenario = Reader().Read(toml::parse(toml));
  } catch (const toml::parse_error& error) {
    std::ostringstream text;
    text << name << ": line " << error.source().begin.line << ": " << error.description();
    out.error = text.str();
  } catch (const std::runtime_error& error) {
    out.error = name + ": " + error.what();
  }
  return out;
}

}  // namespace ringway::wan
