#include "array.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "errors.h"
#include "interpreter.h"
#include "proto/device/loader.h"

namespace ringway::python {
namespace {

namespace nb = nanobind;

using TypeCode = nb::dlpack::dtype_code;

struct Element {
  DType dtype;
  TypeCode code;
  std::uint8_t bits;
};

constexpr Element kElements[] = {
    {DType::kU8, TypeCode::UInt, 8},      {DType::kI8, TypeCode::Int, 8},     {DType::kU16, TypeCode::UInt, 16},
    {DType::kI16, TypeCode::Int, 16},     {DType::kU32, TypeCode::UInt, 32},  {DType::kI32, TypeCode::Int, 32},
    {DType::kU64, TypeCode::UInt, 64},    {DType::kI64, TypeCode::Int, 64},   {DType::kF16, TypeCode::Float, 16},
    {DType::kBF16, TypeCode::Bfloat, 16}, {DType::kF32, TypeCode::Float, 32}, {DType::kF64, TypeCode::Float, 64}};
static_assert(std::size(kElements) == kDTypeCount);

std::optional<DType> DTypeOf(const nb::dlpack::dtype& type) {
  for (const Element& element : kElements) {
    if (type.code == static_cast<std::uint8_t>(element.code) && type.bits == element.bits && type.lanes == 1) {
      return element.dtype;
    }
  }
  return std::nullopt;
}

std::string NameOfDType(nb::handle object) { return TextOf(nb::getattr(object, "dtype", nb::str("?"))); }

bool Import(nb::handle object, Access access, nb::ndarray<nb::ro>* array) {
  if (access == Access::kRead) return nb::try_cast(object, *array, false);
  nb::ndarray<> writable;
  if (!nb::try_cast(object, writable, false)) return false;
  *array = nb::ndarray<nb::ro>(writable);
  return true;
}

// NumPy exports no bfloat16, which is ml_dtypes': its bits are those of uint16. Empty for other objects.
nb::object BitsOfBfloat16(nb::handle object) {
  const bool is_numpy = nb::hasattr(object, "dtype") && nb::hasattr(object, "__array_interface__");
  if (!is_numpy || TextOf(nb::getattr(object.attr("dtype"), "name", nb::none())) != "bfloat16") return {};
  return object.attr("view")("uint16");
}

// Returns why DLPack does not take it, in the words of its owner.
std::string OwnersReason(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return "";
  try {
    (void)object.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt
    return ": " + TextOf(error.value());
  }
  return "";
}

[[noreturn]] void RefuseToBorrow(nb::handle object, const std::string& name, Access access) {
  nb::ndarray<nb::ro> readable;
  if (access == Access::kWrite && Import(object, Access::kRead, &readable)) {
    Refuse(name + " is read-only and would receive the result: pass a writable array, or out=");
  }
  const std::string type = TextOf(nb::type_name(object.type()));
  const std::string reason = OwnersReason(object);
  if (nb::hasattr(object, "dtype")) {
    Raise(Status(Code::kNotSupported, name + ", a " + type + " of " + NameOfDType(object) +
                                          ", cannot be read as an array of numbers" + reason));
  }
  throw nb::type_error(
      (name + " must be an array (NumPy, torch, or any with DLPack or the buffer protocol), not " + type + reason)
          .c_str());
}

void CheckContiguous(const nb::ndarray<nb::ro>& array, const std::string& name) {
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride && array.size() > 0) {
      Refuse(name + " is not contiguous: pass numpy.ascontiguousarray(x) or tensor.contiguous(), or a flat view");
    }
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
}

// The library itself takes memory that no driver claims for the host's, and would read it.
void CheckDevice(const nb::ndarray<nb::ro>& array, const std::string& name) {
  const device::Loaded& loaded = device::Load();
  if (loaded.library == nullptr) {
    Raise(Status(Code::kNotSupported,
                 name + " is in the memory of a GPU, " +
                     (loaded.problem.empty() ? "and this process has no CUDA driver" : "and " + loaded.problem)));
  }
  device::Location location;
  const device::Status found = [&] {
    const WithoutGil released;  // another thread may have the driver for long
    return loaded.library->Locate(array.data(), array.nbytes(), &location);
  }();
  if (!found.ok()) Raise(Status(found.code, name + ": " + found.text));
  if (array.size() > 0 && !location.on_device) Refuse(name + " says that it is a GPU's, which its driver denies");
}

}  // namespace

Array Borrow(nb::handle object, const char* name, Access access) {
  Array array;
  std::optional<DType> dtype;
  if (Import(object, access, &array.owner)) {
    dtype = DTypeOf(array.owner.dtype());
  } else {
    const nb::object bits = BitsOfBfloat16(object);
    if (!bits.is_valid() || !Import(bits, access, &array.owner)) RefuseToBorrow(object, name, access);
    dtype = DType::kBF16;
  }
  if (!dtype) {
    Raise(Status(Code::kNotSupported,
                 std::string(name) + " has elements of " + NameOfDType(object) +
                     "; supported are integers of 8 to 64 bits, float16, bfloat16, float32 and float64"));
  }
  const int device = array.owner.device_type();
  array.on_device = device == nb::device::cuda::value || device == nb::device::cuda_managed::value;
  if (!array.on_device && device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
    Raise(Status(Code::kNotSupported,
                 std::string(name) + " is in the memory of a device that is not CUDA's; pass tensor.cpu()"));
  }
  if (array.on_device) CheckDevice(array.owner, name);
  CheckContiguous(array.owner, name);
  array.dtype = *dtype;
  array.count = array.owner.size();
  array.data = const_cast<void*>(array.owner.data());
  return array;
}

Exported Export(Buffer buffer, const std::vector<std::size_t>& shape, DType dtype) {
  const Element& element = kElements[static_cast<std::size_t>(dtype)];
  auto kept = std::make_unique<Buffer>(std::move(buffer));
  void* const data = kept->data();
  const nb::capsule owner(kept.get(), [](void* pointer) noexcept { delete static_cast<Buffer*>(pointer); });
  (void)kept.release();
  return Exported(data, shape.size(), shape.data(), owner, nullptr,
                  {static_cast<std::uint8_t>(element.code), element.bits, 1});
}

}  // namespace ringway::python
