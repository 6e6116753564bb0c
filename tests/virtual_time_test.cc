// Real gradients in modelled time, through the program: the same bytes every time, the same bytes as live,
// and the times that the model says.
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/decisions/policy/testing/every_policy.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/sqlite.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr char kMixed[] =
    "[[device]]\ncount = 3\npace_ms = 20\njitter = 0.3\n[[device]]\npace_ms = 50\nslow_chance = 0.2\n";

struct Trained {
  fs::path run;
  nlohmann::json summary;
};

Trained train(const TempFolder& folder, const std::string& name, const std::string& keys,
              const std::string& sections, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"train", write_job(folder, name, keys, sections).string()});
  const Ended ended = run(arguments);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path folder_of_run = only_run(folder / name / "runs");
  auto summary = nlohmann::json::parse(read_text(folder_of_run / "summary.json"));
  summary.erase("about");  // the time and the place of the run differ
  return {folder_of_run, std::move(summary)};
}

class VirtualTime : public testing::TestWithParam<std::string> {};

TEST_P(VirtualTime, TheSameSeedGivesTheSameBytes) {
  const TempFolder folder;
  const std::string sections = std::string("[evaluate]\nevery_epochs = 0.25\n[sync]\npolicy = \"") +
                               GetParam() + "\"\n[link]\ngbps = 0.01\n" + kMixed;
  const Trained one = train(folder, "one", "epochs = 1\n", sections, {"--virtual"});
  const Trained two = train(folder, "two", "epochs = 1\n", sections, {"--virtual"});
  EXPECT_EQ(checkpoint_weights(one.run), checkpoint_weights(two.run));
  EXPECT_EQ(read_text(one.run / "metrics.jsonl"), read_text(two.run / "metrics.jsonl"));
  EXPECT_EQ(one.summary, two.summary);
  EXPECT_EQ(one.summary.at("summary").at("trace_hash").get<std::string>().size(), 16u);

  const Trained other = train(folder, "other", "epochs = 1\nseed = 2\n", sections, {"--virtual"});
  EXPECT_NE(checkpoint_weights(one.run), checkpoint_weights(other.run));
  EXPECT_NE(one.summary.at("summary").at("trace_hash"), other.summary.at("summary").at("trace_hash"));
}

