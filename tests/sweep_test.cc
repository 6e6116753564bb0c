// `paceline sweep`: stopped in the middle and gone on with, it finds what it would have found at once.
#include <signal.h>

#include <algorithm>
#include <set>

#include <absl/strings/str_split.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr char kAxes[] = R"(
[[axis]]
name = "cluster"
[[axis.value]]
name = "mixed"
set = ["device=[{count=2, pace_ms=20, jitter=0.1}, {pace_ms=60}]"]
[[axis]]
name = "method"
[[axis.value]]
name = "BSP"
set = ["sync.policy=bsp"]
[[axis.value]]
name = "ASP"
set = ["sync.policy=asp"]
[[axis]]
name = "seed"
[[axis.value]]
name = "1"
[[axis.value]]
name = "2"
set = ["seed=2"]
)";

// A sweep of four trainings; its results go to folder/out.
fs::path small_sweep(const fs::path& folder, const std::string& epochs, const std::string& axes = kAxes) {
  const fs::path job = small_job(folder, "epochs = " + epochs + "\n");
  write_text(job, read_text(job) +
                      "[evaluate]\nevery_epochs = 0.5\ntarget = \"loss <= 5.5\"\n"
                      "[checkpoint]\nevery_epochs = 1000\nkeep = 1\n");
  const fs::path sweep = folder / "sweep.toml";
  write_text(sweep, fmt::format("job = \"job.toml\"\nout = \"{}\"\ncolumns = \"method\"\n"
                                "mean_over = \"seed\"\ncompare = \"ASP\"\n{}",
                                (folder / "out").string(), axes));
  return sweep;
}

// The lines of results.jsonl, one for each training, without the seconds of the wall.
std::vector<nlohmann::ordered_json> results(const fs::path& folder) {
  std::vector<nlohmann::ordered_json> lines;
  const std::string text = read_text(folder / "out" / "results.jsonl");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::ordered_json::parse(line.begin(), line.end()));
    EXPECT_GT(lines.back().at("wall_s").get<double>(), 0);
    lines.back().erase("wall_s");
  }
  return lines;
}

std::size_t lines_of(const fs::path& file) {
  const std::string text = fs::exists(file) ? read_text(file) : "";
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t folders_in(const fs::path& out) {
  return static_cast<std::size_t>(std::count_if(fs::directory_iterator(out), fs::directory_iterator(),
                                                [](const auto& entry) { return entry.is_directory(); }));
}

TEST(Sweep, GoesOnWhereItWasStopped) {
  const TempFolder folder;
  const fs::path sweep = small_sweep(folder.path(), "2");
  const fs::path file = folder / "out" / "results.jsonl";
  Program stopped({"sweep", sweep.string()});
  ASSERT_TRUE(stopped.until([&] { return lines_of(file) >= 1; }));
  stopped.signal(SIGINT);
  const Ended ended = stopped.wait();
  EXPECT_EQ(ended.status, 130) << ended.errors;
  EXPECT_NE(ended.errors.find("stopped; go on with: paceline sweep "), std::string::npos) << ended.errors;
  const auto before = results(folder.path());
  ASSERT_LT(before.size(), 4u);
  EXPECT_EQ(folders_in(folder / "out"), before.size());  // nothing is left of the one that was stopped

  const Ended rest = run({"sweep", sweep.string()});
  ASSERT_EQ(rest.status, 0) << rest.errors;
  EXPECT_NE(rest.errors.find(fmt::format("1 of {}: mixed, ", 4 - before.size())), std::string::npos);
  const auto whole = results(folder.path());
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), whole.begin()));
  EXPECT_NE(rest.output.find("ASP beside the others"), std::string::npos) << rest.output;

  // All there: nothing is trained, and the table is the same.
  const Ended again = run({"sweep", sweep.string()});
  EXPECT_EQ(again.errors, "");
  EXPECT_EQ(again.output, rest.output);

  // A sweep without a stop, in another folder, gives the same numbers.
  const TempFolder other;
  const Ended at_once = run({"sweep", small_sweep(other.path(), "2").string(), "--json", "-"});
  ASSERT_EQ(at_once.status, 0) << at_once.errors;
  auto fresh = results(other.path());
  ASSERT_EQ(fresh.size(), whole.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    fresh[i]["job"] = whole[i]["job"];  // the paths of the data differ
    EXPECT_EQ(fresh[i], whole[i]);
  }
  EXPECT_EQ(nlohmann::json::parse(at_once.output).size(), 4u);
}

