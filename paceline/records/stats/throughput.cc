#include "paceline/records/stats/throughput.h"

#include <algorithm>

namespace paceline::report {

namespace {

struct Progress {
  double time_s;
  double samples;
};

std::vector<Progress> progress(const History& history) {
  std::vector<Progress> all{{to_seconds(history.start), static_cast<double>(history.samples_at_start)}};
  for (const TrainingPoint& point : history.training) {
    all.push_back({to_seconds(point.at), static_cast<double>(point.samples)});
  }
  return all;
}

// Samples committed at `time_s`, which lies within the curve.
double samples_at(const std::vector<Progress>& curve, double time_s) {
  const auto after =
      std::find_if(curve.begin() + 1, curve.end() - 1, [&](const Progress& p) { return p.time_s >= time_s; });
  const Progress& a = *(after - 1);
  if (after->time_s <= a.time_s) return after->samples;
  const double part = std::clamp((time_s - a.time_s) / (after->time_s - a.time_s), 0.0, 1.0);
  return a.samples + part * (after->samples - a.samples);
}

}  // namespace

std::vector<Rate> throughput(const History& history, std::size_t most) {
  const std::vector<Progress> curve = progress(history);
  const double start = curve.front().time_s;
  const double length = curve.back().time_s - start;
  if (length <= 0) return {};
  // A span with fewer than four commits would show the commits, not the rate.
  const std::size_t spans = std::clamp<std::size_t>(curve.size() / 4, 1, most);
  const double span = length / static_cast<double>(spans);
  std::vector<Rate> rates;
  for (std::size_t i = 0; i < spans; ++i) {
    const double from = start + span * static_cast<double>(i);
    const double middle = from + span / 2;
    rates.push_back({middle, (samples_at(curve, from + span) - samples_at(curve, from)) / span,
                     samples_at(curve, middle)});
  }
  return rates;
}

}  // namespace paceline::report
