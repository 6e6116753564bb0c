#include "paceline/tools/ui/runs_index.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "paceline/records/tables/terminal_text.h"

namespace paceline::ui {

namespace fs = std::filesystem;

void RunsIndex::look_in(const fs::path& folder, const std::string& name, int depth) {
  std::error_code error;
  if (fs::is_regular_file(folder / "job.toml", error)) {
    found_[report::printable(name)] = folder;
    return;
  }
  if (depth == 0) return;
  for (auto one = fs::directory_iterator(folder, error); !error && one != fs::directory_iterator();
       one.increment(error)) {
    std::error_code ignored;
    if (!one->is_directory(ignored) || one->is_symlink(ignored)) continue;
    const std::string own = one->path().filename().string();
    look_in(one->path(), name.empty() ? own : name + "/" + own, depth - 1);
  }
}

void RunsIndex::leave_out_the_oldest() {
  left_out_ = found_.size() - std::min(found_.size(), most_);
  if (left_out_ == 0) return;
  std::vector<std::pair<double, std::string>> made;
  for (const auto& [id, folder] : found_) made.emplace_back(made_s(store::RunPaths{folder}), id);
  const auto first_kept = made.begin() + static_cast<std::ptrdiff_t>(left_out_);
  std::nth_element(made.begin(), first_kept - 1, made.end());
  for (auto one = made.begin(); one != first_kept; ++one) found_.erase(one->second);
}

void RunsIndex::look() {
  found_.clear();
  for (const fs::path& root : roots_) {
    std::error_code error;
    // In a single folder of runs, the runs' own names are enough.
    const bool is_run = fs::is_regular_file(root / "job.toml", error);
    const std::string own =
        root.has_filename() ? root.filename().string() : root.parent_path().filename().string();
    look_in(root, is_run || roots_.size() > 1 ? own : "", kDepth);
  }
  leave_out_the_oldest();
  std::erase_if(runs_, [this](const auto& one) {
    const auto found = found_.find(one.first);
    return found == found_.end() || found->second != one.second->paths().root;
  });
  for (const auto& [id, folder] : found_) {
    std::unique_ptr<RunCard>& card = runs_[id];
    if (!card) card = std::make_unique<RunCard>(id, folder);
    card->look();
  }
}

report::Json RunsIndex::json() const {
  std::vector<const RunCard*> cards;
  for (const auto& [id, card] : runs_) cards.push_back(card.get());
  std::stable_sort(cards.begin(), cards.end(),
                   [](const auto* a, const auto* b) { return a->made_s() > b->made_s(); });
  report::Json list = report::Json::array();
  for (const RunCard* card : cards) list.push_back(card->json());
  return list;
}

const RunCard* RunsIndex::find(const std::string& id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second.get();
}

std::string RunsIndex::newest() const {
  std::string newest;
  std::pair<bool, double> best{false, -1};
  for (const auto& [id, card] : runs_) {
    const std::pair own{card->state().led(), card->made_s()};
    if (newest.empty() || own > best) std::tie(newest, best) = std::tuple(id, own);
  }
  return newest;
}

}  // namespace paceline::ui
