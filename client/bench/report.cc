#include "client/bench/report.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ringway::bench {
namespace {

// null if the daemon did not report it.
nlohmann::ordered_json Said(const std::optional<LaneUsage>& lanes, std::uint64_t LaneUsage::*number) {
  return lanes ? nlohmann::ordered_json((*lanes).*number) : nlohmann::ordered_json();
}

// null if nothing was measured.
nlohmann::ordered_json ToObject(const std::optional<BesideResult>& beside) {
  if (!beside) return nullptr;
  return {{"bytes", beside->bytes},
          {"time_ms_min", beside->time.min_ms},
          {"time_ms_median", beside->time.median_ms},
          {"time_ms_p99", beside->time.p99_ms},
          {"times_ms", beside->times_ms}};
}

nlohmann::ordered_json ToObject(const std::vector<BaselineResult>& baselines) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const BaselineResult& each : baselines) {
    if (!each.failed.empty()) {
      all[each.name] = {{"failed", each.failed}};
      continue;
    }
    all[each.name] = {{"time_ms_min", each.time_ms_min},
                      {"time_ms_median", each.time_ms_median},
                      {"algorithm", each.algorithm},
                      {"iterations", each.iterations},
                      {"trainer_cpu_seconds", each.trainer_cpu_seconds},
                      {"daemon_cpu_seconds", 0}};
  }
  return all;
}

nlohmann::ordered_json ToObject(const SizeResult& result) {
  const std::optional<double> per_gib = DaemonCpuSecondsPerGib(result);
  return {
      {"bytes", result.bytes},
      {"count", result.count},
      {"collective", NameOf(result.collective)},
      {"dtype", NameOf(result.reduction.dtype)},
      {"op", NameOf(result.reduction.op)},
      {"world_size", result.world_size},
      {"time_ms_min", result.time.min_ms},
      {"time_ms_median", result.time.median_ms},
      {"time_ms_p99", result.time.p99_ms},
      {"times_ms", result.times_ms},
      {"began_s", result.began_s},
      {"algbw_gb_per_s", result.algbw_gb_per_s},
      {"busbw_gb_per_s", result.busbw_gb_per_s},
      {"wire_bytes", result.wire_bytes},
      {"algorithm", NameOf(result.algorithm)},
      {"line_fraction", result.line_fraction},
      {"lanes", Said(result.lanes, &LaneUsage::lanes)},
      {"retransmits", Said(result.lanes, &LaneUsage::retransmits)},
      {"wrong", result.wrong},
      {"checked", result.checked},
      {"codec", NameOf(result.reduction.codec)},
      {"block", result.reduction.codec.block},
      {"rounding", NameOf(result.reduction.codec.rounding)},
      {"iterations", result.iterations},
      {"in_flight", result.in_flight},
      {"tensors", result.tensors},
      {"in_place", result.in_place},
      {"device", result.device ? nlohmann::ordered_json(*result.device) : nlohmann::ordered_json()},
      {"retries", result.retries},
      {"inputs", result.inputs},
      {"inputs_late", result.inputs_late},
      {"beside", ToObject(result.beside)},
      {"compare", ToObject(result.baselines)},
      {"trainer_cpu_seconds", result.trainer.cpu_seconds},
      {"daemon_cpu_seconds", result.daemon.cpu_seconds},
      {"daemon_cpu_seconds_per_gib", per_gib ? nlohmann::ordered_json(*per_gib) : nlohmann::ordered_json()},
      {"trainer_peak_rss_bytes", result.trainer.peak_rss_bytes},
      {"daemon_peak_rss_bytes", result.daemon.peak_rss_bytes},
      {"daemon_rss_anon_bytes", result.daemon.rss_anon_bytes},
      {"daemon_rss_shmem_bytes", result.daemon.rss_shmem_bytes},
  };
}

std::string CpuText(const std::optional<double>& seconds_per_gib) {
  if (!seconds_per_gib) return "N/A";
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", *seconds_per_gib);
  return text;
}

std::string BesideRow(const SizeResult& result) {
  const BesideResult& beside = *result.beside;
  char text[256];
  if (beside.times_ms.empty()) {
    std::snprintf(text, sizeof(text), "# beside %llu bytes: each of those ended too soon; take a larger --beside\n",
                  static_cast<unsigned long long>(beside.bytes));
    return text;
  }
  std::snprintf(text, sizeof(text),
                "# beside %llu bytes: median %.3f, p99 %.3f: %.2f and %.2f times as long (%zu of %u iterations)\n",
                static_cast<unsigned long long>(beside.bytes), beside.time.median_ms, beside.time.p99_ms,
                beside.time.median_ms / result.time.median_ms, beside.time.p99_ms / result.time.p99_ms,
                beside.times_ms.size(), result.iterations);
  return text;
}

