#include "paceline/report/metrics.h"

#include "paceline/report/json_values.h"

namespace paceline::report {

std::string metrics_line(const Summary& summary) {
  return one_line({{"kind", "snapshot"},
                   {"time_s", json_seconds(summary.at)},
                   {"samples", summary.samples},
                   {"total_samples", summary.run.total_samples},
                   {"samples_per_s", json_number(summary.samples_per_s)},
                   {"iterations", summary.iterations},
                   {"commits", summary.commits},
                   {"wait_share", json_number(summary.wait_share)},
                   {"gap", summary.gap},
                   {"gap_max", summary.gap_max},
                   {"staleness_mean", json_number(summary.staleness_mean)},
                   {"staleness_max", summary.staleness_max},
                   {"commits_per_epoch", json_number(summary.commits_per_epoch())},
                   {"group_size_mean", json_number(summary.groups.size_mean)},
                   {"group_size_of_late", json_number(summary.groups.size_of_late)},
                   {"training_loss", json_number(summary.training_loss)},
                   {"replicas_live", summary.replicas_live()},
                   {"finished", summary.finished}});
}

std::string metrics_line(const control::Evaluated& evaluated) {
  return one_line({{"kind", "evaluation"},
                   {"time_s", json_seconds(evaluated.at)},
                   {"version", evaluated.version.value()},
                   {"samples", evaluated.samples},
                   {"loss", json_number(evaluated.loss)},
                   {"accuracy", json_number(evaluated.accuracy)}});
}

}  // namespace paceline::report
