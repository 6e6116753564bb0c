// Correct job files, and wrong ones whose error a message could repeat. tests/ has the rest.
#include "paceline/formats/config/job_config.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/origin.h"
#include "paceline/formats/config/server_parts.h"

namespace paceline::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_job_error(const absl::Status& status, const std::string& says) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(says), Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

TEST(JobConfig, AnErrorStaysOneLineWhateverItQuotes) {
  expect_job_error(parse_job("augment = tru\n", "job.toml").status(), "job.toml:1: not TOML");
  expect_job_error(parse_job("\"a\\nb\\u001b[2J\" = 3\n", "job.toml").status(), "job.toml:1: a b [2J: ");
  expect_job_error(parse_job("[sync]\npolicy = \"b\\nsp\"\n", "job.toml").status(), "policy 'b sp'");
  expect_job_error(parse_job("", "job.toml", {"a\nb"}).status(), "--set a b: write KEY=VALUE");
}

TEST(JobConfig, LaterErrorsNameTheOriginOfTheValue) {
  const std::string text =
      "parallel = \"static\"\nmicro_batch = 4\nbatch = 7\n[data]\nsource = \"text:x\"\n[[device]]\ncount = "
      "2\n[[device]]\nbatch = 9\n[[pipeline]]\ndevices = [\"w0\"]\n[[pipeline]]\ndevices = [\"w1\", "
      "\"w2\"]\ncuts = [5]\n";
  const auto placed = [&](const std::string& error, const std::vector<std::string>& sets = {}) {
    const absl::Status status = with_origin(absl::NotFoundError(error), text, "job.toml", sets);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    return std::string(status.message());
  };
  EXPECT_EQ(placed("data.source: x: no such file"), "job.toml:5: data.source: x: no such file");
  EXPECT_EQ(placed("data.source = \"text:x\" has none"), "job.toml:5: data.source = \"text:x\" has none");
  EXPECT_EQ(placed("data.source: x: none", {"data.source=x"}), "--set data.source=x: x: none");
  EXPECT_EQ(placed("data.source = \"x\" has none", {"data.source=x"}),
            "--set data.source=x: data.source = \"x\" has none");
  EXPECT_EQ(placed("data.source = x: has none", {"data.source=x"}), "--set data.source=x: has none");
  EXPECT_EQ(placed("device[1].batch: too large"), "job.toml:3: batch: too large");
  EXPECT_EQ(placed("device[2].batch: too large"), "job.toml:9: device.batch: too large");
  EXPECT_EQ(placed("device[2].batch: too large", {"device=[{count=3, batch=8}]"}),
            "--set device=[{count=3, batch=8}]: device.batch: too large");
  EXPECT_EQ(placed("model.name = \"x\" wants none", {"model={name=\"mlp\"}"}),
            "--set model={name=\"mlp\"}: model.name = \"x\" wants none");
  EXPECT_EQ(placed("pipeline[1].cuts: none"), "job.toml:14: pipeline.cuts: none");
  EXPECT_EQ(placed("optimizer.lr: wrong"), "job.toml: optimizer.lr: wrong");
  for (const char* other :
       {"x.txt: no such file", "batch 3 is lost", "data.txt: gone", "job.toml:3: batch: 0", "", ": "})
    EXPECT_EQ(placed(other), other);
}

// The text of such a job is nobody's file.
TEST(JobConfig, AnErrorOfACommandLineNamesNoLineOfIt) {
  EXPECT_EQ(std::string(parse_job("epochs = 1\nbatch = 0\n", kCommandLine).status().message()),
            "the command line: batch: write a whole number from 1 to 1048576");
}

// Devices are known by their place in the list.
TEST(JobConfig, ADeviceHasNoName) {
  const absl::Status named = parse_job("[[device]]\nname = \"a\"\n", "job.toml").status();
  expect_job_error(named, "job.toml:2: device.name: devices have no names of their own");
  EXPECT_THAT(std::string(named.message()), HasSubstr("w0, w1"));
  EXPECT_THAT(std::string(parse_job("[[device]]\nbtch = 3\n", "job.toml").status().message()),
              Not(HasSubstr("name,")));
}

TEST(JobConfig, SaysHowToSetAListOfSections) {
  const auto said = [](const std::string& text, const std::string& set) {
    return std::string(parse_job(text, "job.toml", {set}).status().message());
  };
  EXPECT_EQ(
      said("[[device]]\n", "device.count=3"),
      "--set device.count=3: [[device]] is a list; set all of it, for example --set 'device=[{count=3}]'");
  EXPECT_THAT(said("[[device]]\n", "device.pace=3x"), HasSubstr("--set 'device=[{pace=\"3x\"}]'"));
  EXPECT_EQ(said("", "device.count=3"),
            "--set device.count=3: write each as a section of its own, [[device]], or all of them with --set "
            "'device=[{…}]'");
  EXPECT_EQ(said("epochs = 3\n", "epochs.x=3"),
            "--set epochs.x=3: 'epochs' is no section, and has no keys below it");
}

TEST(JobConfig, SaysWhatToDoWithAHostWithoutADevice) {
  expect_job_error(
      parse_job("[cluster]\nhosts = 3\n[[device]]\ncount = 2\n", "job.toml").status(),
      "job.toml:2: cluster.hosts: host 2 has no device; add a [[device]] with host = 2, or write "
      "fewer hosts");
}

// A key without effect is refused, so that no user waits for its effect.
TEST(JobConfig, RefusesAKeyWithoutEffect) {
  const std::string program = "[program]\nrun = \"train.py\"\n";
  const std::string own = "brings a model and data of its own";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {program + "[data]\nsource = \"digits\"\n", own},
      {program + "[data]\ntrain_samples = 1000\n", own},
      {program + "[data]\naugment = true\n", own},
      {program + "[model]\nwidth = 64\n", own},
      {program + "[evaluate]\nbatch = 50\n", "a program chooses this itself"},
      {"[evaluate]\ntarget = \"acuracy >= 0.9\"\n", "built-in models give loss and accuracy, and no acuracy"},
      {"[schedule]\nmilestones = [1, 2]\n", "milestones: write shape = \"step\" as well"},
      {"[schedule]\nshape = \"cosine\"\ngamma = 0.5\n", "gamma: write shape = \"step\" as well"},
      {"[schedule]\nshape = \"step\"\n", "write milestones as well"},
      {"[schedule]\nshape = \"step\"\nmilestones = [1]\nlast = 0.1\n",
       "last: write shape = \"cosine\" as well"},
      {"parallel = \"joint\"\nmicro_batch = 4\n[[pipeline]]\ndevices = [\"w0\"]\n",
       "pipeline: leave it out: joint makes the plan"},
  };
  for (const auto& [text, says] : cases) {
    SCOPED_TRACE(text);
    expect_job_error(parse_job(text, "job.toml").status(), says);
  }
}

