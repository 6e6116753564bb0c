#include "paceline/computing/program/messages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/base/lease.h"
#include "paceline/base/program_version.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/program/model_message.h"
#include "paceline/computing/program/wrong.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::program {

using nlohmann::json;

namespace {

constexpr std::size_t kDepth = 8;
constexpr std::size_t kLongestShardName = 255;

std::string line(const json& message) {
  // A path or a name that is no UTF-8 must not end this process.
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

json json_of(std::span<const PlacedRun> runs) {
  json all = json::array();
  for (const PlacedRun& run : runs) all.push_back({run.tensor, run.memory, run.offset});
  return all;
}

const char* word_of(Role role) {
  switch (role) {
    case Role::kProbe:
      return "probe";
    case Role::kEvaluator:
      return "evaluator";
    case Role::kWorker:
      return "worker";
    case Role::kVirtual:
      return "worker";  // a worker that is also asked to evaluate
  }
  return "worker";
}

absl::Status check_metric_name(const std::string& name) {
  if (!name.empty() && name.size() <= kLongestMetricName) return absl::OkStatus();
  return wrong(fmt::format("sent a metric whose name '{}' has {} bytes; 1 to {} are allowed",
                           store::printable(name), name.size(), kLongestMetricName));
}

absl::StatusOr<Metrics> metrics_of(const json& message) {
  Metrics metrics;
  const auto found = message.find("metrics");
  if (found == message.end() || found->is_null()) return metrics;
  if (!found->is_object()) return wrong("sent metrics that are not an object");
  if (found->size() > kMostMetrics)
    return wrong(fmt::format("sent {} metrics; {} are the most", found->size(), kMostMetrics));
  for (const auto& [name, value] : found->items()) {
    PACELINE_RETURN_IF_ERROR(check_metric_name(name));
    if (value.is_null()) continue;  // not a finite number
    if (!value.is_number())
      return wrong(fmt::format("sent metric '{}', which is not a number", store::printable(name)));
    metrics[name] = value.get<double>();
  }
  return metrics;
}

// Null is a number that is not finite.
absl::StatusOr<double> loss_of(const json& message) {
  const auto loss = message.find("loss");
  if (loss == message.end()) return wrong("sent a step without a loss");
  if (!loss->is_null() && !loss->is_number()) return wrong("sent a loss that is not a number");
  return loss->is_null() ? std::numeric_limits<double>::quiet_NaN() : loss->get<double>();
}

// False where it is left out.
absl::StatusOr<bool> flag_of(const json& message, const std::string& name) {
  const auto found = message.find(name);
  if (found == message.end()) return false;
  if (!found->is_boolean()) return wrong(fmt::format("sent a '{}' that is not true or false", name));
  return found->get<bool>();
}

// Nothing where it is left out.
absl::StatusOr<std::optional<double>> weight_of(const json& message) {
  const auto found = message.find("weight");
  if (found == message.end()) return std::nullopt;
  const double weight = found->is_number() ? found->get<double>() : -1;
  if (!std::isfinite(weight) || weight < 0) return wrong("sent a 'weight' that is not a number from 0 up");
  return weight;
}

// Nothing if it is left out.
absl::StatusOr<std::optional<std::int64_t>> data_end_of(const json& message) {
  const auto found = message.find("data_end");
  if (found == message.end()) return std::nullopt;
  const std::int64_t end = found->is_number_integer() ? found->get<std::int64_t>() : 0;
  if (end < 1 || end >= kUnknownTotal) return wrong("sent a 'data_end' that is not a number of samples");
  return end;
}

// None if they are left out.
absl::StatusOr<std::vector<engine::ShardLength>> lengths_of(const json& message) {
  std::vector<engine::ShardLength> lengths;
  const auto found = message.find("lengths");
  if (found == message.end()) return lengths;
  if (!found->is_array() || found->size() > kMostLengths)
    return wrong(fmt::format("sent 'lengths' that are not a list of at most {}", kMostLengths));
  for (const json& one : *found) {
    const bool fits = one.is_array() && one.size() == 3 && one[0].is_number_integer() &&
                      one[1].is_number_integer() && one[2].is_string();
    const std::int64_t shard = fits ? one[0].get<std::int64_t>() : -1;
    const std::int64_t records = fits ? one[1].get<std::int64_t>() : -1;
    if (shard < 0 || shard > std::numeric_limits<std::int32_t>::max() || records < 0)
      return wrong("sent 'lengths' that are not [shard, records, name] each");
    lengths.push_back({static_cast<std::int32_t>(shard), records,
                       store::printable(one[2].get<std::string>(), kLongestShardName)});
  }
  return lengths;
}

// A place on the page of a step; the first one is the gradient's sum.
absl::StatusOr<int> slot_of(const json& value) {
  const int slot = value.is_number_integer() && value.get<std::int64_t>() < kStepValues
                       ? static_cast<int>(value.get<std::int64_t>())
                       : 0;
  if (slot < 1) return wrong(fmt::format("sent a 'later' that names no place from 1 to {}", kStepValues - 1));
  return slot;
}

// Nothing if it is left out.
absl::StatusOr<std::optional<Stepped::Later>> later_of(const json& message) {
  const auto found = message.find("later");
  if (found == message.end()) return std::nullopt;
  if (!found->is_object()) return wrong("sent a 'later' that is not an object");
  Stepped::Later later;
  if (const auto loss = found->find("loss"); loss != found->end()) {
    PACELINE_ASSIGN_OR_RETURN(later.loss, slot_of(*loss));
  }
  if (const auto metrics = found->find("metrics"); metrics != found->end()) {
    if (!metrics->is_object() || metrics->size() > kStepValues)
      return wrong(fmt::format("sent a 'later' whose metrics are not an object of at most {}", kStepValues));
    for (const auto& [name, place] : metrics->items()) {
      PACELINE_RETURN_IF_ERROR(check_metric_name(name));
      PACELINE_ASSIGN_OR_RETURN(later.metrics[name], slot_of(place));
    }
  }
  return later;
}

absl::StatusOr<Answer> stepped(const json& message) {
  Stepped answer;
  PACELINE_ASSIGN_OR_RETURN(answer.result.metrics, metrics_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.result.skipped, flag_of(message, "skipped"));
  PACELINE_ASSIGN_OR_RETURN(answer.result.retry, flag_of(message, "retry"));
  if (answer.result.retry && !answer.result.skipped) return wrong("sent 'retry' without 'skipped'");
  PACELINE_ASSIGN_OR_RETURN(answer.result.finite, flag_of(message, "finite"));
  if (const auto name = message.find("not_finite"); name != message.end() && name->is_string())
    answer.result.not_finite = store::printable(name->get<std::string>().substr(0, 512));
  PACELINE_ASSIGN_OR_RETURN(answer.result.weight, weight_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.result.data_end, data_end_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.lengths, lengths_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.later, later_of(message));
  if (answer.later && answer.later->loss) return answer;
  PACELINE_ASSIGN_OR_RETURN(answer.result.loss, loss_of(message));
  return answer;
}

absl::StatusOr<Answer> passed(const json& message) {
  Passed answer;
  const auto bytes = message.find("bytes");
  if (bytes == message.end() || !bytes->is_number_integer() || bytes->get<std::int64_t>() < 0)
    return wrong("sent a pass without the bytes of its message");
  answer.bytes = bytes->get<std::int64_t>();
  if (message.contains("loss")) {
    PACELINE_ASSIGN_OR_RETURN(answer.loss, loss_of(message));
  }
  return answer;
}

absl::StatusOr<Answer> finished(const json& message) {
  Finished answer;
  PACELINE_ASSIGN_OR_RETURN(answer.result.metrics, metrics_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.result.weight, weight_of(message));
  PACELINE_ASSIGN_OR_RETURN(answer.lengths, lengths_of(message));
  if (answer.result.weight) {
    PACELINE_ASSIGN_OR_RETURN(answer.result.loss, loss_of(message));
  }
  return answer;
}

absl::StatusOr<Answer> evaluated(const json& message) {
  Evaluated answer;
  engine::Evaluation& result = answer.result;
  PACELINE_ASSIGN_OR_RETURN(result.metrics, metrics_of(message));
  // Numbers that are not finite say that the model is in trouble, and not the program.
  const auto sent = message.find("metrics");
  if (sent == message.end() || sent->empty()) return wrong("evaluated, and gave no number");
  const auto take = [&](const char* name) {
    const auto found = result.metrics.find(name);
    if (found == result.metrics.end()) return std::numeric_limits<double>::quiet_NaN();
    const double value = found->second;
    result.metrics.erase(found);
    return value;
  };
  result.loss = take("loss");
  result.accuracy = take("accuracy");
  if (result.accuracy < 0 || result.accuracy > 1)
    return wrong(fmt::format("sent an accuracy of {}; it is a share from 0 to 1", result.accuracy));
  return answer;
}

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing if it is left out.
absl::StatusOr<std::optional<engine::TooFew>> too_few_of(const json& message) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto found = message.find("too_few");
  if (found == message.end()) return std::nullopt;
  const auto samples = [&](const char* key) {
    const auto number = found->find(key);
    return number != found->end() && number->is_number_integer() ? number->get<std::int64_t>() : -1;
  };
  const engine::TooFew few{samples("enough"), samples("computed")};
  if (!found->is_object() || few.enough < 2 || few.enough > kMost || few.computed < 0 || few.computed > kMost)
    return wrong("sent a 'too_few' without numbers of samples");
  return few;
}

OutOfMemory out_of_memory(const json& message) {
  return {store::printable(text_of(message, "text"), store::kLongestError),
          store::printable(text_of(message, "where"), store::kLongestError)};
}

absl::StatusOr<Failed> failed(const json& message) {
  Failed failed{store::printable(text_of(message, "text"), store::kLongestError),
                store::printable(text_of(message, "where"), store::kLongestError),
                text_of(message, "traceback")};
  PACELINE_ASSIGN_OR_RETURN(failed.too_few, too_few_of(message));
  return failed;
}

}  // namespace

