#include "client/src/device_finisher.h"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "proto/device/signals_blocked.h"

namespace ringway::internal {
namespace {

using State = OutputCopy::State;

// A thread that waits for a stream may keep a copy out of the driver for this many times its patience.
constexpr int kKeptOut = 30;

constexpr Milliseconds kFinisherLinger = std::chrono::seconds(10);

std::byte* OutputAt(const Operation& operation, const Part& part) {
  return static_cast<std::byte*>(operation.output) + part.begin * SizeOf(operation.spec.dtype);
}

Status InputFailed(const std::string& why) {
  return Status(Code::kDeviceFailed, "the input could not be read from the device: " + why);
}

// The others go on with a result that this rank lacks: only a newcomer takes their state.
Status OutOfStep(const std::string& why) {
  return Status(Code::kDeviceFailed,
                "the result did not reach the device: " + why +
                    "; the others have it and the output is unspecified: join again and take the state from them");
}

}  // namespace

void DeviceFinisher::CopyInput(const Request& request, Region* region, const Operation& operation) {
  const std::size_t bytes = request.input_bytes();
  {
    const Lock lock = memberships_.Acquire();
    BeginCopy(lock, operation, region);
    operation.device->reads_input = true;
  }
  const DevicePart& part = *operation.device;
  device::CopyJob job;
  job.direction = device::Direction::kToHost;
  job.device = *part.input;
  job.to = region->data();
  job.from = request.input;
  job.bytes = bytes;
  job.after = part.submitted;
  const auto report = [session = keep_session_(), this, operation, region, bytes](std::size_t arrived,
                                                                                  const Status& error) {
    OnInput(operation, region, arrived, bytes, error);
  };
  const auto start = [&part](const device::CopyJob& copy) { return part.library->Start(copy); };
  if (Status error = StartCopy(start, job, report); !error.ok()) OnInput(operation, region, 0, bytes, error);
}

// A copy uses its region until its last report, however the operation ends.
void DeviceFinisher::BeginCopy(const Lock& lock, const Operation& operation, Region* region) {
  copies_.push_back(operation.device);
  regions_.AddUser(lock, region);
}

void DeviceFinisher::EndCopy(const Lock& lock, const DevicePart* part, Region* region) {
  regions_.Release(lock, region);
  const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const auto& one) { return one.get() == part; });
  if (found != copies_.end()) copies_.erase(found);
  memberships_.WakeAll(lock);
}

void DeviceFinisher::OnInput(const Operation& operation, Region* region, std::size_t arrived, std::size_t bytes,
                             const Status& error) {
  Link* const link = operation.link.get();
  const bool is_last = !error.ok() || arrived == bytes;
  {
    const Lock lock = memberships_.Acquire();
    DevicePart& part = *operation.device;
    const bool concerns = part.has_slot;
    if (concerns && error.ok()) link->slots[operation.slot].staged_bytes.store(arrived, std::memory_order_release);
    if (concerns && !error.ok()) part.input_error = InputFailed(error.text());
    if (is_last) {
      part.reads_input = false;
      EndCopy(lock, &part, region);
    }
    if (!concerns || !link->end.ok() || (error.ok() && arrived == 0)) return;
  }
  const Status sent = error.ok() ? link->SendProgress(operation.slot, is_last)
                                 : operations_.SendCancel(operation, Deadline(kSendPatience));
  if (!sent.ok()) memberships_.Lose(link, sent);
}

void DeviceFinisher::CopyOutput(Lock* lock, Operation* operation) {
  DevicePart& part = *operation->device;
  operation->read = operations_.ReadOutcome(*lock, *operation);
  const Part result = operation->read->ok() ? operation->read->value().part : Part();
  if (!part.output || result.count == 0) {
    part.copy.state = State::kOver;
    return;
  }
  part.copy.state = State::kCopying;
  part.copy.began_at = Deadline::Clock::now();
  const std::shared_ptr<HeldStream> hold = part.hold();
  // A copy that no stream holds may begin at once: the marked work was done before the input was read.
  if (part.input && hold == nullptr) part.copy.moved_at = part.copy.began_at;
  Region* const region = operation->link->slots.owner(operation->slot).placement.result.region;
  BeginCopy(*lock, *operation, region);
  lock->unlock();
  device::CopyJob job;
  job.direction = device::Direction::kToDevice;
  job.device = *part.output;
  job.to = OutputAt(*operation, result);
  job.from = region->data() + result.begin * SizeOf(operation->spec.dtype);
  job.bytes = result.count * SizeOf(operation->spec.dtype);
  job.after = part.submitted;
  const auto report = [session = keep_session_(), this, copied = *operation, region, bytes = job.bytes](
                          std::size_t arrived, const Status& error) {
    OnOutput(copied, region, !error.ok() || arrived == bytes, error);
  };
  const auto start = [&](const device::CopyJob& copy) {
    if (hold == nullptr) return part.library->Start(copy);
    hold->Release(copy);
    return device::Status();
  };
  if (const Status error = StartCopy(start, job, report); !error.ok()) report(0, error);
  lock->lock();
}