TEST(JobConfig, TakesTheKeysThatAProgramUses) {
  for (const char* more : {"[data]\nahead = 4\nload_ms = 3\n", "[model]\nweights = \"m.safetensors\"\n",
                           "[evaluate]\ntarget = \"f1 >= 0.8\"\n"}) {
    const auto job = parse_job(std::string("[program]\nrun = \"train.py\"\n") + more, "job.toml");
    EXPECT_TRUE(job.ok()) << job.status();
  }
}

// A machine may have no compiler, and so no headers: only a job that names a model of text reads them.
TEST(JobConfig, TrainsOnDataThatNeedNoFile) {
  const auto empty = parse_job("", "job.toml");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->model.name, "mlp");
  EXPECT_EQ(empty->data.source, "digits");
  const auto text = parse_job("[model]\nname = \"gpt-byte\"", "job.toml");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->data.source, "headers");
}

TEST(JobConfig, AProgramIsAScriptAnExecutableOrAModule) {
  const auto command = [](const std::string& keys) {
    const auto job = parse_job("[program]\n" + keys, "job.toml");
    return job.ok() ? command_of(*job->program)
                    : std::vector<std::string>{std::string(job.status().message())};
  };
  const auto words = [](auto... word) { return std::vector<std::string>{word...}; };
  EXPECT_EQ(command("run = \"a/train.py\"\nargs = [\"-x\"]\n"), words("python3", "a/train.py", "-x"));
  EXPECT_EQ(command("run = \"a/train\"\nargs = [\"-x\"]\n"), words("a/train", "-x"));
  EXPECT_EQ(command("module = \"a.train\"\npython = \"python3.9\"\nargs = [\"-x\"]\n"),
            words("python3.9", "-m", "a.train", "-x"));
  EXPECT_THAT(command("args = []\n"), ElementsAre(HasSubstr("program.run: write the script")));
  EXPECT_THAT(command("run = \"a.py\"\nmodule = \"a\"\n"),
              ElementsAre(HasSubstr("job.toml:3: program.module: a program is a module, or")));
}

TEST(JobConfig, LooksAheadWhereTheFileSaysSo) {
  const auto looks_ahead = [](const std::string& text, const std::vector<std::string>& sets) {
    const JobConfig job = parse_job(text, "job.toml", sets).value();
    EXPECT_EQ(controller_config(job, 100).look_ahead, job.look_ahead);
    return job.look_ahead;
  };
  for (const char* policy : {"bsp", "asp", "ssp:3", "dssp:3-15", "elastic-bsp:15"}) {
    const std::string set = std::string("sync.policy=") + policy;
    EXPECT_FALSE(looks_ahead("", {set})) << policy;
    EXPECT_TRUE(looks_ahead("", {set, "sync.look_ahead=true"})) << policy;
  }
  EXPECT_FALSE(looks_ahead("[sync]\nlook_ahead = false\n", {}));
}

