#include "paceline/records/exports/tensorboard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "paceline/base/overloaded.h"
#include "paceline/records/exports/metric_names.h"
#include "paceline/records/exports/record_file.h"
#include "paceline/records/stats/run_stats.h"

namespace paceline::exports {

namespace {

constexpr std::array<std::string_view, 4> kTrainingNames{"loss", "learning_rate", "samples_per_s",
                                                         "staleness"};

void add_scalar(wire::Event& event, const std::string& tag, double number) {
  wire::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->set_simple_value(static_cast<float>(number));
}

void add_histogram(wire::Event& event, const std::string& tag, IntegerHistogram& histogram) {
  if (histogram.empty()) return;
  wire::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  *value->mutable_histo() = histogram.taken();
}

}  // namespace

wire::Histogram IntegerHistogram::taken() {
  wire::Histogram histogram;
  histogram.set_min(static_cast<double>(counts_.begin()->first));
  histogram.set_max(static_cast<double>(counts_.rbegin()->first));
  double num = 0, sum = 0, squares = 0;
  std::int64_t below = counts_.begin()->first;
  // A bucket is one integer wide. The only empty buckets are those that stand for all integers between two
  // values.
  for (const auto& [value, count] : counts_) {
    const auto number = static_cast<double>(value);
    const auto times = static_cast<double>(count);
    if (value > below) {
      histogram.add_bucket_limit(number - 0.5);
      histogram.add_bucket(0);
    }
    histogram.add_bucket_limit(number + 0.5);
    histogram.add_bucket(times);
    below = value + 1;
    num += times;
    sum += times * number;
    squares += times * number * number;
  }
  histogram.set_num(num);
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  counts_.clear();
  return histogram;
}

TensorBoard::TensorBoard(const report::RunInfo& info, double began_s, const std::string& job_toml,
                         const HParams& hparams, Write write)
    : out_(std::move(write)),
      began_s_(began_s),
      step_of_histograms_(std::max<std::int64_t>(
          1, (info.total_samples > 0 ? info.total_samples : info.epoch_samples) / kHistograms)),
      step_of_points_((std::max<std::int64_t>(0, info.total_samples) + kPoints - 1) / kPoints) {
  wire::Event first = event_at(Time{}, 0);
  first.set_file_version("brain.Event:2");
  put(first);
  // Makes TensorBoard forget the events of an earlier file of this run.
  wire::Event start_anew = event_at(Time{}, 0);
  start_anew.mutable_session_log()->set_status(wire::SessionLog::START);
  put(start_anew);
  put_text(
      Time{}, 0, "job", "    " + [&] {
        std::string text = job_toml;  // four spaces before each line make it code
        for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 5))
          text.replace(at, 1, "\n    ");
        return text;
      }());
  wire::HParamsPluginData data;
  wire::SessionStartInfo& start = *data.mutable_session_start_info();
  start.set_start_time_secs(began_s);
  for (const auto& [name, value] : hparams) {
    google::protobuf::Value& one = (*start.mutable_hparams())[name];
    std::visit(Overloaded{[&](double number) { one.set_number_value(number); },
                          [&](bool yes) { one.set_bool_value(yes); },
                          [&](const std::string& text) { one.set_string_value(text); }},
               value);
  }
  put_hparams(Time{}, "_hparams_/session_start_info", data);
}

wire::Event TensorBoard::event_at(Time at, std::int64_t step) const {
  wire::Event event;
  event.set_wall_time(began_s_ + to_seconds(at));
  event.set_step(step);
  return event;
}

void TensorBoard::put(const wire::Event& event) {
  out_.text() += framed(event.SerializeAsString());
  out_.flush_if_large();
}