std::string line_of(const StartMessage& message) {
  json settings = json::object();
  for (const auto& [key, value] : message.settings) settings[key] = value;
  json start{{"type", "start"},          {"protocol", kProtocol},      {"role", word_of(message.role)},
             {"name", message.name},     {"on_host", message.on_host}, {"devices", message.devices},
             {"seed", message.seed},     {"threads", message.threads}, {"weights", message.weights},
             {"stages", message.stages}, {"settings", settings},       {"version", kProgramVersion}};
  if (message.recuts) start["recuts"] = true;
  if (message.card_memory) start["card_memory"] = true;
  if (!message.initial_weights.empty()) start["initial_weights"] = message.initial_weights;
  if (!message.run.empty()) start["run"] = message.run;
  if (!message.host_folder.empty()) start["host_folder"] = message.host_folder;
  if (!message.run_folder.empty())
    start["frozen"] = {{"folder", message.run_folder}, {"keep", message.keep_frozen}};
  if (message.profile > 0) start["profile"] = message.profile;
  if (message.beside) start["beside"] = true;
  return line(start);
}

std::string layout_line(const ps::Layout& layout) {
  json offsets = json::array();
  for (const ps::TensorSpec& tensor : layout.tensors()) offsets.push_back(tensor.offset);
  json message{{"type", "layout"}, {"offsets", offsets}, {"floats", layout.size()}};
  if (layout.narrow() > 0) message["narrow"] = layout.narrow();
  return line(message);
}