TEST(JobConfig, ATableOfRatesIsInEpochs) {
  const std::string text =
      "[schedule]\nshape = \"table\"\ntable = [[0, 0.1], [0.5, 1], [2, 1.0], [2, "
      "0.333333333333333314829616256247]]\n";
  const auto job = parse_job(text, "job.toml");
  ASSERT_TRUE(job.ok()) << job.status();
  const control::LrSchedule schedule = controller_config(*job, 100).schedule;
  EXPECT_DOUBLE_EQ(control::learning_rate(schedule, 0), 0.05 * 0.1);
  EXPECT_DOUBLE_EQ(control::learning_rate(schedule, 25), 0.05 * 0.55);
  EXPECT_DOUBLE_EQ(control::learning_rate(schedule, 199), 0.05);
  EXPECT_DOUBLE_EQ(control::learning_rate(schedule, 200), 0.05 / 3);
  const auto again = parse_job(resolve_job(text, "job.toml", {"seed=7"}).value(), "job.toml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rate_table, job->rate_table);
  EXPECT_TRUE(parse_job("", "job.toml", {"schedule.shape=table", "schedule.table=[[0, 1], [1, 0]]"}).ok());
}

TEST(JobConfig, ATableThatMakesNoSenseIsOneLine) {
  const auto refused = [](const std::string& table, const std::string& says) {
    expect_job_error(parse_job("[schedule]\nshape = \"table\"\n" + table, "job.toml").status(), says);
  };
  refused("", "schedule.table: write at least one point");
  refused("table = []\n", "schedule.table: write at least one point");
  for (const char* pairs : {"3", "[3]", "[[3]]", "[[1, 2, 3]]", "[[0, -1]]", "[[-1, 1]]", "[[0, nan]]",
                            "[[0, inf]]", "[[0, \"1\"]]", "[[0, 1], 2]", "[[1e7, 1]]", "[[0, 1], {}]"})
    refused(fmt::format("table = {}\n", pairs), "schedule.table: write pairs of numbers from 0 to 1000000");
  refused("table = [[1, 1], [0.5, 1]]\n", "ascending order");
  refused("table = [[1, 1], [1, 2], [1, 3]]\n", "at most two points");
  refused("warmup_epochs = 1\ntable = [[0, 1]]\n", "schedule.warmup_epochs: leave it out");
  expect_job_error(parse_job("[schedule]\ntable = [[0, 1]]\n", "job.toml").status(),
                   "write shape = \"table\"");
  std::string most = "table = [";
  for (int i = 0; i < 10'000; ++i) most += fmt::format("[{}, 1], ", i);
  EXPECT_TRUE(parse_job("[schedule]\nshape = \"table\"\n" + most + "]\n", "job.toml").ok());
  refused(most + "[10000, 1]]\n", "10001 points; write at most 10000");
}

TEST(JobConfig, EachOptimizerHasItsUsualNumbers) {
  const auto job = [](const std::string& text) {
    return parse_job("[optimizer]\n" + text, "job.toml").value();
  };
  using ps::OptimizerKind;
  EXPECT_EQ(job("").optimizer, ps::OptimizerConfig{});
  EXPECT_EQ(job("nesterov = true\n").optimizer, ps::OptimizerConfig{.kind = OptimizerKind::kNesterov});
  EXPECT_EQ(job("nesterov = false\n").optimizer, ps::OptimizerConfig{});
  EXPECT_EQ(job("name = \"adamw\"\nnesterov = false\n").optimizer,
            ps::OptimizerConfig{.kind = OptimizerKind::kAdamW});
  const JobConfig rmsprop = job("name = \"rmsprop\"\n");
  EXPECT_EQ(rmsprop.optimizer,
            (ps::OptimizerConfig{.kind = OptimizerKind::kRmsprop, .momentum = 0, .beta2 = 0.99}));
  EXPECT_EQ(rmsprop.learning_rate, 0.01);
  EXPECT_EQ(job("name = \"rmsprop\"\nalpha = 0.9\nmomentum = 0.5\n").optimizer.beta2, 0.9);
  const JobConfig lion = job("name = \"lion\"\n");
  EXPECT_EQ(lion.optimizer, (ps::OptimizerConfig{.kind = OptimizerKind::kLion, .beta2 = 0.99}));
  EXPECT_EQ(lion.learning_rate, 0.0001);
  const JobConfig adamax = job("name = \"adamax\"\n");
  EXPECT_EQ(adamax.optimizer, ps::OptimizerConfig{.kind = OptimizerKind::kAdamax});
  EXPECT_EQ(adamax.learning_rate, 0.002);
  const JobConfig nadam = job("name = \"nadam\"\n");
  EXPECT_EQ(nadam.optimizer, (ps::OptimizerConfig{.kind = OptimizerKind::kNadam, .own = 0.004}));
  EXPECT_EQ(nadam.learning_rate, 0.002);
  EXPECT_EQ(job("name = \"nadam\"\nmomentum_decay = 0.01\n").optimizer.own, 0.01);
  EXPECT_EQ(job("name = \"rmsprop\"\n[[optimizer.group]]\nmatch = \"*\"\nalpha = 0.5\n").groups[0].beta2,
            0.5);
}

TEST(JobConfig, EachOptimizerIsReadByItsNameAndIsInTheTableOfKeys) {
  std::ifstream page("docs/job.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    const ps::OptimizerTraits& traits = ps::traits_of(kind);
    if (traits.variant != nullptr) continue;
    const auto job = parse_job(fmt::format("optimizer.name = \"{}\"\n", traits.name), "job.toml");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->optimizer, ps::usual_config(kind));
    EXPECT_EQ(job->learning_rate, traits.learning_rate);
    EXPECT_NE(text.find(fmt::format("`{}`", traits.name)), std::string::npos) << traits.name;
    for (const ps::OwnSetting& setting : traits.settings) {
      const auto inside = parse_job(
          fmt::format("optimizer.name = \"{}\"\noptimizer.{} = {}\n", traits.name, setting.key, setting.most),
          "job.toml");
      EXPECT_EQ(inside.value().optimizer.*setting.value, setting.most);
      const auto outside = parse_job(
          fmt::format("optimizer.name = \"{}\"\noptimizer.{} = {}\n", traits.name, setting.key, 1e300),
          "job.toml");
      expect_job_error(outside.status(), fmt::format("optimizer.{}: write a number", setting.key));
      const auto elsewhere =
          parse_job(fmt::format("optimizer.{} = {}\n", setting.key, setting.most), "job.toml");
      expect_job_error(elsewhere.status(), fmt::format("only name = \"{}\" has it", traits.name));
      EXPECT_NE(text.find(fmt::format("`{}`", setting.key)), std::string::npos) << setting.key;
    }
  }
}

TEST(JobConfig, OptimizersOfWholeTensorsHaveNumbersOfTheirOwn) {
  const auto job = [](const std::string& text) {
    return parse_job("[optimizer]\n" + text, "job.toml").value();
  };
  const JobConfig lars = job("name = \"lars\"\ntrust = 0.02\n[sync]\npolicy = \"cgp\"\n");
  EXPECT_EQ(lars.optimizer, (ps::OptimizerConfig{.kind = ps::OptimizerKind::kLars, .trust = 0.02}));
  EXPECT_EQ(lars.learning_rate, 1);
  EXPECT_TRUE(lars.look_ahead);
  const JobConfig lamb = job("name = \"lamb\"\n[sync]\npolicy = \"cgp\"\n");
  EXPECT_EQ(lamb.optimizer, (ps::OptimizerConfig{.kind = ps::OptimizerKind::kLamb, .epsilon = 1e-6}));
  EXPECT_FALSE(lamb.look_ahead);
  const JobConfig adafactor = job("name = \"adafactor\"\ndecay_power = 0.5\nthreshold = 2\n");
  EXPECT_EQ(adafactor.optimizer,
            (ps::OptimizerConfig{
                .kind = ps::OptimizerKind::kAdafactor, .epsilon = 1e-3, .decay_power = 0.5, .threshold = 2}));
  EXPECT_EQ(adafactor.learning_rate, 0.01);
}

TEST(JobConfig, AnOptimizerThatMakesNoSenseIsOneLine) {
  const auto refused = [](const std::string& text, const std::string& says) {
    expect_job_error(parse_job("[optimizer]\n" + text, "job.toml").status(), says);
  };
  refused("name = \"best\"\n", "optimizer.name: 'best' is unknown; write one of: sgd, adam, adamw, rmsprop,");
  refused("name = \"adam\"\nnesterov = true\n", "optimizer.nesterov: only name = \"sgd\" has it");
  refused("nesterov = true\nmomentum = 0\n", "optimizer.nesterov: needs a momentum above 0");
  refused("alpha = 0.5\n", "optimizer.alpha: write beta2");
  refused("name = \"rmsprop\"\nbeta2 = 0.5\n", "optimizer.beta2: write alpha");
  refused("name = \"rmsprop\"\nalpha = 1\n", "optimizer.alpha: write a number from 0");
  refused("trust = 0.1\n", "optimizer.trust: only name = \"lars\" has it");
  refused("name = \"lamb\"\nthreshold = 2\n", "optimizer.threshold: only name = \"adafactor\" has it");
  refused("name = \"lamb\"\n[sync]\nlook_ahead = true\n", "sync.look_ahead: lamb, adafactor");
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    if (ps::traits_of(kind).direction_kept == nullptr)
      refused(fmt::format("name = \"{}\"\n[sync]\nlook_ahead = true\n", ps::traits_of(kind).name),
              "cannot predict the weights; leave it out");
  }
  expect_job_error(
      parse_job("[optimizer]\nnesterov = true\n[sync]\npolicy = \"local-sgd:4\"\n", "job.toml").status(),
      "local-sgd has no Nesterov momentum; leave optimizer.nesterov out");
}

