#include "paceline/formats/config/job_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <sstream>

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "paceline/base/one_line.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/budget.h"
#include "paceline/formats/config/card_memory.h"
#include "paceline/formats/config/cgp_keys.h"
#include "paceline/formats/config/file_kind.h"
#include "paceline/formats/config/hosts.h"
#include "paceline/formats/config/lowered_memory.h"
#include "paceline/formats/config/model_names.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/formats/config/optimizer_settings.h"
#include "paceline/formats/config/origin.h"
#include "paceline/formats/config/section.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline::config {

namespace {

constexpr double kMostEpochs = 1e6;
constexpr std::size_t kMostRatePoints = 10'000;

// Whether a table has more than a job with a program may say.
bool says_more(const toml::table* table, const std::set<std::string>& allowed) {
  return table != nullptr && std::any_of(table->begin(), table->end(), [&](const auto& entry) {
           return !allowed.contains(std::string(entry.first.str()));
         });
}

void read_model(Section section, JobConfig& job) {
  job.initial_weights = section.text("weights", "");
  if (section.has("weights") && job.initial_weights.empty())
    section.complain("weights", "write the name of a file");
  if (job.program) return section.finish();
  ModelConfig& model = job.model;
  const std::vector<std::string>& names = model_names();
  const auto usual = std::find(names.begin(), names.end(), model.name) - names.begin();
  model.name = names[section.choice("name", static_cast<std::size_t>(usual), names)];
  model.width = section.integer("width", model.width, 1, 65536);
  model.layers = section.integer("layers", model.layers, 1, 1024);
  model.heads = section.integer("heads", model.heads, 1, 1024);
  model.context = section.integer("context", model.context, 1, 65536);
  section.finish();
}

void read_data(Section section, JobConfig& job) {
  DataConfig& data = job.data;
  job.ahead = section.integer("ahead", 0, 0, control::kMostAhead);
  job.load_ms = section.number("load_ms", 0, 0, 3.6e6);
  job.open_end = section.boolean("open_end", false);
  if (job.open_end && !job.program) section.complain("open_end", "leave it out: built-in data end somewhere");
  if (job.program) return section.finish();
  // Each model trains without a file of the user's: a model of text on text that every compiler brings.
  data.source = section.text("source", job.model.name == "gpt-byte" ? "headers" : data.source);
  data.augment = section.boolean("augment", data.augment);
  data.train_samples = section.integer("train_samples", 0, 0, 1 << 30);
  data.test_samples = section.integer("test_samples", 0, 0, 1 << 30);
  data.test_rest = section.boolean("test_rest", false);
  data.max_bytes = section.integer("max_bytes", data.max_bytes, 1024, std::int64_t{1} << 34);
  section.finish();
}

constexpr double kMostMomentum = 0.999999;
constexpr double kMostBeta2 = 0.99999999;
constexpr double kLeastEpsilon = 1e-16;
constexpr double kMostDecay = 1e3;

// Some optimizers have another name for it, as their users do.
std::optional<double> read_beta2(Section& section, ps::OptimizerKind kind) {
  const std::string key = ps::traits_of(kind).beta2;
  std::set<std::string> others;
  for (const ps::OptimizerKind other : ps::kEveryOptimizer) others.insert(ps::traits_of(other).beta2);
  others.erase(key);
  for (const std::string& other : others) {
    if (section.has(other))
      section.complain(other, fmt::format("write {}: this is its name with this optimizer", key));
  }
  if (!section.has(key)) return std::nullopt;
  return section.number(key, 0, 0, kMostBeta2);
}

ps::ParameterGroup read_group(Section section, ps::OptimizerKind kind) {
  ps::ParameterGroup group;
  group.tensors = section.texts("tensors");
  group.match = section.text("match", "");
  if (section.has("match") == section.has("tensors")) {
    section.complain("tensors", "write either tensors = [\"norm.weight\"] or match = \"*.bias\"");
  } else if (group.tensors.empty() && group.match.empty()) {
    section.complain(section.has("match") ? "match" : "tensors", "write at least one name");
  }
  group.rate = section.number("rate", 1, 0, 1e6);
  group.steps_behind = section.number("steps_behind", 0, 0, 1e15);
  const auto own = [&](const char* key, double least, double most) -> std::optional<double> {
    if (!section.has(key)) return std::nullopt;
    return section.number(key, least, least, most);
  };
  refuse_settings_of_others(section, kind);
  group.momentum = own("momentum", 0, kMostMomentum);
  group.beta1 = own("beta1", 0, kMostMomentum);
  group.beta2 = read_beta2(section, kind);
  group.epsilon = own("epsilon", kLeastEpsilon, 1);
  group.weight_decay = own("weight_decay", 0, kMostDecay);
  section.finish();
  return group;
}

void read_nesterov(Section& section, ps::OptimizerConfig& optimizer) {
  if (!section.boolean("nesterov", false)) return;
  if (optimizer.kind != ps::OptimizerKind::kSgd) section.complain("nesterov", "only name = \"sgd\" has it");
  if (optimizer.momentum == 0) section.complain("nesterov", "needs a momentum above 0");
  optimizer.kind = ps::OptimizerKind::kNesterov;
}

// Settings that only some optimizers have.
void read_own(Section& section, ps::OptimizerConfig& optimizer) {
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    const ps::OptimizerTraits& traits = ps::traits_of(kind);
    for (const ps::OwnSetting& setting : traits.settings) {
      if (section.has(setting.key) && optimizer.kind != kind)
        section.complain(setting.key, fmt::format("only name = \"{}\" has it", traits.name));
      double& value = optimizer.*setting.value;
      const double found = section.number(setting.key, value, setting.least, setting.most);
      if (optimizer.kind == kind) value = found;
    }
  }
}

