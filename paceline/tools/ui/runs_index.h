// The runs in some folders: run folders themselves, or folders of these, such as a comparison's. One thread.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/records/pages/json_values.h"
#include "paceline/tools/ui/run_card.h"

namespace paceline::ui {

class RunsIndex {
 public:
  static constexpr std::size_t kMostRuns = 2000;
  static constexpr int kDepth = 3;  // how deep run folders may be nested

  explicit RunsIndex(std::vector<std::filesystem::path> roots, std::size_t most = kMostRuns)
      : roots_(std::move(roots)), most_(most) {}

  // Looks for runs that are new or gone, and updates each card.
  void look();
  // The cards, newest first.
  report::Json json() const;
  // The number of further runs: only the newest are shown.
  std::size_t left_out() const { return left_out_; }
  // The run of that name in the list; null if there is none.
  const RunCard* find(const std::string& id) const;
  // The name of the newest run that a process leads, or else of the newest; empty if there is none.
  std::string newest() const;

 private:
  void look_in(const std::filesystem::path& folder, const std::string& name, int depth);
  void leave_out_the_oldest();

  const std::vector<std::filesystem::path> roots_;
  const std::size_t most_;
  std::size_t left_out_ = 0;
  std::map<std::string, std::unique_ptr<RunCard>> runs_;
  std::map<std::string, std::filesystem::path> found_;
};

}  // namespace paceline::ui