TEST(JobConfig, GradientsAreClippedByANorm) {
  EXPECT_EQ(parse_job("", "job.toml")->optimizer.clip, 0);
  EXPECT_EQ(parse_job("[optimizer]\nclip = 0.5\n", "job.toml")->optimizer.clip, 0.5);
  expect_job_error(parse_job("[optimizer]\nclip = -1\n", "job.toml").status(),
                   "optimizer.clip: write a number");
  expect_job_error(
      parse_job("[optimizer]\nclip = 1\n[sync]\npolicy = \"local-sgd:4\"\n", "job.toml").status(),
      "local-sgd has no clipping");
}

TEST(JobConfig, GroupsHaveNamesOrAGlobAndNumbersOfTheirOwn) {
  const std::string text =
      "[optimizer]\nname = \"adamw\"\nweight_decay = 0.1\n"
      "[[optimizer.group]]\ntensors = [\"norm.weight\", \"head.bias\"]\nrate = 0.1\nsteps_behind = "
      "7\nweight_decay = 0\n"
      "[[optimizer.group]]\nmatch = \"*.bias\"\nbeta1 = 0.6\nbeta2 = 0.7\nepsilon = 0.001\n";
  const auto job = parse_job(text, "job.toml");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::vector<ps::ParameterGroup> expected{
      {.tensors = {"norm.weight", "head.bias"},
       .match = "",
       .rate = 0.1,
       .steps_behind = 7,
       .weight_decay = 0.0},
      {.tensors = {}, .match = "*.bias", .beta1 = 0.6, .beta2 = 0.7, .epsilon = 0.001}};
  EXPECT_EQ(job->groups, expected);
  EXPECT_EQ(parse_job(resolve_job(text, "job.toml", {}).value(), "job.toml")->groups, expected);
  EXPECT_EQ(parse_job("[[optimizer.group]]\nmatch = \"*\"\nmomentum = 0.5\n", "job.toml")->groups[0].momentum,
            0.5);
}

TEST(JobConfig, AGroupThatMakesNoSenseIsOneLine) {
  const auto refused = [](const std::string& group, const std::string& says) {
    expect_job_error(parse_job("[[optimizer.group]]\n" + group, "job.toml").status(), says);
  };
  refused("", "optimizer.group.tensors: write either tensors");
  refused("tensors = [\"a\"]\nmatch = \"a\"\n", "write either tensors");
  refused("tensors = []\n", "optimizer.group.tensors: write at least one name");
  refused("match = \"\"\n", "optimizer.group.match: write at least one name");
  refused("match = \"*\"\nrate = -1\n", "optimizer.group.rate: write a number from 0");
  refused("match = \"*\"\nweight_decay = -1\n", "optimizer.group.weight_decay: write a number from 0");
  refused("match = \"*\"\nmomentum = 1\n", "optimizer.group.momentum: write a number from 0");
  refused("match = \"*\"\nlr = 1\n", "optimizer.group.lr: unknown key");
  expect_job_error(parse_job("[optimizer]\ngroup = 3\n", "job.toml").status(), "[[optimizer.group]]");
  expect_job_error(
      parse_job("[sync]\npolicy = \"local-sgd:4\"\n[[optimizer.group]]\nmatch = \"*\"\n", "job.toml")
          .status(),
      "local-sgd steps all tensors alike");
}

TEST(JobConfig, ReservesAheadWhereTheFileSaysSo) {
  EXPECT_EQ(controller_config(*parse_job("", "job.toml"), 100).ahead, 0);
  const JobConfig job = parse_job("[data]\nahead = 4\nload_ms = 2.5\n", "job.toml").value();
  EXPECT_EQ(controller_config(job, 100).ahead, 4);
  EXPECT_EQ(job.load_ms, 2.5);
  expect_job_error(parse_job("[data]\nahead = -1\n", "job.toml").status(), "data.ahead");
  expect_job_error(parse_job("[data]\nahead = 1001\n", "job.toml").status(), "data.ahead");
}

TEST(JobConfig, ListensOnThisMachineOnlyUnlessToldHowSafely) {
  const auto reach = [](const std::string& text) { return parse_job("[network]\n" + text, "job.toml"); };
  EXPECT_EQ(parse_job("", "job.toml")->reach.listen, "127.0.0.1:0");
  for (const char* loopback : {"127.0.0.1:0", "127.1.2.3:5", "localhost:7461", "[::1]:7461"})
    EXPECT_TRUE(reach(fmt::format("listen = \"{}\"\n", loopback)).ok()) << loopback;
  for (const char* open : {"0.0.0.0:7461", "[::]:7461", "10.0.0.1:0", "node1:7461"}) {
    const std::string listen = fmt::format("listen = \"{}\"\n", open);
    expect_job_error(reach(listen).status(), "paceline certs");
    expect_job_error(reach(listen + "security = \"none\"\n").status(), "network.token_file");
    EXPECT_TRUE(reach(listen + "security = \"none\"\ntoken_file = \"t\"\n").ok());
    EXPECT_EQ(reach(listen + "certs = \"d\"\n")->reach.token_file, "d/token");
  }
  for (const char* wrong : {"7461", ":7461", "host", "host:", "host:70000", "host:-1"})
    expect_job_error(reach(fmt::format("listen = \"{}\"\nsecurity = \"none\"\n", wrong)).status(),
                     "HOST:PORT");
  expect_job_error(reach("security = \"tls\"\n").status(), "TLS needs certificates");
  expect_job_error(reach("security = \"none\"\ncerts = \"d\"\n").status(), "leave one of them out");
}

TEST(JobConfig, SealsWhatGoesBetweenHostsUnlessToldOtherwise) {
  const auto fabric = [](const std::string& more) {
    const auto job = parse_job("[cluster]\nhosts = 2\n" + more + "[[device]]\ncount = 2\n", "job.toml");
    return job.ok() ? job->fabric : std::string(job.status().message());
  };
  EXPECT_EQ(fabric(""), "sealed");
  EXPECT_EQ(fabric("seal = false\n"), "auto");
  EXPECT_EQ(fabric("seal = false\nfabric = \"ucx\"\n"), "ucx");
  EXPECT_THAT(fabric("fabric = \"tcp\"\n"), HasSubstr("cluster.fabric: is for traffic in the clear"));
  EXPECT_THAT(fabric("seal = false\nfabric = \"sealed\"\n"), HasSubstr("auto, tcp"));
}