// The optimizers that job files name.
std::vector<ps::OptimizerKind> named_optimizers() {
  std::vector<ps::OptimizerKind> kinds;
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    if (ps::traits_of(kind).variant == nullptr) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<std::string> names_of(const std::vector<ps::OptimizerKind>& kinds) {
  std::vector<std::string> names;
  for (const ps::OptimizerKind kind : kinds) names.emplace_back(ps::traits_of(kind).name);
  return names;
}

void read_optimizer(Section section, JobConfig& job, Complaints& complaints) {
  ps::OptimizerConfig& optimizer = job.optimizer;
  const std::vector<ps::OptimizerKind> kinds = named_optimizers();
  optimizer = ps::usual_config(kinds[section.choice("name", 0, names_of(kinds))]);
  job.learning_rate = section.number("lr", ps::traits_of(optimizer.kind).learning_rate, 1e-12, 1e6);
  refuse_settings_of_others(section, optimizer.kind);
  optimizer.momentum = section.number("momentum", optimizer.momentum, 0, kMostMomentum);
  optimizer.beta1 = section.number("beta1", optimizer.beta1, 0, kMostMomentum);
  optimizer.beta2 = read_beta2(section, optimizer.kind).value_or(optimizer.beta2);
  optimizer.epsilon = section.number("epsilon", optimizer.epsilon, kLeastEpsilon, 1);
  optimizer.weight_decay = section.number("weight_decay", 0, 0, kMostDecay);
  read_nesterov(section, optimizer);
  read_own(section, optimizer);
  optimizer.clip = section.number("clip", 0, 0, 1e9);
  for (const toml::table* table : section.tables("group"))
    job.groups.push_back(read_group({table, "optimizer.group", complaints}, optimizer.kind));
  section.finish();
}

// At most two points may be at one epoch: the first ends the part before, and the second begins the part
// after.
bool ascending(const std::vector<std::pair<double, double>>& table) {
  for (std::size_t i = 1; i < table.size(); ++i) {
    if (table[i].first < table[i - 1].first) return false;
    if (i > 1 && table[i].first == table[i - 2].first) return false;
  }
  return true;
}

void read_rate_table(Section& section, JobConfig& job) {
  job.rate_table = section.pairs("table", kMostEpochs, 1e6);
  const bool wanted = job.shape == control::LrShape::kTable;
  if (wanted && job.rate_table.empty()) {
    section.complain("table", "write at least one point, for example [[0, 1], [2.5, 0.1]]");
  } else if (!wanted && section.has("table")) {
    section.complain("table", "write shape = \"table\" as well");
  } else if (job.rate_table.size() > kMostRatePoints) {
    section.complain("table",
                     fmt::format("{} points; write at most {}", job.rate_table.size(), kMostRatePoints));
  } else if (!ascending(job.rate_table)) {
    section.complain("table", "write epochs in ascending order, at most two points at the same one");
  }
  if (wanted && job.warmup_epochs > 0)
    section.complain("warmup_epochs", "leave it out: the table says how the rate begins");
}

void read_schedule(Section section, JobConfig& job) {
  job.shape =
      static_cast<control::LrShape>(section.choice("shape", 0, {"constant", "step", "cosine", "table"}));
  job.warmup_epochs = section.number("warmup_epochs", 0, 0, kMostEpochs);
  job.milestone_epochs = section.numbers("milestones", 0, kMostEpochs);
  const bool steps = job.shape == control::LrShape::kStep;
  for (const char* key : {"milestones", "gamma"}) {
    if (section.has(key) && !steps) section.complain(key, "write shape = \"step\" as well");
  }
  if (steps && job.milestone_epochs.empty())
    section.complain("shape",
                     "write milestones as well: the epochs at which the rate is multiplied by gamma");
  // Until the data end, an epoch of such a job has another length than a pass.
  if (job.open_end && job.shape != control::LrShape::kConstant)
    section.complain("shape", "write \"constant\": nobody knows how many samples there are (data.open_end)");
  if (job.open_end && job.warmup_epochs > 0)
    section.complain("warmup_epochs",
                     "leave it out: nobody knows how many samples there are (data.open_end)");
  if (section.has("last") && job.shape != control::LrShape::kCosine)
    section.complain("last", "write shape = \"cosine\" as well");
  if (!std::is_sorted(job.milestone_epochs.begin(), job.milestone_epochs.end())) {
    section.complain("milestones", "write them in ascending order");
  }
  job.gamma = section.number("gamma", job.gamma, 1e-9, 1);
  job.last_rate = section.number("last", 0, 0, 1e6);
  read_rate_table(section, job);
  section.finish();
}

// Whether a policy looks ahead if the file does not say: those of papers do not, as published.
bool looks_ahead(const policy::PolicySpec& policy) { return std::holds_alternative<policy::CgpSpec>(policy); }

// The optimizers under which nobody can look ahead: "lamb and adafactor".
std::string without_direction() {
  std::vector<std::string> names;
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    if (!ps::has_direction(kind)) names.emplace_back(ps::traits_of(kind).name);
  }
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : absl::StrJoin(names, ", ") + " and " + last;
}

