#include "client/ctl/render_plan.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/ctl/table.h"
#include "proto/byte_size.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;

// Marks values that were not measured.
constexpr const char* kAssumed = "~";

// With at least three significant digits.
std::string Number(double value, const char* unit) {
  const double size = std::abs(value);
  const int decimals = size > 0 && size < 0.1 ? 6 : size < 1 ? 3 : size < 10 ? 2 : size < 100 ? 1 : 0;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, unit);
  return text;
}

std::string NumberAt(const json& object, const char* key, const char* unit) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? Number(found->get<double>(), unit) : "-";
}

bool IsTrue(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

bool IsCheap(const json& plan) { return Text(plan, "prefers") == "cheap"; }

std::string AlgorithmsTable(const json& plan) {
  const std::string currency = Text(plan, "currency");
  Row head = {"algorithm", "predicted", "measured", "operations"};
  if (currency != "-") head.emplace_back("cost");
  std::vector<Row> rows = {head};
  const std::string chosen = Text(plan, "chosen");
  for (const json& algorithm : Objects(plan, "algorithms")) {
    const std::string name = Text(algorithm, "name");
    rows.push_back({name, NumberAt(algorithm, "predicted_ms", "ms"), NumberAt(algorithm, "measured_ms", "ms"),
                    Text(algorithm, "operations")});
    if (currency != "-") rows.back().push_back(NumberAt(algorithm, "cost", currency.c_str()));
    if (name == chosen)
      rows.back().emplace_back(IsCheap(plan) ? "<- the plan's choice, the cheapest within 1.1 of the fastest"
                                             : "<- the plan's choice");
  }
  return Table(rows);
}

std::string Marked(const json& link, const char* measured, const std::string& value) {
  return (IsTrue(link, measured) ? "" : kAssumed) + value;
}

// Top to bottom; the last link leads back to the first peer.
std::string RingPicture(const json& ring) {
  const std::vector<json> links = Objects(ring, "links");
  const std::uint64_t bottleneck = CountAt(ring, "bottleneck");
  std::string out;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const json& link = links[i];
    const bool first = i == 0;
    const bool last = i + 1 == links.size();
    out += std::string("  ") + (first ? "┌─> " : "│   ") + Text(link, "from") + " (" + Text(link, "from_site") + ")\n";
    out += std::string("  ") + (last ? "└───" : "│   ") + (last ? "──┘ " : "  ↓ ") +
           Marked(link, "delay_measured", NumberAt(link, "delay_ms", "ms")) + ", " +
           Marked(link, "rate_measured", NumberAt(link, "rate_mbit", "Mbit/s")) +
           (i == bottleneck ? "  <- bottleneck" : "") + "\n";
  }
  return out;
}

std::string RenderRing(const json& plan) {
  const auto ring = plan.find("ring");
  if (ring == plan.end() || !ring->is_object()) return "\none member: no ring\n";
  return "\nring: " + NumberAt(*ring, "round_trip_ms", "ms") + " once around, " +
         NumberAt(*ring, "rate_mbit", "Mbit/s") +
         " at its bottleneck; each link with its one-way delay and its rate\n" + RingPicture(*ring);
}

std::string Joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

// Only if there are several rings, or unequal shares.
std::string RenderRings(const json& plan) {
  std::string out;
  for (const json& ring : Objects(plan, "rings")) {
    std::vector<std::string> order;
    if (const auto found = ring.find("order"); found != ring.end() && found->is_array()) {
      for (const json& peer : *found) order.push_back(peer.is_string() ? peer.get<std::string>() : "-");
    }
    out += "  " + NumberAt(ring, "percent", "%") + " by " + Joined(order, " -> ") + ", " +
           NumberAt(ring, "rate_mbit", "Mbit/s") + "\n";
  }
  return out.empty() ? "" : "\nrings: several at once, each with its part and its bottleneck's rate\n" + out;
}

std::string RenderShares(const json& plan) {
  std::vector<std::string> shares;
  for (const json& share : Objects(plan, "shares")) {
    shares.push_back(Text(share, "peer") + " " + NumberAt(share, "percent", "%"));
  }
  return shares.empty() ? "" : "\ndirect: parts of the buffer that peers combine: " + Joined(shares, ", ") + "\n";
}

std::string RenderPaths(const json& plan) {
  const auto paths = plan.find("paths");
  if (paths == plan.end() || !paths->is_object()) return "";
  const bool all_known = CountAt(*paths, "delays_measured") == CountAt(*paths, "all") &&
                         CountAt(*paths, "rates_measured") == CountAt(*paths, "all");
  return "\nmeasured of " + Text(*paths, "all") + " paths: " + Text(*paths, "delays_measured") + " delays, " +
         Text(*paths, "rates_measured") + " rates" +
         (all_known ? "\n" : std::string("; ") + kAssumed + " is assumed\n");
}

std::string RenderPrepared(const json& plan) {
  const std::string prepared = Text(plan, "prepared");
  return prepared == "-" ? "" : "  view " + prepared + ", with newer members or a newer plan, waits for UpdateView\n";
}

}  // namespace

Result<std::string> RenderPlan(const std::string& json_text) {
  const json plan = json::parse(json_text, nullptr, false);
  if (!plan.is_object()) return Status(Code::kProtocol, "the plan is no JSON object");
  return "group " + Text(plan, "group") + "  epoch " + Text(plan, "epoch") + "  world " + Text(plan, "world_size") +
         "  operations of " + BytesText(CountAt(plan, "bytes")) + "\n" + RenderPrepared(plan) + AlgorithmsTable(plan) +
         RenderRing(plan) + RenderRings(plan) + RenderShares(plan) + RenderPaths(plan);
}

}  // namespace ringway::ctl