void TensorBoard::put_text(Time at, std::int64_t step, const std::string& tag, const std::string& text) {
  wire::Event event = event_at(at, step);
  wire::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  wire::Tensor* tensor = value->mutable_tensor();
  tensor->set_dtype(wire::Tensor::STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(text);
  put(event);
}

void TensorBoard::put_hparams(Time at, const std::string& tag, const wire::HParamsPluginData& data) {
  wire::Event event = event_at(at, 0);
  wire::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  value->mutable_metadata()->mutable_plugin_data()->set_content(data.SerializeAsString());
  value->mutable_tensor()->set_dtype(wire::Tensor::FLOAT);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
  put(event);
}

void TensorBoard::on_fact(const control::Fact& fact) {
  if (const auto* ready = std::get_if<control::ReplicaReady>(&fact.what))
    latest_[ready->replica] = {ready->loss, ready->metrics, ready->weight};
}

void TensorBoard::on_order(Time at, const control::Order& order) {
  if (const auto* record = std::get_if<control::CommitRecord>(&order)) commit(at, *record);
}

// The same average as RunStats has.
void TensorBoard::average(const control::CommitMember& member, std::int64_t window) {
  const auto found = latest_.find(member.replica);
  if (found == latest_.end()) return;
  const std::optional<double> weight = found->second.weight;
  loss_.add(found->second.loss, member.lease.size(), window, weight);
  for (const auto& [name, value] : found->second.metrics) {
    if (metrics_.size() < report::RunStats::kAveragedMetrics || metrics_.contains(name))
      metrics_[name].add(value, member.lease.size(), window, weight);
  }
}

void TensorBoard::commit(Time at, const control::CommitRecord& record) {
  samples_ = record.committed_after();
  group_size_.add(std::ssize(record.members));
  for (const control::CommitMember& member : record.members) {
    const std::int64_t staleness = record.version - member.base - 1;
    staleness_.add(staleness);
    bulk_.staleness += staleness;
    average(member, report::RunStats::kLossWindowBulks * record.nominal);
  }
  bulk_.samples += record.samples;
  bulk_.gradients += std::ssize(record.members);
  if (samples_ - histograms_at_ >= step_of_histograms_) put_histograms(at);
  if (bulk_.samples < std::max(record.nominal, step_of_points_) || at <= bulk_.since) return;
  if (++points_ % kPoints == 0) step_of_points_ = 2 * bulk_.samples;
  wire::Event event = event_at(at, samples_);
  if (const auto loss = loss_.value()) add_scalar(event, "training/loss", *loss);
  for (const auto& [name, average] : metrics_) {
    if (const auto mean = average.value())
      add_scalar(event, "training/" + own_name(name, kTrainingNames), *mean);
  }
  add_scalar(event, "training/learning_rate", record.learning_rate);
  add_scalar(event, "training/samples_per_s",
             static_cast<double>(bulk_.samples) / to_seconds(at - bulk_.since));
  add_scalar(
      event, "training/staleness",
      static_cast<double>(bulk_.staleness) / static_cast<double>(std::max<std::int64_t>(1, bulk_.gradients)));
  put(event);
  bulk_ = {.since = at};
}

void TensorBoard::put_histograms(Time at) {
  wire::Event event = event_at(at, samples_);
  add_histogram(event, "staleness", staleness_);
  add_histogram(event, "group_size", group_size_);
  histograms_at_ = samples_;
  put(event);
}

void TensorBoard::on_evaluated(const control::Evaluated& evaluated) {
  wire::Event event = event_at(evaluated.at, evaluated.samples);
  if (!std::isnan(evaluated.loss)) add_scalar(event, "evaluation/loss", evaluated.loss);
  if (!std::isnan(evaluated.accuracy)) add_scalar(event, "evaluation/accuracy", evaluated.accuracy);
  for (const auto& [name, value] : evaluated.metrics) add_scalar(event, "evaluation/" + name, value);
  if (event.has_summary()) put(event);
}

absl::Status TensorBoard::finish(const report::Summary& summary, const std::string& holds_back) {
  if (!staleness_.empty()) put_histograms(summary.at);
  put_text(summary.at, samples_, "what held it back", holds_back);
  wire::HParamsPluginData data;
  wire::SessionEndInfo& end = *data.mutable_session_end_info();
  end.set_status(summary.finished ? wire::SessionEndInfo::SUCCESS : wire::SessionEndInfo::UNKNOWN);
  end.set_end_time_secs(began_s_ + to_seconds(summary.at));
  put_hparams(summary.at, "_hparams_/session_end_info", data);
  return out_.flush();
}

}  // namespace paceline::exports