void read_sync(Section section, JobConfig& job) {
  const std::string said = section.text("policy", "bsp");
  const auto policy = policy::parse_policy(said);
  if (policy.ok()) {
    job.policy = *policy;
    const bool local = std::holds_alternative<policy::LocalSgdSpec>(job.policy);
    if (local && job.optimizer.kind == ps::OptimizerKind::kNesterov) {
      section.complain("policy", "local-sgd has no Nesterov momentum; leave optimizer.nesterov out");
    } else if (local && job.optimizer.kind != ps::OptimizerKind::kSgd) {
      section.complain("policy", "local-sgd steps with plain SGD only; write optimizer.name = \"sgd\"");
    }
    if (local && job.optimizer.clip > 0)
      section.complain("policy", "local-sgd has no clipping of gradients; leave optimizer.clip out");
    if (local && !job.groups.empty())
      section.complain("policy", "local-sgd steps all tensors alike; leave [[optimizer.group]] out");
  } else {
    section.complain("policy", std::string(policy.status().message()));
  }
  read_cgp_keys(section, said, job.policy);
  job.scale = static_cast<control::CommitScale>(section.choice("scale", 0, {"samples", "update"}));
  job.staleness_damping = section.number("damping", 0, 0, 1e3);
  const bool can_look_ahead = ps::has_direction(job.optimizer.kind);
  job.look_ahead = section.boolean("look_ahead", can_look_ahead && looks_ahead(job.policy));
  if (job.look_ahead && !can_look_ahead)
    section.complain("look_ahead",
                     fmt::format("{} cannot predict the weights; leave it out", without_direction()));
  job.reject_outliers = section.number("reject_outliers", 0, 0, 1e9);
  if (job.reject_outliers > 0 && job.reject_outliers < 2)
    section.complain("reject_outliers", "below 2 it would reject good gradients");
  section.finish();
}