void DeviceFinisher::OnOutput(const Operation& operation, Region* region, bool is_last, const Status& error) {
  DevicePart* const part = operation.device.get();
  Lock lock = memberships_.Acquire();
  part->copy.moved_at = Deadline::Clock::now();
  if (!is_last) return;
  EndCopy(lock, part, region);
  if (part->copy.state == State::kCopying) {  // else it was given up
    part->copy.state = State::kOver;
    if (!error.ok()) part->copy.error = OutOfStep(error.text());
  }
  if (part->deferral) EndDeferred(&lock, part);
}

// The work before the copy may take any time, for which nobody waits once the session has ended.
void DeviceFinisher::GiveUpHungOutput(const Lock& lock, DevicePart* part) const {
  const Milliseconds patience = part->library->patience();
  if (part->copy.state != State::kCopying || (!part->copy.moved_at && memberships_.end(lock).ok())) return;
  auto since = part->copy.moved_at.value_or(part->copy.began_at);
  // While a stream waited, its thread may have kept the driver from this copy.
  if (part->hold() == nullptr) since = std::max(since, std::min(HeldStream::NoneSince(), since + kKeptOut * patience));
  if (Deadline::Clock::now() - since < patience) return;
  part->copy.state = State::kOver;
  part->copy.error = OutOfStep("nothing of it was copied for " + std::to_string(patience.count()) + " ms");
}

void DeviceFinisher::GiveUpHungCopies(const Lock& lock, Link* link) {
  for (const std::shared_ptr<DevicePart>& part : copies_) {
    GiveUpHungOutput(lock, part.get());
    if (part->copy.error.ok()) continue;
    const Status why = part->copy.error;  // the copy may yet write
    return memberships_.End(lock, link, why);
  }
}

Status DeviceFinisher::AwaitOutput(Lock* lock, Operation* operation, const Deadline& deadline) {
  DevicePart& part = *operation->device;
  if (part.copy.state == State::kNone) CopyOutput(lock, operation);
  while (part.copy.state == State::kCopying) {
    const Waited waited = memberships_.waiter().WaitForChange(lock, deadline.Within(kHungCheck));
    GiveUpHungOutput(*lock, &part);
    if (part.copy.state != State::kCopying) break;
    if (waited == Waited::kInterrupted || deadline.HasPassed()) {
      return Status(waited == Waited::kInterrupted ? Code::kInterrupted : Code::kTimeout,
                    "the result is being copied to the device: wait again");
    }
  }
  return {};
}

Status DeviceFinisher::AwaitFinisher(Lock* lock, const Deadline& deadline, const std::function<bool()>& ready) {
  const Waited waited = memberships_.waiter().Await(lock, nullptr, deadline, ready);
  if (waited == Waited::kChange) return {};
  return Status(waited == Waited::kInterrupted ? Code::kInterrupted : Code::kTimeout,
                "the operation goes on, and the streams wait for it: wait again or cancel it");
}

Result<OpResult> DeviceFinisher::AwaitOutcome(Lock* lock, const Operation& operation, const Deadline& deadline) {
  const std::optional<Result<OpResult>>& outcome = operation.device->deferral->outcome;
  if (Status error = AwaitFinisher(lock, deadline, [&] { return outcome.has_value(); }); !error.ok()) return error;
  if (Status error = Report(*lock, operation); !error.ok()) return error;
  return *outcome;
}

Status DeviceFinisher::Report(const Lock& lock, const Operation& operation) {
  Deferral& deferral = *operation.device->deferral;
  if (deferral.outcome->ok()) return {};
  if (std::exchange(deferral.has_unread_refusal, false)) operation.link->slots.CountRefusal(operation.spec.channel);
  return memberships_.Report(lock, deferral.outcome->status());
}

std::optional<Status> DeviceFinisher::HoldStream(const Operation& operation, device::Stream stream,
                                                 const Deadline& deadline) {
  const std::shared_ptr<DevicePart> part = operation.device;
  Lock lock = memberships_.Acquire();
  if (Status error = AwaitInputs(&lock, operation, deadline); !error.ok()) return error;
  if (!part->output) return Status();
  const std::shared_ptr<HeldStream> earlier = part->hold();
  if (part->deferral && part->deferral->outcome) return Report(lock, operation);
  if (!earlier && part->copy.state != State::kNone) return std::nullopt;
  const Region* const result = operation.link->slots.owner(operation.slot).placement.result.region;
  lock.unlock();
  std::shared_ptr<device::Hold> hold;
  const device::Status held =
      earlier ? earlier->AddStream(stream)
              : part->library->HoldStream(*part->output, stream, part->submitted, result->data(), &hold);
  if (held.code == Code::kNotSupported) return std::nullopt;
  if (!held.ok() || earlier) return BeforeSubmission(held);
  lock.lock();
  return Defer(&lock, operation, std::move(hold));
}

