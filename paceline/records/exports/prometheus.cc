#include "paceline/records/exports/prometheus.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/records/tables/terminal_text.h"

namespace paceline::exports {

namespace {

constexpr const char* kOtherDevices = "others";

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : report::printable(value)) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class Page {
 public:
  explicit Page(Highest* highest) : highest_(highest) {}

  void metric(const std::string& name, const char* type, const char* help) {
    rises_ = std::string_view(type) != "gauge";
    text_ += fmt::format("# HELP paceline_{0} {2}\n# TYPE paceline_{0} {1}\n", name, type, help);
  }
  void value(const std::string& name, const Labels& labels, double value) {
    std::string inside;
    for (const auto& [label, text] : labels)
      inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, escaped(text));
    const std::string series = name + (inside.empty() ? "" : "{" + inside + "}");
    if (rises_ && highest_ != nullptr) value = highest_->of(series, value);
    text_ += fmt::format("paceline_{} {}\n", series, number_text(value));
  }
  void gauge(const std::string& name, const char* help, std::optional<double> number) {
    if (!number) return;
    metric(name, "gauge", help);
    value(name, {}, *number);
  }
  void counter(const std::string& name, const char* help, double number) {
    metric(name, "counter", help);
    value(name, {}, number);
  }
  // `buckets`: the largest value of each bucket, and how many values it has.
  void histogram(const std::string& name, const char* help,
                 const std::vector<std::pair<std::int64_t, std::int64_t>>& buckets, double sum) {
    metric(name, "histogram", help);
    std::int64_t below = 0;
    for (const auto& [limit, count] : buckets)
      value(name + "_bucket", {{"le", fmt::format("{}", limit)}}, static_cast<double>(below += count));
    value(name + "_bucket", {{"le", "+Inf"}}, static_cast<double>(below));
    value(name + "_sum", {}, sum);
    value(name + "_count", {}, static_cast<double>(below));
  }
  std::string text() && { return std::move(text_); }

 private:
  Highest* const highest_;
  bool rises_ = false;  // the metric at hand is no gauge
  std::string text_;
};

// The buckets end at 2^k − 1. These limits lie between the bins of the histogram, however wide the bins are.
void add_staleness(Page& page, const report::StalenessHistogram& staleness) {
  std::vector<std::pair<std::int64_t, std::int64_t>> buckets;
  std::int64_t limit = 0, end = 0;
  for (const std::int64_t count : staleness.counts()) {
    end += staleness.bin_width();
    while (limit < end - 1) limit = 2 * limit + 1;
    if (buckets.empty() || buckets.back().first != limit) buckets.emplace_back(limit, 0);
    buckets.back().second += count;
  }
  page.histogram("staleness_commits", "Commits between the weights of a gradient and its own commit.",
                 buckets, std::round(staleness.mean() * static_cast<double>(staleness.total())));
}

void add_groups(Page& page, const report::GroupHistogram& sizes, std::int64_t gradients) {
  std::vector<std::pair<std::int64_t, std::int64_t>> buckets;
  for (const report::GroupHistogram::Bin& bin : sizes.bins()) {
    buckets.emplace_back(bin.to, 0);
    for (const std::int64_t commits : bin.commits) buckets.back().second += commits;
  }
  page.histogram("group_gradients", "Gradients that became one commit.", buckets,
                 static_cast<double>(gradients));
}

void add_devices(Page& page, const report::TimeLedger& ledger) {
  page.metric("device_seconds_total", "counter", "Where the time of a device went.");
  std::array<double, report::kTimeCauses> others{};
  const auto put = [&](const std::string& device, report::TimeCause cause, double seconds) {
    std::string name(report::to_string(cause));
    std::replace(name.begin(), name.end(), ' ', '_');
    page.value("device_seconds_total", {{"device", device}, {"cause", name}}, seconds);
  };
  for (std::size_t i = 0; i < ledger.devices.size(); ++i) {
    for (std::size_t k = 0; k < report::kTimeCauses; ++k) {
      const double seconds = to_seconds(ledger.devices[i].spent[k]);
      if (i < kLabelledDevices) put(ledger.devices[i].device, static_cast<report::TimeCause>(k), seconds);
      if (i >= kLabelledDevices) others[k] += seconds;
    }
  }
  for (std::size_t k = 0; ledger.devices.size() > kLabelledDevices && k < report::kTimeCauses; ++k)
    put(kOtherDevices, static_cast<report::TimeCause>(k), others[k]);
}

void add_waited_for(Page& page, const report::TimeLedger& ledger) {
  page.metric("waited_for_seconds_total", "counter", "Time that all other devices waited for this one.");
  std::map<std::string, double> seconds;
  for (const report::Wait& wait : ledger.waits) seconds[wait.on] += to_seconds(wait.time);
  double others = 0;
  const std::size_t named = std::min(kLabelledDevices, ledger.replicas.size());
  for (std::size_t i = 0; i < ledger.replicas.size(); ++i) {
    const std::string& name = ledger.replicas[i].replica;
    if (i < named) page.value("waited_for_seconds_total", {{"device", name}}, seconds[name]);
    if (i >= named) others += seconds[name];
  }
  if (ledger.replicas.size() > named)
    page.value("waited_for_seconds_total", {{"device", kOtherDevices}}, others);
}