std::optional<double> read_pace(Section& section) {
  if (!section.has("pace")) return std::nullopt;
  const std::string text = section.text("pace", "1x");
  double pace = 0;
  const bool good =
      text.size() > 1 && text.back() == 'x' && absl::SimpleAtod(text.substr(0, text.size() - 1), &pace);
  if (good && pace >= 1 && pace <= 1e4) return pace;
  section.complain("pace", "write how many times slower, from \"1x\" to \"10000x\", for example \"3.0x\"");
  return std::nullopt;
}

void read_device(Section section, const DeviceConfig& defaults, JobConfig& job, Complaints& complaints) {
  const std::int64_t count = section.integer("count", 1, 1, kMostDevicesOfJob);
  DeviceConfig device = defaults;
  device.batch = section.integer("batch", defaults.batch, 1, 1 << 20);
  device.threads = static_cast<int>(section.integer("threads", defaults.threads, 1, 1024));
  device.pace = read_pace(section);
  if (section.has("pace_ms")) device.pace_ms = section.number("pace_ms", 1, 0.001, 3.6e6);
  if (device.pace && device.pace_ms) section.complain("pace_ms", "give either pace or pace_ms, not both");
  device.unevenness = read_unevenness(section);
  if (section.has("memory_mb")) device.memory_mb = section.number("memory_mb", 1, 1e-6, 1e9);
  device.price_per_hour = read_price(section);
  device.power_w = read_power(section);
  device.site = section.text("site", "");
  if (section.has("host")) device.host = static_cast<int>(section.integer("host", 0, 0, 63));
  device.link = read_link(section.table("link"), "device.link", defaults.link, complaints);
  section.refuse(
      "name",
      "devices have no names of their own: they are w0, w1 and so on, in the file's order; leave it "
      "out, or move it above [[device]] if it is the job's name");
  section.finish();
  for (std::int64_t i = 0; i < count; ++i) {
    device.name = fmt::format("w{}", job.devices.size());
    job.devices.push_back(device);
  }
}

void read_devices(Section& top, JobConfig& job, Complaints& complaints) {
  DeviceConfig defaults;
  defaults.batch = top.integer("batch", defaults.batch, 1, 1 << 20);
  defaults.threads = static_cast<int>(top.integer("threads", defaults.threads, 1, 1024));
  job.least_batch = top.integer("least_batch", 1, 1, 1 << 20);
  job.least_share = top.integer("least_share", 1, 1, 1 << 20);
  job.free_communication = !top.has("link");
  defaults.link = read_link(top.table("link"), "link", defaults.link, complaints);
  for (const toml::table* table : top.tables("device"))
    read_device({table, "device", complaints}, defaults, job, complaints);
  if (job.devices.empty()) read_device({nullptr, "device", complaints}, defaults, job, complaints);
  read_card_memory(top, job.devices);
  if (job.devices.size() > static_cast<std::size_t>(kMostDevicesOfJob)) {
    top.complain("device",
                 fmt::format("{} devices; at most {} fit one job", job.devices.size(), kMostDevicesOfJob));
  }
}

// A plan that is to be made has at most a replica for each device.
void check_policy(Section sync, const JobConfig& job) {
  const auto fits =
      policy::check_replicas(job.policy, static_cast<std::int64_t>(job.parallel.plan.replicas.size()));
  const bool listed = !std::holds_alternative<policy::CgpSpec>(job.policy) || !sync.has("k_min");
  if (!fits.ok()) sync.complain(listed ? "policy" : "k_min", std::string(fits.message()));
}

// A plan takes the batches of all devices in a round. The next plan may divide them otherwise, and one that is made after a
// host was lost takes fewer.
std::int64_t all_batches(const std::vector<DeviceConfig>& devices) {
  return std::accumulate(devices.begin(), devices.end(), std::int64_t{0},
                         [](std::int64_t sum, const DeviceConfig& device) { return sum + device.batch; });
}

// If batches differ, only a round of all of them leaves no smaller one behind.
std::int64_t whole_batches(const ParallelConfig& parallel) {
  const auto& replicas = parallel.plan.replicas;
  std::int64_t all = 0;
  bool equal = !parallel.uneven_data();
  for (const planner::PlannedReplica& replica : replicas) {
    all += replica.samples;
    equal = equal && replica.samples == replicas.front().samples;
  }
  return std::max<std::int64_t>(1, equal && !replicas.empty() ? replicas.front().samples : all);
}

