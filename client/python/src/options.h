// Options as Python gives them: by name, times in seconds. Wrong names and values raise TypeError or InvalidArgument.
//
// Threads: the caller holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <ringway/ringway.hpp>
#include <vector>

namespace ringway::python {

// An integer from 0 on that T holds: Python's, NumPy's or any with __index__. `what` is the parameter's name.
template <typename T>
T IntegerFrom(const char* what, nanobind::handle value);
extern template std::uint32_t IntegerFrom(const char* what, nanobind::handle value);
extern template std::uint64_t IntegerFrom(const char* what, nanobind::handle value);

// The integers of a sequence.
std::vector<std::size_t> IntegersFrom(const char* what, nanobind::handle values);

// Seconds: not negative; None, and inf, wait for ever.
Milliseconds TimeoutFrom(nanobind::handle seconds);

// A CUDA stream: its handle, an object with __cuda_stream__ (CUDA's protocol), or a torch or CuPy stream. None: the
// default stream.
void* StreamFrom(nanobind::handle stream);

ReduceOp ReduceOpFrom(nanobind::handle name);
DType DTypeFrom(nanobind::handle name);

OpOptions OpOptionsFrom(const nanobind::dict& given);

// `on_waiting` and `interrupted` are left out.
JoinOptions JoinOptionsFrom(const nanobind::dict& given);

}  // namespace ringway::python
