#include "options.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "errors.h"

namespace ringway::python {
namespace {

namespace nb = nanobind;

std::string Repr(nb::handle value) { return TextOf(nb::repr(value)); }

// The enumerator that NameOf calls `name`.
template <typename Enum>
Enum Named(const char* what, nb::handle name, std::uint32_t enumerators) {
  const std::string wanted = nb::isinstance<nb::str>(name) ? TextOf(name) : "";
  std::string known;
  for (std::uint32_t i = 0; i < enumerators; ++i) {
    const auto candidate = static_cast<Enum>(i);
    if (wanted == NameOf(candidate)) return candidate;
    known.append(i == 0 ? "" : ", ").append(NameOf(candidate));
  }
  Refuse(std::string(what) + " is " + Repr(name) + "; it must be one of " + known);
}

bool BoolFrom(const char* what, nb::handle value) {
  bool flag = false;
  if (!nb::try_cast<bool>(value, flag, false)) Refuse(std::string(what) + " is " + Repr(value) + "; it must be a bool");
  return flag;
}

std::string Text(const char* what, nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) Refuse(std::string(what) + " is " + Repr(value) + "; it must be a str");
  return TextOf(value);
}

// None: the option's zero, which means none.
Milliseconds Duration(nb::handle seconds) { return seconds.is_none() ? Milliseconds(0) : TimeoutFrom(seconds); }

// An integer is a number of ranks, a float a share of them. Nothing: None.
std::optional<Quorum> QuorumFrom(const char* name, nb::handle value) {
  if (value.is_none()) return std::nullopt;
  if (nb::isinstance<nb::str>(value)) {
    if (TextOf(value) == "all") return Quorum::All();
  } else if (PyFloat_Check(value.ptr()) != 0) {
    const double share = PyFloat_AsDouble(value.ptr());
    if (share > 0 && share <= 1) return Quorum::Percent(static_cast<std::uint32_t>(std::ceil(share * 100 - 1e-9)));
  } else if (PyIndex_Check(value.ptr()) != 0 && !nb::isinstance<nb::bool_>(value)) {
    const Py_ssize_t ranks = PyNumber_AsSsize_t(value.ptr(), nullptr);  // the nearest one, if it is too large
    if (ranks >= 1 && ranks <= static_cast<Py_ssize_t>(Quorum::kRanksMax)) {
      return Quorum::Ranks(static_cast<std::uint32_t>(ranks));
    }
    PyErr_Clear();
  }
  Refuse(std::string(name) + " is " + Repr(value) +
         "; it must be 1 to 64 ranks, a share of them as a float up to 1.0, or 'all'");
}

double WeightFrom(const char* name, nb::handle value) {
  if (value.is_none()) return 0;
  const double weight = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() == nullptr && weight != 0 && IsWeight(weight)) return weight;
  PyErr_Clear();
  Refuse(std::string(name) + " is " + Repr(value) + "; it must be a number between 1e-15 and 1e15");
}

// Sets one option.
template <typename Options>
struct Setter {
  const char* name;
  void (*set)(Options* options, const char* name, nb::handle value);
};

template <typename Options, std::size_t kCount>
void CheckNames(const Setter<Options> (&setters)[kCount], const nb::dict& given) {
  std::string known;
  for (const Setter<Options>& setter : setters) known.append(known.empty() ? "" : ", ").append(setter.name);
  for (const auto& [key, value] : given) {
    const std::string name = TextOf(key);
    const bool is_known = std::any_of(std::begin(setters), std::end(setters), [&](auto& x) { return name == x.name; });
    if (!is_known) throw nb::type_error(("no option is called " + name).append("; there are ").append(known).c_str());
  }
}

// Sets options in the order of `setters`, whatever that of `given`: a codec resets what belongs to codecs.
template <typename Options, std::size_t kCount>
Options Filled(const Setter<Options> (&setters)[kCount], const nb::dict& given) {
  CheckNames(setters, given);
  Options options;
  for (const Setter<Options>& setter : setters) {
    if (given.contains(setter.name)) setter.set(&options, setter.name, given[setter.name]);
  }
  return options;
}

constexpr Setter<OpOptions> kOpOptions[] = {
    {"channel", [](auto* o, auto name, auto value) { o->channel = IntegerFrom<std::uint32_t>(name, value); }},
    {"codec", [](auto* o, auto name, auto value) { o->codec = Named<Codec>(name, value, kCodecCount); }},
    {"block", [](auto* o, auto name, auto value) { o->codec.block = IntegerFrom<std::uint16_t>(name, value); }},
    {"rounding",
     [](auto* o, auto name, auto value) { o->codec.rounding = Named<Rounding>(name, value, kRoundingCount); }},
    {"algorithm",
     [](auto* o, auto name, auto value) { o->algorithm = Named<Algorithm>(name, value, kAlgorithmCount); }},
    {"submit_timeout", [](auto* o, auto, auto value) { o->submit_timeout = TimeoutFrom(value); }},
    {"as_peer", [](auto* o, auto name, auto value) { o->as_peer = IntegerFrom<std::uint64_t>(name, value); }},
    {"priority", [](auto* o, auto name, auto value) { o->priority = IntegerFrom<std::uint32_t>(name, value); }},
    {"quorum", [](auto* o, auto name, auto value) { o->quorum = QuorumFrom(name, value).value_or(Quorum::OfGroup()); }},
    {"grace", [](auto* o, auto, auto value) { o->grace = Duration(value); }},
    {"weight", [](auto* o, auto name, auto value) { o->weight = WeightFrom(name, value); }},
    {"late", [](auto* o, auto name, auto value) { o->late = Named<Late>(name, value, kLateCount); }},
    {"error_feedback", [](auto* o, auto name, auto value) { o->error_feedback = Text(name, value); }},
    {"stream", [](auto* o, auto, auto value) { o->stream = StreamFrom(value); }},
};