TEST(Sweep, ItsPageSaysWhoIsTheFastestAndWhatWasRun) {
  const TempFolder folder;
  const fs::path sweep = small_sweep(folder.path(), "0.5");
  const std::string page = (folder / "page.html").string();
  ASSERT_EQ(run({"sweep", sweep.string(), "--html", page}).status, 0);
  const std::string text = read_text(page);
  for (const std::string part : {"<h2>who is the fastest</h2>", "<li>mixed: ", "<h2>What was run</h2>",
                                 "<dt>job</dt><dd>job.toml</dd>", "<dt>axis</dt><dd>method: BSP, ASP</dd>",
                                 "<dt>trainings</dt><dd>4</dd>", "<dt>seed</dt><dd>1, 2</dd>",
                                 "<dt>optimizer</dt><dd>", "<dt>command</dt><dd>paceline sweep ",
                                 "<dt>begun</dt><dd>20", "<dt>host</dt><dd>", "<dt>version</dt><dd>"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  ASSERT_EQ(run({"sweep", sweep.string(), "--html", page}).status, 0);
  EXPECT_NE(read_text(page).find("<dd>4, 4 of them by earlier commands</dd>"), std::string::npos);
}

TEST(Sweep, TrainsAgainWhatHasChanged) {
  const TempFolder folder;
  const fs::path sweep = small_sweep(folder.path(), "0.2");
  ASSERT_EQ(run({"sweep", sweep.string()}).status, 0);
  std::string text = read_text(sweep);
  const std::string policy = "sync.policy=asp";
  text.replace(text.find(policy), policy.size(), "sync.policy=ssp:1");
  write_text(sweep, text);
  const Ended changed = run({"sweep", sweep.string(), "--markdown"});
  ASSERT_EQ(changed.status, 0) << changed.errors;
  EXPECT_EQ(results(folder.path()).size(), 6u);
  EXPECT_NE(changed.errors.find("2 of 2: mixed, ASP, 2"), std::string::npos) << changed.errors;
  EXPECT_NE(changed.output.find("| cluster | BSP | ASP |\n|---|---:|---:|\n| mixed | "), std::string::npos)
      << changed.output;
}

// A person who builds the program anew in the middle of a long sweep keeps the results, and knows of it.
TEST(Sweep, ResultsOfAnotherBuildAreKeptAndSaid) {
  const TempFolder folder;
  const fs::path sweep = small_sweep(folder.path(), "0.2"), file = folder / "out" / "results.jsonl";
  const Ended first = run({"sweep", sweep.string()});
  ASSERT_EQ(first.status, 0) << first.errors;
  EXPECT_EQ(first.output.find("another build"), std::string::npos);
  std::string text;
  for (const auto& line : results(folder.path())) {
    nlohmann::ordered_json older = line;
    older["wall_s"] = 1;
    EXPECT_EQ(older.at("build").get<std::string>().rfind("0.", 0), 0u);
    if (text.empty()) older["build"] = "0.0.1 0123456789abcdef";
    if (line.at("axes").at("method") == "ASP") {  // an older program wrote no such keys
      for (const char* key : {"build", "inputs", "diverged"}) older.erase(key);
    }
    text += older.dump() + "\n";
  }
  write_text(file, text);
  const std::string page = (folder / "page.html").string();
  const Ended again = run({"sweep", sweep.string(), "--html", page});
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(read_text(file), text) << "nothing is trained";
  const std::string said = "3 of 4 trainings are by another build of Paceline (this one is 0.";
  for (const std::string& where : {again.errors, again.output, read_text(page)})
    EXPECT_NE(where.find(said), std::string::npos) << where;
  EXPECT_NE(again.errors.find("to train them again, remove their lines from " + file.string()),
            std::string::npos)
      << again.errors;
}

// One training, from the initial weights in folder/weights.safetensors; folder/plain.toml is the job without them.
fs::path sweep_from_weights(const fs::path& folder) {
  const fs::path sweep = small_sweep(folder, "0.2",
                                     "[[axis]]\nname = \"method\"\n[[axis.value]]\nname = \"ASP\"\nset = "
                                     "[\"sync.policy=asp\"]\n[[axis]]\nname = \"seed\"\n[[axis.value]]\n"
                                     "name = \"1\"\n");
  std::string job = read_text(folder / "job.toml");
  write_text(folder / "plain.toml", job);
  job.replace(job.find("[model]\n"), 8,
              "[model]\nweights = \"" + (folder / "weights.safetensors").string() + "\"\n");
  write_text(folder / "job.toml", job);
  return sweep;
}

TEST(Sweep, TrainsAgainOnOtherDataAndFromOtherWeights) {
  const TempFolder folder;
  const fs::path sweep = sweep_from_weights(folder.path()), weights = folder / "weights.safetensors";
  const auto make_weights = [&](const std::string& seed) {
    const fs::path runs = folder / ("runs" + seed);
    ASSERT_EQ(run({"train", (folder / "plain.toml").string(), "--virtual", "--set",
                   "runs_dir=" + runs.string(), "--set", "seed=" + seed})
                  .status,
              0);
    fs::remove(weights);
    ASSERT_EQ(run({"export", only_run(runs).string(), weights.string()}).status, 0);
  };
  make_weights("1");
  const auto lines_after = [&] {
    const Ended ended = run({"sweep", sweep.string()});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    const auto lines = results(folder.path());
    const bool again = ended.errors.find(
                           "1 training is on other data or other initial weights than before, and is "
                           "trained again\n") != std::string::npos;
    EXPECT_EQ(again, ended.errors.find("1 of 1: ") != std::string::npos && lines.size() > 1) << ended.errors;
    return lines.size();
  };
  EXPECT_EQ(lines_after(), 1u);
  EXPECT_EQ(lines_after(), 1u);
  const std::string first_weights = read_text(weights);
  make_weights("2");
  EXPECT_EQ(lines_after(), 2u);
  const std::string first_text = read_text(folder / "text.txt");
  write_text(folder / "text.txt", first_text + "one more line\n");
  EXPECT_EQ(lines_after(), 3u);
  write_text(folder / "text.txt", first_text);
  write_text(weights, first_weights);
  EXPECT_EQ(lines_after(), 3u) << "the first line counts again";
  const auto lines = results(folder.path());
  EXPECT_EQ(lines[0].at("job"), lines[1].at("job"));
  EXPECT_NE(lines[0].at("inputs"), lines[1].at("inputs"));
  EXPECT_NE(lines[1].at("inputs"), lines[2].at("inputs"));
}

// The measured times of the units in a run's job.
std::string measured_in(const fs::path& run) {
  std::string times;
  const std::string job = read_text(run / "job.toml");
  for (std::size_t at = 0; (at = job.find("work_ms = ", at)) != std::string::npos; ++at)
    times += job.substr(at, job.find_first_of(",}\n", at) - at) + "; ";
  return times;
}

// Two measurements on a busy machine differ, and with them the plans and the modelled times.
TEST(Sweep, AModelIsMeasuredOnceForAllTrainings) {
  const TempFolder folder;
  std::string axes = kAxes;
  axes.replace(axes.find("sync.policy=bsp"), 15, "parallel=joint");
  axes.replace(axes.find("sync.policy=asp"), 15, "parallel=gpipe");
  const fs::path sweep = small_sweep(folder.path(), "0.2", axes), out = folder / "out";
  const auto trained = [&] {
    const Ended ended = run({"sweep", sweep.string()});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    std::set<std::string> measured;
    for (const auto& entry : fs::directory_iterator(out)) {
      if (entry.is_directory()) measured.insert(measured_in(only_run(entry.path())));
    }
    EXPECT_EQ(measured.size(), 1u);
    EXPECT_NE(*measured.begin(), "");
    return results(folder.path());
  };
  const auto first = trained();
  ASSERT_EQ(first.size(), 4u);
  fs::remove(out / "results.jsonl");
  EXPECT_EQ(trained(), first) << "later commands use the same times";
  write_text(out / "models.json", "[]");
  EXPECT_NE(run({"sweep", sweep.string()}).errors.find("models.json: is damaged; remove it"),
            std::string::npos);
}

// Expects one line, exit status 2, and that nothing is made.
void expect_bad(const fs::path& sweep, const std::vector<std::string>& parts) {
  const Ended ended = run({"sweep", sweep.string()});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
  for (const std::string& part : parts) EXPECT_NE(ended.errors.find(part), std::string::npos) << ended.errors;
  EXPECT_FALSE(fs::exists(sweep.parent_path() / "out"));
}

// Some sweeps are to find out which rates are too high.
TEST(Sweep, ATrainingThatDivergesIsAResult) {
  const TempFolder folder;
  std::string axes = kAxes;
  axes.replace(axes.find("sync.policy=asp\""), 16, "sync.policy=asp\", \"optimizer.lr=1e6\"");
  const Ended ended = run({"sweep", small_sweep(folder.path(), "0.5", axes).string()});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const auto lines = results(folder.path());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.at("loss").is_null(); }),
      2);
}

