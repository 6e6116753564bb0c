#include "paceline/records/tables/progress_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "paceline/base/counted.h"
#include "paceline/records/tables/missed_paces.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {

namespace {

constexpr std::size_t kLeastBar = 6;
constexpr std::size_t kWidestBar = 30;
const char* const kBetween = "  ";

struct Piece {
  int rank;  // the lower, the longer the piece stays when the line gets narrow
  std::string text;
};

double done(const Summary& summary) {
  if (summary.run.total_samples <= 0) return 0;
  return std::clamp(static_cast<double>(summary.samples) / static_cast<double>(summary.run.total_samples),
                    0.0, 1.0);
}

// The separator before a device.
std::string between(const planner::PlannedReplica& replica, std::size_t device) {
  if (device == 0) return " ";
  return planner::shares_with_the_one_before(replica, device) ? "+" : "→";
}

// "w0→w1:16 w2:8": the devices of each replica, and its samples. Devices that share a stage: "w0+w1→w2".
std::string stages_text(const PlanSummary& plan, const std::vector<std::string>& names) {
  std::string text = "plan";
  for (const planner::PlannedReplica& replica : plan.plan.replicas) {
    for (std::size_t s = 0; s < replica.devices.size(); ++s)
      text += between(replica, s) + printable(names[static_cast<std::size_t>(replica.devices[s])]);
    text += fmt::format(":{}", replica.samples);
  }
  return text;
}

std::vector<Piece> pieces(const Summary& summary) {
  // Rounded down: 100 % means that all is done.
  std::vector<Piece> all{{0, summary.run.total_samples > 0
                                 ? fmt::format("{:3.0f} %", std::floor(100 * done(summary)))
                                 : short_number(static_cast<double>(summary.samples)) + " samples"}};
  const auto add = [&](int rank, std::string text) { all.push_back({rank, std::move(text)}); };
  add(2, fmt::format("{} samples/s", short_number(summary.samples_per_s)));
  if (!missed_paces(summary).empty()) add(2, "paces not held: busy; --virtual holds them");
  if (summary.training_loss) add(3, fmt::format("loss {:.4g}", *summary.training_loss));
  if (summary.last_evaluation) {
    const control::Evaluated& last = *summary.last_evaluation;
    if (!std::isnan(last.accuracy)) {
      add(4, fmt::format("accuracy {} %", percent(last.accuracy, 1)));
    } else if (!std::isnan(last.loss)) {
      add(4, fmt::format("test loss {:.4g}", last.loss));
    } else if (!last.metrics.empty()) {
      add(4, fmt::format("{} {:.4g}", printable(last.metrics.begin()->first), last.metrics.begin()->second));
    }
  }
  if (summary.wait_share) add(5, fmt::format("wait {} %", percent(*summary.wait_share, 0)));
  // If each gradient commits alone, or all commit together, the groups are not worth a piece.
  if (summary.groups.between) {
    add(6, fmt::format("groups {:.1f}", summary.groups.size_of_late.value_or(0)));
    add(8, fmt::format("now {}: {}", summary.groups.latest_size, printable(summary.groups.latest_cause)));
  }
  if (summary.plan && summary.plan->batches.count > 0) {
    add(3, fmt::format("batch {} ms, predicted {}", short_number(summary.plan->late_measured_ms),
                       short_number(summary.plan->late_predicted_ms)));
  }
  if (summary.plan) {
    add(6, stages_text(*summary.plan, summary.run.devices));
    add(6, counted(summary.plan->re_plans, "re-plan"));
  }
  add(7, fmt::format("gap {}", summary.gap));
  add(9, fmt::format("{}/{} live", summary.replicas_live(), summary.replicas_in_all()));
  if (summary.run.world != World::kLive) {
    // A run in virtual time does not know how long it will take on the wall clock.
    add(1, fmt::format("{} {}", short_number(summary.elapsed_s), seconds_of(summary.run.world)));
  } else if (summary.finished) {
    add(1, fmt::format("in {}", short_duration(summary.elapsed_s)));
  } else if (const auto left = summary.time_left_s()) {
    add(1, fmt::format("{} left", short_duration(*left)));
  }
  return all;
}

// Drops the least important pieces until the rest takes at most `room` columns. Returns the columns of the
// rest.
std::size_t fit(std::vector<Piece>& pieces, std::size_t room) {
  while (true) {
    std::size_t taken = 0;
    for (const Piece& piece : pieces) taken += columns(piece.text) + 2;
    if (pieces.empty() || taken <= room + 2) return taken;
    pieces.erase(std::max_element(pieces.begin(), pieces.end(),
                                  [](const Piece& a, const Piece& b) { return a.rank < b.rank; }));
  }
}

// A bar of `width` columns, filled to an eighth of a column.
std::string progress_bar(double share, std::size_t width) {
  static constexpr std::array kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(share * static_cast<double>(8 * width));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text + std::string(width - columns(text), ' ');
}

}  // namespace

std::string progress_line(const Summary& summary, int width) {
  const bool terminal = width != kNoTerminal;
  const auto room = static_cast<std::size_t>(std::max(width, 0));
  std::vector<Piece> kept = pieces(summary);
  const std::size_t for_bar = room >= 20 ? kLeastBar + 2 : 0;
  const std::size_t taken = terminal ? fit(kept, room - for_bar) : 0;
  std::string line;
  if (for_bar > 0) line = progress_bar(done(summary), std::min(kWidestBar, room - taken));
  for (const Piece& piece : kept) line += (line.empty() ? "" : kBetween) + piece.text;
  return line;
}

}  // namespace paceline::report
