// The runs that some folders hold: run folders themselves, or folders of these, such as a comparison's. One
// thread.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/report/json_values.h"
#include "paceline/ui/run_card.h"

namespace paceline::ui {

class RunsIndex {
 public:
  static constexpr std::size_t kMostRuns = 2000;
  static constexpr int kDepth = 3;  // folders in folders

  explicit RunsIndex(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  // Looks for runs that are new or gone, and at each of them.
  void look();
  // The cards, newest first.
  report::Json json() const;
  // Of a run by its name in the list; null where there is none.
  const RunCard* find(const std::string& id) const;
  // The name of the newest run that is led, or of the newest; empty where there is none.
  std::string newest() const;

 private:
  void look_in(const std::filesystem::path& folder, const std::string& name, int depth);

  const std::vector<std::filesystem::path> roots_;
  std::map<std::string, std::unique_ptr<RunCard>> runs_;
  std::map<std::string, std::filesystem::path> found_;
};

}  // namespace paceline::ui
