// A run as an event file of TensorBoard, streamed while a journal is replayed. The step is the number of
// committed samples, so that runs under different policies lie on the same axis; the wall time is the time at
// which the run began, plus the job's time since.
//
//   scalars      training/loss (of the latest bulk updates), training/<the user's own>,
//                training/learning_rate, training/samples_per_s, training/staleness (mean): about one point
//                for each bulk update, but at most kPoints of a run whose length is known; in other runs the
//                distance of the points doubles after each kPoints;
//                evaluation/loss, evaluation/accuracy, evaluation/<the user's own>
//   histograms   staleness, group_size: of the commits since the point before; at most 50 points
//   text         job, and what held the run back
//   hparams      the job's settings of training, for TensorBoard's table of runs
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/exports/event_file.pb.h"
#include "paceline/records/exports/text_out.h"
#include "paceline/records/stats/loss_average.h"
#include "paceline/records/stats/summary.h"

namespace paceline::exports {

using HParams = std::map<std::string, std::variant<double, bool, std::string>>;

// Integers, each with how often it came, from which taken() makes a histogram of the event file.
class IntegerHistogram {
 public:
  void add(std::int64_t value) { ++counts_[value]; }
  bool empty() const { return counts_.empty(); }
  wire::Histogram taken();

 private:
  std::map<std::int64_t, std::int64_t> counts_;
};

class TensorBoard final : public control::RunListener {
 public:
  static constexpr std::int64_t kHistograms = 50;
  static constexpr std::int64_t kPoints = 20'000;

  // `began_s`: when the job's time began, in seconds since 1970. `job_toml`: the job file, shown as text.
  TensorBoard(const report::RunInfo& info, double began_s, const std::string& job_toml,
              const HParams& hparams, Write write);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;

  // Writes everything known so far, for readers of the file while it grows. Returns the first error of
  // writing.
  absl::Status flush() { return out_.flush(); }
  // The same, and how the run ended.
  absl::Status finish(const report::Summary& summary, const std::string& holds_back);

 private:
  wire::Event event_at(Time at, std::int64_t step) const;
  void put(const wire::Event& event);
  void put_text(Time at, std::int64_t step, const std::string& tag, const std::string& text);
  void put_hparams(Time at, const std::string& tag, const wire::HParamsPluginData& data);
  void put_histograms(Time at);
  void commit(Time at, const control::CommitRecord& record);
  void average(const control::CommitMember& member, std::int64_t window);

  TextOut out_;
  const double began_s_;
  const std::int64_t step_of_histograms_;
  std::int64_t step_of_points_;  // samples
  std::int64_t points_ = 0;
  struct Iteration {
    double loss = 0;
    Metrics metrics;
    std::optional<double> weight;
  };
  std::map<ReplicaId, Iteration> latest_;
  report::LossAverage loss_;
  std::map<std::string, report::LossAverage> metrics_;
  IntegerHistogram staleness_, group_size_;
  std::int64_t samples_ = 0;
  std::int64_t histograms_at_ = 0;  // samples
  struct {
    Time since;
    std::int64_t samples = 0, gradients = 0, staleness = 0;
  } bulk_;  // since the latest point
};

}  // namespace paceline::exports
