#include "paceline/tools/ui/run_card.h"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/store/files.h"

namespace paceline::ui {

namespace {

using report::Json;

constexpr std::int64_t kPiece = 1 << 20;  // bytes read at a time
// A snapshot is a line of some hundred bytes a second. One of this many is enough for the curve of a long run.
constexpr std::int64_t kOneSnapshotOf = 32;

std::optional<double> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::int64_t whole(const Json& object, const char* key) {
  const double value = number(object, key).value_or(0);
  return value > 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

}  // namespace

void MetricsLines::add(std::string_view bytes, std::int64_t every) {
  rest_ += bytes;
  std::size_t start = 0;
  for (std::size_t end = 0; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1) {
    const std::string_view one = std::string_view(rest_).substr(start, end - start);
    const bool skipped =
        every > 1 && one.find(R"("kind":"snapshot")") != one.npos && ++snapshots_ % every != 0;
    if (!skipped) line(one);
  }
  rest_.erase(0, start);
  if (rest_.size() <= kLongestLine) return;
  rest_.clear();
  ++damaged_;
}

void MetricsLines::line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    ++damaged_;
    return;
  }
  const auto kind = json.find("kind");
  const std::string name = kind != json.end() && kind->is_string() ? kind->get<std::string>() : "";
  if (name == "snapshot") {
    const auto world = json.find("world");
    numbers_.is_virtual = world != json.end() && *world == report::name_of(report::World::kVirtual);
    numbers_.time_s = number(json, "time_s").value_or(0);
    numbers_.samples = whole(json, "samples");
    forget_bests(numbers_.samples);
    numbers_.total_samples = whole(json, "total_samples");
    numbers_.commits = whole(json, "commits");
    numbers_.samples_per_s = number(json, "samples_per_s");
    numbers_.training_loss = number(json, "training_loss");
    const auto finished = json.find("finished");
    numbers_.finished = finished != json.end() && finished->is_boolean() && finished->get<bool>();
    if (numbers_.training_loss) training_.add(*numbers_.training_loss);
  } else if (name == "evaluation") {
    numbers_.loss = number(json, "loss");
    numbers_.accuracy = number(json, "accuracy");
    evaluated(whole(json, "samples"));
    if (numbers_.loss) tests_.add(*numbers_.loss);
  }
}

void MetricsLines::evaluated(std::int64_t samples) {
  forget_bests(samples);
  Best best = bests_.empty() ? Best{} : bests_.back();
  best.samples = samples;
  if (numbers_.accuracy) best.accuracy = std::max(best.accuracy.value_or(0), *numbers_.accuracy);
  if (numbers_.loss) best.loss = std::min(best.loss.value_or(*numbers_.loss), *numbers_.loss);
  if (best.accuracy != numbers_.best_accuracy || best.loss != numbers_.best_loss) bests_.push_back(best);
  show_best();
}

void MetricsLines::forget_bests(std::int64_t beyond_samples) {
  while (!bests_.empty() && bests_.back().samples > beyond_samples) bests_.pop_back();
  show_best();
}

void MetricsLines::show_best() {
  const Best best = bests_.empty() ? Best{} : bests_.back();
  std::tie(numbers_.best_accuracy, numbers_.best_loss) = std::tie(best.accuracy, best.loss);
}

std::vector<double> MetricsLines::spark() const {
  std::vector<double> points = training_.points();
  return points.size() > 1 ? points : tests_.points();
}

double made_s(const store::RunPaths& run) {
  struct stat status {};
  // This file is the first that a run has, and it is never written again.
  const bool known = ::stat(run.asked().c_str(), &status) == 0 || ::stat(run.job().c_str(), &status) == 0;
  return known ? static_cast<double>(status.st_mtime) : 0;
}

void RunCard::read_job() {
  trouble_.clear();
  const auto text = runs::read_recorded_job(run_);
  const auto job = text.ok() ? config::parse_job(*text, run_.job()) : text.status();
  if (!job.ok()) {
    trouble_ = std::string(job.status().message());
    return;
  }
  title_ = job->name;
  policy_ = policy::to_string(job->policy);
  devices_ = job->devices.size();
  made_s_ = ui::made_s(run_);
}

void RunCard::read_metrics(std::int64_t most) {
  newest_.reset();
  std::int64_t size = 0;
  const auto file =
      store::open_to_read(run_.metrics(), size);  // another person's folder may have a pipe there
  if (!file.ok()) size = 0;
  if (size < read_) {  // a torn end was cut off
    read_ = 0;
    lines_ = MetricsLines();
  }
  std::string piece;
  const auto read_piece = [&](std::int64_t from, std::int64_t until) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, until - from)));
    const auto read = store::read_at(*file, run_.metrics(), from, piece.data(), piece.size());
    return read.ok() && *read == piece.size();
  };
  const std::int64_t until = std::min(size, read_ + most);
  const bool is_far = until < size;
  while (read_ < until && read_piece(read_, until)) {
    read_ += std::ssize(piece);
    lines_.add(piece, is_far ? kOneSnapshotOf : 1);
  }
  if (!is_far || !read_piece(size - std::min({size, most, kPiece}), size)) return;
  newest_.emplace();
  newest_->add(std::string_view(piece).substr(std::min(piece.size(), piece.find('\n') + 1)));
}

void RunCard::look(std::int64_t most) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(run_.metrics(), error);
  if (!error && settled_ && written == settled_at_) {
    // A run that has ended changes only if a coordinator continues it, which leaves a mark.
    if (!std::filesystem::exists(run_.mark(), error)) return;
  }
  if (title_.empty()) read_job();
  read_metrics(most);
  state_ = state_of(run_);
  settled_ = !state_.led() && !newest_;
  settled_at_ = written;
}

Json RunCard::json() const {
  using report::json_number;
  MetricsLines::Numbers now = (newest_ ? *newest_ : lines_).numbers();
  if (newest_) {  // the best so far, until all is read
    now.best_accuracy = lines_.numbers().best_accuracy;
    now.best_loss = lines_.numbers().best_loss;
  }
  std::optional<double> left;
  if (state_.led() && !now.is_virtual)
    left = report::seconds_left(now.samples, now.total_samples, now.samples_per_s.value_or(0));
  Json spark = Json::array();
  for (const double value : lines_.spark()) spark.push_back(report::json_digits4(value));
  std::string trouble = trouble_;
  if (lines_.damaged() > 0) trouble = "metrics.jsonl has lines that make no sense; they are left out";
  return {{"id", id_},
          {"title", title_.empty() ? run_.root.filename().string() : title_},
          {"policy", policy_},
          {"devices", devices_},
          {"world", name_of(now.is_virtual ? report::World::kVirtual : report::World::kLive)},
          {"state", to_string(state_.state)},
          {"why", state_.why},
          {"made_s", made_s_},
          {"time_s", now.time_s},
          {"samples", now.samples},
          {"total_samples", now.total_samples},
          {"samples_per_s", json_number(now.samples_per_s)},
          {"left_s", json_number(left)},
          {"training_loss", json_number(now.training_loss)},
          {"loss", json_number(now.loss)},
          {"accuracy", json_number(now.accuracy)},
          {"best_accuracy", json_number(now.best_accuracy)},
          {"best_loss", json_number(now.best_loss)},
          {"spark", std::move(spark)},
          {"trouble", trouble}};
}

}  // namespace paceline::ui