void read_drop_last(Section& top, JobConfig& job) {
  if (!top.boolean("drop_last", false)) return;
  if (job.open_end)
    top.complain("drop_last", "leave it out: nobody knows how many samples there are (data.open_end)");
  job.epoch_multiple = job.parallel.by_planner() ? all_batches(job.devices) : whole_batches(job.parallel);
}

// The batch of a replica that the file names, or of each device.
void check_least_batch(Section& top, const JobConfig& job) {
  std::vector<std::pair<std::string, std::int64_t>> batches;
  if (job.parallel.mode == Parallel::kStatic) {
    for (const planner::PlannedReplica& replica : job.parallel.plan.replicas) {
      const bool known = std::all_of(replica.devices.begin(), replica.devices.end(),
                                     [](std::int32_t device) { return device >= 0; });
      if (known) batches.emplace_back(replica_name(job, replica), replica.samples);
    }
  } else {
    for (const DeviceConfig& device : job.devices) batches.emplace_back(device.name, device.batch);
  }
  for (const auto& [name, batch] : batches) {
    if (batch >= job.least_batch) continue;
    return top.complain("least_batch", fmt::format("the batch of {} is {}; write at most that", name, batch));
  }
}

void read_plan(Section& top, JobConfig& job, Complaints& complaints) {
  std::vector<PlanDevice> devices;
  for (const DeviceConfig& device : job.devices) devices.push_back({device.name, device.batch});
  job.parallel = read_parallel(top, devices, complaints);
  check_least_batch(top, job);
  read_drop_last(top, job);
  if (!std::holds_alternative<policy::LocalSgdSpec>(job.policy)) return;
  if (job.parallel.pipelined() || job.parallel.by_planner())
    top.complain("parallel", "local-sgd steps on one device; it has no pipelines");
  if (top.has("micro_batch")) top.complain("micro_batch", "local-sgd takes whole batches; leave it out");
}

void read_change(Section section, JobConfig& job) {
  Slowdown change;
  change.device = section.integer("device", 0, 0, static_cast<std::int64_t>(job.devices.size()) - 1);
  change.at_s = section.number("at_s", 0, 0, 1e9);
  change.until_s = section.number("until_s", 1e9, 0, 1e9);
  change.factor = section.number("factor", 1, 1e-3, 1e4);
  const bool price = section.has("price_per_hour");
  const double per_hour = read_price(section);
  if (change.until_s <= change.at_s) section.complain("until_s", "write a time after at_s");
  section.finish();
  job.slowdowns.push_back(change);
  if (price)
    job.prices.push_back({static_cast<std::int32_t>(change.device), change.at_s, change.until_s, per_hour});
}

void read_job_budget(Section& top, JobConfig& job, Complaints& complaints) {
  if (!top.has("budget")) return;
  Section section(top.table("budget"), "budget", complaints);
  BudgetConfig& budget = job.budget.emplace();
  budget.most = read_budget(section);
  budget.v = section.number("v", budget.v, 1e-3, 1e6);
  budget.queue = section.number("queue", 0, 0, 1e12);
  section.finish();
  if (!job.parallel.by_planner()) section.complain("most", "is for a planned job: parallel = \"joint\"");
}

void read_cluster(Section section, JobConfig& job) {
  job.says_servers = section.has("servers");
  job.servers = section.integer("servers", job.servers, 1, 64);
  job.server_threads = section.integer("server_threads", 0, 0, 256);
  job.memory = static_cast<ShardMemory>(section.choice("memory", 0, {"auto", "host", "gpu"}));
  read_hosts(section, job);
  job.server_gbps = section.number("server_gbps", job.server_gbps, 1e-6, 1e6);
  if (section.has("colocated")) section.complain("colocated", "write placement = \"beside\" or \"central\"");
  if (const auto why = why_not_on_card(job); why && job.memory == ShardMemory::kGpu)
    section.complain("memory", fmt::format("\"gpu\" cannot be, because {}; write \"auto\"", *why));
  section.finish();
}

void read_virtual(Section section, JobConfig& job) {
  job.virtual_compute_ms = section.number("compute_ms", job.virtual_compute_ms, 0.001, 3.6e6);
  job.update = read_update_time(section);
  section.finish();
}