TEST(JobConfig, MakesAReplicaOfEachDeviceWhereNothingElseIsSaid) {
  const JobConfig job = parse_job("[[device]]\ncount = 2\n[[device]]\nbatch = 5\n", "job.toml").value();
  const planner::Plan expected{{{{0}, {}, 32}, {{1}, {}, 32}, {{2}, {}, 5}}, 1 << 20};
  EXPECT_EQ(job.parallel.plan, expected);
  EXPECT_FALSE(job.parallel.pipelined());
  EXPECT_EQ(controller_config(job, 100).start_replicas, 3);
}

constexpr char kPipelines[] =
    "parallel = \"static\"\nmicro_batch = 8\nwork = [1, 2, 3.5]\n[[device]]\ncount = 4\n"
    "[[pipeline]]\ndevices = [\"w3\", \"w0\", \"w1\"]\ncuts = [1, 2]\nsamples = 64\n"
    "[[pipeline]]\ndevices = [\"w2\"]\n";

TEST(JobConfig, TakesPipelinesAsTheyAreWritten) {
  const JobConfig job = parse_job(kPipelines, "job.toml").value();
  const planner::Plan expected{{{{3, 0, 1}, {1, 2}, 64}, {{2}, {}, 32}}, 8};
  EXPECT_EQ(job.parallel.plan, expected);
  EXPECT_TRUE(job.parallel.pipelined());
  EXPECT_EQ(job.parallel.work, (std::vector<double>{1, 2, 3.5}));
  EXPECT_EQ(controller_config(job, 1000).start_replicas, 2);
  EXPECT_EQ(replica_name(job, job.parallel.plan.replicas[0]), "w3+w0+w1");
}

TEST(JobConfig, RefusesPipelinesThatCannotBe) {
  const auto refused = [](const std::string& pipelines, const std::string& says,
                          const std::string& keys = "micro_batch = 8\n") {
    SCOPED_TRACE(pipelines);
    const std::string text = "parallel = \"static\"\n" + keys + "[[device]]\ncount = 3\n" + pipelines;
    expect_job_error(parse_job(text, "job.toml").status(), says);
  };
  const std::string w2 = "[[pipeline]]\ndevices = [\"w2\"]\n";
  const std::string both = "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\n";
  refused("", "pipeline: w0 is in none of them");
  refused(w2 + both + "cuts = [1]\n" + w2, "pipeline: w2 is in several of them");
  refused(w2 + both + w2, "pipeline.cuts");
  refused(w2 + both + "cuts = [1.5]\n", "pipeline.cuts");
  refused(w2 + both + "cuts = [0]\n", "pipeline.cuts");
  refused("[[pipeline]]\ndevices = [\"w2\", \"w1\", \"w0\"]\ncuts = [2, 2]\n", "pipeline.cuts");
  refused(w2 + "[[pipeline]]\ndevices = [\"w0\", \"w7\"]\ncuts = [1]\n",
          "pipeline.devices: there is no 'w7'");
  refused("[[pipeline]]\n" + w2, "pipeline.devices: name at least one");
  refused(w2 + both + "cuts = [1]\nsamples = 0\n", "pipeline.samples");
  refused(w2 + both + "cuts = [1]\n", "micro_batch: write how many samples", "");
  refused(w2 + both + "cuts = [1]\n[sync]\npolicy = \"local-sgd:2\"\n", "parallel: local-sgd");
  expect_job_error(parse_job(w2, "job.toml").status(),
                   "pipeline: is for parallel = \"static\" and what the planner plans");
  expect_job_error(parse_job("micro_batch = 2\n[sync]\npolicy = \"local-sgd:2\"\n", "job.toml").status(),
                   "micro_batch: local-sgd");
}

TEST(JobConfig, ReadsABudgetAndPrices) {
  const std::string joint = "parallel = \"joint\"\n",
                    devices = "[[device]]\ncount = 2\nprice_per_hour = 2.5\n";
  const JobConfig job = parse_job(joint + "[budget]\nmost = 36\nper = \"hour\"\nqueue = 1.5\n" + devices +
                                      "[[change]]\ndevice = 1\nat_s = 5\nprice_per_hour = 0\n",
                                  "job.toml")
                            .value();
  ASSERT_TRUE(job.budget);
  EXPECT_DOUBLE_EQ(job.budget->most.most, 0.01) << "a second";
  EXPECT_TRUE(job.budget->most.per_second);
  EXPECT_EQ(job.budget->queue, 1.5);
  EXPECT_EQ(job.devices[1].price_per_hour, 2.5);
  ASSERT_EQ(job.prices.size(), 1u);
  EXPECT_EQ(job.prices[0].device, 1);
  EXPECT_EQ(job.prices[0].per_hour, 0);
  expect_job_error(parse_job(joint + "[budget]\nper = \"hour\"\n", "job.toml").status(), "budget.most");
  expect_job_error(parse_job("[budget]\nmost = 1\n", "job.toml").status(), "for a planned job");
}

TEST(JobConfig, CopiesAreOnDifferentHosts) {
  const std::string devices = "[[device]]\ncount = 2\n";
  EXPECT_EQ(parse_job("[cluster]\nhosts = 2\n" + devices, "job.toml")->copies, 1);
  EXPECT_EQ(parse_job("[cluster]\nhosts = 2\ncopies = 2\n" + devices, "job.toml")->copies, 2);
  // The copies of a job after a host was given up.
  EXPECT_EQ(parse_job("[cluster]\nhosts = 2\ncopies = 2\nwithout = [1]\n" + devices, "job.toml")->copies, 1);
  const absl::Status alone = parse_job("[cluster]\ncopies = 2\n" + devices, "job.toml").status();
  EXPECT_NE(alone.message().find("cluster.copies: copies of the weights are on different hosts"),
            std::string::npos)
      << alone;
  EXPECT_FALSE(parse_job("[cluster]\nhosts = 4\nreplicas = 3\n[[device]]\ncount = 4\n", "job.toml").ok());
}