std::string map_line(std::int64_t memory, const engine::Memory& mapped) {
  json message{{"type", "map"},
               {"memory", memory},
               {"bytes", mapped.file_offset + mapped.bytes},
               {"write", mapped.writable}};
  if (mapped.card.empty()) {
    message["path"] = mapped.path;
  } else {
    message["kind"] = "cuda";
    message["device"] = mapped.card;
    message["socket"] = mapped.socket;
    message["name"] = mapped.path;
  }
  return line(message);
}

std::string unmap_line(std::int64_t memory) { return line({{"type", "unmap"}, {"memory", memory}}); }

std::string initial_line(std::span<const PlacedRun> to) {
  return line({{"type", "initial"}, {"to", json_of(to)}});
}

std::string optimizer_state_line(std::span<const std::vector<PlacedRun>> to) {
  json streams = json::array();
  for (const std::vector<PlacedRun>& stream : to) streams.push_back(json_of(stream));
  return line({{"type", "optimizer_state"}, {"to", streams}});
}

std::string expect_line(std::span<const engine::Batch> batches, std::int64_t dropped) {
  json all = json::array();
  for (const engine::Batch& batch : batches) {
    all.push_back({{"samples", batch.samples}, {"epoch", batch.epoch}, {"augment_seed", batch.augment_seed}});
  }
  json message{{"type", "expect"}, {"batches", all}};
  if (dropped >= 0) message["dropped"] = dropped;
  return line(message);
}

