// A Controller in real time: stamps what happens with the job's time, has the orders carried out, rings its
// timer, and shows facts and orders to the Observer and the listeners. Of the event loop's thread.
//
// What always holds: the orders of a fact are carried out before the next fact is taken, and nothing is taken
// after the end. Where books come first, no commit is carried out that they do not have.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/event_loop.h"
#include "paceline/control/controller.h"
#include "paceline/control/witnesses.h"

namespace paceline::rpc {

class LiveController {
 public:
  // `carry_out`: called within take() for each order but WakeAt. `keep_books`, if there is one: makes what
  // the listeners were shown last, before a commit is carried out; where it fails, that is the end. The loop
  // and the listeners outlive this.
  LiveController(EventLoop& loop, const control::ControllerConfig& config,
                 std::unique_ptr<policy::SyncPolicy> policy, std::vector<control::RunListener*> listeners,
                 std::function<void(const control::Order&)> carry_out,
                 std::function<absl::Status()> keep_books = nullptr);

  // Before the first fact: the job's time goes on from `elapsed`. Errors: those of Controller::restore.
  absl::Status restore(const control::ControllerState& state, Duration elapsed);

  // Errors: those of Controller::handle.
  absl::Status take(decltype(control::Fact::what) what);
  // No fact is taken from now on, the timer's included.
  void end() { ended_ = true; }

  Time now() const;
  bool started() const { return started_.has_value(); }
  bool finished() const { return controller_.finished(); }
  Version version() const { return controller_.version(); }
  bool hears_of_completion() const { return controller_.hears_of_completion(); }
  control::ControllerState save() const { return controller_.save(); }
  // As Controller has it.
  std::vector<control::ControllerState> take_states() { return controller_.take_states(); }

 private:
  void show(const control::Fact& fact, const std::vector<control::Order>& orders);
  void watch(const std::optional<control::ControllerState>& start);
  void carry_out(const control::Order& order);

  const control::ControllerConfig config_;
  control::Controller controller_;
  const std::vector<control::RunListener*> listeners_;
  std::optional<control::Witnesses> witnesses_;
  const std::function<void(const control::Order&)> carry_out_;
  const std::function<absl::Status()> keep_books_;
  Duration elapsed_before_{0};
  std::optional<std::chrono::steady_clock::time_point> started_;
  Timer timer_;
  bool ended_ = false;
};

}  // namespace paceline::rpc
