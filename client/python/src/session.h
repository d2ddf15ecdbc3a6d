// One membership of a group, or one after another: ringway::Session.
//
// Threads: any; the caller holds the GIL, which every call that may block releases.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>
#include <vector>

#include "array.h"

namespace ringway::python {

class PySession {
 public:
  // Joins. `on_waiting` is called within, with the Error that is waited for or None; `options` are join's.
  PySession(nanobind::handle on_waiting, const nanobind::kwargs& options);
  ~PySession();
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_.get(); }

  // Keeps memory of a device that a copy may still read or write: until the next UpdateView has succeeded, by which all
  // copies are over, or the session is destroyed.
  void Keep(std::vector<Array> arrays);
  OpResult UpdateView(nanobind::handle timeout);
  // The view was updated by another call.
  void OnUpdated();
  // An update has timed out or failed, and may still be adopted.
  bool update_is_open() const { return update_is_open_; }

 private:
  std::shared_ptr<Session> session_;
  bool update_is_open_ = false;
  std::vector<Array> kept_;
};

void DefineSession(nanobind::module_& module);

}  // namespace ringway::python
