#include "paceline/formats/config/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAxes[] = R"(
[[axis]]
name = "method"
[[axis.value]]
name = "BSP"
set = ["sync.policy=bsp"]
[[axis.value]]
name = "SSP"
set = ["sync.policy=ssp:3", "optimizer.lr=0.5"]
[[axis]]
name = "cluster"
[[axis.value]]
name = "two"
set = ["device=[{count=2, pace_ms=200, jitter=0.05}]"]
[[axis.value]]
name = "mixed"
set = ["device=[{pace_ms=100, link={gbps=1.0}}, {count=2, pace_ms=400}]", "change=[{device=1, at_s=5, factor=3}]"]
[[axis]]
name = "seed"
[[axis.value]]
name = "1"
[[axis.value]]
name = "2"
set = ["seed=2"]
)";
const std::string kTop = "job = \"job.toml\"\nout = \"runs/x\"\ncolumns = \"method\"\n";

Sweep sweep_of(const std::string& top, const std::string& tables = "") {
  const auto sweep = parse_sweep(top + kAxes + tables, "sweep.toml");
  EXPECT_TRUE(sweep.ok()) << sweep.status();
  return sweep.value_or(Sweep{});
}

void expect_error(const std::string& text, const std::string& says) {
  const auto sweep = parse_sweep(text, "sweep.toml");
  EXPECT_EQ(sweep.status().code(), absl::StatusCode::kInvalidArgument) << says;
  EXPECT_THAT(std::string(sweep.status().message()),
              AllOf(::testing::StartsWith("sweep.toml"), HasSubstr(says), Not(HasSubstr("\n"))));
}

std::vector<std::string> names(const Sweep& sweep) {
  std::vector<std::string> list;
  for (const SweepCell& cell : cells_of(sweep)) list.push_back(name_of(sweep, cell));
  return list;
}

TEST(Sweep, HasEveryChoiceOfValues) {
  const Sweep sweep = sweep_of(kTop + "mean_over = \"seed\"\ncompare = \"SSP\"\n");
  EXPECT_EQ(sweep.job, "job.toml");
  EXPECT_EQ(sweep.out, "runs/x");
  EXPECT_EQ(sweep.columns, 0u);
  EXPECT_EQ(sweep.mean_over, 2u);
  EXPECT_EQ(sweep.compare, 1u);
  EXPECT_THAT(names(sweep), ElementsAre("BSP, two, 1", "BSP, two, 2", "BSP, mixed, 1", "BSP, mixed, 2",
                                        "SSP, two, 1", "SSP, two, 2", "SSP, mixed, 1", "SSP, mixed, 2"));
}

TEST(Sweep, SaysWhereItLaysAValueOverTheJob) {
  const Sweep sweep = sweep_of(kTop);
  const auto said = [&](const std::string& error, const SweepCell& cell) {
    return std::string(said_by_sweep(absl::InvalidArgumentError(error), sweep, cell, "sweep.toml").message());
  };
  EXPECT_EQ(said("--set optimizer.lr=0.5: wrong", {1, 0, 0}), "sweep.toml:12: optimizer.lr=0.5: wrong");
  EXPECT_EQ(said("--set seed=2: wrong", {1, 0, 1}), "sweep.toml:27: seed=2: wrong");
  EXPECT_EQ(said("--set seed=2: wrong", {1, 0, 0}), "--set seed=2: wrong");
  EXPECT_EQ(said("job.toml:3: batch: wrong", {1, 0, 1}), "job.toml:3: batch: wrong");
}

TEST(Sweep, TablesChooseAndShareCells) {
  const Sweep sweep =
      sweep_of(kTop,
               "[[table]]\ntitle = \"a\"\naxes = {cluster = [\"two\"], seed = [\"2\", \"1\"]}\n"
               "[[table]]\naxes = {method = [\"SSP\"], seed = [\"1\"]}\n");
  ASSERT_EQ(sweep.tables.size(), 2u);
  EXPECT_EQ(sweep.tables[0].title, "a");
  EXPECT_THAT(names(sweep),
              ElementsAre("BSP, two, 1", "BSP, two, 2", "SSP, two, 1", "SSP, two, 2", "SSP, mixed, 1"));
}

