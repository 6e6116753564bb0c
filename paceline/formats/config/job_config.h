// A job, as job.toml describes it: the model, the data, the devices and the policy. docs/job.md lists the
// keys. Every key has a default; every mistake is an InvalidArgument of one line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/places.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/planned_run.h"
#include "paceline/decisions/control/target.h"
#include "paceline/decisions/planner/costs.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/model_config.h"
#include "paceline/formats/config/network.h"
#include "paceline/formats/config/pace.h"
#include "paceline/formats/config/parallel.h"
#include "paceline/formats/config/program_config.h"
#include "paceline/formats/config/reach.h"
#include "paceline/parameters/ps/parameter_groups.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::config {

inline constexpr std::int64_t kMostDevicesOfJob = 1024;  // the most devices of a job
// The most devices that have processes of their own. The shared memory of the weights has room for each of
// them (memory/weight_board.h).
inline constexpr std::int64_t kMostLiveDevices = 470;

// One device of the cluster. It is a replica, or a stage of one if the job has pipelines.
struct DeviceConfig {
  std::string name;         // "w0", "w1", …
  std::int64_t batch = 32;  // samples an iteration; in a pipeline, pace_ms is the time of this many
  int threads = 1;          // libtorch's, within an operation
  // Imitates a slower device: after its real gradient the device waits until an iteration has taken `pace`
  // times its compute time, or `pace_ms`. At most one of them. A stage waits after each pass of a
  // micro-batch, for its part of an iteration of the whole model.
  std::optional<double> pace;
  std::optional<double> pace_ms;
  Unevenness unevenness;            // spread of the paced time
  std::optional<double> memory_mb;  // the memory that the planner may fill; nullopt: no limit
  bool memory_of_card = false;      // memory_mb is what its card has free (card_memory.h)
  bool memory_lowered = false;      // memory_mb is what it turned out to have (lowered_memory.h)
  double price_per_hour = 0;        // while it is in the plan
  double power_w = 0;               // while it computes
  std::string site;  // data that goes to another site counts as traffic; empty: the servers' site
  Link link;
  std::optional<int> host;  // always given in a job that was read
};

// [budget]: a limit on money in the prices' currency, on joules, or on traffic between sites.
struct BudgetConfig {
  planner::Budget most;
  double v = 20;     // the weight of time against it (planner/queues.h)
  double queue = 0;  // accumulated overspend, in batches' worth of budget; a resumed run says so
};

// The answer to SIGUSR1 and SIGUSR2, with which clusters warn: write a checkpoint, stop the run with one, or ignore
// the signal.
enum class OnSignal { kWrite, kStop, kIgnore };

struct JobConfig {
  std::string name = "job";
  std::uint64_t seed = 1;
  double epochs = 1;
  std::string runs_dir = "runs";
  std::optional<ProgramConfig> program;  // if there is one, `model` and `data` are not used
  ModelConfig model;
  std::string initial_weights;  // a safetensors file on every host; empty: the model's own
  DataConfig data;
  std::int64_t ahead = 0;        // iterations whose samples are reserved for each replica
  std::int64_t least_batch = 1;  // samples of a batch: of a share of uneven data, and of an epoch's last one
  std::int64_t least_share = 1;  // the same of a share of uneven data alone
  bool open_end = false;         // the number of samples is unknown until a program comes to their end
  // An epoch has a multiple of this many samples, and leaves out the others: with drop_last, those of a last, smaller
  // batch. It stays when a host is lost, because a sample is known by its place in all epochs.
  std::int64_t epoch_multiple = 1;
  ps::OptimizerConfig optimizer;
  std::vector<ps::ParameterGroup> groups;

  // [schedule], in epochs.
  double learning_rate = 0.05;
  control::LrShape shape = control::LrShape::kConstant;
  double warmup_epochs = 0;
  std::vector<double> milestone_epochs;
  double gamma = 0.1;
  double last_rate = 0;
  std::vector<std::pair<double, double>> rate_table;  // epoch, factor; ascending

  policy::PolicySpec policy;
  control::CommitScale scale = control::CommitScale::kSamples;
  double staleness_damping = 0;
  bool look_ahead = false;     // if the file does not say it, the policy decides
  double reject_outliers = 0;  // rejects gradients with a norm this many times the others'; 0: none

