#include "client/examples/train_text/report.h"

namespace train_text {

bool StepLog::Open(const std::string& path) {
  file_.reset(std::fopen(path.c_str(), "w"));
  return file_ != nullptr;
}

void StepLog::Write(const StepRecord& record) {
  if (file_ == nullptr) return;
  const auto wide = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(file_.get(),
               "{\"step\": %llu, \"loss\": %.6f, \"progress\": %.6f, \"ms\": %.3f, \"rank\": %u, \"world\": %u, "
               "\"epoch\": %llu, \"retries\": %llu, \"wire_bytes\": %llu}\n",
               wide(record.step), record.loss, record.progress, record.milliseconds, record.rank, record.world_size,
               wide(record.epoch), wide(record.retries), wide(record.wire_bytes));
  std::fflush(file_.get());
}

std::uint64_t HashOf(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3U;
  return hash;
}

}  // namespace train_text
