// Arrays of trainers, NumPy's, torch's or any other's: borrowed by DLPack or the buffer protocol, never copied. Memory
// of a GPU is exported for the default stream, which its owner makes wait for the stream in use (DLPack, stream=None).
//
// Threads: the caller holds the GIL, also where an Array is destroyed.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <ringway/ringway.hpp>
#include <vector>

namespace ringway::python {

// Contiguous elements, in row-major order. Keeps their memory alive.
struct Array {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kU8;
  bool on_device = false;
  nanobind::ndarray<nanobind::ro> owner;
};

enum class Access { kRead, kWrite };

// Raises TypeError for what is no array, InvalidArgument and NotSupported for one that cannot be used. `name` is that
// of the parameter.
Array Borrow(nanobind::handle object, const char* name, Access access);

// An array in `buffer`, which lives as long as it does: for numpy.asarray and torch.from_dlpack.
using Exported = nanobind::ndarray<nanobind::array_api>;
Exported Export(Buffer buffer, const std::vector<std::size_t>& shape, DType dtype);

}  // namespace ringway::python