Status DeviceFinisher::Defer(Lock* lock, const Operation& operation, std::shared_ptr<device::Hold> hold) {
  const std::shared_ptr<DevicePart> part = operation.device;
  if (Status error = StartThread(*lock); !error.ok()) return error;
  deferred_.push_back(operation);
  part->deferral.emplace().hold = std::make_shared<HeldStream>(std::move(hold));
  if (MayAdvance(*lock, operation)) Advance(lock, part);  // its doorbell may have come already
  memberships_.WakeAll(*lock);
  return part->deferral->outcome ? Report(*lock, operation) : Status();
}

// Reading inputs needs the driver, which a thread that waits for a held stream may keep from all others. So a stream is
// held only once its operation, and those before that it may have to wait for, need the driver no more.
Status DeviceFinisher::AwaitInputs(Lock* lock, const Operation& operation, const Deadline& deadline) {
  const DevicePart& own = *operation.device;
  const auto concerns = [&own](const std::shared_ptr<DevicePart>& part) {
    return part->reads_input && part->number <= own.number;
  };
  const auto is_over = [&] {
    const bool is_finished = own.deferral && own.deferral->outcome;
    const bool is_decided = is_finished || operations_.IsDecided(*lock, operation);  // nothing is held long
    return is_decided || std::none_of(copies_.begin(), copies_.end(), concerns);
  };
  Status error = memberships_.Await(lock, operation.link.get(), deadline, is_over);
  if (error.code() != Code::kTimeout) return error;
  return Status(Code::kTimeout, "inputs are still being read: call again, or Wait");
}

Status DeviceFinisher::StartThread(const Lock& /*lock*/) {
  if (is_running_) return {};
  try {
    const device::SignalsBlocked blocked;
    std::thread([session = keep_session_(), this] { Run(); }).detach();
    is_running_ = true;
    return {};
  } catch (const std::exception& exception) {
    return Status(Code::kResourceExhausted, std::string("no thread to finish the operation: ") + exception.what());
  }
}

bool DeviceFinisher::IsIdle(const Lock& /*lock*/) const {
  const auto is_orphan = [](const Operation& operation) { return operation.device->deferral->is_orphan; };
  return copies_.empty() && std::none_of(deferred_.begin(), deferred_.end(), is_orphan);
}

bool DeviceFinisher::MayAdvance(const Lock& lock, const Operation& operation) const {
  const DevicePart& part = *operation.device;
  if (part.copy.state != State::kNone) return part.copy.state == State::kOver;
  return operations_.IsDecided(lock, operation);
}

void DeviceFinisher::Advance(Lock* lock, const std::shared_ptr<DevicePart>& part) {
  const auto found = FindDeferred(*part);
  if (found == deferred_.end()) return;
  if (part->copy.state == State::kNone && operations_.IsSettled(*found)) CopyOutput(lock, &*found);
  if (part->copy.state != State::kCopying) EndDeferred(lock, part.get());
}

std::list<Operation>::iterator DeviceFinisher::FindDeferred(const DevicePart& part) {
  return std::find_if(deferred_.begin(), deferred_.end(),
                      [&](const Operation& operation) { return operation.device.get() == &part; });
}

void DeviceFinisher::EndDeferred(Lock* lock, DevicePart* part) {
  const auto found = FindDeferred(*part);
  if (found == deferred_.end()) return;
  Operation operation = std::move(*found);
  deferred_.erase(found);
  const Status loss = operation.read ? Status() : memberships_.Loss(*lock);
  part->deferral->outcome = operations_.Finish(lock, &operation, loss);
  part->deferral->hold->GoOn();  // others may have it, too
  part->deferral->hold.reset();
  memberships_.WakeAll(*lock);
}

void DeviceFinisher::Run() {
  Lock lock = memberships_.Acquire();
  const auto may_advance = [&](const Operation& operation) { return MayAdvance(lock, operation); };
  const auto is_copying = [](const Operation& x) { return x.device->copy.state == State::kCopying; };
  while (memberships_.end(lock).ok() || !deferred_.empty()) {
    for (const Operation& operation : deferred_) GiveUpHungOutput(lock, operation.device.get());
    const auto next = std::find_if(deferred_.begin(), deferred_.end(), may_advance);
    if (next != deferred_.end()) {
      Advance(&lock, std::shared_ptr<DevicePart>(next->device));
    } else if (deferred_.empty()) {
      if (memberships_.waiter().WaitForChange(&lock, Deadline(kFinisherLinger)) == Waited::kTimeout &&
          deferred_.empty())
        break;
    } else if (std::all_of(deferred_.begin(), deferred_.end(), is_copying)) {
      (void)memberships_.waiter().WaitForChange(&lock, Deadline(kHungCheck));
    } else {
      const std::shared_ptr<Link> link = memberships_.link(lock);
      (void)memberships_.Await(&lock, link.get(), Deadline(kHungCheck),
                               [&] { return std::any_of(deferred_.begin(), deferred_.end(), may_advance); });
    }
  }
  is_running_ = false;
}

}  // namespace ringway::internal