std::optional<control::Target> parse_target(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(" "), absl::SkipEmpty());
  double value = 0;
  if (parts.size() != 3 || !absl::SimpleAtod(parts[2], &value) || !std::isfinite(value)) return std::nullopt;
  const bool at_most = parts[1] == "<=";
  if (!at_most && parts[1] != ">=") return std::nullopt;
  if (parts[0] == "accuracy" && (at_most || value <= 0 || value > 1)) return std::nullopt;
  if (parts[0] == "loss" && (!at_most || value <= 0)) return std::nullopt;
  return control::Target{parts[0], value, at_most};
}

void read_evaluate(Section section, JobConfig& job) {
  job.evaluates = section.boolean("enabled", true);
  job.evaluate_epochs = section.number("every_epochs", job.evaluate_epochs, 1e-6, kMostEpochs);
  job.evaluate_batch = section.integer("batch", job.evaluate_batch, 1, 1 << 20);
  job.evaluate_device = section.text("device", "");
  if (!job.evaluate_device.empty() && !job.program)
    section.complain("device",
                     "only a program has devices to choose from; built-in models evaluate on the CPU");
  if (section.has("batch") && job.program)
    section.complain("batch", "leave it out: a program chooses this itself");
  job.stop_at_target = section.boolean("stop_at_target", false);
  if (section.has("target")) {
    job.target = parse_target(section.text("target", ""));
    if (!job.target)
      section.complain("target",
                       "write \"accuracy >= 0.6\" (a share of 1), \"loss <= 1.5\", or another metric that "
                       "your program's evaluation gives, such as \"f1 >= 0.8\"");
  }
  if (job.target && !job.program && job.target->metric != "accuracy" && job.target->metric != "loss")
    section.complain("target",
                     fmt::format("built-in models give loss and accuracy, and no {}", job.target->metric));
  if (job.target && !job.evaluates)
    section.complain("target", "needs evaluations; leave out enabled = false");
  if (job.stop_at_target && !section.has("target"))
    section.complain("stop_at_target", "needs a target as well");
  section.finish();
}

void read_checkpoint(Section section, JobConfig& job) {
  job.checkpoint_epochs = section.number("every_epochs", job.checkpoint_epochs, 1e-6, kMostEpochs);
  job.checkpoints_kept = section.integer("keep", job.checkpoints_kept, 1, 1000);
  job.keep_frozen = section.boolean("frozen", true);
  job.on_signal = static_cast<OnSignal>(section.choice("on_signal", 0, {"write", "stop", "ignore"}));
  section.finish();
}

void read_export(Section section, JobConfig& job) {
  job.to_tensorboard = section.boolean("tensorboard", false);
  section.finish();
}

JobConfig read_job(const toml::table& root, Complaints& complaints) {
  JobConfig job;
  Section top(&root, "", complaints);
  job.name = top.text("name", job.name);
  const bool plain = !job.name.empty() && job.name.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789-_.") == std::string::npos;
  if (!plain || job.name[0] == '.')
    top.complain("name",
                 fmt::format("'{}' is no name for a job: write letters, digits, '-', '_' and '.', not first",
                             job.name));
  job.seed = static_cast<std::uint64_t>(top.integer("seed", 1, 0, INT64_MAX));
  job.epochs = top.number("epochs", job.epochs, 1e-6, kMostEpochs);
  job.runs_dir = top.text("runs_dir", job.runs_dir);
  if (job.runs_dir.empty()) top.complain("runs_dir", "write the name of a folder");
  job.program = read_program(top, complaints);
  if (job.program && (says_more(top.table("model"), {"weights"}) ||
                      says_more(top.table("data"), {"ahead", "load_ms", "open_end"})))
    top.complain(
        "program",
        "brings a model and data of its own; write no more than weights in [model], and no more than "
        "ahead, load_ms and open_end in [data]");
  read_model({top.table("model"), "model", complaints}, job);
  read_data({top.table("data"), "data", complaints}, job);
  read_optimizer({top.table("optimizer"), "optimizer", complaints}, job, complaints);
  read_schedule({top.table("schedule"), "schedule", complaints}, job);
  read_sync({top.table("sync"), "sync", complaints}, job);
  read_devices(top, job, complaints);
  read_plan(top, job, complaints);
  check_policy({top.table("sync"), "sync", complaints}, job);
  for (const toml::table* table : top.tables("change")) read_change({table, "change", complaints}, job);
  read_job_budget(top, job, complaints);
  read_cluster({top.table("cluster"), "cluster", complaints}, job);
  read_lowered_memory(top, job.devices);  // after hosts that are given up have taken their devices along
  job.reach = read_reach({top.table("network"), "network", complaints});
  job.monitor = read_monitor({top.table("monitor"), "monitor", complaints});
  read_export({top.table("export"), "export", complaints}, job);
  read_virtual({top.table("virtual"), "virtual", complaints}, job);
  read_evaluate({top.table("evaluate"), "evaluate", complaints}, job);
  read_checkpoint({top.table("checkpoint"), "checkpoint", complaints}, job);
  top.finish();
  return job;
}

