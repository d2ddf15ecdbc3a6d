#include "daemon/transfer/attempt.h"

#include <utility>

namespace ringway::transfer {

void Attempt::Begin(Attempts& attempts, ReadyIndex* index, Start start) {
  End();
  attempts_ = &attempts;
  index_ = index;
  epoch_ = start.epoch;
  number_ = attempts.Begin(this);
  collective::ExecutorOptions& options = start.options;
  options.input = buffers->input();
  options.output = buffers->output();
  options.input_bytes_ready = options.shape.input.count == 0 ? 0 : buffers->input_ready();
  options.trainers_output = name.kind == SegmentKind::kData && buffers->trainer_writes_output();
  options.sink = index == nullptr ? nullptr : this;
  rank_ = options.self;
  executor_ = std::make_unique<collective::Executor>(std::move(start.schedule), options);
  board_ = start.board;
  if (board_ != nullptr) round_ = board_->Join(start.round, start.ranks, start.self, executor_.get());
}

void Attempt::End() {
  if (attempts_ != nullptr) attempts_->End(number_);
  if (round_ != nullptr) board_->Leave(std::exchange(round_, nullptr), rank_);
  executor_.reset();
}

std::string Attempt::ToText() const {
  return name.kind == SegmentKind::kMessage ? ToString(name.message()) : "operation " + ToString(name.op);
}

bool Attempt::trainer_writes(const collective::Ready& ready) const {
  if (returned || name.kind == SegmentKind::kFetched) return false;  // those are copies
  return executor_->SendsInput(ready) ? buffers->trainer_writes_input() : buffers->trainer_writes_output();
}

bool Attempt::Encode(const collective::Ready& ready, const Encoding& encoding, links::Outbound& out,
                     links::SentFrame& sent) {
  const Copy& copy = encoding.copy;
  collective::Executor::Encoded encoded = executor_->Encode(
      ready, encoding.scratch, {.copy = copy == nullptr ? nullptr : copy->data(), .is_hashed = encoding.is_hashed});
  if (!encoded.fits) return false;
  encoded.header.kind = name.kind;
  encoded.header.epoch = epoch_;
  encoded.header.op = name.op;
  EncodeSegmentHeader(encoded.header, out.header);
  out.payload = encoded.payload;
  out.keep = copy == nullptr ? buffers::Keep(buffers) : buffers::Keep(copy);
  out.attempt = number_;
  sent = {.op = name.op, .attempt = number_, .ready = ready, .hash = encoded.header.payload_hash};
  wire_bytes += kSegmentHeaderBytes + encoded.payload.size();
  return true;
}

Attempt::Copy Attempt::SealedCopy(const collective::Range& range) {
  std::optional<std::vector<std::byte>> copy = seal_.Copy(buffers->output(), range);
  if (!copy) return nullptr;
  return std::make_shared<const std::vector<std::byte>>(std::move(*copy));
}

}  // namespace ringway::transfer
