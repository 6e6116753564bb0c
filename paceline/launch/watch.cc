#include "paceline/launch/watch.h"

#include <chrono>

#include <fmt/format.h>

#include "paceline/launch/stop_signals.h"

namespace paceline::launch {

namespace {
constexpr std::chrono::milliseconds kLook{100};
}  // namespace

absl::Status watch(LocalCluster& cluster, Display& display, const std::string& why,
                   config::OnSignal on_signal, const std::function<void()>& look) {
  int signals_seen = 0, warnings_seen = 0;
  bool killed = false;
  while (true) {
    for (const std::string& news : cluster.tend()) display.note(news);
    // Reports about processes that this one killed do not matter.
    if (cluster.outcome()) return killed ? absl::CancelledError("stopped at once") : *cluster.outcome();
    look();
    if (const auto status = cluster.status(display.width())) display.show(*status);
    if (warning_signals() > warnings_seen && on_signal == config::OnSignal::kIgnore)
      warnings_seen = warning_signals();
    if (warning_signals() > warnings_seen && on_signal == config::OnSignal::kWrite &&
        cluster.write_checkpoint(name_of_warning()))
      warnings_seen = warning_signals();
    if (warning_signals() > warnings_seen && on_signal == config::OnSignal::kStop && !cluster.ending() &&
        !cluster.stopped()) {
      warnings_seen = warning_signals();
      cluster.stop(fmt::format("{} came", name_of_warning()), StopCause::kShutDown);
      display.note(fmt::format("{}: stopping {}", name_of_warning(),
                               cluster.training() ? "with a checkpoint" : "before anything is trained"));
    }
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
