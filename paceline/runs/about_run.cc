#include "paceline/runs/about_run.h"

#include <array>
#include <string>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

namespace paceline::runs {

namespace {

constexpr std::size_t kMostDevices = 12;  // that are named, groups of alike ones being one

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

// Neighbours that are alike are one entry: "w0 to w2 (batch 8, 30 ms an iteration)".
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

std::string rate_of(const config::JobConfig& job) {
  static constexpr std::array kShapes{"constant", "in steps", "cosine", "from a table"};
  const auto shape = static_cast<std::size_t>(job.shape);
  std::string text = fmt::format("{}", job.learning_rate);
  if (shape > 0 && shape < kShapes.size()) text += fmt::format(", {}", kShapes[shape]);
  if (job.warmup_epochs > 0) text += fmt::format(", warm-up of {} epochs", job.warmup_epochs);
  return text;
}

}  // namespace

report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin) {
  report::Json list = report::Json::array();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) list.push_back(report::Json::array({name, text}));
  };
  add("model", model_of(job));
  add("data", data_of(job));
  add("devices", devices_of(job));
  add("learning rate", rate_of(job));
  add("epochs", fmt::format("{}", job.epochs));
  add("seed", fmt::format("{}", job.seed));
  if (job.hosts > 1) add("hosts", fmt::format("{}", job.hosts));
  if (!origin) return list;
  add("command", origin->command);
  add("begun", origin->date);
  add("host", origin->host);
  add("processor", origin->processor);
  add("version", origin->version);
  return list;
}

}  // namespace paceline::runs