  std::vector<DeviceConfig> devices;
  ParallelConfig parallel;
  std::optional<BudgetConfig> budget;
  std::vector<control::PriceChange> prices;
  std::vector<Slowdown> slowdowns;

  // The next five are for virtual time only.
  double load_ms = 0;               // loading a batch, besides computing it
  double virtual_compute_ms = 100;  // an iteration without pace_ms; `pace` multiplies it
  bool free_communication = true;   // no [link] in the file
  double server_gbps = 10;
  UpdateTime update;

  std::int64_t hosts = 1;
  // For a job on several hosts, the rank of each host; `host` of a device is a place in this list. Other
  // hosts were given up, and their devices are not part of the job.
  std::vector<HostRank> ranks;
  std::vector<HostRank> without;
  std::vector<std::string> left_out;  // names of the devices of `without`
  double host_patience_s = 30;        // how long the run waits for a lost host
  std::int64_t servers = 1;           // one for each host, if there are several
  bool says_servers = false;          // whether a person chose their number
  Placement placement = Placement::kCentral;
  std::int64_t copies = 1;     // copies of each shard, each on another host
  bool shared_folder = false;  // all hosts see runs_dir, on one disk
  bool seal = true;            // encrypts data between hosts
  // "sealed"; or unencrypted "tcp", "ucx", or "auto", the faster one
  std::string fabric = "sealed";
  std::int64_t server_threads = 0;  // 0: by the processors (kept_shards.cc)
  ShardMemory memory = ShardMemory::kAuto;
  Reach reach;
  std::string monitor{};        // address at which metrics are served, HOST:PORT; empty: none
  bool to_tensorboard = false;  // event files while it trains
  // Live: a commit's members sum among themselves, and servers take the sum. On one host they sum in its
  // memory; over several hosts, with all weights in one place, on the way there.
  bool reduce_in_group = false;

  bool evaluates = true;
  double evaluate_epochs = 1;  // epochs between evaluations
  std::int64_t evaluate_batch = 250;
  // The device of a program that evaluates, in PyTorch's words; empty: the program chooses.
  std::string evaluate_device;
  std::optional<control::Target> target;
  bool stop_at_target = false;
  double checkpoint_epochs = 1;  // epochs between checkpoints
  std::int64_t checkpoints_kept = 2;
  bool keep_frozen = true;  // the program's frozen tensors, once, in the run's folder
  OnSignal on_signal = OnSignal::kWrite;
};

// The origin of the settings over a file: errors name --set for those of the user, and the file for those
// that a command adds.
enum class SetBy { kUser, kCommand };

// `file` is the name errors give. `sets`: "key=value" each, laid over the text; a value that is not TOML is
// taken as a text. The resolved text (below) parses to the same job.
absl::StatusOr<JobConfig> parse_job(const std::string& text, const std::string& file,
                                    const std::vector<std::string>& sets = {}, SetBy by = SetBy::kUser);

// The text with `sets` laid over it: what a run folder keeps and workers are sent.
absl::StatusOr<std::string> resolve_job(const std::string& text, const std::string& file,
                                        const std::vector<std::string>& sets);

// The time of an iteration of the device's own batch in virtual time.
double virtual_ms(const JobConfig& job, const DeviceConfig& device);

// The time that this work has to take on a paced device, in iteration `clock` that started at `start`, if its
// real computing took `compute`. `iterations`: the work in iterations of the whole model on the device's own
// batch, in which pace_ms is measured. `steps`: how many steps the replica takes by itself under local SGD; else 0
// or 1. Each step has an unevenness of its own. Never less than `compute`.
Duration paced(const JobConfig& job, std::size_t device, Clock clock, std::int64_t steps, Time start,
               double iterations, Duration compute);

// The name of a place in the plan: "w2", or "w0+w1" for a pipeline.
std::string replica_name(const JobConfig& job, const planner::PlannedReplica& replica);

// How many samples of such a data set an epoch trains on. With drop_last, each epoch leaves out as many as do not fill
// a batch, others each time. Given its own result, it returns the same again.
std::int64_t samples_an_epoch(const JobConfig& job, std::int64_t dataset_size);

// The Controller's configuration, when the size of the data set is known.
control::ControllerConfig controller_config(const JobConfig& job, std::int64_t whole_set);

}  // namespace paceline::config
