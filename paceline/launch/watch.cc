#include "paceline/launch/watch.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "paceline/launch/stop_signals.h"

namespace paceline::launch {

namespace {
constexpr std::chrono::milliseconds kLook{100};
}  // namespace

absl::Status watch(LocalCluster& cluster, Display& display, const std::string& why,
                   const std::function<void()>& look) {
  int signals_seen = 0;
  bool killed = false;
  while (true) {
    for (const std::string& news : cluster.tend()) display.note(news);
    // Reports about processes that this one killed do not matter.
    if (cluster.outcome()) return killed ? absl::CancelledError("stopped at once") : *cluster.outcome();
    look();
    if (const auto status = cluster.status(display.width())) display.show(*status);
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
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace paceline::launch
