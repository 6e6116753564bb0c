#include "paceline/processes/runs/lowered_memory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/measurements.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/formats/config/planning.h"
#include "paceline/processes/runs/run_info.h"

namespace paceline::runs {

namespace {

// The planner's view of memory in one attempt.
class Lowered final : public control::RunListener {
 public:
  Lowered(const config::JobConfig& job, const control::ReplannerOptions& options)
      : measurements_(options.problem), plan_(options.plan), lowered_(job.devices.size(), false) {}

  void on_fact(const control::Fact& fact) override {
    const auto* out = std::get_if<control::DeviceOutOfMemory>(&fact.what);
    if (out == nullptr || out->device < 0 || static_cast<std::size_t>(out->device) >= lowered_.size()) return;
    planner::BatchObservation seen;
    seen.out_of_memory = {{out->device, out->samples}};
    if (measurements_.lower_memory(seen, plan_)) lowered_[static_cast<std::size_t>(out->device)] = true;
  }
  void on_order(Time, const control::Order& order) override {
    const auto* adopted = std::get_if<control::PlanAdopted>(&order);
    if (adopted != nullptr) plan_ = adopted->plan;
  }
  void on_evaluated(const control::Evaluated&) override {}

  void add_to(std::map<std::string, double>& least_mb, const config::JobConfig& job) const {
    for (std::size_t i = 0; i < lowered_.size(); ++i) {
      if (!lowered_[i]) continue;
      const double mb = static_cast<double>(measurements_.problem().cluster.devices[i].memory_bytes) / 1e6;
      const auto [known, is_new] = least_mb.emplace(job.devices[i].name, mb);
      if (!is_new) known->second = std::min(known->second, mb);
    }
  }

 private:
  planner::Measurements measurements_;
  planner::Plan plan_;
  std::vector<bool> lowered_;  // indexed by device
};

}  // namespace

absl::StatusOr<std::vector<double>> lowered_memory(const config::JobConfig& job,
                                                   store::JournalReader& journal) {
  std::map<std::string, double> least_mb;
  PACELINE_ASSIGN_OR_RETURN(const auto attempts, journal.attempts());
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal.run());
  for (const store::Attempt& attempt : attempts) {
    PACELINE_ASSIGN_OR_RETURN(const bool any, journal.tells_of_short_memory(attempt.number));
    if (!any) continue;
    const auto text = about.find(job_key(attempt.number));
    if (text == about.end())
      return absl::DataLossError(fmt::format("the journal has no job of attempt {}", attempt.number));
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig then,
                              config::parse_job(config::with_current_keys(text->second), "job.toml"));
    const auto options = config::replanner_options(then, config::RunTime::kWall);
    if (!options) continue;
    Lowered lowered(then, *options);
    PACELINE_RETURN_IF_ERROR(journal.short_memory(lowered, attempt.number));
    lowered.add_to(least_mb, then);
  }
  std::vector<double> each;
  for (const config::DeviceConfig& device : job.devices) {
    const auto known = least_mb.find(device.name);
    each.push_back(known == least_mb.end() ? 0 : known->second);
  }
  return each;
}

}  // namespace paceline::runs