std::int64_t to_samples(double epochs, std::int64_t dataset_size) {
  return std::max<std::int64_t>(1, std::llround(epochs * static_cast<double>(dataset_size)));
}

absl::StatusOr<toml::table> merged(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& sets) {
  PACELINE_ASSIGN_OR_RETURN(toml::table root, parse_toml(text, file));
  PACELINE_RETURN_IF_ERROR(lay_over(root, sets));
  return root;
}

}  // namespace

absl::StatusOr<JobConfig> parse_job(const std::string& text, const std::string& file,
                                    const std::vector<std::string>& sets, SetBy by) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, merged(text, file, sets));
  Complaints complaints(file, sets, by == SetBy::kUser);
  refuse_old_keys(root, complaints);
  JobConfig job = read_job(root, complaints);
  PACELINE_RETURN_IF_ERROR(unless_other_kind(root, FileKind::kJob, file, complaints.status()));
  return job;
}

absl::StatusOr<std::string> resolve_job(const std::string& text, const std::string& file,
                                        const std::vector<std::string>& sets) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, merged(text, file, sets));
  std::ostringstream out;
  out << root << '\n';
  return out.str();
}

namespace {

// "pipeline[1].cuts", as errors may begin: the second [[pipeline]].
struct NumberedKey {
  std::string section;
  std::size_t number = 0;
  std::string name;
};

std::optional<NumberedKey> numbered(const std::string& key) {
  const std::vector<std::string> parts = absl::StrSplit(key, absl::ByAnyChar("[]"));
  NumberedKey made;
  if (parts.size() != 3 || !parts[2].starts_with(".") || !absl::SimpleAtoi(parts[1], &made.number))
    return std::nullopt;
  made.section = parts[0];
  made.name = parts[2].substr(1);
  return made;
}

const toml::table* table_at(const toml::table& root, const std::string& section, std::size_t number) {
  const toml::array* tables = root[section].as_array();
  const toml::node* table = tables == nullptr ? nullptr : tables->get(number);
  return table == nullptr ? nullptr : table->as_table();
}

// The [[device]] that defines the device of this number; null if there is none.
const toml::table* table_of_device(const toml::table& root, std::size_t device) {
  std::int64_t before = 0;
  for (std::size_t i = 0; const toml::table* table = table_at(root, "device", i); ++i) {
    before += (*table)["count"].value_or(std::int64_t{1});
    if (static_cast<std::int64_t>(device) < before) return table;
  }
  return nullptr;
}

// The place of the key that an error begins with; nothing if it begins with no key.
std::optional<std::string> place_in(const toml::table& root, const Complaints& complaints,
                                    const std::string& key) {
  const auto one_of_several = numbered(key);
  if (!one_of_several)
    return complaints.is_key(key) ? std::optional(complaints.place_of(root.at_path(key).node(), key))
                                  : std::nullopt;
  const auto& [section, number, name] = *one_of_several;
  const bool of_device = section == "device";
  const toml::table* table = of_device ? table_of_device(root, number) : table_at(root, section, number);
  // A setting that a [[device]] leaves out stands at the top.
  if (of_device && (table == nullptr || !table->contains(name)))
    return complaints.place_of(root.get(name), name);
  return complaints.place_of(table == nullptr ? nullptr : table->get(name), section + "." + name);
}

// The rest of an error after its place. In `said`, `what` follows the key. A place that is a --set already
// has the value, so the rest leaves it out.
std::string after_place(const std::string& place, const std::string& said, const std::string& what) {
  const std::string key = said.substr(0, said.size() - what.size());
  if (!place.starts_with("--set ") || place.ends_with(": " + key) || what.starts_with(": ")) return what;
  const std::size_t value_end = what.find(' ', std::string(" = ").size());
  const bool value_alone =
      what.starts_with(" = ") && value_end != std::string::npos && what[value_end - 1] == ':';
  return value_alone ? what.substr(value_end - 1) : ": " + said;
}

}  // namespace

