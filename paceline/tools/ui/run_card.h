// An entry of the list of runs, from the run's job file and its metrics.jsonl. Each look reads only the new
// lines, and of a long file a part: the next looks go on with it. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/thinned.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/tools/ui/run_state.h"

namespace paceline::ui {

// The numbers of the lines of a metrics.jsonl, as they come. Pure. A line that makes no sense is counted and
// skipped.
class MetricsLines {
 public:
  // Adds bytes of the file, in order, cut anywhere. `every`: one snapshot of so many is read.
  void add(std::string_view bytes, std::int64_t every = 1);

  struct Numbers {
    double time_s = 0;
    std::int64_t samples = 0, total_samples = 0, commits = 0;
    std::optional<double> samples_per_s{}, training_loss{}, loss{}, accuracy{}, best_accuracy{}, best_loss{};
    bool finished = false;
    bool is_virtual = false;  // its seconds are not those that a person waits
  };
  const Numbers& numbers() const { return numbers_; }
  // The curve of the training loss, or if there is none, of the loss on the test set.
  std::vector<double> spark() const;
  std::int64_t damaged() const { return damaged_; }

 private:
  static constexpr std::size_t kLongestLine = 1 << 20;
  void line(std::string_view text);
  void evaluated(std::int64_t samples);
  void forget_bests(std::int64_t beyond_samples);
  void show_best();

  // The best of all evaluations up to this one. A run that goes back to a checkpoint forgets the later ones.
  struct Best {
    std::int64_t samples = 0;
    std::optional<double> accuracy{}, loss{};
  };

  std::string rest_;
  std::vector<Best> bests_;  // ascending by samples, each better than the one before
  Numbers numbers_;
  report::Thinned<double> training_{60}, tests_{60};
  std::int64_t damaged_ = 0;
  std::int64_t snapshots_ = 0;
};

// The time at which a run was made, in seconds since 1970; 0 if unknown.
double made_s(const store::RunPaths& run);

class RunCard {
 public:
  explicit RunCard(std::string id, const std::filesystem::path& folder) : id_(std::move(id)), run_{folder} {}

  // The most bytes of metrics.jsonl that a look reads, a day of it or so. A page and a scraper wait for a look.
  static constexpr std::int64_t kMostOfLook = 32 << 20;

  void look(std::int64_t most = kMostOfLook);
  // {id, title, policy, devices, world, state, why, made_s, time_s, samples, total_samples, samples_per_s, left_s,
  //  training_loss, loss, accuracy, best_accuracy, best_loss, spark, trouble}
  report::Json json() const;
  const StateOfRun& state() const { return state_; }
  double made_s() const { return made_s_; }
  const store::RunPaths& paths() const { return run_; }

 private:
  void read_job();
  void read_metrics(std::int64_t most);

  const std::string id_;
  const store::RunPaths run_;
  std::string title_, policy_, trouble_;
  std::size_t devices_ = 0;
  double made_s_ = 0;
  std::int64_t read_ = 0;  // bytes of metrics.jsonl
  MetricsLines lines_;
  std::optional<MetricsLines> newest_;  // the end of the file, while lines_ has not come to it
  StateOfRun state_;
  bool settled_ = false;  // whether it had ended at the latest look
  std::filesystem::file_time_type settled_at_{};
};

}  // namespace paceline::ui