std::size_t expected_in_a_line(std::span<const engine::Batch> batches) {
  constexpr std::size_t kAround =
      100;  // the most bytes of a batch without samples, and those around all batches
  constexpr std::size_t kOneNumber = 11;  // the most bytes of a sample's number and its comma
  std::size_t bytes = kAround;
  for (std::size_t count = 0; count < batches.size(); ++count) {
    bytes += kAround + kOneNumber * batches[count].samples.size();
    if (bytes > kLongestLine) return count;
  }
  return batches.size();
}

std::string step_line(const engine::Batch& batch, std::span<const PlacedRun> weights,
                      std::span<const PlacedRun> gradients, std::int64_t micro_batch, const Ahead& ahead,
                      const std::optional<Words>& words) {
  json message{{"type", "step"},
               {"samples", batch.samples},
               {"epoch", batch.epoch},
               {"seed", batch.step_seed},
               {"augment_seed", batch.augment_seed},
               {"micro_batch", nullptr},
               {"weights", json_of(weights)},
               {"gradients", json_of(gradients)}};
  if (micro_batch < static_cast<std::int64_t>(batch.samples.size())) message["micro_batch"] = micro_batch;
  if (ahead.reach != 0) {
    message["ahead"] = {{"reach", ahead.reach},
                        {"direction", ahead.direction * static_cast<std::int64_t>(sizeof(float))}};
  }
  if (words) {
    message["page"] = {{"memory", words->page}, {"number", words->number}};
    if (!words->rows.empty()) message["page"]["rows"] = words->rows;
  }
  return line(message);
}

std::string stage_line(const StageMessage& message, std::span<const PlacedRun> weights,
                       std::span<const PlacedRun> gradients) {
  return line({{"type", "stage"},
               {"stage", message.stage},
               {"units", {message.begin, message.end}},
               {"samples", message.batch.samples},
               {"epoch", message.batch.epoch},
               {"seed", message.batch.step_seed},
               {"augment_seed", message.batch.augment_seed},
               {"micro_batch", message.micro_batch},
               {"weights", json_of(weights)},
               {"gradients", json_of(gradients)},
               {"in", message.in},
               {"out", message.out}});
}

std::string pass_line(engine::Pass pass, std::int64_t stage, std::int64_t micro, std::int64_t bytes) {
  const char* const type = pass == engine::Pass::kForward    ? "forward"
                           : pass == engine::Pass::kBackward ? "backward"
                                                             : "forward_backward";
  json message{{"type", type}, {"stage", stage}, {"micro", micro}, {"bytes", nullptr}};
  if (bytes >= 0) message["bytes"] = bytes;
  return line(message);
}

std::string finish_line(std::int64_t stage) { return line({{"type", "finish"}, {"stage", stage}}); }

std::string leave_line(std::int64_t stage) { return line({{"type", "leave"}, {"stage", stage}}); }

std::string evaluate_line(std::span<const PlacedRun> weights) {
  return line({{"type", "evaluate"}, {"weights", json_of(weights)}});
}

std::string last_line(std::span<const PlacedRun> weights) {
  return line({{"type", "last"}, {"weights", json_of(weights)}});
}

std::string end_line(const std::string& why, bool failed, bool first) {
  return line({{"type", "end"}, {"why", why}, {"failed", failed}, {"first", first}});
}

absl::StatusOr<Answer> parse_answer(const std::string& text) {
  const auto parsed = store::parse_strict_json(text, kDepth);
  if (!parsed.ok())
    return wrong(
        fmt::format("sent a line that is not a message: {}", std::string(parsed.status().message())));
  if (!parsed->is_object()) return wrong("sent a line that is not a JSON object");
  const std::string type = text_of(*parsed, "type");
  if (type == "model") {
    PACELINE_ASSIGN_OR_RETURN(Model model, parse_model(*parsed));
    model.text = text;
    return model;
  }
  if (type == "done") return Done{};
  if (type == "stepped") return stepped(*parsed);
  if (type == "passed") return passed(*parsed);
  if (type == "out_of_memory") return out_of_memory(*parsed);
  if (type == "finished") return finished(*parsed);
  if (type == "evaluated") return evaluated(*parsed);
  if (type == "error") return failed(*parsed);
  return wrong(fmt::format("sent a message of the unknown type '{}'", store::printable(type.substr(0, 40))));
}

}  // namespace paceline::program
