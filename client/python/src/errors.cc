#include "errors.h"

#include <array>
#include <cctype>
#include <utility>

#include "error_docs.h"  // of the table in client/README.md, by error_docs.py

namespace ringway::python {
namespace {

namespace nb = nanobind;

std::string DocOf(Code code) {
  for (const auto& [name, doc] : kErrorDocs) {
    if (std::string(name) == NameOf(code)) return doc;
  }
  return {};
}

// Returns the exception classes by code, which live as long as the process.
std::array<PyObject*, kCodeCount>& Classes() {
  static std::array<PyObject*, kCodeCount> classes{};
  return classes;
}

// invalid_argument: InvalidArgument.
std::string ClassName(Code code) {
  std::string name;
  bool begins_word = true;
  for (const char character : std::string(NameOf(code))) {
    if (character != '_') {
      name += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(character))) : character;
    }
    begins_word = character == '_';
  }
  return name;
}

nb::object NewClass(const nb::module_& module, const std::string& name, nb::handle bases, const std::string& doc,
                    const nb::dict& members) {
  const std::string full_name = TextOf(module.attr("__name__")) + "." + name;
  nb::object made = nb::steal(PyErr_NewExceptionWithDoc(full_name.c_str(), doc.c_str(), bases.ptr(), members.ptr()));
  if (!made.is_valid()) nb::raise_python_error();
  nb::setattr(module, name.c_str(), made);
  return made;
}

// Returns Python's own class for such a failure, as a base.
nb::object BasesOf(Code code, const nb::object& base) {
  if (code == Code::kInvalidArgument) return nb::make_tuple(base, nb::handle(PyExc_ValueError));
  if (code == Code::kIo) return nb::make_tuple(base, nb::handle(PyExc_OSError));
  if (code == Code::kTimeout) return nb::make_tuple(base, nb::handle(PyExc_TimeoutError));
  return base;
}

}  // namespace

std::string TextOf(nb::handle object) {
  const nb::str text(object);
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

void DefineErrors(nb::module_& module) {
  nb::dict members;
  members["code"] = "";
  const nb::object message = nb::cpp_function([](nb::handle self) { return nb::str(self); }, nb::is_method(),
                                              nb::sig("def message(self) -> str"));
  members["message"] = nb::handle(reinterpret_cast<PyObject*>(&PyProperty_Type))(message);
  const nb::object base =
      NewClass(module, "Error", PyExc_RuntimeError,
               "A call failed. `code` is the result's code, such as 'rejoined', and has a class of its own; "
               "`message` is a sentence with advice.",
               members);
  for (std::uint32_t i = 1; i < kCodeCount; ++i) {
    const Code code = static_cast<Code>(i);
    nb::dict own;
    own["code"] = NameOf(code);
    Classes()[i] = NewClass(module, ClassName(code), BasesOf(code, base), DocOf(code), own).release().ptr();
  }
}

nb::object ToException(const Status& error) {
  const std::string& text = error.text();
  // Parts of it come from other hosts.
  nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  if (!message.is_valid()) nb::raise_python_error();
  return nb::handle(Classes().at(static_cast<std::uint32_t>(error.code())))(message);
}

void Raise(const Status& error) {
  const nb::object exception = ToException(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  nb::raise_python_error();
}

}  // namespace ringway::python