TEST_P(VirtualTime, ARecordedRunGivesTheSameOrdersAgain) {
  const TempFolder folder;
  const Trained trained =
      train(folder, "run", "epochs = 1\n", std::string("[sync]\npolicy = \"") + GetParam() + "\"\n" + kMixed,
            {"--virtual"});
  const Ended replayed = run({"replay", trained.run.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
  EXPECT_EQ(replayed.output.rfind("attempt 1: ", 0), 0u) << replayed.output;
}

INSTANTIATE_TEST_SUITE_P(Policies, VirtualTime,
                         testing::ValuesIn(policy::testing::with_every_policy({"ssp:3", "dssp:1-4",
                                                                               "elastic-bsp:15", "cgp:S=4"})),
                         policy::testing::policy_test_name);

// CGP at its limits gives the same weights as another policy, to the last bit. Every round is whole: BSP counts the last
// one as a whole update even if samples are missing, and CGP does not.
void expect_same_weights(const std::string& one, const std::string& other, const std::string& sections) {
  const TempFolder folder;
  const auto weights_under = [&](const std::string& name, const std::string& policy) {
    const std::string sync = "[sync]\nlook_ahead = false\npolicy = \"" + policy + "\"\n";
    return checkpoint_weights(train(folder, name, "epochs = 0.8\n", sync + sections, {"--virtual"}).run);
  };
  EXPECT_EQ(weights_under("one", one), weights_under("other", other)) << one << " and " << other;
}

TEST(CgpLimits, GroupsOfOneTrainAsAspDoes) {
  expect_same_weights("cgp:k_max=1", "asp", kMixed);
  expect_same_weights("cgp:k_max=1", "asp", std::string("[link]\ngbps = 0.01\n") + kMixed);
}

TEST(CgpLimits, AGroupOfAllTrainsAsBspDoes) {
  expect_same_weights("cgp:k_min=1000:wait_max=forever", "bsp", kMixed);
  expect_same_weights("cgp:S=0", "bsp", kMixed);
}

TEST(VirtualAndLive, BulkSynchronousTrainingGivesTheSameWeights) {
  const TempFolder folder;
  const std::string sections = "[cluster]\nservers = 2\n[[device]]\ncount = 3\npace_ms = 5\n";
  const Trained live = train(folder, "live", "epochs = 0.5\n", sections, {});
  const Trained in_virtual_time = train(folder, "virtual", "epochs = 0.5\n", sections, {"--virtual"});
  EXPECT_EQ(checkpoint_weights(live.run), checkpoint_weights(in_virtual_time.run));
  EXPECT_EQ(live.summary.at("world"), "live");
  EXPECT_EQ(in_virtual_time.summary.at("world"), "virtual");
}

TEST(LookAhead, ChangesNoByteWhereNobodyIsLate) {
  const TempFolder folder;
  const std::string sections =
      "[cluster]\nservers = 2\n[[device]]\ncount = 3\npace_ms = 5\n[sync]\nlook_ahead = ";
  const Trained off = train(folder, "off", "epochs = 0.5\n", sections + "false\n", {"--virtual"});
  const Trained on = train(folder, "on", "epochs = 0.5\n", sections + "true\n", {"--virtual"});
  const Trained live = train(folder, "live", "epochs = 0.5\n", sections + "true\n", {});
  EXPECT_EQ(checkpoint_weights(on.run), checkpoint_weights(off.run));
  EXPECT_EQ(checkpoint_weights(live.run), checkpoint_weights(off.run));
}

TEST(LookAhead, OfAnAsynchronousRunIsRepeatableAndReplayed) {
  const TempFolder folder;
  const std::string sections =
      std::string(kMixed) + "[optimizer]\nlr = 0.5\n[sync]\npolicy = \"asp\"\nlook_ahead = ";
  const Trained one = train(folder, "one", "epochs = 1\n", sections + "true\n", {"--virtual"});
  const Trained two = train(folder, "two", "epochs = 1\n", sections + "true\n", {"--virtual"});
  const Trained off = train(folder, "off", "epochs = 1\n", sections + "false\n", {"--virtual"});
  EXPECT_EQ(checkpoint_weights(one.run), checkpoint_weights(two.run));
  EXPECT_EQ(one.summary, two.summary);
  EXPECT_NE(checkpoint_weights(one.run), checkpoint_weights(off.run));
  const Ended replayed = run({"replay", one.run.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

// Beside what theory allows; look-ahead makes less of it.
TEST(LookAhead, ReportSaysHowFarUsedWeightsWereFromThoseCommittedTo) {
  const TempFolder folder;
  const auto used = [&](const std::string& name, const std::string& sync) {
    const Trained trained = train(folder, name, "epochs = 1\n", "[sync]\n" + sync + kMixed, {"--virtual"});
    return trained.summary.at("summary").at("deviation").at("used_weights");
  };
  const auto number = [](const nlohmann::json& of, const char* key) { return of.at(key).get<double>(); };
  const nlohmann::json bulk = used("bsp", "policy = \"bsp\"\n");
  EXPECT_GT(number(bulk, "gradient"), 0);
  for (const char* key : {"mean", "most", "mean_bound", "most_bound"}) EXPECT_EQ(number(bulk, key), 0) << key;
  const nlohmann::json late = used("asp", "policy = \"asp\"\n");
  EXPECT_GT(number(late, "mean_bound"), 0.5 * 0.05 / (1 - 0.9)) << "of four lone ones d is 0.75";
  EXPECT_LE(number(late, "mean"), number(late, "mean_bound"));
  EXPECT_LE(number(late, "most"), number(late, "most_bound"));
  EXPECT_GT(number(late, "most"), 0.02 * number(late, "most_bound"));
  const nlohmann::json ahead = used("ahead", "policy = \"asp\"\nlook_ahead = true\n");
  EXPECT_LT(number(ahead, "mean"), 0.7 * number(late, "mean"));
}

TEST(LookAhead, TrainsLiveOnTwoServers) {
  const TempFolder folder;
  const Trained live = train(folder, "live", "epochs = 1\n",
                             "[cluster]\nservers = 2\n[[device]]\ncount = 3\npace_ms = 5\n[sync]\npolicy = "
                             "\"asp\"\nlook_ahead = true\n",
                             {});
  EXPECT_GT(live.summary.at("summary").at("staleness_mean").get<double>(), 0.5);
  EXPECT_EQ(run({"replay", live.run.string()}).status, 0);
}

// The floats of all tensors, one after the other.
std::vector<float> floats_of(const fs::path& run) {
  std::vector<float> all;
  for (const auto& [name, bytes] : checkpoint_weights(run)) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

TEST(LocalSgd, OfOneStepWithoutMomentumIsBulkSynchronousTraining) {
  const TempFolder folder;
  // The last round is a part of one. Differences count whole, so gradients must too.
  const std::string sections =
      "[optimizer]\nlr = 0.2\nmomentum = 0\n[[device]]\ncount = 2\n[[device]]\nbatch = 5\n"
      "[sync]\nscale = \"update\"\npolicy = ";
  const Trained bsp = train(folder, "bsp", "epochs = 0.1\n", sections + "\"bsp\"\n", {"--virtual"});
  const Trained local =
      train(folder, "local", "epochs = 0.1\n", sections + "\"local-sgd:1\"\n", {"--virtual"});
  const std::vector<float> expected = floats_of(bsp.run);
  const std::vector<float> found = floats_of(local.run);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 5e-6) << i;
}

TEST(LocalSgd, GivesTheSameBytesLiveAndIsReplayed) {
  const TempFolder folder;
  const std::string sections =
      "[cluster]\nservers = 2\n[sync]\npolicy = \"local-sgd:4\"\n[[device]]\ncount = 3\npace_ms = 5\n";
  const Trained live = train(folder, "live", "epochs = 1\n", sections, {});
  const Trained in_virtual_time = train(folder, "virtual", "epochs = 1\n", sections, {"--virtual"});
  EXPECT_EQ(checkpoint_weights(live.run), checkpoint_weights(in_virtual_time.run));
  EXPECT_EQ(run({"replay", live.run.string()}).status, 0);
  // 1,200 samples, 96 a round of four steps: twelve rounds of 20 ms, and half a round more in four steps.
  EXPECT_NEAR(in_virtual_time.summary.at("summary").at("elapsed_s").get<double>(), 13 * 0.02, 1e-6);
  EXPECT_EQ(in_virtual_time.summary.at("summary").at("commits"), 13);
}

TEST(VirtualRun, TakesTheTimeOfItsPaces) {
  const TempFolder folder;
  // 1,200 samples, 24 a round: 50 rounds of 80 ms.
  const Trained trained = train(folder, "run", "epochs = 1\n",
                                "[[device]]\ncount = 2\npace = \"2x\"\n[[device]]\npace_ms = 80\n"
                                "[virtual]\ncompute_ms = 30\n",
                                {"--virtual"});
  EXPECT_NEAR(trained.summary.at("summary").at("elapsed_s").get<double>(), 50 * 0.08, 1e-6);
}

TEST(VirtualRun, TakesTheTimeOfItsLinks) {
  const TempFolder folder;
  const std::string replicas = "[[device]]\ncount = 3\npace_ms = 80\n";
  const Trained free = train(folder, "free", "epochs = 1\n", replicas, {"--virtual"});
  const Trained slow =
      train(folder, "slow", "epochs = 1\n", replicas + "[link]\ngbps = 0.01\n[cluster]\nserver_gbps = 0.01\n",
            {"--virtual"});
  // Everything costs one transfer a replica and round more, for the pulls that follow the pushes.
  const double bytes = [&] {
    double sum = 0;
    for (const auto& [name, tensor] : checkpoint_weights(free.run)) sum += static_cast<double>(tensor.size());
    return sum;
  }();
  const double transfers_s = 49 * 3 * bytes / (0.01e9 / 8);
  const double took_s = slow.summary.at("summary").at("elapsed_s").get<double>() -
                        free.summary.at("summary").at("elapsed_s").get<double>();
  EXPECT_NEAR(took_s, transfers_s, 0.1 * transfers_s);  // tensors are padded
}

TEST(VirtualRun, GoesOnFromItsCheckpointAsIfItHadNeverStopped) {
  const TempFolder folder;
  const Trained whole = train(folder, "whole", "epochs = 2\n", "[[device]]\ncount = 3\n", {"--virtual"});
  const Trained half = train(folder, "half", "epochs = 1\n", "[[device]]\ncount = 3\n", {"--virtual"});
  const Ended resumed = run({"train", "--resume", half.run.string(), "--set", "epochs=2"});
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(checkpoint_weights(whole.run), checkpoint_weights(half.run));
  EXPECT_EQ(run({"replay", half.run.string()}).status, 0);
}

TEST(VirtualRun, IsNotResumedWithFewerEpochsThanItHas) {
  const TempFolder folder;
  const Trained trained = train(folder, "run", "epochs = 0.2\n", "", {"--virtual"});
  const Ended fewer = run({"train", "--resume", trained.run.string(), "--set", "epochs=0.1"});
  EXPECT_EQ(fewer.status, 2) << fewer.errors;
  EXPECT_NE(fewer.errors.find("--set epochs=0.1: the run has trained up to epoch 0.2"), std::string::npos)
      << fewer.errors;
  const Ended more = run({"train", "--resume", trained.run.string(), "--set", "epochs=0.3"});
  EXPECT_EQ(more.status, 0) << more.errors;
  expect_kept_samples_once(trained.run, 0.3);
}

TEST(VirtualRun, KeepsItsSettingsIfItCannotGoOnWithOthers) {
  const TempFolder folder;
  const Trained trained = train(folder, "run", "epochs = 0.2\n", "", {"--virtual"});
  const std::string before = read_text(trained.run / "job.toml");
  const Ended wider =
      run({"train", "--resume", trained.run.string(), "--set", "epochs=0.3", "--set", "model.width=64"});
  EXPECT_EQ(wider.status, 2);
  EXPECT_NE(wider.errors.find("so the run keeps those that it had"), std::string::npos) << wider.errors;
  EXPECT_EQ(read_text(trained.run / "job.toml"), before);
  EXPECT_EQ(run({"train", "--resume", trained.run.string(), "--set", "epochs=0.3"}).status, 0);
}

// The plan is none for these devices.
TEST(VirtualRun, OfAPlanGoesOnWithOtherDevicesAndWithoutAPlan) {
  const TempFolder folder;
  const Trained trained =
      train(folder, "run", "epochs = 0.1\nparallel = \"joint\"\n", "[[device]]\ncount = 2\n", {"--virtual"});
  const std::string run_folder = trained.run.string();
  const Ended other =
      run({"train", "--resume", run_folder, "--set", "epochs=0.2", "--set", "device=[{pace_ms=50}]"});
  EXPECT_EQ(other.status, 0) << other.errors;
  EXPECT_NE(other.errors.find("plan: w0 "), std::string::npos) << other.errors;
  const Ended data = run({"train", "--resume", run_folder, "--set", "epochs=0.3", "--set", "parallel=data"});
  EXPECT_EQ(data.status, 0) << data.errors;
  expect_kept_samples_once(trained.run, 0.3);
}

TEST(VirtualRun, IsNotStartedAgainIfNothingIsLeft) {
  const TempFolder folder;
  const Trained trained = train(folder, "run", "epochs = 0.1\n", "", {"--virtual"});
  const Ended again = run({"train", "--resume", trained.run.string()});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_NE(again.errors.find("there is nothing left to train"), std::string::npos) << again.errors;
  const auto journal = store::JournalReader::open(store::RunPaths{trained.run}.journal());
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(journal->attempts()->size(), 1u);
}

TEST(VirtualRun, StopsAtItsTarget) {
  const TempFolder folder;
  const Trained trained = train(folder, "run", "epochs = 50\n",
                                "[evaluate]\nevery_epochs = 0.5\ntarget = \"loss <= 5.5\"\nstop_at_target = "
                                "true\n[[device]]\ncount = 2\n",
                                {"--virtual"});
  const auto& summary = trained.summary.at("summary");
  EXPECT_EQ(summary.at("finished_why"), "the target is reached");
  EXPECT_LT(summary.at("samples").get<int>(), 50 * 1200);
}

TEST(Replay, FindsARecordingThatWasChanged) {
  const TempFolder folder;
  const Trained trained = train(folder, "run", "epochs = 1\n",
                                "[sync]\npolicy = \"ssp:2\"\n[[device]]\ncount = 3\n", {"--virtual"});
  const auto change = [&](const char* sql) {
    const auto journal =
        store::Database::open(trained.run / "journal.sqlite", store::Database::Mode::kWrite).value();
    EXPECT_TRUE(journal.execute(sql).ok());
  };
  // No order depends on the work beside them, which is most of a long journal and is not read.
  change("INSERT INTO side_work VALUES(1, 1, 0, 'no such work', 0, 0, 0, 0, 0, 0)");
  EXPECT_EQ(run({"replay", trained.run.string()}).status, 0);
  change("UPDATE releases SET version = version - 1 WHERE replica = 1 AND clock = 7");
  const Ended replayed = run({"replay", trained.run.string()});
  EXPECT_EQ(replayed.status, 2);
  EXPECT_NE(replayed.errors.find("attempt 1: "), std::string::npos) << replayed.errors;
  EXPECT_NE(replayed.errors.find("iteration 7"), std::string::npos) << replayed.errors;
}

TEST(VirtualRun, IsNotResumedIntoAnotherWorld) {
  const TempFolder folder;
  const Trained live = train(folder, "live", "epochs = 0.1\n", "", {});
  const Ended resumed = run({"train", "--resume", live.run.string(), "--virtual"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_NE(resumed.errors.find("resume it without --virtual"), std::string::npos) << resumed.errors;
}

}  // namespace
}  // namespace paceline::tests