std::string BaselineRow(const SizeResult& result, const BaselineResult& baseline) {
  if (!baseline.failed.empty()) return "# " + baseline.name + " was not measured: " + baseline.failed + "\n";
  char text[256];
  std::snprintf(text, sizeof(text), "# %s%s%s: min %.3f, median %.3f: ringway is %.2f times as fast\n",
                baseline.name.c_str(), baseline.algorithm.empty() ? "" : " ", baseline.algorithm.c_str(),
                baseline.time_ms_min, baseline.time_ms_median, baseline.time_ms_median / result.time.median_ms);
  return text;
}

const char* RedopOf(const SizeResult& result) {
  return Reduces(result.collective) ? NameOf(result.reduction.op) : "none";
}

}  // namespace

std::optional<double> DaemonCpuSecondsPerGib(const SizeResult& result) {
  const double operations = static_cast<double>(result.iterations) * result.in_flight;
  const double gib = static_cast<double>(result.wire_bytes) * operations / static_cast<double>(1 << 30);
  if (gib <= 0 || result.daemon.cpu_seconds <= 0) return std::nullopt;
  return result.daemon.cpu_seconds / gib;
}

std::string TableHeader() {
  const std::string legend =
      "# times in ms, bandwidths in GB/s (1e9 bytes), wire bytes sent by this rank, line: how much of --line-mbit\n"
      "# lanes: in use to one peer, resent: segments that the kernel sent again, of all measured operations of this "
      "rank\n"
      "# cpu/GiB: seconds that this rank's daemon computed for each GiB that it sent (the kernel counts by 10 ms)\n";
  char columns[256];
  std::snprintf(columns, sizeof(columns), "#%13s %12s %5s %5s %10s %10s %10s %8s %8s %12s %5s %5s %7s %7s %8s %s\n",
                "bytes", "count", "type", "redop", "min", "median", "p99", "algbw", "busbw", "wire", "line", "lanes",
                "resent", "cpu/GiB", "wrong", "algorithm");
  return legend + columns;
}

std::string TableRow(const SizeResult& result) {
  char text[512];
  const long percent = std::lround(result.line_fraction * 100);
  const std::string line = percent > 0 ? std::to_string(percent) + "%" : "N/A";
  const std::string lanes = result.lanes ? std::to_string(result.lanes->lanes) : "N/A";
  const std::string resent = result.lanes ? std::to_string(result.lanes->retransmits) : "N/A";
  const std::string cpu = CpuText(DaemonCpuSecondsPerGib(result));
  const std::string wrong = result.checked ? std::to_string(result.wrong) : "N/A";
  std::snprintf(
      text, sizeof(text), "%14llu %12llu %5s %5s %10.3f %10.3f %10.3f %8.3f %8.3f %12llu %5s %5s %7s %7s %8s %s\n",
      static_cast<unsigned long long>(result.bytes), static_cast<unsigned long long>(result.count),
      NameOf(result.reduction.dtype), RedopOf(result), result.time.min_ms, result.time.median_ms, result.time.p99_ms,
      result.algbw_gb_per_s, result.busbw_gb_per_s, static_cast<unsigned long long>(result.wire_bytes), line.c_str(),
      lanes.c_str(), resent.c_str(), cpu.c_str(), wrong.c_str(), NameOf(result.algorithm));
  std::string row = text;
  if (result.world_size != result.world_before) {
    row += "# the world changed from " + std::to_string(result.world_before) + " to " +
           std::to_string(result.world_size) + " peers: times are of both, busbw is of the last\n";
  }
  row += LateRow(result.inputs_late, result.inputs);
  if (result.beside) row += BesideRow(result);
  for (const BaselineResult& baseline : result.baselines) row += BaselineRow(result, baseline);
  return row;
}

std::string LateRow(std::uint64_t late, std::uint64_t inputs) {
  if (late == 0) return "";
  return "# late: " + std::to_string(late) + " of " + std::to_string(inputs) +
         " inputs, which the operations went on without\n";
}

std::string ToJson(const std::vector<SizeResult>& results, std::uint32_t rank) {
  nlohmann::ordered_json root = {{"results", nlohmann::ordered_json::array()}, {"rank", rank}};
  for (const SizeResult& result : results) root["results"].push_back(ToObject(result));
  return root.dump(2) + "\n";
}

std::string CheckWritable(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (access(parent.empty() ? "." : parent.c_str(), W_OK) == 0) return "";
  return "cannot write " + path + ": " + std::strerror(errno);
}

std::string WriteFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".tmp" + std::to_string(getpid());
  {
    std::ofstream file(draft);
    file << text;
    file.flush();
    if (!file) {
      const std::string why = std::strerror(errno);
      unlink(draft.c_str());
      return "cannot write " + path + ": " + why;
    }
  }
  if (rename(draft.c_str(), path.c_str()) == 0) return "";
  const std::string why = std::strerror(errno);
  unlink(draft.c_str());
  return "cannot write " + path + ": " + why;
}

}  // namespace ringway::bench