void add_live(Page& page, const LiveNumbers& more) {
  page.gauge("learning_rate", "The rate of the newest commit.", more.learning_rate);
  if (!more.updates.empty())
    page.metric("update_seconds", "summary", "How long a server took to make a version.");
  for (std::size_t i = 0; i < std::min(kLabelledDevices, more.updates.size()); ++i) {
    const LiveNumbers::Updates& one = more.updates[i];
    const Labels server{{"server", fmt::format("{}", one.server)}};
    page.value("update_seconds_sum", server, one.seconds);
    page.value("update_seconds_count", server, static_cast<double>(one.count));
  }
  if (!more.speeds.empty())
    page.metric("device_speed_ratio", "gauge", "How fast a device computes now, against its own past.");
  for (std::size_t i = 0; i < std::min(kLabelledDevices, more.speeds.size()); ++i)
    page.value("device_speed_ratio", {{"device", more.speeds[i].first}}, more.speeds[i].second);
  if (more.left.empty()) return;
  page.metric("left_replicas_total", "counter", "Replicas that left, by the reason.");
  for (const auto& [reason, count] : more.left)
    page.value("left_replicas_total", {{"reason", reason}}, static_cast<double>(count));
}

void add_processes(Page& page, const LiveNumbers& more) {
  if (!more.links.empty())
    page.metric("link_sent_bytes_total", "counter", "Bytes that a process sent to another host.");
  std::map<std::string, double> others;  // bytes of the links without a label of their own, by kind
  for (std::size_t i = 0; i < more.links.size(); ++i) {
    const LiveNumbers::Link& one = more.links[i];
    const auto bytes = static_cast<double>(one.bytes);
    if (i >= kLabelledDevices)
      others[one.kind] += bytes;
    else
      page.value("link_sent_bytes_total", {{"from", one.from}, {"to", one.to}, {"kind", one.kind}}, bytes);
  }
  for (const auto& [kind, bytes] : others) {
    page.value("link_sent_bytes_total", {{"from", kOtherDevices}, {"to", kOtherDevices}, {"kind", kind}},
               bytes);
  }
  if (!more.memory.empty())
    page.metric("process_resident_memory_bytes", "gauge", "Memory of a process, including what it shares.");
  double rest = 0;
  for (std::size_t i = 0; i < more.memory.size(); ++i) {
    const auto bytes = static_cast<double>(more.memory[i].second);
    if (i < kLabelledDevices)
      page.value("process_resident_memory_bytes", {{"process", more.memory[i].first}}, bytes);
    if (i >= kLabelledDevices) rest += bytes;
  }
  if (rest > 0) page.value("process_resident_memory_bytes", {{"process", kOtherDevices}}, rest);
}

// Empty if the newest evaluation does not have this number.
std::optional<double> of_evaluation(const report::Summary& summary, double control::Evaluated::*number) {
  return summary.last_evaluation ? std::optional((*summary.last_evaluation).*number) : std::nullopt;
}

}  // namespace

std::string prometheus_text(const report::Summary& summary, const report::History& history,
                            const report::TimeLedger& settled, std::optional<double> committed_s,
                            const LiveNumbers& more, Highest* highest) {
  Page page(highest);
  page.metric("run_info", "gauge", "What is trained, and under which policy.");
  page.value(
      "run_info",
      {{"job", summary.run.title}, {"policy", summary.run.policy}, {"world", name_of(summary.run.world)}}, 1);
  page.gauge("run_finished", "1 once the run has ended.", summary.finished ? 1 : 0);
  page.gauge("run_seconds", "The job's time since its first release.", summary.elapsed_s);
  if (summary.run.total_samples > 0)
    page.gauge("planned_samples", "Samples of all epochs.", static_cast<double>(summary.run.total_samples));
  page.counter("committed_samples_total", "Samples that are committed.",
               static_cast<double>(summary.samples));
  page.counter("iterations_total", "Iterations that replicas have finished.",
               static_cast<double>(summary.iterations));
  page.counter("commits_total", "Updates of the global weights.", static_cast<double>(summary.commits));
  page.gauge("live_replicas", "Replicas that are there.", static_cast<double>(summary.replicas_live()));
  page.gauge("clock_gap", "Iterations that the fastest replica is ahead of the slowest.",
             static_cast<double>(summary.gap));
  page.gauge("training_loss", "The loss of the latest bulk updates.", summary.training_loss);
  page.gauge("evaluation_loss", "On the test set.", of_evaluation(summary, &control::Evaluated::loss));
  page.gauge("evaluation_accuracy_ratio", "On the test set.",
             of_evaluation(summary, &control::Evaluated::accuracy));
  page.gauge("last_commit_timestamp_seconds", "The time of the newest commit.", committed_s);
  add_devices(page, settled);
  add_waited_for(page, settled);
  add_staleness(page, history.staleness);
  add_groups(page, history.groups.sizes, summary.groups.gradients);
  page.counter("attempts_total", "How often the run was started or resumed.",
               static_cast<double>(summary.run.attempts));
  page.counter("lost_commits_total", "Updates that were lost with a process and done again.",
               static_cast<double>(summary.run.lost_commits));
  if (!summary.run.restarts.empty())
    page.metric("restarts_total", "counter", "How often the run was resumed, by the reason.");
  for (const auto& [reason, count] : summary.run.restarts)
    page.value("restarts_total", {{"reason", reason}}, static_cast<double>(count));
  add_live(page, more);
  add_processes(page, more);
  return std::move(page).text();
}

}  // namespace paceline::exports