TEST(Sweep, ItsFolderMayHaveAQuoteInItsName) {
  const TempFolder folder;
  const fs::path inside = folder / "3\" disk";
  fs::create_directory(inside);
  const fs::path sweep = small_sweep(folder.path(), "0.1");
  std::string text = read_text(sweep);
  const std::string out = fmt::format("out = \"{}\"", (folder / "out").string());
  write_text(sweep,
             text.replace(text.find(out), out.size(), fmt::format("out = '{}'", (inside / "out").string())));
  const Ended ended = run({"sweep", sweep.string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(results(inside).size(), 4u);
  EXPECT_EQ(folders_in(inside / "out"), 4u);
}

// Its evaluations are of weights that were still numbers.
TEST(Sweep, ATrainingThatDivergesLateHasNoEnd) {
  const TempFolder folder;
  std::string axes = kAxes;
  axes.replace(axes.find("\"sync.policy=asp\""), 17,
               "\"sync.policy=asp\", \"optimizer.lr=1e5\", \"schedule.shape=table\", "
               "\"schedule.table=[[0.8,5e-7],[0.8,1e6]]\"");
  const Ended ended = run({"sweep", small_sweep(folder.path(), "1", axes).string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto lines = results(folder.path());
  ASSERT_EQ(lines.size(), 4u);
  for (const auto& line : lines) {
    const bool asp = line.at("axes").at("method") == "ASP";
    EXPECT_EQ(line.at("diverged"), asp) << line;
    EXPECT_EQ(line.at("loss").is_null(), asp) << line;
    EXPECT_FALSE(line.at("best_loss").is_null()) << line;
  }
  EXPECT_NE(ended.output.find(", 2 diverged"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("ASP is not ranked: its training diverged with 2 of 2 seeds"),
            std::string::npos)
      << ended.output;
}

TEST(Sweep, ChecksEveryJobBeforeItTrainsOne) {
  const TempFolder folder;
  const std::string axes = kAxes;
  const auto with_last_set = [&](const std::string& set) {
    return small_sweep(folder.path(), "0.2", axes.substr(0, axes.rfind("set = ")) + "set = [" + set + "]\n");
  };
  expect_bad(with_last_set("\"sed=2\""), {"sweep.toml:26: sed=2: unknown key; did you mean 'seed'?"});
  expect_bad(with_last_set("\"seed\""), {"sweep.toml:26: seed: write KEY=VALUE"});
  expect_bad(with_last_set("\"data.source=mnist:nowhere\""),
             {"sweep.toml:26: data.source=mnist:nowhere: ", "no such directory"});
  expect_bad(with_last_set("\"sync.reject_outliers=20\""),
             {"sweep.toml:26: sync.reject_outliers=20: ", "is for live runs"});
  const fs::path sweep = with_last_set("\"seed=2\"");
  write_text(folder / "job.toml", "epochs = 1\n");
  expect_bad(sweep, {"evaluate.target"});
  write_text(folder / "job.toml", "[program]\nrun = \"train.py\"\n");
  expect_bad(sweep, {"program", "a sweep trains built-in models"});
  fs::remove(folder / "job.toml");
  expect_bad(sweep, {"job.toml"});
}

TEST(Sweep, SaysWhichLineIsNoResult) {
  const TempFolder folder;
  const fs::path sweep = small_sweep(folder.path(), "0.2");
  fs::create_directory(folder / "out");
  write_text(folder / "out" / "results.jsonl", "\n{\"job\": 3}\n");
  const Ended ended = run({"sweep", sweep.string()});
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.errors.find("results.jsonl:2: not a result"), std::string::npos) << ended.errors;
}

}  // namespace
}  // namespace paceline::tests
