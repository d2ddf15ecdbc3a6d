#include "client/src/device_part.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "proto/device/loader.h"

namespace ringway::internal {
namespace {

// Sets `device` if the memory belongs to one.
Status Find(const device::Loaded& loaded, const MemoryRange& memory, const char* name,
            std::optional<std::int32_t>* device) {
  if (memory.bytes == 0) return {};
  if (loaded.library == nullptr) {
    if (!loaded.is_named && !device::IsDriversMemory(memory.data)) return {};
    return Status(Code::kNotSupported, std::string(name) + " may be in device memory, and " + loaded.problem);
  }
  device::Location location;
  static const std::uint64_t kFirstAskedIn = ForkGeneration();
  const bool is_child = kFirstAskedIn != ForkGeneration();
  const device::Status status = loaded.library->Locate(memory.data, memory.bytes, &location);
  if (!status.ok()) {
    if (is_child) return {};
    const Status error = BeforeSubmission(status);
    return Status(error.code(), std::string(name) + ": " + error.text());
  }
  if (!location.on_device) return {};
  if (is_child) {
    return Status(Code::kNotSupported, std::string(name) + " is in device memory, which a forked child cannot use");
  }
  *device = location.device;
  return {};
}

struct Report {
  std::size_t bytes;
  std::function<void(std::size_t, const Status&)> function;
};

void OnReport(void* context, std::size_t arrived, const device::Status& status) {
  auto* const report = static_cast<Report*>(context);
  const bool is_last = !status.ok() || arrived == report->bytes;
  report->function(arrived, ToStatus(status));
  if (is_last) delete report;
}

}  // namespace

DevicePart::~DevicePart() {
  if (generation_ == ForkGeneration()) return;
  // Leaked: they are the parent's, and a child must not call its driver.
  (void)new (std::nothrow) std::shared_ptr<device::Mark>(std::move(submitted));
  if (deferral) (void)new (std::nothrow) std::shared_ptr<HeldStream>(std::move(deferral->hold));
}

Result<std::shared_ptr<DevicePart>> FindDeviceMemory(const MemoryRange& input, const MemoryRange& output) {
  const device::Loaded& loaded = device::Load();
  if (loaded.library == nullptr && loaded.problem.empty()) return std::shared_ptr<DevicePart>();
  std::optional<std::int32_t> input_device;
  std::optional<std::int32_t> output_device;
  if (Status error = Find(loaded, input, "input", &input_device); !error.ok()) return error;
  if (Status error = Find(loaded, output, "output", &output_device); !error.ok()) return error;
  if (!input_device && !output_device) return std::shared_ptr<DevicePart>();
  auto part = std::make_shared<DevicePart>();
  part->library = loaded.library;
  part->input = input_device;
  part->output = output_device;
  return part;
}

Status BeforeSubmission(const device::Status& status) {
  const Status error = ToStatus(status);
  return error.code() == Code::kDeviceFailed ? Status(Code::kIo, error.text()) : error;
}

Status StartCopy(const CopyStarter& start, device::CopyJob job,
                 std::function<void(std::size_t, const Status&)> report) {
  try {
    auto context = std::make_unique<Report>(Report{job.bytes, std::move(report)});
    job.report = OnReport;
    job.context = context.get();
    const device::Status status = start(job);
    if (status.ok()) (void)context.release();  // the last report deletes it
    return ToStatus(status);
  } catch (const std::exception& exception) {  // the operation is submitted: it ends as if the copy had failed
    return Status(Code::kResourceExhausted, std::string("the copy could not begin: ") + exception.what());
  }
}

}  // namespace ringway::internal