// Three hosts with two devices each. The second host is gone.
TEST(JobConfig, IsWhatIsLeftWithoutAHost) {
  const std::string text =
      "[cluster]\nhosts = 3\nwithout = [1]\n[[device]]\ncount = 6\nbatch = 8\n"
      "[[change]]\ndevice = 2\nfactor = 2\n[[change]]\ndevice = 5\nfactor = 3\n";
  const JobConfig job = parse_job(text, "job.toml").value();
  EXPECT_EQ(job.hosts, 2);
  EXPECT_EQ(job.servers, 2);
  EXPECT_EQ(job.ranks, (std::vector{HostRank(0), HostRank(2)}));
  ASSERT_EQ(job.devices.size(), 4u);
  EXPECT_EQ(job.devices[2].name, "w4");
  EXPECT_EQ(job.devices[2].host, 1) << "the second of those that are left";
  ASSERT_EQ(job.parallel.plan.replicas.size(), 4u);
  EXPECT_EQ(job.parallel.plan.replicas[3].devices, (std::vector<std::int32_t>{3}));
  ASSERT_EQ(job.slowdowns.size(), 1u);
  EXPECT_EQ(job.slowdowns[0].device, 3);
  EXPECT_EQ(parse_job("[cluster]\nhosts = 2\nwithout = [1]\n[[device]]\ncount = 2\n", "job.toml")->servers,
            1);
  EXPECT_EQ(parse_job("[cluster]\nhosts = 2\nwithout = [0]\n[[device]]\ncount = 2\n", "job.toml")->ranks,
            std::vector{HostRank(1)});
  expect_job_error(
      parse_job("[cluster]\nhosts = 2\nwithout = [0.5]\n[[device]]\ncount = 2\n", "job.toml").status(),
      "cluster.without: write a list of whole numbers from 0 to 1");
  expect_job_error(
      parse_job("[cluster]\nhosts = 2\nwithout = [0, 1]\n[[device]]\ncount = 2\n", "job.toml").status(),
      "on host 0 or 1");
}

// Pipelines over hosts: one that lost a stage is none any more.
TEST(JobConfig, HasThePipelinesThatAreWholeWithoutAHost) {
  const auto with = [](const std::string& pipelines, const std::string& without) {
    return parse_job("parallel = \"static\"\nmicro_batch = 4\n" + pipelines +
                         "[cluster]\nhosts = 3\nwithout = " + without +
                         "\n[[device]]\ncount = 6\nbatch = 8\n",
                     "job.toml");
  };
  const std::string pipelines =
      "pipeline = [{devices=[\"w0\",\"w2\"],cuts=[1]},{devices=[\"w5\",\"w1\"],cuts=[2]},"
      "{devices=[\"w4\"]},{devices=[\"w3\"]}]\n";
  EXPECT_EQ(with(pipelines, "[]")->parallel.plan.replicas.size(), 4u);
  const JobConfig left = with(pipelines, "[1]").value();
  ASSERT_EQ(left.parallel.plan.replicas.size(), 2u);
  EXPECT_EQ(left.parallel.plan.replicas[0].devices, (std::vector<std::int32_t>{3, 1})) << "w5 and w1";
  EXPECT_EQ(left.parallel.plan.replicas[1].devices, (std::vector<std::int32_t>{2}));
  expect_job_error(
      with("pipeline = [{devices=[\"w0\",\"w2\",\"w4\",\"w1\",\"w3\",\"w5\"],cuts=[1,2,3,4,5]}]\n", "[1]")
          .status(),
      "cluster.without: every pipeline has a stage on host 1");
}

// A wrong device or host says nothing about the devices that remain.
TEST(JobConfig, NamesAWrongHostOrDeviceEvenIfAHostIsLeftOut) {
  const std::string hosts = "[cluster]\nhosts = 2\nwithout = [0]\n";
  expect_job_error(parse_job(hosts + "[[device]]\ncount = 3\n[[device]]\nhost = 60\n", "job.toml").status(),
                   "cluster.hosts: w3 is on host 60, and there are hosts 0 to 1");
  expect_job_error(parse_job("parallel = \"joint\"\n[[device]]\ncount = 129\n", "job.toml").status(),
                   {"plans are made for at most 128 devices, and this job has 129"});
  expect_job_error(parse_job("parallel = \"static\"\n" + hosts +
                                 "[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w0\", \"w7\"]\n",
                             "job.toml")
                       .status(),
                   "pipeline.devices: there is no 'w7'");
}

TEST(JobConfig, NumbersOfAListAreFinite) {
  const std::string hosts = "[[device]]\ncount = 2\n[cluster]\nhosts = 2\n";
  expect_job_error(parse_job(hosts + "without = [nan]\n", "job.toml").status(),
                   "cluster.without: write a list of whole numbers from 0 to 1");
  expect_job_error(parse_job("[schedule]\nmilestones = [-nan]\n", "job.toml").status(),
                   "schedule.milestones");
}

TEST(JobConfig, RenumbersWhatDevicesCostWithoutAHost) {
  const JobConfig job =
      parse_job(
          "parallel = \"joint\"\n[cluster]\nhosts = 3\nwithout = [1]\n[[device]]\ncount = 3\n"
          "[[change]]\ndevice = 1\nprice_per_hour = 3\n[[change]]\ndevice = 2\nprice_per_hour = 4\n",
          "job.toml")
          .value();
  ASSERT_EQ(job.prices.size(), 1u);
  EXPECT_EQ(job.prices[0].device, 1);
  EXPECT_EQ(job.prices[0].per_hour, 4);
}

TEST(ShareOfWork, IsByTheWorkOfTheUnitsOrTheirNumber) {
  EXPECT_DOUBLE_EQ(share_of_work({}, 1, 3, 4), 0.5);
  EXPECT_DOUBLE_EQ(share_of_work({1, 2, 3, 4}, 1, 3, 4), 0.5);
  EXPECT_DOUBLE_EQ(share_of_work({1, 2, 3, 4}, 3, 4, 4), 0.4);
  EXPECT_DOUBLE_EQ(share_of_work({1, 2, 3, 4}, 0, 4, 4), 1);
}

TEST(Paced, TakesItsPartOfAnIteration) {
  const JobConfig job =
      parse_job("[[device]]\npace_ms = 300\n[[device]]\npace = \"3x\"\n", "job.toml").value();
  const auto of = [&](std::size_t device, double iterations) {
    return paced(job, device, Clock(1), 1, Time{}, iterations, from_seconds(0.01));
  };
  EXPECT_EQ(of(0, 1), from_seconds(0.3));
  EXPECT_EQ(of(0, 0.5), from_seconds(0.15));
  EXPECT_EQ(of(0, 0.01), from_seconds(0.01)) << "no less than it takes";
  EXPECT_EQ(of(1, 0.5), from_seconds(0.03)) << "of what it takes, whatever that is a part of";
}

