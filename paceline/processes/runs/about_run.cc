#include "paceline/processes/runs/about_run.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/formats/config/lowered_memory.h"

namespace paceline::runs {

namespace {

// the most devices that are named; a group of equal ones counts once
constexpr std::size_t kMostDevices = 12;
constexpr std::size_t kMostAlternatives = 12;

std::string model_of(const config::JobConfig& job) {
  if (job.program) return config::named(*job.program);
  const config::ModelConfig& model = job.model;
  if (model.name == "gpt-byte")
    return fmt::format("gpt-byte, width {}, layers {}, heads {}, context {}", model.width, model.layers,
                       model.heads, model.context);
  return model.name == "mlp" ? fmt::format("mlp, width {}", model.width) : model.name;
}

std::string data_of(const config::JobConfig& job) {
  if (job.program) return "of the program";
  std::string text = job.data.source;
  if (job.data.train_samples > 0) text += fmt::format(", the first {} samples", job.data.train_samples);
  if (job.data.augment) text += ", augmented";
  return text;
}

std::string speed_of(const config::DeviceConfig& device) {
  std::string text = fmt::format("batch {}", device.batch);
  if (device.pace_ms) text += fmt::format(", {} ms an iteration", *device.pace_ms);
  if (device.pace) text += fmt::format(", {} times its compute time", *device.pace);
  if (!device.pace_ms && !device.pace) text += ", as fast as it can";
  return text;
}

// Equal neighbours are one entry: "w0 to w2 (batch 8, 30 ms an iteration)".
std::string devices_of(const config::JobConfig& job) {
  std::vector<std::string> texts;
  std::size_t begin = 0;
  while (begin < job.devices.size()) {
    const std::string speed = speed_of(job.devices[begin]);
    std::size_t end = begin + 1;
    while (end < job.devices.size() && speed_of(job.devices[end]) == speed) ++end;
    std::string names = job.devices[begin].name;
    if (end - begin > 1)
      names += fmt::format("{}{}", end - begin == 2 ? ", " : " to ", job.devices[end - 1].name);
    if (texts.size() < kMostDevices) texts.push_back(fmt::format("{} ({})", names, speed));
    if (texts.size() == kMostDevices && end < job.devices.size()) {
      texts.push_back(fmt::format("and {} more", job.devices.size() - end));
      break;
    }
    begin = end;
  }
  return absl::StrJoin(texts, "; ");
}

// The optimizer and its settings: "sgd, momentum 0.9, weight decay 0.0001".
std::string optimizer_of(const config::JobConfig& job) {
  const ps::OptimizerConfig& optimizer = job.optimizer;
  const ps::OptimizerTraits& traits = ps::traits_of(optimizer.kind);
  std::string text = traits.variant != nullptr ? traits.variant : traits.name;
  for (const ps::ShownSetting& setting : traits.shown)
    text += fmt::format(", {} {}", setting.label, optimizer.*setting.value);
  if (optimizer.weight_decay > 0) text += fmt::format(", weight decay {}", optimizer.weight_decay);
  if (optimizer.clip > 0) text += fmt::format(", gradients clipped at {}", optimizer.clip);
  if (!job.groups.empty()) text += fmt::format(", {}", counted(std::ssize(job.groups), "group"));
  return text;
}

// A text like "cosine to 0, warm-up of 2 epochs".
std::string schedule_of(const config::JobConfig& job) {
  std::string text = "constant";
  switch (job.shape) {
    case control::LrShape::kConstant:
      break;
    case control::LrShape::kStep:
      text = fmt::format("times {} at epoch {}", job.gamma, absl::StrJoin(job.milestone_epochs, ", "));
      break;
    case control::LrShape::kCosine:
      text = fmt::format("cosine to {}", job.last_rate);
      break;
    case control::LrShape::kTable:
      text = fmt::format("a table of {}", counted(std::ssize(job.rate_table), "point"));
      break;
  }
  if (job.warmup_epochs > 0) text += fmt::format(", warm-up of {} epochs", job.warmup_epochs);
  return text;
}

// The common text if all are equal; else all different texts.
std::string together(const std::vector<std::string>& texts) {
  std::vector<std::string> each;
  for (const std::string& text : texts) {
    if (std::find(each.begin(), each.end(), text) == each.end()) each.push_back(text);
  }
  const std::size_t more = each.size() > kMostAlternatives ? each.size() - kMostAlternatives : 0;
  each.resize(each.size() - more);
  const bool long_ones = std::any_of(
      each.begin(), each.end(), [](const std::string& text) { return text.find(',') != std::string::npos; });
  return absl::StrJoin(each, long_ones ? " | " : ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin) {
  report::Json list = report::Json::array();
  const auto add = [&](const char* name, const std::string& text) { add_about(list, name, text); };
  add("model", model_of(job));
  add("data", data_of(job));
  add("devices", devices_of(job));
  add("memory", config::memory_words(job));
  add("optimizer", optimizer_of(job));
  add("learning rate", fmt::format("{}", job.learning_rate));
  add("schedule", schedule_of(job));
  add("epochs", fmt::format("{}", job.epochs));
  add("seed", fmt::format("{}", job.seed));
  if (job.hosts > 1) add("hosts", fmt::format("{}", job.hosts));
  if (origin) add_origin(list, *origin);
  return list;
}

report::Json about_jobs(const std::vector<config::JobConfig>& jobs) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> texts;
  for (const config::JobConfig& job : jobs) {
    for (const report::Json& one : about_run(job, std::nullopt)) {
      const std::string name = one[0].get<std::string>();
      if (!texts.contains(name)) names.push_back(name);
      texts[name].push_back(one[1].get<std::string>());
    }
  }
  report::Json list = report::Json::array();
  for (const std::string& name : names) list.push_back(report::Json::array({name, together(texts[name])}));
  return list;
}

void add_about(report::Json& list, const std::string& name, const std::string& text) {
  if (!text.empty()) list.push_back(report::Json::array({name, text}));
}

void add_origin(report::Json& list, const RunOrigin& origin) {
  const auto add = [&](const char* name, const std::string& text) { add_about(list, name, text); };
  add("about the data", origin.data_note);
  add("command", origin.command);
  add("begun", origin.date);
  add("host", origin.host);
  add("processor", origin.processor);
  add("version", origin.version);
}

}  // namespace paceline::runs