TEST(Sweep, LaysWholeClustersOverAJob) {
  const Sweep sweep = sweep_of(kTop);
  const std::vector<std::string> sets = sets_of(sweep, {1, 1, 1});
  const JobConfig job = parse_job("[[device]]\ncount = 5\n", "job.toml", sets).value();
  ASSERT_EQ(job.devices.size(), 3u);
  EXPECT_EQ(job.devices[0].pace_ms, 100);
  EXPECT_EQ(job.devices[0].link.gbps, 1);
  EXPECT_EQ(job.devices[2].pace_ms, 400);
  ASSERT_EQ(job.slowdowns.size(), 1u);
  EXPECT_EQ(job.slowdowns[0].factor, 3);
  EXPECT_EQ(job.seed, 2u);
  EXPECT_EQ(job.learning_rate, 0.5);
  EXPECT_EQ(policy::to_string(job.policy), "ssp:3");
  const std::string resolved = resolve_job("[[device]]\ncount = 5\n", "job.toml", sets).value();
  EXPECT_EQ(parse_job(resolved, "job.toml").value().devices.size(), 3u);
}

TEST(Sweep, WhatIsWrongIsOneLine) {
  const std::string one = "[[axis]]\nname = \"a\"\n[[axis.value]]\nname = \"x\"\n";
  const std::string top = "job = \"j\"\nout = \"o\"\ncolumns = \"a\"\n";
  ASSERT_TRUE(parse_sweep(top + one, "sweep.toml").ok());
  expect_error("job = \"j\"\nout = 3\n" + one, "sweep.toml:2: out: ");
  expect_error("out = \"o\"\ncolumns = \"a\"\n" + one, "job: name the job file");
  expect_error("job = \"j\"\ncolumns = \"a\"\n" + one, "out: name the folder");
  expect_error(top, "axis: write at least one");
  expect_error("job = \"j\"\nout = \"o\"\n" + one, "columns: ");
  expect_error("colums = \"a\"\n" + top + one, "sweep.toml:1: colums: unknown key; did you mean 'columns'?");
  expect_error("mean_over = \"b\"\n" + top + one, "sweep.toml:1: mean_over: 'b' is unknown; write one of: a");
  expect_error("mean_over = \"a\"\n" + top + one, "mean_over: write another axis than columns");
  expect_error("compare = \"y\"\n" + top + one, "compare: 'y' is unknown; write one of: x");
  expect_error(top + one + one, "sweep.toml:9: axis.name: 'a' is there twice");
  expect_error(top + one + "[[axis.value]]\nname = \"x\"\n", "axis.value.name: 'x' is there twice");
  expect_error(top + one + "sets = [\"a=1\"]\n", "sweep.toml:8: axis.value.sets: unknown key");
  expect_error(top + one + "set = \"a=1\"\n", "axis.value.set: write a list of texts");
  expect_error(top + one + "set = [1]\n", "axis.value.set: write a list of texts");
  expect_error(top + "[[axis]]\nname = \"a\"\n", "axis.value: write at least one");
  expect_error(top + "[[axis]]\n[[axis.value]]\nname = \"x\"\n", "axis.name: give it a name");
  expect_error(top + one + "[[table]]\naxes = {b = [\"x\"]}\n",
               "table.axes.b: unknown key; did you mean 'a'?");
  expect_error(top + one + "[[table]]\naxes = {a = [\"y\"]}\n",
               "table.axes.a: 'y' is unknown; write some of: x");
  expect_error(top + one + "[[table]]\naxes = {a = [\"x\", \"x\"]}\n", "table.axes.a: 'x' is there twice");
  expect_error(top + one + "[[table]]\naxes = {a = []}\n", "table.axes.a: write at least one value");
  expect_error(
      "compare = \"x\"\n" + top + one + "[[axis.value]]\nname = \"y\"\n[[table]]\naxes = {a = [\"y\"]}\n",
      "table.axes: leaves out 'x'");
  std::string many = top;
  for (const char* name : {"a", "b", "c"}) {
    many += fmt::format("[[axis]]\nname = \"{}\"\n", name);
    for (int i = 0; i < 22; ++i) many += fmt::format("[[axis.value]]\nname = \"{}\"\n", i);
  }
  expect_error(many, "a table of more than 10000 trainings");
}

}  // namespace
}  // namespace paceline::config
