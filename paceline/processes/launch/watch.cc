#include "paceline/processes/launch/watch.h"

#include <chrono>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/stop_signals.h"

namespace paceline::launch {

namespace {
constexpr std::chrono::milliseconds kLook{100};

// Does what the job wants after a warning. False if nobody could be asked yet: then it is done again.
bool answer(LocalCluster& cluster, Display& display, config::OnSignal on_signal) {
  switch (on_signal) {
    case config::OnSignal::kWrite:
      return cluster.write_checkpoint(name_of_warning());
    case config::OnSignal::kStop:
      if (cluster.ending() || cluster.stopped()) return true;
      display.note(fmt::format("{} came, and checkpoint.on_signal is \"stop\"", name_of_warning()));
      take_warning_as_stop();
      return true;
    case config::OnSignal::kIgnore:
      return true;
  }
  return true;
}

}  // namespace

absl::Status watch(LocalCluster& cluster, Display& display, const std::string& why,
                   config::OnSignal on_signal, const std::function<absl::Status()>& look) {
  int signals_seen = 0;
  bool killed = false;
  while (true) {
    for (const std::string& news : cluster.tend()) display.note(news);
    // Reports about processes that this one killed do not matter.
    if (cluster.outcome()) return killed ? absl::CancelledError("stopped at once") : *cluster.outcome();
    PACELINE_RETURN_IF_ERROR(look());
    if (const auto status = cluster.status(display.width())) display.show(*status);
    if (const int warnings = new_warnings(); warnings > 0 && answer(cluster, display, on_signal))
      answer_warnings(warnings);
    if (stop_signals() > signals_seen) {
      const bool first = signals_seen == 0;
      signals_seen = stop_signals();
      if (cluster.ending()) {
        cluster.stop(why, cause_of_stop());
      } else if (first) {
        cluster.stop(why, cause_of_stop());
        if (cluster.outcome()) {
          display.note("stopped before anything was trained");
        } else {
          display.note(fmt::format("stopping {}; once more stops at once",
                                   cluster.training() ? "with a checkpoint" : "before anything is trained"));
        }
      } else {
        cluster.kill();
        killed = true;
      }
    }
    cluster.wait_for_end(kLook);
  }
}

}  // namespace paceline::launch
