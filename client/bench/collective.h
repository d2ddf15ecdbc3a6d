// Any collective by its kind, for programs that run all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ringway/ringway.hpp>

#include "client/bench/check_values.h"

namespace ringway::bench {

// A rank's input and output, in elements.
struct Buffers {
  const void* input = nullptr;
  std::size_t count = 0;  // as SizesOf (ringway/types.h) takes it
  void* output = nullptr;
  std::size_t output_count = 0;  // of the buffer that all ranks share
  std::size_t tensors = 1;       // of an all-reduce: it is cut into as many, which are given as a list
};

// With counts by rank they are as uneven.h says. The reduction's codec replaces that of `options`. A broadcast is in
// place: REQUIRES: input == output.
Result<Work> StartCollective(Session& session, OpKind collective, const Reduction& reduction, const Buffers& buffers,
                             OpOptions options);

// A send goes to the next rank; StartCollective is its other end, from the rank before.
Result<Work> StartSend(Session& session, const Reduction& reduction, const Buffers& buffers);

}  // namespace ringway::bench
