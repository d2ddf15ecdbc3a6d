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
  // Joins. `on_waiting` is called within, with the Error that is waited for or None; `options` are join's. `state`: a
  // shared state that is taken, too, or None.
  PySession(nanobind::handle on_waiting, nanobind::handle state, const nanobind::kwargs& options);
  ~PySession();
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_.get(); }

  // Keeps memory of a device that a copy may still read or write: until an UpdateView that began later has succeeded,
  // by which all copies are over, or the library has let go of the session, as it does after the last copy and the last
  // array of its memory.
  void Keep(std::vector<Array> arrays);
  OpResult UpdateView(nanobind::handle timeout);
  // An update has not ended well, and may still be adopted.
  bool update_is_open() const { return update_is_open_; }

  // Around a call that updates the view.
  class Update {
   public:
    explicit Update(PySession& session);
    ~Update();
    Update(const Update&) = delete;
    Update& operator=(const Update&) = delete;
    // It has succeeded.
    void Succeeded();
    // It is over, though not by success: this peer was lost, and is another now.
    void Ended() { session_.update_is_open_ = false; }

   private:
    PySession& session_;
    std::vector<Array> kept_;  // before it began
  };

 private:
  using Kept = std::vector<Array>;

  std::shared_ptr<Kept> kept_;  // the session's own options have it, too
  std::shared_ptr<Session> session_;
  bool update_is_open_ = false;
};

void DefineSession(nanobind::module_& module);

}  // namespace ringway::python