constexpr Setter<JoinOptions> kJoinOptions[] = {
    {"socket", [](auto* o, auto name, auto value) { o->socket_path = Text(name, value); }},
    {"group", [](auto* o, auto name, auto value) { o->group = Text(name, value); }},
    {"name", [](auto* o, auto name, auto value) { o->name = Text(name, value); }},
    {"wait_world", [](auto* o, auto name, auto value) { o->wait_world = IntegerFrom<std::uint32_t>(name, value); }},
    {"min_world", [](auto* o, auto name, auto value) { o->min_world = IntegerFrom<std::uint32_t>(name, value); }},
    {"fail_on_peer_loss", [](auto* o, auto name, auto value) { o->fail_on_peer_loss = BoolFrom(name, value); }},
    {"quorum", [](auto* o, auto name, auto value) { o->quorum = QuorumFrom(name, value).value_or(Quorum::All()); }},
    {"grace", [](auto* o, auto, auto value) { o->grace = Duration(value); }},
    {"late", [](auto* o, auto name, auto value) { o->late = Named<Late>(name, value, kLateCount); }},
    {"op_deadline", [](auto* o, auto, auto value) { o->op_deadline = Duration(value); }},
    {"evict_hung_after", [](auto* o, auto, auto value) { o->evict_hung_after = Duration(value); }},
    {"timeout", [](auto* o, auto, auto value) { o->timeout = TimeoutFrom(value); }},
    {"reconnect", [](auto* o, auto, auto value) { o->reconnect = TimeoutFrom(value); }},
    {"rejoin_when_evicted", [](auto* o, auto name, auto value) { o->rejoin_when_evicted = BoolFrom(name, value); }},
};

}  // namespace

template <typename T>
T IntegerFrom(const char* what, nb::handle value) {
  T integer{};
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (index.is_valid() && nb::try_cast<T>(index, integer, false)) return integer;
  PyErr_Clear();
  Refuse(std::string(what) + " is " + Repr(value) + "; it must be an integer from 0 to " +
         std::to_string(std::numeric_limits<T>::max()));
}
template std::uint32_t IntegerFrom(const char* what, nb::handle value);
template std::uint64_t IntegerFrom(const char* what, nb::handle value);

std::vector<std::size_t> IntegersFrom(const char* what, nb::handle values) {
  if (!nb::hasattr(values, "__iter__")) {
    Refuse(std::string(what) + " is " + Repr(values) + "; it must be a sequence of integers");
  }
  std::vector<std::size_t> integers;
  for (const nb::handle value : values) integers.push_back(IntegerFrom<std::size_t>(what, value));
  return integers;
}

Milliseconds TimeoutFrom(nb::handle seconds) {
  if (seconds.is_none()) return kForever;
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    Refuse("a time is " + Repr(seconds) + "; it must be a number of seconds, or None");
  }
  if (!(value >= 0)) Refuse("a time is " + Repr(seconds) + " seconds; it must be 0 or more");
  const double milliseconds = std::ceil(value * 1000);
  return milliseconds < 1e15 ? Milliseconds(static_cast<Milliseconds::rep>(milliseconds)) : kForever;
}

void* StreamFrom(nb::handle stream) {
  if (stream.is_none()) return nullptr;
  nb::object number = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) {
    number = stream.attr("__cuda_stream__")()[1];  // (version of the protocol, handle)
  } else {
    for (const char* const name : {"cuda_stream", "ptr"}) {
      if (!nb::hasattr(stream, name)) continue;
      number = stream.attr(name);
      break;
    }
  }
  return reinterpret_cast<void*>(IntegerFrom<std::uintptr_t>("stream", number));
}

ReduceOp ReduceOpFrom(nb::handle name) { return Named<ReduceOp>("op", name, kReduceOpCount); }

DType DTypeFrom(nb::handle name) { return Named<DType>("dtype", name, kDTypeCount); }

OpOptions OpOptionsFrom(const nb::dict& given) { return Filled(kOpOptions, given); }

JoinOptions JoinOptionsFrom(const nb::dict& given) { return Filled(kJoinOptions, given); }

}  // namespace ringway::python