absl::Status with_origin(const absl::Status& error, const std::string& text, const std::string& file,
                         const std::vector<std::string>& sets) {
  const std::string said(error.message());
  const std::string key = said.substr(0, said.find_first_of(": "));
  const std::string what = said.substr(key.size());
  const auto root = merged(text, file, sets);
  const bool in_a_sentence = what.starts_with(" ") && key.find('.') != std::string::npos;
  if (error.ok() || (!what.starts_with(": ") && !in_a_sentence) || !root.ok()) return error;
  Complaints complaints(file, sets);
  read_job(*root, complaints);
  const auto place = place_in(*root, complaints, key);
  if (!place) return error;
  absl::Status placed(error.code(), one_line(*place + after_place(*place, said, what)));
  error.ForEachPayload([&](auto type, const absl::Cord& payload) { placed.SetPayload(type, payload); });
  return placed;
}

double virtual_ms(const JobConfig& job, const DeviceConfig& device) {
  return device.pace_ms.value_or(job.virtual_compute_ms * device.pace.value_or(1.0));
}

Duration paced(const JobConfig& job, std::size_t device, Clock clock, std::int64_t steps, Time start,
               double iterations, Duration compute) {
  const DeviceConfig& place = job.devices[device];
  const auto number = static_cast<std::int64_t>(device);
  const double seconds =
      place.pace_ms ? *place.pace_ms / 1000.0 * iterations : to_seconds(compute) * place.pace.value_or(1.0);
  return std::max(
      compute, bounded_seconds(seconds * unevenness_factor(place.unevenness, job.seed, number, clock, steps) *
                               slowdown_factor(job.slowdowns, number, start)));
}

std::string replica_name(const JobConfig& job, const planner::PlannedReplica& replica) {
  std::vector<std::string> names;
  for (const std::int32_t device : replica.devices)
    names.push_back(job.devices[static_cast<std::size_t>(device)].name);
  return absl::StrJoin(names, "+");
}

std::int64_t samples_an_epoch(const JobConfig& job, std::int64_t dataset_size) {
  return dataset_size - dataset_size % job.epoch_multiple;
}

control::ControllerConfig controller_config(const JobConfig& job, std::int64_t whole_set) {
  const std::int64_t dataset_size = samples_an_epoch(job, whole_set);
  control::ControllerConfig config;
  config.dataset_size = dataset_size;
  config.total_samples = job.open_end ? kUnknownTotal : to_samples(job.epochs, dataset_size);
  config.start_replicas = static_cast<std::int64_t>(job.parallel.plan.replicas.size());
  config.schedule = {.shape = job.shape,
                     .base = job.learning_rate,
                     .warmup = job.warmup_epochs > 0 ? to_samples(job.warmup_epochs, dataset_size) : 0,
                     .milestones = {},
                     .gamma = job.gamma,
                     .total = config.total_samples,
                     .last = job.last_rate};
  for (double epoch : job.milestone_epochs)
    config.schedule.milestones.push_back(to_samples(epoch, dataset_size));
  for (const auto& [epoch, factor] : job.rate_table)
    config.schedule.table.push_back({std::llround(epoch * static_cast<double>(dataset_size)), factor});
  config.scale = job.scale;
  config.staleness_damping = job.staleness_damping;
  config.look_ahead = job.look_ahead;
  config.ahead = job.ahead;
  config.uneven_data = job.parallel.uneven_data();
  config.least_batch = config.uneven_data ? std::max(job.least_batch, job.least_share) : job.least_batch;
  config.evaluate = job.evaluates;
  config.evaluate_every = to_samples(job.evaluate_epochs, dataset_size);
  config.checkpoint_every = to_samples(job.checkpoint_epochs, dataset_size);
  return config;
}

}  // namespace paceline::config