TEST(JobConfig, AJobWhoseShardsCannotBeInAGpusMemoryCannotInsistOnIt) {
  const std::string program = "[program]\nrun = \"train.py\"\n";
  EXPECT_TRUE(parse_job(program + "[cluster]\nmemory = \"gpu\"\n", "j").ok());
  EXPECT_FALSE(why_not_on_card(parse_job(program, "j").value()));
  for (const auto& [job, why] :
       {std::pair{std::string("[cluster]\nmemory = \"gpu\"\n"), "built-in models compute on processors"},
        {"[sync]\npolicy = \"cgp\"\n" + program + "[cluster]\nmemory = \"gpu\"\nservers = 2\n", "look ahead"},
        {"[optimizer]\nclip = 1\n" + program + "[cluster]\nmemory = \"gpu\"\nservers = 2\n",
         "norm of a whole gradient"},
        {program + "[cluster]\nmemory = \"gpu\"\nreduction = \"group\"\n", "cluster.reduction"},
        {"[sync]\npolicy = \"local-sgd:4\"\n" + program + "[cluster]\nmemory = \"gpu\"\n", "local SGD"}}) {
    const auto parsed_job = parse_job(job, "j");
    ASSERT_FALSE(parsed_job.ok()) << job;
    EXPECT_THAT(std::string(parsed_job.status().message()), testing::HasSubstr(why));
    EXPECT_THAT(std::string(parsed_job.status().message()), testing::HasSubstr("write \"auto\""));
  }
}

TEST(JobConfig, SeveralServersUseGpusOnlyIfTheJobSaysSo) {
  const std::string program = "[program]\nrun = \"train.py\"\n[cluster]\nservers = 2\n";
  EXPECT_THAT(why_not_on_card(parse_job(program, "j").value()),
              testing::Optional(testing::HasSubstr("several servers")));
  const JobConfig job = parse_job(program + "memory = \"gpu\"\n", "j").value();
  EXPECT_FALSE(why_not_on_card(job));
  EXPECT_FALSE(takes_bfloat16(job));
}

TEST(JobConfig, EachCardHasAPartIfMemoryOfGpusIsWanted) {
  const std::string program = "[program]\nrun = \"train.py\"\n", two = "[[device]]\ncount = 2\n";
  const std::string gpu = "[cluster]\nmemory = \"gpu\"\n";
  const auto setting = [&](const std::string& more, int cards) {
    return servers_setting(parse_job(program + more, "j").value(), cards);
  };
  EXPECT_EQ(setting(gpu + two, 2), "cluster.servers=2");
  EXPECT_EQ(setting(gpu + "[[device]]\ncount = 5\n", 3), "cluster.servers=3");
  EXPECT_EQ(setting(gpu + two, 8), "cluster.servers=2") << "only the cards that devices compute on";
  for (const std::string& more :
       {gpu, gpu + "servers = 1\n" + two, two, "[sync]\npolicy = \"cgp\"\n" + gpu + two,
        "[optimizer]\nclip = 1\n" + gpu + two})
    EXPECT_EQ(setting(more, 2), std::nullopt) << more;
  EXPECT_EQ(setting(gpu + two, 1), std::nullopt);
}

TEST(JobConfig, MemoryIsOfBfloat16OnlyIfWholeReplicasOfOneHostUseIt) {
  const std::string program = "[program]\nrun = \"train.py\"\n";
  for (const char* more : {"", "[cluster]\nservers = 2\n", "[sync]\npolicy = \"asp\"\n",
                           "[sync]\nlook_ahead = true\n", "[optimizer]\nclip = 1\n"})
    EXPECT_TRUE(takes_bfloat16(parse_job(program + more, "j").value())) << more;
  for (const char* more :
       {"[cluster]\nhosts = 2\n[[device]]\ncount = 2\n",
        "[cluster]\nhosts = 2\nwithout = [1]\n[[device]]\ncount = 2\n", "[cluster]\nreduction = \"group\"\n",
        "[sync]\npolicy = \"local-sgd:4\"\n", "[optimizer]\nname = \"lamb\"\n"}) {
    const auto job = parse_job(program + more, "j");
    ASSERT_TRUE(job.ok()) << more << job.status();
    EXPECT_FALSE(takes_bfloat16(*job)) << more;
  }
}

TEST(JobConfig, WeightsAreBesideWorkersOrInOnePlace) {
  const auto parsed = [](const std::string& cluster, const std::string& devices = "[[device]]\ncount = 4\n") {
    return parse_job("[cluster]\n" + cluster + devices, "job.toml").value();
  };
  EXPECT_EQ(spread_of(parsed("")), ServerSpread::kOneHost);
  EXPECT_EQ(spread_of(parsed("placement = \"beside\"\n")), ServerSpread::kOneHost);
  EXPECT_EQ(parsed("").placement, Placement::kCentral);
  EXPECT_EQ(spread_of(parsed("hosts = 2\n")), ServerSpread::kHosts);
  EXPECT_FALSE(parsed("hosts = 2\n").reduce_in_group);
  const JobConfig central = parsed("hosts = 2\nplacement = \"central\"\n");
  EXPECT_EQ(spread_of(central), ServerSpread::kCentral);
  EXPECT_TRUE(central.reduce_in_group);
  EXPECT_FALSE(parsed("hosts = 2\nplacement = \"central\"\nreduction = \"servers\"\n").reduce_in_group);
  EXPECT_FALSE(parsed("hosts = 2\nplacement = \"central\"\ncopies = 2\n").reduce_in_group);
  EXPECT_EQ(modelled_servers(central), 1);
  EXPECT_EQ(modelled_servers(parsed("servers = 3\n")), 3);
  // The host that keeps them needs no device of its own; another one does.
  EXPECT_EQ(parsed("hosts = 2\nplacement = \"central\"\n", "[[device]]\nhost = 1\n").devices.size(), 1u);
  EXPECT_FALSE(parse_job("[cluster]\nhosts = 2\nplacement = \"central\"\n[[device]]\nhost = 0\n", "j").ok());
  EXPECT_FALSE(parse_job("[cluster]\nhosts = 2\n[[device]]\nhost = 1\n", "j").ok());
}

TEST(JobConfig, AnEpochOfWholeBatches) {
  const auto samples = [](const std::string& text, std::int64_t all) {
    const JobConfig job = parse_job("drop_last = true\n" + text, "job.toml").value();
    EXPECT_EQ(samples_an_epoch(job, samples_an_epoch(job, all)), samples_an_epoch(job, all));
    return controller_config(job, all).dataset_size;
  };
  EXPECT_EQ(samples("batch = 32\n[[device]]\ncount = 2\n", 129), 128);
  EXPECT_EQ(samples("batch = 32\n[[device]]\ncount = 2\n", 100), 96) << "a batch, not a round";
  EXPECT_EQ(samples("batch = 32\n[[device]]\n[[device]]\nbatch = 8\n", 129), 120);
  EXPECT_EQ(samples("batch = 32\nparallel = \"uneven-data\"\n[[device]]\ncount = 2\n", 100), 64);
  EXPECT_EQ(samples("parallel = \"static\"\nmicro_batch = 8\n[[device]]\ncount = 2\n"
                    "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]\nsamples = 48\n",
                    1000),
            960)
      << "a pipeline's batch, not a device's";
  for (const std::string mode : {"pipeline", "joint", "frozen", "gpipe"}) {
    const std::string devices = fmt::format("batch = 32\nparallel = \"{}\"\n[[device]]\ncount = 4\n", mode);
    EXPECT_EQ(samples(devices, 1000), 896) << "before a plan divides the batches of all devices";
    EXPECT_EQ(samples("micro_batch = 8\n" + devices +
                          "[[pipeline]]\ndevices = [\"w0\", \"w2\"]\ncuts = [1]\nsamples = 64\n"
                          "[[pipeline]]\ndevices = [\"w1\", \"w3\"]\ncuts = [1]\nsamples = 64\n"
                          "[[layer]]\ncount = 2\nwork_ms = 1\n",
                      1000),
              896)
        << mode;
  }
}

// Otherwise samples that are trained would have other places, and those of an epoch would be trained again.
TEST(JobConfig, AnEpochHasTheSameSamplesWithoutALostHost) {
  for (const std::string batches :
       {"parallel = \"uneven-data\"\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n",
        "[[device]]\nhost = 0\nbatch = 6\n[[device]]\nhost = 1\nbatch = 4\n",
        "parallel = \"joint\"\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n",
        "parallel = \"frozen\"\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n"}) {
    const auto samples = [&](const std::string& without) {
      const std::string text = "drop_last = true\n" + batches + "[cluster]\nhosts = 2\n" + without;
      return controller_config(parse_job(text, "job.toml").value(), 1009).dataset_size;
    };
    EXPECT_LT(samples(""), 1009);
    EXPECT_EQ(samples("copies = 2\nwithout = [1]\n"), samples("")) << batches;
  }
}

TEST(JobConfig, AnEpochHasTheSameSamplesUnderThePlanThatFollowsALostHost) {
  const auto samples = [](const std::string& mode, const std::string& plan, const std::string& without) {
    const std::string text = "drop_last = true\nmicro_batch = 8\nparallel = \"" + mode +
                             "\"\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n[[layer]]\nwork_ms = 1\n" +
                             plan + "[cluster]\nhosts = 2\ncopies = 2\n" + without;
    return controller_config(parse_job(text, "job.toml").value(), 1009).dataset_size;
  };
  for (const std::string mode : {"joint", "frozen"}) {
    EXPECT_EQ(samples(mode, "", ""), 960);
    EXPECT_EQ(samples(mode, "[[pipeline]]\ndevices = [\"w0\"]\n", "without = [1]\n"), 960) << mode;
  }
}

// An epoch of such a job is no pass over the data, so the rates would fall at any time.
TEST(JobConfig, AScheduleNeedsAnEpochWhoseLengthIsKnown) {
  const auto said = [](const std::string& open, const std::string& schedule) {
    const std::string text = "[program]\nrun = \"train.py\"\n" + open + "[schedule]\n" + schedule;
    return std::string(parse_job(text, "job.toml").status().message());
  };
  const std::string open = "[data]\nopen_end = true\n";
  for (const std::string shape : {"shape = \"cosine\"\n", "shape = \"step\"\nmilestones = [1]\n",
                                  "shape = \"table\"\ntable = [[0, 1], [2, 0.1]]\n"}) {
    EXPECT_THAT(said(open, shape),
                HasSubstr("schedule.shape: write \"constant\": nobody knows how many samples there are"));
    EXPECT_EQ(said("", shape), "");
  }
  EXPECT_THAT(said(open, "warmup_epochs = 0.1\n"),
              HasSubstr("schedule.warmup_epochs: leave it out: nobody knows"));
  EXPECT_EQ(said(open, "shape = \"constant\"\n"), "");
}

TEST(JobConfig, TakesOnlyTheLayersOfAProfile) {
  expect_job_error(
      parse_job("epochs = 1\nparallel = \"joint\"\nstep_overhead_ms = [[8, 1.5]]\n[[layer]]\nwork_ms = 1\n",
                "job.toml")
          .status(),
      "step_overhead_ms: leave it out: a job takes only the [[layer]] of a profile");
}

TEST(JobConfig, APipelinesBatchIsAtLeastTheLeast) {
  const auto job = [](int least) {
    return parse_job(
        fmt::format("parallel = \"static\"\nleast_batch = {}\nmicro_batch = 8\n"
                    "[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]\n"
                    "samples = 48\n",
                    least),
        "job.toml");
  };
  EXPECT_TRUE(job(48).ok()) << job(48).status();
  EXPECT_THAT(std::string(job(49).status().message()),
              HasSubstr("the batch of w0+w1 is 48; write at most that"));
}

TEST(JobConfig, TheLeastOfABatchAndOfAShare) {
  const auto least = [](const std::string& text) {
    return controller_config(parse_job(text, "job.toml").value(), 100).least_batch;
  };
  EXPECT_EQ(least(""), 1);
  EXPECT_EQ(least("least_batch = 2\n"), 2);
  EXPECT_EQ(least("least_share = 2\n"), 1) << "shares are of uneven data";
  EXPECT_EQ(least("least_share = 2\nparallel = \"uneven-data\"\n"), 2);
  EXPECT_FALSE(parse_job("batch = 4\nleast_batch = 5\n", "job.toml").ok());
}

TEST(JobConfig, WhatAWarningMeans) {
  EXPECT_EQ(parse_job("", "job.toml")->on_signal, OnSignal::kWrite);
  EXPECT_EQ(parse_job("[checkpoint]\non_signal = \"stop\"\n", "job.toml")->on_signal, OnSignal::kStop);
}

}  // namespace
}  // namespace paceline::config
